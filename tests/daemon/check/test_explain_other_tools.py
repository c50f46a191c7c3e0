"""'iowarden explain' of further forms of what users paste, and of programs that are not read.

Texts by the grammar of multipath-tools 0.9, nvme-cli 1.16 and 2.8, systemd 254, util-linux 2.39 and
OpenZFS 2.3; the machines are made up.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support.explained import read

from iowarden.collectors.model import ParseError

if TYPE_CHECKING:
    from collections.abc import Callable

# --- multipathd

PATHS = """\
hcil    dev dev_t pri dm_st  chk_st dev_st  next_check
2:0:0:1 sdb 8:16  50  active ready  running XXX....... 6/20
3:0:0:1 sdc 8:32  10  {states} X......... 1/20
0:0:0:0 sda 8:0   1   undef  undef  unknown orphan
"""


@pytest.mark.parametrize(
    ("states", "status"),
    [
        ("active ready  running", 0),
        ("active ghost  running", 0),
        ("active i/o pending running", 0),
        ("failed faulty running", 1),
        ("failed i/o timeout running", 1),
        ("active ready  offline", 1),
    ],
)
def test_each_path_in_the_table_of_multipathd_is_judged(states: str, status: int) -> None:
    """A disk that belongs to no map is none of them."""
    explained = read(PATHS.format(states=states))
    assert explained.status == status
    assert [each.name for each in explained.objects] == ["sdb", "sdc"]
    if status:
        (alert,) = explained.alerts
        assert alert.severity == "warning"
        assert "1 of 2 paths work; failed: sdc" in alert.text


def test_a_table_in_which_no_path_works_is_critical() -> None:
    """No map can have one that does."""
    text = PATHS.format(states="failed faulty running").replace("active ready ", "failed faulty")
    assert [each.severity for each in read(text).alerts] == ["critical"]


def test_the_states_of_maps_are_read_with_the_interactive_prompt() -> None:
    """A map with no path is critical; one that device-mapper suspended has its I/O waiting."""
    text = (
        "multipathd> show maps status\n"
        "name   failback  queueing paths dm-st   write_prot\n"
        "mpatha immediate -        4     active  rw\n"
        "mpathb immediate 12 chk   0     active  rw\n"
        "mpathc -         -        2     suspend rw\n"
    )
    found = {each.object: each.severity for each in read(text).alerts}
    assert found == {"mpathb": "critical", "mpathc": "warning"}
    assert read("\n".join(text.splitlines()[:3])).status == 0
    assert read(text.replace("12 chk   0 ", "lots what ")).unparsed


# --- nvme list-subsys

SUBSYSTEM = """\
nvme-subsys0 - NQN=nqn.1992-08.com.example:sn.1:subsystem.a
               hostnqn=nqn.2014-08.org.nvmexpress:uuid:1
               iopolicy=numa
\\
 +- nvme0 tcp traddr=192.0.2.10,trsvcid=4420,src_addr=192.0.2.1 live{first}
 +- nvme1 tcp traddr=192.0.2.11,trsvcid=4420 {second}
