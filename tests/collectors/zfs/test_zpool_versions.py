"""'zpool status' in twelve states as three versions of OpenZFS print it, and what is made of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from iowarden.collectors.model import ParseError
from iowarden.collectors.redundancy import survives
from iowarden.collectors.tool_output.parse import parsed
from iowarden.collectors.zfs.vdevs import PoolDevices, emit, parse_pool
from iowarden.collectors.zfs.zpool_status import parse_status, redundancy_groups

if TYPE_CHECKING:
    from collections.abc import Callable

    from iowarden.collectors.zfs.zpool_status import PoolStatus

TEXTS = Path(__file__).parents[2] / "fixtures" / "zpool_status"
VERSIONS = ("0.8.6", "2.1.11", "2.3.9")


class Shown(NamedTuple):
    """What a text shows.

    Fields: `failed` are the leaf devices that do not work, `errors` the sums of the errors of those
    that have some, `survives` how many more disks may fail, `scans` kinds and states, `findings`
    what `iowarden explain` says is wrong.
    """

    pool: str
    state: str
    leaves: int
    survives: int
    failed: frozenset[tuple[str, str]] = frozenset()
    errors: frozenset[tuple[str, int]] = frozenset()
    data_errors: int = 0
    scans: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()


DONE = ("scrub finished",)
STATES = {
    "healthy-mirror-never-scrubbed": Shown("tank", "ONLINE", 2, 1),
    "healthy-raidz2-scrubbed": Shown("tank", "ONLINE", 7, 2, scans=DONE),
    "log-faulted": Shown(
        *("tank", "ONLINE", 3, 1),
        failed=frozenset({"/dev/nvme0n1p4": "FAULTED"}.items()),
        errors=frozenset({"/dev/nvme0n1p4": 12}.items()),
        scans=DONE,
        findings=("ZfsDeviceErrors", "ZfsDeviceFailed"),
    ),
    "member-removed": Shown(
        *("tank", "DEGRADED", 2, 0),
        failed=frozenset({"/dev/sdb1": "REMOVED"}.items()),
        scans=DONE,
        findings=("ZfsDeviceFailed", "ZfsPoolDegraded", "ZfsPoolNoRedundancy"),
    ),
    "member-missing-spare-in-use": Shown(
        *("tank", "DEGRADED", 6, 2),
        failed=frozenset({"13406370931257284514": "UNAVAIL"}.items()),
        scans=("resilver finished",),
        findings=("ZfsDeviceFailed", "ZfsPoolDegraded"),
    ),
    "checksum-errors": Shown(
        *("rpool", "ONLINE", 4, 1),
        errors=frozenset({"/dev/sdd1": 33}.items()),
        scans=DONE,
        findings=("ZfsDeviceErrors",),
    ),
    "files-damaged": Shown(
        *("tank", "ONLINE", 1, 0),
        errors=frozenset({"/srv/my images/file one": 8}.items()),
        data_errors=4,
        scans=DONE,
        findings=("ZfsDataErrors", "ZfsDeviceErrors", "ZfsScrubErrors"),
    ),
    "resilvering": Shown(
        *("tank", "DEGRADED", 3, 0),
        failed=frozenset({"/dev/sdb1": "OFFLINE"}.items()),
        scans=("resilver running",),
        findings=("ZfsDeviceFailed", "ZfsPoolDegraded", "ZfsPoolNoRedundancy", "ZfsResilver"),
    ),
    "scrub-that-repairs": Shown(
        *("tank", "ONLINE", 3, 1),
        errors=frozenset({"/dev/sdb1": 2}.items()),
        scans=("scrub running",),
        findings=("ZfsDeviceErrors",),
    ),
    "scrub-canceled-member-offline": Shown(
        *("tank", "DEGRADED", 2, 0),
        failed=frozenset({"/dev/sda1": "OFFLINE"}.items()),
        scans=("scrub canceled",),
        findings=("ZfsDeviceFailed", "ZfsPoolDegraded", "ZfsPoolNoRedundancy"),
    ),
    "suspended": Shown(
        *("tank", "SUSPENDED", 2, 0),
        failed=frozenset({"/dev/sda1": "FAULTED", "/dev/sdb1": "UNAVAIL"}.items()),
        errors=frozenset({"/dev/sda1": 215, "/dev/sdb1": 6}.items()),
        data_errors=14,
        findings=("ZfsDataErrors", "ZfsDeviceErrors", "ZfsDeviceFailed", "ZfsPoolSuspended"),
    ),
    "all-classes-of-vdevs": Shown(
        *("tank", "ONLINE", 8, 0), scans=("scrub finished", "resilver finished")
    ),
}
"""One top-level vdev of a single device, as 'dedup' here, leaves nothing that may fail."""
EVERY = [(version, name) for version in VERSIONS for name in STATES]


def text(version: str, name: str) -> str:
    """Return what a version prints in a state."""
    return (TEXTS / version / f"{name}.txt").read_text()


def expected(version: str, name: str) -> Shown:
    """Return what it shows; 0.8 has no sequential resilver, and so shows the scrub alone."""
    shown = STATES[name]
    return shown._replace(scans=shown.scans[:1]) if version == "0.8.6" else shown


def shown(pool: PoolStatus, findings: tuple[str, ...] = ()) -> Shown:
    """Return what was made of a text."""
    leaves = pool.leaves()
    working = {"ONLINE", "AVAIL", "INUSE"}
    return Shown(
        pool.name,
        pool.state,
        len(leaves),
        survives(redundancy_groups(pool)) or 0,
        frozenset((each.name, each.state) for each in leaves if each.state not in working),
        frozenset((each.name, n) for each in leaves if (n := sum(each.errors.values()))),
        pool.data_errors or 0,
        tuple(f"{scan.kind} {scan.state}" for scan in pool.scans),
        findings,
    )


def test_each_version_has_each_state() -> None:
    """A text that nobody reads tests nothing."""
    files = {(path.parent.name, path.stem) for path in TEXTS.glob("*/*.txt")}
    assert files == set(EVERY)


@pytest.mark.parametrize(("version", "name"), EVERY)
def test_a_state_is_the_same_whichever_version_prints_it(version: str, name: str) -> None:
    """As the poller reads it."""
    pool = parse_pool(STATES[name].pool, text(version, name))
    assert shown(pool, STATES[name].findings) == expected(version, name)
    samples = emit({pool.name: PoolDevices(pool)})
    assert len({(metric, labels) for metric, labels, _ in samples}) == len(samples)


@pytest.mark.parametrize(("version", "name"), EVERY)
def test_a_pasted_state_says_what_is_wrong_and_nothing_else(version: str, name: str) -> None:
    """Also behind the quotes of a mail, and with the line ends of another system."""
    plain = text(version, name)
    for pasted in (
        plain,
        re.sub(r"^", "> ", plain, flags=re.MULTILINE),
        plain.replace("\n", "\r\n"),
    ):
        (part,) = parsed(pasted.encode())
        names = tuple(sorted({each.name for each in part.findings}))
        assert names == STATES[name].findings
        assert part.unparsed == ()


SPOILT: dict[str, Callable[[str], str]] = {
    "blanks stripped": lambda plain: "\n".join(
        " ".join(line.split()) for line in plain.split("\n")
    ),
    "tabs expanded": str.expandtabs,
    "trailing blanks": lambda plain: plain.replace("\n", "   \n"),
    "no last line end": lambda plain: plain.rstrip("\n"),
    "a prompt before it": lambda plain: f"# zpool status\n{plain}",
}


@pytest.mark.parametrize("spoil", SPOILT.values(), ids=SPOILT)
@pytest.mark.parametrize(("version", "name"), EVERY)
def test_a_form_that_lost_its_blanks_shows_the_same(
    version: str, name: str, spoil: Callable[[str], str]
) -> None:
    """A web form, a terminal, an editor. Without indentation a spare is one of its group."""
    (pool,) = parse_status(spoil(text(version, name)))
    assert shown(pool)[:2] == expected(version, name)[:2]
    assert shown(pool)[4:8] == expected(version, name)[4:8]
    assert pool.unparsed == ()


@pytest.mark.parametrize("version", VERSIONS)
def test_two_pools_in_one_paste_stay_two(version: str) -> None:
    """Neither has the devices, errors or scans of the other, in either order."""
    names = [name for name in STATES if STATES[name].pool == "tank"]
    other = text(version, "checksum-errors")
    for name in names:
        for pasted in (f"{text(version, name)}\n{other}", f"{other}\n{text(version, name)}"):
            pools = {pool.name: pool for pool in parse_status(pasted)}
            assert shown(pools["tank"])[:8] == expected(version, name)[:8]
            assert shown(pools["rpool"])[:8] == expected(version, "checksum-errors")[:8]


@pytest.mark.parametrize(("version", "name"), EVERY)
def test_a_text_that_was_cut_anywhere_is_no_healthy_pool(version: str, name: str) -> None:
    """Whatever is left of it is refused, or shows each device that the whole text has."""
    plain, whole = text(version, name), expected(version, name)
    for end in range(0, len(plain), 7):
        try:
            pool = parse_pool(whole.pool, plain[:end])
        except ParseError:
            continue
        assert shown(pool)[2:6] == whole[2:6] or pool.state not in {"ONLINE", "DEGRADED"}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_state_that_no_version_knows_is_refused_with_its_line(version: str) -> None:
    """A later version may have more of them: that is no healthy device."""
    plain = text(version, "healthy-raidz2-scrubbed").replace(
        "A3-part1  ONLINE ", "A3-part1  PONDERS"
    )
    with pytest.raises(ParseError, match=r"line 1\d: expected a device with a state .* PONDERS"):
        parse_pool("tank", plain)


@pytest.mark.parametrize(
    "foreign",
    [
        '{"output_version": {"command": "zpool status", "vers_major": 0, "vers_minor": 1},',
        '{"pools": []}',
        "cannot open 'tank': no such pool\n",
        "The ZFS modules are not loaded.\nTry running '/sbin/modprobe zfs' as root to load them.\n",
        "",
    ],
)
def test_what_is_no_status_is_refused(foreign: str) -> None:
    """JSON that was cut, another program's words, nothing: never a healthy pool."""
    with pytest.raises(ParseError, match="expected 'pool: tank' and its devices"):
        parse_pool("tank", foreign)
