"""The command `iowarden` and its subcommands."""

from __future__ import annotations

import argparse
import atexit
import dataclasses
import functools
import importlib.metadata
import os
import queue
import shutil
import signal
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from systemd.daemon import notify

from iowarden.collectors.files import Root
from iowarden.collectors.recording import Player, RecordingError, watched
from iowarden.collectors.smart import MOST_TOLD_BYTES
from iowarden.daemon import check as checking
from iowarden.daemon import config as configuration
from iowarden.daemon import (
    console,
    control,
    disk_console,
    event_console,
    flight,
    hotplug,
    journal,
    locate_console,
    mail,
    memory,
    recording_commands,
    rules_command,
    selftest_console,
    stateful,
    unparsed,
)
from iowarden.daemon.clock import PlayedClock, SystemClock
from iowarden.daemon.exposition import Exposition
from iowarden.daemon.history import History
from iowarden.daemon.http import App, Server
from iowarden.daemon.loop import Loop, Parts, Reload, Stop, Trouble, recipients
from iowarden.daemon.message import render
from iowarden.daemon.probe import client
from iowarden.daemon.process import ProcessMetrics
from iowarden.daemon.readers import Readers
from iowarden.daemon.rule_files import load_events, load_rules, notes
from iowarden.daemon.state import State
from iowarden.rules.engine import Engine
from iowarden.rules.notice import Evidence, Notice, Reason, Severity
from iowarden.rules.rulefile import RuleFileError, RuleGroup

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

