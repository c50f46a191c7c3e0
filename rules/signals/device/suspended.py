"""For how long a device-mapper device has been suspended.

Reads and writes of a suspended device wait, and nothing is in flight: I/O counters show an idle
disk. Source: kernel, drivers/md/dm.c; ABI/testing/sysfs-block-dm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.model import Family, Sample
from iowarden.rules.signals.signal import DIGITS, SignalGroup
from iowarden.rules.signals.sustained import NOTHING, Sustained

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.rules.signals.signal import Pairs, View

FAMILIES = (
    Family(
        "iowarden_device_mapper_suspended_seconds",
        "gauge",
        "Seconds since a device-mapper device was first found suspended.",
    ),
)
EMPTY = NOTHING


def recall(state: Sustained, stored: Mapping[str, Pairs]) -> Sustained:
    """Return the state with the stored one: a device suspended now has been so since before."""
    before = EMPTY.recall(stored).since
    return Sustained(
        {**before, **{key: min(s, before.get(key, s)) for key, s in state.since.items()}}
    )


def names(state: Sustained) -> set[str]:
    """Return the devices that were suspended when this was last read."""
    return set(since_seconds(state))


def since_seconds(state: Sustained) -> dict[str, float]:
    """Return since when these devices are suspended, as far as it was read."""
    return {key.partition(" ")[0]: at for key, at in state.since.items()}


def step(state: Sustained, view: View) -> tuple[Sustained, list[Sample] | None]:
    """Return the state after a sample and the seconds of every device that is suspended.

    Between two samples that both find it suspended it counts as suspended.
    """
    value = view.inputs.snapshot.dm
    if value is None or "dm" not in view.inputs.fresh:
        return state, None
    now = view.inputs.now_seconds
    # The name distinguishes a device from a later one of the same number.
    suspended = {f"{m.device} {m.name or ''}": m for m in value.values() if m.suspended}
    # A suspension in an earlier boot is another one.
    booted = now - view.inputs.uptime_seconds
    state = Sustained({key: since for key, since in state.since.items() if since >= booted})
    stepped = state.step(suspended, now, 0.0)
    return stepped, [
        (
            FAMILIES[0].name,
            (("device", mapped.device), ("name", mapped.name or "")),
            max(round(now - stepped.since[key], DIGITS), 0.0),
        )
        for key, mapped in suspended.items()
    ]


GROUP = SignalGroup(
    name="suspended",
    sources=("dm",),
    families=FAMILIES,
    step=step,
    initial=EMPTY,
    remember=Sustained.remember,
    recall=recall,
)
