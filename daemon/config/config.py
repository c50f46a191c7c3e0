"""The configuration file: YAML in, frozen dataclasses out, every problem of a file in one error.

One table (`KEYS`) says name, kind, default, example and explanation of every key; the reader, the
example file and the documentation all follow from it.
"""

from __future__ import annotations

import dataclasses
import difflib
import ipaddress
import json
import os
import re
import stat
import textwrap
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import yaml

from iowarden.collectors.model import GivenError
from iowarden.collectors.registry import SOURCES
from iowarden.collectors.smart import discovery, smartctl_runner
from iowarden.collectors.smart.drive import Target
from iowarden.collectors.smart.options import Options
from iowarden.daemon.duration import duration_seconds
from iowarden.rules import calendar, selftest_schedule
from iowarden.rules.rulefile.overrides import Override
from iowarden.rules.yaml_nodes import NotYamlError, root_node

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from iowarden.collectors.model import Labels
    from iowarden.collectors.source import Source

LIMIT_BYTES = 64 * 1024
LIMIT_DEPTH = 8
LIMIT_SHOWN_CHARACTERS = 60
LIMIT_PASSWORD_BYTES = 4096

Address = tuple[str, int]
"""IP address without brackets, port."""


class ConfigError(GivenError):
    """The configuration cannot be used; `problems` has one line for each reason."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        """Keep the lines as they are to be shown."""
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclasses.dataclass(frozen=True, slots=True)
class Mail:
    """Where mail goes; without a server it goes to a Maildir in the state directory."""

    server: str | None
    port: int
    tls: str
    user: str | None
    password_file: str | None
    password_credential: str | None
    sender: str
    to: tuple[str, ...]
    timeout_seconds: float
    unsent_critical_seconds: float
    hello: str
    arrival: bool
    digest_seconds: float
    heartbeat: bool
    password: str | None = dataclasses.field(default=None, repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Http:
    """Limits of the HTTP server."""

    channel_timeout_seconds: float
    connection_limit: int
    threads: int


@dataclasses.dataclass(frozen=True, slots=True)
class Config:
    """Everything that can be set; `period_seconds` goes by the name of the source."""

    host: str
    listen: tuple[Address, ...]
    state_directory: str
    rules_directory: str
    shipped_rules: bool
    probe: bool
    """Whether the helper that runs as root is asked."""
    flight_recorder: bool
    """Whether the last ten minutes are in memory, and saved with a critical incident."""
    mail: Mail
    http: Http
    expose_node: bool
    """Whether '/metrics' has node_exporter's series, too."""
    expose_smartctl: bool
    """Whether it has smartctl_exporter's."""
    smart: Options
    """How drives are asked."""
    self_tests: tuple[selftest_schedule.Group, ...]
    """When they test themselves."""
    targets: Mapping[str, Labels]
    """What rules find on other exporters' series, by how their names begin."""
    period_seconds: Mapping[str, float]
    rule_interval_seconds: float
    warning_grouping_seconds: float
    all_clear_after_seconds: float
    close_after_seconds: float
    reopen_within_seconds: float
    remind_after_seconds: float
    log_level: str
    overrides: tuple[Override, ...] = ()
    """What is different about shipped rules."""


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
    def read(text: str) -> str:
        if text not in words:
            raise ValueError
        return text

    return Kind(f"one of {', '.join(words)}", ("str",), read)


def _matching(expected: str, pattern: str, *, is_list: bool = False) -> Kind:
    compiled = re.compile(pattern, re.ASCII)

    def read(text: str) -> str:
        if not compiled.fullmatch(text):
            raise ValueError
        return text

    return Kind(expected, ("str",), read, is_list)


def _read_boolean(text: str) -> bool:
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

_BOOLEAN = Kind("true or false, without quotes", ("bool",), _read_boolean)
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
"""Each is a section of its own: `_read_drives`."""
_MOST_DRIVES = 1000

_SELF_TESTS = Kind("a list of groups", (), str, is_list=True)
"""Each is a section of its own: `_read_self_tests`."""
_SELF_TEST_KEYS = ("disks", *selftest_schedule.KINDS, "spread")
_MOST_TESTS_A_DAY = 24
_SPREAD_SECONDS = 2 * 3600.0

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


