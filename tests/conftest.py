"""What every test may ask for."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path

import pytest
from support import recordings, tiers
from support.golden import Golden
from support.memory import Content, Memory
from support.recordings import NO_CORPUS

# Byte code is cached whatever the environment says: else each worker and each program that a test
# starts would compile all it imports. Where nothing can be written, as it was.
BYTE_CODE = Path(__file__).parents[1] / "build" / "pycache"
with contextlib.suppress(OSError):
    BYTE_CODE.mkdir(parents=True, exist_ok=True)
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix = str(BYTE_CODE)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False

# A shell starts what runs in the background with this signal ignored, and so would be the programs
# that tests interrupt: they must meet it as they do at a terminal.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that select tests."""
    parser.addoption(
        "--system",
        action="store_true",
        help="the second tier: tests marked 'system', and random ones with ten times the examples",
    )
    parser.addoption(
        "--tenth",
        action="store_true",
        help="a tenth of the tests, the same ones each time: what is proved on another platform",
    )
    parser.addoption(
        "--rewrite-golden",
        action="store_true",
        help="only the tests of golden texts, which write them ('make golden')",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Say how many examples are tried, before the tests ask for it."""
    # Hypothesis' own option, which 'make fuzz' gives.
    fresh = config.getoption("--hypothesis-seed") is not None
    tiers.load(system=config.getoption("--system"), fresh=fresh)


# Last: hypothesis marks its own tests in the same hook.
@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of the other tier, and those outside the tenth."""
    tenth = config.getoption("--tenth")
    rewrites = config.getoption("--rewrite-golden")
    chosen: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        markers = {marker.name for marker in item.iter_markers()}
        here = tiers.chosen(markers, system=config.getoption("--system"))
        here = here and (not tenth or tiers.in_tenth(item.nodeid))
        here = here and (not rewrites or "golden" in getattr(item, "fixturenames", ()))
        (chosen if here else others).append(item)
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = chosen


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep what is collected out of every later garbage collection: it stays until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True, scope="module")
def _leftovers() -> Iterator[None]:
    """Find what the tests of a file left open while its last test runs, not in some later file.

    What then is left stays until the end. The service in a test collects garbage as the real one
    does: all of a process that has run hundreds of files takes longer than the test itself.
    """
    yield
    gc.collect()
    gc.freeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Give all tests that miss the corpus one place, because skips are listed by place."""
    report = yield
    if isinstance(report.longrepr, tuple) and NO_CORPUS in report.longrepr[2]:
        report.longrepr = (recordings.__file__, None, report.longrepr[2])
    return report


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """Return what compares golden texts; with '--rewrite-golden' it writes them."""
    return Golden(is_rewriting=request.config.getoption("--rewrite-golden"))


MachineMaker = Callable[[Mapping[str, Content]], Memory]


@pytest.fixture
def machine() -> MachineMaker:
    """Return a function that makes a machine of paths and texts (None: a directory)."""
    memory = Memory()

    def make(files: Mapping[str, Content]) -> Memory:
        memory.write(files)
        return memory

    return make
