//! Who does the work: guests (`mainspring`), the same server natively on the reactor (`native`),
//! and `wasi:io/poll` (`wasi-poll`).

mod guests;
mod native;
mod wasi_poll;

use crate::server::Load;

/// Does one subject's work: `NAME CASE NUMBERS...`. Which subject can do which case is the
/// harness's knowledge.
pub(crate) fn run(words: &[String]) {
    let [name, case, numbers @ ..] = words else {
        eprintln!("usage: guests-bench subject NAME CASE NUMBERS...");
        std::process::exit(2);
    };
    let mut n = [0; 4];
    for (slot, word) in n.iter_mut().zip(numbers) {
        *slot = word.parse().unwrap_or_else(|_| panic!("{word} is not a number"));
    }
    raise_descriptor_limit();
    match (name.as_str(), case.as_str()) {
        ("mainspring", "park") => guests::park(n[0] as u32, n[1]),
        ("mainspring", "echo" | "poll") => guests::echo(Load::new(n)),
        ("mainspring", "start-warm") => guests::start_warm(n[0]),
        ("mainspring", "start-fresh") => guests::start_fresh(n[0]),
        ("native", "echo") => native::echo(Load::new(n)),
        ("wasi-poll", "poll") => wasi_poll::poll(n[0], n[2], n[3]),
        _ => {
            eprintln!("{name} cannot do {case}");
            std::process::exit(2);
        }
    }
}

/// Ten thousand connections need as many descriptors.
fn raise_descriptor_limit() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid, writable rlimit for the length of both calls.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}
