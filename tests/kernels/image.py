"""Builds what a machine boots from, in the cache: kernels with their modules, and the disk.

One disk serves all kernels: Debian's programs, Python, the virtual environment and this tree, at
the paths that they have here. Each kernel has a small archive that finds the disk, and a disk of
its modules. The disks are never written to: what a run changes is forgotten with it.
"""

import hashlib
import lzma
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from kernels.cpio import Entry, archive
from kernels.debian import NotAvailable
from kernels.fetch import Apt, fetch_kernel, unpack
from kernels.modules import (
    ALSO_FOR_BOOT,
    BOOT,
    SIGNED,
    in_order,
    parse_dependencies,
    unsigned,
    wanted,
)
from kernels.tools import Toolbox

TREE = Path(__file__).parents[2]
_GUEST_PACKAGES = (
    *("busybox-static", "dash", "coreutils", "util-linux", "procps", "kmod", "netbase", "grep"),
    *("iproute2", "nftables", "iptables", "ipset", "ipvsadm", "conntrack", "openssl", "sed"),
    *("libcap2-bin", "ca-certificates", "tar", "hostname", "findutils"),
)
_NOT_NEEDED = frozenset(
    ("mypy", "mypyc", "ruff", "pip", "setuptools", "piptools", "pre_commit", "virtualenv")
)
"""Of the virtual environment; no test that runs here imports them."""
_NOT_OF_PYTHON = ("test", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "config-*")
_FEATURES = "none,extent,filetype,dir_index,sparse_super,large_file,ext_attr"
"""No journal and no checksums: a disk that is never written to needs neither."""
_INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /dev /proc /sys /disk
/bin/busybox mount -t devtmpfs dev /dev
for module in $(/bin/busybox cat /modules/order); do
    /bin/busybox insmod "/modules/$module"
