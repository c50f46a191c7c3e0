"""Physical disks behind MegaRAID controllers, parsed from storcli and similar programs. Pure.

Source: see `storcli`.
Limits: error counts are since the controller started, or the disk was inserted.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.raid import output, states
from iowarden.collectors.raid.controller import (
    ComponentHealth,
    ComponentState,
    Controller,
    PhysicalDisk,
)
from iowarden.collectors.raid.megaraid.storcli_answer import (
    CELSIUS,
    Tree,
    flattened,
    not_answered,
    objects,
    parse_answers,
    size_of,
    slot_of,
    text_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_DISK_STATES = {
    **states.DEAD,
    "onln": ComponentHealth.OK,
    "ghs": ComponentHealth.OK,
    "dhs": ComponentHealth.OK,
    "jbod": ComponentHealth.OK,
    "ugood": ComponentHealth.OK,
    "cpybck": ComponentHealth.BUSY,
    "sntze": ComponentHealth.BUSY,
    "rbld": ComponentHealth.REBUILDING,
    "offln": ComponentHealth.FAILED,
    "ubad": ComponentHealth.FAILED,
    "ubunsp": ComponentHealth.FAILED,
    "msng": ComponentHealth.FAILED,
}
"""'Onln', 'UGood', 'JBOD' and 'Offln' were seen. Not among them: 'UGUnsp' (unsupported), 'CFShld'
and similar (shielded: under test after errors).
"""
_CONFIGURED = frozenset({"conf", "uconf", "ghs", "dhs", "jbod"})
"""Values of storcli2's State that are not about health. 'ConfShld', 'UConfSntz', 'ConfDgrd' are not
among them.
"""
_STATUS_STATES = {
    **states.DEAD,
    "online": ComponentHealth.OK,
    "good": ComponentHealth.OK,
    "copyback": ComponentHealth.BUSY,
    "rebuild": ComponentHealth.REBUILDING,
    "replace": ComponentHealth.FAILING,
    "bad": ComponentHealth.FAILED,
    "unusable": ComponentHealth.FAILED,
}
"""storcli2's Status. 'Online' and 'Good' were seen, others are from its manual."""
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
_UNFLAGGED = frozenset({"no", "n/a", "-", ""})
"""Answers of a drive that does not predict its failure. Any other answer is a prediction."""
_DRIVE = lazy_pattern(r"drive /c\d{1,3}(?:/e(\d{1,5}))?/s(\d{1,4})\b.*", re.ASCII)


def parse_disks(text: str) -> tuple[tuple[PhysicalDisk, ...], tuple[str, ...]]:
    """Parse the disks of '/eall/sall show all' or '/sall show all', and what could not be read.

    Errors: ParseError.
    """
    answers = parse_answers(text)
    unread = [error for answer in answers for error in (*answer.read_errors, *answer.errors)]
    disks = [disk for answer in answers for disk in disks_of(answer.data, unread, adapter=False)]
    if not disks:
        raise not_answered("storcli /cN/eall/sall show all", "disks", answers, unread)
    return tuple(disks), tuple(unread)


def with_details(controller: Controller, details: Iterable[PhysicalDisk]) -> Controller:
    """Return a controller with the details of '/eall/sall show all' for each disk.

    A disk in only one of the two answers is included: it may have been inserted or removed between
    them.
    """
    known = {disk.slot: disk for disk in details}
    disks = [
        replace(
            known[disk.slot],
            state=states.worst(disk.state, known[disk.slot].state),
            usage=disk.usage or known[disk.slot].usage,
            array=disk.array or known[disk.slot].array,
        )
        if disk.slot in known
        else disk
        for disk in controller.disks
    ]
    had = {disk.slot for disk in controller.disks}
    return replace(
        controller, disks=(*disks, *(disk for slot, disk in known.items() if slot not in had))
    )


def disks_of(data: Tree, read_errors: list[str], *, adapter: bool) -> tuple[PhysicalDisk, ...]:
    """Return the disks of an answer; the reasons for unreadable rows are added to `read_errors`."""
    details = _details(data)
    found: dict[str, PhysicalDisk] = {}
    for row in objects(data):
        if not ("eid:slt" in row and "state" in row and "size" in row):
            continue
        slot = slot_of(text_of(row, "eid:slt"))
        if not slot:
            read_errors.append(output.reason("storcli", "'<enclosure>:<slot>' of a disk", str(row)))
        elif slot not in found:
            found[slot] = _disk(row, slot, details.get(slot, {}), adapter=adapter)
    return tuple(found.values())


