"""SCSI's command blocks and sense bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.collectors.kmsg.sense import ADDITIONAL, KEYS, command_range, information

SENSE = bytes.fromhex("72031104 0000000c 000a8000 00000000 05bbdd3d")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("08 1f ff ff 00 00", (0x1FFFFF, 256)),
        ("0a e0 00 01 02 00", (1, 2)),
        ("28 00 1f 66 cb 68 00 00 08 00", (526830440, 8)),
        ("a8 00 1f 66 cb 68 00 01 00 00 00 00", (526830440, 65536)),
        ("8a 00 00 00 00 05 01 1f 6d 90 00 00 00 08 00 00", (21493673360, 8)),
        ("2a 08 ae 84 08 20", None),
        ("35 00 00 00 00 00 00 00 00 00", None),
        ("", None),
    ],
)
def test_a_command_reports_its_range(command: str, expected: tuple[int, int] | None) -> None:
    """Of each length; a flush has none, nor has a truncated command."""
    assert command_range(bytes.fromhex(command)) == expected


def test_a_sense_reports_its_block_once_it_is_whole() -> None:
    """The kernel prints 16 bytes per line: the first has only the head of the descriptor."""
    assert information(SENSE) == 96197949
    assert information(SENSE[:16]) is None


def test_a_block_that_is_not_valid_is_not_reported() -> None:
    """The VALID bit is off, or the first descriptor is of another type."""
    assert information(SENSE[:10] + b"\0" + SENSE[11:]) is None
    assert information(SENSE[:8] + b"\2" + SENSE[9:]) is None


@given(st.binary())
def test_any_bytes_do(found: bytes) -> None:
    """Nothing raises; a range is within 64 and 32 bits."""
    assert (information(found) or 0) < 1 << 64
    first, blocks = command_range(found) or (0, 0)
    assert first < 1 << 64
    assert blocks < 1 << 32


def test_words_are_as_they_are_looked_up() -> None:
    """In lower case, each code once per byte."""
    assert all(words == words.lower() for words in (*KEYS, *ADDITIONAL))
    assert all(0 <= code <= 0xFF for codes in ADDITIONAL.values() for code in codes)
