"""`/` on the metrics port: which program answers there, and what it has to show."""

from collections.abc import Collection
from html import escape
from typing import Final

from kubeproxy.base.version import described
from kubeproxy.serve.http.answer import Answer, text
from kubeproxy.serve.http.request import Request

_ABOUT: Final = {
    "/status": "how it is, its services and their connections, and where a packet goes",
    "/rules": "the forwarding table, and what is written for each service",
    "/metrics": "metrics, for Prometheus",
    "/metrics/slis": "metrics of the health checks",
    "/healthz": "whether the process is alive",
    "/proxyMode": "the mode",
    "/configz": "the configuration in force",
    "/flagz": "the flags of the command line",
    "/statusz": "version, start, paths",
    "/debug/pprof/": "profiles of the program",
}
"""What people look for, in that order; other paths belong to these."""
_HTML: Final = (
    ("Content-Type", "text/html; charset=utf-8"),
    ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'"),
    ("X-Content-Type-Options", "nosniff"),
)
_PAGE: Final = (
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
    '<meta name="color-scheme" content="light dark">'
    "<style>body{{font-family:system-ui;margin:2em}}dt{{float:left;min-width:9em}}</style>"
    "<h1>{title}</h1><dl>{rows}</dl></html>\n"
)


def index(paths: Collection[str], node: str, commit: str, request: Request) -> Answer:
    """The paths that this daemon has, as text or for a browser."""
    title = f"kube-proxy on {node}: {described(commit)}"
    prefixes = tuple(path for path in paths if path.endswith("/"))
    known = {
        path: about
        for path, about in _ABOUT.items()
        if path in paths or (path.endswith("/") and path.startswith(prefixes))
    }
    if "text/html" in request.headers.get("accept", ""):
        rows = "".join(
            f'<dt><a href="{path}">{path}</a></dt><dd>{about}</dd>'
            for path, about in known.items()
        )
        return Answer(headers=_HTML, body=_PAGE.format(title=escape(title), rows=rows).encode())
    width = max(map(len, known), default=0)
    lines = (f"{path:<{width}}  {about}" for path, about in known.items())
    return text("\n".join((title, "", *lines, "")))
