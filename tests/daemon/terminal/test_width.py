"""Every command on terminals of 80 and 120 columns, and in a pipe, on recorded machines."""

from __future__ import annotations

import argparse
import io
import json
import re
import sys
from typing import TYPE_CHECKING

import pytest
from rich.cells import cell_len
from support.program import FIXTURES, Feed, Played, recorded, run
from support.service import on_a_terminal
from support.terminal import STYLE, shown

from iowarden.daemon.cli.main import full_parser, main
from iowarden.daemon.storage import unparsed
from iowarden.daemon.terminal import console, table_layout
from iowarden.daemon.terminal.console import Table

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MACHINES = {"hung-disk": None, "write-stall": 60}
"""Recorded machines, and how many of their frames: with open incidents."""
TAKES = {
    "silence add": ["WriteStall", "--for", "1h", "--reason", "a copy that must end today"],
    "silence expire": ["0000"],
    "ack": ["INCIDENT", "--reason", "the drive is ordered"],
    "query": ["iowarden_device_requests_in_flight"],
    "metrics": ["in_flight"],
    "log-level": ["info", "--for", "1m"],
    "incident show": ["INCIDENT"],
    "disk show": ["sda"],
    "disk history": ["sda", "temperature_celsius"],
    "disk forget": ["sda"],
    "selftest start": ["sda"],
    "selftest abort": ["sda"],
    "scan start": ["sda"],
    "scan stop": ["sda"],
    "mail show": ["nothing"],
    "incident list": ["--all"],
    "check": ["--play", "RECORDING"],
    "replay": ["RECORDING"],
    "rules show": ["DeviceHang"],
    "explain": [str(FIXTURES / "kernel-messages.tsv")],
    "config check": ["CONFIG"],
    "unparsed show": ["nothing"],
    "rules check": [],
}
"""Arguments of the commands that need some, or show more with them."""
OWN = {"check", "config check", "explain", "replay", "rules check", "version"}
"""Commands that query no service."""
ELSEWHERE = {
    "run": "it does not end",
    "setup": "tests/daemon/setup",
    "record": "records this machine",
    "report": "records this machine",
    "top": "measures this machine",
    "trace": "traces this machine",
    "locate": "reads the file systems of this machine",
    "test-mail": "sends a mail",
    "rules test": "its output is promtool's",
    "unparsed show": "prints a file as it is",
}


BAR = re.compile(r"\x1b\[\?25l.*\x1b\[\?25h\s*\x1b\[1A\x1b\[2K", re.DOTALL)
"""All that is drawn between hiding the cursor and showing it."""
AGO = re.compile(r"\([^()]*\sago\)")
"""Of a time by this machine's clock."""


