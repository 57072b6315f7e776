//! Screens, compared cell by cell, at the sizes that people have.

use super::asker::{Sample, Told, Wanted};
use super::draw::draw;
use super::keys::Key;
use super::model::{Model, Tab, Then};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

fn actor(id: &str, state: &str, overdue: u64, handled: u64) -> Value {
    json!({ "capabilityId": id, "state": state, "sinceMs": 61_000, "mailbox": 3, "inFlight": 1, "overdue": overdue, "handled": handled,
        "faults": 0, "restartsInWindow": 0, "incarnation": 1, "blocked": false,
        "latencyNs": { "requests": 5, "mean": 3000, "p50": 2500, "p99": 900_000, "max": 1_000_000 } })
}

fn model() -> Model {
    let mut model = Model::new();
    let start = Instant::now();
    for moment in 0..3_u64 {
        let stats = json!({
            "counters": { "requestsAccepted": moment * 500, "requestsFailed": 0, "refused": 0, "eventsAccepted": moment },
            "gauges": { "connections": 2, "userLane": 4, "mailboxes": 3, "inFlight": 2, "overdue": 1, "schedules": 7, "deadLetters": 9 },
            "latencyNs": { "requests": 5, "mean": 3000, "p50": 2500, "p99": 900_000 + moment, "max": 1_000_000 },
            "floors": {
                "daemon": { "version": "0.1.0", "pid": 4711, "uptimeMs": 3_700_000, "memoryBytes": 24 << 20 },
                "loop": { "busy": 0.125, "lagNs": { "last": 1000, "max": 2_000_000 } },
                "actors": { "memory": { "kind": "native", "keys": 3 }, "shop": { "pid": 99, "memoryBytes": 5 << 20, "cpuMs": 1500 } },
            },
        });
        let actors = json!({ "actors": [actor("memory", "up", 0, 10), actor("日本語-ショップ", "up", 0, 700), actor("stuck", "up", 2, 5)] });
        let sample = Sample { at: start + Duration::from_secs(moment), stats, actors };
        model.take(Told::Sample(Box::new(sample))).unwrap();
    }
    model
}

/// The screen of a model, a line each, without the spaces at its end.
fn screen(model: &mut Model, columns: u16, rows: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| draw(frame, model)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let mut lines = Vec::new();
    for y in 0..rows {
        let (mut line, mut x) = (String::new(), 0);
        while x < columns {
            let symbol = buffer[(x, y)].symbol();
            line.push_str(symbol);
            x += u16::try_from(unicode_width::UnicodeWidthStr::width(symbol)).unwrap().max(1);
        }
        lines.push(line.trim_end().to_owned());
    }
    lines
}

fn has(lines: &[String], words: &str) -> bool {
    lines.iter().any(|line| line.contains(words))
}

#[test]
fn the_overview_fits_a_screen_of_80_by_24() {
    let mut model = model();
    let shown = screen(&mut model, 80, 24);
    assert_eq!(shown[0], "mainspring 0.1.0  up 1h01m  process 4711  2 connections");
    assert_eq!(shown[1], " 1 Overview  2 Capabilities  3 Stream  4 Traces  5 Dead letters  6 Timers");
    assert_eq!(shown[2], "rates    requests/s 500   errors/s 0   refused/s 0   events/s 1");
    assert_eq!(shown[3], "waiting  user lane 4   mailboxes 3   working 2   overdue 1");
    assert_eq!(shown[4], "kept     timers 7   dead letters 9   memory 24 MiB");
    assert_eq!(shown[5], "loop     12.5% busy, latest timer 2.0ms late");
    assert!(
        shown[6].contains(" requests/s  500 ") && shown[6].contains(" latency  p99 900us  p50 2.50us "),
        "{shown:#?}"
    );
    assert!(has(&shown, "CAPABILITY"), "{shown:#?}");
    let heading = shown.iter().position(|line| line.starts_with("CAPABILITY")).unwrap();
    let titles: Vec<&str> = shown[heading].split_whitespace().collect();
    assert_eq!(
        titles,
        ["CAPABILITY", "STATE", "FOR", "MAIL", "BUSY", "LATE", "HANDLED", "P50", "P99", "FAULTS"]
    );
    // The sick one first, and wide characters shift nothing.
    assert!(shown[heading + 1].starts_with("stuck"), "{shown:#?}");
    let wide = shown.iter().find(|line| line.starts_with("日本語")).unwrap();
    let column =
        |line: &str, words: &str| unicode_width::UnicodeWidthStr::width(&line[..line.find(words).unwrap()]);
    assert_eq!(column(wide, "up "), column(&shown[heading], "STATE"), "{shown:#?}");
    assert_eq!(column(wide, "700 "), column(&shown[heading], "HANDLED"), "{shown:#?}");
    assert!(shown[23].starts_with("q quit  Tab page  Enter detail  s sort: sick first  r reverse  / filter"));
}

#[test]
fn a_large_screen_shows_more_and_a_tiny_one_does_not_fail() {
    let mut model = model();
    model.press(Key::Character('2'));
    let shown = screen(&mut model, 200, 50);
    assert!(has(&shown, "MEMORY") && has(&shown, "WHY") && has(&shown, "2 overdue requests"), "{shown:#?}");
    for (columns, rows) in [(1, 1), (10, 3), (40, 10), (79, 24), (300, 100)] {
        for tab in '1'..='6' {
            model.press(Key::Character(tab));
            screen(&mut model, columns, rows);
            model.press(Key::Enter);
            screen(&mut model, columns, rows);
            model.press(Key::Escape);
        }
    }
}