def load(path: str) -> Config:
    """Return the configuration in a file, with the password its password file holds.

    Errors: ConfigError with every problem found.
    """
    return with_password(parse(read(path), path, machine_name()), path)


def read(path: str) -> str:
    """Return the text of a configuration file. Errors: ConfigError."""
    try:
        return _read(path, LIMIT_BYTES)
    except OSError as error:
        hint = "read it as root" if isinstance(error, PermissionError) else "name another file"
        problem = (
            f"'{path}': expected a readable configuration file, got '{error.strerror}'; {hint}"
        )
        raise ConfigError((problem,)) from error
    except ValueError as error:
        raise ConfigError((f"'{path}': {error}",)) from error


def with_password(config: Config, file: str) -> Config:
    """Return the configuration with the password that it names. Errors: ConfigError."""
    if config.mail.password_credential is not None:
        password = _credential(config.mail.password_credential, file)
    elif config.mail.password_file is not None:
        password = _password(config.mail.password_file, file)
    else:
        return config
    return dataclasses.replace(config, mail=dataclasses.replace(config.mail, password=password))


def parse(text: str, file: str, machine: str = "localhost") -> Config:
    """Return the configuration that a text means; `machine` is the host when none is set.

    Limits: one document without aliases, `LIMIT_DEPTH` levels deep.
    Errors: ConfigError with every problem found.
    """
    problems: list[tuple[int, str]] = []
    given: dict[str, Any] = {}
    lines: dict[str, int] = {}
    try:
        root = root_node(text, LIMIT_DEPTH, aliases=False)
    except NotYamlError as error:
        raise ConfigError((f"'{file}':{error.line}: {error}",)) from error
    if root is not None:
        _read_section(root, "", _Reading(file, problems, given, lines))
    values = {key.path: given.get(key.path, _default(key)) for key in KEYS}
    for path, problem in _conflicts(values, given):
        problems.append((lines[path], f"'{file}':{lines[path]}: {path}: {problem}"))
    if problems:
        raise ConfigError(tuple(problem for _, problem in sorted(problems)))
    return _config(values, given.get("overrides", ()), machine)


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


def machine_name() -> str:
    """Return the machine's fully qualified name in '/etc/hosts', or its host name.

    Source: hosts(5), the first name of a line is the canonical one.
    Limits: no name server is asked, because one that does not answer would stop us.
    """
    name = os.uname().nodename
    try:
        hosts = _read("/etc/hosts", 1024 * 1024)
    except (OSError, ValueError):  # a machine without the file has only its host name
        return name
    return fully_qualified(name, hosts)


def fully_qualified(name: str, hosts: str) -> str:
    """Return the canonical name that the text of '/etc/hosts' gives a host name, or the name."""
    for line in hosts.splitlines():
        names = line.partition("#")[0].split()[1:]
        if "." not in name and name in names and names[0].startswith(name + "."):
            return names[0]
    return name


def _read(path: str, limit_bytes: int) -> str:
    # O_NONBLOCK: a named pipe nobody writes to must not stop the daemon
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("expected a regular file, got another kind; name a text file")
        content = stream.read(limit_bytes + 1)
    if len(content) > limit_bytes:
        raise ValueError(f"expected at most {limit_bytes} bytes, got more; is it the right file?")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"expected UTF-8 text, got byte 0x{content[error.start]:02x} in line {line};"
            " save the file as UTF-8"
        ) from error


def _password(path: str, file: str) -> str:
    where = f"'{file}': mail.password_file = {_shown(path)}"
    try:
        mode = os.stat(path).st_mode
        text = _read(path, LIMIT_PASSWORD_BYTES)
    except OSError as error:
        problem = (
            f"{where}: expected a readable file, got '{error.strerror}';"
            f" try: install -m 0640 -g iowarden /dev/null {path}"
        )
        raise ConfigError((problem,)) from error
    except ValueError as error:
        raise ConfigError((f"{where}: {error}",)) from error
    if mode & stat.S_IROTH:
        problem = (
            f"{where}: expected a file that others cannot read,"
            f" got mode {stat.S_IMODE(mode):04o}; try: chmod o= {path}"
        )
        raise ConfigError((problem,))
    return _first_line(text, where)


CREDENTIAL_STORES = ("/etc/credstore", "/run/credstore", "/usr/lib/credstore")
"""Where systemd looks for one that a unit names without a path. Source: systemd.exec(5)."""


