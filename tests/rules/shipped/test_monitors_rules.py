"""Alerts about other monitoring programs at the same disks (competing_monitor)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.simulation import Simulation

from iowarden.rules.alerting.alerts import AlertState
from iowarden.rules.topology.alert_subject import subject
from iowarden.rules.topology.device_changes import Devices

if TYPE_CHECKING:
    from iowarden.rules.alerting.alerts import Alert

STOP = "systemctl disable --now smartmontools.service"


class Beside:
    """A machine on which another program runs."""

    def __init__(self, command: str, groups: str, *drivers: str) -> None:
        self.machine = Simulation()
        files: dict[str, str | bytes | None] = {
            f"/sys/bus/pci/drivers/{driver}/0000:02:00.0": None for driver in drivers
        }
        files |= {"/proc/1/comm": "systemd\n", "/proc/812/cgroup": groups}
        self.machine.memory.write({**files, "/proc/812/comm": command + "\n"})
        self.machine.run(3)

    def alerts(self) -> dict[str, Alert]:
        """Return what is active, by name."""
        assert self.machine.host.engine is not None
        return {a.name: a for a in self.machine.host.engine.rules.alerts() if a.active}


def test_smartd_beside_iowarden_is_information_with_the_command_that_stops_it() -> None:
    """No mail; the line that 'iowarden check' shows has the command; over when it ends."""
    beside = Beside("smartd", "0::/system.slice/smartmontools.service\n")
    assert beside.machine.host.names() == beside.machine.host.names("info") == {"CompetingMonitor"}
    alert = beside.alerts()["CompetingMonitor"]
    assert alert.annotation("summary") == (
        f"smartd also polls disks or controllers of this host; to stop it: '{STOP}'"
    )
    advice = alert.annotation("advice")
    assert f"  {STOP}\n" in advice
    assert "self-tests scheduled in smartd.conf" in advice
    beside.machine.run(120)
    assert beside.machine.host.mails == []
    beside.machine.memory.remove("/proc/812/comm")
    beside.machine.run(80)
    assert beside.alerts() == {}


def test_smartd_at_an_areca_is_a_warning() -> None:
    """Mailed after a minute as a setting of the host: it must not hide a stall of today."""
    beside = Beside("smartd", "0::/system.slice/smartmontools.service\n", "arcmsr")
    alert = beside.alerts()["CompetingMonitorAreca"]
    assert (alert.state, alert.label("severity")) == (AlertState.FIRING, "warning")
    assert f"  {STOP}\n" in alert.annotation("advice")
    assert "iowarden does not query this controller while smartd runs" in (
        " ".join(alert.annotation("description").split())
    )
    assert subject(None, Devices(), alert.labels).object == "host"
    beside.machine.run(70)
    assert beside.machine.host.reasons() == ["opened"]


def test_the_vendors_own_program_at_an_areca_has_other_words() -> None:
    """Started by hand: there is no unit, so its process is named; iowarden continues to poll."""
    beside = Beside("archttp64", "0::/user.slice/session-2.scope\n", "arcmsr")
    alert = beside.alerts()["CompetingMonitorAreca"]
    assert "  kill 812\n" in alert.annotation("advice")
    assert "smartd" not in alert.annotation("advice") + alert.annotation("description")


@pytest.mark.parametrize("driver", ["3w-xxxx", "3w-9xxx", "3w-sas"])
def test_3dm2_takes_the_alarms_of_a_3ware(driver: str) -> None:
    """The list of tw_cli may be empty although disks fail: a warning names the other program."""
    beside = Beside("3dm2", "0::/system.slice/3dm2.service\n", driver)
    alert = beside.alerts()["CompetingMonitorThreeware"]
    assert driver in alert.annotation("summary")
    assert "  systemctl disable --now 3dm2.service\n" in alert.annotation("advice")


@pytest.mark.parametrize(
    ("command", "driver"),
    [("smartd", "3w-9xxx"), ("3dm2", "arcmsr"), ("smartd", "ahci"), ("mrmonitord", "megaraid_sas")],
)
def test_at_another_controller_it_only_asks_twice(command: str, driver: str) -> None:
    """Information, no warning."""
    assert Beside(command, "0::/\n", driver).alerts().keys() == {"CompetingMonitor"}


def test_where_processes_are_hidden_an_alert_is_unknown_and_not_over() -> None:
    """/proc is mounted with hidepid: whether smartd has ended is unknown."""
    beside = Beside("smartd", "0::/\n", "arcmsr")
    beside.machine.memory.remove("/proc/1/comm")
    beside.machine.memory.remove("/proc/812/comm")
    beside.machine.run(200)
    assert beside.alerts()["CompetingMonitorAreca"].state is AlertState.UNKNOWN
