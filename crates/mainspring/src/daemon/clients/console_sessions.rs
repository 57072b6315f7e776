//! Who has the console open: one-time tokens, and the sessions that they are swapped for.
//!
//! A one-time token lives for a minute, in memory. A session is a text that the daemon signed: it
//! keeps nothing of it, so a session outlives a restart as long as the key does, which is in a file
//! beside the socket that only its owner can read. Removing that file ends all sessions with the
//! next restart. Nothing is made or read before a console is opened.

use crate::daemon::clients::http_bus::HttpBus;
use mainspring_http::{Peer, Session, Sessions};
use mainspring_kernel::Rights;
use rustix::fs::Mode;
use rustix::fs::OFlags;
use rustix::rand::{GetRandomFlags, getrandom};
use sha2::{Digest, Sha256};
use std::cell::{OnceCell, RefCell};
use std::collections::VecDeque;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};
use subtle::ConstantTimeEq;

/// How long a one-time token can be used.
pub(crate) const ONCE_MS: u64 = 60_000;
/// One-time tokens that nobody has used yet. Beyond: the oldest is forgotten.
const ONCE_MAX: usize = 16;
/// How long a session lasts.
const SESSION_MS: u64 = 7 * 24 * 60 * 60 * 1000;
/// What a session's text begins with; a token of a listener is never looked up by mistake.
const PREFIX: &str = "console.";
/// Bytes of the key, of a token and of a signature.
const KEY_BYTES: usize = 32;
/// What is added to the path of the socket for the file with the key.
const KEY_SUFFIX: &str = ".console";

type SessionKey = [u8; KEY_BYTES];

/// The sessions of a daemon's owner.
pub(crate) struct ConsoleSessions {
    bus: Rc<HttpBus>,
    /// Where the key is kept, if the daemon has a socket.
    key_file: Option<PathBuf>,
    key: RefCell<Option<SessionKey>>,
    /// Whether the file was looked at: it is read once.
    is_read: std::cell::Cell<bool>,
    /// Hashes of the one-time tokens, with when each ends.
    once: RefCell<VecDeque<(SessionKey, u64)>>,
    owner: OnceCell<Peer>,
}

impl ConsoleSessions {
    /// The sessions of a daemon with this socket.
    pub(crate) fn new(bus: &Rc<HttpBus>, socket: Option<&Path>) -> Rc<ConsoleSessions> {
        let key_file = socket.map(|socket| {
            let mut path = socket.as_os_str().to_owned();
            path.push(KEY_SUFFIX);
            PathBuf::from(path)
        });
        Rc::new(ConsoleSessions {
            bus: Rc::clone(bus),
            key_file,
            key: RefCell::default(),
            is_read: std::cell::Cell::new(false),
            once: RefCell::default(),
            owner: OnceCell::new(),
        })
    }

    /// The name of the peer that all sessions are of.
    pub(crate) fn owner_name() -> String {
        format!("user:{}", rustix::process::geteuid().as_raw())
    }

    /// A token that opens one session within a minute.
    pub(crate) fn new_once(&self) -> Result<String, String> {
        self.make_key()?;
        let token = hex(&random()?);
        let mut once = self.once.borrow_mut();
        if once.len() >= ONCE_MAX {
            once.pop_front();
        }
        once.push_back((digest(token.as_bytes()), unix_ms() + ONCE_MS));
        Ok(token)
    }

    /// A session for a one-time token that is shown at this time.
    fn redeem_at(&self, once: &str, now: u64) -> Option<Session> {
        let shown = digest(once.as_bytes());
        let mut waiting = self.once.borrow_mut();
        waiting.retain(|(_, until)| *until > now);
        let at = waiting.iter().position(|(known, _)| bool::from(known.ct_eq(&shown)))?;
        waiting.remove(at);
        let expires_at = now + SESSION_MS;
        let token = self.sign(expires_at, &hex(&random().ok()?[..8]))?;
        Some(Session { token, expires_at })
    }

    fn sign(&self, expires_at: u64, nonce: &str) -> Option<String> {
        let key = self.key()?;
        let claims = format!("{PREFIX}{expires_at:x}.{nonce}");
        let signature = hex(&keyed_hash(&key, claims.as_bytes()));
        Some(format!("{claims}.{signature}"))
    }

    /// The key, from memory or from the file of an earlier run.
    fn key(&self) -> Option<SessionKey> {
        if self.key.borrow().is_none() && !self.is_read.replace(true) {
            *self.key.borrow_mut() = self.key_file.as_deref().and_then(read_key);
        }
        *self.key.borrow()
    }

    /// The key, made anew if there is none.
    fn make_key(&self) -> Result<(), String> {
        if self.key().is_some() {
            return Ok(());
        }
        let key = random()?;
        if let Some(path) = &self.key_file
            && let Err(error) = write_key(path, &key)
        {
            // The console works all the same; its sessions end with the daemon.
            tracing::warn!("{}: {error}; sessions of the console end with the daemon", path.display());
        }
        *self.key.borrow_mut() = Some(key);
        Ok(())
    }
}

impl Sessions for ConsoleSessions {
    fn redeem(&self, once: &str) -> Option<Session> {
        self.redeem_at(once, unix_ms())
    }

