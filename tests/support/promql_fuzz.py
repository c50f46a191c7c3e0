"""Random expressions over random series, evaluated here and by promtool: both must agree.

`python tests/support/promql_fuzz.py 10000 [SEED]` runs that many queries, prints where they differ,
and exits with 1 if they do. promtool is looked for in PATH and in build/tools.

promtool 2.42 is an older version than the one whose language this is. So that it can be compared:
samples lie 15.001 s apart from each other, and queries at half seconds, so that no window ends at a
sample, where 2.x counts it in at both ends and 3.x only at the later one (Prometheus 3 migration
guide, 'Range selectors and lookback exclude samples coinciding with the left boundary'); and what
cuts or compares numbers only gets exact ones, because 2.x adds with other rounding errors. `KNOWN`
has what differs nevertheless.
"""

from __future__ import annotations

import json
import math
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from iowarden.rules.promql.errors import EvaluationError, PromqlError
from iowarden.rules.promql.evaluator import compile_expression
from iowarden.rules.promql.lexer import unquote
from iowarden.rules.promql.store import Labels, SeriesStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

INTERVAL_SECONDS = 15.001
SAMPLES = 110
QUERIES_A_ROUND = 100
FOREVER_SECONDS = 1e9

Row = tuple[str, Labels]
Answer = dict[Row, float] | str
"""Values by series, or the error."""


@dataclass(frozen=True)
class Series:
    """What promtool is given, in its notation: `_` for no sample, `stale` for a series' end."""

    name: str
    labels: Labels
    values: tuple[str, ...]

    def __str__(self) -> str:
        """Return the series as a selector."""
        return self.name + "{" + ",".join(f'{key}="{value}"' for key, value in self.labels) + "}"


@dataclass(frozen=True)
class Query:
    """An expression, and when it is evaluated."""

    text: str
    at_seconds: float


@dataclass(frozen=True)
class Difference:
    """A query that the two do not agree on."""

    query: Query
    here: Answer
    there: Answer

    def __str__(self) -> str:
        """Return it in three lines."""
        asked = f"{self.query.text} at {self.query.at_seconds}"
        return f"{asked}\n  here:  {self.here}\n  there: {self.there}"


# --- series ---


def some_series(rng: random.Random) -> list[Series]:
    """Return gauges with gaps, counters with resets, counters with gaps, and labels to join."""
    found: list[Series] = []
    for number, device in enumerate(("sda", "sdb", "sdc", "nvme0n1")):
        bay = str(number % 2)
        place = (("bay", bay), ("device", device))
        found += [
            Series("gauge", place, _gauge(rng)),
            Series("limit", (("device", device),), _gauge(rng)),
            Series("reads_total", place, _counter(rng)),
            Series("writes_total", place, _counter_with_gaps(rng)),
            Series(
                "info",
                (("device", device), ("model", rng.choice("XYZ"))),
                ("_", *["1"] * (SAMPLES - 1)),
            ),
        ]
    found.append(Series("alone", (), _gauge(rng)))
    return found


def _gauge(rng: random.Random) -> tuple[str, ...]:
    odd = rng.random() < 0.3
    values = ["_"]
    while len(values) < SAMPLES:
        match rng.random():
            case chance if chance < 0.03:
                values += ["_"] * rng.randint(1, 30)
            case chance if chance < 0.045:
                values.append("stale")
            case chance if chance < 0.06 and odd:
                values.append(rng.choice(["NaN", "NaN", "Inf", "-Inf", "-0", "1e6"]))
            case chance if chance < 0.3:
                values.append(values[-1])
            case _:
                values.append(repr(rng.randint(-400, 800) / 8))
    return tuple(values[:SAMPLES])


def _counter(rng: random.Random) -> tuple[str, ...]:
    value, values = rng.randint(0, 1000), ["_"]
    for _ in range(SAMPLES - 1):
        match rng.random():
            case chance if chance < 0.04:
                value = rng.randint(0, max(value - 1, 0))
            case chance if chance < 0.7:
                value += rng.randint(0, 64)
        values.append(str(value))
    return tuple(values)


