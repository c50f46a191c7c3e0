"""'iowarden explain' of a pasted session: several commands, each read by its own parser."""

from __future__ import annotations

import itertools

import pytest
from support import printed
from support.explained import read

SMARTCTL = """\
smartctl 7.3 2022-02-28 r5338 [x86_64-linux-6.1.0-28-amd64] (local build)

=== START OF INFORMATION SECTION ===
Device Model:     ACME SLOW-HDD
Serial Number:    {serial}

=== START OF READ SMART DATA SECTION ===
SMART overall-health self-assessment test result: {health}

ID# ATTRIBUTE_NAME          FLAG     VALUE WORST THRESH TYPE      UPDATED  WHEN_FAILED RAW_VALUE
  5 Reallocated_Sector_Ct   0x0033   100   100   010    Pre-fail  Always       -       0

"""
MDSTAT = """\
Personalities : [raid1]
md0 : active raid1 sdb1[1] sda1[0]
      1953381376 blocks super 1.2 [{disks}] [{letters}]

unused devices: <none>
"""
ZPOOL = """\
  pool: tank
 state: {state}
config:

        NAME        STATE     READ WRITE CKSUM
        tank        {state}       0     0     0
          sdc       ONLINE       0     0     0

errors: No known data errors
"""
MULTIPATH = """\
mpatha (3600a0980) dm-2 NETAPP,LUN
size=8.0G features='0' hwhandler='0' wp=rw
`-+- policy='service-time 0' prio=50 status=active
  `- 1:0:0:0 sda 8:0 {state}
"""
SMARTD = "Mar 11 06:12:44 fs1 smartd[911]: Device: /dev/sdc [SAT], {}\n"
DMESG = "[  100.000001] {text}\n"
OUTPUTS = {
    "smartctl": (
        "smartctl -a /dev/sda",
        SMARTCTL.format(serial="S1", health="PASSED"),
        SMARTCTL.format(serial="S1", health="FAILED!"),
    ),
    "mdstat": (
        "cat /proc/mdstat",
        MDSTAT.format(disks="2/2", letters="UU"),
        MDSTAT.format(disks="2/1", letters="U_"),
    ),
    "zpool": ("zpool status", ZPOOL.format(state="ONLINE"), ZPOOL.format(state="SUSPENDED")),
    "kernel": (
        "dmesg | tail -1",
        DMESG.format(text="usb 1-1: new high-speed USB device number 3 using xhci_hcd"),
        DMESG.format(text="critical medium error, dev sdc, sector 2048"),
    ),
    "services": (
        "journalctl -u smartd",
        SMARTD.format("opened"),
        SMARTD.format("8 Currently unreadable (pending) sectors"),
    ),
    "multipath": (
        "multipath -ll",
        MULTIPATH.format(state="active ready running"),
        MULTIPATH.format(state="failed faulty running"),
    ),
    "dmsetup": (
        "dmsetup status",
        "vg-root: 0 8388608 linear \n",
        "vg-mir: 0 8388608 raid raid1 2 DA 8388608/8388608 idle 0 0 -\n",
    ),
}
PROMPTS = ("root@nas:~# ", "[root@nas ~]# ", "$ sudo ", "# ", "")
PAIRS = [*itertools.permutations(OUTPUTS, 2)]


def session(prompt: str, *commands: tuple[str, str]) -> str:
    """A paste: each command behind the prompt, its output below, and the prompt at the end."""
    return "".join(f"{prompt}{command}\n{text}" for command, text in commands) + prompt


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_two_commands_in_one_paste(pair: tuple[str, str]) -> None:
    """Each order, each prompt or none at all: healthy is nothing wrong, and a fault is reported."""
    for prompt in PROMPTS:
        well, ill = (
            read(session(prompt, *((OUTPUTS[tool][0], OUTPUTS[tool][at]) for tool in pair)))
            for at in (1, 2)
        )
        assert well.kind == ", ".join(pair)
        assert (well.status, well.unparsed) == (0, ())
        assert ill.kind == ", ".join(pair)
        alone = [read(OUTPUTS[tool][2]) for tool in pair]
        assert {(a.severity, a.alert, a.object) for a in ill.alerts} == {
            (a.severity, a.alert, a.object) for each in alone for a in each.alerts
        }
        assert ill.worst == max(each.worst for each in alone if each.worst is not None)


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_two_outputs_without_a_command(pair: tuple[str, str]) -> None:
    """Only the outputs, with an empty line between them: the second one's fault is not lost."""
    explained = read(f"{OUTPUTS[pair[0]][1]}\n{OUTPUTS[pair[1]][2]}")
    assert explained.kind == ", ".join(pair)
    assert explained.status == 1


@pytest.mark.parametrize("tool", OUTPUTS)
def test_the_lines_of_a_session_keep_their_numbers(tool: str) -> None:
    """An event in a log is that of the whole text."""
    command, well, _ = OUTPUTS[tool]
    log = "root@nas:~# dmesg\n[  100.000001] critical medium error, dev sdc, sector 2048\n"
    explained = read(f"root@nas:~# {command}\n{well}{log}")
    at = well.count("\n") + 3
    assert [each.line for each in explained.events] == [at]


