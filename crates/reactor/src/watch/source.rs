//! The three kinds of source: owned, weakly shared, and a raw number.

use crate::{Handle, Watcher};
use std::cell::Cell;
use std::fmt;
use std::ops::Deref;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::rc::{Rc, Weak};

/// A source that several owners share and that a watcher knows without owning it.
///
/// Watching a `Shared` keeps a weak reference: when the last `Shared` is dropped the watch ends
/// there and then, before the descriptor is closed, with no callback and no count left over
/// (clauses M1.1.2 to M1.1.4).
///
/// # Examples
/// ```
/// use mainspring_reactor::{Reactor, Shared};
/// use std::os::unix::net::UnixStream;
///
/// let reactor = Reactor::new()?;
/// let (left, _right) = UnixStream::pair().unwrap();
/// let left = Shared::new(left);
/// reactor.watch_shared(&left).on_read(|_stream, _event| ()).start()?;
/// assert_eq!(reactor.watcher_count(), 1);
/// drop(left);
/// assert_eq!(reactor.watcher_count(), 0);
/// # Ok::<(), mainspring_reactor::Error>(())
/// ```
pub struct Shared<S>(Rc<SourceInner<S>>);

struct SourceInner<S> {
    /// Which loop watches it, under which name.
    watch: Cell<Option<(Handle, Watcher)>>,
    source: S,
}

impl<S> Shared<S> {
    /// Takes a source into shared ownership.
    pub fn new(source: S) -> Shared<S> {
        Shared(Rc::new(SourceInner { watch: Cell::new(None), source }))
    }

    /// How many owners there are. A callback that is running counts as one.
    pub fn owner_count(&self) -> usize {
        Rc::strong_count(&self.0)
    }

    pub(crate) fn downgrade(&self) -> WeakShared<S> {
        WeakShared(Rc::downgrade(&self.0))
    }

    /// Whether `handle` watches this very source under `watcher`.
    pub(crate) fn is_watched_as(&self, handle: &Handle, watcher: Watcher) -> bool {
        let watch = self.0.watch.take();
        let same = watch.as_ref().is_some_and(|(owner, name)| owner.is_same(handle) && *name == watcher);
        self.0.watch.set(watch);
        same
    }
}

/// A source whose end ends a watch.
pub(crate) trait Tie {
    /// Remembers the watch that must end when the source does. A watch of another loop ends now.
    fn tie(&self, handle: &Handle, watcher: Watcher);
}

impl<S> Tie for Shared<S> {
    fn tie(&self, handle: &Handle, watcher: Watcher) {
        if let Some((previous, old)) = self.0.watch.replace(Some((handle.clone(), watcher)))
            && !previous.is_same(handle)
        {
            previous.unwatch(old);
        }
    }
}

impl<S> Clone for Shared<S> {
    fn clone(&self) -> Shared<S> {
        Shared(self.0.clone())
    }
}

impl<S> Deref for Shared<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.0.source
    }
}

impl<S: AsFd> AsFd for Shared<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.source.as_fd()
    }
}

impl<S: fmt::Debug> fmt::Debug for Shared<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shared").field(&self.0.source).finish()
    }
}

impl<S> Drop for SourceInner<S> {
    fn drop(&mut self) {
        if let Some((handle, watcher)) = self.watch.take() {
            handle.unwatch(watcher);
        }
    }
}

/// What a watcher keeps of a [`Shared`].
pub(crate) struct WeakShared<S>(Weak<SourceInner<S>>);

/// How a watcher holds what its callbacks are handed.
pub trait Keep: 'static {
    /// What the callbacks see.
    type Target;

    /// The descriptor to watch.
    #[doc(hidden)]
    fn raw_fd(&self) -> RawFd;

    /// Runs `call` on the target, unless it is gone.
    #[doc(hidden)]
    fn with(&mut self, call: &mut dyn FnMut(&mut Self::Target)) -> bool;

    /// Whether a callback has put another descriptor in the place of the one that is watched.
    #[doc(hidden)]
    #[inline]
    fn has_left(&self, _watched: RawFd) -> bool {
        false
    }
}

/// A source that its watcher owns: unwatching drops it.
pub struct Owned<S>(pub(crate) S);

impl<S: AsFd + 'static> Keep for Owned<S> {
    type Target = S;

    fn raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }

    #[inline]
    fn with(&mut self, call: &mut dyn FnMut(&mut S)) -> bool {
        call(&mut self.0);
        true
    }

    #[inline]
    fn has_left(&self, watched: RawFd) -> bool {
        self.raw_fd() != watched
    }
}

/// A source that its watcher knows weakly.
pub struct Weakly<S> {
    pub(crate) fd: RawFd,
    pub(crate) weak: WeakShared<S>,
}

impl<S: AsFd + 'static> Keep for Weakly<S> {
    type Target = Shared<S>;

    fn raw_fd(&self) -> RawFd {
        self.fd
    }

    #[inline]
    fn with(&mut self, call: &mut dyn FnMut(&mut Shared<S>)) -> bool {
        match self.weak.0.upgrade() {
            Some(inner) => {
                call(&mut Shared(inner));
                true
            }
            None => false,
        }
    }
}

/// A bare number with the user's data.
pub struct Raw<T> {
    pub(crate) fd: RawFd,
    pub(crate) data: T,
}

impl<T: 'static> Keep for Raw<T> {
    type Target = T;

    fn raw_fd(&self) -> RawFd {
        self.fd
    }

    #[inline]
    fn with(&mut self, call: &mut dyn FnMut(&mut T)) -> bool {
        call(&mut self.data);
        true
    }
}
