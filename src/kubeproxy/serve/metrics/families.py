"""Families of metrics: counters, gauges, histograms, and what is read when somebody asks.

A family knows its name, kind and help, and gives its samples. Whoever has figures of their own
hands in a `Reading`, or any object with `about` and `samples()`.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from typing import NamedTuple, Protocol

import msgspec

from kubeproxy.serve.metrics.text import label_text, with_bound

INFINITY = float("inf")


class Kind(Enum):
    """What the values of a family are."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class About(msgspec.Struct, frozen=True):
    """What identifies a family. The help begins with `[ALPHA] ` where upstream's does."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()


class Sample(NamedTuple):
    """One line: labels as `text.label_text` writes them, the value, and what the name ends in."""

    labels: str
    value: float
    suffix: str = ""


class Family(Protocol):
    """What the registry shows. `samples` is called for every scrape, and sorts if anybody does."""

    @property
    def about(self) -> About:
        """What identifies it."""
        ...

    def samples(self) -> Iterable[Sample]:
        """Its samples now."""
        ...


class Reading:
    """A family that is read when somebody asks: pairs of label values and value."""

    def __init__(
        self, about: About, read: Callable[[], Iterable[tuple[tuple[str, ...], float]]]
    ) -> None:
        self.about = about
        self._read = read

    def samples(self) -> Iterator[Sample]:
        """Its samples now."""
        names = self.about.labels
        return (Sample(label_text(names, values), value) for values, value in self._read())


class Counter:
    """Counts. One without labels is there from the start; series with labels when first told."""

    kind = Kind.COUNTER

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

    kind = Kind.GAUGE

    def set(self, value: float, *labels: str) -> None:
        """It is this now."""
        self._values[labels] = value


class Histogram:
    """How often values came to lie below each of the bounds, which are in order."""

    def __init__(
        self, name: str, help_: str, bounds: Sequence[float], labels: tuple[str, ...] = ()
    ) -> None:
        self.about = About(name, Kind.HISTOGRAM, help_, labels)
        self._bounds = (*bounds, INFINITY)
        self._counts: dict[tuple[str, ...], list[int]] = {}
        self._sums: dict[tuple[str, ...], float] = {}
        if not labels:
            self._open(())

    def observe(self, value: float, *labels: str) -> None:
        """Take a value in; label values stand in the order of their names."""
        if labels not in self._counts:
            self._open(labels)
        self._counts[labels][bisect_left(self._bounds, value)] += 1
        self._sums[labels] += value

    def samples(self) -> Iterator[Sample]:
        """The buckets of each series, its sum and its count."""
        for labels in sorted(self._counts):
            text = label_text(self.about.labels, labels)
            total = 0
            for bound, count in zip(self._bounds, self._counts[labels], strict=True):
                total += count
                yield Sample(with_bound(text, bound), total, "_bucket")
            yield Sample(text, self._sums[labels], "_sum")
            yield Sample(text, total, "_count")

    def _open(self, labels: tuple[str, ...]) -> None:
        self._counts[labels] = [0] * len(self._bounds)
        self._sums[labels] = 0.0
