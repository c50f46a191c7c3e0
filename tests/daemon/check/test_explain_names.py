"""'iowarden explain': the object is that of the text, although its output does not name it."""

from __future__ import annotations

import pytest
from support.explained import read

HEALTH = """\
smartctl 7.3 2022-02-28 r5338 [x86_64-linux-6.1.0-28-amd64] (local build)

=== START OF READ SMART DATA SECTION ===
SMART Health Status: {health}

"""
PREDICTED = "HARDWARE IMPENDING FAILURE GENERAL HARD DRIVE FAILURE [asc=5d, ascq=10]"
ILL = HEALTH.format(health=PREDICTED)
WELL = HEALTH.format(health="OK")
STORCLI = """\
PD LIST :
=======

-----------------------------------------------------------------------
EID:Slt DID State DG     Size Intf Med SED PI SeSz Model        Sp Type
-----------------------------------------------------------------------
8:0       0 Onln   0 3.637 TB SAS  HDD N   N  512B ACME-1       U  -
8:1       1 {disk} 0 3.637 TB SAS  HDD N   N  512B ACME-1       U  -
-----------------------------------------------------------------------

UBad=Unconfigured Bad|Sntze=Sanitize|Onln=Online|Offln=Offline|Intf=Interface
"""
THIN_POOL = (
    "0 80 thin-pool 3 30/4145 7/7 - out_of_data_space discard_passdown queue_if_no_space - 1024"
)
ALARMS = """\
Ctl  Date                        Severity  AEN Message
------------------------------------------------------------------------------
c{number}   [Wed Jan 10 05:03:40 2024]  ERROR     Drive timeout detected: port=7
"""


@pytest.mark.parametrize("prompt", ["root@box:~# ", "[root@box ~]# ", "$ sudo ", "# "])
def test_a_drive_is_named_by_its_command(prompt: str) -> None:
    """Behind a controller all disks have one path, and a number each."""
    text = "".join(
        f"{prompt}smartctl -H -d megaraid,{number} /dev/sda\n{ILL if number == 6 else WELL}"
        for number in (4, 6, 9)
    )
    (alert,) = read(text).alerts
    assert alert.object == "disk megaraid,6 /dev/sda"


def test_a_drive_is_named_by_the_heading_above_it() -> None:
    """A loop of the shell prints a heading for each disk, which begins anywhere."""
    text = "".join(f"== slot {n} ==\n{ILL if n == 2 else WELL}" for n in range(4))
    (alert,) = read(text).alerts
    assert alert.object == "disk slot 2"


def test_alarms_are_of_the_controller_in_their_rows() -> None:
    """The log of the second controller is not the first one's."""
    assert [a.object for a in read(ALARMS.format(number=2)).alerts] == ["port 7 of c2"]


@pytest.mark.parametrize("state", ["Offln", "UBad", "Failed"])
def test_tables_of_storcli_without_the_head_of_the_answer(state: str) -> None:
    """The legend below a table has all the words of faults; the disk is in its row."""
    text = f"$ sudo storcli /c1/eall/sall show\n{STORCLI.format(disk=state)}"
    explained = read(text)
    assert ("critical", "ControllerDiskFailed") in {(a.severity, a.alert) for a in explained.alerts}
    assert {o.parent for o in explained.objects if o.type == "disk"} == {"megaraid c1"}
    well = read(f"$ sudo storcli /c1/eall/sall show\n{STORCLI.format(disk='Onln')}")
    assert (well.status, well.alerts, well.unparsed) == (0, (), ())


@pytest.mark.parametrize(
    ("line", "severity"),
    [
        (THIN_POOL, "critical"),
        ("0 8388608 raid raid1 2 DA 8388608/8388608 idle 0 0 -", "critical"),
        ("0 8388608 linear", ""),
    ],
)  # fmt: skip
def test_dmsetup_of_one_device_prints_no_name(line: str, severity: str) -> None:
    """Its only line begins with the first sector."""
    explained = read(f"root@box:~# dmsetup status vg-pool\n{line}\n")
    assert explained.unparsed == ()
    assert {a.severity for a in explained.alerts} == ({severity} if severity else set())
    assert read(f"{line}\n").kind == "dmsetup"


def test_a_prediction_of_failure_that_is_a_test_is_no_failure() -> None:
    """5D/FF: the drive's TEST bit is set; each other code of 5D is a real prediction."""
    text = HEALTH.format(health="FAILURE PREDICTION THRESHOLD EXCEEDED (FALSE) [asc=5d, ascq=ff]")
    data = "Current Drive Temperature:     33 C\nElements in grown defect list: 0\n"
    explained = read(f"{text}{data}")
    assert [(a.severity, a.alert) for a in explained.alerts] == [("notice", "DiskFailureTest")]
    assert {o.state for o in explained.objects} == {"attention"}
    assert [a.severity for a in read(ILL).alerts] == ["critical"]


RECOVERY = """\
[    6.1] XFS (md9): Starting recovery (logdev: internal)
[    6.9] XFS (md9): Ending recovery (logdev: internal)
"""
PASS_THROUGH = """\
sd 0:0:3:0: [sdd] tag#0 CDB: ATA command pass through(16) 85 08 0e 00 d5 00 01 00 e0 00 4f 00 c2 00
sd 0:0:3:0: [sdd] tag#0 Sense Key : Recovered Error [current] [descriptor]
sd 0:0:3:0: [sdd] tag#0 Add. Sense: ATA pass through information available
"""
SUBNQN = "[    1.9] nvme nvme0: missing or invalid SUBNQN field.\n"


