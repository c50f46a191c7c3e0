"""The commands `iowarden record`, `iowarden replay` and `iowarden report`."""

from __future__ import annotations

import argparse
import dataclasses
import functools
import math
import os
import queue
import secrets
import shlex
import signal
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from iowarden.collectors import quantity
from iowarden.collectors.machine import Machine
from iowarden.collectors.recording.archive import SUFFIXES
from iowarden.collectors.recording.recording import Recording, count_frames
from iowarden.daemon.cli import command, host_check
from iowarden.daemon.cli.service_client import guarded
from iowarden.daemon.clock import SystemClock
from iowarden.daemon.config.load import load_config, machine_name, read_config
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.rule_files import NO_DIRECTORY, load_files, load_rules
from iowarden.daemon.config.schema import ConfigError
from iowarden.daemon.control import roles
from iowarden.daemon.duration import duration_seconds
from iowarden.daemon.installation import VERSION
from iowarden.daemon.polling import hotplug, pollers
from iowarden.daemon.replay import expectation, record, replay
from iowarden.daemon.replay.expectation import ExpectationError
from iowarden.daemon.report import bundle, sensitive
from iowarden.daemon.sanitize import escaped
from iowarden.daemon.service.messages import Stop
from iowarden.daemon.terminal import exit_status
from iowarden.daemon.terminal.console import print_error, progress, show

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from iowarden.daemon.cli.command import Add
    from iowarden.daemon.config.schema import Config
    from iowarden.daemon.replay.expectation import Expectation

CLOSE_SECONDS = 1.0
"""Time limit for the probe's thread to end."""
REPORT_SECONDS = 30.0
"""How long 'iowarden report' records: SMART of some drives, and twenty reads of most sources."""
_MAIL_SUFFIX = ".eml"


def add_commands(add: Add) -> None:
    """Add the commands, by a function that takes name and what runs."""
    recorded = command.configured(add("record", functools.partial(guarded, _record)))
    recorded.add_argument("recording", metavar="OUT", help="new file NAME.tar.xz or NAME.tar.gz")
    recorded.add_argument(
        "--for",
        metavar="TIME",
        dest="seconds",
        type=_seconds,
        default=float("inf"),
        help="duration, for example 10m; default: until Ctrl-C",
    )
    packed = command.configured(add("report", functools.partial(guarded, _report)))
    packed.add_argument("report", metavar="OUT", help="new file NAME.tar.xz or NAME.tar.gz")
    packed.add_argument(
        "--for",
        metavar="TIME",
        dest="seconds",
        type=_seconds,
        default=REPORT_SECONDS,
        help=f"how long to record, for example 5m; default: {REPORT_SECONDS:.0f}s",
    )
    packed.add_argument(
        "--recording", metavar="RECORDING", help="use this recording instead, for example a flight"
    )
    again = add("replay", functools.partial(guarded, _replay))
    again.add_argument(
        "recordings",
        metavar="IN",
        nargs="+",
        help="recording: a directory or an archive; of several each is played by a service that"
        " continues with the state of the one before, as after a restart",
    )
    again.add_argument(
        "--from-start",
        action="store_true",
        help="begin as on the day of installation, with the initial report",
    )
    again.add_argument(
        "--rules", metavar="FILE", action="append", default=[], help="add rules; may be repeated"
    )
    again.add_argument(
        "--expect", metavar="FILE", help="expected result; the exit status is 1 if it differs"
    )
    again.add_argument("--json", action="store_true", help="print the result as JSON")
    again.add_argument(
        "--mails", metavar="DIR", help="write the mails to this directory, one file each"
    )
    again.add_argument(
        "--config",
        metavar="FILE",
        help="configuration file; default: built-in defaults and shipped rules",
    )


def _seconds(text: str) -> float:
    try:
        seconds = duration_seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"expected a duration such as 10m, got '{text}'"
        ) from error
    if not seconds:
        raise argparse.ArgumentTypeError(f"expected a duration above 0 such as 10m, got '{text}'")
    return seconds


