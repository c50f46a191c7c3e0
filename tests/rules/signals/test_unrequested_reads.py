"""Which programs make a disk read without a request, by their counters of two sweeps."""

from __future__ import annotations

import pytest

from iowarden.collectors.block.diskstats import BlockIo
from iowarden.collectors.procfs.process_io import ProcessIo, Sweep
from iowarden.rules.signals.waits.load import Moved, SweepMoment
from iowarden.rules.signals.waits.unrequested_reads import unrequested_reads

MB = 1_000_000
MINUTE = 60.0


def moment(
    seconds: float, read: int, written: int, calls: tuple[int, int], faults: int
) -> SweepMoment:
    """Return a sweep of a database that is all of its disk's load, in MB."""
    process = ProcessIo(
        *(1500, 1000, 1, "java", "questdb.service"),
        *(read * MB, written * MB, 0, calls[0] * MB, calls[1] * MB, faults),
    )
    counters = (9, 0, read * MB // 512, 0, 9, 0, written * MB // 512, 0, 0, 0, 0)
    moved = Moved(seconds, {"sdb": BlockIo("sdb", 8, 16, counters)})
    return SweepMoment(Sweep(seconds, (process,)), moved)


@pytest.mark.parametrize(
    ("sentence", "requested", "by_calls", "faults", "is_proven"),
    [
        ("columns are mapped, the log is written by write(2)", 12, 1200, 42_000, True),
        ("all is mapped", 0, 0, 42_000, True),
        ("parts of pages by write(2), without a fault", 12, 2400, 9, True),
        ("a search engine that maps what it reads on purpose", 12, 2400, 42_000, False),
        ("a compaction", 2_700, 2400, 9, False),
        ("asynchronous I/O, which reads without a fault and a call", 0, 0, 9, False),
    ],
)
def test_whether_reads_are_proven_to_be_unrequested(
    sentence: str, requested: int, by_calls: int, faults: int, *, is_proven: bool
) -> None:
    """Each row: a minute of 2.7 GB read and 2.4 GB written, and how the program did it."""
    before = moment(1000.0, 0, 0, (0, 0), 0)
    after = moment(1000.0 + MINUTE, 2_700, 2_400, (requested, by_calls), faults)
    found = unrequested_reads("sdb", before, after)
    assert found is not None
    assert (found.ratio >= 0.5) is is_proven, sentence
