"""Outputs of each vendor's program for a faulty host, damaged in every way.

Each host has an array without redundancy and a failed disk, which is listed last. Whatever the
damage, the result is never a host without faults: the fault is detected, or unreadable parts are
reported.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from support.controllers import DRIVERS, polled

from iowarden.collectors.model import ParseError
from iowarden.collectors.raid.adaptec.aacraid import ADAPTEC
from iowarden.collectors.raid.areca.arcmsr import ARECA
from iowarden.collectors.raid.controller import ComponentHealth, Controllers
from iowarden.collectors.raid.megaraid.megaraid_sas import MEGARAID
from iowarden.collectors.raid.mpt import mpt_status, sasircu
from iowarden.collectors.raid.smartarray import cciss_vol_status
from iowarden.collectors.raid.smartarray.hpsa import HP
from iowarden.collectors.raid.threeware.threeware import THREEWARE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from iowarden.collectors.raid.backend import Backend
    from iowarden.collectors.raid.controller import ComponentState, Controller
    from iowarden.collectors.raid.mpt.mpt_status import Mirrors

WELL = {ComponentHealth.OK, ComponentHealth.BUSY, ComponentHealth.ABSENT}
RULE = "-" * 78

TOPOLOGY = f"""\
TOPOLOGY :
========

{RULE}
DG Arr Row EID:Slot DID Type  State BT     Size PDC  PI SED DS3  FSpace
{RULE}
 0 -   -   -        -   RAID1 Dgrd  N  3.637 TB dflt N  N   dflt N
 0 0   -   -        -   RAID1 Dgrd  N  3.637 TB dflt N  N   dflt N
 0 0   0   252:0    8   DRIVE Onln  N  3.637 TB dflt N  N   dflt -
 0 0   1   252:1    9   DRIVE Failed N  3.637 TB dflt N  N   dflt -
{RULE}

"""
STORCLI = f"""\
CLI Version = 007.0606.0000.0000 Mar 20, 2018
Operating system = Linux 4.18.0
Controller = 0
Status = Success
Description = None

Basics :
======
Controller = 0
Model = ACME 9000
Serial Number = SV1

Version :
=======
Driver Name = megaraid_sas

Status :
======
Controller Status = Optimal

Drive Groups = 1

{TOPOLOGY}Virtual Drives = 1

VD LIST :
=======

{RULE}
DG/VD TYPE  State Access Consist Cache Cac sCC     Size Name
{RULE}
0/0   RAID1 Dgrd  RW     Yes     NRWTD -   ON  3.637 TB data
{RULE}

Physical Drives = 2

PD LIST :
=======

{RULE}
EID:Slt DID State  DG     Size Intf Med SED PI SeSz Model           Sp Type
{RULE}
252:0     8 Onln    0 3.637 TB SAS  HDD N   N  512B ACME 4000        U  -
252:1     9 Failed  0 3.637 TB SAS  HDD N   N  512B ACME 4000        U  -
{RULE}

"""
STORCLI_LIST = f"""\
Status Code = 0
Status = Success
Description = None

Number of Controllers = 1

System Overview :
===============

{RULE}
Ctl Model     Ports PDs DGs DNOpt VDs VNOpt BBU sPR DS  EHS ASOs Hlth
{RULE}
  0 ACME 9000     8   2   1     1   1     1 Opt On  1&2 Y      4 NdAtn
{RULE}

"""
STORCLI_DONE = "Controller = 0\nStatus = Success\nDescription = None\n\n"
MEGACLI_DONE = "\n\nExit Code: 0x00\n"
MEGACLI_DISK = """\
Enclosure Device ID: 252
Slot Number: {slot}
Device Id: {slot}
Predictive Failure Count: 0
Raw Size: 419.186 GB [0x3465f870 Sectors]
Firmware state: {state}
Foreign State: None
Drive has flagged a S.M.A.R.T alert : No

"""
MEGACLI_DISKS = MEGACLI_DISK.format(slot=0, state="Online, Spun Up") + MEGACLI_DISK.format(
    slot=1, state="Failed"
)
MEGACLI_VOLUME = (
    "Virtual Drive: 0 (Target Id: 0)\nName                : data\nState               : Degraded\n"
    "Span Depth          : 1\n\n"
)
ARCCONF = f"""\
Controllers found: 1
{RULE}
Controller information
{RULE}
   Controller Status                        : Optimal
   Controller Model                         : ACME 9905
   Logical devices/Failed/Degraded          : 1/0/1

