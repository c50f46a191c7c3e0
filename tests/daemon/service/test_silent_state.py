"""The disk of the service's own state hangs from its start on: what is said of that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.pages import PlayedService, rack

from iowarden.daemon.replay.replay import _NullStateDatabase
from iowarden.daemon.service.service import CONTROLLERS_WAIT_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


class Silent(_NullStateDatabase):
    """A state database whose first read does not return."""

    def load(self) -> None:
        """Answer nothing."""


def test_a_collector_that_waits_for_the_state_is_not_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not polled, on purpose, for longer than its data would be valid: no alert, but a line.

    When it is polled without its state, it has its time to deliver, like at a start.
    """
    monkeypatch.setattr("iowarden.daemon.service.service.STATE_WAIT_SECONDS", 0.01)
    seconds = int(CONTROLLERS_WAIT_SECONDS) - 8
    service = PlayedService(rack(1, seconds), tmp_path, full=True, state=Silent)
    status = service.engine.sources["controllers"]
    assert status.reading is None
    assert status.held_because == "waits for state.db"
    alerts = [(alert.name, alert.label("collector")) for alert in service.engine.rules.alerts()]
    assert ("CollectorStale", "controllers") not in alerts
    assert [line for line in service.log if "controllers: not polled: " in line]
    now = service.clock.now() + 60
    service.engine.hold((), "", now)
    assert not status.is_stale(now)
    assert status.is_stale(now + 4 * status.source.period_seconds)
