"""Definitions of conditions, as definitions.yaml has them: what the documentation is made from."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.rules.conditions.condition import Condition
from iowarden.rules.yaml_nodes import Nodes, compose, start

if TYPE_CHECKING:
    from collections.abc import Mapping

    import yaml


@dataclass(frozen=True, slots=True)
class Definition:
    """What a condition is. Texts are for administrators; metrics are named in full."""

    meaning: str
    computed: str
    """The metrics and events it follows from, and how."""
    thresholds: str
    """By severity."""
    guards: str
    """When it is not reported although a threshold is reached."""
    sources: tuple[str, ...]
    """Kernel documentation or file, specification, manual page, paper."""
    action: str
    limits: str
    """What it cannot detect, and what looks the same."""


_FIELDS = tuple(field.name for field in dataclasses.fields(Definition))


def parse_definitions(text: str, file: str) -> Mapping[Condition, Definition]:
    """Return the definition of each condition. `file` is its name, for messages.

    Errors: RuleFileError with all that is wrong: a condition or a field that is missing, unknown or
    empty.
    """
    nodes = Nodes(text, file)
    root = compose(text, file)
    found = {} if root is None else nodes.mapping(root, "file", tuple(Condition))
    definitions = {
        Condition(word): _definition(nodes, word, node) for word, (_, node) in found.items()
    }
    missing = [word for word in Condition if word not in definitions]
    if missing and root is not None:
        nodes.wrong(start(root), f"expected a definition of {', '.join(missing)}; add it")
    nodes.finish()
    return definitions


def _definition(nodes: Nodes, word: str, node: yaml.Node) -> Definition:
    fields = nodes.mapping(node, word, _FIELDS)

    def text(name: str) -> str:
        found = nodes.string(fields[name][1], f"{word}: {name}").strip() if name in fields else ""
        if not found:
            nodes.wrong(start(node), f"{word}: expected a text; add '{name}:'")
        return found

    sources = (
        nodes.sequence(fields["sources"][1], f"{word}: sources") if "sources" in fields else []
    )
    if not sources:
        nodes.wrong(start(node), f"{word}: expected a list; add 'sources:'")
    return Definition(
        text("meaning"),
        text("computed"),
        text("thresholds"),
        text("guards"),
        tuple(nodes.string(each, f"{word}: sources") for each in sources),
        text("action"),
        text("limits"),
    )
