"""A host whose counters are set second by second, with everything the program concludes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.host import Host

from iowarden.collectors import registry
from iowarden.rules.engine.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

PAGE = 4096
START = 1_800_000_000.0
UPTIME = 1000.0
"""Long after boot: the guard of the first two minutes plays no part unless a test wants it."""


class Simulation:
    """A host with disks whose counters are set second by second."""

    def __init__(
        self, *, uptime: float = UPTIME, laptop_mode: int = 0, follow: Collection[str] = ()
    ) -> None:
        self.host = Host(follow=follow)
        self.memory = self.host.memory
        self.second = 0
        self.uptime = uptime
        self.disks: dict[str, list[int]] = {}
        self.memory.write(
            {
                "/proc/sys/vm/dirty_ratio": "20\n",
                "/proc/sys/vm/dirty_background_ratio": "10\n",
                "/proc/sys/vm/dirty_bytes": "0\n",
                "/proc/sys/vm/dirty_background_bytes": "0\n",
                "/proc/sys/vm/dirty_expire_centisecs": "3000\n",
                "/proc/sys/vm/dirty_writeback_centisecs": "500\n",
                "/proc/sys/vm/laptop_mode": f"{laptop_mode}\n",
                "/proc/sys/kernel/osrelease": "6.1.0-28-amd64\n",
            },
        )

    def add_disk(self, name: str, serial: str = "") -> None:
        """Plug a disk in."""
        base = f"/sys/block/{name}"
        files: dict[str, str | bytes | None] = {
            f"{base}/slaves": None,
            f"{base}/holders": None,
            f"{base}/size": "1953525168\n",
            f"{base}/device/timeout": "30\n",
            f"{base}/device/model": "SIMULATED HDD\n",
        }
        if serial:
            files[f"{base}/device/vpd_pg80"] = b"\0\x80\0" + bytes([len(serial)]) + serial.encode()
        self.memory.write(files)
        self.disks[name] = [0, 0, 0, 0, 0]

    def add_array(self, name: str, level: str, *members: str) -> None:
        """Assemble an md array of whole disks."""
        files: dict[str, str | bytes | None] = {
            f"/sys/block/{name}/size": "1953525168\n",
            f"/sys/block/{name}/md/level": f"{level}\n",
            f"/sys/block/{name}/md/raid_disks": f"{len(members)}\n",
        }
        for member in members:
            files[f"/sys/block/{name}/slaves/{member}"] = None
            files[f"/sys/block/{member}/holders/{name}"] = None
        self.memory.write(files)

    def pull_disk(self, name: str) -> None:
        """Take a disk away; the kernel announces it, as it announces one that was plugged in."""
        self.memory.remove(f"/sys/block/{name}")
        del self.disks[name]
        self.host.announced()

    def run(
        self,
        seconds: int,
        *,
        queued: int = 0,
        threshold: int = 1_000_000_000,
        background: int = 500_000_000,
        blocked: int = 0,
        writes: Mapping[str, int] | None = None,
        in_flight: Mapping[str, int] | None = None,
        write_ms: Mapping[str, int] | None = None,
        busy: Collection[str] = (),
        step: int = 1,
    ) -> None:
        """Let seconds pass: bytes queued, the kernel's limits, tasks blocked, bytes per second.

        `write_ms`: time of each write. `busy`: disks with a request in flight all the time.
        `step`: seconds from one look to the next, for long times in
        which nothing changes.
        """
        for _ in range(0, seconds, step):
            lines = []
            for number, (name, counters) in enumerate(self.disks.items()):
                written = (writes or {}).get(name, 0) * step
                counters[0] += written
                completed = -(-written // 1_000_000)
                counters[1] += completed
                counters[3] += completed * (write_ms or {}).get(name, 0)
                counters[2] = (in_flight or {}).get(name, 0)
                counters[4] += 1000 * step if name in busy else 0
                sectors, completed = counters[0] // 512, counters[1]
                lines.append(
                    f"8 {number * 16} {name} 0 0 0 0 {completed} 0 {sectors} {counters[3]}"
                    f" {counters[2]} {counters[4]} 0"
                    " 0 0 0 0 0 0\n"
                )
            self.memory.write(
                {
                    "/proc/diskstats": "".join(lines),
                    "/proc/meminfo": (
                        "MemTotal: 8000000 kB\nMemFree: 500000 kB\nBuffers: 1 kB\nCached: 1 kB\n"
                        f"Dirty: {queued // 1024} kB\nWriteback: 0 kB\n"
                    ),
                    "/proc/vmstat": (
                        f"nr_dirty {queued // PAGE}\nnr_writeback 0\nnr_dirtied 0\nnr_written 0\n"
                        f"nr_dirty_threshold {threshold // PAGE}\n"
                        f"nr_dirty_background_threshold {background // PAGE}\n"
                        "pgpgin 0\npgpgout 0\n"
                    ),
                    "/proc/stat": (
                        "cpu  1 0 1 1 1 0 0 0 0 0\nintr 0\nctxt 0\nbtime 1799999000\nprocesses 1\n"
                        f"procs_running 1\nprocs_blocked {blocked}\n"
                    ),
                },
            )
            self.host.tick(self.uptime + self.second, START + self.second)
            self.second += step


class Looks:
    """A host as files that a test writes; time passes in looks of the whole program's pipeline."""

    def __init__(self) -> None:
        """Start with no file at all."""
        self.host = Host()
        self.memory = self.host.memory
        self.write = self.memory.write
        self.now = START
        self.booted = START - UPTIME

    def look(self, times: int = 1, every: float = 15.0) -> None:
        """Let time pass."""
        for _ in range(times):
            self.host.tick(self.now - self.booted, self.now)
            self.now += every

    def restart(self) -> None:
        """Start the program anew, with what it keeps."""
        before = self._engine()
        after = Engine(self.host.rules, registry.SOURCES, self.now)
        after.recall(before.signals.remember(), before.devices.devices)
        after.rules.restore(before.rules.alerts())
        self.host.engine = after
        self.host._due.clear()
        self.look()

    def summary(self, name: str) -> str:
        """Return what the first active alert of this name says."""
        return next(
            a.annotation("summary")
            for a in self._engine().rules.alerts()
            if a.name == name and a.active
        )

    def states(self, name: str) -> set[str]:
        """Return the states of all alerts of this name."""
        return {a.state.value for a in self._engine().rules.alerts() if a.name == name}

    def _engine(self) -> Engine:
        assert self.host.engine is not None
        return self.host.engine
