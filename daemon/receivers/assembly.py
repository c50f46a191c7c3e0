"""Makes the receivers of a configuration; those that did not change are used again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from iowarden.daemon.config.receivers import ReceiverConfig, ReceiverType
from iowarden.daemon.notify.channel import MessageReceiver
from iowarden.daemon.notify.delivery import Receivers
from iowarden.daemon.notify.smtp import AUTHORITIES
from iowarden.daemon.receivers.alertmanager import AlertmanagerReceiver, try_alert
from iowarden.daemon.receivers.http_sender import http_sender, try_message
from iowarden.daemon.receivers.message import document, document_format, encoded
from iowarden.daemon.receivers.ping import Ping, try_ping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from iowarden.daemon.config.schema import Config
    from iowarden.daemon.notify.attempt import DialogueLine
    from iowarden.rules.notice import Notice


class ReceiverFactory:
    """Makes the receivers of each configuration that is read; `post` takes their results."""

    def __init__(self, post: Callable[[object], object], authorities: str = AUTHORITIES) -> None:
        """Make none yet."""
        self._post = post
        self._authorities = authorities
        self._made: dict[tuple[ReceiverConfig, str], Any] = {}

    def __call__(self, config: Config) -> Receivers:
        """Return the receivers of a configuration; certificates are read here."""
        made = {
            (each, config.host): self._made.get((each, config.host)) or self._new(each, config)
            for each in config.notify
        }
        self._made = made
        by_name = {each.name: made[each, config.host] for each in config.notify}
        return Receivers(
            {each.name: by_name[each.name] for each in config.notify if each.messages},
            {each.name: by_name[each.name] for each in config.notify if not each.messages},
        )

    def _new(self, each: ReceiverConfig, config: Config) -> Any:  # noqa: ANN401 - of two kinds
        match each.type:
            case ReceiverType.ALERTMANAGER:
                return AlertmanagerReceiver(
                    each, config.host, config.targets, self._post, self._authorities
                )
            case ReceiverType.PING:
                return Ping(each, self._post, self._authorities)
            case _:
                sender = http_sender(each, self._post, self._authorities)
                origin = each.urls[0].origin
                return MessageReceiver(document_format(each.name), sender, origin)


def try_receiver(
    receiver: ReceiverConfig, notice: Notice, host: str, authorities: str = AUTHORITIES
) -> Iterator[DialogueLine]:
    """Send a test notification to a receiver and yield what came of it."""
    match receiver.type:
        case ReceiverType.ALERTMANAGER:
            return try_alert(receiver, host, authorities)
        case ReceiverType.PING:
            return try_ping(receiver, authorities)
        case _:
            return try_message(receiver, encoded(document(notice, host)), authorities)
