"""Settings of write-back and the kernel release."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.collectors.model import AbsentError, ParseError
from iowarden.collectors.procfs.sysctl_vm import emit, parse_release, parse_setting, read_vm_sysctl

if TYPE_CHECKING:
    from conftest import MachineMaker

KERNEL_2_6_18 = {
    "/proc/sys/kernel/osrelease": "2.6.18.8-xen\n",
    "/proc/sys/vm/dirty_ratio": "40\n",
    "/proc/sys/vm/dirty_background_ratio": "10\n",
    "/proc/sys/vm/dirty_expire_centisecs": "3000\n",
    "/proc/sys/vm/dirty_writeback_centisecs": "499\n",
    "/proc/sys/vm/laptop_mode": "0\n",
}


def test_a_kernel_before_2_6_29_has_no_dirty_bytes(machine: MachineMaker) -> None:
    """A missing file is None, and has no series; centiseconds become seconds."""
    value = read_vm_sysctl(machine(KERNEL_2_6_18))
    assert (value.dirty_ratio_percent, value.dirty_bytes) == (40, None)
    assert (value.dirty_expire_seconds, value.dirty_writeback_seconds) == (30.0, 4.99)
    assert (value.kernel, value.kernel_release) == ((2, 6, 18), "2.6.18.8-xen")
    samples = {name: number for name, _, number in emit(value)}
    assert samples["iowarden_vm_laptop_mode"] == 0
    assert "iowarden_vm_dirty_bytes" not in samples


def test_settings_of_memory(machine: MachineMaker) -> None:
    """KiB become bytes; a kernel built without NUMA or huge pages has no such settings."""
    files = {
        "/proc/sys/vm/min_free_kbytes": "67584\n",
        "/proc/sys/vm/swappiness": "0\n",
        "/proc/sys/vm/overcommit_memory": "2\n",
        "/proc/sys/vm/overcommit_ratio": "50\n",
    }
    value = read_vm_sysctl(machine(KERNEL_2_6_18 | files))
    assert (value.min_free_bytes, value.swappiness) == (67_584 * 1024, 0)
    assert (value.overcommit_memory, value.overcommit_ratio_percent) == (2, 50)
    assert (value.zone_reclaim_mode, value.nr_hugepages, value.bdflush) == (None, None, False)
    samples = {name: number for name, _, number in emit(value)}
    assert samples["iowarden_vm_swappiness"] == 0
    assert "iowarden_vm_zone_reclaim_mode" not in samples


@pytest.mark.parametrize("content", ["100 1200 128 512 500 6000 80 0 0\n", None])
def test_bdflush_is_seen(content: str | None, machine: MachineMaker) -> None:
    """The file of 2.4 exists, whatever its content and whether it is readable or not."""
    files = KERNEL_2_6_18 | {"/proc/sys/vm/bdflush": content}
    assert read_vm_sysctl(machine(files)).bdflush is True


SWAPS = "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"
ZRAM = "/dev/zram0                              partition\t8123388\t\t911872\t\t100\n"
DISK = "/dev/sda2                               partition\t999420\t\t0\t\t-2\n"


@pytest.mark.parametrize(
    ("text", "on_disk"),
    [(SWAPS, None), (SWAPS + ZRAM, False), (SWAPS + DISK, True), (SWAPS + ZRAM + DISK, True)],
)
def test_compressed_memory_is_no_disk(
    text: str, machine: MachineMaker, *, on_disk: bool | None
) -> None:
    """Fedora swaps to zram by default; a disk may be the second area."""
    assert read_vm_sysctl(machine(KERNEL_2_6_18 | {"/proc/swaps": text})).swap_on_disk is on_disk


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("6.1.0-56-amd64\n", (6, 1, 0)),
        ("6.18-rc1", (6, 18, 0)),
        ("5.14.0-70.el9.x86_64", (5, 14, 0)),
        ("2.6.32-754.el6", (2, 6, 32)),
    ],
)
def test_release_of_a_distribution(release: str, expected: tuple[int, int, int]) -> None:
    """Releases of Debian, of a release candidate, of Red Hat."""
    assert parse_release(release) == expected


def test_a_machine_without_a_release_is_absent(machine: MachineMaker) -> None:
    """Without it no formula can be selected."""
    with pytest.raises(AbsentError, match="osrelease"):
        read_vm_sysctl(machine({"/proc/sys/vm/dirty_ratio": "20\n"}))


@pytest.mark.parametrize("text", ["", "x\n", "-1\n", "1 2\n", "9" * 30])
def test_a_setting_that_is_no_number_is_named(text: str, machine: MachineMaker) -> None:
    """The message names the file."""
    root = machine(KERNEL_2_6_18 | {"/proc/sys/vm/dirty_ratio": text})
    with pytest.raises(ParseError, match=r"'/proc/sys/vm/dirty_ratio': expected a number, got"):
        read_vm_sysctl(root)


@given(st.text())
def test_any_text_is_a_value_or_a_parse_error(text: str) -> None:
    """Any text gives a value or a ParseError."""
    for parse in (
        parse_release,
        lambda text: parse_setting(text, "/proc/sys/vm/dirty_ratio"),
    ):
        try:
            value = parse(text)
        except ParseError:
            continue
        assert value is not None
