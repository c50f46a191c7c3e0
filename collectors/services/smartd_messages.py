"""Messages of smartd: what it logs, and the first line of its mails.

Source: smartmontools, smartd.cpp: all texts of PrintOut, MailWarning and reset_warning_mail.
Limits: an attribute's change is reported by its normalized value, unless smartd.conf requests raw
values; the temperature limits are those of smartd.conf.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.services.service_message import ENDS, ServiceMessage, of_rows, row

if TYPE_CHECKING:
    import re
    from collections.abc import Sequence

_DEVICE = lazy_pattern(r"Device:? (?P<device>[^,]{1,120}?)(?:, |: )(?P<text>.*)")
_PLAIN = lazy_pattern(r"/dev/(?P<name>[\w.-]+)(?: \[SAT\])?")

_COPY = "Make sure that its data also exists elsewhere. "
_READ = _COPY + "A long self-test reads all sectors: smartctl -t long DEVICE"
_REPLACE = _COPY + "Plan the disk's replacement."
_DATA = "Compare with all of its SMART data: smartctl -x DEVICE"

_ROWS = (
    row(r"(?P<n>\d+) (?:Currently|Total) unreadable \(pending\) sectors.*", "DiskPendingSectors",
        "warning", "{n} sectors could not be read (pending)", _READ),
    row(r"(?P<n>\d+) (?:Offline|Total offline) uncorrectable sectors.*",
        "DiskUncorrectableSectors", "warning", "{n} sectors were unreadable in an offline scan",
        _READ),
    row(r"No more (?:Currently|Total) unreadable.*", "DiskPendingSectors", ENDS),
    row(r"No more (?:Offline|Total offline) uncorrectable.*", "DiskUncorrectableSectors", ENDS),
    row(r"FAILED SMART self-check\. BACK UP DATA NOW!.*", "DiskFailing", "critical",
        "the drive reports that it is failing", _REPLACE),
    row(r"SMART Failure: (?P<why>.*)", "DiskFailing", "critical",
        "the drive reports that it is failing: {why}", _REPLACE),
    row(r"Self-Test Log error count increased from (?P<was>\d+) to (?P<n>\d+).*",
        "DiskSelfTestFailed", "critical", "a self-test failed ({n} in its log, {was} before)",
        _REPLACE),
    row(r"Self-Test Log error count increased.*", "DiskSelfTestFailed", "critical",
        "a self-test failed", _REPLACE),
    row(r"new Self-Test Log error at hour timestamp (?P<hour>\d+).*", "DiskSelfTestFailed",
        "critical", "a self-test failed at hour {hour}", _REPLACE),
    row(r"Self-Test Log (?:error count decreased from \d+ to 0|does no longer report errors).*",
        "DiskSelfTestFailed", ENDS),
    row(r"Self-Test Log error count decreased.*"),
    row(r"previous self-test completed with error \((?P<why>.*)\).*", "DiskSelfTestFailed",
        "critical", "its self-test failed: {why}", _REPLACE),
    row(r"previous self-test could not complete.*", "DiskSelfTestFailed", "warning",
        "its self-test could not complete", _DATA),
    row(r"offline data collection was aborted by the device with a fatal error.*",
        "DiskOfflineCollectionFailed", "warning",
        "the drive aborted its offline data collection with a fatal error", _READ),
    row(r"ATA error count increased from (?P<was>\d+) to (?P<n>\d+).*", "DiskErrorLogIncreased",
        "warning", "the drive's error log grew from {was} to {n} entries",
        "What the errors are: smartctl -l xerror DEVICE"),
    row(r"NVMe error count increased from (?P<was>\d+) to (?P<n>\d+) \((?P<new>\d+) new.*",
        "DiskErrorLogIncreased", "warning", "its error log grew from {was} to {n} entries: {new} of"
        " them are errors of the device", "What the errors are: nvme error-log DEVICE"),
    row(r"(?:number of Error Log entries|NVMe error count) increased from (?P<was>\d+) to"
        r" (?P<n>\d+).*", "DiskErrorLogIncreased", "info",
        "its error log grew from {was} to {n} entries; rejected commands are counted there, too"),
    row(r"SMART/Health value: Media and Data Integrity Errors changed from (?P<was>\d+) to"
        r" (?P<n>\d+)", "NvmeMediaErrorsIncreased", "warning",
        "its media errors increased from {was} to {n}", _READ),
    row(r"SMART/Health value: Available Spare changed from (?P<was>\d+) to (?P<n>\d+)",
        "NvmeSpareDropped", "notice", "its available spare changed from {was} % to {n} %", _DATA),
    row(r"SMART/Health value: Percentage Used changed from \d+ to (?P<n>9\d|1\d\d|2\d\d)",
        "DiskEnduranceUsed", "warning", "{n} % of its rated endurance is used",
        "Plan its replacement."),
    row(r"(?:open\(\) of \S+ device failed|open\(\) failed): (?P<why>No such device.*|No such file"
        r".*|Input/output error.*)", "DiskNotReadable", "critical",
        "smartd could not open the disk: {why}",
        "See whether the disk is there (lsblk) and what the kernel's log reports of it; check its"
        " cables and power."),
    row(r"(?:open\(\) of \S+ device failed|open\(\) failed|unable to open(?: \S+)? device|removed"
        r" \S+ device)(?P<why>.*)", "DiskNotReadable", "warning",
        "smartd could not open the disk{why}", "See whether the disk is there: lsblk"),
    row(r"(?:open of \S+ device worked again|reconnected \S+ device).*", "DiskNotReadable", ENDS),
    row(r"(?:(?:unexpectedly )?failed to read (?:SMART Attribute Data|SMART values|NVMe"
        r" SMART/Health Information)|Read SMART (?:Values|Thresholds) failed).*",
        "DiskSmartNotRead", "warning", "its SMART data could not be read", _DATA),
    row(r"read SMART Attribute Data worked again.*", "DiskSmartNotRead", ENDS),
    row(r"(?:Read (?:SMART )?Self[- ][Tt]est Log [Ff]ailed|Read .*Error Log [Ff]ailed).*",
        "DiskLogNotRead", "notice", "a log of it could not be read", _DATA),
    row(r"Read (?:SMART )?Self-Test Log worked again.*", "DiskLogNotRead", ENDS),
    row(r"Temperature (?P<n>\d+) Celsius reached critical limit of (?P<limit>\d+) Celsius.*",
        "DiskTemperatureHigh", "warning", "{n} C, critical limit {limit} C",
        "Check fans, filters and the room."),
    row(r"Temperature (?P<n>\d+) Celsius reached limit of (?P<limit>\d+) Celsius.*",
        "DiskTemperatureHigh", "notice", "{n} C, limit {limit} C"),
    row(r"Temperature \d+ Celsius dropped below.*", "DiskTemperatureHigh", ENDS),
    row(r"execute .*(?:Self-)?Test failed.*", "DiskSelfTestRefused", "notice",
        "a self-test could not be started"),
    row(r"not capable of SMART self-check.*", "DiskSmartNotRead", "notice",
        "its overall health could not be read"),
    row(r"(?:Bad IEC \(SMART\) mode page|IE \(SMART\) not enabled).*", "DiskNotMonitored", "notice",
        "smartd does not monitor it", _DATA),
    row(r"failed Test Unit Ready.*", "DiskNotReadable", "warning", "it is not ready", _DATA),
    row(r"(?:NVMe Identify Controller|Both 36 and 64 byte INQUIRY) failed.*", "DiskNotMonitored",
        "notice", "smartd does not monitor it", _DATA),
    row(r"(?:starting scheduled|skip|will |old test|self-test in progress|is in|is back|opened"
        r"|state |found in|type changed|no self-test|.* self-test in progress).*"),
    row(r"(?:could not (?:en|dis)able|disabled|can't monitor|ignoring|not found in smartd database"
        r"|no \S.*, ignoring|does not support|not capable of|set of SCT|SCT Error Recovery|.*SMART"
        r" Automatic Offline|unable to autodetect|unknown (?:offline|self-test)|NOT READY|.*Error"
        r" Log(?:s|,) |Error Information|failed to read Temperature|previous self-test (?:completed"
        r" without|was (?:aborted|interrupted))|NVMe error \[|prepare .*|.*close\(\) failed|.*"
        r"warning condition reset after).*"),
    row(r"(?:.*\bS/N:.*|\[.*\](?:, .*)?|.*, ignored|.*, unique name: .*|presets are:.*"
        r"|offline data collection .*|SMART Automatic Offline .*|.* device still removed: .*"
        r"|.* mode ignored due to .*|.* test span at LBA .*|ATA IDENTIFY DEVICE words .*"
        r"|ATA Security is .*|ATA settings applied: .*|BECOMING .*|NO MEDIUM .*"
        r"|CHECK POWER STATUS .*"
        r"|JSON state written .*|SMART health: passed|SMART Error Logs report different .*"
        r"|SMART/Health value: .* changed .*|Temperature changed .*|initial Temperature .*"
        r"|attribute log written .*|enabled .*|is SMART capable.*|lacks SMART capability.*"
        r"|neither ATA, SCSI nor NVMe.*|non-SMART asc.*|not (?:ATA, no|a disk like|available"
        r"|monitoring) ?.*|packet devices .*|proceeding since .*|to proceed anyway.*"
        r"|same (?:Attribute|identity) .*|skipped \(interval.*|smartd database not searched.*"
        r"|unsupported device type .*|INQUIRY response less .*)"),
    row(r"WARNING: (?P<why>.*)", "DiskFirmwareWarning", "notice",
        "smartmontools has a warning about this model: {why}"),
)  # fmt: skip
"""Messages behind 'Device: NAME, '."""
_GENERAL = (
    row(r"(?:Warning via|Sending warning via|Executing test of|Test of) .*: (?:failed|pclose).*",
        "SmartdMailFailed", "notice", "smartd could not send a warning"),
    row(r"Configuration file \S+ has fatal syntax errors.*|DEVICESCAN failed.*|Unable to register"
        r" .*|In the system's table of devices NO devices found.*|.* parsed but has no entries"
        r"|File \S+ line \d+ .*(?:[Uu]nknown|I?[Nn]valid|INVALID|[Mm]issing|takes|argument).*"
        r"|Error: .*|Drive: .* (?:invalid|need) .*|Internal error.*|.* [Uu]nable to (?:fork|detach"
        r"|redirect|write|open configuration).*|smartd received unexpected.*|PID file .*"
        r"|smartd is exiting \(exit status [1-9]\d*\).*|Smartd: (?:Out of memory|Exception).*",
        "SmartdImpaired", "notice", "smartd does not monitor all disks",
        "What it monitors: smartd -q showtests"),
    row(r"(?:Sending warning via|Warning via|Executing test of|Test of|Drive:|TEST EMAIL) .*"),
    row(r"(?:Self-test\(s\)|System (?:auto|clock)|Disable auto|Sleep time|Signal|If mail|enable"
        r" console|Can't unlink|Configuration file|File) .*"),
)  # fmt: skip
_ATTRIBUTE = lazy_pattern(
    r"SMART (?:Prefailure|Usage) Attribute: (?P<id>\d{1,3}) (?P<name>\S+) changed from"
    r" (?P<was>\d+)(?: \[Raw (?P<raw_was>\d+)[^\]]*\])? to (?P<now>\d+)"
    r"(?: \[Raw (?P<raw>\d+)[^\]]*\])?.*"
)
_FAILED = lazy_pattern(r"Failed SMART usage Attribute: (?P<id>\d{1,3}) (?P<name>.*?)\.?")
_CRITICAL_WARNING = lazy_pattern(
    r"Critical Warning \(0x(?P<bits>[0-9a-fA-F]{1,2})\)(?:: (?P<why>.*))?"
)
_COUNTS = {
    5: ("DiskReallocatedSectorsIncreased", "notice"),
    10: ("DiskErrorsIncreased", "warning"),
    184: ("DiskErrorsIncreased", "warning"),
    187: ("DiskErrorsIncreased", "warning"),
    196: ("DiskReallocatedSectorsIncreased", "notice"),
    197: ("DiskPendingSectors", "warning"),
    198: ("DiskUncorrectableSectors", "warning"),
    199: ("DiskInterfaceCrcErrors", "notice"),
}
"""Attributes that count errors: the raw value increases, the normalized one drops."""
_NAMES = lazy_pattern(r"(?i).*(?:realloc|spin_retry|end.to.end|uncorr|pending|crc|unreadable).*")
"""Of an attribute's number vendors make different things: its name decides as well."""
_LOST_DATA = frozenset({5, 10, 184, 187, 196, 197, 198})
_OF_HEAT = frozenset({190, 194, 231})
_HEAT_BITS = 0x02


