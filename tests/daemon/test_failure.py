"""The mail about a service that could not start: by its own mail server, or by the local one."""

from __future__ import annotations

import email
import email.policy
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from support.smtp import Answers, free_port, smtp_server

from iowarden.daemon import failure

if TYPE_CHECKING:
    from pathlib import Path

NOTHING = "/nonexistent/sendmail"


@pytest.fixture
def sendmail(tmp_path: Path) -> str:
    """A local 'sendmail' that stores the mail that it gets."""
    program = tmp_path / "sendmail"
    program.write_text(f'#!/bin/sh\necho "$@" >{tmp_path}/arguments; cat >{tmp_path}/mail\n')
    program.chmod(0o755)
    return str(program)


def run(tmp_path: Path, text: str, sendmail: str = NOTHING, **environment: str) -> int:
    """Write a configuration; mail why it is refused."""
    path = tmp_path / "iowarden.yaml"
    path.write_text(text)
    return failure.main(str(path), sendmail, str(tmp_path / "stamp"), environment)


def test_a_mistake_elsewhere_is_mailed_by_the_mail_server_of_the_same_file(tmp_path: Path) -> None:
    """'smart.interval: soon': the mail settings are valid, each mistake is in the mail."""
    with smtp_server() as (port, answers):
        text = (
            f"host: db1\nsmart: {{interval: soon}}\nlog_level: loud\n"
            f"mail: {{server: 127.0.0.1, port: {port}, to: [ops@x, b@x]}}\n"
        )
        assert run(tmp_path, text) == 0
        taken = answers.next()
    assert taken.recipients == ("ops@x", "b@x")
    mail = email.message_from_bytes(taken.data, policy=email.policy.default)
    assert mail["Subject"].startswith("[CRITICAL] db1: iowarden could not start: ")
    body = " ".join(mail.get_content().split())
    assert "smart.interval" in body
    assert "log_level" in body
    assert "its disks are not monitored" in body
    assert "iowarden config check" in body


def test_if_the_mail_settings_are_the_mistake_root_gets_it_locally(
    tmp_path: Path, sendmail: str
) -> None:
    """'mail.port: smtp': no server is known; a file that is no YAML at all is the same."""
    for text in ("mail: {server: mx1, port: smtp, to: ops@x}\n", "mail: {server: [\n"):
        assert run(tmp_path, text, sendmail) == 0
        mail = email.message_from_bytes(
            (tmp_path / "mail").read_bytes(), policy=email.policy.default
        )
        assert mail["To"] == "root"
        assert "could not start" in mail["Subject"]
        assert (tmp_path / "arguments").read_text() == "-i -t\n"


def test_the_second_server_then_the_local_one_are_used_if_the_first_fails(
    tmp_path: Path, sendmail: str
) -> None:
    """The first refuses; the mail is not lost."""
    with (
        smtp_server(Answers(message="554 no")) as (port, _),
        smtp_server() as (other, answers),
    ):
        text = (
            f"nonsense: 1\nmail: {{server: 127.0.0.1, port: {port}, to: ops@x}}\n"
            f"mail_fallback: {{server: 127.0.0.1, port: {other}}}\n"
        )
        assert run(tmp_path, text) == 0
        assert b"could not start" in answers.next().data
    text = f"senseless: 1\nmail: {{server: 127.0.0.1, port: {free_port()}, to: ops@x}}\n"
    assert run(tmp_path, text, sendmail) == 0
    assert b"To: ops@x" in (tmp_path / "mail").read_bytes()


def test_what_nobody_accepts_is_reported_with_the_reasons(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The unit fails, the journal has both errors; the next start is mailed again."""
    text = f"nonsense: 1\nmail: {{server: 127.0.0.1, port: {free_port()}, to: ops@x}}\n"
    for _ in range(2):
        assert run(tmp_path, text) == 1
        error = capsys.readouterr().err
        assert "connect: expected a connection" in error
        assert f"'{NOTHING}': expected it to accept the mail" in error


def test_the_same_mistake_is_mailed_once_an_hour(
    tmp_path: Path, sendmail: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Somebody corrects the file step by step: each new mistake is mailed, none repeated."""
    assert run(tmp_path, "mail: {port: smtp}\n", sendmail) == 0
    (tmp_path / "mail").unlink()
    assert run(tmp_path, "mail: {port: smtp}\n", sendmail) == 0
    assert "mailed within the last hour" in capsys.readouterr().err
    assert not (tmp_path / "mail").exists()
    assert run(tmp_path, "mail: {port: mail}\n", sendmail) == 0
    (tmp_path / "mail").unlink()
    old = time.time() - 2 * failure.REPEAT_SECONDS
    os.utime(tmp_path / "stamp", (old, old))
    assert run(tmp_path, "mail: {port: mail}\n", sendmail) == 0
    assert (tmp_path / "mail").exists()


def test_without_a_mail_server_nobody_is_mailed(
    tmp_path: Path, sendmail: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the service itself: 'check' reports that."""
    assert run(tmp_path, "nonsense: 1\n", sendmail) == 0
    assert not (tmp_path / "mail").exists()
    assert "no mail server is configured" in capsys.readouterr().err


def test_a_valid_configuration_is_mailed_with_the_result_of_the_service(tmp_path: Path) -> None:
    """It did not start for another reason: what systemd reports."""
    with smtp_server() as (port, answers):
        text = f"mail: {{server: 127.0.0.1, port: {port}, to: ops@x}}\n"
        ended = {"MONITOR_SERVICE_RESULT": "exit-code", "MONITOR_EXIT_STATUS": "78"}
        assert run(tmp_path, text, **ended) == 0
        assert b"ended with result 'exit-code', exit status 78" in answers.next().data


@pytest.mark.parametrize("status", ["KILL", "1", "ABRT"])
def test_a_service_that_systemd_restarts_is_not_mailed(
    tmp_path: Path, sendmail: str, capsys: pytest.CaptureFixture[str], status: str
) -> None:
    """It was killed; ten seconds later it runs again, and its configuration may be anything."""
    assert run(tmp_path, "mail: {port: smtp}\n", sendmail, MONITOR_EXIT_STATUS=status) == 0
    assert not (tmp_path / "mail").exists()
    assert f"restarts it after exit status {status}" in capsys.readouterr().err


def test_it_runs_as_the_unit_starts_it(tmp_path: Path) -> None:
    """The module is a program; without its configuration file it uses the defaults."""
    code = (
        "import runpy, sys; from iowarden.daemon import failure;"
        f"sys.exit(failure.main({str(tmp_path / 'none.yaml')!r}, '/none', '/none', {{}}))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.stderr.startswith("failed start of iowarden: ")
