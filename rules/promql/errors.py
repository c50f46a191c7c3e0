"""What goes wrong while an expression is read or evaluated."""

from __future__ import annotations


class PromqlError(Exception):
    """An expression that cannot be loaded; line and column count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        """Keep what is wrong and where."""
        super().__init__(f"{line}:{column}: parse error: {message}")
        self.message = message
        self.line = line
        self.column = column


class EvaluationError(Exception):
    """An expression that these samples give no answer to, such as an ambiguous match."""


class TooExpensiveError(EvaluationError):
    """An expression that costs more than one evaluation may."""
