"""What to do about a test mail that was not accepted, and the answer that it is about. Pure.

Source: RFC 5321, 4.2.2 and 4.2.3 (codes); RFC 3463 and the IANA registry (enhanced codes); RFC 3207
and RFC 4954 (TLS, log-in); x509_vfy.h of OpenSSL and getaddrinfo(3) (words of their errors).
"""

from __future__ import annotations

import enum
import re
from typing import NamedTuple


class Topic(enum.IntEnum):
    """What has to be corrected; above the exit statuses, so that a child process can end by it."""

    OTHER = 10
    """Nothing that `iowarden setup` prompts for."""
    SERVER = 11
    ENCRYPTION = 12
    LOGIN = 13
    SENDER = 14
    RECIPIENTS = 15
    RECEIVER = 16
    """One of 'notify'."""


class _Row(NamedTuple):
    """Steps of smtp.py, and what came instead, both as patterns; what it is about; what to do."""

    step: str
    got: str
    topic: Topic
    advice: str


_LATER = "the server may accept it later: run this command again in some minutes"
_RELAY = (
    "the server does not forward mail for this host: set '{section}.user' and"
    " '{section}.password_file' for a log-in, or permit this host there"
)
_SENDER = "set 'mail.from' to an address that the server accepts from this host or log-in"
_MAILBOX = "the mailbox is full: empty it, or set 'mail.to' to another one"
_ROWS = (
    # At any step.
    _Row("", "538|530(?i:.*starttls)", Topic.ENCRYPTION, "set '{section}.tls: starttls'"),
    _Row(
        "",
        "530",
        Topic.LOGIN,
        "set '{section}.user' and '{section}.password_file' for a log-in, which needs TLS",
    ),
    _Row("", "421", Topic.SERVER, _LATER),
    # Before the mail.
    _Row(
        "name resolution",
        "",
        Topic.SERVER,
        "correct '{section}.server', or name resolution: see 'getent ahosts {server}'",
    ),
    _Row(
        "connect",
        "(?i:.*timed out)",
        Topic.SERVER,
        "a firewall may block port {port}, as many providers do with 25: correct"
        " '{section}.server', or try '{section}.port' 587 or 465",
    ),
    _Row(
        "connect",
        "(?i:.*unreachable)",
        Topic.SERVER,
        "see 'ip route get' with this address; correct '{section}.server' or the network",
    ),
    _Row(
        "connect",
        "",
        Topic.SERVER,
        "correct '{section}.server' and '{section}.port' (usual are 25, 587 and 465), or start"
        " the mail server there",
    ),
    _Row(
        "greeting",
        "no reply",
        Topic.SERVER,
        "port {port} may expect TLS from the first byte: try '{section}.port: 465'; otherwise"
        " correct '{section}.server'",
    ),
    _Row(
        "greeting",
        "[45]",
        Topic.SERVER,
        "the server accepts no mail from this host: permit it there, or set '{section}.server' to"
        " another one",
    ),
    _Row("EHLO|HELO", "5", Topic.SERVER, "set 'mail.hello' to a name that the server accepts"),
    _Row(
        "greeting|EHLO|HELO", "", Topic.SERVER, "no SMTP at port {port}: correct '{section}.port'"
    ),
    _Row("STARTTLS", "4", Topic.SERVER, f"its TLS is not available now; {_LATER}"),
    _Row(
        "STARTTLS",
        "",
        Topic.ENCRYPTION,
        "if it expects TLS from the first byte, set '{section}.tls: tls'; only if the network to"
        " it is secure, '{section}.tls: opportunistic'",
    ),
    _Row(
        "TLS",
        "(?i:.*(hostname|ip address) mismatch)",
        Topic.SERVER,
        "set '{section}.server' to a name in its certificate: openssl s_client -connect"
        " {server}:{port}{starttls} </dev/null | openssl x509 -noout -ext subjectAltName",
    ),
    _Row(
        "TLS",
        "(?i:.*(self.signed|issuer|unable to verify))",
        Topic.ENCRYPTION,
        "save the certificate of its authority as /usr/local/share/ca-certificates/NAME.crt and"
        " run update-ca-certificates; only if the network to it is secure, '{section}.tls:"
        " opportunistic'",
    ),
    _Row(
        "TLS",
        "(?i:.*(expired|not yet valid))",
        Topic.ENCRYPTION,
        "compare the clock of this host ('timedatectl'); otherwise the certificate of the server"
        " has to be renewed",
    ),
    _Row(
        "TLS",
        "(?i:.*wrong version number)",
        Topic.ENCRYPTION,
        "port {port} does not begin with TLS: set '{section}.tls: starttls', or '{section}.port"
        ": 465'",
    ),
    _Row("TLS", "", Topic.ENCRYPTION, "correct '{section}.port' or '{section}.tls'"),
    _Row("AUTH", "no TLS", Topic.ENCRYPTION, "set '{section}.tls: starttls'"),
    _Row(
        "AUTH",
        "no supported mechanism",
        Topic.ENCRYPTION,
        "many servers offer a log-in only at port 587 with '{section}.tls: starttls'; without one,"
        " remove '{section}.user'",
    ),
    _Row("AUTH", "4(?!32)", Topic.LOGIN, f"it cannot check the password now; {_LATER}"),
    _Row(
        "AUTH",
        "",
        Topic.LOGIN,
        "correct '{section}.user' and the password in '{section}.password_file'; some providers"
        " demand a password made for one program (app password)",
    ),
    # Codes that speak for themselves, at the steps of a mail.
    _Row("", r"\d{3} [45]\.1\.[78]", Topic.SENDER, _SENDER),
    _Row("", r"(?i:\d{3}.*\bsender\b.*(rejected|refused|denied|not owned))", Topic.SENDER, _SENDER),
    _Row("MAIL FROM", r"\d{3} [45]\.3\.4|552", Topic.OTHER, "raise the server's limit of size"),
    _Row("MAIL FROM", "4", Topic.SERVER, _LATER),
    _Row("MAIL FROM", "5", Topic.SENDER, _SENDER),
    _Row("RCPT TO", r"\d{3} [45]\.2\.2|[45]52(?! \d)", Topic.RECIPIENTS, _MAILBOX),
    _Row("RCPT TO", r"(?i:.*(relay|authentication|log.?in))", Topic.RECIPIENTS, _RELAY),
    _Row("RCPT TO", "4", Topic.RECIPIENTS, _LATER),
    _Row("RCPT TO", r"554|\d{3} 5\.7", Topic.RECIPIENTS, f"correct 'mail.to'; or {_RELAY}"),
    _Row("RCPT TO", "5", Topic.RECIPIENTS, "correct 'mail.to', or create the mailbox"),
    _Row("", r"\d{3} [45]\.2\.2", Topic.RECIPIENTS, _MAILBOX),
    _Row("", r"\d{3} [45]\.3\.4|552", Topic.OTHER, "raise the server's limit of size"),
    _Row("", "4", Topic.SERVER, _LATER),
    _Row(
        "",
        "5",
        Topic.OTHER,
        "the server refuses the content: see its log, and exempt the address in 'mail.from' from"
        " its filter",
    ),
    _Row("", "no reply", Topic.SERVER, "see the log of the mail server, then run this again"),
    _Row("", "", Topic.SERVER, "see the log of the mail server"),
)
"""The first one that matches, at the beginning of both texts."""


class Place(NamedTuple):
    """The server of an attempt, and the section of the configuration that it is from."""

    section: str
    server: str
    port: int


def corrected_by(step: str, got: str, place: Place) -> tuple[Topic, str]:
    """Return what a failure is about, and the next step of an administrator.

    `step` is one of smtp.py, for example 'RCPT TO'; `got` is what came instead of the expected.
    """
    row = next(row for row in _ROWS if re.match(row.step, step) and re.match(row.got, got))
    advice = row.advice.format(
        section=place.section,
        server=place.server,
        port=place.port,
        starttls="" if place.port == 465 else " -starttls smtp",
    )
    return row.topic, advice
