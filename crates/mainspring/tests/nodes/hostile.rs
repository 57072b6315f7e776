//! Something that listens where a server of NATS should, and is none.

use crate::bus::{NatsServer, Node, Plan};
use crate::support::eventually;
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What it sends when it has been greeted, without end.
#[derive(Clone, Copy, Debug)]
enum Attack {
    /// Before anything else: a greeting that never ends.
    Greeting,
    /// A line that never ends.
    Line,
    /// One message, larger than any.
    Message,
    /// Questions whose answers it does not read.
    Pings,
    /// Complaints, each another one.
    Errors,
}

/// It listens until it is dropped.
struct Impostor {
    port: u16,
    /// Whether it has begun what it is there for.
    has_begun: Arc<AtomicBool>,
    is_over: Arc<AtomicBool>,
    accepting: Option<std::thread::JoinHandle<()>>,
}

impl Impostor {
    fn start(port: u16, attack: Attack) -> Impostor {
        let impostor = Impostor::waiting(port, attack);
        impostor.has_begun.store(true, Ordering::Relaxed);
        impostor
    }

    /// One that greets, and nothing more until it begins.
    fn waiting(port: u16, attack: Attack) -> Impostor {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("the port");
        let port = listener.local_addr().expect("its address").port();
        let is_over = Arc::new(AtomicBool::new(false));
        let (begun, over) = (Arc::<AtomicBool>::default(), Arc::clone(&is_over));
        let has_begun = Arc::clone(&begun);
        let accepting = std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let (begun, over) = (Arc::clone(&begun), Arc::clone(&over));
                std::thread::spawn(move || drop(assail(stream, attack, &begun, &over)));
            }
        });
        Impostor { port, has_begun, is_over, accepting: Some(accepting) }
    }
}

impl Drop for Impostor {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(("127.0.0.1", self.port)));
        self.accepting.take().map(std::thread::JoinHandle::join);
    }
}

fn assail(
    mut stream: TcpStream,
    attack: Attack,
    has_begun: &AtomicBool,
    is_over: &AtomicBool,
) -> std::io::Result<()> {
    if !matches!(attack, Attack::Greeting) {
        let info = json!({
            "server_id": "x", "server_name": "x", "version": "2.10.0", "proto": 1, "go": "go1.21",
            "host": "127.0.0.1", "port": 4222, "headers": true, "max_payload": 1 << 20, "client_id": 1,
        });
        write!(stream, "INFO {info}\r\n")?;
        let mut lines = BufReader::new(stream.try_clone()?).lines();
        while !lines.next().transpose()?.unwrap_or_default().starts_with("PING") {}
        stream.write_all(b"PONG\r\n")?;
    }
    while !has_begun.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let (head, endless) = match attack {
        Attack::Greeting => ("INFO ".to_owned(), "x".repeat(1 << 16)),
        Attack::Line => ("MSG ".to_owned(), "x".repeat(1 << 16)),
        Attack::Message => ("MSG ms.test.x.rep.a 1 100000000000\r\n".to_owned(), "x".repeat(1 << 16)),
        Attack::Pings => (String::new(), "PING\r\n".repeat(10_000)),
        Attack::Errors => {
            let complaints = (0..3000).map(|number| format!("-ERR 'no {number}'\r\n"));
            (String::new(), complaints.collect())
        }
    };
    stream.write_all(head.as_bytes())?;
    while !is_over.load(Ordering::Relaxed) {
        stream.write_all(endless.as_bytes())?;
    }
    Ok(())
}

fn memory(node: &Node) -> u64 {
    let used = std::fs::read_to_string(format!("/proc/{}/status", node.pid())).expect("its status");
    let peak = used.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("its peak");
    peak.trim().trim_end_matches(" kB").parse::<u64>().expect("a number") << 10
}

#[test]
fn n8_5_a_server_whose_messages_never_end_is_given_up_before_it_takes_much_memory() {
    let attacks = [Attack::Greeting, Attack::Line, Attack::Message, Attack::Pings, Attack::Errors];
    let assailed = attacks.map(|attack| {
        let impostor = Impostor::start(0, attack);
        let urls = vec![format!("nats://127.0.0.1:{}", impostor.port)];
        (attack, Plan { name: "a".into(), urls, ..Plan::default() }.start(), impostor)
    });
    for (attack, node, impostor) in assailed {
        eventually("it is given up", || node.log().contains("is given up"));
        let asked = Instant::now();
        node.connect().query("Sys.Actors", json!({}));
        assert!(asked.elapsed() < Duration::from_secs(2), "{attack:?}: {:?}", asked.elapsed());
        drop(impostor);
        let (peak, lines) = (memory(&node) >> 20, node.log().lines().count());
        assert!(peak < 512, "{attack:?}: {peak} MiB");
        assert!(lines < 200, "{attack:?}: {lines} lines in the log");
    }
}

#[test]
fn n8_5_when_a_server_of_nats_is_there_again_all_goes_on_as_before() {
    let mut nats = NatsServer::start();
    let b = Plan::new("b", &nats).serves("share = true").start();
    let a = Plan::new("a", &nats).uplink("import = [\"Test.*\"]").start();
    a.sees(&["b"]);
    nats.kill();
    let impostor = Impostor::start(nats.port, Attack::Message);
    for node in [&a, &b] {
        eventually("it is given up", || node.log().contains("is given up"));
    }
    drop(impostor);
    nats.restart();
    a.sees(&["b"]);
    let mut client = a.connect();
    eventually("it is answered again", || {
        client.ask("query", "Test.Where", json!({}))["data"]["node"] == json!("b")
    });
}

#[test]
fn n8_5_it_is_given_up_also_when_no_descriptor_is_left_to_try_again() {
    use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
    let impostor = Impostor::waiting(0, Attack::Message);
    let urls = vec![format!("nats://127.0.0.1:{}", impostor.port)];
    let a = Plan { name: "a".into(), urls, ..Plan::default() }.start();
    eventually("it is greeted", || a.log().contains("connected to NATS"));
    let mut client = a.connect();
    client.query("Sys.Actors", json!({}));
    let pid = Pid::from_raw(i32::try_from(a.pid()).expect("a pid"));
    // The daemon has the upper limit that it was started with: nobody may raise it at will.
    let none = Rlimit { current: Some(3), ..getrlimit(Resource::Nofile) };
    let before = prlimit(pid, Resource::Nofile, none).expect("a limit");
    impostor.has_begun.store(true, Ordering::Relaxed);
    eventually("there is no other runtime", || a.log().contains("no runtime for NATS"));
    client.query("Sys.Actors", json!({}));
    std::thread::sleep(Duration::from_secs(2));
    client.query("Sys.Actors", json!({}));
    let peak = memory(&a) >> 20;
    assert!(peak < 512, "{peak} MiB");
    prlimit(pid, Resource::Nofile, before).expect("a limit");
    eventually("it was tried again", || a.log().matches("is given up").count() > 1);
}
