"""Which file was hit, as an answer: what lies there, or why not known, and what to do. Pure.

Source of the cures: hdparm(8), dd(1), md(4) 'Scrubbing and mismatches', e2fsck(8). An unreadable
sector is replaced by the drive when it is written: every cure writes it, and so destroys what it
may still hold. Of btrfs: btrfs-scrub(8), btrfs-check(8). Units: sectors of 512 bytes, bytes.
"""

from __future__ import annotations

import enum
import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

SECTOR_BYTES = 512
SUPERBLOCK = "superblock"
"""Of btrfs, as what has copies: each is written by itself."""
_SET = "set BACKUP to the path of its copy first"
"""Where it was not set, a command that has it fails and changes nothing."""


class Kind(enum.StrEnum):
    """What lies there."""

    FILE = "file"
    FREE = "free"
    METADATA = "metadata"
    JOURNAL = "journal"
    PARITY = "parity"
    RESERVED = "reserved"
    """Partition table, superblock or bitmap of an array, swap space: no file's."""
    UNKNOWN = "unknown"
    """It cannot be told; `text` says why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What lies in some sectors of the device that was asked about.

    Fields: `chain` is the way up, for people: 'sdb sector 363296', 'sdb1 sector 361248', 'md0 ...';
    `device` is the last of it; `text` says what it is, or why it cannot be told, and what to run
    then; `path` is the name on this host where `mounted`, else that within the file system; '' for
    an inode whose name is not known. `offset_bytes` and `bytes` are within the
    file, which has `size_bytes`.
    `array`: of redundancy, from which it can still be read ('md0'); `degraded`: of one that lost a
    member; `copies`: the profile by which btrfs has it elsewhere, too ('RAID1'), or SUPERBLOCK.
    `block_bytes` is the size in which the file system writes; `in_place`: it writes a block of a
    file where it was.
    """

    start: int
    count: int
    kind: Kind
    text: str
    chain: tuple[str, ...] = ()
    device: str = ""
    file_system: str = ""
    block: int | None = None
    block_bytes: int | None = None
    inode: int | None = None
    path: str = ""
    other_paths: tuple[str, ...] = ()
    mounted: bool = False
    offset_bytes: int | None = None
    bytes: int | None = None
    size_bytes: int | None = None
    in_place: bool = False
    array: str = ""
    degraded: str = ""
    copies: str = ""

    @property
    def end(self) -> int:
        """The first sector behind it."""
        return self.start + self.count


@dataclass(frozen=True, slots=True)
class Step:
    """Something to do. `command` may be ''; `destroys` is '' for one that destroys nothing."""

    text: str
    command: str = ""
    destroys: str = ""


def merged(answers: Iterable[Answer]) -> list[Answer]:
    """Return answers in the order of the device, those that go on as one."""
    found: list[Answer] = []
    for answer in sorted(answers, key=lambda each: each.start):
        if found and _goes_on(found[-1], answer):
            last = found[-1]
            grown = None
            if last.offset_bytes is not None and answer.offset_bytes is not None:
                end = answer.offset_bytes + (answer.bytes or 0)
                grown = max(end - last.offset_bytes, last.bytes or 0)
            found[-1] = replace(last, count=answer.end - last.start, bytes=grown)
        else:
            found.append(answer)
    return found


def _goes_on(last: Answer, answer: Answer) -> bool:
    if answer.start != last.end or answer.kind is not last.kind:
        return False
    if last.offset_bytes is not None and answer.offset_bytes is not None:
        # Two halves of one block are told as one block; they begin at one place in the file.
        if not last.offset_bytes <= answer.offset_bytes <= last.offset_bytes + (last.bytes or 0):
            return False
    elif last.offset_bytes != answer.offset_bytes:
        return False
    same = (
        "text",
        "device",
        "inode",
        "path",
        "other_paths",
        "array",
        "degraded",
        "copies",
        "mounted",
    )
    return all(getattr(last, name) == getattr(answer, name) for name in same)


def narrowed(answers: Iterable[Answer], start: int, end: int) -> list[Answer]:
    """Return what of some answers lies in these sectors; `end` is not among them."""
    found = []
    for answer in answers:
        first, last = max(start, answer.start), min(end, answer.end)
        if first >= last:
            continue
        part = replace(answer, start=first, count=last - first)
        ahead, size = (first - answer.start) * SECTOR_BYTES, part.count * SECTOR_BYTES
        # Compressed, more of the file lies there than there are bytes: any sector is of all that.
        whole = (answer.bytes or 0) > answer.count * SECTOR_BYTES
        if answer.offset_bytes is not None and answer.bytes is not None and not whole:
            part = replace(
                part,
                offset_bytes=answer.offset_bytes + ahead,
                bytes=max(min(answer.bytes - ahead, size), 0),
            )
        found.append(part)
    return found


