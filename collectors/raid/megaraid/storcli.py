"""What MegaRAID controllers say of themselves and their disks, by storcli, perccli and their '2'.

Pure. Asked for JSON ('J'), or not: the text is read as the same tree (`storcli_text`). Which keys
there are differs by version and by question, so rows are found by their columns, wherever they lie.
What storcli says is read also where it says 'Failure': one dying disk, or a feature that the card
has not, makes a whole answer fail.
Source: what storcli 1.x, 7.x, perccli and storcli2 (8.x) printed on machines of others, and their
legends for the words; those that no capture has are marked.
Units: a GB there is 2^30 bytes, also where it is a 'GiB': 7499284480 sectors are '3.491 TB'.
Limits: counts of errors are since the controller started, or the disk was put in.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from iowarden.collectors.json_text import is_deep
from iowarden.collectors.model import ParseError
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
from iowarden.collectors.raid.megaraid.storcli_text import UNREAD, parse_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

VENDOR = "megaraid"

_ARRAY_WORDS = {
    **states.DEAD,
    "optl": Health.OK,
    "optimal": Health.OK,
    "pdgd": Health.DEGRADED,
    "partially degraded": Health.DEGRADED,
    "dgrd": Health.DEGRADED,
    "degraded": Health.DEGRADED,
    "ofln": Health.FAILED,
    "msng": Health.FAILED,
}
"""'Optl', 'Dgrd' and 'OfLn' were seen. 'Rec' (recovery) is not among them."""
_FOREIGN_WORDS = {**_ARRAY_WORDS, **dict.fromkeys(("optl", "optimal"), Health.ATTENTION)}
"""Of another controller's drive groups: one that could be imported waits for somebody to do it."""
_ACCESS = frozenset({"rw", "ro", "hd", "-", ""})
"""Read and write, read only, hidden: as somebody chose. 'B' (blocked) is not among them."""
_DISK_WORDS = {
    **states.DEAD,
    "onln": Health.OK,
    "ghs": Health.OK,
    "dhs": Health.OK,
    "jbod": Health.OK,
    "ugood": Health.OK,
    "cpybck": Health.REBUILDING,
    "sntze": Health.BUSY,
    "rbld": Health.REBUILDING,
    "offln": Health.FAILED,
    "ubad": Health.FAILED,
    "ubunsp": Health.FAILED,
    "msng": Health.FAILED,
}
"""'Onln', 'UGood', 'JBOD' and 'Offln' were seen. Not among them: 'UGUnsp' (unsupported), 'CFShld'
and its like (shielded: under test after errors).
"""
_CONFIGURED = frozenset({"conf", "uconf", "ghs", "dhs", "jbod"})
"""What storcli2 calls State, and is no health. 'ConfShld', 'UConfSntz', 'ConfDgrd' are not so."""
_STATUS_WORDS = {
    **states.DEAD,
    "online": Health.OK,
    "good": Health.OK,
    "copyback": Health.REBUILDING,
    "rebuild": Health.REBUILDING,
    "replace": Health.FAILING,
    "bad": Health.FAILED,
    "unusable": Health.FAILED,
}
"""What storcli2 calls Status. 'Online' and 'Good' were seen, others are of its guide."""
_USAGES = {
    "onln": "member",
    "offln": "member",
    "rbld": "member",
    "cpybck": "member",
    "conf": "member",
    "ghs": "global hot spare",
    "dhs": "dedicated hot spare",
    "ugood": "unused",
    "ubad": "unused",
    "uconf": "unused",
    "jbod": "JBOD",
}
_BATTERY_WORDS = {
    **states.LEARNING,
    "optimal": Health.OK,
    "charging": Health.BUSY,
    "dgd": Health.DEGRADED,
    "degraded": Health.DEGRADED,
    "failed": Health.FAILED,
    "critical": Health.FAILED,
    "missing": Health.FAILED,
    "msng": Health.FAILED,
}
"""Only 'Optimal' was seen; the others are of the guides. 'Dgd (Needs Attention)' is not among them.
"""
_CONTROLLER_WORDS = {
    "optimal": Health.OK,
    "ok": Health.OK,
    "degraded": Health.DEGRADED,
    "failure": Health.FAILED,
    "failed": Health.FAILED,
}
_PATROL_WORDS = {
    "stopped": Health.OK,
    "aborted": Health.OK,
    "ready": Health.OK,
    "disabled": Health.OK,
    "active": Health.BUSY,
    "paused": Health.BUSY,
    "suspended": Health.BUSY,
}
"""'Stopped' and 'Active' were seen."""
_ENCLOSURE_WORDS = {**states.UNREPORTED, "ok": Health.OK}
_HARMLESS = frozenset(
    {"command invalid", "un-supported command", "unsupported command", "none", "-", ""}
)
"""Why an answer says 'Failure' on a card that only lacks what was asked for."""
_FLAGS = (
    "any offline vd cache preserved",
    "controller has booted into safe mode",
    "controller must be rebooted to complete security operation",
    "controller shutdown required",
    "failed to get lock key on bootup",
    "memory uncorrectable errors",
)
"""What should be 'No', or 0."""
_UNFLAGGED = frozenset({"no", "n/a", "-", ""})
"""That a drive does not say that it is going to fail. Any other answer is that it does."""
_ADAPTERS = frozenset({"mpt3sas", "mpt2sas"})
"""Drivers of cards that have no word for the state of a disk, and show all to the host."""
_SWITCH = {"enbl": True, "enabled": True, "dsbl": False, "disabled": False}
"""Of the disks' own write caches. Not 'dflt', 'Disk's Default', 'Default'."""
_FORCED = frozenset({"AWB", "FWB"})
"""Write back, also without a battery: always, forced."""
_TARGETS = 128
"""Volumes are on SCSI channels 2 and 3 of 128 targets each. Source: megaraid_sas.h."""
MOST_ROWS = 4096

