"""Software RAID arrays, from '/proc/mdstat' and '/sys/block/md*/md'."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from iowarden.collectors.block.block_devices import parse_number
from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import (
    KIB,
    SECTOR_BYTES,
    AbsentError,
    Family,
    ParseError,
    Sample,
)
from iowarden.collectors.source import Source
from iowarden.collectors.sysfs import device_name

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Mapping

    from iowarden.collectors.machine import Machine

PATH = "/proc/mdstat"
DIRECTORY = "/sys/block"


SYNC_ACTIONS = frozenset({"check", "recover", "repair", "reshape", "resync"})
"""Values of sync_action that read or write all of an array. Source: kernel, admin-guide/md.rst."""


@dataclass(frozen=True, slots=True)
class ArrayMember:
    """A member of an array. None: not reported.

    Source: kernel, admin-guide/md.rst, 'dev-XXX'.
    """

    device: str
    """'sdb1', as in dev-sdb1."""
    slot: int | None
    """None: no slot, a spare or faulty."""
    states: tuple[str, ...]
    """'in_sync', 'faulty', 'spare', 'want_replacement', 'write_mostly' ..."""
    errors_total: int | None = None
    """Read errors that were corrected."""
    bad_blocks: int | None = None
    """Number of listed ranges; the kernel prints a page at most."""
    unacknowledged_bad_blocks: int | None = None


@dataclass(frozen=True, slots=True)
class MdstatArray:
    """An array in '/proc/mdstat'. None: not printed for its level or state.

    Source: kernel, drivers/md/md.c, md_seq_show. Units: a block there is 1024 bytes.
    """

    name: str
    activity: str
    """'active', 'inactive', 'broken'."""
    access: str
    """'read-only', 'auto-read-only' or ''."""
    level: str | None
    metadata: str
    """In sysfs's form: '1.2', '0.90', 'none', 'external:imsm', 'external:/md127/0'."""
    members: tuple[ArrayMember, ...]
    size_blocks: int | None
    disks_wanted: int | None
    disks_working: int | None
    sync_action: str | None
    """In sysfs's form, except that a repair is 'resync'; None: no synchronization."""
    sync_done_blocks: int | None
    """None: no synchronization, or it waits ('DELAYED', 'PENDING', 'REMOTE')."""
    sync_total_blocks: int | None
    sync_speed_bytes_per_second: float | None
    sync_wait: str = ""
    """'DELAYED', 'PENDING', 'REMOTE' or ''; see `MdArray`."""
    layout: int | None = None
    """Of a raid10, in sysfs's form."""
    empty_slots: int = 0
    """Slots of a NAS's own array that no disk ever had; they are part of `disks_wanted`."""


