"""`iowarden check --nagios` and `--checkmk`: one line about the running service."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from support.program import Played, with_hung_disk

from iowarden.daemon.check import plugin
from iowarden.daemon.cli import main
from iowarden.daemon.control.documents import AcknowledgementLine, AlertLine, IncidentLine, Status

if TYPE_CHECKING:
    from collections.abc import Iterator

FILES = Path(__file__).parents[3] / "packaging/monitoring"
PERFDATA = re.compile(r"[a-z_]+=\d+;\d*;\d*;0")
"""'label'=value[UOM];[warn];[crit];[min];[max], without a unit: a count."""


def incident(identifier: str, severity: str, text: str, **fields: object) -> IncidentLine:
    """Return an open incident."""
    return IncidentLine(
        identifier=identifier, severity=severity, object="sda", summary=text, firing=True, **fields
    )


def alert(name: str, severity: str, state: str = "firing", **fields: object) -> AlertLine:
    """Return an alert about a disk."""
    given = {"object": "sda", "summary": f"{name} of it", **fields}
    return AlertLine(name=name, severity=severity, state=state, **given)


def line_of(
    *alerts: AlertLine, incidents: tuple[IncidentLine, ...] = (), ready: bool = True
) -> str:
    """Return the line of Nagios about a service with these alerts."""
    status = Status(ready=ready, alerts=alerts, incidents=incidents, disks="SMART: 2 of 2 readable")
    result = plugin.result_of(status)
    text = plugin.nagios_line(result)
    assert text.startswith(f"IOWARDEN {plugin.STATES[result.status]}: ")
    message, _, numbers = text.partition(" | ")
    assert "|" not in message + numbers
    assert "\n" not in text
    assert all(PERFDATA.fullmatch(each) for each in numbers.split())
    return text


def test_a_healthy_host_is_ok() -> None:
    """An info alert is no problem, a pending one not yet."""
    text = line_of(alert("NoSwap", "info"), alert("DeviceHang", "warning", "pending"))
    assert text.startswith("IOWARDEN OK: no problems; SMART: 2 of 2 readable | critical=0;;0;0 ")


def test_a_corrupt_file_system_is_not_ok_ten_minutes_after_its_last_line() -> None:
    """Nobody repaired it; a link that was reset and has worked since is OK."""
    silent = "no such line for 10 min; whether it is repaired was not checked"
    given = {"firing": False, "cleared_because": silent}
    corrupt = replace(incident("1a", "critical", "a checksum is wrong"), stays=True, **given)
    reset = replace(incident("2b", "warning", "a link was reset"), **given)
    text = line_of(incidents=(corrupt, reset))
    assert text.startswith(
        "IOWARDEN UNKNOWN: sda: no longer reported, was: a checksum is wrong;"
        f" {silent} (incident 1a) | critical=0;"
    )
    assert "unknown=1;" in text
    assert line_of(incidents=(reset,)).startswith("IOWARDEN OK: ")
    quiet = replace(corrupt, silences=("a1",))
    assert line_of(incidents=(quiet,)).startswith("IOWARDEN OK: ")


def test_one_incident_is_one_problem_and_the_worst_comes_first() -> None:
    """A failed disk has an alert of its own, one of its array, and a dozen of its file systems."""
    text = line_of(
        alert("FilesystemFull", "warning", object="/srv", summary="/srv is 91.2 % full"),
        alert("DiskFailing", "critical", incident="abc"),
        alert("MdDegraded", "warning", incident="abc"),
        incidents=(incident("abc", "critical", "sda fails, md0 is degraded"),),
    )
    assert text.startswith(
        "IOWARDEN CRITICAL: sda: sda fails, md0 is degraded (incident abc);"
        " /srv: /srv is 91.2 % full"
    )
    assert " | critical=1;;0;0 warning=1;0;;0 unknown=0;;;0 " in text


def test_many_problems_are_counted() -> None:
    """A line of NRPE may be cut at 1 KiB: no problem is lost without a word."""
    alerts = [
        alert("DiskFailing", "critical", object=f"sd{letter}", summary="x" * 500)
        for letter in "abcdefgh"
    ]
    text = line_of(*alerts)
    assert "; 5 more: iowarden status | critical=8;;0;0" in text
    assert len(text) < 1024


def test_what_is_silenced_is_no_problem_and_what_is_acknowledged_is() -> None:
    """A silence says that nobody wants to be notified; who acknowledged it still has the fault."""
    silenced = alert("DiskFailing", "critical", silences=("s1",))
    assert line_of(silenced).startswith("IOWARDEN OK: ")
    assert "silenced=1;;;0" in line_of(silenced)
    of_incident = alert("DiskFailing", "critical", incident="abc")
    quiet = incident("abc", "critical", "fails", silences=("s1",))
    assert line_of(of_incident, incidents=(quiet,)).startswith("IOWARDEN OK: ")
    known = incident("abc", "critical", "fails", acknowledged=AcknowledgementLine("op", 1.0, "new"))
    text = line_of(of_incident, incidents=(known,))
    assert text.startswith("IOWARDEN CRITICAL: sda: fails (incident abc, acknowledged) | ")


def test_what_cannot_be_determined_is_unknown_but_less_than_a_fault() -> None:
    """The disk may be failing; a file system that is full certainly is."""
    lost = alert("DiskFailing", "critical", "unknown", unknown_reason="smartctl: timed out")
    text = line_of(lost)
    assert text.startswith("IOWARDEN UNKNOWN: sda: DiskFailing unknown (smartctl: timed out) | ")
    assert "critical=0;;0;0 warning=0;0;;0 unknown=1;;;0" in text
    assert line_of(lost, alert("MdDegraded", "warning")).startswith("IOWARDEN WARNING: sda: ")
    early = line_of(ready=False)
    assert early.startswith("IOWARDEN UNKNOWN: not all data has been read yet | ")


def test_a_name_cannot_break_the_line() -> None:
    """A mount point may have a pipe, a line end and a quote in its name."""
    text = line_of(alert("FilesystemFull", "warning", object="/a|b\n'c'\\n", summary="full | x=1"))
    assert text.startswith("IOWARDEN WARNING: /a/b 'c'/n: full / x=1 | critical=0")


def test_checkmk_gets_its_own_format() -> None:
    """Status, service in quotes, numbers separated by pipes, text."""
    status = Status(ready=True, alerts=(alert("DiskFailing", "critical"),))
    assert plugin.checkmk_line(plugin.result_of(status)) == (
        '2 "iowarden" critical=1;;1;0|warning=0;1;;0|unknown=0;;;0|silenced=0;;;0'
        "|notifications_waiting=0;;;0 sda: DiskFailing of it"
    )
    assert plugin.checkmk_line(plugin.Result(plugin.UNKNOWN, "no")) == '3 "iowarden" - no'


LOCAL_CHECK = re.compile(
    r"""[0123]\ "[^"']+"\ (?:-|NUMBER(?:\|NUMBER)*)\ \S.*""".replace(
        "NUMBER", r"[A-Za-z_]\w*=-?\d+(?:;\d*){2};\d*(?:;\d*)?"
    ),
    re.VERBOSE,
)
"""Source: docs.checkmk.com, Local checks: state, service name in quotes, metrics, details. Metrics:
NAME=VALUE;WARN;CRIT;MIN;MAX without blanks, separated by '|'; '-' for none."""


