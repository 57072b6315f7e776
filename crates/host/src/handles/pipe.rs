//! Pipes in memory: how the program that runs a guest talks to it.
//!
//! One end goes to the guest as a standard stream, the other stays with the host, which waits in
//! futures. A pipe is bounded: a writer that is ahead waits, so neither side can make the other
//! hold more than the pipe does.

use crate::guest::context::GuestContext;
use crate::handles::resource::{Resource, Watchable};
use crate::readiness::signal::Signal;
use mainspring_zcl::abi::{ErrorCode, handle_flags};
use mainspring_zcl::sys_loop::Readiness;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// How many bytes a pipe holds unless told otherwise.
pub const PIPE_BYTES_DEFAULT: usize = 64 * 1024;

/// Makes a pipe that holds up to `capacity` bytes.
///
/// # Examples
/// ```
/// let (writer, reader) = mainspring_host::pipe(16);
/// assert_eq!(writer.try_write(b"hello"), Some(5));
/// let mut buffer = [0; 8];
/// assert_eq!(reader.try_read(&mut buffer), Some(5));
/// assert_eq!(reader.try_read(&mut buffer), None); // nothing yet
/// drop(writer);
/// assert_eq!(reader.try_read(&mut buffer), Some(0)); // the end
/// ```
pub fn pipe(capacity: usize) -> (PipeWriter, PipeReader) {
    let shared = Rc::new(PipeState {
        bytes: RefCell::default(),
        capacity: capacity.max(1),
        readable: Signal::new(),
        writable: Signal::raised(Readiness::WRITABLE),
        reader_gone: Cell::new(false),
        writer_gone: Cell::new(false),
        reader: Cell::new(None),
        writer: Cell::new(None),
    });
    (PipeWriter(shared.clone()), PipeReader(shared))
}

struct PipeState {
    bytes: RefCell<VecDeque<u8>>,
    capacity: usize,
    /// For a guest that reads.
    readable: Rc<Signal>,
    /// For a guest that writes.
    writable: Rc<Signal>,
    reader_gone: Cell<bool>,
    writer_gone: Cell<bool>,
    /// For a host that reads.
    reader: Cell<Option<Waker>>,
    /// For a host that writes.
    writer: Cell<Option<Waker>>,
}

fn wake(slot: &Cell<Option<Waker>>) {
    if let Some(waker) = slot.take() {
        waker.wake();
    }
}

impl PipeState {
    /// Takes what fits; `None` if nothing does. 0 if the reader is gone.
    fn write(&self, source: &[u8]) -> Option<usize> {
        if self.reader_gone.get() || source.is_empty() {
            return Some(0);
        }
        let mut bytes = self.bytes.borrow_mut();
        let count = source.len().min(self.capacity - bytes.len());
        bytes.extend(&source[..count]);
        let full = bytes.len() == self.capacity;
        drop(bytes);
        if full {
            self.writable.lower(Readiness::WRITABLE);
        }
        if count == 0 {
            return None;
        }
        self.readable.raise(Readiness::READABLE);
        wake(&self.reader);
        Some(count)
    }

    /// Gives what there is; `None` if nothing yet. 0 at the end.
    fn read(&self, target: &mut [u8]) -> Option<usize> {
        let mut bytes = self.bytes.borrow_mut();
        if bytes.is_empty() {
            return self.writer_gone.get().then_some(0);
        }
        let count = target.len().min(bytes.len());
        let (front, back) = bytes.as_slices();
        let first = front.len().min(count);
        target[..first].copy_from_slice(&front[..first]);
        target[first..count].copy_from_slice(&back[..count - first]);
        bytes.drain(..count);
        let empty = bytes.is_empty();
        if empty && bytes.capacity() > PIPE_BYTES_IDLE {
            *bytes = VecDeque::new();
        }
        drop(bytes);
        if empty && !self.writer_gone.get() {
            self.readable.lower(Readiness::READABLE);
        }
        self.writable.raise(Readiness::WRITABLE);
        wake(&self.writer);
        Some(count)
    }

    fn reader_ends(&self) {
        self.reader_gone.set(true);
        *self.bytes.borrow_mut() = VecDeque::new();
        self.writable.raise(Readiness::WRITABLE | Readiness::HANGUP | Readiness::ERROR);
        wake(&self.writer);
    }

    fn writer_ends(&self) {
        self.writer_gone.set(true);
        self.readable.raise(Readiness::READABLE | Readiness::HANGUP);
        wake(&self.reader);
    }
}

/// A buffer larger than this is given back once it has been read.
const PIPE_BYTES_IDLE: usize = 4 * 1024;

/// The end of a pipe that is written to. Dropping it ends the stream.
pub struct PipeWriter(Rc<PipeState>);

/// The end of a pipe that is read from. Dropping it makes writes fail.
pub struct PipeReader(Rc<PipeState>);

