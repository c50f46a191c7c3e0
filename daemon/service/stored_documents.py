"""Schema of state.db: for each document its version, for each field its name, type and kind.

A document is JSON text. A field without a declaration here is an error at import. Nothing gets a
default, and nothing is ignored: an item of another shape is set aside and reported. A changed
declaration changes the digest below, which a test compares. Until the first release it replaces
the digest; after it, the document needs a new version, and a migration from the version before.
Version 1 of a document is stored under its name, a later one under 'name.v2': a program without
that version does not change it and writes its own next to it.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import json
import types
import typing
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.event import StorageEvent
from iowarden.collectors.kmsg import kernel_log
from iowarden.collectors.raid import controller, log_alignment
from iowarden.daemon.clock import PLAUSIBLE_SECONDS
from iowarden.daemon.json_codec import CodecError
from iowarden.daemon.locate.affected_files import SectorLookup
from iowarden.daemon.locate.locate import Located
from iowarden.daemon.notify.retry import Hold
from iowarden.daemon.notify.routes import RouteState
from iowarden.daemon.probe.protocol import Stuck
from iowarden.daemon.service.event_pipeline import Cursors
from iowarden.rules.alerting.alerts import Alert
from iowarden.rules.events.controller_clock import ControllerClock
from iowarden.rules.events.event_state import CorrelationState, EventGroup
from iowarden.rules.events.event_table import Burst
from iowarden.rules.events.unlogged_kills import KillCount
from iowarden.rules.incidents.model import (
    FaultRecord,
    Incident,
    IncidentMember,
    LastMail,
    ReportedFault,
)
from iowarden.rules.incidents.recurring import Occurrence, Recurrence, Recurrences
from iowarden.rules.incidents.silences import Acknowledgement, Silence, Silences, finder
from iowarden.rules.matcher import Matcher
from iowarden.rules.notice import Evidence
from iowarden.rules.notices.digest import Digest, DigestEntry
from iowarden.rules.scan.plan import Scan, Scans
from iowarden.rules.selftest_schedule import Runs, SelfTestRun
from iowarden.rules.signals.table import GROUPS, PersistentSignals
from iowarden.rules.topology.device_changes import Devices, ReturnedDisk, VanishedDisk
from iowarden.rules.topology.device_identity import Identity
from iowarden.rules.topology.file_location import SectorContent
from iowarden.rules.topology.slot_map import SlotContent
from iowarden.rules.topology.topology import Dependent, StoredDependents

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class NumberKind(enum.StrEnum):
    """What kind of number a field holds."""

    PLAIN = "plain"
    PROGRAM = "program time"
    """Seconds of the program's clock: shifted at a start by the wall clock's advance meanwhile."""
    WALL = "wall time"
    """Unix seconds."""
    MONOTONIC = "monotonic time"
    """Seconds since a boot."""
    SOURCE = "source's time"
    """Seconds of a data source's clock: that of a controller, read as if it were UTC."""
    DURATION = "duration"
    PERSISTENT = "learnt"
    """Pairs by group and object; the first of a pair is program time or 0 (Group.untimed)."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record: its name, stored and in this program, and its kind."""

    name: str
    kind: NumberKind


def _record(cls: type, plain: str = "", **kinds: str) -> tuple[type, tuple[Field, ...]]:
    """Declare a record: the names of its fields by kind.

    Errors: TypeError for a class with other fields.
    """
    declared = {
        name: Field(name, NumberKind[kind.upper()])
        for kind, names in {"plain": plain, **kinds}.items()
        for name in names.split()
    }
    attributes = [attribute.name for attribute in dataclasses.fields(cls)]
    if declared.keys() != set(attributes):
        odd = ", ".join(sorted(declared.keys() ^ set(attributes)))
        raise TypeError(
            f"{cls.__name__}: expected each field declared in {__name__}, but not {odd}"
        )
    return cls, tuple(declared[name] for name in attributes)


