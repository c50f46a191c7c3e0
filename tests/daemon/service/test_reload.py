"""SIGHUP to the whole program: a valid configuration comes into force, an invalid one does not.

The signal itself is sent if a process is needed; otherwise its event is posted to the loop.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import queue
import shutil
import signal
import socket
import ssl
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.kmsg import Kernel, medium_error
from support.live import NOTE, RULE, Live, watched
from support.program import Program
from support.smtp import smtp_server

from iowarden.collectors.machine import probe_path
from iowarden.collectors.smart import smartctl_runner
from iowarden.daemon.cli import run_command
from iowarden.daemon.config.load import load_config
from iowarden.daemon.service.reload import corrected_servers
from iowarden.daemon.terminal import exit_status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from support.live import Watched

    from iowarden.daemon.config.schema import Config

GOOD = "iowarden_config_last_reload_successful"
REFUSED = "iowarden_rule_file_problems{"
KEPT = "the previous configuration stays in force"
SERVERS = """log_level: info
mail: {to: ops@example.com, server: mx1.example.com, port: 2525,
  user: relay, password_file: DIR/password}
mail_fallback: {server: mx2.example.com, port: 587}
notify:
  - {name: ops, type: webhook, url: 'https://hooks.example.com/x', token_file: DIR/token,
     severities: [critical]}
"""
ASLEEP = {"/proc/sys/vm/laptop_mode": "5\n"}


def write_rule(host_directory: Path, severity: str) -> None:
    """Write or change a user's rule."""
    (host_directory / "rules.d").mkdir(exist_ok=True)
    (host_directory / "rules.d" / "mine.yaml").write_text(RULE.replace("SEVERITY", severity))


def reload(host: Watched, what: str = "configuration reloaded") -> None:
    """Request a reload and wait for its message."""
    before = host.program.text().count(what)
    host.program.hang_up()
    host.program.until(lambda: host.program.text().count(what) > before, what)


def change(host: Watched, *pairs: tuple[str, str]) -> None:
    """Replace texts in the configuration, or append to it."""
    config = host.program.config.read_text()
    for old, new in pairs:
        assert old in config
        config = config.replace(old, new) if old else config + new
    host.program.config.write_text(config)


def test_periods_levels_and_recipients_are_in_force_after_it(tmp_path: Path) -> None:
    """Mail recipients and server, log level and poll intervals."""
    live = Live(tmp_path)
    with smtp_server() as (port, others), watched(tmp_path, live) as host:
        host.wait(20)
        change(
            host,
            (f"port: {host.port}", f"port: {port}"),
            ("ops@example.com", "night@example.com"),
            ("", "intervals: {md: 1h}\n"),
        )
        reload(host)
        host.wait(8)
        assert host.program.metrics()[GOOD] == 1.0
        live.degrade()
        assert host.wait(40) == []  # it was read with the reload, and will be again in an hour
        assert "MdDegraded" not in host.program.text()
        change(host, ("intervals: {md: 1h}\n", "log_level: error\n"))
        reload(host)
        host.wait_only(40)
        assert others.next().recipients == ("night@example.com",)
        assert host.mails() == []
        # Only errors are logged now, not even that it was reloaded once again.
        assert "night@example.com: 250" not in host.program.text()


@pytest.mark.parametrize(
    ("old", "new", "corrected"),
    [
        ("", "", set()),
        ("hunter2-first", "hunter2-other", {"mx1.example.com:2525"}),
        ("mx2.example.com", "mx3.example.com", {"mx3.example.com:587"}),
        ("port: 2525", "port: 2526", {"mx1.example.com:2526"}),
        ("user: relay", "user: other", {"mx1.example.com:2525"}),
        ("t0ken-of-ops", "t0ken-other", {"ops"}),
        ("hooks.example.com", "hooks2.example.com", {"ops"}),
        ("severities: [critical]", "severities: [warning]", set()),
        ("log_level: info", "log_level: debug", set()),
    ],
)
def test_a_server_is_tried_at_once_if_its_address_or_its_login_changed(
    tmp_path: Path, old: str, new: str, corrected: set[str]
) -> None:
    """Another password in the same file as well; a new level is no reason to send one again."""

    def config(replaced: Callable[[str], str]) -> Config:
        for name, secret in (("password", "hunter2-first"), ("token", "t0ken-of-ops")):
            (tmp_path / name).write_text(replaced(secret))
            (tmp_path / name).chmod(0o600)
        file = tmp_path / "iowarden.yaml"
        file.write_text(replaced(SERVERS.replace("DIR", str(tmp_path))))
        return load_config(str(file))

    before = config(lambda text: text)
    after = config(lambda text: text.replace(old, new) if old else text)
    assert corrected_servers(before, after) == corrected