def _credential(name: str, file: str) -> str:
    """Return a password that systemd handed over; of a command, where systemd would take it."""
    where = f"'{file}': mail.password_credential = {_shown(name)}"
    handed = os.environ.get("CREDENTIALS_DIRECTORY")
    for directory in CREDENTIAL_STORES if handed is None else (handed,):
        try:
            return _first_line(_read(f"{directory}/{name}", LIMIT_PASSWORD_BYTES), where)
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            got = error.strerror if isinstance(error, OSError) else error
            problem = f"{where}: expected a readable '{directory}/{name}', got: {got}"
            raise ConfigError((problem,)) from error
    place = CREDENTIAL_STORES[0]
    expected = "a credential handed over by systemd" if handed else f"it in '{place}'"
    advice = (
        f"write the password to '{place}/{name}' (mode 0600), have 'LoadCredential={name}' in the"
        " unit ('systemctl edit iowarden'), and restart the service"
    )
    raise ConfigError((f"{where}: expected {expected}, got none; {advice}",))


def _first_line(text: str, where: str) -> str:
    password = text.partition("\n")[0].rstrip("\r")
    if not password:
        raise ConfigError((f"{where}: expected the password in its first line, got nothing",))
    return password


@dataclasses.dataclass(frozen=True, slots=True)
class _Reading:
    """What one walk through the nodes has found so far."""

    file: str
    problems: list[tuple[int, str]]
    given: dict[str, Any]
    lines: dict[str, int]

    def report(self, node: yaml.Node, problem: str) -> None:
        line = node.start_mark.line + 1
        self.problems.append((line, f"'{self.file}':{line}: {problem}"))


def _read_section(node: yaml.Node, prefix: str, reading: _Reading) -> None:
    if _is_null(node):  # a section whose keys are all commented out
        return
    if not isinstance(node, yaml.MappingNode):
        name = prefix.rstrip(".") or "the file"
        reading.report(node, f"{name}: expected 'key: value' lines, got {_got(node)}")
        return
    keys = {key.path: key for key in KEYS}
    sections = {path.rpartition(".")[0] for path in keys} - {""}
    seen: dict[str, int] = {}
    for name_node, value_node in node.value:
        if not isinstance(name_node, yaml.ScalarNode):
            reading.report(
                name_node,
                f"{prefix.rstrip('.') or 'the file'}: expected a key, got {_got(name_node)}",
            )
            continue
        path = prefix + name_node.value
        if path in seen:
            reading.report(name_node, f"{path}: given before, in line {seen[path]}; remove one")
            continue
        seen[path] = name_node.start_mark.line + 1
        if path in sections:
            _read_section(value_node, path + ".", reading)
        elif path == "overrides":
            _read_overrides(value_node, reading)
        elif path == "smart.drives":
            _read_drives(value_node, reading)
        elif path == "self_tests":
            _read_self_tests(value_node, reading)
        elif path in keys:
            reading.lines[path] = seen[path]
            _read_value(value_node, keys[path], reading)
        else:
            # the value is not shown: it may be a password
            reading.report(name_node, f"{_plain(path)}: unknown key; {_suggestion(path)}")


def _read_overrides(node: yaml.Node, reading: _Reading) -> None:
    """Read what is different about shipped rules, which are named here and judged later."""
    found = []
    keys = {key.path: key for key in OVERRIDE_KEYS}
    for rule, (name_node, value_node) in _pairs(node, "overrides", reading).items():
        path = f"overrides.{_plain(rule)}"
        values: dict[str, Any] = {}
        for name, (key_node, value) in _pairs(value_node, path, reading).items():
            if name not in keys:
                known = ", ".join(keys)
                problem = f"{path}.{_plain(name)}: unknown key; expected one of {known}"
                reading.report(key_node, problem)
                continue
            key = dataclasses.replace(keys[name], path=f"{path}.{name}")
            if name == "threshold" and isinstance(value, yaml.MappingNode):
                values[name] = tuple(
                    (metric, _read_scalar(number, key, reading))
                    for metric, (_, number) in _pairs(value, key.path, reading).items()
                )
            else:
                values[name] = _read_scalar(value, key, reading)
        threshold = values.get("threshold")
        if threshold is not None and not isinstance(threshold, tuple):
            threshold = (("", threshold),)
        override = Override(
            rule=rule,
            place=f"'{reading.file}':{name_node.start_mark.line + 1}",
            column=name_node.start_mark.column + 1,
            enabled=values.get("enabled", True),
            severity=values.get("severity"),
            for_seconds=values.get("for"),
            keep_firing_for_seconds=values.get("keep_firing_for"),
            expression=values.get("expr"),
            thresholds=threshold or (),
        )
        found.append(override)
    reading.given["overrides"] = tuple(found)


