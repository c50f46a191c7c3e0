"""Targets of mapped devices: which program is run for which device, and what hangs alone."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from iowarden.collectors.device_mapper import mapped_targets, target_types
from iowarden.collectors.device_mapper.mapped_targets import WATCHED, emit, read_mapped_targets
from iowarden.collectors.machine import Machine, probe_path
from iowarden.collectors.model import AbsentError, ParseError, ReadError
from iowarden.daemon.probe import allowed

if TYPE_CHECKING:
    from collections.abc import Hashable

    from conftest import MachineMaker

POOL = "0 8 thin-pool 1 4/10 9/10 - rw ignore_discard error_if_no_space - 1"
RAID = "0 8 raid raid1 2 AD 9/9 idle 0 0 -"
MAP = "0 8 multipath 2 0 0 0 1 1 A 0 1 0 8:16 F 14"


def answer(*lines: str) -> str:
    """Return what the probe answers to a program that printed these lines."""
    output = "".join(f"{line}\n" for line in lines)
    return json.dumps({"status": 0, "signal": None, "stdout": output, "stderr": ""})


def command(target: str, *names: str) -> str:
    """Return where a recorded machine has the answer for devices."""
    return probe_path("run", ("dmsetup", "status", "--noflush", "--target", target, *names))


def devices(*names: str) -> dict[str, str]:
    """Return the files of mapped devices, and of a module that is in use."""
    files = {
        f"/sys/block/dm-{number}/dm/{file}": text
        for number, name in enumerate(names)
        for file, text in (("name", f"{name}\n"), ("suspended", "0\n"))
    }
    return {**files, "/sys/module/dm_thin_pool/refcnt": "2\n"}


def types(targets: dict[str, list[str]], queueing: dict[str, bool] | None = None) -> dict[str, str]:
    """Return the probe's answer about the targets of each device."""
    return {"/.probe/dm_targets": json.dumps({"targets": targets, "queueing": queueing or {}})}


def test_pools_are_read_one_by_one_so_that_one_that_hangs_hides_no_other(
    machine: MachineMaker,
) -> None:
    """The status of a pool waits for the lock of its metadata; RAID sets are read together."""
    names = ("p1", "p2", "r1", "r2", "root")
    root = machine(
        devices(*names)
        | types({"p1": ["thin-pool"], "p2": ["thin-pool"], "r1": ["raid"], "r2": ["linear", "raid"],
                 "root": ["linear"]})
        | {
            command("thin-pool", "p2"): answer(POOL),
            command("raid", "r1", "r2"): answer(f"r1: {RAID}", f"r2: {RAID}"),
        }
    )  # fmt: skip
    parts: list[Hashable] = []

    def enter(part: Hashable) -> str:
        parts.append(part)
        return "no answer for 20 s" if part == ("thin-pool", ("p1",)) else ""

    found = {each.name: each for each in read_mapped_targets(root, enter)}
    assert list(found) == ["p1", "p2", "r1", "r2"]
    assert found["p1"].unparsed == "no answer for 20 s"
    assert (found["p2"].unparsed, found["p2"].device) == ("", "dm-1")
    assert [leg.state for leg in found["r2"].legs] == ["A", "D"]
    assert parts == [
        "table",
        ("thin-pool", ("p1",)),
        ("thin-pool", ("p2",)),
        ("raid", ("r1", "r2")),
    ]
    unknown = list(mapped_targets.unreadable(tuple(found.values())))
    assert unknown == [((("name", "p1"),), "no answer for 20 s")]
    assert {dict(labels)["name"] for _, labels, _ in emit(tuple(found.values()))} == {
        "p2",
        "r1",
        "r2",
    }


