"""Regular expressions that are compiled when they are first used."""

from __future__ import annotations

import re

import pytest

from iowarden.collectors.lazy_pattern import lazy_pattern


def test_it_is_compiled_when_it_is_first_used() -> None:
    """An invalid one shows that: its parser's test fails, not the import of every parser."""
    invalid = lazy_pattern("(")
    with pytest.raises(re.error):
        invalid.match("x")


def test_it_matches_as_the_compiled_one_does() -> None:
    """Also with flags, with bytes, and in its second use."""
    found = lazy_pattern(r"(\d+) kb$", re.IGNORECASE | re.MULTILINE)
    for _ in range(2):
        assert found.findall("12 kB\n3 KB\nx") == ["12", "3"]
        assert found.sub("", "12 kB") == ""
        assert found.search("x") is None
    assert found.subn("", "12 kB") == ("", 1)
    assert found.groups == 1
    assert found.pattern == r"(\d+) kb$"
    assert lazy_pattern(rb"\d").match(b"7") is not None
