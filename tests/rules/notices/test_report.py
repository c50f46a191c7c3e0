"""The text of a mail about an incident."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from support.machine import disk, topology

from iowarden.collectors.block.block_devices import Md
from iowarden.collectors.filesystem.mountinfo import parse_mountinfo
from iowarden.collectors.procfs.tasks import BlockedTask, BlockedTasks
from iowarden.collectors.quantity import quantity
from iowarden.rules.advice.advice import MemberText
from iowarden.rules.alerting.alerts import AlertState
from iowarden.rules.incidents.model import (
    DueNotice,
    FaultRecord,
    Incident,
    IncidentMember,
    LastMail,
    ReportedFault,
)
from iowarden.rules.notice import Evidence, Measurement, Reason
from iowarden.rules.notices import course_of_events, report, waiting, what_to_do
from iowarden.rules.notices.measurements import Measured, stored
from iowarden.rules.severity import Severity
from iowarden.rules.topology.device_identity import identity
from iowarden.rules.topology.topology import NO_DEPENDENTS, remember


def member(name: str, severity: Severity = Severity.WARNING, **changes: object) -> IncidentMember:
    """Return an alert as an incident remembers it."""
    values: dict[str, object] = {
        "labels": (("alertname", name), ("device", "sda")),
        "name": name,
        "severity": severity,
        "state": AlertState.FIRING,
        "since_seconds": 0.0,
        "summary": f"{name} happens",
        "advice": f"cure {name}",
        "unknown": "",
    }
    return IncidentMember(**{**values, **changes})  # type: ignore[arg-type]


def incident(*members: IncidentMember, **changes: object) -> Incident:
    """Return an open incident of which the first mail is due."""
    values: dict[str, object] = {
        "identifier": "abc",
        "key": "disk ACME HDD S1",
        "object": "sda",
        "opened_seconds": 0.0,
        "severity": Severity.CRITICAL,
        "members": members,
        "mails": 1,
        "references": ("abc.1",),
    }
    return Incident(**{**values, **changes})  # type: ignore[arg-type]


MACHINE = topology(
    disk("sda", holders=("md0",), serial="S1", model="HDD", vendor="ACME"),
    disk("md0", slaves=("sda",), holders=("dm-0",), leaf=False, md=Md("raid1", 2, None, 2, None)),
    disk("dm-0", slaves=("md0",), leaf=False),
)
STANDING = remember(NO_DEPENDENTS, MACHINE, (), 0.0)


def test_the_worst_alert_speaks_first() -> None:
    """The subject is that of the critical one, whichever was first."""
    due = DueNotice(Reason.OPENED, incident(member("Slow"), member("Hung", Severity.CRITICAL)))
    notice = report.notice(due, report.Sources(lambda at: at + 1000, 60.0, (), MACHINE))
    assert notice.summary == "Hung happens"
    assert notice.realtime_seconds == 1060.0
    assert notice.references == ()
    assert [line.split(",")[0] for line in notice.sentences] == ["critical Hung", "warning Slow"]


def test_what_a_log_reported_late_began_before_it_opened_anything() -> None:
    """A controller's log is read every few minutes; the mail has the actual start time."""
    late = incident(member("DiskFailed", since_seconds=40.0), opened_seconds=300.0)
    notice = report.notice(
        DueNotice(Reason.OPENED, late), report.Sources(float, 300.0, (), MACHINE)
    )
    assert notice.opened_seconds == 40.0


def test_lines_of_several_devices_name_them() -> None:
    """A disk that hangs and the volume on it: two lines that were the same otherwise."""
    volume = (("alertname", "DeviceHang"), ("device", "dm-0"))
    both = incident(member("DeviceHang"), member("DeviceHang", labels=volume))
    happened = report.notice(
        DueNotice(Reason.OPENED, both), report.Sources(float, 60.0, (), MACHINE)
    ).sentences
    assert {line.split(": ")[0] for line in happened} == {"sda", "dm-0"}
    alone = incident(member("DeviceHang"))
    (line,) = report.notice(
        DueNotice(Reason.OPENED, alone), report.Sources(float, 60.0, (), MACHINE)
    ).sentences
    assert line.startswith("warning DeviceHang")


def test_a_volume_is_called_what_its_owner_calls_it_where_an_alert_has_its_number_alone() -> None:
    """No owner knows 'dm-0': series of all block devices have no label for its name."""
    volume = replace(MACHINE.devices["dm-0"], dm_name="vg-data")
    machine = topology(MACHINE.devices["sda"], MACHINE.devices["md0"], volume)
    labels = (("alertname", "DeviceHang"), ("device", "dm-0"))
    hang = member("DeviceHang", labels=labels, summary="dm-0 hangs, dm-01 does not")
    on_disk = incident(hang, member("DiskSlow"))
    mailed = report.notice(
        DueNotice(Reason.OPENED, on_disk), report.Sources(float, 60.0, (), machine)
    )
    assert mailed.summary == "vg-data (dm-0) hangs, dm-01 does not"
    assert any("ago: vg-data (dm-0) hangs, dm-01" in line for line in mailed.sentences)
    own = incident(hang, key="device dm-0", object="vg-data (dm-0)")  # its title has the name
    titled = report.notice(DueNotice(Reason.OPENED, own), report.Sources(float, 60.0, (), machine))
    assert (titled.object, titled.summary) == ("vg-data (dm-0)", "dm-0 hangs, dm-01 does not")
    renumbered = topology(replace(volume, dm_name="vg-other"))
    later = report.notice(
        DueNotice(Reason.OPENED, own), report.Sources(float, 60.0, (), renumbered)
    )
    assert not any("vg-other" in line for line in later.sentences)


