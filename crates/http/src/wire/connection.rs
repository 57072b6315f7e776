//! One connection: hyper does HTTP, one timer holds every limit of time.

use crate::access::LastToken;
use crate::answers;
use crate::bus::Peer;
use crate::bus::exchange::Exchange;
use crate::problem::Problem;
use crate::server::{Place, Shared};
use crate::wire::stream::{Abort, Stall, Stream};
use hyper::HeaderMap;
use hyper::rt::{Read, ReadBuf, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use mainspring_reactor::{Instant, Sleep};
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Bytes that are read and thrown away after the last answer, and for how long.
const LINGER_BYTES_MAX: usize = 256 << 10;
const LINGER_TIME_MAX: Duration = Duration::from_secs(1);

/// What the requests of one connection share.
pub(crate) struct Connection {
    place: Place,
    stall: Rc<Stall>,
    phase: Cell<Phase>,
    exchange: RefCell<Option<Rc<Exchange>>>,
    last_token: LastToken,
}

/// What the connection waits for.
#[derive(Clone, Copy)]
enum Phase {
    /// The head of a request; whether there was one before.
    Head { since: Instant, used: bool },
    /// A request is being answered: its own limits hold.
    Answer,
}

impl Connection {
    pub(crate) fn shared(&self) -> &Shared {
        &self.place.shared
    }

    /// Whose request this is.
    pub(crate) fn admit(&self, headers: &HeaderMap) -> Result<Peer, Problem> {
        let options = &self.place.shared.options;
        options.access.admit(headers, &self.last_token, options.sessions.as_deref())
    }

    /// The connection has shown who it is.
    pub(crate) fn is_known(&self) {
        self.place.is_known();
    }

    /// The connection on the bus for this peer: one for all requests of a connection, because
    /// nearly all have one token.
    pub(crate) fn exchange(&self, peer: &Peer) -> Option<Rc<Exchange>> {
        let mut current = self.exchange.borrow_mut();
        if let Some(exchange) = &*current
            && exchange.peer() == peer
            && !exchange.is_closed()
        {
            return Some(Rc::clone(exchange));
        }
        *current = Exchange::open(&self.place.shared.bus, peer);
        current.clone()
    }

    /// When the connection is to be closed if nothing changes.
    fn deadline(&self) -> Option<Instant> {
        let limits = &self.place.shared.options.limits;
        let add = |since: Instant, limit: Duration| since.checked_add(limit);
        let head = match self.phase.get() {
            Phase::Head { since, used: false } => add(since, limits.head_time_max),
            Phase::Head { since, used: true } => add(since, limits.idle_time_max),
            Phase::Answer => None,
        };
        let stall = self.stall.since().and_then(|since| add(since, limits.stall_time_max));
        head.into_iter().chain(stall).min()
    }
}

/// While this is there, a request is being answered.
pub(crate) struct Answering {
    connection: Rc<Connection>,
}

impl Drop for Answering {
    fn drop(&mut self) {
        let since = self.connection.place.shared.reactor.now();
        self.connection.phase.set(Phase::Head { since, used: true });
    }
}

/// The task that serves a socket.
pub(crate) fn serve(place: Place, socket: OwnedFd) -> io::Result<impl Future<Output = ()> + 'static> {
    let stall = Rc::<Stall>::default();
    let shared = Rc::clone(&place.shared);
    let stream = Stream::new(&shared.reactor, socket, Rc::clone(&stall))?;
    let phase = Cell::new(Phase::Head { since: shared.reactor.now(), used: false });
    let connection = Rc::new(Connection {
        place,
        stall,
        phase,
        exchange: RefCell::new(None),
        last_token: LastToken::default(),
    });
    Ok(async move {
        match &shared.options.tls {
            None => run(connection, stream).await,
            Some(tls) => {
                // If it fails there is nobody to tell: no byte was sent yet.
                if let Ok(stream) = tls.accept(stream) {
                    run(connection, stream).await;
                }
            }
        }
    })
}

async fn run<S: Read + Write + Abort + Unpin + 'static>(connection: Rc<Connection>, stream: S) {
    let limits = &connection.place.shared.options.limits;
    let served = Rc::clone(&connection);
    let service = service_fn(move |request| {
        served.phase.set(Phase::Answer);
        let answering = Answering { connection: Rc::clone(&served) };
        let connection = Rc::clone(&served);
        async move {
            let mut response = answers::answer(&connection, request).await;
            response.body_mut().hold(answering);
            Ok::<_, Infallible>(response)
        }
    });
    let mut http = http1::Builder::new()
        .max_buf_size(limits.head_bytes_max.max(8 << 10))
        .max_headers(limits.headers_max)
        .serve_connection(stream, service);
    let mut alarm = Alarm::default();
    let mut told_to_stop = false;
    let end = poll_fn(|context| {
        let control = &connection.place.control;
        control.set_waker(context.waker());
        if control.evicted.get() {
            return Poll::Ready(End::Aborted);
        }
        if control.stopping.get() && !std::mem::replace(&mut told_to_stop, true) {
            Pin::new(&mut http).graceful_shutdown();
        }
        // Errors of a connection are its client's: gone, slow or not speaking HTTP. hyper has
        // answered what can be answered.
        if Pin::new(&mut http).poll(context).is_ready() {
            return Poll::Ready(End::Finished);
        }
        alarm.poll(&connection, context).map(|()| End::Aborted)
    })
    .await;
    let stream = http.into_parts().io;
    match end {
        End::Finished => linger(&connection.place.shared, stream).await,
        End::Aborted => stream.abort(),
    }
}

/// How a connection ends.
enum End {
    /// By its last answer, or by its client.
    Finished,
    /// It took too long, or made room for others.
    Aborted,
}

/// Reads what the client is still sending, and throws it away, for a moment: a socket that is
/// closed with unread bytes in it is reset, and the answer that says why may never be seen.
async fn linger<S: Read + Unpin>(shared: &Shared, mut stream: S) {
    let drained = async {
        let mut bytes = [MaybeUninit::uninit(); 4096];
        let mut left = LINGER_BYTES_MAX;
        while left > 0 {
            let mut buffer = ReadBuf::uninit(&mut bytes);
            let read = poll_fn(|context| Pin::new(&mut stream).poll_read(context, buffer.unfilled())).await;
            match buffer.filled().len() {
                0 => return,
                _ if read.is_err() => return,
                count => left = left.saturating_sub(count),
            }
        }
    };
    let _ = shared.reactor.timeout(LINGER_TIME_MAX, drained).await;
}

/// The one timer of a connection. It is only ever moved to earlier: when it rings too early it is
/// set anew, which costs less than touching it with every request.
#[derive(Default)]
struct Alarm {
    ringing: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl Alarm {
    /// Ready when a limit of time has passed.
    fn poll(&mut self, connection: &Connection, context: &mut Context<'_>) -> Poll<()> {
        let reactor = &connection.place.shared.reactor;
        loop {
            let Some(deadline) = connection.deadline() else { return Poll::Pending };
            match &mut self.ringing {
                Some((at, sleep)) if *at <= deadline => {
                    if sleep.as_mut().poll(context).is_pending() {
                        return Poll::Pending;
                    }
                    if *at == deadline || reactor.now() >= deadline {
                        return Poll::Ready(());
                    }
                    self.ringing = None;
                }
                _ => self.ringing = Some((deadline, Box::pin(reactor.sleep_until(deadline)))),
            }
        }
    }
}
