"""Which packages make up a kernel, and where they come from: texts of apt in, values out.

A kernel has the name of the suite that it is taken from. The mirror is the machine's own: its
address is read from apt's configuration and stands nowhere else.
"""

import re
from collections.abc import Callable, Iterable, Mapping

import msgspec

DEFAULT = ("trixie-backports", "bookworm-backports", "bookworm", "bullseye")
"""The newest that Debian has built for its stable release, Linux 6.12, 6.1 and 5.10, in the order
in which they are run: the last has least to do."""
META = "linux-image-amd64"
"""The package that always depends on the newest kernel of a suite."""
TARGETS = "$(REPO_URI)|$(RELEASE)"
"""What `apt-get indextargets` shall print for each index."""
_SECURITY = "-security"
_WITH_SECURITY = ("bullseye", "bookworm", "trixie")
"""Releases whose newest kernels come as security updates."""
_PART = re.compile(r"linux-(image|binary|modules)-\d")
_ADDRESS = re.compile(r"\w+://[^\s']+")
_SUITE = re.compile(r"[a-z][a-z-]*")

Stanza = Mapping[str, str]


class NotAvailable(Exception):
    """A kernel or a program cannot be had; says which, and why."""


class Package(msgspec.Struct, frozen=True):
    """A package and its version."""

    name: str
    version: str


def without_addresses(text: str) -> str:
    """What apt says, without the address of the mirror: what is measured is published."""
    return _ADDRESS.sub("the mirror", text)


def suites_of(name: str) -> tuple[str, ...]:
    """The suites in which the kernel of that name is looked for."""
    if not _SUITE.fullmatch(name):
        raise NotAvailable(f"{name}: this is no name of a Debian suite")
    return (name, name + _SECURITY) if name in _WITH_SECURITY else (name,)


def sources(targets: str, suites: Iterable[str], keyring: str = "") -> str:
    """A sources.list for these suites, from the mirrors that the machine uses."""
    mirrors: dict[bool, str] = {}
    for line in targets.splitlines():
        address, _, release = line.partition("|")
        if address and release:
            mirrors.setdefault(release.endswith(_SECURITY), address)
    options = f"[signed-by={keyring}] " if keyring else ""
    lines = []
    for suite in suites:
        mirror = mirrors.get(suite.endswith(_SECURITY))
        if mirror is not None:
            lines.append(f"deb {options}{mirror} {suite} main\n")
    if not lines:
        raise NotAvailable("apt has no Debian mirror in its configuration")
    return "".join(lines)


def stanza(text: str) -> Stanza:
    """The fields of the first package that `apt-cache show` prints, without continued lines."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if not line:
            break
        key, separator, value = line.partition(": ")
        if separator and not line.startswith(" "):
            found[key] = value
    return found


def dependencies(fields: Stanza) -> list[str]:
    """The packages that it depends on, by name; of alternatives the first."""
    words = (each.split() for each in fields.get("Depends", "").split(","))
    return [name for name, *_ in filter(None, words)]


def parts_of(show: Callable[[str], Stanza]) -> list[Package]:
    """The packages that hold the newest kernel and its modules.

    Until Linux 6.18 that is one `linux-image`. Later ones are empty, and depend on a
    `linux-binary` and on `linux-modules`.
    """
    found: dict[str, Package] = {}
    waiting = [META]
    while waiting:
        name = waiting.pop(0)
        fields = show(name)
        if "Version" not in fields:
            raise NotAvailable(f"apt knows no package {name}")
        if name != META:
            found[name] = Package(name, fields["Version"])
        waiting += [each for each in dependencies(fields) if _PART.match(each)]
        waiting = [each for each in dict.fromkeys(waiting) if each not in found]
    if not found:
        raise NotAvailable(f"{META} names no kernel")
    return list(found.values())
