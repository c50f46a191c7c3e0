"""Slow and healthy disks of a real kernel, for hours: `python tests/vm/record_slow.py [NAME ...]`.

A guest whose disks exist in its kernel only (null_blk) and whose processor counts instructions as
time (QEMU, -icount sleep=off): while nothing runs no time passes, so an hour takes minutes, and a
run gives the same again. Its counters, once a second, go through the signal of slow disks; what
that names, and when, is printed. Each case is judged by what the rule promises for its figures.
Samples stay in build/slow: what is there is only judged again. Pieces of them are the fixtures of
tests/rules/signals/test_slow_recordings.py.
*Limits:* the time of a request does not depend on its place or size; no real adapter; no cache of a
disk, so no flush.
"""

from __future__ import annotations

import argparse
import io
import lzma
import random
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from harness import HERE, KERNEL_OPTIONS, REPOSITORY, image

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    Disks = Mapping[str, tuple[int, ...]]

sys.path.insert(0, str(REPOSITORY / "tests"))

from support.slow_disks import Array, Second, SlowMachine, drive, machine, seconds_of

from iowarden.rules.signals.device import slow

MODULES = ("configfs", "crc32c_generic", "null_blk", "dm-mod", "raid1", "raid10", "raid456")
LIBRARIES = ("ld-linux-x86-64.so.2", "libc.so.6", "libcap.so.2", "libdevmapper.so.1.02.1")
LIBRARIES += ("libm.so.6", "libpcre2-8.so.0", "libselinux.so.1", "libudev.so.1")
"""What dmsetup needs."""
PROGRAMS = {"./usr/bin/busybox": "bin/busybox", "./usr/sbin/dmsetup": "usr/sbin/dmsetup"}
PROGRAMS |= {f"./usr/lib/x86_64-linux-gnu/{name}": f"lib64/{name}" for name in LIBRARIES}
OUTPUTS = REPOSITORY / "build" / "slow"
FIXTURES = REPOSITORY / "tests" / "fixtures" / "slow-disks"
USUAL_US = 8000
"""A request of a healthy rotating disk."""
BUSY_US = 24_000
"""Of one with four programs, each at another place."""
LEARNED, SICK, REST = 60, 330, 20
"""Seconds of a case before the fault (a disk is not judged in its first 30 s), with it, after."""


class Level(NamedTuple):
    """An array of the matrix; `layout`: left-symmetric, two near copies."""

    name: str
    layout: int
    members: tuple[str, ...]


LEVELS = (
    Level("raid1", 0, ("sda", "sdb")),
    Level("raid5", 2, ("sda", "sdb", "sdc", "sdd", "sde")),
    Level("raid10", 258, ("sda", "sdb", "sdc", "sdd")),
)
RAID1, RAID5, RAID10 = LEVELS
SINGLE = Level("single", 0, ("sda", "sdb", "sdc", "sdd"))
LOADS = (
    ("random /dev/md0 {} 8 250 60 4 8",),
    ("random /dev/md0 {} 6 250 50 4", "stream /dev/md0 {} 1 150 100 32"),
    ("random /dev/md0 {} 5 250 70 4 8", "commit /dev/md0 {} 1 150 0 4"),
)
"""By the seed: a database, one with a backup, one with a log. `{}`: the seed."""
FAULTS = {"x3": 3 * USUAL_US, "x10": 10 * USUAL_US}
FAULTS |= {f"+{ms} ms": USUAL_US + ms * 1000 for ms in (20, 50, 200)}
DEPTHS = {"throttle": 1, "delay": 32}
"""A disk that does one request after the other, and one that does many at a time, each late."""


class Run(NamedTuple):
    """What a guest does: a part of its init, with the devices that are compared."""

    script: str
    members: tuple[str, ...]
    level: str
    rotating: bool = True


def matrix(level: Level, how: str, seed: int) -> Run:
    """One array; one of its members becomes slow and well again, for each fault."""
    choose = random.Random(f"{level.name} {how} {seed}")
    depth, members = DEPTHS[how], level.members
    lines = [f"disk {name} {USUAL_US} {depth}; member {name}" for name in members]
    places = " ".join(f"/dev/mapper/{name}" for name in members)
    lines += [f"array {level.name} {level.layout} {places}"]
    lines += [f"slow_load {load.format(seed)} &" for load in LOADS[seed % len(LOADS)]]
    for number, (fault, microseconds) in enumerate(FAULTS.items()):
        name = choose.choice(members)
        spare = f"{name}-{number}"
        lines += [f"disk {spare} {microseconds} {depth}; sleep {LEARNED}"]
        lines += [f"mark sick {name} {fault}; become {name} {spare}; sleep {SICK}"]
        lines += [f"mark well; become {name} {name}; sleep {REST}"]
    return Run("\n".join(lines), members, level.name)


