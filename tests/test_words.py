"""The field's terms: replaced words do not come back, neither in texts for users nor in names.

A word that is right where it stands is an exception below, with its reason. Comments of code are
not checked here, apart from references to papers that are not in the repository.
"""

from __future__ import annotations

import ast
import functools
import gc
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from iowarden.daemon.config.keys import KEYS
from iowarden.daemon.metric_labels import LABELS
from iowarden.daemon.reference import metrics
from iowarden.rules.conditions.condition import Condition

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

TOP = Path(__file__).resolve().parents[1]
PACKAGES = ("collectors", "rules", "daemon")

DOCUMENTS = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "packaging/doc/*.md",
    "packaging/*.yaml",
    "rules/**/*.yaml",
    "systemd/*",
)
"""What users read, apart from strings of the code."""

TEXT_WORDS = {
    r"told|tells?|telling": "reported, notified; report",
    r"ask(?:s|ed|ing)?": "polled, queried; poll, query, request",
    r"says?|said|saying": "reports, shows",
    r"hears?|heard|hearing": "received",
    r"know[ns]? (?:of|about)|(?:iowarden|service|program|drive|it) (?:knows?|knew)|does not know"
    r"|never knew": "recognized, monitored, stored",
    r"nobody|no one|somebody|someone|whoever": "a subject: the service, a user, a program",
    r"not covered|coverage|(?:disk|drive) is covered": "monitored; monitoring status",
    r"first sight|iowarden came|that came": "first seen, baseline",
    r"(?:is|was|got|are|no|:) worse|worse:": "escalated",
    r"all clear|(?:is|was) over": "resolved, ended",
    r"any ?more": "data unavailable; no longer",
    r"anew": "again; re-notified",
    r"lulls?": "stall without progress",
    r"makers?": "vendor",
    r"motors?": "spindle",
    r"garbled": "interface CRC errors",
    r"besides?": "plus, additionally, next to, on the same host",
    r"(?:has|not|was|were|is|are) held|held (?:for|since)": "sustained; lasted",
    r"doubt(?:s|ed|ful)?|(?:un|dis)?trust(?:s|ed)?": "implausible, plausible",
    r"(?:first|second|third|which|no|other|one|a|the) ways?|ways?": "access method; how",
    r"leaf|leaves(?! (?:out|the))": "disk or RAID volume",
    r"miss(?:ed|es)": "missing, no longer reported",
    r"unread": "unreadable",
    r"growth": "increase",
    r"(?:is|are|was|were) kept|kept (?:in|for|over)|kept": "stored, retained",
    r"look(?:s|ed)? (?:at|back|up)|a (?:longer )?look": "check; evaluate over a window; look-up",
    r"stand(?:s|ing)? still|stood|stands on|stand": "is blocked; is stacked on",
    r"cures?|cured": "repair, fix",
    r"words?": "state, text, name",
    r"(?:a|the|its|each|every|no|this|that|with|and) sources?": "data source; collector",
    r"taken for": "mistaken for",
    r"learnt": "observed",
    r"\w*(?:synchron|initial|recogn|normal|util)is(?:e[ds]?|ing|ation)": "-iz-, as smartctl does",
    r"time-outs?": "timeout",
}
"""What a text must not have, and what the field calls it."""

IN_CODE = (r"words?", r"leaf|leaves(?! (?:out|the))")
"""Right in a docstring: parsers split texts into words; leaf devices are those at the bottom."""

