//! Sources to watch.
//!
//! Tests run in parallel and share one table of descriptors: a number that one test closes may be
//! another's a moment later. Tests about closed and reused numbers therefore use numbers far above
//! those the system hands out by itself.

use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

/// Descriptors that the tests may have open at once.
const DESCRIPTORS_NEEDED: libc::rlim_t = 8192;
/// Above everything the system hands out: it takes the lowest free number.
const FIRST_RESERVED: RawFd = 7000;

/// Two connected, non-blocking sockets.
pub(crate) fn sockets() -> (UnixStream, UnixStream) {
    let (left, right) = UnixStream::pair().expect("a socket pair");
    left.set_nonblocking(true).expect("non-blocking");
    right.set_nonblocking(true).expect("non-blocking");
    (left, right)
}

/// A non-blocking pipe.
pub(crate) fn pipe() -> (PipeReader, PipeWriter) {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    for end in [reader.as_fd(), writer.as_fd()] {
        rustix::fs::fcntl_setfl(end, rustix::fs::OFlags::NONBLOCK).expect("non-blocking");
    }
    (reader, writer)
}

/// A socket that has one byte to read, and its peer.
pub(crate) fn readable_socket() -> (UnixStream, UnixStream) {
    let (left, right) = sockets();
    write_byte(&right);
    (left, right)
}

/// A socket with an error to report: its peer was closed before it had read everything.
pub(crate) fn broken_socket() -> UnixStream {
    let (left, right) = sockets();
    write_byte(&left);
    drop(right);
    left
}

/// Makes the other end readable.
pub(crate) fn write_byte(mut stream: &UnixStream) {
    stream.write_all(b"x").expect("room for a byte");
}

/// Reads whatever is there. Returns how many bytes that was.
pub(crate) fn drain(mut source: impl Read) -> usize {
    let (mut buffer, mut total) = ([0; 1024], 0);
    loop {
        match source.read(&mut buffer) {
            Ok(0) => return total,
            Ok(count) => total += count,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return total,
            Err(error) => panic!("reading failed: {error}"),
        }
    }
}

/// Writes until there is no room.
pub(crate) fn fill(mut target: impl Write) {
    let buffer = [0; 4096];
    while target.write(&buffer).is_ok() {}
}

/// Whether the other end of a socket has been closed.
pub(crate) fn peer_is_closed(mut stream: &UnixStream) -> bool {
    match stream.read(&mut [0; 16]) {
        Ok(count) => count == 0,
        // Closed with something left to read.
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

/// Reads whatever is there to read under a bare number.
pub(crate) fn drain_number(fd: RawFd) -> usize {
    drain(std::fs::File::from(Borrowed(fd).as_fd().try_clone_to_owned().expect("an open number")))
}

/// A number that no other test uses, and that stays free when it is closed.
pub(crate) struct ReservedNumber(pub(crate) RawFd);

impl ReservedNumber {
    pub(crate) fn new() -> ReservedNumber {
        static NEXT: AtomicI32 = AtomicI32::new(FIRST_RESERVED);
        raise_descriptor_limit();
        ReservedNumber(NEXT.fetch_add(1, Ordering::Relaxed))
    }

    /// Makes the number refer to what `source` refers to. Whatever was open under it is closed in
    /// the same step.
    pub(crate) fn open(&self, source: impl AsFd) -> RawFd {
        // SAFETY: the target number belongs to this test alone.
        let result = unsafe { libc::dup2(source.as_fd().as_raw_fd(), self.0) };
        assert_eq!(result, self.0, "dup2: {}", std::io::Error::last_os_error());
        self.0
    }

    /// As [`open`](ReservedNumber::open), with the descriptor owned by whoever gets it.
    pub(crate) fn open_owned(&self, source: impl AsFd) -> OwnedFd {
        // SAFETY: the number has just been opened, and nobody else owns it.
        unsafe { OwnedFd::from_raw_fd(self.open(source)) }
    }

    /// Closes the number behind everybody's back.
    pub(crate) fn close(&self) {
        // SAFETY: the number belongs to this test alone.
        assert_eq!(unsafe { libc::close(self.0) }, 0);
    }
}

/// To be held by a test that opens thousands of descriptors: two at a time would run into the
/// reserved numbers.
pub(crate) fn many_descriptors() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    raise_descriptor_limit();
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets this process have as many descriptors as the tests need.
fn raise_descriptor_limit() {
    static RAISED: Once = Once::new();
    RAISED.call_once(|| {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: both calls are handed a live rlimit.
        unsafe {
            assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
            assert!(
                limit.rlim_max >= DESCRIPTORS_NEEDED,
                "these tests need a hard limit of {DESCRIPTORS_NEEDED} descriptors (ulimit -Hn)"
            );
            limit.rlim_cur = limit.rlim_cur.max(DESCRIPTORS_NEEDED);
            assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
        }
    });
}

/// A descriptor that is always readable, without any data to read.
#[cfg(target_os = "linux")]
pub(crate) fn always_readable() -> OwnedFd {
    rustix::event::eventfd(1, rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK)
        .expect("an eventfd")
}

/// Something with a descriptor, in no need of an owner.
pub(crate) struct Borrowed(pub(crate) RawFd);

impl AsFd for Borrowed {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the tests keep the descriptor open for as long as they use this.
        unsafe { BorrowedFd::borrow_raw(self.0) }
    }
}
