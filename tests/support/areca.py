"""A server with Areca controllers that show their disks as they are, written while it is played.

What 'cli64' and smartctl print is written from their grammar.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from support.attached import Files, host, node, probe_answer
from support.recordings import BOOTED_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping

HOUR = 3600.0
DONE = f"{'=' * 79}\nGuiErrMsg<0x00>: Success.\n"
HEADER = f"Date-Time            Device              Event Type\n{'=' * 79}\n"
MODEL = "WDC WD1600AAJS-00WAA0"
LOG_IN = ("Proxy Or Inband", "HTTP Log In")
POWERED_ON = ("H/W MONITOR", "Raid Powered On")
DRAM = ("H/W MONITOR", "DRAM Fatal Error")
ASK = ("smartctl", "--json=co", "-x", "-f", "old", "-l", "error", "-l", "selftest")
POWER = ("-n", "standby,3")
BOOT: Files = {
    "/proc/stat": (
        "cpu  1 0 1 1 1 0 0 0 0 0\nintr 0\nctxt 0\n"
        f"btime {BOOTED_SECONDS:.0f}\nprocesses 1\nprocs_running 1\nprocs_blocked 0\n"
    )
}
"""When the machine booted, by its wall clock."""


def reading(channel: int) -> tuple[str, str]:
    """Return device and text of a disk's reading error."""
    return f"IDE Channel #{channel:02}", "Reading Error"


