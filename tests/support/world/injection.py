"""What is injected into a random machine, when, and when iowarden runs; reproducible by its seed.

Units: seconds of the world's clock, which begins at 0 with the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from random import Random

from support.world import behaviour
from support.world.behaviour import FOREVER, By, Fact, Kind, World
from support.world.machine import Layer, Machine, random_machine

DAY_SECONDS = 86_400.0


@dataclass(frozen=True)
class Injection:
    """One injected fault, with all its occurrences.

    Fields: `what` and `layer` are its class; `object` is what is broken, of a fabric its role;
    `spans` are its occurrences, of which one that is not undone ends never.
    """

    number: int
    what: str
    layer: str
    object: str
    spans: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Life:
    """A time in which iowarden runs."""

    start: float
    stop: float


@dataclass(frozen=True)
class Renaming:
    """From `at` on the kernel has another name for a disk: it is at another port."""

    disk: str
    at: float
    name: str


@dataclass(frozen=True)
class Run:
    """One run: the machine, what happened, and what shows of it."""

    seed: int
    machine: Machine
    injections: tuple[Injection, ...]
    lives: tuple[Life, ...]
    facts: tuple[Fact, ...]
    seconds: float = DAY_SECONDS
    acknowledged: float | None = None
    """When somebody acknowledges every incident that is open."""
    story: str = ""
    """What joins its faults (sequels.py); '': nothing does."""
    renamings: tuple[Renaming, ...] = ()

    def name_at(self, name: str, at: float) -> str:
        """Return what the kernel calls an object at a time."""
        news = (each.name for each in self.renamings if each.disk == name and each.at <= at)
        return next(news, name)

    @property
    def group(self) -> str:
        """Return its class: kind and layer of what was injected."""
        if self.story:
            return self.story
        if not self.injections:
            return "healthy"
        if len(self.injections) > 1:
            return "two at once"
        only = self.injections[0]
        repeats = " repeats" if len(only.spans) > 1 else ""
        return f"{only.what}{repeats} / {only.layer}"


Act = Callable[[World, Injection, tuple[float, float], frozenset[int]], None]
Targets = Callable[[Machine], list[str]]


@dataclass(frozen=True)
class Cause:
    """A kind of fault: what it may befall and what it does."""

    what: str
    layer: str
    targets: Targets
    act: Act
    lengths: tuple[float, float]
    """How long it lasts; what may last for good does so in half of the runs."""
    may_stay: bool = False
    may_repeat: bool = False


def _disks(machine: Machine) -> list[str]:
    return machine.of_role("sas", "sata", "nvme")


def _roles(*roles: str) -> Targets:
    return lambda machine: machine.of_role(*roles)


def _hosts_with_disks(machine: Machine) -> list[str]:
    return [name for name in machine.of_role("hba") if len(machine.disks_of(name)) > 2]


def _networks(machine: Machine) -> list[str]:
    return [role for role in ("iscsi", "fc") if machine.of_role(role)]


def _of_length(act: Callable[[World, str, float, float, frozenset[int]], None]) -> Act:
    def run(
        world: World, injection: Injection, span: tuple[float, float], of: frozenset[int]
    ) -> None:
        act(world, injection.object, span[0], span[1] - span[0], of)

    return run


def until(act: Callable[[World, str, float, float, frozenset[int]], None]) -> Act:
    """Return what a fault does, of what it does from a time until another one."""

    def run(
        world: World, injection: Injection, span: tuple[float, float], of: frozenset[int]
    ) -> None:
        act(world, injection.object, *span, of)

    return run


def _of_span(act: Callable[[World, str, tuple[float, float], frozenset[int]], None]) -> Act:
    def run(
        world: World, injection: Injection, span: tuple[float, float], of: frozenset[int]
    ) -> None:
        act(world, injection.object, span, of)

    return run


def _shown(kind: Kind, by: By, *, waits: bool = False, lasts: bool = False) -> Act:
    def run(
        world: World, injection: Injection, span: tuple[float, float], of: frozenset[int]
    ) -> None:
        start, end = span[0], FOREVER if lasts else span[1]
        world.show(injection.object, kind, by, (start, end), of)
        if waits:
            behaviour.waits(world, (start, end), of)

    return run


def _broken_file_system(
    world: World, injection: Injection, span: tuple[float, float], of: frozenset[int]
) -> None:
    """fs/ext4/super.c, ext4_handle_error with errors=remount-ro: unchecked."""
    world.show(injection.object, Kind.FAILED, By.LINE, (span[0], FOREVER), of)
    world.show(injection.object, Kind.READ_ONLY, By.STATE, (span[0] + 0.5, FOREVER), of)


def _wrong_copy(
    world: World, injection: Injection, span: tuple[float, float], of: frozenset[int]
) -> None:
    """fs/btrfs/bio.c, btrfs_repair_io_failure: 'read error corrected': unchecked."""
    when = span[0]
    while when <= span[1]:
        world.show(injection.object, Kind.ERRORS, By.LINE, (when, FOREVER), of)
        when += world.between(0.1, 900.0)


def _member_of_volume(
    world: World, injection: Injection, span: tuple[float, float], of: frozenset[int]
) -> None:
    """A RAID controller drops a disk; its driver may pass on the firmware's line at once."""
    if world.random.random() < 0.6:
        world.show(injection.object, Kind.FAILED, By.LINE, span, of)
    world.show(injection.object, Kind.FAILED, By.POLL, span, of)
    world.lose(injection.object, *span, of)


