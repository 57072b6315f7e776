//! What passes between the loop and the thread that speaks with NATS: two queues, each bounded in
//! bytes.

use mainspring_uplink::Command;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

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
pub(super) struct Outbound {
    pub(super) commands: VecDeque<Command>,
    bytes: usize,
    pub(super) is_closing: bool,
    /// Publishes that the thread has taken, in all.
    taken: u64,
    dropped: u64,
}

#[derive(Default)]
struct Inbound {
    arrivals: Vec<Arrival>,
    bytes: usize,
    dropped: u64,
}

/// Both queues.
#[derive(Default)]
pub(super) struct Queues {
    outbound: Mutex<Outbound>,
    inbound: Mutex<Inbound>,
}

fn bytes_of(command: &Command) -> usize {
    match command {
        Command::Publish { subject, reply, message, .. } => {
            MESSAGE_BYTES + subject.len() + reply.as_ref().map_or(0, String::len) + message.len()
        }
        Command::Subscribe { subject, .. } | Command::Unsubscribe { subject } => subject.len(),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
    /// Hands commands to the thread. Gives how much waits then.
    pub(super) fn send(&self, commands: &mut Vec<Command>) -> usize {
        let mut outbound = lock(&self.outbound);
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
        outbound.bytes
    }

    /// Takes the next command; whether the thread is to end once there is none.
    pub(super) fn next(&self) -> (Option<Command>, bool) {
        let mut outbound = lock(&self.outbound);
        let command = outbound.commands.pop_front();
        if let Some(command) = &command {
            outbound.bytes -= bytes_of(command);
            outbound.taken += u64::from(matches!(command, Command::Publish { .. }));
        }
        (command, outbound.is_closing)
    }

    pub(super) fn close(&self) {
        lock(&self.outbound).is_closing = true;
    }

    /// Gives something to the loop; whether it is to be woken for it.
    pub(super) fn arrive(&self, arrival: Arrival) -> bool {
        let mut inbound = lock(&self.inbound);
        if let Arrival::Message { subject, message } = &arrival {
            let bytes = MESSAGE_BYTES + subject.len() + message.len();
            if inbound.bytes + bytes > IN_BYTES_MAX {
                inbound.dropped += 1;
                return false;
            }
            inbound.bytes += bytes;
        }
        inbound.arrivals.push(arrival);
        inbound.arrivals.len() == 1
    }

    /// Takes all that came, in order.
    pub(super) fn take(&self, into: &mut Vec<Arrival>) {
        let mut inbound = lock(&self.inbound);
        inbound.bytes = 0;
        std::mem::swap(&mut inbound.arrivals, into);
    }

    pub(super) fn levels(&self) -> Levels {
        let (left, bytes_out, dropped_out) = {
            let outbound = lock(&self.outbound);
            (outbound.taken, outbound.bytes, outbound.dropped)
        };
        Levels { left, bytes_out, dropped_out, dropped_in: lock(&self.inbound).dropped }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        while let (Some(command), false) = queues.next() {
            taken += usize::from(matches!(command, Command::Publish { .. }));
        }
        assert_eq!(taken as u64 + levels.dropped_out, 100);
        assert_eq!(queues.levels().bytes_out, 0);
        for _ in 0..100 {
            queues.arrive(Arrival::Message { subject: String::new(), message: vec![0; 1 << 20] });
        }
        let mut arrivals = Vec::new();
        queues.take(&mut arrivals);
        assert!(arrivals.len() <= 64, "{}", arrivals.len());
        assert_eq!(arrivals.len() as u64 + queues.levels().dropped_in, 100);
        assert!(queues.arrive(Arrival::Disconnected), "the first one wakes the loop");
        assert!(!queues.arrive(Arrival::Disconnected));
    }
}
