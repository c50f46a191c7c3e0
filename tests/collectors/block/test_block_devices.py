"""Stacks of disks, arrays and mapped devices, and the identity of disks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.loops import loops

from iowarden.collectors.block.block_devices import (
    Md,
    copies,
    emit,
    parse_number,
    read_block,
)
from iowarden.collectors.block.disk_identity import parse_serial_page, parse_wwn
from iowarden.collectors.filesystem.btrfs_owner import FileSystem
from iowarden.collectors.machine import Machine
from iowarden.collectors.model import AbsentError

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import MachineMaker

Files = dict[str, str | bytes | None]


def disk(name: str, **attributes: str | bytes) -> Files:
    """Files of a device; a double underscore stands for '/'."""
    path = f"/sys/block/{name}"
    files: Files = {f"{path}/slaves": None, f"{path}/holders": None, f"{path}/size": "2048\n"}
    return files | {f"{path}/{key.replace('__', '/')}": text for key, text in attributes.items()}


def array(name: str, level: str, disks: str, layout: str = "0\n") -> Files:
    """Files of a software RAID array."""
    return disk(
        name,
        md__level=level,
        md__raid_disks=disks,
        md__layout=layout,
        md__chunk_size="65536\n",
    )


SCSI = disk(
    "sda",
    dev="8:0\n",
    queue__rotational="1\n",
    diskseq="7\n",
    removable="0\n",
    ro="1\n",
    device__timeout="30\n",
    device__vendor="ATA     \n",
    device__model="ST4000NM000A-2HZ\n",
    device__wwid="naa.5000c500a1b2c3d4\n",
    device__vpd_pg80=b"\x00\x80\x00\x0c    WS20ABCD\x00\xff",
) | {"/sys/block/sda/device/scsi_device/2:0:1:0": None}


def test_a_scsi_disk_is_its_serial_number(machine: MachineMaker) -> None:
    """The serial number is in a binary page, the host adapter in the address H:C:T:L."""
    device = read_block(machine(SCSI)).devices["sda"]
    assert device.leaf
    assert (device.model, device.vendor) == ("ST4000NM000A-2HZ", "ATA")
    assert (device.serial, device.wwn) == ("WS20ABCD", "0x5000c500a1b2c3d4")
    assert (device.host, device.device_number) == ("host2", "8:0")
    assert (device.size_bytes, device.diskseq) == (2048 * 512, 7)
    assert (device.timeout_seconds, device.rotational) == (30.0, True)
    assert (device.removable, device.read_only) == (False, True)


def test_an_ata_disk_is_at_the_port_that_the_log_names(machine: MachineMaker) -> None:
    """ata3 is the SCSI host 2 here; a second disk, or one behind a port multiplier, is ata3.01."""
    port = "/sys/class/ata_port/ata3/device"
    files = SCSI | disk("sdb", device__timeout="30\n") | disk("sdc", device__timeout="30\n")
    files |= {
        "/sys/block/sdb/device/scsi_device/2:1:0:0": None,
        "/sys/block/sdc/device/scsi_device/2:0:0:0": None,
        f"{port}/host2": None,
        f"{port}/link3": None,
        f"{port}/ata_port": None,
        "/sys/class/ata_port/ata4/device/link4": None,
    }
    devices = read_block(machine(files)).devices
    found = {n: (d.address, d.host, d.port, d.port_number) for n, d in devices.items()}
    assert found == {
        "sda": ("2:0:1:0", "host2", "ata3", 1),
        "sdb": ("2:1:0:0", "host2", "ata3", 1),
        "sdc": ("2:0:0:0", "host2", "ata3", 0),
    }


def test_a_disk_of_a_sas_adapter_is_at_no_ata_port(machine: MachineMaker) -> None:
    """The ports that libsas makes have no SCSI host of their own below them."""
    device = read_block(machine(SCSI | {"/sys/class/ata_port/ata2/device/link2": None})).devices[
        "sda"
    ]
    assert (device.address, device.port, device.port_number) == ("2:0:1:0", None, None)


def test_a_sas_disk_hangs_off_the_expander_that_its_end_device_is_named_after(
    machine: MachineMaker,
) -> None:
    """'end_device-2:0:7' is port 7 of expander-2:0; 'end_device-2:1' is a disk of the adapter."""
    sas = "/sys/class/sas_end_device"
    files = SCSI | disk("sdb", device__timeout="30\n")
    files |= {
        "/sys/block/sdb/device/scsi_device/2:0:5:0": None,
        f"{sas}/end_device-2:0:7/device/target2:0:1": None,
        f"{sas}/end_device-2:0:7/device/sas_end_device": None,
        f"{sas}/end_device-2:1/device/target2:0:5": None,
        "/sys/class/sas_device/expander-2:0/sas_address": "0x500304801f2e9abf\n",
    }
    found = read_block(machine(files))
    assert {name: each.shelf for name, each in found.devices.items()} == {
        "sda": "expander-2:0",
        "sdb": None,
    }
    assert found.shelves == {"expander-2:0": "0x500304801f2e9abf"}


def test_a_disk_without_an_expander_hangs_off_the_enclosure_of_its_slot(
    machine: MachineMaker,
) -> None:
    """Only links are read: an attribute of a slot would ask the enclosure, which may hang."""
    slots = "/sys/class/enclosure/2:0:9:0"
    files = SCSI | disk("sdb", device__timeout="30\n")
    files |= {
        "/sys/block/sdb/device/scsi_device/2:0:5:0": None,
        f"{slots}/Slot 01/device/block/sda": None,
        f"{slots}/Slot 02/status": "not installed\n",
        f"{slots}/id": "0x500304801f2e9abd\n",
        f"{slots}/device/type": "13\n",
    }
    found = read_block(machine(files))
    assert {name: each.shelf for name, each in found.devices.items()} == {
        "sda": "enclosure 2:0:9:0",
        "sdb": None,
    }
    assert found.shelves == {"enclosure 2:0:9:0": "0x500304801f2e9abd"}
    sas = "/sys/class/sas_end_device/end_device-2:0:7/device/target2:0:1"
    assert read_block(machine(files | {sas: None})).devices["sda"].shelf == "expander-2:0"


def test_the_address_of_a_disk_of_linux_2_6_18_is_a_link(machine: MachineMaker) -> None:
    """'scsi_device:2:0:1:0', where later kernels have a directory."""
    files = SCSI | {"/sys/block/sda/device/scsi_device:2:0:1:0/uevent": ""}
    del files["/sys/block/sda/device/scsi_device/2:0:1:0"]
    assert read_block(machine(files)).devices["sda"].host == "host2"


def test_an_address_that_is_none_is_not_taken(machine: MachineMaker) -> None:
    """Other entries of that directory are no SCSI addresses."""
    files = SCSI | {"/sys/block/sda/device/scsi_device/power": None}
    del files["/sys/block/sda/device/scsi_device/2:0:1:0"]
    device = read_block(machine(files)).devices["sda"]
    assert (device.address, device.host) == (None, None)


def test_identities_of_nvme_and_virtio(machine: MachineMaker) -> None:
    """NVMe has serial number and wwid of its controller, virtio a serial number; neither a host."""
    files = disk(
        "nvme0n1",
        device__serial="S5GXNX0R\n",
        device__model="SAMSUNG MZQL2\n",
        wwid="eui.36344730\n",
        queue__io_timeout="30000\n",
    )
    files |= disk("vda", serial="root-1\n", device__vendor="0x1af4\n")
    devices = read_block(machine(files)).devices
    assert (devices["nvme0n1"].serial, devices["nvme0n1"].wwn) == ("S5GXNX0R", "eui.36344730")
    assert devices["nvme0n1"].timeout_seconds == 30.0
    assert (devices["vda"].serial, devices["vda"].model, devices["vda"].host) == (
        "root-1",
        None,
        None,
    )


def test_an_array_of_partitions_stands_on_their_disks(machine: MachineMaker) -> None:
    """md0 on sda1 and sdb1, LVM on it: slaves and holders are whole devices."""
    files = array("md0", "raid1\n", "2\n") | disk("dm-0", dm__name="vg-data\n")
    for name in ("sda", "sdb"):
        files |= disk(name) | {
            f"/sys/block/{name}/{name}1/partition": "1\n",
            f"/sys/block/{name}/{name}1/holders/md0": None,
            f"/sys/block/md0/slaves/{name}1": None,
        }
    files |= {"/sys/block/md0/holders/dm-0": None, "/sys/block/dm-0/slaves/md0": None}
    topology = read_block(machine(files))
    devices = topology.devices
    assert topology.leaves == ("sda", "sdb")
    assert (devices["sda"].holders, devices["sda"].partitions) == (("md0",), ("sda1",))
    assert (devices["md0"].slaves, devices["md0"].holders) == (("sda", "sdb"), ("dm-0",))
    assert devices["md0"].md == Md("raid1", 2, 0, 2, 65_536)
    assert devices["dm-0"].dm_name == "vg-data"


def test_what_is_no_disk_is_no_leaf(machine: MachineMaker) -> None:
    """Loop, RAM, CD and floppy devices and arrays without members have no slaves either."""
    files: Files = {}
    for name in (
        "loop0",
        "ram1",
        "zram0",
        "sr0",
        "fd0",
        "md127",
        "md_d0",
        "dm-3",
        "zd16",
        "drbd0",
        "nbd0",
        "sdaa",
    ):
        files |= disk(name)
    assert read_block(machine(files)).leaves == ("nbd0", "sdaa")


ROOT_MOUNT = "21 1 8:0 / / rw - ext4 /dev/sda rw\n"


def made_in_advance(name: str, number: str, sectors: int = 0) -> Files:
    """Files of a device that its driver made and that nobody uses yet."""
    return disk(name, dev=f"{number}\n", size=f"{sectors}\n")


UNUSED = (
    made_in_advance("loop0", "7:0")
    | made_in_advance("ram0", "1:0", 8192)
    | made_in_advance("zram0", "252:0")
    | made_in_advance("nbd0", "43:0")
    | disk("sda")
)


def test_devices_that_hold_nothing_yet_are_left_out(machine: MachineMaker) -> None:
    """A loop device without file, RAM disk without user, zram without size, nbd without server."""
    files = UNUSED | {"/proc/1/mountinfo": ROOT_MOUNT}
    assert list(read_block(machine(files)).devices) == ["sda"]


@pytest.mark.parametrize(
    ("name", "use"),
    [
        # A file shorter than a sector: loop.c rounds the size down.
        ("loop0", {"/sys/block/loop0/loop/backing_file": "/srv/tiny\n"}),
        # Kernels before 2.6.37 have no 'loop/backing_file'.
        ("loop0", {"/sys/block/loop0/size": "2048\n"}),
        ("zram0", {"/sys/block/zram0/size": "2048\n"}),
        ("nbd0", {"/sys/block/nbd0/size": "2048\n"}),
        # Its server was lost, and what is mounted stays.
        ("nbd0", {"/proc/1/mountinfo": ROOT_MOUNT + "22 1 43:0 / /a rw - xfs /dev/nbd0 rw\n"}),
        ("ram0", {"/proc/1/mountinfo": ROOT_MOUNT + "22 1 1:0 / /a rw - ext2 /dev/ram0 rw\n"}),
        ("ram0", {"/sys/block/ram0/ram0p1/partition": "1\n"}),
        ("ram0", {"/sys/block/ram0/holders/dm-0": None}),
        (
            "ram0",
            {"/proc/swaps": "Filename Type Size Used Priority\n/dev/ram0 partition 4092 0 -2\n"},
        ),
    ],
)
def test_a_device_made_in_advance_is_there_once_it_holds_or_carries_something(
    machine: MachineMaker, name: str, use: Files
) -> None:
    """The others stay left out."""
    files = UNUSED | {"/proc/1/mountinfo": ROOT_MOUNT} | use
    assert set(read_block(machine(files)).devices) == {"sda", name}


def test_while_the_mounts_are_not_known_no_device_is_left_out(machine: MachineMaker) -> None:
    """With hidepid nobody but root reads them: a RAM disk may carry a file system."""
    assert len(read_block(machine(UNUSED)).devices) == 5


def test_a_real_loop_device_is_listed_while_it_has_its_file(tmp_path: Path) -> None:
    """As the running kernel has it."""
    with loops(tmp_path, 1, 1) as [(name, image)]:
        assert read_block(Machine("/")).devices[name].backing_file == str(image)


def test_the_paths_of_an_nvme_namespace_are_its_leaves(machine: MachineMaker) -> None:
    """With native multipath the kernel links nothing: requests hang at a path, not at the head."""
    state = {"/sys/block/nvme0c1n1/device/state": "connecting\n"}
    state |= {"/sys/block/nvme0c1n1/device/transport": "tcp\n"}
    files = disk("nvme0n1") | disk("nvme0c0n1") | disk("nvme0c1n1") | state
    topology = read_block(machine(files))
    assert topology.leaves == ("nvme0c0n1", "nvme0c1n1")
    assert topology.devices["nvme0c1n1"].state == "connecting"
    assert topology.devices["nvme0c1n1"].transport == "tcp"
    assert topology.devices["nvme0n1"].slaves == ("nvme0c0n1", "nvme0c1n1")
    assert topology.devices["nvme0c1n1"].holders == ("nvme0n1",)


@pytest.mark.parametrize(
    ("controller", "ana_group", "expected"),
    [
        ("live", None, "live"),
        ("live", "optimized", "live"),
        ("live", "non-optimized", "non-optimized"),
        ("live", "inaccessible", "inaccessible"),
        ("live", "persistent-loss", "persistent-loss"),
        ("live", "change", "change"),
        ("connecting", "optimized", "connecting"),
        (None, "optimized", None),
    ],
)
def test_a_live_controller_is_no_usable_path_while_its_ana_group_is_not(
    machine: MachineMaker, controller: str | None, ana_group: str | None, expected: str | None
) -> None:
    """The group is as last reported, also by a controller that is no longer connected."""
    states = {"device/state": controller, "ana_state": ana_group}
    files = disk("nvme0n1") | disk("nvme0c0n1")
    files |= {f"/sys/block/nvme0c0n1/{n}": f"{text}\n" for n, text in states.items() if text}
    assert read_block(machine(files)).devices["nvme0c0n1"].state == expected


@pytest.mark.parametrize(
    ("level", "disks", "layout", "expected"),
    [
        ("raid1", 3, 0, 3),
        ("raid10", 4, 0x102, 2),  # near 2, far 1
        ("raid10", 4, 0x201, 2),  # near 1, far 2
        ("raid10", 4, 0x10201, 2),  # far, offset
        ("raid10", 6, 0x302, 6),
        ("raid10", 4, None, None),
        ("raid5", 4, 2, None),
        (None, None, None, None),
    ],
)
def test_copies_of_a_block(
    level: str | None, disks: int | None, layout: int | None, expected: int | None
) -> None:
    """raid10 has near times far copies; a parity level has none."""
    assert copies(level, disks, layout) == expected


def test_a_reshaping_array_reports_the_shape_it_will_have(machine: MachineMaker) -> None:
    """The kernel prints '4 (3)' then; for an array that is being assembled nothing."""
    devices = read_block(
        machine(array("md0", "raid5\n", "4 (3)\n") | array("md1", "\n", "", ""))
    ).devices
    assert devices["md0"].md == Md("raid5", 4, 0, None, 65_536)
    assert devices["md1"].md == Md(None, None, None, None, 65_536)


def test_an_attribute_that_cannot_be_read_is_unknown(machine: MachineMaker) -> None:
    """A faulty disk answers some attributes with an error: the others remain."""
    files = SCSI | {
        "/sys/block/sda/queue/rotational/x": None,
        "/sys/block/sda/device/vpd_pg80": b"\0",
    }
    del files["/sys/block/sda/queue/rotational"]
    device = read_block(machine(files)).devices["sda"]
    assert (device.rotational, device.serial) == (None, None)
    assert device.model == "ST4000NM000A-2HZ"


def test_a_device_that_vanishes_while_it_is_read_is_left_out(machine: MachineMaker) -> None:
    """It was listed and is no longer a directory: no device, no error."""
    topology = read_block(machine(SCSI | {"/sys/block/sdb": "gone"}))
    assert list(topology.devices) == ["sda"]


def test_a_name_that_is_no_utf_8_is_shown_escaped(machine: MachineMaker) -> None:
    """The byte is escaped, in the device and in references to it."""
    name = b"sd\xff".decode(errors="surrogateescape")
    files = disk(name) | disk("dm-0") | {f"/sys/block/dm-0/slaves/{name}": None}
    topology = read_block(machine(files))
    assert topology.leaves == ("sd\\xff",)
    assert topology.devices["dm-0"].slaves == ("sd\\xff",)


def test_a_machine_without_sysfs_is_absent(machine: MachineMaker) -> None:
    """A missing '/sys/block' does not mean a machine without disks."""
    with pytest.raises(AbsentError, match="/sys/block"):
        read_block(machine({"/proc/stat": ""}))


def test_series_name_the_disk(machine: MachineMaker) -> None:
    """The info series carries the identity, unknown parts empty; loop devices have no series."""
    samples = emit(read_block(machine(SCSI | disk("loop0") | disk("sdb"))))
    info = {labels for name, labels, _ in samples if name == "iowarden_device_info"}
    assert info == {
        (
            ("device", "sda"),
            ("model", "ST4000NM000A-2HZ"),
            ("serial", "WS20ABCD"),
            ("wwn", "0x5000c500a1b2c3d4"),
        ),
        (("device", "sdb"), ("model", ""), ("serial", ""), ("wwn", "")),
    }
    assert ("iowarden_device_timeout_seconds", (("device", "sda"),), 30.0) in samples
    assert ("iowarden_device_read_only", (("device", "sda"),), 1.0) in samples
    timeouts = [labels for name, labels, _ in samples if name == "iowarden_device_timeout_seconds"]
    assert timeouts == [(("device", "sda"),)]


def test_a_name_that_repeats_model_and_serial_is_no_wwn() -> None:
    """'t10.' identifiers of ATA disks are vendor, model and serial number again."""
    assert parse_wwn("t10.ATA     QEMU HARDDISK   QM00005\n") is None


@given(st.text())
def test_any_text_is_a_number_or_none(text: str) -> None:
    """No content of an attribute raises."""
    number = parse_number(text)
    assert number is None or number >= 0


@given(st.binary() | st.binary().map(lambda tail: b"\x00\x80\x00\x08" + tail))
def test_any_page_is_a_serial_number_or_none(page: bytes) -> None:
    """A page that is short, padded or invalid gives no serial number, never an empty one."""
    assert parse_serial_page(page) != ""


def test_devices_and_partitions_have_all_their_names(machine: MachineMaker) -> None:
    """A mount names '/dev/mapper/vg-data', a line of the kernel log 253:0, sysfs 'dm-0'."""
    files = disk("sda", dev="8:0\n") | disk("loop0", dev="7:0\n", loop__backing_file="/srv/a\n")
    files |= disk("dm-0", dev="253:0\n", dm__name="vg-data\n", dm__uuid="LVM-abc\n")
    files |= {"/sys/block/sda/sda1/partition": "1\n", "/sys/block/sda/sda1/dev": "8:1\n"}
    found = read_block(machine(files))
    for name in ("/dev/dm-0", "/dev/mapper/vg-data", "/dev/vg/data", "253:0"):
        assert found.kernel_name(name) == "dm-0"
    assert found.whole("8:1") is found.devices["sda"]
    assert found.devices["dm-0"].dm_uuid == "LVM-abc"
    assert found.devices["loop0"].backing_file == "/srv/a"


def test_a_partition_is_reported_with_what_holds_it_and_all_of_a_btrfs(
    machine: MachineMaker,
) -> None:
    """A member of an array is a partition; a btrfs is on two disks, a mount names one."""
    files = disk("sda") | disk("sdb") | disk("md0")
    files |= {"/sys/block/sda/sda1/partition": "1\n", "/sys/block/sda/sda1/holders/md0": None}
    pool = "/sys/fs/btrfs/0f3a5b1e-1111-2222-3333-444455556666/devices"
    found = read_block(machine(files | {f"{pool}/sda2": None, f"{pool}/sdb": None}))
    assert found.devices["sda"].uses == (("sda1", "md0"),)
    uuid = "0f3a5b1e-1111-2222-3333-444455556666"
    assert found.btrfs == dict.fromkeys(("sda2", "sdb"), FileSystem(uuid, ("sda2", "sdb")))
