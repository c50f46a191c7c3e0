"""PromQL: expressions of rules, evaluated as in Prometheus."""

from __future__ import annotations

import contextlib
import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.rules.promql.automaton import RegexError, Steps
from iowarden.rules.promql.errors import EvaluationError, PromqlError
from iowarden.rules.promql.evaluator import Sample, compile_expression
from iowarden.rules.promql.regex import compile_anchored, compile_search
from iowarden.rules.promql.store import LOOKBACK_SECONDS, Labels, SeriesStore
from iowarden.rules.rulefile.template import compile_template

NOW = 10_000.0


def labels(**pairs: str) -> Labels:
    """Return labels in the store's order."""
    return tuple(sorted(pairs.items()))


def machine() -> SeriesStore:
    """Two disks, of which sdb is hot, and one of them in an array."""
    store = SeriesStore()
    store.append_many(
        NOW,
        [
            ("temperature_celsius", labels(device="sda", host="h"), 35.0),
            ("temperature_celsius", labels(device="sdb", host="h"), 61.0),
            ("limit_celsius", labels(device="sda"), 60.0),
            ("limit_celsius", labels(device="sdb"), 60.0),
            ("disk_info", labels(device="sdb", model="X", serial="S1"), 1.0),
            ("up", (), 1.0),
        ],
    )
    return store


def vector(text: str, store: SeriesStore | None = None, at: float = NOW) -> list[Sample]:
    """Evaluate an expression that gives a vector."""
    result = compile_expression(text).evaluate(machine() if store is None else store, at)
    assert isinstance(result, list)
    return result


def scalar(text: str) -> float:
    """Evaluate an expression that gives a scalar."""
    result = compile_expression(text).evaluate(SeriesStore(), NOW)
    assert isinstance(result, float)
    return result


def refusal(text: str) -> PromqlError:
    """Return why an expression cannot be loaded."""
    with pytest.raises(PromqlError) as caught:
        compile_expression(text)
    return caught.value


# --- literals, precedence ---


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2 ^ 3 ^ 2", 512.0),
        ("-2 ^ 2", -4.0),
        ("2 ^ -1 * 4", 2.0),
        ("7 - 2 - 1", 4.0),
        ("1 + 2 * 3 % 4", 3.0),
        ("-3 % 2", -1.0),
        ("1 + 1 == bool 2", 1.0),
        ("+-+1", -1.0),
        ("5m + 1h30m", 5700.0),
        ("0x1F", 31.0),
        ("010", 8.0),
        ("1_000", 1000.0),
        (".5e1", 5.0),
        ("(1 # the first\n + 1)", 2.0),
    ],
)
def test_numbers_bind_as_in_prometheus(text: str, value: float) -> None:
    """Literals, precedence, and the power operator that binds to the right."""
    assert scalar(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 / 0", math.inf),
        ("-1 / 0", -math.inf),
        ("1 / -0", -math.inf),
        ("0 / 0", math.nan),
        ("NaN / 0", math.nan),
        ("5 % 0", math.nan),
        ("Inf % 2", math.nan),
        ("5 % Inf", 5.0),
        ("0 ^ -1", math.inf),
        ("(-0) ^ -3", -math.inf),
        ("(-8) ^ 0.5", math.nan),
        ("10 ^ 400", math.inf),
        ("(-10) ^ 401", -math.inf),
        ("NaN ^ 0", 1.0),
        ("1e308 * 10", math.inf),
        ("Inf - Inf", math.nan),
        ("NaN == bool NaN", 0.0),
        ("NaN != bool NaN", 1.0),
    ],
)
def test_arithmetic_never_raises(text: str, value: float) -> None:
    """Where Python raises, Go's float64 gives an infinity or NaN, and so do we."""
    got = scalar(text)
    assert (math.isnan(got) and math.isnan(value)) or got == value


NUMBERS = st.floats()


