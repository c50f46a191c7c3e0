"""Reloads configuration and rules in a thread, since '/etc' may be on a disk that hangs."""

from __future__ import annotations

import functools
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import trace
from iowarden.collectors.quantity import duration
from iowarden.daemon import journal, metrics
from iowarden.daemon.config.schema import Config, ConfigError
from iowarden.daemon.control import documents
from iowarden.daemon.notify.sender import mail_settings
from iowarden.daemon.notify.smtp import MailSettings
from iowarden.rules.yaml_nodes import RuleFileError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iowarden.collectors.model import Sample
    from iowarden.daemon.clock import SystemClock
    from iowarden.daemon.config.rule_files import LoadedRules
    from iowarden.daemon.notify.channel import MessageSender
    from iowarden.daemon.notify.delivery import Receivers
    from iowarden.daemon.transition_log import TransitionLog
    from iowarden.rules.rulefile.rulefile import RuleGroup

NEEDS_RESTART = (
    *("state_directory", "listen", "http", "expose_node", "expose_smartctl", "targets"),
    *("probe", "flight_recorder"),
)
"""Settings that take effect only after a restart."""
HUNG_SECONDS = 10.0
MAX_PROBLEMS = 10
"""Limit of logged problems of a refused configuration, and of each refused rule file."""
MAX_SHOWN_PROBLEMS = 3
"""Of a rule file in a mail; 'iowarden rules check' shows all."""
RULES_REFUSED = "this file's rules are not loaded, all others are"


@dataclass(frozen=True, slots=True)
class ReloadDone:
    """A valid configuration and its rules.

    Fields: `config` has the old values of settings that need a restart, `needs_restart` names those
    that would have changed; `sender` uses the new mail settings, if these changed, None: mails are
    disabled; `receivers` are those other than mail, None if they did not change.
    """

    config: Config
    rules: LoadedRules
    needs_restart: tuple[str, ...]
    sender: MessageSender | None
    is_mail_changed: bool = False
    receivers: Receivers | None = None
    corrected_servers: frozenset[str] = frozenset()
    """Mail servers and receivers that have another address or login than before."""


@dataclass(frozen=True, slots=True)
class ReloadRefused:
    """A refused configuration: one line for each problem."""

    problems: tuple[str, ...]


