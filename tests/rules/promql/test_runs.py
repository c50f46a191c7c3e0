"""History as runs of equal values has exactly the samples that were written, marks included."""

from __future__ import annotations

import math
import struct
from array import array
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiers import examples

from iowarden.rules.promql.evaluator import compile_expression
from iowarden.rules.promql.history import STALE, History, Timeline, is_stale, packed, shift, thin
from iowarden.rules.promql.store import Labels, SeriesStore, Window

LABELS: list[Labels] = [(("disk", name),) for name in "abcd"]
VALUES = st.sampled_from([0.0, -0.0, 1.0, 2.0, math.nan, math.inf, 1e300])
TICKS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 0.25, 1.0, 1.0, 15.0, 400.0]),
        st.sampled_from(["w", "w", "w", "v", ""]),
        st.dictionaries(st.integers(0, 3), VALUES, max_size=4),
    ),
    min_size=1,
    max_size=60,
)
"""Seconds since the write before, the writer ('': none), and values by disk."""
FUNCTIONS = ("rate", "increase", "delta", "changes", "resets", "deriv", "count_over_time")
FOREVER = 1e9


@dataclass
class Naive:
    """Every sample of every series, one by one."""

    samples: dict[Labels, tuple[array[float], array[float]]] = field(default_factory=dict)
    live: dict[str, set[Labels]] = field(default_factory=dict)

    def put(self, labels: Labels, at: float, value: float) -> None:
        """Append a sample, or replace the newest one."""
        times, values = self.samples.setdefault(labels, (array("d"), array("d")))
        if times and times[-1] == at:
            values[-1] = value
        else:
            times.append(at)
            values.append(value)

    def write(self, writer: str, at: float, found: dict[Labels, float]) -> None:
        """Write a writer's samples, and a marker for each that is missing."""
        if writer:
            for labels in self.live.get(writer, set()) - set(found):
                self.put(labels, at, STALE)
            self.live[writer] = set(found)
        for labels, value in found.items():
            self.put(labels, at, value)


def write(store: SeriesStore, writer: str, at: float, found: dict[Labels, float]) -> None:
    """Write to a store."""
    samples = [("x", labels, value) for labels, value in found.items()]
    if writer:
        store.write(writer, at, samples)
    else:
        store.append_many(at, samples)


def exact(times: array[float], values: array[float]) -> list[tuple[float, bytes]]:
    """Return samples so that NaN is equal to itself, and 0 differs from -0."""
    return [(at, struct.pack("<d", value)) for at, value in zip(times, values, strict=True)]


def alive(times: array[float], values: array[float]) -> list[tuple[float, bytes]]:
    """Return the samples without the markers."""
    return [each for each in exact(times, values) if not is_stale(struct.unpack("<d", each[1])[0])]


def in_window(
    series: tuple[array[float], array[float]], begin: float, end: float
) -> tuple[array[float], array[float]]:
    """Return the samples after a time and up to another."""
    pairs = [(at, value) for at, value in zip(*series, strict=True) if begin < at <= end]
    return array("d", [at for at, _ in pairs]), array("d", [value for _, value in pairs])


@settings(max_examples=examples(60))
@given(
    ticks=st.lists(
        st.tuples(
            st.sampled_from([1.0, 1.0, 1.0, 15.0, 290.0, 400.0]),
            st.sampled_from(["w", "w", "w", "v"]),
            st.dictionaries(st.integers(0, 1), st.sampled_from([0.0, 1.0, 2.0, math.nan])),
        ),
        max_size=60,
    )
)
def test_what_a_writer_has_not_made_anew_is_written_again(
    ticks: list[tuple[float, str, dict[int, float]]],
) -> None:
    """A list that was written before has the effect of an equal one, whoever wrote meanwhile."""
    one, other, at = SeriesStore({"y": 60.0}), SeriesStore({"y": 60.0}), 1000.0
    made: dict[str, list[tuple[str, Labels, float]]] = {}
    for seconds, writer, found in ticks:
        at += seconds
        samples = [(name, LABELS[n], value) for n, value in found.items() for name in "xy"]
        samples = made.setdefault(f"{writer} {samples}", samples)
        one.write(writer, at, samples)
        other.write(writer, at, list(samples))
        seen, expected = (
            [
                (each.labels, each.timestamp_seconds, each.stale, *exact(*each.window(0.0, at)))
                for name in "xy"
                for each in store.series(name)
            ]
            for store in (one, other)
        )
        assert seen == expected


