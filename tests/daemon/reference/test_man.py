"""The man pages are those of this code, and 'man' and 'mandoc' show them without a warning."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from iowarden.daemon.reference import man, roff

TOP = Path(__file__).parents[3]
DIRECTORY = TOP / "packaging/man"
TEXTS = man.texts(str(TOP / "packaging/doc"))
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


@pytest.mark.parametrize("name", TEXTS)
def test_a_man_page_is_that_of_the_code(name: str) -> None:
    """Whoever changes a rule, key or command updates the man page; nothing else lies there."""
    there = (DIRECTORY / name).read_text() if (DIRECTORY / name).exists() else ""
    assert there == TEXTS[name], f"packaging/man/{name} is not that of the code: run 'make docs'"
    assert {path.name for path in DIRECTORY.iterdir()} == set(TEXTS)


@pytest.mark.skipif(shutil.which("man") is None, reason="no man here")
@pytest.mark.parametrize("name", TEXTS)
def test_man_shows_a_page_without_a_warning(name: str) -> None:
    """Also none of groff; and what is shown has the page's sections."""
    done = shown(DIRECTORY / name)
    assert done.returncode == 0
    assert done.stderr == ""
    text = re.sub(".\b", "", done.stdout)
    assert re.search(r"^NAME\n +iowarden\S* - ", text, re.MULTILINE)
    assert "\nDESCRIPTION\n" in text
    assert "\nSEE ALSO\n" in text


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="no mandoc here")
@pytest.mark.parametrize("name", TEXTS)
def test_mandoc_has_no_objection(name: str) -> None:
    """The reader of Alpine and of the BSDs."""
    command = ("mandoc", "-T", "lint", "-W", "warning", DIRECTORY / name)
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


def test_every_man_page_is_installed_and_removed() -> None:
    """By both scripts, in the directory of its section."""
    assert "/usr/share/man/man${page##*.}/" in (TOP / "packaging/install").read_text()
    removed = (TOP / "packaging/uninstall").read_text()
    (pattern,) = re.findall(r"usr/share/man/man\?/(\S+)", removed)
    assert all(Path(name).match(pattern) for name in TEXTS)
