"""'iowarden explain' of what ZFS and btrfs report beside the state of a pool or a device."""

from __future__ import annotations

import pytest
from support.explained import read

HEADING = "TIME                           CLASS\n"
DAY = "Jun 10 2024 02:11:0"


def event(second: int, kind: str, **values: str) -> str:
    """Return an event of 'zpool events', with '-v' if there are values."""
    lines = [f"{DAY}{second}.220133441 {kind}"]
    lines += [f'        class = "{kind}"'] * bool(values)
    lines += [f"        {name} = {value}" for name, value in values.items()]
    return "\n".join(lines) + "\n\n"[not values :]


@pytest.mark.parametrize(
    ("kind", "alert", "severity"),
    [
        ("ereport.fs.zfs.checksum", "ZfsDeviceErrors", "warning"),
        ("ereport.fs.zfs.io", "ZfsDeviceErrors", "warning"),
        ("ereport.fs.zfs.data", "ZfsDataErrors", "critical"),
        ("ereport.fs.zfs.io_failure", "ZfsPoolSuspended", "critical"),
        ("ereport.fs.zfs.deadman", "ZfsIoHangs", "critical"),
        ("ereport.fs.zfs.vdev.no_replicas", "ZfsPoolFailed", "critical"),
        ("resource.fs.zfs.removed", "ZfsDeviceFailed", "warning"),
    ],
)
def test_events_of_zfs_mean_what_they_mean_in_its_daemon(
    kind: str, alert: str, severity: str
) -> None:
    """The short form names no pool; '-v' has it, and the device."""
    told = read(HEADING + event(1, kind) + event(2, kind))
    assert [(each.alert, each.severity) for each in told.alerts] == [(alert, severity)]
    assert "2 times" in told.alerts[0].text
    assert told.outputs == ("zpool events",)
    named = read(HEADING + event(1, kind, pool='"tank"', vdev_path='"/dev/disk/by-id/ata-X-part1"'))
    assert named.alerts[0].object == "tank"
    assert "ata-X-part1" in named.alerts[0].text


def test_events_of_a_healthy_pool_are_none() -> None:
    """A scrub, an import, a written configuration."""
    names = ("sysevent.fs.zfs.config_sync", "sysevent.fs.zfs.scrub_finish")
    told = read(HEADING + "".join(event(1, f"{name}") for name in names))
    assert (told.status, told.alerts, told.unparsed) == (0, (), ())


def test_a_device_that_is_online_again_has_ended_what_was_reported_of_it() -> None:
    """'-v' shows the state as a number up to 2.2, as a word later."""
    kind, of = "resource.fs.zfs.statechange", {"pool": '"tank"', "vdev_path": '"/dev/sdc1"'}
    failed = HEADING + event(1, kind, **of, vdev_state='"FAULTED" (0x5)')
    assert "FAULTED" in read(failed).alerts[0].text
    assert "FAULTED" in read(HEADING + event(1, kind, **of, vdev_state="0x5")).alerts[0].text
    assert read(HEADING + event(1, kind, **of, vdev_state="0xyz")).status == 1
    for state in ("0x7", '"ONLINE" (0x7)'):
        assert read(failed + event(2, kind, **of, vdev_state=state)).status == 0


def test_an_error_of_zfs_that_is_not_known_is_no_health() -> None:
    """A later release may have more of them."""
    told = read(HEADING + event(1, "ereport.fs.zfs.disaster"))
    assert [each.line for each in told.unparsed] == [2]
    assert told.status == 2


def test_events_stand_below_the_state_of_the_pool() -> None:
    """Both commands in one paste."""
    state = (
        "  pool: tank\n state: ONLINE\nconfig:\n\n\tNAME   STATE   READ WRITE CKSUM\n"
        "\ttank   ONLINE     0     0     0\n\t  sdc  ONLINE     0     0     0\n\n"
        "errors: No known data errors\n"
    )
    told = read(f"{state}\n{HEADING}{event(1, 'ereport.fs.zfs.checksum')}")
    assert told.outputs == ("zpool status", "zpool events")
    assert [each.alert for each in told.alerts] == ["ZfsDeviceErrors"]


