//! A mutex that no forked child finds locked by a thread that it does not have.
//!
//! Of all threads, a child gets the one that forked. A lock that another one held at that moment
//! stays locked for ever, over data that may be half changed. So the thread that forks first takes
//! every lock of this kind, and gives them back on both sides.

use std::cell::UnsafeCell;
use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The mutex. Code that runs while it is locked must not fork.
pub(crate) struct ForkMutex<T: Send + 'static>(Box<MutexInner<T>>);

struct MutexInner<T: 'static> {
    mutex: Mutex<T>,
    /// The lock itself, while a fork is under way.
    held: UnsafeCell<Option<MutexGuard<'static, T>>>,
}

/// What a fork does with a lock, whatever it guards.
trait ForkLock {
    /// # Safety
    /// Only for the thread that has [`LOCKS`] locked.
    unsafe fn hold(&self);
    /// # Safety
    /// Only for the thread that has [`LOCKS`] locked, after [`hold`](ForkLock::hold).
    unsafe fn release(&self);
}

/// The address of a live lock.
struct Address(*const dyn ForkLock);

// SAFETY: an address is used by the thread that has the list locked, and only while it is on the
// list; what is behind it is made for all threads (`T: Send`).
unsafe impl Send for Address {}

/// Every lock of the process. A fork has it locked from before to after.
static LOCKS: Mutex<Vec<Address>> = Mutex::new(Vec::new());
static LIST: ListGuard = ListGuard(UnsafeCell::new(None));

/// The lock on the list, while a fork is under way.
struct ListGuard(UnsafeCell<Option<MutexGuard<'static, Vec<Address>>>>);

// SAFETY: the cell is touched only by the thread that has the list locked.
unsafe impl Sync for ListGuard {}

impl<T: Send + 'static> ForkMutex<T> {
    pub(crate) fn new(value: T) -> ForkMutex<T> {
        let inner = Box::new(MutexInner { mutex: Mutex::new(value), held: UnsafeCell::new(None) });
        let address: *const dyn ForkLock = std::ptr::from_ref(&*inner);
        locks().push(Address(address));
        ForkMutex(inner)
    }
}

// SAFETY: the mutex may be shared; the cell beside it is touched only by the thread that has the
// list locked.
unsafe impl<T: Send> Sync for MutexInner<T> {}
// SAFETY: as above; outside of a fork the cell is empty, and a value that is being moved is not
// being forked with.
unsafe impl<T: Send> Send for MutexInner<T> {}

impl<T: Send + 'static> Deref for ForkMutex<T> {
    type Target = Mutex<T>;

    fn deref(&self) -> &Mutex<T> {
        &self.0.mutex
    }
}

impl<T: Send + 'static> Drop for ForkMutex<T> {
    fn drop(&mut self) {
        let own = std::ptr::from_ref(&*self.0).cast::<()>();
        locks().retain(|address| address.0.cast::<()>() != own);
    }
}

impl<T: Send> ForkLock for MutexInner<T> {
    unsafe fn hold(&self) {
        let guard = self.mutex.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: the guard is dropped by `release`, before the list is unlocked; until then this
        // lock stays on the list, and so it lives. By this function's contract nobody else touches
        // the cell.
        unsafe {
            let guard = std::mem::transmute::<MutexGuard<'_, T>, MutexGuard<'static, T>>(guard);
            *self.held.get() = Some(guard);
        }
    }

    unsafe fn release(&self) {
        // SAFETY: by this function's contract nobody else touches the cell.
        drop(unsafe { (*self.held.get()).take() });
    }
}

fn locks() -> MutexGuard<'static, Vec<Address>> {
    LOCKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes every lock, ahead of a fork.
pub(crate) fn hold_all() {
    let list = locks();
    for address in list.iter() {
        // SAFETY: what is on the list lives, and this thread has the list locked.
        unsafe { (*address.0).hold() };
    }
    // SAFETY: this thread has the list locked.
    unsafe { *LIST.0.get() = Some(list) };
}

/// Gives every lock back, after a fork, in parent and child.
pub(crate) fn release_all() {
    // SAFETY: only the thread that forks gets here, and it has the list locked.
    let Some(list) = (unsafe { (*LIST.0.get()).take() }) else { return };
    for address in list.iter() {
        // SAFETY: what is on the list lives, this thread has the list locked, and `hold_all` has
        // held it.
        unsafe { (*address.0).release() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_child_never_finds_it_locked_by_a_thread_of_its_parent() {
        crate::process::fork::watch();
        let mutex = std::sync::Arc::new(ForkMutex::new(0_u64));
        let done = std::sync::Arc::new(AtomicBool::new(false));
        let (theirs, end) = (mutex.clone(), done.clone());
        let thread = std::thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                let mut value = theirs.lock().expect("not poisoned");
                for _ in 0..1000 {
                    *value = std::hint::black_box(*value + 1);
                }
                drop(value);
                std::thread::yield_now();
            }
        });
        for _ in 0..200 {
            // SAFETY: the child tries a lock and ends.
            match unsafe { libc::fork() } {
                // SAFETY: ends the process at once.
                0 => unsafe { libc::_exit(i32::from(mutex.try_lock().is_err())) },
                pid => {
                    let mut status = 0;
                    // SAFETY: the status is a live integer.
                    assert_eq!(unsafe { libc::waitpid(pid, &mut status, 0) }, pid);
                    assert_eq!(status, 0, "the child found the lock taken");
                }
            }
        }
        done.store(true, Ordering::Relaxed);
        thread.join().expect("the thread");
    }
}
