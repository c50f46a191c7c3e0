"""The generated pages of packaging/doc are those of this code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.recordings import open_fixture

from iowarden.collectors.recording.recording import Recording
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.rule_files import load_shipped
from iowarden.daemon.http.exposition import Exposition, MetricsSnapshot
from iowarden.daemon.metric_labels import LABELS, fits
from iowarden.daemon.reference import alerts, metrics
from iowarden.daemon.reference.pages import PAGES, write
from iowarden.daemon.replay import replay
from iowarden.rules.notices.metric_titles import value_text

DIRECTORY = Path(__file__).parents[3] / "packaging/doc"


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_that_of_the_code(name: str) -> None:
    """Whoever changes a rule, metric, key, command or stored field updates the reference."""
    written = (DIRECTORY / name).read_text() if (DIRECTORY / name).exists() else ""
    assert written == PAGES[name](), (
        f"packaging/doc/{name} is not that of the code: run 'make docs'"
    )


def test_write_writes_every_page(tmp_path: Path) -> None:
    """'make docs' leaves none out."""
    write(str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == set(PAGES)


def test_every_family_has_its_labels_and_a_meaning() -> None:
    """A new metric needs a line in daemon/metric_labels.py; a removed one has none."""
    families = metrics.families()
    assert {family.name for family in families} == set(LABELS)
    assert [family.name for family in families if not family.help] == []


def test_the_labels_of_a_played_machine_are_those_of_the_table(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """'/metrics' while a disk hangs; every collector: tests/rules/engine/test_unknown.py."""
    shown: dict[str, set[tuple[str, ...]]] = {}

    class Spy(Exposition):
        def publish(self, snapshot: MetricsSnapshot) -> None:
            for chunk in snapshot.chunks:
                for family, samples in chunk.families:
                    keys = {tuple(key for key, _ in labels) for _, labels, _ in samples}
                    shown.setdefault(family.name, set()).update(keys)

    monkeypatch.setattr(replay, "Exposition", Spy)
    settings = parse_config("", "defaults")
    played = Recording(open_fixture("hung-disk", tmp_path))
    replay.replay([played], settings, load_shipped(settings))
    assert len(shown) > 100
    odd = [(name, keys) for name, found in shown.items() for keys in found if not fits(name, keys)]
    assert odd == []


def test_a_time_of_an_alert_is_written_as_in_its_mails() -> None:
    """'for 15 min' beside 'keep firing 10m' are two formats; what is to be copied has its own."""
    page = alerts.text()
    assert "; evaluated every 15 s; " in page
    assert "keep firing for 10 min; " in page
    facts = re.findall(
        r"^(?:Info|Notice|Warning|Critical): (.*?)(?:; threshold|; change)", page, re.MULTILINE
    )
    assert len(facts) > 200
    assert [each for each in facts if re.search(r" \d+(?:ms|[smhd])\b", each)] == []


def test_no_page_has_a_gap() -> None:
    """No empty table, no unfilled template, no link to a heading of the page that is not there."""
    for name, text in PAGES.items():
        page = text()
        anchors = {
            re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
            for title in re.findall(r"^#+ (.+)$", page, re.MULTILINE)
        }
        assert set(re.findall(r"\]\(#([^)]+)\)", page)) - anchors == set(), name
        assert "{{ $" not in page, name
        assert not re.search(r"\| --- \|\n(?!\|)", page), name


def test_what_is_1_or_0_is_yes_or_no_in_a_mail() -> None:
    """'SMART is disabled: 1' is a number of nothing."""
    told = re.compile(r"1 (?:if|when|while) |Whether |1 for (?:a|each) (?!.*\b(?:alert|state)\b)")
    found = [each.name for each in metrics.families() if told.match(each.help)]
    assert len(found) > 50
    others = {"iowarden_alerts", "iowarden_alert_info", "iowarden_smart_access_method_info"}
    assert [n for n in found if value_text(n, 1.0) != "yes" and n not in others] == []
