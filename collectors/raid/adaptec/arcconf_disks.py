"""Physical devices of Adaptec's controllers, parsed from 'arcconf GETCONFIG'. Pure.

Source: as of `arcconf`.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.raid import output, states
from iowarden.collectors.raid.adaptec.arcconf_output import (
    DEGREES,
    Block,
    megabytes,
    serial_of,
    switch,
)
from iowarden.collectors.raid.controller import ComponentHealth, PhysicalDisk

_DISK_STATES = {
    **states.DEAD,
    "online": ComponentHealth.OK,
    "online (jbod)": ComponentHealth.OK,
    "ready": ComponentHealth.OK,
    "raw": ComponentHealth.OK,
    "raw (pass through)": ComponentHealth.OK,
    "jbod": ComponentHealth.OK,
    "hot spare": ComponentHealth.OK,
    "hot-spare": ComponentHealth.OK,
    "global hot-spare": ComponentHealth.OK,
    "dedicated hot-spare": ComponentHealth.OK,
    "pooled hot-spare": ComponentHealth.OK,
    "standby hot-spare": ComponentHealth.OK,
    "standby hot spare": ComponentHealth.OK,
    "initializing": ComponentHealth.BUSY,
    "zeroing": ComponentHealth.BUSY,
    "erasing": ComponentHealth.BUSY,
    "rebuilding": ComponentHealth.REBUILDING,
    "predictive failure": ComponentHealth.FAILING,
    "removed": ComponentHealth.FAILED,
    "defunct hot-spare": ComponentHealth.FAILED,
    "defunct hot spare": ComponentHealth.FAILED,
}
"""The spares and 'Defunct' are also in IBM's ServeRAID guide: SHS, DHS."""
_PREDICTED_FAILURE = (
    "s.m.a.r.t.",
    "pfa",
    "ssd smart trip wearout",
    "56 day warning present",
)
"""The disk predicts its failure. 'S.M.A.R.T. : No' is a good disk."""
_NO_PREDICTED_FAILURE = frozenset(
    {"no", "false", "not supported", "not available", "not applicable", "unknown", "none", ""}
)
_UNCOUNTED = frozenset(
    {
        *("hot plug count", "sectors reads", "sectors read", "sectors written", "service hours"),
        # Errors that were recovered; drives count them by the million.
        *("ecc recovered read errors", "retry recovered read errors"),
        "retry recovered write errors",
    }
)
"""Counters of 'Device Error Counters' that are no errors."""
DEVICE = lazy_pattern(r"device #(\d{1,6})", re.ASCII)
_LOCATION = lazy_pattern(
    r"(Enclosure|Connector)(?: |:)(\w{1,24}(?: \w{1,24}){0,3}),\s?(Slot|Device)(?: |:)(\d{1,4})",
    re.ASCII | re.IGNORECASE,
)
CHANNEL = lazy_pattern(r"(\d{1,3}),(\d{1,4})(?:\((\d{1,4}):(\d{1,4})\))?", re.ASCII)


def location(text: str) -> str:
    """Return 'enclosure 0 slot 3' for 'Enclosure 0, Slot 3(Connector 1)' and similar, or ''."""
    place = _LOCATION.search(text)
    if place is None:
        return ""
    return f"{place[1]} {place[2]} {place[3]} {int(place[4])}".lower()


_Disks = tuple[
    list[PhysicalDisk], dict[tuple[int, int], str], dict[str, str], dict[str, bool | None]
]


