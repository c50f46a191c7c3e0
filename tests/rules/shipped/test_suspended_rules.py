"""Device-mapper devices that are suspended: for a snapshot, or permanently."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support.simulation import START, Simulation

from iowarden.collectors.block.device_mapper import MappedDevice
from iowarden.collectors.procfs.tasks import BlockedTask, BlockedTasks, to_json
from iowarden.rules.signals.device import suspended
from iowarden.rules.signals.signal import Inputs, View
from iowarden.rules.snapshot import Snapshot

if TYPE_CHECKING:
    from iowarden.collectors.model import Sample
    from iowarden.rules.signals.sustained import Sustained


class Volumes(Simulation):
    """A host with a disk and a logical volume on it."""

    def __init__(self) -> None:
        super().__init__()
        self.add_disk("sda", "S1")
        self.add_disk("dm-0")
        self.suspend(0)
        self.memory.write(
            {"/sys/block/dm-0/dm/name": "vg-data\n", "/sys/block/dm-0/slaves/sda": None}
        )

    def suspend(self, value: int) -> None:
        """Set the kernel's data of the volume."""
        self.memory.write({"/sys/block/dm-0/dm/suspended": f"{value}\n"})

    def wait(self, seconds: int, *places: str) -> None:
        """Let seconds pass in which root can read tasks that wait at these devices."""
        tasks = BlockedTasks(
            tuple(
                BlockedTask(100 + n, n, "tar", "folio_wait_bit_common", (), 0, 0, waits_at=place)
                for n, place in enumerate(places)
            ),
            len(places),
        )
        self.memory.write({"/.probe/tasks": json.dumps(to_json(tasks))})
        self.run(seconds, blocked=len(places))

    def severities(self) -> list[str]:
        """Return the severities of its alerts, in order."""
        return [level for _, name, level in self.host.fired if name == "DeviceSuspended"]


@pytest.fixture
def machine() -> Volumes:
    """The host, half a minute after the program began."""
    volumes = Volumes()
    volumes.run(30)
    return volumes


def test_a_volume_that_stays_suspended_is_reported_by_its_name(machine: Volumes) -> None:
    """A tool was aborted: two tasks wait, nothing is in flight, and one mail names the volume."""
    machine.suspend(1)
    machine.wait(110, "dm-0", "/dev/mapper/vg-data")
    assert machine.severities() == ["warning"]
    (mail,) = machine.host.mails
    assert mail.due.incident.object == "vg-data (dm-0)"
    (member,) = mail.due.incident.members
    assert "suspended for" in member.summary
    assert member.summary.endswith(", 2 tasks wait for I/O")
    assert "dmsetup info 'vg-data'" in member.advice
    assert any("device_mapper_suspended_seconds" in p.source + p.text for p in member.evidence)
    machine.suspend(0)
    machine.wait(1)
    machine.run(680, step=4)
    assert machine.host.reasons() == ["opened", "resolved"]


