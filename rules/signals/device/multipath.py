"""Number of paths of each multipath map, by state.

A path that is lost disappears from '/sys' without a trace, so the highest number of paths is
stored. The SCSI state shows that a path does not work, never that it works: device-mapper stops
using a path whose SCSI state remains 'running'. Whether it uses a path is in 'dmsetup status'
(collectors/device_mapper); where that is not read, its changes are in the kernel's log. NVMe
multipath selects paths by the state of the controller and of the ANA group, which are both read.
Through which controller of the storage array a SCSI path leads, and whether that is the optimized
one (ALUA), is its access state.
Sources: kernel, scsi_sysfs.c (sdev_states, sdev_access_states), dm-mpath.c (fail_path),
nvme/host/sysfs.c (state), nvme/host/multipath.c (ana_state); multipath-tools,
libmultipath/devmapper.h (UUID_PREFIX).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.model import Family, Sample
from iowarden.rules.signals import baseline
from iowarden.rules.topology.stack import path_maps

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from iowarden.collectors.block.block_devices import Device, Topology
    from iowarden.collectors.block.scsi import ScsiTopology
    from iowarden.collectors.model import Labels
    from iowarden.rules.signals.baseline import Remembered
    from iowarden.rules.signals.signal import Pairs, View

FORGOTTEN_SECONDS = 7 * 86_400.0
"""After that a lost path is no longer expected."""
PATHS = "iowarden_multipath_paths"
STATES = ("working", "unknown", "waiting", "failed", "lost")
_UNKNOWN = frozenset({"running", "created", "quiesce", "new", "inaccessible"})
"""'inaccessible' is normal for a path to a standby controller."""
_SLOWER = "non-optimized"
"""A path of NVMe that works, through the storage array's other controller."""
_OPTIMIZED = frozenset({"live", "active/optimized"})
_NOT_OPTIMIZED = frozenset(
    {_SLOWER, "active/non-optimized", "standby", "unavailable", "offline", "transitioning"}
)
"""Access states of a path that works for device-mapper: 'standby' answers its checker, no request.
Source: kernel, scsi_sysfs.c (sdev_access_states)."""
_UNLOGGED = "unlogged "
"""Begins the keys of maps, by the kernel's name, of which the log is to be read first."""
_WAITING = frozenset({"blocked", "created-blocked", "connecting", "resetting", "change"})


def unreachable(
    names: Collection[str], topology: Topology, scsi: ScsiTopology | None
) -> tuple[str, ...]:
    """Return those of these disks that a fabric has no connection to: LUNs, paths, NVMe-oF.

    A path counts only where no path of its map is left. The kernel blocks a LUN while its session
    or port is gone. Source: kernel, scsi_transport_iscsi.c (iscsi_block_session),
    scsi_transport_fc.c (fc_remote_port_delete), nvme/host/multipath.c (nvme_path_is_disabled).
    """
    states = {} if scsi is None else {each.device: each for each in scsi.devices.values()}
    hosts = {} if scsi is None else scsi.hosts
    away = set()
    for name in topology.leaves:
        path, own = states.get(name), topology.devices[name].state
        if path is not None and (host := hosts.get(path.host)) is not None and host.fabric:
            own = path.state
        if own is not None and _state(own) in {"waiting", "lost"}:
            away.add(name)
    if not away:
        return ()
    left = {
        path
        for paths in path_maps(topology).values()
        if not away.issuperset(paths)
        for path in paths
    }
    return tuple(sorted((away - left).intersection(names)))


