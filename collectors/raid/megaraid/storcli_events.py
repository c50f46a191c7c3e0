"""What stands in the event log of MegaRAID controllers: 'storcli /cN show events'. Pure.

An entry is a record of 'key: value' lines that begins with its number. MegaCli prints the same
ones. Entries have codes; of storcli2 nobody has published whether its codes are the same, so its
events are known by their words alone.
Source: logs of machines of others; for codes the firmware's own table (MR_EVT), and what the
maker's user guides print of it. The class of an event says how bad it is to the firmware, to which
a disk that fails is informational; what an event means to us stands in rules/events/events.yaml.
Limits: till the host's driver has set the clock, an event has no time but the seconds since the
controller started: `clock_seconds` is None then. What storcli2 prints was not seen.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iowarden.collectors.event import Event
from iowarden.collectors.raid import output
from iowarden.collectors.raid.controller import Log
from iowarden.collectors.raid.megaraid import storcli
from iowarden.collectors.raid.threeware.alarms import clock_seconds as date_seconds

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SOURCE = "megaraid"
OTHER = "megaraid_other"
WRAP = 2**32
"""Numbers of entries have 32 bits. Source: MR_EVT_PACKED."""

_NAMES: dict[str, tuple[str, tuple[int, ...]]] = {
    "vd_optimal": ("an array has its redundancy again", (0xF9,)),
    "vd_partially_degraded": ("an array lost a part of its redundancy", (0xFA,)),
    "vd_degraded": ("an array lost its redundancy", (0xFB,)),
    "vd_offline": ("the data of an array cannot be reached", (0xFC,)),
    "vd_state_other": ("an array changed to a state that is not known", ()),
    "vd_disabled": ("the controller cannot use an array of this kind", (0xFE, 0xFF, 0x100)),
    "vd_write_hole": (
        "an array without redundancy lost power amid writes: data may be wrong",
        (0x23C,),
    ),
    "vd_created": ("somebody made an array", (0x8A, 0x207)),
    "vd_deleted": ("somebody deleted an array", (0x8B,)),
    "vd_properties_changed": ("properties of an array changed", (0x49,)),
    "vd_inconsistent_at_start": (
        "an array was written to as the power went; a check will tell",
        (0x8C,),
    ),
    "vd_protection_lost": ("an array lost the protection information of its blocks", (0x18F,)),
    "mirror_split": ("somebody split or joined a mirror", (0x186, 0x187)),
    "pds_missing_at_boot": ("disks of the configuration were missing at the start", (0xEE, 0x101)),
    "vds_missing_at_boot": (
        "arrays were missing, or not whole, at the start",
        (0xEF, 0xF0, 0x24F, 0x250),
    ),
    "configuration_missing": ("the whole configuration was missing at the start", (0xF1,)),
    "configuration_cleared": ("somebody cleared the configuration", (0x04,)),
    "configuration_command_lost": ("a change of the configuration was lost", (0x16E,)),
    "foreign_found": (
        "disks came of another configuration, which somebody has to import or clear",
        (0xDA,),
    ),
    "foreign_import_failed": (
        "a configuration of other disks could not be imported, or not all of it",
        (0x107, 0x108, 0x11F, 0x18C),
    ),
    "foreign_imported": ("the configuration of other disks was imported", (0xDB,)),
    "foreign_cleared": ("the configuration of other disks was cleared", (0xDC,)),
    "punctured": (
        "a block is lost on more disks than the array can do without; it is marked as unreadable",
        (0x61,),
    ),
    "double_medium_errors": ("the same blocks are unreadable on two disks", (0x32, 0x3C, 0x4C)),
    "bad_block_table_nearly_full": ("the table of unreadable blocks is nearly full", (0xC4, 0x10D)),
    "bad_block_table_full": (
        "the table of unreadable blocks is full: further ones are not marked",
        (0xC5, 0x10E, 0x111, 0x112),
    ),
    "bad_block_table_cleared": ("the table of unreadable blocks was cleared", (0x14F,)),
    "rebuild_started": ("a rebuild began or went on", (0x68, 0x69, 0x6A)),
    "rebuild_progress": ("a rebuild proceeds", (0x67,)),
    "rebuild_done": ("a rebuild ended", (0x63, 0x64)),
    "rebuild_aborted": ("a rebuild was given up by somebody", (0x62, 0x6B)),
    "rebuild_suspended": ("a rebuild waits", (0x19C, 0x1A1)),
    "rebuild_failed": ("a rebuild failed", (0x65, 0x66)),
    "rebuild_medium_error": (
        "a block was unreadable while there was no redundancy: what was in it is lost",
        (0x6D,),
    ),
    "rebuild_impossible": (
        "a spare does not fit, so that no rebuild starts",
        (0xC1, 0xF5, 0x14D, 0x25D),
    ),
    "copyback_started": ("data are copied from a spare to its successor", (0x114, 0x118, 0x119)),
    "copyback_progress": ("copying to a spare's successor proceeds", (0x117,)),
    "copyback_done": ("copying to a spare's successor ended", (0x116,)),
    "copyback_aborted": (
        "copying to a spare's successor was given up, or waits",
        (0x115, 0x125, 0x126, 0x127, 0x19D, 0x1A2),
    ),
    "copyback_failed": (
        "copying to a spare's successor failed, or is impossible",
        (0x11A, 0x129, 0x12A, 0x14E, 0x25E),
    ),
    "spare_made": ("a hot spare was made", (0x84, 0x87, 0xF4, 0x106)),
    "spare_removed": ("a disk is no longer a hot spare", (0x85, 0x88)),
    "spare_useless": ("a hot spare does not fit for each array", (0x76, 0x86, 0x89, 0x25C)),
    "spare_poll_failed": ("a hot spare did not tell whether it is well", (0x5A,)),
    "emergency_spare": ("an unused disk took the place of a failed one", (0x195, 0x196)),
    "patrol_read": (
        "the regular read of all disks began, waits, proceeds or ended",
        (0x23, 0x24, 0x26, 0x27, 0x5E, 0x1A3, 0x1BD, 0x21E),
    ),
    "patrol_read_cannot_start": ("the regular read of all disks cannot start", (0x124,)),
    "check_progress": (
        "a check of consistency began, waits, proceeds or ended",
        (0x38, 0x3A, 0x41, 0x42, 0xC6, 0x147, 0x197, 0x198, 0x19E),
    ),
    "check_corrected": (
        "a check of consistency found and corrected blocks that did not fit each other",
        (0x3B,),
    ),
    "check_inconsistent": (
        "a check of consistency found blocks that did not fit each other",
        (0x3F,),
    ),
    "check_inconsistent_many": (
        "a check of consistency found so many blocks that do not fit that it tells no more",
        (0x40,),
    ),
    "check_failed": ("a check of consistency failed", (0x3D,)),
    "check_failed_uncorrectable": (
        "a check of consistency found data it could not correct",
        (0x3E,),
    ),
    "initialization": (
        "a first initialisation began, waits, proceeds or ended",
        (0x2E, 0x30, 0x34, 0x35, 0x45, 0x46, 0x47, 0x48, 0xC7, 0x199, 0x19A, 0x19F),
    ),
    "initialization_aborted": ("a first initialisation was given up", (0x43, 0x20A)),
    "initialization_failed": ("a first initialisation failed, or had errors", (0x31, 0x33, 0x44)),
    "reconstruction": (
        "a change of an array's layout began, waits, proceeds or ended",
        (0x4A, 0x4D, 0x4E, 0x50, 0x19B, 0x1A0),
    ),
    "reconstruction_failed": ("a change of an array's layout failed, or had errors", (0x4B, 0x4F)),
    "erase": (
        "a disk or array is cleared, formatted or erased",
        (
            0x52,
            0x54,
            0x55,
            0x56,
            0x58,
            0x59,
            0x1A4,
            0x1A6,
            0x1A7,
            0x1A8,
            0x1A9,
            0x1AB,
            0x1AC,
            0x1AD,
            0x253,
            0x254,
            0x255,
        ),
    ),
    "erase_failed": ("clearing or erasing a disk or array failed", (0x53, 0x1A5, 0x1AA, 0x252)),
    "pd_failed": ("the controller gave a disk up", (0x23A,)),
    "pd_offline": ("the controller took a disk out of its array", ()),
    "pd_online": ("a disk works in its array", ()),
    "pd_rebuilding": ("a disk gets the data of the one it replaces", ()),
    "pd_unconfigured_bad": ("the controller marks a disk that is in no array as bad", ()),
    "pd_unconfigured_good": ("a disk is in no array", ()),
    "pd_hot_spare": ("a disk is a hot spare", ()),
    "pd_copyback": ("a disk gets the data of a spare", ()),
    "pd_jbod": ("a disk is shown to the host as it is", ()),
    "pd_state_other": ("a disk changed to a state that is not known", ()),
    "pd_state_by_user": ("somebody changed the state of a disk", (0x73, 0xE7, 0xE8)),
    "pd_inserted": ("a disk or enclosure came", (0x5B, 0xF7)),
    "pd_removed": ("a disk or enclosure is gone", (0x70, 0xF8)),
    "pd_error": ("a disk gave an error", (0x57,)),
    "pd_transient_error": ("a disk had errors that went away", (0x1BE,)),
    "pd_unusable": ("a disk cannot be used there", (0x5C, 0x83)),
    "pd_not_certified": ("a disk is not on the maker's list", (0xEC, 0x217, 0x239)),
    "pd_locked_up": ("a disk does not answer any more", (0x1E7,)),
    "predictive_failure": ("a disk says itself that it is going to fail", (0x60,)),
    "shield_passed": ("a disk that had errors passed its test", (0x190,)),
    "shield_failed": ("a disk that had errors failed its test", (0x191,)),
    "command_timeout": ("a disk did not answer in time", (0x10B,)),
    "pd_reset": ("the controller reset a disk that did not answer", (0x10C,)),
    "medium_error": ("a disk could not read", ()),
    "medium_error_corrected": (
        "a block that a disk could not read was written anew from the others",
        (0x2F, 0x39, 0x5D, 0x6E, 0x110, 0x151),
    ),
    "medium_error_uncorrectable": (
        "a block that a disk could not read could not be restored: what was in it is lost",
        (0x5F, 0x6F, 0x10F),
    ),
    "reassign_failed": ("a disk could not put a bad block elsewhere", (0x6C,)),
    "bad_block_remapped": ("a disk put a bad block elsewhere", (0xE2,)),
    "hardware_error": ("a disk tells a fault of its hardware", ()),
    "aborted_command": ("a disk gave a command up: the disk, or its cable", ()),
    "sense_predictive": ("a disk says in an answer that it is going to fail", ()),
    "recovered_error": ("a disk corrected an error itself", ()),
    "sense": ("a disk answered with a condition that is no fault", ()),
    "sense_other": ("a disk answered with a condition that is not known", ()),
    "pd_degraded_media": ("a disk works with a part of its medium", (0x21F, 0x220)),
    "pd_hot": ("a disk is hot", (0x1DF,)),
    "pd_too_hot": ("a disk is too hot", (0x1E0, 0x244)),
    "pd_temperature_normal": ("a disk is no longer hot", (0x1E1,)),
    "pd_throttled": ("a disk gets fewer requests, to cool down", (0x1E2,)),
    "pd_worn": ("a flash disk is nearly worn out", (0x1E5,)),
    "pd_worn_out": ("a flash disk is worn out", (0x1E6,)),
    "pd_life": (
        "how worn a flash disk is, or that it is no longer slowed down",
        (0x1E3, 0x1E4, 0x25A),
    ),
    "pd_power_state": ("a disk or array sleeps or wakes", (0x14B, 0x183)),
    "pd_power_state_failed": ("a disk did not wake, or not sleep", (0x170,)),
    "pd_firmware": ("the firmware of a disk is replaced", (0x12B, 0x12C)),
    "pd_firmware_failed": ("replacing the firmware of a disk failed", (0x12D, 0x12E)),
    "pd_told": (
        "something about a disk that is no fault",
        (0x193, 0x194, 0x223, 0x231, 0x20E, 0x20F, 0x21C, 0x21D, 0x11D),
    ),
    "path_lost": ("one of several ways to a disk or enclosure is lost", (0x74, 0x121, 0xDF, 0x188)),
    "path_restored": (
        "a way to a disk or enclosure is there again, or has another speed",
        (0x75, 0x120, 0xE0, 0x189, 0x1B8),
    ),
    "phy_errors": ("a link has too many errors: cable, backplane or port", (0xE1,)),
    "topology_error": (
        "cables or expanders are connected as they must not be, or do not answer",
        (0x77, 0x78, 0x79, 0x7A, 0x7B, 0x7C, 0x7D, 0x7E, 0x7F, 0x80, 0x81, 0x82, 0x150, 0x233),
    ),
    "cache_lost": (
        "data in the controller's cache were lost",
        (0x02, 0x0A, 0x0B, 0x0D, 0x128, 0x242, 0x251),
    ),
    "cache_discarded_by_hand": ("somebody discarded data in the controller's cache", (0xED, 0x145)),
    "cache_pinned": (
        "data for an array that is missing wait in the controller's cache",
        (0x143, 0x144),
    ),
    "cache_recovered": (
        "data in the controller's cache were written to the disks",
        (0x03, 0x0C, 0x146, 0x203, 0x204, 0x23B),
    ),
    "cache_policy_changed": ("how an array caches was changed", (0x36,)),
    "write_back_off": (
        "the battery does not keep the cache for now: arrays write through, and are slower",
        (0xC3,),
    ),
    "write_back_on": ("the battery keeps the cache: arrays write back again", (0xC2,)),
    "battery_present": ("there is a battery or capacitor", (0x8D, 0x8F, 0x90, 0x221)),
    "battery_absent": ("there is no battery or capacitor", (0x8E,)),
    "battery_removed": ("the battery or capacitor was removed", (0xA1,)),
    "battery_replace": (
        "the battery or capacitor is worn or failed, and must be replaced",
        (0x96, 0xC8, 0x182, 0x18B, 0x1F0, 0x1F1, 0x1F2, 0x1FD),
    ),
    "battery_low": ("the battery's charge or voltage is too low to keep the cache", (0x92, 0xA2)),
    "battery_hot": ("the battery is too hot", (0x91,)),
    "battery_charge": (
        "the battery is charged, discharges or has another temperature",
        (0x93, 0x94, 0x95, 0xA3, 0xF2, 0x1EE),
    ),
    "battery_learn": (
        "the battery's capacity is measured, or will be",
        (
            0x97,
            0x98,
            0x99,
            0x9B,
            0x9C,
            0x9D,
            0x9E,
            0x9F,
            0xA0,
            0xD1,
            0xD2,
            0xFD,
            0x132,
            0x133,
            0x17A,
            0x1C1,
            0x1C2,
        ),
    ),
    "battery_learn_failed": ("measuring the battery's capacity failed", (0x9A, 0xD3)),
    "battery_fault": (
        "the battery, its cable or firmware does not work as it should",
        (0x14A, 0x1AF, 0x1B1, 0x1DE),
    ),
    "battery_told": ("something about the battery that is no fault", (0x11C, 0x18A, 0x18D, 0x1B0)),
    "enclosure_lost": ("an enclosure does not answer, or only now and then", (0xA6, 0xBA, 0xBC)),
    "enclosure_shutdown": ("an enclosure shuts down", (0xB5, 0x213)),
    "enclosure_fan": ("a fan of an enclosure failed or was removed", (0xA8, 0xAA)),
    "enclosure_power": (
        "a power supply of an enclosure failed, is off or was removed",
        (0xAB, 0xAD, 0xCC, 0xCE),
    ),
    "enclosure_module": (
        "a module of an enclosure failed or was removed",
        (0xAE, 0xB0, 0x123, 0x249, 0x24A),
    ),
    "enclosure_temperature": ("an enclosure is too hot or too cold", (0xB1, 0xB3, 0xE4)),
    "enclosure_temperature_critical": (
        "an enclosure is far too hot or too cold",
        (0xB2, 0xB4, 0x248),
    ),
    "enclosure_fault": (
        "a part of an enclosure does not work as it should",
        (0xB8, 0xB9, 0xBB, 0xEB, 0x247, 0x24B, 0x24C, 0x24D),
    ),
    "enclosure_told": (
        "something about an enclosure that is no fault",
        (
            0xA4,
            0xA5,
            0xA7,
            0xA9,
            0xAC,
            0xAF,
            0xCD,
            0xCF,
            0xD0,
            0xE9,
            0xEA,
            0xF3,
            0xF6,
            0x104,
            0x109,
            0x122,
            0x14C,
            0x178,
        ),
    ),
    "enclosure_unfit": (
        "an enclosure is connected in a way that is not supported",
        (0xB6, 0xB7, 0xBD, 0xBE),
    ),
    "firmware_started": ("the controller started", (0x00,)),
    "controller_told": (
        "something about the controller that is no fault",
        (
            0x01,
            0x07,
            0x08,
            0x09,
            0x0E,
            0x1C,
            0x1D,
            0x25,
            0x28,
            0x29,
            0x2A,
            0x2B,
            0x2C,
            0x102,
            0x103,
            0x105,
            0x10A,
            0x11E,
            0x12F,
            0x130,
            0x131,
            0x152,
            0x171,
            0x172,
            0x173,
            0x174,
            0x175,
            0x179,
            0x185,
            0x1BB,
            0x1BC,
            0x1C3,
            0x1C4,
            0x1EF,
            0x1F6,
            0x1F7,
            0x1F8,
            0x1F9,
            0x215,
            0x224,
            0x225,
            0x22B,
            0x22C,
            0x241,
            0x23E,
            0x23F,
            0xD4,
            0xD5,
            0xD7,
            0xD9,
            0xE3,
            0xE5,
            0xE6,
        ),
    ),
    "controller_changed": (
        "somebody changed the controller's firmware or settings",
        (0x10, 0x15, 0x16, 0x153, 0x205, 0x206, 0x222, 0x226),
    ),
    "firmware_flash_failed": (
        "replacing the controller's firmware failed",
        (
            0x11,
            0x12,
            0x13,
            0x14,
            0x17,
            0x18,
            0x19,
            0x1A,
            0x1B,
            0x1C0,
            0x1EA,
            0x1EB,
            0x21A,
            0x21B,
            0x237,
            0x238,
        ),
    ),
    "log_cleared": ("the controller's log was cleared", (0x1E,)),
    "log_wrapped": ("the controller's log began to overwrite its oldest entries", (0x1F,)),
    "firmware_crashed": ("the controller's firmware failed", (0x0F,)),
    "controller_reset": ("the controller was reset while it worked", (0x159,)),
    "memory_uncorrectable": ("the controller's memory failed", (0x20, 0x245)),
    "memory_short": ("the controller's memory does not suffice", (0x22,)),
    "memory_corrected": ("the controller's memory had an error that was corrected", (0x21,)),
    "memory_corrected_often": (
        "the controller's memory has many errors that are corrected",
        (0xC9, 0xCB),
    ),
    "memory_corrected_critical": (
        "the controller's memory has far too many errors that are corrected",
        (0xCA,),
    ),
    "controller_cache_error": (
        "the controller's processor had an error in its cache",
        (0x1C5, 0x1C6),
    ),
    "controller_check_failed": (
        "a test of the controller or its settings failed",
        (0xD6, 0xD8, 0xDD, 0xDE, 0x113, 0x234),
    ),
    "controller_boot_errors": ("the controller had errors as it started", (0x1C7, 0x1C9)),
    "controller_boot_failed": (
        "the controller had grave errors as it started, and works in safe mode or not at all",
        (0x1C8, 0x1CA, 0x1CB),
    ),
    "controller_power_warning": (
        "the controller did not end as it should, or must be switched off",
        (0x11B, 0x257),
    ),
    "controller_hot": ("the controller is hot", (0x1FA,)),
    "controller_too_hot": ("the controller is too hot", (0x212,)),
}
"""What events are called here: what each means, and its codes."""

_CODES = {code: name for name, (_, codes) in _NAMES.items() for code in codes}
KINDS = {
    **{f"{SOURCE}_{name}": meaning for name, (meaning, _) in _NAMES.items()},
    OTHER: "an event that is not known",
}
"""Every kind of event this module tells, and what it means."""

CLASSES = {
    -2: "DEBUG",
    -1: "PROG",
    0: "INFO",
    1: "WARNING",
    2: "CRITICAL",
    3: "FATAL",
    4: "DEAD",
}
"""Source: MR_EVT_CLASS of megaraid_sas.h."""
_DISK_STATES = {
    "UNCONFIGURED_GOOD": "pd_unconfigured_good",
    "UNCONFIGURED_BAD": "pd_unconfigured_bad",
    "HOT SPARE": "pd_hot_spare",
    "OFFLINE": "pd_offline",
    "FAILED": "pd_failed",
    "REBUILD": "pd_rebuilding",
    "ONLINE": "pd_online",
    "COPYBACK": "pd_copyback",
    "SYSTEM": "pd_jbod",
    "JBOD": "pd_jbod",
}
"""All but the last three were seen in logs."""
_ARRAY_STATES = {
    "OPTIMAL": "vd_optimal",
    "PARTIALLY DEGRADED": "vd_partially_degraded",
    "DEGRADED": "vd_degraded",
    "OFFLINE": "vd_offline",
}
_SENSE = {
    0x0: "sense",
    0x1: "recovered_error",
    0x2: "sense",
    0x3: "medium_error",
    0x4: "hardware_error",
    0x5: "sense",
    0x6: "sense",
    0xB: "aborted_command",
}
"""By sense key; the others are not known here. Source: SPC-4, table 28."""
_PREDICTIVE = 0x5D
"""Additional sense code: failure prediction threshold exceeded."""
_WORDS = (
    (r"VD \S+ is now OPTIMAL", "vd_optimal"),
    (r"VD \S+ is now PARTIALLY DEGRADED", "vd_partially_degraded"),
    (r"VD \S+ is now DEGRADED", "vd_degraded"),
    (r"VD \S+ is now OFFLINE", "vd_offline"),
    (r"Predictive failure\b", "predictive_failure"),
    (r"Command timeout on PD\b", "command_timeout"),
    (r"PD \S+(?: Path \S+)?\s{1,4}reset\b", "pd_reset"),
    (r"Puncturing bad block\b", "punctured"),
    (r"(?:\S+ ){0,4}corrected medium error\b", "medium_error_corrected"),
    (r"Corrected medium error\b", "medium_error_corrected"),
    (r"Unrecoverable medium error during rebuild\b", "rebuild_medium_error"),
    (r"(?:Unrecoverable|Uncorrectable) medium error\b", "medium_error_uncorrectable"),
    (r"Rebuild (?:automatically )?(?:started|resumed)\b", "rebuild_started"),
    (r"Rebuild complete\b", "rebuild_done"),
    (r"Rebuild failed\b", "rebuild_failed"),
    (r"Error on PD\b", "pd_error"),
    (r"Inserted: ", "pd_inserted"),
    (r"Removed: ", "pd_removed"),
    (r"Patrol Read (?:started|complete|resumed|paused)\b", "patrol_read"),
    (r"Consistency Check (?:started|done)\b", "check_progress"),
    (r"BBU enabled\b", "write_back_on"),
    (r"BBU disabled\b", "write_back_off"),
)
"""How texts begin, where no code is known. 'done with corrections' is not among them."""

_NUMBER = re.compile(
    r"(?:seqNum|Sequence Number)\s*:\s*(0x[0-9a-f]{1,8}|\d{1,10})\s*", re.IGNORECASE | re.ASCII
)
_FIELD = re.compile(r"\s*([A-Za-z][A-Za-z ]{1,40}?)\s*:\s*(.*?)\s*")
_DESCRIBED = re.compile(r"\s*Event Description\s*:", re.IGNORECASE)
_TRAILER = re.compile(r"\s*(CLI Version|Operating system|Controller|Status|Description)\s*=.*")
_EXIT = re.compile(r"\s*Exit Code: 0x[0-9a-f]{1,8}\s*", re.IGNORECASE | re.ASCII)
_STATUS = re.compile(r"^Status\s*=\s*(\w+)[ \t]*\n(?:Description\s*=\s*(.*))?", re.MULTILINE)
_DISK_CHANGE = re.compile(r"State change (by user )?on PD \S+(?: \S+)? from .+ to ([A-Z_ ]+)\(")
_ARRAY_CHANGE = re.compile(r"State change (?:by user )?on VD \S+ from .+ to ([A-Z_ ]+)\(")
_SENSE_DATA = re.compile(
    r"Sense: ([0-9a-f]{1,2})/([0-9a-f]{1,2})/([0-9a-f]{1,2})", re.IGNORECASE | re.ASCII
)
_COMMAND = re.compile(r"CDB: ((?:[0-9a-f]{2} ){5,31}[0-9a-f]{2})", re.IGNORECASE | re.ASCII)
_AT = re.compile(r"\bPD \S+ at ([0-9a-f]{1,16})\b", re.IGNORECASE)
_DISK = re.compile(
    r"\bPD ([0-9a-f]{1,4})\((?:e0x([0-9a-f]{1,4})/s(\d{1,3})|([^)]{1,60}))\)", re.IGNORECASE
)
_ARRAY = re.compile(r"\bVDs? ([0-9a-f]{1,3})(?:/([0-9a-f]{1,3}))?\b", re.IGNORECASE)
_ENCLOSURE = re.compile(r"\bEncl(?:osure)?(?: PD)? ([0-9a-f]{1,4})\b", re.IGNORECASE)
_NO_ENCLOSURE = frozenset({0xFF, 0xFFFF})
_COMMANDS = {
    0x08: (1, 4),
    0x0A: (1, 4),
    0x28: (2, 6),
    0x2A: (2, 6),
    0x2E: (2, 6),
    0x2F: (2, 6),
    0xA8: (2, 6),
    0xAA: (2, 6),
    0x88: (2, 10),
    0x8A: (2, 10),
    0x8E: (2, 10),
    0x8F: (2, 10),
}
"""Where in a command its first block's address stands: reads, writes, verifies. Source: SBC-3."""
_BITS_21 = 0x1FFFFF


