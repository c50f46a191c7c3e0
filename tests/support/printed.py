"""What tools and the kernel print where nothing is wrong, written from their grammar.

By kind, as `iowarden explain --as` has it, and by what the text is about. Work that goes on by
itself on what is whole (a check, a resync, a learn cycle) is among it. Sources: kernel,
drivers/md/md.c, md_seq_show; mdadm 4.3, Detail.c; smartmontools 7.3, ataprint.cpp, scsiprint.cpp,
nvmeprint.cpp; for the tools of makers the parsers in collectors/ name theirs.
"""

from __future__ import annotations

_RULE = "-" * 78
_CACHE = "WriteBack, ReadAheadNone, Direct, No Write Cache if Bad BBU"

# --- md

_MDSTAT_END = "unused devices: <none>\n"
_RAID1 = (
    "md0 : active raid1 sdb1[1] sda1[0]\n      1047552 blocks super 1.2 [2/2] [UU]\n"
    "      bitmap: 0/1 pages [0KB], 65536KB chunk\n\n"
)
_RAID5 = (
    "md1 : active raid5 sdc2[3] sdb2[1] sda2[0]\n"
    "      2095104 blocks super 1.2 level 5, 512k chunk, algorithm 2 [3/3] [UUU]\n"
)
MDSTAT = {
    "two arrays": f"Personalities : [raid1] [raid6] [raid5] [raid4]\n{_RAID1}{_RAID5}\n"
    f"{_MDSTAT_END}",
    "check": f"Personalities : [raid5]\n{_RAID5}"
    "      [==>..................]  check = 12.6% (132096/1047552) finish=0.1min"
    f" speed=132096K/sec\n\n{_MDSTAT_END}",
    "resync": "Personalities : [raid1]\nmd0 : active raid1 sdb1[1] sda1[0]\n"
    "      1047552 blocks super 1.2 [2/2] [UU]\n        resync=DELAYED\n\n" + _MDSTAT_END,
    "spare": "Personalities : [raid1]\nmd0 : active raid1 sdc1[2](S) sdb1[1] sda1[0]\n"
    f"      1047552 blocks super 1.2 [2/2] [UU]\n\n{_MDSTAT_END}",
    "stripes": "Personalities : [raid0]\nmd2 : active raid0 sdb3[1] sda3[0]\n"
    f"      2095104 blocks super 1.2 512k chunks\n\n{_MDSTAT_END}",
    "prompt": f"root@nas:~# cat /proc/mdstat\nPersonalities : [raid1]\n{_RAID1}{_MDSTAT_END}"
    "root@nas:~#\n",
    "journal, written mostly elsewhere": "Personalities : [raid6] [raid5] [raid4] [raid1]\n"
    "md9 : active raid5 nvme1n1p1[4](J) sdd[3] sdc[1] sdb[0]\n      7813774336 blocks super 1.2"
    " level 5, 512k chunk, algorithm 2 [3/3] [UUU]\n\nmd0 : active raid1 nvme0n1p2[0] sda2[2](W)\n"
    f"      487105536 blocks super 1.2 [2/2] [UU]\n\n{_MDSTAT_END}",
    "reshape": "Personalities : [raid6]\nmd5 : active raid6 sdd[3] sdc[2] sdb[1] sda[0]\n"
    "      7813772288 blocks super 1.2 level 6, 512k chunk, algorithm 2 [4/4] [UUUU]\n"
    "      [=>...................]  reshape =  8.8% (344276480/3906886144) finish=1512.4min"
    f" speed=39255K/sec\n\n{_MDSTAT_END}",
    "never written": "Personalities : [raid10]\n"
    "md127 : active (auto-read-only) raid10 sdd2[3] sdc2[2] sdb2[1] sda2[0]\n"
    "      1953258496 blocks super 1.2 512K chunks 2 near-copies [4/4] [UUUU]\n"
    f"      \tresync=PENDING\n\n{_MDSTAT_END}",
    "container": "Personalities : [raid1]\nmd126 : active raid1 sda[1] sdb[0]\n"
    "      1047552 blocks super external:/md127/0 [2/2] [UU]\n\n"
    "md127 : inactive sdb[1](S) sda[0](S)\n      5288 blocks super external:imsm\n\n" + _MDSTAT_END,
}
_DETAIL = """\
/dev/md5:
           Version : 1.2
     Creation Time : Mon Jun  1 10:00:00 2026
        Raid Level : raid5
        Array Size : 2095104 (2046.00 MiB 2145.39 MB)
      Raid Devices : 3
     Total Devices : 3
       Persistence : Superblock is persistent

             State : {state}
    Active Devices : 3
   Working Devices : 3
    Failed Devices : 0
     Spare Devices : 0
{more}
              UUID : 01234567:89abcdef:01234567:89abcdef
            Events : 18

    Number   Major   Minor   RaidDevice State
       0       8        1        0      active sync   /dev/sda1
       1       8       17        1      active sync   /dev/sdb1
       3       8       33        2      active sync   /dev/sdc1
"""
_CONTAINER = """\
/dev/md/imsm0:
           Version : imsm
        Raid Level : container
     Total Devices : 2

   Working Devices : 2


              UUID : 01234567:89abcdef:01234567:89abcdef
     Member Arrays : /dev/md/Volume0

    Number   Major   Minor   RaidDevice

       -       8        0        -        /dev/sda
       -       8       16        -        /dev/sdb
"""
_SPARE = "\n       4       8       49        -      spare   /dev/sdd1\n"
MDADM = {
    "container": _CONTAINER,
    "written mostly elsewhere": _DETAIL.format(state="clean", more="").replace(
        "sync   /dev/sdb1", "sync writemostly   /dev/sdb1"
    ),
    "clean": _DETAIL.format(state="clean", more=""),
    "check": _DETAIL.format(state="active, checking", more="\n      Check Status : 7% complete\n"),
    "resync": _DETAIL.format(state="clean, resyncing (PENDING)", more=""),
    "spare": _DETAIL.format(state="clean", more="").replace(
        "Total Devices : 3", "Total Devices : 4"
    ).replace("Working Devices : 3", "Working Devices : 4").replace(
        "Spare Devices : 0", "Spare Devices : 1"
    ) + _SPARE,
}  # fmt: skip

