"""The contents of damaged sectors: file, metadata or free space, and how to repair them. Pure.

Source of the steps: hdparm(8), dd(1), md(4) 'Scrubbing and mismatches', e2fsck(8). A drive replaces
an unreadable sector when it is written: every repair writes it, and so destroys what it may still
hold. Of btrfs: btrfs-scrub(8), btrfs-check(8). Units: sectors of 512 bytes, bytes.
"""

from __future__ import annotations

import enum
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable

SECTOR_BYTES = 512
SUPERBLOCK = "superblock"
"""Of btrfs, as an object with copies: each copy is written by itself."""
_SET = "set BACKUP to the path of its copy first"
"""If BACKUP is not set, a command that uses it fails and changes nothing."""


class ContentKind(enum.StrEnum):
    """Kinds of contents."""

    FILE = "file"
    FREE = "free"
    METADATA = "metadata"
    JOURNAL = "journal"
    PARITY = "parity"
    RESERVED = "reserved"
    """Partition table, superblock or bitmap of an array, swap space: not part of a file."""
    UNKNOWN = "unknown"
    """It cannot be determined; `text` has the reason."""


@dataclass(frozen=True, slots=True)
class SectorContent:
    """The contents of some sectors of the device in the query.

    Fields: `chain` is the path up through the stack, for users: 'sdb sector 363296', 'sdb1 sector
    361248', 'md0 ...'; `device` is the last of it; `text` describes the contents, or why they
    cannot be determined and what to run then; `path` is the name on this host if `mounted`, else
    that within the file system; '' for an inode whose name is not known. `offset_bytes` and `bytes`
    are within the file, which has `size_bytes`. `array`: the redundant array from which it can
    still be read ('md0'); `degraded`: the array that lost a member; `copies`: the btrfs profile
    with another copy ('RAID1'), or SUPERBLOCK. `block_bytes` is the size in which the file system
    writes; `in_place`: it writes a block of a file where it was.
    """

    start: int
    count: int
    kind: ContentKind
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
        """The first sector after it."""
        return self.start + self.count


@dataclass(frozen=True, slots=True)
class RepairStep:
    """A step to take. `command` may be ''; `destroys` is '' for a step that destroys nothing."""

    text: str
    command: str = ""
    destroys: str = ""


def merged(answers: Iterable[SectorContent]) -> list[SectorContent]:
    """Return answers in the order of the device, with contiguous ones merged."""
    found: list[SectorContent] = []
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


def _goes_on(last: SectorContent, answer: SectorContent) -> bool:
    if answer.start != last.end or answer.kind is not last.kind:
        return False
    if last.offset_bytes is not None and answer.offset_bytes is not None:
        # Two halves of one block are reported as one block; they begin at one offset in the file.
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


def narrowed(answers: Iterable[SectorContent], start: int, end: int) -> list[SectorContent]:
    """Return the parts of answers that lie in these sectors; `end` is not among them."""
    found = []
    for answer in answers:
        first, last = max(start, answer.start), min(end, answer.end)
        if first >= last:
            continue
        part = replace(answer, start=first, count=last - first)
        ahead, size = (first - answer.start) * SECTOR_BYTES, part.count * SECTOR_BYTES
        # If compressed, more of the file is stored there than its bytes: any sector holds all of
        # that.
        whole = (answer.bytes or 0) > answer.count * SECTOR_BYTES
        if answer.offset_bytes is not None and answer.bytes is not None and not whole:
            part = replace(
                part,
                offset_bytes=answer.offset_bytes + ahead,
                bytes=max(min(answer.bytes - ahead, size), 0),
            )
        found.append(part)
    return found


def sentence(answer: SectorContent) -> str:
    """Return an answer as one line, without the chain."""
    if answer.kind is ContentKind.FILE:
        name = answer.path or f"inode {answer.inode} on {answer.device}"
        where = ""
        if answer.offset_bytes is not None and answer.bytes:
            last = answer.offset_bytes + answer.bytes - 1
            where = f", bytes {answer.offset_bytes} to {last}"
        more = f" ({answer.text})" if answer.text else ""
        return f"file {name}{where}{more}"
    word = "cannot be determined:" if answer.kind is ContentKind.UNKNOWN else f"{answer.kind}:"
    return f"{word} {answer.text}"


