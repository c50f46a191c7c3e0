"""The probe at run time: its own process, sockets, and misbehaving programs."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.probe import DEADLINE_SECONDS, Probe, Talk

from iowarden.collectors.model import DeadlineError, ReadError
from iowarden.daemon.probe import allowed, owners, protocol
from iowarden.daemon.probe.programs import Programs
from iowarden.daemon.probe.protocol import Cancel, Hello, ProbeReply, ReplyStatus, Request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

A, B, C = ("tw_cli", "show"), ("sas3ircu", "list"), ("arcconf", "list")
"""Programs of the probe, each at a controller of its own."""
FREE = ("smartctl", "-V")
"""At no controller."""
FOR_EVER = "while :; do sleep 1000; done"


@pytest.fixture
def probe(tmp_path: Path) -> Iterator[Probe]:
    """A probe that is not started yet."""
    one = Probe(tmp_path / "probe")
    yield one
    one.close()


@pytest.fixture
def frozen(tmp_path: Path) -> Iterator[Path]:
    """A frozen file system: a process that writes to it hangs and cannot be killed."""
    if os.geteuid() != 0 or not shutil.which("mkfs.ext4") or not shutil.which("fsfreeze"):
        pytest.skip("needs root, mkfs.ext4 and fsfreeze for a file system that hangs")
    image, mount = tmp_path / "image", tmp_path / "hangs"
    with image.open("wb") as file:
        file.truncate(8 << 20)
    mount.mkdir()
    subprocess.run(["mkfs.ext4", "-q", image], check=True)
    made = subprocess.run(
        ["mount", "-o", "loop", image, mount], capture_output=True, text=True, check=False
    )
    if made.returncode != 0:
        pytest.skip(f"needs a loop mount: {made.stderr}")
    try:
        subprocess.run(["fsfreeze", "-f", mount], check=True)
        yield mount
    finally:
        subprocess.run(["fsfreeze", "-u", mount], capture_output=True, check=False)
        subprocess.run(["umount", "-l", mount], check=True)


def thaw(mount: Path) -> None:
    """Thaw it, so that hung processes continue."""
    subprocess.run(["fsfreeze", "-u", mount], check=True)


def gone(pid: int) -> bool:
    """Return whether a process has ended, or is a zombie that waits for its new parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def pid_in(probe: Probe, path: Path) -> int:
    """Return the process number that a program writes, once it has written it."""
    probe.until(lambda: path.exists() and path.read_text().endswith("\n"), path.name)
    return int(path.read_text())


def done(talk: Talk, *arguments: str) -> dict[str, object]:
    """Run a program that is expected to end in time."""
    talk.run(*arguments)
    answer = talk.answer()
    assert answer.outcome is ReplyStatus.DONE, answer
    return answer.value


