"""Maps whose paths the kernel says it does not use, or whose requests fail, with no state of dm."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.live import text, watched
from support.storage_incidents import FakeMachine
from support.storage_machines import mapped

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("sda", "sdb", "sdc", "sdd")
NUMBERS = ("8:0", "8:16", "8:32", "8:48")
LOST = "mpatha has no working path left (of 4)"


def _four_paths(tmp_path: Path) -> FakeMachine:
    """One LUN, with one serial number, by two adapters and two ports of the storage array."""
    m = FakeMachine(tmp_path)
    for host in (1, 2):
        m.adapter(host, "lpfc")
    for i, name in enumerate(NAMES):
        address = f"{1 + i % 2}:0:{i // 2}:0"
        m.disk(name, address, serial="LUN1", vendor="NETAPP", model="LUN", parts=False)
    m.volume("dm-0", "mpatha", "mpath-3600a", *NAMES)
    m.mount("/data", "dm-0")
    return m


def _line(number: str, verb: str = "Failing") -> str:
    return f"device-mapper: multipath: 253:0: {verb} path {number}."


def test_a_map_whose_paths_all_failed_by_the_kernels_lines_is_critical(tmp_path: Path) -> None:
    """The SCSI state of each remains 'running'; one that is back ends it, also after a restart.

    The lines about its paths are one incident with it, and a restart is no news.
    """
    m = _four_paths(tmp_path)
    with watched(tmp_path, m) as host:
        host.wait(30)
        m.says(*(_line(number) for number in NUMBERS), priority=4)
        (mail,) = host.wait(60)
        assert mail["Subject"] == f"[CRITICAL] db1.example.com: {LOST}"
        assert "4 of 4 paths of mpatha are lost or have faults" in text(mail)
        host.restart()
        assert host.wait(200) == []
        status = host.program.command("status").stdout
        assert LOST in status
        assert "more open incident" not in status
        m.says(_line("8:16", "Reinstating"), priority=4)
        host.wait_only(60)
        status = host.program.command("status").stdout
    assert "critical  firing" not in status
    assert "dm_path_failed" in status.partition("\nalerts:")[2]


def test_three_of_four_paths_that_failed_by_lines_are_counted(tmp_path: Path) -> None:
    """The paths have one serial number, and one incident."""
    m = _four_paths(tmp_path)
    with watched(tmp_path, m) as host:
        host.wait(30)
        m.says(*(_line(number) for number in NUMBERS[:3]), priority=4)
        (mail,) = host.wait(120)
    assert "[WARNING]" in mail["Subject"]
    assert "3 of 4 paths of mpatha are lost or have faults" in text(mail)


def test_the_other_paths_of_one_that_failed_by_a_line_are_not_known_to_work(tmp_path: Path) -> None:
    """1 of 4, a warning."""
    m = _four_paths(tmp_path)
    with watched(tmp_path, m) as host:
        host.wait(30)
        m.says(_line("8:16"), priority=4)
        (mail,) = host.wait(200)
    assert "[WARNING]" in mail["Subject"]
    assert "1 of 4 paths of mpatha is lost or has faults, and whether the other 3 work" in text(
        mail
    )


def test_a_line_does_not_count_for_the_device_that_has_its_number_next(tmp_path: Path) -> None:
    """A map that gets a path has a new table, of which each path is used; no line says that."""
    m = _four_paths(tmp_path)
    with watched(tmp_path, m) as host:
        host.wait(30)
        m.says(*(_line(number) for number in NUMBERS), priority=4)
        host.wait_only(30)
        m.change({f"/sys/block/{name}/diskseq": f"{90 + i}\n" for i, name in enumerate(NAMES)})
        host.wait_only(150)
        alerts = host.program.command("status").stdout.partition("\nalerts:")[2]
    assert "dm_path_failed" in alerts
    assert "Multipath" not in alerts


def test_requests_that_fail_on_all_paths_are_mailed(tmp_path: Path) -> None:
    """Without another path nothing repeats them; on one path of four multipath does."""

    def failed(name: str) -> str:
        return f"I/O error, dev {name}, sector 4096 op 0x1:(WRITE) flags 0x800 phys_seg 1 prio 2"

    m = _four_paths(tmp_path)
    with watched(tmp_path, m) as host:
        host.wait(30)
        m.says(failed("sdb"))
        assert host.wait(300) == []
        m.says(*(failed(name) for name in NAMES * 3))
        mails = host.wait(200)
    assert any("a request to the device failed" in text(mail) for mail in mails)


def _alua(optimized: tuple[str, ...]) -> dict[str, str]:
    """Return the access states of the paths: of the controller that owns the volume, and others."""
    files = {}
    for i, name in enumerate(NAMES):
        path = f"/sys/class/scsi_device/{1 + i % 2}:0:{i // 2}:0/device"
        state = "active/optimized" if name in optimized else "active/non-optimized"
        files |= {f"{path}/dh_state": "alua\n", f"{path}/access_state": f"{state}\n"}
    return files


def test_a_volume_that_stays_with_the_other_controller_is_mailed_after_a_while(
    tmp_path: Path,
) -> None:
    """All paths work, so that none is lost. 15 minutes, because an upgrade takes some."""
    m = _four_paths(tmp_path)
    words = " ".join(f"{number} A 0 1" for number in NUMBERS)
    m.change(mapped("mpatha", "multipath", f"2 0 0 0 1 1 A 0 4 1 {words}") | _alua(NAMES[:2]))
    with watched(tmp_path, m) as host:
        assert host.wait(40, 5.0) == []
        m.change(_alua(()))
        assert host.wait(780, 60.0) == []
        (mail,) = host.wait(300, 20.0)
        tree = host.program.command("storage").stdout
    assert mail["Subject"].endswith("mpatha has only non-optimized paths left")
    assert "[WARNING]" in mail["Subject"]
    assert "multipath -ll mpatha" in text(mail)
    assert "running, non-optimized" in tree
