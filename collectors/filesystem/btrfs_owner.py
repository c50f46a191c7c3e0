"""Find the files of a byte of a mounted btrfs, with 'btrfs inspect-internal', which is read-only.

A byte of a device is mapped to a logical address of the file system by the chunk tree, which is
read from the devices; the kernel reports the files of an address. The names of an inode are queried
inside the probe (`query_names`), and only if it owns the requested address; the service reads that
(`read_names`). Source: btrfs-inspect-internal(8) and btrfs-filesystem(8) 6.2, tried; btrfs-progs'
kernel-shared/print-tree.c and cmds/inspect.c for their output, also those of 5.16 to 6.17; kernel,
fs/btrfs/backref.c. Units: bytes.
Limits: the tree is that of the last commit, at most half a minute old. The devices are read
independently of the kernel, through a cache that may be older than that: so the tree is used only
if complete, with every block of the generation in the superblock or in the block above it.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.filesystem.btrfs import DIRECTORY
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import AbsentError, ParseError, ReadError
from iowarden.collectors.probe_reply import field, optional
from iowarden.collectors.program import run_program
from iowarden.collectors.sysfs import device_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from iowarden.collectors.filesystem.mountinfo import Mount
    from iowarden.collectors.machine import Machine

VERB = "btrfs_names"
MAX_DEVICES = 32
"""Maximum devices of one file system: the probe's limit."""
MAX_CHUNKS = 50_000
MAX_REFERENCES = 10_000
"""The kernel's answer of 64 KiB has room for 2,700 references; it silently omits further ones."""
MOUNT_POINT = lazy_pattern(r"/[!-~]{0,255}", re.ASCII)
"""The probe's limit."""

CONTENTS = frozenset({"DATA", "METADATA", "SYSTEM"})
PROFILES = frozenset(
    {"single", "DUP", "RAID0", "RAID1", "RAID1C3", "RAID1C4", "RAID10", "RAID5", "RAID6"}
)

# Source: linux/btrfs.h and btrfs_tree.h. With other features an address may not be where its chunk
# is: zones, a stripe tree (bit 14), a remap tree (bit 17), and future features.
_KNOWN_FEATURES = 0xFFF | 1 << 16
_FEATURES = {
    12: "zoned",
    13: "extent tree v2",
    14: "raid stripe tree",
    17: "remap tree",
}
_FIRST_ODD_FLAG = 32
"""From this bit on the superblock's flags mean: seed, metadata dump, a change of the UUID."""

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_N = r"(\d{1,20})"
_FIELD = lazy_pattern(r"([a-z_.]{1,40})(?: \(deprecated\))?\t+(\S.{0,200})", re.ASCII)
_BLOCK = lazy_pattern(
    rf"(leaf|node) {_N} (?:level \d{{1,2}} )?items (\d{{1,6}}) free(?: space)? \d{{1,6}}"
    rf" generation {_N} owner (CHUNK_TREE|3)",
    re.ASCII,
)
_CHILD = lazy_pattern(rf"\tkey \(.{{1,100}}\) block {_N}(?: \(\d{{1,20}}\))? gen {_N}", re.ASCII)
_ITEM = lazy_pattern(
    r"\titem \d{1,6} key \((\S{1,40}) (\S{1,40}) (\S{1,40})\) itemoff .*", re.ASCII
)
_LENGTH = lazy_pattern(
    rf"\t\tlength {_N} owner \d{{1,20}} stripe_len {_N} type (\S{{1,80}})", re.ASCII
)
_ALIGNED = lazy_pattern(r"\t\tio_align \d{1,10} io_width \d{1,10} sector_size \d{1,10}", re.ASCII)
_STRIPES = lazy_pattern(r"\t\tnum_stripes (\d{1,5}) sub_stripes (\d{1,5})", re.ASCII)
_STRIPE = lazy_pattern(rf"\t\t\tstripe (\d{{1,5}}) devid {_N} offset {_N}", re.ASCII)
_STRIPE_UUID = lazy_pattern(rf"\t\t\tdev_uuid {_UUID}", re.ASCII)
_REFERENCE = lazy_pattern(rf"inode {_N} offset {_N} root {_N}", re.ASCII)
_SHOWN = lazy_pattern(
    rf"\tdevid +{_N} size \d{{1,20}} used \d{{1,20}} path (.{{1,4096}})", re.ASCII
)
_NO_OWNER = "ERROR: logical ino ioctl: No such file or directory"
_NAMELESS = "ERROR: ino paths ioctl: No such file or directory"


