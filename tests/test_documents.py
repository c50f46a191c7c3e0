"""What README.md and packaging/doc show can be copied: commands, files, links, pictures."""

from __future__ import annotations

import argparse
import email
import email.policy
import io
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.recordings import FIXTURES, open_fixture
from support.smtp import DEADLINE_SECONDS, free_port, smtp_server

from iowarden.daemon.cli.main import full_parser, main
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.metric_labels import fits
from iowarden.daemon.replay import expectation
from iowarden.rules.rulefile.rulefile import parse_rule_file

if TYPE_CHECKING:
    from collections.abc import Iterator

TOP = Path(__file__).parents[1]
PAGES = (
    TOP / "README.md",
    TOP / "CHANGELOG.md",
    TOP / "packaging/README.md",
    *sorted((TOP / "packaging/doc").glob("*.md")),
)
MAX_LINES = 185
"""Of README.md: for people in a hurry."""
FIRST_SCREEN_LINES = 25


def names(paths: tuple[Path, ...]) -> list[str]:
    """Paths below the top, as names of tests."""
    return [str(path.relative_to(TOP)) for path in paths]


def anchors(text: str) -> set[str]:
    """Anchors of headings, as GitHub makes them."""
    plain = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", plain, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_readme_is_short() -> None:
    """Details belong into packaging/doc."""
    assert len((TOP / "README.md").read_text().splitlines()) <= MAX_LINES


def test_the_first_screen_has_the_two_commands_to_try_it() -> None:
    """What it is, a picture, how to run it and how to test it; both are targets of the Makefile."""
    text = (TOP / "README.md").read_text()
    first = "\n".join(text.splitlines()[:FIRST_SCREEN_LINES])
    assert "](packaging/doc/pictures/" in first
    targets = re.findall(r"^    make (\w+)", first, re.MULTILINE)
    assert targets == ["run", "test"]
    makefile = (TOP / "Makefile").read_text()
    missing = [name for name in targets if not re.search(rf"^{name}\b.*:", makefile, re.MULTILINE)]
    assert missing == []


def test_the_changes_are_those_of_the_versions_of_the_package() -> None:
    """What is not released stands above; below it one heading for each version, newest first."""
    versions = re.findall(r"^## (.+)$", (TOP / "CHANGELOG.md").read_text(), re.MULTILINE)
    packaged = (TOP / "packaging/debian/changelog").read_text()
    assert versions == ["Unreleased", *re.findall(r"^iowarden \((.+?)\)", packaged, re.MULTILINE)]


@pytest.mark.parametrize("path", PAGES, ids=names(PAGES))
def test_every_link_leads_somewhere(path: Path) -> None:
    """To a file of the repository, and to a heading that is in it."""
    for link in re.findall(r"\]\(([^)\s]+)\)", path.read_text().replace("\n", " ")):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        assert target.exists(), link
        assert not anchor or anchor in anchors(target.read_text()), link


def test_the_index_names_every_page() -> None:
    """Whoever looks for a topic begins there."""
    directory = TOP / "packaging/doc"
    index = (directory / "README.md").read_text()
    pages = {path.name for path in directory.glob("*.md")} - {"README.md"}
    assert pages - set(re.findall(r"\]\(([\w-]+\.md)", index)) == set()


def commands(text: str) -> Iterator[str]:
    """Give the commands of iowarden in code blocks and in running text."""
    for line in text.splitlines():
        if line.startswith("    ") and not line.startswith("     "):
            for part in re.split(r"&&|\|", line.strip().removeprefix("$ ")):
                words = part.partition("#")[0].strip().removeprefix("sudo ")
                if re.match(r"iowarden [a-z]", words):
                    yield words
    for words in re.findall(r"`(?:sudo )?(iowarden [a-z][^`]*)`", text.replace("\n", " ")):
        yield words


SHOWN = sorted(
    {
        (command, str(path.relative_to(TOP)))
        for path in PAGES
        if path.name not in {"commands.md", "json.md", "CHANGELOG.md"}
        for command in commands(path.read_text())
    }
)


@pytest.mark.parametrize(("command", "page"), SHOWN)
def test_every_command_is_one(command: str, page: str) -> None:
    """With these arguments; a group may be named alone, as 'iowarden silence'."""
    words = shlex.split(command)[1:]
    parser = full_parser()
    for word in words:
        groups = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
        if not groups:
            break
        assert word in groups[0].choices, f"{page}: {command}"
        parser = groups[0].choices[word]
    if parser.prog.split()[1:] != words:
        full_parser().parse_args(words)


def fenced() -> Iterator[tuple[str, str, str]]:
    """Give page, file name and text of each YAML example."""
    for path in PAGES:
        for text in re.findall(r"^```yaml\n(.*?)^```$", path.read_text(), re.MULTILINE | re.DOTALL):
            name = text.partition("\n")[0].removeprefix("# ")
            yield str(path.relative_to(TOP)), name, text


