//! A plain Rust program for WASI: nothing in it knows Mainspring.
//!
//! The first argument says what to do: `greet`, `lines`, `copy FROM TO`, `sleep MILLISECONDS`,
//! `connect HOST:PORT`, `exit CODE`, `panic`, `capability`.

use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let argument = |index: usize| arguments.get(index).map_or("", String::as_str);
    match argument(1) {
        "lines" => lines(),
        "copy" => std::fs::copy(argument(2), argument(3)).map(drop),
        "sleep" => sleep(argument(2).parse().unwrap_or(0)),
        "capability" => capability(),
        "connect" => connect(argument(2)),
        "exit" => std::process::exit(argument(2).parse().unwrap_or(0)),
        "panic" => panic!("asked to panic"),
        _ => greet(),
    }
}

fn greet() -> std::io::Result<()> {
    let name = std::env::var("NAME").unwrap_or_else(|_| "nobody".into());
    // The seeds of hash maps are random numbers of the host.
    let random = std::collections::HashMap::from([(1, 2)]);
    println!("hello {name}, {}", random[&1]);
    eprintln!("to standard error");
    Ok(())
}

fn lines() -> std::io::Result<()> {
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        writeln!(output, "{}", line?.to_uppercase())?;
    }
    Ok(())
}

/// A capability of a daemon, with nothing but the standard library: answers each query with its id.
fn capability() -> std::io::Result<()> {
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        // Spaces between the parts of a message mean nothing.
        let text = |name: &str| {
            let (_, rest) = line.split_once(&format!("\"{name}\""))?;
            rest.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?.split('"').next()
        };
        let (Some(id), Some(type_name)) = (text("id"), text("type")) else { continue };
        writeln!(
            output,
            r#"{{"kind":"reply","type":"{type_name}","data":"{id}","metadata":{{"id":"r-{id}","timestamp":1,"causation":"{id}"}}}}"#
        )?;
    }
    Ok(())
}

fn sleep(milliseconds: u64) -> std::io::Result<()> {
    let (start, duration) = (Instant::now(), Duration::from_millis(milliseconds));
    std::thread::sleep(duration);
    println!("{}", if start.elapsed() >= duration { "slept" } else { "early" });
    Ok(())
}

/// Preview 1 has no way to connect, and the library says so.
fn connect(place: &str) -> std::io::Result<()> {
    match std::net::TcpStream::connect(place) {
        Ok(_) => println!("connected"),
        Err(error) => println!("{:?}", error.kind()),
    }
    Ok(())
}
