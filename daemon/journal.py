"""Log of iowarden: to the journal without ever blocking on it, or to standard error.

Source: systemd docs, JOURNAL_NATIVE_PROTOCOL; systemd.journal-fields(7); sd-daemon(3) for '<N>'
prefixes. The C library's senders block, and with them every thread, once the journal's queue is
full.
"""

from __future__ import annotations

import array
import collections
import errno
import fcntl
import os
import socket
import struct
import threading
import time
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.quantity import duration
from iowarden.daemon.sanitize import escaped, one_line
from iowarden.daemon.sanitize import name as safe_name

if TYPE_CHECKING:
    from collections.abc import Callable

SOCKET_PATH = "/run/systemd/journal/socket"
IDENTIFIER = "iowarden"

LEVELS = {"error": 3, "warning": 4, "notice": 5, "info": 6, "debug": 7}
"""Journal priorities by name. Source: syslog(3)."""
_NAMES = ("EMERG", "ALERT", "CRITICAL", "ERROR", "WARNING", "notice", "info", "debug")

_WAITING_LINES = 1000
"""Limit of lines that wait for a blocked standard error; further ones are counted as lost."""
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE | fcntl.F_SEAL_SEAL
"""journald refuses a memfd that could still be changed."""


@dataclass(frozen=True, slots=True)
class MessageKind:
    """Kind of a log message; `message_id` is for `journalctl MESSAGE_ID=...` and the catalog."""

    name: str
    message_id: str


STARTED = MessageKind("started", "78f3f463f5d74b21aeee451dc3a46ad6")
STOPPED = MessageKind("stopped", "bdeb8108e80c4604a5fdf75aa56f453e")
CONFIGURATION = MessageKind("configuration", "72e496694fcd4433abf81fbfb7c97c5b")
ALERT_FIRING = MessageKind("alert firing", "23c19c892d6148d1a9dfe8f5c2dd5e97")
ALERT_RESOLVED = MessageKind("alert resolved", "e30e0631519342ac82ae0986dea2254b")
ALERT_UNKNOWN = MessageKind("alert unknown", "58aeb5a5b4f944cd92bd7714ca966ca2")
INCIDENT_OPENED = MessageKind("incident opened", "f77a30f11ded4f6bbf6fe48f743ca0e8")
INCIDENT_ESCALATED = MessageKind("incident escalated", "7c42ba29b22342aabec6f561b1a5058c")
INCIDENT_CLOSED = MessageKind("incident closed", "2833354b1c394b6e82d7700a2c266d9e")
INCIDENT_MAIL = MessageKind("incident notification", "3c5d49bf058a442f8ab05ef4334c21b6")
MAIL_DELIVERED = MessageKind("notification delivered", "5b61da84f9224ec5ae87f2677fdfea82")
MAIL_FAILED = MessageKind("notification failed", "9f20b9b0bb264b2ea2c135056183071c")
SOURCE_FAILED = MessageKind("collector failed", "fbac3d05480249e08876ab1ae73aa44f")
SOURCE_RECOVERED = MessageKind("collector recovered", "a3dccb6c28ce4eb6b0a02595fa8a5c9b")
STATE_TROUBLE = MessageKind("state error", "58e5ff873f3c4e4fa04ce727ef580a6b")
MESSAGES_LOST = MessageKind("messages lost", "1d56aae707da46ec9e265e155a3969b0")
DEVICE_CHANGED = MessageKind("device changed", "5d9a3c1be4c1472a8f0e6b7a2d48c3f1")
SILENCE = MessageKind("silence", "2f6f0c3f0c0b4a5ea2b4f3b87d5f6a19")
ACKNOWLEDGED = MessageKind("acknowledged", "b6c1c3a9a5d04ff8a8f4f2a1d37e9c52")
PROGRAM_STUCK = MessageKind("program stuck", "c0a7d1d8e2f94d7c9b3e5a6f81b2d4e7")
FLIGHT_SAVED = MessageKind("flight recording saved", "d7eebe9cd8cd450da646d52793cc1f86")
SELF_TEST = MessageKind("self-test", "a86e1595a0f7408dbf83f574d4ef251c")
SCAN = MessageKind("surface scan", "3f5d1c7a9e6b4a08b2c4d6e8f1a37b59")
EVENT = MessageKind("storage event", "5c0b7a6e0b1f4c3f9d2a8e6b7f1c4d90")
PROBE = MessageKind("probe started or ended", "bc3018946f29488aafaaa41d805e0472")
LOG_LEVEL = MessageKind("log level", "8c6dacf8477d47f2b97118b79bce10ac")
DEBUG = MessageKind("debug", "b65a66ad430544569aecdfff67a2f6f2")
MAIL_DISCARDED = MessageKind("notification discarded", "9b1e8b0263e44781ae0c8c2a4f5ac5be")
TROUBLE = MessageKind("service error", "e8e50498565241ed8b2ec1ad08c59cc3")


