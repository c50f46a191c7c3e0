"""Output of a program that the probe ran."""

from __future__ import annotations

import json

import pytest

from iowarden.collectors.model import ParseError
from iowarden.collectors.program import parse_output


def test_what_a_program_printed_that_a_signal_ended_is_no_answer() -> None:
    """It crashed or was killed: half a table has fewer disks, not failed ones."""
    answer = {"status": None, "signal": 15, "stdout": "half", "stderr": " a table"}
    with pytest.raises(ParseError, match="terminated by signal 15"):
        parse_output(json.dumps(answer))
    answer = {"status": 46, "signal": None, "stdout": "a whole", "stderr": " table"}
    assert parse_output(json.dumps(answer)) == "a whole table"
