//! One measurement in a process of its own.
//!
//! A subject prints lines of the form `metric unit value [value ...]`; anything else it prints is a
//! failure. A process per measurement gives each subject a fresh heap and fresh kernel tables, and
//! a peer that hangs cannot stop the suite.

use std::io::{self, Read as _};
use std::os::fd::AsRawFd as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// What one line of a subject's output says.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    /// What was measured.
    pub metric: String,
    /// The unit of the samples.
    pub unit: String,
    /// One or more samples.
    pub samples: Vec<f64>,
}

/// Why a subject gave no figures.
#[derive(Debug)]
pub enum Failure {
    /// It could not be started, or its output not be read.
    Io(io::Error),
    /// It did not finish in time and was killed.
    TimedOut(Duration),
    /// It ended with a failure; the text is what it said.
    Ended(String),
    /// It printed something that is not a measurement.
    Unreadable(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Io(error) => write!(f, "cannot run it: {error}"),
            Failure::TimedOut(after) => write!(f, "still running after {} s, killed", after.as_secs()),
            Failure::Ended(said) => write!(f, "failed: {said}"),
            Failure::Unreadable(line) => write!(f, "printed what is not a measurement: {line}"),
        }
    }
}

impl std::error::Error for Failure {}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Io(error)
    }
}

/// Runs a subject and reads its measurements.
///
/// # Errors
///
/// Every way in which the subject gave none: see [`Failure`].
pub fn measure(command: &mut Command, time_limit: Duration) -> Result<Vec<Measurement>, Failure> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let output = read_until_end(&mut child, time_limit);
    if output.is_err() {
        child.kill()?;
    }
    let status = child.wait()?;
    let output = output?;
    if !status.success() {
        return Err(Failure::Ended(format!("{status}: {}", complaint(&mut child))));
    }
    output.lines().map(parse).collect()
}

/// Reads standard output to its end. Waiting in `poll` rather than in a loop of naps keeps the
/// harness off the CPU.
fn read_until_end(child: &mut Child, time_limit: Duration) -> Result<String, Failure> {
    let mut stdout = child.stdout.take().ok_or_else(|| io::Error::other("no standard output"))?;
    let deadline = Instant::now() + time_limit;
    let mut text = Vec::new();
    loop {
        let left_ms = deadline.saturating_duration_since(Instant::now()).as_millis();
        let mut wait = libc::pollfd { fd: stdout.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid pollfd, whose descriptor `stdout` keeps open.
        if left_ms == 0 || unsafe { libc::poll(&raw mut wait, 1, left_ms as i32) } == 0 {
            return Err(Failure::TimedOut(time_limit));
        }
        let mut chunk = [0; 4096];
        match stdout.read(&mut chunk) {
            Ok(0) => return Ok(String::from_utf8_lossy(&text).into_owned()),
            Ok(count) => text.extend_from_slice(&chunk[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// The first two lines on standard error: where a panic happened, and why.
fn complaint(child: &mut Child) -> String {
    let mut text = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        let _ = stderr.read_to_string(&mut text);
    }
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).take(2).collect();
    if lines.is_empty() { "nothing on standard error".into() } else { lines.join(" ") }
}

fn parse(line: &str) -> Result<Measurement, Failure> {
    let unreadable = || Failure::Unreadable(line.into());
    let mut words = line.split_whitespace();
    let metric = words.next().ok_or_else(unreadable)?.to_string();
    let unit = words.next().ok_or_else(unreadable)?.to_string();
    let samples: Vec<f64> =
        words.map(str::parse).collect::<Result<_, _>>().map_err(|_not_a_number| unreadable())?;
    if samples.is_empty() { Err(unreadable()) } else { Ok(Measurement { metric, unit, samples }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.arg("-c").arg(script);
        command
    }

    #[test]
    fn each_line_is_a_metric_with_its_unit_and_samples() {
        let got = measure(&mut shell("echo cpu ns 1.5; echo late us 1 2 3"), 30 * SECOND).unwrap();
        assert_eq!(got[0], Measurement { metric: "cpu".into(), unit: "ns".into(), samples: vec![1.5] });
        assert_eq!(got[1].samples, [1.0, 2.0, 3.0]);
    }

    #[test]
    fn a_subject_that_fails_is_quoted() {
        let failure =
            measure(&mut shell("echo subject: >&2; echo no loop here >&2; exit 3"), 30 * SECOND).unwrap_err();
        assert!(failure.to_string().ends_with("subject: no loop here"), "{failure}");
    }

    #[test]
    fn a_subject_that_hangs_is_killed() {
        let failure = measure(&mut shell("exec sleep 600"), Duration::from_millis(20)).unwrap_err();
        assert!(matches!(failure, Failure::TimedOut(_)), "{failure}");
    }

    #[test]
    fn chatter_is_not_a_measurement() {
        assert!(matches!(measure(&mut shell("echo hello"), 30 * SECOND), Err(Failure::Unreadable(_))));
    }
}
