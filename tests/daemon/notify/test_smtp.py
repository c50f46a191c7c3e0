"""SMTP over real servers, good and bad ones, and the outbox that survives them."""

import errno
import os
import queue
import re
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import fields, replace
from pathlib import Path

import pytest
from support.smtp import (
    DEADLINE_SECONDS,
    Answers,
    dialogue,
    free_port,
    make_certificate,
    own_address,
    scripted_server,
    smtp_server,
)

from iowarden.daemon.notify import sender as mail_sender
from iowarden.daemon.notify import smtp
from iowarden.daemon.notify.attempt import OutboundMail, SendResult
from iowarden.daemon.notify.maildir import MaildirSettings
from iowarden.daemon.notify.retry import Fault, Scope
from iowarden.daemon.notify.smtp import MailSettings, StepLimits

DATA = b"Subject: test\r\nMessage-ID: <iowarden.a.1@db1>\r\n\r\n.a line with a dot\r\n"
OUTBOUND = OutboundMail("<iowarden.a.1@db1>", ("root@example.com",), DATA)


def limits(seconds: float) -> StepLimits:
    """Return the same short limit for each step."""
    return StepLimits(*(seconds for _ in fields(StepLimits)))


def settings(port: int, **changes: object) -> MailSettings:
    """Return settings for a server on this machine."""
    usual = MailSettings(
        server="127.0.0.1",
        port=port,
        tls="auto",
        user=None,
        password=None,
        sender="iowarden <iowarden@db1.example.com>",
        timeout_seconds=None,
        hello="db1.example.com",
    )
    return replace(usual, **changes)  # type: ignore[arg-type]


GREETING, HELLO, OK, GO = "220 mx\r\n", "250 mx\r\n", "250 ok\r\n", "354 go\r\n"


@contextmanager
def sender(
    chosen: MailSettings | MaildirSettings,
) -> Iterator[Callable[[OutboundMail], SendResult]]:
    """Run a sender; yield a function that makes one attempt and returns its result."""
    results: queue.Queue[object] = queue.Queue()
    running = mail_sender.mail_sender(results.put, chosen)

    def attempt(outbound: OutboundMail) -> SendResult:
        running.submit(outbound)
        result = results.get(timeout=DEADLINE_SECONDS)
        assert isinstance(result, SendResult)
        return result

    try:
        yield attempt
    finally:
        ended = running.close(DEADLINE_SECONDS)
    assert ended


def attempt(
    chosen: MailSettings | MaildirSettings, outbound: OutboundMail = OUTBOUND
) -> SendResult:
    """Make one attempt."""
    with sender(chosen) as send:
        return send(outbound)


def test_a_mail_arrives_as_it_was_written() -> None:
    """A local server without TLS: the rendered bytes arrive unchanged."""
    with smtp_server() as (port, answers):
        result = attempt(settings(port))
    assert result == SendResult(
        OUTBOUND.message_id, delivered=OUTBOUND.recipients, answer="250 OK: queued as 4711"
    )
    taken = answers.next()
    assert (taken.sender, taken.recipients) == ("iowarden@db1.example.com", OUTBOUND.recipients)
    assert taken.data == DATA


def test_a_refused_recipient_does_not_cost_the_others_their_mail() -> None:
    """One address unknown (5xx), one mailbox busy (4xx): the third gets it; each is reported."""
    answers = Answers(recipients={"b@x": "550 5.1.1 no such user", "c@x": "450 4.2.1 mailbox busy"})
    with smtp_server(answers) as (port, _):
        result = attempt(settings(port), replace(OUTBOUND, recipients=("a@x", "b@x", "c@x")))
    assert result.delivered == ("a@x",)
    assert result.faults == {"b@x": Fault.UNKNOWN_RECIPIENT, "c@x": Fault.DEFERRED}
    assert "550 5.1.1 no such user" in result.refused["b@x"]
    assert result.error == ""
    assert answers.next().recipients == ("a@x",)


NO_USER = "550 5.1.1 no such user\r\n"


