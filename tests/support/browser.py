"""Debian's chromium, driven by its chromedriver.

Source: W3C, WebDriver; Chrome DevTools Protocol.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import urllib.request
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

PROGRAMS = ("chromium", "chromedriver")
START_SECONDS = 60.0
"""On a machine with two busy processors a browser takes long to start."""
TAB, ENTER = "\ue004", "\ue007"
PHONE, DESKTOP = (360, 740), (1280, 900)


def missing() -> str:
    """Return which program is not installed; '' if all are."""
    return ", ".join(name for name in PROGRAMS if shutil.which(name) is None)


class Browser:
    """One session."""

    def __init__(self, port: int) -> None:
        """Open a browser with nothing of other sessions."""
        self._base = f"http://127.0.0.1:{port}"
        arguments = ["--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        arguments += ["--disable-background-networking", "--disable-component-update"]
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")  # it refuses to run as root otherwise
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": arguments, "binary": shutil.which("chromium")},
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        made = self._request("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/session/{made['sessionId']}"

    def _request(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401 - JSON
        data = None if method == "GET" else json.dumps({} if body is None else body).encode()
        request = urllib.request.Request(self._base + path, data, method=method)
        request.add_header("Content-Type", "application/json")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=START_SECONDS) as reply:
            return json.load(reply)["value"]

    def _post(self, path: str, **body: object) -> Any:  # noqa: ANN401 - JSON
        return self._request("POST", self._session + path, body)

    def devtools(self, command: str, **parameters: object) -> Any:  # noqa: ANN401 - JSON
        """Send a command of the DevTools protocol."""
        return self._post("/goog/cdp/execute", cmd=command, params=parameters)

    def look(self, size: tuple[int, int], scheme: str) -> None:
        """Use a size of the window, and a colour scheme: 'light' or 'dark'."""
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            width=size[0],
            height=size[1],
            deviceScaleFactor=1,
            mobile=size == PHONE,
        )
        self.devtools(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": scheme}],
        )

    def open(self, url: str) -> None:
        """Open a page and wait until it is loaded."""
        self._post("/url", url=url)

    def run(self, script: str, *arguments: object) -> Any:  # noqa: ANN401 - JSON
        """Run the body of a function in the page, which a page's policy does not forbid."""
        return self._post("/execute/sync", script=script, args=list(arguments))

    def wait(self, script: str, *arguments: object) -> Any:  # noqa: ANN401 - JSON
        """Run the body of a function that calls its last argument when it is done."""
        return self._post("/execute/async", script=script, args=list(arguments))

    def press(self, key: str) -> None:
        """Press a key, such as TAB, and let it go."""
        keys = [{"type": kind, "value": key} for kind in ("keyDown", "keyUp")]
        self._post("/actions", actions=[{"type": "key", "id": "keys", "actions": keys}])

    def complaints(self) -> list[str]:
        """Return the messages of the console since the last call."""
        return [entry["message"] for entry in self._post("/se/log", type="browser")]

    def picture(self, *, whole: bool = True) -> bytes:
        """Return the page as PNG, as far as it reaches."""
        found = self.devtools(
            "Page.captureScreenshot",
            captureBeyondViewport=whole,
            **(
                {
                    "clip": {
                        "x": 0,
                        "y": 0,
                        "scale": 1,
                        **self.run(
                            "const e = document.documentElement;"
                            "return {width: e.clientWidth, height: Math.min(e.scrollHeight, 6000)}"
                        ),
                    }
                }
                if whole
                else {}
            ),
        )
        return base64.b64decode(found["data"])

    def close(self) -> None:
        """End the session and its browser."""
        self._request("DELETE", self._session)


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """Start a browser, and end it."""
    with tempfile.TemporaryDirectory() as home:
        driver = subprocess.Popen(
            ["chromedriver", "--port=0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "HOME": home, "TMPDIR": home},
        )
        try:
            assert driver.stdout is not None
            for line in driver.stdout:
                if "successfully on port" in line:
                    break
            session = Browser(int(line.rpartition("port ")[2].strip(" .\n")))
            try:
                yield session
            finally:
                session.close()
        finally:
            driver.terminate()
            driver.wait(START_SECONDS)
            driver.stdout.close()
