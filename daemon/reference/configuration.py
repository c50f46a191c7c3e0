"""Reference of the configuration file: every key, from the table of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.daemon.config.keys import KEYS, OVERRIDE_KEYS
from iowarden.daemon.reference.markdown import literal, page, table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iowarden.daemon.config.keys import Key

_INTRODUCTION = """\
The configuration file is `/etc/iowarden/iowarden.yaml` (YAML). Every key is optional: a file that
is empty or missing means the defaults below. `packaging/iowarden.yaml` has all keys as comments.

`iowarden config check` tests the file and all rule files, as root with the permissions of the user
`iowarden`; with exit status 78 it names file, line, key, value and what is expected. `systemctl
reload iowarden` applies a changed file, or refuses it with the reason in the journal and continues
with the old one. A change of `state_directory`, `listen`, `http`, `expose`, `targets`, `probe` or
of a password credential needs `systemctl restart iowarden`.

A duration is a number with a unit, as in Prometheus: `500ms`, `90s`, `1h30m`, `7d`."""
_OVERRIDES = """\
Changes shipped rules; `NAME` is one alert or recording rule, `NAME/SEVERITY` one of several alerts
of that name, or a class of events, which has `enabled` and `severity` alone. Examples:
[rules](rules.md#change-a-shipped-rule)."""


def text() -> str:
    """Return the page."""
    sections: dict[str, list[Key]] = {}
    for key in KEYS:
        sections.setdefault(key.path.rpartition(".")[0], []).append(key)
    top = [key for key in sections.pop("") if key.kind.tags]
    lists = [key for key in KEYS if not key.kind.tags and "." not in key.path]
    return page(
        "Configuration",
        _INTRODUCTION,
        "## Top level",
        _keys([*top, *lists]),
        *(part for name, keys in sections.items() for part in (f"## {literal(name)}", _keys(keys))),
        "## `overrides`",
        _OVERRIDES,
        _keys(OVERRIDE_KEYS),
    )


def _keys(keys: Iterable[Key]) -> str:
    return table(
        ("key", "value", "default", "meaning"),
        (
            (
                literal(key.path),
                key.kind.expected + (", or a list of them" if _may_be_list(key) else ""),
                literal(key.default) or key.otherwise,
                key.explanation,
            )
            for key in keys
        ),
    )


def _may_be_list(key: Key) -> bool:
    return key.kind.is_list and bool(key.kind.tags)
