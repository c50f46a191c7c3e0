"""Asking one drive once: the command line, and what came of it.

A drive to which smartctl has no way may be known to the program of its controller's maker: for
Areca's see collectors/raid/areca/areca_smart.py.

Source: smartctl(8) 7.3. smartctl is run by the probe, which sets LC_ALL=C.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from iowarden.collectors import monitors
from iowarden.collectors.machine import probe_path
from iowarden.collectors.model import (
    AbsentError,
    LateError,
    MissingError,
    ParseError,
    ReadError,
    StuckError,
    trace,
)
from iowarden.collectors.probe_reply import field, optional
from iowarden.collectors.smart import smartctl, smartctl_refusal
from iowarden.collectors.smart.drive import Cover, Drive, Target

if TYPE_CHECKING:
    from iowarden.collectors.machine import Root

PROFILES = {
    # '-x' prints attributes in a format of its own, which is not what pySMART reads, and reads the
    # standard logs only where there are no extended ones.
    "full": ("-x", "-f", "old", "-l", "error", "-l", "selftest"),
    # Without device statistics: a QNAP bridge took a minute for them (smartmontools issue 237).
    "basic": ("-a",),
    "minimal": ("-i", "-H", "-A"),
}
"""How much a drive is asked, from all to the least."""
OLDEST = (7, 0)
"""Of smartctl: the first with JSON."""
VERSION_SECONDS = 30.0
_SLEEP = "in SLEEP mode"
"""What 7.3 says when the question for the power mode fails, as at '/dev/null'; STANDBY is what a
disk answers. Not checked: Linux is said to wake a disk that really sleeps for any question.
"""
_VERSION = ("smartctl", "--json=c", "-V")
_ONE_AT_A_TIME = "arcmsr"
"""Areca's driver: of what another program asked, it drops the answer."""
_RAN = frozenset({Cover.STUCK, Cover.TIMEOUT, Cover.UNPARSED})
"""What never came is recorded with one of these where smartctl was started at all."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one try came to.

    Fields: `ran`: smartctl was started; `late`: and killed at the deadline; `passing`: the drive
    had no part in the failure, so a minute later it may be another; `drive` is what it said where
    it was read, else of its identity at most; `text` is what a recording keeps, by its path there,
    and `beside` what it keeps of another program that was asked as well.
    """

    cover: Cover
    reason: str = ""
    drive: Drive | None = None
    ran: bool = True
    late: bool = False
    passing: bool = False
    text: tuple[str, bytes] = ("", b"")
    beside: tuple[tuple[str, bytes], ...] = ()


def command(target: Target, profile: str, *, wake: bool = False) -> tuple[str, ...]:
    """Return smartctl's command line, its name first. `wake`: also a drive that sleeps.

    '-n standby,3': a drive that sleeps is left so, which has a status of its own.
    """
    power = "never" if wake else "standby,3"
    kind = ("-d", target.kind) if target.kind else ()
    return ("smartctl", "--json=co", *PROFILES[profile], "-n", power, *kind, target.path)


def ask(root: Root, target: Target, words: tuple[str, ...], deadline_seconds: float) -> Answer:
    """Ask a drive, and wait for what comes of it; every way this can end is an Answer."""
    name = probe_path("run", words)
    try:
        if other := clash(root, target.driver):
            answer = Answer(Cover.FAILED, other, ran=False, passing=True)
        else:
            content = root.ask("run", *words, deadline_seconds=deadline_seconds).encode()
            return judged(name, content, target)
    except StuckError as error:
        answer = Answer(Cover.STUCK, str(error))
    except LateError as error:
        answer = Answer(Cover.TIMEOUT, str(error), late=True)
    except MissingError as error:
        answer = Answer(Cover.NO_SMARTCTL, str(error), ran=False, passing=True)
    except AbsentError as error:
        answer = Answer(Cover.NO_PROBE, str(error), ran=False, passing=True)
    except ReadError as error:
        answer = Answer(Cover.FAILED, str(error), ran=False, passing=True)
    except Exception as error:  # noqa: BLE001 - a mistake of ours with one drive keeps no other
        answer = Answer(Cover.UNPARSED, f"bug: {trace(error)}")
    return replace(answer, text=(name, _recorded(answer.cover, answer.reason)))


