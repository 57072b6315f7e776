//! The conformance client (see sdk/conformance/README.md) with the blocking client: each operation
//! on a thread of its own.

#[path = "conformance/mod.rs"]
mod conformance;

use conformance::{Operation, address, error, say, say_ok};
use mainspring_client::{
    Canceller, Client, Error, GapReason, Options, Running, Watch, WatchStopper, Watched,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::io::BufRead;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// A consumer that can be told to take nothing.
#[derive(Default)]
struct Gate {
    is_shut: Mutex<bool>,
    changed: Condvar,
}

impl Gate {
    fn set(&self, is_shut: bool) {
        *self.is_shut.lock().unwrap() = is_shut;
        self.changed.notify_all();
    }

    fn pass(&self) {
        let _open = self.changed.wait_while(self.is_shut.lock().unwrap(), |is_shut| *is_shut).unwrap();
    }
}

#[derive(Default)]
struct Driver {
    client: Mutex<Option<Client>>,
    cancellers: Mutex<HashMap<u64, Canceller>>,
    watches: Mutex<HashMap<u64, (Arc<Gate>, WatchStopper)>>,
}

impl Driver {
    fn client(&self) -> Result<Client, Error> {
        let client = self.client.lock().unwrap().clone();
        client.ok_or_else(|| Error::Invalid("there is no client".to_owned()))
    }

    fn connect(&self, operation: &Operation) -> Result<(), Error> {
        let wait = if operation.reconnect == Some(false) { Duration::ZERO } else { Duration::from_secs(30) };
        let client = Client::open(&address(operation)?, &Options::default().reconnect(wait))?;
        *self.client.lock().unwrap() = Some(client);
        Ok(())
    }

    /// Starts what can be started here, so that operations start in their order.
    fn begin(&self, operation: &Operation) -> Result<Running, Error> {
        let running = self.client()?.start(&operation.request()?)?;
        self.cancellers.lock().unwrap().insert(operation.n, running.canceller());
        Ok(running)
    }

    fn finish(n: u64, with_progress: bool, mut running: Running) {
        while let Some(progress) = if with_progress { running.next_progress() } else { None } {
            say(n, "progress", progress.data());
        }
        match running.wait() {
            Ok(reply) => say_ok(n, reply.text()),
            Err(failure) => error(n, &failure),
        }
    }

    fn watch(&self, operation: &Operation) -> Result<Watch, Error> {
        let types = operation.types.clone().unwrap_or_default();
        let watch = self.client()?.watch_with(&types, operation.buffer.unwrap_or(1024))?;
        let place = (Arc::new(Gate::default()), watch.stopper());
        self.watches.lock().unwrap().insert(operation.n, place);
        say_ok(operation.n, &json!(types).to_string());
        Ok(watch)
    }

    fn follow(&self, n: u64, watch: Watch) {
        let gate = Arc::clone(&self.watches.lock().unwrap()[&n].0);
        for watched in watch {
            // A consumer that is paused has taken one event at most.
            gate.pass();
            match watched {
                Watched::Event(event) => {
                    let (name, id) = (json!(event.type_name()), json!(event.id()));
                    say(n, "event", &format!("{{\"type\":{name},\"data\":{},\"id\":{id}}}", event.data()));
                }
                Watched::Gap(gap) => {
                    let reason = GapReason::as_str(gap.reason);
                    say(n, "gap", &json!({ "reason": reason, "count": gap.count }).to_string());
                }
            }
        }
        say(n, "end", "true");
    }

    fn flood(&self, operation: &Operation) -> Result<Value, Error> {
        let client = self.client()?;
        let request = operation.request()?;
        let left = Mutex::new(operation.count.unwrap_or(0));
        let found = Mutex::new((0_u64, 0_u64, BTreeMap::<String, u64>::new()));
        let expected = operation.bytes.map(|_| operation.data_text());
        let work = || {
            loop {
                {
                    let mut left = left.lock().unwrap();
                    if *left == 0 {
                        return;
                    }
                    *left -= 1;
                }
                let outcome = client.request(&request);
                let mut found = found.lock().unwrap();
                match outcome {
                    Ok(reply) => {
                        found.0 += 1;
                        found.1 += u64::from(expected.as_deref().is_some_and(|data| data != reply.text()));
                    }
                    Err(failure) => {
                        let code =
                            failure.code().map_or_else(|| failure.to_string(), |code| code.to_string());
                        *found.2.entry(code).or_default() += 1;
                    }
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..operation.in_flight.unwrap_or(1) {
                scope.spawn(work);
            }
        });
        let (replies, wrong, errors) = found.into_inner().unwrap();
        Ok(json!({ "replies": replies, "wrong": wrong, "errors": errors }))
    }

    fn quick(&self, operation: &Operation) -> Result<(), Error> {
        let of = operation.of.unwrap_or(0);
        let gate = |is_shut| {
            if let Some((gate, _)) = self.watches.lock().unwrap().get(&of) {
                gate.set(is_shut);
            }
        };
        match operation.op.as_str() {
            "connect" => self.connect(operation)?,
            "close" => self.client()?.close(),
            "cancel" => {
                if let Some(canceller) = self.cancellers.lock().unwrap().get(&of) {
                    canceller.cancel();
                }
            }
            "pause" => gate(true),
            "resume" => gate(false),
            "unwatch" => {
                if let Some((gate, stopper)) = self.watches.lock().unwrap().get(&of) {
                    stopper.stop();
                    gate.set(false);
                }
            }
            other => return Err(Error::Invalid(format!("there is no operation {other:?}"))),
        }
        Ok(())
    }
}

fn operate(driver: &Arc<Driver>, operation: Operation) {
    let n = operation.n;
    match operation.op.as_str() {
        "send" | "query" | "emit" => match driver.begin(&operation) {
            Err(failure) => error(n, &failure),
            Ok(running) if operation.op == "emit" => {
                std::thread::spawn(move || match running.wait() {
                    Ok(_) => say_ok(n, "null"),
                    Err(failure) => error(n, &failure),
                });
            }
            Ok(running) => {
                let with_progress = operation.progress == Some(true);
                std::thread::spawn(move || Driver::finish(n, with_progress, running));
            }
        },
        "watch" => {
            let driver = Arc::clone(driver);
            std::thread::spawn(move || match driver.watch(&operation) {
                Ok(watch) => driver.follow(n, watch),
                Err(failure) => error(n, &failure),
            });
        }
        "flood" => {
            let driver = Arc::clone(driver);
            std::thread::spawn(move || match driver.flood(&operation) {
                Ok(found) => say_ok(n, &found.to_string()),
                Err(failure) => error(n, &failure),
            });
        }
        _ => match driver.quick(&operation) {
            Ok(()) => say_ok(n, "null"),
            Err(failure) => error(n, &failure),
        },
    }
}

fn main() {
    let driver = Arc::new(Driver::default());
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("lines of UTF-8");
        operate(&driver, serde_json::from_str(&line).expect("an operation"));
    }
    if let Ok(client) = driver.client() {
        client.close();
    }
    // Threads that still say something are done in a moment.
    std::thread::sleep(Duration::from_millis(50));
}
