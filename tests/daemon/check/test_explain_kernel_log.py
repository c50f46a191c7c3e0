"""'iowarden explain' of kernel logs: what its alerts are about, and the journal as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support.explained import read

if TYPE_CHECKING:
    from iowarden.daemon.check.explain import Explanation

CORRUPT = "EXT4-fs error (device sdb1): ext4_find_entry:1455: inode #2: comm ls: reading directory"


def named(explained: Explanation) -> list[tuple[str, str]]:
    """Return class and object of the alerts."""
    return [(each.alert, each.object) for each in explained.alerts]


@pytest.mark.parametrize(
    ("line", "alert", "place"),
    [
        ("thin: 253:4: reached low water mark for data device: sending event.", "dm_pool_low",
         "253:4"),
        ("thin: 253:4: switching pool to out-of-data-space (queue IO) mode", "dm_pool_full",
         "253:4"),
        ("space map metadata: 253:9: unable to allocate new metadata block", "dm_pool_full",
         "253:9"),
        ("verity: 254:0: data block 1234 is corrupted", "dm_checksum_error", "254:0"),
        ("integrity: 253:7: Checksum failed at sector 0x1f", "dm_checksum_error", "253:7"),
        ("multipath: 253:3: Failing path 8:48.", "dm_path_failed", "8:48"),
    ],
)  # fmt: skip
def test_a_map_that_a_line_names_by_its_number_is_the_object(
    line: str, alert: str, place: str
) -> None:
    """A pasted text has no map of names: the number is what an administrator can look up."""
    explained = read(f"[7711.101010] device-mapper: {line}\n")
    assert named(explained) == [(alert, f"{place} (block device)")]


@pytest.mark.parametrize(
    ("fault", "end"),
    [
        ("nfs: server nas01 not responding, still trying", "nfs: server nas01 OK"),
        ("device-mapper: multipath: 253:3: Failing path 8:48.",
         "device-mapper: multipath: 253:3: Reinstating path 8:48."),
        ("drbd r0 b: conn( Connected -> NetworkFailure )",
         "drbd r0 b: conn( Connecting -> Connected )"),
    ],
)  # fmt: skip
def test_what_a_later_line_ends_is_no_alert(fault: str, end: str) -> None:
    """It happened, and is over; as long as it is not, it is an alert, also of another object."""
    assert len(read(f"[10.000000] {fault}\n").alerts) == 1
    assert len(read(f"[10.000000] {end}\n[20.000000] {fault}\n").alerts) == 1
    other = end.replace("nas01", "nas02").replace("8:48", "8:64").replace("r0", "r1")
    assert len(read(f"[10.000000] {fault}\n[20.000000] {other}\n").alerts) == 1
    explained = read(f"[10.000000] {fault}\n[20.000000] {end}\n")
    assert (explained.alerts, explained.status) == ((), 0)


@pytest.mark.parametrize(
    "line",
    [
        "mpt3sas_cm0: removing handle(0x000f), sas_addr(0x5000c500a1b2c3d5)",
        "mpt3sas_cm0: removing handle(0x0021), wwid(0x5000c500a1b2c3d5)",
        ("mpi3mr0: mpi3mr_remove_tgtdev_from_host :Removing handle(0x0021),"
         " wwid(0x5000c500a1b2c3d5)"),
        ("end_device-8:0:14: mptsas: ioc0: removing sata device: fw_channel 0, fw_id 14, phy"
         " 14,sas_addr 0x5000c500a1b2c3d5"),
        "smartpqi 0000:5c:00.0: removed 5:0:3:0 5000c500a1b2c3d5 Direct-Access ATA MB4000GV AIO-",
        "smartpqi 0000:5c:00.0: removed 5:0:-:- 5000c500a1b2c3d5 Direct-Access ATA MB4000GV AIO-",
    ],
)  # fmt: skip
def test_the_address_of_a_disk_that_an_adapter_lost_is_told(line: str) -> None:
    """An administrator finds the bay by it."""
    (alert,) = read(f"[66122.101010] {line}\n").alerts
    assert "0x5000c500a1b2c3d5" in alert.text


def entry(message: object, **fields: object) -> str:
    """Return a line of 'journalctl --output=json'."""
    common = {"__CURSOR": "s=1", "__REALTIME_TIMESTAMP": "1709300000101010", "_TRANSPORT": "kernel",
              "PRIORITY": "3", "_SOURCE_MONOTONIC_TIMESTAMP": "9014000010",
              "_BOOT_ID": "6fc1e1d2a1b24c0f8d7b1e6a3f3d5a01"}  # fmt: skip
    return json.dumps({**common, "MESSAGE": message, **fields})


@pytest.mark.parametrize(
    "line",
    [
        entry(CORRUPT),
        entry(list(CORRUPT.encode())),
        entry(CORRUPT, PRIORITY=None),
        entry(CORRUPT, PRIORITY=["3", "2"]),
        entry(CORRUPT, PRIORITY="high", _SOURCE_MONOTONIC_TIMESTAMP="never"),
        "{ " + entry(CORRUPT)[1:],
        "\x1e" + entry(CORRUPT),
        json.dumps({"MESSAGE": CORRUPT}),
        json.dumps({"SYSLOG_IDENTIFIER": "kernel", "MESSAGE": CORRUPT}, separators=(",", ":")),
    ],
)
def test_a_journal_entry_as_json_is_the_line_that_it_holds(line: str) -> None:
    """As text it is critical: the format of journalctl does not change that."""
    explained = read(f"{entry('usb 1-1: new high-speed USB device number 4')}\n{line}\n")
    assert named(explained) == [("fs_error", "file system on sdb1")]
    assert explained.events[0].text == CORRUPT
    assert explained.events[0].line == 2


@pytest.mark.parametrize("line", [entry(CORRUPT)[:-30], entry(None), entry(CORRUPT) + "}"])
def test_a_journal_entry_that_cannot_be_read_is_told(line: str) -> None:
    """Cut by a pager, or too long for journalctl without '--all': its error may be in it."""
    explained = read(f"{entry(CORRUPT)}\n{line}\n")
    assert [each.line for each in explained.unparsed] == [2]


def test_what_a_program_wrote_to_the_journal_is_no_kernel_line() -> None:
    """A script that logs an old error; and a healthy log is recognized."""
    for writer in ({"_TRANSPORT": "stdout"}, {"_TRANSPORT": None, "SYSLOG_IDENTIFIER": "backup"}):
        explained = read(
            f"{entry('sd 0:0:0:0: [sda] Attached SCSI disk')}\n{entry(CORRUPT, **writer)}\n"
        )
        assert (explained.status, explained.events) == (0, ())


@pytest.mark.parametrize(
    ("fault", "end"),
    [
        ("ata6: link is slow to respond, please be patient (ready=0)",
         "ata6: SATA link up 6.0 Gbps (SStatus 133 SControl 300)"),
        ("libceph: mon2 (1)192.0.2.7:6789 session lost, hunting for new mon",
         "libceph: mon0 (1)192.0.2.5:6789 session established"),
    ],
)  # fmt: skip
def test_what_is_over_at_the_end_of_the_text_is_not_wrong(fault: str, end: str) -> None:
    """The last state counts for the summary and the exit status, and what is over is told."""
    over = read(f"[10.000000] {fault}\n[20.000000] {end}\n")
    assert (over.status, over.alerts) == (0, ())
    assert over.summary() == "explain: nothing wrong: 2 events, 1 of them over"
    assert read(f"[10.000000] {fault}\n").status == 1
    assert read(f"[10.000000] {fault}\n[20.000000] {end}\n[30.000000] {fault}\n").status == 1


REMOVAL = """\
sd 0:0:{0}:0: [{1}] Synchronizing SCSI cache
sd 0:0:{0}:0: [{1}] Synchronize Cache(10) failed: Result: hostbyte=DID_NO_CONNECT
mpt3sas_cm0: mpt3sas_transport_port_remove: removed: sas_addr(0x5000cca2530b4a{0}d)
mpt3sas_cm0: removing handle(0x000{0}), sas_addr(0x5000cca2530b4a{0}d)
mpt3sas_cm0: enclosure logical id(0x500304801f2a3c3f), slot({0})
"""


def test_a_disk_that_a_sas_adapter_lost_is_named_and_critical() -> None:
    """As a SATA disk that was lost; the adapter prints an address, the disk's driver its name."""
    explained = read(REMOVAL.format(5, "sdf") + REMOVAL.format(6, "sdg"), "kernel")
    lost = [each for each in explained.alerts if each.alert == "hba_disk_lost"]
    assert {(each.severity, each.object) for each in lost} == {
        ("critical", "sdf"),
        ("critical", "sdg"),
    }
    alone = read("mpt3sas_cm0: removing handle(0x000e), sas_addr(0x5000cca2530b4a1d)\n", "kernel")
    (alert,) = alone.alerts
    assert alert.severity == "critical"
    assert "0x5000cca2530b4a1d" in alert.text