@pytest.mark.parametrize(
    ("rest", "scope", "fault"),
    [
        (("421 4.3.2 going down\r\n",), "server", "busy"),
        (("nonsense\r\n",), "message", "unreachable"),
        ((GO, "nonsense\r\n"), "message", "unanswered"),
        ((GO, "421 4.3.2 going down\r\n"), "server", "busy"),
        ((GO, "554 5.7.1 looks like spam\r\n"), "message", "refused"),
    ],
    ids=str,
)
def test_recipients_that_were_refused_stay_so_however_the_attempt_ends(
    rest: tuple[str, ...], scope: str, fault: str
) -> None:
    """The reply to RCPT TO counts also if the connection breaks at DATA, or the message fails."""
    with scripted_server(dialogue(GREETING, HELLO, OK, OK, NO_USER, *rest)) as port:
        result = attempt(settings(port), replace(OUTBOUND, recipients=("a@x", "b@x")))
    assert (result.scope, result.fault) == (scope, fault)
    assert result.faults == {"b@x": Fault.UNKNOWN_RECIPIENT}
    assert "RCPT TO <b@x>: expected 250, got '550 5.1.1" in result.refused["b@x"]


def test_a_recipient_stays_refused_if_the_next_reply_is_about_the_sender() -> None:
    """The first reply was about that recipient all the same."""
    sender = "450 4.1.8 sender address rejected\r\n"
    with scripted_server(dialogue(GREETING, HELLO, OK, NO_USER, sender)) as port:
        result = attempt(settings(port), replace(OUTBOUND, recipients=("b@x", "c@x")))
    assert (result.scope, result.fault) == ("server", "deferred")
    assert result.faults == {"b@x": Fault.UNKNOWN_RECIPIENT}


@pytest.mark.parametrize(
    ("answers", "fault", "words"),
    [
        (Answers(message="554 5.7.1 looks like spam"), "refused", "end of data: expected 250, got"),
        (Answers(message="552 5.3.4 too large"), "content", "end of data: expected 250, got '552"),
        (Answers(message="451 4.3.0 disk full"), "deferred", "end of data: expected 250, got '451"),
        (Answers(sender="552 5.3.4 too large"), "content", "MAIL FROM: expected 250, got '552"),
    ],
)
def test_what_a_server_reports_of_the_whole_message_applies_to_every_recipient(
    answers: Answers, fault: str, words: str
) -> None:
    """It holds this message, and neither the server nor a recipient."""
    with smtp_server(answers) as (port, _):
        result = attempt(settings(port))
    assert (result.scope, result.fault) == ("message", fault)
    assert words in result.error
    assert not result.delivered
    assert not result.refused
    assert result.may_try_plain == ("5.7.1" in result.error)


def test_a_sender_that_is_refused_in_the_reply_to_a_recipient_is_refused_for_all() -> None:
    """As Postfix does it: no other recipient is named in vain, and no mail is handed over."""
    answers = Answers(recipients={"a@x": "450 4.1.8 <iowarden@db1>: sender address rejected"})
    with smtp_server(answers) as (port, _):
        result = attempt(settings(port), replace(OUTBOUND, recipients=("a@x", "b@x")))
    assert (result.scope, result.fault) == ("server", "deferred")
    assert not result.refused
    assert answers.mails.empty()


def test_a_sender_that_is_refused_is_a_refusal_of_every_mail() -> None:
    """5xx to MAIL FROM is no verdict on one mail: all have this sender."""
    with smtp_server(Answers(sender="553 5.1.8 no such domain")) as (port, _):
        result = attempt(settings(port))
    assert "MAIL FROM: expected 250, got '553" in result.error
    assert (result.scope, result.fault) == ("server", "refused")
    assert not result.refused


@pytest.mark.parametrize(
    ("answers", "step", "expected"),
    [
        ((), "greeting", "220"),
        ((GREETING,), "EHLO", "250"),
        ((GREETING, HELLO), "MAIL FROM", "250"),
        ((GREETING, HELLO, OK), "RCPT TO", "250"),
        ((GREETING, HELLO, OK, OK), "DATA", "354"),
        ((GREETING, HELLO, OK, OK, GO), "end of data", "250"),
    ],
)
def test_a_server_that_stalls_is_named_with_the_step_it_stalls_at(
    answers: tuple[str, ...], step: str, expected: str
) -> None:
    """After any reply the attempt ends, and its error names the step and the expected reply."""
    with scripted_server(dialogue(*answers)) as port:
        result = attempt(settings(port, limits=limits(0.3)))
    assert result.error == (
        f"mail: '127.0.0.1:{port}': {step}: expected {expected}, got no reply before the timeout"
    )
    assert result.maybe_taken == (step == "end of data")


