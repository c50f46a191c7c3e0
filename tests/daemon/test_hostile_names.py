"""Names that somebody else chose, in every output: what a drive, a user or a program calls itself.

One machine has every hostile text in every field; each face of the service is searched for it.
"""

from __future__ import annotations

import json
import shutil
import socket
import struct
import subprocess
import unicodedata
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.live import NOTE, Live, watched

from iowarden.collectors.printable import MAX_NAME_CHARACTERS, escaped, is_safe, name
from iowarden.daemon.control import listen
from iowarden.daemon.sanitize import document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.live import Watched

HOSTILE = {
    "crlf": "ok\r\n  rm -rf /srv\r\nBcc: all@example.com",
    "html": "<script>alert(1)</script>\"'&amp;",
    "ansi": "\x1b[31mred\x1b]0;title\x07\x1b[2J",
    "bidi": "user\u202egnp.exe\u2066\u200f",
    "c1": "\x9b2J\x85next\x90",
    "zero-width": "s\u200bd\ufeffa\u00ad",
    "private": "\ue000\U000f0000",
    "promql": 'a"} or up{job="x',
    "template": "{{ query `up` }} {host} %s",
    "long": "A" * 10_000,
    "longer": "A" * 10_000 + "B",
}
NAMES = dict(zip(HOSTILE, "cdefghijklm", strict=True))
"""The disk of each text."""
COMMANDS = (
    ("status",), ("monitoring",), ("disk", "list"), ("incident", "list", "--all"), ("events",),
    ("advise",), ("silence", "list"), ("selftest", "status"), ("scan", "status"),
    ("query", "iowarden_disk_monitoring_state"), ("query", "ALERTS"),
    *((("disk", "show", f"sd{letter}")) for letter in NAMES.values()),
)  # fmt: skip
REQUESTS = (
    *({"command": command} for command in ("status", "monitoring", "incident list", "events")),
    *({"command": command} for command in ("advise", "silence list")),
    {"command": "query", "expression": '{__name__=~"iowarden_.*"}'},
)
LONGEST_LINE = 4000
"""Characters of a text in a document; the hostile ones have 10,000."""


def octal(text: str) -> str:
    """A name as the kernel writes it in '/proc/1/mountinfo'."""
    return "".join(rf"\{ord(c):03o}" if c in " \t\n\\" else c for c in text)


def hostile_files() -> dict[str, str | bytes | None]:
    """Disks, mounts and kernel lines whose names are the hostile texts."""
    files: dict[str, str | bytes | None] = {}
    mounts, numbers = [], {}
    for number, (what, letter) in enumerate(NAMES.items()):
        text, base = HOSTILE[what], f"/sys/block/sd{letter}"
        serial = text.encode()
        numbers[letter] = f"8:{number * 16}"
        files |= {
            f"{base}/dev": f"{numbers[letter]}\n",
            f"{base}/slaves": None,
            f"{base}/holders": None,
            f"{base}/size": "1953525168\n",
            f"{base}/device/timeout": "30\n",
            f"{base}/device/vendor": f"{text[:300]}\n",
            f"{base}/device/model": f"{text}\n",
            f"{base}/device/vpd_pg80": struct.pack(">BBH", 0, 0x80, len(serial)) + serial,
        }
        point = "/mnt/" + text.replace("/", "_")
        options = "rw,strictatime" if number % 2 else "ro,noatime"
        mounts.append(
            f"{number} 1 {numbers[letter]} / {octal(point)} {options} -"
            f" ext4 /dev/{octal(text)} rw\n"
        )
        files[f"{point.rstrip('/')}/.statvfs"] = "".join(
            f"{key} {value}\n" for key, value in {
                "device_number": numbers[letter], "block_bytes": 4096, "fragment_bytes": 4096,
                "blocks": 1000, "blocks_free": 0, "blocks_available": 0,
                "files": 1000, "files_free": 0,
            }.items()
        ) if len(point) < 200 and "\n" not in point and "\r" not in point else None  # fmt: skip
    files = {path: content for path, content in files.items() if "statvfs" not in path or content}
    files["/proc/1/mountinfo"] = "".join(mounts)
    files["/proc/diskstats"] = "".join(
        f"8 {number * 16} sd{letter} 0 0 0 0 9 0 9 0 1 0 0 0 0 0 0 0 0\n"
        for number, letter in enumerate(NAMES.values())
    )
    return files


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """The service on such a machine, whose disks have stopped completing requests."""
    directory = tmp_path_factory.mktemp("hostile")
    live = Live(directory)
    (directory / "rules.d").mkdir(exist_ok=True)
    (directory / "rules.d/mine.yaml").write_text(NOTE)
    with watched(directory, live) as on:
        on.wait_only(3.0)  # what is in flight at the first sample may have leaked
        live.change(hostile_files())
        on.wait_only(120.0)
        yield on


