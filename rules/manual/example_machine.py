"""The machine of the example objects: what the steps of advice are about in a manual. Pure.

Two SATA disks are members of an md array with a logical volume on it; a LUN has two paths. Where an
alert is about an array that survives one more failure, it has a third member. Advice names no other
device than these.
"""

from __future__ import annotations

import enum
import functools
from dataclasses import replace

from iowarden.collectors.block.block_devices import Device, Md, topology
from iowarden.collectors.filesystem.mountinfo import Mount
from iowarden.collectors.md.mdstat import ArrayMember, MdArray
from iowarden.collectors.smart.drive import AccessMethod, PollResult, ReadStatus
from iowarden.rules.advice.dirty_limits import Backlog
from iowarden.rules.advice.facts import AdviceInputs, Facts
from iowarden.rules.manual.example import BYTES_PER_SECOND, SERIAL
from iowarden.rules.topology.device_changes import Devices, VanishedDisk
from iowarden.rules.topology.device_identity import identity
from iowarden.rules.topology.inventory import InventoryDisk
from iowarden.rules.topology.slot_map import DeviceMap

_BYTES = 4 * 10**12
_DISK = Device(
    name="sda",
    device_number="8:0",
    slaves=(),
    holders=("md0",),
    partitions=("sda1",),
    leaf=True,
    size_bytes=_BYTES,
    rotational=True,
    model="EXAMPLE HDD",
    vendor="ATA",
    serial=SERIAL,
    wwn=None,
    timeout_seconds=30.0,
    host="host0",
    dm_name=None,
    md=None,
    address="0:0:0:0",
    port="ata1",
    uses=(("sda1", "md0"),),
)
_DEVICES = (
    _DISK,
    replace(
        _DISK,
        name="sdb",
        device_number="8:16",
        partitions=("sdb1",),
        serial="ZFN1EXMP",
        host="host1",
        address="1:0:0:0",
        port="ata2",
        uses=(("sdb1", "md0"),),
    ),
    *(
        replace(
            _DISK,
            name=name,
            device_number=number,
            holders=("dm-1",),
            partitions=(),
            serial="LUN-1",
            vendor="EXAMPLE",
            model="ARRAY",
            host=host,
            address=f"{host.removeprefix('host')}:0:0:1",
            port=None,
            uses=((name, "dm-1"),),
        )
        for name, number, host in (("sdc", "8:32", "host6"), ("sdd", "8:48", "host7"))
    ),
    *(
        replace(
            _DISK,
            name=name,
            device_number=number,
            slaves=slaves,
            holders=holders,
            partitions=(),
            leaf=False,
            model=None,
            vendor=None,
            serial=None,
            timeout_seconds=None,
            host=None,
            address=None,
            port=None,
            dm_name=dm_name,
            dm_uuid=uuid,
            md=md,
            uses=(),
        )
        for name, number, slaves, holders, dm_name, uuid, md in (
            ("md0", "9:0", ("sda", "sdb"), ("dm-0",), None, None, Md("raid1", 2, 0, 2, 0)),
            ("dm-0", "253:0", ("md0",), (), "vg-data", "LVM-example", None),
            ("dm-1", "253:1", ("sdc", "sdd"), (), "mpatha", "mpath-example", None),
        )
    ),
)
_IN_SYNC = ("in_sync",)
_ARRAY = MdArray(
    "md0",
    "raid1",
    "active",
    2,
    0,
    "idle",
    None,
    None,
    0,
    None,
    None,
    (ArrayMember("sda1", 0, _IN_SYNC), ArrayMember("sdb1", 1, _IN_SYNC)),
)
_FAULTY_ARRAY = replace(
    _ARRAY,
    degraded=1,
    members=(ArrayMember("sda1", 0, ("faulty",)), ArrayMember("sdb1", 1, _IN_SYNC)),
)
_THIRD_DISK = replace(
    _DISK,
    name="sde",
    device_number="8:64",
    partitions=("sde1",),
    serial="ZFN2EXMP",
    host="host2",
    address="2:0:0:0",
    port="ata3",
    uses=(("sde1", "md0"),),
)
_FAULTY_ARRAY_OF_THREE = replace(
    _FAULTY_ARRAY,
    raid_disks=3,
    members=(*_FAULTY_ARRAY.members, ArrayMember("sde1", 2, _IN_SYNC)),
)
_MOUNTS = (
    Mount("253:0", "/dev/mapper/vg-data", "/", "/srv", "ext4", ("rw",), ("rw",)),
    Mount("253:1", "/dev/mapper/mpatha", "/", "/archive", "xfs", ("rw",), ("rw",)),
)


class ExampleFault(enum.Enum):
    """What is wrong with the machine, as far as advice depends on it."""

    NONE = "none"
    MEMBER_FAULTY = "sda1 is faulty in md0"
    MEMBER_OF_THREE_FAULTY = "sda1 is faulty in md0, which has three members"
    DISK_REMOVED = "sda was removed"


@functools.cache
def facts(fault: ExampleFault = ExampleFault.NONE) -> Facts:
    """Return what advice may name on the machine."""
    whole = topology({device.name: device for device in _DEVICES})
    own = identity(whole, "sda")
    method = AccessMethod("/dev/sda", device="sda")
    disk = InventoryDisk(
        SERIAL,
        own,
        "sda",
        ("kernel",),
        ReadStatus.READ,
        "",
        str(method),
        "",
        None,
        physical=True,
        polled=PollResult(method, ReadStatus.READ),
        leaves=("sda",),
    )
    where = DeviceMap(topology=whole, disks={SERIAL: disk}, arrays={"md0": _ARRAY})
    if fault is ExampleFault.DISK_REMOVED:
        left = topology({device.name: device for device in _DEVICES if device is not _DISK})
        gone = VanishedDisk("sda", own.object, 0.0, ("md0",), adapter=_DISK.host or "")
        where = replace(where, topology=left, disks={}, devices=Devices(gone={own.key: gone}))
    if fault is ExampleFault.MEMBER_OF_THREE_FAULTY:
        array = replace(
            whole.devices["md0"], slaves=("sda", "sdb", "sde"), md=Md("raid1", 3, 0, 3, 0)
        )
        devices = {**whole.devices, "sde": _THIRD_DISK, "md0": array}
        where = replace(where, topology=topology(devices), arrays={"md0": _FAULTY_ARRAY_OF_THREE})
    elif fault is not ExampleFault.NONE:
        where = replace(where, arrays={"md0": _FAULTY_ARRAY})
    return Facts(
        AdviceInputs(
            where,
            _MOUNTS,
            slow=("sda",),
            paths={"dm-1": {"working": 1, "lost": 1}},
            backlog=Backlog(host_speed=BYTES_PER_SECOND),
        )
    )
