"""The kernel's counts of hung tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from iowarden.collectors.kernel.hung_task import (
    PREFIX,
    HungTask,
    emit,
    parse_setting,
    read_hung_task,
)
from iowarden.collectors.model import AbsentError, ParseError

if TYPE_CHECKING:
    from conftest import MachineMaker

FILES = {PREFIX + "timeout_secs": "120\n", PREFIX + "warnings": "7\n"}


def test_a_kernel_that_counts_them(machine: MachineMaker) -> None:
    """6.13 and later: three hung, seven more will be reported in the log."""
    value = read_hung_task(machine(FILES | {PREFIX + "detect_count": "3\n"}))
    assert value == HungTask(detected_total=3, warnings=7, timeout_seconds=120)
    assert [number for _, _, number in emit(value)] == [3, 7, 120]


def test_a_kernel_that_does_not_count_has_no_such_series(machine: MachineMaker) -> None:
    """Missing is not zero."""
    value = read_hung_task(machine(FILES))
    assert value.detected_total is None
    assert {name for name, _, _ in emit(value)} == {
        "iowarden_hung_task_warnings",
        "iowarden_hung_task_timeout_seconds",
    }


def test_a_log_without_a_limit(machine: MachineMaker) -> None:
    """hung_task_warnings = -1: every hung task is reported."""
    assert read_hung_task(machine(FILES | {PREFIX + "warnings": "-1\n"})).warnings == -1


def test_a_kernel_without_the_watch_is_absent(machine: MachineMaker) -> None:
    """Built without CONFIG_DETECT_HUNG_TASK."""
    with pytest.raises(AbsentError, match="hung_task_timeout_secs"):
        read_hung_task(machine({"/proc/sys/kernel/osrelease": "6.1.0\n"}))


@pytest.mark.parametrize("text", ["", "x\n", "-2\n", "1 2\n", "٣\n", "9" * 30])
def test_what_is_no_number_is_refused(text: str) -> None:
    """The message names the file."""
    with pytest.raises(ParseError, match=f"'{PREFIX}warnings': expected a number, got"):
        parse_setting(text, PREFIX + "warnings")