@dataclass(frozen=True, slots=True)
class FileSystem:
    """A mounted file system in sysfs: its UUID, its present devices, and how many it has in all.

    `device_count` includes missing ones; None: not reported (before Linux 5.6).
    """

    uuid: str
    devices: tuple[str, ...]
    device_count: int | None = None


@dataclass(frozen=True, slots=True)
class BtrfsSuperblock:
    """Data of a device from 'dump-super'. `size_bytes` is the used size of the device."""

    uuid: str
    generation: int
    chunk_root: int
    chunk_root_generation: int
    sector_bytes: int
    device: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Stripe:
    """The location of a chunk on a device, from `offset` on."""

    device: int
    offset: int


@dataclass(frozen=True, slots=True)
class BtrfsChunk:
    """A range of addresses, and the devices it is spread over.

    Fields: `contents` is one of CONTENTS, `profile` one of PROFILES; `copies` is for RAID10: how
    many consecutive stripes are equal ('sub_stripes').
    """

    start: int
    length: int
    stripe_bytes: int
    contents: frozenset[str]
    profile: str
    copies: int
    stripes: tuple[Stripe, ...]


@dataclass(frozen=True, slots=True, order=True)
class Reference:
    """A location in a file that has an address; `root` is the tree of its subvolume."""

    root: int
    inode: int
    offset: int


@dataclass(frozen=True, slots=True)
class BtrfsListing:
    """A mounted file system in 'btrfs filesystem show', from the kernel. `present`: devices."""

    uuid: str
    present: frozenset[int]


@dataclass(frozen=True, slots=True)
class InodeNames:
    """The path of a subvolume ('' for the top-level one), and the paths of an inode in it.

    `names` None: the subvolume is not mounted by itself, so that they cannot be queried.
    """

    subvolume: str
    names: tuple[str, ...] | None


def parse_superblock(text: str) -> BtrfsSuperblock:
    """Parse 'dump-super'.

    Errors: ParseError; also for a damaged superblock, or features that need another mapping.
    """
    found: dict[str, str] = {}
    for line in text.splitlines():
        if row := _FIELD.fullmatch(line):
            found.setdefault(row[1], row[2].strip())

    def number(key: str) -> int:
        value = found.get(key, "")
        if not re.fullmatch(r"\d{1,20}|0x[0-9a-f]{1,16}", value, re.ASCII):
            raise _refused("dump-super", f"'{key} <number>'", value or complaint(text))
        return int(value, 16 if value.startswith("0x") else 10)

    for key in ("csum", "magic"):
        if not found.get(key, "").endswith("[match]"):
            raise _refused("dump-super", f"'{key} ... [match]'", found.get(key) or complaint(text))
    uuid = found.get("fsid", "")
    if not re.fullmatch(_UUID, uuid):
        raise _refused("dump-super", "'fsid <UUID>'", uuid or complaint(text))
    if number("flags") >> _FIRST_ODD_FLAG:
        raise _refused("dump-super", "an ordinary file system (no seed)", f"flags {found['flags']}")
    if strange := number("incompat_flags") & ~_KNOWN_FEATURES:
        bits = [bit for bit in range(64) if strange >> bit & 1]
        names = ", ".join(_FEATURES.get(bit, f"number {bit}") for bit in bits)
        raise _refused("dump-super", "no feature that changes where data is", names)
    read = BtrfsSuperblock(
        uuid,
        number("generation"),
        number("chunk_root"),
        number("chunk_root_generation"),
        number("sectorsize"),
        number("dev_item.devid"),
        number("dev_item.total_bytes"),
    )
    if read.sector_bytes not in {1 << power for power in range(12, 17)}:
        raise _refused("dump-super", "sectors of 4 to 64 KiB", str(read.sector_bytes))
    if not read.device:
        raise _refused("dump-super", "a device with a number", "0: it is about to replace another")
    return read


