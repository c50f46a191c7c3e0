"""'iowarden locate DEVICE SECTOR[+COUNT]': find the file that owns a sector, and what to do.

Reads this machine itself: as root through a probe of its own, as a member of the service's group
through the service's probe; the service need not run. Nothing is written.
Exit status: 0 all sectors were located, 1 some or all could not be, 2 for wrong usage, 130 after
Ctrl-C.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import sys
import time
from typing import TYPE_CHECKING

from iowarden.collectors.machine import Machine
from iowarden.collectors.model import AbsentError, ParseError, ReadError
from iowarden.collectors.quantity import size
from iowarden.daemon.cli import command
from iowarden.daemon.cli.service_client import ServiceError, guarded
from iowarden.daemon.clock import SystemClock
from iowarden.daemon.locate.locate import MAX_SECTORS, LocateError, locate
from iowarden.daemon.terminal.console import print_json, show
from iowarden.rules.topology.file_location import ContentKind, sentence, steps, unreadable

if TYPE_CHECKING:
    from iowarden.daemon.cli.command import Add
    from iowarden.daemon.locate.locate import Located

EXIT_UNKNOWN = 1
CLOSE_SECONDS = 2.0
_RANGE = re.compile(r"(\d{1,18})(?:\+(\d{1,9}))?", re.ASCII)
_DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:!/-]{0,99}", re.ASCII)


def add_commands(add: Add) -> None:
    """Add the command, by a function that takes name and what runs."""
    located = add("locate", lambda arguments: guarded(_locate, arguments))
    command.configured(located)
    located.add_argument(
        "device", type=_device, metavar="DEVICE", help="name as in the kernel's log: sdb, md0"
    )
    located.add_argument(
        "range",
        type=_range,
        metavar="SECTOR[+COUNT]",
        help="in sectors of 512 bytes from the start of the device, also on 4K drives",
    )
    located.add_argument("--json", action="store_true", help="print the answer as JSON")


def _device(text: str) -> str:
    """Return the kernel's name of a device; symbolic links, as in '/dev/mapper', are resolved."""
    path = os.path.realpath(text) if text.startswith("/") else f"/dev/{text}"
    name = path.removeprefix("/dev/")
    if not path.startswith("/dev/") or not _DEVICE.fullmatch(name) or ".." in name:
        raise argparse.ArgumentTypeError(
            f"expected a block device such as sdb or /dev/sdb, got '{text}'"
        )
    return name


def _range(text: str) -> tuple[int, int]:
    found = _RANGE.fullmatch(text)
    if found is None:
        raise argparse.ArgumentTypeError(
            f"expected SECTOR or SECTOR+COUNT such as 363296+8, got '{text}'"
        )
    count = int(found[2] or 1)
    if not 0 < count <= MAX_SECTORS:
        raise argparse.ArgumentTypeError(
            f"expected a COUNT of 1 to {MAX_SECTORS} sectors, got {count}; locate more in parts,"
            f" the next one as '{int(found[1]) + MAX_SECTORS}+{MAX_SECTORS}'"
        )
    return int(found[1]), count


def _locate(arguments: argparse.Namespace) -> int:
    config = command.settings(arguments)
    client = command.probe(config, SystemClock())
    if client is None:
        raise ServiceError(
            "locate: expected root, or a user with access to iowarden's probe, got neither; run it"
            " with sudo" + ("" if config.probe else ", and see 'probe' in the configuration")
        )
    if sys.stderr.isatty():
        sys.stderr.write("searching for the owner; on a large file system this takes minutes\n")
    start, count = arguments.range
    client.begin()
    try:
        root = Machine(probe=client.request)
        found = locate(root, arguments.device, start, count, time.monotonic)
    except (LocateError, AbsentError, ReadError, ParseError) as error:
        raise ServiceError(str(error)) from error
    finally:
        client.close(CLOSE_SECONDS)
    if arguments.json:
        print_json(as_data(found))
    else:
        show([*lines(found)])
    return EXIT_UNKNOWN if any(each.kind is ContentKind.UNKNOWN for each in found.answers) else 0


def as_data(found: Located) -> dict[str, object]:
    """Return the result for JSON: each answer with the steps to take."""
    sure = len(found.answers) == 1
    return {
        "device": found.device,
        "sector": found.start,
        "sectors": found.count,
        "answers": [
            {
                **dataclasses.asdict(answer),
                "sentence": sentence(answer),
                "steps": [
                    dataclasses.asdict(step)
                    for step in steps(answer, found.disk, found.sector_bytes, sure=sure)
                ],
            }
            for answer in found.answers
        ],
    }


def lines(found: Located) -> list[str]:
    """Return the result as text: each answer, the devices it was traced through, what to do."""
    text = []
    sure = len(found.answers) == 1
    if not sure:
        step = unreadable(found.device, found.start, found.start + found.count, found.sector_bytes)
        text += [f"the sectors have several owners; {step.text}", f"  {step.command}"]
    for answer in found.answers:
        last = answer.end - 1
        place = f"sector {answer.start}" + (f" to {last}" if last != answer.start else "")
        text.append(f"{found.device} {place} ({size(answer.count * 512)}): {sentence(answer)}")
        text += [f"  other name of the file: {path}" for path in answer.other_paths]
        if len(answer.chain) > 1:
            text.append(f"  path: {' > '.join(answer.chain)}")
        for step in steps(answer, found.disk, found.sector_bytes, sure=sure):
            text.append(f"  {step.text}")
            if step.destroys:
                text.append(f"    destroys: {step.destroys}")
            if step.command:
                text.append(f"    {step.command}")
    return text
