//! Which daemon a command talks to, and the exit codes of talking to it.

use crate::client::{Address, Client, ClientError, Flags, ReplyTimeout};
use crate::config;
use crate::system::socket_path::default_socket_path;
use crate::text::units;
use mainspring_message::{Draft, Envelope, Json, Kind};
use mainspring_reactor::Signal;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Signals end a command with this and the signal's number.
pub(in crate::cli) const EXIT_SIGNALLED: u8 = 128;
/// The command line is wrong.
pub(in crate::cli) const EXIT_USAGE: u8 = 2;
/// There is no daemon to talk to.
pub(in crate::cli) const EXIT_NO_DAEMON: u8 = 3;

/// The time between two attempts to find a daemon that is starting.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

/// Where the daemon is.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct DaemonPlace {
    /// The socket of the daemon [default: $MAINSPRING_SOCKET, that of mainspring.toml in this
    /// folder or the nearest above it, or the user's own].
    #[arg(long, value_name = "PATH", help_heading = "Daemon", global = true)]
    socket: Option<PathBuf>,
    /// The TCP listener of the daemon instead, such as 127.0.0.1:7700 [default: $MAINSPRING_TCP].
    #[arg(long, value_name = "HOST:PORT", help_heading = "Daemon", global = true, conflicts_with = "socket")]
    tcp: Option<String>,
    /// A file with the token for it, which only you may read [default: the token in
    /// $MAINSPRING_TOKEN, or the file $MAINSPRING_TOKEN_FILE].
    #[arg(long, value_name = "PATH", help_heading = "Daemon", global = true, conflicts_with = "socket")]
    token_file: Option<PathBuf>,
    /// A PEM file with the certificates that that of the daemon must be signed by; with it, TCP is
    /// encrypted [default: $MAINSPRING_TLS_CA].
    #[arg(long, value_name = "PATH", help_heading = "Daemon", global = true, conflicts_with = "socket")]
    tls_ca: Option<PathBuf>,
    /// A PEM file with a certificate to show, for a daemon that wants one [default:
    /// $MAINSPRING_TLS_CERTIFICATE].
    #[arg(long, value_name = "PATH", help_heading = "Daemon", global = true, conflicts_with = "socket")]
    tls_certificate: Option<PathBuf>,
    /// A PEM file with its key [default: $MAINSPRING_TLS_KEY].
    #[arg(long, value_name = "PATH", help_heading = "Daemon", global = true, conflicts_with = "socket")]
    tls_key: Option<PathBuf>,
}

impl DaemonPlace {
    /// Whether a flag says where.
    pub(in crate::cli) fn is_given(&self) -> bool {
        self.socket.is_some() || self.tcp.is_some() || self.token_file.is_some() || self.tls_ca.is_some()
    }

    pub(in crate::cli) fn token_file(&self) -> Option<&std::path::Path> {
        self.token_file.as_deref()
    }

    pub(in crate::cli) fn address(&self) -> Result<Address, ClientError> {
        Address::find(Flags {
            socket: self.socket.as_deref(),
            tcp: self.tcp.as_deref(),
            token_file: self.token_file.as_deref(),
            tls_ca: self.tls_ca.as_deref(),
            tls_certificate: self.tls_certificate.as_deref(),
            tls_key: self.tls_key.as_deref(),
        })
    }
}

/// Where the daemon is, and how long to wait for it.
#[derive(Clone, Debug, clap::Args)]
pub(in crate::cli) struct Target {
    #[command(flatten)]
    place: DaemonPlace,
    /// How long to wait for the answer, and 2s more for the daemon's own word about that [default:
    /// as the daemon is set, usually 30s; one that is silent for 30s and then does not answer a
    /// ping is given up].
    #[arg(long, value_name = "TIME", value_parser = time_above_zero, help_heading = "Daemon", global = true)]
    timeout: Option<Duration>,
    /// How long to wait for a daemon that is still starting; 0s if it must be there already.
    #[arg(long, value_name = "TIME", value_parser = units::duration, default_value = "1s", help_heading = "Daemon", global = true)]
    wait: Duration,
}

/// A time that is some time.
pub(in crate::cli) fn time_above_zero(text: &str) -> Result<Duration, String> {
    let time = units::duration(text)?;
    match time.as_millis() {
        0 => Err("must be at least 1ms".into()),
        _ => Ok(time),
    }
}

