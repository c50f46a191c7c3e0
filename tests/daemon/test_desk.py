"""What people said, and when it is kept."""

from __future__ import annotations

from iowarden.daemon.desk import Desk
from iowarden.daemon.telling import Telling
from iowarden.rules.engine import Engine
from iowarden.rules.notice import Severity
from iowarden.rules.silences import Acknowledgement, Silences


def test_an_acknowledgement_ends_in_one_transaction_with_the_mail_about_it() -> None:
    """Kept by itself, the incident would count a mail that a kill in between loses."""
    kept: list[str] = []
    desk = Desk(
        Engine([], (), 0.0),
        Telling(None, lambda: 0.0, lambda: 0.0),  # type: ignore[arg-type]  # nothing is said
        lambda _: None,  # type: ignore[arg-type,return-value]  # nobody asks
        lambda: kept.append("written"),
        lambda: None,
        keep_learnt=lambda: None,
        history_path="",
    )
    desk.restore(Silences((), (Acknowledgement("abc", Severity.WARNING, 0.0, "known", "root"),)))
    desk.lift("abc")
    assert desk.said.by_incident() == {}
    assert kept == []
