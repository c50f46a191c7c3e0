"""Attributes of a device: those it has, and those it has not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.collectors.files import Root
from iowarden.collectors.sysfs import Attributes, attributes
from iowarden.collectors.vocabulary import AbsentError, ParseError

if TYPE_CHECKING:
    from conftest import MachineMaker

PLACE = "/sys/class/thing/thing0"


def test_what_the_listing_does_not_show_is_never_opened(machine: MachineMaker) -> None:
    """A file that comes later is not of this reading: one look at a device is one look."""
    root = machine({f"{PLACE}/depth": "5\n"})
    found = Attributes(root, PLACE)
    Path(f"{root.path}{PLACE}/later").write_text("1\n")
    Path(f"{root.path}{PLACE}/below").mkdir()
    assert (found.count("depth"), found.text("later"), found.below("below")) == (5, None, None)


def test_a_text_is_one_line(machine: MachineMaker) -> None:
    """Padding, line ends and zero bytes of firmware are no part of it; nothing is no text."""
    found = Attributes(machine({f"{PLACE}/name": b" Disk  7\0 \n", f"{PLACE}/none": "\n"}), PLACE)
    assert (found.text("name"), found.text("none"), found.count("none")) == ("Disk 7", None, None)


def test_one_attribute_that_is_withdrawn_is_no_device_that_is_gone(machine: MachineMaker) -> None:
    """A driver may take an attribute back while its device stays."""
    root = machine({f"{PLACE}/depth": "5\n", f"{PLACE}/mode": "1\n"})
    found = Attributes(root, PLACE)
    Path(f"{root.path}{PLACE}/mode").unlink()
    assert (found.text("mode"), found.vanished(), found.unread) == (None, False, "")


def test_a_directory_that_is_not_there(machine: MachineMaker) -> None:
    """It is None where it may be missing, an error where it must not."""
    root = machine({"/sys/class": None})
    assert attributes(root, PLACE) is None
    with pytest.raises(AbsentError, match=PLACE):
        Attributes(root, PLACE)


@given(st.text(alphabet="-0123456789_ \n") | st.text())
def test_any_text_is_a_number_or_refused(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    """What Python's own int() would take beyond the kernel's digits is refused."""
    place = tmp_path_factory.mktemp("machine")
    (place / "depth").write_text(text, encoding="utf-8", errors="surrogatepass")
    for read in (Attributes.count, Attributes.signed):
        found = Attributes(Root(str(place)), "")
        try:
            number = read(found, "depth")
        except ParseError:
            continue
        words = " ".join(text.replace("\0", " ").split())
        if number is not None:
            assert re.fullmatch(r"-?[0-9]{1,20}", words)
            assert number == int(words)
