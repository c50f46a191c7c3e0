"""Series compatible with smartctl_exporter: its names, labels and values.

Source: prometheus-community/smartctl_exporter 0.14 (smartctl.go, readjson.go). It runs 'smartctl
--json --info --health --attributes --format=brief --log=error': data only in our '-x' output is
left out, because a rule on 'smartctl_device_temperature > 60' must not match a lifetime's maximum.
Differences: error counters of SCSI drives behind RAID controllers and health logs of NVMe drives
behind bridges are shown as well (it forgets them: issue 89); a drive behind a controller that it
would name like another one ('cciss': all of them 'sg2') has its number in its name.

A drive's series are packed when its output is parsed and unpacked for each scrape.
"""

from __future__ import annotations

import json
import math
import re
import sys
import zlib
from typing import TYPE_CHECKING, Any

from iowarden.collectors.model import Family, Kind, Sample

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from iowarden.collectors.smart.drive import Disks, Drive

PREFIXES = ("smartctl_",)

_NOT_READ = 0b11
"""Exit status: bad command line, open failed. It shows nothing of such a drive."""
_SELF_TEST_LOG = 1 << 7
"""Exit status: failed self-tests are logged. It does not read that log."""
_NVME_UNIT_BYTES = 512_000

_HEALTH = (
    "percentage_used",
    "available_spare",
    "available_spare_threshold",
    "critical_warning",
    "media_errors",
    "num_err_log_entries",
)
_SCSI_ERRORS = (
    "errors_corrected_by_rereads_rewrites",
    "errors_corrected_by_eccfast",
    "errors_corrected_by_eccdelayed",
    "total_uncorrected_errors",
)
_VALUES = (("value", "value"), ("worst", "worst"), ("thresh", "thresh"), ("raw", "raw.value"))
_FLAGS = (
    "prefailure",
    "updated_online",
    "performance",
    "error_rate",
    "event_count",
    "auto_keep",
)
_COUNTERS = frozenset(
    f"smartctl_device_{name}"
    for name in (*_HEALTH, "bytes_read", "bytes_written", "power_cycle_count", "power_on_seconds")
)
_VERSION = "smartctl_version"
NAMES = frozenset(
    {
        *_COUNTERS,
        *(_VERSION, "smartctl_device", "smartctl_devices", "smartctl_scsi_grown_defect_list"),
        *(f"smartctl_{done}_{error}" for done in ("read", "write") for error in _SCSI_ERRORS),
        *(
            f"smartctl_device_{name}"
            for name in (
                *("attribute", "block_size", "capacity_blocks", "capacity_bytes"),
                *("error_log_count", "interface_speed", "nvme_capacity_bytes", "rotation_rate"),
                *("smart_status", "smartctl_exit_status", "temperature"),
            )
        ),
    }
)
"""All names of its series here. Those of smartctl_exporter that are left out never match."""

_Fact = tuple[str, list[tuple[str, str]], float]
"""A series; the label 'device' is added on request."""


def family(name: str) -> Family:
    """Return the family of a name, with the type that smartctl_exporter gives it."""
    kind: Kind = "counter" if name in _COUNTERS else "gauge"
    return Family(name, kind, "As smartctl_exporter's.")


def pack(document: Mapping[str, Any]) -> bytes:
    """Return its packed series of a drive with this output, b'' if it would show none.

    Limits: a field of an invalid type counts as missing, and that as 0.
    """
    status = int(_number(document, "smartctl.exit_status"))
    messages = _list(document, "smartctl.messages")
    if status & _NOT_READ or any(_get(message, "severity") == "error" for message in messages):
        return b""
    facts = [
        ("smartctl_device_smartctl_exit_status", [], float(status & ~_SELF_TEST_LOG)),
        ("smartctl_device", _identity(document), 1.0),
        *_size(document),
        *_attributes(document),
        *_life(document),
        *_nvme(document),
        *_scsi(document),
    ]
    named = [(name, sorted([*labels, ("device", "")]), value) for name, labels, value in facts]
    return zlib.compress(json.dumps([(_VERSION, _version(document), 1.0), *named]).encode(), 1)


