"""Start and abort the self-test of one drive, and classify the reply.

Source: smartctl(8) 7.3, '-t' and '-X'; its messages: smartmontools, ataprint.cpp, scsiprint.cpp,
nvmeprint.cpp. A drive in standby is woken by either.
"""

from __future__ import annotations

import enum
import json
import re
from typing import TYPE_CHECKING

from iowarden.collectors import json_text
from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import AbsentError, ReadError, StuckError, trace
from iowarden.collectors.probe_reply import field, optional

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.collectors.machine import Machine
    from iowarden.collectors.smart.drive import AccessMethod

DEADLINE_SECONDS = 120.0
"""For a drive that spins up first, behind a controller where others are queried."""
_NOT_STARTED_MASK = 0b11
"""Bits of smartctl's exit status: invalid command line, or the drive could not be opened."""
_UNABLE = lazy_pattern(r"not supported|does not support|unsupported|not implemented", re.IGNORECASE)
_MAX_CHARACTERS = 300
_BEGUN = lazy_pattern(r"\bhas begun\b")
_RUNS = lazy_pattern(r"Can't start self-test without aborting")
_ABORTED = lazy_pattern(r"\baborted!|Self Test returned without error")
_FRAME = lazy_pattern(r"smartctl \d|Copyright |=== |Sending command|Use smartctl |\s*$")


class SelfTestOutcome(enum.StrEnum):
    """Outcome of a command."""

    DONE = "done"
    RUNS = "runs"
    """Another self-test is running, and was not aborted."""
    REFUSED = "refused"
    """The drive, or its controller, does not support it."""
    FAILED = "failed"
    """The command did not reach the drive."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Outcome of a command, and the reason in smartctl's words."""

    outcome: SelfTestOutcome
    text: str = ""


def begin(root: Machine, target: AccessMethod, kind: str) -> Reply:
    """Start a self-test: 'short', 'long', 'conveyance', 'offline'; every outcome is a Reply."""
    return _run(root, target, ("-t", kind), _BEGUN)


def abort(root: Machine, target: AccessMethod) -> Reply:
    """Abort the self-test of a drive; every outcome is a Reply."""
    return _run(root, target, ("-X",), _ABORTED)


def _run(
    root: Machine, target: AccessMethod, action: tuple[str, ...], done: re.Pattern[str]
) -> Reply:
    kind = ("-d", target.kind) if target.kind else ()
    words = ("smartctl", "--json=co", *kind, *action, target.path)
    try:
        return classify_reply(
            root.query_probe("run", *words, deadline_seconds=DEADLINE_SECONDS), done
        )
    except (AbsentError, ReadError, StuckError) as error:
        return Reply(SelfTestOutcome.FAILED, str(error))
    except Exception as error:  # noqa: BLE001 - a bug is a Reply, too
        return Reply(SelfTestOutcome.FAILED, f"bug: {trace(error)}")


def classify_reply(content: str, done: re.Pattern[str] = _BEGUN) -> Reply:
    """Classify the probe's answer; `done` is smartctl's message of success."""
    try:
        value = json.loads(content)
        status, signal = optional(int, value, "status"), optional(int, value, "signal")
        output, errors = field(str, value, "stdout"), field(str, value, "stderr")
    except (KeyError, TypeError, ValueError) as error:
        return Reply(SelfTestOutcome.FAILED, f"expected the probe's answer, got: {error}")
    lines = list(_lines(output)) or [line for line in errors.splitlines() if line.strip()]
    whole = "\n".join(lines)
    said = " ".join(line.strip() for line in lines if not _FRAME.match(line))[:_MAX_CHARACTERS]
    if done.search(whole):
        return Reply(SelfTestOutcome.DONE, said)
    if _RUNS.search(whole):
        return Reply(SelfTestOutcome.RUNS, said)
    if status is None:
        return Reply(SelfTestOutcome.FAILED, f"smartctl was terminated by signal {signal}")
    reason = said or f"smartctl printed nothing, its exit status is {status}"
    failed = status & _NOT_STARTED_MASK and not _UNABLE.search(reason)
    return Reply(SelfTestOutcome.FAILED if failed else SelfTestOutcome.REFUSED, reason)


def _lines(output: str) -> Iterator[str]:
    """Yield the text lines in smartctl's JSON, else its messages; other text unchanged."""
    try:
        smartctl = {} if json_text.is_deep(output) else json.loads(output)["smartctl"]
        messages = [message["string"] for message in smartctl.get("messages", ())]
        yield from map(str, smartctl.get("output") or messages)
    except (KeyError, TypeError, ValueError, AttributeError):
        yield from output.splitlines()
