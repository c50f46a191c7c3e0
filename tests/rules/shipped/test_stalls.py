"""Devices that complete nothing, and those that only seem so: each guard, with its disk."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.machine import block, disk, topology
from support.signals import state_with
from support.simulation import START, UPTIME, Simulation

from iowarden.collectors.block.scsi import ScsiDevice, ScsiHost, ScsiTopology
from iowarden.collectors.filesystem.mountinfo import Mount, Mounts
from iowarden.rules.signals import table
from iowarden.rules.signals.device import device, device_state, hang_thresholds
from iowarden.rules.signals.guards import Guard
from iowarden.rules.signals.signal import Inputs, View
from iowarden.rules.snapshot import Snapshot

if TYPE_CHECKING:
    from iowarden.collectors.block.block_devices import Device, Topology
    from iowarden.collectors.block.diskstats import BlockIo
    from iowarden.rules.signals.device.hang_thresholds import WatchedKinds

SSD = replace(disk("sda"), rotational=False)
HDD = disk("sda")
BOOTED = 1_800_000_000.0


class Watch:
    """The stall clock of one host, sample by sample."""

    def __init__(self, *devices: Device, kinds: WatchedKinds | None = None) -> None:
        machine = topology(*(devices or (SSD,)))
        self.kinds = hang_thresholds.kinds(machine) if kinds is None else kinds
        self.state = device.EMPTY
        self.now = BOOTED + 1000.0
        self.writes = self.milliseconds = 0

    def look(self, *blocks: BlockIo, after: float = 1.0, uptime: float | None = None) -> None:
        """Take a sample after so many seconds."""
        self.now += after
        since_boot = self.now - BOOTED if uptime is None else uptime
        seen = {each.device: each for each in blocks}
        self.state = device.step(self.state, self.now, seen, self.kinds, since_boot)

    def looks(self, count: int, *blocks: BlockIo) -> None:
        """Take a sample every second."""
        for _ in range(count):
            self.look(*blocks)

    def busy(self, seconds: int, in_flight: int, *, each: int, milliseconds: int) -> None:
        """Let so many requests complete each second, which took so many milliseconds together."""
        for _ in range(seconds):
            self.writes += each
            self.milliseconds += milliseconds
            self.wait(1, in_flight)

    def wait(self, seconds: int, in_flight: int) -> None:
        """Let nothing complete."""
        done = {"writes": self.writes, "write_milliseconds": self.milliseconds}
        self.looks(seconds, block("sda", in_flight=in_flight, **done))

    def stalled(self, name: str = "sda") -> float:
        """Return the seconds that '/metrics' shows."""
        return self.values("hang_seconds")[name]

    def values(self, metric: str) -> dict[str, float]:
        """Return a metric by device."""
        return {
            labels[0][1]: value
            for name, labels, value in device.samples(self.state)
            if name == f"iowarden_device_{metric}"
        }

    def thresholds(self, severity: str) -> dict[str, float]:
        """Return from when on a hang has a severity, by device."""
        return {
            dict(labels)["device"]: value
            for name, labels, value in device.samples(self.state)
            if name == device.THRESHOLD and dict(labels)["severity"] == severity
        }

    def limits(self, name: str = "sda") -> tuple[float | None, ...]:
        """Return from when on a stall is a notice, a warning, critical."""
        return tuple(
            self.thresholds(severity).get(name) for severity in ("notice", "warning", "critical")
        )

    def restart(self) -> None:
        """Restart with the stored state."""
        kept = device.remember(self.state)
        self.state = device.recall(device.EMPTY, kept)


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 2)), min_size=1, max_size=60))
def test_stalled_seconds_are_those_since_the_last_completion_with_requests_in_flight(
    seconds: list[tuple[int, int]],
) -> None:
    """Against a plain count over the whole history."""
    watch, total, expected, previous = Watch(), 0, 0.0, 0
    for number, (completed, in_flight) in enumerate(seconds):
        total += completed
        watch.look(block("sda", writes=total, in_flight=in_flight))
        stuck = in_flight > 0 and completed == 0 and previous > 0 and number > 0
        expected = expected + 1.0 if stuck else 0.0
        previous = in_flight
        assert watch.stalled() == expected


def test_a_counter_that_falls_is_another_disk_of_that_name() -> None:
    """Its stall begins again, with the longer limit of a disk that may have to spin up."""
    watch = Watch(HDD)
    watch.looks(2, block("sda", writes=9))
    watch.look(block("sda", writes=10, in_flight=1))
    assert watch.limits()[1] == 10.0
    watch.look(block("sda", writes=1, in_flight=1))
    assert watch.stalled() == 0.0
    assert watch.limits()[1] == 30.0


# --- spin-up


def idle_then_waiting(watch: Watch, idle: int) -> None:
    """Let a disk complete something, be idle, and then have a request."""
    watch.look(block("sda", writes=1))
    watch.looks(2, block("sda", writes=2))
    watch.looks(idle - 1, block("sda", writes=2))
    watch.look(block("sda", writes=2, in_flight=1))


@pytest.mark.parametrize(
    ("rotational", "idle", "expected"),
    [(True, 25, 30.0), (None, 25, 30.0), (True, 15, 10.0), (False, 600, 10.0)],
)
def test_only_a_disk_that_spins_and_was_idle_may_be_asleep(
    *, rotational: bool | None, idle: int, expected: float
) -> None:
    """Twenty seconds without a completion are enough to fall asleep; flash never does."""
    watch = Watch(replace(disk("sda"), rotational=rotational))
    idle_then_waiting(watch, idle)
    assert watch.limits()[1] == expected


@pytest.mark.parametrize(
    ("wakes", "expected"),
    [
        ((9,), 14.0),
        ((9, 12, 7), 17.0),
        ((1,), 30.0),  # it was not asleep at all
        ((40,), 30.0),  # perhaps the beginning of a failure
        ((40, 33), 38.0),  # a shelf that spins its disks up one after the other
        ((70, 80), 30.0),  # no wake-up takes as long
        ((3,), 10.0),
    ],
)
def test_a_disks_own_wake_ups_report_how_long_the_next_may_take(
    wakes: tuple[int, ...], expected: float
) -> None:
    """The longest one observed and 5 s more."""
    watch = Watch(HDD)
    watch.look(block("sda", writes=1))
    total = 2
    for seconds in wakes:
        watch.looks(30, block("sda", writes=total))
        watch.looks(seconds, block("sda", writes=total, in_flight=1))
        total += 1
        watch.look(block("sda", writes=total))
    watch.looks(30, block("sda", writes=total))
    watch.look(block("sda", writes=total, in_flight=1))
    assert watch.limits()[1] == expected


def test_a_suspended_machine_lets_every_disk_spin_up() -> None:
    """After resume the disk that was busy is asleep: the clock restarts, with a longer limit."""
    watch = Watch(HDD)
    watch.looks(2, block("sda", writes=1))
    watch.looks(8, block("sda", writes=2, in_flight=1))
    assert watch.stalled() == 7.0
    watch.state = device.woken(watch.state, watch.state.last_seconds or 0.0)
    watch.look(block("sda", writes=2, in_flight=1))
    assert watch.stalled() == 0.0
    assert watch.limits()[1] == 30.0


def test_the_table_notices_a_suspend_by_the_clock_that_counts_it() -> None:
    """CLOCK_BOOTTIME gained an hour while CLOCK_MONOTONIC, and the program's clock, stopped."""
    machine = table.derive(topology(HDD))
    state = table.SignalStates()
    for second, (writes, asleep) in enumerate(((1, 9.0), (2, 9.0), (2, 9.0), (2, 3609.0))):
        blocks = {"sda": block("sda", writes=writes, in_flight=1)}
        inputs = Inputs(BOOTED + second, 50.0, Snapshot(diskstats=blocks), asleep_seconds=asleep)
        state, found = table.step_all(state, inputs, machine)
    values = {
        (name, dict(labels).get("severity")): value for name, labels, value in found["device"]
    }
    assert values["iowarden_device_hang_seconds", None] == 0.0
    assert values[device.THRESHOLD, "warning"] == 30.0