def _read_drives(node: yaml.Node, reading: _Reading) -> None:
    """Read the drives that people wrote down; what a key may be, collectors.targets knows."""
    if _is_null(node):
        return
    if not isinstance(node, yaml.SequenceNode) or len(node.value) > _MOST_DRIVES:
        many = f"{len(node.value)}" if isinstance(node, yaml.SequenceNode) else _got(node)
        example = next(key.example for key in KEYS if key.kind is _DRIVES)
        problem = f"expected a list of up to {_MOST_DRIVES} drives, got {many}"
        reading.report(node, f"smart.drives: {problem}; example: drives: {example}")
        return
    found: dict[tuple[str, str, str], int] = {}
    drives: list[discovery.ConfiguredDrive] = []
    for number, item in enumerate(node.value, 1):
        path = f"smart.drives, drive {number}"
        known = len(reading.problems)
        # A serial number may look like a number, and is none.
        values: dict[str, object] = {
            key: _boolean(value) if key == "ignore" else _plain_text(value)
            for key, (_, value) in _pairs(item, path, reading).items()
            if not _is_null(value)
        }
        if len(reading.problems) > known:
            continue
        try:
            drive = discovery.parse_configured(values, tuple(smartctl_runner.PROFILES))
        except ValueError as error:
            reading.report(item, f"{path}: {error}")
            continue
        behind = Target(drive.path, drive.kind).behind_raid()
        same = (drive.path, drive.kind if behind else "", "" if drive.path else drive.serial)
        if same in found:
            reading.report(item, f"{path}: the same as drive {found[same]}; remove one")
        found.setdefault(same, number)
        drives.append(drive)
    reading.given["smart.drives"] = tuple(drives)


def _read_self_tests(node: yaml.Node, reading: _Reading) -> None:
    """Read when drives test themselves."""
    if _is_null(node):
        return
    if not isinstance(node, yaml.SequenceNode) or len(node.value) > _MOST_DRIVES:
        many = f"{len(node.value)}" if isinstance(node, yaml.SequenceNode) else _got(node)
        example = next(key.example for key in KEYS if key.kind is _SELF_TESTS)
        problem = f"expected a list of up to {_MOST_DRIVES} groups, got {many}"
        reading.report(node, f"self_tests: {problem}; example: self_tests: {example}")
        return
    groups = []
    for number, item in enumerate(node.value, 1):
        path = f"self_tests, group {number}"
        pairs = _pairs(item, path, reading)
        if not isinstance(item, yaml.MappingNode) and not _is_null(item):
            continue
        calendars: dict[str, calendar.Calendar] = {}
        spread_seconds = _SPREAD_SECONDS
        for name, (key_node, value) in pairs.items():
            if name not in _SELF_TEST_KEYS:
                known = ", ".join(_SELF_TEST_KEYS)
                reading.report(key_node, f"{path}: {_plain(name)}: expected one of {known}")
            elif name == "spread":
                key = Key(f"{path}.spread", _duration("0s", "7d"), "2h", "2h", "")
                spread_seconds = _read_scalar(value, key, reading) or 0.0
            elif name != "disks":
                try:
                    calendars[name] = _calendar(str(_plain_text(value)))
                except ValueError as error:
                    reading.report(value, f"{path}: {name} = {_got(value)}: {error}")
        disks = pairs["disks"][1] if "disks" in pairs else None
        items = disks.value if isinstance(disks, yaml.SequenceNode) else [disks]
        names = tuple(
            each.value for each in items if isinstance(each, yaml.ScalarNode) and not _is_null(each)
        )
        if not items or len(names) < len(items):
            got = "nothing" if disks is None else _got(disks)
            reading.report(
                item,
                f"{path}: disks: expected '*', {selftest_schedule.ROTATIONAL},"
                f" {selftest_schedule.SOLID_STATE}, serial numbers, or a list of these, got {got}",
            )
            continue
        groups.append(selftest_schedule.Group(names, MappingProxyType(calendars), spread_seconds))
    reading.given["self_tests"] = tuple(groups)


