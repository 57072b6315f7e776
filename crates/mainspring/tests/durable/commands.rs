//! `mainspring journal`, and what other commands say of a journal.

use crate::place::Place;
use crate::support::{eventually, line};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn filled() -> Place {
    let place = Place::with_ledger("");
    let running = place.up();
    let mut client = running.connect();
    // The start has a batch of its own, which a test damages.
    eventually("the start is on disk", || {
        client.query("Sys.Stats", json!({}))["floors"]["journal"]["facts"] == json!(1)
    });
    client.command("Memory.Set", json!({ "key": "colour", "value": "blue" }));
    client.send(line("command", "Ledger.Write", "order-1", &json!({ "n": 1 })));
    assert_eq!(client.receive()["kind"], "reply");
    running.end();
    place
}

#[test]
fn a_journal_is_checked_shown_and_exported() {
    let place = filled();
    let checked = place.run(&["journal", "check"]);
    assert!(checked.status.success(), "{}", text(&checked.stderr));
    let said = text(&checked.stdout);
    assert!(said.contains("all is well") && said.contains("2 answers") && said.contains("1 keys"), "{said}");
    let found: Value = serde_json::from_slice(&place.run(&["journal", "check", "--json"]).stdout).unwrap();
    assert_eq!((&found["torn"], &found["state"]["keys"]), (&Value::Null, &json!(1)));
    let exported = text(&place.run(&["journal", "export"]).stdout);
    let facts: Vec<Value> = exported.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<&str> = facts.iter().map(|fact| fact["fact"].as_str().unwrap()).collect();
    assert_eq!(names, ["started", "put", "ended", "accepted", "delivered", "ended", "stopped"]);
    assert_eq!(facts[3]["message"]["data"], json!({ "n": 1 }));
    assert!(facts.windows(2).all(|pair| pair[0]["number"].as_u64() < pair[1]["number"].as_u64()));
    let tail = text(&place.run(&["journal", "tail", "-n", "2"]).stdout);
    assert_eq!(tail.lines().count(), 2, "{tail}");
    assert!(tail.contains("reply Ledger.Write"), "{tail}");
    let chosen = text(&place.run(&["journal", "tail", "--types", "Ledger.*", "--json"]).stdout);
    assert_eq!(chosen.lines().count(), 2, "{chosen}");
    let none = text(&place.run(&["journal", "export", "--since", "0s"]).stdout);
    assert_eq!(none, "");
}

/// Flips a bit in the page with the first fact.
fn damage(place: &Place) {
    let name = place.path("journal/0000000000000001.segment");
    let mut bytes = std::fs::read(&name).unwrap();
    let started = (1..20).find(|page| bytes[page * 4096 + 12] > 0).unwrap();
    bytes[started * 4096 + 70] ^= 1;
    std::fs::write(&name, bytes).unwrap();
}

#[test]
fn j2_2_tail_export_and_replay_took_damage_for_the_end_and_succeeded() {
    let place = filled();
    damage(&place);
    let replay: &[&str] = &["journal", "replay", "--types", "*", "--dry-run"];
    for command in [&["journal", "tail"], &["journal", "export"], replay] {
        let run = place.run(command);
        let said = text(&run.stderr);
        assert_eq!(run.status.code(), Some(1), "{command:?}: {said}");
        assert!(said.contains("0000000000000001.segment is damaged at offset"), "{command:?}: {said}");
    }
}

#[test]
fn what_is_whole_of_a_damaged_journal_becomes_a_new_one() {
    let place = filled();
    damage(&place);
    let saved = place.run(&["journal", "salvage", "journal", "saved"]);
    assert!(saved.status.success(), "{}", text(&saved.stderr));
    assert!(text(&saved.stdout).contains("missing: facts 1 to"), "{}", text(&saved.stdout));
    let again = place.run(&["journal", "salvage", "journal", "saved"]);
    assert_eq!(again.status.code(), Some(2), "there is one already");
    std::fs::rename(place.path("journal"), place.path("damaged")).unwrap();
    std::fs::rename(place.path("saved"), place.path("journal")).unwrap();
    let running = place.up();
    assert_eq!(running.connect().query("Memory.Get", json!({ "key": "colour" }))["value"], "blue");
    running.end();
}

