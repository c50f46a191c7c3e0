"""The layers: arrows only downward, one door to each thing that can hang, nothing global."""

from __future__ import annotations

import ast
import configparser
import functools
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parent.parent

LAYERS = ("daemon", "rules", "collectors")
"""From the top down; a layer imports itself and those after it."""

IMPURE = frozenset(
    "asyncio concurrent ctypes fcntl glob http io logging mmap multiprocessing os pathlib"
    " psutil pyudev queue random secrets select selectors shutil signal smtplib socket sqlite3 ssl"
    " subprocess sys syslog systemd tempfile threading time urllib waitress".split()
)
"""A file, a clock, a thread, a log, a process, a net: not in 'rules/'."""

IMPURE_CALLS = frozenset({"__import__", "eval", "exec", "input", "open", "print"})
CLOCK_METHODS = frozenset({"now", "today", "utcnow"})
"""Of datetime, which is welcome otherwise: a date is arithmetic."""

NOWHERE = frozenset({"asyncio", "concurrent"})
"""One loop and plain threads: an executor's stuck worker delays the end of the process."""

DOORS = {
    "smtplib": "daemon/notify/smtp.py",
    "sqlite3": "daemon/storage/sqlite.py",
    "waitress": "daemon/http/http_server.py",
    "pyudev": "collectors/block/uevents.py",
    "subprocess": None,
}
"""Modules that one file only may import; None: whichever, but one."""
APART = "daemon/failure.py"
"""A program of its own, beside the service: it runs 'journalctl' and 'sendmail'."""


@dataclass(frozen=True, slots=True)
class Module:
    """A module of the product: its path below the top, its syntax tree, how long it is."""

    path: str
    tree: ast.Module
    lines: int = 0

    @property
    def layer(self) -> str:
        """The top directory it lies in."""
        return self.path.partition("/")[0]


def module(path: str, source: str) -> Module:
    """A module from its text."""
    return Module(path, ast.parse(source, path), source.count("\n"))


@functools.cache
def product() -> list[Module]:
    """All modules of the product."""
    paths = [path for layer in LAYERS for path in sorted((TOP / layer).rglob("*.py"))]
    return [module(str(path.relative_to(TOP)), path.read_text()) for path in paths]


@functools.cache
def imports(tree: ast.Module) -> frozenset[str]:
    """Full names of all that is imported, at whatever depth and for whatever purpose.

    `from a import b` counts as both 'a' and 'a.b': b may be a module.
    """
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            origin = "." * node.level + (node.module or "")
            names.add(origin)
            names.update(f"{origin}.{alias.name}" for alias in node.names)
    return frozenset(names)


def roots(tree: ast.Module) -> set[str]:
    """The first part of all that is imported."""
    return {name.partition(".")[0] for name in imports(tree)}


def upward(modules: list[Module]) -> list[str]:
    """Imports against the arrows, relative ones, and those that load a second copy of a module."""
    faults = []
    for each in modules:
        allowed = LAYERS[LAYERS.index(each.layer) :]
        for name in sorted(imports(each.tree)):
            first, _, rest = name.partition(".")
            if first == "iowarden" and rest and rest.partition(".")[0] not in allowed:
                faults.append(f"{each.path}: '{name}' lies above '{each.layer}'")
            if first in {"", *LAYERS}:
                faults.append(f"{each.path}: '{name}' is not imported as 'iowarden.…'")
    return faults


def impure(modules: list[Module]) -> list[str]:
    """What rules/ reaches of the world: imports, and calls of built-in functions that read it."""
    faults = []
    for each in modules:
        if each.layer != "rules":
            continue
        faults += [f"{each.path}: imports '{name}'" for name in sorted(IMPURE & roots(each.tree))]
        for node in ast.walk(each.tree):
            match node:
                case ast.Call(func=ast.Name(id=name)) if name in IMPURE_CALLS:
                    faults.append(f"{each.path}:{node.lineno}: calls '{name}'")
                case ast.Call(func=ast.Attribute(attr=name)) if name in CLOCK_METHODS:
                    faults.append(f"{each.path}:{node.lineno}: asks the clock by '{name}'")
    return faults


