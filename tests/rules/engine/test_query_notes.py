"""What a mistyped query is told, instead of an empty result alone."""

from __future__ import annotations

import pytest

from iowarden.rules.engine.query_notes import unmatched
from iowarden.rules.promql.parser import parse

SERIES = {
    "iowarden_device_hang_seconds": [(("device", f"sd{letter}"),) for letter in "abcdefghij"],
    "iowarden_md_array_failed_disks": [(("array", "md0"), ("level", "raid1"))],
    "up": [(("instance", "db1"), ("job", "node"))],
}
KNOWN = {*SERIES, "iowarden_md_mismatches_bytes"}
HANG = "iowarden_device_hang_seconds"
FAILED = "iowarden_md_array_failed_disks"


def notes(text: str) -> list[str]:
    """Return what is noted about an expression."""
    every = [labels for series in SERIES.values() for labels in series]
    return [*unmatched(parse(text), lambda n: SERIES.get(n, []) if n else every, KNOWN)]


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (f'{HANG}{{devise="sda"}}', f"no series of '{HANG}' has the label 'devise'; did you mean "),
        (f'sum({FAILED}{{disk!=""}}) > 0', "has the label 'disk'; they have: array, level"),
        (
            f'{HANG}{{device="sdz"}}',
            'has device="sdz"; they have: sda, sdb, sdc, sdd, sde, sdf, sdg',
        ),
        (f'{HANG}{{device=~"nvme.*"}}', "sdh and 2 more"),
        ('{disk="sda"}', "no series has the label 'disk'; they have: array, device, instance, job"),
        (f"max by (disk) ({HANG})", "no series has the label 'disk' of 'by'; they have: device"),
        (f"{HANG} > on (devise) {HANG}", "the label 'devise' of 'on'; did you mean 'device'?"),
        (
            "rate(iowarden_md_mismatches_bytes[1m])",
            "no series now; why: iowarden metrics iowarden_md_",
        ),
    ],
)
def test_what_no_series_has_is_named(text: str, note: str) -> None:
    """A label, a value, or a metric of which there is none here."""
    (said,) = notes(text)
    assert note in said


@pytest.mark.parametrize(
    "text",
    [
        f"{HANG} > 600",
        f'{HANG}{{device=~"sd.*", host=""}}',
        f"{HANG} * on (instance, job) group_left up",
        f'sum by (bay) (label_replace({HANG}, "bay", "$1", "device", "(.*)"))',
        f'count by (n) (count_values("n", {HANG}))',
        f"sum without (disk) ({HANG})",
        "iowarden_of_nobody",
        "1 + 1",
    ],
)
def test_what_may_be_meant_so_is_not_noted(text: str) -> None:
    """Values that exceed nothing, labels that the expression makes, labels of a scrape."""
    assert notes(text) == []
