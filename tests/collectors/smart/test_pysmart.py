"""pySMART parses smartctl's output, and leaves this process unchanged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from iowarden.collectors.smart.drive import Drive
from iowarden.collectors.smart.smartctl import parse

FIXTURES = Path(__file__).parents[2] / "fixtures" / "smartctl"
LOOK = """
import json, logging, os, subprocess, sys
subprocess.Popen = os.execve = os.posix_spawn = None
from iowarden.collectors.smart.smartctl import parse
before = sorted(name for name in sys.modules if name.startswith(("pySMART", "chardet")))
found = [parse(open(path).read()) for path in sys.argv[1:]]
loggers = type(logging.getLogger("made later")).__name__
guessers = [name for name in sys.modules if name.startswith(("chardet", "humanfriendly"))]
messages = [each.messages for each in found]
loaded = "pySMART" in sys.modules
print(json.dumps([before, loggers, os.environ["LANG"], guessers, messages, loaded]))
"""


def test_importing_pysmart_changes_nothing_and_runs_nothing() -> None:
    """It would set the class of loggers and the locale, guess encodings, run smartctl."""
    paths = [str(FIXTURES / f"{name}.json") for name in ("ata", "sas", "nvme")]
    done = subprocess.run(
        (sys.executable, "-c", LOOK, *paths),
        env=os.environ | {"LANG": "de_DE.UTF-8"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stderr == ""
    assert json.loads(done.stdout) == [[], "Logger", "de_DE.UTF-8", [], [[], [], []], True]


def test_pysmart_reads_the_text_of_nvme_and_scsi_drives_as_well() -> None:
    """One number changed in the text of each: pySMART finds the difference to the JSON."""
    for name, old, new, field in (
        ("nvme", "Integrity Errors:    7", "Integrity Errors:    8", "media errors"),
        (
            "sas",
            "Elements in grown defect list: 195",
            "Elements in grown defect list: 196",
            "grown",
        ),
    ):
        text = (FIXTURES / f"{name}.json").read_text()
        assert old in text
        found = parse(text.replace(old, new))
        assert isinstance(found, Drive)
        assert found.disagreements == 1
        assert field in found.messages[0]
