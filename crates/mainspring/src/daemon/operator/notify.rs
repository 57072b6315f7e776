//! Telling the service manager (systemd, or whoever speaks its protocol) how the daemon is.

use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

/// The variable that names the socket to tell it on. Children do not get it: they are not the service.
pub(crate) const NOTIFY_VARIABLE: &str = "NOTIFY_SOCKET";

/// The way to the service manager, if there is one.
pub(crate) struct Notifier {
    to: Option<(OwnedFd, SocketAddrUnix)>,
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
            (Ok(socket), Ok(address)) => Notifier { to: Some((socket, address)) },
            (Err(error), _) | (_, Err(error)) => {
                tracing::warn!("the service manager cannot be told: {error}");
                Notifier { to: None }
            }
        }
    }

    /// The daemon serves.
    pub(crate) fn ready(&self) {
        self.tell("READY=1\nSTATUS=ready");
    }

    /// The daemon reads its configuration again.
    pub(crate) fn reloading(&self) {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let now_us = now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000;
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={now_us}\nSTATUS=reloading"));
    }

    /// The daemon ends.
    pub(crate) fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=shutting down");
    }

    fn tell(&self, text: &str) {
        let Some((socket, address)) = &self.to else { return };
        if let Err(error) = rustix::net::sendto(socket, text.as_bytes(), SendFlags::NOSIGNAL, address) {
            tracing::warn!(
                "the service manager was not told {:?}: {error}",
                text.lines().next().unwrap_or("")
            );
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
