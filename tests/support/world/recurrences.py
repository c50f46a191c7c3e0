"""Judges the mails about a fault that comes and goes: when, how many, and no '[OK]' in between.

The rules are those of the specification: the second within an hour makes no mail while it is no
worse than what was mailed; from the third within a day on one mail reports that it comes and goes,
then the tenth and the thirtieth; what is worse is mailed at once. Units: seconds of the world's
clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from support.world.behaviour import Kind
from support.world.mails import GOOD, HOUR_SECONDS, Mail, Miss, next_mail_at

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from support.world.behaviour import Fact
    from support.world.injection import Injection, Run
    from support.world.mails import Visible

REPORT_SECONDS = 300.0
THIRD = 3
LEAST_SECONDS = {Kind.HANGS: 10.0, Kind.SLOW: 60.0, Kind.FULL: 60.0, Kind.SUSPENDED: 30.0}
"""An occurrence that is shorter is none, for the kinds of which one fault repeats."""
_BREAKS = {Kind.HANGS: 60.0, Kind.SLOW: 300.0, Kind.FULL: 600.0, Kind.SUSPENDED: 60.0}
"""After a shorter break, until it is noticed anew, it is the same occurrence."""
_UNCERTAIN_SECONDS = 2.0
"""So exactly a break can be known to be shorter: looks are a second apart."""
_UNNOTICED_SECONDS = {Kind.FULL: LEAST_SECONDS[Kind.FULL]}
"""So much of an occurrence nothing shows afterwards. Since when requests stand, or a device is
suspended, the kernel counts; that a file system is full counts once it stays so.
"""


@dataclass(frozen=True)
class Recurrences:
    """What the judge knows of a run: its mails, the faults, and when iowarden saw each.

    `reported` is what the mails of each incident reported.
    """

    run: Run
    mails: Sequence[Mail]
    faults: Sequence[Fact]
    spells: Visible
    reported: Mapping[str, set[str]]

    def misses(self, injection: Injection) -> Iterator[Miss]:
        """Yield what is wrong about a fault that comes and goes, by the mails that are about it."""
        if not self._visible_spans(injection) or self._is_uncertain(injection):
            return
        fault = f"{self._kind_of(injection)}: {injection.object}"
        own = [mail for mail in self.mails if fault in self.reported[mail.incident]]
        times = list(self._occurrences(injection))
        if len(times) < THIRD:
            return
        # One in which it was restarted may count, and one that was only just long enough.
        possible = self._visible_spans(injection, 0.0)
        earliest, third = possible[THIRD - 1][0], self._visible_spans(injection)[THIRD - 1][0]
        bad = [mail for mail in own if mail.reason not in {*GOOD, "initial report"}]
        if not any(mail.at >= earliest for mail in bad):
            yield Miss("recurrence: never mailed from the third on", f"{len(times)} times")
        else:
            interval_end = next_mail_at(mail.at for mail in own if mail.at < times[THIRD - 1][1])
            soon = max(times[THIRD - 1][1] + REPORT_SECONDS, interval_end + REPORT_SECONDS)
            if not any(earliest <= mail.at <= soon for mail in bad):
                yield Miss("recurrence: no mail at the third", f"{len(times)} times")
        quiet = times[-1][1] + 86_400.0
        noticed = third + LEAST_SECONDS[self._kind_of(injection)] + 2.0
        if any(mail.reason == "resolved" and noticed < mail.at < quiet for mail in own):
            yield Miss("recurrence: [OK] within a day", f"{len(times)} times")
        known = self._known_spans(injection)
        yield from self._late_if_worse(injection, times, known, bad)
        yield from self._second(known, bad)
        # That it was reset while iowarden did not run is not known to be this.
        mailed = [
            mail
            for mail in own
            if mail.reason != "initial report"
            and (mail.reason in GOOD or fault in mail.content or self._is_about(fault, mail))
        ]
        # The end of what only waited, before it was known for what, is none of this.
        while mailed and fault not in mailed[0].content | mailed[0].ended:
            del mailed[0]
        unnoticed = _UNNOTICED_SECONDS.get(self._kind_of(injection), 0.0)
        if len(mailed) > self._allowed(known, len(possible), mailed, unnoticed):
            yield Miss("recurrence: too many mails", f"{len(mailed)} of {len(times)} times")

    @staticmethod
    def _is_about(fault: str, mail: Mail) -> bool:
        """Whether a mail is about a fault that is over, and not only about its reset."""
        return fault in mail.ended and mail.kind != Kind.RESETS

    def _second(
        self, known: Sequence[tuple[float, float]], mails: Sequence[Mail]
    ) -> Iterator[Miss]:
        """Yield a mail about the second within an hour that is no worse than the first."""
        first, second, third = known[:THIRD]
        is_soon = second[0] - first[1] < HOUR_SECONDS
        is_longer = second[1] - second[0] > first[1] - first[0]
        tags = {mail.tag for mail in mails if mail.at < second[0]}
        if not tags or not is_soon or is_longer:
            return
        end = min(second[1] + REPORT_SECONDS, third[0])
        for mail in mails:
            if second[0] <= mail.at < end and mail.tag in tags:
                yield Miss("recurrence: the second, no worse, is mailed", f"at {mail.at:.0f}")
                return

    def _late_if_worse(
        self,
        injection: Injection,
        times: Sequence[tuple[float, float]],
        known: Sequence[tuple[float, float]],
        mails: Sequence[Mail],
    ) -> Iterator[Miss]:
        """Yield occurrences that became longer than all before, and were not mailed then."""
        first = times[0]
        earlier = (end - start for start, end in known if start <= first[0])
        worst = max(earlier, default=first[1] - first[0])  # none: it began while nothing watched
        for start, end in times[1:]:
            worst = max(worst, self._longest_mailed(known, mails, start))
            if end - start > 1.5 * worst:
                limit = start + max(1.5 * worst, 10.0) + 90.0
                # After a break it is there again, and only then longer.
                limit = max(limit, self._last_onset(injection, start, end) + 90.0)
                if end > limit and not any(start <= mail.at <= limit for mail in mails):
                    yield Miss("recurrence: worse, and not mailed at once", f"at {start:.0f}")
                worst = end - start
            elif any(start <= mail.at <= end for mail in mails):
                worst = max(worst, end - start)

    def _allowed(
        self,
        known: Sequence[tuple[float, float]],
        count: int,
        mails: Sequence[Mail],
        unnoticed: float,
    ) -> int:
        """Return how many mails there may be about `count` occurrences.

        The first, its end, the third; and each that is longer than what was mailed before. The
        second has an end of its own if it was mailed: as longer, more severe, or an hour later.
        """
        bad = [mail for mail in mails if mail.reason not in GOOD]
        lengths = [end - start for start, end in known]
        worst, worse = lengths[0], 0
        for length, (start, _) in zip(lengths[1:], known[1:], strict=True):
            worst = max(worst, self._longest_mailed(known, bad, start))
            if length - unnoticed > 1.5 * (worst - unnoticed):
                worse += 1
                worst = length
        allowed = THIRD + worse + sum(count >= milestone for milestone in (10, 30))
        if known[1][0] - known[0][1] > HOUR_SECONDS:
            allowed += 2
        elif any(known[1][0] <= mail.at <= known[1][1] for mail in bad):
            allowed += 1
        tags = [mail.tag for mail in mails]
        return allowed + ("WARNING" in tags and "CRITICAL" in tags[tags.index("WARNING") :])

    def _longest_mailed(
        self, times: Sequence[tuple[float, float]], mails: Sequence[Mail], until: float
    ) -> float:
        """Return how long the longest occurrence was that a mail before a time was about."""
        last = max((mail.at for mail in mails if mail.at < until), default=0.0)
        return max((end - start for start, end in times if start <= last), default=0.0)

    def _kind_of(self, injection: Injection) -> Kind:
        """Return the kind of a fault that repeats."""
        return next(
            fact.kind
            for fact in self.faults
            if fact.object == injection.object and fact.kind in LEAST_SECONDS
        )

    def _known_spans(self, injection: Injection) -> list[tuple[float, float]]:
        """Return the occurrences as iowarden can know them.

        What ended while it did not run it takes to have lasted until its start; if it is there
        again by then, without a break.
        """
        spans: list[tuple[float, float]] = []
        for start, end in self._visible_spans(injection, 0.0):
            since, until = max(start, self.run.lives[0].start), end
            if self._kind_of(injection) in _UNNOTICED_SECONDS:
                since = max(since, self._noticed_since(injection, start))
            for before, after in pairwise(self.run.lives):
                if before.stop <= end < after.start:
                    until = after.start
            if spans and since <= spans[-1][1]:
                since = spans.pop()[0]
            spans.append((since, until))
        return spans

    def _occurrences(self, injection: Injection) -> Iterator[tuple[float, float]]:
        """Yield the occurrences that iowarden could see as a whole."""
        for start, end in self._visible_spans(injection):
            if any(life.start <= start and end <= life.stop for life in self.run.lives):
                yield start, end

    def _last_onset(self, injection: Injection, start: float, end: float) -> float:
        """Return when a fault was noticed that began last in an occurrence with breaks."""
        return max(
            fact.at + LEAST_SECONDS[fact.kind]
            for fact in self.faults
            if fact.object == injection.object
            and fact.kind in LEAST_SECONDS
            and start <= fact.at <= end
        )

    def _noticed(self, fact: Fact) -> float:
        """Return when iowarden had an alert of a fact: after a restart it waits anew."""
        starts = [start for start, _ in self.spells[fact.object, fact.kind.value]]
        times = [start for start in starts if fact.at <= start < fact.until]
        return min(times, default=fact.at + LEAST_SECONDS[fact.kind])

    def _noticed_since(self, injection: Injection, start: float) -> float:
        """Return since when it is known of an occurrence, of whose beginning nothing shows later.

        After a restart it counts anew.
        """
        first = next(
            fact
            for fact in self.faults
            if (fact.object, fact.at) == (injection.object, start) and fact.kind in LEAST_SECONDS
        )
        return self._noticed(first) - _UNNOTICED_SECONDS[first.kind]

    def _is_uncertain(self, injection: Injection) -> bool:
        """Whether a break is just as long as one that makes two occurrences."""
        own = [each for each in self.faults if each.object == injection.object]
        own = sorted((f for f in own if f.kind in LEAST_SECONDS), key=lambda fact: fact.at)
        return any(
            abs(self._noticed(after) - before.until - _BREAKS[after.kind]) <= _UNCERTAIN_SECONDS
            for before, after in pairwise(own)
        )

    def _is_visible(self, fact: Fact) -> bool:
        """Whether iowarden had an alert of a fact while it was there."""
        spells = self.spells[fact.object, fact.kind.value]
        return any(start < fact.until and fact.at <= end for start, end in spells)

    def _visible_spans(
        self, injection: Injection, certain_seconds: float = 2.0
    ) -> list[tuple[float, float]]:
        """Return when it was there for long enough to be noticed; a short break is none.

        With `certain_seconds` more it is noticed for certain.
        """
        spans: list[tuple[float, float]] = []
        for fact in sorted(self.faults, key=lambda fact: fact.at):
            if fact.object != injection.object or fact.kind not in LEAST_SECONDS:
                continue
            least = LEAST_SECONDS[fact.kind] + certain_seconds
            if fact.until - fact.at < least or not self._is_visible(fact):
                continue
            limit = _BREAKS[fact.kind] + _UNCERTAIN_SECONDS
            if spans and self._noticed(fact) - spans[-1][1] <= limit:
                spans[-1] = spans[-1][0], fact.until
            else:
                spans.append((fact.at, fact.until))
        return spans
