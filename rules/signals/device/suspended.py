"""For how long a device-mapper device has been suspended (domain condition B1).

What is written to it or read from it waits, and nothing is in flight: counters of I/O show a disk
at rest. Source: kernel, drivers/md/dm.c; ABI/testing/sysfs-block-dm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.model import Family, Sample
from iowarden.rules.signals.held import NOTHING, Held
from iowarden.rules.signals.signal import DIGITS, Group

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.rules.signals.signal import Pairs, View

FAMILIES = (
    Family(
        "iowarden_device_mapper_suspended_seconds",
        "gauge",
        "Seconds since a device-mapper device that is suspended was first seen so.",
    ),
)
EMPTY = NOTHING


def recall(state: Held, kept: Mapping[str, Pairs]) -> Held:
    """Return the state with what was kept: what is suspended now was so before the restart."""
    before = EMPTY.recall(kept).since
    return Held({**before, **{key: min(s, before.get(key, s)) for key, s in state.since.items()}})


def step(state: Held, view: View) -> tuple[Held, list[Sample] | None]:
    """Return the state after a look and the seconds of every device that is suspended.

    Between two looks that both find it suspended it is taken to have been so.
    """
    value = view.inputs.snapshot.dm
    if value is None or "dm" not in view.inputs.fresh:
        return state, None
    now = view.inputs.now_seconds
    # The name tells a device from the next one of its number.
    suspended = {f"{m.device} {m.name or ''}": m for m in value.values() if m.suspended}
    # What was suspended in an earlier boot is so anew.
    booted = now - view.inputs.uptime_seconds
    state = Held({key: since for key, since in state.since.items() if since >= booted})
    stepped = state.step(suspended, now, 0.0)
    return stepped, [
        (
            FAMILIES[0].name,
            (("device", mapped.device), ("name", mapped.name or "")),
            max(round(now - stepped.since[key], DIGITS), 0.0),
        )
        for key, mapped in suspended.items()
    ]


GROUP = Group(
    name="suspended",
    sources=("dm",),
    families=FAMILIES,
    step=step,
    initial=EMPTY,
    remember=Held.remember,
    recall=recall,
)
