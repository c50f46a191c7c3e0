"""The status page of machines with faults: what a reader sees, and what none without a login."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html
import os
import re
import typing
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pytest
from support import drives
from support.golden import GOLDEN, uncounted
from support.pages import HOST, PlayedService, frozen, printed, rack
from support.recordings import fixture, recorded

from iowarden.daemon.control.control_socket import ControlCommand
from iowarden.daemon.control.documents import AlertLine, MailLine
from iowarden.daemon.control.page_documents import DrivePage, IncidentPage, IndexPage
from iowarden.daemon.control.roles import ACTIONS, QUERIES
from iowarden.daemon.page import drive, incident, index, script, style
from iowarden.daemon.page.builder import PageKind, PageReply, PageRequest
from iowarden.daemon.page.pages import MAX_KEY_CHARACTERS, StatusPages, target
from iowarden.daemon.storage import history_courses
from iowarden.daemon.storage.history_db import History
from iowarden.daemon.views import incident_answers
from iowarden.rules.alerting.alerts import Alert, AlertState
from iowarden.rules.notice import Evidence
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from pathlib import Path

    from support.golden import Golden

    from iowarden.collectors.recording.recording import RecordingStep
    from iowarden.daemon.http.http_server import App

LINES = (
    "EXT4-fs error (device sdb1): ext4_lookup:1855: inode #2: comm SECRETPROG: SECRETWORD: 99",
    "critical medium error, dev sdb, sector 12345 op 0x0:(READ) flags 0x0 phys_seg 1",
    "INFO: task SECRETPROG:1234 blocked for more than 120 seconds.",
    "megaraid_sas 0000:03:00.0: 1234 (1s/0x0020/CRIT) - SECRETEVENT",
)
SECRETS = (
    *("SECRETPROG", "SECRETWORD", "SECRETEVENT", "SECRETREASON", "SECRETUSER", "SECRETERROR"),
    *("inode #2", "sector 12345", "root@mail", "Maildir"),
)


BLOCKS = frozenset(
    "a br caption details div dt h1 h2 h3 header li p section summary svg tr".split()
)
"""Elements that begin a line of a page's text."""


class Outline(HTMLParser):
    """The elements of a page, and its text."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(page.decode())
        self.close()
        assert self._open == [], "each element is closed"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open an element."""
        self.tags.append((tag, dict(attrs)))
        self.text += "\n" * (tag in BLOCKS)
        if tag != "meta":
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take an element without content."""
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """Close the innermost element."""
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Take text."""
        if not {"style", "script"} & {*self._open}:
            self.text += data + " "


def text(page: bytes) -> str:
    """Return what a reader sees, with single blanks."""
    return " ".join(Outline(page).text.split())


def lines(page: bytes) -> str:
    """Return what a reader sees, line by line."""
    found = (" ".join(line.split()) for line in Outline(page).text.split("\n"))
    return "".join(f"{line}\n" for line in found if line)


def failing(name: str) -> str:
    """Return SMART data: the third disk has pending sectors and fails."""
    number = ord(name[-1])
    found = drives.ata(f"S-{name}", 40_000 * number)
    return found.replace('"passed":true', '"passed":false') if name == "sdc" else found


def commanded(service: PlayedService, name: str, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401 - as a client sends them
    """Have a user's command executed."""
    replies: list[dict[str, Any]] = []
    command = ControlCommand(name, arguments, "SECRETUSER (uid 1000)", replies.append)
    service.service._handle(command, service.clock.now())
    return replies[0]


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, PlayedService]:
    """A machine with file system, disk, task and controller in trouble, by who reads its page."""
    found = {}
    for full in (True, False):
        directory = tmp_path_factory.mktemp("troubled")
        steps = rack(6, 60, {20: printed(*LINES)}, failing)
        found[full] = service = PlayedService(steps, directory, full=full)
        silenced = {
            "matchers": ["device=SECRETWORD"],
            "for_seconds": 3600.0,
            "reason": "SECRETREASON",
        }
        assert "answer" in commanded(service, "silence add", **silenced)
        first = service.incidents()[0]
        assert "answer" in commanded(service, "ack", incident=first, reason="SECRETREASON")
        service.service._log.trouble("page", "SECRETERROR of the service")
    return found


