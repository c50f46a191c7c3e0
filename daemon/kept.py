"""What survives a restart: alerts, incidents, and what signals remember. Pure."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from iowarden.daemon import codec
from iowarden.daemon.clock import PLAUSIBLE_SECONDS
from iowarden.daemon.files_hit import Hit
from iowarden.daemon.happenings import Cursors
from iowarden.daemon.probe.protocol import Stuck
from iowarden.rules.alerts import Alert
from iowarden.rules.devices import Devices
from iowarden.rules.digest import Digest
from iowarden.rules.happened import Happened
from iowarden.rules.incidents import Incident, Incidents, first_mail, unwatched
from iowarden.rules.self_tests import Runs
from iowarden.rules.signals.table import Memory
from iowarden.rules.silences import Silences

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from iowarden.rules.signals.table import Pairs


@dataclass(frozen=True, slots=True)
class Kept:
    """Each field is a document of state.db; `install` is the installation's random identifier.

    `wall_ahead_seconds`: by how much the wall clock was ahead of the program's, in which all times
    here are: it was stepped, or the machine slept.
    """

    install: str = ""
    alerts: tuple[Alert, ...] = ()
    incidents: dict[str, Incident] = field(default_factory=dict)
    sequences: dict[str, int] = field(default_factory=dict)
    signals: Memory = field(default_factory=Memory)
    devices: Devices = field(default_factory=Devices)
    digest: Digest = field(default_factory=Digest)
    silences: Silences = field(default_factory=Silences)
    self_tests: Runs = field(default_factory=dict)
    stuck: tuple[Stuck, ...] = ()
    happened: Happened = field(default_factory=Happened)
    cursors: Cursors = field(default_factory=Cursors)
    hits: tuple[Hit, ...] = ()
    wall_ahead_seconds: float = 0.0


_TYPES: Mapping[str, Any] = {
    "install": str,
    "alerts": tuple[Alert, ...],
    "incidents": dict[str, Incident],
    "sequences": dict[str, int],
    "signals": Memory,
    "devices": Devices,
    "digest": Digest,
    "silences": Silences,
    "self_tests": Runs,
    "stuck": tuple[Stuck, ...],
    "happened": Happened,
    "cursors": Cursors,
    "hits": tuple[Hit, ...],
    "wall_ahead_seconds": float,
}


_OTHER_CLOCKS = ("realtime", "monotonic", "clock", "period")
"""Fields beginning with these are no times of the program's clock."""


def documents(kept: Kept, *, without: Container[str] = ()) -> dict[str, str]:
    """Return each field as JSON text by its name, but those named in `without`."""
    return {name: codec.encode(getattr(kept, name)) for name in _TYPES if name not in without}


def read(texts: Mapping[str, str], now: float) -> tuple[Kept, dict[str, str]]:
    """Return what documents hold, and by name why one of them could not be read.

    Times are moved to what the wall clock said last, which this start's program's clock follows. A
    time after `now` is now: the clock was set back since, and what lies in the future would not end
    before it has come. So is one of a clock that nobody had set: how long it is ago is not known.
    """
    values: dict[str, Any] = {}
    problems: dict[str, str] = {}
    for name, cls in _TYPES.items():
        if name in texts:
            try:
                values[name] = codec.decode(cls, texts[name])
            except codec.CodecError as error:
                problems[name] = f"state: document '{name}': {error}; starting without it"
    ahead = values.get("wall_ahead_seconds", 0.0)
    values = {name: _moved(value, ahead, now) for name, value in values.items()}
    return Kept(**values), problems


def merged(ours: Incidents, kept: Kept, now: float) -> Incidents:
    """Return our incidents with those that were kept.

    Where both know a key, the file was late: ours goes on, in both threads.
    """
    by_key = unwatched(kept.incidents, now)
    for key, own in ours.by_key.items():
        before = by_key.get(key)
        if before is not None and before.mails and not own.mails:
            continue  # nothing was told yet: the thread of before goes on
        by_key[key] = own if before is None or not before.mails else _in_both_threads(own, before)
    sequences = dict(kept.sequences)
    for key, number in ours.sequences.items():
        sequences[key] = max(number, sequences.get(key, 0))
    return Incidents(by_key, sequences)


def _in_both_threads(own: Incident, before: Incident) -> Incident:
    return replace(
        own,
        references=(*first_mail(own), *first_mail(before)),
        advised=tuple(dict.fromkeys((*own.advised, *before.advised))),
    )


def _moved(value: Any, ahead: float, now: float, name: str = "") -> Any:  # noqa: ANN401 - any kept value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return replace(
            value,
            **{
                f.name: _moved(getattr(value, f.name), ahead, now, f.name)
                for f in dataclasses.fields(value)
            },
        )
    if name == "groups" and isinstance(value, tuple):
        return _moved_pairs(value, ahead, now)
    if isinstance(value, tuple):
        return tuple(_moved(item, ahead, now, name) for item in value)
    if isinstance(value, dict):
        return {key: _moved(item, ahead, now, name) for key, item in value.items()}
    if name.startswith(_OTHER_CLOCKS):
        return value
    if isinstance(value, float) and (name.endswith("_seconds") or name == "recent_firings"):
        return _moment(value, ahead, now)
    return value


def _moment(at: float, ahead: float, now: float) -> float:
    moved = at + ahead
    return now if moved > now or moved < PLAUSIBLE_SECONDS <= now else moved


def _moved_pairs(pairs: Pairs, ahead: float, now: float) -> Pairs:
    """Return what a signal kept: the first of a pair is a time when it is as large as one.

    All are moved alike: what lies between them is what was learnt.
    """
    latest = max((at for at, _ in pairs if at > PLAUSIBLE_SECONDS), default=now) + ahead
    by = ahead - max(latest - now, 0.0)
    return tuple((at + by if at > PLAUSIBLE_SECONDS else at, value) for at, value in pairs)
