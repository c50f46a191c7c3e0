"""'ipmitool sel list', 'sel elist', 'sdr' and 'sdr elist' in a text: what a BMC reports of drives.

Source: ipmitool, lib/ipmi_sel.c (ipmi_sel_print_std_entry), lib/ipmi_sdr.c
(ipmi_sdr_print_sensor_eventonly), ipmi_sel.h (sensor_specific_event_types); IPMI 2.0, table 42-3,
sensor type 0Dh, Drive Slot. An event of the log holds until it is 'Deasserted'. Power supplies,
fans and memory are no storage: a fault of theirs is named and not judged.
Limits: a BMC sees drives only if the backplane or the controller reports them to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.parsed_text import Finding, Parsed, TextObject, Tool, UnparsedLine
from iowarden.collectors.raid.controller import ComponentHealth

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping

_LOGGED = lazy_pattern(
    r"[ \t]*[0-9a-f]{1,5} \| (?:[^|]{1,24}\|){1,2}(?P<sensor>[^|]{1,80})\|(?P<event>[^|]{1,120})"
    r"(?:\|[ \t]*(?P<edge>Asserted|Deasserted)[ \t]*)?(?:\|.*)?"
)
_SENSOR = lazy_pattern(
    r"(?P<sensor>[^|]{1,40})\|[ \t]*[0-9A-F]{2}h[ \t]*\|[ \t]*(?P<state>\w{2})[ \t]*\|"
    r"[ \t]*\d{1,3}\.\d{1,3}[ \t]*\|(?P<events>.*)"
)
_SHORT = lazy_pattern(
    r"(?P<sensor>[^|]{1,40})\|(?P<value>[^|]{1,40})\|[ \t]*(?P<state>ok|ns|nr|nc|cr|us)[ \t]*"
)
"""A row of 'sdr' without 'elist': of a discrete sensor it has a number, not its events."""
_EMPTY = lazy_pattern(r"SEL has no entries")
_DRIVE = lazy_pattern(r"(?i)drive|\bdisk|\bhdd|\bssd|\bnvme|\bbay\b|backplane")
_SLOT = lazy_pattern(r"(?i)^Drive Slot(?: / Bay|\(Bay\))?[ \t]+(?=\S)")
_EVENTS: Mapping[str, tuple[str, str, str]] = {
    "drive fault": ("critical", "ControllerDiskFailed", "the drive has failed"),
    "predictive failure": ("critical", "ControllerDiskFailing", "the drive predicts its failure"),
    "in critical array": (
        "critical",
        "ControllerArrayDegraded",
        "the drive belongs to an array without redundancy",
    ),
    "in failed array": (
        "critical",
        "ControllerArrayFailed",
        "the drive belongs to an array that has failed",
    ),
    "rebuild aborted": (
        "warning",
        "ControllerArrayDegraded",
        "the rebuild of the drive was aborted",
    ),
    "rebuild in progress": ("notice", "ControllerDiskRebuilding", "the drive is being rebuilt"),
}
_WELL = frozenset({"drive present", "hot spare", "parity check in progress", ""})
_PRESENT = "drive present"
_IN_RANGE = frozenset({"ok", "ns"})
"""Of a sensor's state; 'ns': it has no reading."""
_QUIET = lazy_pattern(
    r"(?i)log area reset|clear|presence detected|fully redundant|initiated|boot|no bootable|"
    r"S\d/G\d|power (?:off/down|cycle|on)|timestamp|transition to (?:ok|running)|ok\b|asserted$"
    r"|limit not exceeded|performance met|connected|present\b|^unknown$|legacy"
)
"""Events of other sensors that are no fault."""
_ADVICE = (
    "Find the drive by its slot, and see what its controller and SMART report: smartctl -x DEVICE."
    " Replace it only while its array has redundancy without it."
)


