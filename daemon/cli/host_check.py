"""`iowarden check` of a machine, and `iowarden config check`: with the parts of the service."""

from __future__ import annotations

import dataclasses
import os
import shutil
import sys
from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.model import UserInputError
from iowarden.collectors.recording.recording import RecordingError
from iowarden.daemon.check import check, guard, installation
from iowarden.daemon.check.findings import mail_path
from iowarden.daemon.check.report import WIDTH, CheckReport, Finding, Level
from iowarden.daemon.cli import command, service_client
from iowarden.daemon.config.load import (
    machine_name,
    read_config,
    with_password,
    with_receiver_secrets,
)
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.receivers import ReceiverType
from iowarden.daemon.config.rule_files import load_rules, load_shipped, shipped_rules
from iowarden.daemon.config.rule_notes import never_fires, notes, of_own_rules
from iowarden.daemon.config.schema import Config, ConfigError
from iowarden.daemon.http import web_config
from iowarden.daemon.receivers.alertmanager import doubled_alerts
from iowarden.daemon.setup import service_user
from iowarden.daemon.terminal import exit_status
from iowarden.daemon.terminal.console import print_json, print_line
from iowarden.rules.yaml_nodes import RuleFileError

CLOSE_SECONDS = 2.0
"""How long the end waits for the probe's connection."""

if TYPE_CHECKING:
    import argparse
    import pwd
    from collections.abc import Callable, Iterator, Sequence

    from iowarden.rules.rulefile.rulefile import RuleGroup


def check_config(arguments: argparse.Namespace) -> int:
    """Check the configuration as the service's user: root can read files that it cannot."""
    path = arguments.file or command.default_config()
    absent = arguments.file is None and not command.is_there(path)
    if absent and not arguments.json:
        print_line(f"no file '{path}': all settings have their default values")

    def checked(part: Callable[[], int]) -> int:
        try:
            return part()
        except UserInputError as error:
            if not arguments.json:
                raise
            print_json(_ConfigCheck(path, tuple(str(error).split("\n")))._asdict())
            return exit_status.CONFIG

    def as_root() -> int:
        settings = parse_config("" if absent else read_config(path), path, machine_name())
        if settings.mail.password_credential is not None:  # systemd reads it, as root
            settings = with_password(settings, path)
        user = service_user.service_user()
        # Before the user changes: a checkout below /root is closed to the service's user, who runs
        # the installed copy.
        shipped = shipped_rules(settings)

        def as_user() -> int:
            found = _checked_config(settings, path, shipped, user)._replace(exists=not absent)
            _print_valid(found, is_json=arguments.json)
            return 0

        return service_user.run(lambda: checked(as_user), user)

    return checked(as_root)


class _ConfigCheck(NamedTuple):
    """What `iowarden config check` reports; with problems nothing else is known."""

    file: str
    problems: tuple[str, ...] = ()
    rules: int = 0
    groups: int = 0
    user: str = ""
    """As whom files were read; '': as who runs it."""
    notes: tuple[str, ...] = ()
    exists: bool = True
    """False: there is no file, so all settings have their default values."""


def _print_valid(checked: _ConfigCheck, *, is_json: bool) -> None:
    if is_json:
        print_json(checked._asdict())
        return
    rules, groups = checked.rules, checked.groups
    judged = f" (checked as user '{checked.user}')" if checked.user else ""
    counted = f"{rules} rule{'s'[: rules != 1]} in {groups} group{'s'[: groups != 1]}"
    print_line(f"'{checked.file}' is valid: {counted}{judged}")
    for note in checked.notes:
        print_line(note)


def _checked_config(
    settings: Config,
    path: str,
    shipped: Sequence[RuleGroup],
    user: pwd.struct_passwd | None = None,
) -> _ConfigCheck:
    """Load all files that the configuration names. Errors: UserInputError."""
    # Another file may be a draft that this user may not read.
    if path == command.DEFAULT_CONFIG and command.is_there(path):
        read_config(path)
    if settings.mail.password is None:
        settings = with_password(settings, path)
    settings = with_receiver_secrets(settings, path)
    web_config.load(settings.web_config, settings.http.page)
    groups = load_rules(settings, shipped=shipped)
    more = [*notes(groups, settings), *filter(None, (mail_path(settings),))]
    if settings.mail.password_file is not None and user is None and not os.geteuid():
        more.append(
            "not checked whether the service can read 'mail.password_file': user"
            f" '{service_user.SERVICE_USER}' does not exist before 'make install'"
        )
    rules = sum(len(group.rules) for group in groups)
    return _ConfigCheck(path, (), rules, len(groups), user.pw_name if user else "", tuple(more))


