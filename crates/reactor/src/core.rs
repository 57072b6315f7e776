//! The state of a loop, shared by its owner, its handles and the callbacks that run on it.
//!
//! Every cell is borrowed for the length of one bookkeeping step and never while user code runs: a callback, a future, or
//! the drop of either. So anything may be called from anywhere, and no borrow can fail (decision R9).

use crate::children::ChildTable;
use crate::clock::{Clock, VirtualClock};
use crate::fds::{Change, CurrentCall, FdTable, Kernel, Lookup, Request};
use crate::handler::HandlerBox;
use crate::labels::{Label, LabelNames, Labels};
use crate::observe::Observer;
use crate::pool::Pool;
use crate::remote::{Mailbox, Wakeup};
use crate::signals::SignalTable;
use crate::stall::Pulse;
use crate::stats::{Counters, Timing, count};
use crate::sys::{Poller, Registration, Tokens, WAKE};
use crate::timers::{Action, TimerTable};
use crate::{Backend, Error, Handle, Instant, Interest, Mode, Readiness, Result, Timer, Watcher};
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::os::fd::RawFd;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::Waker;

/// A call that the loop makes once, on a later turn.
pub(crate) type Deferred = Box<dyn FnOnce(&Handle)>;
/// The callback of a [`Wakeup`], absent while it runs.
pub(crate) type WakeupCallback = Option<Box<dyn FnMut(&Handle)>>;

pub(crate) struct WakeupSlot {
    pub(crate) signalled: Arc<AtomicBool>,
    pub(crate) callback: WakeupCallback,
}

pub(crate) struct Core {
    pub(crate) poller: RefCell<Poller>,
    pub(crate) backend: Backend,
    pub(crate) fds: RefCell<FdTable>,
    current_call: CurrentCall,
    pub(crate) timers: RefCell<TimerTable>,
    pub(crate) deferred: RefCell<VecDeque<Deferred>>,
    pub(crate) wakeups: RefCell<Slab<WakeupSlot>>,
    pub(crate) signals: RefCell<SignalTable>,
    pub(crate) children: RefCell<ChildTable>,
    /// A waker for each live task, by which all can be ended when the loop is.
    tasks: RefCell<Slab<Option<Waker>>>,
    pool: RefCell<Pool>,
    labels: RefCell<Labels>,
    observer: RefCell<Observer>,
    mailbox: Arc<Mailbox>,
    pub(crate) clock: Clock,
    pub(crate) counters: Counters,
    pub(crate) observed: Cell<bool>,
    pub(crate) running: Cell<bool>,
    embedded: Cell<bool>,
    closed: Cell<bool>,
    /// The latest time that was read: what is due by it needs no look at the clock.
    pub(crate) latest_now: Cell<Instant>,
    /// The fork generation in which the kernel objects were made.
    pub(crate) fork_generation: Cell<u32>,
}

impl Core {
    pub(crate) fn new(backend: Backend, clock: Clock, pool: Pool) -> Result<Core> {
        crate::fork::watch();
        let mut poller = Poller::new(backend)?;
        let wake_fd = crate::sys::wake_fd::WakeFd::new(backend)?;
        poller.add(wake_fd.raw_fd(), WAKE, Interest::READ, Mode::Level)?;
        Ok(Core {
            poller: RefCell::new(poller),
            backend,
            fds: RefCell::default(),
            current_call: CurrentCall::default(),
            timers: RefCell::default(),
            deferred: RefCell::default(),
            wakeups: RefCell::default(),
            signals: RefCell::default(),
            children: RefCell::default(),
            tasks: RefCell::default(),
            pool: RefCell::new(pool),
            labels: RefCell::default(),
            observer: RefCell::default(),
            mailbox: Arc::new(Mailbox::new(wake_fd)),
            clock,
            counters: Counters::default(),
            observed: Cell::new(false),
            running: Cell::new(false),
            embedded: Cell::new(false),
            closed: Cell::new(false),
            latest_now: Cell::new(Instant::MIN),
            fork_generation: Cell::new(crate::fork::generation()),
        })
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.get() { Err(Error::Closed) } else { Ok(()) }
    }

