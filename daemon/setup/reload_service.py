"""Makes the running service read its configuration again, and waits for the result.

No program is run: the signal is that of the unit's ExecReload.
Sources: systemd/iowarden.service; systemd.kill(5).
"""

from __future__ import annotations

import os
import signal
import time
from typing import TYPE_CHECKING

from iowarden.collectors.machine import Machine
from iowarden.collectors.model import UserInputError
from iowarden.collectors.quantity import duration
from iowarden.daemon.check import running_service
from iowarden.daemon.check.running_service import Unit

if TYPE_CHECKING:
    from collections.abc import Callable

    from iowarden.daemon.config.schema import Address

WAIT_SECONDS = 10.0
_POLL_SECONDS = 0.2
_LOADED = "iowarden_config_last_reload_success_timestamp_seconds"
_SUCCESSFUL = "iowarden_config_last_reload_successful"
_REFUSED = (
    "the service refused the configuration, the previous one stays in use; see 'iowarden status'"
)


def reload(
    address: Address,
    processes: Callable[[], list[int]],
    clock: Callable[[], float] = time.time,
    wait: Callable[[float], None] = time.sleep,
    query: running_service.Query | None = None,
) -> tuple[bool, str]:
    """Return whether the new configuration is in use or no service runs, and what happened.

    `processes` are those of the service's unit; `query` queries it in place of its '/metrics'.
    """

    def metric_values() -> dict[str, float]:
        if query is None:
            return running_service.metric_values(address, (_LOADED, _SUCCESSFUL))
        try:
            return {
                name: value for name, _, value in query(f'{{__name__=~"{_LOADED}|{_SUCCESSFUL}"}}')
            }
        except UserInputError:  # it does not answer
            return {}

    found = processes()
    if not found:
        if running_service.unit(Machine()) is Unit.ABSENT:
            return True, "the service is not installed: 'iowarden run' uses this configuration"
        return True, "the service is not running; start it: systemctl enable --now iowarden"
    before = metric_values()
    try:
        for process in found:
            os.kill(process, signal.SIGHUP)
    except ProcessLookupError:
        return False, "the service ended meanwhile; start it: systemctl start iowarden"
    except PermissionError:
        return False, "no permission to reload the service; as root: systemctl reload iowarden"
    end = clock() + WAIT_SECONDS
    while clock() < end:
        values = metric_values()
        if values.get(_SUCCESSFUL) == 0 and before.get(_SUCCESSFUL) != 0:
            return False, _REFUSED
        if _LOADED in values and values[_LOADED] != before.get(_LOADED):
            return True, "the service has loaded it"
        wait(_POLL_SECONDS)
    if before.get(_SUCCESSFUL) == 0:  # the last reload was refused as well: no difference to see
        return False, _REFUSED
    return False, (
        f"the service did not confirm within {duration(WAIT_SECONDS)} that it loaded the"
        " configuration; see 'iowarden status'"
    )
