//! How long the daemon is waited for.

use crate::client::ClientError;
use std::time::{Duration, Instant};

/// How long a daemon may be silent before it is asked whether it is still there: its own timeout,
/// as it is shipped.
pub const SILENCE_MAX: Duration = Duration::from_secs(30);

/// How much longer than the daemon a client waits: the daemon's own word about a timeout says more.
pub const GRACE: Duration = Duration::from_secs(2);

/// How long the daemon's word is waited for.
#[derive(Clone, Copy, Debug)]
pub struct ReplyTimeout {
    asked: Option<Duration>,
    silence_max: Duration,
    grace: Duration,
}

impl ReplyTimeout {
    /// So long, and [`GRACE`] more. Without a time the daemon decides, for as long as it is there:
    /// after each [`SILENCE_MAX`] it is sent a ping, and given up if that is not answered within
    /// [`GRACE`].
    #[must_use]
    pub fn new(asked: Option<Duration>) -> ReplyTimeout {
        ReplyTimeout { asked, silence_max: SILENCE_MAX, grace: GRACE }
    }

    /// The same, but no more than a time.
    pub(super) fn at_most(self, limit: Duration) -> ReplyTimeout {
        ReplyTimeout { asked: Some(self.asked.map_or(limit, |asked| asked.min(limit))), ..self }
    }

    /// When there must be an answer, or a sign of life.
    pub(super) fn deadline(self) -> Deadline {
        match self.asked {
            Some(asked) => Deadline::new(asked, self.grace),
            None => Deadline::new(self.silence_max, Duration::ZERO),
        }
    }

    /// When a ping must be answered; `None` if the time is up without one.
    pub(super) fn ping_deadline(self) -> Option<Deadline> {
        let at = Instant::now() + self.grace;
        self.asked.is_none().then_some(Deadline { at, within: self.silence_max, grace: self.grace })
    }

    /// How long a daemon is waited for that gives no sign of life at all.
    #[must_use]
    pub fn longest(self) -> Duration {
        self.asked.unwrap_or(self.silence_max).saturating_add(self.grace).min(FOR_EVER)
    }

    /// What is told when that has passed.
    #[must_use]
    pub fn gave_up(self) -> ClientError {
        ClientError::Silent { within: self.asked.unwrap_or(self.silence_max), grace: self.grace }
    }

    #[cfg(test)]
    pub(super) fn short() -> ReplyTimeout {
        let (silence_max, grace) = (Duration::from_millis(20), Duration::from_secs(1));
        ReplyTimeout { asked: None, silence_max, grace }
    }
}

/// A century is as good as for ever, and can be added to any time.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// When waiting ends.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    at: Instant,
    within: Duration,
    grace: Duration,
}

impl Deadline {
    /// So long from now.
    #[must_use]
    pub fn after(within: Duration) -> Deadline {
        Deadline::new(within, Duration::ZERO)
    }

    fn new(within: Duration, grace: Duration) -> Deadline {
        Deadline { at: Instant::now() + within.saturating_add(grace).min(FOR_EVER), within, grace }
    }

    pub(super) fn left(self) -> Result<Duration, ClientError> {
        let left = self.at.saturating_duration_since(Instant::now());
        let silent = ClientError::Silent { within: self.within, grace: self.grace };
        if left.is_zero() { Err(silent) } else { Ok(left) }
    }
}