def test_states_that_a_volume_had_one_after_another_are_an_alert_each() -> None:
    """Degraded, offline, and the cache pinned: the loss of the volume is not hidden by the last."""
    head = "[  312.552101] megaraid_sas 0000:03:00.0: 1934 (661427345s/0x0001/{}) - {}\n"
    texts = {
        "VD 00/0 is now DEGRADED": "CRIT",
        "VD 00/0 is now OFFLINE": "FATAL",
        "Controller cache pinned for missing or offline VD 00/0": "CRIT",
    }
    explained = read("".join(head.format(level, text) for text, level in texts.items()) * 2)
    assert {each.text.removesuffix(" (2 times)") for each in explained.alerts} == {*texts}
    assert all(each.text.endswith(" (2 times)") for each in explained.alerts)


@pytest.mark.parametrize(
    "head",
    [
        "10.5.0.2: kern:   alert: [2025-02-11T04:05:06.123456789Z]: ",  # talosctl dmesg
        "kern: error: [2025-02-11T04:05:06.123456789Z]: ",
        "2025-02-11 04:05:06 | warn | fluent-bit: ",
        "<node7> {app=syslog} ",
    ],
)
def test_the_kernels_words_are_found_behind_any_head(head: str) -> None:
    """What a log system puts before a line is its own; it must not make a fault 'no event'."""
    told = read(f"{head}XFS (sdq6): log I/O error -5\n", "kernel")
    assert named(told) == [("fs_error", "file system on sdq6")]
    assert read(f"{head}XFS (sdq6): Ending clean mount\n", "kernel").alerts == ()


