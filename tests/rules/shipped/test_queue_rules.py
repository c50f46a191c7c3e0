"""Rules about request queues on whole hosts: recorded incidents, and healthy hosts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import pytest
from support.host import Host
from support.incidents import (
    FRAME_SECONDS,
    HOG,
    KIB,
    MB,
    PARALLEL_READERS,
    STARVED,
    UPTIME,
    Load,
    Story,
    parallel_readers,
    starving_disks,
    write_only_database,
)

from iowarden.collectors import registry
from iowarden.rules.engine.engine import Engine
from iowarden.rules.signals.table import PersistentSignals
from iowarden.rules.topology.device_changes import Devices

if TYPE_CHECKING:
    from collections.abc import Collection

    from iowarden.rules.notice import Reason

WRITE_MOSTLY = PersistentSignals(groups={"phantom_reads": {"SN-n1": ((0.0, 86_400.0),)}})
"""The stored state of an SSD that was hardly read for a day."""


QUEUE = ("queue",)
"""The group of these rules."""


def play(
    story: Story, memory: PersistentSignals | None = None, groups: Collection[str] = ()
) -> Host:
    """Return the host after a sequence of loads; `memory` is its stored state before."""
    host = Host(groups=groups)
    if memory is not None:
        host.engine = Engine(host.rules, registry.SOURCES, 0.0)
        host.engine.recall(memory, Devices())
    host.play(story.steps())
    return host


def told(story: Story, memory: PersistentSignals | None = None) -> set[str]:
    """Return the alerts of these rules that fired, as 'name severity'."""
    return {f"{name} {severity}" for _, name, severity in play(story, memory, QUEUE).fired}


def mailed(host: Host, reason: Reason | str) -> list[str]:
    """Return the advice of every mail of a kind."""
    return [
        "\n".join(member.advice for member in mail.due.incident.members)
        for mail in host.mails
        if mail.due.reason.value == str(reason)
    ]


def test_parallel_readers_get_one_mail_with_a_larger_read_ahead() -> None:
    """Five readers, 64 kB of read-ahead, load in the hundreds; silent after 8 MB."""
    host = play(parallel_readers())
    assert host.reasons() == ["opened", "resolved"]
    assert host.names("warning") == {"ReadAheadTooSmall"}
    assert host.names("critical") == set()
    assert [n for _, n, _ in host.fired].count("ReadAheadTooSmall") == 1
    opened = next(mail for mail in host.mails if mail.due.reason.value == "opened")
    (member,) = opened.due.incident.members
    assert "blockdev --setra 8192 /dev/sda" in member.advice
    assert 'ATTR{queue/read_ahead_kb}="4096"' in member.advice
    assert member.summary == "read-ahead of 64 KiB slows readers down: 39.1 MiB/s"
    assert ("iowarden_load1", "240") in {(e.source, e.text) for e in member.evidence}
    assert not [name for uptime, name, _ in host.fired if uptime > UPTIME + 660]


def test_starving_disks_get_one_mail_with_a_share_of_the_queue() -> None:
    """One of four disks takes all 254 commands; silent at 32 each; the other adapter is well."""
    host = play(starving_disks())
    assert host.reasons() == ["opened", "resolved"]
    assert host.names("warning") == {"QueueDepthTooLarge", "DiskQueueStarvation"}
    assert host.names("critical") == set()
    names = [name for _, name, _ in host.fired]
    assert names.count("DiskQueueStarvation") == names.count("QueueDepthTooLarge") == 1
    (advice,) = mailed(host, "opened")
    for name in "abcd":
        assert f"echo 32 > /sys/block/sd{name}/device/queue_depth" in advice
    assert "sde" not in advice


def test_a_database_that_only_writes_gets_one_mail_about_why_it_reads() -> None:
    """40 MB/s written, 45 read, memory short: MADV_RANDOM; silent once it is set."""
    host = play(write_only_database(), WRITE_MOSTLY)
    assert host.reasons() == ["opened", "resolved"]
    assert host.names("warning") == {"PhantomReads"}
    assert host.names("critical") == set()
    assert [name for _, name, _ in host.fired].count("PhantomReads") == 1
    (advice,) = mailed(host, "opened")
    assert "madvise(MADV_RANDOM)" in advice
    assert "echo 16 > /sys/block/nvme0n1/queue/read_ahead_kb" in advice


def array(**settings: object) -> Story:
    """A RAID adapter's volume, and on request otherwise."""
    story = Story()
    story.add_host(0, "megaraid_sas", 1000)
    usual = {"address": "0:2:0:0", "read_ahead_kb": 64, "vendor": "AVAGO", "model": "MR9361-8i"}
    story.add_disk("sda", **{**usual, **settings})  # type: ignore[arg-type]
    return story


