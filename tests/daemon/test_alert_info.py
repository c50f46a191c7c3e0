"""iowarden_alerts and iowarden_alert_info: what a central Prometheus knows of alerts."""

from __future__ import annotations

from dataclasses import replace

from iowarden.daemon.alert_info import MAX_SUMMARY_CHARACTERS, AlertInfo
from iowarden.daemon.config.rule_files import load_events
from iowarden.daemon.views import public_answers
from iowarden.rules.alerting import alerts as life
from iowarden.rules.alerting.alerts import Alert, AlertState
from iowarden.rules.incidents import members
from iowarden.rules.incidents.model import Incident, IncidentMember
from iowarden.rules.severity import Severity


def alert(state: AlertState = AlertState.FIRING, summary: str = "hangs", **labels: str) -> Alert:
    """Return an alert of a shipped rule about the disk with serial number S1, at present sda."""
    named = {"condition": "device_hang", "device": "sda", "severity": "critical", **labels}
    return Alert(
        "DeviceHang",
        tuple(sorted({**named, "alertname": "DeviceHang"}.items())),
        state,
        30.0,
        (("summary", summary),),
        0.0,
        subject="disk S1",
    )


def told(info: AlertInfo, *alerts: Alert) -> list[dict[str, str]]:
    """Return the labels of the samples."""
    return [dict(labels) for _, labels, _ in info.samples(alerts, (), {})]


def test_the_summary_stays_while_the_state_does() -> None:
    """'30 s', '31 s' ... would be a new series each second."""
    info = AlertInfo()
    assert told(info, alert(summary="30 s"))[0]["summary"] == "30 s"
    assert told(info, alert(summary="31 s"))[0]["summary"] == "30 s"
    unknown = alert(AlertState.UNKNOWN, summary="40 s")
    assert told(info, unknown)[0]["summary"] == "40 s"
    assert told(info) == []
    assert told(info, alert(summary="50 s"))[0]["summary"] == "50 s"


def test_a_summary_is_one_short_line() -> None:
    """A drive's model may hold any bytes."""
    (labels,) = told(AlertInfo(), alert(summary="two\nlines \x1b" + "x" * 500))
    assert labels["summary"].startswith("two lines \\x1bxxx")
    assert len(labels["summary"]) == MAX_SUMMARY_CHARACTERS


ROWS = load_events().rows
PROGRAM = "SECRETPROG"


def test_a_summary_has_no_text_that_the_page_hides_from_anonymous_readers() -> None:
    """Anybody may scrape: the class of an event in place of its text, none about a program."""
    kind = next(iter(ROWS))
    event = replace(alert(summary=f"comm {PROGRAM}: error"), name=kind, count=2)
    info = AlertInfo(lambda each: public_answers.scraped(each, ROWS))
    (labels,) = told(info, event)
    assert labels["summary"] == f"{ROWS[kind].meaning} (2 times)"[:MAX_SUMMARY_CHARACTERS]
    (labels,) = told(info, alert(summary=f"{PROGRAM} polls", program=PROGRAM))
    assert labels["summary"] == "DeviceHang"
    (labels,) = told(info, replace(alert(summary="no request completed for 20 s")))
    assert labels["summary"] == "no request completed for 20 s"


def test_a_pending_alert_has_no_summary() -> None:
    """It has not been reported."""
    assert told(AlertInfo(), alert(AlertState.PENDING), alert(AlertState.RESOLVED)) == []


def test_both_series_have_the_same_labels_and_the_disk_by_its_serial_number() -> None:
    """So that one is found by the other, also when a word of a controller changes."""
    one = alert(vendor="LSI", reason="timeout", pid="7")
    own = dict(life.identity(one))
    assert own["object"] == "disk S1"
    assert not own.keys() & {"vendor", "reason", "pid"}
    (labels,) = told(AlertInfo(), one)
    assert {**own, "incident": "", "summary": "hangs"} == labels


def test_an_alert_of_a_users_rule_keeps_all_its_labels() -> None:
    """systemd_unit_state{name,state}: without 'state' two alerts would be one."""
    labels = (("alertname", "UnitFailed"), ("name", "a.service"), ("state", "failed"))
    own = Alert("UnitFailed", labels, AlertState.FIRING, 1.0, (), 0.0, subject="disk S1")
    assert life.identity(own) == labels


def test_an_event_whose_end_was_logged_is_no_alert_any_more() -> None:
    """A rebuilt array beside a disk that still fails, in one incident."""
    lasting = IncidentMember(
        (("alertname", "md_degraded"), ("severity", "warning")),
        *("md_degraded", Severity.CRITICAL, AlertState.FIRING, 5.0, "md0 is degraded", "", ""),
        subject="md0",
        count=2,
    )
    ended = replace(lasting, name="md_kicked", absent_seconds=9.0)
    rule = replace(lasting, name="DeviceHang", count=0)
    open_now = Incident(
        *("i1", "md0", "md0", 5.0, Severity.CRITICAL), (lasting, ended, rule), firing=True
    )
    (alert,) = members.event_alerts([open_now, replace(open_now, closed_seconds=9.0)])
    assert (alert.name, alert.label("severity")) == ("md_degraded", "critical")
    assert alert.key == lasting.key


def test_of_more_than_a_thousand_alerts_the_worst_are_exported() -> None:
    """A shelf of 1,200 disks whose cable is pulled; a Prometheus has a thousand such hosts."""
    pending = [alert(AlertState.PENDING, device=f"sd{n}") for n in range(700)]
    warning = [alert(device=f"sd{n}", severity="warning") for n in range(600)]
    worst = [alert(device="md0"), alert(AlertState.UNKNOWN, device="md1")]
    shown, dropped = life.exported([*pending, *warning, *worst, alert(AlertState.RESOLVED)])
    assert (len(shown), dropped) == (1000, 302)
    assert {one.label("device") for one in shown[:2]} == {"md0", "md1"}
    assert sum(one.state is AlertState.PENDING for one in shown) == 398