def side_doors(modules: list[Module]) -> list[str]:
    """Imports of a thing with one door by any other module, and of what none may import."""
    faults = []
    for each in modules:
        faults += [f"{each.path}: imports '{name}'" for name in sorted(NOWHERE & roots(each.tree))]
    for name, door in DOORS.items():
        users = [each.path for each in modules if name in roots(each.tree)]
        if door is not None:
            faults += [f"{path}: '{name}' belongs to '{door}'" for path in users if path != door]
        users = [path for path in users if path != APART]
        if door is None and len(users) > 1:
            faults.append(f"'{name}' has {len(users)} doors: {', '.join(users)}")
    return faults


ROOT = {
    "daemon/probe/": frozenset({"daemon.probe", "daemon.journal", "daemon.sanitize"}),
    "daemon/trace/": frozenset({"daemon.trace"}),
}
"""Rooms of a process that runs as root, and what of the daemon each needs."""
ROOT_LIBRARIES = frozenset({*sys.stdlib_module_names, "systemd"})
ON_THE_WAY = frozenset({"iowarden", "iowarden.daemon"})
"""Packages without code of their own."""


def probe(modules: list[Module]) -> list[str]:
    """What would make a process that runs as root larger, and who would run its code elsewhere.

    It imports the standard library, systemd and little of ours; the daemon of it only the protocol.
    """
    faults = []
    for each in modules:
        for room, needs in ROOT.items():
            package = f"iowarden.{room.strip('/').replace('/', '.')}"
            own = {"iowarden.collectors", *(f"iowarden.{name}" for name in needs)}
            inside = each.path.startswith(room)
            for name in sorted(imports(each.tree) - ON_THE_WAY - {package}):
                ours = name.partition(".")[0] == "iowarden"
                if inside and not (_in(name, own) if ours else _in(name, ROOT_LIBRARIES)):
                    faults.append(f"{each.path}: '{name}' is too much for what runs as root")
                if not inside and _in(name, {package}) and not _in(name, {f"{package}.protocol"}):
                    faults.append(f"{each.path}: '{name}' is for a process of root alone")
    return faults


def _in(name: str, packages: Iterable[str]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


WRITERS = frozenset(
    "add append clear discard extend insert pop popitem remove setdefault sort update".split()
)
"""Methods that change a container."""

STATEFUL = frozenset(
    "Condition Counter Event Lock OrderedDict Queue RLock SimpleQueue bytearray defaultdict deque"
    " dict list local set".split()
)
"""What makes an object that changes, beside the displays and comprehensions."""


def global_state(modules: list[Module]) -> list[str]:
    """What a module could change of itself: a container that is no constant, 'global', effects.

    A constant is named in capitals; then nothing in its module may write into it, by item or by
    method. `__all__` is no state; a bare call, a loop or a 'with' at the top is a side effect.
    """
    return [
        f"{each.path}:{line}: {words}"
        for each in modules
        for line, words in sorted({*_state_made(each.tree), *_state_written(each.tree)})
    ]


def _state_made(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in tree.body:
        match node:
            case ast.Expr(value=ast.Call()):
                yield node.lineno, "is a side effect of the import"
            case ast.For() | ast.While() | ast.With() | ast.Delete():
                yield node.lineno, "is a side effect of the import"
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                if not name.isupper() and name != "__all__" and _is_stateful(node.value):
                    yield node.lineno, f"'{name}' is module-level state"
            case (
                ast.Assign(targets=[ast.Attribute() | ast.Subscript()])
                | ast.AugAssign(target=ast.Attribute() | ast.Subscript())
            ):
                yield node.lineno, "changes something else by being imported"


def _state_written(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        match node:
            case ast.Global(names=names):
                yield node.lineno, f"'global {', '.join(names)}'"
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store() | ast.Del()) if (
                name.isupper()
            ):
                yield node.lineno, f"writes into the constant '{name}'"
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if (
                name.isupper() and method in WRITERS
            ):
                yield node.lineno, f"writes into the constant '{name}'"


def _is_stateful(value: ast.expr | None) -> bool:
    match value:
        case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)):
            return name in STATEFUL
        case _:
            return isinstance(
                value, ast.List | ast.Dict | ast.Set | ast.ListComp | ast.DictComp | ast.SetComp
            )


