"""Formats values as Go does: fmt's verbs for strings, numbers, maps and lists.

Source: Go, package fmt, 'Printing', and strconv.FormatFloat. Limits: no `*` for width or precision,
no argument indexes; `#` only with %x.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.rules.promql.format import quoted, shortest

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Struct:
    """A Go struct: named fields, in order."""

    type_name: str
    fields: dict[str, Value]


Value = None | bool | int | float | str | dict[str, str] | list[Struct] | Struct

_DIRECTIVE = re.compile(r"%([-+# 0]*)([0-9]{0,6})(?:(\.)([0-9]{0,6}))?(.?)", re.DOTALL)
_MAX_WIDTH = 1000
"""Far more than an e-mail's line; Go's own limit is a million."""


_GO_TYPES = {
    type(None): "<nil>",
    bool: "bool",
    int: "int",
    float: "float64",
    str: "string",
    dict: "map[string]string",
    list: "template.queryResult",
}


def type_name(value: Value) -> str:
    """Return the name of a value's Go type."""
    return value.type_name if isinstance(value, Struct) else _GO_TYPES[type(value)]


def plain(value: Value) -> str:
    """Return a value as `%v` writes it."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return "true" if value else "false"
        case float():
            return shortest(value)
        case dict():
            return f"map[{' '.join(f'{key}:{value[key]}' for key in sorted(value))}]"
        case list():
            return f"[{' '.join(plain(one) for one in value)}]"
        case Struct():
            return "{" + " ".join(plain(one) for one in value.fields.values()) + "}"
    return str(value)


@dataclass(frozen=True, slots=True)
class _Directive:
    """The text between % and the verb."""

    flags: str
    width: int
    precision: int | None

    def text(self, verb: str, value: Value) -> str:
        """Return one argument formatted by a verb."""
        if verb == "T":
            return self._padded(type_name(value))
        if verb == "v" and value is None:
            return self._padded("<nil>")
        written: str | None = None
        match value:
            case dict():
                pairs = (f"{self.text(verb, k)}:{self.text(verb, value[k])}" for k in sorted(value))
                return f"map[{' '.join(pairs)}]"
            case list():
                return f"[{' '.join(self.text(verb, one) for one in value)}]"
            case Struct():
                fields = " ".join(self.text(verb, one) for one in value.fields.values())
                return "{" + fields + "}"
            case bool():
                written = plain(value) if verb in "tv" else None
            case int():
                written = self._integer(verb, value)
            case float():
                written = self._float(verb, value)
            case str():
                written = self._string(verb, value)
        if written is not None:
            return self._padded(written)
        if value is None:
            return f"%!{verb}(<nil>)"
        return f"%!{verb}({type_name(value)}={self.text('v', value)})"

    def _padded(self, text: str) -> str:
        if "-" in self.flags:
            return text.ljust(self.width)
        if "0" in self.flags and not text.endswith(("Inf", "NaN")):
            return text.zfill(self.width)
        return text.rjust(self.width)

    def _sign(self) -> str:
        return "+" if "+" in self.flags else " " if " " in self.flags else ""

    def _integer(self, verb: str, value: int) -> str | None:
        precision = "" if self.precision is None else f".{self.precision}"
        if verb in "dv":
            return f"%{self._sign() if verb == 'd' else ''}{precision}d" % value
        if verb in "xXo":
            sharp = "#" if "#" in self.flags and verb != "o" else ""
            return f"%{self._sign()}{sharp}{precision}{verb}" % value
        if verb == "b":
            return format(value, "b")
        if verb in "cqU":
            character = chr(value) if 0 <= value <= 0x10FFFF else "\N{REPLACEMENT CHARACTER}"
            return {"c": character, "q": f"'{character}'", "U": f"U+{value:04X}"}[verb]
        return None

    def _float(self, verb: str, value: float) -> str | None:
        if verb not in "vgGeEfFxX":
            return None
        sign = self._sign() if verb != "v" else ""
        if math.isnan(value):
            return f"{sign}NaN"
        if math.isinf(value):
            text = plain(value)
            return " Inf" if sign == " " and text == "+Inf" else text
        if verb in "xX":
            mantissa, exponent = value.hex().split("p")
            mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
            text = f"{mantissa}p{exponent[0]}{exponent[1:]:0>2}"
            return text if verb == "x" else text.upper()
        if verb in "vgG" and self.precision is None:
            text = shortest(value)
            text = text if text[0] == "-" else sign + text
            return text.upper() if verb == "G" else text
        precision = 6 if self.precision is None else self.precision
        return f"%{sign}.{precision}{'g' if verb == 'v' else verb}" % value

    def _string(self, verb: str, value: str) -> str | None:
        if verb in "sv":
            return value if self.precision is None else value[: self.precision]
        if verb == "q":
            return quoted(value)
        if verb in "xX":
            raw = value.encode("utf-8", "replace")
            digits = raw.hex(" ") if " " in self.flags else raw.hex()
            return digits if verb == "x" else digits.upper()
        return None


def sprint(values: Sequence[Value]) -> str:
    """Return values one after the other, with a blank between two that are not strings."""
    parts: list[str] = []
    for index, value in enumerate(values):
        if index and not isinstance(value, str) and not isinstance(values[index - 1], str):
            parts.append(" ")
        parts.append(plain(value))
    return "".join(parts)


def sprintf(template: str, values: Sequence[Value]) -> str:
    """Return values formatted by the template's verbs; errors are written as Go does."""
    used = 0

    def one(match: re.Match[str]) -> str:
        nonlocal used
        flags, width, dot, precision, verb = match.groups()
        if verb == "%":
            return "%"
        if not verb:
            return "%!(NOVERB)"
        if used >= len(values):
            return f"%!{verb}(MISSING)"
        value = values[used]
        used += 1
        directive = _Directive(
            flags,
            min(int(width or 0), _MAX_WIDTH),
            min(int(precision or 0), _MAX_WIDTH) if dot else None,
        )
        return directive.text(verb, value)

    text = _DIRECTIVE.sub(one, template)
    if used < len(values):
        extra = ", ".join(
            "<nil>" if value is None else f"{type_name(value)}={plain(value)}"
            for value in values[used:]
        )
        text += f"%!(EXTRA {extra})"
    return text
