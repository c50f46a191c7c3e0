"""Formats: the request that hands a message to a webhook, to ntfy, or to Slack's incoming webhooks.

Pure: the time of the signature is passed in. No machine's text gets into a header, and none of it
is markup or a mention for the service.

Source: RFC 2104 (HMAC); docs.ntfy.sh, "Publish as JSON"; api.slack.com, "Sending messages using
incoming webhooks", "Formatting text for app surfaces".
Limits: of these services only local servers were reached.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from typing import TYPE_CHECKING, Any

from iowarden.daemon.config.receivers import (
    MESSAGE_TYPES,
    ReceiverConfig,
    ReceiverType,
    parse_url,
)
from iowarden.daemon.notify.attempt import OutboundMail
from iowarden.daemon.receivers import message
from iowarden.daemon.receivers.http_client import HttpRequest
from iowarden.daemon.sanitize import ELLIPSIS

if TYPE_CHECKING:
    from iowarden.daemon.receivers.http_client import HttpReply

NTFY_MAX_BYTES = 4096
"""ntfy makes an attachment of a longer message. Source: docs.ntfy.sh, "Limitations"."""
NTFY_MAX_TITLE_BYTES = 250
SLACK_MAX_CHARACTERS = 3000
"""Of a section's text. Source: api.slack.com, "Section block"."""
_JSON = "application/json"
_MAX_ADVICE = 3
_PRIORITIES = {"critical": 5, "warning": 4}
_TAGS = {"critical": "rotating_light", "warning": "warning", "resolved": "white_check_mark"}
_REPEATED = " (repeated)"
_MENTION = re.compile(r"(?<!\w)@(?=\w)")


def request(config: ReceiverConfig, mail: OutboundMail, unix_seconds: float) -> HttpRequest:
    """Return the request for a message of the outbox.

    A repeat has the same id and body; people read that it is one.
    """
    document = json.loads(mail.data)
    if mail.is_repeated:
        document["title"] += _REPEATED
    match config.type:
        case ReceiverType.NTFY:
            return _ntfy(config, document)
        case ReceiverType.SLACK:
            return _json(_slack(document))
        case _:
            return _webhook(config, mail, document["id"], unix_seconds)


def dry_run(data: bytes) -> None:
    """Render a message for each service, so that all modules it needs are in memory."""
    url = parse_url("https://localhost/topic")
    for kind in MESSAGE_TYPES:
        config = ReceiverConfig("test", kind, urls=(url,), secret="-")  # noqa: S106
        request(config, OutboundMail("test", ("test",), data), 0.0)


def refusal(config: ReceiverConfig, reply: HttpReply) -> str:
    """Return why a reply with a good status is an error nevertheless, or ''.

    A captive portal, or a service that answers 200 with an error.
    """
    body = reply.body.decode("utf-8", "replace").strip()
    if config.type is ReceiverType.WEBHOOK:
        return ""
    try:
        answer = json.loads(body) if body else None
    except ValueError:
        answer = body
    if config.type is ReceiverType.NTFY:
        taken = isinstance(answer, dict) and "id" in answer and "error" not in answer
        return "" if taken else "expected a message of ntfy with an 'id'"
    bad = isinstance(answer, dict) and (
        answer.get("ok") is False or answer.get("success") is False or bool(answer.get("error"))
    )
    if bad or (isinstance(answer, str) and body.lower() != "ok"):
        return "expected 'ok'"
    return ""


def authorization(config: ReceiverConfig) -> dict[str, str]:
    """Return the header that logs in, if there is one."""
    return {} if config.token is None else {"Authorization": f"Bearer {config.token}"}


