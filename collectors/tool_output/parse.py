"""Parse the output of a tool or the kernel, without the host that it came from.

One text may contain outputs of several tools, with prompts between them (`session`). Each is tried
with every parser of its kind; what no parser accepts, and what a parser reports as missing, is
`unparsed`: a text is never healthy only because little of it could be parsed.
Limits: a text without the line that ends its tool's output is parsed as far as possible, and
reported as truncated.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import ParseError
from iowarden.collectors.parsed_text import Parsed, Tool, UnparsedLine
from iowarden.collectors.pasted_text import decode, json_forms
from iowarden.collectors.pasted_text.no_verdict import no_verdict
from iowarden.collectors.services.service_log import parse_service_log
from iowarden.collectors.tool_output import session
from iowarden.collectors.tool_output.areca import parse_areca
from iowarden.collectors.tool_output.arrays import parse_mdadm, parse_mdstat
from iowarden.collectors.tool_output.btrfs import parse_btrfs
from iowarden.collectors.tool_output.controllers import LOGS, parse_controllers
from iowarden.collectors.tool_output.dmsetup import parse_dmsetup, parse_lvm
from iowarden.collectors.tool_output.drives import parse_smartctl
from iowarden.collectors.tool_output.dumpe2fs import parse_dumpe2fs
from iowarden.collectors.tool_output.ipmi import parse_ipmi
from iowarden.collectors.tool_output.kernel_log import NO_STORAGE, parse_kernel_log
from iowarden.collectors.tool_output.memory import parse_memory, parse_vmstat
from iowarden.collectors.tool_output.multipath import parse_multipath
from iowarden.collectors.tool_output.mvcli import parse_mvcli
from iowarden.collectors.tool_output.nvme import parse_nvme
from iowarden.collectors.tool_output.scsi_devices import parse_lsscsi
from iowarden.collectors.tool_output.sensors import parse_sensors
from iowarden.collectors.tool_output.space import parse_df
from iowarden.collectors.tool_output.zpool import parse_zpool

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from iowarden.collectors.parsed_text import Finding


def parsed(content: bytes, kind: str = "", *, log: bool = False) -> tuple[Parsed, ...]:
    """Parse a text: of the program `kind`, or one result for each program that is recognized in it.

    Errors: ParseError: it is no text, or no program is recognized, or a tool shows no log.
    """
    if kind:
        return (parse(decode.decoded(content), Tool(kind), log=log),)
    text = decode.session(content)
    found = session.split(text)
    if not found.texts and (reason := no_verdict(text)):
        raise ParseError(reason)
    if not found.texts:
        raise ParseError(
            f"the program that printed it is not certain: got {text.strip()[:60]!r};"
            f" if it is one of these, add '--as' and its name: {', '.join(Tool)}; else paste: "
            "smartctl -x /dev/DISK; cat /proc/mdstat; journalctl -k"
        )
    first, *others = (
        parse(each.text, each.tool, log=log, commands=each.commands) for each in found.texts
    )
    if others:
        first, *others = map(_without_strangers, (first, *others))
    first = replace(first, unparsed=(*first.unparsed, *found.unparsed))
    return _without_repeats((first, *others))


def _without_strangers(part: Parsed) -> Parsed:
    """Return a part without the reason that a kernel log is of no storage: others were judged."""
    return replace(part, unparsed=tuple(u for u in part.unparsed if u.reason != NO_STORAGE))


def _without_repeats(parts: Sequence[Parsed]) -> tuple[Parsed, ...]:
    """Return the parts without messages about md arrays that '/proc/mdstat' in the text shows.

    A mail of mdadm has it below its message; it shows the redundancy, which no message does.
    """
    arrays = {name for part in parts for name in part.arrays}
    names = {f.object for part in parts for f in part.findings} & arrays
    if not names:
        return tuple(parts)
    return tuple(
        replace(
            part,
            findings=tuple(f for f in part.findings if f.object not in names or not _is_md(f)),
            objects=tuple(o for o in part.objects if o.name not in names or o.type != "object"),
        )
        for part in parts
    )


def _is_md(finding: Finding) -> bool:
    return finding.name in {"MdMemberFaulty", "MdDegraded"}


def parse(
    text: str, kind: Tool, *, log: bool = False, commands: Mapping[int, str] | None = None
) -> Parsed:
    """Parse a text; `log`: it is the log of a controller, and nothing else.

    `commands` are those in the text, by the number of their line: they may name the object.
    Errors: ParseError: this tool shows no log.
    """
    if log and kind not in LOGS:
        raise ParseError(f"'--log': expected one of {', '.join(LOGS)}, got {kind}")
    return _with_next_step(_parsed_as(text, kind, commands or {}, log=log), text)


def _parsed_as(text: str, kind: Tool, typed: Mapping[int, str], *, log: bool) -> Parsed:
    if kind is Tool.SMARTCTL:
        return parse_smartctl(text, typed)
    if kind in _OTHERS and kind not in _OF_JSON:
        try:
            text = json_forms.as_text(text, kind)
        except ParseError as error:
            return Parsed(kind, unparsed=(UnparsedLine(str(error)),))
    if kind is Tool.MEMINFO:
        return parse_memory(text, typed)
    if kind is Tool.NVME:
        return _with_reason(parse_nvme(text, typed), text)
    if kind in _OTHERS:
        return _with_reason(_without_empty_verdict(_OTHERS[kind](text)), text)
    if kind is Tool.CLI64:
        return parse_areca(text, log=log)
    return parse_controllers(text, kind, log=log, commands=typed)


def _with_next_step(parsed_text: Parsed, text: str) -> Parsed:
    """Return the result; where nothing was judged its first reason names what to paste instead."""
    judged = (parsed_text.objects, parsed_text.findings, parsed_text.events, parsed_text.drives)
    others = (parsed_text.arrays, parsed_text.refusals)
    parts = (each.arrays or each.disks or each.batteries for each in parsed_text.controllers)
    if any((*judged, *others, *parts)) or not parsed_text.unparsed:
        return parsed_text
    first, *rest = parsed_text.unparsed
    if reason := no_verdict(text):
        first, rest = replace(first, reason=reason), []
    elif _OTHER_OUTPUT.search(first.reason):
        command = _STATES_SHOWN_BY.get(parsed_text.kind, "smartctl -x /dev/DISK")
        first = replace(first, reason=f"{first.reason}; the states are in: {command}")
    return replace(parsed_text, unparsed=(first, *rest))


_OTHER_OUTPUT = lazy_pattern(r"\bexpected\b|contains no state")
"""Reasons of an output that is another one; a failure of the program has its own reason."""
_STATES_SHOWN_BY: Mapping[Tool, str] = {
    Tool.STORCLI: "storcli /call show all",
    Tool.MEGACLI: "MegaCli -LdPdInfo -aALL; MegaCli -AdpBbuCmd -aALL",
    Tool.ARCCONF: "arcconf getconfig 1",
    Tool.SSACLI: "ssacli ctrl all show config detail",
    Tool.CLI64: "cli64 vsf info; cli64 disk info; cli64 event info",
    Tool.TW_CLI: "tw_cli /c0 show all",
    Tool.SAS2IRCU: "sas2ircu 0 display",
    Tool.MDADM: "cat /proc/mdstat; mdadm --detail /dev/MD",
    Tool.NVME: "nvme smart-log /dev/nvmeN",
}


def _without_empty_verdict(parsed_text: Parsed) -> Parsed:
    """Return the result; that '/proc/mdstat' has no array is reported: nothing was judged."""
    judged = (parsed_text.arrays, parsed_text.objects, parsed_text.findings, parsed_text.unparsed)
    if parsed_text.kind is not Tool.MDSTAT or any(judged) or not parsed_text.outputs:
        return parsed_text
    reason = f"'{', '.join(parsed_text.outputs)}' lists no array: nothing was judged"
    return replace(parsed_text, unparsed=(UnparsedLine(reason),))


def _with_reason(parsed_text: Parsed, text: str) -> Parsed:
    """Return the result; a text in which nothing is of a known output is reported, never silent."""
    judged = (parsed_text.arrays, parsed_text.objects, parsed_text.findings, parsed_text.unparsed)
    if parsed_text.outputs or any(judged) or not text.strip():
        return parsed_text
    reason = f"{parsed_text.kind}: nothing in the text is of a known output"
    return replace(parsed_text, unparsed=(UnparsedLine(reason),))


_OF_JSON = frozenset({Tool.NVME, Tool.SERVICES, Tool.KERNEL})
"""Programs whose parser reads JSON itself."""


_OTHERS: Mapping[Tool, Callable[[str], Parsed]] = {
    Tool.MDSTAT: parse_mdstat,
    Tool.MDADM: parse_mdadm,
    Tool.ZPOOL: parse_zpool,
    Tool.MULTIPATH: parse_multipath,
    Tool.DMSETUP: parse_dmsetup,
    Tool.LVS: parse_lvm,
    Tool.MEMINFO: parse_memory,
    Tool.VMSTAT: parse_vmstat,
    Tool.DUMPE2FS: parse_dumpe2fs,
    Tool.NVME: parse_nvme,
    Tool.BTRFS: parse_btrfs,
    Tool.DF: parse_df,
    Tool.LSSCSI: parse_lsscsi,
    Tool.SENSORS: parse_sensors,
    Tool.MVCLI: parse_mvcli,
    Tool.IPMITOOL: parse_ipmi,
    Tool.SERVICES: parse_service_log,
    Tool.KERNEL: parse_kernel_log,
}