@dataclass(frozen=True, slots=True)
class MdArray:
    """An array. None: not reported (an inactive array, a linear one).

    Source: kernel, admin-guide/md.rst; '/proc/mdstat' for what sysfs lacks on old kernels.
    """

    name: str
    level: str | None
    state: str | None
    """array_state: 'clean', 'active', 'active-idle', 'write-pending', 'readonly' ...; 'broken' also
    if only '/proc/mdstat' has it.
    """
    raid_disks: int | None
    """Without the empty slots of a NAS's own array."""
    degraded: int | None
    """Missing members; those of empty slots never existed."""
    sync_action: str | None
    """'idle', 'resync', 'recover', 'check', 'repair', 'reshape', 'frozen'."""
    sync_done_ratio: float | None
    """None without a running synchronization, and while it waits."""
    sync_speed_bytes_per_second: float | None
    mismatches_bytes: int | None
    """mismatch_cnt, which the kernel counts in sectors, as bytes."""
    chunk_bytes: int | None
    size_bytes: int | None
    members: tuple[ArrayMember, ...]
    mdstat: MdstatArray | None = field(default=None, repr=False)
    """None: '/proc/mdstat' does not list it."""
    in_sysfs: bool = False
    last_sync_action: str | None = None
    """The action that found mismatches_bytes: 'none', 'check', 'repair', 'resync' ..."""
    metadata: str | None = None
    """metadata_version: '1.2', '0.90', 'none', 'external:imsm' of a container, 'external:/md127/0'
    of an array in one ('external:-md127/0' while mdmon must not touch it)."""
    sync_wait: str = ""
    """Why a synchronization does not run: 'DELAYED', for an array on the same disks; 'PENDING',
    until the array is written to; 'REMOTE', it runs on another host of a cluster. '': it does not
    wait. '/proc/mdstat' calls any that waits a 'resync', also a check and a recovery.
    """
    layout: int | None = None
    """Of a raid10: its near copies, far copies * 256, and flags; see block_devices.copies."""

    @property
    def is_synchronizing(self) -> bool:
        """Whether all of it is read or written now: one that waits for another array is not."""
        return self.sync_action in SYNC_ACTIONS and not self.sync_wait

    @property
    def is_container(self) -> bool:
        """Whether it only contains the disks of its subarrays (IMSM, DDF): it is never active.

        Source: mdadm 4.6, mdadm.h, is_subarray; sysfs.c, sysfs_set_array: a container has no level.
        """
        kind = (self.metadata or "").removeprefix("external:")
        named = kind != self.metadata and bool(kind) and kind[0] not in "/-"
        return named and self.level in {None, "container"}


_STATED = "1; in a label the kernel's state of "
FAMILIES = (
    Family("iowarden_md_info", "gauge", "1; the level of an array in a label."),
    Family("iowarden_md_state", "gauge", _STATED + "the array (array_state)."),
    Family("iowarden_md_sync_action", "gauge", _STATED + "its synchronization (sync_action)."),
    Family("iowarden_md_raid_disks", "gauge", "Members that a complete array has."),
    Family("iowarden_md_degraded", "gauge", "Missing members of an array."),
    Family("iowarden_md_sync_completed_ratio", "gauge", "Progress of the current synchronization."),
    Family(
        "iowarden_md_sync_waiting",
        "gauge",
        "1; in a label why a synchronization waits: DELAYED, for an array on the same disks;"
        " PENDING, until the array is written to; REMOTE, for another host.",
    ),
    Family("iowarden_md_sync_speed_bytes_per_second", "gauge", "Speed of the synchronization."),
    Family("iowarden_md_mismatches_bytes", "gauge", "Mismatches found by the last check."),
    Family("iowarden_md_chunk_bytes", "gauge", "Chunk of an array."),
    Family("iowarden_md_size_bytes", "gauge", "Size of an array."),
    Family("iowarden_md_member_state", "gauge", _STATED + "a member, one series for each state."),
    Family("iowarden_md_member_slot", "gauge", "Slot of a member that has one."),
    Family("iowarden_md_member_errors_total", "counter", "Read errors of a member, corrected."),
    Family("iowarden_md_member_bad_blocks", "gauge", "Bad block ranges of a member."),
    Family(
        "iowarden_md_member_unacknowledged_bad_blocks",
        "gauge",
        "Bad block ranges of a member that are not yet recorded on disk.",
    ),
)

