"""Recordings of four observed incidents, built from the published numbers.

Values that were not published (counts of requests, sizes of memory) are consistent with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from support.recordings import steps

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from support.memory import Files

    from iowarden.collectors.recording.recording import RecordingStep

KIB, MB = 1024, 1_000_000
FRAME_SECONDS = 4
"""Between two looks further apart than 5 s nobody looked."""
UPTIME = 10_000.0


class Load(NamedTuple):
    """What a device does in a second."""

    reads: float = 0.0
    read_bytes: float = 0.0
    writes: float = 0.0
    written_bytes: float = 0.0
    busy: float = 0.0
    """Share of the second with a request in flight."""
    in_flight: int = 0
    wait_seconds: float = 0.0
    """Mean time of a request."""


def reading(bytes_per_second: float, size_bytes: float, in_flight: int) -> Load:
    """Return a device kept busy by readers: requests of a size, so many in flight."""
    reads = bytes_per_second / size_bytes
    return Load(reads, bytes_per_second, 0, 0, 1.0, in_flight, in_flight / reads)


class Story:
    """A machine whose files change as time passes; `frames` make a recording."""

    def __init__(self, *, kernel: str = "6.1.0-28-amd64", memory_bytes: int = 32 << 30) -> None:
        """Begin with a machine without disks, long after boot."""
        self.frames: list[tuple[float, Files]] = []
        self.now = UPTIME
        self._pending: Files = {
            f"/proc/sys/{key}": f"{value}\n"
            for key, value in {
                "vm/dirty_ratio": 10,
                "vm/dirty_background_ratio": 5,
                "vm/dirty_bytes": 0,
                "vm/dirty_background_bytes": 0,
                "vm/dirty_expire_centisecs": 3000,
                "vm/dirty_writeback_centisecs": 500,
                "vm/laptop_mode": 0,
                "vm/swappiness": 60,
                "vm/overcommit_memory": 0,
                "vm/zone_reclaim_mode": 0,
                "kernel/osrelease": kernel,
            }.items()
        }
        self._memory = memory_bytes
        self._counters: dict[str, list[float]] = {}
        self._faults = self._refaults = self._iowait = 0.0

    def change(self, files: Mapping[str, str | bytes | None]) -> None:
        """Let files differ from the next frame on."""
        self._pending |= files

    def add_disk(
        self,
        name: str,
        *,
        address: str = "",
        read_ahead_kb: int = 128,
        max_sectors_kb: int = 512,
        chunk_bytes: int = 512,
        rotational: int = 1,
        depth: int = 64,
        scheduler: str = "[none] mq-deadline",
        vendor: str = "ATA",
        model: str = "DISK",
        optimal_bytes: int = 0,
        start_sector: int = 2048,
    ) -> None:
        """Add a disk with one partition; `address` makes it a SCSI device."""
        base, queue = f"/sys/block/{name}", f"/sys/block/{name}/queue"
        partition = f"{name}p1" if name[-1].isdigit() else f"{name}1"
        self.change(
            {
                f"{base}/slaves": None,
                f"{base}/holders": None,
                f"{base}/size": "1953525168\n",
                f"{base}/ro": "0\n",
                f"{base}/alignment_offset": "0\n",
                f"{base}/device/vendor": f"{vendor}\n",
                f"{base}/device/model": f"{model}\n",
                f"{base}/device/vpd_pg80": b"\0\x80\0\x05SN-" + name[-2:].encode(),
                f"{queue}/rotational": f"{rotational}\n",
                f"{queue}/read_ahead_kb": f"{read_ahead_kb}\n",
                f"{queue}/max_sectors_kb": f"{max_sectors_kb}\n",
                f"{queue}/max_hw_sectors_kb": "1024\n",
                f"{queue}/minimum_io_size": f"{chunk_bytes}\n",
                f"{queue}/optimal_io_size": f"{optimal_bytes}\n",
                f"{queue}/physical_block_size": "512\n",
                f"{queue}/logical_block_size": "512\n",
                f"{queue}/chunk_sectors": "0\n",
                f"{queue}/nr_requests": f"{2 * depth}\n",
                f"{queue}/scheduler": f"{scheduler}\n",
                f"{base}/{partition}/partition": "1\n",
                f"{base}/{partition}/start": f"{start_sector}\n",
                f"{base}/{partition}/size": "1953000000\n",
                f"{base}/{partition}/alignment_offset": "0\n",
            }
        )
        if address:
            device = f"/sys/class/scsi_device/{address}/device"
            self.change(
                {
                    f"{base}/device/scsi_device/{address}": None,
                    f"{device}/type": "0\n",
                    f"{device}/state": "running\n",
                    f"{device}/queue_depth": f"{depth}\n",
                    f"{device}/timeout": "60\n",
                    f"{device}/block/{name}": None,
                }
            )
        self._counters[name] = [0.0] * 11

    def add_host(self, number: int, driver: str, can_queue: int) -> None:
        """Add a SCSI host adapter."""
        base = f"/sys/class/scsi_host/host{number}"
        self.change(
            {
                f"{base}/proc_name": f"{driver}\n",
                f"{base}/can_queue": f"{can_queue}\n",
                f"{base}/cmd_per_lun": f"{can_queue}\n",
                f"{base}/host_busy": "0\n",
            }
        )

    def run(
        self,
        seconds: int,
        loads: Mapping[str, Load] | None = None,
        *,
        faults: float = 0.0,
        refaults: float = 0.0,
        available: float = 0.6,
        blocked: int = 0,
        load_average: float = 0.1,
    ) -> None:
        """Let time pass; `faults` and `refaults` a second, `available` as a share of memory."""
        for _ in range(0, seconds, FRAME_SECONDS):
            lines = []
            for number, (name, counters) in enumerate(self._counters.items()):
                load = (loads or {}).get(name, Load())
                for at, rate in (
                    (0, load.reads),
                    (2, load.read_bytes / 512),
                    (3, load.reads * load.wait_seconds * 1000),
                    (4, load.writes),
                    (6, load.written_bytes / 512),
                    (7, load.writes * load.wait_seconds * 1000),
                    (9, load.busy * 1000),
                    (10, (load.reads + load.writes) * load.wait_seconds * 1000),
                ):
                    counters[at] += rate * FRAME_SECONDS
                counters[8] = load.in_flight
                lines.append(f"8 {number * 16} {name} {' '.join(str(int(c)) for c in counters)}\n")
            self._faults += faults * FRAME_SECONDS
            self._refaults += refaults * FRAME_SECONDS
            self._iowait += 100 * FRAME_SECONDS if blocked else 0
            kib = self._memory // KIB
            files: Files = {
                "/proc/diskstats": "".join(lines),
                "/proc/meminfo": (
                    f"MemTotal: {kib} kB\nMemFree: {kib // 50} kB\n"
                    f"MemAvailable: {int(kib * available)} kB\nBuffers: 1000 kB\n"
                    f"Cached: {kib // 2} kB\nShmem: 0 kB\nActive: {kib // 4} kB\n"
                    f"Inactive: {kib // 4} kB\nMapped: 1000 kB\nAnonPages: {kib // 8} kB\n"
                    f"Dirty: 1000 kB\nWriteback: 0 kB\nSwapTotal: 8000000 kB\n"
                    "SwapFree: 8000000 kB\n"
                ),
                "/proc/vmstat": (
                    f"nr_dirty 250\nnr_writeback 0\nnr_dirtied 0\nnr_written 0\n"
                    f"nr_dirty_threshold {kib // 40}\nnr_dirty_background_threshold {kib // 80}\n"
                    f"pgpgin 0\npgpgout 0\npswpin 0\npswpout 0\npgmajfault {int(self._faults)}\n"
                    f"workingset_refault_file {int(self._refaults)}\n"
                ),
                "/proc/stat": (
                    f"cpu  1 0 1 1 {int(self._iowait)} 0 0 0 0 0\nintr 0\nctxt 0\n"
                    "btime 1799990000\nprocesses 1\nprocs_running 1\n"
                    f"procs_blocked {blocked}\n"
                ),
                "/proc/loadavg": f"{load_average:.2f} {load_average:.2f} 0.10 1/500 12345\n",
            }
            self.frames.append((self.now, {**self._pending, **files}))
            self._pending = {}
            self.now += FRAME_SECONDS

    def steps(self) -> Iterator[RecordingStep]:
        """Return all of it as a recording."""
        return steps(self.frames)


STALL_ROWS = [(0, 4)] * 19 + [(8, 3), (0, 4), (1928, 5)]
"""The seconds of the frozen server's stall: KiB written, tasks blocked."""
STALL_DIRTY_KIB, STALL_WRITEBACK_KIB = 6_640, 3_230_792
MIRROR_BYTES_PER_SECOND = 78.3 * MB
"""Of each half of the mirror, while it works."""


