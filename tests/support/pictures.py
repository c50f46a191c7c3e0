"""What commands print about recorded machines: samples and pictures of the documentation."""

from __future__ import annotations

import contextlib
import html
import io
import json
import re
from typing import TYPE_CHECKING

import pytest
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text
from support.golden import TOP
from support.program import Feed, Played, recorded
from support.smtp import smtp_server
from support.terminal import shown

from iowarden.collectors import packages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PICTURES = TOP / "packaging/doc/pictures"
COLUMNS = 80
TERMINAL = {
    "status": ("write-stall", 60, ("status",)),
    "incident": ("hung-disk", 100, ("incident", "show", "INCIDENT")),
    "monitoring": ("hung-disk", 100, ("monitoring",)),
}
"""Recorded machine, number of its frames, and command, by the name of the picture."""
INSTALLED = "/usr/lib/iowarden/iowarden/collectors/packages.py"
"""Where the package has the module that determines the place of the pages."""
IDENTIFIER = "279479c6de"
"""Of the incident, which is another one each time."""
_FONT_FACE = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""Of rich's template: it would load fonts from another host."""


@contextlib.contextmanager
def mailing(machine: str, frames: int, directory: Path) -> Iterator[tuple[Played, str]]:
    """Play a recorded machine, whose first mail is sent; give it, and its incident's identifier."""
    feed = Feed(recorded(machine), directory / "feed")
    with smtp_server() as (port, answers):
        played = Played(directory, feed, smtp_port=port, settings="probe: false\n")
        feed.give(1)
        played.start()
        try:
            feed.give(frames - 1)
            played.caught_up()
            listed = json.loads(played.command("incident", "list", "--json").stdout)["incidents"]
            if listed[0]["notifications"]:
                played.until(answers.mails.qsize, "the mail")
                assert played.sent()
            yield played, listed[0]["identifier"]
        finally:
            played.close()


def printed(played: Played, identifier: str, *words: str) -> str:
    """Return what a command prints, always with the same identifier and mail server."""
    said = played.command(*(identifier if word == "INCIDENT" else word for word in words)).stdout
    return _same_always(said, identifier)


def _same_always(text: str, identifier: str) -> str:
    named = text.replace(identifier, IDENTIFIER)
    return re.sub(r"SMTP server 127\.0\.0\.1:\d+", "SMTP server localhost:25", named)


def terminal(name: str, directory: Path) -> str:
    """Return a picture (SVG) of what a command writes to a terminal."""
    machine, frames, words = TERMINAL[name]
    with mailing(machine, frames, directory) as (played, identifier):
        if name == "incident":  # which lists the recording of it, that a thread writes
            flights = played.state / "flights"
            played.until(lambda: [*flights.glob("*.tar.gz")], "the recording")
            played.caught_up()
        arguments = [identifier if word == "INCIDENT" else word for word in words]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(packages, "__file__", INSTALLED)  # a checkout's path has any length
            text = shown(played, [*arguments, "--state-directory", str(played.state)], COLUMNS)
        text = _same_always(text.replace(str(directory), "/var/lib/iowarden"), identifier)
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), highlight=False)
    for line in text.rstrip("\n").split("\n"):
        console.print(Text.from_ansi(line), soft_wrap=True)
    title = f"iowarden {' '.join(words)}".replace("INCIDENT", IDENTIFIER)
    svg = console.export_svg(title=title, theme=MONOKAI, unique_id=name)
    return _FONT_FACE.sub("", svg)


def text_of(svg: str) -> str:
    """Return the words of a picture: rich draws lines, and sets colours, as its version does."""
    found = re.findall(r"<text[^>]*>(.*?)</text>", svg)
    return "".join(f"{html.unescape(each).replace(chr(160), ' ').rstrip()}\n" for each in found)