@pytest.mark.parametrize(
    "command", ["bcache-super-show /dev/sdb1", "ceph -s", "./show-disks --all"]
)
@pytest.mark.parametrize("prompt", PROMPTS[:-1])
def test_a_command_without_a_parser_is_reported(prompt: str, command: str) -> None:
    """Between two healthy outputs: never 'nothing wrong', and what was read is answered."""
    healthy = [OUTPUTS["mdstat"][:2], (command, "health: 3 of 4 are there\n")]
    healthy.append(OUTPUTS["smartctl"][:2])
    explained = read(session(prompt, *healthy))
    assert explained.status == 2
    (unread,) = explained.unparsed
    assert unread.reason.startswith("no parser for '")
    assert f"{command}': 1 line" in unread.reason
    assert unread.text == "health: 3 of 4 are there"
    assert [each.type for each in explained.objects] == ["array", "member", "member", "disk"]


@pytest.mark.parametrize("command", ["uname -a", "date", "uptime", "ls -l /dev/disk/by-id"])
def test_a_command_that_shows_no_storage_needs_no_parser(command: str) -> None:
    """The date above a report is no part that was not read."""
    healthy = [(command, "Sun Mar 11 06:12:44 CET 2026\n"), OUTPUTS["mdstat"][:2]]
    assert read(session("root@nas:~# ", *healthy)).status == 0


def test_what_stands_between_a_fault_and_a_prompt_of_another_user_is_one_session() -> None:
    """A person becomes root in between."""
    text = "me@nas:~$ cat /proc/mdstat\n" + OUTPUTS["mdstat"][1]
    text += "me@nas:~$ sudo -i\nroot@nas:~# smartctl -a /dev/sda\n" + OUTPUTS["smartctl"][2]
    explained = read(text)
    assert explained.kind == "mdstat, smartctl"
    assert [each.alert for each in explained.alerts] == ["DiskFailing"]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("storcli", printed.STORCLI["show all"]),
        ("mdadm", printed.MDADM["clean"]),
        ("mpt-status", printed.MPT["classic"]),
    ],
)
def test_an_output_is_read_in_a_session_as_it_is_alone(kind: str, text: str) -> None:
    """Tables with rules, sections and empty lines stay one output."""
    alone = read(text)
    mdstat = OUTPUTS["mdstat"][1]
    for both in (
        read(f"root@nas:~# cat /proc/mdstat\n{mdstat}root@nas:~# {kind}\n{text}"),
        read(f"{mdstat}\n{text}"),
    ):
        assert both.kind == f"mdstat, {alone.kind}"
        assert both.alerts == alone.alerts
        assert both.unparsed == alone.unparsed
        assert all(each in both.objects for each in alone.objects)


def test_the_head_of_a_mail_without_its_line_hides_nothing_of_what_follows() -> None:
    """mdadm's own line is damaged: the copy of /proc/mdstat below it is read all the same."""
    text = (
        "This is an automatically generated mail message from mdadm\n"
        "A Fa#rray event had been detected on md device /dev/md0.\n\n"
        "P.S. The /proc/mdstat file currently contains the following:\n\n"
        "Personalities : [raid1]\nmd0 : active raid1 sda1[0]\n"
        "      1953381376 blocks super 1.2 [2/1] [U_]\n\nunused devices: <none>\n"
    )
    explained = read(text)
    assert explained.status == 1
    assert [each.name for each in explained.objects if each.type == "array"] == ["md0"]


ALARMS = """\
c2   [Sun Nov 20 08:20:12 2011]  ERROR     Drive ECC error reported: port=1
c2   [Sun Nov 20 08:20:14 2011]  ERROR     Rebuild failed: unit=0
"""
COLUMNS = "Ctl  Date                        Severity  AEN Message\n"
PORTS = """\
Port   Status           Unit   Size        Blocks        Serial
---------------------------------------------------------------
p0     OK               u0     931.51 GB   1953525168    5QJ0AAAA
p1     OK               u0     931.51 GB   1953525168    5QJ0BBBB

"""


@pytest.mark.parametrize("columns", ["", COLUMNS], ids=["rows only", "with the columns' names"])
@pytest.mark.parametrize("order", ["before", "behind"])
def test_alarms_of_tw_cli_beside_its_tables(columns: str, order: str) -> None:
    """A user shows the state and why it is so; neither hides the other."""
    log = f"{columns}{ALARMS}\n"
    told = read(log + PORTS if order == "before" else PORTS + log)
    assert {each.kind for each in told.events} == {
        "3ware_drive_ecc_error_reported",
        "3ware_rebuild_failed",
    }
    assert len([each for each in told.objects if each.type == "disk"]) == 2
    assert (told.status, told.unparsed) == (1, ())


def test_alarms_of_tw_cli_alone() -> None:
    """Rows that 'grep ERROR' left, and a row that is none: nothing is dropped."""
    told = read(f"# tw_cli /c2 show alarms | grep ERROR\n{ALARMS}", "tw_cli")
    assert [each.kind for each in told.events][-1] == "3ware_rebuild_failed"
    odd = read(f"{COLUMNS}{ALARMS}c2 an alarm of another form\n", "tw_cli")
    assert len(odd.events) == 3
