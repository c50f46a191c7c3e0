"""The machine for the status page: storage tree, devices, arrays, data sources, rules. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.block.block_devices import ZFS
from iowarden.collectors.raid.controller import ComponentHealth
from iowarden.daemon.control import page_documents as pages
from iowarden.daemon.views import answers
from iowarden.rules.alerting.alerts import AlertState
from iowarden.rules.severity import Severity
from iowarden.rules.topology.stack import POOL, DeviceStack

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from iowarden.collectors.block.block_devices import Device, Topology
    from iowarden.collectors.md.mdstat import MdArray
    from iowarden.collectors.raid.controller import ComponentState, Controller
    from iowarden.daemon.views.answers import ViewInputs
    from iowarden.rules.alerting.alerts import Alert
    from iowarden.rules.engine.engine import Engine
    from iowarden.rules.engine.sample_hub import SampleHub

MAX_NODES = 600
MAX_POINTS = 3
"""Mount points that a row names: containers mount a file system a hundred times."""
QUEUED = "iowarden_writeback_queued_bytes"
_LABELS = ("device", "disk", "mountpoint", "array")
_DM = {"LVM": "LVM volume", "CRYPT": "dm-crypt", "mpath": "multipath"}
_BROKEN_MD = frozenset({"broken", "inactive", "clear"})


def machine(known: ViewInputs, course: Sequence[tuple[float, float]] = ()) -> pages.Machine:
    """Return the machine; `course` are times and queued bytes of the last 15 minutes."""
    engine = known.engine
    disks = {
        name: found.disk
        for found in answers.inventory_disks(engine).values()
        for name in (found.device, *found.leaves)
        if name
    }
    tree = _Tree(known, disks)
    tree.grow()
    controllers = engine.last.controllers
    return pages.Machine(
        tree=tuple(_with_below(tree.nodes)[:MAX_NODES]),
        omitted=max(len(tree.nodes) - MAX_NODES, 0),
        devices=tuple(_devices(engine, disks)),
        arrays=(
            *(_md(each) for each in (engine.last.md or {}).values() if not each.is_container),
            *(
                line
                for each in (() if controllers is None else controllers.controllers)
                for line in _controller(each)
            ),
        ),
        problems=()
        if controllers is None
        else tuple(
            f"{p.controller or p.vendor}: {p.reason or 'not polled yet'}"
            for p in controllers.problems
        ),
        sources=tuple(
            pages.SourceState(
                s.source.name,
                "not read yet" if s.reading is None else s.reading.outcome.value,
                None if s.good_seconds is None else known.now - s.good_seconds,
                s.source.period_seconds,
                s.is_silent,
            )
            for s in engine.sources.values()
        ),
        rules=tuple(_groups(engine)),
        writeback=_writeback(engine.hub, course),
    )


def queued_bytes(hub: SampleHub) -> float | None:
    """Return the unwritten data now."""
    return _value(hub, QUEUED)


def _value(hub: SampleHub, metric: str) -> float | None:
    return next((value for _, _, value in hub.last(metric)), None)


def _writeback(hub: SampleHub, course: Sequence[tuple[float, float]]) -> pages.WritebackLine:
    def own(name: str) -> float | None:
        return _value(hub, f"iowarden_writeback_{name}")

    return pages.WritebackLine(
        queued_bytes(hub),
        own("freerun_bytes"),
        own("threshold_bytes"),
        own("bandwidth_bytes_per_second"),
        own("drain_seconds"),
        tuple(course),
    )


def _groups(engine: Engine) -> Iterator[pages.RuleGroupLine]:
    for group in engine.rules.groups():
        states = Counter(a.state for rule in group.rules for a in rule.alerts.values())
        yield pages.RuleGroupLine(
            group.name,
            len(group.rules),
            group.interval_seconds,
            states[AlertState.FIRING],
            states[AlertState.PENDING],
            states[AlertState.UNKNOWN],
            sum(map(engine.rules.is_failing, group.rules)),
        )


# --- arrays


def _md(array: MdArray) -> pages.ArrayLine:
    wanted, missing = array.raid_disks, array.degraded or 0
    broken = array.state in _BROKEN_MD
    idle = array.sync_action in {None, "idle", "frozen"}
    return pages.ArrayLine(
        array.name,
        f"md {array.level or 'array'}",
        array.state or "",
        "failed" if broken else "degraded" if missing else "ok",
        "" if wanted is None else f"{wanted - missing} of {wanted}",
        "" if idle else f"{array.sync_action} {array.sync_wait}".strip(),
        None if idle else array.sync_done_ratio,
        None if idle else array.sync_speed_bytes_per_second,
        array.size_bytes,
    )


def _controller(found: Controller) -> Iterator[pages.ArrayLine]:
    yield _component(found.name, f"controller {found.vendor} {found.model}".strip(), found.state)
    for array in found.arrays:
        name = f"{found.name} {array.name}"
        yield _component(name, f"array {array.level}".strip(), array.state, array.size_bytes)
    for battery in found.batteries:
        yield _component(f"{found.name} {battery.name}", "battery", battery.state)
    for disk in found.disks:
        if disk.state.health not in {ComponentHealth.OK, ComponentHealth.ABSENT}:
            yield _component(f"{found.name} {disk.slot}", f"disk {disk.model}".strip(), disk.state)


def _component(
    name: str, kind: str, state: ComponentState | None, size_bytes: float | None = None
) -> pages.ArrayLine:
    if state is None:
        return pages.ArrayLine(name, kind, size_bytes=size_bytes)
    busy = state.done_ratio is not None
    return pages.ArrayLine(
        name,
        kind,
        state.word or state.health.value,
        state.health.value,
        activity=state.health.value if busy else "",
        done_ratio=state.done_ratio,
        size_bytes=size_bytes,
    )


# --- devices


def _devices(engine: Engine, disks: Mapping[str, str]) -> Iterator[pages.DeviceLine]:
    topology = engine.last.block
    names = () if topology is None else topology.leaves

    def of(metric: str, **labels: str) -> dict[str, float]:
        wanted = labels.items()
        return {
            own.get("device", ""): value
            for _, pairs, value in engine.hub.last(f"iowarden_device_{metric}")
            if wanted <= (own := dict(pairs)).items()
        }

    columns = {
        "read_bytes_per_second": of("read_bytes_per_second"),
        "written_bytes_per_second": of("written_bytes_per_second"),
        "utilization_ratio": of("utilization_ratio"),
        "in_flight": of("requests_in_flight"),
        "read_latency_seconds": of("read_latency_seconds", window="10s"),
        "write_latency_seconds": of("write_latency_seconds", window="10s"),
        "hang_seconds": of("hang_seconds"),
    }
    for name in names:
        values = {column: found.get(name) for column, found in columns.items()}
        yield pages.DeviceLine(name, disks.get(name, ""), **values)


# --- the tree


class _Tree:
    """The rows of the storage tree, from the file systems down."""

    def __init__(self, known: ViewInputs, disks: Mapping[str, str]) -> None:
        engine = known.engine
        self.nodes: list[pages.StorageNode] = []
        self._topology = engine.last.block
        self._mounts = engine.devices.mounts()
        self._disks = disks
        self._about = _by_object(a for a in answers.notices(known) if a.active)
        self._used = self._filesystems(engine, "used_ratio")
        self._sizes = self._filesystems(engine, "size_bytes")
        self._shown: set[str] = set()

    @staticmethod
    def _filesystems(engine: Engine, metric: str) -> dict[str, float]:
        found = engine.hub.last(f"iowarden_filesystem_{metric}")
        return {dict(labels).get("mountpoint", ""): value for _, labels, value in found}

    def grow(self) -> None:
        """Add all rows."""
        topology = self._topology
        if topology is None:
            return
        for points, parts, kind in _tops(topology, DeviceStack(topology, self._mounts)):
            self._top(topology, points, parts, kind)
        carrying = {slave for each in topology.devices.values() for slave in each.slaves}
        for name, device in topology.devices.items():
            stacked = device.slaves and name not in carrying
            if name not in self._shown and (device.leaf or stacked):
                self._device(topology, name, 0)

    def _top(
        self, topology: Topology, points: Sequence[str], parts: Sequence[str], kind: str
    ) -> None:
        more = f" and {len(points) - MAX_POINTS} more" if points[MAX_POINTS:] else ""
        severity, alerts = self._alerts(points)
        self.nodes.append(
            pages.StorageNode(
                ", ".join(points[:MAX_POINTS]) + more,
                kind,
                0,
                next((self._sizes[p] for p in points if p in self._sizes), None),
                next((self._used[p] for p in points if p in self._used), None),
                severity,
                alerts,
            )
        )
        for part in parts:
            whole = topology.whole(part)
            if whole is not None:
                self._device(topology, whole.name, 1, part)

    def _device(self, topology: Topology, name: str, depth: int, part: str = "") -> None:
        device = topology.devices.get(name)
        shown = (device and device.dm_name) or name
        shown = f"{shown} ({part})" if part and part not in {name, shown} else shown
        if device is None or len(self.nodes) > 2 * MAX_NODES:
            self.nodes.append(pages.StorageNode(shown, "", depth))
            return
        disk = self._disks.get(name, "") if device.leaf else ""
        again = name in self._shown and bool(device.slaves)
        severity, alerts = self._alerts((name, *device.partitions, disk, device.dm_name or ""))
        self.nodes.append(
            pages.StorageNode(
                shown,
                _kind(device),
                depth,
                device.size_bytes,
                None,
                severity,
                alerts,
                disk=disk,
                repeated=again,
            )
        )
        self._shown.add(name)
        if not again:
            for slave in device.slaves:
                self._device(topology, slave, depth + 1)

    def _alerts(self, names: Iterable[str]) -> tuple[str, tuple[str, ...]]:
        found = [alert for name in names if name for alert in self._about.get(name, ())]
        worst = max((a.severity for a in found), default=None)
        named = sorted(found, key=lambda a: (-a.severity, a.name))
        shown = () if worst is None or worst < Severity.NOTICE else tuple(a.name for a in named)
        return (worst.name.lower() if worst and shown else "", tuple(dict.fromkeys(shown)))


def _with_below(nodes: Sequence[pages.StorageNode]) -> list[pages.StorageNode]:
    """Return the rows with the worst severity of what each is on."""
    found: list[pages.StorageNode] = []
    worst: dict[int, Severity] = {}
    """By depth: of the rows below the current one, read from the last row up."""
    for node in reversed(nodes):
        deeper = [severity for depth, severity in worst.items() if depth > node.depth]
        below = max(deeper, default=None)
        found.append(replace(node, below=below.name.lower()) if below is not None else node)
        own = [Severity[node.severity.upper()]] if node.severity else []
        same = [worst[node.depth]] if node.depth in worst else []
        worst = {depth: each for depth, each in worst.items() if depth < node.depth}
        if every := [*own, *same, *deeper]:
            worst[node.depth] = max(every)
    return found[::-1]


def _by_object(alerts: Iterable[Alert]) -> dict[str, list[Alert]]:
    """Return the alerts by each name of what they are about."""
    found: dict[str, list[Alert]] = defaultdict(list)
    for alert in alerts:
        for name in {alert.label(each).removeprefix("/dev/") for each in _LABELS} - {""}:
            found[name].append(alert)
    return found


def _tops(
    topology: Topology, stack: DeviceStack
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...], str]]:
    """Yield mount points that have the same devices, those devices, and the kind; then swap."""
    below: dict[str, list[str]] = defaultdict(list)
    kinds: dict[str, str] = {}
    pools: dict[str, list[str]] = defaultdict(list)
    for part, signature in topology.signatures.items():
        if signature.kind == ZFS:
            pools[f"{POOL}{signature.group}"].append(part)
    names = (part for d in topology.devices.values() for part in (d.name, *d.partitions))
    for name in (*names, *pools):
        for mount in stack.mounts(name):
            below[mount.mount_point] += pools.get(name, [name])
            kinds[mount.mount_point] = mount.kind
    same: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for point, parts in below.items():
        same[tuple(dict.fromkeys(parts))].append(point)
    for names_below, points in sorted(same.items(), key=lambda each: min(each[1])):
        yield tuple(sorted(points, key=lambda p: (len(p), p))), names_below, kinds[points[0]]
    for swap in topology.swaps:
        if swap.block:
            yield ("swap",), (topology.kernel_name(swap.path),), "swap"


def _kind(device: Device) -> str:
    if device.md is not None:
        return device.md.level or "md array"
    if device.dm_uuid or device.dm_name:
        return _DM.get((device.dm_uuid or "").partition("-")[0], "device-mapper")
    if device.backing_file:
        return "loop device"
    if not device.leaf:
        return "device"
    if device.name.startswith("nvme"):
        return "NVMe"
    return {True: "rotating", False: "solid state", None: "disk"}[device.rotational]
