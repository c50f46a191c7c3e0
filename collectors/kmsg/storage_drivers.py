"""Which driver, file system or layer of the storage stack printed a line of the kernel's log.

It is decided by the grammar of the line, never by its words: by the record's SUBSYSTEM where it has
one, and by its prefix, which is of one of these forms:

    NAME - ...                   bnx2i
    (PROGRAM,PID,CPU):FUNCTION:  ocfs2: its mlog
    NAME: ...                    pr_fmt:      'libceph: ...', 'mpi3mr0: ...', 'md/raid1:md0: ...'
    NAME DEVICE: ...             dev_printk:  'hpsa 0000:03:00.0: ...', 'sd 0:0:0:0: [sda] ...'
    NAME [ADDRESS]-...           qla2xxx
    [ADDRESS]:[FUNCTION:...]     qedf, qedi
    NAME (DEVICE): ...           file systems: 'XFS (dm-0): ...'
    NAME WORD (DEVICE): ...      file systems: 'EXT4-fs error (device sda1): ...'
    DISK: ...                    a block device: 'sda: ...', 'nvme0n1: ...'

and by a few sentences of the block layer and of ZFS that have no prefix.

Source: Linux 6.12: the objects in the Makefiles below the folders of `_NAMES`, with the names that
their drivers and formats have where they differ (pr_fmt, DRV_NAME, struct device_driver);
drivers/base/core.c (dev_vprintk_emit, set_dev_info); OpenZFS 2.x, module/os/linux.
Limits: a line without any of these ('Remounting filesystem read-only') has no driver here.
Floppy and CD drives are left out: no disk is behind them. Tapes hold backups: they count.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from iowarden.collectors.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iowarden.collectors.kmsg.kernel_line import KernelLine
    from iowarden.collectors.machine import Machine

ERROR = 3
CRITICAL = 2
"""KERN_ERR, KERN_CRIT. Source: include/linux/kern_levels.h."""
_WARNING = 4
SCSI_HOSTS = "/sys/class/scsi_host"
_MAX_HOSTS = 256
_NAMES: Mapping[str, str] = {
    "block": "block bdi blk bio badblocks bdev bfq bsg genhd kyber mq_deadline sed_opal t10_pi",
    "drivers/scsi": (
        "3w_9xxx 3w_sas 3w_xxxx aac aacraid advansys ahc ahd aic79xx aic7xxx aic94xx am53c974"
        " arcmsr atp870u be2iscsi beiscsi bfa bnx2fc bnx2i buslogic cciss csiostor cxgb3i cxgb4i"
        " cxlflash dc395x efct elx esas2r fcoe fdomain fnic hisi_sas hpsa hptiop hv_storvsc"
        " ibmvfc ibmvscsi ibmvscsis inia100 initio ipr ips isci iscsi iscsi_tcp libcxgbi libfc"
        " libfcoe libiscsi libsas libsrp lpfc maxraid megaraid megaraid_sas megasas mpi3mr"
        " mpt2sas mpt3sas mvsas mvumi myrb myrs ncr53c8xx nsp32 osst pm8001 pm80xx pmcraid qedf"
        " qedi qla1280 qla2xxx qla4xxx ql4xxx raid_class sas scsi sd sd_mod ses smartpqi snic st"
        " ch stex storvsc sym sym53c8xx tcm_qla2xxx virtio_scsi vmw_pvscsi wd719x xen_scsifront"
    ),
    "drivers/message/fusion": "mpt mptbase mptctl mptfc mptsas mptscsih mptspi",
    "drivers/ata": "acard_ahci ahci ata libahci libata pata pdc_adma sata st_ahci xgene_ahci",
    "drivers/nvme": "nvme nvmet",
    "drivers/md": "bcache device_mapper dm kvdo md raid0 raid1 raid10 raid456 raid5 raid6",
    "drivers/block": (
        "aoe aoeblk brd drbd loop mtip32xx nbd null_blk ps3disk rbd rnbd rnbd_client"
        " rnbd_server rtrs rtrs_client rtrs_server sunvdc ublk ublk_drv vbd virtio_blk"
        " xen_blkback xen_blkfront blkfront zram"
    ),
    "drivers/target": (
        "cxgbit fileio iblock iscsi_target pscsi sbp_target target target_core tcm tcm_fc tcm_loop"
        " tcmu xcopy"
    ),
    "drivers/infiniband/ulp": "ib_iser ib_isert ib_srp ib_srpt iser isert srp srpt",
    "drivers/usb/storage": "uas ums usb_storage",
    "drivers/mmc": (
        "alcor armmmci atmel_mci au1xmmc cb710_mmc cqhci davinci_mmc dw_mmc dwmmc jz4740_mmc"
        " litex_mmc meson_gx_mmc meson_mx_sdhc meson_mx_sdio mmc mmcblk mmci_omap mmci_pl18x"
        " moxart_mmc mtk_msdc mtk_sd mvsdio mxcmmc mxs_mmc octeon_mmc omap_hsmmc owl_mmc pxamci"
        " renesas_sdhi rtsx_pci_sdmmc rtsx_usb_sdmmc sdhci sdricoh_cs sh_mmcif sunplus_mmc"
        " sunxi_mmc thunderx_mmc tifm_sd tmio_mmc toshsd uniphier_sd usdhi6rol0 ushc via_sdmmc"
        " vub300 wbsd wmt_sdmmc"
    ),
    "drivers/memstick": "jmb38x_ms memstick ms_block mspro_block r592 rtsx_usb_ms tifm_ms",
    "drivers/ufs": "cdns_ufshcd tc_dwc_g210 ti_j721e_ufs ufs ufs_device_wlun ufshcd",
    "drivers/nvdimm": "libnvdimm nd nvdimm of_pmem virtio_pmem",
    "drivers/cxl": "cxl",
    "drivers/dax": "dax device_dax",
    "drivers/mtd": "mtd mtdblock nand spi_nor spinand ubi",
    "drivers/s390": "dasd dcssblk scm_block zfcp",
    "fs": (
        "9p adfs affs afs kafs bcachefs befs bfs btrfs cachefiles ceph cifs coda cramfs dlm"
        " ecryptfs erofs exfat ext2 ext3 ext4 f2fs fat fscrypt fuse gfs2 hfs hfsplus hpfs iomap"
        " iso9660 isofs jbd jbd2 jffs2 jfs ksmbd lockd minix netfs nfs nfsv2 nfsv3 nfsv4 nfs4"
        " nfsd nilfs nilfs2 ntfs ntfs3 o2cb o2dlm o2hb o2net ocfs2 omfs orangefs overlayfs qnx4"
        " qnx6 quota reiserfs romfs root_nfs smb smb2 smb3 squashfs sysv ubifs udf ufs vboxsf"
        " vfat vfs virtiofs vxfs xfs zonefs"
    ),
    "net": "9pnet libceph rpc rpcrdma sunrpc svc svcrdma xprtrdma",
    "OpenZFS": "icp spl splerror zfs zil zio zvol",
}
"""Names that lines begin with, in lower case, '-' as '_', without a number at the end.

