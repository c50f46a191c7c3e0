"""The fields of `--json` are those of the documentation: each command, on a recorded machine."""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.program import Feed, Played, recorded, run, with_hung_disk

from iowarden.daemon.cli.main import full_parser
from iowarden.daemon.reference import json_output
from iowarden.rules.signals.waits.freeze_cause import FreezeCause

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parents[3] / "packaging/doc/json.md"
ASKED = {
    "incident show": ["incident", "show", "INCIDENT"],
    "disk show": ["disk", "show", "sda"],
    "query": ["query", "iowarden_device_requests_in_flight"],
    "metrics": ["metrics", "in_flight"],
    "rules list": ["rules", "list"],
    "rules show": ["rules", "show", "DeviceHang"],
}
NEEDS_MORE = {
    "disk history",
    "mail show",
    "trace",
    "locate",
    "top",
    "explain",
    "check",
    "replay",
    "config check",
}
"""They need drives that answer, root, or a file."""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """The service on a machine with a hung disk."""
    with with_hung_disk(tmp_path_factory.mktemp("json")) as program:
        yield program


def with_json(parser: argparse.ArgumentParser) -> Iterator[str]:
    """The commands that have '--json'."""
    if any("--json" in action.option_strings for action in parser._actions):
        yield parser.prog.removeprefix("iowarden ")
    for group in parser._actions:
        if isinstance(group, argparse._SubParsersAction):
            for command in group.choices.values():
                yield from with_json(command)


DOCUMENTED = {*json_output.DOCUMENTS, *json_output.OTHERS, *json_output.EXAMPLES}


def test_every_command_with_json_is_documented() -> None:
    """And no other is."""
    assert set(with_json(full_parser())) == DOCUMENTED


def test_the_page_has_every_cause_of_a_freeze_in_their_order() -> None:
    """Who reads the document by a program compares them all."""
    lines = PAGE.read_text().splitlines()
    (row,) = (line for line in lines if line.startswith("| `cause` | text | 'd"))
    assert re.findall("'(.+?)'", row) == [cause.value for cause in FreezeCause]


def wrong(value: dict[str, Any], cls: type, place: str) -> Iterator[str]:
    """Where a document differs from its class: a field more, a field less."""
    hints = json_output._hints(cls)
    if value.keys() != (names := {each.name for each in dataclasses.fields(cls)}):
        yield f"{place}: {sorted(value.keys() ^ names)}"
    for name, found in value.items():
        for of in json_output._below(hints[name]):
            each = [found] if isinstance(found, dict) else found or []
            for one in each:
                yield from wrong(one, of, f"{place}.{name}")


@pytest.mark.parametrize("command", sorted(DOCUMENTED - NEEDS_MORE))
def test_a_document_has_the_fields_of_the_page(played: Played, command: str) -> None:
    """No more and no fewer, at any depth."""
    incident = json.loads(played.command("incident", "list", "--json").stdout)["incidents"][0]
    words = [
        incident["identifier"] if word == "INCIDENT" else word
        for word in ASKED.get(command, command.split())
    ]
    text = played.command(*words, "--json").stdout
    if command == "events":
        found = [json.loads(line) for line in text.splitlines()]
    else:
        answer = json.loads(text)
        found = answer if isinstance(answer, list) else [answer]
    assert found
    for each in found:
        if command in json_output.OTHERS:
            assert each.keys() == json_output.OTHERS[command].keys()
        else:
            assert [*wrong(each, json_output.DOCUMENTS[command], command)] == []


def test_a_replay_has_the_fields_of_the_page(tmp_path: Path) -> None:
    """Of the machine that the others are about."""
    feed = Feed(recorded("hung-disk")[:3], tmp_path / "feed")
    feed.give()
    found = json.loads(run("replay", "--json", str(feed.directory)).stdout)
    assert found.keys() == json_output.OTHERS["replay"].keys()
    found = json.loads(run("check", "--json", "--play", str(feed.directory)).stdout)
    assert found.keys() == json_output.OTHERS["check"].keys()
    for name in ("findings", "items"):
        of = json_output.OTHERS["check"][name]
        assert isinstance(of, type)
        assert [w for each in found[name] for w in wrong(each, of, name)] == []


RULES = """\
groups:
  - name: mine
    interval: 5s
    rules:
      - alert: LaptopMode
        expr: |
          iowarden_vm_laptop_mode
            > 0
        labels: {severity: notice}
        annotations: {summary: asleep, description: "one\\r\\ntwo", advice: "one\\r\\ntwo"}
"""
ESCAPE = re.compile(r"\\(?:x[0-9a-f]{2}|u[0-9a-f]{4})")


def escapes(value: object, place: str = "$") -> Iterator[str]:
    """The texts of a decoded document that hold the escape of a character."""
    if isinstance(value, str) and ESCAPE.search(value):
        yield f"{place}: {value}"
    pairs = value.items() if isinstance(value, dict) else ()
    pairs = enumerate(value) if isinstance(value, list) else pairs
    for name, inner in pairs:
        yield from escapes(inner, f"{place}.{name}")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """What the commands read that query no service: rules, a mail, a kernel's log."""
    (tmp_path / "rules.d").mkdir()
    (tmp_path / "rules.d" / "mine.yaml").write_text(RULES)
    (tmp_path / "iowarden.yaml").write_text(f"rules_directory: {tmp_path}/rules.d\n")
    (tmp_path / "log").write_bytes(
        b"[    1.000000] sd 0:0:0:0: [sda] flux failed\r\n"
        b"[    2.000000] critical medium error, dev sda, sector 8\r\n"
    )
    mail = tmp_path / "Maildir" / "new"
    mail.mkdir(parents=True)
    (mail / "1.a.host").write_bytes(
        b"Subject: a\r\nDate: Fri, 20 Nov 2026 17:32:52 +0000\r\n"
        b"Message-ID: <1.1@host>\r\nContent-Type: text/plain\r\n\r\none\r\n\ttwo\r\n"
    )
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        *sorted(DOCUMENTED - NEEDS_MORE - {"rules list"}),
        *("check", "explain", "mail show", "replay", "rules list"),
    ],
)
def test_a_decoded_text_of_an_ordinary_machine_holds_no_escape(
    played: Played, files: Path, command: str
) -> None:
    """JSON escapes line ends and tabs itself: a text escaped before that is escaped twice."""
    feed = str(played.feed.directory)
    words = {
        "check": ["check", "--play", feed],
        "explain": ["explain", "--as", "kernel", str(files / "log")],
        "mail show": ["mail", "show", "1", "--state-directory", str(files)],
        "replay": ["replay", feed],
        "rules list": ["rules", "list", "--config", str(files / "iowarden.yaml")],
    }
    if command in words:
        text = run(*words[command], "--json").stdout
    else:
        incident = json.loads(played.command("incident", "list", "--json").stdout)["incidents"][0]
        names = [
            incident["identifier"] if word == "INCIDENT" else word
            for word in ASKED.get(command, command.split())
        ]
        text = played.command(*names, "--json").stdout
    lines = text.splitlines() if command == "events" else [text]
    assert lines
    assert [each for line in lines for each in escapes(json.loads(line))] == []


def test_the_lines_of_a_mail_are_lines(tmp_path: Path) -> None:
    """As a mail has them, with a carriage return each."""
    feed = Feed(recorded("hung-disk"), tmp_path / "feed")
    feed.give()
    (mail, *_) = json.loads(run("replay", "--json", str(feed.directory)).stdout)["mails"]
    assert "\n\nWHAT TO DO\n" in mail["text"]
    assert "\r" not in mail["text"]
