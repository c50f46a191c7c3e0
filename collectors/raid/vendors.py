"""All RAID backends, by vendor."""

from __future__ import annotations

from iowarden.collectors.raid.adaptec.aacraid import ADAPTEC
from iowarden.collectors.raid.areca.arcmsr import ARECA
from iowarden.collectors.raid.megaraid.megaraid_sas import MEGARAID, MPI3MR
from iowarden.collectors.raid.mpt import mptsas
from iowarden.collectors.raid.smartarray.hpsa import HP
from iowarden.collectors.raid.threeware.threeware import THREEWARE

BACKENDS = (ARECA, THREEWARE, MEGARAID, MPI3MR, ADAPTEC, HP, *mptsas.BACKENDS)
