"""The page of the whole service: loop, HTTP server, configuration; no part is replaced."""

from __future__ import annotations

import http.client
import threading
from typing import TYPE_CHECKING

from support.program import Feed, Played, recorded

if TYPE_CHECKING:
    from pathlib import Path

DEADLINE_SECONDS = 60.0


def get(program: Played, path: str) -> tuple[int, str]:
    """Request a page while the loop turns."""
    found: list[tuple[int, str]] = []

    def request() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", program.port, DEADLINE_SECONDS)
        connection.request("GET", path)
        answer = connection.getresponse()
        found.append((answer.status, answer.read().decode()))
        connection.close()

    reader = threading.Thread(target=request)
    reader.start()
    program.until(lambda: not reader.is_alive(), f"the page {path}")
    reader.join()
    return found[0]


def test_the_service_serves_its_page_and_that_of_an_incident(tmp_path: Path) -> None:
    """A write stall: the overview links to the incident; anonymous readers see its figures."""
    feed = Feed(recorded("write-stall"), tmp_path / "feed")
    program = Played(tmp_path, feed)
    program.http = True
    program.start()
    try:
        feed.give()
        program.caught_up()
        status, page = get(program, "/")
        assert status == 200
        assert "writes stalled" in page
        target = page.partition('href="/incident/')[2].partition('"')[0]
        status, page = get(program, f"/incident/{target}")
        assert status == 200
        assert "unwritten data queued" in page
        assert get(program, "/drive/none")[0] == 404
    finally:
        program.close()
