//! What the callers and the driver of a connection share.

use crate::core::Core;
use crate::error::{ConnectError, Error};
use std::fmt::Write;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// How the driver of a connection is told that there is something to do.
pub(crate) trait Bell: Send + Sync + std::fmt::Debug {
    /// Makes the driver look.
    fn ring(&self);
}

/// The state of a client, and the bell of its driver.
#[derive(Debug)]
pub(crate) struct Shared {
    core: Mutex<Core>,
    bell: Box<dyn Bell>,
}

/// What makes a client's ids its own.
#[cfg(target_os = "linux")]
fn random_bytes() -> std::io::Result<[u8; 12]> {
    let mut random = [0; 12];
    let flags = rustix::rand::GetRandomFlags::empty();
    rustix::io::retry_on_intr(|| rustix::rand::getrandom(&mut random, flags))?;
    Ok(random)
}

/// The same where there is no such call.
#[cfg(not(target_os = "linux"))]
fn random_bytes() -> std::io::Result<[u8; 12]> {
    use std::io::Read;
    let mut random = [0; 12];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut random)?;
    Ok(random)
}

impl Shared {
    pub(crate) fn new(token: Option<String>, bell: Box<dyn Bell>) -> Result<Shared, ConnectError> {
        let random = random_bytes()
            .map_err(|error| ConnectError::System(format!("no random number for ids: {error}")))?;
        let mut prefix = random.iter().fold(String::new(), |mut text, byte| {
            // Writing to a text cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        });
        prefix.push('-');
        Ok(Shared { core: Mutex::new(Core::new(token, prefix)), bell })
    }

    pub(crate) fn core(&self) -> MutexGuard<'_, Core> {
        // Nothing in the core panics half-way.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes something, and tells the driver if there is something to do for it.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Core) -> T) -> T {
        let mut core = self.core();
        let had_output = core.has_output();
        let result = change(&mut core);
        let is_idle = !core.is_open() && core.needs_connection();
        let rings = is_idle || core.is_closed() || (core.has_output() && !had_output);
        drop(core);
        if rings {
            self.bell.ring();
        }
        result
    }

    pub(crate) fn poll_room(&self, context: &mut Context<'_>) -> Poll<()> {
        self.core().poll_room(context)
    }
}

/// Closes a client when the last way to it is dropped.
#[derive(Debug)]
pub(crate) struct Owner(pub(crate) Arc<Shared>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.change(|core| core.close(None));
    }
}

/// Waits for a future on this thread.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = parker();
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        std::thread::park();
    }
}

/// Waits for a future on this thread, until a time. `None`: the time was up first.
pub(crate) fn block_on_until<T>(future: impl Future<Output = T>, until: Instant) -> Option<T> {
    let mut future = pin!(future);
    let waker = parker();
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return Some(value);
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        std::thread::park_timeout(left);
    }
}

fn parker() -> Waker {
    struct Parker(Thread);
    impl Wake for Parker {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    Waker::from(Arc::new(Parker(std::thread::current())))
}

/// What a driver does about a connection that has ended.
pub(crate) enum Next {
    /// Connect again, for so long at most.
    Reconnect(Duration),
    /// End.
    Stop,
}

/// Settles the end of a connection, and says what comes next.
pub(crate) fn connection_ended(shared: &Shared, error: Option<ConnectError>, reconnect: Duration) -> Next {
    let mut core = shared.core();
    if core.is_closed() {
        return Next::Stop;
    }
    core.lost(error.clone().map(Error::from).as_ref());
    if !core.was_open() {
        // Whoever opens the client is told, and decides whether to try again.
        core.close(error.map(Error::from));
        return Next::Stop;
    }
    match error {
        Some(error) if error.is_final() => core.give_up(&error),
        _ if reconnect.is_zero() => {
            let words = "the daemon closed the connection";
            let reason = error.map_or_else(|| words.to_owned(), |error| format!("{words}: {error}"));
            core.close(Some(Error::closed(reason)));
            return Next::Stop;
        }
        _ => {}
    }
    Next::Reconnect(reconnect)
}

/// What it means that a daemon has not let us in.
pub(crate) fn not_let_in(place: &impl std::fmt::Display) -> ConnectError {
    ConnectError::NotADaemon(format!("what listens at {place} does not answer like a daemon"))
}

/// What it means that a daemon hangs up before it lets us in: it may be ending, or just starting.
pub(crate) fn hung_up(place: &impl std::fmt::Display) -> ConnectError {
    let reason = "it closed the connection before it had answered".to_owned();
    ConnectError::NoDaemon { place: place.to_string(), reason }
}

/// The fault of a line that has no end.
pub(crate) fn line_too_long() -> ConnectError {
    ConnectError::NotADaemon(format!("a line is longer than {LINE_BYTES_MAX} bytes"))
}

/// Room for one read.
pub(crate) const READ_BYTES: usize = 64 << 10;
/// The longest line that is taken; no daemon writes one that long.
pub(crate) const LINE_BYTES_MAX: usize = 64 << 20;
