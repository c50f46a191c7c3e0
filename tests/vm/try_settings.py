"""Runs in the guest under the settings of the probe's unit: tries what it needs, and more.

The unit's capabilities to start and end programs of another user are the probe's alone: what they
allow is tried as its most powerful program.

argv: a SCSI disk, and the device of the root file system. Prints one JSON: what each came to.
"""

import ctypes
import json
import os
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from iowarden.daemon.probe.allowed import HARDWARE
from iowarden.daemon.probe.capabilities import keep

CODE = b"\xb8\x01\x00\x00\x00\xbb\x2a\x00\x00\x00\xcd\x80"
"""mov eax, 1 (exit); mov ebx, 42; int 0x80. The way into the kernel of 32-bit programs."""
ADDRESS = 0x08048000
HEADERS_BYTES = 52 + 32


def main() -> None:
    """Try all; a failure is the name of its error."""
    disk, system = sys.argv[1:]
    others = [each for each in Path("/proc").glob("[0-9]*") if each.stat().st_uid != 0]
    ours = next(each for each in others if (each / "comm").read_text().startswith("iowarden"))
    tries: dict[str, Callable[[], object]] = {
        "program of 32 bits": lambda: subprocess.run([_small_program()], check=False).returncode,
        "smartctl": lambda: _run("smartctl", "--json=c", "-i", disk),
        "debugfs": lambda: _run("debugfs", "-R", "stats -h", system),
        "MegaRAID's node": lambda: (
            _run("smartctl", "-d", "megaraid,0", "-i", disk),
            _opens("/dev/megaraid_sas_ioctl_node", os.O_RDWR),
        )[1],
        "mpt3ctl": lambda: _opens("/dev/mpt3ctl", os.O_RDWR),
        "kernel log": lambda: _opens("/dev/kmsg", os.O_RDONLY),
        "stack": lambda: any("[<0>]" in (each / "stack").read_text() for each in others),
        "wait channel": lambda: any((each / "wchan").read_text().isidentifier() for each in others),
        "input and output": lambda: "read_bytes" in (ours / "io").read_text(),
        "closed directory": lambda: "state.db" in os.listdir("/var/lib/iowarden"),
        "give up capabilities": _keep_capabilities,
        "memory file": lambda: os.close(os.memfd_create("x")),
        "scratch": lambda: Path("/tmp/scratch").write_text("x"),
        "write to a disk": lambda: os.open(system, os.O_WRONLY),
        "write to the kernel log": lambda: os.open("/dev/kmsg", os.O_WRONLY),
        "memory": lambda: os.open("/dev/mem", os.O_RDONLY),
        "make a disk's node": lambda: os.mknod("/dev/mine", 0o60600, os.makedev(8, 0)),
        "write to the system": lambda: Path("/etc/mine").write_text("x"),
        "mount": lambda: _run("mount", "-t", "tmpfs", "none", "/mnt"),
        "load a module": lambda: _run("modprobe", "raid0"),
        "network": lambda: socket.socket(socket.AF_INET),
        "be a program": lambda: keep(HARDWARE),
        "end another's process": lambda: os.kill(int(ours.name), 9),
        "be another": lambda: os.setuid(1),
    }
    print(json.dumps({name: _tried(each) for name, each in tries.items()}))


def _tried(each: Callable[[], object]) -> object:
    try:
        return each()
    except OSError as error:
        return type(error).__name__


def _run(*arguments: str) -> int:
    return subprocess.run(arguments, check=False, capture_output=True).returncode


def _keep_capabilities() -> int:
    """Set the capabilities that it has, as if it gave up others. Source: capset(2)."""
    library = ctypes.CDLL(None)
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    library.capget(header, sets)
    return int(library.capset(header, sets))


def _opens(path: str, flags: int) -> bool:
    os.close(os.open(path, flags))
    return True


def _small_program() -> str:
    """Make a program that ends with status 42. Source: elf(5)."""
    size = HEADERS_BYTES + len(CODE)
    header = b"\x7fELF\x01\x01\x01" + bytes(9)
    header += struct.pack(
        "<HHIIIIIHHHHHH", 2, 3, 1, ADDRESS + HEADERS_BYTES, 52, 0, 0, 52, 32, 1, 0, 0, 0
    )
    header += struct.pack("<IIIIIIII", 1, 0, ADDRESS, ADDRESS, size, size, 5, 4096)
    path = Path("/tmp/small")
    path.write_bytes(header + CODE)
    path.chmod(0o700)
    return str(path)


main()
