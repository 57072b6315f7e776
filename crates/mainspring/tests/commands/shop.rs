//! `examples/shop`: three capabilities in three languages, joined by commands, events and a timer.

use crate::fake::{command, stderr};
use crate::guest_module::guest_module;
use crate::real::Real;
use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket, sockopt};
use serde_json::{Value, json};
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Stdio};

/// A port that nobody else gets while this is held: it is bound but does not listen.
pub(crate) fn reserve_port() -> (OwnedFd, u16) {
    let held = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    sockopt::set_socket_reuseaddr(&held, true).unwrap();
    bind(&held, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = SocketAddr::try_from(getsockname(&held).unwrap()).unwrap();
    (held, address.port())
}

fn copy_folder(from: &Path, to: &Path, change: &dyn Fn(String) -> String) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
        if path.is_dir() {
            copy_folder(&path, &to.join(name), change);
        } else if let Ok(text) = fs::read_to_string(&path) {
            fs::write(to.join(name), change(text)).unwrap();
        }
    }
}

struct Shop {
    folder: tempfile::TempDir,
    daemon: Child,
    _port: OwnedFd,
}

impl Shop {
    /// The example in a folder and on a port of its own; orders expire after so many milliseconds.
    fn open(module: &Path, unpaid_ms: u64) -> Shop {
        let folder = tempfile::tempdir().unwrap();
        let (held, port) = reserve_port();
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shop");
        let change = |text: String| {
            text.replace("7787", &port.to_string()).replace("\"60000\"", &format!("\"{unpaid_ms}\""))
        };
        copy_folder(&example, folder.path(), &change);
        fs::copy(module, folder.path().join("capabilities/orders/orders.wasm")).unwrap();
        let mut daemon = command(&["up", "--json", "--log-level", "warn"], folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(daemon.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("Sys.BootComplete"), "{line}");
        Shop { folder, daemon, _port: held }
    }

    fn ask(&self, arguments: &[&str]) -> Result<Value, String> {
        let output = command(arguments, self.folder.path()).stdin(Stdio::null()).output().unwrap();
        match output.status.code() {
            Some(0) => Ok(serde_json::from_slice(&output.stdout).unwrap()),
            _ => Err(stderr(&output).to_owned()),
        }
    }

    fn place(&self, item: &str, quantity: u64) -> Result<Value, String> {
        // The TCP server of the stock may start a little later than the stock itself.
        loop {
            let data = json!({ "item": item, "quantity": quantity }).to_string();
            match self.ask(&["send", "Order.Place", &data, "--correlation", "test"]) {
                Err(text) if text.contains("cannot be reached") => {}
                outcome => return outcome,
            }
        }
    }

    fn left(&self, item: &str) -> Value {
        self.ask(&["query", "Stock.List"]).unwrap()["items"][item]["left"].clone()
    }

    /// Watches events; the lines come as they happen.
    fn watch(&self, patterns: &[&str]) -> Watching {
        let mut arguments = vec!["watch", "--json", "Test.Ready"];
        arguments.extend(patterns);
        let mut child = command(&arguments, self.folder.path()).stdout(Stdio::piped()).spawn().unwrap();
        let mut watching = Watching { lines: BufReader::new(child.stdout.take().unwrap()).lines(), child };
        // An event of one's own that came shows that the subscription holds.
        let ready = std::thread::scope(|scope| {
            let first = scope.spawn(|| watching.next()["type"].clone());
            while !first.is_finished() {
                let emitted = command(&["emit", "Test.Ready"], self.folder.path()).status().unwrap();
                assert!(emitted.success());
            }
            first.join().unwrap()
        });
        assert_eq!(ready, json!("Test.Ready"));
        watching
    }
}

impl Drop for Shop {
    fn drop(&mut self) {
        let daemon = rustix::process::Pid::from_child(&self.daemon);
        let _ = rustix::process::kill_process(daemon, rustix::process::Signal::TERM);
        let _ = self.daemon.wait();
    }
}

struct Watching {
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
    child: Child,
}

impl Watching {
    fn next(&mut self) -> Value {
        serde_json::from_str(&self.lines.next().unwrap().unwrap()).unwrap()
    }