WIDE_READERS = PARALLEL_READERS._replace(reads=5, wait_seconds=1.0)
TOO_SMALL = {"ReadAheadTooSmall warning", "ReadAheadBelowStripe info"}


def test_readers_slowed_by_64_kb_of_read_ahead_are_reported() -> None:
    """Read-ahead 64 kB, mean read 64 kB, busy all the time, five streams."""
    story = array()
    story.run(400, {"sda": PARALLEL_READERS})
    assert told(story) == TOO_SMALL


@pytest.mark.parametrize(
    ("why", "settings", "load", "seconds"),
    [
        ("an SSD has no arm to move", {"rotational": 0}, PARALLEL_READERS, 400),
        ("a single disk has one arm", {"vendor": "ATA"}, PARALLEL_READERS, 400),
        ("8 MB is as large as it gets", {"read_ahead_kb": 8192}, WIDE_READERS, 400),
        ("four minutes are not five", {"read_ahead_kb": 256}, None, 236),
        ("a lone reader waits for nobody", {}, PARALLEL_READERS._replace(in_flight=1), 400),
        ("half of the time idle", {}, PARALLEL_READERS._replace(busy=0.5), 400),
        ("small random reads are not capped", {}, PARALLEL_READERS._replace(reads=2560), 400),
        ("it reads as fast as arrays do", {}, PARALLEL_READERS._replace(read_bytes=110e6), 400),
    ],
)
def test_what_only_resembles_held_down_readers_is_no_warning(
    why: str, settings: dict[str, object], load: Load | None, seconds: int
) -> None:
    """Each of the conditions is needed; the last one with reads of 64 kB as well."""
    if load is None:
        load = Load(160, 40.96 * MB, 0, 0, 1.0, 5, 5 / 160)
    elif load.read_bytes == 110e6:
        load = load._replace(reads=load.read_bytes / (64 * KIB))
    elif load.in_flight == 1:
        load = load._replace(wait_seconds=1 / load.reads)
    story = array(**settings)
    story.run(seconds, {"sda": load})
    assert "ReadAheadTooSmall warning" not in told(story), why


def test_an_array_is_measured_by_its_own_best() -> None:
    """150 MB/s would do for many; this one has read 600 MB/s before."""
    story = array()
    story.run(120, {"sda": Load(1200, 600 * MB, 0, 0, 1.0, 5, 5 / 1200)})
    load = Load(2288, 150 * MB, 0, 0, 1.0, 5, 5 / 2288)
    story.run(400, {"sda": load})
    assert "ReadAheadTooSmall warning" in told(story)


def test_without_memory_for_it_no_larger_read_ahead_is_advised() -> None:
    """Two windows of read-ahead per reader may take 5 % of what is available, no more."""
    story = array()
    story.run(400, {"sda": PARALLEL_READERS}, available=0.0003)
    host = play(story)
    assert host.engine is not None
    (alert,) = [a for a in host.engine.rules.alerts() if a.name == "ReadAheadTooSmall"]
    assert "Memory does not allow" in alert.annotation("advice")
    assert "setra" not in alert.annotation("advice")


