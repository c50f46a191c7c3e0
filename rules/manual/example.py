"""An example object for each alert: its labels, its value, and what else its texts select. Pure.

The texts of a rule are templates about the object at hand. Where there is none, in a manual, they
are rendered for an object that fulfils the rule: what its expression compares and selects decides,
the tables below give the rest. So a manual has the words that a mail has, and no text of its own.
"""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING

from iowarden.rules.promql.ast import Aggregation, Binary, Call, Negation, Number, Selector
from iowarden.rules.promql.evaluator import Sample
from iowarden.rules.promql.parser import parse
from iowarden.rules.promql.regex import compile_anchored
from iowarden.rules.promql.signatures import COMPARISONS
from iowarden.rules.rulefile.unmatched_selectors import selectors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from iowarden.rules.promql.ast import LabelMatcher, Node
    from iowarden.rules.rulefile.rulefile import Rule

SERIAL = "ZFN0EXMP"
MODEL = "EXAMPLE HDD"
_LABEL = re.compile(r"\$labels\.(\w+)")
_MATCHED = re.compile(r"\b(?:on|by) ?\(([\w, ]*)\)")
_OBJECTS = ("device", "disk", "member", "mountpoint")
"""Labels of the object itself; what is matched by others may be what it is attached to."""
LABELS: Mapping[str, tuple[str, ...]] = {
    "access_method": ("smartctl -d megaraid,4 /dev/sda",),
    "action": ("check",),
    "against": ("array",),
    "area": ("data",),
    "array": ("virtual drive 1",),
    "attribute": (
        *("Current_Pending_Sector", "uncorrected_read_errors", "media_errors", "errors_logged"),
        *("grown_defects", "warning_temperature_minutes", "unsafe_shutdowns"),
    ),
    "battery": ("bbu",),
    "bdi": ("8:0",),
    "bit": ("0x04", "0x02"),
    "block": ("9249",),
    "cause": ("backlog",),
    "chip": ("nvme",),
    "collector": ("diskstats",),
    "controller": ("megaraid c0",),
    "counter": ("media error", "predictive failure", "other error"),
    "device": ("sda",),
    "devices": ("sda",),
    "devid": ("1",),
    "directory": ("/srv/backup",),
    "disk": (SERIAL,),
    "document": ("incidents",),
    "driver": ("megaraid_sas", "arcmsr", "3w-9xxx"),
    "expected_by": ("history",),
    "file": ("/etc/iowarden/rules.d/example.yaml",),
    "firmware": ("4.680.00-8519",),
    "fsid": ("8f1d5c0a-7b51-4f0e-9d0b-6a2c1f3e4d5b",),
    "fstype": ("ext4",),
    "function": ("ext4_find_entry",),
    "glob": ("*",),
    "group": ("mirror-0",),
    "host": ("host0",),
    "hwmon": ("hwmon1",),
    "id": ("197",),
    "inode": ("131074",),
    "instance": ("localhost",),
    "job": ("iowarden",),
    "kind": ("long",),
    "label": ("data",),
    "leg": ("1",),
    "level": ("RAID-5",),
    "line": ("1436",),
    "member": ("sda1",),
    "model": (MODEL,),
    "mountpoint": ("/srv",),
    "name": ("data",),
    "object": (f"sda ({MODEL}, serial {SERIAL})",),
    "operation": ("write",),
    "outcome": ("stuck",),
    "partition": ("sda1",),
    "path": ("8:16",),
    "pid": ("4711",),
    "pool": ("tank",),
    "program": ("smartd",),
    "reason": ("the device does not answer",),
    "receiver": ("mail",),
    "recommended": ("mq-deadline",),
    "role": ("data",),
    "rule": ("DiskSlow",),
    "scheduler": ("bfq",),
    "sensor": ("fan 1",),
    "serial": (SERIAL,),
    "slot": ("enclosure 252 slot 1",),
    "state": ("failed", "degraded", "attention", "out_of_data_space", "Invalid", "DEGRADED", "D"),
    "target": ("raid", "thin-pool", "snapshot", "striped", "integrity", "cache", "vdo"),
    "unit": ("smartmontools.service",),
    "used_by": ("md0",),
    "vdev": ("sdb1",),
    "vendor": ("megaraid",),
    "vendor_state": ("Failed",),
    "warning": ("temperature is beyond a threshold",),
}
"""Of an example object; of several values the first that the rule selects."""
_OF_METRICS: tuple[tuple[str, Mapping[str, tuple[str, ...]]], ...] = (
    ("iowarden_controller_", {"program": ("storcli64",)}),
    ("iowarden_controller_info", {"model": ("MegaRAID 9361-8i",)}),
    ("iowarden_controller_state", {"model": ("MegaRAID 9361-8i",)}),
    ("iowarden_md_", {"device": ("md0",)}),
    ("iowarden_dm_", {"device": ("dm-0",), "name": ("vg-data",)}),
    ("iowarden_device_mapper_", {"device": ("dm-0",), "name": ("vg-data",)}),
    ("iowarden:device_suspended:", {"device": ("dm-0",), "name": ("vg-data",)}),
    ("iowarden_multipath_", {"device": ("dm-1",), "name": ("mpatha",)}),
    ("iowarden_dm_path_", {"device": ("dm-1",), "name": ("mpatha",)}),
    ("iowarden_ext4_", {"device": ("dm-0",)}),
    ("iowarden_filesystem_", {"device": ("/dev/mapper/vg-data",)}),
    ("iowarden_mount_", {"device": ("/dev/mapper/vg-data",)}),
    ("iowarden_device_removed", {"device": ("sda",)}),
    ("iowarden_freeze_", {"disk": ("sda",)}),
    ("iowarden_zfs_", {"kind": ("read",)}),
    ("iowarden_smart_implausible", {"reason": ("no self-test log and no self-tests",)}),
    ("iowarden_smart_counters_implausible", {"reason": ("its power-on time does not increase",)}),
    ("iowarden_state_unreadable", {"reason": ("unreadable",)}),
    ("iowarden_smart_helium_", {"id": ("22",), "attribute": ("Helium_Level",)}),
)
"""What is otherwise on the objects of a metric, by the beginning of its name."""
_VENDOR_STATES: Mapping[str, str] = {
    "attention": "Unknown",
    "busy": "Charging",
    "degraded": "Degraded",
    "failed": "Failed",
    "failing": "Predictive failure",
    "rebuilding": "Rebuild",
}
"""What a controller's program may print for a state."""
_ATTRIBUTES: Mapping[str, str] = {
    "5": "Reallocated_Sector_Ct",
    "10": "Spin_Retry_Count",
    "187": "Reported_Uncorrect",
    "188": "Command_Timeout",
    "196": "Reallocated_Event_Count",
    "197": "Current_Pending_Sector",
    "198": "Offline_Uncorrectable",
    "199": "UDMA_CRC_Error_Count",
}
"""The names of SMART attributes by number, as smartctl prints them."""
NOW_SECONDS = 1_790_000_000.0
BYTES_PER_SECOND = 2 * 1024.0**2
"""What the slow disk of the example takes."""
_MIB, _GIB, _HOUR, _DAY = 1024.0**2, 1024.0**3, 3600.0, 86_400.0
_VALUES: Mapping[str, float] = {
    "iowarden_backup_age_seconds": 49 * _HOUR,
    "iowarden_backup_age_limit_seconds": 25 * _HOUR,
    "iowarden_backup_age_critical_seconds": 48 * _HOUR,
    "iowarden_backup_oldest_age_seconds": 5 * _DAY,
    "iowarden_backup_retention_seconds": 30 * _DAY,
    "iowarden_competing_monitor_pid": 4711.0,
    "iowarden_device_hang_seconds": 42.0,
    "iowarden_device_hang_threshold_seconds": 30.0,
    "iowarden_device_max_hw_sectors_bytes": 4 * _MIB,
    "iowarden_device_max_sectors_bytes": _MIB,
    "iowarden_device_raid_chunk_bytes": 0.5 * _MIB,
    "iowarden_device_read_ahead_bytes": 0.125 * _MIB,
    "iowarden_device_read_ahead_recommended_bytes": 4 * _MIB,
    "iowarden_device_reference_latency_seconds": 0.012,
    "iowarden_device_size_change_bytes": 500 * _GIB,
    "iowarden_disk_endurance_pace_window_seconds": 30 * _DAY,
    "iowarden_freeze_reported_times": 1.0,
    "iowarden_freeze_seconds": 95.0,
    "iowarden_http_certificate_expiry_timestamp_seconds": NOW_SECONDS + 5 * _DAY,
    "iowarden_http_certificate_start_timestamp_seconds": NOW_SECONDS - 85 * _DAY,
    "iowarden_md_copy_mismatches_bytes": _MIB,
    "iowarden_md_missing_members": 1.0,
    "iowarden_md_parity_mismatches_bytes": 0.125 * _MIB,
    "iowarden_memory_swap_free_bytes": 2 * _GIB,
    "iowarden_memory_swap_total_bytes": 8 * _GIB,
    "iowarden_numa_nodes": 2.0,
    "iowarden_partition_misaligned_bytes": 3584.0,
    "iowarden_redundancy_survives_disks": 1.0,
    "iowarden_smart_self_test_first_error_lba": 976_773_168.0,
    "iowarden_temperature_max_celsius": 60.0,
    "iowarden_temperature_critical_celsius": 60.0,
    "iowarden_vm_zone_reclaim_mode": 1.0,
}
"""Where the value of its unit would not be a plausible one."""
_UNITS: tuple[tuple[str, float], ...] = (
    ("_bytes_per_second", BYTES_PER_SECOND),
    ("_bytes", 593 * _MIB),
    ("bytes", 593 * _MIB),
    ("_exhausted_earliest_timestamp_seconds", NOW_SECONDS + 60 * _DAY),
    ("_exhausted_latest_timestamp_seconds", NOW_SECONDS + 90 * _DAY),
    ("_exhausted_timestamp_seconds", NOW_SECONDS + 75 * _DAY),
    ("_timestamp_seconds", NOW_SECONDS - 2 * _DAY),
    ("_latency_seconds", 0.084),
    ("_full_in_seconds", 6 * _HOUR),
    ("_seconds_total", _HOUR),
    ("_seconds", 295.0),
    ("_ratio", 0.42),
    ("_percent", 40.0),
    ("_celsius", 61.0),
    ("_rpm", 600.0),
    ("_volts", 11.2),
)
"""By the end of a metric's name."""
_COUNT, _OF_A_STATE = 3.0, 1.0
"""How many there are, and how many of them are in the state that a rule selects."""
_USUALLY_ABSENT = frozenset(
    (
        "iowarden_bdi_strict_limit",
        "iowarden_enclosure_slow_disks",
        "iowarden_freeze_max_seconds",
        "iowarden_freeze_quiet_seconds",
        "iowarden_guard_active",
        "iowarden_md_sync_running_ratio",
        "iowarden_scan_slower_zones",
        "iowarden_scsi_host_slow_disks",
        "iowarden_smart_nvme_only_worn",
    )
)
"""Series of circumstances that change a text; the rule is fulfilled without them."""
_OF_THE_MACHINE = frozenset(("fstype", "program", "vendor", "vendor_state"))
"""Labels that a query of a text tries for different machines; the example is one of them."""
_FEW = 100.0
_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ARITHMETIC: Mapping[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


class Example:
    """An object that fulfils the expression of a rule."""

    def __init__(self, rule: Rule) -> None:
        """Choose its labels and its value."""
        tree = parse(rule.expression.text)
        named = {label for _, text in rule.annotations for label in _LABEL.findall(text.text)}
        usual = {name: values[0] for name, values in LABELS.items()}
        # A label that only a rule of the user has is shown as its own name.
        self.labels = {name: name for name in named} | usual | _particular(tree)
        self.value = _value(tree)
        self._names = {each.name for each in [*selectors(tree)][:1]}
        self._absent = _excluded(tree) | (_USUALLY_ABSENT - rule.expression.names)
        self.labels |= {
            name: text.render(self.labels, self.value, self._query) for name, text in rule.labels
        }
        self.annotations = {
            name: text.render(self.labels, self.value, self._query)
            for name, text in rule.annotations
        }
        """The texts of the rule, as they would be in a mail about this object."""
        matched = " ".join(_MATCHED.findall(rule.expression.text))
        objects = {label for label in _OBJECTS if re.search(rf"\b{label}\b", matched)}
        objects |= named | _particular(tree).keys()
        self.subject = {label: self.labels[label] for label in sorted(objects)}
        """Those of its labels that the rule uses: what its advice is about."""

    def is_absent(self, metric: str) -> bool:
        """Whether such an object has no series of a metric."""
        return metric in self._absent

    def _query(self, expression: str) -> list[Sample]:
        """Return one series that such an object has; none if the rule excludes it."""
        tree = parse(expression)
        first = next(selectors(tree), None)
        if first is None or first.name in self._absent or self._contradicts(first):
            return []
        chosen = self.labels | _particular(tree)
        return [Sample(first.name, tuple(sorted(chosen.items())), _value(tree))]

    def _contradicts(self, selector: Selector) -> bool:
        """Whether a query selects another machine, or another state of the object itself."""
        usual = {name: values[0] for name, values in _of_metric(selector.name).items()}
        labels = self.labels | usual
        return not all(
            _selects(matcher, labels.get(matcher.label, ""))
            for matcher in selector.matchers
            if matcher.label in _OF_THE_MACHINE
            or (matcher.label == "state" and selector.name in self._names)
        )


def _particular(tree: Node) -> dict[str, str]:
    """Return the labels that an expression selects, and what is on the objects of its metric."""
    first = next(selectors(tree), None)
    if first is None:
        return {}
    values = _of_metric(first.name)
    chosen = {name: candidates[0] for name, candidates in values.items()}
    matched: dict[str, list[LabelMatcher]] = {}
    for matcher in first.matchers:
        matched.setdefault(matcher.label, []).append(matcher)
    for name, matchers in matched.items():
        chosen[name] = _selected(matchers, values.get(name, LABELS.get(name, ())))
    if chosen.get("id") in _ATTRIBUTES:
        chosen["attribute"] = _ATTRIBUTES[chosen["id"]]
    elif "attribute" in matched:
        chosen["id"] = ""
    if chosen.get("state") in _VENDOR_STATES:
        chosen["vendor_state"] = _VENDOR_STATES[chosen["state"]]
    return chosen


def _of_metric(name: str) -> dict[str, tuple[str, ...]]:
    values: dict[str, tuple[str, ...]] = {}
    for beginning, those in _OF_METRICS:
        if name.startswith(beginning):
            values |= those
    return values


def _selected(matchers: Iterable[LabelMatcher], values: Iterable[str]) -> str:
    """Return a value of a label that all these matchers select."""
    rules = list(matchers)
    literal = [m.value for m in rules if m.operator == "="]
    parts = [part for m in rules if m.operator == "=~" for part in m.value.split("|")]
    candidates = [*literal, *values, *parts]
    name = rules[0].label
    return next((each for each in candidates if all(_selects(m, each) for m in rules)), name)


def _selects(matcher: LabelMatcher, value: str) -> bool:
    if "~" in matcher.operator:
        return compile_anchored(matcher.value).matches(value) == (matcher.operator == "=~")
    return (value == matcher.value) == (matcher.operator == "=")


def _excluded(tree: Node) -> frozenset[str]:
    """Return the metrics without a series where the rule is fulfilled: those after `unless`."""
    match tree:
        case Binary(operator="unless"):
            own = {each.name for each in selectors(tree.left)}
            excluded = tree.right
            while isinstance(excluded, Binary) and excluded.operator == "and":
                excluded = excluded.right  # one of the two is enough
            without = {each.name for each in selectors(excluded)} - own
            return frozenset(without) | _excluded(tree.left)
        case Binary(operator="and"):
            return _excluded(tree.left)
    return frozenset()


def _value(tree: Node) -> float:
    """Return a value that fulfils the comparisons of an expression."""
    match tree:
        case Number():
            return tree.value
        case Selector():
            return _of_selector(tree)
        case Binary():
            return _of_operation(tree)
        case Call(function="time"):
            return NOW_SECONDS
        case Call(arguments=(first, *_)):
            return _value(first)
        case Aggregation(operator="count", expression=Selector() as counted):
            return _of_a_state(counted) or _COUNT
        case Aggregation():
            return _value(tree.expression)
        case Negation():
            return -_value(tree.operand)
    return _COUNT


def _of_operation(tree: Binary) -> float:
    left = _value(tree.left)
    if tree.operator in COMPARISONS:
        own = abs(left) if isinstance(tree.left, Negation) else left
        return _compared(tree.operator, own, _value(tree.right))
    if tree.operator in _ARITHMETIC:
        return _ARITHMETIC[tree.operator](left, _value(tree.right))
    return left


def _compared(order: str, value: float, limit: float) -> float:
    """Return a value that is in this order with a limit: this one, if it is."""
    if _COMPARE[order](value, limit):
        return value
    if order in {"==", ">=", "<="}:
        return limit
    if 0 < limit < 1 and order == ">":
        return (1 + limit) / 2  # a share of a whole
    if abs(limit) < _FEW:
        return limit + 1 if order in {">", "!="} else limit - 1
    return limit * (1.25 if order in {">", "!="} else 0.75)


def _of_selector(selector: Selector) -> float:
    name = selector.name
    if name in _VALUES:
        return _VALUES[name]
    ending = (value for end, value in _UNITS if name.endswith(end))
    return next(ending, _of_a_state(selector) or _COUNT)


def _of_a_state(selector: Selector) -> float | None:
    """Return how many of all are in a state, if the selector selects one."""
    chosen = any(m.label == "state" and m.operator in {"=", "=~"} for m in selector.matchers)
    return _OF_A_STATE if chosen else None
