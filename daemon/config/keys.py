"""Every key of the configuration file: name, kind, default, example and explanation.

One table (`KEYS`): the parser, the example file and the documentation all follow from it. The keys
'periods.*' follow from the sources.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import os
import re
import textwrap
from typing import TYPE_CHECKING, Any

from iowarden.collectors.registry import SOURCES
from iowarden.daemon.duration import duration_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from iowarden.collectors.source import Source
    from iowarden.daemon.config.schema import Address

# Kinds: what a value may be. A reader gets the scalar's text and returns the value, or raises a
# ValueError whose text, if any, is a hint that helps more than the expectation alone.


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """What a value may be, in words, as YAML's own tags of a scalar, and as a function."""

    expected: str
    tags: tuple[str, ...]
    read: Callable[[str], Any]
    is_list: bool = False


def _duration(least: str, most: str) -> Kind:
    least_seconds, most_seconds = duration_seconds(least), duration_seconds(most)

    def read(text: str) -> float:
        seconds = duration_seconds(text)
        if not least_seconds <= seconds <= most_seconds:
            raise ValueError
        return seconds

    return Kind(f"a duration from {least} to {most}", ("str", "int"), read)


def _integer(what: str, least: int, most: int) -> Kind:
    def read(text: str) -> int:
        if not re.fullmatch(r"0|[1-9][0-9]{0,9}", text, re.ASCII) or not least <= int(text) <= most:
            raise ValueError
        return int(text)

    return Kind(f"{what} {least}-{most}", ("int",), read)


def _choice(*words: str) -> Kind:
    return _matching(f"one of {', '.join(words)}", "|".join(words))


def _matching(expected: str, pattern: str, *, is_list: bool = False) -> Kind:
    compiled = re.compile(pattern, re.ASCII)

    def read(text: str) -> str:
        if not compiled.fullmatch(text):
            raise ValueError
        return text

    return Kind(expected, ("str",), read, is_list)


def read_boolean(text: str) -> bool:
    """Return what a word of YAML 1.1 means. Errors: ValueError."""
    word = text.lower()
    if word not in {"true", "yes", "on", "false", "no", "off"}:
        raise ValueError
    return word in {"true", "yes", "on"}


def _read_number(text: str) -> float:
    if re.fullmatch(
        r"[-+]?([0-9]{1,30}(\.[0-9]{0,30})?|\.[0-9]{1,30})([eE][-+]?[0-9]{1,3})?", text
    ):
        return float(text)
    return duration_seconds(text)


def _read_patience(text: str) -> float | None:
    return None if text == "never" else _duration("1h", "1y").read(text)


def _read_directory(text: str) -> str:
    if not text.startswith("/") or "\0" in text or ".." in text.split("/"):
        raise ValueError
    return os.path.normpath(text)


def _read_address(text: str) -> Address:
    host, _, port = text.rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    try:
        address = ipaddress.ip_address(host[1:-1] if bracketed else host)
    except ValueError:
        raise ValueError("a name would have to be looked up") from None
    if bracketed != (address.version == 6) or not re.fullmatch(r"[1-9][0-9]{0,4}", port, re.ASCII):
        raise ValueError
    if int(port) > 65535:
        raise ValueError
    return str(address), int(port)


_LABEL = r"[A-Za-z0-9_][A-Za-z0-9_-]{0,62}"
_HOST_NAME = rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*\.?"
_MAILBOX = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}"  # RFC 5322, dot-atom
_MAIL_ADDRESS = rf"{_MAILBOX}(@({_HOST_NAME}|\[[0-9A-Fa-f:.]+\]))?"

