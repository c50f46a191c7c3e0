"""'zpool status' as OpenZFS 2.1 to 2.4 print it: states, errors, redundancy and scrubs."""

from __future__ import annotations

from datetime import datetime

import pytest

from iowarden.collectors.model import ParseError
from iowarden.collectors.redundancy import survives
from iowarden.collectors.zfs.vdevs import parse_pool
from iowarden.collectors.zfs.zpool_status import (
    PoolStatus,
    Scan,
    VirtualDevice,
    parse_scan,
    parse_status,
    redundancy_groups,
)

RAIDZ_WITH_SPARE = """\
  pool: tank
 state: DEGRADED
status: One or more devices has been removed by the administrator.
\tSufficient replicas exist for the pool to continue functioning in a
\tdegraded state.
action: Online the device using zpool online' or replace the device with
\t'zpool replace'.
  scan: resilvered 1288490188 in 00:12:13 with 0 errors on Sun Nov 29 03:12:20 2026
config:

\tNAME                                    STATE     READ WRITE CKSUM  SLOW
\ttank                                    DEGRADED     0     0     0     -
\t  raidz2-0                              DEGRADED     0     0     0     -
\t    /dev/sda1                           ONLINE       0     0     0     0
\t    spare-1                             DEGRADED     0     0     0     -
\t      /dev/sdb1                         REMOVED      0     0     0     0
\t      /dev/sdf1                         ONLINE       0     0     0     0
\t    /dev/sdc1                           ONLINE       0     0    33     7
\t    1234567890123456789                 UNAVAIL      0     0     0     0  was /dev/sdd1
\t    /srv/my images/file one             ONLINE       0     0     0     0
\tspecial
\t  mirror-1                              ONLINE       0     0     0     -
\t    /dev/nvme0n1p1                      ONLINE       0     0     0     0
\t    /dev/nvme1n1p1                      ONLINE       0     0     0     0
\tlogs
\t  /dev/nvme0n1p4                        FAULTED      0    12     0     0  too many errors
\tcache
\t  /dev/sdg1                             ONLINE       0     0     0     0
\tspares
\t  /dev/sdf1                             INUSE     currently in use
\t  /dev/sdh1                             AVAIL

errors: No known data errors
"""


def one(text: str) -> PoolStatus:
    """Return the only pool of a text."""
    (pool,) = parse_status(text)
    return pool


def test_each_device_is_part_of_its_group_and_has_its_role_and_counts() -> None:
    """Groups within groups, names with blanks, a device known by its number only, spares."""
    pool = one(RAIDZ_WITH_SPARE)
    assert (pool.name, pool.state, pool.data_errors) == ("tank", "DEGRADED", 0)
    places = {(device.name, device.role): device.parent for device in pool.devices}
    assert places["/dev/sdb1", "data"] == places["/dev/sdf1", "data"] == "spare-1"
    assert places["spare-1", "data"] == places["/dev/sdc1", "data"] == "raidz2-0"
    assert places["/srv/my images/file one", "data"] == "raidz2-0"
    assert places["mirror-1", "special"] == places["/dev/nvme0n1p4", "log"] == "tank"
    assert places["/dev/sdh1", "spare"] == "tank"
    leaves = {(device.name, device.role): device for device in pool.leaves()}
    assert len(leaves) == 12
    assert leaves["/dev/sdc1", "data"] == VirtualDevice(
        "/dev/sdc1", "raidz2-0", "data", "ONLINE", 0, 0, 33, 7
    )
    assert leaves["1234567890123456789", "data"].note == "was /dev/sdd1"
    log = leaves["/dev/nvme0n1p4", "log"]
    assert (log.state, log.write_errors, log.note) == ("FAULTED", 12, "too many errors")
    assert leaves["/dev/sdh1", "spare"].errors == {}


def test_without_its_blanks_a_device_belongs_to_the_last_group_above_it() -> None:
    """A status that went through a web form."""
    stripped = "\n".join(" ".join(line.split()) for line in RAIDZ_WITH_SPARE.split("\n"))
    places = {(device.name, device.role): device.parent for device in one(stripped).devices}
    assert places["/dev/sda1", "data"] == "raidz2-0"
    assert places["/dev/nvme1n1p1", "special"] == "mirror-1"
    assert places["/dev/sdg1", "cache"] == "tank"


