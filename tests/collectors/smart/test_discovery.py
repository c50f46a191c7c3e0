"""Discovery of drives: plain ones, those behind controllers, and configured ones."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from support.attached import Files, cciss, disk, host, node, probe_answer, scan, udev
from support.recordings import corpus

from iowarden.collectors.block.block_devices import read_block
from iowarden.collectors.smart.discovery import ConfiguredDrive, Discovered, find, parse_configured
from iowarden.collectors.smart.drive import ReadStatus
from iowarden.daemon.probe import allowed

if TYPE_CHECKING:
    from conftest import MachineMaker

NO_SCSI: Files = {"/sys/block": None}


def found(
    machine: MachineMaker, files: Files, *drives: ConfiguredDrive, before: Discovered | None = None
) -> Discovered:
    """Return the result for a machine; the probe must accept every access method."""
    root = machine(NO_SCSI | files)
    topology = read_block(root)
    result = find(root, topology, drives, before)
    for target in result.targets:
        kind = ("-d", target.kind) if target.kind else ()
        assert allowed.match(("smartctl", "-i", *kind, target.path)).device == target.path
    sorted_out = {target.device for target in result.targets}
    sorted_out |= {each.device for each in (*result.unmonitored, *result.volumes)}
    ignored = {drive.path.removeprefix("/dev/") for drive in drives if drive.ignore}
    for name in topology.leaves:
        other = topology.devices[name].size_bytes == 0 or re.fullmatch(r"nvme\d+n2", name)
        assert other or name in sorted_out | ignored, f"'{name}' was forgotten"
    return result


def ways(result: Discovered) -> list[str]:
    """Return the access methods of all drives, as users would type them."""
    return [str(target) for target in result.targets]


WAYS = (
    ("/dev/sda", ""),
    ("/dev/nvme0", "nvme"),
    ("/dev/nvme0n1", "nvme,0x1"),
    ("/dev/sg3", "sat,12"),
    ("/dev/sdab", "sat,auto"),
    ("/dev/sdb", "usbjmicron,p,1"),
    ("/dev/sdb", "sntasmedia"),
    ("/dev/sg2", "areca,24"),
    ("/dev/sg2", "areca,3/1"),
    ("/dev/twa0", "3ware,0"),
    ("/dev/bus/7", "megaraid,256"),
    ("/dev/sda", "sat+megaraid,3"),
    ("/dev/sda", "aacraid,0,0,2"),
    ("/dev/sg1", "scsi+aacraid,0,0,2"),
    ("/dev/sg0", "cciss,0"),
    ("/dev/cciss/c0d0", "sat+cciss,11"),
    ("/dev/bsg/sssraid0", "sssraid,1,2"),
    ("/dev/sda", "hpt,1/3/1"),
)


def test_a_drive_is_written_as_for_smartctl() -> None:
    """Path, '-d', the expected serial number, and the slot's name."""
    entry = {"path": "/dev/sg2", "type": "areca,3", "serial": "WD-1", "slot": "bay 3"}
    assert parse_configured(entry) == ConfiguredDrive("/dev/sg2", "areca,3", "WD-1", "bay 3")
    assert parse_configured({"path": "/dev/sda", "type": "auto"}) == ConfiguredDrive("/dev/sda")
    assert parse_configured({"serial": "WD-1", "ignore": True}).ignore


@pytest.mark.parametrize(("path", "kind"), WAYS)
def test_what_may_be_configured_root_may_run(path: str, kind: str) -> None:
    """No access method is accepted here that the probe would refuse later."""
    drive = parse_configured({"path": path, "type": kind or "auto"})
    given = ("-d", drive.kind) if drive.kind else ()
    assert allowed.match(("smartctl", "--json=co", "-x", *given, drive.path)).device == path


@pytest.mark.parametrize(
    ("entry", "complaint"),
    [
        ({}, "expected 'path' or 'serial'"),
        ({"pth": "/dev/sda"}, "did you mean 'path'?"),
        ({"path": "/dev/sda1"}, "'path': expected a whole drive"),
        ({"path": "/dev/sda", "type": "areca,1"}, "'path': expected the controller's '/dev/sg2'"),
        ({"path": "/dev/sda", "type": "3ware,1"}, "'path': expected '/dev/twa0'"),
        ({"path": "0000:03:00.0"}, "'path': expected a whole drive"),
        ({"path": "/dev/sda", "type": "raid"}, "'type': expected what smartctl takes"),
        ({"path": "/dev/sda", "type": "sat,13"}, "'type': expected what smartctl takes"),
        ({"type": "sat", "serial": "X"}, "'type': expected 'path' in the same entry, got none"),
        ({"path": "/dev/sda", "serial": 12345}, "'serial': expected text, got '12345'"),
        ({"path": "/dev/sda", "slot": "é"}, "'slot': expected 1 to 100 printable"),
        ({"path": "/dev/sda", "serial": " X"}, "without a blank at either end"),
        ({"path": "/dev/sda", "ignore": "maybe"}, "'ignore': expected true or false"),
        ({"path": "/dev/sda", "profile": "qnap"}, "'profile': expected one of slow, old"),
        (
            {"serial": "X", "profile": "slow"},
            "'profile': expected 'path' in the same entry, got none",
        ),
    ],
)
def test_a_wrong_entry_reports_what_to_write(entry: dict[str, object], complaint: str) -> None:
    """The message has the key, the accepted and the found value."""
    with pytest.raises(ValueError, match=re.escape(complaint)):
        parse_configured(entry, ("slow", "old"))