RECORDS: Mapping[type, tuple[Field, ...]] = dict(
    (
        _record(
            Alert,
            "name labels state value annotations unknown_reason subject object adapter count",
            program="active_seconds fired_seconds absent_seconds unknown_seconds resolved_seconds"
            " recent_firings last_seconds",
        ),
        _record(
            Incident,
            "identifier key object severity members mails references faults last_mail burst firing"
            " recurrences advised details awaits_initial_report first_state",
            program="opened_seconds first_mailed_seconds recovery_mails_seconds"
            " active_seconds started_seconds begun_seconds closed_seconds",
        ),
        _record(LastMail, "reason severity object details is_cause_unknown", program="seconds"),
        _record(
            FaultRecord,
            "subject fault detail severity count earlier_seconds longest_seconds value lines"
            " earlier_lines is_history reported",
            program="began_seconds since_seconds until_seconds changed_seconds onsets"
            " previous_end_seconds",
        ),
        _record(
            ReportedFault,
            "severity value lines count longest_seconds summary ended is_history",
            program="seconds unread_seconds",
        ),
        _record(
            IncidentMember,
            "labels name severity state summary advice unknown evidence subject silenced value"
            " count blocks_now is_cause_unknown redundancy usual baseline",
            program="since_seconds absent_seconds cleared_seconds last_seconds"
            " joined_seconds unknown_seconds",
        ),
        _record(Evidence, "source text", wall="realtime_seconds"),
        # The numbers in 'best_rates' are minutes of the program's clock: after a clock step they do
        # not match, and expire like old ones.
        _record(PersistentSignals, "bandwidths best_rates", persistent="groups"),
        _record(Devices, "gone names totals returned"),
        _record(
            VanishedDisk,
            "name object carried twins adapter members shelf address",
            program="at_seconds taken_seconds",
        ),
        _record(
            ReturnedDisk,
            "was name object members",
            program="at_seconds",
        ),
        _record(Identity, "key object adapter"),
        _record(StoredDependents, "above now", program="at_seconds until"),
        _record(Dependent, "key name shown on mount"),
        _record(
            Digest,
            "arrived number entries events events_total advised is_state_lost",
            program="begun_seconds arrived_seconds",
        ),
        _record(
            DigestEntry, "name severity object summary advice times firing", program="first_seconds"
        ),
        _record(
            Recurrence,
            "occurrences notified",
        ),
        _record(
            Occurrence,
            "severity",
            program="began_seconds spell_seconds until_seconds",
            duration="lasted_seconds",
        ),
        _record(Silences, "silences acknowledgements"),
        _record(
            Silence,
            "identifier matchers reason who",
            program="created_seconds expired_seconds",
            duration="lasts_seconds",
        ),
        _record(Matcher, "label operator text"),
        _record(
            Acknowledgement,
            "incident severity reason who subjects kinds",
            program="created_seconds",
        ),
        _record(
            SelfTestRun,
            "outcome text who lba minutes tries log",
            program="seen_seconds begun_seconds ended_seconds passed_seconds",
        ),
        _record(
            Scan,
            "state size_bytes next text who bytes_total parts bad zone_bytes zones slower careful"
            " too_slow",
            program="seen_seconds scheduled_seconds begun_seconds ended_seconds completed_seconds"
            " trouble_seconds tries_seconds paused_seconds",
            duration="troubles zone_seconds",
        ),
        _record(RouteState, "holds", program="tries healed"),
        _record(
            Hold,
            "fault attempts error",
            program="first_seconds tried_seconds",
            duration="pause_seconds",
        ),
        _record(Stuck, "pid start_ticks arguments controllers devices", program="since_seconds"),
        _record(
            CorrelationState,
            "groups recent clocks slots media",
            wall="errors",
        ),
        _record(
            EventGroup,
            "source burst subject object adapter disk device controller slot volumes baseline note"
            " smart repeats places",
            program="began_seconds last_seconds received_seconds ended_seconds",
        ),
        _record(Burst, "kind object severity count first last", source="until times"),
        _record(
            StorageEvent,
            "source kind text device controller place sector sectors block blocks read_ahead"
            " sense_key asc ascq code word priority boot_id sequence",
            monotonic="monotonic_seconds",
            source="clock_seconds",
            wall="realtime_seconds",
        ),
        _record(
            ControllerClock,
            "serial method matches reported reason",
            source="errors power_on",
            duration="offset drift",
        ),
        _record(SlotContent, "serial model array"),
        _record(Cursors, "kernel controllers listed kills"),
        _record(KillCount, "boot_id reported groups logged unlogged", wall="unlogged_seconds"),
        _record(
            kernel_log.KernelCursor,
            "journal boot_id sequence",
            monotonic="monotonic_seconds",
            wall="realtime_seconds",
        ),
        _record(log_alignment.LogCursor, "serial", source="listing"),
        _record(controller.LastListing, "arrays disks serial vendor", program="at_seconds"),
        _record(
            SectorLookup,
            "subject device start count located problem read_ahead",
            program="at_seconds requested_seconds",
        ),
        _record(Located, "device start count answers disk sector_bytes"),
        _record(
            SectorContent,
            "start count kind text chain device file_system block block_bytes inode path"
            " other_paths mounted offset_bytes bytes size_bytes in_place array degraded copies",
        ),
    )
)
"""Every record of every document."""