def frozen_database_server() -> list[tuple[float, Files]]:
    """A database server of 2.6.18 with 3.2 GB under write-back on a mirror whose one disk dies.

    A minute of writing at the disks' speed, the 22 seconds without progress, the rest of the
    backlog, and a quarter of an hour of peace.
    """
    # From the meminfo of that server; the limit of that kernel follows from these.
    memory = {
        "MemTotal": 8_174_540,
        "MemFree": 62_076,
        "Buffers": 21_724,
        "Cached": 6_158_912,
        "Active": 1_126_936,
        "Inactive": 6_101_688,
        "SwapTotal": 16_771_840,
        "SwapFree": 16_766_644,
        "AnonPages": 1_047_724,
        "Mapped": 65_736,
    }
    machine: Files = {
        "/proc/sys/vm/dirty_ratio": "40\n",
        "/proc/sys/vm/dirty_background_ratio": "10\n",
        "/proc/sys/vm/dirty_expire_centisecs": "3000\n",
        "/proc/sys/vm/dirty_writeback_centisecs": "500\n",
        "/proc/sys/vm/laptop_mode": "0\n",
        "/proc/sys/vm/swappiness": "60\n",
        "/proc/sys/kernel/osrelease": "2.6.18-6-amd64\n",
        "/sys/block/md0/size": "1953525168\n",
        "/sys/block/md0/md/level": "raid1\n",
        "/sys/block/md0/md/raid_disks": "2\n",
        "/sys/block/md0/md/degraded": "0\n",
        "/sys/block/md0/md/array_state": "active\n",
        "/sys/block/md0/md/sync_action": "idle\n",
        "/proc/mdstat": (
            "Personalities : [raid1]\nmd0 : active raid1 sdb1[1] sda1[0]\n"
            "      976762496 blocks [2/2] [UU]\n\nunused devices: <none>\n"
        ),
    }
    for name in ("sda", "sdb"):
        base = f"/sys/block/{name}"
        machine |= {
            f"/sys/block/md0/slaves/{name}": None,
            f"{base}/slaves": None,
            f"{base}/holders/md0": None,
            f"{base}/size": "1953525168\n",
            f"{base}/device/timeout": "30\n",
            f"{base}/device/vendor": "Hitachi\n",
            f"{base}/device/vpd_pg80": b"\0\x80\0\5HI-" + name[1:].encode(),
        }
    seconds: list[tuple[float, float, int, int, int, int]] = []
    working = MIRROR_BYTES_PER_SECOND
    seconds += [(working, working, 4, 4, 5, STALL_WRITEBACK_KIB)] * 60
    seconds += [(kib * KIB, 0, 4, 0, blocked, STALL_WRITEBACK_KIB) for kib, blocked in STALL_ROWS]
    left = STALL_WRITEBACK_KIB
    while left > 0:
        seconds.append((working, working, 4, 4, 2, left))
        left -= int(working) // KIB
    seconds += [(0, 0, 0, 0, 0, 0)] * 900
    written = [0.0, 0.0]
    frames: list[tuple[float, Files]] = []
    for second, (first, other, at_first, at_other, blocked, writeback) in enumerate(seconds):
        disks = ""
        for number, (done, flying) in enumerate(((first, at_first), (other, at_other))):
            written[number] += done
            sectors, count = int(written[number]) // 512, -(-int(written[number]) // 131_072)
            minor, name = 16 * number, "ab"[number]
            disks += f"8 {minor} sd{name} 0 0 0 0 {count} 0 {sectors} 0 {flying} 0 0\n"
            disks += f"8 {minor + 1} sd{name}1 0 0 {count} {sectors}\n"
        own = memory | {"Dirty": STALL_DIRTY_KIB if writeback else 0, "Writeback": writeback}
        files: Files = {
            "/proc/diskstats": disks + "9 0 md0 0 0 0 0 0 0 0 0 0 0 0\n",
            "/proc/meminfo": "".join(f"{name}: {kib} kB\n" for name, kib in own.items()),
            "/proc/vmstat": (
                f"nr_dirty {own['Dirty'] // 4}\nnr_writeback {writeback // 4}\nnr_unstable 0\n"
                "pgpgin 0\npgpgout 0\npswpin 0\npswpout 0\npgmajfault 0\nallocstall 0\n"
            ),
            "/proc/stat": (
                "cpu  1 0 1 1 1 0 0 0\nintr 0\nctxt 0\nbtime 1199990000\nprocesses 1\n"
                f"procs_running 1\nprocs_blocked {blocked}\n"
            ),
        }
        frames.append((UPTIME + second, {**({} if second else machine), **files}))
    return frames


