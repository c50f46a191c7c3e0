"""Three hosts in one Prometheus, generated from the unit tests of a rule file.

The sick host has the series of the test. The healthy one, under another job with the same instance,
and the one that has just booted have the same series with values at which the test expects no
alert. Expected are the alerts of the sick host only, with the same texts.
"""

from __future__ import annotations

import copy
import json
from typing import TYPE_CHECKING, Any

import yaml

from iowarden.rules.alerting.unit_tests import parse_unit_tests, run
from iowarden.rules.promql import notation
from iowarden.rules.promql.format import quoted, shortest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iowarden.rules.rulefile.rulefile import RuleGroup

SICK = {"instance": "shelf:9748", "job": "iowarden"}
HEALTHY = {"instance": "shelf:9748", "job": "iowarden_rack_2"}
BOOTED = {"instance": "attic:9748", "job": "iowarden"}
_CLOCK = "iowarden_clock_monotonic_seconds"

Case = dict[str, Any]


def of_three_hosts(text: str, rules: Sequence[RuleGroup], rule_file: str) -> dict[str, Any]:
    """Return the generated tests of a file of unit tests, in promtool's format.

    Tests that expect no alert at all are left out. Errors: AssertionError if no healthy host can
    be made of a test.
    """
    # Only texts, as in promtool: 0x10 is eleven zeros, not 16.
    file = yaml.load(text, Loader=yaml.BaseLoader)
    interval = file.get("evaluation_interval", "1m")
    cases = [
        _three(case, file["tests"], rules, interval)
        for case in file["tests"]
        if _expects(case) and not {"external_labels", "external_url"} & case.keys()
    ]
    return {"rule_files": [rule_file], "evaluation_interval": interval, "tests": cases}


def _expects(case: Case) -> bool:
    return any(one.get("exp_alerts") for one in case.get("alert_rule_test", ()))


def _three(case: Case, others: list[Case], rules: Sequence[RuleGroup], interval: str) -> Case:
    for healthy in _healthy(case, others):
        booted = _booted(healthy, case)
        if all(_silent(series, case, rules, interval) for series in (healthy, booted)):
            found = copy.deepcopy(case)
            found.pop("promql_expr_test", None)
            found["input_series"] = [
                *(_of(one, SICK) for one in case["input_series"]),
                *(_of(one, HEALTHY) for one in healthy),
                *(_of(one, BOOTED) for one in booted),
            ]
            for one in found["alert_rule_test"]:
                for alert in one.get("exp_alerts") or ():
                    alert["exp_labels"] = {**alert.get("exp_labels", {}), **SICK}
            return found
    raise AssertionError(f"no healthy host for the test {case.get('name')!r}")


def _healthy(case: Case, others: list[Case]) -> Iterator[list[dict[str, str]]]:
    """Yield series of hosts that may be healthy: at a moment of the test, or first in another."""
    lengths = [len(notation.values(str(one["values"]))) for one in case["input_series"]]
    longest = max(lengths)
    for at in (0, *range(1, 4), longest - 1):
        yield list(_frozen(case["input_series"], at, longest))
    names = {notation.series(one["series"])[0] for one in case["input_series"]}
    alike = [
        (len(names & {notation.series(one["series"])[0] for one in other["input_series"]}), other)
        for other in others
        if other is not case and "input_series" in other
    ]
    for common, other in sorted(alike, key=lambda each: (-each[0], _expects(each[1]))):
        if common:
            yield list(_frozen(other["input_series"], 0, longest))
    yield list(_zero(case["input_series"], longest))


def _frozen(series: list[dict[str, str]], at: int, length: int) -> Iterator[dict[str, str]]:
    for one in series:
        values = notation.values(str(one["values"]))
        value = values[at] if at < len(values) else None
        if isinstance(value, float):
            yield {"series": one["series"], "values": f"{shortest(value)}x{length}"}


def _zero(series: list[dict[str, str]], length: int) -> Iterator[dict[str, str]]:
    for one in series:
        yield {"series": one["series"], "values": f"0x{length}"}


def _booted(series: list[dict[str, str]], case: Case) -> list[dict[str, str]]:
    """Return the series of a host of which the first scrape is missed, with a clock from 0 on."""
    length = max(len(notation.values(str(one["values"]))) for one in case["input_series"])
    others = [one for one in series if notation.series(one["series"])[0] != _CLOCK]
    return [
        *({**one, "values": f"_ {one['values']}"} for one in others),
        {"series": _CLOCK, "values": f"0+1x{length}"},
    ]


def _silent(
    series: list[dict[str, str]], case: Case, rules: Sequence[RuleGroup], interval: str
) -> bool:
    """Return whether a host alone has none of the alerts of a test at any time of it."""
    alone = {
        **{key: case[key] for key in ("name", "interval", "start_timestamp") if key in case},
        "input_series": series,
        "alert_rule_test": [{**one, "exp_alerts": []} for one in case["alert_rule_test"]],
    }
    text = json.dumps({"evaluation_interval": interval, "tests": [alone]})
    return not run(parse_unit_tests(text, "generated"), rules)


def _of(one: dict[str, str], target: dict[str, str]) -> dict[str, str]:
    name, labels = notation.series(one["series"])
    pairs = ",".join(f"{key}={quoted(value)}" for key, value in (*labels, *target.items()))
    return {"series": f"{name}{{{pairs}}}", "values": str(one["values"])}
