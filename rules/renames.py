"""Table of renamed words: old name -> new name. Pure.

State, history and files that an older version or a user wrote have old words. Stored state and
history are read with the new words; a user's file gets a message with the place and the new word.
Limits: a regular expression stays as it was written; that of a silence is extended, so that it
matches what it matched before.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from iowarden.rules.promql.regex import compile_anchored
from iowarden.rules.rename_table import RENAMES, NameKind, Rename

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from iowarden.collectors.model import Labels
    from iowarden.rules.matcher import Matcher


_NARROWING = frozenset({NameKind.METRIC, NameKind.ALERT, NameKind.EVENT, NameKind.LABEL})
_NARROWED = frozenset({NameKind.VALUE, NameKind.CHOICE})
"""What has no meaning without its label, or its option."""
_ALERT_LABELS = frozenset({"alertname", "rule"})
"""Labels whose value is the name of an alert."""
_OF_ALERTS = frozenset({"ALERTS", "ALERTS_FOR_STATE"})
_SETTING = "setting "
"""Begins the key of what is about a setting: the alert's name follows (alert_subject.subject)."""
_PAIR = re.compile(r"(?:^| )([a-zA-Z_][a-zA-Z0-9_]*)=")


class RenameError(ValueError):
    """The table of renames contradicts itself."""


class _Word(NamedTuple):
    """An old word, with what it is narrowed to."""

    kind: NameKind
    of: str
    series: str
    old: str