def sentence(answer: Answer) -> str:
    """Return an answer as one line, without the way up."""
    if answer.kind is Kind.FILE:
        name = answer.path or f"inode {answer.inode} on {answer.device}"
        where = ""
        if answer.offset_bytes is not None and answer.bytes:
            last = answer.offset_bytes + answer.bytes - 1
            where = f", bytes {answer.offset_bytes} to {last}"
        more = f" ({answer.text})" if answer.text else ""
        return f"file {name}{where}{more}"
    word = "cannot be told, because" if answer.kind is Kind.UNKNOWN else f"{answer.kind}:"
    return f"{word} {answer.text}"


def steps(
    answer: Answer, disk: str = "", sector_bytes: int | None = None, *, sure: bool = True
) -> list[Step]:
    """Return what to do, the least harmful first.

    `disk` is the drive itself ('sdb') where it was the device asked about, '' for a partition or an
    array; `sector_bytes` its own sectors, in which hdparm counts; None: not known. Not `sure`: it
    is one of several things of which not all were hit.
    """
    if answer.array:
        path = f"/sys/block/{answer.array}/md/sync_action"
        return [
            Step(
                f"{answer.array} reads it from its other members and writes it anew by itself when"
                " it meets the error; a check of the whole array makes it do so now",
                f"echo check > {path}",
            )
        ]
    if answer.copies == SUPERBLOCK:
        return [
            Step(
                "while it is mounted, btrfs writes it anew with the next change, and the drive then"
                " replaces the sector; do not unmount it before the sector can be read again",
                f"btrfs inspect-internal dump-super -a /dev/{answer.device}",
            )
        ]
    if answer.copies:
        where = "on the same drive" if answer.copies == "DUP" else "on other devices"
        return [
            Step(
                f"btrfs has it a second time, {where} ({answer.copies}), and writes it anew by"
                " itself when it meets the error; a scrub of this device makes it do so now",
                f"btrfs scrub start -B /dev/{answer.device}",
            )
        ]
    found = _blocks(answer, sure=sure)
    found.append(_restore(answer, again=bool(found), sure=sure))
    if answer.kind is Kind.FILE and answer.file_system == "btrfs":
        found.append(
            Step(
                "then delete the damaged file, with its clones and in its snapshots: btrfs writes"
                " a file anew at another place, and the old one is free only then; ask again",
                destroys="what of the damaged file can still be read, and those snapshots of it",
            )
        )
    if disk and answer.kind is not Kind.FILE:
        found += _reallocate(answer, disk, sector_bytes)
    if answer.kind in {Kind.FREE, Kind.FILE, Kind.METADATA} and answer.file_system.startswith(
        "ext"
    ):
        found.append(
            Step(
                "to have the file system avoid the block for good, unmounted; reads the whole"
                " device, which takes hours",
                f"umount /dev/{answer.device} && e2fsck -f -c /dev/{answer.device}",
                "the content of files that hold unreadable blocks, which become zeros",
            )
        )
    return [step for step in found if step.text]


def unreadable(device: str, start: int, end: int, sector_bytes: int | None = None) -> Step:
    """Return how to find out which of many sectors cannot be read, `end` not among them."""
    unit = sector_bytes or SECTOR_BYTES
    per = unit // SECTOR_BYTES
    first, last = start // per, (end - 1) // per
    number = "$N" if per == 1 else f"$((N * {per}))"
    read = f"dd if=/dev/{device} of=/dev/null bs={unit} skip=$N count=1 iflag=direct status=none"
    return Step(
        "it prints those of them that cannot be read; of such a one 'iowarden locate"
        f" {device} SECTOR' says what it is of, and what to do",
        f"for N in $(seq {first} {last}); do {read} 2>/dev/null || echo {number}; done",
    )


def _restore(answer: Answer, *, again: bool, sure: bool) -> Step:
    """`again`: its damaged blocks were to be written before."""
    lost = ("" if sure else "if it is this that cannot be read: ") + _lost(answer)
    match answer.kind:
        case Kind.FILE:
            return _restore_file(answer, "then " if again else lost)
        case Kind.FREE:
            return Step("nothing is lost: the drive replaces the sector when it is next written")
        case Kind.METADATA if answer.file_system == "btrfs":
            return Step(
                f"{lost}save what can be read, then check {answer.device} while it is not mounted;"
                " never with '--repair' before that",
                f"btrfs check --readonly /dev/{answer.device}",
            )
        case Kind.METADATA | Kind.JOURNAL:
            return Step(
                f"{lost}save what can be read, then check {answer.device} while it is not mounted;"
                " first without repairs",
                f"fsck -n /dev/{answer.device}",
            )
        case Kind.PARITY:
            if answer.degraded:
                return Step(
                    f"{answer.degraded} has lost a member, whose data are calculated from this:"
                    " what it held of this stripe is lost"
                )
            return Step("no file is lost while the other members can be read")
        case Kind.RESERVED:
            return Step("no file is lost; see what it is before anything is written there")
    return Step("find out what lies there before anything is written")