done
/bin/busybox mount -t ext4 /dev/vda /disk || exit 1
/bin/busybox mount -t ext4 -o ro /dev/vdb /disk/usr/lib/modules || exit 1
/bin/busybox mount -t tmpfs run /disk/run
/bin/busybox cp -r /job /disk/run/job
/bin/busybox mount -o move /dev /disk/dev
exec /bin/busybox switch_root /disk /bin/sh /run/job/start
"""


class Kernel(msgspec.Struct, frozen=True):
    """A kernel that can be booted: the version of its package, its files."""

    name: str
    version: str
    place: Path

    @property
    def image(self) -> Path:
        """The kernel itself."""
        return self.place / "vmlinuz"

    @property
    def archive(self) -> Path:
        """What it unpacks into memory."""
        return self.place / "initrd"

    @property
    def modules(self) -> Path:
        """The disk of its modules."""
        return self.place / "modules.img"


def build_kernel(name: str, cache: Path, tools: Toolbox, busybox: bytes) -> Kernel:
    """The newest kernel of a suite, built unless it is there."""
    version, files = fetch_kernel(name, cache)
    key = _key([version, _INIT, *wanted(), *BOOT, *ALSO_FOR_BOOT, SIGNED.decode()])
    kernel = Kernel(name, version, cache / "kernels" / f"{name}-{key}")
    if kernel.modules.exists():
        return kernel
    for old in (cache / "kernels").glob(f"{name}-{'?' * len(key)}"):
        shutil.rmtree(old)
    root = kernel.place / "unpacked"
    unpack(files, root, wanted())
    (place,) = (root / "usr/lib/modules").iterdir()
    found = [*root.glob("boot/vmlinuz-*"), *place.glob("vmlinuz")]
    if not found:
        raise NotAvailable(f"the packages of {name} have no kernel in them")
    shutil.move(found[0], kernel.image)
    for module in [*place.rglob("*.ko*")]:
        _unpack_module(module)
    tools.run("depmod", "-b", str(root), place.name)
    kernel.archive.write_bytes(archive(_boot_files(place, busybox)))
    making = kernel.place / "modules.new"
    _make_disk(tools, root / "usr/lib/modules", making, "")
    making.rename(kernel.modules)
    shutil.rmtree(root)
    return kernel


def _unpack_module(module: Path) -> None:
    """Have it as the kernel loads it most quickly: neither compressed nor signed."""
    if module.suffix not in (".ko", ".xz"):
        raise NotAvailable(f"{module.name}: this kind of compression is not known here")
    data = module.read_bytes()
    module.unlink()
    target = module.with_suffix("") if module.suffix == ".xz" else module
    target.write_bytes(unsigned(lzma.decompress(data) if module.suffix == ".xz" else data))


def _boot_files(place: Path, busybox: bytes) -> Iterator[Entry]:
    files = parse_dependencies((place / "modules.dep").read_text())
    ordered = in_order([*ALSO_FOR_BOOT, *BOOT], files)
    names = [file.rpartition("/")[2] for file in ordered]
    for directory in ("bin", "dev", "modules"):
        yield Entry(directory)
    yield Entry("dev/console", device=(5, 1))
    yield Entry("bin/busybox", busybox)
    yield Entry("init", _INIT.encode())
    for name, file in zip(names, ordered, strict=True):
        yield Entry(f"modules/{name}", (place / file).read_bytes())
    yield Entry("modules/order", "\n".join(names).encode())


# --- the disk ---------------------------------------------------------------------------------


class Disk(msgspec.Struct, frozen=True):
    """The disk of all kernels, and the program that their archives are made of."""

    image: Path
    busybox: bytes


def build_disk(cache: Path, tools: Toolbox) -> Disk:
    """The disk, built unless one with the same content is there."""
    guest = _guest(cache)
    busybox = (guest / "usr/bin/busybox").read_bytes()
    key = _key([guest.name, *_state_of(_trees())])
    image = cache / f"disk-{key}.img"
    if not image.exists():
        for old in cache.glob("disk-*"):
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        stage = cache / f"disk-{key}"
        subprocess.run(["cp", "-al", str(guest), str(stage)], check=True)
        for source, left_out in _trees():
            _copy(source, stage / source.relative_to("/"), left_out)
        for library in _libraries():
            inside = stage / library.relative_to("/")
            if not inside.exists():
                inside.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(library, inside)
        _compile(stage)
        making = image.with_suffix(".new")
        _make_disk(tools, stage, making, "256M")
        making.rename(image)
        shutil.rmtree(stage)
    return Disk(image, busybox)


def _guest(cache: Path) -> Path:
    """A tree of Debian's programs."""
    names = [*_GUEST_PACKAGES, *(["python3"] if sys.base_prefix == "/usr" else [])]
    files = Apt(cache / "apt" / "guest").download_all(names)
    root = cache / "guest" / _key([file.name for file in files])
    if not root.exists():
        shutil.rmtree(cache / "guest", ignore_errors=True)
        making = root.with_suffix(".new")
        unpack(files, making)
        for name in ("proc", "sys", "dev", "run", "tmp", "root", "usr/lib/modules", "var/tmp"):
            (making / name).mkdir(parents=True, exist_ok=True)
        for name in ("iptables", "ip6tables"):
            for verb in ("", "-save", "-restore"):
                (making / "usr/sbin" / (name + verb)).symlink_to("xtables-nft-multi")
        (making / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
        (making / "etc/group").write_text("root:x:0:\n")
        (making / "etc/hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")
        making.rename(root)
    return root


def _trees() -> list[tuple[Path, Sequence[str]]]:
    """What is copied from here, each with the names that are left out."""
    trees: list[tuple[Path, Sequence[str]]] = [
        (TREE, (".*", "build", "dist", "__pycache__")),
        (Path(sys.prefix), (*_NOT_NEEDED, "chromium*")),
    ]
    if sys.base_prefix != "/usr":
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        base = Path(sys.base_prefix)
        trees.append((base / "bin", ("pip*", "idle*", "2to3*")))
        trees.append((base / "lib" / version, (*_NOT_OF_PYTHON, "site-packages")))
    return trees


def _state_of(trees: Iterable[tuple[Path, Sequence[str]]]) -> Iterator[str]:
    """A line for each file that changes when the file does."""
    for source, left_out in trees:
        ignore = shutil.ignore_patterns(*left_out)
        for folder, folders, files in os.walk(source):
            ignored = ignore(folder, [*folders, *files])
            folders[:] = [name for name in folders if name not in ignored | {"__pycache__"}]
            for name in files:
                if name not in ignored:
                    status = os.lstat(Path(folder, name))
                    yield f"{folder}/{name} {status.st_size} {status.st_mtime_ns}"


def _copy(source: Path, target: Path, left_out: Sequence[str]) -> None:
    ignore = shutil.ignore_patterns(*left_out)
    shutil.copytree(source, target, symlinks=True, ignore=ignore, dirs_exist_ok=True)


def _libraries() -> Iterator[Path]:
    """The libraries that Python and its modules are linked with."""
    if sys.base_prefix == "/usr":
        return
    base = Path(sys.base_prefix)
    linked = [Path(sys.executable).resolve(), *base.glob("lib/python3.*/lib-dynload/*.so")]
    done = subprocess.run(["ldd", *map(str, linked)], capture_output=True, text=True, check=False)
    yield from {Path(each) for each in re.findall(r"=> (/\S+)", done.stdout)}


def _compile(stage: Path) -> None:
    """Compile all Python there as if it lay at its final path."""
    places = [stage / source.relative_to("/") for source, _ in _trees()]
    command = [sys.executable, "-m", "compileall", "-q", "-s", str(stage), "-p", "/"]
    subprocess.run([*command, *map(str, places)], check=False, capture_output=True)


def _make_disk(tools: Toolbox, content: Path, target: Path, spare: str) -> None:
    """A file system with that content, and about so much room besides."""
    used = int(
        subprocess.run(
            ["du", "-sk", str(content)], capture_output=True, text=True, check=True
        ).stdout.split()[0]
    )
    room = int(spare.removesuffix("M") or 8)
    target.unlink(missing_ok=True)
    tools.run(
        "mke2fs",
        "-q",
        "-t",
        "ext4",
        "-O",
        _FEATURES,
        "-E",
        "root_owner=0:0",
        "-N",
        "60000",
        "-m",
        "0",
        "-d",
        str(content),
        str(target),
        f"{used * 5 // 4 // 1024 + room}M",
    )


def _key(texts: Iterable[str]) -> str:
    """A short name for all of these texts."""
    return hashlib.sha256("\n".join(texts).encode()).hexdigest()[:12]
