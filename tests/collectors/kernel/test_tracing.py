"""Whether requests can be traced on a machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from iowarden.collectors.kernel.tracing import DIRECTORY, LOCKDOWN, MOUNTS, tracing_problem

if TYPE_CHECKING:
    from conftest import MachineMaker

ROOT = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
TRACEFS = f"36 24 0:12 / {DIRECTORY} rw,nosuid shared:12 - tracefs tracefs rw\n"
ELSEWHERE = "36 24 0:12 / /mnt/tracing rw - tracefs tracefs rw\n"
THERE = {f"{DIRECTORY}/instances": None}


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({MOUNTS: ROOT + TRACEFS, **THERE}, None),
        ({MOUNTS: ROOT + TRACEFS, LOCKDOWN: "none [integrity] confidentiality\n"}, None),
        ({}, None),
        ({MOUNTS: ROOT}, "this kernel has no tracefs"),
        ({MOUNTS: ROOT + ELSEWHERE, **THERE}, f"mount -t tracefs tracefs {DIRECTORY}"),
        (
            {MOUNTS: ROOT + TRACEFS, LOCKDOWN: "none integrity [confidentiality]\n"},
            "kernel lockdown is in mode 'confidentiality'",
        ),
    ],
)
def test_a_reason_comes_with_what_to_do(
    machine: MachineMaker, files: dict[str, str | None], problem: str | None
) -> None:
    """Without a list of mounts nothing is known against it: the trace itself will show it."""
    found = tracing_problem(machine(files))
    assert found == "" if problem is None else problem in found
