"""Drives polled by the real probe; a program that prints JSON stands in for smartctl."""

from __future__ import annotations

import os
import stat
import threading
import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.memory import write_tree
from support.probe import DEADLINE_SECONDS, Probe

from iowarden.collectors.machine import Machine, probe_path
from iowarden.collectors.smart import smart_series, smartctl_exporter, smartctl_runner
from iowarden.collectors.smart.discovery import ConfiguredDrive, Discovered
from iowarden.collectors.smart.drive import AccessMethod, Disk, Disks, ReadStatus
from iowarden.collectors.smart.options import Options
from iowarden.collectors.smart.scsi_hosts import UnmonitoredDevice
from iowarden.daemon.polling import smart, smart_discovery, smart_schedule
from iowarden.daemon.probe_client.client import Client
from iowarden.daemon.probe_client.connect import connector

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SMARTCTL = r"""
echo "$*" >> "$0.log"
case "$*" in *-V) echo '{"smartctl":{"version":[7,3]}}'; exit;; esac
for last; do :; done
kind=${*##*-d }
kind=${kind%% *}
number="${last##*/}-${kind##*,}"
[ -e "$0.do-$number" ] && . "$0.do-$number"
: "${status:=0}" "${serial:=SERIAL-$number}" "${temperature:=30}"
printf '%s' '{"json_format_version":[1,0],
"smartctl":{"version":[7,3],"argv":["smartctl"],"exit_status":'$status'},
"device":{"name":"'$last'","type":"'$kind'","protocol":"ATA"},
"model_name":"ACME HDD 4000","serial_number":"'$serial'",
"user_capacity":{"blocks":7814037168,"bytes":4000787030016},
"smart_support":{"available":true,"enabled":true},
"smart_status":{"passed":true},
"temperature":{"current":'$temperature'},
"power_on_time":{"hours":1000}}'
exit $status
"""
"""The disk 'HOST-NUMBER' behaves as its file 'smartctl.do-HOST-NUMBER' states."""


ASLEEP = (
    'case "$*" in *"-n standby,3"*) echo \'{"smartctl":{"version":[7,3],"exit_status":3,'
    '"messages":[{"string":"Device is in STANDBY mode, exit(3)","severity":"information"}],'
    '"output":["smartctl 7.3","","Device is in STANDBY mode, exit(3)"]}}\'; exit 3;; esac'
)

CLI64 = r"""
echo "$*" >> "$0.log"
case "$*" in
"disk smart drv="*) printf '197 Current Pending Sector Count 0x12 193 0 OK\n';;
"disk info drv="*) printf 'Model Name : ACME HDD 4000\nSerial Number : SERIAL-%s\n' "${3#drv=}";;
esac
echo 'GuiErrMsg<0x00>: Success.'
"""
"""Areca's program; it reports lost sectors for each disk."""


