"""Whether this machine has a mail server of its own (MTA)."""

from __future__ import annotations

import socket

from iowarden.daemon.sanitize import one_line

SMTP_PORT = 25
_TIMEOUT_SECONDS = 5.0
_MAX_BYTES = 512
"""Of a reply line. Source: RFC 5321, 4.5.3.1.5."""


def greeting(port: int = SMTP_PORT) -> str:
    """Return the first line of the mail server at localhost, '' if none is ready for mail.

    Source: RFC 5321, 4.3.1: 220. Limits: whether it delivers further is shown by a test mail only.
    """
    try:
        with socket.create_connection(("localhost", port), _TIMEOUT_SECONDS) as connection:
            line = connection.makefile("rb").readline(_MAX_BYTES)
            connection.sendall(b"QUIT\r\n")
    except OSError:
        return ""
    text = line.decode("utf-8", "backslashreplace")
    return one_line(text.strip(), 200) if text.startswith("220") else ""
