"""Outputs of RAID controller tools: split, each tried with every parser of its tool."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from iowarden.collectors import json_text
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import ParseError
from iowarden.collectors.parsed_text import (
    MAX_OUTPUTS,
    MORE,
    SIGNS,
    Finding,
    LocatedEvent,
    Parsed,
    TextObject,
    Tool,
    UnparsedLine,
)
from iowarden.collectors.pasted_text.controller_excerpts import STORCLI_BEGIN, completed
from iowarden.collectors.quantity import percentage
from iowarden.collectors.raid import output, states
from iowarden.collectors.raid.adaptec import arcconf, arcconf_status
from iowarden.collectors.raid.areca import event_info
from iowarden.collectors.raid.controller import ComponentHealth, ComponentState, Controller
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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from iowarden.collectors.event import StorageEvent
    from iowarden.collectors.raid.adaptec.arcconf_status import DeviceLog
    from iowarden.collectors.raid.controller import (
        Battery,
        ControllerArray,
        ControllerLog,
        PhysicalDisk,
        Sensor,
    )


def parse_controllers(
    text: str, kind: Tool, *, log: bool, commands: Mapping[int, str] | None = None
) -> Parsed:
    """Parse the outputs of a controller's tool; `log`: they are of its log.

    `commands` by the number of their line have the controller's number, where the output has none.
    """
    found, typed = Parsed(kind), commands or {}
    text = completed(text, kind, typed)
    pieces = _pieces(text, kind)
    # 'grep' drops the last line; of arcconf it drops the place of a device as well.
    is_filtered = kind is Tool.MEGACLI and bool(typed) and "|" in typed[max(typed)]
    for own, whole in itertools.islice(pieces, MAX_OUTPUTS):
        found = _piece((own, whole or is_filtered), found, log=log)
    unread = [*found.unparsed]
    if next(pieces, None) is not None:
        unread.append(MORE)
    unread += [
        UnparsedLine(reason, fault=_ILL.search(reason) is not None)
        for each in found.controllers
        for reason in (
            *each.read_errors,
            *states.unknown_caches(each.arrays),
            *states.unexplained(each),
        )
    ]
    listed = {each.name for each in found.controllers if each.arrays or each.disks}
    known = found.controllers  # the volumes and disks themselves show more than their number
    counted = (f for each in known for f in _count_faults(each.name, arcconf_status.counts(each)))
    shown = tuple(f for f in (*found.findings, *counted) if f.object not in listed)
    found = replace(found, findings=shown)
    is_overview = found.outputs == ("storcli show",) and any(
        each.state is not None for each in found.controllers
    )
    has_content = found.events or found.objects or is_overview or _has_content(found.controllers)
    if found.outputs and not (log or has_content):
        outputs = ", ".join(found.outputs)
        reason, is_fault = arcconf_status.of_another_log(text)
        reason = reason or f"'{outputs}' contains no state of an array, disk or battery"
        unread.append(UnparsedLine(reason, fault=is_fault))
    # Of a text without a battery's section it is not known whether there is one.
    no_battery = (each.name for each in found.controllers if not each.batteries)
    ruled_out = frozenset(("ControllerCacheWithoutBattery", name) for name in no_battery)
    return replace(found, unparsed=tuple(unread), ruled_out=ruled_out)


_ILL = lazy_pattern(
    r": expected [0-9]{1,9} (?:units|virtual drives|disks) (?:that (?:are|failed)|without)"
    r"|: expected '.*', as '.*' reports, got '"
    r"|\('s\.m\.a\.r\.t\.', 'Yes'\)|\('state', '(?:Failed|Missing|Dead)"
)
"""More faults are counted than listed, two outputs disagree, or rows have a fault but no place."""


def _has_content(controllers: Iterable[Controller]) -> bool:
    return any(each.arrays or each.disks or each.batteries or each.sensors for each in controllers)


_T = TypeVar("_T")
_IRCU_ENDS = ("Command DISPLAY", "Command STATUS", "Utility")
_ENDS: Mapping[Tool, tuple[re.Pattern[str], str]] = {
    Tool.MEGACLI: (lazy_pattern(r"^[ \t]*Exit Code: 0x.*$", re.MULTILINE), "Exit Code: 0x00"),
    Tool.ARCCONF: (
        lazy_pattern(r"^[ \t]*Command (?:completed|aborted|failed).*$", re.MULTILINE),
        "Command completed successfully.",
    ),
    Tool.SAS2IRCU: (
        lazy_pattern(r"^SAS[23]IRCU: Utility Completed.*$", re.MULTILINE),
        "\n".join(f"SAS2IRCU: {what} Completed Successfully." for what in _IRCU_ENDS),
    ),
}
"""The line that ends a complete output, and what is appended if it is missing."""
_RULE = lazy_pattern(r"^-{10,}[ \t\r]*$", re.MULTILINE)
_RULES = 3
"""A table of storcli has one above its header, one below it, and one at its end."""


def _pieces(text: str, kind: Tool) -> Iterator[tuple[str, bool]]:
    """Yield each output in a text, and whether it is marked as complete."""
    text += "" if text.endswith("\n") else "\n"
    if kind is Tool.STORCLI:
        if '"Controllers"' in text:
            yield from ((piece, True) for piece in json_text.split_objects(text))
        else:
            begins = [answer.start() for answer in STORCLI_BEGIN.finditer(text)][1:]
            for own, following in itertools.pairwise([0, *begins, len(text)]):
                yield _tables(text[own:following])
        return
    if kind is Tool.TW_CLI:
        rest, log = alarms.by_themselves(text)
        has_tables = SIGNS[kind].search(rest) is not None
        yield from ((each, True) for each in ((rest, log) if log and has_tables else (text,)))
        return
    if kind not in _ENDS:
        yield text, True
        return
    end, mark = _ENDS[kind]
    begin = 0
    for found in end.finditer(text):
        piece = text[begin : found.end()] + "\n"
        parts = _by_adapter(piece) if kind is Tool.MEGACLI else [piece]
        for part in parts[:-1]:
            yield f"{part}{found[0]}\n", True
        yield parts[-1], True
        begin = found.end()
    if len(text[begin:].split()) > (0 if not begin else 12):  # a prompt may be left over
        yield f"{text[begin:]}{mark}\n", False


def _by_adapter(text: str) -> list[str]:
    """Split the output of '-aALL' by adapter: slots and numbers of several adapters are equal."""
    heads = [*megacli.ADAPTER_HEAD.finditer(text)]
    news = [now.start() for was, now in itertools.pairwise(heads) if was[1] != now[1]]
    return [text[own:end] for own, end in itertools.pairwise([0, *news, len(text)])]


def _tables(text: str) -> tuple[str, bool]:
    """Return storcli's tables, a truncated last one completed, and whether it was complete."""
    rules = [*_RULE.finditer(text)]
    left_over = len(rules) % _RULES
    if left_over == 1:  # only its header may be there
        text = text[: rules[-1].start()]
    elif left_over:
        text += rules[-1][0].strip() + "\n"
    return text, not left_over


