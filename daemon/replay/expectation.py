"""Compares the result of a replay with an expectation in YAML; returns the differences. Pure.

    least: warning
    alerts:
      - {at: 43s, alert: WriteStall, severity: warning, state: firing}
      - {at: 2m..3m, alert: WriteStall, state: resolved}
    incidents:
      - {at: 43s, state: opened}
    mails:
      - {at: 1m43s, subject: WARNING.*write stall, text: ['sda', 'vm.dirty_bytes']}

Each section present is compared completely and in order; '[]' expects nothing. `at` is the time
since the first frame, with a tolerance of one second, or a range. `text` and `subject` are regular
expressions that must match, several in a list; all other keys are compared. `least` is the minimum
severity. Pending alerts are compared only if the section has one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import yaml

from iowarden.collectors.dataclass import dataclass
from iowarden.daemon.duration import duration_seconds
from iowarden.rules.alerting.alerts import AlertState
from iowarden.rules.incidents.model import IncidentChangeKind
from iowarden.rules.severity import Severity
from iowarden.rules.yaml_nodes import NotYamlError, root_node

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

SECTIONS: Mapping[str, tuple[str, ...]] = {
    "alerts": ("at", "alert", "device", "severity", "state", "text"),
    "incidents": ("at", "severity", "state", "text"),
    "mails": ("at", "subject", "text"),
}
"""Keys of the items in each section."""
MAX_CHARACTERS = 1024 * 1024
TOLERANCE_SECONDS = 1.0
"""Rules are evaluated at the next frame."""


_STATES: Mapping[str, tuple[str, ...]] = {
    "alerts": tuple(map(str, AlertState)),
    "incidents": tuple(map(str, IncidentChangeKind)),
}
"""Valid values of `state` in each section."""


class ExpectationError(ValueError):
    """The file is invalid; the text has line and column."""


@dataclass(frozen=True, slots=True)
class ReplayEvent:
    """An actual result: seconds since the first frame, and values by key."""

    section: str
    at_seconds: float
    severity: Severity
    fields: Mapping[str, str]
    line: str
    """Text that is shown."""


@dataclass(frozen=True, slots=True)
class Expected:
    """An expected result."""

    from_seconds: float
    to_seconds: float
    fields: Mapping[str, str]
    patterns: tuple[tuple[str, re.Pattern[str]], ...]
    line: str

    def fits(self, event: ReplayEvent) -> bool:
        """Whether an actual result matches."""
        return (
            self.from_seconds <= event.at_seconds <= self.to_seconds
            and all(event.fields.get(key, "") == text for key, text in self.fields.items())
            and all(pattern.search(event.fields.get(key, "")) for key, pattern in self.patterns)
        )


@dataclass(frozen=True, slots=True)
class Expectation:
    """All expected results by section; a section that is missing is not compared."""

    min_severity: Severity
    sections: Mapping[str, tuple[Expected, ...]]


def parse(text: str, file: str) -> Expectation:
    """Return an expectation. Errors: ExpectationError."""
    try:
        root = root_node(text)
    except NotYamlError as error:
        raise ExpectationError(f"'{file}':{error.line}:{error.column}: {error}") from error
    if root is None:
        raise ExpectationError(f"'{file}': expected {' or '.join(SECTIONS)}, got nothing")
    reader = _ExpectationReader(file)
    least = Severity.INFO
    sections: dict[str, tuple[Expected, ...]] = {}
    for key, node in reader.pairs(root, ("least", *SECTIONS)):
        if key == "least":
            least = reader.severity(node)
        elif isinstance(node, yaml.SequenceNode):
            sections[key] = tuple(reader.expected(key, entry) for entry in node.value)
        else:
            raise reader.wrong(node, "a list")
    return Expectation(least, sections)


class _ExpectationReader:
    """Reads the YAML nodes. Errors: ExpectationError."""

    def __init__(self, file: str) -> None:
        self._file = file

    def wrong(self, node: yaml.Node, expected: str) -> ExpectationError:
        mark = node.start_mark
        shown = node.value if isinstance(node, yaml.ScalarNode) else "a list or keys"
        return ExpectationError(
            f"'{self._file}':{mark.line + 1}:{mark.column + 1}: expected {expected}, got"
            f" '{shown:.80}'"
        )

    def pairs(self, node: yaml.Node, keys: Sequence[str]) -> Iterator[tuple[str, yaml.Node]]:
        if not isinstance(node, yaml.MappingNode):
            raise self.wrong(node, f"keys of {', '.join(keys)}")
        seen: set[str] = set()
        for name, value in node.value:
            key = self.word(name)
            if key not in keys or key in seen:
                raise self.wrong(name, f"one of {', '.join(keys)}, each once")
            seen.add(key)
            yield key, value

    def word(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise self.wrong(node, "text")
        return str(node.value)

    def severity(self, node: yaml.Node) -> Severity:
        name = self.word(node).upper()
        if name not in Severity.__members__:
            raise self.wrong(node, f"one of {', '.join(s.name.lower() for s in Severity)}")
        return Severity[name]

    def expected(self, section: str, node: yaml.Node) -> Expected:
        fields: dict[str, str] = {}
        patterns: list[tuple[str, re.Pattern[str]]] = []
        begin, end, shown = 0.0, float("inf"), []
        for key, value in self.pairs(node, SECTIONS[section]):
            if key in {"subject", "text"}:
                several = value.value if isinstance(value, yaml.SequenceNode) else [value]
                patterns += [(key, self._pattern(each)) for each in several]
                shown.append(f"{key}: {', '.join(self.word(each) for each in several)}")
                continue
            word = self.word(value)
            shown.append(f"{key}: {word}")
            if key == "at":
                begin, end = self._moments(value)
            elif key == "severity":
                fields[key] = self.severity(value).name.lower()
            else:
                fields[key] = word
            if key == "state" and fields[key] not in _STATES[section]:
                raise self.wrong(value, f"one of {', '.join(sorted(_STATES[section]))}")
        if not shown:  # it would match anything
            raise self.wrong(node, f"at least one of {', '.join(SECTIONS[section])}")
        return Expected(begin, end, fields, tuple(patterns), ", ".join(shown))

    def _pattern(self, node: yaml.Node) -> re.Pattern[str]:
        try:
            return re.compile(self.word(node))
        except (re.error, RecursionError, OverflowError) as error:
            raise self.wrong(node, f"a regular expression ({error})") from error

    def _moments(self, node: yaml.Node) -> tuple[float, float]:
        begin, dots, end = self.word(node).partition("..")
        try:
            first = duration_seconds(begin)
            if dots and first <= (last := duration_seconds(end)):
                return first, last
            if dots:
                raise ValueError
        except ValueError as error:
            raise self.wrong(node, "a time such as 43s, or a range such as 40s..1m") from error
        return first - TOLERANCE_SECONDS, first + TOLERANCE_SECONDS


def differences(expectation: Expectation, actual: Sequence[ReplayEvent]) -> list[str]:
    """Return the differences as lines: '-' expected, '+' actual; [] if there are none."""
    lines: list[str] = []
    for section, expected in expectation.sections.items():
        pending = any(each.fields.get("state") == "pending" for each in expected)
        happened = [
            each
            for each in actual
            if each.section == section
            and each.severity >= expectation.min_severity
            and (pending or each.fields.get("state") != "pending")
        ]
        compared = list(_compared(expected, happened))
        if any(not line.startswith(" ") for line in compared):
            lines += [f"{section}:", *compared]
    return lines


def _compared(expected: Sequence[Expected], actual: Sequence[ReplayEvent]) -> Iterator[str]:
    left = list(actual)
    for each in expected:
        index = next((i for i, one in enumerate(left) if each.fits(one)), None)
        if index is None:
            yield f"- {each.line}"
            continue
        yield from (f"+ {_line(one)}" for one in left[:index])
        yield f"  {_line(left[index])}"
        del left[: index + 1]
    yield from (f"+ {_line(one)}" for one in left)


def _line(event: ReplayEvent) -> str:
    return f"at: {moment(event.at_seconds)}, {event.line}"


def moment(seconds: float) -> str:
    """Return seconds in the format of such a file: '43s', '1h1m43s'."""
    whole = round(seconds)
    parts = ((whole // 3600, "h"), (whole // 60 % 60, "m"), (whole % 60, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count) or "0s"
