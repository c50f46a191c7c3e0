"""Programs and files whose text is no verdict of 'iowarden explain': what to paste instead.

Each text is the head of what the program prints, or a file of the kernel as a user shows it: by
'grep .', by 'cat' below a prompt. Some show a fault: they are refused as well, never called well.
"""

from __future__ import annotations

import re

import pytest
from support.explained import read

from iowarden.collectors.model import ParseError

TEXTS = (
    (
        "ipmitool sensor",
        "Ambient Temp     | 23.000     | degrees C  | ok    | na        | 3.000     | 8.000\n",
    ),
    ("/sys/block/*/device/queue_depth", "/sys/block/sda/device/queue_depth:254\n"),
    ("/sys/class/scsi_host", "/sys/class/scsi_host/host0/can_queue:254\n"),
    ("a metrics page", 'smartctl_device_smart_status{device="nvme0"} 1\n'),
    (
        "arcstat",
        (
            "    time  read  miss  miss%  dmis  dm%  pmis  pm%  mmis  mm%  size     c  avai\n"
            "12:00:01     0     0      0     0    0     0    0     0    0   12G   16G    10\n"
        ),
    ),
    (
        "arc_summary",
        (
            "------------------------------------------------------------------------\n"
            "ZFS Subsystem Report                            Sun Nov 29 12:00:01 2026\n"
        ),
    ),
    (
        "bcache-super-show",
        ("sb.magic\t\tok\nsb.first_sector\t\t8 [match]\n"),
    ),
    (
        "blockdev",
        (
            "RO    RA   SSZ   BSZ        StartSec            Size   Device\n"
            "rw   256   512  4096               0   4000787030016   /dev/sda\n"
        ),
    ),
    (
        "/sys/fs",
        (
            "/sys/fs/btrfs/0b1c/devinfo/1/error_stats:write_errs 12\n"
            "/sys/fs/btrfs/0b1c/devinfo/1/error_stats:read_errs 0\n"
        ),
    ),
    (
        "check_raid",
        "WARNING: mdstat:[md0(1.82 TiB raid1):F:sdb1:U_]\n",
    ),
    (
        "cryptsetup",
        ("/dev/mapper/x is active and is in use.\n  type:    LUKS2\n  cipher:  aes-xts-plain64\n"),
    ),
    (
        "ddrescue",
        (
            "GNU ddrescue 1.27\n"
            "     ipos:    1234 MB, non-trimmed:   65536 B,  current rate:       0 B/s\n"
            "     opos:    1234 MB, non-scraped:       0 B,  average rate:   120 MB/s\n"
        ),
    ),
    (
        "dmidecode",
        ("# dmidecode 3.4\nGetting SMBIOS data from sysfs.\nSMBIOS 3.2.0 present.\n"),
    ),
    (
        "du",
        ("12G\t/var\n1.2T\t/home\n"),
    ),
    (
        "/sys/devices/system/edac",
        (
            "# grep . /sys/devices/system/edac/mc/mc0/ce_count\n"
            "/sys/devices/system/edac/mc/mc0/ce_count:1204\n"
        ),
    ),
    (
        "/sys/fs",
        (
            "# grep . /sys/fs/ext4/*/errors_count\n"
            "/sys/fs/ext4/sda1/errors_count:0\n"
            "/sys/fs/ext4/sdb1/errors_count:12\n"
        ),
    ),
    (
        "/sys/class/fc_host",
        ("/sys/class/fc_host/host1/port_state:Linkdown\n/sys/class/fc_host/host1/speed:unknown\n"),
    ),
    (
        "fstab",
        ("# /etc/fstab: static file system information.\nUUID=1b2c / ext4 errors=remount-ro 0 1\n"),
    ),
    (
        "check_raid",
        "WARNING: UEFI firmware can not be updated\n",
    ),
    (
        "gdisk",
        ("GPT fdisk (gdisk) version 1.0.9\nPartition table scan:\n  MBR: protective\n"),
    ),
    (
        "hdparm",
        ("/dev/sda:\n multcount     = 16 (on)\n readonly      =  0 (off)\n"),
    ),
    (
        "hdparm",
        ("/dev/sda:\n drive state is:  standby\n"),
    ),
    (
        "hdparm",
        ("/dev/sda:\n write-caching =  1 (on)\n"),
    ),
    (
        "hpasmcli",
        ("hpasmcli> show powersupply\nPower supply #1\n\tPresent  : Yes\n"),
    ),
    (
        "hpasmcli",
        (
            "ID     TYPE        LOCATION      STATUS    REDUNDANT FAN SPEED\n"
            " 1  Var. Speed   System Board    Normal     Yes     Normal   ( 30)\n"
        ),
    ),
    (
        "htop",
        "  0[|||   5.0%]   Tasks: 100, 200 thr; 1 running\n",
    ),
    (
        "/proc/interrupts",
        ("           CPU0       CPU1\n  0:         40          0   IO-APIC   2-edge      timer\n"),
    ),
    (
        "inxi",
        (
            "Drives:    Local Storage: total: 3.64 TiB used: 1.2 TiB (33%)\n"
            "           ID-1: /dev/sda vendor: Seagate model: ST4000VN008-2DR166 size: 3.64\n"
        ),
    ),
    (
        "ipmctl",
        (
            "DimmID | Capacity | HealthState | ActionRequired | LockState | FWVersion\n"
            "0x0001 | 125.7 GiB | Critical failure | 1 | Disabled | 01.02.00.5395\n"
        ),
    ),
    (
        "ipmitool chassis",
        (
            "System Power         : on\n"
            "Power Overload       : false\n"
            "Power Interlock      : inactive\n"
        ),
    ),
    (
        "ipmitool fru",
        (
            "FRU Device Description : Builtin FRU Device (ID 0)\n"
            " Board Mfg             : Supermicro\n"
        ),
    ),
    (
        "ipmitool mc",
        (
            "Device ID                 : 32\n"
            "Device Revision           : 1\n"
            "Firmware Revision         : 1.48\n"
        ),
    ),
    (
        "ipmi-sensors",
        (
            "ID  | Date        | Time     | Name             | Type              | Event\n"
            "1   | Nov-29-2026 | 01:02:03 | HDD Bay 3        | Drive Slot        | Drive Fa\n"
        ),
    ),
    (
        "ipmi-sensors",
        (
            "ID  | Name             | Type              | Reading    | Units | Event\n"
            "4   | CPU Temp         | Temperature       | 34.00      | C     | 'OK'\n"
            "71  | HDD Status       | Drive Slot        | N/A        | N/A   | 'Drive Fault\n"
        ),
    ),
    (
        "/proc/loadavg",
        "90.10 80.20 70.30 1/312 12345\n",
    ),
    (
        "lsblk",
        ("NAME ROTA SIZE MODEL\nsda     1 3.6T ST4000VN008-2DR1\n"),
    ),
    (
        "lsblk",
        (
            "NAME HCTL       TYPE VENDOR   MODEL             REV SERIAL          TRAN\n"
            "sda  0:0:0:0    disk ATA      ST4000VN008-2DR1 SC60 ZDH7X9LK        sata\n"
        ),
    ),
    (
        "lshw",
        (
            "H/W path        Device     Class          Description\n"
            "=====================================================\n"
            "/0/100/1        scsi0      storage        MegaRAID SAS-3 3108 [Invader]\n"
        ),
    ),
    (
        "lsof",
        (
            "COMMAND  PID USER   FD   TYPE DEVICE SIZE/OFF NODE NAME\n"
            "mysqld  1234 mysql   5u   REG    8,1  1234567  123 /var/lib/x (deleted)\n"
        ),
    ),
    (
        "lspci",
        "0000:03:00.0 0104: 1000:005d (rev 02)\n",
    ),
    (
        "lvscan",
        (
            "  ACTIVE            '/dev/vg0/root' [50.00 GiB] inherit\n"
            "  inactive          '/dev/vg0/x' [50.00 GiB] inherit\n"
        ),
    ),
    (
        "mdadm --examine-badblocks",
        ("Bad-blocks on /dev/sdb1:\n          1234567 for 8 sectors\n"),
    ),
    (
        "mdadm --examine-bitmap",
        ("        Filename : /dev/sdb1\n           Magic : 6d746962\n         Version : 4\n"),
    ),
    (
        "ipmitool mc",
        (
            "Number of enclosures on adapter 0 -- 1\n"
            "    Enclosure 0:\n"
            "    Device ID                     : 252\n"
        ),
    ),
    (
        "MegaCli -ShowSummary",
        (
            "System\n"
            "\tOperating System:  Linux version 2.6.32\n"
            "\tDriver Version: 06.700.06.00\n"
            "Hardware\n"
        ),
    ),
    (
        "mount",
        "/dev/sda1 on / type ext4 (rw,relatime,errors=remount-ro)\n",
    ),
    (
        "mount",
        "/dev/sda1 on / type ext4 (ro,relatime,errors=remount-ro)\n",
    ),
    (
        "multipath -v3",
        (
            "Nov 29 09:00:00 | set open fds limit to 1048576/1048576\n"
            "Nov 29 09:00:00 | loading /lib/multipath/libchecktur.so checker\n"
            "Nov 29 09:00:00 | sdb: not found in pathvec\n"
        ),
    ),
    (
        "multipath -v3",
        (
            "===== paths list =====\n"
            "uuid  hcil    dev dev_t pri dm_st  chk_st vend/prod/rev dev_st\n"
            "3600a 1:0:0:0 sdb 8:16  50  active faulty NETAPP,LUN    running\n"
        ),
    ),
    (
        "check_raid",
        "CRITICAL - md0: [U_]\n",
    ),
    (
        "mount",
        "nas:/x on /x type nfs4 (rw,relatime,vers=4.2)\n",
    ),
    (
        "nvme",
        ("Firmware Log for device:nvme0n1\nafi  : 0x1\nfrs1 : 0x5132353741444545 (EDA5702Q)\n"),
    ),
    (
        "nvme ocp",
        (
            "SMART Cloud Health Log :-\n"
            "  Physical media units written -                0 115260\n"
            "  Bad user nand blocks - Raw                    0\n"
        ),
    ),
    (
        "nvme",
        (
            "Device Self Test Log for NVME device:nvme0n1\n"
            "Current operation  : 0\n"
            "Current Completion : 0%\n"
        ),
    ),
    (
        "omreport",
        ("Health\nSEVERITY : COMPONENT\nOk       : Fans\n"),
    ),
    (
        "omreport",
        ("Fan Probes Information\nFan Redundancy\n--------------\n"),
    ),
    (
        "omreport",
        (
            "Memory Information\n"
            "Attributes of Memory Array(s)\n"
            "Status            : Critical\n"
            "Connector Name    : DIMM_A1\n"
        ),
    ),
    (
        "omreport",
        (
            "# omreport chassis pwrsupplies\n"
            "Power Supplies Information\n"
            "---------------------------\n"
        ),
    ),
    (
        "omreport",
        (
            "# omreport chassis temps\n"
            "Temperature Probes Information\n"
            "------------------------------------\n"
        ),
    ),
    (
        "pcs",
        ("Cluster name: c1\nCluster Summary:\n  * Stack: corosync\n"),
    ),
    (
        "/proc/mounts",
        ("/dev/sda1 / ext4 ro,relatime,errors=remount-ro 0 0\nproc /proc proc rw,nosuid 0 0\n"),
    ),
    (
        "/proc/PID/stack",
        ("[<0>] io_schedule+0x46/0x80\n[<0>] blkdev_issue_flush+0x85/0xc0\n"),
    ),
    (
        "a metrics page",
        (
            "# HELP node_md_disks Number of active/failed/spare disks of device.\n"
            "# TYPE node_md_disks gauge\n"
            'node_md_disks{device="md0",state="failed"} 1\n'
        ),
    ),
    (
        "ps",
        (
            "USER         PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND\n"
            "root        1234  0.0  0.0      0     0 ?        D    Nov28   0:12 [jbd2/dm-2-\n"
        ),
    ),
    (
        "ps",
        (
            "    PID STAT WCHAN                          COMMAND\n"
            "   1234 D    io_schedule                    cp\n"
        ),
    ),
    (
        "pvscan",
        (
            "  PV /dev/sda3   VG vg0             lvm2 [931.01 GiB / 0    free]\n"
            "  Total: 1 [931.01 GiB] / in use: 1 [931.01 GiB] / in no VG: 0 [0   ]\n"
        ),
    ),
    (
        "racadm",
        ("Record:      1\nDate/Time:   11/29/2026 01:02:03\nSource:      system\n"),
    ),
    (
        "racadm",
        (
            "Sensor Type : POWER\n"
            "<Sensor Name>                   <Status>        <Type>\n"
            "PS1 Status                      Present         AC\n"
        ),
    ),
    (
        "Redfish",
        '{"@odata.id": "/redfish/v1/Systems/1/Storage/1"}\n',
    ),
    (
        "sar",
        (
            "Linux 6.1.0 (h) \t11/29/2026 \t_x86_64_\t(8 CPU)\n"
            "12:00:01 AM     CPU     %user     %nice   %system   %iowait    %steal     %idl\n"
            "12:10:01 AM     all      0.50      0.00      0.50     90.00      0.00      9.0\n"
        ),
    ),
    (
        "sar",
        (
            "12:00:01 AM kbmemfree   kbavail kbmemused  %memused kbbuffers  kbcached  kbcom\n"
            "12:10:01 AM    512388  29011200  28911208     88.00    210044  28911208  12345\n"
        ),
    ),
    (
        "sas2flash",
        (
            "LSI Corporation SAS2 Flash Utility\n"
            "Version 20.00.00.00 (2014.09.18)\n"
            "\tAdapter Selected is a LSI SAS: SAS2008(B2)\n"
        ),
    ),
    (
        "sas2flash",
        (
            "Avago Technologies SAS3 Flash Utility\n"
            "Num   Ctlr            FW Ver        NVDATA        x86-BIOS         PCI Addr\n"
            "0  SAS3008(C0)  16.00.12.00    0e.01.00.07      No Image      00:03:00:00\n"
        ),
    ),
    (
        "sdparm",
        (
            "    /dev/sda: SEAGATE   ST8000NM0075      E004\n"
            "Read write error recovery mode page:\n"
            "  AWRE          1  [cha: n, def:  1, sav:  1]\n"
        ),
    ),
    (
        "sfdisk",
        ("label: gpt\nlabel-id: 1B2C\ndevice: /dev/sda\n"),
    ),
    (
        "gdisk",
        "Disk /dev/sda: 7814037168 sectors, 3.6 TiB\n",
    ),
    (
        "sg_inq",
        (
            "standard INQUIRY:\n"
            "  PQual=0  PDT=0  RMB=0  LU_CONG=0  hot_pluggable=0  version=0x06  [SPC-4]\n"
            " Vendor identification: SEAGATE\n"
        ),
    ),
    (
        "sg3_utils",
        "READ CAPACITY (16) failed: Medium Error\n",
    ),
    (
        "sg3_utils",
        "test unit ready: device not ready: logical unit not ready, cause not reportable\n",
    ),
    (
        "sg_inq",
        ("Supported VPD pages VPD page:\n  Supported VPD pages [sv]\n"),
    ),
    (
        "exportfs",
        ("Export list for nas:\n/x *\n"),
    ),
    (
        "smartctl -t",
        (
            "=== START OF OFFLINE IMMEDIATE AND SELF-TEST SECTION ===\n"
            'Sending command: "Execute SMART Extended self-test routine immediately in off-\n'
            'Drive command "Execute SMART Extended self-test routine immediately in off-lin\n'
        ),
    ),
    (
        "smbstatus",
        "Samba version 4.17.12\n",
    ),
    (
        "smp_discover",
        "phy   0:T:attached:[500605b0:00  i(SSP+STP+SMP)]  12 Gbps\n",
    ),
    (
        "snmpwalk",
        "SNMPv2-SMI::enterprises.232.3.2.5.1.1.6.0.1 = INTEGER: 3\n",
    ),
    (
        "stratis",
        (
            "Name    Total / Used / Free   Properties   UUID   Alerts\n"
            "pool1   1 TiB / 1 TiB / 0 B      ~Ca,~Cr,~Op   1b2c   WS001\n"
        ),
    ),
    (
        "swapon",
        ("NAME      TYPE      SIZE USED PRIO\n/dev/sda2 partition   8G   0B   -2\n"),
    ),
    (
        "/sys/block/*/device",
        ("# cat /sys/block/sdb/device/state\noffline\n"),
    ),
    (
        "/sys/block/*/device",
        (
            "/sys/block/sda/device/state:running\n"
            "/sys/block/sdb/device/state:offline\n"
            "/sys/block/sdb/device/timeout:30\n"
        ),
    ),
    (
        "/sys/class/enclosure",
        (
            "# cd /sys/class/enclosure/0:0:24:0; grep . Slot\\ 0[5-9]/{status,fault}\n"
            "Slot 05/status:OK\n"
            "Slot 06/status:OK\n"
        ),
    ),
    (
        "/sys/class/enclosure",
        (
            "/sys/class/enclosure/0:0:24:0/Slot 05/status:OK\n"
            "/sys/class/enclosure/0:0:24:0/Slot 07/status:critical\n"
            "/sys/class/enclosure/0:0:24:0/Slot 07/fault:1\n"
        ),
    ),
    (
        "/sys/block/*/md/mismatch_cnt",
        (
            "# grep . /sys/block/md{1,3}/md/{level,mismatch_cnt,sync_action,degraded,last_s\n"
            "/sys/block/md1/md/level:raid1\n"
            "/sys/block/md3/md/level:raid6\n"
            "/sys/block/md1/md/mismatch_cnt:256\n"
        ),
    ),
    (
        "/sys/block/*/md",
        (
            "/sys/block/md0/md/array_state:clean\n"
            "/sys/block/md0/md/degraded:1\n"
            "/sys/block/md0/md/level:raid1\n"
        ),
    ),
    (
        "/sys/block/*/md/mismatch_cnt",
        ("# cat /sys/block/md0/md/mismatch_cnt\n128\n"),
    ),
    (
        "/sys/block/*/md",
        ("$ cat /sys/block/md0/md/degraded\n1\n$ cat /sys/block/md0/md/array_state\n"),
    ),
    (
        "/sys/block",
        (
            "# cat /sys/block/sdb/stat\n"
            "   12345      678   90123    4567    12345   678   90123   4567   0   4567   9\n"
        ),
    ),
    (
        "systemctl",
        (
            "● smartd.service - Self Monitoring and Reporting Technology (SMART) Daemon\n"
            "     Loaded: loaded (/lib/systemd/system/smartmontools.service; enabled; prese\n"
            "     Active: active (running) since Sat 2026-11-28 09:00:00 CET; 1 day ago\n"
        ),
    ),
    (
        "systemctl",
        (
            "  UNIT               LOAD   ACTIVE SUB    DESCRIPTION\n"
            "● mdmonitor.service  loaded failed failed MD array monitor\n"
        ),
    ),
    (
        "systool",
        ('Class = "fc_host"\n  Class Device = "host1"\n    port_state          = "Linkdown"\n'),
    ),
    (
        "udevadm info",
        ("P: /devices/pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block/sda\nN: sda\n"),
    ),
    (
        "uptime",
        " 12:01:02 up 10 days,  1:02,  1 user,  load average: 90.10, 80.20, 70.30\n",
    ),
    (
        "vdostats",
        (
            "Device               1K-blocks    Used Available Use% Space saving%\n"
            "/dev/mapper/vdo0     1048576   1048000      576  99%           10%\n"
        ),
    ),
    (
        "vgck",
        "  VG vg1 is missing PV 9hC3xQ.\n",
    ),
    (
        "vmstat -d",
        (
            "disk- ------------reads------------ ------------writes----------- -----IO-----\n"
            "       total merged sectors      ms  total merged sectors      ms    cur    se\n"
            "sda    12345    678   90123    4567  12345    678   90123    4567      0      \n"
        ),
    ),
    (
        "vxprint",
        (
            "Disk group: rootdg\n"
            "TY NAME         ASSOC        KSTATE   LENGTH   PLOFFS   STATE    TUTIL0  PUTIL\n"
        ),
    ),
    (
        "wipefs",
        (
            "DEVICE OFFSET        TYPE              UUID LABEL\n"
            "sda    0x1000        linux_raid_member 1b2c h:0\n"
        ),
    ),
    (
        "xfs_info",
        (
            "meta-data=/dev/sda1              isize=512    agcount=4, agsize=61047597 blks\n"
            "         =                       sectsz=4096  attr=2, projid32bit=1\n"
        ),
    ),
)
NEXT_STEP = (
    r"smartctl -x|/proc/mdstat|/proc/meminfo|journalctl -k|multipath -ll|lvs -a|zpool status"
    r"|nvme smart-log|ipmitool s|ras-mc-ctl|iowarden top|perccli|storcli|dumpe2fs -h"
)


