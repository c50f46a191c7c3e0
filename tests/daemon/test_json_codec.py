"""What the service says comes back as it was, or says why it cannot."""

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
    """Whatever its labels, its times and its texts are."""
    back = json_codec.decode(tuple[Alert, ...], json_codec.encode((alert,)))
    assert repr(back) == repr((alert,))  # as text, because not-a-number differs from itself


@given(st.dictionaries(st.text(), st.from_type(Incident), max_size=3))
def test_any_incident_comes_back_as_it_was(incidents: dict[str, Incident]) -> None:
    """With its members, their evidence and the mails it sent."""
    back = json_codec.decode(dict[str, Incident], json_codec.encode(incidents))
    assert repr(back) == repr(incidents)


def test_an_infinite_drain_time_comes_back() -> None:
    """A hung disk's backlog drains never; JSON has no word for it, Python's has."""
    assert json_codec.decode(float, json_codec.encode(math.inf)) == math.inf


def test_what_another_version_says_is_read_as_far_as_it_goes() -> None:
    """A field that is new takes its default; one that is no more is ignored."""
    old = '{"identifier":"a","key":"host","object":"host","opened_seconds":1,"severity":2,"gone":1}'
    incident = json_codec.decode(Incident, old)
    assert (incident.identifier, incident.mails) == ("a", 0)


@given(st.text())
def test_rubbish_is_refused_and_never_crashes(text: str) -> None:
    """A document that something else wrote is named, not taken."""
    if text.strip() != "[]":
        with pytest.raises(json_codec.CodecError, match="expected"):
            json_codec.decode(tuple[Alert, ...], text)


@pytest.mark.parametrize("text", ['{"a": "x"}', '{"a": true}', "[1]", '{"a": [[1]]}'])
def test_a_wrong_type_names_its_place(text: str) -> None:
    """Numbers were expected; the error says where what was found."""
    with pytest.raises(json_codec.CodecError, match=r"\$"):
        json_codec.decode(dict[str, tuple[float, ...]], text)