def parse_ipmi(text: str) -> Parsed:
    """Parse the events and sensors of drives; faults of other sensors are reported as not judged.

    Of the log the last event of each sensor and word counts.
    """
    active: dict[tuple[str, str], bool] = {}
    lines: dict[tuple[str, str], tuple[int, str]] = {}
    outputs: dict[str, None] = {}
    unread: list[UnparsedLine] = []
    for number, line in enumerate(text.split("\n"), 1):
        if _EMPTY.match(line):
            outputs["ipmitool sel list"] = None
        elif (logged := _LOGGED.fullmatch(line)) is not None:
            outputs["ipmitool sel list"] = None
            key = logged["sensor"].strip(), logged["event"].strip()
            active[key] = logged["edge"] != "Deasserted"
            lines[key] = number, line
        elif (sensor := _SENSOR.fullmatch(line)) is not None:
            outputs["ipmitool sdr elist"] = None
            if sensor["state"] in _IN_RANGE and not _DRIVE.search(sensor["sensor"]):
                continue
            for event in sensor["events"].split(","):
                key = sensor["sensor"].strip(), event.strip()
                active[key], lines[key] = True, (number, line)
        elif (short := _SHORT.fullmatch(line)) is not None:
            outputs["ipmitool sdr"] = None
            if (reason := _of_short(short)) is not None:
                unread.append(UnparsedLine(reason, line, number))
        elif line.strip():
            unread.append(UnparsedLine("ipmitool: no row of a log or sensor", line, number))
    if not outputs:
        unread.append(UnparsedLine("ipmitool: expected rows of 'sel list' or of 'sdr'"))
    elif not (active or unread):
        listed = f"'{', '.join(outputs)}' lists no event or state of a drive"
        unread.append(UnparsedLine(f"{listed}: nothing was judged"))
    objects, findings = _drives(active)
    for key, is_active in active.items():
        if is_active and not _is_known(*key):
            number, line = lines[key]
            is_drive = _DRIVE.search(key[0]) is not None
            why = "is not known" if is_drive else "is no state of a drive, and is not judged"
            unread.append(UnparsedLine(f"ipmitool: {key[1]!r} of {key[0]!r} {why}", line, number))
    return Parsed(
        Tool.IPMITOOL,
        objects=tuple(objects),
        findings=tuple(findings),
        outputs=tuple(outputs),
        unparsed=tuple(unread),
    )


def _of_short(row: re.Match[str]) -> str | None:
    """Return why a row of 'sdr' is not judged; None: it is another sensor in its limits."""
    sensor, reading = row["sensor"].strip(), row["value"].strip()
    if _DRIVE.search(sensor) and row["state"] != "ns":
        return f"ipmitool: 'sdr' has no state of {sensor!r}: see 'ipmitool sdr elist'"
    if row["state"] in _IN_RANGE:
        return None
    state = f"{reading!r} of {sensor!r} ({row['state']})"
    return f"ipmitool: {state} is no state of a drive, and is not judged"


def _is_known(sensor: str, event: str) -> bool:
    if _DRIVE.search(sensor):
        return event.casefold() in _EVENTS.keys() | _WELL
    return _QUIET.search(event) is not None


def _drives(
    active: Mapping[tuple[str, str], bool],
) -> tuple[list[TextObject], list[Finding]]:
    """Return the drives, and what holds of them."""
    by_drive: dict[str, list[str]] = {}
    absent: list[str] = []
    for (sensor, event), is_active in active.items():
        if not _DRIVE.search(sensor) or event.casefold() not in _EVENTS.keys() | _WELL:
            continue
        name = _SLOT.sub("", sensor)
        events = by_drive.setdefault(name, [])
        if is_active and event:
            events.append(event)
        elif event.casefold() == _PRESENT:
            absent.append(name)
    findings = [
        Finding(severity, alert, name, f"{name}: {text} (its BMC: {event})", _ADVICE)
        for name, events in by_drive.items()
        for event in events
        for severity, alert, text in [_EVENTS.get(event.casefold(), ("", "", ""))]
        if severity
    ]
    findings += [
        Finding("notice", "ControllerDiskMissing", name, f"{name}: the drive was removed", _ADVICE)
        for name in absent
    ]
    ill = {each.object for each in findings}
    objects = [
        TextObject(
            "drive",
            name,
            "",
            ComponentHealth.ATTENTION if name in ill else ComponentHealth.OK,
            ", ".join(events),
        )
        for name, events in by_drive.items()
    ]
    return objects, findings
