"""SMART on a real kernel: SATA, NVMe, SCSI and MegaRAID disks, asked by a real smartctl.

The tests are one story and run in this order, in which one waits while another does. For half of it
one disk hangs: what the others say meanwhile proves that it holds up none.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from vm.harness import MEBIBYTE, Bus, Disk, wait_for
from vm.watched import watching

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vm.conftest import Boot
    from vm.harness import VM
    from vm.watched import Watched

SIZE_BYTES = 64 * MEBIBYTE
DISKS = (
    Disk("sata-rotating", SIZE_BYTES, 7200, Bus.SATA, 0),
    Disk("sata-solid", SIZE_BYTES, 1, Bus.SATA, 1),
    Disk("nvme-first", SIZE_BYTES, 1, Bus.NVME, 0),
    Disk("scsi-plain", SIZE_BYTES),
    Disk("raid-first", SIZE_BYTES, 7200, Bus.RAID, 0),
    Disk("raid-second", SIZE_BYTES, 7200, Bus.RAID, 1),
)
SECOND = Disk("nvme-second", SIZE_BYTES, 1, Bus.NVME, 1)
ASKED = ("sata-rotating", "sata-solid", "nvme-first")
"""The disks that have something to say."""
SETTINGS = "smart: {interval: 1m, raid_interval: 1m}\n"
SECONDS = 240.0
"""Until a drive was asked again and what it said was judged or mailed: a minute, with reserve."""
STUCK_SECONDS = 420.0
"""Until a drive's turn came, a minute of its deadline, its end in vain, and all that told."""
REALLOCATED = ("Reallocated_Sector_Ct", "5")
MEDIA_READ_ONLY, SPARE_LOW = 8, 1
"""Bits of the critical warning. Source: NVM Express Base Specification, log page 02h."""


@pytest.fixture(scope="module")
def vm(boot: Boot) -> Iterator[VM]:
    """Boot a guest with a disk of each kind: the other tests' guest has only SCSI disks."""
    with boot(DISKS) as vm:
        yield vm


@pytest.fixture(scope="module")
def watched(vm: VM) -> Iterator[Watched]:
    """Start iowarden as a service that comes back after a reboot; return when all were asked."""
    with watching(vm, SETTINGS) as watched:
        vm.run("systemctl enable iowarden")
        # A disk without I/O is polled once a day: one block of each is read now and then.
        vm.start(
            "while sleep 20; do for disk in /dev/sd? /dev/nvme?n1; do"
            f" [ $disk = /dev/{vm.device('scsi-plain')} ] ||"
            " dd if=$disk of=/dev/null iflag=direct bs=4k count=1; done; done"
        )
        wait_for(
            lambda: (
                {
                    disk["disk"]
                    for disk in watched.disks().values()
                    if disk["monitoring_state"] != "not_polled_yet"
                }
                >= {*ASKED, "scsi-plain", "raid-first"}
            ),
            "an answer of each disk",
            SECONDS,
        )
        yield watched


@pytest.fixture(scope="module")
def hung(watched: Watched) -> Iterator[Watched]:
    """Hang a disk in such a way that whoever asks it waits in the kernel, and cannot be killed."""
    vm = watched.vm
    device = vm.device("scsi-plain")
    # One request at a time: the next waits behind the one that hangs.
    vm.run(f"echo 1 > /sys/block/{device}/device/queue_depth")
    vm.throttle("scsi-plain", total=1)
    reader = vm.start(f"dd if=/dev/{device} of=/dev/null iflag=direct bs=4k count=64")
    wait_for(lambda: "D" in vm.run("ps -C dd -o stat= || :"), "a hung reader", 60)
    yield watched
    vm.throttle("scsi-plain")
    reader.wait(120)


@pytest.fixture(scope="module")
def worse(hung: Watched) -> Watched:
    """Let a value fall below its threshold on the SATA disks, and an NVMe drive warn."""
    assert hung.mail.naming("DiskAttributeFailed") == []
    assert hung.mail.naming("NvmeCriticalWarning") == []
    hung.vm.set_attribute(5, value=20, raw=2000)
    hung.vm.warn("nvme-first", MEDIA_READ_ONLY)
    return hung


def _cover(watched: Watched, name: str) -> str | None:
    disk = watched.disks().get(name)
    return None if disk is None else disk["monitoring_state"]


def _smartctl(watched: Watched, name: str) -> dict[str, Any]:
    """Return what smartctl says when a person asks; its exit status is a matter of the drive."""
    command = f"smartctl --json --all /dev/{watched.vm.device(name)}"
    answer: dict[str, Any] = json.loads(watched.vm.start(command).wait(120).stdout)
    return answer


def _raw(watched: Watched, name: str, attribute: str, number: str) -> float | None:
    labels = {"disk": name, "attribute": attribute, "id": number}
    return watched.metric("iowarden_smart_attribute_raw", **labels)


