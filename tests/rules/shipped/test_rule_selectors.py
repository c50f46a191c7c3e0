"""What the shipped rules may select by, compare and combine: never what a guard is about.

Whether a device is removable or virtual, or discards, is determined once (rules/signals/guards.py).
A rule compares what follows from it, or reads the one family of all guards. So what a rule may
contain is listed, by the grammar of PromQL, and not what it may not: a stick is known by its path,
its model, an empty serial number, a threshold that it has not, and much else.
"""

from __future__ import annotations

import importlib.resources
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from iowarden.rules.promql.ast import Aggregation, Binary, Call, Selector, Text, children
from iowarden.rules.promql.parser import parse
from iowarden.rules.rulefile.rulefile import SHIPPED, RecordingRule, Rule, parse_rule_file
from iowarden.rules.signals.guards import Guard

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from iowarden.rules.promql.ast import LabelMatcher, Node

OWN = "%q"
"""The value of a label of the alert itself, in a query of its annotations."""
OBJECTS = frozenset(
    "against area array attribute battery collector controller device devices directory disk glob"
    " host hwmon id instance job kind mountpoint object pool program receiver sensor slot vdev"
    " vendor".split()
)
"""Labels of the alert itself that a query may select by."""
VALUES: Mapping[str, frozenset[str]] = {
    label: frozenset(values)
    for label, values in {
        "action": ("recover", "scrub"),
        "against": ("siblings",),
        "alertname": ("ReclaimStall",),
        "attribute": (
            *("critical_temperature_minutes", "errors_logged", "grown_defects", "media_errors"),
            "Load_Cycle_Count",
            *("pending", "uncorrected_.*", "unsafe_shutdowns", "warning_temperature_minutes"),
        ),
        "bit": ("0x02", "0x04", "0x20"),
        "cause": ("device", "unknown"),
        "chip": ("nvme",),
        "class": ("other",),
        "counter": (
            "(?i)other.*",
            "(?i).*(media|medium|uncorrect|unrecover).*",
            r"(?i).*(predict|smart|s\.m\.a\.r\.t).*",
        ),
        "defrag": ("always",),
        "device": ("",),
        "driver": ("arcmsr", "3w-.+"),
        "enabled": ("never",),
        "expected_by": ("configuration", "history"),
        "failure": ("old_age", "past", "prefail", "usage"),
        "fstype": ("btrfs", "ext[234]", "f2fs", "jfs", "xfs"),
        "guard": tuple(guard.value for guard in Guard),
        "id": ("5", "10", "187", "188", "193", "196", "197", "198", "199"),
        "kind": ("long",),
        "min_tasks": ("1", "3"),
        "origin": ("standard", "vendor"),
        "program": ("cciss_vol_status",),
        "release": ("(2|3)[.].*|4[.][0-5]([^0-9].*)?", "2[.]6[.].*"),
        "resource": ("memory",),
        "scope": ("controller", "log", "part"),
        "sensor": ("cache",),
        "severity": ("critical", "notice", "warning"),
        "state": (
            *("A", "a", "C", "D", "absent", "broken", "busy", "canceled", "degraded", "DEGRADED"),
            *(
                "disk_error",
                "error",
                "Error",
                "Fail",
                "failed",
                "failing",
                "faulty",
                "FAULTED",
                "inactive",
            ),
            *("Invalid", "lost", "Merge failed", "needs_check", "offline", "OFFLINE", "ok"),
            *(
                "out_of_data_space",
                "Overflow",
                "paused",
                "read-only",
                "rebuilding",
                "REMOVED",
                "ro",
            ),
            *("running", "spare", "SUSPENDED", "UNAVAIL", "unknown", "waiting"),
            "want_replacement",
        ),
        "target": (
            *("cache", "clone", "mirror", "raid", "snapshot", "snapshot-merge", "striped"),
            *("thin-pool", "vdo", "verity", "writecache"),
        ),
        "technology": ("btrfs", "controller", "lvm", "md", "zfs_vdev"),
        "used_by": ("",),
        "vendor": ("3ware", "adaptec", "hp"),
        "vendor_state": ("(?i).*foreign.*",),
    }.items()
}
"""By label the values, or alternatives of one, that may be written in a rule. A vendor, a driver
and a program are those of RAID controllers, whose own rules read them."""
JOINED = frozenset(
    "area array controller device devid disk enclosure fsid host id instance job member mountpoint"
    " name object pool target".split()
)
"""Labels of 'on' and 'by': objects, none of which is what another one is like."""
DROPPED = frozenset("against kind reason scope severity state vendor_state".split())
"""Labels of 'without'."""
IGNORED = DROPPED | frozenset("array battery firmware host model program serial vendor".split())
"""Labels of 'ignoring', in rules about controllers."""
FUNCTIONS = frozenset("clamp_max clamp_min increase max_over_time round sort".split())
OPERATORS = frozenset("count max min sum topk".split())
RELABELS = frozenset(
    {
        *(("label_replace", new, "$1", "object", "(.*)") for new in ("device", "fsid", "name")),
        ("label_replace", "pool", "$1", "object", "(.*) .*"),
        ("label_join", "object", " ", "controller", "array"),
    }
)
"""The only ones: an object under the name of its label elsewhere, whatever it is called."""
DATES = frozenset(
    {
        *("iowarden_http_certificate_expiry_timestamp_seconds",),
        *(
            f"iowarden_disk_endurance_exhausted_{which}timestamp_seconds"
            for which in ("", "earliest_", "latest_")
        ),
    }
)
"""What time() is subtracted from."""
FACTS = re.compile(
    r"removable|virtual|discard|laptop_mode|asleep|spin|leaked|threshold_drop_ratio|rotational"
    r"|blocked_not_writing|clock_(?:uptime|monotonic)|boot_timestamp|start_time_|transport"
)
"""Words in the names of families that show what a guard is about."""
THRESHOLDS: Mapping[str, str] = {
    f"iowarden_{name}_threshold_seconds": f"iowarden_{name}_seconds"
    for name in ("device_hang", "writeback_no_progress")
}
"""What follows from the guards is compared with what it is the threshold of, and that with nothing
else: neither is by itself a reason for anything, as is no other number."""
_STALL = frozenset({*THRESHOLDS, *THRESHOLDS.values()})
_SUSPENDED = frozenset(
    f"iowarden_{name}"
    for name in (
        *("device_blocked_tasks", "device_mapper_suspended_seconds", "device_requests_in_flight"),
        "tasks_blocked_seconds",
    )
)
STANDS = re.compile(
    r"iowarden_(?:alert_recent_firings|device_(?:blocked_tasks|hang|mapper_suspended|phantom"
    r"|queue_dominant|requests_in_flight|slow|starved|\w*bandwidth)|freeze|host_io|hung_task"
    r"|recent_hung|reclaim_stall|storage_wait|tasks_|writeback)|iowarden:"
)
"""Families about what stands still or is slow, whose rules the guards are for."""
TOGETHER: tuple[frozenset[str], ...] = (
    _STALL | {"iowarden:write_stall:queued_bytes"},
    _STALL
    | {
        *("iowarden_guard_active", "iowarden_storage_waits_seen", "iowarden_tasks_blocked_seconds"),
        *("iowarden_writeback_above_freerun_seconds", "iowarden_writeback_drain_seconds"),
        *("iowarden_writeback_above_threshold_seconds", "iowarden_writeback_queued_bytes"),
    },
    frozenset({"iowarden_freeze_level", "iowarden_freeze_reported_times"}),
    _SUSPENDED | {"iowarden:device_suspended:waited_for_seconds"},
    frozenset({"iowarden_writeback_full_drain_seconds", "iowarden_vm_dirty_ratio_percent"}),
    frozenset({"iowarden_device_starved", "iowarden_scsi_host_starved_seconds"})
    | {"iowarden_device_slow_seconds"},
    # Of a disk that is slow whether another fact shows its failure: it is mailed anyhow.
    frozenset({"iowarden_device_slow_seconds", "iowarden_disk_info"})
    | {"iowarden_disk_events_total", "iowarden_smart_increase"},
    frozenset(
        f"iowarden_device_{name}"
        for name in (
            *("phantom_reads_seconds", "read_ahead_below_stripe", "read_ahead_capped_seconds"),
            *("read_ahead_recommended_bytes", "slow_disks", "unrequested_reads_ratio"),
            "write_mostly",
        )
    ),
    frozenset({"iowarden_alert_recent_firings", "iowarden_reclaim_stall_ratio"}),
    frozenset({"iowarden_recent_hung_tasks"}),
    frozenset({"iowarden_hung_task_warnings"}),
    frozenset({"iowarden_storage_waits_seen", "iowarden_zfs_pool_txg_sync_seconds"}),
)
"""What a rule about something that stands still may read, each within one of these: whether another
series of its device exists would show as well what it is."""
RECORDS: Mapping[str, frozenset[str]] = {
    "iowarden:device_suspended:waited_for_seconds": _SUSPENDED,
    "iowarden:write_stall:queued_bytes": TOGETHER[1],
}
"""What a recording rule may read: under its name any other series would be read as what stands."""
DECIDES: tuple[frozenset[str], ...] = (
    frozenset({"iowarden_device_hang_threshold_seconds"}),  # whether it is ever critical
    frozenset({"iowarden:device_suspended:waited_for_seconds"}),
    frozenset({"iowarden_tasks_blocked_not_writing", "iowarden_writeback_drain_min_seconds"}),
    frozenset({"iowarden_freeze_cause"}),
    frozenset({"iowarden_freeze_series_seconds"}),
)
"""What a query may read that decides about a mail: whether it leaves at once, and how old it is."""
PROSE = frozenset("advice advice_steps description evidence source summary unknown".split())
"""Annotations that are only read by people, or choose what these read."""
SETTINGS = {
    alert: ["iowarden_vm_laptop_mode"] for alert in ("DirtyWritebackDisabled", "DirtyExpireTooLong")
}
"""What alerts read about the settings that laptop mode consists of."""
_ACTION = re.compile(r"\{\{-?(.*?)-?\}\}", re.DOTALL)
_STRING = r'(?:"(?:[^"\\]|\\.)*"|`[^`]*`)'
_QUERY = re.compile(rf"\bquery\s*(?:\(\s*printf\s*)?({_STRING})")
_DECISION = re.compile(
    rf"\{{\{{ with query \(printf\s+{_STRING}(?P<labels>(?:\s+\$labels\.\w+)+)\) \}}\}}"
    r"(?:true\{\{ else \}\}false|\{\{ \. \| first \| value \}\})\{\{ end \}\}"
)
"""The only form of a template that decides: whether a query finds something, or what."""


