"""A Service that was asked for and is not there: what there is instead."""

from collections.abc import Collection, Sequence
from typing import Final

from kubeproxy.base.printable import printable

_SHOWN: Final = 20


def unknown(
    what: str, wanted: Sequence[str], services: Collection[tuple[str, str]], path: str
) -> str:
    """That there is no `what` for NAMESPACE[/SERVICE], the names that are near, and all at `path`.

    `services` are the namespaces and names of all that there are.
    """
    namespace, *names = wanted
    there = sorted(service for in_, service in services if in_ == namespace)
    elsewhere = sorted(in_ for in_, service in services if names[:1] == [service])
    lines = [f"no {what} for {'/'.join(wanted)}"]
    if elsewhere:
        lines.append(f"a service of this name is in: {_some(elsewhere)}")
    if there:
        lines.append(f"namespace {namespace} has: {_some(there)}")
    lines.append(
        f"{path} lists all; a Service that is headless, or of type ExternalName, has none"
    )
    return "".join(f"{printable(line)}\n" for line in lines)


def _some(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