NAME_WORDS = {
    "told tell tells telling untold": "reported, notified; transition log",
    "ask asks asked asking unasked": "poll, query; smartctl runner",
    "say says said": "report, sentence",
    "hear hears heard": "receive",
    "knows knew": "catalog, recognized",
    "cover covers covered uncovered coverage": "monitored, monitoring status",
    "way ways": "access method",
    "lull lulls": "no progress",
    "maker makers motor motors": "vendor, spindle",
    "beside besides": "additional",
    "held": "sustained",
    "growth grown fall": "increase, drop",
    "doubt doubts trust trusted untrusted": "plausible, implausible",
    "unread": "unreadable",
    "missed misses": "missing",
    "anew": "again",
    "worse outgrown lesser lifted": "escalated, exceeds_ack, below_warning",
    "happened happening happenings": "event correlation, event pipeline",
    "tails desk": "sample persistence, command handler",
    "kept past pasts": "persisted, history, stored",
    "spot spots hit hits": "extent, affected files",
    "stateful": "pollers",
    "ircu": "a parser is named by its tool, a backend by its driver",
    "vocabulary atlas figure figures": "model, slot map, attribute",
    "learnt judged judge": "persistent, classify",
    "most fewest again soon": "MAX, MIN, RETRY_INTERVAL, MIN_POLL_INTERVAL",
    "look looks looked": "poll, check, read",
    "stood standing anybody nobody somebody": "stacked, current",
    "words": "states, names",
    "news": "update",
    "arrival arrivals": "initial report",
}
"""What no module, class, function, parameter, field or constant has in its name, and the term."""

CLASSES = {
    "Told": "what it reports: ReplayEvent ...",
    "State": "what it is the state of: AlertState ...",
    "Event": "what happened to: StorageEvent ...",
    "Root": "Machine",
    "Polled": "PollResult",
    "Known": "Catalog",
    "Asked": "Callbacks",
    "Parts": "Dependencies",
    "Player": "RecordingPlayer",
    "Notice": "what is reported",
    "GivenError": "UserInputError",
    "LateError": "DeadlineError",
    "MissingError": "ProgramNotFoundError",
}
"""Names of classes that were replaced as a whole; as a part of another name they are right."""

MODULES = {
    "behind": "hidden_disks",
    "attached": "scsi_hosts",
    "testing": "selftest",
    "monitors": "competing_monitors",
    "answer": "probe reply",
    "hp": "ssacli, hpsa",
    "mpt": "mptsas",
    "files": "machine",
    "places": "event_location",
    "layout": "md_layout, dm_map",
    "located": "file_location",
    "watched": "what it watches",
    "scraped": "scrape_labels",
    "flight": "flight_recorder",
}
"""Names of modules that were replaced as a whole."""

PAPERS = {
    r"(?:incident|recording) R\d+|_r\d+(?:_|\b)|\bR\d+_|\btest_[a-z]{1,2}\d_|\bG[A-Z]\d+\b": (
        "what happened, in words"
    ),
    r"domains? (?:conditions? )?[A-S]\d\b": "what is required, in words",
    r"\b(?:design|causes|failures|domain|beyond|faces|rooms|libraries|promql)\.md": (
        "what the paper has, in words"
    ),
}
"""References to papers that are not in the repository; also in docstrings, comments and tests."""

CODES = {
    r"(?<![\w/.'\"+-])(?<!serial )[A-LS][1-9](?![\w/'\".-])": "the condition's word",
}
"""Codes of conditions, as they once were; also in docstrings and comments."""

SKIPPED = {
    "daemon/service/stored_documents.py": "names of attributes, as the code has them",
    "packaging/doc/stored-schema.md": "names of stored fields; its sentences are in the code",
}

PHRASES: dict[str, str] = {
    "unit communication time-out": "the text of an additional sense code, as SPC has it",
    "(leaf|node)": "blocks of a btrfs tree, as btrfs prints them",
    "leaf ": "a block of a btrfs tree, as btrfs prints it",
    "evaluation leaves alerts unchanged": "a verb",
    "enters or leaves power save": "a verb",
    "could not read its source disk": "the disk that a rebuild copies from",
    "Nobody has been notified": "the one sentence about incidents without an accepted notification",
    "nobody has been notified": "the same sentence, not at the beginning",
    "connected in an invalid way": "how something is connected, not how a drive is reached",
    "connected in an unsupported way": "how something is connected, not how a drive is reached",
}
"""Texts in which a word is right, and why. A blank stands for any white space."""

