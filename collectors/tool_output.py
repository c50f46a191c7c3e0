"""What a tool or the kernel printed, parsed without the machine that it came from.

One text may hold several outputs of one tool, prompts between them. Each is tried with every parser
of its kind; what no parser takes, and what a parser says is missing, is `unread`: a text is never
well only because little of it could be read.
Limits: `MOST_BYTES`. A text that lacks the line with which its tool says that it is done is parsed
as far as it goes, and said to be cut.
"""

from __future__ import annotations

import enum
import itertools
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.kmsg import kernel_classifier, kernel_events, kernel_line
from iowarden.collectors.md import md_detail, mdstat
from iowarden.collectors.model import ParseError
from iowarden.collectors.raid import output, states
from iowarden.collectors.raid.adaptec import arcconf, arcconf_status
from iowarden.collectors.raid.areca import cli64, event_info
from iowarden.collectors.raid.controller import Controller, Health, State
from iowarden.collectors.raid.megaraid import (
    megacli,
    storcli,
    storcli_answer,
    storcli_disks,
    storcli_events,
    storcli_volumes,
)
from iowarden.collectors.raid.mpt import mpt_status, sasircu
from iowarden.collectors.raid.smartarray import cciss_vol_status, ssacli
from iowarden.collectors.raid.threeware import alarms, tw_cli
from iowarden.collectors.smart import smartctl, smartctl_refusal
from iowarden.collectors.smart.drive import Cover, Drive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import TypeVar

    from iowarden.collectors.event import Event
    from iowarden.collectors.raid.controller import Array, Battery, Log, PhysicalDisk, Sensor

    _T = TypeVar("_T")

MOST_BYTES = 32 * 1024 * 1024
"""Of one text; a ring of the kernel's log has 1 MiB, a journal of a week 10."""
MOST_OUTPUTS = 200
"""Of one text; what follows is not read, which is said."""
MOST_BAD_ROWS = 20
"""Rows that are put aside for the sake of the others; beyond, it is another text."""
MOST_UNREAD = 1000
"""Lines that no parser took: so many are listed."""


class Kind(enum.StrEnum):
    """Who printed a text."""

    STORCLI = "storcli"
    """Also perccli, storcli2, perccli2."""
    MEGACLI = "megacli"
    ARCCONF = "arcconf"
    SSACLI = "ssacli"
    """Also hpssacli, hpacucli."""
    CCISS = "cciss"
    """cciss_vol_status."""
    CLI64 = "cli64"
    """Also cli32, areca-cli."""
    TW_CLI = "tw_cli"
    SAS2IRCU = "sas2ircu"
    """Also sas3ircu."""
    MPT_STATUS = "mpt-status"
    SMARTCTL = "smartctl"
    MDSTAT = "mdstat"
    """/proc/mdstat."""
    MDADM = "mdadm"
    """mdadm --detail."""
    KERNEL = "kernel"
    """dmesg, the journal, syslog, '/dev/kmsg'."""


@dataclass(frozen=True, slots=True)
class Unread:
    """What of a text was not understood. `line` counts from 1; None: it is about all of it.

    `fault`: as far as it can be read it tells of one, or the text contradicts itself.
    """

    reason: str
    text: str = ""
    line: int | None = None
    fault: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """An event and the line it is from, None where that is not known."""

    event: Event
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a text says.

    Fields: `outputs` are the commands whose output was recognised; `refusals` are drives of which
    smartctl could tell nothing; `lines` is how many the kernel's log has, `others` how many of them
    are no storage event.
    """

    kind: Kind
    controllers: tuple[Controller, ...] = ()
    arrays: Mapping[str, mdstat.Array] = field(default_factory=dict)
    drives: tuple[Drive, ...] = ()
    refusals: tuple[smartctl_refusal.Refused, ...] = ()
    events: tuple[Found, ...] = ()
    outputs: tuple[str, ...] = ()
    unread: tuple[Unread, ...] = ()
    lines: int = 0
    others: int = 0


# --- from bytes


_BOMS = ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"), (b"\xef\xbb\xbf", "utf-8"))
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f\ufffd]")
_ESCAPE = re.compile(r"\x1b(?:\[[0-9;?]{0,20}[A-Za-z]|[()][0-9A-Za-z])")
"""What colours a text, or moves it about."""
_AROUND = re.compile(
    r"^(?:```\w{0,20}|\[sudo\] [^\n]*|\[?[\w.-]{1,32}@[^\n#$]{1,80}[#$](?: [^\n]*)?|\$ [^\n]*)"
    r"[ \t]*$",
    re.MULTILINE,
)
"""What a shell or a forum puts around what a tool printed; '# 1' begins a line of smartctl's."""
_MOST_CONTROLS = 0.05
"""Of all characters; serial numbers of sick disks have some."""


