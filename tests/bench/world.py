"""Plays random machines that break at random, and prints what iowarden's mails got wrong, by class.

    PYTHONPATH=tests .venv/bin/python tests/bench/world.py --runs 2000 [--first 0]
    PYTHONPATH=tests .venv/bin/python tests/bench/world.py --seed 17    # one run, in detail

Tier A: facts straight into the incidents, without texts; a run is 24 hours. The judge is
support/world/oracle.py. Nothing here passes or fails.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from support import world_play
from support.world import oracle
from support.world.injection import Run, random_run

EXAMPLES = 3
_OBJECTS = ("object: ", "mail about", "mail on")
"""What misses begin with that are about the object of a title."""


@dataclass
class Row:
    """The runs of one class."""

    runs: int = 0
    right: int = 0
    named: int = 0
    """Runs in which each title had a right object."""
    titled: int = 0
    """Runs in which each title had a right kind as well."""
    mails: int = 0
    misses: Counter[str] = field(default_factory=Counter)
    seeds: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def add(self, run: Run, misses: list[oracle.Miss], mails: int) -> None:
        """Count one run."""
        self.runs += 1
        self.mails += mails
        self.right += not misses
        self.named += not any(miss.what.startswith(_OBJECTS) for miss in misses)
        self.titled += not any(miss.what.startswith((*_OBJECTS, "kind")) for miss in misses)
        for miss in misses:
            self.misses[miss.what] += 1
            self.seeds[miss.what].append(run.seed)


def show(seed: int) -> None:
    """Print one run: what was injected, what shows of it, the mails, what is wrong."""
    run = random_run(seed)
    times = [(round(life.start), round(life.stop)) for life in run.lives]
    print(f"seed {seed}: {run.group}; iowarden runs {times}")
    for injection in run.injections:
        spans = ", ".join(f"{start:.0f} to {end:.0f}" for start, end in injection.spans[:5])
        where = f"{injection.object} ({injection.layer})"
        print(f"  {injection.what} of {where}, {len(injection.spans)} times: {spans}")
    for fact in run.facts:
        print(f"    {fact.at:9.1f} to {fact.until:9.1f}  {fact.by}: {fact.kind}: {fact.object}")
    play = world_play.Play(run)
    if run.acknowledged is not None:
        print(f"  acknowledged at {run.acknowledged:.0f}")
    for mail in play.play():
        text = f"[{mail.tag}] {mail.object}: {mail.reason}: {mail.kind}: {mail.about}"
        print(f"  {mail.at:9.0f}  {mail.incident} {text}")
        print(f"             {'; '.join(sorted(mail.content)[:12])}")
    for miss in oracle.judge(run, play.mails, world_play.visible(run), play.acks):
        print(f"  MISS {miss.what}: {miss.detail}")


def main() -> None:
    """Play, and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="print this run")
    chosen = parser.parse_args()
    if chosen.seed is not None:
        show(chosen.seed)
        return
    rows: defaultdict[str, Row] = defaultdict(Row)
    began, steps = time.process_time(), 0
    for seed in range(chosen.first, chosen.first + chosen.runs):
        run = random_run(seed)
        play = world_play.Play(run)
        mails = play.play()
        steps += play.steps
        misses = oracle.judge(run, mails, world_play.visible(run), play.acks)
        rows[run.group].add(run, misses, len(mails))
    used = time.process_time() - began
    last, speed = chosen.first + chosen.runs - 1, chosen.runs / used
    print(f"{chosen.runs} runs, seeds {chosen.first} to {last}: {used:.0f} s of CPU, {speed:.1f}")
    print(f"runs a second, {steps / chosen.runs:.0f} steps a run\n")
    _print(rows)


def _print(rows: dict[str, Row]) -> None:
    print(f"{'class':38} {'runs':>5} {'right':>6} {'object':>6} {'title':>6} {'mails':>6}")
    for name, row in sorted(rows.items()):
        shares = " ".join(f"{100 * n / row.runs:5.0f}%" for n in (row.right, row.named, row.titled))
        print(f"{name:38} {row.runs:5} {shares} {row.mails / row.runs:6.1f}")
    every = Counter[str]()
    seeds: defaultdict[str, list[int]] = defaultdict(list)
    for row in rows.values():
        every += row.misses
        for what, numbers in row.seeds.items():
            seeds[what] += numbers
    print(f"\n{'miss':58} {'runs':>5}  seeds")
    for what, count in every.most_common():
        print(f"{what:58} {count:5}  {' '.join(map(str, sorted(seeds[what])[:EXAMPLES]))}")
    print("\nby class:")
    for name, row in sorted(rows.items()):
        print(name)
        for what, count in row.misses.most_common(8):
            print(f"    {what:58} {count:4}  {' '.join(map(str, row.seeds[what][:EXAMPLES]))}")


if __name__ == "__main__":
    main()