def test_reloads_do_not_send_a_refused_password_again(tmp_path: Path) -> None:
    """Four while a mail waits are four log-ins less; another password in the file is sent."""
    live = Live(tmp_path)
    password = tmp_path / "password"
    password.write_text("not-the-right-one")
    password.chmod(0o600)
    with smtp_server(password="the-right-one") as (port, _), watched(tmp_path, live) as host:
        login = f"port: {port}, user: iowarden, password_file: {password}"
        change(host, (f"port: {host.port}", login), ("", "log_level: debug\n"))
        reload(host)
        host.wait_only(20)
        live.degrade()
        host.wait_only(60)
        attempts = host.program.text().count(": attempt ")
        assert attempts
        for _ in range(4):
            reload(host)
            host.wait_only(8)
        assert host.program.text().count(": attempt ") == attempts
        password.write_text("neither-this-one")
        reload(host)
        host.wait_only(8)
        assert host.program.text().count(": attempt ") == attempts + 1


def test_a_rule_that_is_switched_off_and_on_again_follows(tmp_path: Path) -> None:
    """An override is in force from the next evaluation on, and ends as it began."""
    live = Live(tmp_path)
    with watched(tmp_path, live) as host:
        host.wait(8)
        change(host, ("", "overrides: {MdDegraded: {enabled: no}}\n"))
        reload(host)
        live.degrade()
        assert host.wait(40) == []
        change(host, ("MdDegraded: {enabled: no}", "MdDegraded/critical: {threshold: {a: 1}}"))
        reload(host, KEPT)
        assert (
            "overrides: MdDegraded/critical: threshold: expected a comparison"
            in host.program.text()
        )
        change(host, ("/critical: {threshold: {a: 1}}", "/warning: {enabled: no}"))
        reload(host)
        (mail,) = host.wait(100)
        assert "critical" in str(mail["Subject"]).lower()


def test_a_drive_that_is_written_down_is_missed_from_the_next_look_on(tmp_path: Path) -> None:
    """'smart.drives' is in force after a reload: no drive has this serial number."""
    live = Live(tmp_path)
    missing = 'iowarden_disk_monitoring_state{disk="WD-WCC130000000",state="missing"}'
    with watched(tmp_path, live) as host:
        found = '{"status": 0, "signal": null, "stdout": "{}", "stderr": ""}'
        live.change({"/.probe/run smartctl --scan --json=c": found})
        host.wait(20)
        assert missing not in host.program.metrics()
        # Both disks of the machine have been polled: it is neither of them.
        for name in ("sda", "sdb"):
            target = smartctl_runner.AccessMethod(f"/dev/{name}", "scsi", name)
            live.change({probe_path("run", smartctl_runner.command(target, "full")): found})
        change(host, ("", "smart: {drives: [{serial: WD-WCC130000000}]}\n"))
        reload(host)
        host.wait(60)
        assert host.program.metrics().get(missing) == 1.0, host.program.text()


