"""The parsed configuration as frozen dataclasses, and the error of an invalid one."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.model import UserInputError
from iowarden.daemon.redactor import Redactor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.collectors.filesystem.backups import WatchedDirectory
    from iowarden.collectors.model import Labels
    from iowarden.collectors.smart.options import Options
    from iowarden.daemon.config.receivers import ReceiverConfig
    from iowarden.rules import selftest_schedule
    from iowarden.rules.rulefile.overrides import Override

Address = tuple[str, int]
"""IP address without brackets, port."""


class ConfigError(UserInputError):
    """The configuration is invalid; `problems` has one line for each problem."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        """Store the problems, one line each."""
        super().__init__("\n".join(problems))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class FallbackConfig:
    """Settings of the second mail server."""

    server: str
    port: int
    tls: str
    user: str | None
    password_file: str | None
    password_credential: str | None
    password: str | None = dataclasses.field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class MailConfig:
    """Mail settings; without a server mails are stored in a Maildir in the state directory."""

    enabled: bool
    server: str | None
    port: int
    tls: str
    user: str | None
    password_file: str | None
    password_credential: str | None
    sender: str
    to: tuple[str, ...]
    timeout_seconds: float | None
    unsent_critical_after_seconds: float
    hello: str
    initial_report: bool
    digest_seconds: float
    heartbeat: bool
    password: str | None = dataclasses.field(default=None, repr=False)
    fallback: FallbackConfig | None = None


@dataclass(frozen=True, slots=True)
class HttpConfig:
    """Limits of the HTTP server, and its status page."""

    connection_timeout_seconds: float
    connection_limit: int
    threads: int
    page: str = "summary"
    """'off', 'summary' or 'full'."""
    hosts: tuple[str, ...] = ()
    """Further names of this host in the page's address."""


@dataclass(frozen=True, slots=True)
class Config:
    """All settings; the keys of `interval_seconds` are names of collectors."""

    host: str
    listen: tuple[Address, ...]
    state_directory: str
    rules_directory: str
    shipped_rules: bool
    probe: bool
    """Whether the probe, the helper that runs as root, is used."""
    flight_recorder: bool
    """Whether the data of the last ten minutes is in memory, saved at a critical incident."""
    show_programs: bool
    """Whether names of programs and units are shown."""
    trace: bool
    """Whether a disk is traced when an incident of it begins."""
    mail: MailConfig
    notify: tuple[ReceiverConfig, ...]
    """Receivers other than mail."""
    http: HttpConfig
    web_config: str | None
    """Path of the HTTP server's TLS and users, in Prometheus's format."""
    expose_node: bool
    """Whether '/metrics' also has series under node_exporter's names."""
    expose_smartctl: bool
    """Whether '/metrics' also has series under smartctl_exporter's names."""
    smart: Options
    """How drives are polled."""
    self_tests: tuple[selftest_schedule.ScheduleGroup, ...]
    """Schedule of the drives' self-tests."""
    scans: tuple[selftest_schedule.ScheduleGroup, ...]
    """Schedule of surface scans."""
    watch_directories: tuple[WatchedDirectory, ...]
    """Directories of backups and archived logs, and what is expected of them."""
    targets: Mapping[str, Labels]
    """Labels of other exporters' series in rules, by the prefix of the metric's name."""
    interval_seconds: Mapping[str, float]
    evaluation_interval_seconds: float
    warning_group_wait_seconds: float
    resolve_after_seconds: float
    close_after_seconds: float
    reopen_within_seconds: float
    remind_after_seconds: float
    log_level: str
    overrides: tuple[Override, ...] = ()
    """Changes to shipped rules."""
    file: str = dataclasses.field(default="", compare=False)
    """Where this was read, or would have been."""
    redactor: Redactor = dataclasses.field(default_factory=Redactor, repr=False, compare=False)
    """Knows each secret that was read for this configuration."""

    @property
    def mail_destination(self) -> str:
        """Return where mails go, for people."""
        if not self.mail.enabled:
            return "mail is disabled"
        if self.mail.server:
            second = self.mail.fallback
            then = "" if second is None else f", then {second.server}:{second.port}"
            return f"SMTP server {self.mail.server}:{self.mail.port}{then}"
        return f"Maildir {self.state_directory}/Maildir"
