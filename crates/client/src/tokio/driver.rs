//! The task behind a client on tokio: the only one that reads and writes the socket.

use crate::address::Address;
use crate::connect::{ADMISSION, BACKOFF, Stream};
use crate::error::ConnectError;
use crate::shared::{
    Bell, LINE_BYTES_MAX, Next, READ_BYTES, Shared, connection_ended, hung_up, line_too_long, not_let_in,
};
use mainspring_message::lines::{Line, LineBuffer};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Notify;
use tokio::time::{sleep, sleep_until};

/// Wakes the task. One ring is kept for a task that is not waiting yet.
#[derive(Clone, Debug, Default)]
pub(super) struct NotifyBell(Arc<Notify>);

impl Bell for NotifyBell {
    fn ring(&self) {
        self.0.notify_one();
    }
}

/// Serves a client until it is closed.
pub(super) struct Driver {
    pub(super) shared: Arc<Shared>,
    pub(super) bell: NotifyBell,
    pub(super) address: Address,
    /// How long to try to connect again.
    pub(super) reconnect: Duration,
}

impl Driver {
    pub(super) async fn run(self, first: Stream) {
        let mut stream = first;
        loop {
            let ended = match Socket::new(stream) {
                Ok(socket) => Connection::new(&self, socket).serve().await,
                Err(error) => Some(ConnectError::System(format!("the socket cannot be used: {error}"))),
            };
            let Next::Reconnect(within) = connection_ended(&self.shared, ended, self.reconnect) else {
                return;
            };
            stream = match self.connect_again(within).await {
                Some(stream) => stream,
                None => return,
            };
        }
    }

    /// A new connection, when there is need for one. `None`: the client was closed.
    async fn connect_again(&self, within: Duration) -> Option<Stream> {
        let mut attempt: Option<(Instant, Duration)> = None;
        loop {
            let (is_needed, deadline) = {
                let mut core = self.shared.core();
                if core.is_closed() {
                    return None;
                }
                core.tick(Instant::now());
                (core.needs_connection(), core.next_deadline())
            };
            if !is_needed {
                attempt = None;
                self.bell.0.notified().await;
                continue;
            }
            let (until, pause) = *attempt.get_or_insert((Instant::now() + within, BACKOFF.0));
            // The sockets are of this machine: a connection is made or refused at once.
            let error = match Stream::open(&self.address) {
                Ok(stream) => return Some(stream),
                Err(error) => error,
            };
            if error.is_final() || Instant::now() + pause > until {
                self.shared.core().give_up(&error);
                attempt = None;
                continue;
            }
            attempt = Some((until, (pause * 2).min(BACKOFF.1)));
            let left = deadline.map_or(pause, |at| at.saturating_duration_since(Instant::now()).min(pause));
            sleep(left).await;
        }
    }
}

/// The socket in tokio's hands.
enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Socket {
    fn new(stream: Stream) -> io::Result<Socket> {
        match stream {
            Stream::Unix(socket) => UnixStream::from_std(socket).map(Socket::Unix),
            Stream::Tcp(socket) => TcpStream::from_std(socket).map(Socket::Tcp),
        }
    }

    async fn ready(&self, interest: Interest) -> io::Result<()> {
        match self {
            Socket::Unix(socket) => socket.ready(interest).await.map(drop),
            Socket::Tcp(socket) => socket.ready(interest).await.map(drop),
        }
    }

    fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(socket) => socket.try_read(buffer),
            Socket::Tcp(socket) => socket.try_read(buffer),
        }
    }

    fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Socket::Unix(socket) => socket.try_write(bytes),
            Socket::Tcp(socket) => socket.try_write(bytes),
        }
    }
}

/// One connection, from its first line to its last.
struct Connection<'a> {
    driver: &'a Driver,
    socket: Socket,
    lines: LineBuffer,
    unsent: Vec<u8>,
    sent: usize,
    /// The daemon does not read any more; it may have said why.
    is_deaf: bool,
    admission: Instant,
}

impl<'a> Connection<'a> {
    fn new(driver: &'a Driver, socket: Socket) -> Connection<'a> {
        driver.shared.core().opened();
        Connection {
            driver,
            socket,
            lines: LineBuffer::new(READ_BYTES, LINE_BYTES_MAX),
            unsent: Vec::new(),
            sent: 0,
            is_deaf: false,
            admission: Instant::now() + ADMISSION,
        }
    }

    /// Reads and writes until the connection ends; says why, if there is more to say than that.
    async fn serve(mut self) -> Option<ConnectError> {
        loop {
            let deadline = {
                let mut core = self.driver.shared.core();
                if core.is_closed() {
                    return None;
                }
                if self.unsent.is_empty() {
                    self.unsent = core.take_output();
                }
                let next = core.next_deadline();
                if core.is_open() {
                    next
                } else {
                    Some(next.map_or(self.admission, |at| at.min(self.admission)))
                }
            };
            self.write();
            self.wait(deadline).await;
            match self.read() {
                Ok(true) => {}
                Ok(false) => {
                    let is_open = self.driver.shared.core().is_open();
                    return (!is_open).then(|| hung_up(&self.driver.address));
                }
                Err(error) => return Some(error),
            }
            let now = Instant::now();
            let mut core = self.driver.shared.core();
            if !core.tick(now) {
                return Some(ConnectError::NoDaemon {
                    place: self.driver.address.to_string(),
                    reason: "the daemon does not answer a ping".to_owned(),
                });
            }
            if !core.is_open() && now >= self.admission {
                return Some(not_let_in(&self.driver.address));
            }
        }
    }

    async fn wait(&self, deadline: Option<Instant>) {
        let writes = !self.unsent.is_empty() && !self.is_deaf;
        let interest = if writes { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        let timer = async {
            match deadline {
                Some(at) => sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.socket.ready(interest) => {}
            () = self.driver.bell.0.notified() => {}
            () = timer => {}
        }
    }

    fn write(&mut self) {
        while self.sent < self.unsent.len() && !self.is_deaf {
            match self.socket.try_write(&self.unsent[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The reader finds the end, and what the daemon said before it.
                Err(_) => self.is_deaf = true,
            }
        }
        self.unsent = Vec::new();
        self.sent = 0;
    }

    /// Reads what is there. False: the connection has ended.
    fn read(&mut self) -> Result<bool, ConnectError> {
        let count = match self.socket.try_read(self.lines.room()) {
            Ok(count) => count,
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {
                return Ok(true);
            }
            Err(_) => 0,
        };
        self.lines.filled(count);
        let mut core = self.driver.shared.core();
        while let Some(line) = self.lines.next_line() {
            match line {
                Line::Whole([]) => {}
                Line::Whole(line) => core.take_line(line)?,
                Line::TooLong => return Err(line_too_long()),
            }
        }
        Ok(count > 0)
    }
}