class Bench:
    """A poller with a real probe, and a clock that the test advances."""

    def __init__(self, directory: Path) -> None:
        """Start the probe; there are no drives yet."""
        self.probe = Probe(directory)
        self.program = self.probe.program("smartctl", SMARTCTL)
        self.now = 1000.0
        self.targets: tuple[AccessMethod, ...] = ()
        self.unmonitored: tuple[UnmonitoredDevice, ...] = ()
        self.configured: tuple[tuple[ConfiguredDrive, AccessMethod | None], ...] = ()
        self.client: Client | None = None
        self.root = Machine("/")

    def start(self, options: Options | None = None) -> smart.SmartPoller:
        """Connect, and return a poller that has polled nothing."""
        self.probe.start()
        self.client = Client(connector(str(self.probe.runtime.parent / "socket")), time.monotonic)
        self.root = Machine("/", probe=self.client.request)
        return self.poller(options)

    def poller(self, options: Options | None = None) -> smart.SmartPoller:
        """Return another poller on this machine."""
        return smart.SmartPoller(
            options or Options(),
            lambda: self.now,
            lambda *_: Discovered(
                self.targets, unmonitored=self.unmonitored, configured=self.configured
            ),
        )

    def behind(self, host: int, *numbers: int) -> None:
        """Add disks behind the RAID controller of a host."""
        self.targets += tuple(
            AccessMethod(f"/dev/bus/{host}", f"megaraid,{n}", "", f"host{host}", "megaraid_sas")
            for n in numbers
        )

    def behind_areca(self, *numbers: int) -> Path:
        """Add disks behind an Areca, and its program; return the path of that program's log."""
        self.targets += tuple(
            AccessMethod("/dev/sg2", f"areca,{n}", "", "host9", "arcmsr") for n in numbers
        )
        node = self.probe.root / "dev/sg2"
        node.parent.mkdir(exist_ok=True)
        os.mknod(node, stat.S_IFCHR | 0o600, os.makedev(0, 0))  # any user may create this one
        program = self.probe.program("cli64", CLI64)
        return program.with_name("cli64.log")

    def does(self, disk: str, text: str) -> None:
        """Make a disk misbehave."""
        self.program.with_name(f"smartctl.do-{disk}").write_text(text)

    def runs(self) -> Counter[str]:
        """Return how often each disk was polled so far."""
        log = self.program.with_name("smartctl.log")
        lines = log.read_text().splitlines() if log.exists() else []
        return Counter(
            f"{line.split('/')[-1]}-{line.split('-d megaraid,')[1].split()[0]}"
            for line in lines
            if "megaraid," in line
        )

    def requests(self) -> float:
        """Return how many requests the probe has not answered."""
        assert self.client is not None
        samples = self.client.samples(0.0)
        return next(value for name, _, value in samples if name == "iowarden_probe_open_requests")

    def command_lines(self) -> list[str]:
        """Return all command lines except those that query the version."""
        lines = self.program.with_name("smartctl.log").read_text().splitlines()
        return [line for line in lines if "-V" not in line]

    def later(self, poller: smart.SmartPoller, seconds: float) -> Disks:
        """Advance the clock, poll what is due then, and return the result."""
        self.now += seconds
        poller.read(self.root)
        assert poller.settled(DEADLINE_SECONDS)
        return poller.read(self.root)

    def look(self, poller: smart.SmartPoller) -> Disks:
        """Return the result once all due polls are done."""
        return self.later(poller, 0.0)

    def close(self) -> None:
        """Leave nothing running."""
        if self.client is not None:
            self.client.close(DEADLINE_SECONDS)
        self.probe.close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    """A machine with a probe."""
    found = Bench(tmp_path)
    yield found
    found.close()
    names = [t.name for t in threading.enumerate() if t.name == "smart"]
    deadline = time.monotonic() + DEADLINE_SECONDS
    while names and time.monotonic() < deadline:
        time.sleep(0.01)  # between two checks of threads that end by themselves
        names = [t.name for t in threading.enumerate() if t.name == "smart"]
    assert not names


def only(disks: Disks) -> Disk:
    """Return the only disk."""
    (disk,) = disks.by_key.values()
    return disk


def covers(disks: Disks) -> dict[str, ReadStatus]:
    """Return the poll status of each disk."""
    return {key: disk.polled.status for key, disk in disks.by_key.items()}


def test_one_run_for_each_drive_and_poll(bench: Bench) -> None:
    """A small machine is polled at once; nothing more is run until the interval ends."""
    bench.behind(0, 0, 1, 2)
    poller = bench.start()
    disks = bench.look(poller)
    assert set(covers(disks)) == {"SERIAL-0-0", "SERIAL-0-1", "SERIAL-0-2"}
    assert set(covers(disks).values()) == {ReadStatus.READ}
    polled = disks.by_key["SERIAL-0-0"].polled
    assert polled.drive is not None
    assert (polled.drive.temperature_celsius, polled.runs_total, polled.read_seconds) == (
        *(30, 1, 1000.0),
    )
    assert bench.later(poller, 15.0) is bench.look(poller)
    assert set(bench.runs().values()) == {1}
    bench.later(poller, 1.5 * 3600.0)
    assert set(bench.runs().values()) == {2}
    assert bench.command_lines()[0] == (
        "--json=co -x -f old -l error -l selftest -n standby,3 -d megaraid,0 /dev/bus/0"
    )


