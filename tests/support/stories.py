"""Stories for lives of the program: a machine before an event, during it, and after a restart."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

from support.areca import BOOT
from support.kmsg import BOOT_ID, Kernel, medium_error
from support.live import Live

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from iowarden.collectors.recording.recording import RecordingStep

AFTER_SECONDS = 90
"""Of each start after the event: a mail that waits for the end of a minute leaves meanwhile."""
HOUR_SECONDS = 3600.0


@dataclasses.dataclass
class Story:
    """Three recordings of one machine: before the event, during it, and after a restart."""

    before: list[RecordingStep]
    during: list[RecordingStep]
    after: list[RecordingStep]
    words: str
    """Texts that the mails must have."""
    later: list[list[RecordingStep]] = dataclasses.field(default_factory=list)
    """Recordings of further starts, each an hour after the one before."""


def told(
    live: Live,
    happen: Callable[[], None],
    words: str,
    during_seconds: int = 72,
    hours: int = 0,
) -> Story:
    """Cause an event on a healthy machine; record so long after it, and after the restarts."""
    live.restarted()
    live.wait(400)
    before = live.steps
    live.restarted()
    live.wait(12)
    during = live.steps
    happen()
    live.wait(during_seconds)
    live.restarted()
    live.wait(AFTER_SECONDS)
    after, later = live.steps, []
    for _ in range(hours):
        live.restarted(HOUR_SECONDS)
        live.wait(AFTER_SECONDS)
        later.append(live.steps)
    return Story(before, during, after, words, later)


def kernel_story(
    tmp_path: Path,
    sectors: tuple[int, ...],
    *,
    ring: bool,
    during_seconds: int = 72,
    hours: int = 0,
) -> Story:
    """A disk cannot read: the kernel reports it; `ring`: at the restart the ring buffer has it.

    `hours`: so many further starts are recorded, each an hour later.
    """
    live = Live(tmp_path)
    live.change(dict(BOOT))
    kernel = Kernel(live)
    kernel.says("sd 0:0:0:0: [sda] Attached SCSI disk", priority=6)

    def happen() -> None:
        kernel.says(*(medium_error(sector) for sector in sectors))

    story = told(live, happen, f"sector {sectors[0]}", during_seconds, hours)
    if ring:
        return story
    # By the restart the ring buffer has other messages, and the journal has the rest.
    entries = []
    for line in kernel.lines:
        number, at = line.split(",")[1:3]
        entries.append(
            {
                "cursor": f"s={number}",
                "realtime_seconds": live.wall - live.uptime() + int(at) / 1e6,
                "monotonic_seconds": int(at) / 1e6,
                "boot_id": BOOT_ID,
                "priority": 3,
                "message": line.partition(";")[2].strip(),
                "device": None,
                "subsystem": None,
            }
        )
    found = {"entries": entries, "gap": False, "more": False, "cursor": entries[-1]["cursor"]}
    later = round((live.uptime() - 60) * 1e6)
    first = story.after[0]
    files = {
        **first.files,
        "/.kmsg": f"6,5000,{later},-;eth0: link becomes ready\n".encode(),
        "/.probe/journal ": json.dumps(found).encode(),
    }
    story.after[0] = dataclasses.replace(first, files=files)
    return story
