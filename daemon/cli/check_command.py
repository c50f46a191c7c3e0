"""The commands `iowarden check` and `iowarden config check`.

A monitoring system runs `check --nagios` each minute: what the others need is imported only for
them. Exit status of check: 0 ok, 1 warning, 2 critical, 3 unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.model import UserInputError
from iowarden.daemon.check import plugin
from iowarden.daemon.cli import service_client
from iowarden.daemon.control import listen
from iowarden.daemon.control.documents import Status
from iowarden.daemon.terminal.arguments import subcommand
from iowarden.daemon.terminal.console import print_raw

if TYPE_CHECKING:
    import argparse

    from iowarden.daemon.cli.command import Add

DEFAULT_CONFIG = "/etc/iowarden/iowarden.yaml"


def add_commands(add: Add) -> None:
    """Add the commands, by a function that takes name and what runs."""
    actions = add("config", _config).add_subparsers(required=True, metavar="ACTION")
    action = subcommand(actions, "check", "check the configuration and every rule file")
    action.set_defaults(command=_config)
    which = action.add_mutually_exclusive_group()
    which.add_argument(
        "file",
        nargs="?",
        default=None,
        help=f"configuration file; default: {DEFAULT_CONFIG}",
    )
    which.add_argument("--config", metavar="FILE", help="the same, as for other commands")
    service_client.take_json(action)
    look = add("check", _check)
    look.add_argument(
        "--config", metavar="FILE", help=f"configuration file; default: {DEFAULT_CONFIG}"
    )
    look.add_argument("--state-directory", metavar="DIR", help="use this state directory instead")
    look.add_argument(
        "--socket",
        metavar="PATH",
        help=f"control socket, for --nagios and --checkmk; default: {listen.SOCKET}",
    )
    look.add_argument("--play", metavar="RECORDING", help="check the end of a recording instead")
    form = look.add_mutually_exclusive_group()
    form.add_argument(
        "--nagios",
        dest="plugin",
        action="store_const",
        const=plugin.nagios_line,
        help="print the state of the running service as a plugin of Nagios or Icinga does",
    )
    form.add_argument(
        "--checkmk",
        dest="plugin",
        action="store_const",
        const=plugin.checkmk_line,
        help="print it as a local check of Checkmk",
    )
    form.add_argument("--json", action="store_true", help="print the report as JSON")


def _config(arguments: argparse.Namespace) -> int:
    from iowarden.daemon.cli import host_check  # noqa: PLC0415 - half a second

    arguments.file = arguments.file or arguments.config
    return host_check.check_config(arguments)


def _check(arguments: argparse.Namespace) -> int:
    if arguments.plugin is not None:
        if arguments.play is not None:
            raise UserInputError("--play: the state of the running service is in no recording")
        return service_client.guarded(_plugin, arguments)
    from iowarden.daemon.cli import host_check  # noqa: PLC0415 - half a second

    return host_check.check_host(arguments)


def _plugin(arguments: argparse.Namespace) -> int:
    """Print one line about the state of the running service."""
    try:
        status = service_client.decoded(Status, service_client.requested(arguments, "status"))
        result = plugin.result_of(status)
    except service_client.NotRunningError as error:
        result = plugin.Result(plugin.CRITICAL, str(error))
    except service_client.ServiceError as error:
        result = plugin.Result(plugin.UNKNOWN, str(error))
    print_raw(arguments.plugin(result))
    return result.status