    fn peer(&self, session: &[u8]) -> Option<Peer> {
        let text = std::str::from_utf8(session).ok().filter(|text| text.len() < 256)?;
        let (expires, rest) = text.strip_prefix(PREFIX)?.split_once('.')?;
        let (nonce, _) = rest.split_once('.')?;
        let expires_at = u64::from_str_radix(expires, 16).ok()?;
        let expected = self.sign(expires_at, nonce)?;
        let is_ours = bool::from(expected.as_bytes().ct_eq(session));
        (is_ours && expires_at > unix_ms()).then(|| {
            self.owner.get_or_init(|| self.bus.peer(Self::owner_name(), Rights::of_operator())).clone()
        })
    }
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn random() -> Result<SessionKey, String> {
    let mut bytes = [0; KEY_BYTES];
    match getrandom(&mut bytes, GetRandomFlags::empty()) {
        Ok(KEY_BYTES) => Ok(bytes),
        Ok(_) => Err("the system has no random numbers".to_owned()),
        Err(error) => Err(format!("the system has no random numbers: {error}")),
    }
}

fn digest(bytes: &[u8]) -> SessionKey {
    Sha256::digest(bytes).into()
}

/// HMAC with SHA-256 (RFC 2104).
fn keyed_hash(key: &SessionKey, text: &[u8]) -> SessionKey {
    let padded = |with: u8| {
        let mut block = [with; 64];
        for (byte, key) in block.iter_mut().zip(key) {
            *byte ^= key;
        }
        block
    };
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(text).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().into()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The key of an earlier run, if it is this user's and nobody else could read it.
fn read_key(path: &Path) -> Option<SessionKey> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let mut file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    let about = file.metadata().ok()?;
    let is_ours = about.is_file()
        && about.uid() == rustix::process::geteuid().as_raw()
        && about.mode() & 0o077 == 0
        && about.len() == KEY_BYTES as u64;
    let mut key = [0; KEY_BYTES];
    (is_ours && file.read_exact(&mut key).is_ok()).then_some(key)
}

fn write_key(path: &Path, key: &SessionKey) -> std::io::Result<()> {
    // What is there is not a key that can be used.
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?);
    file.write_all(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::daemon::kernel_cell::KernelCell;
    use mainspring_kernel::{Config, Kernel};
    use mainspring_reactor::Reactor;
    use std::os::unix::fs::PermissionsExt;

    fn sessions(socket: Option<&Path>) -> Rc<ConsoleSessions> {
        let reactor = Reactor::new().unwrap();
        let kernel_cell = Rc::new(KernelCell::new(Kernel::new(Config::default(), 1), reactor.handle()));
        ConsoleSessions::new(&HttpBus::new(kernel_cell), socket)
    }

    #[test]
    fn the_keyed_hash_is_that_of_the_standard() {
        // RFC 4231, test case 1, whose key is filled up with zeros as HMAC does it.
        let mut key = [0; KEY_BYTES];
        key[..20].fill(0x0b);
        let expected = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7";
        assert_eq!(hex(&keyed_hash(&key, b"Hi There")), expected);
    }

    #[test]
    fn a_token_opens_one_session_which_lasts() {
        let sessions = sessions(None);
        let once = sessions.new_once().unwrap();
        let session = sessions.redeem(&once).unwrap();
        assert!(sessions.redeem(&once).is_none(), "it opened a second session");
        let peer = sessions.peer(session.token.as_bytes()).unwrap();
        assert_eq!(peer.name, ConsoleSessions::owner_name());
        assert_eq!(sessions.peer(session.token.as_bytes()), Some(peer), "one peer for all");
        assert!(session.expires_at > unix_ms() + SESSION_MS - 10_000);
    }

    #[test]
    fn a_token_of_the_console_is_worth_nothing_after_a_minute() {
        let sessions = sessions(None);
        let (in_time, late) = (sessions.new_once().unwrap(), sessions.new_once().unwrap());
        let now = unix_ms();
        assert!(sessions.redeem_at(&in_time, now + ONCE_MS - 10_000).is_some());
        assert!(sessions.redeem_at(&late, now + ONCE_MS + 1).is_none(), "it is too old");
        assert!(sessions.redeem_at(&late, now).is_none(), "it was kept");
    }

    #[test]
    fn nothing_else_is_a_session() {
        let sessions = sessions(None);
        let session = sessions.redeem(&sessions.new_once().unwrap()).unwrap().token;
        let later = session.replacen(PREFIX, "console.f", 1);
        let ended = sessions.sign(unix_ms() - 1, "00").unwrap();
        let long = format!("{PREFIX}{}", "a.".repeat(500));
        for wrong in [&later, &ended, &long, &session[..session.len() - 1], "", PREFIX, "console.1.2.3"] {
            assert!(sessions.peer(wrong.as_bytes()).is_none(), "{wrong}");
        }
        assert!(self::sessions(None).peer(session.as_bytes()).is_none(), "another daemon's");
        assert!(sessions.redeem("").is_none());
    }

    #[test]
    fn unused_tokens_are_bounded() {
        let sessions = sessions(None);
        let first = sessions.new_once().unwrap();
        let others: Vec<String> = (0..ONCE_MAX).map(|_| sessions.new_once().unwrap()).collect();
        let last = &others[ONCE_MAX - 1];
        assert!(sessions.redeem(&first).is_none());
        assert!(sessions.redeem(last).is_some());
    }

    #[test]
    fn a_session_outlives_a_restart_as_long_as_its_key_is_safe() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let before = sessions(Some(&socket));
        let session = before.redeem(&before.new_once().unwrap()).unwrap().token;
        let file = folder.path().join("socket.console");
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(sessions(Some(&socket)).peer(session.as_bytes()).is_some());
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
        let after = sessions(Some(&socket));
        assert!(after.peer(session.as_bytes()).is_none(), "others could have read the key");
        after.new_once().unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(after.peer(session.as_bytes()).is_none(), "there is another key now");
    }
}