_BEGIN = "Personalities :"
_END = "unused devices:"
_HEADING = lazy_pattern(rf"{_BEGIN}|read_ahead |Event:|{_END}")
_ARRAY = lazy_pattern(r"(\S+) : (active|inactive|broken)(?: \((read-only|auto-read-only)\))?( .*)?")
_MEMBER = lazy_pattern(r"(\S+)\[(\d{1,9})\]((?:\([EFJRSW]\))*)")
_BLOCKS = lazy_pattern(r"(?<=\s)(\d{1,20}) blocks\b")
_SUPER = lazy_pattern(r"\bsuper (external:\S+|non-persistent|\d{1,9}\.\d{1,9})(?!\S)")
_LEVEL = lazy_pattern(r"\blevel (\d),")
_WORKING = lazy_pattern(r"\[(\d{1,9})/(\d{1,9})\] \[([^\]\s]+)\]")
_SYNC = lazy_pattern(
    r"\b(resync|recover|recovery|reshape|check|repair)\s*="
    r"\s*(?:[\d.]+%\s*\((\d{1,20})/(\d{1,20})\)(?:.*\bspeed=(\d{1,12})K/sec)?"
    r"|(DELAYED|PENDING|REMOTE)\b)"
)
_SYNC_WORD = lazy_pattern(
    r"\b(?:resync|recover|recovery|reshape|check|repair)\b|=\s*(?:[\d.]+%|DELAYED|PENDING|REMOTE)"
)
"""Pattern of a synchronization line, for any action."""
_UNCOUNTED = frozenset({"faulty", "linear", "raid0"})
"""Levels without counts: without redundancy no member is missing."""
_ACTIONS = {"recovery": "recover"}
MIN_NAS_SLOTS = 8
"""Slots of a RAID 1 from which on it is a NAS's own array: no administrator mirrors so often.

Synology and QNAP make their system's arrays with a slot for each disk that the largest model may
have, the last of them empty: [16/4] and [24/3] in public reports.
"""
_FEW_DISKS = 2
"""With one disk left it may be a mirror that lost all others."""
_FLAGS = {
    "E": "disk_error",  # of Synology's kernels: it had errors, and the array needs it
    "F": "faulty",
    "J": "journal",
    "R": "replacement",
    "S": "spare",
    "W": "write_mostly",
}
_ACCESS = {"read-only": "readonly", "auto-read-only": "read-auto", "": "active"}
_COPIES = lazy_pattern(r"\b(\d{1,3}) (near|far|offset)-copies\b")
"""Source: kernel, raid10.c, raid10_status: a number is printed if it is above 1; near copies are
those on neighbouring disks."""
_COMPLETED = lazy_pattern(r"(\d{1,20}) / (\d{1,20})")


def parse_mdstat(text: str) -> dict[str, MdstatArray]:
    """Parse the arrays of '/proc/mdstat' by name.

    Unknown lines of an array (bitmap, consistency policy) are ignored. Errors: ParseError, also if
    the text is truncated, because the missing part may be the failed array, or if an array's
    counts, mask and members contradict each other.
    """
    if "\0" in text:
        raise ParseError(f"'{PATH}': expected text, got a NUL: the file is damaged")
    # An array's first line begins at the margin, its other lines are indented.
    sections: dict[str, tuple[re.Match[str], list[str]]] = {}
    below: list[str] | None = None
    headings: list[str] = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if not line.strip():
            continue
        if heading := _HEADING.match(line):
            headings.append(heading[0])
        elif line[0] in " \t":
            if below is None:
                raise ParseError(
                    f"'{PATH}' line {number}: expected an array before it, got {line[:120]!r}"
                )
            below.append(line)
        else:
            found = _ARRAY.fullmatch(line.rstrip())
            if found is None or found[1] in sections:
                known = "" if found is None else ", once"
                raise ParseError(
                    f"'{PATH}' line {number}: expected '<array> : <state> ...'{known}, got"
                    f" {line[:120]!r}"
                )
            below = []
            sections[found[1]] = found, below
    for expected, end in ((_BEGIN, headings[:1]), (_END, headings[-1:])):
        if end != [expected]:
            raise ParseError(
                f"'{PATH}': expected '{expected}', got a text without it, or with it elsewhere: it"
                f" is truncated, or it is another text: {text[:80]!r}"
            )
    return {name: _mdstat_array(*section) for name, section in sections.items()}


