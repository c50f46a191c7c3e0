"""`iowarden replay`: replays recordings; alerts, incidents and mails are as of the service."""

from __future__ import annotations

import email
import email.policy
import json
import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from support.everything import PLACEHOLDERS, steps_of
from support.first_screen import missing
from support.golden import GOLDEN as GOLDEN_TEXTS
from support.golden import uncounted
from support.incidents import frozen_database_server
from support.program import Feed, then_idle
from support.recordings import (
    FIXTURES,
    STALL,
    corpus,
    open_fixture,
    stall_from_corpus,
    steps,
    write_recording,
)

from iowarden.collectors.recording.recorder import Recorder
from iowarden.collectors.recording.recording import Recording, RecordingError
from iowarden.daemon.cli.main import main
from iowarden.daemon.replay.expectation import ExpectationError, ReplayEvent, differences, parse
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from pathlib import Path

    from support.golden import Golden

    Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("name", "mails"),
    [("busy-day", 0), ("healthy-copy", 0), ("hung-disk", 2), ("idle", 0), ("write-stall", 1)],
)
def test_a_recorded_machine_reports_what_it_reported(
    name: str, mails: int, tmp_path: Path, capsys: Captured, golden: Golden
) -> None:
    """Healthy work has no mail, a healthy day not even a warning; what mails advise can be done."""
    assert main(["replay", str(FIXTURES / f"{name}.tar.xz"), "--mails", str(tmp_path)]) == 0
    printed = capsys.readouterr().out.replace(str(tmp_path), "MAILS")
    sent = [path.read_bytes() for path in sorted(tmp_path.glob("*.eml"))]
    assert len(sent) == mails
    held(sent)
    if name == "busy-day":
        assert not re.search(r"^ *\S+  (?:warning|critical) ", printed, re.MULTILINE)
    golden(GOLDEN_TEXTS / "replay" / f"{name}.txt", uncounted(printed))
    for number, mail in enumerate(sent, 1):
        message = email.message_from_bytes(mail, policy=email.policy.default)
        html = message.get_body(("html",))
        assert html is not None
        page = "\n".join(html.get_content().splitlines()) + "\n"
        golden(GOLDEN_TEXTS / "replay" / f"{name}-{number}.html", page)


def held(sent_mails: list[bytes]) -> None:
    """Check the mails of a machine with virtual disks and without md."""
    for mail in sent_mails:
        hung = b"Subject: [WARNING] recorded-machine: sdc" in mail or b"sdc: ESCALATED" in mail
        assert missing(mail, "sdc (ACME VIRTUAL-DISK, serial sick)" if hung else "") == []
    texts = [steps_of(mail) for mail in sent_mails]
    for text in texts:
        assert re.match(r"Programs that (read or )?write .*\.\n\nWHAT TO DO\n", text, re.DOTALL)
        assert PLACEHOLDERS.findall(text) == []
        assert not re.search(r"mdadm|mdstat|sync_action|scterc|smartctl -", text)


def test_the_write_stall_of_the_corpus_is_one_incident(tmp_path: Path, capsys: Captured) -> None:
    """700 MB for a disk that writes 2 MB/s, then idle: one incident, one mail, and its end."""
    stall = Recording(stall_from_corpus(corpus(STALL), tmp_path / "stall"))
    feed = Feed(then_idle(iter(stall.next, None), 720.0), tmp_path / "recorded")
    feed.give()
    expected = tmp_path / "expected.yaml"
    expected.write_text(
        "least: warning\n"
        "alerts:\n"
        "  - {at: 22s, alert: WriteStall, state: firing,"
        " text: '703 MiB.*: 5 min 51 s to write it'}\n"
        "  - {at: 2m30s, alert: WriteStall, state: resolved}\n"
        "incidents: [{at: 22s, severity: warning, state: opened}]\n"
        "mails:\n"
        "  - {at: 1m22s, subject: writes stalled, text: ['; 703 MiB at', 'speed, sda: ']}\n"
        "  - {at: 2m30s, subject: 'OK. .* was: writes stalled'}\n"
    )
    status = main(["replay", feed.packed(), "--expect", str(expected)])
    assert status == 0, capsys.readouterr().out