_BOOLEAN = Kind("true or false, without quotes", ("bool",), read_boolean)
_PATH = Kind("an absolute path", ("str",), _read_directory)
_HOST = _matching("a host name", _HOST_NAME)
_SERVER = _matching("a host name or IP address, without a port", rf"{_HOST_NAME}|[0-9A-Fa-f:.]+")
_SENDER = _matching("one mail address", _MAIL_ADDRESS)
_RECEIVERS = _matching("mail addresses", _MAIL_ADDRESS, is_list=True)
_ADDRESSES = Kind("an IP address and a port", ("str", "int"), _read_address, is_list=True)
_WORD = _matching("printable text without blanks", r"[!-~]{1,255}")
_CREDENTIAL = _matching(
    "a name of letters, digits, '.', '_' and '-'", r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
)
_TEXT = _matching("an expression", r"(?s)\s*\S.{0,9999}")
_NUMBER = Kind("a number, or a duration as seconds", ("int", "float", "str"), _read_number)
_SEVERITY = _choice("critical", "warning", "notice", "info")
_PERIOD = _duration("100ms", "1h")
_PACE = _duration("1s", "5s")  # the loop turns once a second; signals take 5 s for a gap
_SPAN = _duration("0s", "1y")


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    """One key of the file.

    `default` is YAML text; where it is empty, `otherwise` says in words what happens instead.
    """

    path: str
    kind: Kind
    default: str
    example: str
    explanation: str
    otherwise: str = ""


_DRIVES = Kind("a list of drives", (), str, is_list=True)
_SELF_TESTS = Kind("a list of groups", (), str, is_list=True)
"""Each item is a section of its own: parser.py reads these two."""


_PERIODS = (
    "meminfo vmstat stat pressure diskstats clock vm_sysctl numa hung_task loadavg thp uname udev"
    " block dm tasks enclosure hwmon bdi scsi queue md mounts ext4 btrfs filesystem"
).split()
"""In this order the example file has them; what is not here comes last."""


def _period_key(source: Source[Any]) -> Key:
    period = f"{source.period_seconds:g}s"
    kind = _PACE if source.paced else _PERIOD
    return Key(f"periods.{source.name}", kind, period, period, source.period_help)


_LISTEN = "127.0.0.1:9748"

