"""Lays out the storage tree for a terminal of 80 columns: marks, folding, nothing cut off. Pure.

The first column is the mark: '!!' critical, '!' warning, '?' not known. Above MAX_LINES what is
well is folded first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.quantity import percentage, size
from iowarden.daemon.control.storage_document import StorageNode
from iowarden.daemon.terminal.times import at_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iowarden.daemon.control.storage_document import BayLine, StorageTree

MAX_LINES = 60
MAX_MEMBERS = 3
"""So many equal members that are well are listed next to a sick one; more are folded."""
WIDTH = 80
_KIND_AT, _TEXT_AT, _INDENT = 18, 27, 2
_MARKS = {"critical": "!!", "warning": " !"}
_BAY_MARKS = {
    "failed": "F",
    "missing": "F",
    "rebuilding": "R",
    "warning": "!",
    "unknown": "?",
    "empty": "-",
}
_LEGEND = ". ok  R rebuilding  F failed  ! warning  ? unknown  - empty"
_DAY = len("2026-11-21")


def tree_lines(tree: StorageTree, width: int = WIDTH, *, unfolded: bool = False) -> list[str]:
    """Return the tree as lines; `unfolded`: every row, however many there are."""
    problems = [f" ?  {text}" for text in tree.problems]
    groups = list(_groups(tree.nodes))
    if not groups:
        return [*problems, "no storage device is known yet"]
    if unfolded:
        lines = [_lines(group, tree, width) for group in groups]
        more = [f"... and {tree.omitted} more rows"] if tree.omitted else []
        return [*problems, *_joined(lines), *more]
    folded = [_folded(group) for group in groups]
    lines = [
        _lines(short, tree, width) + _shelves(group, tree.bays)
        for short, group in zip(folded, groups, strict=True)
    ]
    whole = _joined(lines)
    if len(problems) + len(whole) > MAX_LINES:
        whole = _shortened(folded, lines, MAX_LINES - len(problems))
    return [*problems, *whole]


def _groups(nodes: Sequence[StorageNode]) -> Iterator[list[StorageNode]]:
    """Yield the rows of each tree."""
    group: list[StorageNode] = []
    for node in nodes:
        if node.depth == 0 and group:
            yield group
            group = []
        group.append(node)
    if group:
        yield group


def _is_well(node: StorageNode) -> bool:
    return not node.severity and not node.unknown and not node.note


def _folded(group: Sequence[StorageNode]) -> list[StorageNode]:
    """Return the rows of a tree with equal members that are well folded into one row.

    A row that is well as a whole has no members at all: they are named in its line.
    """
    found: list[StorageNode] = []
    number = 0
    while number < len(group):
        node = group[number]
        members = _members(group, number)
        if not members:
            found.append(node)
            number += 1
            continue
        whole_is_well = _is_well(node) and not node.below and all(map(_is_well, members))
        if whole_is_well:
            found.append(replace(node, place=node.place or _names(members)))
        else:
            found += [node, *_short(members)]
        number += 1 + len(members)
    return found


def _members(group: Sequence[StorageNode], at: int) -> list[StorageNode]:
    """Return the members right below a row; none if something is stacked below one of them."""
    below = []
    for node in group[at + 1 :]:
        if node.depth <= group[at].depth:
            break
        below.append(node)
    plain = all(node.is_member and node.depth == group[at].depth + 1 for node in below)
    return below if plain else []


def _short(members: Sequence[StorageNode]) -> list[StorageNode]:
    """Return members with those that are equal in one row, where these are many."""
    equal: dict[tuple[str, ...], list[StorageNode]] = {}
    for node in members:
        equal.setdefault(_alike(node), []).append(node)
    found = []
    for node in members:
        same = equal[_alike(node)]
        if len(same) <= MAX_MEMBERS or node.severity:
            found.append(node)
        elif node is same[0]:
            found.append(_together(same))
    return found


def _alike(node: StorageNode) -> tuple[str, ...]:
    return node.kind, node.state, node.note, node.unknown, node.severity


def _together(same: Sequence[StorageNode]) -> StorageNode:
    temperatures = [n.temperature_celsius for n in same if n.temperature_celsius is not None]
    state = f"{len(same)} {same[0].state}".strip()
    if temperatures:
        low, high = min(temperatures), max(temperatures)
        state += f", {low:.0f} C" if low == high else f", {low:.0f}-{high:.0f} C"
    return replace(
        same[0],
        name=_range(same),
        state=state,
        serial="",
        place="",
        size_bytes=None,
        temperature_celsius=None,
    )


def _range(same: Sequence[StorageNode]) -> str:
    names = [node.name for node in same]
    return f"{names[0]}..{names[-1]}"


def _names(members: Sequence[StorageNode]) -> str:
    """Return members that are well, for the line of what they are members of."""
    names = [node.name for node in members]
    shown = " ".join(names) if len(names) <= MAX_MEMBERS else f"{names[0]}..{names[-1]}"
    temperatures = [n.temperature_celsius for n in members if n.temperature_celsius is not None]
    if not temperatures:
        return f"({shown})"
    low, high = min(temperatures), max(temperatures)
    heat = f"{low:.0f} C" if low == high else f"{low:.0f}-{high:.0f} C"
    return f"({shown}, {heat})"


def _shortened(
    groups: Sequence[Sequence[StorageNode]], lines: Sequence[list[str]], room: int
) -> list[str]:
    """Return the lines of what is sick, then of what is well, as many as there is room for.

    The trees are sorted: the worst come first. At least one line of each sick tree is shown.
    """
    sick = [_mark(group[0]) != "" for group in groups]
    left = room - 1 - sum(sick)
    found: list[list[str]] = []
    dropped = [0, 0]
    for is_sick, own in zip(sick, lines, strict=True):
        cost = len(own) + 1
        if cost - is_sick <= left:
            found.append(own)
            left -= cost - is_sick
        elif is_sick:
            found.append(own[:1])
            dropped[0] += 1
        else:
            dropped[1] += 1
    whole = _joined(found)
    rest = []
    if dropped[0]:
        rest.append(f"the details of {dropped[0]} with problems")
    if dropped[1]:
        rest.append(f"{dropped[1]} without a problem")
    return [*whole, f"... not shown: {' and '.join(rest)}; all: iowarden storage --all"]


def _joined(trees: Sequence[list[str]]) -> list[str]:
    """Return the lines of trees; a tree of several lines stands alone."""
    found: list[str] = []
    before = 1
    for own in trees:
        if found and (len(own) > 1 or before > 1):
            found.append("")
        found += own
        before = len(own)
    return found


def _mark(node: StorageNode) -> str:
    severity = node.severity
    if node.depth == 0 and node.below in _MARKS and severity != "critical":
        severity = "critical" if "critical" in (node.below, severity) else node.below
    return _MARKS.get(severity) or (" ?" if node.unknown else "")


def _lines(group: Sequence[StorageNode], tree: StorageTree, width: int) -> list[str]:
    return [line for node in group for line in _row(node, tree.now_seconds, width)]


def _row(node: StorageNode, now: float, width: int) -> list[str]:
    """Return the lines of a row: mark, name, kind, then its parts, wrapped between parts."""
    head = f"{_mark(node):3}{' ' * (_INDENT * node.depth)}{node.name}"
    head = f"{head:{_KIND_AT - 1}} {node.kind}" if node.kind else head
    column = _TEXT_AT
    line, lines = f"{head:{column - 1}} ", []
    for part in _parts(node, now):
        for words in _fitting(part, width - column):
            text = line if line.strip() == "" or line.endswith(" ") else f"{line}  "
            if len(text) + len(words) > width and line.strip():
                lines.append(line.rstrip())
                text = " " * column
            line = text + words
    return [*lines, line.rstrip()]


def _fitting(part: str, width: int) -> list[str]:
    """Return a part in pieces of a line; a word is never cut."""
    pieces: list[str] = []
    for word in part.split(" "):
        if pieces and len(pieces[-1]) + 1 + len(word) <= width:
            pieces[-1] += f" {word}"
        else:
            pieces.append(word)
    return pieces


def _parts(node: StorageNode, now: float) -> Iterator[str]:
    if node.repeated:
        yield "as above"
        return
    if node.depth == 0 and node.size_bytes is not None:
        yield size(node.size_bytes)
    if node.used_ratio is not None:
        yield percentage(node.used_ratio)
    since = ""
    if node.since_seconds is not None and node.severity and node.is_member:
        since = f" since {_moment(node.since_seconds, now)}"
    if node.state:
        yield node.state + since
    if node.unknown and node.unknown not in node.state:
        yield f"? {node.unknown}" if node.severity else node.unknown
    if node.temperature_celsius is not None and not node.severity:
        yield f"{node.temperature_celsius:.0f} C"
    if node.serial:
        yield node.serial
    if node.place:
        yield node.place
    if node.note:
        yield f"<- {node.note}"


def _moment(at: float, now: float) -> str:
    """Return a time of today as '14:02', else with its date."""
    text, today = at_text(at), at_text(now)[:_DAY]
    return text[_DAY + 1 : _DAY + 6] if text.startswith(today) else text[: _DAY + 6]


# --- by bay


def bay_lines(tree: StorageTree, width: int = WIDTH) -> list[str]:
    """Return the disks by adapter, enclosure and bay."""
    lines: list[str] = [f" ?  {text}" for text in tree.problems]
    adapter = enclosure = None
    for number, line in enumerate(tree.bays):
        if line.adapter != adapter:
            adapter, enclosure = line.adapter, ""
            lines += ["", adapter] if lines else [adapter]
        if line.enclosure != enclosure:
            enclosure = line.enclosure
            lines += _map_of(tree.bays, number)
        lines += _bay(line, width)
    return lines or ["no disk is known yet"]


def _shelves(group: Sequence[StorageNode], bays: Sequence[BayLine]) -> list[str]:
    """Return the enclosures with a sick disk of a tree, as one character for each bay."""
    sick = {node.device for node in group if node.severity and node.serial} - {""}
    wanted = {(bay.adapter, bay.enclosure) for bay in bays if bay.enclosure and bay.name in sick}
    lines = []
    for adapter, enclosure in sorted(wanted):
        own = [bay for bay in bays if (bay.adapter, bay.enclosure) == (adapter, enclosure)]
        lines += [f"     {adapter}, enclosure {enclosure}: {own[0].bay} to {own[-1].bay}"]
        lines += [f"     {_marks(own)}", f"     {_LEGEND}"]
    return lines


def _marks(bays: Sequence[BayLine]) -> str:
    return "".join(_BAY_MARKS.get(bay.state, ".") for bay in bays)


def _map_of(bays: Sequence[BayLine], first: int) -> list[str]:
    """Return an enclosure as one character for each bay."""
    own = [
        bay
        for bay in bays[first:]
        if (bay.adapter, bay.enclosure) == (bays[first].adapter, bays[first].enclosure)
    ]
    head = f"  enclosure {own[0].enclosure}, {len(own)} bays" if own[0].enclosure else ""
    return [head, f"    {_marks(own)}", f"    {_LEGEND}"] if head else []


def _bay(bay: BayLine, width: int) -> list[str]:
    mark = {"failed": "!!", "missing": "!!", "warning": " !", "rebuilding": " !", "unknown": " ?"}
    used = f"in {', '.join(bay.used_by)}" if bay.used_by else ""
    node = StorageNode(
        name=bay.bay or bay.name or "-",
        kind=bay.name if bay.bay else "",
        depth=1,
        state=bay.state if bay.state in {"empty", "missing"} else bay.text,
        serial=bay.serial,
        place=used,
        note=bay.note,
    )
    (first, *rest) = _row(node, 0.0, width)
    return [f"{mark.get(bay.state, ''):3}{first[3:]}", *rest]
