"""`--version`: what it takes, and what it prints.

Support tools compare these texts, so they name the Kubernetes release whose behaviour we follow,
not our own version.
"""

import re
import sys
from typing import Final

from kubeproxy.base import gotext
from kubeproxy.base.version import KUBERNETES_VERSION, VERSION
from kubeproxy.config.errors import ValueTextError
from kubeproxy.config.kinds import FlagKind, render
from kubeproxy.config.values import parse_bool

_RAW: Final = "raw"
_SEMANTIC: Final = re.compile(r"v(\d+\.\d+\.\d+)(?:[-+][0-9A-Za-z.+-]+)?", re.ASCII)


def _parse(text: str) -> str:
    """`true`, `false`, `raw`, or a version to report instead of the built-in one."""
    if text == _RAW:
        return text
    if not text.startswith("v"):
        return render(parse_bool(text))
    wanted, own = _SEMANTIC.fullmatch(text), _SEMANTIC.fullmatch(KUBERNETES_VERSION)
    if wanted is None:
        raise ValueTextError(f"could not parse {gotext.quote(text)} as version")
    if own is None or wanted[1] != own[1]:
        raise ValueTextError(
            f"version {gotext.quote(text)} must match major/minor/patch of default version"
            f" {gotext.quote(KUBERNETES_VERSION)}"
        )
    return text


VERSION_KIND: Final = FlagKind("version", _parse, bare="true")


def reported_version(value: str) -> str:
    """The Kubernetes version that this process reports, given the value of the flag."""
    return value if value.startswith("v") else KUBERNETES_VERSION


def version_text(value: str, machine: str) -> str | None:
    """What the flag asks to print before exiting; None when it does not."""
    if value == "true":
        return f"Kubernetes {KUBERNETES_VERSION}"
    if value != _RAW:
        return None
    major, minor = KUBERNETES_VERSION.removeprefix("v").split(".")[:2]
    fields = {
        "Major": major,
        "Minor": minor,
        "GitVersion": KUBERNETES_VERSION,
        "Compiler": sys.implementation.name,
        "CompilerVersion": ".".join(map(str, sys.version_info[:3])),
        "Platform": f"{sys.platform}/{machine}",
        "Program": f"kubeproxy {VERSION}",
    }
    return f"version.Info{{{', '.join(f'{k}:{gotext.quote(v)}' for k, v in fields.items())}}}"
