"""When mails come and how many, of every incident that tests play: before a change, and after it.

    PYTHONPATH=tests/bench .venv/bin/python -m pytest -q -p mail_times --mail-times=after.jsonl \
        tests/daemon/incidents tests/daemon/replay
    .venv/bin/python tests/bench/mail_times.py after.jsonl            # a line per incident
    .venv/bin/python tests/bench/mail_times.py before.jsonl after.jsonl  # what differs

Nothing here passes or fails. Seconds are those of the played clock.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from iowarden.rules.incidents import due, incidents, mailing
from iowarden.rules.notice import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OPENING = {Reason.OPENED.value, Reason.REOPENED.value}
FRESH = {Reason.RESOLVED.value, Reason.REMINDER.value, Reason.DATA_UNAVAILABLE.value}


@dataclass
class Played:
    """What a test's program concluded of one incident."""

    object: str
    began: float
    """When the fault began, as its first alert knows."""
    opened: float
    urgent: float | None = None
    """When it was first urgent."""
    ended: float | None = None
    """When its last condition was last true."""
    mails: list[tuple[float, str, str]] = field(default_factory=list)
    """Time, reason and severity."""


class Recorder:
    """Records the results of each step of the incidents, in this process."""

    def __init__(self, path: Path) -> None:
        """Append to a file; `found` is that of the running test."""
        self.path = path
        self.found: dict[str, Played] = {}
        self._next, self._replacing = incidents.next_incidents, mailing.replacing

    def install(self) -> None:
        """Watch the two functions that return mails."""
        incidents.next_incidents = self._watched(self._next, 2)  # type: ignore[assignment]
        mailing.replacing = self._watched(self._replacing, 3)

    def _watched(self, function: Callable[..., Any], position: int) -> Callable[..., Any]:
        def watched(*args: Any, **more: Any) -> Any:  # noqa: ANN401 - whatever they take
            now = args[position]
            result = function(*args, **more)
            state, dues = result[0], result[1]
            known = () if function is self._next else args[1]
            for incident in state.by_key.values():
                self._note(incident, now)
            for each in dues:
                own = self._note(each.incident, now)
                # Both return a mail: the second time with those that it replaces.
                if not any(each.incident is old.incident for old in known):
                    severity = each.incident.severity.name.lower()
                    own.mails.append((now, each.reason.value, severity))
            return result

        return watched

    def _note(self, incident: Any, now: float) -> Played:  # noqa: ANN401 - of the program under test
        began = min((m.since_seconds for m in incident.members), default=now)
        own = self.found.setdefault(
            incident.identifier, Played(incident.object, began, incident.opened_seconds)
        )
        own.object = incident.object
        if own.urgent is None and any(map(due.urgent, due.reportable(incident, now))):
            own.urgent = now
        if incident.members and not incident.firing:
            over = [m.over_seconds for m in incident.members if m.over_seconds is not None]
            own.ended = max(over, default=own.ended)
        return own

    def write(self, name: str) -> None:
        """Write the incidents of a test, and forget them."""
        lines = [json.dumps({"test": name, **vars(own)}) + "\n" for own in self.found.values()]
        if not lines:
            lines = [json.dumps({"test": name}) + "\n"]
        with self.path.open("a") as file:
            file.writelines(lines)
        self.found = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--mail-times", type=Path, help="append the incidents of each test to this")


def pytest_configure(config: pytest.Config) -> None:
    """Record in the process that runs tests."""
    path = config.getoption("--mail-times")
    if path is not None:
        recorder = Recorder(path.absolute())
        recorder.install()
        config.pluginmanager.register(_Tests(recorder))


class _Tests:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        result = yield
        self._recorder.write(item.nodeid.partition("::")[2])
        return result


def rows(path: Path) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return the line of each incident, by test and object."""
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for text in path.read_text().splitlines():
        each = json.loads(text)
        if "object" not in each:
            found[each["test"], "-"] = ("no incident",) + ("",) * 6
            continue
        mails = each["mails"]
        news = [at for at, reason, _ in mails if reason not in FRESH]
        over = [at for at, reason, _ in mails if reason == Reason.RESOLVED.value]
        first = news[0] if news else None
        opening = sum(reason in OPENING for _, reason, _ in mails)
        key = each["test"], each["object"]
        while key in found:
            key = key[0], f"{key[1]}'"
        found[key] = (
            _seconds(each["opened"], each["began"]),
            _seconds(first, each["began"]),
            _seconds(first, each["urgent"]) if each["urgent"] is not None else "-",
            str(opening),
            str(len(mails) - opening),
            _seconds(over[-1], each["ended"]) if over and each["ended"] is not None else "-",
            " ".join(f"{severity[0].upper()}:{reason}" for _, reason, severity in mails),
        )
    return found


def _seconds(at: float | None, since: float | None) -> str:
    return "-" if at is None or since is None else f"{at - since:.0f}"


HEAD = ("alert", "mail", "urgent", "opening", "other", "[OK]", "mails")
"""Seconds from the fault to the alert and to the first mail; from urgent to that mail; numbers of
mails; seconds from the end to the resolved mail."""


def main() -> None:
    """Print the table, or what differs between two."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path, nargs="+")
    files = [rows(path) for path in parser.parse_args().file]
    print("\t".join(("test", "object", *HEAD)))
    for key in sorted({key for each in files for key in each}):
        own = [each.get(key, ("missing",)) for each in files]
        if len(own) == 1:
            print("\t".join((*key, *own[0])))
        elif own[0] != own[1]:
            print("\t".join((*key, *own[0])), "\t".join(("", "  now", *own[1])), sep="\n")
    for name, each in zip(("before", "now"), files, strict=False):
        opening = sum(int(row[3]) for row in each.values() if len(row) > 3 and row[3])
        other = sum(int(row[4]) for row in each.values() if len(row) > 3 and row[4])
        told = name if len(files) > 1 else "all"
        print(f"{told}: {len(each)} lines, {opening} opening mails, {other} others")


if __name__ == "__main__":
    main()
