"""What README.md and packaging/doc show can be copied: commands, files, links, pictures."""

from __future__ import annotations

import argparse
import ast
import email
import email.policy
import io
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import pictures
from support.golden import excerpt
from support.recordings import FIXTURES

from iowarden.collectors import packages
from iowarden.collectors.packages import DOCUMENTATION, documentation
from iowarden.daemon.cli.main import full_parser, main
from iowarden.daemon.config import rule_files
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.metric_labels import fits
from iowarden.daemon.replay import expectation
from iowarden.rules.rulefile.rulefile import parse_rule_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.golden import Golden

TOP = Path(__file__).parents[1]
PAGES = (
    TOP / "README.md",
    TOP / "CHANGELOG.md",
    TOP / "packaging/README.md",
    *sorted((TOP / "packaging/doc").glob("*.md")),
)
MAX_LINES = 150
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


def test_readme_answers_in_the_order_of_a_first_visit() -> None:
    """Try it, install it, see a mail; what it does and does not; then what it fits."""
    titles = re.findall(r"^## (.+)$", (TOP / "README.md").read_text(), re.MULTILINE)
    order = "Try Install mail detects monitors Nagios alert not smartd Cost Documentation".split()
    assert len(titles) == len(order)
    assert all(word in title for word, title in zip(order, titles, strict=True)), titles


def test_an_alert_that_a_page_explains_exists() -> None:
    """The command would answer that there is none."""
    settings = parse_config("", "defaults")
    known = {*rule_files.alert_names(settings), *rule_files.load_events().rows}
    named = {
        word
        for path in PAGES
        for word in re.findall(r"iowarden (?:explain|rules show) ([A-Z]\w+)", path.read_text())
    }
    assert "DiskPendingSectors" in named
    assert named - known - {"ALERT"} == set()


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


def test_a_page_that_the_program_names_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """`iowarden explain` named 'packaging/doc/conditions.md', which is only in a checkout."""
    named = []
    for folder in ("collectors", "rules", "daemon"):
        for path in (TOP / folder).rglob("*.py"):
            if path.parent.name == "reference":  # it writes them
                continue
            tree = ast.parse(path.read_text())
            documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
            notes = [n.body[0] for n in ast.walk(tree) if isinstance(n, documented) and n.body]
            docstrings = {note.value for note in notes if isinstance(note, ast.Expr)}
            for node in ast.walk(tree):
                if isinstance(node, ast.Constant) and node not in docstrings:
                    named += re.findall(r"\S*packaging/doc\S*", str(node.value))
    assert DOCUMENTATION in named
    assert [each for each in named if each not in {DOCUMENTATION, "/packaging/doc"}] == []
    for script in ("install", "debian/rules"):
        assert "/usr/share/doc/iowarden/" in (TOP / "packaging" / script).read_text()
    for name in ("conditions", "metrics", "alerts", "configuration"):
        assert (TOP / "packaging/doc" / f"{name}.md").exists()
    # In a checkout on a host without the package every hint named a directory that is not there.
    assert documentation() == str(TOP / "packaging/doc")
    with monkeypatch.context() as installed:
        installed.setattr(packages, "__file__", pictures.INSTALLED)
        assert documentation() == DOCUMENTATION
    # 'status' and 'check' name this section.
    page = (TOP / "packaging/doc/events-and-incidents.md").read_text()
    assert "\n## Why did I get no mail?\n" in page


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


SCRIPTS = sorted(
    path
    for path in (TOP / "packaging").iterdir()
    if path.is_file() and path.read_bytes().startswith(b"#!/bin/sh")
)
IN_SCRIPT = re.compile(
    r"(?:^\s*|[;&|(!]\s*|timeout \d+ |/usr/bin/)(iowarden [a-z][\w-]*(?: [\w./:=@%$\"{}-]+)*)"
    r"(?=\s*(?:$|[|&;<>)]))",
    re.MULTILINE,
)