PARALLEL_READERS = Load(640, 40.96 * MB, 0, 0, 1.0, 5, 5 / 640)
"""Five readers in pieces of 64 kB, the disks seeking from one to the next."""


def parallel_readers() -> Story:
    """2010: an Areca 1280ML volume reads ahead 64 kB; load in the hundreds; 8 MB resolves it."""
    story = Story(kernel="2.6.32-5-amd64")
    story.add_host(0, "arcmsr", 128)
    story.add_disk(
        "sda",
        address="0:0:0:0",
        read_ahead_kb=64,
        chunk_bytes=64 * KIB,
        depth=32,
        scheduler="noop [deadline] cfq",
        vendor="Areca",
        model="ARC-1280-VOL#00",
    )
    story.run(60)
    story.run(600, {"sda": PARALLEL_READERS}, blocked=5, load_average=240.0)
    story.change(
        {
            "/sys/block/sda/queue/read_ahead_kb": "8192\n",
            "/sys/block/sda/queue/max_sectors_kb": "64\n",
        }
    )
    story.run(1000, {"sda": reading(450 * MB, 64 * KIB, 30)}, blocked=1, load_average=5.0)
    return story


HOG = Load(0, 0, 400, 50 * MB, 1.0, 254, 0.5)
STARVED = Load(2, 16 * KIB, 2, 16 * KIB, 1.0, 3, 0.75)


