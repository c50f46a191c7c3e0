"""Settings of transparent huge pages, under the names of several kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.collectors.kernel.thp import TransparentHugepage, emit, parse_choice, read_thp
from iowarden.collectors.model import ParseError

if TYPE_CHECKING:
    from conftest import MachineMaker

NOW = "/sys/kernel/mm/transparent_hugepage"
RHEL_6 = "/sys/kernel/mm/redhat_transparent_hugepage"


def test_the_word_in_brackets_is_in_force(machine: MachineMaker) -> None:
    """A current kernel; the series has both settings."""
    files = {
        NOW + "/enabled": "always [madvise] never\n",
        NOW + "/defrag": "always defer [defer+madvise] madvise never\n",
    }
    value = read_thp(machine(files))
    assert value == TransparentHugepage("madvise", "defer+madvise")
    assert emit(value) == [
        ("iowarden_thp_setting", (("defrag", "defer+madvise"), ("enabled", "madvise")), 1)
    ]


def test_rhel_6_has_a_directory_of_its_own(machine: MachineMaker) -> None:
    """The same files, with Red Hat's prefix."""
    files = {
        RHEL_6 + "/enabled": "[always] madvise never\n",
        RHEL_6 + "/defrag": "[always] never\n",
    }
    assert read_thp(machine(files)) == TransparentHugepage("always", "always")


def test_a_kernel_that_does_not_report_how_it_defragments(machine: MachineMaker) -> None:
    """A missing file is None, and an empty label."""
    value = read_thp(machine({NOW + "/enabled": "[always] madvise never\n"}))
    assert value.defrag is None
    assert emit(value)[0][1][0] == ("defrag", "")


@given(st.text(alphabet="always []never\n+") | st.text())
def test_any_text_is_one_word_or_a_parse_error(text: str) -> None:
    """Two active settings, or none, are refused."""
    try:
        assert f"[{parse_choice(text, NOW)}]" in text
    except ParseError as error:
        assert "expected the active setting in brackets, got" in str(error)  # noqa: PT017


def test_no_word_in_brackets_is_refused(machine: MachineMaker) -> None:
    """The message names the file."""
    with pytest.raises(ParseError, match="transparent_hugepage/defrag': expected"):
        read_thp(machine({NOW + "/enabled": "[never]\n", NOW + "/defrag": "always\n"}))
