"""Memory statistics of '/proc/meminfo'."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Annotated

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
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
    huge_pages_total: int | None
    """Huge pages that are reserved."""
    text: str = field(repr=False)


_LINES = {
    "MemTotal": "total_bytes",
    "MemFree": "free_bytes",
    "MemAvailable": "available_bytes",
    "Buffers": "buffers_bytes",
    "Cached": "cached_bytes",
    "Shmem": "shmem_bytes",
    "Dirty": "dirty_bytes",
    "Writeback": "writeback_bytes",
    "NFS_Unstable": "unstable_bytes",
    "Active": "active_bytes",
    "Inactive": "inactive_bytes",
    "Active(file)": "active_file_bytes",
    "Inactive(file)": "inactive_file_bytes",
    "AnonPages": "anon_bytes",
    "Mapped": "mapped_bytes",
    "Slab": "slab_bytes",
    "SwapTotal": "swap_total_bytes",
    "SwapFree": "swap_free_bytes",
}
"""Field of each line that is used; the others are parsed where another exporter's are wanted."""
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
_HUGE_PAGES = "HugePages_Total"
_COUNT = lazy_pattern(r"[0-9]{1,19}")

FAMILIES, emit = describe(Meminfo, "iowarden_memory_")


def parse_meminfo(text: str) -> Meminfo:
    """Parse '/proc/meminfo' as bytes: of its lines those that are used, which is each second."""
    lines = "\n" + text
    values: dict[str, int | None] = {}
    for key, name in _LINES.items():
        at = lines.find(f"\n{key}:")
        if at < 0:
            if key in _REQUIRED:
                raise ParseError(
                    f"'{PATH}': expected a line '{key}: <n> kB', got none in {len(text)} characters"
                )
            values[name] = None
            continue
        try:
            digits, unit = lines[at + len(key) + 2 : lines.find("\n", at + 1)].split()
            if unit != "kB":
                raise ValueError
            values[name] = parse_count(digits) * KIB
        except ValueError:
            got = text[at:].partition("\n")[0]
            number = lines.count("\n", 0, at + 1)
            raise ParseError(
                f"'{PATH}' line {number}: expected '{key}: <n> kB', got {got[:80]!r}"
            ) from None
    at = lines.find(f"\n{_HUGE_PAGES}:")
    pages = lines[at + len(_HUGE_PAGES) + 2 :].partition("\n")[0].strip() if at >= 0 else ""
    huge_pages = int(pages) if _COUNT.fullmatch(pages) else None
    return Meminfo(**values, huge_pages_total=huge_pages, text=text)  # type: ignore[arg-type] # those required are there


def _all_lines(text: str) -> Iterator[tuple[str, int]]:
    """Yield every line with node_exporter's name: 'Active_anon_bytes', 'HugePages_Free' in pages.

    Lines that are not `<key>: <n> [kB]` are ignored.
    """
    for line in text.split("\n"):
        key, _, rest = line.partition(":")
        name = key[:-1].replace("(", "_") if key.endswith(")") else key
        try:
            match rest.split():
                case [digits, "kB"]:
                    yield name + "_bytes", parse_count(digits) * KIB
                case [digits]:
                    yield name, parse_count(digits)
        except ValueError:
            continue  # those that are used are checked


def node_samples(value: Meminfo) -> Iterator[Sample]:
    """Yield node_exporter's node_memory_*: for the lines that it exports, not for every one."""
    known = dict(_all_lines(value.text))
    for name in _NODE_NAMES:
        number = known.get(name)
        if number is not None:
            yield "node_memory_" + name, (), number


def read_meminfo(root: Machine) -> Meminfo:
    """Read and parse '/proc/meminfo'. Errors: AbsentError, ReadError, ParseError."""
    return parse_meminfo(root.read_cached_open(PATH, is_record=True))


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
    node_names=frozenset(f"node_memory_{name}" for name in _NODE_NAMES),
)
