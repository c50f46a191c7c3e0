"""What Adaptec's RAID controllers say of themselves and their disks, by 'arcconf'. Pure.

Source: what arcconf printed on machines of others, from the 2020ZCR (2004) to the SmartRAID 3200;
words that were not seen there from Microchip's guide of the tool ("Smart Controller Device Status")
and Adaptec's guide of its storage manager ("Status Reporting").
Units: an MB there is 2^20 bytes, whatever it is called: 953869 MB is a disk of 1 TB.
Limits: arcconf says 'Command completed successfully.' also of a card it cannot talk to.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.raid import output, states
from iowarden.collectors.raid.controller import (
    Array,
    Battery,
    Controller,
    Health,
    PhysicalDisk,
    Policy,
    Sensor,
    State,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_CONTROLLER_WORDS = {
    **states.DEAD,
    "optimal": Health.OK,
    "okay": Health.OK,
    "ok": Health.OK,
    "degraded": Health.DEGRADED,
    "down/offline": Health.FAILED,
    "controller lockup error": Health.FAILED,
}
"""'Inaccessible' is refused: what is listed below it, mostly nothing, is not so."""
_ARRAY_WORDS = {
    **states.DEAD,
    **states.WORKING,
    "optimal": Health.OK,
    "okay": Health.OK,
    "ok": Health.OK,
    "pending": Health.BUSY,
    "rapid parity initialization in progress": Health.BUSY,
    "rapid parity initialization pending": Health.BUSY,
    "queued for expansion": Health.BUSY,
    "sed qual in progress": Health.BUSY,
    "transforming": Health.BUSY,
    "has initializing logical device": Health.BUSY,
    "has erasing drive": Health.BUSY,
    "logical devices not contiguous": Health.OK,
    "rebuilding": Health.REBUILDING,
    "recovering": Health.REBUILDING,
    "degraded, rebuilding": Health.REBUILDING,
    "suboptimal, rebuilding": Health.REBUILDING,
    "degraded": Health.DEGRADED,
    "sub-optimal": Health.DEGRADED,
    "suboptimal": Health.DEGRADED,
    "suboptimal, fault tolerant": Health.DEGRADED,
    "critical": Health.DEGRADED,
    "interim recovery": Health.DEGRADED,
    "interim recovery mode": Health.DEGRADED,
    "ready for recovery": Health.DEGRADED,
    "ready for rebuild": Health.DEGRADED,
    "has failed physical device": Health.DEGRADED,
    "has failed logical device": Health.FAILED,
}
"""Of logical devices and of arrays. 'Impacted' is one that is checked, or is built in the
background: with a task behind it that is not known it needs attention. 'Pending': the build is
queued. 'SED Qual' is of Microchip's guide (SED support, 5.6). Of these only 'Optimal', 'Okay',
'Ok' and 'Degraded' were seen in captures.
"""
_ARRAY_GROUP_WORDS = _ARRAY_WORDS | {"failed": Health.ATTENTION}
"""Of an array that holds logical devices: by the guide 'Failed' is one that lost a disk or a
logical device, which tell more of it themselves.
"""
_TASK_WORDS = {
    **states.WORKING,
    "rebuild": Health.REBUILDING,
    "rebuilding": Health.REBUILDING,
    "build": Health.BUSY,
    "build/verify": Health.BUSY,
    "build/clear": Health.BUSY,
    "clear": Health.BUSY,
    "zero": Health.BUSY,
    "verify/fix": Health.BUSY,
    "verify with fix": Health.BUSY,
    "verify_fix": Health.BUSY,
    "copyback": Health.BUSY,
}
_DISK_WORDS = {
    **states.DEAD,
    "online": Health.OK,
    "online (jbod)": Health.OK,
    "ready": Health.OK,
    "raw": Health.OK,
    "raw (pass through)": Health.OK,
    "jbod": Health.OK,
    "hot spare": Health.OK,
    "hot-spare": Health.OK,
    "global hot-spare": Health.OK,
    "dedicated hot-spare": Health.OK,
    "pooled hot-spare": Health.OK,
    "standby hot-spare": Health.OK,
    "standby hot spare": Health.OK,
    "initializing": Health.BUSY,
    "zeroing": Health.BUSY,
    "erasing": Health.BUSY,
    "rebuilding": Health.REBUILDING,
    "predictive failure": Health.FAILING,
    "removed": Health.FAILED,
    "defunct hot-spare": Health.FAILED,
    "defunct hot spare": Health.FAILED,
}
"""The spares and 'Defunct' also of IBM's ServeRAID guide: SHS, DHS."""
_BATTERY_WORDS = {
    **states.LEARNING,
    "optimal": Health.OK,
    "okay": Health.OK,
    "ok": Health.OK,
    "ready": Health.OK,
    "fully charged": Health.OK,
    "charging": Health.BUSY,
    "recharging": Health.BUSY,
    "not ready": Health.DEGRADED,
    "failed": Health.FAILED,
    "not installed": Health.ABSENT,
    "not present": Health.ABSENT,
}
_CACHE_WORDS = {
    "ok": Health.OK,
    "not configured": Health.ABSENT,
    "not present": Health.ABSENT,
    "temporarily disabled": Health.DEGRADED,
    "permanently disabled": Health.FAILED,
}
_SENSOR_WORDS = {
    **states.UNREPORTED,
    "normal": Health.OK,
    "optimal": Health.OK,
    "ok": Health.OK,
    "failed": Health.FAILED,
}
_NO_WORD = frozenset({"unknown", "not supported"})
"""Of a sensor: whoever is asked does not know. Seen of fans of machines without a fault."""
_FOREBODING = (
    "s.m.a.r.t.",
    "pfa",
    "ssd smart trip wearout",
    "56 day warning present",
)
"""The disk itself says that it is going to fail. 'S.M.A.R.T. : No' is a good disk."""
_NOT_FOREBODING = frozenset(
    {"no", "false", "not supported", "not available", "not applicable", "unknown", "none", ""}
)
_UNCOUNTED = frozenset(
    {
        *("hot plug count", "sectors reads", "sectors read", "sectors written", "service hours"),
        # What succeeded in the end; drives count it by the million.
        *("ecc recovered read errors", "retry recovered read errors"),
        "retry recovered write errors",
    }
)
"""Of 'Device Error Counters': what is no error."""
_LOGGED = (
    *("numParityErrors", "linkFailures", "hwErrors", "abortedCmds", "mediumErrors"),
    "smartWarning",
)

