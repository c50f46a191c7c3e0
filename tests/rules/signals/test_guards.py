"""Guards: which facts there are, that only one module has them, and what each permits."""

from __future__ import annotations

import ast
import dataclasses
import re
from pathlib import Path

import pytest
import yaml
from support.machine import disk, topology

from iowarden import rules
from iowarden.collectors.md.mdstat import SYNC_ACTIONS, MdArray
from iowarden.rules.events.event_table import parse_events_file
from iowarden.rules.signals.device import device
from iowarden.rules.signals.device.hang_thresholds import HangThresholds, WatchedKinds
from iowarden.rules.signals.guards import MEANINGS, Guard, min_seconds, rebuilding

_FACTS = re.compile(
    r"removable|virtual|discard|laptop_mode|asleep|spin|leaked|threshold_drop_ratio"
)
"""Words in the names of the facts behind guards."""


_ATTRIBUTES = re.compile(
    r"removable|usb|fabric|virtual_device|VIRTUAL|laptop_mode|.*discard(?:s_completed|ed_bytes).*"
)
_NAMES = re.compile(
    r"\b(?:nbd|rbd|drbd|mmcblk|xvd|vd|virtio\w*|\w*pvscsi|storvsc\w*|scsifront)(?!\w*_)"
)
_GUARD = re.compile(r"iowarden_guard_active\{[^}]*\}")
"""What was determined."""
_TEMPLATE = re.compile(r"\{\{.*?\}\}", re.DOTALL)
_IN_RULES = re.compile(
    r"iowarden_\w*(?:removable|virtual|discard|spin|asleep)\w*"
    r"|(?:transport|removable|fabric)\\?\s*[=!]~?"
    r"|\b(?:mmcblk|xvd|vd\[|sr\[|virtio)\w*"
)
"""A metric of such a fact, a label of one, or the names of such devices."""
_OLD_DATA, _LAPTOP_MODE = "dirty_expire", "iowarden_vm_laptop_mode"
"""Laptop mode is what the rules of this condition mean, and no guard there."""
_IN_QUERIES = re.compile(
    r"\w*(?:removable|virtual|discard|trim|usb)\w*|\bmodel\b"
    r"|\bdevice\s*[=!]~\s*(?!%)\S+"
    r"|iowarden_\w*(?:laptop|uptime|spin|spun|asleep|leaked|lowered|writer_only|paused|own_scan"
    r"|not_storage|booting|frozen)\w*"
)
"""The same in an expression or query: by whatever label, and by a metric of a guard's own fact."""
_LABELS = re.compile(r"\b(?:on|ignoring|by|without|group_left|group_right)\s*\([^)]*\)")
"""What is compared or summed, and not tested."""
_LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"|`[^`]*`')
EVENTS = Path(rules.__path__[0]) / "events/events.yaml"
_DETERMINES = {
    "signals/device/multipath.py": "which disks a fabric has lost: no guard, but a fault",
    "events/event_correlation.py": "which devices matter only if something is on them (loop, nbd)",
    "events/event_table.py": "which devices are stacked on others: their advice is not a disk's",
}


def facts_of(source: str) -> list[str]:
    """Return what a module reads or names of the facts behind guards, docstrings excepted."""
    tree = ast.parse(source)
    texts = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    found = []
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="Guard" | "DeviceKind")):
                pass  # what was determined
            case (
                ast.Attribute(attr=word) | ast.Name(id=word, ctx=ast.Load()) | ast.alias(name=word)
            ):
                found += [word] if _ATTRIBUTES.fullmatch(word) else []
            case ast.Constant(value=str(word)) if id(node) not in texts:
                found += [word] if _NAMES.search(word) or _ATTRIBUTES.fullmatch(word) else []
            case ast.MatchClass(kwd_attrs=words):
                found += [word for word in words if _ATTRIBUTES.fullmatch(word)]
    return found