def test_a_server_that_dribbles_does_not_hold_the_sender() -> None:
    """Single bytes prolong each read; the attempt as a whole has a time limit."""

    def dribble(connection: socket.socket, over: threading.Event) -> None:
        while not over.wait(0.02):
            connection.sendall(b"2")

    with scripted_server(dribble) as port:
        result = attempt(settings(port, limits=limits(0.3)))
    assert "greeting: expected 220, got no reply before the timeout" in result.error


def endless_line(connection: socket.socket, over: threading.Event) -> None:
    """Send a line of 10 MB, while the client reads it."""
    connection.sendall(b"220 " + b"x" * 10_000_000)


def endless_answer(connection: socket.socket, over: threading.Event) -> None:
    """Send one reply of a million lines."""
    connection.sendall(b"220-x\r\n" * 1_000_000)


@pytest.mark.parametrize(
    ("script", "got"),
    [
        (endless_line, "a too long line, beginning '220 xxx"),
        (endless_answer, "a too long reply, beginning '220-x"),
        (
            dialogue("HTTP/1.1 400 Bad Request\r\n"),
            "no SMTP reply: 'HTTP/1.1 400 Bad Request'",
        ),
        (dialogue("\x00\xff\r\n"), r"no SMTP reply: '\x00"),
        # Nor is a number of which three digits could be a code: it may be a secret in hexadecimal.
        (dialogue("350066003100\r\n"), "no SMTP reply: '350066003100'"),
        (dialogue("554 no service here\r\n"), "'554 no service here'"),
        (dialogue("421 going down\r\n"), "'421 going down'"),
        (lambda connection, over: None, "'Connection unexpectedly closed'"),
    ],
)
def test_nonsense_is_an_error_of_the_server_never_a_verdict_on_the_mail(
    script: Callable[[socket.socket, threading.Event], None], got: str
) -> None:
    """Before the mail was submitted, no reply is a reason to discard it."""
    with scripted_server(script) as port:
        result = attempt(settings(port))
    assert f"127.0.0.1:{port}': greeting: expected 220, got {got}" in result.error
    assert result.scope == "server"
    assert not result.refused


@pytest.mark.parametrize("said", [(), (HELLO,), (HELLO, OK), (HELLO, OK, OK)])
def test_a_server_that_goes_down_defers_nobody(said: tuple[str, ...]) -> None:
    """421 at any step is a fault of the connection (RFC 5321): the server is retried later."""
    with scripted_server(dialogue(GREETING, *said, "421 going down\r\n")) as port:
        result = attempt(settings(port))
    if said:
        assert "got '421 going down'" in result.error
    assert result.error
    assert (result.scope, result.faults) == ("server", {})


def test_a_server_that_is_content_without_the_message_has_not_got_it() -> None:
    """It replies to DATA with 250, against the RFC: the message was not handed over."""
    with scripted_server(dialogue(GREETING, HELLO, OK, OK, OK)) as port:
        result = attempt(settings(port))
    assert "DATA: expected 354, got '250 ok'" in result.error
    assert not result.delivered
    assert not result.maybe_taken


def test_a_server_that_takes_half_a_message_does_not_hold_the_sender() -> None:
    """It replied '354' and reads no more: the sockets are full, the attempt ends."""

    def script(connection: socket.socket, over: threading.Event) -> None:
        with connection.makefile("rb") as lines:
            for answer in (GREETING, HELLO, OK, OK, GO):
                if answer != GREETING:
                    lines.readline()
                connection.sendall(answer.encode())
            over.wait(DEADLINE_SECONDS)

    with scripted_server(script) as port:
        large = replace(OUTBOUND, data=DATA + b"x" * 50_000_000)
        result = attempt(settings(port, limits=limits(0.5)), large)
    assert "message: expected the server to read it, got no reply before the timeout" in (
        result.error
    )
    assert not result.maybe_taken, "the final dot was never sent"


