"""Families of metrics: counters, gauges, histograms, and values that are read at a scrape.

Their samples are text, format 0.0.4 of Prometheus, byte for byte as Go programs write it: series
are identified by their text, and `le="1"` and `le="1.0"` are two.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import NamedTuple

import msgspec

INFINITY = float("inf")


class MetricKind(Enum):
    """What the values of a family are."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class About(msgspec.Struct, frozen=True):
    """What identifies a family. The help begins with `[ALPHA] ` where upstream's does."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()


class Sample(NamedTuple):
    """One line: labels as `label_text` writes them, the value, and what the name ends in."""

    labels: str
    value: float
    suffix: str = ""


class Reading(msgspec.Struct, frozen=True):
    """A family whose values are read at a scrape."""

    about: About
    samples: Callable[[], Iterable[Sample]]


Series = tuple[tuple[str, ...], float]
"""Label values in the order of their names, and a value."""


def reading(
    name: str, help_: str, read: Callable[[], float | Iterable[Series]], *labels: str
) -> Reading:
    """A family of what `read` returns at a scrape: one value, or a pair for each series.

    It is a counter if its name ends in `_total`, as is the custom, else a gauge.
    """
    kind = MetricKind.COUNTER if name.endswith("_total") else MetricKind.GAUGE

    def samples() -> Iterator[Sample]:
        found = read()
        pairs = (((), found),) if isinstance(found, float | int) else found
        return (Sample(label_text(labels, values), value) for values, value in pairs)

    return Reading(About(name, kind, help_, labels), samples)


class Counter:
    """Counts. One without labels is there from the start; series with labels once they count."""

    kind = MetricKind.COUNTER

    def __init__(self, name: str, help_: str, labels: tuple[str, ...] = ()) -> None:
        self.about = About(name, self.kind, help_, labels)
        self._values: dict[tuple[str, ...], float] = {} if labels else {(): 0.0}

    def add(self, *labels: str, by: float = 1.0) -> None:
        """Count; label values stand in the order of their names."""
        self._values[labels] = self._values.get(labels, 0.0) + by

    def samples(self) -> Iterator[Sample]:
        """One for each series."""
        names = self.about.labels
        return (
            Sample(label_text(names, values), value)
            for values, value in sorted(self._values.items())
        )


class Gauge(Counter):
    """A value that goes up and down."""

    kind = MetricKind.GAUGE

    def set(self, value: float, *labels: str) -> None:
        """Set the value."""
        self._values[labels] = value


class Histogram:
    """How many values were below each of the bounds, which are in order."""

    def __init__(
        self, name: str, help_: str, bounds: Sequence[float], labels: tuple[str, ...] = ()
    ) -> None:
        self.about = About(name, MetricKind.HISTOGRAM, help_, labels)
        self._bounds = (*bounds, INFINITY)
        self._zeros = [0] * len(self._bounds)
        self._counts: dict[tuple[str, ...], list[int]] = {} if labels else {(): [*self._zeros]}
        self._sums: dict[tuple[str, ...], float] = {}

    def observe(self, value: float, *labels: str) -> None:
        """Count a value; label values stand in the order of their names."""
        counts = self._counts.setdefault(labels, [*self._zeros])
        counts[bisect_left(self._bounds, value)] += 1
        self._sums[labels] = self._sums.get(labels, 0.0) + value

    def samples(self) -> Iterator[Sample]:
        """The buckets of each series, its sum and its count."""
        for labels in sorted(self._counts):
            text = label_text(self.about.labels, labels)
            total = 0
            for bound, count in zip(self._bounds, self._counts[labels], strict=True):
                total += count
                yield Sample(with_bound(text, bound), total, "_bucket")
            yield Sample(text, self._sums.get(labels, 0.0), "_sum")
            yield Sample(text, total, "_count")


MetricFamily = Reading | Counter | Histogram
"""What the registry shows. `samples` is called for every scrape."""


# --- text -------------------------------------------------------------------------------------

_NO_NUMBERS = {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}


def number(value: float) -> str:
    """A sample's value: no `.0`, and an exponent of two digits below 1e-4 and from 1e6 on."""
    text = repr(float(value)).removesuffix(".0")
    if not 1e6 <= abs(value) < 1e16:  # from there on, Python writes an exponent too
        return _NO_NUMBERS.get(text, text)
    whole, _, fraction = text.partition(".")
    exponent = len(whole.lstrip("-")) - 1
    point = len(whole) - exponent
    digits = (whole + fraction).rstrip("0")
    return f"{digits[:point]}.{digits[point:]}".rstrip(".") + f"e+{exponent:02d}"


def label_text(names: Iterable[str], values: Iterable[str]) -> str:
    """Labels between their braces, sorted by name; "" when there are none."""
    pairs = [
        f'{name}="{_escape(value)}"' for name, value in sorted(zip(names, values, strict=True))
    ]
    return f"{{{','.join(pairs)}}}" if pairs else ""


def with_bound(labels: str, bound: float) -> str:
    """The labels of a histogram's bucket: `le` comes last."""
    return f'{labels[:-1]},le="{number(bound)}"}}' if labels else f'{{le="{number(bound)}"}}'


def header(name: str, kind: str, help_: str) -> str:
    """The two lines in front of a family's samples."""
    escaped = help_.replace("\\", "\\\\").replace("\n", "\\n")
    return f"# HELP {name} {escaped}\n# TYPE {name} {kind}\n"


def _escape(value: str) -> str:
    if '"' in value or "\\" in value or "\n" in value:
        return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
    return value
