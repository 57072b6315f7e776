//! The sockets of one guest: its calls, and its one wait over all of them.

use super::bindings::{PluginError, SocketInterest, SocketReadResult, SocketWriteResult};
use super::error;
use super::pace::{Clocks, Pace, Progress, SocketWait, Streak};
use super::socket::Socket;
use crate::capabilities::net_tcp::connect::{self, Target};
use crate::guest::context::GuestContext;
use crate::guest::stats::count;
use crate::handles::table::HandleEntry;
use crate::limits::meter::Reading;
use mainspring_reactor::Instant;
use mainspring_zcl::abi::ErrorCode;
use mainspring_zcl::cap::tcp_flags;
use mainspring_zcl::sys_loop::Readiness;
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// The most that one read returns.
const READ_BYTES_MAX: u64 = 64 * 1024;
/// How long one address may take to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The timeout that never comes.
const TIMEOUT_FOREVER: u32 = u32::MAX;

/// The sockets of one guest.
pub(crate) struct Sockets {
    guest: Rc<GuestContext>,
    open: RefCell<BTreeMap<u64, OpenSocket>>,
    /// Numbers are never used again: a guest that uses a closed one is told so.
    last: Cell<u64>,
    pace: Pace,
    /// Whether it was logged that a wait is impossible: the next one will be too, and a guest can
    /// try as often as it likes.
    told_of_failure: Cell<bool>,
}

struct OpenSocket {
    socket: Rc<Socket>,
    /// Its place among the guest's handles.
    number: i32,
}

/// What a wait has come to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum News {
    /// The socket is ready.
    Here,
    /// Another one of the guest's is.
    Elsewhere,
    /// None is: the deadline has come.
    None,
}

/// The readiness that an interest stands for.
pub(super) fn direction_of(interest: SocketInterest) -> Readiness {
    match interest {
        SocketInterest::Read => Readiness::READABLE,
        SocketInterest::Write => Readiness::WRITABLE,
    }
}

impl Sockets {
    pub(crate) fn new(guest: &Rc<GuestContext>, wait: SocketWait) -> Rc<Sockets> {
        Rc::new(Sockets {
            guest: guest.clone(),
            open: RefCell::default(),
            last: Cell::new(0),
            pace: Pace::new(wait),
            told_of_failure: Cell::new(false),
        })
    }

    fn get(&self, handle: u64) -> Result<Rc<Socket>, PluginError> {
        let open = self.open.borrow();
        open.get(&handle).map(|opened| opened.socket.clone()).ok_or_else(|| error::invalid_socket(handle))
    }

    /// `connect-tcp`.
    pub(super) async fn connect(&self, host: String, port: u16) -> Result<u64, PluginError> {
        let guest = &self.guest;
        let not_tried = |code: ErrorCode| error::not_tried(code, &host, port);
        guest.check_handle_room().map_err(not_tried)?;
        let target = Target::new(guest, host.clone(), port).map_err(not_tried)?;
        let addresses = target.addresses(guest).await.map_err(not_tried)?;
        let fd = self.first_to_answer(addresses).await?;
        let socket = Socket::new(guest, fd).map_err(|code| error::socket_config(&code))?;
        self.insert(Rc::new(socket)).map_err(not_tried)
    }

    /// Tries addresses in turn.
    async fn first_to_answer(&self, addresses: Vec<SocketAddr>) -> Result<OwnedFd, PluginError> {
        let reactor = &self.guest.reactor;
        let mut failed = error::connect_failed(&"the name has no address");
        for address in addresses {
            let attempt = connect::attempt(reactor, address, tcp_flags::NODELAY);
            match reactor.timeout(CONNECT_TIMEOUT, attempt).await {
                Ok(Ok(fd)) => return Ok(fd),
                Ok(Err(errno)) => {
                    failed = error::connect_failed(&format_args!("{address}: {}", reason(errno)))
                }
                Err(_) => {
                    let seconds = CONNECT_TIMEOUT.as_secs();
                    failed = error::connect_failed(&format_args!("{address}: no answer within {seconds} s"));
                }
            }
        }
        Err(failed)
    }

    fn insert(&self, socket: Rc<Socket>) -> Result<u64, ErrorCode> {
        let number = self.guest.insert(HandleEntry::Resource(socket.clone()))?;
        let handle = self.last.get() + 1;
        self.last.set(handle);
        self.open.borrow_mut().insert(handle, OpenSocket { socket, number: number as i32 });
        Ok(handle)
    }

