"""'iowarden explain' of the JSON of zpool, btrfs and LVM: judged as the text form is."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.explained import read

KINDS = ("write_io_errs", "read_io_errs", "flush_io_errs", "corruption_errs", "generation_errs")


def device(state: str, *counts: int, **more: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
    """A row of a pool: its counts are texts, as without '--json-int'."""
    kinds = ("read_errors", "write_errors", "checksum_errors")
    return {"state": state, **dict(zip(kinds, map(str, counts), strict=False)), **more}


def pool(state: str, disk: dict[str, Any], errors: str = "0", **more: Any) -> str:  # noqa: ANN401
    """A mirror of two disks."""
    disks = {"sda": device("ONLINE", 0, 0, 0), "sdb": disk}
    mirror = device(state, 0, 0, 0, vdevs=disks)
    root = device(state, 0, 0, 0, vdevs={"mirror-0": mirror})
    own = {"state": state, "vdevs": {"tank": root}, "error_count": errors, **more}
    head = {"command": "zpool status", "vers_major": 0, "vers_minor": 1}
    return json.dumps({"output_version": head, "pools": {"tank": own}})


WELL = device("ONLINE", 0, 0, 0)


@pytest.mark.parametrize(
    ("text", "alerts"),
    [
        (pool("ONLINE", WELL), set()),
        (pool("ONLINE", device("ONLINE", 0, 0, 7)), {"ZfsDeviceErrors"}),
        (
            pool("DEGRADED", device("UNAVAIL", 0, 0, 0, was="/dev/sdb1")),
            {"ZfsPoolDegraded", "ZfsPoolNoRedundancy", "ZfsDeviceFailed"},
        ),
        (pool("ONLINE", WELL, logs={"sdl": device("FAULTED", 0, 0, 0)}), {"ZfsDeviceFailed"}),
        (pool("ONLINE", WELL, spares={"sdz": device("AVAIL")}), set()),
        (pool("ONLINE", WELL, l2cache={"sdy": device("ONLINE", 0, 0, 0)}), set()),
    ],
)
@pytest.mark.parametrize("prompt", ["", "# zpool status -j\n"])
def test_a_pool_in_json_is_judged_as_its_text(text: str, alerts: set[str], prompt: str) -> None:
    """States, counts, and the devices beside the data."""
    told = read(prompt + text)
    assert (told.kind, told.unparsed) == ("zpool", ())
    assert {each.alert for each in told.alerts} == alerts
    assert told.status == int(bool(alerts))
    assert {"tank", "mirror-0", "sda", "sdb"} <= {each.name for each in told.objects}


def test_data_errors_and_the_last_scrub_in_json_count() -> None:
    """As the lines 'errors:' and 'scan:' do."""
    scan = {"function": "SCRUB", "state": "FINISHED", "processed": "0B", "errors": "2"}
    assert read(pool("ONLINE", WELL, errors="3")).alerts[0].severity == "critical"
    assert read(pool("ONLINE", WELL, scan_stats=scan)).status == 1
    assert read(pool("ONLINE", WELL, scan_stats={**scan, "errors": "0"})).status == 0


@pytest.mark.parametrize(("kind", "count"), [(each, n) for each in KINDS for n in (0, 3)])
def test_the_statistics_of_btrfs_in_json_are_judged(kind: str, count: int) -> None:
    """Each count of each device."""
    rows = [
        {"device": path, "devid": "1", **dict.fromkeys(KINDS, "0")}
        for path in ("/dev/sdb", "/dev/sdc")
    ]
    rows[1][kind] = str(count)
    text = json.dumps({"__header": {"version": "1"}, "device-stats": rows}, indent=2)
    told = read(f"# btrfs --format json device stats /mnt\n{text}\n")
    assert (told.status, told.unparsed) == (int(bool(count)), ())
    assert [each.name for each in told.objects] == ["/dev/sdb", "/dev/sdc"]
    assert [each.object for each in told.alerts] == ["/dev/sdc"] * bool(count)


@pytest.mark.parametrize(
    ("kind", "row", "status"),
    [
        ("lv", {"lv_attr": "-wi-ao----", "data_percent": "", "metadata_percent": ""}, 0),
        ("lv", {"lv_attr": "twi-aotz--", "data_percent": "41.70", "metadata_percent": "9.01"}, 0),
        ("lv", {"lv_attr": "twi-aotz--", "data_percent": "41.70", "metadata_percent": "93.01"}, 1),
        ("lv", {"lv_attr": "rwi-aor-p-", "data_percent": "", "metadata_percent": ""}, 1),
        ("vg", {"vg_attr": "wz--n-"}, 0),
        ("vg", {"vg_attr": "wz-pn-"}, 1),
        ("pv", {"pv_attr": "a--"}, 0),
        ("pv", {"pv_attr": "a-m"}, 1),
    ],
)
def test_the_reports_of_lvm_in_json_are_judged(kind: str, row: dict[str, str], status: int) -> None:
    """By the attributes and percentages, of volumes, groups and devices."""
    names = {"lv_name": "a", "vg_name": "v", "pv_name": "/dev/sda"}
    text = json.dumps({"report": [{kind: [{**names, **row}]}]}, indent=2)
    told = read(text)
    assert (told.kind, told.status, told.unparsed) == ("lvs", status, ())
    assert len(told.objects) == 1


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("zpool list -j", '{"pools": {"tank": {"state": "ONLINE", "type": "POOL"}}}'),
        ("zpool status -j", pool("DEGRADED", device("FAULTED", 1, 2, 3))[:-90]),
        ("btrfs --format json scrub status /", '{"scrub-status": [{}]}'),
        ("lvs --reportformat json -o lv_name", '{"report": [{"lv": [{"lv_name": "a"}]}]}'),
        ("sensors -j", '{\n "nvme-pci-0100": {\n  "Composite": {"temp1_input": 41.8}\n }\n}'),
    ],
)
def test_other_json_is_refused_in_one_line(command: str, text: str) -> None:
    """One reason with the next step, not one for each of its lines."""
    told = read(f"root@nas:~# {command}\n{text}\n")
    assert (told.status, told.objects) == (2, ())
    assert [each.reason.split(":")[0] for each in told.unparsed] == [f"JSON of {told.kind}"]
    assert "use the text form" in told.unparsed[0].reason


@pytest.mark.parametrize(
    "command",
    [
        "nvme smart-log /dev/nvme2n1 -o json",
        "sudo nvme smart-log -o json /dev/nvme2n1",
        "nvme -o json smart-log /dev/nvme2n1 | head -40",
        "/usr/sbin/nvme smart-log --output-format=json nvme2n1",
    ],
)
def test_the_drive_of_an_nvme_log_as_json_is_the_one_of_its_command(command: str) -> None:
    """The JSON of nvme-cli has no name in it."""
    log = {"critical_warning": 2, "temperature": 359, "avail_spare": 100, "percent_used": 11,
           "spare_thresh": 10, "media_errors": 0}  # fmt: skip
    told = read(f"root@render07:~# {command}\n{json.dumps(log, indent=2)}\n")
    assert [each.name for each in told.objects] == ["nvme2n1"]
    assert {each.object for each in told.alerts} == {"disk nvme2n1"}
