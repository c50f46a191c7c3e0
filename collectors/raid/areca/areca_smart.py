"""SMART data of a disk behind an Areca controller, from cli64, where smartctl cannot read it.

Source: 'cli64 disk smart drv=N' and 'disk info drv=N'. N is the first column of 'disk info'; on a
card without enclosures that is the channel, which is smartctl's number as well.
Units: old firmware reports normalized values only; there are no other counts, no overall health, no
logs and no self-tests.
Limits: only with a single Areca controller: which host is which 'ctrl=N' is unknown. Whether this
query wakes a sleeping disk is unknown.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.machine import probe_path
from iowarden.collectors.model import AbsentError, ParseError, ReadError, trace
from iowarden.collectors.raid.areca import cli64
from iowarden.collectors.raid.areca.arcmsr import run_cli64
from iowarden.collectors.raid.areca.areca_access import DRIVER, KIND, is_supported
from iowarden.collectors.smart import scsi_hosts
from iowarden.collectors.smart.drive import Drive, Protocol, ReadStatus
from iowarden.collectors.smart.smartctl_runner import clash

if TYPE_CHECKING:
    from iowarden.collectors.machine import Machine
    from iowarden.collectors.raid.controller import PhysicalDisk
    from iowarden.collectors.smart.drive import AccessMethod
    from iowarden.collectors.smart.smartctl_runner import SmartctlResult

    Texts = tuple[tuple[str, bytes], ...]

_HEADING = lazy_pattern(r"Drive\s?\[#\s?([0-9]{1,3})\]", re.ASCII)
_TRY_CLI = frozenset(
    {
        *(
            ReadStatus.NO_SMARTCTL,
            ReadStatus.NO_PASS_THROUGH,
            ReadStatus.NO_SMART,
            ReadStatus.PERMISSION,
        ),
        *(ReadStatus.UNPARSED, ReadStatus.UNREADABLE, ReadStatus.TIMEOUT),
    }
)
"""Results after which cli64 may have more data; where smartctl hangs in the kernel, nothing may be
run.
"""
_UNANSWERED = "unanswered"
"""Replaces an answer that never came in a recording, with the reason."""


def run_cli64_smart(root: Machine, target: AccessMethod, answer: SmartctlResult) -> SmartctlResult:
    """Return the data from the controller vendor's program where smartctl could not read the drive.

    If that program returns no data either, smartctl's answer is returned with both reasons.
    `SmartctlResult.late` is that of smartctl.
    """
    started = answer.ran or answer.status is ReadStatus.NO_SMARTCTL
    if answer.status not in _TRY_CLI or not started or not is_supported(target):
        return answer
    if other := clash(root, target.driver):
        return replace(answer, reason=f"{answer.reason}; {other}")
    try:
        drive, failure, texts = _query(root, target)
    except Exception as error:  # noqa: BLE001 - our bug with one drive must not block others
        return replace(answer, reason=f"{answer.reason}; bug: {trace(error)}")
    if drive is None and not failure:
        return answer
    answer = replace(answer, ran=True, other_outputs=texts)
    if drive is None:
        return replace(answer, reason=f"{answer.reason}; Areca's program: {failure}")
    known = answer.drive
    if known is not None and not drive.serial:
        drive = replace(drive, model=known.model, serial=known.serial, wwn=known.wwn)
    reason = f"read by '{drive.read_by}', because smartctl could not read it: {answer.reason}"
    if failure:
        reason += f"; its identity could not be read: {failure}"
    return replace(answer, status=ReadStatus.READ, reason=reason, drive=drive, passing=False)


def _query(root: Machine, target: AccessMethod) -> tuple[Drive | None, str, Texts]:
    """Read a drive with up to three programs, one after the other, and wait for them.

    Return the drive, or None without data; the reason, or the reason why its identity is unknown,
    '' without a drive if a recording has no data of it; and the texts for a recording.
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
        reason = "" if root.path else str(error)  # an older recording has no such answer
    except (ReadError, ParseError) as error:
        reason = str(error)
    another.close()
    return drive, reason, tuple(texts.items())


def _check_alone(root: Machine) -> None:
    """Raise ReadError if there are several controllers."""
    try:
        names = root.names(f"{scsi_hosts.PCI_DRIVERS}/{DRIVER}")
    except AbsentError:
        names = []
    count = sum(re.fullmatch(scsi_hosts.ADAPTER, name, re.ASCII) is not None for name in names)
    if count > 1:
        raise ReadError(
            f"'cli64 disk smart': expected one controller of the driver '{DRIVER}', got {count};"
            " it is unknown which of them is 'ctrl=1', so none is queried"
        )


def _number(root: Machine, texts: dict[str, bytes], target: AccessMethod) -> int:
    """Return the program's number of a drive. Errors: AbsentError, ReadError, ParseError."""
    found = KIND.fullmatch(target.kind)
    if found is not None and "/" not in target.kind:
        return int(found[1])
    for bay in cli64.parse_bays(_run(root, texts, "disk", "info")):
        if bay.disk is not None and bay.disk.kind == target.kind:
            return bay.number
    raise ReadError(f"'cli64 disk info': expected a disk at '{target.kind}', got none")


def _run(root: Machine, texts: dict[str, bytes], *command: str) -> str:
    """Run the program and return its output. Errors: AbsentError, ReadError, ParseError."""
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


def _check_heading(output: str, number: int, target: AccessMethod) -> None:
    """Raise ParseError if the table belongs to another drive: two programs mix up answers."""
    found = _HEADING.search(output)
    if found is not None and "/" not in target.kind and int(found[1]) != number:
        raise ParseError(
            f"'cli64 disk smart drv={number}': expected the table of drive {number}, got that of"
            f" drive {int(found[1])}; is another program querying this controller?"
        )


def _with_identity(drive: Drive, who: PhysicalDisk) -> Drive:
    return replace(
        drive,
        model=who.model,
        serial=who.serial,
        firmware=who.firmware,
        # A missing sensor reports 0.
        temperature_celsius=who.temperature_celsius or None,
    )
