r"""Classify messages of drivers and file systems by words that they have in common.

Used if no row of kernel_patterns matches the single message: a driver has hundreds. The first
matching row decides; any other message with a word for a fault is 'driver_message' (or
'fs_warning'). Rows of HARMLESS exempt a line by words in general: they decide only about warnings.
Whole messages of level error that are harmless are in kernel_harmless.py.
Source: the messages of level warning and above in linux-source 6.1 and 6.12 (Debian); for the words
of older and newer kernels in 2.6.9 to 5.15, 6.8 and 7.2. packaging/list-kernel-messages lists which
of them have a row here, and why others have none.
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from iowarden.collectors.kmsg import kernel_btrfs
from iowarden.collectors.kmsg.kernel_kinds import HARMLESS

Rows = tuple[tuple[str, str], ...]

QUIET = (
    (
        "the host is short of memory or another resource: the kernel reports that itself",
        (
            r"\ballocat|out of memory|no memory|\bmemory (?:for|map)|\bENOMEM|\bOOM\b|ioremap"
            r"|\birq\b|request_irq|\bmsi-?x?\b|interrupt vector|dma[ _]mask|dma_?pool|mempool"
            r"|kthread|kworker|work ?queue|slab\b|\bmap(?:ping)? (?:registers|memory|BAR)"
            r"|get free page|(?:start|creat\w*|run)\b[\w -]{0,32}\bthread"
        ),
    ),
    (
        "the device, the driver or the file system does not support a feature",
        (
            r"unsupported|not support|n.t support|deprecat|unrecogni[sz]ed|EXPERIMENTAL|not capable"
            r"|not implemented|obsolete|incompatible|not enabled|requires? |experimental"
        ),
    ),
    (
        "a program or an administrator requested something invalid",
        (
            r"invalid (?:option|argument|param|value|mode|command)|debugfs|sysfs|ioctl"
            r"|module param|bsg\b|bad (?:parameter|argument)|unknown (?:option|param|command|ioctl"
            r"|arg)|message received|mount option|quota|swapfile|swapon|(?:in|active) use\b"
            r"|must be|user ?space|CHAP\b|configfs"
        ),
    ),
    (
        "a component is registered, created or removed while a driver starts or stops",
        (
            r"\bregister(?:ed|ing)?\b|vport|NPIV|optrom|nvram|flash|VPD\b|boot target|ASPM"
            r"|cpu affinity|trace (?:buffer|diag)|diag buffer|not initialized|unload|suspend"
            r"|resume\b"
        ),
    ),
)
"""Reasons why a driver's warning is no event, with their patterns."""
_SHORT_OF = f"(?i:{QUIET[0][1]})"
_QUIET = "(?i:" + "|".join(pattern for _, pattern in QUIET) + ")"
FAULT = (
    r"(?i:\bfail|error|time[d]?[- _]?out|overrun|underrun|overflow|corrupt|\blost\b|\bleak|missing"
    r"|mismatch|\bbad\b|broken|illegal|invalid|unexpected|unknown|spurious|cannot|can.t|could.?n.t"
    r"|could not|unable|not (?:found|valid|respond|ready|present|match)|exceed|too (?:many|long"
    r"|large|hot|big|small|old|short|much)|stuck|\bh[au]ng\b|degraded|stopp|disabl|reject|\bbusy\b"
    r"|\bnull\b|out of|threshold|absent|dropp|panic|warning|abnormal|\bempty\b|\bfull\b|wrong"
    r"|inconsisten|bogus|dead|aborting|aborted|\bno (?:response|device|path|disk|sense|such|data)"
    r"|never|malformed|short|refus|denied|insane|insufficient|offline|conflict|reset|unusable"
    r"|wedged|retr(?:y|ies)|impossible|incorrect|suspicious|unclean|overlap|exhaust|expired"
    r"|unaligned|not aligned|giving up|beyond|damaged|dirty|doesn.t|does not|did not|didn.t|wasn.t"
    r"|is not|are not|without)"
)
"""Words of a fault in general."""

# --- adapters ---