@pytest.mark.parametrize("name", ["sata-rotating", "sata-solid"])
def test_a_sata_disks_attributes_are_read(watched: Watched, name: str) -> None:
    """All of its table, as smartctl shows it to a person."""
    table = _smartctl(watched, name)["ata_smart_attributes"]["table"]
    assert len(table) == 7
    for row in table:
        first, *_ = row["raw"]["string"].split()
        assert _raw(watched, name, row["name"], str(row["id"])) == float(first), row["name"]
    assert watched.metric("iowarden_smart_passed", disk=name) == 1


def test_an_nvme_drives_health_is_read(watched: Watched) -> None:
    """Its log, as smartctl shows it to a person."""
    log = _smartctl(watched, "nvme-first")["nvme_smart_health_information_log"]
    labels = {"disk": "nvme-first"}
    assert watched.metric("iowarden_smart_nvme_critical_warning", **labels) == 0
    assert watched.metric("iowarden_disk_temperature_celsius", **labels) == log["temperature"]
    spare_ratio = watched.metric("iowarden_smart_nvme_available_spare_ratio", **labels)
    assert spare_ratio == log["available_spare"] / 100


@pytest.mark.parametrize("name", ["scsi-plain", "raid-first"])
def test_a_disk_without_smart_reports_why_nothing_is_read(watched: Watched, name: str) -> None:
    """One on a SCSI adapter, one that a MegaRAID controller hides: in smartctl's own words."""
    disk = watched.disks()[name]
    assert disk["monitoring_state"] == "unreadable"
    assert "device lacks SMART capability" in disk["reason"]
    assert disk["polled_seconds"] is None
    assert "device lacks SMART capability" in watched.vm.run(f"iowarden disk show {name}")


def test_a_disk_that_the_scan_lists_twice_is_one(watched: Watched) -> None:
    """It is there as 256 and as 0, which its serial number tells to be one."""
    scanned = json.loads(watched.vm.run("smartctl --json --scan"))["devices"]
    kinds = {each["type"] for each in scanned if each["type"].startswith("megaraid,")}
    assert kinds == {"megaraid,256", "megaraid,0"}
    asked = [disk for disk in watched.disks().values() if "megaraid" in disk["access_method"]]
    assert [disk["disk"] for disk in asked] == ["raid-first"]
    shown = json.loads(watched.vm.run("iowarden disk show --json raid-first"))
    assert {
        shown["line"]["access_method"].split()[0],
        *(way.split()[0] for way in shown["other_access_methods"]),
    } >= kinds


def test_a_self_test_is_begun_and_read_back(worse: Watched) -> None:
    """By a person's command; what came of it is on the drive, in the metrics and in the answer."""
    begun = worse.vm.run("iowarden selftest start --wait sata-solid short", timeout_seconds=600)
    assert "passed" in begun
    (entry,) = _smartctl(worse, "sata-solid")["ata_smart_self_test_log"]["standard"]["table"]
    assert entry["status"]["passed"]
    labels = {"disk": "sata-solid", "kind": "short"}
    assert worse.metric("iowarden_smart_self_test_passed", **labels) == 1


def test_a_value_that_falls_is_reported(worse: Watched) -> None:
    """Below its threshold it is critical at once; the mail has the numbers that it had."""
    wait_for(
        lambda: worse.mail.naming("DiskAttributeFailed", "sata-rotating", "2000"),
        "a mail of the attribute",
        SECONDS,
    )
    assert _raw(worse, "sata-rotating", *REALLOCATED) == 2000
    # The drive's own verdict stays good, as that of many that die.
    assert worse.metric("iowarden_smart_passed", disk="sata-rotating") == 1


def test_a_warning_of_an_nvme_drive_is_reported(worse: Watched) -> None:
    """The mail says what the bit means."""
    wait_for(
        lambda: worse.mail.naming("NvmeCriticalWarning", "nvme-first", "read-only"),
        "a mail of the warning",
        SECONDS,
    )
    assert worse.metric("iowarden_smart_passed", disk="nvme-first") == 0


def test_a_drive_that_is_plugged_in_is_queried_and_judged(hung: Watched) -> None:
    """It is read soon, not in half an hour; what it says of itself from the start is told."""
    hung.vm.plug(SECOND)
    hung.vm.warn("nvme-second", SPARE_LOW)
    wait_for(lambda: _cover(hung, "nvme-second") == "monitored", "its first reading", SECONDS)
    disk = hung.disks()["nvme-second"]
    assert disk["device"] == hung.vm.device("nvme-second")
    assert "kernel" in disk["expected_by"]
    wait_for(
        lambda: hung.mail.naming("NvmeCriticalWarning", "nvme-second", "spare"), "a mail", SECONDS
    )