@pytest.mark.parametrize("reason", [Reason.OPENED, Reason.ESCALATED])
def test_what_is_silenced_is_listed_and_is_not_the_subject(reason: Reason) -> None:
    """A warning that is not silenced is the subject, next to a more severe one that is."""
    known = member("Hung", Severity.CRITICAL, silenced=True)
    notice = report.notice(
        DueNotice(reason, incident(known, member("Slow"))), report.Sources(float, 60.0, (), MACHINE)
    )
    assert notice.summary == "Slow happens"
    assert [line.startswith("critical Hung") for line in notice.sentences] == [False, True]
    assert notice.sentences[1].endswith("(silenced)")


@pytest.mark.parametrize(
    ("serial", "object_", "said"),
    [
        ("S1", "sda (ACME HDD, serial S1)", ""),
        (
            "S2",
            "sdb (ACME HDD, serial S2)",
            "what was sda then is sdb now; sda is a different disk",
        ),
        ("S3", "sda (ACME HDD, serial S3)", "what was sda disappeared; sda is a different disk"),
    ],
)
def test_a_mail_after_a_reboot_calls_a_disk_by_its_name_of_today(
    serial: str, object_: str, said: str
) -> None:
    """Errors of yesterday's sda: pulling today's sda would remove a healthy disk."""
    disks = [
        disk(n, serial=s, model="HDD", vendor="ACME") for n, s in (("sda", "S1"), ("sdb", "S2"))
    ]
    known = identity(topology(disk("sda", serial=serial, model="HDD", vendor="ACME")), "sda")
    due = DueNotice(Reason.OPENED, incident(member("Slow"), key=known.key, object=known.object))
    notice = report.notice(due, report.Sources(float, 60.0, (), topology(*disks)))
    assert notice.object == object_
    assert notice.sentences[1:] == ((said,) if said else ())


def test_a_disk_at_another_port_is_not_said_to_have_left_its_name_to_another() -> None:
    """sdx came back as sdb: nothing is called sdx now."""
    then = disk("sdx", serial="S2", model="HDD", vendor="ACME")
    now = topology(disk("sdb", serial="S2", model="HDD", vendor="ACME"))
    known = identity(topology(then), "sdx")
    due = DueNotice(Reason.OPENED, incident(member("Slow"), key=known.key, object=known.object))
    notice = report.notice(due, report.Sources(float, 60.0, (), now))
    assert notice.object == "sdb (ACME HDD, serial S2)"
    assert notice.sentences[1:] == ("what was sdx then is sdb now",)


def test_what_is_built_on_the_disk_is_named() -> None:
    """The administrator knows the mirror and the volume on it."""
    hung = DueNotice(Reason.OPENED, incident(member("Hung")))
    notice = report.notice(hung, report.Sources(float, 0.0, (), MACHINE, STANDING))
    assert notice.affected == ("md0 (raid1) is built on sda", "dm-0 is built on md0")


def test_a_disk_that_vanished_hits_what_stood_on_it_a_minute_ago() -> None:
    """sysfs has dropped sda and its holders; the administrator needs to know what was on it."""
    left = topology(disk("sdb", serial="S2"))
    later = remember(STANDING, left, (), 10.0)
    gone = member("DeviceRemoved", subject=identity(MACHINE, "sda").key)
    due = DueNotice(Reason.OPENED, incident(gone, key=gone.subject))
    notice = report.notice(due, report.Sources(float, 70.0, (), left, later))
    assert notice.affected == ("md0 (raid1) was built on sda", "dm-0 was built on md0")
    (forgotten,) = report.notice(due, report.Sources(float, 311.0, (), left, later)).affected
    assert forgotten.startswith("Not known: ")
    said = replace(gone, labels=(*gone.labels, ("used_by", "md0, /srv")))
    due = DueNotice(Reason.REMINDER, incident(said, key=gone.subject))
    (last,) = report.notice(due, report.Sources(float, 86_400.0, (), left, NO_DEPENDENTS)).affected
    assert last == "on it when it disappeared: md0, /srv"


def test_a_disk_without_anything_on_it_is_not_said_to_be_free() -> None:
    """It is present and was polled, and no use of it is seen; a pool may use it."""
    own = identity(MACHINE, "sda").key
    bare = topology(disk("sda", serial="S1", model="HDD", vendor="ACME"))
    due = DueNotice(Reason.OPENED, incident(member("Hung", subject=own), key=own))
    notice = report.notice(
        due, report.Sources(float, 0.0, (), bare, remember(NO_DEPENDENTS, bare, (), 0.0))
    )
    (line,) = notice.affected
    assert line.startswith("Nothing that iowarden reads shows a use of it. ")
    imported = remember(NO_DEPENDENTS, replace(bare, pools={"tank": "ONLINE"}), (), 0.0)
    pool, line = report.notice(due, report.Sources(float, 0.0, (), bare, imported)).affected
    assert pool.startswith("It may be a member of a ZFS pool: the kernel does not list the members")
    assert "check that before you remove it" in line


SHARED = "Each program of this host that writes: all disks share the limit of unwritten data."


