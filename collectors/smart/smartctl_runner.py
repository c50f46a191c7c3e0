"""Run smartctl once for one drive: the command line, and the result.

A drive that smartctl cannot read may be readable with the program of its controller's vendor: for
Areca's see collectors/raid/areca/areca_smart.py.

Source: smartctl(8) 7.3. smartctl is run by the probe, which sets LC_ALL=C.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors import competing_monitors
from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.machine import probe_path
from iowarden.collectors.model import (
    AbsentError,
    DeadlineError,
    ParseError,
    ProgramNotFoundError,
    ReadError,
    StuckError,
    trace,
)
from iowarden.collectors.probe_reply import field, optional
from iowarden.collectors.smart import smartctl, smartctl_refusal
from iowarden.collectors.smart.drive import AccessMethod, Drive, ReadStatus

if TYPE_CHECKING:
    from iowarden.collectors.machine import Machine

PROFILES = {
    # '-x' prints attributes in its own format, which pySMART does not read, and reads the
    # standard logs only where there are no extended ones.
    "full": ("-x", "-f", "old", "-l", "error", "-l", "selftest"),
    # Without device statistics: a QNAP bridge took a minute for them (smartmontools issue 237).
    "basic": ("-a",),
    "minimal": ("-i", "-H", "-A"),
}
"""How much is queried of a drive, from all to the least."""
OLDEST = (7, 0)
"""Minimum version of smartctl: the first with JSON."""
VERSION_SECONDS = 30.0
_SLEEP = "in SLEEP mode"
"""What 7.3 prints if the query of the power mode fails, as at '/dev/null'; STANDBY is a disk's
answer. Not checked: Linux is reported to wake a disk that is really in sleep mode for any query.
"""
_VERSION = ("smartctl", "--json=c", "-V")
_ONE_AT_A_TIME = "arcmsr"
"""Areca's driver: it drops the answers to queries of another program."""
_RAN = frozenset({ReadStatus.HUNG, ReadStatus.TIMEOUT, ReadStatus.UNPARSED})
"""Replaces an answer that never came in a recording, if smartctl was started at all."""


@dataclass(frozen=True, slots=True)
class SmartctlResult:
    """Result of one try.

    Fields: `ran`: smartctl was started; `late`: and killed at the deadline; `passing`: the failure
    is not the drive's, so it may be another one a minute later; `drive` is its data if it was read,
    else at most its identity; `text` is what a recording stores, by its path there, and
    `other_outputs` the same of other programs that were run as well.
    """

    status: ReadStatus
    reason: str = ""
    drive: Drive | None = None
    ran: bool = True
    late: bool = False
    passing: bool = False
    text: tuple[str, bytes] = ("", b"")
    other_outputs: tuple[tuple[str, bytes], ...] = ()


def command(target: AccessMethod, profile: str, *, wake: bool = False) -> tuple[str, ...]:
    """Return smartctl's command line, its name first. `wake`: also a drive in standby.

    '-n standby,3': a drive in standby is not woken, which has an exit status of its own.
    """
    power = "never" if wake else "standby,3"
    kind = ("-d", target.kind) if target.kind else ()
    return ("smartctl", "--json=co", *PROFILES[profile], "-n", power, *kind, target.path)


def run_smartctl(
    root: Machine, target: AccessMethod, command_line: tuple[str, ...], deadline_seconds: float
) -> SmartctlResult:
    """Poll a drive, and wait for the result; every outcome is a SmartctlResult."""
    name = probe_path("run", command_line)
    try:
        if other := clash(root, target.driver):
            answer = SmartctlResult(ReadStatus.UNREADABLE, other, ran=False, passing=True)
        else:
            content = root.query_probe(
                "run", *command_line, deadline_seconds=deadline_seconds
            ).encode()
            return classify_output(name, content, target)
    except StuckError as error:
        answer = SmartctlResult(ReadStatus.HUNG, str(error))
    except DeadlineError as error:
        answer = SmartctlResult(ReadStatus.TIMEOUT, str(error), late=True)
    except ProgramNotFoundError as error:
        answer = SmartctlResult(ReadStatus.NO_SMARTCTL, str(error), ran=False, passing=True)
    except AbsentError as error:
        answer = SmartctlResult(ReadStatus.NO_PROBE, str(error), ran=False, passing=True)
    except ReadError as error:
        answer = SmartctlResult(ReadStatus.UNREADABLE, str(error), ran=False, passing=True)
    except Exception as error:  # noqa: BLE001 - our bug with one drive must not block others
        answer = SmartctlResult(ReadStatus.UNPARSED, f"bug: {trace(error)}")
    return replace(answer, text=(name, unanswered(answer.status, answer.reason)))