def _mdstat_array(found: re.Match[str], lines: list[str]) -> MdstatArray:
    # For an array without disks, the content of the next line is in the same line.
    words, super_word, rest = (found[4] or "").partition(" super ")
    below = "\n".join((super_word + rest, *lines))
    level, *names = [None, *words.split()] if found[2] == "inactive" else words.split() or [None]
    members = [(word, _MEMBER.fullmatch(word)) for word in names if word is not None]
    blocks, working, sync = _BLOCKS.search(below), _WORKING.search(below), _SYNC.search(below)
    wrong = _contradiction(level, members, below, found[2])
    if wrong:
        raise ParseError(f"'{PATH}': {found[1]}: {wrong}")
    done, total, speed, wait = sync.groups()[1:] if sync is not None else (None,) * 4
    metadata = _SUPER.search(below)
    kind = "0.90" if metadata is None else metadata[1]
    return MdstatArray(
        name=found[1],
        activity=found[2],
        access=found[3] or "",
        level=level,
        metadata="none" if kind == "non-persistent" else kind,
        members=tuple(
            ArrayMember(m[1], None, tuple(_FLAGS[f] for f in m[3][1::3])) for _, m in members if m
        ),
        size_blocks=int(blocks[1]) if blocks else None,
        disks_wanted=int(working[1]) if working else None,
        disks_working=int(working[2]) if working else None,
        sync_action=_ACTIONS.get(sync[1], sync[1]) if sync else None,
        sync_done_blocks=int(done) if done else None,
        sync_total_blocks=int(total) if total else None,
        sync_speed_bytes_per_second=float(int(speed) * KIB) if speed else None,
        sync_wait=wait or "",
        layout=_layout(below) if level == "raid10" else None,
        empty_slots=_empty_slots(working[3]) if level == "raid1" and working else 0,
    )


def _empty_slots(mask: str) -> int:
    used = len(mask.rstrip("_"))
    return len(mask) - used if len(mask) >= MIN_NAS_SLOTS and used >= _FEW_DISKS else 0


def _layout(below: str) -> int:
    """Return the layout of a raid10 from its second line; without a count there is one copy."""
    copies = {kind: int(number) for number, kind in _COPIES.findall(below)}
    return copies.get("near", 1) | copies.get("far", copies.get("offset", 1)) << 8


def _contradiction(
    level: str | None,
    members: list[tuple[str, re.Match[str] | None]],
    below: str,
    activity: str,
) -> str:
    """Return the contradiction in an array's text, or ''.

    Source: kernel 6.1 and 6.12, md_seq_show, status_resync and each level's status.
    """
    for word, member in members:
        if member is None:
            return f"expected '<member>[<number>]', got {word[:80]!r}"
    for what in (1, 2):
        each = [member[what] for _, member in members if member]
        if len(set(each)) < len(each):
            return f"expected each member once, got {', '.join(each)[:120]}"
    shown = " ".join(below.split())[:120]
    if members and not _BLOCKS.search(below):
        return f"expected '<number> blocks' below it, got {shown!r}"
    if wrong := _twice(below) or _missynced(below, shown):
        return wrong
    working = _WORKING.search(below)
    if activity == "inactive":
        return (
            "" if working is None else f"expected no counts of an inactive array, got {working[0]}"
        )
    if level is None or _MEMBER.fullmatch(level):
        return f"expected the level of an active array, got {level!r}"
    if (said := _LEVEL.search(below)) and level != f"raid{said[1]}":
        return f"expected '{level}' and its level to agree, got '{said[0]}'"
    if working is None:
        if level in _UNCOUNTED:
            return ""
        return f"expected '[<disks>/<working>] [<mask>]' below it, got {shown!r}"
    sync = _SYNC.search(below)
    reshaping = sync is not None and (sync[1] == "reshape" or sync[2] is None)
    return _miscounted(working, [m[3] for _, m in members if m], reshaping=reshaping)


def _twice(below: str) -> str:
    """Return what occurs more than once in an array's text, or ''."""
    for pattern in (_BLOCKS, _WORKING, _SYNC):
        if len(said := [each[0].strip() for each in pattern.finditer(below)]) > 1:
            return f"expected it once, got {' and '.join(said)[:120]!r}"
    return ""


def _missynced(below: str, shown: str) -> str:
    """Return the contradiction in a synchronization line, or ''."""
    sync = _SYNC.search(below)
    if sync is None and _SYNC_WORD.search(below.partition("bitmap:")[0]):
        return f"expected '<action> = <done>% (<done>/<total>)', got {shown!r}"
    if sync is not None and sync[2] and int(sync[2]) > int(sync[3]):
        return f"expected at most {sync[3]} blocks done, got {sync[2]}"
    return ""


