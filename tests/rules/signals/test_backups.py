"""Backups and archived logs: what is too old, slow or small, and above all what is not."""

from __future__ import annotations

import datetime as dt
import math
from dataclasses import replace
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiers import examples

from iowarden.collectors.filesystem.backups import DirectoryState, WatchedDirectory
from iowarden.collectors.filesystem.newest import MAX_LATEST, File, Listing
from iowarden.rules.signals.filesystem import backups
from iowarden.rules.signals.filesystem.backups import BackupState
from iowarden.rules.signals.signal import Inputs, View
from iowarden.rules.snapshot import Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

MINUTE = 60.0
HOUR = 3600.0
DAY = 24 * HOUR
WEEK = 7 * DAY
POLL = 5 * MINUTE
GB = 10**9
MONDAY = dt.datetime(2026, 11, 23, tzinfo=dt.UTC).timestamp()
LEARNED = WatchedDirectory("/srv/wal")
NIGHTLY = WatchedDirectory("/srv/backup", "*.dump", 26 * HOUR, 52 * HOUR)


class Directory:
    """A directory as the probe reports it, and a service that watches it."""

    def __init__(self, watched: WatchedDirectory, now: float = MONDAY) -> None:
        self.watched = watched
        self.now = now
        self.files: dict[int, File] = {}
        self.offset_seconds = 0.0
        self.clock_seconds = 0.0
        """The machine's clock minus the program's."""
        self.state = BackupState()
        self.history: list[dict[str, float]] = []
        self.poll()

    def write(self, inode: int, size: int, modified: float | None = None) -> None:
        """Write to a file now; `modified`: a program sets this time, as rsync does."""
        now = self.now + self.clock_seconds
        self.files[inode] = File(inode, size, now, now if modified is None else modified)

    def rename(self) -> None:
        """Rename all files, as a rotation does: the kernel sets st_ctime."""
        self.files = {i: replace(f, changed_seconds=self.now) for i, f in self.files.items()}

    def listing(self) -> Listing:
        """Return what the probe reports now."""
        files = sorted(self.files.values(), key=lambda f: f.changed_seconds, reverse=True)
        now = self.now + self.clock_seconds
        past = [f.modified_seconds for f in files if f.modified_seconds <= now]
        return Listing(
            now,
            self.offset_seconds,
            "/srv",
            len(files),
            sum(f.size_bytes for f in files),
            min(past, default=None),
            tuple(files[:MAX_LATEST]),
            "",
        )

    def poll(self, *, readable: bool = True) -> dict[str, float]:
        """Read the directory; return the series by name without its prefix."""
        state = DirectoryState(self.watched, self.listing() if readable else None, self.now, "")
        view = View(Inputs(self.now, 1e6, Snapshot(backups=(state,))), None)
        self.state, samples = backups.GROUP.step(self.state, view)
        assert samples is not None
        assert all(labels == self.watched.labels for _, labels, _ in samples)
        self.history.append({n.removeprefix("iowarden_backup_"): value for n, _, value in samples})
        return self.history[-1]

    def wait(self, seconds: float, every: float = POLL) -> dict[str, float]:
        """Let time pass with its polls; return the last series."""
        found: dict[str, float] = {}
        for _ in range(round(seconds / every)):
            self.now += every
            found = self.poll()
        return found

    def restart(self) -> None:
        """Restart the service."""
        stored = backups.remember(self.state)
        self.state = backups.recall(BackupState(), stored)

    def job(self, inode: int, seconds: float, size: int, every: float = POLL) -> dict[str, float]:
        """Write one file for so long, and let two polls pass; return the last series."""
        for step in range(1, round(seconds / every) + 1):
            self.write(inode, size * step * every / seconds)  # type: ignore[arg-type]
            self.wait(every, every)
        self.write(inode, size)
        return self.wait(2 * every, every)


def archived(
    archive: Directory, until: float, works: Callable[[float], bool], every: float = 900.0
) -> list[tuple[float, float, float | None]]:
    """Archive a log of 16 MiB at each poll while the database works; the last 20 stay.

    Return time, age and limit at each poll.
    """
    found = []
    while archive.now < until:
        if works(archive.now):
            archive.write(int(archive.now), 2**24)
            archive.files.pop(min(archive.files) if len(archive.files) > 20 else 0, None)
        archive.now += every
        series = archive.poll()
        found.append((archive.now, series["age_seconds"], series.get("age_limit_seconds")))
    return found


def in_office_hours(now: float, hours_later: float = 0.0) -> bool:
    """Whether it is between 7 and 22 o'clock on a working day."""
    local = now - MONDAY - hours_later * HOUR
    return local % WEEK < 5 * DAY and 7 * HOUR <= local % DAY < 22 * HOUR