def test_a_drive_that_hangs_keeps_no_other(bench: Bench) -> None:
    """One controller hangs: the disks of the other are polled, and polled again on schedule."""
    bench.behind(0, 0, 1, 2)
    bench.behind(1, 0, 1)
    bench.does("0-0", "trap '' TERM; sleep 999")
    poller = bench.start(Options(deadline_seconds=2 * DEADLINE_SECONDS))
    poller.read(bench.root)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while covers(poller.read(bench.root)).get("SERIAL-1-1") is not ReadStatus.READ:
        assert time.monotonic() < deadline
        poller.settled(0.1)
    assert covers(poller.read(bench.root))["/dev/bus/0 -d megaraid,0"] is ReadStatus.NOT_POLLED_YET
    bench.now += 1.5 * 3600.0
    while bench.runs()["1-1"] < 2:
        assert time.monotonic() < deadline
        poller.read(bench.root)
        poller.settled(0.1)
    # No second request to it, and its neighbours wait without a request to the probe.
    assert {name: runs for name, runs in bench.runs().items() if name[0] == "0"} == {"0-0": 1}
    while bench.requests() > 1:
        assert time.monotonic() < deadline
        poller.settled(0.1)


def test_a_drive_that_is_late_gets_more_time_and_is_then_queried_less(bench: Bench) -> None:
    """A bridge that hangs on '-x': killed twice, then polled with '-a' and a reason."""
    bench.behind(0, 0)
    bench.does("0-0", 'case "$*" in *" -x "*) exec sleep 999;; esac')
    poller = bench.start(Options(deadline_seconds=1.5))  # the third poll needs a part of it
    first = only(bench.look(poller)).polled
    assert (first.status, first.failures_total) == (ReadStatus.TIMEOUT, 1)
    assert "was killed at the deadline" in first.reason
    bench.later(poller, smart_schedule.RETRY_INTERVAL_SECONDS)
    last = only(bench.later(poller, 2 * smart_schedule.RETRY_INTERVAL_SECONDS)).polled
    assert [line.split()[1] for line in bench.command_lines()] == ["-x", "-x", "-a"]
    assert (last.status, last.runs_total) == (ReadStatus.READ, 3)
    assert last.reason.startswith("polled with '-a': '-x -f old")


def test_what_a_drive_reported_is_held_for_three_periods(bench: Bench) -> None:
    """It fails from then on: its values stay for a while, then the reason replaces them."""
    bench.behind(0, 0)
    poller = bench.start()
    bench.look(poller)
    bench.does("0-0", "echo 'what is this?'; exit 4")
    disk = only(bench.later(poller, 2 * 3600.0))
    assert (disk.key, disk.polled.status) == ("SERIAL-0-0", ReadStatus.UNPARSED)
    assert disk.polled.drive is not None
    assert not list(smart_series.unreadable(poller.read(bench.root)))
    bench.later(poller, 3600.0)
    disk = only(bench.later(poller, 3600.0))
    assert (disk.key, disk.polled.drive) == ("SERIAL-0-0", None)
    unread = dict(smart_series.unreadable(poller.read(bench.root)))
    exported = ("device", smartctl_exporter.label(disk.polled.target.path, disk.polled.target.kind))
    assert set(unread) == {(("disk", "SERIAL-0-0"),), (exported,)}
    assert all("what is this?" in reason for reason in unread.values())


def test_a_sleeping_drive_is_not_woken_and_what_it_reported_is_held(bench: Bench) -> None:
    """It is in standby for weeks: that is no failure, and none of its data becomes unknown."""
    bench.behind(0, 0)
    poller = bench.start()
    bench.look(poller)
    bench.does("0-0", ASLEEP)
    for _ in range(10):
        disk = only(bench.later(poller, 1.5 * 3600.0))
    assert (disk.polled.status, disk.polled.failures_total) == (ReadStatus.ASLEEP, 0)
    assert disk.polled.drive is not None
    assert disk.polled.read_seconds == 1000.0
    assert not list(smart_series.unreadable(poller.read(bench.root)))
    assert all("-n standby,3" in line for line in bench.command_lines())