class Reloader:
    """Runs one reload at a time; a request meanwhile runs after it. The loop's thread only."""

    def __init__(  # noqa: PLR0913 - what it reads, and who uses it
        self,
        loaded: tuple[Config, LoadedRules],
        clock: SystemClock,
        log: TransitionLog,
        notify: Callable[[str], object],
        post: Callable[[ReloadDone | ReloadRefused], object],
        *,
        load: Callable[[Sequence[RuleGroup]], tuple[Config, LoadedRules]] | None,
        sender_for: Callable[[Config], MessageSender | None] | None,
        receivers_for: Callable[[Config], Receivers] | None = None,
        put_in_force: Callable[[ReloadDone, float], int],
    ) -> None:
        """`loaded` is in force; `notify` is sd_notify.

        `load` reads the files and may hang, None: reload is not possible. It gets the rules in
        force: those of a file that became invalid stay.
        `post` gets the result in the reload's thread; `put_in_force` applies a valid configuration
        and returns the number of rules.
        """
        self.config, self._rules = loaded
        """The configuration in force."""
        self.refusal = ""
        """Why the last reload was refused, in one line; '' if it was not."""
        self.refused: documents.RefusedReload | None = None
        self._clock = clock
        self._log = log
        self._notify = notify
        self._post = post
        self._load = load
        self._sender_for = sender_for
        self._receivers_for = receivers_for
        self._put_in_force = put_in_force
        self._reading_since: float | None = None
        self._pending = False
        self._is_good = True
        self._read_seconds: float | None = None
        """When the configuration in force was read."""
        self._report_refused_rules()

    def begin(self) -> None:
        """Start a reload; a request during a reload runs after it."""
        if self._load is None:
            return
        if self._reading_since is not None:
            self._pending = True
            return
        self._reading_since = self._clock.now()
        self.refusal = ""
        self._notify(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")
        read = functools.partial(
            _loaded,
            self._load,
            self._sender_for,
            self._receivers_for,
            self.config,
            self._rules.groups,
        )
        threading.Thread(target=lambda: self._post(read()), name="reload", daemon=True).start()

    def busy(self) -> bool:
        """Whether a reload is in progress that was not given up."""
        return self._reading_since is not None and not self.refusal

    def take(self, event: ReloadDone | ReloadRefused) -> None:
        """Apply a valid configuration; log why an invalid one is refused."""
        if isinstance(event, ReloadDone):
            now = self._clock.now()
            self.config, self._rules = event.config, event.rules
            rules = self._put_in_force(event, now)
            self._is_good, self.refusal, self.refused = True, "", None
            self._read_seconds = now
            kept_back = ", ".join(event.needs_restart)
            self._log.send(
                journal.CONFIGURATION,
                5,
                f"configuration reloaded: {rules} rules"
                + (
                    f"; changed, but needs a restart to take effect: {kept_back}"
                    if kept_back
                    else ""
                ),
            )
            self._report_refused_rules()
            self._log.log.set_level(event.config.log_level)
        else:
            self._refuse(event.problems)
        self._reading_since = None
        self._notify("READY=1")
        if self._pending:
            self._pending = False
            self.begin()

    def check_thread(self, now: float) -> None:
        """Log when the reload hangs on a disk; the configuration in force stays."""
        since = self._reading_since
        if since is not None and now - since > HUNG_SECONDS and not self.refusal:
            text = (
                f"reading the configuration hangs for over {duration(HUNG_SECONDS)}: a disk hangs"
            )
            self._refuse((f"reload: {text}",))
            self._notify("READY=1")

    def _refuse(self, problems: Sequence[str]) -> None:
        """Keep the configuration in force and log why."""
        self._is_good = False
        self.refusal = problems[0]
        at = self._clock.realtime(self._clock.now())
        self.refused = documents.RefusedReload(at, tuple(problems[:MAX_PROBLEMS]))
        for problem in problems[:MAX_PROBLEMS]:
            self._log.send(
                journal.CONFIGURATION, 3, f"{problem}; the previous configuration stays in force"
            )

    def rule_errors(self, path: str) -> list[str]:
        """Return the first errors of a rule file that is not loaded: line, column, and reason."""
        return [
            problem.replace(f"'{path}'", f"'{Path(path).name}'", 1)
            for refused in self._rules.refused
            if refused.path == path
            for problem in refused.problems[:MAX_SHOWN_PROBLEMS]
        ]

    def _report_refused_rules(self) -> None:
        """Log each problem of the user's rule files; 'status' shows them until they are gone."""
        for refused in self._rules.refused:
            for problem in refused.problems[:MAX_PROBLEMS]:
                self._log.send(journal.CONFIGURATION, 3, f"{problem}; {RULES_REFUSED}")
        shown = ", ".join(f"'{refused.path}'" for refused in self._rules.refused[:MAX_PROBLEMS])
        more = len(self._rules.refused) - MAX_PROBLEMS
        self._log.trouble(
            "rules",
            f"rules: not loaded: {shown}{f' and {more} more' if more > 0 else ''};"
            " run 'iowarden rules check'"
            if shown
            else "",
        )

    def samples(self, now: float, wall_ahead_seconds: float) -> list[Sample]:
        """Return the samples about reloads; the first call sets when the configuration was read."""
        if self._read_seconds is None:
            self._read_seconds = now
        at = self._read_seconds + wall_ahead_seconds
        return [
            (metrics.RELOAD_SUCCESSFUL.name, (), float(self._is_good)),
            (metrics.RELOAD_SUCCESS_TIMESTAMP.name, (), at),
            *(
                (metrics.RULE_FILE_PROBLEMS.name, (("file", path),), float(len(problems)))
                for path, problems in self._rules.refused
            ),
        ]


def _loaded(
    load: Callable[[Sequence[RuleGroup]], tuple[Config, LoadedRules]],
    sender_for: Callable[[Config], MessageSender | None] | None,
    receivers_for: Callable[[Config], Receivers] | None,
    before: Config,
    rules: Sequence[RuleGroup],
) -> ReloadDone | ReloadRefused:
    try:
        config, loaded = load(rules)
        kept = {key: getattr(before, key) for key in NEEDS_RESTART}
        kept_back = tuple(key for key in NEEDS_RESTART if getattr(config, key) != kept[key])
        config = replace(config, **kept)
        other = sender_for is not None and config.mail != before.mail
        # Reads certificates, so it is made in this thread.
        sender = sender_for(config) if sender_for is not None and other else None
        receivers = None
        if receivers_for is not None and (config.notify, config.host) != (
            before.notify,
            before.host,
        ):
            receivers = receivers_for(config)
    except ConfigError as error:
        return ReloadRefused(error.problems)
    except RuleFileError as error:
        return ReloadRefused(error.errors)
    except OSError as error:
        path, got = error.filename or "the configuration", error.strerror or error
        return ReloadRefused(
            (f"reload: '{path}': expected to read it, got '{got}'; see 'iowarden config check'",)
        )
    except Exception as error:  # noqa: BLE001 - whatever it is, the running configuration stays
        return ReloadRefused((f"reload: bug: {trace(error)}",))
    corrected = corrected_servers(before, config)
    return ReloadDone(config, loaded, kept_back, sender, other, receivers, corrected)


def corrected_servers(before: Config, after: Config) -> frozenset[str]:
    """Return the mail servers and receivers that have another address or login than before."""
    servers, previous = _servers(after), _servers(before)
    return frozenset(name for name, server in servers.items() if server != previous.get(name))


def _servers(config: Config) -> dict[str, object]:
    servers: dict[str, object] = {}
    for server in mail_settings(config):
        if isinstance(server, MailSettings):
            servers[server.name] = server
    for receiver in config.notify:
        login = (receiver.user, receiver.password, receiver.token, receiver.secret)
        servers[receiver.name] = (receiver.type, receiver.urls, receiver.proxy, login)
    return servers
