"""The probe under its shipped unit: what it may do, and what a disk that hangs does to it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from vm.harness import MEBIBYTE, Disk, Result, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vm.harness import VM
    from vm.watched import Watched

HERE = Path(__file__).resolve().parent
SCRIPTS = "/usr/local/share/iowarden-tests"
UNITS = (
    "iowarden.service",
    "iowarden-control.socket",
    "iowarden-probe.socket",
    "iowarden-probe.service",
    "iowarden-trace.socket",
)
MAIL_SECONDS = 300.0
IDLE_SECONDS = 120.0
"""The probe ends after 30 s without a client."""

LOOK_AT_PROCESS_1 = """
import time
for _ in range(20):
    print(open("/proc/1/stat").read().split()[2])
    time.sleep(0.25)
"""

TRIED = {
    "program of 32 bits": 42,
    "smartctl": 0,
    "debugfs": 0,
    "MegaRAID's node": True,
    "mpt3ctl": True,
    "kernel log": True,
    "stack": True,
    "wait channel": True,
    "input and output": True,
    "closed directory": True,
    "give up capabilities": 0,
    "memory file": None,
    "scratch": 1,
    "write to a disk": "PermissionError",
    "write to the kernel log": "PermissionError",
    "memory": "PermissionError",
    "make a disk's node": "PermissionError",
    "write to the system": "OSError",
    "mount": 32,
    "load a module": 1,
    "network": "OSError",
    "be a program": None,
    "end another's process": "PermissionError",
    "be another": "PermissionError",
}


@dataclass(frozen=True, slots=True)
class Stuck:
    """A machine one of whose disks has hung a program that was killed."""

    watched: Watched
    device: str
    pid: int
    answers: list[dict[str, Any]]

    @property
    def vm(self) -> VM:
        """The machine."""
        return self.watched.vm

    def seconds(self) -> float | None:
        """For how long the watchdog has known the program as stuck; None: it does not."""
        return self.watched.metric(
            "iowarden_probe_program_stuck_seconds",
            program="smartctl",
            pid=str(self.pid),
            device=self.device,
            controller=self.device,
        )

    def programs(self) -> list[int]:
        """The processes of smartctl that there are."""
        return [int(each) for each in self.vm.run("pidof smartctl || :").split()]


@pytest.fixture(scope="module")
def scripts(watched: Watched) -> Watched:
    """Bring the scripts that run in the guest there, where any user reads them."""
    names = ("ask_probe.py", "try_settings.py")
    watched.vm.push(SCRIPTS, [(HERE / name, name) for name in names])
    return watched


@pytest.fixture(scope="module")
def stuck(scripts: Watched) -> Iterator[Stuck]:
    """Ask about three disks, one of which hangs; return when all answers are there."""
    vm = scripts.vm
    vm.plug(Disk("sick", 64 * MEBIBYTE))
    device = vm.device("sick")
    # The watchdog asks a disk that comes; were that question to hang, ours would only be busy.
    wait_for(
        lambda: (
            scripts.disks().get("sick", {"monitoring_state": "not_polled_yet"})["monitoring_state"]
            != "not_polled_yet"
        ),
        "the watchdog's own question",
        120,
    )
    # One request at a time: the next waits behind the one that hangs, in the kernel.
    vm.run(f"echo 1 > /sys/block/{device}/device/queue_depth")
    vm.throttle("sick", total=1)
    reader = vm.start(f"dd if=/dev/{device} of=/dev/null iflag=direct bs=4k count=64")
    try:
        wait_for(lambda: "D" in vm.run("ps -C dd -o stat= || :"), "a hung reader", 60)
        pid, answers = _ask_until_stuck(vm, device)
        yield Stuck(scripts, device, pid, answers)
    finally:
        # What hangs would be another disk's alert in the modules that follow.
        vm.throttle("sick")
        reader.wait(120)
        vm.unplug("sick")


def _ask_until_stuck(vm: VM, device: str) -> tuple[int, list[dict[str, Any]]]:
    """Ask about three disks until the program that looks at `device` hangs; return its answers.

    A program needs seconds to start here, and one that is killed before its request hangs nowhere;
    or the watchdog itself has asked meanwhile, whose deadline is later. Late, it would be stuck
    after the last mail of the hang, which is to name it: the first deadline is short.
    """
    names = (device, *healthy(vm), device)
    asked: list[list[dict[str, Any]]] = []
    hung: list[int] = []

    def stuck() -> bool:
        deadline_seconds = 60 if asked else 20
        asked.append(ask(vm, *(smartctl(name, deadline_seconds) for name in names))["answers"])
        hung[:] = (each["pid"] for each in ask(vm)["hello"]["stuck"])
        return bool(hung) and asked[-1][0]["outcome"] == "stuck"

    wait_for(stuck, f"'smartctl' to hang on {device}", 180)
    (pid,) = hung
    return pid, asked[-1]


def ask(vm: VM, *requests: dict[str, Any]) -> dict[str, Any]:
    """Ask the probe as the watchdog's user; return its greeting and its answers."""
    result = ask_as("iowarden", vm, *requests)
    assert result.status == 0, result.stderr
    asked: dict[str, Any] = json.loads(result.stdout)
    return asked


