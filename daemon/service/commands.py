"""Handles commands of the control socket: queries, silences, acknowledgements.

For the loop's thread only. Requests and replies are declared in `daemon.control.documents`.
"""

from __future__ import annotations

import math
import queue
import secrets
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from iowarden.collectors.model import trace
from iowarden.collectors.packages import documentation
from iowarden.collectors.quantity import duration
from iowarden.daemon import journal, json_codec
from iowarden.daemon.control import documents
from iowarden.daemon.service.event_pipeline import EVENT_SOURCES
from iowarden.daemon.storage import event_rows
from iowarden.daemon.storage.event_rows import OWN, EventFilter
from iowarden.daemon.storage.history_reader import HistoryReader
from iowarden.daemon.views import (
    answers,
    disk_answers,
    incident_answers,
    metric_answers,
    storage_tree,
)
from iowarden.rules.incidents import silences
from iowarden.rules.matcher import parse_matcher, written
from iowarden.rules.promql.errors import EvaluationError, PromqlError
from iowarden.rules.promql.run import Budget
from iowarden.rules.smart import history_fields
from iowarden.rules.topology import inventory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.model import Sample
    from iowarden.daemon.control.control_socket import ControlCommand
    from iowarden.daemon.transition_log import TransitionLog
    from iowarden.rules.alerting.alerts import Alert
    from iowarden.rules.engine.engine import Engine
    from iowarden.rules.events.event_table import EventRule
    from iowarden.rules.promql import evaluator
    from iowarden.rules.topology.inventory import InventoryDisk

MAX_QUERY_CHARACTERS = 4096
"""Limit of a query's length: the loop thread evaluates it."""
QUERY_WORK, QUERY_COST = 2_000_000, 20_000
"""Work limit of all queries of one second, and the minimum charge per query, in units of the rule
language.

Queries must not delay monitoring: together they may cost a fifth of what one rule may.
"""


