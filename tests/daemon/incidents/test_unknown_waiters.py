"""Mails about devices where it cannot be seen who waits say so, with the reason."""

from __future__ import annotations

import pytest
from support.blocked import Blocked, task


def unknown(host: Blocked, name: str) -> str:
    """Return what the worst active alert of this name says that it does not know."""
    assert host.machine.host.engine is not None
    active = [a for a in host.machine.host.engine.rules.alerts() if a.name == name and a.active]
    return " ".join(max(active, key=lambda alert: alert.severity).annotation("unknown").split())


def stalled(*, has_probe: bool) -> Blocked:
    """Return a host whose disk completes nothing for 20 s, with much unwritten data."""
    host = Blocked()
    host.has_probe = has_probe
    for _ in range(60):
        host.queued = 900_000_000
        host.disks["sda"].in_flight = 4
        host.pass_seconds(1, [], sda=8_000_000)
    host.pass_seconds(20, [task(1)])
    return host


@pytest.mark.parametrize("name", ["DeviceHang", "WriteStall"])
def test_without_a_probe_a_mail_says_that_who_waits_is_not_known(name: str) -> None:
    """No probe answers; the counters alone show that writes stand still."""
    said = unknown(stalled(has_probe=False), name)
    assert "Who waits is not known: the privileged probe" in said
    assert "harmed" not in said


def test_with_a_probe_a_mail_of_a_disk_that_hangs_does_not_say_so() -> None:
    """Who waits is in the mail itself."""
    assert "Who waits" not in unknown(stalled(has_probe=True), "DeviceHang")
