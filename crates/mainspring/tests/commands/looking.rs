//! `describe`, `timers`, `dead-letters`, `completions`, `--help` and `--version`.

use crate::fake::{command, stderr, stdout};
use crate::real::Real;
use serde_json::{Value, json};
use std::process::Stdio;

#[test]
fn describe_tells_everything_one_capability_and_one_type() {
    let daemon = Real::start("");
    let all = daemon.ok(&["describe"]);
    for words in [
        "Memory: ",
        "  command         Memory.Set\n",
        "  query           Memory.Get\n",
        "The daemon itself:\n",
        "Timer.Schedule",
    ] {
        assert!(all.contains(words), "{words}: {all}");
    }
    let one = daemon.ok(&["describe", "Memory.Get"]);
    assert!(one.starts_with("query Memory.Get (Memory)\n") && one.contains("\ndata:\n{\n"), "{one}");
    assert!(one.contains("\ndata of the reply:\n"), "{one}");
    let builtin = daemon.ok(&["describe", "Sys.DeadLetters"]);
    assert!(
        builtin.contains("query Sys.DeadLetters (the daemon)")
            && builtin.contains("command Sys.DeadLetters (the daemon)")
    );
    let help = daemon.ok(&["describe", "--help"]);
    assert!(help.contains("--capability Memory "), "{help}");
    let capability = daemon.ok(&["describe", "--capability", "Memory"]);
    for words in ["\ntakes:\n  command  Memory.Set ", "\nemits:\n  event  Memory.Changed "] {
        assert!(capability.contains(words), "{words:?}: {capability}");
    }
    assert!(daemon.ok(&["describe", "--capability", "Memory", "--json"]).contains("\"outbound\""));
    let event = daemon.ok(&["describe", "Memory.Changed"]);
    assert!(event.starts_with("event Memory.Changed (Memory)\n") && event.contains("\ndata:\n{"), "{event}");
    let near = daemon.run(&["describe", "Memory.Chnged"]);
    assert!(stderr(&near).contains("did you mean Memory.Changed"), "{}", stderr(&near));
    let data: Value = serde_json::from_str(&daemon.ok(&["describe", "--json"])).unwrap();
    assert!(data["capabilities"].is_array());
    let unknown = daemon.run(&["describe", "No.Such"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(stderr(&unknown).contains("(404)"), "{}", stderr(&unknown));
}

#[test]
fn timers_are_listed_and_cancelled() {
    let daemon = Real::start("");
    assert_eq!(daemon.ok(&["timers"]), "no timers\n");
    let schedule = json!({ "timerId": "nightly", "repeat": 86_400_000, "message": { "kind": "event", "type": "App.Night", "data": 1 } });
    daemon.ok(&["send", "Timer.Schedule", &schedule.to_string()]);
    let listing = daemon.ok(&["timers"]);
    let row = listing.lines().nth(1).unwrap();
    assert!(row.starts_with("nightly") && row.contains("App.Night") && row.contains("for ever"), "{listing}");
    daemon.ok(&["timers", "--cancel", "nightly"]);
    assert_eq!(daemon.ok(&["timers"]), "no timers\n");
    let again = daemon.run(&["timers", "--cancel", "nightly"]);
    assert_eq!(again.status.code(), Some(1), "{}", stdout(&again));
}

/// A capability that ends over every command.
const FRAGILE: &str = "[[capability]]
id = 'fragile'
description = 'Breaks.'
inbound = { properties = { kind = { const = 'command' }, type = { const = 'App.Break' } } }
program = { process = ['sh', '-c', 'read line; exit 1'] }
restart = { max_restarts = 100, backoff_ms = 1 }
";

#[test]
fn dead_letters_are_listed_shown_sent_again_and_dropped() {
    let daemon = Real::start(FRAGILE);
    assert_eq!(daemon.ok(&["dead-letters"]), "no dead letters\n");
    let crash = || {
        let output = daemon.run(&["send", "App.Break", "{\"n\": 1.50}"]);
        assert!(stderr(&output).contains("Sys.ActorCrash (502)"), "{}", stderr(&output));
        assert!(stderr(&output).contains("effects may have happened"), "{}", stderr(&output));
    };
    crash();
    crash();
    let data: Value = serde_json::from_str(&daemon.ok(&["dead-letters", "--json"])).unwrap();
    let numbers: Vec<u64> =
        data["letters"].as_array().unwrap().iter().map(|letter| letter["number"].as_u64().unwrap()).collect();
    assert_eq!(numbers.len(), 2);
    let listing = daemon.ok(&["dead-letters", "list"]);
    assert!(listing.lines().nth(1).unwrap().contains("command  App.Break"), "{listing}");
    let first = numbers[0].to_string();
    let shown = daemon.ok(&["dead-letters", "show", &first]);
    assert!(shown.contains("{\"n\": 1.50}"), "{shown}");
    // It fails again, and that is told.
    let again = daemon.run(&["dead-letters", "requeue", &first]);
    assert_eq!(again.status.code(), Some(1));
    let words = format!("{first} sent again as ");
    assert!(
        stdout(&again).starts_with(&words) && stdout(&again).contains(": failed again: "),
        "{}",
        stdout(&again)
    );
    let second = numbers[1].to_string();
    assert_eq!(daemon.ok(&["dead-letters", "drop", &second]), "1 dropped\n");
    let gone = daemon.run(&["dead-letters", "show", &second]);
    assert_eq!(gone.status.code(), Some(1));
    daemon.ok(&["dead-letters", "drop", "--all"]);
    let nothing = daemon.run(&["dead-letters", "drop"]);
    assert_eq!(nothing.status.code(), Some(2));
}

/// A capability that reads and never answers.
const STUCK: &str = "[[capability]]
id = 'stuck'
description = 'Never answers.'
inbound = { properties = { kind = { const = 'command' }, type = { const = 'App.Wait' } } }
program = { process = ['sh', '-c', 'cat > /dev/null'] }
";

#[test]
fn a_stuck_actor_does_not_look_healthy() {
    let daemon = Real::start(STUCK);
    let late = daemon.run(&["send", "App.Wait", "--timeout", "50ms"]);
    assert!(stderr(&late).contains("Sys.Timeout (504)"), "{}", stderr(&late));
    for name in ["actors", "top"] {
        let page = daemon.ok(&[name]);
        // Columns are two spaces apart; a name may have one within.
        let cells = |line: &str| -> Vec<String> {
            line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(String::from).collect()
        };
        let heading = cells(page.lines().find(|line| line.starts_with("CAPABILITY")).unwrap());
        let row = cells(page.lines().find(|line| line.starts_with("stuck")).unwrap());
        let column = heading.iter().position(|name| name == "OVERDUE").unwrap_or_else(|| panic!("{page}"));
        assert_eq!(row[column], "1", "{page}");
    }
}

/// A capability that prints what is no message, or ends with a traceback; and a door for strangers.
const CLUMSY: &str = "[[listen]]
tcp = '127.0.0.1:0'
tokens = [{ name = 'stranger', token = '0123456789abcdef' }]
[[capability]]
id = 'clumsy'
description = 'Fails.'
inbound = { properties = { kind = { const = 'command' }, type = { enum = ['App.Print', 'App.Raise'] } } }
program = { process = ['python3', 'clumsy.py'] }
restart = { max_restarts = 100, backoff_ms = 1 }
";

const CLUMSY_PROGRAM: &str = "import sys
for line in sys.stdin:
    if 'App.Print' in line:
        print('got here', flush=True)
    else:
        raise ValueError('no such thing')
";

#[test]
fn an_error_names_the_capability_and_tells_its_owner_what_it_wrote() {
    let daemon = Real::start_with(CLUMSY, |folder| {
        std::fs::write(folder.join("clumsy.py"), CLUMSY_PROGRAM).unwrap();
    });
    for (type_name, words, quote) in [
        (
            "App.Print",
            "mainspring: Sys.ActorFault (502): clumsy failed over the request: an invalid message: not JSON at byte 0",
            "standard output is for messages: print to standard error; the line was \"got here\"",
        ),
        (
            "App.Raise",
            "mainspring: Sys.ActorCrash (502): clumsy failed over the request: it ended with exit code 1",
            "\"ValueError: no such thing\"; it had been started",
        ),
    ] {
        let told = daemon.run(&["send", type_name, "--timeout", "30s"]);
        assert!(stderr(&told).starts_with(words), "{}", stderr(&told));
        assert!(stderr(&told).contains(quote), "{}", stderr(&told));
        let mut stranger = daemon.command(&["send", type_name, "--timeout", "30s", "--tcp", daemon.tcp()]);
        let told = stranger.env("MAINSPRING_TOKEN", "0123456789abcdef").output().unwrap();
        assert!(stderr(&told).starts_with(words), "{}", stderr(&told));
        let text = stderr(&told);
        assert!(!text.contains("got here") && !text.contains("ValueError"), "it may be of others: {text}");
    }
    let letters = daemon.ok(&["dead-letters", "--json"]);
    assert!(!letters.contains("got here") && !letters.contains("ValueError"), "{letters}");
}

#[test]
fn every_command_has_help_with_examples() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let output = command(arguments, folder.path()).stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
        stdout(&output).to_owned()
    };
    let help = run(&["--help"]);
    let listed = help.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let names: Vec<&str> = listed
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    assert!(names.contains(&"up") && names.contains(&"dead-letters"), "{names:?}");
    for name in names {
        let help = run(&[name, "--help"]);
        assert!(
            help.contains(&format!("Examples:\n  mainspring {name}")) || help.contains("Examples:\n"),
            "{name}: {help}"
        );
    }
    assert!(run(&["--version"]).starts_with("mainspring 0."));
    for shell in ["bash", "zsh", "fish"] {
        assert!(run(&["completions", shell]).contains("_MAINSPRING_COMPLETE"), "{shell}");
    }
}