@pytest.mark.parametrize(
    ("disks", "affected"),
    [
        ({"sda": 2e6}, ("md0 (raid1) is built on sda", "dm-0 is built on md0")),
        ({"sdz": 2e6}, ("Not known: which file systems sdz carries.",)),
        (
            {"sdz": 2e6, "sda": 1e6},
            (
                "md0 (raid1) is built on sda",
                "dm-0 is built on md0",
                "Not known: which file systems sdz carries.",
            ),
        ),
        (
            {f"sd{letter}": 1e6 for letter in "bcdefgh"},
            ("Not known: for which of 7 disks most of it is.",),
        ),
    ],
)
def test_a_write_stall_affects_what_is_on_the_disks_that_take_the_data(
    disks: dict[str, float], affected: tuple[str, ...]
) -> None:
    """Who is woken wants to know which file systems wait; the slowest disk comes first."""
    name = "iowarden_device_write_bandwidth_bytes_per_second"
    rates = [(name, (("device", device),), rate) for device, rate in disks.items()]
    due = DueNotice(Reason.OPENED, incident(member("WriteStall", labels=()), key="host"))
    notice = report.notice(
        due, report.Sources(float, 0.0, (), MACHINE, STANDING, measured=Measured(samples=rates))
    )
    assert notice.affected == (SHARED, *affected)


@pytest.mark.parametrize(
    ("name", "key", "affected", "busy"),
    [
        (
            "WriteStall",
            "host",
            (SHARED, "Not known: which disk the unwritten data is for."),
            True,
        ),
        ("ReclaimStall", "host", (), True),
        ("Swapping", "host", (), False),
        (
            "StateNotDurable",
            "iowarden",
            ("the monitoring of this host by iowarden; not the host itself",),
            False,
        ),
    ],
)
def test_a_disk_with_requests_in_flight_is_evidence_of_a_stall_and_not_hit(
    name: str, key: str, affected: tuple[str, ...], *, busy: bool
) -> None:
    """A disk always has requests: a task may wait for it, but that proves no harm."""
    alert = member(name, labels=())
    due = DueNotice(Reason.OPENED, incident(alert, key=key))
    notice = report.notice(due, report.Sources(float, 0.0, (), MACHINE, STANDING, busy=("sda",)))
    assert notice.affected == affected
    text = "requests in flight: sda (ACME HDD, serial S1)"
    assert [line.text for line in notice.evidence] == [text] * busy


@pytest.mark.parametrize(
    ("busy", "expected"),
    [
        (("sda",), "no other disk had requests in flight"),
        (("sda", "sdb"), "requests in flight: sda (ACME HDD, serial S1), sdb (HDD, serial S2)"),
        (("sda", "sdb", "sdc"), "requests in flight: sda, sdb, sdc"),
    ],
)
def test_whether_only_this_disk_hangs_is_evidence(busy: tuple[str, ...], expected: str) -> None:
    """The first question of its advice; of a shelf of disks the names are enough."""
    machine = topology(
        disk("sda", serial="S1", model="HDD", vendor="ACME"),
        disk("sdb", serial="S2", model="HDD"),
        disk("sdc", serial="S3", model="HDD"),
    )
    own = identity(machine, "sda")
    hung = member("DeviceHang", labels=(("alertname", "DeviceHang"), ("device", "sda")))
    due = DueNotice(Reason.OPENED, incident(hung, key=own.key, object=own.object))
    (line,) = report.notice(due, report.Sources(float, 0.0, (), machine, busy=busy)).evidence
    assert line.text == expected


def test_a_resolved_mail_reports_what_changed() -> None:
    """Beside the value now stands the one of the beginning."""
    hang = ("iowarden_device_hang_seconds", (("device", "sda"),), 32.0)
    begun = stored([hang], 10.0)
    over = member("Hung", evidence=begun, joined_seconds=10.0, cleared_seconds=50.0)
    due = DueNotice(Reason.RESOLVED, incident(over, mails=2))
    now = Measured(((*hang[:2], 0.0),))
    (line,) = report.notice(due, report.Sources(float, 60.0, (), MACHINE, measured=now)).evidence
    assert isinstance(line, Measurement)
    assert line.text == "no request completed for: 0 s"
    assert line.before == Evidence(10.0, hang[0], "32 s")
    assert report.notice(due, report.Sources(float, 60.0, (), MACHINE)).evidence == ()


def test_advice_is_given_once_in_a_thread() -> None:
    """The second mail repeats nothing of the first, but gives what is new."""
    first = incident(member("Hung"))
    again = incident(member("Hung"), member("Slow"), advised=what_to_do.advised(first), mails=2)
    notice = report.notice(
        DueNotice(Reason.ESCALATED, again), report.Sources(float, 0.0, (), MACHINE)
    )
    assert notice.advice == ("cure Slow",)
    assert notice.references == ("abc.1",)


def test_what_an_alert_means_is_reported_once_in_a_thread() -> None:
    """Its description with the first mail; where nothing is new that of the first active alert."""
    old, over, new = member("Hung"), member("Full", cleared_seconds=30.0), member("Slow")
    whole = incident(old, over, new, advised=("Hung",), mails=2)

    def said(one: IncidentMember) -> MemberText:
        return MemberText(f"cure {one.name}", f"{one.name} means trouble.")

    notice = report.notice(
        DueNotice(Reason.ESCALATED, whole), report.Sources(float, 60.0, (), MACHINE, text_of=said)
    )
    assert notice.meaning == ("Slow means trouble.",)
    assert notice.advice == ("cure Slow",)
    later = replace(whole, advised=what_to_do.advised(whole), mails=3)
    again = report.notice(
        DueNotice(Reason.REMINDER, later), report.Sources(float, 60.0, (), MACHINE, text_of=said)
    )
    assert again.meaning == ("Hung means trouble.",), "whoever reads it may not have the others"
    assert again.advice == ()
    ended = DueNotice(Reason.RESOLVED, incident(over, advised=("Full",), mails=4))
    assert not report.notice(ended, report.Sources(float, 60.0, (), MACHINE, text_of=said)).meaning
    assert what_to_do.advised(whole) == ("Hung", "Full", "Slow")


