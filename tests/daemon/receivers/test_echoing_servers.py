"""Servers that repeat secrets in every reply: no result of an attempt has one."""

from __future__ import annotations

import ast
import dataclasses
from pathlib import Path

import pytest
from support.echoing import LINES, Echo, mail_server, receiver
from support.http_receiver import config
from support.spellings import reveals, spellings

from iowarden import daemon
from iowarden.daemon.config.receivers import ReceiverType
from iowarden.daemon.notify.attempt import OutboundMail
from iowarden.daemon.notify.sender import delivery
from iowarden.daemon.notify.sender import test_mail as try_mail
from iowarden.daemon.notify.smtp import MailSettings
from iowarden.daemon.receivers.assembly import try_receiver
from iowarden.daemon.receivers.dry_run import test_notice as make_notice
from iowarden.daemon.redactor import MARK

SECRET = "s3nd w1th+th/is~0ne"
TURNS = len(list(spellings(SECRET))) // LINES + 1
"""Replies after which every spelling was repeated."""
DOORS = ("daemon/notify/smtp.py", "daemon/receivers/http_client.py")
"""The modules that read what servers send."""


def relay(port: int) -> MailSettings:
    """Return the settings of a mail server on this machine."""
    return MailSettings(
        server="127.0.0.1",
        port=port,
        tls="auto",
        user="relay",
        password=SECRET,
        sender="iowarden@db1.example.com",
        timeout_seconds=10.0,
        hello="db1.example.com",
    )


@pytest.mark.parametrize(
    "codes",
    [
        {"AUTH": 535},
        {"MAIL": 452},
        {"RCPT": 550},
        {"DATA": 554},
        {".": 554},
        {"AUTH": 0},
        {"AUTH": 1},
        {},
    ],
    ids=str,
)
def test_no_result_of_a_mail_has_a_secret_that_the_server_repeats(codes: dict[str, int]) -> None:
    """Whichever step it answers with it, also without a code, or in the acceptance."""
    mail = OutboundMail("<a@db1>", ("ops@example.com",), b"Subject: a\r\n\r\nb\r\n")
    echo, texts = Echo([SECRET]), []
    with mail_server(echo, [codes]) as port:
        while echo.replies < TURNS:
            result = delivery(relay(port))(mail)
            lines = try_mail(relay(port), mail.data, mail.recipients)
            texts += [repr(result), *(line.text for line in lines)]
    assert [text for text in texts if reveals(text, SECRET)] == []
    assert any(MARK in text for text in texts)


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        (ReceiverType.WEBHOOK, 200),
        (ReceiverType.WEBHOOK, 404),
        (ReceiverType.NTFY, 200),
        (ReceiverType.SLACK, 200),
        (ReceiverType.PING, 503),
        (ReceiverType.ALERTMANAGER, 400),
        (ReceiverType.ALERTMANAGER, 503),
    ],
)
def test_no_result_of_a_notification_has_a_secret_that_the_server_repeats(
    kind: ReceiverType, status: int
) -> None:
    """In the body, in headers, or in an Alertmanager's reason for one alert."""
    echo = Echo([SECRET])
    with receiver(echo, [status]) as port:
        keys = {"user": "us", "password": SECRET} if kind is ReceiverType.ALERTMANAGER else {}
        to = dataclasses.replace(config(kind, port, "/hook"), **(keys or {"token": SECRET}))
        texts = [
            line.text
            for _ in range(TURNS)
            for line in try_receiver(to, make_notice(1_795_266_034.25), "db1.example.com")
        ]
    assert [text for text in texts if reveals(text, SECRET)] == []
    assert any(MARK in text for text in texts)


@pytest.mark.parametrize("door", DOORS)
def test_what_a_server_sends_becomes_text_by_the_redactor_only(door: str) -> None:
    """Neither decoded nor shown as bytes: a later version cannot forget it."""
    tree = ast.parse((Path(daemon.__path__[0]).parent / door).read_text(encoding="utf-8"))
    bypasses = [
        f"{door}:{node.lineno}"
        for node in ast.walk(tree)
        if (isinstance(node, ast.Attribute) and node.attr == "decode")
        or (isinstance(node, ast.FormattedValue) and node.conversion == ord("r"))
        or (isinstance(node, ast.Name) and node.id in {"repr", "one_line", "shorten"})
    ]
    assert bypasses == []
