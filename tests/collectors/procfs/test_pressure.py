"""Pressure stall information, on kernels with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.collectors.model import AbsentError, ParseError
from iowarden.collectors.procfs.pressure import (
    Pressures,
    emit,
    node_samples,
    parse_pressure,
    read_pressure,
)

if TYPE_CHECKING:
    from conftest import MachineMaker

SOME = "some avg10=2.09 avg60=0.46 avg300=0.10 total=294227"
FULL = "full avg10=100.00 avg60=0.18 avg300=0.04 total=169521"
PATH = "/proc/pressure/io"


def test_percent_become_ratios_and_microseconds_seconds() -> None:
    """The kernel's 2.09 % is 0.0209; its total is in microseconds."""
    value = parse_pressure(f"{SOME}\n{FULL}\n", PATH)
    assert value.some_avg10_ratio == pytest.approx(0.0209)
    assert value.full_avg10_ratio == 1.0
    assert value.full_seconds_total == pytest.approx(0.169521)


def test_cpu_has_no_full_line_before_5_13(machine: MachineMaker) -> None:
    """Missing is not zero: it has no series."""
    root = machine(
        {
            "/proc/pressure/cpu": SOME + "\n",
            "/proc/pressure/io": f"{SOME}\n{FULL}\n",
            "/proc/pressure/memory": f"{SOME}\n{FULL}\n",
        }
    )
    value = read_pressure(root)
    assert value.cpu is not None
    assert value.cpu.full_avg10_ratio is None
    series = {(name, labels) for name, labels, _ in emit(value)}
    assert ("iowarden_pressure_some_avg10_ratio", (("resource", "cpu"),)) in series
    assert ("iowarden_pressure_full_avg10_ratio", (("resource", "cpu"),)) not in series
    assert ("iowarden_pressure_full_avg10_ratio", (("resource", "io"),)) in series


def test_node_exporters_seconds_are_its_very_floats() -> None:
    """It divides microseconds by 1000 twice; 0.294227 would be another number."""
    pressure = parse_pressure(f"{SOME}\n{FULL}\n", PATH)
    samples = list(node_samples(Pressures(pressure, pressure, pressure, None)))
    assert ("node_pressure_io_waiting_seconds_total", (), 0.29422699999999996) in samples
    names = [name for name, _, _ in samples]
    assert "node_pressure_memory_stalled_seconds_total" in names
    assert "node_pressure_cpu_stalled_seconds_total" not in names


def test_a_kernel_without_pressure_is_absent(machine: MachineMaker) -> None:
    """Before 4.20 there is no directory: that is no failure."""
    with pytest.raises(AbsentError, match="/proc/pressure/cpu"):
        read_pressure(machine({"/proc/meminfo": ""}))


@pytest.mark.parametrize(
    "text", ["", "some", "some avg10=x", SOME[:-7], SOME + " more", FULL.replace("100.00", "nan")]
)
def test_a_text_that_is_none_is_refused(text: str) -> None:
    """The message has the path and the expected value."""
    with pytest.raises(ParseError, match=r"'/proc/pressure/io'.*expected .*, got"):
        parse_pressure(text, PATH)


@given(st.lists(st.sampled_from([SOME, FULL]) | st.text(max_size=60)).map("\n".join))
def test_any_text_is_pressure_or_a_parse_error(text: str) -> None:
    """Any text gives a value or a ParseError."""
    try:
        value = parse_pressure(text, PATH)
    except ParseError:
        return
    samples = emit(Pressures(value, None, None, None))
    assert samples
    assert all(number >= 0 for _, _, number in samples)
