"""How a RAID controller is asked of its arrays, its disks and its log, by its name here. Pure.

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
"""Names of controllers as `collectors` give them; the program that is asked, and how."""
_ANOTHER = frozenset({"cciss_vol_status"})
"""Programs that are called in another way than their maker's."""


def asked(name: str, program: str) -> list[str]:
    """Return the commands that ask a RAID controller, by its name; none where it is not known.

    `program` is what its maker's program is called here, '' as usual.
    Source: the vendors' guides, see rules/controllers.yaml.
    """
    for pattern, usual, asks in _CARDS:
        found = re.fullmatch(pattern, name)
        if found is None:
            continue
        own = usual if program in {"", *_ANOTHER} else program
        old = own.casefold().startswith("megacli")  # the older program of the same maker
        words = ("-LdPdInfo -a{}",) if old else asks
        return [f"  {own} {each.format(*found.groups())}" for each in words]
    return []