_DEAD = (
    r"(?i:fault.?state|in fault\b|faulted\b|lock(?:ed)?[- ]?up\b|kernel panic|blink ?led"
    r"|\b(?:firmware|fw|ucode|microcode|controller|adapter|board|hba|ioc|iop|ioa|card"
    r"|chip)\b[^.]{0,32}\b(?:dead|offline|died|hung|crash(?!.{0,6}(?:dump|buffer|state))\w*"
    r"|assert\w*|unavailable|unrecoverable|halted|killed|permanent\w*|non-operational|fatal"
    r"|not (?:responding|operational|present|alive)|is (?:down|stopped|failed))\b|non-operational"
    r"|not OPERATIONAL|unrecoverable (?:controller|error|hardware|state)|permanent IOA"
    r"|fatal (?:error|hardware|firmware|hba|interrupt)|hardware critical|critical hw|dead_ioc"
    r"|kernel failed to start|self-?test failed|cannot recover|kill(?:ing)? (?:the )?(?:hba"
    r"|adapter)|insufficient power|(?:reset|OCR)\b[^,;]{0,40}\bfail|failed to (?:reset|recover"
    r"|restart|reinit|bring)|\bPCI(?:e|-X)? (?:bus )?error|disabling (?:adapter"
    r"|controller|board|hba))"
)
_LINK = (
    r"(?i:(?:link|loop|port|cable)\b[^.,;]{0,24}\b(?:is |went |event )?(?:down|lost|offline"
    r"|failure|disconnected|unplugged)\b|devloss timeout|connection (?:lost|closed|timed|failed"
    r"|error)|connectivity lost|lost (?:connection|link))"
)
_FEATURE = r": (?:(?:[A-Z][\w/]*|over|for|with|and|) )+(?:enabled|disabled)$"
"""What firmware supports, at each start. Source: smartpqi_init.c, pqi_firmware_feature_status."""
_LINK_UP = r"(?:\bLink Up Event|\bLOOP UP detected|\bLINK UP \(|: Link up$)"
"""Source: lpfc_hbadisc.c, qla_isr.c, qedf_main.c, fnic_fcs.c."""
_GONE = (
    r"(?i:removing (?:handle|target|drive)|(?:device|drive|disk) (?:was )?(?:removed|is gone|lost"
    r"|no longer|not present|is not present|disappeared|missing))"
)
_RESET = (
    r"(?i:\breset(?:ting|s)?\b[^,;]{0,24}\b(?:adapter|controller|host|hba|ioc|card|board|bus"
    r"|target|device|lun|drive|chip|link|port|channel)|\b(?:adapter|controller|host|hba|ioc|card"
    r"|board|bus|target|device|lun|drive|chip|port|nexus|diag|hard|soft|COM|iop"
    r"|chip)[ _-](?:is )?(?:being )?(?:hard )?reset|\bOCR\b|\bRESETTING\b|being reset"
    r"|performing [\w ]*reset|Issuing (?:Hard)?Reset)"
)
_ABORT = (
    r"(?i:\babort(?:ing|ed)?\b[^,;]{0,24}\b(?:command|task|cmd|scmd|request|scsi|exchange|tag)"
    r"|\b(?:task|command|cmd|request|internal|eh|io)[ _](?:was )?abort)|\bABORTING\b"
)
_OTHERS_OF_A_VENDOR = (
    r"^(?:virtio_(?!blk|scsi)|hv_(?!storvsc)|bnx2(?![fi])|cxgb[34](?!i)|hisi_(?!sas)|be(?!2iscsi)"
    r"|xen(?![-_]?blk))"
)
_WELL = r"(?i:\bsucce|\bcomplete(?:d|$)|\bis (?:up|online|ready|normal)\b|\bcleared\b|\bdone\b)"
_PROBED = r"^sas: ata\d+: \S+ dev error handler"
_ADAPTER: Rows = (
    (
        (
            r"IOC Fault \(|no heartbeat detected|^mpi3mr\d*: fault code"
            r"|Adapter (?:Hardware Error|failed to come"
            r" online)"
        ),
        "hba_dead",
    ),
    (r"performing big hammer|ISP System Error", "hba_reset"),
    (r"PCIe Bus Error: severity=Uncorrect", "pcie_error"),
    (r"PCIe Bus Error: severity=Correct", "pcie_corrected"),
    (
        (
            r"FCP command x\w+ failed|Port Status Event: port status reg|AAC:ID\S+ Medium Error"
            r"|SRB timed out|task management request timed out|\bSense: 0x[34], ASC"
            r"|uas_post_reset: .*error|(?:data|cmd) cmplt err"
            # of Hyper-V: reads, writes, flushes (drivers/scsi/storvsc_drv.c:1178)
            r"|tag#\d+ cmd 0x(?:0?[8a]|[28a][8a]|35|91) status: scsi"
            r"|doorbell register bit 0x\w+ not cleared|libfc: Discovery failed for port"
            r"|^hisi_sas\w+ \S+: \S+ \(0x\w+\) found!"
        ),
        "hba_error",
    ),
    (r"uas_eh_\w+_handler FAILED", "scsi_reset_failed"),
    (r"Enter sas_scsi_recover_host busy: \d+ failed: [1-9]", "hba_error"),
    (_PROBED, HARMLESS),
    (r"^sas: ata\d+: \S+ cmd error handler", "hba_abort"),
    (
        r"xen_scsifront|Disabling device for further use|dead_ioc|PCI fault or device removal",
        "hba_dead",
    ),
    (_OTHERS_OF_A_VENDOR, HARMLESS),
    (_LINK_UP, "hba_link_up"),
    (_WELL, HARMLESS),
    (_FEATURE, HARMLESS),
    (_LINK, "hba_link_down"),
    (_SHORT_OF, HARMLESS),
    (_DEAD, "hba_dead"),
    (_QUIET, HARMLESS),
    (_GONE, "hba_device_removed"),
    (_RESET, "hba_reset"),
    (_ABORT, "hba_abort"),
    (FAULT, "driver_message"),
)
_PCI = r"(?P<controller>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])"
_ADDRESS = (
    rf"{_PCI}|(?P<host>\b(?:scsi ?host|scsi|host|target)[ #:(]?\d{{1,6}}|^q\w{{1,40}}\(\d{{1,6}})\b"
    r"|^(?:mpt[a-z]+: )?(?P<named>[a-z]\w*?\d{1,6}):|^sas: (?P<device>ata\d{1,4}):"
)