def messages(text: str) -> Sequence[ServiceMessage] | None:
    """Return what a message reports; None: it is not known."""
    begin = _DEVICE.match(text)
    if begin is None:
        return of_rows(_GENERAL, text)
    name = device_name(begin["device"])
    rest = begin["text"]
    if (attribute := _ATTRIBUTE.fullmatch(rest)) is not None:
        return _of_attribute(name, attribute)
    if (failed := _FAILED.fullmatch(rest)) is not None:
        return (_of_failed(name, int(failed["id"]), failed["name"]),)
    if (warning := _CRITICAL_WARNING.fullmatch(rest)) is not None:
        is_hot = not int(warning["bits"], 16) & ~_HEAT_BITS
        why = f"it reports the critical warning 0x{warning['bits']}: {warning['why'] or 'no text'}"
        severity = "warning" if is_hot else "critical"
        return (ServiceMessage(name, "NvmeCriticalWarning", severity, why, _REPLACE),)
    reports = of_rows(_ROWS, rest)
    if reports is None:
        return None
    return tuple(
        ServiceMessage(name, each.fault, each.severity, each.text, each.advice) for each in reports
    )


def is_of_device(text: str) -> bool:
    """Whether a message is about a device."""
    return _DEVICE.match(text) is not None


def device_name(device: str) -> str:
    """Return a device as the kernel names it; with another type than SATA as smartd does."""
    plain = _PLAIN.fullmatch(device)
    return plain["name"] if plain else device


