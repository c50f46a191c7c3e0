"""YAML as two loaders read it: libyaml, and PyYAML's own where Python comes without libyaml."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from iowarden.rules import yaml_nodes
from iowarden.rules.rulefile.rulefile import parse_rule_file
from iowarden.rules.yaml_nodes import NotYamlError, RuleFileError, root_node

RULES = Path(__file__).parents[2] / "rules"
RULE = "groups:\n- name: g\n  rules:\n  - alert: A\n    expr: up\n"
ALIASES = "a: &a [x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 8)}]\n"
    for old, new in zip("abcdefghijklmno", "bcdefghijklmnop", strict=True)
)
"""Eight to the power of sixteen times 'x'."""

libyaml = pytest.mark.skipif(not yaml.__with_libyaml__, reason="PyYAML was built without libyaml")


@pytest.fixture(params=[pytest.param("libyaml", marks=libyaml), "python"])
def loader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have texts read with libyaml, or as where there is none."""
    if request.param == "python":
        monkeypatch.setattr(yaml_nodes, "_LIBYAML", None)


@pytest.mark.usefixtures("loader")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("[" * 30_000 + "\n", "1:65: expected at most 64 levels", id="brackets"),
        pytest.param("groups: " + "{a: " * 30_000 + "\n", "1:261: expected at mo", id="braces"),
        pytest.param("- " * 30_000 + "a\n", "1:129: expected at most 64 levels", id="dashes"),
        pytest.param("? " * 30_000 + "a\n", "1:129: expected at most 64 levels", id="questions"),
        pytest.param(
            "".join(" " * depth + "a:\n" for depth in range(300)),
            "65:65: expected at most 64 levels",
            id="indented",
        ),
        pytest.param("]" * 30_000 + "\n", "1:1: not YAML: ", id="closing-brackets"),
        pytest.param("groups: [\n", "2:1: not YAML: while parsing a flow node", id="open"),
        pytest.param("groups: [a}\n", "1:11: not YAML: while parsing a flow seq", id="crossed"),
        pytest.param("groups: 'a\n\n", "3:1: not YAML: while scanning a quoted", id="quote"),
        pytest.param('groups: "a\n--- b"\n', "2:1: not YAML: while scanning a q", id="quoted-end"),
        pytest.param('groups: "\\q"\n', "1:11: not YAML: while scanning", id="escape"),
        pytest.param('groups: "\\xfg"\n', "1:12: not YAML: while scanning", id="hexadecimal"),
        pytest.param('groups: "\\ud800"\n', "1:9: groups: expected a list", id="surrogate"),
        pytest.param('a: "\\UFFFFFFFF"\n', "1:1: not YAML: after this, a number", id="no-code"),
        pytest.param('a: "\\U00110000"\n', "1:1: not YAML: after this, a num", id="past-unicode"),
        pytest.param("groups:\n\t- a\n", "2:1: not YAML: while scanning for t", id="tab"),
        pytest.param("groups: |\n  a\n\tb\n", "3:1: not YAML: while scanning", id="tab-in-block"),
        pytest.param("groups: a\x00b\n", "1:10: not YAML: expected text, got U+0000", id="nul"),
        pytest.param("groups:\n# \x1b[31m\n", "2:3: not YAML: expected text, got", id="terminal"),
        pytest.param("a: \ud800\n", "1:4: not YAML: expected text, got U+D800", id="undecodable"),
        pytest.param("\ufeffgroups: a: b\n", "1:11: not YAML: mapping values", id="byte-order"),
        pytest.param("a: 1\r\nb: c: d\r\n", "2:5: not YAML: mapping values", id="carriage-return"),
        pytest.param("a: x\u2028b: c: d\n", "1:10: not YAML: mapping values", id="separator"),
        pytest.param("groups: *g\n", "1:9: not YAML: found undefined alias", id="no-anchor"),
        pytest.param("groups: &\n", "1:10: not YAML: while scanning an anchor", id="no-name"),
        pytest.param(ALIASES + "groups: *p\n", "1:1: file: unknown key 'a'", id="laughs"),
        pytest.param("groups: &g [*g, *g]\n", "1:9: group: expected a mapping", id="itself"),
        pytest.param("groups: []\ngroups: []\n", "2:1: file: duplicate key", id="duplicate"),
        pytest.param("<<: {groups: []}\n", "1:1: file: unknown key '<<'", id="merge"),
        pytest.param("groups: !!python/name:os.abort x\n", "1:9: groups: expec", id="python-tag"),
        pytest.param("groups: !x!y a\n", "1:9: not YAML: while parsing a node", id="no-handle"),
        pytest.param("groups: !<%ff%fe> a\n", "1:11: not YAML: while scanning", id="tag-bytes"),
        pytest.param("%YAML 3.0\n---\na: b\n", "1:1: not YAML: found incompat", id="version"),
        pytest.param(f"%YAML 1.{'9' * 5000}\n---\na\n", "1:1: not YAML: after", id="long-version"),
        pytest.param("%TAG ! a\n%TAG ! b\n---\na\n", "2:1: not YAML: dupl", id="two-handles"),
        pytest.param("--- a\n--- b\n", "2:1: not YAML: expected a single doc", id="two-documents"),
        pytest.param("groups: |#\n", "1:10: not YAML: while scanning a block", id="block-comment"),
        pytest.param("groups: |0\n  a\n", "1:10: not YAML: while scanning a bl", id="no-indent"),
        pytest.param("groups: @a\n", "1:9: not YAML: while scanning for the next", id="reserved"),
        pytest.param("a: 1\n b: 2\n", "2:3: not YAML: mapping values are not", id="indentation"),
        pytest.param("a: [\nb\n", "3:1: not YAML: while parsing a flow sequ", id="unindented"),
        pytest.param("a" * 2000 + ": [\n", "1:2001: not YAML: mapping values", id="long-key"),
        pytest.param("groups: " + "a" * 100_000 + "\n", "1:9: groups: expected a li", id="long"),
        pytest.param("groups: [{name: }]\n", "1:10: group: expected a name", id="no-value"),
    ],
)
def test_what_is_no_rule_file_is_refused_at_the_same_place(text: str, message: str) -> None:
    """With either loader; none overflows a stack, and none fails in another way."""
    with pytest.raises(RuleFileError) as caught:
        parse_rule_file(text, "x.yaml")
    assert caught.value.errors[0].startswith(f"'x.yaml':{message}")


