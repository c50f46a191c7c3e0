"""Receivers in the configuration: what is wrong is named, no secret is in the file or a text."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from iowarden.daemon.check import findings
from iowarden.daemon.check.report import Level
from iowarden.daemon.config.load import load_config, with_receiver_secrets
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.receivers import ReceiverType
from iowarden.daemon.config.schema import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "hunter2-hunter2"


def refused(entry: str) -> str:
    """Return what is wrong with a file that has this receiver."""
    with pytest.raises(ConfigError) as caught:
        parse_config(f"notify:\n  - {{{entry}}}\n", "iowarden.yaml")
    return str(caught.value)


def test_each_type_of_receiver_is_read() -> None:
    """With the defaults of what is not given."""
    config = parse_config(
        """
notify:
  - {name: hook, type: webhook, url: 'https://hooks.example.com:8443/iowarden', proxy: 'http://p:3128'}
  - {name: phone, type: ntfy, url: 'https://ntfy.example.com/storage', severities: [critical]}
  - {name: chat, type: slack, url_file: /etc/iowarden/chat.url, severities: critical}
  - name: am
    type: alertmanager
    url: ['http://am1:9093', 'http://am2:9093/prefix/']
    labels: {team: storage, site: fra1}
  - {name: dead-man, type: ping, url_file: /etc/iowarden/ping.url, period: 5m}
