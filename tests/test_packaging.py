"""What an administrator installs: unit, catalog, pins, scripts, system packages."""

from __future__ import annotations

import configparser
import importlib.metadata
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from iowarden.daemon import journal
from iowarden.daemon.control import roles
from iowarden.daemon.probe import capabilities

TOP = Path(__file__).resolve().parent.parent
UNITS = TOP / "systemd"
ANALYZE = shutil.which("systemd-analyze")

PACKAGED = journal.__file__.startswith("/usr/lib/")
"""Whether the Debian package is tested, and not a checkout."""

EXPOSURE = {
    "iowarden.service": 1.9,
    "iowarden-probe.service": 3.6,
    "iowarden-trace@.service": 1.7,
    "iowarden-failure.service": 5.0,
}
"""What each unit has reached."""


def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A finished program with all it said."""
    return subprocess.run(
        arguments,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C", **environment},
    )


def settings(name: str) -> dict[str, list[str]]:
    """All assignments of a unit, whatever their section, in their order."""
    found: dict[str, list[str]] = {}
    for line in (UNITS / name).read_text().splitlines():
        word, separator, value = line.partition("=")
        if separator and not line.startswith("#"):
            found.setdefault(word, []).append(value)
    return found


@pytest.mark.skipif(ANALYZE is None, reason="no systemd-analyze here")
@pytest.mark.parametrize(("name", "most"), EXPOSURE.items())
def test_a_unit_exposes_no_more_than_it_did(name: str, most: float) -> None:
    """systemd's own score, 0 to 10; the limits are 2.0, and 4.0 for what runs as root."""
    threshold = f"--threshold={round(most * 10)}"
    done = run("systemd-analyze", "security", "--offline=true", threshold, UNITS / name)
    assert done.returncode == 0, done.stdout


@pytest.mark.skipif(ANALYZE is None, reason="no systemd-analyze here")
def test_no_unit_has_an_unknown_word(tmp_path: Path) -> None:
    """systemd reads all units without a complaint; only the programs are one that is there."""
    units = [path for path in UNITS.iterdir() if path.suffix in {".service", ".socket"}]
    for unit in units:
        text = re.sub(r"/usr/lib/iowarden/bin/\w+", "/usr/bin/true", unit.read_text())
        (tmp_path / unit.name).write_text(text)
    copies = [tmp_path / unit.name for unit in units]
    assert len(copies) == 7
    done = run("systemd-analyze", "verify", "--man=no", *copies)
    assert (done.returncode, done.stderr) == (0, "")
    for name, word in {
        "iowarden.service": "ProtectClock",
        "iowarden-probe.socket": "Backlog",
    }.items():
        unit = tmp_path / name
        unit.write_text(unit.read_text().replace(word, "Cluck"))
        assert "Cluck" in run("systemd-analyze", "verify", "--man=no", *copies).stderr


def test_the_unit_keeps_what_the_program_reads() -> None:
    """Settings that would raise the score and hide '/proc/diskstats', processes or mounts."""
    service = settings("iowarden.service")
    assert "ProcSubset" not in service
    assert service["ProtectProc"] == ["default"]
    assert service["ProtectHome"] == ["read-only"]
    assert not [name for name in service if name.startswith("IPAddress")]
    assert service["LimitMEMLOCK"] == ["infinity"]
    assert service["ExecReload"] == ["/bin/sh -c 'kill -HUP ${MAINPID}'"]


def test_a_credential_that_may_be_missing_has_a_value_to_fall_back_on() -> None:
    """Some systemd logs "Couldn't read inherited credential" at each start without one."""
    service = settings("iowarden.service")
    fallbacks = [value.partition(":") for value in service["SetCredential"]]
    assert [name for name, _, _ in fallbacks] == service["LoadCredential"]
    assert {value for _, _, value in fallbacks} == {r"\n"}, "systemd ignores an empty one"


