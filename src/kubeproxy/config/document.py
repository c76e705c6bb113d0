"""A configuration to the document that describes it: for `--write-config-to` and for /configz."""

from collections.abc import Mapping
from typing import Final

import msgspec
import yaml

from kubeproxy.base.kubeyaml import plain_value
from kubeproxy.config.types import API_VERSION, KIND, SECTIONS, KubeProxyConfiguration, put
from kubeproxy.config.values import Duration, Quantity

Document = dict[str, object]

# Left out when they are empty, as upstream does; other empty lists are written as null.
_OMITTED_WHEN_EMPTY: Final = frozenset(
    {"featureGates", "vmodule", "splitStream", "windowsRunAsService"}
)
# Our own fields: a document that does not use them is also valid upstream.
_OWN: Final = frozenset(
    {
        "affinitySize",
        "balance",
        "endpointCounters",
        "fastPath",
        "healing",
        "traffic",
        "rulesPage",
        "statusPage",
        "statusSocket",
        "udpIdleTimeout",
        "userspace",
    }
)
_STRING_TAG: Final = "tag:yaml.org,2002:str"


def to_document(config: KubeProxyConfiguration) -> Document:
    """The plain values of an effective configuration.

    Only the active mode's sync periods are in force, so only those are shown; the others are
    zero, which is their default again when the document is read.
    """
    for section in SECTIONS:
        if section != config.section:
            config = put(config, f"{section}.sync_period", Duration())
            config = put(config, f"{section}.min_sync_period", Duration())
    return {"kind": KIND, "apiVersion": API_VERSION, **_fields(config)}


def _fields(struct: msgspec.Struct) -> Document:
    document: Document = {}
    for field in msgspec.structs.fields(struct):
        value = getattr(struct, field.name)
        if field.encode_name in _OWN and value == field.default:
            continue
        if value or field.encode_name not in _OMITTED_WHEN_EMPTY:
            document[field.encode_name] = _plain(value)
    return document


def _plain(value: object) -> object:
    """A value in the terms of YAML and JSON."""
    match value:
        case Duration() | Quantity():
            return str(value)
        case msgspec.Struct():
            return _fields(value)
        case Mapping():
            return dict(value)
        case tuple():
            return [_plain(item) for item in value] or None
        case float() if value.is_integer():
            return int(value)
        case _:
            return value


class _Dumper(yaml.CSafeDumper):
    """Writes with double quotes what needs quotes, as upstream does."""


def _represent(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    """A string; quoted when it would be read as something else."""
    tag = dumper.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]  # the stubs lack it
    is_plain = tag == _STRING_TAG and isinstance(plain_value(text), str)
    return dumper.represent_scalar(_STRING_TAG, text, style=None if is_plain else '"')


_Dumper.add_representer(str, _represent)


def to_yaml(config: KubeProxyConfiguration) -> str:
    """The document as YAML, with sorted keys."""
    text: str = yaml.dump(
        to_document(config), Dumper=_Dumper, default_flow_style=False, allow_unicode=True
    )
    return text