_COMPLETED = re.compile(r"^[ \t]*Command completed successfully\.", re.MULTILINE | re.IGNORECASE)
_FOUND = re.compile(r"^[ \t]*Controllers found:? ?(\d{1,3})[ \t]*$", re.MULTILINE | re.IGNORECASE)
_RULE = re.compile(r"[-=]{10,}")
_SECTIONS = {
    "controller information": "controller",
    "array information": "array",
    "logical device information": "logical",
    "logical drive information": "logical",
    "physical device information": "physical",
}
_MAXCACHE = re.compile(r"maxcache(?: [0-9.]{1,8})? information", re.ASCII)
_ENTITY = re.compile(
    r"(logical device|logical drive|maxcache device|array) number (\d{1,6})", re.ASCII
)
_DEVICE = re.compile(r"device #(\d{1,6})", re.ASCII)
_CONTINUED = frozenset({"supercap information", "life-time temperature recorded"})
"""Headings within one part."""
_SEGMENT = re.compile(r"(?:group \d{1,4}, )?segment \d{1,4}|device \d{1,4}", re.ASCII)
_LOCATION = re.compile(
    r"(Enclosure|Connector)(?: |:)(\w{1,24}(?: \w{1,24}){0,3}),\s?(Slot|Device)(?: |:)(\d{1,4})",
    re.ASCII | re.IGNORECASE,
)
_CHANNEL = re.compile(r"(\d{1,3}),(\d{1,4})(?:\((\d{1,4}):(\d{1,4})\))?", re.ASCII)
_TASK = re.compile(r"\(\s*([A-Za-z][A-Za-z /_-]{0,40}?)\s*:\s*(\d{1,3})\s*%\s*\)", re.ASCII)
_DEGREES = re.compile(r"(-?\d{1,3}) (?:deg )?C\b", re.ASCII)
_SPINNING = re.compile(r"(\d{1,6}) rpm\b", re.ASCII | re.IGNORECASE)
_PCI = re.compile(
    r"([0-9a-f]{1,4}):([0-9a-f]{1,2}):([0-9a-f]{1,2}):([0-7])", re.ASCII | re.IGNORECASE
)
_MOST_SHOWN = 120
_MOST_HEADINGS = 20_000
"""A disk has about ten of them."""


@dataclass(slots=True)
class _Block:
    """The lines '<key> : <value>' below a heading. Keys are in lower case."""

    section: str
    title: str
    pairs: list[tuple[str, str]] = field(default_factory=list)

    def get(self, *keys: str) -> str:
        """Return the first value one of the keys has, '' where none has any."""
        return next((value for key, value in self.pairs if key in keys and value), "")


@dataclass(frozen=True, slots=True)
class Config:
    """What 'GETCONFIG' says.

    Fields: `slots`, by channel and device as 'GETLOGS' names disks; `pci_address` as sysfs has it,
    '' where this version does not tell; `lists_disks`: there is a heading for them.
    """

    controller: Controller
    slots: Mapping[tuple[int, int], str] = field(default_factory=dict)
    pci_address: str = ""
    lists_disks: bool = True


@dataclass(frozen=True, slots=True)
class Task:
    """What runs at a logical device, by 'GETSTATUS'. `done_ratio` None: it does not tell."""

    operation: str
    status: str
    done_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class DeviceLog:
    """The errors a controller counted, by 'GETLOGS n DEVICE'.

    Fields: totals by serial number and by channel and device; old versions tell only the latter.
    A disk without an entry had no error, or its entry was lost. `full`: there was no room for more;
    `complete`: the log says that there was. `failing` are serial numbers of disks that say that
    they are going to fail.
    """

    by_serial: Mapping[str, Mapping[str, int]]
    by_channel: Mapping[tuple[int, int], Mapping[str, int]]
    failing: frozenset[str] = frozenset()
    full: bool = False
    complete: bool = False


