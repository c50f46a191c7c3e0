"""Every result of a collector is an outcome."""

from __future__ import annotations

import dataclasses
import errno
import gc
import importlib
import itertools
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import node_exporter
from support.machine import files
from support.memory import Memory
from support.recordings import STALL, corpus, stall
from support.sources import SOURCES
from support.tiers import examples

from iowarden.collectors import registry
from iowarden.collectors.machine import MAX_BYTES, Machine
from iowarden.collectors.model import Outcome, Reading
from iowarden.collectors.source import Source, collect

if TYPE_CHECKING:
    from conftest import MachineMaker

MEMINFO = next(source for source in SOURCES if source.name == "meminfo")
PATHS = {
    # What a collector reads first; of one that is not named here, the PATH of its module.
    **{s.name: getattr(sys.modules[s.read.__module__], "PATH", "") for s in SOURCES},
    "meminfo": "/proc/meminfo",
    "vmstat": "/proc/vmstat",
    "pressure": "/proc/pressure/cpu",
    "stat": "/proc/stat",
    "diskstats": "/proc/diskstats",
    "vm_sysctl": "/proc/sys/kernel/osrelease",
    "numa": "/sys/devices/system/node",
    "hung_task": "/proc/sys/kernel/hung_task_timeout_secs",
    "loadavg": "/proc/loadavg",
    "thp": "/sys/kernel/mm/transparent_hugepage/enabled",
    "uname": "/proc/sys/kernel/ostype",
    "md": "/proc/mdstat",
    "clock": "/proc/uptime",
    "udev": "/proc/diskstats",
    "mounts": "/proc/1/mountinfo",
    "ext4": "/sys/fs/ext4",
    "bad_blocks": "/sys/fs/ext4",
    "btrfs": "/sys/fs/btrfs",
    "filesystem": "/proc/1/mountinfo",
    "btrfs_scrub": "/proc/1/mountinfo",
    "block": "/sys/block",
    "zfs_arc": "/proc/spl/kstat/zfs/arcstats",
    "zfs": "/proc/spl/kstat/zfs",
    "zfs_txgs": "/proc/spl/kstat/zfs",
    "zfs_vdevs": "/proc/spl/kstat/zfs",
    "enclosure": "/sys/class/enclosure",
    "hwmon": "/sys/class/hwmon",
    "bdi": "/sys/class/bdi",
    "scsi": "/sys/class/scsi_host",
    "queue": "/sys/block",
    "dm": "/sys/block",
    "dm_targets": "/sys/block",
    "tasks": "/proc/stat",
    "io_sweep": "/proc/meminfo",
    "monitors": "/proc",
    "smart": "/sys/block",
    "controllers": "/sys/bus/pci/drivers",
    "kernel_log": "/.kmsg",
}
LISTED = frozenset(
    "bad_blocks bdi block btrfs controllers dm dm_targets enclosure ext4 hwmon monitors numa queue"
    " scsi smart zfs zfs_txgs zfs_vdevs".split()
)
"""Collectors that list a directory first: PATHS has its path."""
WHOLE = [source for source in SOURCES if source.name != "backups"]
"""Of watched directories each has an outcome of its own: tests/daemon/polling/test_directories.py.
"""
TEXTS = [source for source in WHOLE if source.name not in LISTED]


def run(source: Source, root: Machine) -> Reading:
    """Run a collector with a clock that advances by 1 s per reading."""
    clock = itertools.count(100.0)
    return collect(source, root, lambda: next(clock))


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_this_machine_can_be_read(source: Source) -> None:
    """The running kernel supports every collector, or does not offer its data at all."""
    root = Machine("/")
    reading = run(source, root)
    root.close()
    assert reading.outcome in {Outcome.OK, Outcome.ABSENT}, reading.error
    assert (reading.monotonic_seconds, reading.duration_seconds) == (101.0, 1.0)
    if reading.outcome is Outcome.OK:
        samples = source.emit(reading.value)
        assert {name for name, _, _ in samples} <= {family.name for family in source.families}


@pytest.mark.parametrize("source", WHOLE, ids=lambda source: source.name)
def test_what_the_kernel_does_not_offer_is_absent(source: Source, machine: MachineMaker) -> None:
    """No such file: the outcome reports it with its name, and has no value."""
    reading = run(source, machine({"/etc": None}))
    assert (reading.outcome, reading.value) == (Outcome.ABSENT, None)
    assert PATHS[source.name] in reading.error


@pytest.mark.parametrize("source", WHOLE, ids=lambda source: source.name)
def test_what_cannot_be_read_has_failed(source: Source, machine: MachineMaker) -> None:
    """A directory in place of a file; a directory that cannot be listed."""
    root = machine({PATHS[source.name]: None})
    if source.name in LISTED:
        root.fail("/", errno.EIO)
    assert run(source, root).outcome is Outcome.FAILED


