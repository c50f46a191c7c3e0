"""What the distribution's node_exporter says, as the one we give the names of would say it."""

from __future__ import annotations

import re

from prometheus_client.parser import text_string_to_metric_families

Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]

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

NEW = (
    (
        re.compile(r"node_pressure_irq_stalled_seconds_total"),
        "pressure of interrupts is shown since 1.9",
    ),
    (
        re.compile(r"node_filesystem_mount_info\{.*"),
        "the numbers of a mount's device are shown since 1.9",
    ),
    (
        re.compile(r"node_filesystem_purgeable_bytes\{.*"),
        "since 1.9, made for another system, 0 on this one",
    ),
    (
        re.compile(r"node_md_(degraded|raid_disks)\{.*"),
        "1.10 and later read what sysfs says of an array",
    ),
)
"""What 1.12 has and 1.5 has not."""

NEW_LABELS = (
    ("node_disk_info", "rotational", "in the identity since 1.9"),
    ("node_filesystem_", "device_error", "the reason is a label since 1.8; '' without one"),
)
"""Labels that 1.12 has and 1.5 has not, of names that begin so."""


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


def theirs(series: Series) -> Series:
    """Return what an older or newer node_exporter says, as far as 1.5 and 1.12 agree."""
    return _without(series, (*GONE, *NEW))


def ours(series: Series) -> Series:
    """Return what we say, as far as 1.5 can say it; of what is GONE we must say nothing."""
    return _without(series, NEW)


def _without(series: Series, differences: tuple[tuple[re.Pattern[str], str], ...]) -> Series:
    result: Series = {}
    for (name, labels), value in series.items():
        inside = ",".join(f"{key}={text}" for key, text in labels)
        shown = f"{name}{{{inside}}}" if labels else name
        if not any(pattern.fullmatch(shown) for pattern, _ in differences):
            new = {label for start, label, _ in NEW_LABELS if name.startswith(start)}
            result[name, tuple(pair for pair in labels if pair[0] not in new)] = value
    return result
