"""The Debian package in a booted guest: installed by apt and nothing else, upgraded in an incident.

The distribution's packages are in the guest already, which spares time; with PACKAGE=all
apt installs them as well, from a repository in the guest: there is no network. The tests follow
each other, as an administrator's commands do.
"""

from __future__ import annotations

import contextlib
import email
import email.policy
import json
import mailbox
import os
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from vm.harness import MEBIBYTE, REPOSITORY, Content, Disk, wait_for
from vm.watched import RUNNING, Mailbox, Watched, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from email.message import EmailMessage
    from pathlib import Path

    from vm.conftest import Boot
    from vm.harness import VM

pytestmark = pytest.mark.skipif(
    not os.environ.get("PACKAGE"), reason="takes ten minutes: PACKAGE=1 make test-vm"
)

CONTENT = Content.NOTHING if os.environ.get("PACKAGE") == "all" else Content.DEPENDENCIES
SECONDS = 240.0
"""Far above anything measured, for a busy building machine."""
OUTAGE_SECONDS = 120.0
"""The budget is 5 s on a real machine; an emulated one takes ten to twenty times as long."""
NEXT = "+next"
"""What the version of the next package ends with."""

APT = "DEBIAN_FRONTEND=noninteractive apt-get --assume-yes -o APT::Install-Recommends=true"
APT += " -o DPkg::Options::=--no-force-unsafe-io"
"""As on a user's machine: with what a package recommends, and with every fsync of dpkg."""

MEMBERS = ("left", "right")
"""The disks of a mirror."""

FAILED = "Subject: [CRITICAL] guest.example.net: iowarden could not start"

LEFT = "find / /run -xdev -name '*iowarden*'"
"""What is left of iowarden in the file systems of the guest."""

OUTAGE = """\
import os, time, urllib.request
answered, longest = None, 0.0
while os.path.exists("/run/measuring"):
    try:
        with urllib.request.urlopen("http://127.0.0.1:9748/metrics", timeout=5) as answer:
            complete = b"\\niowarden_memory_total_bytes " in answer.read()
    except OSError:
        complete = False
    if complete:
        now = time.monotonic()
        longest = max(longest, now - (answered or now))
        answered = now
    time.sleep(0.1)
print(longest)
"""
"""Prints the longest time between two complete scrapes."""


class RootMailbox(Mailbox):
    """What the guest's own mail server has delivered to root, the oldest first.

    Debian's exim4 stores it as user 'mail', unless /etc/aliases names who reads it.
    Source: the router 'mail4root' of /etc/exim4/exim4.conf.template.
    """

    def __init__(self, vm: VM, directory: Path) -> None:
        """Take what is delivered in `vm`; `directory` is for a copy of it."""
        self._vm = vm
        self._copy = directory / "mbox"

    @property
    def mails(self) -> list[EmailMessage]:
        """All mails of iowarden until now; 'mdadm --monitor' mails root as well."""
        self._copy.write_text(self._vm.run("cat /var/mail/mail 2>/dev/null || :"))
        with contextlib.closing(mailbox.mbox(self._copy)) as mails:
            return [
                email.message_from_bytes(mail.as_bytes(), policy=email.policy.default)
                for mail in mails
                if "X-Iowarden-Incident" in mail
            ]

    def of(self, incident: str) -> list[EmailMessage]:
        """Return the mails of an incident."""
        return [mail for mail in self.mails if mail["X-Iowarden-Incident"] == incident]


