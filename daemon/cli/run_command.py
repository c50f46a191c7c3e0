"""The command `iowarden run`: assembles and runs the service."""

from __future__ import annotations

import functools
import os
import queue
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from systemd.daemon import notify

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.machine import Machine
from iowarden.collectors.raid import vendors
from iowarden.collectors.recording.recorder import watched
from iowarden.daemon import garbage, journal, mlock
from iowarden.daemon.cli import command
from iowarden.daemon.config.load import with_redactor
from iowarden.daemon.config.rule_files import LoadedRules, load_for_service
from iowarden.daemon.config.rule_notes import notes
from iowarden.daemon.control import control_socket, listen
from iowarden.daemon.http import page_access, web_config
from iowarden.daemon.http.exposition import Exposition
from iowarden.daemon.http.http_server import App, HttpServer
from iowarden.daemon.http.listening import listen_problem, listening_socket
from iowarden.daemon.http.page_access import PageAccess
from iowarden.daemon.installation import VERSION
from iowarden.daemon.notify.message import recipients
from iowarden.daemon.notify.sender import Sender, mail_sender, mail_settings
from iowarden.daemon.page import style
from iowarden.daemon.page.pages import StatusPages
from iowarden.daemon.polling import hotplug, pollers
from iowarden.daemon.polling.own_tasks import OwnTasks
from iowarden.daemon.polling.scheduler import SourceScheduler
from iowarden.daemon.polling.smart import MAX_RECORDED_BYTES
from iowarden.daemon.process_metrics import ProcessMetrics
from iowarden.daemon.receivers import dry_run
from iowarden.daemon.receivers.assembly import ReceiverFactory
from iowarden.daemon.service import flight_recorder
from iowarden.daemon.service.messages import JournalNote, Reload, Stop, Trouble
from iowarden.daemon.service.service import Dependencies, Service
from iowarden.daemon.service.stored_documents import SCHEMA
from iowarden.daemon.storage import claim, unparsed
from iowarden.daemon.storage.bounded import WAIT_SECONDS, within
from iowarden.daemon.storage.history_db import History
from iowarden.daemon.storage.state_db import StateDatabase
from iowarden.daemon.terminal import exit_status
from iowarden.daemon.trace_client import client as trace_client
from iowarden.rules.engine.engine import Engine

if TYPE_CHECKING:
    import argparse
    import socket
    from collections.abc import Callable, Iterable, Sequence

    from iowarden.daemon.cli.command import Add
    from iowarden.daemon.clock import SystemClock
    from iowarden.daemon.config.schema import Address, Config
    from iowarden.daemon.probe_client.client import Client
    from iowarden.daemon.service.loop import FrameSource
    from iowarden.daemon.transition_log import LogSink
    from iowarden.rules.rulefile.rulefile import RuleGroup

SWITCH_SECONDS = 0.001
"""After this time a thread that waits for the interpreter gets it: a scrape while the loop works,
and the loop while a scrape is rendered. Python's 0.005 made 0.7 ms of work last 7 ms there, this 3.
"""


def add_commands(add: Add) -> None:
    """Add the command, by a function that takes name and what runs."""
    run = command.configured(add("run", _run))
    run.add_argument(
        "--play", metavar="RECORDING", help="monitor a recording instead of this machine"
    )


def _run(arguments: argparse.Namespace) -> int:
    events: queue.SimpleQueue[object] = queue.SimpleQueue()
    # First: unhandled, SIGHUP would end us, which to systemd is a clean exit without restart.
    signal.signal(signal.SIGHUP, lambda *_: events.put(Reload()))
    settings = command.settings(arguments)
    command.require_config(arguments)
    rules = load_for_service(settings)
    threading.stack_size(mlock.THREAD_STACK_BYTES)
    try:
        # A lock that lasts until this process ends, however it does.
        held = claim.claim(settings.state_directory)
    except claim.AlreadyClaimedError as error:
        sys.stderr.write(f"{error}\n")
        return exit_status.FAILED  # not EX_CONFIG: systemd retries
    if held.problem:
        events.put(Trouble("state directory", held.problem))
    sys.setswitchinterval(SWITCH_SECONDS)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda n, _: events.put(Stop(signal.Signals(n).name)))
    under_systemd = journal.is_journal(sys.stderr.fileno())
    if not under_systemd and (problem := _taken(settings.listen)):
        sys.stderr.write(f"{problem}\n")
        held.close()
        return exit_status.FAILED
    log = journal.Log(foreground=not under_systemd, level=settings.log_level)
    log.redact = settings.redactor.text
    clock, player, root = command.machine(arguments.play)
    listening = listen.inherited()
    probe = (
        None if player is not None else command.probe(settings, clock, under_systemd=under_systemd)
    )
    if probe is not None:
        root = functools.partial(Machine, probe=probe.request)
    dry_run.dry_run(settings.host, settings.mail.sender, recipients(settings), clock.now())
    vendors.import_present(root())
    # Before the threads start: of their stacks only touched pages are locked, not 512 kB each.
    if problem := mlock.lock():
        tried_by_user = not under_systemd and os.geteuid() != 0
        events.put(JournalNote(_UNLOCKED) if tried_by_user else Trouble("memory", problem))
    service, server = assembled(
        lambda: command.settings(arguments),
        settings,
        rules,
        WatchedMachine(
            clock,
            root,
            player.page_size_bytes if player else os.sysconf("SC_PAGE_SIZE"),
            player,
        ),
        events,
        log,
        probe=probe,
        listening=listening,
    )
    if not under_systemd:
        sys.stderr.write("\n".join([*_where(settings, server), ""]))
    if player is None:
        hotplug.listen(events.put)
    try:
        return service.run(server)
    finally:
        held.close()


