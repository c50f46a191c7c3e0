"""Used endurance: by the field of the standard, else by a vendor's attribute of a listed family."""

from __future__ import annotations

import pytest

from iowarden.collectors.smart.drive import (
    Attribute,
    Drive,
    NvmeHealth,
    Protocol,
    ScsiHealth,
)
from iowarden.rules.smart import endurance


def ssd(family: str, *rows: tuple[int, str, int, int], **fields: object) -> Drive:
    """Return a solid-state drive with these attributes: number, name, value, raw value."""
    table = tuple(
        Attribute(number, name, value, value, 0, raw, str(raw), prefail=False)
        for number, name, value, raw in rows
    )
    usual: dict[str, object] = {"rotation_rpm": 0, "attributes": table, "family": family}
    return Drive(Protocol.ATA, **{**usual, **fields})  # type: ignore[arg-type]


# Rows as drives printed them, by family of smartmontools' drivedb.h; the used share in per cent.
@pytest.mark.parametrize(
    ("family", "row", "used"),
    [
        # What is left is the normalized value; 0 and 1 are the end of the scale.
        ("Samsung based SSDs", (177, "Wear_Leveling_Count", 1, 7282), 99),
        ("Samsung based SSDs", (177, "Wear_Leveling_Count", 28, 1530), 72),
        ("Samsung based SSDs", (177, "Wear_Leveling_Count", 99, 16), 1),
        ("Intel S4510/S4610/S4500/S4600 Series SSDs", (233, "Media_Wearout_Indicator", 15, 0), 85),
        (
            "Intel 730 and DC S35x0/3610/3700 Series SSDs",
            (233, "Media_Wearout_Indicator", 1, 0),
            99,
        ),
        ("Intel/Solidigm S46x0/S45x0 Series SSDs", (233, "Media_Wearout_Indicator", 98, 0), 2),
        ("Lenovo OEM Intel D3-S4510 Series SSDs", (233, "Media_Wearout_Indicator", 91, 0), 9),
        (
            "Dell Certified Intel S4x00/D3-S4x10 Series SSDs",
            (245, "Percent_Life_Remaining", 7, 7),
            93,
        ),
        ("SandForce Driven SSDs", (231, "SSD_Life_Left", 97, 4294967297), 3),
        ("Phison Driven SSDs", (231, "SSD_Life_Left", 94, 0), 6),
        ("Seagate Nytro SATA SSD", (231, "SSD_Life_Left", 93, 0x645D00), 7),
        ("Silicon Motion based OEM SSDs", (231, "SSD_Life_Left", 0, 0), 100),
        ("Silicon Motion based OEM SSDs", (169, "Remaining_Lifetime_Perc", 0, 0), 100),
        ("Silicon Motion based SSDs", (169, "Remaining_Lifetime_Perc", 95, 95), 5),
        ("Silicon Motion based SSDs", (169, "Remaining_Lifetime_Perc", 100, 4), 96),
        ("Silicon Motion based SSDs", (169, "Remaining_Lifetime_Perc", 100, 100), 0),
        # Micron counts what is used in the raw value, whatever the name says, and beyond 100.
        ("Crucial/Micron Client SSDs", (202, "Percent_Lifetime_Remain", 49, 51), 51),
        ("Crucial/Micron Client SSDs", (202, "Percent_Lifetime_Remain", 0, 134), 134),
        ("Crucial/Micron Client SSDs", (202, "Percent_Lifetime_Remain", 0, 100), 100),
        ("Crucial/Micron RealSSD m4/C400/P400", (202, "Perc_Rated_Life_Used", 98, 2), 2),
        ("Micron 5100 Pro / 52x0 / 5300 SSDs", (202, "Percent_Lifetime_Remain", 99, 1), 1),
        ("Crucial/Micron RealSSD C300/P300", (202, "Percent_Lifetime_Used", 75, 25), 25),
        # Other families: only where both numbers are the same one.
        ("Indilinx Barefoot 3 based SSDs", (233, "Remaining_Lifetime_Perc", 8, 8), 92),
        ("Apacer AS340/350 SSDs", (231, "Lifetime_Left", 0, 0), 100),
        ("Innodisk 3IE2/3ME2/3MG2/3SE2/3TG6 SSDs", (248, "Remaining_Life", 100, 100), 0),
    ],
)
def test_the_share_that_an_attribute_of_a_listed_family_shows(
    family: str, row: tuple[int, str, int, int], used: int
) -> None:
    """The normalized value counts down; what else a family does with its numbers differs."""
    assert endurance.used_ratio(ssd(family, row)) == pytest.approx(used / 100)