def test_a_program_is_run_alone_and_all_it_reports_is_data(probe: Probe) -> None:
    """Status and both outputs are returned; it has no input, and inherits nothing."""
    probe.program(
        *A[:1],
        "cat; echo out; echo err >&2; env | sort; pwd; umask; ulimit -c; ulimit -f;"
        " ls /proc/self/fd; exit 3",
    )
    probe.start(SECRET="x", TZ="Europe/Berlin", LD_PRELOAD="")
    value = done(probe.connect(), *A)
    scratch = f"{probe.runtime}/job-1"
    assert (value["status"], value["signal"], value["stderr"]) == (3, None, "err\n")
    assert str(value["stdout"]).split() == [
        "out",
        f"HOME={scratch}",
        "LC_ALL=C",
        "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
        f"PWD={scratch}",
        "TW_CLI_LOG=OFF",
        "TZ=Europe/Berlin",
        *(scratch, "0077", "0", str((16 << 20) // 512), "0", "1", "2", "3"),
    ]
    assert os.listdir(probe.runtime) == ["stuck.json"]


def test_a_program_that_a_signal_ends_reports_that(probe: Probe) -> None:
    """The status distinguishes signal and exit; bytes that are not text are returned unchanged."""
    probe.program(*A[:1], "printf 'a\\377'; kill -SEGV $$")
    probe.start()
    value = done(probe.connect(), *A)
    assert value == {"status": None, "signal": signal.SIGSEGV, "stdout": "a\udcff", "stderr": ""}


def test_a_program_that_prints_for_ever_is_killed_at_the_limit(probe: Probe) -> None:
    """None of its output is used, and the next request is served."""
    probe.program(*A[:1], "echo $$ > ../pid; exec yes")
    probe.program(*B[:1], "echo well")
    probe.start()
    talk = probe.connect()
    talk.run(*A, limit_bytes=100_000)
    answer = talk.answer()
    assert (answer.outcome, answer.value) == (ReplyStatus.OVERFLOW, {})
    assert gone(pid_in(probe, probe.runtime / "pid"))
    assert done(talk, *B)["stdout"] == "well\n"


def test_a_program_that_complains_for_ever_is_heard_up_to_a_limit(probe: Probe) -> None:
    """Standard error is stored up to a limit, and the rest does not stop the program."""
    probe.program(*A[:1], "yes | head -c 1000000 >&2; echo end")
    probe.start()
    value = done(probe.connect(), *A)
    assert (value["stdout"], len(str(value["stderr"]))) == ("end\n", 64 * 1024)


def test_an_answer_longer_than_its_limit_as_a_frame_is_not_sent(probe: Probe) -> None:
    """A control character takes six bytes of JSON; the daemon accepts no longer frame."""
    probe.program(*A[:1], "head -c 2000000 /dev/zero")
    probe.start()
    talk = probe.connect()
    talk.run(*A)
    assert talk.answer().outcome is ReplyStatus.OVERFLOW


@pytest.mark.parametrize(
    "text",
    [
        "trap '' TERM HUP INT; " + FOR_EVER,
        "exec >&- 2>&-; " + FOR_EVER,
        "sleep 1000 & sleep 1000 & wait",
        "setsid sh -c 'echo $$ > ../escaped; exec sleep 1000' & wait",
    ],
    ids=["ignores TERM", "closes its output", "forks", "leaves its group"],
)
def test_a_program_without_end_is_killed_at_its_deadline(probe: Probe, text: str) -> None:
    """It and all its descendants have ended; the controller is free again."""
    probe.program(*A[:1], f"echo $$ > ../pid; {text}")
    probe.start()
    talk = probe.connect()
    talk.run(*A, deadline_seconds=0.5)
    answer = talk.answer()
    assert answer.outcome is ReplyStatus.TIMEOUT
    assert answer.duration_seconds > 0
    pid = pid_in(probe, probe.runtime / "pid")
    probe.until(lambda: gone(pid) and not living(probe), "the end of all")
    probe.program(*A[:1], "echo well")
    assert done(talk, *A)["stdout"] == "well\n"


def living(probe: Probe) -> list[str]:
    """Return the descendants of the probe."""
    assert probe.process is not None
    pid = probe.process.pid
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


@pytest.mark.parametrize("prefix", ["", "setsid "], ids=["in its group", "in its own session"])
def test_a_program_that_leaves_another_behind_is_answered_at_its_own_end(
    probe: Probe, prefix: str
) -> None:
    """The answer does not wait for the process that holds the pipe; that one is killed."""
    text = f"{prefix}sh -c 'echo $$ > ../left; exec sleep 1000' & while ! test -s ../left; do"
    probe.program(*A[:1], f"{text} sleep 0.01; done; echo mine")
    probe.start()
    talk = probe.connect()
    assert done(talk, *A)["stdout"] == "mine\n"
    left = pid_in(probe, probe.runtime / "left")
    probe.until(lambda: gone(left) and not living(probe), "the end of what was left")


def test_a_program_whose_interpreter_is_missing_fails_by_name(probe: Probe) -> None:
    """A failed exec is reported with the kernel's text."""
    probe.program(*A[:1], "", "/nonexistent")
    probe.start()
    talk = probe.connect()
    talk.run(*A)
    answer = talk.answer()
    assert (answer.outcome, answer.value) == (ReplyStatus.FAILED, {})
    assert "No such file or directory" in answer.error


def test_a_program_that_is_not_installed_is_missing_until_it_is(probe: Probe) -> None:
    """The client learns that it is missing; once installed, a request updates the list."""
    probe.start()
    talk = probe.connect()
    talk.run(*A)
    assert talk.answer().outcome is ReplyStatus.MISSING
    assert talk.hello.programs == {}
    probe.program(*A[:1], "echo here")
    talk.send(Request(2, "programs"))
    assert talk.answer().value == {"programs": {"tw_cli": "/usr/sbin/tw_cli"}}
    assert done(talk, *A)["stdout"] == "here\n"


def test_one_program_at_a_controller_others_elsewhere(probe: Probe) -> None:
    """A second one waits its turn, in order, while another controller answers at once."""
    os.mkfifo(probe.runtime / "go")
    probe.program(*A[:1], "echo $$ >> ../began; read line < ../go; echo $line")
    probe.program(*B[:1], "echo elsewhere")
    probe.start()
    talk = probe.connect()
    for number in (1, 2, 3):
        talk.run(*A, identifier=number)
    talk.run(*B, identifier=4)
    assert talk.answer().identifier == 4
    began = probe.runtime / "began"
    for number in (1, 2, 3):
        probe.until(
            lambda n=number: began.exists() and len(began.read_text().splitlines()) >= n, "a turn"
        )
        assert len(living(probe)) == 1
        (probe.runtime / "go").write_text(f"{number}\n")
        answer = talk.answer()
        assert (answer.identifier, answer.value["stdout"]) == (number, f"{number}\n")


def test_no_program_runs_that_could_not_be_found_again(probe: Probe) -> None:
    """If the register cannot be written, the child is killed at its gate, and that is reported."""
    probe.program(*A[:1], "touch ../ran")
    probe.start()
    talk = probe.connect()
    (probe.runtime / "stuck.json.new").mkdir()
    talk.run(*A)
    answer = talk.answer()
    assert answer.outcome is ReplyStatus.FAILED
    assert "cannot record the running programs" in answer.error
    assert not (probe.runtime / "ran").exists()
    (probe.runtime / "stuck.json.new").rmdir()
    assert done(talk, *A)["status"] == 0


def replace_by_one_that_others_may_change(probe: Probe) -> None:
    """Change a program while a request for it waits."""
    (probe.root / "usr/sbin/cli64").chmod(0o777)


def start_smartd(probe: Probe) -> None:
    """Start another monitor while a request waits."""
    (probe.root / "proc/812").mkdir(parents=True)
    (probe.root / "proc/812/comm").write_text("smartd\n")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (start_smartd, "'smartd' (process 812)"),
        (replace_by_one_that_others_may_change, "mode 0777"),
    ],
)
def test_what_waited_is_looked_at_again_when_its_turn_comes(
    probe: Probe, change: Callable[[Probe], None], words: str
) -> None:
    """An Areca is not polled while smartd runs, nor a program run that has been changed."""
    os.mkfifo(probe.runtime / "go")
    probe.program("cli64", "echo >> ../began; read line < ../go; echo $line")
    probe.start()
    talk = probe.connect()
    talk.run("cli64", "disk", "info", identifier=1)
    talk.run("cli64", "disk", "info", identifier=2)
    talk.send(Request(3, "programs"))
    assert talk.answer().identifier == 3
    began = probe.runtime / "began"
    probe.until(began.exists, "the first")
    change(probe)
    (probe.runtime / "go").write_text("1\n")
    assert talk.answer().value["stdout"] == "1\n"
    # Its own fifo: had the second one started, it would end as well as the first.
    with open(os.open(probe.runtime / "go", os.O_RDWR), "w") as go:
        go.write("2\n")
        go.flush()
        answer = talk.answer()
    assert (answer.identifier, answer.outcome) == (2, ReplyStatus.REFUSED)
    assert words in answer.error
    assert began.read_text() == "\n"


