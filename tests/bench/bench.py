"""The budgets of the design, measured: `make bench` prints the table; nothing here passes or fails.

Times are medians of processor time in this process unless said otherwise; a machine that does
other work shows it in wall times only.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import gc
import http.client
import math
import os
import queue
import random
import re
import resource
import shutil
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
import tracemalloc
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[1]))

from support import drives, slow_disks, tracing
from support.host import played
from support.machine import write_root
from support.many_rules import Crowded
from support.pages import PlayedService, printed, rack
from support.program import Feed, Program, recorded
from support.recordings import open_fixture
from support.smtp import smtp_server

from iowarden.collectors.machine import Machine
from iowarden.collectors.model import Chunk, Family, Outcome, Reading
from iowarden.collectors.recording.recorder import Changes, Recorder, watched
from iowarden.collectors.recording.recording import Frame, Recording
from iowarden.collectors.smart import smart_series, smartctl
from iowarden.collectors.smart.drive import AccessMethod, Disk, Disks, Drive, PollResult, ReadStatus
from iowarden.daemon import journal
from iowarden.daemon.clock import PlayedClock
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.rule_files import load_rules
from iowarden.daemon.http.exposition import Exposition, MetricsSnapshot
from iowarden.daemon.http.http_server import App, HttpServer
from iowarden.daemon.http.web_config import WebConfig
from iowarden.daemon.notify.maildir import MaildirSettings
from iowarden.daemon.notify.sender import Sender
from iowarden.daemon.page.builder import PageKind, PageRequest
from iowarden.daemon.polling import pollers
from iowarden.daemon.polling.scheduler import SourceScheduler
from iowarden.daemon.process_metrics import ProcessMetrics
from iowarden.daemon.replay import replay
from iowarden.daemon.service import flight_recorder
from iowarden.daemon.service.service import Dependencies, Service
from iowarden.daemon.storage import history_db
from iowarden.daemon.storage.state_db import StateDatabase
from iowarden.daemon.trace.requests import Requests
from iowarden.rules.engine.engine import Engine
from iowarden.rules.promql.evaluator import compile_expression
from iowarden.rules.promql.store import SeriesStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from iowarden.daemon.trace.pages import TraceEvent

TOOLS = Path(__file__).parents[2] / "build" / "tools"
ROWS: list[tuple[str, str, str]] = []


def row(what: str, measured: str, budget: str = "") -> None:
    """Print a line of the table."""
    ROWS.append((what, measured, budget))
    print(f"{what:<58} {measured:>24}   {budget}", flush=True)


def cpu_milliseconds(work: Callable[[], object], count: int) -> float:
    """Return the median processor time of a call, garbage collection included."""
    times = []
    for _ in range(count):
        began = time.process_time_ns()
        work()
        times.append((time.process_time_ns() - began) / 1e6)
    return statistics.median(times)


def private_megabytes(pid: int | str = "self") -> float:
    """Return RssAnon of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024
    return float("nan")


