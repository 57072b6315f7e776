//! The state of a running capability: what it has, what it asked, what it says.

use super::output::Output;
use super::queue::Queue;
use crate::ask::Ask;
use crate::failure::{Failure, Stopped};
use crate::runner::{Answer, answer, ask_line, cancelled_request, cut_off, event_line, outcome, unanswered};
use mainspring_message::{Envelope, Json, Kind, Started};
use serde::Serialize;
use std::collections::HashMap;
use std::fmt::Write;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// How much of a line is quoted on standard error.
const QUOTE_BYTES_MAX: usize = 80;

/// A request in the hands of a handler.
#[derive(Debug, Default)]
pub(crate) struct Call {
    is_cancelled: Mutex<bool>,
    changed: Condvar,
}

impl Call {
    pub(crate) fn is_cancelled(&self) -> bool {
        *lock(&self.is_cancelled)
    }

    fn cancel(&self) {
        *lock(&self.is_cancelled) = true;
        self.changed.notify_all();
    }

    /// Waits so long, unless it is cancelled.
    pub(crate) fn wait(&self, time: Duration) -> Result<(), Stopped> {
        let end = Instant::now().checked_add(time);
        let mut is_cancelled = lock(&self.is_cancelled);
        loop {
            if *is_cancelled {
                return Err(Stopped);
            }
            let left = end.map_or(time, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Ok(());
            }
            let waited = self.changed.wait_timeout(is_cancelled, left);
            is_cancelled = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// Requests of its own by id, with their types.
type Asks = HashMap<String, (String, Sender<Answer>)>;

#[derive(Debug)]
pub(crate) struct Actor {
    pub(crate) queue: Queue,
    output: Mutex<Output>,
    calls: Mutex<HashMap<String, Arc<Call>>>,
    /// `None`: the input has ended, and no answer will come.
    asks: Mutex<Option<Asks>>,
    prefix: String,
    count: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing of ours panics half-way; handlers run without a lock.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Actor {
    pub(crate) fn new(output: Output) -> io::Result<Actor> {
        let mut random = [0_u8; 8];
        let flags = rustix::rand::GetRandomFlags::empty();
        rustix::io::retry_on_intr(|| rustix::rand::getrandom(&mut random, flags))?;
        let mut prefix = String::new();
        for byte in random {
            // Writing to a text cannot fail.
            let _ = write!(prefix, "{byte:02x}");
        }
        Ok(Actor {
            queue: Queue::default(),
            output: Mutex::new(output),
            calls: Mutex::default(),
            asks: Mutex::new(Some(HashMap::new())),
            prefix,
            count: AtomicU64::new(0),
        })
    }

    // What comes in.

    /// Takes a line of standard input.
    pub(crate) fn take(&self, line: &[u8]) {
        let message = match Envelope::parse(line) {
            Ok(message) => message,
            Err(rejection) => {
                let beginning = String::from_utf8_lossy(&line[..line.len().min(QUOTE_BYTES_MAX)]);
                eprintln!(
                    "a line on standard input cannot be read: {rejection}; it begins with {beginning:?}"
                );
                return;
            }
        };
        match message.kind() {
            Kind::Command | Kind::Query => {
                lock(&self.calls).insert(message.id().to_owned(), Arc::default());
                self.queue.put(message);
            }
            Kind::Event => match cancelled_request(&message) {
                Some(id) => self.cancel(&id),
                None => self.queue.put(message),
            },
            Kind::Reply | Kind::Error => self.settle(message),
        }
    }

    fn cancel(&self, id: &str) {
        if let Some(call) = lock(&self.calls).get(id) {
            call.cancel();
        }
    }

    fn settle(&self, message: Envelope) {
        let cause = message.causation().unwrap_or_default();
        let found = lock(&self.asks).as_mut().and_then(|asks| asks.remove(cause));
        let Some((type_name, sender)) = found else { return };
        // A handler that does not wait any more has ended.
        let _ = sender.send(answer(&type_name, message));
    }

    /// Standard input has ended: no answer will come any more.
    pub(crate) fn end(&self) {
        for (type_name, sender) in lock(&self.asks).take().into_iter().flat_map(HashMap::into_values) {
            let _ = sender.send(Err(cut_off(&type_name)));
        }
        self.queue.end();
    }

    /// A handler begins with a message.
    pub(crate) fn begin(&self, message: &Envelope) -> Arc<Call> {
        lock(&self.calls).get(message.id()).cloned().unwrap_or_default()
    }

    pub(crate) fn finish(&self, message: &Envelope) {
        lock(&self.calls).remove(message.id());
    }

    // What goes out.

    fn fresh_id(&self) -> String {
        format!("{}-{}", self.prefix, self.count.fetch_add(1, Ordering::Relaxed))
    }

    /// Ends a request with what its handler returned.
    pub(crate) fn answer(&self, request: &Envelope, call: &Call, returned: Result<Json, Failure>) {
        let told = outcome(request, returned, call.is_cancelled(), &self.fresh_id(), now_ms());
        if let Some(words) = told.log {
            eprintln!("{words}");
        }
        match told.line {
            Some(line) => self.say(&line),
            None => eprintln!("an error of {} cannot be told: it is too long", request.type_name()),
        }
    }

    pub(crate) fn emit(
        &self,
        cause: &Envelope,
        type_name: &str,
        data: &impl Serialize,
    ) -> Result<(), Failure> {
        let line = event_line(cause, type_name, data, &self.fresh_id(), now_ms())?;
        let mut output = lock(&self.output);
        output.say(&line).and_then(|()| output.flush()).map_err(Failure::from)
    }

    pub(crate) fn ask(&self, cause: &Envelope, ask: &Ask) -> Answer {
        let refused = |words: String| unanswered(&ask.type_name, words, Some(Started::No));
        let id = self.fresh_id();
        let line = ask_line(cause, ask, &id, now_ms())?;
        let (sender, receiver) = channel();
        match lock(&self.asks).as_mut() {
            Some(asks) => asks.insert(id.clone(), (ask.type_name.clone(), sender)),
            None => return Err(refused("the input has ended: there will be no answer".to_owned())),
        };
        let written = {
            let mut output = lock(&self.output);
            output.say(&line).and_then(|()| output.flush())
        };
        if let Err(error) = written {
            lock(&self.asks).as_mut().and_then(|asks| asks.remove(&id));
            return Err(refused(format!("standard output failed: {error}")));
        }
        receiver.recv().unwrap_or_else(|_| Err(cut_off(&ask.type_name)))
    }

    fn say(&self, line: &str) {
        if let Err(error) = lock(&self.output).say(line) {
            gone(&error);
        }
    }

    pub(crate) fn flush(&self) -> io::Result<()> {
        lock(&self.output).flush()
    }

    pub(crate) fn flush_or_end(&self) {
        if let Err(error) = self.flush() {
            gone(&error);
        }
    }
}

/// Whoever reads is gone: nobody is left to work for.
fn gone(error: &io::Error) -> ! {
    eprintln!("standard output failed: {error}");
    std::process::exit(1)
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}