DEFAULT_CONFIG = "/etc/iowarden/iowarden.yaml"
EXIT_CONFIG = 78
"""sysexits.h EX_CONFIG: the unit does not restart on it."""
EXIT_FAILED = 1
PROBE_SOCKET = "/run/iowarden-probe.socket"
"""Where systemd listens for the probe."""
PROBE_DIRECTORY = "/run/iowarden-probe"
"""Where a probe that we start as a child notes what hangs."""
EXIT_INTERRUPTED = 130
"""As a shell says of a program that Ctrl-C ended."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parsed = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = parsed.command
    try:
        return command(parsed)
    except configuration.ConfigError as error:
        for problem in error.problems:
            print(problem, file=sys.stderr)
    except (RuleFileError, RecordingError) as error:
        print(error, file=sys.stderr)
    return EXIT_CONFIG


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="iowarden", description="Watches a Linux host's storage path and tells in time."
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(
        name: str, run: Callable[[argparse.Namespace], int], words: str
    ) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=words, description=words)
        command.set_defaults(command=run)
        return command

    run = add("run", _run, "watch this machine until told to stop")
    run.add_argument("--play", metavar="RECORDING", help="play a recording instead of this machine")
    check = add("config", lambda _: 0, "check the configuration")
    actions = check.add_subparsers(required=True, metavar="ACTION")
    action = actions.add_parser("check", help="read the configuration and every rule file")
    action.set_defaults(command=_config_check)
    action.add_argument("file", nargs="?", default=None, help=f"default: {DEFAULT_CONFIG}")
    look = add("check", _check, "look at this machine once and say what is wrong")
    look.add_argument("--play", metavar="RECORDING", help="look at a recording's end instead")
    look.add_argument("--json", action="store_true", help="the report as data")
    console.add_commands(add)
    event_console.add_commands(add)
    disk_console.add_commands(add)
    selftest_console.add_commands(add)
    located = locate_console.add_commands(add, _settings, _probe)
    recorded = recording_commands.add_commands(add, _settings, _probe)
    rules = rules_command.add_commands(add, _settings)
    test = add("test-mail", _test_mail, "send a test mail and say what the server answered")
    kept = add("unparsed", lambda _: 0, "what the kernel said and no parser understood")
    actions = kept.add_subparsers(required=True, metavar="ACTION")
    listed = actions.add_parser("list", help="what was kept, one a line")
    listed.set_defaults(command=_unparsed_list)
    shown = actions.add_parser("show", help="one text, for a bug report")
    shown.set_defaults(command=_unparsed_show)
    shown.add_argument("name", help="as listed")
    shown.add_argument(
        "--redact", action="store_true", help="placeholders for what names disks, hosts and people"
    )
    for command in (run, look, test, listed, shown, *rules, *recorded, *located):
        command.add_argument(
            "--config", metavar="FILE", help=f"default: {DEFAULT_CONFIG}, if there"
        )
        command.add_argument(
            "--state-directory", metavar="DIR", help="instead of the configured one"
        )
    add("version", _version, "print the version")
    return parser


def _version(_: argparse.Namespace) -> int:
    print(f"iowarden {_version_text()}")
    return 0


def _version_text() -> str:
    return importlib.metadata.version("iowarden")


def _config_check(arguments: argparse.Namespace) -> int:
    path = arguments.file or DEFAULT_CONFIG
    settings = configuration.load(path)
    groups = load_rules(settings)
    rules = sum(len(group.rules) for group in groups)
    print(f"'{path}' is good; {rules} rules in {len(groups)} groups")
    if said := checking.mail_path(settings):
        print(said)
    return 0


def _check(arguments: argparse.Namespace) -> int:
    def examine(step: Callable[[str], None]) -> checking.Report:
        step("reading the configuration and the rules")
        settings, groups, problems = _whatever_is_good(arguments)
        try:
            clock, player, root = _machine(arguments.play)
            report = checking.examine(settings, groups, clock, root, player=player, step=step)
        except RecordingError as error:
            report = checking.Report((_unusable("recording", str(error)),))
        found = report.findings
        if any(problem.topic == "configuration" for problem in problems):
            # What defaults say of mail and state would be taken for what is configured.
            found = tuple(f for f in found if f.topic not in {"mail", "state"})
        return dataclasses.replace(report, findings=(*problems, *found))

    try:
        if arguments.play is None:
            report = checking.guarded(examine)
        else:
            report = checking.answered(examine, lambda _: None)
        print(report.json() if arguments.json else "\n".join(report.lines()), flush=True)
    except BrokenPipeError:  # 'iowarden check | head': what is left to say must not fail, too
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return report.status


def _whatever_is_good(
    arguments: argparse.Namespace,
) -> tuple[configuration.Config, list[RuleGroup], list[checking.Finding]]:
    """Return configuration and rules, defaults and shipped rules instead of what is bad."""
    problems: list[checking.Finding] = []
    try:
        settings = _settings(arguments)
    except configuration.ConfigError as error:
        problems += [_unusable("configuration", text) for text in error.problems]
        machine = configuration.machine_name()
        settings = configuration.parse("", DEFAULT_CONFIG, machine)
    try:
        return settings, load_rules(settings), problems
    except RuleFileError as error:
        problems += [_unusable("rules", text) for text in error.errors]
        shipped = dataclasses.replace(
            settings, shipped_rules=True, rules_directory="/nonexistent", overrides=()
        )
        return settings, load_rules(shipped), problems


def _unusable(topic: str, text: str) -> checking.Finding:
    return checking.Finding(checking.Level.UNKNOWN, topic, "", text)


def _unparsed_list(arguments: argparse.Namespace) -> int:
    directory = unparsed_directory(_settings(arguments))
    try:
        for name in unparsed.names(directory):
            found = unparsed.head(unparsed.read(directory, name))
            print(f"{name}  {found.get('time', '')}  {found.get('error', '')}")
    except OSError as error:
        print(error, file=sys.stderr)
        return EXIT_FAILED
    return 0


def _unparsed_show(arguments: argparse.Namespace) -> int:
    settings = _settings(arguments)
    try:
        text = unparsed.read(unparsed_directory(settings), arguments.name)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return EXIT_FAILED
    names = {settings.host, os.uname().nodename}
    names |= {name.partition(".")[0] for name in names}
    print(unparsed.redact(text, sorted(names)) if arguments.redact else text)
    return 0


def unparsed_directory(settings: configuration.Config) -> str:
    """Return where texts are kept that could not be parsed."""
    return str(Path(settings.state_directory) / "unparsed")


def _test_mail(arguments: argparse.Namespace) -> int:
    settings = _settings(arguments)
    receivers = recipients(settings)
    notice = test_notice(SystemClock().now())
    message = render(notice, settings.host, settings.mail.sender, receivers)
    delivered = True
    for line in mail.test_mail(_mail_settings(settings), message.as_bytes(), receivers):
        print(line.text)
        delivered = delivered and line.good
    return 0 if delivered else EXIT_FAILED


def _settings(arguments: argparse.Namespace) -> configuration.Config:
    path = arguments.config
    if path is None and not Path(DEFAULT_CONFIG).exists():
        settings = configuration.parse("", DEFAULT_CONFIG, configuration.machine_name())
    else:
        settings = configuration.load(path or DEFAULT_CONFIG)
    if arguments.state_directory is not None:
        directory = str(Path(arguments.state_directory).resolve())
        return dataclasses.replace(settings, state_directory=directory)
    return settings


def _mail_settings(settings: configuration.Config) -> mail.MailSettings | mail.MaildirSettings:
    chosen = settings.mail
    if chosen.server is None:
        return mail.MaildirSettings(str(Path(settings.state_directory) / "Maildir"))
    return mail.MailSettings(
        server=chosen.server,
        port=chosen.port,
        tls=chosen.tls,
        user=chosen.user,
        password=chosen.password,
        sender=chosen.sender,
        timeout_seconds=chosen.timeout_seconds,
        hello=chosen.hello,
    )


def test_notice(now: float) -> Notice:
    """Return the mail of `iowarden test-mail`; it is also the dry run of the alert path."""
    return Notice(
        incident=f"test{int(now):x}",
        number=1,
        references=(),
        reason=Reason.OPENED,
        severity=Severity.WARNING,
        object="host",
        summary="this is a test; nothing is wrong",
        opened_seconds=now,
        realtime_seconds=now,
        recurrences=0,
        happened=("somebody ran 'iowarden test-mail'",),
        evidence=(Evidence(now, "test", "the mail you are reading"),),
        affected=(),
        advice=("Nothing to do. If you did not expect it, ask who administers this machine.",),
        unknown=(),
    )


def _noted(groups: Sequence[RuleGroup], settings: configuration.Config) -> str:
    """Return what to say of rules that load but can find nothing; '' if there are none."""
    found = notes(groups, settings)
    more = "; and more: see 'iowarden rules check'" if found[1:] else ""
    return f"rules: {found[0]}{more}" if found else ""


def dry_run(host: str, sender: str, recipients: tuple[str, ...], now: float) -> None:
    """Render a mail, so that whatever is imported or read for the first one is in memory."""
    render(test_notice(now), host, sender, recipients).as_bytes()


def _run(arguments: argparse.Namespace) -> int:
    events: queue.SimpleQueue[object] = queue.SimpleQueue()
    # At once: it would end us, and to systemd that is a good end after which it starts nobody anew.
    signal.signal(signal.SIGHUP, lambda *_: events.put(Reload()))
    settings = _settings(arguments)
    groups = load_rules(settings)
    threading.stack_size(memory.THREAD_STACK_BYTES)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda n, _: events.put(Stop(signal.Signals(n).name)))
    under_systemd = _is_journal(sys.stderr.fileno())
    log = journal.Log(foreground=not under_systemd, level=settings.log_level)
    clock, player, root = _machine(arguments.play)
    listening = control.inherited()
    probe = None if player is not None else _probe(settings, clock, under_systemd=under_systemd)
    if probe is not None:
        root = functools.partial(Root, probe=probe.ask)
    dry_run(settings.host, settings.mail.sender, recipients(settings), clock.now())
    # Before the threads: of their stacks only what is touched is locked, not the half megabyte.
    if problem := memory.lock():
        events.put(Trouble("memory", problem))
    asked = stateful.make(
        settings.smart,
        clock,
        None if probe is None else probe.kernel_log,
        most_told_bytes=MOST_TOLD_BYTES,
    )
    sources = asked.sources()
    flights = None
    if settings.flight_recorder:
        recent = flight.Flight(player.page_size_bytes if player else os.sysconf("SC_PAGE_SIZE"))
        sources = [watched(source, recent.take) for source in sources]
        flights = flight.Keeper(
            recent,
            str(Path(settings.state_directory) / flight.DIRECTORY),
            lambda text: events.put(Trouble("flight", text)),
        )
    readers = Readers(sources, settings.period_seconds, root, clock.now, events.put)
    engine = Engine(
        groups,
        readers.sources,
        clock.now(),
        settings.rule_interval_seconds,
        expose=tuple(
            names
            for names, shown in (
                ("node_", settings.expose_node),
                ("smartctl_", settings.expose_smartctl),
            )
            if shown
        ),
        targets=settings.targets,
    )
    exposition = Exposition(lambda text: events.put(Trouble("metrics", text)))

    def load() -> tuple[configuration.Config, list[RuleGroup]]:
        fresh = _settings(arguments)
        rules = load_rules(fresh)
        events.put(Trouble("notes", _noted(rules, fresh)))
        return fresh, rules

    def sender(config: configuration.Config) -> mail.Sender:
        return mail.Sender(_mail_settings(config), events.put)

    events.put(Trouble("notes", _noted(groups, settings)))
    people = _control(listening, settings, events.put)
    if probe is not None:
        probe.begin()
    keeper = unparsed.Unparsed(
        unparsed_directory(settings),
        lambda text: events.put(Trouble("unparsed", text)),
        _version_text(),
    )
    loop = Loop(
        Parts(
            config=settings,
            clock=clock,
            engine=engine,
            readers=readers,
            events=events,
            log=log,
            state=State(str(Path(settings.state_directory) / "state.db"), events.put),
            sender=sender(settings),
            recipients=recipients(settings),
            exposition=exposition,
            notify=notify,
            player=player,
            own_metrics=ProcessMetrics(),
            load=load,
            sender_for=sender,
            keep=keeper.keep,
            probe=probe,
            drives=asked.drives,
            table=load_events(),
            kernel_log=asked.kernel_log,
            controllers=asked.controllers,
            test_root=None if probe is None else root,
            files_root=None if probe is None else root,
            flights=flights,
            control=people,
            history=History(str(Path(settings.state_directory) / "history.db"), events.put),
            version=_version_text(),
        )
    )
    app = App(_version_text(), exposition.render, loop.healthy, loop.ready, loop.landing)
    server = Server(settings.listen, app, settings.http, lambda t: events.put(Trouble("http", t)))
    if not under_systemd:
        print("\n".join(_where(settings)), file=sys.stderr)
    if player is None:
        hotplug.listen(events.put)
    return loop.run(server)


def _probe(
    settings: configuration.Config, clock: SystemClock, *, under_systemd: bool = False
) -> client.Client | None:
    """Return who asks the probe: systemd's, or one that we start; None where neither may be.

    As a service we expect its socket: one that is not there is told, and found when it comes.
    """
    if not settings.probe:
        return None
    listens = os.access(PROBE_SOCKET, os.W_OK)
    if not listens and os.geteuid() == 0:
        return client.Client(client.spawn(PROBE_DIRECTORY), clock.now)
    if listens or under_systemd:
        return client.Client(client.at(PROBE_SOCKET), clock.now)
    return None


def _control(
    listening: socket.socket | None,
    settings: configuration.Config,
    post: Callable[[object], object],
) -> control.Control | None:
    """Serve the socket that systemd made, or one in the state directory; say why there is none."""
    path = ""
    try:
        if listening is None:
            os.makedirs(settings.state_directory, mode=0o750, exist_ok=True)
            path = str(Path(settings.state_directory) / control.FILE_NAME)
            listening = control.bind(path)
    except OSError as error:  # a ControlError is one
        post(Trouble("control", str(error)))
        return None
    return control.Control(listening, post, lambda t: post(Trouble("control", t)), remove=path)


def _is_journal(descriptor: int) -> bool:
    """Say whether a descriptor leads to the journal. Source: systemd.exec(5), JOURNAL_STREAM."""
    status = os.fstat(descriptor)
    return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


def _machine(recording: str | None) -> tuple[SystemClock, Player | None, Callable[[], Root]]:
    """Return the clock and the files of this machine, or of a recording and what plays it."""
    if recording is None:
        return SystemClock(), None, Root
    directory = tempfile.mkdtemp(prefix="iowarden-play-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    player = Player(recording, directory)
    return PlayedClock(), player, lambda: Root(directory, player.page_size_bytes, recorded=True)


def _where(settings: configuration.Config) -> list[str]:
    """Return the lines that say where to look."""
    host, port = settings.listen[0]
    place = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    server = settings.mail.server
    mails = f"SMTP server '{server}'" if server else f"Maildir {settings.state_directory}/Maildir"
    return [
        f"iowarden {_version_text()} watches this machine; Ctrl-C stops it.",
        f"  metrics  curl http://{place}/metrics",
        f"  mail     {mails}" + ("" if server else " (nobody is mailed: set mail.server)"),
        f"  state    {settings.state_directory}/state.db",
        f"  status   {sys.argv[0]} status --state-directory {settings.state_directory}",
        "  log      below, and: journalctl -t iowarden -o verbose",
    ]