def too_old(found: Iterable[tuple[float, float, float | None]]) -> list[float]:
    """Return the times at which the newest file was older than the limit."""
    return [now for now, age, limit in found if limit is not None and age > limit]


def test_a_stopped_archiver_is_reported_and_a_quiet_night_and_a_weekend_are_not() -> None:
    """A database is quiet at night and at weekends; its archiver stops on a Wednesday at ten."""
    archive = Directory(LEARNED)
    stops = MONDAY + 5 * WEEK + 2 * DAY + 10 * HOUR
    found = archived(archive, stops, in_office_hours)
    assert [limit for now, _, limit in found if now < MONDAY + 2 * WEEK] == [None] * (14 * 96 - 1)
    assert too_old(found) == []
    quiet = max(age for now, age, _ in found if now > MONDAY + 4 * WEEK)
    assert quiet > 2 * DAY, "the weekend was observed with a limit in force"
    after = archived(archive, stops + 3 * HOUR, lambda _: False)
    assert too_old(after)[0] == stops + HOUR / 2, "the first poll past twice the usual 15 minutes"
    again = archive.now + HOUR / 2
    archived(archive, again, lambda _: True)
    after = archived(archive, again + 2 * HOUR, lambda _: False)
    assert too_old(after)[0] < again + HOUR, "the gap of just now is not what is usual now"


def test_the_learned_limit_is_twice_the_longest_gap_of_this_hour_in_four_weeks() -> None:
    """One gap of three hours counts for four weeks; what was learned is never critical."""
    archive = Directory(LEARNED)
    gap = MONDAY + 2 * WEEK + DAY + 10 * HOUR
    found = archived(
        archive, gap + 5 * WEEK + 2 * HOUR, lambda now: not gap < now < gap + 3 * HOUR, every=HOUR
    )
    limits = {now: limit for now, _, limit in found}
    within = gap + HOUR
    assert [limits[within + weeks * WEEK] for weeks in range(1, 6)] == [*[6 * HOUR] * 4, 2 * HOUR]
    assert limits[within + WEEK + 12 * HOUR] == 2 * HOUR, "at another hour"
    assert limits[within + WEEK + DAY] == 2 * HOUR, "on another day"
    assert "age_critical_seconds" not in archive.poll()


def test_a_limit_is_learned_from_14_days_and_200_files_and_at_least_15_minutes() -> None:
    """A log each minute: a reload of the database is no alert."""
    track = backups.Track(MONDAY, MONDAY, arrived_files=200)
    assert backups.learned_limit(track, MONDAY + 14 * DAY) == 900.0
    assert backups.learned_limit(track, MONDAY + 14 * DAY - 1) is None
    assert backups.learned_limit(replace(track, arrived_files=199), MONDAY + 14 * DAY) is None


def test_a_clock_that_is_set_back_stops_no_archive_and_makes_no_file_new() -> None:
    """By two days, after an hour: its files are from the future now, the next ones are not."""
    archive = Directory(LEARNED)
    archived(archive, MONDAY + HOUR, lambda _: True)
    archive.clock_seconds = -2 * DAY
    stopped = archived(archive, MONDAY + 3 * HOUR, lambda _: False)
    assert stopped[-1][1] == 2 * HOUR - 900, "since the poll that found the last one complete"
    working = archived(archive, MONDAY + 6 * HOUR, lambda _: True)
    assert {age for _, age, _ in working[1:]} == {2 * 900.0}, "complete at the second poll"
    archive.restart()
    assert archive.wait(HOUR)["age_seconds"] == HOUR + 900
    assert archive.history[-1].get("oldest_age_seconds", 0.0) >= 0.0


def test_daylight_saving_time_moves_the_night_by_an_hour() -> None:
    """Neither in the morning after it begins nor in the evening after it ends."""
    for hours_later in (-1.0, 1.0):
        archive = Directory(LEARNED)
        changes = MONDAY + 4 * WEEK - DAY
        found = archived(archive, changes, in_office_hours, every=1800.0)
        found += archived(
            archive,
            changes + 3 * DAY,
            lambda now, by=hours_later: in_office_hours(now, by),
            every=1800.0,
        )
        assert too_old(found) == []


def test_nothing_is_learned_from_few_files() -> None:
    """Fourteen days of a nightly backup are 14 files: no limit is better than a guess."""
    archive = Directory(replace(NIGHTLY, interval_seconds=None, critical_seconds=None))
    found = archived(archive, MONDAY + 16 * DAY, lambda now: now % DAY == 0, every=HOUR)
    assert {limit for _, _, limit in found} == {None}
    assert archive.wait(POLL)["learning_seconds"] >= 16 * DAY, "BackupLimitUnknown reports that"
    configured = Directory(NIGHTLY)
    assert "learning_seconds" not in configured.wait(POLL)


