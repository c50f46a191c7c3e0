"""Marvell's 'mvcli' and 'mnv_cli': the mirror of a boot card with two M.2 drives.

They are of Dell BOSS, Lenovo ThinkSystem M.2 and other cards with a chip of Marvell: 'info -o vd',
'info -o pd', 'info -o hba' and 'smart -p N'.
Source: published outputs of mvcli 4.1 (cards with SATA drives) and mnv_cli 1.0 (NVMe drives), and a
monitoring script; no manual has a list of the states. Units: M and K are 2**20 and 2**10 bytes.
Limits: of disks only 'online' was seen, of arrays 'functional', 'degraded' and 'degrade'; another
word needs attention. The service does not run these programs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iowarden.collectors.lazy_pattern import lazy_pattern
from iowarden.collectors.parsed_text import Parsed, Tool, UnparsedLine
from iowarden.collectors.raid import output, states
from iowarden.collectors.raid.controller import (
    ComponentHealth,
    ComponentState,
    Controller,
    ControllerArray,
    PhysicalDisk,
    Sensor,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_PAIR = lazy_pattern(r"\s*([A-Za-z#0-9][\w #./-]{0,40}?)\s*:(?:\s+(\S.*))?")
_BEGINS = {"adapter id": "hba", "id": "vd", "vd id": "vd", "adapter": "pd", "pd id": "pd"}
"""Fields that begin a block; of a drive there may be two of them, one after the other."""
_SMART = lazy_pattern(r"\s*SMART STATUS RETURN:\s*(\S.*)")
_ROW = lazy_pattern(r"\s*[0-9A-F]{2}\s+(\S.*?)\s+([0-9A-F]{12})\s+(\S+)\s*")
_TOTAL = lazy_pattern(r"\s*Total # of ([VP]D):\s*(\d{1,4})")
_IGNORED = lazy_pattern(
    r"\s*(?:SG driver version .*|(?:Virtual|Physical) Disk Information|[ADH]\w* Information|-+"
    r"|=+|CLI Version.*|Smart Info|ID\s+Attribute Name.*|> ?\S{0,80}.*|\S{0,80}[#$%] .*|Welcome .*)"
)
_ARRAYS = {
    "functional": ComponentHealth.OK,
    "optimal": ComponentHealth.OK,
    "degrade": ComponentHealth.DEGRADED,
    "degraded": ComponentHealth.DEGRADED,
    **states.DEAD,
}
_DISKS = {"online": ComponentHealth.OK, "good": ComponentHealth.OK, **states.DEAD}
_TASK = lazy_pattern(r"(\w+) is (?:running in )?\d{1,3} ?%.*")
_EXPECTED = "mvcli: expected the output of 'info -o vd', 'info -o pd' or 'smart -p N'"
Block = dict[str, str]


def parse_mvcli(text: str) -> Parsed:
    """Parse the outputs in a text; a line of none of their formats is reported."""
    unread: list[UnparsedLine] = []
    blocks: list[tuple[str, Block]] = []
    totals: dict[str, int] = {}
    smart: list[tuple[str, str]] = []
    for number, line in enumerate(output.plain(text).split("\n"), 1):
        if total := _TOTAL.match(line):
            totals[total[1].casefold()] = int(total[2])
        elif status := _SMART.fullmatch(line):
            smart.append(("SMART", status[1].strip(" .")))
        elif row := _ROW.fullmatch(line):
            if row[3] != "OK":
                smart.append((row[1], row[3]))
        elif pair := _PAIR.fullmatch(line):
            _add(blocks, " ".join(pair[1].split()).casefold(), (pair[2] or "").strip())
        elif line.strip() and not _IGNORED.fullmatch(line):
            unread.append(UnparsedLine("mvcli: no line that is known", line, number))
    arrays = tuple(_array(block) for kind, block in blocks if kind == "vd")
    disks = tuple(_disk(block, arrays) for _, block in blocks if "pd id" in block)
    adapters = [block for kind, block in blocks if kind == "hba"]
    sensors = (*_health(adapters), *_smart(smart))
    unread += [UnparsedLine(reason) for reason in _incomplete(totals, arrays, disks)]
    if not (arrays or disks or sensors):
        return Parsed(Tool.MVCLI, unparsed=tuple(unread) or (UnparsedLine(_EXPECTED),))
    model = adapters[0].get("modelnumber", "") if adapters else ""
    card = Controller(
        name="marvell 0",
        vendor="marvell",
        model=output.printable(model),
        arrays=arrays,
        disks=disks,
        sensors=sensors,
    )
    commands = {"vd": arrays, "pd": disks, "hba": tuple(adapters)}
    outputs = [f"mvcli info -o {kind}" for kind, found in commands.items() if found]
    outputs += ["mvcli smart"] if smart else []
    return Parsed(Tool.MVCLI, controllers=(card,), outputs=tuple(outputs), unparsed=tuple(unread))


def _add(blocks: list[tuple[str, Block]], key: str, value: str) -> None:
    kind = _BEGINS.get(key)
    if kind == "pd" and blocks and blocks[-1][0] == "pd" and blocks[-1][1].keys() <= {"adapter"}:
        kind = None  # 'PD ID' below 'Adapter'
    if kind is not None:
        blocks.append((kind, {}))
    if blocks:
        blocks[-1][1].setdefault(key, value)


def _array(block: Mapping[str, str]) -> ControllerArray:
    number = block.get("id") or block.get("vd id", "")
    words = [block.get("status", ""), *filter(None, [block.get("vd status")])]
    found = [states.classify(word, _ARRAYS) for word in words]
    state = states.worst(*found) if len(found) > 1 else found[0]
    progress = block.get("bga progress", "")
    task = _TASK.fullmatch(progress)
    if task is not None:
        done = states.classify(progress, {}).done_ratio
        health = state.health
        if health in {ComponentHealth.OK, ComponentHealth.DEGRADED}:
            rebuilds = task[1].casefold().startswith("rebuild")
            running = ComponentHealth.BUSY if health is ComponentHealth.OK else health
            health = ComponentHealth.REBUILDING if rebuilds else running
        state = ComponentState(health, f"{state.word}, {task[1].casefold()}", done)
    setup = block.get("pd raid setup") or block.get("pds", "")
    return ControllerArray(
        name=f"virtual disk {output.printable(number)}",
        state=state,
        level=output.printable(block.get("raid mode", "")),
        label=output.printable(block.get("name", "")),
        size_bytes=_bytes(block.get("size", "")),
        slots=tuple(f"slot {number}" for number in setup.split() if number.isdigit()),
    )


def _disk(block: Mapping[str, str], arrays: tuple[ControllerArray, ...]) -> PhysicalDisk:
    slot = f"slot {output.printable(block.get('pd id', ''))}"
    array = next((each for each in arrays if slot in each.slots), None)
    word = block.get("pd status", block.get("status"))
    if word is None and array is not None and array.state.health in states.WELL:
        # Some versions print no state of a drive; its mirror is complete with it.
        state = ComponentState(ComponentHealth.OK, "")
    else:
        state = states.classify(word or "", _DISKS)
    return PhysicalDisk(
        slot=slot,
        state=state,
        model=output.printable(block.get("model", "")),
        serial=output.printable(block.get("serial", "")),
        firmware=output.printable(block.get("firmware version", "")),
        size_bytes=_bytes(block.get("size", "")),
        array=array.name if array else "",
    )


def _health(adapters: list[Block]) -> Iterator[Sensor]:
    """Yield the parts of a card's memory that are not 'Healthy', and one for all that are."""
    for block in adapters:
        told = {key: value for key, value in block.items() if key.endswith("image health")}
        for key, value in told.items():
            if value.casefold() != "healthy" or key == "image health":
                meanings = {"healthy": ComponentHealth.OK}
                yield Sensor(output.printable(key), states.classify(value, meanings))


def _smart(found: list[tuple[str, str]]) -> Iterator[Sensor]:
    """Yield the health of drives by their number in the text: the output does not name them."""
    drive = 0
    for name, word in found:
        drive += name == "SMART"
        yield Sensor(
            output.printable(f"drive {drive}: {name}"),
            states.classify(word, {"ok": ComponentHealth.OK}),
        )


def _incomplete(
    totals: Mapping[str, int],
    arrays: tuple[ControllerArray, ...],
    disks: tuple[PhysicalDisk, ...],
) -> Iterator[str]:
    for kind, listed in (("vd", arrays), ("pd", disks)):
        command = f"mvcli info -o {kind}"
        if kind in totals:
            yield from output.unlisted(command, f"{kind.upper()}s", str(totals[kind]), len(listed))
        elif listed:
            yield f"'{command}': expected 'Total # of {kind.upper()}' at its end, got none"


def _bytes(text: str) -> int | None:
    words = text.split()
    if len(words) == 2 and words[1] in {"K", "M", "G", "T"}:
        words[1] += "B"
    return output.size_bytes(" ".join(words), 1024)
