"""The command `iowarden setup`: mail, self-tests, another receiver, test messages, a check."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import yaml

from iowarden.collectors.machine import Machine
from iowarden.collectors.model import UserInputError
from iowarden.daemon.check import running_service
from iowarden.daemon.check.report import WIDTH
from iowarden.daemon.cli import command, host_check, mail_command, service_client
from iowarden.daemon.config.load import machine_name, with_password, with_receiver_secrets
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.receivers import ReceiverType
from iowarden.daemon.config.schema import Config, ConfigError
from iowarden.daemon.control import roles
from iowarden.daemon.setup import (
    answers,
    config_file,
    dialogue,
    local_mail,
    reload_service,
    service_user,
    yaml_edit,
)
from iowarden.daemon.terminal import exit_status

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from iowarden.daemon.cli.command import Add

Edited = TypeVar("Edited")
HEADER = (
    "# Configuration of iowarden. All keys and their defaults:\n"
    "# /usr/share/doc/iowarden/packaging/doc/configuration.md\n\n"
)
"""First lines of a new file."""
_LINE = re.compile(r":\d+: ")
"""The line number of a problem: it changes as lines are added above it."""


def add_commands(add: Add) -> None:
    """Add the command, by a function that takes name and what runs."""
    parser = add("setup", _setup)
    parser.epilog = "On a terminal it prompts for each value; with one of these options for none."
    parser.add_argument(
        "--config", metavar="FILE", help=f"configuration file; default: {command.DEFAULT_CONFIG}"
    )
    parser.add_argument(
        "--mail-to", metavar="ADDRESS", action="append", help="recipient; may be given repeatedly"
    )
    parser.add_argument("--mail-from", metavar="ADDRESS", help="sender address")
    parser.add_argument(
        "--smtp-server",
        metavar="HOST[:PORT]",
        help="mail server; default: that of the configuration, else localhost if it answers",
    )
    parser.add_argument("--smtp-tls", metavar="MODE", help="'mail.tls' of the configuration")
    parser.add_argument(
        "--smtp-user", metavar="NAME", help="user name at the server; '': no log-in"
    )
    parser.add_argument(
        "--smtp-password-file",
        metavar="FILE",
        help="file with the password in its first line, which the service's user can read",
    )
    parser.add_argument(
        "--self-tests",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="test each drive: all sectors on Saturdays, short on Wednesdays",
    )
    kinds = [kind.value for kind in ReceiverType]
    parser.add_argument("--notify", choices=kinds, help="another receiver, of this type and name")
    parser.add_argument("--notify-url", metavar="URL", help="its URL, if that is no secret")
    parser.add_argument("--notify-url-file", metavar="FILE", help="file with its URL")
    parser.add_argument("--notify-token-file", metavar="FILE", help="file with its token")
    parser.add_argument("--no-test-mail", action="store_true", help="send no test mail or message")
    parser.add_argument("--no-check", action="store_true", help="do not check this machine")


def _setup(arguments: argparse.Namespace) -> int:
    written: list[str] = []
    try:
        return _run(arguments, written)
    except (EOFError, KeyboardInterrupt):
        what = f"{' and '.join(written)} stays as saved" if written else "nothing was changed"
        sys.stderr.write(f"\ncancelled; {what}\n")
        return exit_status.INTERRUPTED


def _run(arguments: argparse.Namespace, written: list[str]) -> int:
    """Run the command; `written` gets the files that were replaced. Errors: UserInputError."""
    given = _of_options(arguments)
    if not given.given and not dialogue.on_terminal():
        sys.stderr.write(
            "iowarden setup: expected a terminal, or options such as --mail-to; nothing was"
            " changed. See: iowarden setup --help\n"
        )
        return exit_status.USAGE
    path = arguments.config or command.DEFAULT_CONFIG
    file = config_file.read(path)
    earlier = _problems(file.text, path)
    present = _edited(file, earlier, yaml_edit.values)
    password, secrets = None, dict[str, str]()
    if given.given:
        given = _completed(given, present)
    else:
        # Next to a symbolic link, not to its target, which may be under version control.
        default_password = str(Path(path).absolute().with_name("password"))
        given, password, secrets = dialogue.hold(present, local_mail.greeting(), default_password)
    changes = answers.changes(given, present)
    text = _edited(file, earlier, lambda text: yaml_edit.changed(text or HEADER, changes))
    problems = _problems(text, path)
    if new := [
        p for p in problems if _LINE.sub(": ", p) not in {_LINE.sub(": ", e) for e in earlier}
    ]:
        sys.stderr.writelines(f"{problem}\n" for problem in new)
        sys.stderr.write("nothing was changed\n")
        return exit_status.CONFIG
    if password is not None:
        written += _save_password(given, yaml_edit.values(text), password)
    for name, secret in secrets.items():
        if config_file.replace(config_file.read(name), f"{secret}\n".encode()):
            written.append(f"'{name}'")
            print(f"'{name}': saved", flush=True)
    saved = config_file.replace(file, text.encode())
    written += [f"'{file.path}'"] if saved else []
    print(f"'{file.path}': {'saved' if saved else 'nothing to change'}", flush=True)
    changed = saved or password is not None or bool(secrets)
    status = _put_in_use(problems, path) if changed or problems else 0
    settings = _mail_settings(text, path)
    if settings is None:
        sys.stderr.write(f"no test mail; '{path}' stays as saved\n")
    elif arguments.no_test_mail:
        status = max(status, _read_secrets(settings, path))
    else:
        status = max(status, _test_mail(settings, path), _test_notify(settings, path))
    if file.content is None:  # the first time
        print(roles.GRANTING, flush=True)
    if not arguments.no_check:
        _check(path)
    return status


def _of_options(arguments: argparse.Namespace) -> answers.SetupAnswers:
    """Return the answers that were given as options. Errors: UserInputError."""
    server, port = None, None
    if arguments.smtp_server is not None:
        server, port = answers.server_and_port(arguments.smtp_server)
    to = None if arguments.mail_to is None else answers.addresses(" ".join(arguments.mail_to))
    for key, value in (
        ("mail.from", arguments.mail_from),
        ("mail.tls", arguments.smtp_tls),
        ("mail.user", arguments.smtp_user or None),
        ("mail.password_file", arguments.smtp_password_file),
    ):
        if value is not None:
            answers.valid(key, value)
    entry = {
        key: value
        for key, value in (
            ("name", arguments.notify),
            ("type", arguments.notify),
            ("url", arguments.notify_url),
            ("url_file", arguments.notify_url_file),
            ("token_file", arguments.notify_token_file),
        )
        if value is not None
    }
    if entry and arguments.notify is None:
        raise UserInputError("--notify: expected the type of the receiver as well, got none")
    return answers.SetupAnswers(
        notify=entry or None,
        mail_to=to,
        mail_from=arguments.mail_from,
        smtp_server=server,
        smtp_port=port,
        smtp_tls=arguments.smtp_tls,
        smtp_user=arguments.smtp_user,
        smtp_password_file=arguments.smtp_password_file,
        self_tests=arguments.self_tests,
    )


def _completed(given: answers.SetupAnswers, present: Mapping[str, Any]) -> answers.SetupAnswers:
    """Return answers with the local mail server if none is known. Errors: UserInputError."""
    section = present.get("mail")
    mail = section if isinstance(section, dict) else {}
    if given.mail_to is None or given.smtp_server is not None or mail.get("server"):
        return given
    if not local_mail.greeting():
        raise UserInputError(
            "--smtp-server: expected it or a mail server at localhost:25, got neither; nothing was"
            " changed. Name a mail server (SMTP relay)"
        )
    return dataclasses.replace(given, smtp_server="localhost")


def _problems(text: str, path: str) -> tuple[str, ...]:
    try:
        parse_config(text, path, machine_name())
    except ConfigError as error:
        return error.problems
    return ()


def _edited(
    file: config_file.ConfigFile, earlier: tuple[str, ...], part: Callable[[str], Edited]
) -> Edited:
    """Return what `part` makes of the file's text. Errors: ConfigEditError, which names the file.

    `earlier` are the problems of the text, with their lines: they are often the reason.
    """
    try:
        return part(file.text)
    except yaml_edit.ConfigEditError as error:
        reasons = "".join(f"\n{problem}" for problem in earlier)
        raise yaml_edit.ConfigEditError(
            f"'{file.path}': {error}; nothing was changed{reasons}"
        ) from error


def _save_password(
    given: answers.SetupAnswers, wanted: Mapping[str, Any], password: str
) -> list[str]:
    """Write a typed password to the file that the configuration names; return what was replaced.

    Errors: UserInputError.
    """
    path = given.smtp_password_file or wanted["mail"]["password_file"]
    if not config_file.replace(config_file.read(path), f"{password}\n".encode()):
        return []
    print(f"'{path}': password saved", flush=True)
    return [f"'{path}'"]


def _put_in_use(problems: tuple[str, ...], path: str) -> int:
    """Reload the service; problems that the file had before are listed: it is refused for them."""
    if problems:
        sys.stderr.writelines(f"{problem}\n" for problem in problems)
        sys.stderr.write("the service does not load the configuration until this is corrected\n")
        return exit_status.FAILED
    if path != command.DEFAULT_CONFIG:
        print(f"the installed service reads '{command.DEFAULT_CONFIG}', not this file")
        return 0
    settings = parse_config(Path(path).read_text(encoding="utf-8"), path, machine_name())
    query = None
    if settings.web_config is not None:  # '/metrics' requires TLS or a login
        query = service_client.query_of(None, settings.state_directory)
    good, text = reload_service.reload(
        settings.listen[0], lambda: running_service.processes(Machine()), query=query
    )
    print(text, flush=True)
    return 0 if good else exit_status.FAILED


def _mail_settings(text: str, path: str) -> Config | None:
    """Return the settings of a test mail, also if another part of the file is not valid."""
    wanted = ("host", "mail", "notify")
    only = {key: value for key, value in yaml_edit.values(text).items() if key in wanted}
    for each in (text, yaml.safe_dump(only)):
        with contextlib.suppress(ConfigError):
            return parse_config(each, path, machine_name())
    return None


def _read_secrets(settings: Config, path: str) -> int:
    """Read what the configuration names as the service's user, if no test message does."""
    user = service_user.service_user()
    second = settings.mail.fallback
    mail = (settings.mail, *(() if second is None else (second,)))
    as_root = any(each.password_credential for each in mail)  # which systemd reads

    def read() -> int:
        with_receiver_secrets(settings if as_root else with_password(settings, path), path)
        return 0

    try:
        if as_root:
            with_password(settings, path)
        failed = service_user.run(read, user)
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        failed = exit_status.CONFIG
    if failed:
        sys.stderr.write(f"'{path}' stays as saved; the service cannot use it\n")
    return exit_status.FAILED if failed else 0


