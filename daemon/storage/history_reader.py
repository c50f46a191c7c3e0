"""Reads history.db for commands, in a thread that may hang."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

from iowarden.daemon.control import documents
from iowarden.daemon.storage import history_db, sqlite
from iowarden.daemon.storage.patient_reader import PATIENCE_SECONDS, PatientReader

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_T = TypeVar("_T")


class HistoryReader:
    """Answers commands from a file, one at a time: on a disk that hangs, only one thread waits."""

    def __init__(self, path: str, patience_seconds: float = PATIENCE_SECONDS) -> None:
        """`path` is the file, which need not exist yet."""
        self._path = path
        self._reader = PatientReader("history.db", "past", patience_seconds)

    def read_first(
        self, disk: str, names: Sequence[str], reply: Callable[[dict[str, object]], object]
    ) -> None:
        """Read the first of these names that has stored values; never waits.

        `disk` may be the beginning of an identity. Errors: ValueError while another read is in
        progress.
        """
        if not self._reader.busy.acquire(blocking=False):
            raise ValueError(self._reader.busy_text)

        def run() -> None:
            try:
                answer = self._answer(disk, names)
            except FileNotFoundError:
                why = "no history yet; the first values are stored within minutes"
                answer = {"error": f"'{self._path}': {why}"}
            except (ValueError, *sqlite.FAULTS) as error:
                answer = {"error": f"history.db: {error}"}
            finally:
                self._reader.busy.release()
            reply(answer)

        threading.Thread(target=run, name="past", daemon=True).start()

    def prefetch(
        self, read: Callable[[str], list[_T]], then: Callable[[list[_T], str], object]
    ) -> None:
        """Read the file for a reply that is useful without it; `then`: see PatientReader.read."""
        self._reader.read(lambda: read(self._path), then)

    def _answer(self, disk: str, names: Sequence[str]) -> dict[str, object]:
        """Return the reply. Errors: ValueError, sqlite.FAULTS."""
        known = history_db.identities(self._path)
        begin = [each for each in known if each.lower().startswith(disk.lower())]
        matches = [disk] if disk in known else begin
        if len(matches) != 1:
            what = (
                f"'{disk:.100}' begins {', '.join(matches[:24])}: write more of it"
                if matches
                else f"disk '{disk:.100}' has never been polled; see 'iowarden disk list'"
            )
            raise ValueError(what)
        (identity,) = matches
        for name in names:
            if samples := history_db.read(self._path, identity, name):
                return {"answer": documents.DiskHistory(identity, name, tuple(samples))}
        raise ValueError(
            f"'{identity}': no history of '{names[0]}';"
            " 'iowarden disk show' shows the current SMART data"
        )