ARROWS = """\
collectors.event: -
collectors.json_text: -
collectors.model: -
collectors.near: -
collectors.packages: -
collectors.printable: -
collectors.probe_reply: -
collectors.quantity: -
collectors.redundancy: -
collectors.raid.log_alignment: -
collectors.machine: model
collectors.raid.output: model
collectors.program: machine model probe_reply
collectors.source: machine model
collectors.sysfs: machine model
collectors.competing_monitors: machine model source
collectors.filesystem: machine model probe_reply program source sysfs
collectors.kernel: machine model source
collectors.raid.controller: event model raid.log_alignment raid.output source
collectors.procfs: filesystem machine model source
collectors.raid.backend: machine model raid.controller
collectors.raid.states: raid.controller raid.output
collectors.recording: filesystem machine model source
collectors.zfs: machine model program redundancy source sysfs
collectors.block: filesystem machine model printable probe_reply procfs program source sysfs zfs
collectors.device_mapper: block machine model probe_reply program redundancy source sysfs
collectors.raid.threeware: event machine model program raid.backend raid.controller raid.output
    raid.states
collectors.md: block event machine model program source sysfs
collectors.smart: block competing_monitors json_text machine model probe_reply program source
    sysfs
collectors.node_series: model smart
collectors.raid.areca: event machine model program raid.backend raid.controller raid.output
    raid.states smart
collectors.raid.pci_hosts: machine smart
collectors.raid.vendor_poll: event machine model raid.backend raid.controller raid.log_alignment
    raid.states smart
collectors.raid.adaptec: machine model program raid.backend raid.controller raid.output
    raid.pci_hosts raid.states smart
collectors.raid.megaraid: event json_text machine model program raid.backend raid.controller
    raid.output raid.pci_hosts raid.states smart
collectors.raid.mpt: machine model program raid.backend raid.controller raid.output raid.pci_hosts
    raid.states smart
collectors.raid.smartarray: machine model program raid.backend raid.controller raid.output
    raid.pci_hosts raid.states smart
collectors.kmsg: event kernel machine model probe_reply raid.megaraid source
collectors.raid.vendors: machine raid.backend
collectors.registry: block competing_monitors device_mapper filesystem kernel kmsg md procfs
    raid.controller smart source zfs
collectors.parsed_text: device_mapper event md raid.controller smart
collectors.services: kmsg parsed_text raid.controller
collectors.pasted_text: json_text model parsed_text
collectors.tool_output: device_mapper event json_text kmsg md model parsed_text pasted_text
    procfs quantity raid.adaptec raid.areca raid.controller raid.megaraid raid.mpt raid.output
    raid.smartarray raid.states raid.threeware redundancy services smart zfs
rules.calendar: -
rules.promql: -
rules.scrape_labels: -
rules.severity: -
rules.signals.in_flight: -
rules.smart: -
rules.snapshot: -
rules.matcher: promql
rules.notice: severity
rules.signals.leaves: signals.in_flight
rules.signals.signal: snapshot
rules.yaml_nodes: promql
rules.conditions: yaml_nodes
rules.signals.activity: signals.signal
rules.signals.baseline: signals.signal
rules.signals.increase: signals.signal
rules.signals.memory: signals.signal
rules.signals.sustained: signals.signal
rules.signals.guards: signals.activity signals.signal smart
rules.signals.discards: signals.activity signals.guards
rules.signals.storage_call: signals.guards
rules.faults: conditions
rules.tuning: conditions
rules.rulefile: promql scrape_labels yaml_nodes
rules.signals.filesystem: signals.baseline signals.signal
rules.signals.queue: signals.activity signals.guards signals.signal signals.sustained
rules.alerting: promql rulefile severity yaml_nodes
rules.io_usage: conditions faults
rules.topology: faults signals.guards smart
rules.incidents: alerting faults matcher notice severity topology
rules.signals.device: signals.activity signals.baseline signals.discards signals.guards
    signals.in_flight signals.increase signals.leaves signals.queue signals.signal
    signals.storage_call signals.sustained topology
rules.signals.raid: signals.baseline signals.device signals.signal snapshot topology
rules.signals.smart: signals.baseline signals.signal smart topology
rules.advice: alerting faults incidents severity signals.guards topology
rules.selftest_schedule: calendar incidents
rules.signals.writeback: signals.activity signals.device signals.guards signals.leaves
    signals.signal
rules.signals.waits: signals.activity signals.device signals.discards signals.guards signals.queue
    signals.signal signals.storage_call signals.writeback
rules.events: advice alerting conditions faults incidents notice rulefile severity
    signals.storage_call topology yaml_nodes
rules.notices: advice alerting faults incidents notice promql severity signals.storage_call
    signals.waits topology
rules.manual: advice events promql rulefile severity topology
rules.scan: alerting faults selftest_schedule severity signals.guards signals.smart snapshot
    topology
rules.signals.table: signals.activity signals.device signals.filesystem signals.leaves
    signals.memory signals.queue signals.raid signals.signal signals.smart signals.waits
    signals.writeback
rules.engine: alerting promql rulefile scrape_labels signals.raid signals.signal signals.smart
    signals.table signals.waits snapshot topology
daemon.clock: -
daemon.duration: -
daemon.exporters: -
daemon.garbage: -
daemon.installation: -
daemon.working_copy: -
daemon.json_codec: -
daemon.locate: -
daemon.mlock: -
daemon.process_metrics: -
daemon.sanitize: -
daemon.redactor: sanitize
daemon.trace: -
daemon.control: json_codec sanitize
daemon.journal: sanitize
daemon.polling: clock
daemon.probe: journal sanitize
daemon.storage: clock control
daemon.terminal: clock control duration sanitize
daemon.probe_client: installation probe
daemon.transition_log: control journal probe redactor storage
daemon.metrics: probe_client
daemon.metric_labels: -
daemon.views: control metric_labels metrics probe process_metrics storage
daemon.alert_info: metrics sanitize
daemon.trace_client: control json_codec probe_client sanitize trace
daemon.config: duration metric_labels metrics redactor
daemon.check: clock config control exporters installation polling sanitize working_copy
daemon.http: config metrics sanitize
daemon.page: control sanitize storage terminal views
daemon.setup: check config redactor sanitize terminal
daemon.notify: clock config control journal json_codec metrics redactor sanitize storage
    transition_log
daemon.receivers: config control journal metrics notify redactor sanitize storage transition_log
daemon.service: alert_info clock config control http journal json_codec locate metrics notify
    page polling probe probe_client process_metrics receivers storage trace trace_client
    transition_log views
daemon.replay: clock config duration http journal json_codec notify polling sanitize service
    storage
daemon.report: storage
daemon.manual: config control terminal
daemon.cli: check clock config control duration garbage http installation journal json_codec locate
    manual mlock notify page polling probe_client process_metrics receivers replay report sanitize
    service setup storage terminal trace trace_client transition_log working_copy
daemon.failure: cli config notify sanitize
daemon.reference: check cli config control http installation manual metric_labels metrics
    process_metrics service storage trace
"""
"""The rooms of each layer, the lowest first, and what of its layer each may import, for types as
well: a room imports only those above its line here, so that no circle can be. A room is a folder;
in a folder with folders in it (collectors, rules.signals) each module is a room. Any room
may import those of the layers below.
"""
LANGUAGE = frozenset({"collectors.dataclass", "collectors.lazy_pattern"})
"""Imported like the standard library's, whose place they take: no arrow of a room."""
MAX_LINES = 700
"""A file of the product that is longer is several, but for what LONG gives a reason for."""
MAX_FILES = 20
LONG: dict[str, str] = {}


