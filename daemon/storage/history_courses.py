"""Reads from history.db how values of drives developed: for the sparklines of the status page."""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import closing
from typing import TYPE_CHECKING

from iowarden.daemon.storage import sqlite

if TYPE_CHECKING:
    from collections.abc import Sequence

Courses = dict[str, dict[str, list[tuple[float, float]]]]
"""Unix times and values by drive and attribute."""
# By day, drive and attribute, as the key of 'daily' is: no row of other attributes is read.
_QUERY = """
    WITH RECURSIVE
        wanted AS (
            SELECT drive, identity, attribute, name FROM drive, attribute
            WHERE name IN (SELECT value FROM json_each(?1)) AND (?2 = '' OR identity = ?2)
        ),
        past (day) AS (
            SELECT MAX((SELECT MIN(day) FROM daily), ?3 / 86400)
            UNION ALL
            SELECT day + 1 FROM past WHERE day < (SELECT MAX(day) FROM daily)
        )
    SELECT identity, name, at_seconds, value FROM wanted
        CROSS JOIN changed USING (drive, attribute) WHERE at_seconds >= ?3
    UNION
    SELECT identity, name, at_seconds, value FROM wanted CROSS JOIN past CROSS JOIN daily
        USING (day, drive, attribute) WHERE at_seconds >= ?3
    ORDER BY at_seconds
"""


def read(path: str, attributes: Sequence[str], since_seconds: float, drive: str = "") -> Courses:
    """Return the stored values since a Unix time, of one drive or of all. Errors: sqlite.FAULTS."""
    found: Courses = defaultdict(lambda: defaultdict(list))
    with closing(sqlite.reading(path)) as connection:
        rows = connection.execute(
            _QUERY, (json.dumps([*attributes]), sqlite.encodable(drive), int(since_seconds))
        )
        for identity, name, at, value in rows:
            found[identity][name].append((float(at), float(value)))
    return found
