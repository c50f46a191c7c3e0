"""Silences: input of a user, what they match, and how long they last."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.collectors.block.block_devices import Device, Topology
from iowarden.daemon.service import persisted_state
from iowarden.rules.alerting.alerts import Alert, AlertState
from iowarden.rules.incidents import silences
from iowarden.rules.incidents.model import Incident, IncidentMember
from iowarden.rules.incidents.silences import Silence, Silences
from iowarden.rules.matcher import Matcher, parse_matcher, written
from iowarden.rules.severity import Severity

HOUR, DAY = 3600.0, 86_400.0
NOW = 1_800_000_000.0
KEY = "disk ACME SLOW-HDD SLOW1"
HANG = Alert(
    name="DeviceHang",
    labels=(
        ("alertname", "DeviceHang"),
        ("condition", "device_hang"),
        ("device", "sda"),
        ("severity", "critical"),
    ),
    state=AlertState.FIRING,
    value=1.0,
    annotations=(),
    active_seconds=NOW,
    fired_seconds=NOW,
    subject=KEY,
)


def added(
    *matchers: str,
    state: Silences | None = None,
    identifier: str = "abc123",
    now: float = NOW,
    for_seconds: float = HOUR,
    reason: str = "disk is on order",
) -> Silences:
    """Return the silences with one more."""
    wanted = tuple(parse_matcher(text) for text in matchers)
    silence = Silence(identifier, wanted, now, for_seconds, reason, "alice (uid 1000)")
    after, _ = silences.add(state or Silences(), silence)
    return after


def is_silenced(state: Silences, alert: Alert = HANG, now: float = NOW) -> bool:
    """Whether an alert is silenced at a moment."""
    return silences.finder(state)(alert, now) is not None


def device(name: str, serial: str | None) -> Device:
    """Return a disk, or with no serial number what is stacked on disks."""
    words = ("SLOW-HDD", "ACME") if serial else (None, None)
    return Device(
        name, None, (), (), (), serial is not None, None, None, *words, serial, *[None] * 5
    )


def incident(**changes: object) -> Incident:
    """Return a disk's incident with one member."""
    member = IncidentMember(
        HANG.labels,
        HANG.name,
        Severity.CRITICAL,
        AlertState.FIRING,
        NOW,
        "hangs",
        "",
        "",
        subject=KEY,
    )
    whole = Incident("1a2b3c", KEY, "sda", NOW, Severity.CRITICAL, (member,), firing=True)
    return replace(whole, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("WriteStall", Matcher("alertname", "=", "WriteStall")),
        ("device=sda", Matcher("device", "=", "sda")),
        (" device = sda ", Matcher("device", "=", "sda")),
        ("device!=sda", Matcher("device", "!=", "sda")),
        ("alertname=~Write.*", Matcher("alertname", "=~", "Write.*")),
        ('mountpoint!~"/srv/a b"', Matcher("mountpoint", "!~", "/srv/a b")),
        ("mountpoint='/srv'", Matcher("mountpoint", "=", "/srv")),
        (r'mountpoint="/srv/\"x\""', Matcher("mountpoint", "=", '/srv/"x"')),
        ("mountpoint=/a=b", Matcher("mountpoint", "=", "/a=b")),
        ("device=", Matcher("device", "=", "")),
    ],
)
def test_matchers_are_written_as_for_alertmanager(text: str, expected: Matcher) -> None:
    """With or without quotes; a bare name is that of an alert."""
    assert parse_matcher(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "expected LABEL=VALUE"),
        ("=sda", "expected LABEL=VALUE"),
        ("dev-ice=sda", "expected LABEL=VALUE"),
        ("Write Stall", "expected LABEL=VALUE"),
        ("device==sda", "got '=='"),
        ('device="sda', "expected a closed quoted text"),
        ("device='", "expected a closed quoted text"),
        ("device=~(", "missing closing )"),
        ("device=~(?=a)", "look-around"),
        ("device=sd\na", "printable"),
        ("device=" + "a" * 1001, "at most 1000"),
    ],
)
def test_a_matcher_that_cannot_be_meant_is_refused(text: str, expected: str) -> None:
    """The error names what was expected."""
    with pytest.raises(ValueError, match=expected.replace("(", r"\(").replace(")", r"\)")):
        parse_matcher(text)


@given(
    st.sampled_from(["=", "!="]),
    st.text(st.characters(codec="utf-8"), max_size=40).filter(str.isprintable),
)
def test_a_matcher_that_is_listed_can_be_typed_again(operator: str, text: str) -> None:
    """Quotes and backslashes included."""
    matcher = Matcher("mountpoint", operator, text)
    assert parse_matcher(written(matcher)) == matcher


