"""A real Debian in QEMU under plain emulation: boot it, run commands in it, make its disks sick.

The guest is built once, by build_image.sh and install_image.sh, with iowarden installed, and never
changed: its root disk is a snapshot that ends with the VM. Commands go through the guest's agent
over a serial port; disks are slowed, hung and healed through QMP. The guest reaches the host's
loopback at `HOST_ADDRESS` and nothing else. SUITE in the environment chooses the release of Debian.
Limits: emulated disks and no vendor firmware; a boot takes 10-30 s. Only SCSI disks may hang: on
emulated AHCI and NVMe that freezes QEMU itself when the guest's driver resets the controller.
"""

from __future__ import annotations

import base64
import contextlib
import enum
import errno
import fcntl
import functools
import hashlib
import io
import json
import os
import queue
import shlex
import shutil
import socket
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
IMAGES = Path(os.environ.get("IOWARDEN_VM_IMAGES", REPOSITORY / "build" / "vm"))
SUITE = os.environ.get("SUITE") or "trixie"
BASE = ("packaging/requirements-build.txt", "packaging/requirements.txt")
BASE += ("tests/vm/build_image.sh", "tests/vm/guest", "tests/vm/guest_init")
"""What the machine is made of, below the repository."""
INSTALLED = ("LICENSE", "Makefile", "README.md", "collectors", "daemon", "packaging", "rules")
INSTALLER = ("tests/vm/install_image.sh",)
INSTALLED += ("pyproject.toml", "setup.cfg", "systemd", *INSTALLER)
"""And what is installed in it."""
PROGRAMS = ("mke2fs", "mmdebstrap", "qemu-system-x86_64", "setpriv", "xz", "zstd")
HOST_ADDRESS = "10.0.2.2"
"""The host's loopback as the guest sees it. Source: QEMU, 'Using the user mode network stack'."""
GUEST_ADDRESS = "10.0.2.15"
"""The guest's own. Source: tests/vm/guest/etc/systemd/network/virtio.network."""

MEBIBYTE = 1024 * 1024
BOOT_SECONDS = 480.0
"""Forty times the usual: the building machine may be busy."""

KERNEL_OPTIONS = (
    "console=ttyS0 root=/dev/vda rw quiet loglevel=4 mitigations=off nokaslr no_timer_check"
    " tsc=reliable random.trust_cpu=on panic=-1 systemd.show_status=0 apparmor=0"
    " trace_options=norecord-cmd"
)
"""The last one: otherwise each trace makes the kernel patch its scheduler, to note the names of
tasks at each switch. An emulated processor that runs there meanwhile may panic.
Source: Linux, kernel/trace/trace_events.c, '__ftrace_event_enable_disable'.
"""


class UnavailableError(Exception):
    """No VM can be had on this machine; the text says what is missing."""


class EndedError(Exception):
    """QEMU ended while its guest was needed; the text has why, and the end of its console.

    It says nothing about iowarden: no program of a guest can end the emulator, whose defects, like
    those of a kernel that patches itself under it, can. `make test-vm` tries those files again.
    """


class PanicError(TimeoutError):
    """The guest's kernel panicked before it was up; the text has the end of its console."""


BOOTS = 4
NVME_PLACES = 3
"""So many NVMe drives may be in at a time."""
_ATTRIBUTE, _ATTRIBUTES = struct.Struct("<12i"), 7
_FIRST_ATTRIBUTE = (1, 3, 0, 100, 100, 0, 0, 0, 0, 0, 0, 6)
"""QEMU's table of ATA attributes: how a row looks, how many there are, which is the first. A row is
number, two bytes of flags, value, worst, six bytes of the raw value, threshold.
Source: QEMU, hw/ide/core.c, 'smart_attributes'.
"""


class Bus(enum.StrEnum):
    """What a disk is attached to. All but the SCSI adapter come with the first disk on them."""

    SCSI = "virtio-scsi"
    SATA = "AHCI"
    NVME = "PCI Express"
    RAID = "MegaRAID SAS"


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk of the guest; `name` is also its serial number and its name for `VM.throttle`.

    `place` is its port, slot or SCSI identifier; the SCSI adapter chooses that itself.
    """

    name: str
    size_bytes: int
    rotation_rate: int = 7200
    bus: Bus = Bus.SCSI
    place: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    """What a command in the guest came to; `status` is None when it outlasted its time."""

    status: int | None
    stdout: str
    stderr: str


class Content(enum.StrEnum):
    """What is in the guest beyond the distribution's base; its value is for install_image.sh."""

    IOWARDEN = "iowarden"
    """What 'make install' installs."""
    DEPENDENCIES = "dependencies"
    """What apt takes from the distribution for the Debian package, and a mail server."""
    NOTHING = "nothing"


