"""Incidents of disks, adapters, arrays and paths: what happens, and what is wanted of the mails.

What is wanted was written down from causes and domain facts before any of them was played.
Kernel lines are in the wording of Linux 6.1 (drivers/{ata,scsi,nvme,md,mmc,bcache}, block/).
An incident is a generator: it puts the machine together up to its first `yield`, where the service
starts; each `yield` lets so many seconds pass, or hands the running service to a function.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from support import drives
from support.attached import probe_answer
from support.program import Played
from support.recordings import BOOTED_SECONDS, FIXTURES
from support.storage import SECTORS, Server

from iowarden.collectors.block.uevents import Uevent, UeventBatch
from iowarden.collectors.raid.megaraid.megaraid_sas import EVENTS
from iowarden.collectors.smart import smartctl_runner
from iowarden.collectors.smart.drive import AccessMethod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.live import Files, Watched

    Incident = Iterator["float | Callable[[Watched], None]"]
    Scenario = Callable[["FakeMachine"], Incident]

NO_ERASE = ("mdadm --create", "--zero-superblock", "wipefs", "mkfs")
FAIL_MEMBER = ("--fail", "--remove")
MD = ("mdadm", "mdstat", "sync_action")
GB = 1 << 30


@dataclass(frozen=True)
class Wanted:
    """What the mails of an incident shall be.

    Fields: `threads` is how many incidents are mailed; `severity` is that of the worst subject,
    '' of none; `subject` are words that each stand in some subject; `within`
    is so many seconds from the fault to the first mail; `most` is how many mails come that do not
    say that it is over; `says` stand in some mail, `never` in none; `over`: each thread ends with
    [OK] or [RESOLVED]; None: either is right.
    """

    threads: int = 1
    severity: str = "CRITICAL"
    subject: tuple[str, ...] = ()
    within: float = 4.0
    most: int = 2
    says: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    over: bool | None = False


SILENCE = Wanted(threads=0, severity="", within=0, most=0)


class FakeMachine(Server):
    """A server with what else these incidents need."""

    def __init__(self, tmp_path: Path, *, log: bool = True) -> None:
        """Begin without a disk."""
        super().__init__(tmp_path, log=log)
        self.fault_wall = 0.0
        self.host: Watched | None = None
        """The running service, to which devices are announced."""
        self._files["/proc/stat"] = str(self._files["/proc/stat"]).replace(
            "btime 1799999000", f"btime {BOOTED_SECONDS:.0f}"
        )

    def fault(self) -> None:
        """Mark the moment at which it begins."""
        self.fault_wall = self.wall

    def sata(self, *names: str, first: int = 1, **more: Any) -> None:  # noqa: ANN401 - as disk takes them
        """Add disks, each at a port of its own."""
        for number, name in enumerate(names, first):
            self.adapter(number, "ahci")
            self.disk(name, f"{number}:0:0:0", **more)
            self._later({f"/sys/class/ata_port/ata{number}/device/host{number}": None})

    def loses(self, *names: str, lines: tuple[str, ...] = (), removed: bool = True) -> None:
        """Let disks vanish, and have it announced."""
        super().loses(*names, lines=lines, removed=removed)
        self._announce("remove", names)

    def put(self, *args: str, **more: object) -> None:
        """Plug a disk in, and have it announced."""
        super().put(*args, **more)
        self._announce("add", args[:1])

    def _announce(self, action: str, names: tuple[str, ...]) -> None:
        if self.host is not None:
            program = self.host.program
            assert isinstance(program, Played)
            program.caught_up()
            program._post(UeventBatch(tuple(Uevent(action, name, None) for name in names)))

    def sas(self, host: int, driver: str, *names: str, **more: Any) -> None:  # noqa: ANN401 - as disk takes them
        """Add disks behind one adapter."""
        self.adapter(host, driver)
        for number, name in enumerate(names):
            self.disk(name, f"{host}:0:{number}:0", vendor="SEAGATE", model="ST12000NM", **more)

    def answers(self, name: str, output: str) -> Files:
        """Return what smartctl says of a disk, however it is asked."""
        files: Files = {}
        path = f"/dev/{name.partition('n1')[0] if name.startswith('nvme') else name}"
        for kind in ("scsi", "sat", "nvme", ""):
            files |= probe_answer(
                *smartctl_runner.command(AccessMethod(path, kind), "full"), stdout=output
            )
        return files

    def adapter(self, number: int, driver: str, **more: str) -> None:
        """Add a SCSI host: mpt3sas numbers its own from 0."""
        super().adapter(number, driver, **more)
        own = sum(text == f"{driver}\n" for text in self._files.values()) - 1
        self._later({f"/sys/class/scsi_host/host{number}/unique_id": f"{own}\n"})

    def smart(self, name: str, output: str) -> None:
        """Let smartctl say this of a disk from now on."""
        files = self.answers(name, output)
        self._later(files)
        self.change(files)

    def has(self, files: Files) -> None:
        """Add files before the service starts."""
        self._later(files)


def ata(name: str, **raw: int) -> str:
    """Return what smartctl says of a SATA disk; `raw` as n5=8, by attribute."""
    document = json.loads(drives.ata(f"S-{name}"))
    document["user_capacity"] = {"blocks": SECTORS, "bytes": SECTORS * 512}
    for attribute in document["ata_smart_attributes"]["table"]:
        value = raw.get(f"n{attribute['id']}")
        if value is not None:
            attribute["raw"] = {"value": value, "string": str(value)}
    return json.dumps(document)


def nvme(serial: str, **health: int) -> str:
    """Return what smartctl says of an NVMe drive that is well but for `health`."""
    document = json.loads((FIXTURES / "smartctl/nvme.json").read_text())
    document["serial_number"] = serial
    document["smartctl"] |= {"output": [], "exit_status": 0, "messages": []}
    document["user_capacity"] = {"blocks": SECTORS, "bytes": SECTORS * 512}
    del document["nvme_self_test_log"]
    warning = health.get("critical_warning", 0)
    document["smart_status"] = {"passed": warning == 0, "nvme": {"value": warning}}
    document["nvme_smart_health_information_log"] |= {
        "critical_warning": 0,
        "temperature": 41,
        "available_spare": 100,
        "percentage_used": 5,
        "media_errors": 0,
        **health,
    }
    document["temperature"] = {"current": health.get("temperature", 41)}
    return json.dumps(document)


def scsi(serial: str, defects: int, *, failing: bool = False) -> str:
    """Return what smartctl says of a SAS disk."""
    document = json.loads((FIXTURES / "smartctl/sas.json").read_text())
    document["device"] = {"name": "/dev/sdc", "type": "scsi", "protocol": "SCSI"}
    document["serial_number"] = serial
    document["smartctl"] |= {"output": [], "exit_status": 0, "messages": []}
    document["user_capacity"] = {"blocks": SECTORS, "bytes": SECTORS * 512}
    document["scsi_grown_defect_list"] = defects
    for row in document["scsi_error_counter_log"].values():
        row["total_uncorrected_errors"] = 0
    if not failing:
        document["smart_status"] = {"passed": True}
    return json.dumps(document)


def medium(address: str, name: str, sector: int, tag: int = 17) -> tuple[str, ...]:
    """Return what the kernel says of a sector that a SCSI or SATA disk cannot read."""
    sd = f"sd {address}: [{name}] tag#{tag}"
    block = f"{sector >> 24 & 255:02x} {sector >> 16 & 255:02x} {sector >> 8 & 255:02x}"
    return (
        f"{sd} FAILED Result: hostbyte=DID_OK driverbyte=DRIVER_OK cmd_age=3s",
        f"{sd} Sense Key : Medium Error [current] ",
        f"{sd} Add. Sense: Unrecovered read error",
        f"{sd} CDB: Read(10) 28 00 {block} {sector & 255:02x} 00 00 08 00",
        (
            f"critical medium error, dev {name}, sector {sector} op 0x0:(READ) flags 0x0 phys_seg 1"
            " prio class 2"
        ),
    )


def sata_gone(port: int, address: str, name: str) -> tuple[str, ...]:
    """Return what libata says of a disk whose link stays down."""
    return (
        f"ata{port}: SATA link down (SStatus 0 SControl 300)",
        f"ata{port}.00: disable device",
        f"sd {address}: rejecting I/O to offline device",
        f"I/O error, dev {name}, sector 409600 op 0x1:(WRITE) flags 0x8800 phys_seg 4 prio class 2",
        f"sd {address}: [{name}] Synchronizing SCSI cache",
        (
            f"sd {address}: [{name}] Synchronize Cache(10) failed: Result: hostbyte=DID_BAD_TARGET"
            " driverbyte=DRIVER_OK"
        ),
    )


# --- arrays and volumes without redundancy


def raid0_loses_a_member(m: FakeMachine) -> Incident:
    """A scratch array of two SATA disks, mounted: the link of one goes down and stays down."""
    m.sata("sda", "sdb")
    m.array("md0", "raid0", "sda1", "sdb1")
    m.mount("/scratch", "md0")
    yield 20
    m.fault()
    m._arrays["md0"].broken = True
    m.loses("sdb", lines=(*sata_gone(2, "2:0:0:0", "sdb"),))
    m.says("md/raid0:md0: Disk failure on sdb1 detected, failing array.", priority=2)
    m.says(
        "EXT4-fs error (device md0): ext4_journal_check_start:83: comm dd: Detected aborted journal"
    )
    yield 90


def linear_volume_loses_a_disk(m: FakeMachine) -> Incident:
    """An LV over two disks with XFS: one of them is pulled."""
    m.sata("sda", "sdb", "sdc")
    m.volume("dm-0", "vg-data", "LVM-abcdef", "sdb1", "sdc1")
    m.mount("/data", "dm-0", "xfs")
    yield 20
    m.fault()
    m.loses("sdc", lines=sata_gone(3, "3:0:0:0", "sdc"))
    m.says(
        'XFS (dm-0): metadata I/O error in "xfs_buf_ioend_handle_error+0x1a0/0x5d0 [xfs]"'
        " at daddr 0x3d0900 len 32 error 5",
        "XFS (dm-0): log I/O error -5",
        "XFS (dm-0): Filesystem has been shut down due to log error (0x2).",
        "XFS (dm-0): Please unmount the filesystem and rectify the problem(s).",
        priority=1,
    )
    yield 90


# --- md


def reshape_loses_a_member(m: FakeMachine) -> Incident:
    """A raid5 grows from 3 to 4 disks; one of the old ones fails, and the reshape goes on."""
    m.sata("sda", "sdb", "sdc", "sdd")
    m.array("md0", "raid5", "sda1", "sdb1", "sdc1", "sdd1")
    m.mount("/srv", "md0")
    growing: Files = {
        "/sys/block/md0/md/raid_disks": "4 (3)\n",
        "/sys/block/md0/md/sync_action": "reshape\n",
        "/sys/block/md0/md/sync_completed": "300000 / 1000000\n",
        "/sys/block/md0/md/reshape_position": "900000\n",
    }
    m.has(growing)
    yield 20
    m.fault()
    m.fails("md0", "sdb1")
    m.change(growing)
    m.says("md: md0: reshape interrupted.", "md: reshape of RAID array md0", priority=6)
    m.change(growing)
    yield 120


def member_lists_bad_blocks(m: FakeMachine) -> Incident:
    """A member of a raid6 gets an entry in its bad block log."""
    m.sata("sda", "sdb", "sdc", "sdd")
    m.array("md0", "raid6", "sda1", "sdb1", "sdc1", "sdd1")
    m.mount("/srv", "md0")
    yield 20
    m.fault()
    m.has({"/sys/block/md0/md/dev-sdb1/bad_blocks": "181920 8\n"})
    m.change({"/sys/block/md0/md/dev-sdb1/bad_blocks": "181920 8\n"})
    yield 120


def intel_volume_degrades(m: FakeMachine) -> Incident:
    """A mirror of Intel firmware RAID in its container: a disk is given up."""
    m.sata("sda", "sdb", parts=False)
    m.array("md126", "raid1", "sda", "sdb")
    m.mount("/", "md126")
    base = "/sys/block/md127"
    container: Files = {
        f"{base}/size": "0\n",
        f"{base}/dev": "9:127\n",
        f"{base}/holders": None,
        f"{base}/ro": "0\n",
        f"{base}/md/array_state": "inactive\n",
        f"{base}/md/level": "container\n",
        f"{base}/md/raid_disks": "0\n",
        f"{base}/md/metadata_version": "external:imsm\n",
        "/sys/block/md126/md/metadata_version": "external:/md127/0\n",
    }
    for name in ("sda", "sdb"):
        container |= {
            f"{base}/md/dev-{name}/state": "spare\n",
            f"{base}/md/dev-{name}/slot": "none\n",
            f"{base}/slaves/{name}": None,
            f"/sys/block/{name}/holders/md127": None,
        }

    def stat(mask: str, own: str) -> Files:
        return {
            "/proc/mdstat": (
                "Personalities : [raid1] \n"
                f"md126 : active raid1 {own}\n"
                f"      976762496 blocks super external:/md127/0 [2/{mask.count('U')}] [{mask}]\n"
                "      \n"
                "md127 : inactive sdb[1](S) sda[0](S)\n"
                "      5288 blocks super external:imsm\n"
                "       \nunused devices: <none>\n"
            ),
            "/sys/block/md126/md/metadata_version": "external:/md127/0\n",
        }

    m.has(container | stat("UU", "sda[1] sdb[0]"))
    yield 60
    m.fault()
    m.fails("md126", "sdb")
    m.change(stat("U_", "sda[1] sdb[0](F)"))
    yield 90


def degraded_since_boot(m: FakeMachine) -> Incident:
    """The service starts with the machine: a mirror came up with one half, the other not fresh."""
    m.sata("sda", "sdb")
    m.array("md0", "raid1", "sda1", "")
    m.mount("/", "md0")
    m.has(
        m._printed(
            "md: kicking non-fresh sdb1 from array!",
            "md/raid1:md0: active with 1 out of 2 mirrors",
            priority=4,
        )
    )
    m.fault()
    yield 0
    yield 100


def mirror_behind_one_adapter(m: FakeMachine) -> Incident:
    """Both halves of a mirror hang on a SAS adapter whose firmware faults and is reset: 22 s."""
    m.sas(0, "mpt3sas", "sda", "sdb", rotational=False)
    m.array("md0", "raid1", "sda1", "sdb1")
    m.mount("/srv", "md0")
    yield 30
    m.fault()
    m.stands("sda", "sdb", "md0")
    m.says("mpt3sas_cm0: fault_state(0x2622)!", "mpt3sas_cm0: sending diag reset !!")
    yield 20
    m.says("mpt3sas_cm0: diag reset: SUCCESS", priority=6)
    m.goes_on("sda", "sdb", "md0")
    yield 150


# --- SMART


def sectors_are_rewritten(m: FakeMachine) -> Incident:
    """Sectors are pending for minutes, then rewritten; 8 were reallocated, and it stays at that."""
    m.sata("sda")
    m.has(m.answers("sda", ata("sda")))
    yield 60
    m.fault()
    m.smart("sda", ata("sda", n197=8))
    yield 150
    m.smart("sda", ata("sda", n197=8, n5=0))
    yield 40
    m.smart("sda", ata("sda", n197=0, n5=8))
    yield 200


def nvme_spare_runs_out(m: FakeMachine) -> Incident:
    """The spare blocks of an NVMe drive fall below the threshold, and it says so by a bit."""
    m.disk("nvme0n1", rotational=False, serial="NV9")
    m.mount("/", "nvme0n1p1")
    m.has(m.answers("nvme0n1", nvme("NV9")))
    yield 60
    m.fault()
    m.smart("nvme0n1", nvme("NV9", critical_warning=1, available_spare=4))
    yield 120


def nvme_gets_hot(m: FakeMachine) -> Incident:
    """An NVMe drive warns of its temperature, and is cool again two minutes later."""
    m.disk("nvme0n1", rotational=False, serial="NV9")
    m.mount("/", "nvme0n1p1")
    m.has(m.answers("nvme0n1", nvme("NV9")))
    yield 60
    m.fault()
    m.smart("nvme0n1", nvme("NV9", critical_warning=2, temperature=86))
    yield 120
    m.smart("nvme0n1", nvme("NV9"))
    yield 120


def sas_disk_predicts_its_failure(m: FakeMachine) -> Incident:
    """Defects grow, then the disk predicts its failure, in SMART and in the kernel's log."""
    m.sas(0, "mpt3sas", "sda", "sdb", "sdc")
    m.mount("/srv", "sdc1")
    m.has(m.answers("sdc", scsi("S-sdc", 3)))
    yield 60
    m.fault()
    m.smart("sdc", scsi("S-sdc", 40))
    yield 100
    m.says(
        "sd 0:0:2:0: [sdc] tag#9 Sense Key : Recovered Error [current] ",
        "sd 0:0:2:0: [sdc] tag#9 Add. Sense: Hardware impending failure general hard drive failure",
        priority=6,
    )
    m.smart("sdc", scsi("S-sdc", 41, failing=True))
    yield 120