def test_a_drive_is_woken_only_after_what_is_configured(bench: Bench) -> None:
    """'wake_after: 1d': once a day it is read, and may go to standby again."""
    bench.behind(0, 0)
    bench.does("0-0", ASLEEP)
    poller = bench.start(Options(wake_after_seconds=86_400.0))
    for _ in range(60):
        bench.later(poller, 3600.0)
    woken = ["-n never" in line for line in bench.command_lines()]
    assert 2 <= sum(woken) <= 3
    assert not any(woken[:20])


@pytest.mark.parametrize(
    ("text", "cover", "reason"),
    [
        ("exit 1", ReadStatus.UNPARSED, "status 1"),
        ("kill -SEGV $$", ReadStatus.UNREADABLE, "signal 11"),
        ("printf '\\377\\376\\0\\1'; exit 0", ReadStatus.UNPARSED, "expected"),
        ("printf '{\"smartctl\":'; exit 0", ReadStatus.UNPARSED, ""),
        ("head -c 9000000 /dev/zero | tr '\\0' x; exit 0", ReadStatus.UNREADABLE, "at most"),
        (
            ASLEEP.replace("STANDBY", "SLEEP"),
            ReadStatus.UNREADABLE,
            "for a disk that fails its query",
        ),
    ],
    ids=["nothing", "a crash", "binary", "cut off", "too much", "fails every command"],
)
def test_bad_output_is_an_outcome(bench: Bench, text: str, cover: ReadStatus, reason: str) -> None:
    """Each has its kind and its reason, and the other drive is read."""
    bench.behind(0, 0, 1)
    bench.does("0-0", text)
    poller = bench.start()
    disks = bench.look(poller)
    polled = disks.by_key["/dev/bus/0 -d megaraid,0"].polled
    assert (polled.status, disks.by_key["SERIAL-0-1"].polled.status) == (cover, ReadStatus.READ)
    assert reason in polled.reason


def test_findings_in_the_exit_status_are_no_failure(bench: Bench) -> None:
    """Status 64, 'the error log has entries', is about the drive."""
    bench.behind(0, 0)
    bench.does("0-0", "status=64")
    disk = only(bench.look(bench.start()))
    assert disk.polled.status is ReadStatus.READ
    assert disk.polled.drive is not None
    assert disk.polled.drive.exit_status == 64


def test_without_smartctl_no_drive_is_queried_until_it_is_installed(bench: Bench) -> None:
    """One request detects it for all; a minute after its installation, all are read."""
    bench.behind(0, 0, 1)
    bench.program.unlink()
    poller = bench.start()
    disks = bench.look(poller)
    assert set(covers(disks).values()) == {ReadStatus.NO_SMARTCTL}
    assert "apt install smartmontools" in next(iter(disks.by_key.values())).polled.reason
    bench.probe.program("smartctl", SMARTCTL)
    assert set(covers(bench.later(poller, smart_discovery.RETRY_INTERVAL_SECONDS)).values()) == {
        ReadStatus.READ
    }


def test_a_smartctl_that_goes_is_found_out_by_one_drive(bench: Bench) -> None:
    """The package was removed: the first failing poll applies to all, which keep their data."""
    bench.behind(0, 0, 1)
    poller = bench.start()
    bench.look(poller)
    bench.program.unlink()
    bench.now += smart.MIN_POLL_INTERVAL_SECONDS
    poller.poll_next(["SERIAL-0-0"])
    assert poller.settled(DEADLINE_SECONDS)
    disks = bench.look(poller)
    assert set(covers(disks).values()) == {ReadStatus.NO_SMARTCTL}
    assert all(disk.polled.drive is not None for disk in disks.by_key.values())


