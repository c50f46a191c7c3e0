"""JSON documents of the control socket, as shown by `iowarden status` and others. Pure.

The main loop creates them, `daemon.json_codec` encodes them, `daemon.cli` shows them. Every field
has a default, so that clients and services of different versions work together.

    command         arguments                                     answer
    status          none                                          Status
    silence add     AddSilence                                    SilenceLine
    silence list    none                                          SilenceList
    silence expire  {"identifier": ID or a prefix of one only}    SilenceLine, as it ended
    ack             Acknowledge                                   IncidentLine, as it is then
    events          EventQuery                                  EventList, then {"event": EventLine}
    incident list   {"all": false}                                IncidentList
    incident show   {"incident": ID or a prefix of one only}      IncidentDetail
    query           {"expression": TEXT}                          Result
    advise          none                                          TuningAdvice
    monitoring      none                                          DiskList
    storage         none                                          StorageTree
    disk show       {"disk": SERIAL, its beginning or a device}   DiskDetail
    disk history    {"disk": as above, "attribute": TEXT}         DiskHistory
    disk forget     {"disk": as above}                            DiskLine, as it was
    selftest start  {"disk": as above, "kind": TEXT, "force": false}  SelfTestList, of that disk
    selftest status {"disk": as above, or none: all}              SelfTestList
    selftest abort  {"disk": as above}                            SelfTestList, of that disk
    scan start      {"disk": as above, "restart": false}          ScanList, of that disk
    scan status     {"disk": as above, or none: all}              ScanList
    scan stop       {"disk": as above}                            ScanList, of that disk

Units: times are Unix time in seconds; None where there is none. Severities are values of the
label `severity`: 'critical', 'warning', 'notice', 'info'.
"""

from __future__ import annotations

from dataclasses import field

from iowarden.collectors.dataclass import dataclass
from iowarden.daemon.control.waiting_document import WaitingLine  # noqa: TC001 - the codec needs it
from iowarden.rules.matcher import Matcher  # noqa: TC001 - the codec needs it at run time


@dataclass(frozen=True, slots=True)
class AddSilence:
    """Request to add a silence. It ends `for_seconds` from now, by the service's clock."""

    matchers: tuple[str, ...] = ()
    """As typed: 'device=sda', 'alertname=~Write.*'; the service parses them."""
    for_seconds: float = 0.0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Request to acknowledge an incident, or with `undo` to remove the acknowledgement."""

    incident: str = ""
    """Its identifier, or a unique prefix among open incidents."""
    reason: str = ""
    undo: bool = False


MAX_LOG_LEVEL_SECONDS = 86400.0
"""Longest time of a temporary log level: a forgotten one would fill the journal."""


@dataclass(frozen=True, slots=True)
class SetLogLevel:
    """Request to log with another level for `for_seconds`; 0: end that now."""

    level: str = ""
    """A key of journal.LEVELS."""
    for_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class LogLevelLine:
    """A temporary log level and when it ends, Unix seconds."""

    level: str = ""
    ends_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class AcknowledgementLine:
    """Who acknowledged an incident, when and why."""

    who: str = ""
    at_seconds: float = 0.0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class IncidentLine:
    """An incident, open or closed."""

    identifier: str = ""
    severity: str = ""
    object: str = ""
    """'host', or a disk: 'sda (ACME SLOW-HDD, serial SLOW1)'."""
    opened_seconds: float = 0.0
    firing: bool = False
    """False: none of its alerts is active; it is resolved if that lasts."""
    summary: str = ""
    notifications: int = 0
    notified_seconds: float | None = None
    acknowledged: AcknowledgementLine | None = None
    silences: tuple[str, ...] = ()
    """Identifiers of the silences that suppress its notifications."""
    closed_seconds: float | None = None
    """None: it is open. A closed incident has no severity and no summary."""
    last_notification_reason: str = ""
    """Reason of the last notification, of `rules.notice.Reason`."""
    recurrences: int = 0
    """How often it was reopened."""
    cleared_seconds: float | None = None
    """Since when all its alerts are cleared; it is not resolved yet."""
    unnotified: str = ""
    """Why no receiver accepted a notification of it that is due; '' if one did."""
    cleared_because: str = ""
    """Why it is cleared though nothing reported the end of its events; '' if something did."""
    stays: bool = False
    """Whether it is cleared by that alone, and what was reported is there until a repair."""


@dataclass(frozen=True, slots=True)
class AlertLine:
    """An alert that is pending, firing or unknown."""

    name: str = ""
    severity: str = ""
    state: str = ""
    """Of `rules.alerting.alerts.AlertState`."""
    object: str = ""
    since_seconds: float = 0.0
    """Since when the expression is true; of an unknown alert, since when data is unavailable."""
    summary: str = ""
    value: str = ""
    """As text, because JSON has no NaN and +Inf."""
    labels: dict[str, str] = field(default_factory=dict)
    unknown_reason: str = ""
    incident: str = ""
    """Identifier of its incident, if it has one."""
    silences: tuple[str, ...] = ()
    cleared_seconds: float | None = None
    """Since when the expression is false, during keep_firing_for; `summary` is from before."""


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A collector that is not ok."""

    name: str = ""
    outcome: str = ""
    """Of `collectors.model.Outcome`."""
    since_seconds: float | None = None
    """Since when it is not ok; None: it never was."""
    error: str = ""