_UNTIMED = {group.name: group.untimed for group in GROUPS if group.remember is not None}


@dataclass(frozen=True, slots=True)
class Document:
    """A document of state.db.

    Fields: `digests` are those of each version's declaration, the last one of this program's;
    `migrations` convert each version to the next: each takes and returns decoded JSON.
    """

    type: Any
    digests: tuple[str, ...]
    migrations: tuple[Callable[[Any], Any], ...] = ()

    @property
    def version(self) -> int:
        """Return the version that this program writes."""
        return len(self.digests)


DOCUMENTS: Mapping[str, Document] = {
    "install": Document(str, ("982d9e3eb996f559",)),
    "alerts": Document(tuple[Alert, ...], ("02282df749bc518e",)),
    "incidents": Document(dict[str, Incident], ("9fc0063b77a8f13a",)),
    "sequences": Document(dict[str, int], ("9124cd72e572a446",)),
    "signals": Document(PersistentSignals, ("d277ff12b69160be",)),
    "devices": Document(Devices, ("f0844cd2bf4d930c",)),
    "dependents": Document(StoredDependents, ("a85a41082275e070",)),
    "digest": Document(Digest, ("d33d8017d9290056",)),
    "silences": Document(Silences, ("a7136b1cff14f767",)),
    "self_tests": Document(Runs, ("d7fbbcd729447f4e",)),
    "scans": Document(Scans, ("9eac87a29c79596d",)),
    "stuck": Document(tuple[Stuck, ...], ("5f36e306e81c77a8",)),
    "correlation": Document(CorrelationState, ("4a5644920ebfb3e6",)),
    "cursors": Document(Cursors, ("a70d42395e2c3efd",)),
    "lookups": Document(tuple[SectorLookup, ...], ("e15d4827855b84a8",)),
    "recurring": Document(Recurrences, ("06525c7756b2ac32",)),
    "mail_routes": Document(RouteState, ("9ba061b04ce9990b",)),
    "wall_ahead_seconds": Document(float, ("12886f9d00055adf",)),
}
"""By the field of `PersistedState`. The digest of a released version never changes."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The stored documents."""

    documents: Mapping[str, Document] = field(default_factory=lambda: DOCUMENTS)

    def versions(self) -> dict[str, int]:
        """Return the version of each document."""
        return {name: document.version for name, document in self.documents.items()}


SCHEMA = Schema()


# --- writing


def encode(value: object) -> str:
    """Return the JSON text of a document."""
    return json.dumps(_plain(value), separators=(",", ":"), ensure_ascii=False)


def _plain(value: object) -> object:
    fields = RECORDS.get(type(value))
    if fields is not None:
        return {field.name: _plain(getattr(value, field.name)) for field in fields}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, str | int | float | None):
        return value
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list | frozenset):
        return [_plain(item) for item in value]
    raise TypeError(f"{type(value).__name__}: expected a record that {__name__} declares")


# --- reading


@dataclass(frozen=True, slots=True)
class UnreadableItem:
    """An unreadable item of a collection: its place, the reason, and its JSON."""

    place: str
    reason: str
    item: Any


