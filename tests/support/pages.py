"""The status page of a machine that a recording or a test describes: documents, HTML, a server."""

from __future__ import annotations

import dataclasses
import queue
from typing import TYPE_CHECKING

from support.lives import _events, _Frames, _Log, _rules

from iowarden.collectors.recording.player import RecordedMachine
from iowarden.daemon.clock import PlayedClock
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.http import page_access
from iowarden.daemon.http.exposition import Exposition
from iowarden.daemon.http.http_server import App, HttpServer
from iowarden.daemon.http.page_access import PageAccess
from iowarden.daemon.page import style
from iowarden.daemon.page.pages import Rendered, StatusPages
from iowarden.daemon.polling import pollers
from iowarden.daemon.polling.scheduler import SourceScheduler
from iowarden.daemon.replay.replay import _NullStateDatabase, _Sender
from iowarden.daemon.service.service import Dependencies, Service
from iowarden.rules.engine.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from iowarden.collectors.recording.recording import RecordingStep
    from iowarden.daemon.config.schema import Address
    from iowarden.daemon.page.builder import PageRequest

PAGE_SIZE_BYTES = 4096
HOST = "db1.example.com"


class PlayedService:
    """The whole service after a recording; its loop stands still, and answers for the page."""

    def __init__(
        self, steps: Sequence[RecordingStep], directory: Path, *, full: bool, settings: str = ""
    ) -> None:
        """Play the steps to their end; `directory` is where history.db would be."""
        config = parse_config(
            f"host: {HOST}\nstate_directory: {directory}\n"
            f"mail: {{to: root@mail.example.com}}\n{settings}",
            "test",
        )
        self.clock, root = PlayedClock(), RecordedMachine(PAGE_SIZE_BYTES)
        events: queue.SimpleQueue[object] = queue.SimpleQueue()
        asked = pollers.make(config.smart, self.clock)
        sources = [dataclasses.replace(s, may_hang=False) for s in asked.sources()]
        readers = SourceScheduler(
            sources, config.interval_seconds, lambda: root, self.clock.now, events.put
        )
        self.engine = Engine(_rules(), readers.sources, self.clock.now())
        self.log: list[str] = []
        self.exposition = Exposition(self.log.append)
        self.service = Service(
            Dependencies(
                config=config,
                clock=self.clock,
                engine=self.engine,
                readers=readers,
                events=events,
                log=_Log(self.log),
                state=_NullStateDatabase(events.put),
                sender=_Sender(lambda: 0.0, events.put),
                exposition=self.exposition,
                notify=lambda _: None,
                player=_Frames(steps, root, readers, events.put),
                pollers=asked,
                table=_events(),
                make_usage_machine=root.another,
                version="1.2.3",
            )
        )
        self.service.run(None)
        self.pages = StatusPages(
            self.answer, str(directory / "history.db"), HOST, "1.2.3", full=full
        )

    def answer(self, request: PageRequest) -> None:
        """Answer as the loop does."""
        self.service._handle(request, self.clock.now())

    def get(self, path: str = "/") -> Rendered:
        """Return a page."""
        found = self.pages.get(path)
        assert found is not None
        return found

    def incidents(self) -> list[str]:
        """Return the identifiers of the incidents."""
        return [i.identifier for i in self.service._tracker.incidents.by_key.values()]

    def server(self, address: Address = ("127.0.0.1", 0)) -> HttpServer:
        """Return a server of the page that is not started."""

        def get(path: str) -> tuple[int, bytes] | None:
            found = self.pages.get(path)
            return None if found is None else (found.status, found.html)

        access = PageAccess(get, style.POLICY, page_access.names(HOST))
        app = App("1.2.3", self.exposition.render, str, str, str, pages=access)
        return HttpServer((address,), app, parse_config("", "none").http, self.log.append)