def test_a_remote_server_gets_nothing_in_clear() -> None:
    """Neither the mail, unless 'none' is configured, nor ever the password."""
    address = own_address()
    script = dialogue(GREETING, "250-mx\r\n250 AUTH PLAIN LOGIN\r\n")
    with scripted_server(script, address) as port:
        mailing = attempt(settings(port, server=address))
        log_in = attempt(
            settings(port, server=address, tls="none", user="iowarden", password="secret")
        )
    assert "STARTTLS: expected the server to support it" in mailing.error
    assert "no TLS; no password is sent unencrypted" in log_in.error


def logging_in(
    *replies: str,
) -> tuple[Callable[[socket.socket, threading.Event], None], list[bytes]]:
    """Return a script of a server with three mechanisms, and the list of AUTH that it gets."""
    commands: list[bytes] = []

    def script(connection: socket.socket, over: threading.Event) -> None:
        waiting = [GREETING, "250-mx\r\n250 AUTH CRAM-MD5 PLAIN LOGIN\r\n", *replies]
        with connection.makefile("rb") as lines:
            connection.sendall(waiting.pop(0).encode())
            for line in lines:
                if line.startswith(b"AUTH"):
                    commands.append(line.split()[1])
                if not waiting:
                    return
                connection.sendall(waiting.pop(0).encode())

    return script, commands


@pytest.mark.parametrize(
    ("reply", "fault"),
    [
        ("535 5.7.8 wrong\r\n", Fault.LOGIN),
        ("454 4.7.0 later\r\n", Fault.LOGIN_LATER),
        ("421 4.7.0 too many\r\n", Fault.BUSY),
    ],
)
@pytest.mark.parametrize("further", [(), ("250 ok\r\n",)], ids=["closes", "stays"])
def test_a_refused_log_in_is_one_log_in(reply: str, fault: Fault, further: tuple[str, ...]) -> None:
    """Not one with each mechanism; and the reply is the reason, though the server closes after it.

    With CRAM-MD5, PLAIN and LOGIN an account was locked three times as soon, and a server that
    closed was taken for one without a connection: tried each 15 min, and by each reload.
    """
    script, commands = logging_in(reply, *further)
    with scripted_server(script) as port:
        result = attempt(settings(port, user="iowarden", password="secret"))
    assert commands == [b"PLAIN"]
    assert (result.scope, result.fault) == (Scope.SERVER, fault)
    assert reply.strip() in result.error


def test_a_mechanism_that_the_server_does_not_have_is_no_refusal() -> None:
    """It offers more than it can: the next one is tried."""
    script, commands = logging_in("504 5.7.4 unrecognized\r\n", "535 5.7.8 wrong\r\n")
    with scripted_server(script) as port:
        result = attempt(settings(port, user="iowarden", password="secret"))
    assert commands == [b"PLAIN", b"LOGIN"]
    assert result.fault is Fault.LOGIN


@pytest.mark.parametrize("code", ["554 5.7.1", "450 4.7.1", "550"])
def test_a_refusal_of_this_host_is_the_reason_though_the_server_closes(code: str) -> None:
    """HELO after it got no reply: the address was on a list, and the journal said 'no reply'."""

    def script(connection: socket.socket, over: threading.Event) -> None:
        connection.sendall(GREETING.encode())
        connection.recv(4096)
        connection.sendall(f"{code} your address is blocked\r\n".encode())

    with scripted_server(script) as port:
        result = attempt(settings(port))
    assert f"EHLO: expected 250, got '{code} your address is blocked'" in result.error
    assert result.fault is not Fault.UNREACHABLE


def test_a_server_of_before_ehlo_gets_helo() -> None:
    """502: it does not know the command."""
    with scripted_server(dialogue(GREETING, "502 what\r\n", "250 mx\r\n", "550 no\r\n")) as port:
        assert "MAIL FROM" in attempt(settings(port)).error


