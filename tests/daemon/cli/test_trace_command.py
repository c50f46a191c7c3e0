"""'iowarden trace': what it accepts, shows and prints as JSON."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.tracing import sample

from iowarden.collectors.model import DeadlineError
from iowarden.daemon.cli import trace_command
from iowarden.daemon.cli.main import main
from iowarden.daemon.terminal.console import columns
from iowarden.daemon.trace.protocol import LatencyLine, TraceResult, encode_answer
from iowarden.daemon.trace_client import client, texts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

NAMES = {"8:0": "sda"}
OBJECTS = {"sda": "sda (SIMULATED HDD, serial S-A)"}


def shown(found: TraceResult, files: Mapping[tuple[str, int], str] | None = None) -> list[str]:
    """The lines of the command where it is no terminal."""
    lines: list[str] = []
    for section in trace_command.sections(found, NAMES, OBJECTS, files or {}, "#"):
        lines += [section] if isinstance(section, str) else columns(section)
    return lines


def used_devices() -> list[str]:
    """Return the block devices of this machine that hold something: no loop device without a file.

    Not those of NVMe, which may be paths of one namespace, nor of nbd.
    """
    return [
        size.parent.name
        for size in sorted(Path("/sys/block").glob("[!n]*/size"))
        if size.read_text() != "0\n"
    ]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "required: DISK"),
        (["sda", "--for", "0s"], "expected 1s to 60s, got '0s'"),
        (["sda", "--for", "2m"], "expected 1s to 60s, got '2m'"),
        (["sda", "--for", "soon"], "expected a duration such as 90m or 1d12h, got 'soon'"),
    ],
)
def test_a_wrong_command_line_is_answered_with_what_is_expected(
    arguments: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rejected before anything is traced."""
    with pytest.raises(SystemExit) as ended:
        main(["trace", *arguments])
    assert ended.value.code == 2
    assert error in " ".join(capsys.readouterr().err.split())


def test_a_disk_that_is_none_is_named_with_those_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """On this machine, whatever disks it has."""
    assert main(["trace", "sda/../vda"]) == 1
    assert "got 'sda/../vda'; there are:" in capsys.readouterr().err


