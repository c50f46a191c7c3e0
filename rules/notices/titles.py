"""The title of a mail: what it is about, and in one line what is wrong with it. Pure.

Causes that explain one fault of an array are one incident, which is titled by all of them: two by
their names, more by their number. An incident has one object; here the mail gets what it is about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.rules.alerting.alerts import AlertState
from iowarden.rules.faults import (
    HARMS,
    LOST_TO_ARRAY,
    SHORT,
    TIMED,
    TOO_FEW_MEMBERS,
    Fault,
    Layer,
)
from iowarden.rules.incidents.causes import Shortages
from iowarden.rules.incidents.due import short_arrays
from iowarden.rules.incidents.model import CAUSE_FOUND
from iowarden.rules.notice import ENDS, Reason
from iowarden.rules.notices.mail import common_summary, disk, order
from iowarden.rules.topology.device_identity import ADAPTER
from iowarden.rules.topology.graph import FABRIC_KEY, layer_of
from iowarden.rules.topology.topology import dependents_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.rules.incidents.model import DueNotice, Incident, IncidentMember
    from iowarden.rules.notices.mail import Mail
    from iowarden.rules.topology.topology import Dependents

LAST_KNOWN = "last known: "
"""Beginning of the summary of a problem whose data are no longer available."""
MAX_DESCRIBED = 6
"""More disks are not listed: the mail reports each of them below."""
_OF_MAPS = frozenset((Layer.VOLUME, Layer.MAPPED))
_FAULTS = {
    Fault.ERRORS: ("has errors", "had errors"),
    Fault.EXHAUSTED: ("has no redundancy left", "had no redundancy left"),
    Fault.HANGS: ("hangs", "hung"),
    Fault.LOST: ("lost data", "lost data"),
}
_FULL_POOL = ("thin pool full or read-only", "thin pool was full or read-only")
_ALERTS = {"dm_pool_full": _FULL_POOL, "ThinPoolOutOfSpace": _FULL_POOL}
"""Of alerts whose fault is named by what it does: no device is suspended, its writes wait."""


def summary_of(mail: Mail) -> str:
    """Return what is wrong in one line: the news, behind the fault of the mail's object."""
    incident, sources = mail.incident, mail.sources
    summary, about = _summary(mail.reason, mail.written, mail.due)
    if about is None:
        return summary
    count = _disks_of(incident, sources.dependents, sources.now)
    return _titled(summary, about, mail, count)


def _summary(
    reason: Reason, members: Sequence[IncidentMember], due: DueNotice
) -> tuple[str, IncidentMember | None]:
    """Return the summary of a mail, and the member that it is about."""
    if not members:
        return "no alert is left", None
    worst, incident = members[0], due.incident
    if due.is_only_known_better:
        return due.details[-1].removeprefix(CAUSE_FOUND), None
    if reason in ENDS:  # of the last occurrence, if there were several
        start = incident.started_seconds
        last = [m for m in members if m.cleared_seconds is None or m.cleared_seconds >= start]
        worst = min(last or [worst], key=lambda m: order(m)[1:])
        return f"was: {_as_reported(worst, incident)}", worst
    if reason is Reason.REBUILT:
        short = {*short_arrays(members)}
        ended = [m for m in members if m.name in SHORT and m.subject not in short]
        whole = max(ended, key=lambda m: m.cleared_seconds or 0.0, default=worst)
        # The mail's object may be the disk that failed, which is as bad as before.
        array = f" of {disk(whole)}" if whole.subject != incident.key and disk(whole) else ""
        return f"all members{array} are present again; was: {whole.summary}", whole
    if reason is Reason.DATA_UNAVAILABLE:
        unreadable = _unreadable(members)
        return f"{LAST_KNOWN}{unreadable.summary}", unreadable
    if reason is Reason.ESCALATED:  # the news: a threat to data, else the deepest new alert
        is_news = [m for m in members if m.cleared_seconds is None or m.fact in due.updates]
        active = is_news or [worst]
        worst = min(
            active,
            key=lambda m: (
                m.silenced,
                _is_mere_symptom(m) and m.fact not in due.updates,  # not why the mail is due
                m.baseline,  # of a value that was so before the first look: what came now is news
                not due.is_new(m),
                _is_mere_symptom(m),
                m.what.fault is not Fault.STOPPED,
                not m.what.threatens,
                order(m)[:5],
                m.subject != incident.key,
                order(m),
            ),
        )
    over = all(m.absent_seconds is not None for m in members if m.cleared_seconds is None)
    if worst.what.symptom and reason is Reason.REOPENED:  # it was over before the mail was due
        repeated = [m for m in members if m.fact in due.updates and not m.what.symptom]
        worst = min(repeated, key=order, default=worst)
        over = over or worst.cleared_seconds is not None
    return f"cleared; was: {worst.summary}" if over else worst.summary, worst


def _is_mere_symptom(member: IncidentMember) -> bool:
    return member.what.symptom and member.name not in HARMS


def _as_reported(member: IncidentMember, incident: Incident) -> str:
    """Return the summary that the mails had of what ended: its last value is that of the end.

    Of what is measured in seconds the last value is how long it lasted, also of blocked programs.
    """
    reports = (each.reported for each in incident.faults if each.fact == member.fact)
    said = next((report.summary for report in reports if report is not None), "")
    is_last = member.name in TIMED | HARMS
    return member.summary if is_last or not said else said