def parse_count(text: str) -> int:
    """Return how many controllers there are, as 'GETVERSION', 'LIST' and others begin.

    Errors: ParseError.
    """
    plain = _completed("GETVERSION", text)
    found = _FOUND.search(plain)
    if found is None:
        raise output.refused("arcconf GETVERSION", "'Controllers found: <n>'", text)
    return int(found[1])


def parse_config(text: str, name: str) -> Config:
    """Return what 'GETCONFIG n AL' says, or 'AD', 'LD', 'PD', 'AR' of a part of it.

    Limits: what a disk is counted by is told only by some versions; 'GETLOGS' tells it for others.
    Errors: ParseError, also where arcconf cannot talk to the controller.
    """
    blocks = list(_blocks(_completed("GETCONFIG", text)))
    sections = {block.section for block in blocks} - {""}
    about = _titled(blocks, "controller information")
    if not sections or (sections == {"controller"} and not about.get("controller status")):
        raise output.refused(
            "arcconf GETCONFIG", "information of a controller, of logical or physical devices", text
        )
    if about.get("controller status").casefold() == "inaccessible":
        raise output.refused(
            "arcconf GETCONFIG", "a controller it can talk to (is arcconf too old for it?)", text
        )
    if len(blocks) > _MOST_HEADINGS:
        raise output.refused(
            "arcconf GETCONFIG", f"at most {_MOST_HEADINGS} headings", f"{len(blocks)} of them"
        )
    unread = _merged(blocks)
    disks, slots, serials, caches = _disks(blocks, unread)
    arrays, members = _arrays(blocks, slots, serials)
    arrays = [replace(each, disk_cache=_disk_cache(each, caches, blocks)) for each in arrays]
    parents = {each.slot: members.get(each.slot, each.array) for each in disks}
    memory = about.get("installed memory") or _titled(blocks, "cache properties").get(
        "cache memory"
    )
    found = Controller(
        name=name,
        vendor="adaptec",
        model=_shown(about.get("controller model")),
        serial=_serial(about.get("controller serial number")),
        firmware=_shown(_titled(blocks, "controller version information").get("firmware")),
        state=_controller_state(about, blocks, arrays, disks),
        memory_bytes=_megabytes(memory),
        arrays=tuple(arrays),
        disks=tuple(replace(each, array=parents[each.slot]) for each in disks),
        batteries=tuple(_batteries(blocks)),
        sensors=(*_controller_sensors(about, blocks), *_enclosure_sensors(blocks)),
        unread=(*output.few(unread), *_unlisted(about, blocks, arrays)),
    )
    address = _PCI.fullmatch(about.get(*(key for key, _ in about.pairs if "pci address" in key)))
    return Config(
        found,
        slots,
        f"{address[1]:0>4}:{address[2]:0>2}:{address[3]:0>2}.{address[4]}".lower()
        if address
        else "",
        "physical" in sections,
    )


def at_host(config: Config, host: str) -> Controller:
    """Return the controller as it is at 'host2', its disks as smartctl asks for them there.

    Source: smartmontools, os_linux.cpp: '-d aacraid,H,L,ID' is the host, the logical unit and the
    target of a disk on channel 0. Limits: not for cards of the driver smartpqi.
    """
    kinds = {
        slot: f"aacraid,{int(host[4:])},0,{device}"
        for (channel, device), slot in config.slots.items()
        if channel == 0
    }
    disks = (replace(each, kind=kinds.get(each.slot, "")) for each in config.controller.disks)
    return replace(config.controller, host=host, disks=tuple(disks))


def parse_tasks(text: str) -> dict[str, Task]:
    """Return what runs by 'GETSTATUS n', by the name of the array. Errors: ParseError."""
    plain = _completed("GETSTATUS", text)
    found: dict[str, Task] = {}
    told = False
    for block in _blocks(plain):
        operation = block.get("current operation")
        told = told or bool(operation)
        number = block.get("logical device", "logical drive")
        if operation and operation.casefold() != "none" and re.fullmatch(r"\d{1,6}", number):
            percent = output.number(block.get("percentage complete").rstrip("% "))
            found[f"logical device {int(number)}"] = Task(
                _shown(operation),
                _shown(block.get("status")),
                None if percent is None else min(max(percent, 0.0), 100.0) / 100,
            )
    if not told:
        raise output.refused("arcconf GETSTATUS", "'Current operation : ...'", text)
    return found


def with_tasks(found: Controller, tasks: Mapping[str, Task]) -> Controller:
    """Return the controller, its arrays with what runs there.

    What runs makes an array busy that is whole, and one rebuilt that is degraded; a task nobody
    knows, or that does not get on, needs attention at an array that is whole.
    """
    return replace(
        found,
        arrays=tuple(
            replace(each, state=_at_work(each.state, tasks[each.name]))
            if each.name in tasks
            else each
            for each in found.arrays
        ),
    )


def _at_work(state: State, task: Task) -> State:
    runs = task.status.casefold() == "in progress"
    health = _TASK_WORDS.get(task.operation.casefold(), Health.ATTENTION)
    done = state.done_ratio if task.done_ratio is None else task.done_ratio
    if state.health in {Health.OK, Health.BUSY}:
        health = health if runs else Health.ATTENTION
        return State(health, f"{state.word}, {task.operation}: {task.status}", done)
    if state.health is Health.DEGRADED and runs and health is Health.REBUILDING:
        return State(health, f"{state.word}, {task.operation}: {task.status}", done)
    return replace(state, done_ratio=done)


