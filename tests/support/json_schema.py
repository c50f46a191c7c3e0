"""The part of JSON Schema (2020-12) that packaging/doc uses, to compare a document with it."""

from __future__ import annotations

import re
from typing import Any

_TYPES: dict[str, Any] = {
    "array": list,
    "boolean": bool,
    "integer": int,
    "null": type(None),
    "object": dict,
    "string": str,
}
_KNOWN = frozenset(
    "$defs $ref $schema anyOf const description enum items maxItems minimum pattern properties"
    " required title type".split()
)


def problems(
    value: object, schema: dict[str, Any], *, root: dict[str, Any] | None = None, at: str = "$"
) -> list[str]:
    """Return what in a value does not fit a schema."""
    root = schema if root is None else root
    assert schema.keys() <= _KNOWN, schema.keys() - _KNOWN
    found: list[str] = []
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/$defs/")
        found += problems(value, root["$defs"][name], root=root, at=at)
    if "anyOf" in schema and all(problems(value, s, root=root, at=at) for s in schema["anyOf"]):
        found.append(f"{at}: fits none")
    if "const" in schema and value != schema["const"]:
        found.append(f"{at}: not {schema['const']}")
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{at}: none of {schema['enum']}")
    if "type" in schema and not isinstance(value, _TYPES[schema["type"]]):
        return [*found, f"{at}: no {schema['type']}"]
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        found.append(f"{at}: does not match")
    if isinstance(value, int) and value < schema.get("minimum", value):
        found.append(f"{at}: too small")
    if isinstance(value, dict):
        found += [f"{at}: no {name}" for name in schema.get("required", ()) if name not in value]
        for name, part in schema.get("properties", {}).items():
            if name in value:
                found += problems(value[name], part, root=root, at=f"{at}.{name}")
    if isinstance(value, list):
        if len(value) > schema.get("maxItems", len(value)):
            found.append(f"{at}: too long")
        for number, each in enumerate(value):
            if "items" in schema:
                found += problems(each, schema["items"], root=root, at=f"{at}[{number}]")
    return found
