"""The addresses of pods in answers -> their names, as NAMESPACE/NAME."""

import re
from collections.abc import Mapping
from typing import Final

TEMPLATE: Final = (
    "jsonpath={range .items[*]}{.metadata.namespace}/{.metadata.name}{'\\t'}{.spec.hostNetwork}"
    "{'\\t'}{.status.phase}{'\\t'}{.status.podIPs[*].ip}{'\\n'}{end}"
)
"""What makes `kubectl get pods` print what is read here, and nothing else."""

_ADDRESS: Final = re.compile(
    r"(?<![\w.:-])\[?(\d{1,3}(?:\.\d{1,3}){3}|[0-9a-f]*:[0-9a-f]*:[0-9a-f:.]*)\]?(?![\w/]|\.\d)"
)

PodNames = Mapping[str, str]
"""Names by address."""


def read_names(printed: str) -> dict[str, str]:
    """The names of pods with an address of their own; others are shown as their node."""
    names: dict[str, str] = {}
    for line in printed.splitlines():
        name, host_network, phase, addresses = line.split("\t")
        if host_network != "true" and phase == "Running":
            names.update(dict.fromkeys(addresses.split(), name))
    return names


def with_names(text: str, names: PodNames) -> str:
    """The text with the names of pods in the place of their addresses."""
    return _ADDRESS.sub(lambda found: names.get(found[1], found[0]), text)


def named_values(value: object, names: PodNames) -> object:
    """The same in all texts of a value, as JSON has them."""
    match value:
        case str():
            return with_names(value, names)
        case list():
            return [named_values(each, names) for each in value]
        case dict():
            return {key: named_values(each, names) for key, each in value.items()}
        case _:
            return value