def paths(service: PlayedService) -> list[str]:
    """Return every page of a machine."""
    disks = [f"/drive/S-sd{letter}" for letter in "abcdef"]
    return ["/", *(f"/incident/{each}" for each in service.incidents()), *disks]


METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT", "get")


def test_no_request_changes_anything(troubled: dict[bool, PlayedService]) -> None:
    """Every page, every path that looks like a command, every method: the service stays as it is.

    Only GET and HEAD are answered; the loop is asked for documents, and for nothing else.
    """
    service = troubled[True]
    posted: list[object] = []

    def post(request: PageRequest) -> None:
        posted.append(request)
        service.answer(request)

    service.pages._post = post
    service.pages._pause = lambda _: None
    incident = service.incidents()[0]
    acts = [f"/{action.replace(' ', '/')}" for action in sorted(ACTIONS)]
    acts += [f"/incident/{incident}/ack", "/drive/S-sda/selftest/start", "/-/reload", "/-/quit"]
    before = known(service)
    for path in [*paths(service), "/metrics", "/-/healthy", "/-/ready", *acts]:
        for method in METHODS:
            status, headers, body = requested(service.app(), method, path)
            if method in {"GET", "HEAD"}:
                assert status.startswith("404") == (path in acts), (path, status)
                assert not body or method == "GET"
            else:
                assert (status, headers["Allow"]) == ("405 Method Not Allowed", "GET, HEAD")
    assert {type(each) for each in posted} == {PageRequest}
    assert known(service) == before


def requested(app: App, method: str, path: str) -> tuple[str, dict[str, str], bytes]:
    """Return status, headers and body of a request. Source: PEP 3333."""
    answered: list[tuple[str, dict[str, str]]] = []

    def start(status: str, headers: list[tuple[str, str]], _: object = None) -> Any:  # noqa: ANN401
        answered.append((status, dict(headers)))

    body = b"".join(app({"REQUEST_METHOD": method, "PATH_INFO": path, "HTTP_HOST": HOST}, start))
    ((status, headers),) = answered
    return status, headers, body


def known(service: PlayedService) -> list[object]:
    """Return what the service tells of its state; its clock stands still."""
    queries = ("status", "silence list", "incident list", "monitoring", "metrics")
    assert set(queries) <= QUERIES
    return [commanded(service, query) for query in queries]


# --- What is shown.


def test_a_write_stall_is_what_the_page_begins_with(tmp_path: Path, golden: Golden) -> None:
    """What it means, what to do and the figures; the disk behind it; the course against limits."""
    steps = list(recorded(fixture("write-stall")))[:60]
    service = PlayedService(steps, tmp_path, full=True)
    page = service.get().html
    above, _, _ = lines(page).partition("Data sources: ")
    golden(GOLDEN / "pages/write-stall.txt", uncounted(above.replace(str(tmp_path), "DIRECTORY")))
    (identifier,) = service.incidents()
    golden(GOLDEN / "pages/incident.txt", lines(service.get(f"/incident/{identifier}").html))
    shown = text(page).partition("What is wrong now")[2]
    assert shown.index("writes stalled") < shown.index("What to do") < shown.index("Write-back")
    assert [a for t, a in Outline(page).tags if t == "svg" and a.get("class") == "chart"]


@pytest.mark.parametrize(
    ("recording", "when"),
    [(frozen(60), "now"), (frozen(60, until=48), "(16 s ago)")],
    ids=["it waits", "between two freezes"],
)
def test_who_waits_is_shown_with_file_and_cause(
    recording: list[RecordingStep], when: str, tmp_path: Path, golden: Golden
) -> None:
    """While a freeze goes on, and as last seen while its series is open; on 'status' as well."""
    service = PlayedService(recording, tmp_path, full=True)
    shown = lines(service.get().html)
    table = shown.partition("Who waits for storage, and because of whom\n")[2]
    head, row = table.split("\n")[:2]
    assert head == "device program unit tasks call file at least when because of"
    assert row.startswith("sda postgres postgresql.service 2 fsync /srv/db/pg_wal/0000")
    assert when in row
    assert row.partition("pg_restore")[2].startswith(" (load.service, pid 400), which wrote ")
    (line,) = commanded(service, "status")["answer"].waiting
    assert (line.device, line.program, line.tasks) == ("sda", "postgres", 2)
    assert line.waits_now == (when == "now")
    if when == "now":
        now = shown.partition("What is wrong now\n")[2].partition("Storage, from file")[0]
        golden(GOLDEN / "pages/who-waits.txt", now)


