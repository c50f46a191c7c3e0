"""Lines of the kernel log from '/dev/kmsg', the journal and text files."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.collectors.kmsg.kernel_journal import Message
from iowarden.collectors.kmsg.kernel_line import (
    TEXT_CHARACTERS,
    KernelLine,
    from_message,
    parse_record,
    parse_text,
)
from iowarden.collectors.model import ParseError
from iowarden.collectors.parsed_text import Tool
from iowarden.collectors.tool_output.parse import parse

BOOT = "0f70219b-9a6f-44d1-99ad-824270d0ef01"


def test_a_record_has_all_that_the_kernel_reports() -> None:
    """A disk's line, with the field of its caller, which is ignored."""
    record = (
        b"3,1234,567890123,-,caller=T99;I/O error, dev sdb, sector 8\n"
        b" SUBSYSTEM=block\n DEVICE=b8:16\n"
    )
    assert parse_record(record, BOOT, 1795282117.5) == KernelLine(
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
    """A backslash, a line break, letters of another script, and invalid bytes."""
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
    """The message has the expected and the found value."""
    with pytest.raises(ParseError, match="'/dev/kmsg': expected '<priority>"):
        parse_record(record)


def test_the_same_line_of_the_journal_has_the_same_time() -> None:
    """Otherwise a line that is in both sources would be two events."""
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
    """For any program and language of the file; a partial line and CR are accepted."""
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
        "    May  2 03:36:24 host smartd[612]: Device: /dev/sda, I/O error, dev sda, sector 1",
        "May  2 03:36:24.123456 host smartd[612]: /dev/sda, I/O error, dev sda, sector 1",
        "Mon 2026-11-23 01:48:11 UTC host app[7]: I/O error, dev sda, sector 1",
        "1795398491.123456 host app[7]: I/O error, dev sda, sector 1",
        "/var/log/syslog:May  2 03:36:24 host app[7]: I/O error, dev sda, sector 1",
        "2025-12-22T09:10:52+11:00 host app: I/O error, dev sda, sector 1",
        "user  :err   : [  123.456789] I/O error, dev sda, sector 1",
        "<11>I/O error, dev sda, sector 1",
    ],
)
def test_a_line_of_a_program_in_a_text_file_is_not_the_kernels(line: str) -> None:
    """A syslog file has both."""
    assert parse_text(line)[0].facility != 0


PRINTED = (
    "sd 2:0:0:0: [sdb] tag#5 FAILED Result: hostbyte=DID_OK driverbyte=DRIVER_OK cmd_age=0s",
    "sd 2:0:0:0: [sdb] tag#5 Sense Key : Medium Error [current]",
    "sd 2:0:0:0: [sdb] tag#5 Add. Sense: Unrecovered read error",
    "sd 2:0:0:0: [sdb] tag#5 CDB: Read(10) 28 00 00 00 00 08 00 00 08 00",
    "critical medium error, dev sdb, sector 8 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
    "md/raid1:md0: Disk failure on sdb1, disabling device.",
    "usb 1-2: new high-speed USB device number 4 using xhci_hcd",
)


def told(text: str) -> list[tuple[str, str, int | None, int | None]]:
    """Return the events of a text: kind, device, sector and block."""
    found = parse(text, Tool.KERNEL).events
    return [(e.kind, e.device, e.sector, e.block) for e in (each.event for each in found)]