def test_a_smartctl_without_json_is_as_none(bench: Bench) -> None:
    """Version 6.6 of an outdated distribution."""
    bench.behind(0, 0)
    bench.probe.program("smartctl", "echo 'smartctl 6.6 2017-11-05 r4594 [x86_64]'; exit 1")
    polled = only(bench.look(bench.start())).polled
    assert polled.status is ReadStatus.NO_SMARTCTL
    assert "expected version 7.0 or later, which has JSON, got 6.6" in polled.reason


def test_without_probe_every_drive_reports_that(bench: Bench) -> None:
    """'probe: false', or a foreground run without root."""
    bench.behind(0, 0)
    poller = bench.poller()
    disk = only(bench.look(poller))
    assert (disk.polled.status, disk.polled.runs_total) == (ReadStatus.NO_PROBE, 0)


@pytest.mark.parametrize("controllers", [10, pytest.param(50, marks=pytest.mark.system)])
def test_hundreds_of_drives_are_queried_once_each_and_not_all_at_once(
    bench: Bench, controllers: int
) -> None:
    """A host with 50 controllers: its drives' first polls are spread over two minutes."""
    for host in range(controllers):
        bench.behind(host, *range(10))
    poller = bench.start()
    bench.look(poller)
    at_first = bench.runs().total()
    assert at_first < 2 * controllers
    disks = bench.later(poller, Options().spread_seconds)
    assert set(covers(disks).values()) == {ReadStatus.READ}
    assert (len(bench.runs()), set(bench.runs().values())) == (10 * controllers, {1})


def test_the_moments_of_a_drive_are_the_same_in_every_run() -> None:
    """By its access method only: the same offset in each interval, and 500 drives at 500 times."""
    targets = [AccessMethod("/dev/bus/0", f"megaraid,{n}") for n in range(500)]
    for target in targets[:20]:
        due = smart_schedule.next_due(1000.0, 3600.0, target)
        assert 1000.0 + 1800.0 <= due < 1000.0 + 1.5 * 3600.0
        assert smart_schedule.next_due(due, 3600.0, target) == pytest.approx(due + 3600.0)
        assert smart_schedule.next_due(due + 30.0, 3600.0, target) == pytest.approx(due + 3600.0)
    minutes = Counter(
        smart_schedule.next_due(0.0, 3600.0, target) % 3600.0 // 60 for target in targets
    )
    assert max(minutes.values()) < 25


def test_of_two_ways_to_a_disk_the_worse_is_tried_once_a_day(bench: Bench) -> None:
    """A controller lists it twice; if the better access method fails, the other one is used."""
    bench.behind(0, 0, 256)
    bench.does("0-256", "serial=SERIAL-0-0")
    poller = bench.start()
    disk = only(bench.look(poller))
    assert [other.kind for other in disk.others] == ["megaraid,256"]
    for _ in range(20):
        bench.later(poller, 3600.0)
    assert bench.runs()["0-0"] >= 20
    assert bench.runs()["0-256"] == 1
    bench.does("0-0", "exit 2")
    bench.later(poller, 3600.0)
    disk = only(bench.later(poller, 3600.0))
    assert (disk.polled.target.kind, disk.polled.status) == ("megaraid,256", ReadStatus.READ)


def test_an_event_about_a_disk_has_it_queried_at_once(bench: Bench) -> None:
    """By its serial number or a kernel name; at most once a minute."""
    bench.behind(0, 0, 1)
    poller = bench.start()
    bench.look(poller)
    poller.poll_next(["SERIAL-0-0"])
    assert poller.settled(DEADLINE_SECONDS)
    assert bench.runs() == {"0-0": 1, "0-1": 1}
    bench.now += smart.MIN_POLL_INTERVAL_SECONDS
    poller.poll_next(["SERIAL-0-0", "sdz"])
    assert poller.settled(DEADLINE_SECONDS)
    assert bench.runs() == {"0-0": 2, "0-1": 1}


