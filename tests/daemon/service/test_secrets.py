"""Ten secrets, servers that repeat them in every spelling, and each place where a text arrives."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import itertools
import socket
import tarfile
import threading
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest
from support.echoing import Echo, mail_server, receiver
from support.program import Feed, Played, recorded, run, then_idle
from support.spellings import reveals

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGE_LOGIN = "scraper:secret"
SECRETS = {
    "mail": "s3nd w1th+th/is~0ne",
    "fallback": 'f4llb4ck="An0ther"&one',
    "signing": "s1gning-secret-of-ops",
    "token": "t0ken-t0ken-t0ken-9",
    "hook": "h1dden-path-of-the-hook",
    "topic": "quokka-wombat-topic",
    "am": "al3rtm4nager\\b4sic%41",
    "ping": "5f1c77aa-uuid-p1ng-0001",
    "slack": "xoxz9Y8w7V6u5T4s3R2q1P0o",
    "page": "$2b$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW",
}
MIN_PLACES = 56
DOCUMENTS = (
    *("status", "events", "incident list", "monitoring", "mail list", "advise", "silence list"),
    *("metrics", "disk list", "unparsed list", "scan list", "selftest list", "query up"),
)


@dataclasses.dataclass
class Host:
    """The program with its receivers, and all that was said anywhere."""

    program: Played
    feed: Feed
    echo: Echo
    journal: list[bytes]
    directory: Path


@contextlib.contextmanager
def journal(path: Path) -> Iterator[list[bytes]]:
    """Receive what is sent to the journal."""
    entries: list[bytes] = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.bind(str(path))

        def receive() -> None:
            while (entry := bound.recv(1 << 20)) != b"end":
                entries.append(entry)

        thread = threading.Thread(target=receive)
        thread.start()
        try:
            yield entries
        finally:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.sendto(b"end", str(path))
            thread.join()


@pytest.fixture(name="host", params=[404, 200], ids=["refusing", "accepting"])
def _host(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Host]:
    """A write stall, two mail servers, five receivers; each reply repeats all secrets."""
    echo = Echo(text for name, text in SECRETS.items() if name != "page")  # which nobody is sent
    refusals = [{"AUTH": 535}, {"RCPT": 550}, {".": 554}, {"MAIL": 0}, {"MAIL": 452}]
    replies = refusals if request.param == 404 else [{}]
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(mail_server(echo, replies))
        second = stack.enter_context(mail_server(echo, replies[::-1]))
        http = stack.enter_context(receiver(echo, [request.param, 503, 401]))
        place = f"http://localhost:{http}"
        files = {
            **{name: SECRETS[name] for name in ("mail", "fallback", "signing", "token", "am")},
            "hook": f"{place}/in/{SECRETS['hook']}",
            "topic": f"{place}/{SECRETS['topic']}",
            "ping": f"{place}/{SECRETS['ping']}/0",
            "slack": f"{place}/services/T012/B34/{SECRETS['slack']}",
            "web": f"basic_auth_users: {{scraper: '{SECRETS['page']}'}}\n",
        }
        for name, text in files.items():
            (tmp_path / name).write_text(text)
            (tmp_path / name).chmod(0o640)
        feed = Feed(then_idle(recorded("write-stall"), 700.0, 4.0), tmp_path / "feed")
        program = Played(
            tmp_path, feed, settings=_settings(tmp_path, place, second), smtp_port=first
        )
        text = program.config.read_text()
        login = f"user: relay, password_file: {tmp_path}/mail, "
        program.config.write_text(text.replace("mail: {server", f"mail: {{{login}server"))
        program.http = True
        program.journal_socket = str(tmp_path / "journal")
        entries = stack.enter_context(journal(tmp_path / "journal"))
        stack.callback(program.close)
        program.start()
        yield Host(program, feed, echo, entries, tmp_path)


def _settings(files: Path, place: str, second_port: int) -> str:
    return f"""