@pytest.mark.parametrize(
    "kind",
    ["jmb39x,0", "jmb39x-q,1,s33+sat", "jms56x,0", "intelliprop,1+sat", "usbcypress,0x24"],
)
def test_types_that_write_to_the_disk_are_never_taken(kind: str) -> None:
    """They write to sector 33, to a log or elsewhere; the error says so."""
    with pytest.raises(ValueError, match="does not change the disk"):
        parse_configured({"path": "/dev/sda", "type": kind})


# Data from the kernel

PLAIN = (
    host("host0", "ahci")
    | host("host1", "ahci")
    | disk("0:0:0:0", "sda", "ATA", "WDC WD4003FFBX-6")
    | disk("1:0:0:0", "sdb", "ATA", "QEMU HARDDISK")
    | {
        "/sys/class/nvme/nvme0/nvme0n1": None,
        "/sys/class/nvme/nvme0/transport": "pcie\n",
        "/sys/block/nvme0n1/size": "2048\n",
        "/sys/block/nvme0n2/size": "2048\n",
        "/sys/class/nvme/nvme0/nvme0n2": None,
    }
)


def test_plain_sata_and_nvme(machine: MachineMaker) -> None:
    """A SATA disk is polled as one, so it is not woken; an NVMe drive by its controller."""
    result = found(machine, PLAIN)
    assert ways(result) == ["/dev/sda -d sat", "/dev/sdb -d sat", "/dev/nvme0 -d nvme"]
    assert [t.device for t in result.targets] == ["sda", "sdb", "nvme0n1"]
    assert [t.controller for t in result.targets] == ["host0", "host1", "/dev/nvme0"]
    assert (result.problems, result.unmonitored, result.volumes) == ((), (), ())


def test_no_program_runs_where_the_kernel_reports_all(machine: MachineMaker) -> None:
    """Without a RAID controller the probe is not queried, so a missing one is no problem."""
    assert found(machine, PLAIN | scan(("/dev/bus/0", "megaraid,1"))).problems == ()
    assert len(found(machine, PLAIN | scan(("/dev/bus/0", "megaraid,1"))).targets) == 3


def test_a_path_to_an_nvme_drive_is_that_of_its_controller(machine: MachineMaker) -> None:
    """With multipathing 'nvme0n1' of controller nvme1 is reached by the hidden 'nvme0c1n1'."""
    files: Files = {
        "/sys/class/nvme/nvme1/nvme0c1n1": None,
        "/sys/block/nvme0n1/size": "2048\n",
        "/sys/block/nvme0c1n1/size": "2048\n",
    }
    result = found(machine, files)
    assert [(str(t), t.device) for t in result.targets] == [("/dev/nvme1 -d nvme", "nvme0c1n1")]


def test_a_machine_that_lists_no_nvme_controllers(machine: MachineMaker) -> None:
    """A recorded machine may lack '/sys/class/nvme'; the device number is used instead."""
    result = found(machine, {"/sys/block/nvme3n1/size": "2048\n"})
    assert ways(result) == ["/dev/nvme3 -d nvme"]


def test_adapter_with_expander_and_enclosure(machine: MachineMaker) -> None:
    """SAS disks as SCSI, SATA disks among them by SAT, each in its slot; no other is listed."""
    files = (
        host("host2", "mpt3sas")
        | disk("2:0:0:0", "sda", "SEAGATE", "ST8000NM0075")
        | disk("2:0:1:0", "sdb", "ATA", "ST8000NM0055-1RM")
        | node("2:0:24:0", 13, "LSI", "sg2")
        | {
            "/sys/class/enclosure/2:0:24:0/Slot 03/device/block/sda": None,
            "/sys/class/enclosure/2:0:24:0/Slot 04/status": "OK\n",
            "/sys/class/enclosure/2:0:24:0/components": "24\n",
        }
    )
    result = found(machine, files)
    assert ways(result) == ["/dev/sda -d scsi", "/dev/sdb -d sat"]
    assert [t.slot for t in result.targets] == ["Slot 03 of enclosure 2:0:24:0", ""]
    assert {t.controller for t in result.targets} == {"host2"}


