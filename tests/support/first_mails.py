"""Faults of many kinds at which iowarden is started at some moment, and what its mails must say.

A fault occurs, and occurs again, on a machine that goes on; iowarden is installed before, amid or
after that, and may be killed soon after. Nothing of it may stay without a mail.
"""

from __future__ import annotations

import contextlib
import queue
import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from support.database import usage
from support.live import MAX_POLLS, STEP_SECONDS, parsed, text, watched
from support.storage_incidents import FakeMachine, _card, _megaraid, ata, medium, nvme

from iowarden.rules.notices.digest import MAX_INITIAL_REPORT_SECONDS
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator
    from email.message import EmailMessage
    from pathlib import Path

    from support.live import Watched

    from iowarden.rules.incidents.model import Incident

LIMIT_SECONDS = 300.0
"""So long after its begin, or its last change, an incident has a mail."""


@dataclass(frozen=True)
class Kind:
    """A kind of fault: the healthy machine, and what occurs, given how often it has occurred."""

    builds: Callable[[FakeMachine], None]
    occurs: Callable[[FakeMachine, int], None]
    words: tuple[str, ...]
    """Each is in a mail."""
    times: int = 3
    """So often it may occur."""
    seconds: float = 0.0
    """So long it needs until it is a fault."""


def _one_disk(m: FakeMachine) -> None:
    m.sata("sda")
    m.mount("/srv", "sda1")
    m.has(m.answers("sda", ata("sda")))


def _array(level: str, count: int) -> Callable[[FakeMachine], None]:
    def build(m: FakeMachine) -> None:
        names = [f"sd{letter}" for letter in "abcdef"[:count]]
        m.sata(*names)
        m.array("md0", level, *(f"{name}1" for name in names))
        m.mount("/srv", "md0")

    return build


def _nvme_disk(m: FakeMachine) -> None:
    m.disk("nvme0n1", rotational=False, serial="NV9")
    m.mount("/", "nvme0n1p1")
    m.has(m.answers("nvme0n1", nvme("NV9")))


def _medium_errors(m: FakeMachine, before: int) -> None:
    for number in range(3):
        m.says(*medium("1:0:0:0", "sda", 4096 * (before + 1) + 8 * number))


def _hangs(m: FakeMachine, before: int) -> None:
    if not before:
        m.stands("sda")


def _filled(m: FakeMachine) -> None:
    _one_disk(m)
    m.has({"/srv/.statvfs": usage("8:1")})


def _fills(m: FakeMachine, before: int) -> None:
    files = {"/srv/.statvfs": usage("8:1", free=(500_000, 200_000, 0)[before])}
    m.has(files)
    m.change(files)


def _battery(m: FakeMachine, before: int) -> None:
    _card(m, cache="RWTD", battery="Failed")
    m.says(
        f"megaraid_sas 0000:3b:00.0: {5300 + before} (701234999s/0x0008/WARN) - BBU disabled;"
        " changing WB virtual disks to WT, Forced WB VDs are not affected",
        priority=4,
    )


def _setting(m: FakeMachine, before: int) -> None:
    if not before:
        nodes = {
            f"/sys/devices/system/node/node{n}/meminfo": (
                f"Node {n} MemTotal: 9 kB\nNode {n} MemFree: 1 kB\n"
            )
            for n in range(2)
        }
        files = {"/proc/sys/vm/zone_reclaim_mode": "1\n", **nodes}
        m.has(files)
        m.change(files)


KINDS = {
    "sectors that cannot be read, in the kernel's log": Kind(_one_disk, _medium_errors, ("sda",)),
    "pending sectors, by SMART": Kind(
        _one_disk, lambda m, n: m.smart("sda", ata("sda", n197=8 << 2 * n)), ("sda",)
    ),
    "an array that loses a disk, and a second one": Kind(
        _array("raid6", 5), lambda m, n: m.fails("md0", f"sd{'bc'[n]}1"), ("md0",), times=2
    ),
    "a mirror that loses a disk": Kind(
        _array("raid1", 2), lambda m, n: m.fails("md0", f"sd{'b'[n]}1"), ("md0",), times=1
    ),
    "a file system with errors": Kind(
        _one_disk,
        lambda m, n: m.says(
            f"EXT4-fs error (device sda1): ext4_lookup:1785: inode #{n + 12}: comm ls: deleted"
            f" inode referenced: {n + 99}"
        ),
        ("sda",),
    ),
    "a disk that hangs": Kind(_one_disk, _hangs, ("sda",), times=1, seconds=60.0),
    "a disk that is offline": Kind(
        _one_disk, lambda m, _: m.state("sda", "offline"), ("sda",), times=1
    ),
    "a controller whose battery fails": Kind(_megaraid, _battery, ("c0", "battery")),
    "a file system that fills": Kind(_filled, _fills, ("/srv",), seconds=300.0),
    "an NVMe drive without spare": Kind(
        _nvme_disk,
        lambda m, n: m.smart("nvme0n1", nvme("NV9", critical_warning=1, available_spare=4 - n)),
        ("nvme0n1",),
    ),
    "writes that are lost": Kind(
        _one_disk,
        lambda m, n: m.says(
            f"Buffer I/O error on dev sda1, logical block {n + 7}, lost async page write"
        ),
        ("sda",),
    ),
    "a risky setting": Kind(_one_disk, _setting, ("zone_reclaim",), times=1),
}


