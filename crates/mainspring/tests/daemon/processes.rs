//! Capabilities that are processes, mostly faulty ones: each fault has its outcome, and the
//! neighbours never notice.

use crate::support::{
    Client, Daemon, code, eventually, is_alive, line, line_with, process, signal_process, with_programs,
};
use serde_json::{Value, json};

const QUICK: &str = "restart = { backoff_ms = 10, max_restarts = 3, window_ms = \"1m\", probe_ms = \"30s\" }";

/// A daemon with one process `echo` that answers, and one more that is under test.
fn beside_echo(id: &str, handles: &[&str], program: &str, more: &str) -> Daemon {
    let config = "[timeouts]\ndefault = \"10m\"\n".to_owned()
        + &process("echo", &["query:Echo.Say"], &["python3", "echo.py"], "")
        + &process(id, handles, &["python3", "tested.py"], more);
    with_programs(
        &config,
        &[("echo.py", "import lib\nlib.serve(lambda m: m['data'])\n"), ("tested.py", program)],
    )
}

fn check_neighbour(client: &mut Client) {
    assert_eq!(client.query("Echo.Say", json!("well?")), json!("well?"));
    client.command("Memory.Set", json!({ "key": "alive", "value": 1 }));
}

#[test]
fn a_process_answers_and_hears_events() {
    let program = "
import lib
heard = []
for m in lib.messages():
    if m['kind'] == 'event':
        heard.append(m['data']['key'])
    else:
        lib.reply(m, heard)
";
    let daemon = beside_echo("ears", &["query:Ears.Tell"], program, "subscribes = [\"Memory.Changed\"]");
    let mut client = daemon.connect();
    check_neighbour(&mut client);
    client.command("Memory.Set", json!({ "key": "x", "value": 1 }));
    eventually("the event is heard", || client.query("Ears.Tell", json!(null)) == json!(["alive", "x"]));
    daemon.end();
}

#[test]
fn a_process_in_another_language_is_one_too() {
    let script = r#"while read -r line; do
  id=$(printf '%s' "$line" | sed 's/.*"id":"\([^"]*\)".*/\1/')
  printf '{"kind":"reply","type":"Shell.Ask","data":"sh","metadata":{"id":"r-%s","timestamp":1,"causation":"%s"}}\n' "$id" "$id"
done"#;
    let config = process("shell", &["query:Shell.Ask"], &["sh", "shell.sh"], "");
    let daemon = Daemon::with_files(&config, &[("shell.sh", script)]);
    assert_eq!(daemon.connect().query("Shell.Ask", json!(1)), json!("sh"));
    daemon.end();
}

#[test]
fn a_killed_process_answers_what_it_had_and_comes_back() {
    let program = "import lib, os, time\nlib.serve(lambda m: os.getpid() if m['data'] == 'pid' else time.sleep(1000))\n";
    let daemon = beside_echo("victim", &["query:Victim.Ask"], program, QUICK);
    let mut client = daemon.connect();
    let pid = client.query("Victim.Ask", json!("pid")).as_u64().unwrap();
    client.send(line("query", "Victim.Ask", "held", &json!("sleep")));
    client.send(line("query", "Victim.Ask", "waits", &json!("pid")));
    eventually("it has the request in its hands", || {
        daemon.connect().query("Sys.Actors", json!({}))["actors"].as_array().unwrap().iter().any(|actor| {
            actor["capabilityId"] == json!("victim")
                && actor["inFlight"] == json!(1)
                && actor["mailbox"] == json!(1)
        })
    });
    signal_process(pid as u32, "KILL");
    let outcome = client.receive();
    assert_eq!((code(&outcome), &outcome["metadata"]["causation"]), (502, &json!("held")));
    assert_eq!(outcome["data"]["started"], json!("yes"));
    assert!(outcome["data"]["message"].as_str().unwrap().contains("signal 9"), "{outcome}");
    let next = client.receive();
    assert_eq!(next["metadata"]["causation"], json!("waits"), "what waited goes to the next life");
    assert_ne!(next["data"], json!(pid));
    check_neighbour(&mut client);
    daemon.end();
}

#[test]
fn what_a_process_said_before_it_ended_is_heard() {
    let program =
        "import lib, os\nfor m in lib.messages():\n    lib.reply(m, 'last words')\n    os._exit(5)\n";
    let daemon = beside_echo("brief", &["query:Brief.Ask"], program, QUICK);
    let mut client = daemon.connect();
    client.subscribe(&["Sys.ActorCrash"]);
    client.send(line("query", "Brief.Ask", "b-1", &json!(1)));
    let mut both = [client.receive(), client.receive()];
    both.sort_by_key(|message| message["kind"].to_string());
    let [crash, reply] = both;
    assert_eq!((&reply["kind"], &reply["data"]), (&json!("reply"), &json!("last words")));
    assert!(crash["data"]["message"].as_str().unwrap().contains("exit code 5"), "{crash}");
    daemon.end();
}

