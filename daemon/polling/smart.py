"""SMART poller: polls all drives of a machine and holds their latest state.

A poll takes milliseconds to minutes, and a drive that hangs must not delay the others: each
controller has its own queue, served by threads that end when nothing is due. The latest state is
always available at once.

For a recorded machine no program runs: a drive is polled when its interval ends, or when the
recording has a new output. Missing output is recorded too, as the outcome of the poll.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors import json_text
from iowarden.collectors.block.block_devices import NVME_PATH
from iowarden.collectors.machine import probe_path
from iowarden.collectors.model import AbsentError, ReadError, StuckError
from iowarden.collectors.raid.areca.areca_access import is_supported
from iowarden.collectors.smart import discovery, smartctl_runner
from iowarden.collectors.smart.drive import Disks, ReadStatus
from iowarden.collectors.smart.scsi_hosts import NVME_DEVICE
from iowarden.daemon.polling import smart_discovery, smart_result
from iowarden.daemon.polling.smart_discovery import Discovery
from iowarden.daemon.polling.smart_lanes import Lanes
from iowarden.daemon.polling.smart_schedule import GOOD

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from iowarden.collectors.machine import Machine
    from iowarden.collectors.smart.drive import AccessMethod
    from iowarden.collectors.smart.options import Options
    from iowarden.collectors.smart.smartctl_runner import SmartctlResult
    from iowarden.daemon.polling.smart_discovery import DiscoveryResult, Find
    from iowarden.daemon.polling.smart_schedule import PolledTarget

FIRST_SECONDS = 5.0
"""The first poll waits this long for results."""
MAX_THREADS = 16
MIN_POLL_INTERVAL_SECONDS = 60.0
"""Minimum interval between two polls of a drive that events request."""
MAX_RECORDED_BYTES = 2 * 1024 * 1024
"""Limit of drives' texts in the flight recorder: about 80 drives."""


