"""Reading configuration and rules anew, beside the loop: '/etc' may lie on the disk that hangs."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from iowarden.collectors.model import trace
from iowarden.daemon.config.config import Config, ConfigError
from iowarden.rules.rulefile.rulefile import RuleFileError, RuleGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iowarden.daemon.notify.delivery import Sender

NEEDS_RESTART = (
    *("state_directory", "listen", "http", "expose_node", "expose_smartctl", "targets"),
    *("probe", "flight_recorder"),
)
"""Settings that a reload does not change."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration and rules that are good.

    Fields: `config` has the old values of what needs a restart, `kept_back` names those that would
    have changed; `sender` sends by it, None where the one before does.
    """

    config: Config
    groups: tuple[RuleGroup, ...]
    kept_back: tuple[str, ...]
    sender: Sender | None


@dataclass(frozen=True, slots=True)
class Refused:
    """Why not: a line for each problem."""

    problems: tuple[str, ...]


def begin(
    load: Callable[[], tuple[Config, Sequence[RuleGroup]]],
    sender_for: Callable[[Config], Sender] | None,
    before: Config,
    post: Callable[[Loaded | Refused], object],
) -> None:
    """Start reading, to take the place of `before`; `post` takes what came of it."""
    threading.Thread(
        target=lambda: post(_loaded(load, sender_for, before)), name="reload", daemon=True
    ).start()


def _loaded(
    load: Callable[[], tuple[Config, Sequence[RuleGroup]]],
    sender_for: Callable[[Config], Sender] | None,
    before: Config,
) -> Loaded | Refused:
    try:
        config, groups = load()
        kept = {key: getattr(before, key) for key in NEEDS_RESTART}
        kept_back = tuple(key for key in NEEDS_RESTART if getattr(config, key) != kept[key])
        config = replace(config, **kept)
        other = sender_for is not None and config.mail != before.mail
        # It reads certificates, so it is made here.
        sender = sender_for(config) if sender_for is not None and other else None
    except ConfigError as error:
        return Refused(error.problems)
    except RuleFileError as error:
        return Refused(error.errors)
    except OSError as error:
        return Refused((f"reload: expected readable files, got '{error}'",))
    except Exception as error:  # noqa: BLE001 - whatever it is, the running configuration stays
        return Refused((f"reload: bug: {trace(error)}",))
    return Loaded(config, tuple(groups), kept_back, sender)