class FakeMachine:
    """A simulated machine in memory: files, readers, engine, loop, without threads that wait."""

    def __init__(self, disks: int) -> None:
        """Make the files and everything that reads them."""
        self.directory = tempfile.mkdtemp(prefix="iowarden-bench-", dir="/dev/shm")
        self.disks = disks
        self.second = 0
        self.root_directory = Path(self.directory, "root")
        write_root(self.root_directory, disks, 0)
        self.settings = parse_config(
            f"listen: 127.0.0.1:19748\nstate_directory: {self.directory}\n", "bench"
        )
        self.clock = PlayedClock()
        self.clock.set(1000.0, 1_800_000_000.0)
        events: queue.SimpleQueue[object] = queue.SimpleQueue()
        # In the loop's own thread, all of them: then their processor time is the turn's.
        asked = pollers.make(self.settings.smart, self.clock)
        sources = [dataclasses.replace(s, may_hang=False) for s in asked.sources()]
        self.readers = SourceScheduler(
            sources,
            self.settings.interval_seconds,
            lambda: Machine(str(self.root_directory)),
            self.clock.now,
            events.put,
            spread=True,
        )
        groups = load_rules(self.settings)
        self.engine = Engine(groups, self.readers.sources, self.clock.now())
        self.service = Service(
            Dependencies(
                config=self.settings,
                clock=self.clock,
                engine=self.engine,
                readers=self.readers,
                pollers=asked,
                events=events,
                log=journal.Log(level="error"),
                state=StateDatabase(str(Path(self.directory, "state.db")), events.put),
                sender=Sender(MaildirSettings(str(Path(self.directory, "Maildir"))), events.put),
                exposition=Exposition(print),
                notify=lambda _: False,
                own_metrics=ProcessMetrics(),
            )
        )

    def next_second(self) -> None:
        """Let a second pass: every disk has done something."""
        self.second += 1
        write_root(self.root_directory, self.disks, self.second, only_counters=True)
        self.clock.set(1000.0 + self.second, 1_800_000_000.0 + self.second)

    def sample(self) -> None:
        """Read what is due and step the signals, as the loop does each second."""
        now = self.clock.now()
        self.engine.observe(self.readers.run(now), now, 1000.0 + self.second)

    def timed(self, work: Callable[[], object], seconds: int) -> list[float]:
        """Return the processor milliseconds of `work` for each of some seconds."""
        times = []
        for _ in range(seconds):
            self.next_second()
            began = time.process_time_ns()
            work()
            times.append((time.process_time_ns() - began) / 1e6)
        return times

    def close(self) -> None:
        """Remove the files."""
        shutil.rmtree(self.directory, ignore_errors=True)


def bench_machine(disks: int, seconds: int) -> None:
    """Measure sampling, rules and the whole turn of the loop for so many disks."""
    machine = FakeMachine(disks)
    gc.collect()
    budget = {1: ("", "", ""), 24: ("<= 3", "<= 4", "<= 10"), 480: ("", "", "<= 100")}[disks]
    machine.timed(machine.sample, 40)  # the windows are full from here on
    sampling = machine.timed(machine.sample, seconds)
    rules = []
    for _ in range(seconds):
        machine.next_second()
        machine.sample()
        began = time.process_time_ns()
        machine.engine.rules.evaluate(machine.clock.now())
        rules.append((time.process_time_ns() - began) / 1e6)
    turns = machine.timed(lambda: machine.service.loop.do_duties(machine.clock.now()), seconds)
    mean = statistics.fmean
    row(f"{disks} disks: sampling and signals, ms per second", f"{mean(sampling):.2f}", budget[0])
    row(f"{disks} disks: all rule groups, ms per second", f"{mean(rules):.2f}", budget[1])
    row(f"{disks} disks: everything, ms per second", f"{mean(turns):.2f}", budget[2])
    row(
        f"{disks} disks: worst second, ms",
        f"{max(turns):.1f}",
        {1: "", 24: "<= 12", 480: "<= 40"}[disks],
    )
    machine.close()


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


def bench_growth(ticks: int) -> None:
    """Measure what private memory a long run adds."""
    machine = FakeMachine(24)
    machine.timed(lambda: machine.service.loop.do_duties(machine.clock.now()), 400)
    gc.collect()
    before = private_megabytes()
    for _ in range(ticks):
        machine.next_second()
        machine.service.loop.do_duties(machine.clock.now())
    gc.collect()
    row(
        f"24 disks: growth of RssAnon over {ticks:,} ticks, MB",
        f"{private_megabytes() - before:+.2f}",
        "0 over a million",
    )
    machine.close()


def bench_replay(seconds: int) -> None:
    """Measure a replay of a recorded time of 4 disks, and what keeping the last minutes costs."""
    machine = FakeMachine(4)
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
    replay.replay(Recording(path), machine.settings, load_rules(machine.settings))
    a_day = (time.process_time_ns() - began) / 1e9 * 86400 / seconds
    row("4 disks: replay of a day, s", f"{a_day:.0f}", "<= 300")
    machine.close()


SETTLE_SECONDS, MEASURE_SECONDS = 15, 20


