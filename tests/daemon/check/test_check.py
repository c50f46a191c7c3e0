"""`iowarden check`: a report with the worst finding first, and an exit status for schedulers."""

from __future__ import annotations

import grp
import json
import os
import pwd
import queue
import re
import signal
import subprocess
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import other_user
from support.memory import Memory
from support.program import COMMAND, Feed, Played, recorded, run
from support.recordings import FIXTURES, write_recording
from support.smtp import DEADLINE_SECONDS, free_port
from support.sources import sources as program_sources

from iowarden.collectors import registry
from iowarden.collectors.filesystem import backups
from iowarden.collectors.filesystem.backups import DirectoryState, WatchedDirectory
from iowarden.collectors.machine import Machine
from iowarden.collectors.model import Outcome, ReadError, Reading, UserInputError
from iowarden.collectors.smart.options import Options
from iowarden.daemon.check import check, findings, guard, running_service
from iowarden.daemon.check.report import WIDTH, CheckReport, Finding, Level
from iowarden.daemon.check.running_service import Unit
from iowarden.daemon.cli import command, main, service_client
from iowarden.daemon.clock import SystemClock
from iowarden.daemon.config import load
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.exporters import Exporter
from iowarden.daemon.polling import pollers
from iowarden.daemon.polling.scheduler import SourceScheduler
from iowarden.daemon.setup import service_user
from iowarden.rules.alerting.alerts import Alert, AlertState
from iowarden.rules.engine.engine import Engine
from iowarden.rules.signals.table import GROUPS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iowarden.collectors.model import Labels

Files = dict[str, str | bytes | None]

MEMINFO = (
    "MemTotal: 16000000 kB\nMemFree: 8000000 kB\nMemAvailable: 12000000 kB\nBuffers: 1000 kB\n"
    "Cached: 4000000 kB\nDirty: 0 kB\nWriteback: 0 kB\nSwapTotal: 4000000 kB\n"
    "SwapFree: 4000000 kB\n"
    "Active(file): 1000 kB\nInactive(file): 1000 kB\n"
)
SMARTD: Files = {
    "/proc/1/comm": "systemd\n",
    "/proc/812/comm": "smartd\n",
    "/proc/812/cgroup": "0::/system.slice/smartmontools.service\n",
}


def machine(*, degraded: int = 0, used: float = 0.5, disks: int = 2) -> Files:
    """Return a host with an array md0 on its first two disks, '/' on it, as files."""
    blocks = 25 * 2**20
    free = int(blocks * (1 - used))
    names = [f"sd{chr(97 + n // 26)}{chr(97 + n % 26)}" for n in range(disks)]
    files: Files = {
        "/proc/meminfo": MEMINFO,
        "/proc/uptime": "1000.00 2000.00\n",
        "/proc/diskstats": "".join(
            f"8 {n * 16} {name} 0 0 0 0 0 0 0 0 0 0 0\n" for n, name in enumerate(names)
        )
        + "9 0 md0 0 0 0 0 0 0 0 0 0 0 0\n",
        "/proc/1/mountinfo": "25 1 9:0 / / rw,relatime shared:1 - xfs /dev/md0 rw\n",
        "/.statvfs": (
            "device_number 9:0\nblock_bytes 4096\nfragment_bytes 4096\n"
            f"blocks {blocks}\nblocks_free {free}\nblocks_available {free}\n"
            "files 1000000\nfiles_free 900000\n"
        ),
    }
    for name in names:
        files |= {
            f"/sys/block/{name}/slaves": None,
            f"/sys/block/{name}/holders": None,
            f"/sys/block/{name}/size": "1953525168\n",
            f"/sys/block/{name}/device/model": "SIMULATED HDD\n",
            f"/sys/block/{name}/device/vpd_pg80": b"\0\x80\0\x04S" + name[1:].encode(),
            f"/sys/block/{name}/queue/scheduler": "[mq-deadline] none\n",
            f"/sys/block/{name}/queue/read_ahead_kb": "128\n",
            f"/sys/block/{name}/queue/rotational": "1\n",
        }
    for name in names[:2]:
        files[f"/sys/block/{name}/holders/md0/name"] = ""
    return files | array("md0", degraded=degraded)


def array(name: str, *, degraded: int = 0, state: str = "clean") -> Files:
    """Return the kernel's files of an array."""
    path = f"/sys/block/{name}/md"
    return {
        "/proc/mdstat": "Personalities : [raid1]\nunused devices: <none>\n",
        f"/sys/block/{name}/size": "1953525168\n",
        f"/sys/block/{name}/slaves": None,
        f"{path}/array_state": f"{state}\n",
        f"{path}/level": "raid1\n",
        f"{path}/raid_disks": "2\n",
        f"{path}/degraded": f"{degraded}\n",
        f"{path}/sync_action": "idle\n",
        f"{path}/sync_completed": "none\n",
        f"{path}/mismatch_cnt": "0\n",
    }


