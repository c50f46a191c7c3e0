"""The file of an unreadable sector, for mails: found in a thread."""

from __future__ import annotations

import random
import threading
from dataclasses import replace
from queue import SimpleQueue
from typing import TYPE_CHECKING

import pytest
from support import images
from support.images import SECTOR, Imaged
from support.memory import write_tree

from iowarden.collectors.event import StorageEvent
from iowarden.daemon.clock import PlayedClock
from iowarden.daemon.locate import affected_files
from iowarden.daemon.locate.affected_files import (
    AffectedFiles,
    SectorLookup,
    SectorQuery,
    sector_query,
)
from iowarden.daemon.locate.locate import Located
from iowarden.daemon.service import persisted_state
from iowarden.rules.alerting.alerts import AlertState
from iowarden.rules.incidents.model import IncidentMember
from iowarden.rules.severity import Severity
from iowarden.rules.topology.file_location import ContentKind, SectorContent

if TYPE_CHECKING:
    from pathlib import Path

START = 2048
BOOT_SECONDS = 1_795_000_000.0
"""Far from the uptime: the kernel's log has the one clock, what is stored the other."""
MOUNTS = "31 22 8:17 / /srv rw - ext4 /dev/sdb1 rw\n"


class Uptime(PlayedClock):
    """The clock of a machine that runs since a day of 2026, so long."""

    def __init__(self, uptime_seconds: float) -> None:
        """Set it."""
        super().__init__()
        self.set(uptime_seconds, BOOT_SECONDS + uptime_seconds)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        uptime = self.uptime() + seconds
        self.set(uptime, BOOT_SECONDS + uptime)


def medium_error(sector: int | None, **fields: str) -> StorageEvent:
    """Return an event of the kernel log about a sector of the whole disk."""
    told = {"device": "sdb", **fields}
    return StorageEvent("kernel", "block_medium_error", "a line", sector=sector, **told)  # type: ignore[arg-type]


def told(answer: SectorContent, start: int = 8, count: int = 8, **fields: object) -> SectorLookup:
    """Return the result for some sectors of sdb: one owner."""
    found = Located("sdb", answer.start, answer.count, (answer,), "sdb", 512)
    return SectorLookup("disk S-B", 0.0, "sdb", start, count, found, **fields)  # type: ignore[arg-type]


def machine(tmp_path: Path, text: bytes) -> tuple[Imaged, int]:
    """Return a disk with one partition and a file, and the first sector of the file."""
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "table").write_bytes(text)
    image = tmp_path / "image"
    images.make_ext4(image, tmp_path / "files", "-b", "4096")
    sectors = image.stat().st_size // SECTOR
    write_tree(
        tmp_path / "machine",
        {
            **images.disk("sdb", START + sectors + 4096, "8:16"),
            **images.partition("sdb", 17, START, sectors),
            "/proc/1/mountinfo": MOUNTS,
        },
    )
    root = Imaged(str(tmp_path / "machine"), {"/dev/sdb17": str(image)})
    return root, START + min(images.where_is(image.read_bytes(), text))


def test_the_file_of_a_sector_is_found_once_a_day(tmp_path: Path) -> None:
    """With the steps to take; queried again the next day."""
    root, sector = machine(tmp_path, random.Random(1).randbytes(50_000))
    hits: SimpleQueue[SectorLookup] = SimpleQueue()
    clock = Uptime(1000.0)
    files = AffectedFiles(lambda: root, clock.now, clock.uptime, hits.put)
    question = sector_query(medium_error(sector), "disk S-B")
    assert question == SectorQuery("disk S-B", "sdb", sector, 8)
    files.request(question)
    hit = hits.get(timeout=60)
    files.take(hit)
    assert hit.certain
    asked = len(root.asked)
    files.request(question)
    assert (len(root.asked), hits.empty()) == (asked, True)
    (line,) = affected_files.evidence(files.lookups(["disk S-B"], 0.0), lambda at: at)
    assert "file /srv/table, bytes 0 to 4095" in line.text
    assert affected_files.affected([hit]) == ("file /srv/table",)
    other = replace(question, subject="disk S-C")
    files.request(other)
    assert hits.get(timeout=60).subject == "disk S-C"
    (text,) = affected_files.advice([hit])
    assert "restore /srv/table from a backup" in text
    assert "destroys: bytes 0 to 4095" in text
    assert files.lookups(["disk S-B"], clock.now() + 1) == []
    clock.advance(90_000)
    files.request(question)
    assert hits.get(timeout=60).certain


