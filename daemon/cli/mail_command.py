"""The commands `iowarden test-mail` and `test-notify`."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.daemon import working_copy
from iowarden.daemon.cli import command
from iowarden.daemon.cli.service_client import NotRunningError, ServiceError, requested
from iowarden.daemon.clock import SystemClock
from iowarden.daemon.config.load import with_password, with_receiver_secrets
from iowarden.daemon.config.schema import ConfigError
from iowarden.daemon.notify import sender
from iowarden.daemon.notify.message import recipients, render
from iowarden.daemon.notify.smtp import MailSettings
from iowarden.daemon.receivers.assembly import try_receiver
from iowarden.daemon.receivers.dry_run import test_notice
from iowarden.daemon.setup import mail_advice, service_user
from iowarden.daemon.setup.mail_advice import Topic
from iowarden.daemon.storage import state_access
from iowarden.daemon.storage.state_db import MAIL
from iowarden.daemon.terminal import exit_status

if TYPE_CHECKING:
    from collections.abc import Callable

    from iowarden.daemon.cli.command import Add
    from iowarden.daemon.config.schema import Config


EXIT_NO_SERVER = 2
"""No mail server is configured: the mail is in the Maildir, not delivered to a person."""


def add_commands(add: Add) -> None:
    """Add the command, by a function that takes name and what runs."""
    command.configured(add("test-mail", _test_mail))
    notify = command.configured(add("test-notify", _test_notify))
    notify.add_argument(
        "name", nargs="?", metavar="NAME", help="only to this receiver; default: to each"
    )


def _test_mail(arguments: argparse.Namespace) -> int:
    settings = command.settings(arguments)
    owner = working_copy.owner(settings.state_directory, command.checkout_directory())
    status = service_user.run(lambda: send_test_mail(settings), owner)
    if status == 0:
        retry_mails(arguments.state_directory)
    return status


def retry_mails(state_directory: str | None, receiver: str = MAIL) -> None:
    """Let the running service try what was refused now: the server accepts messages."""
    where = argparse.Namespace(socket=None, state_directory=state_directory)
    noun = "mails" if receiver == MAIL else f"notifications of '{receiver}'"
    try:
        requested(where, "mail retry", {"receiver": receiver})
    except NotRunningError:
        return
    except ServiceError as error:
        sys.stderr.write(f"{noun} that wait are not retried now: {error}\n")
        return
    sys.stdout.write(f"the service retries the {noun} that wait, if there are any\n")


def send_test_mail(settings: Config) -> int:
    """Send a test mail, print the server's answers; return 0, 1, or EXIT_NO_SERVER."""
    if settings.mail.server is None:
        try:
            with suppress(FileNotFoundError):  # it is created
                state_access.check(settings.state_directory)
        except OSError as error:
            sys.stderr.write(
                f"'{settings.state_directory}': expected a directory to write the mail to, got:"
                f" {error}; set 'mail.server', or name another one with --state-directory\n"
            )
            return exit_status.FAILED
    if refused_topics(settings):
        return exit_status.FAILED
    if settings.mail.server is None:
        sys.stderr.write(
            "no mail server is configured: the test mail is only in that Maildir; to set one:"
            f" {working_copy.mail_setup(settings.state_directory)}\n"
        )
        return EXIT_NO_SERVER
    return 0


def refused_topics(settings: Config) -> list[Topic]:
    """Send a test mail, print the answers with the next step; return what is to be corrected."""
    receivers = recipients(settings)
    notice = test_notice(SystemClock().now())
    message = render(notice, settings.host, settings.mail.sender, receivers)
    topics = []
    sections = ("mail", "mail_fallback")
    # Each server, since the second one is used rarely.
    for section, server in zip(sections, sender.mail_settings(settings), strict=False):
        is_refused = is_taken = False
        for line in sender.test_mail(server, message.as_bytes(), receivers):
            sys.stdout.write(f"{line.text}\n")
            is_taken = line.good  # the last reply is that to the message, if any recipient is good
            if line.good:
                continue
            is_refused = True
            topic = Topic.OTHER
            if isinstance(server, MailSettings):
                place = mail_advice.Place(section, server.server, server.port)
                topic, advice = mail_advice.corrected_by(line.step, line.got, place)
                sys.stdout.write(f"  {advice}\n")
            topics.append(topic if section == "mail" else Topic.OTHER)
        if is_refused:
            sys.stdout.flush()
            reached = "accepted for some recipients only" if is_taken else "not accepted"
            sys.stderr.write(f"the test mail was {reached}\n")
    return topics


def _test_notify(arguments: argparse.Namespace) -> int:
    """Send a test notification as the service's user: root can read secrets that it cannot."""
    settings, path = command.public_settings(arguments)
    user = service_user.service_user()
    return service_user.run(
        lambda: send_test_notification(
            _with_secrets(settings, path),
            arguments.name,
            lambda name: retry_mails(arguments.state_directory, name),
        ),
        user,
    )


def _with_secrets(settings: Config, path: str) -> Config:
    """Return the configuration with the secrets of the receivers. Errors: ConfigError."""
    with suppress(ConfigError):  # No receiver needs them, but the redactor should know them.
        with_password(settings, path)
    return with_receiver_secrets(settings, path)


def send_test_notification(
    settings: Config,
    wanted: str | None = None,
    accepted: Callable[[str], object] = lambda _: None,
) -> int:
    """Send one to each receiver, print the answers; return 0, or 1 if one did not accept it.

    `accepted` is called with the name of each receiver of messages that did.
    """
    chosen = [each for each in settings.notify if wanted in (None, each.name)]
    if not chosen:
        names = ", ".join(each.name for each in settings.notify)
        there = f"there: {names}" if names else "none is there: 'iowarden setup' adds one"
        got = "none" if wanted is None else f"{wanted!r:.40}"
        sys.stderr.write(
            f"iowarden test-notify: expected a receiver of 'notify', got {got};\n{there}\n"
        )
        return exit_status.FAILED
    delivered = True
    notice = replace(
        test_notice(SystemClock().now()), sentences=("'iowarden test-notify' was run",)
    )
    for receiver in chosen:
        is_accepted = True
        for line in try_receiver(receiver, notice, settings.host):
            sys.stdout.write(f"{line.text}\n")
            sys.stdout.flush()
            is_accepted = is_accepted and line.good
        if is_accepted and receiver.messages:
            accepted(receiver.name)
        delivered = delivered and is_accepted
    return 0 if delivered else exit_status.FAILED
