"""What an administrator installs: unit, catalog, pins, scripts, system packages."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from iowarden.daemon import journal

TOP = Path(__file__).resolve().parent.parent
UNIT = TOP / "systemd/iowarden.service"
ANALYZE = shutil.which("systemd-analyze")


def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A finished program with all it said."""
    return subprocess.run(
        arguments,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C", **environment},
    )


@pytest.mark.skipif(ANALYZE is None, reason="no systemd-analyze here")
def test_the_unit_exposes_little() -> None:
    """systemd's own score, 0 to 10, is at most 2.0."""
    done = run("systemd-analyze", "security", "--offline=true", "--threshold=20", UNIT)
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(ANALYZE is None, reason="no systemd-analyze here")
def test_the_unit_has_no_unknown_word(tmp_path: Path) -> None:
    """systemd reads the unit without a complaint; only the program is one that is there."""
    unit = tmp_path / "iowarden.service"
    text, count = re.subn(r"/usr/lib/iowarden/bin/\w+", "/usr/bin/true", UNIT.read_text())
    assert count == 1
    unit.write_text(text)
    done = run("systemd-analyze", "verify", "--man=no", unit)
    assert (done.returncode, done.stderr) == (0, "")
    unit.write_text(text.replace("ProtectClock", "ProtectCluck"))
    assert "ProtectCluck" in run("systemd-analyze", "verify", "--man=no", unit).stderr


def test_the_unit_keeps_what_the_program_reads() -> None:
    """Settings that would raise the score and hide '/proc/diskstats', processes or mounts."""
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(UNIT)
    service = unit["Service"]
    assert "ProcSubset" not in service
    assert service["ProtectProc"] == "default"
    assert service["ProtectHome"] == "read-only"
    assert not [name for name in service if name.startswith("IPAddress")]
    assert service["LimitMEMLOCK"] == "infinity"
    assert service["ExecReload"] == "/bin/kill -HUP $MAINPID"


def test_every_message_has_its_entry_in_the_catalog() -> None:
    """'journalctl -x' explains each kind of message, once, and no kind that is gone."""
    entries = re.findall(
        r"^-- (\w+)\nSubject: .+\nDefined-By: iowarden\n\n\S",
        (TOP / "systemd/iowarden.catalog").read_text(),
        re.MULTILINE,
    )
    kinds = [kind for kind in vars(journal).values() if isinstance(kind, journal.Kind)]
    assert sorted(entries) == sorted(kind.message_id for kind in kinds)


@pytest.mark.skipif(shutil.which("journalctl") is None, reason="no journalctl here")
def test_systemd_takes_the_catalog(tmp_path: Path) -> None:
    """journalctl compiles the file into a data base without a complaint."""
    directory = tmp_path / "usr/lib/systemd/catalog"
    directory.mkdir(parents=True)
    shutil.copy(TOP / "systemd/iowarden.catalog", directory)
    done = run("journalctl", f"--root={tmp_path}", "--update-catalog")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "var/lib/systemd/catalog/database").stat().st_size > 0


@pytest.mark.skipif(shutil.which("systemd-sysusers") is None, reason="no systemd-sysusers here")
def test_systemd_takes_the_user(tmp_path: Path) -> None:
    """A machine without it gets a user with a home that is its state, and no shell."""
    (tmp_path / "etc").mkdir()
    config = TOP / "systemd/iowarden.sysusers"
    done = run("systemd-sysusers", f"--root={tmp_path}", config)
    assert done.returncode == 0, done.stderr
    (user,) = (tmp_path / "etc/passwd").read_text().splitlines()
    assert re.fullmatch(r"iowarden:x?:\d+:\d+:.*:/var/lib/iowarden:.*/nologin", user)


@pytest.mark.parametrize("name", ["requirements-build", "requirements", "requirements-dev"])
def test_every_requirement_is_pinned_by_hash(name: str) -> None:
    """What is installed was chosen; the file names no index, so that each site uses its own."""
    text = (TOP / f"packaging/{name}.txt").read_text()
    lines = text.replace("\\\n", "").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert pins
    assert [
        pin for pin in pins if not re.match(r"\S+==\S+ .*--hash=sha256:[0-9a-f]{64}", pin)
    ] == []
    assert "://" not in text
    wanted = (TOP / f"packaging/{name}.in").read_text().lower().splitlines()
    named = {pin.partition("==")[0] for pin in pins}
    assert {line for line in wanted if line[:1].isalpha()} <= named


def test_the_pins_serve_what_setup_asks() -> None:
    """Each import that setup.cfg declares is pinned for the installation, and nothing else is."""
    setup = configparser.ConfigParser()
    setup.read(TOP / "setup.cfg")
    asked = {
        line.split()[0].lower() for line in setup["options"]["install_requires"].splitlines()[1:]
    }
    pinned = re.findall(r"^(\S+)==", (TOP / "packaging/requirements.txt").read_text(), re.MULTILINE)
    assert set(pinned) == asked


def test_the_table_of_system_packages_reads_well() -> None:
    """Each line has a section that a command asks for, a package, and a reason to tell."""
    rows = [
        line.split(maxsplit=2)
        for line in (TOP / "packaging/system-packages.txt").read_text().splitlines()
        if not line.startswith("#")
    ]
    assert {row[0] for row in rows} == {"run", "test", "vm"}
    assert [row for row in rows if len(row) != 3] == []
    assert len({row[1] for row in rows}) == len(rows)


@pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="not a Debian")
def test_what_is_installed_is_not_installed_again() -> None:
    """On this machine, where the environment was built, nothing of section 'run' is announced."""
    done = run(TOP / "packaging/install-system-packages", "run")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="not a Debian")
def test_a_user_is_told_the_command_that_installs() -> None:
    """Not root, a package missing: which and why, the one command to run, and nothing done."""
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        script = shutil.copy(TOP / "packaging/install-system-packages", directory)
        table = Path(directory, "system-packages.txt")
        table.write_text("run  no-such-package  a reason to have it\nvm  no-other  none\n")
        done = run(*(nobody if os.geteuid() == 0 else ()), script, "run")
    assert done.returncode == 1
    assert "no-such-package  a reason to have it" in done.stdout
    assert "no-other" not in done.stdout
    assert 'sudo make system-packages SECTIONS="run"' in done.stderr


def test_every_script_stops_at_the_first_failure() -> None:
    """Any POSIX shell reads it, and none goes on after a command failed."""
    scripts = [path for path in (TOP / "packaging").iterdir() if os.access(path, os.X_OK)]
    scripts = [path for path in [*scripts, TOP / ".ci/run"] if path.is_file()]
    assert len(scripts) >= 5
    for path in scripts:
        text = path.read_text()
        assert text.startswith("#!/bin/sh\n"), path
        assert "\nset -eu\n" in text, path
        assert run("sh", "-n", path).returncode == 0, path