@pytest.mark.parametrize(
    ("matchers", "expected"),
    [
        (["device=sda"], True),
        (["device=sdb"], False),
        (["device=sda", "severity=critical"], True),
        (["device=sda", "severity=warning"], False),
        (["device=~sd[ab]"], True),
        (["device=~s"], False),
        (["device=sda", "mountpoint="], True),
        (["device=sda", "device!=sda"], False),
        (["alertname=~.+", "device!~sd.*"], False),
        ([f"subject={KEY}"], True),
    ],
)
def test_a_silence_holds_when_all_its_matchers_do(matchers: list[str], *, expected: bool) -> None:
    """Patterns match a whole value; a label that an alert has not is empty."""
    assert is_silenced(added(*matchers)) is expected


def test_a_device_is_the_disk_that_has_the_name_today() -> None:
    """After a restart sda is another disk: that one is not silenced, and sdb is."""
    topology = Topology({"sda": device("sda", "SLOW1"), "md0": device("md0", None)})
    wanted = (
        Matcher("device", "=", "sda"),
        Matcher("device", "=", "md0"),
        Matcher("device", "=", "sdz"),
        Matcher("device", "!=", "sda"),
    )
    pinned = silences.pinned(wanted, topology)
    assert pinned == (Matcher("subject", "=", KEY), *wanted[1:])
    assert silences.pinned(wanted, None) == wanted
    assert silences.pinned((Matcher("device", "=", "/dev/sda"),), topology) == pinned[:1]
    state = added(written(pinned[0]))
    moved = tuple((k, "sdb" if k == "device" else v) for k, v in HANG.labels)
    assert is_silenced(state)
    assert is_silenced(state, replace(HANG, labels=moved))
    assert not is_silenced(state, replace(HANG, subject="disk ACME SLOW-HDD SLOW2"))


@pytest.mark.parametrize("label", ["serial", "disk"])
def test_a_disk_is_named_by_its_serial_number_as_well(label: str) -> None:
    """An alert about a hang has neither label: without that nothing of the disk was silenced."""
    topology = Topology({"sda": device("sda", "SLOW1"), "sdb": device("sdb", "SLOW2")})
    state = added(written(silences.pinned((Matcher(label, "=", "SLOW1"),), topology)[0]))
    assert is_silenced(state)
    assert not is_silenced(state, replace(HANG, subject="disk ACME SLOW-HDD SLOW2"))
    for other in (Matcher(label, "=", "SLOW9"), Matcher(label, "=~", "SLOW1")):
        assert silences.pinned((other,), topology) == (other,)


def test_of_several_silences_the_one_that_ends_last_is_named() -> None:
    """Until then no mail is sent; the others do not matter."""
    state = added("device=sda", identifier="short", for_seconds=60.0)
    state = added("DeviceHang", identifier="long", state=state)
    state = added("DeviceHang", identifier="middle", state=state, for_seconds=120.0)
    find = silences.finder(state)
    found = find(HANG, NOW)
    assert found is not None
    assert found.identifier == "long"
    assert find(HANG, NOW + HOUR) is None


def test_what_was_looked_up_is_found_again_only_for_the_same_alert() -> None:
    """Two disks may have had one name."""
    find = silences.finder(added(f"subject={KEY}"))
    assert find(HANG, NOW) is not None
    assert find(replace(HANG, subject="disk other"), NOW) is None
    assert find(HANG, NOW) is not None


@pytest.mark.parametrize("matchers", [[], ["alertname=~.*"], ["device!=sda"], ["device=", "a=~|b"]])
def test_a_silence_of_everything_is_refused(matchers: list[str]) -> None:
    """One must not match the empty text, as in Alertmanager."""
    with pytest.raises(ValueError, match="matcher"):
        added(*matchers)


@pytest.mark.parametrize(
    "seconds", [0.0, -1.0, 366 * DAY, float("nan"), float("inf"), float("-inf")]
)
def test_a_silence_lasts_a_second_to_a_year(seconds: float) -> None:
    """A permanent silence would be forgotten."""
    with pytest.raises(ValueError, match="365 days"):
        added("WriteStall", for_seconds=seconds)


@pytest.mark.parametrize("reason", ["", " ", "a\nb", "\x1b[31m", "a" * 1001])
def test_a_silence_reports_why_in_a_line(reason: str) -> None:
    """It is shown on a terminal and read by others."""
    with pytest.raises(ValueError, match="reason"):
        added("WriteStall", reason=reason)


