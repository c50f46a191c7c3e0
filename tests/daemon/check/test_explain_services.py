"""'iowarden explain' of lines of smartd, multipathd, mdadm, ZED and others, and of mails."""

from __future__ import annotations

import pytest
from support.explained import read

SMARTD = "Mar 11 06:12:44 fs1 smartd[911]: Device: /dev/sdc [SAT], {}"
MULTIPATHD = "Mar 11 06:12:44 fs1 multipathd[812]: {}"
MDADM = "Mar 11 06:12:44 fs1 mdadm[733]: {}"
FINISHED = "RebuildFinished event detected on md device /dev/md0"
ZED = "Mar 11 06:12:44 fs1 zed[2514]: eid=16 class={}"
PREFIXES = (
    "Mar 11 06:12:44 fs1 {}[911]: ",
    "2026-03-11T06:12:44.123456+01:00 fs1 {}[911]: ",
    "Mar 11 06:12:44 fs1 {}: ",
    "{}[911]: ",
)

SMARTD_FAULTS = {
    "24 Currently unreadable (pending) sectors (changed +8)": ("warning", "DiskPendingSectors"),
    "1 Total unreadable (pending) sectors": ("warning", "DiskPendingSectors"),
    "3 Offline uncorrectable sectors": ("warning", "DiskUncorrectableSectors"),
    "FAILED SMART self-check. BACK UP DATA NOW!": ("critical", "DiskFailing"),
    "SMART Failure: FAILURE PREDICTION THRESHOLD EXCEEDED": ("critical", "DiskFailing"),
    "Self-Test Log error count increased from 0 to 1": ("critical", "DiskSelfTestFailed"),
    "new Self-Test Log error at hour timestamp 31002": ("critical", "DiskSelfTestFailed"),
    "previous self-test completed with error (read test element)": (
        "critical",
        "DiskSelfTestFailed",
    ),
    "ATA error count increased from 0 to 5": ("warning", "DiskErrorLogIncreased"),
    "Failed SMART usage Attribute: 184 End-to-End_Error.": ("critical", "DiskAttributeFailed"),
    "Failed SMART usage Attribute: 9 Power_On_Hours.": ("warning", "DiskAttributeFailed"),
    "Temperature 61 Celsius reached critical limit of 60 Celsius (Min/Max 20/61!)": (
        "warning",
        "DiskTemperatureHigh",
    ),
    "open() of ATA device failed: No such device": ("critical", "DiskNotReadable"),
    "unable to open ATA device": ("warning", "DiskNotReadable"),
    "failed to read SMART Attribute Data": ("warning", "DiskSmartNotRead"),
    "Critical Warning (0x04): Reliability": ("critical", "NvmeCriticalWarning"),
    "Critical Warning (0x02): Temperature": ("warning", "NvmeCriticalWarning"),
    "SMART/Health value: Media and Data Integrity Errors changed from 0 to 3": (
        "warning",
        "NvmeMediaErrorsIncreased",
    ),
    "SMART Prefailure Attribute: 5 Reallocated_Sector_Ct changed from 100 to 99": (
        "notice",
        "DiskReallocatedSectorsIncreased",
    ),
    "SMART Usage Attribute: 187 Reported_Uncorrect changed from 100 [Raw 0] to 97 [Raw 3]": (
        "warning",
        "DiskErrorsIncreased",
    ),
}
SMARTD_HARMLESS = (
    "opened",
    'is SMART capable. Adding to "monitor" list.',
    "not found in smartd database 7.3/5319.",
    "can't monitor Offline_Uncorrectable count - no Attribute 198",
    "SMART Usage Attribute: 194 Temperature_Celsius changed from 118 to 117",
    "SMART Prefailure Attribute: 1 Raw_Read_Error_Rate changed from 83 to 79",
    "SMART Usage Attribute: 199 UDMA_CRC_Error_Count changed from 199 to 200",
    "previous self-test completed without error",
    "is in STANDBY mode, suspending checks",
    "self-test in progress, 40% remaining",
    "starting scheduled Short Self-Test.",
    "state read from /var/lib/smartmontools/smartd.ACME.ata.state",
    "number of Error Log entries increased from 12 to 13",
    "No more Currently unreadable (pending) sectors, warning condition reset after 2 emails",
)


