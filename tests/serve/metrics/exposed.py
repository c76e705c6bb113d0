"""What a registry shows, read back."""

import asyncio
import re
from collections.abc import Iterable

from kubeproxy.serve.metrics.families import MetricFamily
from kubeproxy.serve.metrics.registry import Registry

_SAMPLE = re.compile(r"(?P<name>\w+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


async def exposed(*families: MetricFamily, only: Iterable[str] = ()) -> str:
    registry = Registry()
    registry.add(*families)
    return "".join([piece async for piece in registry.expose(set(only))])


def shown(*families: MetricFamily) -> dict[str, str]:
    """The samples of families: name with labels, and value."""
    text = asyncio.run(exposed(*families))
    lines = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {series: value for series, _, value in lines}


def described(text: str) -> dict[str, tuple[str, frozenset[str]]]:
    """Families of an exposition: their type, and the names of their labels but for `le`."""
    types = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))
    found: dict[str, tuple[str, frozenset[str]]] = {}
    for line in text.splitlines():
        match = _SAMPLE.fullmatch(line)
        if match is None:
            continue
        name = match["name"]
        if name not in types:
            name = re.sub(r"_(bucket|sum|count)$", "", name)
        labels = {label for label, _ in _LABEL.findall(match["labels"] or "")}
        found[name] = (types[name], frozenset(labels - {"le"}))
    return found
