"""Maps a sector of a device to the sector of the device-mapper device above it. Pure.

Sources, by formula: drivers/md/dm-stripe.c stripe_map_sector, dm-linear.c, dm-crypt.c, dm-mpath.c.
Units: sectors of 512 bytes.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.rules.topology.sector_map import (
    MAX_DISKS,
    MAX_PIECES,
    LayoutError,
    SectorRun,
    Use,
    add,
    overlap,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from iowarden.collectors.block.dm_table import DmTarget


def through_table(
    targets: Iterable[DmTarget], number: str, start: int, count: int
) -> tuple[list[SectorRun], list[str]]:
    """Return how sectors of the device `number` ('8:17') map to a device-mapper device.

    Only pieces that it maps, in the order of its table; and the types of targets that use the
    device and are not supported here ('thin-pool', 'raid', 'cache' ...). Errors:
    LayoutError, for an inconsistent target.
    """
    pieces: list[SectorRun] = []
    unknown: list[str] = []
    for target in targets:
        if number not in target.devices:
            continue
        read = _TARGETS.get(target.kind)
        if read is None:
            unknown.append(target.kind)
            continue
        pieces += read(target, number, start, start + count)
        if len(pieces) > MAX_PIECES:
            raise LayoutError(f"the range has more than {MAX_PIECES} pieces")
    return pieces, list(dict.fromkeys(unknown))


def _linear(target: DmTarget, number: str, start: int, end: int) -> list[SectorRun]:
    """Arguments: device, start. Source: admin-guide/device-mapper/linear.rst."""
    device, begin = _fields(target, 2)
    return _mapped(target, device, begin, number, start, end)


def _crypt(target: DmTarget, number: str, start: int, end: int) -> list[SectorRun]:
    """Arguments: cipher, key, offset of the IV, device, start, options; no change of length.

    Source: admin-guide/device-mapper/dm-crypt.rst.
    """
    device, begin = _fields(target, 5)[3:5]
    return _mapped(target, device, begin, number, start, end)


def _striped(target: DmTarget, number: str, start: int, end: int) -> list[SectorRun]:
    """Arguments: stripes, chunk, and of each stripe device and start.

    Source: admin-guide/device-mapper/striped.rst; dm-stripe.c, stripe_map_sector.
    """
    stripes, chunk = (_number(target, word) for word in _fields(target, 2))
    words = target.arguments[2:]
    if not 0 < stripes <= MAX_DISKS or len(words) < 2 * stripes or not chunk:
        raise _odd(target)
    width, left = divmod(target.sectors, stripes)
    if left or width % chunk:
        raise _odd(target)
    pieces: list[SectorRun] = []
    for stripe in range(stripes):
        begin = _number(target, words[2 * stripe + 1])
        met = overlap(start, end - start, begin, width)
        if words[2 * stripe] != number or met is None:
            continue
        at, stop = met[0], met[0] + met[1]
        while at < stop:
            row, inside = divmod(at - begin, chunk)
            run = min(chunk - inside, stop - at)
            above = target.start_sectors + (row * stripes + stripe) * chunk + inside
            add(pieces, SectorRun(at, run, Use.DATA, above))
            at += run
            if len(pieces) > MAX_PIECES:
                raise LayoutError(f"the range has more than {MAX_PIECES} pieces")
    return pieces


def _multipath(target: DmTarget, number: str, start: int, end: int) -> list[SectorRun]:
    """Arguments: counts, and the paths among them: each path is the whole device, sector by sector.

    Source: dm-mpath.c, __multipath_map_bio: only the device changes. multipathd makes one target
    for the whole device.
    """
    if target.start_sectors:
        raise _odd(target)
    met = overlap(start, end - start, 0, target.sectors)
    if number not in target.devices or met is None:
        return []
    return [SectorRun(met[0], met[1], Use.DATA, met[0])]


_TARGETS: dict[str, Callable[[DmTarget, str, int, int], list[SectorRun]]] = {
    "linear": _linear,
    "multipath": _multipath,
    "crypt": _crypt,
    "striped": _striped,
}


def _mapped(
    target: DmTarget, device: str, begin: str, number: str, start: int, end: int
) -> list[SectorRun]:
    first = _number(target, begin)
    met = overlap(start, end - start, first, target.sectors)
    if device != number or met is None:
        return []
    return [SectorRun(met[0], met[1], Use.DATA, target.start_sectors + met[0] - first)]


def _fields(target: DmTarget, least: int) -> Sequence[str]:
    if len(target.arguments) < least:
        raise _odd(target)
    return target.arguments[:least]


def _number(target: DmTarget, word: str) -> int:
    if not re.fullmatch(r"\d{1,18}", word, re.ASCII):
        raise _odd(target)
    return int(word)


def _odd(target: DmTarget) -> LayoutError:
    return LayoutError(
        f"device-mapper target '{target.kind}' at {target.start_sectors}: its"
        f" {len(target.arguments)} arguments do not match the kernel's documentation"
    )
