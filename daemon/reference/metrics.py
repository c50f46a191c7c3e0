"""Reference of the metrics: every family on '/metrics', by the collector or signal it is from."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from iowarden.collectors.quantity import duration
from iowarden.collectors.registry import SOURCES
from iowarden.daemon import metrics, process_metrics
from iowarden.daemon.config.keys import KEYS
from iowarden.daemon.http import exposition
from iowarden.daemon.metric_labels import LABELS
from iowarden.daemon.metrics import unit
from iowarden.daemon.reference.markdown import literal, literals, page, table
from iowarden.daemon.service import loop
from iowarden.rules.engine import engine
from iowarden.rules.signals.table import GROUPS
from iowarden.rules.topology import device_changes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import ModuleType

    from iowarden.collectors.model import Family
    from iowarden.collectors.source import Source

_INTRODUCTION = """\
`curl http://127.0.0.1:9748/metrics` shows every family of which there is a sample, in Prometheus's
text format. To scrape it from another host, set `listen` ([configuration](configuration.md)).

A family without samples is left out: what cannot be read is absent, never 0. A unit is the end of
the name: base units, `_total` for counters; a family without a unit is a number, a state or 1. Only
settings that the kernel has as percentages are shown as they are set, under their own name:
`_percent`. A family's data source is the heading that it is listed under. Recorded series and the
built-in `ALERTS` can be used in rules as well."""
_COLLECTED = "Read from the kernel and from programs; the configuration's key sets how often."
_COMPUTED = """\
Computed second by second from what the collectors named in each heading read. A signal is absent
while one of its collectors has no data."""
_OWN = "About iowarden itself: its collectors, rules, notifications, probe and process."
_OTHERS = """\
With `expose: {node: true}` the collectors also show node_exporter's families (the names begin with
what is listed here), with `expose: {smartctl: true}` those of smartctl_exporter. Rules can use both
in any case. Names, labels and values are those of node_exporter 1.12 and smartctl_exporter 0.14."""
_OWN_FAMILIES = (
    *engine.FAMILIES,
    *metrics.FAMILIES,
    *process_metrics.FAMILIES,
    *loop.FAMILIES,
    exposition.FAILURES,
)


def text() -> str:
    """Return the page."""
    return page(
        "Metrics",
        _INTRODUCTION,
        "## Collectors",
        _COLLECTED,
        *_collectors(),
        "## Signals",
        _COMPUTED,
        *_signals(),
        "## iowarden itself",
        _OWN,
        _families(_OWN_FAMILIES),
        "## Names of other exporters",
        _OTHERS,
        _others(),
    )


def families() -> tuple[Family, ...]:
    """Return every family of iowarden's own, in the order of the page."""
    return (
        *(family for source in SOURCES for family in source.families),
        *(family for group in GROUPS for family in group.families),
        *device_changes.FAMILIES,
        *_OWN_FAMILIES,
    )


def _collectors() -> Iterator[str]:
    for source in SOURCES:
        yield f"### `{source.name}`"
        yield f"{_summary('SOURCE', source)} Every {duration(source.period_seconds)} by default."
        yield _families(source.families)


def _interval(source: Source[Any]) -> str:
    for key in KEYS:
        if key.path.endswith(f".{source.name}") and key.explanation == source.period_help:
            return f" Every {duration(source.period_seconds)} (`{key.path}`)."
    return ""


def _signals() -> Iterator[str]:
    for group in GROUPS:
        yield f"### `{group.name}`, from {', '.join(group.sources)}"
        yield _summary("GROUP", group)
        yield _families(group.families)
    yield "### `devices`, from block"
    yield _first_line(device_changes)
    yield _families(device_changes.FAMILIES)


def _others() -> str:
    return table(
        ("collector", "names"),
        (
            (literal(source.name), literals(f"{prefix}*" for prefix in source.node_prefixes))
            for source in SOURCES
            if source.node_prefixes
        ),
    )


def _families(found: Iterable[Family]) -> str:
    return table(
        ("name", "type", "unit", "labels", "meaning"),
        (
            (
                literal(each.name),
                each.kind,
                unit(each.name) or "-",
                literals(LABELS[each.name]) or "-",
                each.help,
            )
            for each in found
        ),
    )


def _summary(name: str, declared: object) -> str:
    """Return the first line of the docstring of the module that ends in SOURCE or GROUP."""
    for module in [*sys.modules.values()]:
        if any(
            value is declared
            for key, value in vars(module).items()
            if key == name or key.endswith(f"_{name}")
        ):
            return _first_line(module)
    raise LookupError(f"expected a module with this {name}, got none: {declared!r}")


def _first_line(module: ModuleType) -> str:
    return (module.__doc__ or "").partition("\n")[0]
