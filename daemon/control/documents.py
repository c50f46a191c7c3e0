"""What is said over the control socket: documents of `iowarden status` and its neighbours. Pure.

The loop makes them, `daemon.json_codec` turns them into JSON, `daemon.cli` shows them. Every field
has a default, so that a client and a service of different versions understand each other.

    command         arguments                                     answer
    status          none                                          Status
    silence add     AddSilence                                    SilenceLine
    silence list    none                                          Silences
    silence expire  {"identifier": ID or a prefix of one only}    SilenceLine, as it ended
    ack             Acknowledge                                   IncidentLine, as it is then
    events          AskEvents                                     Events; then {"event": EventLine}
    incident list   {"all": false}                                Incidents
    incident show   {"incident": ID or a prefix of one only}      IncidentDetail
    query           {"expression": TEXT}                          Result
    coverage        none                                          Coverage
    disk show       {"disk": SERIAL, its beginning or a device}   DiskDetail
    disk history    {"disk": as above, "attribute": TEXT}         DiskHistory
    disk forget     {"disk": as above}                            DiskLine, as it was
    selftest start  {"disk": as above, "kind": TEXT, "force": false}  SelfTests, of that disk
    selftest status {"disk": as above, or none: all}              SelfTests
    selftest abort  {"disk": as above}                            SelfTests, of that disk

Units: times are Unix time in seconds; None where there is none. Severities are the words of the
rules' label: 'critical', 'warning', 'notice', 'info'.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from iowarden.rules.matcher import Matcher  # noqa: TC001 - the codec asks for it at run time


@dataclass(frozen=True, slots=True)
class AddSilence:
    """Ask for a silence. It ends `for_seconds` from now, by the service's clock."""

    matchers: tuple[str, ...] = ()
    """As typed: 'device=sda', 'alertname=~Write.*'; the service reads them."""
    for_seconds: float = 0.0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """Say that an incident is known, or with `undo` take that back."""

    incident: str = ""
    """Its identifier, or a prefix that no other open incident has."""
    reason: str = ""
    undo: bool = False


@dataclass(frozen=True, slots=True)
class AcknowledgementLine:
    """Who said that an incident is known."""

    who: str = ""
    at_seconds: float = 0.0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class IncidentLine:
    """An open incident."""

    identifier: str = ""
    severity: str = ""
    object: str = ""
    """'host', or a disk: 'sda (ACME SLOW-HDD, serial SLOW1)'."""
    opened_seconds: float = 0.0
    firing: bool = False
    """False: nothing of it holds any more, its end is awaited."""
    summary: str = ""
    mails: int = 0
    mailed_seconds: float | None = None
    acknowledged: AcknowledgementLine | None = None
    silences: tuple[str, ...] = ()
    """Identifiers of the silences that keep its mails back."""
    closed_seconds: float | None = None
    """None: it is open. What is closed has no severity and no summary any more."""
    last_reason: str = ""
    """Of its last mail, of `rules.notice.Reason`."""
    recurrences: int = 0
    """How often it came again after it was over."""
    cleared_seconds: float | None = None
    """Since when none of its conditions holds; it is not resolved yet."""