@given(NUMBERS, NUMBERS)
def test_no_operation_on_numbers_raises(left: float, right: float) -> None:
    """Whatever the counters are, a rule gets a number."""
    store = SeriesStore()
    store.append("left", (), NOW, left)
    store.append("right", (), NOW, right)
    for operator in ("+", "-", "*", "/", "%", "^", "atan2", "== bool", "<= bool"):
        assert len(vector(f"left {operator} right", store)) == 1
        assert len(vector(f"left {operator} scalar(right)", store)) == 1
    assert len(vector("clamp(left, -1, 1)", store)) == 1


# --- selectors, look-back, staleness ---


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        ('temperature_celsius{device="sda"}', ["sda"]),
        ('temperature_celsius{device!="sda"}', ["sdb"]),
        ('temperature_celsius{device=~"sd.", host="h",}', ["sda", "sdb"]),
        ('temperature_celsius{device=~"s"}', []),
        ('temperature_celsius{device=~"a"}', []),
        ('temperature_celsius{device!~"sda|x"}', ["sdb"]),
        ('temperature_celsius{device=~"x|(?i)SDB"}', ["sdb"]),
        ('temperature_celsius{serial=""}', ["sda", "sdb"]),
        ('temperature_celsius{serial!=""}', []),
        ('temperature_celsius{serial=~".*"}', ["sda", "sdb"]),
        ('temperature_celsius{serial=~".+"}', []),
        ('{__name__="temperature_celsius", device="sdb"}', ["sdb"]),
        ('{__name__=~"temp.*", device="sda"}', ["sda"]),
        ("temperature_celsius{device='sda'}", ["sda"]),
        ("temperature_celsius{device=`sda`}", ["sda"]),
        ('temperature_celsius{device="s\\x64\\141"}', ["sda"]),
    ],
)
def test_matchers_select_whole_values(text: str, devices: list[str]) -> None:
    """A missing label is an empty one, and a regular expression must match the whole value."""
    assert [dict(item.labels)["device"] for item in vector(text)] == devices


@pytest.mark.parametrize("text", ["{}", '{a=~".*"}', '{a!="b"}', '{a=""}', '{a=~"x|"}'])
def test_a_selector_of_everything_is_refused(text: str) -> None:
    """At least one matcher must refuse the empty value, or the rule would read every series."""
    assert "at least one non-empty matcher" in refusal(text).message


@pytest.mark.parametrize("history", [0.0, 1000.0])
def test_a_sample_counts_until_it_is_five_minutes_old(history: float) -> None:
    """Prometheus 3: the window is open on the left."""
    store = SeriesStore({"up": history})
    store.append("up", (), NOW, 1.0)
    assert vector("up", store, NOW)
    assert vector("up", store, NOW + LOOKBACK_SECONDS - 0.001)
    assert not vector("up", store, NOW + LOOKBACK_SECONDS)
    assert not vector("up", store, NOW - 0.001)


@pytest.mark.parametrize("history", [0.0, 1000.0])
def test_a_vanished_disk_has_no_temperature(history: float) -> None:
    """A stale marker ends a series at once, and a later sample revives it."""
    store = SeriesStore({"up": history})
    store.append("up", (), NOW, 1.0)
    store.mark_stale("up", (), NOW + 1)
    assert not vector("up", store, NOW + 1)
    store.append("up", (), NOW + 2, 2.0)
    assert vector("up", store, NOW + 2) == [Sample("up", (), 2.0)]


def test_history_answers_for_an_earlier_time() -> None:
    """A metric with retention can be read at an earlier time, stale marker included."""
    store = SeriesStore({"up": 60.0})
    for second in range(200):
        store.append("up", (), NOW + second, float(second))
    store.mark_stale("up", (), NOW + 200)
    store.append("up", (), NOW + 201, 7.0)
    assert vector("up", store, NOW + 180.5) == [Sample("up", (), 180.0)]
    assert vector("up", store, NOW + 200.5) == []
    (series,) = store.series("up")
    timestamps, _ = series.window(-math.inf, math.inf)
    assert 59 <= len(timestamps) <= 70


