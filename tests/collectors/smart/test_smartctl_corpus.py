"""Published outputs of smartctl, parsed here and by a second, simpler parser."""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from support.recordings import CORPUS, cases_of_corpus, needs_corpus

from iowarden.collectors.model import ParseError
from iowarden.collectors.smart.smartctl import parse
from iowarden.collectors.smart.smartctl_refusal import SmartRefusal

if TYPE_CHECKING:
    from pathlib import Path

    from iowarden.collectors.smart.drive import Drive

Facts = dict[str, Any]

FOLDERS = ("smartctl", "vm/smart", "vm/nvme")
TOLD = frozenset({1, 5, 7, 9, 10, 187, 188, 190, 194, 196, 197, 198, 199})
"""The attributes of the rules, and those with a packed raw value."""
HEALTH_LOG = "nvme_smart_health_information_log"


def samples() -> list[Path]:
    """Return all samples, with those of smartctl 5.36 behind an Areca controller."""
    found = [path for folder in FOLDERS for path in (CORPUS / folder).rglob("*") if path.is_file()]
    return sorted([*found, *(CORPUS / "reference").glob("smartctl-5.36*.txt")])


SAMPLES = samples()


def verdict(path: Path) -> str:
    """Return the result of a sample: 'drive', the reason why it is none, or 'no report'."""
    try:
        found = parse(path.read_text(errors="surrogateescape"))
    except ParseError:
        return "no report"
    return found.status.value if isinstance(found, SmartRefusal) else "drive"


@needs_corpus
def test_every_sample_has_a_verdict() -> None:
    """No sample is skipped: the number of drives, and of refusals for each reason."""
    assert Counter(map(verdict, SAMPLES)) == {
        "drive": 243,
        "no report": 42,
        "unparsed": 17,
        "unreadable": 15,
        "no_pass_through": 3,
        "lun": 1,
        "asleep": 1,
    }


@pytest.mark.parametrize(
    "path", cases_of_corpus(SAMPLES), ids=lambda path: str(path.relative_to(CORPUS))
)
def test_a_sample_reports_what_a_second_reader_finds(path: Path) -> None:
    """A drive has the facts that a walk through the JSON, or a search in each line, finds as well.

    A refusal has a reason; a text that is no report of a drive has none of a report's marks.
    """
    text = path.read_text(errors="surrogateescape")
    said = as_json(text)
    try:
        found = parse(text)
    except ParseError:
        known = "smartctl" in said and "devices" not in said if said else "smartctl" in text[:200]
        assert not known or "smartd[" in text
        return
    facts = facts_of_json(said) if said else facts_of_text(text)
    if isinstance(found, SmartRefusal):
        assert found.reason
        assert facts["passed"] is None or "LUN" in facts["model"]
        assert facts["attributes"] == {}
        assert "media errors" not in facts
        return
    read = {name: value for name, value in facts_of_drive(found).items() if name in facts}
    assert read == facts


@needs_corpus
def test_what_an_areca_controller_makes_up_is_read_as_it_stands() -> None:
    """smartctl 5.36 on a RAID volume of SATA disks: each oddity is kept for the rules."""
    path = CORPUS / "reference/smartctl-5.36-areca-passthrough-bogus.txt"
    found = parse(path.read_text())
    assert not isinstance(found, SmartRefusal)
    assert (found.model, found.serial) == ("WDC WD1600AAJS-00WAA", "WD-WCAS20994885")
    assert (found.transport, found.passed) == ("Fibre channel (FCP-2)", True)
    assert (found.temperature_celsius, found.reported_trip_celsius) == (30, 25)
    assert found.temperature_limit_celsius is None
    scsi = found.scsi
    assert scsi is not None
    assert (scsi.manufactured_week, scsi.manufactured_year) == ("30", "2002")
    assert (scsi.start_stop_cycles, scsi.specified_start_stop_cycles) == (256, 4278190080)
    assert (scsi.grown_defects, scsi.non_medium_errors_total) == (0, 0)
    rows = scsi.error_counters.items()
    assert {name: (row.processed_bytes, row.uncorrected_total) for name, row in rows} == {
        "read": (0.0, 0),
        "write": (0.0, 0),
    }
    assert found.self_test_kinds is None
    assert found.refused == ("Device does not support Self Test logging",)


def as_json(text: str) -> Facts:
    """Return a sample's JSON, nothing if it is text."""
    try:
        said = json.loads(text)
    except ValueError:
        return {}
    assert isinstance(said, dict)
    return said


