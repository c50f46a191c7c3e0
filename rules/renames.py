"""What was called otherwise before: one table of old words and new ones. Pure.

What an older version stored, and what users wrote in their files, says the old word. Stored state
and history are read with the new one; a user's file is told it, with the place.
Limits: regular expressions are a person's own; a silence's is extended so that it goes on to match
what it matched, all others stay as they are.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from iowarden.rules.promql.regex import compile_anchored

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from iowarden.collectors.model import Labels
    from iowarden.rules.matcher import Matcher


class Kind(enum.StrEnum):
    """What a word names."""

    METRIC = "metric"
    LABEL = "label"
    VALUE = "label value"
    ALERT = "alert"
    GROUP = "group"
    CONDITION = "condition"
    EVENT = "event class"
    FIGURE = "attribute"
    """A number that a drive reports, as `iowarden disk history` takes it."""
    COMMAND = "command"


@dataclass(frozen=True, slots=True)
class Rename:
    """A word that was replaced.

    `of` narrows it: a label to one metric or alert, by its new name; a value to its label, by that
    one's new name, which must be given. '' is all of them.
    """

    kind: Kind
    old: str
    new: str
    of: str = ""


RENAMES: tuple[Rename, ...] = (
    Rename(Kind.CONDITION, "A1", "write_stall"),
    Rename(Kind.CONDITION, "A2", "dirty_limit_too_large"),
    Rename(Kind.CONDITION, "A3", "bdi_throttle"),
    Rename(Kind.CONDITION, "B1", "device_hang"),
    Rename(Kind.CONDITION, "B2", "writeback_no_progress"),
    Rename(Kind.CONDITION, "B4", "hung_task"),
    Rename(Kind.CONDITION, "B5", "command_timeout"),
    Rename(Kind.CONDITION, "B6", "probe_program_stuck"),
    Rename(Kind.CONDITION, "C1", "reclaim_stall"),
    Rename(Kind.CONDITION, "C2", "direct_reclaim"),
    Rename(Kind.CONDITION, "C3", "page_cache_dropped"),
    Rename(Kind.CONDITION, "D1", "read_ahead_too_small"),
    Rename(Kind.CONDITION, "D2", "read_ahead_below_stripe"),
    Rename(Kind.CONDITION, "E1", "misalignment"),
    Rename(Kind.CONDITION, "E2", "requests_above_chunk"),
    Rename(Kind.CONDITION, "E3", "requests_split"),
    Rename(Kind.CONDITION, "F1", "queue_depth_too_large"),
    Rename(Kind.CONDITION, "F2", "queue_starvation"),
    Rename(Kind.CONDITION, "G1", "phantom_reads"),
    Rename(Kind.CONDITION, "H1", "disk_failing"),
    Rename(Kind.CONDITION, "H2", "smart_errors"),
    Rename(Kind.CONDITION, "H3", "interface_crc_errors"),
    Rename(Kind.CONDITION, "H4", "normalized_drop"),
    Rename(Kind.CONDITION, "H4b", "normalized_low_at_baseline"),
    Rename(Kind.CONDITION, "H5", "self_test"),
    Rename(Kind.CONDITION, "H6", "disk_temperature"),
    Rename(Kind.CONDITION, "H7", "scsi_health"),
    Rename(Kind.CONDITION, "H8", "nvme_health"),
    Rename(Kind.CONDITION, "H9", "health_data_unavailable"),
    Rename(Kind.CONDITION, "I", "smart_implausible"),
    Rename(Kind.CONDITION, "J1", "controller_event"),
    Rename(Kind.CONDITION, "J5", "controller_clock_changed"),
    Rename(Kind.CONDITION, "K", "io_error"),
    Rename(Kind.CONDITION, "L1", "dirty_ratio_too_large"),
    Rename(Kind.CONDITION, "L2", "zone_reclaim_enabled"),
    Rename(Kind.CONDITION, "L3", "scheduler_unsuitable"),
    Rename(Kind.CONDITION, "L4", "strictatime"),
    Rename(Kind.CONDITION, "L5", "swap"),
    Rename(Kind.CONDITION, "L6", "bdflush"),
    Rename(Kind.CONDITION, "L7", "space_low"),
    Rename(Kind.CONDITION, "L9", "memory_setting"),
    Rename(Kind.CONDITION, "L11", "controller_write_cache"),
    Rename(Kind.CONDITION, "L12", "multipath_path_lost"),
    Rename(Kind.CONDITION, "L14", "competing_monitor"),
    Rename(Kind.CONDITION, "M1", "filesystem_error"),
    Rename(Kind.CONDITION, "M2", "filesystem_read_only"),
    Rename(Kind.CONDITION, "M3", "filesystem_shutdown"),
    Rename(Kind.CONDITION, "M4", "btrfs_error"),
    Rename(Kind.CONDITION, "M5", "raid_array"),
    Rename(Kind.CONDITION, "M6", "md_check_overdue"),
    Rename(Kind.CONDITION, "M7", "device_unavailable"),
    Rename(Kind.CONDITION, "S1", "collector_stale"),
    Rename(Kind.CONDITION, "S2", "state_storage"),
    Rename(Kind.CONDITION, "S3", "notification_unsent"),
    Rename(Kind.CONDITION, "S4", "rule_evaluation_failing"),
    Rename(Kind.CONDITION, "S5", "config_reload_failed"),
    Rename(Kind.CONDITION, "S6", "log_messages_lost"),
    Rename(Kind.CONDITION, "S7", "uevents_lost"),
    Rename(Kind.CONDITION, "S8", "probe_down"),
    Rename(Kind.CONDITION, "S9", "no_disk_monitored"),
)
"""All words that ever changed, the oldest first. A line stays for ever: somebody may skip versions.

