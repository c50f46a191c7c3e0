"""Faults as real incidents had them: one after the other, during a rebuild, around a start.

Apart from injection.random_run, so that its seeds stay what they are. Units: seconds of the world's
clock.
"""

from __future__ import annotations

from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING

from support.world import behaviour
from support.world.behaviour import World
from support.world.injection import (
    CAUSES,
    DAY_SECONDS,
    Cause,
    Injection,
    Life,
    Renaming,
    Run,
    Targets,
    merged,
)
from support.world.machine import Layer, Machine, random_machine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_Plan = tuple[list[tuple[Injection, Cause]], tuple[Life, ...], tuple[Renaming, ...]]
_OF_DISK = ("slow", "errors", "hang")
"""What a disk has before it has worse."""
_WORSE = ("hang", "offlined", "gone", "link lost", "removed", "errors")


def _cause(what: str, layer: str) -> Cause:
    return next(cause for cause in CAUSES if (cause.what, cause.layer) == (what, layer))


def _length(random: Random, cause: Cause) -> float:
    low, high = cause.lengths
    length: float = low * (high / low) ** random.random()
    return length


def _inject(number: int, cause: Cause, name: str, span: tuple[float, float]) -> Injection:
    return Injection(number, cause.what, cause.layer, name, (span,))


def _any_cause(random: Random, machine: Machine, at: float) -> tuple[Injection, Cause]:
    """Return any fault of any object, that lasts at least two minutes."""
    cause = random.choice([cause for cause in CAUSES if cause.targets(machine)])
    name = random.choice(sorted(cause.targets(machine)))
    length = max(_length(random, cause), 120.0)
    return _inject(0, cause, name, (at, at + length)), cause


def _able(targets: Targets, machine: Machine, names: list[str]) -> list[str]:
    return [name for name in names if name in set(targets(machine))]


def _after_another(random: Random, machine: Machine, at: float) -> _Plan | None:
    """A disk is slow, hangs or has errors; later something worse befalls the same disk."""
    first = _cause(random.choice(_OF_DISK), "disk")
    disks = sorted(first.targets(machine))
    if not disks:
        return None
    name = random.choice(disks)
    worse = [_cause(what, "disk") for what in _WORSE if what != first.what]
    second = random.choice([cause for cause in worse if _able(cause.targets, machine, [name])])
    end = at + min(_length(random, first), 3600.0)
    later = random.choice((at + (end - at) * random.random(), end + random.uniform(60.0, 7200.0)))
    return (
        [
            (_inject(0, first, name, (at, end)), first),
            (_inject(1, second, name, (later, later + _length(random, second))), second),
        ],
        (Life(0.0, DAY_SECONDS),),
        (),
    )


def _during_rebuild(random: Random, machine: Machine, at: float) -> _Plan | None:
    """A member of an array leaves and is back; while it syncs another member fails."""
    gone = _cause("gone", "disk")
    arrays = [node for node in machine.nodes.values() if node.layer is Layer.ARRAY]
    random.shuffle(arrays)
    for array in arrays:
        members = _able(gone.targets, machine, list(array.carriers))
        if len(members) >= 2:
            break
    else:
        return None
    one, other = random.sample(members, 2)
    back = at + random.uniform(60.0, 1800.0)
    causes = [_cause(what, "disk") for what in ("slow", *_WORSE)]
    second = random.choice([cause for cause in causes if _able(cause.targets, machine, [other])])
    later = back + random.uniform(300.0, 2100.0)  # behaviour: it syncs for that long at least
    return (
        [
            (_inject(0, gone, one, (at, back)), gone),
            (_inject(1, second, other, (later, later + _length(random, second))), second),
        ],
        (Life(0.0, DAY_SECONDS),),
        (),
    )


def _at_install(random: Random, machine: Machine, at: float) -> _Plan:
    """Something fails in the first five minutes after the first start."""
    lives = (Life(at - random.uniform(0.0, 300.0), DAY_SECONDS),)
    return [_any_cause(random, machine, at)], lives, ()


def _across_restart(random: Random, machine: Machine, at: float) -> _Plan:
    """iowarden is restarted once or twice while something is wrong."""
    injection, cause = _any_cause(random, machine, at)
    start, (begin, end) = 0.0, injection.spans[0]
    lives = []
    for _ in range(random.choice((1, 2))):
        stop = max(random.uniform(begin, min(end, begin + 7200.0)), start + 10.0)
        lives.append(Life(start, stop))
        start = stop + random.choice((1.0, 5.0, 60.0, 600.0))
    return [(injection, cause)], (*lives, Life(start, DAY_SECONDS)), ()


def _renamed(random: Random, machine: Machine, at: float) -> _Plan | None:
    """A disk is pulled, comes back under another name, and later fails again."""
    gone = _cause("gone", "disk")
    disks = [name for name in machine.of_role("sas", "sata") if gone.targets(machine)]
    if not disks:
        return None
    name = random.choice(sorted(disks))
    back = at + random.uniform(30.0, 1800.0)
    causes = [_cause(what, "disk") for what in ("slow", *_WORSE)]
    second = random.choice([cause for cause in causes if _able(cause.targets, machine, [name])])
    later = back + random.uniform(30.0, 20_000.0)
    return (
        [
            (_inject(0, gone, name, (at, back)), gone),
            (_inject(1, second, name, (later, later + _length(random, second))), second),
        ],
        (Life(0.0, DAY_SECONDS),),
        (Renaming(name, back, "sdzz"),),
    )


STORIES: Mapping[str, Callable[[Random, Machine, float], _Plan | None]] = MappingProxyType(
    {
        "one after another / disk": _after_another,
        "during a rebuild / array": _during_rebuild,
        "at install / any": _at_install,
        "across a restart / any": _across_restart,
        "returns under another name / disk": _renamed,
    }
)


def sequel_run(story: str, seed: int) -> Run:
    """Return the run of a story and a seed; the same one each time."""
    random = Random(f"{story} {seed}")
    plan = None
    while plan is None:
        machine = random_machine(random)
        at = random.uniform(1000.0, 20_000.0)
        plan = STORIES[story](random, machine, at)
    chosen, lives, renamings = plan
    world = World(machine, random)
    for injection, cause in chosen:
        for span in injection.spans:
            cause.act(world, injection, span, frozenset((injection.number,)))
    behaviour.climb(world)
    injections = tuple(injection for injection, _ in chosen)
    facts = merged(world.facts)
    return Run(seed, machine, injections, lives, facts, story=story, renamings=renamings)