def decoded(content: bytes) -> str:
    """Return a text as its tool printed it: in UTF-8, or UTF-16 as other systems save it.

    What is no text has its bytes spelled out. Errors: ParseError: it is binary, or too long.
    """
    if len(content) > MOST_BYTES:
        raise ParseError(
            f"expected at most {MOST_BYTES} bytes, got more; pass the part in question"
        )
    for mark, encoding in _BOMS:
        if content.startswith(mark):
            text = content.removeprefix(mark).decode(encoding, errors="replace")
            break
    else:
        text = content.decode(errors="backslashreplace")
        damaged = len(content) - len(content.decode(errors="ignore").encode())
        if damaged > _MOST_CONTROLS * len(content):
            raise ParseError(f"expected text, got binary data, beginning {content[:16]!r}")
    if len(_CONTROLS.findall(text)) > _MOST_CONTROLS * len(text):
        raise ParseError(f"expected text, got binary data, beginning {content[:16]!r}")
    if not text.strip():
        raise ParseError("expected what a tool or the kernel printed, got nothing")
    text = re.sub(r"\r+\n?", "\n", _ESCAPE.sub("", text))
    if all(line.startswith(">") for line in text.split("\n") if line.strip()):  # quoted in a mail
        text = re.sub(r"^> ?", "", text, flags=re.MULTILINE)
    return _AROUND.sub("", text)


# --- who printed it

_SIGNS: Mapping[Kind, re.Pattern[str]] = {
    kind: re.compile(pattern, re.MULTILINE | re.ASCII)
    for kind, pattern in {
        Kind.STORCLI: r'"Controllers"\s*:|^[ \t]*(?:CLI Version = |Controller = |seqNum *: 0x)',
        Kind.MEGACLI: r"^[ \t]*(?:Adapter #\d|Adapter \d{1,3} -- |Enclosure Device ID: "
        r"|Exit Code: 0x|BBU status for Adapter: |PCI information for Controller )",
        Kind.ARCCONF: r"^Controllers [Ff]ound: \d"
        r"|^(?:Logical [Dd]evice|Physical Device) information",
        Kind.SSACLI: r"^\S.* in (?:Slot \w|Chassis Slot)|^ {2,}(?:logicaldrive|physicaldrive) ",
        Kind.CCISS: r"^/dev/\S+: \(.*\) (?:RAID|Volume|Enclosure)|^Controller: (?:Smart|HP|P)",
        Kind.CLI64: r"GuiErrMsg<0x|^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  \S",
        Kind.TW_CLI: r"^[ \t]*(?:Unit\s+UnitType\s+Status|V?Port\s+Status\s+Unit|Ctl\s+Model\s"
        r"|Ctl\s+Date\s|Name\s+OnlineState\s+BBUReady|Encl\s+Status|/c\d{1,3} \w.* = )",
        Kind.SAS2IRCU: r"SAS[23] IR Configuration Utility|^SAS[23]IRCU: ",
        Kind.MPT_STATUS: r"^ioc\d{1,3} (?:vol_id|phy|phys_id) |^(?:vol|log|phys)_id[: ]\d"
        r"|^Found SCSI id=\d",
        Kind.SMARTCTL: r'^smartctl (?:version )?\d{1,2}\.\d|"smartctl"\s*:\s*\{',
        Kind.MDSTAT: r"^Personalities :|^md\S{1,30} : (?:in)?active ",
        Kind.MDADM: r"^/dev/md\S{1,60}:\s*$",
        Kind.KERNEL: r"^(?:<\d{1,3}>)?\[ {0,5}[+\d]\d{0,10}\.\d{6}\]|^\S.{0,40} kernel: "
        r"|^\[[^\]\n]{0,40}\d:\d\d[^\]\n]{0,20}\] |^\d{1,5},\d{1,20},\d{1,20},[^;\n]{0,60};",
    }.items()
}


def guessed(text: str) -> Kind:
    """Return who printed a text, where that is certain. Errors: ParseError that names the kinds."""
    found = [kind for kind, sign in _SIGNS.items() if sign.search(text)]
    if not found and _kernel(text, Parsed(Kind.KERNEL)).events:
        found = [Kind.KERNEL]  # a line or two of a log, as forums have them
    if len(found) == 1:
        return found[0]
    got = f"what may be of {', '.join(found)}" if found else f"{text.strip()[:60]!r}"
    raise ParseError(f"who printed it is not certain: got {got}; say '--as' {', '.join(Kind)}")


