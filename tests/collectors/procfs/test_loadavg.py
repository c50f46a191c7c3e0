"""Load average of idle and overrun machines."""

from __future__ import annotations

import contextlib
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.collectors.machine import Machine
from iowarden.collectors.model import ParseError
from iowarden.collectors.procfs.loadavg import PATH, Loadavg, emit, node_samples, parse_loadavg

OVERRUN = "1203.55 870.10 402.00 3/4711 98304\n"


def test_a_machine_that_waits_for_its_disks() -> None:
    """Load in the thousands while three tasks run."""
    value = parse_loadavg(OVERRUN)
    assert value == Loadavg(1203.55, 870.1, 402.0, 3, 4711)
    assert [sample[0] for sample in emit(value)] == [
        "iowarden_load1",
        "iowarden_load5",
        "iowarden_load15",
        "iowarden_threads",
    ]
    assert list(node_samples(value)) == [
        ("node_load1", (), 1203.55),
        ("node_load5", (), 870.1),
        ("node_load15", (), 402.0),
    ]


def test_this_machines_load_is_what_the_library_reports() -> None:
    """Between a library call before and one after it: the text has one of them, rounded."""
    before, text, after = os.getloadavg(), Machine("/").read(PATH), os.getloadavg()
    value = parse_loadavg(text)
    loads = (value.load1, value.load5, value.load15)
    assert any(loads == pytest.approx(look, abs=0.011) for look in (before, after))


@pytest.mark.parametrize(
    "text", ["", "0.1 0.2 0.3\n", "0.10 0.20 0.30 1/2\n", "-0.10 0.20 0.30 1/2 3\n", OVERRUN * 2]
)
def test_another_line_is_refused(text: str) -> None:
    """The message has the path, the expected and the found value."""
    with pytest.raises(ParseError, match=r"'/proc/loadavg': expected .*, got"):
        parse_loadavg(text)


@given(st.text() | st.from_regex(r"\A(\d+\.\d\d ){3}\d+/\d+ \d+\n\Z"))
def test_any_text_is_a_load_or_a_parse_error(text: str) -> None:
    """Any text gives a value or a ParseError."""
    with contextlib.suppress(ParseError):
        assert parse_loadavg(text).load1 >= 0