def everything(text: str) -> object:
    """Return all that is used of a document: tags, values, places; or what is wrong with it."""
    seen: dict[int, int] = {}

    def told(node: yaml.Node | None) -> object:
        if node is None:
            return None
        if id(node) in seen:
            return seen[id(node)]
        seen[id(node)] = len(seen)
        own = (type(node), node.tag, node.start_mark.index, node.start_mark.line)
        if isinstance(node, yaml.ScalarNode):
            return (*own, node.start_mark.column, node.end_mark.index, node.style or "", node.value)
        if isinstance(node, yaml.SequenceNode):
            return (*own, *map(told, node.value))
        return (*own, *((told(key), told(value)) for key, value in node.value))

    try:
        return told(root_node(text))
    except NotYamlError as error:
        return error.line, error.column, str(error)


def both(text: str) -> tuple[object, object]:
    """Return what either loader makes of a text."""
    with pytest.MonkeyPatch.context() as without:
        fast = everything(text)
        without.setattr(yaml_nodes, "_LIBYAML", None)
        return fast, everything(text)


@libyaml
@pytest.mark.parametrize(
    "text",
    [
        RULE,
        RULE.replace("\n", "\r\n"),
        "\ufeff" + RULE,
        RULE + "    labels: {a: \"\\u00e9\\U0001f600 \\\n b\", b: 'c''d', e: f#g # h\n  }\n",
        RULE + '    labels: {a: "\\ud83d\\ude00", b: x\u2028y, c: \U0001f4be disk, d: ~, e: =}\n',
        RULE + "    annotations:\n      a: |2-\n         x\n\n      b: >+\n        x\n\n",
        RULE + "    labels: &l {a: b}\n  - {alert: B, expr: up, labels: *l}\n...\n",
        "%YAML 1.1\n%TAG !e! tag:example.com,2000:\n---\ngroups: !e!x []\n",
        "a: !\nb: ! c\n? d\n",
        "? a\n",
        "---",
        "",
    ],
)
def test_what_is_accepted_is_the_same_to_the_last_column(text: str) -> None:
    """An error in an expression is reported at its place, which follows from these."""
    fast, slow = both(text)
    assert fast == slow


YAML = st.sampled_from(
    [
        *("a", "key", "5m", "~", "0x1", "=", "\n", "\n  ", "\n    ", " ", "- ", ": "),
        *("a: b\n", "- a\n", "{", "}", "[", "]", ",", "{a: ", "&a ", "*a", "|", "|-\n", ">+2\n"),
        *("'", '"', "''", "\\n", "\\x41", "\\ud800", "\\q", "#", " # c\n", "<<: ", "!!int ", "!t "),
        *("!", "%YAML 1.1\n", "---", "\n---\n", "\n...\n", "\t", "\r\n", "\u2028", "\ufeff", "é"),
    ]
)


@libyaml
@given(st.lists(YAML, max_size=12).map(lambda parts: "".join(parts) + "\n"))
def test_any_text_is_the_same_to_both(text: str) -> None:
    """Also for texts that were not anticipated."""
    fast, slow = both(text)
    assert fast == slow


@libyaml
@pytest.mark.parametrize("path", sorted(RULES.rglob("*.yaml")), ids=lambda path: path.name)
def test_what_is_shipped_is_read_by_libyaml(path: Path) -> None:
    """Else each start would take a quarter of a second more; its plain texts have the style ''."""
    root = root_node(path.read_text())
    assert isinstance(root, yaml.MappingNode)
    assert root.value[0][0].style == ""


def test_a_python_without_libyaml_loads_rules() -> None:
    """Its binding is optional when PyYAML is built."""
    code = (
        "import sys; sys.modules['yaml._yaml'] = None\n"
        "from iowarden.rules.rulefile.rulefile import parse_rule_file, yaml\n"
        "print(yaml.__with_libyaml__, len(parse_rule_file(sys.stdin.read(), 'x.yaml')))\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], input=RULE, capture_output=True, text=True, check=False
    )
    assert (found.stdout, found.stderr) == ("False 1\n", "")
