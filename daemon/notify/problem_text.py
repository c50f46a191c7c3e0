"""Texts about messages that were not delivered, for the journal and 'iowarden status'. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.rules.quantity import duration

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.daemon.notify.message_format import MessageFormat


def undelivered(
    form: MessageFormat,
    final: Mapping[str, str],
    deferred: Mapping[str, str],
    refused: Mapping[str, str],
    wait_seconds: float,
) -> str:
    """Return why a message was not delivered, by recipient, and what follows.

    `final` is not retried; `refused` is, after `wait_seconds`; so is `deferred`, soon. The same
    fault gives the same text, so that it can be logged once.
    """
    parts = []
    if final:
        parts.append(
            f"{_errors(final)}; not delivered to {', '.join(final)}, stored in state.db and not"
            f" retried before a reload: correct {form.setting}, then 'systemctl reload iowarden'"
        )
    if refused:
        parts.append(f"{_errors(refused)}; not delivered to {', '.join(refused)}, {_next(form)}")
        parts[-1] += f" {duration(wait_seconds)}"
    if deferred:
        parts.append(
            f"{_errors(deferred)}; not yet delivered to {', '.join(deferred)}, will be retried"
        )
    return "; ".join(parts)


def refused_by_server(form: MessageFormat, error: str, wait_seconds: float) -> str:
    """Return the text about a server that refuses all messages."""
    return f"{error}; {_next(form)} {duration(wait_seconds)}"


def unanswered(form: MessageFormat, error: str, wait_seconds: float | None) -> str:
    """Return the text about a message without a reply; None: it is not sent alone again."""
    if wait_seconds is None:
        return f"{error}; the {form.noun} may have arrived and is only sent again in a digest"
    return f"{error}; the {form.noun} may have arrived and is repeated in {duration(wait_seconds)}"


def unreachable(form: MessageFormat, error: str) -> str:
    """Return the text about a server that could not be reached, or failed."""
    return f"{error}; the {form.noun}s wait in the outbox and are retried at least every 15 min"


def _errors(errors: Mapping[str, str]) -> str:
    return "; ".join(dict.fromkeys(errors.values()))


def _next(form: MessageFormat) -> str:
    return f"retried after 'systemctl reload iowarden', a successful '{form.test}', or in"
