"""What `iowarden setup` prompts for, and the configuration keys that follow from it."""

from __future__ import annotations

import contextlib
import pwd
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import UserInputError
from iowarden.daemon.config.keys import KEYS, listed
from iowarden.rules import selftest_schedule

SELF_TESTS = (selftest_schedule.SUGGESTED,)
WHY_SELF_TESTS = (
    "Bad sectors that no program reads stay undetected until a rebuild needs them: of 1.53 million"
    " disks 3.45 % had such latent errors within 32 months (Bairavasundaram et al., SIGMETRICS"
    " 2007)."
)
ACCOUNT = ("user", "password_file", "password_credential")
"""Keys of the section 'mail' that belong to one server, as do 'port' and 'tls'."""
_KINDS = {key.path: key.kind for key in KEYS}


class AnswerError(UserInputError):
    """An answer is not valid; the text names what is expected."""


@dataclass(frozen=True, slots=True)
class SetupAnswers:
    """Answers to all questions; None: this one was not given, the configuration keeps its value."""

    mail_to: tuple[str, ...] | None = None
    mail_from: str | None = None
    mail_server: str | None = None
    mail_port: int | None = None
    mail_tls: str | None = None
    mail_user: str | None = None
    mail_password_file: str | None = None
    self_tests: bool | None = None
    notify: Mapping[str, str] | None = None
    """A receiver other than mail, as an entry of 'notify'; it replaces one of its name."""

    @property
    def given(self) -> bool:
        """Whether there is an answer to any question."""
        return self != SetupAnswers()


def valid(path: str, text: str) -> str:
    """Return the text of a value if the configuration accepts it. Errors: AnswerError."""
    kind = _KINDS[path]
    try:
        kind.read(text)
    except ValueError as error:
        hint = f"; {error}" if str(error) else ""
        raise AnswerError(f"{path}: expected {kind.expected}, got '{text:.200}'{hint}") from None
    return text


def addresses(text: str) -> tuple[str, ...]:
    """Return mail addresses, separated by commas or blanks. Errors: AnswerError."""
    found = tuple(valid("mail.to", each) for each in listed(text))
    if not found:
        raise AnswerError("mail.to: expected a mail address, got nothing")
    for each in found:
        if "@" not in each and not _is_local(each):
            raise AnswerError(
                f"mail.to: expected an address such as ops@example.com, or a user of this host, got"
                f" '{each}'"
            )
    return found


def _is_local(name: str) -> bool:
    """Whether a name without '@' is a user or a mail alias of this host. Source: aliases(5)."""
    with contextlib.suppress(KeyError):
        return bool(pwd.getpwnam(name))
    try:
        aliases = Path("/etc/aliases").read_text(encoding="utf-8", errors="replace")
    except OSError:  # most hosts without a mail server have none
        return False
    return any(line.partition(":")[0].strip() == name for line in aliases.splitlines())


def server_and_port(text: str) -> tuple[str, int | None]:
    """Return server and port of 'mail.example.com:587' or '[2001:db8::1]:587'; port None if none.

    Errors: AnswerError.
    """
    if "@" in text or "//" in text:  # the text may hold a password
        raise AnswerError(
            "mail.server: expected HOST or HOST:PORT, got a URL or a log-in; user and password are"
            " answers of their own"
        )
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif text.startswith("[") and text.endswith("]"):
        host, colon, port = text[1:-1], "", ""
    elif ":" in host or not colon:  # an IPv6 address, or no port
        host, colon, port = text, "", ""
    return valid("mail.server", host), int(valid("mail.port", port)) if colon else None


def changes(answers: SetupAnswers, present: Mapping[str, Any]) -> dict[str, object]:
    """Return the keys to be changed and their values; None: to be commented out.

    Another server than that of the configuration takes over neither port, TLS nor log-in.
    """
    found: dict[str, object] = {}
    section = present.get("mail")
    mail: Mapping[str, Any] = section if isinstance(section, Mapping) else {}
    if answers.mail_server is not None:
        if mail.get("server") != answers.mail_server:
            found |= {f"mail.{key}": None for key in ("port", "tls", *ACCOUNT)}
        found["mail.server"] = answers.mail_server
    for key, value in (
        ("port", answers.mail_port),
        ("tls", answers.mail_tls),
        ("from", answers.mail_from),
    ):
        if value is not None:
            found[f"mail.{key}"] = value
    if answers.mail_user is not None:
        found["mail.user"] = answers.mail_user or None
        if not answers.mail_user:
            found |= {f"mail.{key}": None for key in ACCOUNT}
    if answers.mail_password_file is not None:
        found["mail.password_file"] = answers.mail_password_file
        found["mail.password_credential"] = None
    if answers.mail_to is not None:
        found["mail.to"] = answers.mail_to[0] if len(answers.mail_to) == 1 else [*answers.mail_to]
        former = mail.get("to") or ""
        if (listed(former) if isinstance(former, str) else former) == [*answers.mail_to]:
            found["mail.to"] = former  # written in another way
    if answers.self_tests is True and not present.get("self_tests"):
        found["self_tests"] = [dict(group) for group in SELF_TESTS]
    elif answers.self_tests is False:
        found["self_tests"] = None
    if answers.notify is not None:
        found["notify"] = _with_receiver(present.get("notify"), answers.notify)
    # The order of the example file, server first.
    order = [key.path for key in KEYS]
    return dict(sorted(found.items(), key=lambda pair: order.index(pair[0])))


def _with_receiver(present: object, entry: Mapping[str, str]) -> list[object]:
    """Return the list 'notify' with an entry; keys that it does not set keep their values."""
    others: list[object] = list(present) if isinstance(present, list) else []
    for at, each in enumerate(others):
        if isinstance(each, Mapping) and each.get("name") == entry["name"]:
            kept = {k: v for k, v in each.items() if k not in _OF_ONE_SERVER or k in entry}
            return [*others[:at], {**kept, **entry}, *others[at + 1 :]]
    return [*others, dict(entry)]


_OF_ONE_SERVER = ("url", "url_file", "token_file")