def test_the_mail_that_names_a_hanging_disk_speaks_of_it() -> None:
    """The host's stall was critical before; the disk is new."""
    hung = member("DeviceHang", labels=(("condition", "device_hang"), ("device", "sda")))
    due = DueNotice(
        Reason.ESCALATED, incident(member("WriteStall", Severity.CRITICAL), hung, mails=2)
    )
    assert (
        report.notice(due, report.Sources(float, 60.0, (), MACHINE)).summary == "DeviceHang happens"
    )


def test_what_is_not_known_is_said_once() -> None:
    """A dying disk has alerts of SMART, NVMe and its controller, with the same open questions."""
    letter = incident(
        member("DiskFailing", unknown="How long it will last: hours or years."),
        member("DiskAttributeFailed", unknown="How long it will last."),
        member(
            "DiskErrorsIncreased", unknown="Which files. Whether the count will increase further."
        ),
        member("DiskReallocatedSectorsHigh", unknown="Whether the count will increase further."),
        member("DiskUncorrectedErrors", unknown="Which sectors."),
    )
    notice = report.notice(
        DueNotice(Reason.OPENED, letter), report.Sources(float, 9.0, (), MACHINE)
    )
    assert notice.unknown == (
        "How long it will last: hours or years.",
        "Which files. Whether the count will increase further.",
        "Which sectors.",
    )


def test_a_silent_source_is_the_subject_of_the_mail_about_it() -> None:
    """What was last known of it; why it cannot be read may be a path, and stands below."""
    silent = member("Hung", state=AlertState.UNKNOWN, unknown="diskstats failed: gone")
    notice = report.notice(
        DueNotice(Reason.DATA_UNAVAILABLE, incident(silent)),
        report.Sources(float, 9.0, (), MACHINE),
    )
    assert notice.summary == "last known: Hung happens"
    assert "its data source can no longer be read" in notice.sentences[0]
    assert notice.unknown == ("diskstats failed: gone",)
    (meaning,) = notice.meaning
    assert meaning.startswith("It is not known whether this still holds: its data source ")


def test_what_is_resolved_ended_when_its_condition_did() -> None:
    """Not a minute later, when that was certain: the third line of the mail has the same time.

    A group that is evaluated every 20 s saw it last at 10 s, and no longer at 30 s.
    """
    ended = member("Hung", absent_seconds=30.0, cleared_seconds=90.0)
    before = member("Slow", absent_seconds=5.0, cleared_seconds=65.0)
    due = DueNotice(Reason.RESOLVED, incident(ended, before, active_seconds=10.0))
    notice = report.notice(due, report.Sources(float, 91.0, (), MACHINE))
    assert notice.ended_seconds == 10.0
    assert notice.sentences[0].endswith("(resolved 1 min 21 s ago)")
    assert notice.sentences[1].endswith("(resolved 1 min 26 s ago)")


def test_what_holds_no_longer_is_reported_in_the_past() -> None:
    """A freeze of 29 s is mailed when its minute of grouping has passed: it is resolved, too."""
    held = member("Hung", absent_seconds=30.0)
    notice = report.notice(
        DueNotice(Reason.OPENED, incident(held)), report.Sources(float, 60.0, (), MACHINE)
    )
    assert notice.summary == "cleared; was: Hung happens"
    assert notice.sentences[0].endswith("(cleared 30 s ago)")


def test_a_warning_and_a_critical_limit_are_one_line() -> None:
    """The worst that holds; when both are over, the worst that was. Another disk is another."""

    def of(device: str, severity: Severity, **fields: Any) -> IncidentMember:  # noqa: ANN401 - as Member takes them
        labels = (("alertname", "Hot"), ("device", device), ("severity", severity.name.lower()))
        return replace(member("Hot", severity), labels=labels, subject=device, **fields)

    def lines(*members: IncidentMember) -> list[str]:
        due = DueNotice(Reason.OPENED, incident(*members))
        notice = report.notice(due, report.Sources(float, 60.0, (), MACHINE))
        return [line.partition(",")[0] for line in notice.sentences]

    warning, critical = (of("sda", each) for each in (Severity.WARNING, Severity.CRITICAL))
    other = of("sdb", Severity.WARNING)
    assert lines(warning, critical, other) == ["sda: critical Hot", "sdb: warning Hot"]
    cooler = replace(critical, cleared_seconds=50.0)
    assert lines(warning, cooler) == ["warning Hot"]
    assert lines(replace(warning, cleared_seconds=55.0), cooler) == ["critical Hot"]


def test_a_disk_goes_by_its_serial_number() -> None:
    """sda today, sdb tomorrow: the same disk; without a serial number the name must do."""
    same = topology(disk("sdb", serial="S1", model="HDD", vendor="ACME"))
    here, there = identity(MACHINE, "sda"), identity(same, "sdb")
    assert here.key == there.key
    assert here.object == "sda (ACME HDD, serial S1)"
    assert identity(topology(disk("sda")), "sda").object == "sda"
    assert identity(None, "sda").key == "device sda"


