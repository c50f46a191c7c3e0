"""The behaviours of the world beside recordings of them in a guest, field by field.

What has a recording: a disk that stops answering and goes on (fixtures, hung-disk: the counters),
and the order of the kernel's lines, noted here from guests with Linux 6.12 (fixtures, behaviours)
and 6.1 (the corpus has the logs). What has none is listed in LACKING.
"""

from __future__ import annotations

import re
import tempfile
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from support import world_texts
from support.recordings import CORPUS, FIXTURES, fixture, needs_corpus, recorded
from support.world import printk, texts

SICK, STANDS, ANSWERS = "sdc", (706.0, 763.0), 764.2
"""The recorded disk, between which times it stood, and when it answered (fixtures/README.md)."""
READ_MS, WRITES, WRITE_MS, IN_FLIGHT, IO_TICKS, QUEUE_MS, DISCARD_MS, FLUSH_MS = (
    3, 4, 7, 8, 9, 10, 14, 16,
)  # fmt: skip
"""Columns of /proc/diskstats after the name. Source: kernel, admin-guide/iostats.rst."""
ORDERS = {
    ("medium errors", "sas"): (
        "errors/scsidebug-medium-direct.dmesg.txt",
        ("result", "sense_key", "add_sense", "cdb", "block_error"),
    ),
    ("offlined", "sas"): (
        "errors/scsidebug-timeout.dmesg.txt",
        ("offlined", "result", "cdb", "block_error"),
    ),
    ("pulled", "sas"): ("hotplug/scsi-del.dmesg.txt", ("sync_cache", "sync_failed")),
    ("hang", "sata"): (
        "errors/blkdebug-sata0-read-direct.dmesg.txt",
        ("ata_exception", "ata_command", "ata_status", "configured", "ata_complete"),
    ),
    ("hang, no time-out", "virtual"): ("hang/hung-task.dmesg.txt", ("hung_task",)),
    ("hang", "nvme"): ("hang/throttle-nvme0.dmesg.txt", ("nvme_timeout", "nvme_abort")),
    ("pulled", "member of raid1"): (
        "inventory/md-fail.txt",
        ("super_written", "raid1_failed", "raid1_continues"),
    ),
    ("members pulled", "raid5 under ext4"): (
        "members-pulled.dmesg.txt",
        (
            *("sync_cache", "sync_failed"),
            *("super_written", "raid5_failed", "raid5_continues", "raid5_cannot"),
            *("jbd2_abort", "buffer_error", "jbd2_super"),
            *("ext4_error", "ext4_super", "ext4_read_only"),
        ),
    ),
    ("removed", "nvme"): (
        "removed.dmesg.txt",
        ("nvme_timeout", "nvme_reset", "nvme_abort", "nvme_not_ready", "nvme_disabled"),
    ),
    ("session lost", "iscsi"): (
        "session-lost.dmesg.txt",
        (
            *("ping_timeout", "conn_error", "recovery_timeout"),
            *("reject_offline", "block_error", "path_fails"),
        ),
    ),
    ("wrong copy", "btrfs"): ("wrong-copy.dmesg.txt", ("csum_failed", "dev_stats", "corrected")),
}
"""By behaviour and role the recorded log, and the order of the kernel's lines in it."""
BEHAVIOURS = FIXTURES / "behaviours"
"""Logs of Linux 6.12 that tests/vm/record_behaviours.py recorded; the others are in the corpus."""
EARLIER = {"nvme_timeout": "I/O %d (%s) QID %d timeout, aborting"}
"""Formats that Linux 6.1, which was recorded, has in place of those of 6.12. Source: the log."""
LACKING = frozenset(("link lost", "firmware", "leaves"))
"""Behaviours that nobody has recorded in a guest: their lines are those of the source alone.

An expander, an mpt3sas adapter and a SATA link are none that QEMU has.
"""


def story_of(what: str, role: str) -> tuple[texts.Story, str]:
    """Return a story of a behaviour, and the disk or array with that role that it befalls."""
    for seed in range(20, 4000):
        story = texts.random_story(Random(seed), seed)
        disk = min(story.right[0][1]) if story.right else ""
        has_lines = any(isinstance(act, texts.Says | texts.Leaves) for _, act in story.acts)
        if story.what != what or not has_lines:
            continue
        above = story.machine.direct(disk)
        own = story.machine.nodes[disk].role
        roles = {f"member of {story.machine.nodes[name].role}" for name in above} | {own}
        if role in roles | {f"{own} under {story.machine.nodes[name].role}" for name in above}:
            return story, disk
    raise AssertionError(f"no story of '{what}' of a '{role}' in 4000 seeds")


_VALUE = r"%[#0-9]*[a-zA-Z]+"


def _pattern(text: str) -> str:
    """Return a pattern of the messages of a format."""
    return ".*".join(map(re.escape, re.split(_VALUE, text.rstrip())))


def order(lines: list[str]) -> list[str]:
    """Return the names of the formats of lines, without repetitions and what is not storage."""
    names: list[str] = []
    for line in lines:
        for name, form in printk.FORMATS.items():
            patterns = [_pattern(form.text)]
            patterns += [_pattern(EARLIER[name])] if name in EARLIER else []
            shown = "|".join(patterns)
            is_message = form.level is not None and len(re.sub(_VALUE, "", form.text.rstrip())) > 4
            if is_message and re.search(f"(?:^|[:\\]] |tag#[0-9]+ )(?:{shown})$", line.strip()):
                names.append(name)
                break
    return list(dict.fromkeys(names))


def printed(story: texts.Story) -> list[str]:
    """Return the kernel's lines of a story, in order."""
    acts = (act for _, act in story.acts if isinstance(act, texts.Says | texts.Leaves))
    return [line.text for act in acts for line in act.lines]


