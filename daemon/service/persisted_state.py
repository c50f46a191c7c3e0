"""Persisted state: alerts, incidents and signal state that survive a restart. Pure.

The stored form in state.db is declared in daemon/service/stored_documents.py.
"""

from __future__ import annotations

import json
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from iowarden.collectors.dataclass import dataclass
from iowarden.daemon.json_codec import CodecError
from iowarden.daemon.notify.routes import RouteState
from iowarden.daemon.service import stored_documents
from iowarden.daemon.service.event_pipeline import Cursors
from iowarden.daemon.service.stored_documents import SCHEMA, DocumentReader
from iowarden.daemon.storage.state_db import version_of, versioned
from iowarden.rules.events.event_state import CorrelationState
from iowarden.rules.incidents import silences
from iowarden.rules.incidents.incidents import unwatched
from iowarden.rules.incidents.model import Incident, Incidents
from iowarden.rules.incidents.silences import Silences
from iowarden.rules.notices import digest
from iowarden.rules.notices.digest import Digest
from iowarden.rules.signals.table import PersistentSignals
from iowarden.rules.topology.device_changes import Devices
from iowarden.rules.topology.topology import StoredDependents

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from iowarden.daemon.locate.affected_files import SectorLookup
    from iowarden.daemon.probe.protocol import Stuck
    from iowarden.daemon.service.stored_documents import Schema
    from iowarden.rules.alerting.alerts import Alert
    from iowarden.rules.incidents.recurring import Recurrences
    from iowarden.rules.scan.plan import Scans
    from iowarden.rules.selftest_schedule import Runs


@dataclass(frozen=True, slots=True)
class PersistedState:
    """The persisted state; each field is a document of state.db.

    `install` is the installation's random identifier.
    """

    install: str = ""
    alerts: tuple[Alert, ...] = ()
    incidents: dict[str, Incident] = field(default_factory=dict)
    sequences: dict[str, int] = field(default_factory=dict)
    signals: PersistentSignals = field(default_factory=PersistentSignals)
    devices: Devices = field(default_factory=Devices)
    dependents: StoredDependents = field(default_factory=StoredDependents)
    digest: Digest = field(default_factory=Digest)
    silences: Silences = field(default_factory=Silences)
    self_tests: Runs = field(default_factory=dict)
    scans: Scans = field(default_factory=dict)
    stuck: tuple[Stuck, ...] = ()
    correlation: CorrelationState = field(default_factory=CorrelationState)
    cursors: Cursors = field(default_factory=Cursors)
    lookups: tuple[SectorLookup, ...] = ()
    recurring: Recurrences = field(default_factory=dict)
    mail_routes: RouteState = field(default_factory=RouteState)
    wall_ahead_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class UnusedRow:
    """A row that is not used completely: the reason, and the text to save.

    `aside` is '' for a row of a newer version, which stays in the file unchanged.
    """

    text: str
    aside: str = ""


_HINT = (
    "iowarden runs without this data. If it holds a silence or an acknowledgement, create it again;"
    " report this file as a bug; then remove it: this resolves the alert StateUnreadable"
)


def documents(
    stored: PersistedState, *, without: Container[str] = (), schema: Schema = SCHEMA
) -> dict[str, str]:
    """Return each field as JSON text, by the name of its row, except those in `without`."""
    return {
        versioned(name, each.version): stored_documents.encode(getattr(stored, name))
        for name, each in schema.documents.items()
        if name not in without
    }


def outdated(rows: Iterable[str], schema: Schema = SCHEMA) -> tuple[str, ...]:
    """Return the rows of documents in an older version than the one written now."""
    versions = schema.versions()
    found = ((row, *version_of(row)) for row in rows)
    return tuple(row for row, name, version in found if version < versions.get(name, 0))


def read(
    texts: Mapping[str, str], now: float, schema: Schema = SCHEMA
) -> tuple[PersistedState, dict[str, UnusedRow]]:
    """Return the persisted state, and by row what could not be read completely.

    Times are shifted to the last known wall clock, which the program's clock of this start follows.
    If a document exists in several versions, the oldest of them was written last, after an upgrade
    and a downgrade. They are merged where possible.
    """
    rows = _Rows(texts, schema)
    reader = DocumentReader(0.0, now)
    ahead = rows.values(reader, "wall_ahead_seconds")
    reader = DocumentReader(ahead[0] if ahead else 0.0, now)
    found = {name: rows.values(reader, name) for name in schema.documents}
    last = PersistedState(**{name: values[0] for name, values in found.items() if values})
    earlier = {name: values[1] for name, values in found.items() if len(values) > 1}
    if earlier:
        last = _joined(last, PersistedState(**earlier), now)
    lost = {version_of(row)[0] for row in rows.unused}
    if "sequences" in lost or ("digest" in lost and not found["digest"]):
        # Mails are numbered from 1 again, and none may reuse the identifier of an earlier one.
        last = replace(last, install="")
    if "digest" in lost and not found["digest"]:
        # This machine is known even if all else is lost: there is no second initial report.
        last = replace(last, digest=replace(last.digest, arrived=True))
    return last, rows.unused