@pytest.mark.parametrize(
    ("metric", "value", "expected"),
    [
        ("iowarden_x_bytes", 702_869_504.0, "670 MiB"),
        ("iowarden_x_bytes_per_second", 2_106_850.0, "2 MiB/s"),
        ("iowarden_x_seconds", 345.0, "5 min 45 s"),
        ("iowarden_x_seconds", 93_600.0, "1 d 2 h"),
        ("iowarden_x_seconds", math.inf, "for ever"),
        ("iowarden_x_timestamp_seconds", 1_795_435_200.0, "2026-11-23 12:00 UTC"),
        ("iowarden_x_timestamp_seconds", 1e15, "11574074074 d 1 h"),
        ("iowarden_x_ratio", 0.9901, "99 %"),
        ("iowarden_x_total", 12.0, "12"),
        ("iowarden_x", math.nan, "not a number"),
    ],
)
def test_numbers_carry_the_unit_of_their_metric(metric: str, value: float, expected: str) -> None:
    """A tired person reads '5 min 45 s', not 345."""
    assert quantity(metric, value) == expected


def test_advice_that_the_newest_state_makes_dangerous_is_taken_back() -> None:
    """The mail about the file system advised e2fsck; now the array below it does not run."""
    failed = member("FilesystemErrors", advice="e2fsck -f /dev/md0")
    stopped = member("MdInactive", labels=(("device", "md0"),), advice="write nothing there")
    open_now = incident(failed, stopped, advised=("FilesystemErrors",), mails=2)
    notice = report.notice(
        DueNotice(Reason.ESCALATED, open_now), report.Sources(float, 10.0, (), MACHINE, STANDING)
    )
    back, new = notice.advice
    assert back == "Do not follow the earlier advice about sda: md0 does not work."
    assert new == "write nothing there"
    assert what_to_do.advised(open_now) == ("FilesystemErrors", "MdInactive")


def test_what_comes_again_is_reported_with_what_to_do() -> None:
    """The first mail was hours ago, and may have gone to another person."""
    hung = member("Hung", Severity.CRITICAL, advice="look at the adapter")
    again = incident(hung, advised=("Hung",), mails=3, recurrences=1)
    notice = report.notice(
        DueNotice(Reason.REOPENED, again), report.Sources(float, 10.0, (), MACHINE)
    )
    assert notice.advice == ("look at the adapter",)


def test_each_mail_that_takes_advice_back_reports_what_to_do_instead() -> None:
    """The array stopped in the mail before; now the file system on it fails as well."""
    failed = member("FilesystemErrors", advice="e2fsck -f /dev/md0")
    stopped = member("MdInactive", advice="write nothing there", summary="md0 does not run")
    names = ("FilesystemErrors", "MdInactive")
    third = incident(failed, stopped, advised=names, mails=3)
    notice = report.notice(
        DueNotice(Reason.ESCALATED, third), report.Sources(float, 10.0, (), MACHINE, STANDING)
    )
    back, again = notice.advice
    assert back == "Do not follow the earlier advice about sda: sda does not work."
    assert again == "write nothing there"


@pytest.mark.parametrize("disks", [1, 2, 3, 4, 24])
@pytest.mark.parametrize("threat", ["MdInactive", "MdDegraded", ""])
def test_earlier_advice_is_taken_back_in_at_most_fifteen_words(disks: int, threat: str) -> None:
    """It listed the summary of each: a screen to read before what to do instead."""
    names = [f"sd{chr(97 + n)}" for n in range(disks)]
    given = [
        member("DiskErrors", labels=(("device", name),), subject=f"disk {name}") for name in names
    ]
    array = member(threat, labels=(("device", "md0"),), redundancy="none")
    before = LastMail(0.0, Reason.OPENED, Severity.WARNING, "sda")
    shelf = incident(
        *given, *([array] if threat else []), key="adapter host3", object="host3 (mpt3sas)",
        advised=("DiskErrors",), mails=2,
    )  # fmt: skip
    notice = report.notice(
        DueNotice(Reason.ESCALATED, shelf, previous=before),
        report.Sources(float, 10.0, (), MACHINE, STANDING),
    )
    back = notice.advice[0]
    assert back.startswith("Do not follow the earlier advice about ")
    assert len(back.split()) <= 15, back


def test_a_controller_that_only_says_that_something_is_wrong_leaves_the_word_to_what_is() -> None:
    """'Needs Attention' stands for its battery, which is what the reader must see first."""
    sums_up = member("ControllerImpaired", subject="adapter host0")
    battery = member("ControllerBatteryFault", subject="adapter host0", since_seconds=5.0)
    found = incident(sums_up, battery, key="adapter host0", object="megaraid c0")
    assert (
        report.notice(DueNotice(Reason.OPENED, found), report.Sources(float, 9.0, (), None)).summary
        == battery.summary
    )
    failed = replace(sums_up, severity=Severity.CRITICAL)
    found = replace(found, members=(failed, battery))
    assert (
        report.notice(DueNotice(Reason.OPENED, found), report.Sources(float, 9.0, (), None)).summary
        == failed.summary
    )


def test_the_disks_of_an_adapter_are_counted_without_their_array() -> None:
    """Three vanish, and the array of them stops: that is three disks and no fourth."""
    gone = [
        member(
            "DeviceRemoved",
            subject=f"disk {name}",
            labels=(("alertname", "DeviceRemoved"), ("device", name)),
            summary="disappeared",
        )
        for name in ("sda", "sdb", "sdc")
    ]
    stopped = member(
        "MdInactive",
        subject="device md0",
        labels=(("alertname", "MdInactive"), ("device", "md0")),
    )
    found = incident(*gone, stopped, key="adapter host0", object="host0 (SCSI host adapter)")
    assert (
        report.notice(DueNotice(Reason.OPENED, found), report.Sources(float, 9.0, (), None)).summary
        == "3 disks: disappeared"
    )