@pytest.mark.parametrize("text", SMARTD_FAULTS)
@pytest.mark.parametrize("prefix", PREFIXES)
def test_what_smartd_reports_of_a_disk(prefix: str, text: str) -> None:
    """By all prefixes of a log: the fault, its severity, and the disk."""
    explained = read(f"{prefix.format('smartd')}Device: /dev/sdc [SAT], {text}\n")
    (alert,) = explained.alerts
    assert (alert.severity, alert.alert) == SMARTD_FAULTS[text]
    assert alert.object == "sdc"
    assert (explained.status, explained.unparsed) == (1, ())


@pytest.mark.parametrize("text", SMARTD_HARMLESS)
def test_what_smartd_logs_of_a_healthy_disk(text: str) -> None:
    """A start of smartd, temperatures, a disk that sleeps: nothing wrong, nothing unparsed."""
    explained = read(SMARTD.format(text))
    assert (explained.status, explained.unparsed) == (0, ())


@pytest.mark.parametrize(
    ("name", "fault", "end"),
    [
        ("8 Currently unreadable (pending) sectors", "DiskPendingSectors",
         "No more Currently unreadable (pending) sectors, warning condition reset"),
        ("unable to open ATA device", "DiskNotReadable", "open of ATA device worked again"),
        ("Self-Test Log error count increased from 0 to 1", "DiskSelfTestFailed",
         "Self-Test Log error count decreased from 1 to 0"),
        ("Temperature 60 Celsius reached critical limit of 60 Celsius (Min/Max 20/60)",
         "DiskTemperatureHigh", "Temperature 50 Celsius dropped below 55 Celsius"),
    ],
)  # fmt: skip
def test_what_smartd_reports_as_over_is_information(name: str, fault: str, end: str) -> None:
    """Only in the order of time, which in a log with the newest line first is from its end."""
    begin, later = SMARTD.format(name), SMARTD.format(end).replace("06:12:44", "06:42:44")
    for log in (f"{begin}\n{later}\n", f"{later}\n{begin}\n"):
        explained = read(log)
        assert [(each.severity, each.alert) for each in explained.alerts] == [("info", fault)]
        assert explained.status == 0
    again = begin.replace("06:12:44", "07:12:44")
    assert read(f"{begin}\n{later}\n{again}\n").status == 1


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("Drive: DEVICESCAN, implied '-a' Directive on line 21 of file /etc/smartd.conf", 0),
        ("Sending warning via /usr/share/smartmontools/smartd-runner to root ...", 0),
        ("Warning via /usr/share/smartmontools/smartd-runner to root: successful", 0),
        ("Warning via /usr/bin/mail to root: failed (32-bit/8-bit exit status: 256/1)", 1),
        ("Configuration file /etc/smartd.conf has fatal syntax errors.", 1),
        ("File /etc/smartd.conf line 3 (drive /dev/sda): unknown Directive: -q", 1),
        ("Monitoring 1 ATA/SATA, 0 SCSI/SAS and 0 NVMe devices", 0),
    ],
)
def test_what_smartd_logs_of_itself(text: str, status: int) -> None:
    """Its start is no fault; that it cannot send, or reads no configuration, is a notice."""
    explained = read(f"Oct  3 02:11:09 nas smartd[701]: {text}\n")
    assert (explained.status, explained.unparsed) == (status, ())


def test_dmeventd_logs_as_lvm() -> None:
    """Its plug-ins log under the name of the library's command."""
    line = "Feb  1 10:00:00 h lvm[300]: WARNING: Device #1 of raid1 array, vg-root, has failed."
    assert [each.alert for each in read(line).alerts] == ["LvmRaidDeviceFailed"]


def test_another_disk_is_not_ended() -> None:
    """Two disks with pending sectors, one of which has none any more."""
    lines = [SMARTD.format("8 Currently unreadable (pending) sectors")]
    lines += [lines[0].replace("sdc", "sdd")]
    lines += [SMARTD.format("No more Currently unreadable (pending) sectors, warning ...")]
    explained = read("\n".join(lines))
    assert [(each.severity, each.object) for each in explained.alerts] == [
        ("warning", "sdd"),
        ("info", "sdc"),
    ]


def test_the_mail_of_smartd_is_read() -> None:
    """The line that it logs, within the words around it."""
    explained = read(
        "This message was generated by the smartd daemon running on:\n\n   host name:  nas\n\n"
        "The following warning/error was logged by the smartd daemon:\n\n"
        "Device: /dev/sdb [SAT], 1 Currently unreadable (pending) sectors\n\n"
        "Device info:\nWDC WD40EFRX, S/N:WD-WCC4E1, FW:82.00A82, 4.00 TB\n"
    )
    assert [(each.alert, each.object) for each in explained.alerts] == [
        ("DiskPendingSectors", "sdb")
    ]