PROGRAM = "import sys; from iowarden.daemon.cli.main import main; sys.exit(main())"
GOLDEN = """
groups:
  - name: golden
    interval: 1s
    rules:
      - alert: Queued
        expr: iowarden_writeback_queued_bytes == 3237432 * 1024
      - alert: Threshold
        expr: iowarden_writeback_threshold_bytes == 3269816 * 1024
      - alert: Fraction
        expr: >-
          round(iowarden_writeback_queued_bytes / iowarden_writeback_threshold_bytes, 0.0001)
          == 0.9901
      - alert: Drain
        expr: abs(iowarden_writeback_drain_seconds - 42.3) < 0.06
"""
FROZEN_SERVER = r"""
least: info
alerts:
  - {at: 0s, alert: DirtyRatioTooLarge, severity: info, text: is 40 %}
  - {at: 0s, alert: Queued, state: firing}
  - {at: 0s, alert: Threshold, state: firing}
  - {at: 0s, alert: Fraction, state: firing}
  - {at: 10s, alert: WriteThrottle, severity: info, state: firing}
  - {at: 10s, alert: Drain, state: firing}
  - {at: 30s, alert: DirtyLimitTooLarge, severity: info, text: sda\+sdb would need 42.8 s}
  - {at: 1m, alert: Drain, state: resolved}
  - {at: 1m6s, alert: WriteStall, severity: warning, state: firing}
  - {at: 1m9s, alert: DeviceHang, severity: warning, text: 4 requests in flight}
  - {at: 1m23s, alert: Queued, state: resolved}
  - {at: 1m23s, alert: Fraction, state: resolved}
  - {at: 2m21s, alert: DeviceHang, state: resolved}
  - {at: 2m24s, alert: WriteStall, state: resolved}
  - {at: 2m29s, alert: WriteThrottle, state: resolved}
incidents:
  - {at: 1m6s, severity: warning, state: opened}
  - {at: 1m9s, severity: warning, state: merged}
mails:
  - at: 1m9s
    subject: 'sda: no request completed for 10 s$'
    text: ['serial HI-da', 'queued: 3.1 GiB of 3.1 GiB allowed']
  - {at: 2m24s, subject: 'OK. recorded-machine: sda: resolved after'}
"""


def test_the_incident_of_the_database_server_is_one_with_its_golden_numbers(
    tmp_path: Path, capsys: Captured
) -> None:
    """By hand: 3.2 GB queued, 99 % of the limit, 42.3 s to drain, then one disk of two hangs."""
    rules, expected = tmp_path / "golden.yaml", tmp_path / "expected.yaml"
    quiet = "labels: {severity: info}"
    rules.write_text(re.sub(r"(- alert: \w+)", rf"\1\n        {quiet}", GOLDEN))
    expected.write_text(FROZEN_SERVER)
    feed = Feed(steps(frozen_database_server()), tmp_path / "played")
    feed.give()
    told = ["--expect", str(expected), "--mails", str(tmp_path / "mails")]
    status = main(["replay", feed.packed(), "--rules", str(rules), *told])
    assert status == 0, capsys.readouterr().out
    for path in (tmp_path / "mails").iterdir():
        assert PLACEHOLDERS.findall(steps_of(path.read_bytes())) == []


def test_nothing_is_resolved_while_a_disk_goes_on_hanging(capsys: Captured) -> None:
    """A notice that became a warning is not over: 'journalctl IOWARDEN_STATE=resolved' is read."""
    assert main(["replay", str(FIXTURES / "hung-disk.tar.xz")]) == 0
    printed = capsys.readouterr().out
    assert "critical DeviceHang sdc firing" in printed
    assert "DeviceHang sdc resolved" not in printed


def test_what_differs_is_shown_from_both_sides(tmp_path: Path, capsys: Captured) -> None:
    """A wrong time, an unexpected mail: exit status 1, '-' and '+'."""
    expected = tmp_path / "expected.yaml"
    expected.write_text(
        "least: warning\nalerts: [{at: 2m, alert: WriteStall, state: firing}]\nmails: []\n"
    )
    stall = str(FIXTURES / "write-stall.tar.xz")
    assert main(["replay", stall, "--expect", str(expected)]) == 1
    shown = capsys.readouterr().out
    assert "- at: 2m, alert: WriteStall, state: firing\n" in shown
    assert "+ at: 32s, alert: WriteStall, severity: warning, state: firing, text: " in shown
    assert "+ at: 1m33s, subject: [WARNING] recorded-machine: writes stalled" in shown


def test_a_replay_repeats_itself(tmp_path: Path, capsys: Captured) -> None:
    """Two replays have equal output, and the mails are written on request."""
    stall, told = str(FIXTURES / "write-stall.tar.xz"), []
    for name in ("first", "mails"):
        assert main(["replay", stall, "--json", "--mails", str(tmp_path / name)]) == 0
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]
    outcome = json.loads(told[0])
    assert (outcome["frames"], len(outcome["mails"])) == (140, 1)
    kept = [
        email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
        for path in (tmp_path / "mails").iterdir()
    ]
    assert [mail["Subject"] for mail in kept] == [mail["subject"] for mail in outcome["mails"]]