KEYS = (
    Key(
        "host", _HOST, "", "db1.example.com", "Name of this machine in mails.",
        "its fully qualified name in '/etc/hosts', or its host name",
    ),
    Key(
        "listen", _ADDRESSES, _LISTEN, _LISTEN,
        "Address and port of '/metrics'; a list for several: [127.0.0.1:9748, '[::1]:9748'].",
    ),
    Key(
        "state_directory", _PATH, "/var/lib/iowarden", "/var/lib/iowarden",
        "Where unsent mail, alerts and history are kept.",
    ),
    Key(
        "rules_directory", _PATH, "/etc/iowarden/rules.d", "/etc/iowarden/rules.d",
        "Your own Prometheus rule files: *.yaml and *.yml.",
    ),
    Key("shipped_rules", _BOOLEAN, "true", "false", "Evaluate the rules that come with iowarden."),
    Key(
        "probe", _BOOLEAN, "true", "false",
        "Ask the helper that runs as root for what only root may see. Without it, SMART, RAID"
        " controllers and what blocked tasks wait for are not watched.",
    ),
    Key(
        "flight_recorder", _BOOLEAN, "true", "false",
        "Keep what was read in the last ten minutes in memory, at most 8 MB, and save it below the"
        " state directory when an incident becomes critical, for 'iowarden replay'.",
    ),
    Key(
        "mail.server", _SERVER, "", "mail.example.com", "SMTP server that takes our mail.",
        "none: mails stay in a Maildir in the state directory, where nobody sees them",
    ),
    Key(
        "mail.port", _integer("a port number", 1, 65535), "", "25", "Port of the server.",
        "465 with 'tls: tls', 587 with 'tls: starttls', or 'auto' and a remote server; else 25",
    ),
    Key(
        "mail.tls", _choice("auto", "none", "starttls", "tls", "opportunistic"), "auto", "starttls",
        "auto: none to this machine, else verified STARTTLS; opportunistic: unverified, if any.",
    ),
    Key("mail.user", _WORD, "", "iowarden", "Name to log in with.", "no log-in"),
    Key(
        "mail.password_file", _PATH, "", "/etc/iowarden/password",
        "File with the password in its first line; not readable by others.", "no log-in",
    ),
    Key(
        "mail.password_credential", _CREDENTIAL, "", "iowarden.mail-password",
        "Instead of a file that iowarden reads: a systemd credential with the password in its first"
        " line. The unit loads this one from '/etc/credstore' (mode 0600); a restart applies it.",
        "no log-in",
    ),
    Key(
        "mail.from", _SENDER, "", "iowarden@example.com", "Sender of the mails.",
        "iowarden@<host>",
    ),
    Key(
        "mail.to", _RECEIVERS, "", "storage@example.com",
        "Who is mailed, one address or a list; required with a server.", "nobody",
    ),
    Key(
        "mail.arrival", _BOOLEAN, "true", "false",
        "One mail about what was found when iowarden first met this machine.",
    ),
    Key(
        "mail.digest", _duration("0s", "365d"), "7d", "7d",
        "How often notices and information are mailed together; 0s: never.",
    ),
    Key(
        "mail.heartbeat", _BOOLEAN, "false", "true",
        "Mail the digest also when there is nothing to tell, as a sign of life.",
    ),
    Key(
        "mail.timeout", _duration("1s", "10m"), "30s", "30s",
        "How long one attempt to deliver a mail may take.",
    ),
    Key(
        "mail.unsent_critical", _duration("1m", "1y"), "1h", "1h",
        "A mail that waits for so long is told in the journal as critical, again each day.",
    ),
    Key("mail.hello", _HOST, "", "db1.example.com", "Name in the SMTP greeting.", "the host"),
    Key(
        "smart.period", _duration("1m", "7d"), "30m", "30m",
        "How often a drive is asked by smartctl. A sleeping one is not woken for it.",
    ),
    Key(
        "smart.raid_period", _duration("1m", "7d"), "1h", "1h",
        "How often a drive behind a RAID controller is: that can slow the others there.",
    ),
    Key(
        "smart.wake_after",
        Kind("never, or a duration from 1h to 1y", ("str", "int"), _read_patience),
        "never", "7d",
        "A drive that slept so long is woken to be asked.",
    ),
    Key(
        "smart.drives", _DRIVES, "",
        "[{path: /dev/sg2, type: 'areca,1', slot: bay 1}, {serial: WD-WCC130000000}]",
        "Drives beside those that are found: 'path', 'type' (smartctl's '-d'), 'serial' (this very"
        " drive is expected), 'slot' (a name for people), 'profile' (full, basic or minimal: how"
        " much it is asked), 'ignore: true' (it is not asked).",
        "those that kernel, smartctl and controllers tell of",
    ),
    Key(
        "self_tests", _SELF_TESTS, "",
        "[{disks: '*', short: '02:00', long: 'Sat *-*-1..7 03:00'}]",
        "When drives test themselves. 'disks': serial numbers, 'rotational', 'solid-state' or '*';"
        " a disk goes by the first group that has it. 'short', 'long', 'conveyance': when, as"
        " timers of systemd have it ('systemd-analyze calendar' explains it). 'spread', 2h: each"
        " disk has its own moment within so long after that. Never two of one array at once, never"
        " while it is synchronised or busy, or the disk asleep; what was missed is made up for.",
        "never",
    ),
    Key(
        "http.channel_timeout", _duration("1s", "10m"), "30s", "30s",
        "How long one connection may live, from its first byte to its last.",
    ),
    Key(
        "http.connection_limit", _integer("a number", 10, 10000), "300", "300",
        "How many connections at once; beyond, the one open for longest is closed.",
    ),
    Key(
        "http.threads", _integer("a number", 1, 16), "2", "2",
        "Threads that answer requests.",
    ),
    Key(
        "expose.node", _BOOLEAN, "false", "true",
        "Show what we know under node_exporter's names on '/metrics', too. Only where none runs on"
        " this host: two of them break rules that join by node_uname_info.",
    ),
    Key(
        "expose.smartctl", _BOOLEAN, "false", "true",
        "Show drives under smartctl_exporter's names, too.",
    ),
    Key(
        "targets.instance", _WORD, "", "db1:9100",
        "Label 'instance' that rules find on series with other exporters' names, as 'node_load1'.",
        "the host",
    ),
    Key(
        "targets.node_job", _WORD, "node", "node",
        "Label 'job' that rules find on node_exporter's series, as your Prometheus names it.",
    ),
    Key(
        "targets.smartctl_job", _WORD, "smartctl", "smartctl",
        "Label 'job' that rules find on smartctl_exporter's series.",
    ),
    *map(_period_key, sorted(
        (source for source in SOURCES if source.period_help),
        key=lambda source: [*_PERIODS, source.name].index(source.name),
    )),
    Key(
        "rule_interval", _PERIOD, "15s", "15s",
        "How often rule groups are evaluated that name no interval of their own.",
    ),
    Key(
        "warning_grouping", _duration("0s", "1h"), "60s", "60s",
        "How long a warning waits for others before it is mailed; critical never waits.",
    ),
    Key(
        "all_clear_after", _SPAN, "10m", "10m",
        "An incident in which nothing fired for this long gets its all-clear mail.",
    ),
    Key(
        "close_after", _SPAN, "24h", "24h",
        "An incident without alert and event for this long is closed.",
    ),
    Key(
        "reopen_within", _SPAN, "7d", "7d",
        "What comes back within this time continues the closed incident's mail thread.",
    ),
    Key(
        "remind_after", _SPAN, "7d", "7d",
        "An incident that lasts this long is mailed once more.",
    ),
    Key(
        "log_level", _choice("error", "warning", "notice", "info", "debug"), "info", "debug",
        "Least severity that goes to the journal.",
    ),
)  # fmt: skip

