"""The command `iowarden setup`: mail, self-tests, another receiver, test messages, a check."""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.machine import Machine
from iowarden.collectors.model import UserInputError
from iowarden.collectors.packages import documentation
from iowarden.daemon.check import running_service
from iowarden.daemon.check.report import WIDTH
from iowarden.daemon.cli import command, host_check, mail_command, service_client
from iowarden.daemon.config.keys import TLS_MODES
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
    other_monitors,
    reload_service,
    service_user,
    yaml_edit,
)
from iowarden.daemon.setup.dialogue import NextStep
from iowarden.daemon.setup.mail_advice import Topic
from iowarden.daemon.storage.state_db import MAIL
from iowarden.daemon.terminal import exit_status

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from iowarden.daemon.cli.command import Add
    from iowarden.daemon.setup.other_monitors import OtherMonitor

Edited = TypeVar("Edited")
HEADER = (
    "# Configuration of iowarden. All keys and their defaults:\n"
    f"# {documentation()}/configuration.md\n\n"
)
"""First lines of a new file."""
_LINE = re.compile(r":\d+: ")
"""The line number of a problem: it changes as lines are added above it."""
_SET = re.compile(r":\d+: mail\.(?:server|port|tls|user|password_\w+|to)(?: =|:(?! unknown key))")
"""A problem that the answers of a dialogue correct: they set these keys."""