def _counter_with_gaps(rng: random.Random) -> tuple[str, ...]:
    """Return a counter so far from zero that no rate is cut off there.

    Near zero and after a gap 2.42 extrapolates farther than 3.x does: 'Constrain extrapolation in
    rate() to half of sample interval', Prometheus 2.51, #13725.
    """
    value, values = 1_000_000, ["_"]
    while len(values) < SAMPLES:
        value += rng.randint(0, 64)
        match rng.random():
            case chance if chance < 0.04:
                values += ["_"] * rng.randint(1, 12)
            case chance if chance < 0.06:
                values.append("stale")
            case _:
                values.append(str(value))
    return tuple(values[:SAMPLES])


def store(series: Sequence[Series]) -> SeriesStore:
    """Return the samples with all their history."""
    result = SeriesStore({one.name: FOREVER_SECONDS for one in series})
    for number in range(SAMPLES):
        at = round(number * INTERVAL_SECONDS, 3)
        for one in series:
            if one.values[number] == "stale":
                result.mark_stale(one.name, one.labels, at)
            elif one.values[number] != "_":
                result.append(one.name, one.labels, at, float(one.values[number]))
    return result


# --- expressions ---

GAUGES = ("gauge", "gauge", "gauge", "limit", "alone", '{__name__=~"gauge|limit"}')
COUNTERS = ("reads_total", "writes_total")
MATCHERS = (
    "",
    "",
    "",
    '{device="sda"}',
    '{device!="sda"}',
    '{device=~"sd[ab]"}',
    '{device!~"sd.*"}',
    '{device=~"(?i)SD.|nvme"}',
    '{bay="1"}',
    '{bay=""}',
    '{device=~"sd.",bay!="0"}',
    '{nothing=""}',
)
# Pieces of patterns: any row of them is one, and most match some device or other.
PATTERN_PIECES = (
    *("s", "d", "sd", "nvme", "a", "[a-c]", "[^a]", ".", ".*", ".+", "(sd|nvme)", "(s|d|sd)*"),
    *("(.*)*", "(?i:SD)", "(?i)D", r"\w", r"\d+", r"\D", "[[:alpha:]]", "n1?", "d{1,2}"),
    *("(?:a|b|)", "^", "$", r"\b", "a|sdb", "|", ".??", "(?s).", "x*", "[a-z]+?", r"\x61"),
    r"\Qb\E",
)
RANGES = ("20s", "45s", "1m", "2m", "5m", "1m30s", "333s")
OFFSETS = (
    *("", "", "", "", "", ""),
    *(" offset 1m", " offset 7s", " offset -30s", " offset 3m"),
    *(" @ 1300.5", " @ end()"),
)
NUMBERS = ("0", "1", "2", "-3", "0.5", "10", "100", "1e3", "-0.25", "7")
ODD_NUMBERS = ("Inf", "-Inf", "NaN")
EXACT_OVER_TIME = ("min", "max", "sum", "count", "last", "present")
OVER_TIME = (*EXACT_OVER_TIME, "avg", "stddev", "stdvar")
CURVES = (
    "ceil floor abs exp sqrt ln log2 log10 sgn deg rad sin cos tan asin acos atan sinh cosh tanh"
    " asinh acosh atanh"
).split()
JUMPS = frozenset({"ceil", "floor", "sgn"})
PERIODIC = frozenset({"sin", "cos", "tan"})  # of large numbers they show the last bit
DATES = "minute hour day_of_week day_of_month day_of_year days_in_month month year".split()
GROUPINGS = (
    "",
    "",
    " by (device)",
    " by (bay)",
    " by (bay, device)",
    " by (nothing)",
    " by ()",
    " without (device)",
    " without (bay)",
    " without ()",
    " by (__name__)",
)
EXACT_AGGREGATIONS = ("sum", "min", "max", "count", "group")
AGGREGATIONS = (*EXACT_AGGREGATIONS, "avg", "stddev", "stdvar")
MATCHINGS = (
    "",
    "",
    "on (device) ",
    "on (device, bay) ",
    "ignoring (bay) ",
    "on () ",
    "ignoring (model) ",
    "on (device) group_left ",
    "on (device) group_right ",
    "on (device) group_left (model) ",
    "ignoring (device) group_left ",
    "ignoring (device, bay) group_right ",
)
SET_MATCHINGS = ("", "", "on (device) ", "on (bay) ", "ignoring (bay) ", "on () ")
ARITHMETIC = ("+", "-", "*")
ROUGH_ARITHMETIC = (*ARITHMETIC, "/", "^")
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
LABEL_FUNCTIONS = (
    'label_replace({}, "slot", "$1-$2", "device", "(sd|nvme)(.).*")',
    'label_replace({}, "device", "${{1}}x", "device", "s(.*)")',
    'label_replace({}, "bay", "", "", "")',
    'label_replace({}, "device", "$$1", "nothing", "")',
    'label_replace({}, "kind", "$letter", "device", "(?P<letter>[a-z]+)[0-9]*.*")',
    'label_replace({}, "part", "<$1>", "device", "(d|nvme)")',
    'label_join({}, "place", "/", "bay", "device")',
    'label_join({}, "bay", "", "nothing")',
    'label_join({}, "place", "-", "device", "nothing", "device")',
    'label_replace({}, "metric", "$0", "__name__", ".+")',
    'label_replace({}, "__name__", "${{name}}_$2", "device", "(?P<name>sd)(.)")',
)


