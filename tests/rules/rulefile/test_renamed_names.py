"""A name that was changed is found wherever a rule of a user's can have it."""

from __future__ import annotations

import pytest

from iowarden.rules.rename_table import NameKind, Rename
from iowarden.rules.renames import Renames
from iowarden.rules.rulefile.renamed_names import renamed, renamed_in
from iowarden.rules.rulefile.rulefile import parse_rule_file

NAMES = Renames(
    (
        Rename(NameKind.METRIC, "disk_growth", "disk_increase"),
        Rename(NameKind.METRIC, "disk_cover", "disk_state"),
        Rename(NameKind.LABEL, "cover", "state", of="disk_state"),
        Rename(NameKind.LABEL, "way", "access_method"),
        Rename(NameKind.LABEL, "kind", "cause", of="WriteStall"),
        Rename(NameKind.CONDITION, "H2", "smart_errors"),
        Rename(NameKind.ALERT, "DeviceStall", "DeviceHang"),
    )
)
COVER = "the label 'cover' is called 'state' now; write that"
WAY = "the label 'way' is called 'access_method' now; write that"
GROWTH = "the metric 'disk_growth' is called 'disk_increase' now; write that"
H2 = "the condition 'H2' is called 'smart_errors' now; write that"
RULE = """\
groups:
  - name: own
    rules:
      - alert: Own
        expr: disk_state > 0
        {}
"""


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('disk_state{cover="x"}', [COVER]),
        ("sum by (cover) (disk_state)", [COVER]),
        ("max without (way) (disk_info)", [WAY]),
        ("disk_info and on(way) disk_state", [WAY]),
        ("disk_info * on(disk) group_left(cover) disk_state", [COVER]),
        ("disk_info / ignoring(way) disk_state", [WAY]),
        ('label_replace(disk_state, "x", "$1", "cover", "(.*)")', [COVER]),
        ('label_join(disk_info, "x", "-", "disk", "way")', [WAY]),
        ("rate(disk_growth[5m]) > 0 or disk_growth > 5", [GROWTH]),
        ("sum by (cover) (other)", []),
        ('label_replace(disk_info, "way", "$1", "disk", "(.*)")', []),
        ("sum by (state) (disk_state)", []),
    ],
)
def test_a_changed_name_is_found_wherever_an_expression_can_have_it(
    expression: str, expected: list[str]
) -> None:
    """Only a selector's label compares; the others are dropped without an error."""
    assert renamed_in(expression, NAMES) == expected


QUERIED = "annotations: {advice: '{{ range query \"disk_info\" }}{{ %s }}{{ end }}'}"
PRINTED = "annotations: {summary: '{{ query (printf \"disk_info{way=%q}\" $labels.disk) }}'}"


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ('annotations: {summary: "{{ $labels.cover }}"}', [f"summary: {COVER}"]),
        ('annotations: {summary: "{{ query `disk_growth` }}"}', [f"summary: {GROWTH}"]),
        (PRINTED, [f"summary: {WAY}"]),
        (QUERIED % 'label "way" .', [f"advice: {WAY}"]),
        (QUERIED % ".Labels.way", [f"advice: {WAY}"]),
        ("annotations: {evidence: disk_growth other}", [f"evidence: {GROWTH}"]),
        ("labels: {condition: H2}", [f"labels: {H2}"]),
        ('annotations: {summary: "cover {{ $labels.state }} way"}', []),
    ],
)
def test_a_changed_name_is_found_in_labels_and_annotations(part: str, expected: list[str]) -> None:
    """The mail would have nothing in its place."""
    groups = parse_rule_file(RULE.format(part), "own.yaml")
    assert [each.reason for each in renamed(groups, NAMES)] == expected


def test_a_label_that_only_some_alerts_call_otherwise_is_noted_without_an_alertname() -> None:
    """'iowarden silence add kind=throttle' would match no alert, and nothing would say so."""
    assert NAMES.used("kind", "=", "throttle", "") == [
        "of WriteStall the label 'kind' is called 'cause' now"
    ]
    assert NAMES.used("kind", "=", "throttle", "DiskSelfTestFailed") == []
