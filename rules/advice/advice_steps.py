"""The steps of advice: what to check and what to do, by the kind of device. Pure.

Each returns its lines, or none if it does not apply: sentences, and commands indented by two. The
order within a step: commands that only read; then the mildest action that can be undone. If a
command may destroy data, the line before it is a warning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.rules.advice.array_steps import (
    add_member,
    examine,
    give_up_sooner,
    keep_member,
    last_copy,
    replace_member,
    replace_slow_member,
    scrub,
    show_array,
    take_back,
    take_out,
)
from iowarden.rules.advice.dirty_limits import lower_dirty_limits
from iowarden.rules.advice.disk_steps import (
    cable,
    controller_program,
    hold_back,
    kernel_log,
    kernel_state,
    rescan,
    smart_data,
    stands_on,
)
from iowarden.rules.advice.filesystem_steps import btrfs, fsck, pool_status, space
from iowarden.rules.advice.map_steps import extend_thin_pool, paths, resume

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from iowarden.rules.advice.step import StepContext

STEPS: Mapping[str, Callable[[StepContext], list[str]]] = {
    "add_member": add_member,
    "array": show_array,
    "below": stands_on,
    "btrfs": btrfs,
    "cable": cable,
    "controller": controller_program,
    "dirty_limits": lower_dirty_limits,
    "examine": examine,
    "fsck": fsck,
    "hold_back": hold_back,
    "keep": keep_member,
    "last_copy": last_copy,
    "log": kernel_log,
    "member": take_out,
    "paths": paths,
    "pool": pool_status,
    "replace": replace_member,
    "replace_slow": replace_slow_member,
    "rescan": rescan,
    "resume": resume,
    "scrub": scrub,
    "smart": smart_data,
    "sooner": give_up_sooner,
    "space": space,
    "state": kernel_state,
    "take_back": take_back,
    "thin_pool": extend_thin_pool,
}