#[test]
fn rows_are_selected_scrolled_sorted_and_filtered() {
    let mut model = model();
    model.press(Key::Character('2'));
    let ids = |model: &Model| -> Vec<String> {
        model
            .rows(Tab::Capabilities)
            .iter()
            .map(|row| row["capabilityId"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(ids(&model), ["stuck", "memory", "日本語-ショップ"]);
    // By name, by state, ... and by what was handled, the largest first.
    model.press(Key::Character('s'));
    assert_eq!(ids(&model), ["memory", "stuck", "日本語-ショップ"]);
    model.press(Key::Character('r'));
    assert_eq!(ids(&model), ["日本語-ショップ", "stuck", "memory"]);
    model.press(Key::Character('r'));
    for _ in 0..5 {
        model.press(Key::Character('s'));
    }
    assert_eq!(model.column(Tab::Capabilities).0, "handled");
    assert_eq!(ids(&model), ["日本語-ショップ", "memory", "stuck"]);
    for key in "/stu".chars().map(Key::Character) {
        model.press(key);
    }
    assert_eq!(ids(&model), ["stuck"]);
    // While words are typed, keys are words.
    assert_eq!(model.press(Key::Character('q')), Then::Stay);
    assert!(ids(&model).is_empty());
    assert!(has(&screen(&mut model, 80, 24), "no row has \"stuq\""));
    model.press(Key::Escape);
    assert_eq!(ids(&model).len(), 3);
    for (key, selected) in
        [(Key::Down, 0), (Key::Down, 1), (Key::PageDown, 2), (Key::Up, 1), (Key::First, 0), (Key::Last, 2)]
    {
        model.press(key);
        assert_eq!(model.views[Tab::Capabilities as usize].table.selected(), Some(selected), "{key:?}");
    }
    assert_eq!(model.press(Key::Character('q')), Then::Quit);
}

#[test]
fn a_row_is_shown_in_full_with_what_the_daemon_says_about_it() {
    let mut model = model();
    model.press(Key::Character('2'));
    let asked = Wanted::Logs("stuck".into());
    assert_eq!(model.press(Key::Enter), Then::Ask(asked.clone()));
    assert!(has(&screen(&mut model, 80, 24), " stuck "));
    let lines = json!({ "lines": [{ "number": 1, "at": 1000, "text": "I wait for \u{1b}[2J ever" }], "forgotten": 0 });
    model.take(Told::Page(asked, Ok(lines))).unwrap();
    let shown = screen(&mut model, 80, 50);
    assert!(has(&shown, "I wait for \\u{1b}[2J ever") && has(&shown, "\"overdue\": 2,"), "{shown:#?}");
    for _ in 0..100 {
        model.press(Key::PageDown);
    }
    screen(&mut model, 80, 24);
    assert_eq!(model.press(Key::Escape), Then::Ask(Wanted::Nothing));
    assert!(model.detail.is_none());
}

#[test]
fn lists_are_asked_for_while_they_are_in_front() {
    let mut model = model();
    assert_eq!(model.press(Key::Character('5')), Then::Ask(Wanted::DeadLetters));
    assert!(has(&screen(&mut model, 80, 24), "no dead letters"));
    let letters = json!({ "letters": [{ "number": 7, "timestamp": 1000, "reason": "nobody handles it", "attempts": 2, "kind": "event", "type": "A.B" }] });
    model.take(Told::Page(Wanted::DeadLetters, Ok(letters))).unwrap();
    let shown = screen(&mut model, 80, 24);
    assert!(has(&shown, "A.B") && has(&shown, "nobody handles it"), "{shown:#?}");
    assert_eq!(model.press(Key::Enter), Then::Ask(Wanted::DeadLetter(7)));
    assert_eq!(model.press(Key::NextTab), Then::Ask(Wanted::Timers));
    model.take(Told::Page(Wanted::Timers, Err("Sys.ForbiddenError (403): no".into()))).unwrap();
    assert!(has(&screen(&mut model, 80, 24), "Sys.ForbiddenError (403): no"));
    assert_eq!(model.press(Key::PreviousTab), Then::Ask(Wanted::DeadLetters));
    assert_eq!(model.press(Key::Character('4')), Then::Ask(Wanted::Traces));
}

#[test]
fn the_stream_goes_on_unless_somebody_looks_at_a_message_or_holds_it() {
    let mut model = model();
    model.press(Key::Character('3'));
    let record = |number: u64| {
        json!({ "kind": "command", "type": format!("A.N{number}"), "id": number.to_string(), "at": 1000,
        "from": { "connection": 1 }, "to": { "capability": "shop" }, "tookUs": 15, "outcome": { "kind": "error", "code": 502 } })
    };
    model.take_stream((0..100).map(record).collect());
    let shown = screen(&mut model, 80, 24);
    assert!(has(&shown, "A.N99") && !has(&shown, "A.N0 "), "{shown:#?}");
    assert!(has(&shown, "error 502") && has(&shown, "client") && has(&shown, "shop"), "{shown:#?}");
    model.press(Key::First);
    model.take_stream(vec![record(100)]);
    let shown = screen(&mut model, 80, 24);
    assert!(has(&shown, "A.N0 ") && !has(&shown, "A.N100"), "{shown:#?}");
    model.press(Key::Last);
    model.press(Key::Character(' '));
    model.take_stream(vec![record(101)]);
    assert!(!has(&screen(&mut model, 80, 24), "A.N101"));
    model.press(Key::Character(' '));
    model.take_stream((0..5000).map(record).collect());
    assert_eq!(model.stream.len(), 2000);
}