# --- adapters and enclosures


def expander_loses_half(m: FakeMachine) -> Incident:
    """24 disks in two shelves behind one adapter, a raid6 on each: a shelf loses its power."""
    names = [f"sd{letter}" for letter in "abcdefghijklmnopqrstuvwx"]
    m.sas(0, "mpt3sas", *names)
    m.array("md0", "raid6", *(f"{name}1" for name in names[:12]))
    m.array("md1", "raid6", *(f"{name}1" for name in names[12:]))
    m.mount("/shelf0", "md0")
    m.mount("/shelf1", "md1")
    yield 20
    m.fault()
    for at in range(0, 12, 4):
        lines = tuple(
            f"mpt3sas_cm0: removing handle(0x{9 + n:04x}), sas_addr(0x5000c500a0b0{n:04x})"
            for n in range(at, at + 4)
        )
        m._arrays["md0"].broken = at > 0
        m.loses(*names[at : at + 4], lines=lines)
    m.says("md/raid:md0: Cannot continue operation (3/12 failed).", priority=2)
    yield 150


def megaraid_volume_rebuilds(m: FakeMachine) -> Incident:
    """A disk of a RAID5 volume fails, a spare takes its place, and is filled."""
    _megaraid(m)
    yield 60
    m.fault()
    _card(m, volume="Dgrd", states=("Onln", "Failed", "Onln", "Rbld"))
    m.says(
        "megaraid_sas 0000:3b:00.0: 5214 (701234567s/0x0001/CRIT) - VD 00/0 is now DEGRADED",
        "megaraid_sas 0000:3b:00.0: 5215 (701234567s/0x0002/CRIT) - State change on PD 09(e0xfc/s1)"
        " from ONLINE(18) to FAILED(11)",
        priority=2,
    )
    yield 100