CHECK = """\
Opening filesystem to check...
Checking filesystem on /dev/sdb1
UUID: 8e1f2031-4253-4647-8596-a7b8c9dae0f1
[1/7] checking root items
[2/7] checking extents
{found}[3/7] checking free space cache
[4/7] checking fs roots
found 812331229184 bytes used, {end}
total csum bytes: 792112344
"""
MISMATCH = "ref mismatch on [1104101376 16384] extent item 1, found 0\n"
ERROR = "ERROR: errors found in extent allocation tree or chunk allocation\n"
WRONG = "checksum verify failed on 58720256 wanted 0x8f087114 found 0xb87d3f03\n"


@pytest.mark.parametrize(
    ("found", "end", "severity"),
    [
        ("", "no error found", ""),
        (MISMATCH + ERROR, "error(s) found", "critical"),
        (MISMATCH, "error(s) found", "critical"),
        (WRONG, "no error found", "warning"),
    ],
)
def test_a_check_of_btrfs_ends_with_its_verdict(found: str, end: str, severity: str) -> None:
    """A block with a wrong checksum is none of its errors, and is one all the same."""
    told = read(CHECK.format(found=found, end=end))
    assert [each.severity for each in told.alerts] == [severity] * bool(severity)
    assert told.objects[0].name == "/dev/sdb1"
    assert (told.status, told.unparsed) == (int(bool(severity)), ())
    assert all("Do not run 'btrfs check --repair' first" in each.advice for each in told.alerts)


@pytest.mark.parametrize(("found", "status"), [("", 2), (ERROR, 1)])
def test_a_check_that_is_cut_has_no_verdict(found: str, status: int) -> None:
    """The errors above the cut count."""
    told = read(CHECK.format(found=found, end="").partition("[4/7]")[0])
    assert told.status == status
    assert "expected 'found ... bytes used'" in told.unparsed[0].reason


def test_checks_of_two_file_systems_are_two() -> None:
    """Only the second has errors."""
    well = CHECK.format(found="", end="no error found")
    ill = CHECK.format(found=ERROR, end="error(s) found").replace("sdb1", "sdc1")
    states = {each.name: each.state for each in read(well + ill).objects}
    assert states == {"/dev/sdb1": "ok", "/dev/sdc1": "failed"}


@pytest.mark.parametrize("state", ["running", "paused"])
def test_a_balance_is_no_fault(state: str) -> None:
    """Beside a scrub, with the prompt or without it."""
    told = read(
        f"Balance on '/srv' is {state}\n12 out of about 101 chunks balanced (13 considered),"
        "  88% left\n"
    )
    assert (told.status, told.unparsed) == (0, ())
    assert told.objects[0].vendor_state == state


def test_allocated_space_is_no_free_space() -> None:
    """'filesystem df' shows what block groups have, not what is left for more of them."""
    told = read("Data, single: total=1.00TiB, used=1.00TiB\nMetadata, DUP: total=3GiB, used=2GiB\n")
    assert told.status == 2
    assert "btrfs filesystem usage" in told.unparsed[0].reason


MAIL = """\
Subject: ZFS scrub_finish event for rpool on pve1

ZFS has finished a scrub:

   eid: 40
 class: scrub_finish
  host: pve1
  time: 2024-06-09 00:31:22+0200
  pool: rpool
 state: ONLINE
config:

\tNAME   STATE   READ WRITE CKSUM
\trpool  ONLINE     0     0     0
\t  sdc  ONLINE     0     0     0

errors: No known data errors
"""


def test_a_mail_of_zfs_with_its_subject_is_read_whole() -> None:
    """As a mail program shows it: the subject, the words, the event, the pool."""
    told = read(MAIL)
    assert (told.status, told.unparsed) == (0, ())
    assert told.objects[0].name == "rpool"


