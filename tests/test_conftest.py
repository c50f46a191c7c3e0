"""What holds for every test."""

from __future__ import annotations

import gc
import socket
import ssl
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from support.smtp import make_certificate, smtp_server


def test_a_program_that_a_test_starts_compiles_nothing_that_another_did() -> None:
    """Whatever the environment says of byte code: compiling iowarden takes longer than it runs."""
    code = "import iowarden.collectors.model as module; print(module.__cached__)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    cache = Path(__file__).parents[1] / "build" / "pycache"
    compiled = Path(said.stdout.strip())
    assert compiled.is_relative_to(cache)
    assert compiled.exists()


@pytest.mark.parametrize("state", ["just accepted", "open", "TLS not begun", "TLS"])
def test_a_mail_server_leaves_no_connection_to_the_garbage_collector(
    state: str, tmp_path: Path
) -> None:
    """It warns in whichever test runs then, and a warning is an error."""
    certificate = make_certificate(tmp_path) if "TLS" in state else None
    gc.collect()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        implicit = certificate is not None
        with smtp_server(certificate=certificate, implicit_tls=implicit) as (port, _):
            client = socket.create_connection(("127.0.0.1", port))
            if state == "TLS":
                client = ssl._create_unverified_context().wrap_socket(client)
            if state in {"open", "TLS"}:
                assert client.recv(4) == b"220 "
        client.close()
        gc.collect()
    assert [str(each.message) for each in warned] == []
