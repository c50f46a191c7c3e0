"""Kernel version and host name of this machine, from uname."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import AbsentError, Family, Labels, ParseError, Sample
from iowarden.collectors.source import Source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iowarden.collectors.machine import Machine

DIRECTORY = "/proc/sys/kernel"
_MAX_CHARACTERS = 4 * 65
"""A name has at most 64 bytes (uname(2)), each of which may be escaped."""


@dataclass(frozen=True, slots=True)
class Uname:
    """Source: uname(2); '/proc/sys/kernel' (ostype, hostname, osrelease, version, domainname)."""

    sysname: str
    nodename: str
    release: str
    version: str
    machine: str | None
    """None: this kernel has no '/proc/sys/kernel/arch' (6.1+) and the machine is a recorded one."""
    domainname: str


FAMILIES = (
    Family("iowarden_uname_info", "gauge", "Kernel version and host name of this machine."),
)


def emit(value: Uname) -> list[Sample]:
    """Return the sample of FAMILIES."""
    return [("iowarden_uname_info", _labels(value), 1)]


def node_samples(value: Uname) -> Iterator[Sample]:
    """Yield node_exporter's node_uname_info."""
    yield "node_uname_info", _labels(value), 1


def parse_name(text: str, path: str) -> str:
    """Parse the one line of a file of '/proc/sys/kernel'."""
    line = text.removesuffix("\n")
    if not line or "\n" in line or not line.isprintable() or len(line) > _MAX_CHARACTERS:
        raise ParseError(f"'{path}': expected one line of text, got {text[:80]!r}")
    return line


def read_uname(root: Machine) -> Uname:
    """Read the files. Errors: AbsentError, ReadError, ParseError."""

    def name(file: str) -> str:
        path = f"{DIRECTORY}/{file}"
        return parse_name(root.read(path), path)

    machine: str | None
    try:
        machine = name("arch")
    except AbsentError:
        machine = os.uname().machine if not root.path else None
    return Uname(
        sysname=name("ostype"),
        nodename=name("hostname"),
        release=name("osrelease"),
        version=name("version"),
        machine=machine,
        domainname=name("domainname"),
    )


def _labels(value: Uname) -> Labels:
    return (
        ("domainname", value.domainname),
        ("machine", value.machine or ""),
        ("nodename", value.nodename),
        ("release", value.release),
        ("sysname", value.sysname),
        ("version", value.version),
    )


SOURCE: Source[Uname] = Source(
    name="uname",
    period_seconds=60,
    period_help="How often the kernel version and the host name are read.",
    may_hang=False,
    read=read_uname,
    families=FAMILIES,
    emit=emit,
    node=node_samples,
    node_prefixes=("node_uname_",),
    node_names=frozenset({"node_uname_info"}),
)
