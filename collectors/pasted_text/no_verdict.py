"""Programs whose output shows no state of health: a text of theirs is refused with the reason.

A user who pastes the output of lsblk wants to know whether the disks are well: the reason names
what shows that. Source: the manual page of each program.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    import re
    from collections.abc import Mapping

_LAYOUT = "shows how disks are divided, not whether they are well; see: smartctl -x /dev/DISK"
_LOAD = (
    "shows load and latency, not health; 'iowarden top' and 'iowarden trace DISK' judge it on the"
    " host itself"
)
_IDENTITY = "shows which drives there are, not whether they are well; see: smartctl -x /dev/DISK"
_HOST = "is not about storage"

_PROGRAMS: Mapping[str, tuple[re.Pattern[str], str]] = {
    name: (lazy_pattern(rf"^[ \t]*(?:{sign})"), reason)
    for name, sign, reason in (
        ("lsblk", r"NAME[ \t]+(?:[A-Z:-]+[ \t]+){2,}(?:MOUNTPOINTS?|FSTYPE|SIZE|TYPE)\b", _LAYOUT),
        ("blkid", r"/dev/\S{1,60}: (?:[A-Z_]+=\"[^\"\n]*\" ?){1,}", _LAYOUT),
        ("fdisk", r"Disk /dev/\S{1,60}: [\d.]+ ?[KMGTP]i?B\b", _LAYOUT),
        ("parted", r"Model: .{1,80} \(\w{1,20}\)[ \t]*$", _LAYOUT),
        ("iostat", r"(?:Device:?|avg-cpu:)[ \t]+\S*(?:r/s|tps|rrqm|%user)", _LOAD),
        ("iotop", r"Total DISK READ[ \t]*:", _LOAD),
        ("top", r"top - \d\d:\d\d:\d\d up ", _LOAD),
        ("fio", r"fio-\d|[ \t]*(?:read|write): IOPS=", _LOAD),
        ("hdparm", r"Timing (?:cached|buffered|O_DIRECT) ", _LOAD),
        ("hdparm -I", r"ATA device, with non-removable media", _IDENTITY),
        ("nvme list", r"Node[ \t]+(?:Generic[ \t]+)?SN[ \t]+Model\b", _IDENTITY),
        ("lspci", r"(?:[0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.\d [A-Z]", _IDENTITY),
        ("free", r"total[ \t]+used[ \t]+free[ \t]+shared", _HOST),
        ("ip", r"\d{1,4}: \w{1,15}: <[A-Z,_]{1,80}> mtu ", _HOST),
    )
}
MAX_LINES = 20
"""Of a text, from its beginning: its head has the sign."""


def no_verdict(text: str) -> str:
    """Return which program printed a text, and why it holds no verdict; '': none of these."""
    lines = [line for line in text.split("\n") if line.strip()][:MAX_LINES]
    for program, (sign, reason) in _PROGRAMS.items():
        if any(sign.match(line) for line in lines):
            return f"'{program}' {reason}"
    return ""
