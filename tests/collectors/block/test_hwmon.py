"""Temperature sensors of disks and processors, and unreadable ones."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.memory import Memory

from iowarden.collectors.block.hwmon import Temperature, emit, read_hwmon, unreadable
from iowarden.collectors.machine import Machine
from iowarden.collectors.model import AbsentError, ParseError

if TYPE_CHECKING:
    from conftest import MachineMaker

Files = dict[str, str | bytes | None]


def chip(number: int, name: str, **attributes: str) -> Files:
    """Files of a chip."""
    path = f"/sys/class/hwmon/hwmon{number}"
    files: Files = {f"{path}/{key}": text for key, text in attributes.items()}
    return files | {f"{path}/name": name + "\n"}


DRIVE = chip(2, "drivetemp", temp1_input="41000\n", temp1_max="60000\n", temp1_crit="70000\n") | {
    "/sys/class/hwmon/hwmon2/device/block/sdb/size": "1\n"
}
NVME = chip(
    0,
    "nvme",
    temp1_input="49850\n",
    temp1_label="Composite\n",
    temp1_max="69850\n",
    temp1_min="-273150\n",
    temp1_crit="99850\n",
    temp2_input="38850\n",
    temp2_label="Sensor 1\n",
    temp2_max="65261850\n",
)


def test_a_disk_by_its_driver(machine: MachineMaker) -> None:
    """Thousandths of a degree become degrees; the block device is below the SCSI device."""
    [temperature] = read_hwmon(machine(DRIVE))
    assert temperature == Temperature(
        "drivetemp", "temp1", "hwmon2", "", "sdb", celsius=41.0, max_celsius=60.0,
        critical_celsius=70.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    "place",
    [
        "nvme0n1/size",  # the controller is the parent
        "nvme/nvme0/nvme0n1/size",  # the PCI device above it is
        "nvme0c1n1/size",  # a path of a multipath namespace
    ],
)
def test_an_nvme_drive_has_several_sensors(place: str, machine: MachineMaker) -> None:
    """All belong to the namespace; the threshold FFFFh kelvin is not a limit of 65,262 degrees."""
    files = NVME | {f"/sys/class/hwmon/hwmon0/device/{place}": "1\n"}
    composite, inner = read_hwmon(machine(files))
    assert (composite.device, inner.device) == ("nvme0n1", "nvme0n1")
    assert (composite.label, composite.celsius) == ("Composite", 49.85)
    assert (composite.max_celsius, composite.critical_celsius) == (69.85, 99.85)
    assert (inner.sensor, inner.label, inner.celsius) == ("temp2", "Sensor 1", 38.85)
    assert (inner.max_celsius, inner.critical_celsius) == (None, None)


def test_series_of_a_disk_and_a_processor(machine: MachineMaker) -> None:
    """A processor's chip belongs to no disk, and a missing limit has no series."""
    files = DRIVE | chip(3, "coretemp", temp1_input="55000\n", temp1_label="Package id 0\n")
    files |= {"/sys/class/hwmon/hwmon3/device/uevent": "\n"}
    samples = emit(read_hwmon(machine(files)))
    disk = (
        ("chip", "drivetemp"),
        ("device", "sdb"),
        ("hwmon", "hwmon2"),
        ("label", ""),
        ("sensor", "temp1"),
    )
    processor = (
        ("chip", "coretemp"),
        ("device", ""),
        ("hwmon", "hwmon3"),
        ("label", "Package id 0"),
        ("sensor", "temp1"),
    )
    assert sorted(samples) == [
        ("iowarden_temperature_celsius", processor, 55.0),
        ("iowarden_temperature_celsius", disk, 41.0),
        ("iowarden_temperature_critical_celsius", disk, 70.0),
        ("iowarden_temperature_max_celsius", disk, 60.0),
    ]


def test_a_chip_without_thermometer_is_none(machine: MachineMaker) -> None:
    """Fans and voltages are left out."""
    files = chip(0, "acpi", fan1_input="1200\n", in0_input="1000\n", temperature_input="1\n")
    assert read_hwmon(machine(files)) == ()


def test_frost_is_below_zero(machine: MachineMaker) -> None:
    """A sensor outdoors, or in a cold store."""
    [temperature] = read_hwmon(machine(chip(0, "lm75", temp1_input="-12500\n")))
    assert temperature.celsius == -12.5


