"""I/O schedulers made for a single rotating disk, on RAID volumes and SSDs.

Source: kernel, block/switching-sched.rst, block/bfq-iosched.rst.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.model import Family, Sample
from iowarden.rules.signals.queue import volume
from iowarden.rules.signals.signal import SignalGroup

if TYPE_CHECKING:
    from iowarden.rules.signals.signal import View

FOR_ONE_ARM = frozenset({"anticipatory", "bfq", "cfq"})
ADVISED = ("none", "noop", "mq-deadline", "deadline")
"""In order of preference; the first one that the kernel offers is recommended."""


def step(state: None, view: View) -> tuple[None, list[Sample] | None]:
    """Return the leaf devices whose scheduler does not suit them."""
    queues = view.inputs.snapshot.queue
    if queues is None or view.derived is None:
        return state, None
    topology = view.derived.topology
    drivers = volume.drivers(view.inputs.snapshot.scsi)
    samples: list[Sample] = []
    for name in topology.leaves:
        queue, device = queues.get(name), topology.devices[name]
        if queue is None or queue.scheduler not in FOR_ONE_ARM:
            continue
        if device.rotational is False or volume.is_raid_volume(device, drivers):
            recommended = next((each for each in ADVISED if each in queue.schedulers), "none")
            labels = (
                ("recommended", recommended),
                ("device", name),
                ("scheduler", queue.scheduler),
            )
            samples.append(("iowarden_device_scheduler_unsuitable", labels, 1.0))
    return state, samples


GROUP = SignalGroup(
    name="scheduler",
    sources=("queue", "block", "scsi"),
    families=(
        Family(
            "iowarden_device_scheduler_unsuitable",
            "gauge",
            "1 for a RAID volume or SSD whose I/O scheduler is made for a single rotating"
            " disk, with a recommended one.",
        ),
    ),
    step=step,
    initial=None,
)
