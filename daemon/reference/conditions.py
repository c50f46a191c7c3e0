"""Reference of the conditions: what each means, how it is computed, which alerts have it."""

from __future__ import annotations

import importlib.resources
from typing import TYPE_CHECKING

from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.rule_files import load_events, load_shipped
from iowarden.daemon.reference.markdown import literal, page, table
from iowarden.rules.conditions.definition import parse_definitions
from iowarden.rules.rulefile.overrides import severity
from iowarden.rules.rulefile.rulefile import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from iowarden.rules.conditions.definition import Definition

_INTRODUCTION = """\
A condition is what an alert or event is about; it is their label `condition`. Several alerts can
have one condition, for example one per severity. To silence one for a week:
`iowarden silence add --for 7d --reason 'test host' condition=swap`.

Exact expressions are in [alerts](alerts.md), metrics in [metrics](metrics.md)."""
_PARTS = (
    ("How it is computed", "computed"),
    ("Thresholds", "thresholds"),
    ("Not reported", "guards"),
    ("What to do", "action"),
    ("Limits", "limits"),
)


def text() -> str:
    """Return the page."""
    file = importlib.resources.files("iowarden.rules.conditions") / "definitions.yaml"
    definitions = parse_definitions(file.read_text(encoding="utf-8"), file.name)
    alerts, events = _alerts(), _events()
    return page(
        "Conditions",
        _INTRODUCTION,
        table(
            ("condition", "alerts"),
            (
                (f"[`{word}`](#{word})", _named(alerts.get(word, {}), events.get(word, 0), word))
                for word in definitions
            ),
        ),
        *(
            part
            for word, found in definitions.items()
            for part in _definition(
                word, found, _named(alerts.get(word, {}), events.get(word, 0), word)
            )
        ),
    )


def _definition(word: str, found: Definition, named: str) -> Iterator[str]:
    yield f"## {literal(word)}"
    yield found.meaning
    for title, name in _PARTS:
        yield f"**{title}:** {getattr(found, name)}"
    yield f"**Alerts:** {named}"
    yield "\n".join(("**Sources:**", "", *(f"- {source}" for source in found.sources)))


def _alerts() -> dict[str, dict[str, list[str]]]:
    """Return the severities of each alert, by condition and name."""
    found: dict[str, dict[str, list[str]]] = {}
    for group in load_shipped(parse_config("", "defaults")):
        for rule in group.rules:
            if isinstance(rule, Rule):
                word = dict(rule.labels)["condition"].text
                levels = found.setdefault(word, {}).setdefault(rule.alert, [])
                if severity(rule) not in levels:
                    levels.append(severity(rule))
    return found


def _events() -> dict[str, int]:
    """Return how many classes of events have each condition."""
    found: dict[str, int] = {}
    for row in load_events().rows.values():
        found[row.condition] = found.get(row.condition, 0) + 1
    return found


def _named(alerts: Mapping[str, list[str]], events: int, word: str) -> str:
    shown = [
        f"[`{name}`](alerts.md#{name.lower()}) ({', '.join(levels)})"
        for name, levels in alerts.items()
    ]
    if events:
        what = "1 event class" if events == 1 else f"{events} event classes"
        shown.append(f"[{what}](alerts.md#condition-{word})")
    return ", ".join(shown)