def in_scripts() -> list[tuple[str, str]]:
    """Return the command lines of iowarden in scripts of packaging, with the script."""
    found = set()
    for path in SCRIPTS:
        lines = re.sub(r"^\s*(?:#|echo|printf).*$", "", path.read_text(), flags=re.MULTILINE)
        found |= {(words, path.name) for words in IN_SCRIPT.findall(lines.replace("\\\n", " "))}
    return sorted(found)


@pytest.mark.parametrize(("command", "script"), in_scripts())
def test_a_command_of_a_script_is_one(command: str, script: str) -> None:
    """An option that does not exist, behind '|| :', tests nothing."""
    words = [word.strip('"') for word in command.split()[1:]]
    assert full_parser().parse_args(words), script


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


def test_the_mail_in_readme_is_the_one_of_the_recording(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], golden: Golden
) -> None:
    """Its subject, what it means, and the command that helps."""
    config = tmp_path / "iowarden.yaml"
    config.write_text("host: db1.example.com\n")
    recording = str(FIXTURES / "write-stall.tar.xz")
    main(["replay", recording, "--config", str(config), "--mails", str(tmp_path / "mails")])
    capsys.readouterr()
    (path,) = (tmp_path / "mails").iterdir()
    mail = email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
    body = mail.get_body(("plain",))
    assert body is not None
    text = f"Subject: {mail['subject']}\n\n{body.get_content()}"
    golden.block(TOP / "README.md", "mail", excerpt(text, "1-2 7-12 21"))


SAMPLES = (
    ("packaging/doc/setup-and-advise.md", "status", ("status",), "1-3 6-7 18"),
    ("packaging/doc/events-and-incidents.md", "events", ("events", "-n", "8"), "1 5-6"),
    ("packaging/doc/events-and-incidents.md", "incident",
     ("incident", "show", "INCIDENT"), "1-6 11-13 28-30"),
)  # fmt: skip
"""Document, block in it, command, and which lines of it are shown."""


def test_answers_of_the_service_are_those_of_the_recording(tmp_path: Path, golden: Golden) -> None:
    """After its first 95 seconds, with a mail server that takes mail."""
    with pictures.mailing("write-stall", 95, tmp_path) as (played, identifier):
        for document, name, words, lines in SAMPLES:
            command = " ".join(words).replace("INCIDENT", pictures.IDENTIFIER[:4])
            text = f"$ iowarden {command}\n{pictures.printed(played, identifier, *words)}"
            golden.block(TOP / document, name, excerpt(text, lines))


@pytest.mark.parametrize("name", pictures.TERMINAL)
def test_a_picture_of_a_terminal_is_that_of_the_recording(
    name: str, tmp_path: Path, golden: Golden
) -> None:
    """Its words: those of the other pictures are images, which 'packaging/make-pictures' makes."""
    golden(pictures.PICTURES / f"{name}.svg", pictures.terminal(name, tmp_path), pictures.text_of)


EXPLAINED = re.compile(
    r"(?<=^    \$ echo ')(.*)(' \| iowarden explain\n)(?:(?:    .*)?\n)+?(?=\n\S|\Z)", re.MULTILINE
)


def test_an_explanation_is_what_explain_prints(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    """Where a page shows what iowarden makes of a line."""

    def explained(match: re.Match[str]) -> str:
        line = f"{match[1]}\n".encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(line)))
        main(["explain"])
        printed = capsys.readouterr().out.splitlines()
        return match[1] + match[2] + "".join(f"    {each}".rstrip() + "\n" for each in printed)

    texts = {path: path.read_text() for path in PAGES}
    assert any(EXPLAINED.search(text) for text in texts.values())
    for path, text in texts.items():
        golden(path, EXPLAINED.sub(explained, text))


@pytest.mark.parametrize("path", PAGES, ids=names(PAGES))
def test_a_shown_sample_has_its_labels(path: Path) -> None:
    """Name and labels are those of '/metrics'."""
    for name, labels in re.findall(
        r"^    (iowarden_\w+)\{(.*)\} \S+$", path.read_text(), re.MULTILINE
    ):
        assert fits(name, re.findall(r'(\w+)="', labels)), name