def texts(value: object, path: str = "") -> Iterator[tuple[str, str]]:
    """Every text in a document, keys included, with the field it is in."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield f"{path} key", key
            yield from texts(each, f"{path}.{key}")
    elif isinstance(value, list):
        for each in value:
            yield from texts(each, path)


def unsafe(text: str, keep: str = "") -> str:
    """What of a text could change a terminal, the order of letters, or a line's end."""
    wrong = {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}
    return "".join(c for c in text if unicodedata.category(c) in wrong and c not in keep)


def answers(on: Watched, request: dict[str, str]) -> str:
    """What the control socket sends, as text."""
    path = str(on.program.state / listen.FILE_NAME)
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        client.sendall(json.dumps(request).encode() + b"\n")
        client.setblocking(False)
        got = bytearray()

        def whole() -> bool:
            try:
                got.extend(client.recv(1 << 20))
            except BlockingIOError:
                return False
            return got.endswith(b"\n")

        on.program.until(whole, f"an answer to {request}")
    return got.decode()


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_terminal_gets_no_escape_of_others(machine: Watched, words: tuple[str, ...]) -> None:
    """Neither a colour, nor another title, nor letters in another order; as text and as JSON."""
    for found in (machine.program.command(*words), machine.program.command(*words, "--json")):
        assert unsafe(found.stdout + found.stderr, "\n") == ""
        assert max(map(len, found.stdout.splitlines()), default=0) < LONGEST_LINE


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_json_is_safe_once_decoded(machine: Watched, words: tuple[str, ...]) -> None:
    r"""`jq -r` prints what '\u001b' stands for."""
    out = machine.program.command(*words, "--json").stdout
    found = [json.loads(line) for line in out.splitlines()] if words[0] == "events" else [
        json.loads(out)
    ]  # fmt: skip
    bad = [(path, text) for path, text in texts(found) if unsafe(text, "\n")]
    assert bad == []
    lines = [text for path, text in texts(found) if "\n" in text and "rm -rf" in text]
    assert [text for text in lines if "\n  rm -rf" in text] == []


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: request["command"])
def test_the_control_socket_is_safe(machine: Watched, request_: dict[str, str]) -> None:
    """Other clients than the command get the same."""
    found = json.loads(answers(machine, request_))
    assert "answer" in found
    assert [(path, text) for path, text in texts(found) if unsafe(text, "\n")] == []
    labels = [text for path, text in texts(found) if ".labels" in path]
    assert max(map(len, labels), default=0) <= MAX_NAME_CHARACTERS


