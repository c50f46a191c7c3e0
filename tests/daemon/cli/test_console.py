"""Commands that query the service, against a real socket: as text, on a terminal, as JSON."""

from __future__ import annotations

import contextlib
import grp
import json
import os
import re
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.service import Service, at, on_a_terminal, run

from iowarden.daemon import json_codec
from iowarden.daemon.cli import service_client, status_command
from iowarden.daemon.control import listen
from iowarden.daemon.control.documents import (
    AcknowledgementLine,
    AlertLine,
    IncidentLine,
    MailLine,
    ProbeLine,
    RefusedReload,
    Result,
    ResultSample,
    SilenceLine,
    SilenceList,
    SourceLine,
    Status,
    StuckLine,
)
from iowarden.daemon.sanitize import document
from iowarden.daemon.terminal import console
from iowarden.rules.matcher import Matcher

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator
    from pathlib import Path

DEADLINE_SECONDS = 30.0
NOW = 1_795_286_020.0
LONG = "sda completes nothing while 31 requests wait, and what is said of it is long " * 3
SILENCE = SilenceLine(
    "ab12", (Matcher("device", "=~", "sd.*"),), NOW - 10, NOW + 7000, "moving", "bob (uid 1001)"
)
STATUS = Status(
    version="0.1.0",
    host="db1.example.com",
    now_seconds=NOW,
    started_seconds=NOW - 90_000,
    ready=True,
    summary="critical: 2 incidents, 2 alerts fire",
    incidents=(
        IncidentLine(
            "3f2a9c01de",
            "critical",
            "sda (ACME SLOW-HDD, serial SLOW1)",
            NOW - 7300,
            firing=True,
            summary=LONG,
            notifications=2,
            acknowledged=AcknowledgementLine("alice (uid 1000)", NOW - 60, "drive ordered"),
        ),
        IncidentLine("aa2a9c01de", "warning", "host\x1b[31m", NOW - 100, summary="[bold]x[/bold]"),
    ),
    alerts=(
        AlertLine("DiskHung", "critical", "firing", "sda", NOW - 7300, "sda hangs"),
        AlertLine("WriteStall", "warning", "unknown", unknown_reason="source 'vmstat' is stuck"),
    ),
    collectors=(SourceLine("filesystem", "stuck", NOW - 8000, "statfs of '/data' hangs\x9b2J"),),
    collectors_ok=24,
    notifications=MailLine("SMTP server mx1:25", 3, 1, NOW - 500, NOW + 40, "connection refused"),
    probe=ProbeLine(
        connected=True,
        programs={"smartctl": "/usr/sbin/smartctl"},
        stuck=(StuckLine(812, "smartctl -a /dev/sda", ("sda",), ("host0",), NOW - 6000),),
    ),
    silences=(SILENCE,),
    failed_reload=RefusedReload(NOW - 50, ("'iowarden.yaml':3:4: expected a number",)),
)
FACTS = (
    "0.1.0", "db1.example.com", "1 d 1 h", "critical: 2 incidents", "3f2a9c01de", "SLOW1",
    "2 h 1 min", "alice (uid 1000)", "drive ordered", "DiskHung", "WriteStall",
    "source 'vmstat' is stuck", "filesystem", "statfs of '/data' hangs", "24 ok, 1 not ok",
    "3 waiting", "mx1:25", "; 1 refused;", "connection refused",
    "/usr/sbin/smartctl", "812",
    "smartctl -a /dev/sda", "ab12", "sd.*", "bob (uid 1001)", "moving",
    "'iowarden.yaml':3:4: expected a number", r"host\x1b[31m", "[bold]x[/bold]",
    "not notified yet",
)  # fmt: skip
"""What somebody who is woken must find on the screen."""


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """Return a service in a directory of its own."""
    made = Service(tmp_path)
    yield made
    made.control.close()


