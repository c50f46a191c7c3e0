"""Outputs of Areca's 'cli64', of one command or of a whole session."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import ParseError
from iowarden.collectors.parsed_text import (
    MAX_OUTPUTS,
    MORE,
    LocatedEvent,
    Parsed,
    Tool,
    UnparsedLine,
)
from iowarden.collectors.raid import output, states
from iowarden.collectors.raid.areca import cli64, event_info, session
from iowarden.collectors.raid.areca.session import Command
from iowarden.collectors.raid.controller import Controller
from iowarden.collectors.smart.drive import Drive, Protocol
from iowarden.collectors.tool_output.controllers import parse_controllers

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from iowarden.collectors.raid.controller import ControllerArray, PhysicalDisk

_DRIVE = lazy_pattern(r"Drive\s?\[#\s?0*(\d{1,3})\]", re.ASCII)
_CHANNEL = lazy_pattern(
    r"\s*(?:IDE|SATA|SAS)? ?Channel\s*:\s*0*(\d{1,3})\s*", re.IGNORECASE | re.ASCII
)
_EXPECTED = (
    "expected the output of a command such as 'rsf info', 'disk info', 'disk smart drv=1' or"
    " 'event info'"
)
_OUTPUTS = ("an earlier output", "a later output")


def parse_areca(text: str, *, log: bool = False) -> Parsed:
    """Parse the outputs in a text; `log`: it is the event log, and nothing else."""
    if log:
        return parse_controllers(text, Tool.CLI64, log=True)
    all_outputs = session.outputs(output.plain(text))
    outputs = [*itertools.islice(all_outputs, MAX_OUTPUTS)]
    raid_sets: dict[int, tuple[ControllerArray, ...]] = {}
    for one in outputs:
        if one.command is Command.RAID_SETS:
            # A list of disks above it has the names of the RAID sets, too.
            raid_sets.setdefault(one.controller, _raid_sets(one))
    content = _Session(raid_sets)
    for one in outputs:
        content.take(one)
    if next(all_outputs, None) is not None:
        content.unparsed.append(MORE)
    return content.parsed()


class _Session:
    """What the outputs so far hold."""

    def __init__(self, raid_sets: dict[int, tuple[ControllerArray, ...]]) -> None:
        self._raid_sets = raid_sets
        self._controllers: dict[str, Controller] = {}
        self._drives: dict[int, Drive] = {}
        self._details: list[tuple[str, PhysicalDisk]] = []
        self._heat: dict[str, Mapping[int, float]] = {}
        self._events: list[LocatedEvent] = []
        self._outputs: list[str] = []
        self._menus = 0
        self.unparsed: list[UnparsedLine] = []

    def take(self, one: session.Output) -> None:
        """Parse an output; or store the reason why that is not possible."""
        if one.command is None:
            self._take_unknown(one)
            return
        if one.command is Command.MENU:
            self._menus += 1
            return
        reasons: list[str] = []
        try:
            self._parse(one, reasons)
        except ParseError as error:
            reasons.append(str(error))
        else:
            self._outputs.append(f"cli64 {one.command}")
            if not one.complete and one.command is not Command.EVENTS:
                reasons.append(
                    f"'cli64 {one.command}': expected '{session.SUCCESS}' at its end, got none: it"
                    " may be truncated"
                )
        self.unparsed += [UnparsedLine(each, line=one.first) for each in reasons]

    def _take_unknown(self, one: session.Output) -> None:
        for at, line in enumerate(one.lines, start=one.first):
            refusal = event_info.FAILURE.fullmatch(line)
            if refusal is not None:
                self.unparsed.append(UnparsedLine("cli64 refused a command", line.strip(), at))
            elif line.strip() and "GuiErrMsg<0x00>" not in line:
                self.unparsed.append(UnparsedLine("no output of cli64 that is known", line, at))

    def _parse(self, one: session.Output, reasons: list[str]) -> None:
        name, text = f"areca {one.controller}", _completed(one)
        raid_sets = self._raid_sets.get(one.controller, ())
        if one.command is Command.EVENTS:
            self._take_events(one, name, reasons)
            return
        if one.command is Command.SMART:
            self._take_drive(one)
            return
        part = Controller(name, "areca")
        if one.command is Command.RAID_SETS:
            part = replace(part, arrays=cli64.parse_raid_sets(text, reasons))
        elif one.command is Command.VOLUMES:
            part = replace(part, arrays=cli64.parse_volumes(text, raid_sets, reasons))
        elif one.command is Command.DISKS:
            bays = cli64.parse_bays(text, raid_sets, reasons)
            part = replace(part, disks=tuple(bay.disk for bay in bays if bay.disk is not None))
        elif one.command is Command.SYSTEM:
            part = replace(cli64.parse_system(text), name=name)
        elif one.command is Command.HARDWARE:
            hardware = cli64.parse_hardware(text)
            part = replace(part, batteries=hardware.batteries, sensors=hardware.sensors)
            self._heat[name] = hardware.disk_temperatures_celsius
        else:
            self._details.append((name, self._detail(one, text)))
        before = self._controllers.get(name)
        self._controllers[name] = (
            states.combined_reports(before, part, _OUTPUTS) if before else part
        )

    def _take_events(self, one: session.Output, name: str, reasons: list[str]) -> None:
        rows, _ = event_info.parse_rows(one.text, name)
        self._events += [LocatedEvent(event, one.first + at - 1) for at, event in rows[::-1]]
        # The program prints newest first: only the oldest row, the last, can be truncated.
        if one.is_cut and rows and rows[-1][1].kind == event_info.OTHER:
            reasons.append("'cli64 event info': it ends within an entry, which is truncated")

    def _take_drive(self, one: session.Output) -> None:
        number = _DRIVE.search(one.text)
        at = int(number[1]) if number else 0
        attributes = cli64.parse_disk_smart(one.text)
        command = f"cli64 disk smart drv={at}" if at else "cli64 disk smart"
        self._drives[at] = Drive(
            Protocol.ATA, attributes=attributes, self_test_kinds=(), read_by=command
        )

    def _detail(self, one: session.Output, text: str) -> PhysicalDisk:
        disk = cli64.parse_disk_detail(text)
        channel = next((found for line in one.lines if (found := _CHANNEL.fullmatch(line))), None)
        return replace(disk, slot=f"channel {int(channel[1])}") if channel else disk

    def parsed(self) -> Parsed:
        """Return all that was parsed."""
        for name, heat in self._heat.items():
            by_slot = {f"channel {channel}": hot for channel, hot in heat.items()}
            disks = (
                replace(disk, temperature_celsius=by_slot.get(disk.slot))
                for disk in self._controllers[name].disks
            )
            self._controllers[name] = replace(self._controllers[name], disks=tuple(disks))
        for name, detail in self._details:
            self._controllers[name] = _with_detail(self._controllers[name], detail)
        controllers = tuple(self._controllers.values())
        has_content = any(
            (each.arrays, each.disks, each.batteries, each.sensors) != ((), (), (), ())
            for each in controllers
        )
        if self._outputs and not (has_content or self._drives or self._events):
            outputs = ", ".join(dict.fromkeys(self._outputs))
            self.unparsed.append(
                UnparsedLine(f"'{outputs}' contains no state of an array, disk or battery")
            )
        if not (self._outputs or self.unparsed):
            got = "only the menu of cli64" if self._menus else "none"
            self.unparsed.append(UnparsedLine(f"{_EXPECTED}, got {got}"))
        errors = (UnparsedLine(text) for each in controllers for text in each.read_errors)
        self.unparsed += _still_fans(controllers)
        return Parsed(
            Tool.CLI64,
            controllers=controllers,
            drives=tuple(self._drives.values()),
            events=tuple(self._events),
            outputs=tuple(dict.fromkeys(self._outputs)),
            unparsed=(*self.unparsed, *errors),
        )


def _still_fans(controllers: Iterable[Controller]) -> Iterator[UnparsedLine]:
    """Yield fans that read 0 where no other one turns: they failed, or none is connected."""
    for each in controllers:
        fans = [sensor for sensor in each.sensors if sensor.fan_rpm is not None]
        if fans and not any(sensor.fan_rpm for sensor in fans):
            names = ", ".join(sensor.name for sensor in fans)
            yield UnparsedLine(
                f"'cli64 hw info': {names}: 0 RPM: it failed, or no fan is connected, which is not"
                " in the text"
            )


def _raid_sets(one: session.Output) -> tuple[ControllerArray, ...]:
    """Return the RAID sets of 'rsf info', as far as they can be parsed."""
    try:
        return cli64.parse_raid_sets(_completed(one), [])
    except ParseError:
        return ()


def _completed(one: session.Output) -> str:
    """Return the text of an output with the end that old versions do not print."""
    ends = any("GuiErrMsg<" in line or "ErrMsg:" in line for line in one.lines[-1:])
    return one.text if ends else f"{one.text}{session.SUCCESS}\n"


def _with_detail(controller: Controller, detail: PhysicalDisk) -> Controller:
    """Return a controller with what 'disk info drv=N' adds to a disk, or with that disk."""
    if not any(disk.slot == detail.slot for disk in controller.disks):
        return replace(controller, disks=(*controller.disks, detail))
    return replace(
        controller,
        disks=tuple(
            replace(
                detail,
                state=states.worst(disk.state, detail.state),
                usage=disk.usage,
                array=disk.array,
                kind=disk.kind,
                size_bytes=disk.size_bytes,
            )
            if disk.slot == detail.slot
            else disk
            for disk in controller.disks
        ),
    )
