"""What is published: signatures, the contents of the package, the apt repository.

What apt makes of the repository is tested with apt itself: 'make test-repo'.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

TOP = Path(__file__).resolve().parents[1]
PACKAGING = TOP / "packaging"
EPOCH = "4102444800"
"""2100: later than any key of these tests was created, and the time of what they sign."""

pytestmark = pytest.mark.skipif(
    shutil.which("gpg") is None or shutil.which("apt-ftparchive") is None,
    reason="no gpg or apt-ftparchive here: make system-packages SECTIONS=release",
)


def run(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A finished program with all that it printed; no key or date but those given."""
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in {"KEY", "PUBLIC_KEYS", "PASSPHRASE_FILE", "SOURCE_DATE_EPOCH", "GNUPGHOME"}
    }
    return subprocess.run(
        arguments,
        capture_output=True,
        text=True,
        check=False,
        env={**inherited, "LC_ALL": "C", **environment},
    )


class Keys:
    """Private keys in files: a gpg of the test's own makes them."""

    def __init__(self, directory: Path, home: Path) -> None:
        self.directory = directory
        self.home = home
        self.make("first", "ed25519", "sign", "never")
        self.make("second", "ed25519", "sign", "never")
        self.make("soon", "ed25519", "sign", "80d")
        self.make("certifier", "ed25519", "cert", "never")
        self.make("ended", "ed25519", "sign", "30d", "--faked-system-time", "1700000000")
        self.make("secret", "ed25519", "sign", "never", passphrase="a phrase")
        self.make("short", "rsa1024", "sign", "never")
        self.path("two").write_text(self.path("first").read_text() + self.path("short").read_text())
        self.path("text").write_text("no key\n")

    def path(self, name: str) -> Path:
        """The file of a key."""
        return self.directory / f"{name}.asc"

    def public(self, name: str) -> Path:
        """The file of its public part."""
        return self.directory / f"{name}.public.asc"

    def gpg(self, *arguments: str) -> str:
        """What gpg prints."""
        done = run("gpg", "--homedir", self.home, "--batch", "--quiet", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def make(  # noqa: D102
        self, name: str, kind: str, usage: str, life: str, *options: str, passphrase: str = ""
    ) -> None:
        phrase = ("--pinentry-mode", "loopback", "--passphrase", passphrase)
        user = f"{name} <{name}@example.org>"
        self.gpg(*phrase, *options, "--quick-gen-key", user, kind, usage, life)
        self.path(name).write_text(self.gpg(*phrase, "--armor", "--export-secret-keys", name))
        self.public(name).write_text(self.gpg("--armor", "--export", name))


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    """Keys that sign, and keys that do not."""
    directory = tmp_path_factory.mktemp("keys")
    home = directory / "gnupg"
    home.mkdir(mode=0o700)
    made = Keys(directory, home)
    run("gpgconf", "--homedir", home, "--kill", "all")
    return made


@pytest.mark.parametrize(
    ("named", "expected"),
    [
        ("", "KEY: expected the path of a private key, got none; make ... KEY=private.asc"),
        ("absent.asc", "'absent.asc': expected a file with a private key, got 'No such file or"),
        (".", "'.': expected a file with a private key, got 'Is a directory'"),
        ("text.asc", "'text.asc': expected one private key in OpenPGP's format, got none"),
        ("two.asc", "'two.asc': expected one private key in OpenPGP's format, got 2"),
        ("first.public.asc", "expected a private key, got a public one; gpg --armor --export-sec"),
        ("ended.asc", "'ended.asc': expected a key that signs, got one that expired on 2023-12-14"),
        ("certifier.asc", "expected a key that signs, got one without that capability; gpg --quic"),
        ("secret.asc", "expected the key's passphrase in a file, got none; there is no prompt"),
        (
            "short.asc",
            "expected an Ed25519 key, or RSA of at least 3072 bits, which apt accepts, g",
        ),
    ],
)
def test_a_key_that_cannot_sign_is_reported_before_anything_is_built(
    keys: Keys, named: str, expected: str
) -> None:
    """In one line, with what to do; each of them once cost an evening."""
    done = run("env", f"--chdir={keys.directory}", PACKAGING / "sign", "check", KEY=named)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("sign: ")
    assert expected in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_end_of_a_key_is_reported_while_hosts_can_get_its_successor(keys: Keys) -> None:
    """By an upgrade, which takes weeks; a key without an end has no warning."""
    for name, warned in (("soon", True), ("first", False)):
        done = run(PACKAGING / "sign", "check", KEY=str(keys.path(name)))
        assert done.returncode == 0, done.stderr
        assert ("WARNING: it expires within 90 days" in done.stdout) == warned


@pytest.mark.parametrize(("phrase", "status"), [("a phrase", 0), ("another", 1)])
def test_a_passphrase_comes_from_a_file(
    keys: Keys, tmp_path: Path, phrase: str, status: int
) -> None:
    """A prompt would wait for ever in a timer; a wrong one is reported as such."""
    file = tmp_path / "phrase"
    file.write_text(f"{phrase}\n")
    done = run(PACKAGING / "sign", "check", KEY=str(keys.path("secret")), PASSPHRASE_FILE=str(file))
    assert done.returncode == status
    assert ("got another one in" in done.stderr) == bool(status)


def test_a_second_signature_has_the_same_bytes(keys: Keys, tmp_path: Path) -> None:
    """By two keys; neither is left in the directory of the user's own gpg."""
    text = tmp_path / "text"
    text.write_text("sums\n")
    signatures = []
    for name in ("one", "two"):
        target = tmp_path / name
        done = run(
            *(PACKAGING / "sign", "inline", text, target),
            KEY=f"{keys.path('first')} {keys.path('second')}",
            HOME=str(tmp_path),
            SOURCE_DATE_EPOCH="4000000",
        )
        assert done.returncode == 0, done.stderr
        signatures.append(target.read_bytes())
    assert signatures[0] == signatures[1]
    assert not (tmp_path / ".gnupg").exists()
    # Verified by the program that apt of Debian 12 runs.
    ring = tmp_path / "ring.gpg"
    assert run(PACKAGING / "sign", "keyring", ring, KEY=str(keys.path("second"))).returncode == 0
    assert "Good signature" in run("gpgv", "--keyring", ring, tmp_path / "one").stderr


def archive(directory: Path, version: str, files: dict[str, str]) -> Path:
    """A package with some files."""
    tree = directory / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    for name, text in files.items():
        path = tree / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    control = tree / "DEBIAN/control"
    control.parent.mkdir()
    control.write_text(
        f"Package: iowarden\nVersion: {version}\nArchitecture: all\n"
        "Maintainer: A <a@example.org>\nDescription: a package\n"
    )
    package = directory / f"iowarden_{version}_all.deb"
    done = run("dpkg-deb", "--root-owner-group", "-Znone", "--build", tree, package)
    assert done.returncode == 0, done.stderr
    return package


def repository(directory: Path, key: Path, *packages: Path, **environment: str) -> str:
    """Make, extend or refresh a repository; return the error."""
    done = run(
        PACKAGING / "make-repo",
        directory,
        *packages,
        **{
            "KEY": str(key),
            "REPOSITORY": "https://packages.example.org/iowarden",
            "VALID_DAYS": "30",
            "SOURCE_DATE_EPOCH": EPOCH,
            **environment,
        },
    )
    assert (done.returncode == 0) == (done.stderr == ""), done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory, keys: Keys) -> Path:
    """A repository with one version."""
    directory = tmp_path_factory.mktemp("published")
    package = archive(directory, "1.0", {"usr/lib/iowarden/a": "a\n"})
    assert repository(directory / "repo", keys.path("first"), package) == ""
    return directory / "repo"


