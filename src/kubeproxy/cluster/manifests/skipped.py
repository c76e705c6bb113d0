"""Documents of manifests that are not read, and what was probably meant by them. No I/O."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final

import msgspec

from kubeproxy.cluster.manifests.documents import Document
from kubeproxy.cluster.objects.decode import API_VERSION_OF_KIND

_VERSIONS: Final = {kind.value: version for kind, version in API_VERSION_OF_KIND.items()}
_BY_LETTERS: Final = {name.lower(): name for name in _VERSIONS}
_ENDPOINTS: Final = ("v1", "Endpoints")
_READ_ELSEWHERE: Final = frozenset({"Pod"})
"""`explain` knows pods by their names."""
_ALIKE: Final = 0.75


class Skipped(msgspec.Struct, frozen=True):
    """Something that is skipped; `why` is "" of other kinds, which nobody expects to be read."""

    kind: str
    place: str
    name: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.place}: {f'{self.kind} {self.name}'.strip()} is skipped: {self.why}"


def skipped(documents: Iterable[Document]) -> tuple[Skipped, ...]:
    """The documents that are not read."""
    return tuple(
        Skipped(each.kind, f"{each.file}:{each.line}", _name(each.body), _why(each))
        for each in documents
        if _VERSIONS.get(each.kind) != each.api_version and each.kind not in _READ_ELSEWHERE
    )


def other_kinds(found: Iterable[Skipped]) -> list[str]:
    """The kinds of which nobody expects that they are read."""
    return sorted({each.kind for each in found if not each.why})


def _why(document: Document) -> str:
    kind, version = document.kind, document.api_version
    if (version, kind) == _ENDPOINTS:
        wanted = _VERSIONS["EndpointSlice"]
        return f"endpoints are read from EndpointSlices alone, {wanted}"
    if kind in _VERSIONS:
        return f"its apiVersion is {version}, and {_VERSIONS[kind]} is read"
    meant = get_close_matches(kind.lower(), _BY_LETTERS, 1, _ALIKE)
    return f"there is no such kind; did you mean {_BY_LETTERS[meant[0]]}?" if meant else ""


def _name(body: Mapping[str, object]) -> str:
    metadata = body.get("metadata")
    if not isinstance(metadata, Mapping):
        return ""
    parts = (metadata.get("namespace"), metadata.get("name"))
    return "/".join(part for part in parts if isinstance(part, str) and part)
