"""The list of bad blocks of an ext file system, as dumpe2fs prints it."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from iowarden.collectors.filesystem import bad_blocks
from iowarden.collectors.filesystem.bad_blocks import BadBlocks, parse_bad_blocks, read_bad_blocks
from iowarden.collectors.machine import probe_path
from iowarden.collectors.model import AbsentError, ParseError

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import MachineMaker

BANNER = "dumpe2fs 1.47.0 (5-Feb-2023)\n"


def answer(output: str, errors: str = BANNER) -> str:
    """Return the probe's answer."""
    return json.dumps({"status": 0, "signal": None, "stdout": output, "stderr": errors})


def recorded(device: str) -> str:
    """Return the place of the answer in a recording."""
    return probe_path("run", ("dumpe2fs", "-b", f"/dev/{device}"))


@pytest.mark.parametrize("blocks", [[], [2000, 2001, 3000]])
def test_the_program_prints_a_number_in_each_line(tmp_path: Path, blocks: list[int]) -> None:
    """A file system that mke2fs made with a list of bad blocks, and one without."""
    programs = [shutil.which(name, path="/usr/sbin:/sbin") for name in ("mke2fs", "dumpe2fs")]
    if None in programs:
        pytest.skip("e2fsprogs is not installed")
    make, dump = programs
    image, bad = tmp_path / "image", tmp_path / "bad"
    with image.open("wb") as file:
        file.truncate(16 << 20)
    bad.write_text("".join(f"{block}\n" for block in blocks))
    subprocess.run([make, "-q", "-F", "-l", bad, image], check=True)
    found = subprocess.run([dump, "-b", image], capture_output=True, text=True, check=True)
    assert parse_bad_blocks(found.stdout + found.stderr) == len(blocks)


@pytest.mark.parametrize(
    "text",
    [
        "dumpe2fs: Bad magic number in super-block while trying to open /dev/sda1\n",
        "2000\n2001 2002\n",
        "-1\n",
        "Bad blocks: 2000\n",
    ],
)
def test_what_is_no_list_is_no_empty_list(text: str) -> None:
    """An error message is a line as well."""
    with pytest.raises(ParseError, match="'dumpe2fs -b': expected a number in each line"):
        parse_bad_blocks(BANNER + text)


def test_each_mounted_file_system_has_its_list(machine: MachineMaker) -> None:
    """One that cannot be read, or whose disk hangs, is unknown; the others are read."""
    root = machine(
        {
            "/sys/fs/ext4/features/lazy_itable_init": "supported\n",
            **{f"/sys/fs/ext4/{name}/errors_count": "0\n" for name in ("dm-0", "sda1", "sdb1")},
            recorded("dm-0"): answer(""),
            recorded("sda1"): answer("2000\n2001\n"),
            recorded("sdb1"): answer("", BANNER + "dumpe2fs: Input/output error\n"),
        }
    )
    found = read_bad_blocks(root, lambda part: "no answer for 20 s" if part == "dm-0" else "")
    assert found["sda1"] == BadBlocks("sda1", 2)
    assert bad_blocks.emit(found) == [("iowarden_ext4_bad_blocks", (("device", "sda1"),), 2.0)]
    reasons = {dict(labels)["device"]: reason for labels, reason in bad_blocks.unreadable(found)}
    assert reasons["dm-0"] == "no answer for 20 s"
    assert "Input/output error" in reasons["sdb1"]
    assert bad_blocks.emit(read_bad_blocks(root))[0][2] == 0.0


def test_without_probe_program_or_file_system_there_is_no_such_data(machine: MachineMaker) -> None:
    """Absent, and not empty lists."""
    for files in (
        {},
        {"/sys/fs/ext4/features/lazy_itable_init": "supported\n"},
        {"/sys/fs/ext4/sda1/errors_count": "0\n"},
    ):
        with pytest.raises(AbsentError):
            read_bad_blocks(machine(files))