def facts_of_drive(found: Drive) -> Facts:
    """Return the facts to compare, from the parser under test."""
    facts: Facts = {
        "model": found.model,
        "serial": found.serial,
        "wwn": int(found.wwn or "0", 16),
        "passed": found.passed,
        "temperature": found.temperature_celsius,
        "hours": found.power_on_hours,
        "self-tests": [(test.status, test.hours) for test in found.self_tests],
        "attributes": {
            each.id: (each.value, each.worst, each.threshold, each.raw_text)
            for each in found.attributes
            if each.id in TOLD
        },
        "raw": {each.id: each.raw for each in found.attributes if each.id in TOLD},
        "errors": found.errors_logged_total,
    }
    if found.nvme:
        facts |= {
            "critical warning": found.nvme.critical_warning,
            "media errors": found.nvme.media_errors_total,
            "used": found.nvme.endurance_used_ratio,
            "written": found.nvme.written_bytes_total,
        }
    if found.scsi:
        counters = found.scsi.error_counters
        facts |= {
            "grown": found.scsi.grown_defects,
            "non-medium": found.scsi.non_medium_errors_total,
            "uncorrected": {name: row.uncorrected_total for name, row in counters.items()},
            "read bytes": {name: row.processed_bytes for name, row in counters.items()},
        }
    return facts


def at(said: Any, *path: str) -> Any:  # noqa: ANN401 - as jq walks
    """Return the value at a path, None if there is no such path."""
    for name in path:
        said = said.get(name) if isinstance(said, dict) else None
    return said


def first(said: Facts, *paths: str) -> Any:  # noqa: ANN401 - as jq walks
    """Return the first value at dotted paths."""
    found = (at(said, *path.split(".")) for path in paths)
    return next((value for value in found if value is not None), None)


def facts_of_json(said: Facts) -> Facts:
    """Return the facts of a report's JSON, by a walk through it."""
    model = first(said, "model_name", "scsi_model_name")
    table = at(said, "ata_smart_attributes", "table") or []
    rows = {row["id"]: row for row in table if row["id"] in TOLD}
    log = at(said, "ata_smart_self_test_log") or {}
    tests = at(log, "extended", "table") or at(log, "standard", "table") or []
    status = [(test["status"]["string"], test["lifetime_hours"]) for test in tests]
    scsi = [at(said, f"scsi_self_test_{number}") for number in range(20)]
    status += [(test["result"]["string"], test["power_on_time"]["hours"]) for test in scsi if test]
    temperatures = (
        at(said, "temperature", "current"),
        at(said, "scsi_environmental_reports", "temperature_1", "current"),
        *(rows.get(number, {}).get("raw", {}).get("value", 0) % 256 for number in (194, 190)),
    )
    wwn, unit = at(said, "wwn") or {}, at(said, "logical_unit_id")
    extended = at((at(said, "nvme_namespaces") or [None])[0], "eui64") or {}
    facts: Facts = {
        "model": (model or "").strip(),
        "wwn": (wwn.get("naa", 0) << 60 | wwn.get("oui", 0) << 36 | wwn.get("id", 0))
        or (extended.get("oui", 0) << 40 | extended.get("ext_id", 0))
        or designator(unit or ""),
        "serial": first(said, "serial_number") or "",
        "passed": at(said, "smart_status", "passed"),
        "temperature": next((value for value in temperatures if value), None),
        "hours": at(said, "power_on_time", "hours"),
        "self-tests": status,
        "attributes": {
            number: (row["value"], row["worst"], row.get("thresh"), row["raw"]["string"])
            for number, row in rows.items()
        },
        "raw": {number: row["raw"]["value"] for number, row in rows.items()},
        "errors": first(
            said, "ata_smart_error_log.extended.count", "ata_smart_error_log.summary.count"
        ),
    }
    if facts["hours"] is None and 9 in rows:
        facts["hours"] = int(rows[9]["raw"]["string"].split()[0])
    if health := at(said, HEALTH_LOG):
        facts |= {
            "critical warning": health["critical_warning"],
            "media errors": health["media_errors"],
            "used": health["percentage_used"] / 100,
            "written": health["data_units_written"] * 512_000.0,
        }
    if at(said, "device", "protocol") == "SCSI":
        counters = at(said, "scsi_error_counter_log") or {}
        facts |= {
            "grown": at(said, "scsi_grown_defect_list"),
            "uncorrected": {
                name: int(row["total_uncorrected_errors"]) for name, row in counters.items()
            },
            "read bytes": {
                name: float(row["gigabytes_processed"]) * 1e9 for name, row in counters.items()
            },
        }
    return facts


