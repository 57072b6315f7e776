//! What goes to the network and comes from it, as values.

use mainspring_kernel::{ConnectionId, Level};

/// Something to be done on the network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Publish a message.
    Publish {
        /// Where.
        subject: String,
        /// Where the server says that nobody takes it.
        reply: Option<String>,
        /// What: a line of words, and the payload behind it; or several such as one.
        message: Vec<u8>,
        /// The kernel is to be told ([`written`](mainspring_kernel::Kernel::written)) when so many
        /// bytes of each of these connections have left.
        written: Vec<(ConnectionId, usize)>,
    },
    /// Listen to a subject; together with others if they are a group.
    Subscribe {
        /// The subject.
        subject: String,
        /// Whether each message reaches only one of those who listen.
        is_group: bool,
    },
    /// Listen no more.
    Unsubscribe {
        /// The subject.
        subject: String,
    },
}

/// A message that came from the network.
#[derive(Clone, Copy, Debug)]
pub struct Incoming<'a> {
    /// Where it was published.
    pub subject: &'a str,
    /// What was published there.
    pub message: &'a [u8],
}

/// A line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// How bad it is.
    pub level: Level,
    /// What.
    pub text: String,
}
