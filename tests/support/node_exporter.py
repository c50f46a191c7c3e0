"""What the distribution's node_exporter says, as the one we give the names of would say it."""

from __future__ import annotations

import re

from prometheus_client.parser import text_string_to_metric_families

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]
Version = tuple[int, ...]

GONE = (
    (
        re.compile(
            r"node_memory_(Balloon|FileHugePages|FilePmdMapped|GPU\w+|Hugetlb|KReclaimable"
            r"|SecPageTables|ShadowCallStack|Unaccepted|VmallocTotalHuge)(_bytes)?"
        ),
        "1.5 shows every line of '/proc/meminfo', 1.9 and later those that its library knows",
    ),
    (
        re.compile(r"node_disk_\w+\{device=zram\d+\b.*"),
        "1.5 leaves out ram0 but not zram0, which later ones take for memory, too",
    ),
    (
        re.compile(r"node_filesystem_\w+\{.*\bfstype=erofs,.*"),
        "1.10 and later leave out this kind, which is always full and read-only",
    ),
)
"""What 1.5 has and 1.12 has not: series as 'name{label=value}', and why."""

MISSING = (
    (
        re.compile(r"node_pressure_irq_stalled_seconds_total"),
        ((0,), (1, 9)),
        "pressure of interrupts is shown since 1.9",
    ),
    (
        re.compile(r"node_filesystem_mount_info\{.*"),
        ((0,), (1, 9)),
        "the numbers of a mount's device are shown since 1.9",
    ),
    (
        re.compile(r"node_filesystem_purgeable_bytes\{.*"),
        ((0,), (1, 10)),
        "since 1.10, made for another system, 0 on this one",
    ),
    (
        re.compile(r"node_memory_Zswap(ped)?_bytes"),
        ((1, 9), (1, 10, 2)),
        "1.9 shows the lines of '/proc/meminfo' that its library knows, which were not yet these",
    ),
    (
        re.compile(r"node_md_(degraded|raid_disks)\{.*"),
        ((0,), (1, 10)),
        "1.10 and later read what sysfs says of an array",
    ),
)
"""What 1.12 has and some have not: in versions from the first to before the second, and why."""

NEVER = (99,)
NEW_LABELS = (
    (
        "node_disk_info",
        "rotational",
        NEVER,
        "new in 1.9, but '0' where any file of the queue is missing, as io_timeout of virtio disks",
    ),
    ("node_filesystem_", "device_error", (1, 8), "the reason is a label since 1.8; '' without one"),
)
"""Labels of names that begin so, the version from which they are compared, and why."""


def parse(text: str) -> tuple[dict[str, str], Series]:
    """Return the type of every family and the value of every series on a '/metrics'."""
    types: dict[str, str] = {}
    series: Series = {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name, kind = line.split()[2:]
            types[name] = kind
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            series[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    return types, series


def version(series: Series) -> Version:
    """Return the version that a node_exporter says it is."""
    (build,) = (dict(labels) for name, labels in series if name == "node_exporter_build_info")
    return tuple(int(part) for part in build["version"].split("."))


def theirs(series: Series) -> Series:
    """Return what a node_exporter says, but for what is GONE: of that we must say nothing."""
    return _without(series, [pattern for pattern, _ in GONE], version(series))


def ours(series: Series, other: Version) -> Series:
    """Return what we say, as far as a node_exporter of another version can say it."""
    missing = [pattern for pattern, (first, end), _ in MISSING if first <= other < end]
    return _without(series, missing, other)


def _without(series: Series, patterns: list[re.Pattern[str]], other: Version) -> Series:
    result: Series = {}
    for (name, labels), value in series.items():
        inside = ",".join(f"{key}={text}" for key, text in labels)
        shown = f"{name}{{{inside}}}" if labels else name
        if not any(pattern.fullmatch(shown) for pattern in patterns):
            new = {
                label
                for start, label, since, _ in NEW_LABELS
                if name.startswith(start) and other < since
            }
            result[name, tuple(pair for pair in labels if pair[0] not in new)] = value
    return result
