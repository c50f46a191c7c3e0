"""A report names nobody: no byte of it is a value of the machine; it can still be replayed."""

from __future__ import annotations

import io
import json
import lzma
import os
import re
import signal
import sys
import tarfile
from pathlib import Path

import pytest
import yaml
from support.memory import write_tree
from support.recordings import fixture

from iowarden.collectors.recording.recording import Recording
from iowarden.daemon.cli.main import main
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.rule_files import load_shipped
from iowarden.daemon.replay import replay
from iowarden.daemon.report import bundle
from iowarden.daemon.report.pseudonym import Pseudonyms, WordKind, formed
from iowarden.daemon.report.sensitive import Sensitive

SERIAL, SHORT, NUMERIC, SAS = "WD-WCC4E1234567", "S3Z9NB0K", "904711223344", "ZA1DKJT8"
WWN, WWID, BINARY = "5 0014ee 2b3c4d5e6", "naa.50014ee2b3c4d5e6", "50014ee2b3c4d5e6"
UUID, ARRAY = "3f1b5c9e-7a64-4d0e-9c1b-0a2b3c4d5e6f", "a1b2c3d4:e5f60718:293a4b5c:6d7e8f90"
HOST, OTHER, FILER, RELAY = (
    "kestrel.bank.example",
    "kestrel",
    "filer07.bank.example",
    "mx.bank.example",
)
CLIENT4, CLIENT6, MAC = "10.20.30.41", "2a01:4f8:c17:b0e::2", "52:54:00:ab:cd:ef"
CUSTOMER, SECRET_FILE, VOLUME, LABEL = (
    "acme-payroll",
    "salaries-2026.xlsx",
    "vg_payroll-lv_books",
    "PAYROLL2",
)
PERSON, PASSWORD, LOGIN = "mfischer", "hunter2hunter2", "svc-mailer"
NAMES = {
    "source of a ZFS": "tankpool",
    "tag of a 9p": "sharetag",
    "tag of a virtiofs": "guestshare",
    "user of a Ceph": "cephacct",
    "host of a glusterfs": "gluster3",
    "volume of a glusterfs": "volbooks",
    "mount point with a blank": "Muellers",
    "source in fstab": "poolq",
    "host that made an array": "oldhost",
    "name of an array": "dataset9",
    "host that made another array": "otherhost",
    "name that arcconf shows": "ldbooks",
    "name that tw_cli shows": "unitbooks",
    "volume that storcli lists": "accountvd",
    "volume that cli64 lists": "booksvol",
    "raid set that cli64 lists": "booksset",
    "label of a btrfs": "booksbtr",
    "host in the kernel's log": "falcon9",
    "server in the kernel's log": "nas7",
    "page's host": "storage9",
    "person in front of an address": "Wilhelmine Brandt",
    "short serial number in the configuration": "904711",
    "disk of a self-test": "Z1F3K",
    "slot": "rackbooks",
    "receiver": "booksops",
    "label of a receiver": "mueller-kg",
    "pattern of files": "lohndb",
    "device in an expression": "booksdev",
    "member of a group": "olafm",
}
"""Names that a person gave, each in the place that knows it."""
SENSITIVE = (
    *NAMES.values(),
    *(SERIAL, SHORT, NUMERIC, SAS, WWN, WWID, BINARY, UUID, ARRAY, HOST, OTHER, FILER, RELAY),
    *(CLIENT4, CLIENT6, MAC, CUSTOMER, SECRET_FILE, VOLUME, LABEL, PERSON, PASSWORD, LOGIN),
    *("bank.example", "4321987654", "salaries", "lv_books"),
)
PAGE_83 = bytes.fromhex("0083000c01030008" + BINARY)
SMARTCTL = json.dumps(
    {
        "model_name": "WDC WD40EFRX-68N32N0",
        "serial_number": SERIAL,
        "wwn": {"naa": 5, "oui": 5358, "id": 4321987654},
        "output": [f"LU WWN Device Id: {WWN}", f"Serial Number:    {SERIAL}", "User Capacity: 4"],
    }
)
FILES: dict[str, str | bytes] = {
    "/proc/sys/kernel/hostname": f"{HOST}\n",
    "/proc/diskstats": "8 0 sda 9 0 72 5 0 0 0 0 0 5 5\n",
    "/proc/1/mountinfo": (
        "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
        f"23 22 253:0 / /srv/{CUSTOMER} rw - xfs /dev/mapper/{VOLUME} rw\n"
        f"24 22 0:40 / /mnt/share rw - nfs4 {FILER}:/export/{CUSTOMER} rw,addr={CLIENT4}\n"
        "25 22 0:41 / /srv/z rw - zfs tankpool/books rw\n"
        "26 22 0:42 / /mnt/a rw - 9p sharetag rw,trans=virtio\n"
        "27 22 0:43 / /mnt/b rw - virtiofs guestshare rw\n"
        "28 22 0:44 / /mnt/c rw - ceph 10.9.8.7:6789:/ rw,name=cephacct,secret=<hidden>\n"
        "29 22 0:45 / /mnt/d rw - fuse.glusterfs gluster3:volbooks rw\n"
        "30 22 8:17 / /mnt/with\\040Muellers\\040files rw - ext4 /dev/sdb1 rw\n"
        "31 22 0:46 / /mnt rw - fuse.lxcfs lxcfs rw\n"
    ),
    "/etc/fstab": (
        f"UUID={UUID} / ext4 defaults 0 1\nLABEL={LABEL} /srv/{CUSTOMER} xfs defaults 0 2\n"
        f"//{FILER}/x /mnt/y cifs username={PERSON},password={PASSWORD} 0 0\n"
        "poolq/homes /srv/q zfs defaults 0 0\n"
    ),
    f"/srv/{CUSTOMER}/.statvfs": "4096 4096 100 50 50 10 5 5\n",
    "/sys/block/sda/device/model": "WDC WD40EFRX-68N\n",
    "/sys/block/sda/device/wwid": f"{WWID}\n",
    "/sys/block/sda/device/vpd_pg80": b"\0\x80\0\x14" + SERIAL.rjust(20).encode(),
    "/sys/block/sda/device/vpd_pg83": PAGE_83,
    "/sys/block/vda/serial": NUMERIC,
    "/sys/block/dm-0/dm/name": f"{VOLUME}\n",
    "/sys/block/md0/md/uuid": f"{ARRAY}\n",
    "/sys/block/loop0/loop/backing_file": f"/home/{PERSON}/{SECRET_FILE}\n",
    "/run/udev/data/b8:0": (
        f"E:ID_SERIAL_SHORT={SERIAL}\nE:ID_FS_LABEL={LABEL}\nE:ID_FS_UUID={UUID}\n"
    ),
    "/.probe/run smartctl --json=c -x !dev!sda": SMARTCTL.replace('"', '\\"'),
    "/.probe/run tw_cli !c0!p1 show all": f"/c0/p1 Serial = {SHORT}\n/c0/p2 Serial = {SAS}\n",
    "/.probe/run mdadm --detail !dev!md127": (
        "/dev/md127:\\n              Name : oldhost:dataset9  (local to host oldhost)\\n"
    ),
    "/.probe/run mdadm --detail --export !dev!md126": "MD_LEVEL=raid1\\nMD_NAME=otherhost:1\\n",
    "/.probe/run arcconf getconfig 1": "   Logical Device name   : ldbooks\\n   Status : Optimal",
    "/.probe/run tw_cli !c0 show": "Unit name: unitbooks\nController Name : 9650SE-8LPML\n",
    "/.probe/run storcli64 !c0 show": (
        "VD LIST :\\n0/0   RAID5 Optl  RW     Yes     RAWBD -   ON  1.0 TB accountvd \\n"
    ),
    "/.probe/run storcli64 !c0!eall!sall show all": "Drive /c0/e252/s0 :\\nSN = S3Z9NB0K\\n",
    "/.probe/run cli64 vsf info": (
        "  # Name             Raid Name       Level   Capacity Ch/Id/Lun  State\n"
        "  1 booksvol         booksset        Raid6   4000.0GB 00/00/00   Normal\n"
    ),
    "/.probe/run btrfs filesystem show": "Label: 'booksbtr'  uuid: x\\n",
    f"/.probe/newest !srv!{CUSTOMER} *": "{}",
    "/.kmsg": (
        f"6,1,1,-;EXT4-fs (sda1): mounted filesystem {UUID} r/w\n"
        f"4,2,2,-;EXT4-fs error (device dm-0): path /srv/{CUSTOMER}/{SECRET_FILE}: bad entry\n"
        f"6,3,3,-;nfs: server {FILER} not responding\n"
        "6,5,5,-;systemd[1]: Set hostname to <falcon9>.\n"
        "6,6,6,-;nfs: server nas7 not responding, still trying\n"
        f"6,4,4,-;IN=eth0 MAC={MAC} SRC={CLIENT6} DST={CLIENT4}\n"
    ),
}
CONFIGURATION = f"""\
# {PASSWORD}: not in a comment either
host: {HOST}
mail:
  {{server: {RELAY}, user: {LOGIN}@bank.example, password: {PASSWORD}, to: {PERSON}@bank.example,
  from: "Wilhelmine Brandt <{PERSON}@bank.example>"}}
watch_directories: [{{directory: /srv/{CUSTOMER}}}, {{directory: /srv/wal, glob: 'lohndb-*.dump'}}]
evaluation_interval: 15s
http: {{hosts: [storage9]}}
smart: {{drives: [{{serial: '904711'}}, {{path: /dev/sg2, slot: rackbooks}}]}}
self_tests: [{{disks: [Z1F3K, rotational], short: '02:00'}}]
notify:
- {{name: booksops, type: alertmanager, url: 'http://am/', proxy: 'http://prx:3128',
  labels: {{customer: mueller-kg}}}}
overrides: {{DeviceHang: {{expr: 'iowarden_device_hang_seconds{{device="booksdev"}} > 30'}}}}
"""
CHECK = json.dumps(
    {
        "findings": [
            {"object": f"sda (WDC, serial {SERIAL})", "text": f"/srv/{CUSTOMER} is full"},
            {"object": "", "text": "in group 'iowarden': olafm; they may query"},
        ]
    }
)


