//! Messages as people read them.

use crate::text::columns;
use mainspring_message::{Envelope, Failure};
use std::borrow::Cow;
use std::io::IsTerminal;

/// Whether standard output is a terminal, and may be coloured.
pub(in crate::cli) fn may_colour() -> bool {
    is_screen() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Whether standard error is a terminal, and may be coloured.
pub(in crate::cli) fn may_colour_errors() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Whether standard output is a terminal that can do more than print one line after the other.
pub(in crate::cli) fn is_screen() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("TERM").is_none_or(|name| name != "dumb")
}

/// An error in one line: its type, its code and its words.
pub(in crate::cli) fn error_line(error: &Envelope) -> String {
    let data: serde_json::Value = serde_json::from_str(error.data()).unwrap_or_default();
    let code = data["code"].as_u64().map_or(String::new(), |code| format!(" ({code})"));
    let words = data["message"].as_str().map_or_else(|| error.data().to_owned(), str::to_owned);
    let failure = Failure::from_type_name(error.type_name());
    // Most refusals come before anything is started, and need no word about it.
    let unsure = matches!(
        failure,
        Some(Failure::Timeout | Failure::ActorCrash | Failure::ActorFault | Failure::ShuttingDown)
    );
    let started = match data["started"].as_str() {
        // Whatever it ended in then: between two attempts that may be anything.
        Some("yes") if failure.is_some() => "; it had been started, so effects may have happened",
        Some("no") if unsure => "; it had not been started, so sending it again is safe",
        _ => "",
    };
    visible(&format!("{}{code}: {words}{started}", error.type_name())).into_owned()
}