def _calendar(text: str) -> calendar.Calendar:
    found = calendar.parse(text)
    if len(found.minutes) > _MOST_TESTS_A_DAY:
        raise ValueError(f"expected at most {_MOST_TESTS_A_DAY} a day, got {len(found.minutes)}")
    return found


def _boolean(node: yaml.Node) -> object:
    text = _plain_text(node)
    return _read_boolean(str(text)) if _tag(node) == "bool" else text


def _plain_text(node: yaml.Node) -> object:
    return node.value if isinstance(node, yaml.ScalarNode) else _got(node)


def _pairs(node: yaml.Node, path: str, reading: _Reading) -> dict[str, tuple[yaml.Node, yaml.Node]]:
    """Return key and value nodes of a section whose keys can be anything."""
    found: dict[str, tuple[yaml.Node, yaml.Node]] = {}
    if _is_null(node):
        return found
    if not isinstance(node, yaml.MappingNode):
        reading.report(node, f"{path}: expected 'key: value' lines, got {_got(node)}")
        return found
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            reading.report(key, f"{path}: expected a key, got {_got(key)}")
        elif key.value in found:
            before = found[key.value][0].start_mark.line + 1
            name = _plain(key.value)
            reading.report(key, f"{path}.{name}: given before, in line {before}; remove one")
        else:
            found[key.value] = (key, value)
    return found


def _suggestion(path: str) -> str:
    paths = [key.path for key in KEYS] + sorted({key.path.partition(".")[0] for key in KEYS})
    paths.append("overrides")
    leaf = path.rpartition(".")[2]
    same_leaf = [known for known in paths if known.rpartition(".")[2] == leaf]
    if close := same_leaf or difflib.get_close_matches(path, paths, 1, 0.7):
        return f"did you mean '{close[0]}'?"
    parent = path.rpartition(".")[0]
    prefix = parent + "." if parent else ""
    names = [
        name.removeprefix(prefix).partition(".")[0] for name in paths if name.startswith(prefix)
    ]
    return f"expected one of {', '.join(dict.fromkeys(names))}"


def _read_value(node: yaml.Node, key: Key, reading: _Reading) -> None:
    is_sequence = key.kind.is_list and isinstance(node, yaml.SequenceNode)
    items = node.value if is_sequence else [node]
    values = [_read_scalar(item, key, reading) for item in items]
    if is_sequence and not values:
        reading.report(node, f"{key.path} = []: expected {_expectation(key)}")
    if len(set(values) - {None}) < len([value for value in values if value is not None]):
        reading.report(node, f"{key.path}: the same value twice; remove one")
    reading.given[key.path] = tuple(values) if key.kind.is_list else values[0]


def _read_scalar(node: yaml.Node, key: Key, reading: _Reading) -> Any:  # noqa: ANN401 - of any kind
    hint = ""
    if isinstance(node, yaml.ScalarNode) and not _is_null(node):
        try:
            value = key.kind.read(node.value)
        except ValueError as error:
            hint = str(error)
        else:
            if _tag(node) in key.kind.tags:
                return value
            hint = "put it in quotes" if "str" in key.kind.tags else "remove the quotes"
    problem = f"{key.path} = {_got(node)}: expected {_expectation(key)}"
    reading.report(node, f"{problem}; {hint}" if hint else problem)
    return None


def _expectation(key: Key) -> str:
    return f"{key.kind.expected}; example: {key.path.rpartition('.')[2]}: {key.example}"


def _default(key: Key) -> Any:  # noqa: ANN401 - of any kind
    if not key.default:
        return () if key.kind.is_list else None
    value = key.kind.read(key.default)
    return (value,) if key.kind.is_list else value


_PASSWORDS = ("mail.password_file", "mail.password_credential")


