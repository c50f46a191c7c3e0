"""The mail about a kill for lack of memory of which the kernel's log has no line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.live import Live, text, watched

if TYPE_CHECKING:
    from pathlib import Path

GROUP = "/sys/fs/cgroup/system.slice"
VMSTAT = (
    "nr_dirty 0\nnr_writeback 0\nnr_dirtied 0\nnr_written 0\nnr_dirty_threshold 100000\n"
    "nr_dirty_background_threshold 50000\npgpgin 0\npgpgout 0\noom_kill {}\n"
)


def test_a_kill_while_the_service_was_stopped_is_mailed_once(tmp_path: Path) -> None:
    """A warning after the start, with the unit and what is unknown; none after the next start."""
    live = Live(tmp_path)
    live.change(
        {"/sys/fs/cgroup/cgroup.controllers": "io memory\n", "/proc/vmstat": VMSTAT.format(0)}
    )
    with watched(tmp_path, live) as host:
        assert host.wait(20) == []
        assert host.program.end() == 0
        killed = "oom 0\noom_kill 1\n"
        live.change(
            {
                f"{GROUP}/memory.events": killed,
                f"{GROUP}/etl.service/memory.events": killed,
                "/proc/vmstat": VMSTAT.format(1),
            }
        )
        host.start_again()
        (mail,) = host.wait(90)
        told = " ".join(text(mail).split())
        assert str(mail["Subject"]).startswith("[WARNING]")
        assert "the kernel killed a program of etl.service for lack of memory" in told
        assert "which program was killed: only the kernel's counter shows it" in told
        host.restart()
        assert host.wait(90) == []