def test_time_does_not_go_back_for_a_series() -> None:
    """A sample of the same moment replaces, an older one is ignored."""
    store = SeriesStore()
    store.append("up", (), NOW, 1.0)
    store.append("up", (), NOW, 2.0)
    store.append("up", (), NOW - 1, 3.0)
    store.mark_stale("up", (), NOW - 1)
    assert vector("up", store) == [Sample("up", (), 2.0)]


def test_a_store_forgets_what_no_rule_can_see() -> None:
    """A million ticks with disks that come and go leave nothing behind."""
    store = SeriesStore()
    for tick in range(1000):
        store.append("up", labels(device=f"sd{tick}"), NOW + tick * 10, 1.0)
    assert len(store.series("up")) <= 2 * LOOKBACK_SECONDS / 10
    store.append("other", (), NOW + 20_000, 1.0)
    assert store.names() == {"other"}


# --- operators between vectors ---


def test_a_comparison_keeps_the_series_and_arithmetic_drops_its_name() -> None:
    """Prometheus 3: only a filter yields the series itself."""
    hot = labels(device="sdb", host="h")
    assert vector("temperature_celsius > 60") == [Sample("temperature_celsius", hot, 61.0)]
    assert vector("60 < temperature_celsius") == [Sample("temperature_celsius", hot, 61.0)]
    assert [item.name for item in vector("temperature_celsius + 0")] == ["", ""]
    assert [(i.name, i.value) for i in vector("temperature_celsius > bool 60")] == [
        ("", 0.0),
        ("", 1.0),
    ]
    assert [item.name for item in vector("-temperature_celsius")] == ["", ""]
    assert [item.name for item in vector("+temperature_celsius")] == ["temperature_celsius"] * 2


def test_a_disk_is_compared_with_its_own_limit() -> None:
    """`on` and `ignoring` define what is matched, and the labels of the result."""
    assert vector("temperature_celsius > on(device) limit_celsius") == [
        Sample("", labels(device="sdb"), 61.0)
    ]
    assert vector("temperature_celsius > ignoring(host) limit_celsius") == [
        Sample("temperature_celsius", labels(device="sdb"), 61.0)
    ]
    assert vector("temperature_celsius > bool ignoring(host) limit_celsius") == [
        Sample("", labels(device="sda"), 0.0),
        Sample("", labels(device="sdb"), 1.0),
    ]
    assert vector("temperature_celsius > limit_celsius") == []
    assert vector("temperature_celsius - ignoring(host) limit_celsius") == [
        Sample("", labels(device="sda"), -25.0),
        Sample("", labels(device="sdb"), 1.0),
    ]


def test_a_grouping_takes_labels_from_the_info_series() -> None:
    """`group_left` gives an alert the serial number of its disk; `group_right` mirrors it."""
    named = [Sample("", labels(device="sdb", host="h", serial="S1"), 61.0)]
    left = "temperature_celsius * on(device) group_left(serial) disk_info"
    right = "disk_info * on(device) group_right(serial) temperature_celsius"
    assert vector(left) == named
    assert vector(right) == named
    assert vector("disk_info < on(device) group_right() temperature_celsius") == [
        Sample("temperature_celsius", labels(device="sdb", host="h"), 1.0)
    ]


def test_sets_of_series() -> None:
    """`and`, `or` and `unless` take series as they are, by the labels that must agree."""
    assert [i.value for i in vector("temperature_celsius and on(device) disk_info")] == [61.0]
    assert [i.value for i in vector("temperature_celsius unless on(device) disk_info")] == [35.0]
    assert [i.value for i in vector("temperature_celsius and on() up")] == [35.0, 61.0]
    assert [i.value for i in vector("temperature_celsius unless on() none")] == [35.0, 61.0]
    both = vector("disk_info or on(device) temperature_celsius")
    assert [(i.name, i.value) for i in both] == [("disk_info", 1.0), ("temperature_celsius", 35.0)]