def scalar(rng: random.Random, depth: int, *, exact: bool = False) -> str:
    """Return an expression of type scalar; an exact one without rounding errors."""
    match rng.randint(0, 9 if depth else 6):
        case 6 if not exact:
            return "pi()"
        case 5:
            return rng.choice(ODD_NUMBERS)
        case 7:
            return f"scalar({vector(rng, depth - 1, exact=exact)})"
        case 8:
            left, right = (scalar(rng, depth - 1, exact=exact) for _ in "lr")
            return f"({left} {rng.choice(ARITHMETIC)} {right})"
        case 9:
            left, right = (scalar(rng, depth - 1, exact=True) for _ in "lr")
            return f"({left} {rng.choice((*COMPARISONS,))} bool {right})"
    return rng.choice(NUMBERS)


def selector(rng: random.Random, names: Sequence[str] = (*GAUGES, *COUNTERS)) -> str:
    """Return an instant vector selector without its offset."""
    name = rng.choice(names)
    if name.startswith("{"):
        return name
    if rng.random() < 0.1:
        pattern = "".join(rng.choices(PATTERN_PIECES, k=rng.randint(1, 5)))
        return f"{name}{{device{rng.choice(('=~', '!~'))}`{pattern}`}}"
    return name + rng.choice(MATCHERS)


def ranged(rng: random.Random, depth: int, names: Sequence[str], *, exact: bool) -> str:
    """Return a range vector: a selector's or a subquery."""
    offset = rng.choice((*OFFSETS, " offset 1m @ start()"))
    if not depth or rng.random() < 0.7:
        return f"{selector(rng, names)}[{rng.choice(RANGES)}]{offset}"
    step = rng.choice(("", "7s", "20s", "45s", "1m"))
    inner = vector(rng, depth - 1, exact=exact)
    return f"({inner})[{rng.choice(RANGES)}:{step}]{offset}"


def vector(rng: random.Random, depth: int, *, exact: bool = False) -> str:
    """Return an expression of type instant vector; an exact one without rounding errors."""
    if not depth:
        return selector(rng) + rng.choice(OFFSETS)
    kinds = EXACT_KINDS if exact else KINDS
    return rng.choice(kinds)(rng, depth - 1)