class Log:
    """Writes log messages to the journal; to standard error without one, or in the foreground.

    `send` returns at once and never raises; messages that could not be written are counted, and
    reported later in one message.
    """

    def __init__(
        self,
        *,
        foreground: bool = False,
        level: str = "info",
        socket_path: str = SOCKET_PATH,
        descriptor: int = 2,
        identifier: str = IDENTIFIER,
    ) -> None:
        """Choose the destination. `level`: the lowest priority logged, a key of `LEVELS`."""
        self._identifier = identifier
        self.redact: Callable[[str], str] = str
        """Removes every secret from a text of a message."""
        self.lost_total = 0
        self._lost_unreported = 0
        self._level = LEVELS[level]
        self._temporary: tuple[int, float] | None = None
        self._path = socket_path
        self._socket: socket.socket | None = None
        self._writer: _StderrWriter | None = None
        journal = os.path.exists(socket_path)
        if foreground or not journal:
            self._writer = _StderrWriter(descriptor)
        if journal:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            self._socket.settimeout(0)

    def send(
        self, kind: MessageKind, priority: int, message: str, **fields: str | int | None
    ) -> None:
        """Log a message. `fields` have their journal names; empty ones are left out."""
        if priority > self._limit():
            return
        if self._lost_unreported:
            lost = self._lost_unreported
            text = (
                f"journal: {lost} log messages were lost: the journal or standard error accepted no"
                " more"
            )
            if self._take(MESSAGES_LOST, LEVELS["warning"], text, {}):
                self._lost_unreported -= lost
        if not self._take(kind, priority, message, fields):
            self._lost_unreported += 1
            self.lost_total += 1

    def debug(self, text: str) -> None:
        """Log what only `log_level: debug` shows."""
        self.send(DEBUG, LEVELS["debug"], text)

    def set_level(self, level: str) -> None:
        """Change the log level."""
        self._level = LEVELS[level]

    def set_temporary_level(self, level: str, seconds: float) -> None:
        """Use another log level for a time, 0: end it; then that of `set_level` is used again."""
        ends = time.monotonic() + seconds
        self._temporary = (LEVELS[level], ends) if seconds > 0 else None

    def _limit(self) -> int:
        """Return the lowest priority that is logged now."""
        if self._temporary is None:
            return self._level
        level, ends = self._temporary
        if time.monotonic() < ends:
            return level
        self._temporary = None
        self._take(LOG_LEVEL, LEVELS["notice"], f"log level is '{_name(self._level)}' again", {})
        return self._level

    def close(self, timeout_seconds: float = 1.0) -> None:
        """Give standard error a moment to accept waiting lines; the journal has its own already."""
        if self._writer is not None:
            self._writer.close(timeout_seconds)
        if self._socket is not None:
            self._socket.close()

    def _take(
        self, kind: MessageKind, priority: int, message: str, fields: dict[str, str | int | None]
    ) -> bool:
        message = self.redact(message)
        written = self._writer is None or self._writer.put(priority, message)
        if self._socket is None:
            return written
        own: dict[str, str | int | None] = {
            "MESSAGE": message,
            "PRIORITY": priority,
            "MESSAGE_ID": kind.message_id,
            "SYSLOG_IDENTIFIER": self._identifier,
        }
        texts = {
            name: self.redact(value) if isinstance(value, str) else value
            for name, value in fields.items()
        }
        return self._transmit(encode({**own, **texts})) and written

    def _transmit(self, datagram: bytes) -> bool:
        if self._socket is None:
            return False
        try:
            # By path each time: a journal that comes back after a crash is found without a
            # reconnect.
            self._socket.sendto(datagram, self._path)
        except OSError as error:
            return error.errno == errno.EMSGSIZE and self._transmit_sealed(datagram)
        return True

    def _transmit_sealed(self, content: bytes) -> bool:
        """Pass content too large for a datagram in a sealed memory file."""
        if self._socket is None:
            return False
        try:
            descriptor = os.memfd_create("iowarden-journal", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        except OSError:
            return False
        try:
            with memoryview(content) as rest:
                written = 0
                while written < len(rest):
                    written += os.write(descriptor, rest[written:])
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, _SEALS)
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [descriptor]))]
            self._socket.sendmsg([b""], rights, 0, self._path)
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return True


