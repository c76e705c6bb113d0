"""The text of a config file to a configuration: strict, and with all problems at once.

A field that nobody reads is a mistake that nobody notices, so an unknown or misspelled field, and
one that says two things, is an error here (upstream logs a line and goes on); `null` counts as
absent. The types in `types` drive the reading, which also bounds it: a file cannot make it go
round in circles.
"""

import msgspec

from kubeproxy.config.documents import find_document
from kubeproxy.config.errors import ConfigError, joined
from kubeproxy.config.fields import Remarks, read_struct
from kubeproxy.config.notice import Notice
from kubeproxy.config.types import KubeProxyConfiguration


class Decoded(msgspec.Struct, frozen=True):
    """What a file says, before defaulting, and what is odd about it."""

    config: KubeProxyConfiguration
    notices: tuple[Notice, ...] = ()


def decode(text: str) -> Decoded:
    """The configuration in a YAML or JSON text."""
    root, notices = find_document(text)
    remarks = Remarks([], notices)
    config = read_struct(root, KubeProxyConfiguration, remarks)
    if remarks.problems:
        raise ConfigError(f"failed to decode: {joined(remarks.problems)}")
    return Decoded(config, tuple(remarks.notices))
