"""'iowarden explain' of a list without an entry: nothing in it was judged, which is not well."""

from __future__ import annotations

import pytest
from support.explained import read

from iowarden.collectors.model import ParseError

PERSONALITIES = ("", " [raid1]", " [linear] [raid6] [raid5] [raid4]")
MDSTAT = [f"Personalities :{each} \nunused devices: <none>\n" for each in PERSONALITIES]


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        *((text, "lists no array") for text in MDSTAT),
        ("TIME                           CLASS\n", "lists no event"),
        ("SEL has no entries\n", "lists no event or state of a drive"),
        ("FAN 1 | 41h | ok | 29.1 | 5600 RPM\n", "lists no event or state of a drive"),
    ],
)
@pytest.mark.parametrize("prompt", ["", "root@nas:~# {}\n"])
def test_an_empty_list_is_not_well(text: str, missing: str, prompt: str) -> None:
    """The kernel and the tools print the same where a failed array was never assembled."""
    commands = {"P": "cat /proc/mdstat", "T": "zpool events", "S": "ipmitool sel list"}
    told = read(prompt.format(commands.get(text[0], "ipmitool sdr elist")) + text)
    assert told.status == 2
    assert [each.reason for each in told.unparsed] == [
        f"'{told.outputs[0]}' {missing}: nothing was judged"
    ]
    assert "nothing wrong" not in told.summary()


@pytest.mark.parametrize("text", ["no pools available\n", "No devices found\n"])
def test_a_tool_that_has_nothing_to_list_is_named(text: str) -> None:
    """Not 'add --as': no other program would read more in it."""
    with pytest.raises(ParseError, match=r"^'(zpool|dmsetup)' .*nothing was judged"):
        read(text)


def test_a_list_with_an_array_has_a_verdict() -> None:
    """The same head and end."""
    array = "md0 : active raid1 sdb1[1] sda1[0]\n      1047552 blocks super 1.2 [2/2] [UU]\n\n"
    assert read(MDSTAT[1].replace("unused", f"{array}unused")).status == 0


BANNER = "smartctl 7.4 2023-08-01 r5530 [x86_64-linux-6.1.0] (local build)\n\n"
MANDATORY = (
    "A mandatory SMART command failed: exiting. To continue, add one or more '-T permissive'"
    " options.\n"
)


@pytest.mark.parametrize(
    "message", ["Short INQUIRY response, skip product id\n", "Standard Inquiry (36 bytes) failed\n"]
)
@pytest.mark.parametrize("option", ["-a", "-x"])
def test_a_disk_that_does_not_answer_is_called_so(message: str, option: str) -> None:
    """smartctl could not even identify it: what was run is no advice."""
    told = read(f"root@nas:~# smartctl {option} /dev/sdk\n{BANNER}{message}{MANDATORY}")
    assert (told.status, [each.name for each in told.objects]) == (2, ["/dev/sdk"])
    assert "/dev/sdk does not answer" in told.unparsed[0].reason
    assert "run smartctl" not in told.unparsed[0].reason


@pytest.mark.parametrize(
    ("text", "program"),
    [
        ("-- Controller information --\n-- ID | H/W Model | RAM\n", "megaclisas-status"),
        ("Found 2 IBM ServeRAID controller(s).\nRead configuration\n", "ipssend"),
    ],
)
def test_a_program_that_is_not_read_is_named(text: str, program: str) -> None:
    """'--as' accepts none of them: that would lead nowhere."""
    with pytest.raises(ParseError, match=f"^'{program}' is not read") as refused:
        read(text)
    assert "--as" not in str(refused.value)
