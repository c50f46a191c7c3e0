"""What the kernel of a real machine says of failing disks: one incident each, with its lines.

The tests are one story and run in this order; the errors of one are what the next must not tell
again. Disks of scsi_debug are faster than any other, and may be as silent as a dead one.
"""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from vm.harness import MEBIBYTE, Disk, wait_for
from vm.watched import FLOOD, text_of, watching

if TYPE_CHECKING:
    from collections.abc import Iterator
    from email.message import EmailMessage

    from vm.conftest import Boot
    from vm.harness import VM
    from vm.watched import Watched

SECONDS = 180.0
"""Far above anything measured, for a busy building machine."""
SETTINGS = "warning_group_wait: 5s\nintervals: {md: 6s, ext4: 6s, mounts: 6s}\n"
SIZE_BYTES = 64 * MEBIBYTE
DISKS = ("well", "scratched", "mirror-first", "mirror-second", "mirror-third", "ragged", "last")
LOUD, SILENT, UNSEEN = "2000", "3000", "4000"
"""The serial numbers of scsi_debug's disks. Source: drivers/scsi/scsi_debug.c, resp_inquiry."""
DRIVER = "/sys/bus/pseudo/drivers/scsi_debug"
MEDIUM_ERRORS, TIME_OUTS = 2, 4
"""Its option 'opts'. Source: the same, SDEBUG_OPT_MEDIUM_ERR, SDEBUG_OPT_TIMEOUT."""
BAD_SECTOR, BAD_SECTORS = 20480, 4096
STORM_LINES, STORM_ERRORS = 100_000, 25_000
EACH_COMMAND = 1 << 12
"""That all four lines of each failed command are logged, and not ten in five seconds.
Source: drivers/scsi/scsi_logging.h, SCSI_LOG_MLCOMPLETE_SHIFT.
"""
STORM = """\
import mmap, os, sys
descriptor, page = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, 4096)
number = 0
while number < int(sys.argv[3]) or os.path.exists("/run/storm"):
    number += 1
    try:
        os.preadv(descriptor, [page], 512 * (int(sys.argv[2]) + number % 1024))
    except OSError:
        continue
    sys.exit("expected an error, got data")
"""
JOURNAL = "journalctl --quiet --dmesg --output=cat --lines=5000"
RING = "dmesg --notime --facility kern"
"""Where the kernel's lines are read: right after a storm the journal has not all of them, and to
read what it has takes an emulated machine minutes.
"""
FORGED = (
    "sd 2:0:0:0: [{0}] tag#1 Sense Key : Medium Error [current]",
    "critical medium error, dev {0}, sector 8 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
    "sd 2:0:0:0: Device offlined - not ready after error recovery",
    "EXT4-fs error (device {0}): ext4_find_entry:1455: inode #2: comm ls: reading directory",
)


@dataclass(frozen=True, slots=True)
class Hurt:
    """A disk that something was done to, and when. Units: Unix time of the guest."""

    serial: str
    device: str
    begun_seconds: float
    ended_seconds: float


@pytest.fixture(scope="module")
def vm(boot: Boot) -> Iterator[VM]:
    """Boot a guest of its own: the errors in its log are no other test's. Its journal is kept."""
    with boot(Disk(name, SIZE_BYTES) for name in DISKS) as vm:
        vm.run(
            "printf '[Journal]\\nStorage=persistent\\n' > /etc/systemd/journald.conf.d/later.conf;"
            " systemctl restart systemd-journald; journalctl --flush"
        )
        options = (
            f"num_tgts=3 vpd_use_hostno=0 dev_size_mb=16 opts={MEDIUM_ERRORS} ndelay=1 statistics=1"
            f" medium_error_start={BAD_SECTOR} medium_error_count={BAD_SECTORS}"
        )
        vm.run(f"echo options scsi_debug {options} > /etc/modprobe.d/scsi_debug.conf")
        vm.run("echo scsi_debug > /etc/modules-load.d/scsi_debug.conf; modprobe scsi_debug")
        wait_for(lambda: vm.has(LOUD, SILENT, UNSEEN), "the disks of scsi_debug", 60)
        first, second, ragged = map(vm.device, ("mirror-first", "mirror-second", "ragged"))
        vm.run(
            "mdadm --create /dev/md0 --quiet --run --assume-clean --bitmap=none --metadata=1.2"
            f" --level=1 --raid-devices=2 /dev/{first} /dev/{second}"
        )
        vm.run(
            f"mkfs.ext4 -q -F -L ragged /dev/{ragged}; mkdir -p /mnt/ragged;"
            " echo LABEL=ragged /mnt/ragged ext4 nofail 0 0 >> /etc/fstab; mount /mnt/ragged"
        )
        yield vm