# --- requests in flight that are none


def test_a_number_below_zero_is_no_request() -> None:
    """4294967295 in '/proc/diskstats' is -1: the counter lost a beginning, nothing waits."""
    watch = Watch()
    watch.look(block("sda", writes=1))
    watch.looks(60, block("sda", writes=2, in_flight=4_294_967_295))
    assert watch.stalled() == 0.0


def test_requests_that_never_leave_while_others_complete_have_leaked() -> None:
    """An old driver lost the ends of two requests: the idle disk seems to have two in flight."""
    watch = Watch()
    watch.busy(61, 2, each=20, milliseconds=40)
    watch.wait(600, 2)
    assert watch.stalled() == 0.0
    watch.wait(13, 3)
    assert watch.stalled() == 12.0  # a third one is real


@pytest.mark.parametrize(
    ("in_flight", "each", "milliseconds"),
    [
        (1, 110, 990),  # one request after the other, without a pause
        (32, 3200, 31_900),  # a queue that is always full
        (29, 1, 9000),  # a slow disk: what completes has waited for seconds
        (4, 200, 3600),
        (4, 200, 0),  # a driver that does not report how long requests took
    ],
)
def test_a_full_queue_that_hangs_is_a_hang(in_flight: int, each: int, milliseconds: int) -> None:
    """A constant number in flight is no leak if the time of requests explains it."""
    watch = Watch()
    watch.busy(120, in_flight, each=each, milliseconds=milliseconds)
    watch.wait(12, in_flight)
    assert watch.stalled() == 12.0


