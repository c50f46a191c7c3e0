"""Commands over the control socket, sent to the whole program, and their effects."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

from support.live import NOTE, RULE, Live, text, watched

if TYPE_CHECKING:
    from pathlib import Path

    from support.live import Watched

ASLEEP = {"/proc/sys/vm/laptop_mode": "5\n"}
ALL_CLEAR_SECONDS = 660.0
DAY = 86_400.0


def said(host: Watched, *arguments: str) -> str:
    """Return the output of the command line, which must not fail."""
    done = host.program.command(*arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def status(host: Watched) -> dict[str, Any]:
    """The document of 'iowarden status --json'."""
    found: dict[str, Any] = json.loads(said(host, "status", "--json"))
    return found


def test_what_is_silenced_is_shown_and_not_mailed_until_the_silence_ends(tmp_path: Path) -> None:
    """An array is degraded on purpose: no mail. The silence is ended: the mail is sent, once."""
    live = Live(tmp_path)
    with watched(tmp_path, live) as host:
        host.wait(20)
        slip = host.program.command(
            "silence", "add", "--for", "1s", "--reason", "slip", "ArayDegraded"
        )
        assert slip.returncode == 3  # it is added, and a script sees that it means nothing here
        assert slip.stdout.startswith("silence ")
        assert slip.stderr.startswith("warning: no rule has such an alert; did you mean ")
        said(host, "silence", "add", "--for", "2h", "--reason", "disk swap", "MdDegraded")
        live.degrade()
        assert host.wait(120) == []
        told = said(host, "silence", "add", "--for", "1s", "--reason", "again", "device=md0")
        assert told.endswith("\n1 alert that is firing now matches\n")
        host.wait(8)
        alert = next(a for a in status(host)["alerts"] if a["name"] == "MdDegraded")
        silence = status(host)["silences"][0]["identifier"]
        assert (alert["state"], alert["silences"]) == ("firing", [silence])
        assert host.program.metrics()["iowarden_alerts_silenced"] == 1.0
        said(host, "silence", "expire", silence)
        (mail,) = host.wait(30)
        assert mail["Subject"].startswith("[CRITICAL]")
        assert host.wait(120) == []
        assert status(host)["silences"] == []


def test_what_is_silenced_beside_what_is_not_stands_behind_it(tmp_path: Path) -> None:
    """Two alerts of one incident, the higher one silenced: it was mailed, so it is not silenced."""
    live = Live(tmp_path)
    rules = tmp_path / "rules.d"
    rules.mkdir(exist_ok=True)
    other = RULE.partition("rules:\n")[2].replace("LaptopMode", "Known").replace("asleep", "awake")
    rules.joinpath("mine.yaml").write_text(
        RULE.replace("SEVERITY", "warning") + other.replace("SEVERITY", "critical")
    )
    with watched(tmp_path, live) as host:
        host.wait(20)
        said(host, "silence", "add", "--reason", "known", "Known")
        live.change(ASLEEP)
        (mail,) = host.wait(80)
        assert mail["Subject"].startswith("[WARNING]")
        found = status(host)
        assert [alert["name"] for alert in found["alerts"]] == ["LaptopMode", "Known"]
        (incident,) = found["incidents"]
        assert incident["silences"] == []
        assert incident["summary"] == "the disk is kept asleep"
        assert found["summary"] == "critical: the disk is kept asleep; 1 alert silenced"
        said(host, "silence", "add", "--reason", "known", "LaptopMode")
        (incident,) = status(host)["incidents"]
        assert len(incident["silences"]) == 2


def test_what_is_silenced_is_in_no_digest_until_its_silence_ends(tmp_path: Path) -> None:
    """A notice is acknowledged for a fortnight: two weeks without a mail, then it is sent once."""
    live = Live(tmp_path)
    (tmp_path / "rules.d").mkdir(exist_ok=True)
    (tmp_path / "rules.d" / "mine.yaml").write_text(NOTE)
    with watched(tmp_path, live) as host:
        host.wait(20)
        said(host, "silence", "add", "--for", "15d", "--reason", "known", "LaptopMode")
        live.change(ASLEEP)
        weeks = []
        for _ in range(4):
            live.leap(7 * DAY, 7 * DAY)
            weeks.append([text(mail) for mail in host.wait(8)])
        assert [len(mails) for mails in weeks] == [0, 0, 1, 0]
        assert "LaptopMode: the disk is kept asleep" in weeks[2][0]


def test_a_silence_outlives_a_kill(tmp_path: Path) -> None:
    """The program is killed and started again: silences still apply, and end when they should."""
    live = Live(tmp_path)
    with watched(tmp_path, live) as host:
        host.wait(20)
        said(host, "silence", "add", "--for", "10m", "--reason", "disk swap", "device=md0")
        host.wait(8)
        assert host.program.end(signal.SIGKILL) == -signal.SIGKILL
        host.start_again()
        host.wait(20)
        assert status(host)["silences"][0]["reason"] == "disk swap"
        live.degrade()
        assert host.wait(300) == []
        assert [m["Subject"][:10] for m in host.wait(400)] == ["[CRITICAL]"]


def test_an_acknowledged_incident_is_mailed_again_when_it_gets_worse(tmp_path: Path) -> None:
    """Acknowledged is not ignored: an acknowledged warning is mailed again once it is critical."""
    live = Live(tmp_path)
    rules = tmp_path / "rules.d"
    rules.mkdir(exist_ok=True)
    (rules / "mine.yaml").write_text(
        RULE.replace("SEVERITY", "warning").replace("> 0", "> 0 < 9")
        + RULE.partition("rules:\n")[2].replace("SEVERITY", "critical").replace("> 0", ">= 9")
    )
    with watched(tmp_path, live) as host:
        host.wait(20)
        live.change(ASLEEP)
        (mail,) = host.wait(120)
        assert mail["Subject"].startswith("[WARNING]")
        incident = status(host)["incidents"][0]["identifier"]
        said(host, "ack", incident)
        assert status(host)["incidents"][0]["acknowledged"]["reason"] == ""
        said(host, "ack", incident, "--reason", "known since Monday")
        assert status(host)["incidents"][0]["acknowledged"]["reason"] == "known since Monday"
        live.change({"/proc/sys/vm/laptop_mode": "0\n"})
        host.wait(60)
        live.change(ASLEEP)
        assert host.wait(120) == []
        live.change({"/proc/sys/vm/laptop_mode": "9\n"})
        (mail,) = host.wait(60)
        assert mail["Subject"].startswith("[CRITICAL]")
        assert status(host)["incidents"][0]["acknowledged"] is None
        events = said(host, "events", "-n", "200")
        assert "acknowledged by" in events
        ended = next(line for line in events.splitlines() if "acknowledgement expired" in line)
        assert "notice" in ended  # the escalation has its own line


def test_a_query_sees_what_no_rule_reads(tmp_path: Path) -> None:
    """Node_exporter's names are there as well, and an error is shown with its place."""
    live = Live(tmp_path)
    with watched(tmp_path, live) as host:
        host.wait(20)
        assert said(host, "query", 'iowarden_device_size_bytes{device="sda"} > 0')
        assert said(host, "query", "node_memory_MemTotal_bytes").startswith("node_memory_MemTotal")
        done = host.program.command("query", "1 +")
        assert done.returncode == 1
        assert done.stderr.startswith("query '1 +': line 1, column ")
        assert "packaging/doc/rules.md, section 'Which PromQL'" in done.stderr
        mistyped = host.program.command("query", 'iowarden_device_size_bytes{devise="sda"}')
        assert "has the label 'devise'; did you mean 'device'?" in mistyped.stderr


