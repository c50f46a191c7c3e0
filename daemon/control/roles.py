"""Roles of the control socket: who may query the service, who may act, and the text of a refusal.

A role is membership in a group of the system. Pure, except `service_group_members`, which reads the
group data base (getgrnam(3)) and may wait for a directory service.
"""

from __future__ import annotations

import enum
import grp
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

VIEWER_GROUP = "iowarden-viewer"
OPERATOR_GROUP = "iowarden-operator"
SERVICE_GROUP = "iowarden"
"""Group of the service's user, which reads the configuration. It grants no role."""

QUERIES = frozenset(
    {
        *("status", "silence list", "events", "query", "metrics"),
        *("incident list", "incident show"),
        *("advise", "monitoring", "storage", "disk show", "disk history"),
        *("selftest status", "scan status"),
        *("mail list", "mail show"),
    }
)
"""Commands that change nothing."""
ACTIONS = frozenset(
    {
        *("silence add", "silence expire", "ack", "disk forget", "log level"),
        *("selftest start", "selftest abort", "scan start", "scan stop", "mail retry"),
    }
)
"""Commands that change what is monitored, mailed or done to a disk."""


class Role(enum.IntEnum):
    """What a user may do; a higher role includes the lower ones."""

    NONE = 0
    VIEWER = 1
    OPERATOR = 2


@dataclass(frozen=True, slots=True)
class RoleGroups:
    """The names of the groups."""

    viewer: str = VIEWER_GROUP
    operator: str = OPERATOR_GROUP

    def names(self) -> tuple[str, str]:
        """Return both names."""
        return self.viewer, self.operator

    def granted(self, gids: Collection[int], found: Mapping[str, int | None]) -> Role:
        """Return the role of a member of some groups; `found` maps names to numbers."""
        joined = {name for name in self.names() if found.get(name) in gids}
        if self.operator in joined:
            return Role.OPERATOR
        return Role.VIEWER if self.viewer in joined else Role.NONE

    def of(self, role: Role) -> str:
        """Return the group that grants a role."""
        return self.operator if role is Role.OPERATOR else self.viewer


def required(command: str) -> Role:
    """Return the role that a command needs; an unknown command is refused to both alike."""
    return Role.OPERATOR if command in ACTIONS else Role.VIEWER


def refusal(command: str, who: str, group: str, *, exists: bool) -> str:
    """Return why a user is refused, and the command that grants the role.

    `command`: '' before the first request; `who`: 'alice (uid 1000)' or 'uid 1000'; `exists`:
    whether the group was found on this machine.
    """
    user = who.partition(" (uid ")[0] if " (uid " in who else "USER"
    what = f"'{command}'" if command else "access"
    create = "" if exists else f"groupadd --system {group} && "
    missing = "" if exists else ", which does not exist on this machine"
    return (
        f"{what} refused to {who}: expected root or a member of group '{group}'{missing};"
        f" use sudo, or let root run: {create}usermod -aG {group} {user}"
        " (effective after a new login)"
    )


def service_group_members(group: str = SERVICE_GROUP) -> tuple[str, ...]:
    """Return the users who were added to the service's own group; () if there is none.

    Source: getgrnam(3). It may wait for a directory service.
    """
    try:
        members = grp.getgrnam(group).gr_mem
    except (KeyError, OSError):  # no such group, or no directory service: no hint is due
        return ()
    return tuple(sorted(name for name in members if name != group))


GRANTING = (
    f"a user may query iowarden after: usermod -aG {VIEWER_GROUP} USER; also act (silence,"
    f" acknowledge, self-tests, scans) after: usermod -aG {OPERATOR_GROUP} USER; effective after a"
    " new login"
)
"""How to grant the roles."""
MAX_MEMBERS = 5
"""Members that the text names."""


def narrowing(members: Collection[str], group: str = SERVICE_GROUP) -> str:
    """Return what members of the service's own group may read, and how to end it; '' if none."""
    if not members:
        return ""
    named = sorted(members)[:MAX_MEMBERS]
    more = f" and {len(members) - len(named)} more" if len(members) > len(named) else ""
    return (
        f"in group '{group}': {', '.join(named)}{more}; they may read the configuration and a"
        f" 'mail.password_file'. To end this for {named[0]}: 'gpasswd -d {named[0]} {group}'. To"
        f" query iowarden: 'usermod -aG {VIEWER_GROUP} {named[0]}'; to act as well: 'usermod -aG"
        f" {OPERATOR_GROUP} {named[0]}'; effective after a new login"
    )
