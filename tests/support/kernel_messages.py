"""What a kernel can print of storage: its messages, extracted from its source, as lines.

Source: a kernel's tree (Debian's linux-source package). Printing calls are found by name, with the
macros that wrap them; strings that are macros are resolved as far as they are defined in the tree.
Limits: a message whose format is no literal at the call ('printk(msg)') is not seen; a macro that
makes its format by '#' or from an array neither. WARN() and its like are, as 'WARN'.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TREES = (
    "block",
    "drivers/scsi",
    "drivers/message",
    "drivers/ata",
    "drivers/nvme",
    "drivers/md",
    "drivers/block",
    "drivers/target",
    "drivers/usb/storage",
    "drivers/mmc",
    "drivers/ufs",
    "fs/ext3",
    "fs/ext4",
    "fs/jbd",
    "fs/jbd2",
    "fs/xfs",
    "fs/btrfs",
    "fs/f2fs",
    "fs/iomap",
    "fs/nfs",
    "fs/nfs_common",
    "fs/nfsd",
    "fs/lockd",
    "net/sunrpc",
)
FILES = (
    "fs/buffer.c",
    "fs/mpage.c",
    "fs/direct-io.c",
    "fs/iomap.c",
    "kernel/hung_task.c",
    "fs/super.c",
)
WARNING = 4
_LEVELS = {
    "EMERG": 0, "ALERT": 1, "CRIT": 2, "ERR": 3, "WARNING": 4, "NOTICE": 5, "INFO": 6, "DEBUG": 7,
    "CONT": 8, "DEFAULT": 4,
}  # fmt: skip
_WORDS = {
    "emerg": 0, "alert": 1, "crit": 2, "err": 3, "error": 3, "warn": 4, "warning": 4,
}  # fmt: skip
"""Source: include/linux/kern_levels.h."""


class Printer(NamedTuple):
    """A call that prints: who heads its line, where its level and its format stand, what is before.

    `level`: a number, or the argument that has it; `form`: the argument of the format.
    """

    head: str
    level: int | None
    form: int
    level_at: int | None = None
    before: str = ""
    subject: int | None = None


@dataclass(frozen=True, slots=True)
class Message:
    """One message: where it is printed, by whom, how grave, and with which format and values."""

    path: str
    function: str
    printer: str
    head: str
    level: int
    form: str
    values: tuple[str, ...] = ()
    subject: str = ""


def _printers() -> dict[str, Printer]:
    """Return what prints by functions, or by macros too odd to be read."""
    known: dict[str, Printer] = {
        "printk": Printer("", None, 0),
        "printk_ratelimited": Printer("", None, 0),
        "printk_once": Printer("", None, 0),
        "_printk": Printer("", None, 0),
        "printk_deferred": Printer("", None, 0),
        "pr_warning": Printer("pr", 4, 0),
        "WARN": Printer("WARN", 4, 1),
        "WARN_ONCE": Printer("WARN", 4, 1),
        "WARN_RATELIMIT": Printer("WARN", 4, 1),
        "panic": Printer("", 0, 0),
        # drivers/scsi
        "sdev_printk": Printer("sdev", None, 2, 0, subject=1),
        "sdev_prefix_printk": Printer("sdev", None, 3, 0, subject=1),
        "scmd_printk": Printer("scmd", None, 2, 0, subject=1),
        "starget_printk": Printer("starget", None, 2, 0, subject=1),
        "shost_printk": Printer("shost", None, 2, 0, subject=1),
        "sd_printk": Printer("sd", None, 2, 0, subject=1),
        "sr_printk": Printer("sr", None, 2, 0, subject=1),
        "st_printk": Printer("st", None, 2, 0, subject=1),
        "sg_printk": Printer("sg", None, 2, 0, subject=1),
        "iscsi_conn_printk": Printer("iscsi_conn", None, 2, 0, subject=1),
        "iscsi_session_printk": Printer("iscsi_session", None, 2, 0, subject=1),
        "iscsi_cls_conn_printk": Printer("iscsi_conn", None, 2, 0, subject=1),
        "iscsi_cls_session_printk": Printer("iscsi_session", None, 2, 0, subject=1),
        "ql_log": Printer("ql", None, 3, 0, subject=1),
        "ql_log_pci": Printer("ql", None, 3, 0, subject=1),
        "ql_log_qp": Printer("ql", None, 3, 0, subject=1),
        "ql4_printk": Printer("ql4", None, 2, 0, subject=1),
        "lpfc_printf_log": Printer("lpfc", None, 3, 1, subject=0),
        "lpfc_printf_vlog": Printer("lpfc_v", None, 3, 1, subject=0),
        "lpfc_vlog_msg": Printer("lpfc_v", None, 3, 1, subject=0),
        "lpfc_log_msg": Printer("lpfc", None, 3, 1, subject=0),
        "esas2r_log": Printer("esas2r", None, 1, 0),
        "esas2r_log_dev": Printer("esas2r", None, 2, 0),
        "beiscsi_log": Printer("shost", None, 3, 1, subject=0),
        "hpsa_show_dev_msg": Printer("hpsa", None, 3, 0),
        "storvsc_log": Printer("dev", None, 2, 1, subject=0),
        "QEDF_ERR": Printer("qedf", 3, 1, subject=0),
        "QEDF_WARN": Printer("qedf", 4, 1, subject=0),
        "QEDI_ERR": Printer("qedi", 3, 1, subject=0),
        "QEDI_WARN": Printer("qedi", 4, 1, subject=0),
        "BNX2FC_ERR": Printer("", 3, 0),
        # file systems
        "ext4_msg": Printer("ext4_msg", None, 2, 1, subject=0),
        "ext4_error": Printer("ext4_error", 2, 1, subject=0),
        "ext4_error_err": Printer("ext4_error", 2, 2, subject=0),
        "EXT4_ERROR_INODE": Printer("ext4_inode", 2, 1),
        "EXT4_ERROR_INODE_ERR": Printer("ext4_inode", 2, 2),
        "EXT4_ERROR_INODE_BLOCK": Printer("ext4_inode", 2, 2),
        "EXT4_ERROR_FILE": Printer("ext4_file", 2, 2),
        "ext4_error_inode": Printer("ext4_inode", 2, 5),
        "ext4_error_inode_block": Printer("ext4_inode", 2, 3),
        "ext4_error_file": Printer("ext4_file", 2, 4),
        "ext4_warning": Printer("ext4_warning", 4, 1, subject=0),
        "ext4_warning_inode": Printer("ext4_warning_inode", 4, 1),
        "ext4_abort": Printer("ext4_abort", 2, 2),
        "ext4_grp_locked_error": Printer("ext4_error", 2, 4),
        "__ext4_error": Printer("ext4_error", 2, 6),
        "ext3_msg": Printer("ext3_msg", None, 2, 1, subject=0),
        "ext3_error": Printer("ext3_error", 2, 1, subject=0),
        "ext3_abort": Printer("ext3_error", 2, 2, subject=0),
        "ext3_warning": Printer("ext3_warning", 4, 1, subject=0),
        "cmn_err": Printer("", None, 1, 0),
        "xfs_fs_cmn_err": Printer("xfs_old", None, 2, 0),
        "xfs_cmn_err": Printer("xfs_old", None, 3, 1),
        "xfs_printk_ratelimited": Printer("xfs", None, 2, 0),
        "xfs_alert_tag": Printer("xfs", 1, 2),
        "btrfs_handle_fs_error": Printer("btrfs_error", 2, 2),
        "__btrfs_panic": Printer("btrfs", 0, 5),
        "btrfs_panic": Printer("btrfs", 0, 2),
        "f2fs_warn_ratelimited": Printer("f2fs", 4, 1),
        "extent_err": Printer("btrfs", 2, 2),
        # md
        "cache_set_err_on": Printer("bch_set", 3, 2),
        "bch_cache_set_error": Printer("bch_set", 3, 1),
        "btree_bug": Printer("bch_set", 3, 1),
        # drivers/block
        "rbd_warn": Printer("rbd", 4, 1),
        "drbd_err": Printer("drbd", 3, 1, subject=0),
        "drbd_warn": Printer("drbd", 4, 1, subject=0),
        "drbd_alert": Printer("drbd", 1, 1, subject=0),
        "drbd_emerg": Printer("drbd", 0, 1, subject=0),
        "drbd_printk": Printer("drbd", None, 2, 0, subject=1),
    }  # fmt: skip
    for word, level in _WORDS.items():
        for more in ("", "_once", "_ratelimited", "_rl", "_in_rcu", "_rl_in_rcu", "_limit"):
            known[f"pr_{word}{more}"] = Printer("pr", level, 0)
            known[f"dev_{word}{more}"] = Printer("dev", level, 1, subject=0)
            known[f"netdev_{word}{more}"] = Printer("dev", level, 1, subject=0)
            known[f"xfs_{word}{more}"] = Printer("xfs", level, 1, subject=0)
            known[f"btrfs_{word}{more}"] = Printer("btrfs", level, 1, subject=0)
            known[f"DM{word.upper()}{more.upper()}"] = Printer("dm", level, 0)
        known[f"f2fs_{word}"] = Printer("f2fs", level, 1, subject=0)
        known[f"xfs_{word}_mount"] = Printer("xfs", level, 2, subject=0)
        known[f"vdo_log_{word}"] = Printer("vdo", level, 0)
        known[f"vdo_log_{word}_strerror"] = Printer("vdo", level, 1)
        for what in ("ata_port", "ata_link", "ata_dev"):
            known[f"{what}_{word}"] = Printer(what, level, 1, subject=0)
            known[f"{what}_{word}_once"] = Printer(what, level, 1, subject=0)
    for word in ("notice", "info", "debug", "dbg", "cont", "devel"):
        for more in ("", "_once", "_ratelimited"):
            known[f"pr_{word}{more}"] = Printer("pr", 8, 0)
            known[f"dev_{word}{more}"] = Printer("dev", 8, 1)
    known["vdo_log_ratelimit"] = Printer("vdo", 3, 1)
    known["xfs_warn_mount"] = Printer("xfs", 4, 2, subject=0)
    known["xfs_warn_daddr"] = Printer("xfs", 4, 1, subject=0)
    for what in ("ata_port", "ata_link", "ata_dev"):
        known[f"{what}_printk"] = Printer(what, None, 2, 0, subject=1)
    known["dev_printk"] = Printer("dev", None, 2, 0, subject=1)
    known["dev_printk_ratelimited"] = Printer("dev", None, 2, 0, subject=1)
    known["xfs_printk_level"] = Printer("xfs", None, 2, 0)
    known["dev_err_probe"] = Printer("dev", 3, 2, subject=0)
    return known


_TOKEN = re.compile(
    r"""(?P<string>"(?:[^"\\\n]|\\.|\\\n)*")|(?P<char>'(?:[^'\\\n]|\\.)+')|(?P<word>[A-Za-z_]\w*)
    |(?P<other>\S)""",
    re.VERBOSE | re.DOTALL,
)
_COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)+\'', re.DOTALL)
_DEFINE = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)(\([^)]*\))?((?:[^\\\n]|\\\n|\\.)*)", re.MULTILINE
)
_CALL = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_HEAD = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_KERN = re.compile(r"KERN_([A-Z]+)$")
_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "r": "\r"}
_DEBUGGING = re.compile(
    r"de?bu?g|DE?BU?G|dprintk|dfprintk|trace|TRACE|[DV]PRINTK|no_printk|DEBC|_DUMP|DBG|^DC395_"
    r"|^dprintkl"
)
_FUNCTION_FIRST = frozenset(
    {"ext4_error", "ext4_abort", "ext4_warning", "ext3_error", "ext3_warning"}
)
"""Whose first words were a function's name, to Linux 2.6.33 (ext4) and to the end (ext3)."""
_OWN = ("pr_fmt", "DM_MSG_PREFIX")
"""What each file says for itself."""
_SKIPPED = frozenset({"if", "while", "for", "switch", "return", "sizeof", "defined"})