class Checker:
    """Runs the command on machines that are written as files, in this process."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        (directory / "rules.d").mkdir(exist_ok=True)
        self.config = directory / "iowarden.yaml"
        self.config.write_text(
            f"state_directory: {directory}/state\nrules_directory: {directory}/rules.d\n"
            f"listen: 127.0.0.1:{free_port()}\n"
            "mail: {server: mail.example.com, to: ops@example.com}\n"
        )

    def words(self, files: Files | None, *options: str) -> list[str]:
        """Return the command's arguments; without files it checks this machine."""
        place = []
        if files is not None:
            directory = self.directory / "recording"
            place = ["--play", write_recording(directory, [(1000.0, files), (1001.0, {})])]
        return ["check", "--config", str(self.config), *place, *options]

    def __call__(self, files: Files | None, *options: str) -> tuple[int, str]:
        """Return exit status and report; there is no other output."""
        answer = run(*self.words(files, *options))
        assert answer.stderr == ""
        return answer.returncode, answer.stdout


@pytest.fixture
def checked(tmp_path: Path) -> Checker:
    """Return the command, with a configuration that has a mail server."""
    return Checker(tmp_path)


def lines(text: str, level: str) -> list[str]:
    """Return the findings of a level, each on one line."""
    joined = re.sub(r"\n {9}(?! )", " ", text)
    return [line for line in joined.splitlines() if line.startswith(level)]


def test_a_backup_directory_that_cannot_be_read_is_named_with_the_reason(checked: Checker) -> None:
    """Whether backups come is unknown; the other collectors are checked as ever."""
    checked.config.write_text(
        checked.config.read_text() + "watch_directories: [{path: /srv/backup, glob: '*.dump'}]\n"
    )
    status, text = checked(machine())
    assert status == 3
    (line,) = lines(text, "UNKNOWN")
    assert "collector backups /srv/backup, *.dump" in line
    assert "'/.probe/newest !srv!backup *.dump'" in line


def test_a_backup_directory_that_hangs_is_named_although_its_reason_is_not_known_yet() -> None:
    """An NFS server does not answer: the probe gives up after a minute, the check before that."""
    engine = Engine([], [backups.SOURCE], 0.0)
    hanging = DirectoryState(WatchedDirectory("/mnt/nas"))
    engine.sources["backups"].take(Reading("backups", Outcome.OK, 0.0, 0.0, (hanging,)), 0.0)
    hangs, _ = findings.of_sources(engine, 0.0)
    assert (hangs.level, hangs.object) == (Level.UNKNOWN, "backups /mnt/nas, *")
    assert hangs.text == "no answer during this check"


def test_the_probe_reads_the_watched_directories_of_a_check_and_nothing_else() -> None:
    """Only root can list them; drives are polled by the service alone."""
    queried: list[str] = []

    def probe(verb: str, arguments: Sequence[str], _: float) -> str:
        queried.append(verb)
        raise ReadError(f"{arguments[0]}: not listed")

    made = pollers.make(Options(), SystemClock())
    made.directories.configure([WatchedDirectory("/srv/wal")])
    sources = {source.name: source for source in check.sources_of(made, probe)}
    (state,) = sources["backups"].read(Machine())
    assert (state.reason, queried) == ("/srv/wal: not listed", ["newest"])
    own = {source.name: source for source in check.sources_of(made, None)}
    differing = {name for name, source in sources.items() if source != own[name]}
    assert differing == {"backups"}


def test_a_healthy_machine_is_ok(checked: Checker) -> None:
    """Status 0; the checked objects and the recipient of mail are listed."""
    status, text = checked(machine())
    assert status == 0, text
    assert not any(lines(text, level) for level in ("CRITICAL", "WARNING", "UNKNOWN"))
    assert re.search(
        r"^INFO +mail: to ops@example.com by 'mail.example.com':587", text, re.MULTILINE
    )
    assert any("raid1, 2 disks, 932 GiB, clean" in line for line in lines(text, "INFO"))
    assert any("/: 50 % of 100 GiB used" in line for line in lines(text, "INFO"))
    disk = next(line for line in lines(text, "INFO") if "disk sdaa" in line)
    assert "SIMULATED HDD, serial Sdaa" in disk
    assert "932 GiB, rotating, mq-deadline, read-ahead 128 KiB; md0, /" in disk
    assert text.splitlines()[-1].startswith("check: ")


@pytest.mark.parametrize(
    ("files", "use"),
    [
        ({}, "read-ahead 128 KiB; no use of it is seen"),
        (
            {"/proc/spl/kstat/zfs/tank/state": "ONLINE\n"},
            "; no use of it is seen; ZFS pool tank is imported",
        ),
        (
            {
                "/sys/block/sdac/dev": "8:32\n",
                "/run/udev/data/b8:32": "E:ID_FS_TYPE=crypto_LUKS\n",
            },
            "read-ahead 128 KiB; data of sdac (LUKS volume, not open)",
        ),
    ],
)
def test_no_line_says_that_nothing_is_on_a_disk(checked: Checker, files: Files, use: str) -> None:
    """Only that no use is seen, with the pools that may use it; or what udev found on it."""
    _, text = checked(machine(disks=3) | files)
    assert use in " ".join(text.split())
    assert "nothing" not in text