def queries(template: str) -> Iterator[str]:
    """Yield the queries of a template; each has to be written where it is requested."""
    for action in _ACTION.findall(template):
        found = _QUERY.findall(action)
        assert len(found) == len(re.findall(r"\bquery\b", re.sub(_STRING, "", action))), action
        for text in found:
            plain = text[1:-1] if text[0] == "`" else re.sub(r"\\(.)", r"\1", text[1:-1])
            yield re.sub(r"%[fgsv]", "1", plain.replace("%q", f'"{OWN}"'))


def nodes(node: Node) -> Iterator[Node]:
    """Yield an expression and all parts of it."""
    yield node
    for child in children(node):
        yield from nodes(child)


def names(node: Node) -> frozenset[str]:
    """Return the families that an expression reads."""
    return frozenset(each.name for each in nodes(node) if isinstance(each, Selector))


def is_permitted(matcher: LabelMatcher) -> bool:
    """Whether a selector may have this matcher."""
    label, value = matcher.label, matcher.value
    if value == OWN:
        is_one = matcher.operator in {"=", "!="} or (label, matcher.operator) == ("attribute", "!~")
        return label in OBJECTS and is_one
    is_list = matcher.operator in {"=~", "!~"}
    known = VALUES.get(label, frozenset())
    return value in known or {*(value.split("|") if is_list else (value,))} <= known