def test_a_user_who_may_not_trace_gets_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither root nor the service's user."""
    path = tmp_path / "trace.socket"
    path.touch()
    monkeypatch.setattr(client, "SOCKET", str(path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may do everything
    devices = used_devices()
    if not devices:
        pytest.skip("no block device")
    assert main(["trace", devices[0], "--for", "1s"]) == 1
    assert "usermod -aG iowarden-operator USER" in capsys.readouterr().err


def test_latencies_the_slowest_and_what_waits_are_shown() -> None:
    """In plain columns of at most 80 characters; the operation's sum only where sizes differ."""
    lines = shown(sample())
    assert lines[0] == (
        "sda (SIMULATED HDD, serial S-A): 2 requests (1/s), 136 KiB; read-ahead is 100 % of the"
        " bytes read in 3 s"
    )
    text = [" ".join(line.split()) for line in lines]
    assert "read-ahead <= 256 KiB 1 1.2 ms 1.2 ms 1.2 ms 1.2 ms" in text
    assert "sync write <= 16 KiB 1 2.5 s 2.5 s 2.5 s 2.5 s" in text
    assert not [line for line in text if line.startswith("sync write all")]
    assert f"<= 2.05 ms 1 100 % {'#' * 40}" in text
    assert "2.5 s" in next(line for line in text if line.endswith("8 KiB 4096 postgres (pid 812)"))
    waiting = text.index("not completed:")
    assert text[waiting + 2].startswith("2.9 s")
    assert "iowarden locate sda 4096+16" in text[waiting + 3]
    assert max(map(len, lines[2:])) <= 80


def test_files_stand_beside_their_requests() -> None:
    """As far as they were found; then the command that would find one is not shown."""
    text = [" ".join(line.split()) for line in shown(sample(), {("sda", 4096): "/srv/pg/wal/1"})]
    assert [line for line in text if line.endswith("postgres (pid 812) /srv/pg/wal/1")]
    assert not [line for line in text if "iowarden locate" in line]


def test_a_disk_without_requests_is_shown_as_idle() -> None:
    """Idle, or one whose driver has no requests: 0 is no latency."""
    found = sample()
    nothing = replace(
        found.disks[0], requests=0, bytes=0, in_flight=0, waiting=(), latencies=(), slowest=()
    )
    lines = shown(replace(found, disks=(nothing,)))
    assert "  no request: the disk was idle, or what uses it passes no requests" in lines[1]
    assert len(lines) == 2


def test_what_limits_the_numbers_is_shown() -> None:
    """Lost events, errors, requests that were returned, a disk that vanished."""
    found = sample()
    odd = replace(
        found.disks[0],
        vanished=True,
        errors=2,
        requeued=1,
        unmatched=7,
        issued_before=3,
        in_flight=None,
        waiting=(),
    )
    lines = list(texts.notes(replace(found, lost_events=90), odd))
    assert lines == [
        "the kernel removed the disk during the trace",
        "3 requests completed, issued before the trace",
        "2 requests completed with an error",
        "1 request returned by the driver and issued again",
        "7 requests not measured",
        "the kernel dropped at least 90 events: counts are too low",
    ]


def test_what_every_busy_disk_has_is_no_note() -> None:
    """A request in flight since a moment, and the few that were when the trace began."""
    found = sample()
    (waits,) = found.disks[0].waiting
    busy = replace(
        found.disks[0],
        requests=1000,
        issued_before=8,
        unmatched=3,
        waiting=(replace(waits, seconds=0.0001),),
    )
    assert list(texts.notes(found, busy)) == []
    assert not [line for line in shown(replace(found, disks=(busy,))) if "not completed" in line]


def test_a_histogram_has_a_row_for_each_doubling() -> None:
    """Also for one without a request, of several operations together."""
    usual = LatencyLine("read", "all", 8, 0, 0, 0, 0, 0, ((1e-6, 6), (4e-6, 2)))
    ahead = replace(usual, operation="read_ahead", histogram=((2e-6 * 4, 12),))
    rows = trace_command.distribution([usual, ahead])
    assert [(round(limit * 1e6), number) for limit, number, _, _ in rows] == [
        (1, 6),
        (2, 0),
        (4, 2),
        (8, 12),
    ]
    assert [share for _, _, share, _ in rows] == [0.3, 0.0, 0.1, 0.6]
    assert trace_command.distribution([]) == []


def test_bars_are_what_the_output_can_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks on a terminal of UTF-8; ASCII in a pipe, and where the locale has no block."""
    assert trace_command.bar("utf-8") == "#"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert [trace_command.bar(each) for each in ("utf-8", "ascii", None, "klingon")] == [
        *("█", "#", "#", "#")
    ]


def test_the_name_of_a_file_is_looked_up_once_for_all_its_sectors() -> None:
    """Ten slow requests of one database: 'ncheck' may read all directories. Errors are not kept."""
    queries: list[tuple[str, ...]] = []

    def probe(verb: str, arguments: Sequence[str], _: float) -> str:
        queries.append((verb, *arguments))
        if len(queries) == 1:
            raise DeadlineError("'debugfs' was killed at the deadline")
        return " ".join(arguments)

    query = trace_command.once(probe)
    with pytest.raises(DeadlineError):
        query("run", ["debugfs", "ncheck 13"], 1.0)
    for inode in (13, 13, 12, 13):
        assert query("run", ["debugfs", f"ncheck {inode}"], 1.0) == f"debugfs ncheck {inode}"
    assert [each[-1] for each in queries] == ["ncheck 13", "ncheck 13", "ncheck 12"]


def test_json_has_names_and_files() -> None:
    """A file that is not known is null, not missing."""
    data = json.loads(
        json.dumps(trace_command.as_data(sample(), NAMES, {("sda", 4096): "/srv/pg/wal/1"}))
    )
    (found,) = data["disks"]
    assert (found["device"], found["requests"], found["in_flight"]) == ("sda", 2, 1)
    assert [each["file"] for each in found["slowest"]] == ["/srv/pg/wal/1", None]
    assert found["waiting"][0]["program"] == "mysqld"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 us"),
        (0.000_000_125, "0.125 us"),
        (0.000064, "64 us"),
        (0.00121, "1.21 ms"),
        (0.999, "999 ms"),
        (31.25, "31.2 s"),
    ],
)
def test_a_latency_is_in_the_unit_that_fits(seconds: float, text: str) -> None:
    """As fio and the kernel's own tools print them."""
    assert texts.latency(seconds) == text


@pytest.mark.parametrize(
    ("configuration", "named"),
    [("", True), ("privacy: {programs: false}", False), ("privacy: [", False)],
    ids=["default", "forbidden", "not readable"],
)
def test_programs_are_named_only_where_the_configuration_is_known_to_allow_it(
    configuration: str,
    named: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As an operator, in the table, in the notes and as JSON: neither name nor process number."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    disks = used_devices()
    if not disks:
        pytest.skip("no block device")
    number = (Path("/sys/block") / disks[0] / "dev").read_text().strip()
    answer = sample()
    own = replace(answer.disks[0], device_number=number)
    path = tmp_path / "iowarden.yaml"
    path.write_text(configuration + "\nprobe: false\n")
    arguments = ["trace", disks[0], "--for", "1s", "--config", str(path)]
    for more in ([], ["--json"]):
        ours, theirs = socket.socketpair()
        theirs.sendall(encode_answer(replace(answer, disks=(own,))))
        monkeypatch.setattr(client, "_connection", lambda stream=ours: lambda: stream)
        assert main([*arguments, *more]) == 0
        theirs.close()
        text = capsys.readouterr().out
        assert [each in text for each in ("postgres", "mysqld", "812")] == [named] * 3
