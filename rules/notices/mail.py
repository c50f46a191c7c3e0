"""A mail while it is written: what it is made of, and its incident's members in order. Pure.

Its title is written by titles.py. Its sections are course_of_events.py, who_is_affected.py, why.py
(what it means, and the evidence) and what_to_do.py; where to look, the fifth, is written where a
mail is rendered (daemon/notify/message.py). report.py puts them together.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from iowarden.collectors.dataclass import dataclass
from iowarden.rules.advice.advice import MemberText
from iowarden.rules.faults import LOST_A_DISK, SUMS_UP, SYMPTOMS, Fault, Layer
from iowarden.rules.notice import ENDS, Reason
from iowarden.rules.notices.measurements import NOTHING, Measured
from iowarden.rules.severity import Severity
from iowarden.rules.topology.device_identity import ADAPTER, identity
from iowarden.rules.topology.graph import FABRIC_KEY
from iowarden.rules.topology.topology import NO_DEPENDENTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.procfs.tasks import BlockedTasks
    from iowarden.rules.incidents.model import DueNotice, Incident, IncidentMember
    from iowarden.rules.notice import Evidence
    from iowarden.rules.topology.topology import Dependents

_T = TypeVar("_T")

MAX_DISKS = 24
"""Disks of an adapter that a line lists."""
WAITS = SYMPTOMS - {Fault.UNREADABLE, Fault.SUPERBLOCK} | {Fault.HANGS, Fault.SUSPENDED}
"""Faults in which tasks wait: then it matters which disks have requests in flight."""
_NUMBER = re.compile(r"(?<![\w.-])\d+(?:\.\d+)?(?![\w-])", re.ASCII)
"""Not a part of a name: 'md0', 'dm-1'."""
_SENTENCE = re.compile(r"(?<=\.) (?=[A-Z])")
_VAGUE = frozenset((Fault.ERRORS, Fault.WORN, Fault.HOT, Fault.UNPROTECTED, Fault.OTHER))


@dataclass(frozen=True, slots=True)
class Sources:
    """What a mail is made of in addition to its incident.

    Fields: `realtime` turns the program's clock into Unix time; `current` is evidence of now;
    `dependents` is which objects carry which; `busy` are the disks with requests in flight; `tasks`
    are the waiting tasks (None: not known); `text_of` gives the texts of a member in addition to
    its summary; `measured` are the present samples behind its alerts.
    """

    realtime: Callable[[float], float]
    now: float
    current: Sequence[Evidence] = ()
    topology: Topology | None = None
    dependents: Dependents = NO_DEPENDENTS
    busy: Sequence[str] = ()
    tasks: BlockedTasks | None = None
    text_of: Callable[[IncidentMember], MemberText] = lambda member: MemberText(member.advice)
    measured: Measured = NOTHING


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail that is due, and what it is made of.

    Fields: `reason` is why, as its reader sees it; `members` are those of its incident in the order
    of cause; `written` the same as sentences write them: one for many disks, one end for all.
    """

    due: DueNotice
    sources: Sources
    reason: Reason
    members: Sequence[IncidentMember]
    written: Sequence[IncidentMember]

    @property
    def incident(self) -> Incident:
        """Return its incident, in which it is counted."""
        return self.due.incident

    @property
    def is_first(self) -> bool:
        """Whether its reader had none of its incident before."""
        return self.due.incident.mails == 1 or 1 in self.due.replaces

    @property
    def is_end(self) -> bool:
        """Whether it reports that nothing of its incident is left."""
        return self.due.reason in ENDS

    @property
    def is_of_adapter(self) -> bool:
        """Whether its object is what disks share: then one line is about many of them."""
        return self.due.incident.key.startswith(ADAPTER)


def begun(due: DueNotice, sources: Sources) -> Mail:
    """Return a mail to be written."""
    incident, members = due.incident, _in_order_of_cause(due.incident)
    is_first = incident.mails == 1 or 1 in due.replaces
    nothing_escalated = due.is_only_known_better or (is_first and due.reason is Reason.ESCALATED)
    written = members
    if incident.key.startswith(ADAPTER):
        written = [_of_many(m) for m in written]
    if due.reason in ENDS:
        written = _with_one_end(written, incident)
    reason = Reason.OPENED if nothing_escalated else due.reason
    return Mail(due, sources, reason, members, written)


def _in_order_of_cause(incident: Incident) -> list[IncidentMember]:
    """Return the members; the alert of the object itself first.

    Of a map that its paths are lost, then of the paths.
    """
    fabric = incident.key == FABRIC_KEY
    return sorted(
        incident.members,
        key=lambda m: (
            *order(m)[:3],
            m.layer <= Layer.DISK if fabric else m.subject != incident.key,
            order(m),
        ),
    )


