"""The page: `/rules`, `/rules/NAMESPACE` and `/rules/NAMESPACE/SERVICE`."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from enum import Enum
from typing import Final

from kubeproxy.inet import Prefix, contains, parse_address
from kubeproxy.rulespage.pieces import Selected, json_pieces, text_pieces, written_pieces
from kubeproxy.rulespage.view import Programmed, printable
from kubeproxy.serving.answer import Answer, text
from kubeproxy.serving.request import Request
from kubeproxy.table.entries import ServicePortName

PATH: Final = "/rules"
_LOOPBACK: Final = (Prefix("127.0.0.0", 8), Prefix("::1", 128))
_JSON: Final = (
    ("Content-Type", "application/json"),
    ("X-Content-Type-Options", "nosniff"),
)
_MOMENT: Final = 0.001
_SHOWN: Final = 20

View = Callable[[], Sequence[Programmed]]


class Access(Enum):
    """Who may look; the values are those of the setting."""

    LOCAL = "local"
    ALL = "all"
    NONE = "none"


def rules(request: Request, view: View, access: Access) -> Answer:
    """Answer a request for rules."""
    refused = _refusal(request, access)
    if refused is not None:
        return refused
    wanted = tuple(part for part in request.path.removeprefix(PATH).split("/") if part)
    shown = view()
    selected = [(each, _names(each, wanted)) for each in shown]
    if wanted and not any(names for _, names in selected):
        return text(_unknown(wanted, shown), 404)
    whole = len(wanted) >= 2
    if wants_json(request):
        return Answer(headers=_JSON, body=_paced(json_pieces(selected, written=whole)))
    return Answer(body=_paced(_text(selected, whole=whole)))


def _refusal(request: Request, access: Access) -> Answer | None:
    if access is Access.NONE:
        return text("the rules are not shown here: the setting rulesPage is none\n", 404)
    if access is Access.LOCAL and not is_loopback(request.peer):
        where = request.peer or "an unknown address"
        return text(
            f"the rules are shown to clients of this host only, and you are {where}: ask from"
            " the node, or set rulesPage: all (--rules-page=all)\n",
            403,
        )
    if request.method not in {"GET", "HEAD"}:
        return text(f"{request.method} is not possible here: the rules can only be read\n", 405)
    return None


def is_loopback(peer: str) -> bool:
    """Whether a client is on this host."""
    address = parse_address(peer.partition("%")[0])
    return address is not None and any(contains(range_, address) for range_ in _LOOPBACK)


def wants_json(request: Request) -> bool:
    """Whether JSON is asked for, by the query or else by the header."""
    given = request.query.get("format", "")
    return given == "json" if given else "application/json" in request.headers.get("accept", "")


def _names(shown: Programmed, wanted: Sequence[str]) -> list[ServicePortName]:
    """The service ports that a path names: all, those of a namespace, those of a service."""
    names = shown.table.entries
    if not wanted:
        return list(names)
    return sorted(name for name in names if name[: len(wanted)] == wanted)


def _text(selected: Selected, *, whole: bool) -> Iterator[bytes]:
    for shown, names in selected:
        count = f"{len(names)} service port{'' if len(names) == 1 else 's'}"
        yield f"# {shown.node.family.value}: {count}, mode {shown.mode.value}\n".encode()
    yield b"\n"
    for piece in text_pieces(selected):
        yield piece.encode()
    if whole:
        for piece in written_pieces(selected):
            yield piece.encode()


def _unknown(wanted: Sequence[str], shown: Sequence[Programmed]) -> str:
    """What there is instead."""
    namespace = wanted[0]
    every = {name[:2] for each in shown for name in each.table.entries}
    there = sorted(service for in_, service in every if in_ == namespace)
    elsewhere = sorted(in_ for in_, service in every if wanted[1:2] == (service,))
    lines = [f"no rules for {printable('/'.join(wanted))}"]
    if elsewhere:
        lines.append(f"a service of this name is in: {_some(elsewhere)}")
    if there:
        lines.append(f"namespace {namespace} has: {_some(there)}")
    lines.append(
        f"{PATH} lists all; a Service that is headless, or of type ExternalName, has none"
    )
    return "\n".join(lines) + "\n"


def _some(names: Sequence[str]) -> str:
    more = len(names) - _SHOWN
    return ", ".join(names[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


async def _paced(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """The pieces, put together to what a moment's work gives; then others get their turn."""
    clock = asyncio.get_running_loop().time
    waiting: list[bytes] = []
    since = clock()
    for piece in pieces:
        waiting.append(piece)
        if clock() - since >= _MOMENT:
            yield b"".join(waiting)
            waiting.clear()
            await asyncio.sleep(0)
            since = clock()
    yield b"".join(waiting)