def is_journal(descriptor: int) -> bool:
    """Whether a descriptor is connected to the journal. Source: systemd.exec(5), JOURNAL_STREAM."""
    status = os.fstat(descriptor)
    return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def _name(level: int) -> str:
    return next(name for name, each in LEVELS.items() if each == level)


def encode(fields: dict[str, str | int | None]) -> bytes:
    """Return one entry of the native protocol; fields that are None or '' are left out.

    Texts are escaped: journalctl shows a field with a control character as '[12B blob data]'. Only
    the message may have several lines; then it is sent with its length, 64 bits little-endian, as
    the protocol requires.
    """
    entry = bytearray()
    for name, value in fields.items():
        if value is None or value == "":
            continue
        text = str(value)
        data = (escaped(text, "\n\t") if name == "MESSAGE" else safe_name(text)).encode()
        if b"\n" in data:
            entry += name.encode() + b"\n" + struct.pack("<Q", len(data)) + data + b"\n"
        else:
            entry += name.encode() + b"=" + data + b"\n"
    return bytes(entry)


class _StderrWriter:
    """Writes lines to standard error, with a level: for systemd as '<4>', else with the time.

    In a thread, because a stopped terminal or full pipe blocks.

    O_NONBLOCK is no solution: it would apply to every program that shares the terminal.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._systemd = is_journal(descriptor)
        self._time = "%H:%M:%S" if os.isatty(descriptor) else "%Y-%m-%d %H:%M:%S"
        self._lines: collections.deque[bytes] = collections.deque()
        self._changed = threading.Condition()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="standard error", daemon=True)
        self._thread.start()

    def put(self, priority: int, message: str) -> bool:
        """Queue a line, unless too many wait."""
        if self._systemd:
            prefix = f"<{priority}>"
        else:
            prefix = f"{time.strftime(self._time)} {_NAMES[priority]:<8} "
        lines = [one_line(line, 10_000) for line in message.splitlines()] or [""]
        text = "".join(f"{prefix}{line}\n" for line in lines).encode("utf-8")
        with self._changed:
            if len(self._lines) >= _WAITING_LINES:
                return False
            self._lines.append(text)
            self._changed.notify()
        return True

    def close(self, timeout_seconds: float) -> None:
        """Wait up to this long until queued lines are written."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout_seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._lines and not self._closing:
                    self._changed.wait()
                if not self._lines:
                    return
                rest = self._lines.popleft()
            try:
                while rest:
                    rest = rest[os.write(self._descriptor, rest) :]
            except OSError:  # standard error is closed: there is no other destination
                return


MAX_RETURNS = 2
SETTLED_SECONDS = 600.0
_COMES_AND_GOES = (
    "this error is intermittent and is logged again only after an absence of"
    f" {duration(SETTLED_SECONDS)}"
)


@dataclass(slots=True)
class _Reported:
    text: str
    since_seconds: float
    times: int
    returns: int


class Deduplicator:
    """Deduplicates errors: one is logged once, then when it changes or ends.

    An intermittent error is logged as such; then neither it nor its end is logged until it has been
    absent for `SETTLED_SECONDS`. Memory is bounded by the number of keys.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        """Start without errors. `now` is a clock in seconds."""
        self._now = now
        self._reported: dict[str, _Reported] = {}
        self._ended: dict[str, tuple[_Reported, float]] = {}

    def report(self, key: str, text: str) -> str | None:
        """Return the line to log for an error, or None if it was logged already."""
        said = self._reported.get(key)
        if said is None:
            returns = 0
            if ended := self._ended.get(key):
                last, at = ended
                again = last.text == text and self._now() - at < SETTLED_SECONDS
                returns = last.returns + 1 if again else 0
            self._reported[key] = _Reported(text, self._now(), 1, returns)
            if returns > MAX_RETURNS:
                return None
            return f"{text}; {_COMES_AND_GOES}" if returns == MAX_RETURNS else text
        said.times += 1
        if said.text == text:
            return None
        said.text, said.returns = text, 0
        return text

    def clear(self, key: str) -> str | None:
        """Return the line that reports its end, or None if there was no error."""
        said = self._reported.pop(key, None)
        if said is None:
            return None
        self._ended[key] = (said, self._now())
        if said.returns >= MAX_RETURNS:
            return None
        lasted = duration(self._now() - said.since_seconds)
        times = "once" if said.times == 1 else f"{said.times} times"
        return f"{key}: works again after {lasted} ({times}); last error: {said.text}"

    def wrong(self) -> dict[str, str]:
        """Return the current errors: key and text."""
        return {key: said.text for key, said in self._reported.items()}
