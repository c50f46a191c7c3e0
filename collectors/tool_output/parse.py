"""Parse the output of a tool or the kernel, without the host that it came from.

One text may contain several outputs of one tool, with prompts between them. Each is tried with
every parser of its kind; what no parser accepts, and what a parser reports as missing, is
`unparsed`: a text is never healthy only because little of it could be parsed.
Limits: a text without the line that ends its tool's output is parsed as far as possible, and
reported as truncated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.model import ParseError
from iowarden.collectors.tool_output.areca import parse_areca
from iowarden.collectors.tool_output.arrays import parse_mdadm, parse_mdstat
from iowarden.collectors.tool_output.controllers import LOGS, parse_controllers
from iowarden.collectors.tool_output.dmsetup import parse_dmsetup
from iowarden.collectors.tool_output.drives import parse_smartctl
from iowarden.collectors.tool_output.dumpe2fs import parse_dumpe2fs
from iowarden.collectors.tool_output.kernel_log import parse_kernel_log
from iowarden.collectors.tool_output.memory import parse_memory, parse_vmstat
from iowarden.collectors.tool_output.multipath import parse_multipath
from iowarden.collectors.tool_output.mvcli import parse_mvcli
from iowarden.collectors.tool_output.nvme import parse_nvme
from iowarden.collectors.tool_output.parsed import SIGNS, Parsed, Tool
from iowarden.collectors.tool_output.zpool import parse_zpool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def guessed(text: str, typed: Tool | None = None) -> Tool:
    """Return the program that printed a text; `typed` is that of a command behind a prompt.

    Errors: ParseError if uncertain, with the kinds.
    """
    found = [kind for kind, sign in SIGNS.items() if sign.search(text)]
    if not found and parse_kernel_log(text).events:
        found = [Tool.KERNEL]  # a line or two of a log, as forums have them
    if len(found) == 1:
        return found[0]
    if typed is not None and (not found or typed in found):
        return typed
    got = f"output that may be from {', '.join(found)}" if found else f"{text.strip()[:60]!r}"
    raise ParseError(
        f"the program that printed it is not certain: got {got}; add '--as' {', '.join(Tool)}"
    )


def parse(text: str, kind: Tool, *, log: bool = False) -> Parsed:
    """Parse a text; `log`: it is the log of a controller, and nothing else.

    Errors: ParseError: this tool shows no log.
    """
    if log and kind not in LOGS:
        raise ParseError(f"'--log': expected one of {', '.join(LOGS)}, got {kind}")
    if kind in _OTHERS:
        return _OTHERS[kind](text)
    if kind is Tool.CLI64:
        return parse_areca(text, log=log)
    return parse_controllers(text, kind, log=log)


_OTHERS: Mapping[Tool, Callable[[str], Parsed]] = {
    Tool.SMARTCTL: parse_smartctl,
    Tool.MDSTAT: parse_mdstat,
    Tool.MDADM: parse_mdadm,
    Tool.ZPOOL: parse_zpool,
    Tool.MULTIPATH: parse_multipath,
    Tool.DMSETUP: parse_dmsetup,
    Tool.MEMINFO: parse_memory,
    Tool.VMSTAT: parse_vmstat,
    Tool.DUMPE2FS: parse_dumpe2fs,
    Tool.NVME: parse_nvme,
    Tool.MVCLI: parse_mvcli,
    Tool.KERNEL: parse_kernel_log,
}
