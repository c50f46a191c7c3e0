"""All parsers of the collectors, texts that they accept, and these texts damaged at random.

No list names the parsers: a public function of a module below collectors/ that takes a text, and
is named `parse...` or `from_json`, or has ParseError in its docstring, is one. Its
texts are literals of the tests, those of which it makes most; for parsers whose tests join theirs
from parts, BUILT has them.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from support import areca, btrfs_text, kstat, machine, printed, storcli_texts

from iowarden.collectors.block.surface import ScanRequest
from iowarden.collectors.filesystem import xfs_owner
from iowarden.collectors.filesystem.btrfs_owner import (
    BtrfsChunk,
    BtrfsSuperblock,
    Stripe,
    parse_superblock,
)
from iowarden.collectors.filesystem.mountinfo import Mount
from iowarden.collectors.model import ParseError
from iowarden.collectors.parsed_text import Tool

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

TOP: Final = Path(__file__).parents[2]
MAX_CHARACTERS: Final = 1500
"""Of a text to be damaged: a longer one takes longer, and has the same rows."""
MAX_TEXTS: Final = 8

_SUPERBLOCK: BtrfsSuperblock = parse_superblock(btrfs_text.superblock())
_CHUNK = BtrfsChunk(
    1 << 20, 8 << 20, 65536, frozenset({"DATA"}), "single", 1, (Stripe(1, 1 << 20),)
)
_ARGUMENTS: Final[dict[str, object]] = {
    "path": "/proc/x",
    "name": "c0",
    "node": 0,
    "directory": "/proc/7",
    "process": 7,
    "page_size_bytes": 4096,
    "mount_point": "/srv",
    "superblock": _SUPERBLOCK,
    "mount": Mount("8:1", "/dev/sda1", "/", "/srv", "ext4", ("rw",), ("rw",)),
    "request": ScanRequest("8:16", "S1", 1 << 30, 4096, 4096, 0.0, 1, None, (4096,)),
    "log": False,
    "command": "GETCONFIG",
    "names": ("size", "c"),
    "required": ("size",),
    "now_nanoseconds": kstat.NOW_NANOSECONDS,
}
"""What parsers take besides the text, by the parameter's name."""

_DONE = "\nCommand completed successfully.\n"
_MEGACLI_DONE = "\n\nExit Code: 0x00\n"
_IO = "9 0 72 4 0 0 0 0 0 4 4"


def _storcli(data: object) -> str:
    about = {"Controller": 0, "Status": "Success", "Description": "None"}
    return json.dumps({"Controllers": [{"Command Status": about, "Response Data": data}]})