def test_a_leak_ends_with_the_counter_and_outlives_a_restart() -> None:
    """What was lost is known after a restart of the program; after a boot nothing is lost."""
    watch = Watch()
    watch.busy(61, 2, each=20, milliseconds=40)
    watch.restart()
    watch.wait(60, 2)
    assert watch.stalled() == 0.0
    watch.wait(1, 1)
    watch.wait(5, 2)
    assert watch.stalled() == 4.0  # one of the two returned, so the second one is new
    watch.restart()
    watch.look(block("sda", in_flight=2), after=30.0, uptime=20.0)
    watch.looks(15, block("sda", in_flight=2))
    assert watch.stalled() == 15.0


# --- how soon


@pytest.mark.parametrize(
    ("rotational", "idle", "soon"), [("0", 60, 14.0), ("1", 5, 14.0), ("1", 60, 34.0)]
)
def test_a_hang_is_named_soon_after_the_last_completion(
    rotational: str, idle: int, soon: float
) -> None:
    """14 s for a disk that is awake, 34 s for one that may be asleep."""
    machine = Simulation()
    machine.add_disk("sda", "S1")
    machine.memory.write({"/sys/block/sda/queue/rotational": f"{rotational}\n"})
    machine.run(20, writes={"sda": 10**6}, in_flight={"sda": 1})
    machine.run(idle)
    waiting = machine.second
    machine.run(40, blocked=1, in_flight={"sda": 3})
    (at, *_) = (at for at, name, _ in machine.host.fired if name == "DeviceHang")
    assert at - UPTIME - waiting <= soon - 2.0  # the mail leaves within 2 s
    assert machine.host.mails[0].uptime <= at + 2.0
    (member, *_) = machine.host.mails[0].due.incident.members
    assert member.since_seconds == START + waiting  # when the disk hung, not when the alert fired


# --- virtual disks, LUNs, paths, removable disks


def hosts(driver: str | None = None, *, fabric: bool = False, usb: bool = False) -> ScsiTopology:
    """Return a machine with one host adapter."""
    own = ScsiHost("host0", driver, 64, 3, None, fabric=fabric, usb=usb)
    return ScsiTopology({"host0": own}, {}, None)