    /// `socket-close`.
    pub(super) fn close(&self, handle: u64) {
        if let Some(opened) = self.open.borrow_mut().remove(&handle) {
            // The number was handed out for this socket alone, so it is open.
            let _ = self.guest.close(opened.number);
        }
    }

    /// `socket-read`.
    pub(super) async fn read(&self, handle: u64, length: u64) -> Result<SocketReadResult, PluginError> {
        let socket = self.get(handle)?;
        let length = length.clamp(1, READ_BYTES_MAX) as usize;
        let read = || socket.receive(&self.guest, length);
        match self.attempt_twice(&socket, Readiness::READABLE, &socket.reads, read).await {
            Ok(bytes) if bytes.is_empty() => Ok(SocketReadResult::Eof),
            Ok(bytes) => {
                count(&self.guest.counters.bytes_read, bytes.len() as u64);
                self.pace.moved(Progress::Read);
                Ok(SocketReadResult::Data(bytes))
            }
            Err(Errno::AGAIN) => {
                self.would_block();
                Ok(SocketReadResult::WouldBlock)
            }
            Err(errno) => Err(error::read_failed(&reason(errno))),
        }
    }

    /// `socket-write`.
    pub(super) async fn write(&self, handle: u64, bytes: &[u8]) -> Result<SocketWriteResult, PluginError> {
        let socket = self.get(handle)?;
        if bytes.is_empty() {
            return Ok(SocketWriteResult::Written(0));
        }
        let write = || socket.send(&self.guest, bytes);
        match self.attempt_twice(&socket, Readiness::WRITABLE, &socket.writes, write).await {
            Ok(written) => {
                count(&self.guest.counters.bytes_written, written as u64);
                self.pace.moved(Progress::Write);
                Ok(SocketWriteResult::Written(written as u64))
            }
            Err(Errno::AGAIN) => {
                self.would_block();
                Ok(SocketWriteResult::WouldBlock)
            }
            Err(errno) => Err(error::write_failed(&reason(errno))),
        }
    }

    /// `poll-socket`.
    pub(super) async fn poll(
        &self,
        handle: u64,
        interest: SocketInterest,
        timeout_ms: u32,
    ) -> Result<bool, PluginError> {
        let socket = self.get(handle)?;
        let direction = direction_of(interest);
        self.begin_to_park();
        count(&self.guest.counters.polls, 1);
        // A deadline beyond the clock's range never comes.
        let timeout = Duration::from_millis(timeout_ms.into());
        let deadline =
            self.guest.reactor.now().checked_add(timeout).filter(|_| timeout_ms != TIMEOUT_FOREVER);
        let ready = self.wait(&socket, direction, deadline).await == News::Here;
        if !ready {
            count(&self.guest.counters.empty_polls, 1);
        }
        Ok(ready)
    }

    /// The socket behind a pollable. Its guest waits by itself from now on.
    pub(super) fn subscribe(&self, handle: u64) -> Result<Rc<Socket>, PluginError> {
        self.begin_to_park();
        self.get(handle)
    }

    /// The guest waits by itself from now on. What it was sent to look at while its calls waited
    /// for it, it may have left alone.
    fn begin_to_park(&self) {
        if self.pace.parks() {
            self.open.borrow().values().for_each(|opened| opened.socket.forget_sent());
        }
    }

    /// Tries; if that would block, waits for as long as the pace says, and tries once more if that
    /// may help.
    async fn attempt_twice<T>(
        &self,
        socket: &Socket,
        direction: Readiness,
        streak: &Streak,
        mut attempt: impl FnMut() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let first = attempt();
        if !matches!(first, Err(Errno::AGAIN)) {
            return first;
        }
        let Some(wait) = self.pace.next_wait(self.clocks(), streak) else {
            // It is told to come back, so what it then waits for elsewhere must end by this. If
            // that is refused, the next wait says so.
            let _ = socket.watch(direction);
            return first;
        };
        let deadline = self.guest.reactor.now().checked_add(wait);
        match self.wait(socket, direction, deadline).await {
            News::Here => attempt(),
            News::Elsewhere => first,
            News::None => {
                self.pace.overslept();
                first
            }
        }
    }

    fn would_block(&self) {
        count(&self.guest.counters.agains, 1);
        self.pace.told(self.clocks());
    }