def test_read_ahead_is_never_advised_where_phantoms_are_read() -> None:
    """A larger read-ahead would add phantom reads: only the phantom reads are reported."""
    story = array()
    load = PARALLEL_READERS._replace(writes=300, written_bytes=30 * MB)
    story.run(500, {"sda": load}, refaults=1000)
    story.run(120, {"sda": PARALLEL_READERS})
    assert told(story) == {"PhantomReads info"}


@pytest.mark.parametrize(
    ("kilobytes", "optimal", "alerts"),
    [
        (128, 1 << 20, {"ReadAheadBelowStripe info"}),
        (2048, 1 << 20, set()),
        (128, 0, {"ReadAheadBelowStripe info"}),
        (1024, 0, set()),
    ],
)
def test_read_ahead_has_to_span_the_disks_twice(
    kilobytes: int, optimal: int, alerts: set[str]
) -> None:
    """From the settings alone; a volume without a reported stripe needs more than the default."""
    story = array(read_ahead_kb=kilobytes, optimal_bytes=optimal)
    story.run(80)
    assert told(story) == alerts


@pytest.mark.parametrize("block", [512, 4096])
def test_a_largest_transfer_given_as_the_best_makes_no_array_of_a_disk(block: int) -> None:
    """Disks behind USB report 65,535 blocks as their optimal size."""
    story = Story()
    story.add_disk("sda", optimal_bytes=65_535 * block)
    story.run(80)
    assert told(story) == set()


def test_software_raid_is_reported_on_the_device_that_holds_the_file_system() -> None:
    """RAID5 of four disks in chunks of 512 kB: 3 MB span it twice; its disks are not reported."""
    story = Story()
    for name in ("sda", "sdb", "sdc", "sdd"):
        story.add_disk(name)
        story.change({f"/sys/block/{name}/{name}1/holders/md0": None})
    story.add_disk("md0", scheduler="none")
    members = {f"/sys/block/md0/slaves/{name}1": None for name in ("sda", "sdb", "sdc", "sdd")}
    settings = {"level": "raid5", "raid_disks": "4", "chunk_size": "524288", "layout": "2"}
    story.change({**members, **{f"/sys/block/md0/md/{k}": v + "\n" for k, v in settings.items()}})
    story.run(80)
    host = play(story)
    assert host.engine is not None
    (alert,) = [a for a in host.engine.rules.alerts() if a.name == "ReadAheadBelowStripe"]
    assert alert.label("device") == "md0"
    assert alert.value == 2 * 3 * 512 * KIB


@pytest.mark.parametrize(
    ("start", "chunk", "alerts"),
    [
        (63, 64 * KIB, {"PartitionMisaligned info"}),
        (2048, 64 * KIB, set()),
        (63, 512, set()),
        (64, 4096, set()),
    ],
)
def test_a_partition_begins_with_a_block_or_chunk(start: int, chunk: int, alerts: set[str]) -> None:
    """Sector 63 lies inside a chunk; on a disk of 512-byte blocks any sector will do."""
    story = array(start_sector=start, chunk_bytes=chunk, read_ahead_kb=1024)
    story.run(20)
    assert told(story) == alerts


def test_an_extended_partitions_record_is_no_misaligned_partition() -> None:
    """Two sectors at an odd place that hold no file system."""
    story = array(start_sector=63, chunk_bytes=64 * KIB, read_ahead_kb=1024)
    story.change({"/sys/block/sda/sda1/size": "2\n"})
    story.run(20)
    assert told(story) == set()


def test_requests_above_the_chunk_are_reported_only_while_readers_are_slowed() -> None:
    """Chunk 64 kB, requests up to 512 kB."""
    story = array(chunk_bytes=64 * KIB)
    story.run(200, {"sda": Load(1000, 450 * MB, 0, 0, 1.0, 5, 5 / 1000)})
    story.run(400, {"sda": PARALLEL_READERS})
    assert told(story) == {*TOO_SMALL, "RequestsAboveChunk info"}


def test_requests_no_larger_than_the_chunk_are_as_advised() -> None:
    """A recommended value is reported neither as too large nor, later, as split."""
    story = array(chunk_bytes=64 * KIB, max_sectors_kb=64)
    story.run(400, {"sda": PARALLEL_READERS})
    assert told(story) == TOO_SMALL