def ask_as(user: str, vm: VM, *requests: dict[str, Any]) -> Result:
    """Ask the probe as somebody; return what came of it."""
    lines = "".join(json.dumps(each) + "\n" for each in requests).encode()
    command = f"runuser -u {user} -- /usr/bin/python3 {SCRIPTS}/ask_probe.py"
    return vm.start(command, lines, 120).wait(180)


def smartctl(device: str, deadline_seconds: float = 60) -> dict[str, Any]:
    """Return the request to look at a disk."""
    return {
        "verb": "run",
        "arguments": ["smartctl", "--json=c", "-i", f"/dev/{device}"],
        "deadline_seconds": deadline_seconds,
    }


def healthy(vm: VM) -> tuple[str, str]:
    """Return the disks that work."""
    return vm.device("slow"), vm.device("fast")


def test_the_watchdogs_user_asks_what_only_root_may_know(scripts: Watched) -> None:
    """A disk's identity, an open kernel log, who waits; each by the program root has installed."""
    vm = scripts.vm
    asked = ask(vm, smartctl(vm.device("fast")), {"verb": "kmsg"}, {"verb": "tasks"})
    identity, log, tasks = asked["answers"]
    assert json.loads(identity["value"]["stdout"])["serial_number"] == "fast"
    assert ";" in log["descriptors"][0]
    assert tasks["outcome"] == "done"
    assert asked["hello"]["programs"]["smartctl"] == "/usr/sbin/smartctl"


@pytest.mark.parametrize("user", ["daemon", "nobody", "disk-group"])
def test_nobody_else_reaches_the_probe(scripts: Watched, user: str) -> None:
    """Not another service, not who may read disks, not who may ask the watchdog."""
    scripts.vm.run("id disk-group || useradd --groups iowarden,disk disk-group")
    result = ask_as(user, scripts.vm)
    assert result.status != 0
    assert "PermissionError" in result.stderr