    fn clocks(&self) -> Clocks {
        // Each call that would block comes here, and a reading takes as long as such a call.
        let reading = Reading::now();
        Clocks { guest: self.guest.cpu_time_at(reading), thread: reading.cpu_time }
    }

    /// Suspends the guest until there is news of any of its sockets, or the deadline.
    async fn wait(&self, socket: &Socket, direction: Readiness, deadline: Option<Instant>) -> News {
        if let Err(code) = socket.watch(direction) {
            // The next call on the socket tells what is wrong with it.
            if !self.told_of_failure.replace(true) {
                tracing::warn!("cannot wait for a guest's sockets, so its calls do not: {code}");
            }
            return News::Here;
        }
        if !self.has_news() {
            self.until_news(deadline).await;
        }
        let news = match (socket.is_ready(direction), self.has_news()) {
            (true, _) => News::Here,
            (false, true) => News::Elsewhere,
            (false, false) => News::None,
        };
        // Whatever is new elsewhere is worth one look of the guest, not one at every call until it
        // has looked.
        self.open.borrow().values().for_each(|opened| opened.socket.send_guest());
        news
    }

    fn has_news(&self) -> bool {
        self.open.borrow().values().any(|opened| !opened.socket.news().is_empty())
    }

    async fn until_news(&self, deadline: Option<Instant>) {
        let guest = &self.guest;
        let mut alarm = pin!(deadline.map(|deadline| guest.reactor.sleep_until(deadline)));
        poll_fn(|context| {
            if self.has_news() {
                return Poll::Ready(());
            }
            self.open.borrow().values().for_each(|opened| opened.socket.wake(context.waker()));
            match alarm.as_mut().as_pin_mut() {
                // The alarm fails only if the reactor is gone; waiting on would be for ever.
                Some(alarm) => alarm.poll(context).map(drop),
                None => Poll::Pending,
            }
        })
        .await;
    }
}

/// What the system says about an error.
fn reason(errno: Errno) -> std::io::Error {
    errno.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::GuestConfig;
    use crate::guest::run::Run;
    use crate::host::HostConfig;
    use mainspring_reactor::Reactor;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Waker};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Level, Metadata};

    /// Counts warnings.
    struct Warnings(Arc<AtomicUsize>);

    impl tracing::Subscriber for Warnings {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            *metadata.level() == Level::WARN
        }

        fn new_span(&self, _span: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _span: &Id, _values: &Record<'_>) {}

        fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

        fn event(&self, _event: &Event<'_>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn enter(&self, _span: &Id) {}

        fn exit(&self, _span: &Id) {}
    }

    /// The sockets of a guest that never runs, with one that is connected to the returned
    /// descriptor.
    fn one_socket(reactor: &Reactor, wait: SocketWait) -> (Rc<Sockets>, OwnedFd) {
        let mut config = HostConfig::default();
        config.guests_max = 1;
        let host = config.build().unwrap();
        let mut sockets = None;
        let started = host.start(reactor, GuestConfig::new(), |context, _| {
            sockets = Some(Sockets::new(context, wait));
            let never = Box::pin(std::future::pending());
            Ok(Run::with_program(context, never))
        });
        started.unwrap();
        let sockets = sockets.unwrap();
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None).unwrap();
        let socket = Socket::new(&sockets.guest, ours).unwrap();
        assert_eq!(sockets.insert(Rc::new(socket)), Ok(1));
        (sockets, theirs)
    }

    #[test]
    fn a_socket_that_cannot_be_watched_is_not_waited_for_and_one_warning_says_so() {
        let reactor = Reactor::new().unwrap();
        let wait = SocketWait { spare_calls: 0, grace_calls: 0, ..SocketWait::default() };
        let (sockets, _theirs) = one_socket(&reactor, wait);
        // A reactor that is gone refuses to watch anything.
        drop(reactor);
        let warnings = Arc::new(AtomicUsize::new(0));
        tracing::subscriber::with_default(Warnings(warnings.clone()), || {
            let mut context = Context::from_waker(Waker::noop());
            let mut told = 0;
            while told < 3 {
                let mut write = pin!(sockets.write(1, &[0; 1 << 16]));
                match write.as_mut().poll(&mut context) {
                    Poll::Ready(Ok(SocketWriteResult::WouldBlock)) => told += 1,
                    Poll::Ready(Ok(SocketWriteResult::Written(_))) => {}
                    other => panic!("{:?}", other.map_err(|error| error.message)),
                }
            }
        });
        assert_eq!(warnings.load(Ordering::Relaxed), 1);
    }
}
