"""The running service reads its new configuration, and setup reports what came of it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from support.program import Feed, Program, recorded
from support.smtp import free_port

from iowarden.daemon.cli import service_client
from iowarden.daemon.setup.reload_service import reload

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.system
def test_the_service_itself_confirms_or_refuses(tmp_path: Path) -> None:
    """A real process gets the signal of the unit; what it answers is on its own metrics."""
    feed = Feed(recorded("write-stall"), tmp_path / "feed")
    program = Program(tmp_path, feed)
    feed.give(5)

    def passes(_: float) -> None:
        """Its clock is that of the recording."""
        feed.give(1)
        program.caught_up()

    program.start()
    try:
        program.caught_up()
        assert program.process is not None
        number = program.process.pid
        address = ("127.0.0.1", program.port)
        good = program.config.read_text()
        program.config.write_text(f"{good}log_level: warning\n")
        assert reload(address, lambda: [number], wait=passes) == (True, "the service has loaded it")
        program.config.write_text(f"{good}log_level: loud\n")
        done, text = reload(address, lambda: [number], wait=passes)
        assert (done, "refused the configuration, the previous one stays" in text) == (False, True)
        program.config.write_text(good)  # the refusal before is not taken for one of this time
        assert reload(address, lambda: [number], wait=passes) == (True, "the service has loaded it")
        # With 'web_config' the metrics require TLS or a login: the control socket answers.
        query, closed = service_client.query_of(str(program.state), ""), ("127.0.0.1", free_port())
        for word, expected in (("loud", False), ("notice", True)):
            program.config.write_text(f"{good}log_level: {word}\n")
            assert reload(closed, lambda: [number], wait=passes, query=query)[0] is expected
    finally:
        program.close()


def test_where_no_service_runs_the_next_step_is_named() -> None:
    """The tests' machine has no unit installed, or one that is not active."""
    done, text = reload(("127.0.0.1", free_port()), list)
    assert done
    assert "systemctl enable --now iowarden" in text or "'iowarden run'" in text


def test_a_service_that_ended_meanwhile_is_said() -> None:
    """Between the look at its processes and the signal."""
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    done, text = reload(("127.0.0.1", free_port()), lambda: [child])
    assert not done
    assert "systemctl start iowarden" in text


def test_a_service_that_does_not_answer_is_not_taken_for_loaded() -> None:
    """Its metrics are closed: after 10 s of a played clock nothing is confirmed."""
    child = os.fork()
    if child == 0:
        import signal  # noqa: PLC0415 - in the child only

        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.pause()
    seconds = [0.0]

    def wait(_: float) -> None:
        seconds[0] += 1.0

    try:
        done, text = reload(("127.0.0.1", free_port()), lambda: [child], lambda: seconds[0], wait)
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
    assert (done, "did not confirm within 10 s" in text) == (False, True)
