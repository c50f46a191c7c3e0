"""Every key of the configuration file: name, kind, default, example and explanation.

The parser, the example file and the documentation are all generated from the table `KEYS`; the
keys 'intervals.*' from the list of collectors.
"""

from __future__ import annotations

import ipaddress
import os
import re
import textwrap
from typing import TYPE_CHECKING, Any

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.registry import SOURCES
from iowarden.daemon.duration import duration_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

    from iowarden.collectors.source import Source
    from iowarden.daemon.config.schema import Address

TLS_MODES = ("auto", "none", "starttls", "tls", "opportunistic")
"""Of a mail server."""

# Kinds: the types of values. A reader gets the scalar's text and returns the value, or raises a
# ValueError; its text, if any, is added to the error message as a hint.


@dataclass(frozen=True, slots=True)
class ValueType:
    """Type of a value: the expectation in words, YAML tags of the scalar, and the reader."""

    expected: str
    tags: tuple[str, ...]
    read: Callable[[str], Any]
    is_list: bool = False


def _duration(minimum: str, maximum: str) -> ValueType:
    min_seconds, max_seconds = duration_seconds(minimum), duration_seconds(maximum)

    def read(text: str) -> float:
        seconds = duration_seconds(text)
        if not min_seconds <= seconds <= max_seconds:
            raise ValueError
        return seconds

    return ValueType(f"a duration from {minimum} to {maximum}", ("str", "int"), read)


def _integer(what: str, minimum: int, maximum: int) -> ValueType:
    def read(text: str) -> int:
        if (
            not re.fullmatch(r"0|[1-9][0-9]{0,9}", text, re.ASCII)
            or not minimum <= int(text) <= maximum
        ):
            raise ValueError
        return int(text)

    return ValueType(f"{what} {minimum}-{maximum}", ("int",), read)


def _choice(*words: str) -> ValueType:
    return _matching(f"one of {', '.join(words)}", "|".join(words))


def _matching(expected: str, pattern: str, *, is_list: bool = False) -> ValueType:
    compiled = re.compile(pattern, re.ASCII)

    def read(text: str) -> str:
        if not compiled.fullmatch(text):
            raise ValueError
        return text

    return ValueType(expected, ("str",), read, is_list)


def listed(text: str) -> list[str]:
    """Return what a text without quotes lists, separated by commas or blanks."""
    return text.replace(",", " ").split()


def _read_mail_address(text: str) -> str:
    if re.fullmatch(_MAIL_ADDRESS, text, re.ASCII):
        return text
    if "<" in text or ">" in text:
        raise ValueError("write only the address, without a name and '<>'")
    if text.isascii():
        raise ValueError
    name, at, host = text.rpartition("@")
    if not name.isascii():
        raise ValueError("use an address in ASCII: not every mail server takes others")
    raise ValueError(f"write '{name}{at}{_in_ascii(host)}'")


def _read_server(text: str) -> str:
    if re.fullmatch(rf"{_HOST_NAME}|[0-9A-Fa-f:.]+", text, re.ASCII):
        return text
    raise ValueError("" if text.isascii() else f"write '{_in_ascii(text)}'")


def _in_ascii(host: str) -> str:
    """Return an internationalized name as DNS has it. Source: RFC 3490 (IDNA)."""
    try:
        return host.encode("idna").decode()
    except UnicodeError:
        return "its form in ASCII"


def read_boolean(text: str) -> bool:
    """Return the boolean that a word means in YAML 1.1. Errors: ValueError."""
    word = text.lower()
    if word not in {"true", "yes", "on", "false", "no", "off"}:
        raise ValueError
    return word in {"true", "yes", "on"}


def _read_page(text: str) -> str:
    if text in {"summary", "full"}:
        return text
    if text != "off" and read_boolean(text):  # YAML 1.1 reads a plain 'off' as a boolean
        raise ValueError
    return "off"


