"""Texts about messages that were not delivered, for the journal and 'iowarden status'. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.daemon.notify.retry import MAYBE_TAKEN, REFUSALS, UNANSWERED_ATTEMPTS, Fault
from iowarden.rules.quantity import duration

if TYPE_CHECKING:
    from iowarden.daemon.notify.attempt import SendResult
    from iowarden.daemon.notify.message_format import MessageFormat


def undelivered(
    form: MessageFormat, text: str, result: SendResult, wait_seconds: float, repeats: int = 0
) -> str:
    """Return why a message was not delivered and what follows, '' if it was.

    `wait_seconds` is the time until the next attempt by schedule, `repeats` how often it was sent
    without a reply. The same fault gives the same text, so that it can be logged once.
    """
    if not text:
        return ""
    to = f"not delivered to {', '.join(result.faults)}, " if result.faults else ""
    return f"{text}; {to}{_next_step(form, result, wait_seconds, repeats)}"


def _next_step(form: MessageFormat, result: SendResult, wait_seconds: float, repeats: int) -> str:
    faults = {*result.faults.values(), *((result.fault,) if result.error else ())}
    after = duration(max(wait_seconds, 0.0))
    if not faults:
        return f"its text is sent at once in a short {form.noun}"
    if repeats >= UNANSWERED_ATTEMPTS and Fault.UNANSWERED in faults:
        return f"the {form.noun} may have arrived and is only sent again in a digest"
    if faults & MAYBE_TAKEN:
        return f"the {form.noun} may have arrived and is repeated in {after}"
    if faults & REFUSALS:
        return (
            f"retried after 'systemctl reload iowarden', a successful '{form.test}', or in {after}"
        )
    if faults == {Fault.UNREACHABLE}:
        return f"the {form.noun}s wait in the outbox and are retried at least every 15 min"
    return f"retried in {after}"