def _miscounted(working: re.Match[str], flags: list[str], *, reshaping: bool) -> str:
    """Return how '[<disks>/<working>] [<mask>]' and the members' flags contradict, or ''.

    A replacement that has taken over counts as working while its slot is still shown as '_'
    (raid1.c, raid1_spare_active). During a reshape, also a waiting one, disks are counted by the
    layout before and after (raid5.c, raid5_calc_degraded), and more may be members than at the end.
    """
    disks, up = int(working[1]), int(working[2])
    marked = sum("E" in each for each in flags)  # of a NAS: each is there
    mask = working[3].replace("E", "U", marked)
    in_place = sum(not set("FJRS") & set(each) for each in flags)
    if not set(mask) <= set("U_") or len(mask) != disks:
        return f"expected {disks} of 'U' and '_' behind '[{working[1]}/{working[2]}]', got '{mask}'"
    shown = mask.count("U")
    replaced = sum("R" in each and "F" not in each for each in flags)
    if up > disks or not (shown <= up <= shown + replaced or reshaping):
        return f"expected counts and mask to agree, got '{working[0]}'"
    if in_place < shown or (in_place > disks and not reshaping):
        return f"expected members for '{working[0]}', got {in_place} that are no spare and work"
    return ""


def from_mdstat(stat: MdstatArray) -> MdArray:
    """Return an array that only '/proc/mdstat' has."""
    active = stat.activity == "active"
    missing = wanted = None
    if stat.disks_wanted is not None:
        wanted = stat.disks_wanted - stat.empty_slots
    if wanted is not None and stat.disks_working is not None:
        missing = wanted - stat.disks_working
    ratio = None
    if stat.sync_done_blocks is not None and stat.sync_total_blocks:
        ratio = stat.sync_done_blocks / stat.sync_total_blocks
    return MdArray(
        name=stat.name,
        level=stat.level,
        state=_ACCESS.get(stat.access, stat.access) if active else stat.activity,
        raid_disks=wanted,
        degraded=missing,
        # Without redundancy there is no synchronization: no action, not even 'idle'.
        sync_action=stat.sync_action or ("idle" if missing is not None else None),
        sync_done_ratio=ratio,
        sync_speed_bytes_per_second=stat.sync_speed_bytes_per_second,
        mismatches_bytes=None,
        chunk_bytes=None,
        size_bytes=None if stat.size_blocks is None else stat.size_blocks * KIB,
        members=stat.members,
        mdstat=stat,
        metadata=stat.metadata,
        sync_wait=stat.sync_wait,
        layout=stat.layout,
    )


def parse_completed(text: str) -> float | None:
    """Parse sync_completed ('none', 'delayed', '<sectors> / <sectors>') as a ratio."""
    found = _COMPLETED.match(text)
    return int(found[1]) / int(found[2]) if found and int(found[2]) else None


def read_md(root: Machine) -> dict[str, MdArray]:
    """Read '/proc/mdstat' and sysfs of every array; sysfs takes precedence: it has more data.

    An attribute that cannot be read is None. Limits: may hang on a faulty array.
    Errors: AbsentError (there is no array and no driver), ReadError, ParseError.
    """
    names = [name for name in root.try_names(DIRECTORY) or () if name.startswith("md")]
    try:
        stats = parse_mdstat(root.read(PATH))
    except AbsentError:
        if not names:
            raise
        stats = {}
    except ParseError:
        # It is printed without a lock on the counts. If sysfs has every array it is not needed.
        if not names or not all(_text(root, f"{DIRECTORY}/{n}/md/array_state") for n in names):
            raise
        stats = {}
    arrays = {name: from_mdstat(stat) for name, stat in stats.items()}
    for name in names:
        entries = root.try_names(f"{DIRECTORY}/{name}/md")
        if entries:
            arrays[name] = _from_sysfs(root, name, entries, arrays.get(name))
    return arrays


