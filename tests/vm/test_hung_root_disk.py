"""The root disk hangs: nothing can be read from it or written to it, programs and logs included."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from vm.harness import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vm.watched import Watched

HANG_SECONDS = 180.0
"""30 s without a completion are critical; with reserve for a busy building machine."""
RESOLVE_SECONDS = 180.0
"""The alert is kept firing for 60 s, so that a disk that stutters is one alert."""


@pytest.fixture(scope="module")
def hung(watched: Watched) -> Iterator[Watched]:
    """Hang the root disk while programs write to it; return when a mail about it has arrived."""
    vm = watched.vm
    vm.run("touch /run/writing")
    vm.start(
        "while [ -e /run/writing ]; do"
        " dd if=/dev/zero of=/var/tmp/synced bs=64k count=4 conv=fsync; done"
    )
    # A hang is told from a spin-up by what the disk completed before.
    wait_for(lambda: _written(watched) > 1024 * 1024, "iowarden to see the disk written to", 60)
    vm.throttle("root", total=1)
    wait_for(lambda: watched.mail.naming("critical DeviceHang"), "its mail", HANG_SECONDS)
    yield watched
    vm.throttle("root")


def test_the_alert_leaves_while_the_root_disk_hangs(hung: Watched) -> None:
    """A mail at a server elsewhere names the disk, while no program can be loaded any more."""
    warning, critical = hung.mail.mails
    assert "WARNING" in warning["Subject"]
    assert "CRITICAL" in critical["Subject"]
    assert all("vda" in mail["Subject"] for mail in hung.mail.mails)
    assert len(hung.mail.incidents()) == 1


def test_the_same_process_goes_on_when_the_root_disk_answers_again(hung: Watched) -> None:
    """No watchdog and no restart; its journal tells the end of the hang."""
    hung.vm.throttle("root")
    over = ("IOWARDEN_ALERT=DeviceHang", "IOWARDEN_DEVICE=vda", "IOWARDEN_STATE=resolved")
    wait_for(lambda: hung.journal(*over), "the end of the hang in the journal", RESOLVE_SECONDS)
    unit = hung.unit("ActiveState", "NRestarts", "Result")
    assert unit == {"ActiveState": "active", "NRestarts": "0", "Result": "success"}
    assert hung.journal("IOWARDEN_ALERT=DeviceHang", "IOWARDEN_STATE=unknown") == []


def _written(watched: Watched) -> float:
    return watched.metric("iowarden_device_written_bytes_total", device="vda") or 0.0
