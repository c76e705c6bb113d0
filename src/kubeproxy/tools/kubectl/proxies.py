"""Pods and Nodes, as `kubectl get -o json` prints them -> which proxy runs on which node."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from enum import Enum
from typing import Final

import msgspec

from kubeproxy.base.errors import OperatorError

NAMESPACE: Final = "kube-system"
OURS: Final = "kubeproxy"
SELECTOR: Final = f"k8s-app in ({OURS},kube-proxy)"
_CONTAINER: Final = "kube-proxy"
_LABEL: Final = "k8s-app"
_SHOWN: Final = 10


class Kind(Enum):
    """Whose proxy runs on a node."""

    OURS = "kubeproxy"
    GO = "Go kube-proxy"
    NONE = "none"


class Proxy(msgspec.Struct, frozen=True):
    """The proxy of a node. `why` says why it cannot be asked, "" when it can."""

    node: str
    kind: Kind
    namespace: str = ""
    pod: str = ""
    container: str = ""
    image: str = ""
    why: str = ""

    @property
    def tag(self) -> str:
        """The tag of its image; "" where that is a digest, or none."""
        tag = self.image.partition("@")[0].rpartition("/")[2].partition(":")[2]
        return tag.strip()


# --- what kubectl prints ----------------------------------------------------------------------


class _Meta(msgspec.Struct, frozen=True):
    name: str
    namespace: str = ""
    labels: dict[str, str] | None = None
    deletion: str | None = msgspec.field(name="deletionTimestamp", default=None)


class _Container(msgspec.Struct, frozen=True):
    name: str
    image: str = ""


class _PodSpec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""
    containers: tuple[_Container, ...] = ()


class _Waiting(msgspec.Struct, frozen=True):
    reason: str = ""


class _ContainerState(msgspec.Struct, frozen=True):
    waiting: _Waiting | None = None
    running: dict[str, str] | None = None


class _ContainerStatus(msgspec.Struct, frozen=True):
    name: str
    state: _ContainerState = _ContainerState()


class _Address(msgspec.Struct, frozen=True):
    ip: str


class _PodStatus(msgspec.Struct, frozen=True, rename="camel"):
    phase: str = ""
    container_statuses: tuple[_ContainerStatus, ...] = ()
    pod_ips: tuple[_Address, ...] = msgspec.field(name="podIPs", default=())


class Pod(msgspec.Struct, frozen=True):
    """A Pod."""

    metadata: _Meta
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()

    @property
    def addresses(self) -> tuple[str, ...]:
        """Its addresses, none before it has any."""
        return tuple(each.ip for each in self.status.pod_ips)


class Pods(msgspec.Struct, frozen=True):
    """A list of Pods."""

    items: tuple[Pod, ...]


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str


class _NodeStatus(msgspec.Struct, frozen=True):
    conditions: tuple[_Condition, ...] = ()


class Node(msgspec.Struct, frozen=True):
    """A Node."""

    metadata: _Meta
    status: _NodeStatus = _NodeStatus()

    @property
    def is_ready(self) -> bool:
        """Whether its kubelet says that it is, of late."""
        return any(each.type == "Ready" and each.status == "True" for each in self.conditions)

    @property
    def conditions(self) -> tuple[_Condition, ...]:
        """What its kubelet says of it."""
        return self.status.conditions

    @property
    def is_linux(self) -> bool:
        """Whether a proxy of this kind could run there."""
        labels = self.metadata.labels or {}
        return labels.get("kubernetes.io/os", "linux") == "linux"


class Nodes(msgspec.Struct, frozen=True):
    """A list of Nodes."""

    items: tuple[Node, ...]


# --- which proxy is where ---------------------------------------------------------------------


def proxies(pods: Iterable[Pod], nodes: Sequence[Node], *, all_ours: bool = False) -> list[Proxy]:
    """The proxy of each node, by name; nodes without one are named too, where they are known.

    Pods that end, and those that wait for a node, count only where there is no other. `all_ours`
    is for pods that the user selected: they are asked, whatever their labels.
    """
    found: dict[str, Proxy] = {}
    for pod in sorted(pods, key=_rank):
        if pod.spec.node_name:
            found.setdefault(pod.spec.node_name, _proxy(pod, all_ours=all_ours))
    ready = {node.metadata.name: node.is_ready for node in nodes if node.is_linux}
    for name in ready:
        found.setdefault(name, Proxy(name, Kind.NONE, why="no pod of kube-proxy is on this node"))
    return [_with_node(found[name], is_ready=ready.get(name, True)) for name in sorted(found)]


def _rank(pod: Pod) -> tuple[bool, bool, bool]:
    """The one that works comes first."""
    return (pod.metadata.deletion is not None, pod.status.phase != "Running", not _is_ours(pod))


def _is_ours(pod: Pod) -> bool:
    return (pod.metadata.labels or {}).get(_LABEL) == OURS


def _proxy(pod: Pod, *, all_ours: bool) -> Proxy:
    containers = pod.spec.containers or (_Container(""),)
    main = next((each for each in containers if each.name == _CONTAINER), containers[0])
    return Proxy(
        node=pod.spec.node_name,
        kind=Kind.OURS if all_ours or _is_ours(pod) else Kind.GO,
        namespace=pod.metadata.namespace,
        pod=pod.metadata.name,
        container=main.name,
        image=main.image,
        why=_why_not(pod, main.name),
    )


def _why_not(pod: Pod, container: str) -> str:
    """Why nothing can be run in a pod."""
    of_it = (each for each in pod.status.container_statuses if each.name == container)
    state = next(of_it, _ContainerStatus("")).state
    if state.running is not None:
        return ""
    if state.waiting is not None and state.waiting.reason:
        return f"pod {pod.metadata.name} does not run: {state.waiting.reason}"
    return f"pod {pod.metadata.name} does not run: {pod.status.phase or 'no state'}"


def _with_node(proxy: Proxy, *, is_ready: bool) -> Proxy:
    if is_ready or not proxy.why:
        return proxy
    return msgspec.structs.replace(proxy, why=f"{proxy.why}, and the Node is not Ready")


# --- which of them are meant ------------------------------------------------------------------


def on_nodes(found: Iterable[Proxy], wanted: Collection[str]) -> list[Proxy]:
    """The proxies of these nodes; an error names the nodes that there are."""
    by_node = {each.node: each for each in found}
    for name in wanted:
        if name not in by_node:
            raise OperatorError(f"there is no kube-proxy on node {name}: {_shown(by_node)}")
    return [by_node[name] for name in dict.fromkeys(wanted)]


def _shown(names: Collection[str]) -> str:
    if not names:
        return "there is none on any node"
    return f"nodes are {some(names)}"


def some(names: Collection[str]) -> str:
    """A list of names, of which very many are counted."""
    more = len(names) - _SHOWN
    return ", ".join(list(names)[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def named(text: str) -> tuple[str, str]:
    """The namespace and the name of a pod, written as [NAMESPACE/]NAME."""
    namespace, slash, name = text.rpartition("/")
    if not name or "/" in namespace or (slash and not namespace):
        raise OperatorError(f"no Pod has the name {text}: give [NAMESPACE/]NAME")
    return namespace or "default", name


def askable(found: Iterable[Proxy]) -> Iterator[Proxy]:
    """Those that have our commands, and can be asked."""
    return (each for each in found if each.kind is Kind.OURS and not each.why)