def _disk(row: Tree, slot: str, detail: Mapping[str, str], *, adapter: bool) -> PhysicalDisk:
    group = text_of(row, "dg")
    number = text_of(row, "did")
    foreign = group.casefold() == "f"
    state = disk_state(row, adapter=adapter)
    if foreign and state.health is ComponentHealth.OK:
        state = ComponentState(ComponentHealth.ATTENTION, f"{state.word}, foreign")
    counts, odd = states.counts(
        (name.removesuffix(" count"), detail.get(name, ""))
        for name in ("media error count", "other error count", "predictive failure count")
    )
    flagged = detail.get("s.m.a.r.t alert flagged by drive", "No").casefold()
    alert = flagged not in _UNFLAGGED
    failing = alert or counts.get("predictive failure", 0) > 0
    if failing and state.health in {
        ComponentHealth.OK,
        ComponentHealth.BUSY,
        ComponentHealth.REBUILDING,
    }:
        told = "S.M.A.R.T. alert" if alert else "predictive failure"
        state = ComponentState(ComponentHealth.FAILING, f"{state.word}, {told}")
    state = states.downgraded(state, odd)
    return PhysicalDisk(
        slot=slot,
        state=state,
        model=text_of(row, "model") or text_of(detail, "model number"),
        serial=text_of(detail, "sn", "serial number"),
        firmware=text_of(detail, "firmware revision", "firmware revision level"),
        size_bytes=size_of(row),
        usage="foreign" if foreign else _USAGES.get(text_of(row, "state").casefold(), ""),
        array=f"drive group {int(group)}"
        if re.fullmatch(r"\d{1,4}", group, re.ASCII) and not adapter
        else "",
        kind=f"megaraid,{int(number)}"
        if re.fullmatch(r"\d{1,3}", number, re.ASCII) and not adapter
        else "",
        temperature_celsius=output.leading(
            CELSIUS, text_of(detail, "drive temperature", "temperature(c)")
        ),
        errors_total=counts,
    )


def topology_disk(row: Tree) -> PhysicalDisk | None:
    """Return the disk in a row of a topology, None if it is of no disk that has a slot."""
    slot, group = slot_of(text_of(row, "eid:slot")), text_of(row, "dg")
    if text_of(row, "type").casefold() != "drive" or not slot:
        return None
    return PhysicalDisk(
        slot,
        disk_state(row, adapter=False),
        size_bytes=size_of(row),
        usage=_USAGES.get(text_of(row, "state").casefold(), ""),
        array=f"drive group {group}" if group.isdecimal() else "",
    )


def disk_state(row: Tree, *, adapter: bool) -> ComponentState:
    """Return the state of a disk; a plain `adapter` reports none."""
    word = text_of(row, "state")
    if "status" in row:  # storcli2
        status = text_of(row, "status")
        health = states.classify(status, _STATUS_STATES).health
        if health is ComponentHealth.OK and word.casefold() not in _CONFIGURED:
            health = ComponentHealth.ATTENTION
        return ComponentState(health, f"{word}, {status}")
    if adapter and word == "-":
        return ComponentState(ComponentHealth.OK, word)
    return states.classify(word, _DISK_STATES)


def _details(data: Tree) -> dict[str, dict[str, str]]:
    """Return the pairs of each disk in the answers, by slot. Error counts of parts are summed.

    In text each section is separate, in JSON it is below '... - Detailed Information'.
    """
    found: dict[str, dict[str, str]] = {}

    def add(slot: str, value: Any) -> None:  # noqa: ANN401 - JSON
        own = found.setdefault(slot, {})
        for key, told in flattened(value).items():
            own.setdefault(key, told)

    def walk(tree: Any) -> None:  # noqa: ANN401 - JSON
        if isinstance(tree, dict):
            row, detail = tree.get("drive information"), tree.get("drive detailed information")
            if isinstance(row, dict) and isinstance(detail, dict):  # storcli2
                add(slot_of(text_of(row, "eid:slt")), detail)
                return
            for key, each in tree.items():
                if (drive := _DRIVE.fullmatch(key)) and isinstance(each, dict):
                    add(output.slot_name(drive[1] or "", drive[2]), each)
                else:
                    walk(each)
        elif isinstance(tree, list):
            for each in tree:
                walk(each)

    walk(data)
    return found
