"""Parser of 'zpool status': pools, their devices with states and errors, the last scrub.

Source: OpenZFS 0.8.6, 2.1.11, 2.2.2, 2.3.9 and 2.4, cmd/zpool/zpool_main.c: status_callback,
print_status_config, print_scan_status; what differs are times and rates. JSON exists from 2.3 on
only. *Limits:* in a text whose blanks were stripped a device belongs to the last
group above it; times are local ones without a zone; the files of 'zpool status -v' are not read.
"""

from __future__ import annotations

import re
from dataclasses import field
from datetime import datetime
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.redundancy import RedundancyGroup

if TYPE_CHECKING:
    from collections.abc import Sequence

WORKING = frozenset(("ONLINE", "AVAIL", "INUSE", "DEGRADED"))
"""States of a device that is used, or could be; DEGRADED has had too many checksum errors."""
FAILED = frozenset(("FAULTED", "REMOVED", "UNAVAIL", "SUSPENDED"))
STATES = WORKING | FAILED | {"OFFLINE", "SPLIT"}
"""Source: OpenZFS, lib/libzfs/libzfs_pool.c, zpool_state_to_name; for spares zpool_main.c."""
DATA = "data"
ROLES = {"logs": "log", "cache": "cache", "spares": "spare", "special": "special", "dedup": "dedup"}
"""What a device is for, by the heading above it. Without `log`, `cache` and `spare` devices the
pool goes on; a lost `special` or `dedup` group is a lost pool (zpoolconcepts(7))."""
VITAL = frozenset((DATA, "special", "dedup"))
_FIELD = lazy_pattern(
    r"(pool|id|state|status|action|see|scan|scrub|remove|expand|condense|checkpoint|dedup|config"
    r"|errors|comment):\s*(.*)"
)
_COUNT = r"\d{1,20}(?:\.\d{1,3})?[KMGTPE]?"
_ROW = lazy_pattern(
    rf"(?P<name>\S.{{0,1000}}?) (?P<state>{'|'.join(sorted(STATES))})"
    rf"(?: (?P<read>{_COUNT}) (?P<write>{_COUNT}) (?P<checksum>{_COUNT})"
    rf"(?: (?P<slow>{_COUNT}|-)(?= |$))?)?(?: (?P<note>.*))?"
)
_HEADER = lazy_pattern(r"NAME STATE READ WRITE CKSUM.*")
_HEADING = lazy_pattern(r"(logs|cache|spares|special|dedup)(?: .*)?")
_GROUP = lazy_pattern(
    r"(?P<kind>mirror|raidz|draid|spare|replacing|indirect)(?P<parity>[1-3])?(?:-?\d.*|:.*)?"
)
_NESTED = frozenset(("spare", "replacing"))
_DISTRIBUTED_SPARE = lazy_pattern(r"draid[123]-\d{1,6}-\d{1,6}")
"""Source: OpenZFS, module/zfs/vdev_draid.c, vdev_draid_spare_get_parent."""
_SCAN = lazy_pattern(
    r"(?:thorough |error )?(?P<kind>scrub|resilver)"
    r"(?:(?:ed)? (?:repaired |\([^)]*\) )?(?P<size>\S+) in .* with"
    r" (?P<errors>\d{1,20}) errors on (?P<end>.*)"
    r"|(?: \([^)]*\))? (?P<word>canceled on|in progress since|paused since) (?P<at>.*))",
    re.DOTALL,
)
_DONE = lazy_pattern(r"(\d{1,3}\.\d\d)% done")
_TIME = lazy_pattern(r"[A-Z][a-z]{2} [A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d \d{4}")
_DATA_ERRORS = lazy_pattern(r"(\d{1,20}) data errors")
_UNITS = {unit: 1024**power for power, unit in enumerate("KMGTPE", 1)}
NO_ERRORS = ("No known data errors", "No known errors")
"""The second form is that of the pages that a status refers to ('see:')."""


@dataclass(frozen=True, slots=True)
class VirtualDevice:
    """A row of the configuration: a device, or a group of devices ('mirror-0').

    Fields: `parent` is the name of what it is part of, '' for the pool; `role` is one of ROLES or
    DATA. None: the column is not there, as for a spare. `note` is 'was /dev/sdb1', 'too many
    errors', '(resilvering)'.
    """

    name: str
    parent: str
    role: str
    state: str
    read_errors: int | None = None
    write_errors: int | None = None
    checksum_errors: int | None = None
    slow_requests: int | None = None
    note: str = ""

    @property
    def group(self) -> bool:
        """Whether it consists of others, by its name."""
        return self.parent == "" or (
            _GROUP.fullmatch(self.name) is not None
            and _DISTRIBUTED_SPARE.fullmatch(self.name) is None
        )

    @property
    def errors(self) -> dict[str, int]:
        """Its errors that are counted: by 'read', 'write' and 'checksum'."""
        counts = {
            "read": self.read_errors,
            "write": self.write_errors,
            "checksum": self.checksum_errors,
        }
        return {kind: count for kind, count in counts.items() if count is not None}


