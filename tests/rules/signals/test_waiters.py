"""Blocked tasks: long writes that affect no other program, urgent stalls, and drain times."""

from __future__ import annotations

import json

import pytest
from support.machine import block, disk, topology
from support.signals import with_writeback
from support.simulation import UPTIME, Simulation

from iowarden.collectors.procfs.tasks import BlockedTask, BlockedTasks, to_json
from iowarden.rules.signals import leaves, table
from iowarden.rules.signals.signal import Inputs, View
from iowarden.rules.signals.writeback import bandwidth, waiters
from iowarden.rules.snapshot import Snapshot

QUEUED = 875_000_000
SLOW = 2_000_000
"""A disk that takes so many bytes a second needs 437 s for what is queued."""


def task(pid: int, channel: str, **changes: object) -> BlockedTask:
    """Return a task in uninterruptible sleep."""
    values: dict[str, object] = {
        "pid": pid,
        "start_ticks": pid,
        "command": "dd",
        "wait_channel": channel,
        "stack": (),
        "read_bytes": 0,
        "write_bytes": 0,
    }
    return BlockedTask(**{**values, **changes})  # type: ignore[arg-type]


DD = tuple(task(pid, "balance_dirty_pages", write_bytes=300_000_000) for pid in (11, 12, 13))
FLUSHER = task(77, "rq_qos_wait", kernel=True)


@pytest.fixture
def machine() -> Simulation:
    """A host whose slow disk has been written for half a minute, below freerun."""
    simulation = Simulation()
    simulation.add_disk("sda", "S1")
    simulation.run(30, queued=600_000_000, writes={"sda": SLOW}, in_flight={"sda": 9})
    return simulation


def write(machine: Simulation, seconds: int, *tasks: BlockedTask) -> None:
    """Let the disk take its 2 MB/s at the limit while these tasks are blocked."""
    found = BlockedTasks(tasks, len(tasks))
    machine.memory.write({"/.probe/tasks": json.dumps(to_json(found))})
    machine.run(
        seconds, queued=QUEUED, blocked=len(tasks), writes={"sda": SLOW}, in_flight={"sda": 9}
    )


def urgent(machine: Simulation) -> list[str]:
    """Return the evidence of the active write stalls."""
    assert machine.host.engine is not None
    alerts = machine.host.engine.rules.alerts()
    return [a.annotation("urgent") for a in alerts if a.name == "WriteStall" and a.active]


def test_terabytes_at_the_disks_own_speed_are_no_stall(machine: Simulation) -> None:
    """Three dd are paused and the kernel writes for them: a long backlog that affects no one."""
    write(machine, 120, *DD, FLUSHER)
    assert machine.host.names("warning") == set()
    assert machine.host.mails == []


def test_a_writer_that_ends_with_an_fsync_waits_for_itself(machine: Simulation) -> None:
    """'dd conv=fsync': a program paused before is still the writer, minutes later."""
    write(machine, 30, *DD)
    write(machine, 60, *(task(each.pid, "folio_wait_writeback") for each in DD))
    assert machine.host.names("warning") == set()


def test_a_bystander_makes_it_an_urgent_stall(machine: Simulation) -> None:
    """The same dd, and a mail server's fsync that waits behind 437 s of backlog."""
    began = machine.second
    write(machine, 20, *DD, task(900, "jbd2_log_wait_commit", command="smtpd"))
    fired = [at for at, name, _ in machine.host.fired if name == "WriteStall"]
    assert len(fired) == 1
    assert fired[0] - UPTIME - began <= 15.0
    assert urgent(machine) == ["true"]


@pytest.mark.parametrize(("every", "within"), [(1, 15.0), (2, 15.0), (4, 15.0), (7, 21.0)])
@pytest.mark.parametrize("speed", [SLOW, 0])
def test_a_stall_is_mailed_however_far_apart_the_looks_of_a_thrashing_host_are(
    machine: Simulation, every: int, within: float, speed: int
) -> None:
    """The level first reaches freerun between two samples; a gap needs one more to confirm it.

    Four tasks wait; the disk writes its 2 MB/s, or nothing.
    """
    machine.run(
        5 * every, queued=600_000_000, writes={"sda": SLOW}, in_flight={"sda": 9}, step=every
    )
    began = machine.second
    tasks = (*DD, task(900, "jbd2_log_wait_commit", command="smtpd"))
    machine.memory.write({"/.probe/tasks": json.dumps(to_json(BlockedTasks(tasks, len(tasks))))})
    machine.run(
        6 * every + 15,
        queued=QUEUED,
        blocked=4,
        writes={"sda": speed},
        in_flight={"sda": 9},
        step=every,
    )
    assert machine.host.reasons()[0] == "opened"
    assert machine.host.mails[0].uptime - UPTIME - began <= within
    assert "WriteStall" in machine.host.names("warning")


@pytest.mark.parametrize("channel", ["balance_dirty_pages", "jbd2_log_wait_commit"])
def test_who_writes_a_little_and_is_paused_for_it_is_harmed(
    machine: Simulation, channel: str
) -> None:
    """A database's log: 16 kB each time; the kernel pauses it like the dd next to it."""
    log = [task(pid, "balance_dirty_pages", write_bytes=16_384) for pid in (900, 901, 902)]
    write(machine, 10, *DD, *log)
    write(machine, 20, *DD, *(task(each.pid, channel, write_bytes=32_768) for each in log))
    assert "WriteStall" in machine.host.names("warning")
    assert urgent(machine) == ["true"]


