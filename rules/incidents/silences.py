"""Silences of alerts and acknowledgements of incidents, as set by users. Pure.

A silence matches an alert's labels as they are shown, and one additional label, `subject`, the key
of the disk it is about. 'device=sda' matches the disk that has this name today: after a restart
another disk may have the name.
Source: Alertmanager's silences (matchers, end, author, comment), which users know; an
acknowledgement is valid until its incident escalates.
Units: seconds of the program's clock.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Family
from iowarden.collectors.near import did_you_mean, near
from iowarden.collectors.quantity import duration
from iowarden.rules.incidents import due
from iowarden.rules.matcher import MAX_CHARACTERS, Matcher, match_all, predicate, written
from iowarden.rules.severity import Severity  # noqa: TC001 - stored over restarts: read at run time
from iowarden.rules.topology.device_identity import identity

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.model import Labels, Sample
    from iowarden.rules.alerting.alerts import Alert
    from iowarden.rules.incidents.model import Incident

SUBJECT = "subject"
OF_OBJECTS = frozenset(
    "array controller device directory disk host member model mountpoint pool serial".split()
)
"""Labels whose values are the objects of this host: a matcher with none of them is a mistake."""
_USUAL = f"the usual ones are {', '.join(sorted({'alertname', *OF_OBJECTS, 'severity'}))}."
MAX_NAMED = 5
MAX_SILENCES, MAX_MATCHERS = 1000, 64
MAX_PATTERN_CHARACTERS = 10_000
"""Of all regular expressions: they are parsed again with each change, in the main loop."""
LONGEST_SECONDS = 365 * 86_400.0
RETENTION_SECONDS = 86_400.0
"""An ended silence is deleted after this time."""
MAX_REMEMBERED = 10_000
"""Size of the cache of silences by alert."""

FAMILIES = (
    Family("iowarden_silences", "gauge", "Silences that have not ended."),
    Family("iowarden_alerts_silenced", "gauge", "Firing or unknown alerts that are silenced."),
    Family("iowarden_silence_remaining_seconds", "gauge", "Seconds until the silence ends."),
)


@dataclass(frozen=True, slots=True)
class Silence:
    """No mail about alerts that all `matchers` match, until `ends_seconds`."""

    identifier: str
    matchers: tuple[Matcher, ...]
    created_seconds: float
    lasts_seconds: float
    """Of one that was added a whole number, rounded up."""
    reason: str
    who: str
    expired_seconds: float | None = None
    """When a user ended it."""

    @property
    def ends_seconds(self) -> float:
        """Return when it ends, or has ended."""
        planned = self.created_seconds + self.lasts_seconds
        return planned if self.expired_seconds is None else min(self.expired_seconds, planned)


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """No mail about an incident until it escalates above `severity`, or is resolved."""

    incident: str
    """Its identifier."""
    severity: Severity
    created_seconds: float
    reason: str
    who: str
    subjects: tuple[str, ...] = ()
    """Keys of its objects: a further disk is an escalation."""
    kinds: tuple[str, ...] = ()
    """The worse kinds of harm of its faults: a further one is an escalation."""


@dataclass(frozen=True, slots=True)
class Silences:
    """All silences and acknowledgements, also recently ended ones. Persisted."""

    silences: tuple[Silence, ...] = ()
    acknowledgements: tuple[Acknowledgement, ...] = ()

    def active(self, now: float) -> tuple[Silence, ...]:
        """Return the silences that have not ended."""
        return tuple(s for s in self.silences if now < s.ends_seconds)

    def by_incident(self) -> dict[str, Acknowledgement]:
        """Return the acknowledgements by the identifier of their incident."""
        return {each.incident: each for each in self.acknowledgements}


def pinned(matchers: Iterable[Matcher], topology: Topology | None) -> tuple[Matcher, ...]:
    """Return matchers that match the same disk under any later device name.

    'device=sda' (or '/dev/sda') becomes the disk of this name, with its partitions, where that is
    known by a serial number or WWN; so does 'serial=S1234' or 'disk=S1234', whose label only some
    of its alerts have. All others stay.
    """
    result = []
    for each in matchers:
        keys = _keys(each, topology) if topology is not None and each.operator == "=" else set()
        key = keys.pop() if len(keys) == 1 else ""
        result.append(Matcher(SUBJECT, "=", key) if key.startswith("disk ") else each)
    return tuple(result)


def _keys(matcher: Matcher, topology: Topology) -> set[str]:
    """Return the identities of the devices that a matcher names; several are ambiguous."""
    if matcher.label == "device" and topology.kernel_name(matcher.text) in topology.devices:
        return {identity(topology, matcher.text).key}
    if matcher.label in {"serial", "disk"}:
        return {
            identity(topology, name).key
            for name, device in topology.devices.items()
            if device.serial and device.serial == matcher.text
        }
    return set()


def matches(silence: Silence, labels: Labels) -> bool:
    """Whether all matchers of a silence match labels; a label that is missing is ''."""
    return match_all(silence.matchers)(dict(labels))


def finder(state: Silences) -> Callable[[Alert, float], Silence | None]:
    """Return a function that finds the silence of an alert at a time: the one that ends last.

    It caches by labels: create one for each state, not for each query.
    """
    tests = [(s, match_all(s.matchers)) for s in state.silences if s.expired_seconds is None]
    remembered: dict[tuple[Labels, str], tuple[Silence, ...]] = {}

    def find(alert: Alert, now: float) -> Silence | None:
        if not tests:
            return None
        found = remembered.get(alert.key)
        if found is None:
            own = dict(alert.labels) | {SUBJECT: alert.subject}
            found = tuple(silence for silence, test in tests if test(own))
            if len(remembered) >= MAX_REMEMBERED:
                remembered.clear()
            remembered[alert.key] = found
        holding = [each for each in found if now < each.ends_seconds]
        return max(holding, key=lambda each: each.ends_seconds, default=None)

    return find


@dataclass(frozen=True, slots=True)
class Note:
    """What a new silence matches now."""

    text: str
    is_unmatched: bool = False
    """Nothing on this host can match it: a misspelt name, or an object that is not there yet."""


def note(
    silence: Silence,
    expected: Iterable[Mapping[str, str]],
    now_silenced: int,
    present: Mapping[str, Collection[str]],
    used: Iterable[str] = (),
) -> Note:
    """Return a note about a new silence: whether it matches nothing, or everything.

    `expected` are the known labels of each rule's alerts, `now_silenced` the number of alerts that
    it silences now, `present` the values on this host of labels in OF_OBJECTS; `used` are the names
    of all labels on this host.
    """
    tests = [(each.label, predicate(each)) for each in silence.matchers]
    rules = list(expected)
    if problem := _unmatched(silence, rules, present, used):
        return Note(f"warning: {problem}", is_unmatched=True)
    if all(label in r and test(r[label]) for r in rules for label, test in tests):
        return Note("it matches every alert: no alert is mailed until it ends")
    if now_silenced == 1:
        return Note("1 alert that is firing now matches")
    return Note(f"{now_silenced or 'no'} alerts that are firing now match")


def _unmatched(
    silence: Silence,
    rules: Sequence[Mapping[str, str]],
    present: Mapping[str, Collection[str]],
    used: Iterable[str],
) -> str:
    """Return why nothing on this host can match a silence, '' if something can."""
    tests = [(each.label, predicate(each)) for each in silence.matchers]
    if not any(all(label not in r or test(r[label]) for label, test in tests) for r in rules):
        like_it = _meant(silence, rules, present) or "; check the spelling:"
        return f"no rule has such an alert{like_it} 'iowarden rules list'"
    labels = {*OF_OBJECTS, *used, *(label for r in rules for label in r)}
    for each in silence.matchers:
        if each.label not in labels | {SUBJECT}:
            like = near(each.label, labels)
            meant = f"did you mean {' or '.join(like)}?" if like else _USUAL
            return (
                f"no label '{each.label}' is known; {meant} It silences nothing until an alert has"
                " it"
            )
    for each in silence.matchers:
        values = present.get(each.label)
        if values is not None and not any(map(predicate(each), values)):
            return _absent(each, values)
    return ""


def _meant(
    silence: Silence, rules: Sequence[Mapping[str, str]], present: Mapping[str, Collection[str]]
) -> str:
    """Return what a value that no rule has may have meant, '' if nothing is like it.

    A bare word is the name of an alert, but it may be that of a disk: 'sda' for 'device=sda'.
    """
    for each in silence.matchers:
        known = {rule[each.label] for rule in rules if rule.get(each.label)}
        if not known or any(map(predicate(each), known)):
            continue
        of_objects = {f"{label}={text}": text for label in present for text in present[label]}
        objects = [matcher for matcher, text in of_objects.items() if text == each.text]
        if each.label == "alertname" and objects:
            return f"; did you mean {' or '.join(map(repr, sorted(objects)[:MAX_NAMED]))}?"
        if like := did_you_mean(each.text, known):
            return like
        if each.label == "alertname":
            like_it = near(each.text, of_objects.values())
            objects = [matcher for matcher, text in of_objects.items() if text in like_it]
            if objects:
                return f"; did you mean {' or '.join(map(repr, sorted(objects)[:MAX_NAMED]))}?"
        elif len(known) <= MAX_NAMED:
            return f"; {each.label} is one of {', '.join(sorted(known))};"
    return ""


def _absent(matcher: Matcher, values: Collection[str]) -> str:
    """Return that no object matches, with the values that are like it, or some."""
    like = sorted(near(matcher.text, values) or values)[:MAX_NAMED]
    more = len(values) - len(like)
    there = f"; there are {', '.join(like)}" + (f" and {more} more" if more else "") if like else ""
    return (
        f"no {matcher.label} on this host matches {written(matcher)}{there}; it silences nothing"
        " until there is one"
    )


def add(state: Silences, wanted: Silence) -> tuple[Silences, Silence]:
    """Return the silences with one more, and that one as it is added. Errors: ValueError."""
    matchers, lasts_seconds = wanted.matchers, wanted.lasts_seconds
    state = prune(state, wanted.created_seconds)
    if len(state.active(wanted.created_seconds)) >= MAX_SILENCES:
        raise ValueError(
            f"silence: expected at most {MAX_SILENCES}, got one more; expire some first"
        )
    if not 1 <= len(matchers) <= MAX_MATCHERS:
        raise ValueError(f"silence: expected 1 to {MAX_MATCHERS} matchers, got {len(matchers)}")
    if all(predicate(each)("") for each in matchers):
        shown = " ".join(map(written, matchers))
        raise ValueError(
            f"silence: expected a matcher that does not match everything, got {shown[:200]};"
            " name an alert or a device"
        )
    if not 1.0 <= lasts_seconds <= LONGEST_SECONDS:  # NaN is neither
        raise ValueError(f"a silence lasts 1 second to 365 days, not {duration(lasts_seconds)}")
    whole_seconds = float(math.ceil(lasts_seconds))
    added = replace(wanted, lasts_seconds=whole_seconds, reason=_text("reason", wanted.reason))
    readable = (*(s for s in state.silences if s.expired_seconds is None), added)
    patterns = sum(len(m.text) for s in readable for m in s.matchers if "~" in m.operator)
    if patterns > MAX_PATTERN_CHARACTERS:
        raise ValueError(
            f"silence: expected regular expressions of {MAX_PATTERN_CHARACTERS} characters in all"
            f" silences together, got {patterns}; expire some, or match with '='"
        )
    # Ended silences make room for active ones.
    room = sorted(state.silences, key=lambda s: s.ends_seconds)[-(MAX_SILENCES - 1) :]
    kept = tuple(s for s in state.silences if s in room)
    return replace(state, silences=(*kept, added)), added


def expire(state: Silences, identifier: str, now: float) -> tuple[Silences, Silence]:
    """Return the silences with one ended now, and that one as it ended.

    `identifier` may be a prefix, if no other active silence has it.
    Errors: ValueError.
    """
    known = {s.identifier: s for s in state.active(now)}
    before = known[_only("silence", identifier, known, "iowarden silence list")]
    after = replace(before, expired_seconds=now)
    silences = tuple(after if s is before else s for s in state.silences)
    return replace(state, silences=silences), after


def acknowledge(
    state: Silences,
    incidents: Iterable[Incident],
    identifier: str,
    *,
    now: float,
    reason: str,
    who: str,
) -> tuple[Silences, Acknowledgement]:
    """Return the state with an incident acknowledged, replacing an earlier acknowledgement.

    `identifier` may be a prefix, if no other open incident has it.
    Errors: ValueError, also when no alert of the incident is active.
    """
    known = {i.identifier: i for i in incidents if i.closed_seconds is None}
    incident = known[_only("open incident", identifier, known, "iowarden status")]
    if not incident.firing:
        raise ValueError(
            f"incident '{incident.identifier}': expected an active one, got one that is"
            " resolved; nothing is left to acknowledge"
        )
    active = [m for m in incident.members if m.cleared_seconds is None]
    added = Acknowledgement(
        incident=incident.identifier,
        severity=max(incident.severity, *(m.severity for m in active)),
        created_seconds=now,
        reason=_text("reason", reason) if reason else "",
        who=who,
        subjects=tuple(
            # A disk that had to wait for the one of the title has had no fault of its own.
            dict.fromkeys(
                m.subject
                for m in incident.members
                if m.cleared_seconds is None or m.subject == incident.key or not due.only_hangs(m)
            )
        ),
        kinds=tuple(sorted(due.harm_kinds(incident.faults))),
    )
    others = drop_acknowledgement(state, incident.identifier).acknowledgements
    return replace(state, acknowledgements=(*others, added)), added


def undo(state: Silences, identifier: str) -> tuple[Silences, str]:
    """Return the state without an acknowledgement that a user withdraws, and its incident.

    `identifier` may be a prefix, if no other acknowledged incident has it.
    Errors: ValueError.
    """
    incident = _only("acknowledged incident", identifier, state.by_incident(), "iowarden status")
    return drop_acknowledgement(state, incident), incident


def drop_acknowledgement(state: Silences, identifier: str) -> Silences:
    """Return the state without the acknowledgement of an incident."""
    others = tuple(a for a in state.acknowledgements if a.incident != identifier)
    return replace(state, acknowledgements=others)


def prune(state: Silences, now: float) -> Silences:
    """Return the state without silences that ended more than a day ago; the same if there is none.

    An acknowledgement ends with its incident: see `incidents.step`.
    """
    silences = tuple(s for s in state.silences if now - s.ends_seconds <= RETENTION_SECONDS)
    return state if len(silences) == len(state.silences) else replace(state, silences=silences)


def merged(ours: Silences, stored: Silences) -> Silences:
    """Return silences and acknowledgements since the start, with the persisted ones."""
    own = {s.identifier for s in ours.silences}
    said = ours.by_incident()
    return Silences(
        (*(s for s in stored.silences if s.identifier not in own), *ours.silences),
        (*(a for a in stored.acknowledgements if a.incident not in said), *ours.acknowledgements),
    )


def samples(
    state: Silences,
    alerts: Iterable[Alert],
    find: Callable[[Alert, float], Silence | None],
    now: float,
) -> list[Sample]:
    """Return the samples of FAMILIES."""
    silenced = sum(alert.active and find(alert, now) is not None for alert in alerts)
    holding, hidden, remaining = FAMILIES
    active = state.active(now)
    return [
        (holding.name, (), float(len(active))),
        (hidden.name, (), float(silenced)),
        *(
            (remaining.name, (("silence", each.identifier),), each.ends_seconds - now)
            for each in active
        ),
    ]


def _text(name: str, text: str) -> str:
    if not (1 <= len(text.strip()) <= MAX_CHARACTERS and text.isprintable()):
        raise ValueError(
            f"{name}: expected 1 to {MAX_CHARACTERS} printable characters, got {text[:80]!r};"
            " give the reason in one line"
        )
    return text.strip()


def _only(kind: str, beginning: str, known: Collection[str], command: str) -> str:
    """Return the only identifier that is, or begins with, the given one."""
    if beginning in known:
        return beginning
    found = [each for each in known if beginning and each.startswith(beginning)]
    if len(found) != 1:
        begin = f"{len(found)} {kind}s begin" if found else f"no {kind} begins"
        named = sorted(found or known)[:MAX_NAMED]
        there = f"there are {', '.join(named)}" if named else "there is none"
        raise ValueError(f"{begin} with {beginning[:80]!r}; {there}; see '{command}'")
    return found[0]