@dataclass(frozen=True, slots=True)
class MailLine:
    """Unsent notifications, and where they are sent."""

    receiver: str = ""
    """'SMTP server mx1:25', 'Maildir /var/lib/iowarden/Maildir'."""
    waiting: int = 0
    refused: int = 0
    """Number of waiting ones that are refused, for one of their recipients at least."""
    oldest_seconds: float | None = None
    next_seconds: float | None = None
    """Time of the next attempt."""
    error: str = ""
    """Error of the last attempt; '' if it succeeded."""


@dataclass(frozen=True, slots=True)
class StuckLine:
    """A killed program that still waits in the kernel: a sign of a failing disk."""

    pid: int = 0
    command: str = ""
    devices: tuple[str, ...] = ()
    controllers: tuple[str, ...] = ()
    since_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ProbeLine:
    """The probe: the process that runs programs as root."""

    connected: bool = False
    error: str = ""
    """Why it is not connected."""
    programs: dict[str, str] = field(default_factory=dict)
    """Programs that it found: name and path."""
    stuck: tuple[StuckLine, ...] = ()


@dataclass(frozen=True, slots=True)
class SilenceLine:
    """An active silence."""

    identifier: str = ""
    matchers: tuple[Matcher, ...] = ()
    created_seconds: float = 0.0
    ends_seconds: float = 0.0
    reason: str = ""
    who: str = ""
    note: str = ""
    """For a silence just added: what it matches now, or a warning about its matchers."""
    matches_nothing: bool = False
    """For a silence just added: nothing on this host can match it."""


@dataclass(frozen=True, slots=True)
class SilenceList:
    """All active silences; the one that ends first comes first."""

    silences: tuple[SilenceLine, ...] = ()


@dataclass(frozen=True, slots=True)
class RefusedReload:
    """A failed last reload of the configuration: the previous configuration stays in use."""

    at_seconds: float = 0.0
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Status:
    """The state of the monitored host and of the service; the worst comes first."""

    version: str = ""
    host: str = ""
    now_seconds: float = 0.0
    started_seconds: float = 0.0
    ready: bool = False
    """Whether all data was read at least once; before that, alerts may be missing."""
    summary: str = ""
    """One line: 'critical: 1 incident, 3 alerts fire'."""
    incidents: tuple[IncidentLine, ...] = ()
    alerts: tuple[AlertLine, ...] = ()
    collectors: tuple[SourceLine, ...] = ()
    """Collectors that are not ok, without those whose data does not exist on this machine."""
    collectors_ok: int = 0
    notifications: MailLine = field(default_factory=MailLine)
    """Mails."""
    receivers: tuple[MailLine, ...] = ()
    """Receivers other than mail."""
    unnotified: str = ""
    """A sentence if open incidents have no accepted notification, with the reasons; else ''."""
    probe: ProbeLine = field(default_factory=ProbeLine)
    disks: str = ""
    """One line: 'SMART: 24 of 24 disks readable (1 asleep)'."""
    kernel_lines: str = ""
    """One line about error lines of the kernel log that no pattern takes; '': there are none."""
    silences: tuple[SilenceLine, ...] = ()
    failed_reload: RefusedReload | None = None
    problems: tuple[str, ...] = ()
    """Other problems of the service itself, one sentence each."""
    waiting: tuple[WaitingLine, ...] = ()
    """Programs that wait for storage, the longest wait first; short waits are not listed."""
    configuration: str = ""
    """The configuration file in use."""