def _of_selector(node: Selector) -> Iterator[str]:
    if not node.name.startswith(("iowarden_", "iowarden:")) or FACTS.search(node.name):
        yield node.name or "no name"
    if node.name == "iowarden_guard_active" and "guard" not in {m.label for m in node.matchers}:
        yield node.name
    yield from (matcher.label for matcher in node.matchers if not is_permitted(matcher))


def _of_call(node: Call) -> Iterator[str]:
    if node.function.startswith("label_"):
        texts = (each.value if isinstance(each, Text) else "?" for each in node.arguments[1:])
        if (node.function, *texts) not in RELABELS:
            yield node.function
    elif node.function not in FUNCTIONS:
        yield node.function


def offences(text: str, *, is_prose: bool = False) -> list[str]:
    """Return what an expression contains that it may not."""
    found: list[str] = []
    top = parse(text)
    dated = [
        each.right
        for each in nodes(top)
        if isinstance(each, Binary) and each.operator == "-" and names(each.left) & DATES
    ]
    for node in nodes(top):
        match node:
            case Selector():
                found += _of_selector(node)
            case Call(function="time"):
                found += [] if node in dated else ["time"]
            case Call():
                found += _of_call(node)
            case Aggregation(operator=operator, labels=labels, without=without):
                found += [operator] if operator not in OPERATORS else []
                found += sorted({*labels} - (DROPPED if without else JOINED))
            case Binary(matching=matching):
                found += sorted(matching.labels - (JOINED if matching.on else IGNORED))
                found += matching.include
    return found if is_prose else found + _of_stalls(top)