def leaves(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parsers of all commands that do something."""
    groups = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
    if not groups:
        yield parser
    for group in groups:
        for command in group.choices.values():
            yield from leaves(command)


PARSERS = {parser.prog.removeprefix("iowarden "): parser for parser in leaves(full_parser())}
COMMANDS = [path for path in PARSERS if path not in ELSEWHERE]


@pytest.fixture(scope="module", params=MACHINES)
def machine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, Played]]:
    """The service on a recorded machine, its clock stopped at the last frame."""
    directory = tmp_path_factory.mktemp("terminal")
    feed = Feed(recorded(request.param), directory / "feed")
    played = Played(directory, feed)
    feed.give(1)
    played.start()
    feed.give(MACHINES[request.param])
    played.caught_up()
    yield request.param, played
    played.close()


def words_of(path: str, machine: tuple[str, Played]) -> list[str]:
    """The command line of a command on a machine."""
    name, played = machine
    given = {
        "INCIDENT": lambda: json.loads(played.command("incident", "list", "--json").stdout)[
            "incidents"
        ][0]["identifier"],
        "RECORDING": lambda: str(FIXTURES / f"{name}.tar.xz"),
        "CONFIG": lambda: str(played.config),
    }
    words = [given[word]() if word in given else word for word in TAKES.get(path, [])]
    of = [] if path in OWN else ["--state-directory", str(played.state)]
    return [*path.split(), *words, *of]


def words_in(text: str) -> set[str]:
    """The words of an output; one below a row has a mark after it, a silence a new ID."""
    text = re.sub(r"\b[0-9a-f]{8}\b", "ID", text)
    return {word.strip(";:") for word in without_bar(AGO.sub("", text)).split()} - {"\\", ""}


def without_bar(text: str) -> str:
    """An output without styles, and without the progress bar that has vanished at its end."""
    return STYLE.sub("", BAR.sub("", text))


def test_every_command_is_here() -> None:
    """A new one is looked at too, or its place is named."""
    needs = {
        path
        for path, parser in PARSERS.items()
        if any(not a.option_strings and a.nargs not in {"?", "*"} for a in parser._actions)
    }
    assert needs - TAKES.keys() - ELSEWHERE.keys() == set()
    assert (TAKES.keys() | OWN | ELSEWHERE.keys()) - PARSERS.keys() == set()


@pytest.mark.parametrize("path", COMMANDS)
def test_it_fits_and_breaks_no_word(path: str, machine: tuple[str, Played]) -> None:
    """At 80 and 120 columns; what is wider than the terminal is wrapped between words."""
    words = words_of(path, machine)
    whole = words_in(shown(machine[1], words, 1000))
    titles = {"lines", "more"}
    for columns in (80, 120):
        text = without_bar(shown(machine[1], words, columns))
        assert text.replace("\n", "").isprintable()
        long = [line for line in text.splitlines() if cell_len(line) > columns]
        # A word that is longer than a line; 'check' leaves its commands as they are.
        assert [line for line in long if " " in line.strip() and line[:13].strip()] == []
        assert words_in(text) - titles <= whole | words_in(shown(machine[1], words, 1000))


@pytest.mark.parametrize("path", COMMANDS)
def test_a_pipe_gets_the_same_from_any_terminal(
    path: str, machine: tuple[str, Played], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No colour, no width: the output of two hosts can be compared."""
    if path in {"silence add", "silence expire", "ack", "log-level", "mail list"}:
        pytest.skip("its output has the present time")
    words = words_of(path, machine)
    texts = set()
    for term, columns in (("dumb", "40"), ("xterm-256color", "200")):
        monkeypatch.setenv("TERM", term)
        monkeypatch.setenv("COLUMNS", columns)
        monkeypatch.setenv("FORCE_COLOR", "1")
        found = machine[1].command(*words) if path not in OWN else None
        if found is None:
            found = run(*words)
        assert "\x1b" not in found.stdout + found.stderr
        texts.add(AGO.sub("", found.stdout + found.stderr))
    assert len(texts) == 1


@pytest.mark.parametrize("path", PARSERS)
def test_help_fits(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The help of every command, with its examples."""
    monkeypatch.setenv("COLUMNS", "80")
    text = PARSERS[path].format_help()
    assert [line for line in text.splitlines() if len(line) > 80] == []


def test_a_warning_that_became_critical_is_one_line(machine: tuple[str, Played]) -> None:
    """In the status and in the incident, as in its mails."""
    detail = json.loads(machine[1].command(*words_of("incident show", machine), "--json").stdout)
    status = json.loads(machine[1].command("status", "--json").stdout)
    for names in ([m["name"] for m in detail["members"]], [a["name"] for a in status["alerts"]]):
        assert names
        assert len(names) == len(set(names))


def test_a_replay_shows_its_progress_on_a_terminal_only(machine: tuple[str, Played]) -> None:
    """A bar and the time left; it is gone at the end, and a pipe gets none."""
    text = shown(machine[1], words_of("replay", machine), 80)
    assert "replaying" in text
    assert re.search(r"about .* left", text)
    assert "replaying" not in without_bar(text)
    found = run(*words_of("replay", machine))
    assert "replaying" not in found.stdout + found.stderr


class Interrupted:
    """A pause that ends as Ctrl-C ends it, the third time."""

    def __init__(self) -> None:
        """Count from none."""
        self.count = 0

    def __call__(self, seconds: float) -> None:
        """Wait, but for no time."""
        assert seconds == 2.0
        self.count += 1
        if self.count == 3:
            raise KeyboardInterrupt


def test_a_watch_in_a_pipe_is_one_after_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    """As 'vmstat 2' prints lines; nothing clears a screen."""
    texts = iter(("one", "two", "three"))
    with pytest.raises(KeyboardInterrupt):
        console.watch(lambda: [next(texts)], 2.0, Interrupted())
    assert capsys.readouterr().out == "one\n\ntwo\n\nthree\n\n"


def test_a_watch_on_a_terminal_has_a_screen_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was on the terminal before is there again after Ctrl-C; what is too long says so."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "10")
    monkeypatch.setenv("TERM", "xterm-256color")

    def watched() -> None:
        with pytest.raises(KeyboardInterrupt):
            console.watch(lambda: [f"line {n}" for n in range(30)], 2.0, Interrupted())

    text = on_a_terminal(monkeypatch, watched)
    assert text.index("\x1b[?1049h") < text.index("line 8") < text.index("\x1b[?1049l")
    assert "line 9" not in text
    assert "... 21 more lines; without --watch all are shown" in text


def test_a_saved_output_cannot_command_the_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a tool printed is escaped on a terminal; a file gets it as it is."""
    directory = tmp_path / unparsed.DIRECTORY
    directory.mkdir()
    text = "time: today\nerror: no number \x1b[2J\n\nserial: \x1b]0;x\x07\n"
    (directory / "smart-1.txt").write_text(text)
    where = ["--state-directory", str(tmp_path)]
    for words in (["unparsed", "show", "smart-1.txt", *where], ["unparsed", "list", *where]):
        drawn = on_a_terminal(monkeypatch, lambda words=words: main(words))  # type: ignore[misc]
        assert "no number \\x1b[2J" in drawn
        assert "\x1b" not in drawn
    assert main(["unparsed", "show", "smart-1.txt", *where]) == 0
    assert capsys.readouterr().out == f"{text}\n"


TABLE = Table(
    "disks",
    ("disk", "serial", "model", "summary"),
    (
        ("sda", "S1", "ACME DISK OF A LONG NAME", "no request completed for 59 s"),
        ("sdb", "S2", "-", "-"),
    ),
)


def plain(found: list[str | Table], width: int) -> list[str]:
    """Lines without styles."""
    return [str(line) for line in table_layout.lines(found, width)]


def test_a_narrow_table_moves_prose_below_its_rows() -> None:
    """First what is prose, then cells from the right; an empty cell takes no line."""
    assert plain([TABLE], 50) == [
        "disks",
        "disk  serial  model",
        "sda   S1      ACME DISK OF A LONG NAME",
        "    no request completed for 59 s",
        "sdb   S2      -",
    ]
    assert plain([TABLE], 80)[2].endswith("59 s")


def test_letters_of_two_cells_are_counted() -> None:
    """A Chinese model name does not shift the columns after it."""
    table = Table("", ("model", "size"), (("磁盘", "4 TB"), ("DISK", "2 TB")))
    assert plain([table], 80)[-2:] == ["磁盘   4 TB", "DISK   2 TB"]


def test_a_long_command_is_copied_as_a_whole() -> None:
    """Its lines end in a backslash; a quoted word is not divided, also if it is too long."""
    text = "    smartctl -t long /dev/sda && grep -s 'a b c d e f g h i j k l m n' /proc/mdstat"
    lines = plain([text], 44)
    assert lines[0] == "    smartctl -t long /dev/sda && grep -s \\"
    joined = " ".join(line.strip().removesuffix(" \\") for line in lines)
    assert joined == text.strip()


@pytest.mark.parametrize("encoding", ["ascii", "iso-8859-1"])
def test_bars_of_a_locale_without_them_are_ascii(
    monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    """LANG=C on a rescue system: no escapes in place of bars; names keep theirs."""
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding))
    console.encode_all()
    sys.stdout.write("▁▂▃▄▅▆▇█ 5 µs /srv/\u4e2d▁\n")
    sys.stdout.flush()
    assert raw.getvalue().decode(encoding).replace("µ", "u") == "_.,-=+*# 5 us /srv/\\u4e2d_\n"
