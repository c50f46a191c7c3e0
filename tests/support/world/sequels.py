"""Faults as real incidents had them: one after the other, during a rebuild, around a start.

Apart from injection.random_run, so that its seeds stay what they are. Units: seconds of the world's
clock.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from types import MappingProxyType
from typing import TYPE_CHECKING

from support.world import behaviour
from support.world.behaviour import FOREVER, World
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
    until,
)
from support.world.machine import Layer, Machine, Node, disk_names, random_machine

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


def _members(machine: Machine) -> list[str]:
    """Return the disks beside which another one fits."""
    return machine.of_role("sas", "nvme")


_REFUSED = Cause("refuses a write", "disk", _members, until(behaviour.refused), (600.0, 20_000.0))


def _spare_taken(random: Random, machine: Machine, at: float) -> _Plan | None:
    """A spare takes the place of a member, which stays; later the spare or another one fails.

    Of what befalls a member the kind does not matter: it may be a write that it refuses.
    """
    arrays = [machine.nodes[name] for name in machine.of_role("raid1", "raid5", "raid6", "raid10")]
    members = set(_members(machine))
    arrays = [array for array in arrays if members.issuperset(array.carriers)]
    if not arrays:
        return None
    array = _with_spare(random, machine, random.choice(arrays))
    (spare,) = array.idle
    one = random.choice(array.places)
    able = [_REFUSED, _REFUSED, _cause("offlined", "disk"), _cause("removed", "disk")]
    first = random.choice([cause for cause in able if _able(cause.targets, machine, [one])])
    another = random.choice([name for name in array.places if name != one])
    other = random.choice((spare, spare, another))
    able = [_REFUSED, _REFUSED, *(_cause(what, "disk") for what in _WORSE)]
    second = random.choice([cause for cause in able if _able(cause.targets, machine, [other])])
    removed = random.choice((FOREVER, at + random.uniform(60.0, 20_000.0)))
    late = random.uniform(-0.5, 1.0) ** 3 * 7200.0  # mostly when it is in sync
    later = max(at + 180.0, at + 120.0 + array.rebuild_seconds + late)
    return (
        [
            (_inject(0, first, one, (at, removed)), first),
            (_inject(1, second, other, (later, later + _length(random, second))), second),
        ],
        (Life(0.0, DAY_SECONDS),),
        (),
    )


def _with_spare(random: Random, machine: Machine, array: Node) -> Node:
    """Return an array with one disk more, that holds nothing until a member fails."""
    beside = machine.nodes[array.carriers[0]]
    count = len(machine.of_role("nvme"))
    free = (name for name in disk_names() if name not in machine.nodes)
    name = f"nvme{count}n1" if beside.role == "nvme" else next(free)
    machine.add(replace(beside, name=name))
    seconds = 60.0 * 240.0 ** random.random()
    carriers = (*array.carriers, name)
    machine.add(replace(array, carriers=carriers, idle=(name,), rebuild_seconds=seconds))
    return machine.nodes[array.name]


STORIES: Mapping[str, Callable[[Random, Machine, float], _Plan | None]] = MappingProxyType(
    {
        "one after another / disk": _after_another,
        "during a rebuild / array": _during_rebuild,
        "at install / any": _at_install,
        "across a restart / any": _across_restart,
        "returns under another name / disk": _renamed,
        "after a spare took over / array": _spare_taken,
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
