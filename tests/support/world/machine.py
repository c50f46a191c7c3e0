"""Random storage machines: a graph of what stands on what.

The world imports nothing of iowarden: it must not share the product's beliefs.
Layers are those of a Linux host, the deepest first; power and expanders have no line of their own.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from random import Random


class Layer(enum.IntEnum):
    """Where an object stands; a lower number carries a higher one."""

    POWER = 0
    ADAPTER = 1
    PATH = 2
    DISK = 3
    VOLUME = 4
    ARRAY = 5
    MAPPED = 6
    FILE_SYSTEM = 7
    NETWORK = 8
    HOST = 9


@dataclass(frozen=True)
class Node:
    """An object of the machine.

    Fields: `carriers` is what carries it directly; `spare` is how many of these it can lose,
    `paired`: of a raid10, neighbours hold the same data; `visible`: the kernel or a RAID tool shows
    it under a name; `idle` are the carriers, the last ones, that take the place of a member that
    is lost, and are in sync after `rebuild_seconds`.
    """

    name: str
    layer: Layer
    role: str
    carriers: tuple[str, ...] = ()
    spare: int = 0
    paired: bool = False
    visible: bool = True
    idle: tuple[str, ...] = ()
    rebuild_seconds: float = 0.0

    @property
    def places(self) -> tuple[str, ...]:
        """Return the carriers that held its data at first."""
        return self.carriers[: len(self.carriers) - len(self.idle)]


@dataclass
class Machine:
    """The graph of one host."""

    nodes: dict[str, Node] = field(default_factory=dict)
    _carried: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def add(self, node: Node) -> str:
        """Add an object on top of others that are there already; return its name."""
        self.nodes[node.name] = node
        self._carried.clear()
        return node.name

    def of_role(self, *roles: str) -> list[str]:
        """Return the names of the objects with one of these roles."""
        return [node.name for node in self.nodes.values() if node.role in roles]

    def direct(self, name: str) -> list[str]:
        """Return what stands directly on an object."""
        return [node.name for node in self.nodes.values() if name in node.carriers]

    def carried(self, name: str) -> tuple[str, ...]:
        """Return everything that stands on an object, the nearest first."""
        if name not in self._carried:
            there: dict[str, None] = {}
            for above in self.direct(name):
                there[above] = None
                there.update(dict.fromkeys(self.carried(above)))
            self._carried[name] = tuple(there)
        return self._carried[name]

    def disks_of(self, name: str) -> list[str]:
        """Return the disks that an object carries."""
        return [other for other in self.carried(name) if self.nodes[other].layer is Layer.DISK]

    def below(self, name: str) -> Iterator[str]:
        """Yield everything that carries an object, the nearest first."""
        for carrier in self.nodes[name].carriers:
            yield carrier
            yield from self.below(carrier)

    def nearest_visible(self, name: str) -> str:
        """Return the object itself, else the nearest one on it or below it that has a name."""
        if self.nodes[name].visible:
            return name
        above = [other for other in self.carried(name) if self.nodes[other].visible]
        whole = set(self.disks_of(name))
        parents = [other for other in above if whole <= set(self.disks_of(other))]
        below = [other for other in self.below(name) if self.nodes[other].visible]
        return next(iter((*parents, *below, *above)), name)

    def common_parent(self, disks: Iterable[str]) -> str:
        """Return the nearest visible object that carries all of some disks; '' if none does."""
        wanted = set(disks)
        parents = [
            (len(self.disks_of(node.name)), -len(list(self.below(node.name))), node.name)
            for node in self.nodes.values()
            if node.visible and node.layer < Layer.DISK and wanted <= set(self.disks_of(node.name))
        ]
        return min(parents)[2] if parents and len(wanted) > 1 else ""

    def adapter_of(self, name: str) -> str:
        """Return the SCSI host that a disk, or a volume, hangs off; '' if it has none."""
        there = (self.nodes[other] for other in self.below(name))
        hosts = (node.name for node in there if node.layer is Layer.ADAPTER)
        return next((other for other in hosts if self.nodes[other].role != "expander"), "")


_ARRAYS = (
    ("raid1", 2, 1, False),
    ("raid5", 4, 1, False),
    ("raid6", 6, 2, False),
    ("raid6", 10, 2, False),
    ("raid10", 4, 1, True),
    ("btrfs raid1", 2, 1, False),
)
"""Level, members, how many of them it can certainly lose, whether neighbours are copies."""


def disk_names() -> Iterator[str]:
    """Yield the kernel's names of SCSI disks, in order."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    yield from (f"sd{one}" for one in letters)
    yield from (f"sd{one}{other}" for one in letters for other in letters)


