"""A running service, asked over its control socket: the client of the commands.

Source: daemon/control/control_socket.py has the protocol. Exit status of what asks: 0, 1 when the
service does not answer or its answer is an error, 130 after Ctrl-C.
"""

from __future__ import annotations

import errno
import io
import json
import os
import socket
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from iowarden.daemon import json_codec
from iowarden.daemon.cli import exit_status
from iowarden.daemon.cli.console import printable, say_json, show
from iowarden.daemon.control import control_socket, listen

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Generator

    from iowarden.daemon.cli.console import Sections

Document = TypeVar("Document")
TIMEOUT_SECONDS = control_socket.ANSWER_SECONDS + 5.0
"""The service itself says that it cannot answer before that."""
MOST_LINE_BYTES = control_socket.MOST_ANSWER_BYTES + 1


class ServiceError(Exception):
    """Nobody answers, or the answer is an error; the text is for a person."""


def command_of(
    parser: argparse.ArgumentParser,
    run: Callable[[argparse.Namespace], int],
    *,
    data: bool = False,
) -> argparse.ArgumentParser:
    """Have a parser run what asks the service, and take where that is; `data`: and '--json'."""
    parser.set_defaults(command=lambda arguments: guarded(run, arguments))
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--socket", metavar="PATH", help=f"default: {listen.SOCKET}")
    where.add_argument(
        "--state-directory", metavar="DIR", help="of a service that runs in the foreground"
    )
    if data:
        take_json(parser)
    return parser


def take_json(parser: argparse.ArgumentParser) -> None:
    """Have a parser take '--json'."""
    parser.add_argument("--json", action="store_true", help="the answer as data")


def guarded(run: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    """Run a command; return its exit status, also when nobody answers, or nobody reads."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # a name that the locale has no letters for
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status = run(arguments)
        sys.stdout.flush()
    except ServiceError as error:
        sys.stderr.write(f"{printable(str(error))}\n")
        return exit_status.FAILED
    except BrokenPipeError:  # 'iowarden events | head': what is left to say must not fail, too
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exit_status.FAILED
    except KeyboardInterrupt:
        return exit_status.INTERRUPTED
    return status


def requested(arguments: argparse.Namespace, command: str, asked: object = None) -> dict[str, Any]:
    """Return what the service that is meant answers to one command. Errors: ServiceError."""
    answer: dict[str, Any] = next(exchange(arguments, command, asked))["answer"]
    return answer


def shown(
    arguments: argparse.Namespace,
    command: str,
    cls: type[Document],
    sections: Callable[[Document], Sections],
    asked: object = None,
) -> int:
    """Show what the service answers, as data or for people. Errors: ServiceError."""
    answer = requested(arguments, command, asked)
    if arguments.json:
        say_json(answer)
    else:
        show(sections(decoded(cls, answer)))
    return 0


def exchange(
    arguments: argparse.Namespace, command: str, asked: object = None, *, follow: bool = False
) -> Generator[dict[str, Any], None, None]:
    """Give what the service that is meant says: one answer, and with `follow` what comes after.

    Errors: ServiceError.
    """
    path = _path(arguments)
    request = {"command": command, **json.loads(json_codec.encode(asked or {}))}
    line = json.dumps(request).encode() + b"\n"
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            _connect(client, path)
            client.settimeout(TIMEOUT_SECONDS)
            client.sendall(line)
            with client.makefile("rb") as answers:
                yield _line(answers.readline(MOST_LINE_BYTES), path)
                client.settimeout(None)
                while follow:
                    yield _line(answers.readline(MOST_LINE_BYTES), path)
    except TimeoutError as error:
        raise ServiceError(
            f"'{path}': expected an answer within {TIMEOUT_SECONDS:.0f} s, got none;"
            " see 'journalctl -u iowarden'"
        ) from error
    except ConnectionError as error:
        raise ServiceError(_gone(path)) from error


def _connect(client: socket.socket, path: str) -> None:
    # Blocking, and this limits it: else a full queue of a busy service is an error (unix(7)).
    limit = struct.pack("ll", int(TIMEOUT_SECONDS), 0)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
    try:
        client.connect(path)
    except BlockingIOError as error:
        raise TimeoutError from error
    except OSError as error:
        got = error.strerror or str(error)
        then = (
            f"be root, or in group '{control_socket.GROUP}' and logged in since"
            if error.errno in (errno.EACCES, errno.EPERM)
            else "see 'systemctl status iowarden', or name the place: --state-directory, --socket"
        )
        raise ServiceError(f"'{path}': expected a running service, got '{got}'; {then}") from error


def _line(line: bytes, path: str) -> dict[str, Any]:
    if not line.endswith(b"\n"):
        raise ServiceError(_gone(path))
    try:
        found = json.loads(line)
    except ValueError as error:
        raise ServiceError(f"'{path}': expected JSON, got {line[:60]!r}") from error
    if not isinstance(found, dict) or not found.keys() & {"answer", "event", "error"}:
        raise ServiceError(f"'{path}': expected an answer, got {line[:60]!r}")
    if "error" in found:
        raise ServiceError(str(found["error"]))
    return found


def _gone(path: str) -> str:
    return f"'{path}': the service went away; see 'systemctl status iowarden'"


def _path(arguments: argparse.Namespace) -> str:
    if arguments.socket is not None:
        return str(arguments.socket)
    if arguments.state_directory is not None:
        return str(Path(arguments.state_directory).resolve() / listen.FILE_NAME)
    return listen.SOCKET


def decoded(cls: type[Document], answer: object) -> Document:
    """Return an answer as its document. Errors: ServiceError."""
    try:
        return json_codec.decode(cls, json.dumps(answer))
    except json_codec.CodecError as error:
        raise ServiceError(f"is the service of another version? {error}") from error
