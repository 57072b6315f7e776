//! Telling the service manager (systemd, or whoever speaks its protocol) how the daemon is.

use mainspring_reactor::Handle;
use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use sd_notify::NotifyState;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::rc::Rc;
use std::time::Duration;

/// However short the service manager's watchdog is, it is not told more often than this.
const WATCHDOG_INTERVAL_MIN: Duration = Duration::from_millis(10);

/// The variable that names the socket to tell it on. Children do not get it: they are not the
/// service.
pub(crate) const NOTIFY_VARIABLE: &str = "NOTIFY_SOCKET";

/// The way to the service manager, if there is one. It is never waited for: what it does not take
/// at once is not told, but logged.
#[derive(Clone)]
pub(crate) struct Notifier {
    to: Option<Rc<(OwnedFd, SocketAddrUnix)>>,
}

impl Notifier {
    /// The one that the environment names.
    pub(crate) fn from_environment() -> Notifier {
        Notifier::to(std::env::var_os(NOTIFY_VARIABLE))
    }

    fn to(name: Option<OsString>) -> Notifier {
        let Some(name) = name.filter(|name| !name.is_empty()) else { return Notifier { to: None } };
        let address = match name.as_bytes() {
            [b'@', rest @ ..] => SocketAddrUnix::new_abstract_name(rest),
            path => SocketAddrUnix::new(path),
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None);
        match (socket, address) {
            (Ok(socket), Ok(address)) => Notifier { to: Some(Rc::new((socket, address))) },
            (Err(error), _) | (_, Err(error)) => {
                tracing::warn!("cannot reach the service manager ($NOTIFY_SOCKET): {error}");
                Notifier { to: None }
            }
        }
    }

    /// Says that the daemon is alive as often as the service manager wants to hear it
    /// (`WatchdogSec=`), if it does. That is said by a timer of the daemon's own reactor: a daemon
    /// that is stuck does not say it.
    pub(crate) fn start_watchdog(&self, reactor: &Handle) {
        let Some(interval) = sd_notify::watchdog_enabled().filter(|_| self.to.is_some()) else { return };
        let notifier = self.clone();
        let every = (interval / 2).max(WATCHDOG_INTERVAL_MIN);
        if let Err(error) = reactor.every(every, move |_| notifier.tell(&[NotifyState::Watchdog])) {
            tracing::warn!("cannot set a timer for the service manager's watchdog: {error}");
        }
    }

    /// The daemon serves.
    pub(crate) fn ready(&self) {
        self.tell(&[NotifyState::Ready, NotifyState::Status("ready")]);
    }

    /// The daemon reads its configuration again.
    pub(crate) fn reloading(&self) {
        let since = NotifyState::monotonic_usec_now().ok();
        let states = [Some(NotifyState::Reloading), since, Some(NotifyState::Status("reloading"))];
        self.tell(&states.into_iter().flatten().collect::<Vec<_>>());
    }

    /// The daemon ends.
    pub(crate) fn stopping(&self) {
        self.tell(&[NotifyState::Stopping, NotifyState::Status("shutting down")]);
    }

    fn tell(&self, states: &[NotifyState<'_>]) {
        let Some((socket, address)) = self.to.as_deref() else { return };
        let text: String = states.iter().map(|state| format!("{state}\n")).collect();
        if let Err(error) = rustix::net::sendto(socket, text.as_bytes(), SendFlags::NOSIGNAL, address) {
            let state = text.lines().next().unwrap_or_default();
            tracing::warn!("cannot tell the service manager {state:?}: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};

    fn heard(socket: &UnixDatagram) -> String {
        let mut buffer = [0; 256];
        let count = socket.recv(&mut buffer).expect("a datagram");
        String::from_utf8_lossy(&buffer[..count]).into_owned()
    }

    #[test]
    fn it_is_told_on_a_path_and_on_an_abstract_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket");
        Notifier::to(Some(path.into())).ready();
        assert!(heard(&socket).starts_with("READY=1\n"));

        let name = format!("mainspring-notify-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("an address");
        let socket = UnixDatagram::bind_addr(&address).expect("a socket");
        Notifier::to(Some(format!("@{name}").into())).stopping();
        assert!(heard(&socket).starts_with("STOPPING=1\n"));
    }

    #[test]
    fn nobody_to_tell_is_no_trouble() {
        Notifier::to(None).ready();
        Notifier::to(Some("/no/such/socket".into())).reloading();
    }
}