def test_a_request_limit_set_by_hand_splits_a_sequential_load() -> None:
    """64 kB of 1 MB the driver takes, and every request as large as that."""
    story = array(max_sectors_kb=64, read_ahead_kb=8192)
    story.run(400, {"sda": Load(3052, 200 * MB, 0, 0, 1.0, 30, 0.01)})
    assert told(story) == {"RequestsSplit info"}


def test_small_requests_are_not_split_by_a_limit() -> None:
    """Random reads of 8 kB never meet it."""
    story = array(max_sectors_kb=64, read_ahead_kb=8192)
    story.run(400, {"sda": Load(3000, 3000 * 8192, 0, 0, 1.0, 30, 0.01)})
    assert told(story) == set()


def adapter(depth: int = 254, *, kernel: str = "2.6.32", disks: str = "abcd") -> Story:
    """Disks of one adapter with a queue of 254 commands."""
    story = Story(kernel=kernel)
    story.add_host(0, "3w-9xxx", 254)
    for target, letter in enumerate(disks):
        story.add_disk(
            f"sd{letter}",
            address=f"0:0:{target}:0",
            depth=depth,
            read_ahead_kb=1024,
            vendor="AMCC",
            scheduler="noop [deadline]",
        )
    return story


@pytest.mark.parametrize(
    ("depth", "kernel", "disks", "alerts"),
    [
        (254, "2.6.32", "abc", {"QueueDepthTooLarge warning"}),
        (254, "6.1.0", "abc", {"QueueDepthTooLarge info"}),
        (32, "2.6.32", "abc", set()),
        (254, "2.6.32", "a", set()),
    ],
)
def test_a_disk_that_may_fill_its_adapters_queue(
    depth: int, kernel: str, disks: str, alerts: set[str]
) -> None:
    """254 of 254 with three disks; harmless where the kernel shares fairly, or there is one."""
    story = adapter(depth, kernel=kernel, disks=disks)
    story.run(60)
    assert told(story) == alerts


def test_two_disks_of_an_ide_channel_have_no_queue_to_share() -> None:
    """One command at a time for both: no setting gives the other one a share."""
    story = Story(kernel="3.10.0-1160.el7.x86_64")
    story.add_host(0, "ata_piix", 1)
    for target, name in enumerate(("sda", "sdb")):
        story.add_disk(name, address=f"0:0:{target}:0", depth=1)
    story.run(100, {"sda": HOG._replace(in_flight=1), "sdb": STARVED})
    assert told(story) == set()


def test_a_kernel_reported_not_to_share_fairly_does_not() -> None:
    """4.19 with scsi_mod.use_blk_mq=N."""
    story = adapter(kernel="4.19.0-27-amd64", disks="abc")
    story.change({"/sys/module/scsi_mod/parameters/use_blk_mq": "Y\n"})
    story.run(40)
    story.change({"/sys/module/scsi_mod/parameters/use_blk_mq": "N\n"})
    story.run(40)
    assert told(story) == {"QueueDepthTooLarge info", "QueueDepthTooLarge warning"}


SERVED = Load(30, 240_000, 0, 0, 0.2, 0, 0.005)
STARVES = "DiskQueueStarvation warning"
VICTIMS = {"sdb": STARVED, "sdc": STARVED, "sdd": STARVED}


