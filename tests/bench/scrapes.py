"""Scrapes and pages: thousands of series, hundreds of drives, many clients."""

from __future__ import annotations

import contextlib
import gc
import http.client
import queue
import re
import shutil
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from machine import Drives
from support import drives
from support.pages import PlayedService, printed, rack
from table import cpu_milliseconds, free_port, private_megabytes, row

from iowarden.collectors.model import Chunk, Family, Outcome, Reading
from iowarden.collectors.smart import smart_series, smartctl
from iowarden.collectors.smart.drive import Disks, Drive
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.rule_files import load_rules
from iowarden.daemon.http.exposition import Exposition, MetricsSnapshot
from iowarden.daemon.http.http_server import App, HttpServer
from iowarden.daemon.http.web_config import WebConfig
from iowarden.daemon.page.builder import PageKind, PageRequest
from iowarden.daemon.storage import history_db
from iowarden.rules.engine.engine import Engine

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
    row("scrape of 5,000 series, 1,000 changed: p99, ms", f"{alone[p99]:.2f}", "<= 5")
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
    row("by TLS with 200 idle TLS clients: p99, ms", f"{encrypted[p99]:.2f}", "<= 5")
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
            row(what, _middle_and_p99(beside), "<= 5" if disks == 24 else "")
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


SMART_DISKS = 500


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

    found = Drives(SMART_DISKS)
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
        row(f"500 drives, {what}: on '/metrics'", f"{series:,}")
        row(
            "  the loop, ms per update (each 15 s), new values", f"{statistics.median(changed):.1f}"
        )
        row("  the loop, ms per update, unchanged values", f"{statistics.median(still):.1f}")
        row("  the loop, ms per second at most", f"{worst / 15:.2f}")
        row("  a scrape, ms; the first", f"{statistics.median(scraped):.0f}; {scraped[0]:.0f}")
        row("  RssAnon that takes, MB", f"{private_megabytes() - before:.0f}")
        late, quiet = _late(Exposition(print), MetricsSnapshot(engine.hub.chunks()))
        row("  the first scrape: delay of the loop, ms", f"{late:.0f}", "<= 50")
        row("    without a scrape", f"{quiet:.0f}")


def _late(exposition: Exposition, snapshot: MetricsSnapshot) -> tuple[float, float]:
    """Return how late a loop is at most while everything is rendered anew, and without that.

    It wakes up each ms in the main thread. Counted is the processor time that the rest of the
    process had before it could go on, which other load of the machine does not change.
    """
    gc.set_threshold(*gc.get_threshold()[:2], 1_000_000_000)  # as mlock.lock does
    exposition.publish(snapshot)
    settings = parse_config("", "bench").http
    app = App("bench", exposition.render, lambda: "", lambda: "", lambda: "")
    server = HttpServer((("127.0.0.1", free_port()),), app, settings, print)
    server.start()
    place = (server.bound[0][0], str(server.bound[0][1]))
    found = []
    for command in ([sys.executable, "-c", SCRAPES, *place, "1"], ["sleep", "1"]):
        latest = 0.0
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as other:
            while other.poll() is None:
                before = time.process_time()
                time.sleep(0.001)
                latest = max(latest, time.process_time() - before)
        found.append(latest * 1000)
    server.close()
    return found[0], found[1]