def refusal(text: str) -> str:
    """Return why a text is not judged, of a program that is known by its command as well."""
    try:
        told = read(text)
    except ParseError as error:
        return str(error)
    (unread,) = told.unparsed
    assert (told.status, told.objects, told.alerts) == (2, (), ())
    return unread.reason


@pytest.mark.parametrize(("program", "text"), TEXTS, ids=[name for name, _ in TEXTS])
@pytest.mark.parametrize("form", ["as it is", "indented", "below a prompt"])
def test_a_text_without_a_verdict_is_refused_with_what_to_paste_instead(
    program: str, text: str, form: str
) -> None:
    """By name, whatever stands before it; never 'nothing wrong', and never only 'not certain'."""
    if form == "indented":
        text = "".join(f"    {line}\n" for line in text.splitlines())
    elif form == "below a prompt":
        text = f"root@pve1:~# {program} | less\n{text}"
    reason = refusal(text)
    assert reason.startswith(f"'{program}'")
    assert re.search(NEXT_STEP, reason)


def test_a_text_of_nothing_that_is_known_is_refused_with_what_to_paste() -> None:
    """Its program is asked for, and what shows the state of disks is named."""
    with pytest.raises(ParseError, match=r"not certain.*smartctl -x.*mdstat.*journalctl -k"):
        read("Lorem ipsum dolor sit amet\n")


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("Adapter 0: Event log written\n\nExit Code: 0x00\n", "MegaCli -LdPdInfo -aALL"),
        (
            "root@a:~# nvme list\nNode  Generic  SN  Model\n/dev/nvme0n1 /dev/ng0n1 S4 X\n",
            "smartctl -x",
        ),
        ("root@a:~# mdadm --detail --scan\nARRAY /dev/md0 metadata=1.2\n", "cat /proc/mdstat"),
    ],
)
def test_an_output_without_states_of_a_tool_that_is_read_names_the_one_with(
    text: str, command: str
) -> None:
    """Each tool has a command that shows the states of arrays and disks."""
    assert command in refusal(text)
