"""Competing monitors of the same disks: their identity, and how to stop them."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.memory import write_tree

from iowarden.collectors.competing_monitors import (
    PROGRAMS,
    MonitorProcess,
    Monitors,
    emit,
    parse_unit,
    read_monitors,
)
from iowarden.collectors.machine import Machine
from iowarden.collectors.model import AbsentError, ReadError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from conftest import MachineMaker

INIT: dict[str, str | bytes | None] = {"/proc/1/comm": "systemd\n", "/proc/1/cgroup": "0::/init\n"}
SMARTD = "0::/system.slice/smartmontools.service\n"
ARECA = "/sys/bus/pci/drivers/arcmsr/0000:02:00.0"


def process(pid: int, command: str, groups: str = "0::/\n") -> dict[str, str | bytes | None]:
    """Return the files of a process."""
    return {f"/proc/{pid}/comm": command + "\n", f"/proc/{pid}/cgroup": groups}


def samples(value: Monitors) -> dict[tuple[str, ...], float]:
    """Return the samples by metric and label values."""
    return {
        (name.removeprefix("iowarden_competing_monitor_"), *(text for _, text in labels)): number
        for name, labels, number in emit(value)
    }


def running(value: Monitors) -> Mapping[str, tuple[MonitorProcess, ...]]:
    """Return the running programs of a read without a controller."""
    assert value.drivers == frozenset()
    return value.running


@pytest.fixture
def named() -> Iterator[subprocess.Popen[bytes]]:
    """Return a process of this machine whose name is Areca's web server's, until its input ends."""
    script = "echo archttp64 > /proc/$$/comm && echo && read _"
    child = subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"\n"
        yield child


def test_smartd_as_debian_starts_it(machine: MachineMaker) -> None:
    """Its unit is what systemctl stops; a shell with that name in its arguments is not smartd."""
    root = machine(INIT | process(812, "smartd", SMARTD) | process(900, "bash"))
    assert running(read_monitors(root)) == {
        "smartd": (MonitorProcess(812, "smartmontools.service"),)
    }


def test_where_nothing_runs_each_program_is_known_not_to_run(machine: MachineMaker) -> None:
    """0 from the first read on; no process, no controller."""
    found = samples(read_monitors(machine(INIT)))
    assert found == {("running", monitor.name): 0.0 for monitor in PROGRAMS}


def test_of_three_processes_the_oldest_is_named_once_for_each_unit(machine: MachineMaker) -> None:
    """3dm2 forks children; 999 is older than 1000 although its name sorts after it."""
    files = INIT | {k: v for pid in (1001, 999, 1000) for k, v in process(pid, "3dm2").items()}
    files |= process(77_000, "3dm2", "0::/system.slice/3dm2.service\n")
    assert running(read_monitors(machine(files))) == {
        "3dm2": (MonitorProcess(999, ""), MonitorProcess(77_000, "3dm2.service"))
    }


def test_a_java_is_what_its_unit_reports(machine: MachineMaker) -> None:
    """MegaRAID Storage Manager is one, in addition to its monitor; a database is none."""
    files = (
        INIT
        | process(700, "mrmonitord", "0::/system.slice/vivaldiframeworkd.service\n")
        | process(701, "java", "0::/system.slice/vivaldiframeworkd.service\n")
        | process(702, "java", "0::/system.slice/cassandra.service\n")
        | process(703, "java")
        | process(704, "java", "0::/system.slice/stor_tomcat.service\n")
    )
    assert running(read_monitors(machine(files))) == {
        "megaraid-storage-manager": (MonitorProcess(700, "vivaldiframeworkd.service"),),
        "adaptec-storage-manager": (MonitorProcess(704, "stor_tomcat.service"),),
    }


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        (SMARTD, "smartmontools.service"),
        ("0::/system.slice/system-smart.slice/smart@a.service\n", "smart@a.service"),
        ("12:pids:/x\n1:name=systemd:/system.slice/smartd.service\n0::/\n", "smartd.service"),
        ("12:pids:/system.slice/smartd.service\n1:name=systemd:/\n", ""),
        ("0::/user.slice/user-0.slice/session-2.scope\n", ""),
        ("0::/user.slice/user-1000.slice/user@1000.service/app.slice/smartd.service\n", ""),
        ("0::/lxc/100/ns/system.slice/smartmontools.service\n", ""),
        ("0::/system.slice/docker-0a1b.scope\n", ""),
        ("0::/system.slice/docker.service/a1b2\n", ""),
        ("0::/system.slice/x;reboot.service\n", ""),
        ("0::/system.slice/$(reboot).service\n", ""),
        ("0::/system.slice/.service\n", ""),
        ("", ""),
        ("0\n::\n:\n", ""),
    ],
)
def test_only_a_service_of_the_system_is_one_to_stop(text: str, unit: str) -> None:
    """No advice to stop docker, another user's service, or to run an injected command."""
    assert parse_unit(text) == unit


