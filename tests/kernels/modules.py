"""The modules of a kernel: which are taken out of its packages, and which are needed to boot."""

from collections.abc import Iterable, Mapping
from struct import Struct

BOOT = ("virtio_pci", "virtio_blk", "ext4")
"""What the kernel needs before it has a root file system."""
ALSO_FOR_BOOT = ("crc32c_generic", "crc32c_cryptoapi", "libcrc32c")
"""What file systems ask for by other names than those of modules."""
SIGNED = b"~Module signature appended~\n"
"""How a module ends that has a signature."""
_SIGNATURE = Struct(">8xI")
"""What stands before it: eight bytes of no interest here, and how long the signature is."""
_NETWORK_DRIVERS = ("dummy", "veth", "ifb", "tun", "vrf", "macvlan", "nlmon", "bonding/bonding")
_FOLDERS = (
    "net",
    "lib",
    "crypto",
    "arch/x86/crypto",
    "arch/x86/lib",
    "drivers/virtio",
    "fs/ext4",
    "fs/jbd2",
)
_FILES = (
    "fs/mbcache",
    "fs/crc",
    "drivers/block/virtio_blk",
    "drivers/net/net_failover",
    *(f"drivers/net/{name}" for name in _NETWORK_DRIVERS),
)


def wanted() -> list[str]:
    """What to take out of packages, as patterns for tar: older ones have no /usr in them."""
    inside = [f"kernel/{folder}/*" for folder in _FOLDERS]
    inside += [f"kernel/{file}.ko*" for file in _FILES]
    inside += ["modules.order", "modules.builtin*", "vmlinuz"]
    places = ("./lib/modules/*", "./usr/lib/modules/*")
    return ["./boot/vmlinuz-*", *(f"{place}/{each}" for place in places for each in inside)]


def parse_dependencies(text: str) -> dict[str, list[str]]:
    """What modules.dep says: the file of each module, and the files that it needs."""
    found = {}
    for line in text.splitlines():
        module, _, needed = line.partition(":")
        found[module] = needed.split()
    return found


def in_order(names: Iterable[str], files: Mapping[str, list[str]]) -> list[str]:
    """The files of these modules, each after those that it needs; what is built in has none."""
    by_name = {name_of(file): file for file in files}
    ordered: dict[str, None] = {}

    def add(file: str) -> None:
        for needed in files[file]:
            if needed not in ordered:
                add(needed)
        ordered[file] = None

    for name in names:
        if name in by_name:
            add(by_name[name])
    return list(ordered)


def unsigned(module: bytes) -> bytes:
    """The module without its signature: to check one takes a tenth of a second under emulation."""
    if not module.endswith(SIGNED):
        return module
    end = len(module) - len(SIGNED) - _SIGNATURE.size
    (length,) = _SIGNATURE.unpack_from(module, end)
    return module[: end - length]


def name_of(file: str) -> str:
    """The name of a module, which has no dashes, whatever its file has."""
    return file.rpartition("/")[2].partition(".ko")[0].replace("-", "_")