def test_the_watchdogs_user_can_run_nothing_else(scripts: Watched) -> None:
    """Other programs, arguments, paths and symbolic links: refused, each; the journal tells it."""
    vm = scripts.vm
    disk = f"/dev/{vm.device('fast')}"
    vm.run(
        "runuser -u iowarden -- sh -c 'cp /usr/bin/true /dev/shm/smartctl;"
        " ln -sf /etc/shadow /dev/shm/sda; ln -sf ../sda /dev/shm/sdb'"
    )
    command_lines = [
        ["sh", "-c", "id"],
        ["/bin/sh"],
        ["/usr/sbin/smartctl", "-i", disk],
        ["/dev/shm/smartctl", "-i", disk],
        ["../../dev/shm/smartctl", "-i", disk],
        ["smartctl;id", "-i", disk],
        ["smartctl", "-s", "off", disk],
        ["smartctl", "-i", "-s", "off", disk],
        ["smartctl", "-ioff", disk],
        ["smartctl", "--sm=off", disk],
        ["smartctl", "--set=wcache,off", disk],
        ["smartctl", "-i", "/etc/shadow"],
        ["smartctl", "-i", "/dev/shm/sda"],
        ["smartctl", "-i", "/dev/shm/sdb"],
        ["smartctl", "-i", "/dev/../etc/shadow"],
        ["smartctl", "-i", f"{disk}\n"],
        ["smartctl", "-d", "jmb39x,0", "-i", disk],
        ["smartctl", "-i"],
        ["mdadm", "--stop", "/dev/md0"],
        ["mdadm", "--detail", "--scan", "--config=/etc/shadow"],
        ["debugfs", "-w", "-R", "rm /etc/passwd", disk],
        ["debugfs", "-R", "cat /etc/shadow", disk],
        ["debugfs", "-R", "dump /etc/shadow /tmp/x", disk],
        ["debugfs", "-f", "/etc/shadow", disk],
        ["debugfs", "-c", "-R", "stat <12>", disk],
        ["debugfs", "-c", "-R", "ncheck 12", disk],
        ["find", "/", "-xdev", "-inum", "12", "-printf", "%y:%s:%p\\0", "-quit"],
        ["xfs_io", "-c", "pwrite 0 4096", "/etc/passwd"],
        [],
    ]
    requests = [{"verb": "run", "arguments": each} for each in command_lines]
    requests += [{"verb": "shell", "arguments": ["id"]}, {"verb": "statvfs", "arguments": ["/.."]}]
    requests += [{"verb": "ext4_owners", "arguments": ["/etc/shadow", "0", "8"]}]
    answers = ask(vm, *requests)["answers"]
    wrong = [
        (request["arguments"], answer["outcome"])
        for request, answer in zip(requests, answers, strict=True)
        if answer["outcome"] != "refused"
    ]
    assert wrong == []
    assert "refused" in vm.run("journalctl --boot --output=cat --identifier=iowarden-probe")


def test_the_owner_of_a_block_is_told_and_no_more(scripts: Watched) -> None:
    """Of the root file system: its first blocks are no file's, and nothing is named."""
    system = scripts.vm.run("findmnt --noheadings --output SOURCE /").strip()
    request = {"verb": "ext4_owners", "arguments": [system, "0", "8"], "deadline_seconds": 120}
    (answer,) = ask(scripts.vm, request)["answers"]
    assert answer["outcome"] == "done", answer["error"]
    assert answer["value"]["names"] == []


def test_the_unit_allows_what_disks_need_and_no_more(scripts: Watched) -> None:
    """Everything is tried under the unit's own settings; only the program is another.

    The drivers of two kinds of controllers are loaded, so that their nodes could be there.
    """
    vm = scripts.vm
    vm.run("modprobe megaraid_sas && modprobe mpt3sas && rm -f /dev/megaraid_sas_ioctl_node")
    system = vm.run("findmnt --noheadings --output SOURCE /").strip()
    script = f"{SCRIPTS}/try_settings.py /dev/{vm.device('fast')} {system}"
    program = f"/usr/lib/iowarden/bin/python -I {script}"
    vm.run(
        f"sed -e 's|^ExecStart=.*|ExecStart={program}|' -e 's/^Type=.*/Type=oneshot/'"
        " -e '/^Restart/d' -e '/^NotifyAccess/d' -e '/iowarden.service/d'"
        " -e '/^RuntimeDirectory/d' -e '/^Requires/d'"
        " -e '/^LimitCORE/a StandardOutput=file:/run/tried.json'"
        " /usr/lib/systemd/system/iowarden-probe.service > /run/systemd/system/tried.service"
    )
    vm.run("systemctl daemon-reload && systemctl start tried", timeout_seconds=180)
    assert json.loads(vm.run("cat /run/tried.json")) == TRIED


@pytest.mark.parametrize(("unit", "tenths"), [("iowarden", 20), ("iowarden-probe", 40)])
def test_the_units_are_hardened_where_they_run(scripts: Watched, unit: str, tenths: int) -> None:
    """systemd's score of each is below its limit, also with what the system's own files add."""
    scripts.vm.run(f"systemd-analyze security --no-pager --threshold={tenths} {unit}.service")


