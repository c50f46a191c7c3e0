"""The devices of imported pools, by one 'zpool status' each; the state that the kernel shows."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from iowarden.collectors.machine import probe_path
from iowarden.collectors.model import AbsentError
from iowarden.collectors.zfs import pool_state, vdevs
from iowarden.collectors.zfs.pool_state import DIRECTORY, read_pool_states
from iowarden.collectors.zfs.vdevs import read_pool_devices

if TYPE_CHECKING:
    from conftest import MachineMaker

STATUS = """\
  pool: {name}
 state: ONLINE
  scan: scrub in progress since Sun Nov 29 03:12:20 2026
\t1G / 5G scanned, 600M / 5G issued
\t0B repaired, 25.00% done, 00:20:03 to go
config:

\tNAME            STATE     READ WRITE CKSUM  SLOW
\t{name}          ONLINE       0     0     0     -
\t  mirror-0      ONLINE       0     0     0     -
\t    /dev/sda1   ONLINE       0     0     0     0
\t    /dev/sdb1   {state}      2     0    33     7

errors: No known data errors
"""


def answer(text: str) -> str:
    """Return what the probe answers to a program that printed a text."""
    return json.dumps({"status": 0, "signal": None, "stdout": text, "stderr": ""})


def command(pool: str) -> str:
    """Return where a recorded machine has the answer for a pool."""
    return probe_path("run", ("zpool", "status", "-pLPs", pool))


def test_a_pool_that_hangs_hides_no_other_and_a_suspended_one_is_not_asked(
    machine: MachineMaker,
) -> None:
    """One program a pool. For the suspended one there is no answer to be had: it was not run."""
    root = machine(
        {
            f"{DIRECTORY}/arcstats": "",
            f"{DIRECTORY}/tank/state": "DEGRADED\n",
            f"{DIRECTORY}/slow/state": "ONLINE\n",
            f"{DIRECTORY}/gone/state": "SUSPENDED\n",
            command("tank"): answer(STATUS.format(name="tank", state="FAULTED")),
        }
    )
    pools = read_pool_devices(root, lambda part: "no answer for 20 s" if part == "slow" else "")
    assert {name for name, pool in pools.items() if not pool.reason} == {"tank"}
    samples = {(name, dict(labels).get("vdev"), dict(labels).get("kind")): value
               for name, labels, value in vdevs.emit(pools)}  # fmt: skip
    assert samples["iowarden_zfs_vdev_errors_total", "sdb1", "checksum"] == 33
    assert samples["iowarden_zfs_vdev_errors_total", "sdb1", "read"] == 2
    assert samples["iowarden_zfs_pool_scan_ratio", None, None] == 0.25
    assert [labels for name, labels, _ in vdevs.emit(pools) if name.endswith("_scan_state")] == [
        (("action", "scrub"), ("pool", "tank"), ("state", "running"))
    ]
    assert samples["iowarden_zfs_vdev_slow_requests_total", "sdb1", None] == 7
    states = {dict(labels)["vdev"]: dict(labels)["state"] for name, labels, _ in vdevs.emit(pools)
              if name == "iowarden_zfs_vdev_state"}  # fmt: skip
    assert states == {"sda1": "ONLINE", "sdb1": "FAULTED"}
    reasons = {dict(labels)["pool"]: reason for labels, reason in vdevs.unreadable(pools)}
    assert reasons["slow"] == "no answer for 20 s"
    assert "suspended" in reasons["gone"]


@pytest.mark.parametrize(
    ("scan", "is_end"),
    [
        ("scrub repaired 0B in 02:00:00 with 0 errors on Sun Nov 22 02:24:02 2026", True),
        ("resilvered 12G in 00:12:13 with 0 errors on Sun Nov 22 02:24:02 2026", False),
        ("scrub canceled on Sun Nov 22 02:24:02 2026", False),
        ("none requested", False),
    ],
)
def test_only_a_complete_scrub_has_read_the_pool(
    machine: MachineMaker, scan: str, is_end: bool
) -> None:
    """Its end is local time; the space is read by a program of its own."""
    text = STATUS.format(name="tank", state="ONLINE")
    before, _, after = text.partition("scrub in progress")
    space = ("zpool", "list", "-Hpo", "size,allocated,free,fragmentation", "tank")
    root = machine(
        {
            f"{DIRECTORY}/tank/state": "ONLINE\n",
            command("tank"): answer(f"{before}{scan}\nconfig:{after.partition('config:')[2]}"),
            probe_path("run", space): answer("1000\t900\t100\t-\n"),
        }
    )
    pool = read_pool_devices(root)["tank"]
    end = datetime(2026, 11, 22, 2, 24, 2).timestamp()  # noqa: DTZ001 - local, as it is printed
    assert pool.scrubbed_seconds == (end if is_end else None)
    names = {name for name, _, _ in vdevs.emit({"tank": pool})}
    assert names > {"iowarden_zfs_pool_size_bytes", "iowarden_zfs_pool_free_bytes"}
    assert "iowarden_zfs_pool_fragmentation_ratio" not in names


def test_without_the_module_or_a_pool_there_are_no_such_data(machine: MachineMaker) -> None:
    """Absent, and not an empty list: nothing is asked, nothing is run."""
    with pytest.raises(AbsentError):
        read_pool_states(machine({"/proc/stat": ""}))
    with pytest.raises(AbsentError):
        read_pool_devices(machine({f"{DIRECTORY}/arcstats": ""}))


def test_a_pool_in_transition_or_of_an_unknown_state_is_not_judged(machine: MachineMaker) -> None:
    """While it is imported it is neither well nor ill; so is a word of a later version."""
    states = {"tank": "TRANSITIONING", "later": "PONDERING", "well": "ONLINE"}
    pools = read_pool_states(
        machine({f"{DIRECTORY}/{name}/state": f"{word}\n" for name, word in states.items()})
    )
    samples = pool_state.emit(pools)
    assert {dict(labels)["pool"] for _, labels, _ in samples} == {"well"}
    assert sum(value for _, _, value in samples) == 1
    reasons = {dict(labels)["pool"]: reason for labels, reason in pool_state.unreadable(pools)}
    assert "imported or exported" in reasons["tank"]
    assert "got 'PONDERING'" in reasons["later"]


def test_public_rules_about_pools_find_their_series(machine: MachineMaker) -> None:
    """node_exporter's name and labels, with the state in lower case."""
    pools = read_pool_states(machine({f"{DIRECTORY}/tank/state": "UNAVAIL\n"}))
    samples = {dict(labels)["state"]: value for _, labels, value in pool_state.node_samples(pools)}
    assert samples["unavail"] == 1
    assert sum(samples.values()) == 1
    assert set(samples) >= {"online", "degraded", "faulted", "offline", "removed", "suspended"}