def rooms(modules: list[Module]) -> dict[str, str]:
    """The room of each module of the product, by full name."""
    names = {each.path.removesuffix(".py").replace("/", ".") for each in modules}
    names = {name for name in names if not name.endswith(".__init__")}
    folders = {name.rpartition(".")[0] for name in names}
    divided = {folder.rpartition(".")[0] for folder in folders}
    return {
        name: name if (folder := name.rpartition(".")[0]) in divided else folder for name in names
    }


def allowed(table: str) -> dict[str, list[str]]:
    """The arrows of a table as above."""
    lines = " ".join(
        f"\n{line}" if line[:1].strip() else line.strip() for line in table.splitlines()
    )
    found = {}
    for line in lines.split("\n")[1:]:
        name, _, others = line.partition(":")
        layer = name.partition(".")[0]
        found[name] = [f"{layer}.{other}" for other in others.split() if other != "-"]
    return found


def arrows(modules: list[Module], table: str = ARROWS) -> list[str]:
    """Imports between rooms that the table does not allow, and lines of it that say too much."""
    room_of = rooms(modules)
    seen: dict[str, set[str]] = {room: set() for room in room_of.values()}
    faults = []
    named = allowed(table)
    for each in modules:
        own = each.path.removesuffix(".py").replace("/", ".")
        for name in sorted(imports(each.tree)):
            target = name.removeprefix("iowarden.")
            other = room_of.get(target, target)  # or the folder, whatever is taken out of it later
            if own not in room_of or other not in seen or other in LANGUAGE:
                continue
            room = room_of[own]
            if room == other or room.partition(".")[0] != other.partition(".")[0]:
                continue
            seen[room].add(other)
            if other not in named.get(room, ()):
                faults.append(f"{each.path}: '{room}' may not import '{other}' ({name})")
    for number, (room, others) in enumerate(named.items()):
        below = list(named)[:number]
        faults += [
            f"'{room}: {other}' is no arrow downward" for other in others if other not in below
        ]
        faults += [
            f"'{room}: {other}' is allowed and not needed"
            for other in others
            if other not in seen.get(room, ())
        ]
    faults += [
        f"the room '{room}' is not in the table" for room in seen if room not in {*named, *LANGUAGE}
    ]
    return faults


