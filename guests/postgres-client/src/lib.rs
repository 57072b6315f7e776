//! What the database guests do: scenarios for the tests and work for the benchmarks, on unmodified
//! `tokio-postgres`.
//!
//! The client code is the same wherever it runs; what differs is the [`Platform`]: how a stream is
//! opened and how a task is started. [`run`] takes the words of a command line, so that whoever
//! drives a guest chooses what it does:
//!
//! ```text
//! SERVER SCENARIO [NUMBER ...]
//! ```
//!
//! `SERVER` is a connection string such as `host=127.0.0.1 port=5432 user=me password=secret
//! dbname=test`. The outcome is told in lines.

mod platform;
mod scenarios;
mod session;
mod work;

pub use platform::Platform;
use std::error::Error;

/// What went wrong, for whoever reads the guest's standard error.
pub type Failure = Box<dyn Error>;

/// What went wrong and why: `tokio-postgres` leaves what the server said to the cause.
#[must_use]
pub fn explain(failure: &Failure) -> String {
    let mut text = failure.to_string();
    let mut cause = failure.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Does what the words say.
///
/// # Errors
///
/// What went wrong: words that make no sense, or whatever the database said.
pub async fn run<P: Platform>(platform: P, words: &[String]) -> Result<(), Failure> {
    let [server, scenario, numbers @ ..] = words else {
        return Err("usage: SERVER SCENARIO [NUMBER ...]".into());
    };
    let numbers: Vec<u64> = numbers.iter().map(|word| word.parse()).collect::<Result<_, _>>()?;
    let server = session::Server::new(platform, server)?;
    let number = |index: usize| numbers.get(index).copied().ok_or("a number is missing");
    match scenario.as_str() {
        "basics" => scenarios::basics(&server).await,
        "copy" => scenarios::copy(&server, number(0)?).await,
        "notify" => scenarios::notify(&server, number(0)?).await,
        "two" => scenarios::two_at_once(&server).await,
        "cancel" => scenarios::cancel(&server).await,
        "slow" => scenarios::slow(&server, number(0)?).await,
        "idle" => scenarios::idle_in_a_transaction(&server).await,
        "restart" => scenarios::restart(&server).await,
        "prepare" => work::prepare(&server, number(0)?).await,
        "rows" => work::read_rows(&server, number(0)?).await,
        "load" => work::copy_rows_in(&server, number(0)?).await,
        "queries" => work::small_queries(&server, number(0)?).await,
        "beside-idle" => work::small_queries_beside_an_idle_connection(&server, number(0)?).await,
        unknown => Err(format!("there is no scenario {unknown}").into()),
    }
}
