"""`iowarden setup`: mail and self-tests in a minute, twice the same, nothing lost on the way."""

from __future__ import annotations

import contextlib
import grp
import io
import json
import os
import pty
import pwd
import queue
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import yaml
from support.http_receiver import server
from support.smtp import DEADLINE_SECONDS, Answers, Received, free_port, smtp_server

from iowarden.daemon.cli import command, main
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.setup import (
    config_file,
    dialogue,
    local_mail,
    reload_service,
    service_user,
)
from iowarden.daemon.setup.answers import SetupAnswers
from iowarden.daemon.setup.mail_advice import Topic

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

GROUP = grp.getgrgid(os.getegid()).gr_name


@pytest.fixture(autouse=True)
def _as_this_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """The user of the tests is the service's user, but where a test is about another one."""
    monkeypatch.setattr(config_file, "GROUP", GROUP)
    monkeypatch.setattr(service_user, "SERVICE_USER", "nobody-yet")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the configuration will be."""
    return tmp_path / "iowarden.yaml"


def run_setup(path: Path, *options: str) -> int:
    """Run the command without its check of the machine, which has tests of its own."""
    return main.main(["setup", "--config", str(path), "--no-check", *options])


def test_without_a_terminal_and_without_options_nothing_is_changed(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script that forgot its options does not wait for answers; 2 is a usage error."""
    assert run_setup(path) == 2
    assert "expected a terminal, or options such as --mail-to" in capsys.readouterr().err
    assert not path.exists()


