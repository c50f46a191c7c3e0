"""Transparent huge pages, from '/sys/kernel/mm'."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TransparentHugepage:
    """The settings in force. Source: kernel, admin-guide/mm/transhuge.rst.

    RHEL 6 keeps them in 'redhat_transparent_hugepage'.
    """

    enabled: str
    """'always', 'madvise' or 'never'."""
    defrag: str | None
    """'always', 'defer', 'defer+madvise', 'madvise' or 'never'."""
