"""State and logs of Areca's and 3ware's programs, with all possible faults."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.collectors.model import ParseError
from iowarden.collectors.raid import output
from iowarden.collectors.raid.areca import cli64, event_info
from iowarden.collectors.raid.areca.areca_access import pass_through_drive
from iowarden.collectors.raid.controller import ComponentHealth
from iowarden.collectors.raid.threeware import alarms, tw_cli

if TYPE_CHECKING:
    from collections.abc import Callable

RULE = "=" * 79
DONE = f"{RULE}\nGuiErrMsg<0x00>: Success.\n"
SETS = f"""\
 #  Name             Disks TotalCap  FreeCap DiskChannels       State
{RULE}
 1  Raid Set # 00        3 3000.0GB    0.0GB 13G                Degraded
 2  500.0GB 7            2 2000.0GB    0.0GB 45                 Rebuilding(12.5%)
 3  Failed               1 1000.0GB    0.0GB 6                  Need Init
{DONE}"""
DISKS = f"""\
  # Ch# ModelName                       Capacity  Usage
{RULE}
  1  1  WDC WD10EADS-00L5B1             1000.2GB  Raid Set # 00
  2  2  WDC WD10EADS-00L5B1             1000.2GB  Failed
  3  3  WDC WD10EADS-00L5B1             1000.2GB  500.0GB 7
  4  4  N.A.                               0.0GB  N.A.
  5  5  N.A.                               0.0GB  Failed
  6  6  ST31000340NS                    1000.2GB  HotSpare[Global]
  7  7  ST31000340NS                    1000.2GB  Unstable
{DONE}"""
VOLUMES = f"""\
  # Name             Raid Name       Level   Capacity Ch/Id/Lun  State
{RULE}
  1 my data          Raid Set # 00   Raid5   2000.0GB 00/01/07   Degraded
  2 B                500.0GB 7       Raid 5  1000.0GB 00/00/01   Rebuilding(12.5%)
{DONE}"""
EVENTS = f"""\
Date-Time            Device              Event Type
{RULE}
2026-6-1 08:00:05    Enc#2 SLOT 07       Time Out Error
2026-06-01 08:00:05  Enc#1 Slot#3        Time Out Error
2026-06-01 07:00:00  ARC-1886-VOL#000    Complete Check        001:23:45       4
2026-06-01 06:00:00  IDE Channel #12     Head Crashed
2000-00-00 00:00:00  H/W MONITOR         Raid Powered On
{DONE}"""
SHOW = """\
/c0 Model = 9650SE-4LPML
/c0 Serial Number = L1

Unit  UnitType  Status         %RCmpl  %V/I/M  Stripe  Size(GB)  Cache  AVrfy
------------------------------------------------------------------------------
u0    RAID-5    REBUILDING     55%     -       64K     1862.62   RiW    ON
u1    RAID-1    OK*            -       -       -       931.303   OFF    ON
u3    JBOD      PONDERING      -       -       -       931.303   Xx     ON

VPort Status         Unit Size      Type  Phy Encl-Slot    Model
------------------------------------------------------------------------------
p0    OK             u0   931.51 GB SATA  0   -            WDC WD10 EADS
p1    SMART_FAILURE  u0   931.51 GB SATA  1   -            ST31000340NS
p2    ECC-ERROR      -    931.51 GB SATA  2   -            ST31000340NS
p3    NOT-PRESENT    -    -         -     -   -            -