def kernel_log(*lines: tuple[float, str]) -> dict[str, str]:
    """The kernel log since boot: seconds and text of each line."""
    records = (
        f"2,{number},{round(at * 1e6)},-;{text}\n" for number, (at, text) in enumerate(lines, 1)
    )
    return {"/.kmsg": "".join(records)}


def test_what_the_kernel_reported_is_found_years_later_and_with_its_incident(
    tmp_path: Path,
) -> None:
    """A bad sector of sda: an event and an incident, shown alike; both survive a kill."""
    live = Live(tmp_path)
    before = (5.0, "sd 0:0:0:0: [sda] Attached SCSI disk")
    booted = f"btime {live.wall - live.uptime():.0f}"
    stat = str(live._files["/proc/stat"]).replace("btime 1799999000", booted)
    boot_id = {"/proc/sys/kernel/random/boot_id": "4f6c1f0e-1b7e-4c1f-9d2a-0123456789ab\n"}
    live.change({"/proc/stat": stat, **boot_id, **kernel_log(before)})
    text = "critical medium error, dev sda, sector 123456 op 0x0:(READ) flags 0x0 phys_seg 1"
    with watched(tmp_path, live) as host:
        host.wait(20)
        assert json.loads(said(host, "incident", "list", "--json"))["incidents"] == []
        live.change(kernel_log(before, (live.uptime(), text)))
        (mail,) = host.wait(120)
        (line,) = json.loads(said(host, "incident", "list", "--json"))["incidents"]
        incident = line["identifier"]
        assert incident in mail["Message-ID"]
        found = said(host, "events", "--source", "kernel", "--incident", incident[:4])
        assert found.splitlines()[-1].endswith(text)
        assert incident in found
        said(host, "silence", "add", "--reason", "disk ordered", "subject=~disk.*")
        shown = said(host, "incident", "show", incident[:4])
        for fact in (
            "sda (SIMULATED HDD",
            "notifications: 1",
            text,
            "silenced by",
            "disk ordered",
            "md0",
        ):
            assert fact in shown
        assert said(host, "events", "--disk", "sda", "--severity", "warning").count(text) == 1
        assert said(host, "events", "--disk", "sdb", "--source", "kernel") == ""
        assert host.program.end(signal.SIGKILL) == -signal.SIGKILL
        host.start_again()
        host.wait(20)
        assert said(host, "events", "--disk", "sda", "--source", "kernel").count(text) == 1
        assert text in said(host, "incident", "show", incident)