@pytest.mark.parametrize(
    "matcher", [Matcher("a b", "=", "x"), Matcher("a", "==", "x"), Matcher("a", "=~", "(")]
)
def test_a_matcher_from_a_program_is_checked_like_one_that_was_typed(matcher: Matcher) -> None:
    """The socket takes them apart already."""
    with pytest.raises(ValueError, match="matcher"):
        silences.add(Silences(), Silence("a", (matcher,), NOW, 60.0, "r", "w"))


def test_silences_and_matchers_are_limited() -> None:
    """A script that adds one a second does not fill the memory; what has ended makes room."""
    state = added("A")
    many = tuple(replace(state.silences[0], identifier=str(n)) for n in range(1000))
    with pytest.raises(ValueError, match="at most 1000"):
        added("B", state=Silences(many))
    ended = replace(many[7], expired_seconds=NOW)
    after = added("B", state=Silences((*many[:7], ended, *many[8:])))
    assert len(after.silences) == 1000
    assert ended not in after.silences
    with pytest.raises(ValueError, match="1 to 64 matchers, got 65"):
        added(*["a=b"] * 65)


def test_all_patterns_together_are_limited() -> None:
    """Parsing them again must not block the loop; an expired one is not read."""
    pattern = "device=~" + "[ab]" * 240
    state = added(*[pattern] * 10)
    with pytest.raises(ValueError, match="10000 characters in all silences together, got 10560"):
        added(pattern, state=state)
    added("device=sda", state=state)
    state, _ = silences.expire(state, "abc123", NOW)
    added(pattern, state=state)


def test_a_silence_is_expired_by_the_beginning_of_its_identifier() -> None:
    """It ends at that moment, and stays in the list for a day."""
    state = added("DeviceHang")
    state, ended = silences.expire(state, "abc", NOW + 60)
    assert (ended.identifier, ended.ends_seconds) == ("abc123", NOW + 60)
    assert not is_silenced(state, now=NOW + 60)
    assert silences.prune(state, NOW + DAY) is state
    assert silences.prune(state, NOW + DAY + 61).silences == ()


def test_only_one_silence_that_holds_can_be_expired() -> None:
    """Not an ended one, not one of two, not all of them with ''."""
    state = added("A", identifier="abc1")
    state = added("B", identifier="abc2", state=state)
    state = added("C", identifier="d", state=state, for_seconds=1.0)
    for wrong in ("abc", "d", "x"):
        with pytest.raises(ValueError, match="iowarden silence list"):
            silences.expire(state, wrong, NOW + 1)
    with pytest.raises(ValueError, match="begins with ''; there are abc123; see 'iowarden silence"):
        silences.expire(added("A"), "", NOW)
    with pytest.raises(ValueError, match="no silence begins with 'x'; there are abc1, abc2; see"):
        silences.expire(state, "x", NOW + 1)
    assert silences.expire(state, "abc2", NOW + 1)[1].identifier == "abc2"


def test_an_acknowledgement_remembers_how_bad_it_was_and_what_it_was_about() -> None:
    """A second one of the same incident takes the place of the first."""
    state = Silences()
    for reason in ("first", "second"):
        state, said = silences.acknowledge(
            state, [incident(severity=Severity.INFO)], "1a", now=NOW, reason=reason, who="alice"
        )
    assert state.acknowledgements == (said,)
    assert (said.incident, said.severity) == ("1a2b3c", Severity.CRITICAL)
    assert (said.reason, said.subjects) == ("second", (KEY,))
    assert silences.drop_acknowledgement(state, "1a2b3c") == Silences()


def test_a_disk_that_only_had_to_wait_is_not_acknowledged_with_the_one_that_hangs() -> None:
    """It answers again, and has read errors of its own tomorrow: those are news.

    One that still waits, and one whose errors are in the incident, are known.
    """
    (hang,) = incident().members
    beside = [replace(hang, subject=f"disk {n}", cleared_seconds=NOW) for n in range(3)]
    beside[1] = replace(beside[1], cleared_seconds=None)
    beside[2] = replace(beside[2], name="DiskPendingSectors")
    _, said = silences.acknowledge(
        Silences(), [incident(members=(hang, *beside))], "1a", now=NOW, reason="r", who="w"
    )
    assert said.subjects == (KEY, "disk 1", "disk 2")


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        ([], "no open incident begins with"),
        ([incident(closed_seconds=NOW)], "no open incident begins with"),
        ([incident(firing=False)], "got one that is resolved"),
        ([incident(), incident(identifier="1a2b3d")], "2 open incidents begin with"),
    ],
)
def test_only_an_incident_that_goes_on_can_be_acknowledged(
    known: list[Incident], expected: str
) -> None:
    """A mistyped identifier must be reported."""
    with pytest.raises(ValueError, match=expected):
        silences.acknowledge(Silences(), known, "1a2b", now=NOW, reason="r", who="w")