"""


@pytest.mark.parametrize(
    ("first", "second", "severity"),
    [
        ("", "live", ""),
        (" optimized", "live inaccessible", ""),  # the standby controller of a storage system
        (" optimized", "live non-optimized", ""),
        (" optimized", "connecting", "warning"),
        (" optimized", "deleting (no IO)", "warning"),
        (" optimized", "live persistent-loss", "warning"),
        (" inaccessible", "connecting optimized", "critical"),
    ],
)
def test_the_paths_of_an_nvme_subsystem_are_judged_by_both_states(
    first: str, second: str, severity: str
) -> None:
    """I/O goes over a path that is live and whose namespaces are accessible there."""
    explained = read(SUBSYSTEM.format(first=first, second=second))
    assert [each.severity for each in explained.alerts] == ([severity] if severity else [])
    assert explained.status == bool(severity)


def test_a_state_of_a_path_that_is_not_known_is_not_well() -> None:
    """Neither is a subsystem without a path."""
    text = SUBSYSTEM.format(first="", second="zombie")
    assert (read(text).status, read(text.split("\\")[0]).status) == (2, 2)


@pytest.mark.parametrize("state", ["live", "connecting"])
def test_both_forms_of_json_of_subsystems_are_read(state: str) -> None:
    """Before 2.0 the paths are in an object of their own, and no host is around it."""
    address = {"Transport": "rdma", "Address": "traddr=192.0.2.10 trsvcid=4420"}
    paths = [{"Name": "nvme0", **address, "State": state}]
    named = {"Name": "nvme-subsys3", "NQN": "nqn.1992-08.com.example:sn.1"}
    for answer in (
        {"Subsystems": [named, {"Paths": paths}]},
        [
            {
                "HostNQN": "nqn.2014-08.org.nvmexpress:uuid:1",
                "Subsystems": [{**named, "Paths": paths}],
            }
        ],
    ):
        explained = read(json.dumps(answer, indent=2))
        assert explained.status == (state != "live")
        assert {each.name for each in explained.objects} == {"nvme-subsys3", "nvme0"}
    assert read(json.dumps({"Subsystems": [named]})).status == 2


# --- forms of the journal

MEDIUM = (
    "critical medium error, dev sdc, sector 2048 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2"
)
QUIET = "sd 2:0:0:0: [sdc] Attached SCSI disk"


def _pretty(message: str) -> str:
    entry = {"_TRANSPORT": "kernel", "PRIORITY": "3", "SYSLOG_IDENTIFIER": "kernel"}
    return json.dumps({**entry, "MESSAGE": message}, indent="\t", separators=(",", " : ")) + "\n"


def _records(message: str) -> str:
    record = {"pri": 3, "time": 12.5, "msg": message}
    return json.dumps({"dmesg": [record, {**record, "msg": "usb 1-1: New USB device"}]}, indent=3)


def _verbose(message: str) -> str:
    return (
        "Tue 2023-03-07 03:12:44.123456 CET [s=0a1b;i=1;b=2c;m=1;t=1;x=1]\n"
        "    _TRANSPORT=kernel\n    PRIORITY=3\n    SYSLOG_IDENTIFIER=kernel\n"
        f"    MESSAGE={message}\n"
    )


def _export(message: str) -> str:
    return (
        "__CURSOR=s=0a1b;i=1;b=2c;m=1;t=1;x=1\n__REALTIME_TIMESTAMP=1678155164000000\n"
        f"PRIORITY=3\nSYSLOG_IDENTIFIER=kernel\nMESSAGE={message}\n\n"
    )


@pytest.mark.parametrize("form", [_pretty, _records, _verbose, _export])
def test_an_entry_with_a_line_for_each_field_is_one_event(form: Callable[[str], str]) -> None:
    """Of the class that its line has in dmesg; the disk's neighbour in the log is no event."""
    explained = read(form(MEDIUM))
    assert [(each.kind, each.device) for each in explained.events] == [
        ("block_medium_error", "sdc")
    ]
    assert (explained.status, read(form(QUIET)).status) == (1, 0)


def test_lines_of_services_in_such_a_form_are_theirs() -> None:
    """smartd's own messages, whose program is another field."""
    message = "Device: /dev/sdb [SAT], 8 Currently unreadable (pending) sectors"
    explained = read(_pretty(message).replace("kernel", "smartd"))
    assert [each.object for each in explained.alerts] == ["sdb"]


def test_a_cut_entry_is_reported() -> None:
    """The whole one above it is read; what is cut may be anything."""
    assert read(_pretty(QUIET) + _pretty(QUIET).rpartition("}")[0]).status == 2


# --- zpool list -j, lvs, arcconf


@pytest.mark.parametrize(("state", "status"), [("ONLINE", 0), ("DEGRADED", 1), ("SUSPENDED", 1)])
def test_the_list_of_pools_as_json_is_judged_as_its_text(state: str, status: int) -> None:
    """OpenZFS 2.3; its 'status -j' has the devices too."""
    size = {key: {"value": "9.06T"} for key in ("size", "allocated", "free")}
    pool = {"name": "tank", "state": state, "properties": {**size, "capacity": {"value": "41%"}}}
    answer = {"output_version": {"command": "zpool list", "vers_major": 0}, "pools": {"tank": pool}}
    explained = read(json.dumps(answer))
    assert (explained.status, explained.objects[0].name) == (status, "tank")


LVS = """\
  LV   VG  Attr       LSize   Pool Origin Data%  Meta%
  data pve {attributes} 794.79g             {shares}
  root pve -wi-ao----  96.00g
"""


def test_a_thin_pool_that_is_not_active_is_not_judged() -> None:
    """How full it is and whether its metadata are sound is shown only while it is active."""
    explained = read(LVS.format(attributes="twi---tz--", shares=""))
    assert explained.status == 2
    assert "lvchange -ay pve/data" in explained.unparsed[0].reason
    assert [each.name for each in explained.objects] == ["pve/root"]
    assert read(LVS.format(attributes="twi-aotz--", shares="12.30  1.02")).status == 0