def samples(disks: Disks) -> list[Sample]:
    """Return its series of all drives with data."""
    found: list[Sample] = []
    version: Sample | None = None
    pairs: dict[tuple[str, str], tuple[str, str]] = {}  # drives of a model have most in common
    for disk in disks.by_key.values():
        drive = disk.polled.drive
        if drive is None or not drive.exported:
            continue
        target = disk.polled.target
        first, *others = _unpacked(drive, label(target.path, target.kind), pairs)
        version = version or first
        found += others
    if version is not None:
        found.append(version)
    found.append(("smartctl_devices", (), float(len(disks.by_key))))
    return found


def label(path: str, kind: str) -> str:
    """Return its label 'device' ('sda', 'nvme0', 'bus_0_megaraid_3') from the access method."""
    name = re.sub(r"^/dev/(disk/by-id/|disk/by-path/)?", "", path)
    if found := re.fullmatch(r"(nvme\d+)n\d+", name):
        name = found[1]  # 'smartctl --scan' lists controllers
    return "_".join(re.split("[/]", name) + (kind.split(",") if "," in kind else []))


def _unpacked(
    drive: Drive, device: str, pairs: dict[tuple[str, str], tuple[str, str]]
) -> tuple[Sample, ...]:
    known = drive.memo.get(("smartctl", device))
    if known is None:
        facts: list[_Fact] = json.loads(zlib.decompress(drive.exported))
        shared = pairs.setdefault
        known = drive.memo["smartctl", device] = tuple(
            (
                sys.intern(name),
                tuple(
                    shared(pair, pair)
                    for pair in ((k, device if k == "device" else text) for k, text in labels)
                ),
                value,
            )
            for name, labels, value in facts
        )
    return known


