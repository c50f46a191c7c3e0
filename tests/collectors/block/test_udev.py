"""Disks in the udev database, under node_exporter's names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from iowarden.collectors.block.udev import (
    BlockSignature,
    emit,
    node_samples,
    parse_properties,
    parse_set_up_seconds,
    parse_signature,
    parse_zvol,
    read_udev,
)

if TYPE_CHECKING:
    from conftest import MachineMaker

DISKSTATS = "".join(
    f"{numbers} {name} 1 0 8 1 1 0 8 1 0 1 1\n"
    for numbers, name in (
        ("8 0", "sda"),
        ("8 1", "sda1"),
        ("7 0", "loop0"),
        ("253 0", "dm-0"),
        ("252 0", "zram0"),
        ("254 0", "vda"),
    )
)
SDA = """\
S:disk/by-id/ata-ST4000NM000A_WS20ABCD
I:1234567
E:ID_ATA=1
E:ID_MODEL=ST4000NM000A-2HZ100
E:ID_REVISION=TN02
E:ID_SERIAL=ST4000NM000A-2HZ100_WS20ABCD
E:ID_SERIAL_SHORT=WS20ABCD
E:ID_WWN=0x5000c500a1b2c3d4
E:ID_PATH=pci-0000:00:1f.2-ata-1
E:ID_ATA_WRITE_CACHE=1
E:ID_ATA_WRITE_CACHE_ENABLED=0
E:ID_ATA_ROTATION_RATE_RPM=7200
G:systemd
"""
DM = """\
E:DM_NAME=vg-data
E:DM_UUID=LVM-abc
E:DM_VG_NAME=vg
E:DM_LV_NAME=data
E:ID_FS_TYPE=xfs
E:ID_FS_USAGE=filesystem
E:ID_FS_UUID=0f5e
"""
FILES = {
    "/proc/diskstats": DISKSTATS,
    "/sys/block/sda/queue/rotational": "1\n",
    "/sys/block/dm-0/queue/rotational": "0\n",
    "/run/udev/data/b8:0": SDA,
    "/run/udev/data/b253:0": DM,
    "/run/udev/data/b254:0": "E:ID_SERIAL=root-1\n",
}


def test_an_ata_disk(machine: MachineMaker) -> None:
    """Identity with the serial number on the label, and what udev read from the drive."""
    samples = {
        (name, dict(labels)["device"]): (dict(labels), number)
        for name, labels, number in node_samples(read_udev(machine(FILES)))
    }
    assert samples["node_disk_info", "sda"] == (
        {
            "device": "sda",
            "major": "8",
            "minor": "0",
            "model": "ST4000NM000A-2HZ100",
            "path": "pci-0000:00:1f.2-ata-1",
            "revision": "TN02",
            "rotational": "1",
            "serial": "WS20ABCD",
            "wwn": "0x5000c500a1b2c3d4",
        },
        1,
    )
    assert samples["node_disk_ata_write_cache", "sda"][1] == 1
    assert samples["node_disk_ata_write_cache_enabled", "sda"][1] == 0
    assert samples["node_disk_ata_rotation_rate_rpm", "sda"][1] == 7200
    assert ("node_disk_filesystem_info", "sda") not in samples


def test_a_logical_volume_with_a_file_system(machine: MachineMaker) -> None:
    """Its names and its file system; what udev does not have is an empty label."""
    samples = {
        name: dict(labels)
        for name, labels, _ in node_samples(read_udev(machine(FILES)))
        if dict(labels)["device"] == "dm-0"
    }
    assert samples["node_disk_device_mapper_info"] == {
        "device": "dm-0",
        "lv_layer": "",
        "lv_name": "data",
        "name": "vg-data",
        "uuid": "LVM-abc",
        "vg_name": "vg",
    }
    assert samples["node_disk_filesystem_info"] == {
        "device": "dm-0",
        "type": "xfs",
        "usage": "filesystem",
        "uuid": "0f5e",
        "version": "",
    }
    assert not any(name.startswith("node_disk_ata_") for name in samples)


def test_serials_by_what_is_there(machine: MachineMaker) -> None:
    """SCSI's own precedes udev's short one; virtio has only the long one."""
    files = FILES | {"/run/udev/data/b8:0": SDA + "E:SCSI_IDENT_SERIAL=SCSI-7\n"}
    serials = {
        dict(labels)["device"]: dict(labels)["serial"]
        for name, labels, _ in node_samples(read_udev(machine(files)))
        if name == "node_disk_info"
    }
    assert serials == {"sda": "SCSI-7", "dm-0": "", "vda": "root-1"}


def test_a_machine_without_udev_shows_its_disks_without(machine: MachineMaker) -> None:
    """In a container there is no database: numbers and name are available even so."""
    value = read_udev(machine({"/proc/diskstats": DISKSTATS}))
    assert list(value) == ["sda", "dm-0", "vda"]
    info = dict(next(iter(node_samples(value)))[1])
    assert (info["major"], info["rotational"], info["serial"]) == ("8", "0", "")
    assert emit(value)[0] == ("iowarden_device_path_info", (("device", "sda"), ("path", "")), 1)


@given(st.text() | st.lists(st.from_regex(r"E:[A-Z_]+=.*")).map("\n".join))
def test_any_text_is_some_properties(text: str) -> None:
    """A property is returned unchanged."""
    for key, value in parse_properties(text).items():
        assert f"E:{key}={value}" in text


def test_since_when_a_device_is_there() -> None:
    """Its first set-up by udev; an old one, or a container, has none."""
    assert parse_set_up_seconds("S:disk/by-id/x\nI:1935278\nE:ID_TYPE=disk\n") == 1.935278
    for text in ("", "E:I:12\n", "I:12x\n", "I:\n", f"I:{9 * 10**30}\n"):
        assert parse_set_up_seconds(text) is None


def test_a_label_is_shown_as_it_was_written_but_for_what_could_be_a_line() -> None:
    """The label of a USB stick may be anything; blanks are common in those of pools and arrays."""
    text = "E:ID_FS_TYPE=zfs_member\nE:ID_FS_LABEL=my_tank_x\nE:ID_FS_LABEL_ENC=my\\x20tank\\x0ax\n"
    assert parse_signature(text) == BlockSignature("zfs_member", "my tank\\x0ax")
    assert parse_signature("E:ID_FS_LABEL=x\n") is None
    incomplete = "E:ID_FS_TYPE=LVM2_member\nE:LVM_VG_NAME_INCOMPLETE='vg0'\n"
    assert parse_signature(incomplete) == BlockSignature("LVM2_member", "vg0")


@given(st.text())
def test_any_text_of_the_database_is_read(text: str) -> None:
    """A truncated or invalid file gives nothing or something; always one line."""
    own = parse_signature(text)
    assert own is None or "\n" not in own.group
    assert "\n" not in parse_zvol(text)
