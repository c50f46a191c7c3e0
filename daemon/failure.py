"""Mails why the service could not start: `python -I -m iowarden.daemon.failure`, by OnFailure=.

The configuration itself may be the reason: then only its mail settings are used; if these are wrong
as well, the mail goes to root by '/usr/sbin/sendmail', if there is one. A runs-once program as
root: the service itself runs no program.
*Source:* systemd.unit(5), OnFailure=; systemd.exec(5), MONITOR_*. Exit: 0 sent or not necessary, 1.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import subprocess
import sys
import time
from email.message import EmailMessage
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from iowarden.daemon.cli.command import DEFAULT_CONFIG
from iowarden.daemon.config.load import load_config, machine_name, with_password
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.rule_files import load_for_service
from iowarden.daemon.config.schema import ConfigError
from iowarden.daemon.notify import sender
from iowarden.daemon.notify.attempt import OutboundMail
from iowarden.daemon.notify.mail_format import POLICY, identifier, wrapped
from iowarden.daemon.notify.message import recipients
from iowarden.daemon.notify.smtp import MailSettings
from iowarden.daemon.sanitize import one_line
from iowarden.rules.yaml_nodes import RuleFileError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.daemon.config.schema import Config

SENDMAIL = "/usr/sbin/sendmail"
STAMP = "/run/iowarden-failure/last"
"""What was mailed last; a restart with the same error within an hour is not mailed again."""
REPEAT_SECONDS = 3600.0
REPLY_SECONDS = 20.0
"""Limit of each reply of a server, unless one is configured: systemd limits the whole."""
_STAYS_DOWN = "78"
"""As in RestartPreventExitStatus= of the unit."""
_SENDMAIL_SECONDS = 60.0
_JOURNAL_SECONDS = 10.0
_MAX_PROBLEMS = 20
_MAX_LOG_LINES = 20
_SECTIONS = ("host", "mail", "mail_fallback")


def main(
    config_path: str = DEFAULT_CONFIG,
    sendmail: str = SENDMAIL,
    stamp: str = STAMP,
    environment: Mapping[str, str] = os.environ,
) -> int:
    """Mail the reason once; report on standard error what came of it.

    Since systemd 254 OnFailure= is also triggered before each automatic restart: then nothing is
    mailed. Source: systemd.service(5), RestartMode=normal.
    """
    status = environment.get("MONITOR_EXIT_STATUS", _STAYS_DOWN)
    if status != _STAYS_DOWN:
        return _reported(f"systemd restarts it after exit status {status}; not mailed")
    settings, problems = read(config_path)
    reasons = problems or [_result(environment)]
    host = machine_name() if settings is None else settings.host
    to = ("root",) if settings is None else recipients(settings)
    mailed = settings is not None and settings.mail.enabled and settings.mail.server is not None
    if settings is not None and not mailed:
        return _reported("no mail server is configured; not mailed")
    if _is_repeated(stamp, "\n".join(reasons), time.time()):
        return _reported("the same reason was mailed within the last hour; not mailed again")
    message = made(host, to, settings, reasons, _log_lines(environment))
    failed = []
    if settings is not None:
        for server in sender.mail_settings(settings):
            if not isinstance(server, MailSettings):
                continue
            hurried = dataclasses.replace(
                server, timeout_seconds=server.timeout_seconds or REPLY_SECONDS
            )
            mail = OutboundMail(str(message["Message-ID"]), to, message.as_bytes())
            result = sender.delivery(hurried)(mail)
            if result.delivered:
                return _recorded(
                    stamp, "\n".join(reasons), f"mailed to {', '.join(result.delivered)}"
                )
            failed += [result.error, *result.refused.values()]
    if problem := _by_sendmail(sendmail, message):
        failed.append(problem)
        return _reported("; ".join(filter(None, failed)), status=1)
    return _recorded(stamp, "\n".join(reasons), f"mailed to {', '.join(to)} by '{sendmail}'")


def read(path: str) -> tuple[Config | None, list[str]]:
    """Return the configuration, and why the service refuses it, if it does.

    Of a refused one only the mail settings are used; None: these are refused as well.
    """
    try:
        config = load_config(path)
    except ConfigError as error:
        return _mail_only(path), list(error.problems)
    try:
        load_for_service(config)
    except ConfigError as error:
        return config, list(error.problems)
    except RuleFileError as error:
        return config, list(error.errors)
    return config, []


def _mail_only(path: str) -> Config | None:
    try:
        found: Any = yaml.safe_load(Path(path).read_bytes())
        own = {key: found[key] for key in _SECTIONS if isinstance(found, dict) and key in found}
        config = parse_config(yaml.safe_dump(own), path, machine_name())
        return with_password(config, path)
    except (OSError, ValueError, yaml.YAMLError, ConfigError):
        return None


def made(
    host: str,
    to: tuple[str, ...],
    settings: Config | None,
    reasons: list[str],
    log_lines: list[str],
) -> EmailMessage:
    """Return the mail."""
    now = time.time()
    message = EmailMessage(policy=POLICY)
    message["Subject"] = f"[CRITICAL] {host}: iowarden could not start: {one_line(reasons[0], 150)}"
    message["From"] = f"iowarden@{host}" if settings is None else settings.mail.sender
    message["To"] = ", ".join(to)
    message["Date"] = time.strftime("%a, %d %b %Y %H:%M:%S +0000", time.gmtime(now))
    message["Message-ID"] = identifier("failure", int(now), host)
    message["Auto-Submitted"] = "auto-generated"
    more = len(reasons) - _MAX_PROBLEMS
    lines = [
        wrapped(f"The storage watchdog on {host} could not start: its disks are not monitored."),
        "",
        "WHY",
        *(wrapped(one_line(each, 600), "  ", "    ") for each in reasons[:_MAX_PROBLEMS]),
        *([f"  and {more} more"] if more > 0 else []),
        "",
        "WHAT TO DO",
        "  iowarden config check",
        "  correct what it reports, then: systemctl restart iowarden",
    ]
    if log_lines:
        lines += ["", "LAST MESSAGES OF THE SERVICE", *(f"  {each}" for each in log_lines)]
    message.set_content("\n".join(lines) + "\n", cte="quoted-printable")
    return message


def _result(environment: Mapping[str, str]) -> str:
    """Return how the service ended, from the variables that systemd sets."""
    result = environment.get("MONITOR_SERVICE_RESULT", "unknown")
    status = environment.get("MONITOR_EXIT_STATUS", "unknown")
    return f"the service ended with result '{result}', exit status {status}"


def _log_lines(environment: Mapping[str, str]) -> list[str]:
    """Return the last messages of the failed start; none if the journal cannot be read."""
    invocation = environment.get("MONITOR_INVOCATION_ID", "")
    if not invocation:
        return []
    command = ["journalctl", "--no-pager", "-o", "cat", "-n", str(_MAX_LOG_LINES)]
    try:
        run = subprocess.run(  # noqa: S603 - a fixed command
            [*command, f"_SYSTEMD_INVOCATION_ID={invocation}"],
            capture_output=True,
            timeout=_JOURNAL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return [f"the journal could not be read: {error}"]
    return [one_line(each, 300) for each in run.stdout.decode("utf-8", "replace").splitlines()]


def _by_sendmail(program: str, message: EmailMessage) -> str:
    """Hand the mail to the local mail server; return the error or ''."""
    try:
        run = subprocess.run(  # noqa: S603 - a fixed program
            [program, "-i", "-t"],
            input=message.as_bytes().replace(b"\r\n", b"\n"),
            capture_output=True,
            timeout=_SENDMAIL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"'{program}': expected it to accept the mail, got '{error}'"
    if run.returncode == 0:
        return ""
    said = one_line(run.stderr.decode("utf-8", "replace"), 300)
    return f"'{program}': expected exit status 0, got {run.returncode}: {said}"


def _is_repeated(stamp: str, text: str, now: float) -> bool:
    try:
        same = Path(stamp).read_text(encoding="ascii") == _digest(text)
        return same and 0 <= now - Path(stamp).stat().st_mtime < REPEAT_SECONDS
    except (OSError, ValueError):
        return False


def _recorded(stamp: str, text: str, what: str) -> int:
    try:
        Path(stamp).write_text(_digest(text), encoding="ascii")
    except OSError as error:
        what += f"; not recorded, a repetition is mailed as well: {error}"
    return _reported(what)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def _reported(what: str, *, status: int = 0) -> int:
    sys.stderr.write(f"failed start of iowarden: {what}\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
