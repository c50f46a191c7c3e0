"""Events of MegaRAID controllers from storcli, with all possible faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.storcli_texts import RECORDS, TEXT

from iowarden.collectors.model import ParseError
from iowarden.collectors.raid.megaraid import storcli_events
from iowarden.collectors.raid.megaraid.storcli_event_codes import NAMES

if TYPE_CHECKING:
    from iowarden.collectors.event import StorageEvent


def event(
    description: str, code: int = 0x9999, word: str = "0", more: str = "None"
) -> StorageEvent:
    """One entry of a log."""
    text = (
        f"seqNum: 0x00000001\nTime: Mon Jun  1 08:00:05 2026\n\nCode: 0x{code:08x}\nClass: {word}\n"
        f"Locale: 0x02\nEvent Description: {description}\nEvent Data:\n===========\n{more}\n"
    )
    (found,) = storcli_events.parse_events(text, "megaraid c0").events
    return found


def test_a_log_is_reported_oldest_first_by_its_numbers() -> None:
    """It is listed newest first; the first entry has no time yet."""
    log = storcli_events.parse_events(RECORDS, "megaraid c0")
    assert not log.cut
    assert [(e.sequence, e.kind, e.place, e.word, e.code) for e in log.events] == [
        (0xCF1A, "megaraid_firmware_started", "", "INFO", "0x0000"),
        (0xCF1B, "megaraid_pd_failed", "enclosure 252 slot 5", "INFO", "0x0072"),
        (0xCF1D, "megaraid_vd_degraded", "virtual drive 0", "CRITICAL", "0x00FB"),
    ]
    assert [e.clock_seconds for e in log.events] == [None, 1_780_336_990.0, 1_780_336_991.0]
    assert {(e.source, e.controller) for e in log.events} == {("megaraid", "megaraid c0")}


@pytest.mark.parametrize(
    ("description", "code", "kind", "place"),
    [
        ("VD 0a/10 is now OFFLINE", 0xFC, "vd_offline", "virtual drive 16"),
        ("Predictive failure: PD 02(e0xff/s2)", 0x60, "predictive_failure", "slot 2"),
        ("Removed: PD 0b(e0x0e/s5)", 0x70, "pd_removed", "enclosure 14 slot 5"),
        ("Fan failed on enclosure", 0xA8, "enclosure_fan", ""),
        ("Battery has failed", 0x96, "battery_replace", ""),
        (
            "State change on PD 05(e0x06/s1) from OFFLINE(10) to ONLINE(18)",
            0x72,
            "pd_online",
            "enclosure 6 slot 1",
        ),
        (
            "State change by user on PD 05(e0x06/s1) from ONLINE(18) to OFFLINE(10)",
            0x73,
            "pd_state_by_user",
            "enclosure 6 slot 1",
        ),
        (
            "State change on PD 05(e0x06/s1) from ONLINE(18) to LIMBO(99)",
            0x72,
            "pd_state_other",
            "enclosure 6 slot 1",
        ),
        (
            "State change on VD 00/1 from OPTIMAL(3) to DEGRADED(2)",
            0x51,
            "vd_degraded",
            "virtual drive 1",
        ),
        (
            "State change on VD 00/1 from OPTIMAL(3) to PARTIALLY DEGRADED(1)",
            0x51,
            "vd_partially_degraded",
            "virtual drive 1",
        ),
        ("A cosmic ray", 0x9999, "other", ""),
        (
            "Consistency Check done with corrections on VD 00/0",
            0x9999,
            "check_corrected",
            "virtual drive 0",
        ),
        (
            "Command timeout on PD 0b(e0x0e/s5) Path 92, CDB: 2a",
            0x9999,
            "command_timeout",
            "enclosure 14 slot 5",
        ),
    ],
)
def test_what_an_event_is_and_where(description: str, code: int, kind: str, place: str) -> None:
    """By its code; changes of state by the new state; unknown ones are not dropped."""
    found = event(description, code)
    assert (found.kind, found.place) == (f"megaraid_{kind}", place)


@pytest.mark.parametrize(
    ("sense", "kind"),
    [
        ("3/11/00", "medium_error"),
        ("4/44/00", "hardware_error"),
        ("1/18/00", "recovered_error"),
        ("6/29/00", "sense"),
        ("b/4b/03", "aborted_command"),
        ("0/5d/10", "sense_predictive"),
        ("e/1d/00", "sense_other"),
    ],
)
def test_sense_data_report_what_it_is(sense: str, kind: str) -> None:
    """For the firmware all are informational; the block is the start of the command."""
    command = "28 00 12 34 56 78 00 00 08 00"
    found = event(
        f"Unexpected sense: PD 02(e0x20/s6) Path 1a, CDB: {command}, Sense: {sense}", 0x71
    )
    assert (found.kind, found.place) == (f"megaraid_{kind}", "enclosure 32 slot 6")
    key, asc, ascq = (int(part, 16) for part in sense.split("/"))
    assert (found.sense_key, found.asc, found.ascq) == (key, asc, ascq)
    assert found.block == 0x12345678


def test_the_block_that_was_corrected_or_lost_is_reported() -> None:
    """It is the disk's own, in hexadecimal digits."""
    assert event("Puncturing bad block on PD 03(e0xff/s3) at 2b3c4d5", 0x61).block == 0x2B3C4D5
    long = "88 00 00 00 00 01 00 00 00 02 00 00 00 08 00 00"
    assert (
        event(f"Command timeout on PD 0b(e0x0e/s5) Path 92, CDB: {long}", 0x10B).block == 2**32 + 2
    )
    short = "08 1f ff ff 08 00"
    assert (
        event(f"Command timeout on PD 0b(e0x0e/s5) Path 92, CDB: {short}", 0x10B).block == 0x1FFFFF
    )
    assert (
        event("Command timeout on PD 0b(e0x0e/s5) Path 92, CDB: 12 00 00 00 ff 00", 0x10B).block
        is None
    )