def test_a_mail_server_is_set_up_and_a_test_mail_arrives(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One command line; the second one changes no byte and sends another test mail."""
    with smtp_server() as (port, answers):
        options = ("--mail-to", "a@b.example", "--mail-server", f"127.0.0.1:{port}", "--self-tests")
        assert run_setup(path, *options) == 0
        assert answers.next().recipients == ("a@b.example",)
        first = path.read_bytes()
        told = capsys.readouterr().out
        assert f"'{path}': saved\n" in told
        # Who may query and who may act are roles of their own, not the service's group.
        assert "usermod -aG iowarden-viewer USER; also act" in told
        assert "usermod -aG iowarden-operator USER" in told
        assert run_setup(path, *options) == 0
        assert answers.next().recipients == ("a@b.example",)
    assert path.read_bytes() == first
    told = capsys.readouterr().out
    assert f"'{path}': nothing to change\n" in told
    assert "usermod" not in told
    settings = parse_config(first.decode(), str(path))
    assert (settings.mail.server, settings.mail.port) == ("127.0.0.1", port)
    assert len(settings.self_tests) == 1


@pytest.mark.parametrize(
    ("to", "expected"),
    [
        ("a@b.example", "the test mail was not accepted\n"),
        ("a@b.example,c@b.example", "the test mail was accepted for some recipients only\n"),
    ],
)
def test_who_has_a_refused_test_mail_is_said(
    path: Path, capfd: pytest.CaptureFixture[str], to: str, expected: str
) -> None:
    """'Not for all' of one that nobody has sends its reader to look for it."""
    answers = Answers(recipients={"a@b.example": "550 5.7.1 relay denied"})
    with smtp_server(answers) as (port, _):
        assert run_setup(path, "--mail-to", to, "--mail-server", f"127.0.0.1:{port}") == 1
    assert expected in capfd.readouterr().err


@pytest.mark.parametrize("before", ["", "mail: {server: mx.example, to: old@b.example}\n"])
def test_a_recipient_whom_the_server_refuses_is_not_put_in_force(
    path: Path, capsys: pytest.CaptureFixture[str], before: str
) -> None:
    """The mails of the night would be refused as well; what was in force may work."""
    if before:
        path.write_text(before)
    answers = Answers(recipients={"a@b.example": "550 5.7.1 relay denied"})
    with smtp_server(answers) as (port, _):
        options = ("--mail-to", "a@b.example", "--mail-server", f"127.0.0.1:{port}")
        assert run_setup(path, *options) == 1
    told = capsys.readouterr()
    assert "recipient a@b.example: 550 5.7.1 relay denied" in told.out
    assert f"nothing was changed in '{path}'" in told.err
    assert "by '--no-test-mail'" in told.err
    assert (path.read_text() if path.exists() else "") == before


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts, and becomes another user")
@pytest.mark.parametrize("fault", ["no group", "no directory", "read-only", "not root"])
def test_no_test_mail_is_sent_of_what_could_not_be_saved(
    path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
) -> None:
    """Whoever gets it believes that alerts will come; the reason is that of the saving itself."""
    target = path
    with contextlib.ExitStack() as stack:
        port, answers = stack.enter_context(smtp_server())
        if fault == "no group":
            monkeypatch.setattr(config_file, "GROUP", "no-such-group")
            expected = "expected group 'no-such-group', which may read it"
        elif fault == "no directory":
            target = path.parent / "none" / "etc" / "iowarden.yaml"
            expected = f"create the directory: 'mkdir -p {target.parent}'"
        elif fault == "read-only":
            stack.enter_context(read_only(path.parent))
            expected = "the file system is mounted read-only"
        else:
            target = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "iowarden.yaml"
            target.parent.chmod(0o755)
            os.seteuid(pwd.getpwnam("nobody").pw_uid)
            stack.callback(os.seteuid, 0)
            expected = "run this command as root"
        options = ("--mail-to", "a@b.example", "--mail-server", f"127.0.0.1:{port}")
        assert run_setup(target, *options) != 0
        assert expected in capsys.readouterr().err
        assert answers.mails.empty()


@contextlib.contextmanager
def read_only(directory: Path) -> Iterator[None]:
    """Mount a directory over itself, so that nothing can be written to it."""
    for options in (["--bind", str(directory)], ["-o", "remount,bind,ro"]):
        subprocess.run(["mount", *options, str(directory)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(directory)], check=True)


def test_the_file_is_not_in_force_while_the_test_mail_is_sent(path: Path) -> None:
    """A server that takes a minute to refuse it must not have the alerts of that minute."""
    present = []

    class Mails(queue.Queue[Received]):
        """Looks at the file when a mail arrives."""

        def put(self, mail: Received, *_: object) -> None:
            present.append(path.exists())
            super().put(mail)

    with smtp_server(Answers(mails=Mails())) as (port, answers):
        options = ("--mail-to", "a@b.example", "--mail-server", f"127.0.0.1:{port}")
        assert run_setup(path, *options) == 0
        answers.next()
    assert (present, path.exists()) == ([False], True)


def test_self_tests_do_not_wait_for_a_mail_server_that_is_down(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Mail is not changed by this run, so that the file in force is no better than the new one."""
    path.write_text(f"mail: {{server: 127.0.0.1, port: {free_port()}, to: a@b.example}}\n")
    assert run_setup(path, "--self-tests") == 1
    assert "self_tests" in path.read_text()
    told = capsys.readouterr().err
    assert "not accepted: mail, which this run does not change" in told
    assert "test it by 'iowarden test-mail'" in told


def test_comments_stay(path: Path) -> None:
    """What an administrator wrote next to his values is his."""
    path.write_text("# ours\nhost: db1 # of the rack\nmail:\n  to: old@b.example\n")
    with smtp_server() as (port, answers):
        assert not run_setup(path, "--mail-to", "a@b.example", "--mail-server", f"127.0.0.1:{port}")
        assert answers.next().recipients == ("a@b.example",)
    assert path.read_text().startswith("# ours\nhost: db1 # of the rack\nmail:\n  to: a@b.example")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("mial: {to: a@b.example}\n", ":1: mial: unknown key; did you mean 'mail'?"),
        ("host: db1\nmail:\n  future_key: 1\n", ":3: mail.future_key: unknown key; expected one"),
        ("host: 'a b'\n", ':1: host = "a b": expected a host name; example: host: '),
    ],
)
def test_a_file_that_the_service_refuses_is_corrected_first(
    path: Path, capsys: pytest.CaptureFixture[str], text: str, problem: str
) -> None:
    """The service would not load what setup adds: a test mail would prove nothing."""
    path.write_text(text)
    with smtp_server() as (port, answers):
        options = ("--mail-to", "a@b.example", "--mail-server", f"127.0.0.1:{port}")
        assert run_setup(path, *options) == 78
        assert run_setup(path, "--self-tests") == 78
        assert answers.mails.empty()
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count(f"'{path}'{problem}") == 2
    assert (
        told.err.count("\nnothing was changed; correct this and run 'iowarden setup' again\n") == 2
    )
    assert path.read_text() == text