def bench_daemon() -> None:
    """Measure the real program on this machine, alone and scraped, and node_exporter there."""
    directory = tempfile.mkdtemp(prefix="iowarden-bench-")
    settings, port = Path(directory, "iowarden.yaml"), free_port()
    settings.write_text(
        f"listen: 127.0.0.1:{port}\nstate_directory: {directory}\nexpose: {{node: true}}\n"
    )
    program = str(Path(sys.executable).with_name("iowarden"))
    with _running([program, "run", "--config", str(settings)], MALLOC_ARENA_MAX="1") as process:
        time.sleep(SETTLE_SECONDS)  # a measurement, not a test: so long until it has settled
        alone, _ = _used(process.pid)
        row(
            "this machine: the program's RssAnon, MB",
            f"{private_megabytes(process.pid):.1f}",
            "< 40",
        )
        row("this machine: the program, ms of processor per second", f"{alone:.1f}", "<= 10")
        scraped, median = _used(process.pid, port)
        row("  scraped every second, ms per second", f"{scraped:.1f}")
        row("  one scrape, node_exporter's names as well, ms", f"{median:.1f}")
    shutil.rmtree(directory, ignore_errors=True)
    path = os.pathsep.join((str(TOOLS), os.environ.get("PATH", "")))
    peer = shutil.which("prometheus-node-exporter", path=path)
    if peer is None:
        row("  node_exporter on this host", "not here: make test fetches it")
        return
    port = free_port()
    with _running([peer, f"--web.listen-address=127.0.0.1:{port}"]) as process:
        time.sleep(2)
        scraped, median = _used(process.pid, port)
        anonymous = private_megabytes(process.pid)
        row("  node_exporter on this host, scraped every second, ms per second", f"{scraped:.1f}")
        row("  node_exporter: one scrape, ms", f"{median:.1f}")
        row("  node_exporter: RssAnon, MB", f"{anonymous:.1f}")