def test_a_lun_is_known_as_one_once_its_adapter_is() -> None:
    """The adapter is read later than the disk; that only its counters differ changes no limit."""
    lun = replace(SSD, host="host0")
    derived, state, warnings = table.derive(topology(lun)), device.WatchState(), []
    for second, scsi in enumerate((None, hosts("qla2xxx", fabric=True), hosts("ahci"))):
        seen = Snapshot(diskstats={"sda": block("sda")}, block=derived.topology, scsi=scsi)
        inputs = Inputs(BOOTED + second, 5000.0, seen, frozenset(), frozenset(), 0.0, {})
        state, _ = device.GROUP.step(state, View(inputs, derived, {}, {}))
        warnings.append(state.device.kinds.limits["sda"].warning_seconds)
    assert warnings == [10.0, 20.0, 10.0]


@pytest.mark.parametrize(
    ("own", "scsi"),
    [
        (disk("vda"), None),
        (disk("xvdb"), None),
        (disk("nbd0"), None),
        (disk("sda", vendor="QEMU", model="QEMU HARDDISK"), None),
        (disk("sda", vendor="Msft", model="Virtual Disk"), None),
        (disk("nvme0n1", model="Amazon Elastic Block Store"), None),
        (disk("nvme0n1", model="Alibaba Cloud Elastic Block Storage"), None),
        (disk("nvme0n1", model="nvme_card-pd"), None),
        (disk("nvme1n1", model="nvme_card0"), None),
        (disk("nvme0n1", model="MSFT NVMe Accelerator v1.0"), None),
        (disk("sda", vendor="Google", model="PersistentDisk"), None),
        (disk("sda", vendor="NUTANIX", model="VDISK"), None),
        (disk("sda", vendor="ORACLE", model="BlockVolume"), None),
        (disk("sda", vendor="HC", model="HC Volume"), None),
        (disk("sda", vendor="NETAPP", model="LUN C-Mode"), hosts(fabric=True)),
        (disk("sda", vendor="LIO-ORG", model="disk1"), hosts("storvsc_host")),
        (replace(disk("nvme0n1", model="SPDK bdev Controller"), transport="tcp"), None),
        (replace(disk("nvme0n1", model="NetApp ONTAP Controller"), transport="fc"), None),
        (disk("sda"), hosts("virtio_scsi")),
        (disk("sda", vendor="AIX", model="VDASD"), hosts("ibmvscsi")),
    ],
)
def test_a_virtual_disk_or_a_lun_may_pause_with_its_host(
    own: Device, scsi: ScsiTopology | None
) -> None:
    """Stalls of 10 s are counted, from 20 s they are mailed."""
    limits = hang_thresholds.kinds(topology(own), scsi).limits[own.name]
    assert limits == (20.0, 30.0, 10.0, False, {Guard.VIRTUAL})


@pytest.mark.parametrize(
    "model",
    [
        "Microsoft NVMe Direct Disk v2",
        "Amazon EC2 NVMe Instance Storage",
        "Samsung SSD 990 PRO 2TB",
        "INTEL SSDPE2KX010T8",
    ],
)
def test_an_ssd_that_is_passed_through_to_a_guest_is_a_disk(model: str) -> None:
    """It is in the machine on which the guest runs, and never moves with it."""
    limits = hang_thresholds.kinds(topology(disk("nvme0n1", model=model))).limits["nvme0n1"]
    assert limits == (10.0, 30.0, None, False, frozenset())


def test_a_disk_of_an_ordinary_adapter_is_a_disk() -> None:
    """Whatever else the machine has."""
    limits = hang_thresholds.kinds(topology(disk("sda")), hosts("mpt3sas")).limits["sda"]
    assert limits == (10.0, 30.0, None, True, frozenset())


def paths(*names: str, head: str = "dm-0", uuid: str | None = None) -> Topology:
    """Return a machine whose volume is reached through several paths."""
    return topology(
        *(disk(name, holders=(head,)) for name in names),
        replace(disk(head, slaves=names, leaf=False), dm_uuid=uuid),
    )