def test_the_probe_has_what_disks_need_and_no_network() -> None:
    """Nine capabilities, programs of 32 bits, kernel messages; a hung root disk keeps it from none.

    ProtectSystem=strict and ProtectHome= would have its start wait for a server that is dead.
    """
    service = settings("iowarden-probe.service")
    assert set(" ".join(service["CapabilityBoundingSet"]).split()) == {
        "CAP_SYS_RAWIO",
        "CAP_SYS_ADMIN",
        "CAP_MKNOD",
        "CAP_DAC_READ_SEARCH",
        "CAP_SYS_PTRACE",
        "CAP_SYSLOG",
        "CAP_SETUID",
        "CAP_SETGID",
        "CAP_KILL",
    }
    assert service["PrivateNetwork"] == ["yes"]
    assert service["RestrictAddressFamilies"] == ["AF_UNIX"]
    assert service["SystemCallArchitectures"] == ["native x86"]
    assert service["ProtectSystem"] == ["full"]
    assert {"PrivateDevices", "ProtectHome", "ProtectKernelLogs"}.isdisjoint(service)
    assert service["OOMPolicy"] == ["continue"]


def test_a_trace_has_no_capability_and_writes_only_to_tracefs() -> None:
    """Root owns tracefs. ProtectKernelTunables=, as the probe has it, would make it read-only."""
    service = settings("iowarden-trace@.service")
    assert service["CapabilityBoundingSet"] == [""]
    assert (service["ReadOnlyPaths"], service["ReadWritePaths"]) == (
        ["/sys /proc"],
        ["-/sys/kernel/tracing"],
    )
    assert (service["PrivateDevices"], service["PrivateNetwork"]) == (["yes"], ["yes"])
    assert {"ProtectKernelTunables", "ProtectHome"}.isdisjoint(service)
    assert service["RuntimeMaxSec"] == ["75"]
    assert settings("iowarden-trace.socket")["Accept"] == ["yes"]


@pytest.mark.parametrize("name", EXPOSURE)
def test_no_start_has_systemd_write_to_a_disk(name: str) -> None:
    """PrivateTmp= has process 1 make directories, and hang with the disk they are on."""
    service = settings(name)
    assert "PrivateTmp" not in service
    assert service["TemporaryFileSystem"] == ["/tmp:mode=1777 /var/tmp:mode=1777"]


def test_no_stranger_reaches_a_socket() -> None:
    """The probe's is for service and root; the service judges its clients by their groups."""
    probe, control = settings("iowarden-probe.socket"), settings("iowarden-control.socket")
    names = ("ListenStream", "SocketUser", "SocketGroup", "SocketMode")
    assert [probe[name] for name in names] == [
        ["/run/iowarden-probe.socket"],
        ["iowarden"],
        ["root"],
        ["0600"],
    ]
    assert [control[name] for name in names] == [
        ["/run/iowarden/control.sock"],
        ["root"],
        ["root"],
        ["0666"],
    ]
    traces = settings("iowarden-trace.socket")
    assert [traces[name] for name in names] == [
        ["/run/iowarden-trace.socket"],
        [roles.SERVICE_GROUP],
        [roles.OPERATOR_GROUP],
        ["0660"],
    ]
    # Made for the service, the directory would be its own, with the right to replace the socket.
    assert "RuntimeDirectory" not in settings("iowarden.service")