def parse(text: str, kind: Kind, *, log: bool = False) -> Parsed:
    """Return what a text says; `log`: it is the log of a controller, and nothing else.

    Errors: ParseError: this tool shows no log.
    """
    if log and kind not in _LOGS:
        raise ParseError(f"'--log': expected one of {', '.join(_LOGS)}, got {kind}")
    found = Parsed(kind)
    if kind in _OTHERS:
        found = _OTHERS[kind](text, found)
    else:
        pieces = _pieces(text, kind)
        for piece in itertools.islice(pieces, MOST_OUTPUTS):
            found = _piece(piece, found, log=log)
        if next(pieces, None) is not None:
            found = replace(found, unread=(*found.unread, _MORE))
    more = [
        Unread(reason, fault=_ILL.search(reason) is not None)
        for each in found.controllers
        for reason in (
            *each.unread,
            *states.unknown_caches(each.arrays),
            *_unexplained(each),
        )
    ]
    if kind in _STATES and found.outputs and not found.events and not _tells(found.controllers):
        outputs = ", ".join(found.outputs)
        if not log:
            more.append(Unread(f"'{outputs}' tells the state of no array, disk or battery"))
    return replace(found, unread=(*found.unread, *more))


_ILL = re.compile(
    r": expected [0-9]{1,9} (?:units|virtual drives|disks) (?:that (?:are|failed)|without)"
    r"|: expected '.*', as '.*' tells, got '"
)
"""Of what a controller counts: more that is not well than it lists; or two outputs disagree."""


def _unexplained(told: Controller) -> Iterator[str]:
    """Yield which arrays cache no writes though they are set to, where no battery tells why."""
    for each in told.arrays if not told.batteries else ():
        policy = each.policy
        if policy and policy.default_write_back and policy.write_back is False:
            yield (
                f"{each.name} is set to cache writes and writes through: expected the state of the"
                " battery to tell why, got none"
            )


_MORE = Unread(f"expected at most {MOST_OUTPUTS} outputs, got more: the others were not read")


def _tells(controllers: Iterable[Controller]) -> bool:
    return any(each.arrays or each.disks or each.batteries or each.sensors for each in controllers)


# --- controllers

_IRCU_ENDS = ("Command DISPLAY", "Command STATUS", "Utility")
_ENDS: Mapping[Kind, tuple[re.Pattern[str], str]] = {
    Kind.MEGACLI: (re.compile(r"^[ \t]*Exit Code: 0x.*$", re.MULTILINE), "Exit Code: 0x00"),
    Kind.ARCCONF: (
        re.compile(r"^[ \t]*Command (?:completed|aborted|failed).*$", re.MULTILINE),
        "Command completed successfully.",
    ),
    Kind.CLI64: (re.compile(r"^.*GuiErrMsg<0x.*$", re.MULTILINE), "GuiErrMsg<0x00>: Success."),
    Kind.SAS2IRCU: (
        re.compile(r"^SAS[23]IRCU: Utility Completed.*$", re.MULTILINE),
        "\n".join(f"SAS2IRCU: {what} Completed Successfully." for what in _IRCU_ENDS),
    ),
}
"""How a tool says that it is done, and the line that is put there where it does not."""
_RULE = re.compile(r"^-{10,}[ \t\r]*$", re.MULTILINE)
_RULES = 3
"""A table of storcli has one above its header, one below it, and one at its end."""
_STORCLI_BEGIN = re.compile(
    r"^(?:CLI Version = .*\n(?:Operating system = .*\n)?)?(?:Controller = \d{1,3}\n)?"
    r"Status = \w{1,40}[ \t]*\nDescription = ",
    re.MULTILINE | re.ASCII,
)
"""How the answer of one controller begins."""
_NEXT_JSON = re.compile(r"(?<=\n\})\s*\n(?:[^\n{}]*\n)*(?=\{)")


def _pieces(text: str, kind: Kind) -> Iterator[tuple[str, bool]]:
    """Yield each output in a text, and whether it says that it is whole."""
    text += "" if text.endswith("\n") else "\n"
    if kind is Kind.STORCLI:
        if '"Controllers"' in text:
            yield from ((piece, True) for piece in _NEXT_JSON.split(text))
        else:
            begins = [answer.start() for answer in _STORCLI_BEGIN.finditer(text)][1:]
            for own, following in itertools.pairwise([0, *begins, len(text)]):
                yield _tables(text[own:following])
        return
    if kind not in _ENDS:
        yield text, True
        return
    end, mark = _ENDS[kind]
    begin = 0
    for found in end.finditer(text):
        piece = text[begin : found.end()] + "\n"
        parts = _by_adapter(piece) if kind is Kind.MEGACLI else [piece]
        for part in parts[:-1]:
            yield f"{part}{found[0]}\n", True
        yield parts[-1], True
        begin = found.end()
    if len(text[begin:].split()) > (0 if not begin else 12):  # a prompt may be left over
        yield f"{text[begin:]}{mark}\n", False


