"""Tasks and CPU time, on small and large machines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.collectors.model import ParseError
from iowarden.collectors.procfs.stat import emit, node_samples, parse_stat

TWO_CPUS = """\
cpu  507 0 643 316 28 0 1 0 9 3
cpu0 262 0 295 186 6 0 0 0 5 3
cpu1 245 0 348 130 22 0 1 0 4 0
intr 9703 69 9 0 0 6
ctxt 9783
btime 1795185929
processes 246
procs_running 2
procs_blocked 5
softirq 8599 0 1062
"""
LINES = st.sampled_from(TWO_CPUS.splitlines())


def test_ticks_become_seconds() -> None:
    """USER_HZ is 100: 507 ticks are 5.07 s."""
    value = parse_stat(TWO_CPUS)
    assert (value.procs_running, value.procs_blocked) == (2, 5)
    assert value.boot_time_seconds == 1_795_185_929
    samples = {(name, labels): number for name, labels, number in emit(value)}
    assert samples["iowarden_cpu_seconds_total", (("mode", "user"),)] == 5.07
    assert samples["iowarden_tasks_blocked", ()] == 5


def test_node_exporter_has_every_cpu_with_its_guests() -> None:
    """Labels are cpu and mode; guest time is a series of its own."""
    samples = {
        (name, labels): number for name, labels, number in node_samples(parse_stat(TWO_CPUS))
    }
    cpu1 = ("cpu", "1")
    assert samples["node_cpu_seconds_total", (cpu1, ("mode", "iowait"))] == 0.22
    assert samples["node_cpu_guest_seconds_total", (("cpu", "0"), ("mode", "nice"))] == 0.03
    assert samples["node_intr_total", ()] == 9703
    assert samples["node_forks_total", ()] == 246
    assert len([1 for name, _ in samples if name == "node_cpu_seconds_total"]) == 16


def test_a_kernel_without_steal_and_guests_has_no_such_series() -> None:
    """2.6.10 has seven columns: missing is not zero."""
    value = parse_stat(TWO_CPUS.replace(" 0 9 3\n", "\n").replace(" 0 5 3\n", "\n"))
    modes = {labels[0][1] for name, labels, _ in emit(value) if name.endswith("cpu_seconds_total")}
    assert modes == {"user", "nice", "system", "idle", "iowait", "irq", "softirq"}


def test_a_broken_line_of_one_cpu_does_not_blind_the_signals() -> None:
    """The lines of single CPUs are parsed only for node_exporter's series: that CPU has none."""
    value = parse_stat(TWO_CPUS.replace("cpu1 245", "cpu1 x"))
    assert value.procs_blocked == 5
    samples = [
        labels for name, labels, _ in node_samples(value) if name == "node_cpu_seconds_total"
    ]
    assert {dict(labels)["cpu"] for labels in samples} == {"0"}


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("procs_blocked 5", "procs_blocked many"),
        ("procs_blocked 5", "procs_blocked -1"),
        ("procs_blocked 5\n", ""),
        ("btime", "b_time"),
        ("cpu  507", "cpu  x"),
        ("cpu  507 0 643 316 28 0 1 0 9 3", "cpu  507"),
    ],
)
def test_a_known_line_that_does_not_parse_is_named(good: str, bad: str) -> None:
    """The message has the path, the expected and the found value."""
    with pytest.raises(ParseError, match=r"'/proc/stat'.*expected .*, got"):
        parse_stat(TWO_CPUS.replace(good, bad, 1))


@given(st.lists(LINES | st.text(max_size=40), max_size=14).map("\n".join) | st.text())
def test_any_text_is_a_value_or_a_parse_error(text: str) -> None:
    """Any text gives a value or a ParseError."""
    try:
        samples = emit(value := parse_stat(text))
        samples += node_samples(value)
    except ParseError:
        return
    assert all(float(number) >= 0 for _, _, number in samples)