def test_degraded_arrays_are_critical_and_advised_once(checked: Checker) -> None:
    """Status 2; the first line names the array; two arrays share the advice."""
    status, text = checked(machine(degraded=1) | array("md1", degraded=1))
    assert status == 2, text
    first = text.splitlines()[0]
    assert first.startswith("CRITICAL MdDegraded md0")
    assert [line.split()[2] for line in lines(text, "CRITICAL")] == ["md0:", "md1:"]
    assert text.count("mdadm --detail") == 1
    assert " ".join(text.split()).count("another failure may lose all data") == 1
    assert "check: 2 critical" in text.splitlines()[-1]


def test_a_filling_file_system_is_a_warning(checked: Checker) -> None:
    """Status 1 at 85 %."""
    status, text = checked(machine(used=0.85))
    assert status == 1, text
    assert [line.split()[1:3] for line in lines(text, "WARNING")] == [["FilesystemFull", "/:"]]


def test_another_program_at_the_same_disks_is_a_finding_with_what_stops_it(
    checked: Checker,
) -> None:
    """smartd, started by hand: information, and the command on one line, to be copied."""
    status, text = checked(machine() | SMARTD | {"/proc/812/cgroup": "0::/\n"})
    assert status == 0, text
    assert any(
        "CompetingMonitor host: smartd also polls disks" in line for line in lines(text, "INFO")
    )
    assert "'kill 812'" in text
    assert max(map(len, text.splitlines())) <= WIDTH


def test_smartd_at_an_areca_is_a_warning_with_what_stops_it(checked: Checker) -> None:
    """Status 1; the advice has the command to type."""
    areca: Files = {"/sys/bus/pci/drivers/arcmsr/0000:02:00.0": None}
    status, text = checked(machine() | SMARTD | areca)
    assert status == 1, text
    assert [line.split()[1] for line in lines(text, "WARNING")] == ["CompetingMonitorAreca"]
    assert "\n             systemctl disable --now smartmontools.service\n" in text


def test_a_source_that_reports_nonsense_is_unknown(checked: Checker) -> None:
    """Status 3, with the collector's name; a critical finding outranks it."""
    broken = machine() | {"/proc/meminfo": "MemTotal: plenty\n"}
    status, text = checked(broken)
    assert status == 3, text
    assert any("collector meminfo: unparsed:" in line for line in lines(text, "UNKNOWN"))
    # The sweep of processes depends on it.
    assert text.splitlines()[-1].startswith("check: 2 collectors failed")


def test_the_worst_finding_decides() -> None:
    """Critical outranks warning outranks unknown."""
    found = [Finding(level, "x", "", "") for level in (Level.OK, Level.UNKNOWN, Level.INFO)]
    assert CheckReport(tuple(found)).status == 3
    found.append(Finding(Level.WARNING, "x", "", ""))
    assert CheckReport(tuple(found)).status == 1
    found.insert(0, Finding(Level.CRITICAL, "x", "", ""))
    assert CheckReport(tuple(found)).status == 2


def test_an_array_that_stands_still_just_now_is_a_warning(checked: Checker) -> None:
    """The rule waits a minute, a check cannot: the alert is listed as pending."""
    status, text = checked(machine() | array("md1", state="inactive"))
    assert status == 1, text
    [line] = lines(text, "WARNING")
    assert "MdInactive md1" in line
    assert "pending; critical if it lasts for 1 min" in line


def test_a_bad_configuration_does_not_keep_it_from_looking(checked: Checker) -> None:
    """Status 3 with the invalid line; the full file system is found all the same."""
    checked.config.write_text("listen: everywhere\nmial: {}\n")
    status, text = checked(machine())
    assert status == 3, text
    assert len(lines(text, "UNKNOWN  configuration:")) == 2
    assert any("file system /" in line for line in lines(text, "INFO"))
    assert "nobody is mailed" not in text  # the defaults say so; the file may say otherwise
    assert "/var/lib/iowarden" not in text


def test_an_override_that_switches_its_alert_off_unseen_is_a_warning(checked: Checker) -> None:
    """The array is degraded, and the rule that would say so compares a mistyped metric."""
    with checked.config.open("a") as file:
        file.write("overrides: {MdDegraded/critical: {expr: 'iowarden_md_missing_member > 0'}}\n")
    (checked.directory / "rules.d" / "own.yaml").write_text(
        "groups: [{name: a, rules: [{alert: A, expr: 'mysql_up == 0'}]}]\n"
    )
    status, text = checked(machine(degraded=1))
    assert status == 1, text
    [line] = lines(text, "WARNING  overrides MdDegraded/critical:")
    assert f"never fires, by 'expr' in '{checked.config}':5: there is no metric" in line
    assert "did you mean 'iowarden_md_missing_members'?" in line
    assert any("A: there is no metric 'mysql_up'" in line for line in lines(text, "INFO"))


