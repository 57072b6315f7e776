//! The console: whoever runs the server says whose sessions there are; the page itself is the crate
//! `mainspring-console`.
//!
//! The page is the same for everybody and tells nothing, so it is served without a token. It is
//! opened with a one-time token in the fragment of its address, which browsers do not send; it
//! swaps that for a session, and sends the session with every request as any other client sends its
//! token.

use crate::bus::Peer;

/// Whose consoles are open.
pub trait Sessions {
    /// Swaps a one-time token for a session. `None` when it was used, is too old, or never was.
    fn redeem(&self, once: &str) -> Option<Session>;

    /// Whose session this is, as it stands after `Bearer`. `None` when it is none, or has ended.
    fn peer(&self, session: &[u8]) -> Option<Peer>;
}

/// A session that has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// What the page sends with every request.
    pub token: String,
    /// When it ends, in milliseconds since 1970.
    pub expires_at: u64,
}
