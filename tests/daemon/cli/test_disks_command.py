"""'iowarden monitoring' and 'iowarden disk', with a real socket: text, terminal, data, status."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.service import Service, at, on_a_terminal, run

from iowarden.daemon.cli import disks_command
from iowarden.daemon.control.documents import (
    AlertLine,
    AttributeLine,
    DiskDetail,
    DiskHistory,
    DiskLine,
    DiskList,
    SelfTestLine,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NOW = 1_795_286_020.0
READ = DiskLine(
    disk="S1",
    object="sda (ACME DISK-9, serial S1)",
    device="sda",
    model="ACME DISK-9",
    capacity_bytes=4e12,
    kind="rotating",
    health="passed",
    temperature_celsius=31.0,
    power_on_hours=20_000.0,
    expected_by=("kernel", "enclosure"),
    monitoring_state="monitored",
    access_method="sat at /dev/sda",
    slot="Slot 02 of enclosure 0:0:8:0",
    polled_seconds=NOW - 600,
    unavailable=("raw values hidden",),
    alerts=("DiskValueFalls",),
)
HIDDEN = DiskLine(
    disk="areca,2 /dev/sg3",
    object="areca,2 at /dev/sg3 (slot 2)",
    expected_by=("controller",),
    monitoring_state="hung",
    reason="smartctl hangs\x1b[31m in the kernel",
    remedy="see what hangs",
    access_method="areca,2 at /dev/sg3",
    slot="slot 2",
)
VOLUME = DiskLine(
    disk="V1", device="sdz", monitoring_state="lun", reason="a volume", physical=False
)
COVERAGE = DiskList(
    NOW,
    "warning",
    "SMART: 1 of 2 disks readable (1 stuck)",
    NOW - 60,
    ("scan failed",),
    (READ, HIDDEN, VOLUME),
)
DETAIL = DiskDetail(
    NOW,
    READ,
    (("firmware", "A1"), ("errors in its log", "0")),
    ("megaraid,0 at /dev/bus/0",),
    ("md0", "/srv/db"),
    (AttributeLine(197, "Current_Pending_Sector", "193", "193", "0", "", "past"),),
    (SelfTestLine("extended", "Completed: read failure", "FAILED", 19_000, 123_456),),
    (AlertLine("DiskValueFalls", "warning", "firing", "sda", NOW - 60, "it fell by 7"),),
    ("Warning: this drive is not in the database",),
    ("it was idle and may have to spin up",),
)
PAST = DiskHistory("S1", "197 raw", ((NOW - 300, 0.0), (NOW - 200, 0.0), (NOW - 100, 8.0)))


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """Return a service in a directory of its own."""
    made = Service(tmp_path)
    made.answers["monitoring"] = {"answer": COVERAGE}
    made.answers["disk show"] = {"answer": DETAIL}
    made.answers["disk history"] = {"answer": PAST}
    made.answers["disk forget"] = {"answer": READ}
    yield made
    made.control.close()


def test_monitoring_status_reports_who_is_not_read_and_why(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    """Problems come first, with the remedy; the output has no control characters."""
    assert run("monitoring", *at(service)) == 1
    text = capsys.readouterr().out
    assert text.startswith(
        "warning: SMART: 1 of 2 disks readable (1 stuck)\nproblem: scan failed\n"
    )
    first, _, second = text.partition("\nmonitored:\n")
    assert "areca,2 at /dev/sg3 (slot 2)" in first
    assert r"smartctl hangs\x1b[31m in the kernel" in first
    assert "hung: see what hangs" in first
    assert "never" in first
    for fact in ("sda", "10 min", "sat at /dev/sda", "kernel, enclosure", "raw values hidden"):
        assert fact in second
    assert "no SMART data of their own" in second
    assert [c for c in text if not c.isprintable() and c != "\n"] == []


def test_of_a_disk_that_vanished_nobody_reports_that_it_was_never_read(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was polled until it vanished; only a present disk that was never polled says so."""
    lost = replace(HIDDEN, monitoring_state="missing", reason="it vanished; on it: md0")
    service.answers["monitoring"] = {"answer": replace(COVERAGE, disks=(lost,))}
    assert run("monitoring", *at(service)) == 1
    assert "missing     unknown      it vanished" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("verdict", "status"),
    [("ok", 0), ("warning", 1), ("critical", 2), ("unknown", 3), ("", 3), ("of a later one", 3)],
)
def test_the_exit_status_is_that_of_the_monitoring_status(
    service: Service, verdict: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """As for 'iowarden check': only 0 means that every disk is monitored."""
    service.answers["monitoring"] = {"answer": DiskList(status=verdict, summary="x")}
    assert run("monitoring", *at(service)) == status
    assert run("monitoring", "--json", *at(service)) == status
    assert verdict in capsys.readouterr().out


def test_nobody_there_is_no_answer_about_disks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The service is not running: unknown, neither a warning nor OK."""
    assert run("monitoring", "--state-directory", str(tmp_path)) == 3
    assert "iowarden is not running" in capsys.readouterr().err


def test_every_disk_is_a_line(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    """Including a disk without any data."""
    assert run("disk", "list", *at(service)) == 0
    lines = capsys.readouterr().out.splitlines()
    (sda,) = (line for line in lines if line.startswith("  sda "))
    for fact in (
        "S1",
        "ACME DISK-9",
        "3.6 TiB",
        "rotating",
        "passed",
        "31 C",
        "20000 h",
        "monitored",
    ):
        assert fact in sda
    assert sda.endswith("DiskValueFalls")
    assert any("areca,2" in line and "hung" in line for line in lines)
    assert run("disk", "list", "--json", *at(service)) == 0
    assert [d["disk"] for d in json.loads(capsys.readouterr().out)] == ["S1", HIDDEN.disk, "V1"]


def test_all_of_a_disk_is_on_the_screen(
    service: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Piped or on 80 columns: nothing is left out."""
    facts = (
        "sda (ACME DISK-9, serial S1)", "Slot 02 of enclosure 0:0:8:0", "md0, /srv/db", "firmware",
        "A1", "megaraid,0 at /dev/bus/0", "Current_Pending_Sector", "193", "hidden", "past",
        "extended", "Completed: read failure", "FAILED", "19000 h", "123456", "DiskValueFalls",
        "it fell by 7", "not in the database", "raw values hidden",
        "guards: it was idle and may have to spin up",
    )  # fmt: skip
    assert run("disk", "show", "sda", *at(service)) == 0
    text = capsys.readouterr().out
    assert [fact for fact in facts if fact not in text] == []
    assert service.asked[-1].arguments == {"disk": "sda"}
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    drawn = on_a_terminal(monkeypatch, lambda: run("disk", "show", "sda", *at(service)))
    assert {word for fact in facts for word in fact.split()} <= set(drawn.split())


def test_the_past_is_bars_and_what_changed(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two equal values, then a change: two rows; the arguments are passed on."""
    assert run("disk", "history", "S1", "197", *at(service)) == 0
    text = capsys.readouterr().out
    assert text.startswith("S1: 197 raw, from 0 to 8\n  ▁▁█\n")
    assert [line.split()[2:] for line in text.splitlines()[5:]] == [["0"], ["8", "+8"]]
    assert service.asked[-1].arguments == {"disk": "S1", "attribute": "197"}
    assert run("disk", "history", "S1", "197", "--json", *at(service)) == 0
    assert json.loads(capsys.readouterr().out)["samples"][-1] == [NOW - 100, 8.0]


def test_a_long_past_is_cut_and_reports_that(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    """A thousand changes: the last forty are shown, unless --all is given."""
    many = tuple((NOW + i * 60.0, float(i)) for i in range(1000))
    service.answers["disk history"] = {"answer": DiskHistory("S1", "197 raw", many)}
    assert run("disk", "history", "S1", "197", *at(service)) == 0
    text = capsys.readouterr().out
    assert text.endswith("960 earlier changes not shown; use --all\n")
    assert len(text.splitlines()) < 50
    assert run("disk", "history", "S1", "197", "--all", *at(service)) == 0
    assert len(capsys.readouterr().out.splitlines()) > 1000


def test_a_disk_is_forgotten_by_name(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    """The result is shown."""
    assert run("disk", "forget", "S1", *at(service)) == 0
    assert capsys.readouterr().out.startswith(
        "sda (ACME DISK-9, serial S1) is no longer reported as missing"
    )
    assert service.asked[-1].name == "disk forget"


def test_a_terminal_without_bars_gets_plain_characters() -> None:
    """An old terminal, or an unknown locale."""
    samples = tuple((float(i), float(i)) for i in range(8))
    assert disks_command.sparkline(samples, "utf-8") == "▁▂▃▄▅▆▇█"
    assert disks_command.sparkline(samples, "ascii") == "_.,-=+*#"
    assert disks_command.sparkline(samples, "no such encoding") == "_.,-=+*#"
    assert disks_command.sparkline(samples, None) == "_.,-=+*#"


def test_one_bad_day_in_years_is_seen() -> None:
    """A value that came and went within the time of a bar is the height of that bar."""
    samples = tuple((float(day), 9.0 if day == 500 else 0.0) for day in range(1000))
    drawn = disks_command.sparkline(samples, "utf-8")
    assert len(drawn) == disks_command.MAX_BARS
    assert drawn.count("█") == 1
    assert set(drawn) == {"▁", "█"}


@given(
    st.lists(st.tuples(st.floats(0, 4e9), st.floats(-1e300, 1e300)), min_size=1, max_size=100).map(
        sorted
    )
)
def test_any_past_can_be_drawn(samples: list[tuple[float, float]]) -> None:
    """Whatever the values: the number of bars is limited, the highest value is shown."""
    drawn = disks_command.sparkline(samples, "utf-8")
    assert 1 <= len(drawn) <= disks_command.MAX_BARS
    if len({value for _, value in samples}) > 1 and samples[0][0] < samples[-1][0]:
        assert "█" in drawn
