"""Where the daemon is, and what lets a client in: the same answers that the commands give.

In this order: what the caller says, `MAINSPRING_TCP`, `MAINSPRING_SOCKET`, the first listener of `mainspring.toml` in
the current folder or the nearest above it (a Unix socket before TCP), the user's own socket.
"""

from __future__ import annotations

import os
import pathlib
import socket
import stat
import struct
import tempfile
from dataclasses import dataclass, field
from typing import Any, cast

from ..errors import AccessDenied, BadAddress, NoDaemon, TokenProblem

#: How long a daemon may take to let a client in.
ADMISSION = 10.0
#: The pause before the first attempt to connect again; it doubles up to the second.
BACKOFF = (0.05, 2.0)
#: What will not be better on the next attempt.
FINAL = (AccessDenied, BadAddress, TokenProblem)

CONFIG_FILE = "mainspring.toml"
#: The longest secret that is read, with the end of its line.
_SECRET_BYTES_MAX = 4096
#: The longest path of a Unix socket.
_PATH_BYTES_MAX = 107


@dataclass(frozen=True)
class Address:
    """Where a daemon listens: the path of a Unix socket, or a host and port with a token."""

    socket: str | None = None
    tcp: str | None = None
    token: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return self.socket or self.tcp or ""


def find(
    socket: str | os.PathLike[str] | None = None,
    tcp: str | None = None,
    token: str | None = None,
    token_file: str | os.PathLike[str] | None = None,
) -> Address:
    """Finds the daemon.

    Raises:
        BadAddress: What should say where it is has a fault.
        TokenProblem: There is no token for TCP, or it cannot be read.
    """
    if socket is not None:
        return Address(socket=os.fspath(socket))
    place = tcp or os.environ.get("MAINSPRING_TCP") or None
    if place is not None:
        return Address(tcp=place, token=token or _token(token_file, place))
    if token is not None or token_file is not None:
        raise TokenProblem("a token is for TCP; a Unix socket knows its clients by their user")
    chosen = os.environ.get("MAINSPRING_SOCKET")
    if chosen:
        return Address(socket=chosen)
    return _of_project() or Address(socket=default_socket())


def default_socket() -> str:
    """The user's own socket."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(runtime):
        return os.path.join(runtime, "mainspring", "mainspring.sock")
    return os.path.join(tempfile.gettempdir(), f"mainspring-{os.getuid()}", "mainspring.sock")


def _token(file: str | os.PathLike[str] | None, place: str) -> str:
    if file is not None:
        return read_secret(os.fspath(file))
    if token := os.environ.get("MAINSPRING_TOKEN"):
        return token
    if path := os.environ.get("MAINSPRING_TOKEN_FILE"):
        return read_secret(path)
    raise TokenProblem(
        f"the daemon at {place} opens to a token: give one, or name a file with it in MAINSPRING_TOKEN_FILE, "
        "or put it into MAINSPRING_TOKEN"
    )


def read_secret(path: str) -> str:
    """The secret that a file holds, which others may not be able to read.

    Raises:
        TokenProblem: It cannot be used.
    """
    try:
        # Whatever is no file may have no end, or wait for a writer.
        is_file = stat.S_ISREG(os.stat(path).st_mode)
        with open(path if is_file else os.devnull, "rb") as file:
            is_open_to_others = bool(os.fstat(file.fileno()).st_mode & 0o077)
            secret = file.read(_SECRET_BYTES_MAX + 1)
    except OSError as error:
        raise TokenProblem(f"the token: {path}: {error.strerror}") from error
    if not is_file:
        raise TokenProblem(f"the token: {path} is no regular file")
    if is_open_to_others:
        raise TokenProblem(f"the token: {path} may be read by others; `chmod 600 {path}`")
    if len(secret) > _SECRET_BYTES_MAX:
        raise TokenProblem(f"the token: {path} is longer than {_SECRET_BYTES_MAX} bytes")
    try:
        return secret.decode().rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise TokenProblem(f"the token: {path} is not UTF-8 text") from error


def _project() -> str | None:
    """The folder of `mainspring.toml`, relative to this one: it, or the nearest above it, up to the home folder."""
    if os.path.exists(CONFIG_FILE):
        return ""
    home = os.path.realpath(os.environ["HOME"]) if os.environ.get("HOME") else None
    here: str = os.getcwd()
    way = ""
    while here not in (home, os.path.dirname(here)):
        here = os.path.dirname(here)
        way = os.path.join(way, "..")
        if os.path.isfile(os.path.join(here, CONFIG_FILE)):
            _check_owners(way)
            return way
    return None


def _check_owners(folder: str) -> None:
    """Makes sure that the file of a folder above is nobody else's: not the folder, the file, or a link in its place."""
    file = os.path.join(folder, CONFIG_FILE)
    trusted = (os.geteuid(), 0, os.stat("/").st_uid)
    for about in (os.stat(folder), os.lstat(file), os.stat(file)):
        if about.st_uid not in trusted:
            raise BadAddress(
                f"{file} belongs to user {about.st_uid}, or is in a folder of that user; "
                "the file of another user is read in its own folder alone"
            )


