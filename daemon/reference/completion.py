"""Completion of the command in bash, zsh and fish: by shtab, from the parser of all commands.

Made when the package is built, not while a user types: a program that starts for each Tab key is
slow, and hangs with the disk that it is on.
"""

from __future__ import annotations

import argparse

import shtab

from iowarden.daemon.cli.main import full_parser

FILES = {
    "bash": "bash-completion/completions/iowarden",
    "zsh": "zsh/vendor-completions/_iowarden",
    "fish": "fish/vendor_completions.d/iowarden.fish",
}
"""The file of each shell below /usr/share.

Source: the names that bash-completion and fish look for; fpath of Debian's zsh.
"""
_KINDS = {
    "FILE": shtab.FILE,
    "IN": shtab.FILE,
    "OUT": shtab.FILE,
    "PATH": shtab.FILE,
    "RECORDING": shtab.FILE,
    "DIR": shtab.DIRECTORY,
}
"""What is completed as a path, by metavar."""


def texts() -> dict[str, str]:
    """Return the completion of each shell by file name."""
    found = {}
    for shell, name in FILES.items():
        parser = full_parser()
        _mark(parser)
        found[name] = shtab.complete(parser, shell=shell).rstrip() + "\n"
    return found


def _mark(parser: argparse.ArgumentParser) -> None:
    """Set which arguments are paths."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to list them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            for command in action.choices.values():
                _mark(command)
        elif (kind := _KINDS.get(str(action.metavar or action.dest.upper()))) is not None:
            action.complete = kind  # type: ignore[attr-defined]  # where shtab looks
