"""When a drive is polled again, which may be at once, and when drives are discovered: no thread."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from iowarden.collectors.smart.discovery import Discovered
from iowarden.collectors.smart.drive import AccessMethod, Drive, Protocol, ReadStatus
from iowarden.collectors.smart.options import Options
from iowarden.collectors.smart.smartctl_runner import SmartctlResult
from iowarden.daemon.polling import smart, smart_discovery, smart_schedule
from iowarden.daemon.polling.smart_discovery import Discovery, DiscoveryResult
from iowarden.daemon.polling.smart_lanes import Lanes
from iowarden.daemon.polling.smart_schedule import RETRY_INTERVAL_SECONDS, PolledTarget

if TYPE_CHECKING:
    from conftest import MachineMaker

SDA = AccessMethod("/dev/sda", "sat", "sda", "host0", "ahci")
OPTIONS = Options()
DRIVE = Drive(Protocol.ATA, serial="S1", rotation_rpm=7200)
READ = SmartctlResult(ReadStatus.READ, drive=DRIVE)
COUNTERS = "1\n9 0 72"
LATE = SmartctlResult(ReadStatus.TIMEOUT, "killed", late=True)
NOBODY = SmartctlResult(ReadStatus.UNREADABLE, "the probe is busy", ran=False, passing=True)


def method(target: AccessMethod = SDA, options: Options = OPTIONS) -> PolledTarget:
    """Return a drive that was not polled yet."""
    return smart_schedule.new_target(target, None, "", options)


def lanes(*targets: AccessMethod) -> tuple[Lanes, DiscoveryResult]:
    """Return the drives of a first discovery, none polled yet."""
    discovery, found = Discovery(), Lanes()
    discovery.end(DiscoveryResult(Discovered(targets)), 0.0)
    found.take_over(discovery, 0.0, OPTIONS, program_came_or_went=False)
    return found, discovery.result


def test_what_was_no_fault_of_the_drive_is_tried_again_each_time_later() -> None:
    """After 60, 120, 240 s ..., and at the latest after its poll interval."""
    drive, now, waits = method(), 10_000.0, []
    for _ in range(8):
        drive.finish(NOBODY, now, now, OPTIONS, wake=False)
        waits.append(drive.due - now)
    assert waits[:5] == [RETRY_INTERVAL_SECONDS * 2**n for n in range(5)]
    assert max(waits) <= 1.5 * OPTIONS.interval_seconds
    assert drive.polled.failures_total == 8
    assert drive.polled.runs_total == 0


def test_a_drive_that_is_late_twice_is_given_time_and_then_queried_less() -> None:
    """Twice the deadline first, then another profile; with the fewest options up to four times."""
    drive, asked = method(), []
    for _ in range(8):
        words, _ = drive.command(OPTIONS, 0.0)
        asked.append((words[2], drive.deadlines))
        drive.finish(LATE, 0.0, 60.0, OPTIONS, wake=False)
    assert asked == [
        *(("-x", 1.0), ("-x", 2.0), ("-a", 1.0), ("-a", 2.0)),
        *(("-i", 1.0), ("-i", 2.0), ("-i", 4.0), ("-i", 4.0)),
    ]
    assert drive.polled.reason.startswith("killed")


@pytest.mark.parametrize(("seconds", "deadlines"), [(1.0, 1.0), (45.0, 1.5), (500.0, 4)])
def test_a_drive_that_needs_long_is_given_twice_what_it_needed(
    seconds: float, deadlines: float
) -> None:
    """Of a usual deadline of a minute, from one to four."""
    drive = method()
    drive.finish(READ, 0.0, seconds, OPTIONS, wake=False)
    assert drive.deadlines == deadlines


def test_a_drive_that_sleeps_is_woken_once_it_has_slept_for_too_long() -> None:
    """Its standby is counted from when it was first detected until it answers."""
    drive, options = method(), Options(wake_after_seconds=86_400.0)
    for hour in range(24):
        assert not drive.command(options, hour * 3600.0)[1]
        drive.finish(SmartctlResult(ReadStatus.ASLEEP), 0.0, hour * 3600.0, options, wake=False)
    assert drive.command(options, 86_400.0)[1]
    drive.finish(READ, 0.0, 86_400.0, options, wake=True)
    assert not drive.command(options, 90_000.0)[1]


def test_what_a_drive_reported_is_dropped_after_three_periods() -> None:
    """Not during standby, which is a valid answer, too."""
    drive = method()
    drive.finish(READ, 0.0, 0.0, OPTIONS, wake=False)
    drive.finish(
        SmartctlResult(ReadStatus.ASLEEP), 0.0, 3 * OPTIONS.interval_seconds, OPTIONS, wake=False
    )
    assert not drive.expire(6 * OPTIONS.interval_seconds)
    assert drive.expire(6 * OPTIONS.interval_seconds + 1)
    assert drive.polled.drive is None
    assert not drive.expire(1e9)


def idle_from(drive: PolledTarget, hours: int, result: SmartctlResult = READ) -> list[float]:
    """Return when a drive whose counters never change is polled, of `hours` in which it is due."""
    polled: list[float] = []
    now = 0.0
    while now <= hours * 3600.0:
        if not drive.skip(COUNTERS, now):
            drive.activity = COUNTERS
            drive.finish(result, now, now, OPTIONS, wake=False)
            polled.append(now)
        assert not drive.expire(now)
        now = max(drive.due, now + 1.0)
    return polled


@pytest.mark.parametrize("hours", [0.5, 7.0])
def test_an_idle_disk_is_left_alone_until_its_data_are_a_day_old(hours: float) -> None:
    """Two polls agree; then none for a day: a disk with a standby timer can spin down."""
    drive = method(options=Options(interval_seconds=hours * 3600.0))
    first, second, third, fourth = idle_from(drive, 60)
    assert second - first <= 1.5 * hours * 3600.0
    assert (third - second, fourth - third) == (86_400.0, 86_400.0)
    assert drive.skip(COUNTERS, fourth + 3600.0)
    assert drive.polled.status is ReadStatus.READ
    assert drive.polled.failures_total == 0
    assert drive.polled.reason == smart_schedule.SKIPPED


@pytest.mark.parametrize("counters", ["1\n9 0 73", ""])
def test_a_disk_that_was_read_or_has_no_counters_is_polled(counters: str) -> None:
    """One read request is enough; a disk behind a RAID controller has no counters of its own."""
    drive = method()
    idle_from(drive, 2)
    assert drive.skip(COUNTERS, 10_000.0)
    assert not drive.skip(counters, 11_800.0)
    drive.activity = counters
    drive.finish(READ, 11_800.0, 11_800.0, OPTIONS, wake=False)
    assert drive.skip(counters, 13_600.0) is bool(counters)
    assert not drive.skip("another " + counters, 15_400.0)


@pytest.mark.parametrize(
    "result",
    [
        LATE,
        SmartctlResult(ReadStatus.ASLEEP),
        SmartctlResult(ReadStatus.READ, drive=replace(DRIVE, self_test_remaining_ratio=0.9)),
        SmartctlResult(ReadStatus.READ, drive=replace(DRIVE, temperature_celsius=55.0)),
        SmartctlResult(ReadStatus.READ, drive=replace(DRIVE, pending_sectors=1)),
    ],
    ids=["late", "asleep", "self-test", "hot", "new error"],
)
def test_an_idle_disk_is_polled_while_something_is_going_on(result: SmartctlResult) -> None:
    """It did not answer, tests itself, is hot, or has an error that the next poll confirms."""
    drive = method()
    idle_from(drive, 2)
    now = drive.due
    drive.finish(result, now, now, OPTIONS, wake=False)
    assert not drive.skip(COUNTERS, drive.due)


def test_a_requested_poll_of_an_idle_disk_is_run_once() -> None:
    """An error line of the kernel, or the end of a self-test, requests it."""
    drive = method()
    idle_from(drive, 2)
    drive.requested = True
    assert not drive.skip(COUNTERS, 10_000.0)
    drive.finish(READ, 10_000.0, 10_000.0, OPTIONS, wake=False)
    assert drive.skip(COUNTERS, 11_800.0)


def test_the_counters_of_a_disk_are_those_of_all_its_paths(machine: MachineMaker) -> None:
    """What is read through the other path is I/O too; counters that are off prove nothing."""
    files: dict[str, str | None] = {}
    for name in ("sda", "sdb"):
        files[f"/sys/block/{name}/stat"] = "  9  0  72  4  0  0  0  0  0  4  4\n"
        files[f"/sys/block/{name}/queue/iostats"] = "1\n"
    root = machine(files)
    before = smart.activity(root, {"sda", "sdb"})
    assert before
    assert smart.activity(root, {"sdb", "sda"}) == before
    machine({"/sys/block/sdb/stat": " 10  0  80  4  0  0  0  0  0  4  4\n"})
    assert smart.activity(root, {"sda", "sdb"}) not in {"", before}
    machine({"/sys/block/sdb/queue/iostats": "0\n"})
    assert smart.activity(root, {"sda", "sdb"}) == ""
    assert smart.activity(root, {"sda", ""}) == "", "it is hidden behind a controller as well"


def test_of_a_disk_with_requests_in_flight_nothing_that_waits_for_them_is_read(
    machine: MachineMaker,
) -> None:
    """It hangs while another program changes its scheduler: 'queue' would wait for both."""
    root = machine(
        {
            "/sys/block/sda/stat": "  9  0  72  4  0  0  0  0  2  4  4\n",
            "/sys/block/sda/queue/iostats": "1\n",
        }
    )
    read: list[str] = []
    root.watch(lambda path, _: read.append(path))
    assert smart.activity(root, {"sda"}) == "", "it is in use: it is polled"
    assert read == ["/sys/block/sda/stat"]


def test_the_counters_of_an_nvme_drive_are_those_of_all_its_namespaces(
    machine: MachineMaker,
) -> None:
    """Its first namespace is idle, its second is in use: the drive is."""
    files: dict[str, str | None] = {"/sys/block/nvme0n1/device/state": "live\n"}
    for name in ("nvme0n1", "nvme0n2"):
        files[f"/sys/block/nvme0n1/device/{name}/nsid"] = f"{name[-1]}\n"
        files[f"/sys/block/{name}/stat"] = "  9  0  72  4  0  0  0  0  0  4  4\n"
        files[f"/sys/block/{name}/queue/iostats"] = "1\n"
    root = machine(files)
    before = smart.activity(root, {"nvme0n1"})
    assert before
    machine({"/sys/block/nvme0n2/stat": " 10  0  80  4  0  0  0  0  0  4  4\n"})
    assert smart.activity(root, {"nvme0n1"}) not in {"", before}
    assert smart.activity(root, {"nvme0n2"}) == "", "its controller cannot be listed"


def test_the_counters_of_an_nvme_drive_with_several_controllers_are_those_of_its_paths(
    machine: MachineMaker,
) -> None:
    """Before Linux 6.4 its own ones stay 0: a poll of a busy drive would be skipped for a day."""
    files: dict[str, str | None] = {"/sys/block/nvme0n1/device/nvme0n1/nsid": "1\n"}
    for name in ("nvme0n1", "nvme0c0n1", "nvme1c0n1"):
        files[f"/sys/block/{name}/stat"] = "  0  0  0  0  0  0  0  0  0  0  0\n"
        files[f"/sys/block/{name}/queue/iostats"] = "1\n"
    root = machine(files)
    before = smart.activity(root, {"nvme0n1"})
    assert before
    machine({"/sys/block/nvme1c0n1/stat": " 10  0  80  4  0  0  0  0  0  4  4\n"})
    assert smart.activity(root, {"nvme0n1"}) == before, "another drive's"
    machine({"/sys/block/nvme0c0n1/stat": " 10  0  80  4  0  0  0  0  0  4  4\n"})
    assert smart.activity(root, {"nvme0n1"}) not in {"", before}


def test_one_program_at_a_controller_that_hides_disks_two_at_another() -> None:
    """Whatever is due: a second answer would be lost, or all would wait for one controller."""
    hidden = [AccessMethod("/dev/sg2", f"areca,{n}", "", "host1", "arcmsr") for n in range(1, 4)]
    plain = [AccessMethod(f"/dev/sd{n}", "sat", f"sd{n}", "host0", "ahci") for n in "abc"]
    found, looked = lanes(*hidden, *plain)
    assert found.free(looked, 0.0) == 3
    begun = [each for _ in range(9) if (each := found.begin(looked, 0.0)) is not None]
    assert sorted(each.target.controller for each in begun) == ["host0", "host0", "host1"]
    assert found.free(looked, 0.0) == 0
    found.end(next(each for each in begun if each.target.controller == "host1"))
    assert [each.target.controller for each in found.due(looked, 0.0)] == ["host1"] * 3


def test_many_drives_are_not_queried_all_at_once() -> None:
    """Up to eight are polled when they are found; the polls of more are spread over two minutes."""
    few, many = (
        lanes(*(AccessMethod(f"/dev/sg{n}", "scsi", "", f"host{n}") for n in range(count)))[0]
        for count in (8, 9)
    )
    assert {each.due for each in few.methods.values()} == {0.0}
    due = {each.due for each in many.methods.values()}
    assert len(due) == 9
    assert max(due) <= OPTIONS.spread_seconds


def test_drives_are_looked_for_when_something_came_or_went_and_each_ten_minutes() -> None:
    """One discovery at a time; without smartctl a minute later, and for smartctl alone."""
    discovery = Discovery()
    assert discovery.begin(0.0)
    assert not discovery.begin(0.0)
    discovery.end(DiscoveryResult(Discovered((SDA,))), 1.0)
    assert not discovery.begin(599.0)
    discovery.notice({"/sys/block": ("sda", "sdb")}, 599.0)
    assert discovery.begin(599.0)
    missing = SmartctlResult(ReadStatus.NO_SMARTCTL, "not installed", ran=False)
    discovery.end(DiscoveryResult(Discovered((SDA,)), unusable=missing), 600.0)
    assert not discovery.begin(600.0 + smart_discovery.RETRY_INTERVAL_SECONDS - 1)
    assert discovery.begin(600.0 + smart_discovery.RETRY_INTERVAL_SECONDS)
    assert discovery.former(660.0) is discovery.result


def test_a_look_that_fails_keeps_the_drives_of_the_last_one() -> None:
    """The drives stay known; why there is no new list is reported as a problem."""
    discovery = Discovery()
    discovery.end(DiscoveryResult(Discovered((SDA,))), 0.0)
    discovery.end(DiscoveryResult(problem="no '/sys/block'"), 600.0)
    assert discovery.result.discovered == Discovered((SDA,))
    assert discovery.result.problem


def test_that_a_look_hangs_is_found_once() -> None:
    """After two minutes, until it returns."""
    discovery = Discovery()
    discovery.begin(0.0)
    assert not discovery.begins_to_hang(120.0)
    assert discovery.begins_to_hang(121.0)
    assert not discovery.begins_to_hang(122.0)
    assert discovery.hangs
    discovery.end(DiscoveryResult(Discovered(())), 200.0)
    assert not discovery.hangs