def test_a_file_is_complete_when_it_did_not_change_between_two_polls() -> None:
    """A dump that is written for six hours is no backup until it is finished."""
    backup = Directory(NIGHTLY)
    for step in range(72):
        backup.write(7, step * GB)
        series = backup.wait(POLL)
    assert series["age_seconds"] == 6 * HOUR, "since it is watched: there is no complete file"
    assert series["unchanged_seconds"] == 0.0
    assert series["duration_seconds"] == 6 * HOUR - POLL
    backup.wait(POLL)
    series = backup.wait(POLL)
    assert series["age_seconds"] == 3 * POLL, "since its last byte"
    assert series["unchanged_seconds"] == 2 * POLL


def test_rsync_keeps_the_time_of_the_original() -> None:
    """A file of last year that was copied now arrived now."""
    backup = Directory(NIGHTLY)
    backup.wait(HOUR)
    backup.write(7, GB, modified=MONDAY - 365 * DAY)
    assert backup.wait(2 * POLL)["age_seconds"] == 2 * POLL
    series = backup.wait(HOUR)
    assert series["age_seconds"] == HOUR + 2 * POLL
    assert series["oldest_age_seconds"] > 365 * DAY


def test_a_file_system_without_change_times_shows_a_copy_when_it_is_first_seen() -> None:
    """sshfs has only the time that rsync set: the file did not exist at the poll before."""
    backup = Directory(NIGHTLY)
    backup.wait(HOUR)
    backup.files[7] = File(7, GB, MONDAY - 365 * DAY, MONDAY - 365 * DAY)
    assert backup.wait(2 * POLL)["age_seconds"] == 2 * POLL, "it came between two polls"


def test_a_time_in_the_future_is_not_believed() -> None:
    """A wrong clock at the file server must neither hide nor cause an old backup."""
    backup = Directory(NIGHTLY)
    backup.files[1] = File(1, GB, MONDAY + 1000 * DAY, MONDAY + 1000 * DAY)
    backup = replaced(backup)
    series = backup.wait(DAY, HOUR)
    assert series["age_seconds"] == DAY, "of that file nothing is known"
    assert "oldest_age_seconds" not in series
    backup.files[2] = File(2, GB, MONDAY + 1000 * DAY, MONDAY + 1000 * DAY)
    assert backup.wait(2 * POLL)["age_seconds"] == 0.0, "a new one arrived when it was first seen"
    assert backup.wait(HOUR)["age_seconds"] == HOUR
    backup.restart()
    assert backup.wait(POLL)["age_seconds"] == HOUR + POLL


def replaced(backup: Directory) -> Directory:
    """Return a directory with these files that is watched from now on."""
    another = Directory(backup.watched, backup.now)
    another.files, another.state = backup.files, BackupState()
    another.poll()
    return another


def test_a_rotation_by_name_does_not_hide_that_the_job_stopped() -> None:
    """Each night backup.6 becomes backup.7, and the new backup.0 no longer comes."""
    backup = Directory(NIGHTLY)
    for number in range(7):
        backup.write(number, GB + number)
        backup.wait(DAY, HOUR)
    for _ in range(3):
        backup.rename()
        series = backup.wait(DAY, HOUR)
    assert series["age_seconds"] == 4 * DAY
    assert series["age_seconds"] > series["age_critical_seconds"]


def test_files_that_were_there_before_are_as_old_as_their_last_change() -> None:
    """At the first poll; but not one that may still be written."""
    backup = Directory(NIGHTLY)
    backup.files = {
        1: File(1, GB, MONDAY - 3 * DAY, MONDAY - 3 * DAY),
        2: File(2, GB, MONDAY - MINUTE, MONDAY - MINUTE),
    }
    backup = replaced(backup)
    assert backup.poll()["age_seconds"] == 3 * DAY
    assert backup.wait(POLL)["age_seconds"] == POLL + MINUTE


def test_an_empty_directory_is_as_old_as_its_watch() -> None:
    """And of its oldest file nothing is reported: absent is not zero."""
    series = Directory(NIGHTLY).wait(3 * DAY, HOUR)
    assert series["age_seconds"] == 3 * DAY
    assert series["unchanged_seconds"] == 3 * DAY
    assert series.keys() == {
        "age_seconds",
        "age_limit_seconds",
        "age_critical_seconds",
        "unchanged_seconds",
    }