def test_the_groups_of_the_roles_are_created_and_own_no_file(tmp_path: Path) -> None:
    """Users and groups are four; what a role may read goes through the socket."""
    sysusers = (TOP / "systemd/iowarden.sysusers").read_text()
    assert re.findall(r"^([ug]) (\S+)", sysusers, re.MULTILINE) == [
        ("u", roles.SERVICE_GROUP),
        ("u", capabilities.READER),
        ("g", roles.VIEWER_GROUP),
        ("g", roles.OPERATOR_GROUP),
    ]
    for script in ("install", "uninstall"):
        text = (TOP / "packaging" / script).read_text()
        for group in (roles.VIEWER_GROUP, roles.OPERATOR_GROUP):
            assert (group in text) == (script == "install"), "they stay, as after 'apt purge'"
            assert not re.search(rf"(-g|chgrp|chown) \S*{group}", text), script
    if shutil.which("systemd-sysusers") is None:
        pytest.skip("no systemd-sysusers here")
    (tmp_path / "etc").mkdir()
    done = run("systemd-sysusers", f"--root={tmp_path}", UNITS / "iowarden.sysusers")
    assert (done.returncode, done.stderr.count("rror")) == (0, 0)
    made = {line.split(":")[0] for line in (tmp_path / "etc/group").read_text().splitlines()}
    assert {roles.SERVICE_GROUP, roles.VIEWER_GROUP, roles.OPERATOR_GROUP} <= made


def test_what_is_stopped_is_not_started_by_a_question() -> None:
    """Whoever stops the watchdog stops its sockets and its probe; none is started by itself."""
    service, control = settings("iowarden.service"), settings("iowarden-control.socket")
    probe, asked = settings("iowarden-probe.service"), settings("iowarden-probe.socket")
    assert control["StopPropagatedFrom"] == ["iowarden.service"]
    traces = settings("iowarden-trace.socket")
    assert service["Wants"] == ["iowarden-probe.socket iowarden-trace.socket"]
    assert asked["StopWhenUnneeded"] == traces["StopWhenUnneeded"] == ["yes"]
    assert probe["PartOf"] == ["iowarden-probe.socket"]
    for unit in (control, probe, asked, traces):
        assert "WantedBy" not in unit


def test_a_restart_of_the_watchdog_leaves_its_probe_alone() -> None:
    """To systemd from 256 on a restart is a stop, too, to whatever stops with the watchdog."""
    for name in ("iowarden-probe.socket", "iowarden-probe.service", "iowarden-trace.socket"):
        unit = settings(name)
        assert "StopPropagatedFrom" not in unit, name
        assert "iowarden.service" not in unit.get("PartOf", []), name
    assert "Requires" not in settings("iowarden-probe.service")


def test_every_unit_is_installed_and_removed() -> None:
    """Both scripts name each unit there is."""
    units = [path.name for path in UNITS.iterdir() if path.suffix in {".service", ".socket"}]
    for script in ("install", "uninstall"):
        text = (TOP / "packaging" / script).read_text()
        assert [name for name in units if not re.search(rf"[/ ]{name}\b", text)] == [], script


def test_purge_and_uninstall_leave_the_same_behind() -> None:
    """No file of the host, and no unit that failed: 'systemctl --failed' listed it for ever."""
    texts = [
        (TOP / "packaging" / name).read_text() for name in ("uninstall", "debian/iowarden.postrm")
    ]
    removed = [
        {
            path.strip('"')
            for line in re.findall(r"^ *rm -r?f (.+)$", text, re.MULTILINE)
            for path in line.split()
        }
        for text in texts
    ]
    by_make, by_package = ({p.removeprefix("$destination") for p in paths} for paths in removed)
    assert len(by_package) == 8
    assert by_package <= by_make
    assert all("systemctl reset-failed 'iowarden*'" in text for text in texts)


def test_every_message_has_its_entry_in_the_catalog() -> None:
    """'journalctl -x' explains each kind of message, once, and no kind that is gone."""
    entries = re.findall(
        r"^-- (\w+)\nSubject: .+\nDefined-By: iowarden\n\n\S",
        (TOP / "systemd/iowarden.catalog").read_text(),
        re.MULTILINE,
    )
    kinds = [kind for kind in vars(journal).values() if isinstance(kind, journal.MessageKind)]
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
    listed = run("journalctl", f"--root={tmp_path}", "--list-catalog").stdout
    subjects = dict(re.findall(r"^(\w{32}) iowarden: (.+)$", listed, re.MULTILINE))
    kinds = [kind for kind in vars(journal).values() if isinstance(kind, journal.MessageKind)]
    assert [kind for kind in kinds if kind.message_id not in subjects] == []