@pytest.mark.parametrize(
    ("full", "settings"), [(False, ""), (True, "privacy: {programs: false}\n")]
)
def test_who_waits_is_not_named_to_whom_names_are_hidden(
    tmp_path: Path, settings: str, *, full: bool
) -> None:
    """An anonymous reader, and every reader where the configuration hides programs."""
    service = PlayedService(frozen(60), tmp_path, full=full, settings=settings)
    shown = lines(service.get().html)
    assert "sda a program 2 " in shown
    assert not re.search("postgres|pg_wal|pg_restore|load.service", shown)


def test_a_healthy_machine_has_no_table_of_who_waits(tmp_path: Path) -> None:
    """Nor has one whose wait of 4 s has ended."""
    service = PlayedService(frozen(60, until=16), tmp_path, full=True)
    assert "Who waits for storage" not in text(service.get().html)


def test_a_hung_disk_is_named_with_how_long_it_completes_nothing(tmp_path: Path) -> None:
    """In the incident and in the table of devices, where it is the first."""
    steps = list(recorded(fixture("hung-disk")))
    end = next(
        n
        for n, s in enumerate(steps)
        if s.frame.monotonic_seconds - steps[0].frame.monotonic_seconds > 75
    )
    service = PlayedService(steps[:end], tmp_path, full=True)
    shown = text(service.get().html)
    assert re.search(r"critical no request completed for \d+ s, 3 requests in flight", shown)
    devices = shown.partition("hung and busy ones first")[2]
    assert re.search(r"nothing completed for sdc .*?\d+ s sd", devices)


def test_a_healthy_machine_has_one_line_about_it(tmp_path: Path) -> None:
    """And all the rest below."""
    steps = list(recorded(fixture("idle")))
    service = PlayedService(steps, tmp_path, full=True)
    page = service.get()
    assert page.status == 200
    assert re.search(
        r"What is wrong now (No open incident; no alert fires\.|ok: )", text(page.html)
    )


def test_a_dying_drive_is_the_first_of_the_drives_and_has_a_page(
    troubled: dict[bool, PlayedService], golden: Golden
) -> None:
    """Which shows its SMART attributes, alerts and self-tests."""
    service = troubled[True]
    golden(GOLDEN / "pages/drive.txt", lines(service.get("/drive/S-sdc").html))
    drives_shown = text(service.get().html).partition("Drives, those with a problem first")[2]
    assert 0 < drives_shown.index("FAILED") < drives_shown.index("S-sda")
    own = text(service.get("/drive/S-sdc").html)
    assert "critical db1.example.com: drive sdc" in own
    assert "health FAILED" in own
    assert "197 Current_Pending_Sector" in own


def test_a_file_system_stands_above_its_disk(troubled: dict[bool, PlayedService]) -> None:
    """With how full it is; the disk has a link and the alerts about it."""
    shown = text(troubled[True].get().html).partition("from file system to disk")[2]
    assert re.search(r"/srv/sdb ext4 932 GiB [\d.]+ % critical below sdb1? disk", shown)
    assert re.search(r"/srv/sda ext4 932 GiB [\d.]+ % ok sda1? disk", shown)


def test_each_open_incident_has_a_page_with_its_kernel_lines(
    troubled: dict[bool, PlayedService],
) -> None:
    """For authenticated readers."""
    service = troubled[True]
    shown = " ".join(text(service.get(f"/incident/{each}").html) for each in service.incidents())
    for line in LINES[:2]:
        assert line in shown
    assert "SECRETREASON" in shown


