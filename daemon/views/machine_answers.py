"""The machine for the status page: storage tree, devices, arrays, data sources, rules. Pure."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from iowarden.collectors.raid.controller import ComponentHealth
from iowarden.daemon.control import page_documents as pages
from iowarden.daemon.views import answers, storage_tree
from iowarden.rules.alerting.alerts import AlertState

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from iowarden.collectors.md.mdstat import MdArray
    from iowarden.collectors.raid.controller import ComponentState, Controller
    from iowarden.daemon.views.answers import ViewInputs
    from iowarden.rules.engine.engine import Engine
    from iowarden.rules.engine.sample_hub import SampleHub

MAX_NODES = 600
QUEUED = "iowarden_writeback_queued_bytes"
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
    tree = storage_tree.storage(known)
    controllers = engine.last.controllers
    return pages.Machine(
        tree=tree.nodes[:MAX_NODES],
        omitted=tree.omitted + max(len(tree.nodes) - MAX_NODES, 0),
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