class DocumentReader:
    """Reads documents: shifts times of the program's clock by `ahead`, limits them to `now`.

    A time after `now` becomes now: the clock was set back since, and a time in the future would not
    expire before it is reached. The same holds for times of a clock that was not set: their age is
    unknown. Units: seconds.
    """

    def __init__(self, ahead: float, now: float) -> None:
        """Start; `ahead` is how far the wall clock was ahead of the program's clock."""
        self.bad: list[UnreadableItem] = []
        """The unreadable items of the document that was read last."""
        self._ahead = ahead
        self._now = now

    def read(self, document: Document, text: str, version: int) -> Any:  # noqa: ANN401 - as `type`
        """Return the value of a document's text.

        A collection, or one in a field of the outermost record, is read item by item: `bad` has
        those that cannot be read. Errors: CodecError with the place.
        """
        self.bad = []
        try:
            value = json.loads(text)
            for migrate in document.migrations[version - 1 :]:
                value = migrate(value)
            fields = RECORDS.get(document.type)
            if fields is None:
                return self._items(document.type, value, "$", NumberKind.PLAIN)
            return self._record(document.type, fields, value, "$", self._items)
        except Exception as error:  # A bug in a migration costs its document only.
            is_told = isinstance(error, TypeError | ValueError)
            reason = str(error) if is_told else f"{type(error).__name__}: {error}"
            raise CodecError(f"got {text[:80]!r}: {reason}") from error

    def _items(self, hint: Any, value: Any, place: str, kind: NumberKind) -> Any:  # noqa: ANN401
        """Return a value; of a collection all items that can be read."""
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if kind is NumberKind.PERSISTENT:
            _expect(value, dict, place)
            return dict(self._readable(value.items(), place, self._persistent))
        if origin is tuple and arguments[-1] is Ellipsis:
            _expect(value, list, place)
            found = self._readable(
                enumerate(value), place, lambda _, v, at: self._typed(arguments[0], v, at, kind)
            )
            return tuple(item for _, item in found)
        if origin is dict:
            _expect(value, dict, place)
            found = self._readable(
                value.items(), place, lambda _, v, at: self._typed(arguments[1], v, at, kind)
            )
            return dict(found)
        return self._typed(hint, value, place, kind)

    def _readable(
        self,
        items: typing.Iterable[tuple[Any, Any]],
        place: str,
        read: Callable[[Any, Any, str], Any],
    ) -> Iterator[tuple[Any, Any]]:
        for key, item in items:
            at = f"{place}[{json.dumps(key)}]"
            try:
                yield key, read(key, item, at)
            except (TypeError, ValueError, ArithmeticError, RecursionError) as error:
                self.bad.append(UnreadableItem(at, str(error), item))

    def _persistent(self, group: str, value: Any, place: str) -> Any:  # noqa: ANN401 - JSON
        if group not in _UNTIMED:
            raise ValueError(f"'{place}': expected one of {', '.join(_UNTIMED)}")
        read = self._typed(
            dict[str, tuple[tuple[float, float], ...]], value, place, NumberKind.PLAIN
        )
        return {name: self._moved(pairs, _UNTIMED[group]) for name, pairs in read.items()}

    def _moved(
        self, pairs: tuple[tuple[float, float], ...], untimed: int
    ) -> tuple[tuple[float, float], ...]:
        """Shift all times in a signal's state by the same amount, so that intervals stay."""
        latest = max((at for at, _ in pairs[untimed:]), default=0.0)
        by = self._moment(latest) - latest
        return (
            *pairs[:untimed],
            *((at + by if at else at, value) for at, value in pairs[untimed:]),
        )

    def _moment(self, at: float) -> float:
        moved = at + self._ahead
        return self._now if moved > self._now or moved < PLAUSIBLE_SECONDS <= self._now else moved

    def _record(
        self,
        cls: Any,  # noqa: ANN401 - any of RECORDS
        fields: tuple[Field, ...],
        value: Any,  # noqa: ANN401 - JSON
        place: str,
        read: Callable[[Any, Any, str, NumberKind], Any],
    ) -> Any:  # noqa: ANN401 - of `cls`
        _expect(value, dict, place)
        names = {field.name for field in fields}
        if names != value.keys():
            missing = ", ".join(sorted(names - value.keys())) or "none"
            unknown = ", ".join(sorted(map(repr, value.keys() - names))) or "none"
            raise ValueError(
                f"'{place}': expected other fields; missing: {missing}, unknown: {unknown}"
            )
        hints = _hints(cls)
        found = cls(
            **{
                field.name: read(
                    hints[field.name], value[field.name], f"{place}.{field.name}", field.kind
                )
                for field in fields
            }
        )
        if cls is Silence:
            finder(Silences((found,)))  # Otherwise it could not be used.
        return found

    def _typed(self, hint: Any, value: Any, place: str, kind: NumberKind) -> Any:  # noqa: ANN401
        fields = RECORDS.get(hint)
        if fields is not None:
            return self._record(hint, fields, value, place, self._typed)
        if hint is float:
            _expect(value, int | float, place)
            return self._moment(float(value)) if kind is NumberKind.PROGRAM else float(value)
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin in (types.UnionType, typing.Union):
            if value is None:
                return None
            return self._typed(_some(arguments), value, place, kind)
        if origin is tuple:
            _expect(value, list, place)
            if arguments[-1] is Ellipsis:
                arguments = arguments[:1] * len(value)
            elif len(value) != len(arguments):
                raise ValueError(f"'{place}': expected {len(arguments)} items, got {len(value)}")
            pairs = zip(arguments, value, strict=True)
            return tuple(self._typed(a, v, f"{place}[{i}]", kind) for i, (a, v) in enumerate(pairs))
        if origin is dict:
            _expect(value, dict, place)
            return {
                key: self._typed(arguments[1], item, f"{place}[{json.dumps(key)}]", kind)
                for key, item in value.items()
            }
        if issubclass(hint, enum.Enum):
            known = {each.value: each for each in hint}
            if isinstance(value, bool) or not isinstance(value, str | int) or value not in known:
                raise ValueError(f"'{place}': expected one of {[*known]}, got {value!r:.60}")
            return known[value]
        _expect(value, hint, place)
        return value


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _some(arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401 - a type
    return next(each for each in arguments if each is not types.NoneType)


def _expect(value: object, cls: Any, place: str) -> None:  # noqa: ANN401 - as isinstance takes it
    if not isinstance(value, cls) or (isinstance(value, bool) and cls is not bool):
        raise TypeError(f"'{place}': expected {getattr(cls, '__name__', cls)}, got {value!r:.60}")


# --- declarations


def digest(hint: Any) -> str:  # noqa: ANN401 - the type of a document
    """Return a digest that changes if and only if the declaration of a document changes."""
    return hashlib.sha256(described(hint).encode()).hexdigest()[:16]


def described(hint: Any, kind: NumberKind = NumberKind.PLAIN) -> str:  # noqa: ANN401 - any type
    """Return names, types and kinds of a document, independent of names in Python."""
    fields = RECORDS.get(hint)
    if fields is not None:
        hints = _hints(hint)
        own = sorted(f"{f.name}: {described(hints[f.name], f.kind)}" for f in fields)
        return "{" + ", ".join(own) + "}"
    if kind is NumberKind.PERSISTENT:  # A new group affects no other one.
        return f"{kind} {json.dumps({name: n for name, n in _UNTIMED.items() if n})}"
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return f"{described(_some(arguments), kind)} or null"
    if origin is tuple and arguments[-1] is Ellipsis:
        return f"[{described(arguments[0], kind)} ...]"
    if origin is tuple:
        return f"[{', '.join(described(each, kind) for each in arguments)}]"
    if origin is dict:
        return f"{{* : {described(arguments[1], kind)}}}"
    if issubclass(hint, enum.Enum):
        return f"one of {json.dumps(sorted(each.value for each in hint))}"
    names = {str: "text", bool: "truth", int: "integer", float: "number"}
    timed = hint in (int, float) and kind is not NumberKind.PLAIN
    return f"{names[hint]} ({kind})" if timed else names[hint]
