//! Where signals arrive: a handler that counts them, by number, and wakes the loop that watches
//! them.
//!
//! A signal is sent to the process, and the kernel picks a thread for it; the handler runs there,
//! whatever that thread is doing, so it may do next to nothing: it adds to an atomic and writes to
//! a descriptor, once until the loop has looked. However many of one signal come, they take no room
//! that another needs.
//!
//! Nothing is blocked. So threads of other libraries are as they were, and so are programs that are
//! started meanwhile: they find no mask, and handlers do not outlive the start of a program.

use super::wake_fd::WakeFd;
use crate::process::fork;
use crate::tasks::remote::ThreadToken;
use crate::{Error, Result, Signal};
use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicUsize, Ordering};

/// The highest signal number.
pub(crate) const SIGNALS_MAX: i32 = 64;
/// Slot of no loop.
const NOBODY: usize = 0;

/// By number, who watches a signal and what has come of it. In static memory, because a handler may
/// look at any time.
static SLOTS: [SignalSlot; SIGNALS_MAX as usize + 1] =
    [const { SignalSlot::new() }; SIGNALS_MAX as usize + 1];

struct SignalSlot {
    /// The loop that has the signal. Whoever sets it has the rest of the slot, until it is
    /// [`NOBODY`] again.
    owner: AtomicUsize,
    /// The thread of that loop.
    thread: AtomicUsize,
    /// How many have arrived since the loop looked.
    arrived: AtomicU32,
    /// By which the loop is woken; null if nobody is.
    wake: AtomicPtr<WakeFd>,
    /// How many handlers are at work on this slot, in all threads.
    at_work: AtomicU32,
    /// Whether `previous` is there.
    installed: AtomicBool,
    /// The action that was there before.
    previous: UnsafeCell<MaybeUninit<libc::sigaction>>,
}

// SAFETY: `previous` is written by the owner before it sets `installed`, and read by the owner or,
// in a forked child, by the only thread there is; everything else is atomic.
unsafe impl Sync for SignalSlot {}

