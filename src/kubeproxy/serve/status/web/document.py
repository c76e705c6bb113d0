"""The frame of every page: head, style, script, and the policy that keeps everything else out.

The style and the script stand in the page itself, so it loads nothing. The browser runs these two
texts and no others: their hashes are in the policy, and the policy forbids the script to make
HTML from strings.
"""

import base64
import hashlib
import pkgutil
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Final

import msgspec

from kubeproxy.serve.status.web.markup import (
    NOTHING,
    Markup,
    address,
    element,
    fact,
    together,
    trusted,
)
from kubeproxy.serve.status.wire import DaemonStatus
from kubeproxy.serve.status.words import span

_ICON: Final = trusted(
    "<link rel=icon href=\"data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg'"
    " viewBox='0 0 16 16'><path d='M2 8h4m0 0 4-5h4M6 8l4 5h4M6 8h8' fill='none'"
    " stroke='%232a78d6' stroke-width='2' stroke-linecap='round'/></svg>\">"
)


class Asset(msgspec.Struct, frozen=True):
    """A file of ours that stands in the page, and its hash as a policy names it."""

    markup: Markup
    source: str


@cache
def asset(name: str) -> Asset:
    """A file of the package, read once."""
    content = pkgutil.get_data(__package__ or "", f"assets/{name}") or b""
    digest = base64.b64encode(hashlib.sha256(content).digest()).decode()
    return Asset(trusted(content.decode()), f"'sha256-{digest}'")


def headers() -> tuple[tuple[str, str], ...]:
    """The headers of the page: the browser shows it, and trusts nothing else."""
    policy = (
        "default-src 'none'",
        f"script-src {asset('page.js').source}",
        f"style-src {asset('page.css').source}",
        "img-src data:",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
    return (
        ("Content-Type", "text/html; charset=utf-8"),
        ("Content-Security-Policy", "; ".join(policy)),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Cache-Control", "no-store"),
    )


def document(
    title: str, heading: Markup, main: Iterable[Markup], footer: Markup = NOTHING
) -> Iterator[Markup]:
    """A whole page, piece by piece."""
    yield together(
        (
            trusted('<!doctype html><html lang="en"><head><meta charset="utf-8">'),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="color-scheme", content="light dark"),
            element("title", title),
            _ICON,
            element("style", asset("page.css").markup),
            trusted('</head><body><a class="skip" href="#main">To the content</a>'),
            heading,
            trusted('<main id="main">'),
        )
    )
    yield from main
    yield trusted("</main>")
    yield footer
    yield element("script", asset("page.js").markup)
    yield trusted("</body></html>\n")


def heading(node: str) -> Markup:
    """What stands above every page."""
    return element(
        "header",
        element("h1", element("a", "kube-proxy", href="/status"), " on ", element("b", node)),
        element(
            "nav",
            element("a", "Explain", href="/status#explain"),
            element("a", "Services", href="/status#services"),
            element("a", "Syncs", href="/status#syncs"),
            aria_label="Parts of this page",
        ),
        element("p", class_="silent", role="status", hidden=True),
    )


def footer(status: DaemonStatus) -> Markup:
    """Where everything comes from, and where else to look."""
    facts = (
        ("Source", status.source),
        ("Configuration", status.config_file or "flags only"),
        ("Health", status.health_address),
        ("Metrics", status.metrics_address),
        ("Process", f"{status.pid}, {span(status.cpu_seconds)} of processor time"),
        ("Started", status.started),
    )
    return element(
        "footer",
        element("dl", *(each for label, text in facts for each in fact(label, text))),
        element(
            "p",
            element("a", "JSON", href=address("status", format="json")),
            element("a", "Rules", href="/rules"),
            element("a", "Metrics", href="/metrics"),
        ),
    )