def plain(text: str) -> str:
    """Return C without comments, each as many lines as it was."""

    def kept(found: re.Match[str]) -> str:
        word = found[0]
        return word if word[0] in "\"'" else "\n" * word.count("\n") or " "

    return _COMMENT.sub(kept, text)


def _until(text: str, start: int) -> int:
    """Return where the bracket that is open before `start` closes."""
    depth = 1
    for found in _TOKEN.finditer(text, start):
        token = found[0]
        if token in "([{":
            depth += 1
        elif token in ")]}":
            depth -= 1
            if not depth:
                return found.start()
    return len(text)


def _arguments(text: str) -> list[list[tuple[str, str]]]:
    """Return arguments as tokens: (kind, text)."""
    found: list[list[tuple[str, str]]] = [[]]
    depth = 0
    for token in _TOKEN.finditer(text):
        kind, word = token.lastgroup or "", token[0]
        if word in "([{":
            depth += 1
        elif word in ")]}":
            depth -= 1
        if word == "," and not depth:
            found.append([])
        else:
            found[-1].append((kind, word))
    return found


def _string(word: str) -> str:
    return re.sub(
        r"\\(\n|x[0-9a-fA-F]+|[0-7]{1,3}|.)",
        lambda each: "" if each[1] == "\n" else _ESCAPES.get(each[1], ""),
        word[1:-1],
    )


