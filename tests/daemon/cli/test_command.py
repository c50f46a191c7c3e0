"""What commands share: which configuration is in force, and which program runs a module."""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from support import hung_directory
from support.program import COMMAND
from support.smtp import free_port

from iowarden.daemon import working_copy
from iowarden.daemon.check import findings
from iowarden.daemon.cli import command, main
from iowarden.daemon.config.schema import ConfigError
from iowarden.daemon.control import listen
from iowarden.daemon.installation import VERSION, module_command
from iowarden.daemon.reference import json_output
from iowarden.daemon.terminal import exit_status

NONE_GIVEN = {"config": None, "state_directory": None}


@pytest.fixture
def default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the path of the default configuration file, which is not there."""
    path = tmp_path / "etc/iowarden.yaml"
    path.parent.mkdir()
    monkeypatch.setattr(command, "DEFAULT_CONFIG", str(path))
    return path


def test_an_installed_package_needs_no_configuration(
    default: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No file: the defaults, for the service and for 'config check', which says so."""
    monkeypatch.setattr(working_copy, "__file__", "/usr/lib/iowarden/daemon/working_copy.py")
    assert command.settings(argparse.Namespace(**NONE_GIVEN)).mail.server is None
    assert main.main(["config", "check"]) == 0
    assert f"no file '{default}': all settings have their default values" in capsys.readouterr().out


def test_a_file_that_was_named_is_needed(default: Path) -> None:
    """Whoever names a file has mistyped it, even if it has the default path."""
    with pytest.raises(ConfigError, match="expected a readable configuration file"):
        command.settings(argparse.Namespace(**{**NONE_GIVEN, "config": str(default)}))


def test_a_lost_file_does_not_replace_the_recipients_by_nobody(default: Path) -> None:
    """The file was there at the start and is gone at a reload, which is refused."""
    default.write_text("mail: {server: m.example.com, to: ops@example.com}\n")
    arguments = argparse.Namespace(**NONE_GIVEN)
    command.require_config(arguments)
    assert command.settings(arguments).mail.server == "m.example.com"
    default.unlink()
    with pytest.raises(ConfigError, match="expected a readable configuration file"):
        command.settings(arguments)


def test_a_file_that_setup_writes_later_is_read_by_a_reload(default: Path) -> None:
    """Nothing was there at the start."""
    arguments = argparse.Namespace(**NONE_GIVEN)
    command.require_config(arguments)
    default.write_text("mail: {server: m.example.com, to: ops@example.com}\n")
    assert command.settings(arguments).mail.server == "m.example.com"


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_a_closed_directory_is_not_an_absent_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """/etc/iowarden is closed to other users: they get an error, not the defaults."""
    with tempfile.TemporaryDirectory() as directory:  # closed to others
        monkeypatch.setattr(command, "DEFAULT_CONFIG", f"{directory}/iowarden.yaml")
        os.seteuid(65534)
        try:
            with pytest.raises(ConfigError, match="Permission denied'; read it as root"):
                command.settings(argparse.Namespace(**NONE_GIVEN))
        finally:
            os.seteuid(0)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, default: Path) -> Path:
    """Return a checkout that this program seems to run from, on a host without a configuration."""
    top = tmp_path / "iowarden"
    (top / "packaging").mkdir(parents=True)
    (top / working_copy.RUNNER).touch()
    (top / working_copy.EXAMPLE).write_text("host: db1\n")
    monkeypatch.setattr(working_copy, "__file__", str(top / "daemon/working_copy.py"))
    assert not default.exists()
    return top