def test_drives_come_and_go_with_a_look(bench: Bench) -> None:
    """A new one is polled at once, a removed one is not listed, the others keep their data."""
    bench.behind(0, 0)
    poller = bench.start()
    bench.look(poller)
    bench.behind(1, 7)
    disks = bench.later(poller, smart_discovery.FIND_SECONDS)
    assert covers(disks) == {"SERIAL-0-0": ReadStatus.READ, "SERIAL-1-7": ReadStatus.READ}
    assert bench.runs() == {"0-0": 1, "1-7": 1}
    bench.targets = bench.targets[1:]
    disks = bench.later(poller, smart_discovery.FIND_SECONDS)
    assert set(disks.by_key) == {"SERIAL-1-7"}


def test_what_cannot_be_queried_is_listed_with_its_reason(bench: Bench) -> None:
    """A volume of a storage array: no SMART data of a disk, and no run of smartctl."""
    bench.unmonitored = (
        UnmonitoredDevice("/dev/sdq", ReadStatus.LUN, "a volume of an array", "sdq"),
    )
    disk = only(bench.look(bench.start()))
    assert (disk.device, disk.polled.status, disk.polled.runs_total) == ("sdq", ReadStatus.LUN, 0)
    assert not bench.runs()


def test_a_configured_drive_that_nobody_tells_of_is_missing(bench: Bench) -> None:
    """It died at boot: none of the drives has its serial number, its path does not exist."""
    bench.behind(0, 0, 1)
    bench.configured = (
        (ConfiguredDrive(serial="SERIAL-0-1"), None),
        (ConfiguredDrive(serial="WD-WCC130000000"), None),
        (ConfiguredDrive(path="/dev/sdx"), None),
        (ConfiguredDrive(path="/dev/sdy", ignore=True), None),
    )
    poller = bench.start()
    disks = bench.look(poller)
    assert {key for key, cover in covers(disks).items() if cover is ReadStatus.MISSING} == {
        *("WD-WCC130000000", "/dev/sdx"),
    }
    assert set(disks.by_key) >= {"SERIAL-0-0", "SERIAL-0-1"}
    assert disks.by_key["/dev/sdx"].polled.target.origin == "configuration"


def test_another_drive_in_the_place_of_a_configured_one_is_reported(bench: Bench) -> None:
    """The bay holds a spare that is not configured: the expected one is missing."""
    bench.behind(0, 0)
    drive = ConfiguredDrive("/dev/bus/0", "megaraid,0", serial="WD-WCC130000000")
    bench.configured = ((drive, bench.targets[0]),)
    disks = bench.look(bench.start())
    (problem,) = disks.problems
    assert "the configured serial number 'WD-WCC130000000', got 'SERIAL-0-0'" in problem
    assert covers(disks) == {"WD-WCC130000000": ReadStatus.MISSING, "SERIAL-0-0": ReadStatus.READ}


def test_other_options_hold_at_once(bench: Bench) -> None:
    """A reload shortens the interval: drives due by the new one are polled with the next poll."""
    bench.behind(0, 0)
    poller = bench.start()
    bench.look(poller)
    poller.configure(replace(Options(), raid_interval_seconds=300.0))
    bench.later(poller, 450.0)
    assert bench.runs() == {"0-0": 2}


def test_the_threads_end_when_nothing_is_due(bench: Bench) -> None:
    """A service that waits half an hour for its next poll uses no thread for that."""
    bench.behind(0, 0)
    bench.look(bench.start())
    deadline = time.monotonic() + DEADLINE_SECONDS
    while any(thread.name == "smart" for thread in threading.enumerate()):
        assert time.monotonic() < deadline


