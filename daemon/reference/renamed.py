"""Reference of changed names: every old name with the new one, from the table of renames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.daemon.reference.markdown import literal, page, table
from iowarden.rules.rename_table import RENAMES, NameKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iowarden.rules.rename_table import Rename

_INTRODUCTION = """\
Names that were changed. `/metrics`, mails and commands have new names only: change
dashboards and queries in other programs. Stored state, silences, `overrides` and `replay --expect`
files are read with old names as well; `iowarden rules check` and `iowarden config check` give the
new name, with the place, where a file of yours has an old one."""
_NONE = "No name was changed so far."


def text(renames: Iterable[Rename] = RENAMES) -> str:
    """Return the page."""
    by_kind = {kind: [each for each in renames if each.kind is kind] for kind in NameKind}
    parts = [
        part
        for kind, found in by_kind.items()
        if found
        for part in (f"## {kind[:1].upper()}{kind[1:]}", _rows(found))
    ]
    return page("Changed names", _INTRODUCTION, *(parts or [_NONE]))


def _rows(renames: Iterable[Rename]) -> str:
    rows = []
    for each in renames:
        added = ",".join(f'{name}="{value}"' for name, value in each.labels)
        of = " of ".join(literal(part) for part in (each.of, each.series) if part)
        rows.append(
            (literal(each.old), literal(each.new + f"{{{added}}}" * bool(added)), of or "all")
        )
    return table(("old", "new", "of"), rows)
