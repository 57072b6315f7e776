//! The commands and a real daemon.

use crate::fake::{stderr, stdout};
use crate::real::Real;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

#[test]
fn a_value_is_set_found_listed_and_deleted() {
    let daemon = Real::start("");
    daemon.ok(&["send", "Memory.Set", r#"{"key":"colour","value":["blue",1.50]}"#]);
    assert_eq!(daemon.ok(&["query", "Memory.Get", r#"{"key":"colour"}"#]), "{\"value\":[\"blue\",1.50]}\n");
    let keys = || {
        let data: serde_json::Value = serde_json::from_str(&daemon.ok(&["query", "Memory.List"])).unwrap();
        data["keys"].clone()
    };
    assert_eq!(keys(), serde_json::json!(["colour"]));
    daemon.ok(&["send", "Memory.Delete", r#"{"key":"colour"}"#]);
    assert_eq!(keys(), serde_json::json!([]));
}

#[test]
fn errors_of_the_daemon_are_told_in_its_own_words() {
    let daemon = Real::start("");
    for (arguments, words) in [
        (&["send", "Nobody.Cares"][..], "Sys.RoutingError (404)"),
        (&["query", "Memory.Get", "{}"], "Sys.SchemaError (422)"),
        (&["emit", "Sys.Mine"], "Sys.ForbiddenError (403)"),
        (&["watch", "not a pattern"], "Sys.SchemaError (422)"),
    ] {
        let output = daemon.run(arguments);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(stderr(&output).contains(words), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn the_same_id_twice_is_done_once() {
    let daemon = Real::start("");
    let set = |value: &str| {
        let data = format!("{{\"key\":\"a\",\"value\":{value}}}");
        daemon.run(&["send", "Memory.Set", &data, "--id", "once"])
    };
    let first = set("1");
    assert_eq!((first.status.code(), set("1").stdout), (Some(0), first.stdout));
    let other = set("2");
    assert_eq!(other.status.code(), Some(1));
    assert!(stderr(&other).contains("Sys.ConflictError (409)"), "{}", stderr(&other));
}

#[test]
fn what_is_emitted_is_watched_with_its_workflow() {
    let daemon = Real::start("");
    let mut watch = daemon.command(&["watch", "App.*", "--correlation", "w", "--count", "3"]);
    let mut child = watch.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let seen = std::thread::spawn(move || {
        let first = lines.next().unwrap().unwrap();
        (first, lines.count())
    });
    // Events before the subscription are not for it, so they are repeated until it has enough.
    while child.try_wait().unwrap().is_none() {
        daemon.ok(&["emit", "App.Done", "7"]);
        daemon.ok(&["emit", "App.Done", "8", "--correlation", "w"]);
    }
    let (first, further) = seen.join().unwrap();
    assert!(first.ends_with("App.Done  8  [w]"), "{first}");
    assert_eq!(further, 2);
}

#[test]
fn actors_are_listed() {
    let daemon = Real::start("");
    let listing = daemon.ok(&["actors"]);
    let row = listing.lines().nth(1).unwrap();
    assert!(row.to_lowercase().starts_with("memory ") && row.contains(" up "), "{listing}");
}

#[test]
fn up_shows_what_is_wrong_with_its_configuration_and_does_not_start() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mainspring.toml"), "[log]\nlevle = 'info'\n").unwrap();
    let output = crate::fake::command(&["up"], folder.path()).output().unwrap();
    assert_eq!((output.status.code(), stdout(&output)), (Some(1), ""));
    let text = stderr(&output);
    assert!(
        text.starts_with(
            "mainspring: the boot failed while reading its files:\nerror: there is no key `levle` here; did you mean `level`?\n --> mainspring.toml:2:1\n"
        ),
        "{text}"
    );
}
