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

/// What stands for a line that shows a token where none is asked for. It is refused all the same,
/// and the token itself is in no recording.
pub(super) fn without_token(line: &[u8]) -> &[u8] {
    // Messages begin otherwise, so this costs them next to nothing.
    let inside = line.strip_prefix(b"{").unwrap_or_default().trim_ascii_start();
    if inside.starts_with(br#""token""#) && serde_json::from_slice::<TokenLine>(line).is_ok() {
        return br#"{"token":"left out"}"#;
    }
    line
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
    fn a_token_where_none_is_asked_for_is_left_out_and_nothing_else_is() {
        for line in [&br#"{"token":"secret"}"#[..], br#"{  "token" : "secret" }"#, br#"{"token":"secret"} "#]
        {
            assert_eq!(without_token(line), br#"{"token":"left out"}"#);
        }
        for line in [&b"token"[..], b"", b"{", br#"{"kind":"query"}"#, br#"{"token":1}"#] {
            assert_eq!(without_token(line), line);
        }
        let message = br#"{"token":"x","kind":"query","type":"A.B","data":{}}"#;
        assert_eq!(without_token(message), message);
    }

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