@dataclass(frozen=True, slots=True)
class Scan:
    """The scrub or resilver that is shown: the last one, or the one that runs.

    Fields: `state` is 'finished', 'canceled', 'running' or 'paused'; `at` is its local time of end,
    or of start or pause; `errors` could not be repaired; `done_ratio` is that of a running one.
    """

    kind: str
    state: str
    at: datetime | None
    errors: int | None = None
    done_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """One pool. `unparsed` are lines of its configuration, by number, that are no row.

    `scan_texts` are those of its fields 'scan:': a scrub, and behind it a resilver; from 2.1 on one
    of each top-level vdev that is rebuilt ('resilvered (mirror-0)').
    """

    name: str
    state: str
    devices: tuple[VirtualDevice, ...]
    status: str = ""
    scan_texts: tuple[str, ...] = ()
    errors_text: str = ""
    unparsed: tuple[tuple[int, str], ...] = field(default=())

    @property
    def scans(self) -> tuple[Scan, ...]:
        """The scrubs and resilvers that are shown: those that run, and the last ones."""
        return tuple(scan for scan in map(parse_scan, self.scan_texts) if scan is not None)

    @property
    def scan(self) -> Scan | None:
        """The scrub or resilver that runs, else the last one; None: there was none."""
        return max(
            self.scans, key=lambda scan: (scan.done_ratio is not None, str(scan.at)), default=None
        )

    @property
    def scrub(self) -> Scan | None:
        """The last scrub; None: there was none, or a later resilver has taken its place."""
        return next((scan for scan in self.scans if scan.kind == "scrub"), None)

    @property
    def data_errors(self) -> int | None:
        """The number of damaged files and objects. None: not shown."""
        if self.errors_text.startswith(NO_ERRORS):
            return 0
        sentence = _DATA_ERRORS.match(self.errors_text)
        return None if sentence is None else int(sentence[1])

    def groups_of_leaves(self) -> dict[str, str]:
        """Return by device the top-level vdev whose loss is that of the pool: of no log or cache.

        Names of groups within groups ('spare-0') may repeat; rows are in the order of the tree.
        """
        found: dict[str, str] = {}
        top = ""
        for device in self.devices:
            top = device.name if device.parent == self.name else top
            if not device.group and device.role in VITAL:
                found[device.name] = top
        return found

    def leaves(self) -> list[VirtualDevice]:
        """Return the devices, without groups."""
        return [device for device in self.devices if not device.group]


def parse_status(text: str) -> list[PoolStatus]:
    """Return the pools in a text; none is no error: it may be about something else."""
    pools: list[_Pool] = []
    for number, line in enumerate(text.split("\n"), 1):
        words = " ".join(line.split())
        match = _FIELD.fullmatch(words)
        if match is not None and match[1] == "pool":
            pools.append(_Pool())
        if pools and words:
            pools[-1].take(number, line.expandtabs(), words, match)
    return [pool.parsed() for pool in pools]


def parse_scan(text: str) -> Scan | None:
    """Return the scan of the field 'scan:'; None if it has none."""
    match = _SCAN.match(text)
    if match is None:
        return None
    done = _DONE.search(text)
    word = (match["word"] or "").split(" ")[0]
    return Scan(
        kind=match["kind"],
        state={"": "finished", "in": "running"}.get(word, word),
        at=_time(match["end"] or match["at"] or ""),
        errors=None if match["errors"] is None else int(match["errors"]),
        done_ratio=None if done is None else float(done[1]) / 100,
    )


def redundancy_groups(pool: PoolStatus) -> tuple[RedundancyGroup, ...]:
    """Return the top-level vdevs whose loss is the loss of the pool: no log, cache or spare."""
    groups = []
    for top in pool.devices:
        if top.parent != pool.name or top.role not in VITAL:
            continue
        kind = _GROUP.fullmatch(top.name)
        if kind is not None and kind["kind"] == "indirect":
            continue  # its data were moved to the other ones: zpool-remove(8)
        if kind is None:
            groups.append(RedundancyGroup(top.name, 1, 1, int(_works(pool, top))))
            continue
        members = [device for device in pool.devices if device.parent == top.name]
        working = sum(_works(pool, member) for member in members)
        needed = 1 if kind["kind"] == "mirror" else len(members) - int(kind["parity"] or 1)
        groups.append(RedundancyGroup(top.name, len(members), needed, working))
    return tuple(groups)


