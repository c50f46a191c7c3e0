"""'iowarden explain' of storcli's answers to one part of a controller, and of its failures."""

from __future__ import annotations

import pytest
from support.explained import read

HEAD = "CLI Version = 007.1 Jan 01, 2020\nOperating system = Linux 6.1\n"
ANSWER = HEAD + "Controller = {}\nStatus = {}\nDescription = {}\n\n"
RULE = "-" * 72
PROTECTION = (
    f"{{}}_Info :\n===============\n\n{RULE}\nModel  State    Temp Mode MfgDate    Next Learn\n"
    f"{RULE}\n{{}} {{:<8}} 33C  -    2017/02/21 2026/10/01 11:02:10\n{RULE}\n"
)
DETAILED = (
    f"Detailed Status :\n===============\n\n{RULE}\nDrive      Status  ErrCd ErrMsg\n{RULE}\n"
)


@pytest.mark.parametrize(("part", "model"), [("Cachevault", "CVPM02"), ("BBU", "BBU")])
@pytest.mark.parametrize(
    ("state", "status"),
    [("Optimal", 0), ("Failed", 1), ("Degraded", 1), ("Pondering", 1)],
)
def test_the_protection_of_the_cache_alone_has_its_state(
    part: str, model: str, state: str, status: int
) -> None:
    """'/cN/cv show' and '/cN/bbu show' without 'all' have the row of '/cN show all'."""
    told = read(ANSWER.format(3, "Success", "None") + PROTECTION.format(part, model, state))
    assert told.status == status
    assert (told.unparsed, told.objects[-1].type) == ((), "battery")
    assert (told.objects[-1].name, told.objects[-1].parent) == (model, "megaraid c3")
    assert told.objects[-1].vendor_state == state


@pytest.mark.parametrize("reason", ["Controller 7 not found", "Un-known internal failure"])
def test_the_reason_of_a_failure_is_the_tools(reason: str) -> None:
    """No table stands below it."""
    told = read(ANSWER.format(7, "Failure", reason))
    assert told.status == 2
    assert [each.reason for each in told.unparsed] == [f"storcli could not read it: {reason}"]


@pytest.mark.parametrize("name", ["/c0/e8/s3", "/c0/s11", "/c0/v239"])
def test_an_object_that_could_not_be_read_is_named(name: str) -> None:
    """In the table 'Detailed Status', where the others succeeded: it is there, and ill."""
    rows = f"/c0/e8/s2 Success     0 -\n{name} Failure    46 Get Information failed\n{RULE}\n"
    told = read(ANSWER.format(0, "Failure", "Show Drive Information Failed.") + DETAILED + rows)
    assert told.status == 1
    assert f"{name} error 46: Get Information failed" in told.unparsed[0].reason
    assert "s2" not in told.unparsed[0].reason


@pytest.mark.parametrize("state", ["Optl", "Dgrd"])
@pytest.mark.parametrize("blanks", [2, 3])
def test_a_text_in_which_each_blank_was_stretched_is_read_as_without(
    state: str, blanks: int
) -> None:
    """A forum or an editor doubled them, also those within a size and a title."""
    rule = "-" * 60
    table = (
        f"VD LIST :\n=======\n\n{rule}\nDG/VD TYPE  State Access Consist Cache Cac sCC Size Name\n"
        f"{rule}\n0/0   RAID5 {state} RW Yes RWBD - ON 10.913 TB data\n{rule}\n"
    )
    text = ANSWER.format(0, "Success", "None") + table
    stretched = read(text.replace(" ", " " * blanks))
    assert stretched.objects == read(text).objects != ()
    assert stretched.status == (state == "Dgrd")
