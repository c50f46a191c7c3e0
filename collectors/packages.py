"""Debian's package of each program that advice names or the probe runs, and that may be missing.

And where iowarden has its documentation.

Source: packages.debian.org, Debian 12 and 13; Ubuntu 24.04 has the same names. Limits: the programs
of vendors of RAID controllers are in no distribution.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

DOCUMENTATION = "/usr/share/doc/iowarden/packaging/doc"
"""The pages on a host where iowarden is installed. Source: packaging/install, debian/rules."""
PACKAGES: Mapping[str, str] = {
    "btrfs": "btrfs-progs",
    "cciss_vol_status": "cciss-vol-status",
    "cryptsetup": "cryptsetup-bin",
    "debugfs": "e2fsprogs",
    "dmsetup": "dmsetup",
    "dumpe2fs": "e2fsprogs",
    "e2fsck": "e2fsprogs",
    "find": "findutils",
    "fsck.f2fs": "f2fs-tools",
    "iotop": "iotop",
    "ip": "iproute2",
    "lsof": "lsof",
    "lspci": "pciutils",
    "lvextend": "lvm2",
    "lvs": "lvm2",
    "mdadm": "mdadm",
    "mpt-status": "mpt-status",
    "multipath": "multipath-tools",
    "nvme": "nvme-cli",
    "parted": "parted",
    "smartctl": "smartmontools",
    "tune2fs": "e2fsprogs",
    "vgs": "lvm2",
    "xfs_io": "xfsprogs",
    "xfs_repair": "xfsprogs",
    "zfs": "zfsutils-linux",
    "zpool": "zfsutils-linux",
}


def documentation() -> str:
    """Return the directory of the pages here: those of the checkout that runs, if it is one."""
    pages = f"{os.path.dirname(os.path.dirname(os.path.realpath(__file__)))}/packaging/doc"
    return pages if os.path.isdir(pages) else DOCUMENTATION