@dataclass(frozen=True, slots=True)
class EventQuery:
    """Request for events: the latest ones that match. '' and None match any."""

    last: int = 50
    follow: bool = False
    since_seconds: float | None = None
    until_seconds: float | None = None
    disk: str = ""
    """A serial number or its beginning, or a device."""
    incident: str = ""
    """An identifier or its beginning."""
    source: str = ""
    """'kernel', 'md', 'areca' ..., 'iowarden'."""
    severity: str = ""
    """The minimum severity."""


@dataclass(frozen=True, slots=True)
class EventLine:
    """An event of the storage, or a message of the service as in the journal.

    Events of the storage are also stored in history.db.
    """

    at_seconds: float = 0.0
    severity: str = ""
    """For an event of a controller, another value is possible: it then needs attention."""
    text: str = ""
    object: str = ""
    """Description for people."""
    incident: str = ""
    """'' if it belongs to none."""
    source: str = ""
    """Origin: 'kernel', 'md', 'areca' ...; 'iowarden' is the service itself."""
    kind: str = ""
    device: str = ""
    """The device's name at that time."""
    disk: str = ""
    """The disk's label, mostly its serial number; '' if it is no disk, or unknown."""
    count: int = 1
    """Number of equal events that this line stands for."""
    key: str = ""
    """Unique key: Event.key, or a key of its own for a row that stands for several events; '' of a
    message of the service."""


@dataclass(frozen=True, slots=True)
class EventList:
    """The last events, the oldest first."""

    events: tuple[EventLine, ...] = ()
    note: str = ""
    """Which events are missing, and why."""
    disk: str = ""
    devices: tuple[str, ...] | None = None
    """The requested disk: its label and its current device names. None: it is not present."""


@dataclass(frozen=True, slots=True)
class IncidentList:
    """Open incidents, the worst first, then on request the recently closed ones."""

    now_seconds: float = 0.0
    incidents: tuple[IncidentLine, ...] = ()


@dataclass(frozen=True, slots=True)
class MemberLine:
    """An alert of an incident, from a rule or from events."""

    name: str = ""
    severity: str = ""
    state: str = ""
    """Of `rules.alerting.alerts.AlertState`."""
    since_seconds: float = 0.0
    cleared_seconds: float | None = None
    """Since when it is cleared."""
    summary: str = ""
    silenced: bool = False
    count: int = 0
    """Number of events; 0: an alert of a rule."""
    last_seconds: float | None = None
    """Time of the last event."""


@dataclass(frozen=True, slots=True)
class EvidenceLine:
    """A value or line that was read, with its time and data source."""

    at_seconds: float = 0.0
    source: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class IncidentDetail:
    """The details of an incident, with the texts of a mail sent now."""

    now_seconds: float = 0.0
    line: IncidentLine = field(default_factory=IncidentLine)
    silences: tuple[SilenceLine, ...] = ()
    """Silences that suppress its notifications."""
    members: tuple[MemberLine, ...] = ()
    timeline: tuple[str, ...] = ()
    evidence: tuple[EvidenceLine, ...] = ()
    affected: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    events: tuple[EventLine, ...] = ()
    """Its latest storage events, the oldest first."""
    note: str = ""
    """Why events are missing, if any are."""
    meaning: tuple[str, ...] = ()
    """The meaning of its alerts."""


@dataclass(frozen=True, slots=True)
class ResultSample:
    """One series of a query's result; the metric name is label '__name__'."""

    labels: dict[str, str] = field(default_factory=dict)
    value: str = ""
    """As Prometheus formats it: '1.5e+09', 'NaN', '+Inf'."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a query. `kind`: 'vector' or 'scalar'."""

    at_seconds: float = 0.0
    kind: str = "vector"
    samples: tuple[ResultSample, ...] = ()
    note: str = ""
    """Names without series and names like them; a range that is not recorded for so long yet."""