@contextlib.contextmanager
def _running(command: list[str], **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        command, stderr=subprocess.DEVNULL, env={**os.environ, **environment}
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(20)


def _used(pid: int, port: int | None = None) -> tuple[float, float]:
    """Return ms of processor per second of a process, and the median ms of a scrape a second."""
    began, took = _cpu_seconds(pid), [0.0]
    for _ in range(MEASURE_SECONDS):
        if port is not None:
            at = time.perf_counter()
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                answer.read()
            took.append((time.perf_counter() - at) * 1000)
        time.sleep(1)
    return (_cpu_seconds(pid) - began) / MEASURE_SECONDS * 1000, statistics.median(took)


def _cpu_seconds(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    """Return a port nobody listens to now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


SERIES, CHANGED, PER_FAMILY = 5000, 1000, 50


def bench_scrape(scrapes: int) -> None:
    """Measure scrapes of 5,000 series of which 1,000 changed, alone and with 200 idle clients."""
    exposition = Exposition(print)
    labels = [((("device", f"sd{i}"), ("serial", f"S{i:012}"))) for i in range(PER_FAMILY)]

    def chunk(name: str, series: int, version: int) -> Chunk:
        families = tuple(
            (
                Family(f"iowarden_{name}_{f}", "gauge", "A simulated family."),
                tuple((f"iowarden_{name}_{f}", own, version + f / 7) for own in labels),
            )
            for f in range(series // PER_FAMILY)
        )
        return Chunk(name, version, families)

    still = tuple(chunk(f"still{i}", 1000, 1) for i in range((SERIES - CHANGED) // 1000))
    settings = parse_config("", "bench").http
    app = App("bench", exposition.render, lambda: "", lambda: "", lambda: "")
    server = HttpServer((("127.0.0.1", free_port()),), app, settings, print)
    problem = server.start()
    if problem:
        row("scrape", problem)
        return
    address = server.bound[0]
    client: ssl.SSLContext | None = None

    def scrape(version: int) -> float:
        exposition.publish(MetricsSnapshot((*still, chunk("moving", CHANGED, version))))
        began = time.perf_counter()
        connection = (
            http.client.HTTPSConnection(*address, context=client)
            if client
            else http.client.HTTPConnection(*address)
        )
        connection.request("GET", "/metrics")
        connection.getresponse().read()
        connection.close()
        return (time.perf_counter() - began) * 1000

    scrape(0)
    alone = sorted(scrape(v) for v in range(1, scrapes + 1))
    idle = [socket.create_connection(address) for _ in range(200)]
    beside = sorted(scrape(v) for v in range(scrapes + 1, 2 * scrapes + 1))
    p99 = int(scrapes * 0.99) - 1
    row("scrape of 5,000 series, 1,000 changed: median, ms", f"{alone[scrapes // 2]:.2f}")
    row("scrape of 5,000 series, 1,000 changed: p99, ms", f"{alone[p99]:.2f}", "<= 10")
    row("with 200 idle clients: p99, ms", f"{beside[p99]:.2f}")
    row("with 200 idle clients: p99, ratio", f"{beside[p99] / alone[p99]:.2f}", "<= 1.5")
    for each in idle:
        each.close()
    server.use(WebConfig(_certificate()))
    client = ssl.create_default_context()
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    # Half of them never begin the handshake, half have completed it.
    idle = [socket.create_connection(address) for _ in range(200)]
    idle[100:] = [client.wrap_socket(each) for each in idle[100:]]
    encrypted = sorted(scrape(v) for v in range(2 * scrapes + 1, 3 * scrapes + 1))
    row("by TLS with 200 idle TLS clients: median, ms", f"{encrypted[scrapes // 2]:.2f}")
    row("by TLS with 200 idle TLS clients: p99, ms", f"{encrypted[p99]:.2f}", "<= 10")
    for each in idle:
        each.close()
    server.close()


def _certificate() -> ssl.SSLContext:
    """Return a server's context with a new certificate for this run."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as directory:
        certificate, key = f"{directory}/server.crt", f"{directory}/server.key"
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-x509")
        files = ("-keyout", key, "-out", certificate, "-subj", "/CN=bench")
        subprocess.run(["openssl", "req", *curve, *files], check=True, capture_output=True)
        context.load_cert_chain(certificate, key)
    return context


MIXED_RULES = (
    "{m} > 5e12",
    "{m} < 0",
    '{m}{{device=~"sd(a|b).*"}} > 5e12',
    "{m} / {n} > 1e12",
    "{m} > 5e12 and on (device) {n} < 5",
    "rate({m}[5m]) > 1e9",
    "rate({m}[5m]) / rate({n}[5m]) > 1e9",
    "sum by (enclosure) (rate({m}[5m])) > 1e9",
    "avg without (device) ({m}) > 5e12",
    "increase({m}[1h]) > 1e12",
    "irate({m}[2m]) > 1e9",
    "max_over_time({m}[30m]) > 5e12",
    "avg_over_time({m}[15m]) > 5e12",
    "changes({m}[10m]) < 0",
    "count_over_time(({m} > 5e12)[5m:1m]) >= 3",
    "predict_linear({m}[1h], 14400) < 0 and {m} > 5e12",
    "delta({m}[10m]) > 1e12",
    "absent({m})",
    "topk(3, {m}) > 5e12",
    "{m} * on (device) group_left (model) {n} > 1e30",
)
"""What public rules for storage use, plain comparisons and rates above all."""


READERS = """
import http.client, sys, threading, time
paths = sys.argv[4:]
def read(number):
    while True:
        connection = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]))
        connection.request("GET", paths[number % len(paths)])
        connection.getresponse().read()
        connection.close()
        number += 50
        time.sleep(float(sys.argv[3]))
for number in range(50):
    threading.Thread(target=read, args=(number,), daemon=True).start()
    time.sleep(0.02)
print("reading", flush=True)
sys.stdin.read()
"""
SCRAPES = """
import http.client, sys, time
for number in range(int(sys.argv[3])):
    began = time.perf_counter()
    connection = http.client.HTTPConnection(sys.argv[1], int(sys.argv[2]))
    connection.request("GET", "/metrics")
    connection.getresponse().read()
    connection.close()
    print(time.perf_counter() - began)
    time.sleep(0.03)
"""


def bench_page(scrapes: int) -> None:
    """Measure the status page, and scrapes while 50 readers reload it, some without a pause."""
    directory = Path(tempfile.mkdtemp(prefix="iowarden-bench-"))
    for disks, budget in ((24, "< 50"), (480, "")):
        lines = printed("critical medium error, dev sdb, sector 12345 op 0x0:(READ) flags 0x0")
        service = PlayedService(rack(disks, 20, {8: lines}), directory, full=True)
        now = service.clock.now()

        def documents(service: PlayedService = service, now: float = now) -> None:
            service.service._pages.answer(PageRequest(PageKind.INDEX, "", True, ignored), now)

        def whole(service: PlayedService = service) -> None:
            service.pages._stored.clear()
            service.get()

        page = service.get().html.decode()
        row(f"status page of {disks} disks, kB", f"{len(page) / 1e3:.0f}")
        row(f"status page of {disks} disks, ms", f"{cpu_milliseconds(whole, 20):.1f}", budget)
        row("  of these in the loop, ms", f"{cpu_milliseconds(documents, 20):.1f}")
        server = service.server()
        server.start()
        place = (server.bound[0][0], str(server.bound[0][1]))
        _scraped(service, place, 2)
        alone, used = _scraped(service, place, scrapes)
        row(f"scrape of {disks} disks: median, p99, ms", _middle_and_p99(alone))
        row("  processor time, ms a second", f"{used:.0f}")
        others = sorted(set(re.findall('href="(/(?:drive|incident)/[^"]+)"', page)))
        for pause, paths in ((3.0, ["/"]), (1.0, ["/"]), (0.0, ["/"]), (0.0, others)):
            command = [sys.executable, "-c", READERS, *place, str(pause), *paths]
            readers = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            assert readers.stdout is not None
            readers.stdout.readline()
            beside, used = _scraped(service, place, scrapes)
            readers.communicate()
            often = f"each {pause:.0f} s" if pause else "all the time"
            what = f"  50 readers of {len(paths)} pages, {often}: median, p99, ms"
            row(what, _middle_and_p99(beside), "<= 10" if disks == 24 else "")
            row("  processor time, ms a second", f"{used:.0f}")
        server.close()
    shutil.rmtree(directory, ignore_errors=True)


def _scraped(
    service: PlayedService, place: tuple[str, str], scrapes: int
) -> tuple[list[float], float]:
    """Return the sorted milliseconds of scrapes, and the milliseconds of processor time a second.

    Meanwhile a fifth of the series change each second, as they do in the service.
    """
    published = service.exposition._published
    command = [sys.executable, "-c", SCRAPES, *place, str(scrapes)]
    began, used, version = time.perf_counter(), time.process_time(), 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as scraper:
        while scraper.poll() is None:
            version += 1
            chunks = tuple(
                _moved(chunk, version) if number % 5 == 0 else chunk
                for number, chunk in enumerate(published.chunks)
            )
            service.exposition.publish(MetricsSnapshot(chunks))
            with contextlib.suppress(subprocess.TimeoutExpired):
                scraper.wait(1.0)
        assert scraper.stdout is not None
        times = sorted(float(line) * 1000 for line in scraper.stdout)
    seconds = time.perf_counter() - began
    return times, (time.process_time() - used) * 1000 / seconds


def _moved(chunk: Chunk, version: int) -> Chunk:
    families = tuple(
        (family, tuple((name, labels, value + version) for name, labels, value in samples))
        for family, samples in chunk.families
    )
    return Chunk(chunk.name, chunk.version + version, families)


def _middle_and_p99(times: list[float]) -> str:
    return f"{times[len(times) // 2]:.2f}, {times[int(len(times) * 0.99) - 1]:.2f}"


def ignored(_: object) -> None:
    """Take a reply."""


def bench_rules() -> None:
    """Measure the rule language: 20 metrics of 50 disks, an hour of samples each 15 s."""
    now, metrics = 1.8e9 + 3600, [f"node_disk_{number}_total" for number in range(20)]
    labels = [(("device", f"sd{i}"), ("enclosure", str(i // 12))) for i in range(50)]
    tracemalloc.start()  # what the process holds also has what earlier rows gave back
    store = SeriesStore(dict.fromkeys(metrics, 3900.0))
    for at in range(0, 3601, 15):
        samples = [(m, own, at * 1e3 + i) for m in metrics for i, own in enumerate(labels)]
        store.append_many(1.8e9 + at, samples)
    held = tracemalloc.get_traced_memory()[0] / (241 * len(metrics) * len(labels))
    tracemalloc.stop()
    row("history of 1,000 series, bytes per sample", f"{held:.1f}", "<= 24")
    mixed = [
        compile_expression(
            MIXED_RULES[i % 20].format(m=metrics[i % 20], n=metrics[(i + i // 20) % 20])
        )
        for i in range(100)
    ]
    took = cpu_milliseconds(lambda: [rule.evaluate(store, now) for rule in mixed], 9)
    row("100 mixed rules over 1,000 series, ms per round", f"{took:.2f}", "< 20")
    all_of_them = compile_expression('predict_linear({device!=""}[1h], 14400)')
    wide = SeriesStore({"m": 3900.0})
    for at in range(0, 3601, 15):
        wide.append_many(1.8e9 + at, [("m", (("device", str(i)),), at * i) for i in range(1000)])
    took = cpu_milliseconds(lambda: all_of_them.evaluate(wide, now), 9)
    row("predict_linear[1h] over 1,000 series of 15 s, ms", f"{took:.2f}", "< 60")


def bench_crowded(seconds: int) -> None:
    """Measure 2,000 short, 500 mixed and hostile rules of the user over 20,000 series."""
    machine, late, delay, worst = Crowded(2000, 500, 20_000), 0, 0.0, 0.0
    began = time.process_time()
    for second in range(seconds):
        tick = time.process_time()
        machine.second(float(second % 2))
        worst = max(worst, time.process_time() - tick)
        late += ("Shipped" in machine.firing()) is not bool(second % 2)
        ((_, _, value),) = machine.engine.hub.last("iowarden_rule_evaluation_delay_seconds")
        delay = max(delay, value)
    took = (time.process_time() - began) / seconds
    ran = sum(name.startswith("Short") for name in machine.evaluated)
    row("2,500 rules of users: shipped alerts late, of seconds", f"{late} of {seconds}", "0")
    row("2,500 rules of users: short rules that had their turn", f"{ran}", "2000")
    row("2,500 rules of users: latest of them, s", f"{delay:.0f}")
    row("2,500 rules of users: ms a second, worst ms", f"{took * 1e3:.0f}, {worst * 1e3:.0f}")
    row("2,500 rules of users: refused", ", ".join(sorted(machine.engine.rules.problems)))


SMART_DISKS, POLLED = 500, 4
"""So many of them are asked in 15 seconds, each twice an hour."""


class Drives:
    """Drives by the hundred, as a source: each look finds that a few have spoken anew."""

    def __init__(self) -> None:
        """Let all of them speak."""
        self.seconds = 0
        self.disks = Disks({f"S{i:08}": self._disk(i) for i in range(SMART_DISKS)})

    def _disk(self, number: int) -> Disk:
        drive = smartctl.parse(drives.ata(f"S{number:08}", self.seconds))
        assert isinstance(drive, Drive)
        name = f"sd{number}"
        polled = PollResult(
            AccessMethod(f"/dev/{name}", "sat", device=name, controller="host0"),
            ReadStatus.READ,
            drive=drive,
            read_seconds=1.8e9 + self.seconds,
            runs_total=1 + self.seconds // 1800,
        )
        return Disk(drive.serial, polled, name)

    def speak(self) -> Disks:
        """Let 15 s pass."""
        first = self.seconds // 15 * POLLED
        self.seconds += 15
        spoken = [self._disk(number % SMART_DISKS) for number in range(first, first + POLLED)]
        self.disks = Disks({**self.disks.by_key, **{disk.key: disk for disk in spoken}})
        return self.disks


def bench_smart(rounds: int) -> None:
    """Measure hundreds of drives: their outputs, and what their series cost the loop."""
    texts = [drives.ata(f"S{i:08}") for i in range(SMART_DISKS)]
    smartctl.parse(texts[0])
    gc.collect()
    began = time.process_time()
    read = [smartctl.parse(text) for text in texts]
    parsed = time.process_time() - began
    values = [
        (drive.serial, str(attribute.id), float(attribute.counted() or 0), attribute.id in {5, 197})
        for drive in read
        if isinstance(drive, Drive)
        for attribute in drive.attributes
    ]
    directory = tempfile.mkdtemp(prefix="iowarden-bench-")
    said: queue.SimpleQueue[object] = queue.SimpleQueue()
    kept = history_db.History(str(Path(directory, "history.db")), said.put)
    began = time.process_time()
    kept.store_drives(time.time(), values)
    kept.close(60)
    stored = time.process_time() - began
    shutil.rmtree(directory)
    row("500 drives: outputs of 20 kB parsed, s", f"{parsed:.2f}")
    row("500 drives: parsed and stored, s", f"{parsed + stored:.2f}", "< 1.5")
    del read, texts, values

    found = Drives()
    smart = smart_series.SOURCE
    groups = load_rules(parse_config("", "bench"))
    for what, expose in (("series", ()), ("smartctl_exporter's as well", ("smartctl_",))):
        gc.collect()
        before = private_megabytes()
        engine = Engine(groups, [smart], 1000.0, expose=expose)
        exposition = Exposition(print)
        changed, still, scraped = [], [], []

        def turn(value: Disks, engine: Engine = engine) -> float:
            now = 1000.0 + found.seconds
            reading = Reading("smart", Outcome.OK, now, 0.0, value)
            began = time.process_time_ns()
            engine.observe([reading], now, now)
            engine.rules.evaluate(now)
            return (time.process_time_ns() - began) / 1e6

        turn(found.disks)
        for _ in range(rounds):
            changed.append(turn(found.speak()))
            found.seconds += 15
            still.append(turn(found.disks))
            exposition.publish(MetricsSnapshot(engine.hub.chunks()))
            scraped.append(cpu_milliseconds(exposition.render, 1))
        series = sum(len(s) for chunk in engine.hub.chunks() for _, s in chunk.families)
        worst = max(statistics.median(changed), statistics.median(still))
        row(f"500 drives, {what}: on '/metrics'", f"{series:,}", ">= 50,000")
        row(
            "  the loop, ms per update (each 15 s), new values", f"{statistics.median(changed):.1f}"
        )
        row("  the loop, ms per update, unchanged values", f"{statistics.median(still):.1f}")
        row("  the loop, ms per second at most", f"{worst / 15:.2f}", "<= 100 with 480 disks")
        row("  a scrape, ms; the first", f"{statistics.median(scraped):.0f}; {scraped[0]:.0f}")
        row("  RssAnon that takes, MB", f"{private_megabytes() - before:.0f}")


def bench_delivery() -> None:
    """Measure from the frame that confirms a condition to the mail at a real SMTP server."""
    for name, severity, budget in (
        ("hung-disk", "critical", "<= 3"),
        ("write-stall", "warning", "<= 63 with 60 of grouping"),
    ):
        directory = Path(tempfile.mkdtemp(prefix="iowarden-bench-"))
        (directory / "recorded").mkdir()
        recording = open_fixture(name, directory / "recorded")
        host = played(recording)
        due = next(m.uptime for m in host.mails if m.due.incident.severity.name.lower() == severity)
        confirmed = min(u for u, _, level in host.fired if level == severity)
        feed = Feed(recorded(name), directory / "feed")
        before = sum(step.frame.monotonic_seconds < due for step in feed.steps)
        with smtp_server() as (port, answers):
            program = Program(directory, feed, smtp_port=port)
            program.start()
            # Rules are evaluated every 5 s, perhaps at another second than in `played`.
            feed.give(before - 8)
            program.caught_up()
            took = math.nan
            while math.isnan(took) and feed.given < len(feed.steps):
                began = time.perf_counter()
                feed.give(1)
                with contextlib.suppress(queue.Empty):
                    answers.mails.get(timeout=0.5)
                    took = time.perf_counter() - began
            program.end()
        waited = due - confirmed
        row(f"condition confirmed to SMTP, {severity}, s", f"{waited + took:.2f}", budget)
        shutil.rmtree(directory, ignore_errors=True)


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
    parser.add_argument("--ticks", type=int, default=20_000, help="ticks of the growth measurement")
    parser.add_argument("--seconds", type=int, default=300, help="simulated seconds a machine")
    arguments = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(4096, hard)), hard))
    print(f"{'what':<58} {'measured':>24}   budget")
    for disks in (1, 24, 480):
        bench_machine(disks, arguments.seconds)
    bench_slow_disks(480, arguments.seconds)
    bench_replay(3600)
    bench_scrape(300)
    bench_page(300)
    bench_rules()
    bench_crowded(120)
    bench_smart(20)
    bench_delivery()
    bench_trace(500)
    bench_growth(arguments.ticks)
    bench_daemon()


if __name__ == "__main__":
    main()