def test_members_of_a_volume_of_an_mpt_adapter_are_queried_by_their_generic_device(
    machine: MachineMaker,
) -> None:
    """The kernel hides both halves of the mirror, except '/dev/sgN'; the volume has no SMART."""
    files = (
        host("host0", "mpt3sas")
        | disk("0:1:0:0", "sda", "LSI", "Logical Volume")
        | node("0:0:1:0", 0, "ATA", "sg1")
        | node("0:0:2:0", 0, "SEAGATE", "sg2")
        | node("0:0:9:0", 13, "DP", "sg3")
    )
    result = found(machine, files)
    assert ways(result) == ["/dev/sg1 -d sat", "/dev/sg2 -d scsi"]
    assert [volume.device for volume in result.volumes] == ["sda"]
    assert result.unmonitored == ()


@pytest.mark.parametrize(
    ("model", "is_mirror"),
    [
        ("DELLBOSS VD", True),
        ("Dell BOSS-N1", True),
        ("HPE NS204i-p Gen10+ Boot Controller", True),
        ("ThinkSystem M.2 NVMe 2-Bay RAID Enablement Kit", True),
        ("Samsung SSD 980 PRO 1TB", False),
        ("Dell Ent NVMe P5800x", False),
        ("WD_BLACK SN850X", False),
    ],
)
def test_a_boot_card_hides_two_drives_behind_what_looks_like_one(
    machine: MachineMaker, model: str, *, is_mirror: bool
) -> None:
    """It is polled as the drive that it shows, and its hidden drives are not monitored."""
    sata = disk("0:0:0:0", "sda", "ATA", model)
    nvme = {
        "/sys/class/nvme/nvme0/nvme0n1/size": "2048\n",
        "/sys/class/nvme/nvme0/model": f"{model:40}\n",
        "/sys/class/nvme/nvme0/transport": "pcie\n",
        "/sys/block/nvme0n1/size": "2048\n",
    }
    result = found(machine, host("host0", "ahci") | sata | nvme)
    assert ways(result) == ["/dev/sda -d sat", "/dev/nvme0 -d nvme"]
    expected = [("drives behind sda", " mvcli"), ("drives behind nvme0", " mnv_cli")]
    hidden = [(each.what, each.reason) for each in result.unmonitored]
    if not is_mirror:
        expected = []
    for (what, reason), (name, program) in zip(hidden, expected, strict=True):
        assert what == name
        assert program.strip() in reason


def test_hidden_members_without_the_sg_module(machine: MachineMaker) -> None:
    """Nothing can be polled then, and the reason names the module."""
    files = host("host0", "mpt2sas") | disk("0:1:3:0", "sda", "Dell", "Virtual Disk")
    result = found(machine, files)
    assert result.targets == ()
    assert result.unmonitored[0].status is ReadStatus.NO_PASS_THROUGH
    assert "load the module 'sg'" in result.unmonitored[0].reason


@pytest.mark.parametrize(
    ("files", "cover", "words"),
    [
        (
            host("host4", "iscsi_tcp")
            | disk("4:0:0:1", "sda", "SYNOLOGY", "iSCSI Storage")
            | {"/sys/class/iscsi_host/host4": None},
            ReadStatus.LUN,
            "over iSCSI",
        ),
        (
            host("host5", "qla2xxx")
            | disk("5:0:0:1", "sda", "SEAGATE", "ST300")
            | {"/sys/class/fc_host/host5": None},
            ReadStatus.LUN,
            "over Fibre Channel",
        ),
        (
            host("host1", "mpt3sas") | disk("1:0:0:210", "sda", "HP", "P2000G3 FC/iSCSI"),
            ReadStatus.LUN,
            "storage array",
        ),
        (
            host("host0", "virtio_scsi") | disk("0:0:0:0", "sda", "QEMU", "QEMU HARDDISK"),
            ReadStatus.NO_SMART,
            "a virtual disk ('QEMU QEMU HARDDISK')",
        ),
        (
            host("host0", "vmw_pvscsi") | disk("0:0:0:0", "sda", "VMware", "Virtual disk"),
            ReadStatus.NO_SMART,
            "a virtual disk",
        ),
        ({"/sys/block/vda/size": "2048\n"}, ReadStatus.NO_SMART, "a virtual disk"),
        ({"/sys/block/mmcblk0/size": "2048\n"}, ReadStatus.NO_SMART, "that smartctl cannot read"),
        ({"/sys/block/rbd0/size": "2048\n"}, ReadStatus.LUN, "over the network"),
        (
            {
                "/sys/class/nvme/nvme0/nvme0n1": None,
                "/sys/class/nvme/nvme0/transport": "tcp\n",
                "/sys/block/nvme0n1/size": "2048\n",
            },
            ReadStatus.LUN,
            "over tcp",
        ),
    ],
)
def test_what_has_no_smart_of_its_own_is_not_queried(
    machine: MachineMaker, files: Files, cover: ReadStatus, words: str
) -> None:
    """Logical units and virtual disks: each with the reason why it has no health data."""
    result = found(machine, files)
    assert result.targets == ()
    assert [each.status for each in result.unmonitored] == [cover]
    assert words in result.unmonitored[0].reason