def test_what_was_reported_survives_a_restart() -> None:
    """A silence ends as planned; one added before the file could be read stays."""
    state = added("DeviceHang")
    state, _ = silences.acknowledge(state, [incident()], "1a2b3c", now=NOW, reason="r", who="w")
    state, _ = silences.expire(added("B", state=state, identifier="b"), "b", NOW)
    restarted = persisted_state.read(
        persisted_state.documents(persisted_state.PersistedState(silences=state)), NOW + 60
    )
    assert restarted == (persisted_state.PersistedState(silences=state), {})
    back = restarted[0].silences
    assert is_silenced(back, now=NOW + HOUR - 1)
    assert not is_silenced(back, now=NOW + HOUR)
    late = added("A", identifier="late")
    both = silences.merged(late, back)
    assert [s.identifier for s in both.silences] == ["abc123", "b", "late"]
    assert both.acknowledgements == state.acknowledgements
    assert silences.merged(both, back) == both


def test_samples_count_what_holds_and_what_it_hides() -> None:
    """A resolved alert is not hidden, and an ended silence does not hold."""
    state = added("A", state=added("DeviceHang"), identifier="b", for_seconds=1.0)
    over = replace(HANG, state=AlertState.RESOLVED)
    other = replace(HANG, subject="x", labels=(("alertname", "Other"),))
    find = silences.finder(state)
    assert silences.samples(state, [HANG, over, other], find, NOW + 1) == [
        ("iowarden_silences", (), 1.0),
        ("iowarden_alerts_silenced", (), 1.0),
        ("iowarden_silence_remaining_seconds", (("silence", "abc123"),), 3599.0),
    ]


@pytest.mark.parametrize(
    ("matchers", "told"),
    [
        (["DeviceStal"], "warning: no rule has such an alert; did you mean 'DeviceHang' or"),
        (
            ["Pondering"],
            "warning: no rule has such an alert; check the spelling: 'iowarden rules list'",
        ),
        (["devic=sda"], "warning: no label 'devic' is known; did you mean device?"),
        (["serverity=critical"], "warning: no label 'serverity' is known; did you mean severity?"),
        (["sevreity=critical"], "warning: no label 'sevreity' is known; did you mean severity?"),
        (
            ["qwertz=1"],
            "warning: no label 'qwertz' is known; the usual ones are alertname, array, controller,",
        ),
        (["slot=3"], "no alerts that are firing now match"),
        (
            ["severity=critcal"],
            "warning: no rule has such an alert; did you mean 'critical'? 'iowarden",
        ),
        (
            ["severity=high"],
            "warning: no rule has such an alert; severity is one of critical, warning;",
        ),
        (
            ["sda"],
            "warning: no rule has such an alert; did you mean 'device=sda'? 'iowarden rules list'",
        ),
        (["sdaa"], "warning: no rule has such an alert; did you mean 'device=sda'? 'iowarden"),
        (
            ["severity=critical", "WriteStall"],
            "warning: no rule has such an alert; check the spelling:",
        ),
        (["alertname=~.+"], "it matches every alert"),
        (["severity=~warning|critical"], "it matches every alert"),
        (["device=sdb"], "no alerts that are firing now match"),
        (["device=~sd."], "no alerts that are firing now match"),
        (["device!=sda", "DeviceHang"], "no alerts that are firing now match"),
        (
            ["device=sdz"],
            'warning: no device on this host matches device="sdz"; there are sda, sdb; it',
        ),
        (["serial=ZZ9"], 'warning: no serial on this host matches serial="ZZ9"; it silences'),
        (["model=ST4"], 'warning: no model on this host matches model="ST4"; it silences nothing'),
        (["disk=S1"], 'warning: no disk on this host matches disk="S1"; it silences nothing'),
    ],
)
def test_who_silences_nothing_or_everything_is_told(matchers: list[str], told: str) -> None:
    """A mistake would suppress no mail, or all of them."""
    rules = [
        {"alertname": "DeviceHang", "severity": "critical"},
        {"alertname": "WriteStall", "severity": "warning"},
    ]
    (silence,) = added(*matchers).silences
    there: dict[str, set[str]] = {name: set() for name in silences.OF_OBJECTS}
    there["device"] = {"sda", "sdb"}
    note = silences.note(silence, rules, 0, there, {"slot", "device"})
    assert note.text.startswith(told)
    assert note.is_unmatched == told.startswith("warning: ")