@pytest.fixture(scope="module")
def watched(vm: VM) -> Iterator[Watched]:
    """Start iowarden as a service that comes back after a reboot; return when it knows all."""
    with watching(vm, SETTINGS) as watched:
        vm.run("systemctl enable iowarden")
        wait_for(lambda: _knows(watched), "all disks and the array", SECONDS)
        yield watched


def _knows(watched: Watched) -> bool:
    return (
        {*DISKS, LOUD, SILENT, UNSEEN} <= watched.disks().keys()
        and watched.metric("iowarden_md_degraded", device="md0") == 0
        and watched.metric("iowarden_kernel_events_total", kind="fs_error") == 0
    )


def _read(vm: VM, serial: str, sector: int) -> Hurt:
    """Read a page that cannot be read."""
    device, begun = vm.device(serial), _clock(vm)
    vm.run(f"! dd if=/dev/{device} of=/dev/null bs=512 skip={sector} count=8 iflag=direct")
    return Hurt(serial, device, begun, _clock(vm))


def _clock(vm: VM) -> float:
    return float(vm.run("date +%s.%N"))


def _lines(vm: VM, *words: str, log: str = JOURNAL) -> list[str]:
    """Return the kernel's lines with these words."""
    lines = vm.run(log).splitlines()
    return [line.strip() for line in lines if all(word in line for word in words)]


def _line(vm: VM, *words: str, log: str = JOURNAL) -> str:
    """Return the one line of the kernel with these words, once it is there."""
    wait_for(lambda: _lines(vm, *words, log=log), f"a line with {words}", SECONDS)
    (line,) = _lines(vm, *words, log=log)
    return line


def _forge(vm: VM, device: str) -> None:
    """Say what the kernel says of a failing disk, as any program can."""
    for line in FORGED:
        text = line.format(device)
        vm.run(f"echo '<3>{text}' > /dev/kmsg; echo '<0>{text}' > /dev/kmsg")
        vm.run(f"logger --priority kern.err --tag kernel '{text}'")
        vm.run(f"echo '{text}' | systemd-cat --identifier=kernel --priority=err")


def _flat(mail: EmailMessage) -> str:
    """Return a mail's text without its line ends: a long line of the kernel is wrapped."""
    return " ".join(text_of(mail).split())


def _about(watched: Watched, serial: str) -> list[EmailMessage]:
    """Return the mails whose object is this disk."""
    heads = ((mail, text_of(mail).partition("\n\n")[0]) for mail in watched.mail.mails)
    return [
        mail for mail, head in heads if re.search(rf"serial {serial}\b", " ".join(head.split()))
    ]


def _incident(watched: Watched, serial: str) -> list[EmailMessage]:
    """Return the mails about a disk: there is one incident, opened once, the others answer it.

    Its first mail may be about an array, whose loss may be read before the kernel's lines.
    """
    wait_for(lambda: _about(watched, serial), f"a mail about '{serial}'", SECONDS)
    mails = _about(watched, serial)
    incident = mails[0]["X-Iowarden-Incident"]
    another = [m["Subject"] + text_of(m) for m in mails if m["X-Iowarden-Incident"] != incident]
    assert another == []
    first, *others = (m for m in watched.mail.mails if m["X-Iowarden-Incident"] == incident)
    assert first["In-Reply-To"] is None
    assert all(first["Message-ID"] in mail["References"] for mail in others)
    return mails


def _told(mail: EmailMessage, line: str) -> list[float]:
    """Return the times at which a mail's evidence has a line of the kernel, as Unix time."""
    clocks = re.findall(
        rf"(\d\d:\d\d:\d\d) kernel {re.escape(' '.join(line.split()))}", _flat(mail)
    )
    written = mail["Date"].datetime.astimezone(UTC)
    times = [
        datetime.combine(written, datetime.strptime(each, "%H:%M:%S").time(), UTC)  # noqa: DTZ007
        for each in clocks
    ]
    return [(t if t <= written else t - timedelta(days=1)).timestamp() for t in times]