@pytest.fixture
def machine(tmp_path: Path) -> str:
    """A machine with a value of each kind in each place, recorded in two frames."""
    top = tmp_path / "machine"
    for number in range(2):
        write_tree(top, {})
        frame = top / f"{number:06d}"
        write_tree(frame, {})
        write_tree(frame / "root", FILES if not number else {"/proc/diskstats": "8 0 sda 9 1\n"})
        (frame / "clock").write_text(
            f"monotonic_seconds {600 + number}\nrealtime_seconds {1795000000 + number}\n"
        )
    (top / "000001/gone").write_text(f"/srv/{CUSTOMER}/.statvfs\n")
    (top / "recording.json").write_text(
        '{"format": "iowarden-recording", "version": 1, "page_size_bytes": 4096}'
    )
    return str(top)


def reported(machine: str, path: Path, key: bytes = b"k") -> str:
    """Write a report of a machine; return its list of contents."""
    facts = bundle.facts("0.1.0")
    return bundle.write(str(path), machine, facts, CHECK, CONFIGURATION, [HOST], key, ["olafm"])


def members(path: Path) -> dict[str, bytes]:
    """The files of a report."""
    with tarfile.open(path) as archive:
        return {
            each.name: file.read()
            for each in archive
            if (file := archive.extractfile(each)) is not None
        }