class CommandHandler:
    """Handles commands; `silences` holds the active silences and acknowledgements."""

    def __init__(  # noqa: PLR0913 - all but five are named where it is called
        self,
        engine: Engine,
        transitions: TransitionLog,
        known: Callable[[float], answers.ViewInputs],
        keep: Callable[[], object],
        topology: Callable[[], Topology | None],
        *,
        store_signals: Callable[[], object],
        history_path: str,
        event_rows: Callable[[], Mapping[str, EventRule]] = dict,
        advise: Callable[[float], documents.TuningAdvice] = lambda _: documents.TuningAdvice(),
    ) -> None:
        """`known` returns the current state, `keep` persists silences and acknowledgements.

        `store_signals` persists the state of the disks; `event_rows` returns the classes of
        events; `advise` returns the advice about tuning.
        """
        self.silences = silences.Silences()
        self.silence_of = silences.finder(self.silences)
        """Return the silence that matches an alert at a given time."""
        self._engine = engine
        self._transitions = transitions
        self._known = known
        self._store = keep
        self._topology = topology
        self._advise = advise
        self._store_signals = store_signals
        self._event_rows = event_rows
        self._history_reader = HistoryReader(history_path)
        self._later: queue.SimpleQueue[Callable[[], object]] = queue.SimpleQueue()
        """Callbacks from other threads that must run in the loop's thread."""
        self._active_silences: frozenset[str] = frozenset()
        self._budget = Budget(QUERY_WORK)
        self._budget_since = -math.inf

    def answer(self, command: ControlCommand, now: float) -> None:
        """Execute a command and reply."""
        self._transitions.debug(f"command '{command.name}' of {command.who}")
        try:
            if command.name == "disk history":
                self._history(command)
            elif command.name == "events":
                self._events(command)
            elif command.name == "incident show":
                self._incident(command, now)
            elif command.name == "advise":
                command.reply({"answer": self._advise(now)})
            elif command.name == "log level":
                command.reply({"answer": self._log_level(command, self._known(now).realtime(now))})
            else:
                command.reply({"answer": self._answered(command, now)})
        except (ValueError, PromqlError, EvaluationError) as error:  # CodecError is a ValueError
            command.reply({"error": str(error)})
        except Exception as error:  # noqa: BLE001 - the client gets the error, the loop continues
            text = f"command '{command.name}': bug: {trace(error)}"
            command.reply({"error": text})
            self._transitions.trouble("command", text)

    def expire_silences(self, now: float) -> None:
        """Log silences that expired, and remove those that expired long ago."""
        pruned = silences.prune(self.silences, now)
        if pruned is not self.silences:
            self._take(pruned)
        held = frozenset(each.identifier for each in self.silences.active(now))
        for each in self.silences.silences:
            if each.identifier in self._active_silences - held and each.expired_seconds is None:
                text = f"silence {each.identifier} expired: {each.reason}"
                self._transitions.send(journal.SILENCE, 5, text)
        self._active_silences = held
        while not self._later.empty():
            self._later.get()()

    def drop_acknowledgement(self, incident: str) -> None:
        """Remove an acknowledgement: its incident was resolved, or escalated beyond it.

        The caller persists this together with the mail that belongs to it.
        """
        self.silences = silences.drop_acknowledgement(self.silences, incident)

    def restore(self, stored: silences.Silences) -> None:
        """Restore the silences and acknowledgements of the previous run."""
        self.silences = silences.merged(self.silences, stored)
        self.silence_of = silences.finder(self.silences)

    def samples(self, now: float) -> list[Sample]:
        """Return the samples of silences.FAMILIES."""
        return silences.samples(self.silences, self._engine.rules.alerts(), self.silence_of, now)

    def _answered(self, command: ControlCommand, now: float) -> object:
        """Return the reply. Errors: ValueError, those of the rule language; users see them."""
        realtime = self._known(now).realtime
        match command.name:
            case "status":
                return answers.answer(self._known(now))
            case "silence add":
                asked = command.read(documents.AddSilence)
                added = self._silence(command, asked, now)
                line = answers.silence(added, realtime)
                note = self._note(added, now)
                return replace(line, note=note.text, matches_nothing=note.is_unmatched)
            case "silence list":
                return documents.SilenceList(answers.in_force(self.silences, now, realtime))
            case "silence expire":
                wanted = json_codec.text(command.arguments, "identifier")
                after, ended = silences.expire(self.silences, wanted, now)
                self._take(after)
                text = f"silence {ended.identifier} expired by {command.who}"
                self._transitions.send(journal.SILENCE, 5, text)
                return answers.silence(ended, realtime)
            case "ack":
                name = self._acknowledge(command, command.read(documents.Acknowledge), now)
                return answers.incident(self._known(now), name)
            case "incident list":
                closed = command.arguments.get("all") is True
                return incident_answers.incidents(self._known(now), closed=closed)
            case "monitoring" | "storage":
                view = disk_answers.answer if command.name == "monitoring" else storage_tree.storage
                return view(self._known(now))
            case "disk show":
                return disk_answers.detail(self._known(now), self._disk(command))
            case "disk forget":
                return self._forget(command, now)
            case "query" | "metrics":
                return self._measured(command, now)
        raise ValueError(f"unknown command '{command.name:.60}'")

    def _log_level(self, command: ControlCommand, realtime: float) -> documents.LogLevelLine:
        """Change the log level for a time. Errors: ValueError, CodecError."""
        wanted = command.read(documents.SetLogLevel)
        if wanted.level not in journal.LEVELS:
            levels = ", ".join(journal.LEVELS)
            raise ValueError(f"log level: expected one of {levels}, got '{wanted.level:.40}'")
        if not 0 <= wanted.for_seconds <= documents.MAX_LOG_LEVEL_SECONDS:
            longest = duration(documents.MAX_LOG_LEVEL_SECONDS)
            raise ValueError(
                f"log level: expected at most {longest}; a lasting one is 'log_level' in the"
                " configuration, and a reload"
            )
        lasts = f"'{wanted.level}' for {duration(wanted.for_seconds)}"
        text = f"log level is {lasts if wanted.for_seconds else 'as configured'}"
        # Before the change: the new level may leave it out.
        self._transitions.send(journal.LOG_LEVEL, 5, f"{text}, set by {command.who}")
        self._transitions.log.set_temporary_level(wanted.level, wanted.for_seconds)
        return documents.LogLevelLine(wanted.level, realtime + wanted.for_seconds)

    def _disk(self, command: ControlCommand) -> InventoryDisk:
        """Return the disk that a command names. Errors: ValueError, CodecError."""
        wanted = json_codec.text(command.arguments, "disk")
        return inventory.find(answers.inventory_disks(self._engine), wanted)

    def _forget(self, command: ControlCommand, now: float) -> documents.DiskLine:
        """Mark a missing disk as removed: it is no longer reported. Errors: ValueError."""
        found = self._disk(command)
        if found.expected_by != ("history",):
            by = " and ".join(found.expected_by)
            raise ValueError(
                f"disk: expected a missing disk that is only remembered, got '{found.disk}', known"
                f" by {by}; a disk that is present or in 'smart.drives' cannot be forgotten"
            )
        self._engine.devices.forget_disk(found.disk)
        self._store_signals()
        text = f"disk {found.disk} ({found.identity.object}) was marked as removed by {command.who}"
        self._transitions.send(journal.DEVICE_CHANGED, 5, text)
        return disk_answers.line(self._known(now), found)

    def _history(self, command: ControlCommand) -> None:
        """Query history.db in a thread, since its disk may hang; the result is the reply."""
        wanted = json_codec.text(command.arguments, "disk")
        attribute = json_codec.text(command.arguments, "attribute")
        try:
            found = inventory.find(answers.inventory_disks(self._engine), wanted)
            disk, drive = found.disk, found.drive
        except ValueError:  # It may be a disk of the past.
            disk, drive = wanted, None
        names = history_fields.candidates(attribute, drive)
        if not names:
            raise ValueError(
                "attribute: expected a number ('197'), a name as in smartctl"
                " ('Current_Pending_Sector'), either with 'value' for the normalized value"
                f" ('197 value'), or one of {', '.join(history_fields.NAMES)},"
                f" got '{attribute:.100}'"
            )
        self._history_reader.read_first(disk, names, command.reply)

    def _events(self, command: ControlCommand) -> None:
        """Return stored and recent events; only recent ones if history.db is not read in time."""
        asked = command.read(documents.EventQuery)
        disks = answers.inventory_disks(self._engine)
        try:
            found = inventory.find(disks, asked.disk) if asked.disk else None
        except ValueError:  # A disk of the past, an array, or an ambiguous prefix.
            found = None
        wanted = incident_answers.event_filter(asked, found)
        more = (
            f"only the last {wanted.query.last} are shown" if wanted.query.last < asked.last else ""
        )

        def then(
            rows: Sequence[documents.EventLine], why: str, recent: Sequence[documents.EventLine]
        ) -> None:
            missing = f"only recent events are shown: {why}" if why else more
            reply = incident_answers.events(rows, recent, wanted, missing)
            if not (reply.events or missing or found):
                unknown = incident_answers.nothing_found(
                    asked, disks.values(), (*EVENT_SOURCES, OWN)
                )
                reply = replace(reply, note=unknown)
            command.reply({"answer": reply})

        def later(rows: Sequence[documents.EventLine], why: str) -> None:
            # Events after the reply are streamed to a client that follows; none of them is sent
            # twice.
            self._later.put(lambda: then(rows, why, tuple(self._transitions.events)))

        if asked.source == OWN or not wanted.query.last:
            then((), "", tuple(self._transitions.events))
        elif asked.follow:
            self._history_reader.prefetch(partial(event_rows.read, wanted=wanted), later)
        else:
            recent = tuple(self._transitions.events)
            self._history_reader.prefetch(
                partial(event_rows.read, wanted=wanted), partial(then, recent=recent)
            )

    def _incident(self, command: ControlCommand, now: float) -> None:
        """Return all data of an incident and its stored events. Errors: ValueError, CodecError."""
        known = self._known(now)
        found = incident_answers.find(known, json_codec.text(command.arguments, "incident"))
        whole = incident_answers.detail(known, found, self._transitions.events)
        wanted = EventFilter(
            documents.EventQuery(incident_answers.SHOWN_EVENTS, incident=found.identifier)
        )

        def then(rows: Sequence[documents.EventLine], why: str) -> None:
            command.reply({"answer": incident_answers.with_events(whole, rows, wanted, why)})

        self._history_reader.prefetch(partial(event_rows.read, wanted=wanted), then)

    def _query(self, text: str, now: float) -> list[evaluator.Sample] | float:
        if not 0 <= now - self._budget_since < 1:
            self._budget, self._budget_since = Budget(QUERY_WORK), now
        self._budget.left -= QUERY_COST
        if self._budget.left < 0:
            raise ValueError("query: too many queries at once; try again in one second")
        return self._engine.queries.query_all(text, self._engine.rules.alerts(), now, self._budget)

    def _measured(self, command: ControlCommand, now: float) -> object:
        """Return the result of a query, or the metrics of a pattern. Errors: as `_answered`."""
        if command.name == "metrics":
            pattern = json_codec.text(command.arguments, "pattern")
            return metric_answers.found(self._engine, pattern)
        text = json_codec.text(command.arguments, "expression")
        if len(text) > MAX_QUERY_CHARACTERS:
            raise ValueError(f"query: expected at most {MAX_QUERY_CHARACTERS} characters")
        try:
            found = self._query(text, now)
        except PromqlError as error:
            raise ValueError(
                f"query {text[:80]!r}: line {error.line}, column {error.column}: {error.message};"
                f" what is supported: {documentation()}/rules.md, section 'Which PromQL'"
            ) from error
        except EvaluationError as error:
            raise ValueError(f"query {text[:80]!r}: {error}") from error
        answer = answers.result(found, self._known(now).realtime(now))
        queries, known = self._engine.queries, metric_answers.names(self._engine)
        notes = (
            queries.near(text, known),
            queries.unmatched(text, self._engine.rules.alerts(), now, known),
            queries.incomplete(text, now),
        )
        return replace(answer, note="; ".join(filter(None, notes)))

    def _silence(
        self, command: ControlCommand, wanted: documents.AddSilence, now: float
    ) -> silences.Silence:
        matchers = tuple(parse_matcher(text) for text in wanted.matchers)
        silence = silences.Silence(
            identifier=secrets.token_hex(4),
            matchers=silences.pinned(matchers, self._topology()),
            created_seconds=now,
            lasts_seconds=wanted.for_seconds,
            reason=wanted.reason,
            who=command.who,
        )
        after, added = silences.add(self.silences, silence)
        self._take(after)
        shown = " ".join(written(each) for each in added.matchers)
        self._transitions.send(
            journal.SILENCE,
            5,
            f"silence {added.identifier} added by {command.who} for"
            f" {duration(added.lasts_seconds)}: {shown}: {added.reason}",
        )
        return added

    def _note(self, added: silences.Silence, now: float) -> silences.Note:
        find = silences.finder(silences.Silences((added,)))
        alerts = self._known(now).alerts
        matched = sum(a.active and find(a, now) is not None for a in alerts)
        of_events = [
            {
                "alertname": kind,
                "condition": row.condition,
                "severity": severity.name.lower(),
            }
            for kind, row in self._event_rows().items()
            if (severity := row.severity if row.severity_here is None else row.severity_here)
            is not None
        ]
        expected = [*self._engine.rules.expected(), *of_events]
        present, used = self._labels(alerts)
        return silences.note(added, expected, matched, present, used)

    def _labels(self, alerts: Iterable[Alert]) -> tuple[dict[str, set[str]], set[str]]:
        """Return the values of labels of objects of this host, and the names of all labels."""
        of_objects: dict[str, set[str]] = {name: set() for name in silences.OF_OBJECTS}
        names = set()
        families = (samples for chunk in self._engine.hub.chunks() for _, samples in chunk.families)
        labels = [each for samples in families for _, each, _ in samples]
        for name, value in (
            pair for each in (*labels, *(a.labels for a in alerts)) for pair in each
        ):
            names.add(name)
            if name in of_objects:
                of_objects[name].add(value)
        return of_objects, names

    def _acknowledge(
        self, command: ControlCommand, wanted: documents.Acknowledge, now: float
    ) -> str:
        """Return the incident that is now acknowledged, or whose acknowledgement was removed."""
        if wanted.undo:
            after, name = silences.undo(self.silences, wanted.incident)
            words = f"acknowledgement of incident {name} removed by {command.who}"
        else:
            after, said = silences.acknowledge(
                self.silences,
                self._known(now).incidents.values(),
                wanted.incident,
                now=now,
                reason=wanted.reason,
                who=command.who,
            )
            name = said.incident
            words = f"incident {name} acknowledged by {command.who}"
            words += f": {said.reason}" if said.reason else ""
        self._take(after)
        self._transitions.send(journal.ACKNOWLEDGED, 5, words, IOWARDEN_INCIDENT=name)
        return name

    def _take(self, after: silences.Silences) -> None:
        self.silences = after
        self.silence_of = silences.finder(after)
        self._store()
