"""Plays random streams of faults through the incidents, and prints which mails break the budget.

    PYTHONPATH=tests .venv/bin/python tests/bench/budget.py --streams 20000 [--first 0]
    PYTHONPATH=tests .venv/bin/python tests/bench/budget.py --seed 17   # one, in detail

The law is in support/budget.py; `make test` plays some of them.
"""

from __future__ import annotations

import argparse
import time
from collections import Counter

from support import budget


def main() -> None:
    """Play, and print what is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--streams", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="print this stream and its mails")
    chosen = parser.parse_args()
    if chosen.seed is not None:
        _print_one(chosen.seed)
        return
    began, wrong, most = time.process_time(), 0, 0
    streams, mails = Counter[str](), Counter[str]()
    for seed in range(chosen.first, chosen.first + chosen.streams):
        stream = budget.stream(seed)
        result = budget.played(stream)
        streams[stream.family] += 1
        mails[stream.family] += len(result.mails)
        most = max(most, _most_an_hour(result))
        for miss in budget.misses(stream, result):
            wrong += 1
            print(f"seed {seed}, {stream.family}: {miss}", flush=True)
    used = time.process_time() - began
    for family, count in sorted(streams.items()):
        print(f"{family}: {count} streams, {mails[family] / count:.1f} mails a stream")
    print(
        f"{chosen.streams} streams: {wrong} wrong; at most {most} mails an hour about one incident;"
        f" {used:.0f} s of CPU"
    )


def _most_an_hour(result: budget.Played) -> int:
    """Return the largest number of mails about one incident within an hour."""
    return max(
        (
            sum(mail.at <= other.at < mail.at + budget.HOUR for other in result.of(mail.key))
            for mail in result.mails
        ),
        default=0,
    )


def _print_one(seed: int) -> None:
    stream = budget.stream(seed)
    result = budget.played(stream)
    for spell in stream.spells:
        kind = f"{spell.kind.name} {spell.kind.severity} {spell.kind.redundancy}".strip()
        print(f"{spell.start} to {spell.end}: {kind} of {spell.subject}")
    for quiet in stream.silences:
        print(f"{quiet.start} to {quiet.end}: silence of {quiet.subject}")
    for each in result.acknowledged:
        print(f"{each.at}: acknowledged {each.key}")
    for mail in result.mails:
        others = f" and {', '.join(mail.companions)}" if mail.companions else ""
        print(f"mail at {mail.at}: {mail.reason}, {mail.key}{others}")
    for miss in budget.misses(stream, result):
        print(f"wrong: {miss}")


if __name__ == "__main__":
    main()