def megaraid_battery_fails(m: FakeMachine) -> Incident:
    """The battery fails; the controller writes through from then on."""
    _megaraid(m)
    yield 60
    m.fault()
    _card(m, cache="RWTD", battery="Failed")
    m.says(
        "megaraid_sas 0000:3b:00.0: 5300 (701234999s/0x0008/WARN) - BBU disabled; changing WB"
        " virtual disks to WT, Forced WB VDs are not affected",
        priority=4,
    )
    yield 120


def megaraid_disk_turns_foreign(m: FakeMachine) -> Incident:
    """A disk was reseated: it is good, and its configuration foreign; the volume misses it."""
    _megaraid(m)
    yield 60
    m.fault()
    _card(m, volume="Dgrd", states=("Onln", "UGood", "Onln", "GHS"), foreign=1)
    yield 60


def megaraid_resets_online(m: FakeMachine) -> Incident:
    """The firmware faults and is reset online; both volumes stand still for 16 s."""
    m.adapter(0, "megaraid_sas")
    m.has({"/sys/bus/pci/drivers/megaraid_sas/0000:3b:00.0/host0": None})
    for number, name in enumerate(("sda", "sdb")):
        m.disk(
            name, f"0:2:{number}:0", vendor="AVAGO", model="MR9361-8i", serial=f"600605b{number}"
        )
        m.mount(f"/vol{number}", f"{name}1")
    yield 30
    m.fault()
    m.stands("sda", "sdb")
    m.says(
        "megaraid_sas 0000:3b:00.0: FW in FAULT state Fault code:0x10000 subcode:0x0"
        " func:megasas_wait_for_outstanding_fusion",
        "megaraid_sas 0000:3b:00.0: resetting fusion adapter scsi0.",
    )
    yield 14
    m.says("megaraid_sas 0000:3b:00.0: Reset successful for scsi0.", priority=4)
    m.goes_on("sda", "sdb")
    yield 150