def check_host(arguments: argparse.Namespace) -> int:
    """Check this machine, or a recording, and print the report; return its exit status."""
    try:
        report = report_of(arguments)
        width = shutil.get_terminal_size((WIDTH, 0)).columns if sys.stdout.isatty() else WIDTH
        print(report.json() if arguments.json else "\n".join(report.lines(width)), flush=True)
    except BrokenPipeError:  # 'iowarden check | head': the flush at exit must not fail as well
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return exit_status.INTERRUPTED
    return report.status


def report_of(arguments: argparse.Namespace) -> CheckReport:
    """Return the report on this machine, or on the recording `arguments.play`."""

    def examine(step: Callable[[str], None]) -> CheckReport:
        step("reading the configuration and the rules")
        settings, groups, problems = _whatever_is_good(arguments)
        player = None
        try:
            clock, player, root = command.machine(arguments.play)
            client = None
            if player is None and settings.watch_directories:
                client = command.probe(settings, clock)
            probe = None
            if client is not None:
                client.begin()
                probe = client.request
            query = None
            if settings.web_config is not None:
                query = service_client.query_of(arguments.state_directory, settings.state_directory)
            report = check.examine(
                settings, groups, clock, root, player=player, step=step, probe=probe, query=query
            )
            if client is not None:
                client.close(CLOSE_SECONDS)
        except RecordingError as error:
            report = CheckReport((_unusable("recording", str(error)),))
        found = report.findings
        if any(problem.topic == "configuration" for problem in problems):
            # Findings about mail and state would be about the defaults, not the configuration.
            found = tuple(f for f in found if f.topic not in {"mail", "state"})
        found = (*found, *_never_matching(settings, groups))
        if player is None:
            found = (*found, *_doubled(settings, step))
            path = arguments.config or command.default_config()
            about = installation.findings(path, exists=os.path.exists(path))
            found = (*found, *(f for f in about if not problems or f.topic == "version"))
        return dataclasses.replace(report, findings=(*problems, *found))

    if arguments.play is None:
        return guard.guarded(examine)
    return guard.answered(examine, lambda _: None)


def _never_matching(settings: Config, groups: Sequence[RuleGroup]) -> Iterator[Finding]:
    """Yield the alerts that an override switches off unseen, and notes on the user's rules."""
    for override, reason in never_fires(groups, settings):
        text = f"never fires, by 'expr' in {override.place}: {reason}"
        yield Finding(Level.WARNING, "overrides", override.rule, text)
    for note in of_own_rules(groups, settings):
        yield Finding(Level.INFO, "rules", "", note)


def _doubled(settings: Config, step: Callable[[str], None]) -> Iterator[Finding]:
    """Yield a warning for each Alertmanager that also gets the alerts from a Prometheus."""
    for each in settings.notify:
        if each.type is not ReceiverType.ALERTMANAGER:
            continue
        step(f"querying the receiver '{each.name}'")
        if names := doubled_alerts(each, settings.host):
            text = (
                f"Alertmanager also has {', '.join(names[:3])} of this host from a Prometheus, so"
                " it notifies twice: end iowarden's rules there, or remove this receiver"
            )
            yield Finding(Level.WARNING, "notify", each.name, text)


def _whatever_is_good(
    arguments: argparse.Namespace,
) -> tuple[Config, list[RuleGroup], list[Finding]]:
    """Return configuration and rules; defaults and shipped rules in place of invalid ones."""
    problems: list[Finding] = []
    try:
        settings = command.settings(arguments)
    except ConfigError as error:
        problems += [_unusable("configuration", text) for text in error.problems]
        machine = machine_name()
        settings = parse_config("", command.DEFAULT_CONFIG, machine)
    try:
        if arguments.play is None:  # the service does not start with an invalid one
            web_config.load(settings.web_config, settings.http.page)
    except ConfigError as error:
        problems += [_unusable("web_config", text) for text in error.problems]
    try:
        return settings, load_rules(settings), problems
    except RuleFileError as error:
        problems += [_unusable("rules", text) for text in error.errors]
        return settings, load_shipped(settings), problems


def _unusable(topic: str, text: str) -> Finding:
    return Finding(Level.UNKNOWN, topic, "", text)