def facts_of_text(text: str) -> Facts:
    """Return the facts of a report's text, line by line, word by word."""
    labels: dict[str, str] = {}
    attributes: dict[int, tuple[Any, ...]] = {}
    rows: dict[str, list[str]] = {}
    tests: list[tuple[str, int | None]] = []
    for line in text.splitlines():
        words = line.split()
        label, _, rest = line.replace(" = ", ": ").partition(":")
        labels.setdefault(" ".join(label.split()), rest.strip())
        if len(words) > 7 and words[0].isdigit() and words[0] != "0" and is_flags(words[2]):
            begin = 9 if words[2].startswith("0x") else 7
            if int(words[0]) in TOLD:
                raw = line.split(None, begin)[begin].strip()
                value, worst, threshold = (number(word) for word in words[3:6])
                attributes[int(words[0])] = (value, worst, threshold, raw)
        elif line.startswith("#") and "%" in line:
            tests.append((status_of(words), int(words[-2])))
        elif line.startswith("#") and line.endswith("]"):
            status = re.split(r"\s{2,}", line[1:].strip().split(None, 1)[1])[1]
            tests.append((status, number(words[words.index("[-") - 2])))
        elif words[:1] in (["read:"], ["write:"], ["verify:"]) and len(words) == 8:
            rows[words[0][:-1]] = words
        elif re.match(r"\s+\d+ +(Short|Extended) ", line):
            tests.append((re.split(r"\s{2,}", line.strip())[2], int(words[-6])))
    return facts_of_lines(text, labels, attributes, rows) | {"self-tests": tests}


def facts_of_lines(
    text: str,
    labels: dict[str, str],
    attributes: dict[int, tuple[Any, ...]],
    rows: dict[str, list[str]],
) -> Facts:
    """Return the facts from the lines of a text."""
    device = labels.get("Device", "").partition(" Version")[0].strip()
    vendor = f"{labels.get('Vendor', '')} {labels.get('Product', '')}".strip()
    passed = {"PASSED": True, "OK": True}
    health = first(
        labels, "SMART overall-health self-assessment test result", "SMART Health Status"
    )
    sensors = (
        "Current Drive Temperature",
        "Current temperature",
        "Temperature",
        "Current Temperature",
    )
    temperatures = [int(labels[name].split()[0]) for name in sensors if labels.get(name)]
    temperatures += [
        int(attributes[each][3].split()[0]) for each in (194, 190) if each in attributes
    ]
    hours = re.match(r"\d+", attributes[9][3]) if 9 in attributes else None
    powered = first(labels, "number of hours powered up", "Accumulated power on time, hours")
    clock = re.search(r"(\d+)[.,:]", powered or "")
    wwn = first(labels, "LU WWN Device Id", "Namespace 1 IEEE EUI-64", "Logical Unit id") or ""
    facts: Facts = {
        "wwn": designator("".join(wwn.split())),
        "model": labels.get("Device Model") or labels.get("Model Number") or vendor or device,
        "serial": labels.get("Serial Number") or labels.get("Serial number") or "",
        "passed": None if health is None else passed.get(health, False),
        "temperature": next((each for each in temperatures if each), None),
        "hours": int(hours[0]) if hours else int(clock[1]) if clock else None,
        "attributes": attributes,
        "raw": {
            each: int(row[3]) if row[3].isdigit() else None for each, row in attributes.items()
        },
    }
    if "Critical Warning" in labels:
        facts |= {
            "passed": int(labels["Critical Warning"], 16) == 0,
            "critical warning": int(labels["Critical Warning"], 16),
            "media errors": grouped(labels["Media and Data Integrity Errors"]),
            "used": int(labels["Percentage Used"].rstrip("%")) / 100,
            "hours": grouped(labels["Power On Hours"]),
            "written": grouped(labels["Data Units Written"].partition("[")[0]) * 512_000.0,
        }
    if vendor or "Transport protocol" in labels:
        for name, label in (
            ("grown", "Elements in grown defect list"),
            ("non-medium", "Non-medium error count"),
        ):
            facts[name] = int(labels[label]) if label in labels else None
        facts["uncorrected"] = {name: int(words[-1]) for name, words in rows.items()}
    counts = re.findall(r"^(?:ATA|Device) Error Count: (\d+)", text, re.MULTILINE)
    if counts:
        facts["errors"] = int(counts[0])
    return facts


def designator(text: str) -> int:
    """Return a designator of 8 or 16 bytes as a number, 0 without one, or if it was redacted."""
    digits = text.removeprefix("0x").partition("0x")[0]
    return int(digits, 16) if re.fullmatch("[0-9a-f]{16}|[0-9a-f]{32}", digits) else 0


def is_flags(word: str) -> bool:
    """Whether a word is the flags of an attribute, in either table."""
    return re.fullmatch(r"0x[0-9a-f]{4}|[-POSRCK]{6}\+?", word) is not None


def number(word: str) -> int | None:
    """Return a number, None for a dash."""
    return int(word) if word.isdigit() else None


def grouped(text: str) -> int:
    """Return a number from its digits alone."""
    return int("".join(letter for letter in text if letter.isdigit()))


def status_of(words: list[str]) -> str:
    """Return the status of a line of ATA's log, from the word that begins one."""
    begins = ("Completed", "Aborted", "Interrupted", "Fatal", "Self-test")
    begin = next(index for index, word in enumerate(words) if word.startswith(begins))
    end = next(index for index, word in enumerate(words) if word.endswith("%"))
    return " ".join(words[begin:end])
