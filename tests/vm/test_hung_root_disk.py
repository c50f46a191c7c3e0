"""The root disk hangs: nothing can be read from it or written to it, programs and logs included."""

from __future__ import annotations

import http.client
import re
import time
from typing import TYPE_CHECKING

import pytest
from vm.harness import GUEST_ADDRESS, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vm.watched import Watched

SETTINGS = f"listen: [127.0.0.1:9748, '{GUEST_ADDRESS}:9748']\n"
"""No program can be loaded while the root disk hangs: the host is the browser."""
HANG_SECONDS = 180.0
"""30 s without a completion are critical; with reserve for a busy building machine."""
PAGE_SECONDS = 120.0
"""Far above anything measured: a page takes 2.2 s if the loop or history.db do not answer."""
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
    """A mail at a server elsewhere names the disk, while no program can be loaded any more.

    A guest that stands still for 10 s meanwhile gets the critical mail alone.
    """
    mails = hung.mail.mails
    subjects = "\n".join(f"{mail['Date']}: {mail['Subject']}" for mail in mails)
    told = hung.mail.naming("DeviceHang")
    levels = [mail["Subject"].partition("]")[0].removeprefix("[") for mail in told]
    assert levels in (["WARNING", "CRITICAL"], ["CRITICAL"]), subjects
    assert all("vda" in mail["Subject"] for mail in told), subjects
    assert len({mail["X-Iowarden-Incident"] for mail in told}) == 1, subjects


def test_the_page_and_the_metrics_answer_while_the_root_disk_hangs(hung: Watched) -> None:
    """For the first time since the start: what they need was loaded and read before."""
    address = hung.vm.forward(9748)
    incident = hung.mail.naming("DeviceHang")[0]["X-Iowarden-Incident"]
    for path in ("/", f"/incident/{incident}", "/drive/%2Fdev%2Fvda"):
        status, text = _read(address, path)
        assert status == http.HTTPStatus.OK, f"{path}: {status} {_body(text)}"
        assert "vda" in text, f"{path}: {_body(text)}"
        assert "no request completed for" in text, f"{path}: {_body(text)}"
    status, text = _read(address, "/metrics")
    assert status == http.HTTPStatus.OK, text
    hangs = re.findall(r'^iowarden_device_hang_seconds{device="vda"} (.+)$', text, re.MULTILINE)
    assert [float(seconds) >= 30 for seconds in hangs] == [True], hangs


def test_the_same_process_goes_on_when_the_root_disk_answers_again(hung: Watched) -> None:
    """No watchdog and no restart; its journal tells the end of the hang."""
    hung.vm.throttle("root")
    over = ("IOWARDEN_ALERT=DeviceHang", "IOWARDEN_DEVICE=vda", "IOWARDEN_STATE=resolved")
    wait_for(lambda: hung.journal(*over), "the end of the hang in the journal", RESOLVE_SECONDS)
    unit = hung.unit("ActiveState", "NRestarts", "Result")
    assert unit == {"ActiveState": "active", "NRestarts": "0", "Result": "success"}
    assert hung.journal("IOWARDEN_ALERT=DeviceHang", "IOWARDEN_STATE=unknown") == []


def _read(address: tuple[str, int], path: str) -> tuple[int, str]:
    """Return status and text of a page; a service that is busy is asked again, as it says."""
    deadline = time.monotonic() + PAGE_SECONDS
    while True:
        connection = http.client.HTTPConnection(*address, timeout=PAGE_SECONDS)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            status, text = answer.status, answer.read().decode()
        finally:
            connection.close()
        if status != http.HTTPStatus.SERVICE_UNAVAILABLE or time.monotonic() > deadline:
            return status, text


def _body(page: str) -> str:
    return page.partition("<main")[2]


def _written(watched: Watched) -> float:
    return watched.metric("iowarden_device_written_bytes_total", device="vda") or 0.0