log_level: debug
http: {{page: full}}
web_config: {files}/web
mail_fallback: {{server: 127.0.0.1, port: {second_port}, user: u, password_file: {files}/fallback}}
notify:
  - name: ops
    type: webhook
    url_file: {files}/hook
    secret_file: {files}/signing
    token_file: {files}/token
  - {{name: phone, type: ntfy, url_file: {files}/topic, token_file: {files}/token}}
  - {{name: chat, type: slack, url_file: {files}/slack}}
  - {{name: alive, type: ping, url_file: {files}/ping, period: 10s}}
  - {{name: am, type: alertmanager, url: '{place}', user: us, password_file: {files}/am}}
"""


def fetched(program: Played, path: str) -> str:
    """Return a page, which the loop makes."""
    pages: list[str] = []
    thread = threading.Thread(target=lambda: pages.append(page(program.port, path)))
    thread.start()
    program.until(lambda: not thread.is_alive(), path)
    thread.join()
    return pages[0]


def page(port: int, path: str) -> str:
    """Return the answer of a request."""
    token = base64.b64encode(PAGE_LOGIN.encode()).decode()
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", headers={"Authorization": f"Basic {token}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return f"{answer.status} {answer.headers}\n{answer.read().decode()}"
    except urllib.error.HTTPError as error:  # '/-/ready' of a recording
        return f"{error.code} {error.headers}\n{error.read().decode()}"


def output(*words: str) -> str:
    """Return all that a command prints."""
    result = run(*words)
    return result.stdout + result.stderr


def places(host: Host) -> dict[str, str]:
    """Return by name what is in each place that a text from a server can get to."""
    program, directory = host.program, host.directory
    found: dict[str, str] = {}
    for words in DOCUMENTS:
        for form in (words, f"{words} --json"):
            result = program.command(*form.split())
            found[f"iowarden {form}"] = result.stdout + result.stderr
    mails = [line.split()[0] for line in found["iowarden mail list"].splitlines()[1:] if line]
    for number, name in enumerate(mails[:8]):
        found[f"iowarden mail show, {number}"] = program.command("mail", "show", name).stdout
    for path in ("/", "/metrics", "/-/healthy", "/-/ready"):
        found[f"page {path}"] = fetched(program, path)
    program.end()
    found["standard error"] = program.text()
    found["journal"] = b"\n".join(host.journal).decode("latin-1")
    config = ("--config", str(program.config))
    for word, turn in itertools.product(("test-mail", "test-notify"), range(8)):
        found[f"iowarden {word}, {turn}"] = output(word, *config)
    found["iowarden check"] = output("check", *config)
    found["iowarden config check"] = output("config", "check", str(program.config))
    bundle = directory / "report.tar.xz"
    found["iowarden report"] = output(
        *("report", str(bundle), *config, "--recording", host.feed.packed())
    )
    with tarfile.open(bundle) as archive:
        for member in archive.getmembers():
            content = archive.extractfile(member)
            if content is not None and member.name.count("/") == 1:
                found[f"report {member.name}"] = content.read().decode("latin-1")
    for file in sorted((directory / "state").rglob("*")):
        if file.is_file():
            found[f"state {file.name}"] = file.read_bytes().decode("latin-1")
    return found


@pytest.mark.system
def test_no_secret_in_any_spelling_gets_to_any_place(host: Host) -> None:
    """However a server repeats it: to the journal, a file, an answer, a page or a metric."""
    host.feed.give()
    host.program.caught_up()
    host.program.until(lambda: host.echo.replies >= 20, "replies")
    host.program.caught_up()
    found = places(host)
    assert "<secret>" in found["journal"]
    assert "<secret>" in found["standard error"]
    assert found["page /"].startswith("200 ")
    assert found["page /metrics"].startswith("200 ")
    assert {"iowarden mail list", "iowarden report", "state state.db"} <= found.keys()
    print("PLACES", len(found))
    assert len(found) >= MIN_PLACES
    leaks = [
        (name, secret)
        for name, text in found.items()
        for secret in SECRETS
        if reveals(text, SECRETS[secret])
    ]
    assert not leaks, leaks
