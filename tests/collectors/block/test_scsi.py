"""Host adapters with few and many devices, error counters, and devices that do not run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.collectors.block.scsi import (
    MULTI_QUEUE,
    PCI_DRIVERS,
    ScsiHost,
    emit,
    host_names,
    parse_counter,
    read_scsi,
    unreadable,
)
from iowarden.collectors.machine import Machine
from iowarden.collectors.model import AbsentError, ParseError

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import MachineMaker

Files = dict[str, str | bytes | None]
HOST = "/sys/class/scsi_host/host{}"
NONE: Files = {"/sys/class/scsi_host": None, "/sys/class/scsi_device": None}


def host(name: str, **attributes: str) -> Files:
    """Files of a host adapter."""
    return {f"/sys/class/scsi_host/{name}/{key}": text for key, text in attributes.items()}


def device(address: str, block: str = "", **attributes: str) -> Files:
    """Files of a device; those of its block device, if it has one, are not needed."""
    path = f"/sys/class/scsi_device/{address}/device"
    files: Files = {f"{path}/{key}": text for key, text in attributes.items()}
    return files | ({f"{path}/block/{block}/size": "1\n"} if block else {})


DISK = {
    "type": "0\n",
    "state": "running\n",
    "queue_depth": "254\n",
    "timeout": "60\n",
    "iorequest_cnt": "0x1a2b\n",
    "iodone_cnt": "0x1a2a\n",
    "ioerr_cnt": "0xa\n",
    "iotmo_cnt": "0x2\n",
}
STARVING = (
    host("host2", proc_name="3w-xxxx\n", can_queue="254\n", cmd_per_lun="254\n", host_busy="17\n")
    | device("2:0:0:0", "sda", **DISK)
    | device("2:0:1:0", "sdb", **DISK)
    | {MULTI_QUEUE: "N\n"}
)


def test_two_disks_that_may_each_fill_the_adapter(machine: MachineMaker) -> None:
    """A 3ware controller of 254 commands, where every disk may have 254 of them in flight."""
    scsi = read_scsi(machine(STARVING))
    assert scsi.hosts == {"host2": ScsiHost("host2", "3w-xxxx", 254, 254, 17)}
    assert [(d.device, d.host, d.queue_depth) for d in scsi.devices.values()] == [
        ("sda", "host2", 254),
        ("sdb", "host2", 254),
    ]
    assert scsi.multi_queue is False


def test_a_disk_of_linux_2_6_18_is_named_by_a_link(machine: MachineMaker) -> None:
    """'block:sda' in its directory: without it no disk there has an adapter that it may fill."""
    files = {path.replace("/block/", "/block:"): text for path, text in STARVING.items()}
    scsi = read_scsi(machine(files))
    assert [(d.device, d.host) for d in scsi.devices.values()] == [
        ("sda", "host2"),
        ("sdb", "host2"),
    ]


def test_counters_are_hexadecimal(machine: MachineMaker) -> None:
    """0xa errors are ten; seconds and type are decimal."""
    disk = read_scsi(machine(STARVING)).devices["2:0:0:0"]
    assert (disk.requests_total, disk.completions_total) == (0x1A2B, 0x1A2A)
    assert (disk.errors_total, disk.timeouts_total) == (10, 2)
    assert (disk.kind, disk.state, disk.timeout_seconds) == (0, "running", 60.0)


def test_a_counter_past_the_middle_is_no_leap(machine: MachineMaker) -> None:
    """The kernel extends the sign of 32 bits: 0x7fffffff is followed by 0xffffffff80000000."""
    before, after = parse_counter("0x7fffffff"), parse_counter("0xffffffff80000000")
    assert after - before == 1
    assert parse_counter("0xffffffffffffffff") == 2**32 - 1
    assert parse_counter("0x180000000") == 0x1_8000_0000


def test_an_old_kernel_counts_no_timeouts(machine: MachineMaker) -> None:
    """A missing file is not 0 timeouts."""
    files = {k: v for k, v in STARVING.items() if not k.endswith("iotmo_cnt")}
    scsi = read_scsi(machine(files))
    assert scsi.devices["2:0:0:0"].timeouts_total is None
    names = {name for name, _, _ in emit(scsi)}
    assert "iowarden_device_scsi_timeouts_total" not in names
    assert "iowarden_device_scsi_errors_total" in names


def test_series_of_a_host_and_its_disk(machine: MachineMaker) -> None:
    """Driver and state are labels; a disk that is set offline is not running."""
    path = "/sys/class/scsi_device/2:0:0:0/device/state"
    samples = emit(read_scsi(machine(STARVING | {path: "offline\n"})))
    sda = ("device", "sda")
    assert ("iowarden_scsi_host_info", (("driver", "3w-xxxx"), ("host", "host2")), 1.0) in samples
    assert ("iowarden_scsi_host_can_queue", (("host", "host2"),), 254) in samples
    assert ("iowarden_scsi_blk_mq", (), 0.0) in samples
    address = (("address", "2:0:0:0"), sda, ("host", "host2"))
    assert ("iowarden_device_scsi_info", address, 1.0) in samples
    assert ("iowarden_device_scsi_state", (sda, ("state", "offline")), 1.0) in samples
    assert ("iowarden_device_scsi_running", (sda,), 0.0) in samples
    assert ("iowarden_device_scsi_running", (("device", "sdb"),), 1.0) in samples
    assert ("iowarden_device_queue_depth", (sda,), 254) in samples
    assert ("iowarden_device_scsi_errors_total", (sda,), 10) in samples


def test_an_enclosure_is_a_device_without_series(machine: MachineMaker) -> None:
    """It has no block device: it is read, but no disk."""
    scsi = read_scsi(machine(NONE | device("0:0:8:0", **(DISK | {"type": "13\n"}))))
    assert (scsi.devices["0:0:8:0"].kind, scsi.devices["0:0:8:0"].device) == (13, None)
    assert emit(scsi) == []


def test_a_driver_without_name_and_without_limits(machine: MachineMaker) -> None:
    """The kernel prints '(null)', and numbers above 16 bits as negative."""
    files = host("host0", proc_name="(null)\n", can_queue="65536\n", cmd_per_lun="-1\n")
    [adapter] = read_scsi(machine(NONE | files)).hosts.values()
    assert adapter == ScsiHost("host0", None, 65536, None, None)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({MULTI_QUEUE: "Y\n"}, True),
        ({MULTI_QUEUE: "N\n"} | host("host0", use_blk_mq="1\n"), False),
        (host("host0", use_blk_mq="1\n") | host("host1", use_blk_mq="1\n"), True),
        (host("host0", use_blk_mq="1\n") | host("host1", use_blk_mq="0\n"), False),
        ({}, None),
    ],
)
def test_what_reports_whether_scsi_is_multi_queue(
    files: Files, expected: bool | None, machine: MachineMaker
) -> None:
    """The module's parameter, else its hosts, else unknown."""
    assert read_scsi(machine(NONE | files)).multi_queue is expected


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/sys/class/scsi_device/2:0:0:0/device/ioerr_cnt", "10\n"),
        ("/sys/class/scsi_device/2:0:0:0/device/iotmo_cnt", "0x\n"),
        ("/sys/class/scsi_device/2:0:0:0/device/queue_depth", "deep\n"),
        ("/sys/class/scsi_host/host2/can_queue", "254 254\n"),
        (MULTI_QUEUE, "maybe\n"),
    ],
)
def test_an_attribute_that_makes_no_sense_is_named(
    path: str, text: str, machine: MachineMaker
) -> None:
    """The message has the path, the expected and the found value."""
    with pytest.raises(ParseError) as error:
        read_scsi(machine(STARVING | {path: text}))
    assert path in str(error.value)
    assert "expected" in str(error.value)
    assert repr(text.strip()) in str(error.value)


