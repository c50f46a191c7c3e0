"""Parser of the configuration file: YAML to `Config`; one error lists all problems of a file."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import json
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import yaml

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.filesystem.backups import WatchedDirectory
from iowarden.collectors.smart import discovery, smartctl_runner
from iowarden.collectors.smart.drive import AccessMethod
from iowarden.collectors.smart.options import Options
from iowarden.daemon.config.keys import (
    KEYS,
    OVERRIDE_KEYS,
    SPREAD,
    WATCH_KEYS,
    Key,
    listed,
    read_boolean,
)
from iowarden.daemon.config.receivers import (
    MAX_RECEIVERS,
    ReceiverConfig,
    is_loopback,
    parse_receiver,
)
from iowarden.daemon.config.schema import (
    Config,
    ConfigError,
    FallbackConfig,
    HttpConfig,
    MailConfig,
)
from iowarden.daemon.redactor import MARK
from iowarden.rules import calendar, selftest_schedule
from iowarden.rules.rulefile.overrides import Override
from iowarden.rules.scan.schedule import START as SCAN_START
from iowarden.rules.yaml_nodes import NotYamlError, root_node

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAX_DEPTH = 8
MAX_SHOWN_CHARACTERS = 60
_USER_INFORMATION = re.compile(r"(//|\A(?=[^/@]*:)).*@", re.DOTALL)
"""Of a URL or a server. Source: RFC 3986, 3.2.1. A password may have an unquoted '/' or '@'."""
_MAX_ITEMS = 1000
_SCHEDULES = {"self_tests": selftest_schedule.KINDS, "scans": (SCAN_START,)}
"""The times that a group of a schedule may have."""
MAX_WATCHED = 32
"""Of these directories each may hang: they share the requests that the probe accepts at once."""
_MAX_TESTS_A_DAY = 24
_SPREAD_SECONDS = 2 * 3600.0


def parse_config(text: str, file: str, machine: str = "localhost") -> Config:
    """Parse the text of a configuration file; `machine` is the default of 'host'.

    Limits: one document without aliases, `MAX_DEPTH` levels deep.
    Errors: ConfigError with every problem found.
    """
    problems: list[tuple[int, str]] = []
    given: dict[str, Any] = {}
    lines: dict[str, int] = {}
    try:
        root = root_node(text, MAX_DEPTH, aliases=False)
    except NotYamlError as error:
        raise ConfigError((f"'{file}':{error.line}: {error}",)) from error
    if root is not None:
        _read_section(root, "", _Reading(file, problems, given, lines))
    values = {key.path: given.get(key.path, _default(key)) for key in KEYS}
    for path, problem in _conflicts(values, given):
        problems.append((lines[path], f"'{file}':{lines[path]}: {path}: {problem}"))
    if problems:
        raise ConfigError(tuple(problem for _, problem in sorted(problems)))
    found = _config(values, given.get("overrides", ()), machine)
    return dataclasses.replace(found, file=file)


@dataclass(frozen=True, slots=True)
class _Reading:
    """State of one pass through the YAML nodes: problems and values found so far."""

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
        reading.report(node, f"{name}: expected 'key: value' lines, got {_kind(node)}")
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
            is_section = path in sections or path in _SECTIONS
            cure = "put these lines below that one" if is_section else "remove one"
            reading.report(name_node, f"{path}: given before, in line {seen[path]}; {cure}")
            continue
        seen[path] = name_node.start_mark.line + 1
        if path in sections:
            _read_section(value_node, path + ".", reading)
        elif path in _SECTIONS:
            reading.given[path] = tuple(_SECTIONS[path](value_node, reading))
        elif path in keys:
            reading.lines[path] = seen[path]
            _read_value(value_node, keys[path], reading)
        else:
            # the value is not shown: it may be a password
            reading.report(name_node, f"{_plain(path)}: unknown key; {_suggestion(path)}")


def _read_overrides(node: yaml.Node, reading: _Reading) -> Iterator[Override]:
    """Yield the overrides of shipped rules; whether the rules exist is checked later."""
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
        yield Override(
            rule=rule,
            place=f"'{reading.file}':{name_node.start_mark.line + 1}",
            enabled=values.get("enabled"),
            severity=values.get("severity"),
            for_seconds=values.get("for"),
            keep_firing_for_seconds=values.get("keep_firing_for"),
            expression=values.get("expr"),
            thresholds=threshold or (),
        )


def _items(
    node: yaml.Node, path: str, what: str, reading: _Reading, limit: int = _MAX_ITEMS
) -> list[yaml.Node]:
    """Return the items of a list of sections."""
    if _is_null(node):
        return []
    if isinstance(node, yaml.SequenceNode) and len(node.value) <= _MAX_ITEMS:
        return list(node.value)
    many = f"{len(node.value)}" if isinstance(node, yaml.SequenceNode) else _kind(node)
    example = next(_example(key) for key in KEYS if key.path == path)
    reading.report(node, f"{path}: expected a list of up to {limit} {what}, got {many}; {example}")
    return []


def _read_drives(node: yaml.Node, reading: _Reading) -> Iterator[discovery.ConfiguredDrive]:
    """Yield the configured drives; smart/discovery.py checks their keys."""
    found: dict[tuple[str, str, str], int] = {}
    for number, item in enumerate(_items(node, "smart.drives", "drives", reading), 1):
        path = f"smart.drives, drive {number}"
        known = len(reading.problems)
        # A serial number is text, even if it looks like a number.
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
        behind = AccessMethod(drive.path, drive.kind).behind_raid()
        same = (drive.path, drive.kind if behind else "", "" if drive.path else drive.serial)
        if same in found:
            reading.report(item, f"{path}: the same as drive {found[same]}; remove one")
        found.setdefault(same, number)
        yield drive


def _read_schedule(
    section: str, node: yaml.Node, reading: _Reading
) -> Iterator[selftest_schedule.ScheduleGroup]:
    """Yield the groups of the schedule of self-tests or scans."""
    keys = ("disks", *_SCHEDULES[section], "spread")
    for number, item in enumerate(_items(node, section, "groups", reading), 1):
        path = f"{section}, group {number}"
        pairs = _pairs(item, path, reading)
        if not isinstance(item, yaml.MappingNode) and not _is_null(item):
            continue
        calendars: dict[str, calendar.Calendar] = {}
        spread_seconds = _SPREAD_SECONDS
        for name, (key_node, value) in pairs.items():
            if name not in keys:
                known = ", ".join(keys)
                reading.report(key_node, f"{path}: {_plain(name)}: expected one of {known}")
            elif name == "spread":
                key = dataclasses.replace(SPREAD, path=f"{path}.spread")
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
        yield selftest_schedule.ScheduleGroup(names, MappingProxyType(calendars), spread_seconds)


def _read_directories(node: yaml.Node, reading: _Reading) -> Iterator[WatchedDirectory]:
    """Yield the watched directories."""
    keys = {key.path: key for key in WATCH_KEYS}
    found: dict[tuple[str, str], int] = {}
    items = _items(node, "watch_directories", "directories", reading)
    for item in items[MAX_WATCHED:]:
        reading.report(
            item, f"watch_directories: expected up to {MAX_WATCHED} directories; remove this one"
        )
    for number, item in enumerate(items[:MAX_WATCHED], 1):
        path = f"watch_directories, directory {number}"
        known = len(reading.problems)
        values: dict[str, Any] = {}
        for name, (key_node, value) in _pairs(item, path, reading).items():
            if name in keys:
                key = dataclasses.replace(keys[name], path=f"{path}.{name}")
                values[name] = _read_scalar(value, key, reading)
            else:
                reading.report(
                    key_node, f"{path}: {_plain(name)}: expected one of {', '.join(keys)}"
                )
        if len(reading.problems) > known:
            continue
        interval, critical = values.get("interval"), values.get("critical")
        if "path" not in values:
            reading.report(item, f"{path}: expected a path; example: path: /srv/backup")
            continue
        if critical is not None and (interval is None or critical < interval):
            expected = (
                "an 'interval' as well: what was learned is never critical"
                if interval is None
                else "a duration no shorter than 'interval'"
            )
            reading.report(
                item, f"{path}.critical: expected {expected}; example: interval: 26h, critical: 50h"
            )
        watched = WatchedDirectory(
            values["path"],
            values.get("glob", "*"),
            interval,
            2 * interval if critical is None and interval is not None else critical,
            values.get("retention"),
        )
        same = (watched.path, watched.glob)
        if same in found:
            reading.report(item, f"{path}: the same as directory {found[same]}; remove one")
        found.setdefault(same, number)
        yield watched


def _read_receivers(node: yaml.Node, reading: _Reading) -> Iterator[ReceiverConfig]:
    """Yield the receivers other than mail; receivers.py checks their keys. No value is shown."""
    found: dict[str, int] = {}
    items = _items(node, "notify", "receivers", reading, MAX_RECEIVERS)
    for item in items[MAX_RECEIVERS:]:
        reading.report(item, f"notify: expected up to {MAX_RECEIVERS} receivers; remove this one")
    for number, item in enumerate(items[:MAX_RECEIVERS], 1):
        path = f"notify, receiver {number}"
        known = len(reading.problems)
        pairs = _pairs(item, path, reading)
        if len(reading.problems) > known:
            continue
        values = {key: _plain_value(value) for key, (_, value) in pairs.items()}
        receiver, problems = parse_receiver(values)
        for problem in problems:
            key = problem.partition(":")[0]
            place = pairs[key][0] if key in pairs else item
            reading.report(place, f"{path}: {problem}")
        if receiver is None:
            continue
        if receiver.name in found:
            same = f"name: receiver {found[receiver.name]} has the same"
            reading.report(item, f"{path}: {same}; write another one")
        found.setdefault(receiver.name, number)
        yield receiver


def _plain_value(node: yaml.Node) -> object:
    """Return a text, a tuple of texts or a mapping of texts; '' for what is none of these."""
    if isinstance(node, yaml.SequenceNode):
        return tuple(each.value if isinstance(each, yaml.ScalarNode) else "" for each in node.value)
    if isinstance(node, yaml.MappingNode):
        return {
            str(key.value): value.value if isinstance(value, yaml.ScalarNode) else ""
            for key, value in node.value
        }
    return str(node.value)


_SECTIONS: dict[str, Callable[[yaml.Node, _Reading], Iterator[object]]] = {
    "overrides": _read_overrides,
    "smart.drives": _read_drives,
    **{section: functools.partial(_read_schedule, section) for section in _SCHEDULES},
    "watch_directories": _read_directories,
    "notify": _read_receivers,
}
"""Keys that have functions of their own to read their sections."""


def _calendar(text: str) -> calendar.Calendar:
    found = calendar.parse(text)
    if len(found.minutes) > _MAX_TESTS_A_DAY:
        raise ValueError(f"expected at most {_MAX_TESTS_A_DAY} a day, got {len(found.minutes)}")
    return found


def _boolean(node: yaml.Node) -> object:
    text = _plain_text(node)
    return read_boolean(str(text)) if _tag(node) == "bool" else text


def _plain_text(node: yaml.Node) -> object:
    return node.value if isinstance(node, yaml.ScalarNode) else _got(node)


def _pairs(node: yaml.Node, path: str, reading: _Reading) -> dict[str, tuple[yaml.Node, yaml.Node]]:
    """Return key and value nodes of a section whose keys can be anything."""
    found: dict[str, tuple[yaml.Node, yaml.Node]] = {}
    if _is_null(node):
        return found
    if not isinstance(node, yaml.MappingNode):
        reading.report(node, f"{path}: expected 'key: value' lines, got {_kind(node)}")
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
    parent = path.rpartition(".")[0]
    prefix = parent + "." if parent else ""
    same_leaf = [known for known in paths if known.rpartition(".")[2] == leaf]
    names = [
        name.removeprefix(prefix).partition(".")[0] for name in paths if name.startswith(prefix)
    ]
    near = [prefix + name for name in difflib.get_close_matches(leaf, names, 1, 0.7)]
    if close := same_leaf or near:
        return f"did you mean '{close[0]}'?"
    return f"expected one of {', '.join(dict.fromkeys(names))}"


def _read_value(node: yaml.Node, key: Key, reading: _Reading) -> None:
    is_sequence = key.kind.is_list and isinstance(node, yaml.SequenceNode)
    items = node.value if is_sequence else [node]
    if key.kind.is_list and isinstance(node, yaml.ScalarNode):
        texts = listed(node.value) or [node.value]
        items = [yaml.ScalarNode(node.tag, text, node.start_mark) for text in texts]
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
    if key.path.endswith(_PASSWORDS) and not _got(node).startswith('"/'):
        # It may be the password itself.
        problem = f"{key.path}: expected {_expectation(key)}; got {_kind(node)} that is none"
    reading.report(node, f"{problem}; {hint}" if hint else problem)
    return None


def _expectation(key: Key) -> str:
    return f"{key.kind.expected}; {_example(key)}"


def _example(key: Key) -> str:
    return f"example: {key.path.rpartition('.')[2]}: {key.example}"


def _default(key: Key) -> Any:  # noqa: ANN401 - of any kind
    if not key.default:
        return () if key.kind.is_list else None
    value = key.kind.read(key.default)
    return (value,) if key.kind.is_list else value


_PASSWORDS = ("password_file", "password_credential")


def _conflicts(values: dict[str, Any], given: dict[str, Any]) -> list[tuple[str, str]]:
    """Return conflicts between keys; a value that is None here was reported before."""
    found = []
    if "mail.server" in given and "mail.to" not in given:
        found.append(("mail.server", "expected 'mail.to' as well; example: to: root@example.com"))
    for section in ("mail", "mail_fallback"):
        found += _login_conflicts(section, given)
    found += _fallback_conflicts(values, given)
    for least, most in (("resolve_after", "close_after"),):
        if None not in (values[least], values[most]) and values[least] > values[most]:
            path, other = (least, most) if least in given else (most, least)
            found.append((path, f"expected '{least}' to be no longer than '{most}'; set '{other}'"))
    return found


def _login_conflicts(section: str, given: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what is missing to log in at a mail server, or given twice."""
    found = []
    names, user = [f"{section}.{name}" for name in _PASSWORDS], f"{section}.user"
    told = [name for name in names if name in given]
    for one, missing, other in (
        (user, not told, " or ".join(f"'{name}'" for name in names)),
        *((name, user not in given, f"'{user}'") for name in told),
    ):
        if one in given and missing:
            found.append((one, f"expected {other} as well: a log-in needs both"))
    if len(told) > 1:
        found.append((told[1], f"expected it or '{told[0]}', got both; remove one"))
    return found