def test_an_archive_with_more_files_between_two_polls_than_are_reported() -> None:
    """Under full load none of them is seen twice: the archive is not old because of that."""
    archive = Directory(LEARNED)
    ages = []
    for poll in range(30):
        for number in range(1, 301):
            at = archive.now + number
            archive.files[1000 * poll + number] = File(1000 * poll + number, 2**24, at, at)
        ages.append(archive.wait(POLL)["age_seconds"])
    assert max(ages[1:]) <= POLL


def test_an_old_file_is_not_new_because_newer_ones_were_removed() -> None:
    """Only the latest are reported; when some are deleted, older ones follow."""
    backup = Directory(NIGHTLY)
    for number in range(2 * MAX_LATEST):
        at = MONDAY - 10 * DAY - number
        backup.files[number] = File(number, GB, at, at)
    backup = replaced(backup)
    backup.wait(HOUR)
    for number in range(MAX_LATEST):
        del backup.files[number]
    assert backup.wait(HOUR)["age_seconds"] == 10 * DAY + 2 * HOUR


def test_a_gap_of_which_not_all_files_are_known_is_not_usual() -> None:
    """The service was stopped, or the directory unreadable, for ten hours with much work."""
    archive = Directory(LEARNED)
    archived(archive, MONDAY + DAY, lambda _: True)
    for restarts in (True, False):
        for number in range(1000):
            at = archive.now + 36 * number
            archive.files[number] = File(number, 2**24, at, at)
        archive.now += 10 * HOUR
        if restarts:
            archive.restart()
        archive.wait(POLL)
        gaps = backups.remember(archive.state)["gaps /srv/wal/*"]
        assert max(length for _, length in gaps) < HOUR


def test_a_directory_that_cannot_be_read_has_no_age() -> None:
    """It has no series, so its alerts are unknown; afterwards it is as old as it is."""
    backup = Directory(NIGHTLY)
    backup.write(1, GB)
    backup.wait(DAY, HOUR)
    backup.now += 2 * DAY
    assert backup.poll(readable=False) == {}
    assert backup.wait(POLL)["age_seconds"] == 3 * DAY + POLL
    empty = Directory(NIGHTLY)
    empty.wait(DAY, HOUR)
    empty.poll(readable=False)
    assert empty.wait(HOUR, HOUR)["age_seconds"] == DAY + HOUR


def nightly(backup: Directory, nights: int, seconds: Callable[[int], float], size: int) -> None:
    """Write a backup each night at one o'clock; day 0 is a Monday, the size that of a minute."""
    for night in range(nights):
        backup.wait(HOUR, HOUR / 2)
        length = seconds(night)
        backup.job(night + 1, length, int(size * length / MINUTE), HOUR / 4)
        backup.files.pop(night - 6, None)
        backup.wait(DAY - HOUR - length - HOUR / 2, HOUR / 4)


def full_on_sunday(night: int) -> float:
    """Return the duration: a full backup on Sundays, otherwise an incremental one."""
    return 8 * HOUR if night % 7 == 6 else HOUR


def test_a_backup_is_slow_while_it_is_written() -> None:
    """The dump that takes an hour is not finished after two; no need to wait for its end."""
    backup = Directory(NIGHTLY)
    nightly(backup, 28, lambda _: HOUR, GB)
    assert not any("usual_duration_seconds" in series for series in backup.history)
    backup.wait(HOUR, HOUR / 2)
    for step in range(1, 9):
        backup.write(99, step * GB)
        series = backup.wait(HOUR / 4, HOUR / 4)
    unseen = HOUR / 4
    assert series["usual_duration_seconds"] == HOUR - unseen
    assert series["duration_seconds"] == 2 * HOUR - unseen
    assert is_slow(series)


def is_slow(series: dict[str, float]) -> bool:
    """Whether the rule BackupSlow is true."""
    usual = series.get("usual_duration_seconds", math.inf)
    duration = series.get("duration_seconds", 0.0)
    return duration > 1.5 * usual and duration - usual >= 900


def is_shrunk(series: dict[str, float]) -> bool:
    """Whether the rule BackupShrunk is true."""
    return series.get("size_bytes", math.inf) < 0.5 * series.get("usual_size_bytes", 0.0)


def test_a_weekly_full_backup_is_neither_slow_nor_are_the_others_shrunk() -> None:
    """It is compared with those of its weekday; not before there are four."""
    backup = Directory(NIGHTLY)
    nightly(backup, 42, full_on_sunday, GB)
    assert any("usual_size_bytes" in series for series in backup.history)
    assert not any(is_slow(series) or is_shrunk(series) for series in backup.history)


