"""Parsers of 'MegaCli' (LSI's MegaRAID controllers). Pure.

Source: published outputs of MegaCli 8. States that no capture has are marked.
Units: a GB is 2^30 bytes there: 0x74706db0 sectors are its '931.512 GB'.
Limits: every output must end with 'Exit Code: 0x00': a MegaCli that crashed lists fewer disks, not
failed ones. Versions before about 2009 print no such line and are refused.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import SECTOR_BYTES
from iowarden.collectors.raid import output, states
from iowarden.collectors.raid.controller import (
    Battery,
    CachePolicy,
    ComponentHealth,
    ComponentState,
    Controller,
    ControllerArray,
    PhysicalDisk,
    Sensor,
)
from iowarden.collectors.raid.megaraid import storcli_events
from iowarden.collectors.raid.megaraid.storcli_volumes import volume_address, volume_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from iowarden.collectors.raid.controller import ControllerLog

    Pair = tuple[str, str]

_ARRAY_STATES = {
    **states.DEAD,
    "optimal": ComponentHealth.OK,
    "degraded": ComponentHealth.DEGRADED,
    "partially degraded": ComponentHealth.DEGRADED,
}
"""All but 'Optimal' are from the vendor's list of states; no capture has them."""
_DISK_STATES = {
    **states.DEAD,
    "online": ComponentHealth.OK,
    "hotspare": ComponentHealth.OK,
    "jbod": ComponentHealth.OK,
    "unconfigured(good)": ComponentHealth.OK,
    "copyback": ComponentHealth.BUSY,
    "rebuild": ComponentHealth.REBUILDING,
    "unconfigured(bad)": ComponentHealth.FAILED,
}
"""'Copyback', 'Failed', 'Offline' and 'Missing' are from manuals. An offline disk belongs to an
array, and its data are stale.
"""
_USAGES = {
    "hotspare": "hot spare",
    "jbod": "JBOD",
    "unconfigured(good)": "unused",
    "unconfigured(bad)": "unused",
}
"""A disk in another known state is a member."""
_SPINDLE_STATES = frozenset({"", "spun up", "spun down"})
"""Suffixes of a state."""
_BATTERY_STATES = {
    **states.LEARNING,
    "optimal": ComponentHealth.OK,
    "operational": ComponentHealth.OK,
    "degraded": ComponentHealth.DEGRADED,
    "degraded(charging)": ComponentHealth.DEGRADED,
    "non operational": ComponentHealth.FAILED,
    "missing": ComponentHealth.FAILED,
    "failed": ComponentHealth.FAILED,
    "faulty": ComponentHealth.FAILED,
}
"""The first two were seen in captures; 'Learning', 'Missing' and 'Failed' are from memory."""
_LEARNS = {"degraded", "degraded(charging)", "non operational", "remaining capacity low: yes"}
"""What is reported while a learn cycle discharges and charges the battery: it ends by itself.

Source: check_raid, which treats any battery that charges or discharges in a learn cycle so.
"""
_BATTERY_FLAGS = {
    "battery pack missing": ComponentHealth.FAILED,
    "battery replacement required": ComponentHealth.FAILED,
    "pack is about to fail & should be replaced": ComponentHealth.FAILING,
    "remaining capacity low": ComponentHealth.DEGRADED,
    "learn cycle active": ComponentHealth.BUSY,
    "learn cycle requested": ComponentHealth.OK,
    "periodic learn required": ComponentHealth.OK,
    "transparent learn": ComponentHealth.OK,
}
"""State if the battery's firmware answers Yes; for other questions it needs attention."""
_WELL = frozenset({"no", "ok", ""})
_CHARGING = frozenset({"none", "charging", "discharging"})
_WORST = (
    ComponentHealth.FAILED,
    ComponentHealth.FAILING,
    ComponentHealth.DEGRADED,
    ComponentHealth.ATTENTION,
    ComponentHealth.REBUILDING,
    ComponentHealth.BUSY,
)
COUNTS = {
    "media error count": "media error",
    "other error count": "other error",
    "predictive failure count": "predictive failure",
}
_FORCED = {"write cache ok if bad bbu": True, "no write cache if bad bbu": False}
_PRESENT = (
    *("virtual drives", "degraded", "offline", "disks"),
    *("critical disks", "failed disks"),
)

