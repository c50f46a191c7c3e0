"""Disks hidden by RAID controllers: what their programs list, and why some are not polled."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.block.enclosure import place
from iowarden.collectors.model import AbsentError, ParseError, ReadError
from iowarden.collectors.program import run_program
from iowarden.collectors.smart import members, scsi_hosts
from iowarden.collectors.smart.drive import AccessMethod, ReadStatus
from iowarden.collectors.smart.members import ControllerDisk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iowarden.collectors.machine import Machine
    from iowarden.collectors.smart.scsi_hosts import (
        Host,
        HostTopology,
        UnmonitoredDevice,
        VirtualDrive,
    )

DEADLINE_SECONDS = 60.0
MAX_CCISS = 128
"""Numbers '-d cciss,N' takes: 0 to 127. Source: smartmontools, os_linux.cpp."""
_SCANNED = frozenset({"megaraid_sas", "sssraid"})
"""Controllers of which smartctl's scan lists more than the kernel. It opens '/dev' and queries such
controllers; '--scan-open' would open every disk as well, wake some and wait for those that hang,
only to distinguish SATA from SAS, which the kernel's vendor 'ATA' shows.
"""
_MAX_SILENT = 4
ENTRY = "under 'smart: drives:' in the configuration file"


def hidden(
    root: Machine, machine: HostTopology, volumes: Sequence[VirtualDrive]
) -> tuple[list[AccessMethod], list[UnmonitoredDevice]]:
    """Return the disks that controllers hide, where it is safe to query the controller."""
    listed = []
    for host in sorted(machine.hosts.values(), key=scsi_hosts.Host.number):
        raid = scsi_hosts.RAID.get(host.driver)
        visible = raid.channels if raid else scsi_hosts.MPT_VOLUMES
        listed += [
            _target(
                host,
                ControllerDisk("sat" if node.vendor == "ATA" else "scsi"),
                f"/dev/{node.generic}",
            )
            for node in machine.nodes
            if node.host == host.name and not node.device and node.generic
            if node.kind == scsi_hosts.DISK and node.channel not in visible
        ]
        own = [volume.device for volume in volumes if volume.controller == host.name]
        alone = [each.driver for each in machine.hosts.values()].count(host.driver) == 1
        match raid.family if raid else "":
            case "areca" if alone and (path := machine.generic(host.name, scsi_hosts.PROCESSOR)):
                listed += [_target(host, each, path) for each in _by_areca(root, machine, host)]
            case "3ware" if alone:
                path = threeware(machine, host)
                listed += [_target(host, each, path) for each in _by_threeware(root, machine, host)]
            case "cciss" if own:
                path = machine.generic(host.name, scsi_hosts.RAID_CONTROLLER) or f"/dev/{own[0]}"
                listed += _counted(root, machine, host, path)
    # The driver 'cciss' (till 4.13) is no SCSI host.
    for path in sorted({volume.controller for volume in volumes if volume.driver == "cciss"}):
        listed += _counted(root, machine, scsi_hosts.Host(path, "cciss"), path)
    scanned = _scanned(root, machine)
    no_way = "smartctl can read SATA disks behind a 3ware controller, but no SAS disks"
    return [target for target in (*listed, *scanned) if target.kind], [
        scsi_hosts.UnmonitoredDevice(
            place(each.slot, each.controller), ReadStatus.NO_PASS_THROUGH, no_way
        )
        for each in listed
        if not each.kind
    ]


def _target(host: Host, member: ControllerDisk, path: str) -> AccessMethod:
    return AccessMethod(path, member.kind, "", host.name, host.driver, member.slot, "controller")


def _by_areca(root: Machine, machine: HostTopology, host: Host) -> Sequence[ControllerDisk]:
    machine.unlisted.add(host.name)
    for program in ("cli64", "areca-cli", "cli32"):
        try:
            listed = members.parse_areca_disks(
                run_program(root, DEADLINE_SECONDS, program, "disk", "info")
            )
        except AbsentError:
            continue  # if none is installed, unasked() reports it
        except (ReadError, ParseError) as error:
            machine.problems.append(str(error))
            break
        machine.unlisted.discard(host.name)
        return listed
    return ()


def _by_threeware(root: Machine, machine: HostTopology, host: Host) -> Sequence[ControllerDisk]:
    """Query only with a single controller: how 'c1' is related to a host is unknown."""
    machine.unlisted.add(host.name)
    try:
        controllers = members.parse_threeware_controllers(
            run_program(root, DEADLINE_SECONDS, "tw_cli", "info")
        )
        if len(controllers) != 1:
            machine.problems.append(
                f"'tw_cli info': expected one controller, got {len(controllers)}; its disks must be"
                f" configured: {ENTRY}"
            )
            return ()
        text = run_program(root, DEADLINE_SECONDS, "tw_cli", "info", controllers[0], "drivestatus")
        listed = members.parse_threeware_disks(text)
    except AbsentError:
        return ()  # unasked() reports it
    except (ReadError, ParseError) as error:
        machine.problems.append(str(error))
        return ()
    machine.unlisted.discard(host.name)
    return listed


def _counted(root: Machine, machine: HostTopology, host: Host, path: str) -> list[AccessMethod]:
    """Return the disks of an HP controller: its driver reports at which number the list ends."""
    found: list[AccessMethod] = []
    silent: list[AccessMethod] = []
    for number in range(MAX_CCISS):
        target = _target(host, ControllerDisk(f"cciss,{number}", f"disk {number}"), path)
        command = ("smartctl", "--json=c", "-n", "standby", "-i", "-d", target.kind, path)
        try:
            presence = members.parse_cciss(run_program(root, DEADLINE_SECONDS, *command))
        except (AbsentError, ReadError, ParseError) as error:
            machine.problems.append(str(error))
            machine.unlisted.add(host.name)
            return found
        if presence == "silent":
            silent.append(target)
            if len(silent) == _MAX_SILENT:
                machine.problems.append(
                    f"'{path}': expected a disk, or the end of the list, got neither from"
                    f" '{silent[0].kind}' on; if disks are there, configure them: {ENTRY}"
                )
                machine.unlisted.add(host.name)
                return found
            continue
        # A number without answer before a disk, or before the end, is a disk: it may have died.
        found += silent
        silent.clear()
        if presence == "disk":
            found.append(target)
        elif presence == "end":
            break
    return found


def _scanned(root: Machine, machine: HostTopology) -> list[AccessMethod]:
    hosts = {host.name: host for host in machine.hosts.values() if host.driver in _SCANNED}
    if not hosts:
        return []
    try:
        listed = members.parse_scan(
            run_program(root, DEADLINE_SECONDS, "smartctl", "--json=c", "--scan")
        )
    except (AbsentError, ReadError, ParseError) as error:
        machine.problems.append(str(error))
        machine.unlisted.update(hosts)
        return []
    return [
        replace(_target(hosts[name], each, each.path), origin="scan")
        for each in listed
        if (name := "host" + re.sub(r"\D", "", each.path)) in hosts
    ]


def threeware(machine: HostTopology, host: scsi_hosts.Host) -> str:
    """Return '/dev/twa1' for the second host of its driver, as smartctl counts them."""
    peers = sorted(
        (each for each in machine.hosts.values() if each.driver == host.driver),
        key=scsi_hosts.Host.number,
    )
    return f"/dev/{scsi_hosts.THREEWARE[host.driver]}{peers.index(host)}"


def unmonitored_volumes(
    root: Machine,
    machine: HostTopology,
    volumes: Sequence[VirtualDrive],
    targets: Sequence[AccessMethod],
) -> list[UnmonitoredDevice]:
    """Return the volumes of controllers whose disks are not polled, and how to change that."""
    asked = {t.controller for t in targets if t.behind_raid() or t.origin == "controller"}
    uncovered = [
        scsi_hosts.UnmonitoredDevice(
            volume.device,
            ReadStatus.NO_PASS_THROUGH,
            _cure(root, machine, volume.controller, volume.driver),
            volume.device,
        )
        for volume in volumes
        if volume.controller not in asked
    ]
    seen = asked | {volume.controller for volume in volumes} | {t.controller for t in targets}
    return uncovered + [
        scsi_hosts.UnmonitoredDevice(
            f"disks of {host.name}",
            ReadStatus.NO_PASS_THROUGH,
            _cure(root, machine, host.name, host.driver),
        )
        for host in sorted(machine.hosts.values(), key=scsi_hosts.Host.number)
        if host.name not in seen and host.driver in scsi_hosts.RAID
    ]


def _cure(root: Machine, machine: HostTopology, controller: str, driver: str) -> str:
    """Return why the disks of a controller are not polled, and the configuration to poll them."""
    host = machine.hosts.get(controller, scsi_hosts.Host(controller, driver))
    family = "cciss" if driver == "cciss" else scsi_hosts.RAID.get(driver, scsi_hosts.Raid()).family
    where = host.address or "/dev/sdX"
    match family:
        case "areca":
            ports = (
                scsi_hosts.text_of(
                    root, f"{scsi_hosts.HOSTS}/{controller}/host_fw_hd_channels"
                ).strip()
                or "N"
            )
            how = (
                f"install Areca's 'cli64', or configure each: {_entry(where, 'areca,1')} ..."
                f" 'areca,{ports}', with enclosures 'areca,SLOT/ENCLOSURE'"
            )
            if not machine.generic(controller, scsi_hosts.PROCESSOR):
                how = f"it has no '/dev/sgN': load the module 'sg', then {how}"
        case "3ware":
            how = f"install 3ware's 'tw_cli', or configure each: {_entry(where, '3ware,PORT')}"
        case "aacraid":
            kind = f"aacraid,{host.number()},CHANNEL,DEVICE"
            how = (
                "each query leaks kernel memory (kernel bug 220504), so they are not queried"
                " unless configured; expose them with the module's 'expose_physicals', or"
                f" configure each: {_entry(where, kind)} as 'arcconf GETCONFIG 1 PD' reports them"
            )
        case "cciss":
            how = (
                "smartctl found none; see the problems listed, or configure:"
                f" {_entry(where, 'cciss,0')}"
            )
        case "megaraid" | "sssraid":
            how = (
                "'smartctl --scan' listed none of them; if that is wrong, configure each:"
                f" {_entry(where, 'megaraid,ID')}"
            )
        case "hpt":
            how = f"configure each: {_entry('/dev/sdX', 'hpt,CONTROLLER/CHANNEL')}"
        case _ if driver in scsi_hosts.MPT:
            how = "they have no '/dev/sgN': load the module 'sg'"
        case _:
            how = "smartctl cannot reach them; use the vendor's program"
    return f"a RAID controller ('{driver or 'unknown driver'}') hides its disks: {how}"


def _entry(path: str, kind: str) -> str:
    return f'{{path: "{path}", type: "{kind}"}}'
