"""Commands that query the arrays, disks and log of a RAID controller, by its name. Pure.

Sources: as in rules/controllers.yaml, the vendors' guides.
"""

from __future__ import annotations

import re

_CARDS = (
    (r"areca 1", "cli64", ("rsf info", "disk info", "event info")),
    (r"areca (\d+)", "cli64", ("ctrl={} rsf info", "ctrl={} disk info", "ctrl={} event info")),
    (r"(c\d+)", "tw_cli", ("/{} show", "/{} show alarms")),
    (r"adaptec (\d+)", "arcconf", ("GETCONFIG {} LD", "GETCONFIG {} PD")),
    (r"hp slot (\d+)", "ssacli", ("ctrl slot={} show config detail",)),
    (r"mega.* c(\d+)", "storcli64", ("/c{} show", "/c{}/eall/sall show", "/c{} show events")),
    (r"sas2ircu (\d+)", "sas2ircu", ("{} DISPLAY",)),
    (r"sas3ircu (\d+)", "sas3ircu", ("{} DISPLAY",)),
    (r"ioc\d+", "mpt-status", ("-p",)),
)
"""Names of controllers as `collectors` give them; the program that queries them, and how."""
_ANOTHER = frozenset({"cciss_vol_status"})
"""Programs with other arguments than those of the vendor."""


def query_commands(name: str, program: str) -> list[str]:
    """Return the commands that query a RAID controller, by its name; none if it is not known.

    `program` is the name of the vendor's program on this host, '' for the usual one.
    Source: the vendors' guides, see rules/controllers.yaml.
    """
    for pattern, usual, asks in _CARDS:
        found = re.fullmatch(pattern, name)
        if found is None:
            continue
        own = usual if program in {"", *_ANOTHER} else program
        old = own.casefold().startswith("megacli")  # the older program of the same vendor
        words = ("-LdPdInfo -a{}",) if old else asks
        return [f"  {own} {each.format(*found.groups())}" for each in words]
    return []
