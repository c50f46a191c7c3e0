"""Block devices of kernels from 2.6.18 to today."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.collectors.block.diskstats import (
    FAMILIES,
    SOURCE,
    emit,
    node_samples,
    parse_diskstats,
    read_diskstats,
)
from iowarden.collectors.model import AbsentError, ParseError

if TYPE_CHECKING:
    from conftest import MachineMaker

SDA = "   8       0 sda 212 10 8506 77 57 524 266616 23 3 68 106 5 0 8388616 4 6 1\n"
SDA1 = "   8       1 sda1 12 0 100 7 5 2 800 3 0 6 10 0 0 0 0 0 0\n"
LOOP0 = "   7       0 loop0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
KERNEL_4_18 = "   8       0 sda 212 10 8506 77 57 524 266616 23 3 68 106 5 0 8388616 4\n"
KERNEL_2_6_18 = (
    "   8    0 sda 212 10 8506 77 57 524 266616 23 3 68 106\n   8    1 sda1 55 440 7 56\n"
)
LINES = st.sampled_from([*SDA.splitlines(), *KERNEL_2_6_18.splitlines(), *LOOP0.splitlines()])


def values(text: str, device: str = "sda") -> dict[str, float]:
    """Samples of a device by the name after 'iowarden_device_'."""
    samples = emit(parse_diskstats(text))
    return {
        name.removeprefix("iowarden_device_"): number
        for name, labels, number in samples
        if labels == (("device", device),)
    }


def test_sectors_become_bytes_and_milliseconds_seconds() -> None:
    """A sector is 512 bytes, whatever the drive's blocks are; also where discards are counted."""
    block = parse_diskstats(SDA)["sda"]
    assert (block.read_bytes_total, block.written_bytes_total) == (8506 * 512, 266_616 * 512)
    assert block.discarded_bytes_total == 8_388_616 * 512
    assert (block.major, block.minor, block.in_flight) == (8, 0, 3)
    assert values(SDA)["io_time_seconds_total"] == pytest.approx(0.068)
    assert values(SDA)["flush_seconds_total"] == pytest.approx(0.001)


def test_every_kind_of_request_counts_as_completed() -> None:
    """A disk busy with discards or flushes is not a disk that hangs."""
    assert parse_diskstats(SDA)["sda"].completed_total == 212 + 57 + 5 + 6
    assert parse_diskstats(KERNEL_4_18)["sda"].completed_total == 212 + 57 + 5
    assert parse_diskstats(KERNEL_2_6_18)["sda"].completed_total == 212 + 57


def test_what_an_old_kernel_does_not_count_gives_no_sample() -> None:
    """Discards were added in 4.18, flushes in 5.5: missing is not zero."""
    assert "discarded_bytes_total" in values(KERNEL_4_18)
    assert "flushes_completed_total" not in values(KERNEL_4_18)
    assert "discarded_bytes_total" not in values(KERNEL_2_6_18)
    assert parse_diskstats(KERNEL_2_6_18)["sda"].discarded_bytes_total is None
    assert set(values(SDA)) == {f.name.removeprefix("iowarden_device_") for f in FAMILIES}


def test_partition_lines_before_2_6_25_are_left_out() -> None:
    """Their four numbers have no times and no requests in flight."""
    assert list(parse_diskstats(KERNEL_2_6_18)) == ["sda"]


def test_columns_of_a_later_kernel_are_ignored() -> None:
    """A field added after the twentieth is ignored."""
    assert parse_diskstats(SDA.replace(" 6 1\n", " 6 1 99 98\n")) == parse_diskstats(SDA)


def test_only_whole_devices_are_exposed() -> None:
    """Partitions have no series, nor do loop devices that '/sys/block' shows without a file."""
    block = parse_diskstats(LOOP0 + SDA + SDA1)
    devices = {labels[0][1] for _, labels, _ in SOURCE.samples(block, {"sda"})}
    assert devices == {"sda"}


def test_node_exporter_ignores_partitions_and_counts_discards_in_sectors() -> None:
    """Devices are ignored as by default in node_exporter; the seconds are exactly its floats."""
    nvme = SDA.replace("sda", "nvme0n1p2") + SDA.replace("sda", "md0p1")
    samples = list(node_samples(parse_diskstats(SDA + SDA1 + LOOP0 + nvme)))
    assert {labels[0][1] for _, labels, _ in samples} == {"sda", "md0p1"}
    sda = {name: number for name, labels, number in samples if labels == (("device", "sda"),)}
    assert sda["node_disk_discarded_sectors_total"] == 8_388_616
    assert sda["node_disk_written_bytes_total"] == 266_616 * 512
    assert sda["node_disk_io_time_weighted_seconds_total"] == 106 * 0.001
    assert sda["node_disk_io_now"] == 3
    assert len(sda) == 17


@pytest.mark.parametrize(
    "bad",
    [SDA.replace(" 212 ", " x "), "8 0 sda\n", SDA.replace(" 212 ", f" {10**40} ")],
    ids=["word", "short", "huge"],
)
def test_a_line_that_does_not_parse_is_named(bad: str) -> None:
    """The message has the path, the line number, the expected and the found value."""
    with pytest.raises(ParseError, match=r"'/proc/diskstats' line 2: expected .*, got '"):
        parse_diskstats(LOOP0 + bad)


@given(st.integers(1, len(SDA) - 1))
def test_a_truncated_line_is_refused(length: int) -> None:
    """Truncated after number 7 or 14 it would look like a line of an older kernel."""
    with pytest.raises(ParseError, match="expected whole lines, got"):
        parse_diskstats(LOOP0 + SDA[:length])


def test_a_device_whose_name_is_no_utf_8_is_shown_escaped(machine: MachineMaker) -> None:
    """The byte is escaped; nothing is lost and nothing raises."""
    root = machine({"/proc/diskstats": SDA.encode().replace(b"sda", b"sd\xff")})
    assert list(read_diskstats(root)) == ["sd\\xff"]


def test_a_machine_without_disks_has_none() -> None:
    """The file of a diskless host is empty: a valid answer, not an error."""
    assert parse_diskstats("") == {}


@given(st.lists(LINES | st.text(max_size=60), max_size=8).map(lambda x: "\n".join([*x, ""])))
def test_any_text_is_devices_or_a_parse_error(text: str) -> None:
    """Any text gives a value or a ParseError."""
    try:
        value = parse_diskstats(text)
    except ParseError:
        return
    for block in value.values():
        assert block.completed_total >= block.reads_completed_total
    assert all(float(number) >= 0 for _, _, number in [*emit(value), *node_samples(value)])


def test_a_list_without_a_device_is_absent_and_not_a_machine_at_rest(
    machine: MachineMaker,
) -> None:
    """Empty or blank: alerts on its devices are then unknown, not resolved."""
    for text in ("", "\n"):
        with pytest.raises(AbsentError):
            read_diskstats(machine({"/proc/diskstats": text}))
