"""The questions of `iowarden setup` on a terminal; Enter retains what is configured."""

from __future__ import annotations

import getpass
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from iowarden.daemon.config.receivers import ReceiverType, is_loopback, parse_url
from iowarden.daemon.redactor import problem
from iowarden.daemon.setup.answers import (
    WHY_SELF_TESTS,
    AnswerError,
    SetupAnswers,
    addresses,
    server_and_port,
    valid,
)
from iowarden.daemon.terminal.console import print_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

Answer = TypeVar("Answer")
_SECRET_URLS = frozenset({ReceiverType.SLACK, ReceiverType.PING})
"""Who knows their URL can send."""
DELIVERY_ADDRESS = "root"
"""Suggested recipient at a local mail server. Source: aliases(5): root's mail is forwarded."""


def on_terminal() -> bool:
    """Whether a user can be prompted: standard input and output are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()


def hold(
    present: Mapping[str, Any], local: str, password_path: str
) -> tuple[SetupAnswers, dict[str, str]]:
    """Return the answers, and the secrets that were typed by the paths of their files.

    `present` are the values of the configuration, `local` is the greeting of this machine's own
    mail server or '', `password_path` is the file that a typed password goes to.
    Errors: EOFError and KeyboardInterrupt if the user ends the dialogue.
    """
    section = present.get("mail")
    mail: Mapping[str, Any] = section if isinstance(section, dict) else {}
    server, port = _server(mail, local)
    same = server == mail.get("server")
    own = is_loopback(server)
    now = mail.get("to") or (DELIVERY_ADDRESS if own else "")
    shown = " ".join(map(str, now)) if isinstance(now, list) else str(now)
    to = _answer("Recipients, separated by blanks", shown, addresses)
    tls, user, path, password = None, None, None, None
    if not own:
        tls = _answer(
            "Encryption: auto (verified), starttls, tls, opportunistic, none",
            str(mail.get("tls", "auto")) if same else "auto",
            lambda text: valid("mail.tls", text),
        )
        tls = None if tls == "auto" and not (same and mail.get("tls")) else tls
        kept = str(mail.get("user") or "") if same else ""
        user = _answer("User name at that server ('-' for no log-in)", kept or "-", _user)
        if user:
            path, password = _password(mail if same and user == kept else {}, password_path)
    wanted = None
    if not present.get("self_tests"):
        print_line(WHY_SELF_TESTS)
        wanted = _answer(
            "Test each drive: all sectors on Saturdays, short on Wednesdays? yes or no", "yes", _yes
        )
    notify, secrets = _receiver(Path(password_path).parent)
    if path is not None and password is not None:
        secrets[path] = password
    return (
        SetupAnswers(
            mail_to=to,
            mail_server=server,
            mail_port=port,
            mail_tls=tls,
            mail_user=user,
            mail_password_file=path,
            self_tests=wanted or None,
            notify=notify,
        ),
        secrets,
    )


def agreed(question: str, default: str) -> bool:
    """Return whether the user agrees; `default` is 'yes' or 'no'."""
    return _answer(f"{question} yes or no", default, _yes)


def _receiver(directory: Path) -> tuple[dict[str, str] | None, dict[str, str]]:
    """Prompt for a receiver other than mail; what may be a secret goes to files, by their paths."""
    names = ", ".join(ReceiverType)
    kind = _answer(f"Notify also by {names}, or '-' for no other", "-", _type)
    if kind is None:
        return None, {}
    shown = kind not in _SECRET_URLS
    while True:
        typed = input(f"URL for {kind}: ") if shown else getpass.getpass("URL (not shown): ")
        try:
            url = parse_url(typed.strip(), kind)
            break
        except ValueError as error:
            print_line(str(error))
    entry, secrets = {"name": kind.value, "type": kind.value}, {}
    if shown and not url.is_secret:
        entry["url"] = typed.strip()
    else:
        entry["url_file"] = str(directory / f"{kind}.url")
        secrets[entry["url_file"]] = typed.strip()
    if kind is ReceiverType.NTFY and (token := getpass.getpass("Token (not shown; Enter: none): ")):
        entry["token_file"] = str(directory / f"{kind}.token")
        secrets[entry["token_file"]] = token
    return entry, secrets


def _type(text: str) -> ReceiverType | None:
    try:
        return None if text == "-" else ReceiverType(text.lower())
    except ValueError:
        raise AnswerError(f"expected one of them, got '{text:.40}'") from None


def _server(mail: Mapping[str, Any], local: str) -> tuple[str, int | None]:
    """Prompt for the mail server; this machine's own is suggested if it answers."""
    if local:
        print_line(
            f"This machine's own mail server answers: {local}. It may fail while the root disk"
            " hangs; a remote server does not depend on it."
        )
    else:
        print_line("No mail server answers at localhost:25. Name a mail server (SMTP relay).")
    kept = str(mail.get("server") or "")
    if kept and (port := mail.get("port")):
        kept = f"[{kept}]:{port}" if ":" in kept else f"{kept}:{port}"
    return _answer("Mail server, or server:port", kept or ("localhost" if local else ""), _place)


def _place(text: str) -> tuple[str, int | None]:
    return server_and_port(text)


def _password(mail: Mapping[str, Any], path: str) -> tuple[str | None, str | None]:
    """Return the password's file and the password; None for what stays as it is."""
    there = bool(mail.get("password_file") or mail.get("password_credential"))
    said = "Password (not shown; Enter: no change): " if there else ("Password (not shown): ")
    while True:
        typed = getpass.getpass(said)
        wrong = problem(typed)
        if typed and not wrong:
            return str(mail.get("password_file") or path), typed
        if there and not typed:
            return None, None
        print_line(wrong if typed else "expected a password, got nothing")


def _user(text: str) -> str:
    return "" if text == "-" else valid("mail.user", text)


def _yes(text: str) -> bool:
    word = text.lower()
    if word not in {"y", "yes", "n", "no"}:
        raise AnswerError(f"expected yes or no, got '{text:.40}'")
    return word.startswith("y")


def _answer(question: str, default: str, read: Callable[[str], Answer]) -> Answer:
    """Prompt until the answer is valid; Enter takes the default."""
    while True:
        text = input(f"{question} [{default}]: " if default else f"{question}: ").strip()
        try:
            return read(text or default)
        except AnswerError as error:
            print_line(str(error))