def test_numbers_of_the_terminal_are_those_of_the_page(troubled: dict[bool, PlayedService]) -> None:
    """Both are rendered from the same documents."""
    service = troubled[True]
    status = commanded(service, "status")["answer"]
    disks = commanded(service, "monitoring")["answer"]
    shown = text(service.get().html)
    assert status.summary in shown
    assert disks.summary in shown


# --- Who may see what.


def test_authenticated_readers_see_what_was_written_into_every_field(
    troubled: dict[bool, PlayedService],
) -> None:
    """So that the next test would find it."""
    service = troubled[True]
    shown = " ".join(text(service.get(path).html) for path in paths(service))
    assert [secret for secret in SECRETS if secret not in shown] == []


def test_anonymous_readers_see_no_kernel_line_program_file_address_or_reason(
    troubled: dict[bool, PlayedService],
) -> None:
    """On no page, in no attribute; states, serial numbers and what to do are there."""
    service = troubled[False]
    pages = {path: service.get(path) for path in paths(service)}
    assert {page.status for page in pages.values()} == {200}
    whole = html.unescape(" ".join(page.html.decode() for page in pages.values()))
    assert [secret for secret in SECRETS if secret in whole] == []
    assert "a file system has an error" in whole
    assert "What to do" in whole
    assert "S-sdc" in whole


def test_the_text_of_an_alert_about_a_program_or_directory_is_not_public(
    troubled: dict[bool, PlayedService],
) -> None:
    """Only its name and severity: a label that is not one of a device hides it."""
    service = troubled[False].service
    known = service._known(service._clock.now())
    labels = (("alertname", "CompetingMonitor"), ("program", "SECRETPROG"), ("severity", "notice"))
    alert = Alert(
        "CompetingMonitor",
        labels,
        AlertState.FIRING,
        1.0,
        (("summary", "SECRETPROG also polls disks"),),
        known.now,
        known.now,
        subject="program SECRETPROG",
        object="SECRETPROG",
    )
    assert alert.severity is Severity.NOTICE
    public = service._pages.public(dataclasses.replace(known, alerts=(alert,)), known.now)
    (shown,) = public.alerts
    assert "SECRET" not in f"{shown.annotations}{shown.object}{shown.unknown_reason}"
    assert shown.summary == "CompetingMonitor"


def test_metrics_show_of_an_alert_what_the_page_shows(
    troubled: dict[bool, PlayedService],
) -> None:
    """A controller's text is in no summary unless each reader has logged in."""
    service = troubled[True].service
    situation, reloader = service._situation, service._reloader
    own = reloader.config
    events = [each for each in situation.engine.rules.events if each.count]

    def summaries(page: str, *, programs: bool) -> str:
        http = dataclasses.replace(own.http, page=page)
        reloader.config = dataclasses.replace(own, http=http, show_programs=programs)
        return " ".join(situation.scraped(each).summary for each in events)

    try:
        assert "SECRETEVENT" in summaries("full", programs=True)
        for shown in (summaries("summary", programs=True), summaries("full", programs=False)):
            assert "SECRET" not in shown
            assert "a file system has an error" in shown
    finally:
        reloader.config = own


@pytest.mark.parametrize("full", [True, False])
def test_each_receiver_has_a_row_with_its_state(
    troubled: dict[bool, PlayedService], *, full: bool
) -> None:
    """Names, addresses and errors only for authenticated readers."""
    service = troubled[full].service
    now = service._clock.now()
    known = dataclasses.replace(
        service._known(now),
        receivers=(
            MailLine(receiver="ops (https://ops.example.com)", error="SECRETERROR", waiting=3),
            MailLine(receiver="phone (https://ntfy.example.com)"),
        ),
    )
    known = known if full else service._pages.public(known, now)
    shown = text(index.render(service._pages._index(known, full=full), {}, ""))
    if full:
        assert "ops (https://ops.example.com) failing 3" in shown
        assert "SECRETERROR" in shown
        assert "phone (https://ntfy.example.com) ok 0" in shown
    else:
        assert "receiver 1 failing 3" in shown
        assert "receiver 2 ok 0" in shown
        assert "example.com)" not in shown
        assert "SECRETERROR" not in shown


# --- Hostile text.


