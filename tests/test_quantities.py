"""Numbers that users read have one format: collectors/quantity.py, and nothing beside it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from iowarden.collectors import quantity

TOP = Path(__file__).resolve().parent.parent

FORMATTERS = {"collectors/quantity.py", "rules/rulefile/humanize.py"}
"""Ours, and Prometheus' for users' rules."""

UNIT = re.compile(r"\s?(?:[kKMGTPE]i?B|B|[mµun]?s|min|m|h|d|%)(?![\w%])(?!\s?UTC)")
"""A unit behind a number: size, time, ratio."""

TIME = re.compile(r"\s(?:ms|s|min|h)(?![\w:%])(?!\s?UTC)")
"""A unit of time behind a value that is shown as it is: '1208 s' of a kernel line."""

FORMATTED = re.compile(r":[^{}:]*[fg%]\}|\} (?:ms|s|min|h)\b")
"""What a file has that formats a number at all: the others need not be parsed."""

FORMATS = re.compile(
    r"""(?x)
    (?<![\w./:=-]) \d+(?:\.\d+)?
    (?: [kKMGTPE]i?B\b            # 592.6MiB
      | [kMGTPE]B\b | \ [kMGT]B\b # 620 MB: not binary
      | \ [mµun]?s\b (?<=\d{3}\ s)  # 297 s
      | %(?![\w%])                # 87%
      | [dhm]\ \d+[hms]\b         # 4m 57s
      | \.\d{3,}\ [KMGTPE]iB\b    # 592.631 MiB
    )
    """
)
"""Other formats of the same numbers."""

GIVEN = re.compile(
    r"""(?x)
    ^\s*(?:--\ mail|\+?\d[\dhms.]*s\b)   # the time of a line of a replay: as in expectations
    | (?:\d+%\s?){2,} | ^\s*[#$>|]       # commands and tables of other programs
    """
)


def golden() -> list[Path]:
    """All texts that the program makes and that are in git."""
    return [p for p in sorted((TOP / "tests/golden").rglob("*")) if p.suffix in {".txt", ".html"}]


@pytest.mark.parametrize("path", golden(), ids=lambda path: path.name)
def test_a_golden_text_has_no_other_format_of_a_number(path: Path) -> None:
    """'592.6MiB' beside '593 MiB', '4m 54s' beside '4 min 54 s' are two values to a reader."""
    found = [
        f"{number}: {match[0]}"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        for match in FORMATS.finditer(line)
        if not GIVEN.search(line)
    ]
    assert found == []


def formats(tree: ast.AST) -> list[int]:
    """Return the lines where a number is formatted with a unit."""
    lines = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, after in zip(node.values, [*node.values[1:], None], strict=True):
            if not isinstance(value, ast.FormattedValue):
                continue
            text = after.value if isinstance(after, ast.Constant) else ""
            if value.format_spec is None:
                if not isinstance(value.value, ast.Call) and TIME.match(str(text)):
                    lines.append(node.lineno)
                continue
            spec = "".join(
                part.value
                for part in ast.walk(value.format_spec)
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
            )
            if spec.endswith("%") or (spec[-1:] in "fg" and UNIT.match(str(text))):
                lines.append(node.lineno)
    return lines


ALLOWED = {
    "daemon/check/installation.py": "the clock's offset has a sign and microseconds",
    "daemon/cli/disks_command.py": "hours are the drive's own unit of power-on time",
    "daemon/cli/recording_commands.py": "a value for the command line",
    "daemon/cli/trace_command.py": "a value for the command line",
    "daemon/config/keys.py": "a value for the configuration",
    "daemon/page/drive.py": "hours are the drive's own unit of power-on time",
    "daemon/page/index.py": "hours are the drive's own unit of power-on time",
    "daemon/terminal/times.py": "a time beyond the calendar",
    "daemon/views/disk_answers.py": "hours are the drive's own unit of power-on time",
    "rules/manual/manual.py": "a value for the configuration",
}


def test_no_other_module_formats_a_number_with_a_unit() -> None:
    """The format is decided in one place; what a user would type is in the grammar of that file."""
    found = {
        str(path.relative_to(TOP)): lines
        for layer in ("collectors", "rules", "daemon")
        for path in sorted((TOP / layer).rglob("*.py"))
        if str(path.relative_to(TOP)) not in FORMATTERS
        and FORMATTED.search(text := path.read_text())
        and (lines := formats(ast.parse(text)))
    }
    assert {path: lines for path, lines in found.items() if path not in ALLOWED} == {}
    assert set(ALLOWED) <= set(found), "remove what is no exception any more"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (quantity.size(621_386_137), "593 MiB"),
        (quantity.size(0), "0 B"),
        (quantity.size(1023), "1023 B"),
        (quantity.size(3.84 * 1024**3), "3.8 GiB"),
        (quantity.duration(297), "4 min 57 s"),
        (quantity.duration(0.9998), "1 s"),
        (quantity.duration(0.00024), "240 µs"),
        (quantity.duration(59.97), "60 s"),
        (quantity.duration(-90), "-1 min 30 s"),
        (quantity.duration(90_000), "1 d 1 h"),
        (quantity.duration(float("inf")), "for ever"),
        (quantity.percentage(0.9001), "90 %"),
        (quantity.percentage(1.03), "103 %"),
        (quantity.percentage(0.9968), "99.7 %"),
        (quantity.percentage(0.07936), "7.9 %"),
        (quantity.percentage(0.00123), "0.12 %"),
        (quantity.percentage(0.0), "0 %"),
        (quantity.quantity("x_bytes_per_second", 2 * 1024**2), "2 MiB/s"),
    ],
)
def test_the_format_of_a_number(text: str, expected: str) -> None:
    """One decimal that is not 0 below 100, a blank, binary prefixes, two units of time."""
    assert text == expected
