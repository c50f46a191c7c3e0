"""What the VM tests share: a guest with iowarden installed as its README says."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING

import pytest
from vm.harness import IMAGES, MEBIBYTE, VM, Bus, Disk, EndedError, UnavailableError, image, turn
from vm.watched import RUNNING, seen, watching

if TYPE_CHECKING:
    from vm.watched import Watched

Boot = Callable[..., VM]

_SHOWN = pytest.StashKey[set[int]]()
"""Failures of fixtures: each test that needs one repeats it."""

AGAIN = IMAGES / "again"
"""The files to try again: QEMU ended under them or something took too long; all else passed."""
MAX_AGAIN = 2
"""More are not a matter of the machine that emulates the guests."""
TRY_AGAIN = 7
"""The exit status then; pytest itself uses 0 to 5."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to a failure what the service in the guest said: the guest is gone when it is read."""
    report = yield
    if not report.failed or call.excinfo is None:
        return report
    shown = item.session.stash.setdefault(_SHOWN, set())
    if id(call.excinfo.value) not in shown:
        shown.add(id(call.excinfo.value))
        report.user_properties.append(("the guest", seen()))
    ended = next((watched.vm.ended for watched in RUNNING if watched.vm.ended), None)
    if ended is not None or _is_ended(call.excinfo.value):
        report.user_properties.append(("ended", ended or str(call.excinfo.value)))
    return report


def _is_ended(error: BaseException) -> bool:
    """Whether nothing else went wrong: what several fixtures raise at their end is one group.

    An emulated machine may take longer than any limit while the one that emulates it is busy. What
    is late because of a defect is so the second time as well.
    """
    if isinstance(error, BaseExceptionGroup):
        return all(map(_is_ended, error.exceptions))
    return isinstance(error, EndedError | TimeoutError)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """List what to try again if all that failed may be the fault of a machine: `TRY_AGAIN`."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(session.config, "workerinput"):
        return
    AGAIN.unlink(missing_ok=True)
    failed = [*reporter.getreports("failed"), *reporter.getreports("error")]
    files = sorted({report.nodeid.partition("::")[0] for report in failed})
    is_of_machine = all("ended" in dict(report.user_properties) for report in failed)
    if 0 < len(files) <= MAX_AGAIN and is_of_machine:
        AGAIN.write_text("\n".join(files) + "\n")
        session.exitstatus = TRY_AGAIN


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print it last: of long outputs their ends are kept. Print what tests have measured."""
    for report in terminalreporter.getreports("passed"):
        for name, text in report.user_properties:
            if name == "measured":
                terminalreporter.write_line(f"{report.nodeid}: {text}")
    for outcome in ("failed", "error"):
        for report in terminalreporter.getreports(outcome):
            for name, text in getattr(report, "user_properties", ()):
                if name == "the guest":
                    terminalreporter.section(f"what the service in the guest said: {report.nodeid}")
                    terminalreporter.write_line(str(text))


@pytest.fixture(scope="session")
def boot() -> Iterator[Boot]:
    """Return what boots a guest with disks; iowarden is installed there."""
    try:
        image()
    except UnavailableError as error:
        pytest.skip(str(error))
    with turn():
        yield VM


@pytest.fixture(scope="session")
def guest(boot: Boot) -> Iterator[VM]:
    """Boot a guest with a slow disk, which is none of a virtual adapter, and a fast one."""
    disks = [Disk("slow", 4096 * MEBIBYTE, 5400, Bus.SATA), Disk("fast", 1024 * MEBIBYTE, 1)]
    with boot(disks, memory_mebibytes=2048) as vm:
        for disk in disks:
            device, directory = f"/dev/{vm.device(disk.name)}", f"/mnt/{disk.name}"
            vm.run(f"mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 {device}")
            vm.run(f"mkdir {directory} && mount {device} {directory}")
        yield vm


@pytest.fixture(scope="module")
def watched(guest: VM, request: pytest.FixtureRequest) -> Iterator[Watched]:
    """Start iowarden as a service without a past, with a module's SETTINGS."""
    with watching(guest, getattr(request.module, "SETTINGS", "")) as watched:
        try:
            yield watched
        finally:
            for name in ("slow", "fast", "root"):
                guest.throttle(name)
            guest.run("rm -f /run/writing")
