//! Where clients come in.

use crate::config::file::{ListenFile, TokenFile};
use crate::config::problem::{Place, Source};
use crate::config::read;
use crate::config::sources::Sources;
use crate::config::tree::Node;
use crate::settings::{Door, is_reserved_peer};
use crate::system::files::read_secret;
use crate::system::socket_path::SOCKET_PATH_BYTES_MAX;
use std::net::SocketAddr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::rc::Rc;

/// The shortest token.
const TOKEN_BYTES_MIN: usize = 16;

/// All doors; `None` if something is wrong with one.
pub(super) fn read(listen: &Node, source: &Rc<Source>, sources: &mut Sources) -> Option<Vec<Door>> {
    let place = |node: &Node| Place { source: source.clone(), span: node.span.clone() };
    let before = sources.problems.len();
    // That it is no list of tables is told by whoever reads the file as a whole.
    let doors: Vec<Option<Door>> = listen
        .elements()
        .iter()
        .map(|node| {
            let file: ListenFile = read::read(node, source, &mut Vec::new())?;
            door(&file, node, source, sources)
        })
        .collect();
    for (at, door) in doors.iter().enumerate() {
        let is_same = |other: &Option<Door>| match (door, other) {
            (Some(Door::Unix { path }), Some(Door::Unix { path: other })) => same_place(path, other),
            (Some(Door::Tcp { address, .. }), Some(Door::Tcp { address: other, .. })) => {
                address == other && address.port() != 0
            }
            _ => false,
        };
        if doors[..at].iter().any(is_same) {
            sources.problem(&place(&listen.elements()[at]), "this socket is there twice");
        }
    }
    if doors.is_empty() {
        sources.problem(&place(listen), "nobody could come in; leave `listen` out for the usual socket");
    }
    (sources.problems.len() == before).then(|| doors.into_iter().collect())?
}

fn door(file: &ListenFile, node: &Node, source: &Rc<Source>, sources: &mut Sources) -> Option<Door> {
    match (&file.unix, &file.tcp) {
        (Some(path), None) => {
            if let Some(tokens) = node.entry("tokens") {
                let message = "a Unix socket knows its clients by their user; `tokens` are for `tcp`";
                sources.problem_at(source, &tokens.key_span, message);
            }
            unix(path, node, source, sources)
        }
        (None, Some(address)) => tcp(address, file, node, source, sources),
        (Some(_), Some(_)) => {
            sources.problem_at(source, &node.span, "`unix` and `tcp` are two places: write a table for each");
            None
        }
        (None, None) => {
            sources.problem_at(source, &node.span, "write `unix` with a path, or `tcp` with an address");
            None
        }
    }
}

/// Whether two paths lead to the same place, however they are written.
fn same_place(one: &Path, other: &Path) -> bool {
    // A bare name has an empty parent, which nothing can be found by.
    let folder = |path: &Path| Path::new(".").join(path.parent()?).canonicalize().ok();
    one.components().eq(other.components())
        || (one.file_name() == other.file_name() && folder(one).is_some() && folder(one) == folder(other))
}

fn unix(path: &Path, node: &Node, source: &Rc<Source>, sources: &mut Sources) -> Option<Door> {
    let span = &node.get("unix")?.span;
    if path.file_name().is_none() {
        sources.problem_at(source, span, "the path of a socket ends with its name");
        return None;
    }
    let path = source.beside(path);
    if path.as_os_str().as_bytes().len() > SOCKET_PATH_BYTES_MAX {
        let message =
            format!("the path of a socket has at most {SOCKET_PATH_BYTES_MAX} bytes: {}", path.display());
        sources.problem_at(source, span, message);
        return None;
    }
    Some(Door::Unix { path })
}

fn tcp(
    address: &str,
    file: &ListenFile,
    node: &Node,
    source: &Rc<Source>,
    sources: &mut Sources,
) -> Option<Door> {
    let span = &node.get("tcp")?.span;
    let Ok(address) = address.parse::<SocketAddr>() else {
        sources.problem_at(
            source,
            span,
            "expected an address and a port, such as 127.0.0.1:7700 or [::1]:7700",
        );
        return None;
    };
    if !address.ip().is_loopback() {
        let message =
            "only addresses of loopback (127.0.0.1, [::1]) are served: what is said there is not encrypted";
        sources.problem_at(source, span, message);
        return None;
    }
    if file.tokens.is_empty() {
        let message = "everybody on this machine can reach a TCP socket: name in `tokens` who may come in";
        sources.problem_at(source, span, message);
        return None;
    }
    let nodes = node.get("tokens").map_or(&[][..], Node::elements);
    let mut tokens: Vec<(String, String)> = Vec::new();
    for (token, node) in file.tokens.iter().zip(nodes) {
        let place = |key: &str| Place {
            source: source.clone(),
            span: node.get(key).map_or(node.span.clone(), |value| value.span.clone()),
        };
        match secret(token, source) {
            Err((key, message)) => sources.problem(&place(key), message),
            Ok(secret) => {
                if token.token.is_some() && is_read_by_others(&source.path) {
                    let key = node.entry("token").map_or(&node.span, |entry| &entry.key_span);
                    let place = Place { source: source.clone(), span: key.clone() };
                    sources.warn_hiding(&secret, &place, readable_token(source));
                }
                if tokens.iter().any(|(name, _)| *name == token.name) {
                    sources.problem(&place("name"), format!("the name {:?} is there twice", token.name));
                } else if tokens.iter().any(|(_, other)| *other == secret) {
                    sources
                        .problem(&place("name"), "the same token is there twice; nobody could be told apart");
                }
                tokens.push((token.name.clone(), secret));
            }
        }
    }
    Some(Door::Tcp { address, tokens })
}

/// Whether users other than its owner may read a file.
fn is_read_by_others(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|about| about.permissions().mode() & 0o044 != 0)
}

fn readable_token(source: &Source) -> String {
    let file = source.path.display();
    format!(
        "other users may read this file, and the token in it; `chmod 600 {file}`, or write `token_file` with \
         the path of a file that only you may read"
    )
}

/// The secret of a token, or the key at fault and what is wrong.
fn secret(token: &TokenFile, source: &Source) -> Result<String, (&'static str, String)> {
    if token.name.trim().is_empty() {
        return Err(("name", "say who has the token".into()));
    }
    if is_reserved_peer(&token.name) {
        let message = "that is the name of a user of the Unix socket (`user:...`) or of the standard streams (`stdio`): choose another";
        return Err(("name", message.into()));
    }
    let (key, secret) = match (&token.token, &token.token_file) {
        (Some(secret), None) => ("token", secret.clone()),
        (None, Some(path)) => {
            ("token_file", read_secret(&source.beside(path)).map_err(|text| ("token_file", text))?)
        }
        _ => return Err(("", "write either `token` or `token_file`".into())),
    };
    if secret.len() < TOKEN_BYTES_MIN || secret.chars().any(char::is_whitespace) {
        let message = format!(
            "a token has at least {TOKEN_BYTES_MIN} characters and no spaces; `openssl rand -hex 16` makes one"
        );
        return Err((key, message));
    }
    Ok(secret)
}
