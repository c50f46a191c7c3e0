"""Real outputs of smartctl for emulated disks, recorded by tests/vm/record_smartctl.py."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from iowarden.collectors.smart import members, selftest
from iowarden.collectors.smart.drive import Drive, Protocol, ReadStatus
from iowarden.collectors.smart.selftest import SelfTestOutcome
from iowarden.collectors.smart.smartctl import parse
from iowarden.collectors.smart.smartctl_refusal import SmartRefusal

RECORDED = Path(__file__).parents[2] / "fixtures" / "smartctl" / "recorded"


def text(name: str) -> str:
    """Return smartctl's output."""
    return (RECORDED / f"{name}.json").read_text()


def said(name: str) -> dict[str, Any]:
    """Return the same from the JSON."""
    found: dict[str, Any] = json.loads(text(name))
    return found


def drive(name: str) -> Drive:
    """Return the parsed drive."""
    found = parse(text(name))
    assert isinstance(found, Drive), found
    return found


@pytest.mark.parametrize("name", ["sata", "sata-failing-attribute"])
def test_every_attribute_of_a_sata_disk_is_read(name: str) -> None:
    """Number, values and their meaning, as in the JSON; pySMART parses the same."""
    found = drive(name)
    rows = [
        (row["id"], row["value"], row["worst"], row["thresh"], row["raw"]["string"])
        for row in said(name)["ata_smart_attributes"]["table"]
    ]
    read = [(a.id, a.value, a.worst, a.threshold, a.raw_text) for a in found.attributes]
    assert read == rows
    assert (found.protocol, found.serial, found.passed) == (Protocol.ATA, "sata-disk", True)
    assert (found.temperature_celsius, found.rotation_rpm) == (31, 7200)
    assert found.disagreements == 0


def test_an_attribute_below_its_threshold_failed_now() -> None:
    """The disk's health status stays good; its self-test passed."""
    found = drive("sata-failing-attribute")
    assert [(a.id, a.raw) for a in found.attributes if a.failed == "now"] == [(5, 2000)]
    (test,) = found.self_tests
    assert (test.kind, test.passed) == ("short", True)


@pytest.mark.parametrize(
    ("name", "bits", "passed"), [("nvme", 0, True), ("nvme-read-only", 8, False)]
)
def test_an_nvme_drives_log_is_read(name: str, bits: int, *, passed: bool) -> None:
    """A bit of its critical warning makes its health status bad."""
    found = drive(name)
    log = said(name)["nvme_smart_health_information_log"]
    assert found.nvme is not None
    assert (found.nvme.critical_warning, found.passed) == (bits, not bits)
    assert found.nvme.unsafe_shutdowns_total == log["unsafe_shutdowns"]
    assert found.nvme.read_bytes_total == log["data_units_read"] * 512_000
    assert found.temperature_celsius == 50
    assert found.disagreements == 0


@pytest.mark.parametrize(
    ("name", "kind", "cover", "serial", "words"),
    [
        ("scsi", "scsi", ReadStatus.UNREADABLE, "scsi-disk", "lacks SMART capability"),
        (
            "megaraid-disk",
            "megaraid,0",
            ReadStatus.UNREADABLE,
            "raid-disk",
            "lacks SMART capability",
        ),
        ("megaraid-volume", "", ReadStatus.UNREADABLE, "raid-disk", "Test Unit Ready"),
        ("megaraid-nothing", "megaraid,7", ReadStatus.UNREADABLE, None, "INQUIRY failed"),
    ],
)
def test_a_disk_without_health_reports_why(
    name: str, kind: str, cover: ReadStatus, serial: str | None, words: str
) -> None:
    """The reason is smartctl's; the identity is known if it was reported."""
    found = parse(text(name), kind=kind)
    assert isinstance(found, SmartRefusal)
    assert found.status is cover
    assert words in found.reason
    assert (None if found.drive is None else found.drive.serial) == serial


def test_a_scan_may_list_a_disk_twice_and_another_not_at_all() -> None:
    """Of two disks behind the controller the first is there as 256 and 0, the second is not."""
    listed = members.parse_scan(text("scan"))
    assert {member.kind for member in listed} == {"megaraid,256", "megaraid,0"}


@pytest.mark.parametrize(
    ("name", "outcome"),
    [("self-test-begun", SelfTestOutcome.DONE), ("self-test-refused", SelfTestOutcome.REFUSED)],
)
def test_a_self_test_has_begun_only_where_smartctl_reports_that(
    name: str, outcome: SelfTestOutcome
) -> None:
    """smartctl 7.3 supports none for NVMe: it prints nothing about it, and its exit status is 0."""
    answer = {"status": 0, "signal": None, "stdout": text(name), "stderr": ""}
    assert selftest.classify_reply(json.dumps(answer)).outcome is outcome