def parse_chunks(text: str, superblock: BtrfsSuperblock) -> tuple[BtrfsChunk, ...]:
    """Parse the chunks in 'dump-tree -t chunk', if it is the complete chunk tree.

    Errors: ParseError, for another text, another tree than the superblock's, or a part.
    """
    expected = {superblock.chunk_root: superblock.chunk_root_generation}
    chunks: list[BtrfsChunk] = []
    missing = 0  # items of the current block, or its children
    lines = _Lines(text)
    for line in lines:
        if row := _BLOCK.fullmatch(line):
            address, generation = int(row[2]), int(row[4])
            if missing or expected.pop(address, None) != generation:
                raise _refused(
                    "dump-tree",
                    "the blocks of the tree, each whole and of its generation",
                    f"{line.strip()}; query it again",
                )
            missing = int(row[3])
        elif row := _CHILD.fullmatch(line):
            expected[int(row[1])] = int(row[2])
            missing -= 1
        elif row := _ITEM.fullmatch(line):
            missing -= 1
            if row[2] == "CHUNK_ITEM":
                chunks.append(_chunk(row[3], lines))
            elif row[2] != "DEV_ITEM":
                raise _refused("dump-tree", "items of devices and chunks", line)
        if missing < 0 or len(chunks) > MAX_CHUNKS or len(expected) > MAX_CHUNKS:
            raise _refused(
                "dump-tree", f"as many items as its header counts, and {MAX_CHUNKS} chunks", line
            )
    if missing or expected or not chunks:
        raise _refused(
            "dump-tree",
            f"the tree of chunks from block {superblock.chunk_root} on, all of it",
            complaint(text) if "leaf " not in text else f"{len(chunks)} chunks; query it again",
        )
    return tuple(chunks)


class _Lines:
    """The lines of a text, of which one may be pushed back."""

    def __init__(self, text: str) -> None:
        self._left = text.split("\n")[::-1]

    def __iter__(self) -> Iterator[str]:
        while self._left:
            yield self._left.pop()

    def of_item(self) -> Iterator[str]:
        """Yield the lines of the current item."""
        while self._left and self._left[-1].startswith("\t\t"):
            yield self._left.pop()


def _chunk(start: str, lines: _Lines) -> BtrfsChunk:
    length, stripe_bytes, kind, number, copies = 0, 0, "", -1, 0
    stripes: list[Stripe] = []
    for line in lines.of_item():
        if row := _LENGTH.fullmatch(line):
            length, stripe_bytes, kind = int(row[1]), int(row[2]), row[3]
        elif row := _STRIPES.fullmatch(line):
            number, copies = int(row[1]), int(row[2])
        elif (row := _STRIPE.fullmatch(line)) and int(row[1]) == len(stripes):
            stripes.append(Stripe(int(row[2]), int(row[3])))
        elif not _ALIGNED.fullmatch(line) and not _STRIPE_UUID.fullmatch(line):
            raise _refused("dump-tree", "a line of a chunk", line)
    words = kind.split("|")
    contents = CONTENTS.intersection(words)
    # Some versions print nothing for 'single'.
    profile = next((word for word in words if word not in CONTENTS), "single")
    if not start.isdecimal() or len(stripes) != number or not number > 0 or not length:
        raise _refused(
            "dump-tree", f"{number} stripes of a chunk with a length", f"{len(stripes)}, {length}"
        )
    if not contents or profile not in PROFILES or len(words) > len(contents) + 1:
        raise _refused("dump-tree", f"a type of {', '.join(sorted(CONTENTS | PROFILES))}", kind)
    return BtrfsChunk(int(start), length, stripe_bytes, contents, profile, copies, tuple(stripes))


