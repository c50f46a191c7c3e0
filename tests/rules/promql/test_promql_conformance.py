"""Prometheus's own engine tests, if that corpus is next to the repository.

Left out is what rules here do not support: histograms, UTF-8 names, results that are texts or
ranges, and warnings; texts are only parsed. What a plain server refuses because it is experimental
must be refused here by name.
"""

from __future__ import annotations

import contextlib
import math
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import pytest
from support.recordings import CORPUS, cases_of_corpus, needs_corpus

from iowarden.rules.promql.ast import Text
from iowarden.rules.promql.errors import EvaluationError, PromqlError
from iowarden.rules.promql.evaluator import Expression, Sample, compile_expression
from iowarden.rules.promql.lexer import duration_seconds, unquote
from iowarden.rules.promql.parser import parse
from iowarden.rules.promql.store import Labels, SeriesStore

if TYPE_CHECKING:
    from pathlib import Path

FOREVER_SECONDS = 1e9
STRING = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|`[^`]*`"
SERIES = re.compile(rf"\s*([a-zA-Z_:][\w:]*)?\s*(\{{(?:[^\"'`}}]|{STRING})*\}})?\s*(.*)")
PAIR = re.compile(rf"(\w+)\s*=\s*({STRING})")
NUMBER = r"(?:(?i:inf|nan)|[\d.]+(?:[eE][-+]?\d+)?)"
VALUES = re.compile(rf"([-+]?{NUMBER})(?:([-+]{NUMBER})(?=x))?(?:x(\d+))?")
EVAL = re.compile(
    r"eval(?P<fail>_fail)?(?P<ordered>_ordered)?(?:_warn|_info)?"
    r"\s+(?:instant\s+at\s+(?P<at>\S+)"
    r"|range\s+from\s+(?P<begin>\S+)\s+to\s+(?P<end>\S+)\s+step\s+(?P<step>\S+))\s+(?P<text>.*)"
)
MILLION_TO_ONE = 1e-6
"""How far Prometheus's own runner lets a result be off."""

# So many evals of each file are within what is promised. More only show that the corpus grew.
LEAST = {
    "aggregators": 124,
    "at_modifier": 76,
    "collision": 2,
    "functions": 248,
    "literals": 20,
    "name_label_dropping": 29,
    "operators": 140,
    "range_queries": 11,
    "selectors": 31,
    "staleness": 17,
    "subquery": 32,
    "trig_functions": 19,
}
# These need a server's switch that is off by default, in most of their evals.
EXPERIMENTAL = {
    "duration_expression",
    "extended_vectors",
    "fill-modifier",
    "info",
    "limit",
    "start_timestamps",
    "type_and_unit",
}
# Here a metric's name is dropped late in some evals, by a switch that is off by default.
DELAYED_NAME_REMOVAL = "name_label_dropping"
PASSED_WITHOUT_DELAY = 21
# What Prometheus's test calls the correct result, next to its actual one.
EXACT = {("avg_over_time(metric11[1m])", ("{} 0",)): ("{} -44.848083237000004",)}

Series = tuple[str, Labels]


@dataclass(frozen=True)
class Loaded:
    """What was loaded before an eval."""

    samples: dict[tuple[Series, float], float | None]
    """None where the series ends."""
    unusable: frozenset[str]
    """Metrics with histograms; '' if the name of one could not be read."""

    @cached_property
    def store(self) -> SeriesStore:
        """Return the samples with all their history."""
        store = SeriesStore({name: FOREVER_SECONDS for (name, _), _ in self.samples})
        for ((name, labels), at), value in sorted(self.samples.items(), key=lambda one: one[0][1]):
            if value is None:
                store.mark_stale(name, labels, at)
            else:
                store.append(name, labels, at, value)
        return store


@dataclass(frozen=True)
class Case:
    """One eval of the corpus, with all that was loaded before it."""

    place: str
    text: str
    times: tuple[float, ...]
    is_range: bool
    fails: bool
    ordered: bool
    loaded: Loaded = field(repr=False)
    rows: tuple[str, ...]
    expects: tuple[str, ...]