def _path_counts(remembered: Remembered, topology: Topology, view: View) -> Iterator[Sample]:
    """Yield the number of paths of every map, by state.

    The state is by the map's own name: (when it last had as many paths, the highest number it had).
    """
    logged, reported = view.inputs.failed_paths, _reported_paths(view)
    for key in [each for each in remembered if each.startswith(_UNLOGGED)]:
        del remembered[key]
    scsi = view.inputs.snapshot.scsi
    of_scsi = () if scsi is None else scsi.devices.values()
    states = {each.device: each.state for each in of_scsi}
    access = {each.device: each.access_state for each in of_scsi}
    now, before = view.inputs.now_seconds, dict(remembered)
    for name, paths in path_maps(topology).items():
        device = topology.devices[name]
        ((at, most),) = before.get(_key(device), ((now, 0.0),))
        if len(paths) >= most or now - at > FORGOTTEN_SECONDS:
            at, most = baseline.stamp(at, now) if len(paths) == most else now, float(len(paths))
        remembered[_key(device)] = ((min(at, now), most),)
        if most < 2 and name.startswith("nvme"):  # an ordinary drive that supports multipath
            continue
        found = []
        for path in paths:
            state = _state(states.get(path) or topology.devices[path].state)
            number = topology.devices[path].device_number or ""
            if state == "unknown" and name in reported:
                state = reported[name].get(number, state)
            elif state == "unknown" and logged is None:
                remembered[f"{_UNLOGGED}{name}"] = ((now, 1.0),)
            elif state == "unknown" and number in (logged or ()):
                state = "failed"
            found.append(state)
        found += ["lost"] * (int(most) - len(paths))
        if most > 1:
            for path in paths:
                yield "iowarden_multipath_path", (("device", path), ("map", name)), 1.0
        if f"{_UNLOGGED}{name}" in remembered:
            continue
        labels = (("device", name), ("name", device.dm_name or name))
        working = [path for path, state in zip(paths, found, strict=False) if state == "working"]
        accesses = {access.get(path) or topology.devices[path].state for path in working}
        is_optimized = not accesses.isdisjoint(_OPTIMIZED)
        if is_optimized or (accesses and accesses <= _NOT_OPTIMIZED):  # else it is not known
            optimized = remembered.get(f"optimized {_key(device)}", ())
            is_recent = any(now - at <= FORGOTTEN_SECONDS for at, _ in optimized)
            if is_optimized:
                baseline.seen(remembered, f"optimized {_key(device)}", 1.0, now)
            slower = is_recent and not is_optimized
            yield "iowarden_multipath_nonoptimized_only", labels, float(slower)
        for each in STATES:
            yield PATHS, (*labels, ("state", each)), float(found.count(each))


def _reported_paths(view: View) -> dict[str, dict[str, str]]:
    """Return the state of the paths of each map by device-mapper, by the numbers of the paths."""
    return {
        status.device: {
            path.device: "working" if path.working else "failed" for path in status.paths
        }
        for status in view.inputs.snapshot.dm_targets or ()
        if status.target == "multipath" and not status.unparsed
    }


def _state(state: str | None) -> str:
    """Return what happens to a request on this path; a state that is no evidence is unknown."""
    if state is None or state in _UNKNOWN:
        return "unknown"
    if state in {"live", _SLOWER}:
        return "working"
    return "waiting" if state in _WAITING else "lost"


def _unlogged_maps(state: Mapping[str, Pairs]) -> Iterator[tuple[Labels, str]]:
    """Yield the maps whose paths only the log shows, which is not read yet since the start."""
    for key in state:
        if key.startswith(_UNLOGGED):
            yield (("device", key.removeprefix(_UNLOGGED)),), ""


def _lasting(state: Mapping[str, Pairs]) -> Mapping[str, Pairs]:
    """Return what is stored over a restart."""
    return {key: pairs for key, pairs in state.items() if not key.startswith(_UNLOGGED)}


def _key(device: Device) -> str:
    return device.dm_uuid or device.wwn or f"{device.name} {device.serial or ''}"


GROUP = baseline.group(
    name="multipath",
    sources=("block", "scsi"),
    families=(
        Family(
            PATHS,
            "gauge",
            "Paths of a multipath map by state: working (NVMe, or device-mapper uses it), unknown"
            " (nothing shows whether it works: the SCSI state 'running' does not), waiting"
            " (blocked, connecting: the kernel waits for the target), failed (device-mapper does"
            " not use it), lost (offline, or missing for up to 7 days).",
        ),
        Family(
            "iowarden_multipath_nonoptimized_only",
            "gauge",
            "1 while all paths of a multipath map that work are non-optimized ones (ALUA, ANA), and"
            " one was optimized within 7 days.",
        ),
        Family(
            "iowarden_multipath_path",
            "gauge",
            "1 for a device that is a path of a multipath map with several paths now or"
            " within 7 days.",
        ),
    ),
    value_of=lambda view: view.inputs.snapshot.block,
    evaluate=_path_counts,
    remember=_lasting,
    unreadable=_unlogged_maps,
)
