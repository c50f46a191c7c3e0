"""The real node_exporter on the same host: its series are equal to ours."""

from __future__ import annotations

import re
import selectors
import shutil
import subprocess
import time
import urllib.request
from typing import TYPE_CHECKING

import pytest
from support import node_exporter
from support.smtp import DEADLINE_SECONDS
from support.sources import SOURCES

from iowarden.collectors import node_series
from iowarden.collectors.machine import Machine
from iowarden.collectors.model import Outcome
from iowarden.collectors.source import collect

if TYPE_CHECKING:
    from collections.abc import Iterator

COLLECTORS = (
    "cpu",
    "diskstats",
    "filesystem",
    "loadavg",
    "mdadm",
    "meminfo",
    "pressure",
    "stat",
    "time",
    "uname",
    "vmstat",
)
MOUNT_POINTS_LEFT_OUT = (
    r"^/(dev|proc|run/credentials/.+|sys|var/lib/docker/.+|var/lib/containers/storage/.+)($|/)"
)
"""Debian sets another default, with '/mnt' and '/media' in it; this one is node_exporter's own."""

CONSTANT = re.compile(
    r"node_(boot_time_seconds|time_(clocksource|zone)_\w+|uname_info|disk_\w*info"
    r"|disk_ata_\w+|filesystem_(size_bytes|files|readonly|device_error|mount_info)"
    r"|md_(disks_required|blocks|raid_disks|degraded)"
    r"|memory_(MemTotal|SwapTotal|VmallocTotal|CommitLimit|HardwareCorrupted|Hugepagesize)_bytes"
    r"|memory_HugePages_Total)"
)
RISING = re.compile(r"node_(time_seconds|vmstat_\w+)")
"""Not counters by type, but increasing like counters."""
WAVERING = re.compile(r"node_cpu_seconds_total")
"""Idle and iowait may decrease a little, and then node_exporter keeps its last value."""


@pytest.fixture
def address() -> Iterator[str]:
    """The URL of a node_exporter that runs for one test."""
    program = shutil.which("prometheus-node-exporter") or shutil.which("node_exporter")
    if program is None:
        pytest.skip("no node_exporter (package prometheus-node-exporter; 'make test' unpacks it)")
    process = subprocess.Popen(
        [
            program,
            "--web.listen-address=127.0.0.1:0",
            "--collector.disable-defaults",
            f"--collector.filesystem.mount-points-exclude={MOUNT_POINTS_LEFT_OUT}",
            *(f"--collector.{name}" for name in COLLECTORS),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        yield f"http://{_listening(process)}/metrics"
    finally:
        process.kill()
        process.wait(DEADLINE_SECONDS)
        assert process.stderr is not None
        process.stderr.close()


def _listening(process: subprocess.Popen[bytes]) -> str:
    """Return the address in its log message; the kernel chose the port."""
    assert process.stderr is not None
    said = b""
    end = time.monotonic() + DEADLINE_SECONDS
    with selectors.DefaultSelector() as selector:
        selector.register(process.stderr, selectors.EVENT_READ)
        while time.monotonic() < end:
            if not selector.select(end - time.monotonic()):
                break
            read = process.stderr.read1(65_536)  # type: ignore[attr-defined] # a buffered reader
            said += read
            if found := re.search(rb"Listening on\S* \S*address=(127\.0\.0\.1:\d+)\s", said):
                return found[1].decode()
            if not read:
                break
    pytest.fail(f"it did not listen: {said.decode(errors='replace')}")


def what_we_say(root: Machine) -> node_exporter.Series:
    """Return our collectors' series of this machine under node_exporter's names."""
    series: node_exporter.Series = {}
    for source in SOURCES:
        if source.node is None or not all(p.startswith("node_") for p in source.node_prefixes):
            continue
        reading = collect(source, root, time.monotonic)
        assert reading.outcome in {Outcome.OK, Outcome.ABSENT}, reading.error
        if reading.outcome is Outcome.OK:
            series |= {
                (name, labels): number for name, labels, number in source.node(reading.value)
            }
    return series


def test_it_reports_the_same_of_this_machine(address: str) -> None:
    """Names, labels, types; constants are equal, increasing values are between our two reads."""
    root = Machine("/")
    before = what_we_say(root)
    with urllib.request.urlopen(address, timeout=DEADLINE_SECONDS) as answer:
        types, theirs = node_exporter.parse(answer.read().decode())
    after = what_we_say(root)
    root.close()

    prefixes = tuple(
        prefix
        for source in SOURCES
        for prefix in source.node_prefixes
        if prefix.startswith("node_")
    )
    version = node_exporter.version(theirs)
    before, after = (node_exporter.ours(series, version) for series in (before, after))
    theirs = {
        key: value
        for key, value in node_exporter.theirs(theirs).items()
        if key[0].startswith(prefixes)
    }
    assert before.keys() & after.keys() <= theirs.keys() <= before.keys() | after.keys()
    names = {name for name, _ in theirs}
    assert names >= {"node_load15", "node_uname_info", "node_time_seconds", "node_disk_info"}
    assert {name: node_series.family(name).kind for name in names} == {
        name: types[name] for name in names
    }

    wrong = {}
    for key in before.keys() & after.keys():
        name, value = key[0], theirs[key]
        least, most = sorted((before[key], after[key]))
        if WAVERING.fullmatch(name):
            least, most = least - 1, most + 1
        known = types[name] == "counter" or CONSTANT.fullmatch(name) or RISING.fullmatch(name)
        if not (least <= value <= most if known else value >= 0):
            wrong[key] = (least, value, most)
    assert wrong == {}
