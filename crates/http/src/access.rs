//! Who may ask: tokens, and the hosts and origins from which a browser may.
//!
//! A browser page of anybody can make a browser send requests to loopback. Two checks on every
//! request keep such pages out: `Host` must name this server, so a name that was bound to this
//! address behind the browser's back does not count, and `Origin`, if there is one, must be this
//! server itself. What changes something needs the token in a header, which no form and no link can
//! send.

use crate::bus::Peer;
use crate::console::Sessions;
use crate::problem::Problem;
use hyper::header::{AUTHORIZATION, HOST, HeaderValue, ORIGIN};
use hyper::{HeaderMap, StatusCode, Uri};
use sha2::{Digest, Sha256};
use std::cell::RefCell;
use std::fmt;
use std::net::IpAddr;
use subtle::ConstantTimeEq;

/// A token and whom it stands for. The token itself is not kept.
#[derive(Clone)]
pub struct Token {
    peer: Peer,
    digest: [u8; 32],
}

impl Token {
    /// The token of this peer.
    #[must_use]
    pub fn new(peer: Peer, token: &str) -> Token {
        Token { peer, digest: Sha256::digest(token.as_bytes()).into() }
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").field("peer", &self.peer.name).finish_non_exhaustive()
    }
}

/// Who may ask, and under which names.
#[derive(Clone, Debug)]
pub enum Access {
    /// Whoever shows a token, at one of these hosts (without a port).
    Tokens {
        /// The tokens.
        tokens: Vec<Token>,
        /// Names besides `localhost` and loopback addresses, in lower case.
        hosts: Vec<String>,
    },
    /// Everybody is this peer: the socket itself says who may connect.
    Everybody(Peer),
}

/// The last token of a connection, as its header had it, and whose it is: the tokens of a listener
/// stay what they are, and nearly all requests of a connection show the same one. It is kept until
/// the connection ends, as the bytes that were read from it are.
#[derive(Default)]
pub(crate) struct LastToken(RefCell<Option<(Box<[u8]>, Peer)>>);

impl Access {
    /// Whose request this is. A session of the console counts as a token, for as long as it lasts.
    pub(crate) fn admit(
        &self,
        headers: &HeaderMap,
        last: &LastToken,
        sessions: Option<&dyn Sessions>,
    ) -> Result<Peer, Problem> {
        let tokens = match self {
            Access::Everybody(peer) => return Ok(peer.clone()),
            Access::Tokens { tokens, .. } => tokens,
        };
        let shown = headers.get(AUTHORIZATION).ok_or_else(|| {
            Problem::new(StatusCode::UNAUTHORIZED, "a token is needed: Authorization: Bearer TOKEN")
        })?;
        // Whoever shows what was taken here before learns nothing from the time that this takes.
        if let Some((before, peer)) = &*last.0.borrow()
            && **before == *shown.as_bytes()
        {
            return Ok(peer.clone());
        }
        let header = shown.as_bytes();
        let wrong = || Problem::new(StatusCode::UNAUTHORIZED, "the token is not known here");
        let shown = bearer(shown).ok_or_else(wrong)?;
        let digest: [u8; 32] = Sha256::digest(shown).into();
        // Every token is compared whole, so that the time taken tells nothing.
        let mut found = None;
        for token in tokens {
            if bool::from(token.digest.ct_eq(&digest)) {
                found = Some(&token.peer);
            }
        }
        if let Some(peer) = found {
            *last.0.borrow_mut() = Some((header.into(), peer.clone()));
            return Ok(peer.clone());
        }
        sessions.and_then(|sessions| sessions.peer(shown)).ok_or_else(wrong)
    }

    /// Refuses what a page of another origin, or of a name that only pretends to be this server,
    /// sends.
    pub(crate) fn check_origin(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
        let Access::Tokens { hosts, .. } = self else { return Ok(()) };
        if headers.get_all(HOST).iter().count() > 1 {
            return Err(Problem::new(StatusCode::BAD_REQUEST, "there are two Host headers"));
        }
        let host = match (uri.authority(), headers.get(HOST)) {
            (Some(authority), _) => authority.as_str(),
            (None, Some(host)) => host.to_str().unwrap_or_default(),
            (None, None) => return Err(Problem::new(StatusCode::BAD_REQUEST, "there is no Host header")),
        };
        if !is_own_host(host, hosts) {
            let text = format!("this server is not called {host:?}; add the name to `hosts` of its listener");
            return Err(Problem::new(StatusCode::MISDIRECTED_REQUEST, text));
        }
        match headers.get(ORIGIN) {
            Some(origin) if !is_same_origin(origin, host) => {
                let text = "pages of another origin may not ask; there is no CORS here";
                Err(Problem::new(StatusCode::FORBIDDEN, text))
            }
            _ => Ok(()),
        }
    }
}