Name  OnlineState  BBUReady  Status    Volt     Temp     Hours  LastCapTest
---------------------------------------------------------------------------
bbu   On           No        OK        OK       TOO-HIGH 255    06-Jul-2013
"""
ALARMS = """\
Ctl  Date                        Severity  AEN Message
------------------------------------------------------------------------------
c0   [Fri Mar 21 2008 14:19:00]  WARNING   Sector repair completed: port=3, LBA=0x1A2B
c0   [Thu Jan  1 00:00:07 1970]  ERROR     Drive timeout detected: port=3
c0   [Thu Jan  1 00:00:07 1970]  ERROR     Drive timeout detected: port=3
c0   [Someday]                   PANIC     Cosmic ray: unit=2,subunit=0
"""


def test_words_that_are_not_known_need_attention() -> None:
    """A degraded set, one that is rebuilding, one with an unknown state."""
    sets = cli64.parse_raid_sets(SETS)
    assert [(s.label, s.state.health, s.state.word, s.state.done_ratio) for s in sets] == [
        ("Raid Set # 00", ComponentHealth.DEGRADED, "Degraded", None),
        ("500.0GB 7", ComponentHealth.REBUILDING, "Rebuilding", 0.125),
        ("Failed", ComponentHealth.ATTENTION, "Need Init", None),
    ]
    assert sets[0].slots == ("channel 1", "channel 3", "channel 16")


def test_a_failed_disk_is_seen_only_where_disks_are_listed() -> None:
    """Its RAID set may be normal: a spare replaced it."""
    sets = cli64.parse_raid_sets(SETS)[:2]
    disks = [bay.disk for bay in cli64.parse_bays(DISKS, sets) if bay.disk]
    assert [(d.slot, d.state.health, d.array) for d in disks] == [
        ("channel 1", ComponentHealth.OK, "raid set 1"),
        ("channel 2", ComponentHealth.FAILED, ""),
        ("channel 3", ComponentHealth.OK, "raid set 2"),
        ("channel 5", ComponentHealth.FAILED, ""),
        ("channel 6", ComponentHealth.OK, ""),
        ("channel 7", ComponentHealth.ATTENTION, ""),
    ]
    assert disks[2].model == "WDC WD10EADS-00L5B1"


def test_a_raid_set_may_be_called_failed() -> None:
    """The name of a set precedes words for a use."""
    disks = [bay.disk for bay in cli64.parse_bays(DISKS, cli64.parse_raid_sets(SETS)) if bay.disk]
    assert (disks[1].state.health, disks[1].array) == (ComponentHealth.OK, "raid set 3")


def test_volumes_have_names_with_blanks_and_a_scsi_address() -> None:
    """Names are split by the columns of the header."""
    volumes = cli64.parse_volumes(VOLUMES, cli64.parse_raid_sets(SETS))
    assert [(v.label, v.parent, v.level, v.address, v.state.health) for v in volumes] == [
        ("my data", "raid set 1", "Raid5", "0:1:7", ComponentHealth.DEGRADED),
        ("B", "raid set 2", "Raid 5", "0:0:1", ComponentHealth.REBUILDING),
    ]


def test_a_size_in_the_name_of_a_model_is_not_the_capacity() -> None:
    """The capacity ends where its heading does."""
    row = "  1  1  INTEL 160GB SSD G2               160.0GB  Raid Set # 00"
    (bay,) = cli64.parse_bays("\n".join([*DISKS.splitlines()[:2], row, DONE]))
    assert bay.disk
    assert (bay.disk.model, bay.disk.size_bytes) == ("INTEL 160GB SSD G2", 160_000_000_000)


def test_the_oldest_layout_reports_serial_numbers() -> None:
    """Firmware of 2006: serial number, firmware and a state instead of a use."""
    text = (
        " Ch  ModelName         Serial#          FirmRev  Capacity  State\n"
        f"{RULE}\n"
        "  1  ST3400832NS       4NF0A1B2         3.03      400.1GB  RaidSet Member(1)\n"
        "  2  ST3400832NS       4NF0A1B3         3.03      400.1GB  Failed\n"
        f"{DONE}"
    )
    disks = [bay.disk for bay in cli64.parse_bays(text) if bay.disk]
    assert [(d.model, d.serial, d.firmware, d.array, d.state.health) for d in disks] == [
        ("ST3400832NS", "4NF0A1B2", "3.03", "raid set 1", ComponentHealth.OK),
        ("ST3400832NS", "4NF0A1B3", "3.03", "", ComponentHealth.FAILED),
    ]


def test_a_battery_that_is_not_charged_keeps_no_cache() -> None:
    """100 % is OK; a charging one is not OK yet; an unknown state is not OK."""
    for value, health, ready, charge in (
        ("100%", ComponentHealth.OK, True, 1.0),
        ("Charged(98%)", ComponentHealth.OK, True, 0.98),
        ("Charging(45%)", ComponentHealth.BUSY, False, 0.45),
        ("Failed", ComponentHealth.FAILED, False, None),
        ("Worn", ComponentHealth.ATTENTION, False, None),
    ):
        text = f"The Hardware Monitor Information\n{RULE}\nBattery Status : {value}\n{DONE}"
        (battery,) = cli64.parse_hardware(text).batteries
        told = (battery.state.health, battery.ready, battery.charge_ratio)
        assert told == (health, ready, charge)


def test_newer_hardware_monitors_have_sections_and_units() -> None:
    """A fan of an enclosure is distinguished from the controller's own."""
    text = (
        f"The Hardware Monitor Information\n{RULE}\n[Controller H/W Monitor]\n"
        " CPU Temperature  : 55 C\n 12V : 12.16 V\n[Enclosure#2 : Areca ARC-8026]\n"
        f" Fan 01 : 2170 RPM\n Power Supply 01 : Failed\n Power Supply 02 : OK\n{DONE}"
    )
    found = {sensor.name: sensor for sensor in cli64.parse_hardware(text).sensors}
    assert found["CPU Temperature"].temperature_celsius == 55
    assert found["12V"].voltage_volts == 12.16
    assert found["enclosure 2 Fan 01"].fan_rpm == 2170
    states = [found[f"enclosure 2 Power Supply 0{n}"].state for n in (1, 2)]
    assert [state and state.health for state in states] == [
        ComponentHealth.FAILED,
        ComponentHealth.OK,
    ]