class _Rows:
    """The rows of state.db, and those that are not used."""

    def __init__(self, texts: Mapping[str, str], schema: Schema) -> None:
        self.unused: dict[str, UnusedRow] = {}
        self._texts = texts
        self._schema = schema
        self._versions: dict[str, dict[int, str]] = {}
        for row in texts:
            name, version = version_of(row)
            known = schema.documents.get(name)
            if known is None or version > known.version:
                here = (
                    f"supports version {known.version}" if known else "does not have this document"
                )
                self.unused[row] = UnusedRow(
                    f"state: document '{name}': written by a newer iowarden (version {version},"
                    f" this one {here}); not used, but preserved in the file: install the newer"
                    " iowarden again, or continue without this document"
                )
            else:
                self._versions.setdefault(name, {})[version] = row

    def values(self, reader: DocumentReader, name: str) -> list[Any]:
        """Return the values of a document's rows, the last written first: at most two."""
        found: list[Any] = []
        for version, row in sorted(self._versions.get(name, {}).items()):
            text = self._texts[row]
            try:
                value = reader.read(self._schema.documents[name], text, version)
            except CodecError as error:
                self._leave(row, [str(error)], _json(text))
                continue
            if reader.bad:
                items = {each.place: each.item for each in reader.bad}
                self._leave(row, [each.reason for each in reader.bad], items)
            if len(found) == (2 if name in _JOINED else 1):
                self._leave(row, ["an older iowarden has written this document since"], _json(text))
            else:
                found.append(value)
        return found

    def _leave(self, row: str, reasons: list[str], content: object) -> None:
        name, version = version_of(row)
        what = {
            "document": name,
            "version": version,
            "reasons": reasons,
            "next step": _HINT,
            "content": content,
        }
        more = f" (and {len(reasons) - 1} more)" if reasons[1:] else ""
        self.unused[row] = UnusedRow(
            f"state: document '{name}': {reasons[0]}{more}; iowarden runs without this data; it is"
            " saved as text next to state.db",
            json.dumps(what, indent=1, ensure_ascii=False),
        )


def _json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


_JOINED = frozenset({"alerts", "incidents", "sequences", "digest", "silences", "self_tests"})
"""Documents whose older version is merged into what was written last; of others only the last one
is used."""


def _joined(last: PersistedState, before: PersistedState, now: float) -> PersistedState:
    known = {alert.key for alert in last.alerts}
    incidents = merged(Incidents(last.incidents, last.sequences), before, now)
    week = digest.merged(last.digest, before.digest)
    return replace(
        last,
        alerts=(*last.alerts, *(each for each in before.alerts if each.key not in known)),
        incidents=dict(incidents.by_key),
        sequences=dict(incidents.sequences),
        digest=replace(week, number=max(last.digest.number, before.digest.number)),
        silences=silences.merged(last.silences, before.silences),
        self_tests={**before.self_tests, **last.self_tests},
    )


# --- a file that is read late


def merged(ours: Incidents, stored: PersistedState, now: float) -> Incidents:
    """Return our incidents merged with the persisted ones.

    If both have the same key, the file was read late: ours continues, in both mail threads.
    """
    by_key = unwatched(stored.incidents, now)
    for key, own in ours.by_key.items():
        before = by_key.get(key)
        if before is not None and before.mails and not own.mails:
            continue  # Nothing was notified yet: the earlier mail thread continues.
        by_key[key] = own if before is None or not before.mails else _in_both_threads(own, before)
    sequences = dict(stored.sequences)
    for key, number in ours.sequences.items():
        sequences[key] = max(number, sequences.get(key, 0))
    return Incidents(by_key, sequences)


def _in_both_threads(own: Incident, before: Incident) -> Incident:
    return replace(
        own,
        references=(*own.first_mails, *before.first_mails),
        advised=tuple(dict.fromkeys((*own.advised, *before.advised))),
    )
