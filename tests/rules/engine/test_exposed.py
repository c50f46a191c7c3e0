"""Other exporters' names: always in the engine, on '/metrics' only if configured."""

from __future__ import annotations

import dataclasses

import pytest

from iowarden.collectors.model import Outcome, Reading, Sample
from iowarden.collectors.smart import smart_series, smartctl_exporter
from iowarden.collectors.smart.drive import (
    AccessMethod,
    Disk,
    Disks,
    Drive,
    PollResult,
    Protocol,
    ReadStatus,
)
from iowarden.collectors.source import Source
from iowarden.rules.engine.engine import Engine
from iowarden.rules.rulefile.rulefile import parse_rule_file

START = 1_800_000_000.0
OUTPUT = {
    "device": {"name": "/dev/sda", "type": "sat", "protocol": "ATA"},
    "temperature": {"current": 61},
    "smart_status": {"passed": True},
}
DRIVE = Drive(
    Protocol.ATA,
    serial="D1",
    temperature_celsius=61,
    exported=smartctl_exporter.pack(OUTPUT),
)
SOURCE = Source(
    name="smart",
    period_seconds=15,
    may_hang=False,
    read=lambda root: None,
    families=smart_series.FAMILIES,
    emit=smart_series.emit,
    node=smartctl_exporter.samples,
    node_prefixes=smartctl_exporter.PREFIXES,
    objects=("disk",),
)
HOT = """
groups:
  - name: g
    interval: 15s
    rules:
      - {alert: OurHot, expr: 'iowarden_disk_temperature_celsius > 60'}
      - {alert: TheirHot, expr: 'smartctl_device_temperature{temperature_type="current"} > 60'}
"""


def disks(drive: Drive) -> Disks:
    """A machine with one drive that was read at the start."""
    polled = PollResult(
        AccessMethod("/dev/sda", "sat", "sda"), ReadStatus.READ, drive=drive, read_seconds=START
    )
    return Disks({"D1": Disk("D1", polled, "sda")})


def see(engine: Engine, value: Disks | None, now: float) -> None:
    """Poll the drives and evaluate the rules; None: they cannot be read."""
    outcome = Outcome.FAILED if value is None else Outcome.OK
    engine.observe([Reading("smart", outcome, now, 0.0, value)], now, now - START)
    engine.rules.evaluate(now)


def families(engine: Engine) -> set[str]:
    """Names on '/metrics' that have series."""
    return {
        family.name
        for chunk in engine.hub.chunks()
        for family, samples in chunk.families
        if samples
    }


@pytest.mark.parametrize(
    ("expose", "shown"), [((), False), (("node_",), False), (("node_", "smartctl_"), True)]
)
def test_their_names_are_shown_where_requested(expose: tuple[str, ...], *, shown: bool) -> None:
    """Rules and queries have them anyway."""
    engine = Engine(parse_rule_file(HOT, "test"), [SOURCE], START, expose=expose)
    see(engine, disks(DRIVE), START)
    theirs = {name for name in families(engine) if name.startswith("smartctl_")}
    assert ({"smartctl_device", "smartctl_devices"} <= theirs) if shown else not theirs
    assert {alert.name for alert in engine.rules.alerts()} == {"OurHot", "TheirHot"}
    found = engine.queries.query_all("smartctl_device_smart_status", engine.rules.alerts(), START)
    assert isinstance(found, list)
    assert [(s.labels, s.value) for s in found] == [((("device", "sda"),), 1.0)]


def test_drives_that_reported_nothing_new_are_still_seen() -> None:
    """The same value for ten minutes: no series is made again, and none grows old."""
    made: list[list[Sample]] = []

    def emit(value: Disks) -> list[Sample]:
        made.append(smart_series.emit(value))
        return made[-1]

    source = dataclasses.replace(SOURCE, emit=emit)
    engine = Engine(parse_rule_file(HOT, "test"), [source], START)
    value = disks(DRIVE)
    for second in range(0, 601, 15):
        see(engine, value, START + second)
    assert len(made) == 1
    assert {alert.name for alert in engine.rules.alerts()} == {"OurHot", "TheirHot"}
    cooler = dataclasses.replace(DRIVE, temperature_celsius=40, exported=b"")
    see(engine, disks(cooler), START + 615)
    assert len(made) == 2
    assert not [alert for alert in engine.rules.alerts() if alert.active]


def test_what_comes_back_unchanged_is_shown_again() -> None:
    """The probe was down for some minutes; the drives' data have not changed."""
    engine = Engine(parse_rule_file(HOT, "test"), [SOURCE], START, expose=("smartctl_",))
    value = disks(DRIVE)
    see(engine, value, START)
    ours_and_theirs = {"iowarden_disk_temperature_celsius", "smartctl_device_temperature"}
    for second in range(15, 121, 15):
        see(engine, None, START + second)
    assert not families(engine) & ours_and_theirs
    see(engine, value, START + 135)
    assert families(engine) > ours_and_theirs