def _megaraid(m: FakeMachine) -> None:
    m.adapter(0, "megaraid_sas")
    m.disk("sda", "0:2:0:0", vendor="AVAGO", model="MR9361-8i", serial="600605b0", parts=True)
    m.mount("/srv", "sda1")
    m.has({"/sys/bus/pci/drivers/megaraid_sas/0000:3b:00.0/host0": None})
    m.has(_card_files())


def _card(m: FakeMachine, **more: Any) -> None:  # noqa: ANN401 - as _card_files takes them
    files = _card_files(**more)
    m.has(files)
    m.change(files)


def _card_files(
    volume: str = "Optl",
    states: tuple[str, ...] = ("Onln", "Onln", "Onln", "GHS"),
    cache: str = "RWBD",
    battery: str = "Optimal",
    foreign: int | None = None,
) -> Files:
    """Return what storcli64 prints of a card with a RAID5 of three disks and a spare."""
    rows = [
        {
            "EID:Slt": f"252:{slot}",
            "DID": slot + 8,
            "State": state,
            "DG": "F" if slot == foreign else "-" if state in {"GHS", "Failed"} else 0,
            "Size": "3.637 TB",
            "Intf": "SAS",
            "Med": "HDD",
            "Model": "ACME-4000",
            "Sp": "U",
        }
        for slot, state in enumerate(states)
    ]
    group = {
        "DG": 0,
        "Arr": "-",
        "Row": "-",
        "EID:Slot": "-",
        "DID": "-",
        "Type": "RAID5",
        "State": volume,
        "BT": "N",
        "Size": "7.274 TB",
    }
    unit = {
        "DG/VD": "0/0",
        "TYPE": "RAID5",
        "State": volume,
        "Access": "RW",
        "Consist": "Yes",
        "Cache": cache,
        "Size": "7.274 TB",
        "Name": "data",
    }
    card = {
        "Basics": {
            "Model": "ACME 9361",
            "Serial Number": "SV0",
            "PCI Address": "00:3b:00:00",
            "Current Controller Date/Time": "11/20/2026, 08:00:10",
            "Current System Date/time": "11/20/2026, 08:00:10",
        },
        "Version": {"Driver Name": "megaraid_sas", "Firmware Package Build": "24.21.0-0076"},
        "Status": {
            "Controller Status": "Optimal" if battery == "Optimal" else "Needs Attention",
            "Memory Correctable Errors": 0,
            "Memory Uncorrectable Errors": 0,
            "Any Offline VD Cache Preserved": "No",
            "BBU Status": 0 if battery == "Optimal" else 4,
        },
        "Supported Adapter Operations": {"BBU": "Yes"},
        "HwCfg": {"BBU": "Present", "On Board Memory Size": "2048MB"},
        "TOPOLOGY": [group],
        "Virtual Drives": 1,
        "VD LIST": [unit],
        "Physical Drives": len(rows),
        "PD LIST": rows,
        "BBU_Info": [
            {"Model": "BBU", "State": battery, "RetentionTime": "48 hours +", "Temp": "28C"}
        ],
    }
    details: dict[str, Any] = {}
    for slot, row in enumerate(rows):
        name = f"Drive /c0/e252/s{slot}"
        own = {"Media Error Count": 0, "Other Error Count": 0, "Predictive Failure Count": 0}
        details[name] = [row]
        details[f"{name} - Detailed Information"] = {
            f"{name} State": own,
            f"{name} Device attributes": {"SN": f"PD{slot}"},
        }
    volumes = {
        "/c0/v0": [unit],
        "VD0 Properties": {
            "Write Cache(initial setting)": "WriteBack",
            "OS Drive Name": "/dev/sda",
            "SCSI NAA Id": "600605b0",
        },
    }
    overview = {
        "Number of Controllers": 1,
        "System Overview": [{"Ctl": 0, "Model": "ACME 9361"}],
    }
    patrol = {"Controller Properties": [{"Ctrl_Prop": "PR Current State", "Value": "Stopped"}]}

    def answer(data: object, number: int | None = 0) -> str:
        about: dict[str, Any] = {"Status": "Success", "Description": "None"}
        if number is not None:
            about["Controller"] = number
        return json.dumps({"Controllers": [{"Command Status": about, "Response Data": data}]})

    end = "Controller = 0\nStatus = Success\nDescription = None\n"
    files: Files = {}
    for words, text in (
        ("show", answer(overview, None)),
        ("/c0 show all", answer(card)),
        ("/c0/eall/sall show all", answer(details)),
        ("/c0/vall show all", answer(volumes)),
        ("/c0 show patrolread", answer(patrol)),
    ):
        files |= probe_answer("storcli64", *words.split(), "J", "nolog", stdout=text)
    question = f"/c0 show events type=latest={EVENTS} nolog".split()
    return files | probe_answer("storcli64", *question, stdout=end)


# --- paths


def _mapped(m: FakeMachine) -> None:
    for host, name in ((7, "sdb"), (8, "sdc")):
        m.adapter(host, "qla2xxx")
        m.has({f"/sys/class/fc_host/host{host}/port_state": "Online\n"})
        m.has({f"/sys/bus/pci/drivers/qla2xxx/0000:{host - 3:02}:00.0/host{host}": None})
        m.disk(
            name, f"{host}:0:0:0", serial="LUN7", vendor="NETAPP", model="LUN C-Mode", parts=False
        )
    m.volume("dm-0", "mpatha", "mpath-3600a0980", "sdb", "sdc")
    m.mount("/db", "dm-0")


def fibre_link_bounces(m: FakeMachine) -> Incident:
    """One of two fibres is down for 5 s; the other path goes on."""
    _mapped(m)
    yield 30
    m.fault()
    m.stands("sdb")
    m.says("qla2xxx [0000:04:00.0]-500b:7: LOOP DOWN detected (2 7 0 0).", priority=6)
    yield 4
    m.says("qla2xxx [0000:04:00.0]-500a:7: LOOP UP detected (16 Gbps).", priority=6)
    m.goes_on("sdb")
    yield 150


