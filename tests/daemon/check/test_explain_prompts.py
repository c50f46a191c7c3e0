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
