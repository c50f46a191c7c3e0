"""Memory statistics of '/proc/meminfo'."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - describe() evaluates the annotations
from typing import TYPE_CHECKING, Annotated

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import KIB, Metric, ParseError, Sample, describe, parse_count
from iowarden.collectors.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.collectors.machine import Machine

PATH = "/proc/meminfo"


@dataclass(frozen=True, slots=True)
class Meminfo:
    """Values of '/proc/meminfo', in bytes.

    Source: kernel, filesystems/proc.rst ('kB' there means 1024 bytes). None: this kernel prints no
    such line.
    """

    total_bytes: Annotated[int, Metric("gauge", "Memory the kernel manages.")]
    free_bytes: Annotated[int, Metric("gauge", "Unused memory.")]
    available_bytes: Annotated[
        int | None, Metric("gauge", "Estimate of what programs can get without swapping (3.14+).")
    ]
    buffers_bytes: Annotated[int, Metric("gauge", "Page cache of block devices.")]
    cached_bytes: Annotated[int, Metric("gauge", "Page cache of files, shared memory included.")]
    shmem_bytes: Annotated[int | None, Metric("gauge", "Shared memory and tmpfs (Shmem).")]
    dirty_bytes: Annotated[int, Metric("gauge", "Dirty data: waiting to be written to disk.")]
    writeback_bytes: Annotated[
        int, Metric("gauge", "Data under write-back: being written to disk.")
    ]
    unstable_bytes: Annotated[
        int | None,
        Metric("gauge", "Data sent to an NFS server and not yet committed (0 from 5.8 on)."),
    ]
    active_bytes: int | None
    inactive_bytes: int | None
    active_file_bytes: int | None
    inactive_file_bytes: int | None
    anon_bytes: Annotated[int | None, Metric("gauge", "Anonymous memory mapped by programs.")]
    mapped_bytes: Annotated[int | None, Metric("gauge", "File pages mapped by programs.")]
    slab_bytes: Annotated[int | None, Metric("gauge", "Slab: data structures of the kernel.")]
    swap_total_bytes: Annotated[int | None, Metric("gauge", "Size of all swap areas.")]
    swap_free_bytes: Annotated[int | None, Metric("gauge", "Unused part of all swap areas.")]
    raw: Mapping[str, int]
    """Every line with node_exporter's name: 'Active_anon_bytes', or 'HugePages_Free' in pages."""


_KEYS = {
    "MemTotal_bytes": "total_bytes",
    "MemFree_bytes": "free_bytes",
    "MemAvailable_bytes": "available_bytes",
    "Buffers_bytes": "buffers_bytes",
    "Cached_bytes": "cached_bytes",
    "Shmem_bytes": "shmem_bytes",
    "Dirty_bytes": "dirty_bytes",
    "Writeback_bytes": "writeback_bytes",
    "NFS_Unstable_bytes": "unstable_bytes",
    "Active_bytes": "active_bytes",
    "Inactive_bytes": "inactive_bytes",
    "Active_file_bytes": "active_file_bytes",
    "Inactive_file_bytes": "inactive_file_bytes",
    "AnonPages_bytes": "anon_bytes",
    "Mapped_bytes": "mapped_bytes",
    "Slab_bytes": "slab_bytes",
    "SwapTotal_bytes": "swap_total_bytes",
    "SwapFree_bytes": "swap_free_bytes",
}
_NODE_NAMES = (
    *(
        name + "_bytes"
        for name in (
            "Active Active_anon Active_file AnonHugePages AnonPages Bounce Buffers Cached CmaFree"
            " CmaTotal CommitLimit Committed_AS DirectMap1G DirectMap2M DirectMap4k Dirty"
            " HardwareCorrupted Hugepagesize Inactive Inactive_anon Inactive_file KernelStack"
            " Mapped MemAvailable MemFree MemTotal Mlocked NFS_Unstable PageTables Percpu"
            " SReclaimable SUnreclaim Shmem ShmemHugePages ShmemPmdMapped Slab SwapCached SwapFree"
            " SwapTotal Unevictable VmallocChunk VmallocTotal VmallocUsed Writeback WritebackTmp"
            " Zswap Zswapped"
        ).split()
    ),
    *("HugePages_" + name for name in ("Free", "Rsvd", "Surp", "Total")),
)
"""Source: node_exporter, collector/meminfo_linux.go since 1.9 (Zswap since 1.10.2)."""
_REQUIRED = ("MemTotal", "MemFree", "Buffers", "Cached", "Dirty", "Writeback")

FAMILIES, emit = describe(Meminfo, "iowarden_memory_")


def parse_meminfo(text: str) -> Meminfo:
    """Parse '/proc/meminfo' as bytes.

    Lines that are not `<key>: <n> [kB]` are ignored unless the key is known.
    """
    raw: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        key, _, rest = line.partition(":")
        words = rest.split()
        name = key[:-1].replace("(", "_") if key.endswith(")") else key
        try:
            match words:
                case [digits, "kB"]:
                    raw[name + "_bytes"] = parse_count(digits) * KIB
                    continue
                case [digits]:
                    raw[name] = parse_count(digits)
        except ValueError:
            pass  # refused below if the key is known
        if name + "_bytes" in _KEYS:
            raise ParseError(f"'{PATH}' line {number}: expected '{key}: <n> kB', got {line[:80]!r}")
    missing = [key for key in _REQUIRED if key + "_bytes" not in raw]
    if missing:
        raise ParseError(
            f"'{PATH}': expected a line '{missing[0]}: <n> kB', got none in {len(text)} characters"
        )
    return Meminfo(**{field: raw.get(name) for name, field in _KEYS.items()}, raw=raw)  # type: ignore[arg-type] # those required are there


def node_samples(value: Meminfo) -> Iterator[Sample]:
    """Yield node_exporter's node_memory_*: for the lines that it exports, not for every one."""
    for name in _NODE_NAMES:
        number = value.raw.get(name)
        if number is not None:
            yield "node_memory_" + name, (), number


def read_meminfo(root: Machine) -> Meminfo:
    """Read and parse '/proc/meminfo'. Errors: AbsentError, ReadError, ParseError."""
    return parse_meminfo(root.read_cached_open(PATH))


SOURCE: Source[Meminfo] = Source(
    name="meminfo",
    period_seconds=1,
    period_help="How often '/proc/meminfo' is read.",
    paced=True,
    may_hang=False,
    read=read_meminfo,
    families=FAMILIES,
    emit=emit,
    node=node_samples,
    node_prefixes=("node_memory_",),
)
