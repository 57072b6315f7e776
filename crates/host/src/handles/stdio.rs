//! Standard streams: what handles 0, 1 and 2 are connected to.

use crate::abi::errno::code_for;
use crate::guest::context::GuestContext;
use crate::handles::pipe::{PipeReader, PipeWriter};
use crate::handles::resource::{Resource, Watchable};
use crate::readiness::descriptor::WatchedDescriptor;
use crate::readiness::signal::Signal;
use mainspring_reactor::Handle;
use mainspring_zcl::abi::{ErrorCode, handle_flags};
use mainspring_zcl::sys_loop::Readiness;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::time::Timespec;
use std::cell::OnceCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

/// A guest's standard input.
#[derive(Debug, Default)]
pub enum Stdin {
    /// At its end from the start.
    #[default]
    Null,
    /// The host's own.
    Inherit,
    /// A descriptor: a file, a pipe, a socket, a terminal.
    Fd(OwnedFd),
    /// The other end of a [`pipe`](crate::pipe()).
    Pipe(PipeReader),
}

/// A guest's standard output or standard error.
#[derive(Debug, Default)]
pub enum Stdout {
    /// Takes everything and keeps nothing.
    #[default]
    Null,
    /// The host's own.
    Inherit,
    /// A descriptor: a file, a pipe, a socket, a terminal.
    Fd(OwnedFd),
    /// The other end of a [`pipe`](crate::pipe()).
    Pipe(PipeWriter),
}

impl Stdin {
    pub(crate) fn open(self, reactor: &Handle) -> io::Result<Rc<dyn Resource>> {
        Ok(match self {
            Stdin::Null => Null::open(handle_flags::READABLE),
            Stdin::Inherit => {
                FdStream::open(reactor, io::stdin().as_fd().try_clone_to_owned()?, handle_flags::READABLE)
            }
            Stdin::Fd(fd) => FdStream::open(reactor, fd, handle_flags::READABLE),
            Stdin::Pipe(pipe) => pipe.into_resource(),
        })
    }
}

impl Stdout {
    pub(crate) fn open(self, reactor: &Handle, error: bool) -> io::Result<Rc<dyn Resource>> {
        let inherited = || {
            if error {
                io::stderr().as_fd().try_clone_to_owned()
            } else {
                io::stdout().as_fd().try_clone_to_owned()
            }
        };
        Ok(match self {
            Stdout::Null => Null::open(handle_flags::WRITABLE),
            Stdout::Inherit => FdStream::open(reactor, inherited()?, handle_flags::WRITABLE),
            Stdout::Fd(fd) => FdStream::open(reactor, fd, handle_flags::WRITABLE),
            Stdout::Pipe(pipe) => pipe.into_resource(),
        })
    }
}

/// Nothing to read, and nothing kept of what is written.
struct Null {
    /// Made when it is first watched: every guest has up to three of these, and few watch them.
    signal: OnceCell<Rc<Signal>>,
    flags: u32,
}

impl Null {
    fn open(flags: u32) -> Rc<dyn Resource> {
        Rc::new(Null { signal: OnceCell::new(), flags: flags | handle_flags::ENDABLE })
    }
}

impl Resource for Null {
    fn flags(&self) -> u32 {
        self.flags
    }

    fn read(&self, _guest: &GuestContext, _buffer: &mut [u8]) -> Result<usize, ErrorCode> {
        if self.flags & handle_flags::READABLE == 0 { Err(ErrorCode::NoSys) } else { Ok(0) }
    }

    fn write(&self, _guest: &GuestContext, bytes: &[u8]) -> Result<usize, ErrorCode> {
        if self.flags & handle_flags::WRITABLE == 0 { Err(ErrorCode::NoSys) } else { Ok(bytes.len()) }
    }

    fn watchable(&self) -> Option<&dyn Watchable> {
        Some(self)
    }
}

impl Watchable for Null {
    fn signal(&self) -> &Rc<Signal> {
        self.signal.get_or_init(|| Signal::raised(Readiness::READABLE | Readiness::WRITABLE))
    }
}

/// Most bytes written at a time to a descriptor that may block: a pipe that is writable takes as
/// many without waiting.
const BLOCKING_WRITE_BYTES_MAX: usize = rustix::pipe::PIPE_BUF;

/// Most bytes read at a time: a file, or a device, has as many as the guest asks for.
const READ_BYTES_MAX: usize = 64 * 1024;

/// A descriptor as a standard stream.
///
/// It may be shared with other processes, so it is not switched to non-blocking: that would switch
/// it for them as well. The kernel is asked before each operation instead, and writes are short
/// enough not to block.
struct FdStream {
    descriptor: WatchedDescriptor,
    flags: u32,
}

impl FdStream {
    fn open(reactor: &Handle, fd: OwnedFd, flags: u32) -> Rc<dyn Resource> {
        let descriptor = WatchedDescriptor::new(reactor, &Signal::new(), fd);
        Rc::new(FdStream { descriptor, flags: flags | handle_flags::ENDABLE })
    }

    /// Does `call` if the kernel says that it would not have to wait.
    fn attempt(
        &self,
        direction: Readiness,
        mut call: impl FnMut(&OwnedFd) -> Result<usize, Errno>,
    ) -> Result<usize, ErrorCode> {
        let wanted = if direction == Readiness::READABLE { PollFlags::IN } else { PollFlags::OUT };
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        loop {
            let mut fds = [PollFd::new(self.descriptor.fd(), wanted)];
            let outcome = match rustix::event::poll(&mut fds, Some(&at_once)) {
                Ok(0) => Err(Errno::AGAIN),
                Ok(_) => call(self.descriptor.fd()),
                Err(errno) => Err(errno),
            };
            match outcome {
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.descriptor.would_block(direction);
                    return Err(ErrorCode::Again);
                }
                outcome => return outcome.map_err(code_for),
            }
        }
    }
}

impl Resource for FdStream {
    fn flags(&self) -> u32 {
        self.flags
    }

    fn read(&self, _guest: &GuestContext, buffer: &mut [u8]) -> Result<usize, ErrorCode> {
        if self.flags & handle_flags::READABLE == 0 {
            return Err(ErrorCode::NoSys);
        }
        let length = buffer.len().min(READ_BYTES_MAX);
        self.attempt(Readiness::READABLE, |fd| rustix::io::read(fd, &mut buffer[..length]))
    }

    fn write(&self, _guest: &GuestContext, bytes: &[u8]) -> Result<usize, ErrorCode> {
        if self.flags & handle_flags::WRITABLE == 0 {
            return Err(ErrorCode::NoSys);
        }
        let bytes = &bytes[..bytes.len().min(BLOCKING_WRITE_BYTES_MAX)];
        self.attempt(Readiness::WRITABLE, |fd| rustix::io::write(fd, bytes))
    }

    fn watchable(&self) -> Option<&dyn Watchable> {
        Some(&self.descriptor)
    }
}
