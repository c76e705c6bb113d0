"""The programs that build and boot: the machine's own, or from packages in the cache."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from kernels.debian import NotAvailable
from kernels.fetch import Apt, unpack

PACKAGES = {
    "qemu-system-x86_64": "qemu-system-x86",
    "mke2fs": "e2fsprogs",
    "depmod": "kmod",
}
"""The programs, and the packages that have them."""
_LIBRARIES = "usr/lib/x86_64-linux-gnu"
_SYSTEM = "/usr/local/sbin:/usr/sbin:/sbin"


class Toolbox:
    """Finds programs. What is not installed is fetched, and runs with its own libraries."""

    def __init__(self, cache: Path) -> None:
        path = f"{os.environ.get('PATH', '')}:{_SYSTEM}"
        self._installed = {name: shutil.which(name, path=path) for name in PACKAGES}
        self._root = cache / "tools"
        missing = [name for name, place in self._installed.items() if place is None]
        if any(self._unpacked(name) is None for name in missing):
            shutil.rmtree(self._root, ignore_errors=True)
            packages = sorted(PACKAGES[name] for name in missing)
            unpack(Apt(cache / "apt" / "tools").download_all(packages), self._root)
        lost = [name for name in missing if self._unpacked(name) is None]
        if lost:
            raise NotAvailable(
                f"there is no {lost[0]}. Run:  sudo apt-get install {PACKAGES[lost[0]]}"
            )

    def command(self, name: str) -> list[str]:
        """The words that start a program."""
        installed = self._installed[name]
        if installed is not None:
            return [installed]
        libraries = self._root / _LIBRARIES
        loader = libraries / "ld-linux-x86-64.so.2"
        return [str(loader), "--library-path", str(libraries), str(self._unpacked(name))]

    def emulator(self) -> list[str]:
        """The words that start the emulator; one that is not installed must find its parts."""
        command = self.command("qemu-system-x86_64")
        if len(command) == 1:
            return command
        share = self._root / "usr/share"
        firmware = [word for name in ("seabios", "qemu") for word in ("-L", str(share / name))]
        return ["env", f"QEMU_MODULE_DIR={self._root / _LIBRARIES / 'qemu'}", *command, *firmware]

    def run(self, name: str, *arguments: str) -> None:
        """Run a program to its end."""
        done = subprocess.run(
            [*self.command(name), *arguments], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise NotAvailable(f"{name} failed: {_last(done.stderr.splitlines())}")

    def _unpacked(self, name: str) -> Path | None:
        places = (self._root / "usr" / folder / name for folder in ("bin", "sbin"))
        return next((place for place in places if place.exists()), None)


def _last(lines: Sequence[str]) -> str:
    return lines[-1] if lines else "it says nothing"
