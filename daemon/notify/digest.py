"""Digest of delayed mails: one mail that lists and contains those that waited too long. Pure.

Source: RFC 2046, 5.1.5 (multipart/digest).
"""

from __future__ import annotations

import hashlib
import re
import textwrap
import unicodedata
from dataclasses import replace
from datetime import datetime, tzinfo
from email import message_from_bytes
from email.message import EmailMessage, MIMEPart
from email.parser import BytesHeaderParser
from email.policy import SMTP, default
from email.utils import getaddresses
from typing import TYPE_CHECKING

from iowarden.daemon.clock import local_zone
from iowarden.daemon.notify.mail_format import POLICY, identifier, middle, token, with_utc, wrapped
from iowarden.daemon.notify.message_format import MessageFormat
from iowarden.daemon.sanitize import one_line
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from email.message import Message

    from iowarden.daemon.notify.message_format import Refusal
    from iowarden.daemon.storage.state_db import OutboxRow

_CUT = b"X-Iowarden-Cut: yes"
_PLAIN = b"X-Iowarden-Plain: yes"
MAX_PLAIN_BYTES = 20_000
"""Of a mail that is sent because a server refused the size or content of another one."""
_PLAIN_NOTE = (
    "A mail server refused the size or content of the original mail. This is its text, in ASCII"
)
_CUT_TEXT = (
    b"The text of this mail was discarded: the outbox was full while no mail server accepted mail."
)


def cut(data: bytes) -> bytes:
    """Return a mail of iowarden without its text; the headers for its line in a digest stay."""
    head = data.partition(b"\r\n\r\n")[0]
    fields = re.split(rb"\r\n(?![ \t])", head)
    kept = [f for f in fields if not f.lower().startswith(b"content-") and f != _CUT]
    return b"\r\n".join((*kept, _CUT, b"Content-Type: text/plain", b"", _CUT_TEXT, b""))


def is_cut(data: bytes) -> bool:
    """Whether the text of a mail was discarded."""
    return _CUT in data.partition(b"\r\n\r\n")[0].split(b"\r\n")


def plain(row: OutboxRow) -> OutboxRow | None:
    """Return a mail as plain ASCII text of at most 20 kB under another Message-ID; or None.

    None: it is one already. Source: RFC 5322, 2.1.1 (length of lines).
    """
    head = row.data.partition(b"\r\n\r\n")[0]
    if _PLAIN in head.split(b"\r\n"):
        return None
    original = message_from_bytes(row.data, policy=default)
    begin, at, host = row.message_id.rpartition("@")
    name = f"{begin}-plain{at}{host}" if at else f"{row.message_id}-plain"
    body = original.get_body(("plain",))
    text = str(body.get_content()) if body is not None else "The original mail had no text."
    message = EmailMessage(policy=POLICY)
    message["Subject"] = _ascii(one_line(str(original["Subject"] or "no subject")))[:200]
    for field in ("From", "To", "Date"):
        if original[field]:
            message[field] = str(original[field])
    message["Message-ID"] = name
    if original["In-Reply-To"]:
        message["In-Reply-To"] = message["References"] = str(original["In-Reply-To"])
    message["Auto-Submitted"] = "auto-generated"
    kind, _, value = _PLAIN.decode().partition(": ")
    message[kind] = value
    head_bytes = message.as_bytes().removesuffix(b"\r\n")
    lines = [wrapped(f"{_PLAIN_NOTE}."), "", *_ascii(text).splitlines()]
    short = [part for line in lines for part in (textwrap.wrap(line, 900) or [""])]
    form = b"MIME-Version: 1.0\r\nContent-Type: text/plain; charset=us-ascii\r\n"
    data = head_bytes + form + b"Content-Transfer-Encoding: 7bit\r\n\r\n"
    end = b"[The rest is left out.]\r\n"
    for number, line in enumerate(short):
        one = line.encode("ascii") + b"\r\n"
        if len(data) + len(one) + len(end) > MAX_PLAIN_BYTES and number < len(short):
            data += end
            break
        data += one
    return replace(row, message_id=name, data=data, parts=())


def _ascii(text: str) -> str:
    """Return text in ASCII: accents are removed, other characters become '?'."""
    found = unicodedata.normalize("NFKD", text)
    return "".join(c if c.isascii() else "?" for c in found if not unicodedata.combining(c))


def addressees(data: bytes) -> tuple[str, ...]:
    """Return the addresses in 'To' of a mail of iowarden."""
    return tuple(address for _, address in getaddresses([_fields(data)["To"] or ""]))


def message_id(rows: Sequence[OutboxRow]) -> str:
    """Return the Message-ID of a digest, derived from the mails that it contains."""
    held = hashlib.sha256("\n".join(r.message_id for r in rows).encode()).hexdigest()[:24]
    return identifier("digest", held, _host(rows))