# --- errors that the kernel detects above the adapters ---

_SCSI_FOUND = (
    r"MODE_SENSE|mode parameter|Caching mode|cache data|drive cache|Test WP|[Pp]ositioning Range"
    r"|Control mode page|ATO |zone|Zone|VPD|opcode|LUN larger|scan|Domain Validation|Echo|Wide"
    r"|Stopping disk|Starting disk|error code$"
)
_SCSI: Rows = (
    (r"reached a thin provisioning soft threshold", "scsi_space_low"),
    (
        r"have changed|data has changed|state changed|[Pp]arameters changed|out of range",
        "scsi_unit_attention",
    ),
    (_QUIET, HARMLESS),
    (_SCSI_FOUND, HARMLESS),
    (_DEAD, "hba_dead"),
    (_RESET, "scsi_reset"),
    (_ABORT, "scsi_abort"),
    (FAULT, "driver_message"),
)
_ATA_FOUND = (
    r"HPA|native|n_sectors|max address|LPM|DIPM|DEVSLP|ACPI|_GTF|_GTM|_SDD|UDMA/33|EM |trying PIO"
    r"|supports DRM"
)
_ATA: Rows = (
    (_ATA_FOUND, HARMLESS),
    (r"(?i)giving up|, disabling|controller unavailable", "ata_disabled"),
    (r"(?i)FLUSH failed", "ata_media_error"),
    (
        r"(?i)failed to (?:resume|recover)|(?:pre|soft|hard)?reset failed|reset engine",
        "ata_reset_failed",
    ),
    (_QUIET, HARMLESS),
    (r"transmission error|link has error", "ata_bus_error"),
    (FAULT, "driver_message"),
)
_NVME_FOUND = (
    r"duplicate|bogus Namespace|subsys|cntlid|by-id|Identify Descriptors|NVME_NIDT|zone|NPSS|APST"
    r"|VID:|boundary|SUBNQN|Shutdown timeout set to \d+ seconds"
)
_NVME: Rows = (
    (r"Successfully reconnected", "connection_restored"),
    (r"PCIe Bus Error: severity=Uncorrect\w+ \(Fatal", "nvme_controller_down"),
    (r"PCIe Bus Error: severity=Uncorrect", "pcie_error"),
    (r"PCIe Bus Error: severity=Correct", "pcie_corrected"),
    (r"PCIe Bus Error: |error status/mask=|^nvme \S+:\s+\[ ?\d+\]", "driver_message"),
    (
        (
            r"(?i)max reconnect attempts|dev_loss_tmo .* expired|no available path|removing ctrl"
            r"|transport unloading"
        ),
        "connection_lost",
    ),
    (
        (
            r"(?i)crashed|IO queues lost|request disconnect|reset failure|failed to mark controller"
            r"|not RESETTING"
        ),
        "nvme_controller_dead",
    ),
    (r"persistent internal error", "nvme_controller_down"),
    (
        (
            r"(?i)keep-?alive fail|nvme_keep_alive_end_io"
            r"|error recovery|connectivity lost|no usable path|digest (?:error"
            r"|flag)|connect(?:ed|ion)?\b.* (?:fail|reject|error)|reconnect|transport (?:error"
            r"|association)|failed to (?:connect|send|receive)|(?:receive|send|handshake"
            r"|authentication) failed|TermReq|\bPDU\b|r2t|c2hdata|unexpected (?:data|header)"
            r"|short data-in|Create .* LS failed|create_assoc|rdma_|post_send|RDMA CM"
            r"|invalid(?:ation)? (?:key|for rkey)"
        ),
        "connection_error",
    ),
    (r"timeout$|timeout while|timeout:|timeout request", "nvme_timeout"),
    (_QUIET, HARMLESS),
    (_NVME_FOUND, HARMLESS),
    (FAULT, "driver_message"),
)
_BLOCK: Rows = (
    (r"writeback failed|writeback error", "lost_write"),
    (r"(?:ref|guard|app) tag error", "block_protection_error"),
    (r"write to read-only block-device", "block_readonly"),
    (r"Page cache invalidation failure", "fs_warning"),
    (
        r"beyond EOD|GPT is invalid|disklabel: csum bad|[Cc]sum bad|could not be added",
        "partition_table",
    ),
    (r"Aborting plugged BIOs|Invalid mix of zone append|bio too big", "block_io_error"),
    (r"requested out-of-range block|invalid block size|not aligned to logical", "block_beyond_end"),
    (r"__find_get_block_slow\(\) failed", "buffer_io_error"),
)
_FILE_SYSTEM_SHUT = r"(?i:shut(?:ting)?[ -]?down|stopped filesystem|panic forced)"
_FILE_SYSTEM_BAD = (
    r"(?i:corrupt|checksum|csum|crc\b|\bbad\b|invalid|inconsisten|mismatch|magic|wrong|mangled"
    r"|insane|incorrect|overlap|out.of.range|damaged|repair|fsck|not found|missing|unexpected"
    r"|beyond|leaked|I/O|\bIO\b|error|fail|can.?not|can.t|could|unable|trunc|lost|loss|abort|torn"
    r"|overrun|wrapped|\berr[= ]|infinite|no links|hole|overflow|too (?:large|small|short|many)"
    r"|\bran out|negative|null)"
)
_REQUESTED = (
    r"(?i:mount option|mounted? (?:with|as|fail|read|not)|cannot (?:mount|change|enable|use"
    r"|remount)|remount|resiz|grow|shrink|quota|online|seed|subvol|snapshot|swap|balance|send"
    r"|defrag|relocat|dedup|feature|compress|discard|trim|too many links|user.initiated|must be"
    r"|not a valid|suggest|index full|reach max|casefold|encrypt|verity|DAX|scrub on devid|profile"
    r"|zoned|freez|frozen|block size|sectorsize|nodesize|page size|inode size|sector size|selftest"
    r"|space cache v1|32.?bit|devices? .*maj:min|use of|lazy|stripe|barrier|MMP startup"
    r"|MMP feature|option|kernel|EXPERIMENTAL|CONFIG_)"
)
_FILE_SYSTEM: Rows = (
    (
        (
            r"^XFS \S+: (?:xfs_dabuf_map: bno|Allocated a known in-use inode|xfs_check_block: ptrs"
            r"|xfs_dir2_leafn_rebalance: picked)"
        ),
        "fs_error",
    ),
    (r"error recorded from previous mount|in need of filesystem check", "fs_errors_remembered"),
    (_FILE_SYSTEM_SHUT, "fs_shutdown"),
    ((r"lost super block write|IO errors while flushing file data"
        r"|Error .* writ.* data|page discard (?:on (?:page|folio)|unable)"), "lost_write"),
    (r"Remounting filesystem read-only|forced readonly", "fs_readonly"),
    ((r"(?i)checksum (?:error|invalid|verify|mismatch)|CRC (?:error|failure|mismatch)"
        r"|Metadata CRC detected|bad tree block"), "fs_checksum_error"),
    (r"(?i)Metadata \w+ detected|corrupt (?:leaf|node)|is corrupted|found .*corruption",
     "fs_corruption"),
    (r"run (?:xfs_repair|fsck)|stop checkpoint|access invalid blkaddr", "fs_error"),
    (r"^BTRFS panic\b", "fs_error"),
    (_REQUESTED, HARMLESS),
    (r"^(?:BTRFS|EXT\d-fs)[ :](?:critical|error|panic)", "fs_error"),
    (_QUIET, HARMLESS),
    (r"stop checkpoint|(?i:corrupt|run (?:xfs_repair|fsck)|inconsisten)", "fs_error"),
    (_FILE_SYSTEM_BAD, "fs_warning"),
    (FAULT, "fs_warning"),
)  # fmt: skip
_JOURNAL_FOUND = (
    r"(?i)wants too many credits|memory|crc32c|leaked|checksumming v|disabling barriers"
)
_JOURNAL: Rows = (
    (r"IO errors while flushing file data", "lost_write"),
    (_JOURNAL_FOUND, HARMLESS),
    (r"(?i)error|checksum|bad block|corrupt|too short|no valid|Failed|invalid|!=", "fs_error"),
    (FAULT, "fs_warning"),
)
_MD_REQUESTED = (
    r"(?i)takeover|reshape|layout|personality|cannot register|in use|array_size|bitmap file must"
)
_MD_AUTODETECT = r"valid v0\.90 superblock"
_MD: Rows = (
    (_MD_AUTODETECT, HARMLESS),
    (
        (
            r"(?i)Cannot continue operation|failing array|journal disk is missing"
            r"|insufficient working|not enough|cannot start|failed to run|cannot find a valid disk"
            r"|Recovery failed|data corruption"
        ),
        "md_failed",
    ),
    (
        (
            r"(?i)non-fresh|superblock inconsistency|could not read superblock|valid v"
            r"|not importing|marking faulty|only \d+ devices|could not (?:open|reload|bd_claim)"
        ),
        "md_kicked",
    ),
    (
        r"read error on replacement|read_errors >|> \d+ stripes|unrecoverable",
        "md_read_uncorrectable",
    ),
    (r"mismatch sector", "md_mismatch"),
    (_MD_REQUESTED, HARMLESS),
    (_QUIET, HARMLESS),
    (FAULT, "driver_message"),
)
_MAPPED_REQUESTED = (
    r"(?i)^device-mapper: (?:table|ioctl|uevent|target|stats|zone):|message|argument|Module for"
    r"|version|CONFIG_|config string|discard|param|suspend|resume|alignment"
)
_NO_MAPPER = r"^(?!device-mapper:|dm-verity|dm-pcache)"
_MAPPED: Rows = (
    (_NO_MAPPER, HARMLESS),
    ((r"(?i)AEAD ERROR|checksum failed|block \d+ is corrupted|device corrupted"
        r"|has I/O error"), "dm_checksum_error"),
    (
        (r"(?i)metadata operation .* failed|aborting current metadata|(?:failure"
        r"|read-only|fail) mode|until repaired|needs_check|could not (?:write|commit|load)"
        r"|couldn.t (?:write|read|commit)|corruption detected|validator|checksum (?:error|mismatch)"
        r"|out of (?:metadata|data) space"),
        "dm_metadata_error",
    ),
    (r"(?i)Snapshot overflowed|Invalidating", "dm_snapshot_invalid"),
    (r"(?i)Ran out of space|out of space", "dm_pool_full"),
    (_QUIET, HARMLESS),
    (_MAPPED_REQUESTED, HARMLESS),
    ((r"(?i)I/O error|IO error|read fail|write fail|error (?:reading|writing)|fail(?:ed"
        r"|ure) to (?:read|write"
     r"|correct)|Backing device|primary mirror|error writing"), "dm_error"),
    (r"[Ee]rror|ERROR|[Ff]ail(?!over|back)|corrupt|invalid", "dm_error"),
    (FAULT, "driver_message"),
)  # fmt: skip
_CACHE: Rows = (
    (
        (
            r"error on|[Ii]/?[Oo] (?:error|disabled)|[Cc]an't flush|stop it|bad csum"
            r"|bad magic|missing!|verify failed"
        ),
        "bcache_error",
    ),
    (_QUIET, HARMLESS),
    (FAULT, "driver_message"),
)
# A socket in state OPEN is also closed by a server to which nothing was sent for 15 minutes.
_CEPH_IDLE = r"socket closed \(con state OPEN\)"
_CEPH: Rows = (
    (
        r"session established|caps renewed|reconnect success|recovery completed|osd\d+ up$",
        "connection_restored",
    ),
    (
        (
            r"(?i)reconnect denied|rejected session|block-?listed|blacklisted|evicted|fenced"
            r"|session (?:rejected|closed by)|force umount|Shutting down mount"
            r"|auth\S* .*(?:fail|error)"
        ),
        "connection_lost",
    ),
    (_CEPH_IDLE, HARMLESS),
    (r"osd\d+ down$", "connection_error"),
    (r"osd\d+ weight", "driver_message"),
    (
        (
            r"socket (?:closed|error)|session lost|connect error|^libceph: connect .*error"
            r"|bad (?:crc|signature|tag|authorizer)|data crc|wrong peer|connection reset"
            r"|protocol (?:error|feature)|mds\d+ (?:hung|caps stale)|timed? ?out|hunting for"
        ),
        "connection_error",
    ),
    (_SHORT_OF, HARMLESS),
    (r"(?i)error|fail|lost", "driver_message"),
)
"""Source: net/ceph/messenger.c, messenger_v2.c, mon_client.c, osdmap.c; fs/ceph/mds_client.c."""
_NBD_ENDS = r"shutting down sockets|no io inflight|[Ss]end disconnect"
_DRBD_STATE = r"^(?:block )?drbd.*: (?:\w+\( \w+ -> \w+ \) ?)+$"
_NETWORK_BLOCK: Rows = (
    # DRBD's changes of state; an orderly 'drbdadm disconnect' and 'down' pass none of the first.
    # Source: drbd_strings.c; of 'disk(', 'pdsk(' is the peer's. Its own also fails by a 'detach'.
    (
        r"\bconn\( \w+ -> (?:Timeout|BrokenPipe|NetworkFailure|ProtocolError) \)",
        "connection_error",
    ),
    (r"\b(?:disk|pdsk)\( \w+ -> Failed \)", "network_block_error"),
    (r"\bconn\( \w+ -> Connected \)", "connection_restored"),
    (_DRBD_STATE, HARMLESS),
    (r"^zram: (?:Dec|C)ompression failed", "block_io_error"),
    (r"no available path - failing I/O", "connection_lost"),
    (r"no usable path - requeuing I/O", "connection_error"),
    (r"\bon read-only\b", "block_readonly"),
    (
        (
            r"^rbd: .*(?:blacklisted|blocklisted)"
            r"|neither local nor remote|Local IO failed|Split-Brain detected but|[Dd]ead connection"
            r"|disabled for further|Can not satisfy|Disk broke down|Unrelated data|inconsistent!"
            r"|Write of \S+ failed|backing device failed|split brain"
        ),
        "network_block_failed",
    ),
    (_OTHERS_OF_A_VENDOR, HARMLESS),
    (_NBD_ENDS, HARMLESS),
    (
        (
            r"(?i)connection timed out|(?:send|receive) (?:control|data|failed)|IO ERROR|I/O error"
            r"|request send failed|sock_?(?:send|recv)|time expired|did not arrive in time"
            r"|failed to finish|failed to answer|shut ?down by peer|Digest (?:integrity|mismatch)"
            r"|meta ?data .*(?:fail|timed)|Other side returned error|closed socket|result -?\d+"
            r"|expired after \d|^rbd: .*timed out|op failed|disk failed|watch error"
            r"|error while reading|out of sync|NegDReply|NegRSDReply|Socks array is empty"
        ),
        "network_block_error",
    ),
    (_QUIET, HARMLESS),
    (FAULT, "driver_message"),
)
_NFS: Rows = (
    (r"timed out", "nfs_timed_out"),
    (r"not responding", "nfs_not_responding"),
    (r"\bOK$", "nfs_responding"),
    ((r"lost \d+ locks|state recovery failed|state manager|migration recovery failed|fileid changed"
     r"|failed to reclaim lock|won't be reclaimed|wrote zero bytes|clientid is in use"
     r"|bad sequence-id"
     r"|unhandled error|Fencing|fence failed"), "nfs_error"),
    (_QUIET, HARMLESS),
    (FAULT, "driver_message"),
)  # fmt: skip
# -11, -104, -110 to -113: the network's; others are the answer to a mount (wrong password: -13).
_SMB: Rows = (
    (r"has not responded in", "smb_not_responding"),
    (r"Send error in [\w ]+ = -(?:11|104|11[0-3])$", "connection_error"),
)
"""Source: fs/smb/client/connect.c, server_unresponsive; cifs_debug.h, cifs_server_dbg."""
# Only iscsid reports that a session of iscsi_tcp is back; nothing does for an rport and SMB. That
# a connection is logged in (3): scsi/iscsi_if.h, iscsi_conn_state; scsi_transport_iscsi.c.
_NO_CONNECTION = r"^(?!connection\d|session\d|rport-)"
_CONNECTION: Rows = (
    (_NO_CONNECTION, HARMLESS),
    (r"detected conn login \(3\)", "connection_restored"),
    (r"recovery timed out|time out: removing|no longer a FCP target", "connection_lost"),
    (
        (
            r"detected conn error|\bxmit err\b"
            r"|ping timeout|nop|rejected|Digest|Could not send|reconnect"
            r"|not bound|blocked FC remote port|timed? ?out"
        ),
        "connection_error",
    ),
    (_QUIET, HARMLESS),
    (FAULT, "driver_message"),
)
_CARD: Rows = (
    (
        (
            r"(?i)tried to [HS]W reset card"
            r"|(?:card|host) (?:is )?(?:removed|stuck|never|did not|didn)|data (?:crc|error)"
            r"|time(?:d)?[- ]?out|error -\d+ (?:send|transf|read|writ|whilst)|I/O error"
            r"|recovery failed|CRC|flush error|reset failed|write fail|error \d+ (?:send|transf"
            r"|requesting)|CQE recovery|ADMA error|failed to (?:recover|flush)"
        ),
        "mmc_error",
    ),
    (_QUIET, HARMLESS),
    (FAULT, "driver_message"),
)
_TARGET: Rows = (
    (
        (
            r"(?i)I/O error|IO error|write (?:fail|error)|read fail|Corrupted|Filesystem|backend"
            r"|bio error|PR APTPL|metadata writeout|failed with|guard|DIFv1"
        ),
        "target_error",
    ),
    (_QUIET, HARMLESS),
    (FAULT, "driver_message"),
)


