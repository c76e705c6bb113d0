"""The flags of the plugin: those of kubectl, where to look, and those of our commands."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from kubeproxy.config.flagset import Flag, Parsed
from kubeproxy.config.kinds import BOOL, DURATION, INT32, STRING, STRINGS
from kubeproxy.config.values import of_seconds
from kubeproxy.tools.kubectl.proxies import NAMESPACE, SELECTOR

_KUBECTL: Final = "kubectl"

CONNECTION: Final = (
    Flag("kubeconfig", STRING, "", "The kubeconfig file; default: as kubectl.", _KUBECTL),
    Flag("context", STRING, "", "The context of the kubeconfig.", _KUBECTL),
    Flag("cluster", STRING, "", "The cluster of the kubeconfig.", _KUBECTL),
    Flag("user", STRING, "", "The user of the kubeconfig.", _KUBECTL),
    Flag("server", STRING, "", "The address of the API server.", _KUBECTL, "s"),
    Flag("token", STRING, "", "A bearer token.", _KUBECTL),
    Flag("as", STRING, "", "Whom to impersonate.", _KUBECTL),
    Flag("as-group", STRINGS, (), "A group to impersonate. May be repeated.", _KUBECTL),
    Flag("as-uid", STRING, "", "A UID to impersonate.", _KUBECTL),
    Flag("certificate-authority", STRING, "", "A file of certificates to trust.", _KUBECTL),
    Flag("client-certificate", STRING, "", "A certificate to log in with.", _KUBECTL),
    Flag("client-key", STRING, "", "Its key.", _KUBECTL),
    Flag("insecure-skip-tls-verify", BOOL, False, "Trust whoever answers.", _KUBECTL),
    Flag("tls-server-name", STRING, "", "Whose certificate to expect.", _KUBECTL),
    Flag("request-timeout", STRING, "", "How long one request may take.", _KUBECTL),
    Flag("cache-dir", STRING, "", "Where kubectl keeps what it has learnt.", _KUBECTL),
)
"""Given to each kubectl that is run."""

PROXIES: Final = (
    Flag("namespace", STRING, NAMESPACE, "The namespace of the proxies' pods.", "Proxies", "n"),
    Flag(
        "selector",
        STRING,
        "",
        f"The labels of the proxies' pods, all of which are asked. Default: {SELECTOR}",
        "Proxies",
        "l",
    ),
    Flag("timeout", DURATION, of_seconds(20), "How long to wait for a node.", "Proxies"),
    Flag("parallel", INT32, 16, "Ask so many nodes at a time.", "Proxies"),
)

NODE: Final = Flag("node", STRINGS, (), "On this node. May be repeated.", "Where")
POD: Final = Flag("pod", STRING, "", "On the node of this pod, [NAMESPACE/]NAME.", "Where")
ALL: Final = Flag("all-nodes", BOOL, False, "On all nodes, and put together.", "Where")
ADDRESSES: Final = Flag(
    "addresses", BOOL, False, "Show addresses, not the names of pods: these are not asked for."
)


def taken(flags: Iterable[Flag], names: Collection[str]) -> tuple[Flag, ...]:
    """Those flags of a command of ours that make sense from afar, without their short forms."""
    return tuple(replace(each, shorthand="") for each in flags if each.name in names)


def passed_on(flags: Sequence[Flag], parsed: Parsed) -> Iterator[str]:
    """The flags that were given, as arguments of another program."""
    for each in flags:
        if each.name in parsed.given:
            value = parsed.values[each.name]
            texts = value if isinstance(value, tuple) else (each.kind.render(value),)
            yield from (f"--{each.name}={text}" for text in texts)
