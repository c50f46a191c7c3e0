"""Transaction groups of pools, and the writes that ZFS delays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support import kstat

from iowarden.collectors.model import ParseError
from iowarden.collectors.zfs import txgs
from iowarden.collectors.zfs.txgs import PoolTxgs, parse_txgs, read_zfs_writes

if TYPE_CHECKING:
    from conftest import MachineMaker

DIRECTORY = "/proc/spl/kstat/zfs"
WRITTEN = 300_000_000


def test_the_group_that_is_being_written_is_as_old_as_its_sync() -> None:
    """Born 45 s before, open for 5 s of them: it waited for its turn, and then began."""
    text = kstat.txgs(syncing_seconds=40.0)
    assert parse_txgs(text, kstat.NOW_NANOSECONDS) == PoolTxgs(pytest.approx(40.0), 1.5, WRITTEN)


def test_a_module_before_0_8_prints_a_header_first() -> None:
    """Ubuntu 18.04 has 0.7.5: the same columns, below numbers as every statistic has."""
    text = "37 0 0x01 100 11200 6303 7305\n" + kstat.txgs(syncing_seconds=40.0)
    assert parse_txgs(text, kstat.NOW_NANOSECONDS) == PoolTxgs(pytest.approx(40.0), 1.5, WRITTEN)


def test_between_two_groups_none_is_being_written() -> None:
    """One is open, and the last one took 1.5 s."""
    assert parse_txgs(kstat.txgs(), kstat.NOW_NANOSECONDS) == PoolTxgs(0.0, 1.5, WRITTEN)


def test_a_module_that_keeps_no_history_shows_nothing() -> None:
    """zfs_txg_history=0: the titles alone. That is not a pool that writes nothing."""
    titles = kstat.txgs().partition("\n")[0] + "\n"
    assert parse_txgs(titles, kstat.NOW_NANOSECONDS) == PoolTxgs(None, None, None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "expected the titles"),
        ("txg birth state\n", "expected the titles"),
        (kstat.txgs().replace(" O ", " X "), "expected 12 values"),
        (kstat.txgs(4.0)[:-40], "expected 12 values"),
    ],
    ids=["empty", "other-titles", "unknown-state", "cut"],
)
def test_what_is_no_list_of_groups_is_an_error(text: str, expected: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(ParseError, match=expected):
        parse_txgs(text, kstat.NOW_NANOSECONDS)


def test_each_pool_has_its_own_groups_and_the_host_its_delays(
    machine: MachineMaker,
) -> None:
    """'tank' writes for 31 s, 'rpool' nothing; 'old' is exported while it is read."""
    root = machine(
        {
            f"{DIRECTORY}/dmu_tx": kstat.named(
                {"dmu_tx_assigned": 9, "dmu_tx_dirty_delay": 7, "dmu_tx_dirty_over_max": 3}
            ),
            **{f"{DIRECTORY}/{name}/state": "ONLINE\n" for name in ("tank", "rpool", "old")},
            f"{DIRECTORY}/tank/txgs": kstat.txgs(31.0),
            f"{DIRECTORY}/rpool/txgs": kstat.txgs(),
        }
    )
    samples = {(name, labels): value for name, labels, value in txgs.emit(read_zfs_writes(root))}
    seconds = "iowarden_zfs_pool_txg_sync_seconds"
    assert samples[seconds, (("pool", "tank"),)] == pytest.approx(31.0)
    assert samples[seconds, (("pool", "rpool"),)] == 0.0
    assert (seconds, (("pool", "old"),)) not in samples
    assert samples["iowarden_zfs_writes_delayed_total", ()] == 7
    assert samples["iowarden_zfs_writes_blocked_total", ()] == 3
