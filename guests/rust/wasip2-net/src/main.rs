//! A plain Rust program for WASI 0.2: nothing in it knows Mainspring, its sockets are the standard
//! library's.
//!
//! The first argument says what to do, the others where: `connect HOST:PORT` sends a line and
//! prints the answer, `listen ADDRESS` answers one line, `many HOST:PORT` opens connections until
//! it is refused one, `udp ADDRESS` tries a datagram. A refusal is printed as such.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let argument = |index: usize| arguments.get(index).map_or("", String::as_str);
    let place = argument(2);
    let outcome = match argument(1) {
        "connect" => connect(place),
        "listen" => listen(place),
        "many" => many(place),
        "udp" => udp(place),
        other => panic!("{other:?} is none of connect, listen, many, udp"),
    };
    if let Err(error) = outcome {
        println!("{:?}: {error}", error.kind());
    }
}

fn connect(place: &str) -> std::io::Result<()> {
    let mut stream = BufReader::new(TcpStream::connect(place)?);
    stream.get_mut().write_all(b"hello\n")?;
    let mut line = String::new();
    stream.read_line(&mut line)?;
    print!("{line}");
    Ok(())
}

fn listen(place: &str) -> std::io::Result<()> {
    let listener = TcpListener::bind(place)?;
    println!("listening on port {}", listener.local_addr()?.port());
    let (stream, _) = listener.accept()?;
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    stream.read_line(&mut line)?;
    stream.get_mut().write_all(line.to_uppercase().as_bytes())
}

fn many(place: &str) -> std::io::Result<()> {
    let mut streams = Vec::new();
    loop {
        streams.push(TcpStream::connect(place)?);
    }
}

fn udp(place: &str) -> std::io::Result<()> {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.send_to(b"hello", place).map(drop)
}
