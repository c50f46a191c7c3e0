"""Machines with a RAID controller, as a recording has them: sysfs, and what programs printed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from support.memory import Memory

from iowarden.collectors.machine import probe_path
from iowarden.daemon.polling.controllers import ControllerPoller
from iowarden.daemon.probe import allowed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.collectors.raid.backend import Backend
    from iowarden.collectors.raid.controller import Controllers

DRIVERS = "/sys/bus/pci/drivers"
DEVICES = "/sys/bus/pci/devices"


def printed(text: str) -> str:
    """Return the probe's answer for a program that printed a text."""
    return json.dumps({"status": 0, "signal": None, "stdout": text, "stderr": ""})


def polled(
    backend: Backend, files: Mapping[str, str | None], answers: Mapping[str, str]
) -> Controllers:
    """Poll a recorded machine once; return its controllers.

    `answers` are what programs printed, by command line; each is one that root may run.
    """
    for command in answers:
        allowed.match(tuple(command.split(" ")))
    replies = {probe_path("run", tuple(c.split(" "))): printed(text) for c, text in answers.items()}
    return ControllerPoller((backend,), lambda: 0.0).read(Memory({**files, **replies}))