def _of_stalls(top: Node) -> list[str]:
    """Return what an expression about something that stands still contains that it may not."""
    read = names(top)
    if not any(map(STANDS.match, read)):
        return []
    found = [] if any(read <= some for some in TOGETHER) else ["read together"]
    compared: list[Node] = []
    for node in nodes(top):
        match node:
            case Binary(operator=">=", left=left, right=Selector(name=name) as right) if (
                _is_plain(left, THRESHOLDS.get(name, "")) and not node.returns_bool
            ):
                compared += [*nodes(left), right]
            case Binary(matching=matching) if matching.labels and not matching.on:
                found.append("ignoring")
            case Call(function="label_replace" | "label_join" as function):
                found.append(function)
    return found + [
        node.name
        for node in nodes(top)
        if isinstance(node, Selector) and node.name in _STALL and node not in compared
    ]


def _is_plain(node: Node, name: str) -> bool:
    """Whether an expression is a series as it is, or its largest value: without a threshold."""
    of = node.expression if isinstance(node, Aggregation) and node.operator == "max" else node
    return isinstance(of, Selector) and of.name == name


def _decides(text: str) -> bool:
    """Whether a query may decide; of a threshold it asks only whether a hang is ever critical."""
    query = parse(text)
    if names(query).isdisjoint(THRESHOLDS):
        return names(query) in DECIDES
    return (
        isinstance(query, Selector)
        and names(query) in DECIDES
        and ("severity", "=", "critical")
        in {(m.label, m.operator, m.value) for m in query.matchers}
    )


