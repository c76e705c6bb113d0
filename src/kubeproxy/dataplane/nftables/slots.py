"""Where a backend stands in its list.

A list has n places, 0 to n-1, and all of them are taken: a packet draws a number below n. When a
backend leaves, the last one moves into its place; all others stay where they are, so that one
change is a few elements however long the list is.
"""

from collections.abc import Sequence

from kubeproxy.table.entries import Backend

Slots = tuple[Backend, ...]


def rearrange(before: Sequence[Backend], wanted: Sequence[Backend]) -> Slots:
    """Places for the wanted backends that move as few as possible."""
    if not before or before == wanted:  # at a start: nothing is there, or all of it
        return tuple(wanted)
    missing = dict.fromkeys(wanted)
    places: list[Backend | None] = [None] * len(missing)
    homeless: list[Backend] = []
    for index, backend in enumerate(before):
        if backend not in missing:
            continue
        del missing[backend]  # a list from the kernel may name one twice: the first counts
        if index < len(places):
            places[index] = backend
        else:
            homeless.append(backend)
    newcomers = iter([*homeless, *missing])
    return tuple(backend if backend is not None else next(newcomers) for backend in places)