def test_a_count_that_grew_is_reported_when_it_stays_so(worse: Watched) -> None:
    """A reading later the sectors it gave up are told as growth, above the limit for good."""
    wait_for(
        lambda: (
            {"DiskReallocatedSectorsIncreased", "DiskReallocatedSectorsHigh"}
            <= set(worse.disks()["sata-rotating"]["alerts"])
        ),
        "alerts on growth",
        SECONDS,
    )
    grown = {"disk": "sata-rotating", "attribute": REALLOCATED[0], "id": REALLOCATED[1]}
    assert worse.metric("iowarden_smart_increase", **grown) == 2000


def test_a_disk_that_hangs_keeps_no_other_from_being_queried(worse: Watched) -> None:
    """It is told as stuck, is not taken for well, and the others are read on as if it were not."""
    wait_for(lambda: _cover(worse, "scsi-plain") == "hung", "the stuck disk", STUCK_SECONDS)
    told = worse.disks()
    assert "hangs in the kernel" in told["scsi-plain"]["reason"]
    assert "ProbeProgramStuck" in told["scsi-plain"]["alerts"]
    others = (*ASKED, "nvme-second")
    wait_for(
        lambda: all(
            now[name]["polled_seconds"] > told[name]["polled_seconds"]
            for now in [worse.disks()]
            for name in others
        ),
        "another reading of each other disk",
        SECONDS,
    )
    now = worse.disks()
    assert now["scsi-plain"]["monitoring_state"] == "hung"
    assert {now[name]["monitoring_state"] for name in others} == {"monitored"}


def test_a_disk_that_answers_again_is_queried_again(worse: Watched) -> None:
    """What came of it is again the reason that it ever had."""
    worse.vm.throttle("scsi-plain")
    wait_for(lambda: _cover(worse, "scsi-plain") == "unreadable", "its answer", SECONDS)


def test_a_drive_that_is_pulled_out_is_neither_read_nor_well(worse: Watched) -> None:
    """Its removal is an event with its serial number; its alert is unknown and not over."""
    worse.vm.unplug("nvme-first")
    wait_for(
        lambda: any(
            "nvme-first" in str(entry["MESSAGE"])
            for entry in worse.journal("IOWARDEN_STATE=removed")
        ),
        "its removal in the journal",
        SECONDS,
    )
    wait_for(lambda: _cover(worse, "nvme-first") in {None, "missing"}, "that it is gone", SECONDS)
    wait_for(
        lambda: worse.journal("IOWARDEN_ALERT=NvmeCriticalWarning", "IOWARDEN_STATE=unknown"),
        "an alert that nobody can judge any more",
        SECONDS,
    )
    assert worse.metric("iowarden_smart_passed", disk="nvme-first") is None
    assert worse.journal("IOWARDEN_ALERT=NvmeCriticalWarning", "IOWARDEN_STATE=resolved") == []
    assert worse.mail.saying("[OK]") == []


def test_a_drive_that_a_reboot_gives_anothers_name_stays_itself(worse: Watched) -> None:
    """The second NVMe drive gets the name of the first: same incident, same alert, no news."""
    vm = worse.vm
    before = _incidents(worse, "nvme-second")
    assert len(before) == 1
    assert vm.device("nvme-second") == "nvme1n1"
    vm.reboot()
    wait_for(lambda: vm.has("nvme-second"), "the disk after the reboot", 120)
    assert vm.device("nvme-second") == "nvme0n1"
    wait_for(lambda: _cover(worse, "nvme-second") == "monitored", "its first reading", SECONDS)
    wait_for(
        lambda: worse.disks()["nvme-second"]["alerts"] == ["NvmeCriticalWarning"],
        "the alert on it",
        SECONDS,
    )
    assert worse.disks()["nvme-second"]["device"] == "nvme0n1"
    assert worse.metric("iowarden_smart_nvme_critical_warning", disk="nvme-second") == SPARE_LOW
    assert worse.journal("IOWARDEN_ALERT=NvmeCriticalWarning", "IOWARDEN_STATE=resolved") == []
    assert _incidents(worse, "nvme-second") == before
    assert before.isdisjoint(_incidents(worse, "nvme-first"))
    assert worse.mail.saying("[OK]") == []


def test_what_was_known_before_a_reboot_is_known_after_it(worse: Watched) -> None:
    """Growth is counted from the first reading ever, not from the first of this run."""
    wait_for(
        lambda: "DiskReallocatedSectorsIncreased" in worse.disks()["sata-rotating"]["alerts"],
        "the growth of before",
        SECONDS,
    )
    history = worse.vm.run("iowarden disk history sata-rotating 5")
    assert "from 0 to 2000" in history


def _incidents(watched: Watched, name: str) -> set[str]:
    mails = watched.mail.naming("NvmeCriticalWarning", f"serial {name}")
    return {mail["X-Iowarden-Incident"] for mail in mails}