def offences_of(rule: Rule | RecordingRule) -> list[str]:
    """Return what a rule contains that it may not, in its expression and in its templates.

    It may read whether it fires itself: what began by one state may go on in another.
    """
    found = offences(rule.expression.text)
    if not isinstance(rule, Rule):
        known = RECORDS.get(rule.record, frozenset())
        return found + sorted(names(parse(rule.expression.text)) - known)
    itself = f'ALERTS{{alertname="{rule.alert}",alertstate="firing"}}'
    if rule.expression.text.count("ALERTS") == rule.expression.text.count(itself):
        found = [name for name in found if name not in {"ALERTS", "alertname", "alertstate"}]
    for name, template in rule.annotations:
        texts = [*queries(template.text)]
        found += [
            each
            for text in texts
            for each in offences(text, is_prose=True)
            if name in PROSE or each != "iowarden_tasks_blocked_not_writing"
        ]
        if name not in PROSE and "{{" in template.text:
            form = _DECISION.fullmatch(template.text)
            labels = {*re.findall(r"\.(\w+)", form["labels"])} if form else {name}
            found += sorted(labels - OBJECTS)
            found += [name for text in texts if not _decides(text)]
    return found + [name for name, template in rule.labels if "{{" in template.text]


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
        if (own := offences_of(rule)) and own != SETTINGS.get(name)
    }
    assert found == {}


DETERMINED: Mapping[str, frozenset[str]] = {
    # The second, of a reader without a card, of which there is nothing to judge.
    r"\.removable\b": frozenset({"rules/signals/guards.py", "collectors/block/block_devices.py"}),
    # The second describes the setting.
    r"\.laptop_mode\b": frozenset({"rules/signals/guards.py", "collectors/procfs/sysctl_vm.py"}),
    r"\bvirtual_device\(": frozenset({"rules/signals/guards.py", "rules/smart/plausibility.py"}),
    # By the model in its SMART data, which the device may lack: whether these are judged.
    r"\bplausibility\.virtual\(": frozenset({"rules/signals/smart/smart.py"}),
}
"""What reads in the code what a guard is about, and the modules that may do so."""


def test_no_module_tests_a_guard_by_itself() -> None:
    """What decides what is alerted, shown or polled uses the module of guards."""
    root = Path(str(importlib.resources.files("iowarden.rules"))).parent
    texts = {
        str(file.relative_to(root)): file.read_text()
        for package in ("collectors", "daemon", "rules")
        for file in (root / package).rglob("*.py")
    }
    found = {
        reads: frozenset(path for path, text in texts.items() if re.search(reads, text))
        for reads in DETERMINED
    }
    assert found == DETERMINED


HANG = "iowarden_device_hang_seconds"
THRESHOLD = "iowarden_device_hang_threshold_seconds"


