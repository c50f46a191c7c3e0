"""One line of 'dmsetup status': what the targets of device-mapper report of themselves.

The grammar of each target, by the function of the kernel that prints it (drivers/md, of Linux 5.4
to 6.12): pool_status and thin_status of dm-thin.c, snapshot_status of dm-snap.c, raid_status of
dm-raid.c, mirror_status of dm-raid1.c with disk_status of dm-log.c, stripe_status of dm-stripe.c,
multipath_status of dm-mpath.c, cache_status of dm-cache-target.c, writecache_status of
dm-writecache.c, clone_status of dm-clone-target.c, dm_integrity_status of dm-integrity.c,
verity_status of dm-verity-target.c, vdo_status of dm-vdo/dm-vdo-target.c. Fields that a newer
kernel adds at the end are accepted. A state that none of them prints is unparsed, and so is a line
that ends before the last field with a meaning: never a healthy device.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.redundancy import RedundancyGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

JOURNAL, LOG = "journal", "log"
"""What is in place of a number at `Leg`: the journal of RAID 4, 5 and 6, the log of a mirror."""
MERGE_FAILED = "Merge failed"
FAILURES = frozenset(("Fail", "Error", "Invalid", "Overflow", MERGE_FAILED))
"""Words that replace the whole status."""
WORKING = frozenset("Aa")
"""Letters of a leg that works; 'a' is not in sync yet. Of a striped one 'D': an I/O error ever."""
_PARITY_LEGS = {"raid4": 1, "raid5": 1, "raid6": 2}


@dataclass(frozen=True, slots=True)
class AreaUsage:
    """How full an area is: data, metadata, cow (of a snapshot). Unit: that of the target."""

    area: str
    used: int
    total: int

    @property
    def ratio(self) -> float:
        """Used share."""
        return self.used / self.total


@dataclass(frozen=True, slots=True)
class Leg:
    """A part of a RAID set, mirror or stripe set.

    `position` counts from 0, or is JOURNAL or LOG. `state` is one letter: A, a, D, S, R, F, U, '-'
    (none was given). `device` is 'major:minor', '' where the target does not name it (raid).
    """

    position: str
    state: str
    device: str = ""


@dataclass(frozen=True, slots=True)
class PathState:
    """A path of a multipath map; `failures` counts how often it was taken out of use."""

    device: str
    """Its number, '8:16'."""
    working: bool
    failures: int


@dataclass(frozen=True, slots=True)
class PathGroup:
    """Paths of equal priority. `state`: A in use, E enabled, D bypassed by the administrator."""

    state: str
    paths: tuple[PathState, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetStatus:
    """The status of one target of a device; most devices have one.

    Empty or None: this target has no such field. `unparsed`: why the line is not understood; then
    nothing but `name` and `target` is known, and the device counts as neither healthy nor ill.
    """

    name: str
    """Name in '/dev/mapper'; any characters, as the program printed it."""
    target: str
    """'thin-pool', 'thin', 'snapshot', 'raid', 'mirror', 'striped', 'multipath', 'cache' ..."""
    device: str = ""
    """Kernel name, 'dm-4'; '' not known."""
    start_sectors: int = 0
    sectors: int = 0
    states: tuple[str, ...] = ()
    """Words: 'rw', 'ro', 'out_of_data_space', 'needs_check', one of FAILURES; of vdo its mode and
    'recovering'; of verity 'V' or 'C'; of writecache 'error'."""
    usages: tuple[AreaUsage, ...] = ()
    is_queued_when_full: bool | None = None
    """Thin pool: programs wait when it is full (queue_if_no_space); False: they get errors."""
    legs: tuple[Leg, ...] = ()
    raid_type: str = ""
    """'raid1', 'raid5_ls', 'raid10' ..."""
    action: str = ""
    """'idle', 'resync', 'recover', 'check', 'repair', 'reshape', 'frozen'."""
    done_ratio: float | None = None
    """Share of a RAID set or mirror that is in sync, or that the action has done."""
    mismatches: int | None = None
    groups: tuple[PathGroup, ...] = ()
    is_queued_without_path: bool | None = None
    """Multipath: requests wait while no path works; only in 'dmsetup table'. None: not known."""
    mapped_sectors: int | None = None
    """Thin volume: space that it uses in its pool."""
    pool: str = ""
    """Thin volume: the name of its pool; '' not known."""
    unparsed: str = ""

    @property
    def failed_legs(self) -> tuple[Leg, ...]:
        """Return the legs that do not work, without a journal or log."""
        legs = (leg for leg in self.legs if leg.position not in {JOURNAL, LOG})
        return tuple(leg for leg in legs if leg.state not in WORKING)

    @property
    def is_failed(self) -> bool | None:
        """Whether more legs failed than a RAID set or mirror can lose; None: not known.

        Source: dm-raid.c, validate_raid_redundancy. With two copies, which is LVM's only kind of
        raid10, two legs hold the same data: each pair, with 'far' and 'offset' any neighbours.
        """
        legs = [leg for leg in self.legs if leg.position not in {JOURNAL, LOG}]
        failed = [leg.state not in WORKING for leg in legs]
        level, _, layout = self.raid_type.partition("_")
        if self.target == "mirror" or level == "raid1":
            return all(failed)
        if level == "raid10":
            is_paired = len(failed) % 2 == 0 and layout not in {"far", "offset"}
            first = range(0, len(failed), 2 if is_paired else 1)
            return any(failed[at] and failed[(at + 1) % len(failed)] for at in first)
        tolerated = {"raid0": 0, "raid4": 1, "raid5": 1, "raid6": 2}.get(level)
        return None if tolerated is None else sum(failed) > tolerated

    @property
    def paths(self) -> tuple[PathState, ...]:
        """Return the paths of all groups of a multipath map."""
        return tuple(path for group in self.groups for path in group.paths)


def redundancy_groups(status: TargetStatus) -> tuple[RedundancyGroup, ...]:
    """Return the legs of a RAID volume or mirror as one group; none: its level is not known.

    Source: admin-guide/device-mapper/dm-raid.rst, health characters: 'A' is in sync; 'a' is not
    yet, 'D' failed, '-' is not there.
    """
    legs = [leg.state for leg in status.legs if leg.position.isdecimal()]
    if status.unparsed or not legs or status.target not in {"raid", "mirror"}:
        return ()
    # While a set is synchronized for the first time all legs have 'a'; as of md, none is missing.
    in_sync = WORKING if status.action == "resync" else {"A"}
    members, working = len(legs), sum(leg in in_sync for leg in legs)
    level = "raid1" if status.target == "mirror" else status.raid_type.partition("_")[0]
    if level == "raid10":  # two copies, and which devices hold the same is not shown
        return (RedundancyGroup("", 2, 1, max(2 - (members - working), 0)),)
    needed = 1 if level == "raid1" else members - _PARITY_LEGS.get(level, members)
    return (RedundancyGroup("", members, needed, working),) if needed > 0 else ()


TARGETS = (
    *("linear", "striped", "error", "zero", "crypt", "delay", "flakey", "verity", "integrity"),
    *("snapshot", "snapshot-origin", "snapshot-merge", "mirror", "raid", "thin", "thin-pool"),
    *("cache", "writecache", "era", "clone", "multipath", "vdo", "zoned", "unstriped", "switch"),
)
"""Targets of device-mapper. Source: kernel, admin-guide/device-mapper."""
_LINE = lazy_pattern(
    # The longest name: a name may contain ': ', no status does. One device has none.
    rf"(?:(?P<name>.{{1,200}}): )?(?P<start>\d{{1,20}}) (?P<length>\d{{1,20}})"
    rf" (?P<target>{'|'.join(sorted(TARGETS, key=len, reverse=True))})(?: (?P<rest>.*))?",
    re.ASCII,
)
_NUMBER = lazy_pattern(r"\d{1,20}", re.ASCII)
_DEVICE = lazy_pattern(r"\d{1,10}:\d{1,10}", re.ASCII)


def split_line(line: str) -> tuple[str, int, int, str, str] | None:
    """Return name, start, length, target and the rest of a line of status or table, or None.

    The name is '' in the output for one device. Source: LVM2, libdm/dm-tools/dmsetup.c, _status.
    """
    row = _LINE.fullmatch(line.strip())
    if row is None:
        return None
    name, rest = row["name"] or "", row["rest"] or ""
    return name, int(row["start"]), int(row["length"]), row["target"], rest


def parse_line(line: str) -> TargetStatus | None:
    """Parse '<name>: <start> <length> <target> <status>'; None: no such line."""
    row = split_line(line)
    if row is None:
        return None
    name, start, sectors, target, status = row
    try:
        return _parsed(name, target, start, sectors, status)
    except (ValueError, StopIteration) as error:
        expected = str(error) or "expected another field"
        reason = f"'dmsetup status' of {target}: {expected}, got {status[:120]!r}"
        return TargetStatus(name=name, target=target, unparsed=reason)


def _parsed(name: str, target: str, start: int, sectors: int, status: str) -> TargetStatus:
    """Return the status of a target. Errors: ValueError, StopIteration at the end of the line."""
    fields: dict[str, object] = {}
    failure = status.strip()
    if failure in _FAILURES_OF.get(target, ()):
        fields["states"] = (failure,)
    elif target in _GRAMMARS:
        fields |= _GRAMMARS[target](iter(status.split()))
    return TargetStatus(  # the fields are those of the grammars below
        name=name,
        target=target,
        start_sectors=start,
        sectors=sectors,
        **fields,  # type: ignore[arg-type]
    )


def _integer(words: Iterator[str]) -> int:
    word = next(words)
    if _NUMBER.fullmatch(word) is None:
        raise ValueError(f"expected a number, not {word[:40]!r}")
    return int(word)


def _usage(area: str, words: Iterator[str]) -> AreaUsage:
    word = next(words)
    used, _, total = word.partition("/")
    if not (_NUMBER.fullmatch(used) and _NUMBER.fullmatch(total) and int(total)):
        raise ValueError(f"expected '<used>/<total>' of {area}, not {word[:40]!r}")
    return AreaUsage(area, int(used), int(total))


def _one_of(words: Iterator[str], *allowed: str) -> str:
    word = next(words)
    if word not in allowed:
        raise ValueError(f"expected one of {', '.join(allowed)}, not {word[:40]!r}")
    return word


def _counted(words: Iterator[str]) -> list[str]:
    """Return as many words as the first one counts."""
    count = _integer(words)
    if count > _MAX_ARGUMENTS:
        raise ValueError(f"expected at most {_MAX_ARGUMENTS} arguments")
    return [next(words) for _ in range(count)]


_MAX_ARGUMENTS = 1000
_MODES = ("rw", "ro")


def _checked(mode: str, words: Iterator[str]) -> tuple[str, ...]:
    """Return a mode with 'needs_check', which the next word is or not."""
    return (mode, "needs_check") if _one_of(words, "-", "needs_check") != "-" else (mode,)


def _thin_pool(words: Iterator[str]) -> dict[str, object]:
    """'<transaction> <metadata> <data> <held root> <mode> <discards> <when full> <check> ...'."""
    _integer(words)
    usages = _usage("metadata", words), _usage("data", words)
    if (held := next(words)) != "-" and _NUMBER.fullmatch(held) is None:
        raise ValueError(f"expected the held root or '-', not {held[:40]!r}")
    mode = _one_of(words, *_MODES, "out_of_data_space")
    _one_of(words, "ignore_discard", "discard_passdown", "no_discard_passdown")
    when_full = _one_of(words, "error_if_no_space", "queue_if_no_space")
    return {
        "usages": usages,
        "states": _checked(mode, words),
        "is_queued_when_full": when_full == "queue_if_no_space",
    }


def _thin(words: Iterator[str]) -> dict[str, object]:
    """'<mapped sectors> <highest>'; '-' while its pool has not loaded it."""
    first = next(words)
    if first == "-":
        return {}
    if _NUMBER.fullmatch(first) is None:
        raise ValueError(f"expected the mapped sectors, not {first[:40]!r}")
    if (highest := next(words)) != "-" and _NUMBER.fullmatch(highest) is None:
        raise ValueError(f"expected the highest mapped sector, not {highest[:40]!r}")
    return {"mapped_sectors": int(first)}


def _snapshot(words: Iterator[str]) -> dict[str, object]:
    """'<used>/<total> <metadata>'."""
    usage = _usage("cow", words)
    _integer(words)
    return {"usages": (usage,)}


def _letters(words: Iterator[str], devices: list[str], allowed: str) -> tuple[Leg, ...]:
    """Return the legs by the word that has a letter for each of them."""
    word = next(words)
    if len(word) != len(devices) or not set(word) <= set(allowed):
        raise ValueError(f"expected {len(devices)} letters of {allowed}, not {word[:40]!r}")
    pairs = zip(word, devices, strict=True)
    return tuple(Leg(str(number), *pair) for number, pair in enumerate(pairs))


def _raid(words: Iterator[str]) -> dict[str, object]:
    """'<type> <devices> <letters> <done>/<total> <action> <mismatches> [<offset> [<journal>]]'."""
    raid_type, count = next(words), _integer(words)
    if not raid_type.startswith("raid") or not 0 < count <= _MAX_ARGUMENTS:
        raise ValueError(f"expected a type of RAID and its devices, not {raid_type[:40]!r}")
    legs = _letters(words, [""] * count, "AaD-")
    done = _usage("sync", words)
    actions = ("idle", "frozen", "resync", "recover", "check", "repair", "reshape", "undef")
    action, mismatches = _one_of(words, *actions), _integer(words)
    next(words, "")
    journal = next(words, "-")
    if journal not in {"A", "a", "D", "-"}:
        raise ValueError(f"expected A, a, D or - of the journal, not {journal[:40]!r}")
    return {
        "raid_type": raid_type,
        "legs": legs if journal == "-" else (*legs, Leg(JOURNAL, journal)),
        "action": action,
        "done_ratio": done.ratio,
        "mismatches": mismatches,
    }


def _mirror(words: Iterator[str]) -> dict[str, object]:
    """'<devices> <device>... <synced>/<total> 1 <letters> <log arguments> <log>...'."""
    devices = _counted(words)
    done = _usage("sync", words)
    _one_of(words, "1")
    legs = _letters(words, devices, "ADSRFU")
    log = _counted(words)
    if len(log) == 3 and log[2] in {"A", "D", "F"}:  # 'disk 253:1 A'
        legs = (*legs, Leg(LOG, log[2], log[1]))
    return {"legs": legs, "done_ratio": done.ratio}


def _striped(words: Iterator[str]) -> dict[str, object]:
    """'<devices> <device>... 1 <letters>'; 'D' since an I/O error, until the table is reloaded."""
    devices = _counted(words)
    _one_of(words, "1")
    return {"legs": _letters(words, devices, "AD")}


def _multipath(words: Iterator[str]) -> dict[str, object]:
    """'2 <queue> <pg_init> 0 <groups> <next> {<state> <arguments> <paths> <args> {path}}'."""
    _counted(words)
    _counted(words)
    count, _ = _integer(words), _integer(words)
    if count > _MAX_ARGUMENTS:
        raise ValueError(f"expected at most {_MAX_ARGUMENTS} groups")
    return {"groups": tuple([_path_group(words) for _ in range(count)])}


def _path_group(words: Iterator[str]) -> PathGroup:
    state = _one_of(words, "A", "D", "E")
    _counted(words)
    count, arguments = _integer(words), _integer(words)
    if max(count, arguments) > _MAX_ARGUMENTS:
        raise ValueError(f"expected at most {_MAX_ARGUMENTS} paths")
    paths = []
    for _ in range(count):
        device = next(words)
        if _DEVICE.fullmatch(device) is None:
            raise ValueError(f"expected the number of a path, not {device[:40]!r}")
        is_active = _one_of(words, "A", "F") == "A"
        paths.append(PathState(device, is_active, _integer(words)))
        for _ in range(arguments):
            next(words)
    return PathGroup(state, tuple(paths))


def _cache(words: Iterator[str]) -> dict[str, object]:
    """'<size> <metadata> <size> <cached> 7 counts, features, arguments, policy, <mode> <check>'."""
    _integer(words)
    metadata = _usage("metadata", words)
    _integer(words)
    _usage("cache", words)
    for _ in range(7):
        _integer(words)
    _counted(words)
    _counted(words)
    next(words)
    _counted(words)
    return {"usages": (metadata,), "states": _checked(_one_of(words, *_MODES), words)}


def _clone(words: Iterator[str]) -> dict[str, object]:
    """'<size> <metadata> <size> <hydrated> <hydrating>, features, arguments, <mode>'."""
    _integer(words)
    metadata = _usage("metadata", words)
    _integer(words)
    hydrated = _usage("hydrated", words)
    _integer(words)
    _counted(words)
    _counted(words)
    mode = _one_of(words, *_MODES, "Fail")
    return {"usages": (metadata,), "states": (mode,), "done_ratio": hydrated.ratio}


def _writecache(words: Iterator[str]) -> dict[str, object]:
    """'<error> <blocks> <free> <being written back> ...'; the error is 0 or a negative errno."""
    error = next(words)
    if _NUMBER.fullmatch(error.removeprefix("-")) is None:
        raise ValueError(f"expected an error number, not {error[:40]!r}")
    for _ in range(3):
        _integer(words)
    return {"states": ("error",) if int(error) else ()}


def _integrity(words: Iterator[str]) -> dict[str, object]:
    """'<mismatches> <sectors> <recalculated>|-'."""
    mismatches = _integer(words)
    _integer(words)
    return {"mismatches": mismatches}


def _verity(words: Iterator[str]) -> dict[str, object]:
    """'V' or 'C', since a block did not match; in newer kernels the corrected blocks follow."""
    return {"states": (_one_of(words, "V", "C"),)}


def _vdo(words: Iterator[str]) -> dict[str, object]:
    """'<device> <mode> recovering|- <index> <compression> <used> <total>'; blocks of 4 KiB."""
    next(words)
    mode = _one_of(words, "normal", "recovering", "read-only")
    recovering = _one_of(words, "recovering", "-")
    next(words)
    next(words)
    used, total = _integer(words), _integer(words)
    if not total:
        raise ValueError("expected the physical blocks, not 0")
    states = (mode,) if recovering in {"-", mode} else (mode, recovering)
    return {"usages": (AreaUsage("data", used, total),), "states": states}


_GRAMMARS: Mapping[str, Callable[[Iterator[str]], dict[str, object]]] = {
    "thin-pool": _thin_pool,
    "thin": _thin,
    "snapshot": _snapshot,
    "snapshot-merge": _snapshot,
    "raid": _raid,
    "mirror": _mirror,
    "striped": _striped,
    "multipath": _multipath,
    "cache": _cache,
    "clone": _clone,
    "writecache": _writecache,
    "integrity": _integrity,
    "verity": _verity,
    "vdo": _vdo,
}
_SNAPSHOT_FAILURES = ("Invalid", "Overflow", MERGE_FAILED)
_FAILURES_OF: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("thin-pool", "thin", "cache", "clone", "era"), ("Fail", "Error")),
    **dict.fromkeys(("snapshot", "snapshot-merge"), _SNAPSHOT_FAILURES),
}