@given(st.text(st.sampled_from("ab-_.:@/\\ \t\n'\"`$&|;<>()*?[]#~!{}é")))
def test_no_unit_needs_quoting_in_a_shell(text: str) -> None:
    """Whatever the name of a group, the shown command has only the intended effect."""
    unit = parse_unit(f"0::/system.slice/{text}.service")
    assert not set(unit) & set("\\ \t\n'\"`$&|;<>()*?[]#~!{}")
    assert not unit.startswith("-")


def test_at_an_areca_and_a_3ware_two_programs_clash(machine: MachineMaker) -> None:
    """Present controllers are reported, with programs that may interfere there, running or not."""
    root = machine(
        INIT
        | process(812, "smartd", SMARTD)
        | {ARECA: None, "/sys/bus/pci/drivers/3w-9xxx/0000:03:00.0": None}
        | {"/sys/bus/pci/drivers/3w-sas/bind": "", "/sys/bus/pci/drivers/3w-sas/module": None}
    )
    found = samples(read_monitors(root))
    assert {key[1:]: value for key, value in found.items() if key[0] == "conflict"} == {
        ("arcmsr", "smartd"): 1.0,
        ("arcmsr", "archttp"): 0.0,
        ("3w-9xxx", "3dm2"): 0.0,
    }
    assert found["pid", "smartd", "smartmontools.service"] == 812


# --- what cannot be seen


def test_where_others_are_hidden_nothing_is_reported(machine: MachineMaker) -> None:
    """hidepid=2: only iowarden's own processes are visible; whether others run is unknown."""
    with pytest.raises(AbsentError, match=r"'/proc/1/comm': No such file.*hidepid"):
        read_monitors(machine(process(4711, "iowarden")))


def test_where_others_show_and_may_not_be_read_nothing_is_reported(tmp_path: Path) -> None:
    """hidepid=1; here by a file that the kernel makes unreadable, even for root."""
    unreadable = Path("/sys/bus/platform/drivers_probe")
    if not unreadable.exists():
        pytest.skip("this kernel has no platform bus")
    write_tree(tmp_path, {"/proc/1": None})
    root = Machine(str(tmp_path))
    Path(root.path, "proc/1/comm").symlink_to(unreadable)
    with pytest.raises(AbsentError, match=r"'/proc/1/comm': Permission denied.*hidepid"):
        read_monitors(root)


@pytest.mark.parametrize("name", ["1/comm", "77/comm", "812/cgroup"])
def test_another_error_is_no_sign_that_nothing_runs(name: str, machine: MachineMaker) -> None:
    """A directory in its place: the read has failed."""
    files = INIT | process(77, "sleep") | process(812, "smartd", SMARTD)
    del files[f"/proc/{name}"]
    with pytest.raises(ReadError, match=f"'/proc/{name}'"):
        read_monitors(machine(files | {f"/proc/{name}": None}))


def test_a_process_that_ended_meanwhile_is_left_out(
    tmp_path: Path, named: subprocess.Popen[bytes]
) -> None:
    """Its directory is empty, or the kernel returns 'No such process' for an opened file."""
    others = {"/proc/500": None, **process(501, ""), **process(812, "smartd", SMARTD)}
    write_tree(tmp_path, INIT | others)
    root = Machine(str(tmp_path))
    with open(f"/proc/{named.pid}/comm", encoding="utf-8") as file:
        Path(root.path, "proc/501/comm").unlink()
        # Reopened by its number the file exists, although the process has ended.
        Path(root.path, "proc/501/comm").symlink_to(f"/proc/self/fd/{file.fileno()}")
        assert running(read_monitors(root)).keys() == {"smartd", "archttp"}
        named.communicate()
        with pytest.raises(ProcessLookupError):
            Path(root.path, "proc/501/comm").read_text()
        assert running(read_monitors(root)).keys() == {"smartd"}


# --- this machine


def test_a_process_of_this_machine(named: subprocess.Popen[bytes]) -> None:
    """The kernel reports its name and its group."""
    mine = {process.pid for process in read_monitors(Machine()).running.get("archttp", ())}
    assert mine
    assert min(mine) <= named.pid


def test_one_that_ends_while_it_is_looked_at_does_not_run(
    named: subprocess.Popen[bytes],
) -> None:
    """After its name was read, before its group: it is not reported as running outside any unit."""

    def seen(path: str, _: bytes) -> None:
        if path == f"/proc/{named.pid}/comm":
            named.communicate()

    found = read_monitors(Machine(seen=seen)).running.get("archttp", ())
    assert named.returncode is not None
    assert named.pid not in {process.pid for process in found}
