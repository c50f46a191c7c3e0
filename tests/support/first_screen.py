"""What an administrator sees of a mail before he scrolls: 24 lines of 80 columns."""

from __future__ import annotations

import email
import email.policy
import re
from email.message import EmailMessage

LINES, SUBJECT_COLUMNS, MAX_HTML_BYTES = 24, 78, 80_000
_VALUE = re.compile(r"  (?!\d\d:\d\d:|\d{4}-\d\d-)\S.*: ")
"""A measured value: without a time before it, which lines of a log have."""
_METRIC = re.compile(r"\biowarden_[a-z0-9]+_\w+")


def missing(mail: bytes, where: str) -> list[str]:
    """Return what the first screen lacks of severity, place, meaning and advice, and other faults.

    `where` is how the mail names its object, '' for the whole host.
    """
    message = email.message_from_bytes(mail, policy=email.policy.default)
    assert isinstance(message, EmailMessage)
    parts = [message.get_body((kind,)) for kind in ("plain", "html")]
    plain, page = (str(part.get_content()) if part is not None else "" for part in parts)
    lines = plain.splitlines()
    screen = lines[:LINES]
    severity = str(message["Subject"]).partition("]")[0].strip("[")
    faults = []
    if not screen[0].startswith(f"{severity} on ") or where not in screen[0]:
        faults.append(f"severity and place: {screen[0]}")
    if where and where.partition(" ")[0] not in str(message["Subject"]):
        faults.append(f"place: {message['Subject']}")
    if ", mail 1, written " in plain and not _meaning(screen):
        faults.append("what it means")
    if "WHAT TO DO" not in screen[:-1]:
        faults.append("the first line of advice")
    if len(str(message["Subject"])) > SUBJECT_COLUMNS:
        faults.append(f"a subject of {SUBJECT_COLUMNS} columns: {message['Subject']}")
    if len(page.encode()) > MAX_HTML_BYTES:
        faults.append("a page that no mail service cuts")
    prose = "\n".join(line for line in lines if "iowarden query" not in line)
    faults += [f"words: {name}" for name in _METRIC.findall(prose)]
    return faults + [f"each value once: {line}" for line in repeated(lines)]


def _meaning(screen: list[str]) -> list[str]:
    """Return the lines between the head and the advice."""
    end = screen.index("WHAT TO DO") if "WHAT TO DO" in screen else len(screen)
    return [line for line in screen[screen.index("") : end] if line]


def repeated(lines: list[str]) -> list[str]:
    """Return the values of the section EVIDENCE that it has twice."""
    if "EVIDENCE" not in lines:
        return []
    section = lines[lines.index("EVIDENCE") + 1 :]
    if "" in section:
        section = section[: section.index("")]
    names = [
        # Of two groups of members each has its state: 'state, md0: faulty (sdb1, sdd1)'.
        line.partition(": ")[0] + (line[line.rfind(" (") :] if line.endswith(")") else "")
        for line in section
        if _VALUE.match(line)
    ]
    return [name for name in dict.fromkeys(names) if names.count(name) > 1]
