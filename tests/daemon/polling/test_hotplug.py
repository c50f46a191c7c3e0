"""Lost uevents: the changes that they announced are found by polling."""

from __future__ import annotations

import dataclasses
import queue
import threading
from typing import TYPE_CHECKING

from support.smtp import DEADLINE_SECONDS

from iowarden.collectors import registry
from iowarden.collectors.block.uevents import UeventBatch
from iowarden.collectors.machine import Machine
from iowarden.daemon import journal
from iowarden.daemon.clock import SystemClock
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.http.exposition import Exposition
from iowarden.daemon.notify.maildir import MaildirSettings
from iowarden.daemon.notify.sender import mail_sender
from iowarden.daemon.polling import pollers
from iowarden.daemon.polling.scheduler import SourceScheduler
from iowarden.daemon.service.messages import Stop
from iowarden.daemon.service.service import Dependencies, Service
from iowarden.daemon.storage.state_db import StateDatabase
from iowarden.rules.engine.engine import Engine

if TYPE_CHECKING:
    from pathlib import Path


def test_lost_announcements_have_the_devices_listed_anew(tmp_path: Path) -> None:
    """The kernel's queue overflowed: '/sys/block' is polled now, not when its 60 s are over."""
    (tmp_path / "root/sys/block").mkdir(parents=True)
    listed: queue.SimpleQueue[str] = queue.SimpleQueue()

    def seen(path: str, _: bytes) -> None:
        if path == "/sys/block/":
            listed.put(path)

    block = next(source for source in registry.SOURCES if source.name == "block")
    settings = parse_config(f"state_directory: {tmp_path}\n", "test")
    events: queue.SimpleQueue[object] = queue.SimpleQueue()
    clock = SystemClock()
    readers = SourceScheduler(
        [dataclasses.replace(block, may_hang=False)],
        settings.interval_seconds,
        lambda: Machine(str(tmp_path / "root"), seen=seen),
        clock.now,
        events.put,
    )
    service = Service(
        Dependencies(
            config=settings,
            clock=clock,
            engine=Engine([], readers.sources, clock.now()),
            readers=readers,
            pollers=pollers.make(settings.smart, clock),
            events=events,
            log=journal.Log(level="error"),
            state=StateDatabase(str(tmp_path / "state.db"), events.put),
            sender=mail_sender(events.put, MaildirSettings(str(tmp_path / "Maildir"))),
            exposition=Exposition(print),
            notify=lambda _: None,
        )
    )
    thread = threading.Thread(target=service.run, args=(None,), daemon=True)
    thread.start()
    listed.get(timeout=DEADLINE_SECONDS)
    events.put(UeventBatch((), "No buffer space available"))
    listed.get(timeout=DEADLINE_SECONDS)
    events.put(Stop("the end of the test"))
    thread.join(DEADLINE_SECONDS)
    assert not thread.is_alive()
