"""Numbers, times and names as people read them."""

import msgspec
import pytest

from kubeproxy.serve.status import words
from kubeproxy.serve.status.wire import FastPathStatus
from kubeproxy.serve.status.words import fast_path, unknown

LAST = "/rules lists all; a Service that is headless, or of type ExternalName, has none\n"


@pytest.mark.parametrize(
    ("number", "expected"), [(0, "0 services"), (1, "1 service"), (1234, "1,234 services")]
)
def test_plural(number: int, expected: str) -> None:
    assert expected == words.plural(number, "service")


def test_plural_of_irregular_words() -> None:
    assert words.plural(2, "address is", "addresses are") == "2 addresses are"


@pytest.mark.parametrize(
    ("rate", "expected"),
    [(None, "\u2013"), (0.0, "0"), (0.04, "0.0"), (12.34, "12.3"), (1234.5, "1,234")],
)
def test_rate(rate: float | None, expected: str) -> None:
    assert expected == words.rate(rate)


@pytest.mark.parametrize(("number", "expected"), [(None, "\u2013"), (0, "0"), (1234, "1,234")])
def test_connections(number: int | None, expected: str) -> None:
    assert expected == words.connections(number)


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
    assert expected == words.elapsed(seconds)


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
    assert expected == words.span(seconds)


def test_size() -> None:
    assert words.size(1_234_567_890) == "1,235 MB"


def test_stamps() -> None:
    assert words.clock("2026-03-01T12:00:07.123Z") == "12:00:07"
    assert words.since("2026-03-01T11:59:59.500Z", "2026-03-01T12:00:07Z") == 7.5


def test_the_names_that_are_near() -> None:
    services = {("shop", "web"), ("shop", "cart"), ("mall", "till")}
    expected = (
        "no rules for shop/till\na service of this name is in: mall\n"
        f"namespace shop has: cart, web\n{LAST}"
    )
    assert expected == unknown("rules", ("shop", "till"), services, "/rules")


def test_of_many_names_the_first_are_named() -> None:
    services = {("shop", f"s{number:02d}") for number in range(25)}
    found = unknown("rules", ("shop", "web"), services, "/rules")
    assert "s18, s19 and 5 more\n" in found


def test_names_do_nothing_to_a_terminal() -> None:
    found = unknown("rules", ("shop", "\x1b[2J"), {("shop", "web\x1b[31m\nfake")}, "/rules")
    expected = f"no rules for shop/\ufffd[2J\nnamespace shop has: web\ufffd[31m\ufffdfake\n{LAST}"
    assert expected == found


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param(None, "", id="a-mode-without-one"),
        pytest.param({"wanted": False, "on": False, "reason": "disabled"}, "", id="not-wanted"),
        pytest.param(
            {"wanted": True, "on": False, "reason": "self-test"}, "off (self-test)", id="off"
        ),
        pytest.param(
            {"wanted": True, "on": True, "reason": "", "connections": {"IPv4": 1200, "IPv6": 3}},
            "1,203 connections, each after 20 packets; 2 devices",
            id="on",
        ),
    ],
)
def test_the_fast_path(path: dict[str, object] | None, expected: str) -> None:
    rest = {
        "whyNot": "",
        "afterPackets": 20,
        "devices": ["eth0", "veth1"],
        "leftOut": [],
        "connections": {},
    }
    found = None if path is None else msgspec.convert({**rest, **path}, FastPathStatus)
    assert expected == fast_path(found)
