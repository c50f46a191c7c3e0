"""Data model of a storage event: a kernel line, a controller's log entry, a change of an array.

Units: sectors of 512 bytes, counted from the start of the whole device; seconds.
None: not reported.
"""

from __future__ import annotations

import hashlib

from iowarden.collectors.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class StorageEvent:
    """One event as its log reports it; its meaning is in rules/events, by `kind`.

    Fields: `source` is 'kernel', 'areca', '3ware', 'md'; `kind` is its class ('block_io_error',
    'scsi_sense', 'areca_reading_error'); `text` is the line, one line, control characters escaped.
    `device` is the kernel's name ('sdb', 'ata3.00', 'nvme0', 'md0'), '' without one; `controller`
    is 'c0', 'areca 1', 'host2'; `place` is for users and for the slot map: 'channel 2', 'port 3',
    'enclosure 1 slot 7'; `code` is that of the log ('0x0009', 'sct 0x2 / sc 0x81'); `word` is the
    severity it was sent with ('ERROR', 'Urgent').
    `sector` and `sectors`: the failed range as far as it is reported: the kernel's sector is the
    start of the failed request, not the bad one. Lines of md, of file systems and of Linux 2.4
    count from the start of `device`, which may be a partition. `block` and `blocks`: the range in
    units that the line does not report: logical blocks of a drive (512 or 4096 bytes), blocks of a
    file system. `read_ahead`: no program had requested these data yet, so the range is wide.
    `monotonic_seconds` and `boot_id` are the kernel's; `clock_seconds` is the time in the log,
    read as if it were UTC; `realtime_seconds` is Unix time, if known.
    `sequence` counts equal lines with one time stamp, for logs without numbers, else it is the
    number.
    """

    source: str
    kind: str
    text: str
    device: str = ""
    controller: str = ""
    place: str = ""
    sector: int | None = None
    sectors: int | None = None
    block: int | None = None
    blocks: int | None = None
    read_ahead: bool = False
    sense_key: int | None = None
    asc: int | None = None
    ascq: int | None = None
    code: str = ""
    word: str = ""
    priority: int | None = None
    boot_id: str = ""
    monotonic_seconds: float | None = None
    clock_seconds: float | None = None
    realtime_seconds: float | None = None
    sequence: int = 0

    @property
    def key(self) -> str:
        """Identity of the event: the same for each read, and different from any other event's."""
        at = self.clock_seconds if self.monotonic_seconds is None else self.monotonic_seconds
        own = (self.source, self.controller, self.boot_id, at, self.sequence, self.text)
        return hashlib.blake2b(repr(own).encode(errors="replace"), digest_size=12).hexdigest()