def test_a_disk_reports_who_it_is() -> None:
    """Serial number and counts, each with its own name."""
    text = (
        f"Drive Information\n{RULE}\nModel Name : ST3400832NS\nSerial Number : 4NF0A1B2\n"
        f"Firmware Rev. : 3.03\nDevice State : NORMAL\nTimeout Count : 2\n"
        f"Media Error Count : 7\nDevice Temperature : 39 C\n{DONE}"
    )
    disk = cli64.parse_disk_detail(text)
    assert (disk.serial, disk.state.health, disk.temperature_celsius) == (
        "4NF0A1B2",
        ComponentHealth.OK,
        39,
    )
    assert disk.errors_total == {"timeout": 2, "media error": 7}


def test_events_of_each_shape() -> None:
    """Two enclosures, an elapsed time with errors, an unknown text, no date; oldest first."""
    events = event_info.parse_events(EVENTS, "areca 1").events
    assert [(e.kind, e.place, e.code) for e in events] == [
        ("areca_raid_powered_on", "", ""),
        ("areca_other", "channel 12", ""),
        ("areca_complete_checking", "ARC-1886-VOL#000", "4 errors"),
        ("areca_time_out_error", "enclosure 1 slot 3", ""),
        ("areca_time_out_error", "enclosure 2 slot 7", ""),
    ]
    assert events[0].clock_seconds is None
    assert events[1].text == "IDE Channel #12 Head Crashed"
    assert events[3].clock_seconds == events[4].clock_seconds == 1_780_300_805


def test_each_kind_of_an_areca_event_is_recognised_by_its_text() -> None:
    """Whatever is in the column of the device, and whatever the case of its letters."""
    for text in event_info.TEXTS:
        for device in ("IDE Channel #02     ", "Raid Set # 01       ", "a name of 20 letters "):
            for shown in (text, text.upper()):
                line = f"2026-06-01 08:00:00  {device}{shown}\n"
                (event,) = event_info.parse_events(line, "a").events
                assert event.kind in event_info.KINDS
                assert event.kind != event_info.OTHER
                assert event.word == event_info.TEXTS[text][0]


def test_a_line_that_is_no_event_is_not_dropped() -> None:
    """An unknown line between two events needs attention."""
    text = EVENTS.replace("2000-00-00 00:00:00  H/W", "something H/W")
    first = event_info.parse_events(text, "areca 1").events[0]
    assert (first.kind, first.text) == (
        "areca_other",
        "something H/W MONITOR Raid Powered On",
    )


def test_an_empty_log_is_one_and_no_answer_is_none() -> None:
    """A cleared log has its header; the answer of a failing controller has none."""
    assert event_info.parse_events(f"Date-Time Device Event Type\n{DONE}", "a").events == ()
    for text in ("", DONE, "CLI> \n", "GuiErrMsg<0x03>: Invaild Data Returned\n" + EVENTS):
        with pytest.raises(ParseError, match="event info"):
            event_info.parse_events(text, "a")


def test_half_a_line_at_the_end_is_no_event() -> None:
    """The program's output was truncated."""
    cut = event_info.parse_events(EVENTS[: EVENTS.index("H/W MONITOR")], "a")
    assert (cut.cut, len(cut.events)) == (True, 4)
    assert alarms.parse_alarms(ALARMS[:-30], "c0").cut


