"""Reads the configuration file, the secrets that it names, and this machine's name."""

from __future__ import annotations

import dataclasses
import os
import shlex
import stat
from types import MappingProxyType
from typing import TYPE_CHECKING

from iowarden.daemon.config import receivers
from iowarden.daemon.config.parser import parse_config, quoted_excerpt
from iowarden.daemon.config.schema import Config, ConfigError, FallbackConfig, MailConfig
from iowarden.daemon.redactor import Redactor
from iowarden.daemon.redactor import problem as secret_problem

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_BYTES = 64 * 1024
MAX_PASSWORD_BYTES = 4096
_NONE: Mapping[str, str] = MappingProxyType({})


def load_config(path: str) -> Config:
    """Return the configuration in a file, with the secrets that it names.

    Errors: ConfigError with every problem found.
    """
    found = parse_config(read_config(path), path, machine_name())
    return with_receiver_secrets(with_password(found, path), path)


def read_config(path: str) -> str:
    """Return the text of a configuration file. Errors: ConfigError."""
    try:
        return _read(path, MAX_BYTES)
    except OSError as error:
        place = shlex.quote(path)
        hint = (
            f"read it as root; for the service: chgrp iowarden {place} && chmod 0640 {place}"
            if isinstance(error, PermissionError)
            else "name another file"
        )
        problem = (
            f"'{path}': expected a readable configuration file, got '{error.strerror}'; {hint}"
        )
        raise ConfigError((problem,)) from error
    except ValueError as error:
        raise ConfigError((f"'{path}': {error}",)) from error


def with_password(config: Config, file: str, unsaved: Mapping[str, str] = _NONE) -> Config:
    """Return the configuration with the mail password that it names. Errors: ConfigError.

    `unsaved` are texts of files that are not written yet, by their paths.
    """
    mail, second = config.mail, config.mail.fallback
    if second is not None:
        password = _server_password(second, "mail_fallback", file, unsaved)
        mail = dataclasses.replace(mail, fallback=dataclasses.replace(second, password=password))
    password = _server_password(mail, "mail", file, unsaved)
    mail = dataclasses.replace(mail, password=password)
    return with_redactor(dataclasses.replace(config, mail=mail), config.redactor)


def _server_password(
    server: MailConfig | FallbackConfig, section: str, file: str, unsaved: Mapping[str, str]
) -> str | None:
    if server.password_credential is not None:
        return _credential(server.password_credential, section, file)
    if server.password_file is not None:
        return _password(server.password_file, section, file, unsaved)
    return None


def with_receiver_secrets(config: Config, file: str, unsaved: Mapping[str, str] = _NONE) -> Config:
    """Return the configuration with the secrets of the receivers of 'notify'.

    `unsaved` as above. Errors: ConfigError, without any part of a secret.
    """
    problems: list[str] = []
    found = []
    for number, each in enumerate(config.notify, 1):
        read, wrong = receivers.with_secrets(each, lambda path: _secret(path, unsaved))
        found.append(read)
        problems += [f"'{file}': notify, receiver {number}: {problem}" for problem in wrong]
    if problems:
        raise ConfigError(tuple(problems))
    return with_redactor(dataclasses.replace(config, notify=tuple(found)), config.redactor)


def with_redactor(config: Config, redactor: Redactor) -> Config:
    """Return the configuration with a redactor, which learns its secrets; earlier ones stay known.

    Replies to a request with an earlier secret may still arrive.
    """
    mail, second = config.mail, config.mail.fallback
    redactor.learn((mail.password, None if second is None else second.password))
    for each in config.notify:
        redactor.learn(each.secrets)
    notify = tuple(dataclasses.replace(each, redactor=redactor) for each in config.notify)
    return dataclasses.replace(config, notify=notify, redactor=redactor)


def machine_name() -> str:
    """Return the machine's fully qualified name in '/etc/hosts', or its host name.

    Source: hosts(5), the first name of a line is the canonical one.
    Limits: DNS is not queried: a name server that does not answer would block the start.
    """
    name = os.uname().nodename
    try:
        hosts = _read("/etc/hosts", 1024 * 1024)
    except (OSError, ValueError):  # a machine without the file has only its host name
        return name
    return fully_qualified(name, hosts)


