"""The program's mail path in a process of its own: real state, outbox and sender, no judgement.

Reads a case a line (JSON), forks, runs a life of the program in the child, and answers with what
became of it. The fork spares each life the imports.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import queue
import signal
import sys
import threading

from iowarden.daemon.notify.attempt import OutboundMail, SendResult
from iowarden.daemon.notify.outbox import Outbox
from iowarden.daemon.notify.sender import mail_sender
from iowarden.daemon.notify.smtp import MailSettings
from iowarden.daemon.storage.state_db import (
    Committed,
    OutboxRow,
    StateChanges,
    StateDatabase,
    StateLoaded,
)
from iowarden.rules.severity import Severity

DEADLINE_SECONDS = 60
"""Far above anything measured: it ends a life that would hang, and judges nothing."""
NOW = 1795266034.0
GONE = "gone@example.com"
"""A recipient whom the server refuses for good."""


def mail(incident: str, number: int, severity: Severity, *others: str, age: float = 0) -> OutboxRow:
    """Return a mail as it was rendered."""
    name = f"<iowarden.{incident}.{number}@db1>"
    return OutboxRow(
        message_id=name,
        incident=incident,
        number=number,
        severity=severity,
        created_realtime_seconds=NOW - age,
        recipients_pending=("root@example.com", *others),
        data=f"Subject: {incident}\r\nMessage-ID: {name}\r\n\r\ntext\r\n".encode(),
    )


OLD = (
    mail("old-a", 1, Severity.WARNING, age=7200),
    mail("old-b", 1, Severity.CRITICAL, age=3700),
)
"""What waits from an outage: together a digest."""
NEWCOMER = mail("newcomer", 1, Severity.WARNING)
STEPS = (
    (mail("c", 1, Severity.WARNING), mail("d", 1, Severity.CRITICAL, GONE)),
    (),
)
"""Changes of alerts: each is a document in two copies, and these mails go with it."""


class Life:
    """One run of the program, from its start to its end."""

    def __init__(self, path: str, port: int) -> None:
        """Start its threads."""
        self.events: queue.SimpleQueue[object] = queue.SimpleQueue()
        self.state = StateDatabase(path, self.events.put, retry_seconds=3600.0)
        settings = MailSettings(
            "127.0.0.1", port, "opportunistic", None, None, "iowarden@db1", DEADLINE_SECONDS, "db1"
        )
        self.sender = mail_sender(self.events.put, settings)
        self.outbox = Outbox()
        self.asked = self.answered = self.version = 0
        self.sending = self.heard = self.restored = False

    def run(self, newcomer: bool) -> str:
        """Do what is left to do; return '' if all is durable at the end."""
        self.state.load()
        while not self.heard:
            self.take()
        if newcomer:
            self.commit((NEWCOMER,))
            self.settle(sending=False)
        self.settle()
        while self.version < len(STEPS):
            self.version += 1
            self.commit(STEPS[self.version - 1])
            self.settle()
        self.state.retry()  # as each commit would do
        self.sender.close(DEADLINE_SECONDS)
        return "" if self.state.close(DEADLINE_SECONDS) else "not all is durable"

    def commit(self, rows: tuple[OutboxRow, ...] = ()) -> None:
        """Write down the alerts, and the mails that go with them."""
        self.asked += 1
        written = [w for row in rows for w in self.outbox.add(row, NOW, self.asked)]
        text = str(self.version)
        put = {"alerts": text, "incidents": text} if self.restored else {}
        self.state.commit(StateChanges(self.asked, put=put, add=tuple(written)))

    def settle(self, *, sending: bool = True) -> None:
        """Go on until nothing is under way."""
        while True:
            if sending and not self.sending:
                self.send()
            if not self.sending and self.answered >= self.asked:
                return
            self.take()

    def send(self) -> None:
        """Begin an attempt, if a mail is due."""
        batch = self.outbox.begin(NOW, self.asked + 1)
        if batch is not None:
            self.asked += 1
            self.state.commit(batch)
        row = self.outbox.next(NOW)
        if row is not None:
            self.sending = True
            self.sender.submit(OutboundMail(row.message_id, row.recipients_pending, row.data))

    def take(self) -> None:
        """Take note of an answer."""
        match self.events.get(timeout=DEADLINE_SECONDS):
            case StateLoaded() as loaded:
                self.heard = True
                if loaded.readable:
                    self.outbox.restore(loaded.outbox, NOW)
                    late, self.restored = self.version > 0, True
                    self.version = max(self.version, int(loaded.documents.get("alerts", "0")))
                    if late:
                        self.commit()
            case Committed() as committed:
                self.answered = max(self.answered, committed.sequence)
                self.outbox.committed(committed)
            case SendResult() as result:
                self.sending = False
                self.asked += 1
                batch, _ = self.outbox.sent(result, NOW, self.asked)
                self.state.commit(batch)


def live(case: dict[str, object], answers: int) -> None:
    """Run a life in this process; say how it ended."""
    signal.alarm(DEADLINE_SECONDS)
    path, port, newcomer = str(case["path"]), case["port"], bool(case["newcomer"])
    assert isinstance(port, int)
    os.write(answers, Life(path, port).run(newcomer).encode())


def main() -> None:
    """Answer a line of JSON for each."""
    for line in sys.stdin:
        case = json.loads(line)
        incoming, outgoing = os.pipe()
        child = os.fork()
        if child == 0:
            below = os.path.dirname(case["path"]).encode()
            faults.faults_set(below, case["at"], case["error"], case["for_good"])
            status = 1
            try:
                live(case, outgoing)
                os.write(outgoing, f"|{faults.faults_count()}".encode())
                status = 0
            finally:
                os._exit(status)
        os.close(outgoing)
        with open(incoming, "rb") as said:
            text = said.read().decode()
        _, status = os.waitpid(child, 0)
        print(json.dumps([os.waitstatus_to_exitcode(status), text]), flush=True)


if __name__ == "__main__":
    assert threading.active_count() == 1
    faults = ctypes.CDLL(None)
    gc.freeze()  # a collection would copy what all lives share
    main()