def test_a_state_the_kernel_has_no_name_for_leaves_the_disk_in_doubt(machine: MachineMaker) -> None:
    """It returns EINVAL; a directory in its place cannot be read either."""
    path = "/sys/class/scsi_device/2:0:0:0/device/state"
    busy = "/sys/class/scsi_host/host2/host_busy"
    files = STARVING | {path + "/x": None, busy + "/x": None}
    del files[path], files[busy]
    scsi = read_scsi(machine(files))
    disk = scsi.devices["2:0:0:0"]
    assert (disk.state, disk.queue_depth) == (None, 254)
    reasons = dict(unreadable(scsi))
    assert set(reasons) == {(("device", "sda"),), (("host", "host2"),)}
    assert path in reasons[(("device", "sda"),)]
    assert busy in reasons[(("host", "host2"),)]


def test_only_a_path_with_a_device_handler_has_an_access_state(machine: MachineMaker) -> None:
    """Of the others the kernel refuses to read it (EINVAL): that is no fault of the disk."""
    path = "/sys/class/scsi_device/2:0:{}:0/device/{}"
    refused = {path.format(0, "dh_state"): "detached\n", path.format(0, "access_state/x"): None}
    array = {
        path.format(1, "dh_state"): "alua\n",
        path.format(1, "access_state"): "active/non-optimized\n",
    }
    scsi = read_scsi(machine(STARVING | refused | array))
    states = [each.access_state for each in scsi.devices.values()]
    assert states == [None, "active/non-optimized"]
    assert dict(unreadable(scsi)) == {}


@pytest.mark.parametrize("gone", ["scsi_device/2:0:0:0/device", "scsi_host/host2"])
def test_what_vanishes_while_it_is_read_is_left_out(gone: str, machine: MachineMaker) -> None:
    """A device removed after the listing is left out as a whole, and the other one remains."""
    root = machine(STARVING)

    def pull(seen: str, content: bytes) -> None:
        if seen == f"/sys/class/{gone}/":
            root.remove(f"/sys/class/{gone}")

    root.watch(pull)
    scsi = read_scsi(root)
    assert list(scsi.devices) == (["2:0:1:0"] if "device" in gone else ["2:0:0:0", "2:0:1:0"])
    assert list(scsi.hosts) == (["host2"] if "device" in gone else [])