def test_a_reload_while_it_starts_does_not_end_it(tmp_path: Path) -> None:
    """SIGHUP is handled before the rules are read: by default it ends a program."""
    rules = tmp_path / "rules.d"
    rules.mkdir(exist_ok=True)
    rule = "      - {alert: A, expr: vector(1), labels: {severity: info}}\n"
    (rules / "mine.yaml").write_text(f"groups:\n  - name: mine\n    rules:\n{rule * 1000}")
    live = Live(tmp_path)
    live.restarted()
    program = Program(tmp_path, live)
    with program.config.open("a") as config:
        config.write("overrides: {NoSuchAlert: {enabled: no}}\n")
    program.start()
    assert program.process is not None
    try:
        status = Path(f"/proc/{program.process.pid}/status")
        program.until(lambda: caught(status) >> (signal.SIGHUP - 1) & 1, "a handler of SIGHUP")
        # It arrives while the rules are read: an override is invalid, and ends the program.
        assert program.end(signal.SIGHUP) == exit_status.CONFIG
    finally:
        program.close()


def caught(status: Path) -> int:
    """Return the signals that a process handles, as a mask. Source: proc(5)."""
    line = next(line for line in status.read_text().splitlines() if line.startswith("SigCgt:"))
    return int(line.split()[1], 16)


def test_what_needs_a_restart_is_named_and_stays(tmp_path: Path) -> None:
    """Another port and state directory: logged once, and the old ones stay in use."""
    with watched(tmp_path, Live(tmp_path)) as host:
        host.wait(8)
        change(
            host,
            (f"127.0.0.1:{host.program.port}", "127.0.0.1:1"),
            (f"state_directory: {tmp_path}/state", f"state_directory: {tmp_path}/other"),
        )
        reload(host)
        assert (
            "changed, but needs a restart to take effect: state_directory, listen"
            in host.program.text()
        )
        host.live.degrade()
        (_,) = host.wait(40)
        assert host.program.metrics()[GOOD] == 1.0
    assert not (tmp_path / "other").exists()


def test_an_alert_outlives_a_reload(tmp_path: Path) -> None:
    """An array is degraded and a disk hangs while the file is read: no alert ends or restarts."""
    live = Live(tmp_path)
    with watched(tmp_path, live) as host:
        live.degrade()
        live.hang("sda")
        first, second = host.wait(80)
        assert second["References"] == first["Message-ID"], "the disk is a member of the array"
        said = host.program.text().count("firing")
        for _ in range(3):
            reload(host)
            assert host.wait(20) == []
        assert host.program.text().count("firing") == said
        assert "resolved" not in host.program.text()
        live.degrade(0)
        live.hang("sda", 0)
        assert [mail["Subject"].startswith("[OK]") for mail in host.wait(800)] == [True]


def test_an_alert_whose_rule_is_removed_is_gone_and_not_well(tmp_path: Path) -> None:
    """The rule file is deleted while it fires: the journal has it, there is no 'resolved' mail."""
    write_rule(tmp_path, "warning")
    live = Live(tmp_path)
    live.change(ASLEEP)
    with watched(tmp_path, live) as host:
        (opened,) = host.wait(80)
        assert "kept asleep" in opened["Subject"]
        (tmp_path / "rules.d" / "mine.yaml").unlink()
        reload(host)
        assert (
            "LaptopMode inactive: its rule was removed, its state is unknown" in host.program.text()
        )
        assert host.wait(1200) == []


def test_a_class_of_events_is_switched_off_while_it_fires(tmp_path: Path) -> None:
    """Its alert ends without a mail, a further line raises none, and is listed as before."""
    live = Live(tmp_path)
    kernel = Kernel(live)
    with watched(tmp_path, live) as host:
        kernel.says(medium_error(8))
        (opened,) = host.wait(80)
        assert "could not read" in opened["Subject"]
        change(host, ("", "\noverrides:\n  block_medium_error: {enabled: false}\n"))
        reload(host)
        kernel.says(medium_error(16))
        assert host.wait(1200) == []
        assert "cleared 20 min" in host.program.command("incident", "list").stdout
        assert "sector 16" in host.program.command("events").stdout