def test_or_binds_weaker_than_and() -> None:
    """`a or b and c` is `a or (b and c)`."""
    assert [i.name for i in vector("up or limit_celsius and none")] == ["up"]
    assert vector("(up or limit_celsius) and none") == []
    assert [i.name for i in vector("up or up unless up")] == ["up"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("limit_celsius * on() up", "many-to-one matching must be explicit"),
        ("limit_celsius > on() up > 100", "many-to-one matching must be explicit"),
        ("up * on() limit_celsius", "many-to-many matching not allowed"),
        ("up * on() group_left() limit_celsius", "on the right hand-side"),
        ("limit_celsius * on() group_right() up", "on the left hand-side"),
        ("limit_celsius * on() group_left(device) up", "grouping labels must ensure unique"),
        # None of them is greater, but all would have the same labels.
        ("limit_celsius < on() group_left(device) up", "grouping labels must ensure unique"),
        ('-{__name__=~"temperature_celsius|other", device="sda"}', "same labelset"),
        ('{__name__=~"temperature_celsius|other", device="sda"} + 1', "same labelset"),
        ('abs({__name__=~"temperature_celsius|other", device="sda"})', "same labelset"),
    ],
)
def test_an_ambiguous_match_is_an_error(text: str, message: str) -> None:
    """No rule may pick one of two partners by chance."""
    store = machine()
    store.append("other", labels(device="sda", host="h"), NOW, 1.0)
    with pytest.raises(EvaluationError, match=message):
        vector(text, store)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("up * on() group_right(__name__) disk_info", "up"),
        ("up >= on() group_right(__name__) disk_info", "up"),
        ("up >= on() group_right() disk_info", "disk_info"),
        ("up >= bool on() group_right(__name__) disk_info", ""),
        ("up * on() group_right() disk_info", ""),
        ("up >= on(__name__) up", "up"),
        ("up * on(__name__) up", ""),
    ],
)
def test_a_name_that_is_requested_is_kept(text: str, name: str) -> None:
    """An operation drops the name first and takes over labels then, `__name__` among them."""
    assert [item.name for item in vector(text)] == [name]


@pytest.mark.parametrize("text", ["none * on() limit_celsius", "limit_celsius * on() none"])
def test_an_empty_side_hides_duplicates(text: str) -> None:
    """As in Prometheus: nothing to match, nothing to complain about."""
    assert vector(text) == []


def test_functions_of_the_subset() -> None:
    """`absent` names the missing series; the others do what their names say."""
    assert vector('absent(none{device="sda", host!="x", a="1", a="2"})') == [
        Sample("", labels(device="sda"), 1.0)
    ]
    assert vector("absent(up)") == []
    assert vector("vector(time())") == [Sample("", (), NOW)]
    assert vector("abs(-up)") == [Sample("", (), 1.0)]
    assert [i.value for i in vector("clamp(limit_celsius, 1, 2)")] == [2.0, 2.0]
    assert [i.value for i in vector("clamp_min(limit_celsius, 70)")] == [70.0, 70.0]
    assert [i.value for i in vector("clamp_max(limit_celsius, 7)")] == [7.0, 7.0]
    assert vector("clamp(limit_celsius, 2, 1)") == []
    assert vector("up > scalar(up) - 1") == [Sample("up", (), 1.0)]
    assert vector("up > scalar(limit_celsius)") == []


def test_an_expression_reports_what_it_reads() -> None:
    """The data sources of an alert are the collectors of these metrics."""
    expression = compile_expression('a > on(x) b{y="1"} or vector(scalar({__name__="c"}))')
    assert not expression.reads_any
    assert (expression.names, expression.windows) == ({"a", "b", "c"}, ())
    assert compile_expression('a + {__name__=~"b.*"}').reads_any


# --- any text ---


WORDS = st.sampled_from(
    [
        *"abc(){}[],.@^*/%+-=<>!~#\"'`\\ \n:",
        *(
            "==",
            "=~",
            "!=",
            ">=",
            " and ",
            " or ",
            " unless ",
            " on(",
            " ignoring(",
            " group_left(",
        ),
        *(" bool ", "5m", "1.5", "0x", "NaN", '"x"', "absent(", "vector(", "scalar(", "time()"),
        *("a{b=", 'a{b=~"', "{__name__=", "sum(", "rate(", " offset "),
    ]
)


