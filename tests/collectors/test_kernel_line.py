"""Lines of the kernel's log, as they come from '/dev/kmsg', the journal and text files."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.collectors.kernel_journal import Message
from iowarden.collectors.kernel_line import (
    TEXT_CHARACTERS,
    Line,
    from_message,
    parse_record,
    parse_text,
)
from iowarden.collectors.vocabulary import ParseError

BOOT = "0f70219b-9a6f-44d1-99ad-824270d0ef01"


def test_a_record_has_all_that_the_kernel_says() -> None:
    """A disk's line, with the field that names its caller, which nobody needs."""
    record = (
        b"3,1234,567890123,-,caller=T99;I/O error, dev sdb, sector 8\n"
        b" SUBSYSTEM=block\n DEVICE=b8:16\n"
    )
    assert parse_record(record, BOOT, 1795282117.5) == Line(
        text="I/O error, dev sdb, sector 8",
        priority=3,
        facility=0,
        monotonic_seconds=567.890123,
        boot_id=BOOT,
        realtime_seconds=1795282117.5,
        device="b8:16",
        subsystem="block",
        sequence=1234,
    )


def test_escaped_bytes_are_read() -> None:
    """A backslash, a line break, letters of another script, and bytes that are no text."""
    line = parse_record(rb"6,1,0,-;a\x5cb\x0ac \xc3\xa9 \xff")
    assert line.text == "a\\b\nc \u00e9 \ufffd"


def test_what_a_program_wrote_has_its_facility() -> None:
    """Priority 30: facility 3, and 6."""
    line = parse_record(b"30,2,5,-;systemd[1]: I/O error, dev sda, sector 1\n")
    assert (line.facility, line.priority) == (3, 6)


@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"\n",
        b"6,1,2,-",
        b"6,1;text",
        b"-6,1,2,-;text",
        b"6,1,2,-;a\nb\n",
        b"6" * 9 + b",1,2;a",
    ],
)
def test_half_a_record_is_refused(record: bytes) -> None:
    """With what was expected, and what came."""
    with pytest.raises(ParseError, match="'/dev/kmsg': expected '<priority>"):
        parse_record(record)


def test_the_same_line_of_the_journal_has_the_same_time() -> None:
    """Else a line that comes on both ways would be two events."""
    message = Message(
        cursor="s=1",
        realtime_seconds=1795282117.5,
        monotonic_seconds=16626665 / 1e6,
        boot_id=BOOT,
        priority=3,
        message="I/O error, dev sdb, sector 8",
        device="b8:16",
        subsystem="block",
    )
    record = parse_record(b"3,77,16626665,-;I/O error, dev sdb, sector 8\n", BOOT)
    line = from_message(message)
    assert (line.text, line.monotonic_seconds, line.boot_id, line.priority) == (
        record.text,
        record.monotonic_seconds,
        record.boot_id,
        record.priority,
    )


@pytest.mark.parametrize(
    "prefix",
    [
        "",
        "<3>",
        "[  123.456789] ",
        "[  123.456789][  T386] ",
        "[  123.456789] [    C0] ",
        "<6>[  123.456789] ",
        "kern  :err   : [  123.456789] ",
        "[Mon May  2 03:36:24 2022] ",
        "[May 2 03:36] ",
        "[  +0.000016] ",
        "May  2 03:36:24 host kernel: ",
        "May  2 03:36:24 host kernel: [  123.456789] ",
        "Rgs 22 20:23:38 host kernel: ",
        "Feb 15 20:05:28 host.example.com kernel: : ",
        "2025-12-22T09:10:52+11:00 host kernel: ",
        "2025-12-22T09:10:52.123456+11:00 kernel: ",
        "<6>2025-12-22T09:10:52+05:30 host kernel: [   29.751657] ",
        "2020-06-16T14:59:00.8117 warning kern kernel  [679613.058375] ",
        "2016-12-12 17:08:32\t",
        "14:05:22 host kernel: ",
        "kernel: ",
    ],
)
def test_a_prefix_of_a_text_file_is_taken_off(prefix: str) -> None:
    """Whatever program wrote the file, in whatever language; half a line and CR do no harm."""
    text = f"{prefix}sd 0:0:0:0: [sda] Unhandled sense code\r\n\n{prefix}I/O err"
    first, second = parse_text(text)
    assert first.text == "sd 0:0:0:0: [sda] Unhandled sense code"
    assert (second.text, second.sequence) == ("I/O err", 3)
    assert first.facility == 0
    assert (first.monotonic_seconds is None) == ("[  123." not in prefix and "58375]" not in prefix
                                                 and "51657]" not in prefix)  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        "May  2 03:36:24 host smartd[612]: Device: /dev/sda, I/O error, dev sda, sector 1",
        "2025-12-22T09:10:52+11:00 host app: I/O error, dev sda, sector 1",
        "user  :err   : [  123.456789] I/O error, dev sda, sector 1",
        "<11>I/O error, dev sda, sector 1",
    ],
)
def test_a_line_of_a_program_in_a_text_file_is_not_the_kernels(line: str) -> None:
    """A syslog file has both."""
    assert parse_text(line)[0].facility != 0


@given(st.binary())
def test_any_bytes_are_a_record_or_refused(record: bytes) -> None:
    """Nothing else is raised."""
    with contextlib.suppress(ParseError):
        parse_record(record)
    with contextlib.suppress(ParseError):
        assert len(parse_record(b"6,1,2,-;" + record).text) <= TEXT_CHARACTERS


@given(st.text())
def test_any_text_is_lines(text: str) -> None:
    """No line is lost: as many as have anything but a prefix."""
    assert len(parse_text(text)) <= text.count("\n") + 1


def test_a_file_of_one_line_without_end_is_cut() -> None:
    """10 MB without a line break."""
    assert len(parse_text("x" * 10_000_000)[0].text) == TEXT_CHARACTERS
