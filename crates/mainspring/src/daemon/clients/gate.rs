//! Who may connect where a connection does not tell who somebody is.

use crate::settings::Token;
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
    tokens: Vec<Token>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TokenLine {
    token: String,
}

impl Gate {
    /// A gate for these names and tokens.
    pub(crate) fn new(tokens: Vec<Token>) -> Gate {
        Gate { tokens }
    }

    /// The token in this line, if it is known. Every token is compared whole, so the time taken
    /// tells nothing.
    pub(crate) fn admit(&self, line: &[u8]) -> Option<&Token> {
        let shown: TokenLine = serde_json::from_slice(line).ok()?;
        let mut found = None;
        for token in &self.tokens {
            if is_same(token.secret.as_bytes(), shown.token.as_bytes()) {
                found = Some(token);
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
    use mainspring_kernel::Rights;

    #[test]
    fn the_right_token_gives_the_name_and_everything_else_nothing() {
        let token = |name: &str, secret: &str| Token {
            name: name.to_owned(),
            secret: secret.to_owned(),
            rights: Rights::default(),
        };
        let gate = Gate::new(vec![token("ann", "secret-a"), token("bob", "secret-b")]);
        let name = |line: &[u8]| gate.admit(line).map(|token| token.name.as_str());
        assert_eq!(name(br#"{"token":"secret-b"}"#), Some("bob"));
        for wrong in [
            &br#"{"token":"secret-"}"#[..],
            br#"{"token":""}"#,
            br#"{"token":"secret-a","more":1}"#,
            b"secret-a",
            b"\xff",
        ] {
            assert_eq!(name(wrong), None);
        }
    }
}
