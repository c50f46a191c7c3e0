"""Completion in the shells themselves, by the files as they are built."""

from __future__ import annotations

import http.server
import os
import pty
import re
import select
import shutil
import subprocess
import threading
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
    ("iowarden setup --mail-tls s", ["starttls"]),
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


def completed(built: Path, *words: str, setup: str = "") -> list[str]:
    """What bash offers for the last word."""
    quoted = " ".join(f"'{word}'" for word in words)
    script = (
        f"{BASH}; {setup} COMP_WORDS=(iowarden {quoted}); COMP_CWORD={len(words)};"
        ' _shtab_iowarden; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    return lines(built, "bash", "--norc", "-c", script)


DISKS = "_iowarden_disks() { echo sda; echo sdb; echo nvme0n1; };"


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("explain", "DiskPend"), ["DiskPendingSectors"]),
        (("rules", "show", "ThinPoolFu"), ["ThinPoolFull"]),
        (("disk", "show", "sd"), ["sda", "sdb"]),
        (("selftest", "start", "nv"), ["nvme0n1"]),
        (("silence", "add", "dev"), ["device="]),
        (("silence", "add", "device", "=", "sd"), ["sda", "sdb"]),
        (("silence", "add", "severity", "="), ["critical", "info", "notice", "warning"]),
        (("silence", "add", "alertname", "=", "MdDegradedF"), ["MdDegradedFurther"]),
    ],
)
def test_bash_completes_disks_alerts_and_matchers(
    built: Path, words: tuple[str, ...], expected: list[str]
) -> None:
    """No program is started for it: one on a hung disk would hang the shell."""
    assert completed(built, *words, setup=f"{DISKS} PATH=/nonexistent;") == expected


def test_bash_reads_the_disks_of_this_host(built: Path) -> None:
    """Those of sysfs, without loop devices and optical drives."""
    found = lines(built, "bash", "--norc", "-c", f"{BASH}; _iowarden_disks")
    skipped = ("loop", "ram", "zram", "sr", "fd", "nbd")
    assert found == sorted(n for n in os.listdir("/sys/block") if not n.startswith(skipped))


@pytest.mark.parametrize(("kind", "expected"), [("incidents", "279479c6de"), ("silences", "2709")])
def test_bash_completes_the_incidents_and_silences_of_the_service(
    built: Path, kind: str, expected: str
) -> None:
    """By /metrics at its address; a service that does not run is no error."""
    metrics = 'iowarden_alert_info{alertname="A",incident="279479c6de"} 1\n' * 3
    metrics += 'iowarden_alert_info{incident="a7354159e8",x="1"} 1\niowarden_x{incident=""} 1\n'
    metrics += 'iowarden_silence_remaining_seconds{silence="2709"} 60\n'

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(metrics.encode())

        def log_message(self, *_: object) -> None:
            """Nothing on standard error."""

    text = (built / completion.FILES["bash"]).read_text()
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        port = server.server_address[1]
        copy = built / "service.bash"
        copy.write_text(text.replace("/dev/tcp/127.0.0.1/9748", f"/dev/tcp/127.0.0.1/{port}"))
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        command = f"source ./service.bash; _iowarden_complete_{kind} 27"
        assert lines(built, "bash", "--norc", "-c", command) == [expected]
        thread.join()
    assert lines(built, "bash", "--norc", "-c", f"{command} || :") == []