# --- controllers

_STORCLI_HEAD = """\
CLI Version = 007.0606.0000.0000 Mar 20, 2018
Operating system = Linux 4.18.0
Controller = 0
Status = Success
Description = None

"""
_STORCLI_VD = f"""\
Virtual Drives = 1

VD LIST :
=======

{_RULE}
DG/VD TYPE  State Access Consist Cache Cac sCC     Size Name
{_RULE}
0/0   RAID1 Optl  RW     Yes     RWBD  -   ON  3.637 TB data
{_RULE}

"""
_STORCLI_PD = f"""\
Physical Drives = 2

PD LIST :
=======

{_RULE}
EID:Slt DID State  DG     Size Intf Med SED PI SeSz Model           Sp Type
{_RULE}
252:0     8 Onln    0 3.637 TB SAS  HDD N   N  512B ACME 4000        U  -
252:1     9 Onln    0 3.637 TB SAS  HDD N   N  512B ACME 4000        U  -
{_RULE}

"""
_STORCLI_CV = f"""\
Cachevault_Info :
===============

{_RULE}
Model  State   Temp Mode MfgDate
{_RULE}
CVPM02 Optimal 28C  -    2014/03/10
{_RULE}

"""
_STORCLI_ALL = (
    f"{_STORCLI_HEAD}Basics :\n======\nController = 0\nModel = ACME 9000\nSerial Number = SV1\n\n"
    "Status :\n======\nController Status = Optimal\nMemory Uncorrectable Errors = 0\n\n"
    f"{_STORCLI_VD}{_STORCLI_PD}{_STORCLI_CV}"
)
_STORCLI_DRIVE = f"""\
{_STORCLI_HEAD}
Drive /c0/e252/s0 :
=================

{_RULE}
EID:Slt DID State DG     Size Intf Med SED PI SeSz Model           Sp
{_RULE}
252:0     8 Onln   0 3.637 TB SAS  HDD N   N  512B ACME 4000        U
{_RULE}

Drive /c0/e252/s0 - Detailed Information :
========================================

Drive /c0/e252/s0 State :
=======================
Shield Counter = 0
Media Error Count = 0
Other Error Count = 0
Drive Temperature =  30C (86.00 F)
Predictive Failure Count = 0
S.M.A.R.T alert flagged by drive = No

"""
STORCLI = {
    "show all": _STORCLI_ALL,
    "json": '{"Controllers": [{"Command Status": {"Controller": 0, "Status": "Success",'
    ' "Description": "None"}, "Response Data": {"Basics": {"Controller": 0, "Model": "ACME 9000",'
    ' "Serial Number": "SV1"}, "Status": {"Controller Status": "Optimal"}, "Virtual Drives": 1,'
    ' "VD LIST": [{"DG/VD": "0/0", "TYPE": "RAID1", "State": "Optl", "Access": "RW", "Consist":'
    ' "Yes", "Cache": "RWTD", "Cac": "-", "sCC": "ON", "Size": "3.637 TB", "Name": "data"}],'
    ' "Physical Drives": 1, "PD LIST": [{"EID:Slt": "252:0", "DID": 8, "State": "Onln", "DG": 0,'
    ' "Size": "3.637 TB", "Intf": "SAS", "Med": "HDD", "SED": "N", "PI": "N", "SeSz": "512B",'
    ' "Model": "ACME 4000", "Sp": "U"}], "BBU_Info": [{"Model": "BBU", "State": "Optimal",'
    ' "RetentionTime": "48 hours +", "Temp": "28C", "Mode": "-", "MfgDate": "2014/01/02"}]}}]}\n',
    "learn cycle": _STORCLI_ALL.replace("Optimal 28C", "Learning 28C"),
    "drives": _STORCLI_DRIVE,
}
_MEGACLI_DISK = """\
Enclosure Device ID: 252
Slot Number: {slot}
Device Id: {slot}
Media Error Count: 0
Other Error Count: 0
Predictive Failure Count: 0
PD Type: SAS
Raw Size: 419.186 GB [0x3465f870 Sectors]
Firmware state: Online, Spun Up
Foreign State: None
Drive has flagged a S.M.A.R.T alert : No

"""
_MEGACLI_DISKS = _MEGACLI_DISK.format(slot=0) + _MEGACLI_DISK.format(slot=1)
_MEGACLI_VOLUME = f"""\
Adapter #0

Virtual Drive: 0 (Target Id: 0)
Name                :data
RAID Level          : Primary-1, Secondary-0, RAID Level Qualifier-0
Size                : 418.656 GB
State               : Optimal
Number Of Drives    : 2
Span Depth          : 1
Default Cache Policy: {_CACHE}
Current Cache Policy: {_CACHE}
Bad Blocks Exist: No

"""
_MEGACLI_END = "\n\nExit Code: 0x00\n"
_MEGACLI_BATTERY = """\
BBU status for Adapter: 0

BatteryType: iBBU
Temperature: 34 C
Battery State: {state}
BBU Firmware Status:

  Charging Status              : None
  Learn Cycle Requested        : No
  Learn Cycle Active           : {learns}
  Battery Pack Missing         : No
  Battery Replacement required : No
  Remaining Capacity Low       : No
GasGuageStatus:
  Fully Discharged        : No
isSOHGood: Yes
Relative State of Charge: 97 %
"""
MEGACLI = {
    "volumes and disks": f"{_MEGACLI_VOLUME}{_MEGACLI_DISKS}{_MEGACLI_END}",
    "disks": f"Adapter #0\n\n{_MEGACLI_DISKS}{_MEGACLI_END}",
    "battery": _MEGACLI_BATTERY.format(state="Optimal", learns="No") + _MEGACLI_END,
    "learn cycle": _MEGACLI_BATTERY.format(state="Degraded(Charging)", learns="Yes") + _MEGACLI_END,
    "two adapters": f"Adapter #0\n\n{_MEGACLI_DISKS}Adapter #1\n\n{_MEGACLI_DISKS}{_MEGACLI_END}",
    "two adapters' volumes": "".join(
        _MEGACLI_VOLUME.replace("Adapter #0", f"Adapter {number} -- Virtual Drive Information:")
        for number in (0, 1)
    )
    + _MEGACLI_END,
    "unused, spare and alone": "Adapter #0\n\n"
    + _MEGACLI_DISK.format(slot=0).replace("Online, Spun Up", "Unconfigured(good), Spun down")
    + _MEGACLI_DISK.format(slot=1).replace("Online, Spun Up", "Hotspare, Spun down")
    + _MEGACLI_DISK.format(slot=2).replace("Online, Spun Up", "JBOD")
    + _MEGACLI_END,
    "check": f"{_MEGACLI_VOLUME}"
    "Ongoing Progresses:\n  Check Consistency        : Completed 45%, Taken 12 min.\n\n"
    f"{_MEGACLI_DISKS}{_MEGACLI_END}",
}
_ARCCONF = f"""\
Controllers found: 1
{_RULE}
Controller information
{_RULE}
   Controller Status                        : Optimal
   Controller Model                         : ACME 9905
   Controller Serial Number                 : 7A0011
   Temperature                              : 61 C/ 141 F (Normal)
   Defunct disk drive count                 : 0
   Logical devices/Failed/Degraded          : 1/0/0
   --------------------------------------------------------
   Controller Battery Information
   --------------------------------------------------------
   Status                                   : {{battery}}
   Over temperature                         : No

{_RULE}
Logical device information
{_RULE}
Logical device number 0
   Logical device name                      : mail
   RAID level                               : 1
   Status of logical device                 : {{state}}
   Size                                     : 953344 MB
   Write-cache setting                      : On when protected by battery/ZMM
   Write-cache status                       : On
   Failed stripes                           : No
   --------------------------------------------------------
   Logical device segment information
   --------------------------------------------------------
   Segment 0                                : Present (Controller:1,Enclosure:0,Slot:4) WD-AAAA1
   Segment 1                                : Present (Controller:1,Enclosure:0,Slot:5) WD-AAAA2

{_RULE}
Physical Device information
{_RULE}
      Device #0
         Device is a Hard drive
         State                              : Online
         Reported Channel,Device(T:L)       : 0,8(8:0)
         Reported Location                  : Enclosure 0, Slot 4
         Model                              : WD1000
         Serial number                      : WD-AAAA1
         S.M.A.R.T.                         : No
         S.M.A.R.T. warnings                : 0
      Device #1
         Device is a Hard drive
         State                              : Online
         Reported Channel,Device(T:L)       : 0,9(9:0)
         Reported Location                  : Enclosure 0, Slot 5
         Model                              : WD1000
         Serial number                      : WD-AAAA2
         S.M.A.R.T.                         : No
         S.M.A.R.T. warnings                : 0


Command completed successfully.
"""
ARCCONF = {
    "configuration": _ARCCONF.format(state="Optimal", battery="Optimal"),
    "counts below a heading of their own": _ARCCONF.format(
        state="Optimal", battery="Optimal"
    ).replace(
        "   Logical devices/F",
        f"   {'-' * 56}\n   RAID Properties\n   {'-' * 56}\n   Logical devices/F",
    ),
    "verification": _ARCCONF.format(state="Impacted (Verify : 12 %)", battery="Optimal"),
    "learn cycle": _ARCCONF.format(state="Optimal", battery="Learning"),
}
_SSACLI = """\

Smart Array P999i in Slot 0 (Embedded)
   Bus Interface: PCI
   Slot: 0
   Serial Number: PXYZ1
   Controller Status: OK
   Cache Ratio: 10% Read / 90% Write
   Cache Status: OK
   No-Battery Write Cache: Disabled
   Battery/Capacitor Count: 1
   Battery/Capacitor Status: OK

   Array: A
      Interface Type: SAS
      Status: OK

      Logical Drive: 1
         Size: 558.9 GB
         Fault Tolerance: 1
         Status: OK
         Unrecoverable Media Errors: None
         Caching:  Enabled
         Drive Type: Data

      physicaldrive 1I:1:1
         Port: 1I
         Status: OK
         Drive Type: Data Drive
         Size: 600 GB
         Serial Number: S1

      physicaldrive 1I:1:2
         Port: 1I
         Status: OK
         Drive Type: Data Drive
         Size: 600 GB
         Serial Number: S2

"""
SSACLI = {
    "detail": _SSACLI,
    "list": """\

Smart Array P999i in Slot 0 (Embedded)    (sn: PXYZ1)

   array A (SAS, Unused Space: 0 MB)

      logicaldrive 1 (558.9 GB, RAID 1, OK)

      physicaldrive 1I:1:1 (port 1I:box 1:bay 1, SAS HDD, 600 GB, OK)
      physicaldrive 1I:1:2 (port 1I:box 1:bay 2, SAS HDD, 600 GB, OK)

""",
    "battery is charged": _SSACLI.replace("Capacitor Status: OK", "Capacitor Status: Recharging"),
    "expansion": _SSACLI.replace(
        "Fault Tolerance: 1\n         Status: OK",
        "Fault Tolerance: 1\n         Status: Transforming, 26% complete",
    ),
}
_CCISS_DISK = "         connector 1I box 1 bay {bay} {model:<40} {serial:>40} {firmware:<8} OK\n"
CCISS = {
    "volume": "/dev/cciss/c0d0: (Smart Array P400i) RAID 1 Volume 0 status: OK.\n",
    "disks": "Controller: Smart Array P99\n  Board ID: 0x1234103c\n"
    "/dev/sda: (Smart Array P99) RAID 1 Volume 0 status: OK.\n  Physical drives: 2\n"
    + _CCISS_DISK.format(bay=1, model="HP EG0600", serial="S1", firmware="HPD9")
    + _CCISS_DISK.format(bay=2, model="HP EG0600", serial="S2", firmware="HPD9"),
}
_CLI64_END = f"{'=' * 79}\nGuiErrMsg<0x00>: Success.\n"
_CLI64_HARDWARE = f"""\
The Hardware Monitor Information
{"=" * 79}
[Controller H/W Monitor]
  CPU Temperature             : 40 C
  Battery Status              : {{battery}}
[Enclosure#1 : ARECA   SAS RAID AdapterV1.0]
  Fan 01                      : 2100 RPM
{_CLI64_END}"""
CLI64 = {
    "raid sets": f"""\
 #  Name             Disks TotalCap  FreeCap DiskChannels       State
{"=" * 79}
 1  Raid Set # 00        2 2000.0GB    0.0GB 12                 Normal
{_CLI64_END}""",
    "volumes": f"""\
  # Name             Raid Name       Level   Capacity Ch/Id/Lun  State
{"=" * 79}
  1 my data          Raid Set # 00   Raid1   1000.0GB 00/01/07   Normal
{_CLI64_END}""",
    "disks": f"""\
  # Ch# ModelName                       Capacity  Usage
{"=" * 79}
  1  1  WDC WD10EADS-00L5B1             1000.2GB  Raid Set # 00
  2  2  WDC WD10EADS-00L5B1             1000.2GB  HotSpare
  3  3  N.A.                               0.0GB  N.A.
{_CLI64_END}""",
    "hardware": _CLI64_HARDWARE.format(battery="100%"),
    "check": f"""\
  # Name             Raid Name       Level   Capacity Ch/Id/Lun  State
{"=" * 79}
  1 my data          Raid Set # 00   Raid1   1000.0GB 00/01/07   Checking(12.5%)
{_CLI64_END}""",
}
_TW_CLI = f"""\
/c0 Model = 9650SE-4LPML
/c0 Serial Number = L1
/c0 Number of Drives = 2
/c0 Number of Units = 1
/c0 Not Optimal Units = 0

Unit  UnitType  Status         %RCmpl  %V/I/M  Stripe  Size(GB)  Cache  AVrfy
{_RULE}
u0    RAID-1    OK             -       -       64K     931.303   RiW    ON

Port   Status           Unit   Size        Blocks        Serial
{_RULE}
p0     OK               u0     931.51 GB   1953525168    9QJ1X1YY
p1     OK               u0     931.51 GB   1953525168    9QJ1X2YY

Name  OnlineState  BBUReady  Status    Volt     Temp     Hours  LastCapTest
---------------------------------------------------------------------------
bbu   On           Yes       OK        OK       OK       255    06-Jul-2013

"""
TW_CLI = {
    "show all": _TW_CLI,
    "overview": """\
Ctl   Model        (V)Ports  Drives   Units   NotOpt  RRate   VRate  BBU
------------------------------------------------------------------------
c0    9650SE-8LPML 8         6        2       0       1       1      OK
c1    9500S-4LP    4         4        1       0       4       4      -
""",
    "verification": _TW_CLI.replace(
        "OK             -       -       64K", "VERIFYING      -       12%     64K"
    ),
    "battery test": _TW_CLI.replace("Yes       OK ", "No        TESTING "),
}
_IRCU_DISK = """\
Device is a Hard disk
  Enclosure #                             : 1
  Slot #                                  : {slot}
  State                                   : Optimal (OPT)
  Manufacturer                            : ATA
  Model Number                            : ST1000NM0033-9ZM
  Serial No                               : S{slot}
"""
_IRCU_STATUS = """\
LSI Corporation SAS2 IR Configuration Utility.
Background command progress status for controller 0...
IR Volume 1
  Volume ID                               : 286
  Current operation                       : {operation}
  Volume status                           : Enabled
  Volume state                            : Optimal
  Physical disk I/Os                      : Not quiesced
SAS2IRCU: Command STATUS Completed Successfully.
SAS2IRCU: Utility Completed Successfully.
"""
SAS2IRCU = {
    "display": f"""\
LSI Corporation SAS2 IR Configuration Utility.
Read configuration has been initiated for controller 0
{_RULE}
Controller information
{_RULE}
  Controller type                         : SAS2008
{_RULE}
IR Volume information
{_RULE}
IR volume 1
  Volume ID                               : 286
  Status of volume                        : Okay (OKY)
  RAID level                              : RAID1
  Size (in MB)                            : 1000
  PHY[0] Enclosure#/Slot#                 : 1:0
  PHY[1] Enclosure#/Slot#                 : 1:1
{_RULE}
Physical device information
{_RULE}
Initiator at ID #0

{_IRCU_DISK.format(slot=0)}
{_IRCU_DISK.format(slot=1)}{_RULE}
SAS2IRCU: Command DISPLAY Completed Successfully.
SAS2IRCU: Utility Completed Successfully.
""",
    "status": _IRCU_STATUS.format(operation="None"),
    "check": _IRCU_STATUS.format(operation="Consistency Check"),
}
MPT = {
    "classic": """\
ioc0 vol_id 0 type IM, 2 phy, 136 GB, state OPTIMAL, flags ENABLED
ioc0 phy 0 scsi_id 1 ATA      Hitachi HUA72101 AJ0A, 931 GB, state ONLINE, flags NONE
ioc0 phy 1 scsi_id 8 SEAGATE  ST3146356SS      0009, 136 GB, state ONLINE, flags NONE
""",
    "short": "vol_id:0 OPTIMAL\nphys_id:1 ONLINE\nphys_id:0 ONLINE\n",
}

