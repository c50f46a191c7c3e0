"""Who was notified, over random faults, returns, restarts and kills: nothing is lost, none twice.

Two disks cannot read, at random; the array loses a member and has it back; mail and a webhook
refuse at random. Each life of the program ends by a kill at a random step, or by itself.
"""

from __future__ import annotations

import email
import email.policy
import json
import os
import random
from typing import TYPE_CHECKING

import pytest
from support import ledger
from support.areca import BOOT
from support.kmsg import Kernel, medium_error
from support.live import Live
from support.lives import Life

from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.notify.attempt import OutboundMail, SendResult
from iowarden.daemon.notify.channel import MessageReceiver
from iowarden.daemon.notify.delivery import Receivers
from iowarden.daemon.notify.retry import Fault, Scope
from iowarden.daemon.receivers.message import document_format
from iowarden.daemon.storage.notifications import NotificationStatus
from iowarden.daemon.storage.state_db import MAIL
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from pathlib import Path

    from iowarden.collectors.recording.recording import RecordingStep
    from iowarden.daemon.config.schema import Config

KILLS = int(os.environ.get("KILLS", "40"))
"""In the second tier; in full by hand: KILLS=500 python -m pytest --system, and this file."""
LIVES = 6
"""Of one machine; in the last one all servers accept, and nobody kills it."""
LATEST_SECONDS = 300.0
"""News of an incident are in a row by then."""
HOOK = "ops"
REFUSED = SendResult("", error="554 5.7.1 no", scope=Scope.MESSAGE, fault=Fault.REFUSED)
UNANSWERED = SendResult("", error="no reply", scope=Scope.MESSAGE, fault=Fault.UNANSWERED)


class Receiver:
    """A server that refuses at random, and what it took: by ID, each text that came under it."""

    def __init__(self, name: str, chosen: random.Random) -> None:
        self.name = name
        self.servers: tuple[str, ...] = (name,)
        self.connections, self.hung_seconds = 1, 90.0
        self.working_since: float | None = None
        self.taken: dict[str, set[bytes]] = {}
        self.accepts = False
        self.life: Life
        self._chosen = chosen

    def submit(self, mail: OutboundMail) -> None:
        """Make an attempt at once."""
        self.life.step()
        luck = 1.0 if self.accepts else self._chosen.random()
        if luck > 0.2:
            self.taken.setdefault(mail.message_id, set()).add(mail.data)
        self.life.step()
        result = SendResult(mail.message_id, mail.recipients, receiver=self.name)
        if luck <= 0.5:
            failure = REFUSED if luck <= 0.2 else UNANSWERED
            result = SendResult(
                mail.message_id,
                error=failure.error,
                scope=failure.scope,
                fault=failure.fault,
                receiver=self.name,
            )
        self.life.post(result)

    def close(self, timeout_seconds: float) -> bool:
        """Return True: nothing is left."""
        return timeout_seconds >= 0

    def incidents(self) -> set[str]:
        """Return the incidents that it knows of."""
        names: set[str] = set()
        for data in (text for texts in self.taken.values() for text in texts):
            if self.name == MAIL:
                parts = email.message_from_bytes(data, policy=email.policy.default).walk()
                names |= {str(part["X-Iowarden-Incident"]) for part in parts}
            else:
                document = json.loads(data)
                names |= {each["incident"] for each in (document, *document["messages"])}
        return names


def recorded(tmp_path: Path, chosen: random.Random) -> list[list[RecordingStep]]:
    """Return a recording for each life of one machine on which faults begin and end at random."""
    live = Live(tmp_path)
    live.change(dict(BOOT))
    kernel = Kernel(live)
    kernel.says("sd 0:0:0:0: [sda] Attached SCSI disk", priority=6)
    live.wait(400)
    recordings = [live.steps]
    missing = 0
    for number in range(1, LIVES):
        live.restarted()
        live.wait(12)
        for _ in range(chosen.randint(0, 3)):
            if chosen.random() < 0.5:
                kernel.says(*(medium_error(chosen.randint(1, 9999) * 8) for _ in range(3)))
            else:
                missing = 1 - missing
                live.degrade(missing)
            live.wait(chosen.choice((4, 40, 80)))
        live.wait(80 if number < LIVES - 1 else 2400)
        recordings.append(live.steps)
    return recordings


