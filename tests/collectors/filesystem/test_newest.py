"""The newest file of a directory, in the probe's answer."""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.collectors.filesystem.newest import File, Listing, from_json, read_listing
from iowarden.collectors.model import AbsentError, ParseError

if TYPE_CHECKING:
    from conftest import MachineMaker

FILE: dict[str, Any] = {"name": "base.tar", "bytes": 7, "realtime_seconds": 1795282117}
VALUE: dict[str, Any] = {"entries": 1, "newest": FILE, "oldest": FILE, "truncated": False}


def test_the_probes_answer_is_read(machine: MachineMaker) -> None:
    """One backup is both the newest and the oldest."""
    root = machine({"/.probe/newest !srv!backup": json.dumps(VALUE)})
    file = File("base.tar", 7, 1795282117.0)
    assert read_listing(root, "/srv/backup") == Listing(1, file, file, truncated=False)


def test_no_file_is_an_answer_and_no_probe_is_none(machine: MachineMaker) -> None:
    """Missing backups are a fault, backups that were not read are unknown."""
    empty = VALUE | {"entries": 0, "newest": None, "oldest": None}
    root = machine({"/.probe/newest !srv!backup": json.dumps(empty)})
    assert read_listing(root, "/srv/backup") == Listing(0, None, None, truncated=False)
    with pytest.raises(AbsentError):
        read_listing(root, "/srv/wal")


@pytest.mark.parametrize(
    "value",
    [
        [],
        {},
        VALUE | {"entries": True},
        VALUE | {"entries": 0},
        VALUE | {"newest": None},
        VALUE | {"oldest": None},
        VALUE | {"truncated": None},
        VALUE | {"newest": FILE | {"bytes": 0.5}},
        VALUE | {"newest": FILE | {"name": None}},
        VALUE | {"newest": FILE | {"realtime_seconds": False}},
        VALUE | {"newest": FILE | {"realtime_seconds": float("inf")}},
        VALUE | {"newest": FILE | {"realtime_seconds": 10**400}},
        VALUE | {"newest": {}},
    ],
)
def test_what_is_no_answer_is_refused(value: Any) -> None:  # noqa: ANN401 - any JSON
    """An age from a partial answer would cause a false alert or hide a fault."""
    with pytest.raises(ParseError, match="probe 'newest': expected files as JSON"):
        from_json(json.dumps(value))


@given(st.text(max_size=100) | st.just("[" * 100_000))
def test_any_text_is_an_answer_or_refused(text: str) -> None:
    """No text raises another error."""
    with contextlib.suppress(ParseError):
        from_json(text)
