"""What a mail quotes from studies: two-sided, with its population, and its source beside it."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

RULES = Path(__file__).parents[3] / "rules"
TEXTS = ("summary", "description", "advice", "unknown")
NUMBER = re.compile(r"\d[\d,.]*\d|\d")
STUDY = re.compile(r"[^.;]*\bOf (?:more than|Google|one model)\b(?:[^.]|\.\d)*\.")
"""A sentence about risk begins with its population: 'Of more than 100,000 consumer disks ...'."""
SHARE = re.compile(
    r"times as (?:often|likely)|\d ?%|\bper ?cent\b|\b(?:third|quarter|half) of\b"
    r"|\b\d[\d,.]* (?:of|in) (?:\d|every\b)"
)
FATE = re.compile(r"\b(?:fail(?:s|ed|ures?)?|dies?|died|lasts|lasted|survived?)\b")
PLACE = re.compile(r"(?:FAST|JMLR|ATC|SIGMETRICS) \d{4}")


class Text(NamedTuple):
    """A text of a mail as it is written in a rule file; not where an alias repeats it."""

    alert: str
    text: str
    source: str
    comment: str
    """The lines above its rule."""


def texts() -> Iterator[Text]:
    """Yield all texts of the shipped rules."""
    for path in sorted(RULES.glob("*.yaml")):
        written = path.read_text()
        lines = written.splitlines()
        (groups,) = [v for k, v in yaml.compose(written).value if k.value == "groups"]
        for group in groups.value:
            rules = {k.value: v for k, v in group.value}["rules"].value
            for rule in rules:
                begin = first = rule.start_mark.line
                while lines[first - 1].startswith("      #"):
                    first -= 1
                parts = {k.value: v for k, v in rule.value}
                if "annotations" not in parts:  # a recording rule
                    continue
                notes = {k.value: v for k, v in parts["annotations"].value}
                for name in TEXTS:
                    if name in notes and notes[name].start_mark.line >= begin:
                        yield Text(
                            parts["alert"].value,
                            " ".join(notes[name].value.split()),
                            notes["source"].value,
                            "\n".join(lines[first:begin]),
                        )


ALL = tuple(texts())
RISKS = tuple((text, s.strip()) for text in ALL for s in STUDY.findall(text.text))


@pytest.mark.parametrize(("text", "sentence"), RISKS, ids=lambda value: value[0][:30])
def test_every_number_of_a_sentence_about_risk_has_its_source_beside_it(
    text: Text, sentence: str
) -> None:
    """In the comment above the rule: each number, where it is in the study, and whether read."""
    assert set(NUMBER.findall(sentence)) <= set(NUMBER.findall(text.comment)), sentence
    assert re.search(r"(?:section|table) [\d.]+, page \d+ \((?:read|quoted)\)", text.comment)
    studies = PLACE.findall(text.comment)
    assert studies
    assert all(study in text.source for study in studies), text.source
    assert re.search(r"\d (?:consumer |million SATA )?disks|ten models", sentence), sentence
    assert re.search(r"\(\d{4}\)|from \d{4} to \d{4}|\d years", sentence), "when"


@pytest.mark.parametrize(
    "alert",
    [
        *("DiskErrorsIncreased", "DiskPendingSectors", "DiskReallocatedSectorsIncreased"),
        "NvmeMediaErrorsIncreased",
    ],
)
def test_a_sentence_about_risk_has_its_other_side(alert: str) -> None:
    """That most such drives lasted, or how it was with the others: no reader is only frightened."""
    own = [sentence for text, sentence in RISKS if text.alert == alert]
    assert own
    for sentence in own:
        assert re.search(r"; yet |; of all, |of those with none", sentence), sentence


def quotes(text: str) -> list[str]:
    """Return the sentences that say how many drives failed or lasted."""
    return [s for s in re.split(r"(?<=[.:;?!])\s+", text) if SHARE.search(s) and FATE.search(s)]


def test_a_share_of_failed_drives_in_a_definition_names_its_study() -> None:
    """It is no text of a mail, but the page that the mail's condition leads to."""
    definitions = yaml.safe_load((RULES / "conditions/definitions.yaml").read_text())
    found = {
        quote: [str(source) for source in definition["sources"]]
        for definition in definitions.values()
        for text in definition.values()
        if isinstance(text, str)
        for quote in quotes(" ".join(text.split()))
    }
    assert len(found) == 2
    for quote, sources in found.items():
        (study,) = PLACE.findall(quote)
        assert any(study in source for source in sources), quote


def test_no_share_of_failed_drives_is_quoted_outside_such_a_sentence() -> None:
    """In no rule, event or text of a mail; limits of a rule ('80 % used') are another thing."""
    found = [quote for text in ALL for quote in quotes(STUDY.sub("", text.text))]
    found += quotes((RULES / "events/events.yaml").read_text())
    for room in ("advice", "notices", "incidents", "events"):
        for path in (RULES / room).glob("*.py"):
            written = path.read_text()
            found += [
                quote
                for node in ast.walk(ast.parse(written if SHARE.search(written) else ""))
                if isinstance(node, ast.Constant) and isinstance(node.value, str)
                for quote in quotes(node.value)
            ]
    assert found == []
    assert quotes("Most die unseen. Of 100 such drives 30 % failed.") == [
        "Of 100 such drives 30 % failed."
    ]