#[test]
fn j2_2_salvage_changed_the_journal_that_it_refused_to_write_to() {
    let place = filled();
    assert!(place.run(&["journal", "salvage", "journal", "saved"]).status.success());
    let before = place.journal();
    std::fs::create_dir(place.path("empty")).unwrap();
    std::fs::set_permissions(place.path("empty"), std::fs::Permissions::from_mode(0o700)).unwrap();
    for (from, to) in
        [("saved", "journal"), ("journal", "journal"), ("journal", "./journal/"), ("empty", "empty")]
    {
        let refused = place.run(&["journal", "salvage", from, to]);
        assert_eq!(refused.status.code(), Some(2), "{from} to {to}: {}", text(&refused.stderr));
    }
    assert!(before == place.journal(), "it was changed");
    assert_eq!(std::fs::read_dir(place.path("empty")).unwrap().count(), 0);
}

#[test]
fn commands_are_sent_again_only_when_somebody_says_which() {
    let place = filled();
    let running = place.up();
    assert_eq!(place.run(&["journal", "replay"]).status.code(), Some(2));
    let shown = place.run(&["journal", "replay", "--types", "Ledger.*", "--dry-run"]);
    assert!(text(&shown.stdout).contains("order-1") && place.book().len() == 1);
    let sent = place.run(&["journal", "replay", "--id", "order-1"]);
    assert!(sent.status.success(), "{}", text(&sent.stderr));
    let book = place.book();
    assert_eq!(book.len(), 2);
    assert_ne!(book[1].0, "order-1", "it has an id of its own");
    running.end();
    let exported = text(&place.run(&["journal", "export", "--types", "Ledger.Write"]).stdout);
    assert!(exported.contains(r#""causation":"order-1""#), "{exported}");
}

#[test]
fn commands_about_a_journal_that_is_not_there_say_so() {
    let place = Place::new("");
    let checked = place.run(&["journal", "check"]);
    assert_eq!(checked.status.code(), Some(2));
    assert!(text(&checked.stderr).contains("mainspring.toml names none"), "{}", text(&checked.stderr));
    let checked = place.run(&["journal", "check", "nowhere"]);
    assert_eq!(checked.status.code(), Some(1));
}

#[test]
fn a_new_project_is_durable_and_git_leaves_its_journal_alone() {
    let place = Place::new("");
    std::fs::remove_file(place.path("mainspring.toml")).unwrap();
    let made = place.run(&["new", "capability", "greeter", "--lang", "shell"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let config = std::fs::read_to_string(place.path("mainspring.toml")).unwrap();
    assert!(config.contains("[journal]\nfolder = \"journal\""), "{config}");
    let ignored = std::fs::read_to_string(place.path(".gitignore")).unwrap();
    assert!(ignored.lines().any(|line| line == "/journal/"), "{ignored}");
}

#[test]
fn j1_6_the_summary_says_where_the_journal_is_or_that_nothing_is_kept() {
    let said = |config: &str, wanted: &str| {
        let place = Place::new(config);
        let mut child = crate::support::mainspring()
            .args(["up", "--socket", "socket"])
            .current_dir(place.path(""))
            .stdin(std::process::Stdio::null())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let output = std::io::BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            std::io::BufRead::lines(output).map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        let next = || lines.recv_timeout(crate::support::PATIENCE).ok();
        let found = std::iter::from_fn(next).any(|line| line.contains(wanted));
        child.kill().unwrap();
        child.wait().unwrap();
        found
    };
    assert!(said("", "no journal: nothing is kept when the daemon ends"));
    assert!(said("[journal]\nfolder = 'journal'\n", "journal       journal"));
}