def _by_adapter(text: str) -> list[str]:
    """Return what '-aALL' printed, by adapter: slots and numbers of one are those of another."""
    heads = [*megacli.ADAPTER_HEAD.finditer(text)]
    news = [now.start() for was, now in itertools.pairwise(heads) if was[1] != now[1]]
    return [text[own:end] for own, end in itertools.pairwise([0, *news, len(text)])]


def _tables(text: str) -> tuple[str, bool]:
    """Return storcli's tables, the last one ended where it was cut, and whether it was not."""
    rules = [*_RULE.finditer(text)]
    left_over = len(rules) % _RULES
    if left_over == 1:  # at most its header is there
        text = text[: rules[-1].start()]
    elif left_over:
        text += rules[-1][0].strip() + "\n"
    return text, not left_over


class _Tries:
    """One output, and what became of each parser that was tried with it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.outputs: list[str] = []
        self.refusals: list[str] = []

    def take(self, command: str, parse: Callable[[str], _T]) -> _T | None:
        """Return what a parser makes of the output, None where it is none of its."""
        try:
            value = parse(self.text)
        except ParseError as error:
            self.refusals.append(str(error))
            return None
        self.outputs.append(command)
        return value


def _piece(piece: tuple[str, bool], found: Parsed, *, log: bool) -> Parsed:
    """Return what is known with one more output of a controller's tool."""
    text, whole = piece
    tries, kind = _Tries(text), found.kind
    controllers: Sequence[Controller] = ()
    events: Sequence[Event] = ()
    unread: list[Unread] = []
    if not log:
        controllers = _STATES[kind](tries, found.controllers)
    if kind in _LOGS and not tries.outputs:
        command, parse_log, name = _LOGS[kind]
        told = tries.take(command, lambda own: parse_log(own, name))
        if told is not None:
            events = told.events
            if told.cut:
                unread.append(Unread(f"'{command}': it ends within an entry, which is cut"))
    if not tries.outputs:
        unread += [Unread(reason) for reason in dict.fromkeys(tries.refusals)]
    elif not whole:
        expected = f"'{_ENDS[kind][1].splitlines()[-1]}'" if kind in _ENDS else "a rule of dashes"
        unread.append(Unread(f"expected {expected} at its end, got none: it may be cut"))
    known = {each.name for each in controllers} if kind in _ENRICH else set()
    before = [each for each in found.controllers if each.name not in known]
    return replace(
        found,
        controllers=_merged((*before, *controllers)),
        events=(*found.events, *map(Found, events)),
        outputs=tuple(dict.fromkeys((*found.outputs, *tries.outputs))),
        unread=(*found.unread, *unread),
    )


_OUTPUTS = ("an earlier output", "a later output")


def _merged(told: Iterable[Controller]) -> tuple[Controller, ...]:
    """Return controllers, those of one name as one: what an earlier output told comes first."""
    found: dict[str, Controller] = {}
    for each in told:
        before = found.get(each.name)
        if before is None:
            found[each.name] = each
            continue
        disks, unread = states.agreed(before.disks, each.disks, _OUTPUTS)
        found[each.name] = replace(
            before,
            model=before.model or each.model,
            serial=before.serial or each.serial,
            firmware=before.firmware or each.firmware,
            state=before.state or each.state,
            memory_bytes=before.memory_bytes or each.memory_bytes,
            arrays=states.once((*before.arrays, *each.arrays)),
            disks=disks,
            batteries=states.once((*before.batteries, *each.batteries)),
            sensors=states.once((*before.sensors, *each.sensors)),
            unread=tuple(dict.fromkeys((*before.unread, *each.unread, *unread))),
        )
    return tuple(found.values())


def _once(told: Iterable[_T], name: Callable[[_T], str]) -> tuple[_T, ...]:
    found: dict[str, _T] = {}
    for each in told:
        found.setdefault(name(each), each)
    return tuple(found.values())


_OF_CONTROLLER = re.compile(r"(?i)(?:bbu|cachevault)_info|foreign topology|physical drives")
"""Sections and counts of storcli's '/cN show all' that tell of the whole controller."""