def test_units_that_rebuild_had_errors_or_have_an_unknown_word() -> None:
    """'*' means that a disk of the unit had an error."""
    found = tw_cli.parse_controller(SHOW, "c0")
    assert [(a.state.health, a.state.word, a.state.done_ratio) for a in found.arrays] == [
        (ComponentHealth.REBUILDING, "REBUILDING", 0.55),
        (ComponentHealth.ATTENTION, "OK*", None),
        (ComponentHealth.ATTENTION, "PONDERING", None),
    ]
    assert [a.policy.write_back for a in found.arrays if a.policy] == [True, False, None]
    assert [(d.slot, d.state.health, d.model) for d in found.disks] == [
        ("port 0", ComponentHealth.OK, "WDC WD10 EADS"),
        ("port 1", ComponentHealth.FAILING, "ST31000340NS"),
        ("port 2", ComponentHealth.FAILING, "ST31000340NS"),
    ]
    (battery,) = found.batteries
    assert (battery.state.health, battery.ready) == (ComponentHealth.ATTENTION, False)
    assert battery.state.word == "OK Temp TOO-HIGH"


def test_an_alarm_has_its_sector_and_an_unknown_one_its_words() -> None:
    """The severity is as it was sent; equal alarms of one second are two."""
    events = alarms.parse_alarms(ALARMS, "c0").events
    assert (events[0].sector, events[0].place, events[0].code) == (0x1A2B, "port 3", "0x0023")
    assert events[1] == events[2]
    assert events[1].clock_seconds == 7
    assert (events[3].kind, events[3].word, events[3].place) == ("3ware_other", "PANIC", "unit 2")
    assert events[3].clock_seconds is None


def test_each_name_of_an_aen_has_one_code() -> None:
    """Those of tw_cli and those of the driver: an event in both has one code."""
    for code, names in alarms.NAMES.items():
        for name in names:
            (event,) = alarms.parse_alarms(
                f"Ctl Date Severity\nc0 [Tue Jul  8 14:52:10 2008] INFO {name}: port=1\n", "c0"
            ).events
            assert (event.code, event.kind) == (f"0x{code:04X}", alarms.kind_of(code))
            assert event.kind in alarms.KINDS


@pytest.mark.parametrize(
    "text",
    [
        "",
        "----------\n",
        "error: (CLI003) specified controller does not exist.\n",
        "No 3ware found\n",
    ],
)
def test_no_controller_is_no_healthy_controller(text: str) -> None:
    """Nothing, an error, or other text is refused with a reason."""
    for read in (
        tw_cli.parse_controllers,
        lambda text: tw_cli.parse_controller(text, "c0"),
        lambda text: alarms.parse_alarms(text, "c0"),
    ):
        with pytest.raises(ParseError, match="tw_cli"):
            read(text)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("u0    RAID-5    REBUILDING     55%     -       64K     1862.62   RiW    ON", "u0 RAID-5"),
        ("p1    SMART_FAILURE  u0   931.51 GB", "p1    SMART_FAILURE"),
        ("u1    RAID-1", "?1    RAID-1"),
        ("bbu   On           No ", "bbu"),
    ],
)
def test_a_row_that_does_not_fit_its_table_takes_no_other_away(before: str, after: str) -> None:
    """A truncated row, a missing column: it is reported, and the others are parsed."""
    assert before in SHOW
    found = tw_cli.parse_controller(SHOW.replace(before, after), "c0")
    (reason,) = found.read_errors
    assert "tw_cli" in reason
    assert len(found.arrays) + len(found.disks) + len(found.batteries) == 6


def test_a_bay_that_cannot_be_placed_moves_no_other_into_its_place() -> None:
    """Slots of an enclosure are counted: after an invalid row each would have another's number."""
    header = "  # Enc# Slot#   ModelName                        Capacity  Usage\n"
    row = "  {n}  {enc}    SLOT 0{n}  ST31000340NS                     1000.2GB  {usage}\n"
    rows = [row.format(n=n, enc="02", usage="Free") for n in (1, 2)]
    unread: list[str] = []
    bays = cli64.parse_bays(header + "".join(rows) + DONE, (), unread)
    assert [bay.disk.slot for bay in bays if bay.disk] == [
        "enclosure 2 slot 1",
        "enclosure 2 slot 2",
    ]
    spoilt = row.format(n=1, enc="0x", usage="Free") + row.format(n=2, enc="02", usage="Failed")
    with pytest.raises(ParseError, match="0x"):
        cli64.parse_bays(header + spoilt + DONE, (), unread)
    channels = DISKS.replace("  1  1  WDC", "  1  x  WDC")
    found = [bay.disk for bay in cli64.parse_bays(channels, (), unread) if bay.disk]
    assert (len(found), found[0].slot, len(unread)) == (5, "channel 2", 1)