def test_metric_labels_are_safe_and_different(machine: Watched) -> None:
    """Two names of 10,000 letters that differ in the last one are two series for Prometheus."""
    service = machine.program._service
    assert service is not None
    content = service._dependencies.exposition.render()
    text = content.decode()
    assert unsafe(text, "\n") == ""
    series = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(series) == len(set(series))
    own = [line for line in series if line.startswith("iowarden_mount_read_only{")]
    assert len(own) == len(HOSTILE)
    assert any("<script>alert(1)<" in line for line in own)
    assert max(map(len, series)) < 5 * MAX_NAME_CHARACTERS
    promtool = shutil.which("promtool")
    assert promtool, "make build/tools/promtool"
    done = subprocess.run([promtool, "check", "metrics"], input=content, check=False,
                          capture_output=True)  # fmt: skip
    assert b"error" not in done.stderr, done.stderr


def test_the_log_is_safe(machine: Watched) -> None:
    """Standard error; a journal gets the same lines, see test_journal.py."""
    assert unsafe(machine.program.text(), "\n") == ""


def test_each_incident_is_safe_and_advises_no_command_of_others(machine: Watched) -> None:
    """A line end in the name of a mount would put a command of its own below 'what to do'."""
    found = json.loads(machine.program.command("incident", "list", "--json").stdout)["incidents"]
    assert len(found) > len(HOSTILE)
    for each in found:
        shown = machine.program.command("incident", "show", each["identifier"]).stdout
        assert unsafe(shown, "\n") == ""
        assert [line for line in shown.splitlines() if line.strip().startswith("rm -rf")] == []
        assert max(map(len, shown.splitlines())) < LONGEST_LINE
        detail = json.loads(
            machine.program.command("incident", "show", each["identifier"], "--json").stdout
        )
        assert [(path, text) for path, text in texts(detail) if unsafe(text, "\n")] == []


def test_a_disk_is_found_by_the_name_that_is_shown(machine: Watched) -> None:
    """Copied from the list of disks, escaped and cut as it is."""
    disks = json.loads(machine.program.command("disk", "list", "--json").stdout)
    for each in [disk for disk in disks if disk["device"] in {f"sd{x}" for x in NAMES.values()}]:
        found = machine.program.command("disk", "show", each["disk"], "--json")
        assert found.returncode == 0, found.stderr
        assert json.loads(found.stdout)["line"]["device"] == each["device"]


@pytest.mark.parametrize(
    "text",
    ["WDC WD40EFRX-68N32N0", "/media/Günther/Müll 2", "/srv/データ", "dev-disk-by\\x2duuid",
     "50°C €", "/mnt/a\u00a0b", "A" * MAX_NAME_CHARACTERS, ""],
)  # fmt: skip
def test_an_ordinary_name_is_unchanged(text: str) -> None:
    """Its series, incidents and history go on."""
    assert name(text) == text


@given(st.text(st.characters(exclude_categories=())), st.text(st.characters(exclude_categories=())))
def test_two_names_stay_two(one: str, other: str) -> None:
    """Whatever is escaped or cut; and what is shown needs no second escape."""
    assert (name(one) == name(other)) == (one == other)
    assert is_safe(name(one))
    assert name(name(one)) == name(one)
    assert len(name(one)) <= MAX_NAME_CHARACTERS


def test_a_cut_name_says_so() -> None:
    """Its beginning, an ellipsis and the mark; the escape of the last character may be cut."""
    shown = name("x" * 300)
    assert (len(shown), shown[:200]) == (MAX_NAME_CHARACTERS, "x" * 200)
    assert shown[-12:-8] == "...~"
    assert len(name("\x1b" * 200)) == MAX_NAME_CHARACTERS


def test_a_document_keeps_its_numbers_and_lines() -> None:
    """Texts of several lines keep their line ends, names do not."""
    found = {"advice": "one:\n  two\x1b", "object": "a\nb", "n": 1.5, "none": None, "ok": True}
    assert document(found) == {
        "advice": "one:\n  two\\x1b", "object": "a\\x0ab", "n": 1.5, "none": None, "ok": True,
    }  # fmt: skip
    assert document({"labels": {"disk": "a\x1b"}}) == {"labels": {"disk": name("a\x1b")}}
    assert escaped("a\r\nb", "\n") == "a\\x0d\nb"