BUILT: Final[dict[str, tuple[str, ...]]] = {
    "block.dm_table.from_json": (
        '{"targets": [[0, 1000, "linear", ["8:17", "2048"]], [1000, 8, "error", []]]}',
    ),
    "device_mapper.target_types.from_json": (
        '{"targets": {"vg-pool": ["thin-pool"], "m a": ["multipath"]}, "queueing": {"m a": true}}',
    ),
    "block.disk_identity.parse_serial_page": ("\x00\x80\x00\x08WD-WCC1 ",),
    "block.surface.from_json": (
        ('{"refused": "", "reads": [{"offset": 4096, "seconds": 0.1, "error": 0, "bad_offset":'
        f' null}}], "before": "{_IO}", "after": "{_IO}", "bytes": 4096, "seconds": 1.5}}'),
        '{"refused": "it is mounted"}',
    ),
    "block.udev.parse_zvol": ("S:disk/by-id/x\nS:zvol/tank/vm1\nI:1935278\n",),
    "filesystem.btrfs_owner.parse_superblock": (btrfs_text.superblock(),),
    "filesystem.btrfs_owner.parse_chunks": (
        btrfs_text.tree(_CHUNK),
        btrfs_text.deep([[_CHUNK]]),
    ),
    "filesystem.btrfs_owner.parse_listing": (btrfs_text.shown("/dev/sdb", "/dev/mapper/a b"),),
    "filesystem.btrfs_owner.from_json": ('{"subvolume": "@srv", "names": ["/a b", "/d/c"]}',),
    "filesystem.btrfs_scrub.parse_scrub": (
        (f"UUID:             {btrfs_text.UUID}\n\nScrub device /dev/sdb1 (id 1) history\n"
        "Scrub started:    Sun Nov  1 03:00:07 2026\nStatus:           finished\n"
        "Duration:         25:10:13\nTotal to scrub:   1.09TiB\n"),
    ),
    "filesystem.ext4_owner.from_json": (
        ('{"superblock": [4096, 5000, 0, 8, 11], "used": [[7, true]], "untested": "", "owners":'
        ' [[7, 15], [8, null]], "late": [9], "inodes": [{"number": 15, "problem": "", "kind":'
        ' "regular", "bytes": 9000, "attributes_block": 0, "extents": [[0, 3, 7, false]],'
        ' "inner": [6]}, {"number": 16, "problem": "gone"}], "names": [[15, ["/a", "/b"]]],'
        ' "unnamed": ""}'),
    ),
    "filesystem.newest.from_json": (
        ('{"realtime_seconds": 1.5, "utc_offset_seconds": 0, "mount_point": "/srv", "files": 1,'
        ' "bytes": 9000, "oldest_seconds": 1, "latest": [{"inode": 5, "bytes": 9000,'
        ' "changed_seconds": 1.0, "modified_seconds": 1.0}], "truncated": ""}'),
    ),
    "filesystem.statfs.parse_statvfs": (machine.STATVFS.format(device_number="8:1"),),
    "filesystem.xfs_owner.parse_fsmap": (
        (f"{xfs_owner.HEADING}\n0,8,17,192,783,inode_131_data,16,607,592\n"
        "1,8,17,784,791,inode_131_attr_bmbt,,,8\n2,8,17,792,900,special_0:1,,,109\n"),
    ),
    "filesystem.xfs_owner.from_json": (
        ('{"extents": [[192, 783, "file", 131, "data", 16], [792, 900, "free", null, "", null]],'
        ' "inodes": [[131, "f", 9000, "/srv/a", ""], [132, "", 0, "", "gone"]]}'),
    ),
    "kmsg.kernel_journal.from_json": (
        ('{"entries": [{"cursor": "s=1", "realtime_seconds": 1.5, "monotonic_seconds": 1.5,'
        ' "boot_id": "b", "priority": 3, "message": "I/O error, dev sda, sector 8", "device":'
        ' "b8:0", "subsystem": null}], "gap": false, "more": false, "cursor": "s=1"}'),
    ),
    "procfs.process_io.from_json": (
        ('{"boot_seconds": 9.5, "processes": [[7, 90, 1, "postgres", "pg.service", 1, 2, 3],'
        ' [8, 91, 7, "cp", "", 1, 2, 3, 4, 5, 6, 7]], "not_read": [1, 2, 3], "threads": [[7, 8, 9,'
        " 10]]}"),
        '{"boot_seconds": 9.5, "processes": [[7, 90, 1, "cp", "", 1, 2, 3]], "not_read": [1, 2]}',
    ),
    "procfs.tasks.from_json": (
        ('{"tasks": [{"pid": 7, "start_ticks": 90, "command": "cp", "wait_channel": "io_schedule",'
        ' "stack": ["io_schedule"], "read_bytes": null, "write_bytes": 5, "kernel": false}],'
        ' "count": 1, "boot_seconds": 9.5}'),
    ),
    "procfs.tasks.parse_status": (
        "7 (a) b) D 1 7 7 0 -1 4194304 90 0 2 0 11 12 0 0 20 0 3 0 9050 1000 200\n",
    ),
    "raid.adaptec.arcconf_status.parse_tasks": (
        ("Controllers found: 1\nLogical device Task:\n   Logical device                 : 0\n"
        "   Task ID                        : 100\n   Current operation              : Rebuild\n"
        "   Status                         : In Progress\n   Priority           : High\n"
        f"   Percentage complete            : 27\n{_DONE}"),
        f"Current operation              : None\n{_DONE}",
    ),
    "raid.adaptec.arcconf_output.completed": (f"Controllers found: 1{_DONE}",),
    "raid.areca.cli64.parse_disk_detail": (
        (f"Drive Information\n{areca.HEADER[-80:]}IDE Channel        : 3\n"
        f"Model Name         : {areca.MODEL}\nSerial Number : WD-1\nDisk Capacity : 160.0GB\n"
        "Device State       : NORMAL\nTimeout Count      : 0\nMedia Error Count  : 2\n"
        f"Device Temperature : 34 C\nSMART Status       : O.K.\n{areca.DONE}"),
    ),
    "raid.areca.cli64.parse_system": (
        (f"The System Information\n{'=' * 43}\nMain Processor     : 500MHz\nSystem Memory : 256MB\n"
        "Firmware Version   : V1.46 2009-01-06\nSerial Number      : Y001\n"
        f"Controller Name    : ARC-1210\n{areca.DONE}"),
    ),
    "raid.megaraid.megacli.parse_adapters": (
        ("Adapter #0\n\n                    Versions\n                ================\n"
        "Product Name    : ACME 9260\nSerial No       : SV1\n\n                Device Present\n"
        "                ================\nVirtual Drives    : 1 \n  Degraded        : 0 \n"
        "  Offline         : 0 \nPhysical Devices  : 5 \n  Disks           : 4 \n"
        "  Critical Disks  : 0 \n  Failed Disks    : 0 \n"
        f"Memory Uncorrectable Errors : 0\n{_MEGACLI_DONE}"),
    ),
    "raid.megaraid.megacli.parse_addresses": (
        ("PCI information for Controller 0\n--------------------\nVendor Id       : 1000"
        "\nBus Number      : 6\nDevice Number   : 0\nFunction Number : 0\nDevice Interface: PCIE\n"
        f"{_MEGACLI_DONE}"),
    ),
    "raid.megaraid.megacli.parse_rebuilds": (
        ("Rebuild Progress on Device at Enclosure 252, Slot 3 Completed 38% in 12 Minutes.\n"
        f"Device(Encl-252 Slot-4) is not in rebuild process\n{_MEGACLI_DONE}"),
    ),
    "raid.megaraid.megacli.parse_log": (
        ("\nseqNum: 0x00000003\nTime: Mon Jun  1 10:00:00 2026\n\nCode: 0x00000071\nClass: 0\n"
        "Locale: 0x02\nEvent Description: Unexpected sense: PD 04(e0xfc/s1), CDB: 28 00, Sense:"
        f" 3/11/00\nEvent Data:\n===========\nDevice ID: 4\n{_MEGACLI_DONE}"),
    ),
    "raid.megaraid.storcli.parse_list": (
        storcli_texts.TEXT,
        _storcli({"Number of Controllers": 1, "System Overview": [{"Ctl": 0, "Hlth": "Opt"}]}),
    ),
    "raid.megaraid.storcli.parse_progress": (
        _storcli([{"Drive-ID": "/c0/e252/s1", "Progress%": 42, "Status": "In progress"}]),
    ),
    "raid.megaraid.storcli.parse_patrol_read": (
        _storcli({"Controller Properties": [{"Ctrl_Prop": "PR Current State", "Value": "Active"}]}),
    ),
    "raid.megaraid.storcli.parse_consistency_check": (
        _storcli({"Controller Properties": [{"Ctrl_Prop": "CC Current State", "Value": "Active"}]}),
    ),
    "raid.megaraid.storcli_volumes.parse_topology": (storcli_texts.TEXT,),
    "raid.mpt.sasircu.parse_display": (printed.HEALTHY["sas2ircu"]["display"],),
    "raid.megaraid.storcli_volumes.parse_foreign": (
        _storcli({"Total foreign Drive Groups": 0}),
        _storcli({"FOREIGN CONFIGURATION": [{"DG": 0, "EID:Slot": "252:1", "Type": "RAID0",
                                             "State": "Frgn", "Size": "1.0 TB"}],
                  "Total foreign Drive Groups": 1}),
    ),
    "zfs.arc.parse_arcstats": (
        kstat.arcstats(size=9 << 30, c=9 << 30, c_min=1 << 30, c_max=16 << 30),
        kstat.named({"size": 9 << 30, "c": 9 << 30, "c_min": 1 << 30, "c_max": 16 << 30}),
    ),
    "zfs.kstat.parse_named": (kstat.named({"size": 9, "c": 8}),),
    "zfs.kstat.taken_nanoseconds": (kstat.named({"size": 9, "c": 8}),),
    "zfs.txgs.parse_txgs": (kstat.txgs(syncing_seconds=4.0),),
    "zfs.pool_space.parse_space": ("199447543808\t162000000000\t37447543808\t31\n",),
    "zfs.vdevs.parse_pool": (
        (
            "  pool: c0\n state: DEGRADED\n  scan: none requested\nconfig:\n\n"
            "\tNAME          STATE     READ WRITE CKSUM  SLOW\n"
            "\tc0            DEGRADED     0     0     0     -\n"
            "\t  mirror-0    DEGRADED     0     0     0     -\n"
            "\t    /dev/sda1 ONLINE       0     0     0     0\n"
            "\t    /dev/sdb1 FAULTED      2     0    33     0  too many errors\n\n"
            "errors: No known data errors\n"
        ),
    ),
    "smart.members.parse_scan": (
        ('{"smartctl": {"version": [7, 3]}, "devices": [{"name": "/dev/bus/0", "type":'
        ' "megaraid,8", "protocol": "SCSI"}, {"name": "/dev/sda", "type": "scsi"}]}'),
    ),
}  # fmt: skip
"""Texts, by parser, that tests join from parts."""


