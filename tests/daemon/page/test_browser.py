"""The status page in Debian's chromium: no barrier that axe-core finds, no error of the console.

Recorded machines, phone and desktop, light and dark; by keyboard alone.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support import browser as browsers
from support import drives
from support.browser import DESKTOP, ENTER, PHONE, TAB, Browser
from support.pages import PlayedService, frozen, printed, rack
from support.recordings import fixture, recorded

if TYPE_CHECKING:
    from collections.abc import Iterator

AXE = Path(__file__).parents[3] / "build" / "tools" / "axe.min.js"
_MISSING = browsers.missing() or ("" if AXE.exists() else "build/tools/axe.min.js")
pytestmark = [
    pytest.mark.system,  # a browser starts, and opens sixty pages
    pytest.mark.skipif(bool(_MISSING), reason=f"no {_MISSING}: 'make test-system' fetches it"),
]
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
LOOKS = [(PHONE, "light"), (PHONE, "dark"), (DESKTOP, "light"), (DESKTOP, "dark")]
MACHINES = ("stall", "freeze", "hung disk", "dying drive", "healthy", "480 disks")


def dying(name: str) -> str:
    """Return SMART data: sdc fails."""
    found = drives.ata(f"S-{name}", 40_000 * sum(map(ord, name)))
    return found.replace('"passed":true', '"passed":false') if name == "sdc" else found


@functools.cache
def played(machine: str, directory: Path) -> PlayedService:
    """Return a recorded machine in the middle of its trouble."""
    lines = printed(
        "critical medium error, dev sdc, sector 12345 op 0x0:(READ) flags 0x0 phys_seg 1"
    )
    match machine:
        case "stall":
            found = list(recorded(fixture("write-stall")))[:60]
        case "hung disk":
            found = list(recorded(fixture("hung-disk")))[:75]
        case "freeze":
            found = frozen(60)
        case "healthy":
            found = list(recorded(fixture("healthy-copy")))[:60]
        case "dying drive":
            found = rack(8, 60, {20: lines}, dying)
        case _:
            found = rack(480, 16, {8: lines}, dying)
    return PlayedService(found, directory, full=machine != "healthy")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One browser for all tests: to start it takes seconds."""
    with browsers.browser() as session:
        yield session


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the machines would store something."""
    return tmp_path_factory.mktemp("machines")


def check(chromium: Browser, url: str) -> None:
    """Open a page in each look and have axe-core look for barriers."""
    for size, scheme in LOOKS:
        chromium.look(size, scheme)
        chromium.open(url)
        chromium.run(AXE.read_text())
        options = {"runOnly": {"type": "tag", "values": RULES}, "resultTypes": ["violations"]}
        found = chromium.wait(
            "const [options, done] = arguments;"
            "axe.run(document, options).then(r => done(r.violations.map("
            "v => [v.id, v.nodes.slice(0, 3).map(n => n.html + ' ' + n.failureSummary)])),"
            " e => done([String(e)]));",
            options,
        )
        assert found == [], (url, size, scheme)
        missing = f"{url} - Failed to load resource: the server responded with a status of 404"
        said = [each for each in chromium.complaints() if not each.startswith(missing)]
        assert said == [], (url, size, scheme)
        wide = chromium.run(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        assert wide <= 0, "only tables scroll sideways"
        background = chromium.run("return getComputedStyle(document.body).backgroundColor")
        light = sum(int(n) for n in background.strip("rgb()").split(",")[:3]) > 384
        assert light == (scheme == "light"), "the style of the policy's hash is in use"


@pytest.mark.parametrize("machine", MACHINES)
def test_no_page_has_a_barrier_or_an_error(
    chromium: Browser, directory: Path, machine: str
) -> None:
    """Overview, incident and drive."""
    service = played(machine, directory)
    server = service.server()
    assert server.start() == ""
    try:
        base = f"http://127.0.0.1:{server.bound[0][1]}"
        check(chromium, f"{base}/")
        links = chromium.run("return [...document.querySelectorAll('a')].map(a => a.href)")
        chosen = [
            next((each for each in links if f"/{kind}/" in each), "")
            for kind in ("incident", "drive")
        ]
        assert chosen[1]
        for url in filter(None, chosen):
            check(chromium, url)
        check(chromium, f"{base}/incident/unknown")
    finally:
        chromium.open("about:blank")  # it would go on to load the page
        server.close()


def test_a_keyboard_reaches_incident_and_folded_parts(chromium: Browser, directory: Path) -> None:
    """First the link that skips to the content; each focus is visible; Enter opens."""
    service = played("stall", directory)
    server = service.server()
    assert server.start() == ""
    try:
        chromium.look(DESKTOP, "light")
        chromium.open(f"http://127.0.0.1:{server.bound[0][1]}/")
        names = []
        for _ in range(40):
            chromium.press(TAB)
            name, outline, left = chromium.run(
                "const e = document.activeElement, s = getComputedStyle(e);"
                "return [e.tagName + ' ' + (e.textContent || '').slice(0, 40),"
                " s.outlineStyle + s.outlineWidth, e.getBoundingClientRect().left]"
            )
            names.append(name)
            assert left >= 0, name
            assert outline == "solid3px", name
            if name.startswith("SUMMARY"):
                break
        assert names[0] == "A Skip to content"
        assert "A Reload" in names
        assert any(name.startswith("A writes stalled") for name in names)
        chromium.press(ENTER)
        assert chromium.run("return document.activeElement.parentElement.open")
        chromium.run("document.querySelector('.incident a').focus()")
        chromium.press(ENTER)
        assert "incident " in chromium.wait(
            "const done = arguments[0];"
            "const look = () => document.querySelector('#state')"
            " ? done(document.querySelector('h1').textContent) : setTimeout(look, 20); look();"
        )
    finally:
        server.close()


HURRY = """
const later = window.setTimeout, load = window.fetch;
window.turns = 0; window.loads = 0;
window.setTimeout = (run, delay) => later(() => { window.turns++; run(); }, delay / 50);
window.fetch = (...given) => { window.loads++; return load(...given); };
"""
"""Time in the page runs fifty times as fast, and both are counted."""
TURNS = """
const [least, done] = arguments, from = window.turns;
const look = () => window.turns - from >= least ? done(window.loads) : requestAnimationFrame(look);
look();
"""
STATE = "return document.querySelector('.at').textContent"
OTHER = """
const [before, done] = arguments;
const look = () => { const now = document.querySelector('.at').textContent;
  now === before ? requestAnimationFrame(look) : done(now); };
