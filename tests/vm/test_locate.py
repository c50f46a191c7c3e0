"""A real kernel fails to read a sector: the file that is named is the one that has it.

The disks' bytes say where a file is: they are searched for its content, whatever stands between.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from vm.harness import MEBIBYTE, Disk, wait_for
from vm.watched import text_of, watching

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vm.conftest import Boot
    from vm.harness import VM

SECTORS = 8
"""Of a block, by which the files are searched for."""
DISKS = tuple(
    Disk(name, size * MEBIBYTE)
    for name, size in (
        *(("plain", 128), ("left", 128), ("right", 128)),
        *(("one", 128), ("two", 128), ("three", 128), ("volume", 512)),
    )
)
_PARTITION = """
import struct, sys
with open(sys.argv[1], "r+b") as disk:
    disk.seek(446)
    disk.write(struct.pack("<B3sB3sII", 0, b"", 0x83, b"", 2048, 200_000))
    disk.seek(510)
    disk.write(b"\\x55\\xaa")
"""
_WRITE = """
import os, random, sys
directory = sys.argv[1]
for number in range(6):
    with open(f"{directory}/file {number}", "wb") as file:
        file.write(random.Random(f"{directory} {number}").randbytes(1_500_000))
os.sync()
"""
_SEARCH = """
import mmap, os, random, sys
directory, *disks = sys.argv[1:]
for number in range(6):
    content = random.Random(f"{directory} {number}").randbytes(1_500_000)
    for offset in range(0, 1_400_000, 4096 * 40):
        for disk in disks:
            descriptor = os.open("/dev/" + disk, os.O_RDONLY)
            size = os.lseek(descriptor, 0, os.SEEK_END)
            with mmap.mmap(descriptor, size, prot=mmap.PROT_READ) as raw:
                at = raw.find(content[offset:offset + 4096])
            os.close(descriptor)
            if at >= 0:
                print(disk, at // 512, number, offset)
                break
"""
_LINE = re.compile(r"(?:I/O|critical medium) error, dev (\w+), sector (\d+) op 0x0")


@dataclass(frozen=True, slots=True)
class Block:
    """A block of a file, and where the disks have it."""

    disk: str
    sector: int
    path: str
    offset_bytes: int


@pytest.fixture(scope="module")
def vm(boot: Boot) -> Iterator[VM]:
    """Boot a guest with all the disks; make on them what is to be followed."""
    with boot(DISKS, memory_mebibytes=1024) as vm:
        # The service's own probe, so that its sandbox has to let all of it happen. Its socket stops
        # when nobody needs it: somebody does.
        need = "--property=Requires=iowarden-probe.socket --property=After=iowarden-probe.socket"
        vm.run(f"systemd-run --quiet {need} sleep infinity")
        device = {disk.name: f"/dev/{vm.device(disk.name)}" for disk in DISKS}
        create = "mdadm --create --quiet --run --assume-clean --metadata=1.2"
        vm.run(f"python3 - {device['plain']}", _PARTITION.encode())
        vm.run(f"blockdev --rereadpt {device['plain']}; udevadm settle")
        vm.run(
            f"{create} /dev/md1 --level=1 --raid-devices=2 --bitmap=internal"
            f" {device['left']} {device['right']}"
        )
        members = " ".join(device[name] for name in ("one", "two", "three"))
        vm.run(f"{create} /dev/md5 --level=5 --chunk=64 --raid-devices=3 {members}")
        vm.run(f"vgcreate -q rack {device['volume']} && lvcreate -q -y -n shelf -L 400M rack")
        for source, where in ((f"{device['plain']}1", "plain"), ("/dev/md1", "mirror")):
            vm.run(f"mkfs.ext4 -q -F {source} && mkdir /srv/{where} && mount {source} /srv/{where}")
        vm.run("mkfs.ext4 -q -F -b 1024 /dev/md5 && mkdir /srv/stripes")
        vm.run("mount /dev/md5 /srv/stripes")
        vm.run("mkfs.xfs -q -m rmapbt=1 /dev/rack/shelf && mkdir /srv/shelf")
        vm.run("mount /dev/rack/shelf /srv/shelf")
        for where in ("plain", "mirror", "stripes", "shelf"):
            vm.run(f"python3 - /srv/{where}", _WRITE.encode())
        vm.run("sync; echo 3 > /proc/sys/vm/drop_caches")
        yield vm


def blocks(vm: VM, where: str, *disks: str) -> list[Block]:
    """Return blocks of the files below a mount point, wherever the disks have their bytes."""
    names = {vm.device(name): name for name in disks}
    text = vm.run(f"python3 - /srv/{where} {' '.join(names)}", _SEARCH.encode(), 600.0)
    rows = [line.split() for line in text.splitlines()]
    return [
        Block(names[disk], int(sector), f"/srv/{where}/file {number}", int(offset))
        for disk, sector, number, offset in rows
    ]


def told(vm: VM, block: Block) -> dict[str, Any]:
    """Have the disk fail to read a block; locate what the kernel says of it."""
    device = vm.device(block.disk)
    vm.damage(block.disk, "read", block.sector)
    try:
        vm.run(
            f"dmesg --clear; ! dd if=/dev/{device} of=/dev/null iflag=direct"
            f" skip={block.sector} count={SECTORS}"
        )
        lines = _LINE.findall(vm.run("dmesg"))
    finally:
        vm.repair(block.disk)
    assert (device, str(block.sector)) in lines
    return located(vm, device, block.sector, SECTORS)


def located(vm: VM, device: str, sector: int, count: int = 1) -> dict[str, Any]:
    """Return the one answer; ask again while a busy machine starts the probe too late."""
    command = f"iowarden locate --json {device} {sector}+{count} || true"
    found: list[dict[str, Any]] = []

    def told() -> bool:
        found[:] = json.loads(vm.run(command, b"", 300.0))["answers"]
        return not any("no connection to the probe" in each["text"] for each in found)

    wait_for(told, "an answer of the probe", 300.0)
    (answer,) = found
    return answer


@pytest.mark.parametrize(
    ("where", "disks", "array"),
    [
        ("plain", ("plain",), ""),
        ("mirror", ("left",), "md1"),
        ("mirror", ("right",), "md1"),
        ("stripes", ("one", "two", "three"), "md5"),
        ("shelf", ("volume",), ""),
    ],
)
def test_the_file_that_cannot_be_read_is_the_one_that_is_named(
    vm: VM, where: str, disks: tuple[str, ...], array: str
) -> None:
    """Partition and ext4, a mirror, a raid5 with blocks of 1 KiB, LVM and XFS."""
    found = blocks(vm, where, *disks)
    assert {block.disk for block in found} == {*disks}
    for block in found[:: max(len(found) // 3, 1)]:
        answer = told(vm, block)
        assert (answer["kind"], answer["path"]) == ("file", block.path), answer
        assert (answer["offset_bytes"], answer["bytes"]) == (block.offset_bytes, 4096)
        assert answer["array"] == array


@pytest.mark.parametrize(("where", "disk"), [("plain", "plain"), ("shelf", "volume")])
def test_of_files_without_a_copy_only_the_named_one_has_another_checksum(
    vm: VM, where: str, disk: str
) -> None:
    """Read from the disk, without what is cached, it is shorter; the others are what they were."""
    block = blocks(vm, where, disk)[7]
    sums = (
        f"cd /srv/{where}; for f in file*;"
        ' do echo "$f $(dd if="$f" bs=4096 iflag=direct status=none | cksum)"; done'
    )
    before = vm.run(sums).splitlines()
    path = told(vm, block)["path"]
    vm.damage(disk, "read", block.sector)
    try:
        after = vm.run(sums).splitlines()
    finally:
        vm.repair(disk)
    (changed,) = (line for line, was in zip(after, before, strict=True) if line != was)
    assert changed.startswith(path.rpartition("/")[2] + " ")


def test_parity_is_no_files(vm: VM) -> None:
    """Chunks that no file's bytes are in: one of three is parity, and told as that."""
    device = vm.device("one")
    offset = int(vm.run(f"cat /sys/block/md5/md/dev-{device}/offset"))
    kinds = []
    for row in range(3):
        sector = offset + row * 128
        kinds.append(located(vm, device, sector)["kind"])
    assert kinds.count("parity") == 1


@pytest.mark.parametrize(
    ("where", "disk", "spared"), [("plain", "plain", ""), ("mirror", "left", "md1")]
)
def test_the_mail_about_the_error_names_the_file(
    vm: VM, where: str, disk: str, spared: str
) -> None:
    """The service and its probe; a disk that cannot be read, with and without another copy."""
    block = blocks(vm, where, disk)[5]
    device = vm.device(disk)
    with watching(vm, "warning_group_wait: 20s\n") as watched:
        vm.damage(disk, "read", block.sector)
        try:
            vm.run(f"! dd if=/dev/{device} of=/dev/null iflag=direct skip={block.sector} count=1")
            wait_for(lambda: watched.mail.naming(f"/srv/{where}/"), "a mail with the file", 300.0)
        finally:
            vm.repair(disk)
        text = " ".join(text_of(watched.mail.naming(f"/srv/{where}/")[0]).split())
    assert set(re.findall(r"/srv/\w+/file \d", text)) == {block.path}
    first = block.offset_bytes
    place = f"{device} sector {block.sector} (512 B): file {block.path}"
    assert f"{place}, bytes {first} to {first + 511}" in text
    if spared:
        assert f"file {block.path}, which {spared} can still read from other members" in text
        assert f"echo check > /sys/block/{spared}/md/sync_action" in text
        assert "dd if=/dev/zero" not in text
    else:
        assert f"of='{block.path}'" in text
        assert re.search(rf"destroys: bytes {first} to \d+ of the file, permanently", text)