def test_an_adapter_that_does_not_name_the_disk_it_lost_does_not_hit_all_of_them() -> None:
    """'removing handle(0x0009)' is of one of its 24 disks, and of no array by now."""
    lost = member("hba_device_removed", count=1, subject="adapter host0", labels=())
    found = incident(lost, key="adapter host0", object="host0 (SCSI host adapter)")
    told = report.notice(
        DueNotice(Reason.OPENED, found), report.Sources(float, 9.0, (), MACHINE, STANDING)
    )
    assert told.affected == ("Not known yet: which of its disks it lost.",)


def test_what_was_measured_before_the_clock_was_set_is_reported_by_the_clock_of_now() -> None:
    """Measured when it began, at 100 s by either clock; an hour was added since."""
    line = Evidence(100.2, "x", "measured")
    own = incident(member("DiskFailed", since_seconds=90.0, joined_seconds=100.0, evidence=(line,)))
    for ahead, shown in ((0.0, 100.2), (3600.0, 3700.0)):
        notice = report.notice(
            DueNotice(Reason.OPENED, own),
            report.Sources(lambda at, by=ahead: at + by, 300.0, (), MACHINE),
        )
        assert [each.realtime_seconds for each in notice.evidence] == [shown]


def escalated(title: IncidentMember, **of: object) -> str:
    """Return the summary of a mail about an array that is degraded, after one about the title."""
    array = member(
        "MdDegraded",
        subject="device md0",
        labels=(("alertname", "MdDegraded"), ("device", "md0")),
        since_seconds=55.0,
    )
    found = incident(title, array, mails=2, **of)
    due = DueNotice(Reason.ESCALATED, found, updates=(array.fact,))
    return report.notice(due, report.Sources(float, 60.0, (), MACHINE, STANDING)).summary


def test_a_further_mail_has_the_fault_of_its_object_before_the_news_of_another_one() -> None:
    """Who reads it may not have the first one: 'sda: gone and md0 has no redundancy left'."""
    gone = member("DeviceRemoved", subject="disk ACME HDD S1")
    assert escalated(gone) == "gone and MdDegraded happens (md0)"
    hang = member("DeviceHang", subject="disk ACME HDD S1")
    assert escalated(hang) == "hangs and MdDegraded happens (md0)"
    over = replace(hang, absent_seconds=50.0)
    assert escalated(over) == "hung and MdDegraded happens (md0)"


@pytest.mark.parametrize("name", ["dm_pool_full", "ThinPoolOutOfSpace"])
def test_a_full_thin_pool_blocks_programs_and_is_not_called_suspended(name: str) -> None:
    """Its volumes wait as if they were; 'dm/suspended' is 0 everywhere."""
    full = member(name, subject="disk ACME HDD S1")
    assert escalated(full) == "thin pool full or read-only and MdDegraded happens (md0)"


def test_programs_that_wait_for_a_full_thin_pool_are_a_reason_to_repeat_how_to_extend_it() -> None:
    """The mail that names them may be the first that its reader has."""
    full = member("dm_pool_full", subject="disk ACME HDD S1", count=1)
    labels = (("alertname", "Freeze"), ("device", "dm-0"))
    freeze = member("Freeze", subject="device dm-0", labels=labels)
    found = incident(full, freeze, mails=2, advised=("dm_pool_full",))
    due = DueNotice(Reason.ESCALATED, found, updates=(freeze.fact,))
    sources = report.Sources(float, 60.0, (), MACHINE, STANDING)
    assert report.notice(due, sources).advice == ("cure dm_pool_full",)
    spare = replace(found, members=(replace(full, subject="device dm-9"), freeze))
    due = DueNotice(Reason.ESCALATED, spare, updates=(freeze.fact,))
    assert report.notice(due, sources).advice == ("cure Freeze",)


def test_news_of_a_line_that_is_no_longer_recent_has_the_fault_of_its_object_before_it() -> None:
    """Read after a restart ten minutes later: the file system has failed, the disk is gone."""
    gone = member("DeviceRemoved", subject="disk ACME HDD S1")
    line = member("fs_error", count=1, subject="file system /srv", cleared_seconds=50.0)
    due = DueNotice(Reason.ESCALATED, incident(gone, line, mails=2), updates=(line.fact,))
    said = report.notice(due, report.Sources(float, 60.0, (), MACHINE, STANDING)).summary
    assert said == "gone and fs_error happens (sda)"


def test_a_hang_that_came_again_is_the_title_though_only_the_lines_about_it_are_recent() -> None:
    """It was over before the mail was due; that its commands timed out lasts ten minutes."""
    hang = member("DeviceHang", subject="disk ACME HDD S1", cleared_seconds=50.0)
    labels = (("condition", "command_timeout"), ("device", "sda"))
    line = member("scsi_abort", count=1, subject="disk ACME HDD S1", labels=labels)
    due = DueNotice(Reason.REOPENED, incident(hang, line, mails=2), updates=(hang.fact,))
    said = report.notice(due, report.Sources(float, 60.0, (), MACHINE, STANDING)).summary
    assert said == "cleared; was: DeviceHang happens"


