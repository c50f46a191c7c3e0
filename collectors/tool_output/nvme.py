"""'nvme smart-log' and 'list-subsys' of nvme-cli as text or JSON, and 'nvme error-log' as text.

Source: nvme-cli, nvme-print-stdout.c and nvme-print-json.c, smart_log and error_log; the names
changed with its versions ('critical_warning', 'Critical Warning'). Of a path: stdout_subsys_config;
kernel, drivers/nvme/host/sysfs.c (nvme_sysfs_show_state), multipath.c (nvme_ana_state_names).
Units: a data unit is 512,000 bytes; temperatures are degrees Celsius in the text and kelvins in
JSON.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from iowarden.collectors.json_text import is_deep
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.parsed_text import Finding, Parsed, TextObject, Tool, UnparsedLine
from iowarden.collectors.raid.controller import ComponentHealth
from iowarden.collectors.smart.drive import Drive, NvmeHealth, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_HEADING = lazy_pattern(r"^Smart Log for NVME device:\s*(\S{1,80}).*$", re.MULTILINE)
_PAIR = lazy_pattern(r"\s*([A-Za-z][\w .#-]{1,60}?)\s*:\s*(\S(?:.*\S)?)\s*", re.ASCII)
_NUMBER = lazy_pattern(r"(0x[0-9a-fA-F]{1,16}|[\d,.']{1,50})")
_DATA_UNIT_BYTES = 512_000.0
_KELVIN = 273.0
_LARGEST = 1 << 128
"""The counters of the log have 128 bits."""
_SYNONYMS = {
    "avail_spare": "available_spare",
    "spare_thresh": "available_spare_threshold",
    "percent_used": "percentage_used",
}


_ERRORS_HEADING = lazy_pattern(r"Error Log Entries for device:[ \t]*(?P<drive>[\w/.-]{1,80}).*")
_ENTRY = lazy_pattern(r"[ \t]*Entry\[[ \t]*(?P<number>\d{1,5})\][ \t]*")
_STATUS = lazy_pattern(r"(?:0x)?[0-9a-fA-F]{1,8}[ \t]*\((?P<name>[^():\n]{1,80}).*")
_SUCCESS = "success"
_MEDIA = frozenset(
    {"unrecovered read", "unrecovered read error", "write fault", "write fault error"}
    | {f"{each} check{end}" for each in ("guard", "end-to-end guard") for end in ("", " error")}
    | {f"{each} tag check{end}" for each in ("apptag", "reftag") for end in ("", " error")}
    | {f"end-to-end {tag} tag check error" for tag in ("application", "reference")}
    | {"apptag check", "reftag check", "read error"}
)
_INTERNAL = frozenset(
    {
        "internal",
        "internal error",
        "internal device error",
        "data xfer error",
        "data transfer error",
    }
)
_REQUEST = lazy_pattern(
    r"(?:invalid|unsupported|compare|abort|command abort|commands? aborted|feature|firmware|fw "
    r"|lba|capacity|deallocated|operation denied|access|ns |namespace|reservation|conflict|cmd|"
    r"command (?:id|sequence)|power.?loss|sanitize|overlapping|zone|attempted|controller list).*"
)
"""Names of a status that rejects a request of the host: it is no fault of the drive."""
_ERROR_ADVICE = "See the drive's health: smartctl -x /dev/DRIVE; back up first what matters."


def parse_nvme(text: str, commands: Mapping[int, str] | None = None) -> Parsed:
    """Parse the logs of each drive and the subsystems in a text.

    `commands` by the number of their line name the drive of a log that does not.
    """
    name = _typed_name(commands or {})
    subsystems, text = _parse_subsystems(text)
    if subsystems is None:
        return _logs(text, name)
    if not text.strip():
        return subsystems
    logs = _logs(text, name)
    return replace(
        logs,
        objects=(*logs.objects, *subsystems.objects),
        findings=(*logs.findings, *subsystems.findings),
        outputs=(*logs.outputs, *subsystems.outputs),
        unparsed=(*logs.unparsed, *subsystems.unparsed),
    )


def _typed_name(commands: Mapping[int, str]) -> str:
    """Return the drive that the only command about one names; '': none, or several."""
    names = {named[1] for each in commands.values() if (named := _DRIVE_TYPED.search(each))}
    return names.pop() if len(names) == 1 else ""


_DRIVE_TYPED = lazy_pattern(
    r"\bnvme\b.{0,200}?[\s=](?:/dev/)?(nvme\d{1,4}(?:n\d{1,4})?)\b", re.ASCII
)


def _logs(text: str, name: str) -> Parsed:
    """Parse the health logs and the error logs in a text, those of each drive."""
    begin = next(
        (at for at, line in enumerate(text.split("\n")) if _ERRORS_HEADING.fullmatch(line)), None
    )
    lines = text.split("\n")
    if begin is None and not any(_ENTRY.fullmatch(line) for line in lines):
        return _health(text, name)
    errors = _errors(lines, begin or 0)
    above = "\n".join(lines[:begin])
    if begin is None or not (_HEADING.search(above) or _REQUIRED[0] in above):
        return errors
    health = _health(above, name)
    return replace(
        errors,
        drives=health.drives,
        outputs=(*health.outputs, *errors.outputs),
        unparsed=(*health.unparsed, *errors.unparsed),
    )


def _errors(lines: Sequence[str], begin: int) -> Parsed:
    """Parse an error log: what the drive reported to commands, the newest entry first."""
    objects: list[TextObject] = []
    findings: list[Finding] = []
    unread: list[UnparsedLine] = []
    for drive, entries in _error_logs(lines, begin).items():
        names: Counter[str] = Counter()
        places: dict[str, list[str]] = {}
        for number, entry in entries:
            status = _STATUS.fullmatch(entry.get("status_field", ""))
            if not int(entry.get("error_count", "0"), 0):
                continue  # an entry that was never used
            if status is None:
                unread.append(
                    UnparsedLine("nvme error-log: expected a status with its name", line=number)
                )
                continue
            name = " ".join(status["name"].replace("_", " ").casefold().split())
            names[name] += 1
            places.setdefault(name, []).append(entry.get("lba", "?"))
            if name not in _MEDIA | _INTERNAL | {_SUCCESS} and not _REQUEST.fullmatch(name):
                unread.append(UnparsedLine(f"nvme error-log: unknown status '{name}'", line=number))
        own = [*_error_findings(drive, names, places)]
        health = ComponentHealth.ATTENTION if own else ComponentHealth.OK
        counts = {name: float(count) for name, count in names.items()}
        objects.append(TextObject("device", drive, "", health, counts=counts))
        findings += own
        if not entries:
            unread.append(UnparsedLine("nvme error-log: expected 'Entry[ 0]', got none"))
    return Parsed(
        Tool.NVME,
        objects=tuple(objects),
        findings=tuple(findings),
        outputs=("nvme error-log",),
        unparsed=tuple(unread),
    )


def _error_findings(
    drive: str, names: Mapping[str, int], places: Mapping[str, Sequence[str]]
) -> Iterator[Finding]:
    for name, count in names.items():
        times = f"{count} time{'s' if count > 1 else ''}"
        advice = _ERROR_ADVICE.replace("DRIVE", drive)
        if name in _MEDIA:
            at = ", ".join(dict.fromkeys(places[name][:_MAX_PLACES]))
            text = f"{drive}: {name}, {times}: data could not be read or written (LBA {at})"
            yield Finding("warning", "NvmeMediaErrors", drive, text, advice)
        elif name in _INTERNAL:
            text = f"{drive}: {name}, {times}: the drive failed, not the request"
            yield Finding("warning", "NvmeErrorLog", drive, text, advice)


_MAX_PLACES = 5
_ErrorLog = list[tuple[int, dict[str, str]]]
"""Entries with the number of their first line."""


def _error_logs(lines: Sequence[str], begin: int) -> dict[str, _ErrorLog]:
    """Return the entries of each drive."""
    logs: dict[str, _ErrorLog] = {}
    drive = "nvme"
    for number, line in enumerate(lines[begin:], begin + 1):
        if (heading := _ERRORS_HEADING.fullmatch(line)) is not None:
            drive = heading["drive"].removeprefix("/dev/")
            logs.setdefault(drive, [])
        elif _ENTRY.fullmatch(line):
            logs.setdefault(drive, []).append((number, {}))
        elif logs.get(drive) and (pair := _PAIR.fullmatch(line[:300])) is not None:
            logs[drive][-1][1].setdefault(pair[1].casefold(), pair[2])
    return logs


def _health(text: str, name: str) -> Parsed:
    """Parse the health logs in a text, one for each drive."""
    drives: list[Drive] = []
    unread: list[UnparsedLine] = []
    heads = [*_HEADING.finditer(text)]
    begins = [head.start() for head in heads] or [0]
    for begin, end in zip(begins, [*begins[1:], len(text)], strict=True):
        part = text[begin:end]
        head = _HEADING.match(part)
        values, is_json = _values(part)
        missing = [name for name in _REQUIRED if name not in values]
        if missing:
            unread.append(
                UnparsedLine(f"nvme smart-log: expected {', '.join(missing)}, got none of them")
            )
        if len(missing) < len(_REQUIRED):
            drives.append(_drive(values, head[1] if head else name, is_json=is_json))
    return Parsed(
        Tool.NVME,
        drives=tuple(drives),
        outputs=("nvme smart-log",) if drives else (),
        unparsed=tuple(unread),
    )


_REQUIRED = ("critical_warning", "available_spare", "percentage_used", "media_errors")


def _values(text: str) -> tuple[dict[str, float], bool]:
    begin = text.find("{")
    if begin >= 0:
        content = text[begin : text.rfind("}") + 1]
        try:
            answer = {} if is_deep(content) else json.loads(content)
        except ValueError:
            return {}, True
        pairs = answer.items() if isinstance(answer, dict) else ()
        found = {str(name): value for name, value in pairs if isinstance(value, int | float)}
        warning = answer.get("critical_warning") if isinstance(answer, dict) else None
        if isinstance(warning, dict) and isinstance(warning.get("value"), int):
            found["critical_warning"] = warning["value"]
        # JSON of Python's reader has infinities; an integer may be too large for a float.
        return {
            _SYNONYMS.get(name, name): float(value)
            for name, value in found.items()
            if -_LARGEST < value < _LARGEST
        }, True
    values: dict[str, float] = {}
    for line in text.split("\n"):
        if pair := _PAIR.fullmatch(line[:300]):
            number = _NUMBER.match(pair[2])
            name = re.sub(r"[ _]+", "_", pair[1].casefold())
            if number is not None:
                digits = re.sub(r"[,.'](?=\d{3}\b)", "", number[1]).rstrip(",.'")
                try:
                    value = float(int(digits, 16)) if digits.startswith("0x") else float(digits)
                except ValueError:
                    continue
                values.setdefault(_SYNONYMS.get(name, name), value)
    return values, False


def _drive(values: dict[str, float], name: str, *, is_json: bool) -> Drive:
    def integer(key: str) -> int | None:
        return int(values[key]) if key in values else None

    def scaled(key: str, unit: float) -> float | None:
        return values[key] * unit if key in values else None

    warning, heat = integer("critical_warning"), values.get("temperature")
    health = NvmeHealth(
        critical_warning=warning,
        available_spare_ratio=scaled("available_spare", 0.01),
        available_spare_threshold_ratio=scaled("available_spare_threshold", 0.01),
        endurance_used_ratio=scaled("percentage_used", 0.01),
        media_errors_total=integer("media_errors"),
        error_log_entries_total=integer("num_err_log_entries"),
        unsafe_shutdowns_total=integer("unsafe_shutdowns"),
        read_bytes_total=scaled("data_units_read", _DATA_UNIT_BYTES),
        written_bytes_total=scaled("data_units_written", _DATA_UNIT_BYTES),
        controller_busy_seconds_total=scaled("controller_busy_time", 60.0),
        warning_temperature_seconds_total=scaled("warning_temperature_time", 60.0),
        critical_temperature_seconds_total=scaled("critical_composite_temperature_time", 60.0),
    )
    return Drive(
        Protocol.NVME,
        passed=None if warning is None else warning == 0,
        temperature_celsius=None if heat is None else heat - _KELVIN if is_json else heat,
        power_on_hours=integer("power_on_hours"),
        power_cycles=integer("power_cycles"),
        rotation_rpm=0,
        nvme=health,
        read_by=f"nvme smart-log {name}".strip(),
    )


# --- paths to a subsystem

_SUBSYSTEM = lazy_pattern(r"[ \t]*(?P<name>nvme-subsys\d{1,5}) - NQN=.*")
_SUBSYSTEM_OTHERS = lazy_pattern(
    r"[ \t]*(?:(?:hostnqn|iopolicy|type|model|serial|firmware)=.*|[\\|]?)[ \t]*"
)
_STATES = "live|new|resetting|connecting|deleting(?: \\(no IO\\))?|dead"
_ANA = "optimized|non-optimized|inaccessible|persistent-loss|change|optimised|non-optimised"
_PATH_ROW = lazy_pattern(
    r"[ \t]*(?:\+-+ )?(?P<name>nvme\d{1,5})[ \t]+\w[\w-]{1,12}"
    rf"[ \t]+(?P<address>\S.{{0,300}}?)[ \t]+(?P<state>{_STATES})(?:[ \t]+(?P<ana>{_ANA}))?[ \t]*"
)
_SUBSYSTEM_JSON = lazy_pattern(r"\A\s*(?:\[\s*)?\{\s*\"(?:HostNQN|Subsystems)\"")
_USELESS = frozenset({"inaccessible", "persistent-loss", "change"})
"""States of a path over which no I/O goes at the moment, of a connection that is live."""
_PATHS_ADVICE = (
    "See why: journalctl -k | grep nvme; the network or fabric to its address, and the storage"
    " system's controller. The kernel reconnects by itself until ctrl_loss_tmo expires; after that:"
    " nvme connect-all"
)
_NO_PATHS = "nvme list-subsys: its JSON is cut, or has no path; use the text form"


def _parse_subsystems(text: str) -> tuple[Parsed | None, str]:
    """Parse the subsystems, and return what else is in the text; None: there are none."""
    if _SUBSYSTEM_JSON.match(text):
        rows = list(_rows_of_json(text))
        if not rows:
            return Parsed(Tool.NVME, unparsed=(UnparsedLine(_NO_PATHS),)), ""
        return _parse_rows(rows)[0], ""
    if not any(_SUBSYSTEM.fullmatch(line) for line in text.split("\n")):
        return None, text
    return _parse_rows(text.split("\n"))


def _rows_of_json(text: str) -> Iterator[str]:
    """Yield the lines that the text form would have."""
    start, end = text.find("["), text.rfind("]") + 1
    if text.lstrip().startswith("{"):
        start, end = text.find("{"), text.rfind("}") + 1
    piece = text[start:end]
    try:
        answer = None if is_deep(piece) else json.loads(piece)
    except (ValueError, RecursionError):
        return
    name = ""
    for entry in _objects(answer):
        # Before 2.0 name and paths of a subsystem are in two objects, one after the other.
        name = str(entry.get("Name") or name) if "NQN" in entry else name
        if "NQN" in entry:
            yield f"{name or 'nvme-subsys0'} - NQN={entry['NQN']}"
        for path in entry.get("Paths") or ():
            words = [path.get(key) for key in ("Name", "Transport", "Address", "State", "ANAState")]
            yield " ".join(["+-", *(str(word) for word in words if word)])


def _objects(answer: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401 - JSON
    """Yield the objects in JSON in their order; the paths of one are a part of it."""
    if isinstance(answer, list):
        for each in answer:
            yield from _objects(each)
    elif isinstance(answer, dict):
        paths = answer.get("Paths")
        if paths is None or (isinstance(paths, list) and all(isinstance(p, dict) for p in paths)):
            yield answer
        yield from _objects(answer.get("Subsystems"))


def _parse_rows(lines: Sequence[str]) -> tuple[Parsed, str]:
    subsystems: dict[str, list[tuple[str, str, str]]] = {}
    unread: list[UnparsedLine] = []
    rest: list[str] = []
    name = ""
    for number, line in enumerate(lines, 1):
        head, path = _SUBSYSTEM.fullmatch(line), _PATH_ROW.fullmatch(line)
        is_mine = True
        if head is not None:
            name = head["name"]
            subsystems.setdefault(name, [])
        elif name and path is not None:
            subsystems[name].append((path["name"], path["state"], path["ana"] or ""))
        elif name and line.lstrip().startswith("+-"):
            unread.append(
                UnparsedLine("nvme list-subsys: no state of a path that is known", line, number)
            )
        elif not _SUBSYSTEM_OTHERS.fullmatch(line):
            is_mine, name = False, ""
        rest.append("" if is_mine else line)
    objects: list[TextObject] = []
    findings: list[Finding] = []
    for each, paths in subsystems.items():
        objects += _subsystem_rows(each, paths)
        findings += _path_faults(each, paths)
        if not paths and not unread:
            unread.append(UnparsedLine(f"nvme list-subsys: {each}: expected its paths, got none"))
    return Parsed(
        Tool.NVME,
        objects=tuple(objects),
        findings=tuple(findings),
        outputs=("nvme list-subsys",),
        unparsed=tuple(unread),
    ), "\n".join(rest)


def _is_usable(state: str, ana: str) -> bool:
    return state == "live" and ana not in _USELESS


def _subsystem_rows(name: str, paths: Sequence[tuple[str, str, str]]) -> Iterator[TextObject]:
    usable = sum(_is_usable(state, ana) for _, state, ana in paths)
    health = ComponentHealth.OK
    if paths and not usable:
        health = ComponentHealth.FAILED
    elif any(state != "live" for _, state, _ in paths):
        health = ComponentHealth.DEGRADED
    yield TextObject("subsystem", name, "", health, "", {"paths": len(paths), "usable": usable})
    for path, state, ana in paths:
        # A standby path of a storage system with two controllers is live, and inaccessible.
        well = ComponentHealth.OK if state == "live" else ComponentHealth.FAILED
        yield TextObject("path", path, name, well, " ".join(filter(None, (state, ana))))


def _path_faults(name: str, paths: Sequence[tuple[str, str, str]]) -> Iterator[Finding]:
    usable = sum(_is_usable(state, ana) for _, state, ana in paths)
    bad = [f"{path} {state}" for path, state, ana in paths if state != "live"]
    lost = [f"{path} {ana}" for path, _, ana in paths if ana == "persistent-loss"]
    told = ", ".join(dict.fromkeys([*bad, *lost]))
    if paths and not usable:
        told = told or ", ".join(f"{path} {ana}" for path, _, ana in paths)
        text = f"{name} has no path that takes I/O ({told}): its I/O hangs or fails"
        yield Finding("critical", "NvmeNoPath", name, text, _PATHS_ADVICE)
    elif bad or lost:
        text = f"{name}: {usable} of {len(paths)} paths take I/O ({told})"
        yield Finding("warning", "NvmePathsFailed", name, text, _PATHS_ADVICE)