NAMES: dict[str, str] = {
    "_IRCU_DRIVERS": "sas2ircu and sas3ircu, tools of one family with one parser",
    "_IRCU_PROGRAMS": "as above",
    "_ircu_find": "as above",
    "_ircu_state": "as above",
    "IRCU": "as above",
    "_IRCU_ENDS": "as above",
    "_ircu": "as above",
    "_IRCU": "as above",
    "SAS2IRCU": "the tool's name",
    "grown_defects": "SCSI's term: the grown defect list",
    "PAST": "smartctl's exit status: attributes have been below threshold in the past",
    "Notice": "a mail to render; the class of every mail, not only of the severity",
    "time_past": "a time of a user that must be in the past",
    "unread_seconds": "timeout for a request that the probe does not read from its socket",
    "words": "words of a text that is redacted one by one",
    "most_told_bytes": "a keyword of daemon/cli/run_command.py",
    "iowarden_smart_scsi_grown_defects": "SCSI's term: the grown defect list",
    "DiskGrownDefectsIncreased": "SCSI's term: the grown defect list",
    "DiskAttributeFailedInPast": "smartctl prints 'In_the_past'",
    "3ware_drive_bay_cover_door_was_opened": "3ware's name of its event",
    "3ware_drive_bay_cover_door_was_closed": "3ware's name of its event",
}
"""Names in which a word is right, and why."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A replaced word at its place."""

    path: str
    line: int
    word: str
    term: str
    context: str

    def __str__(self) -> str:
        """Return it as a compiler would."""
        return f"{self.path}:{self.line}: '{self.word}' in '{self.context}': write {self.term}"


class Words:
    """A table of words, as one expression: pattern of a word, term to write instead."""

    def __init__(self, table: Mapping[str, str], *, whole: bool = True) -> None:
        edge, flags = (r"\b", re.IGNORECASE) if whole else ("", re.NOFLAG)
        self.terms = [*table.values()]
        patterns = "|".join(f"({pattern})" for pattern in table)
        self.expression = re.compile(
            f"{edge}(?:{patterns}){edge}".replace(" ", r"\s+") if whole else patterns, flags
        )

    def found(self, text: str) -> Iterator[tuple[int, str, str]]:
        """Yield offset, word and term of each word in a text."""
        for match in self.expression.finditer(text):
            yield match.start(), match.group(), self.terms[(match.lastindex or 1) - 1]


TEXT = Words(TEXT_WORDS)
DOCSTRING = Words({word: term for word, term in TEXT_WORDS.items() if word not in IN_CODE})
PAPER = Words(PAPERS, whole=False)
CODE = Words(CODES, whole=False)
NAME = {word: term for words, term in NAME_WORDS.items() for word in words.split()}
PHRASE = re.compile(
    "|".join(
        re.escape(phrase).replace(r"\ ", r"\s+")
        for phrase in sorted(PHRASES, key=len, reverse=True)
    )
    or "(?!)"
)
_PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")


def in_text(path: str, text: str, words: Words = TEXT, line: int = 1) -> Iterator[Hit]:
    """Yield the replaced words of a text that begins at a line, apart from those in a phrase."""
    hits = [*words.found(text)]
    allowed = [each.span() for each in PHRASE.finditer(text)] if hits and words is TEXT else []
    for offset, word, term in hits:
        if not any(start <= offset < end for start, end in allowed):
            at = line + text.count("\n", 0, offset)
            context = " ".join(text[max(0, offset - 30) : offset + 50].split())
            yield Hit(path, at, " ".join(word.split()), term, context)


def in_name(path: str, line: int, name: str) -> Iterator[Hit]:
    """Yield the replaced words that are parts of a name."""
    if name in NAMES:
        return
    if name in CLASSES:
        yield Hit(path, line, name, CLASSES[name], name)
    for part in parts(name):
        if term := NAME.get(part):
            yield Hit(path, line, part, term, name)


def parts(name: str) -> list[str]:
    """Return the words of a name, in lower case."""
    return [part.lower() for part in _PART.findall(name)]


