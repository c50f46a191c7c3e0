"""Parser of 'arcconf GETCONFIG' (Adaptec's RAID controllers). Pure.

Logical devices are parsed in `arcconf_arrays`, disks in `arcconf_disks`, the output of other
commands in `arcconf_status`; `arcconf_output` splits the output into blocks.

Source: published outputs of arcconf, from the 2020ZCR (2004) to the SmartRAID 3200; states without
such an output from Microchip's guide of the tool ("Smart Controller Device Status") and Adaptec's
guide of its storage manager ("Status Reporting").
Units: an MB is 2^20 bytes there, whatever the label: 953869 MB is a disk of 1 TB.
Limits: arcconf prints 'Command completed successfully.' also for a card that it cannot reach.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from dataclasses import field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.raid import output, states
from iowarden.collectors.raid.adaptec.arcconf_arrays import ENTITY, arrays_of, disk_cache_of
from iowarden.collectors.raid.adaptec.arcconf_disks import DEVICE, devices_of, disks_of, reported
from iowarden.collectors.raid.adaptec.arcconf_output import (
    CONTROLLERS_FOUND,
    DEGREES,
    Block,
    blocks_of,
    completed,
    megabytes,
    serial_of,
    titled,
)
from iowarden.collectors.raid.controller import (
    Battery,
    ComponentHealth,
    ComponentState,
    Controller,
    ControllerArray,
    PhysicalDisk,
    Sensor,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_CONTROLLER_STATES = {
    **states.DEAD,
    "optimal": ComponentHealth.OK,
    "okay": ComponentHealth.OK,
    "ok": ComponentHealth.OK,
    "degraded": ComponentHealth.DEGRADED,
    "down/offline": ComponentHealth.FAILED,
    "controller lockup error": ComponentHealth.FAILED,
}
"""'Inaccessible' is refused: what is listed below it, mostly nothing, is not reliable."""
_BATTERY_STATES = {
    **states.LEARNING,
    "optimal": ComponentHealth.OK,
    "okay": ComponentHealth.OK,
    "ok": ComponentHealth.OK,
    "ready": ComponentHealth.OK,
    "fully charged": ComponentHealth.OK,
    "charging": ComponentHealth.BUSY,
    "recharging": ComponentHealth.BUSY,
    "not ready": ComponentHealth.DEGRADED,
    "failed": ComponentHealth.FAILED,
    "not installed": ComponentHealth.ABSENT,
    "not present": ComponentHealth.ABSENT,
}
_CACHE_STATES = {
    "ok": ComponentHealth.OK,
    "not configured": ComponentHealth.ABSENT,
    "not present": ComponentHealth.ABSENT,
    "temporarily disabled": ComponentHealth.DEGRADED,
    "permanently disabled": ComponentHealth.FAILED,
}
_SENSOR_STATES = {
    **states.UNREPORTED,
    "normal": ComponentHealth.OK,
    "optimal": ComponentHealth.OK,
    "ok": ComponentHealth.OK,
    "failed": ComponentHealth.FAILED,
}
_NO_WORD = frozenset({"unknown", "not supported"})
"""State of a sensor that cannot be read. Observed for fans of hosts without a fault."""
_SPINNING = lazy_pattern(r"(\d{1,6}) rpm\b", re.ASCII | re.IGNORECASE)
_PCI = lazy_pattern(
    r"([0-9a-f]{1,4}):([0-9a-f]{1,2}):([0-9a-f]{1,2}):([0-7])", re.ASCII | re.IGNORECASE
)
_MAX_HEADINGS = 20_000
"""A disk has about ten headings."""


@dataclass(frozen=True, slots=True)
class ArcconfConfig:
    """Parsed output of 'GETCONFIG'.

    Fields: `slots`, by channel and device as 'GETLOGS' names disks; `pci_address` as in sysfs, ''
    where this version does not report it; `lists_disks`: the heading for disks is present.
    """

    controller: Controller
    slots: Mapping[tuple[int, int], str] = field(default_factory=dict)
    pci_address: str = ""
    lists_disks: bool = True


def parse_count(text: str) -> int:
    """Return the number of controllers, from the first lines of 'GETVERSION', 'LIST' and others.

    Errors: ParseError.
    """
    plain = completed("GETVERSION", text)
    found = CONTROLLERS_FOUND.search(plain)
    if found is None:
        raise output.refused("arcconf GETVERSION", "'Controllers found: <n>'", text)
    return int(found[1])


def parse_config(text: str, name: str) -> ArcconfConfig:
    """Parse 'GETCONFIG n AL', or a part of it: 'AD', 'LD', 'PD', 'AR'.

    Limits: only some versions report the error counts of a disk; for others 'GETLOGS' has them.
    Errors: ParseError, also where arcconf cannot reach the controller.
    """
    blocks = list(blocks_of(completed("GETCONFIG", text)))
    sections = {block.section for block in blocks} - {""}
    about = titled(blocks, "controller information")
    if not sections or (sections == {"controller"} and not about.get("controller status")):
        raise output.refused(
            "arcconf GETCONFIG", "information of a controller, of logical or physical devices", text
        )
    if about.get("controller status").casefold() == "inaccessible":
        raise output.refused(
            "arcconf GETCONFIG", "a controller that answers it (is arcconf too old for it?)", text
        )
    if len(blocks) > _MAX_HEADINGS:
        raise output.refused(
            "arcconf GETCONFIG", f"at most {_MAX_HEADINGS} headings", f"{len(blocks)} of them"
        )
    unread = _merged(blocks)
    disks, slots, serials, caches = disks_of(blocks, unread)
    arrays, members = arrays_of(blocks, slots, serials)
    arrays = [replace(each, disk_cache=disk_cache_of(each, caches, blocks)) for each in arrays]
    parents = {each.slot: members.get(each.slot, each.array) for each in disks}
    memory = about.get("installed memory") or titled(blocks, "cache properties").get("cache memory")
    found = Controller(
        name=name,
        vendor="adaptec",
        model=output.excerpt(about.get("controller model")),
        serial=serial_of(about.get("controller serial number")),
        firmware=output.excerpt(titled(blocks, "controller version information").get("firmware")),
        state=_controller_state(about, blocks, arrays, disks),
        memory_bytes=megabytes(memory),
        arrays=tuple(arrays),
        disks=tuple(replace(each, array=parents[each.slot]) for each in disks),
        batteries=tuple(_batteries(blocks)),
        sensors=(*_controller_sensors(about, blocks), *_enclosure_sensors(blocks)),
        read_errors=(*output.summarize(unread), *_unlisted(about, blocks, arrays)),
    )
    address = _PCI.fullmatch(about.get(*(key for key, _ in about.pairs if "pci address" in key)))
    return ArcconfConfig(
        found,
        slots,
        f"{address[1]:0>4}:{address[2]:0>2}:{address[3]:0>2}.{address[4]}".lower()
        if address
        else "",
        "physical" in sections,
    )


def at_host(config: ArcconfConfig, host: str) -> Controller:
    """Return the controller at 'host2', its disks with smartctl's device type for that host.

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


