"""The text of a config file to a configuration: strict, and with all problems at once.

A field that nobody reads is a mistake that nobody notices, so an unknown, misspelled or repeated
field is an error here (upstream logs a line and goes on); `null` counts as absent. The types in
`types` drive the reading, which also bounds it: a file cannot make it go round in circles.
"""

import msgspec
import yaml

from kubeproxy import gotext
from kubeproxy.config.errors import ConfigError, joined
from kubeproxy.config.fields import read_struct
from kubeproxy.config.scalar import scalar
from kubeproxy.config.types import API_VERSION, KIND, KubeProxyConfiguration


class Decoded(msgspec.Struct, frozen=True):
    """What a file says, before defaulting."""

    config: KubeProxyConfiguration
    more_documents: bool
    """Whether the file has further documents, which nobody reads."""


def decode(text: str) -> Decoded:
    """The configuration in the first document of a YAML or JSON text."""
    root, more_documents = _first_document(text)
    if not isinstance(root, yaml.MappingNode):
        raise ConfigError(f"failed to decode: Object 'Kind' is missing in '{text}'")
    _check_kind(root, text)
    problems: list[str] = []
    config = read_struct(root, KubeProxyConfiguration, problems)
    if problems:
        raise ConfigError(f"failed to decode: {joined(problems)}")
    return Decoded(config, more_documents)


def _first_document(text: str) -> tuple[yaml.Node | None, bool]:
    """The first document, and whether there is another, well-formed or not."""
    try:
        loader = yaml.CSafeLoader(text)
        root = loader.get_node() if loader.check_node() else None
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise ConfigError(f"failed to decode: yaml: line {line}: {error.problem}") from error
    except yaml.YAMLError as error:
        raise ConfigError(f"failed to decode: yaml: {' '.join(str(error).split())}") from error
    try:
        return root, bool(loader.check_node())
    except yaml.YAMLError:
        return root, True


def _check_kind(root: yaml.MappingNode, text: str) -> None:
    """Refuse documents of another kind or version, whose fields would mean something else."""
    found: dict[object, str] = {}
    for key, value in root.value:
        if isinstance(value, yaml.ScalarNode) and isinstance(scalar(value), str):
            found[key.value if isinstance(key, yaml.ScalarNode) else None] = value.value
    kind, version = found.get("kind"), found.get("apiVersion")
    if not kind:
        raise ConfigError(f"failed to decode: Object 'Kind' is missing in '{text}'")
    if not version:
        raise ConfigError(f"failed to decode: Object 'apiVersion' is missing in '{text}'")
    if (kind, version) != (KIND, API_VERSION):
        raise ConfigError(
            f"failed to decode: no kind {gotext.quote(kind)} is registered for version"
            f" {gotext.quote(version)}; expected kind {gotext.quote(KIND)} of version"
            f" {gotext.quote(API_VERSION)}"
        )
