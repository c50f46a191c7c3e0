"""Record anew what smartctl says of emulated disks: `python tests/vm/record_smartctl.py`.

It is asked as iowarden asks it, in one boot of the guest, and each answer is a file below
tests/fixtures/smartctl/recorded.
"""

from __future__ import annotations

import json

from harness import MEBIBYTE, REPOSITORY, VM, Bus, Disk, turn, wait_for

DIRECTORY = REPOSITORY / "tests" / "fixtures" / "smartctl" / "recorded"
DISKS = (
    Disk("sata-disk", 64 * MEBIBYTE, 7200, Bus.SATA),
    Disk("nvme-drive", 64 * MEBIBYTE, 1, Bus.NVME),
    Disk("scsi-disk", 64 * MEBIBYTE, 10000),
    Disk("raid-disk", 64 * MEBIBYTE, 7200, Bus.RAID, 0),
    Disk("raid-other", 64 * MEBIBYTE, 7200, Bus.RAID, 1),
)
ASK = "smartctl --json=co -x -f old -l error -l selftest -n standby,3"


def main() -> None:
    """Record all; what is done to the disks meanwhile stands here."""
    DIRECTORY.mkdir(exist_ok=True)
    with turn(), VM(DISKS) as vm:
        wait_for(lambda: vm.has(*(disk.name for disk in DISKS)), "all disks", 120)
        host = vm.run("grep -l megaraid_sas /sys/class/scsi_host/host*/proc_name").split("/")[4]
        bus = f"/dev/bus/{host.removeprefix('host')}"
        sata = f"/dev/{vm.device('sata-disk')}"
        record(vm, "sata", f"{ASK} -d sat {sata}")
        record(vm, "nvme", f"{ASK} -d nvme /dev/nvme0")
        record(vm, "scsi", f"{ASK} -d scsi /dev/{vm.device('scsi-disk')}")
        record(vm, "megaraid-volume", f"{ASK} /dev/{vm.device('raid-disk')}")
        record(vm, "megaraid-disk", f"{ASK} -d megaraid,0 {bus}")
        record(vm, "megaraid-nothing", f"{ASK} -d megaraid,7 {bus}")
        record(vm, "scan", "smartctl --json=c --scan")
        record(vm, "self-test-begun", f"smartctl --json=co -t short -d sat {sata}")
        record(vm, "self-test-refused", "smartctl --json=co -t short -d nvme /dev/nvme0")
        vm.set_attribute(5, value=20, raw=2000)
        vm.warn("nvme-drive", 8)
        record(vm, "sata-failing-attribute", f"{ASK} -d sat {sata}")
        record(vm, "nvme-read-only", f"{ASK} -d nvme /dev/nvme0")


def record(vm: VM, name: str, command: str) -> None:
    """Keep what a command prints; its exit status is in there, too."""
    text = vm.start(command).wait(120).stdout
    print(name, json.loads(text)["smartctl"]["exit_status"], flush=True)
    (DIRECTORY / f"{name}.json").write_text(text + "\n" * (not text.endswith("\n")))


if __name__ == "__main__":
    main()
