"""State of the running service for `iowarden check`: its systemd unit and its '/metrics'.

Sources: systemd.unit(5), cgroups(7), Prometheus text format 0.0.4. No program is run.
"""

from __future__ import annotations

import contextlib
import enum
import http.client
import itertools
import re
import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from iowarden.collectors.model import AbsentError, ReadError, UserInputError
from iowarden.collectors.packages import documentation
from iowarden.collectors.quantity import duration
from iowarden.daemon.check.report import Finding, Level
from iowarden.daemon.clock import local_zone
from iowarden.daemon.sanitize import one_line
from iowarden.rules.topology.alert_subject import subject
from iowarden.rules.topology.device_changes import Devices

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from iowarden.collectors.machine import Machine
    from iowarden.collectors.model import Labels

SERVICE_TIMEOUT_SECONDS = 2.0
MAX_BYTES = 32 * 1024 * 1024
"""Size limit of '/metrics'; 480 disks need 3 MB."""

_SAMPLE = re.compile(r"(iowarden_\w+)(?:\{(.*)\})? (\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}

_LEVEL = {
    "critical": Level.CRITICAL,
    "warning": Level.WARNING,
    **dict.fromkeys(("notice", "info", "none"), Level.INFO),
}
MAX_DISKS = 5
"""Unreadable disks with a line of their own."""
_NOT_MONITORED = "iowarden_disk_not_monitored"
_ALERTS = "iowarden_alerts"
_UNNOTIFIED = "iowarden_incidents_unnotified"
_NOTIFICATIONS = "iowarden_notifications_total"
_LAST_DELIVERED = "iowarden_notifications_last_delivered_age_seconds"
_OLDEST_UNSENT = "iowarden_notifications_oldest_unsent_seconds"
_Metrics = list[tuple[str, dict[str, str], float]]


class Unit(enum.Enum):
    """State of the service's systemd unit."""

    ABSENT = enum.auto()
    """Not installed: iowarden is run by hand, or not at all."""
    INACTIVE = enum.auto()
    ACTIVE = enum.auto()


UNIT = "iowarden.service"
_UNIT_DIRECTORIES = (
    *("/etc/systemd/system", "/run/systemd/system", "/usr/local/lib/systemd/system"),
    *("/usr/lib/systemd/system", "/lib/systemd/system"),
)
"""Source: systemd.unit(5), 'System Unit Search Path'."""
_CGROUPS = ("/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified")
"""Mount points of systemd's own cgroup hierarchy: of version 2, 1, and hybrid."""


def unit(root: Machine) -> Unit:
    """Return the state of the unit: an active one has processes in its control group.

    systemctl is not run for this: it waits for systemd, which may wait for a disk that hangs.
    """
    if not any(_has(root, directory, UNIT) for directory in _UNIT_DIRECTORIES):
        return Unit.ABSENT
    return Unit.ACTIVE if processes(root) else Unit.INACTIVE


def processes(root: Machine, unit_name: str = UNIT) -> list[int]:
    """Return the process IDs of a unit; [] if it is not active. Source: cgroups(7)."""
    for cgroup in _CGROUPS:
        try:
            text = root.read(f"{cgroup}/system.slice/{unit_name}/cgroup.procs")
        except (AbsentError, ReadError):
            continue
        if found := [int(word) for word in text.split() if word.isdecimal()]:
            return found
    return []


def in_foreground(root: Machine) -> list[str]:
    """Return the command line of each service that was started by hand, as far as it is visible."""
    found = []
    for name in root.try_names("/proc") or ():
        words = (
            (root.try_read(f"/proc/{name}/cmdline") or "").split("\0") if name.isdecimal() else []
        )
        for program, action in itertools.pairwise(words):
            if action == "run" and program.rpartition("/")[2] == "iowarden":
                shown = " ".join(words[words.index("run") :]).strip()
                found.append(one_line(f"process {name}: iowarden {shown}"))
                break
    return found


def _has(root: Machine, directory: str, name: str) -> bool:
    try:
        return name in root.names(directory)
    except (AbsentError, ReadError):
        return False


_START = (
    "the service is not running ({}): this machine is not monitored; 'systemctl status iowarden'"
    " shows why, 'systemctl start iowarden' starts it"
)
_NOT_RUNNING = {
    Unit.ABSENT: (Level.INFO, "the service is not running ({}); it is not installed here"),
    Unit.INACTIVE: (Level.CRITICAL, _START),
    Unit.ACTIVE: (
        Level.WARNING,
        "the service is running but does not answer ({}); see 'systemctl status iowarden'",
    ),
}


QUERY = (
    '{__name__=~"iowarden_(rules|alerts|incidents_(unresolved|unnotified)|disk_not_monitored'
    "|state_unwritten_seconds|notifications_(total|waiting|oldest_unsent_seconds|last_delivered_age_seconds)"
    "|collector_age_seconds"
    '|config_last_reload_.*)"}'
)
"""All metrics that are read here, for a service whose '/metrics' requires TLS or a login."""
Query = Callable[[str], _Metrics]
"""Evaluates an expression by the control socket. Errors: UserInputError."""


def of_socket(known: set[Labels], installed: Unit, query: Query) -> list[Finding]:
    """Return the findings of a service that is queried by its control socket, as `findings`."""
    if installed is Unit.INACTIVE:
        level, text = _NOT_RUNNING[installed]
        return [Finding(level, "service", "", text.format("its unit has no process"))]
    try:
        samples = query(QUERY)
    except UserInputError as error:
        if installed is Unit.ACTIVE:
            text = f"is running; its alerts are not known here: {error}"
            return [Finding(Level.UNKNOWN, "service", "", text)]
        text = (
            "its unit is not installed here, and one that was started by hand was not found:"
            " --state-directory names it"
        )
        return [Finding(Level.INFO, "service", "", text)]
    text = f"answers at its control socket; {_current_of(samples)}"
    return [
        *_of_samples(samples, known),
        Finding(Level.OK, "service", "", text),
        *_receivers(samples),
    ]


def findings(
    address: tuple[str, int],
    known: set[Labels],
    installed: Unit = Unit.ABSENT,
    by_hand: Iterable[str] = (),
) -> list[Finding]:
    """Return the findings of the running service, without the alerts in `known`.

    `by_hand` are the services that were started by hand, of `in_foreground`.
    """
    host, shown = _reachable(address)
    status, text = _get(host, address[1], "/metrics")
    samples = parse_metrics(text) if status == 200 else []
    if not any(name == "iowarden_rules" for name, _, _ in samples):
        answer = f"another program answers, HTTP status {status}" if status else text
        level, text = _NOT_RUNNING[installed]
        return [Finding(level, "service", "", text.format(f"{shown}: {answer}"))]
    found = _of_samples(samples, known)
    status, text = _get(host, address[1], "/-/healthy")
    if status != 200:
        said = text.strip() or f"HTTP status {status}"
        found.append(Finding(Level.WARNING, "service", "", f"not healthy: {said}"))
    level, text = Level.OK, f"answers at {shown}; {_current_of(samples)}"
    if installed is Unit.INACTIVE:
        level, text = Level.CRITICAL, _another(shown, by_hand)
    found.append(Finding(level, "service", "", text))
    found += _receivers(samples)
    return found


def _another(shown: str, by_hand: Iterable[str]) -> str:
    """Return that not the installed service answers, and which one may be."""
    named = "; ".join(by_hand) or "which one is not visible here"
    return (
        f"the installed service is not running; another one answers at {shown}, with its own"
        f" configuration and state ({named}). What is reported here is of that one. End it, then:"
        " systemctl start iowarden"
    )


def _of_samples(samples: _Metrics, known: set[Labels]) -> list[Finding]:
    return [*_service_alerts(samples, known), *_unresolved(samples), *_unreadable(samples)]


def firing(address: tuple[str, int], query: Query | None = None) -> set[Labels]:
    """Return the labels of the alerts that fire in the service; none if it does not answer."""
    host, _ = _reachable(address)
    try:
        samples = (
            parse_metrics(_get(host, address[1], "/metrics")[1])
            if query is None
            else query(_ALERTS)
        )
    except UserInputError:
        return set()
    found = [labels for name, labels, _ in samples if name == _ALERTS]
    return {_identity(each) for each in found if each.get("alertstate") == "firing"}


def _identity(labels: Mapping[str, str], *others: str) -> Labels:
    """Return the labels of an alert without its state, and without others."""
    return tuple(sorted(p for p in labels.items() if p[0] not in ("alertstate", *others)))


def _rank(labels: Mapping[str, str]) -> int:
    level = _LEVEL.get(labels.get("severity", "").lower(), Level.WARNING)
    return tuple(Level).index(level)


def _service_alerts(samples: _Metrics, known: set[Labels]) -> Iterator[Finding]:
    """Yield the alerts of the service that are not in `known`: of one object only the worst."""
    found = [
        labels
        for name, labels, _ in samples
        if name == _ALERTS and labels.get("alertstate") in {"firing", "unknown"}
    ]
    told: dict[Labels, int] = {}
    for own in map(dict, known):
        same = _identity(own, "severity")
        told[same] = min(_rank(own), told.get(same, len(Level)))
    for labels in sorted(found, key=_rank):
        same = _identity(labels, "severity")
        if told.setdefault(same, len(Level)) <= _rank(labels):
            continue
        told[same] = _rank(labels)
        alert, severity = labels.get("alertname", "?"), labels.get("severity", "warning")
        text = (
            f"{labels['alertstate']} in the running service ({severity}); what it means and what"
            f" to do: iowarden explain {alert}"
        )
        is_unknown = labels["alertstate"] == "unknown"
        level = Level.UNKNOWN if is_unknown else tuple(Level)[_rank(labels)]
        yield Finding(
            level, alert, _object(alert, dict(_identity(labels, "alertname", "severity"))), text
        )


def _object(alert: str, labels: Mapping[str, str]) -> str:
    """Return what an alert is about, as a mail names it where nothing but its labels is known."""
    named = labels.get("mountpoint") or labels.get("device")
    if named:
        return named
    known = subject(None, Devices(), (*labels.items(), ("alertname", alert))).object
    # An event that names no disk: 'file system btrfs (device loop1)'.
    return known or labels.get("object") or "host"


def _unresolved(samples: _Metrics) -> Iterator[Finding]:
    """Yield findings for open incidents whose alerts are not listed: they no longer fire."""
    alerts = [labels for name, labels, _ in samples if name == _ALERTS]
    listed = {labels.get("severity", "") for labels in alerts}
    for word, count in _open_incidents(samples).items():
        if word not in listed:
            text = (
                f"{count} {word} in the running service, of alerts that no longer fire;"
                " 'iowarden incident list' shows more"
            )
            yield Finding(_LEVEL[word], "open incidents", "", text)
    unnotified = sum(value for name, _, value in samples if name == _UNNOTIFIED)
    if unnotified:
        what = f"{unnotified:.0f} open incident{'s'[: unnotified != 1]}"
        page = f"{documentation()}/events-and-incidents.md"
        text = (
            f"nobody has been notified about {what}; 'iowarden status' shows why;"
            f" {page}: 'Why did I get no mail?'"
        )
        yield Finding(Level.WARNING, "notifications", "", text)


def _open_incidents(samples: _Metrics) -> dict[str, int]:
    """Return how many incidents are open, by severity, the worst first; none of notice or info."""
    open_now = {
        labels.get("severity", ""): int(value)
        for name, labels, value in samples
        if name == "iowarden_incidents_unresolved"
    }
    return {word: n for word in ("critical", "warning") if (n := open_now.get(word, 0))}


def _unreadable(samples: _Metrics) -> Iterator[Finding]:
    """Yield the disks whose SMART data the service cannot read, with the reason."""
    found = [shown for name, shown, value in samples if name == _NOT_MONITORED and value]
    for labels in found[:MAX_DISKS]:
        disk = labels.get("disk", "?")
        text = f"SMART unreadable: {labels.get('reason', '?')}; 'iowarden disk show {disk}'"
        yield Finding(Level.INFO, "drive", labels.get("device", disk), text)
    if len(found) > MAX_DISKS:
        text = f"SMART unreadable on {len(found) - MAX_DISKS} more disks: 'iowarden monitoring'"
        yield Finding(Level.INFO, "drive", "", text)


def _receivers(samples: _Metrics) -> Iterator[Finding]:
    """Yield for each receiver how long ago it accepted a notification: OK only if nothing waits."""
    ages, unsent = (
        {labels.get("receiver", "?"): value for name, labels, value in samples if name == metric}
        for metric in (_LAST_DELIVERED, _OLDEST_UNSENT)
    )
    names = {labels.get("receiver", "?") for name, labels, _ in samples if name == _NOTIFICATIONS}
    for receiver in sorted(names):
        age, waiting_seconds = ages.get(receiver), unsent.get(receiver, 0.0)
        if age is None:
            test = "test-mail" if receiver == "mail" else f"test-notify {receiver}"
            text = (
                "no notification accepted since the service started or the receiver was changed;"
                f" test it by 'iowarden {test}'"
            )
        else:
            text = f"last notification accepted {duration(age)} ago"
        if waiting_seconds:
            text += f"; one has been waiting for {duration(waiting_seconds)}"
        is_proved = age is not None and not waiting_seconds
        yield Finding(Level.OK if is_proved else Level.INFO, "receiver", receiver, text)


def _current_of(samples: _Metrics) -> str:
    values = {name: value for name, labels, value in samples if not labels}
    ages = [v for name, _, v in samples if name == "iowarden_collector_age_seconds"]
    firing = sum(n == _ALERTS and labels.get("alertstate") == "firing" for n, labels, _ in samples)
    words = [f"alerts firing: {firing}"]
    if unresolved := _open_incidents(samples):
        counted = ", ".join(f"{count} {word}" for word, count in unresolved.items())
        words.append(f"open incidents: {counted} ('iowarden incident list')")
    if ages:
        words.append(f"data {duration(min(ages))} to {duration(max(ages))} old")
    waiting = sum(value for name, _, value in samples if name == "iowarden_notifications_waiting")
    words.append(f"notifications waiting: {waiting:.0f}")
    if unwritten := values.get("iowarden_state_unwritten_seconds"):
        words.append(f"state not written for {duration(unwritten)}")
    if at := values.get("iowarden_config_last_reload_success_timestamp_seconds"):
        when = datetime.fromtimestamp(at, local_zone())
        words.append(f"configuration loaded {when:%Y-%m-%d %H:%M}")
    return ", ".join(words)


def metric_values(address: tuple[str, int], names: Collection[str]) -> dict[str, float]:
    """Return the service's values of metrics without labels; {} if it does not answer."""
    host, _ = _reachable(address)
    status, text = _get(host, address[1], "/metrics")
    samples = parse_metrics(text) if status == 200 else []
    return {name: value for name, labels, value in samples if name in names and not labels}


def _reachable(address: tuple[str, int]) -> tuple[str, str]:
    """Return the host to connect to for a listening address, and host and port as shown."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address[0], address[0])  # noqa: S104
    return host, f"[{host}]:{address[1]}" if ":" in host else f"{host}:{address[1]}"


def parse_metrics(text: str) -> _Metrics:
    """Return the samples of iowarden's own metrics. Source: Prometheus text format 0.0.4."""
    found = []
    for line in text.splitlines():
        match = _SAMPLE.fullmatch(line)
        if match is None:
            continue
        labels = {
            name: re.sub(r"\\.", lambda m: _ESCAPES.get(m[0], m[0]), value)
            for name, value in _LABEL.findall(match[2] or "")
        }
        with contextlib.suppress(ValueError):  # another program uses these names
            found.append((match[1], labels, float(match[3])))
    return found


def _get(host: str, port: int, path: str) -> tuple[int, str]:
    """Return status and text of an HTTP answer; status 0 and the reason if there is none."""
    end = time.monotonic() + 2 * SERVICE_TIMEOUT_SECONDS
    connection = http.client.HTTPConnection(host, port, timeout=SERVICE_TIMEOUT_SECONDS)
    content = b""
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        while chunk := response.read1(1 << 16):
            content += chunk
            if len(content) > MAX_BYTES or time.monotonic() > end:
                return 0, "the answer is too long or too slow"
        return response.status, content.decode(errors="replace")
    except TimeoutError:
        return 0, f"no answer within {duration(SERVICE_TIMEOUT_SECONDS)}"
    except (OSError, http.client.HTTPException) as error:
        reason = error.strerror if isinstance(error, OSError) else ""
        return 0, (reason or "no valid answer").lower()
    finally:
        connection.close()