def test_a_path_that_stalls_is_a_notice_and_its_map_waits_for_the_failover() -> None:
    """25 s without a completion of the map is a failover and no mail; 45 s is none."""
    machine = paths("sda", "sdb", uuid="mpath-3600508b4001")
    watch = Watch(kinds=hang_thresholds.kinds(machine, hosts(fabric=True)))
    watch.looks(2, *(block(name, writes=1) for name in ("sda", "sdb", "dm-0")))
    for second in range(1, 13):
        moving = block("sdb", writes=1 + second), block("dm-0", writes=1 + second)
        watch.look(block("sda", writes=1, in_flight=4), *moving)
    assert watch.stalled("sda") == 11.0
    assert watch.limits("sda") == (10.0, None, None)
    assert watch.stalled("dm-0") == 0.0
    still = block("sdb", writes=13, in_flight=1), block("dm-0", writes=13)
    watch.looks(26, block("sda", writes=1, in_flight=4), *still)
    assert watch.stalled("dm-0") == 26.0  # though the map itself shows nothing in flight
    assert watch.limits("dm-0") == (None, 45.0, 75.0)


def test_without_multipath_two_disks_below_one_volume_are_two_disks() -> None:
    """A striped LV is no map, and an NVMe drive with a single path has none to fail over to."""
    assert not hang_thresholds.kinds(paths("sda", "sdb", uuid="LVM-abc")).maps
    assert not hang_thresholds.kinds(paths("nvme0c0n1", head="nvme0n1")).maps
    native = hang_thresholds.kinds(paths("nvme0c0n1", "nvme0c1n1", head="nvme0n1"))
    assert native.maps == {"nvme0n1": ("nvme0c0n1", "nvme0c1n1")}


def mounted(source: str, *wanted: str) -> Mounts:
    """Return what is mounted at '/media/backup', and what '/etc/fstab' has."""
    mount = Mount("8:17", source, "/", "/media/backup", "ext4", ("rw",), ("rw",))
    return Mounts((mount,), dict.fromkeys(wanted, ("defaults",)))


@pytest.mark.parametrize(
    ("own", "scsi"),
    [
        (replace(disk("sda"), removable=True), hosts("ahci")),
        (disk("sda"), hosts("usb-storage", usb=True)),
        (disk("sda"), hosts(usb=True)),  # uas
    ],
)
def test_a_stick_is_waited_for_and_never_critical(own: Device, scsi: ScsiTopology) -> None:
    """30 s; but a disk of the same kind with a line in '/etc/fstab' is one like all others."""
    machine = topology(replace(own, partitions=("sda1",)))
    found = hang_thresholds.kinds(machine, scsi, mounted("/dev/sda1")).limits["sda"]
    assert found == (30.0, None, None, True, {Guard.REMOVABLE})
    wanted = mounted("/dev/sda1", "/media/backup")
    found = hang_thresholds.kinds(machine, scsi, wanted).limits["sda"]
    assert found == (10.0, 30.0, None, True, frozenset())
    assert hang_thresholds.kinds(machine, scsi).limits["sda"] == found  # no fstab could be read


def test_a_stick_with_an_encrypted_volume_of_fstab_is_a_disk() -> None:
    """The volume on the stick is in fstab, not the stick itself."""
    machine = topology(
        disk("sda", holders=("dm-0",)),
        replace(disk("dm-0", slaves=("sda",), leaf=False), dm_name="backup"),
    )
    wanted = mounted("/dev/mapper/backup", "/media/backup")
    assert hang_thresholds.kinds(machine, hosts(usb=True), wanted).limits["sda"][0] == 10.0


FSTABS: list[dict[str, tuple[str, ...]]] = [{}, {"/": ("noauto",)}, {"/data": ("defaults",)}]
"""Of an image: '# UNCONFIGURED FSTAB FOR BASE SYSTEM', '/dev/root / auto noauto', another disk."""