def test_mails_of_another_replay_are_not_mixed_with_those_of_this_one(
    tmp_path: Path, capsys: Captured
) -> None:
    """Refused before the replay starts, and nothing is removed."""
    stall = str(FIXTURES / "write-stall.tar.xz")
    (tmp_path / "002.eml").write_text("of last week")
    assert main(["replay", stall, "--mails", str(tmp_path)]) == 1
    captured = capsys.readouterr()
    assert f"'{tmp_path}': expected no mails there yet, got '002.eml'; remove" in captured.err
    assert captured.out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["002.eml"]
    assert main(["replay", stall, "--mails", str(tmp_path / "002.eml")]) == 1
    assert "expected a directory for mails, got: " in capsys.readouterr().err


def test_a_full_disk_is_reported_where_the_timeline_should_go(tmp_path: Path) -> None:
    """`iowarden replay IN > FILE` on a full disk: an error message, not a traceback."""
    path = write_recording(tmp_path / "r", [(600.0, machine("sda"))])
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, "replay", path],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    expected = "standard output: expected to write to it, got: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, expected)


def test_rules_of_ones_own_are_tried_on_a_recorded_machine(
    tmp_path: Path, capsys: Captured
) -> None:
    """They are evaluated with the shipped rules; an alert is pending before it fires."""
    rules, expected = tmp_path / "own.yaml", tmp_path / "expected.yaml"
    rules.write_text(
        "groups:\n- name: own\n  interval: 5s\n  rules:\n  - alert: Dirty\n    for: 10s\n"
        "    expr: iowarden_writeback_queued_bytes > 500e6\n    labels: {severity: critical}\n"
    )
    expected.write_text(
        "least: critical\nalerts:\n"
        "  - {at: 20s..40s, alert: Dirty, state: pending}\n"
        "  - {at: 30s..50s, alert: Dirty, severity: critical, state: firing}\n"
        "  - {at: 1m..2m20s, alert: Dirty, state: resolved}\n"
    )
    stall = str(FIXTURES / "write-stall.tar.xz")
    status = main(["replay", stall, "--rules", str(rules), "--expect", str(expected)])
    assert status == 0, capsys.readouterr().out


def test_a_recording_that_is_cut_off_is_reported_up_to_there(
    tmp_path: Path, capsys: Captured
) -> None:
    """The gap is reported; the data before it is replayed."""
    stall = open_fixture("write-stall", tmp_path)
    shutil.rmtree(f"{stall}/000040")
    assert main(["replay", stall]) == 78
    captured = capsys.readouterr()
    assert "WriteStall firing" in captured.out
    assert "replayed 40 frames, 39s" in captured.out
    assert "000040/clock': expected every frame up to the last, got a gap" in captured.err


def test_nothing_that_plays_is_refused(tmp_path: Path, capsys: Captured) -> None:
    """No recording, or one without frames: an error, with exit status 78."""
    assert main(["replay", str(tmp_path / "none")]) == 78
    error = capsys.readouterr().err
    assert "expected a recording's header, got: No such file" in error
    assert error.endswith("; name a directory or archive of 'iowarden record'\n")
    Recorder(str(tmp_path / "empty"), 4096)
    assert main(["replay", str(tmp_path / "empty")]) == 78
    assert "'000000': expected a complete frame, got none" in capsys.readouterr().err


DISK = {"size": "1953525168\n", "dev": "8:0\n", "device/model": "SIMULATED\n", "slaves": None}


def machine(*names: str) -> dict[str, str | bytes | None]:
    """Return the files of a machine with these disks."""
    files: dict[str, str | bytes | None] = {
        f"/sys/block/{name}/{key}": text for name in names for key, text in DISK.items()
    }
    lines = "".join(f"8 {n * 16} {d} 9 0 72 5 0 0 0 0 0 5 5\n" for n, d in enumerate(names))
    return files | {"/proc/diskstats": lines}


@pytest.mark.parametrize(("uevents", "at"), [("remove sdb -\n", "5s"), ("", "1m")])
def test_a_disk_that_was_announced_to_be_gone_is_gone_at_once(
    uevents: str, at: str, tmp_path: Path, capsys: Captured
) -> None:
    """The disk is found at once by its uevent; without it, at the next poll after a minute."""
    frames: list[tuple[float, dict[str, str | bytes | None]]] = [
        (600.0 + second, {}) for second in range(70)
    ]
    frames[0] = (600.0, machine("sda", "sdb"))
    frames[5] = (605.0, {"/.uevents": uevents} if uevents else {})
    path = write_recording(tmp_path / "r", frames)
    (tmp_path / "r/000005/gone").write_text("/sys/block/sdb\n")
    assert main(["replay", path]) == 0
    lines = capsys.readouterr().out.splitlines()
    gone = next(line.split() for line in lines if "device sdb" in line)
    assert gone[0] == at


def test_an_announcement_that_is_none_names_the_frame(tmp_path: Path, capsys: Captured) -> None:
    """Typing errors in the file."""
    frames = [(600.0, machine("sda")), (601.0, {"/.uevents": "gone\n"})]
    assert main(["replay", write_recording(tmp_path / "r", frames)]) == 78
    assert "frame 000001: '.uevents': expected '<action> <device>" in capsys.readouterr().err