class _Tries:
    """One output, and the result of each parser that was tried with it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.outputs: list[str] = []
        self.refusals: list[str] = []

    def take(self, command: str, parse: Callable[[str], _T]) -> _T | None:
        """Return a parser's result for the output, None if it is not of its format."""
        try:
            value = parse(self.text)
        except ParseError as error:
            self.refusals.append(str(error))
            return None
        self.outputs.append(command)
        return value


def _piece(piece: tuple[str, bool], found: Parsed, *, log: bool) -> Parsed:
    """Return the result with one more output of a controller's tool."""
    text, whole = piece
    tries, kind = _Tries(text), found.kind
    controllers: Sequence[Controller] = ()
    events: Sequence[StorageEvent] = ()
    unread: list[UnparsedLine] = []
    if not log:
        controllers = _STATES[kind](tries, found.controllers)
    if kind in LOGS and not tries.outputs:
        command, parse_log, name = LOGS[kind]
        row = alarms.ROW.search(text) if kind is Tool.TW_CLI else None
        name = row[1] if row else name
        told = tries.take(command, lambda own: parse_log(own, name))
        if told is not None:
            events = told.events
            if told.cut:
                unread.append(
                    UnparsedLine(f"'{command}': it ends within an entry, which is truncated")
                )
    if not tries.outputs:
        if kind is not Tool.STORCLI or not found.outputs or not storcli_answer.is_unsupported(text):
            unread.append(_refusal(kind, tries))
    elif not whole:
        expected = f"'{_ENDS[kind][1].splitlines()[-1]}'" if kind in _ENDS else "a rule of dashes"
        unread.append(
            UnparsedLine(f"expected {expected} at its end, got none: it may be truncated")
        )
    known = {each.name for each in controllers} if kind in _ENRICH else set()
    before = [each for each in found.controllers if each.name not in known]
    adapters = tries.take(_ADAPTERS, megacli.parse_adapters) if _ADAPTERS in tries.outputs else {}
    counted = {f"megaraid c{number}": each.counts for number, each in (adapters or {}).items()}
    tasks = [*_tasks(tries)]
    logged = tries.take(_DEVICE_LOG, arcconf_status.parse_device_log) if _is_log(tries) else None
    return replace(
        found,
        objects=(
            *found.objects,
            *tasks,
            *(_counts(*each) for each in counted.items() if each[1]),
            *_logged_disks(logged),
        ),
        findings=(
            *found.findings,
            *(f for each in counted.items() for f in _count_faults(*each)),
            *_log_faults(logged),
            *(_task_notice(task) for task in tasks if task.health is ComponentHealth.BUSY),
        ),
        controllers=_merged((*before, *controllers)),
        events=(*found.events, *map(LocatedEvent, events)),
        outputs=tuple(dict.fromkeys((*found.outputs, *tries.outputs))),
        unparsed=(*found.unparsed, *unread),
    )