@pytest.mark.parametrize("fstab", FSTABS)
@pytest.mark.parametrize("point", ["/", "/usr", "/var", "/boot", "/boot/firmware", "/home"])
@pytest.mark.parametrize("volume", ["sda1", "dm-0"])
def test_a_card_or_stick_that_carries_the_running_system_is_a_disk(
    fstab: dict[str, tuple[str, ...]], point: str, volume: str
) -> None:
    """The kernel's command line says where root is; '/etc/fstab' need not have a line for it."""
    machine = topology(
        replace(disk("sda", holders=("dm-0",)), partitions=("sda1",)),
        disk("dm-0", slaves=("sda",), leaf=False),
    )
    system = Mount("8:17", f"/dev/{volume}", "/", point, "ext4", ("rw",), ("rw",))
    limits = hang_thresholds.kinds(machine, hosts(usb=True), Mounts((system,), fstab)).limits
    assert limits["sda"] == (10.0, 30.0, None, True, frozenset())


def test_a_stick_that_a_user_mounts_below_home_or_media_is_not_of_the_system() -> None:
    """Nor one at '/boot' by a line for a user, who mounts it to install a kernel."""
    machine = topology(replace(disk("sda"), partitions=("sda1",)))
    for point in ("/media/u/boot", "/run/media/u/x", "/home/u", "/mnt", "/root/stick", "/boot"):
        stick = Mount("8:17", "/dev/sda1", "/", point, "ext4", ("rw",), ("rw",))
        mounts = Mounts((stick,), {"/boot": ("noauto", "user")})
        limits = hang_thresholds.kinds(machine, hosts(usb=True), mounts)
        assert limits.limits["sda"].guards == {Guard.REMOVABLE}


LAYERS = {
    "raspi-config": ("lowerdir=/lower,upperdir=/upper/data,workdir=/upper/work", "/lower"),
    "moved": ("lowerdir=/mnt/lower,upperdir=/mnt/rw/upper,workdir=/mnt/rw/work", "/ro"),
    "overlayroot": ("lowerdir=/media/root-ro,upperdir=/media/root-rw/overlay", "/media/root-ro"),
    "OpenWrt": ("lowerdir=/,upperdir=/overlay/upper,workdir=/overlay/work", "/overlay"),
    "casper": ("lowerdir=/a.squashfs:/b.squashfs,upperdir=/cow/upper", "/cdrom"),
    "several": (
        r"lowerdir=/run/live/x\:y:/run/live/root::/run/live/data,upperdir=/run/t/u",
        "/run/live",
    ),
    "6.8": ("lowerdir+=/run/live/rootfs,datadir+=/run/live/data,upperdir=/run/t", "/run/live"),
}
"""By who mounts it, the options of an overlay, and where the device of a layer is mounted."""


def of_union(options: str, *points: str, kind: str = "overlay") -> frozenset[Guard]:
    """Return the guards of a USB disk mounted there, on a host whose root is a union."""
    machine = topology(replace(disk("sda"), partitions=("sda1",)))
    root = Mount("0:27", kind, "/", "/", kind, ("rw",), ("rw", *options.split(",")))
    memory = [
        Mount("0:28", "tmpfs", "/", point, "tmpfs", ("rw",), ("rw",))
        for point in ("/upper", "/media/root-rw", "/run/t", "/cow")
    ]
    own = [Mount("8:1", "/dev/sda1", "/", point, "ext4", ("ro",), ("ro",)) for point in points]
    mounts = Mounts((root, *memory, *own), {})
    return hang_thresholds.kinds(machine, hosts(usb=True), mounts).limits["sda"].guards


@pytest.mark.parametrize("form", LAYERS)
def test_a_disk_with_a_layer_of_the_root_carries_the_running_system(form: str) -> None:
    """An SD card under an overlay in memory, or a live system: all programs wait for it."""
    options, point = LAYERS[form]
    assert of_union(options, point) == frozenset()


@pytest.mark.parametrize("form", LAYERS)
def test_a_stick_beside_an_overlay_is_one_of_its_user(form: str) -> None:
    """Whether the layers are found where the options name them or not."""
    for point in ("/media/u/STICK", "/run/media/u/STICK", "/mnt/stick"):
        assert of_union(LAYERS[form][0], point) == {Guard.REMOVABLE}


