"""Nothing is lost in the first minutes, whenever iowarden is installed, and killed."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from support import first_mails
from support.tiers import examples

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.fuzz
@pytest.mark.parametrize("name", first_mails.KINDS)
def test_each_fault_has_a_mail_after_five_minutes_whenever_iowarden_starts(
    tmp_path: Path, name: str
) -> None:
    """Before, amid and after the fault, which may repeat or get worse; killed in every third life.

    A miss prints its number, which repeats it.
    """
    kind = first_mails.KINDS[name]
    found = {}
    for number in range(3 if examples(1) == 1 else 40):  # a life takes 0.5 s
        played = first_mails.life(kind, random.Random(f"{name} {number}"))
        if missed := first_mails.misses(tmp_path / str(number), kind, played):
            found[number] = missed, played.occurs, played.starts, played.killed
    assert found == {}