def parse_references(text: str) -> tuple[Reference, ...] | None:
    """Parse 'logical-resolve -P'; None: no extent has the address: it is free.

    An empty result: an extent has it of which every file uses other parts. Errors: ParseError.
    """
    lines = text.splitlines()
    if lines == [_NO_OWNER]:
        return None
    found: set[Reference] = set()
    for line in lines:
        row = _REFERENCE.fullmatch(line)
        if row is None or len(found) >= MAX_REFERENCES:
            raise _refused("logical-resolve", "'inode <n> offset <n> root <n>'", line)
        found.add(Reference(int(row[3]), int(row[1]), int(row[2])))
    return tuple(sorted(found))


def parse_subvolume(text: str) -> str:
    """Parse the path of a subvolume below the top-level one, '' for that. Errors: ParseError."""
    path = text.removesuffix("\n")
    if "\n" in path or path.startswith(("ERROR:", "/")):
        raise _refused("subvolid-resolve", "the path of a subvolume", complaint(text))
    return path


def parse_names(text: str, mount_point: str) -> tuple[str, ...]:
    """Parse the paths of an inode in its subvolume ('/a/b'); none: it was deleted.

    Limits: the text after a line feed in a name is lost, or looks like another name; beyond some
    4,000 bytes further names are left out. Errors: ParseError.
    """
    names: list[str] = []
    for line in text.split("\n"):
        if line.startswith(mount_point + "/"):
            names.append("/" + line.removeprefix(mount_point + "/"))
        elif line == _NAMELESS and not names:
            return ()
        elif line and not names:
            raise _refused("inode-resolve", f"'{mount_point}/<path>'", line)
    if not names:
        raise _refused("inode-resolve", f"'{mount_point}/<path>'", "nothing")
    return tuple(names)


def parse_listing(text: str) -> BtrfsListing:
    """Parse 'filesystem show' of one file system. Errors: ParseError."""
    uuids = re.findall(rf"^Label: .*  uuid: ({_UUID})$", text, re.MULTILINE)
    if len(uuids) != 1:
        raise _refused("filesystem show", "'Label: ...  uuid: <UUID>', once", complaint(text))
    rows = [row for line in text.splitlines() if (row := _SHOWN.fullmatch(line))]
    present = {int(row[1]) for row in rows if row[2][0] == "/" and not row[2].endswith(" MISSING")}
    return BtrfsListing(uuids[0], frozenset(present))


def read_file_systems(root: Machine) -> dict[str, FileSystem]:
    """Read the mounted file systems by each of their devices, from sysfs.

    If they cannot be read, udev's signatures are used instead.
    """
    found: dict[str, FileSystem] = {}
    try:
        for name in root.names(DIRECTORY):
            if re.fullmatch(_UUID, name):
                devices = tuple(map(device_name, root.names(f"{DIRECTORY}/{name}/devices")))
                system = FileSystem(name, devices, _device_count(root, name))
                found |= dict.fromkeys(devices, system)
    except (AbsentError, ReadError):  # no btrfs here, or one that is being unmounted
        return found
    return found


def _device_count(root: Machine, uuid: str) -> int | None:
    try:
        return len(root.names(f"{DIRECTORY}/{uuid}/devinfo"))
    except AbsentError:
        return None


def read_superblock(root: Machine, device: str, deadline_seconds: float) -> BtrfsSuperblock:
    """Query the superblock of a device.

    Errors: AbsentError, ProgramNotFoundError, StuckError, DeadlineError, ReadError, ParseError.
    """
    return parse_superblock(_query(root, deadline_seconds, "dump-super", f"/dev/{device}"))


def read_chunks(
    root: Machine, devices: Sequence[str], superblock: BtrfsSuperblock, deadline_seconds: float
) -> tuple[BtrfsChunk, ...]:
    """Query the chunks of all devices of the file system. Errors: as `read_superblock`."""
    # '--noscan': otherwise it opens every other disk of the host, and wakes it.
    words = ("dump-tree", "--noscan", "-t", "chunk", *(f"/dev/{device}" for device in devices))
    return parse_chunks(_query(root, deadline_seconds, *words), superblock)