def judged(name: str, content: bytes, target: Target) -> Answer:
    """Return what a text means that the probe answered, or that was recorded in its place."""
    text = (name, content)
    try:
        value = json.loads(content)
        if "cover" in value:
            cover, reason = Cover(field(str, value, "cover")), field(str, value, "reason")
            return Answer(cover, reason, ran=cover in _RAN, text=text)
        status, signal = optional(int, value, "status"), optional(int, value, "signal")
        output, errors = field(str, value, "stdout"), field(str, value, "stderr")
    except (KeyError, TypeError, ValueError) as error:
        return Answer(Cover.UNPARSED, f"expected the probe's answer, got: {error}", text=text)
    if status is None:
        reason = f"expected an exit status of smartctl, got termination by signal {signal}"
        return Answer(Cover.FAILED, reason, text=text)
    if not output.strip():
        said = " ".join(errors.split())[:300] or "nothing"
        reason = f"expected output of smartctl, got status {status} and: {said}"
        return Answer(Cover.UNPARSED, reason, text=text)
    # A byte that is no UTF-8 comes as half a character, which can be written nowhere.
    plain = output.encode(errors="surrogateescape").decode(errors="backslashreplace")
    try:
        found = smartctl.parse(plain, kind=target.kind)
    except ParseError as error:
        return Answer(Cover.UNPARSED, str(error), text=text)
    if isinstance(found, smartctl_refusal.Refused):
        if found.cover is Cover.ASLEEP and _SLEEP in found.reason:
            reason = f"{found.reason}: smartctl also reports this for a disk that fails its query"
            return Answer(Cover.FAILED, reason, found.drive, text=text)
        return Answer(found.cover, found.reason, found.drive, text=text)
    return Answer(Cover.READ, "", found, text=text)


def usable(root: Root) -> Answer | None:
    """Return why no drive can be asked on this machine, None where they can."""
    name = probe_path("run", _VERSION)
    try:
        content = root.ask("run", *_VERSION, deadline_seconds=VERSION_SECONDS)
        value = json.loads(content)
        if "cover" in value:
            return judged(name, content.encode(), Target(""))
        said = field(str, value, "stdout")
    except MissingError as error:
        return _without(Cover.NO_SMARTCTL, f"{error} ('apt install smartmontools')")
    except AbsentError as error:
        # A recording without it may have the drives.
        return None if root.path else _without(Cover.NO_PROBE, str(error))
    except (ReadError, KeyError, TypeError, ValueError):
        return None  # what keeps this from being told, each drive's own try will tell
    # An older one refuses '--json' and prints its first line all the same.
    found = re.search(r'"version":\s*\[(\d+),\s*(\d+)|^smartctl (\d+)\.(\d+)', said, re.MULTILINE)
    if found is None:
        return None
    version = tuple(int(number) for number in found.groups() if number is not None)
    if version >= OLDEST:
        return None
    expected, got = (".".join(map(str, numbers)) for numbers in (OLDEST, version))
    return _without(
        Cover.NO_SMARTCTL,
        f"'smartctl': expected version {expected} or later, which has JSON, got {got}; install a"
        " later 'smartmontools'",
    )


def _without(cover: Cover, reason: str) -> Answer:
    name = probe_path("run", _VERSION)
    return Answer(cover, reason, ran=False, text=(name, _recorded(cover, reason)))


def _recorded(cover: Cover, reason: str) -> bytes:
    """Return what a recording has in the place of an answer that never came."""
    return json.dumps({"cover": cover, "reason": reason}).encode()


def clash(root: Root, driver: str) -> str:
    """Return why a drive must not be asked while another program asks its controller, or ''.

    Limits: '' also where other users' processes are hidden; the probe looks again for smartd.
    """
    if driver != _ONE_AT_A_TIME:
        return ""
    try:
        running = monitors.read_monitors(root).running
    except (AbsentError, ReadError):
        return ""
    return "; ".join(
        f"'{monitor.name}' (process {process.pid}) polls this controller, too, and each loses"
        " answers of the other; smartctl was not run; stop one of the two"
        + (f": 'systemctl stop {process.unit}'" if process.unit else "")
        for monitor in monitors.KNOWN
        if driver in monitor.drivers
        for process in running.get(monitor.name, ())
    )