def facts_of_rules(text: str) -> list[str]:
    """Return what the expressions and templates of a rule file test of the facts behind guards."""
    groups = yaml.safe_load(text)["groups"]
    rules_of = [rule for group in groups for rule in group["rules"]]
    texts = [
        rule["expr"].replace(_LAPTOP_MODE, "")
        if rule.get("labels", {}).get("condition") == _OLD_DATA
        else rule["expr"]
        for rule in rules_of
    ]
    queries = list(texts)
    for each in rules_of:
        for annotation in each.get("annotations", {}).values():
            templates = _TEMPLATE.findall(str(annotation))
            texts += templates
            literals = [word for one in templates for word in _LITERAL.findall(one)]
            queries += [one.replace('\\"', '"') for one in literals if "iowarden_" in one]
    found = [word for each in texts for word in _IN_RULES.findall(_GUARD.sub("", each))]
    for query in queries:
        found += _IN_QUERIES.findall(_LABELS.sub("", _GUARD.sub("", query)))
    return found


@pytest.mark.parametrize(
    "room", ["advice", "alerting", "engine", "events", "incidents", "scan", "signals"]
)
def test_no_module_that_decides_on_alerts_tests_a_guard_by_itself(room: str) -> None:
    """Whether a device is removable or virtual, or discards, is determined in one module.

    Also by what the lines of the kernel's log are judged: an error of a stick is one. And what is
    advised, and which disk is scanned, follow from the same facts.
    """
    directory = Path(rules.__path__[0])
    found = {
        place: own
        for path in sorted((directory / room).rglob("*.py"))
        if (place := path.relative_to(directory).as_posix()) not in _DETERMINES
        if place != "signals/guards.py"
        if (own := facts_of(path.read_text()))
    }
    assert found == {}


def test_no_row_of_the_event_table_depends_on_what_a_device_is() -> None:
    """Its keys are few, and none of them is a fact of a device: an error of a stick is one."""
    words = {word for row in parse_events_file(EVENTS.read_text(), EVENTS.name).rows.values()
             for word in dataclasses.asdict(row)}  # fmt: skip
    assert words
    assert not [word for word in words if _ATTRIBUTES.fullmatch(word) or _FACTS.search(word)]


@pytest.mark.parametrize("path", sorted(Path(rules.__path__[0]).glob("*.yaml")), ids=str)
def test_no_rule_file_tests_a_guard_by_itself(path: Path) -> None:
    """They read the family of guards, or thresholds that follow from them."""
    if "groups" in yaml.safe_load(path.read_text()):
        assert facts_of_rules(path.read_text()) == []


@pytest.mark.parametrize(
    "expression",
    [
        "iowarden_device_hang_seconds > 10 unless iowarden_device_removable == 1",
        'iowarden_device_info{transport!="usb"}',
        "rate(iowarden_device_discards_completed_total[5m]) > 0",
        'iowarden_device_hang_seconds{device!~"mmcblk.*"} > 10',
        'iowarden_device_hang_seconds{device!~"vd[a-z]"} > 10',
        'iowarden_device_hang_seconds{device!~"vd.*"} > 10',
        'iowarden_device_hang_seconds{device!~"sr.*"} > 10',
        'iowarden_device_hang_seconds{device!~"nbd.*|rbd.*"} > 10',
        'iowarden_device_hang_seconds unless on (device) iowarden_device_info{model=~"QEMU.*"}',
        'iowarden_device_info{bus="usb"}',
        'iowarden_device_info{type="virtual disk"}',
        'iowarden_device_io_seconds_total{operation="discard"} > 0',
        'iowarden_device_io_seconds_total{operation=~"trim"} > 0',
        "iowarden_device_hang_seconds unless on (instance) iowarden_vm_laptop_mode > 0",
        "iowarden_device_hang_seconds and on (instance) iowarden_uptime_seconds > 120",
        "iowarden_device_spun_down == 0",
        "iowarden_device_in_flight_leaked == 0",
        'iowarden_guard_active{guard="virtual"} or iowarden_device_fua_total{op=~"trim"}',
    ],
)
@pytest.mark.parametrize("place", ["expr", "summary"])
def test_a_rule_file_that_tests_a_guard_by_itself_is_seen(expression: str, place: str) -> None:
    """In an expression, or in a query of a text."""
    rule = {"alert": "A", "expr": "up == 0", "annotations": {"summary": "x"}}
    if place == "expr":
        rule["expr"] = expression
    else:
        rule["annotations"] = {"summary": f"{{{{ with query `{expression}` }}}}x{{{{ end }}}}"}
    assert facts_of_rules(yaml.safe_dump({"groups": [{"rules": [rule]}]}))
    rule = {"alert": "A", "expr": 'iowarden_guard_active{guard="virtual"}'}
    assert not facts_of_rules(yaml.safe_dump({"groups": [{"rules": [rule]}]}))