{RULE}
Logical device information
{RULE}
Logical device number 0
   Logical device name                      : mail
   RAID level                               : 1
   Status of logical device                 : Degraded
   Size                                     : 953344 MB

{RULE}
Physical Device information
{RULE}
      Device #0
         Device is a Hard drive
         State                              : Online
         Reported Channel,Device(T:L)       : 0,8(8:0)
         Reported Location                  : Enclosure 0, Slot 4
         Model                              : WD1000
      Device #1
         Device is a Hard drive
         State                              : Failed
         Reported Channel,Device(T:L)       : 0,9(9:0)
         Reported Location                  : Enclosure 0, Slot 5
         Model                              : WD1000

Command completed successfully.
"""
SSACLI = """\

Smart Array P999i in Slot 0 (Embedded)
   Bus Interface: PCI
   Serial Number: PXYZ1
   Controller Status: OK

   Array: A
      Interface Type: SAS
      Status: OK

      Logical Drive: 1
         Size: 558.9 GB
         Fault Tolerance: 1
         Status: Interim Recovery Mode
         Drive Type: Data

      physicaldrive 1I:1:1
         Port: 1I
         Status: OK
         Drive Type: Data Drive
         Serial Number: S1

      physicaldrive 1I:1:2
         Port: 1I
         Status: Failed
         Drive Type: Data Drive
         Serial Number: S2

"""
SSACLI_SHORT = """\

Smart Array P999i in Slot 0 (Embedded)    (sn: PXYZ1)

   array A (SAS, Unused Space: 0 MB)

      logicaldrive 1 (558.9 GB, RAID 1, Interim Recovery Mode)

      physicaldrive 1I:1:1 (port 1I:box 1:bay 1, SAS HDD, 600 GB, OK)
      physicaldrive 1I:1:2 (port 1I:box 1:bay 2, SAS HDD, 600 GB, Failed)

"""
CLI64_DONE = f"{'=' * 79}\nGuiErrMsg<0x00>: Success.\n"
CLI64_SETS = f"""\
 #  Name             Disks TotalCap  FreeCap DiskChannels       State
{"=" * 79}
 1  Raid Set # 00        2 2000.0GB    0.0GB 12                 Degraded
{CLI64_DONE}"""
CLI64_VOLUMES = f"""\
  # Name             Raid Name       Level   Capacity Ch/Id/Lun  State
{"=" * 79}
  1 my data          Raid Set # 00   Raid1   1000.0GB 00/01/07   Degraded
{CLI64_DONE}"""
CLI64_DISKS = f"""\
  # Ch# ModelName                       Capacity  Usage
{"=" * 79}
  1  1  WDC WD10EADS-00L5B1             1000.2GB  Raid Set # 00
  2  2  WDC WD10EADS-00L5B1             1000.2GB  Failed
{CLI64_DONE}"""
TW_CLI = f"""\
/c0 Model = 9650SE-4LPML
/c0 Serial Number = L1
/c0 Number of Drives = 2
/c0 Number of Units = 1
/c0 Not Optimal Units = 1

Unit  UnitType  Status         %RCmpl  %V/I/M  Stripe  Size(GB)  Cache  AVrfy
{RULE}
u0    RAID-1    DEGRADED       -       -       64K     931.303   RiW    ON

Port   Status           Unit   Size        Blocks        Serial
{RULE}
p0     OK               u0     931.51 GB   1953525168    9QJ1X1YY
p1     DRIVE-REMOVED    u0     931.51 GB   1953525168    9QJ1X2YY

"""
TW_CLI_OLD = TW_CLI[TW_CLI.index("Unit ") :]
"""Format of old versions: its counts are only in the list of controllers."""
TW_CLI_LIST = """\

Ctl   Model        Ports   Drives   Units   NotOpt   RRate   VRate   BBU
------------------------------------------------------------------------
c0    9650SE-4LPML 4       2        1       1        1       1       -

"""
CCISS_DISK = (
    "         connector 1I box 1 bay {bay} {model:<40} {serial:>40} {firmware:<8} {state}\n"
)
CCISS = (
    "Controller: Smart Array P99\n  Board ID: 0x1234103c\n"
    "/dev/sda: (Smart Array P99) RAID 1 Volume 0 status: Using interim recovery mode.\n"
    "  Physical drives: 2\n"
    + CCISS_DISK.format(bay=1, model="HP EG0600", serial="S1", firmware="HPD9", state="OK")
    + CCISS_DISK.format(bay=2, model="HP EG0600", serial="S2", firmware="HPD9", state="FAILED")
)
DISPLAY_DISK = """\
Device is a Hard disk
  Enclosure #                             : 1
  Slot #                                  : {slot}
  State                                   : {state}
  Serial No                               : S{slot}
