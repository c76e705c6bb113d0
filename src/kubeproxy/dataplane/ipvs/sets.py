"""Sets, actual and desired -> the text for `ipset restore`."""

from collections.abc import Iterable, Mapping

from kubeproxy.base.errors import KernelError
from kubeproxy.base.inet import Family
from kubeproxy.dataplane.ipvs.names import Set, set_name, set_options
from kubeproxy.dataplane.ipvs.parse import FoundSet
from kubeproxy.dataplane.ipvs.plan import Member

_DECISIVE = 3  # words of the options that must agree: the type, and of hashes the family


def creation(found: Mapping[Set, FoundSet], family: Family) -> str:
    """What creates the missing sets; `KernelError` for one that cannot be used."""
    lines = []
    for set_ in Set:
        name, options = set_name(set_, family), set_options(set_, family)
        if set_ not in found:
            lines.append(f"create {name} {options}\n")
        elif found[set_].options.split()[:_DECISIVE] != options.split()[:_DECISIVE]:
            raise KernelError(
                f"the ipset {name} was made by others as `{found[set_].options}` and not as"
                f" `{options}`: remove it with `ipset destroy {name}`"
            )
    return "".join(lines)


def excess(found: Mapping[Set, FoundSet], wanted: Mapping[Set, Iterable[str]]) -> list[Member]:
    """Members that should not be there."""
    return [
        (set_, member)
        for set_, there in found.items()
        for member in sorted(set(there.members).difference(wanted[set_]))
    ]


def missing(found: Mapping[Set, FoundSet], wanted: Mapping[Set, Iterable[str]]) -> list[Member]:
    """Members that are missing."""
    return [
        (set_, member)
        for set_, members in wanted.items()
        for member in members
        if set_ not in found or member not in found[set_].members
    ]


def additions(members: Iterable[Member], family: Family) -> str:
    """What adds members."""
    return "".join(f"add {set_name(set_, family)} {member}\n" for set_, member in members)


def removals(members: Iterable[Member], family: Family) -> str:
    """What removes members."""
    return "".join(f"del {set_name(set_, family)} {member}\n" for set_, member in members)