HOSTILE = (
    "<script>alert(1)</script>\"'&\x1b[31m\u202e\u2066\r\nSet-Cookie: a=b\x00\x9b" + "A" * 10_000
)


def filled(cls: Any, depth: int = 0) -> Any:  # noqa: ANN401 - a document of any class
    """Return a document with hostile text in each field that is text, and two items in a list."""
    hints = typing.get_type_hints(cls)
    return cls(**{f.name: _filled(hints[f.name], depth + 1) for f in dataclasses.fields(cls)})


def _filled(kind: Any, depth: int) -> Any:  # noqa: ANN401 - of any type
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        return filled(kind, depth)
    if origin is tuple:
        members = [a for a in arguments if a is not Ellipsis]
        made = tuple(_filled(a, depth) for a in members)
        return made * 2 if Ellipsis in arguments else made
    if origin is dict:
        return {HOSTILE: HOSTILE}
    if arguments:  # of 'X | None'
        return _filled(next(a for a in arguments if a is not type(None)), depth)
    return {str: HOSTILE, bool: True, int: 7, float: 1.5}[kind]


@pytest.mark.parametrize(
    ("cls", "render"),
    [
        (IndexPage, lambda page: index.render(page, {HOSTILE: [(1.0, 2.0), (3.0, 4.0)]}, HOSTILE)),
        (IncidentPage, incident.render),
        (DrivePage, lambda page: drive.render(page, {"5 raw": [(1.0, 2.0), (3.0, 4.0)]}, HOSTILE)),
    ],
    ids=["index", "incident", "drive"],
)
def test_hostile_text_in_every_field_is_harmless(cls: type, render: Any) -> None:  # noqa: ANN401 - any of the renderers
    """Escaped; ANSI, control and bidi characters replaced; cut at 256 characters with a mark."""
    page = render(filled(cls))
    outline = Outline(page)
    shown = page.decode()
    assert not [
        tag for tag, _ in outline.tags if tag in {"img", "iframe", "link", "form", "button"}
    ]
    assert shown.count("<script") == shown.count(script.SCRIPT) == 1, "ours, and no other"
    assert not [
        1 for _, found in outline.tags if any(n.startswith("on") or n == "style" for n in found)
    ]
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", shown)
    assert "more characters)" in outline.text
    assert "A" * 257 not in outline.text
    assert re.search(r"\\x1b\[31m\\u202e\\u2066 Set-Cookie", outline.text)
    links = [found["href"] for tag, found in outline.tags if tag == "a"]
    assert all(re.fullmatch(r"[/#][\w%./~-]*", link or "") for link in links)


def test_no_page_has_a_style_attribute_or_anything_of_another_host(
    troubled: dict[bool, PlayedService],
) -> None:
    """The policy would block it."""
    service = troubled[True]
    for path in paths(service):
        for tag, found in Outline(service.get(path).html).tags:
            assert "style" not in found
            assert tag not in {"link", "img", "base"}
            assert tag != "script" or not found, "it has neither an address nor a nonce"
            assert (found.get("http-equiv") or "").lower() != "refresh"
            assert not (found.get("href") or "").startswith(("http", "//"))


