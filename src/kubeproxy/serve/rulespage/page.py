"""The page: `/rules`, `/rules/NAMESPACE` and `/rules/NAMESPACE/SERVICE`."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from kubeproxy.serve.http.access import Access, refusal
from kubeproxy.serve.http.answer import JSON, Answer, text
from kubeproxy.serve.http.pace import paced
from kubeproxy.serve.http.request import Request, wants_json
from kubeproxy.serve.rulespage.pieces import Selected, json_pieces, text_pieces, written_pieces
from kubeproxy.serve.rulespage.unknown import unknown
from kubeproxy.serve.rulespage.view import Programmed
from kubeproxy.table.entries import ServicePortName

PATH: Final = "/rules"

View = Callable[[], Sequence[Programmed]]


def rules(request: Request, view: View, access: Access) -> Answer:
    """Answer a request for rules."""
    refused = refusal(request, access, "the table of rules", "rulesPage")
    if refused is not None:
        return refused
    wanted = tuple(part for part in request.path.removeprefix(PATH).split("/") if part)
    shown = view()
    selected = [(each, _names(each, wanted)) for each in shown]
    if wanted and not any(names for _, names in selected):
        services = {name[:2] for each in shown for name in each.table.entries}
        return text(unknown("rules", wanted, services, PATH), 404)
    whole = len(wanted) >= 2
    if wants_json(request):
        return Answer(headers=JSON, body=paced(json_pieces(selected, written=whole)))
    return Answer(body=paced(_text(selected, whole=whole)))


def _names(shown: Programmed, wanted: Sequence[str]) -> list[ServicePortName]:
    """The service ports that a path names: all, those of a namespace, those of a service."""
    names = shown.table.entries
    if not wanted:
        return list(names)
    return sorted(name for name in names if name[: len(wanted)] == wanted)


def _text(selected: Selected, *, whole: bool) -> Iterator[bytes]:
    for shown, names in selected:
        count = f"{len(names)} service port{'' if len(names) == 1 else 's'}"
        yield f"# {shown.node.family.value}: {count}, mode {shown.mode.name}\n".encode()
    yield b"\n"
    for piece in text_pieces(selected):
        yield piece.encode()
    if whole:
        for piece in written_pieces(selected):
            yield piece.encode()
