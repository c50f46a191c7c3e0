"""A document of the service is decoded unchanged, or refused with a reason."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.daemon import json_codec
from iowarden.rules.alerting.alerts import Alert
from iowarden.rules.incidents.model import Incident


@given(st.builds(Alert, name=st.text(), value=st.floats(allow_nan=False)))
def test_any_alert_comes_back_as_it_was(alert: Alert) -> None:
    """With any labels, times and texts."""
    back = json_codec.decode(tuple[Alert, ...], json_codec.encode((alert,)))
    assert repr(back) == repr((alert,))  # as text, because NaN differs from itself


@given(st.dictionaries(st.text(), st.from_type(Incident), max_size=3))
def test_any_incident_comes_back_as_it_was(incidents: dict[str, Incident]) -> None:
    """With its members, their evidence and its mails."""
    back = json_codec.decode(dict[str, Incident], json_codec.encode(incidents))
    assert repr(back) == repr(incidents)


def test_an_infinite_drain_time_comes_back() -> None:
    """A hung disk's backlog takes infinite time to drain; JSON has no such number, Python has."""
    assert json_codec.decode(float, json_codec.encode(math.inf)) == math.inf


def test_what_another_version_reports_is_read_as_far_as_it_goes() -> None:
    """A new field takes its default; a removed one is ignored."""
    old = '{"identifier":"a","key":"host","object":"host","opened_seconds":1,"severity":2,"gone":1}'
    incident = json_codec.decode(Incident, old)
    assert (incident.identifier, incident.mails) == ("a", 0)


@given(st.text())
def test_rubbish_is_refused_and_never_crashes(text: str) -> None:
    """A document of another program is named in the error, and not used."""
    if text.strip() != "[]":
        with pytest.raises(json_codec.CodecError, match="expected"):
            json_codec.decode(tuple[Alert, ...], text)


@pytest.mark.parametrize("text", ['{"a": "x"}', '{"a": true}', "[1]", '{"a": [[1]]}'])
def test_a_wrong_type_names_its_place(text: str) -> None:
    """Numbers were expected; the error has the place and the value."""
    with pytest.raises(json_codec.CodecError, match=r"\$"):
        json_codec.decode(dict[str, tuple[float, ...]], text)
