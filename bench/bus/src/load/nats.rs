//! Requests through nats-server with its own client library, answered by the service behind it.

use super::{Load, Outcome, WARM_UP_PART};
use crate::responder::SUBJECT;
use bench_support::monotonic_ns;
use std::cell::RefCell;
use std::rc::Rc;

/// The stream of JetStream, and what is published to it: a publication is answered when it is in
/// the stream.
const STREAM: &str = "BENCH";
const STREAM_SUBJECT: &str = "bench.set";

pub(crate) fn run(load: &Load) -> Result<Outcome, String> {
    run_on(load, SUBJECT, false)
}

/// The same to a stream on disk, which is made if it is not there.
pub(crate) fn run_jetstream(load: &Load) -> Result<Outcome, String> {
    run_on(load, STREAM_SUBJECT, true)
}

/// Makes the stream: on disk, one copy.
async fn make_stream(load: &Load) -> Result<(), async_nats::Error> {
    let client = async_nats::connect(&load.address).await?;
    let stream = format!(
        r#"{{"name":"{STREAM}","subjects":["{STREAM_SUBJECT}"],"storage":"file","retention":"limits","num_replicas":1}}"#
    );
    let answer = client.request(format!("$JS.API.STREAM.CREATE.{STREAM}"), stream.into()).await?;
    let told = String::from_utf8_lossy(&answer.payload);
    if told.contains("\"error\"") {
        return Err(format!("JetStream made no stream: {told}").into());
    }
    Ok(())
}

fn run_on(load: &Load, subject: &'static str, is_stream: bool) -> Result<Outcome, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let tasks = tokio::task::LocalSet::new();
    if is_stream {
        tasks.block_on(&runtime, make_stream(load)).map_err(|error| error.to_string())?;
    }
    tasks.block_on(&runtime, exchange(load, subject)).map_err(|error| error.to_string())
}

async fn exchange(load: &Load, subject: &'static str) -> Result<Outcome, async_nats::Error> {
    let mut clients = Vec::new();
    for _ in 0..load.connections {
        clients.push(async_nats::connect(&load.address).await?);
    }
    let (now_ns, length_ns) = (monotonic_ns(), load.duration.as_nanos() as u64);
    let counts_from_ns = now_ns + length_ns / u64::from(WARM_UP_PART);
    let ends_ns = now_ns + length_ns;
    let outcome = Rc::new(RefCell::new(Outcome::default()));
    let mut askers = Vec::new();
    for client in clients {
        for _ in 0..load.depth {
            let (client, outcome) = (client.clone(), outcome.clone());
            askers.push(tokio::task::spawn_local(async move {
                let mut number = 0u64;
                loop {
                    let sent_ns = monotonic_ns();
                    if sent_ns >= ends_ns {
                        return Ok(());
                    }
                    let data =
                        format!(r#"{{"key":"key-{}","value":"0123456789abcdef{number}"}}"#, number % 1000);
                    number += 1;
                    client.request(subject, data.into()).await?;
                    let now_ns = monotonic_ns();
                    let mut outcome = outcome.borrow_mut();
                    outcome.requests += 1;
                    if sent_ns >= counts_from_ns && now_ns <= ends_ns {
                        outcome.latencies_ns.push(now_ns - sent_ns);
                    }
                }
            }));
        }
    }
    for asker in askers {
        let asked: Result<(), async_nats::Error> = asker.await?;
        asked?;
    }
    let mut outcome = outcome.take();
    outcome.counted_ns = ends_ns - counts_from_ns;
    Ok(outcome)
}
