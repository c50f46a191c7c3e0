"""The configuration once it is read: frozen dataclasses, and the error of one that is wrong."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from iowarden.collectors.model import GivenError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.collectors.model import Labels
    from iowarden.collectors.smart.options import Options
    from iowarden.rules import selftest_schedule
    from iowarden.rules.rulefile.overrides import Override

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