class SmartPoller:
    """All drives of one machine. `read` is for one thread, the other methods for any."""

    def __init__(
        self,
        options: Options,
        clock: Callable[[], float],
        find: Find = discovery.find,
        most_told_bytes: float = float("inf"),
    ) -> None:
        """Start idle. `clock` is the program's; `find` discovers the drives.

        `most_told_bytes`: limit of drives' texts for a recorder; failed and newest polls come
        first.
        """
        self._max_recorded_bytes = most_told_bytes
        self._options = options
        self._clock = clock
        self._find = find
        self._lock = threading.Condition()
        # All that follows is under the lock, which is never held while something is read:
        self._machine: Machine | None = None
        self._discovery = Discovery()
        self._lanes = Lanes()
        self._threads = 0
        self._disks = Disks({})
        self._changed = True

    def read(self, root: Machine) -> Disks:
        """Return the state of every drive, and start the polls that are due.

        Errors: AbsentError (also for a recording without smartctl output), ReadError.
        """
        listed = smart_discovery.listing(root)
        recorded = smart_discovery.RECORDED
        if root.path and not any(name.startswith("run smartctl ") for name in listed[recorded]):
            raise AbsentError(f"'{recorded}/run smartctl': not in the recording")
        with self._lock:
            now, first = self._clock(), not self._discovery.listed
            self._discovery.notice(listed, now)
            self._machine = root
        if root.path:
            self._play(root, now)
        else:
            self._begin(now)
            if first:
                self.settled(FIRST_SECONDS)
        with self._lock:
            if not root.path:
                root.report_read(self._texts())
            return self._result(self._clock())

    def poll_next(self, names: Collection[str]) -> None:
        """Poll disks now, by their key or a kernel name: 'sda', 'nvme0', 'bus/0'.

        One that hangs, or was polled within the last minute, waits for its turn. Results are in the
        next value, except those that take longer.
        """
        wanted = set(names)
        with self._lock:
            now = self._clock()
            for disk in self._disks.by_key.values():
                for target in (disk.polled.target, *disk.others):
                    own = {disk.key, target.device, target.path.removeprefix("/dev/")}
                    way = self._lanes.methods.get(target)
                    if way is None or way.polled.status is ReadStatus.HUNG or not wanted & own:
                        continue
                    tried = way.polled.tried_seconds
                    if way.best and (tried is None or now - tried >= MIN_POLL_INTERVAL_SECONDS):
                        way.due, way.requested = min(way.due, now), True
        self._begin(now)

    def settled(self, timeout_seconds: float) -> bool:
        """Wait until discovery is done and no poll is due; return whether that was reached."""
        with self._lock:
            return self._lock.wait_for(self._is_settled, timeout_seconds)

    def configure(self, options: Options) -> None:
        """Apply new options; drives are discovered again."""
        with self._lock:
            self._options = options
            self._discovery.restart()
            now = self._clock()
            for way in self._lanes.methods.values():
                way.set_period(options, now)
            self._changed = True

    # --- threads

    def _begin(self, now: float) -> None:
        """Start threads for what is due."""
        with self._lock:
            if self._machine is None or self._machine.path:
                return
            if self._discovery.begin(now):
                self._start(self._discover)
            free = self._lanes.free(self._discovery.result, now)
            for _ in range(min(free, MAX_THREADS - self._threads)):
                self._threads += 1
                self._start(self._work)

    def _start(self, run: Callable[[], None]) -> None:
        threading.Thread(target=run, name="smart", daemon=True).start()

    def _discover(self) -> None:
        """Discover drives once, in a thread: sysfs and controllers may hang."""
        seen: dict[str, bytes] = {}
        root = self._another(seen.__setitem__)
        with self._lock:
            former = self._discovery.former(self._clock())
            before = self._discovery.result.discovered
        looked = smart_discovery.discover(
            root, self._find, self._options.drives, seen, before, former
        )
        root.close()
        with self._lock:
            self._take_over(looked, self._clock())
            self._lock.notify_all()
        self._begin(self._clock())

    def _work(self) -> None:
        """Poll due drives, one after the other, until none is due."""
        root = self._another()
        while (way := self._next()) is not None:
            if self._skip(way, activity(root, self._devices(way))):
                continue
            words, wake = way.command(self._options, self._clock())
            began = self._clock()
            deadline_seconds = way.deadlines * self._options.deadline_seconds
            said = self._without(way, began) or smartctl_runner.run_smartctl(
                root, way.target, words, deadline_seconds
            )
            answer = _completed(root, way.target, said)
            way.activity = activity(root, self._devices(way))
            with self._lock:
                self._lanes.end(way)
                way.note_refusal(said, answer, began)
                self._finish(way, answer, began, wake=wake)
                self._lock.notify_all()
        root.close()

    def _another(self, seen: Callable[[str, bytes], None] | None = None) -> Machine:
        with self._lock:
            assert self._machine is not None  # noqa: S101 - threads are started by a read
            return self._machine.another(seen)

    def _next(self) -> PolledTarget | None:
        with self._lock:
            way = self._lanes.begin(self._discovery.result, self._clock())
            if way is None:
                self._threads -= 1
                self._lock.notify_all()
            return way

    def _devices(self, polled_target: PolledTarget) -> set[str]:
        """Return the block devices of a target's disk: all paths; '' where it is hidden."""
        with self._lock:
            disks = self._disks.by_key.values()
            methods = ((disk.polled.target, *disk.others) for disk in disks)
            own = (each for each in methods if polled_target.target in each)
            return {target.device for target in next(own, (polled_target.target,))}

    def _skip(self, polled_target: PolledTarget, activity: str) -> bool:
        with self._lock:
            skipped = polled_target.skip(activity, self._clock())
            if skipped:
                self._lanes.end(polled_target)
                self._changed = True
                self._lock.notify_all()
            return skipped

    def _without(self, polled_target: PolledTarget, now: float) -> SmartctlResult | None:
        """Return why smartctl is skipped now, None if it is not."""
        with self._lock:
            unusable = self._discovery.result.unusable
            return (
                polled_target.refusal(now)
                if unusable is None
                else replace(unusable, text=("", b""))
            )

    def _finish(
        self, polled_target: PolledTarget, answer: SmartctlResult, began: float, *, wake: bool
    ) -> None:
        now, self._changed = self._clock(), True
        polled_target.finish(answer, began, now, self._options, wake=wake)
        self._discovery.recheck(answer, now)

    def _is_settled(self) -> bool:
        looks = self._discovery.seconds is None or self._discovery.since is not None
        due = self._lanes.due(self._discovery.result, self._clock())
        return not (looks or self._threads or any(due))

    # --- recorded machine

    def _play(self, root: Machine, now: float) -> None:
        """Do what is due with the recorded output."""
        with self._lock:
            if self._discovery.begin(now):
                before = self._discovery.result.discovered
                looked = smart_discovery.discover(
                    root, self._find, self._options.drives, {}, before
                )
                self._take_over(looked, now)
            for way in self._lanes.methods.values():
                if not way.fixed:
                    self._play_one(root, way, now)

    def _play_one(self, root: Machine, polled_target: PolledTarget, now: float) -> None:
        looked, recorded = self._discovery.result, _recorded(root, polled_target.target)
        if recorded is not None:
            name, content, wake = recorded
            if (
                content == polled_target.text[1]
                and not polled_target.other_outputs
                and now < polled_target.due
            ):
                return
            answer = smartctl_runner.classify_output(name, content, polled_target.target)
        elif looked.unusable is not None and looked.can_poll(polled_target.target):
            answer, wake = replace(looked.unusable, text=("", b"")), False
        else:
            return
        answer = _completed(root, polled_target.target, answer)
        if (answer.text, answer.other_outputs) != (
            polled_target.text,
            polled_target.other_outputs,
        ) or now >= polled_target.due:
            self._finish(polled_target, answer, now, wake=wake)

    # --- result

    def _take_over(self, result: DiscoveryResult, now: float) -> None:
        """Apply the result of a discovery."""
        unusable = self._discovery.result.unusable
        anew = self._discovery.end(result, now)
        self._changed = self._changed or anew or result.unusable != unusable
        if anew:
            other = (result.unusable is None) is not (unusable is None)
            self._lanes.take_over(self._discovery, now, self._options, program_came_or_went=other)

    def _texts(self) -> Iterator[tuple[str, bytes]]:
        """Yield the texts that the threads have read, for a recorder."""
        yield from self._discovery.result.read_texts.items()
        ways = [way for way in self._lanes.methods.values() if way.text[0] or way.other_outputs]
        ways.sort(key=lambda w: (w.polled.status in GOOD, -(w.polled.tried_seconds or 0.0)))
        size_bytes = 0
        for way in ways:
            texts = (*((way.text,) if way.text[0] else ()), *way.other_outputs)
            size_bytes += sum(len(text) for _, text in texts)
            if size_bytes <= self._max_recorded_bytes:
                yield from texts
            else:
                way.text, way.other_outputs = ("", b""), ()

    def _result(self, now: float) -> Disks:
        """Return the disks; the same object while nothing changed."""
        looked, methods = self._discovery.result, self._lanes.methods
        for way in methods.values():
            self._changed |= way.expire(now)
        self._changed |= self._discovery.begins_to_hang(now)
        if not self._changed or self._discovery.seconds is None:
            return self._disks
        self._changed = False
        if looked.unusable is not None:
            cover, reason = looked.unusable.status, looked.unusable.reason
            for way in methods.values():
                unasked = way.polled.status is ReadStatus.NOT_POLLED_YET or not looked.can_poll(
                    way.target
                )
                if not way.fixed and unasked:
                    way.polled = replace(way.polled, status=cover, reason=reason)
        self._disks = smart_result.disks(
            self._lanes.merged(now, self._options),
            methods,
            self._discovery,
            self._disks.by_key,
            self._options.interval_seconds,
        )
        return self._disks