@pytest.mark.parametrize(
    ("why", "loads", "seconds", "starved"),
    [
        ("three victims beside one busy disk", {"sda": HOG, **VICTIMS}, 100, True),
        ("half a minute is spin-up", {"sda": HOG, **VICTIMS}, 40, False),
        ("nobody takes their turn", VICTIMS, 100, False),
        ("a third disk is served well", {"sda": HOG, "sdb": STARVED, "sdc": SERVED}, 100, False),
        ("most are busy", {"sda": HOG, "sdb": HOG, "sdc": HOG, "sdd": STARVED}, 100, False),
        (
            "it hangs, which is told as that",
            {"sda": HOG, "sdb": Load(busy=1.0, in_flight=3)},
            100,
            False,
        ),
        (
            "a neighbour of four requests a second takes nothing",
            {
                "sda": Load(4, 40_000, 0, 0, 0.1, 0, 0.01),
                "sdb": STARVED._replace(reads=0.3, writes=0),
            },
            100,
            False,
        ),
    ],
)
def test_a_starving_disk_has_a_neighbour_that_takes_its_turn(
    why: str, loads: dict[str, Load], seconds: int, *, starved: bool
) -> None:
    """Utilization 100 %, under 5 requests a second, next to 50 MB/s; not a disk slow by itself."""
    story = adapter()
    story.run(seconds, loads)
    assert (STARVES in told(story)) == starved, why


def test_no_disk_starves_where_none_can_fill_the_queue() -> None:
    """32 of 254 each: a disk as slow as this is slow by itself."""
    story = adapter(32)
    story.run(100, {"sda": HOG._replace(in_flight=32), **VICTIMS})
    assert told(story) == set()


WRITES = Load(0, 0, 600, 40 * MB, 0.3, 2, 0.001)
PHANTOMS = WRITES._replace(reads=450, read_bytes=45 * MB, busy=0.6)


@pytest.mark.parametrize(
    ("why", "load", "memory", "alerts"),
    [
        ("learnt to be written", PHANTOMS, WRITE_MOSTLY, {"PhantomReads warning"}),
        ("nobody knows what it is for", PHANTOMS, None, {"PhantomReads info"}),
        ("1 MB/s is nothing", PHANTOMS._replace(read_bytes=1 * MB), WRITE_MOSTLY, set()),
        ("hardly written", PHANTOMS._replace(written_bytes=4 * MB), WRITE_MOSTLY, set()),
    ],
)
def test_a_written_device_that_reads(
    why: str, load: Load, memory: PersistentSignals | None, alerts: set[str]
) -> None:
    """40 MB/s written and 45 read, 3000 major faults a second, 5 % of memory available."""
    story = Story()
    story.add_disk("nvme0n1", rotational=0)
    story.run(400, {"nvme0n1": load}, faults=3000, available=0.05)
    assert told(story, memory) == alerts, why


class Programs(NamedTuple):
    """What the programs of a unit do in a second, in bytes; the last one counts page faults."""

    command: str
    unit: str
    read: float
    written: float
    read_calls: float = 0.0
    write_calls: float = 0.0
    faults: float = 0.0


DATABASE = Programs("questdb", "questdb.service", 44 * MB, 40 * MB, 0.5 * MB, 40 * MB)
"""It writes parts of pages, which the kernel reads before: it requests next to no reads."""


def swept(*programs: Programs, fields: int = 11) -> Story:
    """A device with phantom reads, and what the programs do on it, for 400 s."""
    story = Story()
    story.add_disk("nvme0n1", rotational=0)
    for second in range(0, 400, FRAME_SECONDS):
        rows = [
            [pid, 1000, 1, *of[:2], *(int(rate * second) for rate in (*of[2:4], 0, *of[4:]))]
            for pid, of in enumerate(programs, 812)
        ]
        sweep = {"boot_seconds": story.now, "processes": [row[:fields] for row in rows]}
        story.change({"/.probe/io_sweep": json.dumps({**sweep, "not_read": []})})
        story.run(FRAME_SECONDS, {"nvme0n1": PHANTOMS}, faults=3000, available=0.05)
    return story