def add_commands(add: Add) -> None:
    """Add the command, by a function that takes name and what runs."""
    parser = add("setup", _setup)
    parser.epilog = "On a terminal it prompts for each value; with one of these options for none."
    parser.add_argument(
        "--config", metavar="FILE", help=f"configuration file; default: {command.DEFAULT_CONFIG}"
    )
    parser.add_argument(
        "--mail-to",
        metavar="ADDRESS",
        action="append",
        help="recipients, separated by commas; may be given repeatedly",
    )
    parser.add_argument("--mail-from", metavar="ADDRESS", help="sender address")
    parser.add_argument(
        "--mail-server",
        metavar="HOST[:PORT]",
        help="mail server; default: that of the configuration, else localhost if it answers",
    )
    parser.add_argument(
        "--mail-tls", metavar="MODE", choices=TLS_MODES, help="'mail.tls' of the configuration"
    )
    parser.add_argument(
        "--mail-user", metavar="NAME", help="user name at the server; '': no log-in"
    )
    parser.add_argument(
        "--mail-password-file",
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
    parser.add_argument(
        "--stop-other-monitors",
        action="store_true",
        help="stop smartd and mdmonitor for good, once the test mail was accepted",
    )
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
    """Run the command; `written` gets the files that were replaced. Errors: UserInputError.

    A configuration is tried before it is saved: one whose mails are refused is never in force.
    """
    given = _of_options(arguments)
    is_prompted = not given.given
    if is_prompted and not dialogue.on_terminal():
        sys.stderr.write(
            "iowarden setup: expected a terminal, or options such as --mail-to; nothing was"
            " changed. See: iowarden setup --help\n"
        )
        return exit_status.USAGE
    is_tested = not arguments.no_test_mail
    path = arguments.config or command.DEFAULT_CONFIG
    tried = (
        _by_dialogue(path, messages=is_tested)
        if is_prompted
        else _by_options(given, path, messages=is_tested)
    )
    if tried is None:
        sys.stderr.write(_REFUSED.format(os.path.realpath(path)))
        return exit_status.FAILED
    draft, failed = tried
    if others := sorted(failed - draft.changed_receivers()):
        sys.stderr.write(
            f"not accepted: {', '.join(others)}, which this run does not change; test it by"
            f" 'iowarden {'test-mail' if others == [MAIL] else 'test-notify'}'\n"
        )
    status = _save(draft, written)
    if failed or (is_tested and not draft.has_receiver()):
        status = exit_status.FAILED
    if draft.file.content is None:  # the first time
        print(roles.GRANTING, flush=True)
    if status == 0 and is_tested and draft.path == command.DEFAULT_CONFIG:
        mail_command.retry_mails(None)
        if running_service.processes(Machine()):  # otherwise nobody would watch the disks
            _offer_to_stop(
                other_monitors.running(Machine()),
                is_prompted=is_prompted,
                stop=arguments.stop_other_monitors,
            )
    if not arguments.no_check:
        _check(draft.path)
    return status


def _by_options(
    given: answers.SetupAnswers, path: str, *, messages: bool
) -> tuple[_Draft, frozenset[str]] | None:
    """Return a tested configuration and the receivers that failed; None: it is not to be saved.

    Errors: UserInputError.
    """
    file = config_file.read(path)
    present = _edited(file, path, yaml_edit.values)
    draft = _drafted(file, path, present, _completed(given, present), {})
    draft.rehearse()
    failed = draft.failed_receivers(messages=messages)
    return None if draft.refused(failed) else (draft, frozenset(failed))


def _by_dialogue(path: str, *, messages: bool) -> tuple[_Draft, frozenset[str]] | None:
    """The same on a terminal, where what a receiver refuses is prompted for again."""
    file = config_file.read(path)
    present = _edited(file, path, yaml_edit.values)
    if lasting := [problem for problem in _problems(file.text, path) if not _SET.search(problem)]:
        raise UserInputError("\n".join((*lasting, _UNCHANGED)))
    # Next to a symbolic link, not to its target, which may be under version control.
    default_password = str(Path(path).absolute().with_name("password"))
    config_file.rehearse(file, HEADER.encode())  # before anybody answers in vain
    talk = dialogue.Dialogue(present, local_mail.greeting(), default_password)
    talk.hold()
    while True:
        draft = _drafted(file, path, present, talk.given, talk.secrets)
        draft.rehearse()
        failed = draft.failed_receivers(messages=messages)
        refused = draft.refused(failed)
        topics = sorted(set(refused.values()) - {Topic.OTHER})
        step = dialogue.next_step(is_correctable=bool(topics)) if refused else NextStep.SAVE
        if step is NextStep.SAVE:
            return draft, frozenset(failed)
        if step is NextStep.END:
            return None
        for topic in topics:
            talk.correct(topic)


_REFUSED = (
    "nothing was changed in '{}'; correct it and run 'iowarden setup' again, or save it without a"
    " test by '--no-test-mail'\n"
)


@dataclass(frozen=True, slots=True)
class _Draft:
    """A configuration that is not saved: the file as it is, its new text, and typed secrets.

    `secrets` are by the paths of their files.
    """

    path: str
    file: config_file.ConfigFile
    text: str
    given: answers.SetupAnswers
    secrets: Mapping[str, str]
    present: Mapping[str, Any]
    settings: Config

    def rehearse(self) -> None:
        """Try whether it can be saved: no test message is sent otherwise. Errors: UserInputError.

        A receiver would have it of a configuration that is never in force.
        """
        for name, secret in self.secrets.items():
            config_file.rehearse(config_file.read(name), f"{secret}\n".encode())
        config_file.rehearse(self.file, self.text.encode())

    def failed_receivers(self, *, messages: bool) -> dict[str, Topic]:
        """Return what the service could not use: 'mail', and names of 'notify'; and what for."""
        return _Trial(self.settings, self.path, self.secrets).failed_receivers(messages=messages)

    def refused(self, failed: Mapping[str, Topic]) -> dict[str, Topic]:
        """Return, and name to the user, those of the failed receivers that this run sets up."""
        changed = self.changed_receivers()
        refused = {name: topic for name, topic in failed.items() if name in changed}
        if refused:
            sys.stderr.write(f"not accepted: {', '.join(sorted(refused))}\n")
            sys.stderr.flush()
        return refused

    def changed_receivers(self) -> frozenset[str]:
        """Return what this run sets up; for the others the file in force is no better."""
        names = [] if self.given.notify is None else [self.given.notify["name"]]
        after = yaml_edit.values(self.text)
        if self.present.get("mail") != after.get("mail") or self.secrets:
            names.append(MAIL)
        return frozenset(names)

    def has_receiver(self) -> bool:
        """Whether a mail server or another receiver of alerts is configured."""
        return self.settings.mail.server is not None or any(
            receiver.notifies for receiver in self.settings.notify
        )


class _Trial:
    """Uses a configuration as the service's user: what only root can read and reach proves nothing.

    `unsaved` are typed secrets by the paths of their files, which are not written yet.
    """

    def __init__(self, settings: Config, path: str, unsaved: Mapping[str, str]) -> None:
        """Prepare it; `path` is the file that the configuration will be in."""
        self._settings = settings
        self._path = path
        self._unsaved = unsaved
        self._user = service_user.service_user()

    def failed_receivers(self, *, messages: bool) -> dict[str, Topic]:
        """Return what the service could not use: 'mail', and names of 'notify'; and what for.

        Reads all secrets, then sends the test messages unless `messages` is False.
        """
        names = [receiver.name for receiver in self._settings.notify]
        if self._status(lambda _: 0):
            return dict.fromkeys((MAIL, *names), Topic.OTHER)
        if not messages:
            return {}
        failed = {}
        if self._settings.mail.server is None:
            print("no test mail: no mail server is configured ('mail.server')", flush=True)
        elif topic := self._mail_refusal():
            failed[MAIL] = topic
        if names:
            print("sending a test notification to the receivers of 'notify':", flush=True)
        for name in names:
            if self._status(_notification(name)):
                failed[name] = Topic.RECEIVER
        return failed

    def _mail_refusal(self) -> Topic | None:
        """Send a test mail; return what is to be corrected, None if it was accepted."""
        by = f" as user '{self._user.pw_name}'" if self._user else ""
        to = ", ".join(self._settings.mail.to)
        print(f"sending a test mail{by} to {to}:", flush=True)
        silent = "a server that accepts and is silent is given up after minutes"
        print(f"({silent}; Ctrl-C ends it now, and nothing is saved)", flush=True)
        # The topic is the status of a child process.
        status = self._status(lambda known: next(iter(mail_command.refused_topics(known)), 0))
        if status == 0:
            print("the server took the test mail; check that it arrives", flush=True)
            return None
        return Topic(status) if status in {*Topic} else Topic.OTHER

    def _status(self, part: Callable[[Config], int]) -> int:
        """Run a part with all secrets as the service's user; return its status, 0 if good."""
        mail = self._settings.mail
        try:
            # systemd reads a credential as root and passes it to the service: so does this process.
            servers = (mail, *(() if mail.fallback is None else (mail.fallback,)))
            is_root_read = any(server.password_credential for server in servers)
            settings = self._with_password() if is_root_read else self._settings

            def run() -> int:
                known = settings if is_root_read else self._with_password()
                return part(with_receiver_secrets(known, self._path, self._unsaved))

            return service_user.run(run, self._user)
        except ConfigError as error:  # without another user, this process reads them
            sys.stderr.write(f"{error}\n")
            return exit_status.CONFIG

    def _with_password(self) -> Config:
        return with_password(self._settings, self._path, self._unsaved)


def _notification(name: str) -> Callable[[Config], int]:
    return lambda settings: mail_command.send_test_notification(settings, name)


def _drafted(
    file: config_file.ConfigFile,
    path: str,
    present: Mapping[str, Any],
    given: answers.SetupAnswers,
    secrets: Mapping[str, str],
) -> _Draft:
    """Return the configuration that follows from the answers. Errors: UserInputError.

    One that the service would refuse is not drafted, whatever the reason: it would not be in force.
    """
    changes = answers.changes(given, present)
    text = _edited(file, path, lambda text: yaml_edit.changed(text or HEADER, changes))
    try:
        settings = parse_config(text, path, machine_name())
    except ConfigError as error:
        # Lines of the file as it is: those of the new text are nowhere.
        problems = _problems(file.text, path)
        before = {_LINE.sub(": ", problem): problem for problem in problems}
        named = (before.get(_LINE.sub(": ", each), each) for each in error.problems)
        raise UserInputError("\n".join((*named, _UNCHANGED))) from error
    return _Draft(path, file, text, given, dict(secrets), present, settings)


_UNCHANGED = "nothing was changed; correct this and run 'iowarden setup' again"


def _save(draft: _Draft, written: list[str]) -> int:
    """Replace the files and reload the service; return the exit status. Errors: UserInputError."""
    secrets_saved = False
    for name, secret in draft.secrets.items():
        if config_file.replace(config_file.read(name), f"{secret}\n".encode()):
            written.append(f"'{name}'")
            secrets_saved = True
            print(f"'{name}': saved", flush=True)
    saved = config_file.replace(draft.file, draft.text.encode())
    written += [f"'{draft.file.path}'"] if saved else []
    print(f"'{draft.file.path}': {'saved' if saved else 'nothing to change'}", flush=True)
    return _put_in_use(draft) if saved or secrets_saved else 0


def _of_options(arguments: argparse.Namespace) -> answers.SetupAnswers:
    """Return the answers that were given as options. Errors: UserInputError."""
    server, port = None, None
    if arguments.mail_server is not None:
        server, port = answers.server_and_port(arguments.mail_server)
    to = None if arguments.mail_to is None else answers.addresses(" ".join(arguments.mail_to))
    for key, value in (
        ("mail.from", arguments.mail_from),
        ("mail.tls", arguments.mail_tls),
        ("mail.user", arguments.mail_user or None),
        ("mail.password_file", arguments.mail_password_file),
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
        mail_server=server,
        mail_port=port,
        mail_tls=arguments.mail_tls,
        mail_user=arguments.mail_user,
        mail_password_file=arguments.mail_password_file,
        self_tests=arguments.self_tests,
    )


def _completed(given: answers.SetupAnswers, present: Mapping[str, Any]) -> answers.SetupAnswers:
    """Return answers with the local mail server if none is known. Errors: UserInputError."""
    section = present.get("mail")
    mail = section if isinstance(section, dict) else {}
    if given.mail_to is None or given.mail_server is not None or mail.get("server"):
        return given
    if not local_mail.greeting():
        raise UserInputError(
            "--mail-server: expected it or a mail server at localhost:25, got neither; nothing was"
            " changed. Name a mail server (SMTP relay)"
        )
    return dataclasses.replace(given, mail_server="localhost")


def _problems(text: str, path: str) -> tuple[str, ...]:
    try:
        parse_config(text, path, machine_name())
    except ConfigError as error:
        return error.problems
    return ()


def _edited(file: config_file.ConfigFile, path: str, part: Callable[[str], Edited]) -> Edited:
    """Return what `part` makes of the file's text. Errors: ConfigEditError, which names the file.

    The problems of the text are named with it, with their lines: they are often the reason.
    """
    try:
        return part(file.text)
    except yaml_edit.ConfigEditError as error:
        reasons = "".join(f"\n{problem}" for problem in _problems(file.text, path))
        raise yaml_edit.ConfigEditError(
            f"'{file.path}': {error}; nothing was changed{reasons}"
        ) from error


def _put_in_use(draft: _Draft) -> int:
    """Reload the service; return the exit status."""
    if draft.path != command.DEFAULT_CONFIG:
        print(f"the installed service reads '{command.DEFAULT_CONFIG}', not this file")
        return 0
    query = None
    if draft.settings.web_config is not None:  # '/metrics' requires TLS or a login
        query = service_client.query_of(None, draft.settings.state_directory)
    good, text = reload_service.reload(
        draft.settings.listen[0], lambda: running_service.processes(Machine()), query=query
    )
    print(text, flush=True)
    return 0 if good else exit_status.FAILED


def _offer_to_stop(monitors: Iterable[OtherMonitor], *, is_prompted: bool, stop: bool) -> None:
    """Name the monitors that now mail about the same disks; stop them if the user agrees."""
    for monitor in monitors:
        print(f"{monitor.name} ({monitor.unit}) runs as well and mails about the same disks")
        if monitor.needed_for:
            print(f"  {monitor.needed_for}; to stop it: {monitor.command}", flush=True)
        elif stop or (is_prompted and dialogue.agreed(f"Stop it by '{monitor.command}'?", "no")):
            if other_monitors.stop(monitor):
                print(f"  stopped by: {monitor.command}", flush=True)
            else:
                sys.stderr.write(f"  not stopped; as root: {monitor.command}\n")
        else:
            print(f"  to stop it: {monitor.command}", flush=True)


def _check(path: str) -> None:
    """Show what is monitored, and what is not with the command that corrects it."""
    print("checking this machine ...", flush=True)
    report = host_check.report_of(argparse.Namespace(config=path, state_directory=None, play=None))
    width = shutil.get_terminal_size((WIDTH, 0)).columns
    print("\n".join(report.lines(width)), flush=True)