def _of_project() -> Address | None:
    """What `mainspring.toml` says. A file with a fault must not lead to the daemon of another."""
    folder = _project()
    if folder is None:
        return None
    try:
        text = pathlib.Path(folder, CONFIG_FILE).read_text("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise BadAddress(f"{CONFIG_FILE} cannot be read: {error}") from error
    try:
        listeners: Any = _toml(text).get("listen", [])
    except ValueError as error:
        raise BadAddress(f"{CONFIG_FILE} is not TOML: {error}") from error
    found = cast("list[dict[str, Any]]", listeners)
    if not isinstance(listeners, list) or not all(isinstance(one, dict) for one in cast("list[object]", listeners)):
        raise BadAddress(f"{CONFIG_FILE}: `listen` is not a list of tables")
    for listener in sorted(found, key=lambda one: "unix" not in one):
        if isinstance(listener.get("unix"), str):
            return Address(socket=os.path.join(folder, listener["unix"]))
        if isinstance(listener.get("tcp"), str):
            return _of_tcp(listener, folder)
    return None


def _of_tcp(listener: dict[str, Any], folder: str) -> Address:
    place: str = listener["tcp"]
    if place.rpartition(":")[2] == "0":
        raise BadAddress(f"the daemon of {CONFIG_FILE} chooses its TCP port itself: say which with tcp=, or a socket=")
    for token in listener.get("tokens", []):
        secret = token.get("token")
        if not isinstance(secret, str):
            secret = read_secret(os.path.join(folder, str(token.get("token_file"))))
        return Address(tcp=place, token=secret)
    raise TokenProblem(f"{CONFIG_FILE} has no token for {place}")


def _toml(text: str) -> dict[str, Any]:
    for name in ("tomllib", "tomli", "pip._vendor.tomli"):
        try:
            module = __import__(name, fromlist=["loads"])
        except ImportError:
            continue
        return module.loads(text)  # type: ignore[no-any-return]
    raise BadAddress(
        f"Python 3.10 cannot read {CONFIG_FILE} without the package tomli: install it, or say socket= or tcp="
    )


def parse_place(place: str) -> tuple[str, int]:
    """The host and port of `HOST:PORT`."""
    host, _, port = place.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
        raise BadAddress(f"{place}: expected a host and a port, such as 127.0.0.1:7700")
    return host.strip("[]"), int(port)


def check_loopback(place: str, addresses: list[Any]) -> None:
    """Nothing on the way is encrypted, so a token does not leave this machine."""
    import ipaddress

    for *_, address in addresses:
        host = str(address[0])
        if not ipaddress.ip_address(host.partition("%")[0]).is_loopback:
            port = address[1]
            raise BadAddress(
                f"{place}: {host} is not an address of loopback, and the token would travel unencrypted; "
                f"forward a port, as with `ssh -L {port}:127.0.0.1:{port} {host}`"
            )


def check_path(path: str) -> None:
    """Whether this can be the path of a socket at all."""
    if len(os.fsencode(path)) > _PATH_BYTES_MAX:
        raise BadAddress(f"the path of a socket has at most {_PATH_BYTES_MAX} bytes: {path}")


def check_listener(connection: socket.socket, path: str) -> None:
    """Makes sure that a process of this user listens, and that nobody else led us there, before anything is said."""
    user = os.geteuid()
    if hasattr(socket, "SO_PEERCRED"):
        size = struct.calcsize("3i")
        _, owner, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
        if owner != user:
            raise AccessDenied(f"the daemon belongs to user {owner} and serves nobody else; you are user {user}")
    folder = os.path.dirname(path) or "."
    for place, look in ((folder, os.stat), (path, os.lstat)):
        try:
            about = look(place)
        except OSError:
            continue  # It is connected: whatever cannot be looked at is gone by now.
        trusted = about.st_uid in (user, 0, os.stat("/").st_uid)
        if not trusted and (place == folder or stat.S_ISLNK(about.st_mode)):
            raise AccessDenied(
                f"{place} belongs to user {about.st_uid}, who may have led it anywhere; you are user {user}"
            )


def no_daemon(address: Address, error: OSError) -> NoDaemon | AccessDenied:
    """What it means that a connection cannot be made."""
    if isinstance(error, PermissionError):
        return AccessDenied(f"permission denied to connect to {address}: it belongs to another user")
    return NoDaemon(f"no daemon listens at {address} ({error.strerror or error}); start one with `mainspring up`")