def signature(secret: str, unix_seconds: float, body: bytes) -> str:
    """Return the value of X-Iowarden-Signature: the receiver computes it again and compares."""
    at = f"{unix_seconds:.0f}"
    signed = hmac.new(secret.encode(), f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={signed}"


def _webhook(
    config: ReceiverConfig, mail: OutboundMail, identifier: str, unix_seconds: float
) -> HttpRequest:
    body = mail.data
    headers = {
        "Content-Type": _JSON,
        "X-Iowarden-Id": identifier.encode("ascii", "replace").decode(),
        "X-Iowarden-Attempt": str(mail.attempt),
        **({"X-Iowarden-Repeated": "yes"} if mail.is_repeated else {}),
        **authorization(config),
    }
    if config.secret is not None:
        headers["X-Iowarden-Signature"] = signature(config.secret, unix_seconds, body)
    return HttpRequest("POST", headers, body)


def _json(value: dict[str, Any], headers: dict[str, str] | None = None) -> HttpRequest:
    return HttpRequest(
        "POST", {"Content-Type": _JSON, **(headers or {})}, json.dumps(value).encode("ascii")
    )


def _ntfy(config: ReceiverConfig, document: dict[str, Any]) -> HttpRequest:
    """Return a message published as JSON: no text of it is a header."""
    place, _, topic = config.urls[0].path.rpartition("/")
    severity, resolved = document["severity"], document["status"] == "resolved"
    value = {
        "topic": topic,
        "title": _bytes(document["title"], NTFY_MAX_TITLE_BYTES),
        "message": _bytes("\n".join(_lines(document)), NTFY_MAX_BYTES),
        "priority": 3 if resolved else _PRIORITIES.get(severity, 2),
        "tags": [_TAGS["resolved"] if resolved else _TAGS.get(severity, "information_source")],
    }
    made = _json(value, authorization(config))
    return HttpRequest(made.method, made.headers, made.body, path=f"{place}/")


def _slack(document: dict[str, Any]) -> dict[str, Any]:
    """Return a message of sections; 'text' is all that other services of this format show."""
    title = f"*{_harmless(document['title'])}*"
    lines = [_harmless(line) for line in _lines(document)]
    body = _characters("\n".join(lines), SLACK_MAX_CHARACTERS)
    head = _characters(title, SLACK_MAX_CHARACTERS)
    return {
        "text": _characters(f"{title}\n{body}", SLACK_MAX_CHARACTERS),
        "blocks": [
            {"type": "section", "text": {"type": "mrkdwn", "text": text, "verbatim": True}}
            for text in (head, body)
            if text
        ],
        "unfurl_links": False,
        "unfurl_media": False,
    }


def _lines(document: dict[str, Any]) -> list[str]:
    """Return what a person reads on a phone: what happened, what to do, which incident."""
    lines = [document["summary"], *document["sentences"], *document["meaning"]]
    lines += [f"Affected: {each}" for each in document["affected"]]
    lines += [line for each in document["advice"][:_MAX_ADVICE] for line in each.split("\n")]
    lines += [f"Not known: {each}" for each in document["unknown"]]
    if document["cut"]:
        is_short = document["id"].endswith(message.SHORT)
        why = "the receiver refused all of it" if is_short else "the outbox was full"
        lines.append(f"The text of this notification was discarded: {why}.")
    if document["incident"]:
        lines.append(f"Incident {document['incident']}, notification {document['number']}")
    return [line for line in dict.fromkeys(lines) if line]


def _harmless(text: str) -> str:
    """Return text without markup, links with another text, or mentions, for Slack and its like."""
    for character, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = text.replace(character, entity)
    return _MENTION.sub("(at)", text).replace("](", "] (").replace("`", "'").replace("*", "\u2217")


def _bytes(text: str, limit: int) -> str:
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= limit:
        return data.decode()
    return data[: limit - len(ELLIPSIS)].decode("utf-8", "ignore") + ELLIPSIS


def _characters(text: str, limit: int) -> str:
    """Return text of at most so many characters; an entity at the end is not cut in two."""
    if len(text) <= limit:
        return text
    return re.sub(r"&[a-z]{0,4}$", "", text[: limit - len(ELLIPSIS)]) + ELLIPSIS
