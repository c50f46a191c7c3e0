"""'nvme smart-log' of nvme-cli: the health log of an NVMe drive, as text or JSON.

Source: nvme-cli, nvme-print-stdout.c and nvme-print-json.c, smart_log; the names changed with its
versions ('critical_warning', 'Critical Warning'). Units: a data unit is 512,000 bytes; temperatures
are degrees Celsius in the text and kelvins in JSON.
"""

from __future__ import annotations

import json
import re

from iowarden.collectors.json_text import is_deep
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.smart.drive import Drive, NvmeHealth, Protocol
from iowarden.collectors.tool_output.parsed import Parsed, Tool, UnparsedLine

_HEADING = lazy_pattern(r"^Smart Log for NVME device:\s*(\S{1,80}).*$", re.MULTILINE)
_PAIR = lazy_pattern(r"\s*([A-Za-z][\w .#-]{1,60}?)\s*:\s*(\S(?:.*\S)?)\s*", re.ASCII)
_NUMBER = lazy_pattern(r"(0x[0-9a-fA-F]{1,16}|[\d,.']{1,50})")
_DATA_UNIT_BYTES = 512_000.0
_KELVIN = 273.0
_LARGEST = 1 << 128
"""The counters of the log have 128 bits."""
_SYNONYMS = {
    "avail_spare": "available_spare",
    "spare_thresh": "available_spare_threshold",
    "percent_used": "percentage_used",
}


def parse_nvme(text: str) -> Parsed:
    """Parse the health logs in a text, one for each drive."""
    drives: list[Drive] = []
    unread: list[UnparsedLine] = []
    heads = [*_HEADING.finditer(text)]
    begins = [head.start() for head in heads] or [0]
    for begin, end in zip(begins, [*begins[1:], len(text)], strict=True):
        part = text[begin:end]
        head = _HEADING.match(part)
        values, is_json = _values(part)
        missing = [name for name in _REQUIRED if name not in values]
        if missing:
            unread.append(
                UnparsedLine(f"nvme smart-log: expected {', '.join(missing)}, got none of them")
            )
        if len(missing) < len(_REQUIRED):
            drives.append(_drive(values, head[1] if head else "", is_json=is_json))
    return Parsed(
        Tool.NVME,
        drives=tuple(drives),
        outputs=("nvme smart-log",) if drives else (),
        unparsed=tuple(unread),
    )


_REQUIRED = ("critical_warning", "available_spare", "percentage_used", "media_errors")


def _values(text: str) -> tuple[dict[str, float], bool]:
    begin = text.find("{")
    if begin >= 0:
        content = text[begin : text.rfind("}") + 1]
        try:
            answer = {} if is_deep(content) else json.loads(content)
        except ValueError:
            return {}, True
        pairs = answer.items() if isinstance(answer, dict) else ()
        found = {str(name): value for name, value in pairs if isinstance(value, int | float)}
        warning = answer.get("critical_warning") if isinstance(answer, dict) else None
        if isinstance(warning, dict) and isinstance(warning.get("value"), int):
            found["critical_warning"] = warning["value"]
        # JSON of Python's reader has infinities; an integer may be too large for a float.
        return {
            _SYNONYMS.get(name, name): float(value)
            for name, value in found.items()
            if -_LARGEST < value < _LARGEST
        }, True
    values: dict[str, float] = {}
    for line in text.split("\n"):
        if pair := _PAIR.fullmatch(line[:300]):
            number = _NUMBER.match(pair[2])
            name = re.sub(r"[ _]+", "_", pair[1].casefold())
            if number is not None:
                digits = re.sub(r"[,.'](?=\d{3}\b)", "", number[1]).rstrip(",.'")
                try:
                    value = float(int(digits, 16)) if digits.startswith("0x") else float(digits)
                except ValueError:
                    continue
                values.setdefault(_SYNONYMS.get(name, name), value)
    return values, False


def _drive(values: dict[str, float], name: str, *, is_json: bool) -> Drive:
    def integer(key: str) -> int | None:
        return int(values[key]) if key in values else None

    def scaled(key: str, unit: float) -> float | None:
        return values[key] * unit if key in values else None

    warning, heat = integer("critical_warning"), values.get("temperature")
    health = NvmeHealth(
        critical_warning=warning,
        available_spare_ratio=scaled("available_spare", 0.01),
        available_spare_threshold_ratio=scaled("available_spare_threshold", 0.01),
        endurance_used_ratio=scaled("percentage_used", 0.01),
        media_errors_total=integer("media_errors"),
        error_log_entries_total=integer("num_err_log_entries"),
        unsafe_shutdowns_total=integer("unsafe_shutdowns"),
        read_bytes_total=scaled("data_units_read", _DATA_UNIT_BYTES),
        written_bytes_total=scaled("data_units_written", _DATA_UNIT_BYTES),
        controller_busy_seconds_total=scaled("controller_busy_time", 60.0),
        warning_temperature_seconds_total=scaled("warning_temperature_time", 60.0),
        critical_temperature_seconds_total=scaled("critical_composite_temperature_time", 60.0),
    )
    return Drive(
        Protocol.NVME,
        passed=None if warning is None else warning == 0,
        temperature_celsius=None if heat is None else heat - _KELVIN if is_json else heat,
        power_on_hours=integer("power_on_hours"),
        power_cycles=integer("power_cycles"),
        rotation_rpm=0,
        nvme=health,
        read_by=f"nvme smart-log {name}".strip(),
    )