def test_what_was_recorded_plays_to_the_same(bench: Bench, tmp_path: Path) -> None:
    """A disk that is read, one in standby, one that is killed, one with invalid output."""
    bench.behind(0, 0)
    bench.behind(1, 0)
    bench.behind(2, 0)
    bench.behind(3, 0)
    bench.does("1-0", ASLEEP)
    bench.does("2-0", "exec sleep 999")
    bench.does("3-0", "echo nonsense; exit")
    poller = bench.start(Options(deadline_seconds=2.0))
    seen: dict[str, bytes] = {}
    bench.look(poller)
    bench.root.watch(seen.__setitem__)
    disks = poller.read(bench.root)
    files = {path: content for path, content in seen.items() if not path.endswith("/")}
    write_tree(tmp_path / "played", {"/sys/block": None, **files})
    played = bench.poller().read(Machine(str(tmp_path / "played")))
    assert set(covers(played).values()) == {
        *(ReadStatus.READ, ReadStatus.ASLEEP, ReadStatus.TIMEOUT, ReadStatus.UNPARSED),
    }
    assert {
        key: (disk.polled.status, disk.polled.reason, disk.polled.drive)
        for key, disk in played.by_key.items()
    } == {
        key: (disk.polled.status, disk.polled.reason, disk.polled.drive)
        for key, disk in disks.by_key.items()
    }


def test_a_machine_without_smartctl_is_played_as_one(bench: Bench, tmp_path: Path) -> None:
    """That no drive could be polled is recorded, too."""
    bench.behind(0, 0)
    bench.program.unlink()
    poller = bench.start()
    bench.look(poller)
    seen: dict[str, bytes] = {}
    bench.root.watch(seen.__setitem__)
    disks = poller.read(bench.root)
    files = {path: content for path, content in seen.items() if not path.endswith("/")}
    write_tree(tmp_path / "played", {"/sys/block": None, **files})
    played = bench.poller().read(Machine(str(tmp_path / "played")))
    assert covers(played) == covers(disks)
    assert set(covers(played).values()) == {ReadStatus.NO_SMARTCTL}


def test_who_records_is_told_no_more_than_agreed(bench: Bench) -> None:
    """The flight recorder has 8 MB for all: failed and newest polls come first."""
    bench.behind(0, 0, 1, 2)
    bench.does("0-1", "exit 1")
    bench.start()
    poller = smart.SmartPoller(
        Options(),
        lambda: bench.now,
        lambda *_: Discovered(bench.targets),
        most_told_bytes=400,
    )
    bench.look(poller)
    seen: dict[str, bytes] = {}
    bench.root.watch(seen.__setitem__)
    poller.read(bench.root)
    assert [name for name in seen if "megaraid" in name] == [
        probe_path("run", smartctl_runner.command(bench.targets[1], "full"))
    ]


def by(disks: Disks) -> dict[str, tuple[ReadStatus, str]]:
    """Return the poll status of each disk, and the program that read it: '' for smartctl."""
    return {
        key: (disk.polled.status, disk.polled.drive.read_by if disk.polled.drive else "")
        for key, disk in disks.by_key.items()
    }


def test_without_smartctl_disks_behind_an_areca_are_read(bench: Bench, tmp_path: Path) -> None:
    """Once an hour at most, and by smartctl once it is installed; a recording has it."""
    bench.behind(0, 0)
    log = bench.behind_areca(1, 2)
    bench.program.unlink()
    poller = bench.start()
    disks = bench.look(poller)
    expected = {
        "/dev/bus/0 -d megaraid,0": (ReadStatus.NO_SMARTCTL, ""),
        "SERIAL-1": (ReadStatus.READ, "cli64 disk smart drv=1"),
        "SERIAL-2": (ReadStatus.READ, "cli64 disk smart drv=2"),
    }
    assert by(disks) == expected
    asked = ["disk smart drv=1", "disk info drv=1", "disk smart drv=2", "disk info drv=2"]
    assert log.read_text().splitlines() == asked
    for _ in range(5):
        bench.later(poller, smart_discovery.RETRY_INTERVAL_SECONDS)
    assert log.read_text().splitlines() == asked
    seen: dict[str, bytes] = {}
    bench.root.watch(seen.__setitem__)
    poller.read(bench.root)
    files = {path: content for path, content in seen.items() if not path.endswith("/")}
    write_tree(tmp_path / "played", {"/sys/block": None, **files})
    assert by(bench.poller().read(Machine(str(tmp_path / "played")))) == expected
    bench.probe.program("smartctl", SMARTCTL)
    disks = bench.later(poller, smart_discovery.RETRY_INTERVAL_SECONDS)
    assert set(by(disks).values()) == {(ReadStatus.READ, "")}
    assert log.read_text().splitlines() == asked


