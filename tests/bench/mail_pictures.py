"""Pictures of mails, to be looked at: of each recording, or of all mails that tests play.

    .venv/bin/python tests/bench/mail_pictures.py pictures     # those of tests/fixtures
    PYTHONPATH=tests/bench .venv/bin/python -m pytest -q -p mail_pictures --mails=more \
        tests/daemon/incidents                                 # writes mails; no picture yet
    .venv/bin/python tests/bench/mail_pictures.py --only more  # pictures of mails that are there

For each mail: the text part as w3m shows it, with a line where the first screen of a terminal ends;
the HTML part in chromium on a phone and in a wide window, light and dark; and without styles,
classes and pictures, as some mail programs show it. Needs the Debian packages 'w3m', 'chromium' and
'chromium-driver'. Nothing here passes or fails, but a word that is lost without styles is printed.
"""

from __future__ import annotations

import argparse
import email
import email.policy
import html
import re
import subprocess
import sys
from dataclasses import replace
from email.message import EmailMessage
from pathlib import Path
from typing import TYPE_CHECKING

TESTS = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TESTS))

from support.browser import DESKTOP, PHONE, Browser, browser  # noqa: E402 - the path is set above
from support.first_screen import LINES  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pytest

COLUMNS = 78
LOOKS = {
    "phone-light": (PHONE, "light"),
    "phone-dark": (PHONE, "dark"),
    "desktop-light": ((800, 900), "light"),
    "desktop-dark": ((800, 900), "dark"),
}
STRIPPED = re.compile(
    r"<style.*?</style>|<(?:img|svg)[^>]*>|\s(?:class|style)=\"[^\"]*\"", re.DOTALL
)
"""What mail programs remove."""


# --- the mails of tests


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--mails", type=Path, help="write each mail of the tests to this directory")


def pytest_configure(config: pytest.Config) -> None:
    """Write what is rendered, before a module imports the function by its name."""
    directory = config.getoption("--mails")
    if directory is not None:
        found = _Mails(directory.absolute())
        config.pluginmanager.register(found)


class _Mails:
    def __init__(self, directory: Path) -> None:
        from iowarden.daemon.notify import digest, message  # noqa: PLC0415 - only with the option

        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._test = ""
        self._seen: set[bytes] = set()
        one: Callable[..., EmailMessage] = message.render
        several: Callable[..., bytes] = digest.MAILS.digest

        def render(*args: object, **more: object) -> EmailMessage:
            made = one(*args, **more)
            self._write(made.as_bytes())
            return made

        def render_digest(*args: object, **more: object) -> bytes:
            made = several(*args, **more)
            self._write(made)
            return made

        message.render = render
        digest.MAILS = replace(digest.MAILS, digest=render_digest)

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        name = item.nodeid.rpartition("::")[2].removeprefix("test_")
        self._test = re.sub(r"[^A-Za-z0-9]+", "-", name)[:70].strip("-")

    def _write(self, data: bytes) -> None:
        if data in self._seen:
            return
        self._seen.add(data)
        number = len(list(self._directory.glob(f"{self._test}.*.eml"))) + 1
        (self._directory / f"{self._test}.{number:03}.eml").write_bytes(data)


# --- pictures


def replayed(directory: Path) -> None:
    """Write the mails of all recordings, each to a directory of its own."""
    command = Path(sys.executable).with_name("iowarden")
    for archive in sorted((TESTS / "fixtures").glob("*.tar.xz")):
        place = directory / archive.name.removesuffix(".tar.xz")
        place.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [str(command), "replay", str(archive), "--mails", str(place)],
            check=True,
            stdout=subprocess.DEVNULL,
        )


def pages(mail: EmailMessage) -> Iterator[tuple[str, str]]:
    """Return the pages of a mail: a name and HTML."""
    plain, page = (mail.get_body((kind,)) for kind in ("plain", "html"))
    if plain is not None:
        shown = subprocess.run(
            ["w3m", "-T", "text/plain", "-I", "UTF-8", "-cols", str(COLUMNS), "-dump"],
            input=plain.get_content().encode(),
            capture_output=True,
            check=True,
            env={"LC_ALL": "C.UTF-8", "PATH": "/usr/bin"},
        ).stdout.decode()
        lines = [f"Subject: {mail['Subject']}", "", *shown.splitlines()]
        screen, rest = (html.escape("\n".join(part)) for part in (lines[:LINES], lines[LINES:]))
        style = "font: 14px/1.2 'DejaVu Sans Mono', monospace; margin: 0; width: 80ch"
        yield "text", f'<pre style="{style}">{screen}</pre><hr><pre style="{style}">{rest}</pre>'
    if page is not None:
        text = str(page.get_content())
        yield "html", text
        yield "stripped", STRIPPED.sub("", text)


def pictures(path: Path, chromium: Browser) -> str:
    """Make the pictures of a mail; return a line about it."""
    mail = email.message_from_bytes(path.read_bytes(), EmailMessage, policy=email.policy.default)
    words: dict[str, str] = {}
    size = 0
    for name, text in pages(mail):
        size = max(size, len(text.encode()))
        file = path.with_suffix(".html")
        file.write_text(f'<meta charset="utf-8">{text}' if name == "text" else text)
        looks = LOOKS if name == "html" else {name: (DESKTOP, "light")}
        for look, (window, scheme) in looks.items():
            chromium.look(window, scheme)
            chromium.open(file.as_uri())
            path.with_suffix(f".{look}.png").write_bytes(chromium.picture())
        words[name] = "".join(chromium.run("return document.body.innerText").split())
        file.unlink()
    lost = words.get("html") != words.get("stripped")
    return f"{path}: {size} bytes{', LOST without styles' if lost else ''}: {mail['Subject']}"


def main() -> None:
    """Make the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--only", action="store_true", help="of the mails in the directory only")
    given = parser.parse_args()
    directory = given.directory.absolute()
    if not given.only:
        replayed(directory)
    with browser() as chromium:
        for path in sorted(directory.rglob("*.eml")):
            print(pictures(path, chromium), flush=True)


if __name__ == "__main__":
    main()