def test_the_catalog_refers_to_fields_that_entries_have() -> None:
    """'journalctl -x' would leave '@IOWARDEN_...@' in the text of any other."""
    code = "".join(path.read_text() for path in (TOP / "daemon").rglob("*.py"))
    named = re.findall(r"@(IOWARDEN_\w+)@", (TOP / "systemd/iowarden.catalog").read_text())
    assert named
    assert [name for name in named if f"{name}=" not in code] == []


def test_every_kind_of_message_is_sent() -> None:
    """An explanation of what is never logged is of no use."""
    code = "".join(path.read_text() for path in (TOP / "daemon").rglob("*.py"))
    names = [name for name, kind in vars(journal).items() if isinstance(kind, journal.MessageKind)]
    assert [name for name in names if len(re.findall(rf"\b{name}\b", code)) < 2] == []


@pytest.mark.skipif(shutil.which("systemd-sysusers") is None, reason="no systemd-sysusers here")
def test_systemd_takes_the_user(tmp_path: Path) -> None:
    """A machine without it gets a user with a home that is its state, and no shell."""
    (tmp_path / "etc").mkdir()
    config = TOP / "systemd/iowarden.sysusers"
    done = run("systemd-sysusers", f"--root={tmp_path}", config)
    assert done.returncode == 0, done.stderr
    lines = sorted((tmp_path / "etc/passwd").read_text().splitlines())
    reader, user = lines
    assert re.fullmatch(r"iowarden:x?:\d+:\d+:.*:/var/lib/iowarden:.*/nologin", user)
    assert re.fullmatch(r"iowarden-probe:x?:\d+:\d+:.*:/:.*/nologin", reader)


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


@pytest.mark.skipif(PACKAGED, reason="a package has no Python metadata")
def test_the_pins_serve_what_setup_asks() -> None:
    """Each import that setup.cfg declares is pinned with what it needs, and nothing else is."""
    setup = configparser.ConfigParser()
    setup.read(TOP / "setup.cfg")
    asked = {
        line.split()[0].lower() for line in setup["options"]["install_requires"].splitlines()[1:]
    }
    needed: set[str] = set()
    while asked:
        needed |= asked
        wanted = [line for name in asked for line in importlib.metadata.requires(name) or ()]
        # A marker: for an extra, another system or an older Python.
        names = {re.split(r"[^\w-]", line)[0].lower() for line in wanted if ";" not in line}
        asked = names - needed
    pinned = re.findall(r"^(\S+)==", (TOP / "packaging/requirements.txt").read_text(), re.MULTILINE)
    assert set(pinned) == needed


def test_the_table_of_system_packages_reads_well() -> None:
    """Each line has a section that a command asks for, a package, and a reason to tell."""
    rows = [
        line.split(maxsplit=2)
        for line in (TOP / "packaging/system-packages.txt").read_text().splitlines()
        if not line.startswith("#")
    ]
    sections = {"run", "test", "build", "bare", "release", "browser", "npm", "vm"}
    assert {row[0] for row in rows} == sections
    assert [row for row in rows if len(row) != 3] == []
    assert len({(row[0], row[1]) for row in rows}) == len(rows)


@pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="not a Debian")
def test_what_is_installed_is_not_installed_again() -> None:
    """On this machine, where the environment was built, nothing of section 'run' is announced."""
    done = run(TOP / "packaging/install-system-packages", "run")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("goal", ["run", "test", "wheels"])
def test_make_numbers_its_steps(tmp_path: Path, goal: str) -> None:
    """On a host without an environment: each step once, in order, the last one with the total."""
    done = run("make", "--dry-run", f"VENV={tmp_path}/venv", goal, MAKEFLAGS="")
    steps = re.findall(r'^echo "\[(\d)/(\d)\] \w', done.stdout, re.MULTILINE)
    total = steps[0][1]
    assert steps == [(str(number), total) for number in range(1, int(total) + 1)], done.stderr


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


