"""Which drives are behind an Areca controller, and their numbers: without what reads them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from iowarden.collectors.smart.drive import AccessMethod

DRIVER = "arcmsr"
KIND = lazy_pattern(r"areca,([0-9]{1,3})(?:/[0-9]{1,3})?", re.ASCII)
"""smartctl's '--device' for such a drive."""


def is_supported(target: AccessMethod) -> bool:
    """Whether Areca's program may be able to read a drive."""
    return target.driver == DRIVER and KIND.fullmatch(target.kind) is not None


def pass_through_drive(target: int, unit: int) -> int:
    """Return the number of the pass-through disk at a SCSI target and logical unit.

    Source: TrueNAS's formula; one source. It does not apply to volumes.
    """
    return unit + 1 + 8 * target