def _assert_told(mail: EmailMessage, line: str, hurt: Hurt) -> None:
    """Assert that the evidence has the line once, with the time at which it was so."""
    (at,) = _told(mail, line)
    assert hurt.begun_seconds - 2 <= at <= hurt.ended_seconds + 2


def _assert_shown(watched: Watched, mail: EmailMessage, line: str, hurt: Hurt) -> None:
    """Assert that the incident has the line, which may have come after the mail, and its time."""
    wait_for(lambda: line in _history(watched, hurt.serial), f"'{line}' in the history", SECONDS)
    (at,) = _history(watched, hurt.serial)[line]
    assert hurt.begun_seconds - 2 <= at <= hurt.ended_seconds + 2
    shown = watched.vm.run(f"iowarden incident show {mail['X-Iowarden-Incident']}")
    assert " ".join(line.split()) in " ".join(shown.split())


def _history(watched: Watched, serial: str) -> dict[str, list[float]]:
    """Return the kernel's warnings about a disk that are kept, and when they were."""
    command = f"iowarden events --json --source kernel --severity warning --disk {serial}"
    found: dict[str, list[float]] = {}
    for line in watched.vm.run(command).splitlines():
        event = json.loads(line)
        found.setdefault(event["text"], []).append(event["at_seconds"])
    return found


@pytest.fixture(scope="module")
def unreadable(watched: Watched) -> dict[str, Hurt]:
    """Read a bad sector of a SCSI disk, and one of a disk of scsi_debug."""
    watched.vm.damage("scratched", "read", BAD_SECTOR)
    return {serial: _read(watched.vm, serial, BAD_SECTOR) for serial in ("scratched", LOUD)}


@pytest.mark.parametrize("serial", ["scratched", LOUD])
def test_a_sector_that_cannot_be_read_is_one_incident_of_its_disk(
    watched: Watched, unreadable: dict[str, Hurt], serial: str
) -> None:
    """The kernel's five lines are one warning, with those that say what happened, and when."""
    hurt = unreadable[serial]
    (mail,) = _incident(watched, serial)
    assert mail["Subject"].startswith("[WARNING]")
    assert hurt.device in mail["Subject"]
    block = _line(watched.vm, f"dev {hurt.device}, sector {BAD_SECTOR} ")
    sense = _line(watched.vm, f"[{hurt.device}]", "Sense Key : Medium Error")
    _assert_told(mail, block, hurt)
    _assert_told(mail, sense, hurt)
    # QEMU's disk calls itself a virtual one: whoever runs it knows how it is.
    virtual = f"{hurt.device} is a virtual disk"
    assert (f"smartctl -x /dev/{hurt.device}" if serial == LOUD else virtual) in text_of(mail)


@pytest.fixture(scope="module")
def failed(watched: Watched) -> Iterator[Hurt]:
    """Let a member of the mirror fail its writes."""
    vm = watched.vm
    device, begun = vm.device("mirror-second"), _clock(vm)
    vm.damage("mirror-second", "write")
    vm.run("dd if=/dev/zero of=/dev/md0 bs=4k count=1 oflag=direct")
    wait_for(lambda: _lines(vm, f"Disk failure on {device}"), "the end of a member", SECONDS)
    yield Hurt("mirror-second", device, begun, _clock(vm))
    vm.repair("mirror-second")


def test_a_member_that_fails_is_one_incident_with_its_array(watched: Watched, failed: Hurt) -> None:
    """The disk's error, the array's loss and the kernel's word for it are one; it is critical."""
    wait_for(
        lambda: watched.journal("IOWARDEN_ALERT=MdDegraded", "IOWARDEN_STATE=firing"),
        "that the array is degraded",
        SECONDS,
    )
    mails = _incident(watched, failed.serial)
    (alert,) = watched.journal("IOWARDEN_ALERT=MdDegraded", "IOWARDEN_STATE=firing")
    assert alert["IOWARDEN_INCIDENT"] == mails[0]["X-Iowarden-Incident"]
    assert mails[-1]["Subject"].startswith("[CRITICAL]")
    line = _line(watched.vm, f"Disk failure on {failed.device}")
    _assert_shown(watched, mails[0], line, failed)
    identifier = mails[0]["X-Iowarden-Incident"]
    thread = [m for m in watched.mail.mails if m["X-Iowarden-Incident"] == identifier]
    # The first one may be about the array alone.
    assert any("mdadm --detail" in text_of(mail) for mail in thread)
    assert watched.mail.naming("by command") == []