def _refusal(kind: Tool, tries: _Tries) -> UnparsedLine:
    """Return one reason for an output that each parser of its tool refused."""
    reasons = [*dict.fromkeys(tries.refusals)]
    if tries.text.lstrip().startswith("{") and json_text.closed(tries.text):
        return UnparsedLine(f"{kind}: its JSON is cut or damaged; pass all of it")
    if len(reasons) == 1:
        return UnparsedLine(reasons[0])
    if kind is Tool.STORCLI and (failures := storcli_answer.failures(tries.text)):
        told = f"storcli could not read it: {'; '.join(failures)[:400]}"
        return UnparsedLine(told, fault=any(each.startswith("/c") for each in failures))
    lines = [
        line.strip()
        for line in tries.text.splitlines()
        if line.strip(" \t=-") and not _HEAD.match(line)
    ]
    told = next((line for line in lines if _TROUBLE.search(line)), (lines or [""])[0])
    return UnparsedLine(
        f"{kind}: expected the output of a command that is read, got {output.excerpt(told)!r}"
    )


_HEAD = lazy_pattern(
    r"[ \t]*(?:CLI Version|Operating system|Controller|Status|Description) = |Controllers found:"
    r"|[ \t]*(?:Ctrl_Prop|Controller Properties)\b",
)
"""What each answer of storcli and arcconf begins with, and which does not name its object."""
_TROUBLE = lazy_pattern(
    r"\b(?:fail\w*|error|denied|invalid|not found|unable|refused|offline|degraded)\b", re.IGNORECASE
)
_OUTPUTS = ("an earlier output", "a later output")


def _merged(controllers: Iterable[Controller]) -> tuple[Controller, ...]:
    """Merge controllers of the same name: an earlier output takes precedence."""
    found: dict[str, Controller] = {}
    for each in controllers:
        before = found.get(each.name)
        found[each.name] = states.combined_reports(before, each, _OUTPUTS) if before else each
    return tuple(found.values())


def _once(arrays: Iterable[ControllerArray]) -> tuple[ControllerArray, ...]:
    found: dict[str, ControllerArray] = {}
    for each in arrays:
        found.setdefault(each.name, each)
    return tuple(found.values())


_OF_CONTROLLER = lazy_pattern(r"(?i)(?:bbu|cachevault)_info|foreign topology|physical drives")
"""Sections and counts of storcli's '/cN show all' about the whole controller."""
_DRIVES = "physical drives"


