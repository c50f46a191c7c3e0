"""A database server whose programs stand still behind its disks, second by second."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from support.simulation import UPTIME, Simulation

from iowarden.collectors.procfs import process_io
from iowarden.collectors.procfs.process_io import ProcessIo, Sweep, ThreadIo
from iowarden.collectors.procfs.tasks import BlockedTask, BlockedTasks, to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

SP_PC = "0x7ffc1e30 0x7f0ac5b0"
FSYNC = f"74 0x5 0x0 0x0 0x0 0x0 0x0 {SP_PC}"
SPEED = 78_000_000
"""Bytes a second that the two disks of the mirror take."""
QUEUED = 3_200_000_000
PERIOD, FROZEN = 60, 20


def backend(number: int, waited: int = 0, **changes: object) -> BlockedTask:
    """Return a database process in a commit; `waited` tells one freeze's call from the next's."""
    values: dict[str, object] = {
        "pid": 900 + number,
        "start_ticks": 4_000 + number,
        "command": "postgres",
        "wait_channel": "jbd2_log_wait_commit",
        "stack": ("jbd2_log_wait_commit", "ext4_sync_file", "do_fsync", "__x64_sys_fsync"),
        "read_bytes": 0,
        "write_bytes": 65_536 + 8_192 * waited,
        "waits_at": "9:0",
        "system_call": FSYNC,
        "counters": (0, 65_536 + 8_192 * waited, 10, 10 + waited, 0, 65_536),
        "voluntary_switches": 700,
        "cpu_ticks": 30,
        "file": "/srv/db/pg_wal/000000010000000000000001",
        "mount": "/srv/db",
        "unit": "postgresql@15-main.service",
    }
    return BlockedTask(**{**values, **changes})  # type: ignore[arg-type]


class Server:
    """A database server with a mirror of two disks, a bulk writer, and backends that commit."""

    def __init__(self, *, uptime: float = UPTIME) -> None:
        self.machine = Simulation(uptime=uptime)
        self.machine.add_disk("sda", "S1")
        self.machine.add_disk("sdb", "S2")
        self.machine.add_array("md0", "raid1", "sda", "sdb")
        self.machine.memory.write({"/sys/block/md0/dev": "9:0\n"})
        self.written = 0
        self.load1 = 0.0
        self.threads: dict[int, int | None] = {}
        """Of the process that writes: what each has written, None: all."""

    @property
    def second(self) -> int:
        """The seconds since the start."""
        return self.machine.second

    def pass_second(
        self,
        tasks: Sequence[BlockedTask],
        *,
        queued: int = QUEUED,
        speed: int = SPEED,
        speeds: Mapping[str, int] | None = None,
        write_ms: Mapping[str, int] | None = None,
        busy: Collection[str] = (),
        is_counted: bool = True,
    ) -> None:
        """Let a second pass in which these tasks are blocked and the disks take so much.

        `speeds` of single disks. `is_counted`: '/proc/stat' counts the tasks as blocked; else only
        the load average does, each 5 s.
        """
        self.written += speed
        uptime = self.machine.uptime + self.second
        if self.second % 5 == 0:
            self.load1 = self.load1 * 0.92 + (0 if is_counted else len(tasks)) * 0.08
        bulk = ProcessIo(400, 1_000, 1, "pg_restore", "load.service", 0, self.written, 0)
        threads = tuple(
            ThreadIo(400, thread, self.written if moved is None else moved)
            for thread, moved in self.threads.items()
        )
        self.machine.memory.write(
            {
                "/proc/loadavg": f"{self.load1:.2f} 0.05 0.01 1/200 4711\n",
                "/.probe/tasks": json.dumps(
                    to_json(BlockedTasks(tuple(tasks), len(tasks), boot_seconds=uptime))
                ),
                "/.probe/io_sweep": json.dumps(
                    process_io.to_json(Sweep(uptime, (bulk,), (), threads))
                ),
            }
        )
        self.machine.run(
            1,
            queued=queued,
            threshold=3_300_000_000,
            background=800_000_000,
            blocked=len(tasks) if is_counted else 0,
            writes={"sda": speed, "sdb": speed, **(speeds or {})},
            in_flight={"sda": 32, "sdb": 32} if speed else {},
            write_ms=write_ms,
            busy=busy,
        )

    def freeze_each_minute(
        self, minutes: int, frozen: Callable[[int], Sequence[BlockedTask]]
    ) -> None:
        """Let the backends of `frozen` stand still for 20 s of each minute."""
        for second in range(minutes * PERIOD):
            number, at = divmod(second, PERIOD)
            self.pass_second(frozen(number) if at >= PERIOD - FROZEN else ())

    def subjects(self) -> list[tuple[float, str, str]]:
        """Return time, reason and object of each mail."""
        return [
            (mail.uptime - self.machine.uptime, mail.due.reason.value, mail.due.incident.key)
            for mail in self.machine.host.mails
        ]