def _from_sysfs(root: Machine, name: str, entries: list[str], known: MdArray | None) -> MdArray:
    path = f"{DIRECTORY}/{name}/md/"

    def text(attribute: str) -> str | None:
        return _text(root, path + attribute) if attribute in entries else None

    def number(attribute: str, unit: int = 1) -> int | None:
        value = parse_number(text(attribute) or "")
        return None if value is None else value * unit

    empty = known.mdstat.empty_slots if known is not None and known.mdstat is not None else 0

    def slots(attribute: str) -> int | None:
        value = number(attribute)
        return None if value is None else max(0, value - empty)

    if known is None:
        known = MdArray(name, *(None,) * 10, ())
    action = text("sync_action")
    completed, speed = text("sync_completed"), number("sync_speed", KIB)
    size = parse_number(_text(root, f"{DIRECTORY}/{name}/size") or "")
    members = tuple(
        _member(root, path + entry, known.members) for entry in entries if entry.startswith("dev-")
    )
    return MdArray(
        name=name,
        level=text("level") or known.level,
        # array_state of a broken array that is not clean is 'active' (md.c, array_state_show).
        state=known.state if known.state == "broken" else text("array_state") or known.state,
        raid_disks=_first(slots("raid_disks"), known.raid_disks),
        degraded=_first(slots("degraded"), known.degraded),
        sync_action=action or known.sync_action,
        sync_done_ratio=parse_completed(completed) if completed else known.sync_done_ratio,
        sync_speed_bytes_per_second=speed if action else known.sync_speed_bytes_per_second,
        mismatches_bytes=number("mismatch_cnt", SECTOR_BYTES),
        chunk_bytes=number("chunk_size"),
        size_bytes=size * SECTOR_BYTES if size else known.size_bytes,
        members=members or known.members,
        mdstat=known.mdstat,
        in_sysfs=True,
        last_sync_action=text("last_sync_action"),
        metadata=text("metadata_version") or known.metadata,
        sync_wait="DELAYED" if completed == "delayed" else known.sync_wait,
        layout=_first(number("layout"), known.layout),
    )


def _member(root: Machine, path: str, known: tuple[ArrayMember, ...]) -> ArrayMember:
    device = device_name(path.rpartition("/dev-")[2])
    before = next((m for m in known if m.device == device), None)
    state, errors = _text(root, path + "/state"), _text(root, path + "/errors")
    words = [word for word in (state or "").split(",") if word]
    # Also for a working member, while its new bad blocks are not yet recorded (state_show).
    if "faulty" in words and {"in_sync", "spare"} & set(words):
        words.remove("faulty")
    if before is not None and _FLAGS["E"] in before.states:
        words.append(_FLAGS["E"])  # '/proc/mdstat' alone has it
    return ArrayMember(
        device=device,
        slot=parse_number(_text(root, path + "/slot") or ""),
        states=tuple(words) if state is not None else before.states if before else (),
        errors_total=None if errors is None else parse_number(errors),
        bad_blocks=_lines(_text(root, path + "/bad_blocks")),
        unacknowledged_bad_blocks=_lines(_text(root, path + "/unacknowledged_bad_blocks")),
    )


