"""What commands share: the configuration, the probe client, the machine or recording."""

from __future__ import annotations

import atexit
import dataclasses
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from iowarden.collectors.machine import Machine
from iowarden.collectors.recording.player import RecordingPlayer
from iowarden.daemon import working_copy
from iowarden.daemon.clock import PlayedClock, SystemClock
from iowarden.daemon.config.load import load_config, machine_name, read_config
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.probe_client import connect
from iowarden.daemon.probe_client.client import Client

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from iowarden.daemon.config.schema import Config

    Add = Callable[[str, Callable[[argparse.Namespace], int]], argparse.ArgumentParser]
    """Adds a command of `main.COMMANDS` to the command line: its name, and what runs."""

DEFAULT_CONFIG = "/etc/iowarden/iowarden.yaml"
PROBE_SOCKET = "/run/iowarden-probe.socket"
"""Socket of the probe's systemd unit."""
PROBE_DIRECTORY = "/run/iowarden-probe"
"""Where a probe that this program starts as a child records stuck programs."""


def configured(command: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Return the parser of a command, with the options that `settings` reads."""
    command.add_argument(
        "--config", metavar="FILE", help=f"configuration file; default: {DEFAULT_CONFIG}"
    )
    command.add_argument(
        "--state-directory", metavar="DIR", help="use this state directory instead"
    )
    return command


def settings(arguments: argparse.Namespace) -> Config:
    """Return the configuration that a command uses, defaults if no file. Errors: ConfigError.

    In a checkout on a host without a configuration it is that of `make run`, with its state.
    """
    path, directory = arguments.config, arguments.state_directory
    if path is None and (top := checkout_directory()):
        path, directory = default_config(), directory or f"{top}/{working_copy.STATE}"
    if path is None and not is_there(DEFAULT_CONFIG):
        found = parse_config("", DEFAULT_CONFIG, machine_name())
    else:
        found = load_config(path or DEFAULT_CONFIG)
    if directory is not None:
        # Not resolved: that looks at the directory, whose disk may hang.
        return dataclasses.replace(found, state_directory=str(Path(directory).absolute()))
    return found


def checkout_directory() -> str:
    """Return the checkout that this program runs from, '' on a host with a configuration."""
    return "" if is_there(DEFAULT_CONFIG) else working_copy.directory()


def public_settings(arguments: argparse.Namespace) -> tuple[Config, str]:
    """Return the configuration without any secret, and its path. Errors: ConfigError."""
    path = arguments.config or default_config()
    absent = arguments.config is None and not is_there(path)
    return parse_config("" if absent else read_config(path), path, machine_name()), path


def default_config() -> str:
    """Return the configuration file of a command without '--config', as `settings` reads it."""
    top = checkout_directory()
    return working_copy.config(top) if top else DEFAULT_CONFIG


def require_config(arguments: argparse.Namespace) -> None:
    """Make it an error from now on if a default configuration file that exists is missing.

    So a reload after the file was lost is refused, instead of replacing mail server and recipients
    by the defaults, which send no mail.
    """
    if arguments.config is None and is_there(DEFAULT_CONFIG):
        arguments.config = DEFAULT_CONFIG


def is_there(path: str) -> bool:
    """Return whether a file exists; what cannot be determined fails, with a reason, when read."""
    try:
        os.stat(path)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True


def probe(config: Config, clock: SystemClock, *, under_systemd: bool = False) -> Client | None:
    """Return a client of systemd's probe, or of one that is started; None if neither is permitted.

    The service always uses systemd's socket: a missing one is reported, and used once it exists.
    """
    if not config.probe:
        return None
    listens = os.access(PROBE_SOCKET, os.W_OK)
    if not listens and os.geteuid() == 0:
        return Client(connect.spawn(PROBE_DIRECTORY), clock.now)
    if listens or under_systemd:
        return Client(connect.connector(PROBE_SOCKET), clock.now)
    return None


def machine(
    recording: str | None,
) -> tuple[SystemClock, RecordingPlayer | None, Callable[[], Machine]]:
    """Return clock, player and files: of this machine (no player), or of a recording."""
    if recording is None:
        return SystemClock(), None, Machine
    directory = tempfile.mkdtemp(prefix="iowarden-play-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    player = RecordingPlayer(recording, directory)
    return PlayedClock(), player, lambda: Machine(directory, player.page_size_bytes, recorded=True)
