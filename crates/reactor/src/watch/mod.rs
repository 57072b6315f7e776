//! Watching descriptors: the builder of a watch, the kinds of source it can have, the rules of
//! separate callbacks, and the table that tells the past from the present by generations. The turn
//! calls into here when the kernel reports readiness; nothing here waits or makes a system call by
//! itself but through `core` and `sys`.

pub(crate) mod fds;
pub(crate) mod handler;
pub(crate) mod interest;
pub(crate) mod separate;
pub(crate) mod source;

use crate::observe::labels::Label;
use crate::watch::fds::Request;
use crate::watch::handler::{Handler, HandlerBox};
use crate::watch::separate::{Maybe, Separate, Set, Step, Unset, end_if_left};
use crate::watch::source::{Keep, Owned, Raw, Shared, Tie, Weakly};
use crate::{Error, Handle, Interest, Mode, Readiness, Result};
use std::os::fd::{AsFd, AsRawFd, RawFd};

/// Names a watch. Copying it does not copy the watch; once the watch has ended or was replaced, the
/// name stays dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Watcher(u64);

impl Watcher {
    #[inline]
    pub(crate) fn new(fd: RawFd, generation: u32) -> Watcher {
        Watcher((u64::from(fd as u32) << 32) | u64::from(generation))
    }

    /// The slot in the table: the descriptor's number.
    #[inline]
    pub(crate) fn slot(self) -> usize {
        (self.0 >> 32) as usize
    }

    #[inline]
    pub(crate) fn generation(self) -> u32 {
        self.0 as u32
    }

    /// The number of the descriptor that was watched under this name.
    pub fn raw_fd(self) -> RawFd {
        self.slot() as RawFd
    }

    /// The name as a number, which is never zero: for callers that cannot hold a `Watcher`, such as
    /// C programs.
    pub fn to_bits(self) -> u64 {
        self.0.wrapping_add(1 << 32)
    }

    /// The name with this number. A number that never came from [`to_bits`](Watcher::to_bits) names
    /// no watch.
    pub fn from_bits(bits: u64) -> Watcher {
        Watcher(bits.wrapping_sub(1 << 32))
    }
}

/// One report about a watched descriptor.
#[derive(Debug)]
pub struct Event<'a> {
    handle: &'a Handle,
    watcher: Watcher,
    readiness: Readiness,
}

impl<'a> Event<'a> {
    #[inline]
    pub(crate) fn new(handle: &'a Handle, watcher: Watcher, readiness: Readiness) -> Event<'a> {
        Event { handle, watcher, readiness }
    }

    /// The loop that makes the call.
    pub fn reactor(&self) -> &'a Handle {
        self.handle
    }

    /// The watcher, to modify or end it.
    pub fn watcher(&self) -> Watcher {
        self.watcher
    }

    /// Everything that is true of the descriptor.
    pub fn readiness(&self) -> Readiness {
        self.readiness
    }

    /// Ends this watch: no further callback runs for it, not even for this event.
    pub fn unwatch(&self) {
        self.handle.unwatch(self.watcher);
    }
}

/// A watch about to start: choose callbacks and mode, then call [`start`](Watch::start) or
/// [`start_with`](Watch::start_with).
///
/// # Examples
/// ```
/// use mainspring_reactor::Reactor;
/// use std::io::{Read, Write};
/// use std::os::unix::net::UnixStream;
///
/// let mut reactor = Reactor::new()?;
/// let (left, mut right) = UnixStream::pair().unwrap();
/// left.set_nonblocking(true).unwrap();
/// reactor
///     .watch(left)
///     .on_read(|stream, event| {
///         let mut buffer = [0; 16];
///         if stream.read(&mut buffer).unwrap_or(0) == 0 {
///             event.unwatch(); // drops, and so closes, the stream
///         }
///     })
///     .start()?;
/// right.write_all(b"tick").unwrap();
/// assert_eq!(reactor.poll(None)?, 1);
/// # Ok::<(), mainspring_reactor::Error>(())
/// ```
#[must_use = "a watch begins with start or start_with"]
pub struct Watch<'h, K: Keep, R = Unset, W = Unset, E = Unset> {
    handle: &'h Handle,
    keep: K,
    /// The shared source whose end must end the watch.
    tie: Option<&'h dyn Tie>,
    certain: bool,
    same_source: bool,
    mode: Mode,
    label: Label,
    internal: bool,
    read: R,
    write: W,
    error: E,
}

