"""Who waits for storage, on which device and because of whom, as documents. Pure.

Shown while programs are blocked, and between two freezes of an open series as they were last seen:
what is counted only is shown while it lasts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.daemon.control.waiting_document import WaitingLine
from iowarden.rules.notices import who_waits
from iowarden.rules.signals.waits.freezes import COUNTED_SECONDS, Level

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iowarden.daemon.views.answers import ViewInputs
    from iowarden.rules.signals.waits.group import HarmState

MAX_PROGRAMS = 10
"""Of each device, those that have waited longest."""


def waiting(known: ViewInputs) -> tuple[WaitingLine, ...]:
    """Return the harmed programs, the longest wait first; without names if so configured."""
    harm = known.engine.signals.harm()
    lines: list[WaitingLine] = []
    for device, (seen_seconds, on_device) in harm.last_harms.items():
        series = harm.devices[device].series
        if series is None or (series.level < Level.WARNING and not series.is_frozen):
            continue
        # At a device's limit, and in a swap storm, none is long.
        victims = [v for v in on_device.victims if v.max_seconds >= COUNTED_SECONDS]
        victims = victims or list(on_device.victims)
        lines += [
            WaitingLine(
                device=device,
                program=program.program,
                unit=program.unit,
                pid=program.pid,
                tasks=program.tasks,
                call=program.call,
                file=program.file,
                seconds=program.seconds,
                seen_seconds=known.realtime(seen_seconds),
                waits_now=series.is_frozen,
                cause=harm.causes[device].value if device in harm.causes else "",
                because=_because(harm, device),
            )
            for program in who_waits.waiting_programs(victims)[:MAX_PROGRAMS]
        ]
    if not known.show_programs:
        lines = nameless(lines)
    return tuple(sorted(lines, key=lambda line: (-line.waits_now, -line.seconds, line.device)))


def _because(harm: HarmState, device: str) -> str:
    """Return who makes programs wait for a device, or which limit of their control group."""
    on_device = harm.last_harms[device][1]
    limits = who_waits.limit_sentences(harm.limits.get(device, ()))
    return "; ".join(limits) or who_waits.because_text(on_device)


def nameless(lines: Iterable[WaitingLine]) -> list[WaitingLine]:
    """Return one line for each device, without names of programs, units and files."""
    by_device: dict[str, WaitingLine] = {}
    for line in lines:
        before = by_device.get(line.device)
        by_device[line.device] = replace(
            line,
            program="",
            unit="",
            pid=0,
            file="",
            because="",
            call="",
            tasks=line.tasks + (0 if before is None else before.tasks),
            seconds=max(line.seconds, 0.0 if before is None else before.seconds),
        )
    return list(by_device.values())