    pub(crate) fn mailbox(&self) -> &Arc<Mailbox> {
        &self.mailbox
    }

    pub(crate) fn pool(&self) -> &RefCell<Pool> {
        &self.pool
    }

    /// Reads the clock.
    #[inline]
    pub(crate) fn now(&self) -> Instant {
        let now = self.clock.now();
        self.latest_now.set(now);
        now
    }

    pub(crate) fn virtual_clock(&self) -> Option<&VirtualClock> {
        match &self.clock {
            Clock::Virtual(clock) => Some(clock),
            Clock::Monotonic => None,
        }
    }

    /// Makes every kernel object anew in a process that was forked from the one that made them: what it did to the old
    /// ones, it would do to its parent's loop.
    #[inline]
    pub(crate) fn renew_after_fork(&self) -> Result<()> {
        if self.fork_generation.get() == crate::fork::generation() { Ok(()) } else { self.after_fork() }
    }

    #[cold]
    fn after_fork(&self) -> Result<()> {
        self.fork_generation.set(crate::fork::generation());
        self.mailbox.after_fork(self.backend)?;
        self.pool.borrow_mut().after_fork();
        crate::signals::after_fork(self)?;
        self.poller.borrow_mut().leave_parent()?;
        self.rebuild()
    }

    /// Whether only a test can move the clock on.
    pub(crate) fn time_stands_still(&self) -> bool {
        self.virtual_clock().is_some_and(|clock| !clock.auto_advances())
    }

    // Watchers

    pub(crate) fn watch(&self, fd: RawFd, request: &Request, handler: HandlerBox) -> Result<Watcher> {
        self.check_open()?;
        self.renew_after_fork()?;
        if fd < 0 {
            return Err(Error::BadFd { fd });
        }
        if request.interest.is_empty() {
            // Nothing is asked of the kernel, which would otherwise notice a closed number.
            rustix::io::fcntl_getfd(crate::sys::borrow(fd)).map_err(|_| Error::BadFd { fd })?;
        }
        let (change, tokens) = self.fds.borrow().plan(fd, request);
        let (kernel, token) = self.apply(change, fd, tokens, request)?;
        self.mailbox.set_attention(true);
        let (watcher, replaced) =
            self.fds.borrow_mut().commit_watch(fd, token, request, kernel, handler, &self.current_call);
        drop(replaced);
        Ok(watcher)
    }

    pub(crate) fn modify(&self, watcher: Watcher, interest: Interest) -> Result<()> {
        self.check_open()?;
        self.renew_after_fork()?;
        let Some(mut request) = self.fds.borrow().request_of(watcher) else { return Err(Error::Gone) };
        if !request.accepts.contains(interest) {
            return Err(Error::NoCallback);
        }
        request.interest = interest;
        let (change, tokens) = self.fds.borrow().plan(watcher.raw_fd(), &request);
        let (kernel, token) = self.apply(change, watcher.raw_fd(), tokens, &request)?;
        self.mailbox.set_attention(true);
        self.fds.borrow_mut().commit_interest(watcher, token, &request, kernel);
        Ok(())
    }

    /// Tells the kernel. Says where the descriptor then stands, and with which token.
    fn apply(&self, change: Change, fd: RawFd, tokens: Tokens, request: &Request) -> Result<(Kernel, u64)> {
        let mut poller = self.poller.borrow_mut();
        let Tokens { same, fresh } = tokens;
        let (registration, token) = match change {
            Change::None => return Ok((self.fds.borrow().kernel_of(fd), same)),
            Change::Remove => {
                poller.remove(fd);
                return Ok((Kernel::Absent, fresh));
            }
            Change::Add => (poller.add(fd, fresh, request.interest, request.mode)?, fresh),
            Change::Modify => poller.modify(fd, tokens, request.interest, request.mode)?,
        };
        if registration == Registration::Always {
            self.mailbox.notify_embedder();
        }
        Ok((Kernel::Armed(registration), token))
    }