@pytest.fixture(scope="module")
def debs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return the package of 'build/deb', and the same files with a newer version."""
    deb = next((REPOSITORY / "build/deb").glob("iowarden_*_all.deb"), None)
    if deb is None:
        pytest.skip("no Debian package in 'build/deb'; to build it: make deb")
    directory = tmp_path_factory.mktemp("deb")
    tree, newer = directory / "tree", directory / "newer.deb"
    subprocess.run(["dpkg-deb", "--raw-extract", deb, tree], check=True)
    for name, version in (
        ("DEBIAN/control", r"(?m)^(Version: .+)$"),
        ("usr/lib/iowarden/iowarden/daemon/installation.py", r'(?m)^(VERSION = "[^"]+)'),
    ):
        file = tree / name
        file.write_text(re.sub(version, rf"\1{NEXT}", file.read_text()))
    command = ["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "--build", tree, newer]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return deb, newer


@pytest.fixture(scope="module")
def package(
    boot: Boot, debs: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Watched]:
    """Boot a guest without iowarden, and install the package by apt and nothing else."""
    disks = [Disk("slow", 1024 * MEBIBYTE), *(Disk(name, 64 * MEBIBYTE) for name in MEMBERS)]
    with boot(disks, content=CONTENT) as vm:
        assert vm.run(LEFT) == ""
        names = zip(debs, ("iowarden.deb", "newer.deb"), strict=True)
        tests = REPOSITORY / "packaging/debian/tests"
        vm.push("/run/package", [*names, (tests, "tests")])
        vm.run("apt-get --quiet update")
        # A mail server is only suggested; this host has one, to which root's mail goes.
        print(_apt(vm, "install /run/package/iowarden.deb exim4"))
        RUNNING.append(Watched(vm, RootMailbox(vm, tmp_path_factory.mktemp("mail"))))
        try:
            yield RUNNING[-1]
        finally:
            RUNNING.clear()


def _apt(vm: VM, arguments: str) -> str:
    """Return what apt prints, its errors included."""
    return vm.run(f"{APT} {arguments} 2>&1", timeout_seconds=1200)


def _json(watched: Watched, arguments: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(watched.vm.run(f"iowarden {arguments} --json"))
    return answer


def _incidents(watched: Watched, options: str = "") -> dict[str, tuple[str, int, int]]:
    """Return severity, begin and number of notifications of each incident."""
    return {
        incident["identifier"]: (
            incident["severity"],
            round(incident["opened_seconds"]),
            incident["notifications"],
        )
        for incident in _json(watched, f"incident list {options}")["incidents"]
    }


def _silences(watched: Watched) -> dict[str, tuple[str, int]]:
    """Return reason and end of each silence, in whole seconds."""
    return {
        silence["identifier"]: (silence["reason"], round(silence["ends_seconds"]))
        for silence in _json(watched, "silence list")["silences"]
    }


def _restart_seconds(watched: Watched) -> float:
    """Return how long the service was not active when it was last restarted.

    Source: org.freedesktop.systemd1(5), 'ActiveExitTimestampMonotonic', in microseconds.
    """
    names = "ActiveExitTimestampMonotonic", "ActiveEnterTimestampMonotonic"
    unit = watched.unit(*names)
    stopped, started = (int(unit[name]) / 1e6 for name in names)
    return started - stopped


def _settle(watched: Watched) -> None:
    """Wait until the service has read everything and mailed what it had to."""
    wait_for(lambda: "none waiting" in watched.vm.run("iowarden status"), "sent mails", SECONDS)


def _incident_about(watched: Watched, *words: str) -> str:
    """Return the incident of a critical mail to root that has these words, once it is there."""

    def found() -> list[str]:
        mails = watched.mail.naming(*words)
        return [m["X-Iowarden-Incident"] for m in mails if "[CRITICAL]" in m["Subject"]]

    wait_for(found, f"a critical mail to root with the words {words}", SECONDS)
    return found()[-1]


@pytest.fixture(scope="module")
def mailing(package: Watched) -> Watched:
    """Set up mail to root by the machine's own server, from a script."""
    setup = package.vm.start("iowarden setup --mail-to root@localhost --no-self-tests --no-check")
    assert "the server took the test mail" in setup.wait(300).stdout
    # On a busy building machine it may have waited for the service in vain; that does not.
    local = "SMTP server localhost:25"
    wait_for(lambda: local in package.vm.run("iowarden status"), "the reload", SECONDS)
    return package