def test_usb(machine: MachineMaker) -> None:
    """smartctl has a table of bridges; one that would get a vendor command is left out."""
    files = (
        host("host6", "usb-storage")
        | host("host7", "uas")
        | disk("6:0:0:0", "sda", "ST340014", "A", dev="8:0")
        | disk("7:0:0:0", "sdb", "WD", "My Passport 25E2", dev="8:16")
        | disk("6:0:0:1", "sdc", "Generic-", "SD/MMC", size="0", removable="1")
        | udev("8:0", "E:ID_VENDOR_ID=04b4", "E:ID_MODEL_ID=6830")
        | udev("8:16", "E:ID_VENDOR_ID=1058", "E:ID_MODEL_ID=25e2")
    )
    result = found(machine, files)
    assert ways(result) == ["/dev/sdb"]
    assert [(u.device, u.status) for u in result.unmonitored] == [
        ("sda", ReadStatus.NO_PASS_THROUGH)
    ]


# What is behind controllers


def test_megaraid_with_one_disk_twice(machine: MachineMaker) -> None:
    """The scan of our test host lists a disk under two numbers: both are access methods of it."""
    files = (
        host("host7", "megaraid_sas", "0000:00:07.0")
        | disk("7:2:0:0", "sde", "QEMU", "QEMU HARDDISK")
        | probe_answer(
            *("smartctl", "--json=c", "--scan"),
            stdout=corpus("vm/smart/scan.json").read_text(),
        )
    )
    result = found(machine, files)
    assert ways(result) == ["/dev/bus/7 -d megaraid,0", "/dev/bus/7 -d megaraid,256"]
    assert {(t.controller, t.driver, t.origin) for t in result.targets} == {
        ("host7", "megaraid_sas", "scan")
    }
    assert [v.device for v in result.volumes] == ["sde"]
    assert result.unmonitored == ()


def test_disks_that_megaraid_does_not_hide(machine: MachineMaker) -> None:
    """A JBOD disk has a block device of its own, and a number behind the controller as well."""
    files = (
        host("host0", "megaraid_sas", "0000:02:00.0")
        | disk("0:0:5:0", "sda", "ATA", "INTEL SSDSC2KB96")
        | disk("0:2:0:0", "sdb", "DELL", "PERC H730 Mini")
        | scan(
            ("/dev/sda", "scsi"), ("/dev/bus/0", "megaraid,5"), ("/dev/bus/0", "sat+megaraid,10")
        )
    )
    result = found(machine, files)
    assert ways(result) == [
        "/dev/sda -d sat",
        "/dev/bus/0 -d megaraid,5",
        "/dev/bus/0 -d sat+megaraid,10",
    ]


@pytest.mark.parametrize(
    "said_by_smartctl",
    [
        "",
        "smartctl 6.6 2017-11-05\n=======> UNRECOGNIZED OPTION: json\n",
        "[" * 100_000,
        '{"devices": "none"}',
        '{"devices": [{"name": 7, "type": "scsi"}], "smartctl": {}}',
    ],
)
def test_a_scan_that_reports_nonsense_loses_no_disk(
    machine: MachineMaker, said_by_smartctl: str
) -> None:
    """Known disks of the controller are kept, the invalid text reported; others are discovered."""
    files = host("host0", "megaraid_sas", "0000:02:00.0") | disk("0:2:0:0", "sda", "LSI", "MR9260")
    before = found(machine, files | scan(("/dev/bus/0", "megaraid,4")))
    bad = probe_answer("smartctl", "--json=c", "--scan", stdout=said_by_smartctl)
    after = found(machine, files | bad, before=before)
    assert after.targets == before.targets
    assert "'smartctl --scan': expected" in after.problems[0]
    assert found(machine, files | scan(), before=before).targets == ()


def test_a_scan_names_only_what_a_controller_hides(machine: MachineMaker) -> None:
    """A path or type that no such controller has is left out."""
    files = host("host0", "megaraid_sas", "0000:02:00.0") | scan(
        ("/dev/sda", "jmb39x,0"),
        ("/dev/bus/0", "megaraid,1; reboot"),
        ("/dev/bus/9", "megaraid,1"),
        ("/dev/../etc", "megaraid,2"),
    )
    assert found(machine, files).targets == ()


ARECA = (
    host("host3", "(null)", "", host_fw_hd_channels="   8")
    | {"/sys/bus/pci/drivers/arcmsr/0000:03:00.0/host3": None}
    | disk("3:0:0:0", "sda", "Areca", "ARC-1231-VOL#00")
    | node("3:0:16:0", 3, "Areca", "sg1")
)
CHANNELS = """\
  # Ch# ModelName                       Capacity  Usage
===============================================================================
  1  1  WDC WD1600AAJS-00PSA0            160.0GB  Raid Set # 00
  2  2  N.A.                               0.0GB  N.A.
 10 10  WDC WD1600AAJS-00PSA0            160.0GB  HotSpare
===============================================================================
GuiErrMsg<0x00>: Success.
"""