@dataclass
class Card:
    """An ARC-1210 with two disks that it passes through, and its log.

    Fields: `number` is its host's; `offset` is by how many seconds its clock is ahead of UTC;
    `which`: as which of several it is asked, 0 where it is the only one.
    """

    number: int = 0
    offset: float = 4 * HOUR
    serial: str = "Y711CAARAR700000"
    serials: tuple[str, ...] = ("WD-WCAS20000001", "WD-WCAS20000002")
    which: int = 0
    entries: list[tuple[float, str, str]] = field(default_factory=list)
    """Oldest first: Unix time, device, text."""

    def tells(self, at: float, what: tuple[str, str]) -> None:
        """Let it log something."""
        self.entries.append((at, *what))

    def files(self) -> Files:
        """Return it in sysfs, and what its program answers."""
        files = host(f"host{self.number}", "arcmsr", f"0000:{3 + self.number:02}:0e.0")
        files |= node(f"{self.number}:0:16:0", 3, "Areca", self._generic())
        bays = [f"  {n}  {n}  {MODEL:<32}160.0GB  JBOD\n" for n, _ in enumerate(self.serials, 1)]
        bays += [f"  {n}  {n}  {'N.A.':<32}  0.0GB  N.A.\n" for n in (3, 4)]
        sets = " #  Name             Disks TotalCap  FreeCap DiskChannels  State\n"
        volumes = "  # Name             Raid Name       Level   Capacity Ch/Id/Lun  State\n"
        disks = f"  # Ch# {'ModelName':<32}Capacity  Usage\n{''.join(bays)}"
        system = f"Controller Name : ARC-1210\nSerial Number : {self.serial}\n"
        heat = "The Hardware Monitor Information\nHDD #1 Temp. : 34\nHDD #2 Temp. : 36\n"
        for command, text in (
            ("sys info", system),
            ("rsf info", sets),
            ("vsf info", volumes),
            ("disk info", disks),
            ("hw info", heat),
            *(
                (f"disk info drv={number}", f"Model Name : {MODEL}\nSerial Number : {serial}\n")
                for number, serial in enumerate(self.serials, 1)
            ),
        ):
            files |= self.answers(command, text + DONE)
        return files | self.log()

    def log(self) -> Files:
        """Return its log, newest first."""
        return self.answers("event info", self.listing())

    def listing(self) -> str:
        """Return its log as text."""
        rows = "".join(f"{self.line(*entry)}\n" for entry in reversed(self.entries))
        return HEADER + rows + DONE

    def line(self, at: float, device: str, text: str) -> str:
        """Return a line of its log: by its own clock."""
        return f"{datetime.fromtimestamp(at + self.offset, UTC):%Y-%m-%d %T}  {device:<20}{text}"

    def answers(self, command: str, text: str) -> Files:
        """Return what its program prints."""
        which = (f"ctrl={self.which}",) if self.which else ()
        return probe_answer("cli64", *which, *command.split(), stdout=text)

    def attributes(self, channel: int, pending: int = 200) -> Files:
        """Return what smartctl reads of a disk through it: normalized values, no raw ones.

        `pending` is that of 197 and of 198.
        """
        table = [
            {
                "id": number,
                "name": name,
                "value": value,
                "thresh": threshold,
                "flags": {"value": flags, "prefailure": bool(flags & 1)},
                "when_failed": "",
            }
            for number, name, flags, value, threshold in (
                (5, "Reallocated_Sector_Ct", 0x33, 200, 140),
                (197, "Current_Pending_Sector", 0x12, pending, 0),
                (198, "Offline_Uncorrectable", 0x10, pending, 0),
                (199, "UDMA_CRC_Error_Count", 0x3E, 200, 0),
            )
        ]
        path, kind = f"/dev/{self._generic()}", f"areca,{channel}"
        document = {
            "device": {"name": path, "type": kind, "protocol": "ATA"},
            "model_name": MODEL,
            "serial_number": self.serials[channel - 1],
            "user_capacity": {"blocks": 312_581_808, "bytes": 160_041_885_696},
            "smart_support": {"available": True, "enabled": True},
            "smart_status": {"passed": True},
            "ata_smart_attributes": {"revision": 16, "table": table},
        }
        return _smart(document, "-d", kind, path)

    def made_up(self, channel: int, name: str) -> Files:
        """Return what it makes up for a plain question about a disk: pages of a SCSI disk."""
        counters = {
            "total_errors_corrected": 0,
            "gigabytes_processed": "0.000",
            "total_uncorrected_errors": 0,
        }
        document = {
            "device": {"name": f"/dev/{name}", "type": "scsi", "protocol": "SCSI"},
            "scsi_vendor": "WDC",
            "scsi_product": MODEL[4:20],
            "scsi_model_name": MODEL[:20],
            "serial_number": self.serials[channel - 1],
            "scsi_transport_protocol": {"name": "Fibre channel (FCP-2)", "value": 0},
            "smart_support": {"available": True, "enabled": True},
            "smart_status": {"passed": True},
            "temperature": {"current": 30, "drive_trip": 25},
            "scsi_start_stop_cycle_counter": {
                "year_of_manufacture": "2002",
                "week_of_manufacture": "30",
                "accumulated_start_stop_cycles": 256,
                "specified_cycle_count_over_device_lifetime": 4_278_190_080,
            },
            "scsi_grown_defect_list": 0,
            "scsi_error_counter_log": {"read": counters, "write": counters},
        }
        return _smart(document, "-d", "scsi", f"/dev/{name}")

    def shows(self, *names: str, serials: bool = True) -> Files:
        """Return the block devices as which it shows its disks: one at each target.

        `serials`: sysfs tells them, as since Linux 3.15.
        """
        files: Files = {}
        for target, (name, serial) in enumerate(zip(names, self.serials, strict=True)):
            at = f"{self.number}:0:{target}:0"
            device = f"/sys/class/scsi_device/{at}/device"
            page = b"\0\x80\0" + bytes([len(serial)]) + serial.encode()
            files |= {
                f"{device}/type": "0\n",
                f"{device}/block/{name}": None,
                f"/sys/block/{name}/size": "312581808\n",
                f"/sys/block/{name}/device/vendor": "WDC     \n",
                f"/sys/block/{name}/device/model": f"{MODEL[4:20]}\n",
                f"/sys/block/{name}/device/vpd_pg80": page if serials else b"",
                f"/sys/block/{name}/device/scsi_device/{at}": None,
            }
        return files

    def _generic(self) -> str:
        return f"sg{2 + 10 * self.number}"


def _smart(document: Mapping[str, Any], *target: str) -> Files:
    whole = {
        "json_format_version": [1, 0],
        "smartctl": {"version": [7, 3], "argv": ["smartctl"], "exit_status": 0},
        **document,
    }
    return probe_answer(*ASK, *POWER, *target, stdout=json.dumps(whole))
