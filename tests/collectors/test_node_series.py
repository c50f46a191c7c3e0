"""Families of node_exporter's series."""

from __future__ import annotations

import pytest

from iowarden.collectors.model import Chunk
from iowarden.collectors.node_series import family, groups
from iowarden.daemon.http.exposition import Exposition, MetricsSnapshot


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("node_memory_MemTotal_bytes", "gauge"),
        ("node_cpu_seconds_total", "counter"),
        ("node_vmstat_pgpgin", "untyped"),
        ("node_md_blocks_synced", "gauge"),
    ],
)
def test_kinds(name: str, kind: str) -> None:
    """Counters end in '_total'; node_exporter exports vmstat's lines untyped."""
    assert family(name).kind == kind
    assert family(name).help.endswith(".")


def test_a_chunk_is_valid_on_metrics() -> None:
    """Each family once, followed by its samples, in any input order."""
    cpu0, cpu1 = (("cpu", "0"),), (("cpu", "1"),)
    samples = [
        ("node_cpu_seconds_total", cpu0, 1.5),
        ("node_vmstat_pgpgin", (), 7),
        ("node_cpu_seconds_total", cpu1, 2.5),
    ]
    problems: list[str] = []
    exposition = Exposition(problems.append)
    exposition.publish(MetricsSnapshot((Chunk("node_stat", 1, groups(samples)),)))
    lines = exposition.render().decode().splitlines()
    assert problems == []
    assert lines[:6] == [
        "# HELP node_cpu_seconds_total CPU time, by mode.",
        "# TYPE node_cpu_seconds_total counter",
        'node_cpu_seconds_total{cpu="0"} 1.5',
        'node_cpu_seconds_total{cpu="1"} 2.5',
        "# HELP node_vmstat_pgpgin A line of '/proc/vmstat'.",
        "# TYPE node_vmstat_pgpgin untyped",
    ]
