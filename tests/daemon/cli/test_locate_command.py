"""'iowarden locate': the accepted devices and ranges, and the output."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from iowarden.daemon.cli import command, locate_command
from iowarden.daemon.cli.main import main
from iowarden.daemon.locate.locate import Located
from iowarden.rules.topology.file_location import ContentKind, SectorContent, merged

if TYPE_CHECKING:
    from pathlib import Path


def hit(start: int, **fields: object) -> SectorContent:
    """Return sectors of a file."""
    usual = {
        "chain": (f"sdb sector {start}", f"sdb1 sector {start - 2048}", "ext4 block 45156"),
        "device": "sdb1",
        "file_system": "ext4",
        "inode": 19,
        "path": "/srv/pg/base/f6",
        "mounted": True,
        "offset_bytes": 8192,
        "bytes": 4096,
        "size_bytes": 100_000,
        "block_bytes": 4096,
        "in_place": True,
    }
    return SectorContent(start, 8, ContentKind.FILE, "", **{**usual, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["sdb"], "required: SECTOR[+COUNT]"),
        (["sdb", "12+"], "expected SECTOR or SECTOR+COUNT such as 363296+8, got '12+'"),
        (["sdb", "0x10"], "got '0x10'"),
        (["sdb", "+8"], "got '+8'"),
        (["sdb", "\u0661"], "got '\u0661'"),
        (["sdb", "9" * 40], "expected SECTOR"),
        (["sdb", "8+0"], "expected a COUNT of 1 to 65536 sectors, got 0"),
        (["sdb", "8+70000"], "in parts, the next one as '65544+65536'"),
        (
            ["/etc/passwd", "1"],
            "expected a block device such as sdb or /dev/sdb, got '/etc/passwd'",
        ),
        (["../sda", "1"], "got '../sda'"),
        (["sd a", "1"], "got 'sd a'"),
    ],
)
def test_a_command_line_that_is_none_reports_what_would_be(
    words: list[str], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rejected before the machine is queried."""
    with pytest.raises(SystemExit) as ended:
        main(["locate", *words])
    assert ended.value.code == 2
    assert error in " ".join(capsys.readouterr().err.split())


