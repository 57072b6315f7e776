//! What passes between the loop and NATS: two queues, each bounded in bytes. Both sides are tasks
//! of one thread, and each wakes the other.

use mainspring_uplink::Command;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

/// Bytes that wait for NATS. Beyond: requests for other nodes are refused (503, not started).
pub(super) const OUT_BYTES_SOFT: usize = 8 << 20;
/// Beyond this, what waits for NATS is dropped, and counted: whoever waits for it finds out by
/// silence.
const OUT_BYTES_MAX: usize = 32 << 20;
/// Bytes from NATS that wait for the loop. Beyond: what comes is dropped, and counted.
const IN_BYTES_MAX: usize = 64 << 20;
/// What a message counts for besides its bytes.
const MESSAGE_BYTES: usize = 128;

/// Something that came from the network.
#[derive(Debug)]
pub(super) enum Arrival {
    /// There is a connection, which carries so many bytes in one message.
    Connected(usize),
    /// There is none any more.
    Disconnected,
    /// The server refused something, or what is said about it.
    Problem(String),
    /// A message.
    Message { subject: String, message: Vec<u8> },
}

#[derive(Default)]
struct Outbound {
    commands: VecDeque<Command>,
    bytes: usize,
    is_closing: bool,
    /// Publishes that were taken, in all.
    taken: u64,
    dropped: u64,
}

#[derive(Default)]
struct Inbound {
    arrivals: VecDeque<Arrival>,
    bytes: usize,
    dropped: u64,
}

/// The task that waits at one end of a queue.
#[derive(Default)]
struct Waiting(Cell<Option<Waker>>);

impl Waiting {
    fn wait(&self, context: &Context<'_>) {
        self.0.set(Some(context.waker().clone()));
    }

    fn wake(&self) {
        if let Some(waker) = self.0.take() {
            waker.wake();
        }
    }
}

/// Both queues.
#[derive(Default)]
pub(super) struct Queues {
    outbound: RefCell<Outbound>,
    inbound: RefCell<Inbound>,
    speaker: Waiting,
    the_loop: Waiting,
    is_connected: Cell<bool>,
    /// Subjects that are listened to, each with whether as one of a group.
    pub(super) subjects: RefCell<BTreeMap<String, bool>>,
}

fn bytes_of(command: &Command) -> usize {
    match command {
        Command::Publish { subject, reply, message, .. } => {
            MESSAGE_BYTES + subject.len() + reply.as_ref().map_or(0, String::len) + message.len()
        }
        Command::Subscribe { subject, .. } | Command::Unsubscribe { subject } => subject.len(),
    }
}

fn bytes_of_arrival(arrival: &Arrival) -> usize {
    match arrival {
        Arrival::Message { subject, message } => MESSAGE_BYTES + subject.len() + message.len(),
        Arrival::Connected(_) | Arrival::Disconnected | Arrival::Problem(_) => 0,
    }
}

/// How it is with the queues.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Levels {
    /// Publishes that were taken or dropped, in all.
    pub(super) left: u64,
    pub(super) bytes_out: usize,
    pub(super) dropped_out: u64,
    pub(super) dropped_in: u64,
}

impl Queues {
    /// Gives commands to NATS. Returns how many bytes wait then.
    pub(super) fn send(&self, commands: &mut Vec<Command>) -> usize {
        let mut outbound = self.outbound.borrow_mut();
        for command in commands.drain(..) {
            let bytes = bytes_of(&command);
            if matches!(command, Command::Publish { .. }) && outbound.bytes + bytes > OUT_BYTES_MAX {
                outbound.dropped += 1;
                outbound.taken += 1;
                continue;
            }
            outbound.bytes += bytes;
            outbound.commands.push_back(command);
        }
        self.speaker.wake();
        outbound.bytes
    }

