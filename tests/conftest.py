"""What every test may ask for."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from support.recordings import write_tree

from iowarden.collectors.files import Root

if TYPE_CHECKING:
    from pathlib import Path

# No test here judges time: on a busy machine an example may take as long as it likes. A failing
# example is printed, not kept: the tests also run where the source tree cannot be written.
settings.register_profile("iowarden", deadline=None, database=None)
settings.load_profile("iowarden")

# A shell starts what runs in the background with this signal ignored, and so would be the programs
# that tests interrupt: they must meet it as they do at a terminal.
signal.signal(signal.SIGINT, signal.default_int_handler)

MachineMaker = Callable[[Mapping[str, str | bytes | None]], Root]


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[MachineMaker]:
    """Return a function that makes a machine of paths and texts (None: a directory)."""
    roots: list[Root] = []

    def make(files: Mapping[str, str | bytes | None]) -> Root:
        write_tree(tmp_path / "machine", files)
        root = Root(str(tmp_path / "machine"), page_size_bytes=4096)
        roots.append(root)
        return root

    yield make
    for root in roots:
        root.close()