@dataclass(frozen=True)
class Parser:
    """One parser, as a function of the text alone, and its declared errors."""

    name: str
    parse: Callable[[str], object]
    errors: tuple[type[Exception], ...]

    def result(self, text: str) -> object:
        """Return what it makes of a text, None if it refuses it as declared."""
        try:
            return self.parse(text)
        except self.errors:
            return None

    @property
    def room(self) -> str:
        """The folder below collectors that has it: 'raid.areca'; '' for collectors itself."""
        module = self.name.partition(" ")[0].split(".")[:-2]
        return ".".join(module)

    @functools.cached_property
    def texts(self) -> tuple[str, ...]:
        """Texts that it accepts: BUILT, and those literals of which it makes most."""
        sizes: dict[str, int] = {}
        is_of_tool = " " in self.name  # what a tool prints has several lines
        for text in _literals(self.room):
            if is_of_tool and "\n" not in text:
                continue
            result = self.result(text)
            if is_of_tool and not getattr(result, "outputs", True):
                continue  # it says only that it is of another tool
            if result not in (None, "", (), [], {}):
                sizes[text] = len(repr(result))
        best = sorted(sizes, key=lambda text: (-sizes[text], text))
        return (*BUILT.get(self.name, ()), *best[:MAX_TEXTS])


