//! Why there is no answer.

use crate::client::{Address, Stream, TCP_VARIABLE, TOKEN_FILE_VARIABLE, TOKEN_VARIABLE};
use crate::config::ConfigError;
use crate::daemon::CONNECTION;
use crate::text::units::show_duration;
use mainspring_message::{Envelope, Kind};
use std::io;
use std::time::Duration;

/// Why a client could not do its work.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// Nothing listens there.
    #[error(
        "no daemon listens at {address} ({reason}); start one with `mainspring up`, or say where it is with --socket or --tcp"
    )]
    NoDaemon {
        /// Where.
        address: Address,
        /// What the operating system says.
        reason: io::Error,
    },
    /// The socket is somebody else's.
    #[error(
        "permission denied to connect to {address}: {place} belongs to user {owner}, and you are user {user}"
    )]
    Denied {
        /// Where.
        address: Address,
        /// The socket, or the folder on the way to it that is closed.
        place: String,
        /// Whose it is.
        owner: u32,
        /// Who we are.
        user: u32,
    },
    /// Whoever listens on a TCP port does not speak like a daemon.
    #[error("what listens at {place} does not answer like a daemon")]
    NotADaemon {
        /// The host and port.
        place: String,
    },
    /// That is no place to connect to.
    #[error("{place}: {reason}")]
    BadPlace {
        /// What was asked for.
        place: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A TCP listener asks for a token, and there is none.
    #[error(
        "the daemon at {place} opens to a token: name a file with --token-file or {TOKEN_FILE_VARIABLE}, or put it into {TOKEN_VARIABLE}"
    )]
    NoToken {
        /// The host and port.
        place: String,
    },
    /// The connection cannot be encrypted, or not with whom it should be.
    #[error("the connection to {place} cannot be encrypted: {reason}")]
    Tls {
        /// The host and port.
        place: String,
        /// Why not.
        reason: String,
    },
    /// A certificate without its key, or the other way round, or either without anybody to trust.
    #[error("{0}")]
    BadTls(&'static str),
    /// The token cannot be had.
    #[error("the token: {0}")]
    BadToken(String),
    /// A token was given for a listener that needs none.
    #[error(
        "--token-file and --tls-ca are for --tcp (or {TCP_VARIABLE}); a Unix socket knows its clients by their user"
    )]
    TokenWithoutTcp,
    /// A variable of the environment that must be text is not.
    #[error("the variable {0} is not UTF-8 text")]
    NotText(&'static str),
    /// The daemon does not know the token.
    #[error("the daemon at {place} does not take this token")]
    WrongToken {
        /// The host and port.
        place: String,
    },
    /// The daemon closed the connection as a whole, and said why.
    #[error("the daemon refused the connection ({code}): {message}")]
    TurnedAway {
        /// The code of its error.
        code: u64,
        /// Its words.
        message: String,
    },
    /// The daemon closed the connection before it had answered.
    #[error("the daemon closed the connection before it had answered")]
    Closed,
    /// The daemon is another user's. Nothing was said to it.
    #[error("the daemon belongs to user {owner} and serves nobody else; you are user {user}")]
    OfAnotherUser {
        /// Whose it is.
        owner: u32,
        /// Who we are.
        user: u32,
    },
    /// Another user decides where the path of the socket leads. Nothing was said to whoever
    /// listens.
    #[error("{place} belongs to user {owner}, who may have led it anywhere; you are user {user}")]
    ForeignPlace {
        /// The folder of the socket, or a link in its place.
        place: String,
        /// Whose it is.
        owner: u32,
        /// Who we are.
        user: u32,
    },
    /// The daemon ended the connection when it had nothing more to answer: it has ended itself, for
    /// one.
    #[error("the daemon ended the connection")]
    Ended,
    /// The daemon has not answered in time.
    #[error("the daemon has not answered within {}{}", show_duration(*.within), grace_words(*.grace))]
    Silent {
        /// What was asked for.
        within: Duration,
        /// What it was given beyond that.
        grace: Duration,
    },
    /// What came is not a message.
    #[error("the daemon wrote something that is not a message: {0}")]
    NotAMessage(String),
    /// The message to send breaks the rules of messages.
    #[error("{field}: {reason}")]
    BadMessage {
        /// Which part of it.
        field: &'static str,
        /// Which rule.
        reason: &'static str,
    },
    /// The file that says where the daemon is cannot be used.
    #[error("{0}")]
    BadConfig(ConfigError),
    /// The file names a TCP listener whose port only the daemon knows.
    #[error(
        "the daemon of {file} chooses its TCP port itself: say which with --tcp, or where it is with --socket"
    )]
    UnknownPort {
        /// The file.
        file: &'static str,
    },
    /// The connection failed.
    #[error("the connection to the daemon failed: {0}")]
    Io(#[from] io::Error),
}

fn grace_words(grace: Duration) -> String {
    if grace.is_zero() { String::new() } else { format!(", nor {} later", show_duration(grace)) }
}

impl ClientError {
    /// What it means that the daemon closed a connection without a word.
    #[must_use]
    pub fn hung_up(stream: &Stream) -> ClientError {
        let user = rustix::process::geteuid().as_raw();
        match stream.peer_user() {
            Some(owner) if owner != user => ClientError::OfAnotherUser { owner, user },
            _ => ClientError::Closed,
        }
    }

    /// What an error says that is about the connection as a whole, and so the last thing that
    /// comes.
    #[must_use]
    pub fn turned_away(message: &Envelope) -> Option<ClientError> {
        if message.kind() != Kind::Error || message.causation() != Some(CONNECTION) {
            return None;
        }
        let data: serde_json::Value = serde_json::from_str(message.data()).unwrap_or_default();
        let words = data["message"].as_str().unwrap_or("it does not say why").to_owned();
        Some(ClientError::TurnedAway { code: data["code"].as_u64().unwrap_or(0), message: words })
    }
}