def test_a_rule_made_less_severe_gives_no_resolved_mail(tmp_path: Path) -> None:
    """From warning to notice while it fires: unchanged, but no longer mailed."""
    write_rule(tmp_path, "warning")
    live = Live(tmp_path)
    live.change(ASLEEP)
    with watched(tmp_path, live) as host:
        (_,) = host.wait(80)
        write_rule(tmp_path, "notice")
        reload(host)
        assert host.wait(1200) == []
        assert "LaptopMode firing" in host.program.text().partition("reloaded")[2]


def test_a_rule_made_more_severe_goes_on_in_the_thread(tmp_path: Path) -> None:
    """From warning to critical while it fires: 'ESCALATED' at once, and one 'resolved' for both."""
    write_rule(tmp_path, "warning")
    live = Live(tmp_path)
    live.change(ASLEEP)
    with watched(tmp_path, live) as host:
        (opened,) = host.wait(80)
        write_rule(tmp_path, "critical")
        reload(host)
        (worse,) = host.wait(20)
        assert "ESCALATED" in worse["Subject"]
        live.change({"/proc/sys/vm/laptop_mode": "0\n"})
        (clear,) = host.wait(700)
        assert clear["Subject"].startswith("[OK]")
        assert worse["References"] == clear["References"] == opened["Message-ID"]


def _wrong_yaml(host: Watched) -> str:
    change(host, ("", "mail: [\n"))
    return "iowarden.yaml':"


def _unknown_key(host: Watched) -> str:
    change(host, ("", "maill: {to: a@example.com}\n"))
    return "maill: unknown key"


def _unknown_override(host: Watched) -> str:
    change(host, ("", "overrides: {NoSuchAlert: {enabled: no}}\n"))
    return "overrides: NoSuchAlert: expected the name of a shipped rule"


def _no_file(host: Watched) -> str:
    host.program.config.unlink()
    return "iowarden.yaml'"


@pytest.mark.parametrize(
    "spoil",
    [_wrong_yaml, _unknown_key, _unknown_override, _no_file],
)
def test_a_bad_configuration_changes_nothing(
    tmp_path: Path, spoil: Callable[[Watched], str]
) -> None:
    """The running one stays; journal, metric and alert report it until a valid one is read."""
    live = Live(tmp_path)
    with watched(tmp_path, live) as host:
        live.degrade()
        (_,) = host.wait(40)
        good = host.program.config.read_text()
        words = spoil(host)
        reload(host, KEPT)
        assert words in host.program.text()
        assert "bug" not in host.program.text()
        live.wait(8)
        host.program.caught_up()
        assert host.program.metrics()[GOOD] == 0.0
        (told,) = host.wait(80)
        assert "configuration" in told["Subject"]
        assert "MdDegraded md0 resolved" not in host.program.text()
        host.program.config.write_text(good)
        shutil.rmtree(tmp_path / "rules.d", ignore_errors=True)
        (tmp_path / "rules.d").unlink(missing_ok=True)
        reload(host)
        host.wait(8)
        assert host.program.metrics()[GOOD] == 1.0
        assert "ConfigReloadFailed resolved" in host.program.text()


def _two_errors(directory: Path) -> str:
    write_rule(directory, "warning")
    path = directory / "rules.d" / "mine.yaml"
    path.write_text(path.read_text().replace("> 0", "> > 0").replace("5s", "nothing"))
    return "mine.yaml':3:"


def _no_utf_8(directory: Path) -> str:
    write_rule(directory, "warning")
    (directory / "rules.d" / "mine.yaml").write_bytes(b"groups: \xff")
    return "mine.yaml': expected a rule file in UTF-8"


def _a_shipped_name(directory: Path) -> str:
    write_rule(directory, "critical")
    path = directory / "rules.d" / "mine.yaml"
    path.write_text(path.read_text().replace("LaptopMode", "MdDegraded"))
    return "expected a name other than that of the alert 'MdDegraded/critical'"


def _a_pipe(directory: Path) -> str:
    (directory / "rules.d").mkdir(exist_ok=True)
    os.mkfifo(directory / "rules.d" / "mine.yaml")
    return "mine.yaml': expected a file"


def _no_directory(directory: Path) -> str:
    (directory / "rules.d").write_text("")
    return "rules.d': expected a directory"