def test_without_smartctl_drives_are_not_looked_for_each_minute(bench: Bench) -> None:
    """Only smartctl is checked for: drive discovery causes work for controllers."""
    bench.behind_areca(1)
    bench.program.unlink()
    looks: list[float] = []

    def find(*_: object) -> Discovered:
        looks.append(bench.now)
        return Discovered(bench.targets)

    bench.start()
    poller = smart.SmartPoller(Options(), lambda: bench.now, find)
    bench.look(poller)
    for _ in range(9):
        bench.later(poller, smart_discovery.RETRY_INTERVAL_SECONDS)
    assert looks == [1000.0]
    bench.later(poller, smart_discovery.RETRY_INTERVAL_SECONDS)
    assert looks == [1000.0, 1000.0 + smart_discovery.FIND_SECONDS]


def test_where_smartctl_hangs_at_an_areca_it_is_left_out_for_a_day(bench: Bench) -> None:
    """smartctl hangs even with the fewest options; the vendor's program reads the disk."""
    log = bench.behind_areca(2)
    bench.targets = (replace(bench.targets[0], profile="minimal"),)
    bench.does("sg2-2", "exec sleep 999")
    poller = bench.start(Options(deadline_seconds=0.2))
    disks = bench.look(poller)
    assert by(disks) == {"SERIAL-2": (ReadStatus.READ, "cli64 disk smart drv=2")}
    assert "was killed at the deadline" in only(disks).polled.reason
    for _ in range(8):
        disks = bench.later(poller, 1.5 * 3600.0)
    assert by(disks) == {"SERIAL-2": (ReadStatus.READ, "cli64 disk smart drv=2")}
    assert len(bench.command_lines()) == 1
    assert len(log.read_text().splitlines()) == 2 * 9
    # A day later it is retried, and this time it answers.
    bench.does("sg2-2", "serial=SERIAL-2")
    assert by(bench.later(poller, smart_schedule.OTHER_METHOD_SECONDS)) == {
        "SERIAL-2": (ReadStatus.READ, "")
    }


def test_where_smartctl_is_late_at_an_areca_it_is_soon_asked_for_less(bench: Bench) -> None:
    """A slow controller: smartctl with fewer options returns more than the vendor's program."""
    bench.behind_areca(2)
    slow = 'case "$*" in *" -x "*) exec sleep 999;; esac; serial=SERIAL-2'
    bench.does("sg2-2", slow)
    poller = bench.start(Options(deadline_seconds=1.0))
    assert by(bench.look(poller)) == {"SERIAL-2": (ReadStatus.READ, "cli64 disk smart drv=2")}
    bench.later(poller, smart_schedule.RETRY_INTERVAL_SECONDS)
    assert by(bench.later(poller, smart_schedule.RETRY_INTERVAL_SECONDS)) == {
        "SERIAL-2": (ReadStatus.READ, "")
    }
    assert [line.split()[1] for line in bench.command_lines()] == ["-x", "-x", "-a"]


def test_an_areca_whose_program_crashes_leaves_both_reasons(bench: Bench) -> None:
    """The reason shows what was tried."""
    bench.behind_areca(2)
    bench.does("sg2-2", "echo 'what is this?'; exit 4")
    bench.probe.program("cli64", "kill -SEGV $$")
    polled = only(bench.look(bench.start())).polled
    assert (polled.status, polled.drive) == (ReadStatus.UNPARSED, None)
    assert "what is this?" in polled.reason
    said = "Areca's program: 'cli64 disk smart drv=2': it was terminated by signal 11"
    assert said in polled.reason