def _works(pool: PoolStatus, member: VirtualDevice) -> bool:
    """Whether a member of a group holds its data; of one that is replaced any of its devices."""
    kind = _GROUP.fullmatch(member.name)
    if kind is None or kind["kind"] not in _NESTED:
        return member.state in {"ONLINE", "DEGRADED"}
    inner = [device for device in pool.devices if device.parent == member.name]
    return any(_works(pool, device) and "resilvering" not in device.note for device in inner)


class _Pool:
    """Collects the lines of one pool."""

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}
        self._scans: list[str] = []
        """Of earlier fields of this name: it may be there more than once."""
        self._field = ""
        self._rows: list[tuple[int, str, re.Match[str]]] = []
        self._role = DATA
        self._unparsed: list[tuple[int, str]] = []

    def take(self, number: int, line: str, words: str, match: re.Match[str] | None) -> None:
        if match is not None:
            if match[1] == "scan" and "scan" in self._fields:
                self._scans.append(self._fields["scan"])
            self._field, self._role = match[1], DATA
            self._fields[match[1]] = match[2]
        elif self._field != "config":
            before = self._fields.get(self._field, "")
            self._fields[self._field] = f"{before} {words}".strip()
        elif (heading := _HEADING.fullmatch(words)) is not None:
            self._role = ROLES[heading[1]]
        elif (row := _ROW.fullmatch(words)) is not None:
            self._rows.append((len(line) - len(line.lstrip()), self._role, row))
        elif not _HEADER.fullmatch(words):
            self._unparsed.append((number, line.strip()))

    def parsed(self) -> PoolStatus:
        name = self._fields.get("pool", "")
        rows = [row for _, _, row in self._rows]
        state, *_ = (self._fields.get("state") or (rows[0]["state"] if rows else "")).split() or [
            ""
        ]
        parents = _parents(name, self._rows)
        return PoolStatus(
            name=name,
            state=state,
            devices=tuple(
                VirtualDevice(
                    name=row["name"],
                    parent=parent,
                    role=role,
                    state=row["state"],
                    read_errors=_number(row["read"]),
                    write_errors=_number(row["write"]),
                    checksum_errors=_number(row["checksum"]),
                    slow_requests=_number(row["slow"]),
                    note=row["note"] or "",
                )
                for parent, (_, role, row) in zip(parents, self._rows, strict=True)
            ),
            status=self._fields.get("status", ""),
            scan_texts=tuple(filter(None, (*self._scans, self._fields.get("scan")))),
            errors_text=self._fields.get("errors", ""),
            unparsed=tuple(self._unparsed),
        )


def _parents(pool: str, rows: Sequence[tuple[int, str, re.Match[str]]]) -> list[str]:
    """Return what each row is part of: by indentation, or in its absence by the names of groups."""
    indented = len({indent for indent, _, _ in rows}) > 1
    parents: list[str] = []
    above: list[tuple[int, str]] = []
    last_role = DATA
    for number, (indent, role, row) in enumerate(rows):
        name = row["name"]
        if number == 0:
            parents.append("")
            above = [(indent, name)]
            continue
        if role != last_role:
            above = above[:1]
        last_role = role
        is_group = _GROUP.fullmatch(name) is not None
        if indented:
            while len(above) > 1 and above[-1][0] >= indent:
                above.pop()
        elif is_group:
            above = above[:1]
        parents.append(above[-1][1] or pool)
        if is_group or indented:
            above.append((indent, name))
    return parents


def _number(text: str | None) -> int | None:
    """Return a count, which without '-p' has a unit: '1.2K'."""
    if text is None or text == "-":
        return None
    factor: int = _UNITS.get(text[-1], 1)
    return round(float(text.rstrip("KMGTPE")) * factor)


def _time(text: str) -> datetime | None:
    match = _TIME.search(text)
    if match is None:
        return None
    try:
        # Local time, without a zone: whoever has the host's zone applies it.
        return datetime.strptime(match[0], "%a %b %d %H:%M:%S %Y")  # noqa: DTZ007
    except ValueError:
        return None
