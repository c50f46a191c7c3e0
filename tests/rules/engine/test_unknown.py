"""Unknown is not OK, whichever source falls silent and however it does."""

from __future__ import annotations

import json

import pytest
from support import drives, kstat, machine
from support.areca import Card
from support.memory import Memory
from support.sources import SOURCES

from iowarden.collectors.machine import probe_path
from iowarden.collectors.model import Outcome, Reading
from iowarden.collectors.smart import smartctl_runner
from iowarden.collectors.smart.drive import AccessMethod
from iowarden.collectors.source import Source, collect
from iowarden.daemon.metric_labels import fits
from iowarden.rules.engine.engine import Engine
from iowarden.rules.engine.source_status import VALID_PERIODS
from iowarden.rules.incidents import incidents, model
from iowarden.rules.notice import Evidence
from iowarden.rules.rulefile.rulefile import parse_rule_file

START = 1_800_000_000.0
SILENT = (Outcome.FAILED, Outcome.UNPARSED, Outcome.STUCK, Outcome.BUG, Outcome.ABSENT)


def dmsetup(target: str, *rows: str) -> dict[str, str]:
    """Return the probe's answer to 'dmsetup status' of one device."""
    command = ("dmsetup", "status", "--noflush", "--target", target, "vg-root")
    output = "".join(f"{row}\n" for row in rows)
    answer = {"status": 0, "signal": None, "stdout": output, "stderr": ""}
    return {probe_path("run", command): json.dumps(answer)}


MAPPED = {
    "/sys/module/dm_thin_pool/refcnt": "3\n",
    "/.probe/dm_targets": json.dumps(
        {
            "targets": {"vg-root": ["thin-pool", "raid", "integrity", "thin", "multipath"]},
            "queueing": {"vg-root": True},
        }
    ),
    **dmsetup("thin-pool", "0 8 thin-pool 1 4/9 8/9 - rw ignore_discard error_if_no_space - 1"),
    **dmsetup("raid", "0 8 raid raid1 2 AD 9/9 idle 0 0 -"),
    **dmsetup("integrity", "0 8 integrity 3 9 -"),
    **dmsetup("thin", "0 8 thin 512 99"),
    **dmsetup("multipath", "0 8 multipath 2 0 0 0 1 1 A 0 1 0 8:16 A 0"),
}
"""A device of everything, as no machine has one."""
MORE = {
    "/proc/uptime": "1000.00 900.00\n",
    "/proc/mdstat": (
        "Personalities : [raid1]\nmd0 : active raid1 sda1[0]\n      1000 blocks [2/1] [U_]\n"
        "unused devices: <none>\n"
    ),
    "/sys/devices/system/node/node0/meminfo": "Node 0 MemTotal: 8000 kB\nNode 0 MemFree: 500 kB\n",
    "/proc/sys/kernel/hung_task_timeout_secs": "120\n",
    "/proc/sys/kernel/hung_task_warnings": "10\n",
    "/sys/kernel/mm/transparent_hugepage/enabled": "[always] madvise never\n",
    "/sys/kernel/mm/transparent_hugepage/defrag": "always [madvise] never\n",
    **{
        f"/proc/sys/kernel/{name}": text
        for name, text in {
            "ostype": "Linux\n",
            "hostname": "db1\n",
            "version": "#1 SMP\n",
            "domainname": "(none)\n",
            "arch": "x86_64\n",
        }.items()
    },
    "/proc/spl/kstat/zfs/arcstats": kstat.arcstats(size=9e9, c=9e9, c_min=1e9, c_max=16e9),
    "/proc/spl/kstat/zfs/dmu_tx": kstat.named({"dmu_tx_dirty_over_max": 2}),
    "/proc/spl/kstat/zfs/tank/state": "ONLINE\n",
    "/proc/spl/kstat/zfs/tank/txgs": kstat.txgs(syncing_seconds=4.0),
    probe_path("run", ("zpool", "status", "-pLPs", "tank")): json.dumps(
        {
            "status": 0,
            "signal": None,
            "stdout": "  pool: tank\n state: ONLINE\n"
            "  scan: resilver in progress since Sun Nov 29 03:12:20 2026\n\t25.00% done\n"
            "config:\n\ttank ONLINE 0 0 0 -\n\t  mirror-0 ONLINE 0 0 0 -\n"
            "\t    /dev/sda1 ONLINE 0 0 0 0\n\t    /dev/sdb1 ONLINE 0 0 0 0\n"
            "errors: No known data errors\n",
            "stderr": "",
        }
    ),
    "/sys/class/hwmon/hwmon0/name": "coretemp\n",
    "/sys/class/hwmon/hwmon0/temp1_input": "45000\n",
    "/proc/1/mountinfo": (
        machine.files(2)["/proc/1/mountinfo"] + "102 1 0:40 / /srv/data rw - btrfs /dev/sdc rw\n"
    ),
    probe_path("run", ("btrfs", "scrub", "status", "-d", "/srv/data")): json.dumps(
        {
            "status": 0,
            "signal": None,
            "stdout": "UUID: 0b1c2d3e-0000-4000-8000-000000000000\n"
            "Scrub device /dev/sdc (id 1)\n\tno stats available\n",
            "stderr": "",
        }
    ),
    "/sys/fs/btrfs/0b1c2d3e-0000-4000-8000-000000000000/label": "data\n",
    "/sys/fs/btrfs/0b1c2d3e-0000-4000-8000-000000000000/devinfo/1/missing": "0\n",
    "/sys/class/enclosure/0:0:0:0/Slot 01/status": "OK\n",
    "/sys/class/enclosure/0:0:0:0/Slot 01/fault": "0\n",
    "/sys/block/dm-0/dm/name": "vg-root\n",
    "/sys/block/dm-0/dm/suspended": "0\n",
    **MAPPED,
    "/proc/1/comm": "systemd\n",
    probe_path("newest", ("/srv/backup", "*")): json.dumps(
        {
            "realtime_seconds": START,
            "utc_offset_seconds": 0,
            "mount_point": "/",
            "files": 0,
            "bytes": 0,
            "oldest_seconds": None,
            "latest": [],
            "truncated": "",
        }
    ),
    **{
        probe_path("run", ("dumpe2fs", "-b", device)): json.dumps(
            {"status": 0, "signal": None, "stdout": "2000\n", "stderr": ""}
        )
        for device in ("/dev/sda1", "/dev/sdb1")
    },
    "/.probe/tasks": '{"tasks": [], "count": 0}',
    "/.probe/io_sweep": '{"boot_seconds": 1.0, "processes": [], "not_read": []}',
    probe_path(
        "run", smartctl_runner.command(AccessMethod("/dev/sda", "scsi"), "full")
    ): drives.ata("S1"),
    "/proc/sys/kernel/random/boot_id": "6a1f0c5e-0000-4000-8000-000000000000\n",
    "/.kmsg": "3,1,1000000,-;critical medium error, dev sda, sector 8 op 0x0:(READ)\n",
    **Card(number=7).files(),
    "/run/udev/data/b8:0": "E:ID_SERIAL=abc\nE:ID_PATH=pci-0000:00:1f.2-ata-1\n",
}