def starving_disks() -> Story:
    """2006: two 3ware 8506-4; a busy disk takes all 254 commands of one; 32 each resolve it."""
    story = Story(kernel="2.6.16-2-686", memory_bytes=2 << 30)
    names = iter("abcdefgh")
    for host in (0, 1):
        story.add_host(host, "3w-xxxx", 254)
        for target in range(4):
            story.add_disk(
                f"sd{next(names)}",
                address=f"{host}:0:{target}:0",
                depth=254 if host == 0 else 32,
                read_ahead_kb=1024,
                scheduler="noop anticipatory [deadline] cfq",
                vendor="3ware",
                model="Logical Disk",
            )
    story.run(20)
    victims = {f"sd{letter}": STARVED for letter in "bcd"}
    story.run(300, {"sda": HOG, **victims}, blocked=4, load_average=40.0)
    story.change({f"/sys/class/scsi_device/0:0:{n}:0/device/queue_depth": "32\n" for n in range(4)})
    served = {f"sd{letter}": Load(30, 500_000, 10, 100_000, 0.4, 1, 0.01) for letter in "bcd"}
    story.run(800, {"sda": HOG._replace(in_flight=32, wait_seconds=0.08), **served}, blocked=1)
    return story


def write_only_database() -> Story:
    """2023: a database that only writes makes its SSD read 45 MB/s; MADV_RANDOM resolves it."""
    story = Story(memory_bytes=64 << 30)
    story.add_disk("nvme0n1", rotational=0, model="NVME SSD")
    writes = Load(0, 0, 600, 40 * MB, 0.3, 2, 0.001)
    reads = 45 * MB / (98 * KIB)
    phantom = writes._replace(reads=reads, read_bytes=45 * MB, busy=0.6)
    story.run(180, {"nvme0n1": writes._replace(reads=20, read_bytes=1 * MB)}, available=0.05)
    story.run(600, {"nvme0n1": phantom}, faults=3000, refaults=5000, available=0.05)
    story.run(1300, {"nvme0n1": writes._replace(reads=10, read_bytes=500_000)}, available=0.05)
    return story