_SLOT = re.compile(r"(\d{0,5}) ?: ?(\d{1,4})", re.ASCII)
_DRIVE = re.compile(r"drive /c\d{1,3}(?:/e(\d{1,5}))?/s(\d{1,4})\b.*", re.ASCII)
_PATH = re.compile(r"/c\d{1,3}(?:/e(\d{1,5}))?/s(\d{1,4})", re.ASCII)
_CACHE = re.compile(r"(NR|R|ADRA)(?-i:a?),?(A?F?WB|WT)[CD]?", re.IGNORECASE)
"""'Ra' reads ahead by itself, 'RAWB' reads ahead and always writes back."""
_DATE = re.compile(
    r"(?:(?P<month>\d{2})/(?P<day>\d{2})/(?P<year>\d{4})"
    r"|(?P<year_>\d{4})/(?P<month_>\d{2})/(?P<day_>\d{2})),?\s{1,4}"
    r"(?P<hour>\d{2}):(?P<minute>\d{2}):(?P<second>\d{2})",
    re.ASCII,
)
_PCI = re.compile(r"([0-9a-f]{2,8}):([0-9a-f]{2}):([0-9a-f]{2}):0?([0-7])", re.IGNORECASE)

Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """What one controller answered, or the program itself: then `number` is None.

    Fields: `errors` are its own, harmless ones left out; `unread` are the reasons why rows of its
    tables are not read; keys in `data` are in small letters.
    """

    number: int | None
    ok: bool
    data: Tree
    description: str = ""
    errors: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    text: bool = False
    """Whether it is no JSON: nothing says where it ends."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A RAID controller that the program can ask: its number is that of '/c0'.

    Fields: `disks` and `volumes` are how many it counts, `not_optimal` how many of the volumes are
    not; '' where it does not tell.
    """

    number: int
    model: str
    serial: str
    disks: str = ""
    volumes: str = ""
    not_optimal: str = ""


@dataclass(frozen=True, slots=True)
class Told:
    """A controller, and what is of use for further questions.

    Fields: `address` is that of its PCI slot, as sysfs has it, '' where it is not told;
    `clock_seconds` is its clock, read as if it were UTC; `running`: something runs at an array that
    is whole; `bare`: a disk is in no enclosure, and '/eall/sall' does not list it.
    """

    controller: Controller
    address: str = ""
    clock_seconds: float | None = None
    running: bool = False
    bare: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """How far what runs at a disk (`slot`) or array (`array`) is, where it is told."""

    slot: str
    array: str
    operation: str
    done_ratio: float | None


def parse_answers(text: str) -> tuple[Answer, ...]:
    """Return the answers in an output, of JSON or text. Errors: ParseError."""
    plain = output.plain(text)
    as_json = '"Controllers"' in plain
    entries: list[Any] = _json(plain) if as_json else list(parse_text(plain))
    if not entries:
        raise output.refused("storcli", "'Controllers' in JSON, or 'Status = ...'", plain)
    return tuple(replace(_answer(entry), text=not as_json) for entry in entries)


def _whole(text: str) -> tuple[Answer, ...]:
    """Return answers of which each row is read. Errors: ParseError."""
    answers = parse_answers(text)
    for answer in answers:
        for reason in answer.unread:
            raise ParseError(reason)
    return answers


def _json(text: str) -> list[Any]:
    try:
        if is_deep(text):
            raise ValueError("brackets too deep in each other")
        found = json.loads(text[text.index("{") :], strict=False)
        entries = found["Controllers"]
        if not isinstance(entries, list):
            raise TypeError("'Controllers' is no list")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        message = f"JSON with 'Controllers' ({type(error).__name__}: {error})"
        raise output.refused("storcli", message, text) from None
    return entries


