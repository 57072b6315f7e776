//! Separate callbacks for reading, writing and errors, and the rules by which they run.
//!
//! The callbacks lie side by side in one allocation with the source: a watcher with one callback
//! costs what its captures cost.

use crate::watch::handler::Handler;
use crate::watch::source::Keep;
use crate::{Event, Readiness};

/// A place for one of the separate callbacks.
pub trait Step<T>: 'static {
    /// Whether there is a callback.
    #[doc(hidden)]
    fn is_set(&self) -> bool;

    /// Runs it, if there is one.
    #[doc(hidden)]
    fn run(&mut self, target: &mut T, event: &Event<'_>);
}

/// No callback.
#[derive(Clone, Copy, Debug)]
pub struct Unset;

impl<T> Step<T> for Unset {
    fn is_set(&self) -> bool {
        false
    }

    fn run(&mut self, _: &mut T, _: &Event<'_>) {}
}

/// A callback.
pub struct Set<F>(pub(crate) F);

impl<T, F: FnMut(&mut T, &Event<'_>) + 'static> Step<T> for Set<F> {
    fn is_set(&self) -> bool {
        true
    }

    #[inline]
    fn run(&mut self, target: &mut T, event: &Event<'_>) {
        (self.0)(target, event);
    }
}

/// A callback that may be missing.
pub struct Maybe<F>(pub(crate) Option<F>);

impl<T, F: FnMut(&mut T, &Event<'_>) + 'static> Step<T> for Maybe<F> {
    fn is_set(&self) -> bool {
        self.0.is_some()
    }

    #[inline]
    fn run(&mut self, target: &mut T, event: &Event<'_>) {
        if let Some(callback) = &mut self.0 {
            callback(target, event);
        }
    }
}

/// Separate callbacks, run by the rules of the M1 document: error, read, write, in that order;
/// before each step the watcher must still be there (clauses M1.2.2 to M1.2.4 and M1.3.1).
pub(crate) struct Separate<K, R, W, E> {
    pub(crate) keep: K,
    pub(crate) read: R,
    pub(crate) write: W,
    pub(crate) error: E,
}

impl<K, R, W, E> Handler for Separate<K, R, W, E>
where
    K: Keep,
    R: Step<K::Target>,
    W: Step<K::Target>,
    E: Step<K::Target>,
{
    fn ready(&mut self, event: &Event<'_>) -> u32 {
        let ready = event.readiness();
        let failed = ready.contains(Readiness::ERROR);
        if failed && self.error.is_set() {
            return step(&mut self.keep, &mut self.error, event);
        }
        // The interest may have been narrowed by another callback since the event was fetched, but
        // an error or a hang-up is for whoever is there.
        let readable = Readiness::READ | Readiness::PRIORITY | Readiness::HANGUP | Readiness::READ_CLOSED;
        let write_too = self.write.is_set() && (failed || ready.contains(Readiness::WRITE));
        let mut ran = 0;
        if self.read.is_set() && (failed || ready.intersects(readable)) {
            ran = step(&mut self.keep, &mut self.read, event);
            if write_too && ran > 0 && !event.reactor().is_watching(event.watcher()) {
                return ran;
            }
        }
        if write_too {
            ran += step(&mut self.keep, &mut self.write, event);
        }
        ran
    }
}

/// Runs one callback, if its target is still alive. Returns how many ran.
#[inline]
fn step<K: Keep>(keep: &mut K, callback: &mut impl Step<K::Target>, event: &Event<'_>) -> u32 {
    let ran = keep.with(&mut |target| callback.run(target, event));
    end_if_left(keep, event);
    u32::from(ran)
}

/// Ends the watch of a source that is no longer the one it was: its number may be anybody's by now
/// (clause M1.1.3).
#[inline]
pub(crate) fn end_if_left<K: Keep>(keep: &K, event: &Event<'_>) {
    if keep.has_left(event.watcher().raw_fd()) {
        event.unwatch();
    }
}