    pub(crate) fn unwatch(&self, watcher: Watcher) -> bool {
        let Some((handler, known_to_kernel)) = self.fds.borrow_mut().remove(watcher, &self.current_call)
        else {
            return false;
        };
        self.mailbox.set_attention(true);
        if known_to_kernel && self.renew_after_fork().is_ok() {
            self.poller.borrow_mut().remove(watcher.raw_fd());
        }
        // After the kernel has let go: dropping an owned source closes it.
        drop(handler);
        true
    }

    pub(crate) fn interest_of(&self, watcher: Watcher) -> Option<Interest> {
        self.fds.borrow().request_of(watcher).map(|request| request.interest)
    }

    pub(crate) fn watcher_of(&self, fd: RawFd) -> Option<Watcher> {
        self.fds.borrow().watcher_of(fd)
    }

    pub(crate) fn label_of(&self, watcher: Watcher) -> Label {
        self.fds.borrow().label_of(watcher)
    }

    #[inline]
    pub(crate) fn is_watching(&self, watcher: Watcher) -> bool {
        self.fds.borrow().contains(watcher)
    }

    pub(crate) fn watcher_count(&self) -> usize {
        self.fds.borrow().len()
    }

    /// Finds whom an event is for.
    #[inline]
    pub(crate) fn begin_call(&self, token: u64, readiness: Readiness) -> Lookup {
        // SAFETY: nobody borrows the table mutably while this reference lives, because `begin` calls nothing that could;
        // that nobody has it borrowed already is checked, as a counted borrow would check it.
        let fds = unsafe { self.fds.try_borrow_unguarded() };
        match fds {
            Ok(fds) => fds.begin(token, readiness, &self.current_call),
            Err(_) => unreachable!("the table is borrowed for single steps only"),
        }
    }

    /// The call has returned. Hands back a handler whose watch ended meanwhile.
    #[inline]
    pub(crate) fn end_call(&self) -> Option<HandlerBox> {
        self.current_call.end()
    }

    /// Starts a new kernel set and enters everything that should be in it, so that no registration of the past can
    /// report any more (decision R1).
    pub(crate) fn rebuild(&self) -> Result<()> {
        let mut poller = self.poller.borrow_mut();
        poller.reset()?;
        poller.add(self.mailbox.wake_fd.raw_fd(), WAKE, Interest::READ, Mode::Level)?;
        let mut gone = Vec::new();
        {
            let mut fds = self.fds.borrow_mut();
            fds.kernel_forgot();
            for (fd, token, interest, mode) in fds.registrations() {
                // A raw number that was closed behind our back is not there any more.
                if poller.add(fd, token, interest, mode).is_err() {
                    gone.extend(fds.watcher_of(fd));
                }
            }
        }
        drop(poller);
        for watcher in gone {
            self.unwatch(watcher);
        }
        count(&self.counters.rebuilds, 1);
        Ok(())
    }

    // Timers

    pub(crate) fn add_timer(&self, deadline: Instant, action: Action, label: Label) -> Result<Timer> {
        self.check_open()?;
        self.mailbox.set_attention(true);
        let turn = self.counters.turns.get();
        let timer = self.timers.borrow_mut().insert(deadline, action, label, turn);
        self.arm_for_embedder(deadline)?;
        Ok(timer)
    }

    pub(crate) fn cancel_timer(&self, timer: Timer) -> bool {
        let action = self.timers.borrow_mut().remove(timer);
        action.is_some()
    }

    pub(crate) fn reschedule_timer(&self, timer: Timer, deadline: Instant) -> bool {
        let moved = self.timers.borrow_mut().reschedule(timer, deadline, self.counters.turns.get());
        if moved {
            let _ = self.arm_for_embedder(deadline);
        }
        moved
    }

    pub(crate) fn set_timer_waker(&self, timer: Timer, waker: &Waker) {
        let replaced = self.timers.borrow_mut().set_waker(timer, waker);
        drop(replaced);
    }

