r"""Lines of file systems without rows of their own: what was found, and what was done then.

Also the panics of OpenZFS and the cluster of OCFS2. The consequence often stands alone in a log
whose first lines are gone, and has no word of an error: 'File system withdrawn', 'Filesystem has
been set read-only'. So it is an event at any level.
ext2 to ext4, XFS, btrfs, FAT and ReiserFS are in kernel_patterns.py.

Source: Linux 6.12, below fs/ at the file and line that each row of `FILE_SYSTEMS` names; OpenZFS
2.4, module/os/linux/spl/spl-err.c (spl_panic, vcmn_err).
Limits: a name like 'ubi0:0' or 'cluster:volume' is no block device, and becomes the place.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, NamedTuple

from iowarden.collectors.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from iowarden.collectors.kmsg.kernel_classifier import Classifier, Taken
    from iowarden.collectors.kmsg.kernel_line import KernelLine


_Rows = tuple[tuple[re.Pattern[str], str], ...]


class FileSystem(NamedTuple):
    """How the lines of a file system begin, and the place of their formats in the kernel.

    `head`: a pattern, with the group `device` or `place` where the line names one, and 'error' for
    a word that makes it an error whatever follows.
    """

    name: str
    head: str
    source: str


_AT = r"\((?:device )?(?P<device>[\w!.-]+)(?: [^)]*)?\)"
FILE_SYSTEMS = (
    FileSystem("gfs2", r"(?:gfs2|GFS2): fsid=(?P<place>[\w.:-]+?):? ", "gfs2/util.c:330, 344, 369"),
    FileSystem(
        "ocfs2",
        rf"(?:OCFS2|ocfs2): (?:(?P<error>ERROR|abort) )?(?:{_AT}: )?",
        "ocfs2/super.c:2539-2595",
    ),
    FileSystem("exfat", rf"exFAT-fs {_AT}: (?P<error>error, )?", "exfat/misc.c:37-45"),
    FileSystem("nilfs2", rf"NILFS(?: (?P<error>error))?(?: {_AT})?: ", "nilfs2/super.c:135-150"),
    FileSystem("jfs", rf"(?P<error>ERROR): {_AT}: ", "jfs/super.c:75, 91"),
    FileSystem("udf", rf"UDF-fs: (?:(?P<error>error) |warning )?(?:{_AT}: )?", "udf/super.c:2364"),
    FileSystem("ntfs3", r"ntfs3(?:\((?P<device>[\w!.-]+)\)|: (?P<disk>[\w!.-]+)): ",
               "ntfs3/super.c:94, 149; to Linux 6.3 with ': '"),
    FileSystem("squashfs", r"SQUASHFS (?P<error>error): ", "squashfs/squashfs.h:13"),
    FileSystem("erofs", rf"(?:erofs|EROFS):? {_AT}: ", "erofs/super.c:32"),
    FileSystem(
        "ubifs",
        r"UBIFS(?: (?P<error>error)| warning)? \((?P<place>ubi[\d:]+)(?: pid \d+)?\): ",
        "ubifs/misc.c:33, 52; io.c:76",
    ),
    FileSystem("ubi", r"(?P<place>ubi\d+)(?: (?P<error>error)| warning): ",
               "drivers/mtd/ubi/ubi.h, ubi_err"),
    FileSystem("bcachefs", rf"bcachefs {_AT}: ", "bcachefs/error.c:25-66, bcachefs.h:250"),
    FileSystem("zonefs", rf"zonefs {_AT} (?:(?P<error>ERROR)|WARNING): ", "zonefs/super.c:346"),
    FileSystem("affs", rf"affs: (?:(?P<error>error) )?(?:{_AT}: )?", "affs/amigaffs.c:481-483"),
    FileSystem("hpfs", r"hpfs: filesystem (?P<error>error): ", "hpfs/super.c:67-80"),
    FileSystem("ufs", rf"UFS-fs (?P<error>error|panic) {_AT}: ", "ufs/super.c: ufs_error, to 3.14"),
    FileSystem("ntfs", rf"NTFS-fs (?P<error>error) {_AT}: ", "ntfs/debug.c, to 6.8"),
    FileSystem("adfs", rf"ADFS-fs (?P<error>error) {_AT}: ", "adfs/super.c: __adfs_error"),
    FileSystem("hpfs", r"HPFS: filesystem (?P<error>error): ", "hpfs/super.c, to 3.14"),
    FileSystem("jfs", r"metapage_\w+: (?=I/O error)", "jfs/jfs_metapage.c"),
    FileSystem("panic", rf"Kernel panic - not syncing: (?:[\w-]+-fs(?: panic)? {_AT}: "
               r"|(?=VFS: Unable to mount root))", "kernel/panic.c; init/do_mounts.c"),
    FileSystem("jffs2", r"jffs2: (?:(?P<error>error): |warning: )?", "jffs2/debug.h"),
    FileSystem("befs", rf"befs: {_AT}: ", "befs/debug.c:37"),
    # two lines that name no device, of OCFS2 and JFS: ocfs2/super.c:2539, jfs/jfs_logmgr.c:2189
    FileSystem("others", r"On-disk (?=corruption discovered)|lbmIODone: (?=I/O error)", ""),
    FileSystem("vdo", r"kvdo\d*(?::\w+)?: ", "kvdo 6, 8: uds/logger.c, printed with its thread"),
    # Without space, memory, quota or permission to write: no error of the file.
    FileSystem("quota", rf"Quota (?P<error>error) {_AT}: (?!\w+: Error -(?:12|28|30|122)\b)",
               "quota/dquot.c, __quota_error"),
    FileSystem("minix", r"(?P<error>minix)_(?:free|new|count_free)_\w+(?: \((?P<device>[\w!.-]+):"
               r"\d+\))?: ", "minix/bitmap.c"),
    FileSystem("sysv", r"(?P<error>sysv)_(?:free|new|read|count_free)_\w+: ", "sysv/balloc.c"),
    FileSystem("efs", r"(?:EFS|efs): (?=.*?(?P<error>failed at block|corrupt))", "efs/inode.c"),
    FileSystem("others", r"(?:hfs|hfsplus|omfs|cramfs|qnx[46]|romfs|BFS-fs|MINIX-fs|minix): ",
               "pr_fmt, or the text of printk"),
)  # fmt: skip
"""In the order of their use; `source` below fs/ of Linux 6.12 where it names no other tree."""
_CONSEQUENCES = (
    (r"(?i)withdrawn\b|withdraw this file ?system|Shutting down mount", "fs_shutdown"),
    (r"VFS: Unable to mount root fs", "fs_shutdown"),
    (r"(?i)\bpanic (?:forced |requested|after |from )|ocfs2 cannot continue", "fs_shutdown"),
    (r"(?i)mark volume as dirty due to", "fs_error"),
    (
        r"(?i)not (?:properly|cleanly) unmounted|volume is dirty|mounting unchecked",
        "fs_not_unmounted",
    ),
    (
        (
            r"(?i)(?:has been set|remounting(?: file ?system| fs)?(?: as)?|is now|switch(?:ed)? to"
            r"|entering) read[- ]?only|emergency read[- ]?only|marking it read[- ]?only"
            r"|setting (?:file ?system|device) RO\b"
        ),
        "fs_readonly",
    ),
)
"""What a file system did because of an error: an event whatever the level is."""
_FINDINGS = (
    (
        (
            r"(?i)bad CRC|CRC (?:error|mismatch|fail)|ECC error|checksum (?:error|mismatch|fail"
            r"|invalid)|csum (?:fail|mismatch)"
        ),
        "fs_checksum_error",
    ),
    (
        (
            r"(?i)^fatal\b|node read error|Error \d+ writing to journal|\bfatal error\b|is corrupt"
            r"|inconsistency (?:error|detected)|probably corrupt|fail\w* to decompress"
            r"|decompression failed|I/O error|IO error|corruption (?:detected|discovered)"
        ),
        "fs_error",
    ),
)
"""What it found, in lines whose head has no word of an error."""
LEADS = (
    *("gfs", "GFS", "OCFS", "ocfs", "exFAT", "NILFS", "ERROR", "UDF", "ntfs", "SQUASHFS", "erofs"),
    *("EROFS", "kvdo", "On", "lbmIODone"),
    *("UBIFS", "ubi", "bcachefs", "zonefs", "affs", "hpfs", "jffs", "befs", "hfs", "hfsplus"),
    *("UFS", "ADFS", "NTFS", "HPFS", "metapage", "Kernel"),
    *("omfs", "cramfs", "qnx", "romfs", "BFS", "MINIX", "minix", "sysv", "EFS", "efs", "Quota"),
)
"""First words of these lines. 'ufs' is a driver, too, and not among them."""
_TRIED_OUT = lazy_pattern(
    r"(?i)mount option|unsupported|not supported|can.t find (?:a|an)\b|unable to find|invalid"
    r" (?:option|magic|VFS)|No (?:VRS|anchor|partition|fileset)|magic (?:number )?mismatch"
    r"|wrong fsid|no .* found$|couldn.t find|read[- ]superblock|superblock on|not a "
)
"""Words of an error when a partition of another type, or a wrong option, is tried out."""


def file_system_line(state: Classifier, line: KernelLine, text: str) -> Taken:  # noqa: ARG001
    """Parse a line of one of `FILE_SYSTEMS`: its consequence first, then what it found."""
    heads, consequences, findings = _compiled()
    begin = next(filter(None, (head.match(text) for head in heads)), None)
    if begin is None:
        return state, None
    rest = text[begin.end() :]
    kind = _first(consequences, rest)
    if not kind and _TRIED_OUT.search(rest) is None:
        kind = _first(findings, rest) or ("fs_error" if begin.groupdict().get("error") else "")
    return state, (kind, _where(begin)) if kind else None


def _first(rows: _Rows, text: str) -> str:
    return next((kind for pattern, kind in rows if pattern.search(text) is not None), "")


_UUID = lazy_pattern(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""By which bcachefs names a file system of several devices."""


