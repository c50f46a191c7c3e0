"""Where the daemon looks for the probe, as a service and in a user's foreground run."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING

import pytest

from iowarden.collectors.model import AbsentError
from iowarden.daemon.cli import command
from iowarden.daemon.clock import SystemClock
from iowarden.daemon.config.parser import parse_config

if TYPE_CHECKING:
    from pathlib import Path

    from iowarden.daemon.probe_client.client import Client


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of the socket; the user is not root."""
    monkeypatch.setattr(command, "PROBE_SOCKET", str(tmp_path / "iowarden-probe.socket"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    return tmp_path / "iowarden-probe.socket"


def up(probe: Client) -> list[float]:
    """Return the value that the rule ProbeDown reads."""
    return [value for name, _, value in probe.samples(0.0) if name == "iowarden_probe_up"]


def test_a_service_whose_socket_is_not_there_reports_that_the_probe_is_down(place: Path) -> None:
    """The socket unit failed at boot: that is reported, and the socket is found once it exists."""
    probe = command.probe(parse_config("", "x"), SystemClock(), under_systemd=True)
    assert probe is not None
    try:
        with pytest.raises(AbsentError, match=r"status iowarden-probe[.]socket"):
            probe.request("tasks", (), 5.0)
        assert up(probe) == [0.0]
        assert str(place) in probe.problem
    finally:
        probe.close(5.0)


def test_a_foreground_run_of_a_user_has_no_probe(place: Path) -> None:
    """It is no fault, so nothing is reported; a socket that the user may access is used."""
    settings = parse_config("", "x")
    assert command.probe(settings, SystemClock(), under_systemd=False) is None
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(place))
        found = command.probe(settings, SystemClock(), under_systemd=False)
        assert found is not None
        found.close(5.0)
    off = parse_config("probe: false\n", "x")
    assert command.probe(off, SystemClock(), under_systemd=True) is None