def test_a_rebuild_onto_another_disk_is_no_incident(watched: Watched, failed: Hurt) -> None:
    """It is in the history of events, from its beginning to its end."""
    vm, mails = watched.vm, len(_about(watched, failed.serial))
    vm.run(f"mdadm --quiet /dev/md0 --add /dev/{vm.device('mirror-third')}")
    wait_for(
        lambda: watched.metric("iowarden_md_degraded", device="md0") == 0, "a rebuild", SECONDS
    )
    events = {"md_sync_started", "md_sync_done"}
    wait_for(
        lambda: all(
            watched.metric("iowarden_kernel_events_total", kind=kind, device="md0") == 1
            for kind in events
        ),
        "its events",
        SECONDS,
    )
    vm.run(f"mdadm --quiet /dev/md0 --remove /dev/{failed.device}")
    assert len(_about(watched, failed.serial)) == mails
    assert [text_of(mail) for mail in _about(watched, "mirror-first")] == []
    assert [text_of(mail) for mail in _about(watched, "mirror-third")] == []


@pytest.fixture(scope="module")
def offline(watched: Watched) -> Hurt:
    """Let a disk answer nothing until the kernel gives it up."""
    vm = watched.vm
    device, begun = vm.device(SILENT), _clock(vm)
    vm.run(
        f"cd /sys/block/{device}/device; echo 1 > timeout; echo 1 > eh_timeout;"
        f" echo {TIME_OUTS} > {DRIVER}/opts; echo 1 > {DRIVER}/every_nth"
    )
    reader = vm.start(f"dd if=/dev/{device} of=/dev/null bs=4k count=1 iflag=direct")
    state = f"cat /sys/block/{device}/device/state"
    wait_for(lambda: vm.run(state).strip() == "offline", "the end of its patience", SECONDS)
    vm.run(f"echo {MEDIUM_ERRORS} > {DRIVER}/opts; echo 0 > {DRIVER}/every_nth")
    assert reader.wait(SECONDS).status != 0
    return Hurt(SILENT, device, begun, _clock(vm))


def test_a_disk_that_never_answers_is_one_incident_until_it_is_given_up(
    watched: Watched, offline: Hurt
) -> None:
    """Its hang, the timeouts, the resets and the kernel's last word are one thread of mails."""
    line = _line(watched.vm, "Device offlined")
    mails = _incident(watched, SILENT)
    # It hung for so long that this was mailed; more of the same is, ten minutes later.
    _assert_shown(watched, mails[0], line, offline)
    wait_for(
        lambda: any(m["Subject"].startswith("[CRITICAL]") for m in _about(watched, SILENT)),
        "that it is critical",
        SECONDS,
    )
    mails = _incident(watched, SILENT)
    assert all(offline.device in mail["Subject"] for mail in mails)


@contextlib.contextmanager
def _storm(vm: VM, device: str) -> Iterator[None]:
    """Let the kernel say the same all the time; in the end it did so a hundred thousand times."""
    number, setting = _last_record(vm), "/proc/sys/dev/scsi/logging_level"
    vm.run("cat > /run/storm.py; touch /run/storm", STORM.encode())
    vm.run(f"echo {EACH_COMMAND} > {setting}")
    reader = vm.start(f"python3 /run/storm.py /dev/{device} {BAD_SECTOR} {STORM_ERRORS}")
    try:
        yield
    finally:
        vm.run("rm /run/storm")
        ended = reader.wait(600)
        vm.run(f"echo 0 > {setting}")
    assert (ended.status, ended.stderr) == (0, "")
    assert _last_record(vm) - number >= STORM_LINES