def emit(value: Mapping[str, MdArray]) -> list[Sample]:
    """Return the samples of FAMILIES."""
    samples: list[Sample] = []
    for name, array in value.items():
        labels = (("device", name),)
        samples.append(("iowarden_md_info", (("device", name), ("level", array.level or "")), 1))
        if array.state is not None:
            samples.append(("iowarden_md_state", (("device", name), ("state", array.state)), 1))
        if array.sync_action is not None:
            pair = ("action", array.sync_action)
            samples.append(("iowarden_md_sync_action", (pair, ("device", name)), 1))
        if array.sync_wait:
            pair = ("reason", array.sync_wait)
            samples.append(("iowarden_md_sync_waiting", (("device", name), pair), 1))
        samples += [
            ("iowarden_md_" + metric, labels, number)
            for metric, number in (
                ("raid_disks", array.raid_disks),
                ("degraded", array.degraded),
                ("sync_completed_ratio", array.sync_done_ratio),
                ("sync_speed_bytes_per_second", array.sync_speed_bytes_per_second),
                ("mismatches_bytes", array.mismatches_bytes),
                ("chunk_bytes", array.chunk_bytes),
                ("size_bytes", array.size_bytes),
            )
            if number is not None
        ]
        for member in array.members:
            both = (("device", name), ("member", member.device))
            samples += [
                ("iowarden_md_member_state", (*both, ("state", state)), 1)
                for state in dict.fromkeys(member.states)
            ]
            samples += [
                ("iowarden_md_member_" + metric, both, number)
                for metric, number in (
                    ("slot", member.slot),
                    ("errors_total", member.errors_total),
                    ("bad_blocks", member.bad_blocks),
                    ("unacknowledged_bad_blocks", member.unacknowledged_bad_blocks),
                )
                if number is not None
            ]
    return samples


_NODE_STATES = {
    "active": "active",
    "inactive": "inactive",
    "recovering": "recover",
    "resync": "resync",
    "check": "check",
}


def node_samples(value: Mapping[str, MdArray]) -> Iterator[Sample]:
    """Yield node_exporter's node_md_* of 1.12.

    Most are from '/proc/mdstat', raid_disks and degraded from sysfs. For an array that is reshaped
    or broken no state is 1; for one without redundancy degraded is 0.
    """
    for name, array in value.items():
        labels = (("device", name),)
        if array.mdstat is not None:
            yield from _node_mdstat(array.mdstat, labels)
        if array.in_sysfs:
            empty = array.mdstat.empty_slots if array.mdstat is not None else 0
            if array.raid_disks is not None:
                yield "node_md_raid_disks", labels, array.raid_disks + empty
            yield "node_md_degraded", labels, (array.degraded or 0) + empty


def _node_mdstat(stat: MdstatArray, labels: tuple[tuple[str, str]]) -> Iterator[Sample]:
    wanted, working = stat.disks_wanted, stat.disks_working
    if stat.level in {"raid0", "linear"}:
        wanted = working = len(stat.members)
    elif stat.activity == "inactive":
        wanted = working = 0
    flags = [state for member in stat.members for state in member.states]
    now = stat.sync_action or stat.activity
    for state, action in _NODE_STATES.items():
        yield "node_md_state", (*labels, ("state", state)), float(now == action)
    disks = (
        ("active", working),
        ("failed", flags.count("faulty")),
        ("spare", flags.count("spare")),
    )
    for state, number in disks:
        if number is not None:
            yield "node_md_disks", (*labels, ("state", state)), number
    if wanted is not None:
        yield "node_md_disks_required", labels, wanted
    if stat.size_blocks is not None:
        synced = stat.size_blocks if stat.sync_action is None else stat.sync_done_blocks or 0
        yield "node_md_blocks", labels, stat.size_blocks
        yield "node_md_blocks_synced", labels, synced


def _first(value: int | None, otherwise: int | None) -> int | None:
    return otherwise if value is None else value


def _lines(text: str | None) -> int | None:
    return None if text is None else len(text.splitlines())


def _text(root: Machine, path: str) -> str | None:
    text = root.try_read(path)
    return None if text is None else text.strip()


SOURCE: Source[Mapping[str, MdArray]] = Source(
    name="md",
    period_seconds=15,
    period_help="How often software RAID arrays are read.",
    may_hang=True,
    read=read_md,
    families=FAMILIES,
    emit=emit,
    objects=("device",),
    node=node_samples,
    node_prefixes=("node_md_",),
    node_names=frozenset(
        f"node_md_{name}"
        for name in (
            *("state", "disks", "disks_required", "blocks", "blocks_synced"),
            *("raid_disks", "degraded"),
        )
    ),
)
