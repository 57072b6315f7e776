//! `mainspring journal`: looks at a journal, saves what is whole of a damaged one, and sends
//! commands again.
//!
//! Each file is one of its subcommands; `facts` and `listing` say in words what a record holds.
//! They read the files of a journal by themselves, and only `replay` needs a daemon.

mod check;
mod facts;
mod listing;
mod replay;
mod salvage;

use crate::cli::support::read_command::told;
use crate::cli::support::target::Failure;
use crate::client::ClientError;
use crate::config;
use crate::text::units;
use mainspring_journal::{DiskFolder, Error};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  mainspring journal check
  mainspring journal tail -f
  mainspring journal tail --types 'Order.*' --since 10m
  mainspring journal export var/journal > facts.jsonl
  mainspring journal salvage var/journal var/journal-saved
  mainspring journal replay --types Order.JournalPlace --since 1h --dry-run

A journal is looked at while its daemon runs, too. `check`, `tail` and `export` change nothing. `salvage` writes a new journal beside the old one. `replay` \
sends commands to the running daemon once more: each under a fresh id, with the old id as its causation.

Exit code: 0 it is done, 1 the journal is damaged or cannot be read, or a command that was sent again failed, 2 the command line is wrong, 3 no daemon.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct JournalArguments {
    #[command(subcommand)]
    action: JournalAction,
}

#[derive(Debug, clap::Subcommand)]
enum JournalAction {
    /// Read every byte, and say whether all is well.
    Check(check::JournalCheckArguments),
    /// Show the last facts, and those that follow.
    Tail(listing::Tail),
    /// Print every fact as a line of JSON.
    Export(listing::Export),
    /// Write what is whole of a damaged journal into a new one.
    Salvage(salvage::JournalSalvageArguments),
    /// Send commands of a journal to the daemon again.
    Replay(Box<replay::JournalReplayArguments>),
}

pub(in crate::cli) fn run(arguments: &JournalArguments) -> ExitCode {
    told(match &arguments.action {
        JournalAction::Check(arguments) => check::run(arguments),
        JournalAction::Tail(arguments) => listing::tail(arguments),
        JournalAction::Export(arguments) => listing::export(arguments),
        JournalAction::Salvage(arguments) => salvage::run(arguments),
        JournalAction::Replay(arguments) => replay::run(arguments),
    })
}

/// Which journal.
#[derive(Debug, clap::Args)]
struct JournalPlace {
    /// The journal's folder [default: that of mainspring.toml, in this folder or above].
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
}

impl JournalPlace {
    fn path(&self) -> Result<PathBuf, Failure> {
        if let Some(folder) = &self.folder {
            return Ok(folder.clone());
        }
        let file = config::file_to_load(None).map_err(ClientError::BadConfig)?;
        file.as_deref()
            .and_then(config::journal_of_file)
            .ok_or_else(|| Failure::Usage("no journal: mainspring.toml names none; give its folder".into()))
    }

    /// Opens it to be read, beside whoever writes it.
    fn open(&self) -> Result<(PathBuf, DiskFolder), Failure> {
        let path = self.path()?;
        let folder = DiskFolder::open_to_read(&path).map_err(|error| failure(&path, &error))?;
        Ok((path, folder))
    }
}

fn failure(path: &Path, error: &Error) -> Failure {
    Failure::Refused(format!("{}: {error}", path.display()))
}

/// Which facts.
#[derive(Debug, clap::Args)]
struct Choice {
    /// Only those about messages of this type: a type, everything below a name (`Order.*`), or `*`.
    /// May be given several times.
    #[arg(long, value_name = "PATTERN")]
    types: Vec<String>,
    /// Only those since then: a time ago, such as 10m, or Unix milliseconds.
    #[arg(long, value_name = "TIME", value_parser = since)]
    since: Option<Since>,
}

/// A point in time.
#[derive(Clone, Copy, Debug)]
enum Since {
    Ago(Duration),
    UnixMs(u64),
}

fn since(text: &str) -> Result<Since, String> {
    match text.parse() {
        Ok(unix_ms) => Ok(Since::UnixMs(unix_ms)),
        Err(_) => units::duration(text).map(Since::Ago),
    }
}

impl Choice {
    fn since_ms(&self) -> u64 {
        match self.since {
            None => 0,
            Some(Since::UnixMs(unix_ms)) => unix_ms,
            Some(Since::Ago(time)) => {
                crate::client::now_ms().saturating_sub(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
            }
        }
    }

    /// Whether a message of this type is chosen; a fact about no message is if every type is.
    fn takes(&self, type_name: Option<&str>) -> bool {
        let fits = |pattern: &String| match (pattern.as_str(), type_name) {
            ("*", _) => true,
            (_, None) => false,
            (pattern, Some(name)) => match pattern.strip_suffix(".*") {
                Some(above) => name.strip_prefix(above).is_some_and(|rest| rest.starts_with('.')),
                None => name == pattern,
            },
        };
        self.types.is_empty() || self.types.iter().any(fits)
    }
}

/// How far long work is, on standard error, for people alone.
struct ReadingProgress {
    what: &'static str,
    told: Option<Instant>,
    is_for_people: bool,
    shown: bool,
}

impl ReadingProgress {
    fn new(what: &'static str) -> ReadingProgress {
        ReadingProgress { what, told: None, is_for_people: std::io::stderr().is_terminal(), shown: false }
    }

    /// Tells it, a few times a second.
    fn tell(&mut self, done: u64, all: u64) {
        let is_due = self.told.is_none_or(|told| told.elapsed() >= Duration::from_millis(200));
        if !self.is_for_people || !is_due || all == 0 {
            return;
        }
        self.told = Some(Instant::now());
        self.shown = true;
        let percent = done.saturating_mul(100) / all;
        eprint!("\r{} {percent}% of {}", self.what, units::show_bytes(all));
        let _ = std::io::stderr().flush();
    }
}

impl Drop for ReadingProgress {
    fn drop(&mut self) {
        if self.shown {
            eprint!("\r\x1b[K");
        }
    }
}
