"""Plays a story of the world through the whole product: as files of a machine, and replays them.

The only module that knows both. The judge knows what was done, and nothing of how iowarden
concludes: titles, mails on a healthy host, advice, all-clears.
"""

from __future__ import annotations

import dataclasses
import re
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from support.storage_incidents import FakeMachine
from support.world import texts
from support.world.machine import Layer
from support.world.mails import INTERVALS
from support.world.texts import FOREVER

from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.rule_files import load_shipped
from iowarden.daemon.replay import replay

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from support.world.machine import Machine, Node
    from support.world.texts import Act, Story

    from iowarden.collectors.recording.recording import RecordingStep
    from iowarden.daemon.config.schema import Config
    from iowarden.rules.rulefile.rulefile import RuleGroup

FINE_SECONDS = 3.0
"""Around an act each second is played, else each fourth."""
BTRFS = "/sys/fs/btrfs/0ba3b9a7-1d4c-4f2a-9f2b-9d1f6d1f0a5"
COUNTS = ("write_errs", "read_errs", "flush_errs", "corruption_errs", "generation_errs")
MOST_MAILS = 8 + 6
"""An hour, of one fault, without the good news: eight of lesser news, one for each worse kind."""
NOTICED_SECONDS, CLEAR_SECONDS, LOOK_SECONDS = 16.0, 77.0, 5.0
"""A disk that stands for so long is reported; its end is so long after it; played steps."""
DESTROYS = re.compile(
    r"--fail|--remove|--zero-superblock|--create|\bmkfs|wipefs|replace start|device delete"
    r"|device remove|\bdd if="
)
GOOD = ("OK", "INFO")


@dataclass(frozen=True)
class Miss:
    """What a mail, or its absence, got wrong."""

    what: str
    detail: str


@dataclass(frozen=True)
class Played:
    """The mails of a story, as their receiver sees them."""

    story: Story
    mails: Sequence[replay.ReplayedMail]

    @property
    def group(self) -> str:
        """Return its class: kind and layer of what was injected."""
        return f"{self.story.what} / {self.story.layer}" if self.story.layer else self.story.what


class Stepped:
    """A machine's steps as a recording that is read step by step."""

    def __init__(self, steps: Sequence[RecordingStep]) -> None:
        self.page_size_bytes, self.note = 4096, ""
        self._steps = iter(steps)

    def next(self) -> RecordingStep | None:
        """Return the next step; None at the end."""
        return next(self._steps, None)


