"""Receivers of notifications other than mail: an entry of 'notify', its checks, and its secrets.

Secrets are in files only: the configuration is read by people, copied into bug reports and shown by
commands.
"""

from __future__ import annotations

import dataclasses
import difflib
import enum
import ipaddress
import re
import urllib.parse
from itertools import chain
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import Labels  # noqa: TC001 - of a field
from iowarden.daemon.config import url_secrets
from iowarden.daemon.duration import duration_seconds
from iowarden.daemon.redactor import Redactor
from iowarden.daemon.redactor import problem as secret_problem

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping


class ReceiverType(enum.StrEnum):
    """What a receiver is."""

    WEBHOOK = "webhook"
    NTFY = "ntfy"
    SLACK = "slack"
    ALERTMANAGER = "alertmanager"
    PING = "ping"


MESSAGE_TYPES = frozenset({ReceiverType.WEBHOOK, ReceiverType.NTFY, ReceiverType.SLACK})
"""Receivers of messages, which wait in the outbox; the others are sent the present state."""
SEVERITIES = ("critical", "warning", "notice", "info")
DEFAULT_SEVERITIES = ("critical", "warning")
MAX_RECEIVERS = 16
"""Each has a thread."""
MAX_URLS = 8
"""Of an Alertmanager's cluster; each has a thread."""
_COMMON = ("name", "type", "url", "url_file", "proxy")
_KEYS = {
    ReceiverType.WEBHOOK: (*_COMMON, "severities", "secret_file", "token_file"),
    ReceiverType.NTFY: (*_COMMON, "severities", "token_file"),
    ReceiverType.SLACK: (*_COMMON, "severities"),
    ReceiverType.ALERTMANAGER: (
        *(*_COMMON, "severities", "labels", "token_file"),
        *("user", "password_file"),
    ),
    ReceiverType.PING: (*_COMMON, "period"),
}
_SECRETS = ("secret", "token", "password", "authorization", "headers", "key")
"""Names of other programs for what belongs into a file."""
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
"""Alertmanager 0.25 refuses other names. Source: prometheus/common, model/labels.go."""
_SET_BY_IOWARDEN = frozenset({"alertname", "severity", "condition"})
_PATH = re.compile(r"/[^\x00]{1,4095}")
_MIN_PERIOD_SECONDS, _MAX_PERIOD_SECONDS = 10.0, 86_400.0
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Url:
    """An address to send to. `origin` is shown to people, `path` may be a secret."""

    scheme: str
    host: str
    port: int
    path: str = dataclasses.field(repr=False)
    """With the query."""

    @property
    def authority(self) -> str:
        """Return host and port as in a header, the port only if it is not the usual one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Return the address without its path."""
        return f"{self.scheme}://{self.authority}"

    @property
    def is_secret(self) -> bool:
        """Whether the path seems to be one that allows sending."""
        return bool(url_secrets.secrets(self.path))


@dataclass(frozen=True, slots=True)
class ReceiverConfig:
    """An entry of 'notify'; `secret`, `token` and `password` are the contents of their files."""

    name: str
    type: ReceiverType
    severities: tuple[str, ...] = DEFAULT_SEVERITIES
    urls: tuple[Url, ...] = ()
    url_file: str | None = None
    secret_file: str | None = None
    token_file: str | None = None
    user: str | None = None
    password_file: str | None = None
    proxy: Url | None = None
    labels: Labels = ()
    period_seconds: float = 60.0
    secret: str | None = dataclasses.field(default=None, repr=False)
    token: str | None = dataclasses.field(default=None, repr=False)
    password: str | None = dataclasses.field(default=None, repr=False)
    redactor: Redactor = dataclasses.field(default_factory=Redactor, repr=False, compare=False)
    """That of the configuration."""

    @property
    def secrets(self) -> tuple[str, ...]:
        """Return the texts that no output may have: what of the contents of its files is secret."""
        is_topic = self.type is ReceiverType.NTFY
        names = url_secrets.TOPIC_NAMES if is_topic else url_secrets.PASSPHRASE_NAMES
        urls = self.urls if self.url_file else ()
        of_urls = (url_secrets.secrets(url.path, passphrase_names=names) for url in urls)
        return tuple(filter(None, (self.secret, self.token, self.password, *chain(*of_urls))))

    @property
    def messages(self) -> bool:
        """Whether it gets messages, which wait in the outbox."""
        return self.type in MESSAGE_TYPES

    @property
    def notifies(self) -> bool:
        """Whether it is sent alerts; a ping only reports that iowarden runs."""
        return self.type is not ReceiverType.PING


