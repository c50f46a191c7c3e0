"""Where mails go, by the configuration: a mail server and a second one, or the Maildir."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from iowarden.daemon.notify import smtp
from iowarden.daemon.notify.maildir import MaildirSettings

if TYPE_CHECKING:
    from iowarden.daemon.config.schema import Config, FallbackConfig, MailConfig


def mail_settings(settings: Config) -> smtp.MailSettings | MaildirSettings:
    """Return the mail server's settings, or those of the Maildir if there is no server."""
    chosen = settings.mail
    if chosen.server is None:
        return MaildirSettings(str(Path(settings.state_directory) / "Maildir"))
    return _server_settings(chosen, chosen.server, settings)


def other_mail_settings(settings: Config) -> tuple[smtp.MailSettings, ...]:
    """Return the settings of the second mail server, if there is one."""
    second = settings.mail.fallback
    return () if second is None else (_server_settings(second, second.server, settings),)


def _server_settings(
    server: MailConfig | FallbackConfig, name: str, settings: Config
) -> smtp.MailSettings:
    return smtp.MailSettings(
        server=name,
        port=server.port,
        tls=server.tls,
        user=server.user,
        password=server.password,
        sender=settings.mail.sender,
        timeout_seconds=settings.mail.timeout_seconds,
        hello=settings.mail.hello,
        redactor=settings.redactor,
    )