def test_a_union_whose_options_name_no_layer_may_be_on_any_disk() -> None:
    """Aufs shows them in sysfs alone; a stick of a user is none."""
    assert of_union("si=a1b2c3", "/initrd/mnt/dev_save", kind="aufs") == frozenset()
    assert of_union("si=a1b2c3", "/media/u/STICK", kind="aufs") == {Guard.REMOVABLE}


def test_an_overlay_of_a_container_says_nothing_of_the_system() -> None:
    """Its layers are on a stick on which somebody keeps images."""
    machine = topology(replace(disk("sda"), partitions=("sda1",)))
    options = ("rw", "lowerdir=/media/u/images/a:/media/u/images/b")
    overlay = Mount("0:40", "overlay", "/", "/var/lib/docker/overlay2/x", "overlay", (), options)
    stick = Mount("8:1", "/dev/sda1", "/", "/media/u", "ext4", ("rw",), ("rw",))
    limits = hang_thresholds.kinds(machine, hosts(usb=True), Mounts((overlay, stick), {}))
    assert limits.limits["sda"].guards == {Guard.REMOVABLE}


@pytest.mark.parametrize(("timeout", "critical"), [(None, 30), (10, 30), (60, 60), (3600, 180)])
def test_critical_is_the_command_timeout_within_reason(
    timeout: float | None, critical: float
) -> None:
    """A disk with a timeout of an hour is still reported after three minutes."""
    limits = hang_thresholds.kinds(topology(disk("sda", timeout_seconds=timeout))).limits["sda"]
    assert limits.critical_seconds == critical


# --- discards


def test_a_queue_of_discards_is_given_two_minutes() -> None:
    """Fstrim: one discard after the other, and then one that takes a minute."""
    watch = Watch()
    watch.look(block("sda", writes=1))
    for number in range(5):
        watch.look(block("sda", writes=1, discards=number, in_flight=8))
    watch.looks(60, block("sda", writes=1, discards=4, in_flight=8))
    assert watch.stalled() == 60.0
    assert watch.limits() == (None, 120.0, 180.0)
    watch.look(block("sda", writes=2, discards=4, in_flight=8))
    watch.looks(12, block("sda", writes=2, discards=4, in_flight=8))
    assert watch.limits()[1] == 10.0  # a write was the last to complete


# --- late samples and restarts


def test_a_late_look_proves_the_stall_once_another_has_seen_the_same() -> None:
    """The loop was starved for 40 s: unchanged totals mean no progress."""
    watch = Watch()
    watch.look(block("sda", writes=1))
    watch.looks(5, block("sda", writes=2, in_flight=3))
    assert watch.stalled() == 4.0
    watch.look(block("sda", writes=2, in_flight=3), after=40.0)
    assert watch.stalled() == 4.0
    watch.look(block("sda", writes=2, in_flight=3))
    assert watch.stalled() == 4.0
    watch.look(block("sda", writes=2, in_flight=3))
    assert watch.stalled() == 46.0


def test_a_machine_so_busy_that_every_look_is_late_still_fires() -> None:
    """Thrashing: a sample every 8 s, and none of them restarts the clock."""
    watch = Watch()
    watch.look(block("sda", writes=1))
    watch.look(block("sda", writes=2, in_flight=3))
    seen = []
    for _ in range(6):
        watch.look(block("sda", writes=2, in_flight=3), after=8.0)
        seen.append(watch.stalled())
    assert seen == [0.0, 16.0, 16.0, 32.0, 32.0, 48.0]


def test_a_completion_in_the_gap_is_one() -> None:
    """A virtual machine that was paused for a minute goes on: nothing has stalled."""
    watch = Watch()
    watch.look(block("sda", writes=1))
    watch.looks(5, block("sda", writes=2, in_flight=3))
    watch.look(block("sda", writes=2, in_flight=3), after=60.0)
    watch.looks(2, block("sda", writes=3, in_flight=3))
    assert watch.stalled() == 1.0


