"""A server whose disks, adapters, paths, arrays and volumes a test names, and what becomes of them.

Files are as the kernel shows them: /sys/block, /sys/class/scsi_*, /proc/mdstat, mountinfo.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from support.kmsg import BOOT_ID
from support.live import Live

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

SECTORS = 1_953_525_168


@dataclass
class Array:
    """An array of partitions; `members` by slot, '' for one that is gone."""

    level: str
    members: list[str]
    spares: list[str] = field(default_factory=list)
    faulty: dict[str, int] = field(default_factory=dict)
    """Failed members that nobody removed, and their number in mdstat."""
    recover: str = ""
    """The member that is being filled."""
    done: float = 0.0
    broken: bool = False


class Server(Live):
    """A machine that is put together by a test, and goes on as it says."""

    def __init__(self, tmp_path: Path, *, log: bool = True) -> None:
        """Begin without a disk; `log`: whether the kernel's log can be read."""
        super().__init__(tmp_path)
        self._files = {p: t for p, t in self._files.items() if not p.startswith("/sys/block/")}
        self._numbers: dict[str, str] = {}
        self._done: dict[str, int] = {}
        self._stands: dict[str, int] = {}
        self._stood: Counter[str] = Counter()
        """For how many milliseconds each disk stood with requests, which io_ticks counts."""
        self._stood_since: Counter[str] = Counter()
        """For how many since they last completed one."""
        self._waited: Counter[str] = Counter()
        """For how many these waited in all, which is counted when they complete."""
        self._idle: set[str] = set()
        self._arrays: dict[str, Array] = {}
        self._mounts: dict[str, tuple[str, str]] = {}
        self._lines: list[str] = []
        self._busy = {}
        if log:
            self._files |= {"/proc/sys/kernel/random/boot_id": f"{BOOT_ID}\n", "/.kmsg": ""}
        self._log = log

    # What there is.

    def adapter(self, number: int, driver: str, **more: str) -> None:
        """Add a SCSI host."""
        base = f"/sys/class/scsi_host/host{number}"
        for key, value in {
            "proc_name": driver,
            "can_queue": "256",
            "cmd_per_lun": "32",
            "unique_id": str(sum(h.endswith("/proc_name") for h in self._files)),
        }.items():
            self._files[f"{base}/{key}"] = f"{value}\n"
        for path, text in more.items():
            self._files[path] = text

    def disk(
        self,
        name: str,
        address: str = "",
        *,
        serial: str = "",
        model: str = "SIMULATED HDD",
        vendor: str = "ATA",
        rotational: bool = True,
        removable: bool = False,
        parts: bool = True,
        more: Mapping[str, str | bytes | None] = {},
    ) -> None:
        """Add a disk with one partition; `address` makes it a SCSI device."""
        base = f"/sys/block/{name}"
        major = 8 if name.startswith("sd") else 259
        number = 16 * len(self._numbers)
        self._numbers[name] = f"{major}:{number}"
        self._done[name] = 1000
        files: dict[str, str | bytes | None] = {
            f"{base}/slaves": None,
            f"{base}/holders": None,
            f"{base}/size": f"{SECTORS}\n",
            f"{base}/dev": f"{major}:{number}\n",
            f"{base}/ro": "0\n",
            f"{base}/removable": f"{int(removable)}\n",
            f"{base}/diskseq": f"{len(self._numbers)}\n",
            f"{base}/queue/rotational": f"{int(rotational)}\n",
            f"{base}/queue/logical_block_size": "512\n",
            f"{base}/device/model": f"{model}\n",
        }
        if parts:
            part = self.partition(name)
            self._numbers[part] = f"{major}:{number + 1}"
            files |= {
                f"{base}/{part}/partition": "1\n",
                f"{base}/{part}/start": "2048\n",
                f"{base}/{part}/size": f"{SECTORS - 4096}\n",
                f"{base}/{part}/dev": f"{major}:{number + 1}\n",
                f"{base}/{part}/holders": None,
            }
        if name.startswith("sd"):
            serial = serial or f"S-{name}"
            page = b"\0\x80\0" + bytes([len(serial)]) + serial.encode()
            files |= {
                f"{base}/device/vpd_pg80": page,
                f"{base}/device/vendor": f"{vendor}\n",
                f"{base}/device/timeout": "30\n",
            }
        else:
            files |= {f"{base}/device/serial": f"{serial or 'N-' + name}\n"}
        if address:
            device = f"/sys/class/scsi_device/{address}/device"
            files |= {
                f"{base}/device/scsi_device/{address}": None,
                f"{base}/device/state": "running\n",
                f"{device}/type": "0\n",
                f"{device}/vendor": f"{vendor}\n",
                f"{device}/model": f"{model}\n",
                f"{device}/state": "running\n",
                f"{device}/queue_depth": "32\n",
                f"{device}/timeout": "30\n",
                f"{device}/block/{name}": None,
            }
        self._later(files | dict(more))

    def volume(self, dm: str, name: str, uuid: str, *below: str) -> None:
        """Add a device-mapper device on others."""
        number = f"253:{dm.removeprefix('dm-')}"
        self._numbers[dm] = number
        self._done[dm] = 1000
        self._later(
            {
                f"/sys/block/{dm}/dm/name": f"{name}\n",
                f"/sys/block/{dm}/dm/uuid": f"{uuid}\n",
                f"/sys/block/{dm}/dm/suspended": "0\n",
                f"/sys/block/{dm}/size": f"{SECTORS}\n",
                f"/sys/block/{dm}/dev": f"{number}\n",
                f"/sys/block/{dm}/holders": None,
                f"/sys/block/{dm}/ro": "0\n",
            }
        )
        for each in below:
            self._hold(each, dm)

    def array(self, name: str, level: str, *members: str, spares: tuple[str, ...] = ()) -> Array:
        """Add an array of partitions."""
        made = self._arrays[name] = Array(level, list(members), list(spares))
        self._numbers[name] = f"9:{name.removeprefix('md')}"
        self._done[name] = 1000
        self._later(
            {
                f"/sys/block/{name}/size": f"{SECTORS}\n",
                f"/sys/block/{name}/dev": f"{self._numbers[name]}\n",
                f"/sys/block/{name}/holders": None,
                f"/sys/block/{name}/ro": "0\n",
            }
        )
        for member in (*members, *spares):
            if member:
                self._hold(member, name)
        self._later(self._md(name))
        return made

    def mount(self, place: str, device: str, kind: str = "ext4") -> None:
        """Mount a device."""
        self._mounts[place] = (device, kind)
        self._later(self._mountinfo())

    # What happens.

    def says(self, *lines: str, priority: int = 3) -> None:
        """Let the kernel print lines, a second later."""
        self.change(self._printed(*lines, priority=priority))

    def stands(self, *names: str, in_flight: int = 4) -> None:
        """Let disks complete nothing from now on."""
        self._stands |= dict.fromkeys(names, in_flight)
        self.leap(1.0, 1.0)

    def goes_on(self, *names: str) -> None:
        """Let them complete again."""
        for name in names:
            self._waited[name] += self._stands.pop(name, 0) * self._stood_since.pop(name, 0)
        self.leap(1.0, 1.0)

    def idle(self, *names: str) -> None:
        """Let nobody use them."""
        self._idle |= set(names)

    def fails(self, name: str, member: str, *, lines: bool = True) -> None:
        """Let an array give up a member that is still there."""
        own = self._arrays[name]
        slot = own.members.index(member)
        own.members[slot] = ""
        own.faulty[member] = slot
        left = sum(map(bool, own.members))
        word = "raid" if own.level in {"raid4", "raid5", "raid6"} else own.level
        text = (
            f"md/{word}:{name}: Disk failure on {member}, disabling device.",
            f"md/{word}:{name}: Operation continuing on {left} devices.",
        )
        self.change(self._md(name) | (self._printed(*text, priority=2) if lines else {}))

    def loses(self, *names: str, lines: tuple[str, ...] = (), removed: bool = True) -> None:
        """Let disks vanish, as when they are pulled; udev then removes them from arrays."""
        gone: list[str] = []
        for name in names:
            gone += [f"/sys/block/{name}"]
            gone += [
                path.rpartition("/block/")[0].removesuffix("/device")
                for path in self._files
                if path.startswith("/sys/class/scsi_device/") and path.endswith(f"/block/{name}")
            ]
            part = self.partition(name)
            for path in self._files:
                inside, last = path.split("/")[1:4], path.rpartition("/")[2]
                if inside[:2] == ["sys", "block"] and last in {name, part} and "slaves" in path:
                    gone.append(path)
            for array, own in self._arrays.items():
                for member in (name, part):
                    if member in own.members:
                        slot = own.members.index(member)
                        own.members[slot] = ""
                        if removed:
                            gone.append(f"/sys/block/{array}/md/dev-{member}")
                        else:
                            own.faulty[member] = slot
                    if member in own.spares:
                        own.spares.remove(member)
                        gone.append(f"/sys/block/{array}/md/dev-{member}")
            self._done.pop(name, None)
            self._stands.pop(name, None)
        for path in [p for p in self._files if any(p == g or p.startswith(f"{g}/") for g in gone)]:
            del self._files[path]
        files = self._printed(*lines) if lines else {}
        for array in self._arrays:
            files |= self._md(array)
        files |= {"/proc/diskstats": self._diskstats()}
        self._files |= files
        self._monotonic, self.wall = self._monotonic + 1.0, self.wall + 1.0
        self._look(files, tuple(gone))

    def state(self, name: str, state: str) -> None:
        """Let the kernel have a SCSI disk in another state."""
        found = {
            f"{path.rpartition('/block/')[0]}/state": f"{state}\n"
            for path in self._files
            if path.startswith("/sys/class/scsi_device/") and path.endswith(f"/block/{name}")
        }
        self.change({f"/sys/block/{name}/device/state": f"{state}\n", **found})

    def array_ends(self, name: str) -> None:
        """Let an array stop with what happens next."""
        self._arrays[name].broken = True

    def takes_over(self, name: str, address: str, serial: str) -> None:
        """Let another disk have a name before anybody looks; it counts and stands alike."""
        done, standing = self._done[name], self._stands[name]
        before = {p: t for p, t in self._files.items() if p.startswith(f"/sys/block/{name}/")}
        self.disk(name, address, serial=serial)
        self._done[name], self._stands[name] = done, standing
        after = {p: t for p, t in self._files.items() if before.get(p, "") != t}
        self.change(after)

    def put(self, *args: str, **more: object) -> None:
        """Plug a disk in, seen with the next look."""
        before = dict(self._files)
        self.disk(*args, **more)  # type: ignore[arg-type]  # as disk takes them
        new = {p: t for p, t in self._files.items() if before.get(p, 0) != t}
        self.change(new)

    def array_is(self, name: str) -> None:
        """Show an array as it is now."""
        self.change(self._md(name))

    # How it is written.

    @staticmethod
    def partition(name: str) -> str:
        """Return the name of a disk's partition."""
        return f"{name}p1" if name[-1].isdigit() else f"{name}1"

    def _later(self, files: Mapping[str, str | bytes | None]) -> None:
        self._files |= files

    def _hold(self, below: str, holder: str) -> None:
        whole = below
        for name in self._numbers:
            if below != name and self.partition(name) == below:
                whole = name
        base = f"/sys/block/{whole}" + ("" if whole == below else f"/{below}")
        self._later({f"{base}/holders/{holder}": None, f"/sys/block/{holder}/slaves/{below}": None})

    def _printed(self, *lines: str, priority: int = 3) -> dict[str, str | bytes | None]:
        if not self._log:
            return {}
        at = round((self.uptime() + 0.5) * 1e6)
        for line in lines:
            head = f"{priority},{len(self._lines) + 1},{at + len(self._lines)},-"
            self._lines.append(f"{head};{line}\n")
        return {"/.kmsg": "".join(self._lines)}

    def _md(self, name: str) -> dict[str, str | bytes | None]:
        own = self._arrays[name]
        base, count = f"/sys/block/{name}/md", len(own.members)
        work = [m for m in own.members if m and m != own.recover]
        plain = own.level in {"raid0", "linear"}
        files: dict[str, str | bytes | None] = {
            f"{base}/array_state": "broken\n" if own.broken else "clean\n",
            f"{base}/level": f"{own.level}\n",
            f"{base}/raid_disks": f"{count}\n",
            f"{base}/metadata_version": "1.2\n",
        }
        if own.level == "raid10":
            files |= {f"{base}/layout": "258\n", f"{base}/chunk_size": "524288\n"}
        if own.level in {"raid5", "raid6"}:
            files |= {f"{base}/layout": "2\n", f"{base}/chunk_size": "524288\n"}
        if not plain:
            files |= {
                f"{base}/degraded": f"{count - len(work)}\n",
                f"{base}/sync_action": "recover\n" if own.recover else "idle\n",
                f"{base}/sync_completed": (
                    f"{int(own.done * 1_000_000)} / 1000000\n" if own.recover else "none\n"
                ),
                f"{base}/mismatch_cnt": "0\n",
            }
        for slot, member in enumerate(own.members):
            if member:
                state = "spare" if member == own.recover else "in_sync"
                files |= self._member(base, member, state, str(slot))
        for member in own.spares:
            files |= self._member(base, member, "spare", "none")
        for member in own.faulty:
            files |= self._member(base, member, "faulty", "none")
        return files | {"/proc/mdstat": self._mdstat()}

    @staticmethod
    def _member(base: str, member: str, state: str, slot: str) -> dict[str, str | bytes | None]:
        device = f"{base}/dev-{member}"
        return {
            f"{device}/state": f"{state}\n",
            f"{device}/slot": f"{slot}\n",
            f"{device}/errors": "0\n",
            f"{device}/bad_blocks": "",
            f"{device}/unacknowledged_bad_blocks": "",
        }

    def _mdstat(self) -> str:
        lines = ["Personalities : [raid0] [raid1] [raid6] [raid5] [raid4] [raid10]\n"]
        for name, own in self._arrays.items():
            words = [f"{m}[{n}]" for n, m in enumerate(own.members) if m]
            words += [f"{m}[{n}](F)" for m, n in own.faulty.items()]
            words += [f"{m}[{len(own.members) + n}](S)" for n, m in enumerate(own.spares)]
            word = "broken" if own.broken else "active"
            lines.append(f"{name} : {word} {own.level} {' '.join(reversed(words))}\n")
            if own.level in {"raid0", "linear"}:
                lines.append("      976762496 blocks super 1.2 512k chunks\n\n")
                continue
            mask = "".join("U" if m and m != own.recover else "_" for m in own.members)
            count = f"[{len(mask)}/{mask.count('U')}] [{mask}]"
            lines.append(f"      976762496 blocks super 1.2 {count}\n")
            if own.recover:
                done = int(own.done * 976762496)
                lines.append(
                    f"      [>....................]  recovery = {own.done * 100:.1f}% "
                    f"({done}/976762496) finish=90.0min speed=100000K/sec\n"
                )
            lines.append("\n")
        return "".join([*lines, "unused devices: <none>\n"])

    def _mountinfo(self) -> dict[str, str | bytes | None]:
        lines = []
        for place, (device, kind) in self._mounts.items():
            number = self._numbers.get(device, "253:0")
            source = f"/dev/{device}"
            if device.startswith("dm-"):
                source = "/dev/mapper/" + str(self._files[f"/sys/block/{device}/dm/name"]).strip()
            lines.append(f"{30 + len(lines)} 1 {number} / {place} rw - {kind} {source} rw\n")
        return {"/proc/1/mountinfo": "".join(lines), "/etc/fstab": ""}

    def leap(
        self, monotonic: float, wall: float, files: Mapping[str, str | bytes | None] = {}
    ) -> None:
        """Let time pass; whoever is not idle and does not stand still completes requests."""
        for name in self._done:
            if name not in self._stands and name not in self._idle:
                self._done[name] += max(1, int(monotonic * 20))
        for name in self._stands.keys() & self._done.keys():
            self._stood[name] += int(monotonic * 1000)
            self._stood_since[name] += int(monotonic * 1000)
        super().leap(monotonic, wall, {**files, "/proc/diskstats": self._diskstats()})

    def _diskstats(self) -> str:
        if not hasattr(self, "_done"):
            return super()._diskstats()
        lines = []
        for name, done in self._done.items():
            number = self._numbers[name].replace(":", " ")
            flying, waited = self._stands.get(name, 0), self._waited[name]
            lines.append(
                f"{number} {name} {done} 0 {done * 8} {done} {done} 0 {done * 8} {done + waited} "
                f"{flying} {done + self._stood[name]} {2 * done + waited} 0 0 0 0 0 0\n"
            )
        return "".join(lines)
