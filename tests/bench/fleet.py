"""Recorded machines as a fleet, before the real Prometheus and Alertmanager: `make test-fleet`.

Two hundred hosts are served on loopback addresses: idle machines; some of them play a recorded
write stall or a hung disk at a time of their own, and are well again later. Both engines run with
the files of packaging/prometheus, each is restarted once, and the processes of five hosts are
stopped by SIGSTOP. What is notified is held against what was served: one firing and one resolved
notification for each alert of each host, none for a host that has none, none resolved by a host
that does not answer, and that host reported down. It takes 30 minutes and prints the cost of a
host. It ends with 1 if anything was wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from collections import defaultdict
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.recordings import open_fixture

from iowarden.collectors.recording.recording import Recording
from iowarden.daemon.clock import PlayedClock
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.rule_files import load_rules
from iowarden.daemon.http.exposition import Exposition
from iowarden.daemon.replay import replay

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iowarden.daemon.http.exposition import MetricsSnapshot

REPOSITORY = Path(__file__).parents[2]
FILES = REPOSITORY / "packaging" / "prometheus"
TOOLS = REPOSITORY / "build" / "tools"
PORT = 9751
PROMETHEUS, ALERTMANAGER, WEBHOOK = "127.0.0.1:19090", "127.0.0.1:19093", "127.0.0.1:19099"
HELD_SECONDS = 10.0
"""A snapshot of a recording is served so long: scrapes are 30 s apart."""
SICK = ("write-stall", "hung-disk")
EVERY = 8
"""One host of so many is sick once."""
STOPPED = 5
SHORT_SECONDS = 90.0
"""An alert that was served for less may be missed between two scrapes."""
SETTLED_SECONDS = 240.0
"""An alert that began or ended so near the end may not have been notified yet."""
SERIES = re.compile(r"^iowarden_alerts\{(.*)\} 1(?:\.0)?$", re.MULTILINE)
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

Identity = frozenset[tuple[str, str]]
"""The labels of an alert at its host, `alertname` as `alert`."""


@dataclass(frozen=True, slots=True)
class Page:
    """What /metrics answers for a while, and which alerts are in it."""

    text: bytes
    alerts: frozenset[Identity]


@dataclass(frozen=True, slots=True)
class Host:
    """A machine of the fleet: healthy; from `begins` to `ends`, seconds of the run, `pages`."""

    address: str
    healthy: Page
    begins: float = math.inf
    ends: float = math.inf
    pages: Sequence[Page] = ()
    stopped: bool = False

    @property
    def instance(self) -> str:
        """Its label in Prometheus."""
        return f"{self.address}:{PORT}"

    def page(self, seconds: float) -> Page:
        """Return what is served at a time; after its recording a machine stays as it was."""
        if not self.begins <= seconds < self.ends:
            return self.healthy
        return self.pages[min(int((seconds - self.begins) // HELD_SECONDS), len(self.pages) - 1)]

    def episodes(self, end: float) -> dict[Identity, list[tuple[float, float]]]:
        """Return from when to when each alert was served, until the end of the run."""
        found: dict[Identity, list[tuple[float, float]]] = defaultdict(list)
        for number in range(int(end // HELD_SECONDS)):
            at = number * HELD_SECONDS
            for alert in self.page(at).alerts:
                spans = found[alert]
                if spans and spans[-1][1] == at:
                    spans[-1] = (spans[-1][0], at + HELD_SECONDS)
                else:
                    spans.append((at, at + HELD_SECONDS))
        return dict(found)


def alerts(text: bytes) -> frozenset[Identity]:
    """Return the alerts of a page that the central rules notify."""
    found = set()
    for labels_text in SERIES.findall(text.decode()):
        labels = dict(LABEL.findall(labels_text))
        state = labels.pop("alertstate")
        if state in {"firing", "unknown"} and labels["severity"] in {"warning", "critical"}:
            labels["alert"] = labels.pop("alertname")
            found.add(frozenset(labels.items()))
    return frozenset(found)


def pages(name: str) -> list[Page]:
    """Return /metrics of a recorded machine, at every ten seconds of its recording."""
    taken: list[tuple[float, bytes]] = []
    clocks: list[PlayedClock] = []

    class Clock(PlayedClock):
        def __init__(self) -> None:
            super().__init__()
            clocks.append(self)

    class Captured(Exposition):
        def publish(self, snapshot: MetricsSnapshot) -> None:
            super().publish(snapshot)
            if not taken or clocks[-1].now() - taken[-1][0] >= HELD_SECONDS:
                taken.append((clocks[-1].now(), self.render()))

    before = replay.PlayedClock, replay.Exposition
    replay.PlayedClock, replay.Exposition = Clock, Captured  # type: ignore[misc]
    try:
        config = parse_config("", "fleet")
        with tempfile.TemporaryDirectory() as directory:
            recording = Recording(open_fixture(name, Path(directory)))
            replay.replay([recording], config, load_rules(config))
    finally:
        replay.PlayedClock, replay.Exposition = before  # type: ignore[misc]
    return [Page(text, alerts(text)) for _, text in taken]


def fleet(count: int, end: float) -> list[Host]:
    """Return the hosts; the last are stopped later, two of these while they are sick."""
    chosen = random.Random(count)
    healthy = pages("idle")[-1]
    recorded = [pages(name) for name in SICK]
    hosts = []
    for number in range(count):
        address = f"127.1.{number // 250}.{number % 250 + 1}"
        stopped = number >= count - STOPPED
        if number % EVERY == 0 or number >= count - 2:
            begins = 120.0 if stopped else 120 + chosen.random() * (end * 0.5)
            ends = math.inf if stopped else begins + 240 + chosen.random() * end * 0.2
            played = recorded[number // EVERY % len(recorded)]
            hosts.append(Host(address, healthy, begins, ends, played, stopped))
        else:
            hosts.append(Host(address, healthy, stopped=stopped))
    return hosts


def serve(hosts: Sequence[Host], began: float) -> None:
    """Answer scrapes of some hosts in this process, for ever."""
    for host in hosts:

        class Handler(BaseHTTPRequestHandler):
            shown = host
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                text = self.shown.page(time.time() - began).text
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None:
                pass

        server = ThreadingHTTPServer((host.address, PORT), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
    signal.pause()


@dataclass(slots=True)
class Webhook:
    """What Alertmanager has sent, by the path it was sent to."""

    received: list[tuple[float, str, dict[str, Any]]] = field(default_factory=list)

    def listen(self) -> None:
        """Take notifications from now on."""
        received = self.received

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                received.append((time.time(), self.path, json.loads(self.rfile.read(length))))
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        host, _, port = WEBHOOK.partition(":")
        server = ThreadingHTTPServer((host, int(port)), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()

    def notified(self) -> dict[tuple[str, Identity], list[tuple[float, str, dict[str, str]]]]:
        """Return each alert's notifications: when, its status, and its annotations.

        Of the receiver that gets each alert by itself; a repetition with the same start is one.
        """
        found: dict[tuple[str, Identity], list[tuple[float, str, dict[str, str]]]] = {}
        for at, path, document in self.received:
            for alert in document["alerts"] if path == "/each" else ():
                labels = dict(alert["labels"])
                instance = labels.pop("instance", "")
                del labels["job"]
                name = labels.pop("alertname")
                if name != "IowardenAlert":
                    labels = {"alert": name, "severity": labels["severity"]}
                key = (instance, frozenset(labels.items()))
                found.setdefault(key, []).append((at, alert["status"], alert["annotations"]))
        return found


class Engine:
    """One of the two engines as a process; its state stays in its directory."""

    def __init__(self, *command: str, log: Path) -> None:
        """Start it."""
        self._command, self._log = command, log
        self._spent = 0.0
        self.start()

    def start(self) -> None:
        """Start it, with what it stored."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def restart(self) -> None:
        """As 'systemctl restart' does."""
        self.stop()
        self.start()

    def stop(self) -> None:
        """Let it end."""
        self._spent = self.cpu_seconds()
        self._process.terminate()
        self._process.wait(60)

    def cpu_seconds(self) -> float:
        """Its processor time, that before a restart included."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        ticks = os.sysconf("SC_CLK_TCK")
        return self._spent + (int(fields[11]) + int(fields[12])) / ticks

    def memory_mb(self) -> float:
        """Its resident memory."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return int(re.findall(r"VmRSS:\s+(\d+)", status)[0]) / 1024