@pytest.mark.parametrize("spoil", [_two_errors, _no_utf_8, _a_shipped_name, _a_pipe, _no_directory])
def test_a_bad_rule_file_does_not_prevent_the_start(
    tmp_path: Path, spoil: Callable[[Path], str]
) -> None:
    """All other rules are evaluated; journal, mail, metric and status name the file."""
    words = spoil(tmp_path)
    good = tmp_path / "rules.d" / "other.yaml"
    if good.parent.is_dir():
        good.write_text(NOTE.replace("LaptopMode", "MyOther"))
    live = Live(tmp_path)
    live.change(ASLEEP)
    with watched(tmp_path, live) as host:
        live.degrade()
        mails = host.wait(120)
        subjects = "\n".join(str(mail["Subject"]) for mail in mails)
        assert "md0" in subjects
        assert " in rule file '" in subjects
        assert words in host.program.text()
        metrics = host.program.metrics()
        (name,) = (name for name in metrics if name.startswith(REFUSED))
        assert metrics[name] == (2.0 if spoil is _two_errors else 1.0)
        assert metrics[GOOD] == 1.0
        assert ("MyOther firing" in host.program.text()) == good.exists()
        assert "rules: not loaded: '" in host.program.command("status").stdout
        shutil.rmtree(tmp_path / "rules.d", ignore_errors=True)
        (tmp_path / "rules.d").unlink(missing_ok=True)
        reload(host)
        host.wait(8)
        assert not any(name.startswith(REFUSED) for name in host.program.metrics())
        assert "rules: works again" in host.program.text()


def test_the_rules_of_a_file_that_became_invalid_stay(tmp_path: Path) -> None:
    """A typing error while its alert fires ends nothing; the other settings are in force."""
    write_rule(tmp_path, "warning")
    live = Live(tmp_path)
    live.change(ASLEEP)
    with watched(tmp_path, live) as host:
        (opened,) = host.wait(80)
        assert "kept asleep" in opened["Subject"]
        own = tmp_path / "rules.d" / "mine.yaml"
        own.write_text(own.read_text().replace("> 0", "> > 0"))
        change(host, ("", "overrides: {MdDegraded: {enabled: no}}\n"))
        for _ in range(2):
            reload(host)
        (told,) = host.wait(120)
        assert "1 error in rule file 'mine.yaml'" in told["Subject"]
        assert "LaptopMode inactive" not in host.program.text()
        live.degrade()
        assert host.wait(80) == []
        live.change({"/proc/sys/vm/laptop_mode": "0\n"})
        (clear,) = host.wait(700)
        assert clear["Subject"].startswith("[OK]")
        assert clear["References"] == opened["Message-ID"]


def test_a_hangup_while_a_file_hangs_is_reported_and_made_good(tmp_path: Path) -> None:
    """'/etc' on a hung disk: the loop runs, the problem is logged; both HUPs are served later."""
    live = Live(tmp_path)
    with watched(tmp_path, live) as host:
        write_rule(tmp_path, "warning")
        host.wait(8)
        with held(tmp_path / "rules.d" / "mine.yaml"):
            host.program.hang_up()
            host.wait_only(4)  # otherwise both are one
            host.program.hang_up()
            live.degrade()
            (mail,) = host.wait(40)
            assert "md0" in mail["Subject"]
            assert "reload: reading the configuration hangs for over 10 s" in host.program.text()
            assert host.program.text().count(KEPT) == 1
            assert host.program.metrics()[GOOD] == 0.0
        host.program.until(
            lambda: host.program.text().count("configuration reloaded") == 2, "both reloads"
        )
        host.wait(8)
        assert host.program.metrics()[GOOD] == 1.0


@contextlib.contextmanager
def held(path: Path) -> Iterator[None]:
    """Block any process that opens a file, like a disk that hangs. Source: fcntl(2), leases.

    Limits: 45 s (/proc/sys/fs/lease-break-time).
    """
    before = signal.signal(signal.SIGIO, signal.SIG_IGN)  # shows that a process is blocked
    try:
        with path.open("r+") as file:
            try:
                fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            except OSError as error:
                pytest.skip(f"no leases on the file system of '{path}': {error}")
            yield
    finally:
        signal.signal(signal.SIGIO, before)


