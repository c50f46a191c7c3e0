"""The answers of storcli and similar programs, from JSON or text, as trees of rows and texts. Pure.

An answer is from one controller. Its keys differ by version and by query, so rows are found by
their columns, wherever they are. Data are parsed even if the status is 'Failure': one dying disk,
or a feature that the card lacks, makes a whole answer fail.
Units: a GB is 2^30 bytes there, also where it is a 'GiB': 7499284480 sectors are '3.491 TB'.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.json_text import is_deep
from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.model import ParseError
from iowarden.collectors.raid import output
from iowarden.collectors.raid.megaraid.storcli_text import UNREADABLE_ROWS, parse_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_HARMLESS = frozenset(
    {"command invalid", "un-supported command", "unsupported command", "none", "-", ""}
)
"""Why an answer has 'Failure' on a card that only lacks the requested feature."""
MAX_ROWS = 4096
SLOT = lazy_pattern(r"(\d{0,5}) ?: ?(\d{1,4})", re.ASCII)
CELSIUS = lazy_pattern(r"(\d{1,3}) ?(?:C\b|$)", re.ASCII)
"""Beginning of '34C (93.20 F)' and of '34'."""
Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StorcliAnswer:
    """The answer of one controller, or of the program itself: then `number` is None.

    Fields: `errors` are its own, harmless ones left out; `read_errors` are the reasons why rows of
    its tables could not be read; keys in `data` are in lower case.
    """

    number: int | None
    ok: bool
    data: Tree
    description: str = ""
    errors: tuple[str, ...] = ()
    read_errors: tuple[str, ...] = ()
    text: bool = False
    """Whether it is text, not JSON: then nothing marks its end."""


def parse_answers(text: str) -> tuple[StorcliAnswer, ...]:
    """Parse the answers of an output in JSON or text. Errors: ParseError."""
    plain = output.plain(text)
    as_json = '"Controllers"' in plain
    entries: list[Any] = _json(plain) if as_json else list(parse_text(plain))
    if not entries:
        raise output.refused("storcli", "'Controllers' in JSON, or 'Status = ...'", plain)
    return tuple(replace(_answer(entry), text=not as_json) for entry in entries)


def parse_whole(text: str) -> tuple[StorcliAnswer, ...]:
    """Parse answers of which each row must be readable. Errors: ParseError."""
    answers = parse_answers(text)
    for answer in answers:
        for reason in answer.read_errors:
            raise ParseError(reason)
    return answers


def _json(text: str) -> list[Any]:
    try:
        if is_deep(text):
            raise ValueError("brackets nested too deeply")
        found = json.loads(text[text.index("{") :], strict=False)
        entries = found["Controllers"]
        if not isinstance(entries, list):
            raise TypeError("'Controllers' is no list")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        message = f"JSON with 'Controllers' ({type(error).__name__}: {error})"
        raise output.refused("storcli", message, text) from None
    return entries


def _answer(entry: object) -> StorcliAnswer:
    found = _small(entry)
    status = found.get("command status") if isinstance(found, dict) else None
    if not isinstance(found, dict) or not isinstance(status, dict):
        raise output.refused("storcli", "'Command Status'", str(entry)[:200])
    number = text_of(status, "controller")
    data = found.get("response data")
    rows = status.get("detailed status")
    told = [_error(row) for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    description = text_of(status, "description")
    word = text_of(status, "status")
    if word.casefold() != "success" and not rows and description.casefold() in {"none", ""}:
        told.append(f"Status = {word}, without a reason")
    unread = data.pop(UNREADABLE_ROWS, []) if isinstance(data, dict) else []
    return StorcliAnswer(
        int(number) if re.fullmatch(r"\d{1,3}", number, re.ASCII) else None,
        word.casefold() == "success",
        data if isinstance(data, dict) else {"rows": data} if isinstance(data, list) else {},
        description,
        tuple(dict.fromkeys(each for each in told if each)),
        tuple(output.summarize(unread)) if isinstance(unread, list) else (),
    )


def _error(row: Tree) -> str:
    """Return the error in a row of 'Detailed Status', '' if there is none or it is harmless."""
    told = text_of(row, "errmsg")
    failed = text_of(row, "status").casefold() not in {"success", "-", ""}
    if told.casefold() in _HARMLESS and not (failed and text_of(row, "drive")):
        return ""
    where = text_of(row, "drive", "vd")
    return f"{where} error {text_of(row, 'errcd') or '?'}: {told or 'no text'}".strip()[:200]


def _small(value: Any) -> Any:  # noqa: ANN401 - JSON
    """Return JSON with lower-case keys and single blanks: versions differ in both."""
    if isinstance(value, dict):
        return {" ".join(str(key).split()).casefold(): _small(each) for key, each in value.items()}
    return [_small(each) for each in value[:MAX_ROWS]] if isinstance(value, list) else value


def objects(tree: Any) -> Iterator[Tree]:  # noqa: ANN401 - JSON
    """Yield the objects of a tree, outer ones first."""
    if isinstance(tree, dict):
        yield tree
        for each in tree.values():
            yield from objects(each)
    elif isinstance(tree, list):
        for each in tree:
            yield from objects(each)


def flattened(tree: Tree) -> dict[str, str]:
    """Return the texts of a tree by key, the first of each; error counts of parts are summed.

    'BBU' of 'HwCfg' becomes 'hwcfg bbu': another key states whether the card could have one.
    """
    found: dict[str, str] = {}
    for key, each in tree.items():
        if isinstance(each, dict):
            for name, value in flattened(each).items():
                found.setdefault(
                    f"hwcfg {name}" if key == "hwcfg" and name == "bbu" else name, value
                )
        elif isinstance(each, list):
            parts = [flattened(part) for part in each if isinstance(part, dict)]
            for name in dict.fromkeys(name for part in parts for name in part):
                values = [part[name] for part in parts if name in part]
                counts = [int(v) for v in values if re.fullmatch(r"\d{1,15}", v, re.ASCII)]
                added = name.endswith("count") and len(counts) == len(values)
                found.setdefault(name, str(sum(counts)) if added else values[0])
        else:
            found.setdefault(key, text_of(tree, key))
    return found


def not_answered(
    command: str, expected: str, answers: Iterable[StorcliAnswer], read_errors: Iterable[str] = ()
) -> ParseError:
    """Return the error of answers without the requested data, as their own description has it."""
    told = "; ".join([*(each.description for each in answers), *read_errors])
    return output.refused(command, expected, told)


def failures(text: str) -> list[str]:
    """Return why answers are 'Failure', in their own words; none for another text."""
    try:
        failed = [each for each in parse_answers(text) if not each.ok]
    except ParseError:
        return []
    descriptions = [each.description for each in failed if each.description.casefold() != "none"]
    errors = [reason for each in failed for reason in each.errors]
    return [*dict.fromkeys(filter(None, (*descriptions, *errors)))]


def is_unsupported(text: str) -> bool:
    """Whether storcli only reports that this controller lacks the requested part: no error."""
    try:
        answers = parse_answers(text)
    except ParseError:
        return False
    return all(not (each.ok or each.errors or each.data) for each in answers)


def rows_of(value: Any) -> list[Tree]:  # noqa: ANN401 - JSON
    """Return the rows of a table, none if there is no such table."""
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def text_of(row: Mapping[str, Any], *keys: str) -> str:
    """Return the first text of some keys as one printable line; '' without any."""
    for value in map(row.get, keys):
        told = "" if isinstance(value, bool | dict | list | None) else " ".join(str(value).split())
        if told:
            return output.printable(told[:400])
    return ""


def slot_of(text: str) -> str:
    """Return the slot for '252:3' or ':3', '' for anything else."""
    found = SLOT.fullmatch(text.strip())
    return output.slot_name(found[1], found[2]) if found else ""


def size_of(row: Tree) -> int | None:
    """Parse a size in bytes; 'GiB' and 'GB' are the same there."""
    return output.size_bytes(text_of(row, "size").replace("iB", "B"), 1024)
