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

from kubeproxy.serve.status.web.markup import NOTHING, Markup, facts, html
from kubeproxy.serve.status.wire import DaemonStatus
from kubeproxy.serve.status.words import span

_HEAD: Final = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width, initial-scale=1">'
    '<meta name="color-scheme" content="light dark"><title>{title}</title>'
    "<link rel=icon href=\"data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg'"
    " viewBox='0 0 16 16'><path d='M2 8h4m0 0 4-5h4M6 8l4 5h4M6 8h8' fill='none'"
    " stroke='%232a78d6' stroke-width='2' stroke-linecap='round'/></svg>\">"
    "<style>{style}</style></head>"
    '<body><a class="skip" href="#main">To the content</a>'
    '<header><h1><a href="/status">kube-proxy</a> on <b>{node}</b></h1>'
    '<nav aria-label="Parts of this page"><a href="/status#explain">Explain</a>'
    '<a href="/status#services">Services</a><a href="/status#syncs">Syncs</a></nav>'
    '<p class="silent" role="status" hidden></p></header><main id="main">'
)


@cache
def asset(name: str) -> tuple[Markup, str]:
    """A file of ours that stands in the page, read once, and its hash as a policy names it."""
    content = pkgutil.get_data(__package__ or "", f"assets/{name}") or b""
    digest = base64.b64encode(hashlib.sha256(content).digest()).decode()
    return Markup(content.decode()), f"'sha256-{digest}'"


def headers() -> tuple[tuple[str, str], ...]:
    """The headers of the page: the browser shows it, and trusts nothing else."""
    policy = (
        "default-src 'none'",
        f"script-src {asset('page.js')[1]}",
        f"style-src {asset('page.css')[1]}",
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
    title: str, node: str, main: Iterable[Markup], footer: Markup = NOTHING
) -> Iterator[Markup]:
    """A whole page, piece by piece."""
    yield html(_HEAD, title=title, style=asset("page.css")[0], node=node)
    yield from main
    yield html("</main>{}<script>{}</script></body></html>\n", footer, asset("page.js")[0])


def footer(status: DaemonStatus) -> Markup:
    """Where everything comes from, and where else to look."""
    about = (
        ("Source", status.source),
        ("Configuration", status.config_file or "flags only"),
        ("Health", status.health_address),
        ("Metrics", status.metrics_address),
        ("Process", f"{status.pid}, {span(status.cpu_seconds)} of processor time"),
        ("Started", status.started),
    )
    return html(
        '<footer>{}<p><a href="/status?format=json">JSON</a><a href="/rules">Rules</a>'
        '<a href="/metrics">Metrics</a></p></footer>',
        facts(about),
    )
