"""The pictures of mails that a person looks at: tests/bench/mail_pictures.py runs."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from bench import mail_pictures
from support import browser as browsers
from support.first_screen import LINES

from iowarden.daemon.notify.message import render
from iowarden.rules.notice import Notice, Reason
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from pathlib import Path

NOTICE = Notice(
    incident="1424a46a34",
    number=1,
    references=(),
    reason=Reason.OPENED,
    severity=Severity.CRITICAL,
    object="md0",
    summary="1 member of md0 missing",
    opened_seconds=1_700_000_000.0,
    realtime_seconds=1_700_000_060.0,
    recurrences=0,
    sentences=("critical MdDegraded, since 1 min ago",),
    meaning=("Another failure may lose all data.",),
    evidence=(),
    affected=("/db (ext4) is on md0",),
    advice=("The full state of the array:\n  mdadm --detail /dev/md0\n",),
    unknown=(),
    ended_seconds=None,
)
MISSING = "" if shutil.which("w3m") else "w3m"
needs_w3m = pytest.mark.skipif(
    bool(MISSING), reason=f"no {MISSING}: 'make test-system' installs it"
)


@needs_w3m
def test_a_mail_has_a_page_of_its_text_and_two_of_its_html() -> None:
    """The text as w3m shows it, with a line where the first screen ends; and without styles."""
    mail = render(NOTICE, "db1.example.com", "iowarden@db1", ("ops@example.com",))
    found = dict(mail_pictures.pages(mail))
    assert list(found) == ["text", "html", "stripped"]
    screen, _, _ = found["text"].partition("<hr>")
    assert screen.count("\n") < LINES
    assert "Subject: [CRITICAL] db1.example.com: md0: 1 member missing" in screen
    assert "mdadm --detail /dev/md0" in found["stripped"]
    assert "style=" not in found["stripped"]


@needs_w3m
@pytest.mark.system  # a browser starts
@pytest.mark.skipif(bool(browsers.missing()), reason=f"no {browsers.missing()}")
def test_each_look_of_a_mail_is_a_picture_and_no_word_is_lost(tmp_path: Path) -> None:
    """Phone and desktop, light and dark, and without styles."""
    path = tmp_path / "mail.eml"
    mail = render(NOTICE, "db1.example.com", "iowarden@db1", ("ops@example.com",))
    path.write_bytes(mail.as_bytes())
    with browsers.browser() as chromium:
        line = mail_pictures.pictures(path, chromium)
    assert "LOST" not in line
    names = {each.name for each in tmp_path.glob("mail.*.png")}
    assert names == {f"mail.{look}.png" for look in (*mail_pictures.LOOKS, "text", "stripped")}