def test_a_bad_rule_file_leaves_the_shipped_rules(checked: Checker) -> None:
    """The file is named, and a degraded array is still critical."""
    rules = checked.directory / "rules.d"
    rules.mkdir(exist_ok=True)
    (rules / "own.yaml").write_text("groups: [{name: a, rules: [{alert: A, expr: 'sum('}]}]\n")
    status, text = checked(machine(degraded=1))
    assert status == 2, text
    assert any("own.yaml" in line for line in lines(text, "UNKNOWN  rules:"))


def test_a_rule_file_that_is_none_by_its_size_is_not_read(checked: Checker) -> None:
    """A large dump in the directory would need more memory than the unit has."""
    rules = checked.directory / "rules.d"
    rules.mkdir(exist_ok=True)
    with (rules / "dump.yaml").open("wb") as dump:
        dump.truncate(2**40)
    status, text = checked(machine())
    assert status == 3, text
    assert "expected at most 1048576 bytes, got 1099511627776" in " ".join(text.split())


def test_a_recording_that_is_none_is_reported(checked: Checker) -> None:
    """Status 3 and a sentence."""
    status, text = checked(None, "--play", str(checked.directory / "nothing"))
    assert status == 3
    assert "recording" in text


def test_a_recording_older_than_a_source_is_not_broken(checked: Checker) -> None:
    """A collector that was not yet read when the recording was made is no failure."""
    status, text = checked(None, "--play", str(FIXTURES / "idle.tar.xz"))
    assert "UNKNOWN" not in text
    assert status == 0, text


def test_json_reports_the_same(checked: Checker) -> None:
    """Levels, alerts, objects and advice as data."""
    status, text = checked(machine(degraded=1), "--json")
    report = json.loads(text)
    assert report["status"] == status == 2
    assert report["findings"][0]["topic"] == "MdDegraded"
    assert "mdadm --detail" in report["findings"][0]["advice"]
    assert "another failure may lose all data" in report["findings"][0]["description"]
    assert {item["kind"] for item in report["items"]} == {"disk", "array", "file system"}


def test_many_equal_disks_share_a_line(checked: Checker) -> None:
    """Thirty equal disks are one line with their number."""
    status, text = checked(machine(disks=30))
    assert status == 0, text
    [line] = lines(text, "INFO     disks")
    assert "disks (30): SIMULATED HDD, 932 GiB" in line
    assert not lines(text, "INFO     disk ")


def test_a_line_for_each_drive_says_how_it_is_asked(checked: Checker) -> None:
    """The type for the kernel's device, and a configured one."""
    checked.config.write_text(
        checked.config.read_text()
        + "smart: {drives: [{path: /dev/sdab, ignore: true}, {serial: Z1Z0ABCD}]}\n"
    )
    answer = '{"status": 0, "signal": null, "stdout": "{}", "stderr": ""}'
    status, text = checked(machine() | {"/.probe/run smartctl --scan --json=c": answer})
    assert status == 0, text
    found = lines(text, "INFO     drive")
    assert any("drive sdaa: polled by 'smartctl -x" in line for line in found), text
    assert not any("drive sdab: asked" in line for line in found)
    assert not lines(text, "UNKNOWN")


def test_a_reader_that_goes_away_is_no_fault(checked: Checker) -> None:
    """As with `| head`: the exit status is kept, no error is shown."""
    reading, writing = os.pipe()
    os.close(reading)
    answer = subprocess.run(
        [COMMAND, *checked.words(machine(degraded=1))],
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=DEADLINE_SECONDS,
        check=False,
    )
    os.close(writing)
    assert answer.stderr == b""
    assert answer.returncode == 2