@settings(max_examples=examples(60))
@given(ticks=TICKS, back=st.floats(0, 900), width=st.floats(0, 900))
def test_a_window_has_the_samples_that_were_written(
    ticks: list[tuple[float, str, dict[int, float]]], back: float, width: float
) -> None:
    """Whoever wrote them, however irregularly, with ends and repeats: every window is the same."""
    store, naive, at = SeriesStore({"x": FOREVER}), Naive(), 1000.0
    for seconds, writer, found in ticks:
        at += seconds
        values = {LABELS[number]: value for number, value in found.items()}
        write(store, writer, at, values)
        naive.write(writer, at, values)
    end = at - back
    for series in store.series("x"):
        whole = naive.samples[series.labels]
        assert series.history is not None
        marked = series.history.window(-math.inf, math.inf, marks=True)
        assert exact(*marked) == exact(*whole)
        for begin, until in ((end - width, end), (-math.inf, at), (at - width, at)):
            expected = in_window(whole, begin, until)
            assert exact(*series.window(begin, until)) == alive(*expected)
            assert exact(*series.history.window(begin, until, marks=True)) == exact(*expected)
        times, values = in_window(whole, -math.inf, end)
        newest = None if not times else (times[-1], values[-1])
        if newest is not None and (is_stale(newest[1]) or newest[0] <= end - 300):
            newest = None
        assert str(series.sample(end)) == str(newest)


@settings(max_examples=examples(40))
@given(ticks=TICKS, later=TICKS, cut=st.integers(1, 20), by=st.sampled_from([0.0, -5000.0]))
def test_a_restart_loses_and_adds_nothing(
    ticks: list[tuple[float, str, dict[int, float]]],
    later: list[tuple[float, str, dict[int, float]]],
    cut: int,
    by: float,
) -> None:
    """What was stored part by part, loaded while new samples arrive, is one history."""
    store, naive, at = SeriesStore({"x": FOREVER}), Naive(), 1000.0
    parts, saved = [], 999.0
    for number, (seconds, writer, found) in enumerate(ticks):
        at += seconds
        values = {LABELS[each]: value for each, value in found.items()}
        write(store, writer, at, values)
        naive.write(writer, at, values)
        if number % cut == 0:  # what is written again at the same time is stored with its last part
            parts.append(store.samples_between(saved, at - 0.125))
            saved = at - 0.125
    parts.append(store.samples_between(saved, at))
    stored = packed(parts)
    shift(stored, by)
    for times, _ in naive.samples.values():
        times[:] = array("d", [each + by for each in times])
    at += by + 0.25
    after = SeriesStore({"x": FOREVER})
    naive.live = {}
    for number, (seconds, writer, found) in enumerate(later):
        if number == len(later) // 2:
            after.restore(stored)
        at += seconds
        values = {LABELS[each]: value for each, value in found.items()}
        write(after, writer, at, values)
        naive.write(writer, at, values)
    assert {series.labels for series in after.series("x")} <= set(naive.samples)
    for series in after.series("x"):
        assert series.history is not None
        marked = series.history.window(-math.inf, math.inf, marks=True)
        assert exact(*marked) == exact(*naive.samples[series.labels])