def test_an_input_where_nothing_is_connected_is_no_sensor(machine: MachineMaker) -> None:
    """A mainboard's chip has more inputs than sensors, and reports the others as faulty."""
    files = chip(0, "nct6775", temp7_input="-128000\n", temp7_fault="1\n", temp8_input="30000\n")
    values = read_hwmon(machine(files | {"/sys/class/hwmon/hwmon0/temp8_fault": "0\n"}))
    assert [(each.sensor, each.celsius) for each in values] == [("temp8", 30.0)]
    assert list(unreadable(values)) == []


@pytest.mark.parametrize("code", [errno.ENODATA, errno.EIO])
def test_a_sensor_that_is_switched_off_is_absent(code: int) -> None:
    """The kernel returns ENODATA then; any other error is an error."""
    root = Memory(NVME)
    root.fail("/sys/class/hwmon/hwmon0/temp1_input", code)
    values = read_hwmon(root)
    assert [each.sensor for each in values if not each.read_error] == ["temp2"]
    assert len(values) == (1 if code == errno.ENODATA else 2)


def test_a_faulty_sensor_of_a_disk_is_not_believed(machine: MachineMaker) -> None:
    """The chip reports that its number is invalid: unknown, with the reason."""
    [temperature] = read_hwmon(machine(DRIVE | {"/sys/class/hwmon/hwmon2/temp1_fault": "1\n"}))
    assert (temperature.device, temperature.celsius) == ("sdb", None)
    assert "temp1_fault" in temperature.read_error


def test_a_drive_that_does_not_answer_is_in_doubt(machine: MachineMaker) -> None:
    """The kernel returns EIO; a directory in its place cannot be read. The other sensor remains."""
    path = "/sys/class/hwmon/hwmon0/temp1_input"
    files = NVME | {path + "/x": None}
    del files[path]
    composite, inner = read_hwmon(machine(files))
    assert (composite.celsius, composite.critical_celsius) == (None, 99.85)
    assert (inner.celsius, inner.read_error) == (38.85, "")
    assert [labels for labels, _ in unreadable((composite, inner))] == [
        (("hwmon", "hwmon0"), ("sensor", "temp1"))
    ]
    assert path in composite.read_error


def test_a_temperature_that_is_no_number_is_named(machine: MachineMaker) -> None:
    """The message has the path, the expected and the found value."""
    path = "/sys/class/hwmon/hwmon2/temp1_input"
    with pytest.raises(ParseError, match=f"'{path}': expected a number, got 'warm'"):
        read_hwmon(machine(DRIVE | {path: "warm\n"}))


def test_a_disk_that_is_pulled_while_it_is_read_is_left_out(machine: MachineMaker) -> None:
    """Its chip vanishes with it: no sensor without a number."""
    root = machine(DRIVE | NVME)

    def pull(seen: str, content: bytes) -> None:
        if seen == "/sys/class/hwmon/hwmon2/":
            root.remove("/sys/class/hwmon/hwmon2")

    root.watch(pull)
    chips = [temperature.chip for temperature in read_hwmon(root)]
    assert chips == ["nvme", "nvme"]


def test_a_machine_without_hwmon_is_absent(machine: MachineMaker) -> None:
    """A virtual machine, a container: no such class."""
    with pytest.raises(AbsentError, match="/sys/class/hwmon"):
        read_hwmon(machine({"/sys/block": None}))


def test_psutil_sees_the_same_sensors_here() -> None:
    """Chips, labels and limits are equal; the temperature itself has changed meanwhile."""
    root = Machine("/")
    try:
        ours = read_hwmon(root)
    except AbsentError:
        pytest.skip("this machine has no sensors")
    finally:
        root.close()
    if not ours:
        pytest.skip("this machine has no thermometers")
    theirs = {
        (name, entry.label, entry.critical)
        for name, entries in psutil.sensors_temperatures().items()
        for entry in entries
    }
    names = {(chip, label) for chip, label, _ in theirs}
    # It omits what it cannot read, and uses one limit for another that is missing.
    assert {(t.chip, t.label) for t in ours if t.celsius is not None} <= names
    assert names <= {(t.chip, t.label) for t in ours}
    whole = [t for t in ours if None not in {t.celsius, t.max_celsius, t.critical_celsius}]
    assert {(t.chip, t.label, t.critical_celsius) for t in whole} <= theirs


@given(st.integers(-(10**6), 10**6))
def test_any_temperature_is_reported_as_it_is(millicelsius: int) -> None:
    """Precise to a thousandth of a degree."""
    root = Memory({"/sys/class/hwmon/hwmon0/temp1_input": f"{millicelsius}\n"})
    [temperature] = read_hwmon(root)
    assert temperature.celsius is not None
    assert round(temperature.celsius * 1000) == millicelsius
