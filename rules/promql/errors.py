"""Errors of parsing and evaluating expressions."""

from __future__ import annotations


class PromqlError(Exception):
    """An expression that cannot be loaded; line and column count from 1."""

    def __init__(self, message: str, line: int, column: int) -> None:
        """Store the error and its position."""
        super().__init__(f"{line}:{column}: parse error: {message}")
        self.message = message
        self.line = line
        self.column = column


class EvaluationError(Exception):
    """An expression that cannot be evaluated on these samples, such as an ambiguous match."""


class TooExpensiveError(EvaluationError):
    """An expression that exceeds the cost limit of one evaluation."""