def _aggregation(rng: random.Random, depth: int) -> str:
    operator = rng.choice((*AGGREGATIONS, "quantile"))
    inner = vector(rng, depth)
    if operator == "quantile":
        inner = f"{rng.choice(('0', '0.5', '0.9', '1', '-1', '2', 'NaN', '0.25'))}, {inner}"
    return f"{operator}{rng.choice(GROUPINGS)} ({inner})"


def _exact_aggregation(rng: random.Random, depth: int) -> str:
    inner = vector(rng, depth, exact=True)
    return f"{rng.choice(EXACT_AGGREGATIONS)}{rng.choice(GROUPINGS)} ({inner})"


def _counted_values(rng: random.Random, depth: int) -> str:
    inner = vector(rng, depth, exact=True)
    return f'count_values{rng.choice(GROUPINGS)} ("{rng.choice(("value", "bay"))}", {inner})'


def _over_time(rng: random.Random, depth: int) -> str:
    names = (*GAUGES, *COUNTERS)
    match rng.randint(0, 5):
        case 0:
            rank = rng.choice(("0", "0.5", "0.9", "1", "-1", "2"))
            return f"quantile_over_time({rank}, {ranged(rng, depth, names, exact=False)})"
        case 1:
            return f"deriv({ranged(rng, 0, names, exact=False)})"
        case 2:
            ahead = rng.choice(("0", "60", "3600", "-60"))
            return f"predict_linear({ranged(rng, 0, names, exact=False)}, {ahead})"
        case 3:
            return f"{rng.choice(('delta', 'idelta'))}({ranged(rng, 0, GAUGES, exact=False)})"
    return f"{rng.choice(OVER_TIME)}_over_time({ranged(rng, depth, names, exact=False)})"


def _exact_over_time(rng: random.Random, depth: int) -> str:
    inside = ranged(rng, depth, (*GAUGES, *COUNTERS), exact=True)
    if rng.random() < 0.3:
        return f"{rng.choice(('changes', 'resets', 'absent_over_time', 'idelta'))}({inside})"
    return f"{rng.choice(EXACT_OVER_TIME)}_over_time({inside})"


def _of_counter(rng: random.Random, _: int) -> str:
    return f"{rng.choice(('rate', 'increase', 'irate'))}({ranged(rng, 0, COUNTERS, exact=True)})"


def _curve(rng: random.Random, depth: int) -> str:
    function = rng.choice(CURVES)
    return f"{function}({vector(rng, depth, exact=function in JUMPS | PERIODIC)})"


def _jump(rng: random.Random, depth: int) -> str:
    inner = vector(rng, depth, exact=True)
    match rng.randint(0, 5):
        case 0:
            return f"round({inner}, {rng.choice(('0.5', '2', '-1', '0.125', '0', 'Inf'))})"
        case 1:
            # Without NaN: what that is as a whole number, Go leaves to the processor.
            return f"{rng.choice(DATES)}(clamp({inner} * 1e6, -6e10, 2e11) < Inf)"
        case 2:
            return f"round({inner})"
        case 3:
            inner = inner if rng.random() < 0.3 else selector(rng) + rng.choice(OFFSETS)
            return f"timestamp({inner})"
        case 4:
            return f"{rng.choice(DATES)}()"
    return f"{rng.choice(sorted(JUMPS))}({inner})"


def _clamped(rng: random.Random, depth: int) -> str:
    inner, low, high = (
        vector(rng, depth, exact=True),
        *(scalar(rng, depth, exact=True) for _ in "lh"),
    )
    if rng.random() < 0.5:
        return f"clamp({inner}, {low}, {high})"
    return f"{rng.choice(('clamp_min', 'clamp_max'))}({inner}, {low})"


def _labelled(rng: random.Random, depth: int) -> str:
    return rng.choice(LABEL_FUNCTIONS).format(vector(rng, depth, exact=True))