def test_the_form_of_talosctl_is_recognized() -> None:
    """Its levels are words, and the line of the record's fields belongs to the one above."""
    head = "kern: warning: [2025-02-11T04:05:06.123456789Z]: "
    text = f"{head}sd 3:0:0:0: Device offlined - not ready after error recovery\n SUBSYSTEM=scsi\n"
    assert [each.kind for each in read(text).events] == ["scsi_offlined"]


MEMORY = (
    "[88.100000] EDAC MC1: 3 {kind} memory read error on CPU_SrcID#0_Chan#1_DIMM#0 (channel:1)\n"
)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (MEMORY.format(kind="CE"), 2),
        (MEMORY.format(kind="UE"), 1),
        ("[88.100000] mce: [Hardware Error]: Machine check events logged\n", 2),
        ("[88.100000] mce: [Hardware Error]: CPU 0: Machine Check: 0 Bank 5: 8c000040\n", 2),
        ("[88.100000] {1}[Hardware Error]: event severity: corrected\n", 2),
        ("[0.100000] mce: CPU supports 9 MCE banks\n", 0),
        ("[0.100000] EDAC MC: Ver: 3.0.0\n", 0),
        ("[0.100000] EDAC MC0: Giving out device to module skx_edac controller Skylake\n", 0),
    ],
)
def test_errors_of_memory_are_not_judged_and_not_called_nothing(text: str, status: int) -> None:
    """They are no events of storage; whoever pastes them reads where they are listed."""
    told = read(text * 2 + "[88.200000] sd 0:0:0:0: [sda] Attached SCSI disk\n")
    assert told.status == status
    reasons = [each.reason for each in told.unparsed]
    assert len(reasons) == (status > 0)
    assert all(reason.startswith("2 lines about errors of memory") for reason in reasons)


def test_details_of_an_exception_are_part_of_it() -> None:
    """libata adds registers; one of them names an error of the link in words."""
    head = "[10.0] ata5.00: exception Emask 0x10 SAct 0x1 SErr 0x280100 action 0x6 frozen\n"
    for detail in ("irq_stat 0x40000001", "edma_err_cause=00000020 pp_flags=3, SError=00180000"):
        assert read(f"{head}[10.0] ata5.00: {detail}\n").unparsed == ()
    told = read(f"{head}[10.0] ata5.00: irq_stat 0x08000000, interface fatal error\n")
    assert named(told) == [("ata_bus_error", "ata5 (ATA port)")]


def test_a_reset_by_uas_is_part_of_the_command_that_it_aborted() -> None:
    """The command names the disk; the reset names only the host of that disk."""
    lines = (
        "sd 4:0:0:0: [sdb] tag#5 uas_eh_abort_handler 0 uas-tag 6 inflight: CMD OUT",
        "scsi host4: uas_eh_device_reset_handler start",
        "scsi host4: uas_eh_device_reset_handler success",
    )
    told = read("".join(f"[7.0] {line}\n" for line in lines))
    assert [each.kind for each in told.events] == ["scsi_abort"]
    assert told.unparsed == ()


def test_a_directory_that_ext4_cannot_read() -> None:
    """Before Linux 3.19 the warning has no number of the error."""
    line = "EXT4-fs warning (device sdq1): __ext4_read_dirblock:902: error reading directory block"
    assert named(read(f"[9.0] {line} (ino 2, block 0)\n")) == [("fs_error", "file system on sdq1")]


