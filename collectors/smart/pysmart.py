"""Second opinion by pySMART on the text that smartctl printed; smartctl is not run again.

Source: pySMART 1.4.3, which runs smartctl itself; its hook for that returns the lines of the
existing output. It supports no '-d' of RAID controllers and no '-x' table. Its exceptions are
ignored; values that it parses differently are counted.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
from types import ModuleType
from typing import TYPE_CHECKING, Any

from iowarden.collectors.smart.drive import Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iowarden.collectors.smart.drive import Drive

_INTERFACES = {Protocol.ATA: "sat", Protocol.SCSI: "scsi", Protocol.NVME: "nvme"}


@contextlib.contextmanager
def _nothing_changed() -> Iterator[None]:
    """Undo what pySMART does to a process when it is imported.

    It sets the class of all later loggers and the locale; and it imports chardet, 10 MB of tables
    to guess an encoding that is known here, and humanfriendly, for numbers that are not needed.
    """
    stand_in = ModuleType("stand_in")
    stand_in.parse_size = lambda _text: 0  # type: ignore[attr-defined] # all that is called
    names = {name: stand_in for name in ("chardet", "humanfriendly") if name not in sys.modules}
    logger_class, language = logging.getLoggerClass(), os.environ.get("LANG")
    sys.modules.update(names)
    try:
        yield
    finally:
        for name in names:
            del sys.modules[name]
        logging.setLoggerClass(logger_class)
        if language is None:
            os.environ.pop("LANG", None)
        else:
            os.environ["LANG"] = language


class _Replay:
    """What pySMART calls of its Smartctl: the result of a finished run."""

    def __init__(self, lines: Sequence[str]) -> None:
        # Its pattern for a SCSI drive's self-tests takes 0.3 ms to refuse an ATA drive's line; none
        # of them is compared.
        self._lines = [line for line in lines if not line.startswith("#")]

    def all(self, _disk: str, _interface: str | None = None) -> list[str]:
        """Return the report."""
        return list(self._lines)

    def generic_call(self, params: list[str]) -> tuple[list[str], int]:
        """Return the lines of a log in the report; other calls would need another run."""
        return (list(self._lines), 0) if "background" in params else ([""] * 5, 4)

    try_generic_call = generic_call


def _device_class() -> Any:  # noqa: ANN401 - it brings no types
    with _IMPORT:
        if "pySMART" not in sys.modules:
            with _nothing_changed():
                import pySMART  # noqa: F401, PLC0415 - never outside the line above
        from pySMART import Device  # noqa: PLC0415 - as above
    return Device


_IMPORT = threading.Lock()
"""Drives are parsed by several threads; only one may change and restore."""


def differences(lines: Sequence[str], drive: Drive) -> Iterator[str]:
    """Yield what pySMART parses differently in the lines of a drive, one line each.

    What it does not parse is no difference. Errors: any exception of pySMART; mostly ValueError.
    """
    name = "nvme0" if drive.protocol is Protocol.NVME else "disk"
    device = _device_class()(name, _INTERFACES[drive.protocol], smartctl=_Replay(lines))
    for field, ours, theirs in _pairs(device, drive):
        if theirs is not None and ours is not None and ours != theirs:
            yield f"pySMART reads {field} as {str(theirs)[:60]!r}, not {str(ours)[:60]!r}"


def _pairs(device: Any, drive: Drive) -> Iterator[tuple[str, object, object]]:  # noqa: ANN401 - untyped
    # Its serial number ends at a blank, its model lacks the vendor of a SCSI drive.
    yield "the serial number", drive.serial.partition(" ")[0], device.serial or None
    model = device.model or None
    yield "the model", drive.model if model is None else drive.model[-len(model) :], model
    if not any(
        attribute.failed for attribute in drive.attributes
    ):  # pySMART derives a health status from these
        yield "the health", drive.passed, {"PASS": True, "FAIL": False}.get(device.assessment or "")
    found = device.if_attributes
    if drive.nvme is not None and found is not None:
        yield "the critical warning", drive.nvme.critical_warning, found.criticalWarning
        yield "media errors", drive.nvme.media_errors_total, found.integrityErrors
        yield "power-on hours", drive.power_on_hours, found.powerOnHours
    elif drive.protocol is Protocol.SCSI:
        diagnostics = device.diagnostics
        if drive.scsi is not None and diagnostics is not None:
            yield "grown defects", drive.scsi.grown_defects, diagnostics.Reallocated_Sector_Ct
            yield (
                "non-medium errors",
                drive.scsi.non_medium_errors_total,
                diagnostics.Non_Medium_Errors,
            )
    elif found is not None:
        for attribute in drive.attributes:
            other = found.legacyAttributes[attribute.id]
            if other is not None:
                name = f"attribute {attribute.id}"
                yield f"{name}'s value", attribute.value, int(other.value)
                yield f"{name}'s worst", attribute.worst, other.worst
                yield f"{name}'s threshold", attribute.threshold, other.thresh
                yield f"{name}'s raw value", attribute.raw_text, other.raw.strip()
