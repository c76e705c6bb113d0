"""The page in the browser: which part is asked for, and what comes of the running daemon."""

import subprocess
import sys
from collections.abc import Mapping
from urllib.parse import urlencode

import pytest

from kubeproxy.base.steps import finish
from kubeproxy.explain.words import render
from kubeproxy.serve.http.answer import Answer
from kubeproxy.serve.http.request import Request
from kubeproxy.serve.status.packets import explanations
from kubeproxy.serve.status.page import ROWS
from kubeproxy.serve.status.pages import show_daemon, show_service
from kubeproxy.serve.status.web.markup import Markup
from serve.status.living import Rig, programmed
from serve.status.web.parsed import Parsed
from world import CLUSTER_IP, endpoint_slice, everywhere, service

SHOP = (
    everywhere({"externalTrafficPolicy": "Local"}),
    endpoint_slice("L1 R1 R2:unready"),
    service({"clusterIP": "10.112.0.30", "ports": [{"port": 7}]}, name="books"),
)


async def shown(rig: Rig, path: str, query: Mapping[str, str]) -> Answer:
    """What a browser gets."""
    show = show_service if "services" in path else show_daemon
    return await show(Request("GET", path, query, {"accept": "text/html"}), rig.live)


async def asked(rig: Rig, path: str = "/status", **query: str) -> tuple[Answer, Parsed]:
    answer = await shown(rig, path, query)
    assert not isinstance(answer.body, bytes)
    body = b"".join([piece async for piece in answer.body])
    return answer, Parsed([Markup(body.decode())])


def loaded_with(module: str) -> set[str]:
    """The modules of the status that come with a module."""
    program = f"import sys, {module}; print(*sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    prefix = "kubeproxy.serve.status."
    return {name.removeprefix(prefix) for name in ended.stdout.split() if prefix in name}


def test_a_daemon_without_requests_has_loaded_nothing() -> None:
    assert loaded_with("kubeproxy.app.daemon") == {"history", "live", "state"}


def test_programs_that_ask_do_not_load_the_page() -> None:
    loaded = loaded_with("kubeproxy.serve.status.pages")
    assert "services" in loaded
    assert not any(name == "page" or name.startswith("web") for name in loaded)


async def test_the_first_page() -> None:
    answer, found = await asked(await programmed(*SHOP))
    assert answer.status == 200
    headers: Mapping[str, str] = dict(answer.headers)
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert {"state", "explain", "services", "syncs"} <= set(found.values("id"))
    assert "shop/cart" in found.text
    assert "kube-proxy on kestrel" in found.text


@pytest.mark.parametrize(
    ("part", "query", "expected"),
    [
        ("state", {}, ["state", "syncs"]),
        ("services", {"q": "cart"}, ["found"]),
        ("answer", {"from": "host", "to": "shop/cart"}, ["answer", "as-text"]),
    ],
)
async def test_a_part(part: str, query: Mapping[str, str], expected: list[str]) -> None:
    answer, found = await asked(await programmed(*SHOP), part=part, **query)
    assert answer.status == 200
    assert expected == found.values("id")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        pytest.param({}, ["shop/books", "shop/cart"], id="all-by-name"),
        pytest.param({"q": "book"}, ["shop/books"], id="search"),
        pytest.param({"sort": "connections"}, ["shop/cart", "shop/books"], id="by-connections"),
        pytest.param({"sort": "colour"}, ["shop/books", "shop/cart"], id="by-nonsense"),
    ],
)
async def test_searching_and_sorting(query: Mapping[str, str], expected: list[str]) -> None:
    rig = await programmed(*SHOP)
    for kernel in rig.kernels.values():
        kernel.counted = {name: 5 for name in kernel.entries if name.service == "cart"}
    _, found = await asked(rig, part="services", **query)
    assert expected == found.values("data-rate")


async def test_of_many_services_the_first_are_shown() -> None:
    many = [service({"clusterIP": f"10.112.1.{n}"}, name=f"many-{n:03d}") for n in range(ROWS + 7)]
    _, found = await asked(await programmed(*many))
    assert len(found.values("data-rate")) == ROWS + 1  # and all together
    assert f"1\u2013{ROWS} of {ROWS + 7}" in found.text
    assert f"/status?q=&sort=name&offset={ROWS}#services" in found.values("href")


async def test_the_others_are_on_the_next_page() -> None:
    many = [service({"clusterIP": f"10.112.1.{n}"}, name=f"many-{n:03d}") for n in range(ROWS + 7)]
    rig = await programmed(*many)
    _, found = await asked(rig, offset=str(ROWS))
    assert f"{ROWS + 1}\u2013{ROWS + 7} of {ROWS + 7}" in found.text
    assert "shop/many-206" in found.text
    _, found = await asked(rig, offset="many")
    assert f"1\u2013{ROWS} of {ROWS + 7}" in found.text


async def test_the_answer_is_that_of_the_command() -> None:
    rig = await programmed(*SHOP)
    _, found = await asked(rig, **{"from": " host ", "to": f" {CLUSTER_IP} "})
    expected = finish(explanations(rig.live.state(), "host", [CLUSTER_IP]))
    assert isinstance(expected, list)
    assert "\n\n".join(map(render, expected)) in found.text


@pytest.mark.parametrize(
    ("source", "destination", "expected"),
    [
        ("", "shop/missing", "to shop/missing: no such Service is proxied"),
        ("some-pod", CLUSTER_IP, "from some-pod: it is no address"),
    ],
)
async def test_a_question_that_has_no_answer(source: str, destination: str, expected: str) -> None:
    rig = await programmed(*SHOP)
    _, found = await asked(rig, part="answer", **{"from": source, "to": destination})
    assert expected in found.text


async def test_before_the_first_sync() -> None:
    answer, found = await asked(Rig(*SHOP), **{"from": "host", "to": CLUSTER_IP})
    assert answer.status == 200
    assert "nothing is programmed yet: ask again" in found.text
    assert "IPv4: nothing is programmed yet by this process" in found.text


@pytest.mark.parametrize("path", ["/status/services/shop/cart", "/status/services/cart"])
async def test_a_service(path: str) -> None:
    answer, found = await asked(await programmed(*SHOP), path)
    assert answer.status == 200
    assert "shop/cart on kestrel" in found.text
    assert "it is on node heron, and the traffic policy is Local" in found.text
    _, part = await asked(await programmed(*SHOP), path, part="service")
    assert part.values("id")[0] == "service"
    assert part.count("script") == 0


@pytest.mark.parametrize("name", ["cart", "ca<b>rt"])
async def test_a_name_that_several_or_none_have_is_searched_for(name: str) -> None:
    other = service({"clusterIP": "10.112.0.99"})
    other["metadata"] = {"namespace": "other", "name": "cart"}
    rig = await programmed(*SHOP, other)
    answer = await shown(rig, f"/status/services/{name}", {})
    assert (answer.status, answer.body) == (303, b"")
    assert dict(answer.headers) == {"Location": f"/status?{urlencode({'q': name})}"}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/status/services/shop/caart", "namespace shop has: books, cart"),
    ],
)
async def test_a_service_that_is_not_there(path: str, expected: str) -> None:
    answer, found = await asked(await programmed(*SHOP), path)
    assert answer.status == 404
    assert expected in found.text