CAUSES = (
    Cause("hang", "disk", _disks, _of_length(behaviour.hang), (4.0, 300.0), may_repeat=True),
    Cause("offlined", "disk", _roles("sas"), until(behaviour.offlined), (3600.0, 30_000.0), True),
    Cause("gone", "disk", _disks, until(behaviour.pulled), (60.0, 30_000.0), True),
    Cause("link lost", "disk", _roles("sata"), until(behaviour.link), (600.0, 30_000.0), True),
    Cause("removed", "disk", _roles("nvme"), until(behaviour.nvme), (600.0, 30_000.0), True),
    Cause("errors", "disk", _disks, _of_length(behaviour.medium), (1.0, 7200.0)),
    Cause("slow", "disk", _disks, _of_length(behaviour.slow), (60.0, 20_000.0), may_repeat=True),
    Cause(
        "firmware", "adapter", _hosts_with_disks, _of_span(behaviour.adapter_faults),
        (600.0, 20_000.0), True,
    ),
    Cause(
        "leaves", "expander", _roles("expander"), _of_span(behaviour.shelf_leaves),
        (600.0, 20_000.0), True,
    ),
    Cause(
        "power lost", "power (hidden)", _roles("power"), _of_span(behaviour.shelf_leaves),
        (600.0, 20_000.0), True,
    ),
    Cause(
        "session lost", "path", _roles("iscsi", "fc"), _of_span(behaviour.session_lost),
        (20.0, 7200.0), may_repeat=True,
    ),
    Cause("lost", "fabric", _networks, _of_span(behaviour.fabric_lost), (20.0, 3600.0)),
    Cause(
        "failed", "disk behind a controller", _roles("behind"), _member_of_volume,
        (3600.0, 30_000.0), True,
    ),
    Cause(
        "unprotected", "adapter", _roles("raid controller"),
        _shown(Kind.UNPROTECTED, By.POLL), (3600.0, 30_000.0),
    ),
    Cause("failed", "file system", _roles("ext4"), _broken_file_system, (1.0, 2.0)),
    Cause("wrong copy", "file system", _roles("btrfs"), _wrong_copy, (1.0, 3600.0)),
    Cause(
        "full", "file system", _roles("ext4", "xfs", "btrfs"), _shown(Kind.FULL, By.STATE),
        (600.0, 30_000.0), may_repeat=True,
    ),
    Cause(
        "suspended", "LV", _roles("lv"), _shown(Kind.SUSPENDED, By.STATE, waits=True),
        (40.0, 3600.0), may_repeat=True,
    ),
    Cause(
        "hangs", "network mount", _roles("nfs"), _shown(Kind.HANGS, By.LINE, waits=True),
        (60.0, 3600.0),
    ),
)  # fmt: skip


@dataclass
class _Dice:
    """The choices of one run."""

    random: Random
    injections: list[tuple[Injection, Cause]] = field(default_factory=list)

    def spans(self, cause: Cause, at: float) -> tuple[tuple[float, float], ...]:
        """Return when a fault is there; one that repeats does so more or less regularly."""
        low, high = cause.lengths
        length = low * (high / low) ** self.random.random()
        if cause.may_stay and self.random.random() < 0.5:
            return ((at, FOREVER),)
        if not (cause.may_repeat and self.random.random() < 0.3):
            return ((at, at + length),)
        length = min(length, max(low, 300.0))
        count, period = (
            self.random.randint(2, 40),
            self.random.choice((300.0, 600.0, 1800.0, 5400.0)),
        )
        period += length
        spans = []
        for number in range(count):
            start = at + number * period * self.random.uniform(0.95, 1.05)
            spans.append((start, start + length * self.random.uniform(0.7, 1.3)))
        if self.random.random() < 0.2:  # the last time it is for good
            spans[-1] = spans[-1][0], spans[-1][0] + 20 * length
        return tuple(span for span in spans if span[1] < DAY_SECONDS - 4000.0) or (spans[0],)

    def choose(self, machine: Machine, at: float) -> None:
        """Inject one fault into an object that has none yet."""
        number = len(self.injections)
        taken = {injection.object for injection, _ in self.injections}
        able = [cause for cause in CAUSES if set(cause.targets(machine)) - taken]
        cause = self.random.choice(able)
        name = self.random.choice(sorted(set(cause.targets(machine)) - taken))
        injection = Injection(number, cause.what, cause.layer, name, self.spans(cause, at))
        self.injections.append((injection, cause))