@dataclass
class Room:
    """The macros of one directory (or of the headers that all see)."""

    plain: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    calls: dict[str, tuple[list[str], str]] = field(default_factory=dict)
    printers: dict[str, Printer | None] = field(default_factory=dict)


class _File(NamedTuple):
    """A file that is read: its path, its macros, what 'pr_fmt' puts before, its module."""

    path: str
    room: Room
    before: str
    module: str


class Tree:
    """A kernel's source."""

    def __init__(self, path: Path) -> None:
        """Read the macros of the headers that all drivers see."""
        self.path = path
        self.known = _printers()
        self.shared = Room()
        for each in ("include/scsi", "include/linux", "include/target"):
            for header in sorted((path / each).rglob("*.h")) if (path / each).is_dir() else ():
                self._define(self.shared, header.read_text(errors="replace"))
        self.rooms: dict[Path, Room] = {}
        self.modules: dict[Path, dict[str, str]] = {}

    def messages(self) -> Iterator[Message]:
        """Yield each message of the storage stack."""
        for each in (*TREES, *FILES):
            where = self.path / each
            if where.is_dir():
                for file in sorted([*where.rglob("*.c"), *where.rglob("*.h")]):
                    yield from self._file(file)
            elif where.is_file():
                yield from self._file(where)

    @staticmethod
    def _define(room: Room, text: str) -> None:
        for found in _DEFINE.finditer(plain(text)):
            name, parameters, body = found[1], found[2], found[3].replace("\\\n", " ")
            if parameters is None:
                tokens = [(each.lastgroup or "", each[0]) for each in _TOKEN.finditer(body)]
                if (
                    tokens
                    and len(tokens) < 9
                    and all(kind in {"string", "word"} for kind, _ in tokens)
                ):
                    room.plain[name] = tokens
            elif "(" in body or "fmt" in body:
                names = [each.strip() for each in parameters[1:-1].split(",")]
                room.calls.setdefault(name, (names, body))

    def _room(self, folder: Path) -> Room:
        if folder not in self.rooms:
            room = self.rooms[folder] = Room()
            for file in sorted([*folder.glob("*.h"), *folder.glob("*.c"), *folder.glob("*/*.h")]):
                own = Room()
                self._define(own, file.read_text(errors="replace"))
                for name in _OWN if file.suffix == ".c" or file.parent != folder else ():
                    own.plain.pop(name, None)
                    own.calls.pop(name, None)
                room.plain |= own.plain
                room.calls |= own.calls
            parent = folder.parent
            if parent.name not in {"drivers", "fs", "scsi"}:
                for file in sorted(parent.glob("*.h")):
                    self._define(room, file.read_text(errors="replace"))
        return self.rooms[folder]

    def _printer(self, name: str, room: Room, depth: int = 0) -> Printer | None:
        if name in self.known:
            return self.known[name]
        if name in room.printers:
            return room.printers[name]
        macro = room.calls.get(name) or self.shared.calls.get(name)
        if _DEBUGGING.search(name):
            macro = None  # compiled, or printed, for debugging only
        found: Printer | None = None
        if macro is not None and depth < 5:
            room.printers[name] = None
            found = self._wrapped(*macro, room, depth)
        room.printers[name] = found
        return found

    def _wrapped(self, names: list[str], body: str, room: Room, depth: int) -> Printer | None:
        """Return what a macro prints, if it prints what it is given."""
        given = [each.removesuffix("...").strip() or "__VA_ARGS__" for each in names]
        for call in _CALL.finditer(body):
            inner = self._printer(call[1], room, depth + 1)
            if inner is None:
                continue
            arguments = _arguments(body[call.end() : _until(body, call.end())])
            if len(arguments) <= inner.form:
                continue
            before, level = inner.before, inner.level
            level_at: int | None = None
            if inner.level_at is not None and inner.level_at < len(arguments):
                level, level_at = self._level_of(arguments[inner.level_at], given, room)
            for kind, word in self._resolved(arguments[inner.form], room):
                if kind == "string":
                    before += _string(word)
                elif (found := _KERN.match(word)) is not None:
                    level = _LEVELS.get(found[1], level)
                elif word in given:
                    before = self._heads(before, arguments[inner.form + 1 :])
                    return Printer(inner.head, level, given.index(word), level_at, before)
                elif kind == "word":
                    before += "%s"
        return None

    @staticmethod
    def _heads(before: str, arguments: list[list[tuple[str, str]]]) -> str:
        """Return the head that a macro prints, with what it puts into it."""
        values = iter(arguments)

        def one(_: re.Match[str]) -> str:
            value = "".join(word for _, word in next(values, []))
            if "__func__" in value or "__FUNCTION__" in value:
                return "\x01"
            return "\x02" if "name" in value else "12"

        return _CONVERSION.sub(one, before)

    @staticmethod
    def _level_of(
        tokens: list[tuple[str, str]], given: list[str], room: Room
    ) -> tuple[int | None, int | None]:
        for _, word in tokens:
            if word in given:
                return None, given.index(word)
            if (found := _KERN.match(word)) is not None:
                return _LEVELS.get(found[1]), None
        return _level(tokens, room), None

    def _resolved(
        self, tokens: list[tuple[str, str]], room: Room, depth: int = 0
    ) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        for kind, word in tokens:
            more = None
            if kind == "word" and depth < 6 and not _KERN.match(word):
                more = room.plain.get(word) or self.shared.plain.get(word)
            found += [(kind, word)] if more is None else self._resolved(more, room, depth + 1)
        return found

    def _file(self, file: Path) -> Iterator[Message]:
        text = plain(file.read_text(errors="replace"))
        path = str(file.relative_to(self.path))
        room = self._room(file.parent)
        own = Room(dict(room.plain), dict(room.calls), {})
        own_text = Room()
        self._define(own_text, text)
        own.plain |= own_text.plain
        own.calls |= own_text.calls
        module = self._module(file)
        own.plain["KBUILD_MODNAME"] = [("string", f'"{module}"')]
        own.plain.setdefault("PRIu64", [("string", '"llu"')])
        fmt = ""
        if (macro := own_text.calls.get("pr_fmt") or room.calls.get("pr_fmt")) is not None:
            for kind, word in self._resolved(
                [(e.lastgroup or "", e[0]) for e in _TOKEN.finditer(macro[1])], own
            ):
                if kind == "string":
                    fmt += _string(word)
                elif word == "fmt":
                    break
                elif word in {"__func__", "__FUNCTION__"}:
                    fmt = fmt.replace("%s", "\x01", 1)
        here = _File(path, own, fmt, module)
        spots = [(0, "")]
        for found in re.finditer(r"^\{", text, re.MULTILINE):
            chunk = text[max(0, found.start() - 600) : found.start()]
            chunk = re.split(r"[;}]|^#.*$|\n\n", chunk, flags=re.MULTILINE)[-1]
            head = [
                n for n in _HEAD.findall(chunk) if n not in _SKIPPED and not n.startswith("__attr")
            ]
            spots.append((found.start(), head[0] if head else ""))
        defines = [(found.start(), found.end()) for found in _DEFINE.finditer(text)]
        at = define = 0
        for call in _CALL.finditer(text):
            name = call[1]
            printer = self._printer(name, own)
            if printer is None:
                continue
            while at + 1 < len(spots) and spots[at + 1][0] < call.start():
                at += 1
            while define < len(defines) and defines[define][1] < call.start():
                define += 1
            if define < len(defines) and defines[define][0] <= call.start():
                continue
            before = text[max(0, call.start() - 40) : call.start()].rstrip()
            if before.endswith(('"', "void", "int", "#define", "'")):
                continue
            arguments = _arguments(text[call.end() : _until(text, call.end())])
            yield from self._message(here, spots[at][1], name, printer, arguments)

    def _message(
        self,
        file: _File,
        function: str,
        name: str,
        printer: Printer,
        arguments: list[list[tuple[str, str]]],
    ) -> Iterator[Message]:
        path, room = file.path, file.room
        if len(arguments) <= printer.form:
            return
        level = printer.level
        if printer.level_at is not None and printer.level_at < len(arguments):
            level = _level(self._resolved(arguments[printer.level_at], room), room)
        name_of = {"mpi3mr": "mpi3mr0", "mpt3sas": "mpt3sas_cm0", "fusion": "ioc0"}
        form = printer.before.replace("\x01", function)
        form, seen = form.replace("\x02", name_of.get(path.split("/")[-2], "x0")), False
        at = printer.form
        if printer.head in _FUNCTION_FIRST and self._is_function(arguments[at : at + 2]):
            at += 1
        for kind, word in self._resolved(arguments[at], room):
            if kind == "string":
                form += _string(word)
                seen = True
            elif (found := _KERN.match(word)) is not None:
                level = _LEVELS.get(found[1], level)
            elif kind == "word" and re.fullmatch(r"[A-Z][A-Z0-9_]+", word):
                form += "%s"
        if not seen:
            return
        if level is None:
            level = _LEVELS["DEFAULT"]
        if level > WARNING:
            return
        if printer.head == "pr":
            form = file.before.replace("\x01", function) + form
        elif printer.head == "dm":
            form = "device-mapper: " + _prefix(room) + ": " + form
        subject = ""
        if printer.subject is not None and printer.subject < len(arguments):
            subject = "".join(word for _, word in arguments[printer.subject])
        values = tuple(self._value(each, room) for each in arguments[at + 1 :])
        head = printer.head + (":" + file.module if printer.head in {"dev", "shost"} else "")
        yield Message(path, function, name, head, level, form, values, subject)

    @staticmethod
    def _is_function(arguments: list[list[tuple[str, str]]]) -> bool:
        """Return whether the first of two arguments is a function's name, the second a format."""
        (_, word), *_ = [*arguments[0], ("", "")]
        named = word in {"__func__", "__FUNCTION__"} or re.fullmatch(r'"\w+"', word) is not None
        return named and len(arguments) > 1 and any(k == "string" for k, _ in arguments[1])

    def _value(self, tokens: list[tuple[str, str]], room: Room) -> str:
        """Return an argument; a string where a macro is one."""
        resolved = self._resolved(tokens, room) if len(tokens) == 1 else tokens
        if all(kind == "string" for kind, _ in resolved):
            return '"' + "".join(_string(word) for _, word in resolved) + '"'
        return "".join(word for _, word in tokens)

    def _module(self, file: Path) -> str:
        """Return the module that a file is built into."""
        for folder in (file.parent, file.parent.parent):
            if folder not in self.modules:
                self.modules[folder] = _modules(folder)
            name = str(file.relative_to(folder).with_suffix(".o"))
            if name in self.modules[folder]:
                return self.modules[folder][name]
        return file.parent.name if file.suffix == ".h" else file.stem.replace("-", "_")