def test_a_request_that_never_gets_its_turn_is_told_who_is_there(probe: Probe) -> None:
    """At its deadline the answer shows which program runs, and since when; that one continues."""
    probe.program(*A[:1], FOR_EVER)
    probe.start()
    talk = probe.connect()
    talk.run(*A, identifier=1)
    talk.run(*A, identifier=2, deadline_seconds=0.2)
    answer = talk.answer()
    assert (answer.identifier, answer.outcome) == (2, ReplyStatus.BUSY)
    assert answer.error.startswith("'tw_cli show' (process ")
    assert len(living(probe)) == 1


def test_a_cancelled_request_is_killed_or_never_started(probe: Probe) -> None:
    """Both are answered; an unknown number is ignored."""
    probe.program(*A[:1], f"echo $$ > ../pid; {FOR_EVER}")
    probe.start()
    talk = probe.connect()
    talk.run(*A, identifier=1)
    talk.run(*A, identifier=2)
    pid = pid_in(probe, probe.runtime / "pid")
    talk.send(Cancel(77), Cancel(2), Cancel(1))
    answers = [talk.answer(), talk.answer()]
    assert [each.identifier for each in answers] == [2, 1]
    assert {each.outcome for each in answers} == {ReplyStatus.CANCELLED}
    assert gone(pid)


