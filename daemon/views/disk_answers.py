"""Replies about disks: monitoring status of all disks, details of one. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from iowarden.collectors.printable import name as safe_name
from iowarden.collectors.quantity import duration, percentage, size
from iowarden.collectors.smart import smart_series
from iowarden.collectors.smart.drive import Protocol, ReadStatus
from iowarden.daemon.control import documents
from iowarden.daemon.views import answers
from iowarden.rules import selftest_schedule
from iowarden.rules.scan.last_read import newest
from iowarden.rules.signals.activity import leaves_below
from iowarden.rules.signals.guards import HOST
from iowarden.rules.topology import inventory
from iowarden.rules.topology.device_identity import device_of
from iowarden.rules.topology.stack import DeviceStack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from iowarden.collectors.smart.drive import Drive
    from iowarden.daemon.views.answers import ViewInputs
    from iowarden.rules.topology.inventory import InventoryDisk

_HEALTH = {True: "passed", False: "FAILED", None: ""}


def answer(known: ViewInputs) -> documents.DiskList:
    """Return the document of 'iowarden monitoring'."""
    found = answers.inventory_disks(known.engine)
    alerts = _alerts(known)
    smart, disks = known.engine.status(smart_series.SOURCE), known.engine.last.smart
    problems = () if disks is None else disks.problems
    if smart is not None and smart.is_silent and smart.reading is not None:
        problems = (f"smart: {smart.reading.outcome}: {smart.reading.error}", *problems)
    return documents.DiskList(
        now_seconds=known.realtime(known.now),
        status=inventory.verdict(found.values()).value,
        summary=inventory.summary(found.values()),
        discovered_seconds=None if disks is None else known.moment(disks.discovered_seconds),
        problems=problems,
        disks=tuple(_line(c, known, alerts) for c in found.values()),
    )


def line(known: ViewInputs, found: InventoryDisk) -> documents.DiskLine:
    """Return a disk as a line."""
    return _line(found, known, _alerts(known))


def detail(known: ViewInputs, found: InventoryDisk) -> documents.DiskDetail:
    """Return the details of a disk."""
    drive, polled = found.drive, found.polled
    smart, topology = known.engine.last.smart, known.engine.last.block
    own = None if smart is None else smart.by_key.get(found.disk)
    carries: dict[str, None] = {}
    if topology is not None:
        stack = DeviceStack(topology, known.engine.devices.mounts())
        carries = dict.fromkeys(each for name in found.leaves for each in stack.shown_on(name))
    facts = [] if polled is None else list(_polled_by(found))
    if own is not None and own.duplicate:
        facts.append(("identity", own.duplicate))
    return documents.DiskDetail(
        now_seconds=known.realtime(known.now),
        line=_line(found, known, _alerts(known)),
        facts=tuple(facts if drive is None else [*_identity(drive), *_counters(drive), *facts]),
        other_access_methods=()
        if own is None
        else tuple(inventory.how(target) for target in own.others),
        used_by=tuple(map(safe_name, carries)),
        guards=_guards(known, found),
        attributes=() if drive is None else tuple(_attributes(drive)),
        self_tests=() if drive is None else tuple(_self_tests(drive)),
        alerts=answers.alerts(
            known,
            lambda a: (
                found.identity.key in {a.subject, device_of(a.subject)}
                or a.label("disk") == found.disk
            ),
        ),
        messages=() if drive is None else drive.messages,
    )


def _guards(known: ViewInputs, found: InventoryDisk) -> tuple[str, ...]:
    """Return why a disk, the host and what is on the disk have guards; these with their name."""
    active, topology = known.engine.signals.guards(), known.engine.last.block
    of_disk = active.reasons(*found.leaves, HOST)
    stacked = (
        ()
        if topology is None
        else (
            name
            for name in sorted(active.guards.keys() & topology.devices.keys() - {*topology.leaves})
            if not leaves_below(topology, name).isdisjoint(found.leaves)
        )
    )
    return (
        *of_disk,
        *(
            f"{safe_name(name)} on it: {reason}"
            for name in stacked
            for reason in active.reasons(name)
            if reason not in of_disk
        ),
    )


def _alerts(known: ViewInputs) -> Mapping[str, list[str]]:
    """Return the names of the firing alerts by their subject."""
    found: dict[str, list[str]] = defaultdict(list)
    for alert in sorted(answers.notices(known), key=lambda a: (-a.severity, a.name)):
        if alert.active:
            subjects = {alert.subject, device_of(alert.subject), f"label {alert.label('disk')}"}
            for subject in subjects - {""}:
                found[subject].append(alert.name)
    return found


def _line(
    found: InventoryDisk, known: ViewInputs, alerts: Mapping[str, list[str]]
) -> documents.DiskLine:
    drive = found.drive
    own = dict.fromkeys(
        (*alerts.get(found.identity.key, ()), *alerts.get(f"label {found.disk}", ()))
    )
    read = found.status in (ReadStatus.READ, ReadStatus.ASLEEP)
    full = newest(known.full_reads, found.disk)
    return documents.DiskLine(
        disk=found.disk,
        object=found.identity.object,
        device=found.device,
        model="" if drive is None else " ".join(w for w in (drive.vendor, drive.model) if w),
        capacity_bytes=None if drive is None else drive.capacity_bytes,
        kind="" if drive is None else _kind(drive),
        health="" if drive is None else _HEALTH[drive.passed],
        temperature_celsius=None if drive is None else drive.temperature_celsius,
        power_on_hours=None if drive is None else drive.power_on_hours,
        expected_by=found.expected_by,
        monitoring_state=found.status.value,
        reason=found.reason,
        remedy="" if read else inventory.REMEDIES.get(found.status, ""),
        access_method=found.access_method,
        slot=found.slot,
        polled_seconds=known.moment(found.read_seconds),
        full_read_seconds=None if full is None else known.moment(full[0]),
        full_read_by="" if full is None else full[1].value,
        unavailable=(
            *(() if drive is None else inventory.not_read(drive)),
            *selftest_schedule.refused(known.self_tests.get(found.disk, {})),
        ),
        physical=found.physical,
        alerts=tuple(own),
    )


def _kind(drive: Drive) -> str:
    if drive.protocol is Protocol.NVME:
        return "NVMe"
    return {None: "", 0: "solid state"}.get(drive.rotation_rpm, "rotating")


def _identity(drive: Drive) -> Iterator[tuple[str, str]]:
    yield from _present(
        ("model", " ".join(w for w in (drive.vendor, drive.model) if w)),
        ("family", drive.family),
        ("serial number", drive.serial),
        ("firmware", drive.firmware),
        ("WWN", drive.wwn),
        ("capacity", None if drive.capacity_bytes is None else size(drive.capacity_bytes)),
        ("sector", _sector(drive)),
        (
            "rotation",
            {None: None, 0: "none: solid state"}.get(
                drive.rotation_rpm, f"{drive.rotation_rpm} rpm"
            ),
        ),
        ("protocol", f"{drive.protocol}{f', {drive.transport}' if drive.transport else ''}"),
    )


def _sector(drive: Drive) -> str:
    sizes = (drive.logical_block_bytes, drive.physical_block_bytes)
    shown = list(dict.fromkeys(f"{each} bytes" for each in sizes if each is not None))
    return ", physical ".join(shown)


def _counters(drive: Drive) -> Iterator[tuple[str, str]]:
    limit = drive.temperature_limit_celsius
    temperature = drive.temperature_celsius
    yield from _present(
        ("health", _HEALTH[drive.passed]),
        (
            "temperature",
            None
            if temperature is None
            else f"{temperature:g} C" + ("" if limit is None else f", limit {limit:g} C"),
        ),
        ("power-on time", None if drive.power_on_hours is None else f"{drive.power_on_hours} h"),
        ("power cycles", drive.power_cycles),
        ("error log entries", drive.errors_logged_total),
        ("pending sectors", drive.pending_sectors),
        ("endurance used", _ratio(drive.endurance_used_ratio)),
        ("self-test in progress", _ratio(drive.self_test_remaining_ratio, " remaining")),
        ("supported self-tests", ", ".join(drive.self_test_kinds or ())),
    )
    scsi, nvme = drive.scsi, drive.nvme
    if scsi is not None:
        yield from _present(
            *(
                (
                    f"{operation} errors",
                    f"{c.uncorrected_total} uncorrected, {c.corrected_total} corrected",
                )
                for operation, c in scsi.error_counters.items()
            ),
            ("grown defects", scsi.grown_defects),
            ("non-medium errors", scsi.non_medium_errors_total),
            ("endurance used", _ratio(scsi.endurance_used_ratio)),
        )
    if nvme is not None:
        yield from _present(
            ("critical warning", nvme.critical_warning),
            ("endurance used", _ratio(nvme.endurance_used_ratio)),
            ("spare", _ratio(nvme.available_spare_ratio)),
            ("media errors", nvme.media_errors_total),
            ("unsafe shutdowns", nvme.unsafe_shutdowns_total),
            (
                "written",
                None if nvme.written_bytes_total is None else size(nvme.written_bytes_total),
            ),
        )


def _polled_by(found: InventoryDisk) -> Iterator[tuple[str, str]]:
    polled = found.polled
    assert polled is not None  # noqa: S101 - checked by the caller
    yield "access method", found.access_method
    took = duration(polled.duration_seconds)
    yield "poll interval", f"{duration(polled.period_seconds)}, the last poll took {took}"
    yield "polls", f"{polled.runs_total}, {polled.failures_total} failed"
    drive = polled.drive
    if drive is not None and drive.smartctl_version:
        yield "smartctl", drive.smartctl_version


def _attributes(drive: Drive) -> Iterator[documents.AttributeLine]:
    for a in drive.attributes:
        yield documents.AttributeLine(
            id=a.id,
            name=a.name,
            value=_text(a.value),
            worst=_text(a.worst),
            threshold=_text(a.threshold),
            raw=a.raw_text or _text(a.raw),
            when_failed=a.failed,
        )


def _self_tests(drive: Drive) -> Iterator[documents.SelfTestLine]:
    results = {True: "passed", False: "FAILED", None: ""}
    for test in drive.self_tests:
        yield documents.SelfTestLine(
            test.kind, test.status, results[test.passed], test.hours, test.lba
        )


def _present(*facts: tuple[str, object]) -> Iterable[tuple[str, str]]:
    """Return the facts that are neither None nor '', as text."""
    return [(name, str(value)) for name, value in facts if value is not None and value != ""]


def _ratio(value: float | None, more: str = "") -> str | None:
    return None if value is None else f"{percentage(value)}{more}"


def _text(value: int | None) -> str:
    return "" if value is None else str(value)