/// Text with nothing in it that a terminal would obey.
pub(in crate::cli) fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_control() {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

/// JSON over several lines, every token as it was written.
pub(in crate::cli) fn pretty(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let mut depth = 0;
    let mut in_string = false;
    let mut characters = json.chars().peekable();
    let break_line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    while let Some(character) = characters.next() {
        if in_string {
            // DEL and the C1 controls need no escape in JSON, but a terminal may obey them.
            if character.is_control() {
                out.push_str(&format!("\\u{:04x}", u32::from(character)));
                continue;
            }
            out.push(character);
            match character {
                '\\' => out.extend(characters.next()),
                '"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match character {
            ' ' | '\t' | '\n' | '\r' => {}
            '{' | '[' => {
                out.push(character);
                while characters.peek().is_some_and(char::is_ascii_whitespace) {
                    characters.next();
                }
                match characters.peek() {
                    Some(&end @ ('}' | ']')) => {
                        out.push(end);
                        characters.next();
                    }
                    _ => {
                        depth += 1;
                        break_line(&mut out, depth);
                    }
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                break_line(&mut out, depth);
                out.push(character);
            }
            ',' => {
                out.push(',');
                break_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            _ => {
                in_string = character == '"';
                out.push(character);
            }
        }
    }
    out
}

/// A span of time in a few characters: `850ms`, `4.2s`, `3m05s`, `2h10m`, `5d03h`.
pub(in crate::cli) fn span(ms: u64) -> String {
    let seconds = ms / 1000;
    match seconds {
        0 => format!("{ms}ms"),
        1..=59 => format!("{seconds}.{}s", ms % 1000 / 100),
        60..=3599 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..=86_399 => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// Rows in columns, the first row being the heading; numbers to the right.
pub(in crate::cli) fn table(rows: &[Vec<String>]) -> String {
    let column_count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| columns::width(cell)).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..column_count).map(width).collect();
    let is_number = |text: &String| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let numbers: Vec<bool> = (0..column_count)
        .map(|column| rows.len() > 1 && rows[1..].iter().filter_map(|row| row.get(column)).all(is_number))
        .collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().enumerate().map(|(column, cell)| {
            if numbers[column] {
                columns::padded_left(cell, widths[column])
            } else {
                columns::padded(cell, widths[column])
            }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// A number of things: `1 message`, `2 messages`.
pub(in crate::cli) fn count(number: u64, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Who takes an event: `2 capabilities and 1 client`, or `nobody`.
pub(in crate::cli) fn crowd(capabilities: u64, clients: u64) -> String {
    let some = |number, one, many| (number > 0).then(|| count(number, one, many));
    match (some(capabilities, "capability", "capabilities"), some(clients, "client", "clients")) {
        (Some(capabilities), Some(clients)) => format!("{capabilities} and {clients}"),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => "nobody".into(),
    }
}

/// Nanoseconds in a few characters.
pub(in crate::cli) fn nanoseconds(ns: u64) -> String {
    match ns {
        0 => "0us".into(),
        1..10_000 => format!("{}.{:02}us", ns / 1000, ns % 1000 / 10),
        10_000..1_000_000 => format!("{}us", ns / 1000),
        1_000_000..1_000_000_000 => format!("{}.{}ms", ns / 1_000_000, ns % 1_000_000 / 100_000),
        _ => span(ns / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pretty_json_is_the_same_json_with_every_token_as_it_was_written() {
        let text = r#"{"b":1.50,"a":[ ],"c":[1,{"k":"x,\"{[: y"}],"d":{ }}"#;
        let shown = pretty(text);
        assert_eq!(
            shown,
            "{\n  \"b\": 1.50,\n  \"a\": [],\n  \"c\": [\n    1,\n    {\n      \"k\": \"x,\\\"{[: y\"\n    }\n  ],\n  \"d\": {}\n}"
        );
        let same = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(same(&shown), same(text));
        assert_eq!(pretty("\"a\u{9b}31mb\""), "\"a\\u009b31mb\"");
        assert_eq!(pretty("  7 "), "7");
    }

    #[test]
    fn nothing_that_is_shown_is_obeyed_by_a_terminal() {
        assert_eq!(visible("plain é"), "plain é");
        assert_eq!(visible("a\x1b[31mb\u{9b}"), "a\\u{1b}[31mb\\u{9b}");
    }

    #[test]
    fn an_error_says_whether_sending_it_again_is_safe_where_that_is_unsure() {
        let line = |type_name: &str, started: &str| {
            let text = format!(
                r#"{{"kind":"error","type":"{type_name}","data":{{"code":504,"message":"no\u001bway","started":"{started}"}},"metadata":{{"id":"e","timestamp":1,"causation":"q"}}}}"#
            );
            error_line(&Envelope::parse(text.as_bytes()).unwrap())
        };
        assert_eq!(
            line("Sys.Timeout", "yes"),
            "Sys.Timeout (504): no\\u{1b}way; it had been started, so effects may have happened"
        );
        assert_eq!(
            line("Sys.Timeout", "no"),
            "Sys.Timeout (504): no\\u{1b}way; it had not been started, so sending it again is safe"
        );
        assert_eq!(
            line("Sys.ShuttingDown", "yes"),
            "Sys.ShuttingDown (504): no\\u{1b}way; it had been started, so effects may have happened"
        );
        assert!(
            line("Sys.Unhealthy", "yes").ends_with("; it had been started, so effects may have happened")
        );
        assert_eq!(line("Sys.RoutingError", "no"), "Sys.RoutingError (504): no\\u{1b}way");
    }

    #[test]
    fn spans_are_short() {
        let spans = [0, 999, 1000, 59_999, 60_000, 3_599_000, 3_600_000, 90_000_000].map(span);
        assert_eq!(spans, ["0ms", "999ms", "1.0s", "59.9s", "1m00s", "59m59s", "1h00m", "1d01h"]);
    }

    #[test]
    fn columns_line_up_and_numbers_stand_to_the_right() {
        let rows = [["name", "count"], ["a", "5"], ["longer", "1000"]];
        let rows: Vec<Vec<String>> = rows.iter().map(|row| row.map(String::from).to_vec()).collect();
        assert_eq!(table(&rows), "name    count\na           5\nlonger   1000\n");
    }

    #[test]
    fn wide_characters_and_those_without_width_do_not_shift_columns() {
        let rows = [["name", "state"], ["\u{65e5}\u{672c}", "up"], ["e\u{301}", "up"]];
        let rows: Vec<Vec<String>> = rows.iter().map(|row| row.map(String::from).to_vec()).collect();
        assert_eq!(table(&rows), "name  state\n\u{65e5}\u{672c}  up\ne\u{301}     up\n");
    }

    #[test]
    fn times_are_short() {
        assert_eq!(
            [0, 900, 2050, 12_345, 1_230_000, 2_000_000_000].map(nanoseconds),
            ["0us", "0.90us", "2.05us", "12us", "1.2ms", "2.0s"]
        );
    }
}