@pytest.mark.parametrize(
    ("family", "row"),
    [
        # Western Digital's and SanDisk's 230 counts up from 1 on some firmware, down on other.
        ("WD Blue and Green SSDs", (230, "Media_Wearout_Indicator", 1, 0x003200140032)),
        ("WD Blue / Red / Green SSDs", (230, "Media_Wearout_Indicator", 4, 0x0443023C0443)),
        ("Marvell based SanDisk SSDs", (230, "Perc_Write/Erase_Count", 1, 2229110374919)),
        ("SandForce Driven SSDs", (230, "Media_Wearout_Indicator", 1, 100)),
        ("SandForce Driven SSDs", (230, "Life_Curve_Status", 100, 100)),
        ("Seagate IronWolf 110 SATA SSD", (230, "Drv_Life_Protect_Status", 1, 100)),
        # Not in the drive database: smartctl prints its default names, whatever they mean there.
        ("", (233, "Media_Wearout_Indicator", 2, 99)),
        ("", (177, "Wear_Leveling_Count", 1, 14)),
        ("", (202, "Percent_Lifetime_Remain", 0, 0)),
        # The same name, of another family: erase counts, and other scales.
        ("Apple SD/SM/TS...E/F/G SSDs", (173, "Wear_Leveling_Count", 96, 12309581794157)),
        ("JMicron based SSDs", (177, "Wear_Leveling_Count", 1, 5)),
        ("SandForce Driven SSDs", (177, "Wear_Range_Delta", 0, 2)),
        ("SK hynix SATA SSDs", (177, "Wear_Leveling_Count", 1, 14)),
        ("SK hynix SATA SSDs", (231, "SSD_Life_Left", 3, 97)),
        ("Samsung based SSDs", (177, "Wear_Leveling_Count", 165, 50)),
        ("Samsung based SSDs", (233, "Media_Wearout_Indicator", 1, 0)),
        # The name of another attribute on this number, and the number of another name.
        ("Phison Driven SSDs", (233, "Flash_Writes_GiB", 0, 0)),
        ("Intel S3520 Series SSDs", (226, "Workld_Media_Wear_Indic", 1, 4075)),
        ("SMART Modular Technologies mSATA XL+ SLC SSDs", (202, "Perc_Rated_Life_Used", 0, 0)),
        ("Sandisk SATA Cloudspeed Max and GEN2 ESS SSDs", (178, "SSD_LifeLeft(0.01%)", 3, 9700)),
    ],
)
def test_a_number_that_may_mean_something_else_is_not_reported(
    family: str, row: tuple[int, str, int, int]
) -> None:
    """A healthy drive must not be called worn: only a name of a family in the database counts."""
    assert endurance.used_ratio(ssd(family, row)) is None


@pytest.mark.parametrize(
    ("model", "row", "used"),
    [
        ("SAMSUNG MZ7L3480HCHQ-00A07", (177, "Wear_Leveling_Count", 3, 1290), 97),
        ("Samsung SSD 870 EVO 1TB", (177, "Wear_Leveling_Count", 99, 16), 1),
        ("INTEL SSDSC2KB480G8", (233, "Media_Wearout_Indicator", 5, 0), 95),
        ("SK hynix SC311 SATA 512GB", (233, "Media_Wearout_Indicator", 2, 99), None),
        ("SK hynix SC311 SATA 512GB", (177, "Wear_Leveling_Count", 1, 14), None),
        ("HS-SSD-C100 120G", (233, "Media_Wearout_Indicator", 1, 896), None),
        ("Samsung SSD 870 EVO 1TB", (233, "Media_Wearout_Indicator", 1, 0), None),
    ],
)
def test_a_model_that_an_older_database_lacks(
    model: str, row: tuple[int, str, int, int], used: int | None
) -> None:
    """Of two vendors the model is enough; smartctl's default names mean other things elsewhere."""
    expected = None if used is None else pytest.approx(used / 100)
    assert endurance.used_ratio(ssd("", row, model=model)) == expected


def test_the_field_of_the_standard_comes_before_any_attribute() -> None:
    """ATA: device statistics, page 7; above 100 is allowed. NVMe and SCSI: their own logs."""
    worn = (177, "Wear_Leveling_Count", 1, 7282)
    assert endurance.used_ratio(ssd("Samsung based SSDs", worn, endurance_used_ratio=0.41)) == 0.41
    assert endurance.used_ratio(ssd("", worn, endurance_used_ratio=1.37)) == 1.37
    nvme = Drive(Protocol.NVME, nvme=NvmeHealth(endurance_used_ratio=2.55))
    scsi = Drive(Protocol.SCSI, scsi=ScsiHealth(endurance_used_ratio=0.07))
    assert (endurance.used_ratio(nvme), endurance.used_ratio(scsi)) == (2.55, 0.07)


def test_a_rotating_disk_has_no_endurance() -> None:
    """A hard disk with a solid-state drive's attribute: its number means something else there."""
    row = (231, "SSD_Life_Left", 0, 0)
    assert endurance.used_ratio(ssd("Phison Driven SSDs", row, rotation_rpm=5400)) is None


def test_the_worst_of_two_attributes_counts() -> None:
    """A drive with two kinds of flash has one attribute for each."""
    both = ((169, "Remaining_Lifetime_Perc", 80, 80), (231, "SSD_Life_Left", 12, 12))
    assert endurance.used_ratio(ssd("Silicon Motion based SSDs", *both)) == pytest.approx(0.88)