class Renames:
    """Lookup of old and new words in a table."""

    def __init__(self, table: Iterable[Rename] = RENAMES) -> None:
        """Errors: RenameError."""
        self._new: dict[_Word, str] = {}
        """The newest name."""
        self._added: dict[str, Labels] = {}
        """Labels that a metric got, by its old name."""
        for each in table:
            self._add(each)
        self._old: dict[tuple[NameKind, str], tuple[str, ...]] = {}
        for word, new in self._new.items():
            self._old[word.kind, new] = (*self._old.get((word.kind, new), ()), word.old)

    def __bool__(self) -> bool:
        """Return whether anything was ever renamed."""
        return bool(self._new)

    def _add(self, each: Rename) -> None:
        own = f"rename of {each.kind} '{each.old}' to '{each.new}'"
        word = _Word(each.kind, each.of, each.series, each.old)
        if not each.old or not each.new or (each.kind in _NARROWED and not each.of):
            raise RenameError(f"{own}: expected two names, and of a value its label")
        if (each.series and each.kind is not NameKind.VALUE) or (
            each.labels and each.kind is not NameKind.METRIC
        ):
            raise RenameError(f"{own}: expected 'series' of a value, 'labels' of a metric only")
        if word in self._new:
            raise RenameError(f"{own}: expected a name that was not replaced before, got one")
        if word._replace(old=each.new) in self._new or each.new == each.old:
            raise RenameError(f"{own}: expected a new name, got one that was replaced before")
        for other, new in self._new.items():
            if new == each.new and other._replace(old="") == word._replace(old=""):
                labels = self._added.get(other.old, ())
                if not (each.labels and labels and each.labels != labels):
                    raise RenameError(
                        f"{own}: expected a new name, got one that another became before"
                    )
        if each.kind in _NARROWING and any(
            each.old in {other.of, other.series} for other in self._new
        ):
            raise RenameError(f"{own}: expected nothing that is narrowed to the old name, got some")
        for other, new in self._new.items():
            if new == each.old and other._replace(old="") == word._replace(old=""):
                self._new[other] = each.new
                if each.labels:
                    self._added[other.old] = (*self._added.get(other.old, ()), *each.labels)
        self._new[word] = each.new
        if each.labels:
            self._added[each.old] = each.labels

    def current(self, kind: NameKind, name: str, of: str = "", series: str = "") -> str:
        """Return the name of today: `name` itself where it was not replaced."""
        for word in ((of, series), (of, ""), ("", "")):
            new = self._new.get(_Word(kind, *word, name))
            if new is not None:
                return new
        return name

    def before(self, kind: NameKind, name: str) -> tuple[str, ...]:
        """Return the old names of what is called `name` today."""
        return self._old.get((kind, name), ())

    def section(self, path: str) -> str:
        """Return the section of today for one whose keys were renamed; '' if none was."""
        found = (
            new.rpartition(".")[0]
            for word, new in self._new.items()
            if word.kind is NameKind.KEY and word.old.startswith(f"{path}.")
        )
        return next(found, "")

    def selector(self, name: str) -> str:
        """Return the PromQL selector for a metric of this name: with the labels that it got."""
        added = ",".join(f'{label}="{value}"' for label, value in self._added.get(name, ()))
        return self.current(NameKind.METRIC, name) + (f"{{{added}}}" if added else "")

    def series(self, name: str, labels: Labels) -> tuple[str, Labels]:
        """Return name and labels of a stored series in the words of today."""
        new = self.current(NameKind.METRIC, name)
        return new, tuple(sorted((*self.labels(labels, new), *self._added.get(name, ()))))

    def alert(self, name: str) -> str:
        """Return the name of a rule's alert, or of an event's, which is its class."""
        found = self.current(NameKind.ALERT, name)
        return self.current(NameKind.EVENT, name) if found == name else found

    def label(self, name: str, value: str, of: str) -> tuple[str, str]:
        """Return a label of a metric or an alert and its value; `of` is that one's new name."""
        name = self.current(NameKind.LABEL, name, of)
        if name in _ALERT_LABELS:
            return name, self.alert(value)
        if name == "condition":
            return name, self.current(NameKind.CONDITION, value)
        return name, self.current(NameKind.VALUE, value, name, of)

    def labels(self, labels: Labels, of: str) -> Labels:
        """Return the labels of a metric or an alert; of alerts' series, those of the alert."""
        if of in _OF_ALERTS:
            of = self.alert(dict(labels).get("alertname", ""))
        return tuple(sorted(self.label(name, value, of) for name, value in labels))

    def subject(self, key: str) -> str:
        """Return the key of an incident."""
        name = key.removeprefix(_SETTING)
        return key if name == key else _SETTING + self.alert(name)

    def entry(self, key: str) -> str:
        """Return a key of the digest: subject and labels, as `digest.entry_key` writes them.

        Limits: a value that looks like a further label is read as one.
        """
        places = [*_PAIR.finditer(key)]
        if not places:
            return key
        ends = [*(match.start() for match in places[1:]), len(key)]
        labels = tuple(
            (match[1], key[match.end() : end]) for match, end in zip(places, ends, strict=True)
        )
        own = self.labels(labels, self.alert(dict(labels).get("alertname", "")))
        subject = self.subject(key[: places[0].start()])
        return " ".join((subject, *(f"{name}={value}" for name, value in own)))

    def matchers(self, matchers: Sequence[Matcher]) -> tuple[Matcher, ...]:
        """Return a silence's matchers in the new words.

        Limits: what was renamed of one alert only follows where the alert is named by '='.
        """
        named = next((m.text for m in matchers if (m.label, m.operator) == ("alertname", "=")), "")
        return tuple(self._matcher(each, self.alert(named)) for each in matchers)

    def _matcher(self, matcher: Matcher, of: str) -> Matcher:
        label, text = self.label(matcher.label, matcher.text, of)
        if matcher.operator in {"=", "!="}:
            return replace(matcher, label=label, text=text)
        pattern = compile_anchored(matcher.text)
        more = [
            re.escape(new)
            for _, old, new in self._values(label, of)
            if pattern.matches(old) and not pattern.matches(new)
        ]
        text = "|".join(dict.fromkeys((matcher.text, *more)))
        return replace(matcher, label=label, text=text)

    def _values(self, label: str, of: str) -> Iterator[tuple[NameKind, str, str]]:
        """Yield kind, old and new value of a label of a metric or an alert."""
        for word, new in self._new.items():
            if word.kind in {NameKind.ALERT, NameKind.EVENT} and label in _ALERT_LABELS:
                yield NameKind.ALERT, word.old, new
            elif word.kind is NameKind.CONDITION and label == "condition":
                yield NameKind.CONDITION, word.old, new
            elif word.kind is NameKind.VALUE and word.of == label and word.series in {"", of}:
                yield NameKind.VALUE, word.old, new

    def used(self, label: str, operator: str, text: str, of: str) -> list[str]:
        """Return the messages about a matcher in a user's file that has an old word."""
        name, value = self.label(label, text, of)
        notes = [note(NameKind.LABEL, label, name)] if name != label else []
        if operator in {"=", "!="} and value != text:
            kind = NameKind.CONDITION if name == "condition" else NameKind.VALUE
            notes.append(note(NameKind.ALERT if name in _ALERT_LABELS else kind, text, value))
        elif operator in {"=~", "!~"}:
            pattern = compile_anchored(text)
            notes += [
                note(kind, old, new)
                for kind, old, new in self._values(name, of)
                if pattern.matches(old) and not pattern.matches(new)
            ]
        if not of and name == label:
            notes += self._narrowed(label)
        return notes

    def _narrowed(self, label: str) -> Iterator[str]:
        """Yield a message for a label that was renamed of some alerts, none of which is named."""
        alerts: dict[str, list[str]] = {}
        for word, new in self._new.items():
            if (word.kind, word.old) == (NameKind.LABEL, label) and word.of[:1].isupper():
                alerts.setdefault(new, []).append(word.of)
        for new, those in alerts.items():
            yield f"of {', '.join(those)} the label '{label}' is called '{new}' now"


def note(kind: NameKind, old: str, new: str) -> str:
    """Return the sentence that names the new word."""
    return f"the {kind} '{old}' is called '{new}' now; write that"


NAMES = Renames()
"""All words that were ever renamed."""