def disks_of(blocks: list[Block], read_errors: list[str]) -> _Disks:
    """Return the disks, their slots by channel and device and by serial number, and their caches.

    The reasons why other disks cannot be read are added to `read_errors`. Cards with two channels
    list the disks on both channels twice.
    """
    listed: dict[tuple[str, str, str], Block] = {}
    for record in devices_of(blocks):
        if not record.get("state") and "device is a" not in record.title:
            found = f"device {record.title}".strip()
            read_errors.append(
                output.reason("arcconf GETCONFIG", "'State' or 'Device is a <kind>'", found)
            )
        if record.get("state") or "device is a hard drive" in record.title:
            place = location(record.get("reported location"))
            # Excerpts, and old cards, name it only by its number in the list.
            key = reported(record), record.get("serial number"), place or _numbered(record)
            well = key in listed and _disk(listed[key]).state.health is ComponentHealth.OK
            if key not in listed or well:
                listed[key] = record
    often = Counter(place for *_, place in listed)
    disks: list[PhysicalDisk] = []
    slots: dict[tuple[int, int], str] = {}
    caches: dict[str, bool | None] = {}
    for key, record in listed.items():
        slot, at = key[2], CHANNEL.match(key[0])
        if at is not None:
            channel = int(at[1]), int(at[2])
            if not slot or often[slot] > 1:  # two connectors may have enclosures of the same number
                slot = f"channel {channel[0]} device {channel[1]}"
            slots[channel] = slot
        disks.append(replace(_disk(record), slot=slot))
        caches[slot] = switch(record.get("write cache"))
    twice = Counter(each.serial for each in disks)
    serials = {each.serial: each.slot for each in disks if twice[each.serial] == 1}
    return disks, slots, serials, caches


def reported(record: Block) -> str:
    """Parse '0,1(1:0)': channel and device, in parentheses target and logical unit."""
    return record.get("reported channel,device(t:l)", "reported channel,device")


def _numbered(record: Block) -> str:
    """Return 'device #2' of a device whose place is not in the text; '': its place is."""
    number = DEVICE.match(record.section)
    return "" if number is None or reported(record) else f"device #{int(number[1])}"


def devices_of(blocks: list[Block]) -> list[Block]:
    """Return one block per physical device; the blocks of its parts repeat its title."""
    found: list[Block] = []
    opened = False
    for block in blocks:
        if block.section != "physical":
            continue
        if DEVICE.fullmatch(block.title):
            found.append(Block(block.title, "", list(block.pairs)))
            opened = True
        elif block.title.startswith(("channel #", "physical device information")):
            opened = False
        elif opened:
            phy = block.title.startswith(("phy #", "device phy"))
            found[-1].title += f" {block.title}"
            found[-1].pairs += [] if phy else block.pairs
    return found


def _disk(record: Block) -> PhysicalDisk:
    word = output.excerpt(record.get("state"))
    state = states.classify(word, _DISK_STATES)
    for key in _PREDICTED_FAILURE:
        if (told := record.get(key)).casefold() not in _NO_PREDICTED_FAILURE:
            odd = [f"{key.upper()} {output.excerpt(told)}"]
            state = states.downgraded(state, odd, ComponentHealth.FAILING)
    counters, odd = _counters(record)
    state = states.downgraded(state, odd)
    parent = record.get("array")
    vendor, model = output.excerpt(record.get("vendor")), output.excerpt(record.get("model"))
    return PhysicalDisk(
        slot="",
        state=state,
        model=model if vendor.casefold() in {"ata", ""} else f"{vendor} {model}".strip(),
        serial=serial_of(record.get("serial number")),
        firmware=output.excerpt(record.get("firmware")),
        size_bytes=megabytes(record.get("total size", "size")),
        usage=output.excerpt(record.get("drive configuration type") or word),
        array=f"array {int(parent)}" if re.fullmatch(r"\d{1,6}", parent, re.ASCII) else "",
        temperature_celsius=output.leading(
            DEGREES, record.get("current temperature") or record.get("temperature")
        ),
        errors_total=counters,
    )


def _counters(record: Block) -> tuple[dict[str, int], list[str]]:
    """Return a disk's error counters by name, and the values that are no number."""
    counted = re.compile(
        r"s\.m\.a\.r\.t\. warnings|.{1,40} (?:errors|error count|failures|failure count|faults)"
        r"|aborted commands?(?: count)?|smart warning count|failed (?:read|write) recovers"
    )
    return states.counts(
        (key, value)
        for key, value in record.pairs
        if counted.fullmatch(key) and key not in _UNCOUNTED
    )
