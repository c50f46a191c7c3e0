"""Kernel log: dmesg, the journal, syslog, '/dev/kmsg'."""

from __future__ import annotations

import re

from iowarden.collectors.kmsg import kernel_classifier, kernel_events, kernel_line
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.tool_output.parsed import SIGNS, LocatedEvent, Parsed, Tool, UnparsedLine

MAX_UNPARSED = 1000
"""Maximum unparsed lines that are listed."""


_TROUBLE = lazy_pattern(
    r"\b(?:errors?|fail\w*|time[d-]? ?out|abort\w*|offlin\w*|dead|fault\w*|corrupt\w*|lost|hung"
    r"|cannot|can't|unable|unrecover\w*|degraded|rejecting|warning|will reset|critical|shut ?down"
    r"|invalid|refus\w*|stuck|broken)\b",
    re.IGNORECASE,
)


def parse_kernel_log(text: str) -> Parsed:
    """Parse the storage events in lines of the kernel log."""
    state = kernel_classifier.Classifier()
    events: list[LocatedEvent] = []
    unread: list[UnparsedLine] = []
    held_at = others = count = 0
    asked = False
    for line in kernel_line.parse_text(text):
        count += 1
        before = state.pending_sense
        state, told = kernel_events.classify(state, line)
        if not told and state.pending_sense is before:
            others += 1
            trouble = line.priority is None or line.priority <= _WARNING
            if (
                trouble
                and len(unread) < MAX_UNPARSED
                and not line.facility
                and kernel_events.of_storage(line.text)
                and _TROUBLE.search(line.text)
            ):
                unread.append(
                    UnparsedLine("no known event matches this line", line.text, line.sequence)
                )
        events += [
            LocatedEvent(each, held_at if any(each is one for one in before) else line.sequence)
            for each in told
        ]
        if state.pending_sense is not before:
            held_at, asked = line.sequence, True  # also if the pending line is harmless
    events += [LocatedEvent(event, held_at) for event in kernel_events.finish(state)]
    known = events or unread or asked or SIGNS[Tool.KERNEL].search(text)
    if not known:
        unread.append(UnparsedLine("no line of it was recognized as a line of the kernel log"))
    return Parsed(
        Tool.KERNEL,
        events=tuple(events),
        outputs=("kernel log",) if known else (),
        unparsed=tuple(unread),
        lines=count,
        others=others,
    )


_WARNING = 4
"""KERN_WARNING."""