def _prefix(room: Room) -> str:
    tokens = room.plain.get("DM_MSG_PREFIX")
    return "core" if tokens is None else "".join(_string(w) for k, w in tokens if k == "string")


def _level(tokens: list[tuple[str, str]], _room: Room) -> int | None:
    for _, word in tokens:
        if (found := _KERN.match(word)) is not None:
            return _LEVELS.get(found[1])
        last = re.split(r"_", word)[-1].lower()
        if last in _WORDS:
            return _WORDS[last]
        if last == "fatal":
            return 2
        if last in {"info", "notice", "note", "debug", "dbg", "trac", "logging"}:
            return 6
    return None


def _modules(folder: Path) -> dict[str, str]:
    """Return the module of each object file, as a Makefile says."""
    found: dict[str, str] = {}
    for name in ("Makefile", "Kbuild"):
        makefile = folder / name
        if not makefile.is_file():
            continue
        text = makefile.read_text(errors="replace").replace("\\\n", " ")
        parts: dict[str, list[str]] = {}
        for target, objects in re.findall(r"^([\w.$()-]+)\s*[:+]?=\s*(.*)$", text, re.MULTILINE):
            base = re.sub(r"-(?:y|m|objs|\$\(.*\))$", "", target)
            parts.setdefault(base, []).extend(re.findall(r"[\w/.-]+\.o\b", objects))
        for each in parts.get("obj", []):
            found[each] = each.removesuffix(".o").replace("-", "_")
        for base, objects in parts.items():
            if base != "obj":
                found.update(dict.fromkeys(objects, base.replace("-", "_")))
    return found