class TextMachine(FakeMachine):
    """The files of a machine of the world."""

    def __init__(self, directory: Path, machine: Machine) -> None:
        """Write all files of the healthy machine."""
        super().__init__(directory)
        self.world = machine
        self.uevents: dict[int, list[str]] = {}
        self._btrfs: dict[str, str] = {}
        order = sorted(machine.nodes.values(), key=lambda node: node.layer)
        for node in machine.nodes.values():
            if node.layer is Layer.ADAPTER:
                self._add_adapter(node)
        for node in order:
            if node.layer in (Layer.DISK, Layer.PATH):
                self._add_disk(node)
        for node in order:
            if node.layer in (Layer.VOLUME, Layer.ARRAY, Layer.MAPPED):
                self._add_volume(node)
        for node in order:
            if node.layer is Layer.FILE_SYSTEM:
                self._add_mount(node)
        self.restarted()

    def _add_adapter(self, node: Node) -> None:
        drivers = {"hba": "mpt3sas", "ahci port": "ahci", "iscsi": "iscsi_tcp"}
        if node.role not in drivers:
            return
        number = int(node.name.removeprefix("host"))
        self.adapter(number, drivers[node.role])
        if node.role == "ahci port":
            self._later({f"/sys/class/ata_port/ata{number + 1}/device/host{number}": None})
        if node.role == "iscsi":
            self._later({f"/sys/class/iscsi_host/host{number}/device/session{number}": None})

    def _add_disk(self, node: Node) -> None:
        if node.role == "nvme":
            self.disk(node.name, rotational=False, model="SSD 9", serial=f"N-{node.name}")
            return
        if node.role == "virtual":
            self.disk(node.name, vendor="", model="", serial="")
            return
        story = texts.Story(0, self.world, Random(0))
        address = story.address(node.name)
        if node.layer is Layer.PATH:
            maps = self.world.direct(node.name)
            self.disk(
                node.name,
                address,
                serial=f"LUN-{maps[0]}",
                vendor="LIO-ORG",
                model="LUN",
                parts=False,
            )
            return
        more = {"vendor": "SEAGATE", "model": "ST12000NM"} if node.role == "sas" else {}
        self.disk(node.name, address, **more)  # type: ignore[arg-type]  # as disk takes them
        if self.world.nodes[node.carriers[0]].role == "expander":
            host, _, target, _ = address.split(":")
            end = f"/sys/class/sas_end_device/end_device-{host}:0:{target}/device"
            self._later(
                {
                    f"{end}/target{address.rpartition(':')[0]}": None,
                    f"/sys/class/sas_device/expander-{host}:0/sas_address": "0x500304801e9a7c3f\n",
                }
            )

    def _add_volume(self, node: Node) -> None:
        if node.role == "map":
            self.volume(
                self.block_name(node.name), node.name, f"mpath-36001{node.name}", *node.carriers
            )
        elif node.role == "lv":
            self.volume(node.name, f"vg-{node.name[3:]}", f"LVM-{node.name}", self.device_of(node))
        else:
            self.array(node.name, node.role, *map(texts.part, node.carriers))

    def _add_mount(self, node: Node) -> None:
        self.mount(node.name, self.device_of(node), node.role)
        if node.role == "btrfs":
            base = self._btrfs[node.name] = f"{BTRFS}{len(self._btrfs)}"
            for number, name in enumerate(node.carriers, 1):
                self._later(
                    {
                        f"{base}/devinfo/{number}/missing": "0\n",
                        f"{base}/devinfo/{number}/error_stats": _counts({}),
                        f"{base}/devices/{texts.part(name)}": None,
                    }
                )

    def block_name(self, name: str) -> str:
        """Return the kernel's name of an object: of a map 'dm-0'."""
        numbers = texts.device_numbers(self.world)
        if self.world.nodes[name].role in {"map", "lv"}:
            return f"dm-{numbers[name].partition(':')[2]}"
        return name

    def device_of(self, node: Node) -> str:
        """Return the device that a file system or volume is on."""
        below = self.world.nodes[node.carriers[0]]
        return texts.part(below.name) if below.layer is Layer.DISK else self.block_name(below.name)

    def recorded(self) -> list[RecordingStep]:
        """Return the steps since the start of the service, with what udev announced."""
        steps = [
            dataclasses.replace(step, uevents="".join(self.uevents.get(number, ())))
            for number, step in enumerate(self.steps)
        ]
        self.uevents.clear()
        return steps

    # What happens

    def do(self, act: Act) -> None:
        """Let an act happen, within a second."""
        match act:
            case texts.Says():
                self._say(act.lines)
            case texts.Stands():
                self.stands(*(n for n in self._named(act.names) if n in self._done))
            case texts.GoesOn():
                self.goes_on(*self._named(act.names))
            case texts.Leaves():
                self.uevents[len(self.steps)] = [f"remove {name} -\n" for name in act.names]
                self._print(act.lines)
                self.loses(*act.names)
            case texts.Offline():
                self.idle(act.name)
                self.state(act.name, "offline")
            case texts.Faulty():
                self.fails(act.array, texts.part(act.disk), lines=False)
            case texts.Breaks():
                self.array_ends(act.array)
                self.idle(act.array)
                self.array_is(act.array)
            case texts.Counts():
                path = f"{self._btrfs[act.mount]}/devinfo/{act.number}/error_stats"
                self.change({path: _counts(dict(act.counts))})
            case texts.ReadOnly():
                pass

    def _named(self, names: Sequence[str]) -> Iterator[str]:
        yield from map(self.block_name, names)

    def _print(self, lines: Sequence[texts.Printed]) -> None:
        """Add lines to the log, to be seen with the next look."""
        for line in lines:
            self._later(self._printed(line.text, priority=line.level))

    def _say(self, lines: Sequence[texts.Printed]) -> None:
        self._print(lines)
        self.change({"/.kmsg": self._files["/.kmsg"]})


def _counts(counts: dict[str, int]) -> str:
    return "".join(f"{name} {counts.get(name, 0)}\n" for name in COUNTS)


@cache
def _product() -> tuple[Config, list[RuleGroup]]:
    settings = parse_config("", "defaults", replay.HOST)
    settings = dataclasses.replace(settings, rules_directory="")
    return settings, load_shipped(settings)


AFTER_SECONDS, AWAY_SECONDS = 240.0, 4.0
"""So long a story goes on after its last act where iowarden is restarted for so long."""


def play(seed: int) -> Played:
    """Play the story of a seed."""
    return _played(texts.random_story(Random(seed), seed))


def play_on(seed: int, *, restart_after_seconds: float | None = None) -> Played:
    """Play the story of a seed for longer, with a restart so long after its last act, or none."""
    story = texts.random_story(Random(seed), seed)
    last = max(when for when, _ in story.acts)
    story.seconds, story.restart = last + AFTER_SECONDS, None
    if restart_after_seconds is not None:
        story.restart = last + restart_after_seconds, AWAY_SECONDS
    return _played(story)


def _played(story: Story) -> Played:
    """Play a story."""
    with tempfile.TemporaryDirectory() as directory:
        machine = TextMachine(Path(directory), story.machine)
    began = machine.uptime()
    parts: list[list[RecordingStep]] = []
    stop, gap = story.restart or (FOREVER, 0.0)
    for when, act in (*story.acts, (story.seconds, None)):
        if when >= stop:
            _wait(machine, began + stop, 4.0)
            parts.append(machine.recorded())
            machine.leap(gap, gap)
            machine.restarted()
            stop = FOREVER
        _wait(machine, began + when - FINE_SECONDS, 4.0)
        _wait(machine, began + when, 1.0)
        if act is not None:
            machine.do(act)
    parts.append(machine.recorded())
    settings, groups = _product()
    recordings: list[Any] = [Stepped(steps) for steps in parts]
    outcome = replay.replay(recordings, settings, groups)
    assert not outcome.problem, outcome.problem
    return Played(story, outcome.mails)


