"""Annotations as Prometheus would write them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.rules.promql.errors import EvaluationError
from iowarden.rules.promql.evaluator import Sample
from iowarden.rules.promql.format import shortest
from iowarden.rules.rulefile.printf import sprintf
from iowarden.rules.rulefile.rulefile import SHIPPED, Rule, parse_rule_file
from iowarden.rules.rulefile.template import compile_template
from iowarden.rules.rulefile.template_parser import TemplateError

LABELS = {"device": "sdb", "instance": "nas.example.org:9100"}


def query(expression: str) -> list[Sample]:
    """Answer every query but one with two disks."""
    if expression == "ambiguous":
        raise EvaluationError("many-to-many matching not allowed")
    if expression == "none":
        return []
    return [
        Sample("up", (("device", "sdb"),), 1.5),
        Sample("", (("device", "sda"),), 2e6),
    ]


def render(text: str, value: float = 61.0) -> str:
    """Expand a text for one disk."""
    return compile_template(text).render(LABELS, value, query, {"site": "cellar"})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no action", "no action"),
        ("{{ $labels.device }} has {{ $value }}", "sdb has 61"),
        ("{{.Labels.device}}{{ .Value }}{{$.Value}}", "sdb6161"),
        ("<{{ $labels.missing }}>", "<>"),
        ("{{ $labels }}", "map[device:sdb instance:nas.example.org:9100]"),
        ("{{ $externalLabels.site }}{{ .ExternalLabels.site }}", "cellarcellar"),
        ('a  {{- " " -}}  b', "a b"),
        ("a {{/* nothing */ -}} b", "a b"),
        ("{{ -3 }}{{ 0x10 }}{{ 1e3 }}{{ true }}{{ `raw\\n` }}", "-3161000trueraw\\n"),
        ('{{ "}}" }}', "}}"),
        ("{ {{`{{`}} }", "{ {{ }"),
        ("{{ if gt $value 60.0 }}hot{{ else }}cool{{ end }}", "hot"),
        ("{{ if not $labels.x }}none{{ else if $value }}never{{ end }}", "none"),
        ("{{ if $labels.x }}a{{ else if $labels.device }}b{{ else }}c{{ end }}", "b"),
        ("{{ with $labels.device }}<{{ . }}>{{ else }}none{{ end }}", "<sdb>"),
        ("{{ with $labels.x }}<{{ . }}>{{ else }}none{{ end }}", "none"),
        ("{{ $x := 1 }}{{ if true }}{{ $x = 2 }}{{ $y := 3 }}{{ $y }}{{ end }}{{ $x }}", "32"),
        (
            "{{ range $name, $text := $labels }}{{ $name }}={{ $text }};{{ end }}",
            "device=sdb;instance=nas.example.org:9100;",
        ),
        (
            '{{ range query "up" | sortByLabel "device" }}{{.Labels.device}}:{{.Value}};{{end}}',
            "sda:2e+06;sdb:1.5;",
        ),
        ('{{ range query "none" }}x{{ else }}nothing{{ end }}', "nothing"),
        ('{{ query "up" | first | value | humanize }}', "1.5"),
        ('{{ with query "up" }}{{ first . | label "device" }}{{ end }}', "sdb"),
        ('{{ (query "up" | first).Labels }}', "map[__name__:up device:sdb]"),
        ('{{ eq $labels.device "sda" "sdb" }} {{ ne 1 2 }} {{ le 2.0 $value }}', "true true true"),
        ('{{ and $value "" "x" }}|{{ or "" "x" }}|{{ lt "a" "b" }}', "|x|true"),
        ('{{ len $labels.device }} {{ len $labels }} {{ index $labels "device" }}', "3 2 sdb"),
        ('{{ print 1 2 "a" 3 }}{{ println "x" 1 }}', "1 2a3x 1\n"),
        ("{{ toUpper $labels.device }}", "SDB"),
        ('{{ title "hello my-world of_disks" }}', "Hello My-World Of_disks"),
        ('{{ reReplaceAll "sd(.)" "disk ${1} $1x" $labels.device }}', "disk b "),
        ('{{ reReplaceAll "a*" "x" "baaac" }}', "xbxcx"),
        ('{{ match "^s.b" $labels.device }} {{ match "x" "a" }}', "true false"),
        ("{{ stripPort $labels.instance }}", "nas.example.org"),
        ("{{ stripDomain $labels.instance }}", "nas:9100"),
        ('{{ stripPort "[::1]:80" }} {{ stripDomain "10.0.0.1:80" }}', "::1 10.0.0.1:80"),
    ],
)
def test_actions_and_functions(text: str, expected: str) -> None:
    """What public rules use, and the rest of the subset."""
    assert render(text) == expected


@pytest.mark.parametrize(
    ("function", "value", "expected"),
    [
        ("humanize", 0.0, "0"),
        ("humanize", 1234567.0, "1.235M"),
        ("humanize", 0.00021, "210u"),
        ("humanize", 999.99, "1000"),
        ("humanize", 1000.0, "1k"),
        ("humanize", 1e27, "1000Y"),
        ("humanize", -1500.0, "-1.5k"),
        ("humanize1024", 1.0, "1"),
        ("humanize1024", 2061234.0, "1.966Mi"),
        ("humanizeDuration", 0.0, "0s"),
        ("humanizeDuration", 0.021, "21ms"),
        ("humanizeDuration", 59.999, "60s"),
        ("humanizeDuration", 125.9, "2m 5s"),
        ("humanizeDuration", 3600.0, "1h 0m 0s"),
        ("humanizeDuration", 100000.0, "1d 3h 46m 40s"),
        ("humanizeDuration", -12.3456, "-12.35s"),
        ("humanizePercentage", 0.12345, "12.35%"),
        ("humanizeTimestamp", 0.0, "1970-01-01 00:00:00 +0000 UTC"),
        ("humanizeTimestamp", 1435065584.128, "2015-06-23 13:19:44.128 +0000 UTC"),
        ("humanizeDuration", float("inf"), "+Inf"),
        ("humanize", float("nan"), "NaN"),
        ("humanizeTimestamp", float("-inf"), "-Inf"),
        ("humanizePercentage", float("inf"), "+Inf%"),
    ],
)
def test_numbers_for_people(function: str, value: float, expected: str) -> None:
    """Four significant digits, and prefixes as Prometheus chooses them."""
    assert render(f"{{{{ $value | {function} }}}}", value) == expected


def test_a_text_that_holds_a_number_is_humanized() -> None:
    """As from a label of a threshold."""
    assert render('{{ humanizeDuration "90" }}') == "1m 30s"
    assert "invalid syntax" in render('{{ humanize "ninety" }}')


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1.0, "1"),
        (1e6, "1e+06"),
        (123456.0, "123456"),
        (123456789.0, "1.23456789e+08"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (-0.25, "-0.25"),
        (0.1 + 0.2, "0.30000000000000004"),
        (5e-324, "5e-324"),
        (float("inf"), "+Inf"),
    ],
)
def test_values_are_written_as_go_writes_them(value: float, expected: str) -> None:
    """`{{ $value }}` of a big number has an exponent in Prometheus's mails, so in ours."""
    assert render("{{ $value }}", value) == expected


