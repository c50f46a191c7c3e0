"""State of another version: it is converted, or set aside and reported; nothing else is lost.

Nothing was released yet: the version before, and the one after this one, are made up.
"""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from support.live import Live, parsed
from support.live import text as mail_text
from support.lives import Life

from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.service.stored_documents import DOCUMENTS, SCHEMA, Schema
from iowarden.daemon.storage.state_db import OutboxRow, StateChanges, StateDatabase
from iowarden.rules.severity import Severity

if TYPE_CHECKING:
    from email.message import EmailMessage
    from pathlib import Path

DEADLINE_SECONDS = 20.0


def life_of(
    live: Live, directory: Path, schema: Schema = SCHEMA
) -> tuple[Life, list[EmailMessage]]:
    """Play the program to the end of a recording; return it, and its mails."""
    settings = f"host: db1.example.com\nstate_directory: {directory}\nmail: {{to: ops@example.com}}"
    taken: list[bytes] = []
    life = Life(parse_config(settings, "iowarden.yaml"), taken, schema=schema)
    assert not life.play(live.steps)
    return life, [parsed(data) for data in taken]


def degraded(tmp_path: Path) -> tuple[Live, EmailMessage]:
    """Let md0 lose a member; return the machine after the mail about it, and that mail."""
    live = Live(tmp_path)
    live.wait(400)
    live.degrade()
    live.wait(120)
    _, mails = life_of(live, tmp_path / "state")
    (mail,) = (mail for mail in mails if " md0: " in mail["Subject"])
    live.restarted()
    live.wait(20)
    return live, mail


def documents(directory: Path) -> dict[str, str]:
    """Return the documents of state.db as stored."""
    with closing(sqlite3.connect(directory / "state.db")) as connection:
        return dict(connection.execute("SELECT name, text FROM document"))


def change(directory: Path, *statements: str) -> None:
    """Change state.db."""
    with closing(sqlite3.connect(directory / "state.db")) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def store_damaged_mail(directory: Path) -> None:
    """Store a mail whose parts are not a list."""
    row = OutboxRow("<m@db1>", "i", 1, Severity.WARNING, 1.0, ("root@db1",), b"Subject: x\r\n")
    database = StateDatabase(str(directory / "state.db"), lambda _: None)
    database.commit(StateChanges(1, add=(row,)))
    assert database.close(DEADLINE_SECONDS)
    change(directory, "UPDATE outbox SET parts = '{}'")


def with_mails(incidents: dict[str, Any]) -> dict[str, Any]:
    """Convert incidents of the made-up version 1, which had 'letters', to version 2."""
    return {
        key: {("mails" if name == "letters" else name): value for name, value in incident.items()}
        for key, incident in incidents.items()
    }


VERSION_2 = Schema(
    {
        **DOCUMENTS,
        "incidents": replace(
            DOCUMENTS["incidents"],
            digests=("of version 1", *DOCUMENTS["incidents"].digests),
            migrations=(with_mails,),
        ),
    }
)


def test_version_2_of_a_document_continues_what_version_1_began(tmp_path: Path) -> None:
    """The array is complete again after the upgrade: 'resolved' in the thread of version 1's mail.

    Version 1's file is stored next to the new one, unchanged.
    """
    live, opened = degraded(tmp_path)
    directory = tmp_path / "state"
    change(directory, "UPDATE document SET text = replace(text, '\"mails\":', '\"letters\":')")
    before = documents(directory)
    assert '"letters":' in before["incidents"]
    live.degrade(0)
    live.wait(640)
    life, (resolved,) = life_of(live, directory, VERSION_2)
    assert resolved["Subject"].startswith("[OK] db1.example.com: md0: ")
    assert resolved["References"] == opened["Message-ID"]
    after = documents(directory)
    assert "incidents" not in after
    assert '"mails":' in after["incidents.v2"]
    copy = directory / "state.db.before-v2"
    assert any(f"converted to version 2; a copy for a downgrade is '{copy}'" in line
               for line in life.log)  # fmt: skip
    copy.rename(directory / "state.db")
    assert documents(directory) == before


def unreadable(life: Life) -> dict[str, float]:
    """Return the samples of '/metrics' about documents that are not used completely."""
    name = "iowarden_state_unreadable"
    lines = life.exposition.render().decode().splitlines()
    return {
        " ".join(line.partition(f'{label}="')[2].partition('"')[0]
                 for label in ("document", "reason")): float(line.rpartition(" ")[2])
        for line in lines if line.startswith(name + "{")
    }  # fmt: skip


def test_what_cannot_be_read_is_a_text_and_an_alert_and_costs_nothing_else(
    tmp_path: Path,
) -> None:
    """An alert's state and a row of the outbox are damaged; the silences are of a newer version.

    Mails continue; the second start still has the text, and the newer document is unchanged.
    """
    live, opened = degraded(tmp_path)
    directory = tmp_path / "state"
    before = documents(directory)
    firing, flapping = '"state":"firing","value"', '"state":"flapping","value"'
    change(
        directory,
        f"UPDATE document SET text = replace(text, '{firing}', '{flapping}') WHERE name = 'alerts'",
        "UPDATE document SET name = 'silences.v2' WHERE name = 'silences'",
    )
    store_damaged_mail(directory)
    live.degrade(0)
    live.wait(1000)
    life, mails = life_of(live, directory)
    assert unreadable(life) == {
        "alerts unreadable": 1.0, "outbox unreadable": 1.0, "silences newer": 1.0
    }  # fmt: skip
    (report,) = (
        mail for mail in mails if "'alerts' could not be read completely" in mail_text(mail)
    )
    assert report["Subject"].startswith("[WARNING] db1.example.com: iowarden itself")
    (resolved,) = (mail for mail in mails if mail["References"] == opened["Message-ID"])
    assert resolved["Subject"].startswith("[OK] db1.example.com: md0: ")
    (text,) = directory.glob("state.db.alerts-*.json")
    items = [*json.loads(text.read_text())["content"].values()]
    stored = [alert for alert in json.loads(before["alerts"]) if alert["state"] == "firing"]
    assert items == [alert | {"state": "flapping"} for alert in stored] != []
    assert documents(directory)["silences.v2"] == before["silences"]
    assert any("document 'silences': written by a newer iowarden (version 2" in line
               for line in life.log)  # fmt: skip
    text.unlink()
    live.restarted()
    live.wait(20)
    life, _ = life_of(live, directory)
    assert unreadable(life) == {"outbox unreadable": 1.0, "silences newer": 1.0}
