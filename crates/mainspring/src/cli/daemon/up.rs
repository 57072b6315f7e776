//! `mainspring up`: a daemon, in the foreground.

use crate::client::fresh_id;
use crate::config::{self, Overrides};
use crate::daemon::{self, Options, Report};
use crate::settings::{LogFormat, LogLevel};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

const EXAMPLES: &str = "\
Examples:
  mainspring up
  mainspring up --config app/mainspring.toml
  mainspring up --socket /run/app/bus.sock --json
  mainspring up --http 127.0.0.1:7780
  mainspring up --batch < requests.ndjson > answers.ndjson

A line of a batch without `metadata` gets an id and a timestamp, as with `mainspring pipe`.

Signals: INT and TERM end it, after what was accepted is answered; a second one ends it at once; HUP reads the configuration again.

Exit code: 0 it ended as it was told to, 1 it could not start or had to stop, 2 the command line makes no sense.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct Arguments {
    /// The configuration; mainspring.toml in this folder, if it is there, unless told otherwise.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Leave mainspring.toml in this folder alone.
    #[arg(long, conflicts_with = "config")]
    no_config: bool,
    /// Listen on this Unix socket.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Serve HTTP at this address as well, such as 127.0.0.1:7780; makes a token for this run, in a file beside the socket.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "batch")]
    http: Option<SocketAddr>,
    /// Speak messages on standard input and output, and end when nothing is left to do.
    #[arg(long, conflicts_with = "socket")]
    batch: bool,
    /// Tell the boot as the message Sys.BootComplete or Sys.BootFailed, on standard output.
    #[arg(long)]
    json: bool,
    /// Write the log as JSON, an object a line.
    #[arg(long)]
    log_json: bool,
    /// The least important level that is logged.
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<Level>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Level {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

pub(in crate::cli) fn up(arguments: &Arguments) -> Result<ExitCode, daemon::Error> {
    let report = match (arguments.json, arguments.batch) {
        (true, _) => Report::Json,
        (false, true) => Report::Quiet,
        (false, false) => Report::Human,
    };
    let flags = overrides(arguments);
    // What was found once is read again by its name: that it is gone later is a fault, and not the wish for an empty house.
    let file = config::file_to_load(arguments.config.as_deref())
        .filter(|_| arguments.config.is_some() || !arguments.no_config);
    let settings = match config::load(file.as_deref(), &flags) {
        Ok(settings) => settings,
        Err(error) => {
            daemon::tell_unreadable(report, error.phase(), &error.to_string());
            return Ok(ExitCode::FAILURE);
        }
    };
    daemon::install_log(&settings.log)?;
    let reader: daemon::Reader =
        Arc::new(move || config::load(file.as_deref(), &flags).map_err(|error| error.in_one_line()));
    let code = daemon::run(settings, Options { report, reader: Some(reader), ..Options::default() })?;
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

fn overrides(arguments: &Arguments) -> Overrides {
    Overrides {
        no_config: arguments.no_config,
        socket: arguments.socket.clone(),
        http: arguments.http.map(|address| (address, fresh_id())),
        batch: arguments.batch,
        log_level: arguments.log_level.map(|level| match level {
            Level::Error => LogLevel::Error,
            Level::Warn => LogLevel::Warn,
            Level::Info => LogLevel::Info,
            Level::Debug => LogLevel::Debug,
            Level::Trace => LogLevel::Trace,
        }),
        log_format: arguments.log_json.then_some(LogFormat::Json),
    }
}
