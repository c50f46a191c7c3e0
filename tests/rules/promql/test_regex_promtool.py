"""Groups of regular expressions: what promtool puts into a label or a text is what we put there."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from support.tiers import examples

from iowarden.rules.promql.functions import label_replace
from iowarden.rules.rulefile.template import compile_template

if TYPE_CHECKING:
    from pathlib import Path

PROMTOOL = shutil.which("promtool")
VALUES = (
    "a",
    "b",
    "ab",
    "ba",
    "aab",
    "abab",
    "aaaa",
    "bbaab",
    "abbabaab",
    "xaBy",
    "nvme0n1",
    "a-b",
)
ATOMS = ("a", "b", "ab", ".", "[ab]", "(?i:A)", "^", "$", r"\b", r"\B", "", r"\w", "[^b]")
TIMES = ("*", "+", "?", "*?", "+?", "??", "{2}", "{1,}", "{0,2}", "{2,}?", "{1,3}?", "{0}")
PATTERNS = (
    *("(.*)", "(a|ab)(c|bcd)?(b*)", "(a*)*", "(a*)+", "(|a)*", "(|a)+b?", "((a)|b)*", "(a|b)*?b"),
    *("(a{0,2}){0,3}(.*)", "(?:(a)|(b))+", "(x?a|xaB)(y|By)", "(?P<n>a+)(?P<m>.*)", "(a+)+(.*)"),
    *(
        "nvme([0-9]+)n([0-9]+)",
        "(?U)(a+)(.*)",
        "(a(?U)b*)(?-U:b*)(.*)",
        "(.*?)(b|$)(.*)",
        "()*(.+)",
    ),
    *("(a??)*(.*)", "(a|b|)*(ab)?", "((a*)(b*))*", "(^|a)+b*", r"(\b|a)*.*", "(a*?)*?(b*)"),
    *("((|ab){0,2})", r"(?i:A)((|b\w[ab])){0,2}"),
)
REPLACEMENT = "<$0|$1|${2}|$3|$n|$01|$1x|$$1>"


def pattern(chance: random.Random, depth: int) -> str:
    """Return a pattern, of groups in groups."""
    kind = chance.randrange(4) if depth else 0
    if kind == 0:
        return chance.choice(ATOMS)
    inner = [pattern(chance, depth - 1) for _ in range(chance.randint(1, 3))]
    if kind == 1:
        return "".join(inner)
    text = "|".join(inner)
    if kind == 2:
        return f"({text})"
    return f"{chance.choice(('(', '(?:'))}{text}){chance.choice(TIMES)}"


def some_patterns(seed: int, count: int) -> list[str]:
    """Return patterns of which promtool reads each."""
    chance = random.Random(seed)
    return [*PATTERNS, *(pattern(chance, 4) for _ in range(count))]


def promtool(tmp_path: Path, rules: list[object], tests: dict[str, object]) -> None:
    """Have promtool compare what is expected with what it finds."""
    assert PROMTOOL is not None
    rule_file, test_file = tmp_path / "rules.yaml", tmp_path / "test.yaml"
    rule_file.write_text(json.dumps({"groups": [{"name": "g", "rules": rules}]}))
    test_file.write_text(json.dumps({"rule_files": [str(rule_file)], "tests": [tests]}))
    done = subprocess.run(
        [PROMTOOL, "test", "rules", test_file], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.fuzz
@pytest.mark.skipif(PROMTOOL is None, reason="no promtool here: make test fetches it")
def test_label_replace_takes_the_groups_that_promtool_takes(tmp_path: Path) -> None:
    """Of 12 values by all these patterns, loops with empty turns among them."""
    tests = []
    for each in some_patterns(1, examples(40)):
        samples = []
        for value in VALUES:
            [(_, labels, _)] = label_replace(
                [("x", (("v", value),), 1.0)], "out", REPLACEMENT, "v", each
            )
            own = ", ".join(f"{name}={json.dumps(text)}" for name, text in labels)
            samples.append({"labels": f"x{{{own}}}", "value": 1})
        arguments = ", ".join(json.dumps(one) for one in ("out", REPLACEMENT, "v", each))
        expression = f"label_replace(x, {arguments})"
        tests.append({"expr": expression, "eval_time": "0m", "exp_samples": samples})
    series = [{"series": f"x{{v={json.dumps(value)}}}", "values": "1"} for value in VALUES]
    promtool(tmp_path, [], {"interval": "1m", "input_series": series, "promql_expr_test": tests})


@pytest.mark.fuzz
@pytest.mark.skipif(PROMTOOL is None, reason="no promtool here: make test fetches it")
def test_texts_are_replaced_where_promtool_replaces_them(tmp_path: Path) -> None:
    """Each match of all these patterns in 12 texts, with both of our methods."""
    rules: list[object] = []
    tests = []
    long = "ab-ba " * 30
    for number, each in enumerate(some_patterns(2, examples(40))):
        regex = json.dumps(each)
        template = "|".join(
            f"{{{{ reReplaceAll {regex} {json.dumps(REPLACEMENT)} {text} }}}}"
            f"{{{{ match {regex} {text} }}}}"
            for text in map(json.dumps, (*VALUES, long))
        )
        text = compile_template(template).render({}, 1.0, None)
        rules.append({"alert": f"A{number}", "expr": "x", "annotations": {"text": template}})
        expected = {"exp_labels": {}, "exp_annotations": {"text": text}}
        tests.append({"eval_time": "0m", "alertname": f"A{number}", "exp_alerts": [expected]})
    series = [{"series": "x", "values": "1"}]
    promtool(tmp_path, rules, {"interval": "1m", "input_series": series, "alert_rule_test": tests})
