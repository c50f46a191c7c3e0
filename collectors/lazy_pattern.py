"""Regular expressions that are compiled when they are first used.

Of the 340 of all parsers a machine needs a part: those of the RAID controllers and drives that it
has, of the lines that its kernel prints. Compiling all of them was a sixth of the time of a start.

*Limits:* an invalid one is found when it is first used: by the tests of its parser. The `re` of a
match is the compiled one, not this.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from typing import AnyStr


def lazy_pattern(text: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a regular expression as `re.compile` does; it is compiled when it is first used."""
    return cast("re.Pattern[AnyStr]", _Lazy(text, flags))


class _Lazy:
    """Has each method of the compiled expression from its first use on: then it costs no more."""

    __slots__ = ("_flags", "_text", *(name for name in dir(re.Pattern) if name[0] != "_"))

    def __init__(self, text: str | bytes, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - a method of the expression
        """Return what the expression has under a name that was not used before."""
        found = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, found)
        return found