fn bearer(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = value.as_bytes().split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then(|| token.trim_ascii())
}

/// Whether a `Host` means this server: a loopback address, `localhost`, or a name that was
/// configured.
fn is_own_host(host: &str, names: &[String]) -> bool {
    let name = without_port(host);
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let is_loopback = address.is_ok_and(|address| address.is_loopback());
    is_loopback
        || name.eq_ignore_ascii_case("localhost")
        || names.iter().any(|known| known.eq_ignore_ascii_case(name))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        // The colons of an IPv6 address are inside its brackets.
        Some((name, port)) if !port.contains(']') => name,
        _ => host,
    }
}

fn is_same_origin(origin: &HeaderValue, host: &str) -> bool {
    let origin = origin.to_str().unwrap_or_default();
    let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    rest.is_some_and(|rest| rest.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (name, value) in pairs {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        map
    }

    fn access() -> Access {
        let tokens = vec![
            Token::new(Peer { name: "ann".into(), tag: 0 }, "secret-a"),
            Token::new(Peer { name: "bob".into(), tag: 0 }, "secret-b"),
        ];
        Access::Tokens { tokens, hosts: vec!["bus.example".to_owned()] }
    }

    #[test]
    fn a_token_gives_its_name_and_everything_else_is_401() {
        let (access, last) = (access(), LastToken::default());
        let peer = |value: &str| {
            access.admit(&headers(&[("authorization", value)]), &last, None).map(|peer| peer.name)
        };
        assert_eq!(peer("Bearer secret-b").unwrap(), "bob");
        assert_eq!(peer("Bearer secret-b").unwrap(), "bob", "again on the same connection");
        assert_eq!(peer("bearer  secret-a ").unwrap(), "ann", "the scheme has no case");
        for wrong in ["Bearer secret-", "Bearer ", "Bearer", "Basic secret-a", "secret-a"] {
            assert_eq!(peer(wrong).unwrap_err().status(), StatusCode::UNAUTHORIZED, "{wrong}");
        }
        assert_eq!(peer("bearer  secret-a ").unwrap(), "ann", "what was wrong between changes nothing");
        assert!(access.admit(&HeaderMap::new(), &last, None).is_err());
    }

    #[test]
    fn a_host_that_is_not_this_server_is_misdirected() {
        let access = access();
        let ask = |host: &str| access.check_origin(&Uri::from_static("/"), &headers(&[("host", host)]));
        for own in
            ["127.0.0.1:7780", "localhost", "LOCALHOST:1", "[::1]:80", "[::1]", "127.9.9.9", "Bus.example:9"]
        {
            assert!(ask(own).is_ok(), "{own}");
        }
        for other in
            ["evil.example", "127.0.0.1.evil.example", "10.0.0.1", "", "localhost.evil:80", "[fe80::1]"]
        {
            assert_eq!(ask(other).unwrap_err().status(), StatusCode::MISDIRECTED_REQUEST, "{other}");
        }
        let twice = headers(&[("host", "localhost"), ("host", "evil")]);
        assert_eq!(access.check_origin(&Uri::from_static("/"), &twice).unwrap_err().status(), 400);
        assert_eq!(access.check_origin(&Uri::from_static("/"), &HeaderMap::new()).unwrap_err().status(), 400);
    }

    #[test]
    fn a_page_of_another_origin_is_forbidden() {
        let access = access();
        let ask = |origin: &str| {
            let headers = headers(&[("host", "localhost:7780"), ("origin", origin)]);
            access.check_origin(&Uri::from_static("/"), &headers)
        };
        assert!(ask("http://localhost:7780").is_ok());
        for other in ["http://localhost:81", "https://evil.example", "null", "", "http://localhost:7780.evil"]
        {
            assert_eq!(ask(other).unwrap_err().status(), StatusCode::FORBIDDEN, "{other}");
        }
    }
}