# Of uname any word is a name.
@pytest.mark.parametrize("source", [s for s in TEXTS if s.name != "uname"], ids=lambda s: s.name)
@pytest.mark.parametrize("content", [b"\x00\xff\xfe", b"garbage\n", b"\x1f\x8b" * 99])
def test_binary_is_unparsed(source: Source, content: bytes, machine: MachineMaker) -> None:
    """It was read without usable content: neither a value nor a bug."""
    reading = run(source, machine({PATHS[source.name]: content}))
    assert (reading.outcome, reading.value) == (Outcome.UNPARSED, None)
    assert "expected" in reading.error


def test_a_huge_file_has_failed(machine: MachineMaker) -> None:
    """A file larger than any of the kernel's is refused."""
    reading = run(MEMINFO, machine({"/proc/meminfo": b"x" * (MAX_BYTES + 1)}))
    assert reading.outcome is Outcome.FAILED


def test_our_own_exception_is_a_bug_with_its_traceback(machine: MachineMaker) -> None:
    """Our bug in one collector must not stop the others."""

    def broken(root: Machine) -> object:
        empty: dict[str, object] = {}
        return empty[root.path]

    reading = run(dataclasses.replace(MEMINFO, read=broken), machine({}))
    assert (reading.outcome, reading.value) == (Outcome.BUG, None)
    assert "KeyError" in reading.error
    assert "test_registry.py" in reading.error
    assert "in broken" in reading.error


def test_no_two_sources_claim_a_name() -> None:
    """A series has one owner: the collectors of an alert are found by its series names."""
    names = [family.name for source in SOURCES for family in source.families]
    assert len(names) == len(set(names))
    prefixes = [prefix for source in SOURCES for prefix in source.node_prefixes]
    for first, second in itertools.permutations(prefixes, 2):
        assert not first.startswith(second)


def test_node_exporters_series_on_the_same_kind_of_machine() -> None:
    """On the recorded machine the series names are the declared ones."""
    _, reference = node_exporter.parse(corpus("vm/inventory/node_exporter.metrics").read_text())
    theirs = node_exporter.theirs(reference)
    root = Memory()
    root.apply(next(stall(corpus(STALL))))
    compared = set()
    for source in SOURCES:
        reading = run(source, root)
        if source.node is None or reading.outcome is Outcome.ABSENT:
            continue
        if source.name in {"clock", "udev", "smart"}:  # most of what they read was not recorded
            continue
        compared.add(source.name)
        series = {(name, labels): value for name, labels, value in source.node(reading.value)}
        assert _names(node_exporter.ours(series, node_exporter.version(reference))) == {
            found for found in _names(theirs) if found[0].startswith(source.node_prefixes)
        }
    assert compared >= {"meminfo", "vmstat", "stat", "pressure", "diskstats"}


def _names(series: node_exporter.Series) -> set[tuple[str, tuple[str, ...]]]:
    return {(name, tuple(key for key, _ in labels)) for name, labels in series}


@settings(max_examples=examples(50))
@given(st.dictionaries(st.sampled_from([PATHS[s.name] for s in TEXTS]), st.binary(max_size=300)))
def test_no_content_is_a_bug(files: dict[str, bytes]) -> None:
    """Any bytes in any of the files: never an exception of ours."""
    root = Memory(files)
    for source in SOURCES:
        reading = run(source, root)
        assert reading.outcome is not Outcome.BUG, reading.error
        if reading.outcome is Outcome.OK:
            assert isinstance(source.emit(reading.value), list)


def test_every_source_is_registered() -> None:
    """A collector that the registry forgets is never read, and nothing would say so."""
    top = Path(__file__).parents[2]
    declared = [
        importlib.import_module("iowarden." + ".".join(path.with_suffix("").relative_to(top).parts))
        for path in sorted((top / "collectors").rglob("*.py"))
        if re.search(r"^SOURCE\b.* = Source", path.read_text(), re.MULTILINE)
    ]
    assert len(declared) > 20
    names = {source.name for source in registry.SOURCES}
    assert [module.__name__ for module in declared if module.SOURCE.name not in names] == []


@pytest.mark.parametrize("source", SOURCES, ids=lambda each: each.name)
def test_what_is_read_is_freed_when_it_is_replaced(
    source: Source[object], machine: MachineMaker
) -> None:
    """An error that is kept holds the frames it passed, and all readings of that second with it.

    The machine has the files of a busy one, without those that only some kernels have.
    """
    root = machine(files(2))
    collect(source, root, time.monotonic)
    gc.collect()
    gc.disable()
    try:
        collect(source, root, time.monotonic)
        assert gc.collect() == 0
    finally:
        gc.enable()
