"""Service ports -> the page, as text or JSON, in pieces of about a millisecond's work.

The table may change between two pieces: what is gone by then is left out.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from kubeproxy.dataplane.written import Shows
from kubeproxy.serve.rulespage.view import Port, Programmed, port_of, title_of
from kubeproxy.table.entries import ServicePortName
from kubeproxy.table.rows import aligned

Selected = Sequence[tuple[Programmed, Sequence[ServicePortName]]]

_encode = msgspec.json.Encoder().encode
_INDENT = "    "
_PORTS_AT_ONCE = 20
"""A Service may have thousands of ports, and each of them thousands of rules."""


def ports(selected: Selected) -> Iterator[Port]:
    """The service ports that are still there."""
    for shown, names in selected:
        for name in names:
            entry = shown.table.entries.get(name)
            if entry is not None:
                yield port_of(entry, shown)


def text_pieces(selected: Selected) -> Iterator[str]:
    """Each service port: its settings, then a row for each frontend and class of traffic."""
    for port in ports(selected):
        rows = aligned(msgspec.structs.astuple(way) for way in port.rows)
        lines = (_INDENT + line for line in rows.split("\n"))
        yield "\n".join((title_of(port), *lines)) + "\n\n"


class Written(msgspec.Struct, frozen=True, rename="camel"):
    """What one family's dataplane wrote for some ports, in the words of the kernel's tools."""

    ip_family: str
    mode: str
    text: str


def written_pieces(selected: Selected) -> Iterator[str]:
    """What was last written for the service ports, family by family."""
    for each in _written(selected):
        heading = f"# {each.ip_family}, written last in {each.mode} mode"
        yield f"{heading}\n{each.text}\n" if each.text else f"{heading}: nothing\n\n"


def _written(selected: Selected) -> Iterator[Written]:
    for shown, names in selected:
        for start in range(0, len(names) or 1, _PORTS_AT_ONCE):
            some, plane = names[start : start + _PORTS_AT_ONCE], shown.dataplane
            text = plane.written(shown.table, some) if isinstance(plane, Shows) else ""
            yield Written(shown.node.family.value, shown.mode.name, text)


def json_pieces(selected: Selected, *, written: bool) -> Iterator[bytes]:
    """The same as one JSON object, `{"servicePorts": [...], "written": [...]}`."""
    yield b'{"servicePorts":['
    yield from _listed(ports(selected))
    if written:
        yield b'],"written":['
        yield from _listed(_written(selected))
    yield b"]}\n"


def _listed(values: Iterable[msgspec.Struct]) -> Iterator[bytes]:
    for number, value in enumerate(values):
        yield (b"," if number else b"") + _encode(value)