def test_areca_with_its_program(machine: MachineMaker) -> None:
    """Two disks of three channels; an old driver has no name, its PCI device does."""
    result = found(machine, ARECA | probe_answer("areca-cli", "disk", "info", stdout=CHANNELS))
    assert ways(result) == ["/dev/sg1 -d areca,1", "/dev/sg1 -d areca,10"]
    assert {(t.controller, t.driver, t.slot) for t in result.targets} == {
        ("host3", "arcmsr", "channel 1"),
        ("host3", "arcmsr", "channel 10"),
    }
    assert all(t.behind_raid() for t in result.targets)
    assert (result.problems, result.unmonitored) == ((), ())


def test_areca_without_its_program(machine: MachineMaker) -> None:
    """Empty channels are not polled; the reason has the lines to configure."""
    result = found(machine, ARECA)
    assert result.targets == ()
    (uncovered,) = result.unmonitored
    assert (uncovered.device, uncovered.status) == ("sda", ReadStatus.NO_PASS_THROUGH)
    assert 'configure each: {path: "0000:03:00.0", type: "areca,1"} ... ' in uncovered.reason
    assert "'areca,8'" in uncovered.reason


def test_the_lines_that_are_advised_are_taken(machine: MachineMaker) -> None:
    """Copied into the configuration they lead to the disks, for any number of '/dev/sg'."""
    reason = found(machine, ARECA).unmonitored[0].reason
    written = re.search(r'{path: "(\S+)", type: "(\S+)"}', reason)
    assert written is not None
    drive = parse_configured({"path": written[1], "type": written[2], "slot": "top"})
    result = found(machine, ARECA, drive)
    assert ways(result) == ["/dev/sg1 -d areca,1"]
    assert (result.targets[0].slot, result.targets[0].origin) == ("top", "configuration")
    assert (result.problems, result.unmonitored) == ((), ())


def test_a_hanging_areca_program_loses_no_disk(machine: MachineMaker) -> None:
    """A truncated table is refused: known disks are kept, and the problem shows how it ended."""
    before = found(machine, ARECA | probe_answer("cli64", "disk", "info", stdout=CHANNELS))
    half = probe_answer("cli64", "disk", "info", stdout=CHANNELS[:200])
    after = found(machine, ARECA | half, before=before)
    assert after.targets == before.targets
    assert "'cli64 disk info': expected a table" in after.problems[0]


PORTS = """\
VPort Status         Unit Size      Type  Phy Encl-Slot    Model
------------------------------------------------------------------------------
p0    OK             u0   1.82 TB   SATA  0   -            ST2000NM0011
p8    DEGRADED       u0   1.82 TB   SATA  -   /c0/e1/slt4  ST2000NM0011
p9    OK             u1   1.82 TB   SAS   3   -            SEAGATE ST32000444SS
p10   NOT-PRESENT    -    -         -     -   -            -
"""
CONTROLLERS = """\
Ctl   Model        (V)Ports  Drives   Units   NotOpt  RRate   VRate  BBU
------------------------------------------------------------------------
c0    9750-4i      4         4        1       0       1       1      OK
"""


def test_3ware_with_its_program(machine: MachineMaker) -> None:
    """Ports with a disk, with the bay; smartctl cannot read a SAS disk, and that is reported."""
    files = (
        host("host1", "ahci")
        | host("host6", "3w-sas", "0000:05:00.0")
        | disk("6:0:0:0", "sda", "LSI", "9750-4i    DISK")
        | probe_answer("tw_cli", "info", stdout=CONTROLLERS)
        | probe_answer("tw_cli", "info", "c0", "drivestatus", stdout=PORTS)
    )
    result = found(machine, files)
    assert [(str(t), t.slot) for t in result.targets] == [
        ("/dev/twl0 -d 3ware,0", "port 0"),
        ("/dev/twl0 -d 3ware,8", "enclosure 1 slot 4"),
    ]
    assert [u.what for u in result.unmonitored] == ["port 9 of host6"]
    assert result.problems == ()


def test_two_3ware_controllers_are_configured(machine: MachineMaker) -> None:
    """It is unknown which of 'c0' and 'c1' is which host; each host has its own device."""
    files = (
        host("host2", "3w-9xxx", "0000:05:00.0")
        | host("host10", "3w-9xxx", "0000:06:00.0")
        | disk("2:0:0:0", "sda", "AMCC", "9650SE-4LP DISK")
        | probe_answer("tw_cli", "info", stdout=CONTROLLERS)
        | probe_answer("tw_cli", "info", "c0", "drivestatus", stdout=PORTS)
    )
    second = ConfiguredDrive("0000:06:00.0", "3ware,2")
    result = found(machine, files, second, ConfiguredDrive("/dev/twa0", "3ware,1"))
    assert ways(result) == ["/dev/twa0 -d 3ware,1", "/dev/twa1 -d 3ware,2"]
    assert [t.controller for t in result.targets] == ["host2", "host10"]