def all_paths_down_for_40_seconds(m: FakeMachine) -> Incident:
    """Both paths fail, the map queues; after 40 s they are back and everything goes on."""
    _mapped(m)
    yield 30
    m.fault()
    m.stands("sdb", "sdc", "dm-0")
    yield 6
    m.says(
        "device-mapper: multipath: 253:0: Failing path 8:0.",
        "device-mapper: multipath: 253:0: Failing path 8:16.",
        priority=4,
    )
    yield 32
    m.says(
        "device-mapper: multipath: 253:0: Reinstating path 8:0.",
        "device-mapper: multipath: 253:0: Reinstating path 8:16.",
        priority=4,
    )
    m.goes_on("sdb", "sdc", "dm-0")
    yield 150


# --- single disks


def unreadable_sector_below_an_lv(m: FakeMachine) -> Incident:
    """One sector of a disk cannot be read: an LV with ext4 is on it, no array."""
    m.sata("sda", "sdb")
    m.volume("dm-0", "vg-home", "LVM-abc", "sdb1")
    m.mount("/home", "dm-0")
    yield 20
    m.fault()
    m.says(*medium("2:0:0:0", "sdb", 409_608))
    yield 120


def bus_busy_storm(m: FakeMachine) -> Incident:
    """A SAS disk answers busy: 40 commands fail within 8 s."""
    m.sas(3, "mpt3sas", "sda", "sdb", "sdc")
    m.mount("/srv", "sdb1")
    yield 20
    m.fault()
    for second in range(8):
        lines = []
        for number in range(5):
            sector = 4096 * (5 * second + number)
            lines += [
                (
                    f"sd 3:0:1:0: [sdb] tag#{number} FAILED Result: hostbyte=DID_BUS_BUSY"
                    " driverbyte=DRIVER_OK cmd_age=2s"
                ),
                f"sd 3:0:1:0: [sdb] tag#{number} CDB: Write(10) 2a 00 00 00 10 00 00 00 08 00",
                (
                    f"I/O error, dev sdb, sector {sector} op 0x1:(WRITE) flags 0x800 phys_seg 1"
                    " prio class 2"
                ),
            ]
        m.says(*lines)
    yield 200


def two_disks_on_two_adapters(m: FakeMachine) -> Incident:
    """Within a minute a SATA disk reads badly and a SAS disk is pulled: two things."""
    m.sata("sda", "sdb")
    m.sas(6, "mpt3sas", "sdc", "sdd", "sde", "sdf")
    m.mount("/", "sda1")
    m.mount("/a", "sdb1")
    m.mount("/b", "sde1")
    yield 20
    m.fault()
    m.says(*(line for n in range(6) for line in medium("2:0:0:0", "sdb", 8192 * n + 8, n)))
    yield 30
    m.loses("sde", lines=("mpt3sas_cm0: removing handle(0x000b), sas_addr(0x5000c500a0b00002)",))
    yield 100


def another_disk_in_its_slot(m: FakeMachine) -> Incident:
    """A disk with a file system is pulled; another one comes under the same name and address."""
    m.sata("sda", "sdb")
    m.mount("/", "sda1")
    m.mount("/data", "sdb1")
    yield 20
    m.fault()
    m.loses("sdb", lines=sata_gone(2, "2:0:0:0", "sdb"))
    yield 20
    m.put("sdb", "2:0:0:0", serial="S-new")
    yield 150


def driver_is_reloaded(m: FakeMachine) -> Incident:
    """An administrator reloads the driver of an adapter whose disks nobody uses."""
    m.sata("sda")
    m.mount("/", "sda1")
    m.sas(5, "mpt3sas", "sdb", "sdc", "sdd", "sde")
    m.idle("sdb", "sdc", "sdd", "sde")
    yield 30
    m.fault()
    m.loses(
        *("sdb", "sdc", "sdd", "sde"),
        lines=tuple(
            f"sd 5:0:{n}:0: [sd{letter}] Synchronizing SCSI cache"
            for n, letter in enumerate("bcde")
        ),
    )
    m.says("mpt3sas_cm0: sending message unit reset !!", priority=6)
    yield 8
    m.adapter(6, "mpt3sas")
    for number, letter in enumerate("bcde"):
        m.put(f"sd{letter}", f"6:0:{number}:0", vendor="SEAGATE", model="ST12000NM")
    m.idle("sdb", "sdc", "sdd", "sde")
    yield 150


def error_while_shutting_down(m: FakeMachine) -> Incident:
    """The journal of a file system aborts, and two seconds later the machine is shut down."""
    m.sata("sda", "sdb")
    m.mount("/", "sda1")
    m.mount("/data", "sdb1")
    yield 20
    m.fault()
    m.says(*medium("2:0:0:0", "sdb", 2056))
    m.says(
        "Aborting journal on device sdb1-8.",
        "EXT4-fs error (device sdb1): ext4_journal_check_start:83: comm dd: Detected aborted"
        " journal",
        "EXT4-fs (sdb1): Remounting filesystem read-only",
        priority=2,
    )

    def shut_down(host: Watched) -> None:
        host.restart()

    yield shut_down
    yield 120


def silenced_member_dies(m: FakeMachine) -> Incident:
    """A disk is silenced for a week; then it is gone, and its mirror has one half left."""
    m.sata("sda", "sdb")
    m.array("md0", "raid1", "sda1", "sdb1")
    m.mount("/srv", "md0")
    yield 20

    def silence(host: Watched) -> None:
        done = host.program.command(
            *("silence", "add", "--for", "7d", "--reason", "is to be replaced", "device=sdb")
        )
        assert done.returncode == 0, done.stderr

    yield silence
    m.fault()
    m.loses("sdb", lines=sata_gone(2, "2:0:0:0", "sdb"), removed=False)
    m.says(
        "md/raid1:md0: Disk failure on sdb1, disabling device.",
        "md/raid1:md0: Operation continuing on 1 devices.",
        priority=2,
    )
    yield 120


# --- other devices


