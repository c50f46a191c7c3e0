"""Protocol between daemon and probe: frames of JSON on a local stream socket. Pure.

A frame is a length of 4 bytes, most significant first, and so many bytes of one JSON object. The
daemon begins with `{"hello": {"version": 1}}`, the probe answers with its own hello; then requests
and answers follow in any order, matched by the daemon's `id`. Only the answer to `kmsg` carries a
file descriptor, with the first byte of its frame (unix(7), SCM_RIGHTS).

    {"id": 7, "verb": "run", "arguments": ["smartctl", "--json=c", "-a", "/dev/sda"],
     "deadline_seconds": 30, "limit_bytes": 8388608}
    {"cancel": 7}

    {"id": 7, "outcome": "done", "error": "", "duration_seconds": 0.3, "value": {...}}
    {"stuck": [...]}                              unsolicited, when the stuck programs change
"""

from __future__ import annotations

import dataclasses
import enum
import json
import math
from dataclasses import field
from typing import Any, TypeVar

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.json_text import MAX_DEPTH, is_deep

_T = TypeVar("_T")

VERSION = 1
LENGTH_BYTES = 4
MAX_REQUEST_BYTES = 64 * 1024
"""Limit of a frame from the daemon; the longest allowed argument list takes a tenth of it."""
MAX_REPLY_BYTES = 8 * 1024 * 1024
"""Limit of a frame from the probe, unless the request sets a lower one."""
MAX_DEADLINE_SECONDS = 600.0
MAX_ARGUMENTS = 64
_MAX_INTEGER = 2**63


class ReplyStatus(enum.StrEnum):
    """Outcome of a request; only `done` has a value."""

    DONE = "done"
    """It ended in time; how a program ended is part of the value."""
    REFUSED = "refused"
    """It is not on the allowlist, or no valid request."""
    BUSY = "busy"
    """Another program used the controller until the deadline."""
    TIMEOUT = "timeout"
    """It was killed at the deadline, and has ended."""
    STUCK = "stuck"
    """It was killed but hangs; or another one hangs at the controller."""
    OVERFLOW = "overflow"
    """Its output exceeded the limit; it was killed, and the output discarded."""
    FAILED = "failed"
    """It could not be started or read; the error is the reason."""
    CANCELLED = "cancelled"
    MISSING = "missing"
    """The program is allowed but not installed; for the daemon it is absent."""


class ProtocolError(ValueError):
    """The other side violated the protocol; the connection is of no more use."""


@dataclass(frozen=True, slots=True)
class Request:
    """Execute something. Units: `deadline_seconds` counts waiting and running, from its arrival."""

    identifier: int
    verb: str
    arguments: tuple[str, ...] = ()
    deadline_seconds: float = 30.0
    limit_bytes: int = MAX_REPLY_BYTES


@dataclass(frozen=True, slots=True)
class Cancel:
    """The answer is no longer needed: kill what runs for it."""

    identifier: int


@dataclass(frozen=True, slots=True)
class ProbeReply:
    """Outcome of a request. `value` depends on the verb."""

    identifier: int
    outcome: ReplyStatus
    error: str = ""
    value: dict[str, Any] = field(default_factory=dict)
    duration_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Stuck:
    """A program that was killed and hangs in the kernel. Units: `since_seconds` is Unix time.

    Fields: `start_ticks` distinguishes it from a later process with its number (proc(5),
    starttime); `controllers` are those at which no second program may be started; `devices` are the
    block devices that its arguments name ('sda').
    """

    pid: int
    start_ticks: int
    arguments: tuple[str, ...]
    controllers: tuple[str, ...]
    devices: tuple[str, ...]
    since_seconds: float


@dataclass(frozen=True, slots=True)
class Hello:
    """The first frame of either side. From the probe: the programs it found, by name and path."""

    version: int = VERSION
    programs: dict[str, str] = field(default_factory=dict)
    stuck: tuple[Stuck, ...] = ()


@dataclass(frozen=True, slots=True)
class StuckNow:
    """All programs that are stuck now; sent when that changed."""

    stuck: tuple[Stuck, ...]


Message = Hello | Request | Cancel | ProbeReply | StuckNow


def encode(message: Message) -> bytes:
    """Return a message as a frame. Errors: ValueError for a number that JSON does not have (NaN).

    Text may contain bytes that are not UTF-8 ('surrogateescape'); the receiver gets them unchanged.
    """
    body = json.dumps(_plain(message), separators=(",", ":"), allow_nan=False).encode("ascii")
    return len(body).to_bytes(LENGTH_BYTES, "big") + body


class Decoder:
    """Decodes messages from the bytes of one connection, however they are split."""

    def __init__(self, max_bytes: int) -> None:
        """Accept frames of at most `max_bytes`."""
        self._max_bytes = max_bytes
        self._buffer = bytearray()

    def feed(self, received: bytes) -> list[Message]:
        """Return the messages that are complete now. Errors: ProtocolError; then it is unusable.

        Memory: never more than one frame, and what was received at once.
        """
        self._buffer += received
        messages: list[Message] = []
        at = 0
        while len(self._buffer) - at >= LENGTH_BYTES:
            size = int.from_bytes(self._buffer[at : at + LENGTH_BYTES], "big")
            if size > self._max_bytes:
                raise ProtocolError(
                    f"expected a frame of at most {self._max_bytes} bytes, got {size}"
                )
            end = at + LENGTH_BYTES + size
            if len(self._buffer) < end:
                break
            messages.append(decode(bytes(self._buffer[at + LENGTH_BYTES : end])))
            at = end
        del self._buffer[:at]
        return messages

    def waiting(self) -> bool:
        """Return whether part of a frame was received, and the rest is missing."""
        return bool(self._buffer)


