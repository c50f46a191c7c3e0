"""The command line: each subcommand is found, and imports only what it needs."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

from iowarden.daemon.cli import main


@pytest.mark.parametrize("module", main.MODULES)
def test_a_module_adds_the_commands_by_which_it_is_found(
    module: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A listed command that is not added would be refused, an unlisted one never found."""
    added = []
    parsers = main.argparse.ArgumentParser().add_subparsers()

    def add(name: str, run: object, words: str) -> object:
        added.append(name)
        return parsers.add_parser(name, help=words)

    importlib.import_module(f"iowarden.daemon.cli.{module}").add_commands(add)
    assert sorted(added) == sorted(main.MODULES[module])
    for name in added:
        with pytest.raises(SystemExit) as ended:
            main.main([name, "--help"])
        assert ended.value.code == 0
        assert capsys.readouterr().out.startswith(f"usage: iowarden {name} ")


@pytest.mark.parametrize(("word", "status"), [("evnets", 2), ("--help", 0)])
def test_who_does_not_know_the_command_is_told_all_there_are(
    word: str, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """A mistyped command lists the valid ones."""
    with pytest.raises(SystemExit) as ended:
        main.main([word])
    assert ended.value.code == status
    told = "".join(capsys.readouterr())
    assert all(name in told for names in main.MODULES.values() for name in names)


VENDORS = (
    "adaptec areca.arcmsr areca.areca_smart areca.cli64 megaraid.storcli_answer"
    " megaraid.storcli_events mpt smartarray threeware.tw_cli"
).split()
"""What reads the controllers of a vendor: most machines have none."""


@pytest.mark.parametrize(
    ("command", "unwanted"),
    [
        ("events", ["rules.engine", "collectors.registry", "daemon.config", "daemon.service"]),
        ("monitoring", ["rules.engine", "collectors.registry", "daemon.config", "daemon.service"]),
        (
            "run",
            [
                "daemon.terminal.console",
                "daemon.cli.service_client",
                "daemon.check",
                "daemon.replay",
                "daemon.cli.rules_command",
                *(f"collectors.raid.{each}" for each in VENDORS),
            ],
        ),
        ("rules", ["daemon.service", "daemon.notify", "daemon.storage", "daemon.http"]),
    ],
)
def test_a_command_carries_no_other(command: str, unwanted: list[str]) -> None:
    """A query imports no rule engine; the service no other commands, and no vendor's reader."""
    code = (
        "import sys; from iowarden.daemon.cli import main; main._parser(sys.argv[1]);"
        " print(*sys.modules)"
    )
    program = [sys.executable, "-c", code, command]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "iowarden.daemon.cli.main" in loaded
    rooms = tuple(f"iowarden.{each}" for each in unwanted)
    assert [name for name in loaded if name.startswith(rooms)] == []