@functools.cache
def parsers() -> tuple[Parser, ...]:
    """Return all parsers; one that takes the tool is several, one for each tool."""
    folder, found = TOP / "collectors", []
    for path in sorted(folder.rglob("*.py")):
        place = ".".join(path.relative_to(folder).with_suffix("").parts)
        if path.name == "__init__.py":
            continue
        module = importlib.import_module(f"iowarden.collectors.{place}")
        for name, function in inspect.getmembers(module, inspect.isfunction):
            is_here = function.__module__ == module.__name__ and f"{place}.{name}" != _BY_KIND
            if is_here and _is_parser(name, function):
                found += _parsers_of(f"{place}.{name}", function)
    return tuple(found)


_BY_KIND: Final = "tool_output.controllers.parse_controllers"
"""tool_output.parse.parse calls it, for some of the tools."""


def _is_parser(name: str, function: Callable[..., object]) -> bool:
    declares = re.search(r"Errors:.*\bParseError\b", inspect.getdoc(function) or "", re.DOTALL)
    is_named = name.startswith("parse") or name == "from_json" or declares is not None
    return is_named and not name.startswith("_") and _text_of(function) is not None


def _text_of(function: Callable[..., object]) -> inspect.Parameter | None:
    """Return the parameter that is the text: 'text', or the first one."""
    parameters = inspect.signature(function).parameters
    text = parameters.get("text") or next(iter(parameters.values()), None)
    return text if text is not None and text.annotation in {"str", "bytes"} else None


def _parsers_of(name: str, function: Callable[..., object]) -> Iterator[Parser]:
    text = _text_of(function)
    assert text is not None
    others = [one for one in inspect.signature(function).parameters.values() if one != text]
    arguments = {
        other.name: _ARGUMENTS[other.name]
        for other in others
        if other.default is other.empty and other.annotation != "Tool"
    }
    errors = (ParseError, ValueError) if "ValueError" in (function.__doc__ or "") else (ParseError,)
    encodes = text.annotation == "bytes"

    def parse(content: str, **more: object) -> object:
        whole = content.encode(errors="surrogatepass") if encodes else content
        return function(**{text.name: whole}, **arguments, **more)

    if all(other.annotation != "Tool" for other in others):
        yield Parser(name, parse, errors)
        return
    for tool in Tool:
        yield Parser(f"{name} {tool}", functools.partial(parse, kind=tool), errors)