@pytest.mark.parametrize(("page", "name", "text"), [*fenced()])
def test_every_example_of_a_file_is_good(page: str, name: str, text: str) -> None:
    """Its first line says which file it is for."""
    if name == "iowarden.yaml":
        parse_config(text, page)
    elif name.startswith("rules.d/"):
        assert parse_rule_file(text, page)
    else:
        assert name.endswith(".expected.yaml"), page
        assert expectation.parse(text, page)


def test_only_yaml_has_a_fence() -> None:
    """So that no example escapes the test above."""
    kinds = {
        kind for path in PAGES for kind in re.findall(r"^```(.+)$", path.read_text(), re.MULTILINE)
    }
    assert kinds == {"yaml"}


def shown(path: Path, name: str) -> list[str]:
    """The lines of a picture, without those that stand for something left out."""
    _, _, rest = path.read_text().partition(f"<!-- {name} -->\n\n")
    block = re.match(r"(?:(?:    .*)?\n)+", rest)
    assert block, name
    lines = [line[4:].rstrip() for line in block[0].splitlines()]
    return [line for line in lines if line not in {"", "..."} and not line.startswith("$ ")]


def test_the_mail_in_readme_is_the_one_of_the_recording(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each line that is shown, in its order."""
    config = tmp_path / "iowarden.yaml"
    config.write_text("host: db1.example.com\n")
    recording = str(FIXTURES / "write-stall.tar.xz")
    main(["replay", recording, "--config", str(config), "--mails", str(tmp_path / "mails")])
    capsys.readouterr()
    sent = [
        email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
        for path in sorted((tmp_path / "mails").iterdir())
    ]
    expected = shown(TOP / "README.md", "mail")
    (mail,) = [each for each in sent if f"Subject: {each['subject']}" == expected[0]]
    body = mail.get_body(("plain",))
    assert body is not None
    lines = iter([line.rstrip() for line in body.get_content().splitlines()])
    assert [line for line in expected[1:] if line not in lines] == []


PICTURES = (
    (TOP / "README.md", "status", ("status",)),
    (TOP / "packaging/doc/events-and-incidents.md", "events", ("events", "-n", "8")),
    (TOP / "packaging/doc/events-and-incidents.md", "incident", ("incident", "show", "ID")),
)


@pytest.mark.system
def test_answers_of_the_service_are_those_of_the_recording(tmp_path: Path) -> None:
    """After its first 95 seconds, with a mail server that takes mail; the ID is random."""
    recording = Path(open_fixture("write-stall", tmp_path / "recorded"))
    for frame in sorted(recording.glob("[0-9]*"))[95:]:
        shutil.rmtree(frame)
    config, state = tmp_path / "iowarden.yaml", tmp_path / "state"
    program = Path(sys.executable).with_name("iowarden")

    def answer(*words: str) -> str:
        command = (program, *words, "--state-directory", state)
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout

    with smtp_server() as (port, server):
        config.write_text(
            f"host: db1.example.com\nlisten: 127.0.0.1:{free_port()}\nprobe: false\n"
            f"mail: {{server: localhost, port: {port}, to: storage@example.com}}\n"
        )
        service = subprocess.Popen(
            [program, "run", "--config", config, "--state-directory", state, "--play", recording],
            stderr=subprocess.DEVNULL,
        )
        try:
            before, end = "", time.monotonic() + DEADLINE_SECONDS
            while before != (now := answer("status")) or server.mails.empty():
                assert time.monotonic() < end, now
                before = now
                time.sleep(1.0)
            found = re.search(r"  ([0-9a-f]{10})  ", now)
            assert found
            answers = {
                name: answer(*(word.replace("ID", found[1]) for word in words))
                for _, name, words in PICTURES
            }
        finally:
            service.terminate()
            service.wait(DEADLINE_SECONDS)
    for path, name, _ in PICTURES:
        text = re.sub(r"\b[0-9a-f]{10}\b", "ID", answers[name]).replace(f":{port}", ":25")
        lines = iter([line.rstrip() for line in text.splitlines()])
        picture = [re.sub(r"\b[0-9a-f]{10}\b", "ID", line) for line in shown(path, name)]
        assert [line for line in picture if line not in lines] == [], name


@pytest.mark.parametrize("path", PAGES, ids=names(PAGES))
def test_an_explanation_is_what_explain_prints(
    path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a page shows what iowarden makes of a line."""
    pattern = r"^    \$ echo '(.*)' \| iowarden explain\n((?:(?:    .*)?\n)+)"
    for line, output in re.findall(pattern, path.read_text(), re.MULTILINE):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{line}\n".encode())))
        main(["explain"])
        printed = [each.rstrip() for each in capsys.readouterr().out.splitlines()]
        assert [each[4:].rstrip() for each in output.splitlines()][: len(printed)] == printed


@pytest.mark.parametrize("path", PAGES, ids=names(PAGES))
def test_a_shown_sample_has_its_labels(path: Path) -> None:
    """Name and labels are those of '/metrics'."""
    for name, labels in re.findall(
        r"^    (iowarden_\w+)\{(.*)\} \S+$", path.read_text(), re.MULTILINE
    ):
        assert fits(name, re.findall(r'(\w+)="', labels)), name
