"""All drives of a machine: when each is asked, and what is known of it.

A poll takes from milliseconds to minutes, and one that hangs must not keep the others: each
controller has a queue of its own, worked off by threads that end when nothing is due. What is known
is there at once, whoever looks.

Of a recorded machine nothing runs: a drive is asked when its period is over, or when the recording
has another answer. What never came is recorded, too, as what came of asking.
"""

from __future__ import annotations

import re
import threading
import zlib
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from iowarden.collectors import json_text
from iowarden.collectors.block import block_devices
from iowarden.collectors.machine import PROBE, probe_path
from iowarden.collectors.model import AbsentError, ReadError, trace
from iowarden.collectors.raid.areca import areca_smart
from iowarden.collectors.smart import discovery, identity, smartctl_runner
from iowarden.collectors.smart.drive import Cover, Disk, Disks, Polled, Target

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from iowarden.collectors.block.block_devices import Topology
    from iowarden.collectors.machine import Root
    from iowarden.collectors.smart.discovery import ConfiguredDrive, Found, Uncovered
    from iowarden.collectors.smart.drive import Drive
    from iowarden.collectors.smart.options import Options
    from iowarden.collectors.smart.smartctl_runner import Answer

    Find = Callable[[Root, Topology, Sequence[ConfiguredDrive]], Found]

FIND_SECONDS = 600.0
AGAIN_SECONDS = 60.0
"""So soon is looked again for a smartctl, or a probe, that was missing."""
FIRST_SECONDS = 5.0
"""The first look waits so long for what is known soon."""
MOST_AT_ONCE = 8
"""So many drives are asked when they are found; more are spread."""
MOST_THREADS = 16
DIRECT_LANES = 2
"""Programs at a time at a controller that hides no disk; at one that does it is one."""
OTHER_WAY_SECONDS = 86_400.0
"""How often another way to a disk is tried while a better one answers."""
RETRY_SECONDS = 60.0
"""After a failure that is not the drive's; doubled up to its period."""
SOON_SECONDS = 60.0
"""No event has a drive asked more often."""
LATE_AGAIN = 2
"""One that was late so often in a row is asked less from then on."""
HELD_PERIODS = 3
MOST_TOLD_BYTES = 2 * 1024 * 1024
"""Of the flight recorder's memory: some 80 drives."""
MOST_DEADLINES = 4
"""So many times the usual deadline is given to a drive that needs it."""

_PROFILES = tuple(smartctl_runner.PROFILES)
_WATCHED = ("/sys/class/nvme", "/sys/class/scsi_generic")
"""What comes and goes there, and in '/sys/block', is reason to look for drives anew."""
_PROBE = PROBE.rstrip("/")
_DISK = re.compile(r"sd[a-z]+|nvme\d+n\d+")
_HANGS_SECONDS = 120.0
_GOOD = frozenset({Cover.READ, Cover.ASLEEP})


@dataclass(frozen=True, slots=True)
class _Looked:
    """What one look for drives came to; `seen` is what it read, for who records."""

    found: Found | None = None
    topology: Topology | None = None
    problem: str = ""
    unusable: Answer | None = None
    seen: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class _Way:
    """A target, and what is remembered of it. Units: seconds of the program's clock."""

    polled: Polled
    known: identity.Way
    due: float
    diskseq: str
    """Of its device: another one is another disk by the same name."""
    fixed: bool = False
    """It is never asked: what it is, is known."""
    best: bool = True
    busy: bool = False
    deadlines: float = 1.0
    """How many times the usual deadline it is given."""
    profile: int = 0
    lates: int = 0
    failures: int = 0
    lessened: str = ""
    """Why it is asked less."""
    alive_seconds: float = 0.0
    """When it was read last, or seen asleep."""
    asleep_seconds: float | None = None
    text: tuple[str, bytes] = ("", b"")
    beside: tuple[tuple[str, bytes], ...] = ()
    """Of another program that was asked as well."""
    refused: Answer | None = None
    """What smartctl was late with while another program answered: it is left out for a day."""
    refused_seconds: float = 0.0

    @property
    def target(self) -> Target:
        """Return how it is asked."""
        return self.polled.target