What follows after an underscore is of the same family: 'sdhci-pci', 'nvme-tcp', 'ahci_mvebu'.
"""
_DRIVER_BY_NAME = {name: name for names in _NAMES.values() for name in names.split()} | {
    "aac": "aacraid",
    "ahc": "aic7xxx",
    "ahd": "aic79xx",
    "fileio": "target",
    "iblock": "target",
    "maxraid": "pmcraid",
    "pscsi": "target",
    "sym": "sym53c8xx",
    "xcopy": "target",
    "blkfront": "xen_blkfront",
    "vbd": "xen_blkfront",
    "beiscsi": "be2iscsi",
    "megasas": "megaraid_sas",
    "ql4xxx": "qla4xxx",
    "storvsc": "hv_storvsc",
    "device_mapper": "dm",
    "raid0": "md",
    "raid1": "md",
    "raid10": "md",
    "raid456": "md",
    "raid5": "md",
    "raid6": "md",
    "blk": "block",
    "bio": "block",
    "bdev": "block",
    "bdi": "block",
    "badblocks": "block",
    "genhd": "block",
    "mmcblk": "mmc",
    "nilfs": "nilfs2",
    "iso9660": "isofs",
    "afs": "kafs",
    "o2cb": "ocfs2",
    "o2dlm": "ocfs2",
    "o2hb": "ocfs2",
    "o2net": "ocfs2",
    "smb": "cifs",
    "smb2": "cifs",
    "smb3": "cifs",
    "rpc": "sunrpc",
    "svc": "sunrpc",
    **dict.fromkeys(("icp", "spl", "splerror", "zil", "zio", "zvol"), "zfs"),
}
_NUMBERED = {
    "connection": "iscsi",
    "host": "scsi",
    "ioc": "mptbase",
    "pmem": "nd",
    "rport": "scsi",
    "session": "iscsi",
}
"""Names that count only with a number behind them: 'ioc0: ', 'connection1:0: ', 'rport-0:0-1: '."""
_UNWATCHED = frozenset({"sr", "sg", "fd", "floppy", "pktcdvd", "cdrom"})
_STORAGE_SUBSYSTEMS = lazy_pattern(
    r"scsi(?:_\w+)?|sas_\w+|fc_\w+|srp_\w+|iscsi_\w+|spi_(?:host|transport)|raid_devices|block|bdi"
    r"|nvme(?:-\w+)?|ata_(?:port|link|device)|mmc(?:_host)?|memstick(?:_host)?|nd|dax|cxl|mtd|ubi"
    r"|bsg|enclosure|rbd|rnbd-\w+|ublk-\w+|zram-control|bcache",
    re.ASCII,
)
"""Classes and buses whose devices are storage."""
_BUSES = frozenset(
    {
        *("pci", "pci_express", "platform", "usb", "virtio", "vmbus", "xen", "xen-backend", "vio"),
        *("ccw", "ccwgroup", "amba", "of_platform", "acpi", "auxiliary", "rtsx_usb", "tifm"),
        *("spi", "i2c", "parisc", "zorro", "firewire", "eisa", "pnp"),
    }
)
"""Buses whose devices are anything: the driver's name decides."""
_DISK = (
    r"(?:(?:sd|vd|xvd|hd)[a-z]{1,3}\d*|nvme\d+(?:c\d+)?n\d+(?:p\d+)?|mmcblk\d+(?:boot\d|rpmb|p\d+)*"
    r"|(?:md_?d?|dm-|loop|zram|nbd|rbd|drbd|rnbd|bcache|ublkb|zd|ram_?blk)\d+(?:p\d+)?|dasd[a-z]+\d*"
    r"|pmem[\d.]+s?(?:p\d+)?)"
)
_SENTENCES = lazy_pattern(
    rf"(?P<block>[\w /:,-]{{0,60}}? error, dev {_DISK}\b|Buffer I/O error|Dev {_DISK}: |GPT:"
    rf"|{_DISK}: |(?:end_request|print_req_error|end_buffer_async_\w+|quiet_error): "
    r"|Aborting journal on device |(?:Read|Write)-error on swap|attempt to access beyond end of)"
    r"|(?P<zfs>(?:WARNING|PANIC|NOTICE): (?:[^\n]{0,100}?\b[Pp]ool '|(?:zil|zap|zfs|dsl|spa|l2arc"
    r"|arc|dmu|vdev|zio|zvol|metaslab)_|ZFS|SPL|MMP |can't open objset|invalid (?:RAID-Z|arc)"
    r"|(?:aborted )?import during )|VERIFY3?[A-Z0-9]{0,3}\(|ASSERT3?[A-Z0-9]{0,3}\("
    r"|PANIC at \w+\.c:\d+:|zio pool=)",
    re.ASCII,
)
"""Lines without a driver's prefix. Source: block/blk-core.c, fs/buffer.c, mm/page_io.c; OpenZFS,
module/os/linux/spl/spl-err.c (cmn_err, spl_panic), zfs/vdev_disk.c (vdev_disk_error).
"""
_PREFIX = lazy_pattern(
    r"(?P<name>[A-Za-z0-9][\w.+-]{0,47}(?::[0-9-]+(?=:))?)"
    r"(?: ?:| - |\[\w{1,20}\]: |/\w+:"
    r"|(?: (?:error|warning|critical|panic|abort|alert|emergency))? ?\("
    r"| (?:error|warning|critical|panic|abort|alert)\b"
    r"| \[(?P<address>[0-9a-f]{4}:[0-9a-f:.]{2,12})\]"
    r"| (?P<object>[^\s\"',;=]{0,63}[^\s\"',;=:])(?: [^\s\"',;=]{1,64})?:"
    r"(?:\s+\[(?P<disk>\w+)\]|\s|$))",
    re.ASCII,
)
_QLOGIC = lazy_pattern(
    r"\[(?P<address>[0-9a-f:.]{4,16})\]:\[(?P<name>qed[fi]|bnx2fc)(?P<object>)(?P<disk>)", re.ASCII
)
_OCFS2 = lazy_pattern(r"\([^\n]{1,15},[0-9]{1,10},[0-9]{1,5}\):\w+:[0-9]{1,6} ", re.ASCII)
"""Program, its number, the processor: function, line. Source: fs/ocfs2/cluster/masklog.c,
__mlog_printk; the same in dlm, dlmfs and o2net of ocfs2.
"""
_END = lazy_pattern(r"[-_.:]?[0-9][0-9._:-]*$", re.ASCII)
_OBJECTS = lazy_pattern(
    r"(?P<controller>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])|(?:host|target)(?P<host>[0-9]+)\b"
    r"|(?P<device>[0-9]+:[0-9]+:[0-9]+:[0-9]+|nvme[0-9]+|ata[0-9.]+)$",
    re.ASCII,
)
"""What a prefix names: a PCI address, a SCSI host or target, a SCSI device, an NVMe controller."""
_PARTS = lazy_pattern(r"[_.]", re.ASCII)