def image(content: Content = Content.IOWARDEN) -> Path:
    """Return the guest's root disk, its kernel beside it; built anew when its sources have changed.

    Errors: UnavailableError.
    """
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = [program for program in PROGRAMS if shutil.which(program, path=path) is None]
    if missing:
        raise UnavailableError(
            f"VM: expected the programs {', '.join(PROGRAMS)}, got no {', '.join(missing)};"
            " install the section 'vm' of 'packaging/system-packages.txt'"
        )
    return _image(content)


@functools.cache
def _image(content: Content) -> Path:
    """Return the root disk of what the sources are now; they may be edited while the tests run."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    with (IMAGES / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        base = IMAGES / f"{SUITE}-{_digest(BASE)}"
        if not base.exists():
            for stale in IMAGES.glob(f"{SUITE}-*"):
                shutil.rmtree(stale)
            with _building() as building:
                _make("build_image.sh", SUITE, building)
                Path(building).rename(base)
        sources = INSTALLED if content is Content.IOWARDEN else INSTALLER
        root = base / f"{content}-{_digest(sources)}.ext4"
        if not root.exists():
            for stale in base.glob(f"{content}-*"):
                stale.unlink()
            with _building() as building:
                _make("install_image.sh", base, f"{building}/root.ext4", content)
                Path(building, "root.ext4").rename(root)
    return root


@contextlib.contextmanager
def _building() -> Iterator[str]:
    """Give a directory that is not there any more when building has failed."""
    building = tempfile.mkdtemp(dir=IMAGES, prefix="building-")
    os.chmod(building, 0o755)  # the builder may map itself to another user
    try:
        yield building
    finally:
        shutil.rmtree(building, ignore_errors=True)


def _make(script: str, *arguments: str | Path) -> None:
    build = subprocess.run(
        [HERE / script, *arguments],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHON": sys.executable},
    )
    if build.returncode == os.EX_UNAVAILABLE:
        raise UnavailableError(f"VM: {build.stderr}")
    if build.returncode != 0:
        raise RuntimeError(f"VM: no image could be built:\n{build.stderr[-3000:]}")


@contextlib.contextmanager
def turn() -> Iterator[None]:
    """Wait for who else runs VMs here: of many on few processors none would end in its time.

    Each worker of a test run has a turn of its own.
    """
    IMAGES.mkdir(parents=True, exist_ok=True)
    worker = os.environ.get("PYTEST_XDIST_WORKER", "gw0")
    with (IMAGES / f"running-{worker}").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def wait_for(condition: Callable[[], object], what: str, timeout_seconds: float) -> None:
    """Return once `condition` is true, asked twice a second; TimeoutError when it never is.

    An answer that takes long is asked for less often: to ask is work for the guest, too.
    """
    asked = time.monotonic()
    deadline = asked + timeout_seconds
    while not condition():
        answered = time.monotonic()
        if answered > deadline:
            raise TimeoutError(f"expected {what} within {timeout_seconds:.0f} s, got nothing")
        time.sleep(max(0.5, answered - asked))
        asked = time.monotonic()


class Command:
    """A command that was started in the guest."""

    def __init__(self, text: str) -> None:
        """Wait for an answer that has not come yet."""
        self.text = text
        self.answer: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()

    def wait(self, timeout_seconds: float) -> Result:
        """Return its result. Errors: TimeoutError when there is none in time, EndedError."""
        try:
            answer = self.answer.get(timeout=timeout_seconds)
        except queue.Empty:
            raise TimeoutError(
                f"'{self.text}': expected its end within {timeout_seconds:.0f} s, got no answer"
            ) from None
        if "ended" in answer:
            raise EndedError(f"'{self.text}': {answer['ended']}")
        return Result(
            answer["status"],
            base64.b64decode(answer["stdout"]).decode(errors="backslashreplace"),
            base64.b64decode(answer["stderr"]).decode(errors="backslashreplace"),
        )


class VM:
    """One running guest; leaving its context ends it.

    Enter it within `turn`, and in the main thread: the kernel ends QEMU with the thread that
    started it, so that a killed test run leaves none behind.
    """

    def __init__(
        self,
        disks: Iterable[Disk] = (),
        memory_mebibytes: int = 1024,
        content: Content = Content.IOWARDEN,
    ) -> None:
        """Start nothing yet. Errors: UnavailableError."""
        self._root = image(content)
        self._disks = tuple(disks)
        self._memory_mebibytes = memory_mebibytes
        self._commands: dict[int, Command] = {}
        self._number = 0
        self._sending = threading.Lock()
        self.ended: str | None = None
        """Why QEMU ended, once it has. Guarded by `_sending`."""

    def __enter__(self) -> Self:
        """Boot, and return when systemd has finished starting and all disks have a device.

        A kernel that panics on the way is booted again, up to three times: while it patches its own
        code, an emulated processor may run into the breakpoint that stands there meanwhile ("Oops:
        int3" in sched_clock_cpu with QEMU 7.2's multi-threaded emulation; once in some hundred
        boots, but twice in a row on a machine that was busy with other things).
        """
        for _ in range(BOOTS - 1):
            with contextlib.suppress(PanicError):
                self._start()
                return self
        self._start()
        return self

    def _start(self) -> None:
        # What a boot that panicked left: its listener has ended.
        self.ended = None
        self._commands.clear()
        with contextlib.ExitStack() as stack:
            self._directory = Path(
                stack.enter_context(tempfile.TemporaryDirectory(prefix="iowarden-vm-"))
            )
            self._control, control = map(stack.enter_context, socket.socketpair())
            self._agent, agent = map(stack.enter_context, socket.socketpair())
            self._control_lines = stack.enter_context(self._control.makefile("rb"))
            lines = stack.enter_context(self._agent.makefile("rb"))
            listener = threading.Thread(target=self._listen, args=(lines,), daemon=True)
            descriptors = control.fileno(), agent.fileno()
            with (self._directory / "qemu.log").open("wb") as log:
                self._process = subprocess.Popen(
                    self._command_line(*descriptors),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    pass_fds=descriptors,
                    env={**os.environ, "TMPDIR": str(self._directory)},
                )
            control.close()
            agent.close()
            greeting = self._commands[0] = Command("boot")
            listener.start()
            stack.callback(_end, self._process, listener)
            self._boot(greeting)
            names = [disk.name for disk in self._disks]
            wait_for(lambda: self.has(*names), f"the disks {names}", BOOT_SECONDS)
            self._resources = stack.pop_all()

    def __exit__(self, *_: object) -> None:
        """Switch the guest off, at once: nothing on its disks is wanted any more."""
        self._resources.close()

    def start(self, command: str, stdin: bytes = b"", timeout_seconds: float = 3600.0) -> Command:
        """Start a shell command in the guest, to be killed after `timeout_seconds`.

        Errors: EndedError.
        """
        started = Command(command)
        with self._sending:
            if self.ended is not None:
                raise EndedError(f"'{command}': {self.ended}")
            self._number += 1
            self._commands[self._number] = started
            request = {
                "number": self._number,
                "command": command,
                "stdin": base64.b64encode(stdin).decode(),
                "timeout_seconds": timeout_seconds,
            }
            # When it has just ended, the listener is about to answer.
            with contextlib.suppress(ConnectionError):
                self._agent.sendall(json.dumps(request).encode() + b"\n")
        return started

    def run(self, command: str, stdin: bytes = b"", timeout_seconds: float = 120.0) -> str:
        """Return what a shell command in the guest printed; it must end with status 0."""
        result = self.start(command, stdin, timeout_seconds).wait(timeout_seconds + 60)
        if result.status != 0:
            raise AssertionError(
                f"guest: '{command}': expected status 0, got {result.status}:"
                f" {result.stdout}{result.stderr}"
            )
        return result.stdout

    def push(self, directory: str, files: Iterable[tuple[Path, str]]) -> None:
        """Copy files and whole directories of the host below a directory of the guest."""
        with io.BytesIO() as stream:
            with tarfile.open(fileobj=stream, mode="w") as archive:
                for source, name in files:
                    archive.add(source, name, filter=_no_leftovers)
            data = stream.getvalue()
        quoted = shlex.quote(directory)
        self.run(f"mkdir -p {quoted} && tar -C {quoted} -x --no-same-owner", data)

    def pull(self, directory: str) -> bytes:
        """Return a directory of the guest as a tar archive, compressed by gzip."""
        command = f"tar -C {shlex.quote(directory)} -cz . | base64 -w0"
        return base64.b64decode(self.run(command, timeout_seconds=300))

    def uptime_seconds(self) -> float:
        """Return the guest's seconds since boot."""
        return float(self.run("cat /proc/uptime").split()[0])

    def device(self, name: str) -> str:
        """Return the kernel's name of a disk: it differs from boot to boot."""
        return self._devices()[name]

    def has(self, *names: str) -> bool:
        """Whether all these disks have a device: on a busy machine some come late after boot."""
        return self._devices().keys() >= {*names}

    def _devices(self) -> dict[str, str]:
        lines = self.run("lsblk --nodeps --noheadings --output NAME,SERIAL").splitlines()
        return {serial[0]: device for device, *serial in map(str.split, lines) if serial}

    def plug(self, disk: Disk) -> None:
        """Add a disk to the running guest; return when it has a device."""
        self._make(disk)
        self.control("blockdev-add", **self._image_of(disk.name))
        self.control("device_add", **self._device_of(disk))
        wait_for(lambda: self.has(disk.name), f"the disk '{disk.name}'", 60)

    def unplug(self, name: str) -> None:
        """Pull a disk out, whatever it is at; return when its device is gone."""
        self.control("device_del", id=name)
        wait_for(lambda: not self.has(name), f"the end of the disk '{name}'", 60)

    def throttle(
        self,
        name: str,
        *,
        write: int = 0,
        total: int = 0,
        request_bytes: int | None = None,
        requests: int = 0,
    ) -> None:
        """Limit a disk (or 'root') to bytes per second; 0 is no limit, 1 is a hang until healed.

        `requests` are those per second; one of more than 384 KiB counts as several.
        Source: QEMU QMP reference, 'block_set_io_throttle'.
        """
        limits = {"bps": total, "bps_rd": 0, "bps_wr": write, "iops_rd": 0, "iops_wr": 0}
        limits |= {"iops": requests} | ({"iops_size": 384 * 1024} if requests else {})
        # A virtio disk is two objects to QEMU, and the limit belongs to the inner one.
        device = "/machine/peripheral/root/virtio-backend" if name == "root" else name
        self.control("block_set_io_throttle", id=device, **limits)
        if request_bytes is not None:
            setting = f"/sys/block/{self.device(name)}/queue/max_sectors_kb"
            self.run(f"echo {request_bytes // 1024} > {setting}")

    def damage(self, name: str, operation: str, *sectors: int) -> None:
        """Let a disk fail 'read' or 'write' of these sectors, without any of all, until repaired.

        A SCSI disk calls it a medium error. Source: QEMU QMP reference, 'blkdebug'; scsi/utils.c,
        'scsi_sense_from_errno'.
        """
        rule = {"event": "none", "iotype": operation, "errno": errno.ENODATA, "once": False}
        rule["immediately"] = False
        rules = [{**rule, "sector": sector} for sector in sectors] or [rule]
        self.control(
            "blockdev-add",
            **{"driver": "blkdebug", "node-name": f"{name}-faults", "image": f"{name}-file"},
            **{"inject-error": rules},
        )
        self.control("blockdev-reopen", options=[self._image_of(name, f"{name}-faults")])

    def slow_discards(self, name: str, bytes_per_second: int) -> None:
        """Let a disk discard so many bytes a second, and write no faster, until repaired.

        The limits of `throttle` are not for discards, those of a filter below the image are.
        Source: QEMU, block/throttle.c, 'throttle_co_pdiscard'.
        """
        limits = {"bps-write": bytes_per_second}
        self.control(
            "object-add", **{"qom-type": "throttle-group", "id": f"{name}-limits", "limits": limits}
        )
        self.control(
            "blockdev-add",
            **{"driver": "throttle", "node-name": f"{name}-faults", "file": f"{name}-file"},
            **{"throttle-group": f"{name}-limits", "discard": "unmap"},
        )
        self.control("blockdev-reopen", options=[self._image_of(name, f"{name}-faults")])

    def repair(self, name: str) -> None:
        """Let a disk be as it was before it was damaged, or its discards slow."""
        self.control("blockdev-reopen", options=[self._image_of(name, f"{name}-file")])
        self.control("blockdev-del", **{"node-name": f"{name}-faults"})

    def warn(self, name: str, bits: int) -> None:
        """Set the critical warning in an NVMe drive's health log.

        Source: QEMU, hw/nvme/ctrl.c, 'smart_critical_warning'.
        """
        path = f"/machine/peripheral/{name}"
        self.control("qom-set", path=path, property="smart_critical_warning", value=bits)

    def set_attribute(self, number: int, value: int, raw: int) -> None:
        """Change a SMART attribute of all SATA disks: they share QEMU's table, in its memory.

        Source: proc(5), '/proc/pid/mem': a parent may write to its child's.
        """
        process = Path(f"/proc/{self._process.pid}")
        for line in (process / "maps").read_text().splitlines():
            if "qemu-system" not in line:
                continue
            begin, end = (int(part, 16) for part in line.split()[0].split("-"))
            with (process / "mem").open("r+b", buffering=0) as memory:
                memory.seek(begin)
                data = memory.read(end - begin)
                first = data.find(_ATTRIBUTE.pack(*_FIRST_ATTRIBUTE))
                if first < 0:
                    continue
                for at in range(first, first + _ATTRIBUTES * _ATTRIBUTE.size, _ATTRIBUTE.size):
                    row = list(_ATTRIBUTE.unpack_from(data, at))
                    if row[0] == number:
                        row[3:11] = value, value, *raw.to_bytes(6, "little")
                        memory.seek(begin + at)
                        memory.write(_ATTRIBUTE.pack(*row))
                        return
        raise LookupError(f"QEMU: expected the attribute {number} in its memory, got none")

    def reboot(self) -> None:
        """Reboot the guest, its disks as they are; return when systemd has finished starting."""
        greeting = self._commands[0] = Command("reboot")
        self.control("set-action", reboot="reset")
        self.start("systemctl reboot")
        self._wait_until_booted(greeting)
        self.control("set-action", reboot="shutdown")

    def forward(self, port: int) -> tuple[str, int]:
        """Return an address on the host that reaches a port of the guest's network address.

        Source: QEMU, 'Human Monitor Interface', hostfwd_add, info usernet.
        """
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address: tuple[str, int] = free.getsockname()
        rule = f"hostfwd_add tcp:{address[0]}:{address[1]}-{GUEST_ADDRESS}:{port}"
        said = self.control("human-monitor-command", **{"command-line": rule})
        if said:
            raise RuntimeError(f"QEMU: '{rule}': expected no answer, got {said}")
        return address

    def control(self, command: str, **arguments: object) -> Any:  # noqa: ANN401 - any JSON
        """Return QEMU's answer to a QMP command. Errors: EndedError."""
        request = json.dumps({"execute": command, "arguments": arguments})
        # When it has ended, that is its answer.
        with contextlib.suppress(ConnectionError):
            self._control.sendall(request.encode() + b"\n")
        while True:
            answer = self._answer()
            if "error" in answer:
                raise RuntimeError(f"QMP '{command}': {answer['error']['desc']}")
            if "return" in answer:
                return answer["return"]

    def console(self) -> str:
        """Return the end of what the guest's kernel printed; nothing before it started."""
        console = self._directory / "console.log"
        return console.read_text(errors="backslashreplace")[-3000:] if console.exists() else ""

    def _command_line(self, control: int, agent: int) -> list[str]:
        """Return QEMU's command line. Source: qemu-system-x86_64(1)."""
        line = ["setpriv", "--pdeathsig=KILL", "--", "qemu-system-x86_64"]
        line += ["-accel", "tcg,thread=multi", "-machine", "q35", "-cpu", "max", "-smp", "2"]
        line += ["-m", str(self._memory_mebibytes), "-nodefaults", "-no-user-config", "-no-reboot"]
        line += ["-display", "none", "-kernel", f"{self._root.parent}/vmlinux"]
        line += ["-initrd", f"{self._root.parent}/initrd", "-append", KERNEL_OPTIONS]
        line += ["-chardev", f"file,id=console,path={self._directory}/console.log"]
        line += ["-serial", "chardev:console", "-chardev", f"socket,id=control,fd={control}"]
        line += ["-mon", "chardev=control,mode=control", "-device", "virtio-rng-pci"]
        line += ["-device", "virtio-serial-pci", "-chardev", f"socket,id=agent,fd={agent}"]
        line += ["-device", "virtserialport,chardev=agent,name=agent"]
        line += ["-netdev", "user,id=network", "-device", "virtio-net-pci,netdev=network,romfile="]
        drive = f"if=none,id=root-image,format=raw,file={self._root},cache=unsafe"
        line += ["-drive", f"{drive},snapshot=on"]
        line += ["-device", "virtio-blk-pci,drive=root-image,id=root"]
        line += ["-device", "virtio-scsi-pci,id=adapter"]
        buses = {disk.bus for disk in self._disks}
        if Bus.NVME in buses:
            for slot in range(NVME_PLACES):
                line += ["-device", f"pcie-root-port,id=port{slot},chassis={slot},slot={slot}"]
        if Bus.RAID in buses:
            line += ["-device", "megasas,id=raid"]
        for disk in self._disks:
            self._make(disk)
            line += ["-blockdev", json.dumps(self._image_of(disk.name))]
            line += ["-device", json.dumps(self._device_of(disk))]
        return line

    def _make(self, disk: Disk) -> None:
        with (self._directory / disk.name).open("wb") as file:
            file.truncate(disk.size_bytes)

    def _image_of(self, name: str, file: str = "") -> dict[str, Any]:
        """Return a disk's contents as QEMU's block layer knows them, on a node that is there."""
        path = str(self._directory / name)
        return {
            "driver": "raw",
            "node-name": f"{name}-image",
            "file": file or {"driver": "file", "node-name": f"{name}-file", "filename": path},
            "cache": {"no-flush": True},
            # Zeros cost the host no space: the tests write little else.
            "discard": "unmap",
            "detect-zeroes": "unmap",
        }

    def _device_of(self, disk: Disk) -> dict[str, Any]:
        """Return a disk as the guest sees it."""
        device = {"drive": f"{disk.name}-image", "id": disk.name, "serial": disk.name}
        rotation: dict[str, Any] = {"rotation_rate": disk.rotation_rate}
        scsi: dict[str, Any] = {"driver": "scsi-hd", "vendor": "ACME", "product": "VIRTUAL-DISK"}
        match disk.bus:
            case Bus.SCSI:
                return device | scsi | rotation | {"bus": "adapter.0"}
            case Bus.RAID:
                return device | scsi | rotation | {"bus": "raid.0", "scsi-id": disk.place}
            case Bus.SATA:
                sata = {"driver": "ide-hd", "bus": f"ide.{disk.place}", "model": "ACME SATA-DISK"}
                return device | rotation | sata
            case Bus.NVME:
                return device | {"driver": "nvme", "bus": f"port{disk.place}"}

    def _boot(self, greeting: Command) -> None:
        self._answer()  # QEMU's own greeting
        self.control("qmp_capabilities")
        self._wait_until_booted(greeting)

    def _wait_until_booted(self, greeting: Command) -> None:
        try:
            booted = "status" not in greeting.answer.get(timeout=BOOT_SECONDS)
        except queue.Empty:
            booted = False
        if not booted:
            console = self.console()
            error = PanicError if "Kernel panic" in console else TimeoutError
            raise error(
                f"VM: expected the guest's agent within {BOOT_SECONDS:.0f} s, got on its console:"
                f" {console}"
            )
        state = self.start("systemctl is-system-running --wait").wait(BOOT_SECONDS).stdout.strip()
        if state != "running":
            failed = self.run("systemctl --failed --no-legend --plain")
            raise RuntimeError(f"guest: expected the state 'running', got '{state}': {failed}")

    def _answer(self) -> dict[str, Any]:
        line = b""
        with contextlib.suppress(ConnectionError):  # when QEMU left a request unread
            line = self._control_lines.readline()
        if not line:
            raise EndedError(self._end_of_qemu())
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _listen(self, lines: BinaryIO) -> None:
        """Hand out the agent's answers until QEMU ends, and then tell those who still wait."""
        with contextlib.suppress(ConnectionError):
            for line in lines:
                answer = json.loads(line)
                with self._sending:
                    command = self._commands.pop(answer["number"], None)
                if command is not None:
                    command.answer.put(answer)
        ended = self._end_of_qemu()
        with self._sending:
            self.ended = ended
            for command in self._commands.values():
                command.answer.put({"status": None, "ended": ended})

    def _end_of_qemu(self) -> str:
        status = self._process.wait()
        log = (self._directory / "qemu.log").read_text(errors="backslashreplace")
        return f"QEMU ended with {status}: {log[-3000:]}{self.console()}"


def _end(process: subprocess.Popen[bytes], listener: threading.Thread) -> None:
    """End QEMU; that closes its end of the agent's line, which ends the listener."""
    process.kill()
    process.wait()
    listener.join()


def _digest(names: Iterable[str]) -> str:
    """Return a short hash of the names, modes and texts of files and directories."""
    digest = hashlib.sha256()
    for name in names:
        top = REPOSITORY / name
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.is_file() and path.parent.name != "__pycache__":
                digest.update(f"{path.relative_to(REPOSITORY)} {path.stat().st_mode:o}\0".encode())
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _no_leftovers(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if member.name.endswith("/__pycache__") else member
