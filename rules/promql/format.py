"""Formats numbers and strings as Go does in Prometheus's labels and errors.

Source: Go, package strconv: FormatFloat, Quote.
"""

from __future__ import annotations

import math
from decimal import Decimal

_QUOTED = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    "\\": r"\\",
    '"': r"\"",
}


def shortest(value: float) -> str:
    """Return the fewest digits that convert back to the number, with an exponent from 1e+06 on.

    That is `%v`, and `%g` without a precision.
    """
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    sign, digits, exponent = Decimal(repr(value)).as_tuple()
    text = "".join(map(str, digits)).lstrip("0").rstrip("0") or "0"
    # Position of the first digit: 1 is at 0, 0.1 at -1.
    place = 0 if value == 0 else len(digits) + int(exponent) - 1
    minus = "-" if sign else ""
    if place < -4 or place >= 6:
        fraction = f".{text[1:]}" if len(text) > 1 else ""
        return f"{minus}{text[0]}{fraction}e{'-' if place < 0 else '+'}{abs(place):02d}"
    if place < 0:
        return f"{minus}0.{'0' * (-place - 1)}{text}"
    whole, fraction = text[: place + 1].ljust(place + 1, "0"), text[place + 1 :]
    return f"{minus}{whole}.{fraction}" if fraction else minus + whole


def quoted(text: str) -> str:
    """Return a Go string literal, with escapes for non-printable characters."""
    body = "".join(
        _QUOTED.get(one)
        or (
            one
            if one.isprintable()
            else rf"\x{ord(one):02x}"
            if ord(one) < 0x80
            else rf"\u{ord(one):04x}"
            if ord(one) < 0x10000
            else rf"\U{ord(one):08x}"
        )
        for one in text
    )
    return f'"{body}"'