def _wait(machine: TextMachine, until: float, step: float) -> None:
    left = until - machine.uptime()
    if left > 0:
        machine.wait(left, step)


# The judge


@dataclass(frozen=True)
class Title:
    """What the first line of a mail says: the tag, and the object."""

    tag: str
    object: str

    @property
    def name(self) -> str:
        """Return the object without its description."""
        return self.object.partition(" (")[0]


def title(mail: replay.ReplayedMail) -> Title:
    """Return the title of a mail."""
    tag = re.match(r"\[(\w+)\]", mail.subject)
    found = re.search(rf"^[A-Z]+ on {replay.HOST}: (.*(?:\n  .*)*)", mail.text, re.MULTILINE)
    return Title(tag[1] if tag else "", " ".join(found[1].split()) if found else "")


def judge(played: Played) -> list[Miss]:
    """Return what is wrong with the mails of a story."""
    story = played.story
    if not story.right:
        return [Miss("mail on a healthy host", mail.subject) for mail in played.mails]
    misses: list[Miss] = []
    bad = [mail for mail in played.mails if title(mail).tag not in GOOD]
    if not bad and not story.may_be_silent:
        misses.append(Miss("no mail", story.what))
    if len(bad) > MOST_MAILS:
        misses.append(Miss("too many mails", str(len(bad))))
    for number, mail in enumerate(bad):
        right = names_at(story, mail.at_seconds)
        if not set(title(mail).name.split(" and ")) <= right:
            later = " (later mail)" if number else ""
            shown = f"{mail.at_seconds:.0f} {mail.subject}; right: {', '.join(sorted(right))}"
            misses.append(Miss(f"title{later}", shown))
    for mail in played.mails:
        if title(mail).tag == "OK" and mail.at_seconds < story.well_at:
            misses.append(
                Miss("[OK] while it is not well", f"{mail.at_seconds:.0f} {mail.subject}")
            )
        misses += advice(played, mail)
    misses += late_end(story, [mail.at_seconds for mail in bad], played.mails)
    first: dict[str, Miss] = {}
    for miss in misses:
        first.setdefault(miss.what, miss)
    return list(first.values())


def late_end(
    story: Story, bad: Sequence[float], mails: Sequence[replay.ReplayedMail]
) -> Iterator[Miss]:
    """Yield the end of a stand that was mailed, of which no [OK] came in time.

    After a restart the quiet time counts anew; a stand that is hardly long enough may be over.
    """
    stands = [when for when, act in story.acts if isinstance(act, texts.Stands)]
    was_seen = bool(bad and stands) and story.well_at - min(stands) >= NOTICED_SECONDS
    if story.restart or not was_seen:
        return
    interval = INTERVALS[min(len(bad), len(INTERVALS) - 1)]
    limit = max(story.well_at + CLEAR_SECONDS, max(bad) + interval + LOOK_SECONDS)
    clear = [mail.at_seconds for mail in mails if title(mail).tag == "OK"]
    if limit < story.seconds and min(clear, default=FOREVER) > limit:
        yield Miss("no [OK] in time", f"well at {story.well_at:.0f}, until {limit:.0f}: {clear}")


def names_at(story: Story, at: float) -> set[str]:
    """Return the names that the title of a mail may have."""
    objects: set[str] = set()
    for since, right in story.right:
        if since <= at + 2.0:
            objects = set(right) if since <= at - 8.0 else objects | right
    return {name for each in objects for name in spelled(story.machine, each)}


def spelled(machine: Machine, name: str) -> Iterator[str]:
    """Yield what an object of the world may be called in a title."""
    node = machine.nodes[name]
    yield name
    if node.role == "expander":
        host = node.carriers[0]
        yield f"{host}, expander"
        yield f"expander-{host.removeprefix('host')}:0"
    if node.layer is Layer.ARRAY:
        count = len(node.carriers)
        yield from (f"{n} of {count} members of {name}" for n in range(2, count + 1))
    if node.role == "nvme":
        yield name.partition("n1")[0]
    if node.role == "map":
        yield f"dm-{texts.device_numbers(machine)[name].partition(':')[2]}"


def advice(played: Played, mail: replay.ReplayedMail) -> Iterator[Miss]:
    """Yield commands that would destroy the last good copy of something."""
    story = played.story
    lost = {name for name, at in story.lost.items() if at <= mail.at_seconds + 2.0}
    for node in story.machine.nodes.values():
        members = set(node.carriers)
        if not node.spare or node.role == "map" or not members & lost:
            continue
        last = members - lost if len(members & lost) >= node.spare else set()
        for command in mail.text.splitlines():
            if not DESTROYS.search(command):
                continue
            for name in last:
                if re.search(rf"\b{name}(?:p?1)?\b", command):
                    yield Miss("advice destroys the last copy", f"{command.strip()}: {name}")