def _titled(summary: str, about: IncidentMember, mail: Mail, count: int) -> str:
    """Return a summary with the fault of the incident's object before news of others.

    `count` is the number of disks of an adapter or expander. Who reads this mail may not have the
    first one: 'sda: gone and md0 has no redundancy left'. Without a comma between, the subject is
    cut behind both.
    """
    members, incident = mail.written, mail.incident
    # What a line reported may no longer be recent when its mail is due.
    is_news = about.cleared_seconds is None or about.fact in mail.due.updates
    news = is_news and about.subject != incident.key
    if not incident.key.startswith(ADAPTER):
        own = [m for m in members if m.subject == incident.key and not m.what.symptom]
        own.sort(key=lambda m: m.over_seconds is not None)
        where = f" ({disk(about)})" if is_named(about) else ""
        return f"{_fault(own[0])} and {summary}{where}" if own and news else summary
    fabric = incident.key == FABRIC_KEY
    # Of the fabric not what is on its maps, nor what waits on the host.
    those = [m for m in members if (m.layer in _OF_MAPS if fabric else m.layer <= Layer.DISK)]
    what = "multipath maps" if fabric else "disks"
    # By disk, not by name: a line may name its partition. The adapter is the object of lines about
    # itself, and of disks that it hides, which are known by their serial numbers.
    hidden = {dict(m.labels).get("disk", "") for m in those if m.subject.startswith(ADAPTER)}
    shown = {m.subject for m in those if not m.subject.startswith(ADAPTER)}
    failed = len((hidden | shown) - {""})
    if failed < 2:
        return summary
    many = f"{failed} of {count}" if count >= failed else f"{failed}"
    if about in those or not news:
        same = [about, *(m for m in those if m.name == about.name and m is not about)]
        shared = summary.replace(about.summary, common_summary(same))
        return f"{many} {what}: {shared}" if disk(about) else summary
    faulty = [m for m in those if disk(m) and not m.what.symptom]
    faulty.sort(key=lambda m: m.over_seconds is not None)
    return f"{many} {what} {_of_many(_fault(faulty[0]))} and {summary}" if faulty else summary


def _fault(member: IncidentMember) -> str:
    """Return what is or was wrong with an object, in a word or two."""
    fault = member.what.fault
    now, before = _ALERTS.get(member.name, _FAULTS.get(fault, (fault.value, f"was {fault.value}")))
    return now if member.over_seconds is None else before


def _of_many(words: str) -> str:
    """Return what is or was wrong with several objects: 'hang', 'have errors', 'were gone'."""
    verb, space, rest = words.partition(" ")
    return {"hangs": "hang", "has": "have", "was": "were"}.get(verb, verb) + space + rest


def _disks_of(incident: Incident, dependents: Dependents, now: float) -> int:
    """Return how many disks an adapter or expander has, with those that it lost; 0: not known.

    Those that are missing in its incident are of it, also after a restart and after five minutes.
    """
    if not dependents.now:
        return 0
    name = incident.key.removeprefix(ADAPTER)
    above = dependents_of(dependents, incident.key, now)
    missing = {
        member.subject
        for member in incident.members
        if (member.what.fault, member.layer) == (Fault.GONE, Layer.DISK) and not member.count
    }
    return len({each.key for each in above if each.on == name} | missing)


def _unreadable(members: Sequence[IncidentMember]) -> IncidentMember:
    """Return the member whose data source can no longer be read."""
    return next(
        (m for m in members if m.state is AlertState.UNKNOWN and not m.silenced), members[0]
    )


def is_named(member: IncidentMember) -> bool:
    """Whether its device has to be named, since its summary does not."""
    return bool(disk(member)) and disk(member) not in member.summary


def object_of(mail: Mail) -> str:
    """Return what a mail is about: 'sda and sdb (members of md0: ...)', else the incident's object.

    In parentheses stands which disks these are, with model and serial number. A disk that left more
    than 300 s ago counts as a member if nothing else is known to have been on it.
    """
    incident, sources = mail.incident, mail.sources
    active = [m for m in mail.written if m.cleared_seconds is None]
    arrays = {
        m.subject for m in active if m.layer is Layer.ARRAY and m.what.fault in TOO_FEW_MEMBERS
    }
    arrays = {subject for subject in arrays if subject.startswith("device md")}
    if layer_of(incident.key) is not Layer.DISK or len(arrays) != 1:
        return incident.object
    (array,) = arrays
    above = sources.dependents.above(sources.now)
    names: dict[str, str] = {}
    began = max(m.since_seconds for m in active if m.subject == array)
    whole_until = Shortages((incident,)).whole_until(array, began)
    for member in active:
        is_lost = (
            member.layer is Layer.DISK and member.what.fault in LOST_TO_ARRAY and not member.count
        )
        # The array lists a disk that it gave up until it is removed, though a spare has its place.
        if member.what.fault is Fault.MARKED_FAULTY and member.since_seconds < whole_until:
            continue
        if is_lost and array in (above.get(member.subject) or (array,)):
            known = names.get(member.subject, "")
            names[member.subject] = known or _name_of(member, sources.topology)
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


def _name_of(member: IncidentMember, topology: Topology | None) -> str:
    """Return the name of the disk that a member is about; '' if it is not known.

    An alert about a member of an array has the names of both: 'md0' and 'sdb1'.
    """
    labels = dict(member.labels)
    if not (part := labels.get("member", "")):
        return labels.get("device", "")
    device = topology.whole(part) if topology is not None else None
    return device.name if device is not None else ""
