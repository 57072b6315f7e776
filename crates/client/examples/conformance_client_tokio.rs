//! The conformance client (see sdk/conformance/README.md) with the client on tokio.

#[path = "conformance/mod.rs"]
mod conformance;

use conformance::{Operation, address, error, say, say_ok};
use mainspring_client::tokio::{Client, Watch};
use mainspring_client::{Canceller, Error, GapReason, Options, Watched};
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::io::BufRead;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::{LocalSet, spawn_local};

/// What a consumer is told: to go on, to take nothing, or to end.
#[derive(Clone, Copy, PartialEq)]
enum Course {
    Run,
    Pause,
    End,
}

#[derive(Default)]
struct Driver {
    client: RefCell<Option<Client>>,
    cancellers: RefCell<HashMap<u64, Canceller>>,
    watches: RefCell<HashMap<u64, watch::Sender<Course>>>,
}

impl Driver {
    fn client(&self) -> Result<Client, Error> {
        self.client.borrow().clone().ok_or_else(|| Error::Invalid("there is no client".to_owned()))
    }

    async fn connect(&self, operation: &Operation) -> Result<(), Error> {
        let wait = if operation.reconnect == Some(false) { Duration::ZERO } else { Duration::from_secs(30) };
        let client = Client::open(&address(operation)?, &Options::default().reconnect(wait)).await?;
        *self.client.borrow_mut() = Some(client);
        Ok(())
    }

    async fn request(&self, operation: &Operation) -> Result<String, Error> {
        let mut running = self.client()?.start(&operation.request()?).await?;
        self.cancellers.borrow_mut().insert(operation.n, running.canceller());
        if operation.progress == Some(true) {
            while let Some(progress) = running.next_progress().await {
                say(operation.n, "progress", progress.data());
            }
        }
        let reply = running.wait().await?;
        Ok(if operation.op == "emit" { "null".to_owned() } else { reply.text().to_owned() })
    }

    async fn follow(&self, n: u64, mut events: Watch, mut course: watch::Receiver<Course>) {
        loop {
            let watched = tokio::select! {
                watched = events.next() => watched,
                _ = course.wait_for(|course| *course == Course::End) => None,
            };
            // A consumer that is paused has taken one event at most.
            let _ = course.wait_for(|course| *course != Course::Pause).await;
            match watched {
                None => break,
                Some(Watched::Event(event)) => {
                    let (name, id) = (json!(event.type_name()), json!(event.id()));
                    say(n, "event", &format!("{{\"type\":{name},\"data\":{},\"id\":{id}}}", event.data()));
                }
                Some(Watched::Gap(gap)) => {
                    let reason = GapReason::as_str(gap.reason);
                    say(n, "gap", &json!({ "reason": reason, "count": gap.count }).to_string());
                }
            }
        }
        say(n, "end", "true");
    }

    async fn watch(&self, operation: &Operation) -> Result<(), Error> {
        let types = operation.types.clone().unwrap_or_default();
        let events = self.client()?.watch_with(&types, operation.buffer.unwrap_or(1024)).await?;
        let (sender, course) = watch::channel(Course::Run);
        self.watches.borrow_mut().insert(operation.n, sender);
        say_ok(operation.n, &json!(types).to_string());
        self.follow(operation.n, events, course).await;
        Ok(())
    }

    async fn flood(&self, operation: &Operation) -> Result<Value, Error> {
        let client = self.client()?;
        let request = operation.request()?;
        let left = Cell::new(operation.count.unwrap_or(0));
        let found = RefCell::new((0_u64, 0_u64, BTreeMap::<String, u64>::new()));
        let expected = operation.bytes.map(|_| operation.data_text());
        let work = async || {
            while left.get() > 0 {
                left.set(left.get() - 1);
                let outcome = client.request(&request).await;
                let mut found = found.borrow_mut();
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
        let mut workers: Vec<_> = (0..operation.in_flight.unwrap_or(1)).map(|_| Box::pin(work())).collect();
        let mut is_over = vec![false; workers.len()];
        std::future::poll_fn(|context| {
            for (worker, is_over) in workers.iter_mut().zip(&mut is_over).filter(|(_, is_over)| !**is_over) {
                *is_over = worker.as_mut().poll(context).is_ready();
            }
            if is_over.iter().all(|is_over| *is_over) {
                std::task::Poll::Ready(())
            } else {
                std::task::Poll::Pending
            }
        })
        .await;
        drop(workers);
        let (replies, wrong, errors) = found.into_inner();
        Ok(json!({ "replies": replies, "wrong": wrong, "errors": errors }))
    }

    fn quick(&self, operation: &Operation) -> Result<(), Error> {
        let of = operation.of.unwrap_or(0);
        let tell = |course| {
            if let Some(sender) = self.watches.borrow().get(&of) {
                sender.send_replace(course);
            }
        };
        match operation.op.as_str() {
            "close" => self.client()?.close(),
            "cancel" => {
                if let Some(canceller) = self.cancellers.borrow().get(&of) {
                    canceller.cancel();
                }
            }
            "pause" => tell(Course::Pause),
            "resume" => tell(Course::Run),
            "unwatch" => tell(Course::End),
            other => return Err(Error::Invalid(format!("there is no operation {other:?}"))),
        }
        Ok(())
    }
}

async fn operate(driver: Rc<Driver>, operation: Operation) {
    let n = operation.n;
    let done = match operation.op.as_str() {
        "connect" => driver.connect(&operation).await.map(|()| "null".to_owned()),
        "send" | "query" | "emit" => driver.request(&operation).await,
        "watch" => match driver.watch(&operation).await {
            Ok(()) => return,
            Err(failure) => Err(failure),
        },
        "flood" => driver.flood(&operation).await.map(|found| found.to_string()),
        _ => driver.quick(&operation).map(|()| "null".to_owned()),
    };
    match done {
        Ok(value) => say_ok(n, &value),
        Err(failure) => error(n, &failure),
    }
}

async fn serve(mut lines: mpsc::UnboundedReceiver<Operation>) {
    let driver = Rc::new(Driver::default());
    while let Some(operation) = lines.recv().await {
        let waits = matches!(operation.op.as_str(), "connect" | "close");
        let task = spawn_local(operate(Rc::clone(&driver), operation));
        if waits {
            let _ = task.await;
        } else {
            // Operations start in the order in which they come.
            tokio::task::yield_now().await;
        }
    }
    if let Ok(client) = driver.client() {
        client.close();
    }
    tokio::time::sleep(Duration::from_millis(50)).await;
}

fn main() {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let line = line.expect("lines of UTF-8");
            if sender.send(serde_json::from_str(&line).expect("an operation")).is_err() {
                return;
            }
        }
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    LocalSet::new().block_on(&runtime, serve(receiver));
}