#[test]
fn all_that_a_process_said_before_it_ended_is_heard_at_the_usual_pace() {
    let program = "
import fcntl, lib, os, sys
fcntl.fcntl(1, 1031, 1 << 20)
for m in lib.messages():
    for n in range(3000):
        lib.say('event', 'Brief.Noted', n, m)
    lib.reply(m, 'that was all')
    os._exit(0)
";
    let daemon = beside_echo("brief", &["query:Brief.Ask"], program, QUICK);
    let mut client = daemon.connect();
    client.subscribe(&["Brief.Noted"]);
    client.send(line("query", "Brief.Ask", "b-1", &json!(1)));
    let (mut next, mut replied) = (0, false);
    while next < 3000 || !replied {
        let message = client.receive();
        if message["kind"] == json!("event") {
            assert_eq!(message["data"], json!(next));
            next += 1;
        } else {
            assert_eq!(message["data"], json!("that was all"), "{message}");
            replied = true;
        }
    }
    assert_eq!(daemon.stats()["counters"]["actorFaults"], json!(0));
    daemon.end();
}

#[test]
fn a_crash_loop_ends_in_an_unhealthy_capability_that_answers_at_once() {
    let program = "import sys\nsys.stderr.write('no good\\n')\nsys.exit(1)\n";
    let daemon = beside_echo("broken", &["query:Broken.Ask"], program, QUICK);
    let mut client = daemon.connect();
    eventually("it is unhealthy", || {
        client.query("Sys.Actors", json!({}))["actors"]
            .as_array()
            .unwrap()
            .iter()
            .any(|actor| actor["capabilityId"] == json!("broken") && actor["state"] == json!("unhealthy"))
    });
    assert_eq!(code(&client.ask("query", "Broken.Ask", json!(1))), 503);
    check_neighbour(&mut client);
    let log = daemon.log();
    assert!(log.contains("broken | no good"), "{log}");
    daemon.end();
}

#[test]
fn a_process_that_hangs_costs_its_requester_a_timeout_and_is_restarted() {
    let program =
        "import lib, time\nlib.serve(lambda m: time.sleep(1000) if m['data'] == 'hang' else 'fine')\n";
    let config = "[timeouts]\nhang = \"200ms\"\n".to_owned()
        + &process("echo", &["query:Echo.Say"], &["python3", "echo.py"], "")
        + &process("hanger", &["query:Hanger.Ask"], &["python3", "tested.py"], QUICK);
    let echo = "import lib\nlib.serve(lambda m: m['data'])\n";
    let daemon = with_programs(&config, &[("echo.py", echo), ("tested.py", program)]);
    let mut client = daemon.connect();
    client.send(line_with("query", "Hanger.Ask", "h-1", &json!("hang"), &json!({ "timeout": 100 })));
    let outcome = client.receive();
    assert_eq!((code(&outcome), &outcome["data"]["started"]), (504, &json!("yes")));
    check_neighbour(&mut client);
    assert_eq!(client.query("Hanger.Ask", json!("again")), json!("fine"));
    daemon.end();
}

#[test]
fn faults_of_every_kind_end_the_life_and_not_the_neighbours() {
    let deeds = [
        ("garbage", "print('Segmentation fault')"),
        ("endless", "\nwhile True: sys.stdout.write('x' * 65536)"),
        ("unasked", "lib.say('reply', 'Bad.Ask', 1, {'metadata': {'id': 'never-asked'}})"),
        ("reserved", "lib.say('event', 'Sys.Fake', 1, m)"),
        ("binary", "os.write(1, bytes(range(128, 256)) + b'\\n')"),
        ("twice", "lib.reply(m, 1); lib.reply(m, 2)"),
        ("mark", "sys.stdout.write('\\ufeff'); lib.reply(m, 1)"),
        ("nothing", "sys.stdout.write('\\0'); lib.reply(m, 1)"),
        ("half", "\nsys.stdout.write('{\"kind\":\"re')\nsys.stdout.flush()\nos._exit(0)"),
    ];
    for (name, deed) in deeds {
        let program = format!(
            "import lib, os, sys, time\nfor m in lib.messages():\n    if m['data'] == 'now':\n        {}\n        sys.stdout.flush()\n        time.sleep(1000)\n    lib.reply(m, 'fine')\n",
            deed.replace('\n', "\n        ")
        );
        let daemon = beside_echo("bad", &["query:Bad.Ask"], &program, QUICK);
        let mut client = daemon.connect();
        client.subscribe(&["Sys.ActorFault"]);
        client.send(line("query", "Bad.Ask", "b-1", &json!("now")));
        let fault = client.event("Sys.ActorFault");
        assert_eq!(fault["data"]["capabilityId"], json!("bad"), "{name}: {fault}");
        check_neighbour(&mut client);
        assert_eq!(client.query("Bad.Ask", json!("again")), json!("fine"), "{name}");
        daemon.end();
    }
}

