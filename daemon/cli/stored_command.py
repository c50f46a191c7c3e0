"""The commands `iowarden mail` and `iowarden unparsed`: list and show what is stored."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from iowarden.collectors.quantity import duration
from iowarden.daemon.cli import command
from iowarden.daemon.cli.service_client import (
    NotRunningError,
    ServiceError,
    command_of,
    decoded,
    requested,
    take_json,
)
from iowarden.daemon.control.mail_document import StoredMail, StoredMailList, StoredMailText
from iowarden.daemon.notify import stored_mails
from iowarden.daemon.sanitize import escaped
from iowarden.daemon.storage import redaction, state_access, state_db, unparsed
from iowarden.daemon.terminal import exit_status
from iowarden.daemon.terminal.arguments import subcommand
from iowarden.daemon.terminal.console import print_error, print_json, print_line, show, table_of
from iowarden.daemon.terminal.times import since_text

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from iowarden.daemon.cli.command import Add
    from iowarden.daemon.config.schema import Config
    from iowarden.daemon.terminal.console import Columns


def add_commands(add: Add) -> None:
    """Add the commands, by a function that takes name and what runs."""
    mails = add("mail", _mail_list)
    actions = mails.add_subparsers(required=True, metavar="ACTION")
    words = "list the mails of the outbox and of the Maildir"
    command_of(subcommand(actions, "list", words), _mail_list, data=True)
    one = command_of(subcommand(actions, "show", "print a mail"), _mail_show, data=True)
    one.add_argument("mail", metavar="ID", help="ID as listed, or the beginning of it")
    kept = add("unparsed", _list)
    actions = kept.add_subparsers(required=True, metavar="ACTION")
    listed = command.configured(
        subcommand(actions, "list", "list saved output and kernel lines, one per line")
    )
    listed.set_defaults(command=_list)
    take_json(listed)
    shown = command.configured(subcommand(actions, "show", "print one, for a bug report"))
    shown.set_defaults(command=_show)
    shown.add_argument("name", help="name as listed")
    shown.add_argument(
        "--redact", action="store_true", help="replace names of disks, hosts and people"
    )


def _mail_list(arguments: argparse.Namespace) -> int:
    try:
        found = decoded(StoredMailList, requested(arguments, "mail list"))
    except NotRunningError as error:
        found = stored_mails.listed(_stored(arguments, error))
    if arguments.json:
        print_json(dataclasses.asdict(found))
        return 0
    now = time.time()
    fields: Columns[StoredMail] = {
        "ID": lambda each: each.identifier,
        "in": lambda each: each.place,
        "state": lambda each: "waits" if each.waits else "copy",
        "since": lambda each: since_text(each.created_seconds, now),
        "subject": lambda each: each.subject,
        "next attempt": lambda each: next_text(each, now),
        "last error": lambda each: each.error,
    }
    show([_summary(found.mails), *table_of("mails", found.mails, fields)])
    if found.note:
        print_line(found.note)
    return 0


def _summary(mails: Collection[StoredMail]) -> str:
    waiting = sum(each.waits for each in mails)
    copies = len(mails) - waiting
    words = [f"{waiting} mail{'s'[: waiting != 1]} not sent"] if waiting else []
    if copies:
        words.append(
            f"{copies} cop{'y' if copies == 1 else 'ies'} in the Maildir: sent since, or no longer"
            " news"
        )
    return "; ".join(words) or "no mails"


def _mail_show(arguments: argparse.Namespace) -> int:
    unscheduled = "only after a change"
    try:
        found = decoded(StoredMailText, requested(arguments, "mail show", {"mail": arguments.mail}))
    except NotRunningError as error:
        unscheduled = "when the service runs"
        try:
            found = stored_mails.shown(_stored(arguments, error), arguments.mail)
        except ValueError as problem:
            raise ServiceError(str(problem)) from problem
    if arguments.json:
        print_json(dataclasses.asdict(found))
        return 0
    for name, value in found.headers.items():
        print_line(f"{name}: {value}")
    if found.mail.place == stored_mails.OUTBOX:
        print_line(f"Next attempt: {next_text(found.mail, time.time()) or unscheduled}")
        print_line(f"Waits because: {found.mail.error or 'not tried yet'}")
    for line in ("", *found.text.splitlines()):
        print_line(line)
    return 0


def next_text(mail: StoredMail, now: float) -> str:
    """Return when a mail is tried next; '' if that is not known."""
    at = mail.next_seconds
    if at is None:
        return ""
    return "now" if at <= now else f"in {duration(at - now)}"


def _stored(
    arguments: argparse.Namespace, reason: NotRunningError
) -> list[tuple[StoredMail, bytes]]:
    """Return the mails in the files of a service that is not running. Errors: ServiceError."""
    directory = command.settings(
        argparse.Namespace(config=None, state_directory=arguments.state_directory)
    ).state_directory
    try:
        state_access.check(directory)  # SQLite reports no reason, and no limit of time
        rows = state_db.salvaged(str(Path(directory) / "state.db")).outbox
        found = stored_mails.of_maildir(str(Path(directory) / "Maildir"))
    except OSError as error:
        raise ServiceError(f"{reason}; '{directory}': cannot be read either: {error}") from error
    print(f"{reason}. Read from '{directory}'", file=sys.stderr)
    return stored_mails.together(rows, found)


def _list(arguments: argparse.Namespace) -> int:
    settings = command.settings(arguments)
    try:
        directory = _directory(settings)
        heads = {
            name: unparsed.head(unparsed.read(directory, name))
            for name in unparsed.names(directory)
        }
    except OSError as error:
        return _unreadable(settings, error)
    if arguments.json:
        print_json({"texts": [_document(name, head) for name, head in heads.items()]})
        return 0
    if not heads:
        sys.stderr.write("no unparsed outputs and no unrecognized kernel lines are stored\n")
    for name, head in heads.items():
        print_line(f"{name}  {head.get('time', '')}  {head.get('error', '')}")
    return 0


def _document(name: str, head: Mapping[str, str]) -> dict[str, str | float | None]:
    """Return what `unparsed list --json` shows of a text; null: its header lacks the time."""
    try:
        at = datetime.fromisoformat(head.get("time", "")).timestamp()
    except ValueError:
        at = None
    fields = {key: head.get(key, "") for key in ("source", "path", "error")}
    return {"name": name, "at_seconds": at, **fields}


def _show(arguments: argparse.Namespace) -> int:
    settings = command.settings(arguments)
    try:
        text = unparsed.read(_directory(settings), arguments.name)
    except ValueError as error:
        print_error(str(error))
        return exit_status.FAILED
    except OSError as error:
        return _unreadable(settings, error)
    names = {settings.host, os.uname().nodename}
    names |= {name.partition(".")[0] for name in names}
    shown = redaction.redact(text, sorted(names)) if arguments.redact else text
    # A terminal would obey what a tool printed; a file gets it as it is.
    print(escaped(shown, "\n\t") if sys.stdout.isatty() else shown)
    return 0


def _unreadable(settings: Config, error: OSError) -> int:
    path = error.filename or settings.state_directory
    print_error(
        f"'{path}': expected to read it, got: {error.strerror or error}; try it as root, and see"
        " 'journalctl -k -p err'"
    )
    return exit_status.FAILED


def _directory(settings: Config) -> str:
    """Return the directory of unparsed texts. Errors: NoAnswerError if its disk hangs; OSError."""
    with contextlib.suppress(FileNotFoundError):  # nothing is stored
        state_access.check(settings.state_directory)
    return str(Path(settings.state_directory) / unparsed.DIRECTORY)
