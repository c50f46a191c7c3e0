"""'iowarden explain' of a pasted session: the prompt and the command above an output, of any shell.

Nothing of an output is taken for a command.
"""

from __future__ import annotations

import pytest
from support import printed
from support.explained import read

from iowarden.collectors.pasted_text.decode import decoded

PROMPTS = (
    *("# ", "$ ", "$ sudo ", "% ", "> ", "➜  ~ ", "\u276f sudo ", "", "sudo ", "db1 ~ # "),
    *("root@nas:~# ", "[root@db1 ~]# ", "admin@host:/srv$ sudo ", "nas:/root # ", "sh-5.1# "),
    "Last login: Sun Nov 29 07:00:00 2026 from 192.0.2.7\nroot@nas:~# ",
    "root@nas:~# sudo -i\nroot@nas:~# ",
)
COMMANDS = {
    "mdstat": ("cat /proc/mdstat", printed.MDSTAT["two arrays"]),
    "mdadm": ("mdadm --detail /dev/md5", printed.MDADM["clean"]),
    "mpt-status": ("mpt-status", printed.MPT["classic"]),
    "storcli": ("/opt/MegaRAID/storcli/storcli64 /c0 show all", printed.STORCLI["show all"]),
    "multipath": (
        "multipath -ll",
        (
            "mpatha (3600a0980) dm-2 NETAPP,LUN\nsize=8.0G features='0' hwhandler='0' wp=rw\n"
            "`-+- policy='service-time 0' prio=50 status=active\n"
            "  `- 1:0:0:0 sda 8:0 active ready running\n"
        ),
    ),
    "dmsetup": ("dmsetup status", "vg-root: 0 8388608 linear \n"),
}


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("tool", COMMANDS)
def test_the_command_above_an_output_is_no_part_of_it(prompt: str, tool: str) -> None:
    """A healthy machine, whichever shell: nothing wrong, and nothing that was not parsed."""
    command, text = COMMANDS[tool]
    found = read(f"{prompt}{command}\n{text}")
    assert (found.kind, found.status, found.unparsed) == (tool, 0, ())


@pytest.mark.parametrize(
    "line",
    [
        "nvme nvme0: I/O 5 QID 2 timeout, aborting",
        "[  100.000001] nvme nvme0: controller is down; will reset: CSTS=0xffffffff",
        "<3>[  100.000001] nvme nvme0: Device not ready; aborting reset",
        "smartctl 7.3 2022-02-28 r5338 [x86_64-linux-6.1.0] (local build)",
        "dumpe2fs 1.47.0 (5-Feb-2023)",
        "mdadm: /dev/md0 has been started",
        "# 1  Short offline       Completed without error       00%      9000         -",
        "Nov 29 07:00:00 db1 kernel: nvme nvme0: Removing after probe failure status: -19",
        "multipath: error getting device",
        "md0 : active raid1 sdb1[1] sda1[0]",
        "Percentage: 12% done, nvme",
    ],
)
def test_no_line_of_an_output_is_taken_for_a_command(line: str) -> None:
    """Lines that begin with a program's name, or have a sign that ends prompts."""
    assert decoded(f"{line}\n".encode()) == f"{line}\n"


HEADLESS = """\
=== START OF READ SMART DATA SECTION ===
SMART overall-health self-assessment test result: {verdict}

"""


@pytest.mark.parametrize("prompt", ["root@nas:~# ", "$ sudo ", "[root@db1 ~]# "])
def test_a_command_names_the_drive_of_an_output_whose_head_is_missing(prompt: str) -> None:
    """'tail' and 'grep' cut the banner and the serial number."""
    told = read(f"{prompt}smartctl -a /dev/sdb | tail -n +5\n{HEADLESS.format(verdict='FAILED!')}")
    assert [each.name for each in told.objects] == ["/dev/sdb"]
    assert {each.object for each in told.alerts} == {"disk /dev/sdb"}


def test_a_loop_names_each_drive_by_its_heading() -> None:
    """Its command has a variable, which is no name."""
    loop = 'for d in a b; do echo "== sd$d"; smartctl -H /dev/sd$d | tail -n +4; done'
    outputs = "".join(
        f"== {name}\n\n{HEADLESS.format(verdict=verdict)}"
        for name, verdict in (("sda", "PASSED"), ("sdb", "FAILED!"))
    )
    told = read(f"root@nas:~# {loop}\n{outputs}")
    assert {each.name: each.state for each in told.objects} == {"sda": "ok", "sdb": "failed"}


def test_two_commands_name_two_drives() -> None:
    """The second without a prompt of its own has no name that is sure."""
    one = f"# smartctl -H /dev/sda | tail -2\n{HEADLESS.format(verdict='PASSED')}"
    other = f"# smartctl -H /dev/sdb | tail -2\n{HEADLESS.format(verdict='FAILED!')}"
    told = read(one + other)
    assert {each.name: each.state for each in told.objects} == {
        "/dev/sda": "ok",
        "/dev/sdb": "failed",
    }


BANNER = "smartctl 7.2 2020-12-30 r5155 [x86_64-linux-5.15.0] (local build)\n\n"


@pytest.mark.parametrize(
    ("message", "step"),
    [
        (
            "/dev/sdc: Unknown USB bridge [0x152d:0x0578 (0x508)]",
            "TYPE: sat; of an NVMe drive",
        ),
        ("/dev/sdc: Unknown USB bridge [0x174c:0x2362 (0x100)]", "sntasmedia"),
        ("/dev/sdc: Unsupported USB bridge [0x0bda:0x9210 (0xf20)]", "sntrealtek"),
        ("/dev/sdc: Unknown USB bridge [0xffff:0x0001 (0x100)]", "-d TYPE /dev/sdc"),
        ("Smartctl open device: /dev/sdc failed: No such device", "/dev/sdc is gone"),
        ("Smartctl open device: /dev/sdc failed: Permission denied", "run it as root"),
    ],
)
def test_a_drive_that_smartctl_refuses_is_named_with_the_next_step(message: str, step: str) -> None:
    """Its health is not known, which is neither a fault nor health."""
    told = read(f"{BANNER}{message}\nPlease specify device type with the -d option.\n")
    assert told.status == 2
    assert [each.name for each in told.objects] == ["/dev/sdc"]
    assert [step in each.reason for each in told.unparsed] == [True]
    assert "jmb39x" not in told.unparsed[0].reason
