"""Whether anybody has been notified about open incidents: 'iowarden status', 'check' and page."""

from __future__ import annotations

import html
import json
import re
import signal
from typing import TYPE_CHECKING

import pytest
from support.http_receiver import server
from support.live import Live, watched
from support.storage_incidents import FakeMachine, medium

from iowarden.daemon.control.page_documents import IndexPage
from iowarden.daemon.page import index
from iowarden.daemon.page.builder import PageKind, PageReply, PageRequest

if TYPE_CHECKING:
    from pathlib import Path

    from support.live import Watched

NOBODY = "Nobody has been notified about "
MINUTE = 60.0


def said(host: Watched) -> str:
    """Return the sentence of 'iowarden status', '' if there is none."""
    status = host.program.command("status")
    assert status.returncode == 0, status.stderr
    return next((line for line in status.stdout.splitlines() if line.startswith(NOBODY)), "")


def degraded(host: Watched, seconds: float = 30.0) -> None:
    """Let the array lose a disk: that is critical."""
    host.wait_only(8.0)
    host.live.degrade()
    host.wait_only(seconds)


def refuse(host: Watched, text: str = "554 5.7.1 no mail from you") -> None:
    """Let the mail server refuse every mail."""
    host.answers.message = text


def test_nobody_is_said_until_a_server_accepts_the_mail(tmp_path: Path) -> None:
    """It is refused for minutes, then accepted; the sentence gives the age and the reason."""
    with watched(tmp_path, Live(tmp_path)) as host:
        host.wait(8)
        assert said(host) == ""
        refuse(host)
        degraded(host)
        host.program.until(lambda: "5.7.1" in host.program.text(), "the refusal")
        host.wait_only(2 * MINUTE)
        text = said(host)
        # The second one is that mails are refused; its mail waits for the refused one's next try.
        assert text.startswith(f"{NOBODY}2 open incidents: 1 queued for 2 min")
        assert text.endswith("not tried yet")
        assert "5.7.1 no mail from you" in text
        whole = host.program.command("status").stdout
        assert "/events-and-incidents.md: 'Why did I get no mail?'\n" in whole.partition(text)[2]
        assert host.program.metrics()["iowarden_incidents_unnotified"] == 2.0
        of_incidents = host.program.command("incident", "list").stdout
        assert of_incidents.count("none accepted of 1: ") == 2
        assert "none accepted of 1: not tried yet" in of_incidents
        (name,) = re.findall(r"critical  (\S+)  md0", of_incidents)
        detail = host.program.command("incident", "show", name).stdout
        assert re.search("notifications: none accepted of 1: .*5.7.1 no mail from you", detail)
        assert "last: " not in detail
        host.answers.message = "250 OK"
        host.program.hang_up()
        host.program.until(host.answers.mails.qsize, "the mail")
        host.wait_only(8)
        host.mails()
        assert said(host) == ""
        assert "none accepted" not in host.program.command("incident", "list").stdout
        assert host.program.metrics()["iowarden_incidents_unnotified"] == 0.0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_that_somebody_was_notified_is_known_after_a_restart(
    tmp_path: Path, number: signal.Signals
) -> None:
    """The array is still degraded; its mail was accepted by the program of before."""
    with watched(tmp_path, Live(tmp_path)) as host:
        degraded(host)
        assert len(host.mails()) == 1
        host.program.end(number)
        host.start_again()
        host.wait_only(MINUTE)
        assert said(host) == ""


def test_a_maildir_is_nobody(tmp_path: Path) -> None:
    """No mail server is configured: the mail is written, and nobody may ever look there."""
    with watched(tmp_path, Live(tmp_path)) as host:
        host.program.end()
        text = host.program.config.read_text()
        host.program.config.write_text(
            text.replace("server: 127.0.0.1, ", "").replace(f"port: {host.port}, ", "")
        )
        host.start_again()
        degraded(host)
        host.program.until(lambda: "written to '" in host.program.text(), "the mail")
        host.wait_only(8)
        assert said(host) == (
            f"{NOBODY}1 open incident: 1 only in the Maildir of this machine: set 'mail.server'"
        )


def test_what_a_webhook_accepted_somebody_was_notified_about(tmp_path: Path) -> None:
    """Mails wait for a dead server, the webhook accepts: nobody is not said."""
    with server() as answers:
        hook = f"{{name: ops, type: webhook, url: 'http://localhost:{answers.port}/'}}"
        with watched(tmp_path, Live(tmp_path), settings=f"notify: [{hook}]\n") as host:
            refuse(host)
            degraded(host)
            host.program.until(answers.requests.qsize, "the message")
            host.wait_only(MINUTE)
            # That mails are refused is an incident as well, whose message is on its way.
            host.program.until(lambda: "queued" not in said(host), "the last message")


def test_a_webhook_for_critical_gets_an_initial_report_of_critical_problems(
    tmp_path: Path,
) -> None:
    """A disk had errors before the start, and has more before the report, which is its mail."""
    machine = FakeMachine(tmp_path)
    machine.sata("sda")
    machine.mount("/srv", "sda1")
    for sector in range(0, 320, 8):
        machine.says(*medium("1:0:0:0", "sda", sector))
    with server() as answers:
        hook = (
            f"{{name: ops, type: webhook, url: 'http://localhost:{answers.port}/',"
            " severities: [critical]}"
        )
        settings = f"notify: [{hook}]\n"
        with watched(tmp_path, machine, initial_report=True, settings=settings) as host:
            host.wait_only(20)
            machine.says(*medium("1:0:0:0", "sda", 4096))
            host.wait_only(80)
            host.program.until(answers.requests.qsize, "the message")
            document = json.loads(answers.next().body)
    assert (document["reason"], document["severity"]) == ("initial report", "critical")


def test_no_receiver_at_all_owes_nothing(tmp_path: Path) -> None:
    """Mails are disabled and there is no other receiver: 'iowarden check' says so, once."""
    with watched(tmp_path, Live(tmp_path)) as host:
        host.program.end()
        text = host.program.config.read_text()
        host.program.config.write_text(text.replace("mail: {", "mail: {enabled: false, "))
        host.start_again()
        degraded(host, 2 * MINUTE)
        assert said(host) == ""
        assert "iowarden_incidents_unnotified" not in host.program.metrics()


def test_the_page_says_it_and_gives_no_addresses_to_anonymous_readers(tmp_path: Path) -> None:
    """The number is public, why is not."""
    with watched(tmp_path, Live(tmp_path)) as host:
        refuse(host)
        degraded(host)
        host.program.until(lambda: "5.7.1" in host.program.text(), "the refusal")
        pages = {}
        for full in (True, False):
            replies: list[PageReply] = []
            host.program._post(PageRequest(PageKind.INDEX, "", full, replies.append))
            host.program.until(lambda found=replies: found, "the page")
            content = replies[0].content
            assert isinstance(content, IndexPage)
            pages[full] = content.status.unnotified
            assert html.escape(pages[full]).encode() in index.render(content, {}, full=full)
    assert re.fullmatch(rf"{NOBODY}\d open incidents?", pages[False])
    assert "5.7.1 no mail from you" in pages[True]