@pytest.fixture(scope="module")
def degraded(mailing: Watched) -> str:
    """Let a mirror lose a member; return the incident when its mail has arrived."""
    vm = mailing.vm
    # The all-clear sooner than by default.
    vm.run("cat >> /etc/iowarden/iowarden.yaml", b"resolve_after: 10s\nintervals: {md: 6s}\n")
    vm.run("systemctl reload iowarden")
    left, right = (f"/dev/{vm.device(name)}" for name in MEMBERS)
    vm.run(
        "mdadm --create /dev/md0 --quiet --run --assume-clean --bitmap=none --metadata=1.2"
        f" --level=1 --raid-devices=2 {left} {right}"
    )
    degraded = "iowarden_md_degraded"
    wait_for(lambda: mailing.metric(degraded, device="md0") == 0, "a healthy array", SECONDS)
    vm.run(f"mdadm --quiet /dev/md0 --fail {left}")
    return _incident_about(mailing, "critical MdDegraded", "md0")


@pytest.fixture(scope="module")
def hung(mailing: Watched, degraded: str) -> str:
    """Hang a disk while a program writes to it; return the incident when it is critical."""
    vm = mailing.vm
    device = vm.device("slow")
    vm.run(f"mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0 /dev/{device}")
    vm.run(f"mkdir /mnt/slow && mount /dev/{device} /mnt/slow && touch /run/writing")
    vm.start(
        "while [ -e /run/writing ]; do"
        " dd if=/dev/zero of=/mnt/slow/synced bs=64k count=4 conv=fsync; done"
    )
    written = "iowarden_device_written_bytes_total"
    wait_for(
        lambda: (mailing.metric(written, device=device) or 0) > 16 * MEBIBYTE,
        "iowarden to see the disk written to",
        SECONDS,
    )
    # Otherwise the kernel aborts requests after 30 s: an alert of its own for the next 10 min.
    vm.run(f"echo 3600 > /sys/block/{device}/device/timeout")
    vm.throttle("slow", total=1)
    return _incident_about(mailing, "critical DeviceHang", device)


def test_apt_installs_what_it_needs_and_the_service_runs(package: Watched) -> None:
    """The service was started by the package's script and is started at boot; it monitors."""
    unit = package.unit("ActiveState", "UnitFileState", "NRestarts")
    assert unit == {"ActiveState": "active", "UnitFileState": "enabled", "NRestarts": "0"}
    assert (package.metric("iowarden_memory_total_bytes") or 0) > 512 * MEBIBYTE
    assert package.vm.run("iowarden status").splitlines()[1] == "ok: no alert fires"


def test_the_package_tells_check_where_it_is_and_that_nobody_is_mailed(package: Watched) -> None:
    """Without a configuration the mails go to a Maildir; that is a warning, and names 'setup'."""
    version = package.vm.run("dpkg-query -W -f '${Version}' iowarden")
    assert package.vm.run("iowarden version") == f"iowarden {version}\n"
    check = package.vm.start("iowarden check").wait(120)
    words = " ".join(check.stdout.split())
    assert (check.status, check.stderr) == (1, "")
    assert "WARNING mail: no mail server configured" in words
    assert f"version: {version}, Debian package in '/usr/lib/iowarden'" in words


def test_only_root_and_the_service_have_its_files(package: Watched) -> None:
    """Whoever may query or act is in a group that owns neither configuration nor state."""
    owners = """\
750 root:iowarden /etc/iowarden
750 root:iowarden /etc/iowarden/rules.d
750 iowarden:iowarden /var/lib/iowarden
666 root:root /run/iowarden/control.sock
600 iowarden:root /run/iowarden-probe.socket
660 iowarden:iowarden-operator /run/iowarden-trace.socket
"""
    paths = " ".join(line.split()[-1] for line in owners.splitlines())
    assert package.vm.run(f"stat -c '%a %U:%G %n' {paths}") == owners
    assert package.vm.run("id -nG iowarden") == "iowarden\n"
    package.vm.run("getent group iowarden-viewer iowarden-operator")


