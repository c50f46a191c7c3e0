"""The configuration file: valid files are parsed, errors are reported with their line."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iowarden.collectors.filesystem.backups import WatchedDirectory
from iowarden.daemon.config import load
from iowarden.daemon.config.keys import KEYS, Key, example
from iowarden.daemon.config.load import MAX_BYTES, fully_qualified, load_config, machine_name
from iowarden.daemon.config.parser import parse_config
from iowarden.daemon.config.schema import ConfigError
from iowarden.daemon.duration import duration_seconds

EXAMPLE = Path(__file__).parents[3] / "packaging" / "iowarden.yaml"
FILE = "/etc/iowarden/iowarden.yaml"


def problems(text: str) -> tuple[str, ...]:
    """Return the lines of the error for a text, without the name of the file."""
    with pytest.raises(ConfigError) as caught:
        parse_config(text, FILE)
    return tuple(problem.removeprefix(f"'{FILE}'") for problem in caught.value.problems)


def problem(text: str) -> str:
    """Return the only line of the error for a text."""
    (only,) = problems(text)
    return only


def set_in_example(key: Key) -> str:
    """Return the example file without the '#' before one key."""
    section, _, name = key.path.rpartition(".")
    before, head, after = EXAMPLE.read_text().partition(f"\n{section}:\n" if section else "\n")
    assert head, f"no section {section}"
    indent = "  " if section else ""
    end = re.search(r"^\w", after, flags=re.MULTILINE) if section else None
    own, rest = (after, "") if end is None else (after[: end.start()], after[end.start() :])
    changed, count = re.subn(rf"^{indent}#{name}:", f"{indent}{name}:", own, flags=re.MULTILINE)
    assert count == 1, f"no line for {key.path}"
    return before + head + changed + rest


def test_node_exporters_series_are_shown_only_when_queried() -> None:
    """A second node_uname_info on a host breaks public rules: never by default."""
    assert parse_config("", FILE).expose_node is False
    assert parse_config("expose: {node: true}\n", FILE).expose_node is True
    assert "did you mean 'expose.node'?" in problem("expose: {nodes: true}")


def test_series_of_other_exporters_are_labelled_as_a_prometheus_would() -> None:
    """The instance is the host; the job is named as in the administrator's Prometheus."""
    targets = parse_config("host: db1\ntargets: {node_job: os}\n", FILE).targets
    assert targets["node"] == (("instance", "db1"), ("job", "os"))
    assert targets["smartctl"] == (("instance", "db1"), ("job", "smartctl"))


# --- The example file.


def test_the_example_is_what_the_table_of_keys_reports() -> None:
    """Every key with default and explanation; after a change: write `example()` to it."""
    assert EXAMPLE.read_text() == example()


def test_the_example_as_shipped_changes_nothing() -> None:
    """A first installation runs with the defaults."""
    assert load_config(str(EXAMPLE)) == parse_config("", FILE, machine_name())


@pytest.mark.parametrize("key", [key for key in KEYS if key.default], ids=lambda key: key.path)
def test_a_default_shown_in_the_example_is_the_default(key: Key) -> None:
    """Removing the '#' before a key that shows its default changes nothing."""
    assert parse_config(set_in_example(key), FILE) == parse_config("", FILE)


SAID_IN_WORDS = [
    key
    for key in KEYS
    if not key.default and key.path != "mail.port"  # 25 is also what it is without a server
]


@pytest.mark.parametrize("key", SAID_IN_WORDS, ids=lambda key: key.path)
def test_an_example_value_is_accepted_and_used(key: Key) -> None:
    """The example value of a key without a default is valid."""
    text = set_in_example(key)
    partners = {
        "mail.server": "to: a@b.c",
        "mail.user": "password_file: /p",
        "mail.password_file": "user: u",
        "mail.password_credential": "user: u",
    }
    second = "server: mx2.example"
    log_in = f"{second}\n  password_file: /p"
    fallback = {
        "mail_fallback.server": "port: 25",
        "mail_fallback.port": second,
        "mail_fallback.user": log_in,
        "mail_fallback.password_file": f"{second}\n  user: u",
        "mail_fallback.password_credential": f"{second}\n  user: u",
    }
    if partner := fallback.get(key.path):
        text = text.replace("\nmail:\n", "\nmail:\n  server: mx1.example\n  to: a@b.c\n")
        text = text.replace("\nmail_fallback:\n", f"\nmail_fallback:\n  {partner}\n")
    if partner := partners.get(key.path):
        text = text.replace("\nmail:\n", f"\nmail:\n  {partner}\n")
    assert parse_config(text, FILE) != parse_config("", FILE)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: key.path)
