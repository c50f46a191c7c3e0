"""The configuration's text is edited, not written anew: what an administrator wrote in it stays."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from iowarden.daemon.config.keys import example
from iowarden.daemon.setup import yaml_edit
from iowarden.daemon.setup.yaml_edit import ConfigEditError

WANTED: dict[str, object] = {
    "mail.server": "mail.example.com",
    "mail.port": 587,
    "mail.to": ["a@example.com", "b@example.com"],
    "self_tests": [{"disks": "*", "short": "Sun 02:00", "long": "Sat *-*-1..7 03:00"}],
}
OWN = """\
# Storage team, room 4
mail:   # see the wiki
  to:
    - a@example.com # on call
    # second line
    - c@example.com
  # the old one:
  server: "old.example.com" # until June
unknown_key: {a: 1}   # of another version
"""


@pytest.mark.parametrize(
    "text",
    [
        "",
        "host: db1",
        "mail:\n",
        "host: db1\nmail:\n  # a note\n\nunknown_key: [1, 2]\n",
        "mail: {}\r\nhost: db1\r\n",
        "mail: {server: old.example.com, to: root}\n",
        OWN,
        example(),
    ],
)
def test_values_are_set_once_and_a_second_run_changes_nothing(text: str) -> None:
    """Whatever the file looks like, the second result is equal to the first, byte by byte."""
    once = yaml_edit.changed(text, WANTED)
    found = yaml.safe_load(once)
    before = yaml.safe_load(text) or {}
    assert found["mail"] == {**(before.get("mail") or {}), **found["mail"]} | {
        "server": "mail.example.com",
        "port": 587,
        "to": ["a@example.com", "b@example.com"],
    }
    assert found["self_tests"] == WANTED["self_tests"]
    assert found.get("unknown_key") == before.get("unknown_key")
    assert yaml_edit.changed(once, WANTED) == once


def test_every_comment_is_still_there() -> None:
    """Also those within a value that is replaced, and those after it in its line."""
    after = yaml_edit.changed(OWN, WANTED)
    comments = [line.partition("#")[2] for line in OWN.splitlines() if "#" in line]
    assert [each for each in comments if f"#{each}" not in after] == []
    assert "unknown_key: {a: 1}   # of another version\n" in after


def test_a_key_stands_below_its_example() -> None:
    """A file that was made from the example stays readable: each value next to its explanation."""
    lines = yaml_edit.changed(example(), WANTED).splitlines()
    assert lines[lines.index("  server: mail.example.com") - 1] == "  #server: mail.example.com"
    assert [line for line in lines if line not in example().splitlines()] == [
        "  server: mail.example.com",
        "  port: 587",
        "  to: [a@example.com, b@example.com]",
        "self_tests: [{disks: '*', short: 'Sun 02:00', long: 'Sat *-*-1..7 03:00'}]",
    ]


def test_a_removed_key_is_commented_out() -> None:
    """The account of a former mail server is not used, and not lost."""
    text = "mail:\n  server: a # x\n  user: me # y\n  to:\n    - b@c\n"
    assert yaml_edit.changed(text, {"mail.user": None, "mail.to": None}) == (
        "mail:\n  server: a # x\n  #user: me # y\n  #to:\n  #  - b@c\n"
    )


@pytest.mark.parametrize("value", ["it's", "yes", "07", "a: b", "#x", "- x", "", "é\t", "*", "1e3"])
def test_any_text_stays_the_text_that_it_is(value: str) -> None:
    """A user name such as 'yes' or '07' does not become a boolean or a number."""
    after = yaml_edit.changed("mail:\n  server: a\n", {"mail.user": value})
    assert yaml.safe_load(after) == {"mail": {"server": "a", "user": value}}


@pytest.mark.parametrize(
    "text",
    [
        "mail: &m\n  to: root\nother: *m\n",
        "---\nhost: a\n...\n",
        "mail:\n  to: >\n    root\n  from: a@b\n",
        "mail: root\n",
    ],
)
def test_what_cannot_be_edited_safely_is_refused(text: str) -> None:
    """Aliases, document ends, folded texts: an editor is safer, and the text says so."""
    with pytest.raises(ConfigEditError, match=r"mail\.server, .* in an editor"):
        yaml_edit.changed(text, WANTED)


@pytest.mark.parametrize("text", ["a: [1", "- a\n", "\tx: 1", "a: !!python/none x"])
def test_what_is_no_configuration_is_named(text: str) -> None:
    """A file with a YAML error is corrected first, by the one who wrote it."""
    with pytest.raises(ConfigEditError, match="first"):
        yaml_edit.values(text)


def test_the_example_is_the_one_that_is_installed() -> None:
    """The keys are found in the file that 'make install' puts into /etc."""
    installed = Path(__file__).parents[3] / "packaging" / "iowarden.yaml"
    assert installed.read_text(encoding="utf-8") == example()
