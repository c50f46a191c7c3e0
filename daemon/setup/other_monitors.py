"""smartd and mdmonitor, which the package's own Recommends bring: they mail about the same disks.

Sources: smartd.conf(5); mdadm.conf(5); mdadm(8), MONITOR MODE; cgroups(7).
Limits: only units of systemd. Neither is offered to be stopped if it does what iowarden does not.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import AbsentError, ReadError
from iowarden.daemon.check import running_service

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.collectors.machine import Machine

SYSTEMCTL = "/usr/bin/systemctl"


@dataclass(frozen=True, slots=True)
class OtherMonitor:
    """A running monitor: its unit, and the arguments of systemctl that end it for good.

    `needed_for` is what its configuration has it do and iowarden does not, '' if nothing.
    """

    name: str
    unit: str
    arguments: tuple[str, ...]
    needed_for: str

    @property
    def command(self) -> str:
        """Return the command that stops it, now and at the next start of the machine."""
        return " ".join(("systemctl", *self.arguments))


def running(root: Machine) -> Iterator[OtherMonitor]:
    """Yield those that run on this machine."""
    # smartmontools.service is Debian's name, smartd.service that of other distributions.
    for unit in ("smartmontools.service", "smartd.service"):
        if running_service.processes(root, unit):
            needed_for = _needs_smartd(_text(root, "/etc/smartd.conf"))
            yield OtherMonitor("smartd", unit, ("disable", "--now", unit), needed_for)
    unit = "mdmonitor.service"
    if running_service.processes(root, unit):
        texts = (_text(root, path) for path in ("/etc/mdadm/mdadm.conf", "/etc/mdadm.conf"))
        # udev starts it with each array, also if it is disabled. Source: 63-md-raid-arrays.rules.
        yield OtherMonitor(
            "mdadm --monitor", unit, ("mask", "--now", unit), _needs_mdmonitor("\n".join(texts))
        )


def stop(monitor: OtherMonitor) -> bool:
    """Stop a monitor for good, as root; return whether systemctl succeeded.

    Limits: waits for systemd without a limit, as a user would who types the command.
    """
    try:
        return os.spawnv(os.P_WAIT, SYSTEMCTL, ("systemctl", *monitor.arguments)) == 0  # noqa: S606
    except OSError:  # no systemctl
        return False


def _needs_smartd(text: str) -> str:
    """Return why a 'smartd.conf' needs smartd: what differs from the one that packages ship."""
    directives = [words for line in text.splitlines() if (words := line.partition("#")[0].split())]
    if any("-s" in words for words in directives):
        return "it starts self-tests ('-s' in /etc/smartd.conf): 'self_tests' of iowarden does, too"
    if any(words[0] != "DEVICESCAN" for words in directives):
        return "/etc/smartd.conf has directives of this host"
    return ""


def _needs_mdmonitor(text: str) -> str:
    """Return why an 'mdadm.conf' needs the monitor: it moves spares, or runs a program."""
    words = [line.partition("#")[0].lower().split() for line in text.splitlines()]
    if any(line[:1] == ["policy"] for line in words) or any(
        word.startswith("spare-group=") for line in words for word in line
    ):
        return "it moves spares between arrays ('spare-group' or 'POLICY' in mdadm.conf)"
    if any(line[:1] == ["program"] for line in words):
        return "it runs a program ('PROGRAM' in mdadm.conf)"
    return ""


def _text(root: Machine, path: str) -> str:
    try:
        return root.read(path)
    except (AbsentError, ReadError):
        return ""