@pytest.mark.parametrize("ready", [True, False])
@pytest.mark.parametrize(
    "text", ["", "x" * 900, "a|b=1;2", "'quoted' \"twice\"", "line\\nline\nline"]
)
def test_checkmk_can_read_each_line(*, ready: bool, text: str) -> None:
    """Its agent is in no release of Debian: the documented grammar stands for it.

    A backslash and an 'n' in the details would begin a new line there.
    """
    status = Status(ready=ready, alerts=(alert("FilesystemFull", "warning", summary=text),))
    line = plugin.checkmk_line(plugin.result_of(status))
    assert LOCAL_CHECK.fullmatch(line), line
    assert "\\n" not in line


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """The service on a machine with a hung disk."""
    with with_hung_disk(tmp_path_factory.mktemp("plugin")) as program:
        yield program


def test_a_hung_disk_is_critical(played: Played) -> None:
    """The line names the disk and the incident, and the exit status is that of a plugin."""
    done = played.command("check", "--nagios")
    assert done.returncode == plugin.CRITICAL
    assert re.match(
        r"IOWARDEN CRITICAL: .*no request .*\(incident \w+\).* \| critical=", done.stdout
    )
    assert done.stdout.count("\n") == 1
    assert played.command("check", "--checkmk").stdout.startswith('2 "iowarden" critical=')


def test_a_service_that_does_not_run_is_critical(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing watches the host: that is worse than not to know."""
    status = main.main(["check", "--nagios", "--state-directory", str(tmp_path)])
    assert status == plugin.CRITICAL
    assert capsys.readouterr().out.startswith("IOWARDEN CRITICAL: iowarden is not running (no ")


def test_the_files_for_monitoring_systems_run_commands_that_exist() -> None:
    """Each command line of them goes through the parser; the template names numbers of the line."""
    texts = {path.name: path.read_text() for path in FILES.iterdir()}
    commands = {
        words
        for text in texts.values()
        for words in re.findall(
            r"^[^#\n]*/usr/bin/(iowarden (?:check )[ \w-]*)", text, re.MULTILINE
        )
    }
    commands |= {
        " ".join(re.findall(r'"([^"]+)"', found)).replace("/usr/bin/", "")
        for found in re.findall(r"command = \[(.*)\]", texts["iowarden-icinga2.conf"])
    }
    assert {command.strip() for command in commands} == {
        "iowarden check --nagios",
        "iowarden check --checkmk",
    }
    for command in commands:
        main.full_parser().parse_args(shlex.split(command)[1:])
    template = yaml.safe_load(texts["iowarden-zabbix.yaml"])["zabbix_export"]["templates"][0]
    line = plugin.nagios_line(plugin.result_of(Status(ready=True)))
    patterns = [
        step["parameters"][0]
        for item in template["items"]
        for step in item.get("preprocessing", ())
    ]
    assert len(patterns) == 5
    assert all(re.search(pattern, line) for pattern in patterns)
    identifiers = re.findall(r"uuid: (\w+)", texts["iowarden-zabbix.yaml"])
    assert len(set(identifiers)) == len(identifiers)
    assert all(re.fullmatch(r"\w{12}4\w{3}[89ab]\w{15}", each) for each in identifiers)


def test_what_has_cleared_and_is_kept_firing_is_not_stated_in_the_present() -> None:
    """An incident by the time since when all its alerts are cleared; an alert without one too."""
    text = line_of(
        alert("DeviceHang", "critical", incident="abc", cleared_seconds=9.0),
        alert("FilesystemFull", "warning", object="/srv", cleared_seconds=9.0),
        incidents=(incident("abc", "critical", "sda hangs", cleared_seconds=9.0),),
    )
    assert "sda: cleared, was: sda hangs (incident abc)" in text
    assert "/srv: cleared, was: FilesystemFull of it" in text