    pub(crate) fn has_timer(&self, timer: Timer) -> bool {
        self.timers.borrow().contains(timer)
    }

    pub(crate) fn timer_count(&self) -> usize {
        self.timers.borrow().len()
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        self.timers.borrow().first_deadline()
    }

    /// A foreign loop waits for us, so the alarm must be right at all times, not just when we wait ourselves.
    fn arm_for_embedder(&self, deadline: Instant) -> Result<()> {
        if !self.embedded.get() {
            return Ok(());
        }
        if self.virtual_clock().is_some() || deadline <= self.latest_now.get() {
            self.mailbox.notify_embedder();
            return Ok(());
        }
        self.renew_after_fork()?;
        self.poller.borrow_mut().arm(deadline)
    }

    /// Leaves everything as a foreign loop that waits for us needs it.
    pub(crate) fn prepare_for_embedder(&self) -> Result<()> {
        if !self.embedded.get() {
            return Ok(());
        }
        if self.has_immediate_work() || self.poller.borrow().has_always_ready() {
            self.mailbox.notify_embedder();
        }
        self.next_deadline().map_or(Ok(()), |deadline| self.arm_for_embedder(deadline))
    }

    pub(crate) fn embedding_fd(&self) -> Result<RawFd> {
        self.check_open()?;
        self.renew_after_fork()?;
        match &mut *self.poller.borrow_mut() {
            #[cfg(target_os = "linux")]
            Poller::Epoll(epoll) => {
                use std::os::fd::AsRawFd;
                self.embedded.set(true);
                self.mailbox.set_embedded();
                self.mailbox.set_attention(true);
                return epoll.embedding_fd().map(|fd| fd.as_raw_fd());
            }
            Poller::Poll(_) => {}
        }
        Err(Error::Unsupported { what: "a descriptor for embedding", backend: self.backend })
    }

    // Deferred calls, wake-ups, tasks

    pub(crate) fn defer(&self, call: Deferred) -> Result<()> {
        self.check_open()?;
        self.mailbox.set_attention(true);
        self.deferred.borrow_mut().push_back(call);
        self.mailbox.notify_embedder();
        Ok(())
    }

    pub(crate) fn add_wakeup(&self, callback: Box<dyn FnMut(&Handle)>) -> Result<Wakeup> {
        self.check_open()?;
        let signalled = Arc::new(AtomicBool::new(false));
        let slot = WakeupSlot { signalled: signalled.clone(), callback: Some(callback) };
        let key = self.wakeups.borrow_mut().insert(slot);
        Ok(Wakeup::new(self.mailbox.clone(), key, signalled))
    }

    pub(crate) fn task_begun(&self) -> usize {
        self.tasks.borrow_mut().insert(None)
    }

    pub(crate) fn task_waker(&self, key: usize, waker: Waker) {
        if let Some(entry) = self.tasks.borrow_mut().get_mut(key) {
            *entry = Some(waker);
        }
    }

    pub(crate) fn task_ended(&self, key: usize) {
        let entry = self.tasks.borrow_mut().try_remove(key);
        drop(entry);
    }

    pub(crate) fn task_count(&self) -> usize {
        self.tasks.borrow().len()
    }

    // The turn's questions

    /// Whether the next turn must not block.
    pub(crate) fn has_immediate_work(&self) -> bool {
        !self.deferred.borrow().is_empty() || self.mailbox.has_ready() || self.timer_known_due()
    }

    /// Whether turns must look after more than ready descriptors.
    pub(crate) fn has_concerns(&self) -> bool {
        self.timers.borrow().len() > 0
            || self.has_immediate_work()
            || self.fds.borrow().has_fresh()
            || self.observed.get()
            || self.embedded.get()
            || self.virtual_clock().is_some()
    }

    /// Whether a timer is due by the time that was last read.
    #[inline]
    pub(crate) fn timer_known_due(&self) -> bool {
        self.timers.borrow().first_deadline().is_some_and(|deadline| deadline <= self.latest_now.get())
    }

