"""The page of an incident: what it means, what to do, evidence, what it hits. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from iowarden.daemon.page.frame import (
    HEAD,
    KEY,
    WIDE,
    Frame,
    Row,
    badge,
    block,
    event_table,
    folded,
    link,
    listed,
    page,
    pairs,
    section,
    table,
)
from iowarden.daemon.page.html import SPACE, Markup, join, paragraph, tag
from iowarden.daemon.terminal.columns import mails_text, matchers_text
from iowarden.daemon.terminal.times import at_text, since_text, span

if TYPE_CHECKING:
    from iowarden.daemon.control.documents import EvidenceLine, IncidentDetail, MemberLine
    from iowarden.daemon.control.page_documents import IncidentPage

MAX_EVIDENCE = 8
"""Lines of evidence of one incident on the overview."""


def render(found: IncidentPage, *, full: bool = True, note: str = "") -> bytes:
    """Return the page; `note` is about the page itself."""
    detail = found.detail
    line, now = detail.line, detail.now_seconds
    closed = line.closed_seconds is not None
    word = "closed" if closed else line.severity
    title = incident_title(detail)
    known = line.acknowledged
    shown = "" if known is None else f"at {since_text(known.at_seconds, now)} {known.who}"
    shown = f"{shown}: {known.reason}" if known is not None and known.reason else shown
    facts: list[tuple[str, str | Markup]] = [
        ("object", line.object),
        ("opened", since_text(line.opened_seconds, now)),
        ("closed", since_text(line.closed_seconds, now) if closed else ""),
        ("state", _state(detail)),
        ("notifications", mails_text(line, now)),
        ("acknowledged", shown),
        ("silenced by", ", ".join(line.silences)),
        ("reopened", f"{line.recurrences} times" if line.recurrences else ""),
    ]
    return page(
        Frame(found.version, now, full),
        title=f"{word or 'incident'}: {title} - {found.host} - iowarden",
        heading=tag(
            "h1",
            badge("ok" if closed else line.severity or "notice", word or "incident"),
            SPACE,
            f"{found.host}: incident {line.identifier}",
        ),
        here=address(line.identifier),
        home=True,
        content=(
            section(
                "what",
                title,
                tag("p", paragraph(note)) if note else None,
                advice_and_evidence(detail),
            ),
            section("state", "State", pairs(facts), _silences(detail)),
            section("alerts", "Alerts", _members(detail, now)),
            section("timeline", "What happened", listed(detail.timeline))
            if detail.timeline
            else None,
            _events(detail, now),
        ),
    )


def incident_link(identifier: str, shown: str = "") -> Markup:
    """Return a link to the page of an incident."""
    return link(address(identifier), shown or identifier)


def address(identifier: str) -> Markup:
    """Return the path of the page of an incident."""
    return Markup(f"/incident/{quote(identifier, safe='')}")


def incident_title(found: IncidentDetail) -> str:
    """Return what is wrong in one line, or was."""
    line = found.line
    named = line.summary or next((m.summary or m.name for m in found.members), line.object)
    title = named
    if line.cleared_seconds is not None and line.closed_seconds is None:
        return f"cleared {span(found.now_seconds - line.cleared_seconds)} ago; was: {title}"
    return title


def _origin(line: EvidenceLine) -> str:
    """Return when, and where from; the words of a measured value need no name of a metric."""
    at = at_text(line.at_seconds)[11:]
    return at if "_" in line.source else f"{at} {line.source}"


def advice_and_evidence(found: IncidentDetail, *, short: bool = False) -> Markup:
    """Return meaning, advice, evidence, what is affected and what is not known."""
    evidence = found.evidence[:MAX_EVIDENCE] if short else found.evidence
    left = len(found.evidence) - len(evidence)
    own = "h4" if short else "h3"
    advice = join(*(block(each) for each in found.advice))
    lines = [
        tag(
            "li",
            tag("span", _origin(e), class_="soft"),
            SPACE,
            tag("strong", e.text),
        )
        for e in evidence
    ]
    more = f"and {left} more on its page" if left > 0 else ""
    affected = listed(found.affected)
    parts: list[Markup | None] = [
        *(tag("p", paragraph(each)) for each in found.meaning),
    ]
    if advice:
        parts.append(
            folded("What to do", advice)
            if short and len(advice) > 6000
            else join(tag(own, "What to do"), advice)
        )
    if lines:
        parts += [
            tag(own, "Evidence"),
            tag("ul", *lines, class_="plain"),
            tag("p", more, class_="soft") if more else None,
        ]
    if affected:
        parts += [tag(own, "What it affects"), affected]
    if found.unknown:
        parts += [tag(own, "What is not known"), listed(found.unknown)]
    return join(*parts)


def _state(detail: IncidentDetail) -> str:
    line = detail.line
    if line.closed_seconds is not None:
        return "closed"
    if line.firing:
        return "firing"
    since = line.cleared_seconds
    ago = "" if since is None else f" since {since_text(since, detail.now_seconds)}"
    return f"all its alerts are cleared{ago}; not resolved yet"


def _members(detail: IncidentDetail, now: float) -> Markup:
    def state(member: MemberLine) -> str | Markup:
        if member.cleared_seconds is not None:
            return badge("ok", "cleared")
        return badge("unknown") if member.state == "unknown" else member.state

    return table(
        "Alerts of this incident",
        detail.members,
        {
            "severity": ("", lambda m: badge(m.severity)),
            "alert": (HEAD, lambda m: Row(m.name)),
            "state": ("", state),
            "since": (KEY, lambda m: since_text(m.since_seconds, now)),
            "cleared": (
                KEY,
                lambda m: "" if m.cleared_seconds is None else since_text(m.cleared_seconds, now),
            ),
            "summary": (WIDE, lambda m: m.summary + (" [silenced]" if m.silenced else "")),
            "events": (KEY, lambda m: f"{m.count} event{'s'[: m.count != 1]}" if m.count else ""),
        },
        stack=True,
    )


def _silences(detail: IncidentDetail) -> Markup | None:
    return listed(
        f"silence {each.identifier} until {at_text(each.ends_seconds)}"
        f" {matchers_text(each.matchers)} {each.who} {each.reason}".rstrip()
        for each in detail.silences
    )


def _events(detail: IncidentDetail, now: float) -> Markup | None:
    if not detail.events and not detail.note:
        return None
    return section(
        "events",
        "Events",
        tag("p", paragraph(detail.note)) if detail.note else None,
        event_table("Its latest events, the oldest first", detail.events, now)
        if detail.events
        else None,
    )