READERS: dict[str, tuple[Callable[[str], object], str]] = {
    "raid sets": (cli64.parse_raid_sets, SETS),
    "volumes": (cli64.parse_volumes, VOLUMES),
    "disks": (cli64.parse_bays, DISKS),
    "detail": (cli64.parse_disk_detail, f"Model Name : a\nSerial Number : b\n{DONE}"),
    "hardware": (
        cli64.parse_hardware,
        f"The Hardware Monitor Information\nFan#1 : 5 RPM\nBattery Status : 5%\n{DONE}",
    ),
    "system": (cli64.parse_system, f"System Memory : 256MB/333MHz\nController Name : A\n{DONE}"),
    "areca events": (lambda text: event_info.parse_events(text, "a"), EVENTS),
    "controllers": (
        tw_cli.parse_controllers,
        (
            "Ctl   Model        (V)Ports  Drives   Units   NotOpt  RRate   VRate  BBU\n"
            "c0    9750-4i      18        18       4       0       5       3      -\n"
            "/c0/e0  12       10       6      8        2\n"
        ),
    ),
    "state": (lambda text: tw_cli.parse_controller(text, "c0"), SHOW),
    "serial": (tw_cli.parse_unit_serial, "/c0/u0 serial = 9QJ1X1YY\n"),
    "alarms": (lambda text: alarms.parse_alarms(text, "c0"), ALARMS),
}


@pytest.mark.parametrize("name", READERS)
def test_ends_of_lines_and_escape_sequences_change_nothing(name: str) -> None:
    """CR and LF, a screen that is cleared, a prompt ahead."""
    read, text = READERS[name]
    expected = read(text)
    for changed in (
        text.replace("\n", "\r\n"),
        text.replace("\n", "\r"),
        "\x1b[2J\x1b[1;1H" + text,
    ):
        assert read(changed) == expected
    if read in {reader for reader, _ in list(READERS.values())[:6]}:
        assert read("CLI> \n" + text) == expected


@pytest.mark.parametrize("name", READERS)
def test_any_text_is_read_or_refused(name: str) -> None:
    """A text truncated anywhere, a word replaced anywhere, any text at all."""
    read, text = READERS[name]
    words = sorted({*re.findall(r"\S+", text), "", "\n", "9" * 400, "٣", "-1", "\x00", "\udc80"})

    @given(st.integers(0, len(text)), st.integers(0, 40), st.sampled_from(words) | st.text())
    def check(at: int, length: int, word: str) -> None:
        for damaged in (text[:at] + word + text[at + length :], text[:at], word):
            try:
                read(damaged)
            except ParseError as error:
                assert len(str(error)) < 600  # noqa: PT017 - a text may also be read

    check()


def test_a_disk_that_is_passed_through_has_a_number_by_its_address() -> None:
    """Target 0 and unit 0 is drive 1; each target has eight."""
    assert [pass_through_drive(*at) for at in ((0, 0), (0, 7), (1, 0), (2, 3))] == [
        1,
        8,
        9,
        20,
    ]


def test_ten_megabytes_of_log_are_read() -> None:
    """Far more than any controller has."""
    row = "2026-06-01 08:00:05  IDE Channel #02     Time Out Error\n"
    log = event_info.parse_events(EVENTS.replace(RULE + "\n", RULE + "\n" + row * 20_000, 1), "a")
    assert len(log.events) == 20_005


def test_what_cannot_be_printed_is_escaped() -> None:
    """The name of a RAID set appears in mails and terminals."""
    text = EVENTS.replace("ARC-1886-VOL#000", "a\u202eb\x07c           ")
    places = [event.place for event in event_info.parse_events(text, "a").events]
    assert "a\\u202ebc" in places
    assert output.printable("a\ud800") == "a\\ud800"


def test_a_text_of_areca_whose_words_stand_together_is_the_same_event() -> None:
    """Versions of its firmware differ in blanks and capitals."""
    for text in ("Time Out Error", "TimeOut Error", "TIMEOUTERROR"):
        row = f"2026-06-01 08:00:05  Enc#2 SLOT 07  {text}\n"
        (event,) = event_info.parse_events(row, "areca 1").events
        assert event.kind == "areca_time_out_error"