@given(st.lists(WORDS, max_size=12).map("".join) | st.text())
def test_any_text_is_an_expression_or_an_error_with_a_place(text: str) -> None:
    """Nothing that an administrator can type brings the daemon down."""
    place = (1, 1)
    try:
        compile_expression(text).evaluate(machine(), NOW)
    except PromqlError as error:
        place = (error.line, error.column)
    except EvaluationError:
        pass
    lines = text.split("\n")
    assert 1 <= place[0] <= len(lines)
    assert 1 <= place[1] <= len(lines[place[0] - 1]) + 1


OPERANDS = ["a", "b{x='1'}", "1", "-a", "{__name__=~'.+'}", "vector(2)", "scalar(b)", "(a > 1)"]
OPERATORS = ["+", "/", "%", "^", "== bool", "> on(x)", "* ignoring(x) group_left(y)", "and", "or"]
SERIES = st.tuples(
    st.sampled_from("abc"), st.sampled_from(["", "1", "2"]), st.sampled_from(["", "1"]), NUMBERS
)


@given(
    st.lists(SERIES, max_size=8),
    st.sampled_from(list(product(OPERANDS, OPERATORS, OPERANDS))),
)
def test_no_samples_make_an_expression_fail_without_a_reason(
    series: list[tuple[str, str, str, float]], parts: tuple[str, str, str]
) -> None:
    """An evaluation gives a result without duplicates, or an EvaluationError."""
    try:
        expression = compile_expression(" ".join(parts))
    except PromqlError:
        return
    store = SeriesStore()
    for name, x, y, value in series:
        store.append(name, tuple((k, v) for k, v in (("x", x), ("y", y)) if v), NOW, value)
    try:
        result = expression.evaluate(store, NOW)
    except EvaluationError:
        return
    if isinstance(result, list):
        assert len({(item.name, item.labels) for item in result}) == len(result)


# --- regular expressions ---


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("offln|failed", ["offln", "failed"], ["offln2", "xfailed"]),
        ("(?i)offln|failed", ["OffLn", "FAILED"], []),
        ("(?:(?i)a|b)c", ["Ac", "Bc"], ["AC"]),
        ("(?i:a)b", ["Ab"], ["AB"]),
        ("(?i)a(?-i)b", ["Ab"], ["aB"]),
        ("(a(?i)b)c", ["aBc"], ["aBC"]),
        (".", ["\n", "x"], ["", "xx"]),
        ("(?-s).", ["x"], ["\n"]),
        (r"\d\s\w", ["1 a"], ["٣ a", "1\v_"]),
        (r"[^\d]", ["x", "٣"], ["1"]),
        ("[[:alpha:]_-]+", ["a_-"], ["1"]),
        (r"\Qa.b\E+", ["a.b", "a.bb"], ["axb", "a.ba.b"]),
        (r"a{,2}", ["a{,2}"], ["aa"]),
        (r"\x41\x{1F600}\101", ["A😀A"], []),
        ("^a$", ["a"], ["a\n"]),
        ("[a&&b]", ["&"], ["&&"]),
        ("a|ab", ["ab"], []),
        (r"\B", [""], ["a"]),
    ],
)
def test_regular_expressions_are_those_of_re2(
    pattern: str, matching: list[str], others: list[str]
) -> None:
    """Anchored, the dot matches all, flags hold to the end of their group, classes are ASCII."""
    regex = compile_anchored(pattern)
    assert all(regex.fullmatch(text) for text in matching)
    assert not any(regex.fullmatch(text) for text in others)


@pytest.mark.parametrize(
    "pattern",
    [
        *("(a|a)*b", "(a+)+b", "(a*)*b", "(a|aa)+b", "a?" * 60 + "a" * 60 + "b", ".*" * 20 + "b"),
        *("((a{0,30}){0,30})b", "(?:a|a|b)*b|(a*)*c", "((((((a*)*)*)*)*)*)*b", "(x+x+)+y|(a|a)*c"),
    ],
)
def test_no_pattern_takes_for_ever(pattern: str) -> None:
    """A serial number of a hundred equal letters, which the pattern can match in 2^100 ways."""
    regex = compile_anchored(pattern)
    assert not regex.matches("a" * 100)
    assert regex.fullmatch("a" * 100) is None
    assert regex.matches("a" * 100 + pattern[-1])