def _restore_file(answer: Answer, begin: str) -> Step:
    if answer.bytes == 0:
        return Step("nothing is lost: the drive replaces the sector when it is next written")
    name = answer.path or f"inode {answer.inode} on {answer.device}"
    rest = "; the rest of it can still be read"
    if not (answer.mounted and answer.path and copyable(answer.path)):
        return Step(f"{begin}restore {name} from a backup{rest}")
    path = shlex.quote(answer.path)
    if answer.file_system == "btrfs":
        beside = shlex.quote(f"{answer.path}.restored")
        text = f"{begin}restore {name} from a backup, beside it ({_SET}){rest}"
        return Step(text, f'cp -p -- "$BACKUP" {beside}')
    # After its blocks: what is restored first would be overwritten with zeros then.
    text = f"{begin}restore {name} from a backup ({_SET}){rest}"
    return Step(text, f'cp -p -- "$BACKUP" {path}', f"what {path} holds now")


def _lost(answer: Answer) -> str:
    if not answer.degraded:
        return ""
    return f"{answer.degraded} has lost a member: nothing else holds these data; "


def _blocks(answer: Answer, *, sure: bool) -> list[Step]:
    """Return how to write the blocks of a file in place, those that cannot be read alone."""
    if answer.kind is not Kind.FILE or not (answer.mounted and answer.path and answer.in_place):
        return []
    if answer.offset_bytes is None or not answer.bytes or answer.size_bytes is None:
        return []
    if not answer.block_bytes or not copyable(answer.path):
        return []
    size, path = answer.block_bytes, shlex.quote(answer.path)
    first = answer.offset_bytes // size
    last = -(-(answer.offset_bytes + answer.bytes) // size) - 1
    one = sure and first == last
    which = f"{first}" if one else "N"
    cut = ""
    if (last + 1) * size > answer.size_bytes:  # the last block is written whole
        cut = f" && truncate -s {answer.size_bytes} {path}"
    write = f"bs={size} seek={which} count=1 conv=notrunc,fsync"
    end = min((last + 1) * size, answer.size_bytes)
    block = f"bytes {first * size} to {end - 1}" if one else f"the {size} bytes of that block"
    found = []
    if not one:
        # A request fails as a whole: one of its sectors may be all that is unreadable.
        read = f"dd if={path} of=/dev/null bs={size} skip=$N count=1 iflag=direct status=none"
        found.append(
            Step(
                "most of these blocks may be readable: it prints those that are not",
                f"for N in $(seq {first} {last}); do {read} || echo $N; done",
            )
        )
    this = "this block" if one else "such a block, N,"
    found += [
        Step(
            f"{_lost(answer)}with a backup of this very version of the file"
            f" ({_SET}): write {this} anew from it, upon which the drive replaces the sectors;"
            " let nothing use the file meanwhile",
            f'dd if="$BACKUP" of={path} skip={which} {write},sync oflag=direct{cut}',
            f"{block} of the file, as far as they can still be read",
        ),
        Step(
            f"without one: force the drive to replace the sectors, by writing {this} of the file"
            " anew; let nothing use the file meanwhile",
            f"dd if=/dev/zero of={path} {write} oflag=direct{cut}",
            f"{block} of the file, for good: they become zeros",
        ),
    ]
    return found


def _reallocate(answer: Answer, disk: str, sector_bytes: int | None) -> list[Step]:
    """Return how to write the sectors of an ATA drive itself, one command for the first of them."""
    if sector_bytes is None or sector_bytes % SECTOR_BYTES or not disk.startswith(("sd", "hd")):
        return []
    per = sector_bytes // SECTOR_BYTES
    first, last = answer.start // per, (answer.end - 1) // per
    number = f"{first}" if first == last else f"{first}, and so on to {last}"
    return [
        Step(
            "only if it stays unreadable, and nothing uses what lies there: make an ATA drive"
            f" replace the sector, number {number} as it counts; first see that it is unreadable"
            f" ('hdparm --read-sector {first} /dev/{disk}'); a drive with physical sectors of 4096"
            " bytes needs all eight of them written",
            f"hdparm --write-sector {first} --yes-i-know-what-i-am-doing /dev/{disk}",
            f"the {sector_bytes} bytes of that sector, for good; of a wrong number, silently those"
            " of another",
        )
    ]


def copyable(path: str) -> bool:
    """Whether a name can be copied from a terminal as it stands.

    What prints it may show several blanks as one, and spells out what is no character.
    """
    return path.isprintable() and " ".join(path.split()) == path
