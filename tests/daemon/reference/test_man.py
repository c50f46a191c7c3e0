"""The man pages, as they are built: 'man' and 'mandoc' show them without a warning."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from iowarden.daemon.cli.main import full_parser
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.rule_files import load_events, load_shipped
from iowarden.daemon.reference import man, roff, share
from iowarden.rules.rulefile.rulefile import Rule
from iowarden.rules.severity import Severity

TOP = Path(__file__).parents[3]
TEXTS = man.texts(str(TOP / "packaging/doc"))
COMMANDS = [
    name
    for action in full_parser()._actions
    if isinstance(action, argparse._SubParsersAction)
    for name in action.choices
]
HEAD = roff.Head("iowarden-x", 7, "an example", "1.0", "2026-11-23")


def shown(path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """What 'man' shows in 80 columns, and its warnings."""
    environment = {**os.environ, "MANROFFSEQ": "", "MANWIDTH": "80", "LC_ALL": "C.UTF-8"}
    return subprocess.run(
        ("man", "--warnings=w,mac", "-E", "UTF-8", *options, "-l", path),
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )


def written(tmp_path: Path, markdown: str) -> Path:
    """A page with this body."""
    path = tmp_path / "iowarden-x.7"
    path.write_text(roff.page(HEAD, f"# X\n\n{markdown}\n", {"metrics.md": "iowarden-metrics(7)"}))
    return path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is installed in /usr/share, as 'make wheels' and 'make deb' write it."""
    directory = tmp_path_factory.mktemp("share")
    share.write(str(TOP / "packaging/doc"), str(directory))
    return directory


def test_a_page_lies_in_the_directory_of_its_section(built: Path) -> None:
    """All of them are written, and nothing else."""
    paths = [path for path in (built / "man").rglob("*") if path.is_file()]
    assert {str(path.relative_to(built)) for path in paths} == set(TEXTS)
    assert {(path.parent.name, path.suffix) for path in paths} == {
        (f"man{section}", f".{section}") for section in (1, 5, 7, 8)
    }


def test_each_command_and_key_has_its_place() -> None:
    """iowarden(1) has each command, iowarden.yaml(5) its keys."""
    page = TEXTS["man/man1/iowarden.1"]
    assert [name for name in COMMANDS if f'\n.SS "iowarden {roff.plain(name)}' not in page] == []
    page = TEXTS["man/man5/iowarden.yaml.5"].replace("\\%", "").replace("\\:", "")
    assert [key for key in ("listen", "mail.server") if f"\\fB{key}" not in page] == []


def test_the_page_of_alerts_has_one_line_each() -> None:
    """An index: whoever reads a name in a subject finds it, and the whole text elsewhere."""
    page = TEXTS["man/man7/iowarden-alerts.7"].replace("\\%", "").replace("\\:", "")
    groups = load_shipped(parse_config("", "defaults"))
    names = {rule.alert for group in groups for rule in group.rules if isinstance(rule, Rule)}
    names |= {row.kind for row in load_events().rows.values() if row.severity is not None}
    entries = re.findall(r"^\.TP\n\\fB(\w+)\\fR\n(\w.*)$", page, re.MULTILINE)
    assert sorted(name for name, _ in entries) == sorted(map(roff.plain, names))
    severities = "|".join(each.name.lower() for each in Severity)
    wrong = [text for _, text in entries if not re.match(rf"({severities})(, |: )", text)]
    assert wrong == []


@pytest.mark.skipif(shutil.which("man") is None, reason="no man here")
@pytest.mark.parametrize("name", TEXTS)
def test_man_shows_a_page_without_a_warning(built: Path, name: str) -> None:
    """Also none of groff; and what is shown has the page's sections."""
    done = shown(built / name)
    assert done.returncode == 0
    assert done.stderr == ""
    text = re.sub(".\b", "", done.stdout)
    assert re.search(r"^NAME\n +iowarden\S* - ", text, re.MULTILINE)
    assert "\nDESCRIPTION\n" in text
    assert "\nSEE ALSO\n" in text


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="no mandoc here")
@pytest.mark.parametrize("name", TEXTS)
def test_mandoc_has_no_objection(built: Path, name: str) -> None:
    """The reader of Alpine and of the BSDs."""
    command = ("mandoc", "-T", "lint", "-W", "warning", built / name)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout + done.stderr == ""


@pytest.mark.skipif(shutil.which("man") is None, reason="no man here")
def test_an_objection_would_be_seen(tmp_path: Path) -> None:
    """A macro that does not exist is a warning, so the silence above says something."""
    path = tmp_path / "x.1"
    path.write_text(".TH X 1\n.FOO\n")
    assert "FOO" in shown(path).stderr


@pytest.mark.skipif(shutil.which("man") is None, reason="no man here")
@pytest.mark.parametrize(
    "line",
    [
        "iowarden silence add --for 2h --reason 'disk swap' device=sda",
        r"max by (device) (x{a=~\"b\\.c\"} - 1) ^ 2 > `~`",
        ".hidden",
        "'quoted'",
    ],
)
def test_a_line_to_copy_is_shown_as_it_is(tmp_path: Path, line: str) -> None:
    """No typographic quote, minus sign, tilde or circumflex; nothing taken for a macro."""
    done = shown(written(tmp_path, f"Copy:\n\n    {line}"))
    assert done.stderr == ""
    assert f"           {line}\n" in done.stdout


@pytest.mark.skipif(shutil.which("man") is None, reason="no man here")
def test_what_markdown_has_is_shown(tmp_path: Path) -> None:
    """Rows as paragraphs with a tag, links as references, lists, bold text, other alphabets."""
    text = """\
Of °C and [metrics](metrics.md), [every one](metrics.md#x) ([metrics](metrics.md)), [here](#a).

| key | value | meaning |
| --- | --- | --- |
| `a.b` | one \\| two | What it is. |

- first,
  continued
- **second**

## Some title

### `--name`

Last."""
    done = shown(written(tmp_path, text))
    assert done.stderr == ""
    assert [line.strip() for line in done.stdout.splitlines() if line.strip()][3:-1] == [
        "DESCRIPTION",
        "Of °C and iowarden-metrics(7), every one (iowarden-metrics(7)) (see",
        "iowarden-metrics(7)), here.",
        "a.b    What it is.",
        "value: one | two",
        "• first, continued",
        "• second",
        "SOME TITLE",
        "--name",
        "Last.",
    ]


def test_what_is_built_is_removed() -> None:
    """By 'make uninstall': man pages by a pattern, completion by name."""
    script = (TOP / "packaging/uninstall").read_text()
    paths = re.findall(r'"\$destination"?/usr/share/([^"\s]+)', script)
    names = share.texts(str(TOP / "packaging/doc"))
    assert [name for name in names if not any(Path(name).match(path) for path in paths)] == []