def test_every_key_has_an_explanation_and_a_valid_example(key: Key) -> None:
    """The table is the documentation; its examples appear in error messages."""
    assert key.explanation.endswith(".")
    assert bool(key.default) != bool(key.otherwise)
    key.kind.read(key.example)


# --- What is right.


def test_an_empty_file_means_the_defaults_of_the_design() -> None:
    """Nothing set: loopback only, a Maildir, one-second sampling."""
    got = parse_config("# nothing\n", FILE, "db1.example.com")
    assert got.host == got.mail.hello == "db1.example.com"
    assert got.listen == (("127.0.0.1", 9748),)
    assert got.mail.server is None
    assert got.mail.sender == "iowarden@db1.example.com"
    assert got.interval_seconds["diskstats"] == 1
    assert got.interval_seconds["block"] == 60
    assert got.evaluation_interval_seconds == 15
    assert got.warning_group_wait_seconds == 60
    assert got.resolve_after_seconds == 600
    assert got.close_after_seconds == 86400
    assert got.reopen_within_seconds == got.remind_after_seconds == 7 * 86400


def test_a_whole_file_is_understood() -> None:
    """A database server with its own relay, two addresses and two receivers."""
    got = parse_config(
        """
host: db1
listen: [127.0.0.1:9748, "[::1]:9748"]
shipped_rules: no
state_directory: /srv/iowarden/
mail:
  server: mail.example.com
  tls: starttls
  to: [root, storage+db@example.com]
  timeout: 1m30s
  unsent_critical_after: 4h
intervals: {meminfo: 2s}
close_after: 1d
""",
        FILE,
    )
    assert got.host == "db1"
    assert got.listen == (("127.0.0.1", 9748), ("::1", 9748))
    assert got.shipped_rules is False
    assert got.state_directory == "/srv/iowarden"
    assert got.mail.to == ("root", "storage+db@example.com")
    assert (got.mail.port, got.mail.timeout_seconds) == (587, 90)
    assert got.mail.unsent_critical_after_seconds == 4 * 3600
    assert got.interval_seconds["meminfo"] == 2.0


@pytest.mark.parametrize(
    ("mail", "port"),
    [
        ("server: localhost", 25),
        ("server: 127.0.0.2", 25),
        ("server: '::1'", 25),
        ("server: mail.example.com", 587),
        ("{server: mail.example.com, tls: none}", 25),
        ("{server: mail.example.com, tls: opportunistic}", 25),
        ("{server: localhost, tls: starttls}", 587),
        ("{server: mail.example.com, tls: tls}", 465),
        ("{server: mail.example.com, tls: tls, port: 25}", 25),
    ],
)
def test_the_port_follows_from_the_server_and_its_encryption(mail: str, port: int) -> None:
    """RFC 5321, 6409 and 8314 define a port each; a configured port takes precedence."""
    inner = mail.strip("{}")
    assert parse_config(f"mail: {{to: root, {inner}}}", FILE).mail.port == port


def test_a_section_whose_keys_are_all_commented_out_is_empty() -> None:
    """As in the example file: 'mail:' and then comments only."""
    assert parse_config("mail:\n  #server: x\nhost: a\n", FILE).host == "a"


UNITS = ("y", 365 * 86400), ("w", 604800), ("d", 86400), ("h", 3600), ("m", 60), ("s", 1)


@given(st.lists(st.none() | st.integers(0, 999), min_size=6, max_size=6).filter(any))
def test_a_duration_is_the_sum_of_its_parts(counts: list[int | None]) -> None:
    """Any parts in Prometheus's order, from years to seconds."""
    parts = [
        (count, unit, seconds)
        for count, (unit, seconds) in zip(counts, UNITS, strict=True)
        if count is not None
    ]
    text = "".join(f"{count}{unit}" for count, unit, _ in parts)
    assert duration_seconds(text) == sum(count * seconds for count, _, seconds in parts)


