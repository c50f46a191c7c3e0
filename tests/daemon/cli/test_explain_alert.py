"""`iowarden explain ALERT` and `rules show ALERT`: what it means, what is so here, what to do."""

from __future__ import annotations

import dataclasses
import json
import os
import pty
import re
import sys
import tempfile
import textwrap
from typing import TYPE_CHECKING

import pytest
from support.program import Played, with_hung_disk

from iowarden.daemon.cli import main
from iowarden.daemon.control.documents import AlertLine
from iowarden.daemon.manual import alert_manual
from iowarden.daemon.manual.alert_manual import AlertManual, Here
from iowarden.daemon.terminal import columns
from iowarden.rules.manual.manual import Manual

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a directory with a configuration, and without a service."""
    (tmp_path / "rules.d").mkdir()
    (tmp_path / "c.yaml").write_text(
        f"rules_directory: {tmp_path}/rules.d\nstate_directory: {tmp_path}\n"
        "overrides:\n  FilesystemFull/warning: {threshold: 0.85}\n  NoSwap: {enabled: false}\n"
    )
    return tmp_path


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Played]:
    """The service on a machine with a hung disk."""
    with with_hung_disk(tmp_path_factory.mktemp("explain")) as program:
        yield program


def explained(home: Path, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return what is printed about an alert on a host whose service does not run."""
    where = ("--config", str(home / "c.yaml"), "--state-directory", str(home))
    assert main.main(["explain", *words, *where]) == 0
    return capsys.readouterr().out


def part(text: str, title: str) -> str:
    """Return one part of the text, without its title."""
    return text.partition(f"\n{title}:\n")[2].partition("\n\n")[0]