def parse_device_log(text: str) -> DeviceLog:
    """Return what 'GETLOGS n DEVICE' counted, with 'tabular' and without. Errors: ParseError.

    Source: IBM's and IBM Cloud's notes of the tool, which show entries, not a whole listing; how a
    listing without an entry looks, is unchecked.
    """
    plain = _completed("GETLOGS", text)
    entries = _xml_entries(plain) if "<" in plain else _tabular_entries(plain)
    head, *rest = entries
    by_serial: dict[str, dict[str, int]] = {}
    by_channel: dict[tuple[int, int], dict[str, int]] = {}
    failing = set()
    for entry in rest:
        totals = {
            name: int(entry[name])
            for name in _LOGGED
            if re.fullmatch(r"\d{1,15}", entry.get(name, ""), re.ASCII)
        }
        serial = _serial(entry.get("serialNumber", ""))
        place = entry.get("channelID", ""), entry.get("deviceID", "")
        if serial:
            by_serial[serial] = totals
            if entry.get("smartError", "").casefold() == "true":
                failing.add(serial)
        elif all(re.fullmatch(r"\d{1,4}", each, re.ASCII) for each in place):
            by_channel[int(place[0]), int(place[1])] = totals
        else:
            shown = " ".join(f"{name}={value}" for name, value in entry.items())
            raise output.refused("arcconf GETLOGS", "a serial number or a channel", shown)
    if not rest and not head and _told_else(plain):
        raise output.refused("arcconf GETLOGS", "a log of errors of disks", text)
    full = head.get("tableFull", "").casefold()
    return DeviceLog(by_serial, by_channel, frozenset(failing), full == "true", full == "false")


def with_errors(found: Controller, log: DeviceLog, config: Config) -> Controller:
    """Return the controller, its disks with what the log counted of them.

    Of a log in which no entry was lost, and each is of a disk that is there, a disk without one has
    counts of 0: otherwise the first errors of a disk would be taken for old ones.
    """
    channels = {slot: place for place, slot in config.slots.items()}
    known = {each.serial for each in found.disks}
    all_known = log.by_serial.keys() <= known and log.by_channel.keys() <= config.slots.keys()
    no_errors = dict.fromkeys(_LOGGED, 0) if log.complete and all_known else {}

    def disk(each: PhysicalDisk) -> PhysicalDisk:
        place = channels.get(each.slot)
        totals = log.by_serial.get(each.serial) if each.serial else None
        if totals is None and place is not None:
            totals = log.by_channel.get(place)
        state = _foreboding(each.state, "smartError") if each.serial in log.failing else each.state
        return replace(
            each, state=state, errors_total={**each.errors_total, **(totals or no_errors)}
        )

    return replace(found, disks=tuple(map(disk, found.disks)))


def _told_else(plain: str) -> bool:
    """Return whether an output tells more than that there are controllers, and that it is done."""
    return any(_COMPLETED.sub("", _FOUND.sub("", line)).strip() for line in plain.splitlines())


def _xml_entries(plain: str) -> list[dict[str, str]]:
    return [
        dict(re.findall(r'(\w{1,40})="([^"<>]{0,200})"', tag))
        for tag in re.findall(r"<(?:ControllerLog|driveErrorEntry)\b([^<>]{0,4000})>", plain)
    ] or [{}]


def _tabular_entries(plain: str) -> list[dict[str, str]]:
    """Return the pairs ahead of the first entry, then those of each entry."""
    entries: list[dict[str, str]] = [{}]
    for line in plain.splitlines():
        if line.strip().casefold() == "driveerrorentry":
            entries.append({})
        elif pair := re.fullmatch(r"\s*(\w{1,40})[. ]{0,3}\.{4,80} ?(\S.{0,200})", line, re.ASCII):
            entries[-1][pair[1]] = pair[2].rstrip()
    return entries


def _completed(command: str, text: str) -> str:
    """Return an output that is whole. Errors: ParseError."""
    plain = output.plain(text)
    if _COMPLETED.search(plain) is None:
        raise output.refused(
            f"arcconf {command}", "'Command completed successfully.' at its end", plain
        )
    return plain


def _blocks(plain: str) -> Iterator[_Block]:
    block = _Block("", "")
    for line in plain.splitlines():
        told = " ".join(line.split())
        pair = _pair(line)
        if not told or _RULE.fullmatch(told):
            continue
        title = told.casefold()
        if pair is not None:
            block.pairs.append(pair)
        elif title not in _CONTINUED:
            yield block
            section = "maxcache" if _MAXCACHE.fullmatch(title) else _SECTIONS.get(title)
            block = _Block(section or block.section, title)
    yield block


def _pair(line: str) -> tuple[str, str] | None:
    """Return key and value of a line. Keys may have a colon: 'Channel,Device(T:L)   : 0,1(1:0)'."""
    key, colon, value = line.partition(" :")
    if not colon or (value and not value[0].isspace()):
        key, colon, value = line.partition(": ")
    if not colon or not key.strip():
        return None
    return " ".join(key.split()).casefold(), " ".join(value.split())


