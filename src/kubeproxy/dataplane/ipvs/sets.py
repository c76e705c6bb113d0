"""Sets, actual and desired: what `ipset save` lists, and the text for `ipset restore`."""

from collections.abc import Iterable, Mapping

import msgspec

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.ipvs.names import IpSet, set_name, set_options
from kubeproxy.dataplane.ipvs.plan import Member

_DECISIVE = 3  # words of the options that must agree: the type, and of hashes the family


class FoundSet(msgspec.Struct):
    """A set of the kernel: what it was made with, and its members."""

    options: str
    members: set[str] = set()


def listed_sets(saved: str, family: Family) -> dict[IpSet, FoundSet]:
    """Those of our sets of the family that exist."""
    names = {set_name(set_, family): set_ for set_ in IpSet}
    found: dict[IpSet, FoundSet] = {}
    for line in saved.split("\n"):
        verb, _, rest = line.partition(" ")
        name, _, words = rest.partition(" ")
        if name not in names:
            continue
        if verb == "create":
            found[names[name]] = FoundSet(words)
        else:
            found[names[name]].members.add(words.split(" ", 1)[0])
    return found


def creation(found: Mapping[IpSet, FoundSet], family: Family) -> str:
    """What creates the missing sets; `KernelError` for one that cannot be used."""
    lines = []
    for set_ in IpSet:
        name, options = set_name(set_, family), set_options(set_, family)
        if set_ not in found:
            lines.append(f"create {name} {options}\n")
        elif found[set_].options.split()[:_DECISIVE] != options.split()[:_DECISIVE]:
            raise KernelError(
                f"the ipset {name} was made by others as `{found[set_].options}` and not as"
                f" `{options}`: remove it with `ipset destroy {name}`"
            )
    return "".join(lines)


def member_changes(
    found: Mapping[IpSet, FoundSet], wanted: Mapping[IpSet, Iterable[str]]
) -> tuple[tuple[Member, ...], tuple[Member, ...]]:
    """Members that are missing, and those that should not be there."""
    missing = (
        (set_, member)
        for set_, members in wanted.items()
        for member in members
        if set_ not in found or member not in found[set_].members
    )
    excess = (
        (set_, member)
        for set_, there in found.items()
        for member in sorted(there.members.difference(wanted[set_]))
    )
    return tuple(missing), tuple(excess)


def member_lines(verb: str, members: Iterable[Member], family: Family) -> str:
    """What adds members (`add`), or removes them (`del`)."""
    return "".join(f"{verb} {set_name(set_, family)} {member}\n" for set_, member in members)
