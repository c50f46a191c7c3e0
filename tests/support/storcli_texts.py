"""What storcli prints of a MegaRAID controller where it is not asked for JSON, and of its log."""

from __future__ import annotations

TEXT = """\
Generating detailed summary of the adapter, it may take a while to complete.

CLI Version = 007.0606.0000.0000 Mar 20, 2018
Operating system = Linux 4.18.0
Controller = 0
Status = Success
Description = None


Basics :
======
Controller = 0
Model = ACME 9000
Serial Number = SV1
Current Controller Date/Time = 06/01/2026, 08:00:10
PCI Address = 00:3b:00:00


Version :
=======
Firmware Package Build = 24.21.0-0076
Driver Name = megaraid_sas


Status :
======
Controller Status = Optimal
Memory Uncorrectable Errors = 0


HwCfg :
=====
BBU = Present
On Board Memory Size = 2048MB
ROC temperature(Degree Celcius) = 52

Drive Groups = 1

TOPOLOGY :
========

---------------------------------------------------------------------
DG Arr Row EID:Slot DID Type  State BT     Size PDC  PI SED DS3  FSpace
---------------------------------------------------------------------
 0 -   -   -        -   RAID6 Dgrd  N  7.274 TB dflt N  N   dflt N
 0 0   -   -        -   RAID6 Dgrd  N  7.274 TB dflt N  N   dflt N
 0 0   0   252:0    8   DRIVE Onln  N  3.637 TB dflt N  N   dflt -
 0 0   1   :1       9   DRIVE Rbld  Y  3.637 TB dflt N  N   dflt -
 0 0   2   -        -   DRIVE Msng  -  3.637 TB dflt N  N   dflt -
---------------------------------------------------------------------

DG=what it is|Arr=and so on|Dgrd=a word

Virtual Drives = 1

VD LIST :
=======

--------------------------------------------------------------
DG/VD TYPE  State Access Consist Cache Cac sCC     Size Name
--------------------------------------------------------------
0/1   RAID6 Dgrd  RW     Yes     NRWTD -   ON  7.274 TB
--------------------------------------------------------------

Physical Drives = 2

PD LIST :
=======

-------------------------------------------------------------------------
EID:Slt DID State DG     Size Intf Med SED PI SeSz Model           Sp Type
-------------------------------------------------------------------------
252:0     8 Onln   0 3.637 TB SAS  HDD N   N  4 KB ACME 4000 LX     U  -
 :1       9 Rbld   0 3.637 TB SAS  HDD N   N  512B ACME 4000        U  -
-------------------------------------------------------------------------

EID-what it is|Slt-and so on


BBU_Info :
========

----------------------------------------------------------------------
Model   State   RetentionTime Temp Mode MfgDate    Next Learn
----------------------------------------------------------------------
iBBU-09 Optimal 48 hours +    37C  5    2012/12/20 2026/06/10  21:01:26
----------------------------------------------------------------------

Safe ID = ABC
"""

RECORDS = """\


seqNum: 0x0000cf1d
Time: Mon Jun  1 18:03:11 2026

Code: 0x000000fb
Class: 2
Locale: 0x01
Event Description: VD 00/0 is now DEGRADED
Event Data:
===========
Target Id: 0


seqNum: 0x0000cf1b
Time: Mon Jun  1 18:03:10 2026

Code: 0x00000072
Class: 0
Locale: 0x02
Event Description: State change on PD 0b(e0xfc/s5) from ONLINE(18) to FAILED(11)
Event Data:
===========
Device ID: 11
Enclosure Index: 252
Slot Number: 5
Previous state: 24
New state: 17


seqNum: 0x0000cf1a
Seconds since last reboot: 46

Code: 0x00000000
Class: 0
Locale: 0x20
Event Description: Firmware initialization started (PCI ID 005d/1000/9361/1000)
Event Data:
===========
None


CLI Version = 007.1623.0000.0000 May 17, 2021
Operating system = Linux 5.10
Controller = 0
Status = Success
Description = None
"""
