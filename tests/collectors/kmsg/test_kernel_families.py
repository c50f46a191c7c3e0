"""Lines of adapters, of storage over a network and of pools that were exempt, or only evidence.

Source: drivers/scsi (hpsa, smartpqi, mpi3mr, lpfc, qla2xxx, aacraid, libsas, mpt3sas),
drivers/usb/storage/uas.c, drivers/nvme/host (core.c, multipath.c), drivers/pci/pcie/aer.c,
fs/btrfs/volumes.c, net/ceph, fs/ceph/mds_client.c, drivers/block/rbd.c; OpenZFS, module/zfs/zio.c.
"""

from __future__ import annotations

import pytest

from iowarden.collectors.kmsg import kernel_classifier, kernel_events, kernel_line
from iowarden.daemon.config.rule_files import load_events
from iowarden.rules.severity import Severity

BTRFS = "BTRFS {level} (device sdb): devid 2 uuid 3b5d2e1c-1111-2222-3333-444455556666 is missing"
CRITICAL, WARNING, NOTICE = Severity.CRITICAL, Severity.WARNING, Severity.NOTICE
FAULTS = (
    ("hpsa 0000:03:00.0: cp 00f1 has status 0x2 Sense: 0x3, ASC: 0x11, ASCQ: 0x0", WARNING,
     "0000:03:00.0"),
    ("smartpqi 0000:5e:00.0: no heartbeat detected - last heartbeat count: 1234", CRITICAL,
     "0000:5e:00.0"),
    ("mpi3mr0: fault code 0x0000f002 Additional code (0x0:0x0:0x0)", CRITICAL, "mpi3mr0"),
    ("mpi3mr0: task management request timed out", WARNING, "mpi3mr0"),
    ("lpfc 0000:04:00.0: 0:0457 Adapter Hardware Error Data: x20000000 x0 x0", CRITICAL,
     "0000:04:00.0"),
    ("lpfc 0000:04:00.0: 0:3155 Adapter failed to come online", CRITICAL, "0000:04:00.0"),
    ("lpfc 0000:04:00.0: 0:(0):9024 FCP command x28 failed: x3 SNS x0 x0 Data: x2 x0", WARNING,
     "0000:04:00.0"),
    ("qla2xxx [0000:05:00.0]-5003:1: ISP System Error - mbx1=1234h mbx2=0h mbx3=0h", WARNING,
     "0000:05:00.0"),
    ("qla2xxx [0000:05:00.0]-00a9:1: ISP Error -- performing big hammer.", WARNING,
     "0000:05:00.0"),
    ("AAC:ID(0:01:0); Medium Error : Unrecovered read error", WARNING, "aacraid"),
    ("nvme nvme1: failed nvme_keep_alive_end_io error=10", WARNING, "nvme1"),
    ("block nvme1n1: no available path - failing I/O", CRITICAL, "nvme1n1"),
    ("block nvme1n1: no usable path - requeuing I/O", WARNING, "nvme1n1"),
    ("nvme 0000:01:00.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer",
     CRITICAL, "0000:01:00.0"),
    ("megaraid_sas 0000:02:00.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), type=Data",
     WARNING, "0000:02:00.0"),
    ("scsi host6: uas_eh_device_reset_handler FAILED err -19", CRITICAL, "host6"),
    ("sas: Enter sas_scsi_recover_host busy: 18 failed: 18", WARNING, ""),
    ("sas: ata2: end_device-1:0:9: cmd error handler", WARNING, "ata2"),
    ("libceph: osd0 192.0.2.140:6800 socket closed (con state CONNECTING)", WARNING, "osd0"),
    ("libceph: mon1 192.0.2.219:6790 session lost, hunting for new mon", WARNING, "mon"),
    ("libceph: connect (1)192.0.2.146:6789 error -1", WARNING, ""),
    ("ceph: mds0 hung", WARNING, "mds0"),
    ("ceph: mds0 reconnect denied", CRITICAL, "mds0"),
    ("rbd: rbd0: blacklisted!", CRITICAL, "rbd0"),
    (BTRFS.format(level="warning"), WARNING, "btrfs (device sdb)"),
    (BTRFS.format(level="error"), CRITICAL, "btrfs (device sdb)"),
    (("BTRFS warning (device sdb): chunk 1048576 missing 1 devices, max tolerance is 0 for"
     " writable mount"), CRITICAL, "btrfs (device sdb)"),
    ("WARNING: Pool 'tank' has encountered an uncorrectable I/O failure and has been suspended.",
     CRITICAL, "tank"),
    (("WARNING: MMP writes to pool 'tank' have not succeeded in over 5012 ms; suspending pool."
     " Hrtime 81234567890123"), CRITICAL, "tank"),
    ("mpt3sas_cm0: _base_fault_reset_work: hard reset: failed", CRITICAL, "mpt3sas_cm0"),
    ("rbd: rbd0: block request 0xffff9a88c0 expired after 120000ms", WARNING, "rbd0"),
    ("rbd: rbd0: exclusive-lock release timed out", WARNING, "rbd0"),
    (("zio pool=tank vdev=/dev/sdc1 error=5 type=1 offset=4402921472 size=131072 flags=1808b0"),
     WARNING, "/dev/sdc1"),
    ("FAT-fs (sdd1): Volume was not properly unmounted. Some data may be corrupt.", NOTICE,
     "sdd1"),
    ("FAT-fs (sdd1): Filesystem has been set read-only", CRITICAL, "sdd1"),
    ("XFS (sdb1): SB validate failed with error -117.", CRITICAL, "sdb1"),
    ("virtio_blk virtio2: [vda] I/O error", WARNING, "vda"),
    ("nvme nvme1: identifiers changed for nsid 1", WARNING, "nvme1"),
)  # fmt: skip
"""Lines of level warning, with the severity of their events and what they are about."""
HEALTHY = (
    "hpsa 0000:03:00.0: Acknowledging event: 0x40000000 (HP SSD Smart Path configuration change)",
    "sas: Enter sas_scsi_recover_host busy: 0 failed: 0",
    "sas: ata7: end_device-6:0: dev error handler",
    "sas: --- Exit sas_scsi_recover_host: busy: 0 failed: 0 tries: 1",
    "scsi host6: uas_eh_device_reset_handler success",
    "libceph: mon1 (1)192.0.2.219:6789 session established",
    "libceph: osd10 192.0.2.42:6801 socket closed (con state OPEN)",
    "libceph: osd0 up",
    "ceph: mds0 caps renewed",
    "nvme nvme0: 8/0/0 default/read/poll queues",
    "nvme 0000:01:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
    "BTRFS info (device sdb): allowing degraded mounts",
    "XFS (sdb1): SB validate failed with error -22.",
    "zio pool=tank vdev=/dev/sdc1 error=95 type=6 offset=4402921472 size=131072 flags=1808b0",
    "WARNING: CPU: 1 PID: 77 at kernel/workqueue.c:1234 __queue_work+0x1/0x2",
)
"""Lines of a healthy machine, or of errors that were corrected: at most a notice."""


