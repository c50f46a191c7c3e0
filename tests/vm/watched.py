"""A guest that iowarden watches, and the mail server it writes to."""

from __future__ import annotations

import contextlib
import email
import email.policy
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from support.smtp import smtp_server
from vm.harness import HOST_ADDRESS, EndedError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from email.message import EmailMessage

    from support.smtp import Answers
    from vm.harness import VM

FLOOD = """\
with open("/dev/kmsg", "w", buffering=1) as log:
    for number in range(2000):
        print(f"<7>flood {number} " + "." * 500, file=log)
"""
"""More than the kernel's ring holds. Source: kernel/printk, CONFIG_LOG_BUF_SHIFT (17 in Debian)."""

_SHOWN_CHARACTERS = 1200
"""Of each mail: its first section."""

RUNNING: list[Watched] = []
"""The service that is watched now, for `seen`."""


class Mailbox:
    """The mails that a real SMTP server on the host has accepted, the oldest first."""

    def __init__(self, answers: Answers) -> None:
        """Take what `answers` receives."""
        self._received = answers.mails
        self._mails: list[EmailMessage] = []

    @property
    def mails(self) -> list[EmailMessage]:
        """All mails until now."""
        while not self._received.empty():
            data = self._received.get().data
            self._mails.append(email.message_from_bytes(data, policy=email.policy.default))
        return self._mails

    def incidents(self) -> set[str]:
        """Return the incidents that the mails are about."""
        return {mail["X-Iowarden-Incident"] for mail in self.mails}

    def saying(self, state: str) -> list[EmailMessage]:
        """Return the mails whose Subject has this state of the incident ('[OK]', 'ESCALATED')."""
        return [mail for mail in self.mails if state in mail["Subject"]]

    def naming(self, *words: str) -> list[EmailMessage]:
        """Return the mails in whose text all these words are, wherever its lines end."""
        texts = [f"{text_of(mail)} {' '.join(text_of(mail).split())}" for mail in self.mails]
        return [
            mail
            for mail, text in zip(self.mails, texts, strict=True)
            if all(word in text for word in words)
        ]


def text_of(mail: EmailMessage) -> str:
    """Return the plain text of a mail."""
    body = mail.get_body(("plain",))
    assert body is not None
    text: str = body.get_content().replace("\r\n", "\n")
    return text


@dataclass(frozen=True, slots=True)
class Watched:
    """A running guest that iowarden watches, and where its mails arrive."""

    vm: VM
    mail: Mailbox

    def journal(self, *matches: str) -> list[dict[str, Any]]:
        """Return the entries of the journal with these fields, of the service as it runs now."""
        run = "_SYSTEMD_INVOCATION_ID=$(systemctl show iowarden --property=InvocationID --value)"
        command = f"journalctl --quiet --output=json {run} {' '.join(matches)}"
        return [json.loads(line) for line in self.vm.run(command).splitlines()]

    def unit(self, *properties: str) -> dict[str, str]:
        """Return properties of the unit as systemd shows them."""
        shown = self.vm.run(f"systemctl show iowarden --property={','.join(properties)}")
        return dict(line.split("=", 1) for line in shown.splitlines())

    def disks(self) -> dict[str, dict[str, Any]]:
        """Return what 'iowarden monitoring' says of each disk, by the label of its series.

        Its exit status tells how good that is, so it is not looked at here.
        """
        answer = self.vm.start("iowarden monitoring --json").wait(120)
        assert answer.stdout, answer.stderr
        return {disk["disk"]: disk for disk in json.loads(answer.stdout)["disks"]}

    def metric(self, name: str, **labels: str) -> float | None:
        """Return the value of a series that the guest's '/metrics' shows now; None without one."""
        text = self.vm.run("curl --silent --fail http://127.0.0.1:9748/metrics")
        wanted = ",".join(f'{key}="{value}"' for key, value in sorted(labels.items()))
        series = f"{name}{{{wanted}}}" if wanted else name
        for line in text.splitlines():
            found, _, value = line.rpartition(" ")
            if found == series:
                return float(value)
        return None


def seen() -> str:
    """Return what the services that run now say of themselves: why a test of theirs failed.

    The mails last: of long outputs the ends are kept.
    """
    scrape = "curl --silent --max-time 20 http://127.0.0.1:9748/metrics"
    commands = (
        f"{scrape} | grep -E '^iowarden_(writeback|tasks|loop|notifications|device_hang)'",
        "journalctl --quiet --no-pager --unit=iowarden --lines=40",
        "iowarden status 2>&1 | tail -n 60",
    )
    texts = []
    for watched in RUNNING:
        for command in commands:
            try:
                answer = watched.vm.start(command).wait(60)
                texts.append(f"$ {command}\n{answer.stdout}{answer.stderr}")
            except (TimeoutError, EndedError) as error:
                texts.append(str(error))
        texts += [
            f"mail of {mail['Date']}: {mail['Subject']}\n{text_of(mail)[:_SHOWN_CHARACTERS]}"
            for mail in watched.mail.mails
        ]
    return "\n".join(texts)


@contextlib.contextmanager
def watching(vm: VM, settings: str = "") -> Iterator[Watched]:
    """Start iowarden as a service without a past; it mails to a server outside the guest."""
    with smtp_server() as (port, answers):
        configuration = f"""\
host: guest.example.net
mail:
  server: {HOST_ADDRESS}
  port: {port}
  tls: none
  to: storage@example.net
  initial_report: false
{settings}"""
        vm.run("cat > /etc/iowarden/iowarden.yaml", configuration.encode())
        vm.run("rm -rf /var/lib/iowarden")
        # What the kernel said of another test is no past of this one.
        vm.run("python3 -", FLOOD.encode())
        vm.run("journalctl -q --sync; journalctl -q --rotate; journalctl -q --vacuum-time=1s")
        try:
            RUNNING.append(Watched(vm, Mailbox(answers)))
            vm.run("systemctl start iowarden", timeout_seconds=180)
            yield RUNNING[-1]
        finally:
            RUNNING.clear()
            vm.run("systemctl stop iowarden; sync", timeout_seconds=300)


_WRITER = """
import os, threading, time
def bulk():
    descriptor = os.open("DIRECTORY/bulk", os.O_WRONLY | os.O_CREAT)
    while os.path.exists("/run/writing"):
        os.write(descriptor, bytes(1 << 20))
def commit(number):
    descriptor = os.open(f"DIRECTORY/log-{number}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    while os.path.exists("/run/writing"):
        os.write(descriptor, bytes(4096))
        os.fsync(descriptor)
        time.sleep(0.1)
threads = [threading.Thread(target=bulk)]
threads += [threading.Thread(target=commit, args=(number,)) for number in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


def program_that_commits(directory: str) -> bytes:
    """Return a program for Python: one of its threads writes in bulk, two append and commit.

    It ends when '/run/writing' is removed.
    """
    return _WRITER.replace("DIRECTORY", directory).encode()