def test_what_runs_for_a_connection_ends_with_it(probe: Probe) -> None:
    """The programs of a daemon that died are killed; other connections are not affected."""
    probe.program(*A[:1], f"echo $$ > ../pid; {FOR_EVER}")
    probe.program(*B[:1], "echo well")
    probe.start()
    first, second = probe.connect(), probe.connect()
    first.run(*A)
    pid = pid_in(probe, probe.runtime / "pid")
    first.stream.close()
    probe.until(lambda: gone(pid), "its end")
    assert done(second, *B)["stdout"] == "well\n"


@pytest.mark.parametrize(
    "sent",
    [
        b"\xff\xff\xff\xff",
        b"\x00\x00\x00\x02{]",
        b"GET / HTTP/1.1\r\n\r\n",
        protocol.encode(Request(1, "run", A)),
        protocol.encode(Hello(version=99)),
        protocol.encode(Hello()) * 2,
        protocol.encode(Hello()) + protocol.encode(ProbeReply(1, ReplyStatus.DONE)),
    ],
    ids=["huge", "no JSON", "a browser", "no greeting", "a version", "greets twice", "answers"],
)
def test_a_connection_that_does_not_keep_to_the_protocol_is_closed(
    probe: Probe, sent: bytes
) -> None:
    """It is logged once, however often it happens, and other clients notice nothing."""
    probe.program(*FREE[:1], "echo well")
    probe.start()
    other = probe.connect()
    for _ in range(3):
        rude = probe.connect(greet=False)
        rude.stream.sendall(sent)
        assert rude.closed()
    assert done(other, *FREE)["stdout"] == "well\n"
    probe.until(lambda: "refused" in probe.text(), "a line of the log")
    assert probe.text().count("refused") == 1
    assert "Traceback" not in probe.text()


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pieces=st.lists(st.binary(max_size=60), max_size=6), greet=st.booleans())
def test_garbage_never_reaches_the_others(
    lasting: tuple[Probe, Talk], pieces: list[bytes], greet: bool
) -> None:
    """Whatever one connection sends, another is answered."""
    probe, other = lasting
    rude = probe.connect(greet=greet)
    try:
        for piece in pieces:
            rude.stream.sendall(piece)
    except (BrokenPipeError, ConnectionResetError):
        pass  # it is closed at the first error
    rude.stream.close()
    other.send(Request(1, "programs"))
    assert other.answer().outcome is ReplyStatus.DONE


@pytest.fixture
def lasting(probe: Probe) -> tuple[Probe, Talk]:
    """A running probe, and a connection to it."""
    probe.start()
    return probe, probe.connect()


def test_a_thousand_connections_leave_the_first_ones_alone(probe: Probe) -> None:
    """Connections beyond the eighth are closed at once; when one ends, its place is free."""
    probe.start()
    talks = [probe.connect() for _ in range(8)]
    for _ in range(1000):
        assert probe.connect(greet=False).closed()
    talks[0].stream.close()
    other = talks[1]
    other.send(Request(1, "programs"))
    assert other.answer().outcome is ReplyStatus.DONE
    probe.connect()
    probe.until(lambda: "already" in probe.text(), "a line of the log")
    assert probe.text().count("already") == 1


