"""'iowarden events' and 'iowarden incident', against a real socket: text, terminal, data."""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.service import Service, at, on_a_terminal, run

from iowarden.daemon import json_codec
from iowarden.daemon.cli import events_command, main, service_client
from iowarden.daemon.control import control_socket
from iowarden.daemon.control.documents import (
    AcknowledgementLine,
    EventLine,
    EventList,
    EvidenceLine,
    IncidentDetail,
    IncidentLine,
    IncidentList,
    MemberLine,
    SilenceLine,
)
from iowarden.daemon.sanitize import document
from iowarden.daemon.terminal import console
from iowarden.rules.matcher import Matcher

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DEADLINE_SECONDS = 30.0
NOW = 1_795_286_020.0
SAID = EventLine(NOW - 5, "warning", "sda\x07 is gone", "sda", source="iowarden", device="sda")
EVENT = EventLine(
    NOW - 4,
    "critical",
    "critical medium error, dev sda, sector 8\x1b[2J",
    "sda (ACME SLOW-HDD, serial SLOW1)",
    "3f2a9c01de",
    "kernel",
    "block_io_error",
    "sda",
    "SLOW1",
    10,
    "k1",
)
OPEN = IncidentLine(
    "3f2a9c01de",
    "critical",
    "sda (ACME SLOW-HDD, serial SLOW1)",
    NOW - 7300,
    firing=True,
    summary="sda cannot read\x9b a sector",
    notifications=2,
    notified_seconds=NOW - 600,
    acknowledged=AcknowledgementLine("alice (uid 1000)", NOW - 60, "drive ordered"),
    silences=("ab12",),
    last_notification_reason="escalated",
    recurrences=3,
)
CLOSED = IncidentLine(
    "aa00000000", "", "host", NOW - 90_000, closed_seconds=NOW - 4000, notifications=1
)
DETAIL = IncidentDetail(
    NOW,
    OPEN,
    (
        SilenceLine(
            "ab12", (Matcher("device", "=", "sda"),), NOW - 10, NOW + 7000, "swap", "bob (uid 1001)"
        ),
    ),
    (
        MemberLine("DiskHung", "critical", "firing", NOW - 7300, None, "it hangs"),
        MemberLine(
            "block_io_error", "warning", "firing", NOW - 700, None, "errors", True, 412, NOW - 30
        ),
        MemberLine("DiskSlow", "warning", "resolved", NOW - 7000, NOW - 6000, "slow"),
    ),
    ("critical DiskHung, since 2 h 1 min ago: it hangs",),
    (EvidenceLine(NOW - 60, "kernel", "sda: I/O error"),),
    ("/srv/db (ext4) is on sda",),
    ("Replace the disk:\n  mdadm --manage /dev/md0 --replace /dev/sda1\n",),
    ("which file it is",),
    (EVENT,),
    meaning=("programs that use it wait",),
)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """Return a service in a directory of its own."""
    made = Service(tmp_path)
    made.answers["incident list"] = {"answer": IncidentList(NOW, (OPEN, CLOSED))}
    made.answers["incident show"] = {"answer": DETAIL}
    yield made
    made.control.close()


# --- events


def test_events_are_lines(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    """Time, severity, source, object, incident, text; as JSON, one event per line."""
    service.answers["events"] = {"answer": EventList((SAID, EVENT))}
    assert run("events", "-n", "7", *at(service)) == 0
    assert service.asked[0].arguments["last"] == 7
    assert service.asked[0].arguments["follow"] is False
    first, second = capsys.readouterr().out.splitlines()
    when = r"2026-11-2[0-9] [0-9:]{8}"
    said = rf"{when}  warning   iowarden  sda       -           sda\\x07 is gone"
    assert re.fullmatch(said, first)
    text = r"critical medium error, dev sda, sector 8\\x1b\[2J \(10 times\)"
    assert re.fullmatch(rf"{when}  critical  kernel    sda       3f2a9c01de  {text}", second)
    assert run("events", "--json", *at(service)) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line) for line in lines] == [document(asdict(e)) for e in (SAID, EVENT)]


