"""Turns an incident whose mail is due into a Notice: its title and its five sections. Pure.

A mail is a function of the incident's state and of the last one that was mailed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from iowarden.rules.notice import Notice
from iowarden.rules.notices import course_of_events, mail, titles, what_to_do, who_is_affected, why
from iowarden.rules.notices.mail import Sources

if TYPE_CHECKING:
    from iowarden.rules.incidents.model import DueNotice, Incident

__all__ = ["Sources", "notice"]


def notice(due: DueNotice, sources: Sources) -> Notice:
    """Return the mail that is due."""
    letter = mail.begun(due, sources)
    incident, realtime, now = due.incident, sources.realtime, sources.now
    name_of_today, renamed = course_of_events.name_of_today(incident, sources.topology)
    title = name_of_today or titles.object_of(letter)
    advice = what_to_do.advice_of(letter)
    mapped = mail.mapped_names(letter)
    return Notice(
        incident=incident.identifier,
        number=incident.mails,
        references=() if incident.mails == 1 else incident.references,
        reason=letter.reason,
        severity=incident.severity,
        object=title,
        summary=mail.with_names(
            titles.summary_of(letter),
            {name: shown for name, shown in mapped.items() if shown not in title},
        ),
        # An event that was read late occurred before its incident was opened.
        opened_seconds=realtime(_begun(incident)),
        realtime_seconds=realtime(now),
        recurrences=incident.recurrences,
        sentences=(
            *(mail.with_names(each, mapped) for each in course_of_events.sentences_of(letter)),
            *renamed,
        ),
        affected=who_is_affected.lines_of(letter),
        meaning=why.meaning_of(letter, advice),
        evidence=tuple(why.evidence_of(letter)),
        advice=advice.steps,
        unknown=mail.distinct_sentences(
            m.unknown for m in letter.written if m.unknown and m.cleared_seconds is None
        ),
        ended_seconds=realtime(incident.active_seconds) if letter.is_end else None,
        times=incident.occurrences,
    )


def _begun(incident: Incident) -> float:
    """Return when the reported problem began; if it was reopened, when it began again."""
    members = incident.members
    if not incident.recurrences:
        return min((incident.opened_seconds, *(m.since_seconds for m in members)))
    start = incident.begun_seconds
    this = (m.since_seconds for m in members if (m.cleared_seconds or math.inf) >= start)
    return min((start, *this))
