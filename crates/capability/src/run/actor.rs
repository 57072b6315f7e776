//! The state of a running capability: what it has, what it asked, what it says.

use super::output::Output;
use super::queue::Queue;
use crate::ask::{Ask, AskError, Reply};
use crate::context::Stopped;
use crate::failure::Failure;
use mainspring_message::{Draft, Envelope, Json, Kind, Parts, Started, check_type_name};
use std::collections::HashMap;
use std::fmt::Write;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// The longest line that a daemon takes, as shipped (`limits.line_bytes_max`).
const LINE_BYTES_MAX: usize = 1 << 20;
/// How much of a line is quoted on standard error.
const QUOTE_BYTES_MAX: usize = 80;
const CANCELLED: &str = "Sys.RequestCancelled";

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

type Answer = Result<Envelope, AskError>;
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
            Kind::Event if message.type_name() == CANCELLED => self.cancel(&message),
            Kind::Event => self.queue.put(message),
            Kind::Reply | Kind::Error => self.settle(message),
        }
    }

    fn cancel(&self, event: &Envelope) {
        let data: serde_json::Value = serde_json::from_str(event.data()).unwrap_or_default();
        let Some(id) = event.causation().or(data["id"].as_str()) else { return };
        if let Some(call) = lock(&self.calls).get(id) {
            call.cancel();
        }
    }

    fn settle(&self, message: Envelope) {
        let cause = message.causation().unwrap_or_default();
        let found = lock(&self.asks).as_mut().and_then(|asks| asks.remove(cause));
        let Some((type_name, sender)) = found else { return };
        let answer = match message.kind() {
            Kind::Reply => Ok(message),
            _ => Err(AskError::of(&message, &type_name)),
        };
        // A handler that does not wait any more has ended.
        let _ = sender.send(answer);
    }

    /// Standard input has ended: no answer will come any more.
    pub(crate) fn end(&self) {
        for (type_name, sender) in lock(&self.asks).take().into_iter().flat_map(HashMap::into_values) {
            let words = format!("the input ended before {type_name} was answered");
            let _ = sender.send(Err(AskError::unanswered(&type_name, words, None)));
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

    /// The line of a draft, if the daemon would take it.
    fn line(&self, draft: &Draft, id: &str) -> Result<String, Failure> {
        let parts: Parts<'_> = draft.parts(id, now_ms());
        let mut line = String::with_capacity(draft.data.as_str().len() + 256);
        parts.append_to(&mut line);
        let fault = |words: String| Failure::fault(format_args!("{} {words}", draft.type_name.as_str()));
        if draft.data.is_too_deep() {
            return Err(fault("nests more than 128 levels deep with the message around it".to_owned()));
        }
        if line.len() > LINE_BYTES_MAX {
            return Err(fault(format!(
                "is {} bytes long, and a line has at most {LINE_BYTES_MAX}",
                line.len()
            )));
        }
        Ok(line)
    }

    pub(crate) fn reply(&self, request: &Envelope, data: Json) {
        match self.line(&Draft::reply(request, data), &self.fresh_id()) {
            Ok(line) => self.say(&line),
            Err(failure) => self.fail(request, &Call::default(), failure),
        }
    }

    pub(crate) fn fail(&self, request: &Envelope, call: &Call, failure: Failure) {
        let type_name = request.type_name();
        match failure.secret {
            None => self.write_error(request, failure.code, &failure.message),
            Some(_) if call.is_cancelled() => self.write_error(request, 499, "cancelled"),
            Some(secret) => {
                // What an unexpected error says is for the log: it may be about others' requests.
                eprintln!("the handler of {type_name} failed: {secret}");
                let words = format!("the handler of {type_name} failed; the capability's log says more");
                self.write_error(request, failure.code, &words);
            }
        }
    }

    pub(crate) fn write_error(&self, request: &Envelope, code: u16, message: &str) {
        let id = self.fresh_id();
        let draft = |words: &str| self.line(&Draft::error(request, code, words), &id);
        let short = || draft(message.get(..4096).unwrap_or("the error's own words are too long to be told"));
        match draft(message).or_else(|_| short()) {
            Ok(line) => self.say(&line),
            Err(failure) => eprintln!("an error cannot be told: {}", failure.message),
        }
    }

    pub(crate) fn emit(&self, cause: &Envelope, type_name: &str, data: Json) -> Result<(), Failure> {
        check_type_name(type_name)
            .map_err(|reason| Failure::fault(format_args!("{type_name:?}: {reason}")))?;
        let line = self.line(&Draft::caused_by(cause, Kind::Event, type_name, data), &self.fresh_id())?;
        let mut output = lock(&self.output);
        output.say(&line).and_then(|()| output.flush()).map_err(Failure::from)
    }

    pub(crate) fn ask(&self, cause: &Envelope, ask: &Ask) -> Result<Reply, AskError> {
        let refused = |words: String| AskError::unanswered(&ask.type_name, words, Some(Started::No));
        check_type_name(&ask.type_name).map_err(|reason| refused(reason.to_owned()))?;
        let data = ask.data.clone().map_err(&refused)?;
        let mut draft = Draft::caused_by(cause, ask.kind, ask.type_name.as_str(), data);
        draft.timeout_ms = ask.timeout.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1));
        draft.check().map_err(|(field, reason)| refused(format!("{field}: {reason}")))?;
        let id = self.fresh_id();
        let line = self.line(&draft, &id).map_err(|failure| refused(failure.secret.unwrap_or_default()))?;
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
        let ended = || AskError::unanswered(&ask.type_name, "nobody will answer".to_owned(), None);
        receiver.recv().unwrap_or_else(|_| Err(ended())).map(Reply)
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