def read_references(
    root: Machine, mount_point: str, address: int, deadline_seconds: float, *, extent: bool = False
) -> tuple[Reference, ...] | None:
    """Query the files of an address; `extent`: of any part of the extent that contains it.

    Source: kernel, backref.c check_extent_in_eb. Each reference has the location in the file of
    this byte; with `extent` ('-o'), and always for compressed data, the location where the file's
    part of the extent begins. Errors: as `read_superblock`.
    """
    words = ("-P", *("-o",) * extent, str(address), mount_point)
    return parse_references(_query(root, deadline_seconds, "logical-resolve", *words))


def query_names(
    root: Machine,
    mounts: Sequence[Mount],
    question: tuple[str, int, int, int],
    time_left: Callable[[], float],
) -> InodeNames:
    """Run btrfs for the names of an inode that owns an address. Called by the probe.

    `question`: mount point, address, tree and number of the inode. `mounts`: all of the host.
    Errors: as `read_superblock`; ReadError, if it does not own the address.
    """
    point, address, tree, inode = question
    references = read_references(root, point, address, time_left()) or ()
    if not any((each.root, each.inode) == (tree, inode) for each in references):
        raise ReadError(
            f"btrfs address {address}: expected it to be of inode {inode} of tree {tree}, got"
            f" {len(references)} others; query it again"
        )
    text = _query(root, time_left(), "subvolid-resolve", str(tree), point)
    subvolume = parse_subvolume(text)
    numbers = {mount.device_number for mount in mounts if mount.mount_point == point}
    here = [mount for mount in mounts if mount.device_number in numbers]
    own = subvolume_mount(here, subvolume)
    if own is None:
        return InodeNames(subvolume, None)
    text = _query(root, time_left(), "inode-resolve", str(inode), own)
    return InodeNames(subvolume, parse_names(text, own))


def subvolume_mount(mounts: Sequence[Mount], subvolume: str) -> str | None:
    """Return a mount point of exactly this subvolume that the probe accepts, or None."""
    wanted = f"/{subvolume}"
    points = (mount.mount_point for mount in mounts if mount.root == wanted)
    return next((point for point in points if MOUNT_POINT.fullmatch(point)), None)


def to_json(found: InodeNames) -> dict[str, Any]:
    """Return the answer to the verb, to be printed as JSON."""
    return {"subvolume": found.subvolume, "names": found.names}


def from_json(text: str) -> InodeNames:
    """Parse the JSON of `to_json`. Errors: ParseError."""
    try:
        found = json.loads(text)
        names = optional(list, found, "names")
        if not all(isinstance(name, str) and name.startswith("/") for name in names or ()):
            raise TypeError(f"'names': expected paths, got {names!r:.60}")
        return InodeNames(field(str, found, "subvolume"), None if names is None else tuple(names))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ParseError(
            f"probe '{VERB}': expected names of an inode as JSON, got {text[:80]!r}:"
            f" {type(error).__name__}: {error}"
        ) from None


def read_names(
    root: Machine, mount_point: str, address: int, owner: Reference, deadline_seconds: float
) -> InodeNames:
    """Query the probe for the names of an inode that owns an address. Errors: as `query_names`."""
    arguments = (mount_point, *map(str, (address, owner.root, owner.inode)))
    return from_json(root.query_probe(VERB, *arguments, deadline_seconds=deadline_seconds))


def read_listing(root: Machine, mount_point: str, deadline_seconds: float) -> BtrfsListing:
    """Query which file system is mounted at a path. Errors: as `read_superblock`."""
    words = ("btrfs", "filesystem", "show", "--raw", mount_point)
    return parse_listing(run_program(root, deadline_seconds, *words))


def _query(root: Machine, deadline_seconds: float, *arguments: str) -> str:
    return run_program(root, deadline_seconds, "btrfs", "inspect-internal", *arguments)


def complaint(text: str) -> str:
    """Return the line with the reason for an unexpected output."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if line.startswith("ERROR")), (lines or ["nothing"])[0])


def _refused(verb: str, expected: str, got: str) -> ParseError:
    return ParseError(f"'btrfs {verb}': expected {expected}, got {got[:120]!r}")