@pytest.mark.parametrize(
    ("lines", "array"),
    [
        (
            "raid1: Disk failure on sdb1, disabling device. \n\tOperation continuing on {} devices",
            "sdb1",
        ),
        (
            (
                "raid1: Disk failure on sdb1, disabling device.\n"
                "raid1: Operation continuing on {} devices."
            ),
            "sdb1",
        ),
        (
            (
                "md/raid1:md0: Disk failure on sdb1, disabling device.\n"
                "md/raid1:md0: Operation continuing on {} devices."
            ),
            "md0",
        ),
        (
            (
                "multipath: IO failure on sdb1, disabling IO path.\n"
                "multipath: Operation continuing on {} IO paths."
            ),
            "sdb1",
        ),
    ],
)
def test_an_array_with_one_member_left_has_no_redundancy(lines: str, array: str) -> None:
    """As the kernels from 2.6.18 on print it; of copies two survive one more failure."""
    (worst, *_) = read(lines.format(1), "kernel").alerts
    assert (worst.severity, worst.object) == ("critical", array)
    assert "no redundancy left" in worst.text
    more = read(lines.format(2), "kernel").alerts
    assert [each.severity for each in more] == ["warning"]
    rebuilt = lines.format(1) + f"\nmd: {array if array == 'md0' else 'md0'}: recovery done."
    assert all("no redundancy" not in each.text for each in read(rebuilt, "kernel").alerts)


@pytest.mark.parametrize("members", ["", "md/{}:md1: Operation continuing on 3 devices.\n"])
@pytest.mark.parametrize("level", ["raid", "raid10"])
def test_an_array_that_lost_a_member_may_have_no_redundancy_left(level: str, members: str) -> None:
    """RAID 4, 5 and 6 print 'raid': of one member less only RAID 6 survives another failure."""
    lost = f"md/{level}:md1: Disk failure on sdc1, disabling device.\n{members.format(level)}"
    (worst, *_) = read(lost, "kernel").alerts
    assert (worst.severity, worst.alert, worst.object) == ("critical", "MdDegraded", "md1")
    assert "sdc1" in worst.text
    rebuilt = read(f"{lost}md: md1: recovery done.\n", "kernel").alerts
    assert [each.severity for each in rebuilt] == ["warning"]


def test_double_parity_survives_the_loss_of_one_member() -> None:
    """The level is in the line with which the array was started."""
    level = "md/raid:md1: raid level 6 active with 4 out of 4 devices, algorithm 2\n"
    lost = "md/raid:md1: Disk failure on sdc1, disabling device.\n"
    left = "md/raid:md1: Operation continuing on 3 devices.\n"
    assert [each.severity for each in read(level + lost + left, "kernel").alerts] == ["warning"]
    second = lost.replace("sdc1", "sdd1") + left.replace("3", "2")
    assert read(level + lost + left + second, "kernel").alerts[0].severity == "critical"


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: Xid (PCI:0000:01:00): 79, pid='<unknown>', GPU has fallen off the bus.",
        "amdgpu 0000:03:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=3",
        "i915 0000:00:02.0: [drm] *ERROR* GPU HANG: ecode 12:1:85dffffb",
        "igb 0000:02:00.0 eth0: igb: eth0 NIC Link is Down",
        "NETDEV WATCHDOG: eth0 (r8169): transmit queue 0 timed out",
        "iwlwifi 0000:04:00.0: Microcode SW error detected. Restarting 0x0.",
        "usb 1-4: device descriptor read/64, error -71",
        "snd_hda_intel 0000:00:1f.3: azx_get_response timeout, switching to polling mode",
        "oom-killer.service: Main process exited",
    ],
)
def test_a_log_of_drivers_that_are_not_of_storage_is_not_called_well(line: str) -> None:
    """Graphics, network, sound: nothing was judged, and the user learns what to paste."""
    for head in ("[81230.338211] ", "Nov  3 04:05:06 host01 kernel: "):
        told = read(f"{head}{line}\n{head}{line}\n")
        assert (told.status, told.alerts) == (2, ())
        assert "nothing was judged" in told.unparsed[0].reason
        disk = f"{head}sd 0:0:0:0: [sda] Attached SCSI disk\n"
        assert read(f"{head}{line}\n{disk}").status == 0


@pytest.mark.parametrize(
    "line",
    [
        "smartpqi 0000:3b:00.0: reset of scsi 0:1:2:0: FAILED",
        "hpsa 0000:03:00.0: scsi 0:1:2:0: reset logical  failed Direct-Access     HP       LOGICAL",
    ],
)
def test_the_failed_reset_of_a_logical_unit_is_no_dead_adapter(line: str) -> None:
    """smartpqi_init.c, pqi_device_reset; hpsa.c, hpsa_eh_device_reset_handler: of one device."""
    (event,) = read(f"[66122.101010] {line}\n").events
    assert (event.kind, event.device) == ("hba_error", "0:1:2:0")
    (dead,) = read("[1.0] smartpqi 0000:3b:00.0: controller is offline: status code 7\n").events
    assert dead.kind == "hba_dead"