def test_two_hundred_thin_volumes_are_a_few_programs(machine: MachineMaker) -> None:
    """As many names as the probe takes; each command line is one that it allows."""
    names = [f"vg-thin{number:03}" for number in range(200)]
    parts: list[Hashable] = []
    commands = []
    for first in range(0, 200, 50):
        batch = names[first : first + 50]
        commands.append(("dmsetup", "status", "--noflush", "--target", "thin", *batch))
    root = machine(
        devices(*names)
        | types({name: ["thin"] for name in names})
        | {
            probe_path("run", each): answer(*(f"{name}: 0 8 thin 512 99" for name in each[5:]))
            for each in commands
        }
    )
    found = read_mapped_targets(root, lambda part: parts.append(part) or "")
    assert len(found) == 200
    assert not [each for each in found if each.unparsed]
    assert len(parts) == 5
    assert all(allowed.match(each).program for each in commands)


def test_a_machine_without_such_a_target_runs_no_program(machine: MachineMaker) -> None:
    """Linear and encrypted volumes alone; modules that are loaded and not used; none at all."""
    linear = devices("vg-root", "crypt") | {"/sys/module/dm_thin_pool/refcnt": "0\n"}

    def never(part: Hashable) -> str:
        raise AssertionError(part)

    for files in (linear, {"/sys/block": None}, {"/sys/block/sda/size": "8\n"}):
        with pytest.raises(AbsentError, match="no device-mapper device"):
            read_mapped_targets(machine(files), never)
    built_in = linear | {"/sys/module/dm_raid/parameters/x": "1\n"}
    striped = linear | {f"/sys/block/dm-0/slaves/{name}/x": "" for name in ("sda", "sdb")}
    for files in (built_in, striped):
        with pytest.raises(AssertionError, match="table"):
            read_mapped_targets(machine(files), never)


def test_a_map_has_its_paths_and_whether_it_waits_for_ever(machine: MachineMaker) -> None:
    """queue_if_no_path is only in the table."""
    root = machine(
        devices("mpatha") | types({"mpatha": ["multipath"]}, {"mpatha": True})
        | {command("multipath", "mpatha"): answer(MAP)}
    )  # fmt: skip
    (found,) = read_mapped_targets(root)
    assert found.is_queued_without_path
    assert [(path.device, path.working, path.failures) for path in found.paths] == [
        ("8:16", False, 14)
    ]
    assert ("iowarden_dm_queue_if_no_path", (("device", "dm-0"), ("name", "mpatha")), 1.0) in emit(
        (found,)
    )


def test_what_is_not_answered_is_unknown_with_its_reason(machine: MachineMaker) -> None:
    """No line for it, another target's line, a name that is no argument, a program killed."""
    strange = "my vol"
    root = machine(
        devices("a", "b", "c", strange)
        | types({"a": ["raid"], "b": ["raid"], "c": ["cache"], strange: ["raid"]})
        | {
            command("raid", "a", "b"): answer(f"a: {RAID}", "c: 0 8 cache Fail", "Command failed."),
            command("cache", "c"): json.dumps(
                {"status": None, "signal": 9, "stdout": "0 8 cache F", "stderr": ""}
            ),
        }
    )
    found = {each.name: each.unparsed for each in read_mapped_targets(root)}
    assert found["a"] == ""
    assert "expected its state, got none" in found["b"]
    assert "terminated by signal 9" in found["c"]
    assert "characters" in found[strange]


def test_a_table_that_hangs_or_is_foreign_is_no_state(machine: MachineMaker) -> None:
    """Nothing is known then, and nothing is said."""
    files = devices("p1")
    with pytest.raises(ReadError, match="'dmsetup table': no answer"):
        read_mapped_targets(machine(files), lambda _: "no answer for 20 s")
    for text in ("", "[]", '{"targets": []}', '{"targets": {"a": 1}, "queueing": {}}',
                 '{"targets": {}, "queueing": {"a": 1}}'):  # fmt: skip
        with pytest.raises(ParseError, match="expected targets by device as JSON"):
            read_mapped_targets(machine(files | {"/.probe/dm_targets": text}))