def _controller_state(
    about: Block, blocks: list[Block], arrays: list[ControllerArray], disks: list[PhysicalDisk]
) -> ComponentState | None:
    """Return a controller's state: attention if it counts faults that nothing else reports.

    A missing disk need not be listed.
    """
    word = about.get("controller status")
    if not word:
        return None
    state = states.classify(output.excerpt(word), _CONTROLLER_STATES)
    told = _counts(about, blocks)
    ill = re.fullmatch(r"\d{1,6}/(\d{1,6})/(\d{1,6})", told, re.ASCII)
    odd = []
    if told and not ill:
        odd.append(f"logical devices/failed/degraded: expected counts, got {output.excerpt(told)}")
    known = sum(each.state.health not in states.WELL for each in arrays)
    if ill and int(ill[1]) + int(ill[2]) > known:
        odd.append(f"{int(ill[1])} failed and {int(ill[2])} degraded logical devices")
    defunct = about.get("defunct disk drive count")
    known = sum(
        each.state.health in {ComponentHealth.FAILED, ComponentHealth.ATTENTION} for each in disks
    )
    if re.fullmatch(r"\d{1,6}", defunct, re.ASCII) and int(defunct) > known:
        odd.append(f"{int(defunct)} defunct disks")
    elif defunct and not re.fullmatch(r"\d{1,6}", defunct, re.ASCII):
        odd.append(f"defunct disks: expected a count, got {output.excerpt(defunct)}")
    checksum = about.get("nvram checksum status")
    if checksum and checksum.casefold() not in {"passed", "not applicable", "not available"}:
        odd.append(f"NVRAM checksum {output.excerpt(checksum)}")
    return states.downgraded(state, odd)


def _unlisted(about: Block, blocks: list[Block], arrays: list[ControllerArray]) -> tuple[str, ...]:
    """Return the reason if the controller counts logical devices but lists none.

    Limits: one of a few may be missing in the list; this was observed for a controller without a
    fault.
    """
    counted = re.match(r"(\d{1,6})/", _counts(about, blocks), re.ASCII)
    listed = any(each.name.startswith("logical ") for each in arrays)
    parts = {block.section for block in blocks} & {"logical", "physical"}
    if listed or not parts or counted is None or not int(counted[1]):
        return ()
    return (f"expected {counted[1]} logical devices, got none: they are unknown",)


def _counts(about: Block, blocks: list[Block]) -> str:
    """Parse '2/0/1': the numbers of logical devices, of failed ones and of degraded ones."""
    key = "logical devices/failed/degraded"
    return about.get(key, "logical drives/offline/critical") or titled(
        blocks, "raid properties"
    ).get(key)