def parse_receiver(values: Mapping[str, object]) -> tuple[ReceiverConfig | None, list[str]]:
    """Return the receiver that an entry describes, and what is wrong with it.

    A value is a text, a tuple of texts or a mapping of texts. No message has a value that may be a
    secret.
    """
    problems: list[str] = []
    try:
        kind = ReceiverType(str(values.get("type")))
    except ValueError:
        names = ", ".join(ReceiverType)
        near = _near([str(values.get("type"))], tuple(ReceiverType))
        return None, [f"type: expected one of {names}{near}; example: type: webhook"]
    problems += _unknown(values, kind)
    name = values.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name == "mail":
        problems.append(
            "name: expected a name of up to 32 lower-case letters, digits, '-' and '_', not"
            " 'mail'; example: name: ops"
        )
    files = {
        key: value
        for key in ("url_file", "secret_file", "token_file", "password_file")
        if (value := values.get(key)) is not None
    }
    problems += [
        f"{key}: expected an absolute path; example: {key}: /etc/iowarden/ops.secret"
        for key, value in files.items()
        if not isinstance(value, str) or not _PATH.fullmatch(value)
    ]
    urls: list[Url] = []
    for text in _texts(values.get("url")):
        try:
            urls.append(parse_url(text, kind))
        except ValueError as error:
            problems.append(f"url: {error}")
    problems += _of_urls(values, kind, urls)
    severities = _texts(values.get("severities", DEFAULT_SEVERITIES))
    levels = SEVERITIES[:2] if kind is ReceiverType.ALERTMANAGER else SEVERITIES
    if not severities or not set(severities) <= set(levels):
        near = _near(severities, levels) if severities else ", got none"
        problems.append(
            f"severities: expected a list of {', '.join(levels)}{near};"
            " example: severities: [critical]"
        )
    made: dict[str, object] = {}
    for key, read in (("proxy", _proxy), ("labels", _labels), ("period", _period)):
        if (value := values.get(key)) is None:
            continue
        try:
            made[key] = read(value)
        except ValueError as error:
            problems.append(f"{key}: {error}")
    user = values.get("user")
    if ("user" in values) != ("password_file" in values):
        problems.append("user: expected 'user' and 'password_file': a log-in needs both")
    elif user is not None and (not isinstance(user, str) or not user.isprintable() or ":" in user):
        problems.append("user: expected printable text without ':'; example: user: iowarden")
    if "user" in values and "token_file" in values:
        problems.append("token_file: expected it or 'user', got both; remove one")
    if problems:
        return None, problems
    return (
        ReceiverConfig(
            name=str(name),
            type=kind,
            severities=tuple(severities),
            urls=tuple(urls),
            user=None if user is None else str(user),
            proxy=made.get("proxy"),  # type: ignore[arg-type]
            labels=made.get("labels", ()),  # type: ignore[arg-type]
            period_seconds=made.get("period", 60.0),  # type: ignore[arg-type]
            **files,  # type: ignore[arg-type]
        ),
        [],
    )


def parse_url(text: str, kind: ReceiverType = ReceiverType.WEBHOOK) -> Url:
    """Return the URL of a receiver of this type. Errors: ValueError, without any part of it."""
    expected = "expected a URL; example: url: https://example.com/hook"
    if not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError(f"{expected}; write other characters as %XX")
    try:
        parts = urllib.parse.urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError(f"{expected}, with a port from 1 to 65535 or none") from None
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError(f"{expected}, which begins 'https://' or 'http://'")
    if parts.username is not None or parts.password is not None:
        raise ValueError(f"expected a URL without user and password, got them; {_login(kind)}")
    if parts.fragment:
        raise ValueError("expected a URL without '#'")
    if port == 0:
        raise ValueError(f"{expected}, with a port from 1 to 65535 or none")
    query = f"?{parts.query}" if parts.query else ""
    return Url(
        parts.scheme, parts.hostname, port or _PORTS[parts.scheme], (parts.path or "/") + query
    )


def _login(kind: ReceiverType) -> str:
    """Return how a receiver of this type logs in."""
    if "user" in _KEYS[kind]:
        return "use 'user' and 'password_file'"
    if "token_file" in _KEYS[kind]:
        return f"a receiver of type {kind} has 'token_file', sent as 'Authorization: Bearer'"
    return f"a receiver of type {kind} logs in by a secret path or query only, in its 'url_file'"


def is_loopback(server: str) -> bool:
    """Whether a server's name or address is this machine, without a DNS query."""
    try:
        return ipaddress.ip_address(server).is_loopback
    except ValueError:
        return server.rstrip(".").lower() in {"localhost", "localhost.localdomain"}


def with_secrets(
    receiver: ReceiverConfig, read: Callable[[str], str]
) -> tuple[ReceiverConfig, list[str]]:
    """Return a receiver with the contents of its files, and what is wrong with them.

    `read` returns the first line of a file, or raises a ValueError.
    """
    problems: list[str] = []
    found: dict[str, str] = {}
    for key in ("url_file", "secret_file", "token_file", "password_file"):
        path = getattr(receiver, key)
        if path is None:
            continue
        try:
            found[key] = text = read(path)
            if wrong := secret_problem(text):
                raise ValueError(f"in its first line: {wrong}")
        except ValueError as error:
            problems.append(f"{key}: {error}")
    urls = receiver.urls
    if "url_file" in found and not problems:
        try:
            urls = (parse_url(found["url_file"].strip(), receiver.type),)
        except ValueError as error:
            problems.append(f"url_file: in its first line: {error}")
        else:
            wrongs = map(secret_problem, url_secrets.named_values(urls[0].path))
            if wrong := next(filter(None, wrongs), ""):
                problems.append(f"url_file: a value of its query is a secret by its name: {wrong}")
    if not problems:
        problems += _clear_text(receiver.token_file or receiver.password_file, urls)
        problems += _topic(receiver.type, urls)
    return (
        dataclasses.replace(
            receiver,
            urls=urls,
            secret=found.get("secret_file"),
            token=found.get("token_file"),
            password=found.get("password_file"),
        ),
        problems,
    )


