"""The fields of `--json` are those of the documentation: each command, on a recorded machine."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import TYPE_CHECKING, Any

import pytest
from support.program import Feed, Played, recorded, run

from iowarden.daemon.cli.main import full_parser
from iowarden.daemon.reference import json_output

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ASKED = {
    "incident show": ["incident", "show", "INCIDENT"],
    "disk show": ["disk", "show", "sda"],
    "query": ["query", "iowarden_device_requests_in_flight"],
    "metrics": ["metrics", "in_flight"],
    "rules list": ["rules", "list"],
}
NEEDS_MORE = {"disk history", "mail show", "trace", "locate", "top", "explain", "check", "replay"}
"""They need drives that answer, root, or a file."""


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """The service on a machine with a hung disk."""
    directory = tmp_path_factory.mktemp("json")
    feed = Feed(recorded("hung-disk"), directory / "feed")
    program = Played(directory, feed)
    feed.give(1)
    program.start()
    feed.give()
    program.caught_up()
    yield program
    program.close()


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
