"""Log messages arrive completely in a real journal, and never block."""

import fcntl
import os
import pty
import re
import select
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.journald import DEADLINE_SECONDS, private_journald

from iowarden.collectors.printable import escaped, name
from iowarden.daemon import journal
from iowarden.daemon.journal import Deduplicator, Log, MessageKind


@contextmanager
def journal_socket(path: Path) -> Iterator[socket.socket]:
    """A datagram socket in place of journald's, read only when the test does so."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.bind(str(path))
        bound.settimeout(DEADLINE_SECONDS)
        yield bound


@contextmanager
def log_to(path: Path, **options: str) -> Iterator[Log]:
    """Open a log."""
    log = Log(socket_path=str(path), **options)  # type: ignore[arg-type]
    yield log
    log.close()


def fields(entry: bytes) -> dict[str, bytes]:
    """Read an entry of the native protocol, as documented."""
    found = {}
    while entry:
        line, _, rest = entry.partition(b"\n")
        name, equals, value = line.partition(b"=")
        if not equals:
            (length,) = struct.unpack_from("<Q", rest)
            value, rest = rest[8 : 8 + length], rest[8 + length :]
            assert rest.startswith(b"\n")
            rest = rest[1:]
        found[name.decode()] = value
        entry = rest
    return found


def test_a_real_journal_takes_every_field() -> None:
    """Found by message id; line ends and 300 KB arrive, bytes that are no text are escaped."""
    long = "x" * 300_000
    with private_journald() as journald:
        log = Log(socket_path=journald.socket_path)
        log.send(
            journal.ALERT_FIRING,
            2,
            "sda hangs\nsecond line",
            IOWARDEN_ALERT="DeviceHang",
            IOWARDEN_DEVICE="sd\udcff",
            IOWARDEN_INCIDENT="8f3a",
            IOWARDEN_STATE=None,
            IOWARDEN_SEVERITY="",
        )
        log.send(journal.INCIDENT_OPENED, 4, long, IOWARDEN_INCIDENT="8f3b")
        (entry,) = journald.entries(f"MESSAGE_ID={journal.ALERT_FIRING.message_id}")
        (large,) = journald.entries("IOWARDEN_INCIDENT=8f3b")
        log.close()
    assert entry["MESSAGE"] == "sda hangs\nsecond line"
    assert entry["PRIORITY"] == "2"
    assert entry["SYSLOG_IDENTIFIER"] == "iowarden"
    assert entry["IOWARDEN_ALERT"] == "DeviceHang"
    assert entry["IOWARDEN_DEVICE"] == name("sd\udcff")
    assert entry["IOWARDEN_INCIDENT"] == "8f3a"
    assert not {"IOWARDEN_STATE", "IOWARDEN_SEVERITY"} & entry.keys()
    assert large["MESSAGE"] == long
    assert (log.lost_total, large["SYSLOG_IDENTIFIER"]) == (0, "iowarden")


def test_a_program_of_ours_has_its_own_name_in_the_journal(tmp_path: Path) -> None:
    """'journalctl -t iowarden-probe' shows what ran as root, and nothing else."""
    path = tmp_path / "socket"
    with journal_socket(path) as bound, log_to(path, identifier="iowarden-probe") as log:
        log.send(journal.TROUBLE, 4, "refused")
        assert fields(bound.recv(65536))["SYSLOG_IDENTIFIER"] == b"iowarden-probe"


def test_a_journal_that_does_not_read_costs_lines_but_no_time(tmp_path: Path) -> None:
    """journald hangs on its disk: `send` returns; later one line reports how many were lost."""
    with journal_socket(tmp_path / "socket") as hung, log_to(tmp_path / "socket") as log:
        while not log.lost_total:
            log.send(journal.TROUBLE, 4, "line")
        log.send(journal.TROUBLE, 4, "line")
        assert log.lost_total == 2
        while select.select([hung], [], [], 0)[0]:
            hung.recv(65536)
        log.send(journal.TROUBLE, 4, "after")
        said = [fields(hung.recv(65536)) for _ in range(2)]
    assert [entry["MESSAGE"] for entry in said] == [
        b"journal: 2 log messages were lost: the journal or standard error accepted no more",
        b"after",
    ]
    assert said[0]["MESSAGE_ID"].decode() == journal.MESSAGES_LOST.message_id
    assert log.lost_total == 2


def test_a_journal_that_comes_back_is_found_again(tmp_path: Path) -> None:
    """journald died and was started again: no reconnect is needed, the loss is reported."""
    path = tmp_path / "socket"
    with journal_socket(path) as first, log_to(path) as log:
        log.send(journal.TROUBLE, 4, "before")
        assert fields(first.recv(65536))["MESSAGE"] == b"before"
        first.close()
        log.send(journal.TROUBLE, 4, "nobody listens")
        path.unlink()
        log.send(journal.TROUBLE, 4, "nobody is there")
        with journal_socket(path) as second:
            log.send(journal.TROUBLE, 4, "again")
            assert fields(second.recv(65536))["MESSAGE"].startswith(
                b"journal: 2 log messages were lost"
            )
            assert fields(second.recv(65536))["MESSAGE"] == b"again"


def test_what_is_too_large_for_a_datagram_goes_as_a_sealed_file(tmp_path: Path) -> None:
    """As the protocol requires: one descriptor that can no longer be changed, and no content."""
    with journal_socket(tmp_path / "socket") as bound, log_to(tmp_path / "socket") as log:
        log.send(journal.TROUBLE, 4, "x" * 1_000_000)
        content, descriptors, _, _ = socket.recv_fds(bound, 65536, 4)
    (descriptor,) = descriptors
    with os.fdopen(descriptor, "rb") as file:
        seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
        file.seek(0)
        entry = fields(file.read())
    assert content == b""
    assert entry["MESSAGE"] == b"x" * 1_000_000
    assert seals == fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
    assert log.lost_total == 0


@given(
    message=st.text(st.characters(exclude_categories=()), min_size=1),
    device=st.text(st.characters(exclude_categories=()), min_size=1),
)
def test_any_text_becomes_an_entry_that_reads_back(message: str, device: str) -> None:
    """A newline in a value cannot create a field."""
    entry = fields(journal.encode({"MESSAGE": message, "IOWARDEN_DEVICE": device, "PRIORITY": 3}))
    assert list(entry) == ["MESSAGE", "IOWARDEN_DEVICE", "PRIORITY"]
    assert entry["MESSAGE"].decode() == escaped(message, "\n\t")
    assert entry["IOWARDEN_DEVICE"].decode() == name(device)


def test_less_important_lines_are_left_out(tmp_path: Path) -> None:
    """`log_level: warning` omits info messages, which does not count as lost."""
    with journal_socket(tmp_path / "s") as bound, log_to(tmp_path / "s", level="warning") as log:
        log.send(journal.STARTED, 6, "started")
        log.send(journal.TROUBLE, 4, "trouble")
        assert fields(bound.recv(65536))["MESSAGE"] == b"trouble"
    assert log.lost_total == 0


def test_without_a_journal_lines_go_to_standard_error_with_their_level(tmp_path: Path) -> None:
    """A container without journald, a file: time and level on each line, no control sequence."""
    reading, writing = os.pipe()
    log = Log(socket_path=str(tmp_path / "nothing"), descriptor=writing)
    log.send(journal.TROUBLE, 3, "sda\x1b[2J hangs\nsecond", IOWARDEN_DEVICE="sda")
    log.close(DEADLINE_SECONDS)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        lines = pipe.read().decode().splitlines()
    assert [line[20:] for line in lines] == [r"ERROR    sda\x1b[2J hangs", "ERROR    second"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d ", lines[0][:20])


def test_systemd_gets_the_level_as_a_prefix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Standard error is a stream of the journal, which takes '<N>' off each line."""
    ours, theirs = socket.socketpair()
    status = os.fstat(theirs.fileno())
    monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino}")
    log = Log(socket_path=str(tmp_path / "nothing"), descriptor=theirs.fileno())
    log.send(journal.TROUBLE, 3, "sda hangs\nsecond")
    log.close(DEADLINE_SECONDS)
    theirs.close()
    with ours:
        assert ours.makefile("rb").read() == b"<3>sda hangs\n<3>second\n"