def _titled(blocks: list[_Block], title: str) -> _Block:
    return next((block for block in blocks if block.title == title), _Block("", ""))


def _shown(text: str) -> str:
    return output.printable(text[:_MOST_SHOWN])


def _serial(text: str) -> str:
    return "" if text.casefold() in {"not applicable", "not available", "unknown"} else _shown(text)


def _megabytes(text: str) -> int | None:
    return output.size_bytes(text, 1024) or None


def _celsius(text: str) -> float | None:
    found = _DEGREES.match(text)
    return float(found[1]) if found else None


def _controller_state(
    about: _Block, blocks: list[_Block], arrays: list[Array], disks: list[PhysicalDisk]
) -> State | None:
    """Return a controller's state: it needs attention when it counts faults nobody is told of.

    A disk that is missing need not be listed.
    """
    word = about.get("controller status")
    if not word:
        return None
    state = states.judged(_shown(word), _CONTROLLER_WORDS)
    told = _counts(about, blocks)
    ill = re.fullmatch(r"\d{1,6}/(\d{1,6})/(\d{1,6})", told, re.ASCII)
    odd = []
    if told and not ill:
        odd.append(f"logical devices/failed/degraded: expected counts, got {_shown(told)}")
    known = sum(each.state.health not in {Health.OK, Health.BUSY} for each in arrays)
    if ill and int(ill[1]) + int(ill[2]) > known:
        odd.append(f"{int(ill[1])} failed and {int(ill[2])} degraded logical devices")
    defunct = about.get("defunct disk drive count")
    known = sum(each.state.health in {Health.FAILED, Health.ATTENTION} for each in disks)
    if re.fullmatch(r"\d{1,6}", defunct, re.ASCII) and int(defunct) > known:
        odd.append(f"{int(defunct)} defunct disks")
    elif defunct and not re.fullmatch(r"\d{1,6}", defunct, re.ASCII):
        odd.append(f"defunct disks: expected a count, got {_shown(defunct)}")
    checksum = about.get("nvram checksum status")
    if checksum and checksum.casefold() not in {"passed", "not applicable", "not available"}:
        odd.append(f"NVRAM checksum {_shown(checksum)}")
    if odd and state.health is Health.OK:
        return State(Health.ATTENTION, ", ".join([state.word, *odd]))
    return state


def _unlisted(about: _Block, blocks: list[_Block], arrays: list[Array]) -> tuple[str, ...]:
    """Return that no logical devices are listed, where the controller counts some.

    Limits: one of a few may not be listed, which was seen of a controller without a fault.
    """
    counted = re.match(r"(\d{1,6})/", _counts(about, blocks), re.ASCII)
    listed = any(each.name.startswith("logical ") for each in arrays)
    parts = {block.section for block in blocks} & {"logical", "physical"}
    if listed or not parts or counted is None or not int(counted[1]):
        return ()
    return (f"expected {counted[1]} logical devices, got none: they are not known",)


def _counts(about: _Block, blocks: list[_Block]) -> str:
    """Return '2/0/1': logical devices, failed ones and degraded ones."""
    key = "logical devices/failed/degraded"
    return about.get(key, "logical drives/offline/critical") or _titled(
        blocks, "raid properties"
    ).get(key)


def _arrays(
    blocks: list[_Block],
    slots: Mapping[tuple[int, int], str],
    serials: Mapping[str, str],
) -> tuple[list[Array], dict[str, str]]:
    """Return the arrays, and which of them the disk in a slot is of: the first one."""
    cache = _titled(blocks, "cache properties")
    found: dict[str, Array] = {}
    members: dict[str, str] = {}
    entity: tuple[str, _Block] | None = None
    parts: list[_Block] = []

    def close() -> None:
        if entity is not None:
            name, main = entity
            array = _array(name, main, parts, cache, slots, serials)
            found[name] = array
            if not name.startswith("array "):
                for slot in array.slots:
                    members.setdefault(slot, name)

    for block in blocks:
        opened = _ENTITY.fullmatch(block.title)
        inside = block.section in {"array", "logical", "maxcache"}
        if opened or not inside:
            close()
            kind = opened[1].replace("drive", "device") if opened else ""
            entity = (f"{kind} {int(opened[2])}", block) if opened else None
            parts = []
        elif entity is not None:
            parts.append(block)
    close()
    return list(found.values()), members