def test_a_client_that_greeted_and_asks_nothing_is_closed(probe: Probe) -> None:
    """Eight of them would keep the service out for ever; one whose program runs stays."""
    probe.program(*A[:1], FOR_EVER)
    probe.start(client_seconds=0.2)
    working = probe.connect()
    working.run(*A)
    assert all(probe.connect().closed() for _ in range(8))
    working.send(Request(2, "programs"))
    assert working.answer().identifier == 2


def test_a_client_gets_the_place_of_the_one_that_is_idle_for_longest(probe: Probe) -> None:
    """All places are taken: one whose program runs keeps its own, whenever it came."""
    probe.program(*A[:1], FOR_EVER)
    probe.start(yield_seconds=0.0)
    talks = [probe.connect() for _ in range(8)]
    talks[0].run(*A)
    late = probe.connect()
    assert talks[1].closed()
    for talk in (talks[0], talks[2], late):
        talk.send(Request(2, "programs"))
        assert talk.answer().identifier == 2


def test_more_open_requests_than_allowed_are_refused(probe: Probe) -> None:
    """The 65th request of a connection is refused; so is a number in use."""
    probe.program(*A[:1], FOR_EVER)
    probe.start()
    talk = probe.connect()
    for number in range(64):
        talk.run(*A, identifier=number)
    talk.run(*A, identifier=64)
    answer = talk.answer()
    assert (answer.identifier, answer.outcome) == (64, ReplyStatus.REFUSED)
    talk.run(*A, identifier=1)
    answer = talk.answer()
    assert (answer.identifier, answer.outcome) == (1, ReplyStatus.REFUSED)
    assert "is already open" in answer.error


def test_a_connection_that_reads_nothing_is_closed(probe: Probe) -> None:
    """The data that waits for it is limited, and other clients notice nothing."""
    probe.program(*A[:1], "yes | head -c 4000000")
    probe.program(*B[:1], "echo well")
    probe.start()
    deaf, other = probe.connect(), probe.connect()
    for number in range(10):
        deaf.run(*A, identifier=number)
    probe.until(lambda: "the client does not read" in probe.text(), "its end")
    assert deaf.closed()
    assert done(other, *B)["stdout"] == "well\n"


def test_programs_at_no_controller_are_many_but_bounded(probe: Probe) -> None:
    """32 run at once; the others follow as those end."""
    os.mkfifo(probe.runtime / "go")
    probe.program(*FREE[:1], "read line < ../go")
    probe.start()
    talk = probe.connect()
    for number in range(40):
        talk.run(*FREE, identifier=number)
    probe.until(lambda: len(living(probe)) == 32, "32 programs")
    go = os.open(probe.runtime / "go", os.O_WRONLY)
    os.write(go, b"\n" * 40)
    answers = {talk.answer().identifier for _ in range(40)}
    os.close(go)
    assert answers == set(range(40))


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to be another user")
def test_another_user_is_closed_unheard(probe: Probe) -> None:
    """The kernel reports who connected; only root and the daemon's user are accepted."""
    os.seteuid(65534)
    try:
        pair = socket.socketpair()
    finally:
        os.seteuid(0)
    talk = probe.start_connected(pair, greet=False)
    assert talk.closed()
    assert probe.process is not None
    assert probe.process.wait(DEADLINE_SECONDS) == 0
    assert "user 65534" in probe.text()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to read /dev/kmsg")
def test_the_kernels_messages_come_as_a_descriptor(probe: Probe) -> None:
    """It reads records and does not block at the last one."""
    probe.start()
    talk = probe.connect()
    talk.send(Request(1, "kmsg"), Request(2, "kmsg", ("/etc/shadow",)))
    assert talk.answer() == ProbeReply(1, ReplyStatus.DONE)
    (descriptor,) = talk.descriptors
    os.lseek(descriptor, 0, os.SEEK_END)
    with pytest.raises(BlockingIOError):
        os.read(descriptor, 8192)
    os.close(descriptor)
    assert talk.answer().outcome is ReplyStatus.REFUSED


