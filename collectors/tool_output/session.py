"""A pasted text of several programs: which lines are the output of which program.

A line with a prompt and a command begins an output; where no command is in the text, an output
begins with the paragraph that has a sign of its program (`SIGNS`). Lines of services and of the
kernel may alternate. What is the output of a command without a parser is reported, except that of
commands that show no state of storage.
Limits: a prompt of only '#' or '>' is recognized before the programs that are known, and before
other commands once it was before such a one.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.parsed_text import SIGNS, Tool, UnparsedLine
from iowarden.collectors.pasted_text import decode
from iowarden.collectors.pasted_text.no_verdict import no_verdict
from iowarden.collectors.services.service_log import service_message
from iowarden.collectors.tool_output.kernel_log import parse_kernel_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_PROMPT = lazy_pattern(
    r"(?P<prompt>[^\n#$%>\u276f➜]{0,80}[#$%>\u276f➜][ \t]{0,4})(?P<command>\S.*)?"
)
_TYPED = lazy_pattern(r"[A-Za-z./~]")
_IDLE = lazy_pattern(
    r"(?:sudo )?(?:(?:uname|date|uptime|hostname|hostnamectl|whoami|id|pwd|cd|ls|echo|exit|logout"
    r"|clear|history|su|ssh|sleep|man|which|apt|apt-get|dnf|yum|vi|vim|nano|lsblk|blkid|s?fdisk"
    r"|parted|findmnt|mount|lspci|lsusb|free|ip)\b.*|nvme list|-[is])?"
)
"""Commands that show no state of storage: their output needs no parser."""


@dataclass(frozen=True, slots=True)
class Output:
    """The output of one command. `first` is the number of its first line."""

    command: str
    first: int
    lines: tuple[str, ...]

    @property
    def text(self) -> str:
        """Return its lines as one text."""
        return "\n".join(self.lines)


@dataclass(frozen=True, slots=True)
class ProgramText:
    """The lines of one program, all others empty, and the commands by the number of their line."""

    tool: Tool
    text: str
    commands: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class Session:
    """The programs in a text."""

    texts: tuple[ProgramText, ...]
    unparsed: tuple[UnparsedLine, ...] = ()


def split(text: str) -> Session:
    """Split a text with its commands into the outputs of each program; none if none is known."""
    lines = text.split("\n")
    owners: list[Tool | None] = [None] * len(lines)
    unparsed: list[UnparsedLine] = []
    before: list[Output] = []
    commands: dict[int, str] = {}
    for output in _outputs(lines):
        if not output.text.strip():
            continue
        tools = _owners(output)
        if tools is None and not output.command:
            before.append(output)  # a text above the first command belongs to its output
            continue
        if tools is None:
            if not _IDLE.fullmatch(output.command):
                unparsed.append(_without_parser(output))
            continue
        for early in before:
            owners[early.first : early.first + len(early.lines)] = [tools[0]] * len(early.lines)
        before.clear()
        owners[output.first : output.first + len(output.lines)] = tools
        commands[output.first] = output.command
    plain = decode.without_commands(text).split("\n")
    programs = dict.fromkeys(owner for owner in owners if owner is not None)
    texts = tuple(
        ProgramText(
            tool,
            "\n".join(
                line if owner is tool else "" for owner, line in zip(owners, plain, strict=True)
            ),
            commands,
        )
        for tool in programs
    )
    return Session(texts, tuple(unparsed))


def _without_parser(output: Output) -> UnparsedLine:
    count = sum(bool(line.strip()) for line in output.lines)
    first = next(line for line in output.lines if line.strip())
    at = output.first + output.lines.index(first) + 1
    plural = "" if count == 1 else "s"
    reason = no_verdict(output.text) or f"no parser for '{output.command[:60]}'"
    return UnparsedLine(f"{reason}: {count} line{plural}", first, at)


def _outputs(lines: Sequence[str]) -> Iterator[Output]:
    """Yield the output of each command, and what stands above the first."""
    prompts: set[str] = set()
    begin, command = 0, ""
    plain = decode.without_commands("\n".join(lines)).split("\n")
    for number, (line, rest) in enumerate(zip(lines, plain, strict=True)):
        typed = _command(line, prompts, is_decoration=bool(line.strip()) and not rest)
        if typed is None:
            continue
        yield Output(command, begin, tuple(plain[begin:number]))
        begin, command = number + 1, typed
    yield Output(command, begin, tuple(plain[begin:]))


def _command(line: str, prompts: set[str], *, is_decoration: bool) -> str | None:
    """Return the command in a line, '' behind an empty prompt; None: it has none."""
    match = _PROMPT.match(line)
    if match is None:
        return line.strip() if is_decoration and decode.typed_tool(line) else None
    command = match["command"] or ""
    if is_decoration:
        if decode.typed_tool(command):
            prompts.add(match["prompt"].rstrip())
        return command
    is_command = not command or _TYPED.match(command) is not None
    return command if is_command and match["prompt"].rstrip() in prompts else None


def _owners(output: Output) -> list[Tool | None] | None:
    """Return the program of each line of an output; None: no parser is known for it."""
    tools = _signs(output.text)
    count = len(output.lines)
    if len(tools) == 1:
        return [*tools] * count
    if not tools:
        typed = decode.typed_tool(output.command)
        if typed is None and _is_kernel_log(output.text):
            typed = Tool.KERNEL  # a line or two of a log, as forums have them
        return None if typed is None else [typed] * count
    if Tool.SERVICES in tools:
        return _with_services(output)
    return [*_by_signs(output.lines, tools)]


def _is_kernel_log(text: str) -> bool:
    """Return whether lines without a time are the kernel's: an event, or a known harmless one."""
    log = parse_kernel_log(text)
    return bool(log.events or (log.outputs and not log.unparsed))


