"""Which parts of a receiver's URL are secrets: what allows sending, and no name.

A secret is replaced wherever it occurs in a log message: a name mistaken for one would blank half
the journal, and a token mistaken for a name would be shown. A secret is

1. the value of a parameter that is named so (`token`, `key`, `sig` ...), whatever it is;
2. what a known service has for a token at this place of its path;
3. any other part of the path, or value, that is not made of names and small numbers.

Source: the webhook URLs of Slack, Discord, Microsoft Teams and Telegram, as gitleaks' rules have
them; Matrix, client-server API (`access_token`); ntfy, docs/publish.md (the topic is a password).
Limits: what is made of a few names is no secret, also if its owner means it as one, nor are up to
fifteen digits, nor what is shorter than six characters.
"""

from __future__ import annotations

import re
import urllib.parse

from iowarden.daemon.redactor import MIN_CHARACTERS

_SECRET_NAMES = frozenset(
    {
        *("token", "key", "apikey", "secret", "sig", "signature", "hmac", "jwt", "bearer"),
        *("password", "passwd", "passphrase", "pass", "pwd", "pw"),
        *("auth", "authorization", "credential", "credentials"),
    }
)
_PARAMETER_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
"""Of 'access_token', 'apiKey', 'X-Amz-Signature'."""
_PLACES = (
    re.compile(r"/(?:services|workflows|triggers)/T[A-Z0-9]+/(?:[^/]+/)*([^/]+)"),  # Slack
    re.compile(r"/api(?:/v[0-9]+)?/webhooks/[0-9]+/([^/]+)"),  # Discord
    re.compile(r"/bot[0-9]+:([^/]+)"),  # Telegram
    re.compile(r"/IncomingWebhook/([^/]+)/"),  # Microsoft Teams
    re.compile(r"/hooks/([a-z0-9]{26})(?![^/])"),  # Mattermost
)
_SEPARATOR = re.compile(r"[^A-Za-z0-9]+")
_NAME = re.compile(
    r"(?:[A-Z]{1,16}|(?:[A-Z][a-z]|[a-z])[a-z]{0,15}(?:[A-Z][a-z]{1,16})*[A-Z]{0,3})[0-9]{0,3}"
    r"|[0-9]{1,4}[a-z]{1,3}|[0-9]{1,15}"
)
"""'storage', 'URL', 'sendMessage', 'node12', '30min', '2024'."""
_UNPRONOUNCEABLE = re.compile(r"[bcdfghjklmnpqrstvwxz]{5}|q(?![u0-9])|j(?![aeiouy0-9])")
_VOWEL = re.compile("[aeiouy]")
_MAX_ABBREVIATION = 5
"""'btrfs', 'https': so short a name needs no vowel."""
PASSPHRASE_NAMES = 4
"""So many names in a row are no name that log messages have; three may be a host's."""
TOPIC_NAMES = 3
"""Of a topic of ntfy, which is a password."""


def secrets(path: str, *, passphrase_names: int | None = None) -> tuple[str, ...]:
    """Return what of a path with its query is a secret, as it is written there.

    `passphrase_names`: a part of the path of so many names and more is one as well, if it is no
    name of a host.
    """
    plain, _, query = path.partition("?")
    parts = [part for part in plain.split("/") if part]
    tokens = [token for place in _PLACES for token in place.findall(plain)]
    tokens += [part for part in parts if is_random(part)]
    if passphrase_names is not None:
        tokens += [p for p in parts if "." not in p and len(_names(p)) >= passphrase_names]
    values = [pair.partition("=")[2] or pair for pair in query.split("&")]
    tokens += [value for value in values if is_random(value)]
    return tuple(dict.fromkeys((*named_values(path), *tokens)))


def named_values(path: str) -> tuple[str, ...]:
    """Return the values of parameters that are named as a secret."""
    pairs = (pair.partition("=") for pair in path.partition("?")[2].split("&"))
    return tuple(value for name, _, value in pairs if value and _is_named_so(name))


def is_random(part: str) -> bool:
    """Whether a part of a path or a value is long enough for a secret, and not made of names."""
    text = urllib.parse.unquote(part)
    return len(text) >= MIN_CHARACTERS and not all(map(_is_name, _names(text)))


def _names(text: str) -> list[str]:
    return [name for name in _SEPARATOR.split(text) if name]


def _is_name(text: str) -> bool:
    if not _NAME.fullmatch(text):
        return False
    lower = text.lower()
    is_short = len(lower.rstrip("0123456789")) <= _MAX_ABBREVIATION
    return is_short or (bool(_VOWEL.search(lower)) and not _UNPRONOUNCEABLE.search(lower))


def _is_named_so(name: str) -> bool:
    text = urllib.parse.unquote(name)
    parts = {text.lower(), *map(str.lower, _PARAMETER_PART.findall(text))}
    return not _SECRET_NAMES.isdisjoint(parts)