WHY = {
    _QUIET: "",
    _SHORT_OF: "",
    _OTHERS_OF_A_VENDOR: "not a storage driver",
    _WELL: "an operation succeeded",
    _FEATURE: "what a firmware supports",
    _NO_MAPPER: "not a line of the device mapper",
    _NO_CONNECTION: "not a line of iSCSI or Fibre Channel",
    _REQUESTED: "a mount, check or command of an administrator was rejected or needs an action",
    _MD_AUTODETECT: "autodetection of an array with a newer superblock format",
    _MD_REQUESTED: "mdadm requested something that the array cannot do: mdadm reports it",
    _MAPPED_REQUESTED: "a table, message or version of dmsetup or LVM, which report it",
    _SCSI_FOUND: "data that a disk does not report during discovery",
    _ATA_FOUND: "capacity or power settings of a drive during discovery",
    _NVME_FOUND: "names and features of a namespace during discovery",
    _JOURNAL_FOUND: "bookkeeping or options of a journal",
    _PROBED: "printed for each disk behind libsas, also when it is probed",
    _CEPH_IDLE: "an idle connection; the next request opens it again",
    _DRBD_STATE: "a change of state that follows another, or that a user requested",
    _NBD_ENDS: "also printed when a user disconnects the device",
}
"""Why a pattern means no event; those of QUIET have their own reasons."""


