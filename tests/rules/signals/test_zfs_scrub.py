"""How long ago a ZFS pool was last read as a whole."""

from __future__ import annotations

from iowarden.collectors.zfs.vdevs import PoolDevices
from iowarden.collectors.zfs.zpool_status import PoolStatus, VirtualDevice
from iowarden.rules.signals.raid import zfs_scrub
from iowarden.rules.signals.signal import Inputs, View
from iowarden.rules.snapshot import Snapshot

DAY = 86_400.0
NOW = 1_795_000_000.0


class Pool:
    """A pool that is read now and then, by a program that may be restarted."""

    def __init__(self) -> None:
        self.now = NOW
        self.state = zfs_scrub.GROUP.initial

    def age_days(self, scan: str, ended_seconds: float | None = None, after: float = 0.0) -> float:
        """Return for how long no scrub has ended, once 'zpool status' shows this scan."""
        self.now += after
        device = VirtualDevice("tank", "", "data", "ONLINE")
        status = PoolStatus("tank", "ONLINE", (device,), scan_texts=(scan,))
        pools = {"tank": PoolDevices(status, scrubbed_seconds=ended_seconds)}
        view = View(Inputs(self.now, self.now, Snapshot(zfs_vdevs=pools)), None)
        self.state, samples = zfs_scrub.GROUP.step(self.state, view)
        assert samples is not None
        ((name, labels, value),) = samples
        assert (name, labels) == (zfs_scrub.FAMILY.name, (("pool", "tank"),))
        return value / DAY

    def restart(self) -> None:
        """Start again with what was stored."""
        assert zfs_scrub.GROUP.remember is not None
        assert zfs_scrub.GROUP.recall is not None
        stored = zfs_scrub.GROUP.remember(self.state)
        self.state = zfs_scrub.GROUP.recall(zfs_scrub.GROUP.initial, stored)


SCRUBBED = "scrub repaired 0B in 02:00:00 with 0 errors on Sun Nov 22 02:24:02 2026"
RESILVERED = "resilvered 12G in 00:12:13 with 0 errors on Sun Nov 22 03:12:20 2026"


def test_a_scrub_before_the_first_look_counts() -> None:
    """The program was installed on a host whose pool was scrubbed 50 days ago."""
    assert Pool().age_days(SCRUBBED, NOW - 50 * DAY) == 50


def test_a_resilver_does_not_make_the_last_scrub_older_or_newer() -> None:
    """It takes its place in 'zpool status', also while the program is restarted."""
    pool = Pool()
    assert pool.age_days(SCRUBBED, NOW - 10 * DAY) == 10
    assert pool.age_days(RESILVERED, after=DAY) == 11
    pool.restart()
    assert pool.age_days(RESILVERED, after=DAY) == 12


def test_a_pool_that_was_never_scrubbed_counts_from_the_first_look() -> None:
    """A new pool is not overdue; one that is never scrubbed becomes so, over restarts."""
    pool = Pool()
    assert pool.age_days("none requested") == 0
    pool.restart()
    assert pool.age_days("none requested", after=41 * DAY) == 41
    assert pool.age_days(SCRUBBED, NOW + 41 * DAY) == 0


def test_while_a_scrub_runs_none_is_overdue_and_a_cancelled_one_counts_as_none() -> None:
    """It reads what was not read for long; what it did not reach is still unread."""
    pool = Pool()
    pool.age_days("none requested")
    running = "scrub in progress since Sun Nov 22 00:24:02 2026\n25.00% done, 00:20:03 to go"
    assert pool.age_days(running, after=50 * DAY) == 0
    assert pool.age_days("scrub canceled on Sun Nov 22 00:30:00 2026", after=DAY) == 51


def test_a_clock_that_was_set_back_makes_no_scrub_of_the_future() -> None:
    """The end is a local time of another day: the age is not negative."""
    assert Pool().age_days(SCRUBBED, NOW + DAY) == 0