MULTIPATHD_FAULTS = {
    "mpatha: remaining active paths: 0": ("critical", "MultipathNoPath", "mpatha"),
    "mpatha: Entering recovery mode: max_retries=60": ("critical", "MultipathNoPath", "mpatha"),
    "mpatha: Disable queueing": ("critical", "MultipathNoPath", "mpatha"),
    "mpatha: sdd - tur checker reports path is down": (
        "warning",
        "MultipathPathsFailed",
        "mpatha",
    ),
    "mpatha: sdd - path offline": ("warning", "MultipathPathsFailed", "mpatha"),
    "mpatha: sdd - directio checker timed out": ("warning", "MultipathPathsFailed", "mpatha"),
    "sdd: mark as failed": ("warning", "MultipathPathsFailed", "sdd"),
    "checker failed path 8:48 in map mpatha": ("warning", "MultipathPathsFailed", "mpatha"),
}


@pytest.mark.parametrize("text", MULTIPATHD_FAULTS)
def test_what_multipathd_reports(text: str) -> None:
    """A path that failed is a warning, the last one is critical."""
    explained = read(MULTIPATHD.format(text))
    (alert,) = explained.alerts
    assert (alert.severity, alert.alert, alert.object) == MULTIPATHD_FAULTS[text]


def test_a_map_whose_paths_are_back_is_well() -> None:
    """A switch was restarted: by its number 8:48 the path is sdd."""
    messages = [
        "checker failed path 8:48 in map mpatha",
        "sdd: mark as failed",
        "mpatha: remaining active paths: 0",
        "mpatha: Entering recovery mode: max_retries=60",
        "mpatha: sdd - tur checker reports path is up",
        "8:48: reinstated",
        "mpatha: queue_if_no_path enabled",
        "mpatha: Recovered to normal mode",
        "mpatha: remaining active paths: 1",
    ]
    lines = [MULTIPATHD.format(each) for each in messages]
    assert read("\n".join(lines)).status == 0
    lost = read("\n".join(lines[:4]))
    assert {(each.severity, each.alert) for each in lost.alerts} == {
        ("critical", "MultipathNoPath"),
        ("warning", "MultipathPathsFailed"),
    }
    assert {each.object for each in lost.alerts} == {"mpatha"}


@pytest.mark.parametrize(("count", "shown"), [(1, "one path is left"), (3, "3 paths are left")])
def test_the_paths_that_are_left_name_the_map_of_the_one_that_failed(
    count: int, shown: str
) -> None:
    """'sdg: mark as failed' names no map; the line below it does, and says how bad it is."""
    failed = [MULTIPATHD.format("sdg: mark as failed")]
    failed += [MULTIPATHD.format(f"mpathb: remaining active paths: {count}")]
    (alert,) = read("\n".join(failed)).alerts
    assert (alert.severity, alert.object) == ("warning", "mpathb")
    assert alert.text == f"mpathb: path sdg failed; {shown}"
    back = [MULTIPATHD.format("sdg: reinstated")]
    back += [MULTIPATHD.format(f"mpathb: remaining active paths: {count + 1}")]
    assert read("\n".join([*failed, *back])).status == 0


def test_paths_of_two_maps_are_not_confused() -> None:
    """A switch fails: each path is followed by the count of its own map."""
    lost = ("sdg: mark as failed", "mpathb: remaining active paths: 1")
    lost += ("sdh: mark as failed", "mpathc: remaining active paths: 1")
    told = read("\n".join(map(MULTIPATHD.format, lost))).alerts
    assert [each.text for each in told] == [
        "mpathb: path sdg failed; one path is left",
        "mpathc: path sdh failed; one path is left",
    ]


