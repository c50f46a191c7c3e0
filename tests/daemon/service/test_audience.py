"""Which receiver gets which message of an incident, by what it was sent of it before."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from support.http_receiver import Answer, Server, server
from support.live import RULE, Live, watched
from support.storage import Server as Machine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.live import Watched

QUIET_SECONDS = 700.0
"""After this an incident is reported as resolved."""


@pytest.fixture(name="answers")
def _answers() -> Iterator[Server]:
    with server() as running:
        yield running


def laptop(host: Watched, mode: int, seconds: float) -> None:
    """Let a user's rule fire as a warning from 1 on, as critical from 9 on."""
    host.live.change({"/proc/sys/vm/laptop_mode": f"{mode}\n"})
    host.wait_only(seconds)


def two_severities(tmp_path: Path) -> None:
    """Write the user's rules."""
    rules = tmp_path / "rules.d"
    rules.mkdir(exist_ok=True)
    (rules / "mine.yaml").write_text(
        RULE.replace("SEVERITY", "warning").replace("> 0", "> 0 < 9")
        + RULE.partition("rules:\n")[2].replace("SEVERITY", "critical").replace("> 0", ">= 9")
    )


def hook(answers: Server, name: str, *severities: str) -> str:
    """Return the settings of a webhook."""
    place = f"http://localhost:{answers.port}/{name}"
    return f"{{name: {name}, type: webhook, url: '{place}', severities: [{', '.join(severities)}]}}"


def titles(answers: Server) -> dict[str, list[str]]:
    """Return by receiver what came to it, in its order."""
    by_name: dict[str, list[str]] = {}
    while answers.requests.qsize():
        request = answers.next()
        document = json.loads(request.body)
        by_name.setdefault(request.path[1:], []).append(document["reason"])
    return by_name


def test_a_receiver_that_had_nothing_gets_a_first_message_and_all_that_had_one_the_end(
    tmp_path: Path, answers: Server
) -> None:
    """A warning becomes critical and ends: the pager's first message is no escalation."""
    two_severities(tmp_path)
    hooks = [
        hook(answers, "pager", "critical"),
        hook(answers, "chat", "warning"),
        hook(answers, "archive", "info"),
    ]
    with watched(tmp_path, Live(tmp_path), settings=f"notify: [{', '.join(hooks)}]\n") as host:
        host.wait_only(20)
        laptop(host, 1, 80)
        laptop(host, 9, 120)
        laptop(host, 0, QUIET_SECONDS)
        host.mails()
        came = titles(answers)
    assert came == {"chat": ["opened", "resolved"], "pager": ["opened", "resolved"]}


def test_a_pager_that_was_called_for_an_array_learns_that_it_is_complete(
    tmp_path: Path, answers: Server
) -> None:
    """What remains, a failed disk that another one replaced, is only a warning."""
    machine = Machine(tmp_path)
    for number, letter in enumerate("abc"):
        machine.adapter(number, "ahci")
        machine.disk(f"sd{letter}", f"{number}:0:0:0")
    array = machine.array("md0", "raid1", "sda1", "sdb1", spares=("sdc1",))
    settings = f"notify: [{hook(answers, 'pager', 'critical')}]\n"
    with watched(tmp_path, machine, settings=settings) as host:
        host.wait_only(20)
        array.spares.clear()
        machine.fails("md0", "sdb1")
        array.members[1] = array.recover = "sdc1"
        array.done = 0.125
        machine.array_is("md0")
        host.wait_only(60)
        array.done, array.recover = 0.0, ""
        machine.array_is("md0")
        host.wait_only(200)
        host.mails()
        assert titles(answers) == {"pager": ["opened", "rebuilt"]}


def test_a_receiver_that_takes_the_place_of_another_one_is_told_what_still_lasts(
    tmp_path: Path, answers: Server
) -> None:
    """The first receiver never answered; after a reload there is only another one."""
    two_severities(tmp_path)
    answers.answer = lambda request: Answer(503 if request.path == "/dead" else 200)
    dead = f"notify: [{hook(answers, 'dead', 'warning', 'critical')}]\n"
    with watched(tmp_path, Live(tmp_path), settings=dead) as host:
        host.program.end()
        text = host.program.config.read_text().replace("mail: {", "mail: {enabled: false, ")
        host.program.config.write_text(text)
        host.start_again()
        host.wait_only(20)
        laptop(host, 1, 120)
        host.program.until(answers.requests.qsize, "an attempt")
        assert set(titles(answers)) == {"dead"}
        host.program.config.write_text(text.replace("dead", "ops"))
        host.program.hang_up()
        host.wait_only(20)
        host.program.until(answers.requests.qsize, "the message")
        host.wait_only(60)
        assert titles(answers) == {"ops": ["opened"]}
