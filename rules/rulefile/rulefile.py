"""Prometheus rule files: YAML in, compiled rules out.

Source: Prometheus, 'Defining recording rules' and 'Alerting rules'; the fields that promtool 2.42
accepts, so that a file that loads here loads in any Prometheus since.
Limits: merge keys (`<<`) are refused; 10,000 rules a file.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import yaml

from iowarden.collectors.dataclass import dataclass
from iowarden.rules.promql.errors import PromqlError
from iowarden.rules.promql.evaluator import Expression, compile_expression
from iowarden.rules.promql.lexer import line_and_column
from iowarden.rules.rulefile.template import Template, compile_template
from iowarden.rules.rulefile.template_parser import TemplateError
from iowarden.rules.yaml_nodes import Nodes, compose, is_null, start

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


SHIPPED = "shipped "
"""Prefix of the name of a shipped rule file."""
MAX_RULES = 10_000
"""Anchors can repeat a list; this limits what a small file can expand to."""


@dataclass(frozen=True, slots=True)
class Rule:
    """An alerting rule."""

    alert: str
    expression: Expression
    for_seconds: float
    keep_firing_for_seconds: float
    labels: tuple[tuple[str, Template], ...]
    annotations: tuple[tuple[str, Template], ...]
    file: str
    line: int
    overridden: tuple[str, ...] = ()
    """What the configuration changed in it."""


@dataclass(frozen=True, slots=True)
class RecordingRule:
    """A rule whose result is stored as a series."""

    record: str
    expression: Expression
    labels: tuple[tuple[str, str], ...]
    file: str
    line: int
    overridden: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """Rules that are evaluated together, in order; `limit` 0 means none."""

    name: str
    interval_seconds: float | None
    limit: int
    rules: tuple[Rule | RecordingRule, ...]
    file: str

    @property
    def is_shipped(self) -> bool:
        """Whether it comes with iowarden."""
        return self.file.startswith(SHIPPED)


_METRIC_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
_FILE_KEYS = ("groups",)
_GROUP_KEYS = ("name", "interval", "limit", "rules")
_RULE_KEYS = (
    "alert",
    "record",
    "expr",
    "for",
    "keep_firing_for",
    "labels",
    "annotations",
)
_RAW_CHARACTER: Mapping[str | None, re.Pattern[str]] = {
    "'": re.compile(r"''|.", re.DOTALL),
    '"': re.compile(r"\\(?:x..|u.{4}|U.{8}|\r?\n|.)|.", re.DOTALL),
}
_ANY_CHARACTER = re.compile(r".", re.DOTALL)


def parse_rule_file(text: str, file: str, *, check_templates: bool = True) -> tuple[RuleGroup, ...]:
    """Return the groups of a rule file; `file` is its name, for messages.

    Without `check_templates` an error in a template is found when it is rendered: for rules whose
    templates are known to be valid, since checking them takes a third of the time.
    Errors: RuleFileError with all errors of the file.
    """
    root = compose(text, file)
    nodes = Nodes(text, file)
    template = compile_template if check_templates else Template
    is_shipped = file.startswith(SHIPPED)
    reader = _RuleFileReader(nodes, lambda text: template(text, is_shipped=is_shipped))
    groups = reader.groups(root) if root is not None else ()
    nodes.finish()
    return groups


def expression_place(text: str, rule: Rule | RecordingRule, offset: int) -> tuple[int, int]:
    """Return line and column of a character of a rule's expression in the text of its file.

    Errors: RuleFileError. Limits: if the text is no longer that of the rule, its first line.
    """
    todo = [compose(text, rule.file)]
    while todo:
        node = todo.pop()
        if isinstance(node, yaml.SequenceNode):
            todo += reversed(node.value)
        elif isinstance(node, yaml.MappingNode):
            fields = {str(key.value): value for key, value in node.value}
            todo += reversed([value for _, value in node.value])
            expression = fields.get("expr")
            if (
                isinstance(expression, yaml.ScalarNode)
                and expression.value == rule.expression.text
                and line_and_column(text, start(node))[0] == rule.line
            ):
                return line_and_column(text, _source_index(text, expression, offset))
    return rule.line, 1


class _RuleFileReader:
    """Walks the nodes and collects all errors, so that they are reported at once."""

    def __init__(self, nodes: Nodes, template: Callable[[str], Template]) -> None:
        self._nodes = nodes
        self._template = template
        self._rules = 0
        self._seen: set[tuple[object, ...]] = set()
        self._expressions: dict[str, Expression] = {}
        """Compiled once, however often an alias repeats them."""

    def groups(self, root: yaml.Node) -> tuple[RuleGroup, ...]:
        fields = self._nodes.mapping(root, "file", _FILE_KEYS)
        nodes = self._nodes.sequence(fields["groups"][1], "groups") if "groups" in fields else []
        names: set[str] = set()
        groups: list[RuleGroup] = []
        for node in nodes:
            group = self._group(node)
            if group.name in names and group.name:
                message = f"group {group.name!r} is repeated in the same file; rename one of them"
                self._nodes.wrong(start(node), message)
            names.add(group.name)
            groups.append(group)
        return tuple(groups)

    def _group(self, node: yaml.Node) -> RuleGroup:
        fields = self._nodes.mapping(node, "group", _GROUP_KEYS)
        name = self._nodes.string(fields["name"][1], "group: name") if "name" in fields else ""
        if not name:
            self._nodes.wrong(start(node), "group: expected a name; add 'name:'")
        what = f"group {name!r}"
        interval = None
        if "interval" in fields:
            interval = self._nodes.duration(fields["interval"][1], f"{what}: interval") or None
        limit = 0
        if "limit" in fields:
            limit_node = fields["limit"][1]
            text = self._nodes.string(limit_node, f"{what}: limit")
            if re.fullmatch(r"[0-9]{1,9}", text, re.ASCII):
                limit = int(text)
            else:
                self._nodes.wrong(
                    start(limit_node), f"{what}: limit: expected a number, got {text!r}"
                )
        rules: list[Rule | RecordingRule] = []
        nodes = (
            self._nodes.sequence(fields["rules"][1], f"{what}: rules") if "rules" in fields else []
        )
        for number, rule_node in enumerate(nodes, start=1):
            self._rules += 1
            if self._rules > MAX_RULES:
                self._nodes.wrong(start(rule_node), f"more than {MAX_RULES} rules; split the file")
                break
            rule = self._rule(rule_node, f"{what}, rule {number}")
            if rule is not None:
                rules.append(rule)
        return RuleGroup(name, interval, limit, tuple(rules), self._nodes.file)

    def _rule(self, node: yaml.Node, what: str) -> Rule | RecordingRule | None:
        before = len(self._nodes.errors)
        fields = self._nodes.mapping(node, what, _RULE_KEYS)
        text = {
            key: self._nodes.string(fields[key][1], f"{what}: {key}")
            for key in ("alert", "record", "expr")
            if key in fields
        }
        alert, record = text.get("alert", ""), text.get("record", "")
        if bool(alert) == bool(record):
            some = "only one of 'record' and 'alert'" if alert else "one of 'record' or 'alert'"
            self._nodes.wrong(start(node), f"{what}: {some} must be set")
        what = f"{what}, {alert or record!r}" if alert or record else what
        expression = None
        if text.get("expr", "").strip():
            expression = self._expression(fields["expr"][1], f"{what}: expr")
        elif "expr" not in fields or isinstance(fields["expr"][1], yaml.ScalarNode):
            position = start(fields["expr"][1] if "expr" in fields else node)
            self._nodes.wrong(position, f"{what}: field 'expr' must be set in rule")
        wait: dict[str, float] = {
            key: self._nodes.duration(fields[key][1], f"{what}: {key}")
            for key in ("for", "keep_firing_for")
            if key in fields
        }
        labels = self._pairs(fields, "labels", what)
        annotations = self._pairs(fields, "annotations", what)
        if record:
            self._check_recording(fields, record, wait, what)
        else:
            label_templates = self._templates(labels, f"{what}: label")
            annotation_templates = self._templates(annotations, f"{what}: annotation")
        line = self._nodes.line(node)
        rule: Rule | RecordingRule | None = None
        if expression and record:
            plain = tuple(sorted((name, str(value.value)) for name, value in labels))
            rule = RecordingRule(record, expression, plain, self._nodes.file, line)
        elif expression:
            rule = Rule(
                alert,
                expression,
                wait.get("for", 0.0),
                wait.get("keep_firing_for", 0.0),
                label_templates,
                annotation_templates,
                self._nodes.file,
                line,
            )
        self._check_duplicate(node, what, (alert, record, text.get("expr", "").strip()), labels)
        return rule if len(self._nodes.errors) == before else None

    def _check_duplicate(
        self,
        node: yaml.Node,
        what: str,
        names: tuple[str, str, str],
        labels: list[tuple[str, yaml.ScalarNode]],
    ) -> None:
        """Refuse a rule that repeats an earlier one.

        The same name and labels with another expression are two conditions for the same alert.
        """
        identity = (*names, tuple(sorted((name, str(value.value)) for name, value in labels)))
        if identity in self._seen:
            self._nodes.wrong(start(node), f"{what}: duplicate rule; remove one of the two")
        self._seen.add(identity)

    def _check_recording(
        self,
        fields: dict[str, tuple[yaml.Node, yaml.Node]],
        record: str,
        wait: dict[str, float],
        what: str,
    ) -> None:
        if not _METRIC_NAME.fullmatch(record):
            message = f"{what}: invalid recording rule name; expected letters, digits, _ and :"
            self._nodes.wrong(start(fields["record"][1]), message)
        for key in ("for", "keep_firing_for", "annotations"):
            if key in fields and (wait.get(key) or (key == "annotations" and fields[key][1].value)):
                message = f"{what}: invalid field {key!r} in recording rule; remove it"
                self._nodes.wrong(start(fields[key][0]), message)

    def _pairs(
        self, fields: dict[str, tuple[yaml.Node, yaml.Node]], key: str, what: str
    ) -> list[tuple[str, yaml.ScalarNode]]:
        """Return the names and value nodes of labels or annotations, names checked."""
        result: list[tuple[str, yaml.ScalarNode]] = []
        if key not in fields:
            return result
        pairs = self._nodes.mapping(fields[key][1], f"{what}: {key}", None)
        for name, (name_node, value) in pairs.items():
            label = key == "labels"
            if not _LABEL_NAME.fullmatch(name) or (label and name == "__name__"):
                kind = "label" if label else "annotation"
                message = f"{what}: invalid {kind} name {name!r}; expected letters, digits and _"
                self._nodes.wrong(start(name_node), message)
            elif isinstance(value, yaml.ScalarNode):
                result.append((name, value))
            else:
                self._nodes.string(value, f"{what}: {key}: {name}")  # Reports the error.
        return result

    def _expression(self, node: yaml.Node, what: str) -> Expression | None:
        text = str(node.value)
        if text in self._expressions:
            return self._expressions[text]
        try:
            self._expressions[text] = compile_expression(text)
            return self._expressions[text]
        except PromqlError as error:
            self._wrong_inside(node, error, f"{what}: could not parse expression")
        return None

    def _templates(
        self, pairs: list[tuple[str, yaml.ScalarNode]], what: str
    ) -> tuple[tuple[str, Template], ...]:
        result: list[tuple[str, Template]] = []
        for name, node in pairs:
            try:
                text = "" if is_null(node) else str(node.value)
                result.append((name, self._template(text)))
            except TemplateError as error:
                self._wrong_inside(node, error, f"{what} {name!r}")
        return tuple(result)

    def _wrong_inside(self, node: yaml.Node, error: PromqlError | TemplateError, what: str) -> None:
        """Report an error at its position in the file, however YAML transformed the text."""
        lines = str(node.value).split("\n")
        offset = sum(len(line) + 1 for line in lines[: error.line - 1]) + error.column - 1
        self._nodes.wrong(_source_index(self._nodes.text, node, offset), f"{what}: {error.message}")


def _source_index(text: str, node: yaml.Node, offset: int) -> int:
    """Return the position in the file of a character of a scalar's value.

    YAML folds, strips and indents blanks, but leaves the other characters in order: the n-th of
    them in the value is the n-th in the file.
    """
    wanted = sum(not one.isspace() for one in str(node.value)[:offset])
    begin, end = start(node), int(node.end_mark.index)
    style = node.style if isinstance(node, yaml.ScalarNode) else None
    if style in {"|", ">"}:
        begin = text.find("\n", begin) + 1
    elif style in {"'", '"'}:
        begin, end = begin + 1, end - 1
    last = begin
    for match in _RAW_CHARACTER.get(style, _ANY_CHARACTER).finditer(text, begin, end):
        if match[0].isspace() or _is_escaped_blank(match[0]):
            continue
        if wanted == 0:
            return match.start()
        wanted -= 1
        last = match.end()
    return last


def _is_escaped_blank(raw: str) -> bool:
    """Return whether an escape in double quotes stands for a blank or a line's continuation."""
    return len(raw) > 1 and raw[0] == "\\" and raw[1] in "nrtvfNLP_ \t\r\n"