def seconds(text: str) -> float:
    """Return a time of the corpus: a duration or plain seconds."""
    found = duration_seconds(text.removeprefix("-"))
    if found is None:
        return float(text)
    return -found if text.startswith("-") else found


def series(line: str) -> tuple[Series, str]:
    """Split a line into series and values."""
    match = SERIES.match(line)
    assert match
    name, braces, rest = match.groups()
    labels = {key: unquote(quoted) or "" for key, quoted in PAIR.findall(braces or "")}
    name = labels.pop("__name__", name or "")
    return (name, tuple(sorted((k, v) for k, v in labels.items() if v))), rest


def values(text: str) -> list[float | str]:
    """Return the values of a line; '_' where there is none, 'stale' where the series ends."""
    result: list[float | str] = []
    for word in text.split():
        if word.startswith(("_", "stale")):
            result += [word.split("x")[0]] * int(word.partition("x")[2] or 1)
            continue
        match = VALUES.fullmatch(word)
        assert match, word
        first, step, times = match.groups()
        start, rise = float(first), float(step or 0)
        result += [start + rise * index for index in range(int(times or 0) + 1)]
    return result


def cases(path: Path) -> list[Case]:
    """Read a file of the corpus."""
    found: list[Case] = []
    loaded = Loaded({}, frozenset())
    lines = [line.rstrip() for line in path.read_text().splitlines()]
    index = 0
    while index < len(lines):
        line = lines[index].strip()
        index += 1
        start = index
        block: list[str] = []
        while index < len(lines) and lines[index].strip() and lines[index][0] in " \t":
            if not lines[index].strip().startswith("#"):
                block.append(lines[index].strip())
            index += 1
        if line == "clear":
            loaded = Loaded({}, frozenset())
        elif line.startswith("load"):
            loaded = _load(loaded, line, block)
        elif match := EVAL.match(line):
            found.append(_case(f"{path.stem}:{start}", match, block, loaded))
    return found


def _load(before: Loaded, line: str, block: list[str]) -> Loaded:
    step = seconds(line.rsplit(maxsplit=1)[-1])
    samples, unusable = dict(before.samples), set(before.unusable)
    for text in block:
        (name, labels), rest = series(text)
        if (
            "{{" in text
            or "@" in rest
            or line.startswith("load_with")
            or re.search(r"\{\s*\"", text)
        ):
            unusable.add(name)
            continue
        for number, value in enumerate(values(rest)):
            if value != "_":
                key = ((name, labels), number * step)
                samples[key] = None if value == "stale" else float(value)
    return Loaded(samples, frozenset(unusable))


def _case(place: str, match: re.Match[str], block: list[str], loaded: Loaded) -> Case:
    if match["at"]:
        times = [seconds(match["at"])]
    else:
        begin, end, step = (seconds(match[key]) for key in ("begin", "end", "step"))
        times = [begin + step * number for number in range(math.floor((end - begin) / step) + 1)]
    expects = tuple(row.removeprefix("expect ") for row in block if row.startswith("expect "))
    return Case(
        place=place,
        text=match["text"],
        times=tuple(times),
        is_range=match["at"] is None,
        fails=bool(match["fail"]) or any(one.startswith("fail") for one in expects),
        ordered=bool(match["ordered"]) or "ordered" in expects,
        loaded=loaded,
        rows=tuple(row for row in block if not row.startswith("expect ")),
        expects=expects,
    )


def _usable(case: Case) -> bool:
    """Whether a case is supported, judged by its data and how it loads."""
    beyond = any(
        row.startswith(('{"', "string", "range vector")) or "{{" in row
        for row in case.rows + case.expects
    )
    if beyond:
        return False
    try:
        expression = compile_expression(case.text)
    except PromqlError as error:
        return case.fails and not _is_refused(error)
    unusable = case.loaded.unusable
    return not (unusable & expression.names or (unusable and expression.reads_any))


def _is_refused(error: PromqlError) -> bool:
    """Whether the expression may be right, but is none that a rule here can be."""
    return "not supported" in error.message or "experimental" in error.message


def _same(got: float, expected: float) -> bool:
    return math.isclose(got, expected, rel_tol=MILLION_TO_ONE) or (
        math.isnan(got) and math.isnan(expected)
    )