def _version(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    def dotted(path: str) -> str:
        return ".".join(str(number) for number in _list(document, path)[:2])

    return [
        ("build_info", _text(document, "smartctl.build_info")),
        ("json_format_version", dotted("json_format_version")),
        ("smartctl_version", dotted("smartctl.version")),
        ("svn_revision", _text(document, "smartctl.svn_revision")),
    ]


def _identity(document: Mapping[str, Any]) -> list[tuple[str, str]]:
    model = _text(document, "model_name", _text(document, "scsi_model_name")) or "unknown"
    return [
        ("interface", _text(document, "device.type").strip()),
        ("protocol", _text(document, "device.protocol").strip()),
        ("model_family", _text(document, "model_family", "unknown").strip()),
        ("model_name", model.strip()),
        ("serial_number", _text(document, "serial_number").strip()),
        (
            "ata_additional_product_id",
            _text(document, "ata_additional_product_id", "unknown"),
        ),
        ("firmware_version", _text(document, "firmware_version")),
        ("ata_version", _text(document, "ata_version.string")),
        ("sata_version", _text(document, "sata_version.string")),
        ("form_factor", _text(document, "form_factor.name")),
        ("scsi_vendor", _text(document, "scsi_vendor")),
        ("scsi_product", _text(document, "scsi_product")),
        ("scsi_revision", _text(document, "scsi_revision")),
        ("scsi_version", _text(document, "scsi_version")),
    ]


def _size(document: Mapping[str, Any]) -> Iterator[_Fact]:
    own = "smartctl_device"
    yield f"{own}_capacity_blocks", [], _number(document, "user_capacity.blocks")
    yield f"{own}_capacity_bytes", [], _number(document, "user_capacity.bytes")
    if _have(document, "nvme_total_capacity"):
        yield f"{own}_nvme_capacity_bytes", [], _number(document, "nvme_total_capacity")
    for kind in ("logical", "physical"):
        yield f"{own}_block_size", [("blocks_type", kind)], _number(document, f"{kind}_block_size")
    for kind in ("max", "current"):
        path = f"interface_speed.{kind}"
        if _have(document, path):
            units = _number(document, f"{path}.units_per_second")
            speed = units * _number(document, f"{path}.bits_per_unit")
            yield f"{own}_interface_speed", [("speed_type", kind)], speed


def _attributes(document: Mapping[str, Any]) -> Iterator[_Fact]:
    seen = set()
    for attribute in _list(document, "ata_smart_attributes.table"):
        flags = _get(attribute, "flags")
        labels = (
            ("attribute_name", _text(attribute, "name").strip()),
            ("attribute_flags_short", _text(flags, "string").strip()),
            ("attribute_flags_long", ",".join(f for f in _FLAGS if _get(flags, f) is True)),
            ("attribute_id", _text(attribute, "id")),
        )
        if labels in seen:  # a series twice is not valid
            continue
        seen.add(labels)
        for kind, path in _VALUES:
            own = [*labels, ("attribute_value_type", kind)]
            yield "smartctl_device_attribute", own, _number(attribute, path)


def _life(document: Mapping[str, Any]) -> Iterator[_Fact]:
    own = "smartctl_device"
    if _have(document, "power_on_time"):
        hours = _number(document, "power_on_time.hours")
        minutes = _number(document, "power_on_time.minutes")
        yield f"{own}_power_on_seconds", [], hours * 3600 + minutes * 60
    if _number(document, "rotation_rate") > 0:
        yield f"{own}_rotation_rate", [], _number(document, "rotation_rate")
    for kind in ("current", "drive_trip"):
        path = f"temperature.{kind}"
        if _have(document, path):
            yield f"{own}_temperature", [("temperature_type", kind)], _number(document, path)
    for path in (
        "power_cycle_count",
        "scsi_start_stop_cycle_counter.accumulated_start_stop_cycles",
    ):
        if _have(document, path):
            yield f"{own}_power_cycle_count", [], _number(document, path)
            break
    for log in ("summary", "extended"):  # the second only of a drive that was not queried for both
        path = f"ata_smart_error_log.{log}"
        if _have(document, path):
            count = _number(document, f"{path}.count")
            yield f"{own}_error_log_count", [("error_log_type", log)], count
            break
    if _have(document, "smart_status"):
        yield f"{own}_smart_status", [], _number(document, "smart_status.passed")


def _nvme(document: Mapping[str, Any]) -> Iterator[_Fact]:
    log = "nvme_smart_health_information_log"
    if not _have(document, log) and _text(document, "device.type") != "nvme":
        return
    for name in _HEALTH:
        yield f"smartctl_device_{name}", [], _number(document, f"{log}.{name}")
    for name in ("read", "written"):
        units = _number(document, f"{log}.data_units_{name}")
        if units:
            yield f"smartctl_device_bytes_{name}", [], units * _NVME_UNIT_BYTES


def _scsi(document: Mapping[str, Any]) -> Iterator[_Fact]:
    if _have(document, "scsi_grown_defect_list"):
        defects = _number(document, "scsi_grown_defect_list")
        yield "smartctl_scsi_grown_defect_list", [], defects
    log = "scsi_error_counter_log"
    if not _have(document, log):
        return
    for operation, done in (("read", "read"), ("write", "written")):
        for name in _SCSI_ERRORS:
            count = _number(document, f"{log}.{operation}.{name}")
            yield f"smartctl_{operation}_{name}", [], count
        gigabytes = _number(document, f"{log}.{operation}.gigabytes_processed")
        yield f"smartctl_device_bytes_{done}", [], gigabytes * 1e9


def _get(value: Any, path: str) -> Any:  # noqa: ANN401 - whatever the JSON has
    """Return the value at 'a.b.c', None if there is none."""
    for key in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(key)
    return value


def _have(document: Mapping[str, Any], path: str) -> bool:
    return _get(document, path) is not None


def _list(document: Mapping[str, Any], path: str) -> list[Any]:
    value = _get(document, path)
    return value if isinstance(value, list) else []


def _number(document: Mapping[str, Any], path: str) -> float:
    """Parse a number like smartctl_exporter: an invalid one is 0, a text may contain one."""
    value = _get(document, path)
    try:
        number = float(value) if isinstance(value, (bool, int, float, str)) else 0.0
    except (ValueError, OverflowError):
        return 0.0
    return number if math.isfinite(number) else 0.0


def _text(document: Mapping[str, Any], path: str, missing: str = "") -> str:
    value = _get(document, path)
    return str(value) if isinstance(value, (str, int, float)) else missing