def test_an_interrupt_ends_it_and_its_child(checked: Checker) -> None:
    """Ctrl-C during a check: no output, status 130, and no process is left running."""
    process = subprocess.Popen(
        [COMMAND, *checked.words(None)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    children = f"/proc/{process.pid}/task/{process.pid}/children"
    end = time.monotonic() + DEADLINE_SECONDS
    child = ""
    while not child and time.monotonic() < end:
        with open(children) as file:
            child = file.read().strip()
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=DEADLINE_SECONDS)
    assert said == ("", "")
    assert process.returncode == 130
    while time.monotonic() < end and _runs(child):
        pass
    assert not _runs(child)


def _runs(process: str) -> bool:
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_anybody_may_look_at_this_machine(checked: Checker) -> None:
    """The real machine without privileges: a report, nothing is written, no service needed.

    A file that the service needs and does not have is a finding as well.
    """
    user = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        config = Path(directory, "iowarden.yaml")
        config.write_text(f"web_config: {directory}/none.yml\n")
        answer = subprocess.run(
            [*other_user.program("iowarden", directory), "check", "--json", "--config", config],
            capture_output=True,
            text=True,
            timeout=DEADLINE_SECONDS * 2,
            check=False,
            cwd="/",
            **user,
        )
    assert answer.stderr == ""
    report = json.loads(answer.stdout)
    assert report["status"] == answer.returncode
    topics = {finding["topic"] for finding in report["findings"]}
    assert {"collectors", "service", "mail", "web_config"} <= topics
    assert any(item["kind"] == "file system" for item in report["items"])


def test_a_check_that_hangs_altogether_is_given_up() -> None:
    """The configuration is on the hung disk: the timeout ends the check and names its step."""

    def hang(step: Callable[[str], None]) -> CheckReport:
        step("reading the configuration")
        signal.pause()
        raise AssertionError

    report = guard.guarded(hang, deadline_seconds=2.0)
    assert report.status == 3
    [finding] = report.findings
    assert "no answer in time" in finding.text
    assert finding.text.endswith("its last step: reading the configuration")


def test_a_mistake_of_ours_is_a_line_and_no_traceback() -> None:
    """Status 3 with the place of the exception."""

    def broken(_: Callable[[str], None]) -> CheckReport:
        raise ZeroDivisionError("ours")

    report = guard.guarded(broken, DEADLINE_SECONDS)
    assert report.status == 3
    assert "ZeroDivisionError" in report.findings[0].text
    assert "Traceback" not in "\n".join(report.lines())


def test_a_child_that_dies_is_reported() -> None:
    """For example killed by the OOM killer."""

    def die(_: Callable[[str], None]) -> CheckReport:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError

    assert "ended without an answer" in guard.guarded(die, DEADLINE_SECONDS).findings[0].text


class Fast(SystemClock):
    """A fast clock, so that STUCK_SECONDS pass soon."""

    def now(self) -> float:
        """Return a time that goes 20 times as fast."""
        return time.monotonic() * 20


def test_a_source_that_hangs_is_unknown_and_the_others_are_reported(tmp_path: Path) -> None:
    """sysfs of a sick disk: 'no answer for 1x s'; the check ends while the thread still hangs."""
    release = threading.Event()
    held = {"md": lambda _: release.wait()}
    sources = [
        replace(s, read=held.get(s.name, s.read))
        for s in registry.SOURCES
        if s.name in {"md", "stat"}
    ]
    clock, events = Fast(), queue.SimpleQueue[object]()
    readers = SourceScheduler(sources, {}, lambda: Machine(str(tmp_path)), clock.now, events.put)
    engine = Engine([], readers.sources, clock.now())
    check.observe(engine, readers, events, clock, 0.0)
    release.set()
    report = CheckReport(tuple(findings.of_sources(engine, clock.now())))
    assert report.status == 3
    text = "\n".join(report.lines())
    assert re.search(r"UNKNOWN +collector md: stuck: no answer for [\d.]+ s", text)
    assert "1 collector failed" in text


def test_a_check_does_not_report_that_a_machine_has_no_kernel_log(tmp_path: Path) -> None:
    """A check does not read the kernel log: it names the command that does."""
    polled = program_sources()
    sources = [s for s in polled if s.name in {"kernel_log", "controllers", "stat"}]
    clock, events = SystemClock(), queue.SimpleQueue[object]()
    readers = SourceScheduler(sources, {}, lambda: Machine(str(tmp_path)), clock.now, events.put)
    engine = Engine([], readers.sources, clock.now())
    check.observe(engine, readers, events, clock, 0.0)
    (found,) = (f for f in findings.of_sources(engine, clock.now()) if f.topic == "collectors")
    assert found.text == (
        "0 of 3 ok; not present on this host: stat, controllers; only the service reads the kernel"
        " log: check it by 'dmesg | iowarden explain'"
    )


def test_what_the_running_service_reports_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write stall needs minutes of data: the check reports the alert of the service."""
    feed = Feed(recorded("write-stall"), tmp_path / "feed")
    program = Played(tmp_path, feed)
    program.http = True
    program.start()
    try:
        feed.give()
        program.caught_up()
        found = running_service.findings(("127.0.0.1", program.port), set())
        stall = next(f for f in found if f.topic == "WriteStall")
        assert stall.level is Level.WARNING
        assert "firing in the running service (warning)" in stall.text
        # Its incident is no second problem.
        assert "open incidents" not in {f.topic for f in found}
        nobody = next(f for f in found if f.topic == "notifications")
        assert nobody.level is Level.WARNING  # its mail is in the Maildir
        assert nobody.text.startswith("nobody has been notified about 1 open incident; ")
        answer = next(f for f in found if f.topic == "service")
        assert answer.level is Level.OK
        firing = sum(
            name.startswith("iowarden_alerts{") and 'alertstate="firing"' in name
            for name in program.metrics()
        )
        assert firing >= 1
        assert f"; alerts firing: {firing}, open incidents: 1 warning (" in answer.text
        assert re.search(r" old, notifications waiting: \d", answer.text)
        labels = (
            ("alertname", "WriteStall"),
            ("condition", "write_stall"),
            ("severity", "warning"),
        )
        assert labels in running_service.firing(("127.0.0.1", program.port))
        again = running_service.findings(("127.0.0.1", program.port), {labels})
        assert "WriteStall" not in {f.topic for f in again}
        # With 'web_config' its metrics require TLS or a login, and the control socket has the same.
        answer = json.loads(program.command("query", "--json", running_service.QUERY).stdout)
        monkeypatch.setattr(service_client, "requested", lambda *_: answer)
        query = service_client.query_of(str(program.state), "")
        alike = running_service.of_socket(set(), Unit.ACTIVE, query)
        assert {(f.level, f.topic) for f in alike} == {(f.level, f.topic) for f in found}
        assert labels in running_service.firing(("127.0.0.1", 1), query)
        assert next(f for f in alike if f.topic == "WriteStall").text == stall.text
    finally:
        program.close()


FULL = {"device": "/dev/sda1", "fstype": "ext4", "mountpoint": "/srv", "severity": "warning"}


def of_samples(*samples: tuple[str, dict[str, str]], known: Labels = ()) -> list[tuple[str, str]]:
    """Return level and topic of what is found about a service with these series, without OK."""
    found = running_service.of_socket(
        {known} if known else set(),
        Unit.ACTIVE,
        lambda _: [(name, labels, 1.0) for name, labels in samples],
    )
    return [(f.level, f.topic) for f in found if f.level is not Level.OK]


def test_an_alert_of_two_severities_is_one_finding() -> None:
    """A file system that is full fires as a warning and as critical: one problem, the worst."""
    warning = {"alertname": "FilesystemFull", "alertstate": "firing", **FULL}
    critical = {**warning, "severity": "critical"}
    alerts = [("iowarden_alerts", each) for each in (warning, critical)]
    assert of_samples(*alerts) == [(Level.CRITICAL, "FilesystemFull")]
    own = {"alertname": "FilesystemFull", **FULL}
    assert of_samples(*alerts, known=tuple(sorted(own.items()))) == [
        (Level.CRITICAL, "FilesystemFull")
    ]
    own["severity"] = "critical"
    assert of_samples(*alerts, known=tuple(sorted(own.items()))) == []


def test_an_open_incident_counts_only_if_none_of_its_alerts_is_listed() -> None:
    """After the end of its alert it is open for minutes, and the host is not well yet."""
    incident = ("iowarden_incidents_unresolved", {"severity": "warning"})
    alert = ("iowarden_alerts", {"alertname": "FilesystemFull", "alertstate": "firing", **FULL})
    assert of_samples(incident, alert) == [(Level.WARNING, "FilesystemFull")]
    assert of_samples(incident) == [(Level.WARNING, "open incidents")]


def test_an_alert_of_the_check_and_of_the_service_is_the_same() -> None:
    """The service adds the object to the labels: one full file system was counted twice."""
    engine = Engine([], [], 0.0)
    labels = tuple(
        sorted({"alertname": "FilesystemFull", "condition": "space_low", **FULL}.items())
    )
    alert = Alert(
        "FilesystemFull", labels, AlertState.FIRING, 0.9, (), 0.0, subject="file system /srv"
    )
    known = check.on_metrics(alert, engine)
    fires = {**dict(labels), "object": "file system /srv", "alertstate": "firing"}
    assert of_samples(("iowarden_alerts", fires), known=known) == []


UNIT = "/etc/systemd/system/iowarden.service"
GROUP = "/sys/fs/cgroup/system.slice/iowarden.service/cgroup.procs"


@pytest.mark.parametrize(
    ("files", "status", "text"),
    [
        (
            {},
            0,
            "is not running (127.0.0.1:{}: connection refused); it is not installed here",
        ),
        (
            {UNIT: "[Unit]\n"},
            2,
            "is not running (127.0.0.1:{}: connection refused): this machine is not monitored",
        ),
        ({"/usr/lib/systemd/system/iowarden.service": "", GROUP: ""}, 2, "is not running"),
        (
            {UNIT: "", GROUP: "812\n"},
            1,
            "the service is running but does not answer (127.0.0.1:{}: connection refused)",
        ),
        (
            {UNIT: "", GROUP.replace("cgroup/", "cgroup/systemd/", 1): "812\n"},
            1,
            "the service is running but does not answer",
        ),
    ],
    ids=["not installed", "installed", "ended", "hangs", "hangs, version 1"],
)
def test_a_service_that_is_installed_and_does_not_run_is_critical(
    files: Files, status: int, text: str
) -> None:
    """The machine is not monitored then, and a check by cron must not end with 0."""
    port = free_port()
    unit = running_service.unit(Memory(files))
    report = CheckReport(tuple(running_service.findings(("127.0.0.1", port), set(), unit)))
    assert report.status == status
    assert text.format(port) in report.findings[0].text


def test_a_service_behind_tls_that_does_not_answer_is_not_said_to_be_healthy() -> None:
    """Started by hand it may run elsewhere; of an active unit the alerts are not known."""

    def refused(_: str) -> list[tuple[str, dict[str, str], float]]:
        raise UserInputError("no access to iowarden: add you to group 'iowarden-viewer'")

    expected = {
        Unit.ABSENT: (Level.INFO, "--state-directory names it"),
        Unit.INACTIVE: (Level.CRITICAL, "this machine is not monitored"),
        Unit.ACTIVE: (Level.UNKNOWN, "its alerts are not known here: no access to iowarden"),
    }
    for installed, (level, text) in expected.items():
        (found,) = running_service.of_socket(set(), installed, refused)
        assert found.level is level
        assert text in found.text


def test_lines_are_as_long_as_the_terminal_is_wide() -> None:
    """Lines are wrapped to the width of the terminal; a quoted command is not split."""
    text = "word " * 60
    finding = Finding(
        Level.WARNING, "Alert", "sda", text, f"{text}\n  smartctl -x /dev/sda" + "a" * 60
    )
    for width in (50, 100, 160):
        lines = [*CheckReport((finding,)).lines(width)]
        longest = max(len(line) for line in lines if "smartctl" not in line)
        assert width - 5 <= longest <= width
        assert any(line.endswith("smartctl -x /dev/sda" + "a" * 60) for line in lines)


@pytest.mark.parametrize("columns", ["60", "200", ""])
def test_a_pipe_is_100_columns_wide(
    checked: Checker, monkeypatch: pytest.MonkeyPatch, columns: str
) -> None:
    """Whatever terminal it was started from: two reports can be compared."""
    monkeypatch.setenv("COLUMNS", columns)
    _, text = checked(machine(degraded=1))
    assert 90 <= max(map(len, text.splitlines())) <= 100


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_the_configuration_is_judged_as_the_service_reads_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A password that only root can read is missing for the service, which would end with 78."""
    monkeypatch.setattr(service_user, "SERVICE_USER", "nobody")
    with tempfile.TemporaryDirectory() as directory:  # pytest's own is closed to others
        os.chmod(directory, 0o755)
        os.mkdir(f"{directory}/rules.d", 0o755)
        secret, path = f"{directory}/password", f"{directory}/iowarden.yaml"
        mail = f"mail: {{server: m.example.com, to: a@b, user: u, password_file: {secret}}}"
        for name, text in (
            (secret, "s3cret\n"),
            (path, f"rules_directory: {directory}/rules.d\n{mail}\n"),
        ):
            with open(name, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(name, 0o600)
        assert main.main(["config", "check", path]) == 78
        told = capfd.readouterr()
        assert f'mail.password_file = "{secret}": expected a readable file, got' in told.err
        assert told.out == ""
        os.chown(secret, pwd.getpwnam("nobody").pw_uid, -1)
        assert main.main(["config", "check", path]) == 0  # a draft that the service need not read
        assert "(checked as user 'nobody')" in capfd.readouterr().out
        monkeypatch.setattr(command, "DEFAULT_CONFIG", path)
        assert main.main(["config", "check"]) == 78
        assert f"'{path}': expected a readable configuration file" in capfd.readouterr().err
        monkeypatch.setattr(service_user, "SERVICE_USER", "nobody-yet")
        assert main.main(["config", "check", path]) == 0
        assert "user 'nobody-yet' does not exist before" in capfd.readouterr().out


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_a_credential_is_read_by_systemd_and_not_by_the_service(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Only root can read the credential, as recommended."""
    monkeypatch.setattr(service_user, "SERVICE_USER", "nobody")
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryDirectory() as rules:
        os.chmod(rules, 0o755)  # the other one is closed to others
        monkeypatch.setattr(load, "CREDENTIAL_STORES", (directory,))
        path = f"{directory}/iowarden.yaml"
        mail = "mail: {server: m.example.com, to: a@b, user: u, password_credential: p}"
        with open(path, "w", encoding="utf-8") as file:
            file.write(f"rules_directory: {rules}\n{mail}\n")
        assert main.main(["config", "check", path]) == 78
        assert f"expected it in '{directory}', got none" in capfd.readouterr().err
        with open(f"{directory}/p", "w", encoding="utf-8") as file:
            file.write("s3cret\n")
        assert main.main(["config", "check", path]) == 0


def test_no_code_of_ours_stands_in_a_report(checked: Checker) -> None:
    """A report has names of alerts, not codes of conditions."""
    _, text = checked(machine(degraded=1))
    assert "not checked: alerts that need" in text
    assert "WriteStall" in text
    assert re.findall(r"\b[A-S][0-9]{1,2}\b", text) == []


def test_labels_of_the_service_are_read_as_they_were_written() -> None:
    """A mount point with a quote, a backslash and a new line in its name."""
    [(name, labels, value)] = running_service.parse_metrics(
        '# HELP x y\nnode_x 1\niowarden_alerts{mountpoint="/a\\"b\\\\c\\nd",alertname="X"} 1\n'
    )
    assert (name, value) == ("iowarden_alerts", 1.0)
    assert labels == {"mountpoint": '/a"b\\c\nd', "alertname": "X"}


@pytest.mark.parametrize(
    ("alert", "labels", "expected"),
    [
        ("BtrfsErrors", {"fsid": "8f1d", "label": "data", "devid": "1"}, "data"),
        ("BtrfsErrors", {"fsid": "8f1d", "label": "", "devid": "1"}, "8f1d"),
        ("ZfsPoolDegraded", {"pool": "tank"}, "pool tank"),
        ("BackupOld", {"directory": "/srv/backup", "glob": "*"}, "/srv/backup"),
        ("ControllerBatteryFault", {"controller": "megaraid c0", "battery": "bbu"}, "megaraid c0"),
        ("QueueDepthTooLarge", {"host": "host0"}, "host0 (SCSI host adapter)"),
        ("DiskSelfTestFailed", {"disk": "ZFN0", "device": "sda"}, "sda"),
        ("DiskSelfTestFailed", {"disk": "ZFN0"}, "disk ZFN0"),
        ("FilesystemFull", {"mountpoint": "/srv", "device": "sda1"}, "/srv"),
        ("StateNotDurable", {}, "iowarden itself"),
        ("WriteStall", {}, "host"),
    ],
)
def test_an_alert_of_the_service_has_its_object_and_the_way_to_its_meaning(
    alert: str, labels: dict[str, str], expected: str
) -> None:
    """Whichever labels name the object; only what is about the whole host is of 'host'."""
    sample = {"alertname": alert, "alertstate": "firing", "severity": "warning", **labels}
    found = running_service.of_socket(
        set(), Unit.ACTIVE, lambda _: [("iowarden_alerts", sample, 1.0)]
    )
    firing = next(each for each in found if each.topic == alert)
    assert firing.object == expected
    assert firing.text.endswith(f"iowarden explain {alert}")


@pytest.mark.parametrize(("key", "found"), [("", 1), ("trace: false\n", 0)])
def test_that_no_disk_of_a_host_can_be_traced_is_reported(key: str, found: int) -> None:
    """As information: nothing else depends on it. Not reported with 'trace: false'."""
    memory = Memory()
    memory.write({"/sys/kernel/security/lockdown": "none integrity [confidentiality]\n"})
    settings = parse_config(f"host: db1\n{key}", "iowarden.yaml")
    lines = list(findings.of_tracing(settings, memory))
    assert [(each.level, each.topic) for each in lines] == [(Level.INFO, "trace")] * found
    assert all("mode 'confidentiality'" in each.text for each in lines)


@pytest.mark.parametrize("program", ["node_exporter", "smartctl_exporter"])
@pytest.mark.parametrize(("expose", "status"), [("false", 0), ("true", 1)])
def test_another_exporter_matters_when_its_names_are_shown(
    program: str, expose: str, status: int
) -> None:
    """Two 'node_uname_info' of one host break rules: a warning; otherwise information."""
    key = program.removesuffix("_exporter")
    settings = parse_config(f"expose: {{{key}: {expose}}}\n", "iowarden.yaml")
    report = CheckReport(
        tuple(findings.of_exporters([Exporter(9100, program, "200 OK")], settings))
    )
    assert report.status == status
    assert "port 9100" in report.findings[0].text
    assert f"'expose.{key}" in report.findings[0].text


def test_an_exporter_of_something_else_is_only_named() -> None:
    """A program whose metrics do not conflict with ours."""
    settings = parse_config("expose: {node: true, smartctl: true}\n", "iowarden.yaml")
    [found] = findings.of_exporters([Exporter(9100, None, "401 Unauthorized")], settings)
    assert (found.level, found.text) == (Level.INFO, "port 9100 answers 401 Unauthorized")


def test_groups_that_need_a_longer_look_are_there() -> None:
    """A renamed group would be missing in the list."""
    assert {group.name for group in GROUPS} >= findings.SLOW_GROUPS


def test_who_reads_the_password_as_a_member_of_the_services_group_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An administrator added two users; on a new machine the group is empty."""
    members = grp.struct_group(("iowarden", "x", 990, ["bob", "alice"]))
    monkeypatch.setattr(grp, "getgrnam", lambda name: members)
    (found,) = findings.of_roles()
    assert (found.level, found.topic) == (Level.INFO, "roles")
    assert found.text.startswith("in group 'iowarden': alice, bob; they may read the configuration")
    assert "gpasswd -d alice iowarden" in found.text
    members = grp.struct_group(("iowarden", "x", 990, []))
    assert not list(findings.of_roles())