def contents(directory: Path) -> dict[str, bytes]:
    """All files below a directory."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_a_repository_that_is_made_twice_has_the_same_bytes(
    keys: Keys, published: Path, tmp_path: Path
) -> None:
    """Index, lists, signatures and the package of the keys, of the same packages at one time."""
    package = published / "pool/iowarden_1.0_all.deb"
    assert repository(tmp_path / "repo", keys.path("first"), package) == ""
    assert contents(tmp_path / "repo") == contents(published)


def test_what_hosts_install_limits_the_keys_to_the_repository(published: Path) -> None:
    """Without Signed-By each key of the host could sign it; an expired index is always refused."""
    assert (published / "iowarden.sources").read_text().splitlines() == [
        "Types: deb",
        "URIs: https://packages.example.org/iowarden",
        "Suites: stable",
        "Components: main",
        "Signed-By: /usr/share/keyrings/iowarden-archive-keyring.gpg",
        "Check-Date: yes",
        "Check-Valid-Until: yes",
    ]
    index = (published / "dists/stable/InRelease").read_text()
    assert "\nDate: Fri, 01 Jan 2100 00:00:00 UTC\n" in index
    assert "\nValid-Until: Sun, 31 Jan 2100 00:00:00 UTC\n" in index
    for digest, path in re.findall(r"^ (\w{64}) +\d+ (\S+)$", index, re.MULTILINE):
        listed = published / "dists/stable" / path
        assert hashlib.sha256(listed.read_bytes()).hexdigest() == digest
        assert (listed.parent / "by-hash/SHA256" / digest).read_bytes() == listed.read_bytes()


def test_a_refresh_changes_dates_only(keys: Keys, published: Path, tmp_path: Path) -> None:
    """Hosts get the same packages, for thirty days more."""
    shutil.copytree(published, tmp_path / "repo")
    later = str(int(EPOCH) + 86400)
    assert repository(tmp_path / "repo", keys.path("first"), SOURCE_DATE_EPOCH=later) == ""
    before, after = contents(published), contents(tmp_path / "repo")
    changed = {name for name in before | after if before.get(name) != after.get(name)}
    assert changed == {f"dists/stable/{name}" for name in ("InRelease", "Release", "Release.gpg")}
    lines = zip(
        *(each["dists/stable/Release"].decode().splitlines() for each in (before, after)),
        strict=True,
    )
    assert {old.split(":")[0] for old, new in lines if old != new} == {"Date", "Valid-Until"}


@pytest.mark.parametrize(
    ("changed", "key", "expected"),
    [
        ("pool/iowarden_1.0_all.deb", "first", "expected packages as they were signed"),
        ("pool/added_1.0_all.deb", "first", "expected only packages of the signed index, got anot"),
        ("dists/stable/main/binary-amd64/Packages", "first", "expected files as they were signed"),
        ("dists/stable/InRelease", "first", "expected a signature by a key of KEY or PUBLIC_KEYS"),
        ("", "second", "expected an index that KEY or PUBLIC_KEYS signed; add its key to PUBLIC_"),
    ],
)
def test_what_was_put_on_the_server_is_not_signed(
    keys: Keys, published: Path, tmp_path: Path, changed: str, key: str, expected: str
) -> None:
    """A refresh by a timer would give an attacker's package our signature."""
    copy = tmp_path / "repo"
    shutil.copytree(published, copy)
    if changed:
        path = copy / changed
        old = path.read_text(errors="surrogateescape") if path.exists() else "Label: iowarden"
        path.write_text(old.replace("iowarden", "attacker"), errors="surrogateescape")
    index = (copy / "dists/stable/InRelease").read_bytes()
    assert expected in repository(copy, keys.path(key))
    assert (copy / "dists/stable/InRelease").read_bytes() == index