@pytest.mark.parametrize(
    "text", ["", "s", "1", "1.5h", "-1s", "1m1h", "1s1s", "1 s", "1S", "\u0661s"]
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    """Prometheus refuses these as well, all but 0."""
    with pytest.raises(ValueError, match=r"^$|a number needs its unit"):
        duration_seconds(text)


# --- What is wrong.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("mail: {port: abc}", 'mail.port = "abc": expected a port number 1-65535; example: '),
        ("mail: {port: 0}", 'mail.port = "0": expected a port number'),
        ("mail: {port: 65536}", 'mail.port = "65536": expected a port number'),
        ("mail: {port: 0x19}", 'mail.port = "0x19": expected a port number'),
        ("mail: {port: '25'}", "remove the quotes"),
        ("mail: {port: [25]}", "mail.port = a list: expected a port number"),
        ("mail: {tls: on}", 'mail.tls = "on": expected one of auto, none, starttls'),
        ("mail: {to: []}", "mail.to = []: expected mail addresses"),
        ("mail: {to: [a@b.c, a@b.c]}", "mail.to: the same value twice"),
        ('mail: {to: "a@b.c\\nBcc: x@y.z"}', "mail.to = "),
        ("mail: {to: ['a b@c.d']}", 'mail.to = "a b@c.d": expected mail addresses'),
        ("mail: {server: 'm:25', to: root}", "without a port"),
        ("mail: here", "mail: expected 'key: value' lines, got a text"),
        ("warning_group_wait: 60", "a number needs its unit: 60s for seconds"),
        ("warning_group_wait: 1:30", 'warning_group_wait = "1:30": expected a duration'),
        ("warning_group_wait: 2h", "expected a duration from 0s to 1h"),
        ("close_after: " + "9" * 5000 + "s", "close_after = "),
        ("shipped_rules: 'no'", "expected true or false, without quotes"),
        ("shipped_rules:", "shipped_rules = nothing: expected true or false"),
        ("host: 12", "put it in quotes"),
        ("host: db_1..example", "expected a host name"),
        ("listen: localhost:9748", "expected an IP address and a port"),
        ("listen: 127.0.0.1", "expected an IP address and a port"),
        ("listen: 127.0.0.1:99999", "expected an IP address and a port"),
        ("listen: ::1:9748", "expected an IP address and a port"),
        ("listen: '[127.0.0.1]:1'", "expected an IP address and a port"),
        ("state_directory: var", "expected an absolute path"),
        ("state_directory: /var/../etc", "expected an absolute path"),
        ("state_directory: !!python/object:os.system x", "expected an absolute path"),
        ("shiped_rules: true", "shiped_rules: unknown key; did you mean 'shipped_rules'?"),
        ("port: 25", "port: unknown key; did you mean 'mail.port'?"),
        ("mail: {zzz: 1}", "mail.zzz: unknown key; expected one of enabled, server, port"),
        ("smart: {periode: 3}", "smart.periode: unknown key; expected one of interval,"),
        ("{<<: {host: a}}", "<<: unknown key"),
        ("? [a]\n: b", "the file: expected a key, got a list"),
        (
            "mail: {user: me}",
            "mail.user: expected 'mail.password_file' or 'mail.password_credential' as well",
        ),
        ("mail: {password_credential: p}", "password_credential: expected 'mail.user' as well"),
        ("mail: {user: u, password_credential: ../p}", "expected a name of letters, digits,"),
        (
            "mail: {user: u, password_file: /p, password_credential: p}",
            "mail.password_credential: expected it or 'mail.password_file', got both",
        ),
        ("mail: {password_file: /p}", "mail.password_file: expected 'mail.user' as well"),
        ("mail: {server: m.example.com}", "mail.server: expected 'mail.to' as well"),
        ("resolve_after: 2d", "expected 'resolve_after' to be no longer than 'close_after'"),
        ("- a", "the file: expected 'key: value' lines, got a list"),
        ("[" * 5000, "expected at most 8 levels"),
        ("host: &a x\nmail: {hello: *a}", "2: expected no alias, got '*' and a name"),
        ("host: a\n\tb: c", "2: not YAML"),
        ("host: a\n\tb: c", "'\\t' that cannot start any token; indent with spaces"),
        ('host: "\\UFFFFFFFF"', "1: not YAML: after this, a number is out of range"),
        ("host: a\n--- \nhost: b", "2: not YAML"),
        ("host: a\n# \x07", "2: not YAML: expected text, got U+0007"),
        ("host: a\nlisten: 127.0.0.1:1\nhost: b", "3: host: given before, in line 1"),
        ("smart: {wake_after: 5m}", 'wake_after = "5m": expected never, or a duration from 1h to'),
        ("smart: {drives: /dev/sda}", "a list of up to 1000 drives, got a text; example:"),
        ("smart: {drives: [/dev/sda]}", "drive 1: expected 'key: value' lines, got a text"),
        ("smart: {drives: [{pth: x}]}", "smart.drives, drive 1: 'pth': expected one of path,"),
        ("smart:\n  drives:\n  - {type: sat}", "3: smart.drives, drive 1: expected 'path' or"),
        ("smart: {drives: [{path: /dev/sda, type: jmb39x}]}", "which writes to sector 33"),
        ("smart: {drives: [{path: /dev/sda, ignore: 3}]}", "'ignore': expected true or false"),
        ("smart: {drives: [{path: /dev/sda, profile: all}]}", "expected one of full, basic, minim"),
        ("smart: {drives: [{path: /dev/sda}, {path: /dev/sda, type: sat}]}", "same as drive 1"),
        ("overrides: [A]", "overrides: expected 'key: value' lines, got a list"),
        ("overrides: {A: off}", "overrides.A: expected 'key: value' lines, got a text"),
        ("overrides: {[a]: {}}", "overrides: expected a key, got a list"),
        (
            "overrides:\n  A: {for: 5m}\noverrides:\n  B: {}",
            "3: overrides: given before, in line 1; put these lines below that one",
        ),
        ("overrides:\n  A: {for: 5m}\n  A: {}", "3: overrides.A: given before, in line 2"),
        ("overrides: {A: {fro: 5m}}", "overrides.A.fro: unknown key; expected one of enabled,"),
        ("overrides: {A: {for: 5}}", 'overrides.A.for = "5": expected a duration from 0s to 1y'),
        ("overrides: {A: {severity: bad}}", "expected one of critical, warning, notice, info"),
        ("overrides: {A: {threshold: high}}", 'threshold = "high": expected a number'),
        ("overrides: {A: {threshold: {b: [1]}}}", "threshold = a list: expected a number"),
        ("overrides: {A: {expr: ' '}}", 'overrides.A.expr = " ": expected an expression'),
        ("override: {A: {for: 5m}}", "override: unknown key; did you mean 'overrides'?"),
    ],
)  # fmt: skip
def test_one_mistake_is_one_line_with_its_reason(text: str, expected: str) -> None:
    """An administrator reads it at night and finds the place."""
    line = problem(text)
    assert expected in line
    assert re.match(r":[0-9]+: ", line)
    assert line.isprintable()
    assert len(line) < 400


