"""Watched directories: age of the newest complete file, duration and size of jobs, retention.

A file is complete when its size and st_mtime did not change between two polls. It arrived when it
last changed, by st_ctime (rsync sets st_mtime to that of the original), but after the poll before
it was first seen; a time in the future counts as the poll itself. A renamed file is not a new one.
Limits: only the 128 most recently changed files are followed; a job of less than two polls has the
duration 0, and one that runs at a restart has none.
"""

from __future__ import annotations

import itertools
import statistics
from dataclasses import field, replace
from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.filesystem.newest import CLOCK_TOLERANCE_SECONDS
from iowarden.collectors.model import Family, Sample
from iowarden.rules.signals.signal import SignalGroup

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from iowarden.collectors.filesystem.backups import WatchedDirectory
    from iowarden.collectors.filesystem.newest import File, Listing
    from iowarden.rules.signals.signal import Pairs, View

HOUR_SECONDS = 3600.0
DAY_SECONDS = 24 * HOUR_SECONDS
WEEK_SECONDS = 7 * DAY_SECONDS
LEARN_SECONDS = 14 * DAY_SECONDS
LEARN_FILES = 200
LEARN_WEEKS = 4
MIN_LIMIT_SECONDS = 900.0
GAP_FACTOR = 2.0
SHIFT_SECONDS = 1.5 * HOUR_SECONDS
"""Around a gap: daylight saving time moves the hours of a week by one, and polls come later."""
SHORT_GAP_SECONDS = MIN_LIMIT_SECONDS / GAP_FACTOR
"""A shorter gap between two files never changes the limit, and is not stored."""
SETTLED_SECONDS = 300.0
"""At the first poll, a file that has not changed for so long counts as complete."""
JOBS = 7
SAME_WEEKDAY = 4

FAMILIES = (
    Family(
        "iowarden_backup_age_seconds",
        "gauge",
        "Seconds since the newest complete file arrived; without one, since the directory is"
        " watched.",
    ),
    Family(
        "iowarden_backup_age_limit_seconds",
        "gauge",
        "Age of the newest complete file from which it is too old: configured, or learned.",
    ),
    Family(
        "iowarden_backup_age_critical_seconds",
        "gauge",
        "Age of the newest complete file from which it is critical; only with an interval.",
    ),
    Family(
        "iowarden_backup_learning_seconds",
        "gauge",
        "Seconds since the directory is watched, while there is no limit for the age: too few files"
        " to learn it from.",
    ),
    Family(
        "iowarden_backup_unchanged_seconds",
        "gauge",
        "Seconds since a file was last written, added or removed.",
    ),
    Family(
        "iowarden_backup_duration_seconds",
        "gauge",
        "Seconds from the first to the last byte of a file: of the one that is being written, else"
        " of the last one.",
    ),
    Family(
        "iowarden_backup_usual_duration_seconds",
        "gauge",
        "Median duration of the 7 files before, or of the 4 before of the same weekday if longer.",
    ),
    Family("iowarden_backup_size_bytes", "gauge", "Size of the last complete file."),
    Family(
        "iowarden_backup_usual_size_bytes",
        "gauge",
        "Smallest of the 4 files before the last one that began on the same weekday.",
    ),
    Family(
        "iowarden_backup_oldest_age_seconds", "gauge", "Age of the oldest file, by its st_mtime."
    ),
    Family(
        "iowarden_backup_retention_seconds",
        "gauge",
        "Age that the oldest file should have: as configured, less one interval.",
    ),
)
(
    _AGE,
    _LIMIT,
    _CRITICAL,
    _LEARNING,
    _UNCHANGED,
    _DURATION,
    _USUAL_DURATION,
    _SIZE,
    _USUAL_SIZE,
    _OLDEST,
    _RETENTION,
) = (family.name for family in FAMILIES)


class Version(NamedTuple):
    """A file as it was at a poll: another one once it was written to, the same one if renamed."""

    inode: int
    size_bytes: int
    modified_seconds: float


class Seen(NamedTuple):
    """State of a version of a file. Units: seconds of the program's clock."""

    complete: bool
    after_seconds: float = 0.0
    """It did not exist at this time."""
    began_seconds: float | None = None
    """When the file was first seen; None: it existed at the first poll, or was complete before."""