class Builder:
    """Builds one machine."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.machine = Machine()
        self.names = disk_names()
        self.hosts = 0
        self.arrays = 0
        self.mapped = 0
        self.mounts = 0

    def host(self, role: str) -> str:
        """Add a SCSI host adapter."""
        name = f"host{self.hosts}"
        self.hosts += 1
        return self.machine.add(Node(name, Layer.ADAPTER, role))

    def disk(self, role: str, *carriers: str, name: str = "") -> str:
        """Add a disk."""
        return self.machine.add(Node(name or next(self.names), Layer.DISK, role, carriers))

    def attach(self) -> list[str]:
        """Add adapters with disks; return those that the host may use."""
        kind = self.random.choice(("sas", "shelf", "shelf", "sata", "nvme", "raid", "maps"))
        if kind == "sas":
            host = self.host("hba")
            return [self.disk("sas", host) for _ in range(self.random.randint(2, 8))]
        if kind == "shelf":
            return self.shelf()
        if kind == "sata":  # each port is a SCSI host of its own
            count = self.random.randint(2, 6)
            return [self.disk("sata", self.host("ahci port")) for _ in range(count)]
        if kind == "nvme":
            count = sum(node.role == "nvme" for node in self.machine.nodes.values())
            news = range(count, count + self.random.randint(1, 4))
            return [self.disk("nvme", name=f"nvme{number}n1") for number in news]
        return self.controller() if kind == "raid" else self.maps()

    def shelf(self) -> list[str]:
        """Add an HBA with one or two shelves, each with a power supply and an expander."""
        host = self.host("hba")
        disks = []
        for number in range(self.random.choice((1, 1, 2))):
            power = Node(f"{host} power {number}", Layer.POWER, "power", visible=False)
            self.machine.add(power)
            expander = f"{host} expander {number}"
            self.machine.add(Node(expander, Layer.ADAPTER, "expander", (host, power.name)))
            disks += [self.disk("sas", expander) for _ in range(self.random.randint(6, 24))]
        return disks

    def controller(self) -> list[str]:
        """Add a RAID controller with volumes on disks that the kernel does not show."""
        host = self.host("raid controller")
        volumes = []
        for _ in range(self.random.randint(1, 2)):
            name = next(self.names)
            count = self.random.randint(2, 6)
            disks = [
                self.disk("behind", host, name=f"{host} {name} slot {n}") for n in range(count)
            ]
            volumes.append(self.machine.add(Node(name, Layer.VOLUME, "volume", tuple(disks), 1)))
        return volumes

    def maps(self) -> list[str]:
        """Add multipath maps; each path goes over one of two or four sessions."""
        role = self.random.choice(("iscsi", "fc"))
        hosts = [self.host(role) for _ in range(self.random.choice((2, 2, 4)))]
        maps = []
        for number in range(self.random.randint(1, 4)):
            paths = tuple(
                self.machine.add(Node(next(self.names), Layer.PATH, "path", (host,)))
                for host in hosts
            )
            name = f"mpath{self.hosts}{number}"
            maps.append(self.machine.add(Node(name, Layer.VOLUME, "map", paths, len(paths) - 1)))
        return maps

    def stack(self, devices: list[str]) -> None:
        """Build arrays, volumes, file systems and programs on devices."""
        while devices:
            level, count, spare, paired = self.random.choice(_ARRAYS)
            plain = self.machine.nodes[devices[0]].layer is not Layer.DISK
            if plain or len(devices) < count or self.random.random() < 0.2:
                self.file_system(devices.pop(0))
                continue
            members, devices[:count] = tuple(devices[:count]), []
            if level == "btrfs raid1":
                self.file_system(*members, spare=spare)
                continue
            name = f"md{self.arrays}"
            self.arrays += 1
            array = Node(name, Layer.ARRAY, level, members, spare, paired)
            self.file_system(self.machine.add(array))

    def file_system(self, *carriers: str, spare: int = 0) -> None:
        """Build a file system with a program that writes, with or without an LV below."""
        if len(carriers) == 1 and self.random.random() < 0.3:
            lv = Node(f"dm-{self.mapped}", Layer.MAPPED, "lv", carriers)
            self.mapped += 1
            carriers = (self.machine.add(lv),)
        role = "btrfs" if spare else self.random.choice(("ext4", "ext4", "xfs"))
        mount = Node(f"/srv/{self.mounts}", Layer.FILE_SYSTEM, role, carriers, spare)
        self.mounts += 1
        self.machine.add(mount)
        self.machine.add(Node(f"writer {mount.name}", Layer.HOST, "program", (mount.name,)))


def random_machine(random: Random) -> Machine:
    """Return a random host: one to three kinds of attachment, all disks in use."""
    builder = Builder(random)
    for _ in range(random.randint(1, 3)):
        devices = builder.attach()
        random.shuffle(devices)
        builder.stack(devices)
    if random.random() < 0.3:
        server = builder.machine.add(Node("nas1", Layer.NETWORK, "server", visible=False))
        builder.machine.add(Node("/net/data", Layer.NETWORK, "nfs", (server,)))
    return builder.machine