def hung(watch: Watch) -> BlockIo:
    """Let a busy disk hang for half a minute."""
    watch.look(block("sda", writes=1))
    still = block("sda", writes=2, in_flight=3)
    watch.looks(31, still)
    assert watch.stalled() == 30.0
    return still


def test_a_stall_goes_on_over_a_restart_of_the_program() -> None:
    """Nothing completed meanwhile: it is the same stall, and as old."""
    watch = Watch(HDD)
    still = hung(watch)
    watch.restart()
    watch.look(still, after=20.0)
    assert watch.stalled() == 30.0  # the stored state; not confirmed by a second sample yet
    assert watch.limits()[1] == 10.0
    watch.looks(2, still)
    assert watch.stalled() == 52.0


def test_what_is_kept_may_come_after_the_first_looks() -> None:
    """State.db is on the disk that hangs: it is read seconds after the first sample."""
    watch = Watch()
    still = hung(watch)
    kept = device.remember(watch.state)
    watch.state = device.EMPTY
    watch.looks(4, still)
    watch.state = device.recall(watch.state, kept)
    watch.looks(3, still)
    assert watch.stalled() == 37.0


@pytest.mark.parametrize(
    ("after", "writes", "uptime"),
    [
        (20.0, 3, 2000.0),  # it completed something
        (20.0, 2, 15.0),  # the machine was booted: the same number is a coincidence
        (20.0, 0, 15.0),
        (7200.0, 2, 3600.0),  # it slept, or was booted
    ],
)
def test_what_was_a_stall_before_is_none_now(after: float, writes: int, uptime: float) -> None:
    """A completion, a boot, a suspend: the clock starts with the first sample."""
    watch = Watch()
    hung(watch)
    watch.restart()
    watch.look(block("sda", writes=writes, in_flight=3), after=after, uptime=uptime)
    watch.looks(3, block("sda", writes=writes, in_flight=3))
    assert watch.stalled() == 3.0


def test_wake_ups_are_known_after_a_boot_also_of_a_disk_that_comes_later() -> None:
    """What takes weeks to learn is stored under the disk's serial number."""
    own = replace(disk("sda", serial="Z1"), diskseq=7)
    watch = Watch(own)
    idle_then_waiting(watch, 30)
    watch.looks(9, block("sda", writes=2, in_flight=1))
    watch.look(block("sda", writes=3))
    kept = table.remember(state_with(device=device.WatchState(watch.state))).groups["device"]
    watch.state = device.recall(device.EMPTY, kept)
    watch.looks(5)  # it is not there yet
    watch.look(block("sda", writes=3), after=10.0, uptime=20.0)
    watch.looks(2, block("sda", writes=4))
    watch.looks(30, block("sda", writes=4))
    watch.look(block("sda", writes=4, in_flight=1))
    assert watch.limits()[1] == 15.0


def scsi(now: float, state: str, uptime: float = 1e6) -> View:
    """Return what is read of one disk's SCSI state."""
    own = ScsiDevice("0:0:0:0", "host0", "sda", 0, state, 32, 30.0, None, None, None, None)
    values = {"scsi": ScsiTopology({}, {"0:0:0:0": own}, None)}
    inputs = Inputs(now, uptime, Snapshot(**values), frozenset(values))
    return View(inputs, None)


@pytest.mark.parametrize(("uptime", "expected"), [(1e6, 75.0), (10.0, 0.0)])
def test_a_disk_that_is_not_running_is_so_since_before_the_restart(
    uptime: float, expected: float
) -> None:
    """Offline for a minute when the program restarted; after a boot it starts again."""
    state, _ = device_state.scsi_step({}, scsi(BOOTED, "offline"))
    kept = device_state.scsi_remember(state)
    _, samples = device_state.scsi_step(
        device_state.scsi_recall({}, kept), scsi(BOOTED + 75.0, "offline", uptime)
    )
    assert samples is not None
    values = {name: value for name, _, value in samples}
    assert values["iowarden_device_not_running_seconds"] == expected