def test_a_server_that_moved_is_found_after_one_failed_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its old address does not respond: the name is resolved again, not only at the next start."""
    look_up = socket.getaddrinfo
    nowhere = free_port()
    answers = [nowhere]

    def moved(host: str, port: int, **options: int) -> object:
        return look_up(host, answers.pop() if answers else port, **options)

    with smtp_server() as (port, _):
        monkeypatch.setattr(socket, "getaddrinfo", moved)
        with sender(settings(port, server="localhost")) as send:
            assert "connect" in send(OUTBOUND).error
            assert send(OUTBOUND).delivered == OUTBOUND.recipients


def test_a_bug_of_ours_costs_an_attempt_not_the_sender() -> None:
    """An unexpected exception is reported with its location, and the next mail is sent."""
    with smtp_server() as (port, _), sender(settings(port)) as send:
        failed = send(replace(OUTBOUND, data=None))  # type: ignore[arg-type]
        assert send(OUTBOUND).delivered == OUTBOUND.recipients
    assert "bug: TypeError: " in failed.error
    assert failed.maybe_taken


def test_nobody_listening_is_reported_with_server_and_port() -> None:
    """Connection refused: the error names server, port and step."""
    port = free_port()
    result = attempt(settings(port))
    assert f"'127.0.0.1:{port}': connect: expected a connection" in result.error
    assert os.strerror(errno.ECONNREFUSED) in result.error


def test_an_unknown_name_is_reported() -> None:
    """A server name that does not exist (RFC 6761 reserves '.invalid')."""
    result = attempt(settings(25, server="mx.invalid"))
    assert "'mx.invalid:25': name resolution: expected an address, got" in result.error


def test_a_server_that_goes_after_taking_the_mail_has_taken_it() -> None:
    """The connection breaks between the final '250' and QUIT: delivered, no duplicate."""

    def script(connection: socket.socket, over: threading.Event) -> None:
        over.set()  # nothing to wait for after the last reply
        dialogue(GREETING, HELLO, OK, OK, GO, "250 taken\r\n")(connection, over)

    with scripted_server(script) as port:
        result = attempt(settings(port))
    assert result.delivered == OUTBOUND.recipients
    assert result.answer == "250 taken"


def test_authorities_are_read_only_for_connections_that_are_encrypted(tmp_path: Path) -> None:
    """They take 30 ms of CPU time at each start, and most servers are on this machine."""
    broken = tmp_path / "authorities"
    broken.write_text("no certificate")
    for server, tls, is_read in (
        ("127.0.0.1", "auto", False),
        ("::1", "auto", False),
        ("mail.example.com", "none", False),
        ("mail.example.com", "auto", True),
        ("localhost", "auto", True),
        ("127.0.0.1", "starttls", True),
    ):
        chosen = settings(25, server=server, tls=tls, authorities=str(broken))
        with pytest.raises(ssl.SSLError) if is_read else nullcontext():
            smtp.tls_context(chosen)


@pytest.mark.parametrize("tls", ["starttls", "tls"])
def test_tls_is_verified_against_known_authorities(tmp_path: Path, tls: str) -> None:
    """A certificate of a known authority is accepted; the same unknown one gets no mail."""
    certificate = make_certificate(tmp_path)
    with smtp_server(certificate=certificate, implicit_tls=tls == "tls") as (port, answers):
        chosen = settings(port, server="localhost", tls=tls, authorities=certificate.path)
        assert attempt(chosen).delivered == OUTBOUND.recipients
        answers.next()
        result = attempt(replace(chosen, authorities=smtp.AUTHORITIES))
    assert "TLS: expected a certificate for 'localhost' from a known authority, got" in result.error
    assert "self-signed certificate" in result.error
    assert answers.mails.empty()


def test_a_certificate_for_another_name_is_refused(tmp_path: Path) -> None:
    """A valid certificate of another server does not give access to the mail."""
    certificate = make_certificate(tmp_path, "elsewhere.example")
    with smtp_server(certificate=certificate) as (port, _):
        chosen = settings(port, server="localhost", tls="starttls", authorities=certificate.path)
        result = attempt(chosen)
    assert "Hostname mismatch" in result.error


def test_required_tls_that_is_not_offered_sends_nothing() -> None:
    """If STARTTLS is stripped from the reply no mail is sent; the error gives the next step."""
    with smtp_server() as (port, answers):
        result = attempt(settings(port, tls="starttls"))
    assert "STARTTLS: expected the server to support it, got no support" in result.error
    assert answers.mails.empty()


@pytest.mark.parametrize("offered", [True, False])
def test_opportunistic_takes_what_is_offered(tmp_path: Path, offered: bool) -> None:
    """Configured by the administrator: with an unknown certificate or none the mail is sent."""
    certificate = make_certificate(tmp_path) if offered else None
    with smtp_server(certificate=certificate) as (port, answers):
        result = attempt(settings(port, tls="opportunistic"))
    assert result.delivered == OUTBOUND.recipients
    assert answers.next().data == DATA


def test_words_put_in_before_the_encryption_are_not_believed(tmp_path: Path) -> None:
    """A reply injected unencrypted after that to STARTTLS (CVE-2011-0411) ends the attempt."""
    injected = dialogue(GREETING, "250-mx\r\n250 STARTTLS\r\n", "220 go\r\n250 injected\r\n")
    with scripted_server(injected) as port:
        result = attempt(settings(port, tls="starttls"))
    assert "STARTTLS: expected 220, got data after the reply: '220 go 250 injected" in result.error


def test_a_log_in_is_made_and_a_wrong_password_is_retried_later() -> None:
    """A wrong password is an error of the connection: no mail is discarded for it."""
    with smtp_server(password="secret") as (port, answers):
        good = attempt(settings(port, user="iowarden", password="secret"))
        bad = attempt(settings(port, user="iowarden", password="wrong"))
    assert good.delivered == OUTBOUND.recipients
    assert answers.next().data == DATA
    assert "AUTH: expected an accepted log-in, got '535" in bad.error
    assert (bad.scope, bad.fault) == ("server", "login")


@pytest.mark.parametrize("place", ["sender", "recipient"])
def test_a_server_that_demands_encryption_or_a_log_in_loses_no_mail(place: str) -> None:
    """RFC 3207 and RFC 4954: reply 530 is about the session, not the mail, which is tried again."""
    reply = "530 5.7.0 Must issue a STARTTLS command first"
    answers = Answers(
        sender=reply if place == "sender" else "",
        recipients=dict.fromkeys(OUTBOUND.recipients, reply if place == "recipient" else "250 OK"),
    )
    with smtp_server(answers) as (port, _):
        result = attempt(settings(port))
    assert result.scope == "server"
    assert not result.refused
    assert result.error.endswith(f"got '{reply}'")


def test_a_name_look_up_that_hangs_delays_but_does_not_multiply(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The resolver's files are on the hung disk: the error says so, and only one thread hangs."""
    release = threading.Event()
    asked: queue.Queue[object] = queue.Queue()

    def hang(*arguments: object, **_: object) -> list[object]:
        asked.put(arguments)
        release.wait(DEADLINE_SECONDS)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    with sender(settings(25, server="mx1", limits=limits(0.1))) as send:
        results = [send(OUTBOUND), send(OUTBOUND)]
    release.set()
    assert all("got no reply from name resolution" in result.error for result in results)
    assert asked.qsize() == 1