def driver_of(line: KernelLine, text: str, host_drivers: frozenset[str] = frozenset()) -> str:
    """Return the storage driver, file system or layer that printed a line; '': none of them.

    `text` is the line, or one of the lines of a record. `host_drivers` are further names that this
    machine's SCSI hosts have (`host_drivers`).
    """
    if line.facility or line.device[:1] == "n":  # another writer; a network interface
        return ""
    subsystem = line.subsystem
    if subsystem and _STORAGE_SUBSYSTEMS.fullmatch(subsystem) is None and subsystem not in _BUSES:
        return ""
    if (sentence := _SENTENCES.match(text)) is not None:
        return "zfs" if sentence["zfs"] else "block"
    if _OCFS2.match(text) is not None:
        return "ocfs2"
    found = _PREFIX.match(text) or _QLOGIC.match(text)
    if found is None:
        return ""
    name = found["name"]
    plain = name.lower().replace("-", "_")
    if plain in _UNWATCHED:
        return ""
    return _named(name) or (plain if plain in host_drivers else "") or _of_subsystem(subsystem)


def place_of(text: str, driver: str) -> dict[str, str]:
    """Return what the prefix of a driver's line names: `device` or `controller` of its event."""
    found = _PREFIX.match(text) or _QLOGIC.match(text)
    if found is None or _SENTENCES.match(text) is not None:
        return {}
    if found["disk"]:
        return {"device": found["disk"]}
    if found["address"]:
        return {"controller": found["address"]}
    for name in filter(None, (found["object"], found["name"])):
        place = _OBJECTS.match(name)
        if place is not None:
            if place["host"]:
                return {"controller": f"host{place['host']}"}
            return {role: text for role, text in place.groupdict().items() if text}
    name = found["name"]
    return {"controller": name} if name[-1].isdigit() and name.lower() != driver else {}