def test_a_further_mail_about_an_adapter_has_how_many_of_its_disks_are_affected() -> None:
    """Both of its disks are gone; then the array of them has too few members."""
    twin = disk("sdb", holders=("md0",), serial="S2", model="HDD", vendor="ACME")
    above = (replace(MACHINE.devices[name], host=None) for name in ("md0", "dm-0"))
    there = topology(MACHINE.devices["sda"], twin, *above)
    standing = remember(NO_DEPENDENTS, there, (), 0.0)
    gone = [
        member(
            "DeviceRemoved",
            subject=f"disk ACME HDD S{number}",
            labels=(("alertname", "DeviceRemoved"), ("device", name)),
        )
        for number, name in enumerate(("sda", "sdb"), 1)
    ]
    array = member("MdInactive", subject="device md0", labels=(("device", "md0"),))
    array = replace(array, since_seconds=59.0)
    found = incident(*gone, array, key="adapter host0", object="host0", mails=2)
    due = DueNotice(Reason.ESCALATED, found, updates=(array.fact,))
    said = report.notice(due, report.Sources(float, 60.0, (), MACHINE, standing)).summary
    assert said == "2 of 2 disks gone and MdInactive happens"


def test_a_failed_file_system_affects_where_it_is_mounted_and_no_other_partition() -> None:
    """The disk has two; a bind mount of the failed one is named as well."""
    points = "/srv", "/srv/jail", "/other"
    text = "".join(
        f"{n} 1 8:{2 if point == '/other' else 1} / {point} rw - ext4 /dev/sda rw\n"
        for n, point in enumerate(points, 30)
    )
    parts = replace(disk("sda", serial="S1"), partitions=("sda1", "sda2"))
    known = replace(topology(parts), names={"8:1": "sda1", "8:2": "sda2"})
    standing = remember(NO_DEPENDENTS, known, parse_mountinfo(text), 0.0)
    failed = member("FilesystemErrors", subject="file system at 1 disk   S1")
    due = DueNotice(Reason.OPENED, incident(failed, key=failed.subject, object="/srv"))
    affected = report.notice(due, report.Sources(float, 60.0, (), known, standing)).affected
    assert affected == ("/srv (ext4) is on sda1", "/srv/jail (ext4) is on sda1")


def record(of: IncidentMember, **changes: object) -> FaultRecord:
    """Return a fault as an incident remembers it, once a mail has reported it."""
    subject, fault, detail = of.fact
    values: dict[str, object] = {
        "subject": subject,
        "fault": fault,
        "detail": detail,
        "severity": of.severity,
        "began_seconds": 0.0,
        "since_seconds": 0.0,
        "until_seconds": None,
        "changed_seconds": 0.0,
        "reported": ReportedFault(60.0, of.severity, 0.0, 0, 1, 60.0, "93 % full"),
    }
    return FaultRecord(**{**values, **changes})  # type: ignore[arg-type]


def test_the_title_of_a_resolved_mail_is_what_the_mails_reported_and_not_the_value_at_the_end() -> (
    None
):
    """The file system was 93 % full; with 79 % the alert ended, which is no fault."""
    full = member("FilesystemFull", summary="79 % full", cleared_seconds=90.0)
    over = incident(full, mails=2, faults=(record(full, until_seconds=90.0),))
    notice = report.notice(
        DueNotice(Reason.RESOLVED, over), report.Sources(float, 700.0, (), MACHINE)
    )
    assert notice.summary == "was: 93 % full"


def test_a_fault_that_came_back_is_reported_with_how_often_and_how_long_in_all() -> None:
    """Three hangs of 12 to 14 s are 37 s."""
    hang = member("DeviceHang", summary="no request completed for 11 s")
    times = record(
        hang, count=3, earlier_seconds=26.0, since_seconds=1200.0, onsets=(0.0, 600.0, 1200.0)
    )
    again = incident(hang, mails=3, faults=(times,))
    notice = report.notice(
        DueNotice(Reason.REOPENED, again), report.Sources(float, 1211.0, (), MACHINE)
    )
    assert notice.times == 3
    said = notice.sentences[0]
    assert said.startswith("hangs 3 times in the last 20 min 11 s, each time for about 12 s")
    assert ", 37 s in all: " in said


def test_a_first_mail_for_several_incidents_has_a_line_for_each_other() -> None:
    """From the fourth within ten minutes; each is answered in this thread."""
    slow = member("DiskSlow", summary="slow for 60 s")
    others = tuple(
        incident(slow, identifier=f"i{n}", object=f"sd{n}", severity=Severity.WARNING)
        for n in range(2)
    )
    due = DueNotice(Reason.OPENED, incident(slow), companions=others)
    notice = report.notice(due, report.Sources(float, 61.0, (), MACHINE))
    assert notice.sentences[:2] == (
        "warning incident i0, sd0: slow for 60 s",
        "warning incident i1, sd1: slow for 60 s",
    )


def test_a_mail_about_what_was_acknowledged_says_that_this_has_ended() -> None:
    """Who acknowledged it is not sure to read each mail."""
    due = DueNotice(Reason.ESCALATED, incident(member("Hung"), mails=2), acknowledged_by="alice")
    notice = report.notice(due, report.Sources(float, 61.0, (), MACHINE))
    assert notice.sentences[0].startswith("it was acknowledged by alice: that ended")