def events(text: str) -> list[tuple[Severity | None, str]]:
    """Severity and object of the events of a line of level warning."""
    state = kernel_classifier.Classifier()
    found = []
    for line in kernel_line.parse_text(f"<4>{text}\n"):
        state, told = kernel_events.classify(state, line)
        found += told
    table = load_events()
    return [
        (table.find(each).severity_of(each), each.device or each.controller or each.place)
        for each in (*found, *kernel_events.finish(state))
    ]


@pytest.mark.parametrize(("text", "severity", "place"), FAULTS)
def test_a_line_of_a_fault_is_an_event_of_its_object(
    text: str, severity: Severity, place: str
) -> None:
    """One event, severe enough for a mail, and named."""
    assert events(text) == [(severity, place)]


@pytest.mark.parametrize("text", HEALTHY)
def test_a_line_of_a_healthy_machine_is_no_warning(text: str) -> None:
    """Beside each family of faults its ordinary lines."""
    assert all((severity or Severity.INFO) <= NOTICE for severity, _ in events(text))


@pytest.mark.parametrize(
    "text",
    [
        "smartpqi 0000:23:00.0: Online Firmware Activation enabled",
        "smartpqi 0000:23:00.0: New Soft Reset Handshake enabled",
        "smartpqi 0000:23:00.0: RAID IU Timeout enabled",
        "nvme nvme0: Shutdown timeout set to 10 seconds",
        "nvme nvme0: Ignoring bogus Namespace Identifiers",
    ],
)
def test_what_a_driver_prints_at_its_start_is_no_event(text: str) -> None:
    """Words of a fault in the name of a feature; with and without a level in the text."""
    assert events(text) == []
    (line,) = kernel_line.parse_text(f"[    1.000000] {text}\n")
    assert kernel_events.unrecognized_driver(kernel_classifier.Classifier(), line) == ""


def test_a_storage_server_that_is_down_and_up_again_is_told() -> None:
    """Of Ceph's map of its servers, which is printed at level info."""
    assert events("libceph: osd56 down") == [(WARNING, "osd56")]
    (line,) = kernel_line.parse_text("libceph: osd56 up\n")
    _, (restored,) = kernel_events.classify(kernel_classifier.Classifier(), line)
    assert (restored.kind, restored.place) == ("connection_restored", "osd56")


DRIVES = (
    "Direct-Access     ATA      MB4000GEQNH     ",
    "Enclosure         HPE      Smart Adapter   ",
)