def _last_record(vm: VM) -> int:
    """Return the number of the last record of the kernel's log. Source: ABI/testing/dev-kmsg."""
    record = vm.run("dd if=/dev/kmsg iflag=nonblock bs=8k 2>/dev/null | grep '^[0-9]' | tail -n 1")
    return int(record.split(",")[1])


def test_a_hundred_thousand_lines_are_one_incident(
    watched: Watched, unreadable: dict[str, Hurt]
) -> None:
    """It gets worse once, while they come; the mail has the first line, the last, and how many."""
    hurt = unreadable[LOUD]
    with _storm(watched.vm, hurt.device):
        wait_for(
            lambda: any(m["Subject"].startswith("[CRITICAL]") for m in _about(watched, LOUD)),
            "that it is critical",
            SECONDS,
        )
    opened, worse = _incident(watched, LOUD)
    assert opened["Subject"].startswith("[WARNING]")
    assert worse["Subject"].startswith("[CRITICAL]")
    assert re.search(r"\.\.\. [1-9][0-9]* more of these", _flat(worse))
    # The kernel's ring holds some hundreds of them: what it lost is no more than a count.
    labels = {"kind": "scsi_medium_error", "device": hurt.device}
    wait_for(
        lambda: (watched.metric("iowarden_kernel_events_total", **labels) or 0) > 100,
        "a count of them",
        SECONDS,
    )
    assert watched.unit("ActiveState", "NRestarts") == {"ActiveState": "active", "NRestarts": "0"}


def test_a_line_that_a_program_writes_into_the_kernels_log_is_none_of_the_kernels(
    watched: Watched,
) -> None:
    """Neither by '/dev/kmsg' nor by syslog; the next true line is told all the same."""
    vm = watched.vm
    _forge(vm, vm.device("well"))
    device, begun = vm.device("ragged"), _clock(vm)
    vm.run(f"echo try > /sys/fs/ext4/{device}/trigger_fs_error")
    error = Hurt("ragged", device, begun, _clock(vm))
    line = _line(vm, f"EXT4-fs error (device {device})", log=RING)
    mails = _incident(watched, "ragged")
    assert mails[0]["Subject"].startswith("[CRITICAL]")
    _assert_shown(watched, mails[0], line, error)
    assert f"e2fsck -f /dev/{device}" in text_of(mails[0])
    assert watched.mail.naming("serial well") == []
    # In a slow guest most of the storm's lines are read after its mail: one more has the count.
    assert len(_incident(watched, LOUD)) in {2, 3}


def test_the_series_and_the_kernels_line_of_a_file_system_error_are_one_incident(
    watched: Watched,
) -> None:
    """Of the two that tell it one comes later, and opens nothing."""
    wait_for(
        lambda: (
            watched.mail.naming("FilesystemErrors", "serial ragged")
            or watched.journal("IOWARDEN_ALERT=FilesystemErrors", "IOWARDEN_STATE=firing")
        ),
        "the alert",
        SECONDS,
    )
    _incident(watched, "ragged")
    device = watched.vm.device("ragged")
    watched.vm.run(f"umount /mnt/ragged; e2fsck -f -y /dev/{device}; [ $? -le 1 ]")
    watched.vm.run("mount /mnt/ragged")


def test_a_member_that_somebody_fails_by_command_is_reported_as_such(watched: Watched) -> None:
    """To the kernel it is the same; minutes after an error nobody can say that it was by hand."""
    vm = watched.vm
    device, begun = vm.device("mirror-third"), _clock(vm)
    vm.run(f"mdadm --quiet /dev/md0 --fail /dev/{device}")
    hurt = Hurt("mirror-third", device, begun, _clock(vm))
    mails = _incident(watched, hurt.serial)
    line = _line(vm, f"Disk failure on {device}")
    _assert_told(mails[0], line, hurt)
    assert "by command" not in _flat(mails[0])
    # Whole again, because a degraded array is news after a reboot.
    vm.run(f"mdadm --quiet /dev/md0 --remove /dev/{device}")
    vm.run(f"mdadm --quiet --zero-superblock /dev/{device}; mdadm -q /dev/md0 --add /dev/{device}")
    wait_for(
        lambda: watched.metric("iowarden_md_degraded", device="md0") == 0, "a rebuild", SECONDS
    )