def test_all_mistakes_of_a_file_are_reported_at_once_in_its_order() -> None:
    """Three errors are reported in one attempt."""
    text = "host: a\nmail:\n  port: x\n\n  prot: 25\nlisten: y\n"
    assert [line.partition(" ")[0] for line in problems(text)] == [":3:", ":5:", ":6:"]


def test_a_password_in_the_file_is_refused_and_not_repeated() -> None:
    """More people can read the journal than the file: values are not shown."""
    line = problem("mail:\n  password: hunter2\n")
    assert line == ":2: mail.password: unknown key; did you mean 'mail.password_file'?"


def outcome(text: str) -> tuple[str, ...]:
    """Return the problems of a text; any other exception fails the test."""
    try:
        parse_config(text, FILE)
    except ConfigError as error:
        return error.problems or ("no problem told",)
    return ()


@given(st.text(max_size=40) | st.binary(max_size=40).map(lambda raw: raw.decode("latin-1")))
def test_no_text_makes_anything_but_a_configuration_or_its_error(text: str) -> None:
    """Any bytes."""
    assert all(line.startswith(f"'{FILE}':") for line in outcome(text))


@given(
    st.sampled_from([key.path for key in KEYS]),
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30),
)
def test_no_value_of_a_key_makes_anything_but_a_configuration_or_its_error(
    path: str, value: str
) -> None:
    """Any printable value behind any key."""
    section, _, name = path.rpartition(".")
    text = f"{section}:\n  {name}: {value}" if section else f"{name}: {value}"
    assert all(line.startswith(f"'{FILE}':") for line in outcome(text))