def _storcli(tries: _Tries, before: Sequence[Controller]) -> list[Controller]:
    answers = tries.take("storcli", storcli_answer.parse_answers)
    if answers is None:
        return []
    tries.outputs.clear()  # that is only its form
    failed = [
        f"'storcli': controller {each.number}: {'; '.join((each.description, *each.errors))}"
        for each in answers
        if not each.ok and (each.errors or each.description not in {"", "None"})
    ]
    numbers = [each.number for each in answers if each.number is not None] or [0]
    name = f"megaraid c{numbers[0]}"
    told = tries.take("storcli /cN show all", storcli.parse_controllers) or {}
    found = [*_merged((*before, *(each.controller for each in told.values())))] if told else []
    if not found:
        own = [each for each in before if each.name == name]
        found = own or [Controller(name, storcli.VENDOR)]
        disks, errors = tries.take("storcli /cN/sall show all", storcli_disks.parse_disks) or (
            (),
            (),
        )
        volumes = tries.take("storcli /cN/vall show all", storcli_volumes.parse_volumes)
        foreign = tries.take("storcli /cN/fall show", storcli_volumes.parse_foreign)
        progress = tries.take("storcli show rebuild", storcli.parse_progress)
        patrol = tries.take("storcli /cN show patrolread", storcli.parse_patrol_read)
        one = replace(found[0], disks=found[0].disks or tuple(disks))
        one = storcli_disks.with_details(one, disks)
        arrays = (*one.arrays, *(() if volumes is None else volumes.values()), *(foreign or ()))
        one = replace(one, arrays=_once(arrays, lambda each: each.name))
        one = storcli_volumes.with_volumes(one, volumes or {})
        one = storcli.with_progress(one, progress or ())
        sensors = (*one.sensors, *(() if patrol is None else (patrol,)))
        found = [replace(one, sensors=sensors, unread=(*one.unread, *errors))]
        if not tries.outputs:
            listed = tries.take("storcli show", storcli.parse_list)
            found = [_listed(each, answers) for each in listed or ()]
            found = [each for each in found if each.name not in {own.name for own in before}]
    if not told:
        # Of 'show all' without its head: neither the drives nor the volumes have these.
        headless = {key for each in answers for key in each.data if _OF_CONTROLLER.match(key)}
        failed += [f"'{key}': expected 'Basics' before it, got none" for key in sorted(headless)]
    if tries.outputs and failed:
        found[:1] = [replace(each, unread=(*each.unread, *failed)) for each in found[:1]]
    return found


def _listed(told: storcli.Listed, answers: Iterable[storcli_answer.Answer]) -> Controller:
    """Return a controller of the overview, in order where its column 'Hlth' says so."""
    name = f"megaraid c{told.number}"
    found = Controller(name, storcli.VENDOR, told.model, told.serial)
    for row in (r for a in answers for r in a.data.get("system overview", ()) if "hlth" in r):
        word = str(row["hlth"])
        if str(row.get("ctl")) == str(told.number) and word.casefold() not in {"opt", "optimal"}:
            found = replace(found, state=State(Health.ATTENTION, output.printable(word)))
    return found


def _megacli(tries: _Tries, _: Sequence[Controller]) -> list[Controller]:
    number = re.search(r"^[ \t]*Adapter\s?[:#]? ?(\d{1,3})", tries.text, re.MULTILINE)
    name = f"megaraid c{number[1] if number else 0}"
    found: list[Controller] = []
    adapters = tries.take("MegaCli -AdpAllInfo", megacli.parse_adapters) or {}
    for at, each in adapters.items():
        found.append(replace(each.controller, name=f"megaraid c{at}"))
    arrays = tries.take("MegaCli -LdPdInfo", megacli.parse_volumes)
    disks = tries.take("MegaCli -PDList", megacli.parse_disks)
    battery = tries.take("MegaCli -AdpBbuCmd -GetBbuStatus", megacli.parse_battery)
    if arrays is not None or disks is not None or battery is not None:
        part = _part(name, "megaraid", arrays, disks, (battery,) if battery else None)
        found.append(replace(part, unread=tuple(megacli.merged(tries.text))))
    tries.take("MegaCli -AdpGetPciInfo", megacli.parse_addresses)
    tries.take("MegaCli -PDRbld -ShowProg", megacli.parse_rebuilds)
    return found


def _part(
    name: str,
    vendor: str,
    arrays: Sequence[Array] | None,
    disks: Sequence[PhysicalDisk] | None = None,
    batteries: Sequence[Battery] | None = None,
    sensors: Sequence[Sensor] | None = None,
) -> Controller:
    """Return what one output tells of a controller."""
    return Controller(
        name,
        vendor,
        arrays=tuple(arrays or ()),
        disks=tuple(disks or ()),
        batteries=tuple(batteries or ()),
        sensors=tuple(sensors or ()),
    )