/// Why a command did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum Failure {
    #[error(transparent)]
    Client(#[from] ClientError),
    /// What the command line asks for cannot be meant.
    #[error("{0}")]
    Usage(String),
    /// The daemon answered with an error.
    #[error("{0}")]
    Refused(String),
    /// Another program has said already what went wrong.
    #[error("failed")]
    Told,
    /// A signal ended it before it was done.
    #[error("interrupted")]
    Interrupted(Signal),
    #[error("cannot write to standard output: {0}")]
    Output(#[from] std::io::Error),
}

impl Failure {
    /// Tells it on standard error, and gives the exit code.
    pub(in crate::cli) fn report(&self) -> ExitCode {
        // Whoever read the output had enough.
        if matches!(self, Failure::Output(error) if error.kind() == std::io::ErrorKind::BrokenPipe) {
            return ExitCode::SUCCESS;
        }
        match self {
            Failure::Told => {}
            // Says which file it is about, line by line.
            Failure::Client(ClientError::BadConfig(config)) => {
                eprintln!(
                    "{config}\nmainspring: so it does not say where the daemon is; correct it, or say so with --socket or --tcp"
                );
            }
            _ => eprintln!("mainspring: {self}"),
        }
        match self {
            Failure::Client(error) => ExitCode::from(exit_code(error)),
            Failure::Usage(_) => ExitCode::from(EXIT_USAGE),
            Failure::Interrupted(signal) => {
                ExitCode::from(EXIT_SIGNALLED.wrapping_add(signal.as_raw() as u8))
            }
            _ => ExitCode::FAILURE,
        }
    }
}

fn exit_code(error: &ClientError) -> u8 {
    match error {
        ClientError::NoDaemon { .. } | ClientError::Denied { .. } | ClientError::NotADaemon { .. } => {
            EXIT_NO_DAEMON
        }
        ClientError::BadMessage { .. }
        | ClientError::BadPlace { .. }
        | ClientError::NoToken { .. }
        | ClientError::BadToken(_)
        | ClientError::BadTls(_)
        | ClientError::TokenWithoutTcp
        | ClientError::BadConfig(_)
        | ClientError::UnknownPort { .. }
        | ClientError::NotText(_) => EXIT_USAGE,
        _ => 1,
    }
}

/// Whether the daemon may just not be there yet.
fn is_starting(error: &ClientError) -> bool {
    let ClientError::NoDaemon { reason, .. } = error else { return false };
    matches!(reason.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused)
}

impl Target {
    /// Connects, once there is a daemon to connect to.
    pub(in crate::cli) fn connect(&self) -> Result<Client, Failure> {
        let address = self.place.address()?;
        let started = Instant::now();
        loop {
            match Client::connect(&address, self.reply_timeout()) {
                // Nothing tells when a socket comes to listen, so it is tried again.
                Err(error) if is_starting(&error) && started.elapsed() < self.wait => {
                    std::thread::sleep(RETRY_INTERVAL);
                }
                outcome => return Ok(outcome?),
            }
        }
    }

    /// Refuses when the daemon is another project's: projects without a socket of their own share
    /// that of the user, and whoever ends or reloads a daemon means the one of this project.
    pub(in crate::cli) fn require_own_daemon(&self) -> Result<(), Failure> {
        let is_shared = !self.place.is_given()
            && matches!(self.place.address()?, Address::Unix(path) if path == default_socket_path());
        if !is_shared {
            return Ok(());
        }
        let file = config::file_to_load(None).map_err(ClientError::BadConfig)?;
        let Some((own, file)) = file.and_then(|file| Some((file.canonicalize().ok()?, file))) else {
            return Ok(());
        };
        let stats = self.ask("Sys.Stats", serde_json::json!({}))?;
        let theirs = stats["floors"]["daemon"]["configuration"].as_str();
        if theirs.and_then(|path| std::fs::canonicalize(path).ok()) == Some(own) {
            return Ok(());
        }
        let theirs = match theirs {
            Some(path) => super::text::visible(path).into_owned(),
            None => "no configuration".into(),
        };
        Err(Failure::Refused(format!(
            "the daemon on your socket runs {theirs}, and not the {} of this project; go to its folder, or say \
             which you mean with --socket; a project has a socket of its own by `[[listen]]` and `unix = \
             \"app.sock\"`",
            file.display()
        )))
    }

    /// The file in which a daemon with `--http` tells its address and token, if there is one.
    pub(in crate::cli) fn http_run_file(&self) -> Option<PathBuf> {
        let Address::Unix(path) = self.place.address().ok()? else { return None };
        Some(config::http_run_file(&path)).filter(|file| file.is_file())
    }

    /// What was asked for with `--timeout`.
    pub(in crate::cli) fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    pub(in crate::cli) fn reply_timeout(&self) -> ReplyTimeout {
        ReplyTimeout::new(self.timeout)
    }

    /// What a request says about its time, in milliseconds.
    pub(in crate::cli) fn timeout_ms(&self) -> Option<u64> {
        self.timeout.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1))
    }

    /// Asks one built-in query and returns the data of its reply.
    pub(in crate::cli) fn ask(
        &self,
        type_name: &'static str,
        data: serde_json::Value,
    ) -> Result<serde_json::Value, Failure> {
        let reply = self.request(Kind::Query, type_name, data)?;
        Ok(serde_json::from_str(reply.data()).unwrap_or_default())
    }

    /// Sends one request and returns its reply; an error is a [`Failure::Refused`].
    pub(in crate::cli) fn request(
        &self,
        kind: Kind,
        type_name: &'static str,
        data: serde_json::Value,
    ) -> Result<Envelope, Failure> {
        self.request_json(kind, type_name, Json::from(data))
    }

    /// The same with data that is text already.
    pub(in crate::cli) fn request_json(
        &self,
        kind: Kind,
        type_name: &'static str,
        data: Json,
    ) -> Result<Envelope, Failure> {
        let mut draft = Draft::new(kind, type_name, data);
        draft.timeout_ms = self.timeout_ms();
        let outcome = self.connect()?.request(&draft)?;
        if outcome.kind() == Kind::Error {
            return Err(Failure::Refused(crate::cli::support::text::error_line(&outcome)));
        }
        Ok(outcome)
    }
}
