"""The whole service over a simulated machine, in a process of its own: `measured` starts it.

Its files are in memory, its clock is played, its readers run in the loop's own thread, so that all
they take is the turn's. It has what the real one has: all collectors and rules, flight recorder,
history, a scrape each 15 s, and locked memory if it may lock it. It prints one line of JSON.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
import json
import os
import queue
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

sys.path.insert(0, str(Path(__file__).parents[1]))

from stacked import answers, write_stacked
from support import drives
from support.machine import disk_name, write_root
from table import private_megabytes

from iowarden.collectors.machine import Machine, probe_path
from iowarden.collectors.recording.recorder import watched
from iowarden.collectors.smart import smartctl
from iowarden.collectors.smart.drive import AccessMethod, Disk, Disks, Drive, PollResult, ReadStatus
from iowarden.daemon import garbage, journal, mlock
from iowarden.daemon.cli import run_command  # the service's own command: it is what has its imports
from iowarden.daemon.clock import PlayedClock
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.rule_files import load_rules
from iowarden.daemon.http.exposition import Exposition
from iowarden.daemon.notify.maildir import MaildirSettings
from iowarden.daemon.notify.sender import mail_sender
from iowarden.daemon.polling import pollers
from iowarden.daemon.polling.scheduler import SourceScheduler
from iowarden.daemon.process_metrics import ProcessMetrics
from iowarden.daemon.service import flight_recorder
from iowarden.daemon.service.service import Dependencies, Service
from iowarden.daemon.storage.history_db import History
from iowarden.daemon.storage.state_db import StateDatabase
from iowarden.rules.engine.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Callable
    from cProfile import Profile

    from iowarden.collectors.source import Source

T = TypeVar("T")
REPOSITORY = Path(__file__).parents[2]
START_UPTIME, START_SECONDS = 1000.0, 1_800_000_000.0
FIRST_SECONDS = 60
"""What is read and sent for the first time is measured apart."""
SCRAPE_SECONDS = 15


class Drives:
    """Drives by the hundred, as a source: each look finds that a few have spoken anew."""

    def __init__(self, count: int) -> None:
        """Let all of them speak."""
        self.seconds, self._count = 0, count
        self.disks = Disks({f"S{i:08}": self._disk(i) for i in range(count)})

    def _disk(self, number: int) -> Disk:
        drive = smartctl.parse(drives.ata(f"S{number:08}", self.seconds))
        assert isinstance(drive, Drive)
        name = disk_name(number)
        polled = PollResult(
            AccessMethod(f"/dev/{name}", "sat", device=name, controller="host0"),
            ReadStatus.READ,
            drive=drive,
            read_seconds=START_SECONDS + self.seconds,
            runs_total=1 + self.seconds // 1800,
        )
        return Disk(drive.serial, polled, name)

    def speak(self) -> Disks:
        """Let 15 s pass: each is polled twice an hour."""
        polled = max(1, self._count // 120)
        first = self.seconds // 15 * polled
        self.seconds += 15
        spoken = [self._disk(number % self._count) for number in range(first, first + polled)]
        self.disks = Disks({**self.disks.by_key, **{disk.key: disk for disk in spoken}})
        return self.disks


class ProbedMachine(Machine):
    """A simulated machine with a probe, which counts the programs that it would have run."""

    answers: ClassVar[dict[str, str]] = {}
    programs_total = 0

    def query_probe(self, verb: str, *arguments: str, deadline_seconds: float = 30.0) -> str:
        """Return the answer; where there is none it has no such program."""
        text = ProbedMachine.answers.get(probe_path(verb, arguments))
        if text is None:
            return super().query_probe(verb, *arguments, deadline_seconds=deadline_seconds)
        ProbedMachine.programs_total += 1
        return text


class FakeMachine:
    """A simulated machine in memory: files, readers, engine, loop, without threads that wait."""

    def __init__(
        self, disks: int, *, smart: bool = False, record: bool = True, stacked: bool = False
    ) -> None:
        """Make the files and everything that reads them.

        `smart`: drives, and exporters' names; `record`: with the flight recorder; `stacked`: with
        pools and thin volumes on its disks.
        """
        self.directory = tempfile.mkdtemp(prefix="iowarden-bench-", dir="/dev/shm")
        self.disks, self.second = disks, 0
        self.thread_milliseconds = 0.0  # of what the service reads in threads beside its loop
        self.root_directory = Path(self.directory, "root")
        if stacked:
            ProbedMachine.answers |= answers()
        # In a child: what it holds meanwhile is not ours.
        if (child := os.fork()) == 0:
            write_root(self.root_directory, disks, 0)
            if stacked:
                write_stacked(self.root_directory)
            os._exit(0)
        os.waitpid(child, 0)
        self.settings = parse_config(
            f"listen: 127.0.0.1:19748\nstate_directory: {self.directory}\n", "bench"
        )
        self.clock = PlayedClock()
        self.clock.set(START_UPTIME, START_SECONDS)
        self.events: queue.SimpleQueue[object] = queue.SimpleQueue()
        asked = pollers.make(self.settings.smart, self.clock)
        recent = flight_recorder.FlightRecorder(4096)
        sources = [
            self._inline(watched(source, recent.take) if record else source)
            for source in asked.sources()
        ]
        if smart:
            found = Drives(disks)
            sources = [
                dataclasses.replace(each, read=lambda _: found.speak())
                if each.name == "smart"
                else each
                for each in sources
            ]
        self.readers = SourceScheduler(
            sources,
            self.settings.interval_seconds,
            lambda: ProbedMachine(str(self.root_directory)),
            self.clock.now,
            self.events.put,
            spread=True,
        )
        self.engine = Engine(
            load_rules(self.settings),
            self.readers.sources,
            self.clock.now(),
            expose=("node_", "smartctl_") if smart else (),
        )
        self.exposition = Exposition(print)
        stored = Path(self.directory)
        self.service = Service(
            Dependencies(
                config=self.settings,
                clock=self.clock,
                engine=self.engine,
                readers=self.readers,
                pollers=asked,
                events=self.events,
                log=journal.Log(level="error"),
                state=StateDatabase(str(stored / "state.db"), self.events.put),
                sender=mail_sender(self.events.put, MaildirSettings(str(stored / "Maildir"))),
                exposition=self.exposition,
                notify=lambda _: False,
                own_metrics=ProcessMetrics(),
                flights=flight_recorder.FlightArchive(recent, str(stored / "flight"), print),
                history=History(str(stored / "history.db"), self.events.put),
                collect_garbage=garbage.GarbageCollection().step,
            )
        )

    def _inline(self, source: Source[T]) -> Source[T]:
        """Return a source that is read in the loop; what threads would take of it is counted."""

        def read(machine: Machine) -> T:
            began = time.process_time_ns()
            try:
                return source.read(machine)
            finally:
                self.thread_milliseconds += (time.process_time_ns() - began) / 1e6

        if not source.may_hang or source.parts is not None:
            return dataclasses.replace(source, may_hang=False)
        return dataclasses.replace(source, may_hang=False, read=read)

    def next_second(self) -> None:
        """Let a second pass: every disk has done something."""
        self.second += 1
        write_root(self.root_directory, self.disks, self.second, only_counters=True)
        self.clock.set(START_UPTIME + self.second, START_SECONDS + self.second)

    def turn(self) -> None:
        """Do what the loop does in a second, with what its threads have posted."""
        now = self.clock.now()
        while not self.events.empty():
            self.service.loop.handle(self.events.get(), now)
        self.service.loop.do_duties(now)

    def timed(self, work: Callable[[], object], seconds: int) -> list[float]:
        """Return the processor milliseconds of `work` for each of some seconds."""
        times = []
        for _ in range(seconds):
            self.next_second()
            began = time.process_time_ns()
            work()
            times.append((time.process_time_ns() - began) / 1e6)
        return times

    def run(self, seconds: int) -> tuple[list[float], list[float]]:
        """Return the milliseconds of each second, and those of the loop alone.

        The latter are without what the service reads in threads; a scrape each 15 s is in neither.
        """
        times: list[float] = []
        loop: list[float] = []
        while len(times) < seconds:
            before = self.thread_milliseconds
            times += self.timed(self.turn, 1)
            loop.append(times[-1] - (self.thread_milliseconds - before))
            if len(times) % SCRAPE_SECONDS == 0:
                self.exposition.render()
        return times, loop

    def close(self) -> None:
        """Remove the files."""
        shutil.rmtree(self.directory, ignore_errors=True)


def measured(*arguments: str, interpreter: str = sys.executable) -> dict[str, Any]:
    """Run this module in a process of its own, as the unit would; return what it printed."""
    run = subprocess.run(
        [interpreter, __file__, *arguments],
        stdout=subprocess.PIPE,
        check=True,
        env={**os.environ, "MALLOC_ARENA_MAX": "1"},
    )
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


def _top(profile: Profile, seconds: int) -> list[str]:
    """Return the ten functions that took the most time themselves, with ms a second."""
    import pstats  # noqa: PLC0415 - not in what is measured

    stats = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    rows = sorted(stats.items(), key=lambda each: -each[1][2])[:10]
    found = []
    for (path, line, name), (_, calls, own, total, _) in rows:
        where = f"{path.removeprefix(str(REPOSITORY) + os.sep)}:{line} " if line else ""
        found.append(
            f"{own * 1e3 / seconds:7.3f} {total * 1e3 / seconds:7.3f} {calls / seconds:9.1f}"
            f"  {where}{name}"
        )
    return found


def main() -> None:
    """Measure one machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--disks", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=1800, help="after the first minute")
    parser.add_argument("--smart", action="store_true", help="a drive each, all exporters' names")
    parser.add_argument("--stacked", action="store_true", help="pools and thin volumes: 24 disks")
    parser.add_argument("--growth-from", type=int, default=0, help="turns before growth is counted")
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    assert run_command
    mlock.lock()
    machine = FakeMachine(arguments.disks, smart=arguments.smart, stacked=arguments.stacked)
    try:
        first, _ = machine.run(FIRST_SECONDS)
        found: dict[str, Any] = {"first": max(first), "begun": private_megabytes()}
        if arguments.growth_from:
            machine.run(arguments.growth_from)
            gc.collect()
            before = private_megabytes()
            machine.run(arguments.seconds)
            gc.collect()
            found["growth"] = private_megabytes() - before
        elif arguments.profile:
            from cProfile import Profile  # noqa: PLC0415

            profile = Profile(time.process_time)
            times = machine.timed(lambda: profile.runcall(machine.turn), arguments.seconds)
            found["top"] = _top(profile, arguments.seconds)
            found["mean"] = statistics.fmean(times)
        else:
            before = ProbedMachine.programs_total
            times, loop = machine.run(arguments.seconds)
            found["programs"] = (ProbedMachine.programs_total - before) / arguments.seconds
            found |= {"mean": statistics.fmean(times), "worst": max(times)}
            found["loop"] = max(loop)
        found["megabytes"] = private_megabytes()
        began = time.process_time_ns()
        gc.collect()
        found["collection"] = (time.process_time_ns() - began) / 1e6
        found["series"] = sum(
            len(samples) for chunk in machine.engine.hub.chunks() for _, samples in chunk.families
        )
    finally:
        machine.close()
    print(json.dumps(found))
    sys.stdout.flush()
    os._exit(0)  # threads of its databases wait for ever


if __name__ == "__main__":
    main()