@functools.cache
def files(*patterns: str) -> dict[str, str]:
    """Return path and text of files below the top, without those that are skipped."""
    return {
        name: path.read_text(encoding="utf-8")
        for pattern in patterns
        for path in sorted(TOP.glob(pattern))
        if path.is_file() and (name := str(path.relative_to(TOP))) not in SKIPPED
    }


Texts = list[tuple[str, int, str]]


@functools.cache
def product() -> tuple[Texts, Texts, Texts]:
    """Return path, line and text of the sentences in the code, its docstrings, its names.

    The trees are not kept, and not collected meanwhile: they are half a million objects.
    """
    texts: dict[bool, Texts] = {False: [], True: []}
    declared = []
    gc.disable()
    try:
        for path, text in files(*(f"{package}/**/*.py" for package in PACKAGES)).items():
            tree = ast.parse(text)
            for line, string, is_docstring in strings(tree):
                texts[is_docstring].append((path, line, string))
            declared += [(path, line, name) for line, name in names(tree)]
            declared += [(path, 1, part) for part in Path(path).with_suffix("").parts]
    finally:
        gc.enable()
    return texts[False], texts[True], declared


def strings(tree: ast.Module) -> Iterator[tuple[int, str, bool]]:
    """Yield line and text of what is a sentence, no regular expression; whether a docstring."""
    documents: set[ast.AST] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str() as text) as document):
                documents.add(document)
                yield node.lineno, text, True
            case ast.Constant(value=str() as text) if " " in text and node not in documents:
                if not is_expression(text):
                    yield node.lineno, text, False


def is_expression(text: str) -> bool:
    """Return whether a text is a regular expression, which has the words of another program."""
    return any(sign in text for sign in ("(?", r"\w", r"\d", r"\s", r"\S"))