_EXIT = lazy_pattern(r"^[ \t]*Exit Code: 0x([0-9a-fA-F]{1,8})\s*$", re.MULTILINE)
_NOT_THERE = lazy_pattern(r"required hardware component is not present", re.IGNORECASE)
_ADAPTER = lazy_pattern(r"\s*Adapter #([0-9]{1,3})\s*")
ADAPTER_HEAD = lazy_pattern(
    r"^[ \t]*(?:Adapter #|Adapter (?=[0-9]{1,3} -- )|BBU status for Adapter: )([0-9]{1,3})",
    re.MULTILINE,
)
"""Beginning of the part of one adapter in the outputs of '-aALL'."""
_OF = lazy_pattern(r"\s*Adapter[: #]{1,3}([0-9]{1,3})")
_PCI = lazy_pattern(r"\s*PCI information for Controller ([0-9]{1,3})\s*", re.IGNORECASE)
_VOLUME = lazy_pattern(
    r"\s*(CacheCade )?Virtual (?:Drive|Disk): ([0-9]{1,5}) \(Target Id: ([0-9]{1,5})\)\s*",
    re.IGNORECASE,
)
_NO_VOLUME = lazy_pattern(
    r"No Virtual Drive Configured|^Number of Virtual Disks: 0\s*$", re.MULTILINE
)
_DISK = lazy_pattern(r"\s*Enclosure Device ID\s*:", re.IGNORECASE)
_SECTORS = lazy_pattern(r".*\[0x([0-9a-fA-F]{1,16}) Sectors\]")
_DONE = lazy_pattern(r"Completed ([0-9]{1,3})\s?%.*")
_CELSIUS = lazy_pattern(r"([0-9]{1,3}) {0,3}(?:C|degree)\b")
_CLOCK = lazy_pattern(
    r"([0-9]{1,2}):([0-9]{1,2}):([0-9]{1,2})\s{1,4}([0-9]{1,2})/([0-9]{1,2}), ([0-9]{4})"
)
_REBUILD = lazy_pattern(
    r"Rebuild Progress on Device at Enclosure (\S{1,5}), Slot ([0-9]{1,4}) Completed ([0-9]{1,3})%"
)
_PROGRESS = lazy_pattern(r"[A-Z][a-z]+(?: [A-Z][a-z]+){0,3} +: +Completed .*")
_GAUGE = lazy_pattern(r"\s*(?:GasGu?a?u?ge|BBU |Exit Code:)")
_ENCLOSURE = "enclosure device id"
_RAID = {"0": "RAID0", "1": "RAID1", "5": "RAID5", "6": "RAID6"}


@dataclass(frozen=True, slots=True)
class Adapter:
    """An adapter of '-AdpAllInfo'.

    Fields: `controller` is all of it but the name; `pci_device` is the PCI device number, '0060',
    '' if not reported; `battery`: whether it has one, None if not reported; `clock_seconds` is its
    clock, read as if it were UTC.
    """

    controller: Controller
    pci_device: str = ""
    battery: bool | None = None
    clock_seconds: float | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    """Its counts below 'Device Present', by name."""


def parse_adapters(text: str) -> dict[int, Adapter]:
    """Parse the adapters of '-AdpAllInfo', by number. Errors: ParseError."""
    lines = _lines("-AdpAllInfo", text)
    found: dict[int, Adapter] = {}
    for head, below in output.blocks(lines, _ADAPTER):
        pairs = _first(_pairs(below))
        if "product name" not in pairs:
            raise output.refused(
                "MegaCli -AdpAllInfo", f"'Product Name' of adapter {head[1]}", text
            )
        found[int(head[1])] = _adapter(pairs)
    if not found:
        raise output.refused("MegaCli -AdpAllInfo", "'Adapter #0'", text)
    return found


