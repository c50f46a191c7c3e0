"""The bundle of `iowarden report`: a recording, a check and the configuration, with pseudonyms.

An archive that `iowarden replay` reads: the frames of the recording, and next to them CONTENTS,
check.json and iowarden.yaml. It is written in two passes, the first of which only looks for the
words to replace; then it is read again, and deleted if one of them is found.
"""

from __future__ import annotations

import json
import os
import platform
import re
from collections import Counter
from typing import TYPE_CHECKING

import yaml

from iowarden.collectors.recording import archive
from iowarden.collectors.recording.recording import (
    CLOCK,
    FORMAT,
    GONE,
    HANGS,
    HEADER,
    VERSION,
    Recording,
)
from iowarden.daemon.report.pseudonym import Pseudonyms, WordKind
from iowarden.daemon.report.sensitive import CHECK, HOST_FILES, Sensitive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

TOP = "iowarden-report"
CONTENTS = "CONTENTS"
REMOVED = "REMOVED"
_SECRET_KEYS = re.compile(r"pass|pwd|pasw|secret|token|key|cred|auth|url|webhook", re.IGNORECASE)
_NUMBERS = re.compile(
    r"/root(?:/proc/(?:vmstat|meminfo|stat|diskstats|loadavg|uptime|pressure/\w+|sys/vm/\w+)|/\.read"
    r"|/sys/devices/system/node/\w+/\w+)$"
)
"""Files that hold only numbers, and words of the kernel that a directory may be named as."""


class ReportError(Exception):
    """The bundle cannot be written; the text is for the user."""


def write(
    path: str,
    recording: str,
    facts: Sequence[tuple[str, str]],
    check: str,
    configuration: str,
    hosts: Sequence[str],
    key: bytes,
    users: Sequence[str] = (),
) -> str:
    """Write the bundle from a recording's path; return its list of contents.

    `check` is the report of `check --json`, `configuration` the text of the file, '' without one;
    `hosts` and `users` are names that are in none of the places where names are looked for.
    Errors: ReportError, RecordingError.
    """
    configured = _parsed(configuration)
    settings = _without_secrets(configured)
    found = Sensitive(hosts)
    for secret in _secrets(configured):  # 'check' may cite one that is not valid
        found.secret(secret)
    for user in users:
        found.user(user)
    _take_settings(found, settings)
    found.free_text(check, CHECK)
    for file, content in _recorded(recording, lambda _, content: content):
        found.file(file.partition("/root")[2], content or b"")
    words = found.words()
    pseudonyms = Pseudonyms(key, words)
    contents = _contents(facts, Counter(words.values()), configured=settings is not None)
    try:
        writer = archive.Writer(path)
        try:
            writer.add(TOP, None)
            writer.add(f"{TOP}/{CONTENTS}", pseudonyms.content(contents.encode()))
            writer.add(f"{TOP}/check.json", pseudonyms.content(check.encode()))
            if settings is not None:
                text = yaml.safe_dump(settings, sort_keys=False, allow_unicode=True)
                writer.add(f"{TOP}/iowarden.yaml", pseudonyms.content(text.encode()))
            header = {
                "format": FORMAT,
                "version": VERSION,
                "page_size_bytes": Recording(recording).page_size_bytes,
            }
            writer.add(f"{TOP}/{HEADER}", json.dumps(header).encode())
            for file, content in _recorded(recording, _replacing(pseudonyms)):
                frame, root, name = file.partition("/root")
                writer.add(f"{TOP}{frame}{root}{pseudonyms.text(name)}", content)
            writer.close()
        except OSError:
            writer.abandon()
            raise
        _verify(path, pseudonyms)
    except OSError as error:
        raise ReportError(f"'{path}': expected to write a report, got: {error.strerror}") from error
    return contents


def facts(version: str) -> tuple[tuple[str, str], ...]:
    """Return what a bug report begins with: versions of iowarden, Python, kernel, distribution."""
    kernel = os.uname()
    return (
        ("iowarden", version),
        ("Python", platform.python_version()),
        ("kernel", f"{kernel.sysname} {kernel.release} {kernel.machine}"),
        ("distribution", platform.freedesktop_os_release().get("PRETTY_NAME", "unknown")),
    )