def test_a_piped_status_reports_all_of_it(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    """For a ticket: plain lines, nothing cut off, no control characters."""
    service.answers["status"] = {"answer": STATUS}
    assert run("status", *at(service)) == 0
    text = capsys.readouterr().out
    assert [fact for fact in (*FACTS, LONG.strip()) if fact not in text] == []
    assert [c for c in text if not c.isprintable() and c != "\n"] == []
    assert "..." not in text


def test_a_status_on_a_terminal_reports_all_of_it(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """80 columns: tables are drawn, text is folded, colours are the only escape sequences."""
    service.answers["status"] = {"answer": STATUS}
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    text = on_a_terminal(monkeypatch, lambda: run("status", *at(service)))
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert text.count("\x1b[1;31mcritical") == 3  # in the first lines, of an incident, an alert
    assert [c for c in plain if not c.isprintable() and c not in "\r\n"] == []
    assert max(map(len, plain.splitlines())) <= 80
    assert "3f2a9c01de" in plain
    assert r"host\x1b[31m" in plain
    assert "…" not in plain
    words = set("".join(plain).split())
    assert {*LONG.split(), "DiskHung", "mx1:25;", "[bold]x[/bold]"} <= words


def test_a_healthy_machine_needs_few_lines(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without problems, no empty tables are shown."""
    quiet = Status("0.1.0", "db1", NOW, NOW - 5, True, "ok: nothing is wrong", collectors_ok=30)
    service.answers["status"] = {"answer": quiet}
    assert run("status", *at(service)) == 0
    assert capsys.readouterr().out.splitlines() == [
        "iowarden 0.1.0 on db1, running for 5 s",
        "ok: nothing is wrong",
        "collectors: 30 ok, 0 not ok",
        "notifications: none waiting",
        "probe: not needed now",
    ]


def test_a_status_as_data_is_the_document(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program gets every field, unrounded, in ASCII."""
    service.answers["status"] = {"answer": STATUS}
    assert run("status", "--json", *at(service)) == 0
    text = capsys.readouterr().out
    assert text.isascii()
    assert json.loads(text) == document(json_codec.plain(STATUS))


def test_a_newer_service_is_understood(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    """An upgrade without restart: the client ignores fields that it does not know."""
    service.answers["status"] = {"answer": {"version": "9", "summary": "ok", "moods": ["blue"]}}
    assert run("status", *at(service)) == 0
    assert "iowarden 9" in capsys.readouterr().out


def test_a_service_of_another_kind_is_reported(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    """A field of another type is a readable error."""
    service.answers["status"] = {"answer": {"incidents": 7}}
    assert run("status", *at(service)) == 1
    assert "version" in capsys.readouterr().err


def test_nobody_there_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The service is down: the error names the socket and the next step; exit status 1."""
    missing = str(tmp_path / "control.sock")
    assert run("status", "--socket", missing) == 1
    listen.bind(missing).close()
    assert run("query", "up", "--socket", missing) == 1
    for line in capsys.readouterr().err.splitlines():
        assert missing in line
        assert line.startswith("iowarden is not running (")
        assert "Start it: systemctl start iowarden" in line


def test_a_file_is_no_socket(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It was said that iowarden is not running, with a state directory that is none."""
    (tmp_path / "notes").touch()
    assert run("status", "--socket", str(tmp_path / "notes")) == 1
    expected = f"'{tmp_path}/notes': expected the control socket of iowarden, got a file"
    assert capsys.readouterr().err.startswith(expected)


def test_a_path_that_is_too_long_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """A path that is too long is an error message, not a traceback."""
    assert run("status", "--socket", "/" + "x" * 200) == 1
    assert "path too long). See: systemctl status iowarden" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
@pytest.mark.parametrize(
    "groups", [frozenset({"iowarden-viewer", "iowarden-operator"}), frozenset()]
)
def test_who_may_not_is_told_what_to_do(
    service: Service, monkeypatch: pytest.MonkeyPatch, groups: frozenset[str]
) -> None:
    """How to get access: by a group, if the host has it, as it has not after 'sudo make run'."""

    def of_host(name: str) -> grp.struct_group:
        if name not in groups:
            raise KeyError(name)
        return grp.struct_group((name, "x", 65_533, []))

    monkeypatch.setattr(grp, "getgrnam", of_host)
    os.chmod(service.directory, 0o711)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            os.chdir(service.directory)
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            with open(writing, "w", encoding="utf-8") as sys.stderr:
                run("status", "--socket", listen.FILE_NAME)
        os._exit(0)
    os.close(writing)
    with open(reading, encoding="utf-8") as file:
        text = file.read()
    os.waitpid(pid, 0)
    assert "permission denied" in text
    assert "Use sudo" in text
    assert ("let root add you to group 'iowarden-viewer'" in text) == bool(groups)


def test_a_service_that_hangs_up_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The service ends, or sends half a line or no JSON, while a client waits for an answer."""
    path = str(tmp_path / "control.sock")
    closed = "closed the connection"
    answers = {b"": closed, b'{"answer"': closed}
    answers |= dict.fromkeys((b"hi\n", b"[]\n", b'{"mood": 1}\n'), "expected")
    for said, told in answers.items():
        with listen.bind(path) as listener:
            listener.setblocking(True)

            def speak(listener: socket.socket = listener, said: bytes = said) -> None:
                connected, _ = listener.accept()
                with connected:
                    connected.recv(65_536)
                    connected.sendall(said)

            speaker = threading.Thread(target=speak)
            speaker.start()
            assert run("status", "--socket", path) == 1
            speaker.join(DEADLINE_SECONDS)
        error = capsys.readouterr().err
        assert path in error
        assert told in error


def test_who_is_refused_before_the_request_is_read_sees_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service answers and closes at once; to write to it fails then, its answer is there."""
    path = str(tmp_path / "control.sock")
    with listen.bind(path) as listener:
        listener.setblocking(True)
        connect = service_client._connected

        def refused(at: str) -> socket.socket:
            client = connect(at)
            connected, _ = listener.accept()
            with connected:
                connected.sendall(b'{"error": "access refused to nobody (uid 65534)"}\n')
            return client

        monkeypatch.setattr(service_client, "_connected", refused)
        assert run("status", "--socket", path) == 1
    assert "access refused to nobody" in capsys.readouterr().err


def test_a_service_that_reports_nothing_is_not_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service stopped by a debugger: the socket accepts the client, which then times out."""
    monkeypatch.setattr(service_client, "TIMEOUT_SECONDS", 0.05)
    path = str(tmp_path / "control.sock")
    with listen.bind(path):
        assert run("status", "--socket", path) == 1
    assert "no answer within" in capsys.readouterr().err


# --- silences and acknowledgements


def test_a_silence_is_requested(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    """The service gets the arguments as typed; it identifies the user itself."""
    service.answers["silence add"] = {"answer": SILENCE}
    words = ("device=~sd.*", "WriteStall", "--for", "1h30m", "--reason", "moving the rack")
    assert run("silence", "add", *words, *at(service)) == 0
    assert service.asked[0].arguments == {
        "matchers": ["device=~sd.*", "WriteStall"],
        "for_seconds": 5400.0,
        "reason": "moving the rack",
    }
    out = capsys.readouterr().out
    assert "ab12" in out
    assert 'device=~"sd.*"' in out


def test_a_silence_lasts_until_a_time(service: Service) -> None:
    """A time with an offset is sent to the service as a duration from now."""
    service.answers["silence add"] = {"answer": SILENCE}
    until = time.time() + 3600
    text = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(until))
    assert run("silence", "add", "x", "--until", text, "--reason", "y", *at(service)) == 0
    assert 0 < service.asked[0].arguments["for_seconds"] <= 3600


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--for", "90", "90s"),
        ("--for", "soon", "expected a duration"),
        ("--until", "tomorrow", "expected a time such as"),
        ("--until", "2001-01-01", "in the future"),
    ],
)
def test_a_time_that_is_none_is_reported(
    service: Service, capsys: pytest.CaptureFixture[str], option: str, value: str, said: str
) -> None:
    """No request is sent, and the error states the expected form."""
    with pytest.raises(SystemExit) as ended:
        run("silence", "add", "x", option, value, "--reason", "y", *at(service))
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
    assert service.asked == []


def test_silences_are_listed_and_ended(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    """The list shows the ID for `expire`; an empty list is a sentence."""
    service.answers["silence list"] = {"answer": SilenceList((SILENCE,))}
    service.answers["silence expire"] = {"answer": SILENCE}
    assert run("silence", "list", *at(service)) == 0
    listed = capsys.readouterr().out
    assert all(fact in listed for fact in ("ab12", 'device=~"sd.*"', "bob (uid 1001)", "moving"))
    assert run("silence", "expire", "ab1", *at(service)) == 0
    assert service.asked[1].arguments == {"identifier": "ab1"}
    service.answers["silence list"] = {"answer": SilenceList()}
    assert run("silence", "list", *at(service)) == 0
    assert run("silence", "list", "--json", *at(service)) == 0
    assert capsys.readouterr().out.endswith('no active silences\n{\n  "silences": []\n}\n')


def test_an_incident_is_acknowledged(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    """The answer names the incident, and until when no notification is sent."""
    service.answers["ack"] = {"answer": STATUS.incidents[0]}
    assert run("ack", "3f2a", "--reason", "drive ordered", *at(service)) == 0
    assert service.asked[0].arguments == {
        "incident": "3f2a",
        "reason": "drive ordered",
        "undo": False,
    }
    assert "no notification until it escalates" in capsys.readouterr().out
    assert run("ack", "3f2a", "--undo", *at(service)) == 0
    assert service.asked[1].arguments["undo"] is True


def test_an_error_is_shown_and_fails(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    """An error of the service is a sentence without control characters."""
    service.answers["ack"] = {"error": "incident 'zz\x1b[2J': expected an open one, got none"}
    assert run("ack", "zz", *at(service)) == 1
    assert capsys.readouterr().err == ("incident 'zz\\x1b[2J': expected an open one, got none\n")


# --- queries


def test_a_query_is_answered_as_promtool_would(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line per series, escaped so that it can be pasted into a rule."""
    samples = (
        ResultSample({"__name__": "up", "device": "sda", "a": 'say "x"\\'}, "1"),
        ResultSample({}, "NaN"),
    )
    service.answers["query"] = {"answer": Result(NOW, "vector", samples)}
    assert run("query", "up", *at(service)) == 0
    assert service.asked[0].arguments == {"expression": "up"}
    assert capsys.readouterr().out == 'up{a="say \\"x\\"\\\\", device="sda"} 1\nNaN\n'
    service.answers["query"] = {"answer": Result(NOW)}
    assert run("query", "up", *at(service)) == 0
    assert capsys.readouterr() == ("", "the result is empty\n")
    assert run("query", "up", "--json", *at(service)) == 0
    assert json.loads(capsys.readouterr().out)["samples"] == []


# --- whatever the documents hold


@given(st.from_type(Status))
@settings(max_examples=40)
def test_whatever_a_status_holds_is_shown(status: Status) -> None:
    """Any text, time or number: no exception, and only printable text on the terminal."""
    for section in status_command.status_sections(status):
        if isinstance(section, str):
            lines = [console.printable(section)]
        else:
            lines = console.columns(section)
        assert [line for line in lines if not line.isprintable()] == []


FINITE = st.floats(allow_nan=False, allow_infinity=False)


@given(st.builds(SilenceLine, created_seconds=FINITE, ends_seconds=FINITE))
def test_a_document_comes_back_from_json(line: SilenceLine) -> None:
    """The client decodes exactly what the main loop sent, whatever text is in it."""
    assert json_codec.decode(SilenceLine, json_codec.encode(line)) == line


def test_a_table_has_the_columns_that_it_names_and_is_none_without_rows() -> None:
    """A column is declared once for all tables; control characters in its cells are escaped."""
    known: console.Columns[str] = {
        "name": str,
        "length": lambda each: str(len(each)),
        "up": str.upper,
    }
    (table,) = console.table_of("words", ["sda", "a\x1b[31m"], known, "up", "name")
    assert (table.columns, table.rows) == (
        ("up", "name"),
        (("SDA", "sda"), (r"A\x1b[31M", r"a\x1b[31m")),
    )
    (whole,) = console.table_of("words", ["sda"], known)
    assert whole.columns == ("name", "length", "up")
    assert console.table_of("words", [], known) == []


def test_the_service_does_not_load_what_draws_tables() -> None:
    """Its memory is locked, and it does not need a table library."""
    program = (
        "import sys\nfrom iowarden.daemon.terminal import console\n"
        "from iowarden.daemon.control import control_socket\nprint('rich' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout == b"False\n"
