"""Loop devices and mounts for tests that root runs; skipped where they may not be made."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from support.images import PLACES

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


def command(*words: str) -> str:
    """Run a program, or skip the test where it is not installed or may not do that here."""
    program = shutil.which(words[0], path=PLACES)
    if program is None:
        pytest.skip(f"'{words[0]}' is not here")
    done = subprocess.run([program, *words[1:]], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout.strip()


@contextlib.contextmanager
def loops(tmp_path: Path, count: int, mebibytes: int) -> Iterator[list[tuple[str, Path]]]:
    """Make loop devices, each with the image it is of: 'loop0'."""
    with contextlib.ExitStack() as stack:
        found = []
        for number in range(count):
            image = tmp_path / f"image{number}"
            with image.open("wb") as file:
                file.truncate(mebibytes << 20)
            device = command("losetup", "--find", "--show", str(image))
            stack.callback(command, "losetup", "--detach", device)
            found.append((device.removeprefix("/dev/"), image))
        yield found


@contextlib.contextmanager
def at(point: Path, device: str, *options: str) -> Iterator[Path]:
    """Mount a device."""
    point.mkdir(exist_ok=True)
    mount(device, point, options)
    try:
        yield point
    finally:
        command("umount", str(point))


def mount(device: str, point: Path, options: Sequence[str] = ()) -> None:
    """Mount a device, until somebody unmounts it."""
    command("mount", *(word for option in options for word in ("-o", option)), device, str(point))