def test_what_happened_while_nobody_looked_is_reported_after_the_start(watched: Watched) -> None:
    """One error is only in the journal by then, one still in the kernel's ring: each once."""
    vm = watched.vm
    vm.run("systemctl stop iowarden")
    journaled = _read(vm, UNSEEN, BAD_SECTOR)
    early = _line(vm, f"dev {journaled.device}, sector {BAD_SECTOR} ")
    vm.run("python3 -", FLOOD.encode())
    wait_for(lambda: _lines(vm, "flood 1999 "), "the journal", SECONDS)
    assert early not in vm.run("dmesg --notime")
    held = _read(vm, UNSEEN, BAD_SECTOR + 1024)
    late = _line(vm, f"dev {held.device}, sector {BAD_SECTOR + 1024} ")
    _forge(vm, vm.device("well"))
    vm.run("systemctl start iowarden", timeout_seconds=180)
    wait_for(lambda: {early, late} <= _history(watched, UNSEEN).keys(), "both errors", SECONDS)
    (mail,) = _incident(watched, UNSEEN)
    _assert_told(mail, late, held)
    vm.run("systemctl restart iowarden", timeout_seconds=180)
    wait_for(lambda: _knows(watched), "all of it", SECONDS)
    history = _history(watched, UNSEEN)
    for line, hurt in ((early, journaled), (late, held)):
        (at,) = history[line]
        assert hurt.begun_seconds - 2 <= at <= hurt.ended_seconds + 5  # journald is behind, too
    assert len(_incident(watched, UNSEEN)) == 1
    assert watched.mail.naming("serial well") == []
    assert _history(watched, "well") == {}


def test_a_reboot_reports_what_happened_before_it_and_repeats_nothing(watched: Watched) -> None:
    """An error that nobody saw before the reboot is told of its disk, whose name may be another."""
    vm = watched.vm
    vm.repair("scratched")
    vm.run("systemctl stop iowarden")
    vm.damage("last", "read", BAD_SECTOR)
    unseen = _read(vm, "last", BAD_SECTOR)
    vm.repair("last")
    line = _line(vm, f"dev {unseen.device}, sector {BAD_SECTOR} ")
    told = [mail["Message-ID"] for mail in watched.mail.mails]
    vm.reboot()
    wait_for(lambda: vm.has(*DISKS, LOUD, SILENT, UNSEEN), "the disks after the reboot", SECONDS)
    (mail,) = _incident(watched, "last")
    _assert_told(mail, line, unseen)
    wait_for(lambda: _knows(watched), "all of it", SECONDS)
    # What comes later would have been told after what was so at the start.
    vm.damage("scratched", "read", BAD_SECTOR + 8)
    hurt = _read(vm, "scratched", BAD_SECTOR + 8)
    wait_for(
        lambda: watched.metric(
            "iowarden_kernel_events_total", kind="block_medium_error", device=hurt.device
        ),
        "an error of after the reboot",
        SECONDS,
    )
    vm.repair("scratched")
    after = [m for m in watched.mail.mails if m["Message-ID"] not in {*told, mail["Message-ID"]}]
    # The kernel leaves the member that failed out of the array once more when it assembles it.
    known = [*_about(watched, "scratched"), *_about(watched, "mirror-second")]
    # What has ended is news, once; how long the service ran before decides when it is.
    is_end = re.compile(r"\[OK\]|.* REBUILT: ").match
    others = [m for m in after if m not in known and not is_end(m["Subject"])]
    assert [m["Subject"] + text_of(m) for m in others] == []
    ended = [mail["X-Iowarden-Incident"] for mail in watched.mail.saying("[OK]")]
    assert len(ended) == len({*ended})


def test_nothing_else_was_mailed(watched: Watched) -> None:
    """No incident of the host, of an adapter, or of a disk that had nothing."""
    hurt = ("scratched", "mirror-second", "mirror-third", "ragged", "last", LOUD, SILENT, UNSEEN)
    known = {_incident(watched, serial)[0]["X-Iowarden-Incident"] for serial in hurt}
    assert len(known) == len(hurt)
    others = [m for m in watched.mail.mails if m["X-Iowarden-Incident"] not in known]
    assert [m["Subject"] + text_of(m) for m in others] == []