def parse_events(text: str, name: str) -> Log:
    """Return what 'show events' lists, by its numbers, of the controller `name`.

    Programs list the newest first or last; an entry that is listed twice is told once. A record
    without its description is one of a kind that is not known: nothing is dropped. A text that says
    it succeeded and nothing else is an empty log. `sequence` is the entry's number.
    Errors: ParseError, for what is no log: the small build of storcli2 says 'Un-supported command'.
    """
    plain = output.plain(text)
    records: list[list[str]] = []
    for line in plain.split("\n"):
        if _NUMBER.fullmatch(line):
            records.append([line])
        elif _TRAILER.fullmatch(line) or _EXIT.fullmatch(line):
            records.append([])  # what is below it is of no entry
        elif records and records[-1]:
            records[-1].append(line)
    entries = [each for each in records if each]
    status = _STATUS.search(plain)
    if not entries:
        other = [
            line for line in plain.split("\n") if line.strip() and not _TRAILER.fullmatch(line)
        ]
        if status is None or status[1].casefold() != "success" or other:
            told = plain if status is None else "\n".join((*other, status[2] or status[1]))
            raise output.refused(f"storcli '{name}' show events", "'seqNum: 0x...'", told)
    whole = plain.endswith("\n") or status is not None
    described = [any(map(_DESCRIBED.match, record)) for record in entries]
    ended = status is not None or any(map(_EXIT.fullmatch, plain.split("\n")))
    if not ended and any(described) and not described[-1]:
        whole = False  # it was cut between two lines of its last record
    found = {}
    for record in entries:
        event = _event(record, name)
        found[event.sequence, event.clock_seconds, event.text] = event
    events = sorted(found.values(), key=lambda event: event.sequence)
    if events and events[-1].sequence - events[0].sequence > WRAP // 2:
        events.sort(key=lambda event: (event.sequence + WRAP // 2) % WRAP)
    return Log(tuple(events), cut=not whole)


def _event(record: Sequence[str], name: str) -> Event:
    number = _NUMBER.fullmatch(record[0])
    digits = number[1] if number else "0"
    fields: dict[str, str] = {}
    for line in record[1:]:
        if found := _FIELD.fullmatch(line):
            fields.setdefault(found[1].casefold(), found[2])
    description = output.printable(" ".join(fields.get("event description", "").split()))
    told = re.fullmatch(r"0x0*([0-9a-f]{1,8})", fields.get("code", ""), re.IGNORECASE)
    code = int(told[1], 16) if told else None
    # Only the first generation prints 'seqNum', and has these codes.
    known = code if record[0].lstrip().casefold().startswith("seqnum") else None
    sense = _SENSE_DATA.search(description)
    block = _block(description)
    return Event(
        SOURCE,
        _kind(known, description),
        description or output.printable(" ".join(" ".join(record).split())[:400]),
        controller=name,
        place=_place(description, fields),
        block=block,
        sense_key=int(sense[1], 16) if sense else None,
        asc=int(sense[2], 16) if sense else None,
        ascq=int(sense[3], 16) if sense else None,
        code="" if code is None else f"0x{code:04X}",
        word=_word(fields.get("class", "")),
        clock_seconds=_clock(fields.get("time", "")),
        sequence=int(digits, 16 if "x" in digits.casefold() else 10),
    )


def kind_of(code: int, description: str) -> str:
    """Return the kind of an event by its code and text: also of one that the kernel logged."""
    return _kind(code, description)


def where(description: str) -> tuple[str, int | None]:
    """Return place and block of an event by its text alone: of one that the kernel logged."""
    return _place(description, {}), _block(description)


def _kind(code: int | None, description: str) -> str:
    """Changes of state and sense data are known by what they tell, whatever their code."""
    if change := _DISK_CHANGE.match(description):
        name = "pd_state_by_user" if change[1] else _DISK_STATES.get(change[2].strip())
        return f"{SOURCE}_{name or 'pd_state_other'}"
    if change := _ARRAY_CHANGE.match(description):
        return f"{SOURCE}_{_ARRAY_STATES.get(change[1].strip(), 'vd_state_other')}"
    if sense := _SENSE_DATA.search(description):
        key, asc = int(sense[1], 16), int(sense[2], 16)
        name = "sense_predictive" if asc == _PREDICTIVE else _SENSE.get(key, "sense_other")
        return f"{SOURCE}_{name}"
    name = _CODES.get(code) if code is not None else None
    if name is None and re.match(r"Consistency Check done with", description):
        name = "check_corrected"
    if name is None:
        name = next((name for words, name in _WORDS if re.match(words, description)), None)
    return f"{SOURCE}_{name}" if name else OTHER


def _word(told: str) -> str:
    """Return the class as a word for severity, '' where it tells none."""
    if re.fullmatch(r"-?\d{1,3}", told, re.ASCII):
        return CLASSES.get(int(told), output.printable(told))
    words = {"informational": "INFO", "information": "INFO", "progress": "PROG"}
    return words.get(told.casefold(), output.printable(told).upper())[:40]


def _clock(told: str) -> float | None:
    found = date_seconds(told)
    return storcli.clock_seconds(told) if found is None else found


def _place(description: str, fields: Mapping[str, str]) -> str:
    """Return the place of a disk or array as in the controller's state; '' where it tells none."""
    if found := _DISK.search(description):
        enclosure = int(found[2], 16) if found[2] else None
        if found[3] is None:
            return f"device {int(found[1], 16)}"
        slot = int(found[3])
        if enclosure is None or enclosure in _NO_ENCLOSURE:
            return f"slot {slot}"
        return f"enclosure {enclosure} slot {slot}"
    target = fields.get("target id", "")
    if re.fullmatch(r"\d{1,4}", target, re.ASCII):
        return f"virtual drive {int(target)}"
    if found := _ARRAY.search(description):
        return f"virtual drive {int(found[2] or found[1], 16)}"
    if found := _ENCLOSURE.search(description):
        return f"enclosure {int(found[1], 16)}"
    return ""


def _block(description: str) -> int | None:
    """Return the disk's block that is told, or that the command which failed begins at."""
    if found := _AT.search(description):
        return int(found[1], 16)
    command = _COMMAND.search(description)
    if command is None:
        return None
    data = bytes.fromhex(command[1])
    if data[0] not in _COMMANDS:
        return None
    begin, end = _COMMANDS[data[0]]
    if len(data) < end:
        return None
    address = int.from_bytes(data[begin:end], "big")
    return address & _BITS_21 if begin == 1 else address