@dataclass(frozen=True, slots=True)
class AlertLine:
    """An alert that is pending, firing or unknown."""

    name: str = ""
    severity: str = ""
    state: str = ""
    """Of `rules.alerting.alerts.State`."""
    object: str = ""
    since_seconds: float = 0.0
    """Since when its condition holds; of one that is unknown, since when nobody can tell."""
    summary: str = ""
    value: str = ""
    """As text, because NaN and +Inf are no JSON numbers."""
    labels: dict[str, str] = field(default_factory=dict)
    unknown_reason: str = ""
    incident: str = ""
    """Identifier of its incident, if it has one."""
    silences: tuple[str, ...] = ()
    cleared_seconds: float | None = None
    """Since when its condition does not hold, while it is kept firing; `summary` is from before."""


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A source that is not ok."""

    name: str = ""
    outcome: str = ""
    """Of `collectors.model.Outcome`."""
    since_seconds: float | None = None
    """None: it never was ok."""
    error: str = ""


@dataclass(frozen=True, slots=True)
class MailLine:
    """Mails nobody has got yet."""

    destination: str = ""
    """'SMTP server mx1:25', 'Maildir /var/lib/iowarden/Maildir'."""
    waiting: int = 0
    refused: int = 0
    """Of those waiting: refused for good, and tried again after a reload only."""
    oldest_seconds: float | None = None
    next_seconds: float | None = None
    """When it is tried next."""
    error: str = ""
    """What the last attempt ended with; '' after a good one."""


@dataclass(frozen=True, slots=True)
class StuckLine:
    """A program that was killed and lives on in the kernel: a sign of a failing disk."""

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
    """Why it is not."""
    programs: dict[str, str] = field(default_factory=dict)
    """Path of each program it found, by name."""
    stuck: tuple[StuckLine, ...] = ()


@dataclass(frozen=True, slots=True)
class SilenceLine:
    """A silence that holds."""

    identifier: str = ""
    matchers: tuple[Matcher, ...] = ()
    created_seconds: float = 0.0
    ends_seconds: float = 0.0
    reason: str = ""
    who: str = ""
    note: str = ""
    """What it matches now, or that this may not be what was meant; of one that was just added."""


@dataclass(frozen=True, slots=True)
class Silences:
    """All silences that hold, the one that ends first at the top."""

    silences: tuple[SilenceLine, ...] = ()


@dataclass(frozen=True, slots=True)
class RefusedReload:
    """The last reload, where it was refused: the configuration before it is in force."""

    at_seconds: float = 0.0
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Status:
    """What somebody who is woken at three in the morning wants to know; the worst comes first."""

    version: str = ""
    host: str = ""
    now_seconds: float = 0.0
    started_seconds: float = 0.0
    ready: bool = False
    """Whether everything was read at least once; before that, silence means nothing."""
    summary: str = ""
    """One line that says it all: 'critical: 1 incident, 3 alerts fire'."""
    incidents: tuple[IncidentLine, ...] = ()
    alerts: tuple[AlertLine, ...] = ()
    sources: tuple[SourceLine, ...] = ()
    """Those that are not ok; what this machine does not have is left out."""
    sources_ok: int = 0
    mail: MailLine = field(default_factory=MailLine)
    probe: ProbeLine = field(default_factory=ProbeLine)
    disks: str = ""
    """One line: 'SMART: 24 of 24 disks readable (1 asleep)'."""
    silences: tuple[SilenceLine, ...] = ()
    refused_reload: RefusedReload | None = None
    troubles: tuple[str, ...] = ()
    """Other things that hinder the service itself, a sentence each."""


@dataclass(frozen=True, slots=True)
class AskEvents:
    """Ask for events: of those that fit, the last ones. '' and None are any."""

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
    """The least one."""


@dataclass(frozen=True, slots=True)
class EventLine:
    """Something that happened: to the storage, or what the program said, as the journal has it.

    That of the storage is a row of history.db, too.
    """

    at_seconds: float = 0.0
    severity: str = ""
    """Of a controller's event it may be another word, which then needs attention."""
    text: str = ""
    object: str = ""
    """For people."""
    incident: str = ""
    """'' where it belongs to none."""
    source: str = ""
    """Who tells it: 'kernel', 'md', 'areca' ...; 'iowarden' is the program itself."""
    kind: str = ""
    device: str = ""
    """The name it had then."""
    disk: str = ""
    """The disk's label: its serial number, mostly; '' where it is none or not known."""
    count: int = 1
    """It is so many, or the last of so many."""
    key: str = ""
    """What tells it from any other: Event.key, or one of its own for a row that stands for several;
    '' of what the program said."""


@dataclass(frozen=True, slots=True)
class Events:
    """The last events, the oldest first."""

    events: tuple[EventLine, ...] = ()
    note: str = ""
    """What is not among them, and why."""
    disk: str = ""
    devices: tuple[str, ...] | None = None
    """Who the disk is that was asked for: its label and its names now. None: no disk of now."""


@dataclass(frozen=True, slots=True)
class Incidents:
    """Incidents: the open ones, the worst first, then those closed lately, if they are wanted."""

    now_seconds: float = 0.0
    incidents: tuple[IncidentLine, ...] = ()


@dataclass(frozen=True, slots=True)
class MemberLine:
    """An alert of an incident, or events that are one."""

    name: str = ""
    severity: str = ""
    state: str = ""
    """Of `rules.alerting.alerts.State`."""
    since_seconds: float = 0.0
    over_seconds: float | None = None
    """Since when its condition does not hold."""
    summary: str = ""
    silenced: bool = False
    count: int = 0
    """So many events; 0: an alert of a rule."""
    last_seconds: float | None = None
    """When the last of them was."""


@dataclass(frozen=True, slots=True)
class EvidenceLine:
    """What was read at a time."""

    at_seconds: float = 0.0
    source: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class IncidentDetail:
    """All of an incident, in the words of a mail that would be written now."""

    now_seconds: float = 0.0
    line: IncidentLine = field(default_factory=IncidentLine)
    silences: tuple[SilenceLine, ...] = ()
    """Those that keep its mails back."""
    members: tuple[MemberLine, ...] = ()
    happened: tuple[str, ...] = ()
    evidence: tuple[EvidenceLine, ...] = ()
    affected: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    events: tuple[EventLine, ...] = ()
    """The last storage events of it, the oldest first."""
    note: str = ""
    """Why these are not all, if they are not."""
    meaning: tuple[str, ...] = ()
    """What its alerts mean."""