"""
SAS2IRCU = "\n".join(
    [
        *(RULE, "Controller information", RULE, "  Controller type : SAS2008"),
        *(RULE, "IR Volume information", RULE, "IR volume 1", "  Volume ID : 286"),
        *("  Status of volume : Degraded (DGD)", RULE, "Physical device information", RULE),
        DISPLAY_DISK.format(slot=0, state="Optimal (OPT)")
        + DISPLAY_DISK.format(slot=1, state="Failed (FLD)")
        + RULE,
        "SAS2IRCU: Command DISPLAY Completed Successfully.",
        "SAS2IRCU: Utility Completed Successfully.",
        "",
    ]
)
MPT = """\
ioc0 vol_id 0 type IM, 2 phy, 136 GB, state DEGRADED, flags ENABLED
ioc0 phy 0 scsi_id 1 ATA      Hitachi HUA72101 AJ0A, 931 GB, state ONLINE, flags NONE
ioc0 phy 1 scsi_id 8 SEAGATE  ST3146356SS      0009, 136 GB, state MISSING, flags NONE
"""


@dataclass(frozen=True)
class Case:
    """A host, and which of the answers of its program is damaged.

    Fields: `read` returns the result of the damaged text; `faults` are the words for the fault
    there, with the words of a healthy one; `healthy` is the result of that.
    """

    text: str
    read: Callable[[str], Controllers]
    faults: Mapping[str, str]
    healthy: Callable[[], Controllers]


def _replaced(text: str, *pairs: Mapping[str, str]) -> str:
    for each in pairs:
        for old, new in each.items():
            text = text.replace(old, new)
    return text


def _machine(
    maker: Backend,
    driver: str,
    answers: Mapping[str, str],
    damaged: str,
    faults: Mapping[str, str],
    counts: Mapping[str, str],
) -> Case:
    """Return a polled host. `counts`: those with faults, and without."""
    files = {f"{DRIVERS}/{driver}/0000:03:00.0/host1": None}
    whole = {command: _replaced(text, counts, faults) for command, text in answers.items()}
    text = answers[damaged]
    return Case(
        text,
        # Damaged JSON is queried again as text, which is damaged as well.
        lambda text: polled(
            maker, files, {**answers, damaged: text, damaged.replace(" J ", " "): text}
        ),
        {word: well for word, well in faults.items() if word in text},
        lambda: polled(maker, files, whole),
    )


def _parser(
    text: str, parse: Callable[[str], Controller | Mirrors], faults: Mapping[str, str]
) -> Case:
    """Return an answer that is parsed alone."""

    def read(damaged: str) -> Controllers:
        found = parse(damaged)
        return Controllers((found,))  # type: ignore[arg-type] # mirrors have the same fields

    return Case(text, read, faults, lambda: read(_replaced(text, faults)))


_STORCLI = {
    "storcli64 show J nolog": STORCLI_LIST,
    **dict.fromkeys(("storcli64 /c0 show all J nolog", "storcli64 /c0 show all nolog"), STORCLI),
    "storcli64 /c0/eall/sall show all J nolog": STORCLI_DONE
    + STORCLI[STORCLI.index("PD LIST :") :].replace(
        "252:1     9 Failed  0", "252:0     8 Onln    0"
    ),
    "storcli64 /c0/vall show all J nolog": STORCLI_DONE
    + STORCLI[STORCLI.index("VD LIST :") : STORCLI.index("Physical Drives")],
    "storcli64 /c0 show patrolread J nolog": STORCLI_DONE
    + f"Controller Properties :\n=====\n\n{RULE}\nCtrl_Prop        Value\n{RULE}\n"
    f"PR Current State Stopped\n{RULE}\n",
    "storcli64 /c0 show events type=latest=512 nolog": STORCLI_DONE,
}
_MEGACLI = {
    "MegaCli -AdpGetPciInfo -aALL -NoLog": "PCI information for Controller 0\nBus Number : 3\n"
    f"Device Number : 0\nFunction Number : 0\n{MEGACLI_DONE}",
    "MegaCli -AdpAllInfo -a0 -NoLog": f"Adapter #0\nProduct Name : ACME\nBBU : Absent\n"
    f"Virtual Drives : 1\n  Degraded : 1\nDisks : 2\nFailed Disks : 1\n{MEGACLI_DONE}",
    "MegaCli -LdPdInfo -a0 -NoLog": f"Adapter #0\n\n{MEGACLI_VOLUME}{MEGACLI_DISKS}{MEGACLI_DONE}",
    "MegaCli -AdpEventLog -GetLatest 512 -f /dev/stdout -a0 -NoLog": "seqNum: 0x00000001\n"
    f"Time: Tue Jun  2 18:02:07 2015\n\nCode: 0x00000000\nClass: 0\nLocale: 0x20\n"
    f"Event Description: Firmware initialization started\nEvent Data:\n=====\nNone\n{MEGACLI_DONE}",
    "MegaCli -PDList -a0 -NoLog": f"Adapter #0\n\n{MEGACLI_DISKS}{MEGACLI_DONE}",
}
_ARCCONF = {
    "arcconf GETVERSION": "Controllers found: 1\n\nCommand completed successfully.\n",
    "arcconf GETCONFIG 1 AL": ARCCONF,
    "arcconf GETSTATUS 1": "   Current operation : None\n\nCommand completed successfully.\n",
    "arcconf GETLOGS 1 DEVICE tabular": "Controllers found: 1\n\nCommand completed successfully.\n",
}
_SSACLI = {
    "ssacli ctrl all show status": "Smart Array P999i in Slot 0 (Embedded)\n",
    "ssacli ctrl slot=0 show config detail": SSACLI,
    "ssacli ctrl slot=0 show config": SSACLI_SHORT,
}
_CLI64 = {
    "cli64 sys info": f"Controller Name : ARC-1210\n{CLI64_DONE}",
    "cli64 rsf info": CLI64_SETS,
    "cli64 vsf info": CLI64_VOLUMES,
    "cli64 disk info": CLI64_DISKS,
    "cli64 hw info": f"The Hardware Monitor Information\nCPU Temperature : 40 C\n{CLI64_DONE}",
    "cli64 event info": f"Date-Time            Device              Event Type\n{CLI64_DONE}",
}
_TW_CLI = {
    "tw_cli show": TW_CLI_LIST,
    "tw_cli /c0 show all": TW_CLI,
    "tw_cli /c0 show alarms": "Ctl  Date  Severity  AEN Message\n",
}
_TW_CLI_OLD = {**_TW_CLI, "tw_cli /c0 show all": TW_CLI_OLD}

_MEGACLI_WELL = (
    {
        "State               : Degraded": "State               : Optimal",
        "state: Failed": "state: Online",
    },
    {"Degraded : 1": "Degraded : 0", "Failed Disks : 1": "Failed Disks : 0"},
)
_CLI64_WELL = ({"Degraded": "Normal", "Failed": "HotSpare"}, {"No such": ""})
_TW_CLI_WELL = (
    {"DEGRADED": "OK", "DRIVE-REMOVED": "OK"},
    {
        "Optimal Units = 1": "Optimal Units = 0",
        "1        1       1       -": "0        1       1       -",
    },
)
CASES = {
    "storcli": _machine(
        MEGARAID,
        "megaraid_sas",
        _STORCLI,
        "storcli64 /c0 show all J nolog",
        {"Dgrd": "Optl", "Failed": "Onln  "},
        {"1     1   1     1 Opt": "1     0   1     0 Opt"},
    ),
    "MegaCli volumes": _machine(
        MEGARAID, "megaraid_sas", _MEGACLI, "MegaCli -LdPdInfo -a0 -NoLog", *_MEGACLI_WELL
    ),
    "MegaCli disks": _machine(
        MEGARAID, "megaraid_sas", _MEGACLI, "MegaCli -PDList -a0 -NoLog", *_MEGACLI_WELL
    ),
    "arcconf": _machine(
        ADAPTEC,
        "aacraid",
        _ARCCONF,
        "arcconf GETCONFIG 1 AL",
        {": Degraded": ": Optimal", ": Failed": ": Online"},
        {": 1/0/1": ": 1/0/0"},
    ),
    "ssacli": _machine(
        HP,
        "hpsa",
        _SSACLI,
        "ssacli ctrl slot=0 show config detail",
        {"Interim Recovery Mode": "OK", "Failed": "OK"},
        {},
    ),
    "cli64 rsf": _machine(ARECA, "arcmsr", _CLI64, "cli64 rsf info", *_CLI64_WELL),
    "cli64 vsf": _machine(ARECA, "arcmsr", _CLI64, "cli64 vsf info", *_CLI64_WELL),
    "cli64 disk": _machine(ARECA, "arcmsr", _CLI64, "cli64 disk info", *_CLI64_WELL),
    "tw_cli": _machine(THREEWARE, "3w-9xxx", _TW_CLI, "tw_cli /c0 show all", *_TW_CLI_WELL),
    "tw_cli, old": _machine(
        THREEWARE, "3w-9xxx", _TW_CLI_OLD, "tw_cli /c0 show all", *_TW_CLI_WELL
    ),
    "cciss_vol_status": _parser(
        CCISS,
        lambda text: cciss_vol_status.parse_volume_status(text)[0],
        {"Using interim recovery mode": "OK", "FAILED": "OK"},
    ),
    "sas2ircu": _parser(
        SAS2IRCU,
        lambda text: sasircu.parse_display(text, "sas2ircu 0"),
        {"Degraded (DGD)": "Okay (OKY)", "Failed (FLD)": "Optimal (OPT)"},
    ),
    "mpt-status": _parser(
        MPT, mpt_status.parse_status, {"DEGRADED": "OPTIMAL", "MISSING": "ONLINE"}
    ),
}
MAKERS = sorted(CASES)


def said(case: Case, text: str) -> str:
    """Return the result of a text: why it is refused, what is unreadable, what is not OK."""
    try:
        return told(case.read(text))
    except ParseError as error:
        return str(error)


def told(found: Controllers) -> str:
    """Return the faults of controllers, '' without any."""
    reasons = [problem.reason for problem in found.problems]
    for each in found.controllers:
        reasons += each.read_errors
        reasons += [state.word or "?" for state in _states(each) if state.health not in WELL]
    return "; ".join(reasons)


def _states(found: Controller) -> Iterator[ComponentState]:
    yield from (each.state for each in (*found.arrays, *found.disks))
    yield from filter(None, [getattr(found, "state", None)])


def cuts(text: str) -> list[int]:
    """Return positions to truncate at: after each line, around each word for a fault, between."""
    ends = {match.end() for match in re.finditer("\n", text)}
    return sorted({*ends, *(end - 1 for end in ends), *range(0, len(text), 5)})


@pytest.mark.parametrize("name", MAKERS)
def test_the_faults_are_seen_and_nothing_else_is_reported(name: str) -> None:
    """Also with the line ends of another system, and with NUL bytes within words."""
    case = CASES[name]
    assert told(case.healthy()) == ""
    for text in (
        case.text,
        case.text.replace("\n", "\r\n"),
        *(case.text.replace(word, f"{word[:3]}\0{word[3:]}") for word in case.faults),
    ):
        for word in case.faults:
            state = re.sub(r"^.*: | \([A-Z]+\)$", "", word)
            assert state.casefold() in said(case, text).casefold()


@pytest.mark.parametrize("name", MAKERS)
def test_a_text_that_is_cut_anywhere_is_never_a_machine_without_faults(name: str) -> None:
    """Within a word, after a line, before the fault: refused, reported, or detected."""
    case = CASES[name]
    silent = [at for at in cuts(case.text) if not said(case, case.text[:at])]
    assert [case.text[max(at - 40, 0) : at] for at in silent] == []


@pytest.mark.parametrize("name", MAKERS)
def test_a_line_that_is_lost_or_spoilt_hides_no_fault(name: str) -> None:
    """Any line except those of the fault may be lost or replaced: it is reported."""
    case = CASES[name]
    lines = case.text.splitlines(keepends=True)
    for at, line in enumerate(lines):
        without = "".join([*lines[:at], *lines[at + 1 :]])
        spoilt = "".join([*lines[:at], "\x7f%& kaputt 0,5 \x00\n", *lines[at + 1 :]])
        assert said(case, without), line
        assert said(case, spoilt), line


HEADINGS = {
    "MegaCli disks": ("Enclosure Device ID: 252\nSlot Number: 1", "Enclosure Dev\nSlot Number: 1"),
    "MegaCli volumes": ("Virtual Drive: 0", "Virtual Dr"),
    "arcconf": ("Device #1", "Device 1"),
    "arcconf logical": ("Logical device number 0", "Logical device numb"),
    "sas2ircu": (DISPLAY_DISK.format(slot=1, state="")[:21], "Device is"),
    "sas2ircu volumes": ("IR volume 1", "IR vol"),
    "ssacli": ("physicaldrive 1I:1:2\n", "physicaldr\n"),
    "tw_cli": ("Port   Status", "Port   St"),
}


@pytest.mark.parametrize("name", HEADINGS)
def test_what_stands_below_a_heading_that_is_spoilt_is_nobody_elses(name: str) -> None:
    """A second disk below the heading of the first: one of two states would be lost."""
    program = name.removesuffix(" logical").removesuffix(" volumes")
    case = CASES.get(name) or CASES[program]
    text = _replaced(case.text, case.faults)
    heading, spoilt = HEADINGS[name]
    at = text.rindex(heading)
    assert "expected" in said(case, text[:at] + spoilt + text[at + len(heading) :])


@pytest.mark.parametrize("name", MAKERS)
def test_words_of_another_language_are_never_well(name: str) -> None:
    """A localised program, and one that is newer than all known ones."""
    case = CASES[name]
    for unknown in ("Ausgefallen", "故障", "x" * 500, "OK-ish", ""):
        assert said(case, _replaced(case.text, dict.fromkeys(case.faults, unknown))), unknown


def swapped(text: str, header: str) -> Iterator[str]:
    """Yield a text in which two columns of the table below a header are swapped."""
    lines = text.splitlines(keepends=True)
    at = next(number for number, line in enumerate(lines) if line.lstrip().startswith(header))
    starts = [match.start() for match in re.finditer(r"(?<!\S)\S", lines[at])]
    for one, two, three in zip(starts, starts[1:], [*starts[2:], 1000], strict=False):
        told = list(lines)
        for number in range(at, len(lines)):
            line = lines[number].rstrip("\n")
            if not line.strip():
                break
            if len(set(line.strip())) > 1:
                told[number] = f"{line[:one]}{line[two:three]} {line[one:two]}{line[three:]}\n"
        yield "".join(told)


@pytest.mark.parametrize(
    ("name", "header"),
    [
        *(("storcli", header) for header in ("DG Arr", "DG/VD", "EID:Slt")),
        *(("cli64 rsf", "#"), ("cli64 vsf", "#"), ("cli64 disk", "#")),
        *(("tw_cli", header) for header in ("Unit ", "Port ")),
    ],
)
def test_columns_in_another_order_hide_no_fault(name: str, header: str) -> None:
    """Each two neighbours of each table: parsed by their heading, or refused."""
    case = CASES[name]
    for text in swapped(case.text, header):
        assert said(case, text), text


@pytest.mark.parametrize(
    ("name", "before", "after", "reason"),
    [
        ("storcli", "Physical Drives = 2", "Physical Drives = 3", "expected 3 disks, got 2"),
        ("storcli", "Virtual Drives = 1", "Virtual Drives = 2", "expected 2 virtual drives"),
        ("arcconf", ": 1/0/1", ": 3/1/2", "1 failed and 2 degraded logical devices"),
        ("tw_cli", "Drives = 2", "Drives = 4", "expected 4 disks, got 2"),
        ("tw_cli", "Number of Units = 1", "Number of Units = 2", "expected 2 units, got 1"),
        ("tw_cli", "Optimal Units = 1", "Optimal Units = 2", "expected 2 units that are not"),
        ("cciss_vol_status", "drives: 2", "drives: 3", "expected 3 disks, got 2"),
        ("mpt-status", "2 phy", "3 phy", "expected 3 disks, got 2"),
    ],
)
def test_counts_that_contradict_what_is_listed_are_reported(
    name: str, before: str, after: str, reason: str
) -> None:
    """A program that counts more than it lists is incomplete."""
    case = CASES[name]
    assert before in case.text
    assert reason in said(case, case.text.replace(before, after))
    assert reason not in said(case, case.text)


def test_a_3ware_that_is_not_listed_beside_another_is_a_problem() -> None:
    """Two hosts of the driver, one in the list: it may be truncated, or the other card is lost."""
    files = {f"{DRIVERS}/3w-9xxx/0000:0{n}:00.0/host{n}": None for n in (1, 2)}
    found = polled(THREEWARE, files, _TW_CLI)
    assert [each.name for each in found.controllers] == ["c0"]
    assert {problem.reason for problem in found.problems} == {
        "'tw_cli show': expected 2 controllers (host1, host2), got 1"
    }