def _completed(root: Machine, target: AccessMethod, answer: SmartctlResult) -> SmartctlResult:
    """Return an answer; of a drive behind an Areca controller that of its program, if need be."""
    if not is_supported(target):
        return answer
    # Most machines have none; where there is one, `vendors.import_present` has imported it.
    from iowarden.collectors.raid.areca import areca_smart  # noqa: PLC0415

    return areca_smart.run_cli64_smart(root, target, answer)


def activity(root: Machine, devices: Collection[str]) -> str:
    """Return the I/O counters of a disk's block devices; '' if one has none, or is busy.

    Source: kernel, block/stat.rst (field 9: requests in flight); ABI/stable/sysfs-block,
    queue/iostats: 0 turns the counters off. An attribute in 'queue' waits for a program that
    changes the queue, and that one for its requests: it is read only where none is in flight, so
    that a disk that hangs does not stop this. An NVMe drive is polled as one of its namespaces: the
    counters are those of all, and of their paths: before 6.4 a drive with several controllers
    counts only there.
    """
    names = set(devices)
    for device in filter(NVME_DEVICE.fullmatch, devices):
        entries = root.try_names(f"/sys/block/{device}/device")
        names |= {""} if entries is None else set(filter(NVME_DEVICE.fullmatch, entries))
    if any(map(NVME_DEVICE.fullmatch, names)):
        paths_of = filter(None, map(NVME_PATH.fullmatch, root.try_names("/sys/block") or ()))
        names |= {each[0] for each in paths_of if f"nvme{each[1]}n{each[3]}" in names}
    paths = [f"/sys/block/{name}" for name in sorted(names)]
    counters = [(root.try_read(f"{path}/stat") or "").split() for path in paths]
    if any(each[8:9] != ["0"] for each in counters):
        return ""
    counted = all((root.try_read(f"{path}/queue/iostats") or "0").strip() != "0" for path in paths)
    return "\n".join(map(" ".join, counters)) if counted else ""


def _recorded(root: Machine, target: AccessMethod) -> tuple[str, bytes, bool] | None:
    """Return the recorded output of a drive: name, text, and whether the poll might wake it."""
    for profile in smartctl_runner.PROFILES:
        for wake in (False, True):
            name = probe_path("run", smartctl_runner.command(target, profile, wake=wake))
            try:
                content = root.read_bytes(name)
            except StuckError as error:
                return name, smartctl_runner.unanswered(ReadStatus.HUNG, str(error)), wake
            except (AbsentError, ReadError):
                continue
            deep = json_text.is_deep(content.decode(errors="replace"))
            return name, b"{}" if deep else content, wake
    return None
