//! Who may come in through a door that cannot tell who somebody is.

use crate::settings::Token;
use serde::Deserialize;
use std::time::Duration;

/// The longest first line.
const TOKEN_LINE_BYTES_MAX: usize = 4096;
/// How long a client may take to send its token.
const PATIENCE: Duration = Duration::from_secs(5);

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

    /// The name that belongs to the token in this line. Every token is compared whole, so the time taken tells nothing.
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

    pub(crate) fn patience(&self) -> Duration {
        PATIENCE
    }
}

/// Compares hashes, whose first difference says nothing about the texts.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    use sha2::{Digest, Sha256};
    let (one, other) = (Sha256::digest(one), Sha256::digest(other));
    let mut difference = 0;
    for (a, b) in one.iter().zip(other.iter()) {
        difference |= a ^ b;
    }
    std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use mainspring_kernel::Rights;

    #[test]
    fn the_right_token_gives_the_name_and_everything_else_nothing() {
        let token = |name: &str, secret: &str| Token {
            name: name.into(),
            secret: secret.into(),
            rights: Rights::default().as_operator(name == "bob"),
        };
        let gate = Gate::new(vec![token("ann", "secret-a"), token("bob", "secret-b")]);
        let bob = gate.admit(br#"{"token":"secret-b"}"#);
        assert!(bob.is_some_and(|token| token.name == "bob" && token.rights.is_operator()));
        for wrong in [
            &br#"{"token":"secret-"}"#[..],
            br#"{"token":""}"#,
            br#"{"token":"secret-a","more":1}"#,
            b"secret-a",
            b"\xff",
        ] {
            assert!(gate.admit(wrong).is_none());
        }
    }
}
