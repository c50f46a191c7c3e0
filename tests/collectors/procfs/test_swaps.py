"""Swap areas."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.collectors.model import ParseError
from iowarden.collectors.procfs.swaps import Swap, parse_swaps

HEADING = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"


def test_areas_are_devices_and_files_with_what_is_used() -> None:
    """A kernel of 6.x with a device, a file in use, and one that was removed while it is used."""
    text = (
        f"{HEADING}/dev/dm-1                               partition\t999420\t\t1024\t\t-2\n"
        "/srv/swap\\040file                        file\t\t20000000\t10000000\t-3\n"
        "/swapfile\\040(deleted)                   file\t\t4\t\t0\t\t5\n"
    )
    assert parse_swaps(text) == (
        Swap("/dev/dm-1", True, 999420 * 1024, 1 << 20),
        Swap("/srv/swap file", False, 20_000_000 * 1024, 10_000_000 * 1024),
        Swap("/swapfile (deleted)", False, 4096, 0),
    )
    assert parse_swaps(HEADING) == ()


@pytest.mark.parametrize(
    "text", ["", "sda2 1 2\n", f"{HEADING}/dev/sda2 partition 1\n", f"{HEADING}/dev/sda2 part"]
)
def test_a_text_that_is_cut_or_another_is_refused(text: str) -> None:
    """A truncated line names no area; the text is not treated as 'no swap'."""
    with pytest.raises(ParseError, match="expected"):
        parse_swaps(text)


@given(st.text() | st.text().map(lambda tail: HEADING + tail))
def test_any_text_is_areas_or_a_refusal(text: str) -> None:
    """For any text."""
    with contextlib.suppress(ParseError):
        assert all(each.used_bytes >= 0 for each in parse_swaps(text))
