//! The part of a loop that other threads may touch.
//!
//! Whoever has something for the loop puts it in the inbox and, unless the loop has been told
//! already, makes one system call to wake it. The loop's own thread never makes that call (decision
//! R12).

use crate::sys::fork_mutex::ForkMutex;
use crate::sys::wake_fd::WakeFd;
use crate::{Error, Handle, Result};
use async_task::Runnable;
use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};
use std::time::Duration;

/// Most calls from other threads that may wait; beyond it [`Remote::call`] is refused.
pub const INBOX_CALLS_MAX: usize = 65_536;

/// A call that another thread asked for.
pub(crate) type RemoteCall = Box<dyn FnOnce(&Handle) + Send>;

/// What other threads have left for the loop.
#[derive(Default)]
pub(crate) struct Inbox {
    /// Nothing but tasks is taken in any more.
    pub(crate) closed: bool,
    /// Nobody is there any more who could drop a task.
    pub(crate) tasks_ended: bool,
    pub(crate) calls: VecDeque<RemoteCall>,
    /// Wake-ups that were signalled since the loop looked.
    pub(crate) signalled: Vec<usize>,
    /// Wake-ups whose last owner is gone.
    pub(crate) ended: Vec<usize>,
    /// Tasks that were woken from another thread.
    pub(crate) runnables: Vec<Runnable>,
}

impl Inbox {
    fn is_empty(&self) -> bool {
        self.calls.is_empty()
            && self.signalled.is_empty()
            && self.ended.is_empty()
            && self.runnables.is_empty()
    }
}

/// State shared between the loop and every thread that may wake it.
pub(crate) struct RemoteSide {
    owner: ThreadToken,
    pub(crate) wake_fd: WakeFd,
    stop: AtomicBool,
    /// Whether the next turn has more to look after than ready descriptors. Written by the loop's
    /// own thread only; here, because wakers reach no further.
    attention: AtomicBool,
    /// Whether a foreign loop waits for us, so that even our own thread must make the descriptor
    /// readable.
    embedded: AtomicBool,
    inbox: ForkMutex<Inbox>,
    /// Tells a loop that is closing of a task that another thread has handed over.
    handed_over: Condvar,
    ready: LocalQueue,
}

impl RemoteSide {
    pub(crate) fn new(wake_fd: WakeFd) -> RemoteSide {
        RemoteSide {
            owner: ThreadToken::current(),
            wake_fd,
            stop: AtomicBool::new(false),
            attention: AtomicBool::new(true),
            embedded: AtomicBool::new(false),
            inbox: ForkMutex::new(Inbox::default()),
            handed_over: Condvar::new(),
            ready: LocalQueue(UnsafeCell::new(VecDeque::new())),
        }
    }

    pub(crate) fn is_owner(&self) -> bool {
        self.owner == ThreadToken::current()
    }

    pub(crate) fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the loop, unless it has been woken and has not looked yet.
    pub(crate) fn notify(&self) {
        self.wake_fd.notify();
    }

    /// Wakes a foreign loop that embeds this one; otherwise the next turn finds the work by itself.
    pub(crate) fn notify_embedder(&self) {
        if self.embedded.load(Ordering::Relaxed) {
            self.notify();
        }
    }

    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "only epoll can be embedded"))]
    pub(crate) fn set_embedded(&self) {
        self.embedded.store(true, Ordering::Relaxed);
    }

    /// The loop has seen the wake-up: the next one needs a system call again.
    pub(crate) fn acknowledge(&self) {
        self.wake_fd.acknowledge();
    }

    /// Parts from the parent's descriptor. What had been left and not been seen before the fork is
    /// here as well.
    pub(crate) fn after_fork(&self, fresh: WakeFd) -> Result<()> {
        self.wake_fd.adopt(fresh)?;
        // A thread that stayed in the parent may have left something and not come to say so.
        if !self.inbox().is_empty() {
            self.notify();
        }
        Ok(())
    }

    pub(crate) fn request_stop(&self) {
        self.stop.store(true, Ordering::Release);
        if !self.is_owner() {
            self.notify();
        }
    }

    /// Whether a stop was requested, which this takes back.
    pub(crate) fn take_stop(&self) -> bool {
        self.stop.load(Ordering::Acquire) && self.stop.swap(false, Ordering::AcqRel)
    }

    /// Queues a woken task: without a system call on the loop's own thread.
    pub(crate) fn schedule(&self, runnable: Runnable) {
        if self.is_owner() {
            self.push_ready(runnable);
            self.notify_embedder();
            return;
        }
        let mut inbox = self.inbox();
        if inbox.tasks_ended {
            // Its loop has waited for this for as long as it may (`Core::end_tasks`). The future
            // must not be dropped on this thread, so it is not dropped at all.
            std::mem::forget(runnable);
            return;
        }
        inbox.runnables.push(runnable);
        let closing = inbox.closed;
        drop(inbox);
        if closing {
            self.handed_over.notify_one();
        } else {
            self.notify();
        }
    }

    /// A task that another thread has handed over.
    pub(crate) fn pop_handed_over(&self) -> Option<Runnable> {
        self.inbox().runnables.pop()
    }

    /// Waits until another thread has handed a task over. False if none did in time.
    pub(crate) fn await_handover(&self, timeout: Duration) -> bool {
        let waited =
            self.handed_over.wait_timeout_while(self.inbox(), timeout, |inbox| inbox.runnables.is_empty());
        let (inbox, _) = waited.unwrap_or_else(PoisonError::into_inner);
        !inbox.runnables.is_empty()
    }

    /// Whether there may be more to look after than ready descriptors.
    #[inline]
    pub(crate) fn needs_attention(&self) -> bool {
        self.attention.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn set_attention(&self, needed: bool) {
        self.attention.store(needed, Ordering::Relaxed);
    }

    pub(crate) fn push_ready(&self, runnable: Runnable) {
        self.set_attention(true);
        self.with_ready(|queue| queue.push_back(runnable));
    }

    pub(crate) fn pop_ready(&self) -> Option<Runnable> {
        self.with_ready(VecDeque::pop_front)
    }

    pub(crate) fn has_ready(&self) -> bool {
        self.with_ready(|queue| !queue.is_empty())
    }

    fn with_ready<R>(&self, access: impl FnOnce(&mut VecDeque<Runnable>) -> R) -> R {
        assert!(self.is_owner(), "the ready queue belongs to the loop's thread");
        // SAFETY: only the owner's thread gets here, and `access` is one of the three leaf
        // operations above, which call nothing that could come back to this queue; so this is the
        // only reference.
        access(unsafe { &mut *self.ready.0.get() })
    }
}