@pytest.mark.parametrize("text", [RECOVERY, PASS_THROUGH, SUBNQN])
def test_lines_of_a_healthy_kernel_are_known_as_its_lines(text: str) -> None:
    """With a short time, or none: nothing is wrong, and that is the answer."""
    explained = read(text)
    assert (explained.kind, explained.status, explained.unparsed) == ("kernel", 0, ())


MAP = """\
{head} dm-7 IET,VIRTUAL-DISK
size=16G features='0' hwhandler='0' wp=rw
|-+- policy='round-robin 0' prio=1 status=active
| `- 3:0:0:1 sdq 65:0  active ready  running
`-+- policy='round-robin 0' prio=1 status=enabled
  `- 4:0:0:1 sdr 65:16 active {second} running
"""


@pytest.mark.parametrize(
    ("head", "name"),
    [
        ("1IET     00080001", "1IET 00080001"),  # T10: the vendor is padded
        ("data (1IET     00080001)", "data"),
        ("36001405b1629f80d52a4c898f8856e43", "36001405b1629f80d52a4c898f8856e43"),
        (": data (36001405b1629f80d52a4c898f8856e43)", "data"),
    ],
)
def test_a_map_whose_wwid_has_blanks(head: str, name: str) -> None:
    """'multipath -ll' prints it alone where there is no alias."""
    for second, working in (("ready ", 2), ("faulty", 1)):
        told = read(MAP.format(head=head, second=second))
        (found,) = (each for each in told.objects if each.type == "map")
        assert (found.name, found.details) == (name, {"paths": 2, "working": working})
        assert told.unparsed == ()


VERBOSE = """\
===== paths list =====
uuid hcil    dev dev_t pri dm_st chk_st vend/prod/rev       dev_st
     3:0:0:1 sdq 65:0  -1  undef {first} IET,VIRTUAL-DISK    running
Oct 28 14:02:44 | *word = 0, len = 1
params = 0 0 2 1 round-robin 0 1 1 65:0 1000 round-robin 0 1 1 65:16 1000
sdq: getprio = NULL (internal default)
"""


def test_what_a_verbose_multipath_adds_is_no_line_of_a_map() -> None:
    """'-v3' above its maps; a path that is not ready in that list is not passed over."""
    text = MAP.format(head="data (36001405b1629f80d52a4c898f8856e43)", second="ready ")
    assert read(VERBOSE.format(first="ready ") + text).unparsed == ()
    (unread,) = read(VERBOSE.format(first="faulty") + text).unparsed
    assert "faulty" in unread.text


SAS_LINES = """\
SMART Health Status: OK
Elements in grown defect list: {defects}
read:          0        2         0         2     {defects}      811.204           0
"""


@pytest.mark.parametrize(
    "identity", ["Serial number:        ZA00{n}\n", "Product: X{n}\nSerial number: ZA00{n}\n"]
)
def test_a_serial_number_above_the_health_is_of_the_lines_below_it(identity: str) -> None:
    """'smartctl -a | egrep' prints neither banner nor section; the serial number comes first."""
    text = "".join(
        f"--- megaraid,{n}\n{identity.format(n=n)}{SAS_LINES.format(defects=70 if n == 8 else 0)}"
        for n in (7, 8, 9)
    )
    told = read(text)
    assert {each.object for each in told.alerts} == {"disk ZA008"}
    assert [each.name for each in told.objects] == ["ZA007", "ZA008", "ZA009"]


def test_a_drive_without_a_serial_number_does_not_get_that_of_its_neighbour() -> None:
    """One drive of a loop may not report its serial number; its heading is its name."""
    heads = ("Serial number: ZB001\n", "", "Serial number: ZB003\n")
    text = "".join(
        f"== /dev/sd{'abc'[n]}\n{head}{SAS_LINES.format(defects=55 if n == 1 else 0)}"
        for n, head in enumerate(heads)
    )
    told = read(text)
    assert [each.name for each in told.objects] == ["ZB001", "/dev/sdb", "ZB003"]
    assert {each.object for each in told.alerts} == {"disk /dev/sdb"}


@pytest.mark.parametrize(
    ("heading", "name"),
    [
        ("== sd{}", "sdb"),
        ("=== /dev/sd{} ===", "/dev/sdb"),
        ("sd{}:", "sdb"),
        ("/dev/sd{}:", "/dev/sdb"),
        ("*** bay {}", "bay b"),
        ("3ware,{}", "3ware,b"),
    ],
)
def test_each_heading_of_a_loop_names_its_drive(heading: str, name: str) -> None:
    """Each pass prints a heading and one line, with no empty line between them."""
    text = "".join(
        f"{heading.format(letter)}\n{ILL if letter == 'b' else WELL}" for letter in "abc"
    )
    (alert,) = read(text).alerts
    assert alert.object == f"disk {name}"


PENDING = (
    "197 Current_Pending_Sector  0x0012   100   100   000    Old_age   Always       -       {}\n"
)
TEMPERATURE = (
    "194 Temperature_Celsius     0x0022   069   055   000    Old_age   Always       -       31\n"
)


@pytest.mark.parametrize(
    ("head", "name"), [("== sd{0}\n", "sdb"), ("Serial Number: ZC-{0}\n", "ZC-b")]
)
def test_rows_of_several_drives_without_any_heading_of_smartctl(head: str, name: str) -> None:
    """'smartctl -A | grep' in a loop: the same rows again are those of the next drive."""
    text = "".join(
        f"{head.format(letter)}{TEMPERATURE}{PENDING.format(24 if letter == 'b' else 0)}"
        for letter in "abc"
    )
    told = read(text)
    assert {(a.alert, a.object) for a in told.alerts} == {("DiskPendingSectors", f"disk {name}")}