impl<'h, K: Keep> Watch<'h, K> {
    fn new(handle: &'h Handle, keep: K) -> Watch<'h, K> {
        Watch {
            handle,
            keep,
            tie: None,
            certain: true,
            same_source: false,
            mode: Mode::Level,
            label: Label::NONE,
            internal: false,
            read: Unset,
            write: Unset,
            error: Unset,
        }
    }
}

impl<'h, K, R, W, E> Watch<'h, K, R, W, E>
where
    K: Keep,
    R: Step<K::Target>,
    W: Step<K::Target>,
    E: Step<K::Target>,
{
    /// Called when a read makes progress: bytes, a connection, the end of the stream, or a hang-up.
    pub fn on_read<F>(self, callback: F) -> Watch<'h, K, Set<F>, W, E>
    where
        F: FnMut(&mut K::Target, &Event<'_>) + 'static,
    {
        let Watch { handle, keep, tie, certain, same_source, mode, label, internal, write, error, .. } = self;
        let read = Set(callback);
        Watch { handle, keep, tie, certain, same_source, mode, label, internal, read, write, error }
    }

    /// Called when a write makes progress.
    pub fn on_write<F>(self, callback: F) -> Watch<'h, K, R, Set<F>, E>
    where
        F: FnMut(&mut K::Target, &Event<'_>) + 'static,
    {
        let Watch { handle, keep, tie, certain, same_source, mode, label, internal, read, error, .. } = self;
        let write = Set(callback);
        Watch { handle, keep, tie, certain, same_source, mode, label, internal, read, write, error }
    }

    /// Called when the descriptor has an error; the other callbacks then do not run for that event.
    /// Without it, an error counts as readiness, and the next read or write reports it.
    pub fn on_error<F>(self, callback: F) -> Watch<'h, K, R, W, Set<F>>
    where
        F: FnMut(&mut K::Target, &Event<'_>) + 'static,
    {
        let Watch { handle, keep, tie, certain, same_source, mode, label, internal, read, write, .. } = self;
        let error = Set(callback);
        Watch { handle, keep, tie, certain, same_source, mode, label, internal, read, write, error }
    }

    /// The three callbacks at once, each of which may be missing: for callers that learn at run
    /// time which there are.
    pub fn on<F, G, H>(
        self,
        read: Option<F>,
        write: Option<G>,
        error: Option<H>,
    ) -> MaybeWatch<'h, K, F, G, H>
    where
        F: FnMut(&mut K::Target, &Event<'_>) + 'static,
        G: FnMut(&mut K::Target, &Event<'_>) + 'static,
        H: FnMut(&mut K::Target, &Event<'_>) + 'static,
    {
        let Watch { handle, keep, tie, certain, same_source, mode, label, internal, .. } = self;
        let (read, write, error) = (Maybe(read), Maybe(write), Maybe(error));
        Watch { handle, keep, tie, certain, same_source, mode, label, internal, read, write, error }
    }

    /// Chooses when a ready descriptor is reported again; [`Mode::Level`] unless told otherwise.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Gives the watcher a name for [`Timing`](crate::Timing) and stall reports.
    pub fn label(mut self, label: &str) -> Self {
        self.label = self.handle.core().intern(label);
        self
    }

    /// Marks one of the loop's own watchers, which users do not count.
    pub(crate) fn internal(mut self) -> Self {
        self.internal = true;
        self
    }

    /// Starts the watch with the callbacks given so far; each stands for the interest of its name.
    ///
    /// A watch of the same descriptor that is already there is replaced, in one step: it ends
    /// silently, and events fetched before do not reach the new one. If this fails, the old watch
    /// stays.
    ///
    /// # Errors
    /// [`Error::NoCallback`]; [`Error::BadFd`] if the descriptor is not open; [`Error::OwnFd`] if
    /// it is one of the loop's own; [`Error::Unsupported`] if the backend cannot do the mode;
    /// [`Error::Closed`]; [`Error::Io`] if the system refuses.
    pub fn start(self) -> Result<Watcher> {
        let mut interest = Interest::empty();
        interest.set(Interest::READ, self.read.is_set());
        interest.set(Interest::WRITE, self.write.is_set());
        interest.set(Interest::ERROR, self.error.is_set());
        if interest.is_empty() {
            return Err(Error::NoCallback);
        }
        let mut accepts = interest | Interest::ERROR;
        // A priority condition is something to read.
        accepts.set(Interest::PRIORITY, self.read.is_set());
        let (fd, request) = (self.keep.raw_fd(), self.request(interest, accepts));
        let (handle, tie) = (self.handle, self.tie);
        let handler = Separate { keep: self.keep, read: self.read, write: self.write, error: self.error };
        begin(handle, fd, &request, Box::new(handler), tie)
    }

    /// Starts the watch with one callback that is given the whole readiness set at once.
    ///
    /// # Errors
    /// As [`start`](Watch::start). Callbacks given before are dropped.
    ///
    /// # Examples
    /// ```
    /// use mainspring_reactor::{Interest, Reactor, Readiness};
    /// use std::os::unix::net::UnixStream;
    ///
    /// let mut reactor = Reactor::new()?;
    /// let (left, right) = UnixStream::pair().unwrap();
    /// reactor.watch(left).start_with(Interest::READ | Interest::WRITE, |_stream, event| {
    ///     assert!(event.readiness().contains(Readiness::WRITE));
    ///     event.unwatch();
    /// })?;
    /// reactor.poll(None)?;
    /// # drop(right);
    /// # Ok::<(), mainspring_reactor::Error>(())
    /// ```
    pub fn start_with(
        self,
        interest: Interest,
        callback: impl FnMut(&mut K::Target, &Event<'_>) + 'static,
    ) -> Result<Watcher> {
        let (fd, request) = (self.keep.raw_fd(), self.request(interest, Interest::all()));
        begin(self.handle, fd, &request, Box::new(Whole { keep: self.keep, callback }), self.tie)
    }

    fn request(&self, interest: Interest, accepts: Interest) -> Request {
        Request {
            interest,
            mode: self.mode,
            accepts,
            label: self.label,
            internal: self.internal,
            certain: self.certain,
            same_source: self.same_source,
        }
    }
}

/// A [`Watch`] whose callbacks may each be missing.
pub type MaybeWatch<'h, K, F, G, H> = Watch<'h, K, Maybe<F>, Maybe<G>, Maybe<H>>;

fn begin(
    handle: &Handle,
    fd: RawFd,
    request: &Request,
    handler: Box<dyn Handler>,
    tie: Option<&dyn Tie>,
) -> Result<Watcher> {
    let watcher = handle.core().watch(fd, request, HandlerBox::new(handler))?;
    if let Some(source) = tie {
        source.tie(handle, watcher);
    }
    Ok(watcher)
}

/// One callback for everything.
struct Whole<K, F> {
    keep: K,
    callback: F,
}

impl<K: Keep, F: FnMut(&mut K::Target, &Event<'_>)> Handler for Whole<K, F> {
    #[inline]
    fn ready(&mut self, event: &Event<'_>) -> u32 {
        let callback = &mut self.callback;
        let ran = self.keep.with(&mut |target| callback(target, event));
        end_if_left(&self.keep, event);
        u32::from(ran)
    }
}

/// Watching descriptors (clauses M1.1.1 to M1.3.3).
impl Handle {
    /// Watches a source that the watcher then owns; the callbacks are handed `&mut S`. Give it your
    /// connection's whole state: anything that implements [`AsFd`]. Unwatching drops it. A callback
    /// that puts another descriptor in its place ends the watch.
    pub fn watch<S: AsFd + 'static>(&self, source: S) -> Watch<'_, Owned<S>> {
        Watch::new(self, Owned(source))
    }

    /// Watches a shared source for as long as it lives: see [`Shared`].
    pub fn watch_shared<'h, S: AsFd + 'static>(&'h self, source: &'h Shared<S>) -> Watch<'h, Weakly<S>> {
        let fd = source.as_fd().as_raw_fd();
        let mut watch = Watch::new(self, Weakly { fd, weak: source.downgrade() });
        watch.same_source =
            self.core().watcher_of(fd).is_some_and(|current| source.is_watched_as(self, current));
        watch.tie = Some(source);
        watch
    }

    /// Watches a bare number, for callers that manage descriptors by hand; the callbacks are handed
    /// `&mut data`.
    ///
    /// Unwatch before closing. If the number is closed first, no callback runs for it any more, but
    /// it stays in [`watcher_count`](Handle::watcher_count) until it is unwatched or watched again.
    /// If it is then reused, only a new watch reports on the new descriptor (on
    /// [`Backend::Poll`](crate::Backend::Poll), which knows numbers only, the old watch does; and a
    /// regular file that is opened again under its old number counts as the same).
    pub fn watch_raw<T: 'static>(&self, fd: RawFd, data: T) -> Watch<'_, Raw<T>> {
        let mut watch = Watch::new(self, Raw { fd, data });
        watch.certain = false;
        watch
    }

    /// Changes what a watcher waits for, and arms it again if it is oneshot.
    ///
    /// # Errors
    /// [`Error::Gone`] if the watch has ended; [`Error::NoCallback`] if the interest has no
    /// callback to go to; otherwise as [`Watch::start`]. On error the watch stays as it was.
    pub fn modify(&self, watcher: Watcher, interest: Interest) -> Result<()> {
        self.core().modify(watcher, interest)
    }

    /// Arms a oneshot watcher again with the interest it has.
    ///
    /// # Errors
    /// As [`modify`](Handle::modify).
    pub fn rearm(&self, watcher: Watcher) -> Result<()> {
        let interest = self.core().interest_of(watcher).ok_or(Error::Gone)?;
        self.modify(watcher, interest)
    }

    /// Ends a watch. True if it was there; ending it again does nothing. No callback runs for it
    /// any more, not even for an event that has been fetched already.
    pub fn unwatch(&self, watcher: Watcher) -> bool {
        self.core().unwatch(watcher)
    }

    /// Ends the watch of a descriptor by the descriptor itself.
    pub fn unwatch_source(&self, source: &impl AsFd) -> bool {
        self.watcher_of(source.as_fd().as_raw_fd()).is_some_and(|watcher| self.unwatch(watcher))
    }

    /// The current watcher of a descriptor number.
    pub fn watcher_of(&self, fd: RawFd) -> Option<Watcher> {
        self.core().watcher_of(fd).filter(|_| !self.core().is_own_fd(fd))
    }

    /// Whether the watch is still there, armed or not.
    pub fn is_watching(&self, watcher: Watcher) -> bool {
        self.core().is_watching(watcher)
    }

    /// How many descriptors are watched.
    pub fn watcher_count(&self) -> usize {
        self.core().watcher_count()
    }
}
