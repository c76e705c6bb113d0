"""Takes packages from the machine's Debian mirror, without root and without installing them.

apt runs with a configuration, lists and a status of its own: nothing of the system is changed, and
nothing that is installed matters.
"""

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

from kernels.debian import (
    TARGETS,
    NotAvailable,
    Package,
    Stanza,
    parts_of,
    sources,
    stanza,
    suites_of,
    without_addresses,
)

_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_FRESH = 12 * 3600.0
"""Seconds for which the lists of packages are not asked for again."""
_LEFT_OUT = ("doc", "man", "info", "locale", "lintian", "bug", "common-licenses", "zoneinfo")


class Apt:
    """apt with a directory of its own; without suites it has those of the machine."""

    def __init__(self, place: Path, suites: Sequence[str] = ()) -> None:
        self._place = place
        self.archives = place / "archives"
        for made in (self.archives / "partial", place / "lists/partial"):
            made.mkdir(parents=True, exist_ok=True)
        (place / "status").touch()
        settings = {
            "Dir::State": place,
            "Dir::State::lists": place / "lists",
            "Dir::State::status": place / "status",
            "Dir::Cache": place,
            "Dir::Cache::archives": self.archives,
            "APT::Sandbox::User": _user(),
            "APT::Get::List-Cleanup": "true",
        }
        if suites:
            mirrors = _run(["apt-get", "indextargets", f"--format={TARGETS}"])
            keyring = str(_KEYRING) if _KEYRING.exists() else ""
            (place / "sources.list").write_text(sources(mirrors, suites, keyring))
            settings["Dir::Etc::sourcelist"] = place / "sources.list"
            settings["Dir::Etc::sourceparts"] = Path("-")
        self._options = [f"-o{key}={value}" for key, value in settings.items()]
        self._update()

    def show(self, name: str) -> Stanza:
        """The newest version of a package; empty when there is none."""
        try:
            return stanza(_run(["apt-cache", *self._options, "show", "--no-all-versions", name]))
        except NotAvailable:
            return {}

    def download(self, packages: Sequence[Package]) -> list[Path]:
        """The files of these packages, fetched unless they are there."""
        found = [self._file(package) for package in packages]
        if not all(path.exists() for path in found):
            for old in self.archives.glob("*.deb"):
                old.unlink()
            wanted = [f"{package.name}={package.version}" for package in packages]
            _run(["apt-get", *self._options, "download", "-qq", *wanted], self.archives)
        return found

    def download_all(self, names: Sequence[str]) -> list[Path]:
        """The files of these packages and of all that they depend on."""
        command = ["apt-get", *self._options, "install", "-qq", "--no-install-recommends"]
        listed = _run([*command, "--print-uris", "--yes", *names])
        if listed:
            _run([*command, "--download-only", "--yes", *names])
        return sorted(self.archives.glob("*.deb"))

    def _file(self, package: Package) -> Path:
        version = package.version.replace(":", "%3a")
        return self.archives / f"{package.name}_{version}_amd64.deb"

    def _update(self) -> None:
        stamp = self._place / "updated"
        if stamp.exists() and time.time() - stamp.stat().st_mtime < _FRESH:
            return
        try:
            _run(["apt-get", *self._options, "update", "-qq", "-oAPT::Update::Error-Mode=any"])
        except NotAvailable:
            if not stamp.exists():
                raise
        stamp.touch()


def fetch_kernel(name: str, cache: Path) -> tuple[str, list[Path]]:
    """The version of a suite's newest kernel, and the files of its packages."""
    apt = Apt(cache / "apt" / name, suites_of(name))
    packages = parts_of(apt.show)
    return packages[0].version, apt.download(packages)


def unpack(files: Sequence[Path], root: Path, only: Sequence[str] = ()) -> None:
    """Lay out the content of packages, in a tree in which /bin is /usr/bin, as on any Debian."""
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        if not (root / name).is_symlink():
            (root / name).symlink_to(f"usr/{name}")
    selection = [f"--exclude=./usr/share/{name}" for name in _LEFT_OUT]
    if only:
        selection = ["--wildcards", *only]
    for file in files:
        with subprocess.Popen(
            ["dpkg-deb", "--fsys-tarfile", str(file)], stdout=subprocess.PIPE
        ) as unpacked:
            command = ["tar", "--extract", "--keep-directory-symlink", "--no-same-owner"]
            done = subprocess.run(
                [*command, f"--directory={root}", *selection],
                stdin=unpacked.stdout,
                capture_output=True,
                text=True,
                check=False,
            )
        # A package that has none of the wanted files is no error.
        if unpacked.returncode or (done.returncode and "Not found in archive" not in done.stderr):
            raise NotAvailable(f"{file.name} cannot be unpacked: {done.stderr.strip()}")


def _run(command: Sequence[str], directory: Path | None = None) -> str:
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            env={**os.environ, "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise NotAvailable(f"there is no {command[0]}: this needs a Debian") from error
    if done.returncode:
        words = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
        raise NotAvailable(without_addresses(f"{command[0]}: {words[-1]}"))
    return done.stdout


def _user() -> str:
    return subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