def is_error(driver: str, priority: int | None) -> bool:
    """Return whether a line of this level is an error, by the driver's own use of levels.

    OpenZFS prints errors of pools and vdevs as warnings (cmn_err(CE_WARN), spl-err.c).
    """
    return priority is not None and priority <= (_WARNING if driver == "zfs" else ERROR)


def is_critical(driver: str, priority: int | None) -> bool:
    """Return whether a line of this level is critical, by the driver's own use of levels."""
    return is_error(driver, priority) and (priority or 0) <= CRITICAL


def host_drivers(root: Machine) -> frozenset[str]:
    """Return the names of the drivers of this machine's SCSI hosts: also those not in the kernel.

    Source: /sys/class/scsi_host/host*/proc_name. Errors: none; what cannot be read is left out.
    """
    hosts = sorted(root.try_names(SCSI_HOSTS) or ())[:_MAX_HOSTS]
    names = {(root.try_read(f"{SCSI_HOSTS}/{host}/proc_name") or "").strip() for host in hosts}
    plain = {name.lower().replace("-", "_") for name in names if name.isprintable()}
    return frozenset(plain - {"", "(null)", "<null>"})


@functools.lru_cache(maxsize=256)
def _named(name: str) -> str:
    """Return the driver with a name: as it is, without its number, or by the name of its family."""
    plain = name.lower().replace("-", "_")
    if (driver := _DRIVER_BY_NAME.get(plain)) is not None:
        return driver
    without_number = _END.sub("", plain)
    if without_number != plain:
        driver = _DRIVER_BY_NAME.get(without_number) or _NUMBERED.get(without_number)
        if driver is not None:
            return driver
    parts = _PARTS.split(without_number)
    for count in range(len(parts) - 1, 0, -1):
        if (driver := _DRIVER_BY_NAME.get("_".join(parts[:count]))) is not None:
            return driver
    return ""


def _of_subsystem(subsystem: str) -> str:
    """Return the record's SUBSYSTEM where the prefix has no name of the table."""
    if not subsystem or subsystem in _BUSES:
        return ""
    return "scsi" if subsystem.startswith("scsi") else subsystem