@settings(max_examples=examples(10))
@given(
    values=st.lists(st.sampled_from([0.0, 1.0, 1.0, 5.0, math.nan]), min_size=8, max_size=400),
    every=st.sampled_from([1.0, 4.0, 15.0, 33.3]),
    absent=st.sets(st.integers(0, 400), max_size=4),
)
def test_functions_over_a_thinned_day_are_those_over_its_thinned_samples(
    values: list[float], every: float, absent: set[int]
) -> None:
    """Beyond a quarter of an hour the last sample of 15 s stays, with its value then."""
    store, naive, at = SeriesStore({"x": 90_000.0}, thins=True), Naive(), 1e9
    for number, value in enumerate(values * 6):
        at += every
        found = {} if number % 401 in absent else {LABELS[0]: value}
        found[LABELS[1]] = float(number)
        write(store, "w", at, found)
        naive.write("w", at, found)
    swept = store._sweep_due_seconds - 300.0 - 900.0
    for labels, (times, numbers) in naive.samples.items():
        thin(times, numbers, 0, sum(each <= swept for each in times))
        (series,) = [each for each in store.series("x") if each.labels == labels]
        assert exact(*series.window(at - 80_000, at)) == alive(*in_window((times, numbers), 0, at))
    plain = SeriesStore({"x": FOREVER})
    for labels, (times, numbers) in naive.samples.items():
        for moment, number in zip(times, numbers, strict=True):
            if is_stale(number):
                plain.mark_stale("x", labels, moment)
            else:
                plain.append("x", labels, moment, number)
    for function in FUNCTIONS:
        expression = compile_expression(f"{function}(x[2h])")
        assert str(expression.evaluate(store, at)) == str(expression.evaluate(plain, at))


@settings(max_examples=examples(30))
@given(
    values=st.lists(st.sampled_from([0.0, 1.0, 1.0, 5.0, math.nan]), min_size=30, max_size=200),
    absent=st.sets(st.integers(0, 400), max_size=3),
    every=st.sampled_from([1.0, 4.0, 70.0]),
)
def test_what_is_dropped_as_too_old_changes_no_window(
    values: list[float], absent: set[int], every: float
) -> None:
    """A counter that rises each time, or missed a time long ago, is read as it was written."""
    store, naive, at = SeriesStore({"x": 60.0}), Naive(), 1000.0
    for number, value in enumerate(values * 3):
        at += every
        found = {LABELS[0]: value, LABELS[2]: float(number // 150 * number)}
        if number not in absent:
            found[LABELS[1]] = float(number)
        write(store, "w", at, found)
        naive.write("w", at, found)
        for series in store.series("x"):
            expected = in_window(naive.samples[series.labels], at - 60, at)
            assert exact(*series.window(at - 60, at)) == alive(*expected)
            assert series.history is not None
            assert series.history.runs <= 70


def test_a_counter_that_is_kept_for_a_day_from_now_on_is_thinned_with_its_values() -> None:
    """The rules are loaded again while two hours of samples that all differ are stored."""
    store, at = SeriesStore({"x": 7200.0}, thins=True), 1e9
    for number in range(2400):
        if number == 2000:
            store.retain((Window("x", "x", 90_000.0),))
        at += 1.0
        store.write("w", at, [("x", LABELS[0], float(number + 1))])
    (series,) = store.series("x")
    times, values = series.window(at - 80_000, at)
    assert len(times) < 1500
    assert [1e9 + value for value in values] == list(times)


def test_a_series_that_missed_a_time_of_its_writer_has_no_sample_then() -> None:
    """Whether its values differ or not."""
    for factor in (0.0, 1.0):
        timeline, history = Timeline(is_shared=True), History()
        timeline.retention_seconds = 60.0
        for at in (1.0, 2.0, 3.0, 4.0, 5.0):
            timeline.advance(at)
            if at != 3.0:
                history.append(at, at * factor, timeline, 60.0)
        times, values = history.window(0.0, 9.0)
        assert list(times) == [1.0, 2.0, 4.0, 5.0]
        assert list(values) == [at * factor for at in times]