def sizes(modules: list[Module], long: Collection[str] = LONG) -> list[str]:
    """Files and rooms that are too large, and exemptions that nothing needs."""
    lines = {each.path: each.lines for each in modules}
    count = Counter(rooms(modules).values())
    return [
        *(f"{path}: {n} lines" for path, n in lines.items() if n > MAX_LINES and path not in long),
        *(f"'{path}' needs no exemption" for path in long if lines.get(path, 0) <= MAX_LINES),
        *(f"{room}: {n} files" for room, n in count.items() if n > MAX_FILES),
    ]


Check = Callable[[list[Module]], list[str]]

CHECKS = (upward, impure, side_doors, probe, global_state)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_the_product_keeps_its_layers(check: Check) -> None:
    """Every module of the three layers passes; there are some, so the search looked somewhere."""
    modules = product()
    assert {each.layer for each in modules} == set(LAYERS)
    assert check(modules) == []


BAD = [
    (upward, "collectors/a.py", "from iowarden.rules import alerts"),
    (upward, "collectors/a.py", "from iowarden import daemon"),
    (upward, "rules/a.py", "def f():\n    import iowarden.daemon.notify.smtp"),
    (upward, "rules/a.py", "from typing import TYPE_CHECKING\nif 1:\n    import iowarden.daemon"),
    (upward, "daemon/a.py", "from collectors import meminfo"),
    (upward, "daemon/a.py", "from . import mail"),
    (upward, "daemon/a.py", "from .mail import send"),
    (impure, "rules/a.py", "import time"),
    (impure, "rules/promql/a.py", "from os.path import join"),
    (impure, "rules/a.py", "def f():\n    from threading import Lock"),
    (impure, "rules/a.py", "from datetime import datetime, UTC\nSTART = datetime.now(UTC)"),
    (impure, "rules/a.py", "text = open('/proc/meminfo').read()"),
    (side_doors, "daemon/service/loop.py", "import smtplib"),
    (side_doors, "daemon/service/loop.py", "from waitress.server import create_server"),
    (side_doors, "collectors/a.py", "import sqlite3"),
    (side_doors, "daemon/a.py", "import asyncio"),
    (side_doors, "daemon/a.py", "from concurrent.futures import ThreadPoolExecutor"),
    (probe, "daemon/probe/server.py", "import yaml"),
    (probe, "daemon/probe/server.py", "from iowarden.rules import engine"),
    (probe, "daemon/probe/server.py", "from iowarden.daemon import mail"),
    (probe, "daemon/probe/server.py", "from iowarden.daemon.probe_client.client import Client"),
    (probe, "daemon/service/loop.py", "from iowarden.daemon.probe.server import ProbeServer"),
    (probe, "daemon/service/loop.py", "from iowarden.daemon.probe import children"),
    (probe, "daemon/probe_client/client.py", "from iowarden.daemon.probe import children"),
    (probe, "daemon/trace/capture.py", "from iowarden.daemon.probe import protocol"),
    (probe, "daemon/cli/trace_command.py", "from iowarden.daemon.trace import capture"),
    (global_state, "daemon/a.py", "cache = {}"),
    (global_state, "daemon/a.py", "seen: set[str] = set()"),
    (global_state, "daemon/a.py", "lock = threading.Lock()"),
    (global_state, "daemon/a.py", "TABLE = {}\ndef f(x):\n    TABLE[x] = 1"),
    (global_state, "daemon/a.py", "SEEN = []\ndef f(x):\n    SEEN.append(x)"),
    (global_state, "daemon/a.py", "last = None\ndef f(x):\n    global last\n    last = x"),
    (global_state, "daemon/a.py", "other.hook = f"),
    (global_state, "daemon/a.py", "register(f)"),
    (global_state, "daemon/a.py", "for each in F:\n    register(each)"),
]