@pytest.mark.parametrize(
    ("places", "expected", "urgent"),
    [
        (("dm-0",), 31, "true"),
        (("dm-1", "sda"), 31, "true"),  # a file system on the device above it
        (("sda", "", "/dev/nowhere"), 121, "false"),
        ((), None, ""),
    ],
)
def test_only_who_waits_for_the_volume_makes_it_urgent(
    machine: Volumes, places: tuple[str, ...], expected: int | None, urgent: str
) -> None:
    """A task that waits for another disk proves nothing."""
    machine.add_disk("dm-1")
    machine.memory.write({"/sys/block/dm-1/slaves/dm-0": None})
    machine.run(70)
    machine.suspend(1)
    began = machine.second
    machine.wait(140, *places)
    fired = [at - 1000 - began for at, name, _ in machine.host.fired if name == "DeviceSuspended"]
    assert [round(at) // 5 for at in fired] == ([] if expected is None else [expected // 5])
    assert machine.host.engine is not None
    found = [a for a in machine.host.engine.rules.alerts() if a.name == "DeviceSuspended"]
    assert [a.annotation("urgent") for a in found] == ([urgent] if urgent else [])


def test_a_snapshot_is_silent(machine: Volumes) -> None:
    """Each takes 20 s on a busy disk, and tasks wait; between two the volume runs."""
    for _ in range(5):
        machine.suspend(1)
        machine.run(20, blocked=3)
        machine.suspend(0)
        machine.run(6, blocked=1)
    assert machine.severities() == []


def test_a_volume_that_nobody_uses_is_no_mail(machine: Volumes) -> None:
    """Locked with 'cryptsetup luksSuspend' for the night: a line in the digest."""
    machine.suspend(1)
    machine.run(290)
    assert machine.severities() == []
    machine.run(120)
    assert machine.severities() == ["notice"]
    assert machine.host.mails == []


def test_tasks_that_wait_now_and_then_wait_for_something_else(machine: Volumes) -> None:
    """7 s of 10 are not a task blocked by a device that never responds."""
    machine.suspend(1)
    for _ in range(10):
        machine.run(7, blocked=1)
        machine.run(3)
    assert machine.severities() == []


def test_the_stall_of_writers_is_the_volumes(machine: Volumes) -> None:
    """What is queued cannot be written while it is suspended: one incident, not two."""
    machine.suspend(1)
    machine.run(130, blocked=4, queued=1_010_000_000)
    assert "WriteStall" in machine.host.names("warning")
    assert {mail.due.incident.object for mail in machine.host.mails[-1:]} == {"vg-data (dm-0)"}
    open_now = [i for i in machine.host.incidents.by_key.values() if i.firing]
    (incident,) = [i for i in open_now if "DeviceSuspended" in {m.name for m in i.members}]
    assert {"DeviceSuspended", "WriteStall"} <= {member.name for member in incident.members}
    assert "host" not in {i.key for i in open_now}


def test_what_can_no_longer_be_read_is_not_over(machine: Volumes) -> None:
    """The kernel's data disappear while the alert is active: unknown, not resolved."""
    machine.suspend(1)
    machine.wait(100, "dm-0", "dm-0")
    machine.memory.remove("/sys/block/dm-0/dm/suspended")
    machine.memory.write({"/sys/block/dm-0/dm/suspended": None})
    machine.run(20)
    assert machine.host.engine is not None
    (alert,) = [a for a in machine.host.engine.rules.alerts() if a.name == "DeviceSuspended"]
    assert alert.state.value == "unknown"
    assert "dm/suspended" in alert.unknown_reason
    assert "resolved" not in machine.host.reasons()


def test_a_restart_forgets_nothing(machine: Volumes) -> None:
    """The program is restarted while a volume is suspended: the start time is stored."""
    machine.suspend(1)
    machine.wait(100, "dm-0", "dm-0")
    before = machine.host.engine
    assert before is not None
    memory, alerts = before.signals.remember(), before.rules.alerts()
    machine.host.engine = None
    machine.run(1, blocked=2)
    after = machine.host.engine
    assert after is not None
    after.recall(memory, before.devices.devices)
    after.rules.restore(alerts)
    machine.run(10, blocked=2)
    shown = machine.host.signals()
    metric = 'iowarden_device_mapper_suspended_seconds{device="dm-0",name="vg-data"}'
    assert shown[metric] >= 100
    assert machine.severities() == ["warning"]


def look(
    state: Sustained, second: float, *devices: MappedDevice, fresh: bool = True
) -> tuple[Sustained, list[Sample] | None]:
    """One sample of the devices."""
    values = {"dm": {device.device: device for device in devices}}
    inputs = Inputs(
        START + second, second, Snapshot(**values), frozenset({"dm"} if fresh else ()), frozenset()
    )
    return suspended.step(state, View(inputs, None))


def seconds(samples: list[Sample] | None) -> list[float]:
    """The values of the samples."""
    return [value for _, _, value in samples or []]


def test_another_volume_of_the_same_number_begins_anew() -> None:
    """A snapshot goes, the next one takes its number."""
    state, _ = look(suspended.EMPTY, 0, MappedDevice("dm-3", "vg-a", suspended=True))
    state, samples = look(state, 40, MappedDevice("dm-3", "vg-a", suspended=True))
    assert seconds(samples) == [40]
    state, samples = look(state, 45, MappedDevice("dm-3", "vg-b", suspended=True))
    assert seconds(samples) == [0]


def test_what_was_suspended_before_a_boot_is_so_anew() -> None:
    """It is stored by its name, and the name exists again after a boot."""
    kept = suspended.recall(suspended.EMPTY, {"dm-0 vg-data": ((START - 600.0, 0.0),)})
    _, samples = look(kept, 20.0, MappedDevice("dm-0", "vg-data", suspended=True))
    assert seconds(samples) == [0.0]


def test_a_look_between_is_the_end() -> None:
    """It ran, or was not reported: the next time counts from its own beginning."""
    for between in (False, None):
        state, _ = look(suspended.EMPTY, 0, MappedDevice("dm-0", "a", suspended=True))
        state, samples = look(state, 5, MappedDevice("dm-0", "a", suspended=between))
        assert samples == []
        state, samples = look(state, 10, MappedDevice("dm-0", "a", suspended=True))
        assert seconds(samples) == [0]


def test_between_two_looks_nothing_is_reported() -> None:
    """Samples of the last reading stay valid where they are stored."""
    state, _ = look(suspended.EMPTY, 0, MappedDevice("dm-0", "a", suspended=True))
    assert look(state, 3, fresh=False) == (state, None)
