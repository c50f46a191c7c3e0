"""Machines as sysfs shows them, by how their drives are attached; and what programs say there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from iowarden.collectors.machine import probe_path

if TYPE_CHECKING:
    from collections.abc import Mapping

Files = dict[str, str | bytes | None]


def host(name: str, driver: str, address: str = "", **attributes: str) -> Files:
    """Return a SCSI host; with a PCI address it is bound to the driver there."""
    files: Files = {f"/sys/class/scsi_host/{name}/proc_name": f"{driver}\n"}
    files |= {f"/sys/class/scsi_host/{name}/{key}": f"{text}\n" for key, text in attributes.items()}
    if address:
        files[f"/sys/bus/pci/drivers/{driver}/{address}/{name}"] = None
    return files


def node(at: str, kind: int, vendor: str, generic: str = "") -> Files:
    """Return a SCSI device H:C:T:L that is no block device."""
    path = f"/sys/class/scsi_device/{at}/device"
    files: Files = {f"{path}/type": f"{kind}\n", f"{path}/vendor": f"{vendor:8}\n"}
    if generic:
        files[f"{path}/scsi_generic/{generic}"] = None
        files[f"/sys/class/scsi_generic/{generic}/device/scsi_device/{at}"] = None
    return files


def disk(at: str, name: str, vendor: str, model: str, **attributes: str) -> Files:
    """Return a SCSI device H:C:T:L that is a block device."""
    device = f"/sys/class/scsi_device/{at}/device"
    files: Files = {
        f"{device}/type": "0\n",
        f"{device}/block/{name}": None,
        f"/sys/block/{name}/size": "2048\n",
        f"/sys/block/{name}/device/vendor": f"{vendor:8}\n",
        f"/sys/block/{name}/device/model": f"{model:16}\n",
        f"/sys/block/{name}/device/scsi_device/{at}": None,
    }
    return files | {
        f"/sys/block/{name}/{key.replace('__', '/')}": f"{text}\n"
        for key, text in attributes.items()
    }


def udev(number: str, *lines: str) -> Files:
    """Return udev's record of a block device."""
    return {f"/run/udev/data/b{number}": "".join(f"{line}\n" for line in lines)}


def probe_answer(*command: str, stdout: str, stderr: str = "", status: int = 0) -> Files:
    """Return what the probe answers after it ran a program."""
    value = {"status": status, "signal": None, "stdout": stdout, "stderr": stderr}
    return {probe_path("run", command): json.dumps(value)}


def scan(*devices: tuple[str, str]) -> Files:
    """Return what 'smartctl --scan --json' says of (name, type) of devices."""
    listed = [{"name": name, "info_name": name, "type": kind} for name, kind in devices]
    text = json.dumps({"smartctl": {"version": [7, 3], "exit_status": 0}, "devices": listed})
    return probe_answer("smartctl", "--json=c", "--scan", stdout=text)


def cciss(path: str, *disks: Mapping[str, object] | str) -> Files:
    """Return what 'smartctl -i -d cciss,N' says of each, and that there are no more of them."""
    files: Files = {}
    end = "Standard Inquiry (36 bytes) failed [No such device or address]"
    for number, each in enumerate((*disks, end)):
        text = each if isinstance(each, str) else json.dumps({"smartctl": {}, **each})
        if not text.startswith("{"):
            messages = [{"string": text, "severity": "error"}]
            text = json.dumps({"smartctl": {"exit_status": 2, "messages": messages}})
        command = ("smartctl", "--json=c", "-n", "standby", "-i", "-d", f"cciss,{number}", path)
        files |= probe_answer(*command, stdout=text)
    return files
