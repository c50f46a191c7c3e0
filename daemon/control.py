"""'/run/iowarden/control.sock': people ask and tell, one line of JSON each way.

A thread of its own reads and writes; what is asked goes to the loop as a `Command`, and what the
loop answers comes back by its `reply`. Who asks is told by the kernel (unix(7), SO_PEERCRED).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class Command:
    """Somebody asks. `reply` may be called from any thread, never waits, and takes one object.

    Fields: `name` ('status', 'silence add', 'silence list', 'silence expire', 'ack', 'events',
    'query'), `arguments` as in the line, `who` as 'alice (uid 1000)'.
    """

    name: str
    arguments: dict[str, Any]
    who: str
    reply: Callable[[dict[str, Any]], object] = field(repr=False)