def test_what_is_requested_arrives(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    """Each option is sent to the service; a duration means that long ago."""
    service.answers["events"] = {"answer": EventList()}
    before = time.time()
    words = (
        "events", "--last", "3", "--since", "2d", "--until", "2026-11-22T06:00:00+00:00",
        "--disk", "/dev/sda", "--incident", "3f", "--source", "kernel", "--severity", "warning",
    )  # fmt: skip
    assert run(*words, *at(service)) == 0
    asked = service.asked[0].arguments
    assert before - 2 * 86_400 <= asked.pop("since_seconds") <= time.time() - 2 * 86_400
    assert asked == {
        "last": 3,
        "follow": False,
        "until_seconds": 1_795_327_200.0,
        "disk": "/dev/sda",
        "incident": "3f",
        "source": "kernel",
        "severity": "warning",
    }
    assert capsys.readouterr() == ("", "no matching events\n")


def test_days_ago_may_be_written_as_journalctl_has_them(service: Service) -> None:
    """`--since -2d` was 'expected one argument', as if there were none."""
    service.answers["events"] = {"answer": EventList()}
    before = time.time()
    assert main.main(["events", "--since", "-2d", "--until", "-1h", *at(service)]) == 0
    asked = service.asked[0].arguments
    assert before - 2 * 86_400 <= asked["since_seconds"] <= time.time() - 2 * 86_400
    assert before - 3600 <= asked["until_seconds"] <= time.time() - 3600


def test_a_length_of_time_is_not_negative(capsys: pytest.CaptureFixture[str]) -> None:
    """A silence for '-2h' would have ended; the error shows what was written."""
    with pytest.raises(SystemExit):
        main.main(["silence", "add", "--reason", "swap", "--for", "-2h", "device=sda"])
    assert "--for: expected a duration such as 90m or 1d12h, got '-2h'" in capsys.readouterr().err


@pytest.mark.parametrize("words", [("--since", "soon"), ("--severity", "bad"), ("-n", "-1")])
def test_an_option_that_is_none_is_reported(
    service: Service, capsys: pytest.CaptureFixture[str], words: tuple[str, str]
) -> None:
    """No request is sent, and the error states the expected form."""
    with pytest.raises(SystemExit) as ended:
        run("events", *words, *at(service))
    assert ended.value.code == 2
    assert re.search("expected|choose", capsys.readouterr().err)
    assert service.asked == []


def test_what_is_missing_is_reported_beside_the_events(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    """The disk with history.db hangs: the events in memory are listed, with a note."""
    service.answers["events"] = {"answer": EventList((SAID,), "its disk\x1b[2J may hang")}
    assert run("events", *at(service)) == 0
    out, error = capsys.readouterr()
    assert len(out.splitlines()) == 1
    assert error == "its disk\\x1b[2J may hang\n"


def test_a_terminal_gets_all_of_an_event(
    service: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """80 columns: a long kernel message is wrapped; in a pipe it is one line."""
    words = " ".join(["sector 4711"] * 30)
    service.answers["events"] = {"answer": EventList((replace(EVENT, text=words), SAID))}
    monkeypatch.setenv("COLUMNS", "80")
    text = on_a_terminal(monkeypatch, lambda: run("events", *at(service)))
    assert max(map(len, text.splitlines())) <= 80
    assert words in " ".join(text.split())
    assert run("events", *at(service)) == 0
    assert words in capsys.readouterr().out.splitlines()[0]


FOLLOW = "import sys\nfrom iowarden.daemon.cli.main import main\nsys.exit(main())\n"


def following(service: Service, *words: str) -> subprocess.Popen[str]:
    """Start a process that follows events, and wait until it does."""
    before = replace(SAID, text="before", device="sda")
    service.answers["events"] = {"answer": EventList((before,), disk="SLOW1", devices=("sda",))}
    process = subprocess.Popen(
        [sys.executable, "-c", FOLLOW, "events", "--follow", *words, *at(service)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "PYTHONUNBUFFERED": "",  # it would write each line at once, whatever we do
        },
    )
    assert service.came.wait(DEADLINE_SECONDS)
    assert process.stdout is not None
    assert process.stdout.readline().endswith("before\n")
    return process


def test_who_follows_sees_events_at_once_and_the_end(service: Service) -> None:
    """An event is shown when it is published; the end of the service is reported."""
    with following(service) as process:
        assert process.stdout is not None
        service.control.publish(EventLine(NOW, "critical", "sda hangs"))
        assert process.stdout.readline().endswith("  -           sda hangs\n")
        service.control.close()
        _, said = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 1
    assert "closed the connection" in said


def test_a_quiet_night_does_not_end_following(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time limit is for the answer; the first event may come hours later."""
    monkeypatch.setattr(service_client, "TIMEOUT_SECONDS", 0.05)
    monkeypatch.setattr(control_socket, "IDLE_SECONDS", 0.3)
    service.answers["events"] = {"answer": EventList()}
    lines = service_client.exchange(
        argparse.Namespace(socket=service.path), "events", {"follow": True}, follow=True
    )
    assert next(lines)["answer"]["events"] == []
    got: list[dict[str, Any]] = []
    reader = threading.Thread(target=lambda: got.append(next(lines)))
    reader.start()
    with socket.socket(socket.AF_UNIX) as silent:
        silent.connect(service.path)
        silent.settimeout(DEADLINE_SECONDS)
        assert silent.recv(1) == b""  # hung up on, long after the limit
    service.control.publish(EventLine(text="the sun rises"))
    reader.join(DEADLINE_SECONDS)
    lines.close()
    assert [line["event"]["text"] for line in got] == ["the sun rises"]


def test_control_c_ends_following_quietly(service: Service) -> None:
    """Ctrl-C ends `--follow` without an error message."""
    with following(service) as process:
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=DEADLINE_SECONDS)
    assert (process.returncode, out, said) == (130, "", "")


def test_a_reader_that_has_enough_is_no_error(service: Service) -> None:
    """`iowarden events --follow | head -1` ends without a traceback."""
    with following(service) as process:
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        service.control.publish(EventLine(NOW, "info", "unread"))
        _, said = process.communicate(timeout=DEADLINE_SECONDS)
    assert said == ""


def test_who_follows_one_disk_sees_no_other(service: Service) -> None:
    """The service publishes all events to all clients: filtered by serial number or device."""
    with following(service, "--disk", "SLOW") as process:
        for event in (replace(EVENT, disk="OTHER"), replace(SAID, device="sdb"), EVENT, SAID):
            service.control.publish(event)
        assert process.stdout is not None
        told = [process.stdout.readline().split()[2:5] for _ in range(2)]
        assert told == [["critical", "kernel", "sda"], ["warning", "iowarden", "sda"]]
        service.control.close()


# --- incidents


def test_incidents_are_listed(service: Service, capsys: pytest.CaptureFixture[str]) -> None:
    """Open incidents with acknowledgements and silences; below, closed ones without severity."""
    assert run("incident", "list", "--all", *at(service)) == 0
    assert service.asked[0].arguments == {"all": True}
    text = capsys.readouterr().out
    opened, _, closed = text.partition("recently closed incidents:")
    for fact in (
        "critical", "3f2a9c01de", "serial SLOW1", "2 h 1 min", "2, last: escalated at",
        r"sda cannot read\x9b a sector", "acknowledged by alice (uid 1000): drive ordered",
        "silenced by ab12",
    ):  # fmt: skip
        assert fact in opened
    assert "aa00000000" in closed
    assert "critical" not in closed
    assert [c for c in text if not c.isprintable() and c != "\n"] == []
    service.answers["incident list"] = {"answer": IncidentList(NOW)}
    assert run("incident", "list", *at(service)) == 0
    assert capsys.readouterr().out == "no open incidents\n"


def test_all_of_an_incident_is_on_the_screen(
    service: Service, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Piped or on 80 columns: nothing is left out, and there are no control characters."""
    facts = (
        "critical: incident 3f2a9c01de: sda", "state: open", "2 h 1 min", "reopened: 3 times",
        "2, last: escalated at", "acknowledged by alice (uid 1000)", "drive ordered",
        "silenced by ab12, added by bob (uid 1001)", "swap",
        "critical DiskHung, since 2 h 1 min ago",
        "412", "30 s", "cleared", "firing, silenced", "sda: I/O error", "/srv/db (ext4) is on sda",
        "mdadm --manage /dev/md0 --replace /dev/sda1", "which file it is", "(10 times)",
        "programs that use it wait",
        "journalctl IOWARDEN_INCIDENT=3f2a9c01de",
    )  # fmt: skip
    assert run("incident", "show", "3f2", *at(service)) == 0
    assert service.asked[0].arguments == {"incident": "3f2"}
    text = capsys.readouterr().out
    assert [fact for fact in facts if fact not in text] == []
    assert [c for c in text if not c.isprintable() and c != "\n"] == []
    titles = [line[:-1] for line in text.splitlines() if line.endswith(":") and line[0] != " "]
    assert titles == [
        *("what it means", "what to do", "what happened", "alerts and events", "evidence"),
        *("what is affected", "what is unknown", "latest events"),
    ]
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    drawn = on_a_terminal(monkeypatch, lambda: run("incident", "show", "3f2", *at(service)))
    plain = re.sub(r"\x1b\[[0-9;]*m", "", drawn)
    assert [word for fact in facts for word in fact.split() if word not in plain] == []
    assert max(map(len, plain.splitlines())) <= 80


def test_a_closed_incident_reports_since_when(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its details are no longer available; that its events could not be read is shown."""
    gone = IncidentDetail(NOW, CLOSED, note="history.db cannot be read: disk I/O error")
    service.answers["incident show"] = {"answer": gone}
    assert run("incident", "show", "aa", *at(service)) == 0
    text = capsys.readouterr().out
    assert text.startswith("incident aa00000000: host\n  state: closed since ")
    assert "history.db cannot be read: disk I/O error" in text


def test_an_incident_that_is_none_is_an_error(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error of the service is shown; exit status 1."""
    service.answers["incident show"] = {"error": "incident: expected one, got 'zz'; there is none"}
    assert run("incident", "show", "zz", *at(service)) == 1
    assert "there is none" in capsys.readouterr().err


def test_incidents_as_data_are_the_documents(
    service: Service, capsys: pytest.CaptureFixture[str]
) -> None:
    """A program gets every field, unrounded, in ASCII."""
    assert run("incident", "show", "3f", "--json", *at(service)) == 0
    text = capsys.readouterr().out
    assert text.isascii()
    assert json.loads(text) == document(json_codec.plain(DETAIL))
    assert run("incident", "list", "--json", *at(service)) == 0
    wanted = document(json_codec.plain((OPEN, CLOSED)))
    assert json.loads(capsys.readouterr().out)["incidents"] == wanted


@given(st.from_type(IncidentDetail), st.from_type(IncidentList), st.from_type(EventLine))
@settings(max_examples=30)
def test_whatever_an_incident_holds_is_shown(
    detail: IncidentDetail, found: IncidentList, event: EventLine
) -> None:
    """Any text, time or number: no exception, and only printable text on the terminal."""
    sections = [*events_command.detail_sections(detail), *events_command.list_sections(found)]
    for section in (*sections, events_command.event_text(event)):
        if isinstance(section, str):
            lines = [console.printable(section)]
        else:
            lines = console.columns(section)
        assert [line for line in lines if not line.isprintable()] == []
    assert events_command.event_text(event).isprintable()


def test_a_name_of_10_000_characters_does_not_fill_the_screen() -> None:
    """A volume group, a label or a mount point may have it; the page cuts it at the same place."""
    name = "n" * 10_000
    line = events_command.event_text(
        EventLine(at_seconds=1.0, object=f"{name} (ACME)", text=f"{name} fails, as {name} does")
    )
    assert line.count("n" * 256) == 3
    assert "n" * 257 not in line
    assert line.count("... (9744 more characters)") == 3
    assert "fails, as" in line