def names(node: ast.AST, scope: str = "") -> Iterator[tuple[int, str]]:
    """Yield line and name of classes, functions, their parameters, fields and constants."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.ClassDef():
                yield child.lineno, child.name
                yield from names(child, "class")
            case ast.FunctionDef():
                yield child.lineno, child.name
                if scope == "class":
                    yield from fields(child)
                arguments = (part for part in ast.walk(child.args) if isinstance(part, ast.arg))
                yield from ((part.lineno, part.arg) for part in arguments)
            case ast.Assign() | ast.AnnAssign():
                targets = child.targets if isinstance(child, ast.Assign) else [child.target]
                for target in targets:
                    for part in ast.walk(target):
                        if isinstance(part, ast.Name):
                            yield part.lineno, part.id
            case ast.If() | ast.Try():
                yield from names(child, scope)


def fields(function: ast.FunctionDef) -> Iterator[tuple[int, str]]:
    """Yield line and name of the fields that a method sets."""
    for node in ast.walk(function):
        match node:
            case ast.Attribute(value=ast.Name(id="self"), ctx=ast.Store(), attr=name):
                yield node.lineno, name


@functools.cache
def visible() -> dict[str, str]:
    """Return names that users meet outside of the code, with their kind."""
    found: dict[str, str] = {}
    for family in metrics.families():
        found |= {family.name: "metric", **dict.fromkeys(LABELS[family.name], "label")}
    found |= dict.fromkeys((part for key in KEYS for part in key.path.split(".")), "key")
    found |= dict.fromkeys(Condition, "condition")
    rules = "\n".join(files("rules/*.yaml").values())
    found |= dict.fromkeys(
        re.findall(r"^ *- (?:alert|record|name): (\S+)", rules, re.MULTILINE), "rule"
    )
    found |= dict.fromkeys(re.findall(r"^      (\w+):", rules, re.MULTILINE), "annotation")
    events = files("rules/events/*.yaml")["rules/events/events.yaml"]
    found |= dict.fromkeys(re.findall(r"^ {2,6}(\w+):$", events, re.MULTILINE), "event class")
    return found


def shown(hits: Iterator[Hit]) -> str:
    """Return the hits, a line each."""
    return "\n".join(dict.fromkeys(map(str, hits)))


def test_documents_have_the_terms_of_the_field() -> None:
    """README, reference, example of the configuration, rules, events, definitions, units."""
    texts = files(
        "README.md", "packaging/doc/*.md", "packaging/*.yaml", "rules/**/*.yaml", "systemd/*"
    )
    assert shown(hit for path, text in texts.items() for hit in in_text(path, text)) == ""


def test_messages_have_the_terms_of_the_field() -> None:
    """Strings of the code: mails, log, errors, help, explanations of keys and metrics."""
    assert (
        shown(hit for path, line, text in product()[0] for hit in in_text(path, text, line=line))
        == ""
    )


def test_docstrings_have_the_terms_of_the_field() -> None:
    """Who carries on the code searches for the words that the tools and the kernel use."""
    texts = product()[1]
    assert (
        shown(
            hit for path, line, text in texts for hit in in_text(path, text, DOCSTRING, line=line)
        )
        == ""
    )


def test_names_in_code_have_the_terms_of_the_field() -> None:
    """Modules, classes, functions, parameters, fields, constants; not local variables."""
    declared = product()[2]
    assert len(declared) > 10_000
    assert shown(hit for path, line, name in declared for hit in in_name(path, line, name)) == ""
    modules = {path: Path(path).stem for path, _, _ in declared}
    assert {path: MODULES[name] for path, name in modules.items() if name in MODULES} == {}


def test_names_that_users_see_have_the_terms_of_the_field() -> None:
    """Metrics, labels, alerts, conditions, event classes, keys of the configuration."""
    found = visible()
    assert len(found) > 700
    assert shown(hit for name, kind in found.items() for hit in in_name(kind, 0, name)) == ""


def test_nothing_refers_to_a_paper_outside_the_repository() -> None:
    """A reader could not open it."""
    texts = files(
        "*.md",
        "packaging/**/*.md",
        "packaging/*.yaml",
        "rules/**/*.yaml",
        "systemd/*",
        *(f"{folder}/**/*.py" for folder in (*PACKAGES, "tests")),
    )
    assert (
        shown(
            hit
            for path, text in texts.items()
            if path != "tests/test_words.py"
            for hit in (*in_text(path, path, PAPER), *in_text(path, text, PAPER))
        )
        == ""
    )
    assert (
        shown(
            hit
            for path, text in texts.items()
            if not path.startswith(("tests/", "CHANGELOG"))
            for hit in in_text(path, text, CODE)
        )
        == ""
    )


def test_each_exception_is_needed() -> None:
    """One whose text was changed would hide the next mistake."""
    texts = [
        *files(
            "README.md", "packaging/doc/*.md", "packaging/*.yaml", "rules/**/*.yaml", "systemd/*"
        ).values()
    ]
    texts += [text for _, _, text in product()[0]]
    everything = " ".join("\n".join(texts).split())
    assert [phrase for phrase in PHRASES if phrase not in everything] == []
    declared = {name for _, _, name in product()[2]}
    assert NAMES.keys() - declared - visible().keys() == set()
    needed = {name for name in NAMES if name in CLASSES or any(map(NAME.get, parts(name)))}
    assert NAMES.keys() - needed == set()
    assert [phrase for phrase in PHRASES if not any(TEXT.found(phrase))] == []


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("the service is told at once", "told"),
        ("a disk that nobody\n reads", "nobody"),
        ("ask the drive", "ask"),
        ("writers in a lull", "lull"),
    ],
)
def test_a_replaced_word_is_found(text: str, word: str) -> None:
    """With its place, and what to write instead."""
    (hit,) = in_text("a.md", f"\n{text}")
    assert (hit.path, hit.line, hit.word) == ("a.md", 2, word)
    assert str(hit).startswith(f"a.md:2: '{word}' in '")


@pytest.mark.parametrize("name", ["told_seconds", "CollectorKept", "_MOST_DISKS", "State", "desk"])
def test_a_replaced_name_is_found(name: str) -> None:
    """As a whole, and as a part of another name."""
    assert [hit.path for hit in in_name("a.py", 1, name)] == ["a.py"]