@pytest.mark.parametrize(
    "text",
    [
        'rate(iowarden_device_discards_completed_total{device="%q"}[5m]) > 0',
        'iowarden_a unless on (device) (iowarden_b{removable="1"} or iowarden_c)',
        "max_over_time((iowarden_vm_laptop_mode > 0)[10m:1m])",
        '{__name__=~"iowarden_device_discard.*"} > 0',
        '{__name__=~"iowarden_device_d.*_completed_total"} > 0',
        'iowarden_a{device!~"vd.*|xvd.*"} > 10',
        'iowarden_a{device!="mmcblk0"} > 10',
        'iowarden_a{device=~"sd.*"} > 10',
        'iowarden_a{device=~"sd[a-z]+|nvme.+"} > 10',
        'iowarden_a{device=~"%q"} > 10',
        'iowarden_a * on (device) group_left () iowarden_disk_info{model=~"QEMU.*|Virtual.*"}',
        'iowarden_a unless on (device) iowarden_disk_info{model=~".*VBOX.*"}',
        'iowarden_a unless on (device) iowarden_disk_info{serial=""}',
        'iowarden_a unless on (device) iowarden_disk_info{path=~".*-usb-.*"}',
        'iowarden_a unless on (device) iowarden_disk_info{driver="usb-storage"}',
        'iowarden_a unless on (device) iowarden_disk_info{driver="%q"}',
        'iowarden_a unless on (device) iowarden_disk_info{driver=~"3w-.+|uas"}',
        'iowarden_a and on (device) iowarden_b{vendor!~"Google|Msft"}',
        'iowarden_a and on (device) iowarden_b{firmware=~".*"}',
        'iowarden_a{guard="looks_virtual"}',
        "iowarden_a unless on (device) iowarden_guard_active",
        "iowarden_a and on () iowarden_clock_uptime_seconds < 120",
        "iowarden_a and on () iowarden_device_rotational == 0",
        # states, of any value
        'iowarden_a unless on (device) iowarden_b{technology="virtual"}',
        'iowarden_a unless on (device) iowarden_b{kind=~"usb|QEMU.*"}',
        'iowarden_a unless on (device) iowarden_b{class="removable"}',
        # names as values
        'label_replace(iowarden_a, "device", "", "device", "(?:sd|nvme).*")',
        'label_replace(iowarden_a, "device", "mmcblk0", "object", "(.*)")',
        'label_replace(vector(1), "device", "mmcblk0", "device", ".*")',
        'label_replace(iowarden_a, "removable", "$1", "path", ".*-(usb)-.*")',
        'label_replace(iowarden_disk_info, "device", "$1", "model", "(.*)")',
        'label_join(iowarden_a, "device", " ", "model", "serial")',
        'count_values("device", iowarden_a)',
        # joins and groups
        "iowarden_a unless on (device, serial) iowarden_disk_info",
        "iowarden_a unless ignoring (device, path) iowarden_disk_info",
        "iowarden_a * on (device) group_left (model) iowarden_disk_info",
        "count by (device, serial) (iowarden_disk_info)",
        "count without (device) (iowarden_disk_info) == 1",
        # time
        "iowarden_a unless on (instance) (time() - process_start_time_seconds < 120)",
        "iowarden_a unless on () (time() - iowarden_process_start_time_seconds < 120)",
        "iowarden_a unless on () (iowarden_boot_timestamp_seconds > time() - 120)",
        "iowarden_a and on () hour() < 6",
        # what follows from the guards, for another purpose
        f"{HANG} > 10",
        f'{HANG} >= 5 unless on (device) {THRESHOLD}{{severity="critical"}}',
        f'{HANG} unless on (device) ({THRESHOLD}{{severity="warning"}} == 20)',
        f'{HANG} >= on (device) ({THRESHOLD}{{severity="warning"}} == 10)',
        f'{THRESHOLD}{{severity="critical"}} >= on (device) {HANG}',
        f'{HANG} >= on (device) {THRESHOLD}{{severity="critical"}} or {HANG} > 10',
        f"{HANG} >= bool on (device) {THRESHOLD}",
        f"({HANG} > 29) >= on (device) {THRESHOLD}",
        f"({HANG} < 25) >= on (device) {THRESHOLD}",
        f"{HANG} * 0.5 >= on (device) {THRESHOLD}",
        f"max_over_time({HANG}[10m]) >= on (device) {THRESHOLD}",
        f"min by (device) ({HANG}) >= on (device) {THRESHOLD}",
        # what exists only of some devices
        f"{HANG} >= on (device) {THRESHOLD} and on (device) iowarden_disk_info",
        f"{HANG} >= on (device) {THRESHOLD} unless on (device) iowarden_device_timeout_seconds",
        "iowarden_freeze_level >= 2 and on (device) iowarden_device_scsi_state",
        "iowarden_writeback_above_threshold_seconds >= 30 and on () iowarden_numa_nodes > 1",
        "iowarden_device_slow_seconds > 0 unless ignoring (severity) iowarden_disk_info",
    ],
)
def test_a_rule_that_tests_a_guard_by_itself_is_seen(text: str) -> None:
    """However it is written."""
    assert offences(text)


@pytest.mark.parametrize(
    "text",
    [
        'iowarden_a unless on (device) iowarden_guard_active{guard=~"removable|virtual"}',
        'iowarden_a{device="%q",instance="%q"}',
        f'{HANG} >= on (instance, job, device) {THRESHOLD}{{severity="warning"}}',
        'iowarden_md_member_state{state!~"failed|spare"}',
        'iowarden_controller_info{driver=~"3w-.+"}',
        "iowarden_http_certificate_expiry_timestamp_seconds - time() < 7 * 86400",
    ],
)
def test_a_rule_that_reads_the_guards_tests_none(text: str) -> None:
    """Nor does one that names its own device, a state, or the driver of a controller."""
    assert offences(text) == []


