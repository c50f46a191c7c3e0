"""Plays random machines that break at random, and prints what iowarden's mails got wrong, by class.

    PYTHONPATH=tests .venv/bin/python tests/bench/world.py --runs 2000 [--first 0]
    PYTHONPATH=tests .venv/bin/python tests/bench/world.py --seed 17    # one run, in detail
    PYTHONPATH=tests .venv/bin/python tests/bench/world.py --sequels --runs 500
    PYTHONPATH=tests .venv/bin/python tests/bench/world.py --texts --runs 600
    PYTHONPATH=tests .venv/bin/python tests/bench/world.py --text-seed 98
    PYTHONPATH=tests .venv/bin/python tests/bench/world.py --source linux-source-6.12

Tier A: facts straight into the incidents, without texts; a run is 24 hours. The judge is
support/world/oracle.py. --sequels: so many of each story of support/world/sequels.py.
Tier B (--texts): files and lines of the kernel through the whole product,
some minutes; the judge is support/world_texts.py. --source compares the formats of the lines with
an unpacked kernel: each must stand at its line. Nothing here passes or fails.
"""

from __future__ import annotations

import argparse
import re
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from support import world_play, world_texts
from support.world import oracle, printk
from support.world.injection import Run, random_run
from support.world.sequels import STORIES, sequel_run

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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


def show(run: Run) -> None:
    """Print one run: what was injected, what shows of it, the mails, what is wrong."""
    times = [(round(life.start), round(life.stop)) for life in run.lives]
    print(f"seed {run.seed}: {run.group}; iowarden runs {times}")
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


def show_texts(seed: int) -> None:
    """Print one run of tier B: what happens, the kernel's lines, the mails, what is wrong."""
    played = world_texts.play(seed)
    story = played.story
    print(f"seed {seed}: {played.group}; iowarden is restarted: {story.restart}")
    for node in story.machine.nodes.values():
        print(f"  {node.role}: {node.name} on {', '.join(node.carriers) or '-'}")
    for at, act in story.acts:
        lines = getattr(act, "lines", ())
        names = getattr(act, "names", "")
        print(f"  {at:9.1f}  {type(act).__name__} {' '.join(names)}")
        for line in lines:
            print(f"             <{line.level}> {line.text}")
    for mail in played.mails:
        print(f"  {mail.at_seconds:9.0f}  {mail.subject}")
    for miss in world_texts.judge(played):
        print(f"  MISS {miss.what}: {miss.detail}")


def play_texts(first: int, runs: int) -> None:
    """Play tier B, and print the table."""
    rows: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    began = time.process_time()
    for seed in range(first, first + runs):
        played = world_texts.play(seed)
        misses = world_texts.judge(played)
        row = rows[played.group]
        row[0] += 1
        row[1] += not misses
        row[2] += len(played.mails)
        for miss in misses:
            print(f"seed {seed}: {played.group}: {miss.what}: {miss.detail}")
    used = time.process_time() - began
    print(f"{runs} runs, seeds {first} to {first + runs - 1}: {used:.0f} s of CPU\n")
    print(f"{'class':38} {'runs':>5} {'right':>6} {'mails':>6}")
    for name, (count, right, mails) in sorted(rows.items()):
        print(f"{name:38} {count:5} {100 * right / count:5.0f}% {mails / count:6.1f}")


def check_formats(source: Path) -> None:
    """Print the formats that do not stand at their lines, by their texts between the values."""
    wrong = 0
    for name, form in printk.FORMATS.items():
        path, _, number = form.place.rpartition(":")
        lines = (source / path).read_text(errors="replace").splitlines()
        near = "\n".join(lines[int(number) - 1 : int(number) + 7])
        texts = [text.strip() for text in re.split(r"%[#0-9]*[a-zA-Z]+", form.text)]
        texts = [text for text in texts if len(text) > 4] or texts
        if not any(text[:16].rstrip() in near for text in texts):
            wrong += 1
            print(f"{form.place}: expected '{name}': {form.text}")
    print(f"{len(printk.FORMATS)} formats, {wrong} of them not found")


def main() -> None:
    """Play, and print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="print this run")
    parser.add_argument("--sequels", action="store_true", help="stories of two faults, starts")
    parser.add_argument("--texts", action="store_true", help="tier B")
    parser.add_argument("--text-seed", type=int, help="print this run of tier B")
    parser.add_argument("--source", type=Path, help="a kernel's source: check the formats")
    chosen = parser.parse_args()
    if chosen.source is not None:
        check_formats(chosen.source)
        return
    if chosen.text_seed is not None:
        show_texts(chosen.text_seed)
        return
    if chosen.texts:
        play_texts(chosen.first, chosen.runs)
        return
    if chosen.seed is not None:
        for run in _runs(chosen.seed, 1, with_sequels=chosen.sequels):
            show(run)
        return
    play_facts(_runs(chosen.first, chosen.runs, with_sequels=chosen.sequels))


def _runs(first: int, count: int, *, with_sequels: bool) -> Iterator[Run]:
    """Yield the runs of seeds; with sequels those of each story instead."""
    for seed in range(first, first + count):
        if with_sequels:
            yield from (sequel_run(story, seed) for story in STORIES)
        else:
            yield random_run(seed)


def play_facts(runs: Iterable[Run]) -> None:
    """Play tier A, and print the tables."""
    rows: defaultdict[str, Row] = defaultdict(Row)
    began, steps = time.process_time(), 0
    for run in runs:
        play = world_play.Play(run)
        mails = play.play()
        steps += play.steps
        misses = oracle.judge(run, mails, world_play.visible(run), play.acks)
        rows[run.group].add(run, misses, len(mails))
    used, count = time.process_time() - began, sum(row.runs for row in rows.values())
    print(f"{count} runs: {used:.0f} s of CPU, {count / used:.1f}")
    print(f"runs a second, {steps / count:.0f} steps a run\n")
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
