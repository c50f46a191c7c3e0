"""HTTP side of the status page: which host names it answers for, and its headers.

Source: RFC 9110, 15.5.20 (421); W3C, Content Security Policy 3; WHATWG Fetch (CORP).
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

HTML = "text/html; charset=utf-8"
_STATUS = {200: "200 OK", 404: "404 Not Found", 503: "503 Service Unavailable"}
_FOREIGN = (
    b"This address has a host name that is not known to be this host's. Use its IP address, or add"
    b" the name to http.hosts in iowarden.yaml.\n"
)
_TEXT = "text/plain; charset=utf-8"
Headers = list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class PageAccess:
    """The status page as the HTTP server sees it.

    `get` returns status and HTML of a path, or None for a path without a page; `policy` is the
    Content-Security-Policy; `hosts` are the names of this host, in lower case.
    """

    get: Callable[[str], tuple[int, bytes] | None]
    policy: str
    hosts: frozenset[str]

    def answer(self, path: str, host: str) -> tuple[str, Headers, bytes] | None:
        """Return status, headers and body for a path and the header Host; None: no page's path."""
        if not is_page(path):
            return None
        if not self._is_own(host):
            return "421 Misdirected Request", [*_headers(self.policy, _TEXT)], _FOREIGN
        found = self.get(path)
        if found is None:
            return None
        status, body = found
        return _STATUS[status], _headers(self.policy, HTML), body

    def _is_own(self, host: str) -> bool:
        name = host_name(host)
        if name is None:
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return name in self.hosts or name == "localhost" or name.endswith(".localhost")
        return True


def is_page(path: str) -> bool:
    """Whether a request is for a page, and is served apart from '/metrics'."""
    return path == "/" or path.startswith(("/incident/", "/drive/"))


def names(*configured: str) -> frozenset[str]:
    """Return names of this host, each also without its domain."""
    whole = {each.lower().rstrip(".") for each in configured if each}
    return frozenset(whole | {each.partition(".")[0] for each in whole})


def exactly(configured: Iterable[str]) -> frozenset[str]:
    """Return configured names as they are compared."""
    return frozenset(each.lower().rstrip(".") for each in configured)


def host_name(header: str) -> str | None:
    """Return the name or address in a header Host, without port; None if it is invalid."""
    text = header.strip().lower()
    if text.startswith("["):
        name, closed, port = text[1:].partition("]")
        port = port.removeprefix(":") if not port or port[0] == ":" else "?"
        if not closed or ":" not in name:
            return None
    else:
        name, colon, port = text.partition(":")
        if colon and not port:
            return None
    if port and not (port.isascii() and port.isdigit()):
        return None
    return name.rstrip(".") or None


def _headers(policy: str, kind: str) -> Headers:
    return [
        ("Content-Type", kind),
        ("X-Content-Type-Options", "nosniff"),
        ("Content-Security-Policy", policy),
        ("Referrer-Policy", "no-referrer"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("Cache-Control", "no-store"),
    ]