def _adapter(pairs: Mapping[str, str]) -> Adapter:
    odd = [
        f"{name.capitalize()}: {value}"
        for name, well in (
            ("memory uncorrectable errors", "0"),
            ("any offline vd cache preserved", "No"),
        )
        if (value := pairs.get(name, well)) != well
    ]
    sensors = [
        Sensor(name, temperature_celsius=degrees)
        for key, name in (("roc temperature", "ROC"), ("controller temperature", "controller"))
        if (degrees := output.leading(_CELSIUS, pairs.get(key, ""))) is not None
    ]
    battery = pairs.get("bbu", "")
    return Adapter(
        Controller(
            name="",
            vendor="megaraid",
            model=output.printable(pairs["product name"]),
            serial=output.printable(pairs.get("serial no", "")),
            firmware=output.printable(pairs.get("fw package build", "")),
            state=ComponentState(
                ComponentHealth.ATTENTION if odd else ComponentHealth.OK,
                output.printable(", ".join(odd)),
            ),
            memory_bytes=output.size_bytes(pairs.get("memory size", ""), 1024),
            sensors=tuple(sensors),
        ),
        pairs.get("device id", "").casefold(),
        {"present": True, "absent": False}.get(battery.casefold()),
        clock_seconds(pairs.get("current time", "")),
        {
            key: int(pairs[key])
            for key in _PRESENT
            if re.fullmatch("[0-9]{1,5}", pairs.get(key, ""))
        },
    )


def uncounted(
    adapter: Adapter, arrays: Sequence[ControllerArray], disks: Sequence[PhysicalDisk]
) -> tuple[str, ...]:
    """Return faults that an adapter counts but does not list, or lists without a fault.

    Source: 'Device Present' of '-AdpAllInfo'. That 'Critical Disks' are those that predict their
    failure is unchecked.
    """

    def count(*states: str) -> str:
        return str(sum(adapter.counts.get(word, 0) for word in states))

    ill_arrays = sum(each.state.health not in states.WELL for each in arrays)
    ill_disks = sum(each.state.health not in states.WELL for each in disks)
    return tuple(
        reason
        for what, counted, listed in (
            ("virtual drives", count("virtual drives"), len(arrays)),
            ("virtual drives without redundancy", count("degraded", "offline"), ill_arrays),
            ("disks", count("disks"), len(disks)),
            (
                "disks that failed or are failing",
                count("critical disks", "failed disks"),
                ill_disks,
            ),
        )
        for reason in output.unlisted("MegaCli -AdpAllInfo", what, counted, listed)
    )


def clock_seconds(text: str) -> float | None:
    """Parse '7:43:33 3/29, 2012' as if it were UTC, None if it is no time."""
    found = _CLOCK.fullmatch(text)
    if found is None:
        return None
    return output.clock_seconds(found.group(6, 4, 5, 1, 2, 3))


def parse_addresses(text: str) -> dict[int, str]:
    """Parse the PCI address of each adapter, '0000:06:00.0', from '-AdpGetPciInfo'.

    The numbers are parsed as hexadecimal, like lspci's; no capture has one above 9. The domain is
    not reported: 0. Errors: ParseError.
    """
    found: dict[int, str] = {}
    number, parts = -1, dict[str, int]()
    for line in _lines("-AdpGetPciInfo", text):
        if head := _PCI.fullmatch(line):
            number, parts = int(head[1]), {}
        name, _, value = line.partition(":")
        if re.fullmatch(r"\s*(?:Bus|Device|Function) Number\s*", name):
            if not re.fullmatch(r"\s*[0-9a-fA-F]{1,2}\s*", value):
                raise output.refused("MegaCli -AdpGetPciInfo", "'Bus Number : <hex>'", line)
            parts[name.split()[0]] = int(value, 16)
        if len(parts) == 3 and number >= 0:
            found[number] = f"0000:{parts['Bus']:02x}:{parts['Device']:02x}.{parts['Function']:x}"
    if not found:
        raise output.refused("MegaCli -AdpGetPciInfo", "'PCI information for Controller 0'", text)
    return found


_JOINED = lazy_pattern(
    r"(?i)(?:firmware state|foreign state|error count|failure count|s\.m\.a\.r\.t alert) *:"
)
"""A line break within a value: two lines in one."""


def merged(text: str) -> list[str]:
    """Return the reason if a line, such as the first of a disk, could not be read."""
    lines = output.plain(text).splitlines()
    found = [
        output.reason("MegaCli -PDList", "one line for each", line)
        for line in lines
        if _JOINED.search(line.partition(":")[2])
    ]
    keys: list[str] = []
    for key, value in [*_pairs(lines), (_ENCLOSURE, "")]:
        if key == _ENCLOSURE or _VOLUME.fullmatch(f"{key}: {value}"):
            wanted = "'Enclosure Device ID' or 'Virtual Drive'"
            found += output.merged("MegaCli", wanted, keys, {"slot number", "state"})
            keys = []
        keys.append(key)
    return output.summarize(found)


