"""Which collectors are polled at once: at uevents of mapped devices, and when paths change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.memory import Memory

from iowarden.collectors.block.uevents import Uevent, UeventBatch
from iowarden.collectors.device_mapper.target_status import parse_line
from iowarden.collectors.event import StorageEvent
from iowarden.collectors.kmsg.kernel_log import KernelLog
from iowarden.collectors.model import Outcome, Reading
from iowarden.collectors.source import Source
from iowarden.daemon.polling.scheduler import SourceScheduler
from iowarden.daemon.service.device_watch import DeviceWatch
from iowarden.daemon.transition_log import TransitionLog
from iowarden.rules.engine.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable

HOUR = 3600.0


class Silent:
    """A journal that nobody reads."""

    def send(self, *_: object, **__: object) -> None:
        """Drop it."""


class Watched:
    """Collectors that are read once an hour, and the watch that may have them read before."""

    def __init__(self) -> None:
        self.now = 0.0
        self.polled: list[str] = []
        sources = [
            Source(
                name, HOUR, may_hang=False, read=self._note(name), families=(), emit=lambda _: []
            )
            for name in ("dm_targets", "scsi", "block")
        ]
        self.readers = SourceScheduler(sources, {}, Memory, lambda: self.now, lambda _: None)
        self.watch = DeviceWatch(
            Engine([], sources, 0.0),
            self.readers,
            TransitionLog(Silent(), lambda: 0.0, lambda: 0.0),
            None,
            None,
        )
        self.run(0.0)

    def _note(self, name: str) -> Callable[[object], str]:
        def read(_: object) -> str:
            self.polled.append(name)
            return name

        return read

    def run(self, seconds: float = 1.0) -> list[str]:
        """Let time pass; return what was polled."""
        self.now += seconds
        self.polled = []
        self.readers.run(self.now)
        return self.polled

    def check(self, source: str, value: object = None) -> None:
        """Take a reading of a collector."""
        outcome = Outcome.OK if value is not None else Outcome.ABSENT
        self.watch.check(Reading(source, outcome, self.now, 0.0, value, ""))


def changed(*names: str) -> UeventBatch:
    """Return uevents of devices that changed."""
    return UeventBatch(tuple(Uevent("change", name, None) for name in names))


def test_a_uevent_of_a_mapped_device_polls_the_targets_and_that_of_a_disk_does_not() -> None:
    """A path that fails is a uevent of its map; a USB stick starts no program."""
    host = Watched()
    host.watch.take(changed("sda"))
    host.check("meminfo")
    assert "dm_targets" not in host.run()
    host.watch.take(changed("sda", "dm-3"))
    host.check("meminfo")
    assert "dm_targets" in host.run()
    host.watch.take(UeventBatch((), "the queue was full"))
    host.check("meminfo")
    assert "dm_targets" in host.run()


def test_a_kernel_line_about_a_path_or_a_pool_polls_the_targets() -> None:
    """In a container there is no uevent; a path that is back must not wait a minute for it."""
    host = Watched()
    for kind, is_polled in (
        ("dm_path_reinstated", True),
        ("dm_pool_full", True),
        ("fs_error", False),
    ):
        line = StorageEvent("kernel", kind, "", device="dm-3")
        host.check("kernel_log", KernelLog((line,)))
        host.check("meminfo")
        assert ("dm_targets" in host.run(10.0)) is is_polled


def test_a_burst_of_uevents_runs_the_programs_once_in_five_seconds() -> None:
    """A container that starts makes a dozen of them; the last one is not forgotten."""
    host = Watched()
    host.check("dm_targets")
    polls = 0
    for _ in range(12):
        host.watch.take(changed("dm-3"))
        host.check("meminfo")
        if "dm_targets" in host.run():
            polls += 1
            host.check("dm_targets")
    assert polls == 2


def test_changed_paths_are_counted_at_once_with_the_states_of_their_disks() -> None:
    """The number of working paths is computed when SCSI devices were read."""
    host = Watched()
    host.check("dm_targets", (parse_line("m: 0 8 multipath 2 0 0 0 1 1 A 0 1 0 8:16 F 1"),))
    assert "scsi" in host.run()
    host.check("dm_targets")
    assert host.run() == []


def test_a_kernel_line_about_the_end_of_error_recovery_has_the_states_read_at_once() -> None:
    """A storm of such lines reads them each two seconds; a line about a file system does not."""
    host = Watched()
    polled = []
    kinds = ("fs_error", "scsi_offlined", "scsi_rejected", "scsi_rejected", "fs_error", "fs_error")
    for kind in kinds:
        host.check("kernel_log", KernelLog((StorageEvent("kernel", kind, "", device="sdb"),)))
        host.watch.poll_states(host.now)
        polled.append(host.run())
    assert polled == [[], ["scsi"], [], ["scsi"], [], []]
