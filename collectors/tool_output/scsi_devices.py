"""'lsscsi -l' in a text: the states of SCSI devices.

Source: lsscsi(8); kernel, drivers/scsi/scsi_sysfs.c, sdev_states. Without '-l' there is no state in
its table, and so no verdict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.parsed_text import Finding, Parsed, TextObject, Tool, UnparsedLine
from iowarden.collectors.raid.controller import ComponentHealth

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping

_DEVICE = lazy_pattern(
    r"\[(?P<place>\w{1,6}(?::\w{1,10}){2,3})\][ \t]+(?P<type>[a-z]\S{0,12})[ \t]+"
    r"(?P<model>\S++(?:[ \t]++\S++)*?)"
    r"(?:[ \t]++(?P<node>/dev/[\w/.-]{1,60}|-))(?:[ \t]+(?P<size>\S{1,20}))?[ \t]*"
)
_STATE = lazy_pattern(r"(?:^|[ \t])state=(?P<state>[\w-]{1,40})")
_LONG = lazy_pattern(r"[ \t]*\w+=\S*(?:[ \t]+\w+=\S*)*[ \t]*")
_MEANINGS: Mapping[str, tuple[str, str]] = {
    "offline": ("critical", "the kernel gave it up after errors: each request to it fails"),
    "transport-offline": ("critical", "its path is lost: each request to it fails"),
    "blocked": ("warning", "its requests wait: its transport is lost, or is being restored"),
    "quiesce": ("notice", "its requests wait while it is set up"),
    "created-blocked": ("notice", "its requests wait while it is set up"),
    "cancel": ("warning", "it is being removed"),
    "deleted": ("warning", "it was removed"),
}
_WELL = frozenset({"running", "created"})
_ADVICE = (
    "See the kernel's log for why; check its cable, bay and power. Where it answers again:"
    " echo running > /sys/block/DISK/device/state"
)


def parse_lsscsi(text: str) -> Parsed:
    """Parse the devices; one whose state is not in the text is reported."""
    objects: list[TextObject] = []
    findings: list[Finding] = []
    unread: list[UnparsedLine] = []
    device: re.Match[str] | None = None
    stateless = 0
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        state = _STATE.search(line)
        match = _DEVICE.match(line)
        if match is not None:
            stateless += device is not None
            device = match
        elif not _LONG.fullmatch(line):
            unread.append(UnparsedLine("lsscsi: expected a device", line, number))
            continue
        if state is not None and device is not None:
            if state["state"] in _WELL or state["state"] in _MEANINGS:
                objects.append(_device(device, state["state"]))
                findings += _faults(device, state["state"])
            else:
                unread.append(UnparsedLine("lsscsi: unknown state", line, number))
            device = None
    stateless += device is not None
    if stateless or not objects:
        reason = f"lsscsi: {stateless} devices without a state; 'lsscsi -l' shows it"
        unread.append(UnparsedLine(reason))
    return Parsed(
        Tool.LSSCSI,
        objects=tuple(objects),
        findings=tuple(findings),
        outputs=("lsscsi -l",) if objects else (),
        unparsed=tuple(unread),
    )


def _name(device: re.Match[str]) -> str:
    node = device["node"] or "-"
    return device["place"] if node == "-" else node.removeprefix("/dev/")


def _device(device: re.Match[str], state: str) -> TextObject:
    health = ComponentHealth.OK if state in _WELL else ComponentHealth.ATTENTION
    if state in {"offline", "transport-offline", "deleted"}:
        health = ComponentHealth.FAILED
    details: dict[str, str | float] = {"place": device["place"], "type": device["type"]}
    return TextObject("device", _name(device), "", health, state, details)


def _faults(device: re.Match[str], state: str) -> list[Finding]:
    if state not in _MEANINGS:
        return []
    severity, meaning = _MEANINGS[state]
    name = _name(device)
    model = " ".join(device["model"].split())
    place = model if name == device["place"] else f"{model}, {device['place']}"
    text = f"{name} ({place}) is {state}: {meaning}"
    return [Finding(severity, "ScsiDeviceState", name, text, _ADVICE.replace("DISK", name))]