def test_what_is_not_on_the_list_is_refused_and_reported_once(probe: Probe) -> None:
    """Other programs, paths, verbs: an answer each, one log line for all that are the same."""
    probe.start()
    talk = probe.connect()
    for arguments in (("sh", "-c", "id"), ("/usr/sbin/tw_cli", "show"), ("tw_cli", "rm"), ()):
        for _ in range(3):
            talk.run(*arguments)
            assert talk.answer().outcome is ReplyStatus.REFUSED
    talk.send(Request(1, "shutdown\n<0>forged"))
    assert talk.answer().outcome is ReplyStatus.REFUSED
    probe.until(lambda: "shutdown" in probe.text(), "the last line")
    assert probe.text().count("refused") == 5
    assert "\n<0>" not in probe.text()


def test_refusals_that_all_differ_fill_no_log(probe: Probe) -> None:
    """A few per minute are logged, the last one with a note; all are counted; errors are logged."""
    probe.program(*A[:1], "echo well")
    probe.start()
    talk = probe.connect()
    for number in range(100):
        talk.run("sh", str(number), f"{number}")
        talk.send(Request(1, f"verb {number}"))
        assert {talk.answer().outcome, talk.answer().outcome} == {ReplyStatus.REFUSED}
    assert sum("refused" in line for line in probe.text().splitlines()) <= 16
    for number in range(100):
        rude = probe.connect(greet=False)
        rude.stream.sendall((2**20 + number).to_bytes(4, "big"))
        assert rude.closed()
    (probe.runtime / "stuck.json.new").mkdir()
    talk.run(*A)
    assert talk.answer().outcome is ReplyStatus.FAILED
    assert probe.end(signal.SIGTERM) == 0
    lines = [line for line in probe.text().splitlines() if "refused" in line]
    assert len(lines) == 32
    assert [line for line in lines if "not logged" in line] == [lines[15], lines[31]]
    assert "cannot record the running programs" in probe.text()


def test_it_ends_when_nobody_is_there(probe: Probe) -> None:
    """It runs while a connection is open, and ends soon after the last one closed."""
    probe.start(idle_seconds=0.2)
    talk = probe.connect()
    talk.send(Request(1, "programs"))
    talk.answer()
    talk.stream.close()
    assert probe.process is not None
    assert probe.process.wait(DEADLINE_SECONDS) == 0


def test_a_child_of_the_daemon_ends_with_it(probe: Probe) -> None:
    """Without a listening socket, it ends with the connection, and so do its programs."""
    probe.program(*A[:1], f"echo $$ > ../pid; {FOR_EVER}")
    talk = probe.start_connected()
    talk.run(*A)
    pid = pid_in(probe, probe.runtime / "pid")
    talk.stream.close()
    assert probe.process is not None
    assert probe.process.wait(DEADLINE_SECONDS) == 0
    assert gone(pid)


def test_a_stop_kills_what_runs(probe: Probe) -> None:
    """SIGTERM: waiting clients get an answer, nothing is left, the status is 0."""
    probe.program(*A[:1], f"echo $$ > ../pid; trap '' TERM; {FOR_EVER}")
    probe.program(*B[:1], "echo well")
    probe.start()
    talk = probe.connect()
    talk.run(*A, identifier=1)
    talk.run(*A, identifier=2)
    pid = pid_in(probe, probe.runtime / "pid")
    # Its answer shows that the requests before it were read: a later one would be refused.
    talk.run(*B, identifier=3)
    assert talk.answer().identifier == 3
    assert probe.end(signal.SIGTERM) == 0
    assert {talk.answer().outcome for _ in range(2)} == {ReplyStatus.CANCELLED}
    assert gone(pid)
    assert probe.register() == []


def test_programs_do_not_outlive_a_probe_that_is_killed(probe: Probe) -> None:
    """After SIGKILL of the probe the next one kills its programs; the controller is free."""
    probe.program(*A[:1], "sleep 1000 & echo $! > ../started; echo $$ > ../pid; wait")
    probe.start()
    probe.connect().run(*A)
    pid = pid_in(probe, probe.runtime / "pid")
    started = pid_in(probe, probe.runtime / "started")
    assert [each["pid"] for each in probe.register()] == [pid]
    probe.end(signal.SIGKILL)
    probe.until_gone(lambda: gone(pid))
    probe.program(*A[:1], "echo well")
    probe.start()
    talk = probe.connect()
    assert talk.hello.stuck == ()
    assert done(talk, *A)["stdout"] == "well\n"
    assert gone(started)
    assert sorted(os.listdir(probe.runtime)) == ["pid", "started", "stuck.json"]