def render(
    rows: Sequence[OutboxRow], uncertain: Collection[str] = (), zone: tzinfo | None = None
) -> bytes:
    """Return one mail that lists others, oldest first, and contains each unchanged.

    The same arguments give the same bytes. A mail that was `cut` is only listed; those whose
    Message-ID is in `uncertain` may have arrived before.
    Source: RFC 2046, 5.1.5 (multipart/digest).
    """
    zone = zone or local_zone()
    newest, worst = _fields(rows[-1].data), max(row.severity for row in rows)
    since = datetime.fromtimestamp(rows[0].created_realtime_seconds, zone)
    message = EmailMessage(policy=POLICY)
    message["Subject"] = (
        f"[{worst.name}] {middle(_host(rows), 30)}: {len(rows)} delayed mail{'s'[: len(rows) != 1]}"
        f" since {since:%Y-%m-%d %H:%M}"
    )
    message["From"] = str(newest["From"] or "iowarden")
    message["To"] = str(newest["To"] or "undisclosed-recipients:;")
    message["Date"] = datetime.fromtimestamp(rows[-1].created_realtime_seconds, zone)
    message["Message-ID"] = name = message_id(rows)
    message["Auto-Submitted"] = "auto-generated"
    message["X-Iowarden-Severity"] = worst.name.lower()
    listed = MIMEPart(policy=POLICY)
    listed.set_content(_listed(rows, zone, uncertain), cte="quoted-printable")
    whole = [row.data for row in rows if not is_cut(row.data)]
    # '=_' cannot occur in quoted-printable text, nor in the boundaries of `message.render`.
    outer, inner = (
        f"=_{kind}-{name.split('.')[2].partition('@')[0]}" for kind in ("mixed", "digest")
    )
    parts = [listed.as_bytes()]
    if whole:  # each part has an empty header: in a digest that means message/rfc822
        parts.append(_multipart("digest", inner, [b"\r\n" + data for data in whole]))
    return message.as_bytes().removesuffix(b"\r\n") + _multipart(
        "mixed", outer, parts, b"MIME-Version: 1.0\r\n"
    )


def _multipart(kind: str, boundary: str, parts: Iterable[bytes], head: bytes = b"") -> bytes:
    line = boundary.encode()
    body = b"".join(b"\r\n--%b\r\n%b" % (line, part) for part in parts)
    form = f'Content-Type: multipart/{kind}; boundary="{boundary}"\r\n'.encode()
    return b"%b%b%b\r\n--%b--\r\n" % (head, form, body, line)


def _listed(rows: Sequence[OutboxRow], zone: tzinfo, uncertain: Collection[str]) -> str:
    first, last = (
        with_utc(datetime.fromtimestamp(row.created_realtime_seconds, zone))
        for row in (rows[0], rows[-1])
    )
    gone = sum(is_cut(row.data) for row in rows)
    lines = [
        wrapped(
            f"{len(rows)} mails were not sent one by one: no mail server had accepted them, or they"
            " were too many at once."
            if len(rows) > 1
            else "One mail was sent several times, and no mail server confirmed it."
        ),
        wrapped(f"The first was written {first},"),
        wrapped(f"the last {last}."),
        wrapped(
            "They are attached unchanged, oldest first"
            + (f", except {gone} whose text was discarded: the outbox was full." if gone else ".")
        ),
    ]
    for row in rows:
        moment = datetime.fromtimestamp(row.created_realtime_seconds, zone)
        lines += [
            "",
            wrapped(
                f"{moment:%Y-%m-%d %H:%M:%S}  {row.severity.name}  incident"
                f" {token(row.incident)}, mail {row.number}"
                + ("  (text discarded)" if is_cut(row.data) else "")
                + ("  (may have reached you)" if row.message_id in uncertain else "")
            ),
            f"  {one_line(str(_fields(row.data)['Subject'] or 'no subject'))}",
        ]
    return "\n".join(lines) + "\n"


def _fields(data: bytes) -> Message:
    return BytesHeaderParser(policy=SMTP).parsebytes(data.partition(b"\r\n\r\n")[0] + b"\r\n\r\n")


def _host(rows: Sequence[OutboxRow]) -> str:
    """Return the host of the newest mail, from its Message-ID."""
    return rows[-1].message_id.rpartition("@")[2].rstrip(">")


def refusal(row: OutboxRow, refused: Refusal) -> OutboxRow:
    """Return a mail of one line: a recipient of a mail gets none, which the others get."""
    original, host = _fields(row.data), _host([row])
    about = hashlib.sha256(refused.recipient.encode()).hexdigest()[:12]
    name = identifier("refused", f"{about}.{int(refused.realtime_seconds)}", host)
    message = EmailMessage(policy=POLICY)
    severity = Severity.WARNING
    line = f"no mail reaches {one_line(refused.recipient, 100)}: all mail servers refuse it"
    message["Subject"] = f"[{severity.name}] {middle(host, 30)}: {line}"
    message["From"] = str(original["From"] or "iowarden")
    message["To"] = ", ".join(refused.others)
    message["Date"] = datetime.fromtimestamp(refused.realtime_seconds, local_zone())
    message["Message-ID"] = name
    message["Auto-Submitted"] = "auto-generated"
    message["X-Iowarden-Severity"] = severity.name.lower()
    reply = wrapped(f"{refused.reply}; correct 'mail.to' or the mailbox, then 'iowarden test-mail'")
    message.set_content(f"{reply}\n", cte="quoted-printable")
    return replace(
        row,
        message_id=name,
        incident="refused",
        number=0,
        severity=severity,
        created_realtime_seconds=refused.realtime_seconds,
        recipients_pending=refused.others,
        data=message.as_bytes(),
        attempts=0,
        last_error="",
        parts=(),
        maybe_taken=False,
        states=(),
    )


MAILS = MessageFormat(
    where="mail",
    noun="mail",
    test="iowarden test-mail",
    addressees=addressees,
    cut=cut,
    is_cut=is_cut,
    digest_id=message_id,
    digest=render,
    plain=plain,
    is_plain=lambda name: name.partition("@")[0].endswith("-plain"),
    refusal=refusal,
)