def siblings(seed: int) -> Run:
    """Three disks at one adapter with the same job; after half an hour one is ten times slower."""
    members = ("sda", "sdb", "sdc")
    name = random.Random(seed).choice(members)
    lines = [f"disk {each} {BUSY_US} 1; member {each}" for each in members]
    for number, each in enumerate(members):
        lines += [f"slow_load random /dev/mapper/{each} {seed + number} 4 0 70 8 16 &"]
    lines += [f"disk {name}-0 {10 * BUSY_US} 1; sleep 1800"]
    lines += [f"mark sick {name} x10; become {name} {name}-0; sleep 480"]
    return Run("\n".join(lines), members, SINGLE.name)


def healthy(
    level: Level, script: str, *, microseconds: int = USUAL_US, rotating: bool = True
) -> Run:
    """Return an array, or single disks, in which nothing is slow."""
    solid, depth = ("", 1) if rotating else ("SSD=1 ", 32)
    lines = [f"{solid}disk {name} {microseconds} {depth}" for name in level.members]
    if level != SINGLE:
        places = " ".join(f"/dev/{name}" for name in level.members)
        lines += [f"array {level.name} {level.layout} {places}"]
    return Run("\n".join([*lines, script]), level.members, level.name, rotating)


DATABASE = "slow_load random /dev/md0 7 6 250 60 4 8 &"
CHECK = f"""{DATABASE}
echo {{}} > /sys/block/md0/md/sync_speed_max
for round in 1 2 3 4; do
    sleep 300; mark check; echo check > /sys/block/md0/md/sync_action
    while ! grep -q idle /sys/block/md0/md/sync_action; do sleep 5; done
done; sleep 300"""
"""Four checks of an array under load; `{}`: KiB/s."""
BESIDE = f"""{DATABASE}
for round in 1 2 3 4; do
    sleep 150; mark load; {{}} & own=$!; sleep 750; kill $own; mark calm
done"""
"""A quarter of an hour of something else on one member, four times."""
HEALTHY = {
    "check of raid5": healthy(RAID5, CHECK.format(1500)),
    "check of raid10": healthy(RAID10, CHECK.format(3000)),
    "check of raid1": healthy(RAID1, CHECK.format(3000)),
    "backup of a member of raid5": healthy(
        RAID5, BESIDE.format("slow_load stream /dev/sdc 3 4 0 100 128")
    ),
    "backup of a member of raid10": healthy(
        RAID10, BESIDE.format("slow_load stream /dev/sdb 3 1 0 100 256")
    ),
    "backup of a member of raid1": healthy(
        RAID1, BESIDE.format("slow_load stream /dev/sdb 3 1 20 100 128")
    ),
    "ten times the load on a member of raid5": healthy(
        RAID5, BESIDE.format("slow_load random /dev/sdd 3 4 50 60 4 16")
    ),
    "ten times the load on a member of raid10": healthy(
        RAID10, BESIDE.format("slow_load random /dev/sda 3 6 5 50 4 16")
    ),
    "log on a member of raid5": healthy(
        RAID5, BESIDE.format("slow_load commit /dev/sda 3 2 15 0 4 8")
    ),
    "log on a member of raid1": healthy(
        RAID1, BESIDE.format("slow_load commit /dev/sda 3 2 15 0 4 8")
    ),
    "self-test of a member of raid5": Run(
        "\n".join(
            [
                *(f"disk {name} {USUAL_US} 1; member {name}" for name in RAID5.members),
                f"disk sdb-tested {USUAL_US * 3 // 2} 1",
                "array raid5 2 " + " ".join(f"/dev/mapper/{name}" for name in RAID5.members),
                DATABASE,
                "for round in 1 2; do\n    sleep 900; become sdb sdb-tested",
                "    sleep 900; become sdb sdb\ndone",
            ]
        ),
        RAID5.members,
        RAID5.name,
    ),
    "reads of a mirror": healthy(
        RAID1,
        f"{DATABASE}\nslow_load stream /dev/md0 5 2 30 100 128 &\n"
        "slow_load random /dev/md0 9 2 100 100 4 &\nsleep 5400",
    ),
    "few and long requests": healthy(
        RAID5, "slow_load random /dev/md0 5 8 300 60 4 64 &\nsleep 7200", microseconds=600_000
    ),
    "a load that comes and goes": healthy(
        RAID5,
        "for round in 1 2 3 4 5 6; do\n"
        "    slow_load random /dev/md0 $round 24 100 60 4 64 & own=$!\n"
        "    sleep 300; kill $own; sleep 300\ndone",
    ),
    "written back by the kernel": healthy(
        RAID5,
        "slow_load buffered /dev/md0 4 2 60 20 4 &\n"
        "slow_load commit /dev/md0 5 1 400 0 8 &\nsleep 3600",
    ),
    "a random reader beside sequential ones": healthy(
        SINGLE,
        "\n".join(f"slow_load stream /dev/sd{each} 4 1 60 100 128 &" for each in "bcd")
        + "\nsleep 2700\nslow_load random /dev/sda 5 4 30 100 4 8 &\nsleep 2700",
    ),
    "a log beside sequential ones": healthy(
        SINGLE,
        "\n".join(f"slow_load stream /dev/sd{each} 4 1 60 20 128 &" for each in "bcd")
        + "\nsleep 2700\nslow_load commit /dev/sda 5 3 10 0 4 &\nsleep 2700",
    ),
    "trim of a mirror of SSDs": healthy(
        RAID1,
        f"{DATABASE}\nfor round in 1 2 3 4 5 6; do sleep 300; mark trim\n"
        "    for at in $(seq 0 63); do blkdiscard -o $((at * 16777216)) -l 16777216 /dev/md0;"
        " sleep 1; done\ndone",
        microseconds=500,
        rotating=False,
    ),
}
SEEDS = range(3)
MATRIX = {
    f"{level.name} {how} {seed}": matrix(level, how, seed)
    for level in LEVELS
    for how in DEPTHS
    for seed in SEEDS
}
SIBLINGS = {f"siblings {seed}": siblings(seed) for seed in SEEDS}
RUNS = MATRIX | SIBLINGS | HEALTHY
SEVERITIES = ("notice", "warning")
DUE_SECONDS, SEVERE_SECONDS = 310, 60
"""Siblings need 30 slow windows of ten seconds; a fault begins within one."""
MAX_LOAD = 1.25
MARGIN = 1.05
"""Closer to a threshold than this, either outcome is right."""
PIECES = {
    "severe": ("raid5 throttle 0", "x10", 120),
    "late": ("raid5 delay 0", "x10", 120),
    "check": ("check of raid5", "check", 300),
    "backup": ("backup of a member of raid5", "load", 300),
}
"""Fixtures: the run, the end of a mark, and the seconds from there; LEARNED before it."""