@dataclass(frozen=True, slots=True)
class MetricLine:
    """A metric family: what it is, and its samples here or the reason why there is none."""

    name: str = ""
    type: str = ""
    """'counter' or 'gauge'; 'unknown' for another exporter's."""
    unit: str = ""
    """'' for a number, a state or 1."""
    labels: tuple[str, ...] = ()
    help: str = ""
    collectors: tuple[str, ...] = ()
    """What it is read or computed from; empty: iowarden itself."""
    series: int = 0
    samples: tuple[ResultSample, ...] = ()
    """The first ones; none if many metrics were requested."""
    reason: str = ""
    """Why it has no series here."""


@dataclass(frozen=True, slots=True)
class MetricList:
    """The metrics whose name matches."""

    metrics: tuple[MetricLine, ...] = ()


@dataclass(frozen=True, slots=True)
class TuningFinding:
    """An alert about a setting of the kernel or of a device, with the texts of its rule."""

    alert: AlertLine = field(default_factory=AlertLine)
    condition: str = ""
    description: str = ""
    evidence: tuple[str, ...] = ()
    """Present values of the metrics behind it."""
    advice: str = ""
    """What to do: sentences, and commands indented by two; with the trade-off."""
    unknown: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class SignalEffect:
    """A signal before and since a change of a setting that it depends on; 0 is best."""

    signal: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    before: float | None = None
    """Mean of up to a day before the change; None: not observed."""
    before_seconds: float = 0.0
    """Observed time."""
    after: float | None = None
    after_seconds: float = 0.0
    verdict: str = ""
    """'lower', 'higher', 'unchanged', or why nothing can be concluded."""


@dataclass(frozen=True, slots=True)
class SettingChangeLine:
    """A setting that changed while the service ran."""

    at_seconds: float = 0.0
    setting: str = ""
    device: str = ""
    """'' for a setting of the whole host."""
    old: str = ""
    new: str = ""
    effects: tuple[SignalEffect, ...] = ()


@dataclass(frozen=True, slots=True)
class TuningAdvice:
    """Reply to advise: present findings, the most severe first; changes, the latest first."""

    findings: tuple[TuningFinding, ...] = ()
    changes: tuple[SettingChangeLine, ...] = ()
    omitted: int = 0
    """Number of further findings."""
    observed_seconds: float = 0.0
    """How long the service has run: changes before that were not observed."""


@dataclass(frozen=True, slots=True)
class DiskLine:
    """A disk and its monitoring status."""

    disk: str = ""
    """Its label, mostly the serial number."""
    object: str = ""
    """'sda (ACME DISK-9, serial S1)'."""
    device: str = ""
    """'sda'; '' behind a controller."""
    model: str = ""
    capacity_bytes: float | None = None
    kind: str = ""
    """'rotating', 'solid state', 'NVMe'."""
    health: str = ""
    """SMART overall health: 'passed', 'FAILED'."""
    temperature_celsius: float | None = None
    power_on_hours: float | None = None
    expected_by: tuple[str, ...] = ()
    """What lists the disk: 'kernel', 'controller', 'configuration', 'memory' ..."""
    monitoring_state: str = ""
    """Monitoring status, of `collectors.smart.drive.ReadStatus`."""
    reason: str = ""
    remedy: str = ""
    access_method: str = ""
    """Access method: 'areca,2 at /dev/sg3'."""
    slot: str = ""
    polled_seconds: float | None = None
    """Time of the last successful poll."""
    full_read_seconds: float | None = None
    """When the disk was last read completely, as far as that is known."""
    full_read_by: str = ""
    """'scan', 'self_test' or 'md_check'."""
    unavailable: tuple[str, ...] = ()
    """Data that the disk does not provide although it is monitored."""
    physical: bool = True
    """False: it has no SMART data of its own, so none is missing."""
    alerts: tuple[str, ...] = ()
    """Names of the alerts that fire on it."""


