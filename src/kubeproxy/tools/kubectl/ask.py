"""Which proxies are meant, and what each of them answers."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

import msgspec

from kubeproxy.base.errors import ApiServerError, OperatorError
from kubeproxy.config.flagset import Parsed
from kubeproxy.config.values import Duration
from kubeproxy.tools.command import not_negative
from kubeproxy.tools.kubectl.flags import CONNECTION, passed_on
from kubeproxy.tools.kubectl.kubectl import (
    Done,
    Kubectl,
    at_once,
    find_kubectl,
    remark,
    shown_progress,
)
from kubeproxy.tools.kubectl.overview import (
    Grade,
    NodeReport,
    answered,
    answered_by_go,
    without_answer,
)
from kubeproxy.tools.kubectl.podnames import TEMPLATE, PodNames, named_values, read_names
from kubeproxy.tools.kubectl.proxies import (
    SELECTOR,
    Kind,
    Nodes,
    Pod,
    Pods,
    Proxy,
    askable,
    named,
    on_nodes,
    proxies,
    some,
)

T = TypeVar("T")

_HEALTH_PORT: Final = 10256
_METRICS_PORT: Final = 10249


class Cluster:
    """The cluster that the command line names, and what has been learnt of it."""

    def __init__(self, parsed: Parsed) -> None:
        seconds = parsed.value("timeout", Duration).seconds
        self._parsed = parsed
        self.kubectl: Final = find_kubectl(passed_on(CONNECTION, parsed), seconds)
        self.limit: Final = max(1, not_negative(parsed, "parallel"))

    def proxies(self) -> list[Proxy]:
        """The proxy of each node."""
        namespace = self._parsed.value("namespace", str)
        selected = self._parsed.value("selector", str)
        selector = selected or SELECTOR
        pods = self.kubectl.get(
            Pods, ["pods", f"--namespace={namespace}", f"--selector={selector}"]
        )
        if not pods.items:
            raise OperatorError(
                f"no pod in namespace {namespace} has the labels {selector}: --namespace and"
                " --selector say where the proxies are"
            )
        try:
            nodes = self.kubectl.get(Nodes, ["nodes"]).items
        except ApiServerError as error:
            remark(f"nodes without a proxy are not shown: {error}")
            nodes = ()
        return proxies(pods.items, nodes, all_ours=bool(selected))

    def chosen(self, *, by_default: str = "", everywhere: bool = False) -> list[Proxy]:
        """The proxies that the command line means.

        `by_default` is a pod whose node is meant when nothing else is said; `everywhere` says that
        all are meant then.
        """
        parsed, found = self._parsed, self.proxies()
        wanted = [str(each) for each in parsed.value("node", tuple)]
        if pod := parsed.value("pod", str):
            wanted.append(self.node_of(pod))
        if "all-nodes" in parsed.values and parsed.value("all-nodes", bool):
            everywhere = True
        if not wanted and not everywhere and by_default:
            wanted.append(self.node_of(by_default))
        if wanted:
            return on_nodes(found, wanted)
        if everywhere or len(found) == 1:
            return found
        names = [each.node for each in found]
        raise OperatorError(f"on which node? Give --node with one of: {some(names)}; or --pod")

    def pod(self, text: str) -> Pod:
        """A pod, by [NAMESPACE/]NAME."""
        namespace, name = named(text)
        return self.kubectl.get(Pod, ["pod", name, f"--namespace={namespace}"])

    def node_of(self, text: str) -> str:
        """The node of a pod."""
        node = self.pod(text).spec.node_name
        if not node:
            raise OperatorError(f"Pod {text} is on no node yet")
        return node

    def names(self) -> PodNames:
        """The names of all pods, unless the command line wants addresses."""
        if self._parsed.value("addresses", bool):
            return {}
        try:
            printed = self.kubectl.read(["get", "pods", "--all-namespaces", f"-o={TEMPLATE}"])
        except ApiServerError as error:
            remark(f"addresses are shown, not the names of pods: {error}")
            return {}
        return read_names(printed.decode())


# --- asking -----------------------------------------------------------------------------------


class Answers(msgspec.Struct, frozen=True):
    """What came of each node that was asked, and why others gave no answer."""

    done: Mapping[str, Done]
    errors: Mapping[str, str]


def ask(cluster: Cluster, chosen: Sequence[Proxy], words: Sequence[str]) -> Answers:
    """Run one of our commands on these nodes, many at a time."""
    kubectl, asked = cluster.kubectl, list(askable(chosen))
    jobs = {
        each.node: partial(kubectl.run, kubectl.inside(each, words, "--stdin=false"))
        for each in asked
    }
    done = at_once(jobs, cluster.limit, shown_progress("asked nodes", len(jobs)))
    return Answers(done, why_not(chosen))


def why_not(chosen: Sequence[Proxy]) -> dict[str, str]:
    """Why some of these nodes cannot be asked."""
    can_be = {each.node for each in askable(chosen)}
    return {each.node: _why_not(each) for each in chosen if each.node not in can_be}


def _why_not(proxy: Proxy) -> str:
    if proxy.why:
        return proxy.why
    return f"it runs the Go kube-proxy ({proxy.image}), which cannot be asked"


def decoded(answers: Answers, type_: type[T], names: PodNames) -> tuple[dict[str, T], Answers]:
    """The JSON that nodes printed, with the names of pods; those without it are errors now."""
    found: dict[str, T] = {}
    errors = dict(answers.errors)
    for node, done in answers.done.items():
        try:
            value = named_values(msgspec.json.decode(done.out), names)
            found[node] = msgspec.convert(value, type_)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            errors[node] = done.err if done.code else f"it is of another version: {error}"
    return found, Answers(answers.done, errors)


# --- how they are -----------------------------------------------------------------------------


def reports(cluster: Cluster, chosen: Sequence[Proxy]) -> list[NodeReport]:
    """How each node is."""
    jobs = {each.node: partial(_report, cluster.kubectl, each) for each in chosen}
    shown = shown_progress("asked nodes", len(jobs))
    return list(at_once(jobs, cluster.limit, shown).values())


def _report(kubectl: Kubectl, proxy: Proxy) -> NodeReport:
    if proxy.why:
        return without_answer(proxy, Grade.DOWN, proxy.why)
    if proxy.kind is Kind.GO:
        return _of_go(kubectl, proxy)
    done = kubectl.run(kubectl.inside(proxy, ("status", "-o=json"), "--stdin=false"))
    if done.out.startswith(b"{"):
        return answered(proxy, done.out)
    return without_answer(proxy, Grade.SILENT, done.err)


def _of_go(kubectl: Kubectl, proxy: Proxy) -> NodeReport:
    """What can be known of another's proxy: nothing is run in its pod."""

    def page(port: int, path: str) -> Done:
        pod = f"/api/v1/namespaces/{proxy.namespace}/pods/{proxy.pod}:{port}/proxy/{path}"
        return kubectl.run(["get", f"--raw={pod}"])

    health, mode = page(_HEALTH_PORT, "healthz"), page(_METRICS_PORT, "proxyMode")
    shown = "" if mode.code else mode.out.decode(errors="replace").strip()
    return answered_by_go(proxy, health.err if health.code else "", shown)
