"""The rule language, and rules of users in numbers."""

from __future__ import annotations

import sys
import time
import tracemalloc
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.many_rules import Crowded
from table import cpu_milliseconds, row

from iowarden.rules.promql.evaluator import compile_expression
from iowarden.rules.promql.store import SeriesStore

MIXED_RULES = (
    "{m} > 5e12",
    "{m} < 0",
    '{m}{{device=~"sd(a|b).*"}} > 5e12',
    "{m} / {n} > 1e12",
    "{m} > 5e12 and on (device) {n} < 5",
    "rate({m}[5m]) > 1e9",
    "rate({m}[5m]) / rate({n}[5m]) > 1e9",
    "sum by (enclosure) (rate({m}[5m])) > 1e9",
    "avg without (device) ({m}) > 5e12",
    "increase({m}[1h]) > 1e12",
    "irate({m}[2m]) > 1e9",
    "max_over_time({m}[30m]) > 5e12",
    "avg_over_time({m}[15m]) > 5e12",
    "changes({m}[10m]) < 0",
    "count_over_time(({m} > 5e12)[5m:1m]) >= 3",
    "predict_linear({m}[1h], 14400) < 0 and {m} > 5e12",
    "delta({m}[10m]) > 1e12",
    "absent({m})",
    "topk(3, {m}) > 5e12",
    "{m} * on (device) group_left (model) {n} > 1e30",
)
"""What public rules for storage use, plain comparisons and rates above all."""


def bench_rules() -> None:
    """Measure the rule language: 20 metrics of 50 disks, an hour of samples each 15 s."""
    now, metrics = 1.8e9 + 3600, [f"node_disk_{number}_total" for number in range(20)]
    labels = [(("device", f"sd{i}"), ("enclosure", str(i // 12))) for i in range(50)]
    tracemalloc.start()  # what the process holds also has what earlier rows gave back
    store = SeriesStore(dict.fromkeys(metrics, 3900.0))
    for at in range(0, 3601, 15):
        samples = [(m, own, at * 1e3 + i) for m in metrics for i, own in enumerate(labels)]
        store.append_many(1.8e9 + at, samples)
    held = tracemalloc.get_traced_memory()[0] / (241 * len(metrics) * len(labels))
    tracemalloc.stop()
    row("history of 1,000 series, bytes per sample", f"{held:.1f}", "<= 24")
    mixed = [
        compile_expression(
            MIXED_RULES[i % 20].format(m=metrics[i % 20], n=metrics[(i + i // 20) % 20])
        )
        for i in range(100)
    ]
    took = cpu_milliseconds(lambda: [rule.evaluate(store, now) for rule in mixed], 9)
    row("100 mixed rules over 1,000 series, ms per round", f"{took:.2f}", "< 20")
    all_of_them = compile_expression('predict_linear({device!=""}[1h], 14400)')
    wide = SeriesStore({"m": 3900.0})
    for at in range(0, 3601, 15):
        wide.append_many(1.8e9 + at, [("m", (("device", str(i)),), at * i) for i in range(1000)])
    took = cpu_milliseconds(lambda: all_of_them.evaluate(wide, now), 9)
    row("predict_linear[1h] over 1,000 series of 15 s, ms", f"{took:.2f}", "< 60")


def bench_crowded(seconds: int) -> None:
    """Measure 2,000 short, 500 mixed and hostile rules of the user over 20,000 series."""
    machine, late, delay, worst = Crowded(2000, 500, 20_000), 0, 0.0, 0.0
    began = time.process_time()
    for second in range(seconds):
        tick = time.process_time()
        machine.second(float(second % 2))
        worst = max(worst, time.process_time() - tick)
        late += ("Shipped" in machine.firing()) is not bool(second % 2)
        late_files = machine.engine.hub.last("iowarden_rule_evaluation_delay_seconds")
        delay = max(delay, *(value for _, _, value in late_files))
    took = (time.process_time() - began) / seconds
    ran = sum(name.startswith("Short") for name in machine.evaluated)
    row("2,500 rules of users: shipped alerts late, of seconds", f"{late} of {seconds}", "0")
    row("2,500 rules of users: short rules that had their turn", f"{ran}", "2000")
    row("2,500 rules of users: latest of them, s", f"{delay:.0f}")
    row("2,500 rules of users: ms a second, worst ms", f"{took * 1e3:.0f}, {worst * 1e3:.0f}")
    row("2,500 rules of users: refused", ", ".join(sorted(machine.engine.rules.problems)))