def test_in_the_foreground_both_the_journal_and_the_terminal_are_told(tmp_path: Path) -> None:
    """Started by hand on a machine with a journal: shown to the user, and stored in the journal."""
    reading, writing = os.pipe()
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.bind(path)
        log = Log(foreground=True, socket_path=path, descriptor=writing)
        log.send(journal.TROUBLE, 4, "sda hangs")
        assert fields(bound.recv(65536))["MESSAGE"] == b"sda hangs"
    log.close(DEADLINE_SECONDS)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read().endswith(b" WARNING  sda hangs\n")


def test_on_a_terminal_lines_have_a_time_and_a_level() -> None:
    """In the foreground a user reads them."""
    ours, theirs = pty.openpty()
    log = Log(foreground=True, descriptor=theirs)
    log.send(journal.TROUBLE, 4, "sda hangs")
    log.close(DEADLINE_SECONDS)
    line = os.read(ours, 1000).decode()
    os.close(ours)
    os.close(theirs)
    assert line[2:3] + line[5:6] == "::"
    assert line[8:] == " WARNING  sda hangs\r\n"


def test_a_standard_error_that_does_not_take_costs_lines_but_no_time(tmp_path: Path) -> None:
    """A full pipe or stopped terminal: `send` returns, lost messages are counted and reported."""
    reading, writing = os.pipe()
    log = Log(socket_path=str(tmp_path / "nothing"), descriptor=writing)
    sent = 0
    while not log.lost_total:
        log.send(journal.TROUBLE, 4, f"line {sent}")
        sent += 1
    received = b""
    while f"line {sent - 2}\n".encode() not in received:
        assert select.select([reading], [], [], DEADLINE_SECONDS)[0]
        received += os.read(reading, 65536)
    log.send(journal.TROUBLE, 4, "after")
    log.close(DEADLINE_SECONDS)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        last = pipe.read().splitlines()
    lines = received.splitlines()
    assert [line[29:] for line in lines] == [f"line {n}".encode() for n in range(sent - 1)]
    assert last[0][20:].startswith(b"WARNING  journal: 1 log messages were lost")
    assert [line[20:] for line in last[1:]] == [b"WARNING  after"]