#[test]
fn a_process_that_speaks_without_reading_is_held_back_and_not_the_others() {
    let program = "
import lib
n = 0
while True:
    n += 1
    lib.say('event', 'Loud.Noise', n)
";
    let daemon = beside_echo("loud", &["query:Loud.Ask"], program, "uncaused = true");
    let mut client = daemon.connect();
    for _ in 0..50 {
        check_neighbour(&mut client);
    }
    client.send(line_with("query", "Loud.Ask", "l-1", &json!(1), &json!({ "timeout": 100 })));
    assert_eq!(code(&client.receive()), 504);
    assert!(daemon.resident_bytes() < 300 << 20);
    assert_eq!(daemon.stats()["counters"]["actorFaults"], json!(0), "it is slow, not at fault");
    daemon.end();
}

#[test]
fn a_process_that_does_not_read_is_given_no_more_and_its_neighbours_are_served() {
    let program = "import lib, time\nm = next(lib.messages())\nlib.reply(m, 'ready')\ntime.sleep(1000)\n";
    let daemon = beside_echo("deaf", &["query:Deaf.Ask"], program, "subscribes = [\"App.Noise\"]\n");
    let mut client = daemon.connect();
    assert_eq!(client.query("Deaf.Ask", json!(1)), json!("ready"));
    let noise = json!("n".repeat(10_000));
    for n in 0..3000 {
        client.send(line("event", "App.Noise", &format!("n-{n}"), &noise));
    }
    check_neighbour(&mut client);
    let actors = client.query("Sys.Actors", json!({}));
    let deaf: Vec<&Value> = actors["actors"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|actor| actor["capabilityId"] == json!("deaf"))
        .collect();
    assert_eq!(deaf[0]["blocked"], json!(true), "{deaf:?}");
    assert!(daemon.resident_bytes() < 300 << 20);
    daemon.end();
}

#[test]
fn a_process_that_closes_a_stream_and_goes_on_is_ended() {
    for (stream, expected) in [("1", "closed its standard output"), ("0", "closed its standard input")] {
        let program = format!(
            "import lib, os, time\nm = next(lib.messages())\nlib.reply(m, 1)\nos.close({stream})\ntime.sleep(1000)\n"
        );
        let daemon = beside_echo("closer", &["query:Closer.Ask"], &program, QUICK);
        let mut client = daemon.connect();
        client.subscribe(&["Sys.ActorCrash"]);
        client.query("Closer.Ask", json!(1));
        client.send(line("query", "Closer.Ask", "c-2", &json!(2)));
        let crash = client.event("Sys.ActorCrash");
        assert!(crash["data"]["message"].as_str().unwrap().contains(expected), "{crash}");
        check_neighbour(&mut client);
        daemon.end();
    }
}

#[test]
fn a_process_that_closes_a_stream_is_ended_though_nobody_asks_it_anything() {
    for (streams, expected) in [("1", "standard output"), ("0", "standard input"), ("0, 1", "and went on")] {
        let program =
            format!("import lib, os, time\nfor stream in [{streams}]: os.close(stream)\ntime.sleep(1000)\n");
        let daemon = beside_echo("closer", &["query:Closer.Ask"], &program, QUICK);
        eventually("that is told", || daemon.log().contains("Sys.ActorCrash"));
        assert!(daemon.log().contains(expected), "{}", daemon.log());
        check_neighbour(&mut daemon.connect());
        daemon.end();
    }
}