def order(member: IncidentMember) -> tuple[bool, bool, bool, Layer, bool, int, float]:
    """Sort key of members: active, causes before symptoms, the deepest first, then severity."""
    vague = member.what.fault in _VAGUE
    sums_up = member.name in SUMS_UP and member.severity < Severity.CRITICAL
    return (
        member.cleared_seconds is not None,
        member.silenced,
        member.what.symptom or sums_up,
        member.layer,
        vague,
        -member.severity,
        member.since_seconds,
    )


def _of_many(member: IncidentMember) -> IncidentMember:
    """Return a member whose summary does not begin with its disk: it represents several."""
    own = dict(member.labels).get("object", "")
    return replace(member, summary=member.summary.removeprefix(f"{own} ")) if own else member


def _with_one_end(members: Sequence[IncidentMember], incident: Incident) -> list[IncidentMember]:
    """Return the members of a resolved incident: the last one ends with it, as the mail begins.

    It was last seen to hold then; that it no longer holds was seen at the next evaluation.
    """
    end = incident.active_seconds
    last = max((m.over_seconds or 0.0 for m in members), default=0.0)
    return [replace(m, absent_seconds=end) if m.over_seconds == last else m for m in members]


def disk(member: IncidentMember) -> str:
    """Return the device or disk that a member is about, by its name; '' if it is about none."""
    own = dict(member.labels)
    device = own.get("device") or own.get("disk", "")
    return own.get("name", device) if device.startswith("dm-") else device


def mapped_names(mail: Mail) -> dict[str, str]:
    """Return by kernel name, which no owner knows, what a title calls a device: 'vg-a (dm-3)'.

    Of the devices of alerts whose series has no label for it. The incident's own is named as when
    it was opened: after a boot its number may be another device's.
    """
    topology, incident = mail.sources.topology, mail.incident
    shown = {}
    for device in {disk(member) for member in mail.members}:
        own = topology.devices.get(device) if topology is not None else None
        if not device.startswith("dm-"):
            continue
        if incident.key == f"device {device}" and f"({device})" in incident.object:
            shown[device] = incident.object
        elif own is not None and own.dm_name:
            shown[device] = identity(topology, device).object
    return shown


def with_names(text: str, shown: Mapping[str, str]) -> str:
    """Return a text that names a device by its owner's name where it first has the kernel's."""
    for device, name in shown.items():
        if name.removesuffix(f" ({device})") not in text:
            plain = name.replace("\\", r"\\")
            text = re.sub(rf"(?<![\w/-]){device}(?![\w-])", plain, text, count=1)
    return text


def without_numbers(summary: str) -> str:
    """Return the first clause of a summary without its numbers: equal ones report the same."""
    return _NUMBER.sub("", summary.partition("; ")[0])


def common_summary(members: Sequence[IncidentMember]) -> str:
    """Return the summary of objects of which the same is reported, or what it has in common.

    Where their numbers differ it is that of the first one, with its name.
    """
    first = members[0]
    clauses = {member.summary.partition("; ")[0] for member in members}
    if len({member.summary for member in members}) == 1:
        return first.summary
    return clauses.pop() if len(clauses) == 1 else f"{first.summary} ({disk(first)})"


def lost_a_disk(member: IncidentMember) -> bool:
    """Whether an adapter reports a lost disk, but not which one."""
    return member.what == LOST_A_DISK and member.subject.startswith(ADAPTER)


def listed(names: Sequence[str]) -> str:
    """Return names as a list, the first ones of many."""
    return ", ".join(names[:MAX_DISKS]) + (", ..." if names[MAX_DISKS:] else "")


def distinct_sentences(texts: Iterable[str]) -> tuple[str, ...]:
    """Return texts without the sentences that another one has, alike or with more words behind.

    The alerts of a dying disk have 'How long it will last.' and 'How long it will last: hours ...'.
    """
    split = [_SENTENCE.split(" ".join(text.split())) for text in texts]
    every = distinct(each for sentences in split for each in sentences)
    longer = {
        each
        for each in every
        if any(other.startswith(f"{each.rstrip('.')}{mark}") for other in every for mark in ":,;")
    }
    shortened, printed = [], set(longer)
    for sentences in split:
        fresh = distinct(each for each in sentences if each not in printed)
        printed.update(fresh)
        shortened.append(" ".join(fresh))
    return distinct(shortened)


def distinct(values: Iterable[_T]) -> tuple[_T, ...]:
    """Return the values that are not empty, each once."""
    return tuple(dict.fromkeys(value for value in values if value))
