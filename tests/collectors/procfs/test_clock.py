"""The clocks of live and recorded machines."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.collectors.machine import Machine
from iowarden.collectors.model import ParseError
from iowarden.collectors.procfs.clock import (
    CLOCKSOURCE,
    PATH,
    emit,
    node_samples,
    parse_uptime,
    read_clock,
)

if TYPE_CHECKING:
    from conftest import MachineMaker

STAT = """\
cpu  1 0 0 1
intr 1
ctxt 1
btime 1795185929
processes 1
procs_running 1
procs_blocked 0
"""
FILES = {
    PATH: "86400.25 120000.00\n",
    "/proc/stat": STAT,
    CLOCKSOURCE + "/current_clocksource": "tsc\n",
    CLOCKSOURCE + "/available_clocksource": "tsc hpet acpi_pm \n",
}


def test_this_machines_time_is_now() -> None:
    """The live machine has a time of day and a time zone."""
    root = Machine("/")
    before = time.time()
    value = read_clock(root)
    after = time.time()
    root.close()
    assert value.realtime_seconds is not None
    assert before <= value.realtime_seconds <= after
    assert value.zone == (time.localtime().tm_zone, time.localtime().tm_gmtoff)


def test_a_recorded_machine_has_the_time_it_had(machine: MachineMaker) -> None:
    """Boot time and uptime give its time of day; its time zone is unknown."""
    value = read_clock(machine(FILES))
    assert value.realtime_seconds == 1_795_185_929 + 86_400.25
    assert value.zone is None
    samples = {(name, labels): number for name, labels, number in node_samples(value)}
    assert samples.keys() == {
        ("node_time_seconds", ()),
        ("node_time_clocksource_current_info", (("clocksource", "tsc"), ("device", "0"))),
        *(
            ("node_time_clocksource_available_info", (("clocksource", name), ("device", "0")))
            for name in ("tsc", "hpet", "acpi_pm")
        ),
    }
    assert ("iowarden_clocksource", (("clocksource", "tsc"),), 1) in emit(value)


@pytest.mark.parametrize("stat", ["", "btime soon\n"])
def test_a_recorded_machine_without_a_boot_time_has_no_time_of_day(
    stat: str, machine: MachineMaker
) -> None:
    """Unknown is not 1970; its uptime is available even so."""
    value = read_clock(machine({PATH: FILES[PATH], "/proc/stat": stat}))
    assert value.realtime_seconds is None
    assert list(node_samples(value)) == []
    assert emit(value) == [("iowarden_clock_uptime_seconds", (), 86_400.25)]


@given(st.text() | st.from_regex(r"\A\d+\.\d\d \d+\.\d\d\n\Z"))
def test_any_text_is_an_uptime_or_a_parse_error(text: str) -> None:
    """The message has the path, the expected and the found value."""
    try:
        assert parse_uptime(text) >= 0
    except ParseError as error:
        assert "'/proc/uptime': expected '<seconds> <seconds>', got" in str(error)  # noqa: PT017