def test_a_file_on_an_array_that_is_whole_is_not_reported_to_be_lost() -> None:
    """Only its sectors on one member are lost."""
    one, other = (
        SectorContent(8, 8, ContentKind.FILE, "", path=path, array=array)
        for path, array in (("/srv/a", "md0"), ("/srv/b", ""))
    )
    hits = [told(one), told(other)]
    assert affected_files.affected(hits) == (
        "file /srv/a, which md0 can still read from other members",
        "file /srv/b",
    )


def test_what_btrfs_has_a_second_time_is_not_reported_to_be_lost_and_clones_are_all_named() -> None:
    """A mirror of btrfs itself; without one all clones of a block are affected."""
    mirrored = SectorContent(
        8,
        8,
        ContentKind.FILE,
        "",
        path="/srv/a",
        file_system="btrfs",
        copies="RAID1",
        device="sdb1",
    )
    shared = replace(mirrored, path="/srv/b", other_paths=("/srv/clone",), copies="")
    hits = [told(mirrored), told(shared)]
    assert affected_files.affected(hits) == (
        "file /srv/a, of which btrfs has another copy (RAID1)",
        "file /srv/b",
        "file /srv/clone",
    )
    first, second = affected_files.advice(hits)
    assert "    btrfs scrub start -B /dev/sdb1" in first.splitlines()
    assert "restore /srv/b from a backup" in second


def test_what_cannot_be_reported_reports_why(tmp_path: Path) -> None:
    """The disk was removed meanwhile: that is the answer, without a mail of its own."""
    root, _ = machine(tmp_path, b"x" * 5000)
    hits: SimpleQueue[SectorLookup] = SimpleQueue()
    files = AffectedFiles(lambda: root, lambda: 0.0, lambda: 0.0, hits.put)
    files.request(SectorQuery("disk S-C", "sdc", 8, 8))
    hit = hits.get(timeout=60)
    assert not hit.certain
    (line,) = affected_files.evidence([hit], lambda at: at)
    assert "sdc sector 8: affected file unknown: 'sdc': expected a block device" in line.text
    assert (affected_files.affected([hit]), affected_files.advice([hit])) == ((), ())


def test_what_begins_within_a_page_does_not_reach_into_the_next() -> None:
    """The advice must not overwrite another file."""
    for sectors, expected in ((None, 3), (8, 3), (16, 11), (3, 3), (1, 1)):
        told = replace(medium_error(13_413), sectors=sectors)
        question = sector_query(told, "disk S-B")
        assert question == SectorQuery("disk S-B", "sdb", 13_413, expected)
    assert sector_query(replace(medium_error(13_408), sectors=16), "x") == SectorQuery(
        "x", "sdb", 13_408, 16
    )
    # The last sector of a disk: more than it has would be refused.
    assert sector_query(medium_error(55_295), "x") == SectorQuery("x", "sdb", 55_295, 1)


def test_only_sectors_of_a_whole_device_are_asked_for() -> None:
    """Not those of file system blocks, events without a sector, and controllers' own numbers."""
    assert sector_query(medium_error(None), "disk S-B") is None
    assert sector_query(medium_error(8, device=""), "disk S-B") is None
    assert (
        sector_query(StorageEvent("kernel", "fs_error", "x", device="sdb1", sector=8), "disk S-B")
        is None
    )
    assert (
        sector_query(StorageEvent("3ware", "block_medium_error", "x", sector=8), "disk S-B") is None
    )
    far = StorageEvent("kernel", "block_medium_error", "x", device="sdb", sector=8, sectors=256)
    assert sector_query(far, "disk S-B") == SectorQuery("disk S-B", "sdb", 8, 256)
    ahead = sector_query(replace(far, read_ahead=True, monotonic_seconds=7.5), "disk S-B")
    assert ahead == SectorQuery("disk S-B", "sdb", 8, 256, read_ahead=True, erred_seconds=7.5)