def pool_of(*rows: str) -> PoolStatus:
    """Return a pool of these rows, two blanks for each level."""
    lines = "".join(f"\t{row}\n" for row in ("tank ONLINE 0 0 0", *rows))
    return one(f"  pool: tank\n state: ONLINE\nconfig:\n\n{lines}\nerrors: No known data errors\n")


MIRROR = ("  mirror-0 ONLINE 0 0 0", "    a ONLINE 0 0 0", "    b ONLINE 0 0 0")
RAIDZ2 = ("  raidz2-1 ONLINE 0 0 0", *(f"    {name} ONLINE 0 0 0" for name in "cdefg"))


def failed(rows: tuple[str, ...], *names: str) -> tuple[str, ...]:
    """Return rows in which some devices failed."""
    return tuple(
        row.replace("ONLINE", "FAULTED") if row.split()[0] in names else row for row in rows
    )


@pytest.mark.parametrize(
    ("rows", "left"),
    [
        (MIRROR, 1),
        (failed(MIRROR, "a"), 0),
        (failed(MIRROR, "a", "b"), 0),
        (RAIDZ2, 2),
        (failed(RAIDZ2, "d"), 1),
        (failed(RAIDZ2, "d", "g"), 0),
        ((*MIRROR, *RAIDZ2), 1),
        ((*MIRROR, *failed(RAIDZ2, "c", "d")), 0),
        (("  raidz1-0 ONLINE 0 0 0", *MIRROR[1:], "    c ONLINE 0 0 0"), 1),
        (("  draid1:2d:4c:1s-0 ONLINE 0 0 0", *(f"    {n} ONLINE 0 0 0" for n in "abcd")), 1),
        # A single disk beside a mirror: the pool is lost with it.
        ((*MIRROR, "  c ONLINE 0 0 0"), 0),
        # Nothing here ever was redundant.
        (("  a ONLINE 0 0 0", "  b ONLINE 0 0 0"), 0),
        (("  indirect-0 ONLINE 0 0 0", "  a ONLINE 0 0 0"), 0),
        # What was moved off a removed device is on the others.
        (("  indirect-0 ONLINE 0 0 0", "  mirror-1 ONLINE 0 0 0", *MIRROR[1:]), 1),
        ((), None),
        # Log, cache and spare devices do not matter to the data, special ones do.
        ((*MIRROR, "logs", "  l FAULTED 0 0 0", "cache", "  c UNAVAIL 0 0 0"), 1),
        ((*MIRROR, "special", "  s ONLINE 0 0 0"), 0),
        # What is being resilvered does not hold its data yet; the old device may still.
        (
            (
                MIRROR[0],
                MIRROR[1],
                "    replacing-1 DEGRADED 0 0 0",
                "      b FAULTED 0 0 0",
                "      c ONLINE 0 0 0  (resilvering)",
            ),
            0,
        ),
        (
            (
                MIRROR[0],
                MIRROR[1],
                "    replacing-1 ONLINE 0 0 0",
                "      b ONLINE 0 0 0",
                "      c ONLINE 0 0 0  (resilvering)",
            ),
            1,
        ),
    ],
)
def test_the_weakest_group_decides_how_many_disks_a_pool_may_lose(
    rows: tuple[str, ...], left: int | None
) -> None:
    """Redundancy is per top-level group; a pool without any has nothing that it could lose."""
    groups = redundancy_groups(pool_of(*rows))
    assert survives(groups) == left
    never_any = not any("mirror" in row or "raid" in row for row in rows)
    assert not (never_any and any(group.is_exhausted for group in groups))


NIGHT = datetime(2026, 11, 29, 3, 12, 20)  # noqa: DTZ001 - local time
ON = "Sun Nov 29 03:12:20 2026"