def _record(arguments: argparse.Namespace) -> int:
    config = command.settings(arguments)
    path = arguments.recording
    if problem := _bad_name(path):
        return _failed(problem, exit_status.CONFIG)
    notice = (
        f"recording this machine to '{path}'; Ctrl-C stops it\n"
        "The recording names disks, mounts, servers of network file systems, and programs that wait"
        " for I/O.\n"
    )
    outcome = _recorded(config, path, arguments.seconds, notice)
    if outcome.problem:
        return _failed(outcome.problem, exit_status.FAILED)
    size = quantity.size(os.path.getsize(path))
    moment = expectation.moment(outcome.seconds)
    problem = _write_lines([f"'{path}': {outcome.frames} frames, {moment}, {size}"])
    return _failed(problem, exit_status.FAILED) if problem else 0


def _bad_name(path: str) -> str:
    """Return why a new archive cannot have this name, or ''."""
    if path.endswith(SUFFIXES):
        return ""
    return f"'{path}': expected a name that ends in {' or '.join(SUFFIXES)}; add it"


def _report(arguments: argparse.Namespace) -> int:
    path = arguments.report
    if problem := _bad_name(path):
        return _failed(problem, exit_status.CONFIG)
    if os.path.lexists(path):
        return _failed(f"'{path}': expected a new file, got one that exists", exit_status.FAILED)
    directory = os.path.dirname(path) or "."
    if not os.access(directory, os.W_OK | os.X_OK):  # before the recording, not after it
        problem = f"'{path}': expected a writable directory '{directory}', got none; name another"
        return _failed(problem, exit_status.FAILED)
    try:
        config = command.settings(arguments)
    except ConfigError as error:  # may be what is to be reported
        if not os.access(arguments.config or command.DEFAULT_CONFIG, os.R_OK):
            raise  # the names in it would not be known
        sys.stderr.write(f"{error}\nthe report is made with the default values of all settings\n")
        config = parse_config("", path, machine_name())
    with tempfile.TemporaryDirectory(prefix="iowarden-report-") as directory:
        recording = arguments.recording
        if recording is None:
            recording = os.path.join(directory, "recording.tar.gz")
            notice = f"recording this machine for {quantity.duration(arguments.seconds)}\n"
            outcome = _recorded(config, recording, arguments.seconds, notice)
            if outcome.problem:
                return _failed(outcome.problem, exit_status.FAILED)
        sys.stderr.write("checking this machine\n")
        found = host_check.report_of(argparse.Namespace(**{**vars(arguments), "play": None}))
        try:
            contents = bundle.write(
                path,
                recording,
                bundle.facts(VERSION),
                config.redactor.text(found.json()),
                _text_of(arguments.config or command.DEFAULT_CONFIG),
                sensitive.own_hosts(config.host),
                secrets.token_bytes(32),
                [*roles.service_group_members(), os.environ.get("SUDO_USER", "")],
            )
        except bundle.ReportError as error:
            return _failed(str(error), exit_status.FAILED)
    size = quantity.size(os.path.getsize(path))
    done = f"'{path}': {size}. Read it before you send it: tar -xf {shlex.quote(path)}"
    problem = _write_lines([contents, done])
    return _failed(problem, exit_status.FAILED) if problem else 0


def _text_of(path: str) -> str:
    """Return the text of the configuration; '' if there is none that can be read."""
    try:
        return read_config(path)
    except ConfigError:
        return ""


