"""Every operation on state.db fails once or permanently, or the program is killed: nothing is lost.

The program's own mail path runs on a C library that lets the n-th operation fail, for each n until
a run meets no fault any longer.
Source: sqlite.org, 'How SQLite Is Tested', I/O error testing and crash testing.
"""

import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import pytest
from support import mail_path
from support.smtp import Answers, smtp_server

from iowarden.daemon.storage.state_db import OutboxRow, StateChanges, StateDatabase, StateLoaded

SUPPORT = Path(mail_path.__file__).parent
MAX_OPERATIONS = 2000
"""Far above anything counted: it ends a sweep that would not end."""


@dataclass
class Program:
    """A program that is run as often as needed, and the server that accepts its mails."""

    process: subprocess.Popen[str]
    port: int
    answers: Answers
    taken: list[tuple[str, ...]] = field(default_factory=list)
    """Of each mail that the server accepted: its id, then of a digest the ids of its parts."""

    def live(
        self,
        path: Path,
        at: int = 0,
        error: int = 0,
        *,
        for_good: bool = False,
        newcomer: bool = False,
    ) -> tuple[int, str, int]:
        """Return the exit status of a run, how it ended, and its number of operations."""
        case = {"path": str(path), "port": self.port, "at": at, "error": error}
        stdin, stdout = pipes(self.process)
        stdin.write(json.dumps({**case, "for_good": for_good, "newcomer": newcomer}) + "\n")
        stdin.flush()
        status, text = json.loads(stdout.readline())
        while not self.answers.mails.empty():
            data = self.answers.mails.get().data
            self.taken.append(tuple(re.findall(r"(?m)^Message-ID: (<\S+>)", data.decode())))
        ended, _, count = text.partition("|")
        return status, ended, int(count or 0)


def pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    """Return the pipes to and from a process."""
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """Return the program, with the library that injects faults."""
    library = tmp_path_factory.mktemp("faults") / "faults.so"
    source = SUPPORT / "faults.c"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    environment = {
        **os.environ,
        "LD_PRELOAD": str(library),
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }
    answers = Answers(recipients={mail_path.GONE: "550 5.1.1 no such user"})
    with (
        smtp_server(answers) as (port, _),
        subprocess.Popen(
            [sys.executable, mail_path.__file__],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        yield Program(process, port, answers)
        pipes(process)[0].close()


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a state directory after an outage, with two undelivered mails."""
    path = tmp_path_factory.mktemp("before") / "state" / "state.db"
    state = StateDatabase(str(path), lambda _: None)
    state.commit(StateChanges(1, put={"alerts": "0", "incidents": "0"}, add=mail_path.OLD))
    assert state.close(20.0)
    return path


def kept(path: Path) -> StateLoaded:
    """Return what a start would load."""
    answers: list[object] = []
    state = StateDatabase(str(path), answers.append)
    state.load()
    state.close(20.0)
    (loaded,) = (answer for answer in answers if isinstance(answer, StateLoaded))
    assert loaded.readable, loaded.error
    return loaded


def ids(rows: tuple[OutboxRow, ...]) -> set[str]:
    """Return the message ids of mails."""
    return {row.message_id for row in rows}


ALL = ids((*mail_path.OLD, *(row for rows in mail_path.STEPS for row in rows)))


def judge(program: Program, path: Path, *, repeats: int) -> None:
    """Check that each mail was sent, in one form only, with at most this many repeated."""
    ways: dict[str, set[str]] = {}
    for name, *held in program.taken:
        for each in held or [name]:
            ways.setdefault(each, set()).add(name)
    assert ways.keys() >= ALL, "a mail is lost"
    assert all(len(names) == 1 for names in ways.values()), "a mail came under two Message-IDs"
    counts = Counter(name for name, *_ in program.taken)
    assert sum(counts.values()) - len(counts) <= repeats, "mails came again"
    loaded = kept(path)
    last = str(len(mail_path.STEPS))
    assert loaded.documents == {"alerts": last, "incidents": last}
    assert [row.recipients_pending for row in loaded.outbox] == [(mail_path.GONE,)]


def half_done(path: Path, taken: list[tuple[str, ...]]) -> None:
    """Check that the durable state is the one before or after a change, with all its mails."""
    loaded = kept(path)
    assert loaded.documents["alerts"] == loaded.documents["incidents"], "half of a batch"
    delivered = {name for names in taken for name in names}
    due = [*mail_path.OLD]
    for rows in mail_path.STEPS[: int(loaded.documents["alerts"])]:
        due += rows
    assert delivered | ids(loaded.outbox) >= ids(tuple(due)), "a mail is lost"


def cases(
    program: Program, before: Path, tmp_path: Path, every: int = 1
) -> Iterator[tuple[int, Path]]:
    """Return a number and a copy of the state for each case; the last case meets no fault."""
    for at in range(1, MAX_OPERATIONS, every):
        directory = tmp_path / "state"
        shutil.copytree(before.parent, directory)
        program.taken.clear()
        yield at, directory / "state.db"
        shutil.rmtree(directory)
    pytest.fail("the sweep does not end")


swept = pytest.mark.parametrize(
    "every", [pytest.param(1, marks=pytest.mark.system, id="each"), pytest.param(7, id="each 7th")]
)
"""Which operations meet the fault."""


def test_a_life_without_faults_delivers_and_ends(
    program: Program, before: Path, tmp_path: Path
) -> None:
    """The test case: a digest of waiting mails, two mails, and a refused one for later."""
    _, path = next(cases(program, before, tmp_path))
    status, ended, count = program.live(path)
    assert (status, ended) == (0, "")
    assert count > 50, "the library does not see what SQLite does"
    assert sorted(len(names) for names in program.taken) == [1, 1, 3]
    judge(program, path, repeats=0)


@swept
def test_a_kill_in_any_operation_loses_nothing(
    program: Program, before: Path, tmp_path: Path, every: int
) -> None:
    """A write is incomplete then: the next start delivers the rest, at most one mail is repeated.

    A new mail meanwhile is no reason to send in another form what may have been accepted.
    """
    for at, path in cases(program, before, tmp_path, every):
        status, _, _ = program.live(path, at, 0)
        if status == 0:
            break
        assert status == -signal.SIGKILL
        half_done(path, program.taken)
        assert program.live(path, newcomer=True)[:2] == (0, ""), at
        judge(program, path, repeats=1)


@swept
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EROFS], ids=errno.errorcode.get)
def test_an_operation_that_fails_once_costs_nothing(
    program: Program, before: Path, tmp_path: Path, error: int, every: int
) -> None:
    """Whichever it is: all is delivered once, and all is durable in the end."""
    for at, path in cases(program, before, tmp_path, every):
        status, ended, count = program.live(path, at, error)
        assert (status, ended) == (0, ""), at
        judge(program, path, repeats=0)
        if count < at:
            break


@swept
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, errno.EROFS], ids=errno.errorcode.get)
def test_a_disk_that_fails_for_good_costs_nothing_but_memory(
    program: Program, before: Path, tmp_path: Path, error: int, every: int
) -> None:
    """Mails continue without it; a start on the repaired disk repeats only unknown ones."""
    for at, path in cases(program, before, tmp_path, every):
        status, _, count = program.live(path, at, error, for_good=True)
        assert status == 0, at
        half_done(path, program.taken)
        assert program.live(path)[:2] == (0, ""), at
        judge(program, path, repeats=len(ALL))
        if count < at:
            break