def outcome(case: Case, expression: Expression) -> dict[Series, dict[float, float]]:
    """Return what an expression gives, by series and time."""
    got: dict[Series, dict[float, float]] = {}
    for at in case.times:
        result = expression.evaluate(case.loaded.store, at, start=case.times[0], end=case.times[-1])
        items = result if isinstance(result, list) else [Sample("", (), result)]
        for item in items:
            row = got.setdefault((item.name, item.labels), {})
            assert at not in row, f"{item} twice"
            row[at] = item.value
    return got


READ = {path.stem: cases(path) for path in sorted((CORPUS / "promql").glob("*.test"))}
USED = [
    case
    for stem, found in READ.items()
    if stem in LEAST and stem != DELAYED_NAME_REMOVAL
    for case in found
    if _usable(case)
]


def judge(case: Case) -> None:
    """Fail unless an eval gives the rows it expects, or fails where it must."""
    if case.fails:
        with pytest.raises((PromqlError, EvaluationError)) as raised:
            outcome(case, compile_expression(case.text))
        for expected in case.expects:
            if expected.startswith("fail msg:") and raised.type is EvaluationError:
                # Up to the labels, which are written differently.
                words = re.split(r"[\"\[]", expected.removeprefix("fail msg:"))[0].strip()
                assert words in str(raised.value)
        return
    got = outcome(case, compile_expression(case.text))
    rows: dict[Series, dict[float, float]] = {}
    for row in EXACT.get((case.text, case.rows), case.rows):
        key, rest = series(row) if not re.match(r"[-+.\d]|NaN|Inf", row) else (("", ()), row)
        rows[key] = {
            at: float(value)
            for at, value in zip(case.times, values(rest), strict=False)
            if value not in {"_", "stale"}
        }
    wanted = {key: row for key, row in rows.items() if row}
    assert got.keys() == wanted.keys()
    if case.ordered:
        assert list(got) == list(wanted)
    for key, row in wanted.items():
        assert got[key].keys() == row.keys()
        assert all(_same(got[key][at], value) for at, value in row.items()), (got[key], row)


@pytest.mark.parametrize("case", cases_of_corpus(USED), ids=lambda case: case.place)
def test_the_engine_answers_as_prometheus_does(case: Case) -> None:
    """An eval of Prometheus's tests gives the rows it expects, or fails where it must."""
    judge(case)


@needs_corpus
def test_names_are_dropped_at_once_as_a_plain_server_does() -> None:
    """Of the evals on dropped names, all but those with delayed name removal."""
    passed = 0
    for case in filter(_usable, READ[DELAYED_NAME_REMOVAL]):
        with contextlib.suppress(AssertionError, EvaluationError):
            judge(case)
            passed += 1
    assert passed == PASSED_WITHOUT_DELAY


@needs_corpus
def test_a_text_is_read_as_prometheus_reads_it() -> None:
    """No rule has a text as its result, but every text has the same characters."""
    texts = [case for case in READ["literals"] if case.expects and case.expects[0][:6] == "string"]
    assert len(texts) == 5
    for case in texts:
        node = parse(case.text)
        assert isinstance(node, Text)
        assert node.value == unquote(case.expects[0].removeprefix("string "))


@needs_corpus
@pytest.mark.parametrize(("stem", "least"), LEAST.items())
def test_the_corpus_is_not_passed_over(stem: str, least: int) -> None:
    """Enough of each file is within what is promised for the test above to mean something."""
    used = [case for case in READ[stem] if _usable(case)]
    print(f"{stem}: {len(used)} of {len(READ[stem])} evals")
    assert len(used) >= least


@needs_corpus
@pytest.mark.parametrize("stem", sorted({*LEAST, *EXPERIMENTAL}))
def test_what_is_not_evaluated_is_refused_by_name(stem: str) -> None:
    """An expression of Prometheus's tests that does not load is reported as not supported."""
    unsaid = []
    for case in READ[stem]:
        try:
            compile_expression(case.text)
        except PromqlError as error:
            unknown = stem in EXPERIMENTAL and "unknown function" in error.message
            if not (case.fails or unknown or _is_refused(error)):
                unsaid.append(f"{case.place}: {case.text}: {error}")
    assert not unsaid, "\n".join(unsaid)