def card_turns_read_only(m: FakeMachine) -> Incident:
    """The SD card of a small machine fails writes; the root file system goes read-only."""
    m.disk("mmcblk0", rotational=False, model="SD32G", serial="0x12345678")
    m.mount("/", "mmcblk0p1")
    yield 20
    m.fault()
    m.says(
        "mmcblk0: error -110 sending status command, retrying",
        "mmcblk0: error -110 sending status command, aborting",
        "I/O error, dev mmcblk0, sector 532480 op 0x1:(WRITE) flags 0x800 phys_seg 8 prio class 2",
        "Buffer I/O error on dev mmcblk0p1, logical block 66304, lost async page write",
    )
    m.says(
        "Aborting journal on device mmcblk0p1-8.",
        "EXT4-fs error (device mmcblk0p1): ext4_journal_check_start:83: comm rsyslogd: Detected"
        " aborted journal",
        "EXT4-fs (mmcblk0p1): Remounting filesystem read-only",
        priority=2,
    )
    m._mounts = {}
    m.has({"/proc/1/mountinfo": "30 1 259:1 / / ro - ext4 /dev/mmcblk0p1 ro\n"})
    m.change({"/proc/1/mountinfo": "30 1 259:1 / / ro - ext4 /dev/mmcblk0p1 ro\n"})
    yield 120


def cache_device_fails(m: FakeMachine) -> Incident:
    """The NVMe drive that caches a bcache device has medium errors, and caching is given up."""
    m.sata("sda")
    m.disk("nvme0n1", rotational=False, serial="NV9")
    m._numbers["bcache0"] = "252:0"
    m._done["bcache0"] = 1000
    m.has(
        {
            "/sys/block/bcache0/size": f"{SECTORS}\n",
            "/sys/block/bcache0/dev": "252:0\n",
            "/sys/block/bcache0/ro": "0\n",
            "/sys/block/bcache0/holders": None,
        }
    )
    m._hold("sda1", "bcache0")
    m._hold("nvme0n1p1", "bcache0")
    m.mount("/srv", "bcache0")
    yield 20
    m.fault()
    m.says(
        "nvme0n1: I/O Cmd(0x2) @ LBA 8192, 8 blocks, I/O Error (sct 0x2 / sc 0x81) MORE ",
        "critical medium error, dev nvme0n1, sector 8192 op 0x0:(READ) flags 0x0 phys_seg 1"
        " prio class 2",
        "bcache: bch_count_io_errors() nvme0n1p1: IO error on reading from cache, recovering.",
        "bcache: bch_cache_set_error() error on 5bc072a8-ab17-446d-9744-e247949913c1: nvme0n1p1:"
        " too many IO errors reading data from cache, disabling caching",
    )
    yield 120


def thin_pool_is_full(m: FakeMachine) -> Incident:
    """A thin pool reaches its low water mark, then its end; what writes there waits."""
    m.sata("sda", "sdb")
    m.volume("dm-0", "vg-pool_tdata", "LVM-pooltdata", "sdb1")
    m.volume("dm-1", "vg-pool-tpool", "LVM-pool-tpool", "dm-0")
    m.volume("dm-2", "vg-vm1", "LVM-vm1", "dm-1")
    m.mount("/vm1", "dm-2")
    yield 20
    m.fault()
    m.says(
        "device-mapper: thin: 253:1: reached low water mark for data device: sending event.",
        "device-mapper: thin: 253:1: switching pool to out-of-data-space (queue IO) mode",
        priority=4,
    )
    yield 120


def mirror_corrects_a_read(m: FakeMachine) -> Incident:
    """A half of a mirror cannot read a sector; md writes it anew from the other half."""
    m.sata("sda", "sdb")
    m.array("md0", "raid1", "sda1", "sdb1")
    m.volume("dm-0", "secret", "CRYPT-LUKS2-abc", "md0")
    m.mount("/home", "dm-0")
    yield 20
    m.fault()
    m.says(*medium("2:0:0:0", "sdb", 411_656))
    m.says(
        "md/raid1:md0: sdb1: rescheduling sector 145416",
        "md/raid1:md0: read error corrected (8 sectors at 407560 on sdb1)",
        "md/raid1:md0: redirecting sector 145416 to other mirror: sda1",
        priority=6,
    )
    yield 120


def usb_disk_is_reset(m: FakeMachine) -> Incident:
    """A USB disk for backups, not in fstab, stands still for 24 s and is reset."""
    m.sata("sda")
    m.mount("/", "sda1")
    m.adapter(9, "uas")
    m.has({"/sys/bus/usb/drivers/uas/2-1:1.0/host9": None})
    m.disk("sdb", "9:0:0:0", vendor="WD", model="Elements", removable=False)
    m.mount("/media/backup", "sdb1")
    yield 30
    m.fault()
    m.stands("sdb")
    yield 20
    m.says(
        "sd 9:0:0:0: [sdb] tag#5 uas_eh_abort_handler 0 uas-tag 6 inflight: CMD OUT ",
        "scsi host9: uas_eh_device_reset_handler start",
        "usb 2-1: reset SuperSpeed USB device number 3 using xhci_hcd",
        "scsi host9: uas_eh_device_reset_handler success",
        priority=6,
    )
    m.goes_on("sdb")
    yield 150


def snapshot_is_taken(m: FakeMachine) -> Incident:
    """LVM suspends a volume for 25 s while it takes a snapshot; nobody waits for it."""
    m.sata("sda")
    m.volume("dm-0", "vg-root", "LVM-abc", "sda1")
    m.mount("/", "dm-0")
    yield 20
    m.fault()
    m.change({"/sys/block/dm-0/dm/suspended": "1\n"})
    yield 24
    m.change({"/sys/block/dm-0/dm/suspended": "0\n"})
    yield 150


def btrfs_mirror_loses_a_disk(m: FakeMachine) -> Incident:
    """A btrfs mirror of two disks: one vanishes, writes to it fail and are counted."""
    m.sata("sda", "sdb", "sdc")
    m.mount("/", "sda1")
    m.mount("/tank", "sdb1", "btrfs")
    base = "/sys/fs/btrfs/0ba3b9a7-1d4c-4f2a-9f2b-9d1f6d1f0a55"
    whole = "write_errs 0\nread_errs 0\nflush_errs 0\ncorruption_errs 0\ngeneration_errs 0\n"
    for number, name in ((1, "sdb1"), (2, "sdc1")):
        m.has(
            {
                f"{base}/devinfo/{number}/missing": "0\n",
                f"{base}/devinfo/{number}/error_stats": whole,
                f"{base}/devices/{name}": None,
            }
        )
    m.has({f"{base}/label": "tank\n"})
    yield 70
    m.fault()
    m.loses("sdc", lines=sata_gone(3, "3:0:0:0", "sdc"))
    m.says(
        "BTRFS error (device sdb1): bdev /dev/sdc1 errs: wr 1, rd 0, flush 0, corrupt 0, gen 0",
        "BTRFS warning (device sdb1): lost page write due to IO error on /dev/sdc1 (-5)",
    )
    m.change({f"{base}/devinfo/2/error_stats": whole.replace("write_errs 0", "write_errs 212")})
    yield 150