DISK = {"device_type": {"scsi_value": 0}, "model_name": "EG0300", "serial_number": "S1"}
SMART_ARRAY = (
    host("host0", "hpsa", "0000:05:00.0")
    | disk("0:0:0:0", "sda", "HP", "LOGICAL VOLUME")
    | node("0:3:0:0", 12, "HP", "sg0")
)


def test_smart_array_is_counted(machine: MachineMaker) -> None:
    """Disks up to the end of the driver's list: one in standby, one dead, one an enclosure."""
    files = SMART_ARRAY | cciss(
        "/dev/sg0",
        DISK,
        "Device is in STANDBY mode, exit(2)",
        {"device_type": {"scsi_value": 13, "name": "enclosure"}, "scsi_model_name": "D2700"},
        "Standard Inquiry (36 bytes) failed [Input/output error]",
        DISK,
    )
    result = found(machine, files)
    assert ways(result) == [f"/dev/sg0 -d cciss,{number}" for number in (0, 1, 3, 4)]
    assert (result.problems, result.unmonitored) == ((), ())
    assert [v.device for v in result.volumes] == ["sda"]


def test_a_smart_array_that_never_reports_the_end(machine: MachineMaker) -> None:
    """Four in a row that are neither disks nor the end: the count stops, and that is a problem."""
    files = SMART_ARRAY | cciss("/dev/sg0", DISK, *["Smartctl open device failed"] * 6)
    result = found(machine, files)
    assert ways(result) == ["/dev/sg0 -d cciss,0"]
    assert "from 'cciss,1' on" in result.problems[0]


def test_a_smart_array_as_plain_adapter_is_not_counted(machine: MachineMaker) -> None:
    """If it shows its disks there is nothing to count."""
    files = (
        host("host0", "smartpqi", "0000:05:00.0")
        | disk("0:0:1:0", "sda", "HPE", "EG001200JWJNQ")
        | node("0:2:0:0", 12, "HPE", "sg0")
    )
    result = found(machine, files)
    assert ways(result) == ["/dev/sda -d scsi"]
    assert (result.problems, result.unmonitored) == ((), ())


def test_the_old_driver_cciss(machine: MachineMaker) -> None:
    """Its volumes are no SCSI devices; all of a controller are polled through its first."""
    files = {
        "/sys/block/cciss!c0d0/size": "2048\n",
        "/sys/block/cciss!c0d1/size": "2048\n",
        **cciss("/dev/cciss/c0d0", DISK, DISK),
    }
    result = found(machine, files)
    assert ways(result) == ["/dev/cciss/c0d0 -d cciss,0", "/dev/cciss/c0d0 -d cciss,1"]
    assert [v.device for v in result.volumes] == ["cciss/c0d0", "cciss/c0d1"]


AACRAID = (
    host("host1", "aacraid", "0000:07:00.0")
    | disk("1:0:0:0", "sda", "ASR8405", "data")
    | node("1:3:0:0", 13, "ADAPTEC", "sg1")
)


def test_aacraid_is_not_queried_by_itself(machine: MachineMaker) -> None:
    """Each query leaks kernel memory: only configured drives are polled, with minimal queries."""
    (uncovered,) = found(machine, AACRAID).unmonitored
    assert 'type: "aacraid,1,CHANNEL,DEVICE"' in uncovered.reason
    assert "220504" in uncovered.reason
    result = found(machine, AACRAID, ConfiguredDrive("0000:07:00.0", "aacraid,0,0,2"))
    # The host was number 0 when that was written.
    assert ways(result) == ["/dev/sg1 -d aacraid,1,0,2"]
    assert result.targets[0].profile == "minimal"
    assert result.unmonitored == ()


def test_disks_that_aacraid_exposes(machine: MachineMaker) -> None:
    """On another channel than the volumes they are plain disks; RAID's have only '/dev/sgN'."""
    files = (
        AACRAID
        | disk("1:1:4:0", "sdb", "ATA", "ST4000NM0115-1YZ")
        | node("1:1:5:0", 0, "SEAGATE", "sg3")
    )
    result = found(machine, files)
    assert ways(result) == ["/dev/sdb -d sat", "/dev/sg3 -d scsi"]
    assert result.unmonitored == ()


def test_a_controller_that_shows_nothing_is_reported(machine: MachineMaker) -> None:
    """An Areca controller before its first volume: there are disks, and none is polled."""
    files = {path: text for path, text in ARECA.items() if "sda" not in path}
    assert [u.what for u in found(machine, files).unmonitored] == ["disks of host3"]