# --- lines ---

_PREFIXES = {
    "WARN": "WARNING: CPU: 1 PID: 77 at {path}:12 {function}+0x1/0x2\n",
    "sdev": "sd 7:0:1:0: ",
    "scmd": "sd 7:0:1:0: [sdb] tag#5 ",
    "sd": "sd 7:0:1:0: [sdb] ",
    "sr": "sr 7:0:1:0: [sr0] ",
    "st": "st 7:0:1:0: [st0] ",
    "sg": "sd 7:0:1:0: [sg0] ",
    "starget": "scsi target7:0:1: ",
    "shost": "scsi host7: ",
    "iscsi_conn": "connection1:0: ",
    "iscsi_session": "session1: ",
    "ata_port": "ata4: ",
    "ata_link": "ata4: ",
    "ata_dev": "ata4.00: ",
    "ql": "qla2xxx [0000:3b:00.0]-00fb:7: ",
    "ql4": "scsi host7: ",
    "lpfc": "lpfc 0000:3b:00.0: 0:",
    "lpfc_v": "lpfc 0000:3b:00.0: 0:(0):",
    "esas2r": "esas2r: ",
    "hpsa": "hpsa 0000:3b:00.0: scsi 7:0:1:0: ",
    "qedf": "[0000:3b:00.0]:[{function}:12]:7: ",
    "qedi": "[0000:3b:00.0]:[{function}:12]:7: ",
    "ext4_msg": "EXT4-fs (sdb1): ",
    "ext4_error": "EXT4-fs error (device sdb1): {function}:12: comm cp: ",
    "ext4_abort": "EXT4-fs error (device sdb1): {function}:12: comm cp: ",
    "ext4_inode": "EXT4-fs error (device sdb1): {function}:12: inode #12: comm cp: ",
    "ext4_file": "EXT4-fs error (device sdb1): {function}:12: inode #12: comm cp: path /x: ",
    "ext4_warning": "EXT4-fs warning (device sdb1): {function}:12: ",
    "ext4_warning_inode": "EXT4-fs warning (device sdb1): {function}:12: inode #12: comm cp: ",
    "ext3_msg": "EXT3-fs (sdb1): ",
    "ext3_error": "EXT3-fs error (device sdb1): {function}: ",
    "ext3_warning": "EXT3-fs warning (device sdb1): {function}: ",
    "xfs": "XFS (sdb1): ",
    "xfs_old": 'Filesystem "sdb1": ',
    "f2fs": "F2FS-fs (sdb1): ",
    "btrfs_error": "BTRFS: error (device sdb1) in {function}:12: errno=-5 IO failure (",
    "bch_set": "bcache: bch_cache_set_error() error on 1b2c: ",
    "rbd": "rbd: rbd0: ",
    "drbd": "drbd r0/0 drbd0: ",
    "vdo": "device-mapper: vdo0:kvdo: ",
}
_BTRFS = {0: "panic", 1: "alert", 2: "critical", 3: "error", 4: "warning"}
_CONVERSION = re.compile(
    r"%(?P<flags>[-+ #0]*)(?P<width>\d+|\*)?(?:\.(?P<precision>\d+|\*))?"
    r"(?:hh|h|ll|l|z|Z|t|j|L|q)?(?P<what>p[A-Za-z0-9]*|[diouxXcsn%])"
)
_VALUES = (
    (r"mdname|mddev", "md0"),
    (r"mmc_hostname|host->", "mmc0"),
    (r"s_id|bdev|bdevname|disk_name|disk->|rq_disk|\bb\b|->name_?$|b\[", "sdb1"),
    (r"ioc->name", "mpt3sas_cm0"),
    (r"comm\b", "cp"),
)