class Queries:
    """The machine of `machine`, with the queries and results as in the main loop."""

    def __init__(self, tmp_path: Path) -> None:
        """Start without a query."""
        self.text = random.Random(2).randbytes(200_000)
        self.root, self.sector = machine(tmp_path, self.text)
        self.clock = Uptime(1000.0)
        self.posted: SimpleQueue[SectorLookup] = SimpleQueue()
        self.files = AffectedFiles(
            lambda: self.root, self.clock.now, self.clock.uptime, self.posted.put
        )

    def say(self, sector: int, sectors: int | None = None, *, ahead: bool = False) -> None:
        """Report some sectors as the kernel does."""
        event = replace(medium_error(sector), sectors=sectors, read_ahead=ahead)
        question = sector_query(event, "disk S-B")
        assert question is not None
        self.files.request(question)

    def learn(self) -> SectorLookup:
        """Process the next result."""
        hit = self.posted.get(timeout=20)
        self.files.take(hit)
        return hit

    def lines(self) -> list[str]:
        """Return the lines of a mail."""
        return [e.text for e in affected_files.evidence(self.hits(), lambda at: at)]

    def hits(self) -> list[SectorLookup]:
        """Return the results of the disk."""
        return self.files.lookups(["disk S-B"], 0.0)


def test_of_a_range_that_was_read_ahead_no_file_is_reported_to_be_hit(tmp_path: Path) -> None:
    """28 blocks read ahead, one of them bad: other files are next to the file."""
    asked = Queries(tmp_path)
    last = asked.sector + 392
    asked.say(last - 80, 224, ahead=True)
    asked.files.step()
    asked.clock.advance(affected_files.AHEAD_SECONDS)
    assert asked.posted.empty()
    asked.files.step()
    asked.learn()
    assert asked.lines()[0] == (
        f"sdb sectors {last - 80} to {last + 143}: only a part failed; the kernel read ahead and"
        " does not report which:"
    )
    assert len(asked.lines()) > 2
    (file,) = affected_files.affected(asked.hits())
    assert file.startswith("file /srv/table, or another file in sectors")
    (text,) = affected_files.advice(asked.hits())
    assert f"for N in $(seq {last - 80} {last + 143}); do dd if=/dev/sdb of=/dev/null" in text
    assert "zero" not in text


def test_a_range_that_was_read_ahead_gives_way_to_the_sector_that_is_reported_later(
    tmp_path: Path,
) -> None:
    """A waiting range is not queried; a reported one is not reported again."""
    asked = Queries(tmp_path)
    asked.say(asked.sector, 224, ahead=True)
    asked.say(asked.sector + 16, 8)
    assert asked.learn().exact
    asked.clock.advance(60.0)
    asked.files.step()
    assert asked.posted.empty()
    asked.say(asked.sector, 224, ahead=True)  # one more, when it is known why
    asked.clock.advance(60.0)
    asked.files.step()
    assert asked.posted.empty()
    asked.say(asked.sector + 48, 64, ahead=True)
    asked.clock.advance(60.0)
    asked.files.step()
    assert asked.learn().read_ahead
    assert len(asked.hits()) == 2
    asked.say(asked.sector + 64)
    asked.learn()
    assert [hit.start - asked.sector for hit in asked.hits()] == [16, 64]
    assert not any("not all of it" in line for line in asked.lines())
    assert affected_files.affected(asked.hits()) == ("file /srv/table",)


@pytest.mark.parametrize("order", [1, -1])
def test_eight_sectors_of_a_block_are_one_question(tmp_path: Path, order: int) -> None:
    """Each query reads all inodes; adjacent ranges are merged."""
    asked = Queries(tmp_path)
    sectors = range(asked.sector, asked.sector + 8)[::order]
    asked.say(sectors[0])
    asked.learn()
    questions = len(asked.root.asked)
    for sector in sectors[1:]:
        asked.say(sector)
        if order < 0:
            asked.learn()
    assert asked.posted.empty()
    assert len(asked.root.asked) == questions
    (line,) = asked.lines()
    assert line.endswith("file /srv/table, bytes 0 to 4095")
    assert f"sectors {asked.sector} to {asked.sector + 7} " in line


