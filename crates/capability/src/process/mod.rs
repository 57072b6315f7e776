//! A capability on its standard streams.
//!
//! One thread reads: outcomes and cancels are settled there, messages wait in a queue. Another
//! takes them in their order; events run on it, and requests too if the capability handles one at a
//! time, else on threads of their own. So a request never overtakes the events before it, and a
//! handler that asks never waits for itself.

mod actor;
mod capability;
mod context;
mod output;
mod queue;
mod signals;
mod streams;

pub use capability::Capability;
pub use context::Context;

use crate::failure::Failure;
use actor::{Actor, Call};
use capability::{Handle, Handlers};
use mainspring_message::{Envelope, Json, Kind};
use output::Output;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// The most threads; beyond, requests wait for one.
const THREADS_MAX: usize = 1024;

/// Runs until the input ends.
pub(crate) fn run(capability: Capability) -> io::Result<()> {
    let signals = signals::Signals::take()?;
    let (mut input, output) = streams::take()?;
    let actor = Arc::new(Actor::new(Output::new(Box::new(output)))?);
    let concurrency = capability.outline.concurrency();
    let course = Arc::new(Course { actor: Arc::clone(&actor), handlers: capability.handlers });
    std::thread::scope(|scope| {
        let dispatcher = scope.spawn(|| dispatch(&course, concurrency));
        let read = streams::read(&mut input, &signals, &actor);
        actor.end();
        let worked = dispatcher.join().unwrap_or_else(|_| Err(io::Error::other("the dispatcher panicked")));
        read.and(worked)
    })?;
    actor.flush()
}

/// What the threads share.
struct Course {
    actor: Arc<Actor>,
    handlers: Handlers,
}

/// Takes messages in their order until there are no more.
fn dispatch(course: &Arc<Course>, concurrency: usize) -> io::Result<()> {
    let mut workers = Workers::new();
    while let Some(message) = course.actor.queue.next() {
        if message.kind() == Kind::Event || concurrency == 1 {
            course.handle(&message);
        } else {
            workers.give(course, message)?;
        }
    }
    workers.finish();
    Ok(())
}

/// Threads that handle requests, made as they are needed. The daemon gives no more at a time than
/// the manifest says, so their number is its business.
struct Workers {
    sender: SyncSender<Envelope>,
    receiver: Arc<Mutex<Receiver<Envelope>>>,
    threads: Vec<std::thread::JoinHandle<()>>,
    idle: Arc<std::sync::atomic::AtomicUsize>,
}

impl Workers {
    fn new() -> Workers {
        let (sender, receiver) = sync_channel(THREADS_MAX);
        let receiver = Arc::new(Mutex::new(receiver));
        Workers { sender, receiver, threads: Vec::new(), idle: Arc::default() }
    }

    fn give(&mut self, course: &Arc<Course>, message: Envelope) -> io::Result<()> {
        use std::sync::atomic::Ordering::SeqCst;
        // Whoever is idle takes it; the count is lowered here, so that two messages at once make
        // two threads.
        let took = self.idle.fetch_update(SeqCst, SeqCst, |idle| idle.checked_sub(1)).is_ok();
        if !took && self.threads.len() < THREADS_MAX {
            let (course, receiver, idle) =
                (Arc::clone(course), Arc::clone(&self.receiver), Arc::clone(&self.idle));
            let work = move || {
                while let Ok(message) = next_of(&receiver) {
                    course.handle(&message);
                    idle.fetch_add(1, SeqCst);
                }
            };
            self.threads.push(std::thread::Builder::new().name("handler".to_owned()).spawn(work)?);
        }
        self.sender.send(message).map_err(|_| io::Error::other("the handlers are gone"))
    }

    fn finish(self) {
        drop(self.sender);
        for thread in self.threads {
            // A handler that panicked was told already.
            let _ = thread.join();
        }
    }
}

fn next_of(receiver: &Mutex<Receiver<Envelope>>) -> Result<Envelope, std::sync::mpsc::RecvError> {
    receiver.lock().unwrap_or_else(std::sync::PoisonError::into_inner).recv()
}

impl Course {
    /// Runs the handler of a message and writes the outcome of a request.
    fn handle(&self, message: &Envelope) {
        let key = (message.kind(), message.type_name().to_owned());
        let Some(handle) = self.handlers.get(&key) else {
            return self.refuse(message);
        };
        let call = self.actor.begin(message);
        let outcome = self.invoke(handle, message, &call);
        self.actor.finish(message);
        match (message.kind(), outcome) {
            (Kind::Event, Ok(_)) => {}
            (Kind::Event, Err(failure)) => {
                let words = failure.words();
                eprintln!("the handler of the event {} failed: {words}", message.type_name());
            }
            (_, outcome) => self.actor.answer(message, &call, outcome),
        }
        if self.actor.queue.is_empty() {
            self.actor.flush_or_end();
        }
    }

    fn invoke(&self, handle: &Handle, message: &Envelope, call: &Arc<Call>) -> Result<Json, Failure> {
        let context = Context { actor: &self.actor, message, call: Arc::clone(call), since: Instant::now() };
        // A handler's own state may be broken by its panic; ours is not touched by it.
        catch_unwind(AssertUnwindSafe(|| handle(message, &context)))
            .unwrap_or_else(|_| Err(Failure::fault("it panicked")))
    }

    fn refuse(&self, message: &Envelope) {
        let (kind, type_name) = (message.kind(), message.type_name());
        if kind != Kind::Event {
            let words = format!("there is no handler for the {} {type_name}", kind.as_str());
            self.actor.answer(message, &Call::default(), Err(Failure::new(404, words)));
            self.actor.flush_or_end();
        }
    }
}