""",
        "iowarden.yaml",
    )
    hook, phone, chat, am, ping = config.notify
    assert hook.type is ReceiverType.WEBHOOK
    assert hook.severities == ("critical", "warning")
    assert hook.urls[0].authority == "hooks.example.com:8443"
    assert hook.proxy is not None
    assert hook.proxy.port == 3128
    assert phone.severities == chat.severities == ("critical",)
    assert [url.origin for url in am.urls] == ["http://am1:9093", "http://am2:9093"]
    assert am.labels == (("site", "fra1"), ("team", "storage"))
    assert ping.period_seconds == 300.0
    assert [each.notifies for each in config.notify] == [True, True, True, True, False]
    assert config.mail.enabled


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("name: a", "type: expected one of webhook, ntfy, slack, alertmanager, ping"),
        ("type: webhook, url: 'http://x/'", "name: expected a name of up to 32"),
        ("name: mail, type: webhook, url: 'http://x/'", "not 'mail'"),
        ("name: a, type: webhook", "url: expected 'url' or 'url_file', got none"),
        ("name: a, type: webhook, url: 'http://x/', url_file: /u", "got both; remove one"),
        ("name: a, type: webhook, url: 'ftp://x/'", "begins 'https://' or 'http://'"),
        ("name: a, type: webhook, url: 'http://x/ y'", "write other characters as %XX"),
        ("name: a, type: webhook, url: 'http://x:99999/'", "url: expected a URL"),
        ("name: a, type: webhook, url: ['http://x/', 'http://y/']", "write a receiver for each"),
        ("name: a, type: webhook, url: 'http://x/', period: 1m", "a receiver of type webhook has"),
        ("name: a, type: ntfy, url: 'https://ntfy.sh'", "expected the server and the topic"),
        ("name: a, type: slack, url: 'https://hooks/x'", "its path is a secret"),
        ("name: a, type: ping, url: 'http://x/', period: 1s", "period: expected a duration"),
        (
            "name: a, type: alertmanager, url: 'http://x', labels: {bad-name: x}",
            "got 'bad-name': Alertmanager before 0.27 refuses others",
        ),
        ("name: a, type: alertmanager, url: 'http://x', labels: {severity: x}", "is set by"),
        ("name: a, type: alertmanager, url: 'http://x', labels: {a: ''}", "a: expected printable"),
        ("name: a, type: alertmanager, url: 'http://x', severities: [info]", "critical, warning;"),
        ("name: a, type: alertmanager, url: 'https://x', user: u", "a log-in needs both"),
        ("name: a, type: webhook, url: 'http://x/', severities: [bad]", "severities: expected a"),
        ("name: a, type: webhook, url: 'http://x/', severities: []", "severities: expected a list"),
        ("name: a, type: webhok, url: 'http://x/'", "ping; did you mean 'webhook'?"),
        (
            "name: a, type: webhook, url: 'http://x/', severities: [info, critcal]",
            "info; did you mean 'critical'?",
        ),
        (
            "name: a, type: webhook, url: 'http://x/', severity: critical",
            "token_file; did you mean 'severities'?",
        ),
        ("name: a, type: webhook, url: 'http://x/', proxy: 'p:3128'", "proxy: http://proxy:3128"),
        ("name: a, type: webhook, url: 'http://x:0/'", "with a port from 1 to 65535"),
        ("name: a, type: alertmanager, url: 'http://x/api/v2/alerts'", "without '/api/...'"),
        ("name: a, type: webhook, url: 'http://x/', token_file: rel", "expected an absolute path"),
        (
            "name: a, type: webhook, url: 'http://x/', token_file: /t",
            "no password or token is sent unencrypted",
        ),
    ],
)
def test_what_is_wrong_with_a_receiver_is_named_with_its_line(entry: str, problem: str) -> None:
    """And with what was expected."""
    said = refused(entry)
    assert problem in said
    assert said.startswith("'iowarden.yaml':2: notify, receiver 1: ")


@pytest.mark.parametrize(
    "entry",
    [
        f"name: a, type: webhook, url: 'https://x/', secret: {SECRET}",
        f"name: a, type: webhook, url: 'https://x/', token: {SECRET}",
        f"name: a, type: webhook, url: 'https://x/', headers: {{Authorization: {SECRET}}}",
        f"name: a, type: webhook, url: 'https://user:{SECRET}@x/'",
        f"name: a, type: webhook, url: 'https://x/?token={SECRET}'",
        "name: a, type: ping, url: 'https://x/a7hunter2Kq9zP'",
        f"name: a, type: slack, url: 'https://x/services/{SECRET}'",
        f"name: a, type: webhook, url: 'https://x/#{SECRET}'",
        f"name: a, type: {SECRET}, url: 'https://x/'",
    ],
)
def test_a_secret_in_the_file_is_refused_and_not_repeated(entry: str) -> None:
    """The file is read by others, and the error is in the journal."""
    assert "hunter2" not in refused(entry)


def test_what_is_no_list_of_receivers_is_refused_with_the_number_that_there_may_be() -> None:
    """Each receiver has a thread, so there may be fewer than items of other lists."""
    with pytest.raises(ConfigError, match="notify: expected a list of up to 16 receivers, got a"):
        parse_config("notify: {name: a, type: ping}\n", "iowarden.yaml")


@pytest.mark.parametrize(
    ("name", "advice", "never"),
    [
        ("none", "install -m 0640 -g iowarden /dev/null ", "chgrp"),
        ("private/secret", "chgrp iowarden ", "/dev/null"),
        ("private", "name a readable text file", "/dev/null"),
    ],
)
def test_no_advice_replaces_a_secret_that_is_only_not_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, advice: str, never: str
) -> None:
    """'install /dev/null FILE' would empty it."""
    private = tmp_path / "private"
    private.mkdir()
    (private / "secret").write_text(SECRET)
    entry = f"name: a, type: webhook, url: 'https://x/', secret_file: {tmp_path}/{name}"
    config = parse_config(f"notify:\n  - {{{entry}}}\n", "iowarden.yaml")
    real = os.open

    def as_another_user(path: str, flags: int, *rest: int) -> int:
        if path.endswith("/secret"):  # root may read every file
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return real(path, flags, *rest)

    monkeypatch.setattr(os, "open", as_another_user)
    with pytest.raises(ConfigError) as caught:
        with_receiver_secrets(config, "iowarden.yaml")
    assert advice in str(caught.value)
    assert never not in str(caught.value)


def test_two_receivers_of_one_name_are_refused() -> None:
    """Their metrics and their outboxes could not be told apart."""
    with pytest.raises(ConfigError, match="name: receiver 1 has the same"):
        parse_config(
            "notify:\n" + "  - {name: a, type: webhook, url: 'http://x/'}\n" * 2, "iowarden.yaml"
        )


def written(folder: Path, entry: str, files: dict[str, str], mode: int = 0o640) -> str:
    """Write a configuration with a receiver and its files; return its path."""
    for name, text in files.items():
        (folder / name).write_text(text)
        (folder / name).chmod(mode)
    path = folder / "iowarden.yaml"
    path.write_text(f"notify:\n  - {{{entry.replace('DIR', str(folder))}}}\n")
    return str(path)


def test_secrets_are_the_first_lines_of_files_and_in_no_text_of_the_configuration(
    tmp_path: Path,
) -> None:
    """Not even where a developer prints it."""
    entry = "name: a, type: webhook, url_file: DIR/url, secret_file: DIR/s, token_file: DIR/t"
    files = {"url": f"https://x.example.com/{SECRET}\n", "s": f"{SECRET}1\n", "t": f"{SECRET}2\n"}
    config = load_config(written(tmp_path, entry, files))
    (receiver,) = config.notify
    assert receiver.urls[0].path == f"/{SECRET}"
    assert (receiver.secret, receiver.token) == (f"{SECRET}1", f"{SECRET}2")
    assert "hunter2" not in repr(config)


@pytest.mark.parametrize(
    ("content", "mode", "problem"),
    [
        (SECRET, 0o644, "expected a file that others cannot read"),
        ("", 0o640, "expected it in the first line, got nothing"),
        (f"https://user:{SECRET}@x/", 0o640, "url_file: in its first line: expected a URL without"),
        (f"{SECRET}\x1b", 0o640, "expected printable ASCII"),
    ],
)
def test_a_file_that_is_not_as_expected_is_named_without_its_content(
    tmp_path: Path, content: str, mode: int, problem: str
) -> None:
    """Readable for others, empty, or something else."""
    path = written(tmp_path, "name: a, type: webhook, url_file: DIR/url", {"url": content}, mode)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert problem in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """With a command that makes one as it should be."""
    path = written(tmp_path, "name: a, type: slack, url_file: DIR/none", {})
    with pytest.raises(ConfigError, match="install -m 0640 -g iowarden"):
        load_config(path)


@pytest.mark.parametrize(
    ("settings", "level"),
    [
        ("mail: {enabled: false}", Level.WARNING),
        (
            "mail: {enabled: false}\nnotify: [{name: a, type: ping, url: 'http://x/'}]",
            Level.WARNING,
        ),
        (
            "mail: {enabled: false}\nnotify: [{name: a, type: webhook, url: 'http://x/'}]",
            Level.INFO,
        ),
        ("notify: [{name: a, type: webhook, url: 'http://x/'}]", Level.INFO),
        ("mail: {server: mx1, to: a@x}", Level.INFO),
        ("", Level.WARNING),
    ],
)
def test_a_check_warns_when_alerts_reach_no_person(settings: str, level: Level) -> None:
    """Exit status 1; a ping reports only that iowarden runs."""
    found = list(findings.of_mail(parse_config(settings, "iowarden.yaml")))
    worst = min((each.level for each in found), key=list(Level).index)
    assert worst is level