def test_a_known_address_serves_while_the_look_up_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The root disk hangs, then the server is down for a while: its old address is still used."""
    port = free_port()
    release = threading.Event()
    look_up = socket.getaddrinfo

    def hang(host: str, *arguments: int, **options: int) -> object:
        if host == "localhost":
            release.wait(DEADLINE_SECONDS)
        return look_up(host, *arguments, **options)

    with sender(settings(port, server="localhost", limits=limits(2.0))) as send:
        failed = send(OUTBOUND)  # name resolution at start has finished by now
        monkeypatch.setattr(socket, "getaddrinfo", hang)
        assert "connect" in failed.error
        send(OUTBOUND)
        with smtp_server(port=port) as (_, answers):
            assert send(OUTBOUND).delivered == OUTBOUND.recipients
            assert answers.next().data == DATA
    release.set()


def test_after_the_start_nothing_is_read_from_a_disk(tmp_path: Path) -> None:
    """Not even for the first mail, its TLS and its log-in: the root disk may hang by then."""
    program = """
import queue, sys, threading
from iowarden.daemon.notify import attempt, smtp
from iowarden.daemon.notify.sender import mail_sender
server, port, authorities = sys.argv[1:]
results = queue.SimpleQueue()
settings = smtp.MailSettings(
    server, int(port), "starttls", "iowarden", "secret", "a@x", 10.0, "db1", authorities
)
sender = mail_sender(results.put, settings)
for thread in threading.enumerate():
    if thread.name == "name look-up":
        thread.join()
