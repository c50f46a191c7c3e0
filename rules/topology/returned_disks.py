"""Returned disks: the current name, and how to add the disk to its arrays and volumes again. Pure.

Source: mdadm(8), MANAGE MODE (--re-add, --add, --remove failed and detached); lvmraid(7) and
lvchange(8), --refresh. multipathd adds a path of a multipath device again by itself; for encrypted
devices and those used by a program there is no advice.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.block.block_devices import lv_names
from iowarden.collectors.redundancy import survives_complete
from iowarden.rules.topology.redundancy import md_groups, runs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.md.mdstat import MdArray
    from iowarden.rules.topology.device_changes import ReturnedDisk

_PART_OF = re.compile(
    r"(?:_(?:[rm]image_[0-9]+|rmeta_[0-9]+|mlog|[tc]data|[tc]meta|corig|cvol|vdata))+$", re.ASCII
)
"""Suffixes that LVM appends to the name of a volume for its hidden parts. Source: lvmraid(7),
lvmthin(7), lvmcache(7), lvmvdo(7)."""


def sentence(was: str, name: str, shown: str) -> str:
    """Return that a disk has returned and its current name; `was` is its name before."""
    return f"{shown} is back" if name == was else f"{was} is back: it is /dev/{name} now, {shown}"


def advice(
    back: ReturnedDisk, topology: Topology, arrays: Mapping[str, MdArray]
) -> tuple[str, ...]:
    """Return how to add a disk again to the arrays and volumes that lost it; () if none did."""
    device = topology.devices.get(back.name)
    if device is None:
        return ()
    there = {back.name, *device.partitions}
    found: list[str] = []
    for part, holder in back.members:
        own = back.name + part.removeprefix(back.was)
        array = arrays.get(holder)
        if (own, holder) in device.uses:
            continue
        if array is not None and own not in there:
            found.append(
                f"/dev/{own}, which {holder} lost, does not exist: check the partitions of the disk"
                f" before you write anything to it:\n  lsblk /dev/{back.name}"
            )
        elif array is not None:
            found += _into(array, topology, own, part)
    groups = dict.fromkeys(_logical_volumes(back, topology))
    if groups:
        lines = (f"  lvchange --refresh {group}/{name}" for group, name in groups)
        found.append(
            "Logical volumes lost this disk. Unmount those without redundancy, because their file"
            " systems lost access to it, then make LVM use the disk again:\n" + "\n".join(lines)
        )
    return tuple(found)


def _into(array: MdArray, topology: Topology, own: str, part: str) -> Iterator[str]:
    """Yield how to add a member again; never where that would lose its slot in the array."""
    name = array.name
    device = topology.devices.get(name)
    spare = survives_complete(md_groups(array, None if device is None else device.md))
    if not array.degraded or spare is None:
        return
    if not runs(array) or array.degraded > spare:
        yield (
            f"{name} has lost more members than its redundancy covers: do not add /dev/{own} to it,"
            " because that overwrites its array metadata. Examine it, and write nothing:\n"
            f"  mdadm --examine /dev/{own}"
        )
        return
    lines = []
    if any(m.device == part and "faulty" in m.states for m in array.members):
        lines.append(f"  mdadm /dev/{name} --remove {'failed' if own == part else 'detached'}")
    lines.append(f"  mdadm /dev/{name} --re-add /dev/{own}")
    yield (
        f"{name} does not add /dev/{own} again by itself. If the disk is healthy, and the cause"
        " of its removal is repaired:\n"
        + "\n".join(lines)
        + f"\nIf mdadm refuses to re-add it, this rebuilds it fully and overwrites /dev/{own}:\n"
        f"  mdadm /dev/{name} --add /dev/{own}"
    )


def _logical_volumes(back: ReturnedDisk, topology: Topology) -> Iterator[tuple[str, str]]:
    """Yield volume group and name of each volume that still uses a disk as before its removal."""
    new = topology.devices[back.name]
    for _, holder in back.members:
        device = topology.devices.get(holder)
        if device is None or not (device.dm_uuid or "").startswith("LVM-"):
            continue
        names = lv_names(device.dm_name or "")
        if names is not None and holder not in new.holders:
            yield names[0], _PART_OF.sub("", names[1])