class Outcome(NamedTuple):
    """What came of a fault: how slow the disk was, and seconds until it was named."""

    fault: str
    disk: str
    ratio: float
    excess: float
    load: float
    """Its requests or bytes over the others' lower median."""
    notice: float | None
    warning: float | None
    also: frozenset[str]
    """Other disks that were named, or this one before the fault."""


def merged(run: Run, seconds: Iterable[Second]) -> Iterator[Second]:
    """Yield the seconds with each member's counters, those of its spares 'NAME-...' added."""
    for each in seconds:
        own = {
            name: [c for n, c in each.disks.items() if n.partition("-")[0] == name]
            for name in run.members
        }
        if all(own.values()):  # else the disks are still made
            sums = {name: tuple(map(sum, zip(*rows, strict=True))) for name, rows in own.items()}
            yield each._replace(disks=sums)


def signal(run: Run) -> SlowMachine:
    """Return the signal without a past; the disks have serial numbers and one adapter."""
    disks = [drive(name, rotational=run.rotating) for name in run.members]
    arrays = [] if run.level == SINGLE.name else [Array(run.level, run.members)]
    return SlowMachine(machine(disks, *arrays))


def outcomes(run: Run, seconds: Iterable[Second]) -> Iterator[Outcome]:
    """Yield what came of each fault; each is judged without a past but the seconds before it."""
    known: list[Second] = []
    sick: list[str] = []
    began = 0
    for each in merged(run, seconds):
        for mark in each.marks:
            word, *rest = mark.split()
            if word == "sick":
                sick, began = rest, len(known)
            elif sick:
                yield outcome(run, known, began, sick)
                known, sick = [], []
        known.append(each)