def hook(event, arguments):
    if event in ("open", "import", "os.listdir", "os.scandir"):
        print(event, arguments, file=sys.stderr)
sys.addaudithook(hook)
sender.submit(attempt.OutboundMail("<a@x>", ("b@x",), b"Subject: x\\r\\n\\r\\n"))
print(results.get().delivered)
"""
    certificate = make_certificate(tmp_path)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    with smtp_server(certificate=certificate, password="secret") as (port, _):
        run = subprocess.run(
            [sys.executable, "-c", program, "localhost", str(port), certificate.path],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=DEADLINE_SECONDS,
        )
    assert (run.stdout, run.stderr) == ("('b@x',)\n", "")


# --- Maildir


def test_a_maildir_holds_each_mail_once(tmp_path: Path) -> None:
    """Without a server mails are files; a retry after a kill replaces its file."""
    directory = tmp_path / "Maildir"
    with sender(MaildirSettings(str(directory))) as send:
        results = [send(OUTBOUND), send(OUTBOUND)]
    assert [result.delivered for result in results] == [OUTBOUND.recipients] * 2
    (path,) = (directory / "new").iterdir()
    assert path.read_bytes() == DATA.replace(b"\r\n", b"\n")
    assert not list((directory / "tmp").iterdir())


def test_an_identifier_cannot_leave_the_maildir(tmp_path: Path) -> None:
    """A Message-ID full of slashes and dots is still a file name."""
    outbound = replace(OUTBOUND, message_id="<../../../x\0/y>")
    assert attempt(MaildirSettings(str(tmp_path / "M")), outbound).delivered
    assert [path.parent.name for path in tmp_path.rglob("*") if path.is_file()] == ["new"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_what_root_puts_into_the_services_directory_belongs_to_the_service(tmp_path: Path) -> None:
    """`iowarden test-mail` as root must not leave a Maildir that the service cannot write."""
    state = tmp_path / "state"
    state.mkdir()
    os.chown(state, 65534, 65534)
    assert attempt(MaildirSettings(str(state / "Maildir"))).delivered
    made = [state / "Maildir", *(state / "Maildir").rglob("*")]
    assert {path.stat().st_uid for path in made} == {65534}
    assert len(made) == 5


def test_a_maildir_that_cannot_be_written_is_an_error_for_now(tmp_path: Path) -> None:
    """A file in its place: the mail waits, the error names the path."""
    (tmp_path / "file").write_text("")
    result = attempt(MaildirSettings(str(tmp_path / "file" / "Maildir")))
    assert f"'{tmp_path}/file/Maildir': expected a writable Maildir, got" in result.error
    assert not result.maybe_taken, "written again under the same name it is one mail"


# --- test-mail


def test_the_test_mail_reports_the_dialogue(tmp_path: Path) -> None:
    """Connection, TLS, certificate and each reply are shown to whoever configures mail."""
    certificate = make_certificate(tmp_path)
    answers = Answers(recipients={"b@x": "550 5.1.1 no such user"})
    with smtp_server(answers, certificate=certificate) as (port, _):
        chosen = settings(port, server="localhost", tls="starttls", authorities=certificate.path)
        lines = list(mail_sender.test_mail(chosen, DATA, ("a@x", "b@x")))
    text = "\n".join(line.text for line in lines)
    assert f"connected to 'localhost' (127.0.0.1) port {port}" in text
    assert re.search(r"TLSv1\.\d, certificate for localhost", text)
    assert "recipient a@x: 250 OK" in text
    assert "message: 250 OK: queued as 4711" in text
    assert [line.text for line in lines if not line.good] == [
        "recipient b@x: 550 5.1.1 no such user"
    ]