@pytest.mark.parametrize("value", SENSITIVE)
def test_no_byte_of_a_report_is_a_value_of_the_machine(
    machine: str, tmp_path: Path, value: str
) -> None:
    """In the name of no file and in no content, also in capitals and in binary."""
    reported(machine, tmp_path / "r.tar.xz")
    unpacked = lzma.decompress((tmp_path / "r.tar.xz").read_bytes())
    assert value.encode().lower() not in unpacked.lower()
    assert bytes.fromhex(BINARY) not in unpacked


@pytest.mark.parametrize("name", ["vm", "db", "backup"])
def test_a_short_or_common_host_name_is_not_in_its_file(
    machine: str, tmp_path: Path, name: str
) -> None:
    """'db' is a part of many paths, so it is replaced only where it must be a host's name."""
    hostname = Path(machine) / "000000/root/proc/sys/kernel/hostname"
    hostname.write_text(f"{name}\n")
    reported(machine, tmp_path / "r.tar.xz")
    found = members(tmp_path / "r.tar.xz")
    (content,) = [text for file, text in found.items() if file.endswith("kernel/hostname")]
    assert re.fullmatch(rb"host-[0-9a-f]{10}\n", content)


def test_what_helps_to_find_a_bug_is_still_there(machine: str, tmp_path: Path) -> None:
    """Models, devices, numbers, types of file systems, the settings; what is equal stays equal."""
    contents = reported(machine, tmp_path / "r.tar.xz")
    found = members(tmp_path / "r.tar.xz")
    top = "iowarden-report"
    first = f"{top}/000000/root"
    assert found[f"{first}/proc/diskstats"].decode() == FILES["/proc/diskstats"]
    assert found[f"{first}/sys/block/sda/device/model"].decode() == "WDC WD40EFRX-68N\n"
    report = found[f"{first}/.probe/run smartctl --json=c -x !dev!sda"].decode()
    read = json.loads(report.replace('\\"', '"'))
    assert read["model_name"] == "WDC WD40EFRX-68N32N0"
    page = found[f"{first}/sys/block/sda/device/vpd_pg80"]
    assert page[4:].decode().strip() == read["serial_number"]
    wwid = found[f"{first}/sys/block/sda/device/wwid"].decode().strip()
    assert wwid == f"naa.{found[f'{first}/sys/block/sda/device/vpd_pg83'][8:].hex()}"
    mounted = found[f"{first}/proc/1/mountinfo"].decode().splitlines()[1].split()
    assert mounted[4].startswith("/srv/name-")
    assert found[f"{first}{mounted[4]}/.statvfs"] == b"4096 4096 100 50 50 10 5 5\n"
    assert found[f"{top}/000001/gone"].decode() == f"{mounted[4]}/.statvfs\n"
    settings = yaml.safe_load(found[f"{top}/iowarden.yaml"])
    assert settings["evaluation_interval"] == "15s"
    assert settings["mail"]["password"] == "REMOVED"
    assert settings["watch_directories"][0] == {"directory": mounted[4]}
    assert settings["http"].keys() == {"hosts"}
    assert settings["self_tests"][0]["disks"][1] == "rotational"
    assert settings["smart"]["drives"][1]["path"] == "/dev/sg2"
    volumes = found[f"{first}/.probe/run cli64 vsf info"].decode().splitlines()
    assert [volumes[1].index(word) for word in ("Raid6", "Normal")] == [37, 65]  # as before
    assert b"fuse.lxcfs lxcfs" in found[f"{first}/proc/1/mountinfo"]
    assert f"{first}/.probe/run storcli64 !c0!eall!sall show all" in found  # as replay requests it
    assert b"9650SE-8LPML" in found[f"{first}/.probe/run tw_cli !c0 show"]
    assert found[f"{top}/CONTENTS"].decode() == contents
    assert "host names" in contents


