"""The frame: one page with everything in it, and a policy that allows nothing else."""

import base64
import hashlib
import re

import msgspec
import pytest

from kubeproxy.serve.status.web.document import asset, document, footer, headers
from kubeproxy.serve.status.web.markup import element
from serve.status.web.parsed import Parsed
from serve.status.web.samples import STATUS


@pytest.mark.parametrize("tag", ["script", "style"])
def test_the_policy_names_what_stands_in_the_page(tag: str) -> None:
    page = "".join(piece.text for piece in document("t", element("header"), ()))
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
    found = Parsed(document("a <title>", element("header", "top"), [element("p", "middle")]))
    assert found.values("src") == []
    assert [href[:5] for href in found.values("href")] == ["data:", "#main"]
    assert found.text.startswith("a <title>")
    assert found.text.rstrip().endswith("topmiddle")


@pytest.mark.parametrize("name", ["page.js", "page.css"])
def test_assets_cannot_end_their_element(name: str) -> None:
    assert "</" not in asset(name).markup.text


def test_the_script_never_makes_html() -> None:
    script = asset("page.js").markup.text
    assert len(script.splitlines()) < 300
    for word in ("innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval", "Function"):
        assert word not in script


def test_the_style_loads_nothing() -> None:
    assert not re.search(r"url\(|@import|@font-face", asset("page.css").markup.text)


@pytest.mark.parametrize(
    ("file", "expected"), [("", "flags only"), ("/etc/kube-proxy.conf", "/etc/kube-proxy.conf")]
)
def test_the_footer(file: str, expected: str) -> None:
    found = Parsed([footer(msgspec.structs.replace(STATUS, config_file=file))])
    assert expected in found.text
    assert "API server https://192.0.2.1:6443" in found.text
    assert found.values("href") == ["/status?format=json", "/rules", "/metrics"]
