"""Kill -9 at any step while receivers hang and flap: nothing is lost, a repeat has the same id."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from support import ledger
from support.alertmanager import Alertmanager, alertmanager
from support.http_receiver import Answer, Request, Server, raw, server
from support.lives import DEADLINE_SECONDS, Life
from support.stories import Story, kernel_story

from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.notify.channel import MessageReceiver
from iowarden.daemon.notify.delivery import Receivers
from iowarden.daemon.receivers import http_sender
from iowarden.daemon.receivers.alertmanager import AlertmanagerReceiver
from iowarden.daemon.receivers.http_client import ATTEMPT_SECONDS
from iowarden.daemon.receivers.message import document_format
from iowarden.daemon.storage.notifications import NotificationStatus

if TYPE_CHECKING:
    import socket
    import threading
    from pathlib import Path

    from iowarden.collectors.recording.recording import RecordingStep
    from iowarden.daemon.config.receivers import ReceiverConfig
    from iowarden.daemon.config.schema import Config
    from iowarden.daemon.notify.attempt import OutboundMail

WEBHOOKS = ("steady", "flapping", "hung")
KILLS = int(os.environ.get("KILLS", "40"))
"""In the second tier; each next one is a step later, from the first again after the last.

500 take six minutes of CPU: KILLS=500 python -m pytest --system, and this file.
"""
HOURS = 2
"""At most, until nothing waits: attempts without a reply are an hour apart from the third on."""
MAX_STEPS = 500
"""Far above anything counted: it ends a sweep that would not end."""
HUNG_SECONDS = 0.05
"""How long an attempt waits for the server that hangs; it is known before that it does."""

PARTS = {
    "reads nothing": b"",
    "never answers": b"",
    "stops in its headers": b"HTTP/1.1 200 OK\r\nContent-Le",
    "ends its headers, and no body": b"HTTP/1.1 503 Busy\r\nContent-Length: 9\r\n\r\n",
    "stops in the body": b"HTTP/1.1 503 Busy\r\nContent-Length: 9\r\n\r\nhalf",
}
"""What a server sends before it hangs, by what it does."""


class Sender:
    """Hands messages to a real server, one step before and one after each.

    An attempt that hangs ends after as much of the recording as it would have lasted.
    """

    def __init__(self, life: Life, config: ReceiverConfig, hanging: Hanging) -> None:
        self.working_since: float | None = None
        self.servers = (config.name,)
        self.connections = 1
        self.hung_seconds = 90.0
        self._life = life
        self._config = config
        self._hanging = hanging

    def submit(self, mail: OutboundMail) -> None:
        """Make an attempt at once."""
        hangs = self._config.name == "hung" and self._hanging.hangs()
        seconds = HUNG_SECONDS if hangs else ATTEMPT_SECONDS
        client = http_sender.client(self._config, self._config.urls[0], attempt_seconds=seconds)
        self._life.step()
        result = http_sender.deliver(self._config, client, mail)
        self._life.step()
        self._life.post(result, ATTEMPT_SECONDS if hangs else 0.0)

    def close(self, timeout_seconds: float) -> bool:
        """Return True: nothing is left."""
        return timeout_seconds >= 0


def settings(tmp_path: Path, port: int, hanging: int) -> Config:
    """Return a configuration with mail and three receivers at two servers."""
    return parse_config(
        f"host: db1.example.com\nstate_directory: {tmp_path / 'state'}\n"
        "mail: {to: ops@example.com}\n"
        "notify:\n"
        f"  - {{name: steady, type: webhook, url: 'http://localhost:{port}/steady'}}\n"
        f"  - {{name: flapping, type: webhook, url: 'http://localhost:{port}/flapping'}}\n"
        f"  - {{name: hung, type: webhook, url: 'http://localhost:{hanging}/hung'}}\n",
        "iowarden.yaml",
    )


class Flapping:
    """Every request at '/flapping' but each third one fails, some after it was accepted."""

    def __init__(self, answers: Server, requests: int) -> None:
        """Begin after so many requests."""
        self.taken: dict[str, list[dict[str, Any]]] = {"/steady": [], "/flapping": []}
        self.requests = requests
        self.accepts = False
        answers.answer = self.answer

    def answer(self, request: Request) -> Answer:
        """Accept or fail."""
        self.requests += 1
        fails = request.path == "/flapping" and self.requests % 3 and not self.accepts
        if not fails or self.requests % 3 == 2:  # 504: the server behind a gateway has it
            self.taken[request.path].append(json.loads(request.body))
        return Answer(503 if self.requests % 3 == 1 else 504) if fails else Answer()


class Hanging:
    """A server that hangs in one part of an attempt after the other, and recovers."""

    def __init__(self) -> None:
        self.taken: list[dict[str, Any]] = []
        self._attempts = 0
        self._left = 0
        self._does = ""

    def begin(self, hangs: int) -> None:
        """Hang in so many attempts of a life that begins."""
        self._left = hangs

    def hangs(self) -> bool:
        """Choose what the next attempt meets; return whether that is a server that hangs."""
        self._does = [*PARTS][self._attempts % len(PARTS)] if self._left else ""
        self._left = max(self._left - 1, 0)
        self._attempts += bool(self._does)
        return bool(self._does)

    def talk(self, connection: socket.socket, over: threading.Event) -> None:
        """Serve a connection."""
        does = self._does
        if does != "reads nothing":
            with connection.makefile("rb") as stream:
                length = 0
                while line := stream.readline().strip():
                    name, _, value = line.partition(b":")
                    length = int(value) if name.lower() == b"content-length" else length
                body = stream.read(length)
            if not body or len(body) < length:  # the client gave up before
                return
            self.taken.append(json.loads(body))
        if not does:
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            return
        connection.sendall(PARTS[does])
        while not over.is_set() and connection.recv(4096):  # until the client has given up
            pass


@pytest.mark.parametrize(
    ("kills", "apart"),
    [
        pytest.param(KILLS, 1, marks=pytest.mark.system, id="many"),
        pytest.param(5, 19, id="some"),
    ],
)
def test_a_kill_at_any_step_loses_no_message_of_any_receiver(
    tmp_path: Path, kills: int, apart: int
) -> None:
    """Before and after each write, mail and request; the next starts send the rest.

    An attempt that a kill cut short counts as made. So its message is sent ten minutes or an hour
    later, when all servers accept again; until then the ledger says that it waits.
    """
    # Mails leave after a minute; then there is time for attempts that hang, 30 s each, and a retry.
    story = kernel_story(tmp_path, (123456,), ring=True, during_seconds=160, hours=HOURS)
    directory, base = tmp_path / "state", tmp_path / "base"
    hanging = Hanging()
    with server() as answers, raw(hanging.talk) as port:
        config = settings(tmp_path, answers.port, port)

        def live(steps: list[RecordingStep], kill_at: int = 0, hangs: int = 1) -> bool:
            hanging.begin(hangs)
            life = Life(
                config,
                [],
                kill_at=kill_at,
                receivers_for=lambda life, config: senders(life, config, hanging),
            )
            return life.play(steps)

        directory.mkdir()
        assert not live(story.before)
        directory.rename(base)
        done, at = 0, 1
        while done < kills:
            assert at < MAX_STEPS, "the sweep does not end"
            shutil.copytree(base, directory)
            server_side = Flapping(answers, done)
            hanging.taken.clear()
            killed = live(story.during, at, hangs=MAX_STEPS)
            assert ledger.contradictions(directory / "state.db") == [], f"killed at step {at}"
            for number, steps in enumerate([story.after, *story.later]):
                if number and not ledger.waiting(directory / "state.db"):
                    break
                server_side.accepts = number > 0
                assert not live(steps, hangs=not number)
                assert ledger.contradictions(directory / "state.db") == [], f"killed at step {at}"
            judge_ledger(directory / "state.db", at)
            judge({**server_side.taken, "/hung": hanging.taken}, story, at)
            shutil.rmtree(directory)
            done += killed
            if not killed:
                assert at > 5, "there is nothing to be killed in"
            at = at + apart if killed else 1


def senders(life: Life, config: Config, hanging: Hanging) -> Receivers:
    """Return the receivers of a life."""
    return Receivers(
        {
            each.name: MessageReceiver(document_format(each.name), Sender(life, each, hanging), "")
            for each in config.notify
        },
        {},
    )


def judge(by_path: dict[str, list[dict[str, Any]]], story: Story, at: int) -> None:
    """Check that each receiver has the incident, and that repeats are the same."""
    for path, taken in by_path.items():
        told = any(story.words in json.dumps(each) for each in taken)
        assert told, f"killed at step {at}: {path}: lost"
        by_id: dict[str, set[str]] = {}
        for each in taken:
            by_id.setdefault(each["id"], set()).add(json.dumps(each))
        assert all(len(same) == 1 for same in by_id.values()), f"killed at step {at}: {path}"
    counts = Counter(each["id"] for each in by_path["/steady"])
    assert sum(counts.values()) - len(counts) <= 1, f"killed at step {at}: it came again"


def judge_ledger(path: Path, at: int) -> None:
    """Check that each receiver accepted each state of the incident: none waits, none is missing."""
    accepted: dict[str, set[tuple[str, int]]] = {name: set() for name in ("mail", *WEBHOOKS)}
    for each in ledger.stored(path).values():
        assert each.status is NotificationStatus.ACCEPTED, f"killed at step {at}: {each}"
        if not each.incident.startswith("initial-report"):
            accepted[each.receiver].add((each.incident, each.state))
    states = accepted["mail"]
    assert states
    assert all(each == states for each in accepted.values()), f"killed at step {at}: {accepted}"


@pytest.mark.system
def test_after_each_kill_a_real_alertmanager_has_iowardens_alerts(tmp_path: Path) -> None:
    """At random steps of an incident; the receivers of a killed program end as it does."""
    story = kernel_story(tmp_path, (8, 16, 24, 32, 40), ring=True)
    directory, base = tmp_path / "state", tmp_path / "base"
    chosen = random.Random(20_261_123)
    with alertmanager(tmp_path / "am") as real:
        config = parse_config(
            f"host: db1\nstate_directory: {directory}\nmail: {{enabled: false}}\n"
            f"notify: [{{name: am, type: alertmanager, url: 'http://localhost:{real.port}'}}]\n",
            "iowarden.yaml",
        )
        directory.mkdir()
        assert not played(config, story.before)[0]
        directory.rename(base)
        seen = 0
        for _ in range(KILLS // 2):
            shutil.copytree(base, directory)
            played(config, story.during, chosen.randint(1, 60))
            _, life = played(config, story.after)
            seen += equal(real, life)
            shutil.rmtree(directory)
        assert seen, "no alert was active at the end of any life"


def played(config: Config, steps: list[RecordingStep], kill_at: int = 0) -> tuple[bool, Life]:
    """Live, and let the threads end: what is newest is sent before."""
    made: list[AlertmanagerReceiver] = []

    def receivers_for(life: Life, config: Config) -> Receivers:
        made.append(AlertmanagerReceiver(config.notify[0], config.host, config.targets, life.post))
        return Receivers({}, {"am": made[0]})

    life = Life(config, [], kill_at=kill_at, receivers_for=receivers_for)
    killed = life.play(steps)
    assert made[0].close(DEADLINE_SECONDS)
    return killed, life


def equal(real: Alertmanager, life: Life) -> int:
    """Check that an Alertmanager's active alerts are those of a program; return their number."""
    rules = life.service._engine.rules
    own = {
        (each.name, each.severity.name.lower())
        for each in (*rules.alerts(), *rules.events)
        if each.active and each.severity.name in {"WARNING", "CRITICAL"}
    }
    there = {(a["labels"]["alertname"], a["labels"]["severity"]) for a in real.active()}
    assert there == own
    return len(own)