def line(message: Message) -> str:
    """Return a message as a line of the log, with plausible values."""
    head, _, module = message.head.partition(":")
    before = _PREFIXES.get(head, "").format(path=message.path, function=message.function)
    if head == "dev":
        before = _device(message, module)
    elif head == "btrfs":
        before = f"BTRFS {_BTRFS[message.level]} (device sdb1): "
    elif head == "drbd" and re.search(r"connection|resource|tconn", message.subject):
        before = "drbd r0: "
    return " ".join((before + filled(message)).split(" ")).rstrip("\n")


def _device(message: Message, module: str) -> str:
    subject, path = message.subject, message.path
    if "nvme/host" in path and not re.search(r"pdev|dev->dev|->dev\b.*pci", subject):
        return "nvme nvme0: "
    if "disk_to_dev" in subject or "part_to_dev" in subject:
        return "block nbd0: " if "nbd" in path else "block sdb: "
    for word, before in (
        ("shost_gendev", "scsi host7: "),
        ("shost_dev", "scsi host7: "),
        ("sdev_gendev", "sd 7:0:1:0: "),
        ("sdev_dev", "sd 7:0:1:0: "),
        ("rport->dev", "rport-7:0-1: "),
        ("starget", "scsi target7:0:1: "),
        ("phy->dev", "sas phy-7:0: "),
        ("card->dev", "mmcblk mmc0:0001: "),
    ):
        if word in subject:
            return before
    if path.startswith("drivers/usb"):
        return f"{module} 1-2:1.0: "
    if "virtio" in module:
        return f"{module} virtio2: "
    if "nbd" in module:
        return "block nbd0: "
    return f"{module} 0000:3b:00.0: "