def _arcconf(tries: _Tries, before: Sequence[Controller]) -> list[Controller]:
    name = before[0].name if before else "adaptec 1"
    config = tries.take("arcconf GETCONFIG", lambda text: arcconf.parse_config(text, name))
    if config is not None:
        return [*_merged((*before, config.controller))]
    if _INACCESSIBLE.search(tries.text):
        tries.outputs.append("arcconf GETCONFIG")
        state = State(Health.ATTENTION, "Inaccessible")
        told = Controller(name, "adaptec", state=state, unread=tuple(tries.refusals))
        return [*_merged((*before, told))]
    tasks = tries.take("arcconf GETSTATUS", arcconf_status.parse_tasks) or {}
    tries.take("arcconf GETLOGS", arcconf_status.parse_device_log)
    if not tries.outputs:
        tries.take("arcconf GETVERSION", arcconf.parse_count)
    return [arcconf_status.with_tasks(each, tasks) for each in before]


_INACCESSIBLE = re.compile(r"^[ \t]*Controller Status[ \t]*: Inaccessible\b", re.MULTILINE)
"""A controller that arcconf cannot talk to: sick, or newer than this arcconf."""


def _ssacli(tries: _Tries, _: Sequence[Controller]) -> list[Controller]:
    found = tries.take("ssacli ctrl all show config detail", ssacli.parse_controllers)
    return [each.controller for each in found or ()]


def _cciss(tries: _Tries, _: Sequence[Controller]) -> list[Controller]:
    return [*(tries.take("cciss_vol_status -V", cciss_vol_status.parse_volume_status) or ())]


def _areca(tries: _Tries, before: Sequence[Controller]) -> list[Controller]:
    name = "areca 1"
    known = [each for own in before for each in own.arrays if each.name.startswith("raid set")]
    system = tries.take("cli64 sys info", cli64.parse_system)
    unread: list[str] = []
    arrays = tries.take("cli64 rsf info", lambda text: cli64.parse_raid_sets(text, unread))
    if arrays is None:
        arrays = tries.take("cli64 vsf info", lambda text: cli64.parse_volumes(text, known, unread))
    bays = tries.take("cli64 disk info", lambda text: cli64.parse_bays(text, known, unread))
    hardware = None
    if not tries.outputs:
        hardware = tries.take("cli64 hw info", cli64.parse_hardware) or None
    found = [] if system is None else [replace(system, name=name)]
    disks = [bay.disk for bay in bays or () if bay.disk is not None]
    if not tries.outputs:
        detail = tries.take("cli64 disk info drv=N", cli64.parse_disk_detail)
        disks += [] if detail is None else [detail]
    batteries, sensors = ((), ()) if hardware is None else (hardware.batteries, hardware.sensors)
    if tries.outputs:
        told = _part(name, "areca", arrays, disks, batteries, sensors)
        found.append(replace(told, unread=tuple(unread)))
    return found


def _threeware(tries: _Tries, before: Sequence[Controller]) -> list[Controller]:
    number = re.search(r"(?:^|[\s/])/?(c\d{1,3})\b", tries.text, re.MULTILINE | re.ASCII)
    name = number[1] if number else before[0].name if before else "c0"
    found = []
    listed = tries.take("tw_cli show", tw_cli.parse_controllers) or ()
    for each in listed:
        bad = each.units_not_optimal or 0
        battery = tw_cli.listed_battery(each)
        found.append(Controller(each.name, "3ware", each.model, batteries=battery))
        if bad:
            found[-1] = replace(
                found[-1],
                state=State(Health.ATTENTION, f"{bad} units not optimal"),
                unread=(f"which units are not optimal: 'tw_cli /{each.name} show all' tells",),
            )
    told = tries.take("tw_cli /cN show all", lambda text: tw_cli.parse_controller(text, name))
    return [*found, *([] if told is None else [told])]


def _ircu(tries: _Tries, before: Sequence[Controller]) -> list[Controller]:
    name = before[0].name if before else "sas2ircu 0"
    told = tries.take("sas2ircu N DISPLAY", lambda text: sasircu.parse_display(text, name))
    if told is not None:
        return [*_merged((*before, told))]
    tasks = tries.take("sas2ircu N STATUS", sasircu.parse_status) or {}
    found = [
        replace(
            own, arrays=tuple(sasircu.with_task(each, tasks.get(each.name)) for each in own.arrays)
        )
        for own in before
    ]
    if tries.outputs and not found:
        found = [_part(name, "mpt", sasircu.parse_states(tries.text))]
    if tries.outputs:
        return found
    listed = tries.take("sas2ircu LIST", sasircu.parse_list) or ()
    return [Controller(f"sas2ircu {each.index}", "mpt", each.model) for each in listed]


