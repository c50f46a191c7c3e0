"""The next step of whoever reads that a test mail was not accepted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.smtp import Answers, free_port, make_certificate, scripted_server, smtp_server
from support.smtp import dialogue as script_of

from iowarden.daemon.cli import main
from iowarden.daemon.setup import mail_advice
from iowarden.daemon.setup.mail_advice import Place, Topic, corrected_by

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PLACE = Place("mail", "mx.example", 587)
CASES: Sequence[tuple[str, str, Topic, str]] = (
    ("name resolution", "[Errno -2] Name or service not known", Topic.SERVER, "getent ahosts mx."),
    ("name resolution", "no reply from name resolution for 5 s", Topic.SERVER, "'mail.server'"),
    ("connect", "'Connection refused' from 192.0.2.1", Topic.SERVER, "usual are 25, 587 and 465"),
    ("connect", "'timed out' from 192.0.2.1", Topic.SERVER, "firewall may block port 587"),
    ("connect", "'Connection timed out' from 192.0.2.1", Topic.SERVER, "firewall may block"),
    ("connect", "'Network is unreachable' from 2001:db8::1", Topic.SERVER, "ip route get"),
    ("connect", "'No route to host' from 192.0.2.1", Topic.SERVER, "'mail.server'"),
    ("greeting", "no reply before the timeout", Topic.SERVER, "TLS from the first byte"),
    ("greeting", "554 mx.example ESMTP not accepting connections", Topic.SERVER, "from this host"),
    ("greeting", "no SMTP reply: 'HTTP/1.1 400 Bad Request'", Topic.SERVER, "no SMTP at port 587"),
    ("greeting", "421 4.3.2 too many connections", Topic.SERVER, "in some minutes"),
    ("EHLO", "550 5.7.1 <db1>: Helo command rejected: Host not found", Topic.SERVER, "mail.hello"),
    ("STARTTLS", "no support", Topic.ENCRYPTION, "'mail.tls: opportunistic'"),
    (
        "STARTTLS",
        "454 4.7.0 TLS not available due to temporary reason",
        Topic.SERVER,
        "some minutes",
    ),
    ("TLS", "self-signed certificate", Topic.ENCRYPTION, "update-ca-certificates"),
    ("TLS", "self-signed certificate in certificate chain", Topic.ENCRYPTION, "of its authority"),
    ("TLS", "unable to get local issuer certificate", Topic.ENCRYPTION, "update-ca-certificates"),
    ("TLS", "certificate has expired", Topic.ENCRYPTION, "timedatectl"),
    ("TLS", "certificate is not yet valid", Topic.ENCRYPTION, "timedatectl"),
    (
        *("TLS", "Hostname mismatch, certificate is not valid for 'mx.example'.", Topic.SERVER),
        "openssl s_client -connect mx.example:587 -starttls smtp </dev/null",
    ),
    ("TLS", "[SSL: WRONG_VERSION_NUMBER] wrong version number", Topic.ENCRYPTION, "starttls"),
    ("TLS", "no reply before the timeout", Topic.ENCRYPTION, "'mail.port' or 'mail.tls'"),
    ("AUTH", "no TLS; no password is sent unencrypted", Topic.ENCRYPTION, "'mail.tls: starttls'"),
    ("AUTH", "no supported mechanism: it offers 'GSSAPI'", Topic.ENCRYPTION, "only at port 587"),
    ("AUTH", "535 5.7.8 Error: authentication failed", Topic.LOGIN, "'mail.password_file'"),
    ("AUTH", "534 5.7.9 Application-specific password required", Topic.LOGIN, "(app password)"),
    ("AUTH", "432 4.7.12 A password transition is needed", Topic.LOGIN, "'mail.password_file'"),
    ("AUTH", "454 4.7.0 Temporary authentication failure", Topic.LOGIN, "in some minutes"),
    ("AUTH", "538 5.7.11 Encryption required", Topic.ENCRYPTION, "starttls"),
    ("MAIL FROM", "530 5.7.0 Must issue a STARTTLS command first", Topic.ENCRYPTION, "starttls"),
    ("MAIL FROM", "530 5.7.1 Authentication required", Topic.LOGIN, "'mail.user'"),
    ("MAIL FROM", "550 5.7.60 SMTP; Client does not have permissions", Topic.SENDER, "'mail.from'"),
    ("MAIL FROM", "553 5.1.8 Domain of sender does not exist", Topic.SENDER, "'mail.from'"),
    ("MAIL FROM", "452 4.3.1 Insufficient system storage", Topic.SERVER, "in some minutes"),
    ("MAIL FROM", "552 5.3.4 Message size exceeds fixed limit", Topic.OTHER, "limit of size"),
    (
        *("RCPT TO", "553 5.7.1 <a@b>: Sender address rejected: not owned by user me"),
        *(Topic.SENDER, "'mail.from'"),
    ),
    ("RCPT TO", "450 4.1.8 <a@b>: Sender address rejected: Domain not found", Topic.SENDER, "from"),
    ("RCPT TO", "550 5.1.1 <a@b>: Recipient address rejected", Topic.RECIPIENTS, "the mailbox"),
    ("RCPT TO", "550 no such user", Topic.RECIPIENTS, "correct 'mail.to'"),
    ("RCPT TO", "554 5.7.1 <a@b>: Relay access denied", Topic.RECIPIENTS, "for a log-in"),
    ("RCPT TO", "550 relay not permitted", Topic.RECIPIENTS, "permit this host there"),
    ("RCPT TO", "554 5.7.1 Access denied", Topic.RECIPIENTS, "correct 'mail.to'; or the server"),
    ("RCPT TO", "530 5.7.1 Authentication required", Topic.LOGIN, "'mail.user'"),
    ("RCPT TO", "450 4.2.0 <a@b>: Greylisted", Topic.RECIPIENTS, "some minutes"),
    ("RCPT TO", "552 5.2.2 Mailbox is full", Topic.RECIPIENTS, "the mailbox is full"),
    ("RCPT TO", "452 4.2.2 Over quota", Topic.RECIPIENTS, "the mailbox is full"),
    ("end of data", "552 5.2.2 Quota exceeded", Topic.RECIPIENTS, "the mailbox is full"),
    ("end of data", "552 5.3.4 Message too big", Topic.OTHER, "limit of size"),
    ("end of data", "554 5.7.1 Spam message rejected", Topic.OTHER, "refuses the content"),
    ("end of data", "451 4.7.1 Service unavailable", Topic.SERVER, "in some minutes"),
    ("end of data", "no reply before the timeout", Topic.SERVER, "log of the mail server"),
    ("message", "Broken pipe", Topic.SERVER, "log of the mail server"),
)
"""Replies of Postfix, Exim, Exchange and Gmail, errors of OpenSSL and of the C library."""


@pytest.mark.parametrize(("step", "got", "topic", "advice"), CASES)
def test_a_refusal_names_what_to_correct(step: str, got: str, topic: Topic, advice: str) -> None:
    """'535' alone is no help at 3 a.m."""
    found = corrected_by(step, got, PLACE)
    assert found[0] is topic, found
    assert advice in found[1]


def test_each_row_of_the_table_has_a_case() -> None:
    """A row that no reply reaches is a row behind a greedier one."""
    reached = {corrected_by(step, got, PLACE)[1] for step, got, _, _ in CASES}
    written = {row.advice.format(**PLACE._asdict(), starttls=" -starttls smtp") for row in ROWS}
    assert reached == written


ROWS = mail_advice._ROWS


def run_test_mail(tmp_path: Path, *lines: str) -> int:
    """Run `iowarden test-mail` with a section 'mail' of these lines; return its exit status."""
    path = tmp_path / "iowarden.yaml"
    path.write_text("".join(("mail:\n", *(f"  {line}\n" for line in ("to: a@x", *lines)))))
    return main.main(["test-mail", "--config", str(path), "--state-directory", str(tmp_path)])


def test_test_mail_prints_the_next_step_below_the_refusal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Object, expected, got, next step; of the second server with the keys of that one."""
    fallback = f"  timeout: 9s\nmail_fallback: {{server: 127.0.0.1, port: {free_port()}}}\n"
    refusals = {"a@x": "552 5.2.2 mailbox full"}
    with smtp_server(Answers(recipients=refusals)) as (port, _):
        assert run_test_mail(tmp_path, "server: 127.0.0.1", f"port: {port}", fallback.strip()) == 1
    told = capsys.readouterr().out
    assert (
        "recipient a@x: 552 5.2.2 mailbox full\n"
        "  the mailbox is full: empty it, or set 'mail.to' to another one\n" in told
    )
    assert "\n  correct 'mail_fallback.server' and 'mail_fallback.port' (usual" in told


