//! A capability on its standard streams: one task reads, another takes messages in their order.
//!
//! Outcomes and cancels are settled by the task that reads; messages wait in a backlog. Events run
//! on the task that takes them, and requests too if the capability handles one at a time, else as
//! tasks of their own. So a request never overtakes the events before it, and a handler that asks
//! never waits for itself.

use super::{Ask, Capability, Context, Failure, Handlers};
use crate::capability::{Inbox, Outbox, open};
use crate::runtime::executor;
use crate::{Instant, eprintln, spawn, yield_now};
use mainspring_capability::Started;
use mainspring_capability::runner::{
    Answer, Backlog, answer, ask_line, cancelled_request, cut_off, event_line, outcome, unanswered,
};
use mainspring_message::{Envelope, Json, Kind};
use serde::Serialize;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Runs until the input ends.
pub(super) async fn run(capability: Capability) -> io::Result<()> {
    let (mut inbox, outbox) = open()?;
    let course = Rc::new(Course {
        concurrency: capability.outline.concurrency(),
        handlers: capability.handlers,
        outbox,
        backlog: RefCell::default(),
        calls: RefCell::default(),
        asks: RefCell::new(Some(HashMap::new())),
        running: Cell::new(0),
        is_flushing: Cell::new(false),
        time: Cell::new(None),
        changed: Signal::default(),
    });
    let taker = spawn(take_all(Rc::clone(&course)));
    let read = read_all(&mut inbox, &course).await;
    course.end();
    // It cannot be aborted: nobody else has its handle.
    let _ = taker.await;
    course.changed.until(|| course.running.get() == 0).await;
    course.outbox.flush().await?;
    read
}

async fn read_all(inbox: &mut Inbox, course: &Course) -> io::Result<()> {
    loop {
        match inbox.next().await {
            Ok(Some(message)) => course.receive(message),
            Ok(None) => return Ok(()),
            // Those after it can be read.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                eprintln!("a line on standard input cannot be read: {error}");
            }
            Err(error) => return Err(error),
        }
    }
}

/// Takes messages in their order until there are no more.
async fn take_all(course: Rc<Course>) {
    loop {
        course.changed.until(|| course.has_news()).await;
        let Some(message) = course.backlog.borrow_mut().take() else { return };
        let message = Rc::new(message);
        if message.kind() == Kind::Event || course.concurrency == 1 {
            Rc::clone(&course).handle(message).await;
        } else {
            course.running.set(course.running.get() + 1);
            let course = Rc::clone(&course);
            spawn(async move {
                Rc::clone(&course).handle(message).await;
                course.running.set(course.running.get() - 1);
                course.changed.tell();
            });
        }
    }
}

/// Requests of its own by id: their types, and where their answers go.
type Asks = HashMap<String, (String, Rc<Slot>)>;

#[derive(Debug, Default)]
struct Slot {
    answer: RefCell<Option<Answer>>,
    filled: Signal,
}

impl Slot {
    fn fill(&self, answer: Answer) {
        self.answer.replace(Some(answer));
        self.filled.tell();
    }
}

/// What the tasks share.
pub(super) struct Course {
    concurrency: usize,
    handlers: Handlers,
    pub(super) outbox: Outbox,
    backlog: RefCell<Backlog>,
    calls: RefCell<HashMap<String, Rc<Call>>>,
    /// `None`: the input has ended, and no answer will come.
    asks: RefCell<Option<Asks>>,
    /// Requests that run as tasks of their own.
    running: Cell<usize>,
    is_flushing: Cell<bool>,
    /// The time, and the turn of the executor that it was asked for in.
    time: Cell<Option<(Instant, u64)>>,
    /// The backlog, the end of the input, the number of tasks.
    changed: Signal,
}

impl Course {
    fn has_news(&self) -> bool {
        !self.backlog.borrow().is_empty() || self.asks.borrow().is_none()
    }

    /// The time, asked for once between two waits.
    fn now(&self) -> Instant {
        let turn = executor::polls();
        if let Some((now, asked)) = self.time.get()
            && asked == turn
        {
            return now;
        }
        let now = Instant::now();
        self.time.set(Some((now, turn)));
        now
    }

    fn receive(&self, message: Envelope) {
        if let Some(id) = cancelled_request(&message) {
            let call = self.calls.borrow().get(&id).cloned();
            return call.into_iter().for_each(|call| call.cancel());
        }
        match message.kind() {
            Kind::Reply | Kind::Error => return self.settle(message),
            Kind::Command | Kind::Query => {
                self.calls.borrow_mut().insert(message.id().to_owned(), Rc::default());
            }
            Kind::Event => {}
        }
        if self.backlog.borrow_mut().put(message) {
            eprintln!("events come faster than they are handled: the oldest are dropped from now on");
        }
        self.changed.tell();
    }

    fn settle(&self, message: Envelope) {
        let cause = message.causation().unwrap_or_default();
        let found = self.asks.borrow_mut().as_mut().and_then(|asks| asks.remove(cause));
        if let Some((type_name, slot)) = found {
            slot.fill(answer(&type_name, message));
        }
    }