def _array(
    name: str,
    main: _Block,
    parts: list[_Block],
    cache: _Block,
    slots: Mapping[tuple[int, int], str],
    serials: Mapping[str, str],
) -> Array:
    group = name.startswith("array ")
    word = main.get(
        "status of logical device", "status of logical drive", "status of maxcache", "status"
    )
    state = _array_state(word, _ARRAY_GROUP_WORDS if group else _ARRAY_WORDS)
    places = []
    for key, value in (pair for part in parts for pair in part.pairs):
        if _SEGMENT.fullmatch(key) is None:
            continue
        word, _, rest = value.partition("(")
        place, _, serial = rest.partition(")")
        state = _with_member(state, key, word.strip())
        if slot := _slot(place, serial.strip(), slots, serials):
            places.append(slot)
    told = main.get("drive(s) (channel,device)").split()
    places += [slot for each in told if (slot := _slot(each, "", slots, serials))]
    for key in ("failed stripes", "defunct stripes", "defunct segments"):
        odd = main.get(key).casefold() not in {"no", "", "not applicable"}
        if odd and state.health in {Health.OK, Health.BUSY}:
            # Their data are lost, and the word is 'Optimal' all the same.
            state = replace(state, health=Health.ATTENTION, word=f"{state.word}, {key}")
    parent = main.get("array")
    unique = main.get("volume unique identifier", "unique identifier")
    aacraid = not group and not main.get("volume unique identifier", "disk name")
    return Array(
        name=name,
        state=state,
        level=_shown(main.get("raid level")),
        label=_shown(
            main.get("name", "logical device name", "logical drive name", "maxcache device name")
        ),
        parent=f"array {int(parent)}" if re.fullmatch(r"\d{1,6}", parent, re.ASCII) else "",
        size_bytes=_megabytes(main.get("size", "total size")),
        slots=tuple(dict.fromkeys(places)),
        # Containers are on channel 0 (aacraid.h); that the target is its number, is unchecked.
        address=f"0:{int(name.rpartition(' ')[2])}:0"
        if aacraid and name.startswith("logical")
        else "",
        # What the driver answers for page 0x80 of its vital product data (get_container_serial of
        # aachba.c), or its NAA name without '0x'.
        serial=_serial(unique),
        policy=_policy(main, cache),
    )


def _array_state(word: str, meanings: Mapping[str, Health]) -> State:
    """Return what 'Degraded, Rebuilding ( Rebuild : 38 % )' means."""
    task = _TASK.search(word)
    if task is None:
        return states.judged(_shown(word), meanings)
    bare = _shown(" ".join(word.replace(task[0], " ").split()))
    done = min(int(task[2]), 100) / 100
    if bare.casefold() == "impacted":
        health = _TASK_WORDS.get(task[1].casefold(), Health.ATTENTION)
    else:
        health = meanings.get(bare.casefold(), Health.ATTENTION)
        runs = _TASK_WORDS.get(task[1].casefold())
        rebuilt = health is Health.DEGRADED and runs is Health.REBUILDING
        health = runs if runs and (health is Health.OK or rebuilt) else health
    return State(health, f"{bare}, {task[1]}", done)


def _with_member(state: State, segment: str, word: str) -> State:
    """Return the state of an array with a member that is not present, where it does not say so."""
    if word.casefold() == "present" or state.health not in {Health.OK, Health.BUSY}:
        return state
    health = Health.REBUILDING if word.casefold() == "rebuilding" else Health.DEGRADED
    return replace(state, health=health, word=f"{state.word}, {segment} {_shown(word)}")


def _slot(
    told: str,
    serial: str,
    slots: Mapping[tuple[int, int], str],
    serials: Mapping[str, str],
) -> str:
    """Return the slot of a segment: by its serial number, its channel, or as it is told."""
    channel = _CHANNEL.fullmatch(told)
    known = serials.get(serial) if serial else None
    if known is None and channel:
        known = slots.get((int(channel[1]), int(channel[2])))
    return known or _location(told)


def _location(told: str) -> str:
    """Return 'enclosure 0 slot 3' of 'Enclosure 0, Slot 3(Connector 1)' and the like, or ''."""
    place = _LOCATION.search(told)
    if place is None:
        return ""
    return f"{place[1]} {place[2]} {place[3]} {int(place[4])}".lower()


def _policy(main: _Block, cache: _Block) -> Policy | None:
    """Return how an array caches; new cards tell the share of writes for all of their arrays."""
    caching = main.get("caching")
    if caching:
        on = _switch(caching)
        share = re.match(r"(\d{1,3}) percent", cache.get("write cache percentage"), re.ASCII)
        wanted = (bool(int(share[1])) if share else None) if on else on
        works = cache.get("cache status").casefold() == "ok"
        return Policy(
            wanted and works,
            on if on is False else None,
            f"caching {_shown(caching)}",
            wanted,
            _switch(cache.get("no-battery write cache")),
        )
    status, mode = main.get("write-cache status"), main.get("write-cache mode")
    reads, setting = (
        main.get("read-cache status", "read-cache mode"),
        main.get("write-cache setting"),
    )
    if not (status or mode or reads or setting):
        return None
    word = _shown(setting or status or mode)
    forced = "when protected" not in setting.casefold() if _switch(setting) else None
    return Policy(_switch(status or mode), _switch(reads), word, _switch(setting), forced)


def _switch(word: str) -> bool | None:
    first = word.casefold().partition(" ")[0]
    return {"on": True, "enabled": True, "off": False, "disabled": False}.get(first)


def _disk_cache(
    array: Array, caches: Mapping[str, bool | None], blocks: list[_Block]
) -> bool | None:
    """Return whether one of an array's disks caches writes.

    Each disk tells for itself; new cards have a setting for all that are in arrays.
    """
    told = {caches.get(slot) for slot in array.slots}
    if True in told:
        return True
    if told == {False}:
        return False
    policy = _titled(blocks, "physical drive write cache policy information")
    return _switch(policy.get("configured drives"))


_Disks = tuple[
    list[PhysicalDisk], dict[tuple[int, int], str], dict[str, str], dict[str, bool | None]
]


