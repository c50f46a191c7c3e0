"""Plays random streams of faults through the incidents, and prints which mails break the budget.

    PYTHONPATH=tests .venv/bin/python tests/bench/budget.py --streams 20000 [--first 0]

The law is in support/budget.py; `make test` plays some of them.
"""

from __future__ import annotations

import argparse
import time

from support import budget


def main() -> None:
    """Play, and print what is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--streams", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    chosen = parser.parse_args()
    began, mails, wrong, most = time.process_time(), 0, 0, 0
    for seed in range(chosen.first, chosen.first + chosen.streams):
        spells = budget.stream(seed)
        sent = budget.played(spells)
        mails += len(sent)
        hours = (sum(at <= other[0] < at + budget.HOUR for other in sent) for at, *_ in sent)
        most = max(most, *hours, 0)
        for miss in budget.misses(spells, sent):
            wrong += 1
            print(f"seed {seed}: {miss}")
    used = time.process_time() - began
    print(
        f"{chosen.streams} streams: {wrong} wrong, {mails / chosen.streams:.1f} mails a stream,"
        f" at most {most} an hour; {used:.0f} s of CPU"
    )


if __name__ == "__main__":
    main()
