"""The text of a config file to a configuration: strict, and with all problems at once.

A field that is not read is a mistake that goes unnoticed, so an unknown or misspelled field, and
one with two values, is an error here (upstream logs a line and goes on); `null` counts as absent.

A file may hold the configurations of several components, as those for kubeadm do. Ours is found by
its kind, in any place; upstream reads the first document only, whatever it is.
"""

from collections.abc import Iterator

import msgspec

from kubeproxy.base import gotext
from kubeproxy.base.kubeyaml import MappingNode, Node, ScalarNode, TextError, documents
from kubeproxy.config.errors import ConfigError, Level, Notice, joined
from kubeproxy.config.fields import Remarks, read_struct
from kubeproxy.config.types import API_VERSION, KIND, KubeProxyConfiguration


class DecodedConfig(msgspec.Struct, frozen=True):
    """The configuration in a file, before defaulting, and notices about it."""

    config: KubeProxyConfiguration
    notices: tuple[Notice, ...] = ()


class _Document(msgspec.Struct, frozen=True):
    """A document with its kind and version; "" where they are missing."""

    root: Node
    kind: str
    version: str

    @property
    def is_ours(self) -> bool:
        """Whether it is a configuration of kube-proxy."""
        return (self.kind, self.version) == (KIND, API_VERSION)

    def __str__(self) -> str:
        return f"{self.kind or 'no kind'} (line {self.root.line})"


def decode(text: str) -> DecodedConfig:
    """The configuration in a YAML or JSON text."""
    found: list[_Document] = []
    broken: TextError | None = None
    try:
        for root in documents(text):
            found.append(_identified(root))  # noqa: PERF401  # those before an error count
    except TextError as error:
        broken = error
    ours = next((each.root for each in found if each.is_ours), None)
    if not isinstance(ours, MappingNode):
        raise ConfigError(f"failed to decode: {broken or _why_none(found, text)}")
    remarks = Remarks([], list(_about_rest(found, broken)))
    config = read_struct(ours, KubeProxyConfiguration, remarks)
    if remarks.problems:
        raise ConfigError(f"failed to decode: {joined(remarks.problems)}")
    return DecodedConfig(config, tuple(remarks.notices))


def _identified(root: Node) -> _Document:
    """A document with its kind and version, if these are strings."""
    texts = {
        key.text: value.value
        for key, value in (root.pairs if isinstance(root, MappingNode) else ())
        if isinstance(key, ScalarNode)
        and isinstance(value, ScalarNode)
        and isinstance(value.value, str)
    }
    return _Document(root, texts.get("kind", ""), texts.get("apiVersion", ""))


def _about_rest(found: list[_Document], broken: TextError | None) -> Iterator[Notice]:
    """Notices about a file that has more than one document."""
    others = [document for document in found if not document.is_ours]
    if others:
        # Without a kind, or with ours in another version, it may have been meant for us.
        is_suspect = any(document.kind in ("", KIND) for document in others)
        level = Level.WARNING if is_suspect else Level.INFO
        message = "The config file has documents that are not for kube-proxy; they are skipped"
        yield Notice(level, message, {"documents": list(map(str, others))})
    _, *more = [str(document) for document in found if document.is_ours]
    if more:
        message = "The config file has several documents for kube-proxy; only the first is used"
        yield Notice(Level.WARNING, message, {"skipped": more})
    if broken is not None:
        message = "The config file cannot be read to its end, after the document for kube-proxy"
        yield Notice(Level.WARNING, message, {"err": f"failed to decode: {broken}"})


def _why_none(found: list[_Document], text: str) -> str:
    """Why no document is ours; for a single one it is upstream's text."""
    expected = f"kind {gotext.quote(KIND)} of version {gotext.quote(API_VERSION)}"
    if len(found) > 1:
        listed = ", ".join(map(str, found))
        return f"none of the documents is of {expected}; found {listed}"
    for document in found:
        if document.kind and document.version:
            return (
                f"no kind {gotext.quote(document.kind)} is registered for version"
                f" {gotext.quote(document.version)}; expected {expected}"
            )
        if document.kind:
            return f"Object 'apiVersion' is missing in '{text}'"
    return f"Object 'Kind' is missing in '{text}'"