@pytest.mark.skipif(os.geteuid() != 0, reason="a user is told the command")
@pytest.mark.parametrize("status", [0, 100])
def test_what_apt_prints_is_shown_only_when_it_fails(tmp_path: Path, status: int) -> None:
    """Forty lines of unpacking hide at which step 'make run' is; an error is never hidden."""
    script = shutil.copy(TOP / "packaging/install-system-packages", tmp_path)
    (tmp_path / "system-packages.txt").write_text("run  no-such-package  a reason to have it\n")
    apt = tmp_path / "apt-get"
    apt.write_text(f'#!/bin/sh\n[ "$1" = update ] || {{ echo "E: unpacking"; exit {status}; }}\n')
    apt.chmod(0o755)
    done = run(script, "run", PATH=f"{tmp_path}:{os.environ['PATH']}")
    assert done.returncode == (1 if status else 0)
    assert ("E: unpacking" in done.stderr, "E: unpacking" in done.stdout) == (status != 0, False)


def test_every_script_stops_at_the_first_failure() -> None:
    """Any POSIX shell reads it, and none goes on after a command failed."""
    scripts = [path for path in (TOP / "packaging").iterdir() if os.access(path, os.X_OK)]
    scripts = [path for path in [*scripts, TOP / ".ci/run"] if path.is_file()]
    # Python ends at an exception by itself.
    scripts = [path for path in scripts if not path.read_text().startswith("#!/usr/bin/env python")]
    assert len(scripts) >= 5
    for path in scripts:
        text = path.read_text()
        assert text.startswith("#!/bin/sh\n"), path
        assert "\nset -eu\n" in text, path
        assert run("sh", "-n", path).returncode == 0, path


def test_no_check_of_a_script_is_without_effect() -> None:
    """A shell does not end at a command that begins with '!', except as the last of a function."""
    ignored = re.compile(r"^ *(! (?:[^\n|]|\\\n|\|(?!\|))*)\n(?! *\})", re.MULTILINE)
    scripts = [path for path in (TOP / "packaging").iterdir() if path.is_file()]
    found = [
        (path.name, command)
        for path in [*scripts, TOP / ".ci/run"]
        if path.read_bytes().startswith(b"#!/bin/sh")
        for command in ignored.findall(path.read_text())
    ]
    assert found == []


DEBIAN = TOP / "packaging/debian"
VENDORED = {"prometheus-client", "pysmart", "waitress"}
"""What the package contains; all else that is imported are packages of the distribution."""


def test_the_package_has_the_version_of_the_program() -> None:
    """'iowarden version' of a package is the version in its changelog."""
    setup = configparser.ConfigParser()
    setup.read(TOP / "setup.cfg")
    first = (DEBIAN / "changelog").read_text().splitlines()[0]
    assert first.split()[:2] == ["iowarden", f"({setup['metadata']['version']})"]


def test_the_package_is_not_installed_over_make_install(tmp_path: Path) -> None:
    """The old modules and the old service would go on; dpkg shows what to do instead."""
    script = (DEBIAN / "iowarden.preinst").read_text()
    script = script.replace("/usr/lib/iowarden", str(tmp_path)).replace("/run", str(tmp_path))
    path = tmp_path / "preinst"
    path.write_text(script)
    assert run("sh", path, "install").returncode == 0
    (tmp_path / "pyvenv.cfg").touch()
    done = run("sh", path, "install")
    assert done.returncode == 1
    assert "first run: sudo make uninstall" in done.stderr
    assert run("sh", path, "upgrade", "0.1.0").returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="both ask for root first")