def _storcli(tries: _Tries, before: Sequence[Controller]) -> list[Controller]:
    answers = tries.take("storcli", storcli_answer.parse_answers)
    if answers is None:
        return []
    tries.outputs.clear()  # that is only its format
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
        groups, members = tries.take("storcli /cN/dall show", storcli_volumes.parse_topology) or (
            (),
            (),
        )
        progress = tries.take("storcli show rebuild", storcli.parse_progress)
        patrol = tries.take("storcli /cN show patrolread", storcli.parse_patrol_read)
        check = tries.take("storcli /cN show cc", storcli.parse_consistency_check)
        one = replace(found[0], disks=found[0].disks or tuple(disks) or tuple(members))
        one = storcli_disks.with_details(one, disks)
        arrays = (
            *one.arrays,
            *(() if volumes is None else volumes.values()),
            *groups,
            *(foreign or ()),
        )
        one = replace(one, arrays=_once(arrays))
        one = storcli_volumes.with_volumes(one, volumes or {})
        one = storcli.with_progress(one, progress or ())
        sensors = (*one.sensors, *filter(None, (patrol, check)))
        battery = tries.take("storcli /cN/cv show all", storcli.parse_battery)
        one = replace(one, batteries=one.batteries or ((battery,) if battery else ()))
        found = [replace(one, sensors=sensors, read_errors=(*one.read_errors, *errors))]
        if not tries.outputs:
            listed = tries.take("storcli show", storcli.parse_list)
            found = [_listed(each, answers) for each in listed or ()]
            found = [each for each in found if each.name not in {own.name for own in before}]
    if not told:
        # Of 'show all' without its head: neither the drives nor the volumes have these.
        is_battery = tries.outputs == ["storcli /cN/cv show all"]
        headless = {
            key
            for each in answers
            for key in each.data
            if _OF_CONTROLLER.match(key)
            and not (is_battery and key.endswith("_info"))
            and not (
                key == _DRIVES and str(each.data[key]) == str(len(each.data.get("pd list", ())))
            )
        }
        failed += [f"'{key}': expected 'Basics' before it, got none" for key in sorted(headless)]
    if tries.outputs and failed:
        found[:1] = [replace(each, read_errors=(*each.read_errors, *failed)) for each in found[:1]]
    return found


def _listed(
    controller: storcli.ListedController, answers: Iterable[storcli_answer.StorcliAnswer]
) -> Controller:
    """Return a controller of the overview, with the state in its column 'Hlth'."""
    name = f"megaraid c{controller.number}"
    found = Controller(name, storcli.VENDOR, controller.model, controller.serial)
    for row in (r for a in answers for r in a.data.get("system overview", ()) if "hlth" in r):
        word = str(row["hlth"])
        if str(row.get("ctl")) == str(controller.number):
            is_well = word.casefold() in {"opt", "optimal"}
            health = ComponentHealth.OK if is_well else ComponentHealth.ATTENTION
            found = replace(found, state=ComponentState(health, output.printable(word)))
    return found


def _megacli(tries: _Tries, _: Sequence[Controller]) -> list[Controller]:
    number = re.search(r"^[ \t]*Adapter\s?[:#]? ?(\d{1,3})", tries.text, re.MULTILINE)
    name = f"megaraid c{number[1] if number else 0}"
    found: list[Controller] = []
    adapters = tries.take(_ADAPTERS, megacli.parse_adapters) or {}
    for at, each in adapters.items():
        found.append(replace(each.controller, name=f"megaraid c{at}"))
    arrays = tries.take("MegaCli -LdPdInfo", megacli.parse_volumes)
    disks = tries.take("MegaCli -PDList", megacli.parse_disks)
    battery = tries.take("MegaCli -AdpBbuCmd -GetBbuStatus", megacli.parse_battery)
    if arrays is not None or disks is not None or battery is not None:
        part = _part(name, "megaraid", arrays, disks, (battery,) if battery else None)
        found.append(replace(part, read_errors=tuple(megacli.merged(tries.text))))
    tries.take("MegaCli -AdpGetPciInfo", megacli.parse_addresses)
    tries.take("MegaCli -PDRbld -ShowProg", megacli.parse_rebuilds)
    return found