# --- drives

_ATTRIBUTES = """\

SMART Attributes Data Structure revision number: 16
Vendor Specific SMART Attributes with Thresholds:
ID# ATTRIBUTE_NAME          FLAG     VALUE WORST THRESH TYPE      UPDATED  WHEN_FAILED RAW_VALUE
  5 Reallocated_Sector_Ct   0x0033   100   100   010    Pre-fail  Always       -       0
  9 Power_On_Hours          0x0032   094   094   000    Old_age   Always       -       4803
187 Reported_Uncorrect      0x0032   100   100   000    Old_age   Always       -       0
194 Temperature_Celsius     0x0022   064   052   000    Old_age   Always       -       36 (Min/Max 17/48)
197 Current_Pending_Sector  0x0012   100   100   000    Old_age   Always       -       0
198 Offline_Uncorrectable   0x0010   100   100   000    Old_age   Offline      -       0
199 UDMA_CRC_Error_Count    0x003e   200   200   000    Old_age   Always       -       0

SMART Error Log Version: 1
No Errors Logged

SMART Self-test log structure revision number 1
Num  Test_Description    Status                  Remaining  LifeTime(hours)  LBA_of_first_error
# 1  Extended offline    Completed without error       00%      4700         -

"""  # noqa: E501 - as it is printed
_BANNER = "smartctl 7.3 2022-02-28 r5338 [x86_64-linux-6.1.0-28-amd64] (local build)\n\n"
_ATA = f"""\
{_BANNER}=== START OF INFORMATION SECTION ===
Device Model:     ACME SLOW-HDD
Serial Number:    SLOW1
User Capacity:    1,000,204,886,016 bytes [1.00 TB]
Rotation Rate:    7200 rpm
SMART support is: Available - device has SMART capability.
SMART support is: Enabled

=== START OF READ SMART DATA SECTION ===
SMART overall-health self-assessment test result: PASSED
{_ATTRIBUTES}"""
_FLASH = (
    _ATA.replace("7200 rpm", "Solid State Device")
    .replace("Device Model:", "Model Family:     Samsung based SSDs\nDevice Model:")
    .replace(
        "194 Temp",
        "177 Wear_Leveling_Count     0x0013   095   095   000    Pre-fail  Always       -       98"
        "\n194 Temp",
    )
)
_SCSI = f"""\
{_BANNER}=== START OF INFORMATION SECTION ===
Vendor:               SEAGATE
Product:              ST600MM0006
User Capacity:        600,127,266,816 bytes [600 GB]
Serial number:        S0M1
Device type:          disk
Transport protocol:   SAS (SPL-4)
SMART support is:     Available - device has SMART capability.
SMART support is:     Enabled

=== START OF READ SMART DATA SECTION ===
SMART Health Status: OK

Current Drive Temperature:     30 C
Drive Trip Temperature:        60 C

Manufactured in week 12 of year 2014
Elements in grown defect list: 0

Error counter log:
           Errors Corrected by           Total   Correction     Gigabytes    Total
               ECC          rereads/    errors   algorithm      processed    uncorrected
           fast | delayed   rewrites  corrected  invocations   [10^9 bytes]  errors
read:          0        0         0         0          0      12034.123           0
write:         0        0         0         0          0       2034.123           0

Non-medium error count:        0
"""
_NVME = f"""\
{_BANNER}=== START OF INFORMATION SECTION ===
Model Number:                       ACME NVME
Serial Number:                      N1
Firmware Version:                   1B2
Total NVM Capacity:                 512,110,190,592 [512 GB]

=== START OF SMART DATA SECTION ===
SMART overall-health self-assessment test result: PASSED

SMART/Health Information (NVMe Log 0x02)
Critical Warning:                   0x00
Temperature:                        35 Celsius
Available Spare:                    100%
Available Spare Threshold:          10%
Percentage Used:                    2%
Data Units Read:                    1,234,567 [632 GB]
Power Cycles:                       14
Power On Hours:                     4,803
Unsafe Shutdowns:                   3
Media and Data Integrity Errors:    0
Error Information Log Entries:      57
"""
SMARTCTL = {
    "ata": _ATA,
    "flash": _FLASH,
    "two drives": _ATA + _FLASH.replace("SLOW1", "FLASH1"),
    "scsi": _SCSI,
    "nvme": _NVME,
    "json": '{"smartctl": {"version": [7, 3], "exit_status": 0}, "device": {"name": "/dev/sda",'
    ' "type": "sat", "protocol": "ATA"}, "model_name": "ACME SLOW-HDD", "serial_number": "SLOW1",'
    ' "smart_support": {"available": true, "enabled": true}, "smart_status": {"passed": true},'
    ' "ata_smart_attributes": {"table": [{"id": 5, "name": "Reallocated_Sector_Ct", "value": 100,'
    ' "worst": 100, "thresh": 10, "when_failed": "", "flags": {"prefailure": true}, "raw":'
    ' {"value": 0, "string": "0"}}, {"id": 197, "name": "Current_Pending_Sector", "value": 100,'
    ' "worst": 100, "thresh": 0, "when_failed": "", "flags": {"prefailure": false}, "raw":'
    ' {"value": 0, "string": "0"}}]}}\n',
    "asleep": f"{_BANNER}Device is in STANDBY mode, exit(2)\n",
}

