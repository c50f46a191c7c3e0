"""The title of a mail when several members of one array are its cause. Pure.

Causes that explain one fault of an array are one incident, which is titled by all of them: two by
their names, more by their number. An incident has one object; here the mail gets what it is about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.rules.faults import Fault, Layer
from iowarden.rules.topology.graph import layer_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iowarden.rules.incidents.model import Incident, IncidentMember
    from iowarden.rules.topology.topology import Dependents

_LOST = frozenset((Fault.GONE, Fault.FAILED))
"""One disk can make the others of its adapter hang; it does not make them disappear or fail."""
MAX_DESCRIBED = 6
"""More disks are not listed: the mail reports each of them below."""
_SHORT = frozenset((Fault.DEGRADED, Fault.EXHAUSTED, Fault.STOPPED))


def object_of(
    incident: Incident, members: Sequence[IncidentMember], dependents: Dependents, now: float
) -> str:
    """Return what a mail is about: 'sda and sdb (members of md0: ...)', else the incident's object.

    In parentheses stands which disks these are, with model and serial number.
    `members` are those of the mail, in its order. A disk that left more than 300 s ago counts as a
    member if nothing else is known to have been on it.
    """
    active = [m for m in members if m.cleared_seconds is None]
    arrays = {m.subject for m in active if m.layer is Layer.ARRAY and m.what.fault in _SHORT}
    arrays = {subject for subject in arrays if subject.startswith("device md")}
    if layer_of(incident.key) is not Layer.DISK or len(arrays) != 1:
        return incident.object
    (array,) = arrays
    above = dependents.above(now)
    names: dict[str, str] = {}
    for member in active:
        is_lost = member.layer is Layer.DISK and member.what.fault in _LOST and not member.count
        if is_lost and array in above.get(member.subject, (array,)):
            names.setdefault(member.subject, dict(member.labels).get("device", ""))
    if len(names) < 2 or incident.key not in names or not all(names.values()):
        return incident.object
    described = sorted(
        f"{name} {subject.removeprefix('disk ')}" if subject.startswith("disk ") else name
        for subject, name in names.items()
    )
    disks = "; ".join(described[:MAX_DESCRIBED] + ["..."] * (len(described) > MAX_DESCRIBED))
    name = array.removeprefix("device ")
    if len(names) == 2:
        return f"{' and '.join(sorted(names.values()))} (members of {name}: {disks})"
    carrying = {key for key, upper in above.items() if array in upper}
    every = {key for key in carrying if layer_of(key) is Layer.DISK} | names.keys()
    return f"{len(names)} of {len(every)} members of {name} ({disks})"