def test_a_published_version_never_changes(keys: Keys, published: Path, tmp_path: Path) -> None:
    """Hosts that have it would not upgrade, and mirrors would have both."""
    shutil.copytree(published, tmp_path / "repo")
    other = archive(tmp_path, "1.0", {"usr/lib/iowarden/a": "b\n"})
    error = repository(tmp_path / "repo", keys.path("first"), other)
    assert "got another of this version; raise the version" in error
    next_version = archive(tmp_path, "1.1", {"usr/lib/iowarden/a": "b\n"})
    assert repository(tmp_path / "repo", keys.path("first"), next_version) == ""
    listed = (tmp_path / "repo/dists/stable/main/binary-s390x/Packages").read_text()
    assert re.findall(r"^Filename: pool/iowarden_(.*)_all.deb$", listed, re.MULTILINE) == [
        "1.0",
        "1.1",
    ]


def test_the_package_of_the_keys_changes_when_they_do(
    keys: Keys, published: Path, tmp_path: Path
) -> None:
    """Its version is the time of that; another run with the same keys adds none."""
    copy = tmp_path / "repo"
    shutil.copytree(published, copy)
    package = copy / "pool/iowarden_1.0_all.deb"
    later = str(int(EPOCH) + 3600)
    for public in ("", str(keys.public("second"))):
        error = repository(
            copy, keys.path("first"), package, PUBLIC_KEYS=public, SOURCE_DATE_EPOCH=later
        )
        assert error == ""
        rings = sorted(copy.glob("pool/iowarden-archive-keyring_*.deb"))
        versions = [path.name.split("_")[1] for path in rings]
        assert versions == ["21000101.000000", "21000101.010000"][: 2 if public else 1]
    run("dpkg-deb", "--extract", rings[-1], tmp_path / "extracted")
    ring = tmp_path / "extracted/usr/share/keyrings/iowarden-archive-keyring.gpg"
    assert ring.read_bytes() == (copy / "iowarden-archive-keyring.gpg").read_bytes()
    shown = run("gpg", "--homedir", keys.home, "--show-keys", "--with-colons", ring).stdout
    users = re.findall(r"^uid:.*:(\w+) <", shown, re.MULTILINE)
    assert sorted(users) == ["first", "second"]