def _recorded(
    recording: str, change: Callable[[str, bytes], bytes]
) -> Iterator[tuple[str, bytes | None]]:
    """Give the members of a recording, in order, with changed content."""
    player = Recording(recording)
    while (step := player.next()) is not None:
        place = f"/{step.frame.number:06d}"
        files = dict(step.files)
        files |= {"/.uevents": step.uevents.encode()} if step.uevents else {}
        files |= (
            {"/.read": "".join(f"{name}\n" for name in step.read).encode()} if step.read else {}
        )
        for file, content in sorted(files.items()):
            yield (
                f"{place}/root{file}",
                None if content is None else change(f"/root{file}", content),
            )
        for name, paths in ((GONE, step.gone), (HANGS, step.hangs)):
            if paths:
                text = "".join(f"{path}\n" for path in paths)
                yield f"{place}/{name}", change(name, text.encode("utf-8", "surrogateescape"))
        clock = (
            f"monotonic_seconds {step.frame.monotonic_seconds}\n"
            f"realtime_seconds {step.frame.realtime_seconds}\n"
        )
        yield f"{place}/{CLOCK}", clock.encode()


def _replacing(pseudonyms: Pseudonyms) -> Callable[[str, bytes], bytes]:
    def replaced(file: str, content: bytes) -> bytes:
        if _NUMBERS.search(file):
            return content
        if HOST_FILES.search(file):
            return pseudonyms.host(content)
        if file.endswith("/vpd_pg83"):
            content = _designators(content, pseudonyms)
        return pseudonyms.content(content)

    return replaced


def _designators(content: bytes, pseudonyms: Pseudonyms) -> bytes:
    """Replace the binary identifiers. Source: SPC-6, Device Identification VPD page (83h)."""
    made, at = bytearray(content), 4
    while at + 4 <= len(content):
        end = at + 4 + content[at + 3]
        if content[at] & 0x0F == 1:  # code set: binary
            made[at + 4 : end] = pseudonyms.binary(content[at + 4 : end])
        at = end
    return bytes(made)


def _parsed(text: str) -> object:
    """Return the configuration without comments; None if it cannot be read."""
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError):
        return None


def _secrets(node: object, key: str = "") -> Iterator[str]:
    """Give the values that may be secrets; the name of a credential is none."""
    if isinstance(node, dict):
        for name, value in node.items():
            yield from _secrets(value, str(name))
    elif isinstance(node, list):
        for value in node:
            yield from _secrets(value, key)
    elif _SECRET_KEYS.search(key) and not key.endswith("_credential") and node is not None:
        yield str(node)


def _without_secrets(node: object, key: str = "") -> object:
    if isinstance(node, dict):
        return {name: _without_secrets(value, str(name)) for name, value in node.items()}
    if _SECRET_KEYS.search(key) and node is not None:
        return REMOVED
    if isinstance(node, list):
        return [_without_secrets(value, key) for value in node]
    return node


def _take_settings(found: Sensitive, node: object, key: str = "") -> None:
    if isinstance(node, dict):
        for name, value in node.items():
            _take_settings(found, value, key if key == "labels" else str(name))
    elif isinstance(node, list):
        for value in node:
            _take_settings(found, value, key)
    elif isinstance(node, str):
        found.setting(key, node)


def _contents(
    facts: Sequence[tuple[str, str]], counts: Counter[WordKind], *, configured: bool
) -> str:
    """Return the list of contents: what is in the bundle and what was replaced."""
    replaced = "".join(f"  {number:>6}  {kind}\n" for kind, number in sorted(counts.items()))
    return (
        "Report of iowarden, to attach to a bug report.\n\n"
        + "".join(f"{name}: {value}\n" for name, value in facts)
        + "\nIncluded:\n"
        "  000000/ ...    recording: what iowarden read; 'iowarden replay' reads this archive\n"
        "  check.json     'iowarden check --json'\n"
        + (
            "  iowarden.yaml  the configuration without comments; values that may be secrets:"
            f" {REMOVED}\n"
            if configured
            else ""
        )
        + "\nReplaced by pseudonyms, equal ones by equal ones; different names of each kind:\n"
        + (replaced or "  none\n")
        + "\nNot replaced: names of programs and systemd units, models of disks, kernel versions,\n"
        "times, sizes, names that are on most machines (/var/log, /data), and outside of the file\n"
        "'hostname' a host name of one or two characters, or such a one (db, mail).\n"
        "Not included: state.db, history.db, mails, the journal.\n"
    )


def _verify(path: str, pseudonyms: Pseudonyms) -> None:
    """Read the bundle again; delete it if a word is in it. Errors: ReportError."""
    for name, content in archive.members(path):
        if _NUMBERS.search(name):
            continue
        own = name.partition("/root")[2].encode("utf-8", "surrogateescape")
        if pseudonyms.remains(own) or pseudonyms.remains(content or b""):
            os.unlink(path)
            raise ReportError(
                f"'{path}': expected no name of this machine in the report, got one in"
                f" '{pseudonyms.text(name)}'; the report was deleted. This is a bug: report it"
                " without the file"
            )
