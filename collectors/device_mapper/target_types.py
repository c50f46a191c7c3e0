"""Which targets each device of device-mapper consists of, by 'dmsetup table'.

The table takes no lock of a pool, writes nothing and answers while a pool hangs (drivers/md,
STATUSTYPE_TABLE of each target); 'dmsetup ls --target' queries the status of every device, and
without '--noflush'. Tables may hold keys, so the program runs inside the probe
(`query_target_types`), which returns names and types; the service reads that
(`read_target_types`).
"""

from __future__ import annotations

import json
import re
from dataclasses import field
from typing import TYPE_CHECKING, Any

from iowarden.collectors import probe_reply
from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.device_mapper.mapped_targets import VERB
from iowarden.collectors.device_mapper.target_status import split_line
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import ParseError
from iowarden.collectors.program import run_program

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.collectors.machine import Machine

_NO_DEVICES = "No devices found"
_COUNT = lazy_pattern(r"\d{1,4}", re.ASCII)


@dataclass(frozen=True, slots=True)
class TargetTypes:
    """The targets of each device by its name in '/dev/mapper', as the kernel has it.

    `queueing`: multipath maps, and whether their requests wait while no path works
    (queue_if_no_path).
    """

    targets: Mapping[str, tuple[str, ...]]
    queueing: Mapping[str, bool] = field(default_factory=dict)


def parse_tables(text: str) -> TargetTypes:
    """Parse the tables of all devices; an unknown target is left out.

    Errors: ParseError, where there is a text and no table.
    """
    targets: dict[str, tuple[str, ...]] = {}
    queueing = {}
    for line in text.splitlines():
        row = split_line(line)
        if row is None:
            continue
        name, _, _, target, arguments = row
        targets[name] = tuple(dict.fromkeys((*targets.get(name, ()), target)))
        if target == "multipath":
            words = arguments.split()
            count = int(words[0]) if words and _COUNT.fullmatch(words[0]) else 0
            queueing[name] = "queue_if_no_path" in words[1 : count + 1]
    if not targets and text.strip() not in {"", _NO_DEVICES}:
        raise ParseError(
            f"'dmsetup table': expected '<name>: <start> <length> <target> ...', got {text[:120]!r}"
        )
    return TargetTypes(targets, queueing)


def query_target_types(root: Machine, deadline_seconds: float) -> TargetTypes:
    """Run dmsetup for all devices. Called by the probe.

    Errors: AbsentError, ProgramNotFoundError, StuckError, DeadlineError, ReadError, ParseError.
    """
    return parse_tables(run_program(root, deadline_seconds, "dmsetup", "table"))


def to_json(types: TargetTypes) -> dict[str, Any]:
    """Return the answer to the verb, to be printed as JSON."""
    return {"targets": dict(types.targets), "queueing": dict(types.queueing)}


def from_json(text: str) -> TargetTypes:
    """Parse the JSON of `to_json`. Errors: ParseError."""
    try:
        found = json.loads(text)
        targets = probe_reply.field(dict, found, "targets")
        queueing = probe_reply.field(dict, found, "queueing")
        types = {name: probe_reply.field(list, targets, name) for name in targets}
        return TargetTypes(
            {name: tuple(map(str, found)) for name, found in types.items()},
            {name: probe_reply.field(bool, queueing, name) for name in queueing},
        )
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ParseError(
            f"probe '{VERB}': expected targets by device as JSON, got {text[:80]!r}:"
            f" {type(error).__name__}: {error}"
        ) from None


def read_target_types(root: Machine, deadline_seconds: float) -> TargetTypes:
    """Query the targets of all devices. Errors: as `query_target_types`."""
    return from_json(root.query_probe(VERB, deadline_seconds=deadline_seconds))