    /// The next command, once there is one; none when there will be no more.
    pub(super) async fn next_command(&self) -> Option<Command> {
        poll_fn(|context| {
            let mut outbound = self.outbound.borrow_mut();
            let command = outbound.commands.pop_front();
            match &command {
                Some(command) => {
                    outbound.bytes -= bytes_of(command);
                    outbound.taken += u64::from(matches!(command, Command::Publish { .. }));
                }
                None if outbound.is_closing => {}
                None => {
                    self.speaker.wait(context);
                    return Poll::Pending;
                }
            }
            Poll::Ready(command)
        })
        .await
    }

    /// There will be no more commands.
    pub(super) fn close(&self) {
        self.outbound.borrow_mut().is_closing = true;
        self.speaker.wake();
    }

    /// Gives something to the loop.
    pub(super) fn arrive(&self, arrival: Arrival) {
        match arrival {
            Arrival::Connected(_) => self.is_connected.set(true),
            Arrival::Disconnected => self.is_connected.set(false),
            Arrival::Message { .. } | Arrival::Problem(_) => {}
        }
        let mut inbound = self.inbound.borrow_mut();
        let bytes = bytes_of_arrival(&arrival);
        if bytes > 0 && inbound.bytes + bytes > IN_BYTES_MAX {
            inbound.dropped += 1;
            return;
        }
        inbound.bytes += bytes;
        inbound.arrivals.push_back(arrival);
        self.the_loop.wake();
    }

    /// Whether there is a connection, as far as is known here.
    pub(super) fn is_connected(&self) -> bool {
        self.is_connected.get()
    }

    /// Takes the next thing that came.
    pub(super) fn next_arrival(&self) -> Option<Arrival> {
        let mut inbound = self.inbound.borrow_mut();
        let arrival = inbound.arrivals.pop_front()?;
        inbound.bytes -= bytes_of_arrival(&arrival);
        Some(arrival)
    }

    /// Whether something came that was not taken.
    pub(super) fn has_arrivals(&self) -> bool {
        !self.inbound.borrow().arrivals.is_empty()
    }

    /// Ready when something came; else the loop is woken when it does.
    pub(super) fn poll_arrivals(&self, context: &Context<'_>) -> Poll<()> {
        if self.has_arrivals() {
            return Poll::Ready(());
        }
        self.the_loop.wait(context);
        Poll::Pending
    }

    pub(super) fn levels(&self) -> Levels {
        let outbound = self.outbound.borrow();
        Levels {
            left: outbound.taken,
            bytes_out: outbound.bytes,
            dropped_out: outbound.dropped,
            dropped_in: self.inbound.borrow().dropped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poll_once<T>(future: impl Future<Output = T>) -> Poll<T> {
        std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    fn publish(bytes: usize) -> Command {
        Command::Publish { subject: "s".into(), reply: None, message: vec![0; bytes], written: Vec::new() }
    }

    #[test]
    fn n8_1_what_waits_is_bounded_in_bytes_both_ways_and_what_is_dropped_is_counted() {
        let queues = Queues::default();
        let mut commands: Vec<Command> = (0..100).map(|_| publish(1 << 20)).collect();
        commands.push(Command::Subscribe { subject: "s".into(), is_group: false });
        assert!(queues.send(&mut commands) <= OUT_BYTES_MAX);
        let levels = queues.levels();
        assert!(levels.dropped_out >= 100 - 32 && levels.left == levels.dropped_out, "{levels:?}");
        let mut taken = 0;
        while let Poll::Ready(command) = poll_once(queues.next_command()) {
            taken += usize::from(matches!(command, Some(Command::Publish { .. })));
        }
        assert_eq!(taken as u64 + levels.dropped_out, 100);
        assert_eq!(queues.levels().bytes_out, 0);
        for _ in 0..100 {
            queues.arrive(Arrival::Message { subject: String::new(), message: vec![0; 1 << 20] });
        }
        let arrivals = std::iter::from_fn(|| queues.next_arrival()).count();
        assert!((1..=64).contains(&arrivals), "{arrivals}");
        assert_eq!(arrivals as u64 + queues.levels().dropped_in, 100);
        queues.close();
        assert!(matches!(poll_once(queues.next_command()), Poll::Ready(None)));
    }
}