def test_systemd_accepts_the_units_of_the_package(package: Watched) -> None:
    """Also in the oldest supported release of systemd: no key is unknown, no program missing."""
    verify = "systemd-analyze verify --man=no /usr/lib/systemd/system/iowarden* 2>&1"
    assert [line for line in package.vm.run(verify).splitlines() if "iowarden" in line] == []


@pytest.mark.parametrize("name", ["smoke", "alert"])
def test_the_tests_in_the_package_pass(package: Watched, name: str) -> None:
    """As autopkgtest runs them: by root, after 'apt install' and nothing else."""
    package.vm.run(f"sh -x /run/package/tests/{name} 2>&1", timeout_seconds=300)


def test_setup_finds_the_local_mail_server_and_a_mail_reaches_root(mailing: Watched) -> None:
    """Exim4, which apt installed as recommended, in its own configuration; the service reloads."""
    wait_for(lambda: mailing.mail.naming("this is a test"), "the test mail", SECONDS)
    configuration = "/etc/iowarden/iowarden.yaml"
    assert mailing.vm.run(f"stat -c '%a %U:%G' {configuration}") == "640 root:iowarden\n"


def test_a_degraded_array_is_mailed_to_root(mailing: Watched, degraded: str) -> None:
    """The mail names the array, in its subject as well, and the command that repairs it."""
    assert isinstance(mailing.mail, RootMailbox)
    mail = mailing.mail.of(degraded)[0]
    assert mail["To"] == "root@localhost"
    assert "md0" in mail["Subject"]
    assert "mdadm" in text_of(mail)


def test_journalctl_explains_each_entry(mailing: Watched, degraded: str) -> None:
    """By the message catalog, which a trigger of the package has compiled."""
    shown = mailing.vm.run("journalctl --quiet --catalog SYSLOG_IDENTIFIER=iowarden")
    entries = re.findall(r"(?m)^\w.* iowarden\[\d+\]: ", shown)
    assert len(entries) == shown.count("Defined-By: iowarden") > 0
    assert "MdDegraded md0 firing" in shown
    assert degraded in mailing.vm.run("iowarden incident list")


@pytest.mark.parametrize(
    ("deb", "suffix"),
    [("newer.deb", NEXT), ("iowarden.deb", "")],
    ids=["upgrade", "downgrade"],
)
def test_an_upgrade_while_a_disk_hangs_neither_repeats_nor_resolves(
    mailing: Watched,
    hung: str,
    deb: str,
    suffix: str,
    record_property: Callable[[str, object], None],
) -> None:
    """Open incidents and silences are the same before and after, whatever still hangs."""
    vm = mailing.vm
    if suffix:
        vm.run("iowarden silence add --for 2h --reason test device=elsewhere || [ $? -eq 3 ]")
        vm.run("cat > /run/outage.py", OUTAGE.encode())
    _settle(mailing)
    incidents, silences = _incidents(mailing), _silences(mailing)
    assert incidents[hung][0] == "critical"
    assert len(silences) == 1
    mails = [mail["Message-ID"] for mail in mailing.mail.mails]

    vm.run("touch /run/measuring")
    outage = vm.start("python3 /run/outage.py")
    try:
        _apt(vm, f"install --allow-downgrades /run/package/{deb}")
    finally:
        vm.run("rm /run/measuring")
    seconds = float(outage.wait(SECONDS).stdout)
    restart = _restart_seconds(mailing)
    record_property(
        "measured",
        f"{restart:.1f} s from the stop of the old service to READY=1 of the new one,"
        f" {seconds:.1f} s between two complete scrapes, by the clock of the emulated machine",
    )

    version = vm.run("dpkg-query -W -f '${Version}' iowarden")
    assert version.endswith(NEXT) == bool(suffix)
    assert vm.run("iowarden version") == f"iowarden {version}\n"
    wait_for(
        lambda: mailing.metric("iowarden_device_hang_seconds", device=vm.device("slow")) or 0,
        "iowarden to see the disk hang",
        SECONDS,
    )
    _settle(mailing)
    assert mailing.unit("ActiveState", "NRestarts") == {"ActiveState": "active", "NRestarts": "0"}
    assert _incidents(mailing) == incidents
    assert _silences(mailing) == silences
    assert [mail["Message-ID"] for mail in mailing.mail.mails] == mails
    assert 0 < seconds < OUTAGE_SECONDS