def test_the_second_step_of_a_new_key_cannot_be_left_out(
    keys: Keys, published: Path, tmp_path: Path
) -> None:
    """Hosts with the old key only would refuse the index; one with both signatures may follow."""
    copy = tmp_path / "repo"
    shutil.copytree(published, copy)
    package = copy / "pool/iowarden_1.0_all.deb"
    first, second = keys.path("first"), keys.path("second")
    public = str(keys.public("second"))
    assert repository(copy, first, package, PUBLIC_KEYS=public) == ""
    before = contents(copy)
    assert "InRelease" in repository(copy, second, package)
    assert contents(copy) == before
    assert repository(copy, second, package, KEY=f"{second} {first}") == ""
    assert repository(copy, second, package) == ""


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ({"REPOSITORY": ""}, "REPOSITORY: expected the address where you publish it, such as http"),
        ({"VALID_DAYS": "a month"}, "VALID_DAYS: expected a number of days, got 'a month'"),
    ],
)
def test_a_wrong_setting_is_reported(
    keys: Keys, published: Path, tmp_path: Path, setting: dict[str, str], expected: str
) -> None:
    """Before a file is written."""
    package = published / "pool/iowarden_1.0_all.deb"
    assert expected in repository(tmp_path / "repo", keys.path("first"), package, **setting)
    assert not (tmp_path / "repo").exists()


def test_the_readme_has_the_address_of_the_makefile() -> None:
    """A placeholder, as long as there is none."""
    [address] = re.findall(r"^REPOSITORY \?= ?(.*)$", (TOP / "Makefile").read_text(), re.MULTILINE)
    readme = (TOP / "README.md").read_text()
    assert (address or "ADDRESS is the address where you publish it") in readme
    assert ("wget ADDRESS/" in readme) == (not address)


