"""Sockets that are connected to a daemon."""

from __future__ import annotations

import socket as sockets

from ...errors import BadAddress
from .. import find
from ..find import ADMISSION, Address


def connect_socket(address: Address) -> sockets.socket:
    """Connects, and makes sure that it is this user's daemon.

    Raises:
        BadAddress: That is no place to connect to.
        OSError: Nobody listens there.
    """
    if address.socket is not None:
        find.check_path(address.socket)
        connection = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
        try:
            connection.settimeout(ADMISSION)
            connection.connect(address.socket)
            find.check_listener(connection, address.socket)
            connection.settimeout(None)
            return connection
        except BaseException:
            connection.close()
            raise
    assert address.tcp is not None
    host, port = find.parse_place(address.tcp)
    try:
        places = sockets.getaddrinfo(host, port, type=sockets.SOCK_STREAM)
    except sockets.gaierror as error:
        raise BadAddress(f"{address.tcp}: {error.strerror}") from error
    find.check_loopback(address.tcp, places)
    failed: OSError = ConnectionRefusedError("the name has no address")
    for family, kind, protocol, _, place in places:
        connection = sockets.socket(family, kind, protocol)
        try:
            connection.settimeout(ADMISSION)
            connection.setsockopt(sockets.IPPROTO_TCP, sockets.TCP_NODELAY, 1)
            connection.connect(place)
            connection.settimeout(None)
            return connection
        except OSError as error:
            connection.close()
            failed = error
    raise failed
