"""What becomes of each message that the kernel can print of storage: a row, or why it has none.

A row is a kind of rules/events/events.yaml that kernel_events gives the line. An exemption is
either a reason of kernel_harmless.py or kernel_drivers.py (its words say that it is no event), or
one of the table below, by file, function and words. A message of level error or worse that only
words in general describe is counted by its driver and shown. What has none of these is left, and
must not be.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import yaml
from support.kernel_messages import TREES, Tree, line

from iowarden.collectors.kmsg import kernel_drivers, kernel_harmless
from iowarden.collectors.kmsg.kernel_classifier import Classifier
from iowarden.collectors.kmsg.kernel_drivers import FAULT, QUIET
from iowarden.collectors.kmsg.kernel_events import classify, finish
from iowarden.collectors.kmsg.kernel_kinds import UNRECOGNIZED
from iowarden.collectors.kmsg.kernel_line import KernelLine
from iowarden.collectors.kmsg.kernel_patterns import LEAD, LEADS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from support.kernel_messages import Message

    from iowarden.collectors.event import StorageEvent


EVENTS = Path(__file__).parents[2] / "rules" / "events" / "events.yaml"


class Exemption(NamedTuple):
    """Why some messages are no event: those of a file, of a function, and with these words."""

    reason: str
    path: str = ""
    function: str = ""
    words: str = ""


_SET_UP = (
    r"(?i)(^|_)(probe\w*|init\w*|ctr|attach\w*|alloc\w*|create\w*|setup\w*|set_?up"
    r"|parse\w*|add|register\w*"
    r"|module|load|configure|message|set_options?|validate\w*|check_arg\w*|exit|new"
    r"|dtr|args?|opt\w*"
    r"|config\w*|remount|fill_super|mount\w*|params?|unregister\w*|destroy\w*|free|cleanup|remove"
    r"|detach\w*|unload|shutdown|suspend|resume|enable\w*|disable\w*|start|open\w*"
    r"|bind|join|discover\w*"
    r"|scan\w*|identify|revalidate\w*|detect\w*|negotiate|login|map|import|run"
    r"|format\w*|activate|get_dt"
    r"|read_sb|check_super\w*|super_init\w*|of_\w*|clk\w*|pci\w*|acpi\w*|hw_init\w*"
    r"|startup)(_|$|\d)"
)
_ASKED = (
    r"(?i)(ioctl|_store$|_show$|_store_|_show_|sysfs|configfs|bsg|debugfs|_message"
    r"|set_arg|_nl_|genl|netlink"
    r"|passthru|_adm_|proc_write|proc_info|write_info|user|_cmd_line|cmdline"
    r"|_setup_args|flashnode|chap)"
)
_TELLS = (
    r"(?i)(dump\w*|print\w*|show\w*|display\w*|trace\w*|dbg|debug\w*|log_\w*|_log|report_\w*"
    r"|status\w*)"
)

EXEMPTIONS = (
    Exemption(
        "an assertion of the kernel about itself (WARN, BUG, panic): a bug, not storage's state",
        words=r"^WARNING: CPU|^Kernel panic",
    ),
    Exemption(
        "an assertion of the block layer about a driver (Linux 2.6 to 4.19): a bug",
        words=r"^blk_queue_\w+: |^blk_peek_request: bad|^blk-mq: bad|^blk_partition_remap: fail",
    ),
    Exemption(
        "a self-test of the kernel, built for developers",
        path=r"tests?/|_test\.c|scsi_debug|selftest|-test\.c|fault_inject|dm-dust|dm-flakey"
        r"|dm-log-writes|ref-verify",
    ),
    Exemption(
        "hardware that Debian's amd64 and arm64 kernels have no driver for, or that "
        "predates SATA and SAS",
        path=r"drivers/scsi/(?:arm|pcmcia|aha\w*|aic7xxx|atari_scsi|atp870u|BusLogic|dc395x"
        r"|dmx3191d|dpt_i2o|esp_scsi"
        r"|fdomain\w*|FlashPoint|g_NCR5380|imm|ppa|initio|ips|jazz_esp|lasi700|mac_\w+"
        r"|mesh|mvme\w*|myrb|myrs|NCR\w*|53c700|nsp32\w*"
        r"|pcmcia|qla1280|qlogic\w*|sgiwd93|sim710|sni_53c710|sun3\w*|sun_esp"
        r"|sym53c8xx_2|tw|wd33c93|wd719x|zalon|zorro\w*"
        r"|a2091|a3000|a4000t|acornscsi|advansys|am53c974|bvme6000|gvp11|a100u2w"
        r"|cxlflash|ibmvscsi|ibmvscsi_tgt|eata|u14|gdth|ultrastor"
        r"|in2000|wd7000|scsi_transport_spi|stex|i91uscsi)|drivers/message/i2o|drivers/block/(?:floppy|swim\w*"
        r"|amiflop|ataflop|paride|pktcdvd|sunvdc"
        r"|ps3\w*|z2ram|n64cart|aoe|mtip32xx|rsxx|sx8|umem|skd)|drivers/ata/pata_"
        r"|drivers/message/fusion/mptlan|drivers/mmc/host/(?!sdhci|cqhci|rtsx)"
        r"|drivers/usb/storage/(?:alauda|datafab|freecom|jumpshot|karma|isd200|sddr"
        r"|shuttle|onetouch|usbat|ene|realtek|cypress)"
        r"|drivers/ata/(?!libata|ahci|libahci|sata_(?:mv|sil|nv|promise|svw|vsc|sis"
        r"|uli|via|qstor|inic))"
        r"|drivers/ufs/host|block/partitions/(?:acorn|aix|amiga|atari|cmdline|ibm"
        r"|karma|ldm|mac|minix|osf|sgi|sun|sysv68|ultrix)",
    ),
    Exemption(
        "what others did to the storage that this machine serves",
        path=r"drivers/(?:target|nvme/target)|fs/nfsd|drivers/block/(?:xen-blkback"
        r"|rnbd/rnbd-srv)|drivers/scsi/(?:elx/efct|ibmvscsi_tgt|qla2xxx/tcm|xen-scsiback)",
    ),
    Exemption(
        "removable optical and tape drives, changers and SCSI generic, which are not watched",
        path=r"drivers/scsi/(?:sr|sr_\w+|st|ch|osst|sg|ses)\.c",
    ),
    Exemption("what a program or an administrator asked for", function=_ASKED),
    Exemption(
        "what a program or an administrator asked for",
        path=r"fs/super\.c|block/early-lookup|block/blk-crypto",
    ),
    Exemption(
        "what a program or an administrator asked for",
        words=r"^VFS: Can't find|^VFS:Filesystem (?:freeze|thaw) failed",
    ),
    Exemption(
        "a partition table that is smaller than its disk, as of a virtual disk that grew",
        path=r"block/partitions/efi\.c",
    ),
    Exemption(
        "found when a device, a mapping or a file system is set up or taken down: who "
        "does it gets the error",
        function=_SET_UP,
    ),
    Exemption("detail of another line: registers, dumps, names", function=_TELLS),
    Exemption(
        "detail of another line: registers, dumps, names",
        words=r"\nfailure at |TMF_RESP_FUNC_FAILED",
    ),
    Exemption("quota accounting: no data are in danger", words="qgroup"),
    Exemption(
        "removable optical and tape drives, changers and SCSI generic, which are not watched",
        path=r"block/disk-events",
    ),
    Exemption(
        "removable optical and tape drives, changers and SCSI generic, which are not watched",
        words="busy inodes on changed media",
    ),
    *(Exemption(reason, words=f"(?i){words}") for reason, words in QUIET),
)
_COMPILED = tuple(
    (each.reason, re.compile(each.path), re.compile(each.function), re.compile(each.words))
    for each in EXEMPTIONS
)
_TAKEN = frozenset({"ata", "sd"})
_NAMELESS = "a line that names no driver, device or file system: it could be anybody's"
_NO_FAULT = "no word of a fault: a state, a name or a number"
_FAULT = re.compile(FAULT)


def events(message: Message) -> tuple[StorageEvent, ...]:
    """Return the events of a message; also those of lines that are counted, not understood."""
    state, found = Classifier(), ()
    for part in line(message).split("\n"):
        state, more = classify(state, KernelLine(part, priority=message.level))
        found += more
    return (*found, *finish(state))


def exemption(message: Message) -> str:
    """Return why a message is no event; '': it has no reason."""
    text = line(message)
    if whole := kernel_harmless.reason(text):
        return whole
    for reason, path, function, words in _COMPILED:
        if path.search(message.path) and function.search(message.function) and words.search(text):
            return reason
    lead = LEAD.match(text)
    named = lead is not None and (lead[0] in LEADS or lead[0] in _TAKEN)
    if not named:
        return _NAMELESS
    assert lead is not None
    printer, rest = lead[0], text
    if printer in _TAKEN:
        printer, rest = ("ata", text.partition(": ")[2]) if printer == "ata" else ("disk", text)
    return kernel_drivers.why(printer, rest) or ("" if _FAULT.search(text) else _NO_FAULT)


class Verdict(NamedTuple):
    """A message, its line, the kinds of its events, and why it is none where it is none."""

    message: Message
    line: str
    kinds: tuple[str, ...]
    reason: str

    @property
    def outcome(self) -> str:
        """'row', 'counted', 'exempt' or 'left'."""
        if self.kinds:
            return "counted" if UNRECOGNIZED.issuperset(self.kinds) else "row"
        return "exempt" if self.reason else "left"


def verdicts(source: Path) -> Iterator[Verdict]:
    """Yield what becomes of each message of a kernel's tree; each file's formats once."""
    seen: set[tuple[str, str]] = set()
    for message in Tree(source).messages():
        if (message.path, message.form) not in seen:
            seen.add((message.path, message.form))
            kinds = tuple(each.kind for each in events(message))
            yield Verdict(message, line(message), kinds, "" if kinds else exemption(message))


def _list(found: Iterable[Verdict]) -> None:
    """Print each message: outcome, file, function, level, kinds or reason, line."""
    for each in found:
        message, said = each.message, " ".join(each.kinds) or each.reason
        where = message.path, message.function, str(message.level)
        print(each.outcome, *where, said, " ".join(each.line.split()), sep="\t")


def _summarise(found: Iterable[Verdict]) -> None:
    """Print how many messages each tree has of each outcome, and each reason."""
    trees: dict[str, Counter[str]] = defaultdict(Counter)
    reasons: Counter[str] = Counter()
    for each in found:
        path = each.message.path
        trees[next((t for t in TREES if path.startswith(t + "/")), path)][each.outcome] += 1
        if not each.kinds:
            reasons[each.reason] += 1
    for tree, counts in (*trees.items(), ("all", sum(trees.values(), Counter()))):
        rest = (f"{counts[name]} {name}" for name in ("row", "counted", "exempt", "left"))
        print(f"{tree}: {counts.total()}:", ", ".join(rest))
    for reason, count in reasons.most_common():
        print(f"{count}\t{reason or 'left'}")


_LOUD = 5
_QUIET = 1
"""So many lines of each kind or reason and folder are kept for the tests, the shortest first."""
_LONGEST = 100


def _keep(found: Iterable[Verdict], severities: Mapping[str, str]) -> None:
    """Print the lines that 'make test' reads: of each folder those that alarm, and quiet ones."""
    kept: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    for each in found:
        kinds = [] if each.outcome == "counted" else each.kinds
        loud = [kind for kind in kinds if severities[kind] in {"critical", "warning"}]
        folder = each.message.path.rpartition("/")[0]
        text = each.line
        if "\n" in text or len(text) > _LONGEST or (kinds and not loud) or "hba_aen" in loud:
            continue
        reason = "" if loud else exemption(each.message)
        kept[folder, loud[0] if loud else f"- {reason}"].append((each.message.level, text))
    for (_, kind), lines in sorted(kept.items()):
        shortest = sorted(set(lines), key=lambda one: (len(one[1]), one[1]))
        for level, text in shortest[: _QUIET if kind.startswith("-") else _LOUD]:
            print(level, kind.partition(" ")[0], text, sep="\t")


def main(arguments: Sequence[str]) -> int:
    """Run packaging/list-kernel-messages; 1: something is left."""
    sources = [Path(each) for each in arguments if not each.startswith("--")]
    if not sources or any(not (each / "drivers" / "scsi").is_dir() for each in sources):
        print("list-kernel-messages: expected trees of Linux with drivers/scsi", file=sys.stderr)
        return 2
    found = [each for source in sources for each in verdicts(source)]
    if "--fixture" in arguments:
        groups = yaml.safe_load(EVENTS.read_text())["groups"]
        rows = (row for group in groups for row in group["events"].items())
        _keep(found, {kind: row["severity"] for kind, row in rows})
    elif "--summary" in arguments:
        _summarise(found)
    else:
        _list(found)
    return int(any(each.outcome == "left" for each in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
