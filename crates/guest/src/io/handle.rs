//! A handle of the host whose operations can be awaited.

use crate::error::io_error;
use crate::runtime::driver::WatchKey;
use crate::runtime::executor::{try_with_driver, with_driver};
use crate::zi::{self, ErrorCode, RawHandle};
use mainspring_zcl::sys_loop::Readiness;
use std::cell::Cell;
use std::io;
use std::task::{Context, Poll};

/// What an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Read,
    Write,
}

/// A handle; closed when dropped, unless it is a standard stream.
///
/// Each operation is tried first. Where the host says AGAIN, the task sleeps until the handle is
/// ready, and tries again.
#[derive(Debug)]
pub struct Handle {
    raw: RawHandle,
    closes: bool,
    read: Cell<Option<WatchKey>>,
    write: Cell<Option<WatchKey>>,
    /// The last read got less than it asked for, so that the next one would most likely get
    /// nothing.
    drained: Cell<bool>,
}

impl Handle {
    /// Takes over a handle that was opened by [`zi::open`], for capabilities that this crate does
    /// not know.
    #[must_use]
    pub fn from_raw(raw: RawHandle) -> Handle {
        Handle::new(raw, true)
    }

    pub(crate) fn standard(raw: RawHandle) -> Handle {
        Handle::new(raw, false)
    }

    fn new(raw: RawHandle, closes: bool) -> Handle {
        Handle { raw, closes, read: Cell::new(None), write: Cell::new(None), drained: Cell::new(false) }
    }

    /// The number.
    #[must_use]
    pub fn raw(&self) -> RawHandle {
        self.raw
    }

    /// Reads what is there, waiting if nothing is; 0 is the end.
    ///
    /// # Errors
    ///
    /// Whatever the host answers other than AGAIN.
    pub async fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        std::future::poll_fn(|context| self.poll_read(context, buffer)).await
    }

    /// Writes what can be taken, waiting if nothing can.
    ///
    /// # Errors
    ///
    /// Whatever the host answers other than AGAIN.
    pub async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        std::future::poll_fn(|context| self.poll_write(context, bytes)).await
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    ///
    /// Whatever the host answers other than AGAIN; how much was written is not known then.
    pub async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.write(bytes).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                count => bytes = &bytes[count..],
            }
        }
        Ok(())
    }

    pub(crate) fn poll_read(&self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        self.poll_with(context, Direction::Read, || zi::read(self.raw, buffer))
    }

    /// The same for handles that are certainly watchable: after a read that got less than it asked
    /// for, waits first. Watches are levels, so that nothing can be missed, and the usual case is
    /// spared a call that gets AGAIN.
    pub(crate) fn poll_read_watched(
        &self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if self.drained.replace(false) && self.wait_ready(context, Direction::Read).is_ok() {
            return Poll::Pending;
        }
        let room = buffer.len();
        let read = self.poll_read(context, buffer);
        if let Poll::Ready(Ok(count)) = read {
            self.drained.set(count > 0 && count < room);
        }
        read
    }

    pub(crate) fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_with(context, Direction::Write, || zi::write(self.raw, bytes))
    }

    pub(crate) fn poll_with<T>(
        &self,
        context: &mut Context<'_>,
        direction: Direction,
        operation: impl FnOnce() -> Result<T, ErrorCode>,
    ) -> Poll<io::Result<T>> {
        match operation() {
            Ok(done) => Poll::Ready(Ok(done)),
            Err(ErrorCode::Again) => match self.wait_ready(context, direction) {
                Ok(()) => Poll::Pending,
                Err(code) => Poll::Ready(Err(io_error(code))),
            },
            Err(code) => Poll::Ready(Err(io_error(code))),
        }
    }

    /// Waits until the handle is writable or has failed; it is in vain for one whose first
    /// readiness means nothing.
    ///
    /// # Errors
    ///
    /// Why it failed.
    pub(crate) async fn established(&self) -> io::Result<()> {
        let interest = InterestGuard::new(self.raw, Readiness::WRITABLE | Readiness::ERROR);
        let seen = std::future::poll_fn(|context| interest.poll_seen(context)).await.map_err(io_error)?;
        if !seen.contains(Readiness::ERROR) {
            return Ok(());
        }
        // A handle that has failed says why, whatever is asked of it.
        match zi::read(self.raw, &mut [0]) {
            Err(code) => Err(io_error(code)),
            Ok(_) => Err(io_error(ErrorCode::Io)),
        }
    }

    fn wait_ready(&self, context: &mut Context<'_>, direction: Direction) -> Result<(), ErrorCode> {
        let (slot, events) = match direction {
            Direction::Read => (&self.read, Readiness::READABLE),
            Direction::Write => (&self.write, Readiness::WRITABLE),
        };
        with_driver(|driver| {
            let key = slot.get().unwrap_or_else(|| {
                let key = driver.add_interest(self.raw, events);
                slot.set(Some(key));
                key
            });
            driver.wait_ready(key, context.waker())
        })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        for key in [self.read.get(), self.write.get()].into_iter().flatten() {
            try_with_driver(|driver| driver.remove_interest(key, self.closes));
        }
        if self.closes {
            // Nobody is left to be told of a failure.
            let _ = zi::end(self.raw);
        }
    }
}

/// A watch of its own, beside those for reading and writing.
struct InterestGuard(WatchKey);

impl InterestGuard {
    fn new(handle: RawHandle, events: Readiness) -> InterestGuard {
        InterestGuard(with_driver(|driver| driver.add_interest(handle, events)))
    }

    fn poll_seen(&self, context: &mut Context<'_>) -> Poll<Result<Readiness, ErrorCode>> {
        with_driver(|driver| {
            let seen = driver.take_seen(self.0);
            if !seen.is_empty() {
                return Poll::Ready(Ok(seen));
            }
            match driver.wait_ready(self.0, context.waker()) {
                Ok(()) => Poll::Pending,
                Err(code) => Poll::Ready(Err(code)),
            }
        })
    }
}

impl Drop for InterestGuard {
    fn drop(&mut self) {
        try_with_driver(|driver| driver.remove_interest(self.0, false));
    }
}