def _recorded(config: Config, path: str, seconds: float, notice: str) -> record.Recorded:
    """Record this machine for a time, or until Ctrl-C, which `notice` promises to work."""
    events: queue.SimpleQueue[object] = queue.SimpleQueue()
    before = {
        number: signal.signal(number, lambda n, _: events.put(Stop(signal.Signals(n).name)))
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    sys.stderr.write(notice)
    clock = SystemClock()
    probe = command.probe(config, clock)
    root: Callable[[], Machine] = Machine
    if probe is not None:
        root = functools.partial(Machine, probe=probe.request)
        probe.begin()
    hotplug.listen(events.put)
    page_size_bytes = os.sysconf("SC_PAGE_SIZE")
    periods_seconds = config.interval_seconds
    asked = pollers.make(config.smart, clock, None if probe is None else probe.kernel_log)
    asked.directories.configure(config.watch_directories)
    total = None if math.isinf(seconds) else seconds
    try:
        with progress("recording", total) as advance:
            return record.record(
                path,
                page_size_bytes,
                periods_seconds,
                root,
                clock,
                events,
                seconds,
                asked,
                on_frame=lambda now: advance(now.seconds),
            )
    finally:
        if probe is not None:
            probe.close(CLOSE_SECONDS)
        for number, handler in before.items():
            signal.signal(number, handler)


def _replay(arguments: argparse.Namespace) -> int:
    try:
        expected = None if arguments.expect is None else _expectation(arguments.expect)
    except ExpectationError as error:
        return _failed(str(error), exit_status.CONFIG)
    recordings = [Recording(path) for path in arguments.recordings]
    if arguments.mails is not None and (problem := _begin_mails(arguments.mails)):
        return _failed(problem, exit_status.FAILED)
    if arguments.config is None:
        settings = parse_config("", "defaults", replay.HOST)
        settings = dataclasses.replace(settings, rules_directory=NO_DIRECTORY)
    else:
        settings = load_config(arguments.config)
    groups = [*load_rules(settings), *load_files(Path(name) for name in arguments.rules)]
    total = sum(map(count_frames, arguments.recordings)) if sys.stderr.isatty() else None
    with progress("replaying", total) as advance:
        outcome = replay.replay(
            recordings, settings, groups, on_frame=advance, from_start=arguments.from_start
        )
    different = [] if expected is None else expectation.differences(expected, outcome.compared())
    lines = [outcome.json(different)] if arguments.json else [*outcome.lines()]
    if different and not arguments.json:
        lines.append(f"\nthe result differs from '{arguments.expect}' ('-' expected, '+' got):")
        lines += different
    if problem := _write_lines(lines):
        return _failed(problem, exit_status.FAILED)
    if not arguments.json:
        _warn(outcome)
    try:
        if arguments.mails is not None:
            _write_mails(arguments.mails, outcome.mails)
    except OSError as error:
        return _failed(str(error), exit_status.FAILED)
    if outcome.problem:
        return _failed(outcome.problem, exit_status.CONFIG)
    return exit_status.FAILED if different else 0


def _warn(outcome: replay.Replayed) -> None:
    """Write what the recordings lack to standard error."""
    if outcome.missing:
        print_error(
            "the recording lacks files that iowarden reads on such a machine, and some verdicts"
            " are not possible without them:"
        )
        for lack in outcome.missing:
            print_error(f"  {lack.line()}")


def _expectation(path: str) -> Expectation:
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(expectation.MAX_CHARACTERS + 1)
    except OSError as error:
        raise ExpectationError(
            f"'{path}': expected a readable file, got: {error.strerror}; name another one"
        ) from error
    except UnicodeDecodeError as error:
        raise ExpectationError(
            f"'{path}': expected text in UTF-8, got other data ({error.reason} at byte"
            f" {error.start}); name a file of alerts, incidents and mails that are expected"
        ) from error
    if len(text) > expectation.MAX_CHARACTERS:
        raise ExpectationError(
            f"'{path}': expected at most {expectation.MAX_CHARACTERS} characters, got more"
        )
    return expectation.parse(text, path)


def _begin_mails(directory: str) -> str:
    """Create the directory; return why it cannot be used, or ''.

    It must not hold mails of another replay: they would be confused with those of this one.
    """
    try:
        os.makedirs(directory, exist_ok=True)
        there = sorted(name for name in os.listdir(directory) if name.endswith(_MAIL_SUFFIX))
    except OSError as error:
        return f"'{directory}': expected a directory for mails, got: {error.strerror}"
    if there:
        return (
            f"'{directory}': expected no mails there yet, got '{there[0]}'; remove them, or name"
            " another directory"
        )
    return ""


def _write_mails(directory: str, mails: Iterable[replay.ReplayedMail]) -> None:
    for number, mail in enumerate(mails, 1):
        Path(directory, f"{number:03d}{_MAIL_SUFFIX}").write_bytes(mail.data)


def _write_lines(lines: Iterable[str]) -> str:
    """Write lines to standard output; return the error, or ''."""
    try:
        if sys.stdout.isatty():
            show(part for line in lines for part in line.split("\n"))
        else:
            sys.stdout.writelines(escaped(f"{line}\n", "\n\t") for line in lines)
        sys.stdout.flush()
    except OSError as error:
        # The flush at exit must not fail as well.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # that is 'iowarden replay | head'
            return f"standard output: expected to write to it, got: {error.strerror}"
    return ""


def _failed(text: str, status: int) -> int:
    sys.stderr.write(text + "\n")
    return status