@pytest.mark.parametrize(("check", "path", "source"), BAD)
def test_a_bad_module_is_found(check: Check, path: str, source: str) -> None:
    """Each check sees the faults it is there for, so its silence says something."""
    assert check([module(path, source)]) != []


GOOD = [
    ("daemon/notify/smtp.py", "import smtplib\nfrom iowarden.rules import notice\nimport time"),
    ("rules/a.py", "import math\nfrom iowarden.collectors.model import Sample\nbook.open(1)"),
    ("collectors/a.py", "import os\nNAMES = {'a': 1}\n_X: list[int] = [1]\nAlias = dict[str, int]"),
    ("daemon/service/loop.py", "from iowarden.daemon.probe_client.client import Client"),
    ("daemon/probe_client/client.py", "from iowarden.daemon.probe import protocol\nimport socket"),
    (
        "daemon/probe/server.py",
        "import systemd.daemon, os\nfrom iowarden.daemon.probe import children",
    ),
    (
        "daemon/probe/verbs.py",
        (
            "from iowarden.collectors.procfs.tasks import read_waiting_tasks\n"
            "from iowarden.daemon import sanitize"
        ),
    ),
    ("daemon/a.py", "import os\ndef f():\n    local = {}\n    local['a'] = 1\n    return local"),
]


@pytest.mark.parametrize(("path", "source"), GOOD)
def test_a_good_module_passes(path: str, source: str) -> None:
    """Constants, local containers, methods named as built-in functions, downward imports."""
    source = source.replace("book.open(1)", "def f(book):\n    book.open(1)")
    assert [fault for check in CHECKS for fault in check([module(path, source)])] == []


@pytest.mark.parametrize("check", [arrows, sizes], ids=lambda check: check.__name__)
def test_the_product_keeps_its_rooms(check: Check) -> None:
    """Who looks for a thing finds it in one room, and reads no more than that room's neighbours."""
    assert check(product()) == []


ROOMS = [
    module("rules/a/one.py", "from iowarden.rules.b import two"),
    module("rules/b/two.py", "if TYPE_CHECKING:\n    from iowarden.rules.a.one import One"),
    module("rules/c/three.py", "from iowarden.rules import b"),
]


