"""The notice of `iowarden test-mail` and `test-notify`; at start it is rendered once."""

from __future__ import annotations

from iowarden.daemon.notify.message import render
from iowarden.daemon.receivers import formats, message
from iowarden.rules.notice import Evidence, Notice, Reason
from iowarden.rules.severity import Severity


def test_notice(now: float) -> Notice:
    """Return the notice of `iowarden test-mail`; `dry_run` uses it as well."""
    return Notice(
        incident=f"test{int(now):x}",
        number=1,
        references=(),
        reason=Reason.TEST,
        severity=Severity.WARNING,
        object="host",
        summary="this is a test; nothing is wrong",
        opened_seconds=now,
        realtime_seconds=now,
        recurrences=0,
        sentences=("'iowarden test-mail' was run",),
        evidence=(Evidence(now, "test", "this mail"),),
        affected=(),
        advice=(
            "No action needed. If this mail is unexpected, contact the machine's administrator.",
        ),
        unknown=(),
    )


def dry_run(host: str, sender: str, recipients: tuple[str, ...], now: float) -> None:
    """Render a mail and a message, so that all that the first ones need is in memory."""
    notice = test_notice(now)
    render(notice, host, sender, recipients).as_bytes()
    formats.dry_run(message.encoded(message.document(notice, host)))
