"""Advice of an alert: steps with the real names of its device, disks and arrays. Pure.

The text of a rule describes its condition; what to check and what to do depends on the device: a
SATA disk has other files and programs than an NVMe drive, a path of a multipath map or a volume
of a RAID controller. A step is a few lines: a sentence, and commands that are indented by two. A
rule lists its steps in the annotation `advice_steps` ('log state text member': `text` is its own
text, which otherwise comes first), a text of 'events.yaml' has them as lines of their own: '{log}'.
A step that does not apply to the device, or needs a name that is not known, is left out.

Advice is followed to the letter: hence no placeholder, no file, program or device that this host
does not have, and no member is removed from an array that needs it (rules/advice/facts.py).
"""

from __future__ import annotations

import functools
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from iowarden.collectors.dataclass import dataclass
from iowarden.collectors.packages import PACKAGES
from iowarden.rules.advice import advice_steps
from iowarden.rules.advice.step import AdviceSubject, StepContext
from iowarden.rules.topology import returned_disks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from iowarden.rules.advice.facts import Facts
    from iowarden.rules.alerting.alerts import Alert
    from iowarden.rules.incidents.model import IncidentMember
    from iowarden.rules.topology.device_changes import ReturnedDisk

STEPS = "advice_steps"
"""Annotation: the names of the steps, in their order."""
PART = "part"
"""Annotation: the partition that an event is about, whose labels name the disk."""
TEXT = "text"
"""Among these names: the annotation 'advice' itself."""
PACKAGED = "Programs that may not be installed, with their packages:"
_STEP = re.compile(r"\s*\{([a-z_]+)\}\s*")
_BRACES = re.compile(r"\{(\w*)\}")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_LATER = re.compile(r"If the count increases again, replace the (?:disk|drive)\.")
_QUOTED_WORD = re.compile(r"(?<=\s)'([\w.:/-]+)'(?=\s|$)", re.ASCII)
"""A word that a shell needs no quotes for: a rule quotes each name, a step only where needed."""
_JOINED = re.compile(r"\|\||&&|[|;]|\bdo\b|\bthen\b")
_PROGRAM = re.compile(r"[A-Za-z][\w.-]*")
_IN_PROSE = re.compile(r"(?<!\w)'([a-z][\w-]*)[ ']")
"""The program of a command that is quoted in a sentence: 'mdadm --re-add'."""


def steps_of(alert: Alert) -> str:
    """Return an alert's advice with its steps as lines of their own."""
    return with_steps(alert.annotation("advice"), alert.annotation(STEPS))


def with_steps(advice: str, steps: str) -> str:
    """Return the annotation 'advice' with the steps that are named in the other one, in order."""
    text, names = advice.strip("\n"), steps.split()
    if TEXT not in names:
        names = [TEXT, *names]
    return "\n".join(text if name == TEXT else f"{{{name}}}" for name in names).strip("\n")


@dataclass(frozen=True, slots=True)
class MemberText:
    """The texts of an alert in a mail, in addition to its summary."""

    advice: str
    description: str = ""


def text_of_member(
    alerts: Iterable[Alert], facts: Callable[[], Facts]
) -> Callable[[IncidentMember], MemberText]:
    """Return what gives the mail texts of an incident's member, for its device as it is now.

    A member whose alert no longer exists has its own texts. `facts` is called at most once.
    """
    by_key = {alert.key: alert for alert in alerts}
    asked = functools.cache(facts)
    failing = {a.label("disk") for a in by_key.values() if a.name == "DiskFailing" and a.active}

    def said(member: IncidentMember) -> MemberText:
        alert = by_key.get(member.key)
        if alert is None:
            about = AdviceSubject(dict(member.labels), member.subject, over=True)
            return MemberText(filled(member.advice, about, asked()))
        others = [
            dict(a.labels) for a in by_key.values() if a.name == alert.name and a is not alert
        ]
        about = AdviceSubject(
            dict(alert.labels), alert.subject, tuple(others), part=alert.annotation(PART)
        )
        text = filled(steps_of(alert), about, asked())
        if alert.label("disk") in failing:
            text = _for_failing_disk(text)
        return MemberText(text, alert.annotation("description"))

    return said


def advice_of(alert: Alert, facts: Facts) -> str:
    """Return an alert's advice, with its steps expanded for its device."""
    about = AdviceSubject(dict(alert.labels), alert.subject, part=alert.annotation(PART))
    return filled(steps_of(alert), about, facts)