@functools.cache
def _literals_of(path: Path) -> frozenset[str]:
    """Return the texts of a file, which several rooms have."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
            value = node.value
            found.add(value if isinstance(value, str) else value.decode("latin-1"))
    return frozenset(found)


@functools.cache
def _literals(room: str) -> tuple[str, ...]:
    """Return the texts that the tests of a room's parsers have, and the machines they share."""
    tests = TOP / "tests/collectors" / room.replace(".", "/")
    folders = [tests, *tests.parents]
    folders = [*folders[: folders.index(TOP / "tests")], TOP / "tests/support"]
    paths = [path for folder in folders for path in sorted(folder.glob("*.py"))]
    paths += sorted((TOP / "tests/daemon/check").glob("*.py"))
    found = set().union(*map(_literals_of, paths))
    for texts in printed.HEALTHY.values():
        found.update(texts.values())
    found.update(map(str, machine.files(2).values()))
    return tuple(sorted(text for text in found if 0 < len(text) <= MAX_CHARACTERS))


ODD: Final = (
    *("\n", "\r", "\t", "\v", "\x00", "\x1c", "\x85", "\u2028", "\udc80", "٣", "²", "é"),
    *(
        "-1",
        "+1",
        "01",
        "1_0",
        "0x",
        "1e999",
        "NaN",
        "Infinity",
        "9" * 5000,
        "18446744073709551616",
    ),
    *(
        "null",
        "true",
        "[]",
        "{}",
        '""',
        "[",
        "]",
        "{",
        "}",
        "(",
        ")",
        '"',
        "\\",
        ":",
        "=",
        "%",
        "/",
    ),
)
"""What replaces a word: ends of lines that only Python knows, numbers that are none, brackets."""


def damaged(text: str, others: tuple[str, ...], draw: random.Random) -> str:
    """Return a text after one to three damages, with words of it and of other texts."""
    for _ in range(draw.choice((1, 1, 2, 3))):
        text = _DAMAGES[draw.randrange(len(_DAMAGES))](text, others, draw)
    return text


def _span(text: str, draw: random.Random, longest: int) -> tuple[int, int]:
    begin = draw.randrange(len(text) + 1)
    return begin, min(len(text), begin + draw.randrange(longest))


def _replaced(text: str, others: tuple[str, ...], draw: random.Random) -> str:
    begin, end = _span(text, draw, 12)
    return text[:begin] + draw.choice(ODD) + text[end:]


def _spliced(text: str, others: tuple[str, ...], draw: random.Random) -> str:
    other = draw.choice(others)
    begin, end = _span(text, draw, 40)
    first, last = _span(other, draw, 80)
    return text[:begin] + other[first:last] + text[end:]


def _word_replaced(text: str, others: tuple[str, ...], draw: random.Random) -> str:
    """Replace a whole word or number: what is damaged there reaches the conversions."""
    begin = draw.randrange(len(text) + 1)
    word = _WORD.search(text, begin)
    if word is None:
        return text
    return text[: word.start()] + draw.choice(ODD) + text[word.end() :]


def _cut(text: str, others: tuple[str, ...], draw: random.Random) -> str:
    begin, end = _span(text, draw, 200)
    return text[:begin] if draw.random() < 0.2 else text[:begin] + text[end:]


def _lines_moved(text: str, others: tuple[str, ...], draw: random.Random) -> str:
    lines = text.splitlines(keepends=True) or [""]
    first, second = draw.randrange(len(lines)), draw.randrange(len(lines))
    lines[first] = draw.choice((lines[second], "", lines[first] * 2, lines[first].strip()))
    return "".join(lines)


_WORD = re.compile(r"\w+")
_DAMAGES: Final = (_replaced, _spliced, _word_replaced, _word_replaced, _cut, _lines_moved)


PUMPS: Final = tuple(" \t\n0aA:=([{|/.-,'\"\\")
"""What a line gets thousands of: each is repeated by a pattern of some parser."""


def pumped(text: str, count: int) -> Iterator[Callable[[int], str]]:
    """Yield ways to make a text longer without an end, at most `count` of them."""
    lines = text.split("\n")
    places = sorted({0, len(text), *(m.end() for m in re.finditer(r"\s+|[:=(\[\"]", text))})
    ways = [(place, pump) for place in places for pump in PUMPS]
    for place, pump in ways[:: max(1, len(ways) // count)]:
        yield lambda size, at=place, what=pump: text[:at] + what * size + text[at:]
    yield lambda size: text * (size // max(1, len(text)) + 1)
    for line in {*lines}:
        row = f"{line}\n"
        yield lambda size, row=row: text + row * (size // len(row) + 1)
