"""The budgets of the design, measured: `make bench` prints the table; nothing here passes or fails.

Times are of processor time unless said otherwise; a machine that does other work shows it in times
by the clock only, and a little in the others.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import random
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

from logins import bench_logins
from machine import FakeMachine, measured
from program import Peers, bench_delivery, bench_start
from rule_language import bench_crowded, bench_rules
from scrapes import bench_page, bench_scrape, bench_smart
from support import slow_disks, tracing
from table import cpu_milliseconds, head, row, speed
from waits import bench_waits

from iowarden.collectors.machine import Machine
from iowarden.collectors.recording.recorder import Changes, Recorder, watched
from iowarden.collectors.recording.recording import Frame, Recording
from iowarden.daemon.config.rule_files import load_rules
from iowarden.daemon.polling.scheduler import SourceScheduler
from iowarden.daemon.replay import replay
from iowarden.daemon.service import flight_recorder
from iowarden.daemon.trace.requests import Requests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.daemon.trace.pages import TraceEvent

RUNS = 3
"""Of each simulated machine; the medians are printed."""
MEAN = {1: "", 24: "<= 2.5", 480: "<= 22", 1000: "<= 50"}
WORST = {1: "", 24: "<= 12", 480: "<= 40", 1000: "<= 90"}
MEMORY = {1: "<= 40", 24: "<= 42", 480: "<= 70", 1000: ""}
"""Budgets by number of disks."""


def bench_machine(disks: int, seconds: int) -> None:
    """Measure the whole turn of the loop and the memory for so many disks, after a minute."""
    runs = [measured("--disks", str(disks), "--seconds", str(seconds)) for _ in range(RUNS)]
    found = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    after = f"after {seconds // 60} simulated min"
    for what, measure, budget in (
        ("mean of a second, ms", f"{found['mean']:.2f}", MEAN[disks]),
        ("worst turn of the loop, ms", f"{found['loop']:.1f}", WORST[disks]),
        ("  the same with what threads read, ms", f"{found['worst']:.1f}", ""),
        ("  once an hour: garbage, ms", f"{found['collection']:.0f}", ""),
        ("  worst of the first minute, ms", f"{found['first']:.0f}", ""),
        (f"RssAnon {after}, MB", f"{found['megabytes']:.1f}", MEMORY[disks]),
    ):
        row(f"{disks:,} disks: {what}", measure, budget)


def bench_everything() -> None:
    """Measure the memory of the largest host: a drive each, and the exporters' names."""
    found = measured("--disks", "1000", "--seconds", "120", "--smart")
    row(
        f"1,000 disks and drives, {found['series']:,} series: RssAnon, MB",
        f"{found['megabytes']:.0f}",
        "<= 256",
    )


def bench_stacked(seconds: int) -> None:
    """Measure what 24 disks in three pools of ZFS and 200 thin volumes add to 24 disks.

    What a program takes is not simulated: that of one that starts and ends, as a lower limit.
    """
    runs = [
        measured("--disks", "24", "--seconds", str(seconds), *more)
        for more in ((), ("--stacked",))
        for _ in range(RUNS)
    ]
    found = {
        name: [statistics.median(run[name] for run in some) for some in (runs[:RUNS], runs[RUNS:])]
        for name in ("mean", "megabytes", "programs")
    }
    began = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(100):
        subprocess.run(["/bin/true"], check=True)
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = (ended.ru_utime + ended.ru_stime - began.ru_utime - began.ru_stime) * 10
    stacked = "3 pools, 200 thin volumes"
    for what, name, budget in (
        ("more a second, ms", "mean", "<= 0.5"),
        ("more RssAnon, MB", "megabytes", "<= 1"),
    ):
        row(f"{stacked}: {what}", f"{found[name][1] - found[name][0]:+.2f}", budget)
    programs = found["programs"][1] - found["programs"][0]
    row(f"{stacked}: programs a second", f"{programs:.3f}")
    row(f"{stacked}: to start and end them, ms a second", f"{programs * started:.2f}", "<= 3")