def test_a_value_that_setup_replaces_may_be_wrong(path: Path) -> None:
    """The answers are its correction: a server without a recipient, a mistyped address."""
    for text in ("mail: {server: mx.example}\n", "mail:\n  server: m x\n  to: a@\n  tls: none\n"):
        path.write_text(text)
        options = ("--mail-to", "a@b.example", "--mail-server", "127.0.0.1", "--no-test-mail")
        assert run_setup(path, *options) == 0
        assert parse_config(path.read_text(), str(path)).mail.to == ("a@b.example",)


def test_recipients_are_separated_as_in_the_file(path: Path) -> None:
    """By commas or blanks, in one option or several; the same ones leave the file as it is."""
    text = "mail: {server: 127.0.0.1, to: 'a@b.example, root'}\n"
    path.write_text(text)
    assert parse_config(text, str(path)).mail.to == ("a@b.example", "root")
    assert run_setup(path, "--mail-to", "a@b.example root", "--no-test-mail") == 0
    assert run_setup(path, "--mail-to", "a@b.example", "--mail-to", "root", "--no-test-mail") == 0
    assert path.read_text() == text
    assert run_setup(path, "--mail-to", "root,a@b.example", "--no-test-mail") == 0
    assert yaml.safe_load(path.read_text())["mail"]["to"] == ["root", "a@b.example"]


def test_a_service_behind_tls_confirms_by_its_control_socket(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its metrics cannot be read without a login: setup waited 10 s and reported a failure."""
    asked: list[bool] = []

    def reloaded(*_: object, query: object) -> tuple[bool, str]:
        asked.append(query is not None)
        return True, "the service has loaded it"

    monkeypatch.setattr(reload_service, "reload", reloaded)
    monkeypatch.setattr(command, "DEFAULT_CONFIG", str(path))
    web = path.with_name("web.yml")
    for text in ("", f"web_config: {web}\n"):
        path.write_text(text)
        options = ("--mail-to", "a@b.example", "--mail-server", "m", "--no-test-mail")
        assert run_setup(path, *options) == 0
        assert "the service has loaded it" in capsys.readouterr().out
    assert asked == [False, True]


def test_a_secret_that_the_service_cannot_read_fails_without_a_test_mail(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise a script sets up a service that does not start."""
    options = ("--mail-to", "a@b.example", "--mail-server", "m", "--no-test-mail")
    account = ("--mail-user", "u", "--mail-password-file", str(path.with_name("password")))
    assert run_setup(path, *options, *account) == 1
    assert "password_file" in (told := capsys.readouterr().err)
    assert "not accepted: mail\nnothing was changed" in told
    assert not path.exists()
    path.with_name("password").write_text("s3cret\n")
    path.with_name("password").chmod(0o600)
    assert run_setup(path, *options, *account) == 0
    hook = ("--notify", "slack", "--notify-url-file", str(path.with_name("slack.url")))
    assert run_setup(path, "--no-test-mail", *hook) == 1
    assert "slack.url" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--mail-server", "https://m/"), "mail.server: expected HOST or HOST:PORT, got a URL"),
        (("--mail-server", "u:s3cret@m"), "mail.server: expected HOST or HOST:PORT, got a URL"),
        (("--mail-to", "a b@"), "mail.to: expected mail addresses, got 'b@'"),
        (("--mail-server", "a_b!"), "mail.server: expected a host name or IP address"),
        (("--mail-to", "Ann <a@b.example>"), "got '<a@b.example>'; write only the address"),
        (("--mail-to", "ü@b.example"), "got 'ü@b.example'; use an address in ASCII"),
        (("--mail-to", "a@bücher.example"), "; write 'a@xn--bcher-kva.example'"),
        (("--mail-from", "a@bücher.example"), "; write 'a@xn--bcher-kva.example'"),
        (("--mail-server", "bücher.example"), "; write 'xn--bcher-kva.example'"),
        (("--mail-to", "a", "--mail-server", "m:x"), "mail.port: expected a port number 1-65535"),
        (("--mail-to", "root", "--mail-server", "m", "--mail-user", "u"), "a log-in needs both"),
        (
            ("--mail-to", "notanaddress", "--mail-server", "m"),
            "expected an address such as ops@example.com, or a user of this host, got 'notanaddr",
        ),
        (("--mail-server", "m"), "mail.server: expected 'mail.to' as well"),
    ],
)
def test_an_answer_that_is_not_valid_changes_nothing(
    path: Path, capsys: pytest.CaptureFixture[str], options: Sequence[str], problem: str
) -> None:
    """The configuration is parsed before it is written: the service never sees this one."""
    path.write_text("host: db1\n")
    assert run_setup(path, *options) == 78
    assert problem in (told := capsys.readouterr().err)
    assert "s3cret" not in told
    assert path.read_text() == "host: db1\n"