def image_on_a_file_server(m: FakeMachine) -> Incident:
    """A loop device lies on NFS, and the server does not respond for 50 s."""
    m.sata("sda")
    m.mount("/", "sda1")
    m._numbers["loop0"] = "7:0"
    m._done["loop0"] = 1000
    m.has(
        {
            "/sys/block/loop0/size": f"{SECTORS}\n",
            "/sys/block/loop0/dev": "7:0\n",
            "/sys/block/loop0/ro": "0\n",
            "/sys/block/loop0/holders": None,
            "/sys/block/loop0/slaves": None,
            "/sys/block/loop0/loop/backing_file": "/mnt/filer/disk.img\n",
        }
    )
    m._mounts["/mnt/filer"] = ("filer:/export", "nfs4")
    m.mount("/var/img", "loop0")
    table = str(m._files["/proc/1/mountinfo"]).replace("/dev/filer:", "filer:")
    m.has({"/proc/1/mountinfo": table})
    yield 30
    m.fault()
    m.stands("loop0")
    m.says("nfs: server filer not responding, still trying", priority=5)
    yield 48
    m.says("nfs: server filer OK", priority=5)
    m.goes_on("loop0")
    yield 150


def nvme_is_reset_once(m: FakeMachine) -> Incident:
    """An NVMe drive does not answer for 36 s; the driver resets it, and it goes on."""
    m.disk("nvme0n1", rotational=False, serial="NV9")
    m.mount("/", "nvme0n1p1")
    yield 30
    m.fault()
    m.stands("nvme0n1")
    yield 29
    m.says(
        "nvme nvme0: I/O tag 12 (100c) opcode 0x2 (Read) QID 3 timeout, aborting req_op:READ(0)"
        " size:4096",
        "nvme nvme0: Abort status: 0x0",
        "nvme nvme0: I/O tag 12 (100c) opcode 0x2 (Read) QID 3 timeout, reset controller",
        priority=4,
    )
    yield 4
    m.says("nvme nvme0: 8/0/0 default/read/poll queues", priority=6)
    m.goes_on("nvme0n1")
    yield 150


def cable_garbles(m: FakeMachine) -> Incident:
    """A SATA cable lets checksums fail: the link is reset three times, attribute 199 rises."""
    m.sata("sda", "sdb")
    m.mount("/srv", "sdb1")
    m.has(m.answers("sdb", ata("sdb")))
    yield 60
    m.fault()
    for _ in range(3):
        m.says(
            "ata2.00: exception Emask 0x10 SAct 0x8000 SErr 0x400100 action 0x6 frozen",
            "ata2.00: irq_stat 0x08000000, interface fatal error",
            "ata2: SError: { UnrecovData Handshk }",
            "ata2.00: failed command: WRITE FPDMA QUEUED",
            "ata2.00: cmd 61/08:78:00:40:06/00:00:00:00:00/40 tag 15 ncq dma 4096 out",
            "         res 40/00:78:00:40:06/00:00:00:00:00/40 Emask 0x10 (ATA bus error)",
            "ata2.00: status: { DRDY }",
            "ata2: hard resetting link",
        )
        m.says("ata2: SATA link up 6.0 Gbps (SStatus 133 SControl 300)", priority=6)
        yield 4
    m.smart("sdb", ata("sdb", n199=3))
    yield 150


def ssd_turns_read_only(m: FakeMachine) -> Incident:
    """A worn SSD refuses every write: the kernel shows it as read-only, its file system follows."""
    m.sata("sda", "sdb", rotational=False)
    m.mount("/", "sda1")
    m.mount("/srv", "sdb1")
    yield 70
    m.fault()
    sd = "sd 2:0:0:0: [sdb] tag#3"
    m.says(
        f"{sd} FAILED Result: hostbyte=DID_OK driverbyte=DRIVER_OK cmd_age=0s",
        f"{sd} Sense Key : Data Protect [current] ",
        f"{sd} Add. Sense: Write protected",
        f"{sd} CDB: Write(10) 2a 00 00 06 40 00 00 00 08 00",
        "critical target error, dev sdb, sector 409600 op 0x1:(WRITE) flags 0x8800 phys_seg 1"
        " prio class 2",
    )
    m.has({"/sys/block/sdb/ro": "1\n"})
    m.change({"/sys/block/sdb/ro": "1\n"})
    m.says(
        "Aborting journal on device sdb1-8.",
        "EXT4-fs (sdb1): Remounting filesystem read-only",
        priority=2,
    )
    yield 150