def configured(directory: Path, hosts: Sequence[Host]) -> tuple[Path, Path]:
    """Write the shipped files for this fleet; return those of Prometheus and of Alertmanager.

    Changed: where the targets, the rules and Alertmanager are, and that the receivers are webhooks.
    """
    targets = directory / "hosts.json"
    targets.write_text(json.dumps([{"targets": [host.instance for host in hosts]}]))
    scrape = yaml.safe_load((FILES / "scrape.yaml").read_text())
    hosts_job, itself = scrape["scrape_configs"]
    hosts_job["file_sd_configs"] = [{"files": [str(targets)]}]
    itself["static_configs"] = [{"targets": [PROMETHEUS]}]
    scrape["rule_files"] = [str(FILES / "iowarden-central.rules.yaml")]
    scrape["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [ALERTMANAGER]}]}]}
    prometheus = directory / "prometheus.yml"
    prometheus.write_text(yaml.safe_dump(scrape))
    routes = yaml.safe_load((FILES / "alertmanager.yaml").read_text())
    for receiver in routes["receivers"]:
        name = receiver["name"]
        receiver.clear()
        url = f"http://{WEBHOOK}/{urllib.parse.quote(name)}"
        receiver.update(name=name, webhook_configs=[{"url": url, "max_alerts": 0}])
    # Beside the shipped routes: each alert by itself, so that its notifications can be counted.
    each = {"receiver": "each", "group_by": ["..."], "group_wait": "5s", "group_interval": "30s"}
    routes["route"].setdefault("routes", []).insert(0, {**each, "continue": True})
    routes["receivers"].append(
        {"name": "each", "webhook_configs": [{"url": f"http://{WEBHOOK}/each", "max_alerts": 0}]}
    )
    alertmanager = directory / "alertmanager.yml"
    alertmanager.write_text(yaml.safe_dump(routes))
    return prometheus, alertmanager


def with_templates(program: Path) -> tuple[str, ...]:
    """Return the command line of Alertmanager, which reads /usr/share/prometheus as it starts.

    Its package is unpacked, not installed: it sees that directory in a mount namespace of its own.
    """
    share = program.with_suffix(".share")
    if not share.exists():  # it is installed
        return (str(program),)
    overlay = f"mount -t overlay overlay -o lowerdir={share}:/usr/share /usr/share"
    script = f'{overlay} && exec "$0" "$@"'
    return ("unshare", "--map-root-user", "--mount", "sh", "-c", script, str(program))


def asked(query: str) -> float:
    """Return what Prometheus answers to a query of one number."""
    url = f"http://{PROMETHEUS}/api/v1/query?" + urllib.parse.urlencode({"query": query})
    with urllib.request.urlopen(url, timeout=30) as answer:
        result = json.load(answer)["data"]["result"]
    return float(result[0]["value"][1]) if result else math.nan


def judged(hosts: Sequence[Host], webhook: Webhook, stopped_at: float, end: float) -> list[str]:
    """Return what is wrong with what was notified."""
    wrong = []
    notified = webhook.notified()
    for host in hosts:
        episodes = host.episodes(min(stopped_at, end) if host.stopped else end)
        critical = {
            dict(each)["alert"] for each in episodes if dict(each)["severity"] == "critical"
        }
        for identity, spans in episodes.items():
            labels = dict(identity)
            statuses = [each[1] for each in notified.pop((host.instance, identity), ())]
            due = [each for each in spans if each[1] - each[0] >= SHORT_SECONDS]
            due = [each for each in due if each[0] < end - SETTLED_SECONDS]
            inhibited = labels["severity"] == "warning" and labels["alert"] in critical
            expected = [status for _ in due for status in ("firing", "resolved")]
            if due and (host.stopped or due[-1][1] > end - SETTLED_SECONDS):
                expected.pop()
                if not host.stopped:  # it may have been resolved just now
                    statuses = statuses[: len(expected)]
            if statuses != expected and not (inhibited or len(spans) > len(due)):
                wrong.append(f"{host.instance}: {labels}: expected {expected}, got {statuses}")
        down = frozenset({("alert", "IowardenDown"), ("severity", "critical")})
        statuses = [each[1] for each in notified.pop((host.instance, down), ())]
        if statuses != (["firing"] if host.stopped else []):
            wrong.append(f"{host.instance}: down: got {statuses}")
    wrong += [f"{key[0]}: {dict(key[1])}: not served, got {each}" for key, each in notified.items()]
    return wrong


def main() -> int:
    """Play the fleet and print what came of it."""
    parser = argparse.ArgumentParser(description="A fleet before Prometheus and Alertmanager.")
    parser.add_argument("--hosts", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=30.0)
    arguments = parser.parse_args()
    end = arguments.minutes * 60
    hosts = fleet(arguments.hosts, end)
    webhook = Webhook()
    webhook.listen()
    with contextlib.ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fleet-")))
        prometheus_file, alertmanager_file = configured(directory, hosts)
        began = time.time()
        answering = [host for host in hosts if not host.stopped]
        groups = [answering] + [[host] for host in hosts if host.stopped]
        served = [multiprocessing.Process(target=serve, args=(each, began)) for each in groups]
        for process in served:
            process.start()
            stack.callback(process.kill)
        alertmanager = Engine(
            *with_templates(TOOLS / "prometheus-alertmanager"),
            f"--config.file={alertmanager_file}",
            f"--storage.path={directory / 'alertmanager'}",
            f"--web.listen-address={ALERTMANAGER}",
            "--cluster.listen-address=",
            log=directory / "alertmanager.log",
        )
        stack.callback(alertmanager.stop)
        prometheus = Engine(
            str(TOOLS / "prometheus"),
            f"--config.file={prometheus_file}",
            f"--storage.tsdb.path={directory / 'prometheus'}",
            f"--web.listen-address={PROMETHEUS}",
            log=directory / "prometheus.log",
        )
        stack.callback(prometheus.stop)
        stopped_at = end * 0.35

        def stop() -> None:
            for process in served[1:]:
                os.kill(process.pid or 0, signal.SIGSTOP)

        for at, act in (
            (stopped_at, stop),
            (end * 0.45, prometheus.restart),
            (end * 0.55, alertmanager.restart),
            (end, lambda: None),
        ):
            time.sleep(max(0.0, began + at - time.time()))
            act()
        wrong = judged(hosts, webhook, stopped_at, end)
        failures = asked("sum(prometheus_rule_evaluation_failures_total)")
        if failures != 0:
            wrong.append(f"rule evaluations: expected no failure, got {failures}")
        for text in wrong:
            print(text)
        count = len(hosts)
        sick = sum(host.pages != () for host in hosts)
        alerts_seen = len(webhook.notified())
        grouped = sum(path != "/each" for _, path, _ in webhook.received)
        print(f"{count} hosts, {sick} sick once, {STOPPED} stopped; {arguments.minutes:.0f} min")
        print(f"notifications: {alerts_seen} alerts; by the shipped routes {grouped} messages")
        series = asked("prometheus_tsdb_head_series") / count
        samples = asked('avg(scrape_samples_scraped{job="iowarden"})')
        size = sum(len(host.healthy.text) for host in hosts) / count
        print(
            f"a host: {samples:.0f} samples and {size / 1000:.0f} kB a scrape, {series:.0f} series"
        )
        for name, engine in (("Prometheus", prometheus), ("Alertmanager", alertmanager)):
            cpu, memory = engine.cpu_seconds() / end, engine.memory_mb()
            print(f"{name}: {cpu * 1000:.1f} ms of processor time a second, {memory:.0f} MB")
        if wrong:
            kept = Path(tempfile.mkdtemp(prefix="fleet-"))
            (kept / "notifications.json").write_text(json.dumps(webhook.received))
            for log in directory.glob("*.log"):
                shutil.copy(log, kept)
            print(f"{len(wrong)} wrong; notifications and logs are in {kept}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