def bench_growth(turns: int) -> None:
    """Measure what private memory a long run adds."""
    found = measured("--growth-from", str(turns // 5), "--seconds", str(turns - turns // 5))
    row(
        f"1 disk: increase of RssAnon, turns {turns // 5:,} to {turns:,}, MB",
        f"{found['growth']:+.2f}",
        "<= 0.3 to 500,000",
    )


def profile(seconds: int) -> None:
    """Print the ten functions that take the most of a second, with 1 and with 480 disks."""
    for disks in (1, 480):
        found = measured("--disks", str(disks), "--seconds", str(seconds), "--profile")
        print(f"{disks} disks, under the profiler {found['mean']:.2f} ms a second")
        print("  ms own     all  calls    in a second")
        print(*found["top"], sep="\n")


def bench_slow_disks(disks: int, seconds: int) -> None:
    """Measure the signal that compares disks: 24 in each array, all of them busy."""
    names = [f"sd{number:03}" for number in range(disks)]
    arrays = [slow_disks.Array("raid6", tuple(names[at : at + 24])) for at in range(0, disks, 24)]
    found = [slow_disks.drive(n, port=None, host=f"host{at // 48}") for at, n in enumerate(names)]
    machine = slow_disks.SlowMachine(slow_disks.machine(found, *arrays))
    luck = random.Random(1)
    windows: list[float] = []
    for _ in range(seconds // 10 + 4):  # the first 30 s of activity are not compared
        loads = {
            name: slow_disks.Load(50, luck.uniform(5, 12), 16, 50, luck.uniform(6, 14), 16, 1)
            for name in names
        }
        machine.run(10, loads)
        windows.append(sum(machine.milliseconds[-10:]))
    row(
        f"{disks} disks: which are slow, ms per second",
        f"{statistics.median(windows[4:]) / 10:.2f}",
        "<= 0.5",
    )


def bench_replay(seconds: int) -> None:
    """Measure a replay of a recorded time of 4 disks, and what keeping the last minutes costs."""
    machine = FakeMachine(4, record=False)
    changes, recent = Changes(), flight_recorder.FlightRecorder(4096)
    took = 0

    def take(source: str, seen: Mapping[str, bytes]) -> None:
        nonlocal took
        changes.take(source, seen)
        began = time.process_time_ns()
        recent.take(source, seen)
        took += time.process_time_ns() - began

    sources = [
        dataclasses.replace(watched(s, take), may_hang=False) for s in machine.readers.sources
    ]
    readers = SourceScheduler(
        sources, {}, lambda: Machine(str(machine.root_directory)), time.time, print
    )
    path = str(Path(machine.directory, "recorded.tar.xz"))
    recorder = Recorder(path, 4096)
    for second in range(seconds):
        machine.next_second()
        readers.run(machine.clock.now())
        frame = Frame(second, machine.clock.uptime(), machine.clock.now())
        recorder.write(changes.step(frame))
        began = time.process_time_ns()
        recent.tick(frame.monotonic_seconds, frame.realtime_seconds)
        took += time.process_time_ns() - began
    recorder.close()
    kept = recent.size_bytes() / 2**20
    row("4 disks: flight recorder, ms per second", f"{took / seconds / 1e6:.2f}", "<= 1 (24 disks)")
    row("4 disks: flight recorder, MB", f"{kept:.2f}", "<= 8")
    row("4 disks: a recorded day, MB", f"{os.path.getsize(path) / 2**20 * 86400 / seconds:.1f}")
    began = time.process_time_ns()
    replay.replay([Recording(path)], machine.settings, load_rules(machine.settings))
    a_day = (time.process_time_ns() - began) / 1e9 * 86400 / seconds
    row("4 disks: replay of a day, s", f"{a_day:.0f}", "<= 180")
    machine.close()


def bench_trace(pages: int) -> None:
    """Measure how long reading a trace takes: pages of the kernel to latencies, 8 in flight."""
    page, decoder = tracing.Page(), tracing.BOOKWORM.decoder()
    for number in range(20):
        page.put(tracing.issue(number * 8))
        if number >= 8:
            page.put(tracing.complete(number * 8 - 64))
    for number in range(12, 20):
        page.put(tracing.complete(number * 8))
    data, events = page.bytes()[8:], 40
    written = [(n * 1_000_000).to_bytes(8, sys.byteorder) + data for n in range(pages)]
    requests = Requests({tracing.SDA: "8:0"})

    def read() -> None:
        batch: list[TraceEvent] = []
        for each in written:
            decoder.decode(each, batch.append)
        batch.sort()
        requests.take(batch)

    took = cpu_milliseconds(read, 9)
    row("trace: an event, us", f"{took * 1000 / pages / events:.2f}", "< 2")
    (disk,) = requests.result(0, 0)
    assert (disk.requests, disk.unmatched) == (9 * pages * events // 2, 0)


def main() -> None:
    """Measure everything and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=25_000, help="turns of the growth measurement")
    parser.add_argument("--seconds", type=int, default=1800, help="simulated seconds a machine")
    parser.add_argument("--profile", action="store_true", help="what is left: functions, no table")
    arguments = parser.parse_args()
    if arguments.profile:
        profile(min(arguments.seconds, 120))
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(4096, hard)), hard))
    head()
    speed()
    peers = Peers()
    bench_start()
    for disks in (1, 24, 480):
        bench_machine(disks, arguments.seconds)
    bench_machine(1000, arguments.seconds // 6)
    bench_stacked(arguments.seconds // 3)
    bench_everything()
    bench_growth(arguments.turns)
    bench_replay(3600)
    bench_scrape(300)
    bench_logins(300)
    bench_smart(20)
    bench_page(300)
    bench_slow_disks(480, 300)
    bench_waits()
    bench_rules()
    bench_crowded(120)
    bench_delivery()
    bench_trace(500)
    peers.rows()
    speed()


if __name__ == "__main__":
    main()
