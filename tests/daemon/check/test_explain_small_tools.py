"""'iowarden explain' of cciss_vol_status and mpt-status in forms that their sources do not show."""

from __future__ import annotations

import pytest
from support.explained import read

VOLUME = """\
Controller: Smart Array P999i
/dev/sdq: (Smart Array P999i) RAID 1 Volume 0 status: OK.
  Physical drives: 1
         connector 2I box 1 bay 4   HP  EX0300ACME  5XK0AB12CDEF  HPD9 {state}
"""


@pytest.mark.parametrize(("state", "status"), [("OK", 0), ("Predictive failure", 1)])
def test_a_row_of_a_disk_with_lost_blanks(state: str, status: int) -> None:
    """Mails and forums squeeze the columns of 'cciss_vol_status -V'."""
    told = read(VOLUME.format(state=state))
    assert (told.status, told.unparsed) == (status, ())


def test_rates_of_mpt_status_with_blanks() -> None:
    """'mpt-status -n -s' separates all names and numbers in the same way."""
    told = read("vol_id 3 OPTIMAL\nphys_id 1 ONLINE\nscsi_id 1 100%\n")
    assert (told.status, told.unparsed) == (0, ())
