"""Parser of 'cciss_vol_status' (HP's Smart Array controllers), with '-V' and without. Pure.

Source: the program's own source, version 1.12, and published outputs.
Limits: it needs no vendor program, and reports no sizes. Only its count of disks, with '-V', shows
that it is complete.
"""

from __future__ import annotations

import re
from dataclasses import field, replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.raid import output, states
from iowarden.collectors.raid.controller import (
    CachePolicy,
    ComponentHealth,
    ComponentState,
    Controller,
    ControllerArray,
    PhysicalDisk,
    Sensor,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

_VOLUME_STATES = {
    **states.DEAD,
    "ok": ComponentHealth.OK,
    "currently expanding": ComponentHealth.BUSY,
    "currently expannding": ComponentHealth.BUSY,  # so it is spelt there
    "queued for expansion": ComponentHealth.BUSY,
    "currently recovering": ComponentHealth.REBUILDING,
    "using interim recovery mode": ComponentHealth.DEGRADED,
    "ready for recovery operation": ComponentHealth.DEGRADED,
    "not yet available": ComponentHealth.BUSY,  # a new volume waits for an expansion: see `ssacli`
    "wrong physical drive was replaced": ComponentHealth.FAILED,
    "a physical drive is not properly connected": ComponentHealth.FAILED,
    "hardware was overheated": ComponentHealth.FAILED,
}
"""'Hardware is overheating' is not among them: it needs attention."""
_FINE_SPARES = frozenset(
    {"at least one spare drive designated", "at least one spare drive remains available"}
)
"""Further messages about spares: one failed, or one replaced a failed disk."""
_DISK_STATES = {
    **states.DEAD,
    "ok": ComponentHealth.OK,
    "predictive failure": ComponentHealth.FAILING,
}
"""Only 'OK' was seen."""
_ENCLOSURE_STATES = {
    "ok": ComponentHealth.OK,
    "fan failed": ComponentHealth.FAILED,
    "power supply unit failed": ComponentHealth.FAILED,
}
"""'Temperature problem', 'Door alert', several at once: they need attention."""

_CARD = lazy_pattern(r"Controller: (\S.{0,80}?)\s*", re.ASCII)
_VOLUME = lazy_pattern(
    r"(?P<file>/dev/[\w/]{1,40}): \((?P<model>[^()]{1,80})\) (?P<level>.{1,80}?)"
    r" Volume (?P<number>\d{1,4})(?:\(\?\))? status: (?P<state>[^.]{1,80})\.(?P<more>.{0,400})",
    re.ASCII,
)
_ENCLOSURE = lazy_pattern(
    r"(?P<file>/dev/[\w/]{1,40}): \((?P<model>[^()]{1,80})\) Enclosure (?P<name>.{0,40}?)"
    r" ?\(S/N: (?P<serial>[^()]{0,60})\) on Bus (?P<bus>\d{1,4}), Physical Port (?P<port>.{2})"
    r" status: (?P<state>.{1,200}?)\.?\s*",
    re.ASCII,
)
_CACHE = lazy_pattern(
    r"(?P<file>/dev/[\w/]{1,40})\((?P<model>.{1,80}):\d{1,4}\): Non-Volatile Cache status:\s*",
    re.ASCII,
)
_DISK = lazy_pattern(
    r"\s*(?:b\d{1,4}t\d{1,4})? connector (?P<port>\S{2}) box (?P<box>\d{1,4}|\?\?)"
    r" bay (?P<bay>\d{1,4}|\?\?) {1,3}?(?P<model>.{40}) (?P<serial>.{40}) (?P<firmware>.{8})"
    r"(?: (?P<state>\S.{0,80}?))?\s*",
    re.ASCII,
)
"""The widths of the program's '%40s %40s %8s'; some versions have a wider column for the bay."""
_SQUEEZED_DISK = lazy_pattern(
    r"\s*(?:b\d{1,4}t\d{1,4} )?connector (?P<port>\S{2}) box (?P<box>\d{1,4}|\?\?)"
    r" bay (?P<bay>\d{1,4}|\?\?) {1,60}(?P<model>\S.{0,80}?) {1,60}(?P<serial>\S{8,40})"
    r" {1,60}(?P<firmware>\S{1,8})(?: {1,60}(?P<state>OK|[A-Z]\S{0,40}(?: \S{1,40}){0,4}))?\s*",
    re.ASCII,
)
"""The same row with lost blanks, as in mails and forums: its words are distinguished by length."""
_LISTS = {
    "failed drives:": "failed",
    "'replacement' drives:": "",
    "drives currently substituted for by spares:": "failed",
}
"""Headings below a logical drive, whose disks have no state of their own."""
_FAILED = lazy_pattern(r"\s*Total of (\d{1,4}) failed physical drives? detected .{0,80}", re.ASCII)
_PAIR = lazy_pattern(r"\s*([A-Za-z][^:]{0,60}): (\S.{0,80}?)\s*", re.ASCII)
_REFUSED = lazy_pattern(r"#?\s*(cciss_vol_status: \S.{0,200})")
_TWICE = ("cciss_vol_status of one device file", "cciss_vol_status of another")


@dataclass(slots=True)
class _CcissDraft:
    """A controller while it is parsed; `file` is the device file that names it."""

    model: str = ""
    file: str = ""
    firmware: str = ""
    volumes: dict[str, ControllerArray] = field(default_factory=dict)
    disks: dict[str, PhysicalDisk] = field(default_factory=dict)
    sensors: dict[str, Sensor] = field(default_factory=dict)
    cache: dict[str, str] | None = None
    volume: str = ""
    verbose: bool = False
    """Whether the output is that of '-V', which lists disks."""
    counted: str = ""
    """Its own count of listed disks."""
    read_errors: list[str] = field(default_factory=list)
    listed: str | None = None
    """State of the disks that follow without a state. None: they have their own."""


def parse_volume_status(text: str) -> tuple[Controller, ...]:
    """Parse the controllers; two device files of one controller are merged. Errors: ParseError."""
    cards: list[_CcissDraft] = []
    plain = output.plain(text)
    unread = output.truncated_error("cciss_vol_status", plain)
    for line in plain.splitlines():
        if found := _CARD.fullmatch(line):
            cards.append(_CcissDraft(output.excerpt(found[1]), verbose=True))
        elif found := _REFUSED.fullmatch(line):
            unread.append(output.printable(found[1]))
        elif found := _VOLUME.fullmatch(line) or _ENCLOSURE.fullmatch(line):
            _read_line(_card(cards, found["file"], found["model"]), found)
        elif cards:
            _line(cards[-1], line)
        elif " connector " in line:
            unread.append(
                output.reason("cciss_vol_status", "'Controller: <model>' before it", line)
            )
    for card in cards:
        if not card.file and (card.disks or card.counted or card.read_errors):
            unread.append(
                output.reason(
                    "cciss_vol_status", "'<device>: (<controller>) ... status: ...'", card.model
                )
            )
    named: dict[str, Controller] = {}
    for card in cards:
        if card.file:
            one = _controller(card, unread)
            known = named.get(one.name)
            named[one.name] = states.combined_reports(known, one, _TWICE) if known else one
    if not named:
        raise output.refused("cciss_vol_status", "'<device>: (<controller>) ... status: ...'", text)
    return tuple(named.values())


def _card(cards: list[_CcissDraft], file: str, model: str) -> _CcissDraft:
    """Return the controller of a line: without '-V' only the lines name it."""
    last = cards[-1] if cards else None
    if last is None or (last.file and _name(last.file) != _name(file)):
        last = _CcissDraft(output.excerpt(model))
        cards.append(last)
    last.file = last.file or file
    return last


def _name(file: str) -> str:
    """Return 'cciss c0' for '/dev/cciss/c0d0', 'cciss sda' for '/dev/sda'."""
    return "cciss " + re.sub(r"d\d{1,4}$", "", file.removeprefix("/dev/").removeprefix("cciss/"))


def _read_line(card: _CcissDraft, found: re.Match[str]) -> None:
    word = found["state"]
    if "bus" in found.groupdict():
        name = output.excerpt(
            f"enclosure bus {int(found['bus'])} port {found['port']} {found['name']}"
        )
        state = states.classify(output.excerpt(word), _ENCLOSURE_STATES)
        card.sensors[name.strip()] = Sensor(name.strip(), state)
        return
    card.volume = name = f"volume {int(found['number'])}"
    state = states.classify(output.excerpt(word), _VOLUME_STATES)
    odd = [
        told
        for each in found["more"].split(".")
        if (told := " ".join(each.split())) and told.casefold() not in _FINE_SPARES
    ]
    volume = ControllerArray(
        name, state, level=output.excerpt(found["level"].removeprefix("RAID "))
    )
    (card.volumes[name],) = states.once(
        (*filter(None, [card.volumes.get(name)]), _worst(volume, *odd))
    )


def _worst(volume: ControllerArray, *why: str) -> ControllerArray:
    """Return an optimal logical drive with the state of a problem of its disks."""
    if not why or volume.state.health not in states.WELL:
        return volume
    word = output.excerpt(", ".join([volume.state.word, *why]))
    return replace(volume, state=ComponentState(ComponentHealth.ATTENTION, word))


def _line(card: _CcissDraft, line: str) -> None:
    told = " ".join(line.split()).casefold()
    if told in _LISTS:
        card.listed = _LISTS[told]
    elif told.startswith("physical drives:"):
        card.listed = None
        card.counted = told.rpartition(" ")[2]
    elif (found := _FAILED.fullmatch(line)) and card.volume:
        why = f"{int(found[1])} failed disks"
        card.volumes[card.volume] = _worst(card.volumes[card.volume], why)
    elif found := _DISK.fullmatch(line) or _SQUEEZED_DISK.fullmatch(line):
        _disk(card, found)
    elif " connector " in line:
        card.read_errors.append(
            output.reason(
                "cciss_vol_status", "'connector <port> box <n> bay <n> <model> <serial> ...'", line
            )
        )
    elif found := _CACHE.fullmatch(line):
        card.cache = {}
    elif card.cache is not None and told.endswith("disabled"):
        card.cache["disabled"] = " ".join(line.split())
    elif found := _PAIR.fullmatch(line):
        if card.cache is not None:
            card.cache[found[1].casefold()] = found[2]
        elif found[1].casefold() == "running firmware":
            card.firmware = output.excerpt(found[2])


def _disk(card: _CcissDraft, found: re.Match[str]) -> None:
    slot = f"port {found['port']} box {found['box']} bay {found['bay']}"
    word = found["state"] or card.listed or ""
    state = states.classify(output.excerpt(word), _DISK_STATES)
    model = " ".join(found["model"].split()).removeprefix("ATA ")
    known = card.disks.get(slot)
    # A failed disk may be listed as a present one as well.
    if known is None or known.state.health is ComponentHealth.OK:
        card.disks[slot] = PhysicalDisk(
            slot,
            state,
            model=output.excerpt(model),
            serial=output.excerpt(found["serial"].strip()),
            firmware=output.excerpt(found["firmware"].strip()),
        )


def _controller(card: _CcissDraft, read_errors: list[str]) -> Controller:
    policy, sensors = _cache(card.cache)
    if card.verbose and not card.counted:
        card.read_errors.append(
            output.reason("cciss_vol_status", "'Physical drives: <n>'", "none of them")
        )
    return Controller(
        name=_name(card.file),
        vendor="hp",
        model=card.model,
        firmware=card.firmware,
        arrays=tuple(replace(each, policy=policy) for each in card.volumes.values()),
        disks=tuple(card.disks.values()),
        sensors=(*sensors, *card.sensors.values()),
        read_errors=(
            *read_errors,
            *output.summarize(card.read_errors),
            *output.unlisted("cciss_vol_status", "disks", card.counted, len(card.disks)),
        ),
    )


def _cache(fields: Mapping[str, str] | None) -> tuple[CachePolicy | None, tuple[Sensor, ...]]:
    if fields is None:
        return None, ()
    switch = {"yes": True, "no": False}
    configured = switch.get(fields.get("cache configured", "").casefold())
    enabled = switch.get(fields.get("write cache enabled", "").casefold())
    disabled = fields.get("disabled", "")
    if enabled is None and configured is False and not disabled:
        enabled = False
    if disabled:
        health = (
            ComponentHealth.FAILED
            if "permanently" in disabled.casefold()
            else ComponentHealth.DEGRADED
        )
        state = ComponentState(health, output.excerpt(disabled))
    elif configured is None:
        state = ComponentState(ComponentHealth.ATTENTION)
    else:
        # A user may have disabled it.
        state = (
            ComponentState(ComponentHealth.OK, "configured")
            if configured
            else ComponentState(ComponentHealth.ABSENT, "none")
        )
    wanted = True if disabled else enabled
    return CachePolicy(enabled, None, "write cache", wanted), (Sensor("cache", state),)