@pytest.mark.parametrize(("seconds", "expected"), [(60.0, "smbd"), (500.0, "cron")])
def test_a_later_mail_shows_who_waits_now_and_not_who_waited_at_the_first_freeze(
    seconds: float, expected: str
) -> None:
    """What was stored when the alert began is that of a mail of the next minutes."""

    def waits(command: str, at: float) -> tuple[Evidence, ...]:
        task = BlockedTask(7, 1, command, "jbd2_log_wait_commit", (), 0, 0)
        return tuple(waiting.evidence(BlockedTasks((task,), 1), (), MACHINE, at))

    freeze = member("Freeze", evidence=waits("smbd", 0.0))
    due = DueNotice(Reason.ESCALATED, incident(freeze, mails=2))
    now = BlockedTasks((BlockedTask(8, 1, "cron", "jbd2_log_wait_commit", (), 0, 0),), 1)
    sources = report.Sources(float, seconds, (), MACHINE, STANDING, tasks=now)
    notice = report.notice(due, sources)
    named = [line.text.split()[0] for line in notice.evidence if line.source == waiting.TASKS]
    assert named == [expected]


@pytest.mark.parametrize(
    ("silent_seconds", "said"), [(15.0, "15 s"), (59.4, "59 s"), (604.0, "10 min")]
)
def test_what_no_line_ended_was_silent_for_so_long_and_no_longer(
    silent_seconds: float, said: str
) -> None:
    """The quiet time is set by the administrator: it may be shorter than a minute."""
    over = member(
        "block_io_error", count=1, last_seconds=100.0, cleared_seconds=100.0 + silent_seconds
    )
    assert course_of_events.why_cleared([over]).startswith(f"no such line for {said};")


SHELF = {"key": "adapter host3", "object": "host3 (mpt3sas)", "mails": 1}


def of_shelf(*members: IncidentMember, reason: Reason = Reason.OPENED) -> report.Notice:
    """Return the mail about an adapter."""
    due = DueNotice(reason, incident(*members, **SHELF))
    return report.notice(due, report.Sources(float, 12.6, (), MACHINE, STANDING))


def fault_of(name: str, alert: str, summary: str, **changes: object) -> IncidentMember:
    """Return an alert about a device or an array."""
    subject = f"disk {name}" if name.startswith("sd") else f"device {name}"
    labels = (("alertname", alert), ("device", name))
    return member(alert, labels=labels, subject=subject, summary=summary, **changes)


def test_what_is_reported_of_one_of_many_disks_holds_for_each_of_them() -> None:
    """Of five disks that left with their shelf one carried /srv/0: all five were said to have."""
    used = {"sda": "; it was used by: /srv/0", "sdb": "; it was used by: md0, /srv/1", "sdc": ""}
    gone = [fault_of(name, "DeviceRemoved", f"disappeared{by}") for name, by in used.items()]
    notice = of_shelf(*gone)
    assert notice.summary == "3 of 3 disks: disappeared"
    assert notice.sentences == (
        "3 disks (sda, sdb, sdc): warning DeviceRemoved, since 13 s ago: disappeared",
    )


def test_two_arrays_that_lost_different_numbers_of_members_have_a_sentence_each() -> None:
    """'2 devices (md0, md1): 2 members of md0 missing' said nothing of md1, which is short of 1."""
    short = [
        fault_of("md0", "MdDegraded", "2 members of md0 missing; no redundancy left"),
        fault_of("md1", "MdDegraded", "1 member of md1 missing; no redundancy left"),
    ]
    lines = of_shelf(*short).sentences
    assert [line.partition("ago: ")[2] for line in lines] == [each.summary for each in short]


def test_an_age_is_in_whole_seconds() -> None:
    """'9.37 s ago, last 500 ms ago': a poll each second knows no better."""
    line = fault_of("sda", "block_io_error", "I/O error", count=2, last_seconds=12.1)
    assert of_shelf(line).sentences == (
        "sda: warning block_io_error, 13 s ago, last 0 s ago: I/O error",
    )


def test_a_number_in_the_line_about_many_disks_has_its_disk() -> None:
    """24 disks hang for a second more or less: one line, with the value of the first."""
    hangs = [
        fault_of(name, "DeviceHang", f"no request completed for {at} s")
        for name, at in (("sda", 36.2), ("sdb", 35.9))
    ]
    (line,) = of_shelf(*hangs).sentences
    assert line.endswith(": no request completed for 36.2 s (sda)")
    assert line.startswith("2 disks (sda, sdb): ")


def test_disks_that_hung_and_then_left_are_gone_in_the_title() -> None:
    """Their hang can no longer be read; the title was 'hung', and the news of an array behind it.

    Also where the news names no device: a btrfs.
    """
    hung = [
        fault_of(name, "DeviceHang", "hangs", absent_seconds=5.0, state=AlertState.UNKNOWN)
        for name in ("sda", "sdb")
    ]
    gone = [fault_of(name, "DeviceRemoved", "disappeared") for name in ("sda", "sdb")]
    labels = (("alertname", "BtrfsErrors"), ("fsid", "0ba3"))
    btrfs = member(
        "BtrfsErrors", Severity.CRITICAL, labels=labels, subject="file system 0ba3",
        summary="btrfs: device 1 has 212 new errors", joined_seconds=9.0,
    )  # fmt: skip
    shelf = incident(*hung, *gone, btrfs, **{**SHELF, "mails": 2})
    before = LastMail(8.0, Reason.OPENED, Severity.CRITICAL, "host3 (mpt3sas)")
    due = DueNotice(Reason.ESCALATED, shelf, updates=(btrfs.fact,), previous=before)
    notice = report.notice(due, report.Sources(float, 12.6, (), MACHINE, STANDING))
    assert notice.summary == "2 of 2 disks gone and btrfs: device 1 has 212 new errors"
