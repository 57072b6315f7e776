//! Requests through nats-server with its own client library, answered by the service behind it.

use super::{Load, Outcome, WARM_UP_PART};
use crate::responder::SUBJECT;
use bench_support::monotonic_ns;
use std::cell::RefCell;
use std::rc::Rc;

pub(crate) fn run(load: &Load) -> Result<Outcome, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?;
    let tasks = tokio::task::LocalSet::new();
    tasks.block_on(&runtime, exchange(load)).map_err(|error| error.to_string())
}

async fn exchange(load: &Load) -> Result<Outcome, async_nats::Error> {
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
                    client.request(SUBJECT, data.into()).await?;
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
