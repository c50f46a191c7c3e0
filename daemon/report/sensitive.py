"""Finds in a recorded machine the words that identify a disk, a host, a person or their files.

By place (files of the kernel that hold names), by label ('Serial Number:') and by form (addresses,
UUIDs). Limits: names of programs and systemd units are not looked for, nor words of languages.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from iowarden.daemon.report.pseudonym import MIN_CHARACTERS, WordKind
from iowarden.daemon.storage.redaction import PATTERN, SECRET_FILES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_COMMON = frozenset(
    "archive backup backups bin binfmt_misc block boot bpf btrfs bus by-id by-label"
    " by-partuuid by-path by-uuid cache cgroup class configfs cur data database db debug dev"
    " device devices devtmpfs disk disks docker efi etc events export ext4 fs fusectl"
    " history.db home host hosts hugepages iowarden journal kernel kmsg label lib lib64 local"
    " lock log logs lost mail maildir mapper media misc mnt module modules mqueue mysql net"
    " new nfs none null opt overlay partlabel partuuid path postgresql private probe proc"
    " pstore pts public python read recording root run run-lock sbin script scripts security"
    " share shm snap spool srv state state.db statvfs swap swapfile sys sysfs system systemd"
    " tmp tmpfs tracing uevents usb user users usr uuid var version vfat virtual volumes www"
    " xfs".split()
)
"""Names that are on most machines and identify none."""
_DEVICE = re.compile(
    r"(?:sd[a-z]+|vd[a-z]+|xvd[a-z]+|hd[a-z])\d*|nvme\d+(?:[cn]\d+)*(?:p\d+)?|(?:dm-|md_?d?|loop|"
    r"zram|ram|sr|st|sg|nbd|mmcblk|bcache)\d+(?:p\d+)?|\d+(?::\d+)*|host\d+|target[\d:]+|\W*",
    re.ASCII,
)
_SYSTEM = ("/usr/", "/lib", "/bin/", "/sbin/", "/proc/", "/sys/", "/etc/", "/run/", "/boot/")
"""Directories whose files every machine has."""
_CONTROLLER = re.compile(r"/c(?:\d+|all)(?:/[a-z]{1,4}\d*)*")
"""An object of storcli and tw_cli: '/c0/p1', '/c0/eall/sall'."""
HOST_FILES = re.compile(r"/(?:hostname|domainname|mailname)$")
"""Files whose content is a name of the host."""
_NAMED_FILES = re.compile(
    r"/dm/(?:name|uuid)|/loop/backing_file|/md/(?:uuid|array_uuid)|/etc/(?:hostname|mailname)"
    r"|/proc/sys/kernel/(?:hostname|domainname)|/random/boot_id"
)
_LINE = r"(?:^|\\n)"
"""Start of a line, also in a program's output that is recorded as a JSON text."""
_PROPERTIES = re.compile(
    _LINE + r"(?:E:)?(?:ID_\w*(?:SERIAL|WWN|UUID|LABEL|PART_ENTRY_NAME)\w*"
    r"|DM_(?:NAME|UUID|VG_NAME|LV_NAME)|MD_(?:NAME|DEVNAME|UUID)|ID_(?:IP|MAC)\w*)=((?:(?!\\n).)+)",
    re.MULTILINE,
)
_ARRAYS = re.compile(
    _LINE + r"\s*(?:(?:(?:(?:host|system|raid(?: set)?|volume(?: set)?|unit|array|virtual drive"
    r"|logical (?:device|drive)) ?)?name|label)[ \t]*[:=][ \t]*'?"
    r"(?P<named>[^\s'\\](?:(?!\\n|  )[^'\n])*)"
    # storcli, 'VD LIST'; cli64, 'vsf info' and 'rsf info': the columns of the names.
    r"|(?:\d+|-)/\d+[ \t]+RAID\d+[ \t](?:(?!\\n).)*?[KMGTP]B[ \t]+(?P<virtual>[^\s\\]+)"
    r"|\d+[ \t]+(?P<volume>\S(?:(?!\\n).)*?)[ \t]{2,}(?P<set>\S(?:(?!\\n).)*?)[ \t]+Raid ?\d"
    r"|\d+[ \t]+(?P<raid>\S(?:(?!\\n).)*?)[ \t]+\d+[ \t]+[\d.]+[KMGTP]B)",
    re.IGNORECASE | re.MULTILINE,
)
"""Names that a person gave to an array, or to the machine that made it."""
_DEFAULT_NAMES = re.compile(r"Raid ?Set ?#.*|ARC-\d+-VOL#?.*|\W*|n/?a|none", re.IGNORECASE)
_SHARED = re.compile(
    r"9p|virtiofs|zfs|ceph|nfs4?|cifs|smb\w*|davfs|lustre|glusterfs|beegfs|afs|fuse(?:blk)?(?:\..+)?"
)
"""File systems whose source is a name and no device."""
_KERNEL_HOSTS = re.compile(
    r"hostname to <([^>\s]+)>|\bserver ([^\s:]+) (?:not responding|timed out|OK\b)"
)
"""Of systemd and the clients of network file systems in the kernel's log."""
_MATCHED = re.compile(
    r"(?:mountpoint|device|disk|filesystem|instance|slot|serial|directory|path)\s*(?:=~?|!=|!~)"
    r"\s*[\"']([^\"']+)[\"']"
)
"""An object in an expression."""
_LABELS = re.compile(
    r"(?:LABEL|PARTLABEL|UUID|PARTUUID|ID)=[\"']?([^\s\"',]+)|"
    r"(?:user(?:name)?|pass(?:word|wd)?|domain|credentials|token|secret|api[_-]?key|access[_-]?key"
    r"|signature)=([^\s,&\"'\\]+)",
    re.IGNORECASE,
)
_LABELLED = re.compile(
    r"(?:serial|wwn|wwid|eui64|nguid|unique[_ ]id|\bs/?n|unit[_ ]id|uuid|sas[_ ]address)"
    r"[a-z_ .-]{0,20}[\\\"']{0,6}\s{0,20}[:=|]\s{0,20}[\\\"']{0,6}"
    r"([0-9a-f] [0-9a-f]{6} [0-9a-f]{9}|[A-Za-z0-9][\w.:+/-]{2,})",
    re.IGNORECASE | re.ASCII,
)
_WWN_NUMBER = re.compile(r"(?:wwn|eui64).{0,80}?\b(?:ext_)?id[\\\"]*\s*:\s*(\d{4,})", re.DOTALL)
_PATH = re.compile(r"/[^\s,:;=\"'\\()\[\]{}<>|*?]+")
_REMOTE = re.compile(r"(?:^|\s)(?://([^/\s]+)/|([A-Za-z0-9][\w.-]*):/(?!/))")
_NETWORK_KEYS = frozenset({"host", "hosts", "server", "hello", "listen", "targets", "instance"})
_PEOPLE_KEYS = frozenset({"user", "from", "to"})
_NAME_KEYS = frozenset({"name", "slot", "labels"})
_DISK_KEYS = frozenset({"serial", "disks"})
_ANY_DISK = frozenset({"*", "rotational", "solid-state"})
"""Keys of the configuration by what their values are, and values that name no disk."""
_FILE_SUFFIXES = frozenset(
    "automount c conf device h json mount path py rst scope service slice so socket swap target"
    " timer txt yaml yml".split()
)
_KINDS = {
    "v4": WordKind.ADDRESS,
    "number": WordKind.ADDRESS,
    "address": WordKind.ADDRESS,
    "at": WordKind.HOST,
    "cifs": WordKind.HOST,
    "nfs": WordKind.HOST,
    "host": WordKind.HOST,
    "login": WordKind.USER,
    "user": WordKind.USER,
    "home": WordKind.USER,
    "secret": WordKind.USER,
}
CHECK = "check.json"
"""Texts of iowarden itself: dotted words in them are settings and files, not hosts."""
_COMMON_ADDRESSES = frozenset({"127.0.0.1", "0.0.0.0", "::1", "::", "255.255.255.255"})  # noqa: S104
_FREE_TEXT = re.compile(r"/\.probe/|/\.kmsg|/run/udev/|/mountinfo|/fstab|/mdstat|check\.json")
_MODEL = re.compile(r"/device/(?:model|vendor|rev)$")
_MODEL_FIELD = re.compile(
    r"(?:model(?:_name|_family)?|product|vendor|firmware(?:_version)?|device model)"
    r"[\\\"']{0,6}\s*[:=]\s*[\\\"']{0,6}([^\\\"'\n,]+)",
    re.IGNORECASE,
)


