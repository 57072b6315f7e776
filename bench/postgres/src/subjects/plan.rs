//! The peer: the same interface as the specification's authors planned it. A call that would block
//! blocks the whole thread in `poll(2)` until that one socket is ready, for at most a millisecond,
//! and tries once more. Without that wait it is the interface as they had it before.

use mainspring_host::GuestState;
use std::cell::Cell;
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use wasmtime::component::{HasSelf, Linker};

wasmtime::component::bindgen!({
    path: "../../crates/host/wit",
    inline: "package bench:plan; world plan { import mainspring:sockets/tcp@1.0.0; }",
    world: "bench:plan/plan",
});

use mainspring::sockets::tcp::{
    self, BackoffClass, ErrorCategory, ErrorScope, PluginError, SocketInterest, SocketReadResult,
    SocketWriteResult,
};

/// The most that one read returns.
const READ_BYTES_MAX: u64 = 64 * 1024;

thread_local!(static WOULD_BLOCKS: Cell<u64> = const { Cell::new(0) });

/// How often guests of this thread were told that a call would block.
pub(crate) fn would_blocks() -> u64 {
    WOULD_BLOCKS.get()
}

/// The sockets of one guest.
pub(crate) struct Sockets {
    open: HashMap<u64, TcpStream>,
    last: u64,
    wait_ms: Option<i32>,
}

impl Sockets {
    pub(crate) fn new(wait_ms: Option<i32>) -> Sockets {
        Sockets { open: HashMap::new(), last: 0, wait_ms }
    }
}

/// Replaces the host's own.
pub(crate) fn add_to_linker(linker: &mut Linker<GuestState>) -> wasmtime::Result<()> {
    tcp::add_to_linker::<_, HasSelf<GuestState>>(linker, |state| state)
}

fn failure(code: &str, error: &dyn std::fmt::Display) -> PluginError {
    PluginError {
        category: ErrorCategory::TransientNetwork,
        scope: ErrorScope::PerStream,
        code: code.into(),
        message: error.to_string(),
        retryable: true,
        retry_after_ms: None,
        backoff_class: BackoffClass::Normal,
        safe_to_retry: true,
        commit_state: None,
        details_json: None,
    }
}

/// Blocks the thread until the socket is ready or the time is up.
fn is_ready_within(stream: &TcpStream, events: i16, wait_ms: i32) -> bool {
    let mut entry = libc::pollfd { fd: stream.as_raw_fd(), events, revents: 0 };
    // SAFETY: one valid pollfd, whose descriptor `stream` keeps open.
    unsafe { libc::poll(&raw mut entry, 1, wait_ms) != 0 }
}

/// Tries, waits as planned, tries once more; `None` if it would block.
fn attempt<T>(
    state: &mut GuestState,
    handle: u64,
    events: i16,
    mut call: impl FnMut(&mut TcpStream) -> std::io::Result<T>,
) -> Result<Option<T>, PluginError> {
    let sockets = state.extension_mut::<Sockets>().expect("every guest of this host has them");
    let wait_ms = sockets.wait_ms;
    let stream = sockets.open.get_mut(&handle).ok_or_else(|| failure("INVALID_SOCKET", &handle))?;
    let mut outcome = call(stream);
    let blocked = |outcome: &std::io::Result<T>| {
        outcome.as_ref().err().is_some_and(|error| error.kind() == ErrorKind::WouldBlock)
    };
    if blocked(&outcome) && wait_ms.is_some_and(|wait_ms| is_ready_within(stream, events, wait_ms)) {
        outcome = call(stream);
    }
    if blocked(&outcome) {
        WOULD_BLOCKS.set(WOULD_BLOCKS.get() + 1);
        return Ok(None);
    }
    outcome.map(Some).map_err(|error| failure("SOCKET_FAILED", &error))
}

impl tcp::Host for GuestState {
    fn connect_tcp(&mut self, host: String, port: u16) -> Result<u64, PluginError> {
        let failed = |error: std::io::Error| failure("TCP_CONNECT_FAILED", &error);
        let stream = TcpStream::connect((host.as_str(), port)).map_err(failed)?;
        stream.set_nodelay(true).and_then(|()| stream.set_nonblocking(true)).map_err(failed)?;
        let sockets = self.extension_mut::<Sockets>().expect("every guest of this host has them");
        sockets.last += 1;
        sockets.open.insert(sockets.last, stream);
        Ok(sockets.last)
    }

    fn socket_read(&mut self, handle: u64, length: u64) -> Result<SocketReadResult, PluginError> {
        let mut bytes = vec![0; length.clamp(1, READ_BYTES_MAX) as usize];
        Ok(match attempt(self, handle, libc::POLLIN, |stream| stream.read(&mut bytes))? {
            None => SocketReadResult::WouldBlock,
            Some(0) => SocketReadResult::Eof,
            Some(count) => {
                bytes.truncate(count);
                SocketReadResult::Data(bytes)
            }
        })
    }

    fn socket_write(&mut self, handle: u64, bytes: Vec<u8>) -> Result<SocketWriteResult, PluginError> {
        Ok(match attempt(self, handle, libc::POLLOUT, |stream| stream.write(&bytes))? {
            None => SocketWriteResult::WouldBlock,
            Some(count) => SocketWriteResult::Written(count as u64),
        })
    }

    fn socket_close(&mut self, handle: u64) {
        let sockets = self.extension_mut::<Sockets>().expect("every guest of this host has them");
        sockets.open.remove(&handle);
    }

    fn poll_socket(&mut self, _: u64, _: SocketInterest, _: u32) -> Result<bool, PluginError> {
        Err(failure("UNPLANNED", &"the plan has no such call"))
    }
}