def filled(message: Message) -> str:
    """Return a format with its values."""
    values = iter(message.values)

    def one(found: re.Match[str]) -> str:
        what = found["what"]
        if what == "%":
            return "%"
        for star in (found["width"], found["precision"]):
            if star == "*":
                next(values, "")
        value = next(values, "")
        if what == "s":
            if "__func__" in value or "__FUNCTION__" in value:
                return message.function
            if value.startswith('"'):
                return value.strip('"')
            return _named(message, value)
        if what.startswith("pg"):
            return "sdb1"
        if what.startswith("p"):
            return {
                "I": "192.0.2.7",
                "U": "1b2c3d4e",
                "d": "name",
                "D": "name",
                "S": "func+0x1",
            }.get(what[1:2], "00000000a1b2c3d4")
        if what == "c":
            return "x"
        if what in "xX":
            return ("0x" if "#" in found["flags"] else "") + "1f"
        return "12"

    return _CONVERSION.sub(one, message.form)


def _named(message: Message, value: str) -> str:
    if "ioc->name" in value or "(ioc)->name" in value:
        return {"mpi3mr": "mpi3mr0", "fusion": "ioc0"}.get(
            message.path.split("/")[-2], "mpt3sas_cm0"
        )
    if "name" in value and "aacraid" in message.path:
        return "aacraid"
    if "disk_name" in value and message.path.startswith("drivers/mmc"):
        return "mmcblk0"
    for pattern, word in _VALUES:
        if re.search(pattern, value):
            return word
    return "x"