    /// The input has ended: no answer will come any more.
    fn end(&self) {
        let asks = self.asks.borrow_mut().take();
        for (type_name, slot) in asks.into_iter().flat_map(HashMap::into_values) {
            slot.fill(Err(cut_off(&type_name)));
        }
        self.changed.tell();
    }

    /// Runs the handler of a message and writes the outcome of a request.
    async fn handle(self: Rc<Self>, message: Rc<Envelope>) {
        let call = self.calls.borrow().get(message.id()).cloned().unwrap_or_default();
        let key = (message.kind(), message.type_name().to_owned());
        let returned = match self.handlers.get(&key) {
            Some(handle) => {
                let context = Context {
                    course: Rc::clone(&self),
                    message: Rc::clone(&message),
                    call: Rc::clone(&call),
                    since: self.now(),
                };
                handle(context).await
            }
            None => {
                let words = format!("there is no handler for the {} {}", key.0.as_str(), key.1);
                Err(Failure::new(404, words))
            }
        };
        self.calls.borrow_mut().remove(message.id());
        self.finish(&message, &call, returned).await;
    }

    async fn finish(&self, message: &Envelope, call: &Call, returned: Result<Json, Failure>) {
        if message.kind() == Kind::Event {
            if let Err(failure) = returned {
                let words = failure.words();
                eprintln!("the handler of the event {} failed: {words}", message.type_name());
            }
            return;
        }
        let (id, now_ms) = self.outbox.stamp();
        let told = outcome(message, returned, call.is_cancelled(), &id, now_ms);
        if let Some(words) = told.log {
            eprintln!("{words}");
        }
        match told.line {
            Some(line) => self.outbox.say(&line),
            None => eprintln!("an error of {} cannot be told: it is too long", message.type_name()),
        }
        self.flush_together().await;
    }

    /// Writes what was said, together with what others say in the same turn. If writing fails,
    /// reading does, too, and says so.
    async fn flush_together(&self) {
        if self.is_flushing.replace(true) {
            return;
        }
        yield_now().await;
        let _ = self.outbox.flush().await;
        self.is_flushing.set(false);
    }

    pub(super) fn emit(
        &self,
        cause: &Envelope,
        type_name: &str,
        data: &impl Serialize,
    ) -> Result<(), Failure> {
        let (id, now_ms) = self.outbox.stamp();
        let line = event_line(cause, type_name, data, &id, now_ms)?;
        self.outbox.say(&line);
        Ok(())
    }

    pub(super) async fn ask(&self, cause: &Envelope, ask: &Ask) -> Answer {
        let refused = |words: &str| unanswered(ask.type_name(), words.to_owned(), Some(Started::No));
        let (id, now_ms) = self.outbox.stamp();
        let line = ask_line(cause, ask, &id, now_ms)?;
        let slot = Rc::new(Slot::default());
        match self.asks.borrow_mut().as_mut() {
            Some(asks) => asks.insert(id.clone(), (ask.type_name().to_owned(), Rc::clone(&slot))),
            None => return Err(refused("the input has ended: there will be no answer")),
        };
        self.outbox.say(&line);
        if let Err(error) = self.outbox.flush().await {
            self.asks.borrow_mut().as_mut().and_then(|asks| asks.remove(&id));
            return Err(refused(&format!("standard output failed: {error}")));
        }
        slot.filled.until(|| slot.answer.borrow().is_some()).await;
        slot.answer.take().unwrap_or_else(|| Err(cut_off(ask.type_name())))
    }
}

/// A request in the hands of a handler.
#[derive(Debug, Default)]
pub(super) struct Call {
    is_cancelled: Cell<bool>,
    changed: Signal,
}

impl Call {
    pub(super) fn is_cancelled(&self) -> bool {
        self.is_cancelled.get()
    }

    fn cancel(&self) {
        self.is_cancelled.set(true);
        self.changed.tell();
    }

    pub(super) async fn cancelled(&self) {
        self.changed.until(|| self.is_cancelled.get()).await;
    }

    /// What a future gives; `None` if the request is cancelled before.
    pub(super) async fn or_cancelled<F: Future>(&self, future: F) -> Option<F::Output> {
        let (mut future, mut cancelled) = (pin!(future), pin!(self.cancelled()));
        poll_fn(|context| match cancelled.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(None),
            Poll::Pending => future.as_mut().poll(context).map(Some),
        })
        .await
    }
}

/// Tasks that wait until something holds.
#[derive(Debug, Default)]
struct Signal(RefCell<Vec<Waker>>);

impl Signal {
    /// Says that something has changed.
    fn tell(&self) {
        self.0.take().into_iter().for_each(Waker::wake);
    }

    async fn until(&self, holds: impl Fn() -> bool) {
        poll_fn(|context| {
            if holds() {
                return Poll::Ready(());
            }
            let mut waiting = self.0.borrow_mut();
            // A task that looks again for another reason is there already.
            if !waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                waiting.push(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}
