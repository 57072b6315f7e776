//! The load generator: so many connections, kept alive, each with one request at a time; all in one
//! thread with epoll.

use crate::subjects::TOKEN;
use bench_support::{monotonic_ns, process_cpu_ns, stay_on_one_core};
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

/// Keys that are set, in turn.
const KEYS: u64 = 1000;
/// Makes a value some 20 bytes long, another for each request.
const FILLING: &str = "0123456789abcdef";
/// The part of the duration, at its start, whose requests do not count.
const WARM_UP_PART: u64 = 5;
/// How long the last answers may take.
const DRAIN_NS: u64 = 10_000_000_000;
const READ_BYTES: usize = 16 << 10;

struct Connection {
    stream: TcpStream,
    input: Vec<u8>,
    sent_ns: Option<u64>,
    number: u64,
}

pub(crate) fn run(words: &[String]) -> Result<(), String> {
    let [address, connections, duration_ms] = words else {
        return Err("load needs: ADDRESS CONNECTIONS MILLISECONDS".into());
    };
    let number = |text: &String| text.parse::<u64>().map_err(|_| format!("{text} is no number"));
    let (connections, duration_ms) = (number(connections)?, number(duration_ms)?);
    stay_on_one_core();
    let (start_ns, start_cpu_ns) = (monotonic_ns(), process_cpu_ns());
    let mut generator =
        Generator::new(address, connections, duration_ms).map_err(|error| error.to_string())?;
    generator.run().map_err(|error| error.to_string())?;
    let busy = (process_cpu_ns() - start_cpu_ns) as f64 / (monotonic_ns() - start_ns) as f64;
    generator.print(busy)
}

struct Generator {
    epoll: OwnedFd,
    connections: Vec<Connection>,
    scratch: Vec<u8>,
    latencies_ns: Vec<u64>,
    answered: u64,
    counts_from_ns: u64,
    ends_ns: u64,
}

impl Generator {
    fn new(address: &str, count: u64, duration_ms: u64) -> io::Result<Generator> {
        // SAFETY: a call without pointers; the result is checked before it is owned.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if epoll < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a fresh descriptor that nobody else owns.
        let epoll = unsafe { OwnedFd::from_raw_fd(epoll) };
        let mut connections = Vec::new();
        for at in 0..count {
            let stream = TcpStream::connect(address)?;
            stream.set_nodelay(true)?;
            stream.set_nonblocking(true)?;
            let mut event = libc::epoll_event { events: (libc::EPOLLIN | libc::EPOLLET) as u32, u64: at };
            // SAFETY: both descriptors are open, and `event` outlives the call.
            let added = unsafe {
                libc::epoll_ctl(epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, stream.as_raw_fd(), &raw mut event)
            };
            if added != 0 {
                return Err(io::Error::last_os_error());
            }
            connections.push(Connection { stream, input: Vec::new(), sent_ns: None, number: 0 });
        }
        let (now_ns, length_ns) = (monotonic_ns(), duration_ms * 1_000_000);
        Ok(Generator {
            epoll,
            connections,
            scratch: vec![0; READ_BYTES],
            latencies_ns: Vec::new(),
            answered: 0,
            counts_from_ns: now_ns + length_ns / WARM_UP_PART,
            ends_ns: now_ns + length_ns,
        })
    }

    fn run(&mut self) -> io::Result<()> {
        for at in 0..self.connections.len() {
            self.send(at)?;
        }
        loop {
            let now_ns = monotonic_ns();
            if now_ns >= self.ends_ns && self.connections.iter().all(|it| it.sent_ns.is_none()) {
                return Ok(());
            }
            if now_ns > self.ends_ns + DRAIN_NS {
                return Err(io::Error::other("the last requests were not answered"));
            }
            for at in self.wait()? {
                if self.receive(at)? {
                    self.send(at)?;
                }
            }
        }
    }

    fn wait(&self) -> io::Result<Vec<usize>> {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
        // SAFETY: the array has as many places as the call is told, and outlives it.
        let count = unsafe { libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), 64, 100) };
        match count {
            ..0 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => Ok(Vec::new()),
            ..0 => Err(io::Error::last_os_error()),
            count => Ok(events[..count as usize].iter().map(|event| event.u64 as usize).collect()),
        }
    }

    /// Reads what there is; true if an answer is complete.
    fn receive(&mut self, at: usize) -> io::Result<bool> {
        let it = &mut self.connections[at];
        loop {
            match it.stream.read(&mut self.scratch) {
                Ok(0) => return Err(io::Error::other("the server closed a connection")),
                Ok(count) => {
                    it.input.extend_from_slice(&self.scratch[..count]);
                    if count < READ_BYTES {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        if !is_complete(&it.input)? {
            return Ok(false);
        }
        it.input.clear();
        let now_ns = monotonic_ns();
        let sent_ns = it.sent_ns.take().ok_or_else(|| io::Error::other("an answer to nothing"))?;
        self.answered += 1;
        if sent_ns >= self.counts_from_ns && now_ns <= self.ends_ns {
            self.latencies_ns.push(now_ns - sent_ns);
        }
        Ok(true)
    }

    fn send(&mut self, at: usize) -> io::Result<()> {
        let now_ns = monotonic_ns();
        if now_ns >= self.ends_ns {
            return Ok(());
        }
        let it = &mut self.connections[at];
        let (key, number) = (it.number % KEYS, it.number);
        let body = format!("{{\"key\":\"key-{key}\",\"value\":\"{FILLING}{at}-{number}\"}}");
        let request = format!(
            "POST /v1/commands/Memory.Set HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        it.number += 1;
        it.sent_ns = Some(now_ns);
        // One request is far shorter than the buffer of a socket.
        it.stream.write_all(request.as_bytes())
    }

    fn print(&mut self, busy: f64) -> Result<(), String> {
        let latencies = &mut self.latencies_ns;
        if latencies.is_empty() {
            return Err("no request was answered in time to count".into());
        }
        latencies.sort_unstable();
        let at = |part: f64| latencies[((latencies.len() - 1) as f64 * part) as usize] as f64 / 1_000.0;
        println!("p50 us {:.2}", at(0.5));
        println!("p99 us {:.2}", at(0.99));
        let counted_ns = self.ends_ns - self.counts_from_ns;
        println!("requests_per_s 1/s {:.0}", latencies.len() as f64 * 1e9 / counted_ns as f64);
        println!("generator_busy % {:.0}", busy * 100.0);
        println!("requests count {}", self.answered);
        Ok(())
    }
}

/// Whether the answer has come whole; an answer that is no success is an error.
fn is_complete(input: &[u8]) -> io::Result<bool> {
    let Some(head) = memchr::memmem::find(input, b"\r\n\r\n") else { return Ok(false) };
    if !input.starts_with(b"HTTP/1.1 200") {
        return Err(io::Error::other(format!("a request failed: {}", String::from_utf8_lossy(input))));
    }
    let text = std::str::from_utf8(&input[..head]).map_err(io::Error::other)?;
    let length = text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let length = length.ok_or_else(|| io::Error::other("an answer without its length"))?;
    Ok(input.len() >= head + 4 + length)
}
