"""The man pages: from the generated pages of the reference, and from two that people write.

Made when the package is built, not committed: what they contain is reviewed in packaging/doc.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from iowarden.daemon.cli.main import full_parser
from iowarden.daemon.installation import VERSION
from iowarden.daemon.reference import alerts, commands, configuration, metrics, roff

if TYPE_CHECKING:
    from collections.abc import Mapping

DATE = "2026-11-23"
"""Of the newest text, not of the day on which they are generated: two runs give the same bytes."""
_FILES = """\
## Files

| path | content |
| --- | --- |
| `/etc/iowarden/iowarden.yaml` | configuration |
| `/etc/iowarden/rules.d/*.yaml` | alerting rules of this host |
| `/etc/credstore/iowarden.mail-password` | password of the mail server |
| `/var/lib/iowarden` | state, history, unsent mails, flight recordings |
| `/run/iowarden/control.sock` | control socket that commands use |
| `/usr/share/doc/iowarden` | documentation |"""
_NAMES = (
    "iowarden(1)",
    "iowarden.yaml(5)",
    "iowarden-alerts(7)",
    "iowarden-metrics(7)",
    "iowarden-rules(7)",
    "iowarden-probe(8)",
)
_SUMMARIES = {
    "iowarden(1)": "monitor disks, RAID and file systems of a Linux host, and report problems",
    "iowarden.yaml(5)": "configuration of iowarden",
    "iowarden-alerts(7)": "alerts of iowarden, with one line each",
    "iowarden-metrics(7)": "metrics that iowarden exposes to Prometheus",
    "iowarden-rules(7)": "change a shipped alerting rule of iowarden, write your own",
    "iowarden-probe(8)": "what of iowarden runs as root, and who has access to what",
}
_SYNOPSES = {
    "iowarden(1)": (
        "iowarden COMMAND [ARGUMENT ...]",
        "iowarden [COMMAND] --help",
        "iowarden --version",
    ),
    "iowarden.yaml(5)": ("/etc/iowarden/iowarden.yaml",),
    "iowarden-rules(7)": ("/etc/iowarden/rules.d/*.yaml",),
    "iowarden-probe(8)": ("iowarden-probe.service",),
}
_ALSO = {
    "iowarden(1)": "`smartctl(8)`, `mdadm(8)`, `journalctl(1)`",
    "iowarden.yaml(5)": "`systemd.exec(5)` on credentials",
    "iowarden-probe(8)": "`systemd.exec(5)`, `capabilities(7)`",
}
_PAGES = {
    "commands.md": "iowarden(1)",
    "configuration.md": "iowarden.yaml(5)",
    "alerts.md": "iowarden-alerts(7)",
    "metrics.md": "iowarden-metrics(7)",
    "rules.md": "iowarden-rules(7)",
    "probe-and-security.md": "iowarden-probe(8)",
}
"""The man page of each page of packaging/doc that is in one."""


def file_name(name: str) -> str:
    """Return the file of 'iowarden.yaml(5)' below /usr/share: 'man/man5/iowarden.yaml.5'."""
    stem, _, section = name.removesuffix(")").partition("(")
    return f"man/man{section}/{stem}.{section}"


def texts(documents: str) -> Mapping[str, str]:
    """Return the roff of every man page by file name. `documents` has the hand-written pages."""
    bodies = {
        "iowarden(1)": _commands(),
        "iowarden.yaml(5)": configuration.text(),
        "iowarden-alerts(7)": alerts.index(),
        "iowarden-metrics(7)": metrics.text(),
        "iowarden-rules(7)": _read(documents, "rules.md"),
        "iowarden-probe(8)": _read(documents, "probe-and-security.md"),
    }
    found = {}
    for name in _NAMES:
        also = [f"`{other}`" for other in _NAMES if other != name]
        also += [_ALSO[name]] if name in _ALSO else []
        tail = [f"## See also\n\n{', '.join(also)}"]
        if name == "iowarden(1)":
            tail.insert(0, _FILES)
        links = {file: page if page != name else "" for file, page in _PAGES.items()}
        stem, _, section = name.removesuffix(")").partition("(")
        head = roff.Head(
            stem,
            int(section),
            _SUMMARIES[name],
            VERSION,
            DATE,
            _SYNOPSES.get(name, ()),
        )
        found[file_name(name)] = roff.page(head, bodies[name], links, tail)
    return found


def _commands() -> str:
    """Return the reference of the commands, with each as a subsection."""
    introduction, _, found = commands.text().partition("\n## ")
    title, _, words = introduction.partition("# Commands\n\n")
    about = full_parser().description
    return f"{title}# Commands\n\n{about}\n\n{words}\n## Commands\n\n### " + found.replace(
        "\n## ", "\n### "
    )


def _read(directory: str, name: str) -> str:
    return Path(directory, name).read_text(encoding="utf-8")
