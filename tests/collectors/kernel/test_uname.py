"""Names of a machine, live and recorded."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.collectors.kernel.uname import DIRECTORY, emit, node_samples, parse_name, read_uname
from iowarden.collectors.machine import Machine
from iowarden.collectors.model import AbsentError, ParseError

if TYPE_CHECKING:
    from conftest import MachineMaker

FILES = {
    f"{DIRECTORY}/ostype": "Linux\n",
    f"{DIRECTORY}/hostname": "db1.example.com\n",
    f"{DIRECTORY}/osrelease": "5.10.0-30-amd64\n",
    f"{DIRECTORY}/version": "#1 SMP Debian 5.10.218-1 (2024-06-01)\n",
    f"{DIRECTORY}/domainname": "(none)\n",
}


def test_this_machine_is_what_uname_reports() -> None:
    """The live machine, whether or not its kernel has a file with the architecture."""
    value = read_uname(Machine("/"))
    assert (value.sysname, value.nodename, value.release, value.version, value.machine) == tuple(
        os.uname()
    )


def test_a_recorded_machine_has_its_own_architecture(machine: MachineMaker) -> None:
    """It is not that of the machine that plays the recording."""
    assert read_uname(machine(FILES | {f"{DIRECTORY}/arch": "s390x\n"})).machine == "s390x"


def test_a_recorded_machine_of_an_old_kernel_has_none(machine: MachineMaker) -> None:
    """No file has it: it is unknown, and not this machine's; the label is empty."""
    value = read_uname(machine(FILES))
    assert value.machine is None
    assert list(node_samples(value)) == [
        (
            "node_uname_info",
            (
                ("domainname", "(none)"),
                ("machine", ""),
                ("nodename", "db1.example.com"),
                ("release", "5.10.0-30-amd64"),
                ("sysname", "Linux"),
                ("version", "#1 SMP Debian 5.10.218-1 (2024-06-01)"),
            ),
            1,
        )
    ]
    assert [name for name, _, _ in emit(value)] == ["iowarden_uname_info"]


def test_a_machine_without_these_files_is_absent(machine: MachineMaker) -> None:
    """A recording without these files."""
    with pytest.raises(AbsentError, match="ostype"):
        read_uname(machine({"/proc/stat": ""}))


@pytest.mark.parametrize("text", ["", "\n", "a\nb\n", "\x1b[2J\n", "x" * 300])
def test_what_is_no_name_is_refused(text: str, machine: MachineMaker) -> None:
    """It would appear in mails and labels: one line of printable text, or nothing."""
    with pytest.raises(ParseError, match="hostname': expected one line of text, got"):
        read_uname(machine(FILES | {f"{DIRECTORY}/hostname": text}))


@given(st.text())
def test_any_text_is_a_name_or_a_parse_error(text: str) -> None:
    """A name is one line, not empty."""
    try:
        name = parse_name(text, DIRECTORY)
    except ParseError:
        return
    assert name
    assert "\n" not in name
