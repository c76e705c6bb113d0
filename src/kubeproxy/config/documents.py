"""The document of a config file that is ours, among those of others.

A file may hold the configurations of several components, as those for kubeadm do. Ours is found by
its kind, wherever it stands; upstream reads the first document only, whatever it is.
"""

from collections.abc import Iterator

import msgspec
import yaml

from kubeproxy.base import gotext
from kubeproxy.base.kubeyaml import check_bounds
from kubeproxy.config.errors import ConfigError
from kubeproxy.config.notice import Level, Notice
from kubeproxy.config.scalar import line_of, scalar
from kubeproxy.config.types import API_VERSION, KIND


class _Document(msgspec.Struct, frozen=True):
    """A document, and what it says that it is; "" where it does not say."""

    root: yaml.Node
    kind: str
    version: str

    @property
    def is_ours(self) -> bool:
        """Whether it is a configuration of kube-proxy."""
        return (self.kind, self.version) == (KIND, API_VERSION)

    def __str__(self) -> str:
        return f"{self.kind or 'no kind'} (line {line_of(self.root)})"


def find_document(text: str) -> tuple[yaml.MappingNode, list[Notice]]:
    """Our document in a YAML or JSON text, and what is to be said about the rest of it."""
    documents: list[_Document] = []
    broken: ConfigError | None = None
    try:
        for root in _roots(text):
            documents.append(_identified(root))  # noqa: PERF401  # those before an error count
    except ConfigError as error:
        broken = error
    for document in documents:
        if isinstance(document.root, yaml.MappingNode) and document.is_ours:
            return document.root, list(_about_rest(documents, broken))
    raise broken or ConfigError(f"failed to decode: {_why_none(documents, text)}")


def _roots(text: str) -> Iterator[yaml.Node]:
    """The documents in order, but for empty ones; raises ConfigError where they cannot be read."""
    try:
        check_bounds(text)
        loader = yaml.CSafeLoader(text)
        while loader.check_node():
            root = loader.get_node()
            is_null = isinstance(root, yaml.ScalarNode) and scalar(root) is None
            if root is not None and not is_null:
                yield root
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(f"failed to decode: yaml: line {line}: {error.problem}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"failed to decode: yaml: {' '.join(str(error).split())}") from error


def _identified(root: yaml.Node) -> _Document:
    """A document with its kind and version, if these are texts."""
    found = {"kind": "", "apiVersion": ""}
    for key, value in root.value if isinstance(root, yaml.MappingNode) else ():
        if isinstance(key, yaml.ScalarNode) and isinstance(value, yaml.ScalarNode):
            text = scalar(value)
            found[key.value] = text if isinstance(text, str) else ""
    return _Document(root, found["kind"], found["apiVersion"])


def _about_rest(documents: list[_Document], broken: ConfigError | None) -> Iterator[Notice]:
    """What is to be said about a file that has more than the first document of ours."""
    others = [document for document in documents if not document.is_ours]
    if others:
        # Without a kind, or with ours in another version, it may have been meant for us.
        is_suspect = any(document.kind in ("", KIND) for document in others)
        level = Level.WARNING if is_suspect else Level.INFO
        message = "The config file has documents that are not for kube-proxy; they are skipped"
        yield Notice(level, message, {"documents": list(map(str, others))})
    _, *more = [str(document) for document in documents if document.is_ours]
    if more:
        message = "The config file has several documents for kube-proxy; only the first is used"
        yield Notice(Level.WARNING, message, {"skipped": more})
    if broken is not None:
        message = "The config file cannot be read to its end, after the document for kube-proxy"
        yield Notice(Level.WARNING, message, {"err": str(broken)})


def _why_none(documents: list[_Document], text: str) -> str:
    """Why no document is ours. About a single one it is what upstream says."""
    expected = f"kind {gotext.quote(KIND)} of version {gotext.quote(API_VERSION)}"
    if len(documents) > 1:
        found = ", ".join(map(str, documents))
        return f"none of the documents is of {expected}; found {found}"
    for document in documents:
        if document.kind and document.version:
            return (
                f"no kind {gotext.quote(document.kind)} is registered for version"
                f" {gotext.quote(document.version)}; expected {expected}"
            )
        if document.kind:
            return f"Object 'apiVersion' is missing in '{text}'"
    return f"Object 'Kind' is missing in '{text}'"
