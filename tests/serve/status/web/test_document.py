"""The frame: one page with everything in it, and a policy that allows nothing else."""

import base64
import hashlib
import re

import msgspec
import pytest

from kubeproxy.serve.status.web.document import asset, document, footer, headers
from kubeproxy.serve.status.web.markup import html
from serve.status.web.parsed import Parsed
from serve.status.web.samples import STATUS


@pytest.mark.parametrize("tag", ["script", "style"])
def test_the_policy_names_what_stands_in_the_page(tag: str) -> None:
    page = "".join(piece.text for piece in document("t", "kestrel", ()))
    found = re.search(f"<{tag}>(.*)</{tag}>", page, re.DOTALL)
    assert found is not None
    digest = base64.b64encode(hashlib.sha256(found[1].encode()).digest()).decode()
    policy = dict(headers())["Content-Security-Policy"].split("; ")
    assert f"{tag}-src 'sha256-{digest}'" in policy


def test_nothing_else_is_allowed() -> None:
    sent = dict(headers())
    policy = sent["Content-Security-Policy"].split("; ")
    assert policy[0] == "default-src 'none'"
    assert not re.search(r"unsafe|https?:|\*", sent["Content-Security-Policy"])
    for words in (
        *("connect-src 'self'", "form-action 'self'", "base-uri 'none'"),
        *("frame-ancestors 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'"),
    ):
        assert words in policy
    assert sent["X-Content-Type-Options"] == "nosniff"
    assert sent["Referrer-Policy"] == "no-referrer"
    assert sent["Cache-Control"] == "no-store"
    assert sent["Content-Type"] == "text/html; charset=utf-8"


def test_the_page_loads_nothing() -> None:
    found = Parsed(document("a <title>", "kestrel", [html("<p>middle</p>")], html("<p>end</p>")))
    assert found.values("src") == []
    places = [href.partition("#")[0] for href in found.values("href")]
    assert places[0].startswith("data:image/svg+xml,")
    assert places[1:] == ["", *["/status"] * 4]
    assert found.text.startswith("a <title>To the contentkube-proxy on kestrelExplainServices")
    assert found.text.rstrip().endswith("middleend")


@pytest.mark.parametrize("name", ["page.js", "page.css"])
def test_assets_cannot_end_their_element(name: str) -> None:
    assert "</" not in asset(name)[0].text


def test_the_script_never_makes_html() -> None:
    script = asset("page.js")[0].text
    assert len(script.splitlines()) < 300
    for word in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval", "Function"):
        assert word not in script


def test_the_style_loads_nothing() -> None:
    assert not re.search(r"url\(|@import|@font-face", asset("page.css")[0].text)


@pytest.mark.parametrize(
    ("file", "expected"), [("", "flags only"), ("/etc/kube-proxy.conf", "/etc/kube-proxy.conf")]
)
def test_the_footer(file: str, expected: str) -> None:
    found = Parsed([footer(msgspec.structs.replace(STATUS, config_file=file))])
    assert expected in found.text
    assert "API server https://192.0.2.1:6443" in found.text
    assert found.values("href") == ["/status?format=json", "/rules", "/metrics"]
