"""Reference of the commands: every subcommand, argument and option, from argparse."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from iowarden.daemon.cli.main import full_parser
from iowarden.daemon.reference.markdown import code, literal, page, table

if TYPE_CHECKING:
    from collections.abc import Iterator

_INTRODUCTION = """\
`iowarden COMMAND --help` shows the same. Commands with `--socket` query the running service through
its control socket: members of the group `iowarden-viewer` may run those that change nothing,
members of `iowarden-operator` and root all of them. The others read files and need no service.

Exit status, where a command does not list its own: 0 success; 1 failed; 2 wrong usage; 78 an error
in the configuration, a rule file or another file that was given; 130 interrupted by Ctrl-C."""


def text() -> str:
    """Return the page."""
    return page("Commands", _INTRODUCTION, *_commands(full_parser(), "iowarden"))


def _commands(parser: argparse.ArgumentParser, name: str) -> Iterator[str]:
    """Give the parts of the page for what is below a parser."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no other way to list them
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - as above
            helps = {each.dest: each.help for each in action._choices_actions}  # noqa: SLF001
            for word, command in action.choices.items():
                yield from _command(command, f"{name} {word}", helps.get(word) or "")


def _command(parser: argparse.ArgumentParser, name: str, words: str) -> Iterator[str]:
    actions = [
        each
        for each in parser._actions  # noqa: SLF001 - as above
        if not isinstance(each, argparse._HelpAction | argparse._SubParsersAction)  # noqa: SLF001
    ]
    below = [*_commands(parser, name)]
    yield f"{'##' if name.count(' ') == 1 else '###'} `{name}`"
    yield f"{words[:1].upper()}{words[1:]}."
    if not below:
        yield code(" ".join((name, *map(_usage, actions))))
    if actions:
        yield table(
            ("argument", "meaning"), ((literal(_shown(each)), _meaning(each)) for each in actions)
        )
    if parser.epilog and not below:  # a group repeats those of its commands
        yield code(parser.epilog)
    yield from below


def _usage(action: argparse.Action) -> str:
    value = _value(action)
    if not action.option_strings:
        return {"?": f"[{value}]", "*": f"[{value} ...]", "+": f"{value} [{value} ...]"}.get(
            str(action.nargs), value
        )
    own = " ".join(filter(None, (action.option_strings[-1], value)))
    return own if action.required else f"[{own}]"


def _shown(action: argparse.Action) -> str:
    value = _value(action)
    return (
        ", ".join(" ".join(filter(None, (option, value))) for option in action.option_strings)
        or value
    )


def _value(action: argparse.Action) -> str:
    """Return what stands for the value: its metavar, '' where an option takes none."""
    if action.option_strings and action.nargs == 0:
        return ""
    if action.metavar is not None:
        return str(action.metavar)
    if action.choices is not None:
        return "{" + ",".join(map(str, action.choices)) + "}"
    return action.dest.upper()


def _meaning(action: argparse.Action) -> str:
    words = action.help or ""
    return f"{words}; required" if action.required and action.option_strings else words