#[test]
fn a_process_that_complains_without_end_still_answers_and_is_logged_within_measure() {
    for (name, deed) in [("lines", "os.write(2, b'no\\n' * 10000)"), ("line", "os.write(2, b'x' * 65536)")] {
        let program = format!(
            "import lib, os, threading\ndef complain():\n    while True: {deed}\nthreading.Thread(target=complain, daemon=True).start()\nlib.serve(lambda m: 'fine')\n"
        );
        let daemon = beside_echo("loud", &["query:Loud.Ask"], &program, "");
        let mut client = daemon.connect();
        for _ in 0..20 {
            assert_eq!(client.query("Loud.Ask", json!(1)), json!("fine"), "{name}");
            check_neighbour(&mut client);
        }
        eventually("something is logged", || daemon.log().contains("loud | "));
        // As often as a life of this length may, and many times less than it wrote.
        let lines = daemon.log().lines().filter(|line| line.contains("loud")).count();
        assert!(lines < 5000, "{name}: {lines}");
        assert!(daemon.resident_bytes() < 300 << 20);
        daemon.end();
    }
}

#[test]
fn lines_that_are_held_back_are_counted_in_the_log_without_another_line_and_at_the_end() {
    let flood = "import lib, sys\ndef answer(m):\n    sys.stderr.write('again\\n' * 150)\n    sys.stderr.flush()\n    return 1\nlib.serve(answer)\n";
    let config = process("flood", &["query:Flood.Ask"], &["python3", "flood.py"], "");
    let mut daemon = with_programs(&config, &[("flood.py", flood)]);
    let mut client = daemon.connect();
    client.query("Flood.Ask", json!(1));
    eventually("what was left out is told", || daemon.log().contains("(50 more lines on standard error)"));
    // The second is over: a hundred lines again, and the rest is told before the process is
    // forgotten.
    client.query("Flood.Ask", json!(2));
    daemon.signal("TERM");
    assert!(daemon.wait().success());
    let log = daemon.log();
    assert_eq!(log.matches("(50 more lines on standard error)").count(), 2, "{log}");
}

#[test]
fn nothing_that_a_process_started_outlives_it() {
    let program = "
import lib, os, subprocess
same = subprocess.Popen(['env', '-i', 'sleep', '1000'])
away = subprocess.Popen(['setsid', 'sleep', '1000'])
import time
while True:
    try:
        name = open('/proc/%d/comm' % away.pid).read().strip()
        if name == 'sleep' and os.getsid(away.pid) == away.pid:
            break
    except OSError:
        pass
    time.sleep(0.01)
lib.serve(lambda m: [os.getpid(), same.pid, away.pid])
";
    let daemon = beside_echo("parent", &["query:Parent.Ask"], program, QUICK);
    let mut client = daemon.connect();
    let family = |answer: Value| -> Vec<u32> {
        answer.as_array().unwrap().iter().map(|pid| pid.as_u64().unwrap() as u32).collect()
    };
    let first = family(client.query("Parent.Ask", json!(1)));
    signal_process(first[0], "KILL");
    eventually("the first family is gone", || first.iter().all(|pid| !is_alive(*pid)));
    let second = family(client.query("Parent.Ask", json!(2)));
    let pid = daemon.pid();
    daemon.end();
    assert!(second.iter().all(|pid| !is_alive(*pid)), "the second family is still there");
    assert!(!is_alive(pid));
}

#[test]
fn an_orphan_without_its_tag_that_keeps_the_output_open_is_ended() {
    let program = "
import lib, os, subprocess
for m in lib.messages():
    if m['data'] == 'die':
        os._exit(3)
    command = 'echo $$ > orphan; sleep 1000; true'
    subprocess.Popen(['setsid', 'env', '-i', '/bin/sh', '-c', command], stdin=subprocess.DEVNULL)
    while not os.path.exists('orphan') or not open('orphan').read().endswith('\\n'):
        pass
    lib.reply(m, int(open('orphan').read()))
";
    let daemon = beside_echo("parent", &["query:Parent.Ask"], program, QUICK);
    let mut client = daemon.connect();
    let orphan = client.query("Parent.Ask", json!("bear")).as_u64().unwrap() as u32;
    assert_eq!(code(&client.ask("query", "Parent.Ask", json!("die"))), 502);
    eventually("the orphan is gone", || !is_alive(orphan));
    daemon.end();
}

#[test]
fn children_die_with_a_daemon_that_is_killed() {
    let program = "import lib, os\nlib.serve(lambda m: os.getpid())\n";
    let mut daemon = beside_echo("child", &["query:Child.Ask"], program, "");
    let pid = daemon.connect().query("Child.Ask", json!(1)).as_u64().unwrap() as u32;
    daemon.signal("KILL");
    daemon.wait();
    eventually("the child is gone", || !is_alive(pid));
}