@pytest.mark.parametrize(
    ("text", "scan"),
    [
        ("none requested", None),
        (
            f"scrub repaired 0B in 01:02:03 with 0 errors on {ON}",
            Scan("scrub", "finished", NIGHT, 0),
        ),
        (f"scrub repaired 0 in 0h1m with 0 errors on {ON}", Scan("scrub", "finished", NIGHT, 0)),
        (
            f"scrub repaired 4096 in 1 days 02:03:04 with 7 errors on {ON}",
            Scan("scrub", "finished", NIGHT, 7),
        ),
        (
            f"thorough scrub repaired 0B in 00:00:03 with 0 errors on {ON}",
            Scan("scrub", "finished", NIGHT, 0),
        ),
        (
            f"resilvered 1.2G in 00:10:03 with 0 errors on {ON}",
            Scan("resilver", "finished", NIGHT, 0),
        ),
        (f"scrub canceled on {ON}", Scan("scrub", "canceled", NIGHT)),
        (f"resilver (mirror-0) canceled on {ON}", Scan("resilver", "canceled", NIGHT)),
        (
            (
                f"scrub in progress since {ON} 1.2G / 5G scanned at 9M/s, 600M / 5G issued at 4M/s"
                " 0B repaired, 11.72% done, 00:20:03 to go"
            ),
            Scan("scrub", "running", NIGHT, None, pytest.approx(0.1172)),
        ),
        (
            (
                f"scrub paused since {ON} scrub started on Sat Nov 28 01:00:00 2026 1G / 5G"
                " scanned, 600M / 5G issued 0B repaired, 11.72% done"
            ),
            Scan("scrub", "paused", NIGHT, None, pytest.approx(0.1172)),
        ),
        (
            (
                f"resilver in progress since {ON} 1.2G / 5G scanned, 600M resilvered, 99.00% done,"
                " no estimated completion time"
            ),
            Scan("resilver", "running", NIGHT, None, pytest.approx(0.99)),
        ),
        (f"error scrub in progress since {ON} 3 / 9 scanned", Scan("scrub", "running", NIGHT)),
        (f"scrub canceled on {ON.replace('29', '31')}", Scan("scrub", "canceled", None)),
    ],
)
def test_the_last_scrub_or_resilver_is_read(text: str, scan: Scan | None) -> None:
    """Each sentence of zpool_main.c, and those of 0.7; an impossible date is no date."""
    assert parse_scan(text) == scan


@pytest.mark.parametrize(
    ("errors", "count"),
    [
        ("No known data errors", 0),
        ("3 data errors, use '-v' for a list", 3),
        ("List of errors unavailable: permission denied", None),
    ],
)
def test_damaged_files_are_counted_or_unknown(errors: str, count: int | None) -> None:
    """A list that may not be read is not an empty one."""
    text = RAIDZ_WITH_SPARE.replace("No known data errors", errors)
    assert one(text).data_errors == count


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("cannot open 'tank': no such pool\n", "got \"cannot open 'tank': no such pool"),
        ("", "expected 'pool: tank' and its devices, got ''"),
        (RAIDZ_WITH_SPARE.replace("pool: tank", "pool: other"), "expected 'pool: tank'"),
        (RAIDZ_WITH_SPARE.replace("REMOVED", "PONDERING"), "line 16: expected a device"),
        ("  pool: tank\n state: FAULTED\nconfig: The configuration cannot be determined.\n", "got"),
        (RAIDZ_WITH_SPARE[: RAIDZ_WITH_SPARE.index("\t      /dev/sdb1")], "it ends within"),
    ],
)
def test_what_is_not_the_status_of_that_pool_is_an_error(text: str, error: str) -> None:
    """Another program, a later version, a text that was cut before the device that failed."""
    with pytest.raises(ParseError, match="'zpool status'") as raised:
        parse_pool("tank", text)
    assert error in str(raised.value)


def test_a_text_that_is_cut_anywhere_is_never_well() -> None:
    """Whatever remains of a degraded pool is an error, or still shows the device that failed."""
    for end in range(len(RAIDZ_WITH_SPARE)):
        try:
            pool = parse_pool("tank", RAIDZ_WITH_SPARE[:end])
        except ParseError:
            continue
        assert {"REMOVED", "UNAVAIL", "FAULTED"} <= {device.state for device in pool.devices}
