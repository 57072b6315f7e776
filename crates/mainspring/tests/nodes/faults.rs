//! What goes wrong: daemons and servers that are killed or stopped.

use crate::bus::{NatsServer, Node, Plan, started};
use crate::support::{code, eventually, fresh_id, line, line_with};
use serde_json::json;
use std::time::{Duration, Instant};

const SHARED: &str = "share = true\nlimits = { concurrency = 64 }";

fn pair(nats: &NatsServer) -> (Node, Node) {
    let b = Plan::new("b", nats).serves(SHARED).start();
    let a = Plan::new("a", nats).uplink("import = [\"Test.*\"]").start();
    a.sees(&["b"]);
    (a, b)
}

#[test]
fn n3_2_what_a_killed_node_had_is_started_yes_and_what_comes_then_is_not() {
    let nats = NatsServer::start();
    let (a, mut b) = pair(&nats);
    let mut client = a.connect();
    let ids: Vec<String> = (0..5).map(|_| fresh_id()).collect();
    for id in &ids {
        client.send(line("command", "Test.Slow", id, &json!(600)));
    }
    eventually("it has them all", || b.lines("began").len() == 5);
    b.kill();
    for _ in 0..5 {
        let lost = client.receive();
        assert_eq!((code(&lost), started(&lost)), (502, true), "{lost}");
        assert_eq!(lost["type"], json!("Sys.NodeLost"));
    }
    let refused = client.ask("command", "Test.Do", json!({}));
    assert_eq!((code(&refused), started(&refused)), (503, false), "{refused}");
    // It comes back by itself.
    b.restart();
    a.sees(&["b"]);
    assert_eq!(client.command("Test.Do", json!({}))["node"], json!("b"));
}

#[test]
fn n3_10_requests_that_go_as_one_message_end_each_by_itself() {
    let nats = NatsServer::start();
    let (a, mut b) = pair(&nats);
    let mut client = a.connect();
    let many = |client: &mut crate::support::Client, name: &str| -> Vec<serde_json::Value> {
        let ids: Vec<String> = (0..100).map(|_| fresh_id()).collect();
        client.send(ids.iter().map(|id| line("query", name, id, &json!({}))).collect::<String>());
        let mut ended: Vec<serde_json::Value> = ids.iter().map(|_| client.receive()).collect();
        ended.sort_by_key(|message| message["metadata"]["causation"].to_string());
        let mut ids: Vec<String> = ids.into_iter().map(|id| json!(id).to_string()).collect();
        ids.sort();
        let of: Vec<String> =
            ended.iter().map(|message| message["metadata"]["causation"].to_string()).collect();
        assert_eq!(of, ids, "each has one outcome");
        ended
    };
    for reply in many(&mut client, "Test.Where") {
        assert_eq!(reply["data"]["node"], json!("b"), "{reply}");
    }
    // The server knows at once that nobody is there, and this node does not yet.
    b.kill();
    for refused in many(&mut client, "Test.Where") {
        assert_eq!((code(&refused), started(&refused)), (503, false), "{refused}");
    }
}

#[test]
fn n4_2_a_stopped_node_is_known_soon_and_requests_at_others_go_on() {
    let nats = NatsServer::start();
    let (b, c) = (Plan::new("b", &nats).serves(SHARED).start(), Plan::new("c", &nats).serves(SHARED).start());
    let a = Plan::new("a", &nats).uplink("import = [\"Test.*\"]").start();
    a.sees(&["b", "c"]);
    let mut client = a.connect();
    for node in ["b", "c"] {
        let to = json!({ "to_node": node });
        client.send(line_with("command", "Test.Slow", &format!("at-{node}"), &json!(12), &to));
    }
    eventually("both have theirs", || b.lines("began").len() + c.lines("began").len() == 2);
    b.signal("STOP");
    let stopped = Instant::now();
    let lost = client.receive();
    assert_eq!((code(&lost), started(&lost)), (502, true), "{lost}");
    assert_eq!(lost["metadata"]["causation"], json!("at-b"));
    assert!(stopped.elapsed() < Duration::from_secs(10), "{:?}", stopped.elapsed());
    // New ones go to the other at once.
    for _ in 0..10 {
        assert_eq!(client.query("Test.Where", json!({}))["node"], json!("c"));
    }
    let done = client.receive_until(|message| message["metadata"]["causation"] == json!("at-c"));
    assert_eq!(done["kind"], json!("reply"), "{done}");
    b.signal("CONT");
    a.sees(&["b", "c"]);
}