def _mpt_status(tries: _Tries, _: Sequence[Controller]) -> list[Controller]:
    told = tries.take("mpt-status", mpt_status.parse_status)
    if told is not None:
        return [replace(_part("ioc0", "mpt", told.arrays, told.disks), unread=told.unread)]
    tries.take("mpt-status -p", mpt_status.parse_ids)
    return []


_STATES: Mapping[Kind, Callable[[_Tries, Sequence[Controller]], list[Controller]]] = {
    Kind.STORCLI: _storcli,
    Kind.MEGACLI: _megacli,
    Kind.ARCCONF: _arcconf,
    Kind.SSACLI: _ssacli,
    Kind.CCISS: _cciss,
    Kind.CLI64: _areca,
    Kind.TW_CLI: _threeware,
    Kind.SAS2IRCU: _ircu,
    Kind.MPT_STATUS: _mpt_status,
}
_ENRICH = frozenset({Kind.STORCLI, Kind.ARCCONF, Kind.SAS2IRCU})
"""Of these what a later output brings is put into what is known already."""
_LOGS: Mapping[Kind, tuple[str, Callable[[str, str], Log], str]] = {
    Kind.STORCLI: ("storcli /cN show events", storcli_events.parse_events, "megaraid c0"),
    Kind.MEGACLI: ("MegaCli -AdpEventLog", megacli.parse_log, "megaraid c0"),
    Kind.CLI64: ("cli64 event info", event_info.parse_events, "areca 1"),
    Kind.TW_CLI: ("tw_cli /cN show alarms", alarms.parse_alarms, "c0"),
}
"""Tools that show a log: the command, its parser, the controller it is taken to be of."""


# --- the others


def _smartctl(text: str, found: Parsed) -> Parsed:
    drives, refusals = [], []
    unread: list[Unread] = []
    reports = _reports(text)
    if len(reports) > MOST_OUTPUTS:
        unread.append(_MORE)
    for piece in reports[:MOST_OUTPUTS]:
        try:
            told = smartctl.parse(piece)
        except ParseError as error:
            unread.append(Unread(str(error)))
            continue
        if isinstance(told, Drive):
            drives.append(told)
            unread += [Unread(each, fault=True) for each in told.unread]
            others = (each for each in told.messages if each not in told.unread)
            unread += [Unread(each) for each in others if _NOT_READ.match(each)]
            if told.passed is None:
                unread.append(Unread("smartctl: the drive's own verdict ('-H') is not in it"))
            if told.exit_status & _ERRORS and told.errors_logged_total is None and not told.nvme:
                unread.append(Unread("smartctl: its exit status tells of entries in the error log"))
        else:
            refusals.append(told)
            if told.cover not in _NOTHING_TO_READ:
                fault = told.cover is Cover.FAILED and told.drive is not None
                unread.append(Unread(f"smartctl: {told.reason}", fault=fault))
    return replace(
        found,
        drives=tuple(drives),
        refusals=tuple(refusals),
        outputs=("smartctl",) if drives or refusals else (),
        unread=tuple(unread),
    )


_ERRORS = smartctl_refusal.ExitStatus.ERRORS
_NOTHING_TO_READ = frozenset({Cover.ASLEEP, Cover.NO_SMART, Cover.LUN})
_NOT_READ = re.compile(r"smartctl: '|(?!pySMART).*\bfail", re.IGNORECASE)
"""Of smartctl's messages those that say that something could not be read."""
_BANNER = re.compile(r"^(?=smartctl (?:version )?\d{1,2}\.\d)", re.MULTILINE | re.ASCII)


def _reports(text: str) -> list[str]:
    """Return the outputs of smartctl in a text, one for each drive."""
    if '"smartctl"' in text:
        return _NEXT_JSON.split(text)
    return [piece for piece in _BANNER.split(text) if _BANNER.match(piece)] or [text]


def _mdstat(text: str, found: Parsed) -> Parsed:
    """Parse '/proc/mdstat'; an array that cannot be read is left out, and said to be."""
    # Web forms strip the blanks ahead of what is below an array's own line.
    lines = [f" {line}" if _BELOW.match(line) else line for line in text.split("\n")]
    unread: list[Unread] = []
    if not _MDSTAT_END.search(text):
        expected = "expected a line 'unused devices:' at its end, got none: it may be cut"
        unread.append(Unread(f"'/proc/mdstat': {expected}"))
        lines.append("unused devices: <none>")
    begin = "" if _MDSTAT_BEGIN.search(text) else "Personalities :\n"
    for _ in range(MOST_BAD_ROWS):
        try:
            stats = mdstat.parse_mdstat(begin + "\n".join(lines))
        except ParseError as error:
            at = _bad_line(str(error), lines, len(begin.splitlines()))
            if at is None:
                return replace(found, unread=(*unread, Unread(str(error))))
            end = at + 1
            while end < len(lines) and lines[end][:1] in {" ", "\t"}:  # what is below it
                end += 1
            if not _PROMPT.match(lines[at]):
                fault = _MDSTAT_FAULT.search("\n".join(lines[at:end])) is not None
                unread.append(Unread(str(error), lines[at], at + 1, fault))
            lines[at:end] = [""] * (end - at)
            continue
        arrays = {name: mdstat.from_mdstat(stat) for name, stat in stats.items()}
        outputs = ("/proc/mdstat",) if arrays or not begin else ()
        return replace(found, arrays=arrays, outputs=outputs, unread=tuple(unread))
    return replace(found, unread=tuple(unread))