def _disks(blocks: list[_Block], unread: list[str]) -> _Disks:
    """Return the disks, their slots by channel and device and by serial number, their caches.

    Why others cannot be read is added to `unread`. Cards with two channels list what is on both
    twice.
    """
    listed: dict[tuple[str, str, str], _Block] = {}
    for record in _devices(blocks):
        if not record.get("state") and "device is a" not in record.title:
            found = f"device {record.title}".strip()
            odd = output.refused("arcconf GETCONFIG", "'State' or 'Device is a <kind>'", found)
            unread.append(str(odd))
        if record.get("state") or "device is a hard drive" in record.title:
            place = _location(record.get("reported location"))
            key = _reported(record), record.get("serial number"), place
            well = key in listed and _disk(listed[key]).state.health is Health.OK
            if key not in listed or well:
                listed[key] = record
    often = Counter(place for *_, place in listed)
    disks: list[PhysicalDisk] = []
    slots: dict[tuple[int, int], str] = {}
    caches: dict[str, bool | None] = {}
    for key, record in listed.items():
        slot, at = key[2], _CHANNEL.match(key[0])
        if at is None and not slot:
            place = f"{record.title} {record.pairs}"
            odd = output.refused("arcconf GETCONFIG", "'Reported Channel,Device'", place)
            unread.append(str(odd))
            continue
        if at is not None:
            channel = int(at[1]), int(at[2])
            if not slot or often[slot] > 1:  # two connectors may have enclosures of one number
                slot = f"channel {channel[0]} device {channel[1]}"
            slots[channel] = slot
        disks.append(replace(_disk(record), slot=slot))
        caches[slot] = _switch(record.get("write cache"))
    twice = Counter(each.serial for each in disks)
    serials = {each.serial: each.slot for each in disks if twice[each.serial] == 1}
    return disks, slots, serials, caches


def _reported(record: _Block) -> str:
    return record.get("reported channel,device(t:l)", "reported channel,device")


_STATUS = frozenset({"status of logical device", "status of logical drive", "status of maxcache"})
_OF_CONTROLLER = (
    *("controller status", "defunct disk drive count"),
    *("logical devices/failed/degraded", "logical drives/offline/critical"),
)
_PLACE = frozenset({"reported channel,device(t:l)", "reported channel,device"})


def _merged(blocks: list[_Block]) -> list[str]:
    """Return that a device or a logical device begins with a line that is not read."""
    entities: list[list[str]] = [[]]
    for block in blocks:
        if block.section in {"logical", "maxcache"}:
            if _ENTITY.fullmatch(block.title):
                entities.append([])
            entities[-1] += [key for key, _ in block.pairs]
    devices = [[key for key, _ in record.pairs] for record in _devices(blocks)]
    lost = [
        "'arcconf GETCONFIG': expected 'Device #<n>' ahead of 'State', got none"
        for block in itertools.takewhile(lambda each: not _DEVICE.fullmatch(each.title), blocks)
        if block.section == "physical" and block.get("state")
    ]
    for block in blocks:
        if block.section != "controller" and (told := block.get(*_OF_CONTROLLER)):
            odd = f"expected 'Controller information' ahead of '{_shown(told)}', got none"
            lost.append(f"'arcconf GETCONFIG': {odd}")
        if _DEVICE.fullmatch(block.title) and block.section != "physical":
            odd = "expected 'Physical Device information' ahead of 'Device #<n>', got none"
            lost.append(f"'arcconf GETCONFIG': {odd}")
    return [*dict.fromkeys(lost)] + [
        reason
        for heading, groups, once in (
            ("'Logical device number <n>'", entities, _STATUS),
            ("'Device #<n>'", devices, _PLACE),
        )
        for keys in groups
        for reason in output.merged("arcconf GETCONFIG", heading, keys, once)
    ]


def _devices(blocks: list[_Block]) -> list[_Block]:
    """Return a block of each physical device; its title tells its parts' as well."""
    found: list[_Block] = []
    opened = False
    for block in blocks:
        if block.section != "physical":
            continue
        if _DEVICE.fullmatch(block.title):
            found.append(_Block(block.title, "", list(block.pairs)))
            opened = True
        elif block.title.startswith(("channel #", "physical device information")):
            opened = False
        elif opened:
            phy = block.title.startswith(("phy #", "device phy"))
            found[-1].title += f" {block.title}"
            found[-1].pairs += [] if phy else block.pairs
    return found


def _disk(record: _Block) -> PhysicalDisk:
    word = _shown(record.get("state"))
    state = states.judged(word, _DISK_WORDS)
    for key in _FOREBODING:
        if (told := record.get(key)).casefold() not in _NOT_FOREBODING:
            state = _foreboding(state, f"{key.upper()} {_shown(told)}")
    counters, odd = _counters(record)
    state = states.doubted(state, odd)
    parent = record.get("array")
    vendor, model = _shown(record.get("vendor")), _shown(record.get("model"))
    return PhysicalDisk(
        slot="",
        state=state,
        model=model if vendor.casefold() in {"ata", ""} else f"{vendor} {model}".strip(),
        serial=_serial(record.get("serial number")),
        firmware=_shown(record.get("firmware")),
        size_bytes=_megabytes(record.get("total size", "size")),
        usage=_shown(record.get("drive configuration type") or word),
        array=f"array {int(parent)}" if re.fullmatch(r"\d{1,6}", parent, re.ASCII) else "",
        temperature_celsius=_celsius(
            record.get("current temperature") or record.get("temperature")
        ),
        errors_total=counters,
    )


