"""Listening sockets of the HTTP server, and what is wrong with an address."""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iowarden.daemon.config.schema import Address


def listening_socket(address: Address) -> socket.socket:
    """Return a listening socket; only numeric addresses, because names would be resolved."""
    family, kind, protocol, _, place = socket.getaddrinfo(
        *address, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST | socket.AI_PASSIVE
    )[0]
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listening.bind(place)
        listening.listen(128)
    except OSError:
        listening.close()
        raise
    return listening


def listen_problem(address: Address, error: OSError) -> str:
    """Return why an address cannot be listened on, and the next step."""
    host, port = address
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    expected, step = "a free address", f"find the program that uses it: ss -ltnp 'sport = :{port}'"
    if error.errno in {errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT} or error.errno is None:
        expected, step = "an address of this machine", "list them: ip address"
    elif error.errno in {errno.EACCES, errno.EPERM}:
        expected, step = "a permitted port", "choose one above 1023"
    elif error.errno != errno.EADDRINUSE:
        expected, step = "to listen", "mails are sent without it"
    return f"http: '{shown}': expected {expected}, got '{error.strerror}'; {step}"
