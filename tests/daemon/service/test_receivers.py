"""The whole program with receivers other than mail, at real servers on loopback."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import sqlite3
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.http_receiver import Answer, Request, Server, server
from support.program import Feed, Played, recorded, run, then_idle
from support.recordings import FIXTURES
from support.smtp import free_port, smtp_server

from iowarden.daemon.cli import main
from iowarden.daemon.setup import service_user

if TYPE_CHECKING:
    from collections.abc import Iterator

QUIET_SECONDS = 700.0
"""A little more than ten minutes without the stall: then it is resolved."""
SECRETS = ("s1gning-secret", "t0ken-t0ken-t0ken", "hidden-path-of-the-hook", "p1ng-5f1c-uuid-77aa")


@pytest.fixture(name="stall")
def _stall(tmp_path: Path) -> Feed:
    """The write stall of our own test machine, and eleven quiet minutes after it."""
    return Feed(then_idle(recorded("write-stall"), QUIET_SECONDS, 4.0), tmp_path / "feed")


@pytest.fixture(name="answers")
def _answers() -> Iterator[Server]:
    with server() as running:
        yield running


@contextlib.contextmanager
def playing(
    tmp_path: Path, feed: Feed, settings: str, *, mail: bool = False, smtp_port: int | None = None
) -> Iterator[Played]:
    """Run the program with these receivers."""
    for name, secret in zip(("secret", "token", "url", "ping"), SECRETS, strict=True):
        (tmp_path / name).write_text(secret)
        (tmp_path / name).chmod(0o640)
    program = Played(tmp_path, feed, settings=settings, smtp_port=smtp_port)
    if not mail:
        text = program.config.read_text().replace("mail: {", "mail: {enabled: false, ")
        program.config.write_text(text)
    try:
        program.start()
        yield program
    finally:
        program.close()


def posted(program: Played, answers: Server) -> dict[str, Any]:
    """Return the next message that arrives."""
    program.until(answers.requests.qsize, "a message")
    found = json.loads(answers.next().body)
    assert isinstance(found, dict)
    return found


def logged(program: Played, feed: Feed, text: str) -> None:
    """Wait until something is logged, then for the metrics of the next second."""
    program.until(lambda: text in program.text(), text)
    feed.give(1)
    program.caught_up()


def test_a_write_stall_reaches_a_webhook_without_any_mail(
    tmp_path: Path, stall: Feed, answers: Server
) -> None:
    """Beginning and end of one incident; metrics and status name the receiver, none is mail."""
    hook = f"{{name: ops, type: webhook, url: 'http://localhost:{answers.port}/hook'}}"
    with playing(tmp_path, stall, f"notify: [{hook}]\n") as program:
        stall.give()
        first, last = posted(program, answers), posted(program, answers)
        program.caught_up()
        metrics = program.metrics()
        status = program.command("status", "--json")
    assert first["title"].startswith("[WARNING] db1.example.com: writes stalled")
    assert (first["status"], last["status"]) == ("firing", "resolved")
    assert (first["incident"], first["number"]) == (last["incident"], 1)
    assert first["advice"]
    assert metrics['iowarden_notifications_total{receiver="ops",result="delivered"}'] == 2.0
    assert metrics['iowarden_notifications_waiting{receiver="ops"}'] == 0.0
    assert not any('receiver="mail"' in name for name in metrics)
    (line,) = json.loads(status.stdout)["receivers"]
    assert line["receiver"] == f"ops (http://localhost:{answers.port})"
    assert not (tmp_path / "state" / "Maildir").exists()


def test_one_dead_receiver_delays_neither_another_nor_mail_and_gets_it_after_a_restart(
    tmp_path: Path, stall: Feed, answers: Server
) -> None:
    """Killed meanwhile: its messages are in state.db."""
    dead = free_port()
    entries = (
        f"notify:\n  - {{name: ops, type: webhook, url: 'http://localhost:{answers.port}/'}}\n"
        f"  - {{name: dead, type: webhook, url: 'http://localhost:{dead}/'}}\n"
    )
    with smtp_server() as (smtp_port, mails):
        with playing(tmp_path, stall, entries, mail=True, smtp_port=smtp_port) as program:
            stall.give(100)
            first = posted(program, answers)
            program.mail(mails)
            program.caught_up()
            logged(program, stall, f"receiver 'dead': http://localhost:{dead}: connect")
            metrics = program.metrics()
            assert metrics['iowarden_notifications_total{receiver="dead",result="failed"}'] >= 1.0
            assert metrics['iowarden_notifications_waiting{receiver="dead"}'] == 1.0
        with contextlib.closing(sqlite3.connect(tmp_path / "state" / "state.db")) as state:
            rows = state.execute("SELECT receiver, message_id FROM outbox").fetchall()
            assert rows == [("dead", f"dead:{first['id']}")]
        program.config.write_text(
            program.config.read_text().replace(f":{dead}/", f":{answers.port}/")
        )
        program.feed = stall.resumed(tmp_path / "feed2")
        with contextlib.closing(program):
            program.start()
            program.feed.give(20)
            assert posted(program, answers) == first


def test_no_secret_is_in_a_log_a_metric_an_answer_or_the_state(
    tmp_path: Path, stall: Feed, answers: Server
) -> None:
    """Servers that refuse and repeat everything they got; also with debug messages."""

    def echo(request: Request) -> Answer:
        return Answer(404, f"{request.path} {dict(request.headers)}".encode())

    answers.answer = echo
    place = f"http://localhost:{answers.port}"
    (tmp_path / "hook.url").write_text(f"{place}/{SECRETS[2]}")
    (tmp_path / "ping.url").write_text(f"{place}/{SECRETS[3]}")
    for name in ("hook.url", "ping.url"):
        (tmp_path / name).chmod(0o640)
    settings = f"""