def test_a_program_that_hangs_in_the_kernel_holds_up_nobody_else(
    probe: Probe, frozen: Path
) -> None:
    """Killed but alive: reported as stuck, not duplicated, and free as soon as it has ended."""
    probe.program(*A[:1], f"echo x > {frozen}/file")
    probe.program(*B[:1], "echo well")
    probe.start()
    talk, other = probe.connect(), probe.connect()
    before = time.time()
    talk.run(*A, identifier=1, deadline_seconds=0.2)
    talk.run(*A, identifier=2)
    assert done(other, *B)["stdout"] == "well\n"
    first, second = talk.answer(), talk.answer()
    assert [(each.identifier, each.outcome) for each in (first, second)] == [
        (1, ReplyStatus.STUCK),
        (2, ReplyStatus.STUCK),
    ]
    assert "'tw_cli show' (process " in first.error
    (stuck,) = talk.told().stuck
    assert (stuck.arguments, stuck.controllers) == (A, ("3ware",))
    assert before <= stuck.since_seconds <= time.time()
    assert f"process {stuck.pid})" in second.error
    assert other.told().stuck == (stuck,)
    talk.run(*A, identifier=3)
    assert talk.answer().outcome is ReplyStatus.STUCK
    assert done(other, *B)["stdout"] == "well\n"
    thaw(frozen)
    assert talk.told().stuck == ()
    assert gone(stuck.pid)
    assert done(talk, *A)["status"] == 0
    assert probe.register() == []
    assert probe.text().count("hangs in the kernel") == 1


SECTORS = ("/srv", "0", "8")


def of_xfs(probe: Probe, text: str) -> Talk:
    """Start the probe of a machine with an XFS, whose program is `text`."""
    mounts = probe.root / "proc/1/mountinfo"
    mounts.parent.mkdir(parents=True)
    mounts.write_text("31 22 8:17 / /srv rw - xfs /dev/sdb1 rw\n")
    probe.program("xfs_io", text)
    probe.start()
    return probe.connect()


def test_a_program_of_a_verb_that_is_too_slow_is_killed_and_named(probe: Probe) -> None:
    """Before the deadline of the request, so that the verb itself answers with what it has."""
    of_xfs(probe, "exec sleep 1000")
    programs = Programs(str(probe.root), os.geteuid())
    line = ("xfs_io", "-r", "-c", "fsmap -d -m 0 7", "/srv")
    with pytest.raises(DeadlineError, match="'xfs_io' was killed at the deadline"):
        owners._run(programs, "run", line, 0.05)
    with pytest.raises(ReadError, match="expected the mount point of an XFS"):
        owners._run(programs, "run", (*line[:-1], "/home"), 0.05)


def test_a_verb_whose_program_ends_badly_tells_why(probe: Probe) -> None:
    """It prints for ever, a signal ends it, it cannot be started: each is an error with a name."""
    talk = of_xfs(probe, "exec yes")
    answers = []
    for text in ("exec yes", "kill -SEGV $$", "echo '$1'; echo what >&2"):
        probe.program("xfs_io", text)
        talk.send(Request(1, "xfs_owners", SECTORS))
        answers.append(talk.answer())
    assert {answer.outcome for answer in answers} == {ReplyStatus.FAILED}
    assert "terminated by signal 25" in answers[0].error
    assert "terminated by signal 11" in answers[1].error
    assert "'xfs_io fsmap': expected" in answers[2].error


def test_a_verb_whose_program_hangs_in_the_kernel_holds_its_disk(
    probe: Probe, frozen: Path
) -> None:
    """The program survives its verb, and is registered: no second one is put beside it."""
    talk = of_xfs(probe, f"echo x > {frozen}/file")
    talk.send(Request(1, "xfs_owners", SECTORS, 0.5))
    assert talk.answer().outcome is ReplyStatus.TIMEOUT
    (hung,) = talk.told().stuck
    assert hung.arguments == ("xfs_owners", *SECTORS)
    talk.send(Request(2, "xfs_owners", SECTORS))
    assert talk.answer().outcome is ReplyStatus.STUCK
    thaw(frozen)
    assert talk.told().stuck == ()