def test_the_policy_has_the_hash_of_the_style_that_is_sent(
    troubled: dict[bool, PlayedService],
) -> None:
    """Otherwise a browser shows the page without any style."""
    page = troubled[True].get().html
    own = page.partition(b"<style>")[2].partition(b"</style>")[0]
    digest = base64.b64encode(hashlib.sha256(own).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in style.POLICY


def test_the_policy_has_the_hash_of_the_script_that_is_sent(
    troubled: dict[bool, PlayedService],
) -> None:
    """No other script runs, and ours loads nothing but pages of this service."""
    for path in paths(troubled[True]):
        own = troubled[True].get(path).html.partition(b"<script>")[2].partition(b"</script>")[0]
        digest = base64.b64encode(hashlib.sha256(own).digest()).decode()
        assert f"script-src 'sha256-{digest}'; connect-src 'self';" in style.POLICY


# --- Paths.


@pytest.mark.parametrize(
    "path",
    ["/incident", "/incident/", "/drive/", "/x", "/../etc/passwd", "//", "/incidents/1", ""],
)
def test_other_paths_are_no_page(path: str) -> None:
    """Nothing in a path is looked up but identifiers."""
    assert target(path) is None


@pytest.mark.parametrize(
    "path",
    ["/incident/../../etc/passwd", "/drive/<b>x", "/incident/nope", "/drive/\xff\xfe", "/drive/S-"],
)
def test_an_unknown_incident_or_drive_is_not_found_and_not_repeated(
    troubled: dict[bool, PlayedService], path: str
) -> None:
    """Also the beginning of one that exists."""
    page = troubled[False].get(path)
    assert page.status == 404
    assert path.rpartition("/")[2] not in text(page.html)


def test_a_path_of_any_length_costs_no_memory() -> None:
    """A header may have 16 kB."""
    found = target("/drive/" + "A" * 16_000)
    assert found is not None
    assert len(found[1]) <= MAX_KEY_CHARACTERS + 1


# --- Cache, a busy loop, a disk that hangs.


class Clock:
    """A clock that a test sets."""

    now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def test_a_page_is_made_once_a_second(troubled: dict[bool, PlayedService], tmp_path: Path) -> None:
    """Fifty readers cost the loop as much as one."""
    asked: list[PageRequest] = []
    clock = Clock()

    def post(request: PageRequest) -> None:
        asked.append(request)
        troubled[True].answer(request)

    pages = StatusPages(post, str(tmp_path / "none"), HOST, "1", full=True, clock=clock)
    first = pages.get("/")
    clock.now += 0.9
    assert pages.get("/") == first
    assert len(asked) == 1
    clock.now += 0.2
    pages.get("/")
    pages.get("/drive/S-sda")
    assert [each.kind for each in asked] == [PageKind.INDEX, PageKind.INDEX, PageKind.DRIVE]


def test_readers_of_many_pages_do_not_keep_the_loop_busy(
    troubled: dict[bool, PlayedService], tmp_path: Path
) -> None:
    """A page that took 0.1 s is followed by 0.3 s without one, an answer by 10 ms without one."""
    clock, rests = Clock(), list[float]()

    def post(request: PageRequest) -> None:
        clock.now += 0.1
        troubled[True].answer(request)

    def pause(seconds: float) -> None:
        rests.append(round(seconds, 3))
        clock.now += seconds

    path = str(tmp_path / "none")
    pages = StatusPages(post, path, HOST, "1", full=True, clock=clock, pause=pause)
    for disk in "abc":
        pages.get(f"/drive/S-sd{disk}")
    for _ in range(3):
        pages.get("/drive/S-sdc")
    assert rests == [0.0, 0.3, 0.3, 0.01, 0.01, 0.01]


def test_a_loop_that_does_not_answer_leaves_the_last_page_with_a_note(
    troubled: dict[bool, PlayedService], tmp_path: Path
) -> None:
    """At once from the second request on; without a page before, 503; current once it answers."""
    asked: list[PageRequest] = []
    clock = Clock()
    pages = StatusPages(
        asked.append, str(tmp_path / "none"), HOST, "1", full=True, loop_seconds=0.01, clock=clock
    )
    first = pages.get("/")
    assert first is not None
    assert first.status == 503
    assert "did not answer" in text(first.html)
    pages.get("/")
    assert len(asked) == 1, "the loop still has the first request"
    troubled[True].answer(asked[0])
    pages._post = troubled[True].answer
    assert pages.get("/").status == 200  # type: ignore[union-attr]
    pages._post = asked.append
    clock.now += 60
    late = pages.get("/")
    assert late is not None
    assert late.status == 200
    assert "Not current, 1 min old" in text(late.html)


def test_a_bug_in_a_view_is_shown_and_the_loop_goes_on(tmp_path: Path) -> None:
    """With its place, for a report."""

    def post(request: PageRequest) -> None:
        request.reply(PageReply(error="bug: ValueError: x"))

    page = StatusPages(post, str(tmp_path / "none"), HOST, "1", full=True).get("/")
    assert page is not None
    assert page.status == 503
    assert "this page could not be made: bug: ValueError: x" in text(page.html)


def test_a_disk_that_hangs_below_history_db_leaves_a_page_without_history(
    troubled: dict[bool, PlayedService], tmp_path: Path
) -> None:
    """A named pipe that nobody writes to: opening it does not return, as on such a disk."""
    path = tmp_path / "history.db"
    os.mkfifo(path)
    pages = StatusPages(
        troubled[True].answer, str(path), HOST, "1", full=True, history_seconds=0.01
    )
    pages._history.prefetch = _hanging(pages._history.prefetch)  # type: ignore[method-assign]
    page = pages.get("/")
    assert page is not None
    assert page.status == 200
    assert "Temperatures of 30 days: history not available" in text(page.html)
    assert "Storage, from file system to disk" in text(page.html)


def _hanging(prefetch: Any) -> Any:  # noqa: ANN401 - a method and one like it
    """Return the reader with a read that opens the pipe, which waits for a writer."""

    def wrapped(_: Any, then: Any) -> None:  # noqa: ANN401 - as prefetch has them
        def read(path: str) -> list[object]:
            with open(path, "rb"):
                return []

        prefetch(read, then)

    return wrapped


# --- History.


def test_stored_temperatures_are_lines_on_the_page(
    troubled: dict[bool, PlayedService], tmp_path: Path
) -> None:
    """Of thirty days on the overview, of a year on the drive's page; others' values do not mix."""
    path = str(tmp_path / "history.db")
    now = troubled[True].clock.realtime(troubled[True].clock.now())
    history = History(path, lambda _: None)
    for day in range(60):
        at = now - day * 86_400
        history.store_drives(at, [("S-sda", "temperature_celsius", 30.0 + day % 7, False)])
        history.store_drives(at, [("S-sda", "5 raw", float(60 - day), True)])
        history.store_drives(at, [("S-sdb", "power_on_hours", 5.0, False)])
    assert history.close(30.0)
    found = history_courses.read(path, ("temperature_celsius",), now - 30 * 86_400)
    assert set(found) == {"S-sda"}
    assert 29 <= len(found["S-sda"]["temperature_celsius"]) <= 31
    assert set(history_courses.read(path, ("5 raw",), 0.0, "S-sdb")) == set()
    pages = StatusPages(troubled[True].answer, path, HOST, "1", full=True)
    pages._history._patience_seconds = 30.0  # a busy machine
    overview, own = pages.get("/"), pages.get("/drive/S-sda")
    assert overview is not None
    assert own is not None
    lines = [a for t, a in Outline(overview.html).tags if t == "svg" and a.get("class") == "spark"]
    assert [line["aria-label"] for line in lines] == ["30 to 36 C in 30 days"]
    assert "5 Reallocated_Sector_Ct 1" in text(own.html)


def test_no_text_of_an_alert_or_incident_is_public_that_others_wrote(
    troubled: dict[bool, PlayedService],
) -> None:
    """Event texts, waiting tasks, reasons why something is unknown, names of programs."""
    service = troubled[False].service
    now = service._clock.now()
    known = service._known(now)
    tasks = Evidence(1.0, "tasks", "SECRETPROG (pid 7) waits in io_schedule")
    incidents = {
        key: dataclasses.replace(
            each,
            members=tuple(
                dataclasses.replace(m, evidence=(tasks,), unknown="SECRETWORD", summary="SECRET")
                for m in each.members
            ),
        )
        for key, each in known.incidents.items()
    }
    known = dataclasses.replace(known, incidents=incidents)
    public = service._pages.public(known, now)
    assert any("SECRET" in str(alert.annotations) for alert in known.alerts)
    assert not [a for a in public.alerts if "SECRET" in f"{a.annotations}{a.unknown_reason}"]
    for each in public.incidents.values():
        whole = incident_answers.detail(public, each, ())
        assert whole.members
        assert "SECRET" not in str(whole)


def test_an_alert_whose_expression_is_false_is_shown_as_cleared() -> None:
    """Next to 'cleared 31 s ago' the word 'firing' would contradict."""
    _, state = index._alert_columns(40.0)["state"]
    fires = AlertLine("WriteThrottle", "info", "firing")
    assert state(fires) == "firing"
    assert state(dataclasses.replace(fires, cleared_seconds=9.0)) == "cleared"
