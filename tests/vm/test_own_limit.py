"""Programs that wait because of a limit of their own unit: the kernel throttles a control group.

In a file of its own, so that no freeze of the same disk is open from before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from vm.harness import wait_for
from vm.watched import program_that_commits, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vm.watched import Watched

MAIL_SECONDS = 300.0
"""The machine that emulates the guest may have other work meanwhile."""


def _mails(watched: Watched) -> list[str]:
    return [text_of(mail) for mail in watched.mail.naming("Freeze", "io.max")]


@pytest.fixture
def limited(watched: Watched) -> Iterator[Watched]:
    """A unit with IOWriteBandwidthMax of 256 kB/s on a fast disk: one thread writes, two commit."""
    vm = watched.vm
    vm.run("touch /run/writing")
    vm.run("cat >/run/report.py", program_that_commits("/mnt/fast"))
    limit = "--property='IOWriteBandwidthMax=/mnt/fast 256K'"
    report = vm.start(f"systemd-run --wait --quiet --unit=report {limit} python3 /run/report.py")
    yield watched
    # Else what is unwritten is written at the limit, for half an hour, and each sync waits.
    limits = "/sys/fs/cgroup/system.slice/report.service/io.max"
    vm.run(f'rm -f /run/writing; read device rest <{limits} && echo "$device wbps=max" >{limits}')
    report.wait(300)


def test_programs_of_a_unit_at_its_own_limit_are_mailed_with_the_file_and_its_value(
    limited: Watched,
) -> None:
    """The mail names the unit and its limit; not the dirty limits of the host."""
    wait_for(lambda: _mails(limited), "a mail that names the limit", MAIL_SECONDS)
    text = " ".join(_mails(limited)[0].split())
    assert "a limit of report.service" in text, text
    # systemd counts an I/O bandwidth in steps of 1000. Source: systemd.resource-control(5).
    assert "limit of report.service: 'wbps=256000'" in text, text
    assert "vm.dirty_bytes" not in text, text