def _bad_line(error: str, lines: Sequence[str], shift: int) -> int | None:
    """Return where the line is that '/proc/mdstat' is refused for: itself, or its array's."""
    named = re.match(r"'/proc/mdstat'(?: line (\d{1,9})|: (\S{1,99})): ", error)
    if named is None:
        return None
    if named[1]:
        return int(named[1]) - 1 - shift
    own = (at for at, line in enumerate(lines) if line.startswith(f"{named[2]} : "))
    return next(own, None)


_MDSTAT_BEGIN = re.compile(r"^Personalities :", re.MULTILINE)
_MDSTAT_END = re.compile(r"^unused devices:", re.MULTILINE)
"""Source: kernel, drivers/md/md.c, md_seq_show: the last line of all."""
_MDSTAT_FAULT = re.compile(
    r"\(F\)|\[U*_[U_]*\]|\[([0-9]{1,9})/(?!\1\])[0-9]{1,9}\]|\b(?:inactive|broken|recover\w*)\b"
)
"""In what is printed of an array: a member failed, a place has none, or it is stopped."""
_BELOW = re.compile(
    r"[0-9]{1,20} blocks\b|\[[=>.]{5,40}\]|bitmap: |(?:resync|recovery|reshape|check) {0,9}="
)
_PROMPT = re.compile(r"\S{0,80}[#$>%](?: |$)")


def _mdadm(text: str, found: Parsed) -> Parsed:
    contradictions: list[str] = []
    try:
        details = md_detail.parse_detail(text, contradictions)
    except ParseError as error:
        return replace(found, unread=(Unread(str(error)),))
    return replace(
        found,
        arrays={each.name: md_detail.as_array(each) for each in details.arrays},
        outputs=("mdadm --detail",),
        unread=(
            *(Unread(complaint) for complaint in details.complaints),
            *(Unread(wrong, fault=True) for wrong in contradictions),
        ),
    )


_TROUBLE = re.compile(
    r"\b(?:errors?|fail\w*|time[d-]? ?out|abort\w*|offlin\w*|dead|fault\w*|corrupt\w*|lost|hung"
    r"|cannot|can't|unable|unrecover\w*|degraded|rejecting|warning|will reset|critical|shut ?down"
    r"|invalid|refus\w*|stuck|broken)\b",
    re.IGNORECASE,
)


def _kernel(text: str, found: Parsed) -> Parsed:
    state = kernel_classifier.Classifier()
    events: list[Found] = []
    unread: list[Unread] = []
    held_at = others = count = 0
    asked = False
    for line in kernel_line.parse_text(text):
        count += 1
        before = state.held
        state, told = kernel_events.classify(state, line)
        if not told and state.held is before:
            others += 1
            trouble = line.priority is None or line.priority <= _WARNING
            if (
                trouble
                and len(unread) < MOST_UNREAD
                and not line.facility
                and kernel_events.of_storage(line.text)
                and _TROUBLE.search(line.text)
            ):
                unread.append(Unread("no class of event has these words", line.text, line.sequence))
        events += [
            Found(each, held_at if any(each is one for one in before) else line.sequence)
            for each in told
        ]
        if state.held is not before:
            held_at, asked = line.sequence, True  # also where what waited turns out to be harmless
    events += [Found(event, held_at) for event in kernel_events.finish(state)]
    known = events or unread or asked or _SIGNS[Kind.KERNEL].search(text)
    if not known:
        unread.append(Unread("no line of it is known as one of the kernel's log"))
    return replace(
        found,
        events=tuple(events),
        outputs=("kernel log",) if known else (),
        unread=tuple(unread),
        lines=count,
        others=others,
    )


_WARNING = 4
"""KERN_WARNING."""


_OTHERS: Mapping[Kind, Callable[[str, Parsed], Parsed]] = {
    Kind.SMARTCTL: _smartctl,
    Kind.MDSTAT: _mdstat,
    Kind.MDADM: _mdadm,
    Kind.KERNEL: _kernel,
}
