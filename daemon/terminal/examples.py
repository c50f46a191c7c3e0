"""Examples of every command, for the end of its `--help`, the reference and the man page."""

from __future__ import annotations

import argparse
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

EXAMPLES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "run": (
        ("iowarden run --state-directory ./state", "in the foreground, with a state of its own"),
        ("iowarden run --play incident.tar.xz", "monitor a recording instead of this machine"),
    ),
    "setup": (
        ("iowarden setup", "on a terminal: prompts for each value, sends a test mail"),
        (
            (
                "iowarden setup --mail-to storage@example.com --mail-server mail.example.com:587"
                " --mail-user iowarden --mail-password-file /etc/iowarden/password --self-tests"
            ),
            "from a script: prompts for nothing",
        ),
    ),
    "advise": (
        ("iowarden advise", "what to tune, why, by which command, and what a change did"),
        ("iowarden advise --json", "for a script"),
    ),
    "config check": (
        ("iowarden config check", "the installed file and all rule files, before a reload"),
        ("iowarden config check ./draft.yaml", "a file before it is installed"),
    ),
    "check": (
        ("iowarden check", "exit status 0 ok, 1 warning, 2 critical, 3 unknown"),
        ("iowarden check --nagios", "one line about the running service, for Nagios or Icinga"),
        ("iowarden check --json | jq '.findings[]'", "for a script"),
    ),
    "explain": (
        ("iowarden explain DiskPendingSectors", "what an alert means here, and what to do"),
        ("dmesg | iowarden explain", "what the lines of the kernel's log mean"),
        (
            "iowarden explain --as storcli show-all.txt",
            "a saved output of a RAID controller's tool",
        ),
        (
            "storcli64 /c0 show events | iowarden explain --as storcli --log",
            "the event log of a controller",
        ),
        ("smartctl -x /dev/sda | iowarden explain --json", "SMART data of a drive, for a script"),
    ),
    "status": (
        ("iowarden status", "is anything wrong now, and does iowarden work?"),
        ("iowarden status --state-directory .run", "of a service that 'make run' started"),
    ),
    "silence add": (
        (
            "iowarden silence add --for 2h --reason 'disk swap' device=sda",
            "no mails about a disk; it follows the serial number",
        ),
        (
            "iowarden silence add --for 7d --reason 'test host' condition=swap",
            "nor about a condition of this host",
        ),
    ),
    "silence list": (("iowarden silence list", "what is silenced, until when, by whom"),),
    "silence expire": (("iowarden silence expire 5f2c", "the beginning of the ID is enough"),),
    "ack": (
        ("iowarden ack 279479c6de --reason 'new disk ordered'", "no mails until it escalates"),
        ("iowarden ack 279479c6de --undo", "notify again"),
    ),
    "query": (
        ("iowarden query 'iowarden_writeback_drain_seconds'", "one metric, as rules see it"),
        (
            "iowarden query 'max by (device) (iowarden_device_hang_seconds) > 0'",
            "which disks have requests in flight and complete none",
        ),
        (
            "iowarden query 'delta(iowarden_md_mismatches_bytes[1d])'",
            "a range that no rule reads is recorded from the first query on",
        ),
    ),
    "metrics": (
        ("iowarden metrics hang", "the metrics with this in their name, and their values"),
        ("iowarden metrics 'iowarden_smart_*'", "those of the drives"),
        ("iowarden metrics 'node_disk_*'", "those of node_exporter that rules can use"),
    ),
    "log-level": (
        ("iowarden log-level debug --for 10m", "while 'journalctl -u iowarden -f' is watched"),
        ("iowarden log-level info --for 0s", "end it now: as configured again"),
    ),
    "events": (
        ("iowarden events --since 2d --severity warning", "what happened to storage in two days"),
        ("iowarden events --disk sda --source kernel --follow", "of one disk, and what follows"),
    ),
    "incident list": (("iowarden incident list --all", "open and recently closed incidents"),),
    "incident show": (
        ("iowarden incident show 279479c6de", "evidence, meaning, what to do; ID as in the mail"),
    ),
    "storage": (
        ("iowarden storage", "what is wrong, which disk, what it still survives"),
        ("iowarden storage --by-bay", "at the rack: disks by adapter and bay"),
        ("iowarden storage --json | jq '.nodes[] | select(.severity != \"\")'", "for a script"),
    ),
    "monitoring": (
        ("iowarden monitoring", "which disks are monitored, which are not, and why"),
        ("iowarden monitoring --json | jq .disks", "for a script"),
    ),
    "disk list": (("iowarden disk list", "every disk, also behind RAID controllers"),),
    "disk show": (("iowarden disk show sda", "by device, or by serial number: WD-WCC4E1"),),
    "disk history": (
        ("iowarden disk history sda 197", "when pending sectors increased"),
        ("iowarden disk history WD-WCC4E1 temperature_celsius --all", "all changes"),
    ),
    "disk forget": (("iowarden disk forget WD-WCC4E1", "a disk that was removed for good"),),
    "selftest start": (
        ("iowarden selftest start sda long", "in the background; it takes hours"),
        ("iowarden selftest start sda --wait", "a short one, and its result"),
    ),
    "selftest status": (("iowarden selftest status sda --follow", "until it has ended"),),
    "selftest abort": (("iowarden selftest abort sda", "the drive stops its self-test"),),
    "scan start": (
        ("iowarden scan start sda", "read all of it, paced by what programs do"),
        ("iowarden scan start sda --restart --follow", "from the beginning, with its progress"),
    ),
    "scan status": (("iowarden scan status", "progress, time left, sectors that are unreadable"),),
    "scan stop": (("iowarden scan stop sda", "'iowarden scan start sda' resumes it"),),
    "locate": (
        ("iowarden locate sdb 1953525160", "sector of 'I/O error, dev sdb, sector 1953525160'"),
        ("iowarden locate md0 4096+8 --json", "eight sectors of 512 bytes"),
    ),
    "top": (("iowarden top --for 10s", "who reads, who writes, who waits for I/O"),),
    "trace": (
        ("iowarden trace sda --for 30s", "latencies of each request, the slowest, by whom"),
        ("iowarden trace md0 --no-files", "the disks of an array, without looking for files"),
    ),
    "record": (("iowarden record /var/tmp/incident.tar.xz --for 10m", "while the problem lasts"),),
    "report": (
        ("iowarden report /var/tmp/report.tar.xz", "to attach to a bug report: no names in it"),
        (
            "iowarden report report.tar.xz --recording /var/lib/iowarden/flights/1.tar.gz",
            "of an incident that was recorded",
        ),
    ),
    "replay": (
        ("iowarden replay incident.tar.xz", "alerts, incidents and mails that result"),
        ("iowarden replay incident.tar.xz --rules new-rule.yaml --json", "try a rule on it"),
        ("iowarden replay before.tar.xz after.tar.xz", "over a restart of iowarden"),
    ),
    "rules check": (
        ("iowarden rules check", "all rule files, before a reload"),
        ("iowarden rules check /etc/iowarden/rules.d/backup.yaml", "one"),
    ),
    "rules test": (("iowarden rules test tests.yaml", "unit tests in promtool's format"),),
    "rules list": (("iowarden rules list", "the rules in force and the state of their alerts"),),
    "rules show": (
        ("iowarden rules show DiskSlow", "its thresholds and values here, and how to change them"),
    ),
    "test-mail": (
        ("iowarden test-mail", "the dialogue with the mail server; exit status 0 if it took it"),
    ),
    "test-notify": (
        ("iowarden test-notify", "each receiver of 'notify' and its answer"),
        ("iowarden test-notify ops", "one"),
    ),
    "mail list": (
        ("iowarden mail list", "mails that wait, or that no mail server was configured for"),
        ("iowarden mail list --json | jq '.mails[].subject'", "for a script"),
    ),
    "mail show": (("iowarden mail show 279479c6de", "the beginning of the ID is enough"),),
    "unparsed list": (("iowarden unparsed list", "outputs that no parser understood"),),
    "unparsed show": (
        ("iowarden unparsed show smart-1.txt --redact", "one of them, to attach to a bug report"),
    ),
    "version": (("iowarden version", "the same as 'iowarden --version'"),),
}
"""By command: command lines, and what each is for. A line may begin with another program."""
OVERVIEW = ("status", "check", "monitoring", "incident show", "silence add", "test-mail")
"""The commands whose first example `iowarden --help` shows."""


