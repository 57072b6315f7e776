//! Prints its arguments, its environment, and whether the clocks and the random numbers of the host
//! work.

use mainspring_guest::{Instant, args, println, random_seed, system_time, vars};

fn main() -> std::io::Result<()> {
    for argument in args()? {
        println!("argument {argument}");
    }
    for (name, value) in vars()? {
        println!("variable {name}={value}");
    }
    let start = Instant::now();
    let day =
        system_time().duration_since(std::time::UNIX_EPOCH).is_ok_and(|time| time.as_secs() > 1_600_000_000);
    println!("clock {}", if day && Instant::now() >= start { "runs" } else { "stands" });
    println!("random {}", if random_seed()? == random_seed()? { "no" } else { "yes" });
    Ok(())
}
