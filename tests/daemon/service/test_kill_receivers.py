"""Kill -9 at any step while receivers hang and flap: nothing is lost, a repeat has the same id."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from support.alertmanager import Alertmanager, alertmanager
from support.http_receiver import Answer, Request, Server, server
from support.lives import DEADLINE_SECONDS, Life
from support.stories import Story, kernel_story

from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.notify.channel import MessageReceiver
from iowarden.daemon.notify.delivery import Receivers
from iowarden.daemon.receivers import http_sender
from iowarden.daemon.receivers.alertmanager import AlertmanagerReceiver
from iowarden.daemon.receivers.message import DocumentFormat

if TYPE_CHECKING:
    from pathlib import Path

    from iowarden.collectors.recording.recording import RecordingStep
    from iowarden.daemon.config.receivers import ReceiverConfig
    from iowarden.daemon.config.schema import Config
    from iowarden.daemon.notify.attempt import OutboundMail

MAX_STEPS = 500
"""Far above anything counted: it ends a sweep that would not end."""


class Sender:
    """Hands messages to a real server, one step before and one after each."""

    def __init__(self, life: Life, config: ReceiverConfig) -> None:
        self.working_since: float | None = None
        self._life = life
        self._config = config
        self._client = http_sender.client(config, config.urls[0])

    def submit(self, mail: OutboundMail) -> None:
        """Make an attempt at once."""
        self._life.step()
        result = http_sender.deliver(self._config, self._client, mail)
        self._life.step()
        self._life.post(result)

    def close(self, timeout_seconds: float) -> bool:
        """Return True: nothing is left."""
        return timeout_seconds >= 0


def senders(life: Life, config: Config) -> Receivers:
    """Return the receivers of a life."""
    return Receivers(
        {
            each.name: MessageReceiver(DocumentFormat(each.name), Sender(life, each), "")
            for each in config.notify
        },
        {},
    )


def settings(tmp_path: Path, port: int) -> Config:
    """Return a configuration with mail and two receivers at one server."""
    return parse_config(
        f"host: db1.example.com\nstate_directory: {tmp_path / 'state'}\n"
        "mail: {to: ops@example.com}\n"
        "notify:\n"
        f"  - {{name: steady, type: webhook, url: 'http://localhost:{port}/steady'}}\n"
        f"  - {{name: flapping, type: webhook, url: 'http://localhost:{port}/flapping'}}\n",
        "iowarden.yaml",
    )


class Flapping:
    """Every request at '/flapping' but each third one fails, some after it was accepted."""

    def __init__(self, answers: Server) -> None:
        self.taken: dict[str, list[dict[str, Any]]] = {"/steady": [], "/flapping": []}
        self.requests = 0
        answers.answer = self.answer

    def answer(self, request: Request) -> Answer:
        """Accept or fail."""
        self.requests += 1
        fails = request.path == "/flapping" and self.requests % 3
        if not fails or self.requests % 3 == 2:  # 504: the server behind a gateway has it
            self.taken[request.path].append(json.loads(request.body))
        return Answer(503 if self.requests % 3 == 1 else 504) if fails else Answer()


@pytest.mark.parametrize(
    "every", [pytest.param(1, marks=pytest.mark.system, id="each"), pytest.param(19, id="some")]
)
def test_a_kill_at_any_step_loses_no_message_of_any_receiver(tmp_path: Path, every: int) -> None:
    """Before and after each write, mail and request; the next start sends the rest."""
    story = kernel_story(tmp_path, (123456,), ring=True)
    directory, base = tmp_path / "state", tmp_path / "base"
    with server() as answers:
        config = settings(tmp_path, answers.port)
        directory.mkdir()
        mails: list[bytes] = []
        server_side = Flapping(answers)
        assert not Life(config, mails, receivers_for=senders).play(story.before)
        directory.rename(base)
        for at in range(1, MAX_STEPS, every):
            shutil.copytree(base, directory)
            server_side = Flapping(answers)
            killed = Life(config, mails, kill_at=at, receivers_for=senders).play(story.during)
            assert not Life(config, mails, receivers_for=senders).play(story.after)
            judge(server_side, story, at)
            shutil.rmtree(directory)
            if not killed:
                assert at > 5, "there is nothing to be killed in"
                return
    pytest.fail("the sweep does not end")


def judge(server_side: Flapping, story: Story, at: int) -> None:
    """Check that each receiver has the incident, and that repeats are the same."""
    for path, taken in server_side.taken.items():
        told = any(story.words in json.dumps(each) for each in taken)
        assert told, f"killed at step {at}: {path}: lost"
        by_id: dict[str, set[str]] = {}
        for each in taken:
            by_id.setdefault(each["id"], set()).add(json.dumps(each))
        assert all(len(same) == 1 for same in by_id.values()), f"killed at step {at}: {path}"
    counts = Counter(each["id"] for each in server_side.taken["/steady"])
    assert sum(counts.values()) - len(counts) <= 1, f"killed at step {at}: it came again"


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
        for _ in range(20):
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
