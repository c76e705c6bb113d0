"""Whole pages: in order, and safe whatever anybody called anything."""

from collections.abc import Iterator
from functools import cache
from typing import TypeVar

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubeproxy.serve.status.web.asking import Asking
from kubeproxy.serve.status.web.detail import service_page
from kubeproxy.serve.status.web.home import Home, home, not_found, state_parts, syncs
from kubeproxy.serve.status.web.markup import Markup
from kubeproxy.serve.status.wire import Sync
from serve.status.web.parsed import Parsed, Structure
from serve.status.web.samples import (
    CLAIMED,
    DETAIL,
    EXPLANATION,
    HOSTILE,
    IPV4,
    IPV6,
    LIST,
    PORT,
    RATES,
    REFUSED,
    STATUS,
    SYNC,
    WEB,
)

T = TypeVar("T")

replace = msgspec.structs.replace
STAMPS = {"ended", "started", "now"}
ASKED = Asking("outside", "shop/web", (EXPLANATION,), "it makes no sense")
SICK = replace(IPV4, not_programmed=(REFUSED,), conflicts=(CLAIMED,))
HOME = Home(
    status=replace(STATUS, node_eligible=False, families=(SICK, IPV6)),
    rates=RATES,
    found=replace(LIST, total=9, matching=9, services=(replace(WEB, problems=("bad",)),)),
    words="web",
    sort="name",
    asking=ASKED,
)
SERVICE = replace(DETAIL, ports=(replace(PORT, not_programmed="bad", conflicts=(CLAIMED,)),))


def called(value: T, name: str) -> T:
    """The value with every text in it replaced, but for times."""
    if isinstance(value, str):
        return name  # type: ignore[return-value]  # T is str here
    if isinstance(value, tuple):
        return type(value)(called(each, name) for each in value)
    if isinstance(value, dict):
        return dict.fromkeys([name], 1.0)  # type: ignore[return-value]  # T is dict
    if isinstance(value, msgspec.Struct):
        fields = {
            field.name: called(getattr(value, field.name), name)
            for field in msgspec.structs.fields(value)
            if field.name not in STAMPS
        }
        return replace(value, **fields)
    return value


def pages(name: str) -> Iterator[Iterator[Markup]]:
    """Every page, with this name for everything."""
    yield home(called(HOME, name))
    yield service_page(called(SERVICE, name))
    yield not_found(name, name)


def test_the_order_of_the_first_page() -> None:
    found = Parsed(home(HOME))
    assert [id_ for id_ in found.values("id") if id_ in ORDER] == ORDER


ORDER = ["main", "state", "explain", "ask", "answer", "services", "search", "found", "syncs"]


def test_the_parts_are_those_of_the_page() -> None:
    part = "".join(piece.text for piece in state_parts(HOME.status, HOME.rates))
    whole = "".join(piece.text for piece in home(HOME))
    state, syncs = part.split("<section")[1:]
    assert f"<section{state}" in whole
    assert f"<section{syncs}" in whole


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(HOSTILE, id="html"),
        pytest.param("\"'`><script>alert(1)</script>", id="quotes"),
        pytest.param("javascript:alert(1)", id="a-scheme"),
        pytest.param("//example.com/", id="an-address"),
        pytest.param("</main></body></html><!--", id="ends-and-comments"),
        pytest.param("&lt;&#x3c;&amp;", id="references"),
        pytest.param("../../%2e%2e/?a=b#c", id="a-path"),
        pytest.param("\u202e\x00\u2028", id="unseen"),
    ],
)
def test_a_name_changes_nothing_but_text(name: str) -> None:
    assert_only_text_differs(name)


@settings(max_examples=25, deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), min_size=1))
def test_whatever_anybody_chose_is_text(name: str) -> None:
    assert_only_text_differs(name)


@cache
def plain_structures() -> list[Structure]:
    return [Parsed(page).structure for page in pages("x")]


def assert_only_text_differs(name: str) -> None:
    for expected, page in zip(plain_structures(), pages(name), strict=True):
        found = Parsed(page)
        assert expected == found.structure
        for place in (*found.values("href"), *found.values("action"), *found.values("src")):
            assert place.startswith(("/status", "/rules", "/metrics", "#main", "data:image/svg"))


def test_names_are_shown_as_they_are() -> None:
    for page in pages(HOSTILE):
        assert HOSTILE in Parsed(page).text


def history(length: int) -> tuple[Sync, ...]:
    return tuple(
        msgspec.structs.replace(SYNC, ended=f"2026-03-01T11:{n // 60:02d}:{n % 60:02d}Z")
        for n in range(length)
    )


def test_the_syncs_of_both_families_newest_first() -> None:
    first, second, third = history(3)
    failed = msgspec.structs.replace(second, outcome="failed")
    families = (
        msgspec.structs.replace(IPV4, history=(first, third)),
        msgspec.structs.replace(IPV6, history=(failed,)),
    )
    found = Parsed(syncs(msgspec.structs.replace(STATUS, families=families)))
    assert found.values("datetime") == [third.ended, second.ended, first.ended]
    assert found.count("details") == 0
    assert "11:00:01IPv6what changed0.8 ms0104failed" in found.text


def test_older_syncs_are_folded_away_and_the_oldest_left_out() -> None:
    found = Parsed(
        syncs(
            msgspec.structs.replace(
                STATUS, families=(msgspec.structs.replace(IPV4, history=history(100)),)
            )
        )
    )
    assert "48 older syncs" in found.text
    assert len(found.values("datetime")) == 60