@pytest.mark.parametrize("drive", DRIVES)
@pytest.mark.parametrize(
    ("line", "place"),
    [
        (
            "hpsa 0000:03:00.0: scsi 4:0:5:0: removed {} PHYS DRV SSDSmartPathCap- En- Exp=1",
            "4:0:5:0",
        ),
        ("hpsa 0000:03:00.0: {} device c4b0t5l0 removed.", "0000:03:00.0"),
        ("smartpqi 0000:5c:00.0: removed 5:0:3:0 30000d1702ca5c05 {} AIO- qd=32", "5:0:3:0"),
        ("smartpqi 0000:5c:00.0: removed 5:0:-:- 30000d1702ca5c05 {} AIO-", "0000:5c:00.0"),
        ("smartpqi 0000:5c:00.0: offline 5:1:0:1 0000004000000000 {} RAID-5", "5:1:0:1"),
    ],
)
def test_a_device_that_a_smart_array_no_longer_sees_is_told(
    line: str, place: str, drive: str
) -> None:
    """A disk pulled out of its bay: the only line that names it, without a word of a fault."""
    assert events(line.format(drive)) == [(WARNING, place)]
    for word in ("added", "updated"):
        assert events(line.replace("removed", word).replace("offline", word).format(drive)) == []


@pytest.mark.parametrize("name", ["sdb", "sdaa", "vdb", "xvda", "nvme0n1"])
def test_a_disk_whose_size_is_zero_now_is_told(name: str) -> None:
    """Of a disk. What a user stopped or ejected, and a disk that only grew, is none."""
    text = "{}: detected capacity change from {} to {}"
    assert events(text.format(name, 7814037168, 0)) == [(NOTICE, name)]
    assert events(text.format(name, 0, 7814037168)) == []
    assert events(text.format(name, 7814037168, 8814037160)) == []


@pytest.mark.parametrize("name", ["md0", "dm-3", "loop7", "zram0", "nbd1", "sr0", "drbd0", "fd0"])
def test_a_device_that_was_stopped_has_size_zero_and_is_not_told(name: str) -> None:
    """'mdadm --stop', 'losetup -d', a CD taken out."""
    assert events(f"{name}: detected capacity change from 41943040 to 0") == []


@pytest.mark.parametrize("state", ["Timeout", "BrokenPipe", "NetworkFailure", "ProtocolError"])
@pytest.mark.parametrize(
    ("lead", "place"),
    [("drbd r0", "r0"), ("drbd r0 node-2.example", "r0"), ("block drbd0", "drbd0")],
)
def test_a_connection_that_drbd_lost_is_told_until_it_is_back(
    lead: str, place: str, state: str
) -> None:
    """DRBD 8.3 (device), 8.4 (resource) and 9 (resource and peer); an orderly end is no fault."""
    lost = f"{lead}: peer( Secondary -> Unknown ) conn( Connected -> {state} )"
    assert events(lost) == [(WARNING, place)]
    for orderly in (
        f"{state} -> Unconnected",
        "Connected -> Disconnecting",
        "Connected -> TearDown",
    ):
        assert events(f"{lead}: conn( {orderly} )") == []
    assert events(f"{lead}: conn( WFReportParams -> Connected )") == [(Severity.INFO, place)]


@pytest.mark.parametrize("driver", ["nvme", "megaraid_sas", "mpt3sas", "ahci", "hpsa"])
@pytest.mark.parametrize(
    "detail",
    [
        "device [144d:a808] error status/mask=00000001/0000e000",
        " [ 0] RxErr                  (First)",
        " [12] Timeout               ",
        " [14] CmpltTO                (First)",
    ],
)
def test_the_registers_of_a_pci_error_are_no_line_of_their_own(driver: str, detail: str) -> None:
    """They follow 'PCIe Bus Error', which is the event; printed with its level."""
    for level in (3, 4):
        (line,) = kernel_line.parse_text(f"<{level}>{driver} 0000:01:00.0:   {detail}\n")
        assert kernel_events.classify(kernel_classifier.Classifier(), line)[1] == ()
    (line,) = kernel_line.parse_text(f"[    1.000000] {driver} 0000:01:00.0:   {detail}\n")
    assert kernel_events.unrecognized_driver(kernel_classifier.Classifier(), line) == ""


@pytest.mark.parametrize("result", ["hostbyte=DID_NEXUS_FAILURE", "hostbyte=0x11"])
def test_a_reservation_of_another_host_is_no_fault_of_the_adapter(result: str) -> None:
    """Of a cluster's disk: the device answered, and all of its lines tell the same."""
    lines = (
        "sd 7:0:0:4: reservation conflict",
        f"sd 7:0:0:4: [sdc] tag#20 FAILED Result: {result} driverbyte=DRIVER_OK cmd_age=0s",
        "reservation conflict error, dev sdc, sector 2048 op 0x1:(WRITE) flags 0x800 phys_seg 1",
    )
    for text in lines:
        assert [severity for severity, _ in events(text)] == [NOTICE]