class Job(NamedTuple):
    """A file that was seen from its beginning. Units: seconds of the program's clock."""

    began_seconds: float
    duration_seconds: float
    size_bytes: float


@dataclass(frozen=True, slots=True)
class Track:
    """History of one directory. Units: seconds of the program's clock."""

    since_seconds: float
    """When it was first read."""
    changed_seconds: float
    """When a file was last written, added or removed."""
    arrived_seconds: float | None = None
    """When the newest complete file arrived."""
    arrived_files: int = 0
    """Files that arrived since it is watched."""
    gaps: Pairs = ()
    """End and length of the long gaps between two files; of each hour the longest."""
    recent: tuple[Job, ...] = ()
    weekdays: Mapping[int, tuple[Job, ...]] = field(default_factory=dict)
    """The last jobs by the weekday on which they began, in local time; 0: Monday."""
    polled_seconds: float = 0.0
    total: tuple[int, int] | None = None
    """Number and size of all files at the last poll; None: not polled since the start."""
    seen: Mapping[Version, Seen] = field(default_factory=dict)
    """The most recently changed files at the last poll."""
    full: bool = False
    """The directory has more files than `seen`."""


@dataclass(frozen=True, slots=True)
class BackupState:
    """Tracks by directory and glob, and stored ones that were not seen since the start."""

    tracks: Mapping[str, Track] = field(default_factory=dict)
    restored: Mapping[str, Pairs] = field(default_factory=dict)


def step(state: BackupState, view: View) -> tuple[BackupState, list[Sample] | None]:
    """Return the state and the series of every directory that could be read.

    A directory that is no longer configured is forgotten.
    """
    value = view.inputs.snapshot.backups
    if value is None:
        return state, None
    tracks: dict[str, Track] = {}
    samples: list[Sample] = []
    for each in value:
        key = f"{each.watched.path}/{each.watched.glob}"
        track = state.tracks.get(key) or _recalled(state.restored, key)
        listing, at = each.listing, each.at_seconds
        if listing is not None and (track is None or at > track.polled_seconds):
            track = follow(track, listing, at)
        if track is not None:
            tracks[key] = track
            if listing is not None:
                now = view.inputs.now_seconds
                samples += _samples(track, each.watched, listing, now)
    return BackupState(tracks), samples


def follow(before: Track | None, listing: Listing, at: float) -> Track:
    """Return the track after a poll at `at`."""
    track = Track(at, at) if before is None else before
    first = track.total is None
    seen: dict[Version, Seen] = {}
    new: list[tuple[float, File, Seen]] = []
    inodes = {version.inode: (version, known) for version, known in track.seen.items()}
    for file in listing.latest:
        version = Version(file.inode, file.size_bytes, file.modified_seconds)
        changed = _changed(file, listing, at)
        known = track.seen.get(version)
        if known is None and first:
            # Of a time in the future nothing follows; what was written lately may grow.
            known = Seen(changed is None or changed <= at - SETTLED_SECONDS)
            is_new = known.complete and changed is not None
        elif known is None:
            ranked_out = track.full and changed is not None and changed < track.polled_seconds
            began = _began(inodes.get(file.inode), version, at)
            known = Seen(ranked_out, track.polled_seconds, began)
            is_new = False
        else:
            is_new = not known.complete
            known = known._replace(complete=True)
        seen[version] = known
        if is_new:
            new.append((max(at if changed is None else changed, known.after_seconds), file, known))
    full = listing.files > len(listing.latest)
    overflow = full and not first and track.seen.keys().isdisjoint(seen)
    if overflow:
        # All were written since the last poll: the first of them is certainly complete.
        file = min(listing.latest, key=lambda each: each.changed_seconds)
        new = [(_changed(file, listing, at) or at, file, Seen(complete=True))]
    new.sort(key=lambda each: each[0])
    arrived = [each[0] for each in new]
    last = track.arrived_seconds
    # Whether no file can have arrived between the last one and these without being seen.
    exact = (
        not overflow
        and last is not None
        and (not (first and full) or any(moment <= last for moment in arrived))
    )
    total = (listing.files, listing.size_bytes)
    changed_seconds = track.changed_seconds
    if first:  # what was written while the service was stopped
        times = [_changed(file, listing, at) or 0.0 for file in listing.latest]
        changed_seconds = max([changed_seconds, *times])
    elif (total, seen.keys()) != (track.total, track.seen.keys()):
        changed_seconds = at
    track = replace(
        _with_jobs(track, listing, at, new),
        changed_seconds=changed_seconds,
        polled_seconds=at,
        total=total,
        seen=seen,
        full=full,
    )
    gaps = _gaps(track, arrived, at) if exact else track.gaps
    later = [moment for moment in arrived if last is None or moment > last]
    return replace(
        track,
        arrived_seconds=later[-1] if later else last,
        arrived_files=track.arrived_files + (len(later) if before is not None else 0),
        gaps=gaps,
    )