A new name may be replaced again later; it is never a name that had another meaning before.
"""
_NARROWING = frozenset({Kind.METRIC, Kind.ALERT, Kind.EVENT, Kind.LABEL})
_ALERT_LABELS = frozenset({"alertname", "rule"})
"""Labels whose value is the name of an alert."""
_OF_ALERTS = frozenset({"ALERTS", "ALERTS_FOR_STATE"})
_SETTING = "setting "
"""Begins the key of what is about a setting: the alert's name follows (alert_subject.subject)."""
_PAIR = re.compile(r"(?:^| )([a-zA-Z_][a-zA-Z0-9_]*)=")


class RenameError(ValueError):
    """The table of renames contradicts itself."""


class Renames:
    """The table, by what is asked of it."""

    def __init__(self, table: Iterable[Rename] = RENAMES) -> None:
        """Errors: RenameError."""
        self._new: dict[tuple[Kind, str, str], str] = {}
        """The newest name by kind, narrowing and old name."""
        for each in table:
            self._add(each)
        self._old: dict[tuple[Kind, str], tuple[str, ...]] = {}
        for (kind, _, old), new in self._new.items():
            self._old[kind, new] = (*self._old.get((kind, new), ()), old)

    def __bool__(self) -> bool:
        """Return whether anything was ever renamed."""
        return bool(self._new)

    def _add(self, each: Rename) -> None:
        own = f"rename of {each.kind} '{each.old}' to '{each.new}'"
        if not each.old or not each.new or (each.kind is Kind.VALUE and not each.of):
            raise RenameError(f"{own}: expected two names, and of a value its label")
        if (each.kind, each.of, each.old) in self._new:
            raise RenameError(f"{own}: expected a name that was not replaced before, got one")
        if (each.kind, each.of, each.new) in self._new or each.new == each.old:
            raise RenameError(f"{own}: expected a new name, got one that was replaced before")
        if any(
            (kind, new) == (each.kind, each.new) and of == each.of
            for (kind, of, _), new in self._new.items()
        ):
            raise RenameError(f"{own}: expected a new name, got one that another became before")
        if each.kind in _NARROWING and any(of == each.old for _, of, _ in self._new):
            raise RenameError(f"{own}: expected nothing that is narrowed to the old name, got some")
        for key, new in self._new.items():
            if key[:2] == (each.kind, each.of) and new == each.old:
                self._new[key] = each.new
        self._new[each.kind, each.of, each.old] = each.new

    def current(self, kind: Kind, name: str, of: str = "") -> str:
        """Return what a name is called now: itself, where it was not replaced."""
        narrow = self._new.get((kind, of, name))
        return narrow or self._new.get((kind, "", name), name)

    def before(self, kind: Kind, name: str) -> tuple[str, ...]:
        """Return what is called so now and was called otherwise."""
        return self._old.get((kind, name), ())

    def alert(self, name: str) -> str:
        """Return the name of a rule's alert, or of an event's, which is its class."""
        found = self.current(Kind.ALERT, name)
        return self.current(Kind.EVENT, name) if found == name else found

    def label(self, name: str, value: str, of: str) -> tuple[str, str]:
        """Return a label of a metric or an alert and its value; `of` is that one's new name."""
        name = self.current(Kind.LABEL, name, of)
        if name in _ALERT_LABELS:
            return name, self.alert(value)
        if name == "condition":
            return name, self.current(Kind.CONDITION, value)
        return name, self.current(Kind.VALUE, value, name)

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

        Limits: a value that looks like a further label is taken for one.
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

        Limits: a label that was renamed of one alert only follows where the alert is named by '='.
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
            for old, new in self._values(label)
            if pattern.matches(old) and not pattern.matches(new)
        ]
        text = "|".join(dict.fromkeys((matcher.text, *more)))
        return replace(matcher, label=label, text=text)

    def _values(self, label: str) -> Iterator[tuple[str, str]]:
        """Give what values of a label were and are."""
        for (kind, of, old), new in self._new.items():
            if (
                (kind in {Kind.ALERT, Kind.EVENT} and label in _ALERT_LABELS)
                or (kind is Kind.CONDITION and label == "condition")
                or (kind is Kind.VALUE and of == label)
            ):
                yield old, new

    def used(self, label: str, operator: str, text: str, of: str) -> list[str]:
        """Return what to say of a matcher in a user's file that uses an old word."""
        name, value = self.label(label, text, of)
        said = [note(Kind.LABEL, label, name)] if name != label else []
        if operator in {"=", "!="} and value != text:
            kind = Kind.CONDITION if name == "condition" else Kind.VALUE
            said.append(note(Kind.ALERT if name in _ALERT_LABELS else kind, text, value))
        elif operator in {"=~", "!~"}:
            pattern = compile_anchored(text)
            said += [
                note(Kind.ALERT if name in _ALERT_LABELS else Kind.VALUE, old, new)
                for old, new in self._values(name)
                if pattern.matches(old) and not pattern.matches(new)
            ]
        return said


def note(kind: Kind, old: str, new: str) -> str:
    """Return the sentence that names the new word."""
    return f"the {kind} '{old}' is called '{new}' now; write that"


NAMES = Renames()
"""All words that ever changed."""