@dataclass(frozen=True, slots=True)
class WatchedMachine:
    """The monitored machine: clock, factory of its files, page size, player of a recording."""

    clock: SystemClock
    make_machine: Callable[[], Machine]
    page_size_bytes: int
    player: FrameSource | None


_RESTRICTED = (
    "not read, because iowarden runs without root: SMART data, RAID controllers, the kernel log"
)
_UNLOCKED = (
    "without root iowarden cannot keep itself in memory: if the root disk hangs, it may hang as"
    " well. The installed service does not have this limit"
)


def assembled(
    read: Callable[[], Config],
    settings: Config,
    rules: LoadedRules,
    machine: WatchedMachine,
    events: queue.SimpleQueue[object],
    log: LogSink,
    *,
    probe: Client | None = None,
    listening: socket.socket | None = None,
) -> tuple[Service, HttpServer]:
    """Return the main loop and the HTTP server of a service; their threads wait until it runs.

    `read` reads the configuration again, for a reload; `listening` is the control socket that
    systemd passed, if it did.
    """
    web = web_config.load(
        settings.web_config, settings.http.page
    )  # before a thread starts: it may be invalid
    settings.redactor.learn(web.users.values())
    clock, root = machine.clock, machine.make_machine
    asked = pollers.make(
        settings.smart,
        clock,
        None if probe is None else probe.kernel_log,
        most_told_bytes=MAX_RECORDED_BYTES,
    )
    asked.directories.configure(settings.watch_directories)
    sources = asked.sources()
    flights = None
    if settings.flight_recorder:
        recent = flight_recorder.FlightRecorder(machine.page_size_bytes)
        sources = [watched(source, recent.take) for source in sources]
        flights = flight_recorder.FlightArchive(
            recent,
            str(Path(settings.state_directory) / flight_recorder.DIRECTORY),
            lambda text: events.put(Trouble("flight", text)),
        )
    readers = SourceScheduler(
        sources, settings.interval_seconds, root, clock.now, events.put, spread=True
    )
    engine = Engine(
        rules.groups,
        readers.sources,
        clock.now(),
        settings.evaluation_interval_seconds,
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

    def load(before: Sequence[RuleGroup]) -> tuple[Config, LoadedRules]:
        fresh = with_redactor(read(), settings.redactor)
        rules = load_for_service(fresh, before)
        # Last: an error before it, or in it, leaves the certificates and users in use.
        web = web_config.load(fresh.web_config, settings.http.page)
        settings.redactor.learn(web.users.values())
        server.use(web)
        events.put(Trouble("notes", _noted(rules.groups, fresh)))
        return fresh, rules

    def sender(config: Config) -> Sender | None:
        if not config.mail.enabled:
            return None
        return mail_sender(events.put, *mail_settings(config))

    events.put(Trouble("notes", _noted(rules.groups, settings)))
    people = _control(listening, settings, events.put)
    if probe is not None:
        probe.begin()
    keeper = unparsed.Unparsed(
        str(Path(settings.state_directory) / unparsed.DIRECTORY),
        lambda text: events.put(Trouble("unparsed", text)),
        VERSION,
    )
    service = Service(
        Dependencies(
            config=settings,
            clock=clock,
            engine=engine,
            readers=readers,
            events=events,
            log=log,
            state=StateDatabase(
                str(Path(settings.state_directory) / "state.db"),
                events.put,
                versions=SCHEMA.versions(),
            ),
            sender=sender(settings),
            exposition=exposition,
            notify=_notify,
            player=machine.player,
            own_metrics=ProcessMetrics(),
            own_tasks=OwnTasks(0 if machine.player else os.getpid()),
            rules=rules,
            load=load,
            sender_for=sender,
            receivers_for=ReceiverFactory(events.put),
            store_unparsed=keeper.store,
            probe=probe,
            table=rules.events,
            pollers=asked,
            make_selftest_machine=None if probe is None else root,
            make_locate_machine=None if probe is None else root,
            make_usage_machine=root,
            trace=None if probe is None else trace_client.trace,
            flights=flights,
            control=people,
            history=History(str(Path(settings.state_directory) / "history.db"), events.put),
            collect_garbage=garbage.GarbageCollection().step,
            restriction="" if probe or machine.player or os.geteuid() == 0 else _RESTRICTED,
            version=VERSION,
        )
    )
    health = service.health
    app = App(
        VERSION,
        exposition.render,
        health.healthy,
        health.ready,
        health.landing,
        health.scrapable,
        _pages(settings, events.put),
    )
    server = HttpServer(
        settings.listen,
        app,
        settings.http,
        lambda t: events.put(Trouble("http", t)),
        web,
        lambda text: events.put(Trouble("certificate", text)),
    )
    return service, server


def _pages(settings: Config, post: Callable[[object], object]) -> PageAccess | None:
    """Return the status page; None if it is off."""
    if settings.http.page == "off":
        return None
    pages = StatusPages(
        post,
        str(Path(settings.state_directory) / "history.db"),
        settings.host,
        VERSION,
        full=settings.http.page == "full",
    )

    def get(path: str) -> tuple[int, bytes] | None:
        found = pages.get(path)
        return None if found is None else (found.status, found.html)

    own = page_access.names(settings.host, os.uname().nodename)
    return PageAccess(get, style.POLICY, own | page_access.exactly(settings.http.hosts))


def _notify(text: str) -> bool:
    """Send a notification to systemd, if it started us; retry after EINTR.

    Source: sd_notify(3) returns -EINTR after a signal; Python's own calls retry (PEP 475).
    """
    while True:
        try:
            return bool(notify(text))
        except InterruptedError:
            continue


def _noted(groups: Sequence[RuleGroup], settings: Config) -> str:
    """Return a note about rules that load but match no series; '' if there are none."""
    found = notes(groups, settings)
    more = "; and more: see 'iowarden rules check'" if found[1:] else ""
    return f"rules: {found[0]}{more}" if found else ""


def _control(
    listening: socket.socket | None,
    settings: Config,
    post: Callable[[object], object],
) -> control_socket.Control | None:
    """Serve the socket that systemd passed, or one in the state directory; report a failure."""
    path = ""
    try:
        if listening is None:
            path = str(Path(settings.state_directory) / listen.FILE_NAME)
            listening = within(WAIT_SECONDS, lambda: _bound(settings.state_directory, path))
    except listen.ControlError as error:
        post(Trouble("control", f"{error}; no commands until the next start"))
        return None
    except OSError as error:  # it hangs, or there is no descriptor left
        post(Trouble("control", f"'{path}': no commands until the next start: {error}"))
        return None
    return control_socket.Control(
        listening,
        post,
        lambda t: post(Trouble("control", t)),
        on_note=lambda t: post(JournalNote(t)),
        remove=path,
    )


def _bound(directory: str, path: str) -> socket.socket:
    """Return a socket in a directory that is created if it is missing. Errors: ControlError."""
    try:
        os.makedirs(directory, mode=0o750, exist_ok=True)
    except OSError as error:
        raise listen.ControlError(
            f"'{directory}': expected a state directory, or to create it, got '{error.strerror}' at"
            f" '{error.filename or directory}'; name another directory, or move the file away"
        ) from error
    return listen.bind(path)


def _taken(addresses: Iterable[Address]) -> str:
    """Return why an address cannot be listened on, '' if each can.

    Only for a user in the foreground, who would read another program's page at the address of the
    banner. The installed service mails without it, and tries again.
    """
    for address in addresses:
        try:
            listening_socket(address).close()
        except OSError as error:
            return f"{listen_problem(address, error)}; or set another 'listen'"
    return ""


def _where(settings: Config, http: HttpServer) -> list[str]:
    """Return the lines that show a foreground user where metrics, mail, state and status are."""
    host, port = settings.listen[0]
    place = f"{http.scheme}://" + (f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    server = settings.mail.server
    others = ", ".join(f"{each.name} ({each.type})" for each in settings.notify)
    mails = settings.mail_destination
    return [
        f"iowarden {VERSION} monitors this machine; Ctrl-C stops it.",
        f"  metrics  curl {place}/metrics",
        *([] if settings.http.page == "off" else [f"  page     {place}/"]),
        f"  mail     {mails}" + ("" if server else " (no mail server configured)")
        if settings.mail.enabled
        else "  mail     disabled",
        *([f"  notify   {others}"] if others else []),
        f"  state    {settings.state_directory}/state.db",
        f"  status   {sys.argv[0]} status --state-directory {settings.state_directory}",
        "  log      below, and: journalctl -t iowarden -o verbose",
    ]