def _odd(rng: random.Random, depth: int) -> str:
    inner = vector(rng, depth, exact=True)
    match rng.randint(0, 4):
        case 0:
            return f"absent({inner})"
        case 1:
            return f"vector({scalar(rng, depth, exact=True)})"
        case 2:
            return f"-{inner}"
        case 3:
            return f"{rng.choice(('sort', 'sort_desc'))}({inner})"
    return f"absent({selector(rng)})"


def _braced(rng: random.Random, text: str) -> str:
    """Return an operation, sometimes without the parentheses that say what it belongs to."""
    return text if rng.random() < 0.2 else f"({text})"


def _with_scalar(rng: random.Random, depth: int, *, exact: bool = False) -> str:
    operators = ARITHMETIC if exact else ROUGH_ARITHMETIC
    sides = [vector(rng, depth, exact=exact), scalar(rng, depth, exact=exact)]
    rng.shuffle(sides)
    return _braced(rng, f"{sides[0]} {rng.choice(operators)} {sides[1]}")


def _exact_with_scalar(rng: random.Random, depth: int) -> str:
    return _with_scalar(rng, depth, exact=True)


def _compared(rng: random.Random, depth: int) -> str:
    sides = [vector(rng, depth, exact=True), scalar(rng, depth, exact=True)]
    rng.shuffle(sides)
    operator = rng.choice((*COMPARISONS, *(f"{one} bool" for one in COMPARISONS), "%"))
    return _braced(rng, f"{sides[0]} {operator} {sides[1]}")


def _joined(rng: random.Random, depth: int, *, exact: bool = False) -> str:
    left, right = (vector(rng, depth, exact=exact) for _ in "lr")
    matching = rng.choice(MATCHINGS)
    if "model" in matching:
        right = "info"
    operator = rng.choice(ARITHMETIC if exact else ROUGH_ARITHMETIC)
    if exact and rng.random() < 0.4:
        operator = rng.choice((*COMPARISONS, *(f"{one} bool" for one in COMPARISONS), "%"))
    return _braced(rng, f"{left} {operator} {matching}{right}")


def _exact_joined(rng: random.Random, depth: int) -> str:
    return _joined(rng, depth, exact=True)


def _of_sets(rng: random.Random, depth: int) -> str:
    left, right = (vector(rng, depth, exact=True) for _ in "lr")
    operator = rng.choice(("and", "or", "unless"))
    return _braced(rng, f"{left} {operator} {rng.choice(SET_MATCHINGS)}{right}")


def _plain(rng: random.Random, _: int) -> str:
    return selector(rng) + rng.choice(OFFSETS)


def _angle(rng: random.Random, depth: int) -> str:
    """Return an atan2 of operands without names: 2.42 keeps the left one's."""
    left, right = (vector(rng, depth) for _ in "lr")
    if rng.random() < 0.5:
        return f"(-({left}) atan2 {scalar(rng, depth)})"
    return f"(-({left}) atan2 {rng.choice(MATCHINGS[:7])}-({right}))"


EXACT_KINDS = (
    _plain,
    _exact_aggregation,
    _exact_over_time,
    _exact_over_time,
    _jump,
    _clamped,
    _labelled,
    _odd,
    _exact_with_scalar,
    _compared,
    _exact_joined,
    _of_sets,
    _counted_values,
)
KINDS = (
    *EXACT_KINDS,
    _aggregation,
    _aggregation,
    _over_time,
    _over_time,
    _of_counter,
    _of_counter,
    _curve,
    _with_scalar,
    _joined,
    _angle,
)


def query(rng: random.Random) -> Query:
    """Return a query, at a half second of the series' time or soon after it."""
    text = vector(rng, rng.choice((1, 1, 2, 2, 3))) if rng.random() < 0.9 else _extreme(rng)
    return Query(text, rng.randint(700, round(SAMPLES * INTERVAL_SECONDS) + 200) + 0.5)


def _extreme(rng: random.Random) -> str:
    """Return topk or bottomk; among equal values it is the order of the series that decides."""
    count = rng.choice(("1", "2", "3", "10", "0", "-1", "1.9"))
    inner = f"rate({rng.choice(COUNTERS)}[5m]) + sum_over_time(gauge[5m]) / 7"
    return f"{rng.choice(('topk', 'bottomk'))}{rng.choice(GROUPINGS)} ({count}, {inner})"


