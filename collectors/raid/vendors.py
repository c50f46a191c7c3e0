"""All vendors' backends: how the RAID controllers of each are asked."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from iowarden.collectors.raid.adaptec.aacraid import ADAPTEC
from iowarden.collectors.raid.areca.arcmsr import ARECA
from iowarden.collectors.raid.controller_poller import Poller
from iowarden.collectors.raid.megaraid.megaraid_sas import MEGARAID, MPI3MR
from iowarden.collectors.raid.mpt import mptsas
from iowarden.collectors.raid.smartarray.hpsa import HP
from iowarden.collectors.raid.threeware.threeware import THREEWARE

if TYPE_CHECKING:
    from iowarden.collectors.machine import Root
    from iowarden.collectors.raid.controller import Controllers

BACKENDS = (ARECA, THREEWARE, MEGARAID, MPI3MR, ADAPTEC, HP, *mptsas.BACKENDS)


def read_controllers(root: Root) -> Controllers:
    """Read once, for who keeps nothing. Errors: AbsentError, ReadError."""
    return Poller(BACKENDS, time.monotonic).read(root)