impl PipeWriter {
    /// Writes what fits and says how much; `None` if the pipe is full; 0 if the reader is gone.
    pub fn try_write(&self, bytes: &[u8]) -> Option<usize> {
        self.0.write(bytes)
    }

    /// [`try_write`](PipeWriter::try_write) for hand-written futures.
    pub fn poll_write(&self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<usize> {
        match self.0.write(bytes) {
            Some(count) => Poll::Ready(count),
            None => {
                self.0.writer.set(Some(context.waker().clone()));
                Poll::Pending
            }
        }
    }

    /// Writes everything. False if the reader went away before.
    pub async fn write_all(&self, mut bytes: &[u8]) -> bool {
        while !bytes.is_empty() {
            match poll_fn(|context| self.poll_write(context, bytes)).await {
                0 => return false,
                count => bytes = &bytes[count..],
            }
        }
        true
    }

    pub(crate) fn into_resource(self) -> Rc<dyn Resource> {
        Rc::new(self)
    }
}

impl PipeReader {
    /// Reads what there is and says how much; `None` if there is nothing yet; 0 at the end.
    pub fn try_read(&self, buffer: &mut [u8]) -> Option<usize> {
        self.0.read(buffer)
    }

    /// [`try_read`](PipeReader::try_read) for hand-written futures.
    pub fn poll_read(&self, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<usize> {
        match self.0.read(buffer) {
            Some(count) => Poll::Ready(count),
            None => {
                self.0.reader.set(Some(context.waker().clone()));
                Poll::Pending
            }
        }
    }

    /// Ready when there is something to read or the stream is at its end, without reading it.
    pub fn poll_ready(&self, context: &mut Context<'_>) -> Poll<()> {
        if !self.0.bytes.borrow().is_empty() || self.0.writer_gone.get() {
            return Poll::Ready(());
        }
        self.0.reader.set(Some(context.waker().clone()));
        Poll::Pending
    }

    /// Waits for something to read; 0 at the end.
    pub async fn read(&self, buffer: &mut [u8]) -> usize {
        poll_fn(|context| self.poll_read(context, buffer)).await
    }

    /// Reads to the end.
    pub async fn read_to_end(&self) -> Vec<u8> {
        let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
        loop {
            match self.read(&mut buffer).await {
                0 => return all,
                count => all.extend_from_slice(&buffer[..count]),
            }
        }
    }

    pub(crate) fn into_resource(self) -> Rc<dyn Resource> {
        Rc::new(self)
    }
}

impl Resource for PipeWriter {
    fn flags(&self) -> u32 {
        handle_flags::WRITABLE | handle_flags::ENDABLE
    }

    fn write(&self, _guest: &GuestContext, bytes: &[u8]) -> Result<usize, ErrorCode> {
        match self.0.write(bytes) {
            Some(0) if !bytes.is_empty() => Err(ErrorCode::Io),
            Some(count) => Ok(count),
            None => Err(ErrorCode::Again),
        }
    }

    fn watchable(&self) -> Option<&dyn Watchable> {
        Some(self)
    }
}

impl Watchable for PipeWriter {
    fn signal(&self) -> &Rc<Signal> {
        &self.0.writable
    }
}

impl Resource for PipeReader {
    fn flags(&self) -> u32 {
        handle_flags::READABLE | handle_flags::ENDABLE
    }

    fn read(&self, _guest: &GuestContext, buffer: &mut [u8]) -> Result<usize, ErrorCode> {
        self.0.read(buffer).ok_or(ErrorCode::Again)
    }

    fn watchable(&self) -> Option<&dyn Watchable> {
        Some(self)
    }
}

impl Watchable for PipeReader {
    fn signal(&self) -> &Rc<Signal> {
        &self.0.readable
    }
}

impl Drop for PipeWriter {
    fn drop(&mut self) {
        self.0.writer_ends();
    }
}

impl Drop for PipeReader {
    fn drop(&mut self) {
        self.0.reader_ends();
    }
}

impl fmt::Debug for PipeWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipeWriter").finish_non_exhaustive()
    }
}

impl fmt::Debug for PipeReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PipeReader").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;

    #[derive(Default)]
    struct Woken(AtomicUsize);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn whoever_waits_for_bytes_is_woken_once_and_finds_them_unread() {
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let context = &mut Context::from_waker(&waker);
        let (writer, reader) = pipe(16);
        assert!(reader.poll_ready(context).is_pending());
        assert_eq!(writer.try_write(b"one"), Some(3));
        assert_eq!(writer.try_write(b"two"), Some(3));
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        assert!(reader.poll_ready(context).is_ready());
        let mut buffer = [0; 16];
        assert_eq!(reader.try_read(&mut buffer), Some(6));
        assert!(reader.poll_ready(context).is_pending());
        drop(writer);
        assert_eq!(woken.0.load(Ordering::Relaxed), 2);
        assert!(reader.poll_ready(context).is_ready(), "the end is something to read");
    }
}
