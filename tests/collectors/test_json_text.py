"""Depth of brackets in JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiers import examples

from iowarden.collectors.json_text import MAX_DEPTH, is_deep, split_objects


@pytest.mark.parametrize(
    ("depth", "deep"), [(MAX_DEPTH, False), (MAX_DEPTH + 1, True), (200_000, True)]
)
def test_brackets_are_counted_in_each_other(depth: int, deep: bool) -> None:
    """Such a depth can be parsed on a small stack, and one more is refused without trying."""
    assert is_deep("[" * depth + "]" * depth) is deep
    assert is_deep('{"a":' * depth + "0" + "}" * depth) is deep


def test_many_brackets_beside_each_other_are_not_deep() -> None:
    """A table of attributes has hundreds; those inside of texts do not count."""
    assert not is_deep("[" + ",".join(["[{}]"] * 1000) + "]")
    assert not is_deep(json.dumps(["[" * 1000, '\\"{' * 1000, *([[]] * 100)]))


def test_what_is_not_closed_is_deep() -> None:
    """Truncated output with more open brackets than allowed."""
    assert is_deep("[" + "[]," * 100)


@given(
    st.recursive(
        st.text() | st.integers(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=200,
    )
)
def test_nothing_shallow_is_refused(value: object) -> None:
    """Whatever its content, JSON of a few levels is accepted."""
    assert not is_deep(json.dumps(value))


@settings(max_examples=examples(30))
@given(
    st.lists(st.dictionaries(st.text(), st.text() | st.dictionaries(st.text(), st.text()))),
    st.text(st.characters(exclude_characters='{}"')),
)
def test_objects_are_split_whatever_stands_between_them(
    values: list[dict[str, object]], between: str
) -> None:
    """Braces and quotes inside of their texts are no ends."""
    text = between + between.join(json.dumps(value) + between for value in values)
    assert [json.loads(piece) for piece in split_objects(text)] == values


def test_an_object_that_is_cut_off_is_the_last_piece() -> None:
    """A quote without an end takes no more than its line."""
    assert split_objects('a "b {\n{"a": 1} {"b": {') == ['{"a": 1}', '{"b": {']