CHEATS = {
    "summary": "{{ with query `iowarden_disk_info{model=~'.*VBOX.*'}` }}virtual{{ end }}",
    "description": "{{ range query (printf `iowarden_a{driver=%q}` $labels.driver) }}{{ end }}",
    "urgent": "{{ with query `iowarden_disk_info{path=~'.*-usb-.*'}` }}false{{ end }}",
    "urgent, by a label": "{{ if match `.*-usb-.*` $labels.path }}false{{ end }}",
    "urgent, by its value": "{{ if eq $labels.model `VBOX` }}false{{ else }}true{{ end }}",
    "urgent, by none": "{{ with $labels.serial }}true{{ else }}false{{ end }}",
    "urgent, by a label that exists": "{{ if $labels.serial }}true{{ end }}",
    "urgent, by a label of a series": "{{ with query `iowarden_disk_info` }}"
    "{{ with . | first | label `serial` }}true{{ else }}false{{ end }}{{ end }}",
    "urgent, by a series": "{{ with query (printf `iowarden_disk_info{device=%q}`"
    " $labels.device) }}true{{ else }}false{{ end }}",
    "urgent, by another's name": "{{ with query (printf `iowarden_freeze_cause{device=%q}`"
    " $labels.model) }}true{{ else }}false{{ end }}",
    **{
        f"urgent, by a threshold {query}": "{{ with query (printf `iowarden_device_hang_threshold"
        f"_seconds{{device=%q,severity={query}` $labels.device) }}}}true{{{{ else }}}}false"
        "{{ end }}"
        for query in ('"warning"} < 20', '"warning"} == 30', '"warning"}', '"critical"} < 60')
    },
    "lasted_seconds": "{{ if match `sd.*` $labels.device }}90{{ else }}1{{ end }}",
    "escalate_when_doubled": "{{ if match `sd.*` $labels.device }}true{{ else }}false{{ end }}",
    "of_later": "{{ if match `sd.*` $labels.device }}true{{ else }}false{{ end }}",
}
ALERT = "groups:\n- name: g\n  rules:\n  - alert: A\n    expr: iowarden_a > 10\n"


@pytest.mark.parametrize("place", CHEATS)
def test_a_template_that_tests_a_guard_by_itself_is_seen(place: str) -> None:
    """A query of an annotation, and what decides whether a mail leaves at once."""
    name = place.partition(",")[0]
    text = f"{ALERT}    annotations: {{{name}: {json.dumps(CHEATS[place])}}}\n"
    ((_, rule),) = rules_of(text, "own.yaml")
    assert offences_of(rule)


@pytest.mark.parametrize("record", [*RECORDS, "iowarden:device:own"])
@pytest.mark.parametrize(
    "text",
    ["iowarden_disk_smart_supported", "iowarden_device_timeout_seconds > 30", "iowarden_disk_info"],
)
def test_a_recording_rule_that_carries_what_a_device_is_is_seen(record: str, text: str) -> None:
    """An alert that reads it would read that under another name."""
    rules = f"groups:\n- name: g\n  rules:\n  - record: {record}\n    expr: {text}\n"
    ((_, rule),) = rules_of(rules, "own.yaml")
    assert offences_of(rule)


@pytest.mark.parametrize(
    "severity",
    [
        "{{ if match `vd.*` $labels.device }}info{{ else }}critical{{ end }}",
        "{{ with $labels.serial }}critical{{ else }}info{{ end }}",
        "{{ $labels.severity }}",
    ],
)
def test_a_severity_that_is_not_written_down_is_seen(severity: str) -> None:
    """No label of a shipped rule is a template."""
    text = f"{ALERT}    labels: {{severity: {json.dumps(severity)}}}\n"
    ((_, rule),) = rules_of(text, "own.yaml")
    assert offences_of(rule) == ["severity"]