@pytest.mark.parametrize("pattern", ["(?:(a+)+b|(a*))", "((a|a)*b)?(?:(a)|(aa))*", "(a?){40}a{60}"])
def test_groups_are_found_in_bounded_time(pattern: str) -> None:
    """The final match may follow 2^100 attempts; for label_replace as well."""
    regex = compile_anchored(pattern)
    found = regex.fullmatch("a" * 100)
    assert found
    assert (found.begin, found.end) == (0, 100)
    assert found.expanded("$2") in {"", "a", "a" * 100}


def test_a_few_choices_among_many_are_followed_at_once() -> None:
    """Three choices are few, but 300 branches each make 27 million paths through six letters."""
    branches = "|".join(["ab", *["aa"] * 299])
    regex = compile_anchored(f"({branches})({branches})({branches})z")
    assert regex.states > 1800
    assert regex.fullmatch("a" * 6) is None
    found = regex.fullmatch("aaabaaz")
    assert found
    assert [found.group(n) for n in (1, 2, 3)] == ["aa", "ab", "aa"]


def test_a_search_costs_what_it_may_and_no_more() -> None:
    """`reReplaceAll` over a text of ten thousand letters, at each of which a match may begin."""
    find = compile_search("(a+)+(a+)+b")
    assert find("a" * 1000 + "b", 0, Steps(100_000)) is not None
    with pytest.raises(RegexError, match="too expensive"):
        find("a" * 10_000, 0, Steps(50_000))
    text = '{{ reReplaceAll "(a|aa)+?(a+)+b|c" "x" $labels.a }}'
    told = compile_template(text).render({"a": "a" * 300_000 + "c"}, 1.0, None)
    assert told.startswith("<error expanding template: too expensive")
    assert compile_template(text).render({"a": "a" * 300 + "c"}, 1.0, None) == "a" * 300 + "x"


def test_repeats_inside_of_repeats_are_limited() -> None:
    """As in RE2: a thousand in all."""
    assert compile_anchored("(?:a{10}){100}").matches("a" * 1000)
    for pattern in ("a{1001}", "(?:a{10}){101}", "(?:(?:a{2,11}){10}){10}", "(?:a{100,}){11}"):
        with pytest.raises(RegexError, match="invalid repeat count"):
            compile_anchored(pattern)
    with pytest.raises(RegexError, match="too large"):
        compile_anchored("(?:" + "ab?" * 30 + "){1000}")


PATTERNS = st.recursive(
    st.sampled_from(["a", "b", ".", "[ab]", "(?i:A)", "^", "$", r"\b", r"\B", "", "(?i)B"]),
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("|".join).map("(?:{})".format),
        st.tuples(
            inner, st.sampled_from(["*", "+", "?", "{2}", "{1,}", "{0,2}", "*?", "{1,3}?"])
        ).map(lambda parts: f"({parts[0]}){parts[1]}"),
    ),
    max_leaves=8,
)


@given(PATTERNS, st.lists(st.text(alphabet="abA\n", max_size=6), min_size=5, max_size=20))
def test_following_all_ways_finds_what_trying_them_finds(pattern: str, values: list[str]) -> None:
    """The pattern alone decides which is used, and the results are the same."""
    regex = compile_anchored(pattern)
    reference = compile_search(rf"\A(?s:{pattern})\z")
    for value in values:
        expected = reference(value, 0, Steps(100_000)) is not None
        assert regex.matches(value) is expected
        assert (regex.fullmatch(value) is not None) is expected


@given(st.text(alphabet="ab()[]{}|*+?^$.\\,:<>=!PQEdDsSwWbBAzZixmU012-&~# \n") | st.text())
def test_any_pattern_is_translated_or_refused(pattern: str) -> None:
    """No pattern of a rule brings an exception other than ours."""
    with contextlib.suppress(RegexError):
        compile_anchored(pattern).fullmatch("a text")
