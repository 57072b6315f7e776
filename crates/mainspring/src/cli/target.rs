//! Which daemon a command talks to, and the exit codes of talking to it.

use crate::client::{Client, ClientError, Deadline, find_socket};
use crate::units;
use mainspring_message::{Draft, Envelope, Json, Kind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// The command line makes no sense.
pub(super) const EXIT_USAGE: u8 = 2;
/// There is no daemon to talk to.
pub(super) const EXIT_NO_DAEMON: u8 = 3;

/// How much longer than the daemon a command waits: the daemon's own answer says more.
const PATIENCE: Duration = Duration::from_secs(2);

/// Where the daemon is.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Target {
    /// The socket of the daemon [default: $MAINSPRING_SOCKET, that of ./mainspring.toml, or the user's own].
    #[arg(long, value_name = "PATH", help_heading = "Daemon")]
    socket: Option<PathBuf>,
    /// How long to wait for the answer [default: as the daemon is set].
    #[arg(long, value_name = "TIME", value_parser = units::duration, help_heading = "Daemon")]
    timeout: Option<Duration>,
}

/// Why a command did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[error(transparent)]
    Client(#[from] ClientError),
    /// What the command line asks for cannot be meant.
    #[error("{0}")]
    Usage(String),
    /// The daemon answered with an error.
    #[error("{0}")]
    Refused(String),
    #[error("cannot write to standard output: {0}")]
    Output(#[from] std::io::Error),
}

impl Failure {
    /// Tells it on standard error, and gives the exit code.
    pub(super) fn report(&self) -> ExitCode {
        // Whoever read the output had enough.
        if matches!(self, Failure::Output(error) if error.kind() == std::io::ErrorKind::BrokenPipe) {
            return ExitCode::SUCCESS;
        }
        eprintln!("mainspring: {self}");
        match self {
            Failure::Client(ClientError::NoDaemon { .. }) => ExitCode::from(EXIT_NO_DAEMON),
            Failure::Client(ClientError::BadMessage { .. }) | Failure::Usage(_) => ExitCode::from(EXIT_USAGE),
            _ => ExitCode::FAILURE,
        }
    }
}

impl Target {
    pub(super) fn connect(&self) -> Result<Client, Failure> {
        Ok(Client::connect(&find_socket(self.socket.as_deref()))?)
    }

    /// What a request says about its time, in milliseconds.
    pub(super) fn timeout_ms(&self) -> Option<u64> {
        self.timeout.map(|time| u64::try_from(time.as_millis()).unwrap_or(u64::MAX).max(1))
    }

    /// When to give the daemon up; without `--timeout` the daemon's own word is waited for.
    pub(super) fn deadline(&self) -> Option<Deadline> {
        self.timeout.map(|time| Deadline::after(time.saturating_add(PATIENCE)))
    }

    /// Asks one built-in query and returns the data of its reply.
    pub(super) fn ask(
        &self,
        type_name: &'static str,
        data: serde_json::Value,
    ) -> Result<serde_json::Value, Failure> {
        let reply = self.request(Kind::Query, type_name, data)?;
        Ok(serde_json::from_str(reply.data()).unwrap_or_default())
    }

    /// Sends one request and returns its reply; an error is a [`Failure::Refused`].
    pub(super) fn request(
        &self,
        kind: Kind,
        type_name: &'static str,
        data: serde_json::Value,
    ) -> Result<Envelope, Failure> {
        let mut draft = Draft::new(kind, type_name, Json::from(data));
        draft.timeout_ms = self.timeout_ms();
        let outcome = self.connect()?.request(&draft, self.deadline())?;
        if outcome.kind() == Kind::Error {
            return Err(Failure::Refused(super::text::error_line(&outcome)));
        }
        Ok(outcome)
    }
}