def test_a_stop_does_not_wait_for_a_program_that_hangs_and_the_next_start_finds_it(
    probe: Probe, frozen: Path
) -> None:
    """Also across SIGKILL of the probe: the same process, stuck since the same time."""
    probe.program(*A[:1], f"echo x > {frozen}/file")
    probe.start()
    talk = probe.connect()
    talk.run(*A, deadline_seconds=0.2)
    assert talk.answer().outcome is ReplyStatus.STUCK
    stuck = talk.told().stuck
    assert probe.end(signal.SIGTERM) == 0
    for number in (signal.SIGKILL, signal.SIGTERM):
        probe.start()
        talk = probe.connect()
        assert talk.hello.stuck == stuck
        talk.run(*A)
        assert talk.answer().outcome is ReplyStatus.STUCK
        probe.end(number)
    probe.start()
    talk = probe.connect()
    thaw(frozen)
    assert talk.told().stuck == ()
    assert done(talk, *A)["status"] == 0


def test_a_program_that_hung_when_the_probe_was_killed_is_found_again(
    probe: Probe, frozen: Path
) -> None:
    """It was not reported yet: its controller is locked at once, and it is soon reported."""
    probe.program(*A[:1], f"echo $$ > ../pid; echo x > {frozen}/file")
    probe.start()
    probe.connect().run(*A)
    pid = pid_in(probe, probe.runtime / "pid")
    probe.end(signal.SIGKILL)
    probe.start()
    talk = probe.connect()
    assert talk.hello.stuck == ()
    talk.run(*A)
    assert talk.answer().outcome is ReplyStatus.STUCK
    assert [each.pid for each in talk.told().stuck] == [pid]


def test_what_a_program_left_hanging_holds_its_controller(probe: Probe, frozen: Path) -> None:
    """The program itself ended well; its descendant hangs, and is reported separately."""
    text = f"(echo x > {frozen}/file) & while ! grep -qs D /proc/$!/stat; do sleep 0.01; done"
    probe.program(*A[:1], text)
    probe.program(*B[:1], "echo well")
    probe.start()
    talk = probe.connect()
    assert done(talk, *A)["status"] == 0
    talk.run(*A, identifier=2)
    assert done(probe.connect(), *B)["stdout"] == "well\n"
    assert talk.answer().outcome is ReplyStatus.STUCK
    (stuck,) = talk.told().stuck
    assert (stuck.arguments, stuck.controllers) == (A, ("3ware",))


def test_what_reads_whole_file_systems_takes_no_disk_time_from_others(probe: Probe) -> None:
    """debugfs reads all inodes for minutes, on a disk that is failing and busy."""
    if shutil.which("ionice") is None:
        pytest.skip("'ionice' is not here to say the class: 'apt install util-linux'")
    mounts = probe.root / "proc/1/mountinfo"
    mounts.parent.mkdir(parents=True)
    mounts.write_text("31 22 0:39 / /srv rw - btrfs /dev/sdb1 rw\n")
    for name in ("btrfs", "smartctl"):
        probe.program(name, "exec ionice")
    talk = probe.start_connected()
    classes = []
    for words in (("btrfs", "filesystem", "show", "--raw", "/srv"), FREE):
        talk.run(*words)
        classes.append(talk.answer().value["stdout"].split(":")[0].strip())
    assert classes == ["idle", own_class()]


def own_class() -> str:
    """The setting of a program of this process, whatever started the tests."""
    said = subprocess.run(["ionice"], capture_output=True, text=True, check=True)
    return said.stdout.split(":")[0].strip()


@pytest.mark.parametrize("name", ["debugfs", "dumpe2fs", "xfs_io", "find", "btrfs"])
def test_all_that_may_read_for_minutes_is_idle(name: str) -> None:
    """The same command as for locating an affected file."""
    assert allowed.PROGRAMS[name].idle