def steps(
    answer: SectorContent, disk: str = "", sector_bytes: int | None = None, *, sure: bool = True
) -> list[RepairStep]:
    """Return what to do, the least destructive step first.

    `disk` is the drive itself ('sdb') if the query named it, '' for a partition or an array;
    `sector_bytes` its own sectors, which hdparm uses; None: not known. Not `sure`: it is one of
    several objects of which not all are damaged.
    """
    if answer.array:
        path = f"/sys/block/{answer.array}/md/sync_action"
        return [
            RepairStep(
                f"{answer.array} reads it from its other members and rewrites it by itself when it"
                " encounters the error; a check of the whole array triggers that now",
                f"echo check > {path}",
            )
        ]
    if answer.copies == SUPERBLOCK:
        return [
            RepairStep(
                "while the file system is mounted, btrfs rewrites it with the next change, and"
                " the drive"
                " then replaces the sector; do not unmount it before the sector can be read again",
                f"btrfs inspect-internal dump-super -a /dev/{answer.device}",
            )
        ]
    if answer.copies:
        where = "on the same drive" if answer.copies == "DUP" else "on other devices"
        return [
            RepairStep(
                f"btrfs has a second copy {where} ({answer.copies}), and rewrites it by itself"
                " when it"
                " encounters the error; a scrub of this device triggers that now",
                f"btrfs scrub start -B /dev/{answer.device}",
            )
        ]
    found = _blocks(answer, sure=sure)
    found.append(_restore(answer, after_rewrite=bool(found), sure=sure))
    if answer.kind is ContentKind.FILE and answer.file_system == "btrfs":
        found.append(
            RepairStep(
                "then delete the damaged file, with its clones and in its snapshots: btrfs writes"
                " the restored file to other blocks, and the old ones become free only by that;"
                " then"
                " run this again",
                destroys="what of the damaged file can still be read, and those snapshots of it",
            )
        )
    if disk and answer.kind is not ContentKind.FILE:
        found += _reallocate(answer, disk, sector_bytes)
    if answer.kind in {
        ContentKind.FREE,
        ContentKind.FILE,
        ContentKind.METADATA,
    } and answer.file_system.startswith("ext"):
        found.append(
            RepairStep(
                "to mark the block as bad in the file system, permanently; unmounts it and reads"
                " the"
                " whole device, which takes hours",
                f"umount /dev/{answer.device} && e2fsck -f -c /dev/{answer.device}",
                "the content of files that hold unreadable blocks, which become zeros",
            )
        )
    return [step for step in found if step.text]


def unreadable(device: str, start: int, end: int, sector_bytes: int | None = None) -> RepairStep:
    """Return how to find out which of many sectors are unreadable, `end` not among them."""
    unit = sector_bytes or SECTOR_BYTES
    per = unit // SECTOR_BYTES
    first, last = start // per, (end - 1) // per
    number = "$N" if per == 1 else f"$((N * {per}))"
    read = f"dd if=/dev/{device} of=/dev/null bs={unit} skip=$N count=1 iflag=direct status=none"
    return RepairStep(
        "this prints the unreadable sectors; for each, 'iowarden locate"
        f" {device} SECTOR' shows what it belongs to, and what to do",
        f"for N in $(seq {first} {last}); do {read} 2>/dev/null || echo {number}; done",
    )


def _restore(answer: SectorContent, *, after_rewrite: bool, sure: bool) -> RepairStep:
    """`after_rewrite`: an earlier step rewrites its damaged blocks."""
    lost = ("" if sure else "if this is what cannot be read: ") + _lost(answer)
    match answer.kind:
        case ContentKind.FILE:
            return _restore_file(answer, "then " if after_rewrite else lost)
        case ContentKind.FREE:
            return RepairStep(
                "nothing is lost: the drive replaces the sector when it is next written"
            )
        case ContentKind.METADATA if answer.file_system == "btrfs":
            return RepairStep(
                f"{lost}copy what can still be read, then check {answer.device} while it is not"
                " mounted; never use '--repair' before that",
                f"btrfs check --readonly /dev/{answer.device}",
            )
        case ContentKind.METADATA | ContentKind.JOURNAL:
            return RepairStep(
                f"{lost}copy what can still be read, then check {answer.device} while it is not"
                " mounted; first without repairs",
                f"fsck -n /dev/{answer.device}",
            )
        case ContentKind.PARITY:
            if answer.degraded:
                return RepairStep(
                    f"{answer.degraded} has lost a member whose data are computed from this sector:"
                    " its part of this stripe is lost"
                )
            return RepairStep("no file is lost while the other members can be read")
        case ContentKind.RESERVED:
            return RepairStep(
                "no file is lost; find out what it is before you write anything there"
            )
    return RepairStep("find out what is stored there before you write anything")


