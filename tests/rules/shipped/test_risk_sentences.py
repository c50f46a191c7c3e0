"""What a mail quotes from studies: two-sided, with its population, and its source beside it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

RULES = (Path(__file__).parents[3] / "rules/smart.yaml").read_text()
NUMBER = re.compile(r"\d[\d,.]*\d|\d")
STUDY = re.compile(r"[^.;]*\bOf (?:more than|Google|one model)\b(?:[^.]|\.\d)*\.")
"""A sentence about risk begins with its population: 'Of more than 100,000 consumer disks ...'."""
BLOCKS = re.findall(
    r"((?:^      #.*\n)*)      - alert: (\w+)\n((?:(?!      (?:#|- )).*\n)*)", RULES, re.MULTILINE
)


def description(block: str) -> str:
    """Return the description written in a rule, '' for an alias of another one's."""
    found = re.search(r"description: (?:&\w+ )?>-\n((?:            .*\n)+)", block)
    return " ".join(found[1].split()) if found else ""


def risks() -> list[tuple[str, str, str]]:
    """Return alert, sentence and the comment above its rule, of all sentences about risk."""
    return [
        (alert, sentence.strip(), comment)
        for comment, alert, block in BLOCKS
        for sentence in STUDY.findall(description(block))
    ]


@pytest.mark.parametrize(("alert", "sentence", "comment"), risks(), ids=lambda text: text[:30])
def test_every_number_of_a_sentence_about_risk_has_its_source_beside_it(
    alert: str, sentence: str, comment: str
) -> None:
    """In the comment above the rule, with the study and whether it was read."""
    assert re.search(r"(FAST|JMLR|ATC) \d{4}", comment), alert
    assert set(NUMBER.findall(sentence)) <= set(NUMBER.findall(comment)), sentence
    assert "100,000" in sentence or "models" in sentence or "1 million" in sentence, sentence


@pytest.mark.parametrize(
    "alert",
    [
        *("DiskErrorsIncreased", "DiskPendingSectors", "DiskReallocatedSectorsIncreased"),
        "NvmeMediaErrorsIncreased",
    ],
)
def test_a_sentence_about_risk_has_its_other_side(alert: str) -> None:
    """That most such drives lasted, or how it was with the others: no reader is only frightened."""
    own = [sentence for name, sentence, _ in risks() if name == alert]
    assert own
    for sentence in own:
        assert re.search(r"; yet |of the others|of those with none", sentence), sentence


def test_no_share_or_ratio_is_quoted_outside_such_a_sentence() -> None:
    """Limits of this rule itself are not quoted: '100 % of the endurance', '5 degrees more'."""
    for _, alert, block in BLOCKS:
        rest = STUDY.sub("", description(block))
        assert not re.search(
            r"times as (?:often|likely)|\d %|\b(?:third|quarter|half) of\b", rest
        ), alert