@pytest.mark.parametrize(
    ("why", "programs", "severity"),
    [
        ("it writes parts of pages", [DATABASE], "warning"),
        (
            "it appends to mapped files: no write(2), a fault for each read",
            [DATABASE._replace(write_calls=1_000, read_calls=0, faults=360)],
            "warning",
        ),
        (
            "a compaction requests what it reads",
            [DATABASE._replace(read_calls=44 * MB)],
            "info",
        ),
        (
            "a compaction reads through mapped files",
            [DATABASE._replace(faults=360)],
            "info",
        ),
        (
            "asynchronous direct I/O passes no call and faults no page in",
            [DATABASE._replace(write_calls=1_000, read_calls=1_000)],
            "info",
        ),
        (
            "a backup reads beside a database that only writes",
            [DATABASE._replace(read=0), Programs("tar", "backup.service", 44 * MB, 0, 44 * MB)],
            "info",
        ),
        (
            "most of the reads are the backup's",
            [
                DATABASE._replace(read=15 * MB),
                Programs("tar", "backup.service", 30 * MB, 0, 30 * MB),
            ],
            "info",
        ),
        (
            "what it writes is not what the device is written",
            [DATABASE._replace(written=4 * MB), DATABASE._replace(command="dd", read=0)],
            "info",
        ),
    ],
)
def test_reads_that_no_program_requested_are_a_warning_without_a_day_of_learning(
    why: str, programs: list[Programs], severity: str
) -> None:
    """By the bytes of the programs: each 15 s, while the device has phantom reads."""
    assert told(swept(*programs)) == {f"PhantomReads {severity}"}, why


def test_programs_without_counters_of_calls_prove_nothing() -> None:
    """A recording without them: only learning makes a warning."""
    assert told(swept(DATABASE, fields=8)) == {"PhantomReads info"}
    assert told(swept(DATABASE, fields=8), WRITE_MOSTLY) == {"PhantomReads warning"}


@pytest.mark.parametrize(
    ("scarce", "alerts"),
    [
        ({}, set()),
        ({"faults": 10}, set()),
        ({"faults": 60}, {"PhantomReads info"}),
        ({"refaults": 5}, {"PhantomReads info"}),
        ({"available": 0.14}, {"PhantomReads info"}),
    ],
)
def test_g_reading_on_purpose_faults_no_pages_in(
    scarce: dict[str, float], alerts: set[str]
) -> None:
    """With enough memory and no faults a program reads on purpose."""
    story = Story()
    story.add_disk("nvme0n1", rotational=0)
    story.run(400, {"nvme0n1": PHANTOMS}, **scarce)
    assert told(story) == alerts


@pytest.mark.parametrize(("action", "alerts"), [("idle", {"PhantomReads info"}), ("check", set())])
def test_g_a_check_of_the_array_reads_on_purpose(action: str, alerts: set[str]) -> None:
    """All disks of an array are read to the end while the database goes on writing."""
    story = Story()
    for name in ("sda", "sdb"):
        story.add_disk(name, rotational=0)
        story.change({f"/sys/block/{name}/{name}1/holders/md0": None})
    story.add_disk("md0", rotational=0)
    for key, value in {
        "slaves/sda1": None,
        "slaves/sdb1": None,
        "md/level": "raid1\n",
        "md/raid_disks": "2\n",
        "md/array_state": "active\n",
        "md/degraded": "0\n",
        "md/sync_action": f"{action}\n",
        "md/mismatch_cnt": "0\n",
    }.items():
        story.change({f"/sys/block/md0/{key}": value})
    loads = dict.fromkeys(("sda", "sdb", "md0"), PHANTOMS)
    story.run(400, loads, faults=3000)
    assert told(story) == alerts


@pytest.mark.parametrize(
    ("scheduler", "rotational", "vendor", "alerts"),
    [
        ("noop deadline [cfq]", 1, "AVAGO", {"SchedulerUnsuitable info"}),
        ("none [bfq] mq-deadline", 0, "ATA", {"SchedulerUnsuitable info"}),
        ("none [mq-deadline]", 0, "ATA", set()),
        ("noop deadline [cfq]", 1, "ATA", set()),
    ],
)
def test_a_scheduler_for_one_arm(
    scheduler: str, rotational: int, vendor: str, alerts: set[str]
) -> None:
    """CFQ suits one disk, and neither a RAID volume nor an SSD."""
    story = array(scheduler=scheduler, rotational=rotational, vendor=vendor, read_ahead_kb=4096)
    story.run(20)
    assert told(story) == alerts
