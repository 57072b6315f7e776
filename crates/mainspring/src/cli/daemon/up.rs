//! `mainspring up`: a daemon, in the foreground.

use crate::client::fresh_id;
use crate::config::{self, Overrides};
use crate::daemon::{self, Options, Report};
use crate::settings::{LogFormat, LogLevel};
use crate::system::files::whole_path;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

const EXAMPLES: &str = "\
Examples:
  mainspring up
  mainspring up --watch
  mainspring up --config app/mainspring.toml
  mainspring up --socket /run/app/bus.sock --json
  mainspring up --journal var/journal
  mainspring up --http 127.0.0.1:7780
  mainspring up --batch < requests.ndjson > answers.ndjson

A line of a batch without `metadata` gets an id and a timestamp, as with `mainspring pipe`.

Signals: INT and TERM end it, after what was accepted is answered; a second one ends it at once; HUP reads the configuration again.

Exit code: 0 it ended as it was told to, 1 it could not start or had to stop, 2 the command line is wrong.";

/// Bytes of messages whose data traces show, where there is no file that says how many.
const TRIAL_DATA_BYTES: usize = 4 << 20;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(in crate::cli) struct UpArguments {
    /// The configuration [default: mainspring.toml in this folder or the nearest above it; without
    /// one, the built-in defaults].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Look for no mainspring.toml.
    #[arg(long, conflicts_with = "config")]
    no_config: bool,
    /// Listen on this Unix socket.
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Notice when the configuration, a manifest, a program or what it imports in its folder
    /// changes, and take over what has changed.
    #[arg(long, conflicts_with = "batch")]
    watch: bool,
    /// Keep accepted commands in this folder, so that they survive the daemon.
    #[arg(long, value_name = "DIR")]
    journal: Option<PathBuf>,
    /// Serve HTTP at this address as well, such as 127.0.0.1:7780; makes a token for this run, in a
    /// file beside the socket.
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

pub(in crate::cli) fn up(arguments: &UpArguments) -> Result<ExitCode, daemon::Error> {
    let report = match (arguments.json, arguments.batch) {
        (true, _) => Report::Json,
        (false, true) => Report::Quiet,
        (false, false) => Report::Human,
    };
    let flags = overrides(arguments);
    // What was found once is read again by its name: that it is gone later is a fault, and not the
    // wish for an empty house.
    let file = match arguments.no_config {
        true => Ok(None),
        false => config::file_to_load(arguments.config.as_deref()),
    };
    let load = move |file: Option<&Path>| {
        config::load(file, &flags).map(|mut settings| {
            // Whoever tries it out wants to see what passes; whoever writes a file says so there.
            if file.is_none() {
                settings.limits.history_data_bytes_max = TRIAL_DATA_BYTES;
            }
            settings
        })
    };
    let (file, settings) = match file.and_then(|file| Ok((load(file.as_deref())?, file))) {
        Ok((settings, file)) => (file, settings),
        Err(error) => {
            daemon::tell_unreadable(report, error.phase(), &error.to_string());
            return Ok(ExitCode::FAILURE);
        }
    };
    daemon::install_log(&settings.log)?;
    let mut configuration = file.clone();
    if let (None, Some(file)) = (&arguments.config, &file)
        && file.components().count() > 1
    {
        configuration = Some(whole_path(file));
        // Whoever is somewhere below the project may not have thought of it.
        if matches!(report, Report::Human) {
            println!("mainspring runs {}", file.display());
        }
    }
    let watch = arguments.watch.then(|| {
        let file = file.clone();
        Arc::new(move || sources(file.as_deref())) as daemon::SourceFinder
    });
    let reader: daemon::SettingsReader =
        Arc::new(move || load(file.as_deref()).map_err(|error| error.in_one_line()));
    let code = daemon::run(
        settings,
        Options { report, reader: Some(reader), watch, configuration, ..Options::default() },
    )?;
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)))
}

/// Where the settings come from. A file that cannot be read names nothing but itself.
fn sources(file: Option<&Path>) -> daemon::WatchedSources {
    let Some(file) = file else { return daemon::WatchedSources::default() };
    let folder = file.parent().unwrap_or(Path::new(""));
    let table = std::fs::read_to_string(file).ok().and_then(|text| text.parse::<toml::Table>().ok());
    let manifests = table.as_ref().and_then(|table| table.get("manifests")?.as_array());
    let patterns = manifests.into_iter().flatten().filter_map(toml::Value::as_str);
    let whole = |pattern: &str| {
        let path = folder.join(pattern);
        std::path::absolute(&path).unwrap_or(path)
    };
    daemon::WatchedSources { file: Some(file.to_owned()), patterns: patterns.map(whole).collect() }
}

fn overrides(arguments: &UpArguments) -> Overrides {
    Overrides {
        no_config: arguments.no_config,
        socket: arguments.socket.clone(),
        http: arguments.http.map(|address| (address, fresh_id())),
        batch: arguments.batch,
        journal: arguments.journal.clone(),
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