@dataclass
class Life:
    """What is played: times in seconds from the first occurrence."""

    occurs: list[float]
    starts: float
    killed: float | None
    end: float
    mails: list[EmailMessage] = field(default_factory=list)


def life(kind: Kind, chance: random.Random) -> Life:
    """Return a life: iowarden starts from 2 min before the first occurrence to 5 min after it.

    Of every second one a later occurrence is in its first minute, before the initial report.
    """
    more = sorted(chance.uniform(1, 300) for _ in range(chance.randint(0, kind.times - 1)))
    starts = chance.uniform(-120, 300)
    if more and chance.random() < 0.5:
        starts = chance.choice(more) - chance.uniform(1, 70)
    killed = starts + chance.uniform(1, 120) if chance.random() < 0.4 else None
    last = max([starts, *more, *([] if killed is None else [killed])])
    return Life([0.0, *more], starts, killed, last + kind.seconds + LIMIT_SECONDS)


def _timeline(played: Life) -> Iterator[tuple[float, str]]:
    steps = [(at, "occurs") for at in played.occurs]
    steps += [(played.starts, "starts"), (played.end, "ends")]
    steps += [] if played.killed is None else [(played.killed, "killed")]
    yield from sorted(steps)


def misses(directory: Path, kind: Kind, played: Life) -> list[str]:
    """Play a life; return what no mail reported."""
    directory.mkdir()
    machine = FakeMachine(directory)
    kind.builds(machine)
    with contextlib.ExitStack() as stack:
        host: Watched | None = None
        times, now, began = 0, min(-1.0, played.starts - 1), 0.0
        for at, what in _timeline(played):
            machine.wait(max(at - now, 0.0))
            now = max(at, now)
            if what == "occurs":
                before = machine.uptime()
                kind.occurs(machine, times)
                now += machine.uptime() - before
                times += 1
            elif what == "starts":
                began = machine.wall
                host = stack.enter_context(watched(directory, machine, initial_report=True))
                machine.host = host
            elif what == "killed":
                assert host is not None
                played.mails += _taken(host)
                host.program.end(signal.SIGKILL)
                host.start_again()
        assert host is not None
        played.mails += _taken(host)
        incidents = host.program._service._tracker.incidents.by_key.values()  # type: ignore[union-attr]
        said = [f"{mail['Subject']} {text(mail)}" for mail in played.mails]
        lost = [f"no mail has '{w}'" for w in kind.words if not any(w in each for each in said)]
        lost += _of_report(played.mails, began)
        return [*lost, *(each for i in incidents if (each := _unmailed(i, played.mails)))]


def _taken(host: Watched) -> list[EmailMessage]:
    """Return the mails that the server took since the last call; others judge how they look."""
    for _ in range(MAX_POLLS):
        host.wait_only(1.0)
        if host.program.sent():
            break
    mails = []
    with contextlib.suppress(queue.Empty):
        while True:
            mails.append(parsed(host.answers.mails.get_nowait().data))
    return mails


def _of_report(mails: list[EmailMessage], began: float) -> list[str]:
    """Return what is wrong with the initial report: one, within four minutes of the first start."""
    reports = [mail for mail in mails if "INITIAL REPORT" in mail["Subject"]]
    if len({mail["Message-ID"] for mail in reports}) != 1:
        return [f"{len(reports)} initial reports"]
    after = reports[0]["Date"].datetime.timestamp() - began
    late = after > MAX_INITIAL_REPORT_SECONDS + STEP_SECONDS
    return [f"the initial report came after {after:.0f} s"] if late else []


def _unmailed(incident: Incident, mails: list[EmailMessage]) -> str:
    """Return what is wrong if no mail that was taken reports an incident of warning or worse."""
    heard = [m for m in incident.members if not m.silenced]
    if incident.severity < Severity.WARNING or not heard:
        return ""
    name = f"{incident.object}: {[m.name for m in heard]}, {incident.mails} mails"
    first = {reference.rpartition(".")[0] for reference in incident.references}
    about = [
        mail for mail in mails if str(mail["X-Iowarden-Incident"]) in {incident.identifier, *first}
    ]
    if not about:
        return f"{name}: none was taken"
    worst = max(Severity[str(mail["X-Iowarden-Severity"]).upper()] for mail in about)
    if worst < incident.severity:
        return f"{name}: it is {incident.severity.name}, its mails only {worst.name}"
    reports = [mail for mail in about if "INITIAL REPORT" in mail["Subject"]]
    if len(reports) < len(about):
        return ""
    listed = any(m.name in text(mail) for mail in reports for m in heard)
    return "" if listed else f"{name}: the initial report has no line about it"
