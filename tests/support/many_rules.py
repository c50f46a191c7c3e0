"""Rules of users in numbers that no budget foresees: short, mixed, and hostile ones."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from iowarden.rules.engine.engine import Engine
from iowarden.rules.rulefile.rulefile import SHIPPED, parse_rule_file

if TYPE_CHECKING:
    from iowarden.rules.rulefile.rulefile import RuleGroup

START = 1_800_000_000.0
MIXED = (
    "m{n} > 1e9",
    "rate(m{n}[5m]) > 1e9",
    "sum by (rack) (m{n}) > 1e15",
    "m{n} > on (device, rack) m{k} + 1e9",
    "max_over_time(m{n}[10m]) - min_over_time(m{n}[10m]) > 1e9",
)
REGEX = "(.*)(.*)(.*)(.*)(.*).{300}x"
TEXT = '{{ range $i, $x := query "m0" }}{{ $labels }}{{ end }}'
HOSTILE = {
    "Matcher": (f'm0{{device=~"{REGEX}"}} > 0', ""),
    "Regex": (f'label_replace({{__name__=~"m.*"}}, "l", "$1$2", "device", "{REGEX}")', ""),
    "Subquery": ("max_over_time(sum(m0)[100d:1s]) > 0", ""),
    "Explosion": (
        'count_values("v", (m0 or m1 or m2) * on () group_left () vector(time()) + m3) > 0',
        "",
    ),
    "Join": ('label_join(label_join(m0, "a", "$1", "device"), "b", "x", "a", "a") > -1', TEXT),
    "Product": ('count({__name__=~"m.*"} or {__name__=~"m.*"} or {device=~"d.*"}) > 0', ""),
    "Texts": ("m0 >= 0", TEXT * 20),
}
"""Alert name, expression, annotation."""


def _file(name: str, rules: list[str], interval: str) -> tuple[RuleGroup, ...]:
    lines = "\n".join(f"  - {rule}" for rule in rules)
    text = f"groups:\n- name: {name}\n  interval: {interval}\n  rules:\n{lines}\n"
    return parse_rule_file(text, name)


def groups(short: int, mixed: int, metrics: int) -> list[RuleGroup]:
    """Return a shipped rule, and the user's groups of so many rules, hostile ones too."""
    watched = parse_rule_file(
        "groups: [{name: shipped, interval: 1s, rules: [{alert: Shipped, expr: watched > 0,"
        " labels: {severity: critical}}]}]",
        f"{SHIPPED}x.yaml",
    )
    few = [f"{{alert: Short{n}, expr: 'watched >= {n} * 0'}}" for n in range(short)]
    many = [
        f"{{alert: Mixed{n}, expr: '{text.format(n=n % metrics, k=(n + 1) % metrics)}'}}"
        for n, text in enumerate(itertools.islice(itertools.cycle(MIXED), mixed))
    ]
    bad = [
        f"{{alert: {name}, expr: '{text}', annotations: {{summary: '{summary}'}}}}"
        for name, (text, summary) in HOSTILE.items()
    ]
    bad.append('{record: recorded, expr: \'count_values("v", {__name__=~"m.*"} * time())\'}')
    return [
        *watched,
        *_file("short", few, "15s"),
        *_file("mixed", many, "15s"),
        *_file("hostile", bad, "15s"),
    ]


class Crowded:
    """An engine with these rules over so many series, of metrics m0, m1 ... of many devices."""

    def __init__(self, short: int, mixed: int, series: int, metrics: int = 20) -> None:
        self.now = START
        self.engine = Engine(groups(short, mixed, metrics), [], START)
        self._labels = [
            (("device", f"d{number}"), ("rack", str(number % 40)))
            for number in range(series // metrics)
        ]
        self._metrics = [f"m{number}" for number in range(metrics)]
        self._fed = -15.0
        self.evaluated: set[str] = set()

    def second(self, watched: float) -> None:
        """Let a second pass."""
        self.now += 1.0
        hub = self.engine.hub
        hub.feed("watched", [("watched", (), watched)], self.now)
        if self.now - self._fed >= 15.0:
            self._fed = self.now
            value = self.now - START
            hub.feed(
                "m", [(m, own, value) for m in self._metrics for own in self._labels], self.now
            )
        self.engine.rules.evaluate(self.now)
        self.evaluated |= {alert.name for alert in self.engine.rules.alerts() if alert.active}

    def firing(self) -> set[str]:
        """Return the names of the alerts that fire."""
        alerts = self.engine.rules.alerts()
        return {each.name for each in alerts if each.state.value == "firing"}
