"""Numbers and times as people read them."""

import pytest

from kubeproxy.serve.status import figures


@pytest.mark.parametrize(
    ("number", "expected"), [(0, "0 services"), (1, "1 service"), (1234, "1,234 services")]
)
def test_plural(number: int, expected: str) -> None:
    assert expected == figures.plural(number, "service")


def test_plural_of_irregular_words() -> None:
    assert figures.plural(2, "address is", "addresses are") == "2 addresses are"


@pytest.mark.parametrize(
    ("rate", "expected"),
    [(None, "\u2013"), (0.0, "0"), (0.04, "0.0"), (12.34, "12.3"), (1234.5, "1,234")],
)
def test_rate(rate: float | None, expected: str) -> None:
    assert expected == figures.rate(rate)


@pytest.mark.parametrize(("number", "expected"), [(None, "\u2013"), (0, "0"), (1234, "1,234")])
def test_connections(number: int | None, expected: str) -> None:
    assert expected == figures.connections(number)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0.0, "0.01 ms"),
        (0.00042, "0.42 ms"),
        (0.0031, "3.1 ms"),
        (0.043, "43 ms"),
        (1.254, "1.25 s"),
        (10.0, "10 s"),
    ],
)
def test_elapsed(seconds: float, expected: str) -> None:
    assert expected == figures.elapsed(seconds)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (-3.0, "0 s"),
        (12.9, "12 s"),
        (75.0, "1 min 15 s"),
        (3700.0, "1 h 1 min"),
        (90_000.0, "1 d 1 h"),
    ],
)
def test_span(seconds: float, expected: str) -> None:
    assert expected == figures.span(seconds)


def test_size() -> None:
    assert figures.size(1_234_567_890) == "1,235 MB"


def test_stamps() -> None:
    assert figures.clock("2026-03-01T12:00:07.123Z") == "12:00:07"
    assert figures.since("2026-03-01T11:59:59.500Z", "2026-03-01T12:00:07Z") == 7.5