class Impatient(io.StringIO):
    """Standard output, read by a person who presses Ctrl-C when the test mail takes long."""

    def write(self, text: str) -> int:
        """Interrupt the program where it says what it does next."""
        written = super().write(text)
        if "sending a test mail" in text:
            signal.raise_signal(signal.SIGINT)
        return written


def test_ctrl_c_during_the_test_mail_changes_nothing(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever sees that the server takes too long has not put it in force by then."""
    options = ("--mail-to", "a@b.example", "--mail-server", f"127.0.0.1:{free_port()}")
    monkeypatch.setattr(sys, "stdout", Impatient())
    assert run_setup(path, *options) == 130
    assert "cancelled; nothing was changed" in capsys.readouterr().err
    assert not path.exists()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "mail:\n  to: a\nmail:\n  to: b\n",
            ":3: mail: given before, in line 1; put these lines below that one",
        ),
        ("mail: &m {to: a}\nx: *m\n", ":2: expected no alias, got '*' and a name; write it out"),
        ("mail: [\n", ":2: not YAML: "),
    ],
)
def test_a_file_that_cannot_be_edited_is_named_with_the_line_that_is_the_reason(
    path: Path, capsys: pytest.CaptureFixture[str], text: str, reason: str
) -> None:
    """It is neither guessed nor damaged; the administrator learns where to look."""
    path.write_text(text)
    assert run_setup(path, "--mail-to", "x@b.example", "--mail-server", "127.0.0.1") == 78
    told = capsys.readouterr().err
    assert told.startswith(f"'{path}': expected ")
    assert f"; nothing was changed\n'{path}'{reason}" in told
    assert path.read_text() == text


def test_a_directory_that_does_not_exist_is_advised(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only the last directory of a path is created: two missing ones are a mistyped path."""
    there = path.parent / "no" / "such" / "iowarden.yaml"
    options = ("--mail-to", "x@b.example", "--mail-server", "127.0.0.1", "--no-test-mail")
    assert run_setup(there, *options) == 78
    assert f"create the directory: 'mkdir -p {there.parent}'" in capsys.readouterr().err


def test_a_receiver_other_than_mail_is_set_up_and_tested(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without mail as well; twice the same file; the others and their settings stay."""
    path.write_text(
        "notify:\n- {name: am, type: alertmanager, url: 'http://127.0.0.1:1'} # later\n"
        "- {name: webhook, type: webhook, url_file: /old, severities: [critical]}\n"
    )
    with server() as ops:
        options = ("--notify", "webhook", "--notify-url", f"http://127.0.0.1:{ops.port}/x")
        assert run_setup(path, *options) == 1  # nobody listens at 'am'
        told = capsys.readouterr()
        assert f"receiver 'webhook': http://127.0.0.1:{ops.port} accepted it: 200 OK" in told.out
        assert "receiver 'am': http://127.0.0.1:1: connect: expected a connection" in told.out
        assert "from 127.0.0.1; correct the URL, or start the service there" in told.out
        assert "not accepted: am, which this run does not change" in told.err
        assert "test it by 'iowarden test-notify'" in told.err
        assert json.loads(ops.next().body)["summary"] == "this is a test; nothing is wrong"
        first = path.read_bytes()
        assert b"# later" in first
        run_setup(path, *options, "--no-test-mail")
        assert path.read_bytes() == first
        assert ops.requests.empty()
    assert yaml.safe_load(first)["notify"][1] == {
        "name": "webhook",
        "type": "webhook",
        "severities": ["critical"],
        "url": f"http://127.0.0.1:{ops.port}/x",
    }


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--notify-url", "https://x/"), "--notify: expected the type of the receiver"),
        (("--notify", "slack", "--notify-url", "https://x/y"), "its path is a secret"),
        (("--notify", "ntfy"), "expected 'url' or 'url_file', got none"),
    ],
)
def test_a_receiver_that_is_not_valid_changes_nothing(
    path: Path, capsys: pytest.CaptureFixture[str], options: Sequence[str], problem: str
) -> None:
    """As with mail."""
    assert run_setup(path, *options) == 78
    assert problem in capsys.readouterr().err
    assert not path.exists()


@pytest.fixture
def talk(tmp_path: Path) -> dialogue.Dialogue:
    """A dialogue at a machine whose own mail server answers."""
    return dialogue.Dialogue({}, "220 db1", str(tmp_path / "password"))


def typed(monkeypatch: pytest.MonkeyPatch, lines: Sequence[str], secrets: Sequence[str]) -> None:
    """Let a user type lines, and what is not shown."""
    shown, hidden = iter(lines), iter(secrets)
    monkeypatch.setattr("builtins.input", lambda _: next(shown))
    monkeypatch.setattr("getpass.getpass", lambda _: next(hidden))


def test_a_typed_url_that_is_a_secret_goes_to_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, talk: dialogue.Dialogue
) -> None:
    """The configuration is in backups and bug reports."""
    lines = ["localhost", "root", "no", "phone", "ntfy", "ntfy.sh/x", "https://ntfy.sh/x"]
    typed(monkeypatch, lines, ["t0ken-t0ken"])
    talk.hold()
    token = str(tmp_path / "ntfy.token")
    assert talk.given.notify == {
        "name": "ntfy",
        "type": "ntfy",
        "url": "https://ntfy.sh/x",
        "token_file": token,
    }
    assert talk.secrets == {token: "t0ken-t0ken"}
    typed(monkeypatch, ["slack"], ["https://hooks.example.com/services/T0/B0"])
    talk.correct(Topic.RECEIVER)
    place = str(tmp_path / "slack.url")
    assert talk.given.notify == {"name": "slack", "type": "slack", "url_file": place}
    assert talk.secrets == {place: "https://hooks.example.com/services/T0/B0"}


def test_a_refused_receiver_is_prompted_for_with_what_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, talk: dialogue.Dialogue
) -> None:
    """Enter retains it: only the token was wrong."""
    typed(monkeypatch, ["localhost", "root", "no", "ntfy", "https://ntfy.sh/x"], ["wrong-token"])
    talk.hold()
    entry = talk.given.notify
    typed(monkeypatch, ["", ""], ["right-token"])
    talk.correct(Topic.RECEIVER)
    assert talk.given.notify == entry
    assert talk.secrets == {str(tmp_path / "ntfy.token"): "right-token"}


def test_a_refused_log_in_is_prompted_for_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, talk: dialogue.Dialogue
) -> None:
    """Server, recipients and encryption stay; the password is not typed twice for a new name."""
    password = str(tmp_path / "password")
    lines = ["mx.example:465", "a@b.example", "tls", "ann", "no", "-"]
    typed(monkeypatch, lines, ["a-password"])
    talk.hold()
    typed(monkeypatch, [""], ["abc", "another-one"])
    talk.correct(Topic.LOGIN)
    assert talk.secrets == {password: "another-one"}
    typed(monkeypatch, ["mail.example:587"], [])  # what was typed for it stays
    talk.correct(Topic.SERVER)
    typed(monkeypatch, ["storage@b.example"], [])
    talk.correct(Topic.SENDER)
    typed(monkeypatch, [""], [""])
    talk.correct(Topic.LOGIN)
    assert talk.given == SetupAnswers(
        mail_to=("a@b.example",),
        mail_from="storage@b.example",
        mail_server="mail.example",
        mail_port=587,
        mail_tls="tls",
        mail_user="ann",
        mail_password_file=password,
    )
    typed(monkeypatch, ["-"], [])
    talk.correct(Topic.LOGIN)
    assert (talk.given.mail_user, talk.given.mail_password_file, talk.secrets) == ("", None, {})


def test_the_configured_account_is_not_sent_to_a_corrected_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It belongs to the server of the file: for another one the password is typed."""
    present = {
        "mail": {"server": "old.example", "to": "root", "user": "ann", "password_file": "/p"},
        "self_tests": [{}],
    }
    talk = dialogue.Dialogue(present, "", str(tmp_path / "password"))
    typed(monkeypatch, ["", "", "", "", ""], [""])
    talk.hold()
    typed(monkeypatch, ["new.example", "", ""], ["", "for-the-new-one"])
    talk.correct(Topic.SERVER)
    assert (talk.given.mail_server, talk.given.mail_user) == ("new.example", "ann")
    assert talk.secrets == {str(tmp_path / "password"): "for-the-new-one"}


def test_no_server_at_all_is_said(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a local mail server a relay is needed: a guess would lose all mail."""
    monkeypatch.setattr(local_mail.greeting, "__defaults__", (free_port(),))
    assert run_setup(path, "--mail-to", "root") == 78
    assert "--mail-server: expected it or a mail server at localhost:25" in capsys.readouterr().err
    assert not path.exists()


def test_a_local_mail_server_is_found_by_its_greeting() -> None:
    """A port that is closed, and one where nobody is ready for mail, is none."""
    with smtp_server() as (port, _):
        assert local_mail.greeting(port).startswith("220 ")
    assert local_mail.greeting(free_port()) == ""


def test_the_account_of_the_former_server_is_not_sent_to_the_new_one(path: Path) -> None:
    """User and password belong to one server; they are commented out, not deleted."""
    path.write_text(
        "mail:\n  server: old.example\n  port: 465\n  tls: tls\n  to: a@b.example\n"
        "  user: me\n  password_file: /etc/iowarden/password # 2024\n"
    )
    with smtp_server() as (port, answers):
        assert run_setup(path, "--mail-server", f"127.0.0.1:{port}") == 0
        answers.next()
    assert path.read_text() == (
        f"mail:\n  server: 127.0.0.1\n  port: {port}\n  #tls: tls\n  to: a@b.example\n"
        "  #user: me\n  #password_file: /etc/iowarden/password # 2024\n"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_the_password_is_read_as_the_service_reads_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Root can read the password, the service cannot: the test mail fails now, not at 3 a.m."""
    monkeypatch.setattr(service_user, "SERVICE_USER", "nobody")
    with (
        tempfile.TemporaryDirectory() as directory,  # pytest's own is closed to others
        smtp_server(password="s3cret") as (port, answers),
    ):
        os.chmod(directory, 0o755)
        secret = Path(directory, "password")
        secret.write_text("s3cret\n")
        secret.chmod(0o600)
        options = [
            *("--mail-to", "a@b.example", "--mail-server", f"127.0.0.1:{port}"),
            *("--mail-user", "iowarden", "--mail-password-file", str(secret)),
        ]
        assert run_setup(Path(directory, "iowarden.yaml"), *options) == 1
        told = capfd.readouterr().err
        assert f'password_file = "{secret}": expected a readable file' in told
        assert f"try as root: chgrp iowarden {secret} && chmod 0640 {secret}" in told
        assert "/dev/null" not in told  # 'install' would replace the password by nothing
        os.chown(secret, pwd.getpwnam("nobody").pw_uid, -1)
        assert run_setup(Path(directory, "iowarden.yaml"), *options) == 0
        told = capfd.readouterr().out
        assert "sending a test mail as user 'nobody' to a@b.example:" in told
        assert "logged in as 'iowarden'" in told
        answers.next()


PROGRAM = """
import sys
from iowarden.daemon.cli import command, main
from iowarden.daemon.notify import smtp
from iowarden.daemon.setup import config_file, local_mail, service_user
config_file.GROUP, service_user.SERVICE_USER = sys.argv[1], "nobody-yet"
local_mail.greeting.__defaults__ = (int(sys.argv[2]),)
sys.exit(main.main(sys.argv[3:]))
"""


class Terminal:
    """The command on a terminal of its own; the test types."""

    def __init__(self, path: Path, local_port: int) -> None:
        """Start it."""
        self._child, self._terminal = pty.fork()
        if self._child == 0:
            words = [GROUP, str(local_port), "setup", "--config", str(path), "--no-check"]
            os.execv(sys.executable, [sys.executable, "-c", PROGRAM, *words])
        self.seen = ""
        self._waited_to = 0

    def wait(self, text: str) -> None:
        """Wait for a text after the one that was waited for before, often in one chunk with it."""
        while text not in self.seen[self._waited_to :]:
            assert self._read(), f"ended before {text!r}: {self.seen}"
        self._waited_to = self.seen.index(text, self._waited_to) + len(text)

    def type(self, prompt: str, line: str) -> None:
        """Wait for a prompt, then type a line."""
        self.wait(prompt)
        os.write(self._terminal, f"{line}\n".encode())

    def end(self) -> int:
        """Return the exit status."""
        while self._read():
            pass
        return os.waitstatus_to_exitcode(os.waitpid(self._child, 0)[1])

    def _read(self) -> bool:
        assert select.select([self._terminal], [], [], DEADLINE_SECONDS)[0], self.seen
        try:
            chunk = os.read(self._terminal, 4096)
        except OSError:  # EIO: the other end is closed
            chunk = b""
        self.seen += chunk.decode()
        return bool(chunk)


@pytest.mark.system
def test_a_dialogue_on_a_terminal(path: Path) -> None:
    """A wrong answer is prompted for again; Enter alone changes no byte; Ctrl-C as well."""
    with smtp_server() as (port, answers):
        terminal = Terminal(path, port)
        terminal.type("Mail server, or server:port [localhost]: ", f"localhost:{port}")
        terminal.type("Recipients, separated by commas [root]: ", "not an@")
        terminal.type("mail.to: expected mail addresses, got 'an@'", "root@db1.example")
        terminal.type("yes or no [yes]: ", "")
        terminal.type("or '-' for no other [-]: ", "")
        assert terminal.end() == 0, terminal.seen
        assert answers.next().recipients == ("root@db1.example",)
        first = path.read_bytes()
        assert b"self_tests: [{disks: '*', short: 'Wed 02:00', long: 'Sat 03:00'}]" in first
        again = Terminal(path, port)
        again.type(f"[localhost:{port}]: ", "")
        again.type("[root@db1.example]: ", "")
        again.type("or '-' for no other [-]: ", "")
        assert again.end() == 0, again.seen
        assert path.read_bytes() == first
        ended = Terminal(path, port)
        ended.type("Mail server", "\x03")
        assert ended.end() == 130
        assert "cancelled; nothing was changed" in ended.seen
    assert path.read_bytes() == first


@pytest.mark.system
def test_a_refused_answer_is_prompted_for_again_and_the_others_stay(path: Path) -> None:
    """First the server, then a recipient; nothing is written before all is accepted."""
    refusals = {"b@x.example": "550 5.1.1 no such user"}
    with smtp_server(Answers(recipients=refusals)) as (port, answers):
        terminal = Terminal(path, free_port())
        terminal.type("Mail server, or server:port: ", f"127.0.0.1:{free_port()}")
        terminal.type("Recipients, separated by commas [root]: ", "a@x.example b@x.example")
        terminal.type("yes or no [yes]: ", "")
        terminal.type("or '-' for no other [-]: ", "")
        terminal.type("correct, save or end [correct]: ", "")
        terminal.type("Mail server, or server:port [127.0.0.1:", f"127.0.0.1:{port}")
        terminal.wait("correct 'mail.to', or create the mailbox")
        terminal.type("correct, save or end [correct]: ", "")
        assert not path.exists()
        terminal.type("[a@x.example, b@x.example]: ", "a@x.example")
        assert terminal.end() == 0, terminal.seen
        assert [answers.next().recipients for _ in range(2)] == [("a@x.example",)] * 2
        given_up = Terminal(path, free_port())
        given_up.type("Mail server", "")
        given_up.type("Recipients", "b@x.example")
        given_up.type("or '-' for no other [-]: ", "")
        given_up.type("correct, save or end [correct]: ", "end")
        assert given_up.end() == 1
        assert "nothing was changed in" in given_up.seen
    written = yaml.safe_load(path.read_text())
    assert written["mail"] == {"server": "127.0.0.1", "port": port, "to": "a@x.example"}
    assert "self_tests" in written


@pytest.mark.system
def test_a_file_that_the_service_refuses_is_named_before_the_first_question(path: Path) -> None:
    """Answers given in vain are the last thing that its reader needs."""
    for text, problem in (
        ("mial: {to: a@b.example}\n", ":1: mial: unknown key; did you mean 'mail'?"),
        ("mail: {sever: mx.example}\n", ":1: mail.sever: unknown key; did you mean 'mail.server'?"),
        ("self_tests: [{disk: '*'}]\n", ":1: self_tests, group 1: disk: expected one of disks"),
    ):
        path.write_text(text)
        terminal = Terminal(path, free_port())
        assert terminal.end() == 78
        assert problem in terminal.seen
        assert "Mail server" not in terminal.seen
    path.write_text("mail: {server: mx.example}\n")  # without recipients, which are prompted for
    terminal = Terminal(path, free_port())
    terminal.type("Mail server, or server:port [mx.example]: ", "\x03")
    assert terminal.end() == 130


@pytest.mark.system
def test_a_typed_password_is_not_shown_and_not_readable_for_others(path: Path) -> None:
    """It goes to a file next to the configuration; nothing is written before the user agrees."""
    managed = path.parent / "managed"
    managed.mkdir()
    (managed / "iowarden.yaml").write_text("# in a repository, without secrets\n")
    path.symlink_to(managed / "iowarden.yaml")
    terminal = Terminal(path, free_port())
    terminal.type("Mail server, or server:port: ", "relay.invalid")
    terminal.type("Recipients, separated by commas: ", "a@b.example, c@d.example")
    terminal.type("none [auto]: ", "")
    terminal.type("('-' for no log-in) [-]: ", "me")
    terminal.type("Password (not shown): ", "s3cret")
    terminal.type("yes or no [yes]: ", "n")
    terminal.type("or '-' for no other [-]: ", "ping")
    terminal.type("URL (not shown): ", "http://127.0.0.1:1/p1ng")
    terminal.wait("correct, save or end [correct]: ")  # neither exists
    assert "not accepted: mail, ping" in terminal.seen
    assert "name resolution: see 'getent ahosts relay.invalid'" in terminal.seen
    assert {each.name for each in path.parent.iterdir()} == {managed.name, path.name}
    terminal.type("", "save")
    assert terminal.end() == 1, terminal.seen
    assert "s3cret" not in terminal.seen
    assert "p1ng" not in terminal.seen
    assert [each.name for each in managed.iterdir()] == ["iowarden.yaml"]
    password = path.with_name("password")
    assert (password.read_text(), password.stat().st_mode & 0o777) == ("s3cret\n", 0o640)
    assert yaml.safe_load(path.read_text()) == {
        "mail": {
            "server": "relay.invalid",
            "user": "me",
            "password_file": str(password),
            "to": ["a@b.example", "c@d.example"],
        },
        "notify": [{"name": "ping", "type": "ping", "url_file": str(path.with_name("ping.url"))}],
    }
