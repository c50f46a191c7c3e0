"""What `iowarden explain` makes of a text, by the shipped rules, without the command around it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from iowarden.collectors.tool_output.decode import decoded, typed_tool
from iowarden.collectors.tool_output.parse import guessed, parse
from iowarden.collectors.tool_output.parsed import Tool
from iowarden.daemon.check.explain import Explanation, explain
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
    found = decoded(content)
    told = Tool(kind) if kind else guessed(found, typed_tool(content))
    return explain(parse(found, told, log=log), *rules())