def test_after_healing_each_incident_is_resolved_once(
    mailing: Watched, degraded: str, hung: str
) -> None:
    """One thread of mails each, whose last and only all-clear comes after the repair."""
    vm = mailing.vm
    vm.throttle("slow")
    vm.run("rm /run/writing")
    left = f"/dev/{vm.device(MEMBERS[0])}"
    vm.run(f"mdadm --quiet /dev/md0 --remove {left}; mdadm --quiet --zero-superblock {left}")
    vm.run(f"mdadm --quiet /dev/md0 --add {left}")
    assert isinstance(mailing.mail, RootMailbox)
    for incident in (degraded, hung):
        wait_for(lambda of=incident: _cleared(mailing, of), "the all-clear", 2 * SECONDS)
    _settle(mailing)
    for incident in (degraded, hung):
        mails = mailing.mail.of(incident)
        assert [mail["Subject"].startswith("[OK]") for mail in mails[-2:]] == [False, True]
        assert _cleared(mailing, incident) == 1
        assert {mail["In-Reply-To"] for mail in mails[1:]} == {mails[0]["Message-ID"]}


def test_remove_stops_the_service_and_keeps_configuration_and_state(mailing: Watched) -> None:
    """An administrator who removes it to install it again loses nothing."""
    vm = mailing.vm
    _apt(vm, "remove iowarden")
    assert vm.run("systemctl list-units --plain --no-legend 'iowarden*'") == ""
    assert vm.run("systemctl list-unit-files --no-legend 'iowarden*' || :") == ""
    vm.run("[ ! -e /usr/lib/iowarden ] && [ ! -L /usr/bin/iowarden ]")
    vm.run("ls /etc/iowarden/iowarden.yaml /var/lib/iowarden/state.db")


def test_a_service_that_cannot_start_leaves_the_package_installed(
    mailing: Watched, hung: str
) -> None:
    """A line names the journal, which names the file; once that is mended, the state is read."""
    vm = mailing.vm
    vm.run("cd /etc/iowarden && cp -a iowarden.yaml /run/good && echo 'mail: [' > iowarden.yaml")
    printed = _apt(vm, "install /run/package/iowarden.deb")
    assert "iowarden: the service could not be started; see: journalctl -xeu iowarden" in printed
    assert vm.run("dpkg-query -W -f '${Status}' iowarden") == "install ok installed"
    journal = vm.run("journalctl --quiet --catalog --unit=iowarden --lines=30")
    assert "/etc/iowarden/iowarden.yaml" in journal
    assert mailing.unit("ActiveState", "Result") == {"ActiveState": "failed", "Result": "exit-code"}
    # Its mail settings are invalid as well, so that it is mailed to root by 'sendmail'.
    wait_for(lambda: FAILED in vm.run("cat /var/mail/mail"), "a mail of the failed start", SECONDS)

    vm.run("cp -a /run/good /etc/iowarden/iowarden.yaml && systemctl start iowarden")
    assert hung in _incidents(mailing, "--all")
    assert len(_silences(mailing)) == 1


def test_purge_leaves_nothing_but_the_user(mailing: Watched) -> None:
    """Configuration, state, sockets, links of units, byte code: all gone; no number is reused."""
    vm = mailing.vm
    _apt(vm, "purge iowarden")
    vm.run("rm -r /run/package")
    assert vm.run(LEFT) == ""
    vm.run("getent passwd iowarden")
    assert vm.run("systemctl --failed --no-legend --plain") == ""


def _cleared(watched: Watched, incident: str) -> int:
    """Return how many all-clears of an incident were mailed."""
    assert isinstance(watched.mail, RootMailbox)
    return sum(mail["Subject"].startswith("[OK]") for mail in watched.mail.of(incident))
