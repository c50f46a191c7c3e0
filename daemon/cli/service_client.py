"""Client of the control socket: commands query the running service.

Protocol: daemon/control/control_socket.py. Exit status of these commands: 0, 1 if the service does
not answer or its answer is an error, 130 after Ctrl-C.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import grp
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from iowarden.collectors.model import UserInputError
from iowarden.collectors.quantity import duration
from iowarden.daemon import json_codec, working_copy
from iowarden.daemon.control import control_socket, listen
from iowarden.daemon.control.documents import Result, Status
from iowarden.daemon.control.roles import OPERATOR_GROUP, VIEWER_GROUP
from iowarden.daemon.storage import state_access
from iowarden.daemon.storage.bounded import NoAnswerError
from iowarden.daemon.terminal import exit_status
from iowarden.daemon.terminal.console import encode_all, print_error, print_json, show

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Generator

    from iowarden.daemon.terminal.console import Sections

Document = TypeVar("Document")
TIMEOUT_SECONDS = control_socket.ANSWER_SECONDS + 5.0
"""Longer than the service's own timeout, after which it answers with an error."""
MAX_LINE_BYTES = control_socket.MAX_ANSWER_BYTES + 1


class ServiceError(Exception):
    """The service does not answer, or its answer is an error; the text is shown to the user."""


class NotRunningError(ServiceError):
    """The service is not running."""


def command_of(
    parser: argparse.ArgumentParser,
    run: Callable[[argparse.Namespace], int],
    *,
    data: bool = False,
) -> argparse.ArgumentParser:
    """Set the function of a parser, add the socket options; `data`: and --json."""
    parser.set_defaults(command=lambda arguments: guarded(run, arguments))
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--socket", metavar="PATH", help=f"control socket; default: {listen.SOCKET}")
    where.add_argument(
        "--state-directory",
        metavar="DIR",
        help="state directory of a service that runs in the foreground",
    )
    if data:
        take_json(parser)
    return parser


def take_json(parser: argparse.ArgumentParser) -> None:
    """Add '--json' to a parser."""
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")


def guarded(run: Callable[[argparse.Namespace], int], arguments: argparse.Namespace) -> int:
    """Run a command; return its exit status, also if the service fails."""
    encode_all()  # also names that the locale cannot encode
    try:
        return run(arguments)
    except ServiceError as error:
        print_error(str(error))
        return exit_status.FAILED


def requested(arguments: argparse.Namespace, command: str, body: object = None) -> dict[str, Any]:
    """Send one command to the service; return its answer. Errors: ServiceError."""
    answer: dict[str, Any] = next(exchange(arguments, command, body))["answer"]
    return answer


def configuration_of(arguments: argparse.Namespace) -> str | None:
    """Return the configuration file of a command about the running service, None for the default.

    It is the file that was given, or else the one that the service uses, if it answers and the
    file exists.
    """
    if arguments.config is not None:
        return str(arguments.config)
    try:
        path = decoded(Status, requested(arguments, "status")).configuration
        os.stat(path)
    except (ServiceError, FileNotFoundError):
        return None
    except OSError:  # why it cannot be read is reported where it is read
        pass
    return path


def query_of(
    given: str | None, configured: str
) -> Callable[[str], list[tuple[str, dict[str, str], float]]]:
    """Return a function that evaluates an expression in the service: names, labels and values.

    It is the service of a state directory that was given, the installed one, or one that runs in
    the foreground with the configured state directory. Errors of the function: UserInputError.
    """
    directory = given
    if given is None and not os.path.exists(listen.SOCKET):
        directory = configured
    where = argparse.Namespace(socket=None, state_directory=directory)

    def query(expression: str) -> list[tuple[str, dict[str, str], float]]:
        try:
            result = decoded(Result, requested(where, "query", {"expression": expression}))
        except ServiceError as error:
            raise UserInputError(str(error)) from error
        return [
            (
                sample.labels.get("__name__", ""),
                {name: text for name, text in sample.labels.items() if name != "__name__"},
                float(sample.value),
            )
            for sample in result.samples
        ]

    return query


def show_answer(
    arguments: argparse.Namespace,
    command: str,
    cls: type[Document],
    sections: Callable[[Document], Sections],
    body: object = None,
) -> int:
    """Send one command; print the answer as JSON or as text. Errors: ServiceError."""
    answer = requested(arguments, command, body)
    if arguments.json:
        print_json(answer)
    else:
        show(sections(decoded(cls, answer)))
    return 0


