"""From sample to mail nothing is imported and no file is opened: the disk with both may hang."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.recordings import open_fixture

SCRIPT = """
import dataclasses, os, sys, pathlib
sys.path.insert(0, sys.argv[3])
from support.host import Host, shipped_rules
from iowarden.collectors import registry
from iowarden.collectors.source import collect
from iowarden.collectors.machine import Machine
from iowarden.collectors.recording.player import RecordingPlayer
from iowarden.daemon.cli import run_command
from iowarden.daemon.notify.message import render
from iowarden.daemon.receivers import dry_run
from iowarden.rules.notices import report

directory = pathlib.Path(sys.argv[2])
directory.mkdir()
dry_run.dry_run("host", "iowarden@host", ("ops@example.com",), 0.0)
player = RecordingPlayer(sys.argv[1], str(directory))
host = Host(Machine(str(directory)))
rules = shipped_rules()
modules = set(sys.modules)
opened = []
ours = (str(directory), sys.argv[1])


def watch(event, arguments):
    if event == "open" and not os.fsdecode(arguments[0]).startswith(ours):
        opened.append(arguments[0])


frame = player.advance()
host.tick(frame.monotonic_seconds, frame.realtime_seconds)
sys.addaudithook(watch)
mails = 0
while (frame := player.advance()) is not None:
    now = frame.realtime_seconds
    host.tick(frame.monotonic_seconds, now)
    while mails < len(host.mails):
        notice = report.notice(host.mails[mails].due, report.Sources(lambda at: at, now))
        render(notice, "host", "iowarden@host", ("ops@example.com",)).as_bytes()
        mails += 1
broken = dataclasses.replace(registry.SOURCES[0], read=lambda root: 1 / 0)
reading = collect(broken, host.root, lambda: 0.0)
assert "ZeroDivisionError" in reading.error, reading
print(mails, sorted(set(sys.modules) - modules), opened)
"""


def test_the_alert_path_imports_nothing_and_opens_no_file(tmp_path: Path) -> None:
    """After the dry run: a complete stall, and a bug of ours, handled from memory."""
    recording = open_fixture("write-stall", tmp_path)
    tests = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, recording, str(tmp_path / "root"), tests],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "1 [] []"