# --- answers ---


def here(queries: Sequence[Query], series: Sequence[Series]) -> list[Answer]:
    """Return what this evaluator says."""
    samples = store(series)
    answers: list[Answer] = []
    for one in queries:
        try:
            result = compile_expression(one.text).evaluate(samples, one.at_seconds)
        except (PromqlError, EvaluationError) as error:
            answers.append(f"error: {error}")
            continue
        if isinstance(result, list):
            answers.append({(item.name, item.labels): item.value for item in result})
        else:
            answers.append({("", ()): result})
    return answers


def promtool() -> str | None:
    """Return the program, or None where there is none."""
    tools = Path(__file__).parents[2] / "build" / "tools" / "promtool"
    return shutil.which("promtool") or (str(tools) if tools.exists() else None)


def unit_tests(queries: Sequence[Query], series: Sequence[Series]) -> str:
    """Return a file of promtool's unit tests that expects what no query gives."""
    impossible = [{"labels": "impossible", "value": 1}]
    return json.dumps(
        {
            "evaluation_interval": "1m",
            "tests": [
                {
                    "interval": f"{INTERVAL_SECONDS * 1000:.0f}ms",
                    "input_series": [
                        {"series": str(one), "values": " ".join(one.values)} for one in series
                    ],
                    "promql_expr_test": [
                        {
                            "expr": one.text,
                            "eval_time": f"{one.at_seconds * 1000:.0f}ms",
                            "exp_samples": impossible,
                        }
                        for one in queries
                    ],
                }
            ],
        }
    )


FAILURE = re.compile(
    r'    expr: (?P<text>"(?:[^"\\]|\\.)*"), time: [^,]+,'
    r"(?: err: (?P<error>.*)|\n +exp:.*\n +got: ?(?P<got>.*))"
)
ELEMENT = re.compile(r"\{((?:[^\"}]|\"(?:[^\"\\]|\\.)*\")*)\} ([^,\s]+)")
LABEL = re.compile(r"(\w+)=(\"(?:[^\"\\]|\\.)*\")")


def there(queries: Sequence[Query], series: Sequence[Series], program: str) -> list[Answer]:
    """Return what promtool says: each query fails, and the failure tells what it got.

    It loads samples up to the time of a query, so the first one is late: `@` looks ahead.
    """
    queries = [Query("time()", round(SAMPLES * INTERVAL_SECONDS)), *queries]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(unit_tests(queries, series))
        file.flush()
        done = subprocess.run(
            [program, "test", "rules", file.name], capture_output=True, text=True, check=False
        )
    failures = list(FAILURE.finditer(done.stderr))
    said = [unquote(failure["text"]) for failure in failures]
    if said != [one.text for one in queries]:
        raise RuntimeError(f"expected an answer to each query, got {done.stdout}{done.stderr}")
    return [_read(failure["error"], failure["got"]) for failure in failures[1:]]


def _read(error: str | None, got: str | None) -> Answer:
    if error is not None:
        return f"error: {error}"
    answer: dict[Row, float] = {}
    for inside, value in ELEMENT.findall(got or ""):
        labels = {name: unquote(quoted) or "" for name, quoted in LABEL.findall(inside)}
        name = labels.pop("__name__", "")
        answer[name, tuple(sorted(labels.items()))] = float(value)
    return answer


def same(left: Answer, right: Answer) -> bool:
    """Return whether two answers agree; errors may have other words."""
    if isinstance(left, str) or isinstance(right, str):
        return isinstance(left, str) and isinstance(right, str)
    return left.keys() == right.keys() and all(_close(left[key], right[key]) for key in left)


def _close(left: float, right: float) -> bool:
    return math.isclose(left, right, rel_tol=1e-9, abs_tol=1e-9) or (
        math.isnan(left) and math.isnan(right)
    )