@pytest.mark.parametrize(("what", "role"), ORDERS)
def test_lines_of_a_behaviour_are_in_the_recorded_order(what: str, role: str) -> None:
    """What else it prints, the adapter's driver does: the guest had another one."""
    story, _ = story_of(what, role)
    _, expected = ORDERS[what, role]
    names = [name for name in order(printed(story)) if name in expected]
    assert tuple(names) == expected


def noted_as(log: Path, expected: tuple[str, ...]) -> tuple[str, ...]:
    """Return the order in a log of the formats of a note."""
    return tuple(name for name in order(log.read_text().splitlines()) if name in expected)


IN_FIXTURES = [each for each in ORDERS.values() if "/" not in each[0]]
IN_CORPUS = [each for each in ORDERS.values() if "/" in each[0]]


@pytest.mark.parametrize(("path", "expected"), IN_FIXTURES)
def test_the_noted_orders_are_those_of_the_recorded_logs(
    path: str, expected: tuple[str, ...]
) -> None:
    """So that the notes cannot be wrong."""
    assert noted_as(BEHAVIOURS / path, expected) == expected


@needs_corpus
@pytest.mark.parametrize(("path", "expected"), IN_CORPUS)
def test_the_noted_orders_are_those_of_the_corpus(path: str, expected: tuple[str, ...]) -> None:
    """Recorded with Linux 6.1."""
    assert noted_as(CORPUS / "vm" / path, expected) == expected


def test_each_behaviour_has_a_recording_or_is_listed() -> None:
    """Who adds one records it, or says that it lacks one."""
    assert {what for what, _ in ORDERS} | LACKING == {each.what for each in texts.BEHAVIOURS}


# A disk that stops answering: the counters


def rows(text: str | bytes) -> dict[str, list[int]]:
    """Return the counters of each device of /proc/diskstats."""
    shown = text.decode() if isinstance(text, bytes) else text
    return {line.split()[2]: [*map(int, line.split()[3:])] for line in shown.splitlines()}


@pytest.fixture(scope="module")
def looks() -> list[tuple[float, dict[str, list[int]]]]:
    """The recorded counters by time."""
    steps = recorded(fixture("hung-disk"))
    return [
        (step.frame.monotonic_seconds, rows(step.files["/proc/diskstats"] or ""))
        for step in steps
        if "/proc/diskstats" in step.files
    ]


@pytest.fixture(scope="module")
def played() -> tuple[str, list[list[dict[str, list[int]]]]]:
    """The disk of a story, and the counters before, while it stands, and when it goes on."""
    story, disk = story_of("hang", "sas")
    with tempfile.TemporaryDirectory() as directory:
        machine = world_texts.TextMachine(Path(directory), story.machine)
    parts: list[list[dict[str, list[int]]]] = []
    for act in (None, texts.Stands((disk,)), texts.GoesOn((disk,))):
        if act is not None:
            machine.do(act)
        machine.wait(20.0, 1.0)
        parts.append(
            [rows(step.files["/proc/diskstats"] or "") for step in machine.recorded()[-20:]]
        )
    return disk, parts


def moved(before: list[int], after: list[int]) -> dict[int, int]:
    """Return by column by how much a counter moved."""
    pairs = enumerate(zip(before, after, strict=True))
    return {column: later - first for column, (first, later) in pairs if first != later}


def test_a_disk_has_the_recorded_columns(
    looks: list[tuple[float, dict[str, list[int]]]],
    played: tuple[str, list[list[dict[str, list[int]]]]],
) -> None:
    """As many, in the same order: what took time is the sum of reads, writes and the rest."""
    disk, (before, *_) = played
    assert len(before[0][disk]) == len(looks[0][1][SICK])
    for row in (before[0][disk], looks[0][1]["sdd"]):
        others = row[DISCARD_MS] + row[FLUSH_MS]
        assert row[QUEUE_MS] == pytest.approx(row[READ_MS] + row[WRITE_MS] + others, abs=30)


def test_of_a_disk_that_stands_only_io_ticks_moves_a_second_each_second(
    looks: list[tuple[float, dict[str, list[int]]]],
    played: tuple[str, list[list[dict[str, list[int]]]]],
) -> None:
    """What its requests wait is counted when they complete."""
    disk, (_, while_it_stands, _) = played
    between = [row for at, row in looks if STANDS[0] <= at <= STANDS[1]]
    for name, states in ((SICK, between), (disk, while_it_stands[1:])):
        for before, after in pairwise(states):
            changed = moved(before[name], after[name])
            assert set(changed) == {IO_TICKS}, name
            assert 900 <= changed[IO_TICKS] <= 1100, name
            assert after[name][IN_FLIGHT] > 0, name


def test_when_it_goes_on_its_requests_complete_with_all_that_they_waited(
    looks: list[tuple[float, dict[str, list[int]]]],
    played: tuple[str, list[list[dict[str, list[int]]]]],
) -> None:
    """Three requests that waited for a minute are three minutes of writes."""
    disk, (_, while_it_stands, afterwards) = played
    last = [row for at, row in looks if at < ANSWERS][-1]
    first = next(row for at, row in looks if at > ANSWERS)
    stood = ((SICK, last, first, 60.0), (disk, while_it_stands[-1], afterwards[0], 20.0))
    for name, before, after, seconds in stood:
        changed = moved(before[name], after[name])
        waited = before[name][IN_FLIGHT] * seconds * 1000
        assert changed[WRITE_MS] == pytest.approx(waited, rel=0.1), name
        assert changed[QUEUE_MS] == pytest.approx(waited, rel=0.1), name
        assert changed[IN_FLIGHT] == -before[name][IN_FLIGHT], name
        assert changed[WRITES] >= before[name][IN_FLIGHT], name
