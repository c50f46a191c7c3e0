"""Parsers of storcli, perccli and their version 2 (MegaRAID controllers). Pure.

Output is JSON ('J') or text; text is parsed into the same tree (`storcli_text`). Arrays are in
`storcli_volumes`, disks in `storcli_disks`; `storcli_answer` splits the output into answers.
Source: published outputs of storcli 1.x, 7.x, perccli and storcli2 (8.x), and their legends for the
states; states without a capture are marked.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import ParseError
from iowarden.collectors.raid import output, states
from iowarden.collectors.raid.controller import (
    Battery,
    ComponentHealth,
    ComponentState,
    Controller,
    PhysicalDisk,
    Sensor,
)
from iowarden.collectors.raid.megaraid.storcli_answer import (
    CELSIUS,
    StorcliAnswer,
    Tree,
    flattened,
    not_answered,
    objects,
    parse_answers,
    parse_whole,
    rows_of,
    slot_of,
    text_of,
)
from iowarden.collectors.raid.megaraid.storcli_disks import disks_of
from iowarden.collectors.raid.megaraid.storcli_volumes import (
    drive_groups,
    members_of,
    volume_name,
    volumes_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

VENDOR = "megaraid"
_BATTERY_STATES = {
    **states.LEARNING,
    "optimal": ComponentHealth.OK,
    "charging": ComponentHealth.BUSY,
    "dgd": ComponentHealth.DEGRADED,
    "degraded": ComponentHealth.DEGRADED,
    "failed": ComponentHealth.FAILED,
    "critical": ComponentHealth.FAILED,
    "missing": ComponentHealth.FAILED,
    "msng": ComponentHealth.FAILED,
}
"""Only 'Optimal' was seen; others are from manuals. 'Dgd (Needs Attention)' is not among them."""
_CONTROLLER_STATES = {
    "optimal": ComponentHealth.OK,
    "ok": ComponentHealth.OK,
    "degraded": ComponentHealth.DEGRADED,
    "failure": ComponentHealth.FAILED,
    "failed": ComponentHealth.FAILED,
}
_PATROL_STATES = {
    "stopped": ComponentHealth.OK,
    "aborted": ComponentHealth.OK,
    "ready": ComponentHealth.OK,
    "disabled": ComponentHealth.OK,
    "active": ComponentHealth.BUSY,
    "paused": ComponentHealth.BUSY,
    "suspended": ComponentHealth.BUSY,
}
"""'Stopped' and 'Active' were seen."""
_ENCLOSURE_STATES = {**states.UNREPORTED, "ok": ComponentHealth.OK}
_FLAGS = (
    "any offline vd cache preserved",
    "controller has booted into safe mode",
    "controller must be rebooted to complete security operation",
    "controller shutdown required",
    "failed to get lock key on bootup",
    "memory uncorrectable errors",
)
"""Flags that should be 'No', or 0."""
_ADAPTERS = frozenset({"mpt3sas", "mpt2sas"})
"""Drivers of cards that report no state of a disk, and expose all disks to the host."""
_PATH = lazy_pattern(r"/c\d{1,3}(?:/e(\d{1,5}))?/s(\d{1,4})", re.ASCII)
_DATE = lazy_pattern(
    r"(?:(?P<month>\d{2})/(?P<day>\d{2})/(?P<year>\d{4})"
    r"|(?P<year_>\d{4})/(?P<month_>\d{2})/(?P<day_>\d{2})),?\s{1,4}"
    r"(?P<hour>\d{2}):(?P<minute>\d{2}):(?P<second>\d{2})",
    re.ASCII,
)
_PCI = lazy_pattern(r"([0-9a-f]{2,8}):([0-9a-f]{2}):([0-9a-f]{2}):0?([0-7])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ListedController:
    """A RAID controller that the program lists, by the number of '/c0'.

    Fields: `disks` and `volumes` are its counts, `not_optimal` the count of volumes that are not
    optimal; '' if not reported.
    """

    number: int
    model: str
    serial: str
    disks: str = ""
    volumes: str = ""
    not_optimal: str = ""


@dataclass(frozen=True, slots=True)
class ControllerReport:
    """A controller, and data for further queries.

    Fields: `address` is that of its PCI slot as in sysfs, '' if not reported; `clock_seconds` is
    its clock, read as if it were UTC; `running`: a task runs at an optimal array; `bare`: a disk is
    in no enclosure, and '/eall/sall' does not list it.
    """

    controller: Controller
    address: str = ""
    clock_seconds: float | None = None
    running: bool = False
    bare: bool = False


@dataclass(frozen=True, slots=True)
class StorcliProgress:
    """Progress of a task of a disk (`slot`) or an array (`array`), if reported."""

    slot: str
    array: str
    operation: str
    done_ratio: float | None


def parse_list(text: str, read_errors: list[str] | None = None) -> tuple[ListedController, ...]:
    """Parse the RAID controllers that 'show' lists; plain adapters are left out.

    A program that finds none prints 'Failure', or lists 0. Errors and `read_errors`: see
    `output.readable`.
    """
    answers = parse_answers(text)
    rows = [
        row
        for answer in answers
        for name in ("system overview", "system overview table")
        for row in rows_of(answer.data.get(name))
    ]
    found = {each.number: each for each in output.readable(rows, _listed, read_errors)}
    lost = [reason for answer in answers for reason in answer.read_errors]
    if lost and (read_errors is None or not found):
        raise ParseError(lost[0])
    if read_errors is not None:
        read_errors += lost
    none = re.compile(r"no controller found|number of controllers", re.IGNORECASE)
    told = any(
        "number of controllers" in each.data or none.match(each.description) for each in answers
    )
    if not found and not told:
        raise output.refused("storcli show", "'System Overview'", answers[0].description)
    return tuple(found.values())


def _listed(row: Tree) -> ListedController:
    number = text_of(row, "ctl", "ctrl")
    if not re.fullmatch(r"\d{1,3}", number, re.ASCII):
        raise output.refused("storcli show", "a number of a controller", str(row))
    return ListedController(
        int(number),
        text_of(row, "model", "product name"),
        text_of(row, "serialnumber"),
        text_of(row, "pds"),
        text_of(row, "vds"),
        text_of(row, "vnopt"),
    )


def uncounted(
    program: str, found: Controller, disks: str, volumes: str, not_optimal: str
) -> tuple[str, ...]:
    """Return the reasons where 'show' counts more than a controller lists.

    Source: its legend (PDs, VDs, VNOpt). That PDs are disks, without the enclosures, was seen in
    one published output (SAS3108, 12 of 12).
    """
    drives = [each for each in found.arrays if each.name.startswith("virtual drive")]
    ill = sum(each.state.health is not ComponentHealth.OK for each in drives)
    return tuple(
        reason
        for what, counted, listed in (
            ("disks", disks, len(found.disks)),
            ("virtual drives", volumes, len(drives)),
            ("virtual drives that are not optimal", not_optimal, ill),
        )
        for reason in output.unlisted(f"{program} show", what, counted, listed)
    )


def parse_controllers(text: str, prefix: str = "megaraid c") -> dict[int, ControllerReport]:
    """Parse the controllers of 'show all', or 'show', by number. Errors: ParseError.

    If a queried controller answers only with a failure, it is refused; of several such answers each
    is left out.
    """
    answers = parse_answers(text)
    found = {
        answer.number or 0: _controller_report(answer, f"{prefix}{answer.number or 0}")
        for answer in answers
        if text_of(answer.data, "product name") or isinstance(answer.data.get("basics"), dict)
    }
    if not found:
        raise not_answered("storcli /cN show all", "a controller", answers)
    return found


def _controller_report(answer: StorcliAnswer, name: str) -> ControllerReport:
    data = answer.data
    flat = flattened({key: each for key, each in data.items() if not isinstance(each, list)})

    def told(*keys: str) -> str:
        return next((flat[key] for key in keys if flat.get(key)), "")

    driver = told("driver name")
    adapter = driver in _ADAPTERS
    groups, missing = drive_groups(data, adapter=adapter)
    unread = [*answer.read_errors, *(error for error in answer.errors if "/s" in error)]
    disks = disks_of(data, unread, adapter=adapter)
    slots = members_of(data, disks)
    arrays = (
        *(replace(each, slots=slots.get(each.name, ())) for each in groups),
        *volumes_of(data, slots, driver, unread),
    )
    foreign = [disk for disk in disks if disk.usage == "foreign"]
    volumes = sum(each.name.startswith("virtual drive") for each in arrays)
    for what, expected, listed in (
        ("disks", told("physical drives"), len({disk.slot for disk in disks})),
        ("virtual drives", told("virtual drives"), volumes),
    ):
        number = re.fullmatch(r"\d{1,4}", expected, re.ASCII)
        if number and int(expected) != listed:
            unread.append(f"expected {expected} {what}, got {listed}: the others are unknown")
        elif expected and not number:
            unread.append(f"expected a number of {what}, got '{expected}'")
    if answer.text and arrays and not disks and not told("physical drives"):
        unread.append("expected 'Physical Drives = <n>', got none: its disks are unknown")
    memory = told("on board memory size")
    megabytes = told("ddr memory size(mib)")
    own = Controller(
        name=name,
        vendor=VENDOR,
        model=told("model", "product name"),
        serial=told("serial number"),
        firmware=told(
            "firmware package build", "fw package build", "package version", "firmware version"
        ),
        state=_controller_state(flat, answer.errors, foreign),
        memory_bytes=output.size_bytes(memory or (megabytes and f"{megabytes} MB"), 1024) or None,
        arrays=arrays,
        disks=(*disks, *missing),
        batteries=_batteries(data, flat),
        sensors=_sensors(data, flat),
        read_errors=tuple(unread),
    )
    clocks = ("current controller date/time", "controller time")
    dates = (flat[key] for key in flat if key.startswith(clocks))
    return ControllerReport(
        own,
        pci_address(told("pci address")),
        next((at for each in dates if (at := clock_seconds(each)) is not None), None),
        any(text_of(row, "bt").casefold() == "y" for row in rows_of(data.get("topology"))),
        any(disk.slot.startswith("slot ") for disk in disks),
    )


def _controller_state(
    flat: Mapping[str, str], errors: Sequence[str], foreign: Sequence[PhysicalDisk]
) -> ComponentState | None:
    word = flat.get("controller status", "")
    state = states.classify(word, _CONTROLLER_STATES) if word else None
    wrong = [
        f"{flag}: {flat[flag]}"
        for flag in _FLAGS
        if flat.get(flag, "No").casefold() not in {"no", "0", "na", "n/a", "-"}
    ]
    wrong += [error for error in errors if "/s" not in error]
    if foreign:
        wrong.append(f"{len(foreign)} disks of another configuration (foreign)")
    if not wrong:
        return state
    health = state.health if state else ComponentHealth.OK
    told = "; ".join(filter(None, (state.word if state else "", *wrong)))
    return ComponentState(
        ComponentHealth.ATTENTION if health is ComponentHealth.OK else health, told[:300]
    )


def _batteries(data: Tree, flat: Mapping[str, str]) -> tuple[Battery, ...]:
    found: list[Battery] = []
    for key in ("cachevault_info", "bbu_info", "energy pack info"):
        for row in rows_of(data.get(key)):
            word = text_of(row, "state", "status")
            state = states.classify(word, _BATTERY_STATES)
            name = text_of(row, "model") or f"{text_of(row, 'type')} {text_of(row, 'subtype')}"
            found.append(
                Battery(
                    name.strip() or "battery",
                    state,
                    states.ready(state.health, word),
                    temperature_celsius=output.leading(
                        CELSIUS, text_of(row, "temp", "temperature(c)")
                    ),
                )
            )
    present = flat.get("hwcfg bbu", "").casefold()
    if not found and present == "absent":
        return (Battery("battery", ComponentState(ComponentHealth.ABSENT, "Absent")),)
    if not found and present == "present":
        # Present without further data: it is unknown whether it can protect the cache.
        told = f"Present, BBU Status {flat.get('bbu status', '?')}, no state"
        return (Battery("battery", ComponentState(ComponentHealth.ATTENTION, told), None),)
    return tuple(found)


def _sensors(data: Tree, flat: Mapping[str, str]) -> tuple[Sensor, ...]:
    found: list[Sensor] = []
    for key, value in flat.items():
        # 'Celcius' in some versions.
        named = re.fullmatch(r"(?:hwcfg )?(\w{1,10}) temperature\((?:degree cel[sc]ius|c)\)", key)
        if named and (celsius := output.number(value)) is not None:
            sensor = Sensor(f"{named[1]} temperature", temperature_celsius=celsius)
            found += [sensor] if sensor not in found else []
    for name in ("enclosure list", "enclosure information"):
        for row in rows_of(data.get(name)):
            state = states.classify(text_of(row, "state"), _ENCLOSURE_STATES)
            found.append(Sensor(f"enclosure {text_of(row, 'eid')}", state))
    return tuple(found)


def parse_progress(text: str) -> tuple[StorcliProgress, ...]:
    """Parse the running tasks of 'show rebuild', 'show copyback', 'show cc', 'show bgi' etc.

    Tasks that do not run are left out. An answer without rows is refused. Errors: ParseError.
    """
    found: list[StorcliProgress] = []
    answers = parse_whole(text)
    rows = [row for answer in answers for row in objects(answer.data) if "progress%" in row]
    for row in rows:
        status = text_of(row, "status").casefold()
        if status.startswith("not") or status in {"", "-"}:
            continue
        percent = re.fullmatch(r"(\d{1,3}) ?%?", text_of(row, "progress%"), re.ASCII)
        drive = _PATH.fullmatch(text_of(row, "drive-id"))
        number = text_of(row, "vd") or text_of(row, "vd-id").rpartition("/v")[2]
        named = re.fullmatch(r"\d{1,4}", number, re.ASCII)
        found.append(
            StorcliProgress(
                output.slot_name(drive[1] or "", drive[2])
                if drive
                else slot_of(text_of(row, "eid:slt")),
                volume_name(int(number)) if named else "",
                text_of(row, "operation"),
                output.ratio(percent),
            )
        )
    if not rows:
        raise not_answered("storcli", "'Progress%'", answers)
    return tuple(found)


def with_progress(controller: Controller, progress: Iterable[StorcliProgress]) -> Controller:
    """Return a controller with the progress of tasks at its disks and arrays."""
    disks = {each.slot: each for each in progress if each.slot}
    arrays = {each.array: each for each in progress if each.array}

    def running(state: ComponentState, found: StorcliProgress | None) -> ComponentState:
        if found is None:
            return state
        word = f"{state.word}, {found.operation}" if found.operation else state.word
        health = ComponentHealth.BUSY if state.health is ComponentHealth.OK else state.health
        return ComponentState(health, word, found.done_ratio)

    return replace(
        controller,
        disks=tuple(
            replace(each, state=replace(each.state, done_ratio=disks[each.slot].done_ratio))
            if each.slot in disks
            else each
            for each in controller.disks
        ),
        arrays=tuple(
            replace(each, state=running(each.state, arrays.get(each.name)))
            for each in controller.arrays
        ),
    )


def parse_patrol_read(text: str) -> Sensor:
    """Parse the state of 'show patrolread'. Errors: ParseError."""
    return _scheduled(text, "patrol read", "PR Current State", "patrolread")


def parse_consistency_check(text: str) -> Sensor:
    """Parse the state of the scheduled check, of '/cN show cc'. Errors: ParseError."""
    return _scheduled(text, "consistency check", "CC Current State", "cc")


def _scheduled(text: str, name: str, wanted: str, command: str) -> Sensor:
    answers = parse_whole(text)
    for answer in answers:
        for row in objects(answer.data):
            if text_of(row, "ctrl_prop").casefold() == wanted.casefold():
                return Sensor(name, states.classify(text_of(row, "value"), _PATROL_STATES))
    raise not_answered(f"storcli /cN show {command}", f"'{wanted}'", answers)


def parse_battery(text: str) -> Battery:
    """Parse the tables of '/cN/cv show [all]' and '/cN/bbu show [all]'. Errors: ParseError.

    Source: storcli's reference manual, CacheVault and BBU commands. A property of `_BATTERY_YES`
    is a fault if it is 'Yes', one of `_BATTERY_OK` if it is not 'OK'.
    """
    answers = parse_whole(text)
    values: dict[str, str] = {}
    for answer in answers:
        for row in objects(answer.data):
            if name := text_of(row, "property").casefold():
                values.setdefault(name, text_of(row, "value"))
    word = values.get("state") or values.get("battery state") or values.get("nvcache state")
    if not word:
        # Without 'all' it is the row that '/cN show all' has as well; a property is no battery.
        rows = () if values else answers
        listed = [each for answer in rows for each in _batteries(answer.data, {})]
        if not listed:
            raise not_answered("storcli /cN/cv show all", "'State'", answers)
        return listed[0]
    state = states.classify(word, _BATTERY_STATES)
    odd = [f"{name}: {values[name]}" for name in _BATTERY_YES if values.get(name) == "Yes"]
    odd += [
        f"{name}: {values[name]}" for name in _BATTERY_OK if values.get(name, "OK") not in _FINE
    ]
    if odd:
        health = ComponentHealth.ATTENTION if state.health in states.WELL else state.health
        state = ComponentState(health, "; ".join((word, *odd))[:300])
    return Battery(
        values.get("type") or "battery",
        state,
        states.ready(state.health, word),
        temperature_celsius=output.leading(CELSIUS, values.get("temperature", "").replace(" ", "")),
    )


_BATTERY_YES = (
    *("replacement required", "battery replacement required", "battery pack missing"),
    *("no space to cache offload", "remaining capacity low", "learn cycle timeout"),
    *("i2c errors detected", "pack is about to fail & should be replaced"),
)
_BATTERY_OK = ("voltage", "learn cycle status", "nvcache state")
_FINE = frozenset({"OK", "Ok", "Optimal", "", "-", "N/A"})


def pci_address(text: str) -> str:
    """Parse '00:3b:00:00' (domain, bus, device, function) as '0000:3b:00.0', '' without one."""
    found = _PCI.fullmatch(text.strip())
    return f"{int(found[1], 16):04x}:{found[2]}:{found[3]}.{found[4]}".lower() if found else ""


def clock_seconds(text: str) -> float | None:
    """Parse '05/19/2023, 19:18:24' or '2025/02/03 22:50:27' as if it were UTC."""
    found = _DATE.fullmatch(" ".join(text.split()))
    if found is None:
        return None
    told = [found[name] or found[f"{name}_"] for name in ("year", "month", "day")]
    return output.clock_seconds((*told, found["hour"], found["minute"], found["second"]))
