"""Reads Prometheus's web configuration file: TLS and users of the HTTP server.

Source: exporter-toolkit, docs/web-configuration.md. Supported are `tls_server_config` with
`cert_file`, `key_file`, `client_auth_type`, `client_ca_file` and `min_version`, and
`basic_auth_users`; any other key is an error that names it. Certificates and keys stay in
memory; `renewed` reads them again. Paths are relative to the file's directory.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
import ssl
import stat
from dataclasses import field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import yaml

from iowarden.collectors.dataclass import dataclass
from iowarden.daemon import metrics
from iowarden.daemon.config.load import read_advice
from iowarden.daemon.config.schema import ConfigError
from iowarden.daemon.http import password
from iowarden.rules.yaml_nodes import NotYamlError, root_node

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from iowarden.collectors.model import Sample

MAX_BYTES = 256 * 1024
MAX_DEPTH = 4
MAX_COST = 12
"""Of bcrypt: each step doubles the time; cost 10 takes about 60 ms of a processor."""
_TLS, _USERS = "tls_server_config", "basic_auth_users"
_TLS_KEYS = ("cert_file", "key_file", "client_auth_type", "client_ca_file", "min_version")
_CLIENTS = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_FILE_KEYS = ("cert_file", "key_file", "client_ca_file")
FileVersion = tuple[int, int, int]
"""Inode, time of change in nanoseconds, size."""
_BCRYPT = re.compile(r"\$2[aby]\$(\d\d)\$[./A-Za-z0-9]{53}")


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """The files of a TLS configuration as they were when they were read."""

    web_config: str
    settings: Mapping[str, str]
    """Of `tls_server_config`."""
    versions: tuple[FileVersion | None, ...]
    start_seconds: float
    """When the certificate becomes valid, as Unix time."""
    expiry_seconds: float

    def samples(self) -> list[Sample]:
        """Return from when until when the certificate is valid."""
        return [
            (metrics.CERTIFICATE_START.name, (), self.start_seconds),
            (metrics.CERTIFICATE_EXPIRY.name, (), self.expiry_seconds),
        ]


@dataclass(frozen=True, slots=True)
class WebConfig:
    """How clients of the HTTP server connect and who they must be; the default is plain HTTP."""

    tls: ssl.SSLContext | None = None
    certificate: CertificateFiles | None = None
    """What `tls` was made of; None without TLS."""
    users: dict[str, str] = field(default_factory=dict, repr=False)
    """bcrypt hashes by user name; empty: no authentication."""

    @property
    def is_authenticated(self) -> bool:
        """Whether every client has a password or a certificate that is verified."""
        return bool(self.users) or (
            self.tls is not None and self.tls.verify_mode is ssl.CERT_REQUIRED
        )


def load(path: str | None, page: str = "off") -> WebConfig:
    """Return the web configuration in a file; plain HTTP for None. Blocks while it reads.

    `page` is the setting `http.page`: 'full' needs authentication. Errors: ConfigError with every
    problem found.
    """
    found = WebConfig() if path is None else _load(path)
    if page == "full" and not found.is_authenticated:
        where = "'web_config' is not set" if path is None else f"'{path}' has neither"
        problem = (
            "http.page: expected authentication for 'full', which shows kernel lines, files and"
            f" programs: '{_USERS}', or 'client_auth_type: RequireAndVerifyClientCert', in the"
            f" file of 'web_config'; got none ({where}); add a user, or set http.page: summary"
        )
        raise ConfigError((problem,))
    return found


def _load(path: str) -> WebConfig:
    try:
        root = root_node(_read(path), MAX_DEPTH, aliases=False)
    except OSError as error:
        problem = f"'{path}': expected a readable web configuration, got '{error.strerror}'"
        raise ConfigError((f"{problem}; {read_advice(path, error)}",)) from error
    except (NotYamlError, ValueError) as error:
        raise ConfigError((f"'{path}': expected YAML, got: {error}",)) from error
    reading = _Reading(path)
    sections = reading.pairs(root, "", (_TLS, _USERS))
    settings = reading.pairs(sections.get(_TLS), _TLS, _TLS_KEYS)
    users = dict(reading.users(sections.get(_USERS)))
    values = {key: text for key, node in settings.items() if (text := reading.text(node, key))}
    if users and (problem := password.missing()):
        reading.problems.append(f"'{path}': {_USERS}: {problem}")
    context, certificate = _certificate(reading, values)
    if reading.problems:
        raise ConfigError(tuple(reading.problems))
    return WebConfig(context, certificate, users)


def renewed(web: WebConfig) -> WebConfig | None:
    """Return the configuration with its certificate read again, None if no file has changed.

    Only the files are read that the configuration in force names. Blocks while it reads. Errors:
    ConfigError, as while one of two files is replaced; the next try may succeed.
    """
    before = web.certificate
    if before is None:
        return None
    reading = _Reading(before.web_config)
    if reading.versions(before.settings) == before.versions:
        return None
    context, certificate = _certificate(reading, before.settings)
    if reading.problems:
        raise ConfigError(tuple(reading.problems))
    return replace(web, tls=context, certificate=certificate)


def _certificate(
    reading: _Reading, values: Mapping[str, str]
) -> tuple[ssl.SSLContext | None, CertificateFiles | None]:
    """Return the context of TLS and what it was made of; None if none is configured or valid."""
    # First: what is replaced while it is read is read again.
    versions = reading.versions(values)
    context = None if reading.problems else reading.context(values)
    if context is None:
        return None, None
    path = reading.path(values["cert_file"])
    try:
        start, expiry = validity_seconds(_read(path))
    except (OSError, ValueError) as error:
        reading.problems.append(f"'{reading.file}': '{path}': {error}")
        return None, None
    return context, CertificateFiles(reading.file, values, versions, start, expiry)


def _read(path: str) -> str:
    # O_NONBLOCK: a named pipe without a writer must not block
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(descriptor, encoding="utf-8") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise ValueError("expected a regular file, got another kind")
        text = stream.read(MAX_BYTES + 1)
    if len(text) > MAX_BYTES:
        raise ValueError(f"expected at most {MAX_BYTES} characters, got more")
    return text


class _Reading:
    """One pass through the file; collects its problems."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.problems: list[str] = []

    def report(self, node: yaml.Node, problem: str) -> None:
        self.problems.append(f"'{self.file}':{node.start_mark.line + 1}: {problem}")

    def pairs(
        self, node: yaml.Node | None, name: str, known: tuple[str, ...]
    ) -> dict[str, yaml.Node]:
        """Return the values of a section by key; `known`: its only valid keys, () for any."""
        found: dict[str, yaml.Node] = {}
        if node is None or (isinstance(node, yaml.ScalarNode) and node.tag.endswith(":null")):
            return found
        if not isinstance(node, yaml.MappingNode):
            self.report(
                node, f"{name or 'the file'}: expected 'key: value' lines, got another kind"
            )
            return found
        for key, value in node.value:
            word = str(key.value) if isinstance(key, yaml.ScalarNode) else "?"
            path = f"{name}.{word}" if name else word
            if known and word not in known:
                self.report(key, f"{path}: not supported; expected one of {', '.join(known)}")
            elif word in found:
                self.report(key, f"{path}: given before; remove one")
            else:
                found[word] = value
        return found

    def text(self, node: yaml.Node, key: str) -> str:
        if isinstance(node, yaml.ScalarNode):
            return str(node.value)
        self.report(node, f"{_TLS}.{key}: expected a text, got another kind")
        return ""

    def users(self, node: yaml.Node | None) -> Iterator[tuple[str, str]]:
        """Yield user names and hashes. A hash is never shown."""
        for user, value in self.pairs(node, _USERS, ()).items():
            text = value.value if isinstance(value, yaml.ScalarNode) else ""
            found = _BCRYPT.fullmatch(text)
            if not found or ":" in user:
                self.report(
                    value,
                    f"{_USERS}.{user}: expected a name without ':' and a bcrypt hash, got another"
                    " text; make one: htpasswd -nBC 10 USER",
                )
            elif not 4 <= int(found[1]) <= MAX_COST:
                self.report(
                    value,
                    f"{_USERS}.{user}: expected a bcrypt cost of 4 to {MAX_COST}, got"
                    f" {int(found[1])}, which would keep a processor busy for seconds at each"
                    " login; make a new hash: htpasswd -nBC 10 USER",
                )
            else:
                yield user, text

    def versions(self, values: Mapping[str, str]) -> tuple[FileVersion | None, ...]:
        """Return which versions of the files exist; None for one that cannot be seen."""
        return tuple(_version(self.path(values[key])) for key in _FILE_KEYS if key in values)

    def path(self, text: str) -> str:
        return os.path.join(os.path.dirname(os.path.abspath(self.file)), text)

    def context(self, values: Mapping[str, str]) -> ssl.SSLContext | None:
        """Return the context of TLS; None if none is configured or a problem was found."""
        where = f"'{self.file}': {_TLS}"
        if not values:
            return None
        for key, other in (("cert_file", "key_file"), ("key_file", "cert_file")):
            if key not in values:
                self.problems.append(f"{where}.{key}: expected it as well as '{other}', got none")
        clients = _CLIENTS.get(values.get("client_auth_type", "NoClientCert"))
        version = _VERSIONS.get(values.get("min_version", "TLS12"))
        for key, known, value in (
            ("client_auth_type", _CLIENTS, clients),
            ("min_version", _VERSIONS, version),
        ):
            if value is None:
                self.problems.append(
                    f"{where}.{key}: expected one of {', '.join(known)}, got '{values[key]}'"
                )
        if bool(clients) != ("client_ca_file" in values) and clients is not None:
            self.problems.append(
                f"{where}: expected 'client_ca_file' together with a 'client_auth_type' that"
                " verifies, got one of them"
            )
        if self.problems or clients is None or version is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = version
        context.verify_mode = clients
        # A client that renegotiates or resumes must not cost state or time.
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET
        context.num_tickets = 0
        self._load(context, values)
        return None if self.problems else context

    def _load(self, context: ssl.SSLContext, values: Mapping[str, str]) -> None:
        cert, key = self.path(values["cert_file"]), self.path(values["key_file"])
        authority = values.get("client_ca_file")
        for path in (cert, key, *([self.path(authority)] if authority else ())):
            try:
                _read(path)
                mode = os.stat(path).st_mode
            except OSError as error:
                self.problems.append(
                    f"'{self.file}': '{path}': expected a readable file, got '{error.strerror}';"
                    f" {read_advice(path, error)}"
                )
            except ValueError as error:
                self.problems.append(f"'{self.file}': '{path}': expected PEM, got: {error}")
            else:
                if path == key and mode & stat.S_IROTH:
                    self.problems.append(
                        f"'{self.file}': '{path}': expected a key that others cannot read, got mode"
                        f" {stat.S_IMODE(mode):04o}; try: chmod o= {path}"
                    )
        if self.problems:
            return
        try:
            # The password of an encrypted key would be requested at the terminal.
            context.load_cert_chain(cert, key, password=lambda: "")
            if authority:
                context.load_verify_locations(self.path(authority))
        except (OSError, ValueError) as error:
            got = getattr(error, "reason", None) or error
            self.problems.append(
                f"'{self.file}': expected a PEM certificate in '{cert}' and its key without a"
                f" password in '{key}'"
                + (f", authorities in '{authority}'" if authority else "")
                + f", got: {got}"
            )


