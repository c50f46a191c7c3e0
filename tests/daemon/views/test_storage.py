"""'iowarden storage' of whole machines: what is wrong, which disk, what it still survives."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support import storage_machines
from support.golden import GOLDEN
from support.live import watched
from support.storage import Server

from iowarden.daemon.cli import main

if TYPE_CHECKING:
    from pathlib import Path

    from support.golden import Golden
    from support.live import Watched


def shown(host: Watched, *words: str) -> str:
    """Return what 'iowarden storage' prints."""
    done = host.program.command("storage", *words)
    assert (done.returncode, done.stderr) == (0, "")
    return str(done.stdout)


@pytest.mark.parametrize("name", storage_machines.MACHINES)
def test_a_machine_in_80_columns(tmp_path: Path, golden: Golden, name: str) -> None:
    """Each kind of machine after its fault, from above and from the rack.

    Its text is read by somebody who has ten seconds: what is wrong, which disk, what is left.
    """
    machine, fault = storage_machines.MACHINES[name](tmp_path)
    with watched(tmp_path, machine) as host:
        host.wait(20)
        fault(host)
        host.wait(64)
        tree, bays = shown(host), shown(host, "--by-bay")
        document = json.loads(shown(host, "--json"))
    golden(GOLDEN / f"storage/{name}.txt", f"{tree}\n$ iowarden storage --by-bay\n{bays}")
    assert max(map(len, [*tree.splitlines(), *bays.splitlines()])) <= 80
    serials = {node["serial"] for node in document["nodes"] if node["severity"]}
    assert all(serial in tree for serial in serials), "a serial number is never cut off"


def test_the_number_of_an_array_is_on_the_page_and_in_the_metrics(tmp_path: Path) -> None:
    """One number in one wording: the series, the tree, the mail."""
    machine, fault = storage_machines.shelf(tmp_path)
    with watched(tmp_path, machine) as host:
        host.wait(20)
        fault(host)
        mails = host.wait(200)
        query = "iowarden_redundancy_survives_disks{object='md5'}"
        answer = host.program.command("query", query).stdout
        tree = shown(host)
    assert answer.split()[-1] == "1"
    assert "survives 1 more disk" in tree
    (mail,) = mails
    assert mail["Subject"].startswith("[WARNING]")
    assert "survives 1 more disk" in mail["Subject"]


def test_a_cycle_odd_names_and_a_disk_without_a_serial_number(tmp_path: Path) -> None:
    """Tables may be changed while they are read, and people put blanks and escapes into names."""
    machine = Server(tmp_path)
    machine.adapter(0, "ahci")
    machine.disk("sda", "0:0:0:0", serial="S1")
    del machine._files["/sys/block/sda/device/vpd_pg80"]
    machine.volume("dm-0", "one", "CRYPT-1", "dm-1")
    machine.volume("dm-1", "two", "CRYPT-2", "dm-0", "sda1")
    machine.volume("dm-2", "big\x1b[31m disk", "CRYPT-3", "sda1")
    machine.mount("/srv/my\\040files", "dm-0")
    machine.mount("/srv/red", "dm-2")
    with watched(tmp_path, machine) as host:
        host.wait(20)
        tree = shown(host, "--all")
    assert "/srv/my files" in tree
    assert "\x1b" not in tree
    assert tree.count("as above") >= 1
    assert tree.count("sda1") >= 1


def test_a_controller_that_does_not_answer_is_not_known_and_not_well(tmp_path: Path) -> None:
    """The program hangs: the volume has a question mark and the reason, no state of yesterday."""
    machine, _ = storage_machines.controller(tmp_path)
    for path in [p for p in machine._files if "storcli64" in p]:
        machine.change(
            {path: json.dumps({"status": 1, "signal": None, "stdout": "", "stderr": ""})}
        )
    with watched(tmp_path, machine) as host:
        host.wait(64)
        tree = shown(host)
    line = next(line for line in tree.splitlines() if "sda1" in line)
    assert line.startswith(" ?")
    assert "megaraid" in tree
    assert "no redundancy" not in tree


def test_without_the_service_the_usual_error_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As of every command that queries the service."""
    assert main.main(["storage", "--socket", str(tmp_path / "none")]) == 1
    assert capsys.readouterr().err.startswith("iowarden is not running (no ")
    assert main.main(["storage", "--state-directory", str(tmp_path / "nosuch")]) == 1
    assert capsys.readouterr().err.startswith(f"'{tmp_path}/nosuch': no such directory; name the")
