"""`kube-proxy explain`: where would this packet go, and why.

The running proxy answers when there is one and nothing else is named: it knows the node's
addresses and its own settings. Else the cluster is read, from an API server or from manifests.
"""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from kubeproxy.base.errors import FieldError, NoDaemonError, OperatorError
from kubeproxy.base.inet import parse_address
from kubeproxy.config.flags import FLAGS
from kubeproxy.config.flagset import Flag, Parsed
from kubeproxy.config.kinds import BOOL, STRING, STRINGS
from kubeproxy.config.load import load
from kubeproxy.config.validate import validate
from kubeproxy.dataplane.modes import MODES
from kubeproxy.explain.answers import Asked, answer
from kubeproxy.explain.words import INDENT, Explanation, render
from kubeproxy.tools import client
from kubeproxy.tools.clusterflags import SHARED_FLAGS
from kubeproxy.tools.command import OUTPUT, Command, note, print_answer
from kubeproxy.tools.layout import fitted
from kubeproxy.tools.snapshot import NoCluster, read_view

_OWN: Final = (
    Flag(
        "from",
        STRING,
        "outside",
        "Who sends the packet: an address, 'outside', 'host', or a pod ([NAMESPACE/]NAME).",
    ),
    Flag(
        "to",
        STRINGS,
        (),
        "Where to: ADDRESS:PORT[/PROTOCOL], ADDRESS, or [NAMESPACE/]SERVICE[:PORT][/PROTOCOL]."
        " May be repeated; also as an argument, without the flag.",
    ),
    Flag(
        "node",
        STRING,
        "",
        "The node that handles the packet; default: that of the pod that sends it, else this"
        " host.",
    ),
    Flag(
        "interface",
        STRING,
        "",
        "The interface on which the packet enters the node; only detectLocalMode BridgeInterface"
        " and InterfaceNamePrefix look at it.",
    ),
    OUTPUT,
)
_LIVE: Final = (
    Flag(
        "live",
        BOOL,
        False,
        "Ask the running kube-proxy only. It is asked first anyway, unless a cluster, a node or"
        " settings are named.",
        "Daemon",
    ),
    *client.FLAGS,
)
_NO_PODS: Final = (
    "it is no address, and the running kube-proxy does not know Pods: give the Pod's address"
    " (kubectl get pods -o wide), or name the cluster with --kubeconfig or --manifests"
)
# Flags that name a node, a cluster or settings, which the running proxy has already.
_ELSEWHERE: Final = frozenset({"node", *(flag.name for flag in SHARED_FLAGS)} - {"help"})


def _run(parsed: Parsed) -> int:
    destinations = (*parsed.value("to", tuple), *filter(None, parsed.positionals))
    if not destinations:
        raise OperatorError("say where the packet goes: kube-proxy explain SERVICE, or --to")
    asked = Asked(parsed.value("from", str), destinations, parsed.value("interface", str))
    found = _answered(parsed, asked)
    text = "\n\n".join(map(render, found))
    print_answer(parsed, found, lambda width: fitted(text, width, INDENT), cut=False)
    return 0


def _answered(parsed: Parsed, asked: Asked) -> Sequence[Explanation]:
    """By the running proxy, or by what the command line names."""
    elsewhere = sorted(parsed.given & _ELSEWHERE)
    live = parsed.value("live", bool)
    if live or not parsed.given.isdisjoint({"socket", "address"}):
        if elsewhere:
            raise OperatorError(
                f"--{elsewhere[0]} is not possible here: the running proxy, which is to answer,"
                " has its node, its cluster and its settings"
            )
        return _by_daemon(parsed, asked)
    if elsewhere or "live" in parsed.given:
        return _by_cluster(parsed, asked)
    try:
        return _by_daemon(parsed, asked)
    except NoDaemonError as no_daemon:
        try:
            return _by_cluster(parsed, asked)
        except NoCluster as error:
            from kubeproxy.tools.offline import kernels_mode, rules_text  # noqa: PLC0415  # rarely

            rules = rules_text(kernels_mode())
            raise type(no_daemon)(f"{error}; {no_daemon}\n{rules}".rstrip()) from error


def _by_daemon(parsed: Parsed, asked: Asked) -> Sequence[Explanation]:
    query = {"from": asked.source, "to": asked.destinations, "interface": asked.interface}
    try:
        answers = client.connect(parsed).get("/status/explain", tuple[Explanation, ...], query)
    except FieldError as error:
        if error.field == "from" and pod_of(asked.source):
            raise FieldError("from", asked.source, _NO_PODS) from error
        raise
    about = answers[0]
    note(f"answered by the running kube-proxy ({about.mode} mode, node {about.node})")
    return answers


def _by_cluster(parsed: Parsed, asked: Asked) -> Sequence[Explanation]:
    loaded = load(parsed, MODES)
    validate(loaded.config, loaded.gates, MODES)
    return answer(asked, read_view(parsed, loaded, pod_of(asked.source)))


def pod_of(source: str) -> str:
    """The pod that a source names, if it names one."""
    is_pod = source not in {"outside", "host"} and parse_address(source.strip("[]")) is None
    return source if is_pod else ""


COMMAND: Final = Command(
    "explain DESTINATION...",
    (*_OWN, *_LIVE, *FLAGS),
    _run,
    listed=(
        *(replace(flag, group="Question") for flag in _OWN),
        *_LIVE,
        *SHARED_FLAGS,
    ),
    takes_arguments=True,
)
main, usage_text = COMMAND.main, COMMAND.usage_text