def _where(begin: re.Match[str]) -> dict[str, str]:
    named = begin.groupdict()
    device = named.get("device") or named.get("disk")
    if device and _UUID.fullmatch(device) is not None:
        return {"place": device}
    if device:
        return {"device": device}
    return {"place": place} if (place := named.get("place")) else {}


ZFS_LEADS = ("PANIC", "VERIFY", "ASSERT")
_ZFS_PANIC = lazy_pattern(
    r"PANIC: (?!double fault|early exception)|PANIC at \w+\.[ch]:\d+:"
    r"|(?:VERIFY|ASSERT)\w*\(.*\bfailed\b",
    re.ASCII,
)
"""The other two are of the processor: arch/x86/kernel/traps.c, idt."""
_POOL = lazy_pattern(r"[Pp]ool '([^']{1,255})'")


def zfs_line(state: Classifier, line: KernelLine, text: str) -> Taken:  # noqa: ARG001
    """Parse the panic of a thread of ZFS: it halts for good, and its pool's requests with it."""
    if _ZFS_PANIC.match(text) is None:
        return state, None
    pool = _POOL.search(text)
    return state, ("zfs_panic", {} if pool is None else {"place": pool[1]})


_CLUSTER = (
    (lazy_pattern(r"\*\*\* ocfs2 is very sorry to be fencing"), "fs_shutdown"),
    (
        lazy_pattern(r"\(.*Heartbeat write timeout to device (?P<device>[\w!.-]+) after"),
        "block_timeout",
    ),
    (lazy_pattern(r"\(.*Write error -\d+ on device \"?(?P<device>[\w!.-]+)"), "block_io_error"),
    (lazy_pattern(r"\(.*:o2hb_bio_end_io:\d+ ERROR: IO Error (?P<code>-?\d+)"), "block_io_error"),
)
"""Source: fs/ocfs2/cluster/quorum.c:62-71, heartbeat.c:306, 542, 1209."""


def cluster_line(state: Classifier, line: KernelLine, text: str) -> Taken:  # noqa: ARG001
    """Parse a line of OCFS2's cluster: a host that lost its heartbeat device restarts itself."""
    for pattern, kind in _CLUSTER:
        if (found := pattern.match(text)) is not None:
            return state, (kind, found.groupdict())
    return state, None


# Compiled for the first such line: a machine has few of these file systems.
@functools.cache
def _compiled() -> tuple[tuple[re.Pattern[str], ...], _Rows, _Rows]:
    heads = tuple(re.compile(each.head, re.ASCII) for each in FILE_SYSTEMS)
    return heads, _rows(_CONSEQUENCES), _rows(_FINDINGS)


def _rows(rows: tuple[tuple[str, str], ...]) -> _Rows:
    return tuple((re.compile(pattern, re.ASCII), kind) for pattern, kind in rows)
