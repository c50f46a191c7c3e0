"""A machine whose sysfs is written by hand and whose devices are images of file systems.

What the probe would run is run: the real program, after the probe's own list has allowed it, on the
image in the place of the device.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from iowarden.collectors.machine import Machine
from iowarden.collectors.model import AbsentError, ParseError, ProgramNotFoundError, ReadError
from iowarden.daemon.probe import allowed, owners

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

PLACES = os.pathsep.join(("/usr/sbin", "/sbin", "/usr/bin", "/bin"))
SECTOR = 512


class Imaged(Machine):
    """The machine. `images` by device ('/dev/sdb1'); `said` by command line, what is printed."""

    def __init__(
        self, path: str, images: Mapping[str, str], said: Mapping[str, str] | None = None
    ) -> None:
        """Run nothing yet."""
        super().__init__(path, page_size_bytes=4096)
        self.images = images
        self.said = said or {}
        self.asked: list[str] = []

    def query_probe(self, verb: str, *arguments: str, deadline_seconds: float = 30.0) -> str:
        """Run a program that root may run, or those of a verb, as the probe does."""
        if verb in owners.VERBS:
            assert owners.refusal(verb, arguments) == ""
            inner = Inner(self)
            try:
                value = owners.VERBS[verb].answer(inner, arguments, lambda: deadline_seconds)
            except ReadError:
                raise
            except ParseError as error:
                raise ReadError(str(error)) from error
            return json.dumps(value)
        if verb != "run":
            raise AbsentError(f"'{verb}': not here")
        allowed.match(arguments)
        return self.run(arguments, deadline_seconds)

    def run(self, arguments: Sequence[str], deadline_seconds: float) -> str:
        """Run a program, or say what it is to print."""
        line = " ".join(arguments)
        self.asked.append(line)
        if line in self.said:
            return json.dumps(
                {"status": 0, "signal": None, "stdout": self.said[line], "stderr": ""}
            )
        program = shutil.which(arguments[0], path=PLACES)
        if program is None or arguments[-1] not in {*self.images, *self.images.values()}:
            raise ProgramNotFoundError(f"'{arguments[0]}': not here")
        command = [program, *(self.images.get(word, word) for word in arguments[1:])]
        done = subprocess.run(command, capture_output=True, timeout=deadline_seconds, check=False)
        return json.dumps(
            {
                "status": done.returncode,
                "signal": None,
                "stdout": done.stdout.decode(errors="surrogateescape"),
                "stderr": done.stderr.decode(errors="surrogateescape"),
            }
        )


class Inner(Machine):
    """The machine as a verb of the probe has it: it runs programs that the service may not."""

    def __init__(self, outer: Imaged) -> None:
        """Run nothing yet."""
        super().__init__(outer.path, page_size_bytes=4096)
        self.outer = outer

    def query_probe(self, verb: str, *arguments: str, deadline_seconds: float = 30.0) -> str:
        """Run a program."""
        assert verb == "run"
        allowed.match(arguments, inner=True)
        return self.outer.run(arguments, deadline_seconds)


def make_ext4(image: Path, files: Path, *options: str, mebibytes: int = 24) -> None:
    """Make a file system of a directory, or skip the test where mkfs.ext4 is not installed."""
    program = shutil.which("mkfs.ext4", path=PLACES)
    if program is None or shutil.which("debugfs", path=PLACES) is None:
        pytest.skip("e2fsprogs is not here: 'apt install e2fsprogs'")
    with image.open("wb") as file:
        file.truncate(mebibytes << 20)
    command = [program, "-q", "-F", *options, "-d", str(files), str(image)]
    subprocess.run(command, check=True, capture_output=True)


def debugfs(image: Path, *requests: str) -> None:
    """Change an image."""
    program = shutil.which("debugfs", path=PLACES) or "debugfs"
    for request in requests:
        command = [program, "-w", "-R", request, str(image)]
        subprocess.run(command, check=True, capture_output=True)


def where_is(image: Path | bytes, content: bytes, size: int = SECTOR) -> dict[int, int]:
    """Return by sector where in a content, which is like no other, an image has it."""
    pieces = {content[at : at + size].ljust(size, b"\0"): at for at in range(0, len(content), size)}
    found = {}
    for start, data in [(0, image)] if isinstance(image, bytes) else written(image):
        for at in range(0, len(data), size):
            offset = pieces.get(data[at : at + size])
            if offset is not None:
                found[(start + at) // size] = offset
    return found


def written(image: Path) -> Iterator[tuple[int, bytes]]:
    """Yield what is in an image between its holes, and where. Source: lseek(2), SEEK_DATA."""
    with image.open("rb", buffering=0) as file:
        end = 0
        while True:
            try:
                start = os.lseek(file.fileno(), end, os.SEEK_DATA)
            except OSError as error:
                if error.errno != errno.ENXIO:  # only holes are left
                    raise
                return
            end = os.lseek(file.fileno(), start, os.SEEK_HOLE)
            yield start, os.pread(file.fileno(), end - start, start)


def partition(disk: str, number: int, start: int, sectors: int, major: int = 8) -> dict[str, str]:
    """Return what sysfs tells of a partition."""
    path = f"/sys/block/{disk}/{disk}{number}"
    return {
        f"{path}/partition": f"{number}\n",
        f"{path}/start": f"{start}\n",
        f"{path}/size": f"{sectors}\n",
        f"{path}/dev": f"{major}:{number}\n",
    }


def disk(name: str, sectors: int, number: str, *holders: str) -> dict[str, str | None]:
    """Return what sysfs tells of a whole device."""
    path = f"/sys/block/{name}"
    return {
        f"{path}/size": f"{sectors}\n",
        f"{path}/dev": f"{number}\n",
        f"{path}/queue/logical_block_size": "512\n",
        **dict.fromkeys((f"{path}/holders/{holder}" for holder in holders), None),
    }