_STATUS = "read_status"
"""Key of the status that a recording has in place of smartctl's output."""


def classify_output(name: str, content: bytes, target: AccessMethod) -> SmartctlResult:
    """Classify a text from the probe, or one that a recording has in its place."""
    text = (name, content)
    try:
        value = json.loads(content)
        if _STATUS in value:
            recorded, reason = ReadStatus(field(str, value, _STATUS)), field(str, value, "reason")
            return SmartctlResult(recorded, reason, ran=recorded in _RAN, text=text)
        status, signal = optional(int, value, "status"), optional(int, value, "signal")
        output, errors = field(str, value, "stdout"), field(str, value, "stderr")
    except (KeyError, TypeError, ValueError) as error:
        return SmartctlResult(
            ReadStatus.UNPARSED, f"expected the probe's answer, got: {error}", text=text
        )
    if status is None:
        reason = f"expected an exit status of smartctl, got termination by signal {signal}"
        return SmartctlResult(ReadStatus.UNREADABLE, reason, text=text)
    if not output.strip():
        said = " ".join(errors.split())[:300] or "nothing"
        reason = f"expected output of smartctl, got status {status} and: {said}"
        return SmartctlResult(ReadStatus.UNPARSED, reason, text=text)
    # A byte that is no UTF-8 becomes a lone surrogate, which cannot be written anywhere.
    plain = output.encode(errors="surrogateescape").decode(errors="backslashreplace")
    try:
        found = smartctl.parse(plain, kind=target.kind)
    except ParseError as error:
        return SmartctlResult(ReadStatus.UNPARSED, str(error), text=text)
    if isinstance(found, smartctl_refusal.SmartRefusal):
        if found.status is ReadStatus.ASLEEP and _SLEEP in found.reason:
            reason = f"{found.reason}: smartctl also reports this for a disk that fails its query"
            return SmartctlResult(ReadStatus.UNREADABLE, reason, found.drive, text=text)
        return SmartctlResult(found.status, found.reason, found.drive, text=text)
    return SmartctlResult(ReadStatus.READ, "", found, text=text)


def usable(root: Machine) -> SmartctlResult | None:
    """Return why no drive can be polled on this host, None if they can."""
    name = probe_path("run", _VERSION)
    try:
        content = root.query_probe("run", *_VERSION, deadline_seconds=VERSION_SECONDS)
        value = json.loads(content)
        if _STATUS in value:
            return classify_output(name, content.encode(), AccessMethod(""))
        said = field(str, value, "stdout")
    except ProgramNotFoundError as error:
        return _without(ReadStatus.NO_SMARTCTL, f"{error} ('apt install smartmontools')")
    except AbsentError as error:
        # A recording without it may have the drives.
        return None if root.path else _without(ReadStatus.NO_PROBE, str(error))
    except (ReadError, KeyError, TypeError, ValueError):
        return None  # any other error will be reported by each drive's own poll
    # An older one rejects '--json' and prints its first line even so.
    found = re.search(r'"version":\s*\[(\d+),\s*(\d+)|^smartctl (\d+)\.(\d+)', said, re.MULTILINE)
    if found is None:
        return None
    version = tuple(int(number) for number in found.groups() if number is not None)
    if version >= OLDEST:
        return None
    expected, got = (".".join(map(str, numbers)) for numbers in (OLDEST, version))
    return _without(
        ReadStatus.NO_SMARTCTL,
        f"'smartctl': expected version {expected} or later, which has JSON, got {got}; install a"
        " later 'smartmontools'",
    )


def _without(status: ReadStatus, reason: str) -> SmartctlResult:
    name = probe_path("run", _VERSION)
    return SmartctlResult(status, reason, ran=False, text=(name, unanswered(status, reason)))


def unanswered(status: ReadStatus, reason: str) -> bytes:
    """Return what a recording has in place of an answer that never came."""
    return json.dumps({_STATUS: status, "reason": reason}).encode()


def clash(root: Machine, driver: str) -> str:
    """Return why a drive must not be polled while another program polls its controller, or ''.

    Limits: '' also if other users' processes are hidden; the probe checks again for smartd.
    """
    if driver != _ONE_AT_A_TIME:
        return ""
    try:
        running = competing_monitors.read_monitors(root).running
    except (AbsentError, ReadError):
        return ""
    return "; ".join(
        f"'{monitor.name}' (process {process.pid}) polls this controller, too, and each loses"
        " answers of the other; smartctl was not run; stop one of the two"
        + (f": 'systemctl stop {process.unit}'" if process.unit else "")
        for monitor in competing_monitors.PROGRAMS
        if driver in monitor.drivers
        for process in running.get(monitor.name, ())
    )
