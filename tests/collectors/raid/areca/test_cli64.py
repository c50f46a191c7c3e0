"""SMART data from Areca's command line tool."""

from __future__ import annotations

import pytest
from support.recordings import corpus

from iowarden.collectors.model import ParseError
from iowarden.collectors.raid.areca.cli64 import parse_disk_smart

TABLE = """\
S.M.A.R.T Information For Drive[#02]
  # Attribute Items                             Flag   Value  Thres  State
===============================================================================
  5 Reallocated Sector Count                  0x33     200    140  OK
197 Current Pending Sector Count              0x12     193      0  OK
===============================================================================
GuiErrMsg<0x00>: Success.
"""


def test_a_table_without_raw_values_has_none() -> None:
    """Normalized values and thresholds exist, a raw value is unknown and not 0."""
    five, pending = parse_disk_smart(TABLE)
    assert (five.id, five.name, five.value, five.threshold) == (
        5,
        "Reallocated Sector Count",
        200,
        140,
    )
    assert five.prefail
    assert not pending.prefail
    assert (pending.value, pending.raw, pending.worst, pending.counted()) == (193, None, None, None)


def test_the_newer_table_has_raw_values_and_names_that_end_in_words() -> None:
    """Parsed from the right: names contain blanks."""
    (row,) = parse_disk_smart("199 Ultra DMA CRC Error Count   200  200   0   131   OK\n")
    assert (row.name, row.value, row.worst, row.threshold, row.raw) == (
        "Ultra DMA CRC Error Count",
        200,
        200,
        0,
        131,
    )


def test_what_an_interactive_tool_puts_before_it_is_no_row() -> None:
    """A cleared screen and a prompt."""
    assert len(parse_disk_smart("\x1b[2J\x1b[1;1HCLI> " + TABLE)) == 2


@pytest.mark.parametrize("text", ["", "GuiErrMsg<0x03>: Invaild Data Returned\n", "  5 cut off"])
def test_no_table_is_no_healthy_disk(text: str) -> None:
    """A controller that did not answer, or half a row."""
    with pytest.raises(ParseError, match="cli64 disk smart"):
        parse_disk_smart(text)


def test_a_state_other_than_ok_is_a_failure() -> None:
    """OK states are an allow-list."""
    (row,) = parse_disk_smart("5 Reallocated Sector Count 0x33 139 140 FAIL\n")
    assert row.failed == "now"


def test_the_two_disks_of_the_incident() -> None:
    """Drive 2 had lost 7 points of attributes 197 and 198, and every state was OK."""
    good, failing = (
        {a.id: a for a in parse_disk_smart(corpus(f"reference/{name}").read_text())}
        for name in (
            "areca-cli-disk-smart-drv1-good.txt",
            "areca-cli-disk-smart-drv2-failing.txt",
        )
    )
    assert len(good) == len(failing) == 16
    differing = {n: (good[n].value, failing[n].value) for n in good if good[n] != failing[n]}
    assert differing == {3: (152, 153), 194: (102, 104), 197: (200, 193), 198: (200, 193)}
    assert not any(a.failed for a in failing.values())
