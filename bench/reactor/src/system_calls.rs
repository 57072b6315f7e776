//! Counting system calls per turn, by the difference of two runs under strace.
//!
//! A run of many turns minus a run of fewer leaves exactly the turns: start-up, set-up and exit
//! cancel out.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::packages;

/// Makes sure that strace works here.
///
/// # Errors
///
/// One line for the user.
pub(crate) fn prepare() -> Result<(), String> {
    let probe = || run_counted(Command::new("strace"), Path::new("true"), &[]);
    if probe().is_ok() {
        return Ok(());
    }
    packages::install(&["strace"])?;
    probe().map(|_calls| ())
}

/// System calls per turn of `program arguments... turns`.
///
/// # Errors
///
/// One line for the user.
pub(crate) fn per_turn(program: &Path, arguments: &[String]) -> Result<f64, String> {
    const FEW: u64 = 100;
    const MANY: u64 = 500;
    let calls = |turns: u64| {
        let mut words = arguments.to_vec();
        words.push(turns.to_string());
        run_counted(Command::new("strace"), program, &words)
    };
    Ok((calls(MANY)? - calls(FEW)?) as f64 / (MANY - FEW) as f64)
}

fn run_counted(mut strace: Command, program: &Path, words: &[String]) -> Result<i64, String> {
    strace.args(["-f", "-c"]).arg(program).args(words).stdin(Stdio::null());
    let output = strace.output().map_err(|error| format!("no strace: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("strace failed: {}", said.lines().last().unwrap_or_default()));
    }
    total(&said)
        .ok_or_else(|| format!("strace printed no total: {}", said.lines().last().unwrap_or_default()))
}

/// The `calls` column of strace's last line: `100.00 0.01 3 2557 1 total`.
fn total(summary: &str) -> Option<i64> {
    let line = summary.lines().rfind(|line| line.trim_end().ends_with("total"))?;
    line.split_whitespace().nth(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_the_fourth_column_with_or_without_errors() {
        let with_errors = "% time ...\n100.00    0.000161           3        53         2 total\n";
        let without = "100.00    0.000161           3        41           total\n";
        assert_eq!(total(with_errors), Some(53));
        assert_eq!(total(without), Some(41));
        assert_eq!(total("nothing"), None);
    }
}
