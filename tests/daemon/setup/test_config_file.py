"""The configuration is replaced as a whole or not at all, and is readable for few at all times."""

from __future__ import annotations

import contextlib
import grp
import os
import stat
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from iowarden.daemon.setup import config_file
from iowarden.daemon.setup.config_file import ConfigFileError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

GROUP = grp.getgrgid(os.getegid()).gr_name
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="makes files of another group")


@pytest.fixture(autouse=True)
def _known_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that exists on the machine of the tests."""
    monkeypatch.setattr(config_file, "GROUP", GROUP)


def mode(path: Path) -> int:
    """The permissions of a file."""
    return stat.S_IMODE(path.stat().st_mode)


@as_root
def test_a_new_file_belongs_to_root_and_the_service_may_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """0640 root:iowarden, whatever the umask, and its directory 0750."""
    monkeypatch.setattr(config_file, "GROUP", "nogroup")
    path = tmp_path / "iowarden" / "iowarden.yaml"
    before = os.umask(0o077)
    try:
        assert config_file.replace(config_file.read(str(path)), b"host: a\n")
    finally:
        os.umask(before)
    group = grp.getgrnam("nogroup").gr_gid
    for each, wanted in ((path, 0o640), (path.parent, 0o750)):
        assert (each.stat().st_uid, each.stat().st_gid, mode(each)) == (0, group, wanted)


def test_a_file_with_the_same_content_is_left_alone(tmp_path: Path) -> None:
    """Not even its time changes; but a password that others can read is closed."""
    path = tmp_path / "password"
    config_file.replace(config_file.read(str(path)), b"secret\n")
    first = path.stat()
    assert not config_file.replace(config_file.read(str(path)), b"secret\n")
    assert path.stat() == first
    path.chmod(0o644)
    assert config_file.replace(config_file.read(str(path)), b"secret\n")
    assert mode(path) == 0o640


def test_at_no_time_may_others_read_it(tmp_path: Path) -> None:
    """The content is written only after owner and mode: the kernel's own record of each call."""
    path = tmp_path / "iowarden.yaml"
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from iowarden.daemon.setup import config_file\n"
        f"config_file.GROUP = {GROUP!r}\n"
        "found = []\n"
        "def audit(event, arguments):\n"
        "    if event in ('os.chmod', 'os.chown', 'os.rename'):\n"
        f"        for new in Path({str(tmp_path)!r}).glob('.iowarden.yaml.*.new'):\n"
        "            found.append((event, oct(new.stat().st_mode & 0o777), new.stat().st_size))\n"
        "sys.addaudithook(audit)\n"
        f"config_file.replace(config_file.read({str(path)!r}), b'host: a')\n"
        "print(found)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    ).stdout
    assert "('os.rename', '0o640', 7)" in told
    assert told.count("'0o600', 0)") == 1 + (os.geteuid() == 0)


def test_the_target_of_a_link_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    """A configuration that is managed elsewhere stays there."""
    managed = tmp_path / "managed.yaml"
    managed.write_text("host: a\n")
    link = tmp_path / "iowarden.yaml"
    link.symlink_to(managed)
    config_file.replace(config_file.read(str(link)), b"host: b\n")
    assert link.is_symlink()
    assert managed.read_text() == "host: b\n"


def test_what_an_editor_saved_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    """Two administrators at once: the second one is told, and nothing of the first is lost."""
    path = tmp_path / "iowarden.yaml"
    path.write_text("host: a\n")
    file = config_file.read(str(path))
    path.write_text("host: edited\n")
    with pytest.raises(ConfigFileError, match="another program changed it meanwhile"):
        config_file.replace(file, b"host: b\n")
    assert path.read_text() == "host: edited\n"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["iowarden.yaml"]