class PrinterRules(NamedTuple):
    """Rules for one family of printers: first words of its lines, its rows, its places."""

    leads: str
    rows: Rows
    place: str


_NAME = r"(?P<device>[a-z][\w!.-]*?)"
_PRINTERS = (
    PrinterRules(
        # drivers/scsi, drivers/message, drivers/ata and drivers/ufs, by module; '3w' is 3w-9xxx
        "[ 3w AAC MaxRAID MegaRAID libcxgbi acard aacraid aac ahci aic advansys ahc ahd "
        "arcmsr asd BNX be beiscsi bfa bnxfc cciss cpqarray csiostor cxlflash dpt efct elx "
        "esas esasr fcoe "
        "fdomain fnic hpsa hptiop ibmvfc ibmvscsi ibmvscsis initio ioc ipr ips isci iscsi "
        "libata libahci libfc libfcoe libsas lpfc megaraid megasas mpi mpt mptbase mptctl "
        "mptfc mptsas mptscsih mptspi mtip mvsas mvumi myrb myrs ncr nsp pata pdc pmcraid ql "
        "qla qedf qedi qlogicpti sas sata scsi sd smartpqi snic stex stexx storvsc sym tcm "
        "uas ufs ufshcd ufshci vmw xen xenbus pvscsi rport hv virtio bnx cxgb hisi",
        _ADAPTER,
        _ADDRESS,
    ),
    PrinterRules(
        "nvme nvmet", _NVME, rf"nvme (?:{_PCI}|(?P<device>\S+?)):|^(?P<named>nvme\d\w*):"
    ),
    PrinterRules("libceph ceph", _CEPH, r"\b(?P<place>(?:osd|mds)\d{1,6}|mon(?=\d))"),
    PrinterRules(
        "EXT ext",
        _FILE_SYSTEM,
        rf"EXT\d-fs[\w ]*\((?:device )?{_NAME}\)(?:.*\bblock (?P<block>\d{{1,20}}))?",
    ),
    PrinterRules("XFS xfs", _FILE_SYSTEM, rf"XFS \({_NAME}\)(?:.*(?:daddr"
        rf"|block) 0x(?P<sector_hex>[0-9a-f]{{1,16}}))?"),
    PrinterRules("BTRFS btrfs", _FILE_SYSTEM, kernel_btrfs.DEVICE),
    PrinterRules("F", _FILE_SYSTEM, rf"F2FS-fs \((?:device )?{_NAME}\)"),
    PrinterRules("JBD jbd", _JOURNAL, rf"(?:\b(?:on|for|in) |JBD2: ){_NAME}(?:-\d+)?(?:\.?$|: )"),
    PrinterRules("md raid", _MD, r"(?:on|device|disk|in|dev|kicking non-fresh) "
        r"(?P<device>[a-z][\w!-]*\d|sd[a-z]+)\b|\b(?P<array>md\w+)[:,]"),
    PrinterRules("device dm", _MAPPED, r"^device-mapper: (?:(?:[\w -]+: |.* from |.*\()"
        r"(?P<place>\d+:\d+)\b|.*[(\s](?P<device>(?:sd"
        r"|nvme|md"
        r"|dm-|vd)\w+)\b)"),
    PrinterRules("bcache", _CACHE, r"\b(?P<device>(?:sd|nvme|md|dm-|vd|bcache)\w+)\b"),
    PrinterRules(
        "block nbd drbd rbd rnbd xen blkfront xenblk zram",
        _NETWORK_BLOCK,
        r"\b(?P<device>(?:nbd|drbd|rbd|rnbd|xvd)\w*\d|xvd[a-z]+\d*|nvme\d+n\d+)\b"
        r"|drbd (?P<place>[\w/.-]+)(?: (?!drbd\d)[\w.-]+)?:(?:.*sector (?P<sector>\d{1,20})s?\b)?",
    ),
    PrinterRules(
        "nfs NFS NFSv RPC lockd nlm nlmclnt NFSD nfsd", _NFS, r"server (?P<place>[^\s,]+)"
    ),
    PrinterRules("CIFS", _SMB, r"(?:\\\\|Server )(?P<place>[^\s\\]+)"),
    PrinterRules("connection session rport", _CONNECTION, r"^(?P<controller>[a-z]+-?\d[\d:-]*?): "),
    PrinterRules(
        "mmc mmcblk sdhci mmcmci dwmmc cqhci memstick",
        _CARD,
        rf"\b(?P<device>mmc(?:blk)?\d+)\b|{_PCI}",
    ),
    PrinterRules(
        "TARGET iSCSI IBLOCK iblock FILEIO PSCSI TCMU tcmu SPC XCOPY",
        _TARGET,
        r"(?P<controller>(?!))",
    ),
    PrinterRules(
        "VFS bio Dev GPT Alternate Page Primary Trying blk grow getblk find",
        _BLOCK,
        r"(?:device|Dev) (?P<device>[\w!-]+)|^(?P<named>[a-z][\w!-]*):",
    ),
)  # fmt: skip


