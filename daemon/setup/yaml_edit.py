"""Changes single keys in the text of a configuration file; comments and all other keys stay. Pure.

The text is not generated from its values: that would lose comments, order and quoting. Values
are replaced in place, and a key that is removed is commented out. The result is parsed and compared
with the values that are wanted: a text that cannot be changed so is refused, never damaged.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import yaml

from iowarden.collectors.model import UserInputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PLAIN = re.compile(r"[A-Za-z0-9/][A-Za-z0-9_./@+-]*")
"""What needs no quotes, if YAML reads it as the same text."""
_COMMENT = re.compile(r"(?:^|(?<=\s))#.*", re.MULTILINE)


class ConfigEditError(UserInputError):
    """The text cannot be changed without a risk for the rest of it."""


def values(text: str) -> dict[str, Any]:
    """Return the values of a configuration file's text, with those of unknown keys.

    Errors: ConfigEditError if it is not YAML with keys.
    """
    try:
        found = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        said = " ".join(str(error).split())
        raise ConfigEditError(f"expected YAML, got an error: {said}; correct it first") from error
    if found is not None and not isinstance(found, dict):
        raise ConfigEditError("expected 'key: value' lines; correct the file first")
    return found or {}


def changed(text: str, wanted: Mapping[str, object]) -> str:
    """Return a text in which keys ('mail.server') have other values; None comments a key out.

    A key that already has its value is left as it is written: a second change returns the same
    text. Limits: two levels of keys; values are texts, numbers, and lists or mappings of them.
    Errors: ConfigEditError, which names the key; the text is to be edited by hand then.
    """
    expected = values(text)
    after = text
    try:
        for path, value in wanted.items():
            expected = _put(expected, path, value)
            if _get(values(after), path) != value:
                after = _with(after, path, value)
        good = _pruned(values(after)) == _pruned(expected)
    except (ConfigEditError, ValueError):  # the text after a change
        good = False
    if not good or _comments(text) - _comments(after):
        raise ConfigEditError(
            f"expected a file in which {', '.join(wanted)} can be changed without changing the"
            " rest; set these keys in an editor"
        )
    return after


def written(value: object) -> str:
    """Return a value as YAML in one line."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {written(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(written, value)) + "]"
    if not isinstance(value, str):
        return json.dumps(value)
    if _PLAIN.fullmatch(value) and yaml.safe_load(value) == value:
        return value
    # A text in single quotes is taken as it is; one with control characters needs JSON's escapes.
    return "'" + value.replace("'", "''") + "'" if value.isprintable() else json.dumps(value)


def _get(found: Mapping[str, Any], path: str) -> object:
    section, _, leaf = path.rpartition(".")
    inner = found.get(section) if section else found
    return inner.get(leaf) if isinstance(inner, dict) else None


def _put(found: Mapping[str, Any], path: str, value: object) -> dict[str, Any]:
    section, _, leaf = path.rpartition(".")
    if section:
        inner = found.get(section)
        return {**found, section: _put(inner if isinstance(inner, dict) else {}, leaf, value)}
    return {**found, leaf: value}


def _pruned(found: Mapping[str, Any]) -> dict[str, Any]:
    """Return values without null: a key without a value is one that is commented out."""
    said = {k: _pruned(v) if isinstance(v, dict) else v for k, v in found.items()}
    return {key: value for key, value in said.items() if value is not None and value != {}}


def _comments(text: str) -> Counter[str]:
    return Counter(line.strip() for line in text.splitlines() if line.lstrip().startswith("#"))


def _with(text: str, path: str, value: object) -> str:
    """Return the text with one key changed."""
    section, _, leaf = path.rpartition(".")
    root = _node(text)
    found: tuple[yaml.Node, yaml.Node] | None = None
    owner: yaml.Node | None = root
    if section:
        found = _pair(root, section)
        if found is None:
            if value is None:
                return text
            return _inserted(text, f"{section}:\n  {leaf}: {written(value)}", section, None, "")
        owner = found[1]
        if _is_null(owner):
            return _inserted(text, f"{leaf}: {written(value)}", leaf, found, "  ")
    if not isinstance(owner, yaml.MappingNode):
        if owner is not None:
            raise ConfigEditError(f"{section or leaf}: expected 'key: value' lines; edit it first")
        return _inserted(text, f"{leaf}: {written(value)}", leaf, None, "")
    pair = _pair(owner, leaf)
    if pair is None:
        if owner.flow_style:
            end = owner.end_mark.index - 1
            comma = ", " if owner.value else ""
            return f"{text[:end].rstrip()}{comma}{leaf}: {written(value)}{text[end:]}"
        indent = " " * owner.value[0][0].start_mark.column if owner.value else ""
        return _inserted(text, f"{leaf}: {written(value)}", leaf, found, indent)
    if value is None:
        if owner.flow_style:
            raise ConfigEditError(f"{path}: expected it in a line of its own; remove it first")
        return _commented(text, pair)
    return _replaced(text, pair, value)