look();
"""


def test_the_page_follows_the_machine_unless_a_reader_selects_or_pauses(
    chromium: Browser, directory: Path
) -> None:
    """What is open stays open; a service that does not answer is said."""
    service = played("stall", directory)
    server = service.server()
    assert server.start() == ""
    loaded = chromium.devtools("Page.addScriptToEvaluateOnNewDocument", source=HURRY)
    try:
        chromium.look(DESKTOP, "light")
        chromium.open(f"http://127.0.0.1:{server.bound[0][1]}/")
        before = chromium.run(STATE)

        def follows() -> str:
            now = service.clock.now()
            service.clock.set(now + 60, service.clock.realtime(now) + 60)
            return str(chromium.wait(OTHER, before))

        def stands(how: str, back: str) -> None:
            chromium.run(how)
            loads = chromium.run("return window.loads")
            assert chromium.wait(TURNS, 5) - loads <= 1, "one may have been under way"
            chromium.run(back)

        chromium.run("document.querySelector('main details').open = true")
        before = follows()
        assert chromium.run("return document.querySelector('main details').open")
        assert chromium.run("return getSelection().isCollapsed")
        stands(
            "getSelection().selectAllChildren(document.querySelector('main p'))",
            "getSelection().removeAllRanges()",
        )
        before = follows()
        button = "document.querySelector('.top button')"
        assert chromium.run(f"return {button}.textContent") == "Pause updates"
        stands(f"{button}.click()", f"{button}.click()")
        before = follows()
        assert [each for each in chromium.complaints() if "Content Security" in each] == []
        server.close()
        assert "no answer since" in follows()
    finally:
        server.close()
        chromium.devtools("Page.removeScriptToEvaluateOnNewDocument", **loaded)