@dataclass(frozen=True, slots=True)
class ResultSample:
    """One line of a query's result; `labels` has the name as '__name__'."""

    labels: dict[str, str] = field(default_factory=dict)
    value: str = ""
    """As Prometheus writes it: '1.5e+09', 'NaN', '+Inf'."""


@dataclass(frozen=True, slots=True)
class Result:
    """What an expression is now. `kind`: 'vector' or 'scalar'."""

    at_seconds: float = 0.0
    kind: str = "vector"
    samples: tuple[ResultSample, ...] = ()


@dataclass(frozen=True, slots=True)
class DiskLine:
    """A disk, and whether it is read."""

    disk: str = ""
    """Its label: the serial number, mostly."""
    object: str = ""
    """'sda (ACME DISK-9, serial S1)'."""
    device: str = ""
    """'sda'; '' behind a controller."""
    model: str = ""
    capacity_bytes: float | None = None
    kind: str = ""
    """'rotating', 'solid state', 'NVMe'."""
    health: str = ""
    """What it says of itself: 'passed', 'FAILED'."""
    temperature_celsius: float | None = None
    power_on_hours: float | None = None
    expected_by: tuple[str, ...] = ()
    """Who says that it exists: 'kernel', 'controller', 'configuration', 'memory' ..."""
    cover: str = ""
    """Of `collectors.smart.drive.Cover`."""
    reason: str = ""
    cure: str = ""
    how: str = ""
    """How it is asked: 'areca,2 at /dev/sg3'."""
    slot: str = ""
    read_seconds: float | None = None
    """When it was last read."""
    not_read: tuple[str, ...] = ()
    """What it does not say although it is read."""
    physical: bool = True
    """False: nothing can be read there, so nothing is missing."""
    alerts: tuple[str, ...] = ()
    """Names of the alerts that fire on it."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """All disks, and which of them are read."""

    now_seconds: float = 0.0
    verdict: str = ""
    """Of `rules.topology.inventory.Verdict`: 'ok', 'warning', 'critical', 'unknown'."""
    summary: str = ""
    found_seconds: float | None = None
    """When disks were last looked for; None: not yet."""
    problems: tuple[str, ...] = ()
    """Of looking for them."""
    disks: tuple[DiskLine, ...] = ()


@dataclass(frozen=True, slots=True)
class AttributeLine:
    """A SMART attribute of an ATA drive. '' where the drive does not say."""

    id: int = 0
    name: str = ""
    value: str = ""
    worst: str = ""
    threshold: str = ""
    raw: str = ""
    failed: str = ""
    """'now', 'past' or ''."""


@dataclass(frozen=True, slots=True)
class SelfTestLine:
    """An entry of a drive's self-test log, the newest first. `result`: 'passed', 'FAILED', ''."""

    kind: str = ""
    status: str = ""
    result: str = ""
    hours: int | None = None
    lba: int | None = None


@dataclass(frozen=True, slots=True)
class DiskDetail:
    """Everything that is known of a disk."""

    now_seconds: float = 0.0
    line: DiskLine = field(default_factory=DiskLine)
    facts: tuple[tuple[str, str], ...] = ()
    """Names and texts, for people: firmware, error counters ..."""
    ways: tuple[str, ...] = ()
    """Other ways to it."""
    carries: tuple[str, ...] = ()
    """Arrays, volumes and mounts that stand on it."""
    attributes: tuple[AttributeLine, ...] = ()
    self_tests: tuple[SelfTestLine, ...] = ()
    alerts: tuple[AlertLine, ...] = ()
    messages: tuple[str, ...] = ()
    """What smartctl had to say."""


@dataclass(frozen=True, slots=True)
class DiskHistory:
    """What a drive's attribute was over time. `samples`: Unix time and value, by time."""

    disk: str = ""
    attribute: str = ""
    """The name under which it is kept: '197 raw', 'temperature_celsius'."""
    samples: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class SelfTestRun:
    """The last self-test of a kind of a disk. Units: Unix time.

    `outcome` is of rules.selftest_schedule.Outcome; it waits since `due_seconds` because of what
    `postponed` says; `kind` '': somebody else began it.
    """

    disk: str = ""
    device: str = ""
    kind: str = ""
    outcome: str = ""
    text: str = ""
    who: str = ""
    begun_seconds: float | None = None
    ended_seconds: float | None = None
    remaining_ratio: float | None = None
    remaining_seconds: float | None = None
    lba: int | None = None
    due_seconds: float | None = None
    postponed: str = ""
    next_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class SelfTests:
    """The self-tests of all disks, or of one."""

    now_seconds: float = 0.0
    scheduled: bool = False
    """Whether the configuration has a schedule."""
    runs: tuple[SelfTestRun, ...] = ()
