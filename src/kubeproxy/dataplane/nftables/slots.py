"""The place of each backend in its list.

A list has n places, 0 to n-1, and all are taken: a packet draws a number below n. When a backend
leaves, the last one moves into its place and all others stay, so that one change is a few
elements however long the list is.
"""

from collections.abc import Sequence

from kubeproxy.table.entries import Backend

Slots = tuple[Backend, ...]


def rearrange(before: Sequence[Backend], wanted: Sequence[Backend]) -> Slots:
    """Places for the wanted backends that move as few as possible."""
    if not before or before == wanted:  # at the start: the kernel has nothing, or all of it
        return tuple(wanted)
    missing = set(wanted)
    length = len(missing)
    places: list[Backend | None] = list(before)
    for place, backend in enumerate(before):
        if backend in missing:
            missing.remove(backend)
        else:  # not wanted, or listed twice: a list from the kernel may contain anything
            places[place] = None
    moved = [backend for backend in places[length:] if backend is not None]
    fill = iter([*moved, *sorted(missing)])
    places = places[:length] + [None] * (length - len(places))
    return tuple([next(fill) if backend is None else backend for backend in places])