def _unknown(values: Mapping[str, object], kind: ReceiverType) -> Iterator[str]:
    allowed = _KEYS[kind]
    for key in values:
        if key in allowed:
            continue
        if key in _SECRETS:
            files = [name for name in allowed if name.endswith("_file")]
            yield f"{key}: secrets are read from files; expected one of {', '.join(files)}"
        else:
            shown = key if key.isprintable() and len(key) <= 30 else "a key"
            near = _near([key], allowed)
            yield f"{shown}: a receiver of type {kind} has {', '.join(allowed)}{near}"


def _near(words: Iterable[str], known: tuple[str, ...]) -> str:
    """Return a hint at what a misspelt word means; the word may be a secret, so it is not shown."""
    for word in words:
        if word not in known and (found := difflib.get_close_matches(word.lower(), known, 1, 0.7)):
            return f"; did you mean '{found[0]}'?"
    return ""


def _of_urls(values: Mapping[str, object], kind: ReceiverType, urls: list[Url]) -> Iterator[str]:
    given = [key for key in ("url", "url_file") if key in values]
    if kind is ReceiverType.SLACK and "url" in values:
        yield "url: its path is a secret; write it to a file and name that by 'url_file'"
    elif len(given) != 1:
        got = "both; remove one" if given else "none"
        yield f"url: expected 'url' or 'url_file', got {got}; example: url: https://example.com/x"
    if len(urls) > 1 and kind is not ReceiverType.ALERTMANAGER:
        yield "url: expected one URL; write a receiver for each"
    if len(urls) > MAX_URLS:
        yield f"url: expected up to {MAX_URLS} URLs, got {len(urls)}"
    if len({(url.origin, url.path) for url in urls}) < len(urls):
        yield "url: the same value twice; remove one"
    for url in urls:
        if url.is_secret:
            yield (
                f"url: the path at {url.origin} seems to hold a secret; write the URL to a file"
                " and name that by 'url_file'"
            )
        if kind is ReceiverType.ALERTMANAGER and re.search(r"/api(/|$)", url.path):
            yield "url: expected Alertmanager's address without '/api/...'; that is added"
    if "url" in values:
        yield from _clear_text(values.get("token_file") or values.get("password_file"), urls)
        yield from _topic(kind, urls)


def _clear_text(secret: object, urls: list[Url] | tuple[Url, ...]) -> Iterator[str]:
    for url in urls:
        if secret and url.scheme == "http" and not is_loopback(url.host):
            yield (
                f"url: expected 'https://', got {url.origin}: no password or token is sent"
                " unencrypted"
            )


def _topic(kind: ReceiverType, urls: list[Url] | tuple[Url, ...]) -> Iterator[str]:
    for url in urls:
        if kind is ReceiverType.NTFY and not re.fullmatch(r"/(.*/)?[A-Za-z0-9_-]{1,64}", url.path):
            yield "url: expected the server and the topic; example: url: https://ntfy.sh/storage"


def _texts(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    return tuple(map(str, value)) if isinstance(value, tuple) else (str(value),)


def _proxy(value: object) -> Url:
    expected = "expected 'http://', host and port; example: proxy: http://proxy:3128"
    try:
        found = parse_url(str(value))
    except ValueError:
        raise ValueError(expected) from None
    if found.scheme != "http" or found.path != "/":
        raise ValueError(expected)
    return found


def _labels(value: object) -> Labels:
    if not isinstance(value, dict):
        raise ValueError(  # noqa: TRY004 - a problem of the file
            "expected names and values; example: labels: {team: storage}"
        )
    for name, text in value.items():
        if not _LABEL_NAME.fullmatch(name) or name.startswith("__"):
            raise ValueError(
                f"expected a name of letters, digits and '_', got {name[:30]!r}: Alertmanager"
                " before 0.27 refuses others"
            )
        if name in _SET_BY_IOWARDEN:
            raise ValueError(f"'{name}' is set by iowarden; remove it")
        if not text or not text.isprintable() or len(text) > 256:
            raise ValueError(f"{name}: expected printable text of up to 256 characters")
    return tuple(sorted(value.items()))


def _period(value: object) -> float:
    try:
        seconds = duration_seconds(str(value))
    except ValueError:
        seconds = 0.0
    if not _MIN_PERIOD_SECONDS <= seconds <= _MAX_PERIOD_SECONDS:
        raise ValueError("expected a duration from 10s to 1d; example: period: 1m")
    return seconds