# --- The file itself.


def refused(path: Path | str) -> str:
    """Return the only line of the error for a file."""
    with pytest.raises(ConfigError) as caught:
        load_config(str(path))
    (only,) = caught.value.problems
    return only


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A mistyped --config must not fall back to the defaults."""
    path = tmp_path / "none.yaml"
    assert refused(path).startswith(
        f"'{path}': expected a readable configuration file, got 'No such"
    )


def test_a_directory_a_pipe_and_a_huge_file_are_refused(tmp_path: Path) -> None:
    """None of them is read to its end; the pipe has no writer."""
    pipe, huge = tmp_path / "pipe", tmp_path / "huge"
    os.mkfifo(pipe)
    huge.write_bytes(b"#" * (MAX_BYTES + 1))
    assert "expected a " in refused(tmp_path)
    assert "expected a regular file" in refused(pipe)
    assert f"expected at most {MAX_BYTES} bytes" in refused(huge)


def test_a_file_that_is_not_text_is_refused_with_the_line(tmp_path: Path) -> None:
    """Latin-1 from an old editor, and a program given by mistake."""
    path = tmp_path / "latin.yaml"
    path.write_bytes(b"host: a\n# Gr\xfc\xdfe\n")
    assert "expected UTF-8 text, got byte 0xfc in line 2" in refused(path)


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    """Some editors put one before any UTF-8."""
    path = tmp_path / "bom.yaml"
    path.write_bytes(b"\xef\xbb\xbfhost: a\n")
    assert load_config(str(path)).host == "a"


@pytest.mark.parametrize(
    "text",
    [
        "mail: {password: S}",
        "mail: S",
        "mail:\n  S",
        "mail: {password_file: S}",
        "mail: {password_file: [S]}",
        "mail_fallback: {password_credential: 'a/S'}",
        "mail: {server: 'smtp://u:S@mx1', to: a@b.example}",
        "mail: {server: 'smtp://u:/S@mx1', to: a@b.example}",
        "mail: {server: 'u:S@mx1', to: a@b.example}",
        "mail: {server: 'u:/S@mx1:25', to: a@b.example}",
        "mail_fallback: {server: 'u:@/S@mx1'}",
        "mail: {password: 'S}",
        'mail: {password: "S\\q"}',
        "mail: {password: *S}",
        "mail: {password: !S x}",
        "notify: S",
        "notify: [S]",
        "notify: [{name: ops, type: webhook, token: S}]",
        "notify: [{name: ops, type: webhook, token_file: S}]",
        "notify: [{name: ops, type: webhook, url: 'https://u:S@h/x'}]",
        "notify: [{name: ops, type: webhook, url: 'https://h/x?key=S'}]",
        "notify: [{name: ops, type: webhook, proxy: 'http://u:S@h:1'}]",
        "notify: [{name: ops, type: webhook, url: 'https://h/x', headers: {X-Key: S}}]",
    ],
)
def test_a_secret_in_the_wrong_place_is_refused_and_not_shown(text: str) -> None:
    """The journal, 'config check' and the mail about a failed start show the errors."""
    with pytest.raises(ConfigError) as refusal:
        parse_config(text.replace("S", "hunter2x"), FILE)
    assert "hunter2x" not in str(refusal.value)
    assert FILE in str(refusal.value)


@pytest.mark.parametrize(
    ("password", "problem"),
    [
        ("abcde", "at least 6 characters, got fewer"),
        ("a  b  c", "at least 6 characters, got fewer"),
        ("%41%42%43", "at least 6 characters, got fewer"),
        ("gr\u00fc\u00dfe-gott", "printable ASCII characters, got others"),
    ],
)
def test_a_password_that_is_no_secret_is_refused(
    password: str, problem: str, tmp_path: Path
) -> None:
    """It is replaced in every message: a short one would be in half of them."""
    line = refused(with_password(tmp_path, password + "\n"))
    assert problem in line
    assert password not in line


def with_password(folder: Path, content: str, mode: int = 0o640) -> Path:
    """Return a configuration whose password file has this content and mode."""
    secret, path = folder / "password", folder / "iowarden.yaml"
    secret.write_text(content)
    secret.chmod(mode)
    path.write_text(f"mail: {{server: localhost, to: root, user: me, password_file: {secret}}}")
    return path


def test_the_password_is_the_first_line_of_its_file(tmp_path: Path) -> None:
    """The password is not in the printed configuration."""
    got = load_config(str(with_password(tmp_path, "p: a#ss \nsecond\n")))
    assert got.mail.password == "p: a#ss "
    assert "a#ss" not in repr(got)


@pytest.mark.parametrize("mode", [0o644, 0o602])
def test_a_password_others_can_read_or_replace_is_refused_with_the_cure(
    mode: int, tmp_path: Path
) -> None:
    """Mode 0644 is the default of an editor. By another password somebody stops all mails."""
    line = refused(with_password(tmp_path, "secret\n", mode))
    assert f"got mode {mode:04o}; try: chmod o= " in line
    assert "secret" not in line


def test_a_password_file_that_is_empty_or_missing_is_refused(tmp_path: Path) -> None:
    """Otherwise the log-in would fail with the first alert."""
    path = with_password(tmp_path, "\n")
    assert "expected the password in its first line, got nothing" in refused(path)
    (tmp_path / "password").unlink()
    assert "got 'No such file or directory'" in refused(path)


CREDENTIAL = "mail: {server: localhost, to: root, user: me, password_credential: mail.p}"


def test_a_password_that_systemd_hands_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LoadCredential=: the service reads only $CREDENTIALS_DIRECTORY."""
    path, handed, store = tmp_path / "c.yaml", tmp_path / "handed", tmp_path / "store"
    path.write_text(CREDENTIAL)
    handed.mkdir()
    store.mkdir()
    (store / "mail.p").write_text("of the store\n")
    monkeypatch.setattr(load, "CREDENTIAL_STORES", (str(tmp_path / "none"), str(store)))
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(handed))
    assert "expected a credential passed by systemd, got none; write the password to" in (
        line := refused(path)
    )
    assert "add 'LoadCredential=mail.p' to the unit" in line
    (handed / "mail.p").write_text("s3cret \nmore\n")
    got = load_config(str(path))
    assert got.mail.password == "s3cret "
    assert "s3cret" not in repr(got)
    (handed / "mail.p").write_text("\n")  # SetCredential= of the unit, without a file
    assert "expected a credential passed by systemd, got none" in refused(path)
    monkeypatch.delenv("CREDENTIALS_DIRECTORY")
    (store / "mail.p").write_text("\n")
    assert "expected the password in its first line" in refused(path)


