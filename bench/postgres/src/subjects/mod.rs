//! Who does the work: tokio (`native`), a guest on sys/loop (`new`), and a component that wakes
//! itself: on this host (`old`), waiting by `poll-socket` (`parked`), on a host that blocks its
//! thread for 1 ms (`plan`), on one that does nothing (`spin`).

mod guests;
mod native;
mod plan;

use guests::Kind;

/// Does one subject's work: `NAME WORK NUMBER GUESTS`.
pub(crate) fn run(words: &[String]) {
    let [name, work, number, guests] = words else {
        eprintln!("usage: postgres-bench subject NAME WORK NUMBER GUESTS");
        std::process::exit(2);
    };
    let number: u64 = number.parse().expect("a number");
    let guests: usize = guests.parse().expect("a number");
    let kind = match name.as_str() {
        "native" => return native::run(work, number),
        "new" => Kind::New,
        "old" => Kind::Old,
        "parked" => Kind::Parked,
        "plan" => Kind::Plan(Some(1)),
        "spin" => Kind::Plan(None),
        _ => panic!("there is no subject {name}"),
    };
    guests::run(kind, work, number, guests);
}