def test_two_reports_cannot_be_compared(machine: str, tmp_path: Path) -> None:
    """Each has its key: the same serial number is another one in the next."""
    for name in ("one", "two"):
        reported(machine, tmp_path / f"{name}.tar.gz", name.encode())
    one, two = (members(tmp_path / f"{name}.tar.gz") for name in ("one", "two"))
    serial = "iowarden-report/000000/root/sys/block/vda/serial"
    assert one[serial] != two[serial]
    assert len(one[serial]) == len(NUMERIC)


def test_a_report_is_replayed_as_the_recording_itself(tmp_path: Path) -> None:
    """The same alerts at the same times, of a disk that hangs."""
    path = str(tmp_path / "r.tar.xz")
    bundle.write(path, fixture("hung-disk"), (), "{}", "", [], b"k")
    settings = parse_config("", "defaults", replay.HOST)
    one, two = (
        replay.replay([Recording(each)], settings, load_shipped(settings))
        for each in (fixture("hung-disk"), path)
    )
    assert {event.fields.get("alert") for event in one.events} >= {"DeviceHang"}
    assert [
        (each.section, each.at_seconds, each.fields.get("alert"), each.fields.get("device"))
        for each in one.events
    ] == [
        (each.section, each.at_seconds, each.fields.get("alert"), each.fields.get("device"))
        for each in two.events
    ]


