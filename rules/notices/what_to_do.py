"""What to do: the advice of a mail that is new and may be followed now. Pure."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.rules.faults import HARMS, LOST_TO_ARRAY, THREATS, Fault, Layer
from iowarden.rules.notice import Reason
from iowarden.rules.notices.mail import disk, distinct, lost_a_disk, order
from iowarden.rules.severity import Severity
from iowarden.rules.topology.device_identity import ADAPTER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iowarden.rules.advice.advice import MemberText
    from iowarden.rules.incidents.model import DueNotice, Incident, IncidentMember
    from iowarden.rules.notices.mail import Mail

MAX_NAMED = 3
"""Objects whose earlier advice is retracted by their names."""
_BARE = LOST_TO_ARRAY | {Fault.EXHAUSTED, Fault.DEGRADED}
_THREATS = {Fault.STOPPED: "does not work", Fault.EXHAUSTED: "has no redundancy left"}
_NAMES = ("mountpoint", "pool", "label")
"""Labels of what has no device: file systems, pools."""


@dataclass(frozen=True, slots=True)
class Advice:
    """What may be followed now.

    Fields: `valid` are the members whose advice may be; `retracted` is which earlier advice may no
    longer be; `texts` are those of the members that are advised about in this mail.
    """

    valid: Sequence[IncidentMember]
    retracted: tuple[str, ...]
    texts: Sequence[MemberText]

    @property
    def steps(self) -> tuple[str, ...]:
        """Return the steps in words: first what must no longer be done."""
        return distinct((*self.retracted, *(text.advice.strip("\n") for text in self.texts)))


def advice_of(mail: Mail) -> Advice:
    """Return the advice of a mail: what earlier mails advised is not repeated."""
    valid = valid_members(mail.members)
    retracted = tuple(_retracted(mail, valid))
    texts = [mail.sources.text_of(m) for m in _newly_advised(mail, valid, retracted)]
    return Advice(valid, retracted, texts)


def _newly_advised(
    mail: Mail, valid: Sequence[IncidentMember], retracted: Sequence[str]
) -> list[IncidentMember]:
    """Return the members whose advice is in the mail: it is not repeated.

    But hours later another person may be woken, and retracted advice is followed by the valid one.
    """
    due, incident = mail.due, mail.incident
    is_repeated = bool(due.replaces) or mail.reason in {Reason.REBUILT, Reason.REOPENED}
    already_advised = set() if is_repeated or retracted else set(incident.advised)
    fresh = [m for m in valid if m.name not in already_advised or _has_become_critical(m, due)]
    if any(m.cleared_seconds is None for m in incident.members):  # what ended needs no advice
        fresh = [m for m in fresh if m.cleared_seconds is None or m.count]
    if incident.key.startswith(ADAPTER):  # one of many disks represents all
        fresh = list({m.name: m for m in reversed(fresh)}.values())[::-1]
    fresh.sort(key=lambda m: not (m.what.fault is Fault.EXHAUSTED and m.layer is Layer.DISK))
    return list(_for_causes(fresh, valid, incident))


def _for_causes(
    fresh: Sequence[IncidentMember], valid: Sequence[IncidentMember], incident: Incident
) -> Iterator[IncidentMember]:
    """Yield the members to advise about: for programs that wait, what they wait for.

    A list of who waits for a full thin pool does not extend it: the advice about it is repeated.
    """
    causes = [
        m
        for m in valid
        if m.what.blocks_programs and m.subject == incident.key and m.cleared_seconds is None
    ]
    if causes and any(m.name in HARMS for m in fresh):
        yield from causes
        fresh = [m for m in fresh if m not in causes and m.name not in HARMS]
    yield from fresh


def _has_become_critical(member: IncidentMember, due: DueNotice) -> bool:
    """Whether this mail is the first to report it as critical: it repeats the advice."""
    rose = member.severity is Severity.CRITICAL and not member.count
    return rose and member.fact in due.updates


def valid_members(members: Sequence[IncidentMember]) -> list[IncidentMember]:
    """Return the members whose advice may be followed in the present state.

    Advice for a disk or a file system may destroy an array that has stopped; for an array without
    redundancy only the advice about that and about what it lost is valid. Advice for an adapter
    only reads.
    """
    now = {m.what.fault for m in members if m.cleared_seconds is None}
    if not now & THREATS:
        return list(members)
    valid = {Fault.STOPPED} if Fault.STOPPED in now else _BARE
    return [
        m
        for m in members
        if _is_read_only(m)
        or (
            m.what.fault in valid
            and m.layer < Layer.FILE_SYSTEM
            and (m.cleared_seconds is None or m.what.fault not in THREATS)
        )
    ]


def _is_read_only(member: IncidentMember) -> bool:
    """Whether the advice for a member is safe whatever other faults there are."""
    return lost_a_disk(member) or member.name == "hba_aen"


def _retracted(mail: Mail, valid: Sequence[IncidentMember]) -> Iterator[str]:
    """Yield which advice of earlier mails is dangerous now, and why, in at most 15 words."""
    is_first = 1 in mail.due.replaces
    previous = mail.due.previous
    last = math.inf if previous is None else previous.seconds
    # What joined since is new, though another object's advice of the same alert was given.
    given = [
        m
        for m in mail.members
        if m.name in mail.incident.advised and not is_first and m.joined_seconds <= last
    ]
    has_common_cause = mail.due.renamed and mail.is_of_adapter
    void = [m for m in given if has_common_cause or m not in valid]
    if void:
        yield f"Do not follow the earlier advice{_about(void)}: {_why(mail)}."


def _about(void: Sequence[IncidentMember]) -> str:
    """Return ' about sdb, sdc, md0'; of many objects their number, of the whole host ''."""
    names = distinct(map(_name, void))
    if len(names) > MAX_NAMED:
        return f" about {len(names)} objects"
    return f" about {', '.join(names)}" if names else ""


def _why(mail: Mail) -> str:
    """Return why advice may destroy data now: the deepest threat, else a cause in common."""
    threats = [m for m in mail.members if m.cleared_seconds is None and m.what.fault in THREATS]
    if not threats:
        return "several disks fail together"
    threat = min(threats, key=lambda m: (m.what.fault is not Fault.STOPPED, order(m)))
    is_copy = threat.what.fault is Fault.EXHAUSTED and threat.layer is Layer.DISK
    problem = "holds the last copy" if is_copy else _THREATS[threat.what.fault]
    return f"{_name(threat) or mail.incident.object.partition(' (')[0]} {problem}"


def _name(member: IncidentMember) -> str:
    """Return the name of a member's object, without model and serial number."""
    labels = dict(member.labels)
    return disk(member) or next((labels[name] for name in _NAMES if labels.get(name)), "")


def advised(incident: Incident) -> tuple[str, ...]:
    """Return the alerts whose advice the mails of this incident have given: it is not repeated."""
    return distinct((*incident.advised, *(m.name for m in valid_members(incident.members))))