impl SignalSlot {
    const fn new() -> SignalSlot {
        SignalSlot {
            owner: AtomicUsize::new(NOBODY),
            thread: AtomicUsize::new(0),
            arrived: AtomicU32::new(0),
            wake: AtomicPtr::new(std::ptr::null_mut()),
            at_work: AtomicU32::new(0),
            installed: AtomicBool::new(false),
            previous: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    fn of(signal: Signal) -> &'static SignalSlot {
        // Numbers are checked before a signal is watched.
        &SLOTS[signal.as_raw() as usize]
    }

    /// Puts our handler in the place of whatever is there.
    fn install(&self, signal: Signal) -> Result<()> {
        // SAFETY: all zeroes is a valid action, and `sigfillset` initialises its mask.
        let ours = unsafe {
            let mut ours: libc::sigaction = std::mem::zeroed();
            ours.sa_sigaction = handler();
            // Calls that can go on after a handler do; and a stack that has no room left is not
            // asked for more.
            ours.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
            libc::sigfillset(&mut ours.sa_mask);
            ours
        };
        let mut previous = MaybeUninit::uninit();
        // SAFETY: the first action is initialised, the handler is async-signal-safe, and the second
        // is there to be filled.
        if unsafe { libc::sigaction(signal.as_raw(), &ours, previous.as_mut_ptr()) } != 0 {
            return Err(match std::io::Error::last_os_error() {
                error if error.raw_os_error() == Some(libc::EINVAL) => {
                    Error::BadSignal { signal: signal.as_raw() }
                }
                source => Error::Io { action: "sigaction", source },
            });
        }
        // SAFETY: this is the owner, and `installed` is not set.
        unsafe { *self.previous.get() = previous };
        self.installed.store(true, Ordering::Release);
        Ok(())
    }

    /// Puts back what was there before, unless somebody has put something else in our place.
    /// Async-signal-safe.
    fn uninstall(&self, number: i32) {
        if !self.installed.swap(false, Ordering::AcqRel) {
            return;
        }
        // SAFETY: it was installed, so the previous action is there. All zeroes is a valid action,
        // and those that are handed over are initialised.
        unsafe {
            let previous = (*self.previous.get()).assume_init_ref();
            let mut other: libc::sigaction = std::mem::zeroed();
            libc::sigaction(number, std::ptr::null(), &mut other);
            if other.sa_sigaction != handler() {
                return;
            }
            if previous.sa_sigaction == libc::SIG_DFL && !is_ignored_by_default(number) {
                // One that a thread keeps blocked is pending still, and would end the process as
                // soon as it is let through. To ignore a signal is to throw away what is pending of
                // it.
                let mut ignore: libc::sigaction = std::mem::zeroed();
                ignore.sa_sigaction = libc::SIG_IGN;
                libc::sigaction(number, &ignore, std::ptr::null_mut());
            }
            libc::sigaction(number, previous, std::ptr::null_mut());
        }
    }

    /// Gives the slot up.
    fn vacate(&self) {
        self.wake.store(std::ptr::null_mut(), Ordering::SeqCst);
        // A handler that is at work in another thread may have seen whom to wake. It is done in a
        // moment.
        while self.at_work.load(Ordering::SeqCst) != 0 {
            std::thread::yield_now();
        }
        self.arrived.store(0, Ordering::Relaxed);
        self.owner.store(NOBODY, Ordering::Release);
    }

    /// Notes a signal and wakes whoever watches it. Async-signal-safe.
    fn note(&self) {
        self.at_work.fetch_add(1, Ordering::SeqCst);
        // So many that one more makes no difference.
        if self.arrived.load(Ordering::Relaxed) < u32::MAX / 2 {
            self.arrived.fetch_add(1, Ordering::Release);
        }
        // SAFETY: null, or alive: `vacate` takes it away and then waits until nobody is at work
        // here.
        if let Some(wake) = unsafe { self.wake.load(Ordering::SeqCst).as_ref() } {
            wake.notify();
        }
        self.at_work.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The handler of every watched signal. It runs with all signals blocked.
extern "C" fn signal_arrived(number: libc::c_int) {
    // A child of `vfork` has its parent's memory, and its signals are none of the parent's
    // business.
    if !fork::is_own_process() {
        return;
    }
    let errno = errno();
    // SAFETY: the address of this thread's error number is valid.
    let before = unsafe { *errno };
    if let Some(slot) = usize::try_from(number).ok().and_then(|number| SLOTS.get(number)) {
        slot.note();
    }
    // SAFETY: as above.
    unsafe { *errno = before };
}

fn handler() -> libc::sighandler_t {
    signal_arrived as extern "C" fn(libc::c_int) as libc::sighandler_t
}

/// Where the C library keeps this thread's error number.
fn errno() -> *mut libc::c_int {
    // SAFETY: no precondition.
    unsafe {
        #[cfg(target_os = "linux")]
        return libc::__errno_location();
        #[cfg(any(target_vendor = "apple", target_os = "freebsd"))]
        return libc::__error();
        #[cfg(not(any(target_os = "linux", target_vendor = "apple", target_os = "freebsd")))]
        return libc::__errno();
    }
}

/// Whether nothing happens if nobody asks for it. These must not be ignored on the way: children
/// that end while SIGCHLD is ignored leave no status behind.
fn is_ignored_by_default(number: i32) -> bool {
    [libc::SIGCHLD, libc::SIGURG, libc::SIGWINCH, libc::SIGCONT].contains(&number)
}

/// In a forked child, ahead of everything else: what arrived before the fork was the parent's,
/// handlers at work in other threads stayed there, and so did the loops of other threads.
/// Async-signal-safe.
pub(crate) fn in_child() {
    for (number, slot) in SLOTS.iter().enumerate() {
        slot.arrived.store(0, Ordering::Relaxed);
        slot.at_work.store(0, Ordering::Relaxed);
        let owned = slot.owner.load(Ordering::Relaxed) != NOBODY;
        if owned && slot.thread.load(Ordering::Relaxed) != ThreadToken::current().0 {
            slot.uninstall(number as i32);
            slot.vacate();
        }
    }
}

/// A watched signal. When it is dropped, the signal does again what it did before.
struct IntakeHold {
    signal: Signal,
    /// Kept for the handler.
    _wake: Arc<WakeFd>,
}

impl IntakeHold {
    fn new(signal: Signal, owner: usize, wake: &Arc<WakeFd>) -> Result<IntakeHold> {
        let slot = SignalSlot::of(signal);
        let claimed = slot.owner.compare_exchange(NOBODY, owner, Ordering::AcqRel, Ordering::Relaxed);
        if claimed.is_err() {
            return Err(Error::SignalTaken { signal: signal.as_raw() });
        }
        slot.thread.store(ThreadToken::current().0, Ordering::Relaxed);
        slot.arrived.store(0, Ordering::Relaxed);
        slot.wake.store(Arc::as_ptr(wake).cast_mut(), Ordering::SeqCst);
        match slot.install(signal) {
            Ok(()) => Ok(IntakeHold { signal, _wake: wake.clone() }),
            Err(error) => {
                slot.vacate();
                Err(error)
            }
        }
    }
}

impl Drop for IntakeHold {
    fn drop(&mut self) {
        let slot = SignalSlot::of(self.signal);
        slot.uninstall(self.signal.as_raw());
        slot.vacate();
    }
}

/// The signals of a loop, and what wakes it for them.
pub(crate) struct Intake {
    wake: Arc<WakeFd>,
    held: BTreeMap<Signal, IntakeHold>,
}

impl Intake {
    pub(crate) fn new(wake: WakeFd) -> Intake {
        Intake { wake: Arc::new(wake), held: BTreeMap::new() }
    }

    /// What to watch: readable when something has arrived.
    pub(crate) fn source(&self) -> Arc<WakeFd> {
        self.wake.clone()
    }

    /// Takes in a signal on behalf of the loop that `owner` stands for, which is not zero.
    pub(crate) fn take_in(&mut self, signal: Signal, owner: usize) -> Result<()> {
        if !self.held.contains_key(&signal) {
            self.held.insert(signal, IntakeHold::new(signal, owner, &self.wake)?);
        }
        Ok(())
    }

    /// Lets a signal do again what it did before. What has arrived of it and was not read goes to
    /// nobody.
    pub(crate) fn let_go(&mut self, signal: Signal) {
        self.held.remove(&signal);
    }

    /// What has arrived since the last look, by signal, in ascending order.
    pub(crate) fn read(&self) -> impl Iterator<Item = (Signal, u32)> {
        self.wake.acknowledge();
        self.held.keys().filter_map(|signal| {
            let count = SignalSlot::of(*signal).arrived.swap(0, Ordering::Acquire);
            (count > 0).then_some((*signal, count))
        })
    }

    /// Parts from the parent's descriptor. What arrived before the fork was the parent's; what
    /// arrived since is noted.
    pub(crate) fn after_fork(&self, fresh: WakeFd) -> Result<()> {
        self.wake.acknowledge();
        self.wake.adopt(fresh)?;
        if self.held.keys().any(|signal| SignalSlot::of(*signal).arrived.load(Ordering::Relaxed) > 0) {
            self.wake.notify();
        }
        Ok(())
    }
}