def fully_qualified(name: str, hosts: str) -> str:
    """Return the canonical name that the text of '/etc/hosts' gives a host name, or the name."""
    for line in hosts.splitlines():
        names = line.partition("#")[0].split()[1:]
        if "." not in name and name in names and names[0].startswith(name + "."):
            return names[0]
    return name


def _read(path: str, limit_bytes: int) -> str:
    # O_NONBLOCK: a named pipe without a writer must not block the daemon
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("expected a regular file, got another kind; name a text file")
        content = stream.read(limit_bytes + 1)
    if len(content) > limit_bytes:
        raise ValueError(f"expected at most {limit_bytes} bytes, got more; is it the right file?")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"expected UTF-8 text, got byte 0x{content[error.start]:02x} in line {line};"
            " save the file as UTF-8"
        ) from error


def _password(path: str, section: str, file: str, unsaved: Mapping[str, str]) -> str:
    where = f"'{file}': {section}.password_file = {quoted_excerpt(path)}"
    try:
        text = unsaved[path] if path in unsaved else _private(path)
    except ValueError as error:
        raise ConfigError((f"{where}: {error}",)) from error
    return _first_line(text, where)


def _secret(path: str, unsaved: Mapping[str, str]) -> str:
    """Return the first line of a receiver's secret. Errors: ValueError."""
    try:
        text = unsaved[path] if path in unsaved else _private(path)
        text = text.partition("\n")[0].rstrip("\r")
    except ValueError as error:
        raise ValueError(f"{quoted_excerpt(path)}: {error}") from error
    if not text:
        raise ValueError(f"{quoted_excerpt(path)}: expected it in the first line, got nothing")
    return text


def _private(path: str) -> str:
    """Return the text of a file that others can neither read nor write. Errors: ValueError."""
    try:
        mode = os.stat(path).st_mode
        text = _read(path, MAX_PASSWORD_BYTES)
    except OSError as error:
        raise ValueError(
            f"expected a readable file, got '{error.strerror}'; {read_advice(path, error)}"
        ) from error
    if mode & (stat.S_IROTH | stat.S_IWOTH):
        raise ValueError(
            "expected a file that others cannot read or write,"
            f" got mode {stat.S_IMODE(mode):04o}; try: chmod o= {path}"
        )
    return text


def read_advice(path: str, error: OSError) -> str:
    """Return how to make a file of the configuration readable; no advice replaces its content."""
    place = shlex.quote(path)
    if isinstance(error, PermissionError):
        return (
            f"try as root: chgrp iowarden {place} && chmod 0640 {place}; and let group iowarden"
            " search its directories"
        )
    if isinstance(error, FileNotFoundError):
        return f"create it, readable for the service: install -m 0640 -g iowarden /dev/null {place}"
    return "name a readable text file"


CREDENTIAL_STORES = ("/etc/credstore", "/run/credstore", "/usr/lib/credstore")
"""Where systemd searches a credential without a path. Source: systemd.exec(5)."""


def _credential(name: str, section: str, file: str) -> str:
    """Return the password from a credential of systemd; a command reads systemd's own store."""
    where = f"'{file}': {section}.password_credential = {quoted_excerpt(name)}"
    handed = os.environ.get("CREDENTIALS_DIRECTORY")
    for directory in CREDENTIAL_STORES if handed is None else (handed,):
        try:
            text = _read(f"{directory}/{name}", MAX_PASSWORD_BYTES)
            if handed is not None and not text.strip():  # the unit's SetCredential=: no file
                continue
            return _first_line(text, where)
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            got = error.strerror if isinstance(error, OSError) else error
            problem = f"{where}: expected a readable '{directory}/{name}', got: {got}"
            raise ConfigError((problem,)) from error
    place = CREDENTIAL_STORES[0]
    expected = "a credential passed by systemd" if handed else f"it in '{place}'"
    advice = (
        f"write the password to '{place}/{name}' (mode 0600), add 'LoadCredential={name}' to the"
        " unit ('systemctl edit iowarden'), and restart the service"
    )
    raise ConfigError((f"{where}: expected {expected}, got none; {advice}",))


def _first_line(text: str, where: str) -> str:
    password = text.partition("\n")[0].rstrip("\r")
    if not password:
        raise ConfigError((f"{where}: expected the password in its first line, got nothing",))
    if wrong := secret_problem(password):
        raise ConfigError((f"{where}: password in its first line: {wrong}",))
    return password