REPORTED = [("prometheus_client", "0.1"), ("waitress", "3.0"), ("pySMART", "1.4")]
VENDORED = {
    "usr/lib/iowarden/vendor/pySMART/device.py": "a\n",
    "usr/lib/iowarden/vendor/prometheus_client/core.py": "b\n",
    "usr/lib/iowarden/vendor/prometheus_client/decorator.py": "c\n",
    "usr/lib/iowarden/vendor/waitress/server.py": "d\n",
    "usr/lib/iowarden/iowarden/daemon/clock.py": "e\n",
}


def contained(
    directory: Path, files: dict[str, str], reported: list[tuple[str, str]]
) -> subprocess.CompletedProcess[str]:
    """What make-sbom prints of a package with these files, and of what pip reported."""
    report = directory / "report.json"
    entries = [
        {
            "download_info": {
                "url": f"https://mirror.example.org/a/{name}-{version}-py3-none-any.whl",
                "archive_info": {"hashes": {"sha256": hashlib.sha256(name.encode()).hexdigest()}},
            },
            "metadata": {"name": name, "version": version},
        }
        for name, version in reported
    ]
    report.write_text(json.dumps({"install": entries}))
    package = archive(directory, "1.0", files)
    return run(
        *(PACKAGING / "make-sbom", report, PACKAGING / "debian/copyright", package),
        SOURCE_DATE_EPOCH=EPOCH,
    )


def test_what_is_in_the_package_is_listed_with_version_licence_and_hash(tmp_path: Path) -> None:
    """Twice the same bytes, whatever the order of pip; no address of the mirror that was used."""
    texts = [contained(tmp_path, VENDORED, names).stdout for names in (REPORTED, REPORTED[::-1])]
    first: dict[str, Any] = json.loads(texts[0])
    second = json.loads(texts[1])
    assert first["components"] == second["components"]
    assert "example.org" not in texts[0]
    assert [
        (
            each["purl"],
            each["licenses"][0]["license"]["id"],
            each["hashes"][0]["content"],
            [(inner["name"], inner["licenses"]) for inner in each.get("components", [])],
        )
        for each in first["components"]
    ] == [
        (
            "pkg:pypi/prometheus-client@0.1",
            "Apache-2.0",
            hashlib.sha256(b"prometheus_client").hexdigest(),
            [("vendor/prometheus_client/decorator.py", [{"license": {"id": "BSD-2-Clause"}}])],
        ),
        (
            "pkg:pypi/pysmart@1.4",
            "LGPL-2.1-or-later",
            hashlib.sha256(b"pySMART").hexdigest(),
            [],
        ),
        ("pkg:pypi/waitress@3.0", "ZPL-2.1", hashlib.sha256(b"waitress").hexdigest(), []),
    ]
    package = tmp_path / "iowarden_1.0_all.deb"
    [digest] = first["metadata"]["component"]["hashes"]
    assert second["metadata"]["component"]["hashes"] == [
        {"alg": "SHA-256", "content": hashlib.sha256(package.read_bytes()).hexdigest()}
    ]
    assert digest["alg"] == "SHA-256"


@pytest.mark.parametrize(
    ("path", "reported", "expected"),
    [
        (
            "usr/lib/iowarden/vendor/left_pad/pad.py",
            REPORTED,
            "'vendor/left_pad/pad.py': expected a paragraph in packaging/debian/copyright, got",
        ),
        (
            "usr/lib/iowarden/vendor/waitress/task.py",
            REPORTED[::2],
            "expected a file of a package in the report, got another",
        ),
        (
            "usr/lib/iowarden/vendor/waitress/task.py",
            [*REPORTED, ("left-pad", "1.0")],
            "'left-pad': expected a paragraph in packaging/debian/copyright, got none",
        ),
    ],
)
def test_what_is_not_listed_is_not_in_the_package(
    tmp_path: Path, path: str, reported: list[tuple[str, str]], expected: str
) -> None:
    """A vendored package without a licence, or that pip did not install, ends the build."""
    done = contained(tmp_path, {**VENDORED, path: "f\n"}, reported)
    assert done.returncode == 1
    assert expected in done.stderr
