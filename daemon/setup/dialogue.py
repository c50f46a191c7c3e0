"""The questions of `iowarden setup` on a terminal; Enter retains what is configured."""

from __future__ import annotations

import dataclasses
import enum
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
    changes,
    server_and_port,
    valid,
)
from iowarden.daemon.setup.mail_advice import Topic
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


class Dialogue:
    """The answers so far; a question repeated has the former answer as its default."""

    def __init__(self, present: Mapping[str, Any], local: str, password_path: str) -> None:
        """Prepare it.

        `present` are the values of the configuration, `local` is the greeting of this machine's
        own mail server or '', `password_path` is the file that a typed password goes to.
        """
        self.given = SetupAnswers()
        self.secrets: dict[str, str] = {}
        """What was typed and is secret, by the paths of its files."""
        self._present = present
        self._local = local
        self._password_path = password_path

    def hold(self) -> None:
        """Prompt for everything. Errors: EOFError, KeyboardInterrupt if the user ends it."""
        self._prompt_server()
        self._prompt_recipients()
        if not self._is_own:
            self._prompt_encryption()
            self._prompt_login()
        if not self._present.get("self_tests"):
            self._prompt_self_tests()
        self._prompt_receiver()

    def correct(self, topic: Topic) -> None:
        """Prompt again for what a test message was refused for. Errors: as `hold`."""
        if topic is Topic.SERVER:
            was_own = self._is_own
            self._prompt_server()
            is_incomplete = "user" in self._mail and not self._has_password
            if not self._is_own and (was_own or is_incomplete):
                self._prompt_encryption()
                self._prompt_login()
        elif topic is Topic.ENCRYPTION:
            self._prompt_encryption()
        elif topic is Topic.LOGIN:
            self._prompt_login()
        elif topic is Topic.SENDER:
            shown = str(self._mail.get("from") or "")
            sender = _answer("Sender address", shown, lambda text: valid("mail.from", text))
            self._note(mail_from=sender)
        elif topic is Topic.RECIPIENTS:
            self._prompt_recipients()
        elif topic is Topic.RECEIVER:
            self._prompt_receiver()

    @property
    def _mail(self) -> dict[str, Any]:
        """Return the section 'mail' as the answers so far make it."""
        section = self._present.get("mail")
        mail = dict(section) if isinstance(section, dict) else {}
        for path, value in changes(self.given, self._present).items():
            if path.startswith("mail."):
                mail[path.removeprefix("mail.")] = value
        return {key: value for key, value in mail.items() if value is not None}

    @property
    def _is_own(self) -> bool:
        return is_loopback(str(self._mail.get("server") or ""))

    @property
    def _has_password(self) -> bool:
        return bool(self._mail.get("password_file") or self._mail.get("password_credential"))

    def _note(self, **answers: object) -> None:
        self.given = dataclasses.replace(self.given, **answers)  # type: ignore[arg-type]

    def _forget(self, path: str | None) -> None:
        """Drop a secret that no answer uses now: it is not to be saved."""
        self.secrets.pop(path or "", None)

    def _prompt_server(self) -> None:
        """Prompt for the mail server; this machine's own is suggested if it answers."""
        if self._local:
            print_line(
                f"This machine's own mail server answers: {self._local}. It may fail while the"
                " root disk hangs; a remote server does not depend on it."
            )
        else:
            print_line("No mail server answers at localhost:25. Name a mail server (SMTP relay).")
        configured = str(self._mail.get("server") or "")
        if configured and (port := self._mail.get("port")):
            configured = f"[{configured}]:{port}" if ":" in configured else f"{configured}:{port}"
        shown = configured or ("localhost" if self._local else "")
        server, port = _answer("Mail server, or server:port", shown, server_and_port)
        self._note(mail_server=server, mail_port=port)
        if self._is_own:  # it is used without both
            self._forget(self.given.mail_password_file)
            self._note(mail_tls=None, mail_user=None, mail_password_file=None)

    def _prompt_recipients(self) -> None:
        now = self._mail.get("to") or (DELIVERY_ADDRESS if self._is_own else "")
        shown = ", ".join(map(str, now)) if isinstance(now, list) else str(now)
        self._note(mail_to=_answer("Recipients, separated by commas", shown, addresses))

    def _prompt_encryption(self) -> None:
        configured = self._mail.get("tls")
        mode = _answer(
            "Encryption: auto (verified), starttls, tls, opportunistic, none",
            str(configured or "auto"),
            lambda text: valid("mail.tls", text),
        )
        self._note(mail_tls=None if mode == "auto" and not configured else mode)

    def _prompt_login(self) -> None:
        configured = str(self._mail.get("user") or "")
        user = _answer("User name at that server ('-' for no log-in)", configured or "-", _user)
        path = None
        if user:
            path = self._typed_password(has_former=user == configured and self._has_password)
        self._note(mail_user=user, mail_password_file=path or self.given.mail_password_file)
        if not user:
            self._forget(self.given.mail_password_file)
            self._note(mail_password_file=None)

    def _typed_password(self, *, has_former: bool) -> str | None:
        """Return the file of a typed password; None for one that stays as it is."""
        enter = "; Enter: no change" if has_former else ""
        while True:
            typed = getpass.getpass(f"Password (not shown{enter}): ")
            wrong = problem(typed)
            if typed and not wrong:
                path = str((has_former and self._mail.get("password_file")) or self._password_path)
                self.secrets[path] = typed
                return path
            if has_former and not typed:
                return None
            print_line(wrong if typed else "expected a password, got nothing")

    def _prompt_self_tests(self) -> None:
        print_line(WHY_SELF_TESTS)
        question = "Test each drive: all sectors on Saturdays, short on Wednesdays? yes or no"
        self._note(self_tests=_answer(question, "yes", _yes) or None)

    def _prompt_receiver(self) -> None:
        """Prompt for a receiver other than mail; what may be a secret goes to files."""
        names = ", ".join(ReceiverType)
        former = self.given.notify or {}
        question = f"Notify also by {names}, or '-' for no other"
        kind = _answer(question, former.get("type", "-"), _type)
        refused = former if kind == former.get("type") else {}
        if not refused:
            for key in ("url_file", "token_file"):
                self._forget(former.get(key))
        if kind is None:
            self._note(notify=None)
            return
        directory = Path(self._password_path).parent
        entry = {"name": kind.value, "type": kind.value}
        typed, is_secret = self._typed_url(kind, refused)
        self._forget(refused.get("url_file"))
        if is_secret:
            entry["url_file"] = str(directory / f"{kind}.url")
            self.secrets[entry["url_file"]] = typed
        else:
            entry["url"] = typed
        if kind is ReceiverType.NTFY:
            path = str(directory / f"{kind}.token")
            enter = "no change" if "token_file" in refused else "none"
            if token := getpass.getpass(f"Token (not shown; Enter: {enter}): "):
                self.secrets[path] = token
            if token or "token_file" in refused:
                entry["token_file"] = path
        self._note(notify=entry)

    def _typed_url(self, kind: ReceiverType, refused: Mapping[str, str]) -> tuple[str, bool]:
        """Return a URL, and whether it is a secret; Enter retains that of a former answer."""
        former = refused.get("url") or self.secrets.get(refused.get("url_file", ""), "")
        while True:
            if kind in _SECRET_URLS or "url_file" in refused:
                enter = "; Enter: no change" if former else ""
                typed = getpass.getpass(f"URL (not shown{enter}): ").strip()
            else:
                typed = input(f"URL for {kind}{f' [{former}]' if former else ''}: ").strip()
            try:
                url = parse_url(typed or former, kind)
            except ValueError as error:
                print_line(str(error))
                continue
            return typed or former, kind in _SECRET_URLS or url.is_secret


class NextStep(enum.StrEnum):
    """What a user does about a configuration that is not accepted."""

    CORRECT = "correct"
    SAVE = "save"
    END = "end"


def next_step(*, is_correctable: bool) -> NextStep:
    """Prompt for what to do; `is_correctable`: there is a question that the refusal is about."""
    if not is_correctable:
        return NextStep.SAVE if agreed("Save it nevertheless?", "no") else NextStep.END

    def read(text: str) -> NextStep:
        try:
            return NextStep(text.lower())
        except ValueError:
            raise AnswerError(f"expected correct, save or end, got '{text:.40}'") from None

    question = "Correct the answer, save it nevertheless, or end without a change"
    return _answer(f"{question}? correct, save or end", NextStep.CORRECT, read)


def agreed(question: str, default: str) -> bool:
    """Return whether the user agrees; `default` is 'yes' or 'no'."""
    return _answer(f"{question} yes or no", default, _yes)


def _type(text: str) -> ReceiverType | None:
    try:
        return None if text == "-" else ReceiverType(text.lower())
    except ValueError:
        raise AnswerError(f"expected one of them, got '{text:.40}'") from None


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