def test_lines_that_come_while_a_page_is_requested_are_answered_with_it(tmp_path: Path) -> None:
    """All in one read of the log, the last sector first."""
    asked = Queries(tmp_path)
    for sector in reversed(range(asked.sector, asked.sector + 8)):
        asked.say(sector)
    while not any(hit.start == asked.sector for hit in asked.hits()):
        asked.learn()
    assert len([line for line in asked.root.asked if "icheck" in line]) == 1
    (line,) = asked.lines()
    assert line.endswith("file /srv/table, bytes 0 to 4095")


def test_a_sector_that_is_reported_while_its_range_is_requested_is_reported_by_itself(
    tmp_path: Path,
) -> None:
    """The exact sector comes late; the range is not reported again."""
    asked = Queries(tmp_path)
    begun, go = threading.Event(), threading.Event()

    def root() -> Imaged:
        begun.set()
        assert go.wait(60)
        return asked.root

    asked.files = AffectedFiles(root, asked.clock.now, asked.clock.uptime, asked.posted.put)
    for _ in range(2):
        asked.say(asked.sector, 224, ahead=True)
        asked.say(asked.sector + 8, 8, ahead=True)
    asked.clock.advance(affected_files.AHEAD_SECONDS)
    asked.files.step()
    assert begun.wait(60)
    asked.say(asked.sector + 16)
    go.set()
    asked.learn()
    asked.learn()
    assert [(hit.start, hit.exact) for hit in asked.hits()] == [(asked.sector + 16, True)]
    assert not asked.files.take(replace(asked.hits()[0], read_ahead=True))
    assert asked.posted.empty()


def test_a_sector_within_a_page_is_reported_without_what_lies_ahead_of_it(tmp_path: Path) -> None:
    """The whole page is queried, the failed sector is reported."""
    asked = Queries(tmp_path)
    asked.say(asked.sector + 5)
    asked.learn()
    assert asked.lines() == [
        (
            f"sdb sectors {asked.sector + 5} to {asked.sector + 7} (1.5 KiB): file /srv/table,"
            " bytes 2560 to 4095"
        )
    ]


def test_the_last_sector_of_a_disk_is_requested_though_its_page_has_no_more(
    tmp_path: Path,
) -> None:
    """A disk of an odd size."""
    asked = Queries(tmp_path)
    write_tree(tmp_path / "machine", {"/sys/block/sdb/size": f"{START + 49_152 + 4_001}\n"})
    asked.say(START + 49_152 + 4_000)
    assert not asked.learn().problem


def test_what_could_not_be_reported_is_queried_again_after_an_hour(tmp_path: Path) -> None:
    """Not at each error of a dying disk; a known answer is not lost again."""
    asked = Queries(tmp_path)
    images, asked.root.images = asked.root.images, {}
    asked.say(asked.sector)
    assert not asked.learn().certain
    questions = len(asked.root.asked)
    asked.clock.advance(600.0)
    asked.say(asked.sector + 1)
    assert (asked.posted.empty(), len(asked.root.asked)) == (True, questions)
    assert "cannot be determined" in asked.lines()[0]
    asked.root.images = images
    asked.clock.advance(3000.0)
    asked.say(asked.sector)
    assert asked.learn().certain
    (line,) = asked.lines()
    assert "file /srv/table" in line
    asked.root.images = {}
    asked.clock.advance(86_400.0)
    asked.say(asked.sector)
    asked.learn()
    assert any("file /srv/table" in line for line in asked.lines())


def test_what_was_found_survives_a_restart(tmp_path: Path) -> None:
    """The next mail names the file without another query on that day."""
    asked = Queries(tmp_path)
    asked.say(asked.sector)
    asked.learn()
    texts = persisted_state.documents(persisted_state.PersistedState(lookups=asked.files.to_store))
    before, problems = persisted_state.read(texts, asked.clock.now())
    assert not problems
    again = AffectedFiles(lambda: asked.root, asked.clock.now, asked.clock.uptime, asked.posted.put)
    again.restore(before.lookups)
    questions = len(asked.root.asked)
    asked.files = again
    asked.say(asked.sector)
    assert (asked.posted.empty(), len(asked.root.asked)) == (True, questions)
    assert "file /srv/table, bytes 0 to 4095" in asked.lines()[0]


