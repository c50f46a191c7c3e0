"""'iowarden explain' of Marvell's programs for boot cards: Dell BOSS, Lenovo ThinkSystem M.2.

Texts by the grammar of mvcli 4.1 and mnv_cli 1.0; the machines are made up.
"""

from __future__ import annotations

import pytest
from support.explained import read

SATA = """\
SG driver version 3.5.36.

Virtual Disk Information
-------------------------
id:                  0
name:                boot
status:              {status}
Stripe size:         64
RAID mode:           RAID1
Cache mode:          Not Support
size:                457798 M
BGA status:          {running}
Block ids:           0 4
# of PDs:            2
PD RAID setup:       0 1
Running OS:          yes
{more}
Total # of VD:       {total}
"""
NVME = """\

VD ID:               0
Name:                VD_0
Status:              {status}
Importable:          No
RAID Mode:           RAID1
size:                447 GB
PD Count:            2
PDs:                 0 1
Stripe Block Size:   128K
Sector Size:         512 bytes
VD is secure:        No
{more}
Total # of VD:       {total}
"""
DISK = """\
Adapter:             0
PD ID:               {number}
Type:                SATA PD
Linked at:           HBA port {number}
Size:                468851544 K
SMART:               supported (on)
model:               ACME480
Serial:              S{number}
Firmware version:        MD44
SSD Type:            SSD
PD status:           {status}
associated VDs:      0

"""
ADAPTER = """\
Adapter ID:                          0
Product:                             1b4b-9230
Supported RAID mode:                 RAID0 RAID1
Image health:                        {whole}
Boot ROM image health:               {part}
ModelNumber:                         M.2 + Mirroring Kit
"""
SMART = """\
SG driver version 3.5.36.
SMART STATUS RETURN: {status}.

Smart Info
ID      Attribute Name          RawValue        Status
01      Read Error Rate         000000000000    OK
05      Reallocated Sectors     00000000000A    {row}
"""


def volume(form: str, status: str, more: str = "", total: int = 1) -> str:
    """Return 'info -o vd' of one of the programs."""
    running = "running" if more else "not running"
    return form.format(status=status, more=more, running=running, total=total)


def disks(*states: str) -> str:
    """Return 'info -o pd'."""
    rows = "".join(DISK.format(number=n, status=state) for n, state in enumerate(states))
    return f"Physical Disk Information\n{'-' * 28}\n{rows}\nTotal # of PD:       {len(states)}\n"


@pytest.mark.parametrize(
    ("text", "severity", "told"),
    [
        (volume(SATA, "functional"), "", ""),
        (volume(SATA, "functional", "VD status:           optimal\n"), "", ""),
        (volume(NVME, "Functional"), "", ""),
        (volume(SATA, "functional", "BGA progress:    synchronizing is 15% done"), "", ""),
        (volume(SATA, "degraded"), "critical", "no redundancy left"),
        (volume(NVME, "Degrade"), "critical", "no redundancy left"),
        (
            volume(SATA, "degraded", "BGA progress:    rebuilding is 15% done"),
            "critical",
            "15 % done",
        ),
        (
            volume(NVME, "Degrade", "BGA progress:        Rebuilding is running in 21%"),
            "critical",
            "21 % done",
        ),
        (volume(SATA, "offline"), "critical", "boot"),
        (volume(SATA, "functional", "VD status:           pondering"), "warning", "pondering"),
        (volume(NVME, "Pondering"), "warning", "Pondering"),
        (disks("online", "online"), "", ""),
        (disks("online", "offline"), "critical", "slot 1"),
        (disks("online", "pondering"), "warning", "slot 1"),
        (ADAPTER.format(whole="Healthy", part="Healthy"), "", ""),
        (ADAPTER.format(whole="Healthy", part="Corrupted"), "warning", "boot rom image health"),
        (SMART.format(status="OK", row="OK"), "", ""),
        (SMART.format(status="FAIL", row="OK"), "warning", "drive 1: SMART"),
        (SMART.format(status="OK", row="Bad"), "warning", "Reallocated Sectors"),
    ],
)
def test_the_mirror_of_a_boot_card_is_explained(text: str, severity: str, told: str) -> None:
    """Each state, task and word; one that was never seen needs attention."""
    found = read(text)
    assert (found.kind, found.unparsed) == ("mvcli", ())
    alerts = [each for each in found.alerts if each.severity in {"critical", "warning", "notice"}]
    assert found.status == (1 if severity else 0)
    assert any(each.severity == severity and told in each.text for each in alerts) or (
        not severity and not alerts
    )


def test_a_session_has_the_disks_of_the_mirror() -> None:
    """Prompts, and several outputs one after the other."""
    text = "".join(
        f"[root@db ~]# mvcli info -o {kind}\n{output}\n"
        for kind, output in (("vd", volume(SATA, "functional")), ("pd", disks("online", "offline")))
    )
    found = read(text)
    assert [each.text for each in found.alerts if each.severity == "critical"]
    failed = next(each for each in found.objects if each.state == "failed")
    assert (failed.name, found.unparsed) == ("slot 1", ())


@pytest.mark.parametrize(
    "text",
    [
        volume(SATA, "functional", total=2),
        volume(NVME, "Functional").partition("Total")[0],
        disks("online", "online").partition("PD ID:               1")[0],
        "SG driver version 3.5.36.\nNo Adapter Found\n",
    ],
)
def test_an_output_that_is_not_whole_is_never_well(text: str) -> None:
    """Another virtual disk, an end that is missing, no card."""
    assert read(text, "mvcli").status == 2


@pytest.mark.parametrize(("array", "severity"), [("functional", ""), ("degraded", "warning")])
def test_a_drive_without_a_state_is_as_well_as_its_mirror(array: str, severity: str) -> None:
    """Some versions print no 'PD status': which drive a degraded mirror lost is not known."""
    silent = "".join(x for x in disks("x", "x").splitlines(True) if "PD status" not in x)
    told = [a.severity for a in read(volume(SATA, array) + silent).alerts if "Disk" in a.alert]
    assert told == [severity] * (2 * bool(severity))