_STATUS = frozenset({"status of logical device", "status of logical drive", "status of maxcache"})
_OF_CONTROLLER = (
    *("controller status", "defunct disk drive count"),
    *("logical devices/failed/degraded", "logical drives/offline/critical"),
)
_PLACE = frozenset({"reported channel,device(t:l)", "reported channel,device"})


def _merged(blocks: list[Block]) -> list[str]:
    """Return the reason if a line that begins a device or a logical device could not be read."""
    entities: list[list[str]] = [[]]
    for block in blocks:
        if block.section in {"logical", "maxcache"}:
            if ENTITY.fullmatch(block.title):
                entities.append([])
            entities[-1] += [key for key, _ in block.pairs]
    devices = [[key for key, _ in record.pairs] for record in devices_of(blocks)]
    lost = [
        "'arcconf GETCONFIG': expected 'Device #<n>' before 'State', got none"
        for block in itertools.takewhile(lambda each: not DEVICE.fullmatch(each.title), blocks)
        if block.section == "physical" and block.get("state")
    ]
    for block in blocks:
        if block.section != "controller" and (told := block.get(*_OF_CONTROLLER)):
            odd = f"expected 'Controller information' before '{output.excerpt(told)}', got none"
            lost.append(f"'arcconf GETCONFIG': {odd}")
        if DEVICE.fullmatch(block.title) and block.section != "physical":
            odd = "expected 'Physical Device information' before 'Device #<n>', got none"
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


def _batteries(blocks: list[Block]) -> Iterator[Battery]:
    for title, name, key in (
        ("controller battery information", "battery", "status"),
        ("controller zmm information", "ZMM", "status"),
        ("controller cache backup unit information", "backup unit", "overall backup unit status"),
        ("green backup information", "backup power", "backup power status"),
    ):
        block = titled(blocks, title)
        if not block.title:
            continue
        word = output.excerpt(block.get(key))
        state = states.classify(re.sub(r"^ZMM ", "", word, flags=re.IGNORECASE), _BATTERY_STATES)
        state = replace(state, word=word)
        for part in ("supercap status", "non-volatile storage status"):
            state = _with_part(state, part.removesuffix(" status"), block.get(part))
        odd = [
            f"{told} {output.excerpt(block.get(told))}"
            for told, fine in (("over temperature", "no"), ("hardware error", "no error"))
            if block.get(told).casefold() not in {fine, ""}
        ]
        state = states.downgraded(state, odd[:1])
        charge = re.match(r"(\d{1,3}) ", block.get("capacity remaining", "charge level"), re.ASCII)
        yield Battery(
            name,
            state,
            states.ready(state.health, word),
            output.ratio(charge),
            output.leading(DEGREES, block.get("current temperature")),
        )


def _with_part(state: ComponentState, name: str, text: str) -> ComponentState:
    """Return the state of an otherwise ready unit, lowered to the state of one of its parts."""
    part = states.classify(text, _BATTERY_STATES)
    odd = (
        [f"{name} {output.excerpt(text)}"] if text and part.health is not ComponentHealth.OK else []
    )
    return states.downgraded(
        state, odd, ComponentHealth.FAILED if part.health is ComponentHealth.ABSENT else part.health
    )


def _controller_sensors(about: Block, blocks: list[Block]) -> Iterator[Sensor]:
    if temperature := about.get("temperature"):
        yield _sensor("controller temperature", temperature)
    if cache := titled(blocks, "cache properties").get("cache status"):
        yield Sensor("cache", states.classify(output.excerpt(cache), _CACHE_STATES))
    values: dict[str, str] = {}
    for key, value in titled(blocks, "temperature sensors information").pairs:
        values[key] = value
        if key == "location":
            degrees = output.leading(DEGREES, values.get("current value", ""))
            yield Sensor(output.excerpt(f"temperature {value}"), temperature_celsius=degrees)
            values = {}


def _enclosure_sensors(blocks: list[Block]) -> tuple[Sensor, ...]:
    records = {
        (record.get("enclosure id"), reported(record).partition("(")[0]): record
        for record in devices_of(blocks)
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
                name = output.excerpt(" ".join(["enclosure", where, *filter(None, part.groups())]))
                found.setdefault(name, _sensor(name, value))
    return tuple(found.values())


def _sensor(name: str, text: str) -> Sensor:
    """Parse a sensor: '23 C/ 73 F (Normal)', '5300 rpm (Optimal)' or 'Not Installed'."""
    inner = re.search(r"\(([^()]{0,60})\)", text)
    degrees, speed = output.leading(DEGREES, text), output.leading(_SPINNING, text)
    word = inner[1] if inner else "" if degrees is not None or speed is not None else text
    state = states.classify(output.excerpt(word), _SENSOR_STATES)
    # A fan without a readable state reports 0 rpm.
    unknown = word.casefold() in _NO_WORD
    there = state.health is not ComponentHealth.ABSENT and not unknown
    return Sensor(
        name,
        state if word and not unknown else None,
        temperature_celsius=degrees if there else None,
        fan_rpm=speed if there else None,
    )