def parse_volumes(text: str) -> tuple[ControllerArray, ...]:
    """Parse the virtual drives of '-LdPdInfo', '-LDInfo' or '-CfgDsply' of one adapter.

    `slots` are the disks listed below each. A drive that is not 'Optimal' keeps its state during a
    rebuild: the state of its disk shows the rebuild. Errors: ParseError.
    """
    lines = _lines("-LdPdInfo", text)
    _one_adapter("-LdPdInfo", lines)
    found = tuple(_volume(head, below) for head, below in output.blocks(lines, _VOLUME))
    if not found and not _NO_VOLUME.search("\n".join(lines)):
        raise output.refused("MegaCli -LdPdInfo", "'Virtual Drive: 0 (Target Id: 0)'", text)
    return found


def parse_members(text: str) -> tuple[PhysicalDisk, ...]:
    """Parse the disks that '-LdPdInfo' lists below its virtual drives. Errors: ParseError."""
    pairs = list(_pairs(_lines("-LdPdInfo", text)))
    return tuple({disk.slot: disk for disk in reversed(list(_disks(pairs)))}.values())


def _volume(head: re.Match[str], lines: Sequence[str]) -> ControllerArray:
    below = next((at for at, line in enumerate(lines) if _DISK.match(line)), len(lines))
    own = _first(_pairs(lines[:below]))
    word = own.get("state", "")
    state = states.classify(output.printable(word), _ARRAY_STATES)
    if head[1] and not word:
        state = ComponentState(
            ComponentHealth.OK, "CacheCade"
        )  # a cache on flash, whose state is not printed
    bad = own.get("bad blocks exist", "No")
    odd = [] if bad == "No" else [output.printable(f"Bad Blocks Exist: {bad}")]
    state = states.downgraded(state, odd)
    if state.health is ComponentHealth.OK and (running := _running(lines[:below])):
        state = ComponentState(ComponentHealth.BUSY, f"{state.word}, {running[0]}", running[1])
    slots = tuple(dict.fromkeys(disk.slot for disk in _disks(list(_pairs(lines[below:])))))
    drives = own.get("number of drives", "")
    if slots and re.fullmatch(r"[0-9]{1,4}", drives) and int(drives) > len(slots):
        state = states.downgraded(state, [f"Number Of Drives: {drives}, {len(slots)} listed"])
    return ControllerArray(
        name=volume_name(int(head[2])),
        state=state,
        level="CacheCade" if head[1] else _level(own),
        label=output.printable(own.get("name", "")),
        size_bytes=output.size_bytes(own.get("size", ""), 1024),
        slots=slots,
        address=volume_address(int(head[3])),
        policy=_policy(own),
        # 'Disk's Default' is neither.
        disk_cache=states.SWITCH.get(own.get("disk cache policy", "").casefold()),
    )


def _level(pairs: Mapping[str, str]) -> str:
    """Return 'RAID10' for 'Primary-1, Secondary-0, ...' and a span depth above 1."""
    word = pairs.get("raid level", "")
    found = re.fullmatch(r"Primary-([0-9]), Secondary-[0-9], .*", word)
    level = _RAID.get(found[1], "") if found else ""
    if not level:
        return output.printable(word)
    return level + ("" if pairs.get("span depth", "1") in {"0", "1"} else "0")


def _policy(pairs: Mapping[str, str]) -> CachePolicy | None:
    """Return the cache policy of an array."""
    now, wanted = (pairs.get(f"{which} cache policy", "") for which in ("current", "default"))
    words = now.split(", ")
    writes = {"WriteBack": True, "WriteThrough": False}
    if not now:
        return None
    read = {"ReadAheadNone": False, "ReadAhead": True, "ReadAdaptive": True}
    reads = [read[word] for word in words if word in read]
    return CachePolicy(
        writes.get(words[0]),
        reads[0] if reads else None,
        output.printable(now),
        writes.get(wanted.partition(",")[0]),
        next((_FORCED[word] for each in words if (word := each.casefold()) in _FORCED), None),
    )