@pytest.fixture(scope="module")
def readings() -> dict[str, Reading]:
    """The data of a host that has every data source."""
    root = Memory(machine.files(2) | MORE)
    return {source.name: collect(source, root, lambda: START) for source in SOURCES}


class Watch:
    """An engine with one rule, which fires while a metric of the data source can be read."""

    def __init__(self, source: Source, metric: str) -> None:
        rule = (
            f"groups: [{{name: g, interval: 1s, rules: [{{alert: Told, expr: '{metric} >= -Inf',"
            " labels: {severity: warning}}]}]"
        )
        self.engine = Engine(parse_rule_file(rule, "test"), [source], START)
        self.incidents = model.Incidents()
        self.now = START
        self.reasons: list[str] = []

    def run(self, reading: Reading | None, seconds: float = 1.0) -> set[str]:
        """Let time pass, with this data at its end; return the states of the alerts."""
        self.now += seconds
        self.engine.observe([] if reading is None else [reading], self.now, 1000.0)
        self.engine.rules.evaluate(self.now)
        self.incidents, dues, _ = incidents.next_incidents(
            self.incidents,
            self.engine.rules.alerts(),
            self.now,
            incidents.Surroundings(
                install="test",
                policy=model.NotificationPolicy(),
                observe=lambda alert: (Evidence(0.0, "test", alert.name),),
                is_observable=self.engine.rules.is_observable,
            ),
        )
        self.reasons += [due.reason.value for due in dues]
        return {alert.state.value for alert in self.engine.rules.alerts()}


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_the_reference_has_the_labels_of_every_series(
    source: Source, readings: dict[str, Reading]
) -> None:
    """Who writes a rule looks them up in packaging/doc/metrics.md."""
    samples = source.samples(readings[source.name].value, frozenset({"sda", "sdb"}))
    odd = {(name, tuple(dict(labels))) for name, labels, _ in samples}
    assert {each for each in odd if not fits(*each)} == set()


@pytest.mark.parametrize("outcome", SILENT, ids=lambda outcome: outcome.value)
@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_an_alert_whose_source_falls_silent_is_unknown_and_its_incident_stays_open(
    source: Source, outcome: Outcome, readings: dict[str, Reading]
) -> None:
    """Valid for three periods, then stale and unknown; the incident is unreadable, not resolved."""
    good = readings[source.name]
    assert good.outcome is Outcome.OK, good.error
    samples = source.samples(good.value, frozenset({"sda", "sdb"}))
    assert samples, f"'{source.name}' shows nothing"
    watch = Watch(source, samples[0][0])
    for _ in range(14):
        assert watch.run(good, 5.0) == {"firing"}
    bad = Reading(source.name, outcome, START, 0.0, None, "no longer")
    held = int(VALID_PERIODS * source.period_seconds)
    assert watch.run(bad) == {"firing"}
    assert all(watch.run(bad, (held - 1) / 4) == {"firing"} for _ in range(4))
    assert [watch.run(bad) for _ in range(3)][-1] == {"unknown"}
    shown = {s[0] for c in watch.engine.hub.chunks() for _, found in c.families for s in found}
    assert samples[0][0] not in shown
    for _ in range(20):
        watch.run(None, 50.0)
    open_ones = watch.incidents.by_key.values()
    assert sorted(watch.reasons) == ["data unavailable"] * len(open_ones) + ["opened"] * len(
        open_ones
    )
    assert all(incident.firing for incident in open_ones)
    watch.run(good)
    assert {alert.state.value for alert in watch.engine.rules.alerts()} == {"firing"}
