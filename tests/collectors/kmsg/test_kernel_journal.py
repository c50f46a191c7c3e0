"""Kernel messages that the probe read from the journal."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.collectors.kmsg.kernel_journal import Message, Messages, from_json, read_messages
from iowarden.collectors.model import AbsentError, ParseError

if TYPE_CHECKING:
    from conftest import MachineMaker

ENTRY: dict[str, Any] = {
    "cursor": "s=1",
    "realtime_seconds": 1795282117.5,
    "monotonic_seconds": 9,
    "boot_id": "0f70219b-9a6f-44d1-99ad-824270d0ef01",
    "priority": 3,
    "message": "I/O error, dev sda",
    "device": "b8:0",
    "subsystem": None,
}
VALUE: dict[str, Any] = {"entries": [ENTRY], "gap": True, "more": False, "cursor": "s=1"}


def test_the_probes_answer_is_read(machine: MachineMaker) -> None:
    """A message of a disk, after lost ones."""
    root = machine({"/.probe/journal s=0": json.dumps(VALUE)})
    assert read_messages(root, "s=0") == Messages(
        (
            Message(
                cursor="s=1",
                realtime_seconds=1795282117.5,
                monotonic_seconds=9.0,
                boot_id="0f70219b-9a6f-44d1-99ad-824270d0ef01",
                priority=3,
                message="I/O error, dev sda",
                device="b8:0",
                subsystem=None,
            ),
        ),
        gap=True,
        more=False,
        cursor="s=1",
    )


def test_without_a_probe_there_are_none(machine: MachineMaker) -> None:
    """An empty answer does not mean an error-free kernel log."""
    with pytest.raises(AbsentError):
        read_messages(machine({"/proc": None}))


@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        VALUE | {"entries": {}},
        VALUE | {"gap": 1},
        VALUE | {"cursor": None},
        *(
            VALUE | {"entries": [ENTRY | wrong]}
            for wrong in (
                {"message": None},
                {"priority": True},
                {"priority": "3"},
                {"monotonic_seconds": "9"},
                {"realtime_seconds": float("nan")},
                {"realtime_seconds": 10**400},
                {"device": 8},
            )
        ),
        VALUE | {"entries": [{k: v for k, v in ENTRY.items() if k != "subsystem"}]},
    ],
)
def test_what_is_no_answer_is_refused(value: Any) -> None:  # noqa: ANN401 - any JSON
    """Half a message might be mistaken for another one."""
    with pytest.raises(ParseError, match="probe 'journal': expected messages as JSON"):
        from_json(json.dumps(value))


@given(st.text(max_size=100) | st.just("[" * 100_000))
def test_any_text_is_an_answer_or_refused(text: str) -> None:
    """No text raises another error."""
    with contextlib.suppress(ParseError):
        from_json(text)