def test_a_command_finds_the_password_where_systemd_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`config check` and `test-mail` are run by root, without credentials from systemd."""
    path = tmp_path / "c.yaml"
    path.write_text(CREDENTIAL)
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    monkeypatch.setattr(load, "CREDENTIAL_STORES", (str(tmp_path / "none"), str(tmp_path)))
    assert f"expected it in '{tmp_path}/none', got none" in refused(path)
    (tmp_path / "mail.p").write_text("of the store\n")
    assert load_config(str(path)).mail.password == "of the store"
    (tmp_path / "mail.p").write_bytes(b"\xff\n")
    assert f"expected a readable '{tmp_path}/mail.p', got:" in refused(path)


# --- The machine's name.


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("db1", "db1.example.com"),
        ("db2", "db2"),
        ("db3", "db3"),
        ("db1.example.net", "db1.example.net"),
    ],
)
def test_the_full_name_is_the_first_one_in_the_hosts_file(name: str, expected: str) -> None:
    """Debian's installer writes such a line; db2 has none, db3's first name is another host's."""
    hosts = "127.0.0.1 localhost\n# 10.0.0.2 db2.example.com db2\n127.0.1.1 db1.example.com db1\n"
    assert fully_qualified(name, hosts + "10.0.0.3 router.example.com db3\n\n::1") == expected