_ADAPTERS = "MegaCli -AdpAllInfo"
_COUNT_FAULTS = {
    "degraded": ("ControllerArrayDegraded", "degraded virtual drives"),
    "offline": ("ControllerArrayFailed", "offline virtual drives"),
    "failed disks": ("ControllerDiskFailed", "failed disks"),
    "critical disks": ("ControllerDiskFailing", "critical disks"),
}
"""What an adapter counts under 'Device Present', and the alert of such a volume or disk."""
_LIST_THEM = "List them: MegaCli -LdPdInfo -aALL, or: arcconf getconfig 1"


def _counts(name: str, counts: Mapping[str, int]) -> TextObject:
    is_ill = any(counts.get(word) for word in _COUNT_FAULTS)
    health = ComponentHealth.ATTENTION if is_ill else ComponentHealth.OK
    numbers = {word: float(number) for word, number in counts.items()}
    return TextObject("counts", "volumes and disks", name, health, counts=numbers)


def _count_faults(name: str, counts: Mapping[str, int]) -> Iterator[Finding]:
    for word, (alert, text) in _COUNT_FAULTS.items():
        if number := counts.get(word):
            told = f"{name} counts {text}: {number}; which ones is not in the text"
            yield Finding("critical", alert, name, told, _LIST_THEM)


def _part(
    name: str,
    vendor: str,
    arrays: Sequence[ControllerArray] | None,
    disks: Sequence[PhysicalDisk] | None = None,
    batteries: Sequence[Battery] | None = None,
    sensors: Sequence[Sensor] | None = None,
) -> Controller:
    """Parse one output about a controller."""
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
        state = ComponentState(ComponentHealth.ATTENTION, "Inaccessible")
        told = Controller(name, "adaptec", state=state, read_errors=tuple(tries.refusals))
        return [*_merged((*before, told))]
    tasks = tries.take("arcconf GETSTATUS", arcconf_status.parse_tasks) or {}
    tries.take(_DEVICE_LOG, arcconf_status.parse_device_log)
    if not tries.outputs:
        tries.take("arcconf GETVERSION", arcconf.parse_count)
    return [arcconf_status.with_tasks(each, tasks) for each in before]


_DEVICE_LOG = "arcconf GETLOGS"


def _tasks(tries: _Tries) -> Iterator[TextObject]:
    """Yield the drives and volumes with a running task, of a text that has no state of them."""
    if tries.outputs != ["storcli show rebuild"]:
        return
    running = storcli.parse_progress(tries.text)
    for each in running:
        details = {} if each.done_ratio is None else {"done_ratio": each.done_ratio}
        name = each.slot or each.array or "drive"
        yield TextObject("task", name, "", ComponentHealth.BUSY, each.operation, details)
    if not running:
        yield TextObject("task", "none", "", ComponentHealth.OK)


def _task_notice(task: TextObject) -> Finding:
    done = task.details.get("done_ratio")
    share = f", {percentage(done)} done" if isinstance(done, float) else ""
    text = f"{task.name}: a task of the controller runs{share}"
    return Finding("notice", "ControllerTaskRunning", task.name, text)


def _is_log(tries: _Tries) -> bool:
    return _DEVICE_LOG in tries.outputs


def _logged_disks(log: DeviceLog | None) -> Iterator[TextObject]:
    """Yield the disks of arcconf's log, of which it has no state, with their counts."""
    for name, counts in _by_disk(log):
        is_ill = bool(_serious(counts))
        health = ComponentHealth.ATTENTION if is_ill else ComponentHealth.OK
        numbers = {kind: float(count) for kind, count in counts.items()}
        yield TextObject("disk", name, "", health, counts=numbers)


def _log_faults(log: DeviceLog | None) -> Iterator[Finding]:
    for serial in sorted(log.failing) if log is not None else ():
        text = f"{serial}: the disk predicts that it will fail"
        yield Finding("critical", "ControllerDiskFailing", serial, text, _DISK_ADVICE)
    for name, counts in _by_disk(log):
        if wrong := [f"{count} {kind}" for kind, count in _serious(counts).items()]:
            text = f"{name}: {', '.join(wrong)} in the log of the controller"
            yield Finding("warning", "ControllerDiskErrorsInBaseline", name, text, _DISK_ADVICE)