@pytest.mark.parametrize("script", ["install", "uninstall"])
def test_make_install_leaves_an_installed_package_alone(tmp_path: Path, script: str) -> None:
    """It would replace the package's files, or delete them, and dpkg would not know."""
    query = tmp_path / "dpkg-query"
    query.write_text("#!/bin/sh\nprintf installed\n")
    query.chmod(0o755)
    copy = tmp_path / "packaging" / script
    copy.parent.mkdir()
    shutil.copy(TOP / "packaging" / script, copy)
    # A wrong script would remove the installation of this machine.
    copy.write_text(re.sub(r"(?m)^( *)(rm -rf|\[ ! -d /run)", r"\1exit 9; \2", copy.read_text()))
    done = run(copy, PATH=f"{tmp_path}:{os.environ['PATH']}", DESTDIR="", PURGE="")
    assert done.returncode == 1
    assert "sudo apt remove iowarden" in done.stderr


def test_the_package_depends_on_what_it_imports_and_does_not_contain() -> None:
    """Each with a lower bound that is not below that of setup.cfg."""
    control = (DEBIAN / "control").read_text()
    found = dict(re.findall(r"\b(python3-\w+) \(>= ([\d.]+)\)", control))
    setup = configparser.ConfigParser()
    setup.read(TOP / "setup.cfg")
    lines = setup["options"]["install_requires"].lower().splitlines()[1:]
    asked = {name: bound for name, _, bound in map(str.split, lines) if name not in VENDORED}
    names = {name: f"python3-{re.sub('^py(?=yaml)|-python$', '', name)}" for name in asked}
    assert set(found) == set(names.values())
    for name, bound in asked.items():
        numbers = [tuple(map(int, each.split("."))) for each in (found[names[name]], bound)]
        assert numbers[0] >= numbers[1], name


def test_the_package_contains_the_pinned_versions() -> None:
    """make-deb takes three from the requirements with their hashes, and none without."""
    text = (TOP / "packaging/make-deb").read_text()
    (taken,) = re.findall(r"pinned packaging/requirements.txt 3 '([\w|-]+)' vendor", text)
    assert set(taken.split("|")) == VENDORED
    pins = re.findall(r"^(\S+)==", (TOP / "packaging/requirements.txt").read_text(), re.MULTILINE)
    assert set(pins) >= VENDORED
    described = re.findall(
        r"^Files: vendor/(\w+)/\*$", (DEBIAN / "copyright").read_text(), re.MULTILINE
    )
    assert sorted(described) == ["prometheus_client", "pySMART", "waitress"]


def test_each_program_of_a_unit_is_one_of_the_package() -> None:
    """debian/rules replaces an interpreter and a module by the launcher's link for that module."""
    rules = (DEBIAN / "rules").read_text()
    links = set(re.findall(r"bin/(iowarden[\w-]*)$", rules, re.MULTILINE))
    (pattern,) = re.findall(r"'s\|(.*?)\|/bin/iowarden-", rules)
    pattern = pattern.replace(r"\(", "(").replace(r"\)", ")").replace("$$", "$")
    for unit in UNITS.glob("*.service"):
        (line,) = re.findall(r"^ExecStart=(.*)$", unit.read_text(), re.MULTILINE)
        program = re.sub(pattern, r"/bin/iowarden-\1", line)
        assert program.split()[0] in {f"/usr/lib/iowarden/bin/{name}" for name in links}, unit


def test_no_package_of_pip_is_seen_by_the_launcher(tmp_path: Path) -> None:
    """-I -S and a fixed path: neither site-packages nor the working directory or environment."""
    launcher = (DEBIAN / "launcher").read_text()
    assert launcher.startswith("#!/usr/bin/python3 -IS\n")
    program = tmp_path / "iowarden-probe"
    program.write_text(launcher.replace("import runpy", "print(*sys.path, sep='\\n'); sys.exit()"))
    program.chmod(0o755)
    (tmp_path / "faulthandler.py").write_text("raise SystemExit('not ours')")
    done = run(program, PYTHONPATH=str(tmp_path))
    paths = done.stdout.splitlines()
    assert paths[:2] == ["/usr/lib/iowarden", "/usr/lib/iowarden/vendor"], done.stderr
    assert paths[-1] == "/usr/lib/python3/dist-packages"
    assert [path for path in paths if "local" in path or str(tmp_path) in path] == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to a user")