POOL = """\
  pool: vault
 state: {state}
status: One or more devices has experienced an error {status}
action: see the pages of zpool
config:

        NAME          STATE     READ WRITE CKSUM
        vault         {state}     0     0     0
          mirror-0    {state}     0     0     0
            sdx       ONLINE       0     0     0
            sdy       {device}
"""
CORRUPTION = "resulting in data\n\tcorruption.  Applications may be affected."


def test_a_device_with_too_many_errors_is_named_though_its_counts_are_0() -> None:
    """A resilver resets the counts; the device is used on, and is the one to replace."""
    row = "DEGRADED     0     0     0  too many errors"
    told = read(POOL.format(state="DEGRADED", status="", device=row) + _NO_ERRORS)
    named = {each.alert: each.object for each in told.alerts}
    assert named == {"ZfsPoolDegraded": "vault", "ZfsDeviceErrors": "sdy of mirror-0 of vault"}
    assert "too many errors" in told.alerts[-1].text


_NO_ERRORS = "\nerrors: No known data errors\n"


def test_damaged_files_are_known_by_the_status_if_their_list_is_cut_off() -> None:
    """A paste that ends before 'errors:' still has the sentence about them."""
    row = "ONLINE       0     0     4"
    cut = read(POOL.format(state="ONLINE", status=CORRUPTION, device=row))
    assert [each.severity for each in cut.alerts if each.alert == "ZfsDataErrors"] == ["critical"]
    whole = read(POOL.format(state="ONLINE", status=CORRUPTION, device=row) + _NO_ERRORS)
    assert "ZfsDataErrors" not in {each.alert for each in whole.alerts}


def test_no_known_errors_are_none() -> None:
    """The form in the pages that a status refers to."""
    row = "ONLINE       0     0     0"
    text = POOL.format(state="ONLINE", status="", device=row) + "\nerrors: No known errors\n"
    assert (read(text).status, read(text).alerts) == (0, ())


SCRUBBED = """\
Starting scrub on devid 1
scrub {word} for 0b1c2d3e-1111-2222-3333-444455556666
Scrub started:    Fri May 29 23:54:53 2026
Status:           {state}
Duration:         0:10:23
Total to scrub:   911.45GiB
Rate:             1.46GiB/s
Error summary:    {summary}
"""
LOST = "csum=18\n  Corrected:      0\n  Uncorrectable:  18\n  Unverified:     0\n"
ENDS = (
    "ERROR: there are 1 uncorrectable errors",
    "ERROR: there are 1 device(s) with uncorrectable errors",
)


@pytest.mark.parametrize("end", ENDS)
def test_what_a_scrub_in_the_foreground_prints_at_its_end(end: str) -> None:
    """'btrfs scrub start -B': the same rows as 'scrub status', below another heading."""
    told = read(SCRUBBED.format(word="done", state="finished", summary=f"{LOST}{end}"))
    assert [(each.severity, each.alert) for each in told.alerts] == [
        ("critical", "BtrfsScrubErrors")
    ]
    assert "18 blocks" in told.alerts[0].text
    assert told.unparsed == ()
    cut = read(SCRUBBED.format(word="done", state="finished", summary=f"csum=18\n{end}"))
    assert "some blocks" in cut.alerts[0].text
    well = SCRUBBED.format(word="done", state="finished", summary="no errors found")
    indented = read("    " + well.replace("\n", "\n    "))
    assert (indented.status, indented.unparsed) == (0, ())
    assert (read(well).status, read(well).unparsed) == (0, ())
    stopped = SCRUBBED.format(word="canceled", state="aborted", summary="no errors found")
    assert [each.alert for each in read(stopped).alerts] == ["BtrfsScrubIncomplete"]