def _began(before: tuple[Version, Seen] | None, version: Version, at: float) -> float | None:
    """Return when the job began that writes a new version of a file; None: no job, or unknown.

    What is appended to a complete file is no job; one that is shorter than before was truncated, or
    is another file with the inode of a deleted one.
    """
    if before is None:
        return at
    was, known = before
    if known.complete:
        return at if version.size_bytes < was.size_bytes else None
    return known.began_seconds


def _changed(file: File, listing: Listing, at: float) -> float | None:
    """Return when a file last changed; None: that time is in the future."""
    ahead = file.changed_seconds - listing.realtime_seconds
    return None if ahead > CLOCK_TOLERANCE_SECONDS else at + min(ahead, 0.0)


def _with_jobs(
    track: Track, listing: Listing, at: float, new: Iterable[tuple[float, File, Seen]]
) -> Track:
    recent, weekdays = track.recent, dict(track.weekdays)
    for moment, file, known in new:
        if known.began_seconds is None:
            continue
        began = known.began_seconds
        job = Job(began, max(moment - began, 0.0), float(file.size_bytes))
        recent = (*recent, job)[-JOBS - 1 :]
        day = _weekday(began, listing, at)
        weekdays[day] = (*weekdays.get(day, ()), job)[-SAME_WEEKDAY - 1 :]
    return replace(track, recent=recent, weekdays=weekdays)