def _of_attribute(device: str, change: re.Match[str]) -> tuple[ServiceMessage, ...]:
    """Return what a changed attribute reports; most changes are of no importance."""
    number = int(change["id"])
    if number not in _COUNTS or not _NAMES.fullmatch(change["name"]):
        return ()
    fault, severity = _COUNTS[number]
    name = f"{change['name']} (attribute {number})"
    if change["raw"] and change["raw_was"]:
        was, now = int(change["raw_was"]), int(change["raw"])
        if now == 0:
            return (ServiceMessage(device, fault, ENDS),)
        if now <= was:
            return ()
        return (ServiceMessage(device, fault, severity, f"{name} rose from {was} to {now}", _DATA),)
    was, now = int(change["was"]), int(change["now"])
    if now >= was:
        return ()
    text = f"the normalized value of {name} dropped from {was} to {now}"
    return (ServiceMessage(device, fault, severity, text, _DATA),)


def _of_failed(device: str, number: int, name: str) -> ServiceMessage:
    """Return the message about an attribute at its vendor's threshold."""
    severity = "critical" if number in _LOST_DATA else "warning"
    if number in _OF_HEAT:
        return ServiceMessage(
            device, "DiskTemperatureHigh", "warning", f"{name} (attribute {number}) is too high"
        )
    text = f"{name} (attribute {number}) has reached the vendor's threshold"
    return ServiceMessage(device, "DiskAttributeFailed", severity, text, _REPLACE, str(number))