def exchange(
    arguments: argparse.Namespace, command: str, body: object = None, *, follow: bool = False
) -> Generator[dict[str, Any], None, None]:
    """Send one command; yield its answer, and with `follow` each event after that.

    Errors: ServiceError.
    """
    path = _path(arguments)
    request = {"command": command, **json.loads(json_codec.encode(body or {}))}
    line = json.dumps(request).encode() + b"\n"
    try:
        with _connected(path) as client:
            client.settimeout(TIMEOUT_SECONDS)
            # Who may not ask is refused, and the connection closed, before the request is read.
            with contextlib.suppress(BrokenPipeError):
                client.sendall(line)
            with client.makefile("rb") as answers:
                yield _line(answers.readline(MAX_LINE_BYTES), path)
                client.settimeout(None)
                while follow:
                    yield _line(answers.readline(MAX_LINE_BYTES), path)
    except TimeoutError as error:
        raise ServiceError(
            f"iowarden does not answer ({path}: no answer within {duration(TIMEOUT_SECONDS)})."
            " See: journalctl -u iowarden"
        ) from error
    except ConnectionError as error:
        raise ServiceError(_gone(path)) from error


def _connected(path: str) -> socket.socket:
    try:
        return state_access.connected(path, int(TIMEOUT_SECONDS))
    except BlockingIOError as error:
        raise TimeoutError from error
    except OSError as error:
        gone = error.errno in (errno.ENOENT, errno.ECONNREFUSED) and not os.path.isfile(path)
        kind = NotRunningError if gone else ServiceError
        raise kind(_no_connection(path, error)) from error


def _no_connection(path: str, error: OSError) -> str:
    """Return why there is no connection to the service, and what to do."""
    if isinstance(error, NoAnswerError):
        return f"no connection to iowarden ({path}: {error}). See: journalctl -k -p err"
    got = (error.strerror or str(error)).lower()
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"no access to iowarden ({path}: {got}). Use sudo{_groups()}"
    if error.errno not in (errno.ENOENT, errno.ECONNREFUSED):
        return f"no connection to iowarden ({path}: {got}). See: systemctl status iowarden"
    if error.errno == errno.ECONNREFUSED and os.path.isfile(path):
        return (
            f"'{path}': expected the control socket of iowarden, got a file; leave the option out"
            " for the installed service, or name its directory with --state-directory"
        )
    directory = os.path.dirname(path)
    if error.errno == errno.ENOENT and path != listen.SOCKET and not os.path.lexists(directory):
        return (
            f"'{directory}': no such directory; name the 'state_directory' of the service that you"
            " mean, or leave the option out for the installed one"
        )
    got = f"no {path}" if error.errno == errno.ENOENT else f"{path}: {got}"
    return f"iowarden is not running ({got}). {_start(path)}"


def _start(path: str) -> str:
    """Return how to start the service that would answer at a socket, as it is installed here."""
    top, directory = working_copy.directory(), os.path.dirname(path)
    if top and path in (listen.SOCKET, f"{top}/{working_copy.STATE}/{listen.FILE_NAME}"):
        return (
            f"Start it: make run, in '{top}', or systemctl start iowarden if it is installed. If it"
            " runs in the foreground elsewhere, use --state-directory or --socket"
        )
    if path != listen.SOCKET:
        return (
            "Start it: systemctl start iowarden, or in the foreground: iowarden run"
            f" --state-directory '{directory}'"
        )
    return (
        "Start it: systemctl start iowarden. If it runs in the foreground, use --state-directory"
        " or --socket"
    )


def _groups() -> str:
    """Return which groups give access; '' where they do not exist, as after 'sudo make run'."""
    try:
        for group in (VIEWER_GROUP, OPERATOR_GROUP):
            grp.getgrnam(group)
    except KeyError:
        return ""
    return (
        f", or let root add you to group '{VIEWER_GROUP}' (may query) or '{OPERATOR_GROUP}' (may"
        f" act): usermod -aG {VIEWER_GROUP} USER (effective after a new login)"
    )


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
    return f"iowarden closed the connection ({path}). See: systemctl status iowarden"


def _path(arguments: argparse.Namespace) -> str:
    if arguments.socket is not None:
        return str(arguments.socket)
    if arguments.state_directory is not None:
        return str(Path(arguments.state_directory).absolute() / listen.FILE_NAME)
    own = f"{working_copy.directory()}/{working_copy.STATE}/{listen.FILE_NAME}"
    is_own = working_copy.directory() and not os.path.exists(listen.SOCKET) and _is_there(own)
    return own if is_own else listen.SOCKET


def _is_there(path: str) -> bool:
    """Whether a file exists; one in a closed directory, as of 'sudo make run', is refused later."""
    try:
        os.stat(path)
    except FileNotFoundError:
        return False
    except OSError:
        pass
    return True


def decoded(cls: type[Document], answer: object) -> Document:
    """Decode an answer to its document. Errors: ServiceError."""
    try:
        return json_codec.decode(cls, json.dumps(answer))
    except json_codec.CodecError as error:
        raise ServiceError(
            f"unexpected answer, perhaps of another version of the service: {error}"
        ) from error
