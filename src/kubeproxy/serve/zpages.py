"""/configz, /flagz and /statusz: configuration, flags and version of this process.

/flagz and /statusz are one object each, as text, JSON or YAML, as the client accepts. Upstream's
rules: text unless a versioned object is asked for by group, version and kind.
"""

import json
import sys
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from kubeproxy.base.version import KUBERNETES_VERSION
from kubeproxy.config.document import to_document
from kubeproxy.config.types import KubeProxyConfiguration
from kubeproxy.serve.http.answer import JSON, Answer
from kubeproxy.serve.http.request import Request

_UNSTABLE = (
    "Warning: This page is for people who look for a fault. Its layout is not for programs:"
    " it may change at any time."
)
_GROUP = "config.k8s.io"
_VERSIONS = {"v1beta1": False, "v1alpha1": True}
"""Whether a version is deprecated."""
_TEXT = (("Content-Type", "text/plain; charset=utf-8"),)
_TEXT_RANGES = ("*/*", "text/*", "text/plain")


def configz(config: KubeProxyConfiguration) -> Answer:
    """The configuration."""
    document = {"kubeproxy.config.k8s.io": to_document(config)}
    body = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    return Answer(200, JSON, body.encode())


def flagz(flags: Mapping[str, str], request: Request) -> Answer:
    """The flags of the command line."""
    lines = [f"{name}={value}" for name, value in flags.items()]
    return negotiate(request, "Flagz", lines, {"flags": flags})


def python_version() -> str:
    """The interpreter's version, where upstream has Go's."""
    return ".".join(map(str, sys.version_info[:3]))


def statusz(every: Iterable[str], started: float, now: float, request: Request) -> Answer:
    """When the process started, its versions, and those of the paths that have one part."""
    up, since = int(now - started), datetime.fromtimestamp(started, UTC)
    version = KUBERNETES_VERSION.removeprefix("v")
    emulated = ".".join(version.split(".")[:2])
    paths = sorted(path for path in every if path.count("/") == 1)
    hours, minutes, seconds = up // 3600, up // 60 % 60, up % 60
    lines = [
        "",
        f"Started: {since.astimezone():%a %b %d %H:%M:%S %Z %Y}",
        f"Up: {hours} hr {minutes:02d} min {seconds:02d} sec",
        f"Python version: {python_version()}",
        f"Binary version: {version}",
        f"Emulation version: {emulated}",
        f"Paths: {' '.join(paths)}",
    ]
    fields = {
        "startTime": f"{since:%Y-%m-%dT%H:%M:%SZ}",
        "uptimeSeconds": up,
        "goVersion": f"python{python_version()}",
        "binaryVersion": version,
        "emulationVersion": emulated,
        "paths": paths,
    }
    return negotiate(request, "Statusz", lines, fields)


# --- what the client accepts ------------------------------------------------------------------


def negotiate(
    request: Request, kind: str, lines: Iterable[str], fields: Mapping[str, object]
) -> Answer:
    """The answer that fits what the client accepts; 406 when none does."""
    for name, parameters in _preferences(request.headers.get("accept", "")):
        if name in _TEXT_RANGES and not parameters:
            shown = "\n".join(("", f"kube-proxy {kind.lower()}", _UNSTABLE, *lines, ""))
            return Answer(200, _TEXT, shown.encode())
        version = parameters.get("v", "")
        asked = (parameters.get("g"), parameters.get("as"))
        if name in _WRITERS and asked == (_GROUP, kind) and version in _VERSIONS:
            return _object(name, version, kind, fields)
    return _not_acceptable()


def _preferences(accept: str) -> list[tuple[str, dict[str, str]]]:
    """Media ranges with their parameters, the most wanted first."""
    found: list[tuple[float, str, dict[str, str]]] = []
    for part in (accept or "*/*").split(","):
        name, *rest = (word.strip() for word in part.split(";"))
        parameters = dict(word.split("=", 1) for word in rest if "=" in word)
        found.append((_quality(parameters.pop("q", "1")), name.lower(), parameters))
    found.sort(key=lambda each: -each[0])
    return [(name, parameters) for quality, name, parameters in found if quality > 0]


def _quality(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0


def _object(media: str, version: str, kind: str, fields: Mapping[str, object]) -> Answer:
    headers = [("Content-Type", f"{media};g={_GROUP};v={version};as={kind}")]
    if _VERSIONS[version]:
        old = f"This version of the {kind.lower()} endpoint is deprecated."
        headers.append(("Warning", f'299 - "{old} Please use a newer version."'))
    document = {
        "kind": kind,
        "apiVersion": f"{_GROUP}/{version}",
        "metadata": {"name": "kube-proxy"},
        **fields,
    }
    return Answer(200, tuple(headers), _WRITERS[media](document).encode())


def _json(document: Mapping[str, object]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False)


def _yaml(document: Mapping[str, object]) -> str:
    import yaml  # noqa: PLC0415  # hardly ever asked for

    text: str = yaml.safe_dump(document, allow_unicode=True, default_flow_style=False)
    return text


_WRITERS = {"application/json": _json, "application/yaml": _yaml}


def _not_acceptable() -> Answer:
    accepted = ", ".join((*_WRITERS, "text/plain"))
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"only the following media types are accepted: {accepted}",
        "reason": "NotAcceptable",
        "code": 406,
    }
    return Answer(406, (("Content-Type", "application/json"),), _json(status).encode())