USAGE = """\
Overall:
    Device size:                1000.00GiB
    Device allocated:            522.00GiB
    Device unallocated:          478.00GiB
    Device missing:              {missing}
    Used:                        300.62GiB

                  Data      Metadata  System
Id Path           RAID1     RAID1     RAID1    Unallocated Total      Slack
-- -------------- --------- --------- -------- ----------- ---------- -----
 1 {first} 165.00GiB  64.00GiB 32.00MiB   239.00GiB  500.00GiB     -
 2 /dev/sdq       165.00GiB  64.00GiB 32.00MiB   239.00GiB  500.00GiB     -
-- -------------- --------- --------- -------- ----------- ---------- -----
   Total          165.00GiB  64.00GiB 32.00MiB   478.00GiB 1000.00GiB 0.00B
   Used           150.00GiB 304.00MiB 16.00KiB
"""


def test_the_usage_of_btrfs_as_a_table() -> None:
    """'btrfs filesystem usage -T': the same, with a row for each device."""
    lost = read(USAGE.format(missing="500.00GiB", first="<missing disk>"))
    assert [each.alert for each in lost.alerts] == ["BtrfsDeviceMissing"]
    assert lost.unparsed == ()
    assert read(USAGE.format(missing="0.00B", first="/dev/sdp      ")).status == 0


@pytest.mark.parametrize(
    ("data", "metadata", "missing", "severity"),
    [
        ("RAID1", "RAID1", 1, "critical"),
        ("single", "RAID1", 1, "critical"),
        ("RAID0", "RAID1C3", 1, "critical"),
        ("RAID6", "RAID1C3", 1, "warning"),
        ("RAID6", "RAID1C3", 2, "critical"),
        ("RAID1C3", "RAID1C4", 1, "warning"),
        ("RAID5", "RAID1C4", 1, "critical"),
        ("RAID10", "RAID10", 1, "critical"),
    ],
)
@pytest.mark.parametrize("is_table", [True, False])
def test_a_missing_device_of_btrfs_is_as_severe_as_what_its_profiles_still_survive(
    data: str, metadata: str, missing: int, severity: str, is_table: bool
) -> None:
    """By the weakest profile. Source: kernel, fs/btrfs/volumes.c, tolerated_failures."""
    head = USAGE.partition("                  Data")[0].format(missing="500.00GiB")
    lost = [f"{'<missing disk>' if number else 'missing'}" for number in range(missing)]
    if is_table:
        rows = f"Id Path {data} {metadata} {metadata} Unallocated Total Slack\n"
        for number, path in enumerate([*lost, "/dev/sdq"], 1):
            rows += f" {number} {path} 165.00GiB 64.00GiB 32.00MiB 239.00GiB 500.00GiB -\n"
    else:
        rows = ""
        for area, profile in (("Data", data), ("Metadata", metadata), ("System", metadata)):
            rows += f"{area},{profile}: Size:165.00GiB, Used:150.00GiB (90.91%)\n"
            rows += "".join(f"   {path}\t 165.00GiB\n" for path in [*lost, "/dev/sdq"])
    explained = read(head + rows)
    assert [each.severity for each in explained.alerts] == [severity]
    assert explained.unparsed == ()


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ("\t*** Some devices missing\n", "1 of 2 devices missing;"),
        ("\tdevid    2 size 0 used 0 path  MISSING\n", "1 of 2 devices missing: devid 2;"),
        ("\tdevid    2 size 0 used 0 path /dev/sdc MISSING\n", "missing: devid 2;"),
    ],
)
def test_a_btrfs_that_lacks_a_device_may_have_lost_its_last_copy(rows: str, words: str) -> None:
    """'filesystem show' has no profile, and of two devices no profile survives another loss."""
    head = "Label: 'media'  uuid: 4f0c92d1-1b2e-47a0-9b6e-5a0d2c77f3e1\n"
    total = "\tTotal devices 2 FS bytes used 1.11TiB\n"
    device = "\tdevid    1 size 3.64TiB used 1.14TiB path /dev/sdb\n"
    explained = read(head + total + device + rows)
    (lost,) = explained.alerts
    assert (lost.severity, lost.alert) == ("critical", "BtrfsDeviceMissing")
    assert words in lost.text
    assert "btrfs filesystem usage" in lost.text