def test_a_trace_under_its_unit_measures_the_reads_of_a_disk(scripts: Watched) -> None:
    """1,000 reads of 4 KiB, traced as the service's user by a process without a capability."""
    vm = scripts.vm
    path = f"/dev/{vm.device('fast')}"
    reader = f"dd if={path} of=/dev/null bs=4k count=1000 iflag=direct"
    vm.run(f"systemd-run sh -c 'sleep 20; {reader}'")
    command = f"runuser -u iowarden -- iowarden trace --for 40s --no-files --json {path}"
    traced = json.loads(vm.run(command, timeout_seconds=180))
    (disk,) = traced["disks"]
    read = [each for each in disk["latencies"] if each["operation"] == "read"]
    assert [each["requests"] for each in read if each["size"] == "<= 4 KiB"] == [1000], disk
    assert traced["lost_events"] == 0
    assert "dd" in {each["program"] for each in disk["slowest"]}
    assert vm.run("ls /sys/kernel/tracing/instances") == ""


def test_a_disk_that_hangs_keeps_no_other_from_being_queried(stuck: Stuck) -> None:
    """Two answer as ever; the sick one's program survived its end, and none was put beside it."""
    sick, slow, fast, again = stuck.answers
    assert (slow["outcome"], fast["outcome"]) == ("done", "done")
    assert sick["outcome"] == "stuck"
    assert again["outcome"] in {"busy", "stuck"}
    assert str(stuck.pid) in sick["error"]
    assert stuck.programs() == [stuck.pid]
    state = stuck.vm.run(f"cut -d ' ' -f 3 /proc/{stuck.pid}/stat")
    assert state.strip() == "D"


def test_a_program_gets_nothing_of_whoever_asked(stuck: Stuck) -> None:
    """It hangs, so it can be looked at: environment, directory, input, and no other descriptor."""
    process = f"/proc/{stuck.pid}"
    environment = stuck.vm.run(f"tr '\\0' '\\n' < {process}/environ").split()
    assert "LC_ALL=C" in environment
    assert {each.partition("=")[0] for each in environment} <= {
        *("LC_ALL", "PATH", "HOME", "TW_CLI_LOG", "TZ"),
    }
    assert stuck.vm.run(f"readlink {process}/cwd").startswith("/run/iowarden-probe/")
    assert stuck.vm.run(f"readlink {process}/fd/0").strip() == "/dev/null"
    opened = stuck.vm.run(f"readlink {process}/fd/*").split()
    assert {each.partition(":")[0] for each in opened} == {
        *("/dev/null", "pipe", f"/dev/{stuck.device}"),
    }


def test_the_alert_names_what_is_stuck(stuck: Stuck) -> None:
    """It is evidence of a failing disk, so it is in the mail of that disk's incident."""
    wait_for(
        lambda: stuck.watched.mail.naming("ProbeProgramStuck", stuck.device, str(stuck.pid)),
        "a mail of the program that hangs",
        MAIL_SECONDS,
    )
    assert stuck.seconds() is not None


def test_the_watchdog_stays_quiet_while_a_program_hangs(stuck: Stuck) -> None:
    """The service is the one that was started."""
    unit = stuck.watched.unit("ActiveState", "NRestarts", "Result")
    assert unit == {"ActiveState": "active", "NRestarts": "0", "Result": "success"}


def test_a_probe_that_is_killed_knows_again_what_is_stuck(stuck: Stuck) -> None:
    """The next one finds it by its start time, starts none beside it, and asks the others."""
    stuck.vm.run("systemctl kill --kill-who=main --signal=KILL iowarden-probe")
    asked = ask(stuck.vm, smartctl(stuck.device), *map(smartctl, healthy(stuck.vm)))
    assert [each["pid"] for each in asked["hello"]["stuck"]] == [stuck.pid]
    assert [each["outcome"] for each in asked["answers"]] == ["stuck", "done", "done"]
    assert stuck.programs() == [stuck.pid]