def _running(lines: Iterable[str]) -> tuple[str, float | None] | None:
    """Return the running task of a volume and its progress."""
    for line in lines:
        if _PROGRESS.fullmatch(line.strip()):
            name, _, told = line.partition(":")
            done = _DONE.match(told.strip())
            return name.strip(), output.ratio(done)
    return None


def parse_disks(text: str) -> tuple[PhysicalDisk, ...]:
    """Parse the disks of '-PDList', '-LdPdInfo' or '-PDInfo' of one adapter; each once.

    `array` is the first virtual drive that lists the disk. Errors: ParseError.
    """
    lines = _lines("-PDList", text)
    _one_adapter("-PDList", lines)
    pairs = list(_pairs(lines))
    keys = {key for key, _ in pairs}
    none = keys <= {"exit code", "number of virtual disks"} and any(map(_ADAPTER.fullmatch, lines))
    if _ENCLOSURE not in keys and not none:
        raise output.refused("MegaCli -PDList", "'Enclosure Device ID: <n>'", text)
    found: dict[str, PhysicalDisk] = {}
    for disk in _disks(pairs):
        former = found.get(disk.slot)
        if former is None:
            found[disk.slot] = disk
        elif former.kind == disk.kind:
            worst = states.worst(former.state, disk.state)
            found[disk.slot] = replace(former, state=worst)
        else:  # two disks that report the same slot
            slot = f"{disk.slot} ({disk.kind})"
            found[slot] = replace(disk, slot=slot)
    return tuple(found.values())


def _disks(pairs: Sequence[Pair]) -> Iterator[PhysicalDisk]:
    array = ""
    block: dict[str, str] = {}
    for key, value in [*pairs, (_ENCLOSURE, "")]:
        if (head := _VOLUME.fullmatch(f"{key}: {value}")) or key == _ENCLOSURE:
            if _ENCLOSURE in block:
                yield _disk(block, array)
            block = {_ENCLOSURE: value} if not head else {}
        if head:
            array = volume_name(int(head[2]))
        elif _ENCLOSURE in block:
            block.setdefault(key, value)


def _disk(block: Mapping[str, str], array: str) -> PhysicalDisk:
    slot = output.slot_name(block[_ENCLOSURE], block.get("slot number", ""))
    number = block.get("device id", "")
    counts, odd = states.counts((name, block.get(key, "")) for key, name in COUNTS.items())
    sata = block.get("pd type", "") == "SATA"
    serial, model, revision = _inquiry(block.get("inquiry data", ""), sata=sata)
    firmware = block.get("device firmware level", revision)
    if not sata:
        serial, model = _squeezed(block.get("inquiry data", ""), firmware) or (serial, model)
    return PhysicalDisk(
        slot=slot or f"device {output.printable(number)}",
        state=_disk_state(block, counts.get("predictive failure", 0), odd),
        model=output.printable(" ".join(model.split())),
        serial=output.printable(serial),
        firmware=output.printable(firmware),
        size_bytes=_disk_bytes(block),
        usage=_usage(block),
        array=array,
        kind=f"megaraid,{int(number)}" if re.fullmatch(r"[0-9]{1,3}", number) else "",
        temperature_celsius=output.leading(_CELSIUS, block.get("drive temperature", "")),
        errors_total=counts,
    )


def _disk_state(block: Mapping[str, str], predicted: int, odd: Iterable[str]) -> ComponentState:
    word = block.get("firmware state", "")
    first, _, motor = word.partition(",")
    judged = states.classify(first, _DISK_STATES)
    runs = _DONE.match(block.get(first.strip().casefold(), ""))
    done = output.ratio(runs) if runs else judged.done_ratio
    state = ComponentState(judged.health, output.printable(word), done)
    said = []
    if motor.strip().casefold() not in _SPINDLE_STATES:
        said.append((ComponentHealth.ATTENTION, ""))
    if block.get("foreign state", "None") != "None":
        foreign = block["foreign state"]
        lost = "incomplete" in foreign.casefold()
        said.append(
            (
                ComponentHealth.FAILED if lost else ComponentHealth.ATTENTION,
                f"Foreign State: {foreign}",
            ),
        )
    if (alert := block.get("drive has flagged a s.m.a.r.t alert", "No")) != "No":
        said.append((ComponentHealth.FAILING, f"S.M.A.R.T alert: {alert}"))
    if predicted:
        said.append((ComponentHealth.FAILING, f"Predictive Failure Count: {predicted}"))
    said += [(ComponentHealth.ATTENTION, told) for told in odd]
    healths = [state.health, *(health for health, _ in said)]
    words = [state.word, *(text for _, text in said if text)]
    return ComponentState(
        next((each for each in _WORST if each in healths), state.health),
        output.printable(", ".join(filter(None, words))),
        state.done_ratio,
    )