def _version(path: str) -> FileVersion | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def validity_seconds(pem: str) -> tuple[float, float]:
    """Return from when until when the first certificate of a PEM text is valid, as Unix times.

    Source: RFC 5280, 4.1: Certificate, TBSCertificate, Validity; ITU-T X.690 (DER). Errors:
    ValueError.
    """
    try:
        text = pem.split("-----BEGIN CERTIFICATE-----")[1].split("-----END", maxsplit=1)[0]
        fields = _elements(_elements(_elements(base64.b64decode(text))[0][1])[0][1])
        fields = fields[1:] if fields[0][0] == 0xA0 else fields  # version, which is optional
        start, expiry = map(_unix_seconds, _elements(fields[3][1]))
    except (IndexError, ValueError, binascii.Error) as error:
        raise ValueError(
            "expected a PEM certificate with an expiry date first, got none; create it again"
        ) from error
    return start, expiry


def _unix_seconds(element: tuple[int, bytes]) -> float:
    """Return a UTCTime or GeneralizedTime as Unix time. Errors: ValueError."""
    tag, value = element
    form = "%y%m%d%H%M%SZ" if tag == 0x17 else "%Y%m%d%H%M%SZ"
    return datetime.strptime(value.decode("ascii"), form).replace(tzinfo=UTC).timestamp()


def _elements(der: bytes) -> list[tuple[int, bytes]]:
    """Return tags and contents of the elements in a DER text. Errors: IndexError."""
    found, at = [], 0
    while at < len(der):
        tag, size = der[at], der[at + 1]
        at += 2
        if size & 0x80:
            width = size & 0x7F
            size = int.from_bytes(der[at : at + width], "big")
            at += width
        found.append((tag, der[at : at + size]))
        at += size
    return found
