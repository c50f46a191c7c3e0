"""A mirror that loses its spare after its first member: the title is the disk that failed now."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.kmsg import Kernel
from support.live import Live, text, watched

if TYPE_CHECKING:
    from pathlib import Path

    from support.live import Files

MD = "/sys/block/md0/md"


def failed(name: str) -> Files:
    """Return what '/sys' shows of an array of which this member failed."""
    return {f"{MD}/degraded": "1\n", f"{MD}/dev-{name}/state": "faulty\n"}


def member(name: str) -> Files:
    """Return what '/sys' shows of an array with this one as its second member."""
    return {
        f"{MD}/degraded": "0\n",
        f"{MD}/dev-{name}/state": "in_sync\n",
        f"{MD}/dev-{name}/slot": "1\n",
        f"{MD}/dev-{name}/errors": "0\n",
        f"/sys/block/md0/slaves/{name}": None,
        f"/sys/block/{name}/holders/md0": None,
    }


def given_up(name: str) -> tuple[str, str]:
    """Return what Linux 6.1 says of a member that its mirror gives up."""
    return (
        f"md/raid1:md0: Disk failure on {name}, disabling device.",
        "md/raid1:md0: Operation continuing on 1 devices.",
    )


@pytest.mark.parametrize("seconds", [60, 150])
def test_the_spare_that_fails_is_named_though_the_first_member_was_not_removed(
    tmp_path: Path, seconds: int
) -> None:
    """sdb stays in the array as faulty until somebody removes it, as with each hot spare."""
    live = Live(tmp_path)
    kernel = Kernel(live)
    live.plug("sdc")
    with watched(tmp_path, live) as host:
        host.wait(20)
        kernel.says(*given_up("sdb"), priority=2)
        live.change(failed("sdb"))
        (first,) = [m for m in host.wait(16) if "CRITICAL" in m["Subject"]]
        assert " sdb: " in first["Subject"]
        live.change(member("sdc"))
        rebuilt = [m for m in host.wait(seconds) if "REBUILT" in m["Subject"]]
        assert all("all members of md0 are present again" in text(mail) for mail in rebuilt)
        assert len(rebuilt) == (seconds > 60)
        kernel.says(*given_up("sdc"), priority=2)
        live.change(failed("sdc"))
        (second,) = [m for m in host.wait(16) if "CRITICAL" in m["Subject"]]
        assert " sdc: " in second["Subject"]