def play(tmp_path: Path, seed: int) -> int:
    """Play the lives of a machine; return how many were killed."""
    chosen = random.Random(seed)
    directory = tmp_path / f"{seed}"
    (directory / "state").mkdir(parents=True)
    config = parse_config(
        f"host: db1\nstate_directory: {directory / 'state'}\nmail: {{to: ops@example.com}}\n"
        f"notify: [{{name: {HOOK}, type: webhook, url: 'http://localhost:1/'}}]\n",
        "iowarden.yaml",
    )
    receivers = {name: Receiver(name, chosen) for name in (MAIL, HOOK)}
    kills = 0
    recordings = recorded(directory, chosen)
    for number, steps in enumerate(recordings):
        is_last = number == len(recordings) - 1
        for each in receivers.values():
            each.accepts = is_last or not number
        kill_at = 0 if is_last or not number else chosen.randint(1, 60)
        life = LifeOf(config, receivers, kill_at)
        kills += life.play(steps)
        check(life, directory / "state" / "state.db", receivers, f"seed {seed}, life {number}")
    for entry in ledger.stored(directory / "state" / "state.db").values():
        # What had no reply is repeated after hours.
        assert entry.status in {NotificationStatus.ACCEPTED, NotificationStatus.MAYBE}, seed
        assert entry.incident in receivers[entry.receiver].incidents(), f"seed {seed}: lost"
    return kills


class LifeOf(Life):
    """A life whose mail server is one of our receivers."""

    def __init__(self, config: Config, receivers: dict[str, Receiver], kill_at: int) -> None:
        super().__init__(config, [], kill_at=kill_at, receivers_for=self._others)
        self._receivers = receivers
        for each in receivers.values():
            each.life = self

    def take(self, mail: OutboundMail) -> None:
        """Hand a mail to our server."""
        self._receivers[MAIL].submit(mail)

    def _others(self, _: Life, __: Config) -> Receivers:
        hook = MessageReceiver(document_format(HOOK), self._receivers[HOOK], "")
        return Receivers({HOOK: hook}, {})


def check(life: Life, path: Path, receivers: dict[str, Receiver], where: str) -> None:
    """Check the invariants of the ledger at the end of a life."""
    assert ledger.contradictions(path) == [], where
    for name, each in receivers.items():
        assert all(len(texts) == 1 for texts in each.taken.values()), f"{where}: {name}: same ID"
        known = each.incidents()
        for (incident, _, receiver), entry in ledger.stored(path).items():
            if receiver == name and entry.status is NotificationStatus.ACCEPTED:
                assert incident in known, f"{where}: {name} never had {incident}"
    tracker = life.service._tracker
    now = life.clock.now()
    for incident in tracker.incidents.by_key.values():
        if incident.firing and now - incident.opened_seconds > LATEST_SECONDS:
            assert incident.mails, f"{where}: {incident.object}: not mailed"
        if incident.mails and incident.severity >= Severity.WARNING:
            entries = list(tracker.mails.ledger.of(incident.reports))
            assert entries, f"{where}: {incident.object}: in no row"


@pytest.mark.parametrize(
    "kills", [pytest.param(KILLS, marks=pytest.mark.system, id="many"), pytest.param(2, id="some")]
)
def test_over_random_faults_restarts_and_kills_the_ledger_is_true(
    tmp_path: Path, kills: int
) -> None:
    """After each life: what waits is in a row, what is accepted arrived; in the end all arrived."""
    done, seed = 0, 0
    while done < kills:
        seed += 1
        done += play(tmp_path, seed)