def _foreboding(state: State, why: str) -> State:
    if state.health in {Health.OK, Health.BUSY}:
        return replace(state, health=Health.FAILING, word=f"{state.word}, {why}")
    return state


def _counters(record: _Block) -> tuple[dict[str, int], list[str]]:
    """Return what a controller counted of a disk, by its words for it, and what is no number."""
    counted = re.compile(
        r"s\.m\.a\.r\.t\. warnings|.{1,40} (?:errors|error count|failures|failure count|faults)"
        r"|aborted commands?(?: count)?|smart warning count|failed (?:read|write) recovers"
    )
    return states.counts(
        (key, value)
        for key, value in record.pairs
        if counted.fullmatch(key) and key not in _UNCOUNTED
    )


def _batteries(blocks: list[_Block]) -> Iterator[Battery]:
    for title, name, key in (
        ("controller battery information", "battery", "status"),
        ("controller zmm information", "ZMM", "status"),
        ("controller cache backup unit information", "backup unit", "overall backup unit status"),
        ("green backup information", "backup power", "backup power status"),
    ):
        block = _titled(blocks, title)
        if not block.title:
            continue
        word = _shown(block.get(key))
        state = states.judged(re.sub(r"^ZMM ", "", word, flags=re.IGNORECASE), _BATTERY_WORDS)
        # It keeps the cache while its capacity is measured, or the card writes through.
        learns = word.casefold() in states.LEARNING
        state = replace(state, word=word)
        for part in ("supercap status", "non-volatile storage status"):
            state = _with_part(state, part.removesuffix(" status"), block.get(part))
        for odd, fine in (("over temperature", "no"), ("hardware error", "no error")):
            told = block.get(odd)
            if told.casefold() not in {fine, ""} and state.health in {Health.OK, Health.BUSY}:
                state = State(Health.ATTENTION, f"{word}, {odd} {_shown(told)}")
        charge = re.match(r"(\d{1,3}) ", block.get("capacity remaining", "charge level"), re.ASCII)
        yield Battery(
            name,
            state,
            None if learns or state.health is Health.ABSENT else state.health is Health.OK,
            min(int(charge[1]), 100) / 100 if charge else None,
            _celsius(block.get("current temperature")),
        )


def _with_part(state: State, name: str, told: str) -> State:
    """Return the state of a unit that is ready by its own word, as a part of it says."""
    part = states.judged(told, _BATTERY_WORDS)
    well = {Health.OK, Health.BUSY}
    if not told or part.health is Health.OK or state.health not in well:
        return state
    health = Health.FAILED if part.health is Health.ABSENT else part.health
    return State(health, f"{state.word}, {name} {_shown(told)}")


def _controller_sensors(about: _Block, blocks: list[_Block]) -> Iterator[Sensor]:
    if temperature := about.get("temperature"):
        yield _sensor("controller temperature", temperature)
    if cache := _titled(blocks, "cache properties").get("cache status"):
        yield Sensor("cache", states.judged(_shown(cache), _CACHE_WORDS))
    values: dict[str, str] = {}
    for key, value in _titled(blocks, "temperature sensors information").pairs:
        values[key] = value
        if key == "location":
            degrees = _celsius(values.get("current value", ""))
            yield Sensor(_shown(f"temperature {value}"), temperature_celsius=degrees)
            values = {}


def _enclosure_sensors(blocks: list[_Block]) -> tuple[Sensor, ...]:
    records = {
        (record.get("enclosure id"), _reported(record).partition("(")[0]): record
        for record in _devices(blocks)
        if "device is an enclosure" in record.title
    }
    ids = Counter(own for own, _ in records)
    found: dict[str, Sensor] = {}
    for (own, channel), record in records.items():
        where = own if own and ids[own] == 1 else channel
        for key, value in record.pairs:
            part = re.fullmatch(
                r"(fan|power supply) (\d{1,3}) status|(temperature) sensor status (\d{1,3})"
                r"|(temperature)(?: status)?",
                key,
                re.ASCII,
            )
            if part:
                name = _shown(" ".join(["enclosure", where, *filter(None, part.groups())]))
                found.setdefault(name, _sensor(name, value))
    return tuple(found.values())


def _sensor(name: str, told: str) -> Sensor:
    """Return a sensor of '23 C/ 73 F (Normal)', '5300 rpm (Optimal)' or 'Not Installed'."""
    inner = re.search(r"\(([^()]{0,60})\)", told)
    degrees, speed = _celsius(told), _SPINNING.match(told)
    word = inner[1] if inner else "" if degrees is not None or speed else told
    state = states.judged(_shown(word), _SENSOR_WORDS)
    # A fan nobody knows of turns 0 times a minute.
    unknown = word.casefold() in _NO_WORD
    there = state.health is not Health.ABSENT and not unknown
    return Sensor(
        name,
        state if word and not unknown else None,
        temperature_celsius=degrees if there else None,
        fan_rpm=float(speed[1]) if speed and there else None,
    )
