"""The one number over the data sources: a failed one hides only its own objects."""

from __future__ import annotations

from dataclasses import replace

from support.everything import array

from iowarden.collectors.filesystem.btrfs import BtrfsDevice
from iowarden.rules.signals.raid import redundancy
from iowarden.rules.signals.signal import Inputs, View
from iowarden.rules.signals.table import SignalStates, step_all
from iowarden.rules.snapshot import Snapshot

ARRAYS = {"md0": array("md0", "raid1", ["sda1", "sdb1"])}
DEVICES = (BtrfsDevice("u-u-i-d", "", 1, ("data raid1",), True, *(None,) * 5),)


def numbers(view: View) -> dict[str, float]:
    """Return the number of each object."""
    _, samples = redundancy.step(redundancy.RedundancyState(), view)
    assert samples is not None
    return {dict(s[1])["object"]: s[2] for s in samples if s[0] == redundancy.SURVIVES}


def test_an_object_whose_source_is_not_read_has_no_series() -> None:
    """Unknown is not 0; the others go on."""
    everything = Inputs(0.0, 0.0, Snapshot(md=ARRAYS, btrfs=DEVICES))
    assert numbers(View(everything, None)) == {"md0": 1, "u-u-i-d": 0}
    assert numbers(View(replace(everything, snapshot=Snapshot(md=ARRAYS)), None)) == {"md0": 1}


def test_a_source_that_fails_does_not_keep_the_group_from_its_step() -> None:
    """The controllers' tool hangs: a mirror that loses a disk is seen all the same."""
    inputs = Inputs(
        0.0, 0.0, Snapshot(md=ARRAYS), frozenset({"md"}), failed=frozenset({"controllers"})
    )
    _, result = step_all(SignalStates(), inputs, None, frozenset({"redundancy"}))
    assert [s[2] for s in result["redundancy"] if s[0] == redundancy.SURVIVES] == [1]


def test_nothing_is_computed_again_while_nothing_was_read() -> None:
    """The same samples, not equal ones: then they are neither stored nor rendered again."""
    view = View(Inputs(0.0, 0.0, Snapshot(md=ARRAYS)), None)
    state, first = redundancy.step(redundancy.RedundancyState(), view)
    _, second = redundancy.step(state, view)
    assert second is first


def test_paths_of_a_map_are_counted_by_the_signal_of_maps() -> None:
    """One working and one lost path: nothing is left; of one that is unknown there is no number."""

    def view(**states: int) -> View:
        samples = [
            (
                "iowarden_multipath_paths",
                (("device", "dm-0"), ("name", "mpatha"), ("state", state)),
                float(count),
            )
            for state, count in states.items()
        ]
        return View(Inputs(0.0, 0.0, Snapshot()), None, {"multipath": samples})

    assert numbers(view(working=1, lost=1)) == {"mpatha": 0}
    assert numbers(view(working=2, failed=2)) == {"mpatha": 1}
    assert numbers(view(unknown=4)) == {}