class SmartPoller:
    """All drives of one machine. `read` is for one thread, the rest for any."""

    def __init__(
        self,
        options: Options,
        clock: Callable[[], float],
        find: Find | None = None,
        most_told_bytes: float = float("inf"),
    ) -> None:
        """Ask nothing yet. `clock` is the program's; `find` says what drives there are.

        `most_told_bytes`: of drives' texts, for who records; those that failed and the newest are
        told first.
        """
        self._most_told_bytes = most_told_bytes
        self._options = options
        self._clock = clock
        self._find: Find = find or discovery.find
        self._lock = threading.Condition()
        # All that follows under the lock, which nobody holds while something is read:
        self._root: Root | None = None
        self._ways: dict[Target, _Way] = {}
        self._lanes: dict[str, int] = {}
        self._busy: Counter[str] = Counter()
        """Programs at work, by controller."""
        self._threads = 0
        self._listed: dict[str, tuple[str, ...]] = {}
        self._look_at = float("-inf")
        self._looking_since: float | None = None
        self._look_hangs = False
        self._only_program = False
        """The next look is for smartctl, which was missing, and not for drives."""
        self._looked: _Looked | None = None
        self._looked_seconds: float | None = None
        self._disks = Disks({})
        self._changed = True

    def read(self, root: Root) -> Disks:
        """Return what is known of every drive, and see to it that what is due is asked.

        Errors: AbsentError (also of a recording without a word of smartctl), ReadError.
        """
        listed = _listed(root)
        if root.path and not any(name.startswith("run smartctl ") for name in listed[_PROBE]):
            raise AbsentError(f"'{_PROBE}/run smartctl': not in the recording")
        with self._lock:
            now, first = self._clock(), not self._listed
            if listed != self._listed:
                self._listed, self._look_at, self._only_program = listed, now, False
            self._root = root
        if root.path:
            self._play(root, now)
        else:
            self._begin(now)
            if first:
                self.settled(FIRST_SECONDS)
        with self._lock:
            if not root.path:
                root.tell(self._texts())
            return self._result(self._clock())

    def ask_soon(self, names: Collection[str]) -> None:
        """Have disks asked now, by their key or a name of the kernel: 'sda', 'nvme0', 'bus/0'.

        One that hangs, or was asked a minute ago, waits for its turn. What comes of it is in the
        next value but for what takes longer.
        """
        wanted = set(names)
        with self._lock:
            now = self._clock()
            for disk in self._disks.by_key.values():
                for target in (disk.polled.target, *disk.others):
                    own = {disk.key, target.device, target.path.removeprefix("/dev/")}
                    way = self._ways.get(target)
                    if way is None or way.polled.cover is Cover.STUCK or not wanted & own:
                        continue
                    tried = way.polled.tried_seconds
                    if way.best and (tried is None or now - tried >= SOON_SECONDS):
                        way.due = min(way.due, now)
        self._begin(now)

    def settled(self, timeout_seconds: float) -> bool:
        """Wait until drives were looked for and nothing is due; return whether it came to that."""
        with self._lock:
            return self._lock.wait_for(self._is_settled, timeout_seconds)

    def configure(self, options: Options) -> None:
        """Take other options; drives are looked for anew."""
        with self._lock:
            self._options, self._look_at = options, float("-inf")
            self._only_program = False
            now = self._clock()
            for way in self._ways.values():
                self._set_period(way, now)
            self._changed = True

    # --- threads

    def _begin(self, now: float) -> None:
        """Start threads for what is due."""
        with self._lock:
            if self._root is None or self._root.path:
                return
            if self._looking_since is None and now >= self._look_at:
                self._looking_since = now
                # Ahead of the end of the look: a change meanwhile is reason for another.
                self._look_at = now + FIND_SECONDS
                self._start(self._look)
            due = Counter(_controller(way.target) for way in self._due(now))
            lanes = sum(min(n, self._lanes[c] - self._busy[c]) for c, n in due.items())
            for _ in range(min(lanes, MOST_THREADS - self._threads)):
                self._threads += 1
                self._start(self._work)

    def _start(self, run: Callable[[], None]) -> None:
        threading.Thread(target=run, name="smart", daemon=True).start()

    def _look(self) -> None:
        """Look for drives once, in a thread: sysfs and controllers may hang."""
        seen: dict[str, bytes] = {}
        root = self._another(seen.__setitem__)
        with self._lock:
            age = self._clock() - (self._looked_seconds or 0.0)
            former = self._looked if self._only_program and age < FIND_SECONDS else None
        looked = _look(root, self._find, self._options.drives, seen, former)
        root.close()
        with self._lock:
            self._looking_since, self._look_hangs = None, False
            self._take_over(looked, self._clock())
            self._lock.notify_all()
        self._begin(self._clock())

    def _work(self) -> None:
        """Ask what is due, one after the other, until nothing is."""
        root = self._another()
        while (way := self._next()) is not None:
            words, wake = self._words(way)
            began = self._clock()
            deadline_seconds = way.deadlines * self._options.deadline_seconds
            said = self._without(way, began) or smartctl_runner.ask(
                root, way.target, words, deadline_seconds
            )
            answer = areca_smart.otherwise(root, way.target, said)
            with self._lock:
                way.busy = False
                self._busy[_controller(way.target)] -= 1
                self._mind_refusal(way, said, answer, began)
                self._finish(way, answer, began, wake=wake)
                self._lock.notify_all()
        root.close()

    def _another(self, seen: Callable[[str, bytes], None] | None = None) -> Root:
        with self._lock:
            assert self._root is not None  # noqa: S101 - threads are started by a read
            return self._root.another(seen)

    def _next(self) -> _Way | None:
        with self._lock:
            ways = list(self._due(self._clock()))
            if not ways:
                self._threads -= 1
                self._lock.notify_all()
                return None
            way = min(ways, key=lambda way: (way.due, str(way.target)))
            way.busy = True
            self._busy[_controller(way.target)] += 1
            return way

    def _due(self, now: float) -> Iterator[_Way]:
        """Yield what may be asked now."""
        if self._looked is None:
            return
        for way in self._ways.values():
            if not self._may_ask(way):
                continue
            controller = _controller(way.target)
            if not (way.busy or way.fixed or way.due > now) and (
                self._busy[controller] < self._lanes[controller]
            ):
                yield way

    def _may_ask(self, way: _Way) -> bool:
        """Whether a program is there that may know it."""
        unusable = None if self._looked is None else self._looked.unusable
        if unusable is None:
            return True
        return unusable.cover is Cover.NO_SMARTCTL and areca_smart.has_way(way.target)

    def _without(self, way: _Way, now: float) -> Answer | None:
        """Return why smartctl is not asked now, None where it is."""
        with self._lock:
            if self._looked is not None and self._looked.unusable is not None:
                return replace(self._looked.unusable, text=("", b""))
            if way.refused is not None and now - way.refused_seconds < OTHER_WAY_SECONDS:
                return way.refused
            return None

    def _is_settled(self) -> bool:
        looks = self._looked is None or self._looking_since is not None
        return not (looks or self._threads or any(self._due(self._clock())))

    # --- a recorded machine

    def _play(self, root: Root, now: float) -> None:
        """Do what is due with what the recording has."""
        with self._lock:
            if now >= self._look_at:
                self._look_at = now + FIND_SECONDS
                self._take_over(_look(root, self._find, self._options.drives, {}), now)
            for way in self._ways.values():
                if not way.fixed:
                    self._play_one(root, way, now)

    def _play_one(self, root: Root, way: _Way, now: float) -> None:
        for profile in _PROFILES:
            for wake in (False, True):
                words = smartctl_runner.command(way.target, profile, wake=wake)
                name = probe_path("run", words)
                try:
                    content = root.read_bytes(name)
                except (AbsentError, ReadError):
                    continue
                if json_text.is_deep(content.decode(errors="replace")):
                    content = b"{}"
                if content != way.text[1] or way.beside or now >= way.due:
                    answer = smartctl_runner.judged(name, content, way.target)
                    self._play_answer(root, way, answer, now, wake=wake)
                return
        unusable = None if self._looked is None else self._looked.unusable
        if unusable is not None and self._may_ask(way):
            self._play_answer(root, way, replace(unusable, text=("", b"")), now, wake=False)

    def _play_answer(
        self, root: Root, way: _Way, answer: Answer, now: float, *, wake: bool
    ) -> None:
        answer = areca_smart.otherwise(root, way.target, answer)
        same = (answer.text, answer.beside) == (way.text, way.beside)
        if not same or now >= way.due:
            self._finish(way, answer, now, wake=wake)

    # --- what drives there are

    def _take_over(self, looked: _Looked, now: float) -> None:
        """Take the drives of a look; those that were known keep what is known of them."""
        self._only_program = looked.unusable is not None
        if looked.unusable is not None:
            self._look_at = min(self._look_at, now + AGAIN_SECONDS)
        if self._looked is not None and looked.found is self._looked.found is not None:
            self._changed = self._changed or looked.unusable != self._looked.unusable
            self._looked = looked
            return
        usable_before = self._looked is None or self._looked.unusable is None
        if looked.found is None and self._looked is not None:
            looked = replace(looked, found=self._looked.found, topology=self._looked.topology)
        self._looked, self._looked_seconds, self._changed = looked, now, True
        found = looked.found
        if found is None:
            return
        before, self._ways = self._ways, {}
        for target in found.targets:
            known = before.get(target)
            diskseq = self._diskseq(target)
            if known is None or (known.diskseq != diskseq and not known.busy):
                known = self._new(target, looked.topology, diskseq)
            self._ways[target] = known
        for each in found.uncovered:
            self._add_uncovered(each, looked.topology)
        hides = {_controller(t) for t in found.targets if t.behind_raid()}
        controllers = map(_controller, found.targets)
        self._lanes = {each: 1 if each in hides else DIRECT_LANES for each in controllers}
        changed = usable_before is not (looked.unusable is None)
        new = [
            way
            for way in self._ways.values()
            if not way.fixed and (way.due == float("inf") or (changed and self._may_ask(way)))
        ]
        at_once = len(new) <= MOST_AT_ONCE
        for way in new:
            way.due = now + (0.0 if at_once else self._options.spread_seconds * _share(way.target))
        self._merged(now)  # two ways the kernel knows to be one disk are not both asked

    def _new(self, target: Target, topology: Topology | None, diskseq: str) -> _Way:
        polled = Polled(target, Cover.NOT_YET, "it is asked first within two minutes")
        device = topology.devices.get(target.device) if topology else None
        known = identity.Way(polled)
        if device is not None:
            known = identity.Way(
                polled, device.serial or "", device.model or "", device.wwn or "", device.size_bytes
            )
        profile = _PROFILES.index(target.profile) if target.profile in _PROFILES else 0
        way = _Way(polled, known, float("inf"), diskseq, profile=profile)
        self._set_period(way, 0.0)
        return way

    def _add_uncovered(self, uncovered: Uncovered, topology: Topology | None) -> None:
        device, what = uncovered.device, uncovered.what
        slot = "" if what in {device, f"/dev/{device}"} else what
        target = Target(f"/dev/{device}" if device else what, device=device, slot=slot)
        way = self._new(target, topology, "")
        way.fixed = True
        way.polled = replace(way.polled, cover=uncovered.cover, reason=uncovered.reason)
        self._ways.setdefault(target, way)

    def _diskseq(self, target: Target) -> str:
        return next(
            iter(self._listed.get(f"{block_devices.DIRECTORY}/{target.device}/diskseq", ())), ""
        )

    # --- what a try came to

    def _words(self, way: _Way) -> tuple[tuple[str, ...], bool]:
        """Return the command line, and whether it may wake the drive."""
        limit = self._options.wake_after_seconds
        since = way.asleep_seconds
        wake = limit is not None and since is not None and self._clock() - since >= limit
        return smartctl_runner.command(way.target, _PROFILES[way.profile], wake=wake), wake

    def _finish(self, way: _Way, answer: Answer, began: float, *, wake: bool) -> None:
        """Take note of what a try came to, and set the next."""
        now = self._clock()
        spent = now - began
        way.text, way.beside, self._changed = answer.text, answer.beside, True
        good = answer.cover in _GOOD
        if good:
            way.alive_seconds, way.failures = now, 0
            needed = 2 * spent / self._options.deadline_seconds
            way.deadlines = min(max(1.0, needed), MOST_DEADLINES)
        else:
            way.failures += 1
        if answer.cover is Cover.READ or wake:
            way.asleep_seconds = None
        elif answer.cover is Cover.ASLEEP and way.asleep_seconds is None:
            way.asleep_seconds = now
        self._mind_lateness(way, answer)
        before = way.polled
        reason = answer.reason or way.lessened
        way.polled = replace(
            before,
            cover=answer.cover,
            reason=reason,
            tried_seconds=now,
            duration_seconds=spent,
            runs_total=before.runs_total + answer.ran,
            failures_total=before.failures_total + (not good),
        )
        if answer.cover is Cover.READ:
            way.polled = replace(way.polled, drive=answer.drive, read_seconds=now)
        if answer.drive is not None:
            way.known = _known(way.known, answer.drive, now)
        period = way.polled.period_seconds
        way.due = after(now, period, way.target)
        less = way.profile < len(_PROFILES) - 1 and way.refused is None
        if answer.passing or (answer.late and less):
            retry = RETRY_SECONDS * 2 ** min(max(way.failures - 1, 0), 10)
            way.due = min(way.due, now + retry)
        usable = self._looked is None or self._looked.unusable is None
        if answer.cover in {Cover.NO_PROBE, Cover.NO_SMARTCTL} and usable:
            self._look_at = min(self._look_at, now)  # for all drives the same: find out once

    def _mind_refusal(self, way: _Way, said: Answer, answer: Answer, now: float) -> None:
        """Leave smartctl out for a while, where it is late with the least and another answers.

        Behind a controller without such commands it may wait for ever, at the cost of a processor.
        """
        read = answer.cover is Cover.READ
        least = bool(way.target.profile) or way.profile == len(_PROFILES) - 1
        if read and said.late and least:
            way.refused, way.refused_seconds = replace(said, late=False), now
        elif not read or said is not way.refused:
            way.refused = None

    def _mind_lateness(self, way: _Way, answer: Answer) -> None:
        """Give a drive more time, and then ask it less: bridges choke on some of the options."""
        way.lates = way.lates + 1 if answer.late else 0
        if not answer.late:
            return
        if way.lates % LATE_AGAIN or way.target.profile or way.profile + 1 == len(_PROFILES):
            way.deadlines = min(2 * way.deadlines, MOST_DEADLINES)
            return
        said = " ".join(smartctl_runner.PROFILES[_PROFILES[way.profile]])
        way.profile += 1
        way.lates, way.deadlines = 0, 1.0
        less = " ".join(smartctl_runner.PROFILES[_PROFILES[way.profile]])
        way.lessened = (
            f"asked with '{less}': it did not answer '{said}' in time, {LATE_AGAIN} times in a row"
        )

    def _set_period(self, way: _Way, now: float) -> None:
        options, tried = self._options, way.polled.tried_seconds
        period = options.period_seconds
        if way.target.behind_raid():
            period = options.raid_period_seconds
        if not way.best:
            period = max(period, OTHER_WAY_SECONDS)
        if period != way.polled.period_seconds:
            way.polled = replace(way.polled, period_seconds=period)
            if tried is not None:
                way.due = max(now, tried + period)

    # --- what is known

    def _texts(self) -> Iterator[tuple[str, bytes]]:
        """Yield what the threads have read, for who records."""
        if self._looked is not None:
            yield from self._looked.seen.items()
        ways = [way for way in self._ways.values() if way.text[0] or way.beside]
        ways.sort(key=lambda w: (w.polled.cover in _GOOD, -(w.polled.tried_seconds or 0.0)))
        size_bytes = 0
        for way in ways:
            texts = (*((way.text,) if way.text[0] else ()), *way.beside)
            size_bytes += sum(len(text) for _, text in texts)
            if size_bytes <= self._most_told_bytes:
                yield from texts
            else:
                way.text, way.beside = ("", b""), ()

    def _result(self, now: float) -> Disks:
        """Return the disks; the same object while nothing changed."""
        for way in self._ways.values():
            held = HELD_PERIODS * way.polled.period_seconds
            if way.polled.drive is not None and now - way.alive_seconds > held:
                way.polled, self._changed = replace(way.polled, drive=None), True
        looked, since = self._looked, self._looking_since
        if since is not None and now - since > _HANGS_SECONDS and not self._look_hangs:
            self._look_hangs = self._changed = True
        if not self._changed or looked is None:
            return self._disks
        self._changed = False
        if looked.unusable is not None:
            cover, reason = looked.unusable.cover, looked.unusable.reason
            for way in self._ways.values():
                unasked = way.polled.cover is Cover.NOT_YET or not self._may_ask(way)
                if not way.fixed and unasked:
                    way.polled = replace(way.polled, cover=cover, reason=reason)
        by_key = self._merged(now)
        problems: tuple[str, ...] = (looked.problem,) if looked.problem else ()
        if self._look_hangs:
            problems += ("what looks for drives hangs; those that come are not noticed",)
        if looked.found is not None:
            problems += (*looked.found.problems, *self._others_in_place(looked.found))
            by_key = {**self._missing(looked.found), **by_key}
        before = self._disks.by_key
        # What is equal stays the same object: whoever made something of it need not do so again.
        by_key = {k: before[k] if before.get(k) == disk else disk for k, disk in by_key.items()}
        volumes = () if looked.found is None else tuple(v.device for v in looked.found.volumes)
        self._disks = Disks(by_key, problems, self._looked_seconds, volumes)
        return self._disks

    def _others_in_place(self, found: Found) -> Iterator[str]:
        """Yield what is said of a configured drive that is another than configured."""
        for drive, target in found.configured:
            way = None if target is None else self._ways.get(target)
            got = "" if way is None else identity.serial_number(way.known.serial)
            if drive.serial and got and got != identity.serial_number(drive.serial):
                yield (
                    f"'{drive.path}': expected the drive with serial number '{drive.serial}', as"
                    f" configured, got '{got}'; if it was replaced, change 'smart.drives'"
                )

    def _missing(self, found: Found) -> dict[str, Disk]:
        """Return the configured drives that nobody tells of, by what they are called."""
        serials = {identity.serial_number(way.known.serial) for way in self._ways.values()}
        asked = all(way.polled.cover is not Cover.NOT_YET for way in self._ways.values())
        missing: dict[str, Disk] = {}
        for drive, target in found.configured:
            serial = identity.serial_number(drive.serial)
            # Until all have been asked, it may be one of those.
            unseen = serial not in serials and asked if serial else target is None
            if drive.ignore or not unseen:
                continue
            way = Target(drive.path, drive.kind, slot=drive.slot, origin="configuration")
            reason = (
                "it is configured, and neither kernel nor smartctl nor a controller tells of it"
            )
            key = serial or drive.slot or str(way)
            polled = Polled(way, Cover.MISSING, reason, period_seconds=self._options.period_seconds)
            missing[key] = Disk(key, polled)
        return missing

    def _merged(self, now: float) -> dict[str, Disk]:
        """Return the disks, and remember of each which of its ways is the best."""
        disks = identity.merge(replace(w.known, polled=w.polled) for w in self._ways.values())
        changed = False
        for disk in disks.values():
            best = disk.polled
            answers = best.cover in {*_GOOD, Cover.NOT_YET}
            for target in (best.target, *disk.others):
                way = self._ways[target]
                if way.best != (is_best := target == best.target or not answers):
                    way.best, changed = is_best, True
                    self._set_period(way, now)
        if changed:  # periods did
            return identity.merge(replace(w.known, polled=w.polled) for w in self._ways.values())
        return disks