def test_who_begins_to_write_much_after_days_is_a_writer(machine: Simulation) -> None:
    """A database that loads a table: its mean over a year is low, its current rate is not."""
    for second in range(90):
        loading = task(14, "balance_dirty_pages", write_bytes=1000 + second * SLOW)
        write(machine, 1, *DD, loading)
    assert machine.host.names("warning") == set()


def test_a_writer_whose_bytes_nobody_may_read_is_a_writer(machine: Simulation) -> None:
    """Absent is not zero: '/proc/PID/io' could not be read."""
    write(machine, 60, *(task(each.pid, "balance_dirty_pages", write_bytes=None) for each in DD))
    assert machine.host.names("warning") == set()


@pytest.mark.parametrize(("spin_up", "expected"), [(18, {"false"}), (0, {"false", "true"})])
def test_a_disk_that_spins_up_under_a_copy_is_no_urgent_stall(
    spin_up: int, expected: set[str]
) -> None:
    """3 GB are queued at once, others wait; it takes 18 s to spin up, then writes 90 MB/s.

    Another disk writes 1 MB/s of logs. One that was awake and writes 8 MB/s has no such excuse.
    """
    machine = Simulation()
    machine.add_disk("sda", "S1")
    machine.add_disk("sdb", "S2")
    machine.run(30)
    tasks = (*DD, task(900, "jbd2_log_wait_commit", command="smtpd"))
    found = BlockedTasks(tasks, len(tasks))
    machine.memory.write({"/.probe/tasks": json.dumps(to_json(found))})
    seen: set[str] = set()
    for second in range(45):
        written = (0 if second < spin_up else 90_000_000) if spin_up else 8_000_000
        machine.run(
            1,
            queued=3_000_000_000,
            threshold=3_200_000_000,
            background=1_600_000_000,
            blocked=4,
            writes={"sda": written, "sdb": 1_000_000},
            in_flight={"sda": 9, "sdb": 1},
        )
        seen |= set(urgent(machine))
    assert seen == expected


def test_without_a_probe_a_stall_is_reported_and_not_urgent(machine: Simulation) -> None:
    """The waiting tasks are unknown: three blocked tasks are a warning, as without a probe."""
    machine.run(30, queued=QUEUED, blocked=3, writes={"sda": SLOW}, in_flight={"sda": 9})
    assert urgent(machine) == ["false"]


def test_all_samples_of_ten_seconds_have_to_forecast_it() -> None:
    """A disk busy for 20 s: the shortest of the last ten counts, and a pause restarts it."""
    history, least = leaves.LeafHistory(), []
    forecasts: bandwidth.Forecasts = ()
    for second in range(45):
        flight = int(second != 38)
        counters = block("sda", written=second * 10**6, writes=second, in_flight=flight)
        history = leaves.step(history, float(second), {"sda": counters}, ["sda"])
        backlog = 10**8 if second != 25 else 10**7
        forecasts = bandwidth.forecast(forecasts, history, {}, backlog)
        found = bandwidth.forecast_samples(forecasts, history)
        least.append(round(found[0][2]) if found else None)
    assert least == [None] * 20 + [100] * 5 + [10] * 11 + [100] * 2 + [None] * 7


def look(at: float, *tasks: BlockedTask, unseen: str = "") -> View:
    """Return the samples after a reading."""
    machine = topology(disk("sda", holders=("dm-0",)), disk("dm-0", slaves=("sda",), leaf=False))
    says = Snapshot(tasks=BlockedTasks(tasks, len(tasks), unseen))
    states = with_writeback(at, above_seconds=None)
    return View(Inputs(at, at, says, frozenset({"tasks"})), table.derive(machine), states=states)


def test_tasks_are_counted_at_each_device_below_their_file() -> None:
    """A file on dm-0 is on its disk as well; one of an unknown device counts nowhere."""
    found = waiters.devices(
        BlockedTasks((task(1, "", waits_at="dm-0"), task(2, "", waits_at="sda"), task(3, "")), 3),
        topology(disk("sda", holders=("dm-0",)), disk("dm-0", slaves=("sda",), leaf=False)),
    )
    assert found == {"sda": 2, "dm-0": 1}


def test_a_bystander_counts_until_two_looks_after() -> None:
    """Between two waits it runs; a moment later it no longer counts."""
    state, counts = waiters.EMPTY, []
    for at, *tasks in ((0, task(5, "x")), (5, *DD), (10, *DD), (15, *DD)):
        state, samples = waiters.step(state, look(float(at), *tasks))
        assert samples is not None
        counts.append(samples[0][2])
    assert counts == [1.0, 1.0, 1.0, 0.0]


def test_where_nobody_may_look_nothing_is_reported() -> None:
    """Neither that there are bystanders nor that there are none."""
    assert waiters.step(waiters.EMPTY, look(0.0, unseen="no probe"))[1] == []
