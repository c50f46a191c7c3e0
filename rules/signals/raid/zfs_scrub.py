"""How long ago each ZFS pool was last read as a whole.

'zpool status' shows the last scrub or resilver only, so the end of a scrub is stored over restarts.
A resilver reads a part of the pool. Limits: a scrub that a resilver followed before iowarden read
its end is unknown; a pool that was never scrubbed counts from when it was first seen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.model import Family, Sample
from iowarden.rules.signals import baseline

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from iowarden.collectors.zfs.vdevs import PoolDevices
    from iowarden.rules.signals.baseline import Remembered
    from iowarden.rules.signals.signal import View

FAMILY = Family(
    "iowarden_zfs_pool_last_scrub_age_seconds",
    "gauge",
    "Seconds since the last complete scrub of a ZFS pool ended, 0 while one runs; since iowarden"
    " first saw the pool, if none is known.",
)


def _ages(remembered: Remembered, pools: Mapping[str, PoolDevices], view: View) -> Iterator[Sample]:
    now = view.inputs.now_seconds
    for name, pool in pools.items():
        if pool.reason:
            continue
        scrub = pool.status.scrub
        is_running = scrub is not None and scrub.state == "running"
        last_seconds, is_end = remembered.get(name, ((now, 0.0),))[0]
        ended_seconds = pool.scrubbed_seconds
        if ended_seconds is not None:
            # The first end that is known may be older than the first look at the pool.
            last_seconds = max(last_seconds, ended_seconds) if is_end else ended_seconds
            is_end = 1.0
        last_seconds = min(last_seconds, now)
        remembered[name] = ((last_seconds, is_end),)
        age = 0.0 if is_running else now - last_seconds
        yield FAMILY.name, (("pool", name),), age


GROUP = baseline.group(
    name="zfs_scrub",
    sources=("zfs_vdevs",),
    families=(FAMILY,),
    value_of=lambda view: view.inputs.snapshot.zfs_vdevs,
    evaluate=_ages,
)