#[test]
fn the_system_holds_a_process_to_its_limits() {
    let program = "import lib, resource\nlib.serve(lambda m: [resource.getrlimit(resource.RLIMIT_NOFILE)[0], resource.getrlimit(resource.RLIMIT_AS)[0]])\n";
    let config = process("limited", &["query:Limited.Ask"], &["python3", "tested.py"], "")
        + "limits = { memory = \"512MiB\", files = 33 }\n";
    let daemon = with_programs(&config, &[("tested.py", program)]);
    assert_eq!(daemon.connect().query("Limited.Ask", json!(1)), json!([33, 512 << 20]));
    daemon.end();
}

#[test]
fn a_thousand_restarts_under_load_answer_every_request() {
    const REQUESTS: usize = 3000;
    // A process that starts quickly: a thousand starts of Python would be a test of Python.
    let quick = "restart = { backoff_ms = 0, max_restarts = 100000, window_ms = \"1m\" }";
    let script = r#"while read -r line; do
  n=${line#*'"data":'}; n=${n%%[,\}]*}
  id=${line#*'"id":"'}; id=${id%%'"'*}
  case $((n % 3)) in 0) exit 1;; esac
  printf '{"kind":"reply","type":"Mortal.Ask","data":%s,"metadata":{"id":"r-%s","timestamp":1,"causation":"%s"}}\n' "$n" "$id" "$id"
done"#;
    // All requests wait from the start, however slow the machine is.
    let config = "[timeouts]\ndefault = \"10m\"\n".to_owned()
        + &process("mortal", &["query:Mortal.Ask"], &["sh", "mortal.sh"], quick);
    let daemon = Daemon::with_files(&config, &[("mortal.sh", script)]);
    let mut client = daemon.connect();
    let mut neighbour = daemon.connect();
    let many: String =
        (0..REQUESTS).map(|n| line("query", "Mortal.Ask", &format!("q-{n}"), &json!(n))).collect();
    let mut writer = client.stream.try_clone().unwrap();
    let sending =
        std::thread::spawn(move || std::io::Write::write_all(&mut writer, many.as_bytes()).unwrap());
    let mut outcomes = vec![None; REQUESTS];
    for seen in 0..REQUESTS {
        let answer = client.receive();
        let n: usize = answer["metadata"]["causation"].as_str().unwrap()[2..].parse().unwrap();
        assert_eq!(outcomes[n], None, "one outcome each");
        assert_eq!(answer["kind"] == json!("reply"), !n.is_multiple_of(3), "{answer}");
        outcomes[n] = Some(());
        if seen % 100 == 0 {
            neighbour.command("Memory.Set", json!({ "key": "alive", "value": seen }));
        }
    }
    sending.join().unwrap();
    let restarts = daemon.stats()["counters"]["actorCrashes"].as_u64().unwrap();
    assert_eq!(restarts, 1000);
    eventually("the last life is up", || daemon.children() == 1);
    assert!(daemon.descriptors() < 40, "{} descriptors are open", daemon.descriptors());
    assert!(daemon.resident_bytes() < 100 << 20, "{} bytes", daemon.resident_bytes());
    daemon.end();
}

#[test]
fn processes_killed_under_load_answer_every_request_once() {
    const REQUESTS: usize = 2000;
    let quick = "restart = { backoff_ms = 0, max_restarts = 100000, window_ms = \"1m\" }";
    let daemon = beside_echo(
        "victim",
        &["query:Victim.Ask"],
        "import lib, os\nlib.serve(lambda m: os.getpid())\n",
        quick,
    );
    let mut client = daemon.connect();
    let mut neighbour = daemon.connect();
    let many: String =
        (0..REQUESTS).map(|n| line("query", "Victim.Ask", &format!("k-{n}"), &json!(n))).collect();
    let mut writer = client.stream.try_clone().unwrap();
    let sending =
        std::thread::spawn(move || std::io::Write::write_all(&mut writer, many.as_bytes()).unwrap());
    let (mut seen, mut failed) = (std::collections::BTreeSet::new(), 0);
    for n in 0..REQUESTS {
        let answer = client.receive();
        assert!(seen.insert(answer["metadata"]["causation"].to_string()), "a second outcome: {answer}");
        match answer["data"].as_u64() {
            Some(pid) if n % 100 == 50 => {
                // It may have been killed already, by the round before.
                let _ = std::process::Command::new("kill").args(["-KILL", &pid.to_string()]).output();
                check_neighbour(&mut neighbour);
            }
            Some(_) => {}
            None => {
                assert_eq!(code(&answer), 502);
                failed += 1;
            }
        }
    }
    sending.join().unwrap();
    assert!((1..=20).contains(&failed), "{failed} requests were in the hands of a process that was killed");
    daemon.end();
}
