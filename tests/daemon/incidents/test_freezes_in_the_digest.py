"""Short waits that nobody has to get up for, from the kernel's files to the weekly digest."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from support.blocked_server import backend
from support.live import Live, text, watched

from iowarden.collectors.procfs.tasks import BlockedTask, BlockedTasks, to_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

DAY = 86_400.0
PERIOD, BLOCKED = 1200, 7


def blocked(live: Live, tasks: Sequence[BlockedTask]) -> None:
    """Let a second pass in which these tasks are blocked."""
    seen = BlockedTasks(tuple(tasks), len(tasks), boot_seconds=live.uptime() + 1.0)
    stat = (
        "cpu  1 0 1 1 1 0 0 0 0 0\nintr 0\nctxt 0\nbtime 1799999000\nprocesses 1\n"
        f"procs_running 1\nprocs_blocked {len(tasks)}\n"
    )
    live.change({"/proc/stat": stat, "/.probe/tasks": json.dumps(to_json(seen))})


def test_a_storm_of_short_waits_each_20_minutes_is_a_line_of_the_weekly_digest(
    tmp_path: Path,
) -> None:
    """25 database processes are blocked for 7 s, three times: no mail of its own."""
    live = Live(tmp_path)
    live.change({"/sys/block/md0/dev": "9:0\n"})
    with watched(tmp_path, live) as host:
        host.wait(60)
        for number in range(3):
            for _ in range(BLOCKED):
                blocked(live, [backend(n, number) for n in range(25)])
            blocked(live, ())
            assert host.wait(PERIOD - BLOCKED, 20.0) == []
        for _ in range(7):
            live.leap(DAY, DAY)
            live.wait(8)
        (digest,) = host.wait(60)
    assert "DIGEST" in digest["Subject"]
    line = re.search(
        r"notice Freeze md0: programs waited for this device for 4 s or longer, 3 times or more"
        r" within (\d+) min[^,]*, for (\d+) s in all, resolved",
        text(digest),
    )
    assert line is not None, text(digest)
    assert int(line[1]) == pytest.approx(2 * PERIOD / 60, abs=1)
    assert 3 * (BLOCKED - 2) <= int(line[2]) <= 3 * (BLOCKED + 2)
