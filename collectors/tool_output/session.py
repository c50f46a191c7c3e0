"""A pasted text of several programs: which lines are the output of which program.

A line with a prompt and a command begins an output; where no command is in the text, an output
begins with a sign of its program (`SIGNS`) and the head above it: two outputs may join without an
empty line. Lines of services and of the
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
from iowarden.collectors.services.service_log import MAIL_LINE, service_message
from iowarden.collectors.tool_output.kernel_log import parse_kernel_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_PROMPT = lazy_pattern(
    r"(?P<prompt>[^\n#$%>\u276f➜]{0,80}[#$%>\u276f➜][ \t]{0,4})(?P<command>\S.*)?"
)
_TYPED = lazy_pattern(r"[A-Za-z./~]")
_COLUMNS = lazy_pattern(r"#[ \t]+(?:(?:Ch|Enc|Slot)#|Name|ModelName|Attribute[ \t]+Items)[ \t]")
"""The head of a table of Areca's programs, behind a prompt of only '#'."""
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
    is_command = not command or bool(_TYPED.match(command) and not _COLUMNS.match(line))
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
    is_service = [
        service_message(line) is not None or MAIL_LINE.fullmatch(line) is not None
        for line in output.lines
    ]
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


_FIRST = lazy_pattern(
    r"smartctl (?:version )?\d|Personalities :|[ \t]*(?:pool: |NAME[ \t]|(?:LV|VG|PV)[ \t])"
    r"|CLI Version|Controllers found|Areca CLI|CLI> |[ \t]*#[ \t]+(?:Ch#|Enc#|Name|ModelName)"
    r"|Unit[ \t]+UnitType|V?Port[ \t]+Status|[ \t]*size=|[ \t]*(?:Magic|Array State) : |/dev/\S+:"
    r"|\S.* in (?:Chassis )?Slot|(?:dumpe2fs|tune2fs) \d|Smart Log for|UUID:|Label:|Overall:|\[/"
    r"|.{0,40}SAS[23] IR Configuration|scrub status for|Opening filesystem|TIME[ \t]|Date-Time"
)
"""Signs that are the first line of an output, or of which only a head stands above (`_HEADS`)."""
_EACH_LINE = frozenset(
    {Tool.MEMINFO, Tool.DF, Tool.LSSCSI, Tool.KERNEL, Tool.IPMITOOL, Tool.DMSETUP, Tool.VMSTAT}
)
"""Programs whose first line, or every line, is a sign."""
_HEADS = {
    tool: lazy_pattern(head)
    for tool, head in {
        Tool.SMARTCTL: r"[=*#-]{2,} ?[A-Za-z/].{0,60}|(?:\w{1,12}:? )?/dev/\S{1,60}"
        r"|[shv]d[a-z]{1,3}:?|nvme\d{1,3}(?:n\d{1,3})?:?",
        Tool.MDADM: r"/dev/\S{1,60}:[ \t]*",
        Tool.MULTIPATH: r"\S{1,128} \(.{1,128}\) dm-\d{1,4}\b.*|\S{1,128} dm-\d{1,4} .*",
        Tool.VMSTAT: r"procs .*",
        Tool.BTRFS: r"warning, device \d{1,20} is missing[ \t]*",
        Tool.LVS: r"[ \t]*(?:WARNING: |Couldn't find device |/dev/\S{1,60}: ).*",
        Tool.SENSORS: r"[A-Za-z]\w{0,40}-(?:isa|pci|scsi|i2c|virtual|acpi)-\S{1,20}",
        Tool.ZPOOL: r"ZFS has .*|[ \t]*\w{2,12}: .*|.*acceptable levels\..*",
        Tool.STORCLI: r"[-=]{4,}[ \t]*|[A-Z][\w /-]{1,60} ?:[ \t]*",
    }.items()
}
"""Lines of an output above its sign."""


def _begin(lines: Sequence[str], at: int, tool: Tool, signs: Mapping[int, Tool]) -> int:
    """Return the first line of the output whose sign is in line `at`.

    What stands above it in its paragraph is its own, if neither another output's sign is there nor
    its sign the first line of an output; else only lines that are known as its head.
    """
    top = at
    while top and lines[top - 1].strip() and top - 1 not in signs:
        top -= 1
    is_alone = not top or not lines[top - 1].strip()
    if is_alone and tool not in _EACH_LINE and not _FIRST.match(lines[at]):
        return top
    head = _HEADS.get(tool)
    first = at
    while head is not None and first > top and head.fullmatch(lines[first - 1]):
        first -= 1
    return first


def _by_signs(lines: Sequence[str], tools: Sequence[Tool]) -> Iterator[Tool]:
    """Yield the program of each line: an output begins with its sign, and the head above that."""
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
            above = _begin(lines, number, sign, signs)
            owners[above:] = [sign] * (number - above)
            current = sign
        owners.append(current)
    return iter(owners)