def _fallback_conflicts(values: dict[str, Any], given: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield why a second mail server is none."""
    ours = (name for name in given if name.startswith("mail_fallback."))
    own = [name for name in ours if name != "mail_fallback.tls"]  # it has a default
    server = "mail_fallback.server"
    if own and server not in given:
        yield own[0], f"expected '{server}' as well"
    elif own and "mail.server" not in given:
        yield server, "expected 'mail.server' as well: this is the second server"
    elif own and None not in (values[server], values["mail.server"]):
        first, second = (
            (
                values[f"{section}.server"],
                values[f"{section}.port"]
                or _port(values[f"{section}.server"], values[f"{section}.tls"]),
            )
            for section in ("mail", "mail_fallback")
        )
        if first == second:
            yield server, "expected another server than 'mail.server', got the same; remove one"


def _fallback(values: dict[str, Any]) -> FallbackConfig | None:
    second = {
        path[14:]: value for path, value in values.items() if path.startswith("mail_fallback.")
    }
    if second["server"] is None:
        return None
    second["port"] = second["port"] or _port(second["server"], second["tls"])
    return FallbackConfig(**second)


def _config(values: dict[str, Any], overrides: tuple[Override, ...], machine: str) -> Config:
    host = values["host"] or machine
    mail = {path[5:]: value for path, value in values.items() if path.startswith("mail.")}
    return Config(
        host=host,
        listen=values["listen"],
        state_directory=values["state_directory"],
        rules_directory=values["rules_directory"],
        shipped_rules=values["shipped_rules"],
        mail=MailConfig(
            enabled=mail["enabled"],
            server=mail["server"],
            port=mail["port"] or _port(mail["server"], mail["tls"]),
            tls=mail["tls"],
            user=mail["user"],
            password_file=mail["password_file"],
            password_credential=mail["password_credential"],
            sender=mail["from"] or f"iowarden@{host}",
            to=mail["to"],
            timeout_seconds=mail["timeout"],
            unsent_critical_after_seconds=mail["unsent_critical_after"],
            hello=mail["hello"] or host,
            initial_report=mail["initial_report"],
            digest_seconds=mail["digest"],
            heartbeat=mail["heartbeat"],
            fallback=_fallback(values),
        ),
        notify=values["notify"],
        http=HttpConfig(
            connection_timeout_seconds=values["http.connection_timeout"],
            connection_limit=values["http.connection_limit"],
            threads=values["http.threads"],
            page=values["http.page"],
            hosts=values["http.hosts"],
        ),
        web_config=values["web_config"],
        probe=values["probe"],
        flight_recorder=values["flight_recorder"],
        show_programs=values["privacy.programs"],
        trace=values["trace"],
        expose_node=values["expose.node"],
        expose_smartctl=values["expose.smartctl"],
        smart=Options(
            interval_seconds=values["smart.interval"],
            raid_interval_seconds=values["smart.raid_interval"],
            wake_after_seconds=values["smart.wake_after"],
            drives=values["smart.drives"],
        ),
        self_tests=values["self_tests"],
        scans=values["scans"],
        watch_directories=values["watch_directories"],
        targets=MappingProxyType(
            {
                name: (
                    ("instance", values["targets.instance"] or host),
                    ("job", values[f"targets.{name}_job"]),
                )
                for name in ("node", "smartctl")
            }
        ),
        interval_seconds=MappingProxyType(
            {path[10:]: value for path, value in values.items() if path.startswith("intervals.")}
        ),
        evaluation_interval_seconds=values["evaluation_interval"],
        warning_group_wait_seconds=values["warning_group_wait"],
        resolve_after_seconds=values["resolve_after"],
        close_after_seconds=values["close_after"],
        reopen_within_seconds=values["reopen_within"],
        remind_after_seconds=values["remind_after"],
        log_level=values["log_level"],
        overrides=overrides,
    )


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
        return "nothing" if _is_null(node) else quoted_excerpt(node.value)
    return "a list" if isinstance(node, yaml.SequenceNode) else "a section"


def _kind(node: yaml.Node) -> str:
    """Return what a node is; a text in place of a section may be a secret."""
    return "a text" if isinstance(node, yaml.ScalarNode) and not _is_null(node) else _got(node)


def quoted_excerpt(value: str) -> str:
    """Return a value of a file without user and password, cut and quoted for a message."""
    value = _USER_INFORMATION.sub(rf"\1{MARK}@", value)
    cut = value[:MAX_SHOWN_CHARACTERS] + "..." * (len(value) > MAX_SHOWN_CHARACTERS)
    return json.dumps(cut, ensure_ascii=not cut.isprintable())


def _plain(path: str) -> str:
    """Return a key for a one-line message, quoted if it has unprintable characters."""
    return (
        path if path.isprintable() and len(path) <= MAX_SHOWN_CHARACTERS else quoted_excerpt(path)
    )