def _restore_file(answer: SectorContent, begin: str) -> RepairStep:
    if answer.bytes == 0:
        return RepairStep("nothing is lost: the drive replaces the sector when it is next written")
    name = answer.path or f"inode {answer.inode} on {answer.device}"
    rest = "; the rest of it can still be read"
    if not (answer.mounted and answer.path and copyable(answer.path)):
        return RepairStep(f"{begin}restore {name} from a backup{rest}")
    path = shlex.quote(answer.path)
    if answer.file_system == "btrfs":
        beside = shlex.quote(f"{answer.path}.restored")
        text = f"{begin}restore {name} from a backup, to a new file next to it ({_SET}){rest}"
        return RepairStep(text, f'cp -p -- "$BACKUP" {beside}')
    # After its blocks: zeros would overwrite what is restored before.
    text = f"{begin}restore {name} from a backup ({_SET}){rest}"
    return RepairStep(text, f'cp -p -- "$BACKUP" {path}', f"what {path} holds now")


def _lost(answer: SectorContent) -> str:
    if not answer.degraded:
        return ""
    return f"{answer.degraded} has lost a member: nothing else holds these data; "


def _blocks(answer: SectorContent, *, sure: bool) -> list[RepairStep]:
    """Return how to rewrite the blocks of a file in place, only those that cannot be read."""
    if answer.kind is not ContentKind.FILE or not (
        answer.mounted and answer.path and answer.in_place
    ):
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
        # A request fails as a whole: only one of its sectors may be unreadable.
        read = f"dd if={path} of=/dev/null bs={size} skip=$N count=1 iflag=direct status=none"
        found.append(
            RepairStep(
                "most of these blocks may be readable: this prints those that are not",
                f"for N in $(seq {first} {last}); do {read} || echo $N; done",
            )
        )
    this = "this block" if one else "such a block, N,"
    found += [
        RepairStep(
            f"{_lost(answer)}with a backup of exactly this version of the file"
            f" ({_SET}): rewrite {this} from it, and the drive replaces the sectors;"
            " no program may use the file meanwhile",
            f'dd if="$BACKUP" of={path} skip={which} {write},sync oflag=direct{cut}',
            f"{block} of the file, as far as they can still be read",
        ),
        RepairStep(
            f"without a backup: force the drive to replace the sectors by overwriting {this} of the"
            " file; no program may use the file meanwhile",
            f"dd if=/dev/zero of={path} {write} oflag=direct{cut}",
            f"{block} of the file, permanently: they become zeros",
        ),
    ]
    return found


def _reallocate(answer: SectorContent, disk: str, sector_bytes: int | None) -> list[RepairStep]:
    """Return how to write the sectors of an ATA drive itself, one command for the first of them."""
    if sector_bytes is None or sector_bytes % SECTOR_BYTES or not disk.startswith(("sd", "hd")):
        return []
    per = sector_bytes // SECTOR_BYTES
    first, last = answer.start // per, (answer.end - 1) // per
    number = f"{first}" if first == last else f"{first}, and so on to {last}"
    return [
        RepairStep(
            "only if it stays unreadable and its contents are not in use: make an ATA drive"
            f" replace the sector, number {number} in the drive's count; first verify that it is"
            f" unreadable ('hdparm --read-sector {first} /dev/{disk}'); on a drive with physical"
            " sectors of 4096 bytes all eight must be written",
            f"hdparm --write-sector {first} --yes-i-know-what-i-am-doing /dev/{disk}",
            f"the {sector_bytes} bytes of that sector, permanently; with a wrong number, silently"
            " those of another sector",
        )
    ]


def copyable(path: str) -> bool:
    """Whether a name can be copied from a terminal unchanged.

    Output may show several blanks as one, and escapes what is not a character.
    """
    return path.isprintable() and " ".join(path.split()) == path