def _usage(block: Mapping[str, str]) -> str:
    if block.get("foreign state", "None") != "None":
        return "foreign"
    word = block.get("firmware state", "").partition(",")[0].strip().casefold()
    return _USAGES.get(word, "member" if word in _DISK_STATES else "")


def _disk_bytes(block: Mapping[str, str]) -> int | None:
    """Return the size from the number of sectors, of 512 bytes unless the disk reports 4096."""
    found = _SECTORS.fullmatch(block.get("raw size", ""))
    if found is None:
        return output.size_bytes(block.get("raw size", ""), 1024)
    logical = block.get("logical sector size", "")
    return int(found[1], 16) * (int(logical) if logical == "4096" else SECTOR_BYTES)


_ATA = ((0, 20), (20, 60), (60, 68))
"""Serial number, model, firmware in the format of ATA disks. Source: ACS-3, words 10, 27 and 23."""


def _inquiry(text: str, *, sata: bool) -> tuple[str, str, str]:
    """Parse serial number, model and firmware of 'Inquiry Data', whose columns are fixed.

    A SATA disk appears with its own identity, or, with old firmware, like a SCSI disk: 8 characters
    for its vendor, 16, 4, and the rest. There 'ATA' is no vendor.
    """
    if not text.strip():
        return "", "", ""
    if sata and not text.startswith("ATA  "):
        serial, model, revision = (text[start:end].strip() for start, end in _ATA)
        return serial, model, revision
    vendor, model, revision = (text[:8].strip(), text[8:24].strip(), text[24:28].strip())
    serial = text[28:].strip()
    return serial, (model if vendor in {"", "ATA"} else f"{vendor} {model}"), revision


def _squeezed(text: str, firmware: str) -> tuple[str, str] | None:
    """Return serial number and model of 'Inquiry Data' whose blanks a paste squeezed; else None.

    The firmware stands before the serial number, and is known from a line of its own.
    """
    at = text.find(firmware, 8) if firmware else -1
    if at < 0 or text[24 : 24 + len(firmware)] == firmware or "  " in text.strip():
        return None
    return text[at + len(firmware) :].strip(), text[:at].strip().removeprefix("ATA ")


def parse_battery(text: str) -> Battery:
    """Parse the battery of '-AdpBbuCmd -GetBbuStatus'. Errors: ParseError.

    `ready` is None during a learn cycle: it is not reported whether it can protect the cache then.
    """
    plain = output.plain(text)
    if _NOT_THERE.search(plain):
        return Battery("battery", ComponentState(ComponentHealth.ABSENT, "not present"))
    lines = _lines("-AdpBbuCmd", text)
    begin = next((at for at, line in enumerate(lines) if "BBU status for Adapter" in line), None)
    if begin is None:
        raise output.refused("MegaCli -AdpBbuCmd -GetBbuStatus", "'BBU status for Adapter'", text)
    lines = lines[begin:]
    flags = next((at for at, line in enumerate(lines) if "BBU Firmware Status" in line), len(lines))
    own, all_of_it = _first(_pairs(lines[:flags])), _first(_pairs(lines))
    word = own.get("battery state", all_of_it.get("battery state"))
    said: list[tuple[ComponentHealth, str]] = []
    if word:
        state = states.classify(output.printable(word), _BATTERY_STATES)
        said.append((state.health, state.word))
    # Up to the fuel gauge, whose answers are no alarms.
    asked = itertools.takewhile(lambda line: not _GAUGE.match(line), lines[flags + 1 :])
    said += _battery_flags(_pairs(asked))
    if all_of_it.get("learn cycle active", "").casefold() == "yes":
        said = [
            (ComponentHealth.BUSY if each.casefold() in _LEARNS else health, each)
            for health, each in said
        ]
    if (good := all_of_it.get("issohgood", "Yes")) != "Yes":
        said.append((ComponentHealth.ATTENTION, f"isSOHGood: {good}"))
    if not said and flags == len(lines) and "issohgood" not in all_of_it:
        raise output.refused("MegaCli -AdpBbuCmd -GetBbuStatus", "'Battery State: <state>'", text)
    health = next((each for each in _WORST if each in {h for h, _ in said}), ComponentHealth.OK)
    charge = re.fullmatch(r"([0-9]{1,3}) ?%", all_of_it.get("relative state of charge", ""))
    return Battery(
        name="battery",
        state=ComponentState(
            health, output.printable(", ".join(filter(None, (w for _, w in said))))
        ),
        ready=None if health is ComponentHealth.BUSY else health is ComponentHealth.OK,
        charge_ratio=output.ratio(charge),
        temperature_celsius=output.leading(_CELSIUS, own.get("temperature", "")),
    )