def test_a_report_with_a_name_in_it_is_deleted(
    machine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever fault lets one through: it is found when the report is read again."""
    monkeypatch.setattr(Pseudonyms, "content", lambda _, content: content)
    with pytest.raises(bundle.ReportError, match="the report was deleted") as error:
        reported(machine, tmp_path / "r.tar.xz")
    assert not (tmp_path / "r.tar.xz").exists()
    assert CUSTOMER not in str(error.value)


def test_a_directory_called_as_a_word_of_the_kernel_breaks_nothing(
    machine: str, tmp_path: Path
) -> None:
    """'/memory' is mounted: '/proc/pressure/memory' and its text stay as they are."""
    frame = Path(machine) / "000000/root"
    write_tree(
        frame,
        {
            "/proc/pressure/memory": "some avg10=0.00\n",
            "/proc/meminfo": "Dirty: 4 kB\n",
            "/memory/.statvfs": "1\n",
            "/dirty/.statvfs": "1\n",
        },
    )
    reported(machine, tmp_path / "r.tar.xz")
    found = members(tmp_path / "r.tar.xz")
    first = "iowarden-report/000000/root"
    assert found[f"{first}/proc/pressure/memory"] == b"some avg10=0.00\n"
    assert found[f"{first}/proc/meminfo"] == b"Dirty: 4 kB\n"


@pytest.mark.parametrize(
    ("word", "form"),
    [(SERIAL, "WD-WCC4E"), (WWID, "naa."), (UUID, "-"), ("0x5000c500a1b2c3d4", "0x"), ("1234", "")],
)
def test_a_pseudonym_has_the_format_of_the_word(word: str, form: str) -> None:
    """A parser reads it as before."""
    made = formed(word, bytes(range(32)))
    assert made != word
    assert [each.isdigit() for each in made] == [each.isdigit() for each in word]
    assert len(made) == len(word)
    if form in {"naa.", "0x"}:
        assert made.startswith(form)


def test_addresses_become_those_of_documentation_and_tests() -> None:
    """Source: RFC 2544 (198.18.0.0/15) and RFC 3849 (2001:db8::/32): nobody has them."""
    words = {CLIENT4: WordKind.ADDRESS, CLIENT6: WordKind.ADDRESS}
    made = Pseudonyms(b"k", words).text(f"{CLIENT4} {CLIENT6}")
    assert made.startswith("198.18.")
    assert " 2001:db8::" in made


def test_the_command_writes_one_of_a_recording(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With its list of contents, readable for its owner only; an existing file stays."""
    path = tmp_path / "r.tar.xz"
    config = tmp_path / "iowarden.yaml"
    config.write_text(f"host: {HOST}\nprobe: false\nstate_directory: {tmp_path}/state\n")
    words = ["report", str(path), "--recording", fixture("idle"), "--config", str(config)]
    assert main(words) == 0
    assert "Included:" in capsys.readouterr().out
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert {"iowarden-report/check.json", "iowarden-report/iowarden.yaml"} <= members(path).keys()
    assert main(words) == 1
    assert "expected a new file" in capsys.readouterr().err
    assert main(["report", str(tmp_path / "r.zip")]) == 78
    assert main(["report", str(tmp_path / "no/r.tar.xz")]) == 1  # without 30 s of recording
    assert "expected a writable directory" in capsys.readouterr().err


def test_a_secret_in_a_url_is_not_in_a_report() -> None:
    """Of a line that a program wrote to the kernel's log."""
    found = Sensitive()
    found.free_text(
        "hook https://bot:s3cr3t@hooks.bank.example/T0AB/B1?token=abcd1234&api_key=efgh5678 failed"
    )
    assert {"abcd1234", "efgh5678"} <= found.words().keys()
    shown = Pseudonyms(b"k", found.words()).text("https://bot:s3cr3t@hooks.bank.example/T0AB/B1")
    assert [word for word in ("bot", "s3cr3t", "bank", "T0AB") if word in shown] == []


def test_a_configuration_that_is_refused_can_be_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Often it is what the report is about; the check in it cites what is not valid."""
    path, config = tmp_path / "r.tar.xz", tmp_path / "iowarden.yaml"
    config.write_text(
        f"host: {HOST}\nprobe: maybe\nmail: {{server: {RELAY}, to: {PERSON}@{RELAY}, user: u,"
        f" password_file: {PASSWORD}}}\n"
    )
    words = ["report", str(path), "--recording", fixture("idle"), "--config", str(config)]
    assert main(words) == 0
    assert "mail.password_file: expected" in capsys.readouterr().err
    found = members(path)
    check = found["iowarden-report/check.json"].decode()
    assert "mail.password_file: expected" in check
    everything = b"".join(found.values()).decode("utf-8", "replace")
    assert [word for word in (HOST, RELAY, PERSON, PASSWORD) if word in everything] == []
    assert "iowarden-report/iowarden.yaml" in found
    config.write_bytes(b"host: \xff\n")
    assert main([*words[:1], str(tmp_path / "s.tar.xz"), *words[2:]]) == 0
    assert "iowarden-report/iowarden.yaml" not in members(tmp_path / "s.tar.xz")
    config.unlink()  # or misspelled, or not readable: then its names are not known
    assert main([*words[:1], str(tmp_path / "t.tar.xz"), *words[2:]]) == 78


class Impatient(io.StringIO):
    """Standard error, read by a person who presses Ctrl-C once the recording has ended."""

    def write(self, text: str) -> int:
        """Interrupt the program where it says what it does next."""
        written = super().write(text)
        if "checking this machine" in text:
            signal.raise_signal(signal.SIGINT)
        return written


def test_ctrl_c_works_again_after_the_recording(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it records, Ctrl-C ends that part; the check after it ends as any program."""
    path = tmp_path / "report.tar.gz"
    config = tmp_path / "iowarden.yaml"
    config.write_text(f"state_directory: {tmp_path}/state\nprobe: false\n")
    monkeypatch.setattr(sys, "stderr", Impatient())
    before = signal.getsignal(signal.SIGINT)
    assert main(["report", str(path), "--for", "1s", "--config", str(config)]) == 130
    assert not path.exists()
    assert signal.getsignal(signal.SIGINT) is before