@pytest.mark.parametrize(
    "source",
    [
        "if device.removable: pass",
        "away = [host for host in hosts if host.fabric]",
        "from iowarden.rules.smart.plausibility import virtual_device",
        "_NEVER = re.compile(r'(nbd|rbd)\\d+')",
        "is_card = name.startswith('mmcblk')",
        "more = after.discards_completed_total - before",
        "if host.driver in {'virtio_scsi'}: pass",
        "if getattr(device, 'removable'): pass",
        "is_stick = operator.attrgetter('removable')(device)",
        "match device:\n    case Device(removable=True): pass",
        "is_usb = vars(host)['usb']",
    ],
)
def test_a_signal_that_tests_a_guard_by_itself_is_seen(source: str) -> None:
    """However it is written."""
    assert facts_of(source)
    assert not facts_of("active = Guard.VIRTUAL in guards.of(device)")


def test_every_guard_has_its_reason() -> None:
    """'iowarden disk show' prints it, and it is a label on '/metrics': one of few texts."""
    assert list(MEANINGS) == list(Guard)
    assert all(meaning.reason for meaning in MEANINGS.values())


def test_the_guard_that_permits_most_counts() -> None:
    """A virtual disk on a host that was just resumed; without any nothing is permitted."""
    assert min_seconds({Guard.VIRTUAL, Guard.SUSPENDED_MACHINE}) == 30
    assert min_seconds({Guard.IN_FLIGHT_LEAKED}) == 0
    assert min_seconds(()) == 0


def test_a_path_stalls_from_the_time_on_that_its_map_permits() -> None:
    """Its requests fail over meanwhile: by itself it never hangs, and its writes may stall."""
    kinds = WatchedKinds({"sda": HangThresholds(None, None, 10.0)}, {"dm-0": ("sda",)}, {}, {})
    state = device.DeviceState({"sda": device.DeviceProgress(1)}, kinds=kinds)
    assert device.threshold_seconds(state, "sda") == 45
    assert device.threshold_seconds(state, "sdb") == 10, "a disk that is not known yet"


@pytest.mark.parametrize("action", sorted(SYNC_ACTIONS))
def test_only_the_disks_of_an_array_that_synchronizes_now_have_the_guard(action: str) -> None:
    """md1 waits until md0, on the same disks, is done; md2 is frozen; md3 does nothing."""
    usual = MdArray("md0", "raid1", "clean", 2, 0, action, 0.5, None, None, None, None, ())
    arrays = {
        "md0": usual,
        "md1": dataclasses.replace(usual, name="md1", sync_wait="DELAYED"),
        "md2": dataclasses.replace(usual, name="md2", sync_action="frozen"),
        "md3": dataclasses.replace(usual, name="md3", sync_action=None),
    }
    disks = [disk(f"sd{letter}") for letter in "abcdefgh"]
    mirrors = [
        disk(f"md{number}", leaf=False, slaves=tuple(own.name for own in disks[2 * number :][:2]))
        for number in range(4)
    ]
    assert rebuilding(arrays, topology(*disks, *mirrors)) == {"sda", "sdb"}
    assert rebuilding(None, topology(*disks)) == frozenset()
