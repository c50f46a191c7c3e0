"""The kernel's detection of hung tasks, from '/proc/sys/kernel/hung_task_*'."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import AbsentError, Metric, ParseError, describe
from iowarden.collectors.source import Source

if TYPE_CHECKING:
    from iowarden.collectors.machine import Machine

PREFIX = "/proc/sys/kernel/hung_task_"


@dataclass(frozen=True, slots=True)
class HungTask:
    """Source: kernel, admin-guide/sysctl/kernel.rst. None: this kernel has no such file."""

    detected_total: Annotated[
        int | None, Metric("counter", "Hung tasks detected since boot (6.13+).")
    ]
    """hung_task_detect_count (6.13+)."""
    warnings: Annotated[
        int | None,
        Metric("gauge", "Hung tasks that the kernel will still report in its log; -1: no limit."),
    ]
    """Number of reports that are left for the log; -1: no limit."""
    timeout_seconds: Annotated[
        int | None,
        Metric(
            "gauge", "How long a task is blocked before the kernel reports it as hung; 0: never."
        ),
    ]
    """0: detection is off."""
    own_reports: int = 0
    """Reports of tasks of iowarden since its start, set by the service: these are no programs."""

    @property
    def reports(self) -> int | None:
        """Return a number that rises with each report; None: there is none.

        Before 6.13 nothing counts them, but each report in the log decreases hung_task_warnings.
        """
        if self.detected_total is not None:
            return self.detected_total
        return None if self.warnings is None or self.warnings < 0 else -self.warnings


FAMILIES, emit = describe(HungTask, "iowarden_hung_task_")


def parse_setting(text: str, path: str) -> int:
    """Parse the one number of a file; only the limit of warnings may be -1."""
    number = text.strip()
    if re.fullmatch(r"\d{1,20}|-1", number, re.ASCII) is None:
        raise ParseError(f"'{path}': expected a number, got {text[:80]!r}")
    return int(number)


def read_hung_task(root: Machine) -> HungTask:
    """Read the files. Errors: AbsentError (built without), ReadError, ParseError."""
    timeout_path = PREFIX + "timeout_secs"  # exists in every kernel with the detection (2.6.30+)
    timeout_seconds = parse_setting(root.read(timeout_path), timeout_path)

    def setting(name: str) -> int | None:
        try:
            return parse_setting(root.read(PREFIX + name), PREFIX + name)
        except AbsentError:
            return None

    return HungTask(setting("detect_count"), setting("warnings"), timeout_seconds)


SOURCE: Source[HungTask] = Source(
    name="hung_task",
    period_seconds=15,
    period_help="How often the kernel's count of hung tasks is read.",
    may_hang=False,
    read=read_hung_task,
    families=FAMILIES,
    emit=emit,
)