@pytest.mark.parametrize("driver", ["stex", "ips", "megaraid_mbox"])
def test_a_controller_without_a_way(machine: MachineMaker, driver: str) -> None:
    """smartctl cannot read these disks, and reports nothing; the reason does."""
    files = host("host0", driver) | disk("0:0:0:0", "sda", "Promise", "VTrak")
    (uncovered,) = found(machine, files).unmonitored
    assert (uncovered.status, uncovered.device) == (ReadStatus.NO_PASS_THROUGH, "sda")
    assert f"('{driver}') hides its disks: smartctl cannot reach them" in uncovered.reason


def test_a_volume_of_an_adapter_without_a_name(machine: MachineMaker) -> None:
    """The kernel prints '(null)' for a driver without a name: it is unknown."""
    files = host("host0", "(null)") | disk("0:0:0:0", "sda", "BROADCOM", "MR9660-16i")
    (uncovered,) = found(machine, files).unmonitored
    assert "('unknown driver') hides its disks" in uncovered.reason


def test_a_machine_that_lists_no_scsi_devices(machine: MachineMaker) -> None:
    """In a recorded machine the channel may be missing: only a certain disk is one."""
    files = (
        host("host0", "megaraid_sas")
        | disk("0:0:5:0", "sda", "ATA", "INTEL SSDSC2KB96")
        | disk("0:2:0:0", "sdb", "HGST", "raid6")
        | scan()
    )
    files = {path: text for path, text in files.items() if "/class/scsi_device/" not in path}
    result = found(machine, files)
    assert ways(result) == ["/dev/sda -d sat"]
    assert [v.device for v in result.volumes] == ["sdb"]


LSSCSI = "mapping/glensc+nagios-plugin-check_raid/lsscsi"
TYPES = {"disk": 0, "storage": 12, "enclosu": 13}


def listed_by_lsscsi(name: str) -> Files:
    """Return the devices of a capture of 'lsscsi -g'."""
    files: Files = {}
    for line in corpus(f"{LSSCSI}/{name}").read_text().splitlines():
        words = re.fullmatch(
            r"\[([\d:]+)\]\s+(\S+)\s+(\S+)\s+(\S.*?)\s+\S+\s+(?:/dev/(sd\w+)|-)"
            r"\s+/dev/(sg\d+)\s*",
            line,
        )
        if words is None:
            continue
        at, kind, vendor, model, block, generic = words.groups()
        files |= node(at, TYPES[kind], vendor, generic)
        files |= disk(at, block, vendor, model) if block else {}
    return files


def test_a_captured_smart_array(machine: MachineMaker) -> None:
    """A P410i is polled through its own '/dev/sg0', not by the volume's '/dev/sg1'."""
    files = host("host0", "hpsa") | listed_by_lsscsi("lsscsi-with-sg-module")
    result = found(machine, files | cciss("/dev/sg0", DISK, DISK))
    assert ways(result) == ["/dev/sg0 -d cciss,0", "/dev/sg0 -d cciss,1"]
    assert [v.device for v in result.volumes] == ["sda"]


def test_a_captured_storage_array(machine: MachineMaker) -> None:
    """Two units of a P2000, each over two paths: none of the four is a disk."""
    files = host("host0", "mpt2sas") | listed_by_lsscsi("lsscsi.pavo2")
    result = found(machine, files)
    assert result.targets == ()
    assert {u.device: u.status for u in result.unmonitored} == dict.fromkeys(
        ("sda", "sdb", "sdc", "sdd"), ReadStatus.LUN
    )


# What people wrote down


def test_a_link_of_udev_is_followed_to_the_drive(machine: MachineMaker) -> None:
    """The name may change; the probe gets the kernel's current one."""
    files = (
        PLAIN
        | {"/sys/block/sdb/dev": "8:16\n", "/sys/block/nvme0n1/dev": "259:0\n"}
        | udev("8:16", "S:disk/by-id/ata-ACME_HDD_4000_Q2", "E:ID_SERIAL=ACME_HDD_4000_Q2")
        | udev("259:0", "S:disk/by-id/nvme-ACME_Q3")
    )
    written = [
        ConfiguredDrive("/dev/disk/by-id/ata-ACME_HDD_4000_Q2", slot="left", serial="Q2"),
        ConfiguredDrive("/dev/disk/by-id/nvme-ACME_Q3", slot="M.2"),
    ]
    result = found(machine, files, *written)
    assert ways(result) == ["/dev/sda -d sat", "/dev/sdb -d sat", "/dev/nvme0 -d nvme"]
    assert [t.slot for t in result.targets] == ["", "left", "M.2"]
    assert [(d.serial, t and t.path) for d, t in result.configured] == [
        ("Q2", "/dev/sdb"),
        ("", "/dev/nvme0"),
    ]


def test_a_configured_type_wins(machine: MachineMaker) -> None:
    """The same drive, polled as configured, and once."""
    drive = ConfiguredDrive("/dev/sdb", "sat,12", profile="basic")
    result = found(machine, PLAIN, drive, ConfiguredDrive("/dev/nvme0n1", slot="M.2"))
    assert ways(result) == ["/dev/sda -d sat", "/dev/sdb -d sat,12", "/dev/nvme0 -d nvme"]
    assert result.targets[1].profile == "basic"


