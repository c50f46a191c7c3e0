"""Alerts about an array without redundancy, or about a disk that holds the last copy. Pure.

A rule finds a missing member; what that means depends on the RAID level. Errors of a disk are more
severe if no other disk holds its data. So alerts are marked by the state of the arrays when they
are evaluated; an alert about an unknown array is left unchanged.
Limits: for an array of a RAID controller only its level is known (a degraded RAID 6 may have lost
one disk or two); the profiles of btrfs and of LVM's own RAID are not read: no mark.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.rules.advice.advice import STEPS, TEXT
from iowarden.rules.advice.facts import UNREADABLE, AdviceInputs, Facts
from iowarden.rules.alerting.alerts import REDUNDANCY
from iowarden.rules.faults import LEFT, NONE_LEFT, SHORT
from iowarden.rules.severity import Severity
from iowarden.rules.topology.redundancy import last_holders, runs, spared

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iowarden.rules.alerting.alerts import Alert
    from iowarden.rules.topology.slot_map import DeviceMap

_OF_DISKS = UNREADABLE | {"block_io_error"}
_ONE_SPARE = frozenset(("1", "1e", "1+0", "10", "4", "5", "5+0", "50"))
"""RAID levels of controllers that, once degraded, have no redundancy left, wholly or in one of
their parts.
"""
_NO_LEVEL = re.compile(r"raid|[\s_-]")


def marked(alerts: Iterable[Alert], where: DeviceMap) -> list[Alert]:
    """Return the alerts; those that concern redundancy with the annotation REDUNDANCY.

    An error of a disk that holds a last copy is critical, shows that in its summary, and its
    advice is first not to lose the disk.
    """
    known = list(alerts)
    matter = [a for a in known if a.active and a.name in SHORT | _OF_DISKS]
    if not matter:
        return known
    facts = Facts(AdviceInputs(where))
    found = {alert.key: _marked(alert, facts) for alert in matter}
    return [found.get(alert.key, alert) for alert in known]


def _marked(alert: Alert, facts: Facts) -> Alert:
    if alert.name in SHORT:
        left = _left(alert, facts)
        if left is None:
            return alert
        array = facts.of.map.arrays.get(alert.label("device"))
        stopped = array is not None and not runs(array)  # then it has no data either
        text = "" if left or stopped else "; no redundancy left"
        return _with(alert, LEFT if left else NONE_LEFT, f"{alert.summary}{text}")
    if not facts.of.map.arrays or alert.severity < Severity.WARNING:
        return alert
    last = _last_copy(alert, facts)
    if not last:
        return _with(alert, LEFT, alert.summary)
    steps = alert.annotation(STEPS).split() or [TEXT]
    steps = steps if TEXT in steps else [TEXT, *steps]
    summary = f"{last} and has errors: {alert.summary}"
    return _with(alert, NONE_LEFT, summary, " ".join(("last_copy", *steps)))


def _with(alert: Alert, redundancy: str, summary: str, steps: str = "") -> Alert:
    own = {**dict(alert.annotations), "summary": summary, REDUNDANCY: redundancy}
    if steps:
        own[STEPS] = steps
    return replace(alert, annotations=tuple(own.items()))


def _left(alert: Alert, facts: Facts) -> bool | None:
    """Whether an array with missing members can lose a further one; None: not known."""
    array = facts.of.map.arrays.get(alert.label("device"))
    if array is not None:
        geometry = facts.geometry(array)
        spare = spared(array, None if geometry is None else geometry.copies)
        return None if spare is None else alert.value < spare  # the array may be read again already
    card = facts.index.card(alert.label("controller"))
    arrays = () if card is None else card.arrays
    level = next((each.level for each in arrays if each.name == alert.label("array")), "")
    return False if _NO_LEVEL.sub("", level.casefold()) in _ONE_SPARE else None


def _last_copy(alert: Alert, facts: Facts) -> str:
    """Return what an alert's device holds the last copy of, to begin a sentence with, or ''."""
    device = alert.label("device").removeprefix("/dev/")
    array = facts.of.map.arrays.get(device)
    if array is not None and not alert.label("member"):
        bare = last_holders(array, facts.geometry(array))
        return f"{device} has no redundancy left" if bare else ""
    covered = facts.of.map.disks.get(alert.label("disk"))
    names = (alert.label("member") or device, *(covered.leaves if covered else ()))
    found = (m for name in filter(None, names) for m in facts.memberships(name) if m.last)
    each = next(found, None)
    return "" if each is None else f"{each.member.device} holds the last copy of {each.array.name}"
