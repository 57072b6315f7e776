//! The two protocols on plain sockets: how a request is written, and whose reply this is.

use std::io::Write as _;

/// Keys that are set, in turn.
const KEYS: u64 = 1000;
/// Makes a value some 32 bytes long. Connection and number in it are others each time, so that
/// every request changes something: connections keep in step, and with the number alone the first
/// of them would do the work of all.
const FILLING: &str = "0123456789abcdef";

/// A way to ask.
pub(crate) trait Wire {
    /// Writes request `number` of `connection`, which has `slot` to itself until it is answered.
    fn write(&self, connection: usize, slot: usize, number: u64, into: &mut Vec<u8>);

    /// The slot that a reply (without its end of line) is for; nothing means the oldest request
    /// under way.
    fn slot(&self, reply: &[u8]) -> Result<Option<usize>, String>;
}

/// The protocol of that name: `memory`, `echo` (the same to a capability of ours), `ping` or
/// `redis`.
pub(crate) fn of(protocol: &str) -> Result<Box<dyn Wire>, String> {
    match protocol {
        "memory" => Ok(Box::new(Lines::new("Memory.Set", "\"causation\":\""))),
        "capability" => Ok(Box::new(Lines::new("Bench.Set", "\"causation\":\""))),
        // A bare echo comes back as it went.
        "echo" => Ok(Box::new(Lines::new("Memory.Set", "\"id\":\""))),
        "ping" => Ok(Box::new(Ping(std::process::id()))),
        "redis" => Ok(Box::new(Redis)),
        other => Err(format!("no protocol {other}")),
    }
}

/// Mainspring's messages.
struct Lines {
    type_name: &'static str,
    /// What stands before the request's id in its reply.
    marker: &'static str,
    /// Ids must differ from those of any other run within the daemon's window.
    run: u32,
}

impl Lines {
    fn new(type_name: &'static str, marker: &'static str) -> Lines {
        Lines { type_name, marker, run: std::process::id() }
    }
}

impl Wire for Lines {
    fn write(&self, connection: usize, slot: usize, number: u64, into: &mut Vec<u8>) {
        let (type_name, run, key) = (self.type_name, self.run, number % KEYS);
        // A vector takes everything.
        let _ = writeln!(
            into,
            r#"{{"kind":"command","type":"{type_name}","data":{{"key":"key-{key}","value":"{FILLING}{connection}-{number}"}},"metadata":{{"id":"{slot}-{run}-{connection}-{number}","timestamp":1767910000000}}}}"#
        );
    }

    fn slot(&self, reply: &[u8]) -> Result<Option<usize>, String> {
        let shown = || String::from_utf8_lossy(reply).into_owned();
        if reply.starts_with(br#"{"kind":"error""#) {
            return Err(format!("a request failed: {}", shown()));
        }
        let at = memchr::memmem::find(reply, self.marker.as_bytes());
        let digits = at.map(|at| &reply[at + self.marker.len()..]).unwrap_or_default();
        let length = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let slot = digits[..length]
            .iter()
            .fold(0usize, |slot, digit| slot.wrapping_mul(10).wrapping_add(usize::from(digit - b'0')));
        if length == 0 { Err(format!("not a reply: {}", shown())) } else { Ok(Some(slot)) }
    }
}

/// `Syscall.Ping`, which waits for no disk, answered in order.
struct Ping(u32);

impl Wire for Ping {
    fn write(&self, connection: usize, _slot: usize, number: u64, into: &mut Vec<u8>) {
        let run = self.0;
        let _ = writeln!(
            into,
            r#"{{"kind":"query","type":"Syscall.Ping","data":{{}},"metadata":{{"id":"p-{run}-{connection}-{number}","timestamp":1767910000000}}}}"#
        );
    }

    fn slot(&self, reply: &[u8]) -> Result<Option<usize>, String> {
        if reply.starts_with(br#"{"kind":"reply""#) {
            return Ok(None);
        }
        Err(format!("a request failed: {}", String::from_utf8_lossy(reply)))
    }
}

/// `SET key value`, answered in order.
struct Redis;

impl Wire for Redis {
    fn write(&self, connection: usize, _slot: usize, number: u64, into: &mut Vec<u8>) {
        let (key, value) = (format!("key-{}", number % KEYS), format!("{FILLING}{connection}-{number}"));
        let (key_bytes, value_bytes) = (key.len(), value.len());
        let _ = write!(into, "*3\r\n$3\r\nSET\r\n${key_bytes}\r\n{key}\r\n${value_bytes}\r\n{value}\r\n");
    }

    fn slot(&self, reply: &[u8]) -> Result<Option<usize>, String> {
        if reply == b"+OK\r" {
            return Ok(None);
        }
        Err(format!("a request failed: {}", String::from_utf8_lossy(reply)))
    }
}