@given(st.floats(allow_nan=False))
def test_a_written_value_reads_back_the_same(value: float) -> None:
    """The shortest digits lose nothing."""
    assert float(shortest(value)) == value


@pytest.mark.parametrize(
    ("template", "value", "expected"),
    [
        ("%d", 3.0, "%!d(float64=3)"),
        ("%d", 3, "3"),
        ("%s", 3.5, "%!s(float64=3.5)"),
        ("%v|%6.2f", 2.5, "2.5|%!f(MISSING)"),
        ("%.1f%%", 12.34, "12.3%"),
        ("%6.2f|", 2.5, "  2.50|"),
        ("%-6.1f|", 2.5, "2.5   |"),
        ("%06.1f", -2.5, "-002.5"),
        ("%+d", 3, "+3"),
        ("%e", 12345.678, "1.234568e+04"),
        ("%g", 1e-7, "1e-07"),
        ("%.3g", 1234567.0, "1.23e+06"),
        ("%x", 255, "ff"),
        ("%x", "hi", "6869"),
        ("%x", 3.0, "0x1.8p+01"),
        ("%q", 'a"b\n', '"a\\"b\\n"'),
        ("%05s|%-5s|%.1s", "ab", "000ab|%!s(MISSING)|%!s(MISSING)"),
        ("%t", True, "true"),
        ("%t", 3, "%!t(int=3)"),
        ("%z", 3.0, "%!z(float64=3)"),
        ("%s", {"b": "1", "a": "2"}, "map[a:2 b:1]"),
        ("%", 1, "%!(NOVERB)%!(EXTRA int=1)"),
        ("x", "y", "x%!(EXTRA string=y)"),
    ],
)
def test_printf_is_gos(template: str, value: float | str, expected: str) -> None:
    """Also what does not fit is written as Go writes it, for it may be searched for."""
    assert sprintf(template, [value]) == expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{{ query "ambiguous" | first | value }}', "many-to-many"),
        ('{{ query "none" | first | value }}', "no elements"),
        ("{{ .Nothing }}", "can't evaluate field Nothing"),
        ("{{ $labels.device.x }}", "can't evaluate field x in type string"),
        ("{{ eq $value 61 }}", "incompatible types for comparison: float64 and int"),
        ("{{ toUpper $value }}", "expected string; got float64"),
        ("{{ humanizeTimestamp 1e30 }}", "cannot be represented"),
        ('{{ match "(" "x" }}', "missing closing )"),
        ("{{ index $labels 1 }}", "cannot index"),
        ("{{ range $value }}{{ end }}", "can't iterate"),
    ],
)
def test_a_fault_in_a_text_never_loses_the_alert(text: str, reason: str) -> None:
    """The mail is sent, and contains the error of its text."""
    rendered = render("before " + text)
    assert rendered.startswith("<error expanding template: ")
    assert reason in rendered