class Manager:
    """The notify socket of systemd: read at once, as systemd does."""

    def __init__(self, path: Path) -> None:
        """Listen at `path`."""
        self._receiver = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._receiver.bind(str(path))
        self._path = path
        self._datagrams: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        while text := self._receiver.recv(4096).decode():
            self._datagrams.put(text)

    def said(self) -> list[str]:
        """Return the lines received so far, without the watchdog's."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"by now", str(self._path))
        texts = iter(lambda: self._datagrams.get(timeout=20.0), "by now")
        return [line for text in texts for line in text.split("\n") if line != "WATCHDOG=1"]

    def close(self) -> None:
        """End the thread."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"", str(self._path))
        self._reader.join()
        self._receiver.close()


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    """Return the notifications that systemd receives with Type=notify."""
    manager = Manager(tmp_path / "notify")
    yield manager
    manager.close()


def test_the_manager_hears_of_a_reload(tmp_path: Path, manager: Manager) -> None:
    """RELOADING with the time, then READY; the status has the reason of a refused one."""
    environment = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
    with watched(tmp_path, Live(tmp_path), environment=environment, own_process=True) as host:
        host.wait(8)
        assert "READY=1" in manager.said()
        reload(host)
        host.wait(8)
        lines = manager.said()
        assert lines[0] == "RELOADING=1"
        assert lines[1].startswith("MONOTONIC_USEC=")
        assert int(lines[1].partition("=")[2]) > 0
        assert lines[2] == "READY=1"
        _unknown_key(host)
        reload(host, KEPT)
        host.wait(8)
        lines = manager.said()
        assert lines[0] == "RELOADING=1"
        assert lines[2] == "READY=1"
        assert any(
            "STATUS=" in x and "configuration reload failed: '" in x and "maill" in x for x in lines
        )


def test_a_signal_while_systemd_is_told_something_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """systemd reads late, a signal arrives meanwhile: the datagram is sent all the same."""
    told: list[bytes] = []
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as filling,
    ):
        receiver.bind(str(tmp_path / "notify"))
        receiver.setblocking(False)
        filling.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                filling.sendto(b"another service", str(tmp_path / "notify"))

        def drain(*_: object) -> None:
            with contextlib.suppress(BlockingIOError):
                while True:
                    told.append(receiver.recv(4096))

        before = signal.signal(signal.SIGALRM, drain)
        try:
            monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            assert run_command._notify("RELOADING=1")
            drain()
        finally:
            signal.signal(signal.SIGALRM, before)
    assert told[-1] == b"RELOADING=1"


def test_a_bad_certificate_leaves_the_one_before_in_use(tmp_path: Path) -> None:
    """A renewal that wrote half a file: the line names it, and '/metrics' stays as it was."""
    live, directory = Live(tmp_path), tmp_path / "web"
    directory.mkdir()
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-x509")
    files = ("-keyout", "server.key", "-out", "server.crt", "-subj", "/CN=localhost")
    subprocess.run(
        ["openssl", "req", *curve, *files], cwd=directory, check=True, capture_output=True
    )
    (directory / "server.key").chmod(0o640)
    web, certificate = directory / "web.yml", directory / "server.crt"
    good = certificate.read_text()
    web.write_text("# plain HTTP at first\n")
    settings = f"web_config: {web}\n"
    with watched(tmp_path, live, settings=settings, own_process=True) as host:
        host.wait(4)
        address = ("127.0.0.1", host.program.port)
        web.write_text("tls_server_config: {cert_file: server.crt, key_file: server.key}\n")
        reload(host)
        assert ssl.get_server_certificate(address) == good
        certificate.write_text(good[: len(good) // 2])
        reload(host, KEPT)
        assert f"expected a PEM certificate in '{certificate}'" in host.program.text()
        assert ssl.get_server_certificate(address) == good
