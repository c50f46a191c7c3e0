"""Joined states and tasks of arcconf, built from the words that it joins."""

from __future__ import annotations

import itertools

import pytest

from iowarden.collectors.raid import states
from iowarden.collectors.raid.adaptec import arcconf, arcconf_status
from iowarden.collectors.raid.controller import ComponentHealth, ComponentState

DONE = "\nCommand completed successfully.\n"
TASKS = ("Build", "Verify", "Clear", "Fix", "Zero", "Compaction", "Migration", "Verification")
JOINTS = ("/", " with ", ", ", " and ", "_", " & ")
STATES = {
    "Optimal": ComponentHealth.OK,
    "Okay": ComponentHealth.OK,
    "Verifying": ComponentHealth.BUSY,
    "Rebuilding": ComponentHealth.REBUILDING,
    "Degraded": ComponentHealth.DEGRADED,
    "Failed": ComponentHealth.FAILED,
}


def device(word: str) -> ComponentState:
    """The state of a logical device."""
    text = (
        "Logical device information\nLogical device number 0\n"
        f"   Status of logical device : {word}\n{DONE}"
    )
    return arcconf.parse_config(text, "adaptec 1").controller.arrays[0].state


def tasked(operation: str, word: str = "Optimal") -> ComponentState:
    """The state of a logical device with a task of 'GETSTATUS'."""
    text = (
        "Logical device information\nLogical device number 0\n"
        f"   Status of logical device : {word}\n{DONE}"
    )
    status = (
        "Logical device Task:\n   Logical device : 0\n"
        f"   Current operation : {operation}\n   Status : In Progress\n"
        f"   Percentage complete : 31\n{DONE}"
    )
    found = arcconf.parse_config(text, "adaptec 1").controller
    return arcconf_status.with_tasks(found, arcconf_status.parse_tasks(status)).arrays[0].state


@pytest.mark.parametrize("joint", JOINTS)
@pytest.mark.parametrize("blank", ["", " "])
def test_every_joint_of_tasks_that_leave_an_array_whole_is_no_warning(
    joint: str, blank: str
) -> None:
    """'Impacted (Build/Verify with fix : 31 %)': two and three tasks, joined in any way."""
    joints = [joint.join(pair) for pair in itertools.permutations(TASKS, 2)]
    joints += [f"{one}/{two} with fix" for one, two in itertools.permutations(TASKS[:4], 2)]
    for operation in joints:
        word = f"Impacted ({blank}{operation}{blank}:{blank}31{blank}%{blank})"
        state = device(word)
        assert (state.health, state.done_ratio) == (ComponentHealth.BUSY, 0.31), word
        state = tasked(operation)
        assert (state.health, state.done_ratio) == (ComponentHealth.BUSY, 0.31), operation


@pytest.mark.parametrize("joint", JOINTS)
def test_a_joint_is_as_bad_as_its_worst_part(joint: str) -> None:
    """A rebuild is why an array is degraded; a failed one is not saved by its other word."""
    for (one, first), (two, second) in itertools.permutations(STATES.items(), 2):
        pair = {first, second}
        if pair == {ComponentHealth.DEGRADED, ComponentHealth.REBUILDING}:
            expected = ComponentHealth.REBUILDING
        else:
            expected = states.worst(ComponentState(first), ComponentState(second)).health
        assert device(f"{one}{joint}{two}").health is expected, (one, two)


def test_a_part_that_nobody_knows_needs_attention() -> None:
    """In a state and in a task; also where the other part is well."""
    for word in (
        "Optimal, Pondering",
        "Impacted ( Build/Ponder : 3 % )",
        "Build/Verify/Clear Failed",
    ):
        assert device(word).health is ComponentHealth.ATTENTION, word
    assert tasked("Build/Ponder").health is ComponentHealth.ATTENTION


def test_a_rebuild_within_a_joint_of_tasks_is_one() -> None:
    """A degraded device that rebuilds and verifies is being rebuilt."""
    assert tasked("Rebuild/Verify", "Degraded").health is ComponentHealth.REBUILDING
    assert tasked("Build/Verify with fix", "Degraded").health is ComponentHealth.DEGRADED
    assert device("Degraded, Rebuilding ( Rebuild/Verify : 38 % )").health is (
        ComponentHealth.REBUILDING
    )


def test_a_word_with_a_use_in_parentheses_is_judged_by_both() -> None:
    """'Hot Spare (Ready)' of a disk; 'Online (Failed)' is not online."""

    def disk(word: str) -> ComponentHealth:
        text = (
            "Physical Device information\n   Device #0\n      Device is a Hard drive\n"
            f"      State : {word}\n      Reported Channel,Device(T:L) : 0,8(8:0)\n{DONE}"
        )
        return arcconf.parse_config(text, "adaptec 1").controller.disks[0].state.health

    assert disk("Hot Spare (Ready)") is ComponentHealth.OK
    assert disk("Online, Rebuilding") is ComponentHealth.REBUILDING
    assert disk("Online (Failed)") is ComponentHealth.FAILED
    assert disk("Online (Pondering)") is ComponentHealth.ATTENTION
