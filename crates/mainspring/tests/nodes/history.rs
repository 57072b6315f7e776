//! A long history under faults, and an account of every request in it.

use crate::bus::{NatsServer, Node, Plan};
use crate::proxy::Proxy;
use crate::support::{PATIENCE, process};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Requests in all, at least.
const REQUESTS: u64 = 100_000;
/// Faults in all, at least: one of each kind. A quick machine sends more requests meanwhile.
const FAULTS: u64 = 5;
/// Requests that one client has under way.
const WINDOW: usize = 64;

/// A capability that notes what it does before it says so, and is quick.
const QUICK: &str = r#"
import os, re, sys
log = os.open("done", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
find = re.compile(r'"id":\s*"([^"]*)"')
for line in sys.stdin:
    if '"kind":"event"' in line[:40]:
        continue
    id = find.search(line[line.rindex('"metadata"'):]).group(1)
    name = "Quick.Do" if '"Quick.Do"' in line else "Quick.Get"
    os.write(log, (id + "\n").encode())
    sys.stdout.write('{"kind":"reply","type":"%s","data":1,"metadata":{"id":"r-%s","timestamp":1,"causation":"%s"}}\n' % (name, id, id))
    sys.stdout.flush()
"#;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Told {
    Reply,
    NotStarted,
    Started,
}

/// What was sent and what went wrong so far.
#[derive(Default)]
struct Account {
    sent: AtomicU64,
    faults: AtomicU64,
}

impl Account {
    /// Counts one more request, unless there were enough.
    fn sends_one(&self) -> bool {
        let is_enough = |sent| sent >= REQUESTS && self.faults.load(Ordering::Relaxed) >= FAULTS;
        let more = |sent| (!is_enough(sent)).then_some(sent + 1);
        self.sent.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }
}