INCIDENTS: dict[str, tuple[Scenario, Wanted]] = {
    each.__name__: (each, wanted)
    for each, wanted in (
        (
            raid0_loses_a_member,
            Wanted(
                subject=("sdb",),
                most=3,
                says=("md0", "/scratch"),
                never=(*FAIL_MEMBER, "--re-add", "rebuilt", "will be rebuilt", *NO_ERASE),
            ),
        ),
        (
            linear_volume_loses_a_disk,
            Wanted(
                subject=("sdc",),
                most=3,
                says=("/data",),
                never=(*MD, "e2fsck", "xfs_repair", *NO_ERASE),
            ),
        ),
        (
            reshape_loses_a_member,
            Wanted(
                subject=("md0",),
                most=2,
                says=("sdb1",),
                never=("being created", "does not run", *NO_ERASE),
            ),
        ),
        (
            member_lists_bad_blocks,
            Wanted(
                severity="WARNING",
                subject=("md0",),
                within=80,
                most=1,
                says=("sdb1", "bad_blocks"),
                never=NO_ERASE,
            ),
        ),
        (
            intel_volume_degrades,
            Wanted(
                subject=("md126",),
                within=20,
                most=2,
                says=("sdb",),
                never=("md127 does not run", "array md127", "md127 is stopped", *NO_ERASE),
            ),
        ),
        (
            degraded_since_boot,
            Wanted(subject=("md0",), within=62, most=1, says=("md0",), never=NO_ERASE),
        ),
        (
            mirror_behind_one_adapter,
            Wanted(
                subject=(),
                within=16,
                most=3,
                says=("mpt3sas",),
                never=(*FAIL_MEMBER, *NO_ERASE),
                over=True,
            ),
        ),
        (
            sectors_are_rewritten,
            Wanted(
                severity="WARNING",
                subject=("sda",),
                within=200,
                most=3,
                says=("S-sda",),
                never=("CRITICAL", *MD),
                over=False,
            ),
        ),
        (
            nvme_spare_runs_out,
            Wanted(
                subject=("nvme0n1",),
                within=70,
                most=2,
                says=("spare",),
                never=("scterc", "device/timeout", *MD),
            ),
        ),
        (
            nvme_gets_hot,
            Wanted(
                subject=("nvme0n1",),
                within=90,
                most=2,
                severity="WARNING",
                says=("temperature",),
                never=("scterc", "device/timeout", *MD),
                over=None,
            ),
        ),
        (
            sas_disk_predicts_its_failure,
            Wanted(
                subject=("sdc",),
                within=140,
                most=3,
                says=("S-sdc", "/srv"),
                never=("scterc", *MD, "hdparm", "selftest start"),
            ),
        ),
        (
            expander_loses_half,
            Wanted(
                subject=("host0",),
                within=6,
                most=3,
                says=("md0", "/shelf0", "mpt3sas"),
                never=(*FAIL_MEMBER, "/shelf1", "runs with", "Do not follow", *NO_ERASE),
            ),
        ),
        (
            megaraid_volume_rebuilds,
            Wanted(
                subject=(),
                within=20,
                most=4,
                says=("enclosure 252 slot 1",),
                never=(
                    *MD,
                    "/fall del",
                    "every disk on it is",
                    "The controller reports no rebuild",
                    "Do not follow",
                ),
                over=None,
            ),
        ),
        (
            megaraid_battery_fails,
            Wanted(
                severity="WARNING",
                subject=("BBU",),
                within=80,
                most=2,
                says=("write",),
                never=(*MD, "every disk on it is"),
            ),
        ),
        (
            megaraid_disk_turns_foreign,
            Wanted(
                subject=(),
                within=960,
                most=2,
                says=("foreign", "enclosure 252 slot 1", "import preview"),
                never=(*MD, "/fall del", "hotspare"),
            ),
        ),
        (
            megaraid_resets_online,
            Wanted(
                subject=("host0",),
                within=16,
                most=3,
                says=("/vol0", "megaraid_sas"),
                never=(*MD, "hdparm -", "scterc"),
                over=True,
            ),
        ),
        (fibre_link_bounces, SILENCE),
        (all_paths_down_for_40_seconds, SILENCE),  # below the 45 s of a map
        (
            unreadable_sector_below_an_lv,
            Wanted(
                severity="WARNING",
                subject=("sdb",),
                within=64,
                most=1,
                says=("409608", "/home", "S-sdb"),
                never=(*MD, *NO_ERASE),
                over=False,
            ),
        ),
        (
            bus_busy_storm,
            Wanted(
                subject=("sdb",),
                within=12,
                most=2,
                says=("/srv",),
                never=(*MD, *NO_ERASE),
            ),
        ),
        (
            two_disks_on_two_adapters,
            Wanted(threads=2, subject=("sdb", ": sde: "), within=6, most=4, says=("/a", "/b")),
        ),
        (
            another_disk_in_its_slot,
            Wanted(
                subject=("sdb",),
                most=2,
                says=("/data", "S-sdb"),
                never=("sdb is back", "--re-add", *MD),
            ),
        ),
        (driver_is_reloaded, SILENCE),
        (
            error_while_shutting_down,
            Wanted(
                subject=("sdb",),
                within=40,
                most=2,
                says=("/data",),
                never=(*MD, *NO_ERASE),
            ),
        ),
        (
            silenced_member_dies,
            Wanted(subject=("md0",), within=20, most=2, says=("md0",), never=NO_ERASE),
        ),
        (
            card_turns_read_only,
            Wanted(
                subject=("mmcblk0",),
                within=6,
                most=3,
                says=("card",),
                never=("smartctl", "scterc", *MD, *NO_ERASE),
            ),
        ),
        (
            cache_device_fails,
            Wanted(
                severity="WARNING",
                subject=("nvme0n1",),
                within=64,
                most=2,
                says=("bcache", "/srv"),
                never=(*MD, "scterc", *NO_ERASE),
            ),
        ),
        (
            thin_pool_is_full,
            Wanted(
                subject=("pool",),
                within=5,
                most=2,
                says=("lvextend", "/vm1"),
                never=(*MD, "smartctl", *NO_ERASE),
            ),
        ),
        (
            mirror_corrects_a_read,
            Wanted(
                severity="WARNING",
                subject=("sdb",),
                within=64,
                most=1,
                says=("md0", "S-sdb"),
                never=("CRITICAL", *NO_ERASE),
            ),
        ),
        (
            # Its hang is none (30 s), that commands are aborted is a warning as of any disk.
            usb_disk_is_reset,
            Wanted(
                severity="WARNING", subject=("sdb",), within=90, most=1, says=("USB",), never=MD
            ),
        ),
        (snapshot_is_taken, SILENCE),
        (
            image_on_a_file_server,
            Wanted(
                subject=("filer",),
                within=16,
                most=3,
                says=("/var/img",),
                never=(*MD, "smartctl", "scterc", "device/timeout"),
                over=None,
            ),
        ),
        (
            nvme_is_reset_once,
            Wanted(
                subject=("nvme0n1",),
                within=14,
                most=2,
                says=("NV9",),
                never=(*MD, "scterc", "device/timeout"),
                over=True,
            ),
        ),
        (
            cable_garbles,
            Wanted(
                severity="WARNING",
                subject=("sdb",),
                within=64,
                most=2,
                says=("cable", "/srv"),
                never=(*MD, "eplace the disk", *NO_ERASE),
            ),
        ),
        (
            ssd_turns_read_only,
            Wanted(
                subject=("sdb",),
                within=6,
                most=3,
                says=("/srv", "S-sdb"),
                never=(*MD, *NO_ERASE),
            ),
        ),
        (
            btrfs_mirror_loses_a_disk,
            Wanted(
                subject=("sdc",),
                most=3,
                says=("/tank", "btrfs"),
                never=(*MD, "e2fsck", "xfs_repair", *NO_ERASE),
            ),
        ),
    )
}

WITHOUT_LOG: dict[str, Wanted] = {
    "raid0_loses_a_member": replace(INCIDENTS["raid0_loses_a_member"][1], within=6),
    # Two disks of one adapter that stand still together are its matter, also without a word of it.
    "mirror_behind_one_adapter": replace(
        INCIDENTS["mirror_behind_one_adapter"][1], severity="WARNING"
    ),
    "expander_loses_half": INCIDENTS["expander_loses_half"][1],
    # The card is polled each quarter of an hour, and its log each five minutes.
    "megaraid_volume_rebuilds": replace(INCIDENTS["megaraid_volume_rebuilds"][1], within=960),
    "megaraid_resets_online": replace(INCIDENTS["megaraid_resets_online"][1], severity="WARNING"),
    "all_paths_down_for_40_seconds": SILENCE,
    # Nothing else is known of the disk that cannot read: the other one is still one incident.
    "two_disks_on_two_adapters": replace(
        INCIDENTS["two_disks_on_two_adapters"][1],
        threads=1,
        subject=("sde",),
        within=44,
        says=("/b",),
        most=2,
    ),
    "linear_volume_loses_a_disk": INCIDENTS["linear_volume_loses_a_disk"][1],
}
"""The same where the kernel's log cannot be read."""