def _test_mail(settings: Config, path: str) -> int:
    """Send a test mail as the service's user: what root can read and reach proves nothing."""
    if settings.mail.server is None:
        print("no test mail: no mail server is configured ('mail.server')")
        return 0 if any(each.notifies for each in settings.notify) else exit_status.FAILED
    user = service_user.service_user()
    second = settings.mail.fallback
    credentials = [each.password_credential for each in (settings.mail, second) if each is not None]
    if any(credentials):  # systemd reads it, as root
        settings = with_password(settings, path)
    by = f" as user '{user.pw_name}'" if user else ""
    print(f"sending a test mail{by} to {', '.join(settings.mail.to)}:", flush=True)

    def send() -> int:
        known = settings if any(credentials) else with_password(settings, path)
        return mail_command.send_test_mail(known)

    try:
        failed = service_user.run(send, user)
    except ConfigError as error:  # this process is that user
        sys.stderr.write(f"{error}\n")
        failed = exit_status.CONFIG
    if failed:
        sys.stderr.write(
            f"the test mail was not sent to all recipients; '{path}' stays as saved. Correct it by"
            " 'iowarden setup' and test it by 'iowarden test-mail'\n"
        )
        return exit_status.FAILED
    print("the server took the test mail; check that it arrives")
    return 0


def _test_notify(settings: Config, path: str) -> int:
    """Send a test notification to each receiver other than mail, as the service's user."""
    if not settings.notify:
        return 0
    user = service_user.service_user()
    print("sending a test notification to the receivers of 'notify':", flush=True)

    def send() -> int:
        return mail_command.send_test_notification(with_receiver_secrets(settings, path))

    try:
        failed = service_user.run(send, user)
    except ConfigError as error:  # this process is that user
        sys.stderr.write(f"{error}\n")
        failed = exit_status.CONFIG
    if failed:
        sys.stderr.write(
            f"'{path}' stays as saved; correct it and test it by 'iowarden test-notify'\n"
        )
    return exit_status.FAILED if failed else 0


def _check(path: str) -> None:
    """Show what is monitored, and what is not with the command that corrects it."""
    print("checking this machine ...", flush=True)
    report = host_check.report_of(argparse.Namespace(config=path, state_directory=None, play=None))
    width = shutil.get_terminal_size((WIDTH, 0)).columns
    print("\n".join(report.lines(width)), flush=True)