def _serious(counts: Mapping[str, int]) -> dict[str, int]:
    """Return the counts that are of the disk; a few aborted commands and failed links are usual."""
    return {
        kind: count for kind, count in counts.items() if count >= (_MANY if kind in _OF_LINK else 1)
    }


_OF_LINK = frozenset({"abortedCmds", "linkFailures"})
_MANY = 100


def _by_disk(log: DeviceLog | None) -> Iterator[tuple[str, Mapping[str, int]]]:
    if log is None:
        return
    yield from log.by_serial.items()
    for (channel, device), counts in log.by_channel.items():
        yield f"channel {channel} device {device}", counts


_DISK_ADVICE = "Make sure that the array has redundancy, then replace the disk if they increase."
_INACCESSIBLE = lazy_pattern(r"^[ \t]*Controller Status[ \t]*: Inaccessible\b", re.MULTILINE)
"""A controller that arcconf cannot reach: faulty, or newer than this arcconf."""


def _ssacli(tries: _Tries, _: Sequence[Controller]) -> list[Controller]:
    found = tries.take("ssacli ctrl all show config detail", ssacli.parse_controllers)
    return [_once_in_slot(each.controller, found or ()) for each in found or ()]


def _once_in_slot(controller: Controller, found: Iterable[ssacli.FoundController]) -> Controller:
    """Return a controller under the name of an earlier one in its slot: outputs of one host.

    'ld all show' and 'pd all show' each begin with it. With another serial number it is another
    host's; the two controllers of a chassis have one name indeed.
    """
    slot, _, number = controller.name.partition(" #")
    first = next(each.controller for each in found if each.controller.name == slot)
    is_other = controller.serial and first.serial and controller.serial != first.serial
    if not number or is_other or not slot.startswith("hp slot "):
        return controller
    return replace(controller, name=slot)


def _cciss(tries: _Tries, _: Sequence[Controller]) -> list[Controller]:
    return [*(tries.take("cciss_vol_status -V", cciss_vol_status.parse_volume_status) or ())]


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
                state=ComponentState(ComponentHealth.ATTENTION, f"{bad} units not optimal"),
                read_errors=(f"run 'tw_cli /{each.name} show all' to list them",),
            )
    told = tries.take("tw_cli /cN show all", lambda text: tw_cli.parse_controller(text, name))
    return [*found, *([] if told is None else [told])]


def _ircu(tries: _Tries, before: Sequence[Controller]) -> list[Controller]:
    program = "sas3ircu" if "SAS3 IR Configuration" in tries.text else "sas2ircu"
    name = before[0].name if before else f"{program} 0"
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
    return [Controller(f"{program} {each.index}", "mpt", each.model) for each in listed]


def _mpt_status(tries: _Tries, _: Sequence[Controller]) -> list[Controller]:
    told = tries.take("mpt-status", mpt_status.parse_status)
    if told is not None:
        return [
            replace(_part("ioc0", "mpt", told.arrays, told.disks), read_errors=told.read_errors)
        ]
    tries.take("mpt-status -p", mpt_status.parse_ids)
    return []


_STATES: Mapping[Tool, Callable[[_Tries, Sequence[Controller]], list[Controller]]] = {
    Tool.STORCLI: _storcli,
    Tool.MEGACLI: _megacli,
    Tool.ARCCONF: _arcconf,
    Tool.SSACLI: _ssacli,
    Tool.CCISS: _cciss,
    Tool.TW_CLI: _threeware,
    Tool.SAS2IRCU: _ircu,
    Tool.MPT_STATUS: _mpt_status,
}
_ENRICH = frozenset({Tool.STORCLI, Tool.ARCCONF, Tool.SAS2IRCU})
"""Tools of which a later output is merged into the result so far."""
LOGS: Mapping[Tool, tuple[str, Callable[[str, str], ControllerLog], str]] = {
    Tool.STORCLI: ("storcli /cN show events", storcli_events.parse_events, "megaraid c0"),
    Tool.MEGACLI: ("MegaCli -AdpEventLog", megacli.parse_log, "megaraid c0"),
    Tool.CLI64: ("cli64 event info", event_info.parse_events, "areca 1"),
    Tool.TW_CLI: ("tw_cli /cN show alarms", alarms.parse_alarms, "c0"),
}
"""Tools with a log: the command, its parser, the controller that is assumed."""