@dataclass(frozen=True, slots=True)
class DiskList:
    """The monitoring status of all disks."""

    now_seconds: float = 0.0
    status: str = ""
    """Of `rules.topology.inventory.Verdict`: 'ok', 'warning', 'critical', 'unknown'."""
    summary: str = ""
    discovered_seconds: float | None = None
    """Time of the last disk discovery; None: not yet."""
    problems: tuple[str, ...] = ()
    """Problems of the disk discovery."""
    disks: tuple[DiskLine, ...] = ()


@dataclass(frozen=True, slots=True)
class AttributeLine:
    """A SMART attribute of an ATA drive. '' if the drive does not report it."""

    id: int = 0
    name: str = ""
    value: str = ""
    worst: str = ""
    threshold: str = ""
    raw: str = ""
    when_failed: str = ""
    """'now', 'past' or ''."""


@dataclass(frozen=True, slots=True)
class SelfTestLine:
    """An entry of a drive's self-test log. `result`: 'passed', 'FAILED', ''."""

    kind: str = ""
    status: str = ""
    result: str = ""
    hours: int | None = None
    lba: int | None = None


@dataclass(frozen=True, slots=True)
class DiskDetail:
    """The details of a disk."""

    now_seconds: float = 0.0
    line: DiskLine = field(default_factory=DiskLine)
    facts: tuple[tuple[str, str], ...] = ()
    """Names and values, for people: firmware, error counters ..."""
    other_access_methods: tuple[str, ...] = ()
    """Other access methods."""
    used_by: tuple[str, ...] = ()
    """Arrays, volumes and mounts on the disk."""
    attributes: tuple[AttributeLine, ...] = ()
    self_tests: tuple[SelfTestLine, ...] = ()
    alerts: tuple[AlertLine, ...] = ()
    messages: tuple[str, ...] = ()
    """Messages of smartctl."""
    guards: tuple[str, ...] = ()
    """Facts that permit stalls of it now, for people."""


@dataclass(frozen=True, slots=True)
class DiskHistory:
    """History of a drive's attribute. `samples`: Unix time and value, by time."""

    disk: str = ""
    attribute: str = ""
    """The name under which it is stored: '197 raw', 'temperature_celsius'."""
    samples: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class SelfTestRunLine:
    """The last self-test of a kind of a disk. Units: Unix time.

    `outcome` is of rules.selftest_schedule.SelfTestState; it waits since `pending_since_seconds`
    for the reason in `postponed`; `kind` '': it was not started by iowarden.
    """

    disk: str = ""
    device: str = ""
    kind: str = ""
    outcome: str = ""
    text: str = ""
    who: str = ""
    started_seconds: float | None = None
    ended_seconds: float | None = None
    remaining_ratio: float | None = None
    remaining_seconds: float | None = None
    lba: int | None = None
    pending_since_seconds: float | None = None
    postponed: str = ""
    next_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class SelfTestList:
    """The self-tests of all disks, or of one."""

    now_seconds: float = 0.0
    scheduled: bool = False
    """Whether the configuration has a schedule."""
    runs: tuple[SelfTestRunLine, ...] = ()


@dataclass(frozen=True, slots=True)
class ScanLine:
    """The last surface scan of a disk. Units: Unix time, bytes.

    `state` is of rules.scan.plan.ScanState; a running one `waits` for a reason, or ''.
    """

    disk: str = ""
    device: str = ""
    state: str = ""
    text: str = ""
    """Why it ended."""
    waits: str = ""
    who: str = ""
    started_seconds: float | None = None
    ended_seconds: float | None = None
    completed_seconds: float | None = None
    """End of the last complete scan."""
    progress_ratio: float | None = None
    remaining_seconds: float | None = None
    bytes_per_second: float | None = None
    """Pace at present."""
    bad_ranges: tuple[tuple[int, int], ...] = ()
    """First byte and length of what could not be read."""
    slower_zones: tuple[tuple[int, float], ...] = ()
    """Of the 128 zones those slower than in the scan before by 30 % or more, with the ratio."""
    next_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class ScanList:
    """The surface scans of all disks, or of one."""

    now_seconds: float = 0.0
    scheduled: bool = False
    """Whether the configuration has a schedule."""
    scans: tuple[ScanLine, ...] = ()