def _lives(random: Random, at: float) -> tuple[Life, ...]:
    """Return when iowarden runs: since before the fault, or since it; with up to two restarts."""
    kind = random.choices(("before", "within", "after"), (70, 15, 15))[0]
    start = {"before": 0.0, "within": at + random.uniform(1.0, 120.0), "after": at + 3600.0}[kind]
    lives = []
    for _ in range(random.choice((0, 0, 0, 1, 2))):
        stop = random.choice((at + random.uniform(-60.0, 600.0), random.uniform(start, 80_000.0)))
        if stop > start + 10.0:
            lives.append(Life(start, stop))
            start = stop + random.choice((1.0, 5.0, 60.0, 600.0))
    return (*lives, Life(start, DAY_SECONDS))


def _lesser(world: World, onsets: Iterable[float]) -> None:
    """Add what is no reason for a mail: notices, and hangs too short to be one.

    Not just before a fault: a hang that runs into another one is one hang to everybody.
    """
    begins = tuple(onsets)
    disks = _disks(world.machine) or world.machine.of_role("volume", "map")
    for _ in range(world.random.randint(0, 6)):
        at = world.between(100.0, DAY_SECONDS - 1000.0)
        name = world.random.choice(disks)
        end = at + world.between(1.0, 9.0) if world.random.random() < 0.5 else at + 600.0
        kind = Kind.HANGS if end < at + 10.0 else Kind.LESSER
        if kind is Kind.HANGS and any(at < onset < end + 10.0 for onset in begins):
            continue
        world.show(name, kind, By.COUNTER, (at, end), frozenset())


def random_run(seed: int) -> Run:
    """Return the run of a seed; the same one each time."""
    random = Random(seed)
    machine = random_machine(random)
    world = World(machine, random)
    at = random.uniform(1000.0, 20_000.0)
    faults = random.choices((0, 1, 2), (10, 70, 20))[0]
    dice = _Dice(random)
    for number in range(faults):
        dice.choose(machine, at + (random.uniform(0.0, 600.0) if number else 0.0))
    lives = _lives(random, at)
    for injection, cause in dice.injections:
        for span in injection.spans:
            cause.act(world, injection, span, frozenset((injection.number,)))
    world.facts = _without_empty(world.facts, [each for each, _ in dice.injections])
    behaviour.climb(world)
    _lesser(world, (start for each, _ in dice.injections for start, _ in each.spans))
    late = None
    if faults and random.random() < 0.15:
        late = at + 120.0 * 100.0 ** random.random()
    injections = tuple(injection for injection, _ in dice.injections)
    return Run(seed, machine, injections, lives, merged(world.facts), acknowledged=late)


def merged(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    """Return the facts in order; of one state that was entered twice at once, one."""
    states: dict[tuple[str, Kind, By], list[Fact]] = {}
    ordered = sorted(_present(list(facts)), key=lambda fact: fact.at)
    lines = [fact for fact in ordered if fact.by is By.LINE]
    for fact in ordered:
        if fact.by is By.LINE:
            continue
        joined = states.setdefault((fact.object, fact.kind, fact.by), [])
        if joined and fact.at <= joined[-1].until:
            until = max(joined[-1].until, fact.until)
            joined[-1] = replace(joined[-1], until=until, of=joined[-1].of | fact.of)
        else:
            joined.append(fact)
    flat = [*lines, *(fact for joined in states.values() for fact in joined)]
    return tuple(sorted(flat, key=lambda fact: (fact.at, fact.object, fact.kind, fact.by)))


def _without_empty(facts: list[Fact], injections: list[Injection]) -> list[Fact]:
    """Return the facts without those of a time at which what is to break is away already."""
    empty: list[tuple[int, float, float]] = []
    for injection in injections:
        away = [f for f in facts if f.kind is Kind.GONE and f.object == injection.object]
        away = [fact for fact in away if injection.number not in fact.of]
        for start, end in injection.spans:
            if any(fact.at <= start < fact.until for fact in away):
                empty.append((injection.number, start, end))
    return [
        fact
        for fact in facts
        if not any(fact.of == {n} and start <= fact.at <= end for n, start, end in empty)
    ]


def _present(facts: list[Fact]) -> Iterator[Fact]:
    """Yield the facts without what a disk that is gone or offline cannot show: it has no counters.

    block/genhd.c, del_gendisk: it leaves /proc/diskstats: unchecked; drivers/scsi/scsi_lib.c,
    scsi_device_state_check: what is offline rejects each request at once: unchecked.
    """
    away: dict[str, list[tuple[float, float]]] = {}
    for fact in facts:
        if fact.kind is Kind.GONE or (fact.kind, fact.by) == (Kind.FAILED, By.STATE):
            away.setdefault(fact.object, []).append((fact.at, fact.until))
    for fact in facts:
        start, end = fact.at, fact.until
        for left, back in away.get(fact.object, ()) if fact.by is By.COUNTER else ():
            if left <= start < back:
                start = back
            elif start < left < end:
                end = left
        if start < end:
            yield replace(fact, at=start, until=end)


def layer_of(machine: Machine, name: str) -> Layer:
    """Return the layer of an object; that of the host itself is the last."""
    return machine.nodes[name].layer if name in machine.nodes else Layer.HOST
