"""smartd and mdmonitor beside iowarden: named, and stopped only if they do nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from iowarden.collectors.machine import Machine
from iowarden.daemon.cli import setup_command
from iowarden.daemon.setup import other_monitors

if TYPE_CHECKING:
    from pathlib import Path

SMARTD = "DEVICESCAN -d removable -n standby -m root -M exec /usr/share/smartmontools/smartd-runner"
"""Debian's own, without its comments."""


def machine(
    root: Path, smartd: str = SMARTD, mdadm: str = "HOMEHOST <system>\nMAILADDR root\n"
) -> Machine:
    """Debian 13 with smartmontools and mdadm as this package's Recommends bring them."""
    for unit, pid in (("smartmontools.service", 611), ("mdmonitor.service", 702)):
        group = root / "sys/fs/cgroup/system.slice" / unit
        group.mkdir(parents=True)
        (group / "cgroup.procs").write_text(f"{pid}\n")
    (root / "etc/mdadm").mkdir(parents=True)
    (root / "etc/smartd.conf").write_text(f"# comment: -s (S/../.././02)\n{smartd}\n")
    (root / "etc/mdadm/mdadm.conf").write_text(f"# PROGRAM /bin/x\n{mdadm}")
    return Machine(str(root))


def systemctl(folder: Path) -> str:
    """Return a program that notes its arguments in place of systemctl."""
    program = folder / "systemctl"
    program.write_text(f'#!/bin/sh\necho "$*" >>{folder}/ran\n')
    program.chmod(0o755)
    return str(program)


def ran(folder: Path) -> str:
    """Return what it noted."""
    note = folder / "ran"
    return note.read_text() if note.exists() else ""


def test_the_monitors_that_packages_bring_are_named_with_what_ends_them(tmp_path: Path) -> None:
    """udev starts mdmonitor with each array: 'disable' would last until the next start."""
    assert [(m.command, m.needed_for) for m in other_monitors.running(machine(tmp_path))] == [
        ("systemctl disable --now smartmontools.service", ""),
        ("systemctl mask --now mdmonitor.service", ""),
    ]


def test_a_machine_without_them_has_none(tmp_path: Path) -> None:
    """A unit without a process does not run, whether or not it is installed."""
    (tmp_path / "sys/fs/cgroup/system.slice/smartmontools.service").mkdir(parents=True)
    assert not [*other_monitors.running(Machine(str(tmp_path)))]


@pytest.mark.parametrize(
    ("smartd", "mdadm", "reasons"),
    [
        ("DEVICESCAN -a -s (S/../.././02|L/../../6/03)", "", ["self-tests", ""]),
        ("/dev/sda -a -m root", "", ["directives of this host", ""]),
        (SMARTD, "ARRAY /dev/md0 UUID=1:2:3:4 spare-group=rack\n", ["", "moves spares"]),
        (SMARTD, "POLICY domain=a action=spare\n", ["", "moves spares"]),
        (SMARTD, "PROGRAM /usr/local/sbin/page\n", ["", "runs a program"]),
    ],
)
def test_one_that_does_more_is_not_offered_to_be_stopped(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    smartd: str,
    mdadm: str,
    reasons: list[str],
) -> None:
    """Without mdadm --monitor a spare would no longer move to the array that needs it."""
    monkeypatch.setattr(other_monitors, "SYSTEMCTL", systemctl(tmp_path))
    monitors = [*other_monitors.running(machine(tmp_path, smartd, mdadm))]
    setup_command._offer_to_stop(monitors, is_prompted=False, stop=True)
    shown = capsys.readouterr().out
    for monitor, reason in zip(monitors, reasons, strict=True):
        assert (monitor.unit in ran(tmp_path)) == (reason == "")
        assert reason in monitor.needed_for
        assert monitor.command in shown


def test_nothing_is_stopped_without_a_yes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Enter alone leaves both running; the command is shown."""
    questions: list[str] = []
    answer = ""
    monkeypatch.setattr(other_monitors, "SYSTEMCTL", systemctl(tmp_path))
    monkeypatch.setattr("builtins.input", lambda text: questions.append(text) or answer)
    monitors = [*other_monitors.running(machine(tmp_path))]
    setup_command._offer_to_stop(monitors, is_prompted=True, stop=False)
    assert (len(questions), ran(tmp_path)) == (2, "")
    assert "to stop it: systemctl mask --now mdmonitor.service" in capsys.readouterr().out
    answer = "yes"
    setup_command._offer_to_stop(monitors[:1], is_prompted=True, stop=False)
    assert ran(tmp_path) == "disable --now smartmontools.service\n"
    assert "stopped by: systemctl disable" in capsys.readouterr().out


def test_a_monitor_that_does_not_stop_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without root systemctl fails, and in a container there is none."""
    monitors = [*other_monitors.running(machine(tmp_path))][:1]
    for program in ("/bin/false", str(tmp_path / "none")):
        monkeypatch.setattr(other_monitors, "SYSTEMCTL", program)
        setup_command._offer_to_stop(monitors, is_prompted=False, stop=True)
        shown = capsys.readouterr()
        assert "not stopped; as root: systemctl disable --now" in shown.err
        assert "stopped by" not in shown.out