def test_who_may_not_ask_the_probe_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The user is neither root nor in the service's group."""
    monkeypatch.setattr(command, "PROBE_SOCKET", str(tmp_path / "probe.socket"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    (tmp_path / "iowarden.yaml").touch()
    words = ["locate", "sdb", "363296+8", "--config", str(tmp_path / "iowarden.yaml")]
    assert main(words) == 1
    assert "expected root, or a user with access to iowarden's probe" in capsys.readouterr().err


def test_an_answer_names_the_file_the_way_and_what_the_cure_destroys() -> None:
    """The answer has the file, the path through the devices, the steps, and what they destroy."""
    found = Located("sdb", 363296, 8, (hit(363296, other_paths=("/srv/link",)),), "sdb", 512)
    assert locate_command.lines(found) == [
        "sdb sector 363296 to 363303 (4 KiB): file /srv/pg/base/f6, bytes 8192 to 12287",
        "  other name of the file: /srv/link",
        "  path: sdb sector 363296 > sdb1 sector 361248 > ext4 block 45156",
        (
            "  with a backup of exactly this version of the file (set BACKUP to the path of its"
            " copy"
            " first): rewrite this block from it, and the drive replaces the sectors; no program"
            " may use the file meanwhile"
        ),
        "    destroys: bytes 8192 to 12287 of the file, as far as they can still be read",
        (
            '    dd if="$BACKUP" of=/srv/pg/base/f6 skip=2 bs=4096 seek=2 count=1'
            " conv=notrunc,fsync,sync oflag=direct"
        ),
        (
            "  without a backup: force the drive to replace the sectors by overwriting this block"
            " of"
            " the file; no program may use the file meanwhile"
        ),
        "    destroys: bytes 8192 to 12287 of the file, permanently: they become zeros",
        (
            "    dd if=/dev/zero of=/srv/pg/base/f6 bs=4096 seek=2 count=1 conv=notrunc,fsync"
            " oflag=direct"
        ),
        (
            "  then restore /srv/pg/base/f6 from a backup (set BACKUP to the path of its copy"
            " first); the rest of it can still be read"
        ),
        "    destroys: what /srv/pg/base/f6 holds now",
        '    cp -p -- "$BACKUP" /srv/pg/base/f6',
        (
            "  to mark the block as bad in the file system, permanently; unmounts it and reads the"
            " whole device, which takes hours"
        ),
        "    destroys: the content of files that hold unreadable blocks, which become zeros",
        "    umount /dev/sdb1 && e2fsck -f -c /dev/sdb1",
    ]
    data = json.loads(json.dumps(locate_command.as_data(found)))
    assert data["answers"][0]["path"] == "/srv/pg/base/f6"
    assert data["answers"][0]["steps"][1]["command"].startswith("dd if=/dev/zero")


def test_of_several_things_none_is_overwritten_before_it_is_known_which_was_hit() -> None:
    """A failed request covers two files: the first step finds the sector."""
    other = hit(363304, path="/srv/b", offset_bytes=0)
    found = Located("sdb", 363296, 16, (hit(363296), other), "sdb", 4096)
    text = locate_command.lines(found)
    assert text[1] == (
        "  for N in $(seq 45412 45413); do dd if=/dev/sdb of=/dev/null bs=4096 skip=$N count=1"
        " iflag=direct status=none 2>/dev/null || echo $((N * 8)); done"
    )
    assert "iowarden locate sdb SECTOR" in text[0]
    zeros = [line for line in text if "if=/dev/zero" in line]
    assert len(zeros) == 2
    assert all(" seek=N " in line for line in zeros)
    assert sum("for N in $(seq" in line for line in text) == 3


def test_of_many_blocks_those_that_can_be_read_are_not_overwritten() -> None:
    """A failed request, of which perhaps only one sector is bad."""
    whole = replace(hit(363296, bytes=12_288, size_bytes=20_000), count=24)
    text = locate_command.lines(Located("sdb", 363296, 24, (whole,), "sdb", 512))
    (read,) = (line for line in text if "of=/dev/null" in line)
    assert read == (
        "    for N in $(seq 2 4); do dd if=/srv/pg/base/f6 of=/dev/null bs=4096 skip=$N count=1"
        " iflag=direct status=none || echo $N; done"
    )
    (write,) = (line for line in text if "if=/dev/zero" in line)
    assert " seek=N count=1 " in write
    assert write.endswith("&& truncate -s 20000 /srv/pg/base/f6")
    assert any("destroys: the 4096 bytes of that block of the file" in line for line in text)


@pytest.mark.parametrize("path", ["/srv/two  blanks", "/srv/a\nb", "/srv/\u202ea", "/srv/\udcff"])
def test_a_name_that_does_not_print_as_it_is_gets_no_command(path: str) -> None:
    """A command copied from the terminal would name another file."""
    found = Located("sdb", 363296, 8, (hit(363296, path=path),), "sdb", 512)
    assert not any("dd if=" in line for line in locate_command.lines(found))


@pytest.mark.parametrize(
    "fields",
    [
        {"mounted": False},
        {"in_place": False},
        {"size_bytes": None},
        {"bytes": 0},
        {"offset_bytes": None},
        {"path": ""},
    ],
)
def test_a_file_that_is_not_surely_hit_there_is_not_overwritten(fields: dict[str, object]) -> None:
    """Shared by copy-on-write, not mounted, or without an offset: only a backup helps."""
    found = Located("sdb", 363296, 8, (hit(363296, **fields),), "sdb", 512)
    assert not any("dd if=" in line for line in locate_command.lines(found))


def test_what_is_behind_the_end_of_a_file_needs_no_backup() -> None:
    """The rest of the last block contains no data of the file."""
    found = Located("sdb", 363296, 8, (hit(363296, bytes=0),), "sdb", 512)
    text = locate_command.lines(found)
    assert text[2] == "  nothing is lost: the drive replaces the sector when it is next written"
    assert not any("BACKUP" in line for line in text)


def test_blocks_that_go_on_in_one_file_are_one_answer() -> None:
    """Two adjacent blocks of a file; a third elsewhere in it, another file, a gap."""
    first, second = hit(2048), hit(2056, offset_bytes=12288)
    (one,) = merged([second, first])
    assert (one.start, one.count, one.offset_bytes, one.bytes) == (2048, 16, 8192, 8192)
    assert len(merged([first, hit(2056, offset_bytes=40960)])) == 2
    assert len(merged([first, hit(2056, offset_bytes=12288, path="/srv/other")])) == 2
    assert len(merged([first, hit(2064, offset_bytes=12288)])) == 2
    assert len(merged([first, hit(2056, offset_bytes=None)])) == 2
    free = [SectorContent(start, 8, ContentKind.FREE, "free") for start in (0, 8, 16)]
    (whole,) = merged(free)
    assert (whole.start, whole.count) == (0, 24)


@pytest.mark.parametrize(
    "kind", [ContentKind.METADATA, ContentKind.JOURNAL, ContentKind.RESERVED, ContentKind.UNKNOWN]
)
def test_what_is_no_files_is_not_written_before_it_is_known(kind: ContentKind) -> None:
    """The first step reads; the one that writes comes last and names what it destroys."""
    answer = SectorContent(8, 8, kind, "why", device="sdb1", file_system="ext4")
    text = locate_command.lines(Located("sdb", 8, 8, (answer,), "sdb", 512))
    writes = [at for at, line in enumerate(text) if "write-sector" in line or "e2fsck -f" in line]
    assert all("destroys: " in text[at - 1] for at in writes)
    assert min(writes) > 1
    partition = Located("sdb1", 8, 8, (answer,))
    assert not any("hdparm" in line for line in locate_command.lines(partition))
