"""Hung tasks that the kernel reported, and SCSI commands that timed out.

Source: kernel, kernel/hung_task.c and admin-guide/sysctl/kernel.rst; drivers/scsi/scsi_sysfs.c.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.model import Family, Sample
from iowarden.rules.signals import increase
from iowarden.rules.signals.increase import Increase, grow, since_boot
from iowarden.rules.signals.signal import SignalGroup

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.rules.signals.signal import View

_TASKS, _OWN = "tasks", "own tasks"
_LIBATA = re.compile(r"ahci|acard-ahci|pdc_adma|[sp]?ata_\w+")
"""Names of libata drivers. libata aborts each failed command through the timeout handler: the
counter rises with every log that a disk does not support and smartctl requests. Source: kernel,
drivers/ata/libata-eh.c (ata_qc_schedule_eh); scsi_error.c (scsi_timeout)."""


def task_step(
    state: Mapping[str, Increase], view: View
) -> tuple[Mapping[str, Increase], list[Sample] | None]:
    """Return the state after a reading and the number of hung tasks reported lately.

    None where it cannot be known: hung task detection is off, or (before 6.13) hung_task_warnings
    is used up while tasks wait for I/O.
    """
    value = view.inputs.snapshot.hung_task
    reports = None if value is None else value.reports
    if value is None or reports is None or value.timeout_seconds == 0:
        return state, None
    now = view.inputs.now_seconds
    state = since_boot(state, now, view.inputs.uptime_seconds)
    counter = grow(state.get(_TASKS), reports, now)
    before = state.get(_OWN)
    if before is not None:  # It is counted since the service's start.
        before = before._replace(total=min(before.total, value.own_reports))
    of_service = grow(before, value.own_reports, now)
    stepped = {_TASKS: counter, _OWN: of_service}
    recent = max(counter.recent(now) - of_service.recent(now), 0.0)
    if value.detected_total is None and value.warnings == 0 and not recent:
        stat = view.inputs.snapshot.stat
        if stat is None or stat.procs_blocked > 0:
            return stepped, None
    return stepped, [("iowarden_recent_hung_tasks", (), recent)]


def timeout_step(
    state: Mapping[str, Increase], view: View
) -> tuple[Mapping[str, Increase], list[Sample] | None]:
    """Return the state after a reading and the timeouts of every disk that counts only those."""
    value = view.inputs.snapshot.scsi
    if value is None:
        return state, None
    now = view.inputs.now_seconds
    state = since_boot(state, now, view.inputs.uptime_seconds)
    stepped: dict[str, Increase] = {}
    samples: list[Sample] = []
    for address, device in value.devices.items():
        host = value.hosts.get(device.host)
        libata = host is not None and _LIBATA.fullmatch(host.driver or "")
        if device.device is None or device.timeouts_total is None or libata:
            continue
        # The address distinguishes a disk from a later one of the same name.
        key = f"{device.device} {address}"
        stepped[key] = counter = grow(state.get(key), device.timeouts_total, now)
        labels = (("device", device.device),)
        samples.append(("iowarden_device_recent_timeouts", labels, counter.recent(now)))
    return stepped, samples


TASK_GROUP = SignalGroup(
    name="hung_task",
    sources=("hung_task",),
    families=(
        Family(
            "iowarden_recent_hung_tasks",
            "gauge",
            "Reports of hung tasks by the kernel in the last 10 minutes; a task that stays"
            " hung counts several times, a task of iowarden itself does not count.",
        ),
    ),
    step=task_step,
    initial=increase.EMPTY,
    remember=increase.remember,
    recall=increase.recall,
    untimed=1,
)


TIMEOUT_GROUP = SignalGroup(
    name="timeouts",
    sources=("scsi",),
    families=(
        Family(
            "iowarden_device_recent_timeouts",
            "gauge",
            "SCSI commands to this device that timed out in the last 10 minutes (iotmo_cnt).",
        ),
    ),
    step=timeout_step,
    initial=increase.EMPTY,
    remember=increase.remember,
    recall=increase.recall,
    untimed=1,
)
