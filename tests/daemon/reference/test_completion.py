"""Completion in the shells themselves, by the files as they are built."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from iowarden.daemon.reference import completion

if TYPE_CHECKING:
    from pathlib import Path

FISH = completion.FILES["fish"]
BASH = f"source ./{completion.FILES['bash']}"
CASES = [
    ("iowarden stat", ["status"]),
    ("iowarden silence ", ["add", "expire", "list"]),
    ("iowarden selftest start sda ", ["conveyance", "long", "offline", "short"]),
    ("iowarden events --severity ", ["critical", "info", "notice", "warning"]),
    ("iowarden log-level d", ["debug"]),
    ("iowarden replay --ru", ["--rules"]),
]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with these files in the place of /usr/share."""
    directory = tmp_path_factory.mktemp("share")
    for name, text in completion.texts().items():
        (directory / name).parent.mkdir(parents=True)
        (directory / name).write_text(text)
    return directory


def lines(directory: Path, *command: str) -> list[str]:
    """What a shell prints."""
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=directory)
    assert done.stderr == ""
    return sorted(re.sub(r"\t.*", "", line).strip() for line in done.stdout.splitlines())


@pytest.mark.parametrize(("typed", "expected"), CASES)
def test_bash_completes(built: Path, typed: str, expected: list[str]) -> None:
    """As after Tab; an option needs its first character."""
    words = typed.split(" ")
    quoted = " ".join(f"'{word}'" for word in words)
    found = lines(
        built,
        "bash",
        "--norc",
        "-c",
        f"{BASH}; complete -p iowarden >/dev/null;"
        f" COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _shtab_iowarden;"
        ' printf "%s\\n" "${COMPREPLY[@]}"',
    )
    assert found == expected


def test_bash_completes_a_file(built: Path, tmp_path: Path) -> None:
    """The recording that somebody sent."""
    (tmp_path / "incident.tar.xz").touch()
    words = f"COMP_WORDS=(iowarden replay {tmp_path}/inc); COMP_CWORD=2"
    command = f'{BASH}; {words}; _shtab_iowarden; echo "${{COMPREPLY[@]}}"'
    assert lines(built, "bash", "--norc", "-c", command) == [f"{tmp_path}/incident.tar.xz"]


DEADLINE_SECONDS = 30.0


@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        (b"iowarden moni\t", "iowarden monitoring"),
        (b"iowarden silence e\t", "iowarden silence expire"),
        (b"iowarden events --severity cri\t", "--severity critical"),
        (b"iowarden status --wat\t", "--watch"),
    ],
)
def test_the_tab_key_completes(built: Path, keys: bytes, shown: str) -> None:
    """In an interactive bash on a terminal: what readline puts on the line."""
    leader, follower = pty.openpty()
    with subprocess.Popen(
        ["bash", "--norc", "--noprofile", "-i"],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        cwd=built,
        env={"PATH": os.environ["PATH"], "TERM": "dumb", "PS1": "> ", "HOME": "/nonexistent"},
        start_new_session=True,
    ) as shell:
        os.close(follower)
        try:
            os.write(leader, f"{BASH}; echo rea''dy\n".encode())
            said = until(leader, "ready\r\n")
            os.write(leader, keys)
            said = until(leader, shown)
            assert shown in said
        finally:
            shell.kill()
            os.close(leader)


def until(leader: int, wanted: str) -> str:
    """What a terminal shows, up to some text."""
    said = b""
    while wanted.encode() not in said:
        assert select.select([leader], [], [], DEADLINE_SECONDS)[0], said
        said += os.read(leader, 65_536)
    return said.decode()


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish here")
@pytest.mark.parametrize(("typed", "expected"), CASES)
def test_fish_completes(built: Path, typed: str, expected: list[str]) -> None:
    """With a sentence about each, which is left out here."""
    found = lines(built, "fish", "--no-config", "-c", f"source {FISH}; complete -C '{typed}'")
    assert [word for word in expected if word not in found] == []


@pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh here")
def test_zsh_reads_the_file(built: Path) -> None:
    """Its function is defined, and belongs to the command."""
    command = (
        "fpath=($PWD/zsh/vendor-completions $fpath); autoload -Uz compinit; compinit -u -D;"
        " print ${_comps[iowarden]}; autoload +X _iowarden; print ${+functions[_iowarden]}"
    )
    assert lines(built, "zsh", "-f", "-c", command) == ["1", "_iowarden"]
