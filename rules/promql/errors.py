"""What goes wrong while an expression is evaluated."""

from __future__ import annotations


class EvaluationError(Exception):
    """An expression that these samples give no answer to, such as an ambiguous match."""


class TooExpensiveError(EvaluationError):
    """An expression that costs more than one evaluation may."""
