"""Numbers as the kernel prints them, and series from the fields of a dataclass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.collectors.model import Family, Metric, describe, parse_count


@given(st.integers(0, 2**64 - 1))
def test_every_64_bit_number_is_read(number: int) -> None:
    """A number of the kernel is returned unchanged."""
    assert parse_count(str(number)) == number


@pytest.mark.parametrize(
    "text", ["", "-1", "+1", "1_000", " 1", "1.0", "0x10", "٣", "²", "9" * 400]
)
def test_what_no_kernel_prints_is_refused(text: str) -> None:
    """Signs, other scripts' digits, and a number too large for a float."""
    with pytest.raises(ValueError, match="expected an unsigned 64-bit number, got"):
        parse_count(text)


@dataclass(frozen=True, slots=True)
class Tank:
    """A class with two metrics and a field that is none."""

    level_bytes: Annotated[int | None, Metric("gauge", "How full.")]
    filled_total: Annotated[int, Metric("counter", "How often filled.")]
    owner: str


def test_the_fields_name_is_the_metrics_name() -> None:
    """Name, kind and help come from the field; labels from the caller; None gives no sample."""
    families, emit = describe(Tank, "iowarden_tank_")
    assert families == (
        Family("iowarden_tank_level_bytes", "gauge", "How full."),
        Family("iowarden_tank_filled_total", "counter", "How often filled."),
    )
    labels = (("tank", "a"),)
    assert emit(Tank(None, 0, "x"), labels) == [("iowarden_tank_filled_total", labels, 0)]
    assert emit(Tank(0, 1, "x"), ())[0] == ("iowarden_tank_level_bytes", (), 0)