def test_a_map_that_is_set_up_has_no_fault() -> None:
    """The lines of each boot."""
    messages = [
        "--------start up--------",
        "read /etc/multipath.conf",
        "path checkers start up",
        "sdd: add path (uevent)",
        "mpatha: load table [0 209715200 multipath 1 queue_if_no_path 1 alua 1 1 8:48 1]",
        "sdd [8:48]: path added to devmap mpatha",
    ]
    explained = read("\n".join(MULTIPATHD.format(each) for each in messages))
    assert (explained.status, explained.unparsed) == (0, ())


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("Fail event detected on md device /dev/md0, component device /dev/sdb1", "critical"),
        ("DegradedArray event detected on md device /dev/md0", "critical"),
        ("FailSpare event detected on md device /dev/md0, component device /dev/sdc1", "warning"),
        ("DeviceDisappeared event detected on md device /dev/md/0", "critical"),
        ("SparesMissing event detected on md device /dev/md0", "notice"),
        (f"{FINISHED}, component device  mismatches found: 128 (on raid level 1)", "notice"),
        (FINISHED, None),
        ("RebuildStarted event detected on md device /dev/md0", "info"),
        ("Rebuild40 event detected on md device /dev/md0", None),
        ("NewArray event detected on md device /dev/md0", None),
        ("DeviceDisappeared event detected on md device /dev/md1, component device  Wrong-Level",
         None),
        ("DeviceDisappeared event detected on md device /dev/md1: Wrong-Level", None),
    ],
)  # fmt: skip
def test_what_mdadm_reports(text: str, severity: str | None) -> None:
    """Every event of mdadm --monitor, as a line of a log and as it was printed."""
    for line in (MDADM.format(text), f"mdadm: {text}"):
        explained = read(line)
        assert [each.severity for each in explained.alerts] == ([severity] if severity else [])
        assert explained.unparsed == ()


def test_an_array_that_was_rebuilt_is_well_only_with_all_members() -> None:
    """Two members failed, one spare became active."""
    fail = "Fail event detected on md device /dev/md0, component device /dev/{}"
    active = "SpareActive event detected on md device /dev/md0, component device /dev/sdf1"
    lines = [fail.format("sdb1"), "RebuildStarted event detected on md device /dev/md0", active]
    assert read("\n".join(MDADM.format(each) for each in lines)).status == 0
    lines.insert(1, fail.format("sdc1"))
    assert read("\n".join(MDADM.format(each) for each in lines)).status == 1


def test_the_mail_of_mdadm_is_read_with_the_mdstat_in_it() -> None:
    """Both say that the array is degraded."""
    explained = read(
        "This is an automatically generated mail message from mdadm\nrunning on nas\n\n"
        "A DegradedArray event had been detected on md device /dev/md0.\n\n"
        "Faithfully yours, etc.\n\n"
        "P.S. The /proc/mdstat file currently contains the following:\n\n"
        "Personalities : [raid1]\nmd0 : active raid1 sda1[0]\n"
        "      1953381376 blocks super 1.2 [2/1] [U_]\n\nunused devices: <none>\n"
    )
    assert explained.kind == "services, mdstat"
    assert {each.alert for each in explained.alerts} == {"MdDegraded"}
    assert explained.status == 1


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("statechange pool='tank' vdev=sdb1 vdev_state=FAULTED", "warning"),
        ("statechange pool='tank' vdev=sdb1 vdev_state=REMOVED", "warning"),
        ("statechange pool='tank' vdev=sdb1 vdev_state=OFFLINE", "notice"),
        ("io pool='tank' vdev=sdb1 size=4096 offset=270336 priority=0 err=5 flags=0x180880",
         "warning"),
        ("checksum pool='tank' vdev=sdb1 algorithm=fletcher4 size=131072 offset=1 bookmark=1:2:0:4",
         "warning"),
        ("data pool='tank' priority=4 err=52 flags=0x8081 bookmark=76:1099:0:7", "critical"),
        ("io_failure pool='tank'", "critical"),
        ("vdev.no_replicas pool='tank'", "critical"),
        ("deadman pool='tank' vdev=sdb1 size=4096", "critical"),
        ("delay pool='tank' vdev=sdb1 size=4096 delay=38233ms", "notice"),
        ("statechange pool='tank' vdev=sdb1 vdev_state=ONLINE", None),
        ("scrub_finish pool='tank'", None),
        ("config_sync pool='tank'", None),
        ("history_event pool='tank'", None),
        ("pool_import pool='tank'", None),
    ],
)  # fmt: skip
def test_what_zed_reports(text: str, severity: str | None) -> None:
    """Every class of events that is about a fault, and some of each day."""
    explained = read(ZED.format(text))
    assert [each.severity for each in explained.alerts] == ([severity] if severity else [])
    assert all(each.object == "tank" for each in explained.alerts)


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("Timed out waiting for device dev-disk-by\\x2duuid-2eea.device - /dev/disk/by-uuid/2eea.",
         "critical"),
        ("Timed out waiting for device /dev/disk/by-uuid/2eea.", "critical"),
        ("Failed to mount srv.mount - /srv.", "critical"),
        ("Dependency failed for /srv.", "critical"),
        ("Failed to start File System Check on /dev/sdb1.", "critical"),
        ("Failed to activate swap /dev/sdb2.", "warning"),
    ],
)  # fmt: skip
def test_what_systemd_reports_of_storage(text: str, severity: str) -> None:
    """In the journal, and on the console of a host that does not boot."""
    for line in (f"Mar 11 06:12:44 fs1 systemd[1]: {text}", f"[FAILED] {text}"):
        assert [each.severity for each in read(line).alerts] == [severity]