/// Whether a line of prose was broken before it was full.
fn is_broken_early(line: &str, next: &str, width: usize) -> bool {
    let word = next.split(' ').next().unwrap_or_default();
    let is_prose = |line: &str| !line.is_empty() && !line.starts_with(' ') && !line.ends_with(':');
    is_prose(line) && is_prose(next) && line.chars().count() + 1 + word.chars().count() <= width
}

#[test]
fn help_is_as_wide_as_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    for name in [
        "up",
        "send",
        "query",
        "emit",
        "pipe",
        "watch",
        "describe",
        "actors",
        "timers",
        "dead-letters",
        "trace",
        "top",
        "check",
        "bench",
        "new",
        "run",
        "completions",
    ] {
        for width in [70, 80, 100] {
            let mut command = command(&[name, "--help"], folder.path());
            let output = command.env("COLUMNS", width.to_string()).output().unwrap();
            let help = stdout(&output).split("Examples:\n").nth(1).unwrap();
            let lines: Vec<&str> = help.lines().collect();
            for pair in lines.windows(2) {
                assert!(!is_broken_early(pair[0], pair[1], width), "{name}, {width}: {help}");
            }
            if width == 100 {
                let wrapped = |line: &&str| line.starts_with("  ") && !line.contains("mainspring");
                let examples: Vec<&&str> = lines.iter().take_while(|line| !line.is_empty()).collect();
                let broken = examples.iter().find(|line| wrapped(line) && !line.starts_with("      "));
                assert!(broken.is_none(), "{name}: {help}");
            }
        }
    }
}

#[test]
fn help_that_cannot_be_written_is_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    for argument in ["--help", "--version"] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output =
            command(&[argument], folder.path()).stdout(full).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{argument}");
        assert!(stderr(&output).contains("cannot write"), "{}", stderr(&output));
    }
}

#[test]
fn an_event_may_have_the_id_of_another() {
    let daemon = Real::start("");
    for _ in 0..2 {
        daemon.ok(&["emit", "App.Done", "--id", "same", "--correlation", "w"]);
    }
    assert!(daemon.ok(&["trace", "w"]).contains(", 2 messages\n"));
    let help = daemon.ok(&["emit", "--help"]);
    assert!(!help.contains("runs nothing") && help.contains("such as Order.Shipped"), "{help}");
}