# --- the kernel

KERNEL = {
    "boot": """\
[    0.000000] Linux version 6.1.0-28-amd64 (debian-kernel@lists.debian.org)
[    1.104512] ahci 0000:00:1f.2: AHCI 0001.0301 32 slots 6 ports 6 Gbps 0x3f impl SATA mode
[    1.604512] ata1: SATA link up 6.0 Gbps (SStatus 133 SControl 300)
[    1.605001] ata1.00: ATA-8: ACME SLOW-HDD, 1.01, max UDMA/133
[    1.700112] sd 0:0:0:0: [sda] 1953525168 512-byte logical blocks: (1.00 TB/932 GiB)
[    1.700345] sd 0:0:0:0: [sda] Write Protect is off
[    1.700512] sd 0:0:0:0: [sda] Write cache: enabled, read cache: enabled, doesn't support DPO
[    1.800123] sd 0:0:0:0: [sda] Attached SCSI disk
[    2.100000] EXT4-fs (sda1): mounted filesystem with ordered data mode. Quota mode: none.
""",
    "check": "[ 8000.100000] md: data-check of RAID array md0\n"
    "[ 9000.100000] md: md0: data-check done.\n",
    "path is back": "[ 8000.100000] device-mapper: multipath: 253:0: Reinstating path 8:16.\n",
}

HEALTHY = {
    "mdstat": MDSTAT,
    "mdadm": MDADM,
    "storcli": STORCLI,
    "megacli": MEGACLI,
    "arcconf": ARCCONF,
    "ssacli": SSACLI,
    "cciss_vol_status": CCISS,
    "cli64": CLI64,
    "tw_cli": TW_CLI,
    "sas2ircu": SAS2IRCU,
    "mpt-status": MPT,
    "smartctl": SMARTCTL,
    "kernel": KERNEL,
}