@pytest.mark.parametrize(
    ("table", "faults"),
    [
        ("rules.a: b\nrules.b: a", ["'rules.a: rules.b' is no arrow downward"]),
        ("rules.b: -\nrules.a: b", ["rules/b/two.py: 'rules.b' may not import 'rules.a'"]),
        (
            "rules.b: -\nrules.a: b\nrules.c: -",
            ["rules/c/three.py: 'rules.c' may not import 'rules.b'"],
        ),
        ("rules.b: -\nrules.a: b\nrules.c: a b", ["'rules.c: rules.a' is allowed and not needed"]),
        ("rules.b: -", ["the room 'rules.a' is not in the table"]),
    ],
)
def test_a_circle_of_rooms_is_found(table: str, faults: list[str]) -> None:
    """Also one that only types make, a whole folder, and a table that allows more than there is."""
    found = arrows(ROOMS, table)
    assert [fault for fault in faults if not any(each.startswith(fault) for each in found)] == []


def test_the_map_for_contributors_names_every_room_and_no_other() -> None:
    """Whoever looks for a thing begins there."""
    text = (TOP / "CONTRIBUTING.md").read_text()
    named = set(re.findall(r"^\| `([a-z_/]+)/` \|", text, re.MULTILINE))
    folders = {each.path.rpartition("/")[0] for each in product() if each.lines}
    assert named == folders
    rows = re.findall(r"^\| `([a-z_/]+)/` \| .* \| ([^|]+) \|$", text, re.MULTILINE)
    arrows_of = allowed(ARROWS)
    for folder, shown in rows:
        layer, _, rest = folder.partition("/")
        room = f"{layer}.{rest.replace('/', '.')}"
        words = {} if shown == "-" else {f"{layer}.{name}" for name in shown.split()}
        if room in arrows_of:
            assert set(arrows_of[room]) == set(words), folder
        else:
            assert shown == "each module is a room", folder
    paths = re.findall(r"\b(?:collectors|rules|daemon|tests|packaging)/[\w/.*<>-]+", text)
    plain = {path.rstrip(".") for path in paths if not set(path) & set("*<>")}
    assert sorted(path for path in plain if not (TOP / path).exists()) == []


def test_what_is_too_large_is_found() -> None:
    """A file, a room, and an exemption that nothing needs any more."""
    many = [module(f"rules/a/m{n}.py", "") for n in range(MAX_FILES + 1)]
    long = module("rules/a/long.py", "#\n" * (MAX_LINES + 1))
    assert sizes([long]) == [f"rules/a/long.py: {MAX_LINES + 1} lines"]
    assert sizes([long], ("rules/a/long.py",)) == []
    assert sizes([], ("rules/a/long.py",)) == ["'rules/a/long.py' needs no exemption"]
    assert sizes(many) == [f"rules.a: {MAX_FILES + 1} files"]


def test_two_modules_with_programs_are_found() -> None:
    """Programs run through one door, wherever it is."""
    pair = [module(path, "import subprocess") for path in ("daemon/a.py", "daemon/b.py")]
    assert side_doors(pair[:1]) == []
    assert side_doors(pair) != []


@pytest.mark.parametrize("directory", ["systemd", "packaging"])
def test_a_folder_named_as_a_library_is_no_package(directory: str) -> None:
    """With an '__init__.py' in 'systemd/', 'import systemd.journal' fails from the top."""
    assert (TOP / directory).is_dir()
    assert list((TOP / directory).rglob("__init__.py")) == []


def test_packages_hold_no_code_of_their_own() -> None:
    """An import of one module of a package runs that module only."""
    files = [path for layer in LAYERS for path in (TOP / layer).rglob("__init__.py")]
    assert len(files) >= len(LAYERS)
    assert [str(path) for path in files if path.read_bytes()] == []


def test_setup_names_every_package() -> None:
    """A package that setup.cfg forgets is there in a checkout and missing once installed."""
    files = [path for layer in LAYERS for path in (TOP / layer).rglob("*.py")]
    folders = {path.parent.relative_to(TOP).as_posix().replace("/", ".") for path in files}
    setup = configparser.ConfigParser()
    setup.read(TOP / "setup.cfg")
    named = [name.removeprefix("iowarden.") for name in setup["options"]["packages"].split()]
    assert sorted(named) == sorted(folders)