def test_the_machine_has_a_name() -> None:
    """The host name, or a longer one that begins with it."""
    nodename = subprocess.run(["uname", "-n"], capture_output=True, text=True, check=True).stdout
    assert machine_name().startswith(nodename.strip())


def test_drives_are_written_down_as_people_know_them() -> None:
    """Behind a controller by slot; by a serial number that looks like a number; one left out."""
    got = parse_config(
        """
smart:
  interval: 10m
  wake_after: 7d
  drives:
    - {path: /dev/sg2, type: "areca,1/2", slot: bay 1, profile: basic}
    - {serial: 0012345678}
    - {path: /dev/sdb, ignore: yes}
expose: {smartctl: true}
""",
        FILE,
    )
    assert got.expose_smartctl
    assert (got.smart.interval_seconds, got.smart.raid_interval_seconds) == (600, 3600)
    assert got.smart.wake_after_seconds == 7 * 86400
    behind, known, ignored = got.smart.drives
    assert (behind.path, behind.kind, behind.slot) == ("/dev/sg2", "areca,1/2", "bay 1")
    assert (behind.profile, known.serial, ignored.ignore) == ("basic", "0012345678", True)
    default = parse_config("smart:\n  drives:\n", FILE).smart
    assert (default.interval_seconds, default.wake_after_seconds, default.drives) == (
        1800,
        None,
        (),
    )


def test_overrides_report_what_is_different_about_a_rule() -> None:
    """Thresholds as numbers or durations; a missing one is None."""
    text = (
        "overrides:\n  A: {enabled: no}\n  B/warning: {threshold: 5m, severity: info}\n"
        "  C: {threshold: {x: 1e11, y: -.5}, for: 0s, keep_firing_for: 1h}\n  D:\n"
    )
    off, other, more, nothing = parse_config(text, "c.yaml").overrides
    assert (off.rule, off.place, off.keys) == ("A", "'c.yaml':2", ("enabled",))
    assert (other.thresholds, other.severity) == ((("", 300.0),), "info")
    assert more.thresholds == (("x", 1e11), ("y", -0.5))
    assert (more.for_seconds, more.keep_firing_for_seconds, more.expression) == (0, 3600, None)
    assert nothing.keys == ()


def test_self_tests_are_scheduled_in_the_words_of_systemd() -> None:
    """A group by class and serial number, one for the rest; none by default."""
    text = """
    self_tests:
      - {disks: [rotational, 0815], short: 2:30, long: 'Sat *-*-1..7 03:00', spread: 4h}
      - {disks: '*', conveyance: monthly}
    """
    first, second = parse_config(text, "f.yaml").self_tests
    assert first.disks == ("rotational", "0815")
    assert {kind: c.text for kind, c in first.calendars.items()} == {
        "short": "2:30",
        "long": "Sat *-*-1..7 03:00",
    }
    assert (first.spread_seconds, second.spread_seconds) == (4 * 3600, 2 * 3600)
    assert second.disks == ("*",)
    for none in ("", "self_tests:"):
        assert parse_config(none, "f.yaml").self_tests == ()


def test_scans_are_scheduled_like_self_tests() -> None:
    """A group has one time, 'start'; the times of self-tests are errors there."""
    (group,) = parse_config("scans: [{disks: '*', start: monthly}]", "f.yaml").scans
    assert group.calendars["start"].text == "monthly"
    assert parse_config("", "f.yaml").scans == ()
    with pytest.raises(ConfigError, match="scans, group 1: long: expected one of disks, start"):
        parse_config("scans: [{disks: '*', long: weekly}]", "f.yaml")


