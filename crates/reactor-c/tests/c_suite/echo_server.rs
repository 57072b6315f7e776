//! The example, compiled as its first lines say, serving real clients.

use crate::compiler::build;
use crate::library::Linkage;
use crate::run::{crate_folder, scratch, succeed, valgrind};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A running server, which does not outlive its test.
struct Server {
    child: Child,
    output: BufReader<ChildStdout>,
    port: u16,
}

impl Server {
    fn start(linkage: Linkage, wrapper: Option<Command>) -> Server {
        let source = crate_folder().join("examples/echo_server.c");
        let program = build(&source, linkage, &scratch(&format!("echo-{linkage:?}-{}", wrapper.is_some())));
        let mut command = match wrapper {
            Some(mut command) => {
                command.arg(program);
                command
            }
            None => Command::new(program),
        };
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the server");
        let mut output = BufReader::new(child.stdout.take().expect("its output"));
        let mut line = String::new();
        output.read_line(&mut line).expect("its first line");
        let port = line.trim().strip_prefix("listening on 127.0.0.1:").and_then(|port| port.parse().ok());
        Server { child, output, port: port.unwrap_or_else(|| panic!("an unexpected first line: {line}")) }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).expect("a connection")
    }

    /// Ends it as a person would, and returns its last line.
    fn end(mut self) -> String {
        succeed(Command::new("sh").args(["-c", &format!("kill -TERM {}", self.child.id())]));
        let mut line = String::new();
        self.output.read_to_string(&mut line).expect("its last line");
        let status = self.child.wait().expect("its end");
        assert!(status.success(), "{status}");
        line
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends more than the server's buffer and the system's together hold, and reads it all back.
fn echoes_a_lot(mut stream: TcpStream, bytes: usize) {
    let sent: Vec<u8> = (0..bytes).map(|index| (index * 31 % 251) as u8).collect();
    let mut writer = stream.try_clone().expect("a second handle");
    let data = sent.clone();
    let writing = std::thread::spawn(move || {
        writer.write_all(&data).expect("to be read");
        writer.shutdown(Shutdown::Write).expect("to say that this was all");
    });
    let mut received = Vec::new();
    stream.read_to_end(&mut received).expect("to be answered");
    writing.join().expect("the writing thread");
    assert!(received == sent, "{} bytes came back of {}", received.len(), sent.len());
}

fn serves_clients_and_ends_cleanly(server: Server, bytes: usize) {
    let mut idle = server.connect();
    let mut chatting = server.connect();
    for word in ["salve", "munde"] {
        let mut answer = [0; 5];
        chatting.write_all(word.as_bytes()).expect("to be read");
        chatting.read_exact(&mut answer).expect("to be answered");
        assert_eq!(&answer, word.as_bytes());
    }
    echoes_a_lot(server.connect(), bytes);
    let total = bytes + 10;
    assert_eq!(server.end(), format!("served 3 clients and {total} bytes\n"));
    assert_eq!(idle.read(&mut [0]).expect("the end"), 0, "whoever is left is disconnected");
}

#[test]
fn the_example_serves_clients_and_ends_cleanly_with_the_static_library() {
    serves_clients_and_ends_cleanly(Server::start(Linkage::Static, None), 8 << 20);
}

#[test]
fn the_example_serves_clients_and_ends_cleanly_with_the_shared_library() {
    serves_clients_and_ends_cleanly(Server::start(Linkage::Shared, None), 8 << 20);
}

#[test]
fn the_example_serves_clients_and_ends_cleanly_under_valgrind() {
    match valgrind() {
        Some(command) => {
            serves_clients_and_ends_cleanly(Server::start(Linkage::Static, Some(command)), 1 << 20)
        }
        None => println!("MAINSPRING_VALGRIND is not 1: not run under valgrind"),
    }
}