class Printing(Machine):
    """The machine as the probe has it, whose programs print a text."""

    def __init__(self, text: str) -> None:
        """Run nothing yet."""
        super().__init__("/nowhere")
        self.text = text
        self.lines: list[tuple[str, ...]] = []

    def query_probe(self, verb: str, *arguments: str, deadline_seconds: float = 30.0) -> str:
        """Print the text."""
        assert verb == "run"
        self.lines.append(arguments)
        return answer(self.text)


def test_no_key_and_no_argument_of_a_table_leaves_the_probe() -> None:
    """Names and types alone; of a map whether it queues, by the counted features."""
    key = "secret" * 9
    root = Printing(
        f"crypt: 0 8 crypt aes-xts-plain64 {key} 0 8:33 4096\n"
        f"i: 0 8 integrity 8:49 0 32 J 1 journal_mac:hmac(sha256):{key}\n"
        "vg-a: 0 8 linear 8:17 0\nvg-a: 8 8 striped 2 128 8:17 0 8:33 0\nempty: \n"
        "m1: 0 8 multipath 1 queue_if_no_path 1 alua 1 1 service-time 0 1 2 8:16 1 1\n"
        "m2: 0 8 multipath 0 0 1 1 queue_if_no_path 0 1 2 8:16 1 1\n"
        "odd: 0 8 pondering 1 2\nm3: 0 8 multipath\n"
    )
    found = target_types.query_target_types(root, 5.0)
    assert root.lines == [("dmsetup", "table")]
    text = json.dumps(target_types.to_json(found))
    assert key not in text
    assert target_types.from_json(text) == found
    assert found.targets["vg-a"] == ("linear", "striped")
    assert found.queueing == {"m1": True, "m2": False, "m3": False}
    assert "odd" not in found.targets
    assert target_types.parse_tables("No devices found\n").targets == {}
    with pytest.raises(ParseError, match="expected '<name>: <start>"):
        target_types.parse_tables("Command failed.\n")


def test_no_form_of_dmsetup_writes_the_metadata_of_a_pool() -> None:
    """Each 'status' on the list has '--noflush' and names its devices; there is no 'ls'."""
    forms = allowed.PROGRAMS["dmsetup"].forms + allowed.PROGRAMS["dmsetup"].inner
    for form in forms:
        words = [part.alternatives for part in form]
        if words[0] == ("status",):
            assert words[1:] == [("--noflush",), ("--target <dm_target>",), ("<dm_name>",)]
        else:
            assert words[0] == ("table",)
    assert "lvs" not in allowed.PROGRAMS
    for target in WATCHED:
        assert allowed.match(("dmsetup", "status", "--noflush", "--target", target, "x"))


def test_a_thin_volume_names_its_pool(machine: MachineMaker) -> None:
    """By the device below it: the pool's table does not list its volumes."""
    root = machine(
        devices("vg-pool-tpool", "vg-a", "vg-b")
        | types({"vg-a": ["thin"], "vg-b": ["thin"]})
        | {
            "/sys/block/dm-1/slaves/dm-0/x": "",
            command("thin", "vg-a", "vg-b"): answer("vg-a: 0 8 thin 512 9", "vg-b: 0 8 thin 2 9"),
        }
    )
    found = read_mapped_targets(root)
    assert [(each.name, each.pool) for each in found] == [("vg-a", "vg-pool-tpool"), ("vg-b", "")]
    labels = (("device", "dm-1"), ("name", "vg-a"), ("pool", "vg-pool-tpool"))
    assert ("iowarden_dm_thin_mapped_bytes", labels, 512 * 512.0) in emit(found)


def test_the_grammar_is_imported_only_on_a_machine_that_has_such_a_device() -> None:
    """Neither by the list of collectors nor by the probe's verbs and metrics."""
    program = (
        "import sys; from iowarden.collectors import registry;"
        "from iowarden.daemon.probe import owners;"
        "from iowarden.daemon.probe_client import metrics;"
        "print(*sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    room = "iowarden.collectors.device_mapper"
    assert {name for name in run.stdout.split() if name.startswith(room)} == {
        room,
        f"{room}.mapped_targets",
    }