def test_a_query_without_a_store_is_reported_in_the_text() -> None:
    """A rule's check on the command line has no metrics."""
    assert "queries are not available" in compile_template('{{ query "up" }}').render({}, 1.0, None)


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("{{ $x }}", 1, 4, "undefined variable '$x'"),
        ("{{ if true }}{{ $x := 1 }}{{ end }}{{ $x }}", 1, 39, "undefined variable"),
        ("a\n{{ frobnicate 1 }}", 2, 4, "function 'frobnicate' not defined"),
        ("{{ safeHtml 1 }}", 1, 4, "'safeHtml' is not supported"),
        ("{{ template `x` }}", 1, 4, "action 'template' is not supported"),
        ("{{ if true }}", 1, 14, "close 'if' with {{end}}"),
        ("{{ end }}", 1, 4, "unexpected {{end}}"),
        ("{{ else }}", 1, 4, "unexpected {{else}}"),
        ("{{ if 1 }}{{ else }}{{ else }}{{ end }}", 1, 24, "got {{else}}"),
        ("{{ $value", 1, 1, "unclosed action"),
        ('{{ "a }}', 1, 4, "unterminated string"),
        ("{{ }}", 1, 4, "missing value"),
        ("{{ ( 1 }}", 1, 4, "unclosed left parenthesis"),
        ("{{ 1 | 2 }}", 1, 8, "expected a function"),
        ("{{ $value 1 }}", 1, 11, "can't give argument"),
        ("{{ humanize }}", 1, 4, "expected 1, got 0"),
        ('{{ query "rate(x)" }}', 1, 10, "expected type range vector"),
        ('{{ "(" | query }}', 1, 4, "unclosed left parenthesis"),
        ("{{ ☃ }}", 1, 4, "unexpected character"),
        ("{{if 1}}" * 60, 1, 401, "nested"),
    ],
)
def test_a_bad_template_is_refused_at_load(text: str, line: int, column: int, message: str) -> None:
    """The author of a rule learns of it at load, not on the night of the alert."""
    with pytest.raises(TemplateError) as caught:
        compile_template(text)
    assert message in caught.value.message
    assert (caught.value.line, caught.value.column) == (line, column)


