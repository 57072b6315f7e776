//! Who may connect where a connection does not tell who somebody is.

use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::time::Duration;
use subtle::ConstantTimeEq;

/// The longest first line.
const TOKEN_LINE_BYTES_MAX: usize = 4096;
/// How long a client may take to send its token.
const TOKEN_TIMEOUT: Duration = Duration::from_secs(5);

/// A gate that opens to tokens. The first line of a client must be `{"token": "..."}`.
pub(crate) struct Gate {
    tokens: Vec<(String, String)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenLine {
    token: String,
}

impl Gate {
    /// A gate for these names and tokens.
    pub(crate) fn new(tokens: Vec<(String, String)>) -> Gate {
        Gate { tokens }
    }

    /// The name that belongs to the token in this line. Every token is compared whole, so the time
    /// taken tells nothing.
    pub(crate) fn admit(&self, line: &[u8]) -> Option<&str> {
        let shown: TokenLine = serde_json::from_slice(line).ok()?;
        let mut found = None;
        for (name, token) in &self.tokens {
            if is_same(token.as_bytes(), shown.token.as_bytes()) {
                found = Some(name.as_str());
            }
        }
        found
    }

    pub(crate) fn line_bytes_max(&self) -> usize {
        TOKEN_LINE_BYTES_MAX
    }

    pub(crate) fn token_timeout(&self) -> Duration {
        TOKEN_TIMEOUT
    }
}

/// Compares hashes in constant time: `subtle` alone would tell how long a token is.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    Sha256::digest(one).ct_eq(&Sha256::digest(other)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_right_token_gives_the_name_and_everything_else_nothing() {
        let gate = Gate::new(vec![("ann".into(), "secret-a".into()), ("bob".into(), "secret-b".into())]);
        assert_eq!(gate.admit(br#"{"token":"secret-b"}"#), Some("bob"));
        for wrong in [
            &br#"{"token":"secret-"}"#[..],
            br#"{"token":""}"#,
            br#"{"token":"secret-a","more":1}"#,
            b"secret-a",
            b"\xff",
        ] {
            assert_eq!(gate.admit(wrong), None);
        }
    }
}