_Compiled = tuple[tuple[re.Pattern[str], str], ...]
_ROOMS = {lead: number for number, room in enumerate(_PRINTERS) for lead in room.leads.split(" ")}
LEADS = frozenset(_ROOMS) | {"xvda", "xvdb", "xvdc", "xvdd", "xvde", "xvdf"}
_OTHERS = {"ata": _ATA, "disk": _SCSI, "block": _BLOCK}


# Compiled for the first line of such a printer: a machine has few of them.
@functools.cache
def _ready(number: int) -> tuple[_Compiled, re.Pattern[str]]:
    room = _PRINTERS[number]
    return _rows(room.rows), re.compile(room.place, re.ASCII)


@functools.cache
def _other(printer: str) -> _Compiled:
    return _rows(_OTHERS[printer])


@functools.cache
def _quiet() -> re.Pattern[str]:
    return re.compile(_QUIET, re.ASCII)


def _rows(rows: Rows) -> _Compiled:
    return tuple((re.compile(pattern, re.ASCII), kind) for pattern, kind in rows)


def read(lead: str, text: str) -> tuple[str, dict[str, str | None]] | None:
    """Return the kind of a line and the fields that locate it, by the first word of the line.

    The kind is HARMLESS if words in general exempt the line; None: no row matches it.
    """
    number = _ROOMS.get("xen" if lead.startswith("xvd") else lead)
    if number is None:
        return None
    rows, place = _ready(number)
    kind = _first(rows, text)
    if kind is None:
        return None
    found = place.search(text)
    return kind, {} if found is None else found.groupdict()


def is_quiet(text: str) -> bool:
    """Return whether the text indicates no fault of storage, whatever else it contains."""
    return _quiet().search(text) is not None


def why(printer: str, text: str) -> str:
    """Return why a line is no event; '': no known reason. For packaging/list-kernel-messages.

    `printer` is the first word of the line, or 'ata', 'disk', 'block'.
    """
    if printer not in _ROOMS and printer not in _OTHERS:
        return ""
    rows = _ready(_ROOMS[printer])[0] if printer in _ROOMS else _other(printer)
    for pattern, kind in rows:
        if pattern.search(text) is not None:
            if kind != HARMLESS:
                return ""
            quiet = (r for r, words in QUIET if re.search(words, text, re.ASCII | re.IGNORECASE))
            return WHY[pattern.pattern] or next(quiet, "")
    return ""


def kind_of(printer: str, text: str) -> str | None:
    """Return the kind of a line whose device is known: of 'ata', a SCSI 'disk' or 'block'.

    HARMLESS: words in general exempt it; None: no row matches it.
    """
    return _first(_other(printer), text)


def _first(rows: _Compiled, text: str) -> str | None:
    for pattern, kind in rows:
        if pattern.search(text) is not None:
            return kind
    return None