# --- expectations


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected alerts or incidents or mails, got nothing"),
        ("alerts: [", "not YAML"),
        ("- a", "1:1: expected keys of least, alerts, incidents, mails, got 'a list or keys'"),
        ("alert: []", "1:1: expected one of least, alerts, incidents, mails, each once, got"),
        ("mails: []\nmails: []", "2:1: expected one of"),
        ("alerts: 5", "1:9: expected a list, got '5'"),
        (
            "alerts: [{at: soon}]",
            "1:15: expected a time such as 43s, or a range such as 40s..1m, got 'soon'",
        ),
        ("alerts: [{text: '('}]", r"1:17: expected a regular expression \(.*\), got '\('"),
        ("alerts: [{state: [a]}]", "1:18: expected text, got"),
        ("least: bad", "1:8: expected one of info, notice, warning, critical, got 'bad'"),
        ("alerts: [{severity: urgent}]", "1:21: expected one of info, notice, warning, critical"),
        ("alerts: [{state: fireing}]", "1:18: expected one of firing, inactive, pending"),
        ("mails: [{state: firing}]", "1:10: expected one of at, subject, text, each once, got 's"),
        ("alerts: [{subject: full}]", "1:11: expected one of at, alert, device, severity, state"),
        ("incidents: [{device: sda}]", "1:14: expected one of at, severity, state, text"),
        ("incidents: [{state: firing}]", "1:21: expected one of .*opened.* got 'firing'"),
        ("alerts: [{state: opened}]", "1:18: expected one of .*firing.* got 'opened'"),
        ("alerts: [{}]", "1:10: expected at least one of at, alert, device"),
        ("alerts: [{at: 9s..3s}]", "1:15: expected a time such as 43s, or a range"),
        ("[" * 5000, "1:65: expected at most 64 levels"),
    ],
)
def test_an_expectation_that_says_nothing_is_refused_by_its_line(text: str, message: str) -> None:
    """A misread file would be a test that cannot fail."""
    with pytest.raises(ExpectationError, match=message):
        parse(text, "e.yaml")


def test_an_expectation_that_cannot_be_read_is_reported(tmp_path: Path, capsys: Captured) -> None:
    """Refused before the replay starts."""
    stall = str(FIXTURES / "write-stall.tar.xz")
    (tmp_path / "binary").write_bytes(b"alerts:\n\xd0\x00\xff")
    for name, problem in (
        ("none", "expected a readable file, got: No such file or directory; name another one\n"),
        (
            "binary",
            "expected text in UTF-8, got other data (invalid continuation byte at byte 8); ",
        ),
    ):
        assert main(["replay", stall, "--expect", str(tmp_path / name)]) == 78
        captured = capsys.readouterr()
        assert captured.err.startswith(f"'{tmp_path}/{name}': {problem}")
        assert captured.out == ""


NOBODY = 65534
"""A user who owns nothing."""


def test_a_recording_of_somebody_else_needs_root() -> None:
    """The error was about a name, as if there were no recording."""
    own = os.geteuid()
    if not own:
        os.seteuid(NOBODY)
    try:
        with pytest.raises(RecordingError, match="got: Permission denied; read it as root"):
            Recording("/etc/shadow")
    finally:
        os.seteuid(own)


def told(at: float, severity: str, **fields: str) -> ReplayEvent:
    """Return an alert of the timeline."""
    return ReplayEvent("alerts", at, Severity[severity.upper()], fields, str(fields))


def test_pending_alerts_count_only_where_one_is_expected() -> None:
    """Most pending alerts never fire."""
    happened = [told(1, "warning", state="pending"), told(2, "warning", state="firing")]
    assert differences(parse("alerts: [{state: firing}]", "e"), happened) == []
    assert differences(parse("alerts: [{state: pending}, {state: firing}]", "e"), happened) == []
    assert differences(parse("alerts: [{state: pending}]", "e"), happened) != []


def test_order_and_time_are_part_of_an_expectation() -> None:
    """One second early or late matches; two seconds or another order do not."""
    happened = [told(10, "warning", alert="A"), told(20, "notice", alert="B")]
    for text, good in (
        ("alerts: [{at: 11s, alert: A}, {at: 19s, alert: B}]", True),
        ("alerts: [{at: 12s, alert: A}, {alert: B}]", False),
        ("alerts: [{at: 5s..12s, alert: A}, {alert: B}]", True),
        ("alerts: [{alert: B}, {alert: A}]", False),
        ("{least: warning, alerts: [{alert: A}]}", True),
        ("alerts: []", False),
        ("mails: []", True),
    ):
        assert (differences(parse(text, "e"), happened) == []) is good, text