def test_a_watchdog_that_is_restarted_knows_again_what_is_stuck(stuck: Stuck) -> None:
    """The probe goes on beside it."""
    probe = "systemctl show --property=MainPID --value iowarden-probe"
    ask(stuck.vm)
    before = stuck.vm.run(probe)
    stuck.vm.run("systemctl restart iowarden", timeout_seconds=180)
    wait_for(lambda: stuck.seconds() is not None, "the stuck program in '/metrics'", 120)
    assert stuck.vm.run(probe) == before


def test_stopping_does_not_wait_for_what_is_stuck(stuck: Stuck) -> None:
    """All units are stopped, and asking starts none; after a start it is known again."""
    stuck.vm.run("systemctl stop iowarden iowarden-probe", timeout_seconds=60)
    # failed: systemd could not end what is stuck. The probe's socket stops when it sees no need.
    wait_for(
        lambda: (
            {*stuck.vm.run(f"systemctl is-active {' '.join(UNITS)} || :").split()}
            <= {"inactive", "failed"}
        ),
        "the end of all units",
        60,
    )
    assert ask_as("iowarden", stuck.vm).status != 0
    assert stuck.vm.start("iowarden status").wait(60).status == 1
    assert "active" not in stuck.vm.run(f"systemctl is-active {' '.join(UNITS)} || :").split()
    assert stuck.programs() == [stuck.pid]
    stuck.vm.run("systemctl start iowarden", timeout_seconds=180)
    wait_for(lambda: stuck.seconds() is not None, "the stuck program in '/metrics'", 120)


def test_all_is_well_when_the_disk_answers_again(stuck: Stuck) -> None:
    """The program ends, and its alert resolves."""
    stuck.vm.throttle("sick")
    wait_for(lambda: stuck.programs() == [], "the end of the program", 60)
    wait_for(lambda: stuck.seconds() is None, "its end in '/metrics'", 120)
    answers = ask(stuck.vm, smartctl(stuck.device))["answers"]
    assert [each["outcome"] for each in answers] == ["done"]


def test_a_probe_that_nobody_asks_ends(scripts: Watched) -> None:
    """Its socket stays, and the next request starts it.

    The service is told to ask nothing: by itself it asks each minute where the load is not zero.
    """
    vm = scripts.vm
    file = "/etc/iowarden/iowarden.yaml"
    ask(vm)
    vm.run(f"echo 'probe: false' >> {file}; systemctl restart iowarden", timeout_seconds=180)
    try:
        probe = "systemctl show --property=ActiveState --value iowarden-probe"
        assert vm.run(probe).strip() == "active"
        wait_for(lambda: vm.run(probe).strip() == "inactive", "the idle end", IDLE_SECONDS)
        assert vm.run("systemctl is-active iowarden-probe.socket").strip() == "active"
        ask(vm)
        assert vm.run(probe).strip() == "active"
    finally:
        vm.run(
            f"sed -i '/^probe: false$/d' {file}; systemctl restart iowarden", timeout_seconds=180
        )


def test_the_probe_and_systemd_start_it_while_the_root_disk_hangs(scripts: Watched) -> None:
    """Nothing is written to a disk for a start: process 1 does not wait, other disks are asked."""
    vm = scripts.vm
    look = f"/usr/bin/python3 -c '{LOOK_AT_PROCESS_1}'"
    ask(vm, smartctl(vm.device("fast")))  # what is needed is in memory, as are these
    vm.run(f"systemctl stop iowarden-probe; touch /run/writing; {look}")
    write = "dd if=/dev/zero of=/var/tmp/x bs=64k count=4 conv=fsync"
    vm.start(f"while [ -e /run/writing ]; do {write}; done")
    vm.throttle("root", total=1)
    try:
        asked = ask(vm, smartctl(vm.device("fast")))
        assert [each["outcome"] for each in asked["answers"]] == ["done"]
        vm.run("systemctl restart --no-block iowarden")
        assert set(vm.run(look).split()) != {"D"}
    finally:
        vm.throttle("root")
        vm.run("rm /run/writing")
