"""Parsers of 'arcconf GETSTATUS' and 'GETLOGS': running tasks and error counts of disks. Pure.

Source: as of `arcconf`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.raid import output, states
from iowarden.collectors.raid.adaptec.arcconf_arrays import TASK_STATES
from iowarden.collectors.raid.adaptec.arcconf_output import (
    COMPLETED,
    CONTROLLERS_FOUND,
    blocks_of,
    completed,
    serial_of,
)
from iowarden.collectors.raid.controller import (
    ComponentHealth,
    ComponentState,
    Controller,
    PhysicalDisk,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.collectors.raid.adaptec.arcconf import ArcconfConfig

_LOGGED = (
    *("numParityErrors", "linkFailures", "hwErrors", "abortedCmds", "mediumErrors"),
    "smartWarning",
)


@dataclass(frozen=True, slots=True)
class ArcconfTask:
    """A running task of a logical device, from 'GETSTATUS'. `done_ratio` None: not reported."""

    operation: str
    status: str
    done_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class DeviceLog:
    """The errors a controller counted, by 'GETLOGS n DEVICE'.

    Fields: totals by serial number and by channel and device; old versions have only the latter. A
    disk without an entry had no error, or its entry was lost. `full`: there was no room for more
    entries; `complete`: the log states that there was room. `failing` are the serial numbers of
    disks that predict their failure.
    """

    by_serial: Mapping[str, Mapping[str, int]]
    by_channel: Mapping[tuple[int, int], Mapping[str, int]]
    failing: frozenset[str] = frozenset()
    full: bool = False
    complete: bool = False


def parse_tasks(text: str) -> dict[str, ArcconfTask]:
    """Parse 'GETSTATUS n': the running task of each array, by name. Errors: ParseError."""
    plain = completed("GETSTATUS", text)
    found: dict[str, ArcconfTask] = {}
    told = False
    for block in blocks_of(plain):
        operation = block.get("current operation")
        told = told or bool(operation)
        number = block.get("logical device", "logical drive")
        if operation and operation.casefold() != "none" and re.fullmatch(r"\d{1,6}", number):
            percent = output.number(block.get("percentage complete").rstrip("% "))
            found[f"logical device {int(number)}"] = ArcconfTask(
                output.excerpt(operation),
                output.excerpt(block.get("status")),
                None if percent is None else min(max(percent, 0.0), 100.0) / 100,
            )
    if not told:
        raise output.refused("arcconf GETSTATUS", "'Current operation : ...'", text)
    return found


def with_tasks(found: Controller, tasks: Mapping[str, ArcconfTask]) -> Controller:
    """Return the controller with the running tasks of its arrays.

    A task makes an optimal array busy, and a degraded one rebuilding; an unknown task, or one
    without progress, makes an optimal array need attention.
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


def _at_work(state: ComponentState, task: ArcconfTask) -> ComponentState:
    runs = task.status.casefold() == "in progress"
    health = states.health_of(task.operation, TASK_STATES)
    done = state.done_ratio if task.done_ratio is None else task.done_ratio
    if state.health in states.WELL:
        health = health if runs else ComponentHealth.ATTENTION
        return ComponentState(health, f"{state.word}, {task.operation}: {task.status}", done)
    if state.health is ComponentHealth.DEGRADED and runs and health is ComponentHealth.REBUILDING:
        return ComponentState(health, f"{state.word}, {task.operation}: {task.status}", done)
    return replace(state, done_ratio=done)


def parse_device_log(text: str) -> DeviceLog:
    """Parse 'GETLOGS n DEVICE', with 'tabular' and without. Errors: ParseError.

    Source: IBM's and IBM Cloud's notes of the tool, which show entries, not a whole listing; the
    format of a listing without an entry is unchecked.
    """
    plain = completed("GETLOGS", text)
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
        serial = serial_of(entry.get("serialNumber", ""))
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
    if not rest and not head and _has_content(plain):
        raise output.refused("arcconf GETLOGS", "a log of errors of disks", text)
    full = head.get("tableFull", "").casefold()
    return DeviceLog(by_serial, by_channel, frozenset(failing), full == "true", full == "false")