#[test]
fn n5_1_without_nats_local_work_goes_on_imports_are_refused_at_once_and_all_comes_back() {
    let mut nats = NatsServer::start();
    let b = Plan::new("b", &nats).serves(SHARED).start();
    let own = crate::support::process("own", &["query:Own.Where"], &["python3", "work.py"], "");
    let own = own.replace("work.py", "own.py");
    let program = "from lib import *\nserve(lambda message: 7)\n";
    let a =
        Plan::new("a", &nats).uplink("import = [\"Test.*\"]").config(&own).file("own.py", program).start();
    a.sees(&["b"]);
    nats.kill();
    eventually("it knows", || a.bus()["connected"] == json!(false));
    let mut client = a.connect();
    let asked = Instant::now();
    let refused = client.ask("command", "Test.Do", json!({}));
    assert_eq!((code(&refused), started(&refused)), (503, false), "{refused}");
    assert!(asked.elapsed() < Duration::from_secs(5));
    eventually("local work goes on", || client.ask("query", "Own.Where", json!({}))["data"] == json!(7));
    nats.restart();
    a.sees(&["b"]);
    eventually("it is answered again", || {
        client.ask("command", "Test.Do", json!({}))["kind"] == json!("reply")
    });
    drop(b);
}

#[test]
fn n8_3_a_stopped_server_costs_no_memory_and_is_known() {
    let nats = NatsServer::start();
    let (a, b) = pair(&nats);
    nats.signal("STOP");
    let mut client = a.connect();
    let text = "x".repeat(100_000);
    let mut refused = 0_u32;
    // Far more than may wait for NATS.
    for round in 0..1200_u32 {
        client.send(line_with(
            "command",
            "Test.Do",
            &format!("m-{round}"),
            &json!(text),
            &json!({ "timeout": 20_000 }),
        ));
        while refused < round.saturating_sub(100) {
            let outcome = client.receive();
            assert!([502, 503, 504].contains(&code(&outcome)), "{}", outcome["data"]);
            refused += 1;
        }
    }
    let used = std::fs::read_to_string(format!("/proc/{}/statm", a.pid())).expect("statm");
    let pages: u64 = used.split(' ').nth(1).and_then(|pages| pages.parse().ok()).expect("pages");
    assert!(pages * 4096 < 400 << 20, "{} MiB", (pages * 4096) >> 20);
    nats.signal("CONT");
    a.sees(&["b"]);
    eventually("it is answered again", || {
        let id = fresh_id();
        client.send(line("query", "Test.Where", &id, &json!({})));
        client.receive_until(|message| message["metadata"]["causation"] == json!(id))["kind"]
            == json!("reply")
    });
    drop(b);
}

#[test]
fn n3_3_a_node_that_ends_in_order_answers_what_it_has() {
    let nats = NatsServer::start();
    let (a, mut b) = pair(&nats);
    let mut client = a.connect();
    client.send(line("command", "Test.Slow", "last", &json!(1.5)));
    eventually("it has it", || b.lines("began").len() == 1);
    b.signal("TERM");
    let outcome = client.receive();
    assert_eq!((&outcome["kind"], &outcome["data"]["node"]), (&json!("reply"), &json!("b")), "{outcome}");
    eventually("nobody is left", || a.bus()["imports"][0]["nodes"] == json!([]));
    b.kill();
}

#[test]
fn n5_2_a_cluster_of_servers_loses_one_and_the_bus_goes_on() {
    let first = NatsServer::with_config("cluster { name: c, listen: \"127.0.0.1:-1\" }\n");
    let port = first.cluster_port();
    let route =
        format!("cluster {{ name: c, listen: \"127.0.0.1:-1\", routes: [\"nats://127.0.0.1:{port}\"] }}\n");
    let (second, mut third) = (NatsServer::with_config(&route), NatsServer::with_config(&route));
    let at = |name: &str, servers: &[&NatsServer]| {
        let mut plan = Plan::new(name, servers[0]);
        plan.urls = servers.iter().map(|server| server.url()).collect();
        plan
    };
    let b = at("b", &[&second]).serves(SHARED).start();
    let a = at("a", &[&third, &first]).uplink("import = [\"Test.*\"]").start();
    a.sees(&["b"]);
    let mut client = a.connect();
    assert_eq!(client.query("Test.Where", json!({}))["node"], json!("b"));
    third.kill();
    eventually("it goes on by another server", || {
        client.ask("query", "Test.Where", json!({}))["data"]["node"] == json!("b")
    });
    drop(b);
}

#[test]
fn n1_2_without_an_uplink_there_is_no_runtime_for_it() {
    let daemon = crate::support::Daemon::start();
    let epolls = |pid: u32| {
        let open = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("its descriptors");
        let kinds = open.flatten().flat_map(|entry| std::fs::read_link(entry.path()));
        kinds.filter(|kind| kind.as_os_str() == "anon_inode:[eventpoll]").count()
    };
    let threads = |pid: u32| std::fs::read_dir(format!("/proc/{pid}/task")).expect("its threads").count();
    assert_eq!(daemon.stats()["floors"]["uplink"], json!(null));
    // One on a bus has more to wait with, and no more threads.
    let nats = NatsServer::start();
    let node = Plan::new("a", &nats).start();
    eventually("it is on the bus", || node.bus()["connected"] == json!(true));
    assert!(epolls(node.pid()) > epolls(daemon.pid()));
    assert_eq!(threads(node.pid()), threads(daemon.pid()));
}