def test_a_certificate_that_nobody_signed_is_advised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The usual certificate of a mail server inside a network."""
    with smtp_server(certificate=make_certificate(tmp_path)) as (port, _):
        assert run_test_mail(tmp_path, "server: 127.0.0.1", f"port: {port}", "tls: starttls") == 1
    told = capsys.readouterr().out
    assert "expected a certificate for '127.0.0.1' from a known authority, got 'self-signed" in told
    assert "run update-ca-certificates; only if the network to it is secure" in told


def test_a_wrong_password_is_advised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """535 is the most frequent error of a first set-up with a provider."""
    password = tmp_path / "password"
    password.write_text("wr0ng-one\n")
    password.chmod(0o600)
    account = ("user: iowarden", f"password_file: {password}")
    with smtp_server(password="s3cret") as (port, _):
        assert run_test_mail(tmp_path, "server: 127.0.0.1", f"port: {port}", *account) == 1
    told = capsys.readouterr().out
    assert "AUTH: expected an accepted log-in, got '535 5.7.8" in told
    assert "\n  correct 'mail.user' and the password in 'mail.password_file'" in told


def test_a_server_that_is_silent_is_advised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As one at port 465 that waits for TLS."""
    with scripted_server(script_of("")) as port:
        assert run_test_mail(tmp_path, "server: 127.0.0.1", f"port: {port}", "timeout: 1s") == 1
    told = capsys.readouterr().out
    assert "greeting: expected 220, got no reply before the timeout" in told
    assert "may expect TLS from the first byte: try 'mail.port: 465'" in told