def test_a_machine_without_scsi_is_absent(machine: MachineMaker) -> None:
    """NVMe or virtio only: no such class."""
    with pytest.raises(AbsentError, match="/sys/class/scsi_host"):
        read_scsi(machine({"/sys/block": None}))


@given(st.integers(0, 2**32 - 1))
def test_every_32_bit_counter_is_itself_again(number: int) -> None:
    """For every sign extension by the kernel."""
    printed = number if number < 2**31 else number | 0xFFFFFFFF << 32
    assert parse_counter(f"{printed:#x}") == number


@given(st.text(alphabet="0xfa1 \n") | st.text())
def test_any_text_is_a_counter_or_refused(text: str) -> None:
    """Any text gives a value or a ParseError."""
    try:
        assert parse_counter(text) < 2**64
    except ValueError:
        return


def test_a_host_has_the_names_by_which_its_driver_calls_it_in_the_log(
    machine: MachineMaker,
) -> None:
    """Two LSI adapters, an Adaptec, an Emulex port and four ports of one AHCI function."""
    files = host("host0", proc_name="mpt3sas\n", unique_id="0\n")
    files |= host("host7", proc_name="mpt3sas\n", unique_id="1\n")
    files |= host("host8", proc_name="aacraid\n", unique_id="0\n")
    files |= host("host9", proc_name="(null)\n", unique_id="0\n")
    files |= host("host10", proc_name="mptsas\n", unique_id="3\n")
    files |= {f"{path}/proc_name": "ahci\n" for path in map(HOST.format, range(1, 5))}
    functions = {
        "mpt3sas/0000:03:00.0": "host0",
        "mpt3sas/0000:04:00.0": "host7",
        "qla2xxx/10000:05:00.1": "host9",
        "ahci/0000:00:1f.2": "ata1",
        "mpt3sas/module": "host8",
    }
    files |= {f"{PCI_DRIVERS}/{function}/{name}": None for function, name in functions.items()}
    assert host_names(read_scsi(machine(NONE | files)).hosts) == {
        "mpt3sas_cm0": "host0",
        "mpt3sas0": "host0",
        "0000:03:00.0": "host0",
        "mpt3sas_cm1": "host7",
        "mpt3sas1": "host7",
        "0000:04:00.0": "host7",
        "mpt3sas": "",
        "AAC0": "host8",
        "aacraid": "host8",
        "10000:05:00.1": "host9",
        "ioc3": "host10",
        "mptsas": "host10",
        "ahci": "",
    }


def test_an_iscsi_host_is_known_by_its_sessions(machine: MachineMaker) -> None:
    """The kernel log names a session or its connection; its other devices are below its host."""
    base = "/sys/class/iscsi_host/host0/device"
    files = host("host0", proc_name="iscsi_tcp\n") | {
        f"{base}/session3": None,
        f"{base}/power": None,
    }
    assert host_names(read_scsi(machine(NONE | files)).hosts)["session3"] == "host0"


def test_a_host_without_a_number_of_its_driver_has_no_such_name(machine: MachineMaker) -> None:
    """An adapter that is being removed has no unique_id: 'mpt3sas_cm0' may be another one."""
    found = read_scsi(machine(NONE | host("host0", proc_name="mpt3sas\n")))
    assert host_names(found.hosts) == {"mpt3sas": "host0"}


def test_a_host_is_known_by_what_it_hangs_on_whatever_its_driver_is_called(tmp_path: Path) -> None:
    """As in sysfs: uas has '(null)', and qla2xxx may; class and USB interface identify it.

    What is read of it can be recorded: no path has a '..', which no recording may have.
    """
    interface = tmp_path / "sys/devices/usb2/2-1/2-1:1.0"
    (tmp_path / "sys/class/scsi_host").mkdir(parents=True)
    (tmp_path / "sys/class/scsi_device").mkdir()
    (tmp_path / "sys/class/fc_host/host1").mkdir(parents=True)
    for number, parent in enumerate((interface, tmp_path / "sys/devices/pci0/0000:03:00.0")):
        real = parent / f"host{number}/scsi_host/host{number}"
        real.mkdir(parents=True)
        (real / "proc_name").write_text("(null)\n")
        (real / "device").symlink_to(f"../../../host{number}")
        (tmp_path / f"sys/class/scsi_host/host{number}").symlink_to(real)
    (tmp_path / "sys/bus/usb/drivers/uas").mkdir(parents=True)
    (tmp_path / "sys/bus/usb/drivers/uas/2-1:1.0").symlink_to(interface)
    paths: list[str] = []
    seen = Machine(str(tmp_path), seen=lambda path, _: paths.append(path))
    found = read_scsi(seen).hosts
    assert {name: (h.driver, h.usb, h.fabric) for name, h in found.items()} == {
        "host0": (None, True, False),
        "host1": (None, False, True),
    }
    assert [path for path in paths if ".." in path.split("/")] == []