def decode(body: bytes) -> Message:
    """Return the message of a frame. Errors: ProtocolError."""
    try:
        text = body.decode()
        if is_deep(text):
            raise ValueError(f"expected at most {MAX_DEPTH} nested brackets")
        return _message(json.loads(text, parse_constant=_refuse, parse_float=_finite))
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise ProtocolError(
            f"expected a message as JSON, got {body[:80]!r}: {type(error).__name__}: {error!s:.200}"
        ) from error


def _refuse(name: str) -> None:
    raise ValueError(f"expected a number, got {name}")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"expected a number of at most 64 bits, got {text[:60]}")
    return number


def _message(found: Any) -> Message:  # noqa: ANN401 - whatever the other side sent
    _expect(found, dict, "the frame")
    if "hello" in found:
        hello = _field(found, "hello", dict)
        programs = _field(hello, "programs", dict, {})
        for name, path in programs.items():
            _expect(path, str, f"'programs.{name}'")
        return Hello(_field(hello, "version", int), programs, _all_stuck(hello.get("stuck", [])))
    if "cancel" in found:
        return Cancel(_field(found, "cancel", int))
    if "stuck" in found:
        return StuckNow(_all_stuck(found["stuck"]))
    if "verb" in found:
        deadline = _number(found, "deadline_seconds", 30.0)
        limit = _field(found, "limit_bytes", int, MAX_REPLY_BYTES)
        if not 0 < deadline <= MAX_DEADLINE_SECONDS:
            raise ValueError(f"'deadline_seconds': expected up to {MAX_DEADLINE_SECONDS:.0f}")
        if not 0 < limit <= MAX_REPLY_BYTES:
            raise ValueError(f"'limit_bytes': expected up to {MAX_REPLY_BYTES}")
        arguments = _texts(found.get("arguments", []), "arguments")
        if len(arguments) > MAX_ARGUMENTS:
            raise ValueError(f"'arguments': expected up to {MAX_ARGUMENTS}")
        return Request(
            _field(found, "id", int), _field(found, "verb", str), arguments, deadline, limit
        )
    return ProbeReply(
        _field(found, "id", int),
        ReplyStatus(_field(found, "outcome", str)),
        _field(found, "error", str, ""),
        _field(found, "value", dict, {}),
        _number(found, "duration_seconds", 0.0),
    )


def _all_stuck(found: Any) -> tuple[Stuck, ...]:  # noqa: ANN401 - whatever the other side sent
    _expect(found, list, "'stuck'")
    return tuple(_stuck(each) for each in found)


def _stuck(found: Any) -> Stuck:  # noqa: ANN401 - whatever the other side sent
    _expect(found, dict, "an item of 'stuck'")
    return Stuck(
        _field(found, "pid", int),
        _field(found, "start_ticks", int),
        _texts(found["arguments"], "arguments"),
        _texts(found["controllers"], "controllers"),
        _texts(found["devices"], "devices"),
        _number(found, "since_seconds"),
    )


def _plain(message: Message) -> dict[str, Any]:
    match message:
        case Hello(version, programs, stuck):
            return {"hello": {"version": version, "programs": programs, "stuck": _dicts(stuck)}}
        case Request(identifier, verb, arguments, deadline_seconds, limit_bytes):
            return {
                "id": identifier,
                "verb": verb,
                "arguments": arguments,
                "deadline_seconds": deadline_seconds,
                "limit_bytes": limit_bytes,
            }
        case Cancel(identifier):
            return {"cancel": identifier}
        case StuckNow(stuck):
            return {"stuck": _dicts(stuck)}
        case ProbeReply(identifier, outcome, error, value, duration_seconds):
            return {
                "id": identifier,
                "outcome": outcome,
                "error": error,
                "value": value,
                "duration_seconds": duration_seconds,
            }


def _dicts(stuck: tuple[Stuck, ...]) -> list[dict[str, Any]]:
    return [dataclasses.asdict(each) for each in stuck]


_MISSING = object()


def _field(found: dict[str, Any], name: str, cls: type[_T], default: Any = _MISSING) -> _T:  # noqa: ANN401
    value = found[name] if default is _MISSING else found.get(name, default)
    return _expect(value, cls, f"'{name}'")


def _number(found: dict[str, Any], name: str, default: Any = _MISSING) -> float:  # noqa: ANN401
    value = found[name] if default is _MISSING else found.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"'{name}': expected a number, got {value!r:.60}")
    return float(value)


def _texts(found: Any, name: str) -> tuple[str, ...]:  # noqa: ANN401 - whatever was sent
    return tuple(_expect(text, str, f"an item of '{name}'") for text in _expect(found, list, name))


def _expect(value: Any, cls: type[_T], what: str) -> _T:  # noqa: ANN401 - whatever was sent
    if not isinstance(value, cls) or (isinstance(value, bool) and cls is int):
        raise TypeError(f"{what}: expected {cls.__name__}, got {value!r:.60}")
    if isinstance(value, int) and abs(value) >= _MAX_INTEGER:
        raise ValueError(f"{what}: expected an integer of at most 64 bits, got a larger one")
    return value
