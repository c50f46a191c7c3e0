"""Reading configuration and rules anew, beside the loop: '/etc' may lie on the disk that hangs."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iowarden.collectors.vocabulary import trace
from iowarden.daemon.config import Config, ConfigError
from iowarden.rules.rulefile import RuleFileError, RuleGroup

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration and rules that are good."""

    config: Config
    groups: tuple[RuleGroup, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """Why not: a line for each problem."""

    problems: tuple[str, ...]


def begin(
    load: Callable[[], tuple[Config, Sequence[RuleGroup]]],
    post: Callable[[Loaded | Refused], object],
) -> None:
    """Start reading; `post` takes what came of it."""
    threading.Thread(target=_run, args=(load, post), name="reload", daemon=True).start()


def _run(
    load: Callable[[], tuple[Config, Sequence[RuleGroup]]],
    post: Callable[[Loaded | Refused], object],
) -> None:
    try:
        config, groups = load()
    except ConfigError as error:
        post(Refused(error.problems))
    except RuleFileError as error:
        post(Refused(error.errors))
    except Exception as error:  # noqa: BLE001 - whatever it is, the running configuration stays
        post(Refused((f"reload: bug: {trace(error)}",)))
    else:
        post(Loaded(config, tuple(groups)))