def _weekday(moment: float, listing: Listing, at: float) -> int:
    """Return the weekday of a time, by the machine's time zone; 0: Monday."""
    local = moment - at + listing.realtime_seconds + listing.utc_offset_seconds
    return int(local // DAY_SECONDS + 3) % 7  # 1970-01-01 was a Thursday


def _gaps(track: Track, arrived: Sequence[float], at: float) -> Pairs:
    """Return the long gaps of the last weeks, with those between these arrivals."""
    gaps = {ended // HOUR_SECONDS: (ended, length) for ended, length in track.gaps}
    last = track.arrived_seconds
    later = [moment for moment in arrived if last is not None and moment > last]
    for began, ended in itertools.pairwise([] if last is None else [last, *later]):
        hour = ended // HOUR_SECONDS
        if ended - began > max(SHORT_GAP_SECONDS, gaps.get(hour, (0.0, 0.0))[1]):
            gaps[hour] = (ended, ended - began)
    oldest = at - LEARN_WEEKS * WEEK_SECONDS - SHIFT_SECONDS
    return tuple(gap for gap in gaps.values() if gap[0] >= oldest)


def learned_limit(track: Track, now: float) -> float | None:
    """Return the age that is unusual at this hour of the week; None: too early to know."""
    if now - track.since_seconds < LEARN_SECONDS or track.arrived_files < LEARN_FILES:
        return None
    longest = max(
        (
            length
            for ended, length in track.gaps
            if any(
                ended - length - SHIFT_SECONDS
                <= now - weeks * WEEK_SECONDS
                <= ended + SHIFT_SECONDS
                for weeks in range(1, LEARN_WEEKS + 1)
            )
        ),
        default=0.0,
    )
    return max(MIN_LIMIT_SECONDS, GAP_FACTOR * longest)


def _samples(track: Track, watched: WatchedDirectory, listing: Listing, now: float) -> list[Sample]:
    found: dict[str, float | None] = {}
    newest = track.since_seconds if track.arrived_seconds is None else track.arrived_seconds
    found[_AGE] = max(now - newest, 0.0)
    found[_LIMIT] = watched.interval_seconds or learned_limit(track, now)
    found[_LEARNING] = None if found[_LIMIT] else now - track.since_seconds
    found[_CRITICAL] = watched.critical_seconds
    found[_UNCHANGED] = now - track.changed_seconds
    found[_DURATION], found[_USUAL_DURATION] = _durations(track, listing)
    found[_SIZE], found[_USUAL_SIZE] = _sizes(track)
    if listing.oldest_seconds is not None:
        found[_OLDEST] = listing.realtime_seconds - listing.oldest_seconds
    retention = watched.retention_seconds
    if retention is not None and now - track.since_seconds >= retention:
        found[_RETENTION] = retention - min(watched.interval_seconds or DAY_SECONDS, retention / 2)
    return [(name, watched.labels, value) for name, value in found.items() if value is not None]


def _durations(track: Track, listing: Listing) -> tuple[float | None, float | None]:
    """Return the duration of the current or last job, and the usual one if it is known."""
    at = track.polled_seconds
    running = [
        known.began_seconds
        for known in track.seen.values()
        if not known.complete and known.began_seconds is not None and known.began_seconds < at
    ]
    if running:
        began = min(running)
        duration, before = at - began, track.recent
        same = track.weekdays.get(_weekday(began, listing, at), ())
    elif track.recent:
        duration, before = track.recent[-1].duration_seconds, track.recent[:-1]
        same = _same_weekday(track)
    else:
        return None, None
    if len(before) < JOBS or len(same) < SAME_WEEKDAY:
        return duration, None
    usual = max(
        statistics.median(job.duration_seconds for job in jobs)
        for jobs in (before[-JOBS:], same[-SAME_WEEKDAY:])
    )
    return duration, usual


def _same_weekday(track: Track) -> tuple[Job, ...]:
    """Return the jobs before the last one that began on the same weekday."""
    last = track.recent[-1]
    return next((jobs[:-1] for jobs in track.weekdays.values() if jobs[-1] == last), ())


def _sizes(track: Track) -> tuple[float | None, float | None]:
    """Return the size of the last file, and the usual one: of weekdays with one file only."""
    if not track.recent:
        return None, None
    last, same = track.recent[-1], _same_weekday(track)
    apart = all(
        after.began_seconds - before.began_seconds > DAY_SECONDS
        for before, after in itertools.pairwise((*same, last))
    )
    if len(same) < SAME_WEEKDAY or not apart:
        return last.size_bytes, None
    return last.size_bytes, min(job.size_bytes for job in same)


def remember(state: BackupState) -> Mapping[str, Pairs]:
    """Return what is stored of every directory; a job is two pairs: its time, its size."""
    found: dict[str, Pairs] = dict(state.restored)
    for key, track in state.tracks.items():
        found[f"times {key}"] = (
            (track.since_seconds, float(track.arrived_files)),
            (track.changed_seconds, 0.0),
            (track.arrived_seconds or 0.0, 0.0),
        )
        found[f"gaps {key}"] = track.gaps
        found[f"recent {key}"] = _pairs(track.recent)
        found.update({f"{day} {key}": _pairs(jobs) for day, jobs in track.weekdays.items()})
    return found


def recall(state: BackupState, stored: Mapping[str, Pairs]) -> BackupState:
    """Return the stored state; what was seen since the start is only seconds old."""
    return BackupState({}, {**state.restored, **stored})


def _pairs(jobs: Iterable[Job]) -> Pairs:
    return tuple(
        pair
        for job in jobs
        for pair in ((job.began_seconds, job.duration_seconds), (0.0, job.size_bytes))
    )


def _jobs(pairs: Pairs) -> tuple[Job, ...]:
    return tuple(
        Job(began, duration, size)
        for (began, duration), (_, size) in zip(pairs[::2], pairs[1::2], strict=False)
    )


def _recalled(stored: Mapping[str, Pairs], key: str) -> Track | None:
    times = stored.get(f"times {key}", ())
    if len(times) != 3:
        return None
    (since, files), (changed, _), (arrived, _) = times
    return Track(
        since,
        changed,
        arrived or None,
        int(files),
        stored.get(f"gaps {key}", ()),
        _jobs(stored.get(f"recent {key}", ())),
        {day: _jobs(stored[f"{day} {key}"]) for day in range(7) if f"{day} {key}" in stored},
    )


GROUP = SignalGroup(
    name="backups",
    sources=("backups",),
    families=FAMILIES,
    step=step,
    initial=BackupState(),
    remember=remember,
    recall=recall,
)