def _signs(text: str) -> list[Tool]:
    return [tool for tool, sign in SIGNS.items() if sign.search(text)]


def _with_services(output: Output) -> list[Tool | None]:
    """Return the program of each line of a log in which lines of services are between others."""
    is_service = [service_message(line) is not None for line in output.lines]
    others = [
        "" if of_service else line
        for of_service, line in zip(is_service, output.lines, strict=True)
    ]
    tools = _signs("\n".join(others))
    if not tools:
        return [Tool.SERVICES] * len(output.lines)
    first = is_service.index(True) if any(is_service) else 0  # the sign alone: damaged lines
    rest = [*_by_signs(others, tools)]
    head = _signs("\n".join(others[:first]))
    return [
        # The head of a mail is no output of what follows in it.
        Tool.SERVICES if mine or (not head and number < first) else tool
        for number, (mine, tool) in enumerate(zip(is_service, rest, strict=True))
    ]


_NOTHING_ABOVE = frozenset({Tool.MEMINFO, Tool.DF, Tool.LSSCSI})
"""Programs whose first line is their sign."""


def _by_signs(lines: Sequence[str], tools: Sequence[Tool]) -> Iterator[Tool]:
    """Yield the program of each line: an output begins with the paragraph of its sign."""
    text = "\n".join(lines)
    ends = [*itertools.accumulate(len(line) + 1 for line in lines)]
    signs: dict[int, Tool] = {}
    for tool in tools:
        at = 0
        for match in SIGNS[tool].finditer(text):
            begin = match.start() + len(match[0]) - len(match[0].lstrip())
            while ends[at] <= begin:
                at += 1
            if tool is Tool.KERNEL:
                signs[at] = tool  # its time is in front of whatever a line has
            signs.setdefault(at, tool)
    owners: list[Tool] = []
    current = signs[min(signs)]
    for number in range(len(lines)):
        sign = signs.get(number, current)
        if sign is not current:
            above = number
            while (
                sign not in _NOTHING_ABOVE
                and above
                and lines[above - 1].strip()
                and above - 1 not in signs
            ):
                above -= 1
            owners[above:] = [sign] * (number - above)
            current = sign
        owners.append(current)
    return iter(owners)