def test_a_drive_that_is_written_down_twice(machine: MachineMaker) -> None:
    """Both entries mean 'sdb', so one of them is an error."""
    twice = [ConfiguredDrive("/dev/sdb", "sat,12"), ConfiguredDrive("/dev/sdb", "sat,16")]
    result = found(machine, PLAIN, *twice)
    assert ways(result) == ["/dev/sda -d sat", "/dev/sdb -d sat,16", "/dev/nvme0 -d nvme"]
    assert "expected one entry for a drive, got two" in result.problems[0]


def test_a_generic_device_is_the_disk_it_belongs_to(machine: MachineMaker) -> None:
    """'/dev/sg1' of 'sdb' is no second drive."""
    files = PLAIN | {"/sys/class/scsi_generic/sg1/device/block/sdb": None}
    result = found(machine, files, ConfiguredDrive("/dev/sg1", "sat"))
    assert ways(result) == ["/dev/sda -d sat", "/dev/sg1 -d sat", "/dev/nvme0 -d nvme"]


def test_what_is_ignored_nobody_misses(machine: MachineMaker) -> None:
    """Neither polled nor listed as unmonitored, be it a disk, a volume or a virtual disk."""
    files = PLAIN | {"/sys/block/vda/size": "2048\n"}
    names = ("sda", "nvme0n1", "vda", "sdz", "disk/by-id/usb-backup")
    ignored = [ConfiguredDrive(f"/dev/{name}", ignore=True) for name in names]
    result = found(machine, files, *ignored)
    assert ways(result) == ["/dev/sdb -d sat"]
    assert (result.unmonitored, result.problems) == ((), ())


def test_a_logical_unit_that_is_configured_is_queried(machine: MachineMaker) -> None:
    """Some arrays pass SMART on; a user who knows that can configure it."""
    files = (
        host("host5", "lpfc")
        | disk("5:0:0:1", "sda", "SEAGATE", "ST300")
        | {"/sys/class/fc_host/host5": None}
    )
    result = found(machine, files, ConfiguredDrive("/dev/sda"))
    assert ways(result) == ["/dev/sda -d scsi"]
    assert result.unmonitored == ()


@pytest.mark.parametrize(
    ("drive", "complaint"),
    [
        (ConfiguredDrive("/dev/sdx"), "'/dev/sdx': expected a drive there, got none"),
        (ConfiguredDrive("/dev/sg9"), "'/dev/sg9': expected a drive there, got none"),
        (ConfiguredDrive("/dev/disk/by-id/x"), "expected a link to a whole drive, got none"),
        (
            ConfiguredDrive("/dev/sg7", "areca,1"),
            "of the driver arcmsr there, got none; there is one at 0000:03:00.0",
        ),
        (
            ConfiguredDrive("0000:09:00.0", "megaraid,1"),
            "got none; is it installed? See 'lspci -k'",
        ),
        (ConfiguredDrive("/dev/sdc", "megaraid,1"), "expected a controller of the driver megaraid"),
        (ConfiguredDrive("/dev/sdc"), "got a volume of a RAID controller ('arcmsr')"),
    ],
)
def test_a_configured_drive_that_is_not_there(
    machine: MachineMaker, drive: ConfiguredDrive, complaint: str
) -> None:
    """It is reported, it is among the expected disks, and the others are discovered even so."""
    files = PLAIN | {path.replace("sda", "sdc"): text for path, text in ARECA.items()}
    result = found(machine, files, drive)
    assert complaint in result.problems[0]
    assert result.configured == ((drive, None),)
    assert len(result.targets) == 3


def test_a_drive_of_which_only_the_serial_number_is_written(machine: MachineMaker) -> None:
    """It may be anywhere: that is no problem of discovery."""
    drive = ConfiguredDrive(serial="WD-1")
    result = found(machine, PLAIN, drive)
    assert (result.configured, result.problems) == (((drive, None),), ())


def test_480_disks_are_cheap(machine: MachineMaker) -> None:
    """For each disk a handful of names is listed and nothing is read from it."""
    files = host("host0", "mpt3sas")
    for number in range(480):
        name = "sd" + (chr(96 + number // 26) if number >= 26 else "") + chr(97 + number % 26)
        files |= disk(f"0:0:{number}:0", name, "SEAGATE", "ST8000NM0075")
        slot = f"/sys/class/enclosure/0:0:{500 + number // 60}:0/Slot {number}"
        files[f"{slot}/device/block/{name}"] = None
    root = machine(files)
    topology = read_block(root)
    seen: list[str] = []
    root.watch(lambda path, _: seen.append(path))
    assert len(find(root, topology).targets) == 480
    assert len(seen) < 480 * 4
    assert sum(not path.endswith("/") for path in seen) < 10
