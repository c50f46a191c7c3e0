"""Kernel release, memory settings and swap type, from '/proc'."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import (
    KIB,
    AbsentError,
    Metric,
    ParseError,
    ReadError,
    describe,
)
from iowarden.collectors.procfs.swaps import read_swaps
from iowarden.collectors.source import Source

if TYPE_CHECKING:
    from iowarden.collectors.machine import Machine

DIRECTORY = "/proc/sys/vm"
RELEASE_PATH = "/proc/sys/kernel/osrelease"
_RELEASE = lazy_pattern(r"(\d{1,4})\.(\d{1,4})(?:\.(\d{1,6}))?", re.ASCII)
_CENTISECONDS_PER_SECOND = 100


@dataclass(frozen=True, slots=True)
class VmSysctl:
    """Settings of '/proc/sys/vm' that control write-back and reclaim, and the kernel release.

    Source: kernel, admin-guide/sysctl/vm.rst. Ratios are in percent as in the kernel; of a ratio
    and its bytes only one is active, the other reads 0. None: this kernel has no such file.
    """

    dirty_ratio_percent: Annotated[
        int | None, Metric("gauge", "Setting vm.dirty_ratio, in percent.")
    ]
    dirty_background_ratio_percent: Annotated[
        int | None, Metric("gauge", "Setting vm.dirty_background_ratio, in percent.")
    ]
    dirty_bytes: Annotated[
        int | None, Metric("gauge", "Setting vm.dirty_bytes; 0: vm.dirty_ratio applies (2.6.29+).")
    ]
    dirty_background_bytes: Annotated[
        int | None,
        Metric(
            "gauge",
            "Setting vm.dirty_background_bytes; 0: vm.dirty_background_ratio applies (2.6.29+).",
        ),
    ]
    dirty_expire_seconds: Annotated[
        float | None, Metric("gauge", "Age at which dirty data is written.")
    ]
    dirty_writeback_seconds: Annotated[
        float | None,
        Metric("gauge", "Interval at which the kernel writes old dirty data; 0: never."),
    ]
    laptop_mode: Annotated[
        int | None,
        Metric(
            "gauge",
            "Setting vm.laptop_mode; above 0 writes are delayed so that a disk can stay spun down.",
        ),
    ]
    kernel_release: str
    kernel: tuple[int, int, int]
    """The release's first three numbers: (6, 1, 0) of '6.1.0-18-amd64'."""
    zone_reclaim_mode: Annotated[
        int | None,
        Metric("gauge", "Setting vm.zone_reclaim_mode, bits: 1 reclaim, 2 write out, 4 swap."),
    ] = None
    swappiness: Annotated[int | None, Metric("gauge", "Setting vm.swappiness.")] = None
    overcommit_memory: Annotated[
        int | None,
        Metric("gauge", "Setting vm.overcommit_memory: 0 by estimate, 1 always, 2 up to a limit."),
    ] = None
    overcommit_ratio_percent: Annotated[
        int | None, Metric("gauge", "Setting vm.overcommit_ratio, in percent.")
    ] = None
    min_free_bytes: Annotated[
        int | None,
        Metric("gauge", "Setting vm.min_free_kbytes: memory that the kernel reserves as free."),
    ] = None
    nr_hugepages: Annotated[
        int | None, Metric("gauge", "Huge pages of the default size that are reserved.")
    ] = None
    bdflush: Annotated[
        bool, Metric("gauge", "1 if vm.bdflush exists, which controls write-back in Linux 2.4.")
    ] = False
    swap_on_disk: Annotated[
        bool | None,
        Metric("gauge", "1 when swap is on a disk, 0 when it is in compressed memory (zram)."),
    ] = None
    """None: there is no swap."""


FAMILIES, emit = describe(VmSysctl, "iowarden_vm_")


def parse_setting(text: str, path: str) -> int:
    """Parse the one number of a file of '/proc/sys/vm'."""
    number = text.strip()
    # Up to 20 digits hold 64 bits.
    if re.fullmatch(r"\d{1,20}", number, re.ASCII) is None:
        raise ParseError(f"'{path}': expected a number, got {text[:80]!r}")
    return int(number)


def parse_release(text: str) -> tuple[int, int, int]:
    """Parse the numbers at the begin of a kernel release; a missing third is 0 ('6.18-rc1')."""
    found = _RELEASE.match(text)
    if found is None:
        raise ParseError(f"'{RELEASE_PATH}': expected '<n>.<n>[.<n>]...', got {text[:80]!r}")
    first, second, third = found.groups()
    return int(first), int(second), int(third or 0)


def read_vm_sysctl(root: Machine) -> VmSysctl:
    """Read and parse the files. Errors: AbsentError (no release), ReadError, ParseError."""
    release = root.read(RELEASE_PATH)

    def setting(name: str) -> int | None:
        path = f"{DIRECTORY}/{name}"
        try:
            return parse_setting(root.read(path), path)
        except AbsentError:
            return None

    def seconds(name: str) -> float | None:
        centiseconds = setting(name)
        return None if centiseconds is None else centiseconds / _CENTISECONDS_PER_SECOND

    def swap_on_disk() -> bool | None:
        """Whether any swap area is on a disk; one on a zram device counts as memory."""
        try:
            areas = read_swaps(root)
        except AbsentError:  # a kernel without swap
            return None
        return any(not each.path.startswith("/dev/zram") for each in areas) if areas else None

    min_free_kib = setting("min_free_kbytes")
    return VmSysctl(
        dirty_ratio_percent=setting("dirty_ratio"),
        dirty_background_ratio_percent=setting("dirty_background_ratio"),
        dirty_bytes=setting("dirty_bytes"),
        dirty_background_bytes=setting("dirty_background_bytes"),
        dirty_expire_seconds=seconds("dirty_expire_centisecs"),
        dirty_writeback_seconds=seconds("dirty_writeback_centisecs"),
        laptop_mode=setting("laptop_mode"),
        zone_reclaim_mode=setting("zone_reclaim_mode"),
        swappiness=setting("swappiness"),
        overcommit_memory=setting("overcommit_memory"),
        overcommit_ratio_percent=setting("overcommit_ratio"),
        min_free_bytes=None if min_free_kib is None else min_free_kib * KIB,
        nr_hugepages=setting("nr_hugepages"),
        bdflush=_exists(root, DIRECTORY + "/bdflush"),
        swap_on_disk=swap_on_disk(),
        kernel_release=release.strip(),
        kernel=parse_release(release),
    )


def _exists(root: Machine, path: str) -> bool:
    try:
        root.read(path)
    except AbsentError:
        return False
    except ReadError:
        pass  # an unreadable one does not matter
    return True


SOURCE: Source[VmSysctl] = Source(
    name="vm_sysctl",
    period_seconds=15,
    period_help="How often '/proc/sys/vm' is read.",
    may_hang=False,
    read=read_vm_sysctl,
    families=FAMILIES,
    emit=emit,
)