def test_a_line_with_a_word_of_trouble_that_is_not_known_is_not_nothing_wrong() -> None:
    """A later version of a service."""
    for line in (SMARTD.format("failed to obtain the moon"), MULTIPATHD.format("sdd failed oddly")):
        explained = read(line)
        assert explained.status == 2
        assert len(explained.unparsed) == 1


def test_lines_of_the_kernel_between_those_of_services_are_read_as_such() -> None:
    """A journal of an hour: the disk's error of the kernel, and what smartd reports of it."""
    explained = read(
        "Mar 11 06:12:40 fs1 kernel: [ 100.000001] critical medium error, dev sdc, sector 2048\n"
        f"{SMARTD.format('24 Currently unreadable (pending) sectors')}\n"
        "Mar 11 06:12:45 fs1 sshd[77]: Failed password for root\n"
        "Mar 11 06:12:46 fs1 kernel: [ 106.000001] critical medium error, dev sdc, sector 2056\n"
    )
    assert explained.kind == "kernel, services"
    assert [each.line for each in explained.events] == [1, 4]
    assert "DiskPendingSectors" in {each.alert for each in explained.alerts}


def test_the_journal_as_json_is_read() -> None:
    """'journalctl -u smartd -o json'."""
    explained = read(
        '{"SYSLOG_IDENTIFIER":"smartd","PRIORITY":"2","MESSAGE":"Device: /dev/sda [SAT], 8'
        ' Currently unreadable (pending) sectors"}\n'
    )
    assert [(each.alert, each.object) for each in explained.alerts] == [
        ("DiskPendingSectors", "sda")
    ]


OF_KERNEL = (
    "device-mapper: multipath: Failing path 8:64.",  # dm-mpath.c 2.6.18 to 5.15
    "device-mapper: multipath: 253:3: Failing path 8:64.",
    "device-mapper: multipath: adding disabled device 8:64",
    "device-mapper: multipath: error getting device",
    "md/multipath:md0: only one IO path left and IO error.",
)


@pytest.mark.parametrize("text", OF_KERNEL)
@pytest.mark.parametrize("prefix", ["Jun 11 22:11:11 ora1 kernel: ", "[Tue Jun 11 22:11:11 2013] "])
def test_a_part_of_the_kernel_that_is_named_as_a_service_is_none(prefix: str, text: str) -> None:
    """Beside a line of multipathd the kernel's line is the same event as alone."""
    alone = read(f"{prefix}{text}\n")
    beside = read(
        f"{prefix}{text}\nJun 11 22:11:12 ora1 multipathd: mpathb: remaining active paths: 2\n"
    )
    assert [each.text for each in beside.unparsed] == [each.text for each in alone.unparsed]
    assert {each.alert for each in alone.alerts} <= {each.alert for each in beside.alerts}


@pytest.mark.parametrize("program", ["iscsid: ", "iscsid[1402]: ", "iscsid[1402]: iscsid: "])
def test_a_service_that_prints_its_name_twice_says_the_same(program: str) -> None:
    """A connection failed, and came back: with or without the name in the message itself."""
    head = f"Apr 02 09:41:11 esx1 {program}"
    failed = (
        f"{head}Kernel reported iSCSI connection 1:0 error (1022 - ISCSI_ERR_NOP_TIMEDOUT: A NOP"
        " has timed out) state (3)\n"
    )
    told = read(failed)
    assert [(a.severity, a.alert) for a in told.alerts] == [("warning", "IscsiConnectionError")]
    assert told.unparsed == ()
    over = read(f"{failed}{head}connection1:0 is operational after recovery (1 attempts)\n")
    assert [(a.severity, a.alert) for a in over.alerts] == [("info", "IscsiConnectionError")]
