//! The row: one figure of one subject, and how rows become JSON.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

/// One figure: what was measured, on whom, and the value.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The suite, for example `reactor`.
    pub suite: String,
    /// The work, for example `dispatch-16`.
    pub case: String,
    /// Who did it: `mainspring`, `raw`, or a peer's own name.
    pub subject: String,
    /// What was measured, for example `cpu_per_event`.
    pub metric: String,
    /// The unit of the value.
    pub unit: String,
    /// The figure.
    pub value: f64,
}

/// Writes rows to a file as a JSON array, one object a line.
///
/// # Errors
///
/// Whatever writing the file fails with.
pub(crate) fn write_json(path: &Path, rows: &[Row]) -> io::Result<()> {
    std::fs::write(path, to_json(rows))
}

fn to_json(rows: &[Row]) -> String {
    let mut out = String::from("[");
    for (index, row) in rows.iter().enumerate() {
        out.push_str(if index == 0 { "\n  {" } else { ",\n  {" });
        let texts = [
            ("suite", &row.suite),
            ("case", &row.case),
            ("subject", &row.subject),
            ("metric", &row.metric),
            ("unit", &row.unit),
        ];
        for (name, text) in texts {
            let _ = write!(out, "\"{name}\": {}, ", quoted(text));
        }
        let _ = write!(out, "\"value\": {}}}", number(row.value));
    }
    out.push_str("\n]\n");
    out
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            control if control < ' ' => {
                let _ = write!(out, "\\u{:04x}", control as u32);
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// JSON has no infinities; a figure that is none is null rather than a file that does not parse.
fn number(value: f64) -> String {
    if value.is_finite() { format!("{}", (value * 1000.0).round() / 1000.0) } else { "null".into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_one_json_object_a_line() {
        let row = Row {
            suite: "s".into(),
            case: "say \"hi\"".into(),
            subject: "raw".into(),
            metric: "cpu".into(),
            unit: "ns".into(),
            value: 1.5,
        };
        let expected = "[\n  {\"suite\": \"s\", \"case\": \"say \\\"hi\\\"\", \"subject\": \"raw\", \
                        \"metric\": \"cpu\", \"unit\": \"ns\", \"value\": 1.5}\n]\n";
        assert_eq!(to_json(&[row]), expected);
    }

    #[test]
    fn what_is_not_a_number_becomes_null() {
        assert_eq!(number(f64::NAN), "null");
        assert_eq!(number(0.1 + 0.2), "0.3");
    }
}
