"""The last 15 minutes of a value, as a mail shows them."""

from __future__ import annotations

import math

from iowarden.collectors.model import Chunk, Family
from iowarden.rules.notices.courses import CELLS, MAX_SERIES, Courses
from iowarden.rules.notices.metric_titles import COURSES

HANG, QUEUED = "iowarden_device_hang_seconds", "iowarden_writeback_queued_bytes"
SDA = (("device", "sda"),)
GAP = [None] * CELLS


def chunks(*values: tuple[str, tuple[tuple[str, str], ...], float]) -> list[Chunk]:
    """Return samples as the hub exposes them."""
    return [Chunk(f"c{n}", 1, ((Family(v[0], "", "gauge"), (v,)),)) for n, v in enumerate(values)]


def test_a_course_ends_with_the_present_value() -> None:
    """One value every 30 s; what was before the start is not zero but not measured."""
    courses = Courses()
    for second in range(95):
        courses.take(chunks((HANG, SDA, float(second))), 3000.0 + second)
    assert courses.cells(HANG, SDA, 94.5, 3094.5) == [*GAP[:26], 0.0, 30.0, 60.0, 94.5]
    course = courses.course(HANG, SDA, 94.5, 3094.5, 30.0)
    assert course is not None
    assert (course.minimum, course.maximum, course.threshold) == ("0 s", "1 min 34 s", 30.0)


def test_what_was_not_read_is_a_gap_and_15_minutes_ago_is_forgotten() -> None:
    """iowarden was stopped, or the disk was away, for two minutes."""
    courses = Courses()
    for second in (0, 30, 180):
        courses.take(chunks((HANG, SDA, second + 1.0)), 3000.0 + second)
    courses.take(chunks((QUEUED, (), 5.0)), 3210.0)
    cells = courses.cells(HANG, SDA, 300.0, 3240.0)
    assert cells == [*GAP[:21], 1.0, 31.0, None, None, None, None, 181.0, None, 300.0]
    assert courses.cells(HANG, SDA, 9.0, 3210.0 + 40 * 30)[:-1] == GAP[:-1]
    assert courses.cells(HANG, SDA, math.inf, 3240.0)[-1] is None


def test_a_flat_course_is_none() -> None:
    """A picture of a line that does not move has nothing to say; an unknown series has no past."""
    courses = Courses()
    for second in (0, 30, 60):
        courses.take(chunks((HANG, SDA, 0.0), ("iowarden_disks", (), second)), 3000.0 + second)
    assert courses.course(HANG, SDA, 0.0, 3090.0, 30.0) is None
    assert courses.course(HANG, (("device", "sdb"),), 1.0, 3090.0, 30.0) is None
    assert courses.course("iowarden_disks", (), 1.0, 3090.0, None) is None
    assert "iowarden_disks" not in COURSES


def test_a_clock_that_was_set_back_begins_anew() -> None:
    """Values of a time that has not come yet are not shown."""
    courses = Courses()
    courses.take(chunks((HANG, SDA, 7.0)), 9000.0)
    courses.take(chunks((HANG, SDA, 8.0)), 3000.0)
    assert courses.cells(HANG, SDA, 9.0, 3030.0) == [*GAP[:28], 8.0, 9.0]


def test_disks_that_come_and_go_need_no_more_memory() -> None:
    """Loop devices of containers: a thousand new names an hour."""
    courses = Courses()
    for number in range(3000):
        name = (("device", f"loop{number}"),)
        courses.take(chunks((HANG, SDA, float(number)), (HANG, name, 1.0)), 30.0 * number)
    assert courses.series < 400
    assert courses.cells(HANG, SDA, 3000.0, 90_000.0) == [float(n) for n in range(2971, 3001)]
    many = [(HANG, (("device", f"sd{n}"),), 1.0) for n in range(MAX_SERIES + 500)]
    courses.take([Chunk("c", 1, ((Family(HANG, "", "gauge"), tuple(many)),))], 90_030.0)
    assert courses.series == MAX_SERIES