/// Woken tasks, touched by the loop's own thread only.
struct LocalQueue(UnsafeCell<VecDeque<Runnable>>);

// SAFETY: `RemoteSide::with_ready` is the only access and checks that it runs on the owner's
// thread. A `Runnable` may be dropped on any thread as far as memory goes (async-task itself checks
// the thread before it touches a local future).
unsafe impl Sync for LocalQueue {}
// SAFETY: as above; moving the queue moves no future.
unsafe impl Send for LocalQueue {}

/// Tells threads apart for the price of one thread-local address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThreadToken(pub(crate) usize);

impl ThreadToken {
    pub(crate) fn current() -> ThreadToken {
        thread_local!(static ADDRESS: u8 = const { 0 });
        ADDRESS.with(|address| ThreadToken(std::ptr::from_ref(address).addr()))
    }
}

/// A handle for other threads: wake the loop, stop it, or have it make a call.
///
/// # Examples
/// ```
/// use mainspring_reactor::Reactor;
///
/// let mut reactor = Reactor::new()?;
/// let remote = reactor.remote();
/// std::thread::spawn(move || remote.call(|reactor| reactor.stop()));
/// reactor.run()?;
/// # Ok::<(), mainspring_reactor::Error>(())
/// ```
#[derive(Clone)]
pub struct Remote {
    pub(crate) remote_side: Arc<RemoteSide>,
}

impl Remote {
    /// Makes a waiting loop take a turn. Several wakes before the loop looks count as one.
    pub fn wake(&self) {
        self.remote_side.notify();
    }

    /// Stops the loop, as [`Handle::stop`] does.
    pub fn stop(&self) {
        self.remote_side.request_stop();
    }

    /// Has the loop call `call` on its own thread, among its deferred calls, in the order of
    /// asking.
    ///
    /// # Errors
    /// [`Error::InboxFull`] when [`INBOX_CALLS_MAX`] calls are waiting; [`Error::Closed`] when the
    /// loop is gone.
    pub fn call(&self, call: impl FnOnce(&Handle) + Send + 'static) -> Result<()> {
        let mut inbox = self.remote_side.inbox();
        if inbox.closed {
            return Err(Error::Closed);
        }
        if inbox.calls.len() >= INBOX_CALLS_MAX {
            return Err(Error::InboxFull { limit: INBOX_CALLS_MAX });
        }
        inbox.calls.push_back(Box::new(call));
        drop(inbox);
        self.remote_side.notify();
        Ok(())
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").finish_non_exhaustive()
    }
}

/// A callback on the loop that any thread can have called.
///
/// Signals that arrive before the loop gets to it fold into one call. When the last clone is
/// dropped, the callback is dropped on the loop's thread.
///
/// # Examples
/// ```
/// use mainspring_reactor::Reactor;
///
/// let mut reactor = Reactor::new()?;
/// let wakeup = reactor.wakeup(|reactor| reactor.stop())?;
/// std::thread::spawn(move || wakeup.signal());
/// reactor.run()?;
/// # Ok::<(), mainspring_reactor::Error>(())
/// ```
#[derive(Clone)]
pub struct Wakeup(Arc<WakeupState>);

struct WakeupState {
    remote_side: Arc<RemoteSide>,
    key: usize,
    signalled: Arc<AtomicBool>,
}

impl Wakeup {
    pub(crate) fn new(remote_side: Arc<RemoteSide>, key: usize, signalled: Arc<AtomicBool>) -> Wakeup {
        Wakeup(Arc::new(WakeupState { remote_side, key, signalled }))
    }

    /// Has the callback called on the loop's next turn.
    pub fn signal(&self) {
        if !self.0.signalled.swap(true, Ordering::AcqRel) {
            self.0.remote_side.inbox().signalled.push(self.0.key);
            self.0.remote_side.notify();
        }
    }
}

impl fmt::Debug for Wakeup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wakeup").field("key", &self.0.key).finish_non_exhaustive()
    }
}

impl Drop for WakeupState {
    fn drop(&mut self) {
        let mut inbox = self.remote_side.inbox();
        if !inbox.closed {
            inbox.ended.push(self.key);
            drop(inbox);
            self.remote_side.notify();
        }
    }
}