def test_in_a_checkout_a_command_uses_what_make_run_uses(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As root a test mail was written to /var/lib/iowarden, which nothing reads or removes."""
    found = command.settings(argparse.Namespace(**NONE_GIVEN))
    assert (found.host, found.state_directory) == ("db1", str(tree / ".run"))
    assert main.main(["test-mail"]) == 2
    printed = capsys.readouterr()
    assert f"written to '{tree}/.run/Maildir/new/" in printed.out
    own = "cp -n packaging/iowarden.yaml .run/iowarden.yaml, set 'server' and 'to' of 'mail' there"
    assert own in printed.err  # 'iowarden setup' is refused there
    (checked,) = findings.of_mail(found)
    assert own in checked.text


def test_a_checkout_has_a_configuration_of_its_own(
    tree: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """'config check' checked /etc, and only the tracked example could name a mail server."""
    main.main(["config", "check"])
    assert capsys.readouterr().out.startswith(f"'{tree}/packaging/iowarden.yaml' is valid: ")
    (tree / ".run").mkdir()
    (tree / working_copy.CONFIG).write_text("mail: {server: m.example.com, to: a@example.com}\n")
    assert command.settings(argparse.Namespace(**NONE_GIVEN)).mail.server == "m.example.com"
    main.main(["config", "check"])
    assert capsys.readouterr().out.startswith(f"'{tree}/.run/iowarden.yaml' is valid: ")


def test_an_installed_configuration_comes_before_that_of_a_checkout(
    tree: Path, default: Path
) -> None:
    """Whoever has both asks about the installed service."""
    default.write_text("host: db2\n")
    found = command.settings(argparse.Namespace(**NONE_GIVEN))
    assert (found.host, found.state_directory) == ("db2", "/var/lib/iowarden")
    assert tree.exists()


def test_in_a_checkout_the_service_of_make_run_answers(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """While it does not run the command says how it is started there: systemctl cannot."""
    monkeypatch.setattr(listen, "SOCKET", str(tmp_path / "run/control.sock"))
    assert main.main(["status"]) == 1
    assert f"Start it: make run, in '{tree}'" in capsys.readouterr().err
    (tree / ".run").mkdir()
    listen.bind(str(tree / ".run/control.sock")).close()
    assert main.main(["status"]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"iowarden is not running ({tree}/.run/control.sock: ")
    assert f"Start it: make run, in '{tree}'" in error


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_a_service_that_a_user_may_not_ask_is_not_said_to_be_stopped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """'sudo make run' is running: its state is closed to the user whose checkout it is."""
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        top, state = Path(directory), Path(directory, working_copy.STATE)
        (top / "packaging").mkdir()
        (top / working_copy.RUNNER).touch()
        state.mkdir(0o700)
        monkeypatch.setattr(working_copy, "__file__", str(top / "daemon/working_copy.py"))
        monkeypatch.setattr(listen, "SOCKET", f"{directory}/run/control.sock")
        with listen.bind(str(state / listen.FILE_NAME)):
            os.seteuid(65534)
            try:
                assert main.main(["status"]) == 1
            finally:
                os.seteuid(0)
    error = capsys.readouterr().err
    assert error.startswith(f"no access to iowarden ({state}/{listen.FILE_NAME}: permission denied")


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_root_leaves_the_state_of_a_checkout_to_its_user(tree: Path) -> None:
    """'make run' of that user could not go on with files of root."""
    state = str(tree / ".run")
    assert working_copy.owner(state, str(tree)) is None
    os.chown(tree, 65534, -1)
    owner = working_copy.owner(state, str(tree))
    assert owner is not None
    assert owner.pw_uid == 65534
    (tree / ".run").mkdir()  # 'sudo make run' is running
    assert working_copy.owner(state, str(tree)) is None
    assert working_copy.owner("/var/lib/iowarden", str(tree)) is None


def test_a_module_is_started_by_the_interpreter_that_has_it(tmp_path: Path) -> None:
    """Neither the working directory nor PYTHONPATH decides which code runs as root."""
    (tmp_path / "iowarden").mkdir()
    for place in ("iowarden/daemon.py", "psutil.py", "systemd.py"):
        (tmp_path / place).write_text("raise SystemExit('not ours')\n")
    done = subprocess.run(
        [*module_command("iowarden.daemon.probe"), "--help"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.split()[:2]) == (0, ["usage:", "iowarden-probe"])
    assert VERSION[0].isdigit()


_PATHS = """
import argparse, sys
from iowarden.daemon.cli import command, service_client
arguments = argparse.Namespace(config=None, socket=None, state_directory=sys.argv[1])
print(command.settings(arguments).state_directory)
print(service_client._path(arguments))
"""


def test_a_state_directory_that_hangs_is_named_without_a_look_at_it(tmp_path: Path) -> None:
    """Neither the service in the foreground nor a command resolves it: both would wait for ever."""
    if not hung_directory.is_possible(tmp_path):
        pytest.skip("no FUSE here")
    state = tmp_path / "state"
    shown = hung_directory.run(
        tmp_path, sys.executable, "-c", _PATHS, str(state), timeout_seconds=20.0
    )
    assert shown.stdout.splitlines() == [str(state), f"{state}/control.sock"]


@pytest.mark.system
def test_the_service_starts_in_the_foreground_although_its_state_directory_hangs(
    tmp_path: Path,
) -> None:
    """It waits 5 s for the lock and 5 s for the socket, monitors, and says that it has no state."""
    if not hung_directory.is_possible(tmp_path):
        pytest.skip("no FUSE here")
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/iowarden.yaml"
        with open(path, "w", encoding="ascii") as file:
            file.write(f"host: db1\nlisten: 127.0.0.1:{free_port()}\n")
        program = (str(COMMAND), "run", "--config", path)
        ended = hung_directory.run(
            tmp_path,
            *("/usr/bin/timeout", "--signal=TERM", "20", *program),
            *("--state-directory", str(tmp_path / "state")),
            timeout_seconds=60.0,
        )
    assert "monitors this machine" in ended.stderr
    assert "the state directory does not answer: no answer within 5 s" in ended.stderr
    assert "state.db could not be written: alerts and mails since" in ended.stderr


def test_a_taken_port_ends_a_run_in_the_foreground(tmp_path: Path) -> None:
    """The banner would name the page of another program, mostly of the installed service."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        config = tmp_path / "iowarden.yaml"
        config.write_text(f"host: db1\nlisten: 127.0.0.1:{port}\nstate_directory: {tmp_path}/s\n")
        program = (str(COMMAND), "run", "--config", str(config))
        ended = subprocess.run(program, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    error = ended.stderr
    assert f"http: '127.0.0.1:{port}': expected a free address" in error
    assert f"ss -ltnp 'sport = :{port}'; or set another 'listen'" in error
    assert "monitors this machine" not in error


def test_config_check_takes_the_file_like_other_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As '--config FILE', or as its argument; not both."""
    draft = tmp_path / "draft.yaml"
    (tmp_path / "rules.d").mkdir()
    draft.write_text(f"host: db1\nrules_directory: {tmp_path}/rules.d\n")
    for words in (["--config", str(draft)], [str(draft)]):
        assert main.main(["config", "check", *words]) == 0
        assert capsys.readouterr().out.startswith(f"'{draft}' is valid: ")
    with pytest.raises(SystemExit):
        main.main(["config", "check", "--config", str(draft), str(draft)])


def test_a_script_reads_what_is_wrong_with_a_draft(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One document, valid or not, also of a file that cannot be read."""
    draft = tmp_path / "draft.yaml"
    (tmp_path / "rules.d").mkdir()
    draft.write_text(f"host: db1\nrules_directory: {tmp_path}/rules.d\n")
    answers = []
    for path in (draft, tmp_path / "none.yaml"):
        status = main.main(["config", "check", str(path), "--json"])
        answers.append((status, json.loads(capsys.readouterr().out)))
    draft.write_text("hots: db1\nlisten: 70000\n")
    status = main.main(["config", "check", str(draft), "--json"])
    answers.append((status, json.loads(capsys.readouterr().out)))
    (valid, good), (unreadable, missing), (refused, wrong) = answers
    assert (valid, unreadable, refused) == (0, exit_status.CONFIG, exit_status.CONFIG)
    assert good.keys() == json_output.OTHERS["config check"].keys() == wrong.keys()
    assert (good["file"], good["problems"], good["exists"]) == (str(draft), [], True)
    assert good["rules"] > 100
    assert "No such file" in missing["problems"][0]
    assert len(wrong["problems"]) == 2
    assert "hots: unknown key" in " ".join(wrong["problems"])