def _listed(root: Root) -> dict[str, tuple[str, ...]]:
    """Return what changes when a drive comes, goes, or takes the place of another.

    Errors: AbsentError, ReadError (of '/sys/block').
    """
    names = root.names(block_devices.DIRECTORY)
    listed = {block_devices.DIRECTORY: tuple(names)}
    for name in names:
        if _DISK.fullmatch(name):
            path = f"{block_devices.DIRECTORY}/{name}/diskseq"
            try:
                listed[path] = (root.read(path).strip(),)
            except (AbsentError, ReadError):
                listed[path] = ()  # a kernel before 5.15, or it has just gone
    # What is asked of the probe is part of what a look finds, and comes later in a recording.
    for path in (*_WATCHED, *((_PROBE,) if root.path else ())):
        try:
            listed[path] = tuple(root.names(path))
        except (AbsentError, ReadError):
            listed[path] = ()
    return listed


def _look(
    root: Root,
    find: Find,
    drives: Sequence[ConfiguredDrive],
    seen: dict[str, bytes],
    former: _Looked | None = None,
) -> _Looked:
    """Look for drives once; every way this can end is a _Looked.

    `former` has the drives already: they are looked for only where smartctl has come since.
    """
    unusable = topology = None
    try:
        unusable = smartctl_runner.usable(root)
        if unusable is not None:
            name, text = unusable.text
            seen[name] = text
            if former is not None and former.found is not None:
                return replace(former, unusable=unusable, seen={**former.seen, **seen})
        topology = block_devices.read_block(root)
        return _Looked(find(root, topology, drives), topology, "", unusable, seen)
    except (AbsentError, ReadError) as error:
        problem = f"drives could not be looked for: {error}"
    except Exception as error:  # noqa: BLE001 - a mistake of ours must not end the poller
        problem = f"drives could not be looked for: bug: {trace(error)}"
    return _Looked(None, topology, problem, unusable, seen)


def _known(before: identity.Way, drive: Drive, now: float) -> identity.Way:
    """Return who a drive is, by what it has just said; what it left out holds on."""
    vendor = (
        "" if drive.model.startswith(drive.vendor) else drive.vendor
    )  # smartctl has put it there
    return identity.Way(
        before.polled,
        serial=drive.serial or before.serial,
        model=f"{vendor} {drive.model}".strip() or before.model,
        wwn=drive.wwn or before.wwn,
        capacity_bytes=drive.capacity_bytes or before.capacity_bytes,
        hours=before.hours if drive.power_on_hours is None else drive.power_on_hours,
        hours_seconds=before.hours_seconds if drive.power_on_hours is None else now,
    )


def _controller(target: Target) -> str:
    return target.controller or target.path


def _share(target: Target) -> float:
    """Return a number from 0 to 1 that is the same for a target in every run."""
    return zlib.crc32(str(target).encode()) / 2**32


def after(now: float, period: float, target: Target) -> float:
    """Return when a target is due next: at its own moment of each period.

    The first time that is half a period away or more, so that those which were asked at once when
    iowarden started are asked each at another time from then on.
    """
    phase = _share(target) * period
    earliest = now + period / 2
    return earliest + (phase - earliest) % period
