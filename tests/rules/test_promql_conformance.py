"""Prometheus's own engine tests, where that corpus lies beside the repository.

What uses more than the evaluated subset is not collected.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from iowarden.rules.promql.evaluator import (
    EvaluationError,
    Expression,
    PromqlError,
    Sample,
    compile_expression,
)
from iowarden.rules.promql.lexer import duration_seconds, unquote
from iowarden.rules.promql.store import Labels, Store

CORPUS = Path(__file__).parents[2].parent / "shared" / "corpus" / "promql"
FOREVER_SECONDS = 1e9
STRING = r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|`[^`]*`"
SERIES = re.compile(rf"\s*([a-zA-Z_:][\w:]*)?\s*(\{{(?:[^\"'`}}]|{STRING})*\}})?\s*(.*)")
PAIR = re.compile(rf"(\w+)\s*=\s*({STRING})")
EVAL = re.compile(
    r"eval(?P<fail>_fail)?(?:_ordered|_warn|_info)?\s+(?:instant\s+at\s+(?P<at>\S+)"
    r"|range\s+from\s+(?P<begin>\S+)\s+to\s+(?P<end>\S+)\s+step\s+(?P<step>\S+))\s+(?P<text>.*)"
)
# It needs a server's switch that is off by default (type and unit as labels).
EXPERIMENTAL = {"type_and_unit"}

Series = tuple[str, Labels]


@dataclass(frozen=True)
class Case:
    """One eval of the corpus, with all that was loaded before it."""

    place: str
    text: str
    times: tuple[float, ...]
    is_range: bool
    fails: bool
    samples: tuple[tuple[float, str, Labels, float | None], ...] = field(repr=False)
    rows: tuple[str, ...]

    def store(self) -> Store:
        """Return the samples with all their history."""
        store = Store({name: FOREVER_SECONDS for _, name, _, _ in self.samples})
        for timestamp, name, labels, value in self.samples:
            if value is None:
                store.mark_stale(name, labels, timestamp)
            else:
                store.append(name, labels, timestamp, value)
        return store


def seconds(text: str) -> float:
    """Return a time of the corpus: a duration or plain seconds."""
    found = duration_seconds(text)
    return float(text) if found is None else found


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
        match = re.fullmatch(r"(.+?)(?:([-+][^x+-]+))?x(\d+)", word)
        if match is None:
            result.append(float(word))
            continue
        step = float(match[2] or 0)
        result += [float(match[1]) + step * index for index in range(int(match[3]) + 1)]
    return result


def cases(path: Path) -> list[Case]:
    """Read a file of the corpus."""
    found: list[Case] = []
    loaded: dict[tuple[Series, float], float | None] = {}
    unusable: set[str] = set()
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
            loaded, unusable = {}, set()
        elif line.startswith("load"):
            step = seconds(line.split()[-1])
            for text in block:
                (name, labels), rest = series(text)
                if "{{" in rest or "@" in rest or "{{" in text or line.startswith("load_with"):
                    unusable.add(name)
                    continue
                for number, value in enumerate(values(rest)):
                    if value != "_":
                        key = ((name, labels), number * step)
                        loaded[key] = None if value == "stale" else float(value)
        elif match := EVAL.match(line):
            case = _case(f"{path.stem}:{start}", match, block, loaded)
            if _usable(case, unusable):
                found.append(case)
    return found


def _case(
    place: str,
    match: re.Match[str],
    block: list[str],
    loaded: dict[tuple[Series, float], float | None],
) -> Case:
    if match["at"]:
        times = [seconds(match["at"])]
    else:
        begin, end, step = (seconds(match[key]) for key in ("begin", "end", "step"))
        times = [begin + step * number for number in range(math.floor((end - begin) / step) + 1)]
    return Case(
        place=place,
        text=match["text"],
        times=tuple(times),
        is_range=match["at"] is None,
        fails=bool(match["fail"]) or any(row.startswith("expect fail") for row in block),
        samples=tuple(
            sorted(
                (timestamp, name, labels, value)
                for ((name, labels), timestamp), value in loaded.items()
            )
        ),
        rows=tuple(row for row in block if not row.startswith("expect ")),
    )


def _usable(case: Case, unusable: set[str]) -> bool:
    """Whether a case uses nothing but the subset, judged by how its expression loads."""
    if any("{{" in row for row in case.rows):
        return False
    try:
        expression = compile_expression(case.text)
    except PromqlError as error:
        return case.fails and "not supported" not in error.message
    return not (unusable & expression.names or (unusable and expression.reads_any))


def _same(got: float, expected: float) -> bool:
    return math.isclose(got, expected, rel_tol=1e-9, abs_tol=1e-12) or (
        math.isnan(got) and math.isnan(expected)
    )


def outcome(case: Case, expression: Expression) -> dict[Series, dict[float, float]]:
    """Return what an expression gives, by series and time."""
    store = case.store()
    got: dict[Series, dict[float, float]] = {}
    for at in case.times:
        result = expression.evaluate(store, at)
        items = result if isinstance(result, list) else [Sample("", (), result)]
        for item in items:
            row = got.setdefault((item.name, item.labels), {})
            assert at not in row, f"{item} twice"
            row[at] = item.value
    return got


ALL = (
    [
        case
        for path in sorted(CORPUS.glob("*.test"))
        if path.stem not in EXPERIMENTAL
        for case in cases(path)
    ]
    if CORPUS.is_dir()
    else []
)


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.place)
def test_the_engine_answers_as_prometheus_does(case: Case) -> None:
    """An eval of Prometheus's tests gives the rows it expects, or fails where it must."""
    if case.fails:
        with pytest.raises((PromqlError, EvaluationError)):
            outcome(case, compile_expression(case.text))
        return
    got = outcome(case, compile_expression(case.text))
    expected: dict[Series, dict[float, float]] = {}
    for row in case.rows:
        key, rest = series(row) if not re.match(r"[-+.\d]|NaN|Inf", row) else (("", ()), row)
        expected[key] = {
            at: float(value)
            for at, value in zip(case.times, values(rest), strict=False)
            if value not in {"_", "stale"}
        }
    expected = {key: row for key, row in expected.items() if row}
    assert got.keys() == expected.keys()
    for key, wanted in expected.items():
        assert got[key].keys() == wanted.keys()
        assert all(_same(got[key][at], value) for at, value in wanted.items()), (got[key], wanted)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not beside the repository")
def test_the_corpus_is_not_passed_over() -> None:
    """The subset is large enough in the corpus for the test above to mean something."""
    print(f"{len(ALL)} evals of the corpus use only the evaluated subset")
    assert len(ALL) >= 170
