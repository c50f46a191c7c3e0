"""`iowarden check` as the doctor: what is installed, who is notified, what corrects the rest."""

from __future__ import annotations

import contextlib
import http.server
import re
import threading
from typing import TYPE_CHECKING

import pytest
from support.memory import Memory

from iowarden.collectors import registry
from iowarden.collectors.md import mdstat
from iowarden.collectors.model import Outcome, Reading
from iowarden.daemon.check import findings, installation, running_service
from iowarden.daemon.check.report import CheckReport, Finding, Level
from iowarden.daemon.config.parser import parse_config
from iowarden.rules.engine.engine import Engine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

METRICS = """\
iowarden_rules 150
iowarden_notifications_total{receiver="mail",result="delivered"} 3
iowarden_notifications_total{receiver="mail",result="failed"} 1
iowarden_notifications_last_delivered_age_seconds{receiver="mail"} 7200
iowarden_disk_not_monitored{disk="SER1",device="sda",reason="no SMART support"} 1
"""


def test_a_host_that_notifies_nobody_is_no_healthy_host() -> None:
    """Status 1 and the command that corrects it; a recording is of another machine."""
    settings = parse_config("", "iowarden.yaml")
    (found,) = findings.of_mail(settings)
    assert CheckReport((found,)).status == 1
    assert found.text.endswith("to configure one: 'iowarden setup'")
    assert CheckReport(tuple(findings.of_mail(settings, here=False))).status == 0


def test_version_and_origin_are_listed() -> None:
    """A bug report begins with them; the tests run in a checkout, or with the Debian package."""
    version, file = installation.findings("/etc/iowarden/iowarden.yaml", exists=False)
    assert (version.level, version.topic) == (Level.OK, "version")
    assert re.search("(checkout|Debian package) in '/", version.text)
    assert (file.level, file.topic) == (Level.INFO, "configuration")
    assert "defaults apply; 'iowarden setup' creates it" in file.text


@pytest.mark.parametrize(
    ("status", "offset", "level", "text"),
    [
        (0x0040, 0, Level.INFO, "to synchronize it: 'timedatectl set-ntp true'"),
        (0x2001, 1_500_000, Level.OK, "synchronized, offset +1.500 ms, maximum error 16 ms"),
        (0x0001, -1_500, Level.OK, "synchronized, offset -1.500 ms, maximum error 16 ms"),
    ],
)
def test_the_clock_s_state_is_that_of_the_kernel(
    status: int, offset: int, level: Level, text: str
) -> None:
    """Bits and units of adjtimex(2); without synchronization mails have wrong times."""
    found = installation.clock_finding(status, offset, 16_000)
    assert (found.level, text in found.text) == (level, True), found.text


def test_the_real_clock_is_read() -> None:
    """Whatever the state of this machine's clock is, the kernel gives one."""
    (found,) = installation.clock()
    assert "synchronized" in found.text


def test_a_missing_program_is_named_with_its_package(tmp_path: Path) -> None:
    """An md array without mdadm: its details are missing in mails; without arrays no word."""
    engine = Engine([], registry.SOURCES, 0.0)
    assert [*installation.programs(engine, str(tmp_path))] == []
    arrays = dict.fromkeys(["md0"], mdstat.MdArray("md0", *[None] * 10, ()))  # type: ignore[arg-type]
    engine.observe([Reading("md", Outcome.OK, 0.0, 0.0, arrays)], 0.0, 100.0)
    (found,) = installation.programs(engine, str(tmp_path))
    assert (found.object, found.text[-24:]) == ("mdadm", " 'apt-get install mdadm'")
    (tmp_path / "mdadm").touch(0o755)
    assert [*installation.programs(engine, str(tmp_path))] == []


@contextlib.contextmanager
def service(text: str) -> Iterator[int]:
    """Serve a text as the service's metrics; give the port."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Nothing on standard error."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


def by_topic(text: str) -> dict[str, Finding]:
    """The findings of a service with these metrics."""
    with service(text) as port:
        return {f.topic: f for f in running_service.findings(("127.0.0.1", port), set())}


def test_the_last_notification_and_unreadable_drives_are_those_of_the_service() -> None:
    """Only the service sends mail and polls drives; each drive with the command for more."""
    found = by_topic(METRICS)
    assert found["receiver"].object == "mail"
    assert found["receiver"].text == "last notification accepted 2 h ago"
    assert found["receiver"].level is Level.OK
    assert found["drive"].object == "sda"
    assert found["drive"].text == "SMART unreadable: no SMART support; 'iowarden disk show SER1'"


def test_another_service_does_not_answer_for_the_installed_one() -> None:
    """'make run' on a host whose service is stopped: 'check' said that the service is OK."""
    command = "/usr/bin/python\0.venv/bin/iowarden\0run\0--state-directory\0.run\0"
    tree = Memory(
        {
            "/proc/7/cmdline": command,
            "/proc/8/cmdline": "vi\0iowarden\0",
            "/usr/lib/systemd/system/iowarden.service": "",
        }
    )
    by_hand = running_service.in_foreground(tree)
    assert by_hand == ["process 7: iowarden run --state-directory .run"]
    with service(METRICS) as port:
        found = running_service.findings(
            ("127.0.0.1", port), set(), running_service.unit(tree), by_hand
        )
    (told,) = (each for each in found if each.topic == "service")
    assert told.level is Level.CRITICAL
    assert told.text.startswith("the installed service is not running; another one answers at ")
    assert by_hand[0] in told.text


@pytest.mark.parametrize(
    ("metrics", "text"),
    [
        (
            "\n".join(line for line in METRICS.splitlines() if "age_seconds" not in line),
            "no notification accepted since the service started or the receiver was changed",
        ),
        (
            f'{METRICS}iowarden_notifications_oldest_unsent_seconds{{receiver="mail"}} 300\n',
            "last notification accepted 2 h ago; one has been waiting for 5 min",
        ),
    ],
)
def test_a_receiver_that_has_proved_nothing_is_not_ok(metrics: str, text: str) -> None:
    """It was OK before its first notification, and while it refused all since yesterday."""
    found = by_topic(metrics)["receiver"]
    assert (found.level, text in found.text) == (Level.INFO, True), found.text


def test_a_receiver_that_is_only_configured_is_not_ok() -> None:
    """Nothing connected to it: its line says how to test it."""
    settings = parse_config(
        "mail: {server: mx.example, to: a@b.example}\n"
        "notify: [{name: ops, type: webhook, url: 'http://ops.example/x'}]\n",
        "iowarden.yaml",
    )
    assert {(f.topic, f.level) for f in findings.of_mail(settings)} == {
        ("mail", Level.INFO),
        ("notify", Level.INFO),
    }
