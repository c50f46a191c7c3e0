"""SMART of a disk behind an Areca by its own program, for where smartctl has no way to it.

Source: 'cli64 disk smart drv=N' and 'disk info drv=N'. N is the first column of 'disk info'; on a
card without enclosures that is the channel, which is smartctl's number as well.
Units: old firmware tells normalised values only; there are no other counts, no overall health, no
logs and no self-tests.
Limits: only where there is one Areca: which host is which 'ctrl=N' is not known. Whether a card
wakes a disk that sleeps for such a question is not known either.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.machine import probe_path
from iowarden.collectors.model import AbsentError, ParseError, ReadError, trace
from iowarden.collectors.raid.areca import cli64
from iowarden.collectors.raid.areca.arcmsr import run_cli64
from iowarden.collectors.smart import scsi_hosts
from iowarden.collectors.smart.drive import Cover, Drive, Protocol
from iowarden.collectors.smart.smartctl_runner import clash

if TYPE_CHECKING:
    from iowarden.collectors.machine import Root
    from iowarden.collectors.raid.controller import PhysicalDisk
    from iowarden.collectors.smart.drive import Target
    from iowarden.collectors.smart.smartctl_runner import Answer

    Texts = tuple[tuple[str, bytes], ...]

_DRIVER = "arcmsr"
_KIND = re.compile(r"areca,([0-9]{1,3})(?:/[0-9]{1,3})?", re.ASCII)
_HEADING = re.compile(r"Drive\s?\[#\s?([0-9]{1,3})\]", re.ASCII)
_NO_WAY = frozenset(
    {
        *(Cover.NO_SMARTCTL, Cover.NO_PASS_THROUGH, Cover.NO_SMART, Cover.PERMISSION),
        *(Cover.UNPARSED, Cover.FAILED, Cover.TIMEOUT),
    }
)
"""After these another program may know more; where one hangs in the kernel, none may be run."""
_UNANSWERED = "unanswered"
"""Of a recording: in the place of an answer that never came, and why."""


def has_way(target: Target) -> bool:
    """Whether Areca's program may know a drive."""
    return target.driver == _DRIVER and _KIND.fullmatch(target.kind) is not None


def otherwise(root: Root, target: Target, answer: Answer) -> Answer:
    """Return what the program of the controller's maker says, where smartctl had no way.

    Else, and where that says nothing, smartctl's answer, with both reasons. `late` stays so.
    """
    started = answer.ran or answer.cover is Cover.NO_SMARTCTL
    if answer.cover not in _NO_WAY or not started or not has_way(target):
        return answer
    if other := clash(root, target.driver):
        return replace(answer, reason=f"{answer.reason}; {other}")
    try:
        drive, failure, texts = _ask(root, target)
    except Exception as error:  # noqa: BLE001 - a mistake of ours with one drive keeps no other
        return replace(answer, reason=f"{answer.reason}; bug: {trace(error)}")
    if drive is None and not failure:
        return answer
    answer = replace(answer, ran=True, beside=texts)
    if drive is None:
        return replace(answer, reason=f"{answer.reason}; Areca's program: {failure}")
    known = answer.drive
    if known is not None and not drive.serial:
        drive = replace(drive, model=known.model, serial=known.serial, wwn=known.wwn)
    reason = f"read by '{drive.read_by}', because smartctl has no way to it: {answer.reason}"
    if failure:
        reason += f"; who it is, is not told: {failure}"
    return replace(answer, cover=Cover.READ, reason=reason, drive=drive, passing=False)


def _ask(root: Root, target: Target) -> tuple[Drive | None, str, Texts]:
    """Ask for a drive, and wait for what comes of it: up to three programs, one after the other.

    Return the drive, None where nothing is known of it, and why, or why not who it is; without a
    drive '' where a recording has nothing of it; and what a recording keeps.
    """
    texts: dict[str, bytes] = {}
    another = root.another(texts.__setitem__)
    reason = ""
    drive = None
    try:
        _check_alone(root)
        number = _number(another, texts, target)
        output = _run(another, texts, "disk", "smart", f"drv={number}")
        attributes = cli64.parse_disk_smart(output)
        _check_heading(output, number, target)
        drive = Drive(
            Protocol.ATA,
            attributes=attributes,
            self_test_kinds=(),
            read_by=f"cli64 disk smart drv={number}",
        )
        who = cli64.parse_disk_detail(_run(another, texts, "disk", "info", f"drv={number}"))
        drive = _with_identity(drive, who)
    except AbsentError as error:
        reason = "" if root.path else str(error)  # an older recording has nothing of it
    except (ReadError, ParseError) as error:
        reason = str(error)
    another.close()
    return drive, reason, tuple(texts.items())


def _check_alone(root: Root) -> None:
    """Errors: ReadError, where there are several controllers."""
    try:
        names = root.names(f"{scsi_hosts.PCI_DRIVERS}/{_DRIVER}")
    except AbsentError:
        names = []
    count = sum(re.fullmatch(scsi_hosts.ADAPTER, name, re.ASCII) is not None for name in names)
    if count > 1:
        raise ReadError(
            f"'cli64 disk smart': expected one controller of the driver '{_DRIVER}', got {count};"
            " which of them is 'ctrl=1' is not known, so none is asked"
        )


def _number(root: Root, texts: dict[str, bytes], target: Target) -> int:
    """Return the number a drive has for the program. Errors: AbsentError, ReadError, ParseError."""
    found = _KIND.fullmatch(target.kind)
    if found is not None and "/" not in target.kind:
        return int(found[1])
    for bay in cli64.parse_bays(_run(root, texts, "disk", "info")):
        if bay.disk is not None and bay.disk.kind == target.kind:
            return bay.number
    raise ReadError(f"'cli64 disk info': expected a disk in the place of '{target.kind}', got none")


def _run(root: Root, texts: dict[str, bytes], *command: str) -> str:
    """Return what the program printed. Errors: AbsentError, ReadError, ParseError."""
    never = probe_path(_UNANSWERED, ("cli64", *command))
    if root.path:
        try:
            reason = root.read(never)
        except AbsentError:
            pass
        else:
            raise ReadError(reason)
    try:
        return run_cli64(root, (), *command)
    except (AbsentError, ReadError) as error:
        texts[never] = str(error).encode(errors="backslashreplace")
        raise
    except ParseError as error:
        raise ParseError(f"'cli64 {' '.join(command)}': {error}") from None


def _check_heading(output: str, number: int, target: Target) -> None:
    """Errors: ParseError, where the table is another drive's: two programs mix up answers."""
    found = _HEADING.search(output)
    if found is not None and "/" not in target.kind and int(found[1]) != number:
        raise ParseError(
            f"'cli64 disk smart drv={number}': expected the table of drive {number}, got that of"
            f" drive {int(found[1])}; is another program asking this controller?"
        )


def _with_identity(drive: Drive, who: PhysicalDisk) -> Drive:
    return replace(
        drive,
        model=who.model,
        serial=who.serial,
        firmware=who.firmware,
        # A sensor that is not there says 0.
        temperature_celsius=who.temperature_celsius or None,
    )