def _conflicts(values: dict[str, Any], given: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the keys that do not go together; a value that is None here was reported before."""
    found = []
    if "mail.server" in given and "mail.to" not in given:
        found.append(("mail.server", "expected 'mail.to' beside it; example: to: root@example.com"))
    told = [name for name in _PASSWORDS if name in given]
    for one, missing, other in (
        ("mail.user", not told, " or ".join(f"'{name}'" for name in _PASSWORDS)),
        *((name, "mail.user" not in given, "'mail.user'") for name in told),
    ):
        if one in given and missing:
            found.append((one, f"expected {other} beside it, because a log-in needs both"))
    if len(told) > 1:
        found.append((told[1], f"expected it or '{told[0]}', got both; remove one"))
    for least, most in (("all_clear_after", "close_after"),):
        if None not in (values[least], values[most]) and values[least] > values[most]:
            path, other = (least, most) if least in given else (most, least)
            found.append((path, f"expected '{least}' to be no longer than '{most}'; set '{other}'"))
    return found


def _config(values: dict[str, Any], overrides: tuple[Override, ...], machine: str) -> Config:
    host = values["host"] or machine
    mail = {path[5:]: value for path, value in values.items() if path.startswith("mail.")}
    return Config(
        host=host,
        listen=values["listen"],
        state_directory=values["state_directory"],
        rules_directory=values["rules_directory"],
        shipped_rules=values["shipped_rules"],
        mail=Mail(
            server=mail["server"],
            port=mail["port"] or _port(mail["server"], mail["tls"]),
            tls=mail["tls"],
            user=mail["user"],
            password_file=mail["password_file"],
            password_credential=mail["password_credential"],
            sender=mail["from"] or f"iowarden@{host}",
            to=mail["to"],
            timeout_seconds=mail["timeout"],
            unsent_critical_seconds=mail["unsent_critical"],
            hello=mail["hello"] or host,
            arrival=mail["arrival"],
            digest_seconds=mail["digest"],
            heartbeat=mail["heartbeat"],
        ),
        http=Http(
            channel_timeout_seconds=values["http.channel_timeout"],
            connection_limit=values["http.connection_limit"],
            threads=values["http.threads"],
        ),
        probe=values["probe"],
        flight_recorder=values["flight_recorder"],
        expose_node=values["expose.node"],
        expose_smartctl=values["expose.smartctl"],
        smart=Options(
            period_seconds=values["smart.period"],
            raid_period_seconds=values["smart.raid_period"],
            wake_after_seconds=values["smart.wake_after"],
            drives=values["smart.drives"],
        ),
        self_tests=values["self_tests"],
        targets=MappingProxyType(
            {
                name: (
                    ("instance", values["targets.instance"] or host),
                    ("job", values[f"targets.{name}_job"]),
                )
                for name in ("node", "smartctl")
            }
        ),
        period_seconds=MappingProxyType(
            {path[8:]: value for path, value in values.items() if path.startswith("periods.")}
        ),
        rule_interval_seconds=values["rule_interval"],
        warning_grouping_seconds=values["warning_grouping"],
        all_clear_after_seconds=values["all_clear_after"],
        close_after_seconds=values["close_after"],
        reopen_within_seconds=values["reopen_within"],
        remind_after_seconds=values["remind_after"],
        log_level=values["log_level"],
        overrides=overrides,
    )


def is_loopback(server: str) -> bool:
    """Say whether a mail server's name or address is this machine, without asking anyone."""
    try:
        return ipaddress.ip_address(server).is_loopback
    except ValueError:
        return server.rstrip(".").lower() in {"localhost", "localhost.localdomain"}


def _port(server: str | None, tls: str) -> int:
    """Return the usual port. Source: RFC 6409 (587), RFC 8314 (465), RFC 5321 (25)."""
    if tls == "auto":
        return 25 if server is None or is_loopback(server) else 587
    return {"starttls": 587, "tls": 465}.get(tls, 25)


def _tag(node: yaml.Node) -> str:
    return str(node.tag).removeprefix("tag:yaml.org,2002:")


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and _tag(node) == "null"


def _got(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        return "nothing" if _is_null(node) else _shown(node.value)
    return "a list" if isinstance(node, yaml.SequenceNode) else "a section"


def _shown(value: str) -> str:
    cut = value[:LIMIT_SHOWN_CHARACTERS] + "..." * (len(value) > LIMIT_SHOWN_CHARACTERS)
    return json.dumps(cut, ensure_ascii=not cut.isprintable())


def _plain(path: str) -> str:
    """Return a key for a one-line message, whatever characters it was written with."""
    return path if path.isprintable() and len(path) <= LIMIT_SHOWN_CHARACTERS else _shown(path)