OVERRIDE_KEYS = (
    Key("enabled", _BOOLEAN, "true", "false", "false: the rule is left out."),
    Key("severity", _SEVERITY, "", "info", "critical, warning, notice or info."),
    Key(
        "threshold", _NUMBER, "", "0.9",
        "The number that the alert's value is compared with; {METRIC: NUMBER} for another one.",
    ),
    Key("expr", _TEXT, "", "vector(0) > 1", "Another expression."),
    Key("for", _SPAN, "", "5m", "How long the expression holds before the alert fires."),
    Key("keep_firing_for", _SPAN, "", "10m", "How long it fires on after that."),
)  # fmt: skip
"""What may be said of a rule under 'overrides'."""

SPREAD = Key("spread", _duration("0s", "7d"), "2h", "2h", "")
"""Of a group of 'self_tests'."""


def example() -> str:
    """Return the example file: every key with its explanation and default, commented out."""
    lines = [
        "# Configuration of iowarden. Every key is shown; remove the '#' before one to set it.",
        "# What is shown is the default, or an example where the default is said in words.",
        "# Durations: 500ms, 90s, 1h30m, 7d. 'iowarden config check FILE' tests this file.",
        "# 'systemctl reload iowarden' applies it, but for 'state_directory', 'listen', 'http' and",
        "# 'expose', 'targets' and 'probe': those need a restart.",
    ]
    section = ""
    for key in KEYS:
        parent, _, name = key.path.rpartition(".")
        lines.append("")
        if parent and parent != section:
            lines.append(f"{parent}:")
        section = parent
        indent = "  " if parent else ""
        otherwise = f" Default: {key.otherwise}." if key.otherwise else ""
        lines += textwrap.wrap(
            key.explanation + otherwise,
            100,
            initial_indent=f"{indent}# ",
            subsequent_indent=f"{indent}# ",
        )
        lines.append(f"{indent}#{name}: {key.default or key.example}")
    lines += [
        "",
        "# What is different about shipped rules; 'iowarden rules list' shows them.",
        "# Of several alerts of one name, 'NAME/SEVERITY' is one. Keys:",
        *(f"#   {key.path:<16} {key.explanation}" for key in OVERRIDE_KEYS),
        "overrides:",
        "  #FileSystemFull/warning: {threshold: 0.85, severity: notice}",
        "  #NoSwap: {enabled: false}",
    ]
    return "\n".join(lines) + "\n"
