"""Programs that the probe runs for a collector, and their output.

Source: the probe's answer to 'run', one JSON object: status, signal, stdout, stderr.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from iowarden.collectors.model import ParseError
from iowarden.collectors.probe_reply import field, optional

if TYPE_CHECKING:
    from iowarden.collectors.machine import Machine


def run_program(root: Machine, deadline_seconds: float, *command: str) -> str:
    """Return the output of a program that was not terminated by a signal.

    Errors: AbsentError, ReadError, ParseError.
    """
    return parse_output(root.query_probe("run", *command, deadline_seconds=deadline_seconds))


def parse_output(answer: str) -> str:
    """Parse the output of a program that the probe ran.

    That of a program that a signal terminated is refused: it may be truncated anywhere. Errors:
    ParseError.
    """
    try:
        found = json.loads(answer)
        optional(int, found, "status")
        signal = optional(int, found, "signal")
        output = field(str, found, "stdout") + field(str, found, "stderr")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ParseError(
            f"probe 'run': expected a program's output as JSON, got {answer[:80]!r}:"
            f" {type(error).__name__}: {error}"
        ) from None
    if signal is not None:
        raise ParseError(f"it was terminated by signal {signal}, and printed {output[:80]!r}")
    return output