_LOG_HEAD = lazy_pattern(r"<ControllerLog\b[^<>]{0,200}\btype=\"(?P<kind>[1-9]\d{0,3})\"", re.ASCII)
_NONE_FOUND = lazy_pattern(r"^[ \t]*Controllers found: 0[ \t]*$", re.MULTILINE | re.IGNORECASE)
_DEAD = lazy_pattern(r"<deadDriveEntry\b[^<>]{0,2000}>|^[ \t]*deadDriveEntry[ \t]*$", re.MULTILINE)


def counts(controller: Controller) -> dict[str, int]:
    """Return how many bad devices a controller counts that are not in the text, by their state."""
    word = "" if controller.state is None else controller.state.word
    return {
        name: int(found[1])
        for name, pattern in _COUNTED.items()
        if (found := pattern.search(word)) is not None
    }


_COUNTED = {
    "offline": lazy_pattern(r"([0-9]{1,6}) failed and [0-9]{1,6} degraded logical devices"),
    "degraded": lazy_pattern(r"([0-9]{1,6}) degraded logical devices"),
    "failed disks": lazy_pattern(r"([0-9]{1,6}) defunct disks"),
}
"""As `collectors.raid.adaptec.arcconf` adds them to the state of the controller."""


def of_another_log(text: str) -> tuple[str, bool]:
    """Return which other log of 'GETLOGS' a text is, '' for none, and whether it shows a fault.

    Limits: a drive in the log of dead ones may have been replaced since; the log has no states.
    """
    states_now = "the present states: arcconf GETCONFIG 1"
    if dead := len(_DEAD.findall(text)):
        plural = "" if dead == 1 else "s"
        return f"arcconf GETLOGS DEAD: {dead} drive{plural} failed at some time; {states_now}", True
    if _NONE_FOUND.search(text):
        return (
            "arcconf found no controller: nothing was judged; is its driver loaded? See: lspci -k",
            False,
        )
    head = _LOG_HEAD.search(text)
    reason = (
        f"arcconf GETLOGS: its log of type {head['kind']} is not read; {states_now}" if head else ""
    )
    return reason, False


def with_errors(found: Controller, log: DeviceLog, config: ArcconfConfig) -> Controller:
    """Return the controller, its disks with the error counts of the log.

    If the log lost no entry and each entry belongs to a present disk, a disk without an entry has
    counts of 0: otherwise the first errors of a disk would be taken as baseline.
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
        odd = ["smartError"] if each.serial in log.failing else []
        state = states.downgraded(each.state, odd, ComponentHealth.FAILING)
        return replace(
            each, state=state, errors_total={**each.errors_total, **(totals or no_errors)}
        )

    return replace(found, disks=tuple(map(disk, found.disks)))


def _has_content(plain: str) -> bool:
    """Return whether an output has more than the number of controllers and the completion line."""
    return any(
        COMPLETED.sub("", CONTROLLERS_FOUND.sub("", line)).strip() for line in plain.splitlines()
    )


def _xml_entries(plain: str) -> list[dict[str, str]]:
    return [
        dict(re.findall(r'(\w{1,40})="([^"<>]{0,200})"', tag))
        for tag in re.findall(r"<(?:ControllerLog|driveErrorEntry)\b([^<>]{0,4000})>", plain)
    ] or [{}]


def _tabular_entries(plain: str) -> list[dict[str, str]]:
    """Return the pairs before the first entry, then the pairs of each entry."""
    entries: list[dict[str, str]] = [{}]
    for line in plain.splitlines():
        if line.strip().casefold() == "driveerrorentry":
            entries.append({})
        elif pair := re.fullmatch(r"\s*(\w{1,40})[. ]{0,3}\.{4,80} ?(\S.{0,200})", line, re.ASCII):
            entries[-1][pair[1]] = pair[2].rstrip()
    return entries