PIECES = st.sampled_from(
    [
        *("{{", "}}", "{{- ", " -}}", "if ", "else", "end", "range ", "with ", "$x", " := ", " | "),
        *("$labels", ".Labels.device", "$value", "(", ")", "1", "2.0", '"x"', "printf ", '"%d" '),
        *(
            'query "up"',
            "first ",
            "value ",
            "humanize ",
            "index ",
            "eq ",
            " ",
            ".",
            "/*",
            "*/",
            "\n",
        ),
    ]
)


@given(st.lists(PIECES, max_size=15).map("".join) | st.text())
def test_any_text_renders_or_is_refused(text: str) -> None:
    """No annotation brings the daemon down."""
    with contextlib.suppress(TemplateError):
        render(text)


def test_ranges_in_one_another_come_to_an_end() -> None:
    """Three of them over 300 disks would have 27 million iterations, blocking the polls."""
    disks = [Sample("m", (("device", f"sd{number}"),), 1.0) for number in range(300)]
    nested = "{{ range $x }}{{ range $x }}{{ range $x }}{{ end }}{{ end }}{{ end }}"
    text = compile_template(f'{{{{ with $x := query "m" }}}}{nested}{{{{ end }}}}')
    assert "more than 100000 characters" in text.render({}, 1.0, lambda _: disks)


@pytest.mark.parametrize(
    "doubled",
    [
        '{{ $x = printf "%s%s" $x $x }}',
        "{{ $x = print $x $x }}",
        '{{ $x = reReplaceAll "." "$0$0" $x }}',
        '{{ $x = reReplaceAll "." $x $x }}',  # 3.6 GB at once
        "{{ $x = print " + "$x " * 1000 + "}}",
        "{{ $x }}{{ $x }}{{ $x }}",
    ],
)
def test_a_text_that_doubles_itself_comes_to_an_end(doubled: str) -> None:
    """Forty times, it would take all memory of the host."""
    disks = [Sample("m", (("device", f"sd{number}"),), 1.0) for number in range(40)]
    big = "x" * 60_000
    text = compile_template(
        f'{{{{ $x := "{big}" }}}}{{{{ range query "m" }}}}{doubled}{{{{ end }}}}'
    )
    assert "more than 100000 characters" in text.render({}, 1.0, lambda _: disks)


@pytest.mark.parametrize(
    ("text", "value", "shipped", "of_user"),
    [
        ("{{ $value | humanize1024 }}B queued", 621_386_137.0, "593 MiB queued", "592.6MiB queued"),
        ("{{ $value | humanize1024 }}B/s", 900_000.0, "879 KiB/s", "878.9kiB/s"),
        ("{{ $value | humanize1024 }}B available", 0.0, "0 B available", "0B available"),
        ("{{ $value | humanizeDuration }}", 297.0, "4 min 57 s", "4m 57s"),
        ("{{ $value | humanizeDuration }}", 6626.0, "1 h 50 min", "1h 50m 26s"),
        ("{{ $value | humanizeDuration }}", 0.01234, "12.3 ms", "12.34ms"),
        ("{{ $value | humanizePercentage }} full", 0.9001, "90 % full", "90.01% full"),
        ("{{ $value | humanizeDuration }}", float("inf"), "+Inf", "+Inf"),
        ("{{ $value | humanizePercentage }}", float("nan"), "NaN%", "NaN%"),
    ],
)
def test_a_shipped_rule_writes_numbers_as_the_rest_of_a_mail(
    text: str, value: float, shipped: str, of_user: str
) -> None:
    """'592.6MiB' stood beside '593 MiB'; a user's rule is what the user's Prometheus shows."""
    assert compile_template(text, is_shipped=True).render({}, value, None) == shipped
    assert compile_template(text).render({}, value, None) == of_user


def test_a_rule_is_shipped_by_the_name_of_its_file() -> None:
    """The same text in a file of the user is a rule of the user."""
    rules = "groups: [{name: g, rules: [{alert: A, expr: up, annotations: {summary: '%s'}}]}]"
    text = rules % "{{ $value | humanizeDuration }}"
    for file, expected in ((f"{SHIPPED}x.yaml", "1 min 1 s"), ("own.yaml", "1m 1s")):
        (group,) = parse_rule_file(text, file)
        rule = group.rules[0]
        assert isinstance(rule, Rule)
        assert dict(rule.annotations)["summary"].render({}, 61.0, None) == expected