def attach(parser: argparse.ArgumentParser) -> None:
    """Set the end of the help of all commands below a parser."""
    for _ in _attached(parser, ""):
        pass


def overview() -> str:
    """Return the examples that the help without a command shows."""
    return text([EXAMPLES[path][0] for path in OVERVIEW])


def _attached(
    parser: argparse.ArgumentParser, path: str
) -> Iterator[tuple[str, tuple[tuple[str, str], ...]]]:
    """Give the examples of a command; those of a group are the first of each command in it."""
    groups = [
        each
        for each in parser._actions  # noqa: SLF001 - argparse has no other way to list them
        if isinstance(each, argparse._SubParsersAction)  # noqa: SLF001 - as above
    ]
    below = [
        found
        for group in groups
        for name, command in group.choices.items()
        for found in _attached(command, f"{path} {name}".strip())
    ]
    own = [*EXAMPLES.get(path, ()), *(examples[0] for _, examples in below)]
    if path and own:
        _set(parser, own)
    yield from below
    if path in EXAMPLES:
        yield path, EXAMPLES[path]


def _set(parser: argparse.ArgumentParser, examples: list[tuple[str, str]]) -> None:
    parser.formatter_class = Help
    rest = f"\n{parser.epilog}" if parser.epilog else ""
    parser.epilog = text(examples) + rest


class Help(argparse.HelpFormatter):
    """Fills the description, and shows what has indented lines, as examples do, as it is."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        if "\n  " in text:
            return textwrap.indent(text, indent)
        return super()._fill_text(text, width, indent)


HEADING = "examples:\n"
HELP_WIDTH = 80


def text(examples: list[tuple[str, str]]) -> str:
    """Return the examples as a section of a help text."""
    lines = []
    for line, words in examples:
        lines += [f"  {each}" for each in _copyable(line)]
        lines += textwrap.wrap(words, HELP_WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6)
    return HEADING + "".join(f"{line}\n" for line in lines)


def _copyable(line: str) -> list[str]:
    r"""Return a command in lines that fit, with '\' at their ends."""
    found, rest = [], line
    while len(rest) > HELP_WIDTH - 2 and (at := rest.rfind(" --", 0, HELP_WIDTH - 4)) > 0:
        found.append(f"{rest[:at]} \\")
        rest = f"    {rest[at + 1 :]}"
    return [*found, rest]