def test_watched_directories_have_an_interval_or_learn_it() -> None:
    """Critical is twice the interval unless it is given; none by default, and none if learned."""
    text = """
    watch_directories:
      - {path: /srv/wal/}
      - {path: /srv/backup, glob: '*.dump', interval: 26h, retention: 7d}
      - {path: /srv/backup, glob: '*.tar', interval: 1h, critical: 1h}
    """
    assert parse_config(text, "f.yaml").watch_directories == (
        WatchedDirectory("/srv/wal"),
        WatchedDirectory("/srv/backup", "*.dump", 26 * 3600, 52 * 3600, 7 * 86400),
        WatchedDirectory("/srv/backup", "*.tar", 3600, 3600),
    )
    for none in ("", "watch_directories:"):
        assert parse_config(none, "f.yaml").watch_directories == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/srv", "expected a list of up to 1000 directories"),
        ("[/srv]", "directory 1: expected 'key: value' lines"),
        ("[{path: srv}]", 'directory 1.path = "srv": expected an absolute path'),
        ("[{glob: a}]", "directory 1: expected a path; example: path: /srv/backup"),
        ("[{path: /a, interval: 1m}]", "expected learn, or a duration from 5m to 1y"),
        ("[{path: /a, glob: b/c}]", "expected a pattern of file names, without '/'"),
        ("[{path: /a, retention: soon}]", "expected a duration from 1h to 10y; example: "),
        ("[{path: /a, critical: 2h}]", "an 'interval' as well: what was learned is never critical"),
        ("[{path: /a, interval: 3h, critical: 2h}]", "a duration no shorter than 'interval'"),
        ("[{path: /a, globe: b}]", "globe: expected one of path, glob, interval"),
        ("[{path: /a}, {path: /a/}]", "directory 2: the same as directory 1; remove one"),
        (f"[{', '.join(f'{{path: /{n}}}' for n in range(33))}]", "up to 32 directories; remove"),
    ],
)
def test_a_watched_directory_that_cannot_be_is_refused(text: str, expected: str) -> None:
    """Each error names its entry."""
    with pytest.raises(ConfigError) as error:
        parse_config(f"watch_directories: {text}", "f.yaml")
    (problem,) = error.value.problems
    assert problem.startswith("'f.yaml':1: watch_directories")
    assert expected in problem


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("off", "expected a list of up to 1000 groups"),
        ("[3]", "expected 'key: value' lines"),
        ("[{long: weekly}]", "disks: expected '*'"),
        ("[{disks: [], long: weekly}]", "disks: expected '*'"),
        ("[{disks: , long: weekly}]", "disks: expected '*'"),
        ("[{disks: [[a]], long: weekly}]", "disks: expected '*'"),
        ("[{disks: a, long: Sunn}]", "expected a weekday such as 'Sun'"),
        ("[{disks: a, long: [weekly]}]", "expected a weekday"),
        ("[{disks: a, lomg: weekly}]", "expected one of disks, short, long"),
        ("[{disks: a, short: '*:*'}]", "at most 24 a day, got 1440"),
        ("[{disks: a, spread: 8d}]", "expected a duration from 0s to 7d; example: spread: 2h"),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(text: str, expected: str) -> None:
    """Each error names its group."""
    with pytest.raises(ConfigError) as error:
        parse_config(f"self_tests: {text}", "f.yaml")
    (problem,) = error.value.problems
    assert problem.startswith("'f.yaml':1: self_tests")
    assert expected in problem


# --- The second mail server.


def test_a_second_mail_server_has_its_own_log_in_and_port() -> None:
    """A file with one server stays valid; the second one needs the first."""
    assert parse_config("mail: {server: mx1, to: a@b.c}\n", FILE).mail.fallback is None
    text = """
mail: {server: mx1, to: a@b.c}
mail_fallback: {server: mx2, tls: tls, user: u, password_file: /p}
"""
    found = parse_config(text, FILE).mail.fallback
    assert found is not None
    assert (found.server, found.port, found.user, found.password_file) == ("mx2", 465, "u", "/p")
    assert "expected 'mail.server' as well" in problem("mail_fallback: {server: mx2}")
    assert "expected 'mail_fallback.server' as well" in problem("mail_fallback: {port: 25}")
    same = "mail: {server: mx1, to: a@b.c}\nmail_fallback: {server: mx1}"
    assert "expected another server than 'mail.server', got the same" in problem(same)
    half = "mail: {server: mx1, to: a@b.c}\nmail_fallback: {server: mx2, user: u}"
    assert "mail_fallback.user: expected 'mail_fallback.password_file'" in problem(half)