def _replaced(text: str, pair: tuple[yaml.Node, yaml.Node], value: object) -> str:
    """Return the text with another value of a key; comments within the old value follow it."""
    name, old = pair
    if _is_null(old) and old.start_mark.index == old.end_mark.index:
        end = text.index(":", name.end_mark.index) + 1
        return f"{text[:end]} {written(value)}{text[end:]}"
    start, end = old.start_mark.index, _end(old)
    inside = _notes(text, old, name)
    if old.start_mark.line != name.end_mark.line:  # a block list begins in the next line
        start = text.index(":", name.end_mark.index) + 1
        return f"{text[:start]} {written(value)}{_after(text, end, inside, name)}"
    return f"{text[:start]}{written(value)}{_after(text, end, inside, name)}"


def _notes(text: str, node: yaml.Node, name: yaml.Node) -> list[str]:
    """Return the comments between the parts of a value."""
    at, found = name.end_mark.index, []
    for leaf in _leaves(node):
        found += _COMMENT.findall(text[at : leaf.start_mark.index])
        at = leaf.end_mark.index
    return [*found, *_COMMENT.findall(text[at : _end(node)])]


def _after(text: str, end: int, notes: list[str], name: yaml.Node) -> str:
    """Return the text from a position on, with comments after the rest of its line."""
    if not notes:
        return text[end:]
    line_end = _line_end(text, end)
    indent, newline = " " * name.start_mark.column, _newline(text)
    own = "".join(f"{newline}{indent}{note.rstrip()}" for note in notes)
    return text[end:line_end] + own + text[line_end:]


def _commented(text: str, pair: tuple[yaml.Node, yaml.Node]) -> str:
    """Return the text with the lines of a key commented out."""
    name, old = pair
    first = text.rfind("\n", 0, name.start_mark.index) + 1
    last = _line_end(text, max(_end(old), name.end_mark.index))
    indent = " " * name.start_mark.column
    lines = text[first:last].split("\n")
    own = [
        line if line.lstrip().startswith("#") else f"{indent}#{line.removeprefix(indent)}"
        for line in lines
    ]
    return text[:first] + "\n".join(own) + text[last:]


def _inserted(
    text: str, lines: str, leaf: str, section: tuple[yaml.Node, yaml.Node] | None, indent: str
) -> str:
    """Return the text with a new key: below its commented example, else at the section's end."""
    newline = _newline(text)
    new = "".join(f"{newline}{indent}{line}" for line in lines.split("\n"))
    begin, end = 0, len(text)
    if section is not None:
        name, node = section
        begin = _line_end(text, name.end_mark.index)
        following = re.search(r"^[^\s#]", text[begin:], re.MULTILINE)
        end = begin + following.start() if following else end
    # An example of a section's key is indented, one of a top-level key is not.
    space = "[ \t]+" if indent else ""
    shown = re.search(rf"^{space}#[ \t]?{re.escape(leaf)}:.*$", text[begin:end], re.MULTILINE)
    if shown is not None:
        at = _line_end(text, begin + shown.start())
    elif section is not None:
        at = _line_end(text, max(_end(node), begin)) if not _is_null(node) else begin
    else:
        ended = text if text.endswith("\n") or not text else text + newline
        return ended + new.removeprefix(newline) + newline
    return text[:at] + new + (text[at:] or newline)


def _node(text: str) -> yaml.Node | None:
    try:
        return yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ConfigEditError("expected one YAML document; edit the file by hand") from error


def _pair(node: yaml.Node | None, key: str) -> tuple[yaml.Node, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        for name, value in node.value:
            if isinstance(name, yaml.ScalarNode) and name.value == key:
                return name, value
    return None


def _leaves(node: yaml.Node) -> Iterator[yaml.Node]:
    if isinstance(node, yaml.ScalarNode):
        yield node
    for part in _parts(node):
        yield from _leaves(part)


def _parts(node: yaml.Node) -> list[yaml.Node]:
    """Return the items of a list, or the keys and values of a mapping."""
    if isinstance(node, yaml.SequenceNode):
        return list(node.value)
    return [p for pair in node.value for p in pair] if isinstance(node, yaml.MappingNode) else []


def _end(node: yaml.Node) -> int:
    """Return where a value ends; the end of a block is at the next key, beyond comments."""
    if isinstance(node, yaml.ScalarNode) or getattr(node, "flow_style", False):
        return int(node.end_mark.index)
    return max(_end(part) for part in _parts(node))


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and str(node.tag).endswith(":null")


def _line_end(text: str, at: int) -> int:
    """Return the position of the end of a line, before its line break."""
    found = text.find("\n", at)
    if found < 0:
        return len(text)
    return found - 1 if text[found - 1 : found] == "\r" else found


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"
