"""What `iowarden explain` makes of a text, by the shipped rules, without the command around it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from iowarden.collectors.tool_output.parse import parsed
from iowarden.daemon.check.explain import Explanation, explained
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.rule_files import load_events, load_shipped

if TYPE_CHECKING:
    from iowarden.rules.events.event_table import EventTable
    from iowarden.rules.rulefile.rulefile import RuleGroup


@functools.cache
def rules() -> tuple[list[RuleGroup], EventTable]:
    """The shipped rules and events; reading them takes longer than all that is asked of them."""
    return load_shipped(parse_config("", "defaults", "text")), load_events()


def read(text: str | bytes, kind: str = "", *, log: bool = False) -> Explanation:
    """What iowarden makes of a text."""
    content = text.encode() if isinstance(text, str) else text
    return explained(parsed(content, kind, log=log), *rules())
