"""Templates as promtool expands them: the same texts, for odd values, compared byte by byte."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from iowarden.rules.promql.evaluator import Sample
from iowarden.rules.rulefile.template import compile_template

if TYPE_CHECKING:
    from pathlib import Path

PROMTOOL = shutil.which("promtool")
LABELS = {"device": "sdb", "instance": "nas.example.org:9100", "path": "/srv/a b", "empty": ""}
VALUES = (
    *("0", "1", "-1", "61", "0.1", "-0.3", "1.5", "123.456", "999.9949", "1000", "1023.9", "1024"),
    *("1e6", "1.5e6", "123456789", "1e20", "1e21", "1.7976931348623157e308", "5e-324", "1e-5"),
    *("0.00021", "59.999", "60", "125.9", "3600", "86399.9", "100000", "1435065584.128"),
    *("NaN", "+Inf", "-Inf", "2147483648", "-2.5e-7", "0.123456789012345678"),
)
TEMPLATES = (
    "{{ $value }}|{{ .Value }}|{{ print $value }}|{{ println $value }}",
    "{{ $labels }}|{{ $labels.device }}|{{ $labels.none }}|{{ .Labels.path }}",
    "{{ humanize $value }}|{{ humanize1024 $value }}",
    "{{ humanizeDuration $value }}",
    "{{ humanizePercentage $value }}",
    '{{ printf "%.0f" $value }}|{{ printf "%.3f" $value }}|{{ printf "%8.2f" $value }}',
    '{{ printf "%e" $value }}|{{ printf "%g" $value }}|{{ printf "%v" $value }}',
    '{{ printf "%d" $value }}|{{ printf "%s" $value }}|{{ printf "%t" $value }}',
    '{{ printf "%5s|%-5s|%q" $labels.device $labels.device $labels.path }}',
    '{{ printf "%+.1f%%" $value }}|{{ printf "%06.1f" $value }}|{{ printf "%x" 255 }}',
    "{{ if gt $value 60.0 }}hot{{ else if lt $value 0.0 }}cold{{ else }}mild{{ end }}",
    "{{ if eq $value 1.0 }}one{{ end }}|{{ ne $value 1.0 }}|{{ le $value 1.5 }}",
    "{{ with $labels.device }}<{{ . }}>{{ else }}none{{ end }}{{ with $labels.none }}x{{ end }}",
    "{{ range $name, $text := $labels }}{{ $name }}={{ $text }};{{ end }}",
    "{{ toUpper $labels.device }}{{ title $labels.path }}{{ toLower $labels.path }}",
    '{{ reReplaceAll "([a-z])([0-9]*)" "$2<$1>" $labels.instance }}',
    '{{ match "^s.b$" $labels.device }}|{{ match "srv" $labels.path }}|{{ match "^srv" "x" }}',
    "{{ stripPort $labels.instance }}|{{ len $labels.device }}|{{ len $labels }}",
    '{{ index $labels "device" }}|{{ and $labels.device $value }}|{{ or $labels.none "x" }}',
    "{{ not $value }}|{{ not $labels.none }}|{{ $x := 3 }}{{ $x }}|{{ if $value }}y{{ end }}",
    '  {{- $labels.device -}}  |{{/* a remark */}}|{{ `raw \\n` }}|{{ "a\\tb" }}',
    '{{ query "up" | sortByLabel "job" | first | value }}|{{ query "up" | len }}',
    '{{ range query "up" | sortByLabel "job" }}{{ .Labels.job }}={{ .Value }};{{ end }}',
    '{{ range query "none" }}x{{ else }}nothing{{ end }}|{{ query "none" | len }}',
    '{{ $value | humanize | printf "%s of it" }}|{{ print 1 2 "a" 3 }}',
)


def query(expression: str) -> list[Sample]:
    """What the queries of the templates give in the test below."""
    if expression == "none":
        return []
    assert expression == "up"
    return [Sample("up", (("job", "a"),), 1.0), Sample("up", (("job", "b"),), 0.5)]


def text(template: str, value: str) -> str:
    """What the project makes of a template, for the series of the test below."""
    labels = {name: text for name, text in LABELS.items() if text} | {"__name__": "x"}
    return compile_template(template).render(labels, float(value), query)


def comparable(template: str, value: str) -> bool:
    """Beyond 63 bits of seconds Go's duration is whatever the processor makes of the overflow."""
    return "humanizeDuration" not in template or not 2.0**63 <= abs(float(value)) < float("inf")


@pytest.mark.skipif(PROMTOOL is None, reason="no promtool here: make test fetches it")
def test_every_text_is_that_of_promtool(tmp_path: Path) -> None:
    """25 templates for 34 values, among them the largest, the smallest, NaN and infinities."""
    assert PROMTOOL is not None
    own = {name: label for name, label in LABELS.items() if label}
    pairs = ", ".join(f'{name}="{label}"' for name, label in own.items())
    rules = [
        {"alert": f"A{number}", "expr": "x == x or x != x", "annotations": {"text": template}}
        for number, template in enumerate(TEMPLATES)
    ]
    tests = [
        {
            "interval": "1m",
            "input_series": [
                {"series": f"x{{{pairs}}}", "values": value},
                {"series": 'up{job="a"}', "values": "1"},
                {"series": 'up{job="b"}', "values": "0.5"},
            ],
            "alert_rule_test": [
                {
                    "eval_time": "0m",
                    "alertname": f"A{number}",
                    "exp_alerts": [
                        {"exp_labels": own, "exp_annotations": {"text": text(template, value)}}
                    ],
                }
                for number, template in enumerate(TEMPLATES)
                if comparable(template, value)
            ],
        }
        for value in VALUES
    ]
    rule_file, test_file = tmp_path / "rules.yaml", tmp_path / "test.yaml"
    rule_file.write_text(json.dumps({"groups": [{"name": "g", "rules": rules}]}))
    test_file.write_text(json.dumps({"rule_files": [str(rule_file)], "tests": tests}))
    done = subprocess.run(
        [PROMTOOL, "test", "rules", test_file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
