//! The standard streams of a WASI guest: the same handles 0, 1 and 2 that `zi_read` and `zi_write`
//! use.
//!
//! Everything here runs inside the guest's own calls, on the reactor's thread. wasmtime-wasi's
//! ready-made adapters would move each stream to a task on another thread.

use crate::guest::confined::Confined;
use crate::guest::context::GuestContext;
use crate::guest::stats::count;
use bytes::{Bytes, BytesMut};
use mainspring_zcl::abi::ErrorCode;
use mainspring_zcl::sys_loop::Readiness;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use wasmtime_wasi::cli::{IsTerminal, StdinStream, StdoutStream};
use wasmtime_wasi::p2::{InputStream, OutputStream, Pollable, StreamError, StreamResult};

/// The most that one read asks for: a guest names the size, and the host allocates it.
const READ_BYTES_MAX: usize = 64 * 1024;
/// The most that may be written before it has been passed on.
const WRITE_BYTES_MAX: usize = 64 * 1024;

/// One of the three standard streams.
pub(super) struct Standard {
    guest: Confined<Rc<GuestContext>>,
    number: i32,
}

impl Standard {
    pub(super) fn new(guest: &Rc<GuestContext>, number: i32) -> Standard {
        Standard { guest: Confined::new(guest.clone()), number }
    }

    fn stream(&self) -> StandardStream {
        StandardStream {
            guest: Confined::new((*self.guest).clone()),
            number: self.number,
            pending: BytesMut::new(),
            failed: None,
        }
    }
}

impl IsTerminal for Standard {
    fn is_terminal(&self) -> bool {
        false
    }
}

// The asynchronous forms are for WASI 0.3, which this host does not offer.
impl StdinStream for Standard {
    fn async_stream(&self) -> Box<dyn tokio::io::AsyncRead + Send + Sync> {
        Box::new(tokio::io::empty())
    }

    fn p2_stream(&self) -> Box<dyn InputStream> {
        Box::new(WasiInput(self.stream()))
    }
}

impl StdoutStream for Standard {
    fn async_stream(&self) -> Box<dyn tokio::io::AsyncWrite + Send + Sync> {
        Box::new(tokio::io::empty())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(Output(self.stream()))
    }
}

/// A handle as a stream.
struct StandardStream {
    guest: Confined<Rc<GuestContext>>,
    number: i32,
    /// Written by the guest and not taken by the handle.
    pending: BytesMut,
    failed: Option<ErrorCode>,
}

fn failure(code: ErrorCode) -> StreamError {
    match code {
        ErrorCode::Closed | ErrorCode::NoSys => StreamError::Closed,
        code => StreamError::LastOperationFailed(code.into()),
    }
}

impl StandardStream {
    /// Ready when an operation in this direction would make progress, or fail at once.
    fn poll_ready(&self, context: &mut Context<'_>, direction: Readiness) -> Poll<()> {
        let Ok(entry) = self.guest.entry(self.number) else { return Poll::Ready(()) };
        let Some(watchable) = entry.resource().watchable() else { return Poll::Ready(()) };
        let signal = watchable.signal();
        if signal.readiness().intersects(direction) {
            return Poll::Ready(());
        }
        signal.wait(context.waker());
        // What cannot be watched must not be waited for.
        match watchable.arm(&self.guest, signal.interest() | direction) {
            Ok(()) if signal.readiness().intersects(direction) => Poll::Ready(()),
            Ok(()) => Poll::Pending,
            Err(_) => Poll::Ready(()),
        }
    }

    fn read(&self, size: usize) -> Result<Bytes, ErrorCode> {
        let entry = self.guest.entry(self.number)?;
        let mut buffer = BytesMut::zeroed(size.min(READ_BYTES_MAX));
        let length = entry.resource().read(&self.guest, &mut buffer)?;
        count(&self.guest.counters.bytes_read, length as u64);
        buffer.truncate(length);
        Ok(buffer.freeze())
    }

    /// Passes on what the handle takes.
    fn pass_on(&mut self) {
        while !self.pending.is_empty() && self.failed.is_none() {
            let guest = &self.guest;
            let written =
                guest.entry(self.number).and_then(|entry| entry.resource().write(guest, &self.pending));
            match written {
                Ok(length) => {
                    count(&guest.counters.bytes_written, length as u64);
                    let _ = self.pending.split_to(length);
                }
                Err(ErrorCode::Again) => {
                    count(&guest.counters.agains, 1);
                    return;
                }
                Err(code) => self.failed = Some(code),
            }
        }
    }

    fn check(&self) -> StreamResult<()> {
        self.failed.map_or(Ok(()), |code| Err(failure(code)))
    }
}

struct WasiInput(StandardStream);

#[async_trait::async_trait]
impl Pollable for WasiInput {
    async fn ready(&mut self) {
        poll_fn(|context| self.0.poll_ready(context, Readiness::READABLE)).await;
    }
}

impl InputStream for WasiInput {
    fn read(&mut self, size: usize) -> StreamResult<Bytes> {
        if size == 0 {
            return Ok(Bytes::new());
        }
        match self.0.read(size) {
            Ok(bytes) if bytes.is_empty() => Err(StreamError::Closed),
            Ok(bytes) => Ok(bytes),
            Err(ErrorCode::Again) => {
                count(&self.0.guest.counters.agains, 1);
                Ok(Bytes::new())
            }
            Err(code) => Err(failure(code)),
        }
    }
}

struct Output(StandardStream);

#[async_trait::async_trait]
impl Pollable for Output {
    async fn ready(&mut self) {
        poll_fn(|context| {
            loop {
                self.0.pass_on();
                if self.0.pending.is_empty() || self.0.failed.is_some() {
                    return Poll::Ready(());
                }
                std::task::ready!(self.0.poll_ready(context, Readiness::WRITABLE));
            }
        })
        .await;
    }
}

impl OutputStream for Output {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.0.check()?;
        if self.0.pending.len() + bytes.len() > WRITE_BYTES_MAX {
            return Err(StreamError::trap("the guest wrote more than it was allowed to"));
        }
        self.0.pending.extend_from_slice(&bytes);
        self.0.pass_on();
        self.0.check()
    }

    fn flush(&mut self) -> StreamResult<()> {
        self.0.pass_on();
        self.0.check()
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        self.0.pass_on();
        self.0.check()?;
        Ok(if self.0.pending.is_empty() { WRITE_BYTES_MAX } else { 0 })
    }
}
