"""Alerts about an array without redundancy, and about disks on which it depends. Pure.

A rule finds a missing member; what that means depends on the RAID level. A finding of a disk is one
severity higher if no other disk holds its data, or if another member of its array has findings as
well: then one more failure, or the rebuild after it, loses data. So alerts are marked by the state
of the arrays when they are evaluated; an alert about an unknown array is left unchanged.
Limits: for an array of a RAID controller only its level is known (a degraded RAID 6 may have lost
one disk or two, a RAID 10 one half of another pair); the profiles of btrfs and of LVM's own RAID
are not read: no mark.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.raid.controller import ComponentHealth
from iowarden.collectors.redundancy import redundancy_text, survives, survives_complete
from iowarden.rules.advice.advice import STEPS, TEXT
from iowarden.rules.advice.facts import UNREADABLE, AdviceInputs, Facts
from iowarden.rules.alerting.alerts import RAISED, REDUNDANCY
from iowarden.rules.faults import LEFT, NONE_LEFT, SHORT
from iowarden.rules.severity import Severity
from iowarden.rules.topology.redundancy import in_use, last_holders, md_groups, runs
from iowarden.rules.topology.slot_map import has_serial
from iowarden.rules.topology.survival import BTRFS, LVM, controller_groups

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from iowarden.collectors.raid.controller import Controller, ControllerArray
    from iowarden.rules.alerting.alerts import Alert
    from iowarden.rules.topology.slot_map import DeviceMap

_OF_DISKS = UNREADABLE | {
    "block_io_error",
    *("DiskReallocatedSectorsIncreased", "DiskReallocatedSectorsHigh"),
    *("DiskGrownDefectsIncreased", "DiskNormalizedValueDropped", "DiskSelfTestFailed"),
}
"""Findings. Not those of the baseline: what was so for years is none."""
_WEAR = frozenset(("old_age", "usage", "past"))
"""Of DiskAttributeFailed: a drive that is old or worn has not failed, whatever depends on it."""
_TIMEOUTS = "188"
"""Attribute whose normalized value drops by its power supply or cable, as those of others there."""
_SHORT = SHORT | {"BtrfsDeviceMissing", "DmRaidDegraded"}
_ELSEWHERE = _SHORT | {"block_io_error"}
"""No finding of several members: errors of a common adapter or cable are."""
_ONE_GROUP = frozenset(("1", "1e", "4", "5"))
"""RAID levels of controllers that, once degraded, have no redundancy left, whichever disk it is."""
WEARS_OUT = "DiskWearingOut"
TOGETHER_DAYS = 30.0
_FIRST_CLAUSE = re.compile(r"[^;,]*(?=[;,] )")
_NO_LEVEL = re.compile(r"raid|[\s_-]")


def marked(alerts: Iterable[Alert], where: DeviceMap) -> list[Alert]:
    """Return the alerts; those that concern redundancy with REDUNDANCY, RAISED, or both.

    Forecasts of wear are marked with the members of the array that wear out at the same time.

    A finding of a disk that holds a last copy shows that in its summary, and its advice is first
    not to lose the disk.
    """
    known = list(alerts)
    matter = [a for a in known if a.active and (a.name in _SHORT or _is_finding(a))]
    worn = [a for a in known if a.active and a.name == WEARS_OUT]
    if not matter and len(worn) < 2:
        return known
    facts = Facts(AdviceInputs(where))
    bad = {name for a in matter if a.name not in _ELSEWHERE for name in _names(a, facts)}
    found = {alert.key: _marked(alert, facts, bad) for alert in matter}
    found |= {alert.key: _worn_together(alert, worn, facts) for alert in worn}
    return [found.get(alert.key, alert) for alert in known]


def _is_finding(alert: Alert) -> bool:
    if alert.name not in _OF_DISKS or alert.severity < Severity.NOTICE:
        return False
    return alert.label("failure") not in _WEAR and alert.label("id") != _TIMEOUTS


def _marked(alert: Alert, facts: Facts, bad: set[str]) -> Alert:
    if alert.name in _SHORT:
        number = _survives(alert, facts)
        if number is None:
            return alert
        array = facts.of.map.arrays.get(alert.label("device"))
        stopped = array is not None and not runs(array)  # then it has no data either
        text = "" if stopped else f"; {redundancy_text(number, complete=1)}"
        # Before what the array does: a subject is cut behind a clause.
        head = _FIRST_CLAUSE.match(alert.summary)
        end = len(alert.summary) if head is None else head.end()
        summary = f"{alert.summary[:end]}{text}{alert.summary[end:]}"
        return _with(alert, LEFT if number else NONE_LEFT, summary)
    if last := _last_copy(alert, facts):
        steps = alert.annotation(STEPS).split() or [TEXT]
        steps = ["last_copy", *(steps if TEXT in steps else [TEXT, *steps])]
        # What was only a notice threatens no data yet.
        mark = NONE_LEFT if alert.severity >= Severity.WARNING else ""
        summary = f"{last} and has errors: {alert.summary}"
        return _raised(_with(alert, mark, summary, " ".join(steps)))
    known = bool(facts.of.map.arrays) and alert.severity >= Severity.WARNING
    own = _with(alert, LEFT, alert.summary) if known else alert
    reason = _urgent(alert, facts, bad)
    return _raised(_with(own, "", f"{reason}: {alert.summary}")) if reason else own


def _raised(alert: Alert) -> Alert:
    return replace(alert, annotations=(*alert.annotations, (RAISED, "true")))


def _names(alert: Alert, facts: Facts) -> Iterator[str]:
    """Yield the leaf devices of the disk that an alert is about, and its label 'disk'."""
    listed = facts.of.map.disks.get(alert.label("disk"))
    if listed is not None:
        yield from (*listed.leaves, listed.disk)
    member = facts.device(alert.label("member") or alert.label("device"))
    if member is not None and (member.leaf or alert.label("member")):
        yield from (each.name for each in facts.leaves(member))


def _arrays(alert: Alert, facts: Facts) -> Iterator[tuple[str, dict[str, set[str]]]]:
    """Yield the arrays that use the disk of an alert: name, and the `_names` of their members."""
    for each in (m for name in _names(alert, facts) for m in facts.memberships(name) if m.used):
        used = ((m.device, facts.device(m.device)) for m in each.array.members if in_use(m))
        yield each.array.name, {n: {d.name for d in facts.leaves(of)} for n, of in used if of}
    disks = facts.of.map.disks
    for card, array in _controller_arrays(alert, facts):
        serials = {d.serial for d in card.disks if d.array == array.name and d.serial}
        members = {key: {key} for key, each in disks.items() if has_serial(each, serials)}
        yield f"{array.name} of {card.name}", members


def _controller_arrays(alert: Alert, facts: Facts) -> Iterator[tuple[Controller, ControllerArray]]:
    listed = facts.of.map.disks.get(alert.label("disk"))
    if listed is None:
        return
    for card in facts.of.map.controllers:
        own = {d.array for d in card.disks if d.serial and has_serial(listed, {d.serial})}
        yield from ((card, array) for array in card.arrays if array.name in own)


def _urgent(alert: Alert, facts: Facts, bad: set[str]) -> str:
    """Return why a finding of a disk that holds no last copy is more urgent, or ''."""
    for card, array in _controller_arrays(alert, facts):
        level = _NO_LEVEL.sub("", array.level.casefold())
        if array.state.health is ComponentHealth.DEGRADED and level in _ONE_GROUP:
            return f"{array.name} of {card.name} has no redundancy left"
    for array_name, members in _arrays(alert, facts) if alert.name not in _ELSEWHERE else ():
        found = [name for name, own in members.items() if own & bad]
        if len(found) > 1:
            return f"{len(found)} members of {array_name} have errors ({', '.join(found)})"
    return ""


def _worn_together(alert: Alert, worn: Iterable[Alert], facts: Facts) -> Alert:
    """Return a forecast of wear with the members of the same array that wear out with it."""
    together = [a for a in worn if abs(a.value - alert.value) <= TOGETHER_DAYS]
    names = {
        n for a in together if a.label("disk") != alert.label("disk") for n in _names(a, facts)
    }
    for array_name, members in _arrays(alert, facts):
        if found := [name for name, own in members.items() if own & names]:
            text = f"; so will {', '.join(found)}, of the same array {array_name}, within 30 days"
            return _with(alert, "", f"{alert.summary}{text}")
    return alert


def _with(alert: Alert, redundancy: str, summary: str, steps: str = "") -> Alert:
    own = {**dict(alert.annotations), "summary": summary}
    if redundancy:
        own[REDUNDANCY] = redundancy
    if steps:
        own[STEPS] = steps
    return replace(alert, annotations=tuple(own.items()))


def _survives(alert: Alert, facts: Facts) -> int | None:
    """Return how many more disks may fail of what an alert about missing members is about."""
    array = facts.of.map.arrays.get(alert.label("device"))
    if array is not None:
        groups = md_groups(array, facts.geometry(array))
        if array.degraded == alert.value:
            return survives(groups)
        spare = survives_complete(groups)  # the array was read again since
        return None if spare is None else max(spare - int(alert.value), 0)
    if alert.label("fsid"):
        system = facts.of.map.redundancies.get((BTRFS, alert.label("fsid")))
        return None if system is None else system.survives
    if alert.name == "DmRaidDegraded":
        volume_of_lvm = facts.of.map.redundancies.get((LVM, alert.label("name")))
        return None if volume_of_lvm is None else volume_of_lvm.survives
    card = facts.index.card(alert.label("controller"))
    arrays = () if card is None else card.arrays
    volume = next((each for each in arrays if each.name == alert.label("array")), None)
    if card is None or volume is None:
        return None
    # The alert is older than a state that is read as whole meanwhile.
    number = survives(controller_groups(card, volume))
    return None if number is None or volume.state.health is ComponentHealth.OK else number


def _last_copy(alert: Alert, facts: Facts) -> str:
    """Return what an alert's device holds the last copy of, to begin a sentence with, or ''."""
    device = alert.label("device").removeprefix("/dev/")
    array = facts.of.map.arrays.get(device)
    if array is not None and not alert.label("member"):
        bare = last_holders(array, facts.geometry(array))
        return f"{device} has no redundancy left" if bare else ""
    listed = facts.of.map.disks.get(alert.label("disk"))
    names = (alert.label("member") or device, *(listed.leaves if listed else ()))
    found = (m for name in filter(None, names) for m in facts.memberships(name) if m.last)
    each = next(found, None)
    return "" if each is None else f"{each.member.device} holds the last copy of {each.array.name}"