@pytest.mark.parametrize(
    ("code", "text", "kind"),
    [
        ("5d", "Unrecoverable medium error during rebuild on PD 03(e0xfc/s3) at 1f", "rebuild_"),
        ("5d", "Corrected medium error during recovery on PD 03(e0xfc/s3) at 1f", "medium_error_c"),
        ("27", "VD 00/0 is now DEGRADED", "vd_degraded"),
        ("63", "Predictive failure: PD 03(e0xfc/s3)", "predictive_failure"),
        ("61", "Corrected medium error during recovery on PD 03(e0xfc/s3) at 1f", "punctured"),
        ("fc", "VD 00/0 is now OPTIMAL", "vd_offline"),
    ],
)
def test_of_a_code_and_a_text_that_differ_the_worse_counts(code: str, text: str, kind: str) -> None:
    """Firmware with other codes, or a log that somebody typed: neither may hide a fault."""
    record = f"seqNum: 0x1\nCode: 0x000000{code}\nClass: 0\nEvent Description: {text}\n\n"
    (event,) = storcli_events.parse_events(record, "c").events
    assert event.kind.startswith(f"megaraid_{kind}")


def test_the_second_generation_is_known_by_its_words_alone() -> None:
    """It is not published that its codes are the same; an unknown text is an unknown kind."""
    record = (
        "Sequence Number: 815\nTime: 2026/06/01 08:00:05\nCode: 0x00000060\nClass: Critical\n"
        "Event Description: {}\nEvent Data:\n===\nNone\n\n"
    )
    texts = ("VD 00/0 is now DEGRADED", "The energy pack is unhappy")
    found = [storcli_events.parse_events(record.format(text), "c").events[0] for text in texts]
    assert [e.kind for e in found] == ["megaraid_vd_degraded", "megaraid_other"]
    assert {(e.sequence, e.word, e.clock_seconds) for e in found} == {
        (815, "CRITICAL", 1_780_300_805.0)
    }


def test_an_empty_log_is_one_and_a_refusal_is_none() -> None:
    """The small build of storcli2 cannot read it, which is not an empty log."""
    done = "Controller = 0\nStatus = {}\nDescription = {}\n"
    assert storcli_events.parse_events(done.format("Success", "None"), "c").events == ()
    refused = done.format("Failure", "Un-supported command")
    for text in (
        refused,
        "",
        "errors\n",
        TEXT,
        f"Nothing of interest\n{done.format('Success', '')}",
    ):
        with pytest.raises(ParseError, match="show events"):
            storcli_events.parse_events(text, "c")


def test_a_log_that_ends_within_a_line_is_cut() -> None:
    """Half a description is no event."""
    assert storcli_events.parse_events(RECORDS[: RECORDS.index("Firmware init") + 9], "c").cut
    # Between two lines of an entry, too: what it is would never be told.
    number = RECORDS.rindex("seqNum")
    assert storcli_events.parse_events(RECORDS[: RECORDS.index("\n", number) + 1], "c").cut


def test_a_record_without_a_description_is_not_dropped() -> None:
    """It has its own lines; those of the program do not belong to it."""
    text = "seqNum: 0x00000007\nCode: 0x00000999\nClass: 9\nStatus = Success\nDescription = None\n"
    (found,) = storcli_events.parse_events(text, "c").events
    assert (found.kind, found.sequence, found.word) == ("megaraid_other", 7, "9")
    assert found.text == "seqNum: 0x00000007 Code: 0x00000999 Class: 9"


def test_an_entry_that_is_listed_twice_is_one_and_numbers_may_begin_anew() -> None:
    """At 2^32 the numbering continues with 0."""
    log = storcli_events.parse_events(RECORDS + RECORDS, "c")
    assert len(log.events) == 3
    record = "seqNum: {}\nEvent Description: {}\nEvent Data:\nNone\n"
    text = "".join(
        record.format(*each) for each in (("0x1", "c"), ("0xffffffff", "a"), ("0x0", "b"))
    )
    assert [e.text for e in storcli_events.parse_events(text, "c").events] == ["a", "b", "c"]


def test_each_code_has_one_kind() -> None:
    """No code is in two kinds, and none exceeds the firmware's."""
    codes = [code for _, own in NAMES.values() for code in own]
    assert len(codes) == len(set(codes))
    assert all(0 <= code <= 0x25E for code in codes)
    for name, (_, own) in NAMES.items():
        for code in own:
            assert event("Something", code).kind == f"megaraid_{name}"
            assert storcli_events.kind_of(code, "Something") in storcli_events.KINDS