def outcome(run: Run, seconds: list[Second], began: int, sick: list[str]) -> Outcome:
    """Return what came of a fault that began at an index."""
    own, name = signal(run), sick[0]
    first: dict[str, float] = {}
    also: set[str] = set()
    for number, each in enumerate(seconds):
        own.take(each.disks)
        for severity in SEVERITIES:
            named = own.named(severity)
            if number >= began and name in named:
                first.setdefault(severity, float(number - began))
                named.discard(name)
            also |= named
    figures = slowness(run, seconds[began].disks, seconds[-1].disks, name)
    times = first.get("notice"), first.get("warning")
    return Outcome(" ".join(sick[1:]), name, *figures, *times, frozenset(also))


def slowness(run: Run, first: Disks, last: Disks, name: str) -> tuple[float, float, float]:
    """Return the ratio and the excess (seconds) of a disk over its peers, and that of its load."""
    done = {
        each: [after - before for before, after in zip(first[each], last[each], strict=True)]
        for each in run.members
    }
    found = [(0.0, 0.0)]
    for at in (4,) if run.level == RAID1.name else (0, 4):  # reads, writes
        times = {each: own[at + 3] / 1000 / own[at] for each, own in done.items() if own[at]}
        if name in times and len(times) > 1:
            m = others(times, name)
            found.append((times[name] / max(m, 0.001), times[name] - m))
    counts = {each: own[0] + own[4] for each, own in done.items()}
    sectors = {each: own[2] + own[6] for each, own in done.items()}
    load = max(own[name] / others(own, name) for own in (counts, sectors))
    return *max(found), load


