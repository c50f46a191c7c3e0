"""The trace of a disk in the mail about it, played through the whole service."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from support.kmsg import medium_error
from support.live import text, watched
from support.storage import Server
from support.tracing import sample

from iowarden.daemon.cli import run_command
from iowarden.daemon.service.service import Service

if TYPE_CHECKING:
    from pathlib import Path

    from iowarden.daemon.trace.protocol import TraceRequest, TraceResult


@pytest.mark.parametrize("traces", [True, False])
def test_a_mail_about_a_disk_has_the_trace_of_its_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, traces: bool
) -> None:
    """Taken once, while the mail waits for more of its kind; not at all with 'trace: false'."""
    requests: list[TraceRequest] = []

    def trace(request: TraceRequest) -> TraceResult:
        requests.append(request)
        return sample()

    # A recording has no requests that could be traced.
    monkeypatch.setattr(run_command, "Service", lambda parts: Service(replace(parts, trace=trace)))
    machine = Server(tmp_path)
    machine.disk("sda", parts=False)
    machine.disk("sdb")
    with watched(tmp_path, machine, settings=f"trace: {str(traces).lower()}\n") as program:
        assert program.wait(20) == []
        machine.says(medium_error(4096, "sdb"))
        program.wait_only(8)
        program.program.until(
            lambda: "trace" not in [thread.name for thread in threading.enumerate()], "the trace"
        )
        (mail,) = program.wait(80)
    assert [request.devices for request in requests] == ([("8:16",)] if traces else [])
    assert ("trace of sdb for 3 s: 2 requests (1/s), 136 KiB" in text(mail)) is traces
    assert (
        "sdb sync write: 1 request, p50 2.5 s, p99 2.5 s, slowest 2.5 s" in text(mail)
    ) is traces
