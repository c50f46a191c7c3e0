"""Incidents of backups and archived logs, played through the whole service."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from support.database import Database, subjects, threads
from support.live import text, watched

from iowarden.collectors.machine import probe_path

if TYPE_CHECKING:
    from pathlib import Path

ARCHIVE = probe_path("newest", ("/srv/wal", "*"))
DUMPS = [probe_path("newest", ("/srv/dump", f"{name}-*")) for name in ("db1", "db2")]
SETTINGS = "watch_directories: [{path: /srv/wal, interval: 5m, critical: 4h}]\n"


def archived(live: Database, inode: int, *places: str) -> dict[str, str]:
    """Return the probe's answer about archives whose newest file was written now."""
    at = live.wall
    size = 1 << 24
    file = {"inode": inode, "bytes": size, "changed_seconds": at, "modified_seconds": at}
    answer = {
        "realtime_seconds": at,
        "utc_offset_seconds": 3600,
        "mount_point": "/srv",
        "files": 1,
        "bytes": size,
        "oldest_seconds": at,
        "latest": [file],
        "truncated": "",
    }
    return dict.fromkeys(places or (ARCHIVE,), json.dumps(answer))


def test_postgresql_cannot_archive_its_logs(tmp_path: Path) -> None:
    """Wanted: one warning a quarter of an hour after the limit, resolved after the next log.

    In between the server of the archive is down for an hour: that is unknown, and not resolved.
    """
    live = Database(tmp_path)
    live._files |= archived(live, 1)
    with watched(tmp_path, live, settings=SETTINGS) as host:
        answer = dict(live._files)[ARCHIVE]
        opened = host.wait(1800, 20.0)
        (subject,) = subjects(opened)
        assert subject.startswith("[WARNING] /srv/wal: no new file for 20 min")
        assert "at most 5 min expected" in text(opened[0])
        assert "pg_stat_archiver" in text(opened[0])
        live.change({ARCHIVE: None})
        hidden = host.wait(4200, 20.0)
        assert subjects(hidden)[0].startswith("[WARNING] /srv/wal: DATA UNAVAILABLE")
        live.change({ARCHIVE: answer})
        host.wait(600, 20.0)
        live.change(archived(live, 2))
        resolved = host.wait(1300, 20.0)
    assert threads([*opened, *hidden, *resolved]) == threads(opened)
    (subject,) = subjects(resolved)
    assert subject.startswith("[OK] /srv/wal: resolved after 1 h 34 min; was: no new file")


def test_each_job_that_stops_is_reported_also_where_another_stopped_before(tmp_path: Path) -> None:
    """Wanted: one thread for the directory, with a mail when the second of its jobs stops."""
    live = Database(tmp_path)
    live._files |= archived(live, 1, *DUMPS)
    jobs = ", ".join(
        f"{{path: /srv/dump, glob: '{name}-*', interval: 30m, critical: 1d}}"
        for name in ("db1", "db2")
    )
    with watched(tmp_path, live, settings=f"watch_directories: [{jobs}]\n") as host:
        host.wait(1500, 20.0)
        live.change(archived(live, 2, DUMPS[1]))
        opened = host.wait(1800, 20.0)
        assert "db1-*" in subjects(opened)[0]
        second = host.wait(1800, 20.0)
    (mail,) = second
    assert "db2-*" in text(mail)
    assert threads([*opened, *second]) == threads(opened)