def _answer(entry: object) -> Answer:
    found = _small(entry)
    status = found.get("command status") if isinstance(found, dict) else None
    if not isinstance(found, dict) or not isinstance(status, dict):
        raise output.refused("storcli", "'Command Status'", str(entry)[:200])
    number = _text(status, "controller")
    data = found.get("response data")
    rows = status.get("detailed status")
    told = [_error(row) for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    description = output.printable(_text(status, "description"))
    word = _text(status, "status")
    if word.casefold() != "success" and not rows and description.casefold() in {"none", ""}:
        told.append(f"Status = {output.printable(word)}, without a reason")
    unread = data.pop(UNREAD, []) if isinstance(data, dict) else []
    return Answer(
        int(number) if re.fullmatch(r"\d{1,3}", number, re.ASCII) else None,
        word.casefold() == "success",
        data if isinstance(data, dict) else {"rows": data} if isinstance(data, list) else {},
        description,
        tuple(dict.fromkeys(each for each in told if each)),
        tuple(output.few(unread)) if isinstance(unread, list) else (),
    )


def _error(row: Tree) -> str:
    """Return what a row of 'Detailed Status' complains of, '' for nothing, or what is harmless."""
    told = output.printable(_text(row, "errmsg"))
    failed = _text(row, "status").casefold() not in {"success", "-", ""}
    if told.casefold() in _HARMLESS and not (failed and _text(row, "drive")):
        return ""
    where = output.printable(_text(row, "drive") or _text(row, "vd"))
    return f"{where} error {_text(row, 'errcd') or '?'}: {told or 'no text'}".strip()[:200]


def _small(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return JSON with keys of small letters and single blanks: versions differ in both."""
    if isinstance(value, dict):
        return {" ".join(str(key).split()).casefold(): _small(each) for key, each in value.items()}
    return [_small(each) for each in value[:MOST_ROWS]] if isinstance(value, list) else value


def parse_list(text: str, unread: list[str] | None = None) -> tuple[Listed, ...]:
    """Return the RAID controllers that 'show' lists; plain adapters it can ask are left out.

    A program that finds none says 'Failure', or lists 0. Errors and `unread`: as of
    `output.readable`.
    """
    answers = parse_answers(text)
    rows = [
        row
        for answer in answers
        for name in ("system overview", "system overview table")
        for row in _rows(answer.data.get(name))
    ]
    found = {each.number: each for each in output.readable(rows, _listed, unread)}
    lost = [reason for answer in answers for reason in answer.unread]
    if lost and (unread is None or not found):
        raise ParseError(lost[0])
    if unread is not None:
        unread += lost
    none = re.compile(r"no controller found|number of controllers", re.IGNORECASE)
    told = any(
        "number of controllers" in each.data or none.match(each.description) for each in answers
    )
    if not found and not told:
        raise output.refused("storcli show", "'System Overview'", answers[0].description)
    return tuple(found.values())


def _listed(row: Tree) -> Listed:
    number = _text(row, "ctl") or _text(row, "ctrl")
    if not re.fullmatch(r"\d{1,3}", number, re.ASCII):
        raise output.refused("storcli show", "a number of a controller", str(row))
    return Listed(
        int(number),
        output.printable(_text(row, "model") or _text(row, "product name")),
        output.printable(_text(row, "serialnumber")),
        _text(row, "pds"),
        _text(row, "vds"),
        _text(row, "vnopt"),
    )


def uncounted(
    program: str, found: Controller, disks: str, volumes: str, not_optimal: str
) -> tuple[str, ...]:
    """Return what 'show' counts and a controller does not list.

    Source: its legend (PDs, VDs, VNOpt). That PDs are disks, without the enclosures, was seen of
    one machine of others (SAS3108, 12 of 12).
    """
    drives = [each for each in found.arrays if each.name.startswith("virtual drive")]
    ill = sum(each.state.health is not Health.OK for each in drives)
    return tuple(
        reason
        for what, counted, listed in (
            ("disks", disks, len(found.disks)),
            ("virtual drives", volumes, len(drives)),
            ("virtual drives that are not optimal", not_optimal, ill),
        )
        for reason in output.unlisted(f"{program} show", what, counted, listed)
    )


def parse_controllers(text: str, prefix: str = "megaraid c") -> dict[int, Told]:
    """Return the controllers of 'show all', or 'show', by number. Errors: ParseError.

    One that answered nothing but a failure is refused, as the one that was asked; of several such
    ones each is left out.
    """
    answers = parse_answers(text)
    found = {
        answer.number or 0: _told(answer, f"{prefix}{answer.number or 0}")
        for answer in answers
        if _text(answer.data, "product name") or isinstance(answer.data.get("basics"), dict)
    }
    if not found:
        failed = "; ".join(each.description for each in answers)
        raise output.refused("storcli /cN show all", "a controller", failed)
    return found


def _told(answer: Answer, name: str) -> Told:
    data = answer.data
    flat = _flat({key: each for key, each in data.items() if not isinstance(each, list)})

    def told(*keys: str) -> str:
        return next((flat[key] for key in keys if flat.get(key)), "")

    driver = told("driver name")
    adapter = driver in _ADAPTERS
    groups, missing = _drive_groups(data, adapter=adapter)
    unread = [*answer.unread, *(error for error in answer.errors if "/s" in error)]
    disks = _disks(data, unread, adapter=adapter)
    slots = _members(data, disks)
    arrays = (
        *(replace(each, slots=slots.get(each.name, ())) for each in groups),
        *_volumes(data, slots, driver, unread),
    )
    foreign = [disk for disk in disks if disk.usage == "foreign"]
    volumes = sum(each.name.startswith("virtual drive") for each in arrays)
    for what, expected, listed in (
        ("disks", told("physical drives"), len({disk.slot for disk in disks})),
        ("virtual drives", told("virtual drives"), volumes),
    ):
        number = re.fullmatch(r"\d{1,4}", expected, re.ASCII)
        if number and int(expected) != listed:
            unread.append(f"expected {expected} {what}, got {listed}: the others are not known")
        elif expected and not number:
            unread.append(f"expected a number of {what}, got '{output.printable(expected)}'")
    if answer.text and arrays and not disks and not told("physical drives"):
        unread.append("expected 'Physical Drives = <n>', got none: its disks are not known")
    memory = told("on board memory size")
    megabytes = told("ddr memory size(mib)")
    own = Controller(
        name=name,
        vendor=VENDOR,
        model=output.printable(told("model", "product name")),
        serial=output.printable(told("serial number")),
        firmware=output.printable(
            told(
                "firmware package build", "fw package build", "package version", "firmware version"
            )
        ),
        state=_controller_state(flat, answer.errors, foreign),
        memory_bytes=output.size_bytes(memory or (megabytes and f"{megabytes} MB"), 1024) or None,
        arrays=arrays,
        disks=(*disks, *missing),
        batteries=_batteries(data, flat),
        sensors=_sensors(data, flat),
        unread=tuple(unread),
    )
    clocks = ("current controller date/time", "controller time")
    dates = (flat[key] for key in flat if key.startswith(clocks))
    return Told(
        own,
        pci_address(told("pci address")),
        next((at for each in dates if (at := clock_seconds(each)) is not None), None),
        any(_text(row, "bt").casefold() == "y" for row in _rows(data.get("topology"))),
        any(disk.slot.startswith("slot ") for disk in disks),
    )


def _controller_state(
    flat: Mapping[str, str], errors: Sequence[str], foreign: Sequence[PhysicalDisk]
) -> State | None:
    word = flat.get("controller status", "")
    state = states.judged(output.printable(word), _CONTROLLER_WORDS) if word else None
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
    health = state.health if state else Health.OK
    told = output.printable("; ".join(filter(None, (state.word if state else "", *wrong))))
    return State(Health.ATTENTION if health is Health.OK else health, told[:300])


def _batteries(data: Tree, flat: Mapping[str, str]) -> tuple[Battery, ...]:
    found: list[Battery] = []
    for key in ("cachevault_info", "bbu_info", "energy pack info"):
        for row in _rows(data.get(key)):
            word = _text(row, "state") or _text(row, "status")
            state = states.judged(output.printable(word), _BATTERY_WORDS)
            name = _text(row, "model") or " ".join(
                filter(None, (_text(row, "type"), _text(row, "subtype")))
            )
            found.append(
                Battery(
                    output.printable(name) or "battery",
                    state,
                    # It keeps the cache while its capacity is measured, or the card writes through.
                    None if word.casefold() in states.LEARNING else state.health is Health.OK,
                    temperature_celsius=_celsius(
                        _text(row, "temp") or _text(row, "temperature(c)")
                    ),
                )
            )
    present = flat.get("hwcfg bbu", "").casefold()
    if not found and present == "absent":
        return (Battery("battery", State(Health.ABSENT, "Absent")),)
    if not found and present == "present":
        # Present, and nothing told of it: nobody knows that it would keep the cache.
        status = f"BBU Status {flat.get('bbu status', '?')}"
        told = output.printable(f"Present, {status}, no state")
        return (Battery("battery", State(Health.ATTENTION, told), None),)
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
        for row in _rows(data.get(name)):
            state = states.judged(output.printable(_text(row, "state")), _ENCLOSURE_WORDS)
            found.append(Sensor(f"enclosure {output.printable(_text(row, 'eid'))}", state))
    return tuple(found)


def _drive_groups(data: Tree, *, adapter: bool) -> tuple[list[Array], list[PhysicalDisk]]:
    """Return the drive groups of the topology, and the disks that are missing in it."""
    groups: list[Array] = []
    missing: list[PhysicalDisk] = []
    for row in _rows(data.get("topology")):
        group, span = _text(row, "dg"), _text(row, "arr") or _text(row, "span")
        if _text(row, "type").casefold() == "drive":
            state = _disk_state(row, adapter=adapter)
            if state.health is Health.FAILED and not _SLOT.fullmatch(_text(row, "eid:slot")):
                place = f"drive group {group} span {span} row {_text(row, 'row')}"
                name = f"drive group {group}"
                told = PhysicalDisk(output.printable(place), state, usage="member", array=name)
                missing.append(told)
        elif span == "-" and _text(row, "row") == "-":
            word = _text(row, "state")
            # storcli2 tells no state of a group.
            health = State(Health.OK, "-") if word == "-" and "span" in row else None
            groups.append(
                Array(
                    output.printable(f"drive group {group}"),
                    health or states.judged(output.printable(word), _ARRAY_WORDS),
                    level=output.printable(_text(row, "type")),
                    size_bytes=_size(row),
                )
            )
    return groups, missing


def _volumes(
    data: Tree, slots: Mapping[str, tuple[str, ...]], driver: str, unread: list[str]
) -> Iterator[Array]:
    seen: set[str] = set()
    disk_caches = {
        f"drive group {_text(row, 'dg')}": _SWITCH.get(_text(row, "pdc").casefold())
        for row in _rows(data.get("topology"))
        if _text(row, "type").casefold() != "drive"
    }
    for row in _walk(data):
        place = re.fullmatch(r"(\d{1,4}|[-f])/(\d{1,4})", _text(row, "dg/vd").casefold(), re.ASCII)
        if "dg/vd" not in row:
            continue
        if place is None:
            wanted = "'<group>/<number>' of a virtual drive"
            unread.append(str(output.refused("storcli", wanted, str(row))))
            continue
        number = int(place[2])
        name = f"virtual drive {number}"
        if name in seen:
            continue
        seen.add(name)
        state = states.judged(output.printable(_text(row, "state")), _ARRAY_WORDS)
        access = _text(row, "access")
        if access.casefold() not in _ACCESS and state.health is Health.OK:
            state = State(Health.ATTENTION, output.printable(f"{state.word}, access {access}"))
        parent = f"drive group {int(place[1])}" if place[1].isdecimal() else ""
        yield Array(
            name,
            state,
            level=output.printable(_text(row, "type")),
            label=output.printable(_text(row, "name")),
            parent=parent,
            size_bytes=_size(row),
            slots=slots.get(parent, ()),
            address=f"{2 + number // _TARGETS}:{number % _TARGETS}:0"
            if driver == "megaraid_sas"
            else "",
            policy=_policy(
                _text(row, "currentcache") or _text(row, "cache"), _text(row, "defaultcache")
            ),
            disk_cache=disk_caches.get(parent),
        )


def _policy(current: str, default: str = "") -> Policy | None:
    """Return what 'RWBD', 'NRWTD' or 'NR,WB' mean; 'AWB' caches even without a battery."""
    if not current:
        return None
    found, set_to = _CACHE.fullmatch(current), _CACHE.fullmatch(default)
    word = output.printable(current)
    if found is None:
        return Policy(word=word)
    return Policy(
        _writes_back(found),
        found[1].upper() != "NR",
        word,
        _writes_back(set_to) if set_to else None,
        (set_to or found)[2].upper() in _FORCED,
    )


def _writes_back(found: re.Match[str]) -> bool:
    return found[2].upper().endswith("WB")


def _members(data: Tree, disks: Sequence[PhysicalDisk]) -> dict[str, tuple[str, ...]]:
    """Return the disks of each drive group: of its rows, else of the topology."""
    found: dict[str, list[str]] = {}
    for disk in disks:
        if disk.array:
            found.setdefault(disk.array, []).append(disk.slot)
    for row in _rows(data.get("topology")):
        place = _slot(_text(row, "eid:slot"))
        name = output.printable(f"drive group {_text(row, 'dg')}")
        if place and place not in found.setdefault(name, []):
            found[name].append(place)
    return {name: tuple(each) for name, each in found.items() if each}


def parse_disks(text: str) -> tuple[tuple[PhysicalDisk, ...], tuple[str, ...]]:
    """Return the disks of '/eall/sall show all' or '/sall show all', and what could not be read.

    Errors: ParseError.
    """
    answers = parse_answers(text)
    unread = [error for answer in answers for error in (*answer.unread, *answer.errors)]
    disks = [disk for answer in answers for disk in _disks(answer.data, unread, adapter=False)]
    if not disks:
        failed = "; ".join([*(each.description for each in answers), *unread])
        raise output.refused("storcli /cN/eall/sall show all", "disks", failed)
    return tuple(disks), tuple(unread)


def with_details(told: Controller, details: Iterable[PhysicalDisk]) -> Controller:
    """Return a controller with what '/eall/sall show all' says of each disk.

    A disk that only one of the two answers has is kept: it may have come or gone between them.
    """
    known = {disk.slot: disk for disk in details}
    disks = [
        replace(
            known[disk.slot],
            state=states.worse(disk.state, known[disk.slot].state),
            usage=disk.usage or known[disk.slot].usage,
            array=disk.array or known[disk.slot].array,
        )
        if disk.slot in known
        else disk
        for disk in told.disks
    ]
    had = {disk.slot for disk in told.disks}
    return replace(told, disks=(*disks, *(disk for slot, disk in known.items() if slot not in had)))


def _disks(data: Tree, unread: list[str], *, adapter: bool) -> tuple[PhysicalDisk, ...]:
    details = _details(data)
    found: dict[str, PhysicalDisk] = {}
    for row in _walk(data):
        if not ("eid:slt" in row and "state" in row and "size" in row):
            continue
        slot = _slot(_text(row, "eid:slt"))
        if not slot:
            wanted = "'<enclosure>:<slot>' of a disk"
            unread.append(str(output.refused("storcli", wanted, str(row))))
        elif slot not in found:
            found[slot] = _disk(row, slot, details.get(slot, {}), adapter=adapter)
    return tuple(found.values())


def _disk(row: Tree, slot: str, detail: Mapping[str, str], *, adapter: bool) -> PhysicalDisk:
    group = _text(row, "dg")
    number = _text(row, "did")
    foreign = group.casefold() == "f"
    state = _disk_state(row, adapter=adapter)
    if foreign and state.health is Health.OK:
        state = State(Health.ATTENTION, f"{state.word}, foreign")
    counts, odd = states.counts(
        (name.removesuffix(" count"), detail.get(name, ""))
        for name in ("media error count", "other error count", "predictive failure count")
    )
    flagged = detail.get("s.m.a.r.t alert flagged by drive", "No").casefold()
    alert = flagged not in _UNFLAGGED
    failing = alert or counts.get("predictive failure", 0) > 0
    if failing and state.health in {Health.OK, Health.BUSY, Health.REBUILDING}:
        told = "S.M.A.R.T. alert" if alert else "predictive failure"
        state = State(Health.FAILING, f"{state.word}, {told}")
    state = states.doubted(state, odd)
    return PhysicalDisk(
        slot=slot,
        state=state,
        model=output.printable(_text(row, "model") or detail.get("model number", "")),
        serial=output.printable(detail.get("sn", "") or detail.get("serial number", "")),
        firmware=output.printable(
            detail.get("firmware revision", "") or detail.get("firmware revision level", "")
        ),
        size_bytes=_size(row),
        usage="foreign" if foreign else _USAGES.get(_text(row, "state").casefold(), ""),
        array=f"drive group {int(group)}"
        if re.fullmatch(r"\d{1,4}", group, re.ASCII) and not adapter
        else "",
        kind=f"megaraid,{int(number)}"
        if re.fullmatch(r"\d{1,3}", number, re.ASCII) and not adapter
        else "",
        temperature_celsius=_celsius(
            detail.get("drive temperature", "") or detail.get("temperature(c)", "")
        ),
        errors_total=counts,
    )


def _disk_state(row: Tree, *, adapter: bool) -> State:
    word = output.printable(_text(row, "state"))
    if "status" in row:  # storcli2
        status = output.printable(_text(row, "status"))
        health = states.judged(status, _STATUS_WORDS).health
        if health is Health.OK and word.casefold() not in _CONFIGURED:
            health = Health.ATTENTION
        return State(health, f"{word}, {status}")
    if adapter and word == "-":
        return State(Health.OK, word)
    return states.judged(word, _DISK_WORDS)


def _details(data: Tree) -> dict[str, dict[str, str]]:
    """Return the pairs that answers have of each disk, by its slot. Counts of parts are added up.

    In text each of its sections stands by itself, in JSON below '... - Detailed Information'.
    """
    found: dict[str, dict[str, str]] = {}

    def add(slot: str, value: Any) -> None:  # noqa: ANN401 - JSON
        own = found.setdefault(slot, {})
        for key, told in _flat(value).items():
            own.setdefault(key, told)

    def walk(tree: Any) -> None:  # noqa: ANN401 - JSON
        if isinstance(tree, dict):
            row, detail = tree.get("drive information"), tree.get("drive detailed information")
            if isinstance(row, dict) and isinstance(detail, dict):  # storcli2
                add(_slot(_text(row, "eid:slt")), detail)
                return
            for key, each in tree.items():
                if (drive := _DRIVE.fullmatch(key)) and isinstance(each, dict):
                    add(_place(drive[1], drive[2]), each)
                else:
                    walk(each)
        elif isinstance(tree, list):
            for each in tree:
                walk(each)

    walk(data)
    return found


def parse_volumes(text: str) -> dict[str, Array]:
    """Return the virtual drives of '/vall show all' by name; `serial` is what the host sees.

    `serial` is the one that storcli2 tells, else the 'SCSI NAA Id'. Errors: ParseError.
    """
    found: dict[str, Array] = {}
    answers = _whole(text)
    for answer in answers:
        properties = _volume_properties(answer.data)
        for each in _volumes(answer.data, {}, "", []):
            told = properties.get(each.name, {})
            policy, default = each.policy, told.get("write cache(initial setting)", "")
            if policy and default:
                back = {"writeback": True, "writethrough": False, "alwayswriteback": True}
                word = re.sub(r"[^a-z]", "", default.casefold())
                policy = replace(policy, default_write_back=back.get(word))
            bad = told.get("bad block exists", told.get("bad blocks exist", "No"))
            state = each.state
            if bad.casefold() not in {"no", "-", "n/a"} and state.health is Health.OK:
                word = f"{state.word}, bad blocks exist: {bad}"
                state = State(Health.ATTENTION, output.printable(word))
            serial = told.get("serial number", "") or told.get("scsi naa id", "")
            disk_cache = told.get("disk cache policy", "") or told.get(
                "drive write cache policy", ""
            )
            found[each.name] = replace(
                each,
                policy=policy,
                state=state,
                serial=output.printable(serial),
                disk_cache=_SWITCH.get(disk_cache.casefold(), each.disk_cache),
            )
    if not found:
        failed = "; ".join(each.description for each in answers)
        raise output.refused("storcli /cN/vall show all", "virtual drives", failed)
    return found


def _volume_properties(data: Tree) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for key, each in data.items():
        named = re.fullmatch(r"vd(\d{1,4}) properties", key, re.ASCII)
        if named and isinstance(each, dict):
            found[f"virtual drive {int(named[1])}"] = _flat(each)
    for row in _rows(data.get("virtual drives")):  # storcli2
        info, told = row.get("vd info"), row.get("vd properties")
        if isinstance(info, dict) and isinstance(told, dict):
            number = _text(info, "dg/vd").partition("/")[2]
            found[f"virtual drive {number}"] = _flat(told)
    return found


def with_volumes(told: Controller, volumes: Mapping[str, Array]) -> Controller:
    """Return a controller with what '/vall show all' adds to its virtual drives."""
    arrays = [
        replace(
            each,
            policy=volumes[each.name].policy or each.policy,
            serial=volumes[each.name].serial,
            disk_cache=each.disk_cache
            if volumes[each.name].disk_cache is None
            else volumes[each.name].disk_cache,
            state=states.worse(each.state, volumes[each.name].state),
        )
        if each.name in volumes
        else each
        for each in told.arrays
    ]
    return replace(told, arrays=tuple(arrays))


def parse_progress(text: str) -> tuple[Progress, ...]:
    """Return what runs, of 'show rebuild', 'show copyback', 'show cc', 'show bgi' and their like.

    What does not run is left out. An answer without rows is refused. Errors: ParseError.
    """
    found: list[Progress] = []
    answers = _whole(text)
    rows = [row for answer in answers for row in _walk(answer.data) if "progress%" in row]
    for row in rows:
        status = _text(row, "status").casefold()
        if status.startswith("not in progress") or status in {"", "-"}:
            continue
        percent = re.fullmatch(r"(\d{1,3}) ?%?", _text(row, "progress%"), re.ASCII)
        drive = _PATH.fullmatch(_text(row, "drive-id"))
        number = _text(row, "vd") or _text(row, "vd-id").rpartition("/v")[2]
        named = re.fullmatch(r"\d{1,4}", number, re.ASCII)
        found.append(
            Progress(
                _place(drive[1], drive[2]) if drive else _slot(_text(row, "eid:slt")),
                f"virtual drive {int(number)}" if named else "",
                output.printable(_text(row, "operation")),
                min(int(percent[1]), 100) / 100 if percent else None,
            )
        )
    if not rows:
        failed = "; ".join(each.description for each in answers)
        raise output.refused("storcli", "'Progress%'", failed)
    return tuple(found)


def with_progress(told: Controller, progress: Iterable[Progress]) -> Controller:
    """Return a controller with how far is what runs at its disks and arrays."""
    disks = {each.slot: each for each in progress if each.slot}
    arrays = {each.array: each for each in progress if each.array}

    def running(state: State, found: Progress | None) -> State:
        if found is None:
            return state
        word = f"{state.word}, {found.operation}" if found.operation else state.word
        health = Health.BUSY if state.health is Health.OK else state.health
        return State(health, word, found.done_ratio)

    return replace(
        told,
        disks=tuple(
            replace(each, state=replace(each.state, done_ratio=disks[each.slot].done_ratio))
            if each.slot in disks
            else each
            for each in told.disks
        ),
        arrays=tuple(
            replace(each, state=running(each.state, arrays.get(each.name))) for each in told.arrays
        ),
    )


def parse_foreign(text: str) -> tuple[Array, ...]:
    """Return the drive groups of another controller's configuration ('/fall show'), if any.

    Each needs attention: till somebody imports or clears it, its disks cannot be used. One of
    which disks are missing has failed. Errors: ParseError.
    """
    answers = _whole(text)
    rows = [
        row
        for answer in answers
        for row in _walk(answer.data)
        if "dg" in row and "eid:slot" in row and "novds" in row
    ]
    descriptions = "; ".join(each.description for each in answers)
    named = any("total foreign drive groups" in each.data for each in answers)
    if not rows and not named and "foreign" not in descriptions.casefold():
        raise output.refused("storcli /cN/fall show", "a foreign configuration", descriptions)
    return tuple(
        Array(
            output.printable(f"foreign drive group {_text(row, 'dg')}"),
            states.judged(output.printable(_text(row, "state")), _FOREIGN_WORDS),
            level=output.printable(_text(row, "type")),
            size_bytes=_size(row) or None,
        )
        for row in rows
    )


def parse_patrol_read(text: str) -> Sensor:
    """Return the state of 'show patrolread'. Errors: ParseError."""
    answers = _whole(text)
    for answer in answers:
        for row in _walk(answer.data):
            if _text(row, "ctrl_prop").casefold() == "pr current state":
                word = output.printable(_text(row, "value"))
                return Sensor("patrol read", states.judged(word, _PATROL_WORDS))
    failed = "; ".join(each.description for each in answers)
    raise output.refused("storcli /cN show patrolread", "'PR Current State'", failed)


def pci_address(text: str) -> str:
    """Return '0000:3b:00.0' of '00:3b:00:00' (domain, bus, device, function), '' for none."""
    found = _PCI.fullmatch(text.strip())
    return f"{int(found[1], 16):04x}:{found[2]}:{found[3]}.{found[4]}".lower() if found else ""


def clock_seconds(text: str) -> float | None:
    """Return '05/19/2023, 19:18:24' or '2025/02/03 22:50:27' as if it were UTC."""
    found = _DATE.fullmatch(" ".join(text.split()))
    if found is None:
        return None
    told = [found[name] or found[f"{name}_"] for name in ("year", "month", "day")]
    try:
        parts = map(int, (*told, found["hour"], found["minute"], found["second"]))
        return datetime(*parts, tzinfo=UTC).timestamp()  # type: ignore[misc,arg-type]
    except (ValueError, OverflowError):
        return None


def _walk(tree: Any) -> Iterator[Tree]:  # noqa: ANN401 - JSON
    """Yield the objects of a tree, outer ones first."""
    if isinstance(tree, dict):
        yield tree
        for each in tree.values():
            yield from _walk(each)
    elif isinstance(tree, list):
        for each in tree:
            yield from _walk(each)


def _flat(tree: Tree) -> dict[str, str]:
    """Return the texts of a tree by their key, the first of each; counts of parts are added up.

    'BBU' of 'HwCfg' is 'hwcfg bbu': another one says whether the card could have one.
    """
    found: dict[str, str] = {}
    for key, each in tree.items():
        if isinstance(each, dict):
            for name, value in _flat(each).items():
                found.setdefault(
                    f"hwcfg {name}" if key == "hwcfg" and name == "bbu" else name, value
                )
        elif isinstance(each, list):
            parts = [_flat(part) for part in each if isinstance(part, dict)]
            for name in dict.fromkeys(name for part in parts for name in part):
                values = [part[name] for part in parts if name in part]
                counts = [int(v) for v in values if re.fullmatch(r"\d{1,15}", v, re.ASCII)]
                added = name.endswith("count") and len(counts) == len(values)
                found.setdefault(name, str(sum(counts)) if added else values[0])
        else:
            found.setdefault(key, _text(tree, key))
    return found


def _rows(value: Any) -> list[Tree]:  # noqa: ANN401 - JSON
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _text(row: Tree, key: str) -> str:
    value = row.get(key)
    plain = isinstance(value, str | int | float) and not isinstance(value, bool)
    return " ".join(str(value).split())[:400] if plain else ""


def _slot(text: str) -> str:
    found = _SLOT.fullmatch(text.strip())
    return _place(found[1], found[2]) if found else ""


def _place(enclosure: str | None, slot: str) -> str:
    """Return the place of a disk; one in no enclosure has a slot alone."""
    return f"enclosure {int(enclosure)} slot {int(slot)}" if enclosure else f"slot {int(slot)}"


def _size(row: Tree) -> int | None:
    """Return a size in bytes; 'GiB' and 'GB' are the same there."""
    return output.size_bytes(_text(row, "size").replace("iB", "B"), 1024)


def _celsius(text: str) -> float | None:
    found = re.match(r"(\d{1,3}) ?(?:C\b|$)", text.strip(), re.ASCII)
    return float(found[1]) if found else None