class Sensitive:
    """The words found so far, by kind."""

    def __init__(self, hosts: Iterable[str] = ()) -> None:
        """`hosts` are names of this machine."""
        self._found: dict[str, WordKind] = {}
        self._models: set[str] = set()
        self._kernel: set[str] = set()
        for name in hosts:
            self.host(name)

    def words(self) -> dict[str, WordKind]:
        """Return the words; those of a disk's model and of the kernel's files identify none."""
        known = {WordKind.IDENTIFIER: self._models, WordKind.NAME: self._kernel}
        return {
            word: kind
            for word, kind in self._found.items()
            if word.lower() not in known.get(kind, ())
        }

    def host(self, name: str) -> None:
        """Take a host name, and its first label."""
        for each in (name, name.partition(".")[0]):
            if each not in {"localhost", "localdomain"}:
                self._take(each, WordKind.HOST)

    def user(self, name: str) -> None:
        """Take a user's name."""
        self._take(name, WordKind.USER)

    def secret(self, value: str) -> None:
        """Take a value of the configuration that may be a secret; a path or URL by its parts."""
        if "/" in value:
            self.free_text(value)
        else:
            self._take(value, WordKind.IDENTIFIER)

    def path(self, path: str) -> None:
        """Take the names in a path."""
        if path.startswith(_SYSTEM) or _CONTROLLER.fullmatch(path):
            return
        for part in path.split("/"):
            plain = re.sub(r"\\(\d{3})", lambda found: chr(int(found[1], 8)), part)
            for each in (part, plain):
                if not _DEVICE.fullmatch(each) and each.lower().strip(".") not in _COMMON:
                    self._take(each, WordKind.NAME)

    def file(self, path: str, content: bytes) -> None:
        """Take the words of a recorded file."""
        if path.endswith("/.statvfs"):
            self.path(path.removesuffix("/.statvfs"))
        elif path.startswith(("/proc/", "/sys/")):
            self._kernel.update(path.lower().split("/"))
        text = content.decode("utf-8", "surrogateescape")
        if path.endswith(("/mountinfo", "/fstab")):
            self._mounts(text)
        if SECRET_FILES.search(path):
            for word in re.findall(r"[\x21-\x7e]{4,}", text):
                self._take(word, WordKind.IDENTIFIER)
        elif _NAMED_FILES.search(path):
            self._named(path, text.strip())
        elif _MODEL.search(path):
            self._model(text)
        elif _FREE_TEXT.search(path):
            self.free_text(text, path)

    def free_text(self, text: str, path: str = "") -> None:
        """Take the words of a text that a program or the kernel wrote."""
        for found in _MODEL_FIELD.finditer(text):
            self._model(found[1])
        for found in _PATH.finditer(text):
            self.path(found[0])
        if "/.probe/" in path:
            request = path.rpartition("/.probe/")[2].replace("!", "/")
            # A program's arguments have no blanks; what they name on a controller is no file.
            places = request.split(" ") if request.startswith("run ") else [request]
            for place in places:
                self.path(place[place.find("/") :] if "/" in place else "")
        for found in _PROPERTIES.finditer(text):
            self._take(found[1], WordKind.IDENTIFIER)
        for found in _LABELS.finditer(text):
            self._take(found[1] or found[2], WordKind.IDENTIFIER)
        if "/.probe/" in path:
            self._arrays(text)
        for found in _KERNEL_HOSTS.finditer(text):
            self.host(found[1] or found[2])
        for found in _REMOTE.finditer(text):
            self.host(found[1] or found[2])
        for found in (*_LABELLED.finditer(text), *_WWN_NUMBER.finditer(text)):
            if any(each.isdigit() for each in found[1]):  # 'Serial number: none' is a word
                self._take(found[1], WordKind.IDENTIFIER)
                self._take(found[1].replace(" ", ""), WordKind.IDENTIFIER)
        for found in PATTERN.finditer(text):
            after = re.match(r"\S*", text[found.end() : found.end() + 80])
            self._formed(found[0], found.lastgroup or "", after[0] if after else "", path)

    def setting(self, key: str, value: str) -> None:
        """Take the words of a value of the configuration; `key` is the last part of its key."""
        self.free_text(value)
        if key in _PEOPLE_KEYS:
            person, _, address = value.strip("> ").rpartition("<")
            user, _, host = address.partition("@")
            self.user(person.strip("\"' "))
            self.user(user)
            self.host(host)
        elif key in _NETWORK_KEYS and not re.fullmatch(r"[\d.:\[\]]+", value):
            self.host(value.rpartition(":")[0] or value)
        elif key in _NAME_KEYS:
            self._take(value, WordKind.NAME)
        elif key in _DISK_KEYS and value not in _ANY_DISK:
            self._take(value, WordKind.IDENTIFIER)
        elif key == "glob":
            for part in re.findall(r"[\w-]+", value):
                self._take(part.strip("-"), WordKind.NAME)
        elif key == "expr":
            for found in _MATCHED.finditer(value):
                self.path(found[1])

    def _mounts(self, text: str) -> None:
        """Take the words of mountinfo or fstab. Sources: proc(5), fstab(5)."""
        for line in text.splitlines():
            left, dash, right = line.partition(" - ")
            words = left.split()
            if dash and len(words) > 4:
                paths, (kind, source, options) = words[3:5], (*right.split(), "", "", "")[:3]
            elif len(words) > 3 and not line.startswith("#"):
                source, paths, kind, options = words[0], words[1:2], words[2], words[3]
            else:
                continue
            for path in paths:
                self.path(path)
            if not _SHARED.fullmatch(kind):
                continue
            for word in re.split(r"[/:@,;]+", source):
                if word not in kind and not re.fullmatch(r"[\d.\[\]]*", word):
                    self._take(word, WordKind.NAME)
            for option in options.split(","):
                if option.startswith("name="):  # a user of Ceph
                    self.user(option.removeprefix("name="))

    def _arrays(self, text: str) -> None:
        """Take the names of arrays; the pseudonyms are as long: tables are read by column."""
        for found in _ARRAYS.finditer(text):
            for name in filter(None, found.groupdict().values()):
                if not _DEFAULT_NAMES.fullmatch(name.strip()):
                    for part in name.split(":"):
                        self._take(part, WordKind.IDENTIFIER)

    def _named(self, path: str, text: str) -> None:
        if HOST_FILES.search(path):
            self.host(text)
        elif "backing_file" in path:
            self.path(text)
        else:
            kind = WordKind.NAME if path.endswith("/name") else WordKind.IDENTIFIER
            for word in (text, *text.split("-")):
                if word.lower() not in {*_COMMON, "lvm", "crypt", "luks1", "luks2", "mpath"}:
                    self._take(word, kind)

    def _model(self, text: str) -> None:
        self._models.update(re.split(r"\s+", text.lower()))
        self._models.update(re.split(r"[^0-9a-z]+", text.lower()))

    def _formed(self, word: str, form: str, after: str, path: str) -> None:
        unit = (word + after).rpartition(".")[2].rstrip("\\\"',;:)]}").lower() in _FILE_SUFFIXES
        if form in {"host", "at", "login"} and (unit or path == CHECK or after[:1] == "_"):
            return
        if form == "labelled":  # has its own pattern here, which takes the value only
            return
        if form in {"number", "address"}:
            for address in _addresses(word):
                self._take(address, WordKind.ADDRESS)
            return
        self._take(word, _KINDS.get(form, WordKind.IDENTIFIER))

    def _take(self, word: str, kind: WordKind) -> None:
        word = word.strip()
        if len(word) >= MIN_CHARACTERS and word.lower() not in _COMMON and "(none)" not in word:
            self._found.setdefault(word, kind)


def _addresses(text: str) -> Iterator[str]:
    """Give the IP addresses in a text; times and device numbers are none."""
    import ipaddress  # noqa: PLC0415 - only for a report

    candidates = [text, text.strip(":"), *re.findall(r"\d{1,3}(?:\.\d{1,3}){3}", text)]
    for each in dict.fromkeys(candidates):
        try:
            ipaddress.ip_address(each)
        except ValueError:
            continue
        if each not in _COMMON_ADDRESSES and (each.count(":") > 2 or "." in each):
            yield each


def own_hosts(configured: str) -> list[str]:
    """Return the names of this machine."""
    return [configured, os.uname().nodename]