def test_a_backup_with_less_than_half_of_its_size_is_reported_until_the_next() -> None:
    """The job ended after ten minutes: on a Tuesday, compared with four Tuesdays."""
    backup = Directory(NIGHTLY)
    nightly(backup, 29, lambda night: HOUR / 2 if night == 8 else full_on_sunday(night), GB)
    backup.wait(HOUR, HOUR / 2)
    series = backup.job(99, HOUR / 4, 10 * GB, HOUR / 4)
    assert (series["size_bytes"], series["usual_size_bytes"]) == (10 * GB, 30 * GB)
    assert is_shrunk(series)


def test_logs_are_not_compared_by_size() -> None:
    """A compressed log that was switched early has a thousandth of the usual size."""
    archive = Directory(LEARNED)
    for hour in range(24 * 36):
        archive.write(hour, 100 if hour % 7 else 2**24)
        archive.files.pop(hour - 20, None)
        assert "usual_size_bytes" not in archive.wait(HOUR, HOUR)


def test_a_backup_that_overwrites_its_file_is_a_job_and_a_log_that_grows_is_none() -> None:
    """'pg_dump > db.dump' truncates the same file; the job's log only grows."""
    backup = Directory(NIGHTLY)
    backup.job(1, HOUR, GB)
    backup.wait(HOUR)
    assert backup.job(1, HOUR / 2, GB)["duration_seconds"] == HOUR / 2 - POLL
    backup.wait(HOUR)
    for step in range(12):
        backup.write(1, GB + step)
        series = backup.wait(POLL)
    assert series["duration_seconds"] == HOUR / 2 - POLL


def test_retention_is_checked_once_the_directory_was_watched_for_so_long() -> None:
    """Seven daily files: the oldest is six days old just before the next one."""
    backup = Directory(replace(NIGHTLY, retention_seconds=7 * DAY))
    for night in range(14):
        backup.write(night, GB)
        backup.files.pop(night - 7, None)
        series = backup.wait(DAY, HOUR)
        assert ("retention_seconds" in series) == (night >= 6)
        assert series["oldest_age_seconds"] >= series.get("retention_seconds", 0.0)
    for night in range(7, 12):
        del backup.files[night]
    series = backup.wait(HOUR, HOUR)
    assert series["oldest_age_seconds"] < series["retention_seconds"] == 7 * DAY - 26 * HOUR


def test_a_restart_loses_nothing_that_was_learned() -> None:
    """What arrived, what is usual, and since when it is watched; a gap while it ran is known."""
    archive = Directory(LEARNED)
    until = MONDAY + 3 * WEEK + 23 * HOUR
    archived(archive, until, in_office_hours)
    before = archive.poll()
    assert before["unchanged_seconds"] == HOUR, "although number and size are as ever"
    archive.restart()
    assert archive.poll() == before
    found = archived(archive, until + 2 * WEEK, in_office_hours)
    assert too_old(found) == []
    backup = Directory(NIGHTLY)
    nightly(backup, 29, full_on_sunday, GB)
    backup.files.clear()
    before = backup.poll()
    backup.restart()
    assert backup.poll() == before
    backup.now += DAY
    backup.write(99, GB)
    backup.now += HOUR
    backup.restart()
    assert backup.poll()["unchanged_seconds"] == HOUR


def test_a_directory_that_is_no_longer_configured_is_forgotten() -> None:
    """What was stored of it is not stored for ever."""
    backup = Directory(NIGHTLY)
    backup.restart()
    backup.watched = LEARNED
    backup.poll()
    assert {key.partition(" ")[2] for key in backups.remember(backup.state)} == {"/srv/wal/*"}


FILES = st.builds(
    File,
    st.integers(1, 9),
    st.integers(0, 3),
    st.floats(MONDAY - DAY, MONDAY + DAY),
    st.floats(-1e12, 1e12),
)


@settings(max_examples=examples(50))
@given(st.lists(st.lists(FILES, max_size=6, unique_by=lambda f: f.inode), max_size=8))
def test_whatever_a_file_server_reports_is_a_plausible_number(polls: list[list[File]]) -> None:
    """Files come, go, shrink, and have any times: no age is negative or infinite."""
    backup = Directory(replace(NIGHTLY, retention_seconds=HOUR))
    for files in polls:
        backup.files = {file.inode: file for file in files}
        series = backup.wait(HOUR, HOUR)
        assert all(value >= 0.0 and math.isfinite(value) for value in series.values())
        stored = backups.remember(backup.state)
        assert backups.remember(backups.recall(BackupState(), stored)) == stored