def _read_number(text: str) -> float:
    if re.fullmatch(
        r"[-+]?([0-9]{1,30}(\.[0-9]{0,30})?|\.[0-9]{1,30})([eE][-+]?[0-9]{1,3})?", text
    ):
        return float(text)
    return duration_seconds(text)


def _read_patience(text: str) -> float | None:
    return None if text == "never" else _duration("1h", "1y").read(text)


def _read_interval(text: str) -> float | None:
    return None if text == "learn" else _duration("5m", "1y").read(text)


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
        raise ValueError("host names are not resolved here") from None
    if bracketed != (address.version == 6) or not re.fullmatch(r"[1-9][0-9]{0,4}", port, re.ASCII):
        raise ValueError
    if int(port) > 65535:
        raise ValueError
    return str(address), int(port)


_LABEL = r"[A-Za-z0-9_][A-Za-z0-9_-]{0,62}"
_HOST_NAME = rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*\.?"
_MAILBOX = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~.-]{1,64}"  # RFC 5322, dot-atom
_MAIL_ADDRESS = rf"{_MAILBOX}(@({_HOST_NAME}|\[[0-9A-Fa-f:.]+\]))?"

_BOOLEAN = ValueType("true or false, without quotes", ("bool",), read_boolean)
_PATH = ValueType("an absolute path", ("str",), _read_directory)
_HOST = _matching("a host name", _HOST_NAME)
_HOSTS = _matching("host names, without ports", _HOST_NAME, is_list=True)
_SERVER = ValueType("a host name or IP address, without a port", ("str",), _read_server)
_SENDER = ValueType("one mail address", ("str",), _read_mail_address)
_RECEIVERS = ValueType("mail addresses", ("str",), _read_mail_address, is_list=True)
_ADDRESSES = ValueType("an IP address and a port", ("str", "int"), _read_address, is_list=True)
_WORD = _matching("printable text without blanks", r"[!-~]{1,255}")
_CREDENTIAL = _matching(
    "a name of letters, digits, '.', '_' and '-'", r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}"
)
_GLOB = _matching("a pattern of file names, without '/'", r"[^/\x00-\x1f]{1,255}")
_INTERVAL = ValueType("learn, or a duration from 5m to 1y", ("str", "int"), _read_interval)
_PAGE = ValueType("one of off, summary, full", ("str", "bool"), _read_page)
_TEXT = _matching("an expression", r"(?s)\s*\S.{0,9999}")
_NUMBER = ValueType("a number, or a duration as seconds", ("int", "float", "str"), _read_number)
_SEVERITY = _choice("critical", "warning", "notice", "info")
_PERIOD = _duration("100ms", "1h")
_PACE = _duration("1s", "5s")  # the main loop runs once a second; signals treat 5 s as a gap
_SPAN = _duration("0s", "1y")


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the file.

    `default` is YAML text; where it is empty, `otherwise` describes the default in words.
    """

    path: str
    kind: ValueType
    default: str
    example: str
    explanation: str
    otherwise: str = ""


_DRIVES = ValueType("a list of drives", (), str, is_list=True)
_SELF_TESTS = ValueType("a list of groups", (), str, is_list=True)
_DIRECTORIES = ValueType("a list of directories", (), str, is_list=True)
_NOTIFY = ValueType("a list of receivers", (), str, is_list=True)
"""Lists whose items are sections: parser.py reads these four kinds."""


_PERIODS = (
    "meminfo vmstat stat pressure diskstats clock vm_sysctl numa hung_task loadavg thp uname udev"
    " block dm tasks enclosure hwmon bdi scsi queue md mounts ext4 btrfs zfs zfs_vdevs dm_targets"
    " filesystem"
).split()
"""Order of the keys in the example file; others come last."""


def _period_key(source: Source[Any]) -> Key:
    period = f"{source.period_seconds:g}s"
    kind = _PACE if source.paced else _PERIOD
    return Key(f"intervals.{source.name}", kind, period, period, source.period_help)


_LISTEN = "127.0.0.1:9748"

KEYS = (
    Key(
        "host", _HOST, "", "db1.example.com", "Name of this machine in mails.",
        "the fully qualified name in '/etc/hosts', or the host name",
    ),
    Key(
        "listen", _ADDRESSES, _LISTEN, _LISTEN,
        "Address and port of '/metrics'; several as a list: [127.0.0.1:9748, '[::1]:9748'].",
    ),
    Key(
        "state_directory", _PATH, "/var/lib/iowarden", "/var/lib/iowarden",
        "Directory of unsent mail, alerts and history.",
    ),
    Key(
        "rules_directory", _PATH, "/etc/iowarden/rules.d", "/etc/iowarden/rules.d",
        "Directory of your own Prometheus rule files: *.yaml and *.yml.",
    ),
    Key("shipped_rules", _BOOLEAN, "true", "false", "Evaluate the rules shipped with iowarden."),
    Key(
        "probe", _BOOLEAN, "true", "false",
        "Use the probe, a helper process that runs as root, for data that only root can read."
        " Without it, SMART, RAID controllers and what blocked tasks wait for are not monitored.",
    ),
    Key(
        "flight_recorder", _BOOLEAN, "true", "false",
        "Keep the data of the last ten minutes in memory, at most 8 MB, and save it in the state"
        " directory when an incident becomes critical, for 'iowarden replay'.",
    ),
    Key(
        "privacy.programs", _BOOLEAN, "true", "false",
        "Show names of programs and systemd units: which of them read, write or wait for I/O, and"
        " for which file. Command lines are never read. Kernel messages are shown unchanged.",
    ),
    Key(
        "trace", _BOOLEAN, "true", "false",
        "Trace the requests of a disk for 3 s when an incident of it begins: latencies and the"
        " slowest requests become evidence. 'iowarden trace' works in any case.",
    ),
    Key(
        "mail.enabled", _BOOLEAN, "true", "false",
        "false: no mails are written; the receivers of 'notify' get everything.",
    ),
    Key(
        "mail.server", _SERVER, "", "mail.example.com", "SMTP server that mails are sent to.",
        "none: mails are only stored in a Maildir in the state directory, not sent",
    ),
    Key(
        "mail.port", _integer("a port number", 1, 65535), "", "25", "Port of the SMTP server.",
        "465 with 'tls: tls', 587 with 'tls: starttls', or 'auto' and a remote server; else 25",
    ),
    Key(
        "mail.tls", _choice(*TLS_MODES), "auto", "starttls",
        "auto: no TLS to this machine itself, otherwise STARTTLS with a verified certificate;"
        " opportunistic: STARTTLS if the server offers it, certificate not verified.",
    ),
    Key("mail.user", _WORD, "", "iowarden", "User name at the SMTP server.", "no log-in"),
    Key(
        "mail.password_file", _PATH, "", "/etc/iowarden/password",
        "File with the password in its first line: 6 characters of ASCII or more; not readable for"
        " others.", "no log-in",
    ),
    Key(
        "mail.password_credential", _CREDENTIAL, "", "iowarden.mail-password",
        "Instead of a password file: a systemd credential with the password in its first line. The"
        " unit loads this one from '/etc/credstore' (mode 0600); a change needs a restart.",
        "no log-in",
    ),
    Key(
        "mail.from", _SENDER, "", "iowarden@example.com", "Sender address of the mails.",
        "iowarden@<host>",
    ),
    Key(
        "mail.to", _RECEIVERS, "", "storage@example.com",
        "Recipients: a list, or addresses separated by commas; required with a server.", "none",
    ),
    Key(
        "mail.initial_report", _BOOLEAN, "true", "false",
        "Send one initial report of the problems that exist at the first start on this machine.",
    ),
    Key(
        "mail.digest", _duration("0s", "365d"), "7d", "7d",
        "How often notices and information are mailed, as one digest; 0s: never.",
    ),
    Key(
        "mail.heartbeat", _BOOLEAN, "false", "true",
        "Send the digest even if it is empty, as a sign of life.",
    ),
    Key(
        "mail.timeout", _duration("1s", "10m"), "", "30s",
        "Timeout of each reply of the mail server before the mail itself is sent.",
        "20s if another server can be tried, otherwise 5m as in RFC 5321",
    ),
    Key(
        "mail.unsent_critical_after", _duration("1m", "1y"), "1h", "1h",
        "A mail that is unsent for this long is reported in the journal as critical, once a day.",
    ),
    Key(
        "mail.hello", _HOST, "", "db1.example.com", "Host name in the SMTP greeting (EHLO).",
        "the value of 'host'",
    ),
    Key(
        "mail_fallback.server", _SERVER, "", "mail2.example.com",
        "Second SMTP server, used while the first one fails or refuses mail.", "none",
    ),
    Key(
        "mail_fallback.port", _integer("a port number", 1, 65535), "", "25",
        "Port of the second SMTP server.", "as of 'mail.port'",
    ),
    Key(
        "mail_fallback.tls", _choice(*TLS_MODES), "auto", "starttls",
        "As 'mail.tls', for the second server.",
    ),
    Key(
        "mail_fallback.user", _WORD, "", "iowarden", "User name at the second server.", "no log-in",
    ),
    Key(
        "mail_fallback.password_file", _PATH, "", "/etc/iowarden/password2",
        "As 'mail.password_file', for the second server.", "no log-in",
    ),
    Key(
        "mail_fallback.password_credential", _CREDENTIAL, "", "iowarden.mail-fallback-password",
        "As 'mail.password_credential', for the second server.", "no log-in",
    ),
    Key(
        "notify", _NOTIFY, "",
        "[{name: ops, type: webhook, url: https://example.com/hook, severities: [critical]}]",
        "Receivers of notifications other than mail. 'name', 'type' (webhook, ntfy, slack,"
        " alertmanager or ping), 'url', or 'url_file' if its path is a secret: always for slack;"
        " 'severities' (default: [critical, warning]), 'proxy'. webhook: 'secret_file' signs,"
        " 'token_file' logs in; ntfy: 'token_file'; alertmanager: 'url' may be a list, 'labels',"
        " 'token_file', or 'user' and 'password_file'; ping: 'period' (default: 1m). Secrets are"
        " the first lines of files that others cannot read, of 6 characters or more. 'iowarden"
        " test-notify' tests them.",
        "none, only mail",
    ),
    Key(
        "smart.interval", _duration("1m", "7d"), "30m", "30m",
        "How often a drive is polled by smartctl. A sleeping drive is not woken for it, and one"
        " without I/O since its last poll is polled once a day.",
    ),
    Key(
        "smart.raid_interval", _duration("1m", "7d"), "1h", "1h",
        "How often a drive behind a RAID controller is polled, which can slow the others there.",
    ),
    Key(
        "smart.wake_after",
        ValueType("never, or a duration from 1h to 1y", ("str", "int"), _read_patience),
        "never", "7d",
        "A drive that has been asleep for this long is woken to be polled.",
    ),
    Key(
        "smart.drives", _DRIVES, "",
        "[{path: /dev/sg2, type: 'areca,1', slot: bay 1}, {serial: WD-WCC130000000}]",
        "Drives in addition to those that are detected: 'path', 'type' (smartctl's '-d'), 'serial'"
        " (this drive is expected), 'slot' (a name for people), 'profile' (full, basic or minimal:"
        " how much data is polled), 'ignore: true' (not polled).",
        "none, only those that the kernel, smartctl and controllers list",
    ),
    Key(
        "self_tests", _SELF_TESTS, "",
        "[{disks: '*', short: 'Wed 02:00', long: 'Sat 03:00'}]",
        "Schedule of drive self-tests. 'disks': serial numbers, 'rotational', 'solid-state' or"
        " '*'; the first group that matches a disk applies. 'short', 'long', 'conveyance',"
        " 'offline': times in the format of systemd timers ('systemd-analyze calendar' explains"
        " it). 'spread', 2h: each disk starts at its own time within this period. No test"
        " starts while another disk of the array is tested, the array is synchronizing or busy,"
        " or the disk is asleep; a test that was due meanwhile is started afterwards.",
        "none",
    ),
    Key(
        "scans", _SELF_TESTS, "", "[{disks: '*', start: 'Sun *-*-1..7 01:00'}]",
        "Schedule of surface scans, which read each disk completely, more slowly while others use"
        " it. 'disks' and 'spread' as in 'self_tests'; 'start': a time as there. A disk in an md"
        " array, ZFS pool or btrfs is left to their check or scrub, also with '*'. At each adapter"
        " one disk is scanned at a time; the next one follows.",
        "none",
    ),
    Key(
        "watch_directories", _DIRECTORIES, "",
        "[{path: /srv/wal}, {path: /srv/backup, glob: 'db1-*.dump', interval: 26h, retention: 7d}]",
        "Directories of backups or archived logs; one entry for each job. 'path': also list it in"
        " '/etc/iowarden/probe-directories', one path per line, for the probe. 'glob' (default: *):"
        " which files of it, not those below it. 'interval': a warning if the newest complete file"
        " is older; 'learn' (default): usual gaps are learned from 14 days and 200 files."
        " 'critical' (default: twice the interval, none if learned): the age that is critical."
        " 'retention' (default: none): the oldest file is at least so old, less one interval.",
        "none",
    ),
    Key(
        "http.connection_timeout", _duration("1s", "10m"), "30s", "30s",
        "Maximum duration of one connection, from its first byte to its last.",
    ),
    Key(
        "http.connection_limit", _integer("a number", 10, 10000), "300", "300",
        "Maximum number of connections at once; beyond it, the oldest one is closed, of the address"
        " with the most.",
    ),
    Key(
        "http.threads", _integer("a number", 1, 16), "2", "2",
        "Number of threads that answer requests.",
    ),
    Key(
        "http.page", _PAGE, "summary", "full",
        "The status page at '/'. 'summary' shows what '/metrics' shows; 'full' also kernel lines,"
        " file names, names of programs and units, receivers and the reasons of silences, and needs"
        " authentication: 'basic_auth_users' or required client certificates in 'web_config'."
        " 'off': no page.",
    ),
    Key(
        "http.hosts", _HOSTS, "", "storage.example.com",
        "Names of this host in the address of the status page, in addition to IP addresses,"
        " localhost, 'host' and the kernel's host name; a request for another name is refused, so"
        " that no page of another site can read it (DNS rebinding).",
        "none",
    ),
    Key(
        "web_config", _PATH, "", "/etc/iowarden/web.yml",
        "File with TLS and users of '/metrics', in the format of Prometheus's web configuration:"
        " 'cert_file', 'key_file', 'client_auth_type', 'client_ca_file', 'min_version' and"
        " 'basic_auth_users'. A reload reads it again.",
        "none: plain HTTP without authentication",
    ),
    Key(
        "expose.node", _BOOLEAN, "false", "true",
        "Export the data on '/metrics' under node_exporter's names as well. Only if node_exporter"
        " does not run on this host: two of them break rules that join by node_uname_info.",
    ),
    Key(
        "expose.smartctl", _BOOLEAN, "false", "true",
        "Export the data of drives under smartctl_exporter's names as well.",
    ),
    Key(
        "targets.instance", _WORD, "", "db1:9100",
        "Label 'instance' that rules match on series with other exporters' names, such as"
        " 'node_load1'.",
        "the value of 'host'",
    ),
    Key(
        "targets.node_job", _WORD, "node", "node",
        "Label 'job' that rules match on node_exporter's series; as in your Prometheus.",
    ),
    Key(
        "targets.smartctl_job", _WORD, "smartctl", "smartctl",
        "Label 'job' that rules match on smartctl_exporter's series.",
    ),
    *map(_period_key, sorted(
        (source for source in SOURCES if source.period_help),
        key=lambda source: [*_PERIODS, source.name].index(source.name),
    )),
    Key(
        "evaluation_interval", _PERIOD, "15s", "15s",
        "How often rule groups without an interval of their own are evaluated.",
    ),
    Key(
        "warning_group_wait", _duration("0s", "1h"), "60s", "60s",
        "How long a warning waits for others, for one common mail; critical never waits.",
    ),
    Key(
        "resolve_after", _SPAN, "10m", "10m",
        "An incident is resolved, with a mail, after none of its alerts fired for this long.",
    ),
    Key(
        "close_after", _SPAN, "24h", "24h",
        "An incident is closed after this long without an alert or event.",
    ),
    Key(
        "reopen_within", _SPAN, "7d", "7d",
        "A problem that returns within this time reopens its incident, in the same mail thread.",
    ),
    Key(
        "remind_after", _SPAN, "7d", "7d",
        "One reminder is sent about an incident that is open for this long.",
    ),
    Key(
        "log_level", _choice("error", "warning", "notice", "info", "debug"), "info", "debug",
        "Minimum severity of messages in the journal.",
    ),
)  # fmt: skip

OVERRIDE_KEYS = (
    Key("enabled", _BOOLEAN, "true", "false", "false: the rule or class of events is disabled."),
    Key("severity", _SEVERITY, "", "info", "critical, warning, notice or info."),
    Key(
        "threshold", _NUMBER, "", "0.9",
        "The number that the alert's value is compared with; {METRIC: NUMBER} for another metric.",
    ),
    Key("expr", _TEXT, "", "vector(0) > 1", "Another expression."),
    Key("for", _SPAN, "", "5m", "How long the expression must be true before the alert fires."),
    Key("keep_firing_for", _SPAN, "", "10m", "How long the alert keeps firing after that."),
)  # fmt: skip
"""Keys of a rule under 'overrides'."""

WATCH_KEYS = (
    Key("path", _PATH, "", "/srv/backup", ""),
    Key("glob", _GLOB, "*", "'*.dump'", ""),
    Key("interval", _INTERVAL, "learn", "26h", ""),
    Key("critical", _duration("5m", "1y"), "", "50h", ""),
    Key("retention", _duration("1h", "10y"), "", "7d", ""),
)
"""Keys of an entry of 'watch_directories'."""

SPREAD = Key("spread", _duration("0s", "7d"), "2h", "2h", "")
"""Of a group of 'self_tests' or 'scans'."""


def example() -> str:
    """Return the example file: every key with its explanation and default, commented out."""
    lines = [
        "# Configuration of iowarden. Every key is shown; remove the '#' before one to set it.",
        "# Each value shown is the default, or an example where the comment describes the default.",
        "# Durations: 500ms, 90s, 1h30m, 7d. 'iowarden config check FILE' checks this file.",
        "# 'systemctl reload iowarden' applies changes, except to 'state_directory', 'listen',",
        "# 'http', 'expose', 'targets' and 'probe', which need a restart.",
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
        "# Changes to shipped rules; 'iowarden rules list' shows the rules.",
        "# 'NAME/SEVERITY' selects one of several alerts with the same name. A class of events,",
        "# such as 'ata_link_down', has 'enabled' and 'severity' alone. Keys:",
        *(f"#   {key.path:<16} {key.explanation}" for key in OVERRIDE_KEYS),
        "overrides:",
        "  #FilesystemFull/warning: {threshold: 0.85, severity: notice}",
        "  #NoSwap: {enabled: false}",
    ]
    return "\n".join(lines) + "\n"