@pytest.mark.parametrize(
    "carrier",
    [
        "[  123.456789] {}",  # dmesg
        "[Mon Nov 23 01:48:11 2026] {}",  # dmesg -T
        "[Nov23 01:48] {}",  # dmesg -H
        "[  123.456789 <    0.000012>] {}",  # dmesg -d
        "kern  :err   : [  123.456789] {}",  # dmesg -x
        "kern  :err   : [Mon Nov 23 01:48:11 2026] [  T1234] {}",  # dmesg -x -T, printk.caller
        "2026-11-23T01:48:11,123456+00:00 {}",  # dmesg --time-format=iso
        "\x1b[32m[  123.456789] \x1b[0m\x1b[31m{}\x1b[0m",  # dmesg --color=always
        "<3>[  123.456789][    C0] {}",  # dmesg -r, serial console, pstore, netconsole
        "3,416,123456789,-;{}",  # /dev/kmsg
        "6.12.0,3,416,123456789,-,caller=T12;{}",  # netconsole, extended
        "Nov 23 01:48:11 nas kernel: {}",  # journalctl -k; syslog
        "Nov 23 01:48:11.123456 nas kernel: {}",  # journalctl -o short-precise
        "2026-11-23T01:48:11+0000 nas kernel: {}",  # journalctl -o short-iso
        "2026-11-23T01:48:11.123456+00:00 nas kernel: {}",  # journalctl -o short-iso-precise
        "Mon 2026-11-23 01:48:11 UTC nas kernel: {}",  # journalctl -o short-full
        "Mon 2026-11-23 01:48:11 UTC nas kernel[n/a]: {}",  # journalctl -o with-unit
        "[  123.456789] nas kernel: {}",  # journalctl -o short-monotonic
        "1795398491.123456 nas kernel: {}",  # journalctl -o short-unix
        "Nov 23 01:48:11 nas kernel: [  123.456789] {}",  # rsyslog, traditional
        "2026-11-23T01:48:11.123456+00:00 nas kernel: [  123.456789] {}",  # rsyslog, RFC 3339
        "<3>1 2026-11-23T01:48:11.123456+00:00 nas kernel - - - [  123.456789] {}",  # RFC 5424
        "<3>Nov 23 01:48:11 nas kernel: {}",  # RFC 3164
        "Nov 23 01:48:11 nas kernel: <3>[  123.456789] {}",  # sysklogd
        "Nov 23 01:48:11 nas kern.err kernel: {}",  # busybox
        "/var/log/kern.log:Nov 23 01:48:11 nas kernel: {}",  # grep -H
        "12:[  123.456789] {}",  # grep -n
        "> [  123.456789] {}",  # a mail
        "    [  123.456789] {}",  # a forum
        "[  123.456789] {}\r",  # a Windows machine
    ],
)
def test_whatever_carried_the_log_the_events_are_the_same(carrier: str) -> None:
    """Users paste from a dozen programs; the error is the same."""
    expected = told("\n".join(PRINTED))
    assert [kind for kind, *_ in expected][-2:] == ["block_medium_error", "md_disk_failure"]
    assert told("\n".join(carrier.format(each) for each in PRINTED)) == expected


def test_records_and_lines_in_one_text_are_all_read() -> None:
    """Output of a script: records of '/dev/kmsg' with their fields, then the lines of dmesg."""
    text = (
        "4,416,123456789,-;sd 2:0:0:0: [sdb] tag#5 Sense Key : Medium Error [current]\n"
        " SUBSYSTEM=scsi\n"
        " DEVICE=+scsi:2:0:0:0\n"
        "3,417,123456790,-;critical medium error, dev sdb, sector 8\n"
        "[  124.000000] md/raid1:md0: Disk failure on sdb1, disabling device.\n"
    )
    kinds = [kind for kind, *_ in told(text)]
    assert kinds == ["scsi_medium_error", "block_medium_error", "md_disk_failure"]
    assert len(parse_text(text)) == 3


def test_the_level_that_dmesg_decoded_counts() -> None:
    """A line that only resembles a fault is one because of its level, as a name or as a number."""
    words = "ufshcd-pci 0000:00:12.7: Unable to post the query request"
    assert [kind for kind, *_ in told(f"kern  :warn  : [    1.000000] {words}")] == [
        "driver_message"
    ]
    assert told(f"kern  :info  : [    1.000000] {words}") == []


@given(st.binary())
def test_any_bytes_are_a_record_or_refused(record: bytes) -> None:
    """No other exception is raised."""
    with contextlib.suppress(ParseError):
        parse_record(record)
    with contextlib.suppress(ParseError):
        assert len(parse_record(b"6,1,2,-;" + record).text) <= TEXT_CHARACTERS


@given(st.text())
def test_any_text_is_lines(text: str) -> None:
    """No line is lost: the number is that of lines with more than a prefix."""
    assert len(parse_text(text)) <= text.count("\n") + 1


def test_a_file_of_one_line_without_end_is_cut() -> None:
    """10 MB without a line break."""
    assert len(parse_text("x" * 10_000_000)[0].text) == TEXT_CHARACTERS