def with_advice(alert: Alert, facts: Facts) -> Alert:
    """Return an alert with its expanded advice below its description, for a digest."""
    text = "\n".join(
        filter(None, (alert.annotation("description").strip(), advice_of(alert, facts)))
    )
    others = tuple(pair for pair in alert.annotations if pair[0] not in {"advice", STEPS})
    return replace(alert, annotations=(*others, ("advice", text)) if text else others)


def taking_back(back: ReturnedDisk, facts: Facts) -> tuple[str, ...]:
    """Return how to add a returned disk again to what lost it; () if nothing is left to do.

    A disk that is offline, failed or unreadable is not added.
    """
    where = facts.of.map
    if where.topology is None:
        return ()
    found = returned_disks.advice(back, where.topology, where.arrays)
    if found and facts.is_unfit(back.name):
        return (f"Do not re-add /dev/{back.name}: it is offline, failed or unreadable.",)
    return found


def unknown_steps(text: str) -> list[str]:
    """Return the names in braces in a text that are no step on a line of its own."""
    found = []
    for line in text.splitlines():
        step = _STEP.fullmatch(line)
        if step is None or step[1] not in advice_steps.STEPS:
            found += _BRACES.findall(line)
    return found


def filled(text: str, about: AdviceSubject, facts: Facts) -> str:
    """Return a text with its steps expanded for the device that it is about."""
    step = StepContext(facts, about)
    lines: list[str] = []
    for line in text.splitlines():
        found = _STEP.fullmatch(line)
        if found is None or found[1] not in advice_steps.STEPS:
            lines.append(line)
        else:
            lines += advice_steps.STEPS[found[1]](step)
    return "\n".join(lines)


def combined(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the texts of one mail, deduplicated, and last the packages of their programs."""
    told: set[str] = set()
    found = []
    for text in texts:
        kept: list[str] = []
        for prose, given in _paragraphs(text):
            commands = [each if '"' in each else _QUOTED_WORD.sub(r"\1", each) for each in given]
            new = commands or [prose]
            if not told.issuperset(new):
                told.update((prose, *new))
                kept += [prose, *commands]
            elif prose.endswith(".") and prose not in told:  # more than a heading of commands
                told.add(prose)
                kept.append(prose)
        if kept and not (
            len(kept) == 1 and kept[0].endswith(":")
        ):  # its commands were given already
            found.append("\n".join(kept))
    packages = _packages(found)
    return (*found, packages) if packages else tuple(found)


def _for_failing_disk(text: str) -> str:
    """Return a text for a disk that is to be replaced now.

    Without commands that start self-tests, which put load on it, and without 'if this increases'.
    """
    kept = (
        "\n".join((prose, *own))
        for prose, own in _paragraphs(text)
        if not _tests(own) and not _LATER.search(prose)
    )
    return "\n".join(kept)


def _tests(commands: Iterable[str]) -> bool:
    return any("iowarden selftest start" in line for line in commands)


def _paragraphs(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each line of prose with the commands that follow it."""
    prose, commands = "", list[str]()
    for line in text.splitlines():
        if line.startswith(" "):
            commands.append(line.rstrip())
            continue
        if prose or commands:
            yield prose, commands
        prose, commands = line.rstrip(), []
    if prose or commands:
        yield prose, commands


def programs(line: str) -> list[str]:
    """Return the programs that a line of commands runs."""
    parts = _JOINED.split(_QUOTED.sub("''", line))
    words = (part.split() for part in parts)
    return [own[0] for own in words if own and _PROGRAM.fullmatch(own[0])]


def _packages(texts: Iterable[str]) -> str:
    """Return a line with the packages of programs that may not be installed, or ''."""
    used: set[str] = set()
    for text in texts:
        used.update(_IN_PROSE.findall(text))
        for line in text.splitlines():
            used.update(programs(line) if line.startswith(" ") else ())
    named: dict[str, list[str]] = {}
    for program in sorted(used & PACKAGES.keys()):
        named.setdefault(PACKAGES[program], []).append(program)
    parts = [f"{', '.join(own)} ({package})" for package, own in named.items()]
    if not parts:
        return ""
    return f"{PACKAGED} {'; '.join(parts)}."