    /// The next event that is not there to show that one is watching.
    fn event(&mut self) -> Value {
        loop {
            let event = self.next();
            if event["type"] != json!("Test.Ready") {
                return event;
            }
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn an_order_is_placed_paid_and_gets_its_receipt() {
    let Some(module) = guest_module("orders") else { return };
    let shop = Shop::open(&module, 3_600_000);
    let mut watching = shop.watch(&["Order.*", "Receipt.*"]);
    let placed = shop.place("tea", 2).unwrap();
    assert_eq!(placed["totalCents"], json!(900));
    let order = placed["order"].as_str().unwrap();
    let paid = shop.ask(&["send", "Order.Pay", &json!({ "order": order }).to_string()]).unwrap();
    assert_eq!(paid, json!({ "paid": true }));
    let events: Vec<Value> = (0..3).map(|_| watching.event()).collect();
    let types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["Order.Placed", "Order.Paid", "Receipt.Printed"]);
    assert_eq!(events[0]["metadata"]["correlation"], json!("test"));
    assert_eq!(events[2]["data"], json!({ "order": order, "number": 1 }));
    // The receipt was caused by the event before it.
    assert_eq!(events[2]["metadata"]["causation"], events[1]["metadata"]["id"]);
    assert_eq!(shop.left("tea"), json!(98));
    assert_eq!(shop.ask(&["query", "Receipt.Count"]).unwrap(), json!({ "count": 1 }));
    assert_eq!(shop.ask(&["query", "Order.List"]).unwrap()["orders"][0]["state"], json!("paid"));
    let again = shop.ask(&["send", "Order.Pay", &json!({ "order": order }).to_string()]).unwrap_err();
    assert!(again.contains("is paid"), "{again}");
}

#[test]
fn receipts_are_printed_for_whoever_writes_json_with_spaces() {
    let daemon = Real::start_with("native = []\nmanifests = ['receipts/capability.toml']", |folder| {
        let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shop/capabilities/receipts");
        copy_folder(&example, &folder.join("receipts"), &|text| text);
    });
    let metadata = |id: &str| json!({ "id": id, "timestamp": 0 });
    let paid = json!({ "kind": "event", "type": "Order.Paid", "data": { "order": "o 1" }, "metadata": metadata("e") });
    // Only the type of the message itself counts.
    let data = json!({ "type": "Order.Paid", "metadata": { "id": "none" } });
    let count = json!({ "kind": "query", "type": "Receipt.Count", "data": data, "metadata": metadata("q") });
    let reply = daemon.ask_from_python(&[paid, count]);
    assert_eq!(reply["data"], json!({ "count": 1 }), "{reply}");
}

#[test]
fn an_order_that_nobody_pays_expires_and_its_goods_return() {
    let Some(module) = guest_module("orders") else { return };
    let shop = Shop::open(&module, 50);
    let mut watching = shop.watch(&["Order.Expired", "Stock.*"]);
    shop.place("sugar", 3).unwrap();
    let (expired, returned) = (watching.event(), watching.event());
    assert_eq!(
        (&expired["type"], &expired["metadata"]["correlation"]),
        (&json!("Order.Expired"), &json!("test"))
    );
    assert_eq!(returned["data"], json!({ "item": "sugar", "left": 3 }));
    assert_eq!(returned["metadata"]["causation"], expired["metadata"]["id"]);
    assert_eq!(shop.left("sugar"), json!(3));
}

#[test]
fn what_is_not_there_cannot_be_ordered() {
    let Some(module) = guest_module("orders") else { return };
    let shop = Shop::open(&module, 3_600_000);
    for (item, quantity, words) in [
        ("sugar", 4, "(409): only 3 of sugar are left"),
        ("gold", 1, "(404): there is no gold"),
        ("tea", 0, "(422)"),
    ] {
        let refused = shop.place(item, quantity).unwrap_err();
        assert!(refused.contains(words), "{refused}");
    }
}