/// One client of one node: sends, and notes every outcome.
fn client(
    socket: std::path::PathBuf,
    name: String,
    account: Arc<Account>,
) -> JoinHandle<HashMap<String, Vec<Told>>> {
    std::thread::spawn(move || {
        let mut stream = UnixStream::connect(socket).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        let mut reader = BufReader::new(stream.try_clone().expect("a descriptor"));
        let (mut told, mut open, mut number) = (HashMap::<String, Vec<Told>>::new(), 0_usize, 0_u64);
        loop {
            let mut batch = String::new();
            while open < WINDOW && account.sends_one() {
                number += 1;
                let id = format!("{name}-{number}");
                let (kind, type_name) =
                    if number % 4 == 0 { ("query", "Quick.Get") } else { ("command", "Quick.Do") };
                let metadata = json!({ "id": id, "timestamp": 1, "timeout": 20_000 });
                batch += &format!(
                    "{}\n",
                    json!({ "kind": kind, "type": type_name, "data": {}, "metadata": metadata })
                );
                told.insert(id, Vec::new());
                open += 1;
            }
            stream.write_all(batch.as_bytes()).expect("the daemon reads");
            if open == 0 {
                return told;
            }
            let mut line = String::new();
            assert!(reader.read_line(&mut line).expect("an outcome") > 0, "{name}: the end");
            let message: Value = serde_json::from_str(&line).expect("a message");
            let id = message["metadata"]["causation"].as_str().expect("a causation");
            let what = match (message["kind"].as_str(), message["data"]["started"].as_str()) {
                (Some("reply"), _) => Told::Reply,
                (_, Some("no")) => Told::NotStarted,
                (_, Some("yes")) => Told::Started,
                _ => panic!("{line}"),
            };
            told.get_mut(id).unwrap_or_else(|| panic!("{line}")).push(what);
            open -= 1;
            // Who is refused at once does not ask again at once.
            if what == Told::NotStarted {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    })
}

/// What is done to the bus until the clients have ended.
fn trouble(
    nodes: &mut [Node],
    nats: &mut NatsServer,
    proxies: &[Proxy],
    account: &Account,
    is_over: &AtomicBool,
) {
    let mut round = 0_usize;
    let pause = |ms: u64| {
        let until = Instant::now() + Duration::from_millis(ms);
        while Instant::now() < until && !is_over.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    while !is_over.load(Ordering::Relaxed) {
        let at = round % nodes.len();
        match round % 5 {
            0 => {
                nodes[at].kill();
                pause(500);
                nodes[at].restart();
            }
            1 => {
                nodes[at].signal("STOP");
                pause(4000);
                nodes[at].signal("CONT");
            }
            2 => {
                nats.kill();
                pause(300);
                nats.restart();
            }
            3 => {
                let knobs = &proxies[round % proxies.len()].knobs;
                knobs.is_cut.store(true, Ordering::Relaxed);
                pause(4000);
                knobs.is_cut.store(false, Ordering::Relaxed);
            }
            _ => {
                for proxy in proxies {
                    proxy.knobs.delay_ms.store(5, Ordering::Relaxed);
                }
                pause(500);
                for proxy in proxies {
                    proxy.knobs.delay_ms.store(0, Ordering::Relaxed);
                }
            }
        }
        account.faults.fetch_add(1, Ordering::Relaxed);
        round += 1;
        pause(1500);
    }
}

#[test]
fn n3_6_a_hundred_thousand_requests_under_faults_have_one_outcome_each() {
    let mut nats = NatsServer::start();
    let proxies: Vec<Proxy> = (0..2).map(|_| Proxy::to(nats.port)).collect();
    for proxy in &proxies {
        proxy.knobs.doubles.store(3, Ordering::Relaxed);
        proxy.knobs.swaps.store(3, Ordering::Relaxed);
    }
    let quick = process(
        "quick",
        &["command:Quick.Do", "query:Quick.Get"],
        &["python3", "quick.py"],
        "share = true\nlimits = { concurrency = 64 }",
    );
    let serving = |name: &str, url: String| {
        let mut plan = Plan::new(name, &nats).config(&quick).file("quick.py", QUICK);
        plan.urls = vec![url];
        plan.start()
    };
    let mut nodes = vec![serving("b", nats.url()), serving("c", proxies[0].url()), serving("d", nats.url())];
    let asking = |name: &str, url: String| {
        let mut plan = Plan::new(name, &nats).uplink("import = [\"Quick.*\"]");
        plan.urls = vec![url];
        plan.start()
    };
    let origins = [asking("a", nats.url()), asking("e", proxies[1].url())];
    for origin in &origins {
        origin.sees(&["b", "c", "d"]);
    }
    let account = Arc::new(Account::default());
    let clients: Vec<_> = (0..6)
        .map(|number| {
            let origin = &origins[number % origins.len()];
            client(origin.path("socket"), format!("{}{number}", origin.name), Arc::clone(&account))
        })
        .collect();
    let is_over = AtomicBool::new(false);
    let told: Vec<_> = std::thread::scope(|scope| {
        let troubles = scope.spawn(|| trouble(&mut nodes, &mut nats, &proxies, &account, &is_over));
        let told = clients.into_iter().map(|client| client.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        troubles.join().expect("the troubles");
        told
    });
    let mut done: HashMap<String, u32> = HashMap::new();
    for node in &nodes {
        for id in node.lines("done") {
            *done.entry(id).or_default() += 1;
        }
    }
    let (mut sent, mut counts) = (0_u64, [0_u64; 3]);
    for told in told {
        for (id, outcomes) in told.expect("a client") {
            sent += 1;
            assert_eq!(outcomes.len(), 1, "{id}: {outcomes:?}");
            counts[outcomes[0] as usize] += 1;
            let count = done.get(&id).copied().unwrap_or(0);
            match outcomes[0] {
                Told::Reply => assert!(count > 0, "{id} has a reply, and nobody did it"),
                Told::NotStarted => assert_eq!(count, 0, "{id} was done, and is said not to be started"),
                Told::Started => {}
            }
            let number: u64 = id.rsplit('-').next().and_then(|number| number.parse().ok()).expect("a number");
            assert!(number.is_multiple_of(4) || count <= 1, "the command {id} was done {count} times");
        }
    }
    let faults = account.faults.load(Ordering::Relaxed);
    assert_eq!(sent, account.sent.load(Ordering::Relaxed));
    let [replied, not_started, started] = counts;
    println!("{faults} faults: {replied} replies, {not_started} not started, {started} started or unknown");
    assert!(sent >= REQUESTS && faults >= FAULTS, "{sent} requests, {faults} faults");
    assert!(replied > sent / 4 && started > 0, "{counts:?}");
}