def test_a_machine_with_other_devices_is_queried_anew(tmp_path: Path) -> None:
    """A disk was added: sectors may have other owners."""
    asked = Queries(tmp_path)
    asked.say(asked.sector)
    asked.learn()
    questions = len(asked.root.asked)
    asked.files.forget()
    asked.say(asked.sector)
    asked.learn()
    assert len(asked.root.asked) == 2 * questions


@pytest.mark.parametrize("number", ["8:16", "8:17"])
def test_what_is_there_only_since_the_error_is_not_reported_to_be_hit(
    tmp_path: Path, number: str
) -> None:
    """Another disk took over the name, or the partitions were changed."""
    asked = Queries(tmp_path)
    write_tree(tmp_path / "machine", {f"/run/udev/data/b{number}": "I:900000000\nE:ID_TYPE=disk\n"})
    for at, known in ((100.0, False), (1000.0, True), (870.0, True)):
        asked.files.forget()
        asked.files.request(SectorQuery("disk S-B", "sdb", asked.sector, 8, erred_seconds=at))
        hit = asked.learn()
        assert hit.certain is known
        if not known:
            name = "sdb17" if number == "8:17" else "sdb"
            assert f"{name} was created or plugged in 13 min 20 s after" in asked.lines()[0]


def test_what_a_loop_device_stood_for_before_is_not_reported_to_be_hit(tmp_path: Path) -> None:
    """An image was detached after its error, and another one is loop0 now.

    The mail said of the new one's free block that nothing is lost.
    """
    asked = Queries(tmp_path)
    write_tree(tmp_path / "machine", images.disk("loop0", asked.sector + 8, "7:0"))
    for ago, spoken in ((900.0, True), (2.0, False)):
        asked.files.forget()
        at = asked.clock.uptime() - ago
        asked.files.request(SectorQuery("disk loop0", "loop0", asked.sector, 8, erred_seconds=at))
        (line,) = (each.text for each in affected_files.evidence([asked.learn()], float))
        said = "the error was 15 min ago: loop0 may have another backing file or server since"
        assert (said in line) is spoken


def test_a_mail_does_not_name_a_hundred_files() -> None:
    """Small files, in one request of a megabyte."""
    answers = tuple(
        SectorContent(at * 8, 8, ContentKind.FILE, "", path=f"/srv/{at}", device="sdb1")
        for at in range(100)
    )
    hit = SectorLookup("disk S-B", 0.0, "sdb", 0, 800, Located("sdb", 0, 800, answers, "sdb", 512))
    lines = [each.text for each in affected_files.evidence([hit], lambda at: at)]
    assert (len(lines), lines[-1]) == (22, "sdb: and 80 more owners of sectors")
    assert "it is unknown which" in lines[0]
    files = affected_files.affected([hit])
    assert (len(files), files[-1]) == (21, "one of 80 more in sectors 0 to 799 of sdb")


def test_what_a_disk_reports_while_we_read_it_may_be_of_that() -> None:
    """The file system's tables are on the same bad disk: reading them causes more errors."""
    answer = SectorContent(8, 8, ContentKind.FILE, "", path="/srv/a")
    looked = replace(told(answer), requested_seconds=100.0, at_seconds=104.0)

    def line(name: str, at: float, device: str = "sdb") -> IncidentMember:
        labels = (("alertname", name), ("device", device))
        return IncidentMember(
            labels, name, Severity.WARNING, AlertState.FIRING, at, "", "", "", count=1
        )

    members = [
        line("block_medium_error", 99.0),  # what it was asked for
        line("ata_timeout", 102.0),
        line("block_io_error", 103.0, "sdc"),
        line("hba_reset", 105.0),
    ]
    (said,) = affected_files.seen_during([looked], members, lambda at: f"{at:.0f} s")
    assert said == (
        "occurred while iowarden read sdb at 100 s to find the affected file, which may have caused"
        " it:"
        " ata_timeout"
    )