def test_of_two_runs_at_once_one_is_refused(tmp_path: Path) -> None:
    """Both read the same file; the lock makes one of them see what the other wrote."""
    path = tmp_path / "iowarden.yaml"
    path.write_text("host: a\n")
    ended: list[object] = []
    file = config_file.read(str(path))
    begin = threading.Barrier(2)

    def run(content: bytes) -> None:
        begin.wait()
        try:
            ended.append(config_file.replace(file, content))
        except ConfigFileError as error:
            ended.append(error)

    with contextlib.ExitStack() as stack:
        for content in (b"host: b\n", b"host: c\n"):
            thread = threading.Thread(target=run, args=(content,))
            thread.start()
            stack.callback(thread.join)
    assert sorted(type(each).__name__ for each in ended) == ["ConfigFileError", "bool"]
    assert path.read_text() in {"host: b\n", "host: c\n"}


@contextlib.contextmanager
def small_disk(path: Path, options: str) -> Iterator[Path]:
    """Mount a file system in memory; skip where that is not permitted."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        pytest.skip("may not mount here")
    try:
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True)


@pytest.mark.parametrize("before", [None, "host: a\n"])
def test_a_rehearsal_leaves_nothing_behind(tmp_path: Path, before: str | None) -> None:
    """No directory and no file that was not there; the file that was there is as it was."""
    path = tmp_path / "etc" / "iowarden.yaml"
    if before is not None:
        path.parent.mkdir()
        path.write_text(before)
    present = sorted(map(str, tmp_path.rglob("*")))
    config_file.rehearse(config_file.read(str(path)), b"host: b\n")
    assert sorted(map(str, tmp_path.rglob("*"))) == present
    assert (path.read_text() if path.exists() else None) == before


@as_root
def test_a_full_disk_keeps_the_old_file(tmp_path: Path) -> None:
    """No half a file, no leftover, and the command that shows the space."""
    with small_disk(tmp_path / "etc", "size=8k") as etc:
        path = etc / "iowarden.yaml"
        path.write_text("host: a\n")
        file = config_file.read(str(path))
        with contextlib.suppress(OSError):
            (etc / "full").write_bytes(b"x" * 65536)
        with pytest.raises(ConfigFileError, match=f"full: see 'df {etc}'"):
            config_file.replace(file, b"host: b\n")
        assert path.read_text() == "host: a\n"
        assert sorted(each.name for each in etc.iterdir()) == ["full", "iowarden.yaml"]


@as_root
def test_a_read_only_etc_is_named(tmp_path: Path) -> None:
    """After an error of the disk the root file system is read-only."""
    with small_disk(tmp_path / "etc", "size=64k") as etc:
        path = etc / "iowarden.yaml"
        path.write_text("host: a\n")
        file = config_file.read(str(path))
        subprocess.run(["mount", "-o", "remount,ro", str(etc)], check=True)
        with pytest.raises(ConfigFileError, match=r"nothing was changed; .* mounted read-only"):
            config_file.replace(file, b"host: b\n")


@as_root
def test_without_the_service_s_group_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that the service could not read would stop it at its next start."""
    monkeypatch.setattr(config_file, "GROUP", "no-such-group")
    with pytest.raises(ConfigFileError, match=r"group 'no-such-group'.*install iowarden first"):
        config_file.replace(config_file.read(str(tmp_path / "a")), b"host: a\n")
    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize("content", [b"host: \xff\n", b"#" * 70000])
def test_what_is_no_configuration_is_not_read(tmp_path: Path, content: bytes) -> None:
    """Another encoding, or another file altogether."""
    path = tmp_path / "iowarden.yaml"
    path.write_bytes(content)
    with pytest.raises(ConfigFileError, match=r"UTF-8|at most 65536 bytes"):
        _ = config_file.read(str(path)).text


def test_a_pipe_or_a_directory_in_its_place_is_named(tmp_path: Path) -> None:
    """A named pipe without a writer does not block."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(ConfigFileError, match=r"regular file|directory"):
            config_file.read(str(path))
