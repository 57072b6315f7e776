//! Does with its sockets what the lines of its standard input say, and answers each in a line. A
//! component: it has the calls of `mainspring:sockets` and waits nowhere else.
//!
//! ```text
//! connect HOST PORT            -> connected HANDLE
//! read HANDLE LENGTH           -> data TEXT | eof | would-block
//! reads HANDLE TIMES           -> would-block after TIMES calls, or what came before
//! work-reads HANDLE TIMES N    -> the same with N steps of work before each, of which a million take less than a millisecond
//! write HANDLE TEXT            -> written COUNT | would-block
//! fill HANDLE COUNT            -> filled COUNT: writes so many bytes, calling again whenever that would block
//! poll HANDLE read|write MS    -> ready | not ready
//! subscribe HANDLE ...         -> ready INDEX ...: waits for all of them by wasi:io/poll
//! close HANDLE                 -> closed
//! random COUNT                 -> random ERRNO, and whether so many bytes differ
//! ```
//!
//! A failure is `CATEGORY CODE: MESSAGE`.

wit_bindgen::generate!({ path: "../../../crates/host/wit", world: "mainspring:sockets/imports", generate_all });

use mainspring::sockets::pollables::subscribe_socket;
use mainspring::sockets::tcp::{
    PluginError, SocketInterest, SocketReadResult, SocketWriteResult, connect_tcp, poll_socket, socket_close,
    socket_read, socket_write,
};
use std::hint::black_box;
use std::io::BufRead;
use wasi::io::poll::poll;

/// What `fill` writes at a time.
const FILL_BYTES: usize = 64 * 1024;

#[link(wasm_import_module = "wasi_snapshot_preview1")]
unsafe extern "C" {
    fn random_get(buffer: *mut u8, length: usize) -> u16;
}

fn main() {
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("a line");
        let words: Vec<&str> = line.split(' ').collect();
        let answer = obey(&words).unwrap_or_else(|error| explained(&error));
        println!("{answer}");
    }
}

fn explained(error: &PluginError) -> String {
    let category = format!("{:?}", error.category);
    let category = category.rsplit("::").next().unwrap_or_default();
    format!("{category} {}: {}", error.code, error.message)
}

fn obey(words: &[&str]) -> Result<String, PluginError> {
    let number = |index: usize| -> u64 { words[index].parse().expect("a number") };
    Ok(match words[0] {
        "connect" => format!("connected {}", connect_tcp(words[1], number(2) as u16)?),
        "read" => shown(socket_read(number(1), number(2))?),
        "reads" => reads(number(1), number(2), || {})?,
        "work-reads" => reads(number(1), number(2), || work(number(3)))?,
        "write" => match socket_write(number(1), words[2].as_bytes())? {
            SocketWriteResult::Written(count) => format!("written {count}"),
            SocketWriteResult::WouldBlock => "would-block".into(),
        },
        "fill" => fill(number(1), number(2))?,
        "poll" => {
            let interest = if words[2] == "read" { SocketInterest::Read } else { SocketInterest::Write };
            let ready = poll_socket(number(1), interest, number(3) as u32)?;
            if ready { "ready" } else { "not ready" }.into()
        }
        "subscribe" => subscribe(&words[1..])?,
        "close" => {
            socket_close(number(1));
            "closed".into()
        }
        "random" => random(number(1) as usize),
        unknown => panic!("{unknown}?"),
    })
}

fn shown(result: SocketReadResult) -> String {
    match result {
        SocketReadResult::Data(bytes) => format!("data {}", String::from_utf8_lossy(&bytes)),
        SocketReadResult::Eof => "eof".into(),
        SocketReadResult::WouldBlock => "would-block".into(),
    }
}

/// Calls again and again, as a stream that wakes itself does.
fn reads(handle: u64, times: u64, before: impl Fn()) -> Result<String, PluginError> {
    for _ in 0..times {
        before();
        match socket_read(handle, 100)? {
            SocketReadResult::WouldBlock => {}
            result => return Ok(shown(result)),
        }
    }
    Ok(format!("would-block after {times} calls"))
}

fn work(steps: u64) {
    for step in 0..steps {
        black_box(step);
    }
}

/// Fills so many bytes of memory by one call of the system's.
fn random(length: usize) -> String {
    let mut bytes = vec![0; length];
    // SAFETY: the whole of the buffer is this function's own.
    let errno = unsafe { random_get(bytes.as_mut_ptr(), length) };
    let different = bytes.chunks(4).collect::<std::collections::HashSet<_>>().len();
    format!("random {errno} {}", different * 8 > length)
}

fn fill(handle: u64, count: u64) -> Result<String, PluginError> {
    let mut left = count;
    while left > 0 {
        let length = left.min(FILL_BYTES as u64) as usize;
        if let SocketWriteResult::Written(written) = socket_write(handle, &[7; FILL_BYTES][..length])? {
            left -= written;
        }
    }
    Ok(format!("filled {count}"))
}

fn subscribe(handles: &[&str]) -> Result<String, PluginError> {
    let pollables = handles
        .iter()
        .map(|handle| subscribe_socket(handle.parse().expect("a handle"), SocketInterest::Read))
        .collect::<Result<Vec<_>, _>>()?;
    let ready = poll(&pollables.iter().collect::<Vec<_>>());
    Ok(ready.iter().fold("ready".into(), |text, index| format!("{text} {index}")))
}
