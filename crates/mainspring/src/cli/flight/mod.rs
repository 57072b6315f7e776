//! `mainspring flight`: what a daemon recorded of itself, shown or replayed.

mod replay;
mod show;

use crate::cli::support::read_command::told;
use crate::cli::support::target::Failure;
use crate::client::ClientError;
use crate::config;
use crate::flight::reading::{Recording, runs};
use mainspring_journal::DiskFolder;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  mainspring flight show --last 10s
  mainspring flight show --json var/flight
  mainspring flight replay
  mainspring flight replay var/flight --run 1

A daemon records what happens to it if its configuration has `[flight] bytes = \"64MiB\"`. `replay` gives the same inputs to a new kernel of the same \
build, and compares what it wants done, byte for byte: that works as long as the beginning of the run is kept. Both work while the daemon runs.

Exit code: 0 it is done, 1 the replay differs, the recording is of another build, or it cannot be read, 2 the command line makes no sense.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct FlightArguments {
    #[command(subcommand)]
    action: FlightAction,
}

#[derive(Debug, clap::Subcommand)]
enum FlightAction {
    /// Show what happened, input by input.
    Show(show::FlightShowArguments),
    /// Run it again with the same build, and compare.
    Replay(replay::FlightReplayArguments),
}

pub(in crate::cli) fn run(arguments: &FlightArguments) -> ExitCode {
    told(match &arguments.action {
        FlightAction::Show(arguments) => show::run(arguments),
        FlightAction::Replay(arguments) => replay::run(arguments),
    })
}

/// Which recording.
#[derive(Debug, clap::Args)]
struct FlightPlace {
    /// The folder of the recordings [default: that of mainspring.toml, in this folder or above].
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,
    /// Which run: 0 is the newest, 1 the one before it.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    run: usize,
}

impl FlightPlace {
    fn path(&self) -> Result<PathBuf, Failure> {
        if let Some(folder) = &self.folder {
            return Ok(folder.clone());
        }
        let file = config::file_to_load(None).map_err(ClientError::BadConfig)?;
        file.as_deref().and_then(config::flight_of_file).ok_or_else(|| {
            Failure::Usage("no recordings: mainspring.toml names none; give their folder".into())
        })
    }

    /// Opens it to be read, beside whoever writes it.
    fn open(&self) -> Result<(PathBuf, DiskFolder, Recording), Failure> {
        let path = self.path()?;
        let folder = DiskFolder::open_to_read(&path)
            .map_err(|error| Failure::Refused(format!("{}: {error}", path.display())))?;
        let all = runs(&folder).map_err(|error| failure(&path, &error))?;
        let run = all.iter().rev().nth(self.run).ok_or_else(|| {
            failure(
                &path,
                &match all.len() {
                    0 => "it holds no recording".to_owned(),
                    count => format!(
                        "it holds recordings of {count} runs, and --run {} is not among them",
                        self.run
                    ),
                },
            )
        })?;
        let recording = Recording::open(&folder, *run).map_err(|error| failure(&path, &error))?;
        Ok((path, folder, recording))
    }
}

fn failure(path: &Path, reason: &str) -> Failure {
    Failure::Refused(format!("{}: {reason}", path.display()))
}
