"""'iowarden top': its arguments, its tables and its JSON."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from iowarden.collectors.procfs.cgroup_io import CgroupIo
from iowarden.collectors.procfs.process_io import ProcessIo, Sweep
from iowarden.daemon.cli import command
from iowarden.daemon.cli.main import main
from iowarden.daemon.cli.top_command import as_data, sections
from iowarden.daemon.terminal.console import Table, columns
from iowarden.rules import io_usage
from iowarden.rules.io_usage import IoReading
from iowarden.rules.notices.who_waits import WaitingProgram

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1 << 20
BEFORE = ProcessIo(812, 400, 1, "postgres", "postgresql.service", 0, 4096, 0)
AFTER = ProcessIo(812, 400, 1, "postgres", "postgresql.service", 0, 4096 + 50 * MIB, 0)
GROUPS = (
    CgroupIo("/nginx.service", "nginx.service", 0.95, 0.84, None, None),
    CgroupIo("/cron.service", "cron.service", 0.0, 0.0, None, None),
)
FOUND = io_usage.usage(
    IoReading(100.0, Sweep(100.0, (BEFORE,)), GROUPS),
    IoReading(110.0, Sweep(110.0, (AFTER,), (7, 9)), GROUPS),
)
ALONE = io_usage.usage(
    IoReading(100.0, None, None, "no probe", "no cgroup2"),
    IoReading(110.0, None, GROUPS, "no probe"),
)


@pytest.mark.parametrize("text", ["10", "0s", "500ms", "6m", "soon", "-1s"])
def test_an_invalid_duration_is_an_error_with_what_is_expected(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rejected before anything is read."""
    with pytest.raises(SystemExit) as ended:
        main(["top", f"--for={text}"])
    assert ended.value.code == 2
    assert "expected a duration" in " ".join(capsys.readouterr().err.split())


def test_names_that_are_switched_off_are_not_shown_here(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The configuration decides, not who runs the command; the error has what to change."""
    (tmp_path / "iowarden.yaml").write_text("privacy: {programs: false}\n")
    assert main(["top", "--config", str(tmp_path / "iowarden.yaml")]) == 1
    assert "'privacy: {programs: true}'" in capsys.readouterr().err


def test_a_machine_that_was_suspended_meanwhile_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a user without a probe: no second passed between two readings."""
    monkeypatch.setattr(command, "PROBE_SOCKET", str(tmp_path / "probe.socket"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(time, "sleep", lambda _: None)
    (tmp_path / "iowarden.yaml").touch()
    assert main(["top", "--config", str(tmp_path / "iowarden.yaml")]) == 1
    assert "expected two readings a second apart" in capsys.readouterr().err


def test_tables_of_writers_and_waiters() -> None:
    """Who read nothing is no row; what could not be read is shown."""
    assert FOUND is not None
    lines = []
    for each in sections(FOUND):
        lines += columns(each) if isinstance(each, Table) else [each]
    assert lines == [
        "measured for 10 s",
        "writers:",
        "  share  program   unit                pid  processes  rate",
        "  100 %  postgres  postgresql.service  812  1          5 MiB/s",
        "readers: nothing was read",
        "waiting for I/O, share of the last 10 s:",
        "  all tasks  some tasks  unit",
        "  84 %       95 %        nginx.service",
        "processes that could not be read: 2",
    ]


def test_without_a_probe_the_reason_why_programs_are_missing_is_shown() -> None:
    """Control groups are read by any user."""
    assert ALONE is not None
    assert "programs are not known: no probe" in sections(ALONE)


def test_units_that_were_not_read_are_pointed_out() -> None:
    """More control groups than are read: the one that waits most may be another one."""
    assert FOUND is not None
    cut = replace(FOUND, units_cut_off=True)
    assert sections(cut)[-1] == "units: only the first 1000 control groups were read"
    assert as_data(cut)["units_cut_off"] is True


def test_json_has_all_of_it() -> None:
    """Numbers in base units; null is not an empty list."""
    assert FOUND is not None
    assert as_data(FOUND) == {
        "seconds": 10.0,
        "writers": [
            {
                "program": "postgres",
                "unit": "postgresql.service",
                "pid": 812,
                "processes": 1,
                "bytes_per_second": 5.0 * MIB,
                "ratio": 1.0,
                "ended": 0,
            }
        ],
        "readers": [],
        "waiters": [
            {"unit": "nginx.service", "some_ratio": 0.95, "full_ratio": 0.84},
            {"unit": "cron.service", "some_ratio": 0.0, "full_ratio": 0.0},
        ],
        "waiting": None,
        "left_out": 2,
        "problem": "",
        "waiters_problem": "",
        "units_cut_off": False,
    }
    assert ALONE is not None
    assert as_data(ALONE)["writers"] is None


def test_a_wait_that_one_poll_alone_saw_has_no_age() -> None:
    """It may be of this moment: 'at least 0 s' says nothing."""
    waits = [
        WaitingProgram(name, "", 812, 1, "fsync", "/srv/a", "8:0", seconds, seconds + 2.0)
        for name, seconds in (("postgres", 24.0), ("nginx", 0.0))
    ]
    (table,) = (
        one
        for one in sections(FOUND, waits)
        if not isinstance(one, str) and one.columns[0] == "at least"
    )
    assert [cells[0] for cells in table.rows] == ["24 s", ""]