    /// Whether anything is left that could lead to a callback without another thread's doing.
    pub(crate) fn is_idle(&self) -> bool {
        self.fds.borrow().armed() == self.signals.borrow().armed_watchers()
            && self.timers.borrow().len() == 0
            && self.deferred.borrow().is_empty()
            && self.children.borrow().is_empty()
            && self.tasks.borrow().is_empty()
            && self.pool.borrow().in_flight() == 0
            && self.mailbox.inbox().calls.is_empty()
    }

    // Observation

    pub(crate) fn intern(&self, label: &str) -> Label {
        self.labels.borrow_mut().intern(label)
    }

    pub(crate) fn label_watcher(&self, watcher: Watcher, label: Label) -> bool {
        self.fds.borrow_mut().set_label(watcher, label)
    }

    pub(crate) fn label_timer(&self, timer: Timer, label: Label) -> bool {
        self.timers.borrow_mut().set_label(timer, label)
    }

    pub(crate) fn label_names(&self) -> LabelNames {
        self.labels.borrow().names()
    }

    /// Changes what is observed, and notes whether anything is.
    fn observe_with(&self, change: impl FnOnce(&mut Observer)) {
        let mut observer = self.observer.borrow_mut();
        change(&mut observer);
        self.observed.set(observer.is_on());
        self.mailbox.set_attention(true);
    }

    pub(crate) fn set_timing(&self, on: bool) {
        self.observe_with(|observer| observer.set_timing(on));
    }

    pub(crate) fn timing(&self) -> Option<Timing> {
        self.observer.borrow().timing(&self.label_names())
    }

    pub(crate) fn set_pulse(&self, pulse: Arc<Pulse>) {
        self.observe_with(|observer| observer.set_pulse(pulse));
    }

    pub(crate) fn clear_pulse(&self, pulse: &Arc<Pulse>) {
        self.observe_with(|observer| observer.clear_pulse(pulse));
    }

    /// Notes something, if anything is observed at all.
    #[inline]
    pub(crate) fn note<R: Default>(&self, note: impl FnOnce(&mut Observer) -> R) -> R {
        if self.observed.get() { note(&mut self.observer.borrow_mut()) } else { R::default() }
    }

    // The end

    /// Ends everything on the loop. What is dropped may run user code, which finds the loop closed.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        let inbox = {
            let mut inbox = self.mailbox.inbox();
            inbox.closed = true;
            (
                std::mem::take(&mut inbox.calls),
                std::mem::take(&mut inbox.runnables),
                std::mem::take(&mut inbox.signalled),
                std::mem::take(&mut inbox.ended),
            )
        };
        drop(inbox);
        self.end_tasks();
        crate::signals::close(self);
        let children = std::mem::take(&mut *self.children.borrow_mut());
        drop(children);
        let watchers = self.fds.borrow().watchers();
        for watcher in watchers {
            self.unwatch(watcher);
        }
        let timers = std::mem::take(&mut *self.timers.borrow_mut());
        drop(timers);
        let deferred = std::mem::take(&mut *self.deferred.borrow_mut());
        drop(deferred);
        let wakeups = std::mem::take(&mut *self.wakeups.borrow_mut());
        drop(wakeups);
    }

    /// Wakes every task and drops it instead of running it. Dropping one may wake or end others.
    fn end_tasks(&self) {
        loop {
            let wakers: Vec<Waker> =
                self.tasks.borrow_mut().iter_mut().filter_map(|(_, waker)| waker.take()).collect();
            for waker in wakers {
                waker.wake();
            }
            let mut dropped = false;
            while let Some(runnable) = self.mailbox.pop_ready() {
                drop(runnable);
                dropped = true;
            }
            if !dropped {
                return;
            }
        }
    }
}

impl Handle {
    pub(crate) fn downgrade(&self) -> Weak<Core> {
        Rc::downgrade(&self.0)
    }
}
