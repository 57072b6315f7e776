//! A proxy between a node and its nats-server that delays, doubles, reorders and swallows what the
//! server says.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// What it does to messages, of a hundred each.
#[derive(Default)]
pub(crate) struct Knobs {
    pub(crate) doubles: AtomicU64,
    pub(crate) swaps: AtomicU64,
    pub(crate) delay_ms: AtomicU64,
    /// Nothing passes, and nobody is told.
    pub(crate) is_cut: AtomicBool,
    seed: AtomicU64,
}

impl Knobs {
    fn percent(&self, of: &AtomicU64) -> bool {
        let seed = self.seed.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed >> 40) % 100 < of.load(Ordering::Relaxed)
    }

    fn wait_while_cut(&self) {
        while self.is_cut.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(20));
        }
        match self.delay_ms.load(Ordering::Relaxed) {
            0 => {}
            ms => std::thread::sleep(Duration::from_millis(ms)),
        }
    }
}

/// A proxy that runs until the test ends.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    pub(crate) knobs: Arc<Knobs>,
}

impl Proxy {
    pub(crate) fn to(server: u16) -> Proxy {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a listener");
        let port = listener.local_addr().expect("its address").port();
        let knobs = Arc::new(Knobs::default());
        let shared = Arc::clone(&knobs);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(("127.0.0.1", server)) else { continue };
                let (up, down) =
                    (client.try_clone().expect("a descriptor"), server.try_clone().expect("a descriptor"));
                let (of_up, of_down) = (Arc::clone(&shared), Arc::clone(&shared));
                std::thread::spawn(move || pass_up(up, down, &of_up));
                std::thread::spawn(move || pass_down(server, client, &of_down));
            }
        });
        Proxy { port, knobs }
    }

    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }
}

/// What the node says goes on as it is.
fn pass_up(mut from: TcpStream, mut to: TcpStream, knobs: &Knobs) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(count) = from.read(&mut buffer) {
        if count == 0 {
            break;
        }
        knobs.wait_while_cut();
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// What the server says goes on message by message.
fn pass_down(from: TcpStream, mut to: TcpStream, knobs: &Knobs) {
    let mut reader = BufReader::with_capacity(64 << 10, from);
    let mut held: Option<Vec<u8>> = None;
    while let Some(frame) = frame(&mut reader) {
        knobs.wait_while_cut();
        let is_message = frame.starts_with(b"HMSG ") || frame.starts_with(b"MSG ");
        let mut out = Vec::new();
        if is_message && held.is_none() && knobs.percent(&knobs.swaps) {
            held = Some(frame);
        } else {
            out.extend_from_slice(&frame);
            if is_message && knobs.percent(&knobs.doubles) {
                out.extend_from_slice(&frame);
            }
            out.extend(held.take().unwrap_or_default());
        }
        // Nothing is held while nothing follows.
        if reader.buffer().is_empty() {
            out.extend(held.take().unwrap_or_default());
        }
        if to.write_all(&out).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

/// One line of the protocol, with its payload if it has one.
fn frame(reader: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut frame = Vec::new();
    if reader.read_until(b'\n', &mut frame).ok()? == 0 {
        return None;
    }
    if frame.starts_with(b"HMSG ") || frame.starts_with(b"MSG ") {
        let line = String::from_utf8_lossy(&frame).into_owned();
        let bytes: usize = line.split_whitespace().last()?.parse().ok()?;
        let start = frame.len();
        frame.resize(start + bytes + 2, 0);
        reader.read_exact(&mut frame[start..]).ok()?;
    }
    Some(frame)
}