log_level: debug
notify:
  - name: ops
    type: webhook
    url_file: {tmp_path}/hook.url
    secret_file: {tmp_path}/secret
    token_file: {tmp_path}/token
  - {{name: alive, type: ping, url_file: {tmp_path}/ping.url, period: 10s}}
  - {{name: am, type: alertmanager, url: '{place}', token_file: {tmp_path}/token}}
"""
    with playing(tmp_path, stall, settings) as program:
        stall.give(100)
        program.caught_up()
        for name in ("ops", "alive", "am"):
            logged(program, stall, f"receiver '{name}': {place}: expected 2")
        assert program.metrics()['iowarden_notifications_refused{receiver="ops"}'] == 1.0
        texts = [program.command(*words.split()).stdout for words in ("status", "status --json")]
        texts += [repr(program.metrics()), program.command("events").stdout]
    checked = run("config", "check", str(program.config))
    tested = run("test-notify", "--config", str(program.config))
    assert tested.returncode == 1
    texts += [program.text(), checked.stdout, checked.stderr, tested.stdout, tested.stderr]
    texts += [
        each.read_bytes().decode("latin-1")
        for each in (tmp_path / "state").rglob("*")
        if each.is_file()
    ]
    assert "404" in program.text()
    for secret in SECRETS:
        assert [text for text in texts if secret in text] == []


def test_a_reload_changes_receivers_and_keeps_what_waits_for_one_that_is_gone(
    tmp_path: Path, stall: Feed, answers: Server
) -> None:
    """A message refused by a wrong URL goes to the corrected one at once."""
    answers.answer = lambda request: Answer(404 if request.path == "/wrong" else 200)
    hook = f"{{name: ops, type: webhook, url: 'http://localhost:{answers.port}/wrong'}}"
    with playing(tmp_path, stall, f"notify: [{hook}]\n") as program:
        stall.give(100)
        first = posted(program, answers)
        program.caught_up()
        logged(program, stall, "expected 2xx, got '404")
        assert program.metrics()['iowarden_notifications_refused{receiver="ops"}'] == 1.0
        text = program.config.read_text()
        program.config.write_text(text.replace("/wrong", "/right"))
        program.hang_up()
        assert posted(program, answers) == first
        program.config.write_text(text.replace(f"notify: [{hook}]", ""))
        program.hang_up()
        program.until(lambda: program.text().count("configuration reloaded") == 2, "the reload")
        stall.give(2)
        program.caught_up()
        # That it was an alert for a while (NotificationRefused) remains.
        left = [name for name in program.metrics() if 'receiver="ops"' in name]
        assert [name for name in left if "iowarden_alert_recent_firings{" not in name] == []


def test_a_replay_shows_the_mails_and_sends_nothing(tmp_path: Path, answers: Server) -> None:
    """With the configuration of a host without mails."""
    path = tmp_path / "iowarden.yaml"
    path.write_text(
        "host: db1.example.com\nmail: {enabled: false}\n"
        f"notify: [{{name: ops, type: webhook, url: 'http://localhost:{answers.port}/'}}]\n"
    )
    recording = str(FIXTURES / "write-stall.tar.xz")
    result = run("replay", recording, "--config", str(path), "--json")
    (mail,) = json.loads(result.stdout)["mails"]
    assert mail["subject"].startswith("[WARNING] db1.example.com: writes stalled")
    assert answers.requests.empty()


def test_a_test_notification_reports_the_receivers_answer(tmp_path: Path, answers: Server) -> None:
    """Exit status 0 if every receiver accepted it; the name of one that is none is an error."""
    path = tmp_path / "iowarden.yaml"
    place = f"http://localhost:{answers.port}"
    path.write_text(
        f"host: db1\nmail: {{enabled: false}}\nnotify:\n"
        f"  - {{name: ops, type: webhook, url: '{place}/hook'}}\n"
        f"  - {{name: alive, type: ping, url: '{place}/alive'}}\n"
    )
    result = run("test-notify", "--config", str(path))
    assert result.returncode == 0
    assert f"receiver 'ops': {place} accepted it: 200 OK" in result.stdout
    assert f"receiver 'alive': {place} accepted a ping" in result.stdout
    document = json.loads(answers.next().body)
    assert document["summary"] == "this is a test; nothing is wrong"
    assert document["sentences"] == ["'iowarden test-notify' was run"]
    wrong = run("test-notify", "--config", str(path), "nightshift")
    assert wrong.returncode == 1
    assert "expected a receiver of 'notify', got 'nightshift';\nthere: ops, alive" in wrong.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_a_test_notification_is_sent_with_what_the_services_user_can_read(
    answers: Server, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A secret that only root can read works for root, and the service would not start with it."""
    monkeypatch.setattr(service_user, "SERVICE_USER", "nobody")
    with tempfile.TemporaryDirectory() as directory:  # pytest's own is closed to others
        os.chmod(directory, 0o755)
        secret, path = Path(directory) / "secret", Path(directory) / "iowarden.yaml"
        url = f"http://localhost:{answers.port}/hook"
        path.write_text(
            "mail: {server: m.example.com, to: a@b, user: u, password_file: /nonexistent}\n"
            f"notify: [{{name: ops, type: webhook, url: '{url}', secret_file: {secret}}}]\n"
        )
        secret.write_text("s3cret-s3cret\n")
        secret.chmod(0o600)
        assert main.main(["test-notify", "--config", str(path)]) == 78
        assert f"chgrp iowarden {secret}" in capfd.readouterr().err
        assert answers.requests.empty()
        os.chown(secret, pwd.getpwnam("nobody").pw_uid, -1)
        assert main.main(["test-notify", "--config", str(path)]) == 0
        assert "X-Iowarden-Signature" in answers.next().headers