@pytest.mark.parametrize(
    ("attributes", "status"), [("-wi-d-----", 1), ("-wi-i-----", 1), ("-wi-XX--X-", 2)]
)
def test_states_of_a_volume_without_a_usable_table_are_not_well(
    attributes: str, status: int
) -> None:
    """Source: LVM2, man/lvs.8_end."""
    assert read(LVS.format(attributes=attributes, shares="")).status == status


def test_the_other_logs_of_arcconf_are_named() -> None:
    """A drive in the log of dead ones is a fault; of the others nothing is known."""
    head = 'Controllers found: 1\n<ControllerLog controllerID="0" type="{}" tableFull="false">\n'
    end = "</ControllerLog>\nCommand completed successfully.\n"
    dead = '<deadDriveEntry productID="ST3000" serialNumber="Z1" deadTime="1400000000" />\n'
    explained = read(head.format(1) + dead + end)
    assert (explained.status, explained.unparsed[0].fault) == (1, True)
    assert "1 drive failed" in explained.unparsed[0].reason
    explained = read(head.format(2) + "<event>degraded</event>\n" + end)
    assert (explained.status, "type 2 is not read" in explained.unparsed[0].reason) == (2, True)


# --- self-tests and attributes that were quoted

REPORT = """\
smartctl 7.3 2022-02-28 r5338 [x86_64-linux-6.1.0] (local build)
=== START OF INFORMATION SECTION ===
Device Model:     ACME D1
Serial Number:    S1
Rotation Rate:    7200 rpm
=== START OF READ SMART DATA SECTION ===
SMART overall-health self-assessment test result: PASSED
ID# ATTRIBUTE_NAME          FLAG     VALUE WORST THRESH TYPE      UPDATED  WHEN_FAILED RAW_VALUE
  9 Power_On_Hours          0x0032   075   075   000    Old_age   Always       -       22230
SMART Error Log Version: 1
No Errors Logged
"""
FAILED = "# 1  Extended offline    Completed: read failure       90%     22222         123456789\n"


def test_headings_below_the_attributes_end_them_without_a_blank_line() -> None:
    """A forum took the blank lines out: no row of the table is damaged."""
    assert read(REPORT).status == 0


@pytest.mark.parametrize("mark", ["", "> "])
def test_a_failed_self_test_that_is_quoted_above_the_report_is_of_its_drive(mark: str) -> None:
    """Of one drive; of two it is not known whose it is, and no disk is blamed by name."""
    explained = read(f"{mark}{FAILED}\n{REPORT}")
    assert [(each.alert, each.object) for each in explained.alerts] == [
        ("DiskSelfTestFailed", "disk S1")
    ]
    both = read(f"{mark}{FAILED}\n{REPORT}\n{REPORT.replace('S1', 'S2')}")
    assert both.status != 0
    assert not any(each.object in {"disk S1", "disk S2"} for each in both.alerts)


# --- programs that are not read

REFUSED = {
    "hdsentinel": "HDD Device  0: /dev/sda\nHDD Model ID : ACME\nHealth       : 12 %\n",
    "nvme list": '{\n  "Devices":[\n    {"DevicePath":"/dev/nvme0n1"}\n  ]\n}\n',
    "ceph": "ID  CLASS  WEIGHT   TYPE NAME  STATUS  REWEIGHT\n 1  hdd  3.6  osd.1  down  0\n",
    "sg_logs": "    ACME  ST4\nRead error counter page  [0x3]\n  Total uncorrected errors = 17\n",
    "sg_ses": "Slot00 [0,0]  Element type: Array device slot\n    status: Critical\n",
    "ledctl": "/dev/sda: failure\n/dev/sdb: normal\n",
    "omreport": "List of Batteries in the System\n\nStatus  : Critical\nState   : Failed\n",
    "multipathd show": "name   sysfs uuid\nmpatha dm-0  3600a0b80000f0000\n",
}


@pytest.mark.parametrize("program", REFUSED)
def test_a_program_that_is_not_read_is_named_with_what_to_paste_instead(program: str) -> None:
    """Never 'nothing wrong': each of these texts has a fault, or no state."""
    with pytest.raises(ParseError, match=rf"^'{program}'.*(?:smartctl -x|perccli|multipath -ll)"):
        read(REFUSED[program])