def test_message_ids_are_fixed_and_distinct() -> None:
    """Users search the journal by them, and the catalog explains them by them."""
    kinds = [value for value in vars(journal).values() if isinstance(value, MessageKind)]
    assert (
        len(kinds) == len({kind.message_id for kind in kinds}) == len({kind.name for kind in kinds})
    )
    assert all(len(kind.message_id) == 32 and int(kind.message_id, 16) for kind in kinds)
    assert journal.STARTED.message_id == "78f3f463f5d74b21aeee451dc3a46ad6"


def test_an_error_is_reported_once_then_when_it_changes_or_ends() -> None:
    """A server that is down for a night causes three messages, not a thousand."""
    now = [0.0]
    once = Deduplicator(lambda: now[0])
    assert once.clear("mail") is None
    said = [once.report("mail", text) for text in ("refused", "refused", "timed out", "timed out")]
    assert said == ["refused", None, "timed out", None]
    assert once.report("state", "disk full") == "disk full"
    assert list(once.wrong()) == ["mail", "state"]
    now[0] = 3600.0
    assert once.clear("mail") == "mail: works again after 1 h (4 times); last error: timed out"
    assert once.clear("mail") is None
    assert once.report("mail", "timed out") == "timed out"


def test_an_error_that_comes_and_goes_is_reported_to_do_so_and_then_no_more() -> None:
    """The probe is down and every other poll needs it: few messages, not one each five seconds."""
    now = [0.0]
    once = Deduplicator(lambda: now[0])
    lines = []
    for _ in range(1000):
        now[0] += 5.0
        lines.append(once.report("tasks", "no probe"))
        assert once.wrong() == {"tasks": "no probe"}
        now[0] += 5.0
        lines.append(once.clear("tasks"))
        assert once.wrong() == {}
    said = [line for line in lines if line is not None]
    assert said[:4:2] == ["no probe"] * 2
    assert [line.split(" after ")[0] for line in said[1:4:2]] == ["tasks: works again"] * 2
    assert said[4].startswith("no probe; this error is intermittent")
    assert len(said) == 5
    assert once.report("tasks", "no probe") is None
    assert once.report("tasks", "permission denied") == "permission denied"
    assert once.clear("tasks")
    now[0] += 600.0
    assert once.report("tasks", "permission denied") == "permission denied"


def test_a_temporary_level_ends_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`iowarden log-level debug --for 10m`: forgotten, it does not fill the journal."""
    now = [1000.0]
    monkeypatch.setattr(journal.time, "monotonic", lambda: now[0])
    with journal_socket(tmp_path / "s") as bound, log_to(tmp_path / "s", level="warning") as log:
        log.set_temporary_level("debug", 600.0)
        log.debug("first")
        log.set_level("info")  # a reload while it lasts
        now[0] += 599.0
        log.debug("second")
        now[0] += 1.0
        log.debug("third")
        log.send(journal.TROUBLE, 6, "fourth")
        said = [fields(bound.recv(65536))["MESSAGE"] for _ in range(4)]
    assert said == [b"first", b"second", b"log level is 'info' again", b"fourth"]


def test_a_temporary_level_can_be_ended(tmp_path: Path) -> None:
    """`--for 0s`: the level of the configuration is used at once."""
    with journal_socket(tmp_path / "s") as bound, log_to(tmp_path / "s", level="warning") as log:
        log.set_temporary_level("debug", 600.0)
        log.set_temporary_level("info", 0.0)
        log.debug("first")
        log.send(journal.TROUBLE, 4, "second")
        assert fields(bound.recv(65536))["MESSAGE"] == b"second"
