"""Which labels, values and families the shipped rules may select by: never what a guard is about.

Whether a device is removable or virtual, or discards, is determined once (rules/signals/guards.py).
A rule compares what follows from it, or reads the one family of all guards. So what a selector may
name is listed, in expressions and in the queries of annotations alike, and not what it may not: a
stick is known by its path, its model, its driver, an empty serial number and much else.
"""

from __future__ import annotations

import importlib.resources
import re
from typing import TYPE_CHECKING

import pytest

from iowarden.rules.promql.ast import Call, Selector, Text, children
from iowarden.rules.promql.parser import parse
from iowarden.rules.rulefile.rulefile import SHIPPED, RecordingRule, Rule, parse_rule_file
from iowarden.rules.signals.guards import Guard

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from iowarden.rules.promql.ast import LabelMatcher, Node

OWN = "%q"
"""The value of a label of the alert itself, in a query of its annotations."""
ONE = frozenset({OWN})
OBJECTS = frozenset(
    "area array battery collector controller device devices directory disk glob host hwmon instance"
    " job mountpoint object pool program receiver slot vdev vendor".split()
)
"""Labels that name an object: a rule selects the one that the alert is about."""
STATES = frozenset(
    "action against alertname attribute bit cause class counter defrag enabled expected_by failure"
    " id kind min_tasks origin release resource scope sensor severity state target technology"
    " vendor_state".split()
)
"""Labels that say how something is, or which of its numbers a series has: of any value."""
VALUES: Mapping[str, frozenset[str]] = {
    "guard": frozenset(guard.value for guard in Guard),
    "vendor": frozenset({"3ware", "hp", "adaptec"}),
    "program": frozenset({"cciss_vol_status"}),
    "driver": frozenset({"arcmsr", "3w-.+"}),
    "chip": frozenset({"nvme"}),
    "fstype": frozenset({"btrfs", "ext[234]", "f2fs", "jfs", "xfs"}),
    "device": frozenset({""}),
    "used_by": frozenset({""}),
}
"""Of labels that could say what a device is: the values that may be written in a rule. A vendor, a
driver and a program are those of RAID controllers, whose own rules read them."""
LABELS = OBJECTS | STATES | VALUES.keys()
FACTS = re.compile(
    r"removable|virtual|discard|laptop_mode|asleep|spin|leaked|threshold_drop_ratio|rotational"
    r"|blocked_not_writing|clock_(?:uptime|monotonic)|boot_timestamp|transport"
)
"""Words in the names of families that show what a guard is about."""
SETTINGS = frozenset({"DirtyWritebackDisabled", "DirtyExpireTooLong"})
"""Alerts about the settings that laptop mode consists of."""
HARMED = {"WriteStall": ["iowarden_tasks_blocked_not_writing"]}
"""It is urgent only if programs are seen that are harmed: more than that no guard holds."""
_ACTION = re.compile(r"\{\{-?(.*?)-?\}\}", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"|`[^`]*`')
_QUERY = re.compile(rf"\bquery\s*(?:\(\s*printf\s*)?({_STRING.pattern})")
_CONDITION = re.compile(r"\b(?:eq|ne|lt|le|gt|ge|and|or|not|match|reReplaceAll|index|len)\b|:=")


def queries(template: str) -> Iterator[str]:
    """Yield the queries of a template; each has to be written where it is requested."""
    for action in _ACTION.findall(template):
        found = _QUERY.findall(action)
        assert len(found) == len(re.findall(r"\bquery\b", _STRING.sub("", action))), action
        for text in found:
            plain = text[1:-1] if text[0] == "`" else re.sub(r"\\(.)", r"\1", text[1:-1])
            yield re.sub(r"%[fgsv]", "1", plain.replace("%q", f'"{OWN}"'))


def nodes(node: Node) -> Iterator[Node]:
    """Yield an expression and all parts of it."""
    yield node
    for child in children(node):
        yield from nodes(child)


def is_permitted(matcher: LabelMatcher) -> bool:
    """Whether a selector may have this matcher."""
    label, value = matcher.label, matcher.value
    if label in STATES:
        return True
    if value == OWN:
        return label in OBJECTS and matcher.operator in {"=", "!="}
    is_list = matcher.operator in {"=~", "!~"}
    return {*(value.split("|") if is_list else (value,))} <= VALUES.get(label, frozenset())


def offences(text: str) -> list[str]:
    """Return what an expression selects by that it may not."""
    found = []
    for node in nodes(parse(text)):
        match node:
            case Selector(name=name, matchers=matchers):
                found += [name or "no name"] if not name or FACTS.search(name) else []
                found += [m.label for m in matchers if not is_permitted(m)]
            case Call(function="label_replace", arguments=(_, Text(new), _, Text(old), _)):
                found += [label for label in (new, old) if label not in LABELS | {"name", "fsid"}]
            case Call(function="label_join", arguments=(_, Text(new), _, *rest)):
                olds = [each.value for each in rest if isinstance(each, Text)]
                found += [label for label in (new, *olds) if label not in LABELS]
    return found


def offences_of(rule: Rule | RecordingRule) -> list[str]:
    """Return what a rule selects by that it may not, in its expression and in its templates."""
    found = offences(rule.expression.text)
    if isinstance(rule, Rule):
        for name, template in (*rule.annotations, *rule.labels):
            found += [each for query in queries(template.text) for each in offences(query)]
            if name == "urgent":  # one query, and nothing that compares a label
                actions = [_STRING.sub("", each) for each in _ACTION.findall(template.text)]
                found += [each for each in actions if _CONDITION.search(each)]
    return found


def rules_of(text: str, file: str) -> Iterator[tuple[str, Rule | RecordingRule]]:
    """Yield the rules of a file with their names."""
    for group in parse_rule_file(text, file):
        for rule in group.rules:
            yield rule.alert if isinstance(rule, Rule) else rule.record, rule


def test_no_rule_tests_a_guard_by_itself() -> None:
    """Neither its expression, nor a query of its annotations, nor whether its mail is urgent."""
    directory = importlib.resources.files("iowarden.rules")
    found = {
        f"{entry.name}: {name}": own
        for entry in directory.iterdir()
        if entry.name.endswith(".yaml")
        for name, rule in rules_of(entry.read_text(), SHIPPED + entry.name)
        if name not in SETTINGS
        if (own := offences_of(rule)) and own != HARMED.get(name)
    }
    assert found == {}


@pytest.mark.parametrize(
    "text",
    [
        'rate(iowarden_device_discards_completed_total{device="%q"}[5m]) > 0',
        'a unless on (device) (b{removable="1"} or c)',
        "max_over_time((iowarden_vm_laptop_mode > 0)[10m:1m])",
        '{__name__=~"iowarden_device_discard.*"} > 0',
        '{__name__=~"iowarden_device_d.*_completed_total"} > 0',
        'iowarden_device_hang_seconds{device!~"vd.*|xvd.*"} > 10',
        'iowarden_device_hang_seconds{device!="mmcblk0"} > 10',
        'iowarden_device_hang_seconds{device=~"sd.*"} > 10',
        'iowarden_device_hang_seconds{device=~"sd[a-z]+|nvme.+"} > 10',
        'iowarden_device_hang_seconds{device=~"%q"} > 10',
        'a * on (device) group_left () iowarden_disk_info{model=~"QEMU.*|Virtual.*"}',
        'a unless on (device) iowarden_disk_info{model=~".*VBOX.*"}',
        'a unless on (device) iowarden_disk_info{model=~".*STICK.*"}',
        'a unless on (device) iowarden_disk_info{serial=""}',
        'a unless on (device) iowarden_disk_info{path=~".*-usb-.*"}',
        'a unless on (device) iowarden_disk_info{driver="usb-storage"}',
        'a unless on (device) iowarden_disk_info{driver="%q"}',
        'a unless on (device) iowarden_disk_info{driver=~"3w-.+|uas"}',
        'a and on (device) b{vendor!~"Google|Msft"}',
        'a and on (device) b{firmware=~".*"}',
        'a{guard="looks_virtual"}',
        "a and on () iowarden_clock_uptime_seconds < 120",
        "a and on () iowarden_device_rotational == 0",
        'label_replace(a, "removable", "$1", "path", ".*-(usb)-.*")',
        'label_replace(a, "kind", "$1", "model", "(QEMU).*")',
        'label_join(a, "device", " ", "model", "serial")',
    ],
)
def test_a_rule_that_tests_a_guard_by_itself_is_seen(text: str) -> None:
    """However it is written."""
    assert offences(text)


@pytest.mark.parametrize(
    "text",
    [
        'a unless on (device) iowarden_guard_active{guard=~"removable|virtual"}',
        'iowarden_device_hang_seconds{device="%q",instance="%q"}',
        "iowarden_device_hang_seconds >= on (device) iowarden_device_hang_threshold_seconds",
        'iowarden_md_member_state{state!~"in_sync|spare"}',
        'iowarden_controller_info{driver=~"3w-.+"}',
    ],
)
def test_a_rule_that_reads_the_guards_tests_none(text: str) -> None:
    """Nor does one that names its own device, a state, or the driver of a controller."""
    assert offences(text) == []


CHEATS = {
    "summary": "{{ with query `iowarden_disk_info{model=~'.*VBOX.*'}` }}virtual{{ end }}",
    "urgent": "{{ with query `iowarden_disk_info{path=~'.*-usb-.*'}` }}false{{ end }}",
    "urgent, by its own label": "{{ if match `.*-usb-.*` $labels.path }}false{{ end }}",
    "urgent, by its value": "{{ if eq $labels.model `VBOX` }}false{{ else }}true{{ end }}",
    "description": "{{ range query (printf `a{driver=%q}` $labels.driver) }}{{ end }}",
}


@pytest.mark.parametrize("place", CHEATS)
def test_a_template_that_tests_a_guard_by_itself_is_seen(place: str) -> None:
    """A query of an annotation, and what decides whether a mail leaves at once."""
    name = place.partition(",")[0]
    text = (
        "groups:\n- name: g\n  rules:\n  - alert: A\n    expr: iowarden_device_hang_seconds > 10\n"
        f'    annotations: {{{name}: "{CHEATS[place]}"}}\n'
    )
    ((_, rule),) = rules_of(text, "own.yaml")
    assert offences_of(rule)
