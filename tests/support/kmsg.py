"""The kernel's log of a live machine: lines as '/dev/kmsg' has them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from support.live import Live

BOOT_ID = "11111111-2222-3333-4444-555555555555"


class Kernel:
    """What the kernel of a machine prints."""

    def __init__(self, live: Live) -> None:
        """Print nothing yet."""
        self.live = live
        self.lines: list[str] = []
        live.change({"/proc/sys/kernel/random/boot_id": f"{BOOT_ID}\n", "/.kmsg": ""})

    def says(self, *lines: str, priority: int = 3) -> None:
        """Let it print some lines, a second later."""
        at = round((self.live.uptime() + 0.5) * 1e6)
        for line in lines:
            self.lines.append(f"{priority},{len(self.lines) + 1},{at + len(self.lines)},-;{line}\n")
        self.live.change({"/.kmsg": "".join(self.lines)})


def medium_error(sector: int, name: str = "sda") -> str:
    """A sector that a disk cannot read."""
    return f"critical medium error, dev {name}, sector {sector} op 0x0:(READ) flags 0x0 phys_seg 1"


def unreadable(address: str, name: str, sector: int) -> tuple[str, ...]:
    """What Linux 2.6 says of such a sector of a SCSI disk."""
    sd = f"sd {address}: [{name}]"
    return (
        f"{sd} Result: hostbyte=DID_OK driverbyte=DRIVER_SENSE,SUGGEST_OK",
        f"{sd} Sense Key : Medium Error [current]",
        "Info fld=0x0",
        f"{sd} Add. Sense: Unrecovered read error",
        f"end_request: I/O error, dev {name}, sector {sector}",
    )
