"""pySMART's opinion of the text that smartctl printed: read again by others, run again by nobody.

Source: pySMART 1.4.3, which runs smartctl itself; its hook for that is answered with the lines of
the run that was. It knows no '-d' of RAID controllers and no '-x' table, and trusts no one: what
it raises is its own matter, what it reads differently is counted.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from iowarden.collectors.drive import Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iowarden.collectors.drive import Drive

_INTERFACES = {Protocol.ATA: "sat", Protocol.SCSI: "scsi", Protocol.NVME: "nvme"}


@contextlib.contextmanager
def _nothing_changed() -> Iterator[None]:
    """Undo what pySMART does to a process when it is imported.

    It sets the class of all later loggers and the language; and it brings chardet, 10 MB of tables
    to guess an encoding that is known here, and humanfriendly, for numbers not asked for.
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


with _nothing_changed():
    from pySMART import Device
    from pySMART.smartctl import Smartctl


class _Replay(Smartctl):  # type: ignore[misc] # it brings no types
    """A smartctl that has run already."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__(smartctl_path="")
        self._lines = lines

    def generic_call(
        self,
        params: list[str],
        pass_options: bool = False,  # noqa: ARG002, FBT001, FBT002 - its signature
    ) -> tuple[list[str], int]:
        """Return the lines where the report is asked for; other calls would be other runs."""
        known = "--all" in params or "background" in params
        return (list(self._lines), 0) if known else ([""] * 5, 4)


def differences(lines: Sequence[str], drive: Drive) -> Iterator[str]:
    """Yield what pySMART reads differently in the lines of a drive, one line each.

    What it does not read is no difference. Errors: whatever it raises; ValueError, mostly.
    """
    device = Device(
        "nvme0" if drive.nvme else "disk", _INTERFACES[drive.protocol], smartctl=_Replay(lines)
    )
    for name, ours, theirs in _pairs(device, drive):
        if theirs is not None and ours is not None and ours != theirs:
            yield f"pySMART reads {name} as {str(theirs)[:60]!r}, not {str(ours)[:60]!r}"


def _pairs(device: Any, drive: Drive) -> Iterator[tuple[str, object, object]]:  # noqa: ANN401 - untyped
    # Its serial number ends at a blank, its model lacks the vendor of a SCSI drive.
    yield "the serial number", drive.serial.partition(" ")[0], device.serial or None
    model = device.model or None
    yield "the model", drive.model if model is None else drive.model[-len(model) :], model
    assessment = {"PASS": True, "FAIL": False}.get(device.assessment or "")
    yield "the health", drive.passed, assessment
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