def _ordered(answer: dict[Row, float]) -> list[float]:
    return sorted(answer.values(), key=lambda value: (math.isnan(value), value))


@dataclass(frozen=True)
class Known:
    """A difference between the versions, and how it is told."""

    source: str
    is_this: Callable[[Difference], bool]


KNOWN = (
    Known(
        "which of equal values topk and bottomk keep depends on the order of series in the storage",
        lambda one: (
            one.query.text.startswith(("topk", "bottomk"))
            and isinstance(one.here, dict)
            and isinstance(one.there, dict)
            and len(one.here) == len(one.there)
            and all(map(_close, _ordered(one.here), _ordered(one.there)))
        ),
    ),
    Known(
        "an infinity's or a NaN's deviation is NaN since 3.0, #14941; it was 0 for a single one",
        lambda one: (
            bool(re.search(r"std(?:dev|var)(?!_over)", one.query.text))
            and isinstance(one.here, dict)
            and isinstance(one.there, dict)
            and one.here.keys() == one.there.keys()
            and all(
                _close(value, one.there[key]) or math.isnan(value)
                for key, value in one.here.items()
            )
        ),
    ),
    Known(
        "predict_linear of a range with @ depends on each step's time in 3.x, which counts it among"
        " AtModifierUnsafeFunctions; in a subquery 2.42 repeats what it was at the first step",
        lambda one: (
            bool(re.search(r"predict_linear\([^()]*@.*\[\w+:\w*\]", one.query.text))
            and isinstance(one.here, dict)
            and isinstance(one.there, dict)
            and one.here.keys() == one.there.keys()
        ),
    ),
    Known(
        "since 3.9, #17668, a comparison of many to one is an error even where none compares well",
        lambda one: (
            isinstance(one.here, str)
            and ("many-to-one" in one.here or "grouping labels" in one.here)
            and isinstance(one.there, dict)
            and any(f" {operator} " in one.query.text for operator in COMPARISONS)
        ),
    ),
)


def known(difference: Difference) -> Known | None:
    """Return why a difference is right, if it is."""
    return next((one for one in KNOWN if one.is_this(difference)), None)


@dataclass(frozen=True)
class Outcome:
    """What many queries came to."""

    queries: int
    not_empty: int
    errors: int
    known: Counter[str]
    differences: list[Difference]


def run(count: int, seed: int, program: str) -> Outcome:
    """Ask both the same queries, a hundred for each set of series."""
    rng = random.Random(seed)
    found = Outcome(0, 0, 0, Counter(), [])
    asked = not_empty = errors = 0
    while asked < count:
        series = some_series(rng)
        queries = [query(rng) for _ in range(min(QUERIES_A_ROUND, count - asked))]
        asked += len(queries)
        pairs = zip(queries, here(queries, series), there(queries, series, program), strict=True)
        for one, mine, theirs in pairs:
            not_empty += bool(theirs) and not isinstance(theirs, str)
            errors += isinstance(theirs, str)
            if not same(mine, theirs):
                difference = Difference(one, mine, theirs)
                reason = known(difference)
                if reason is None:
                    found.differences.append(difference)
                else:
                    found.known[reason.source] += 1
    return Outcome(asked, not_empty, errors, found.known, found.differences)


def main(arguments: Sequence[str]) -> int:
    """Run as many queries as are asked for."""
    program = promtool()
    if program is None:
        print("promtool is neither in PATH nor in build/tools; run 'make build/tools/promtool'")
        return 2
    count = int(arguments[0]) if arguments else 10_000
    outcome = run(count, int(arguments[1]) if len(arguments) > 1 else 1, program)
    for difference in outcome.differences:
        print(difference)
    print(
        f"{outcome.queries} queries, {outcome.not_empty} with a result, {outcome.errors} errors:"
        f" {len(outcome.differences)} differences, known ones {dict(outcome.known)}"
    )
    return 1 if outcome.differences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