def test_an_alert_is_explained_with_the_thresholds_of_this_host(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it means, what to do, and the limit that the administrator set; no service answers."""
    text = explained(home, capsys, "FilesystemFull")
    assert text.startswith("FilesystemFull, condition space_low\n  critical: /srv is 95 % full")
    assert "not known, because no service answers: iowarden is not running" in text
    assert "du -xh" in part(text, "what to do, for the example object")
    assert "warning: fires" in part(text, "rule")
    assert "threshold: iowarden_filesystem_sustained_used_ratio > 85 %\n" in text
    free = "not if: iowarden_filesystem_available_bytes >= 93.1 GiB unless "
    assert f"{free}iowarden_filesystem_full_in_seconds < 30 d\n" in text
    assert "changed here: threshold" in text
    assert (
        "FilesystemFull/warning: {threshold: {iowarden_filesystem_sustained_used_ratio: 0.85},"
        " for: 0s, severity: warning}" in part(text, "change or silence it")
    )
    assert "iowarden silence add --for 2h --reason 'TEXT' FilesystemFull" in text


def test_a_class_of_events_whose_name_begins_with_a_digit_is_explained(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All 3ware classes were taken for files that are not there."""
    text = explained(home, capsys, "3ware_battery_is_weak")
    assert text.startswith("3ware_battery_is_weak, condition controller_write_cache\n")


def test_each_text_has_the_severities_that_it_is_about(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two meanings one below the other contradicted each other; equal texts are there once."""
    text = explained(home, capsys, "MdDegraded")
    assert text.startswith("MdDegraded, condition raid_array\n  critical, warning: 1 member of md0")
    meanings = part(text, "meaning").splitlines()
    assert [line.partition(":")[0] for line in meanings] == ["  critical", "  warning"]
    steps = part(text, "what to do, for the example object").splitlines()
    titles = [line for line in steps if line.startswith("  ") and line[2] != " "]
    assert titles == ["  critical:", "  warning:", "  in each case:"]
    assert sum("Before you replace anything" in line for line in steps) == 1
    assert steps[-1] == "      mdadm /dev/md0 --add PARTITION"


def test_the_severity_and_the_limit_of_a_model_have_lines_to_paste(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As they are printed the configuration accepts them."""
    config = home / "c.yaml"
    change = part(explained(home, capsys, "DiskTemperatureHigh"), "change or silence it")
    assert "celsius: 0}, for: 0s, severity: warning}\n" in change
    _, _, after = change.partition("iowarden query iowarden_disk_info\n")
    line = after.splitlines()[0].strip()
    assert line.startswith("DiskTemperatureHigh/critical: {expr: 'iowarden_smart_temperature_")
    config.write_text(f"{config.read_text()}  {line}\n")
    assert main.main(["config", "check", str(config)]) == 0


def test_the_key_of_a_configuration_without_an_override_is_seen(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The example that 'make install' copies has it, with comments below: twice is an error."""
    config = home / "c.yaml"
    config.write_text(f"state_directory: {home}\noverrides:\n  #NoSwap: {{enabled: false}}\n")
    change = part(explained(home, capsys, "MdDegraded"), "change or silence it")
    assert "(it has the line 'overrides:'; put what follows below that one)\n" in change


def test_what_to_do_comes_before_the_rule(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Who is woken by it reads the first screen."""
    titles = [
        line
        for line in explained(home, capsys, "DeviceHang").splitlines()
        if line and not line.startswith(" ")
    ]
    assert titles[1:4] == ["meaning:", "on this host now:", "what to do, for the example object:"]
    assert titles.index("rule:") > 3


def test_a_class_of_events_is_explained_as_well(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its name is in mails like that of an alert; of what a rule has it has the severity."""
    text = explained(home, capsys, "scsi_medium_error")
    assert "warning; critical from 5 in 10 min: the disk could not read or write sectors" in text
    assert "First copy important data off this disk." in text
    assert "an event of a log or of an array, not a rule" in text
    change = part(text, "change or silence it")
    assert "below that one)\n      scsi_medium_error: {severity: warning}\n" in change
    assert "  scsi_medium_error: {enabled: false}\n" in change
    assert "threshold" not in change


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("severity: notice", "scsi_medium_error, condition io_error\n  notice: the disk could not"),
        ("enabled: false", "note: it is disabled here, by 'overrides' or 'shipped_rules' of"),
    ],
)
def test_a_class_of_events_is_explained_as_it_is_configured(
    home: Path, capsys: pytest.CaptureFixture[str], change: str, expected: str
) -> None:
    """Whoever changed it sees that it is changed."""
    config = home / "c.yaml"
    config.write_text(f"{config.read_text()}  scsi_medium_error: {{{change}}}\n")
    assert expected in explained(home, capsys, "scsi_medium_error")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("DiskPendingSector", "'DiskPendingSectors'"),
        ("disk_slow", "'DiskSlow'"),
        ("SCSI_MEDIUM_ERROR", "'scsi_medium_error'"),
        ("mddegraded", "'MdDegraded'"),
    ],
)
def test_a_mistyped_alert_is_answered_by_what_is_near(
    home: Path, capsys: pytest.CaptureFixture[str], typed: str, meant: str
) -> None:
    """Also in other case; the exit status is that of a wrong argument."""
    assert main.main(["explain", typed, "--config", str(home / "c.yaml")]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"no alert or file '{typed}'; did you mean {meant}")
    assert main.main(["rules", "show", typed, "--config", str(home / "c.yaml")]) == 2
    assert capsys.readouterr().err.startswith(f"no alert '{typed}'; did you mean {meant}")


def test_a_disabled_alert_is_explained_and_marked(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever wonders why it never fires finds the reason."""
    text = explained(home, capsys, "NoSwap")
    assert "note: it is disabled here, by 'overrides' or 'shipped_rules' of" in text
    assert "5 GiB of memory and no swap" in text


def test_an_alert_of_the_administrator_is_explained(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the same directory that the service loads."""
    (home / "rules.d" / "mine.yaml").write_text(
        "groups: [{name: g, rules: [{alert: Mine, expr: iowarden_load1 > 30,"
        " labels: {severity: notice}, annotations: {summary: 'load {{ $value }}'}}]}]"
    )
    text = explained(home, capsys, "Mine")
    assert text.startswith("Mine\n  notice: load 31\n")
    assert "threshold: iowarden_load1 > 30" in text
    change = part(text, "change or silence it")
    assert f"to change it or switch it off, edit {home}/rules.d/mine.yaml, line 1\n" in change
    assert "overrides" not in change
    assert "enabled" not in change


def test_the_lines_of_a_change_fit_the_configuration_that_is_there(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As they are printed they are valid at the end of a file, or below its key 'overrides'."""
    config = home / "c.yaml"
    assert "(it has the line 'overrides:'; put what follows below that one)\n" in explained(
        home, capsys, "MdDegraded"
    )
    text = config.read_text().partition("overrides")[0]
    config.write_text(text)
    change = part(explained(home, capsys, "MdDegraded"), "change or silence it")
    assert f", in {config}:\n    overrides:\n" in change
    lines = "    overrides:\n" + change.partition("overrides:\n")[2].partition("  or ")[0]
    config.write_text(text + textwrap.dedent(lines))
    assert main.main(["config", "check", str(config)]) == 0


def test_the_other_numbers_of_a_rule_have_lines_to_paste(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only the first limit was shown how to change; of two limits of one metric neither was."""
    change = part(explained(home, capsys, "DiskPendingSectors"), "change or silence it")
    _, _, others = change.partition("  or one of its other numbers, in place of the line of")
    assert (
        "DiskPendingSectors/critical: {expr: 'iowarden_smart_confirmed_pending_sectors >= 16 or ("
        in (others)
    )
    change = part(explained(home, capsys, "MdDegraded"), "change or silence it")
    assert (
        "    MdDegraded/warning: {threshold: {iowarden_redundancy_survives_disks: 0}}\n" in change
    )


def test_a_file_is_still_read(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of a file that exists is no name of an alert."""
    monkeypatch.chdir(home)
    (home / "mdstat").write_text("Personalities : [raid1]\nunused devices: <none>\n")
    assert main.main(["explain", "mdstat"]) == 2
    assert "/proc/mdstat" in capsys.readouterr().out


def test_the_configuration_is_that_of_the_running_service(played: Played) -> None:
    """It may have another one than the installed service; its file is named."""
    before = played.config.read_text()
    played.config.write_text(before + "overrides: {FilesystemFull/warning: {threshold: 0.7}}\n")
    text = played.command("explain", "FilesystemFull").stdout
    listed = played.command("rules", "list").stdout
    played.config.write_text(before)
    assert f", in {played.config}:\n" in text
    assert "threshold: iowarden_filesystem_sustained_used_ratio > 70 %" in text
    assert re.search(r"FilesystemFull +warning .* overridden: threshold", listed)


def test_the_running_service_says_what_fires_and_what_is_measured(played: Played) -> None:
    """The alert of a hung disk: since when, its values and limits, and the steps for that disk."""
    text = played.command("explain", "DeviceHang").stdout
    here = part(text, "on this host now")
    assert re.search(r"(firing|cleared [\w ]+ ago, fired) since .*, critical, sd", here)
    assert "iowarden incident show" in here
    measured = part(text, "measured here now")
    assert 'iowarden_device_hang_seconds{device="' in measured
    assert 'iowarden_device_hang_threshold_seconds{device="' in measured
    assert part(text, "what to do here")
    assert text.index("\nwhat to do here") < text.index("\nmeasured here now")
    assert "example object:" not in text.partition("meaning")[2]


def test_of_an_incident_of_several_alerts_the_advice_of_the_alert_itself_is_first() -> None:
    """Whoever asks for one of them has not asked for the steps of the others."""
    own, other = "Wait for it.", "Replace the disk."
    rules = (Manual("Mine", "warning", "hung_task", "it waits", advice=own),)

    def parts(shared: str) -> list[str]:
        here = Here("", 0.0, (), (), (other,), shared)
        lines = alert_manual.sections(AlertManual("Mine", (), rules, here))
        return [line for line in lines if "to do" in line or line.strip() in {own, other}]

    assert parts("3f2a") == [
        "what to do, for the example object:",
        f"  {own}",
        "what to do here about incident 3f2a, of this and other alerts:",
        f"  {other}",
    ]
    assert parts("") == ["what to do here:", f"  {other}"]


def test_on_a_terminal_it_says_what_it_waits_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """And how to end it; a pipe gets no such line."""
    leader, follower = pty.openpty()
    os.write(leader, b"Personalities : [raid1]\nunused devices: <none>\n\x04")
    with open(leader, "rb", buffering=0), open(follower, encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        main.main(["explain", "--as", "mdstat"])
    prompt = capsys.readouterr().err
    assert "paste the output of a storage tool" in prompt
    assert "Ctrl-D" in prompt
    with tempfile.TemporaryFile("w+") as file:
        file.write("Personalities : [raid1]\nunused devices: <none>\n")
        file.seek(0)
        monkeypatch.setattr(sys, "stdin", file)
        main.main(["explain", "--as", "mdstat"])
    assert capsys.readouterr().err == ""


def test_the_running_service_says_that_nothing_fires(played: Played) -> None:
    """And which series there are not, with the command that tells why."""
    text = played.command("rules", "show", "ZfsPoolFull").stdout
    assert part(text, "on this host now") == "  it does not fire"
    measured = part(text, "measured here now")
    assert "no such series here (why: iowarden metrics iowarden_zfs_pool" in measured
    found = json.loads(played.command("explain", "ZfsPoolFull", "--json").stdout)
    assert found["here"]["problem"] == ""
    assert [each["severity"] for each in found["rules"]] == ["critical", "warning"]


def test_an_alert_that_still_fires_after_its_end_is_shown_as_cleared() -> None:
    """'firing' next to 'cleared 20 s ago' contradicts it."""
    line = AlertLine(
        name="DeviceHang", severity="critical", state="firing", object="sda", summary="hangs"
    )
    fires, ends = (
        {title: of(each) for title, of in columns.of_alerts(100.0).items()}
        for each in (line, dataclasses.replace(line, cleared_seconds=80.0))
    )
    assert (fires["state"], fires["summary"]) == ("firing", "hangs")
    assert (ends["state"], ends["summary"]) == ("cleared", "cleared 20 s ago; was: hangs")