def test_what_root_makes_in_a_users_checkout_belongs_to_the_user(tmp_path: Path) -> None:
    """After 'sudo make run' the user's 'make run' goes on with its state, also if it failed."""
    program = _program(tmp_path, "mkdir -p .run/flights; touch .run/history.db; exit 3")
    os.chown(tmp_path, 65534, 65534)
    done = run("env", f"--chdir={tmp_path}", TOP / "packaging/run-here", program)
    assert done.returncode == 3
    made = [tmp_path / ".run", *(tmp_path / ".run").iterdir()]
    assert [path.stat().st_uid for path in made] == [65534] * 3


def test_make_run_prefers_a_configuration_of_the_checkouts_owner(tmp_path: Path) -> None:
    """The example is tracked: who sets a mail server in it cannot pull."""
    program = _program(tmp_path, 'echo "$@"')
    default = run("env", f"--chdir={tmp_path}", TOP / "packaging/run-here", program).stdout
    assert "run --config packaging/iowarden.yaml --state-directory .run\n" in default
    (tmp_path / ".run").mkdir(exist_ok=True)
    (tmp_path / ".run/iowarden.yaml").touch()
    chosen = run("env", f"--chdir={tmp_path}", TOP / "packaging/run-here", program).stdout
    assert "run --config .run/iowarden.yaml --state-directory .run\n" in chosen


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of root")
def test_a_user_is_told_what_to_do_with_roots_files(tmp_path: Path) -> None:
    """Killed by SIGKILL, 'sudo make run' gives nothing back; without state it would go on mute."""
    program = _program(tmp_path, "echo started")
    (tmp_path / ".run").mkdir()
    (tmp_path / ".run" / "history.db").touch()
    os.chown(tmp_path / ".run", 65534, 65534)
    for directory in (tmp_path, *tmp_path.parents):
        if directory.owner() == "root" and not directory.stat().st_mode & 0o001:
            directory.chmod(0o755)
    script = shutil.copy(TOP / "packaging/run-here", tmp_path)
    nobody = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
    done = run("env", f"--chdir={tmp_path}", *nobody, script, program)
    assert done.returncode == 1
    assert "started" not in done.stdout
    assert "'.run/history.db': expected a file of user nobody, got one of root" in done.stderr
    assert "sudo chown -R nobody .run" in done.stderr


def test_a_missing_smartctl_is_said_at_the_start(tmp_path: Path) -> None:
    """'make run' does not install it: a package that starts a monitor of its own."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("id", "stat", "find", "chown"):
        (tools / name).symlink_to(str(shutil.which(name)))
    program = _program(tmp_path, "echo started")
    script = (TOP / "packaging/run-here").read_text().replace(":/usr/sbin", "")
    (tmp_path / "run-here").write_text(script.replace("$(id -u)", "0"))
    env = ("/usr/bin/env", f"--chdir={tmp_path}")
    done = run(*env, "/bin/sh", tmp_path / "run-here", program, PATH=str(tools))
    assert "apt-get install smartmontools" in done.stdout
    assert "started" in done.stdout


def _program(directory: Path, script: str) -> Path:
    path = directory / "program"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("goal", "sections"), [("run", "run"), ("test", "run test"), ("wheels", "run build")]
)
def test_make_asks_for_all_packages_at_once(tmp_path: Path, goal: str, sections: str) -> None:
    """A user without root is stopped once, not at each section."""
    done = run("make", "--dry-run", f"VENV={tmp_path}/venv", goal, MAKEFLAGS="")
    first = re.search(r"^packaging/install-system-packages (.*)$", done.stdout, re.MULTILINE)
    assert first is not None
    assert first[1] == sections