def _battery_flags(pairs: Iterable[Pair]) -> list[tuple[ComponentHealth, str]]:
    said: list[tuple[ComponentHealth, str]] = []
    for key, value in pairs:
        answer = value.casefold()
        if answer in _WELL or key in _GAUGES or (key == "charging status" and answer in _CHARGING):
            continue
        known = _BATTERY_FLAGS if answer == "yes" else {}
        if (health := known.get(key, ComponentHealth.ATTENTION)) is not ComponentHealth.OK:
            said.append((health, f"{key}: {value}"))
    return said


_GAUGES = frozenset(
    {
        "relative state of charge",
        "charger status",
        "remaining capacity",
        "full charge capacity",
        "battery backup charge time",
    }
)
"""What may follow the questions without a fuel gauge before it."""


def parse_rebuilds(text: str) -> dict[str, float]:
    """Parse the rebuild progress by slot from '-PDRbld -ShowProg'; empty: no rebuild.

    Errors: ParseError.
    """
    lines = "\n".join(_lines("-PDRbld -ShowProg", text))
    found = {
        slot: min(int(done), 100) / 100
        for enclosure, number, done in _REBUILD.findall(lines)
        if (slot := output.slot_name(enclosure, number))
    }
    if not found and "is not in rebuild process" not in lines:
        raise output.refused("MegaCli -PDRbld -ShowProg", "'Rebuild Progress on Device ...'", text)
    return found


def parse_log(text: str, name: str) -> ControllerLog:
    """Parse '-AdpEventLog -GetLatest' of the controller `name`: events by their numbers.

    The entries have storcli's format. Errors: ParseError.
    """
    if not any(re.match(r"\s*seqNum\s*:", line) for line in _lines("-AdpEventLog", text)):
        raise output.refused("MegaCli -AdpEventLog -GetLatest", "'seqNum: 0x...'", text)
    return storcli_events.parse_events(text, name)


def _lines(command: str, text: str) -> list[str]:
    """Return the lines of a complete, successful output. Errors: ParseError."""
    plain = output.plain(text)
    codes = _EXIT.findall(plain)
    if not codes or any(int(code, 16) for code in codes):
        raise output.refused(f"MegaCli {command}", "'Exit Code: 0x00' at its end", text)
    return plain.splitlines()


def _one_adapter(command: str, lines: Sequence[str]) -> None:
    """Raise ParseError for disks of several adapters, whose slots have the same names."""
    found = {head[1] for line in lines if (head := _OF.match(line))}
    if len(found) > 1:
        raise output.refused(
            f"MegaCli {command}", "one adapter", f"adapters {', '.join(sorted(found))}"
        )


def _pairs(lines: Iterable[str]) -> Iterator[Pair]:
    """Yield lower-case names and values of lines such as 'Size                : 3.491 TB'.

    Only one blank is stripped from a value, because those of 'Inquiry Data' count.
    """
    for line in lines:
        name, colon, value = line.partition(":")
        if colon and name.strip():
            key = " ".join(name.split()).casefold()
            yield key, (value.removeprefix(" ") if key == "inquiry data" else value.strip())


def _first(pairs: Iterable[Pair]) -> dict[str, str]:
    return dict(reversed([*pairs]))