def others(values: Mapping[str, float], name: str) -> float:
    """Return the lower median without a disk's own value."""
    rest = sorted(value for each, value in values.items() if each != name)
    return rest[(len(rest) - 1) // 2]


def promised(run: Run, found: Outcome) -> tuple[bool, bool]:
    """Return whether a notice within 5 min and a warning within 60 s is due for such figures.

    Figures next to a threshold promise nothing, nor does a disk that does more than its peers: md
    reads from the first of two copies as long as that is idle. Siblings and mirrors have no severe
    form.
    """
    if found.load > MAX_LOAD:
        return False, False
    ratio, excess = (5.0, 0.050) if run.level == RAID1.name else (3.0, 0.020)
    due = found.ratio >= MARGIN * ratio and found.excess >= MARGIN * excess
    severe = found.ratio >= MARGIN * 10 and found.excess >= MARGIN * 0.100
    return due, severe and run.level in {RAID5.name, RAID10.name}


def play(script: str, output: Path) -> None:
    """Run a guest; its samples go to a file, what it prints beside it."""
    with tempfile.TemporaryDirectory(prefix="iowarden-slow-") as directory:
        initrd = Path(directory, "initrd")
        initrd.write_bytes(archive_of(script, directory))
        line = ["qemu-system-x86_64", "-accel", "tcg,thread=single"]
        line += ["-icount", "shift=2,sleep=off", "-machine", "q35", "-cpu", "max", "-smp", "1"]
        line += ["-m", "2048", "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"]
        line += ["-kernel", str(image().parent / "vmlinux"), "-initrd", str(initrd)]
        line += ["-append", KERNEL_OPTIONS.replace("root=/dev/vda rw", "rdinit=/init")]
        line += ["-chardev", f"file,id=console,path={output}.console"]
        line += ["-serial", "chardev:console", "-device", "virtio-serial-pci"]
        line += ["-chardev", f"file,id=output,path={output}"]
        line += ["-device", "virtserialport,chardev=output,name=output"]
        subprocess.run(line, check=True, stdin=subprocess.DEVNULL)


def archive_of(script: str, directory: str) -> bytes:
    """Return the guest's file system: its own programs, the kernel's modules, what it does."""
    program = Path(directory, "slow_load")
    source = str(HERE / "slow_load.c")
    subprocess.run(["gcc", "-O2", "-static", "-o", str(program), source, "-lm"], check=True)
    files = {"init": (HERE / "slow_guest.sh").read_bytes(), "scenario": script.encode()}
    files["bin/slow_load"] = program.read_bytes()
    with tarfile.open(image().parent / "root.tar") as root:
        members = {member.name: member for member in root}

        def content(path: str) -> bytes:
            file = root.extractfile(members[path])
            return b"" if file is None else file.read()

        for path, name in PROGRAMS.items():
            files[name] = content(path)
        index = next(path for path in members if path.endswith("/modules.dep"))
        needs = dict(line.split(":") for line in content(index).decode().splitlines())
        paths = {Path(path).stem: path for path in needs}
        ordered: dict[str, None] = {}
        for module in MODULES:
            own = paths[module]
            ordered |= dict.fromkeys([*reversed(needs[own].split()), own])
        for number, path in enumerate(ordered):
            name = f"modules/{number:02}/{Path(path).name}"
            files[name] = content(index.removesuffix("modules.dep") + path)
    return cpio(files)


def cpio(files: Mapping[str, bytes]) -> bytes:
    """Return an archive for the kernel. Source: kernel, early-userspace/buffer-format.rst."""
    parents = {str(parent) for name in files for parent in Path(name).parents} - {"."}
    entries = [(name, 0o40755, b"") for name in sorted(parents)]
    entries += [(name, 0o100755, data) for name, data in files.items()]
    with io.BytesIO() as stream:
        for number, (name, mode, data) in enumerate([*entries, ("TRAILER!!!", 0, b"")]):
            fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
            header = "070701" + "".join(f"{each:08x}" for each in fields) + name + "\0"
            for part in (header.encode(), data):
                stream.write(part + b"\0" * (-len(part) % 4))
        return stream.getvalue()


def healthy_outcome(run: Run, seconds: Iterable[Second]) -> tuple[int, float, list[str]]:
    """Return the seconds, the highest points of a disk, and all alerts; none is expected."""
    own, points, named, count = signal(run), 0.0, set[str](), 0
    for each in merged(run, seconds):
        own.take(each.disks)
        count += 1
        points = max(points, *own.values(slow.POINTS).values(), 0.0)
        named |= {f"{severity} {n}" for severity in SEVERITIES for n in own.named(severity)}
    return count, points, sorted(named)


def piece(name: str) -> None:
    """Write a fixture: a few minutes of a run, with the counters of its members."""
    source, text, seconds = PIECES[name]
    run = RUNS[source]
    with output_of(source).open() as lines:
        found = list(merged(run, seconds_of(lines)))
    at = next(n for n, each in enumerate(found) if any(m.endswith(text) for m in each.marks))
    with lzma.open(FIXTURES / f"{name}.xz", "wt", preset=9) as file:
        for each in found[at - LEARNED : at + seconds]:
            file.writelines(f"# {mark}\n" for mark in each.marks)
            file.write(f"{each.seconds}\n")
            for member, counters in each.disks.items():
                file.write(f"8 0 {member} {' '.join(map(str, counters))}\n")


def output_of(name: str) -> Path:
    """Return where the samples of a run are."""
    return OUTPUTS / name.replace(" ", "-")


def main() -> int:
    """Run what is named on the command line, or all, and print what came of it."""
    parser = argparse.ArgumentParser(description="Slow and healthy disks of a real kernel.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="a part of the name of a run")
    parser.add_argument("--fixtures", action="store_true", help="write the fixtures, too")
    arguments = parser.parse_args()
    OUTPUTS.mkdir(parents=True, exist_ok=True)
    wrong = 0
    for name, run in RUNS.items():
        if arguments.names and not any(each in name for each in arguments.names):
            continue
        output = output_of(name)
        if not output.exists():
            play(run.script, output.with_suffix(".part"))
            output.with_suffix(".part").rename(output)
        with output.open() as lines:
            wrong += report(name, run, seconds_of(lines))
    print(f"{wrong} wrong")
    if arguments.fixtures:
        for name in PIECES:
            piece(name)
    return int(wrong > 0)


def report(name: str, run: Run, seconds: Iterable[Second]) -> int:
    """Print what came of a run; return how much of it was wrong."""
    if name in HEALTHY:
        count, points, named = healthy_outcome(run, seconds)
        text = ", ".join(named) or "silent"
        print(f"{name}; {count / 3600:.1f} h; at most {points:.0f} points; {text}", flush=True)
        return int(bool(named))
    wrong = 0
    for found in outcomes(run, seconds):
        due, severe = promised(run, found)
        missed = due and (found.notice is None or found.notice > DUE_SECONDS)
        missed |= severe and (found.warning is None or found.warning > SEVERE_SECONDS)
        wrong += bool(missed or found.also)
        promise = "severe" if severe else "due" if due else "not promised"
        print(
            f"{name}; {found.fault}; {found.disk}; {found.ratio:.1f} times;"
            f" {found.excess * 1000:.0f} ms more, load {found.load:.2f}; {promise};"
            f" notice after {found.notice} s, warning after {found.warning} s;"
            f" {'MISSED' if missed else 'right'} {' '.join(sorted(found.also))}",
            flush=True,
        )
    return wrong


if __name__ == "__main__":
    sys.exit(main())
